//! `gone tree`: a deletion's steps as a tree: below each step are those that must go before it.
//!
//! A step that several others wait for appears once, below the deepest of them (a port below its subnet, and not a
//! second time directly below the network). A step's blockers at other deployments are below it too.

mod drawn;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use clap::Args;
use serde::Serialize;

pub use self::drawn::draw;

use super::output::Printer;
use super::plan_view::dependencies_first;
use super::{Exit, Failure, Session, Verb, columns};
use crate::domain::awaiting::{NestedBlocker, awaits_clearance, tree_of};
use crate::domain::model::{Blocker, Step, StepState, short_id};
use crate::present::{
    answer_words, blocked_by_words, blocker_words_in_full, count, joined, state_words,
};

/// From this number of equal siblings on, one line represents all of them.
const FOLD_FROM: usize = 4;

/// Show a deletion's steps as a tree, dependents below the steps that wait for them
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone tree 9f86d081
  gone tree 9f86d081 -o json            nested, each with its children
  gone tree 9f86d081 -o svg > tree.svg  a drawing; dot and mermaid draw it too")]
pub struct Tree {
    /// A deletion's id, or its last 8 characters
    pub id: String,
}

impl Verb for Tree {
    const DRAWS: bool = true;
    const READS: bool = true;

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("show the tree of {}", self.id);
        let deletion = session.deletion(&self.id).await?;
        let mut steps = session.steps(&deletion.id, &[]).await?;
        let completed = session.control.complete_dependencies(&mut steps);
        session.or_interrupted("", completed).await??;
        let roots = nest(&steps);
        if draw(&mut session.out, &roots)? {
            return Ok(Exit::Done);
        }
        let (id, state) = (short_id(&deletion.id), state_words(&deletion));
        session.out.report(
            &roots,
            |out| out.list(columns::RESULTS, &steps),
            |out| {
                out.say(format!("Deletion {id}: {state}"))?;
                write_tree(out, &roots)
            },
        )?;
        Ok(Exit::Done)
    }
}

/// A step, with the steps that must go before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node<'a> {
    #[serde(flatten)]
    pub step: &'a Step,
    pub children: Vec<Node<'a>>,
}

/// Returns the roots in the order of their ids: the steps that no other waits for. If steps form a cycle, some of them
/// are roots although others wait for them.
pub fn nest(steps: &[Step]) -> Vec<Node<'_>> {
    let by_id: BTreeMap<i64, &Step> = steps.iter().map(|step| (step.id, step)).collect();
    let order = dependencies_first(steps.iter().map(|step| (step.id, &step.depends_on[..])));
    let places = order.iter().enumerate().map(|(place, id)| (*id, place));
    let places: BTreeMap<i64, usize> = places.collect();
    // Each step's longest distance from a root, and the deepest of the steps that wait for it. A step comes
    // after those that wait for it, so its own distance is known by then.
    let mut above: BTreeMap<i64, (usize, Option<i64>)> = BTreeMap::new();
    for id in order.iter().rev() {
        let (depth, _) = above.get(id).copied().unwrap_or_default();
        for first in by_id.get(id).iter().flat_map(|step| &step.depends_on) {
            // In a cycle, a step may come before one that it waits for; to nest them would hide both.
            if places.get(first) < places.get(id) && by_id.contains_key(first) {
                let known = above.entry(*first).or_default();
                if depth + 1 > known.0 || depth + 1 == known.0 && Some(*id) < known.1 {
                    *known = (depth + 1, Some(*id));
                }
            }
        }
    }
    let mut below: BTreeMap<Option<i64>, Vec<Node<'_>>> = BTreeMap::new();
    for step in order.iter().filter_map(|id| by_id.get(id)) {
        let mut children = below.remove(&Some(step.id)).unwrap_or_default();
        children.sort_by_key(|node| node.step.id);
        let parent = above.get(&step.id).and_then(|(_, parent)| *parent);
        let siblings = below.entry(parent).or_default();
        siblings.push(Node { step, children });
    }
    let mut roots = below.remove(&None).unwrap_or_default();
    roots.sort_by_key(|node| node.step.id);
    roots
}

pub fn write_tree(to: &mut Printer<'_>, roots: &[Node<'_>]) -> io::Result<()> {
    write_level(to, roots, "", true)
}

fn write_level(
    to: &mut Printer<'_>,
    nodes: &[Node<'_>],
    indent: &str,
    top: bool,
) -> io::Result<()> {
    let glyphs = match to.style.ascii {
        true => ["|- ", "`- ", "|  "],
        false => ["├─ ", "└─ ", "│  "],
    };
    let groups = fold(nodes);
    let last = groups.len().saturating_sub(1);
    for (position, group) in groups.iter().enumerate() {
        let (branch, below) = match (top, position == last) {
            (true, _) => ("", ""),
            (false, false) => (glyphs[0], glyphs[2]),
            (false, true) => (glyphs[1], "   "),
        };
        // The glyphs are not escaped.
        write!(to.stream, "{indent}{branch}")?;
        to.say(describe(group))?;
        if let [one] = group.as_slice() {
            let indent = format!("{indent}{below}");
            write_level(to, &one.children, &indent, false)?;
            write_outside_blockers(to, one.step, &indent)?;
        }
    }
    Ok(())
}

/// Writes a step's blockers at other deployments, which still refer to its resource, with their sites. They
/// are not steps of this deletion.
fn write_outside_blockers(to: &mut Printer<'_>, step: &Step, indent: &str) -> io::Result<()> {
    let branch = if to.style.ascii { "<- " } else { "◂─ " };
    let blockers = awaits_clearance(step).then(|| tree_of(&step.blockers));
    for NestedBlocker { depth, by } in blockers.into_iter().flatten() {
        write!(to.stream, "{indent}{}{branch}", "   ".repeat(depth))?;
        to.say(format!("blocked by {}", blocker_words_in_full(by)))?;
    }
    Ok(())
}

/// Groups siblings that read the same and have nothing below them. A group has the position of its first sibling.
fn fold<'n, 'a>(nodes: &'n [Node<'a>]) -> Vec<Vec<&'n Node<'a>>> {
    let mut groups: Vec<Vec<&Node<'_>>> = Vec::new();
    let mut places = BTreeMap::new();
    for node in nodes {
        let step = node.step;
        let is_leaf = node.children.is_empty() && !awaits_clearance(step);
        let place = match is_leaf {
            true => {
                let words = (step.action, step.state, reason(step));
                let place = places.entry((&step.resource.key.kind, words));
                *place.or_insert(groups.len())
            }
            false => groups.len(),
        };
        match groups.get_mut(place) {
            Some(group) => group.push(node),
            None => groups.push(vec![node]),
        }
    }
    let groups = groups.iter().flat_map(|group| {
        let is_folded = group.len() >= FOLD_FROM;
        let size = if is_folded { group.len() } else { 1 };
        group.chunks(size).map(<[_]>::to_vec)
    });
    groups.collect()
}

/// `delete port web-1 (4fdb…) [blocked] blocked by …`, or `delete 12 ports [gone]`.
fn describe(group: &[&Node<'_>]) -> String {
    let Some(step) = group.first().map(|node| node.step) else {
        return String::new();
    };
    let (kind, id) = (step.resource.key.kind.as_str(), &step.resource.key.id);
    let what = match (group.len(), step.resource.name.as_str()) {
        (1, "") => format!("{kind} {id}"),
        (1, name) => format!("{kind} {name} ({id})"),
        (steps, _) => count(steps, kind),
    };
    let (action, state) = (step.action.as_str(), step.state.as_str());
    format!("{action} {what} [{state}]{}", reason(step))
}

fn reason(step: &Step) -> String {
    if !matches!(step.state, StepState::Blocked | StepState::Stuck) {
        return String::new();
    }
    if let Some(awaited) = awaited(step) {
        return format!(" waits for the clearance of {awaited}");
    }
    match (blocked_by_words(step).as_str(), &step.last_error) {
        ("", None) => String::new(),
        ("", Some(error)) => format!(" {}", answer_words(error)),
        (blockers, _) => format!(" blocked by {blockers}"),
    }
}

/// Names the deployments that block the step, as `d0-1, d0-2`; their resources are below the step.
fn awaited(step: &Step) -> Option<String> {
    let direct = |by: &&Blocker| by.holds.is_none() && awaits_clearance(step);
    let sites = step.blockers.iter().filter(direct);
    let sites: BTreeSet<String> = sites.map(|blocker| blocker.site.to_string()).collect();
    (!sites.is_empty()).then(|| joined(sites, ", "))
}
