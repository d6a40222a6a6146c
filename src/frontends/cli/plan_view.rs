//! A plan as a table or CSV, for Graphviz or for Mermaid. Pure: a plan in, text out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::args::Format;
use super::output::{Printer, Style};
use crate::domain::model::{CopiedBy, Mapped, Plan, PlanStep, Refusal, short_id};
use crate::domain::plan::ADD_CASCADE;
use crate::present::{
    Sheet, and_more, blocker_words_in_full, columns, joined, name_or_whole_id, or_empty,
    plan_words, target_in_full,
};

/// Maximum number of refusals in text: the first are enough to act on, and a network may have 10,000 ports.
const REFUSALS_SHOWN: usize = 10;

/// A row of a plan's table.
struct Row {
    /// The part of the plan: `step`, `automatic` or `unset`.
    part: &'static str,
    /// The step's position in the order, from 1; empty for automatic and unset resources.
    order: String,
    depends_on: String,
    step: PlanStep,
}

columns! {
    ALL: Row, |row|
    "PART" 9 => row.part;
    "ORDER" 6 => row.order;
    "ACTION" 9 => row.step.action.as_str();
    "KIND" 9 => row.step.kind;
    "NAME" 8 => row.step.name;
    "ID" 7 => row.step.resource_id;
    "PROJECT" 3 => row.step.project_id;
    "SITE" 4 => row.step.site;
    "WHY" 5 => row.step.why;
    "DEPENDS ON" 9 => row.depends_on;
}

pub fn write_plan(to: &mut Printer<'_>, plan: &Plan) -> io::Result<()> {
    match to.format {
        Format::Table | Format::Wide => write_for_people(to, plan),
        Format::Dot => write_as_dot(to.stream, to.style, plan),
        Format::Mermaid => write_as_mermaid(to.stream, to.style, plan),
        Format::Csv => to.rows::<()>(&Sheet::of(ALL, &rows(plan)), &[]),
        Format::Svg => Err(io::Error::other("svg draws trees only")),
        Format::Json | Format::Jsonl | Format::Yaml => to.value(plan).map(drop),
    }
}

fn rows(plan: &Plan) -> Vec<Row> {
    let steps = in_order(&plan.steps);
    let order = steps.iter().map(|step| step.id).zip(1..);
    let order: BTreeMap<u32, u32> = order.collect();
    let row = |part, step: &PlanStep| {
        let number = |id: &u32| order.get(id);
        Row {
            part,
            order: or_empty(number(&step.id)),
            depends_on: joined(step.depends_on.iter().filter_map(number), " "),
            step: step.clone(),
        }
    };
    let steps = steps.into_iter().map(|step| row("step", step));
    let automatic = plan.automatic.iter().map(|step| row("automatic", step));
    let unset = plan.unset.iter().map(|step| row("unset", step));
    steps.chain(automatic).chain(unset).collect()
}

fn write_for_people(to: &mut Printer<'_>, plan: &Plan) -> io::Result<()> {
    to.say(headline(plan))?;
    let rows = rows(plan);
    let automatic = "Automatic: the cloud removes these by itself";
    let unset = "Unset: these stay, and lose a reference";
    let sections = [
        ("step", "", 1),
        ("automatic", automatic, 3),
        ("unset", unset, 3),
    ];
    for (part, title, from) in sections {
        let rows = rows.iter().filter(|row| row.part == part);
        let sheet = Sheet::of(&ALL[from..9], rows);
        if !sheet.is_empty() {
            to.title(title)?;
            to.table(&sheet)?;
        }
    }
    let title = "Copies: these are deleted with their original, which is deleted last";
    to.section(title, plan.mapping.iter().map(copies))?;
    to.section("Warnings", &plan.warnings)?;
    write_refusals(to, &plan.refused)
}

/// Writes why a plan must not start: the first refused resources, each with the reason and the blocker, and the number
/// of the others.
pub fn write_refusals(to: &mut Printer<'_>, refused: &[Refusal]) -> io::Result<()> {
    let lines = refused.iter().take(REFUSALS_SHOWN).flat_map(|refusal| {
        let target = target_in_full(&refusal.resource);
        let blocker = refusal.blocker.as_ref().map(blocker_words_in_full);
        let blocker = blocker.map(|words| format!("  blocked by {words}"));
        [format!("{target}: {}", with_options(&refusal.reason))]
            .into_iter()
            .chain(blocker)
    });
    let more = refused.len().saturating_sub(REFUSALS_SHOWN);
    let more = (more > 0).then(|| format!("and {more} more; -o json has them all"));
    to.section("Refused: nothing will be sent", lines.chain(more))
}

/// Names the option `--cascade` in a reason that advises the cascade.
pub(super) fn with_options(reason: &str) -> String {
    reason.replace(ADD_CASCADE, "; add --cascade to delete it too")
}

/// Counts copies: `network/4fdb…@prod/RegionOne by its tag: 1 at prod/RegionTwo, none at edge/RegionOne`.
fn copies(mapped: &Mapped) -> String {
    let by = match mapped.by {
        CopiedBy::Tag => "tag",
        CopiedBy::Name => "name",
        CopiedBy::Id => "id",
    };
    let locals = mapped.locals.iter().map(|local| match local.copies.len() {
        0 => format!("none at {}", local.site),
        some => format!("{some} at {}", local.site),
    });
    format!("{} by its {by}: {}", mapped.original, joined(locals, ", "))
}

fn headline(plan: &Plan) -> String {
    let targets = joined(plan.targets.iter().take(3).map(target_in_full), ", ");
    let more = and_more(plan.targets.len().saturating_sub(3));
    let (id, words) = (short_id(&plan.hash), plan_words(plan, ", "));
    format!("Plan {id} for {targets}{more}: {words}")
}

/// Returns the steps so that each follows those that must go before it, otherwise by id. Steps in a cycle, and those
/// that depend on them, come last (a plan with a cycle is refused).
pub fn in_order(steps: &[PlanStep]) -> Vec<&PlanStep> {
    let by_id: BTreeMap<u32, &PlanStep> = steps.iter().map(|step| (step.id, step)).collect();
    let order = dependencies_first(steps.iter().map(|step| (step.id, &step.depends_on[..])));
    let steps = order.iter().filter_map(|id| by_id.get(id));
    steps.copied().collect()
}

/// Orders ids, each given with those that it depends on, so that each follows its dependencies; otherwise
/// by id. Those in a cycle, and those that depend on them, come last.
pub(super) fn dependencies_first<'a, Id: Copy + Ord + 'a>(
    nodes: impl IntoIterator<Item = (Id, &'a [Id])>,
) -> Vec<Id> {
    let nodes: BTreeMap<Id, &[Id]> = nodes.into_iter().collect();
    let mut dependents: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
    let mut waits: BTreeMap<Id, usize> = BTreeMap::new();
    for (id, depends_on) in &nodes {
        let known = depends_on.iter().filter(|first| nodes.contains_key(first));
        let known: BTreeSet<&Id> = known.collect();
        waits.insert(*id, known.len());
        for first in known {
            dependents.entry(*first).or_default().push(*id);
        }
    }
    let free = waits.iter().filter(|(_, waits)| **waits == 0);
    let mut free: BTreeSet<Id> = free.map(|(id, _)| *id).collect();
    let mut ordered = Vec::with_capacity(nodes.len());
    while let Some(id) = free.pop_first() {
        ordered.push(id);
        waits.remove(&id);
        for dependent in dependents.get(&id).into_iter().flatten() {
            if let Some(waits) = waits.get_mut(dependent) {
                *waits -= 1;
                if *waits == 0 {
                    free.insert(*dependent);
                }
            }
        }
    }
    ordered.extend(waits.into_keys());
    ordered
}

/// Writes the plan for Graphviz: an arrow leads from a step to the step that waits for it.
fn write_as_dot(out: &mut dyn Write, style: Style, plan: &Plan) -> io::Result<()> {
    writeln!(out, "digraph plan {{")?;
    writeln!(out, "  rankdir=LR; node [shape=box];")?;
    for step in &plan.steps {
        writeln!(out, "  s{} [label={}];", step.id, style.dot(&label(step)))?;
    }
    for (steps, line) in [(&plan.automatic, "dotted"), (&plan.unset, "dashed")] {
        for step in steps {
            let label = style.dot(&label(step));
            writeln!(out, "  s{} [label={label}, style={line}];", step.id)?;
        }
    }
    for step in all_steps(plan) {
        for first in &step.depends_on {
            writeln!(out, "  s{first} -> s{};", step.id)?;
        }
    }
    writeln!(out, "}}")
}

fn write_as_mermaid(out: &mut dyn Write, style: Style, plan: &Plan) -> io::Result<()> {
    writeln!(out, "flowchart LR")?;
    for step in all_steps(plan) {
        let label = style.mermaid(&label(step));
        writeln!(out, "  s{}[\"{label}\"]", step.id)?;
    }
    for step in all_steps(plan) {
        for first in &step.depends_on {
            writeln!(out, "  s{first} --> s{}", step.id)?;
        }
    }
    for (steps, dashes) in [(&plan.automatic, "2 4"), (&plan.unset, "8 4")] {
        for step in steps {
            writeln!(out, "  style s{} stroke-dasharray: {dashes}", step.id)?;
        }
    }
    Ok(())
}

fn all_steps(plan: &Plan) -> impl Iterator<Item = &PlanStep> {
    plan.steps.iter().chain(&plan.automatic).chain(&plan.unset)
}

fn label(step: &PlanStep) -> String {
    let name = name_or_whole_id(&step.name, &step.resource_id);
    format!("{} {} {name}", step.action.as_str(), step.kind)
}
