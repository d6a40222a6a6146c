//! The cascade as a tree: the steps that go last are the roots; the steps that must go before a step are below it.
//!
//! Only the visible part of a deletion is loaded: branches, which the engine counts, and the steps near the cursor
//! in a long branch. So a tree of 1,000,000 steps costs as much as one of 100. The visible rows are spans, computed
//! when something changes; a frame computes only the rows on the screen.

mod node;
mod spans;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::kit::List;
use crate::domain::attention;
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::{Blocker, Counts, Plan, PlanStep, Refusal, StepState};
use crate::domain::outline::{self, Branch, FOLD_FROM, Outline};

pub(crate) use node::{Node, PlanRole};
use spans::Span;

/// If a plan has more warnings than this, they are rows below its tree.
pub(crate) const HEAD_WARNINGS_MAX: usize = 2;

/// Identifies a row while rows are added and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Node(i64, PlanRole),
    /// A step that is not loaded yet: its branch, and its index there.
    Member(i64, usize),
    Group(i64),
    Section(PlanRole),
    /// A blocker at another deployment: the blocked step, and the index among its blockers.
    Elsewhere(i64, usize),
    Refused(usize),
    Warning(usize),
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Steps of a branch, from this index on.
    Run(i64, usize),
    Group(i64),
    Section(PlanRole),
    /// A blocker at another deployment: branch and index of the blocked step, and the index in its blockers.
    Elsewhere(i64, usize, usize),
    /// The steps that a filter found.
    Found,
    Refused,
    Warnings,
}

/// The content of one row.
#[derive(Clone, Copy)]
pub(crate) enum TreeRow<'f> {
    /// The branch of a step, or `None` if a filter found the step; and the step, or `None` if it is not loaded yet.
    Step(Option<&'f Known>, Option<&'f Node>),
    Group(&'f Known),
    Section(PlanRole),
    /// A step that a blocker at another deployment blocks, and that blocker.
    Elsewhere(&'f Node, &'f Blocker),
    Refused(&'f Refusal),
    Warning(&'f str),
}

/// A branch, and those of its steps that are loaded.
#[derive(Debug)]
pub(crate) struct Known {
    branch: Branch,
    part: PlanRole,
    /// The highest wave of the branch's steps; 0 if there is no order, or if it is not known.
    wave: u32,
    /// The indices that were queried last; `nodes` are the steps from the first of them on.
    asked: Range<usize>,
    nodes: Vec<Node>,
    /// The steps that a person opened in a group, by index.
    places: BTreeMap<usize, Node>,
    /// Whether the engine has made progress since `nodes` were loaded.
    stale: bool,
}

impl Known {
    fn new(branch: Branch, part: PlanRole) -> Self {
        Self {
            branch,
            part,
            wave: 0,
            asked: 0..0,
            nodes: Vec::new(),
            places: BTreeMap::new(),
            stale: false,
        }
    }

    fn total(&self) -> usize {
        usize::try_from(self.branch.counts.total).unwrap_or(usize::MAX)
    }

    /// Whether the branch has so many steps that it is shown as one line, which can be opened.
    fn is_group(&self) -> bool {
        self.branch.counts.total >= FOLD_FROM
    }

    fn node(&self, index: usize) -> Option<&Node> {
        let loaded = index.checked_sub(self.asked.start);
        let loaded = loaded.and_then(|at| self.nodes.get(at));
        loaded.or_else(|| self.places.get(&index))
    }

    /// Whether the step has rows below it.
    fn opens(&self, node: &Node) -> bool {
        node.part == PlanRole::Step && (!self.branch.leaf || !node.elsewhere.is_empty())
    }

    fn is_loaded(&self, wanted: &Range<usize>) -> bool {
        !self.stale && self.asked.start <= wanted.start && wanted.end <= self.asked.end
    }
}

/// The loaded part of a tree, and which of its rows are visible.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    branches: HashMap<i64, Known>,
    /// The branches below a step; for `None` the roots.
    below: HashMap<Option<i64>, Vec<i64>>,
    sections: Vec<(PlanRole, Vec<i64>)>,
    /// The refusals of the plan, which are shown above the tree.
    refused: Vec<Refusal>,
    /// The warnings of the plan, below the tree, if they are too many for the lines above it.
    warnings: Vec<String>,
    /// Groups that a person opened.
    opened: HashSet<i64>,
    /// Steps that a person opened (true) or folded.
    unfolded: HashMap<i64, bool>,
    /// The steps that a filter found; they are shown instead of the tree.
    found: Option<Vec<Node>>,
    spans: Vec<Span>,
    /// Steps that are shown open, but whose branches are not loaded.
    pub(crate) unknown: Vec<Option<i64>>,
    /// Whether rows name their site.
    many_sites: bool,
}

impl Forest {
    /// Returns the whole tree of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut forest = Self {
            refused: plan.refused.clone(),
            warnings: match plan.warnings.len() {
                0..=HEAD_WARNINGS_MAX => Vec::new(),
                _ => plan.warnings.clone(),
            },
            ..Self::default()
        };
        forest.below.insert(None, Vec::new());
        forest.add_planned(&plan.steps, PlanRole::Step);
        forest.add_sections(&plan.automatic, &plan.unset);
        forest
    }

    fn update_many_sites(&mut self) {
        let mut sites = self.branches.values().map(|known| &known.branch.site);
        let first = sites.next();
        self.many_sites = sites.any(|site| Some(site) != first);
    }

    /// Adds the resources without steps. They have no order, so none is below another.
    pub(crate) fn add_sections(&mut self, automatic: &[PlanStep], unset: &[PlanStep]) {
        for (part, steps) in [(PlanRole::Automatic, automatic), (PlanRole::Unset, unset)] {
            let alone = steps.iter().map(|step| PlanStep {
                depends_on: Vec::new(),
                ..step.clone()
            });
            let roots = self.add_planned(&alone.collect::<Vec<_>>(), part);
            if !roots.is_empty() {
                self.sections.push((part, roots));
            }
        }
        self.update_many_sites();
    }

    fn add_planned(&mut self, steps: &[PlanStep], part: PlanRole) -> Vec<i64> {
        let tree = outline::build_tree(steps);
        // Negative ids do not collide with those of the plan's steps and of the engine.
        let id = |id: i64| match part {
            PlanRole::Step => id,
            PlanRole::Automatic => -2 * id - 1,
            PlanRole::Unset => -2 * id - 2,
        };
        let branches = tree.branches.into_iter().map(|branch| {
            let id = id(branch.id);
            Known::new(Branch { id, ..branch }, part)
        });
        let mut added: Vec<Known> = branches.collect();
        let waves = tree.waves.iter();
        for ((step, at), wave) in steps.iter().zip(&tree.branch_of).zip(waves) {
            // The resources without steps have no order.
            let wave = if part == PlanRole::Step { *wave } else { 0 };
            let known = &mut added[*at as usize];
            known.wave = known.wave.max(wave);
            known.nodes.push(Node::planned(step, part, wave));
            known.asked.end += 1;
        }
        let mut roots = Vec::new();
        for known in added {
            let id = known.branch.id;
            match (part, known.branch.below) {
                (PlanRole::Step, below) => self.below.entry(below).or_default().push(id),
                _ => roots.push(id),
            }
            self.branches.insert(id, known);
        }
        roots
    }

    /// Replaces the branches below these steps by those of the engine's answer.
    pub(crate) fn take_outline(&mut self, asked: &[Option<i64>], outline: Outline) {
        for below in asked {
            // A step without branches gets an empty list, so that it is not queried again.
            self.below.insert(*below, Vec::new());
        }
        for read in outline.branches {
            let branch = read.branch;
            let id = branch.id;
            self.below.entry(branch.below).or_default().push(id);
            let steps: Vec<Node> = read.steps.iter().map(Node::live).collect();
            let known = self.branches.entry(id);
            let known = known.or_insert_with(|| Known::new(branch.clone(), PlanRole::Step));
            known.branch = branch;
            if known.is_group() {
                known.stale = true;
            } else {
                (known.asked, known.nodes) = (0..steps.len(), steps);
            }
        }
        for place in outline.places {
            if let Some(known) = self.branches.get_mut(&place.branch)
                && known.is_group()
            {
                known.places.retain(|_, node| node.id != place.step.id);
                let index = usize::try_from(place.index).unwrap_or(usize::MAX);
                known.places.insert(index, Node::live(&place.step));
            }
        }
        self.update_many_sites();
    }

    /// Takes the steps of a branch at these indices from the engine; returns false if some are missing.
    pub(crate) fn load(&mut self, branch: i64, asked: Range<usize>, nodes: Vec<Node>) -> bool {
        let Some(known) = self.branches.get_mut(&branch) else {
            return true;
        };
        let expected = asked.end.min(known.total()).saturating_sub(asked.start);
        let is_whole = nodes.len() >= expected;
        (known.asked, known.nodes, known.stale) = (asked, nodes, false);
        is_whole
    }

    /// Returns the steps whose branches are known, for a refresh; `None`, for the roots, comes first.
    pub(crate) fn known_below(&self) -> Vec<Option<i64>> {
        let mut all: Vec<Option<i64>> = self.below.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Returns the first group whose steps in these rows are not loaded or are out of date: the id and the counts of
    /// its branch, and the indices of the steps to load.
    pub(crate) fn missing(&self, rows: Range<usize>) -> Option<(i64, Counts, Range<usize>)> {
        let first = self.spans.partition_point(|span| span.end() <= rows.start);
        let spans = self.spans.get(first..)?.iter();
        let mut near = spans.take_while(|span| span.row < rows.end);
        near.find_map(|span| {
            let What::Run(branch, from) = span.what else {
                return None;
            };
            let index = |row: usize| from + row.clamp(span.row, span.end()) - span.row;
            let wanted = index(rows.start)..index(rows.end);
            let known = self.branches.get(&branch)?;
            let is_missing = known.is_group() && !known.is_loaded(&wanted);
            is_missing.then_some((branch, known.branch.counts, wanted))
        })
    }

    /// Shows the resources that match the filter instead of the tree; if the filter is empty, shows the tree. All
    /// resources must be loaded.
    pub(crate) fn filter(&mut self, filter: &SearchQuery) {
        let found = (!filter.is_empty()).then(|| {
            let all = self.branches.values().flat_map(|known| &known.nodes);
            let mut found: Vec<Node> = all.filter(|node| fits(node, filter)).cloned().collect();
            found.sort_by_key(|node| (node.part, node.id));
            found
        });
        self.show(found);
    }

    /// Shows these steps instead of the tree; with `None` the tree again.
    pub(crate) fn show(&mut self, found: Option<Vec<Node>>) {
        self.found = found;
        self.layout();
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.last().map_or(0, Span::end)
    }

    /// Returns the span that contains the row, and the row's offset in the span.
    fn span(&self, row: usize) -> Option<(&Span, usize)> {
        let after = self.spans.partition_point(|span| span.row <= row);
        let span = self.spans.get(after.checked_sub(1)?)?;
        (row < span.end()).then(|| (span, row - span.row))
    }

    pub(crate) fn key(&self, row: usize) -> Option<RowKey> {
        let (span, offset) = self.span(row)?;
        Some(match (span.what, self.row(row)?) {
            (_, TreeRow::Step(_, Some(node))) => RowKey::Node(node.id, node.part),
            (What::Run(branch, from), _) => RowKey::Member(branch, from + offset),
            (What::Group(branch), _) => RowKey::Group(branch),
            (What::Section(part), _) => RowKey::Section(part),
            (What::Elsewhere(.., nth), TreeRow::Elsewhere(node, _)) => {
                RowKey::Elsewhere(node.id, nth)
            }
            (What::Refused, _) => RowKey::Refused(offset),
            (What::Warnings, _) => RowKey::Warning(offset),
            (What::Elsewhere(..) | What::Found, _) => return None,
        })
    }

    /// Returns the current position of the row with this key, if it is visible and, for [`RowKey::Node`], loaded.
    pub(crate) fn row_of(&self, key: RowKey) -> Option<usize> {
        self.spans.iter().find_map(|span| {
            let is_in_span = |offset: &usize| *offset < span.len;
            let offset = match (span.what, key) {
                (What::Run(branch, from), RowKey::Member(wanted, index)) if branch == wanted => {
                    index.checked_sub(from).filter(is_in_span)
                }
                (What::Run(branch, from), RowKey::Node(id, part)) => {
                    let known = self.branches.get(&branch)?;
                    let loaded = (known.asked.start..).zip(&known.nodes);
                    let places = known.places.iter().map(|(index, node)| (*index, node));
                    let nodes = loaded.chain(places);
                    let mut found = nodes.filter(|(_, node)| (node.id, node.part) == (id, part));
                    found.find_map(|(index, _)| index.checked_sub(from).filter(is_in_span))
                }
                (What::Found, RowKey::Node(id, part)) => {
                    let mut nodes = self.found.iter().flatten();
                    nodes.position(|node| (node.id, node.part) == (id, part))
                }
                (What::Refused, RowKey::Refused(at)) | (What::Warnings, RowKey::Warning(at)) => {
                    Some(at)
                }
                (What::Run(..) | What::Found | What::Refused | What::Warnings, _) => None,
                // The other spans have one row.
                _ => (self.key(span.row) == Some(key)).then_some(0),
            };
            offset.map(|offset| span.row + offset)
        })
    }

    /// Returns the content of a row.
    pub(crate) fn row(&self, row: usize) -> Option<TreeRow<'_>> {
        let (span, offset) = self.span(row)?;
        Some(match span.what {
            What::Run(branch, from) => {
                let known = self.branches.get(&branch)?;
                TreeRow::Step(Some(known), known.node(from + offset))
            }
            What::Group(branch) => TreeRow::Group(self.branches.get(&branch)?),
            What::Section(part) => TreeRow::Section(part),
            What::Elsewhere(branch, index, nth) => {
                let node = self.branches.get(&branch)?.node(index)?;
                TreeRow::Elsewhere(node, &node.elsewhere.get(nth)?.1)
            }
            What::Found => TreeRow::Step(None, Some(self.found.as_ref()?.get(offset)?)),
            What::Refused => TreeRow::Refused(self.refused.get(offset)?),
            What::Warnings => TreeRow::Warning(self.warnings.get(offset)?),
        })
    }

    pub(crate) fn node(&self, row: usize) -> Option<&Node> {
        match self.row(row)? {
            TreeRow::Step(_, node) => node,
            _ => None,
        }
    }

    /// Returns the row's step, or the step that the row's blocker blocks.
    pub(crate) fn step(&self, row: usize) -> Option<&Node> {
        match self.row(row)? {
            TreeRow::Elsewhere(blocked, _) => Some(blocked),
            _ => self.node(row),
        }
    }

    /// Opens or folds the row under the cursor. The cursor stays on the row, or goes to the line that was folded.
    /// Returns false if there was nothing to open or to fold.
    pub(crate) fn set_unfolded(&mut self, unfolds: bool, list: &mut List) -> bool {
        let row = list.cursor;
        let held = match unfolds {
            true => self.key(row).filter(|_| self.unfold(row)),
            false => self.fold(row),
        };
        let Some(held) = held else { return false };
        self.layout();
        list.cursor = self.row_of(held).unwrap_or(row);
        true
    }

    /// Opens a folded line, or the rows below a step; returns false if there was nothing to open.
    fn unfold(&mut self, row: usize) -> bool {
        let Some((span, offset)) = self.span(row) else {
            return false;
        };
        let (branch, from) = match span.what {
            What::Group(branch) => return self.opened.insert(branch),
            What::Run(branch, from) => (branch, from),
            _ => return false,
        };
        let known = self.branches.get_mut(&branch);
        let opens = known.and_then(|known| {
            let node = known.node(from + offset).filter(|node| known.opens(node));
            Some((node?.clone(), known))
        });
        let Some((node, known)) = opens else {
            return false;
        };
        let (id, is_group) = (node.id, known.is_group());
        if is_group {
            known.places.insert(from + offset, node);
        }
        let was_open = self.is_open(id, is_group);
        self.unfolded.insert(id, true);
        !was_open
    }

    /// Folds the row if it is open, or else the row above it that contains it. Returns the row that the cursor
    /// moves to.
    fn fold(&mut self, row: usize) -> Option<RowKey> {
        let depth = self.span(row)?.0.depth;
        let is_open = match self.row(row)? {
            TreeRow::Group(known) => self.opened.contains(&known.branch.id),
            TreeRow::Step(Some(known), Some(node)) => {
                known.opens(node) && self.is_open(node.id, known.is_group())
            }
            _ => false,
        };
        let mut above = self.spans.iter().rev();
        let above = above.find(|span| span.row < row && span.depth < depth);
        let folded = if is_open { row } else { above?.end() - 1 };
        let key = self.key(folded)?;
        if let RowKey::Group(branch) = key {
            self.opened.remove(&branch);
        } else if let RowKey::Node(id, PlanRole::Step) = key {
            self.unfolded.insert(id, false);
        }
        Some(key)
    }

    /// Whether the rows below a step are shown: as a person decided last. Without such a decision, they are shown once
    /// they are known, except for a step in a group.
    fn is_open(&self, id: i64, in_group: bool) -> bool {
        let unfolded = self.unfolded.get(&id).copied();
        unfolded.unwrap_or(!in_group && self.below.contains_key(&Some(id)))
    }

    /// Takes a step's new state from an event; returns false if the step is not loaded.
    pub(crate) fn patch(&mut self, step: i64, state: StepState) -> bool {
        let known = self.branches.values_mut();
        let known = known.flat_map(|known| known.nodes.iter_mut().chain(known.places.values_mut()));
        let nodes = known.chain(self.found.iter_mut().flatten());
        let mut patched = false;
        for node in nodes.filter(|node| node.id == step) {
            let Some(live) = &mut node.live else { continue };
            live.state = state;
            if !attention::STEP_STATES.contains(&state) {
                node.elsewhere.clear();
            }
            patched = true;
        }
        patched
    }
}

fn fits(node: &Node, filter: &SearchQuery) -> bool {
    filter.fits(&Facts {
        texts: &[&node.name, &node.key.id, node.does()],
        state: node.state().map_or("", StepState::as_str),
        kind: node.key.kind.as_str(),
        site: &node.key.site.to_string(),
        ..Facts::default()
    })
}
