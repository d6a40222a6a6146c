//! A plan as a table, as Graphviz or as Mermaid. Pure: a plan in, text out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::args::Format;
use super::output::{Sheet, Style, write_rows, write_table, write_value};
use crate::domain::mapping::{CopiedBy, Mapped};
use crate::domain::model::{Plan, PlanStep, Refusal, short_id};
use crate::present::{blocker_words_in_full, count, target_in_full};

/// Maximum number of refusals in text: the first tell enough, and a network may have 10,000 ports.
const REFUSALS_SHOWN: usize = 10;

/// # Errors
/// The output cannot be written.
pub fn write_plan(
    out: &mut dyn Write,
    style: Style,
    format: Format,
    plan: &Plan,
) -> io::Result<()> {
    match format {
        Format::Table => write_as_table(out, style, plan),
        Format::Dot => write_as_dot(out, style, plan),
        Format::Mermaid => write_as_mermaid(out, style, plan),
        Format::Csv => write_rows::<()>(out, style, format, &csv_sheet(plan), &[]),
        Format::Json | Format::Jsonl | Format::Yaml => {
            write_value(out, style, format, plan).map(drop)
        }
    }
}

fn write_as_table(out: &mut dyn Write, style: Style, plan: &Plan) -> io::Result<()> {
    writeln!(out, "{}", style.safe(&headline(plan)))?;
    if !plan.steps.is_empty() {
        writeln!(out)?;
        let mut sheet = Sheet::new([
            "ORDER", "ACTION", "KIND", "NAME", "ID", "PROJECT", "SITE", "WHY",
        ]);
        for (position, step) in in_order(&plan.steps).into_iter().enumerate() {
            let order = (position + 1).to_string();
            let action = step.action.as_str().to_owned();
            sheet.push([order, action].into_iter().chain(cells(step)));
        }
        write_table(out, style, &sheet)?;
    }
    let sections = [
        (
            "Automatic: the cloud removes these by itself",
            &plan.automatic,
        ),
        ("Unset: these stay, and lose a reference", &plan.unset),
    ];
    for (title, steps) in sections {
        if steps.is_empty() {
            continue;
        }
        writeln!(out, "\n{title}")?;
        let mut sheet = Sheet::new(["KIND", "NAME", "ID", "PROJECT", "SITE", "WHY"]);
        for step in steps {
            sheet.push(cells(step));
        }
        write_table(out, style, &sheet)?;
    }
    if !plan.mapping.is_empty() {
        writeln!(
            out,
            "\nCopies: these go with their original, which goes last"
        )?;
        for mapped in &plan.mapping {
            writeln!(out, "  {}", style.safe(&copies(mapped)))?;
        }
    }
    if !plan.warnings.is_empty() {
        writeln!(out, "\nWarnings")?;
        for warning in &plan.warnings {
            writeln!(out, "  {}", style.safe(warning))?;
        }
    }
    write_refusals(out, style, &plan.refused)
}

/// Writes why a plan must not start: each refused resource, the reason, and the blocker.
///
/// # Errors
/// The output cannot be written.
pub fn write_refusals(out: &mut dyn Write, style: Style, refused: &[Refusal]) -> io::Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nRefused: nothing will be sent")?;
    for refusal in refused.iter().take(REFUSALS_SHOWN) {
        let target = target_in_full(&refusal.resource);
        writeln!(
            out,
            "  {}: {}",
            style.safe(&target),
            style.safe(&refusal.reason)
        )?;
        if let Some(blocker) = &refusal.blocker {
            let line = blocker_words_in_full(blocker);
            writeln!(out, "    blocked by {}", style.safe(&line))?;
        }
    }
    match refused.len().saturating_sub(REFUSALS_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more; -o json has them all"),
    }
}

/// Counts copies: `network/4fdb…@prod/RegionOne by its tag: 1 at prod/RegionTwo, none at edge/RegionOne`.
fn copies(mapped: &Mapped) -> String {
    let by = match mapped.by {
        CopiedBy::Tag => "tag",
        CopiedBy::Name => "name",
        CopiedBy::Id => "id",
    };
    let locals = mapped.locals.iter().map(|local| {
        let number = match local.copies.len() {
            0 => "none".to_owned(),
            some => some.to_string(),
        };
        format!("{number} at {}", local.site)
    });
    let locals: Vec<String> = locals.collect();
    format!("{} by its {by}: {}", mapped.original, locals.join(", "))
}

fn headline(plan: &Plan) -> String {
    let targets: Vec<String> = plan.targets.iter().take(3).map(target_in_full).collect();
    let more = plan.targets.len().saturating_sub(3);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Plan {} for {}{more}: {}, {} automatic, {} unset, at most {} calls",
        short_id(&plan.hash),
        targets.join(", "),
        count(plan.steps.len(), "step"),
        plan.automatic.len(),
        plan.unset.len(),
        plan.calls_estimate,
    )
}

fn cells(step: &PlanStep) -> [String; 6] {
    [
        step.kind.to_string(),
        step.name.clone(),
        step.resource_id.clone(),
        step.project_id.to_string(),
        step.site.to_string(),
        step.why.to_string(),
    ]
}

fn csv_sheet(plan: &Plan) -> Sheet {
    let mut sheet = Sheet::new([
        "PART",
        "ORDER",
        "ACTION",
        "KIND",
        "NAME",
        "ID",
        "PROJECT",
        "SITE",
        "WHY",
        "DEPENDS ON",
    ]);
    let steps = in_order(&plan.steps);
    let order: BTreeMap<u32, usize> = steps
        .iter()
        .enumerate()
        .map(|(position, step)| (step.id, position + 1))
        .collect();
    let parts = [
        ("step", steps),
        ("automatic", plan.automatic.iter().collect()),
        ("unset", plan.unset.iter().collect()),
    ];
    for (part, steps) in parts {
        for step in steps {
            let number = |id: &u32| order.get(id).map(ToString::to_string);
            let depends: Vec<String> = step.depends_on.iter().filter_map(number).collect();
            let head = [
                part.to_owned(),
                number(&step.id).unwrap_or_default(),
                step.action.as_str().to_owned(),
            ];
            sheet.push(
                head.into_iter()
                    .chain(cells(step))
                    .chain([depends.join(" ")]),
            );
        }
    }
    sheet
}

/// Returns the steps so that each follows those that must go before it, otherwise in the plan's order.
/// Steps in a cycle (such a plan is refused) come last.
pub fn in_order(steps: &[PlanStep]) -> Vec<&PlanStep> {
    let by_id: BTreeMap<u32, &PlanStep> = steps.iter().map(|step| (step.id, step)).collect();
    let mut dependents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut waits: BTreeMap<u32, usize> = BTreeMap::new();
    for step in steps {
        let first = step.depends_on.iter().filter(|id| by_id.contains_key(id));
        let first: BTreeSet<&u32> = first.collect();
        waits.insert(step.id, first.len());
        for id in first {
            dependents.entry(*id).or_default().push(step.id);
        }
    }
    let free = waits.iter().filter(|(_, waits)| **waits == 0);
    let mut free: BTreeSet<u32> = free.map(|(id, _)| *id).collect();
    let mut ordered = Vec::with_capacity(steps.len());
    let mut placed = BTreeSet::new();
    while let Some(id) = free.pop_first() {
        ordered.extend(by_id.get(&id));
        placed.insert(id);
        for dependent in dependents.get(&id).into_iter().flatten() {
            if let Some(waits) = waits.get_mut(dependent) {
                *waits -= 1;
                if *waits == 0 {
                    free.insert(*dependent);
                }
            }
        }
    }
    ordered.extend(steps.iter().filter(|step| !placed.contains(&step.id)));
    ordered
}

/// Writes the plan for Graphviz: an arrow leads from a step to the step that waits for it.
fn write_as_dot(out: &mut dyn Write, style: Style, plan: &Plan) -> io::Result<()> {
    let quoted = |text: &str| {
        let safe = style.safe(text);
        format!("\"{}\"", safe.replace('\\', "\\\\").replace('"', "\\\""))
    };
    writeln!(out, "digraph plan {{")?;
    writeln!(out, "  rankdir=LR; node [shape=box];")?;
    for step in &plan.steps {
        writeln!(out, "  s{} [label={}];", step.id, quoted(&label(step)))?;
    }
    for (steps, look) in [(&plan.automatic, "dotted"), (&plan.unset, "dashed")] {
        for step in steps {
            let label = quoted(&label(step));
            writeln!(out, "  s{} [label={label}, style={look}];", step.id)?;
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
        let label = style.safe(&label(step)).into_owned();
        // Mermaid takes entity codes between # and ; and knows no other escape.
        let label = label
            .replace('#', "#35;")
            .replace('"', "#quot;")
            .replace('<', "#lt;")
            .replace('>', "#gt;");
        writeln!(out, "  s{}[\"{label}\"]", step.id)?;
    }
    for step in all_steps(plan) {
        for first in &step.depends_on {
            writeln!(out, "  s{first} --> s{}", step.id)?;
        }
    }
    for (steps, look) in [(&plan.automatic, "2 4"), (&plan.unset, "8 4")] {
        for step in steps {
            writeln!(out, "  style s{} stroke-dasharray: {look}", step.id)?;
        }
    }
    Ok(())
}

fn all_steps(plan: &Plan) -> impl Iterator<Item = &PlanStep> {
    plan.steps.iter().chain(&plan.automatic).chain(&plan.unset)
}

fn label(step: &PlanStep) -> String {
    let name = if step.name.is_empty() {
        &step.resource_id
    } else {
        &step.name
    };
    format!("{} {} {name}", step.action.as_str(), step.kind)
}
