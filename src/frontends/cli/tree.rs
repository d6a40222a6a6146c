//! A deletion's steps as a tree: below each step are those that must go before it. Pure.
//!
//! A step that several others wait for appears once, below the deepest of them (a port below its subnet, not
//! below the network beside it). A step's blockers at other deployments are below it too.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use super::columns::blockers;
use super::output::Style;
use crate::domain::awaiting::{NestedBlocker, awaits_clearance, tree_of};
use crate::domain::model::{Blocker, Step, StepState};
use crate::present::{answer_words, blocker_words_in_full, count};

/// Number of equal siblings from which one line represents all.
const FOLD_FROM: usize = 4;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node<'a> {
    #[serde(flatten)]
    pub step: &'a Step,
    pub children: Vec<Node<'a>>,
}

/// Returns the roots, which are the steps that no other waits for, in the order of their ids.
pub fn nest(steps: &[Step]) -> Vec<Node<'_>> {
    let by_id: BTreeMap<i64, &Step> = steps.iter().map(|step| (step.id, step)).collect();
    let depths = depths(&by_id);
    let depth = |id: i64| depths.get(&id).copied().unwrap_or_default();
    let mut parents: BTreeMap<i64, i64> = BTreeMap::new();
    for step in by_id.values() {
        for first in &step.depends_on {
            let deeper = parents
                .get(first)
                .is_none_or(|parent| depth(step.id) > depth(*parent));
            // A step is not above the one it waits for only in a cycle; to nest them would hide both.
            if deeper && by_id.contains_key(first) && depth(step.id) < depth(*first) {
                parents.insert(*first, step.id);
            }
        }
    }
    let mut children: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
    for id in by_id.keys() {
        children
            .entry(parents.get(id).copied())
            .or_default()
            .push(*id);
    }
    // The deepest come first, so that every node's children are complete when it is created.
    let mut order: Vec<i64> = by_id.keys().copied().collect();
    order.sort_by_key(|id| std::cmp::Reverse(depth(*id)));
    let mut nodes: BTreeMap<i64, Node<'_>> = BTreeMap::new();
    let take = |nodes: &mut BTreeMap<i64, Node<'_>>, parent: Option<i64>| -> Vec<i64> {
        let ids = children.get(&parent).cloned().unwrap_or_default();
        ids.into_iter()
            .filter(|id| nodes.contains_key(id))
            .collect()
    };
    for id in order {
        let Some(step) = by_id.get(&id) else { continue };
        let ids = take(&mut nodes, Some(id));
        let children = ids.iter().filter_map(|id| nodes.remove(id)).collect();
        nodes.insert(id, Node { step, children });
    }
    nodes.into_values().collect()
}

/// Returns each step's longest distance from a root. A step is visited once all that wait for it have been;
/// so steps in a cycle are never visited.
fn depths(by_id: &BTreeMap<i64, &Step>) -> BTreeMap<i64, usize> {
    let mut waits_for_me: BTreeMap<i64, usize> = BTreeMap::new();
    for step in by_id.values() {
        for first in step.depends_on.iter().filter(|id| by_id.contains_key(id)) {
            *waits_for_me.entry(*first).or_default() += 1;
        }
    }
    let is_root = |id: &&i64| !waits_for_me.contains_key(id);
    let mut free: Vec<i64> = by_id.keys().filter(is_root).copied().collect();
    let mut depths: BTreeMap<i64, usize> = free.iter().map(|id| (*id, 0)).collect();
    while let Some(id) = free.pop() {
        let depth = depths.get(&id).copied().unwrap_or_default();
        let firsts = by_id.get(&id).map(|step| step.depends_on.as_slice());
        for first in firsts.unwrap_or_default() {
            let Some(waits) = waits_for_me.get_mut(first) else {
                continue;
            };
            let deepest = depths.entry(*first).or_default();
            *deepest = (*deepest).max(depth + 1);
            *waits -= 1;
            if *waits == 0 {
                free.push(*first);
            }
        }
    }
    depths
}

/// # Errors
/// The output cannot be written.
pub fn write_tree(out: &mut dyn Write, style: Style, roots: &[Node<'_>]) -> io::Result<()> {
    write_level(out, style, roots, "", true)
}

fn write_level(
    out: &mut dyn Write,
    style: Style,
    nodes: &[Node<'_>],
    indent: &str,
    top: bool,
) -> io::Result<()> {
    let glyphs = if style.ascii {
        ["|- ", "`- ", "|  "]
    } else {
        ["├─ ", "└─ ", "│  "]
    };
    let groups = fold(nodes);
    let last = groups.len().saturating_sub(1);
    for (position, group) in groups.iter().enumerate() {
        let (branch, below) = match (top, position == last) {
            (true, _) => ("", ""),
            (false, false) => (glyphs[0], glyphs[2]),
            (false, true) => (glyphs[1], "   "),
        };
        let line = match group.as_slice() {
            [one] => describe(one.step),
            all => describe_all(all),
        };
        writeln!(out, "{indent}{branch}{}", style.safe(&line))?;
        if let [one] = group.as_slice() {
            let indent = format!("{indent}{below}");
            write_level(out, style, &one.children, &indent, false)?;
            write_holders(out, style, one.step, &indent)?;
        }
    }
    Ok(())
}

/// Writes a step's blockers at other deployments, with their sites: they are no steps of this deletion.
fn write_holders(out: &mut dyn Write, style: Style, step: &Step, indent: &str) -> io::Result<()> {
    let branch = if style.ascii { "<- " } else { "◂─ " };
    for NestedBlocker { depth, by } in holders(step) {
        let (deeper, line) = ("   ".repeat(depth), blocker_words_in_full(by));
        writeln!(
            out,
            "{indent}{deeper}{branch}blocked by {}",
            style.safe(&line)
        )?;
    }
    Ok(())
}

/// Returns the resources at other deployments that still refer to the step's resource, and their blockers.
fn holders(step: &Step) -> Vec<NestedBlocker<'_>> {
    match awaits_clearance(step) {
        true => tree_of(&step.blockers),
        false => Vec::new(),
    }
}

/// Groups siblings that look alike and have nothing below them; a group takes the place of its first.
fn fold<'n, 'a>(nodes: &'n [Node<'a>]) -> Vec<Vec<&'n Node<'a>>> {
    let mut groups: Vec<Vec<&Node<'_>>> = Vec::new();
    let mut places: BTreeMap<(&str, &str, &str, String), usize> = BTreeMap::new();
    for node in nodes {
        let step = node.step;
        let key = (
            step.resource.key.kind.as_str(),
            step.action.as_str(),
            step.state.as_str(),
            reason(step),
        );
        let stands_alone = node.children.is_empty() && !awaits_clearance(step);
        match places.get(&key) {
            Some(place) if stands_alone => {
                if let Some(group) = groups.get_mut(*place) {
                    group.push(node);
                }
            }
            _ => {
                if stands_alone {
                    places.insert(key, groups.len());
                }
                groups.push(vec![node]);
            }
        }
    }
    groups
        .into_iter()
        .flat_map(|group| {
            if group.len() < FOLD_FROM {
                group.into_iter().map(|node| vec![node]).collect()
            } else {
                vec![group]
            }
        })
        .collect()
}

fn describe(step: &Step) -> String {
    let name = match step.resource.name.as_str() {
        "" => step.resource.key.id.clone(),
        name => format!("{name} ({})", step.resource.key.id),
    };
    format!(
        "{} {} {name} [{}]{}",
        step.action.as_str(),
        step.resource.key.kind,
        step.state.as_str(),
        reason(step)
    )
}

fn describe_all(group: &[&Node<'_>]) -> String {
    let Some(first) = group.first().map(|node| node.step) else {
        return String::new();
    };
    let kind = first.resource.key.kind.as_str();
    format!(
        "{} {} [{}]{}",
        first.action.as_str(),
        count(group.len(), kind),
        first.state.as_str(),
        reason(first)
    )
}

fn reason(step: &Step) -> String {
    if !matches!(step.state, StepState::Blocked | StepState::Stuck) {
        return String::new();
    }
    if let Some(awaited) = awaited(step) {
        return format!(" waits for the clearance of {awaited}");
    }
    match (blockers(step).as_str(), &step.last_error) {
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
    let sites: Vec<String> = sites.into_iter().collect();
    (!sites.is_empty()).then(|| sites.join(", "))
}
