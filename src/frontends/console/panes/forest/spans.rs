//! The visible rows of the tree, as spans of rows of the same kind and depth.

use super::{Forest, Known, What};

/// Beyond this number of rows, rows open only when a person opens them.
const OPEN_ROWS_MAX: usize = 2_000;

/// Consecutive rows of the same kind and depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) row: usize,
    pub(super) len: usize,
    pub(super) what: What,
    pub(super) depth: u8,
    /// Whether the last row of the span is the last of its siblings.
    pub(super) closes: bool,
    /// Bit n is set if the ancestor at depth n has siblings below, so that its line continues.
    pub(super) bars: u64,
}

impl Span {
    pub(super) fn end(&self) -> usize {
        self.row + self.len
    }

    /// Returns the `bars` of the rows below this one.
    fn bars_below(depth: u8, bars: u64, is_last: bool) -> u64 {
        match is_last || depth >= 63 {
            true => bars,
            false => bars | 1 << depth,
        }
    }
}

/// A task of the layout: the steps of a branch from an index on, or the line of a group.
#[derive(Clone, Copy)]
struct Todo {
    branch: i64,
    /// Index of the first step; `None` for the line of a group.
    from: Option<usize>,
    depth: u8,
    closes: bool,
    bars: u64,
}

impl Forest {
    /// Computes the visible rows.
    pub(crate) fn layout(&mut self) {
        self.spans.clear();
        self.unknown.clear();
        self.push(What::Refused, self.refused.len(), 0, true, 0);
        if let Some(found) = &self.found {
            let len = found.len();
            self.push(What::Found, len, 0, true, 0);
            return;
        }
        let Some(roots) = self.below.get(&None).cloned() else {
            // Resources without steps come after the steps, once these are known.
            return;
        };
        self.layout_below(&roots);
        for (part, roots) in self.sections.clone() {
            self.push(What::Section(part), 1, 0, true, 0);
            self.layout_below(&roots);
        }
        self.push(What::Warnings, self.warnings.len(), 0, true, 0);
    }

    fn push(&mut self, what: What, len: usize, depth: u8, closes: bool, bars: u64) {
        if len > 0 {
            self.spans.push(Span {
                row: self.len(),
                len,
                what,
                depth,
                closes,
                bars,
            });
        }
    }

    /// Lays out branches and everything below them, without recursion: a chain may be long.
    fn layout_below(&mut self, roots: &[i64]) {
        let mut todo = self.siblings(roots, 0, 0);
        while let Some(next) = todo.pop() {
            let Some(known) = self.branches.get(&next.branch) else {
                continue;
            };
            let Some(from) = next.from else {
                let what = What::Group(next.branch);
                self.push(what, 1, next.depth, next.closes, next.bars);
                if self.opened.contains(&next.branch) {
                    todo.push(Todo {
                        from: Some(0),
                        depth: next.depth.saturating_add(1),
                        closes: true,
                        bars: Span::bars_below(next.depth, next.bars, next.closes),
                        ..next
                    });
                }
                continue;
            };
            let total = known.total();
            let opens = self.next_open(next.branch, from);
            let end = opens.map_or(total, |(index, _)| index + 1);
            let closes = next.closes && end == total;
            let (what, len) = (What::Run(next.branch, from), end.saturating_sub(from));
            self.push(what, len, next.depth, closes, next.bars);
            if let Some((_, id)) = opens {
                if end < total {
                    todo.push(Todo {
                        from: Some(end),
                        ..next
                    });
                }
                let bars = Span::bars_below(next.depth, next.bars, closes);
                let below = self.below.get(&Some(id)).cloned();
                if below.is_none() {
                    self.unknown.push(Some(id));
                }
                let depth = next.depth.saturating_add(1);
                let is_last = below.as_ref().is_none_or(Vec::is_empty);
                self.layout_elsewhere((next.branch, end - 1), depth, bars, is_last);
                todo.extend(self.siblings(&below.unwrap_or_default(), depth, bars));
            }
        }
    }

    /// Lays out a step's blockers at other deployments, above the steps that must go before it here.
    fn layout_elsewhere(
        &mut self,
        (branch, index): (i64, usize),
        top: u8,
        bars: u64,
        is_last: bool,
    ) {
        let node = self
            .branches
            .get(&branch)
            .and_then(|known| known.node(index));
        let depths = node.into_iter().flat_map(|node| &node.elsewhere);
        let depths: Vec<usize> = depths.map(|(depth, _)| *depth).collect();
        // The bars of the rows at each depth.
        let mut bars_at = vec![bars];
        for (nth, depth) in depths.iter().copied().enumerate() {
            let mut later = depths.iter().skip(nth + 1);
            let next = later.find(|later| **later <= depth);
            let closes = match depth {
                0 => next.is_none() && is_last,
                _ => next.is_none_or(|next| *next < depth),
            };
            let bars = bars_at.get(depth).copied().unwrap_or(bars);
            let row = top.saturating_add(u8::try_from(depth).unwrap_or(u8::MAX));
            self.push(What::Elsewhere(branch, index, nth), 1, row, closes, bars);
            bars_at.truncate(depth + 1);
            bars_at.push(Span::bars_below(row, bars, closes));
        }
    }

    /// Returns the tasks for these branches, the first branch last.
    fn siblings(&self, branches: &[i64], depth: u8, bars: u64) -> Vec<Todo> {
        let last = branches.last();
        let todo = branches.iter().rev().map(|id| {
            let is_group = self.branches.get(id).is_some_and(Known::is_group);
            Todo {
                branch: *id,
                from: (!is_group).then_some(0),
                depth,
                closes: last == Some(id),
                bars,
            }
        });
        todo.collect()
    }

    /// Returns the branch's next step, from this index on, that is open, or that opens automatically once
    /// its branches are known.
    fn next_open(&self, branch: i64, from: usize) -> Option<(usize, i64)> {
        let known = self.branches.get(&branch)?;
        if known.is_group() {
            let mut places = known.places.range(from..);
            return places.find_map(|(index, node)| {
                let is_open = known.opens(node) && self.is_open(node.id, true);
                is_open.then_some((*index, node.id))
            });
        }
        let nodes = (0..).zip(&known.nodes).skip(from);
        let nodes = nodes.filter(|(_, node)| known.opens(node));
        let mut ids = nodes.map(|(index, node)| (index, node.id));
        ids.find(|(index, id)| {
            let by_itself = self.len() + index < OPEN_ROWS_MAX && !self.unfolded.contains_key(id);
            self.is_open(*id, false) || by_itself
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{PlanRole, TreeRow};
    use super::*;
    use crate::domain::model::{Action, Blocker, KindName, PlanStep, Site};

    /// Returns the tree of a plan with these steps.
    fn planned(kinds: &[usize], edges: &[Vec<u32>]) -> Forest {
        const KINDS: [&str; 3] = ["port", "subnet", "network"];
        let step = |(id, (kind, edges)): (u32, (&usize, &Vec<u32>))| PlanStep {
            id,
            site: Site::region("prod", "RegionOne"),
            kind: KindName::new(KINDS[*kind]),
            resource_id: id.to_string(),
            name: String::new(),
            project_id: "demo".into(),
            action: Action::Delete,
            depends_on: edges
                .iter()
                .filter_map(|edge| edge.checked_rem(id))
                .collect(),
            automatic: false,
            why: "".into(),
            fingerprint: String::new(),
            vars: std::sync::Arc::default(),
            compared: Default::default(),
        };
        let steps: Vec<PlanStep> = (0..).zip(kinds.iter().zip(edges)).map(step).collect();
        let mut forest = Forest::default();
        forest.below.insert(None, Vec::new());
        forest.add_planned(&steps, PlanRole::Step);
        forest
    }

    /// Adds blockers at other deployments to some steps, at these depths.
    fn add_blockers(forest: &mut Forest, blocked: &[(i64, Vec<usize>)]) {
        for (id, depths) in blocked {
            let nodes = forest
                .branches
                .values_mut()
                .flat_map(|known| &mut known.nodes);
            for node in nodes.filter(|node| node.id == *id) {
                let by = Blocker::of(&node.key, "");
                node.elsewhere = depths.iter().map(|depth| (*depth, by.clone())).collect();
            }
            // The engine's answer for a step with no branches below it.
            forest.below.entry(Some(*id)).or_default();
        }
    }

    proptest! {
        #[test]
        fn each_key_leads_back_to_its_row_and_no_step_is_shown_twice(
            kinds in proptest::collection::vec(0usize..3, 60),
            edges in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..4), 60),
            blocked in proptest::collection::btree_map(
                0i64..60, proptest::collection::vec(0usize..4, 1..5), 0..6),
            keys in proptest::collection::vec((any::<bool>(), 0usize..60), 0..40),
        ) {
            let mut forest = planned(&kinds, &edges);
            let blocked: Vec<(i64, Vec<usize>)> = blocked.into_iter().collect();
            add_blockers(&mut forest, &blocked);
            forest.layout();
            for (opens, at) in keys {
                let row = at % forest.len();
                let before = forest.len();
                if opens {
                    let opened = forest.unfold(row);
                    forest.layout();
                    prop_assert_eq!(forest.len() > before, opened);
                } else if let Some(folded) = forest.fold(row) {
                    forest.layout();
                    prop_assert!(forest.len() <= before);
                    prop_assert!(forest.row_of(folded).is_some_and(|folded| folded <= row));
                }
                let mut steps = std::collections::HashSet::new();
                for row in 0..forest.len() {
                    let key = forest.key(row);
                    prop_assert_eq!(key.and_then(|key| forest.row_of(key)), Some(row));
                    let node = forest.node(row);
                    prop_assert!(node.is_none_or(|node| steps.insert(node.id)));
                }
                prop_assert_eq!(forest.key(forest.len()), None);
                prop_assert_eq!(forest.missing(0..forest.len()), None);
            }
            // Once everything is opened, all steps are shown.
            while (0..forest.len()).any(|row| {
                let opened = forest.unfold(row);
                forest.layout();
                opened
            }) {}
            let shown = (0..forest.len()).filter(|row| forest.node(*row).is_some());
            prop_assert_eq!(shown.count(), kinds.len());
            let elsewhere = (0..forest.len()).filter(|row| matches!(forest.row(*row), Some(TreeRow::Elsewhere(..))));
            let all: usize = blocked.iter().map(|(_, depths)| depths.len()).sum();
            prop_assert_eq!(elsewhere.count(), all);
        }
    }
}
