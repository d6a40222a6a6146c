//! The cascade as a tree: what goes last is the root, what must go before it stands below.
//!
//! The tree is a flat list of visible rows, made when something changes, so that a frame costs the
//! rows on the screen and no more. Equal siblings fold into one line that opens: a network with
//! 10,000 ports is two rows.

mod node;
mod words;

use std::collections::{HashMap, HashSet};

use crate::domain::model::{Action, KindName, Site, StepState};

pub(crate) use node::{Node, Part};

use super::super::filter::{Facts, Filter};

/// This many equal siblings become one line.
const FOLD_FROM: usize = 6;

/// Equal siblings: of one kind, at one site, to which the same is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    parent: Option<i64>,
    part: Part,
    site: Site,
    kind: KindName,
    action: Action,
    leaf: bool,
}

#[derive(Debug)]
pub(crate) struct Group {
    key: GroupKey,
    members: Vec<u32>,
    tally: Vec<(StepState, u64)>,
}

/// What stays the same about a row when rows come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Node(i64, Part),
    Group(GroupKey),
    Section(Part),
}

#[derive(Clone, Copy, Debug)]
enum What {
    Node(u32),
    Group(u32),
    Section(Part),
}

#[derive(Clone, Copy, Debug)]
struct Row {
    what: What,
    depth: u8,
    last: bool,
    /// Bit n: the ancestor at depth n has siblings below, so its line goes on.
    bars: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Forest {
    nodes: Vec<Node>,
    by_id: HashMap<i64, u32>,
    children: Vec<Vec<u32>>,
    roots: Vec<u32>,
    /// 1 goes first; rows of one number may go at once. 0: waits in a circle.
    wave: Vec<u32>,
    /// Rows name their site.
    many_sites: bool,
    rows: Vec<Row>,
    groups: Vec<Group>,
    opened: HashSet<GroupKey>,
    closed: HashSet<i64>,
}

impl Forest {
    pub(crate) fn set(&mut self, nodes: Vec<Node>) {
        self.nodes = nodes;
        let first = self.nodes.first().map(|node| &node.site);
        self.many_sites = self.nodes.iter().any(|node| Some(&node.site) != first);
        self.by_id = (0u32..)
            .zip(&self.nodes)
            .filter(|(_, node)| node.part == Part::Step)
            .map(|(index, node)| (node.id, index))
            .collect();
        self.plant();
    }

    /// Finds each node's one place: below the deepest of those that wait for it, so that a port
    /// with an address stands below its subnet, though the network waits for it too.
    fn plant(&mut self) {
        let n = self.nodes.len();
        let before: Vec<Vec<u32>> = self
            .nodes
            .iter()
            .map(|node| {
                let found = node.depends_on.iter().filter_map(|id| self.by_id.get(id));
                found.copied().collect()
            })
            .collect();
        let mut waiting = vec![0u32; n];
        for dependency in before.iter().flatten() {
            waiting[*dependency as usize] += 1;
        }
        let mut order: Vec<u32> = (0u32..).take(n).collect();
        order.retain(|i| waiting[*i as usize] == 0);
        let mut depth = vec![0u32; n];
        let mut parent: Vec<Option<u32>> = vec![None; n];
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            at += 1;
            for &below in &before[node as usize] {
                let child = below as usize;
                if parent[child].is_none() || depth[node as usize] + 1 > depth[child] {
                    depth[child] = depth[node as usize] + 1;
                    parent[child] = Some(node);
                }
                waiting[child] -= 1;
                if waiting[child] == 0 {
                    order.push(below);
                }
            }
        }
        self.wave = vec![0; n];
        for &node in order.iter().rev() {
            let below = before[node as usize].iter();
            let highest = below.map(|b| self.wave[*b as usize]).max().unwrap_or(0);
            self.wave[node as usize] = highest + 1;
        }
        self.children = vec![Vec::new(); n];
        self.roots.clear();
        for (index, node) in (0u32..).zip(&self.nodes) {
            if node.part != Part::Step {
                // The cloud goes by its own order.
                self.wave[index as usize] = 0;
                continue;
            }
            // What waits in a circle has no place below anything: it is shown at the top.
            match parent[index as usize] {
                Some(parent) if waiting[index as usize] == 0 => {
                    self.children[parent as usize].push(index);
                }
                _ => self.roots.push(index),
            }
        }
    }

    /// Makes the visible rows.
    pub(crate) fn layout(&mut self, filter: &Filter) {
        self.rows.clear();
        self.groups.clear();
        if !filter.is_empty() {
            self.layout_filtered(filter);
            return;
        }
        let roots = std::mem::take(&mut self.roots);
        self.layout_below(None, Part::Step, &roots);
        self.roots = roots;
        for part in [Part::Automatic, Part::Unset] {
            let members: Vec<u32> = (0u32..)
                .zip(&self.nodes)
                .filter(|(_, node)| node.part == part)
                .map(|(index, _)| index)
                .collect();
            if !members.is_empty() {
                self.rows.push(Row::flat(What::Section(part)));
                self.layout_below(None, part, &members);
            }
        }
    }

    fn layout_filtered(&mut self, filter: &Filter) {
        for (index, node) in (0u32..).zip(&self.nodes) {
            let state = node.live.as_ref().map_or("", |live| live.state.as_str());
            let site = node.site.to_string();
            if filter.fits(&Facts {
                texts: &[&node.name, &node.resource_id, node.does()],
                state,
                kind: node.kind.as_str(),
                site: &site,
                ..Facts::default()
            }) {
                self.rows.push(Row::flat(What::Node(index)));
            }
        }
    }

    /// Rows for these siblings and all below them, without recursion: a chain may be long.
    fn layout_below(&mut self, parent: Option<i64>, part: Part, siblings: &[u32]) {
        let mut todo: Vec<Row> = self.siblings(parent, part, siblings, 0, 0);
        todo.reverse();
        while let Some(row) = todo.pop() {
            self.rows.push(row);
            let depth = row.depth.saturating_add(1);
            let bars = if row.last || row.depth >= 63 {
                row.bars
            } else {
                row.bars | 1 << row.depth
            };
            let mut below = match row.what {
                What::Node(index) => {
                    let id = self.nodes[index as usize].id;
                    if part != Part::Step || self.closed.contains(&id) {
                        continue;
                    }
                    let children = std::mem::take(&mut self.children[index as usize]);
                    let below = self.siblings(Some(id), part, &children, depth, bars);
                    self.children[index as usize] = children;
                    below
                }
                What::Group(index) => {
                    let group = &self.groups[index as usize];
                    if !self.opened.contains(&group.key) {
                        continue;
                    }
                    rows_of(&group.members, depth, bars)
                }
                What::Section(_) => continue,
            };
            below.reverse();
            todo.append(&mut below);
        }
    }

    /// One row each, or one for all that are equal.
    fn siblings(
        &mut self,
        parent: Option<i64>,
        part: Part,
        siblings: &[u32],
        depth: u8,
        bars: u64,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        if siblings.len() < FOLD_FROM {
            return rows_of(siblings, depth, bars);
        }
        let mut equal: HashMap<GroupKey, Vec<u32>> = HashMap::new();
        let mut order = Vec::new();
        for &index in siblings {
            let node = &self.nodes[index as usize];
            let key = GroupKey {
                parent,
                part,
                site: node.site.clone(),
                kind: node.kind.clone(),
                action: node.action,
                leaf: self.children[index as usize].is_empty(),
            };
            equal
                .entry(key)
                .or_insert_with_key(|key| {
                    order.push(key.clone());
                    Vec::new()
                })
                .push(index);
        }
        for key in order {
            let Some(mut members) = equal.remove(&key) else {
                continue;
            };
            if members.len() < FOLD_FROM {
                rows.append(&mut rows_of(&members, depth, bars));
                continue;
            }
            // What needs a person is on top of the opened line.
            members.sort_by_key(|index| rank(self.state(*index)));
            let what = What::Group(u32::try_from(self.groups.len()).unwrap_or(u32::MAX));
            let tally = self.tally(&members);
            self.groups.push(Group {
                key,
                members,
                tally,
            });
            rows.push(Row {
                what,
                depth,
                last: false,
                bars,
            });
        }
        for row in &mut rows {
            row.last = false;
        }
        if let Some(row) = rows.last_mut() {
            row.last = true;
        }
        rows
    }

    fn state(&self, index: u32) -> Option<StepState> {
        let live = self.nodes[index as usize].live.as_ref();
        live.map(|live| live.state)
    }

    fn tally(&self, members: &[u32]) -> Vec<(StepState, u64)> {
        let mut tally: Vec<(StepState, u64)> = Vec::new();
        for state in members.iter().filter_map(|index| self.state(*index)) {
            match tally.iter_mut().find(|(known, _)| *known == state) {
                Some((_, n)) => *n += 1,
                None => tally.push((state, 1)),
            }
        }
        tally.sort_by_key(|(state, _)| rank(Some(*state)));
        tally
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn key(&self, row: usize) -> Option<RowKey> {
        Some(match self.rows.get(row)?.what {
            What::Node(index) => {
                let node = &self.nodes[index as usize];
                RowKey::Node(node.id, node.part)
            }
            What::Group(index) => RowKey::Group(self.groups[index as usize].key.clone()),
            What::Section(part) => RowKey::Section(part),
        })
    }

    pub(crate) fn node(&self, row: usize) -> Option<&Node> {
        match self.rows.get(row)?.what {
            What::Node(index) => self.nodes.get(index as usize),
            What::Group(_) | What::Section(_) => None,
        }
    }

    pub(crate) fn wave(&self, row: usize) -> Option<u32> {
        match self.rows.get(row)?.what {
            What::Node(index) => self.wave.get(index as usize).copied(),
            What::Group(index) => {
                let members = &self.groups[index as usize].members;
                members.iter().map(|m| self.wave[*m as usize]).max()
            }
            What::Section(_) => None,
        }
        .filter(|wave| *wave > 0)
    }

    /// Opens a folded line, or the row's children; false if there was nothing to open.
    pub(crate) fn unfold(&mut self, row: usize) -> bool {
        match self.key(row) {
            Some(RowKey::Group(key)) => self.opened.insert(key),
            Some(RowKey::Node(id, Part::Step)) => self.closed.remove(&id),
            _ => false,
        }
    }

    /// Folds the row, or else the line that it is in. The row where the cursor belongs then.
    pub(crate) fn fold(&mut self, row: usize) -> Option<RowKey> {
        let key = self.key(row)?;
        match &key {
            RowKey::Group(group) if self.opened.remove(group) => return Some(key),
            RowKey::Node(id, Part::Step) => {
                let index = *self.by_id.get(id)? as usize;
                if !self.children[index].is_empty() && self.closed.insert(*id) {
                    return Some(key);
                }
            }
            _ => {}
        }
        let depth = self.rows.get(row)?.depth;
        let above = (0..row).rev().find(|r| self.rows[*r].depth < depth)?;
        let key = self.key(above)?;
        match &key {
            RowKey::Group(group) => self.opened.remove(group),
            RowKey::Node(id, _) => self.closed.insert(*id),
            RowKey::Section(_) => false,
        };
        Some(key)
    }

    /// Takes a step's new state from an event; false if the step is not here.
    pub(crate) fn patch(&mut self, step: i64, state: StepState) -> bool {
        let node = self.by_id.get(&step).map(|index| *index as usize);
        match node.and_then(|index| self.nodes[index].live.as_mut()) {
            Some(live) => {
                live.state = state;
                true
            }
            None => false,
        }
    }
}

impl Row {
    fn flat(what: What) -> Self {
        Self {
            what,
            depth: 0,
            last: true,
            bars: 0,
        }
    }
}

fn rows_of(indices: &[u32], depth: u8, bars: u64) -> Vec<Row> {
    let last = indices.len().saturating_sub(1);
    let rows = indices.iter().enumerate().map(|(i, index)| Row {
        what: What::Node(*index),
        depth,
        last: i == last,
        bars,
    });
    rows.collect()
}

/// What needs a person first, what is done last.
fn rank(state: Option<StepState>) -> u8 {
    match state {
        Some(StepState::Stuck) => 0,
        Some(StepState::Blocked) => 1,
        Some(StepState::Running) => 2,
        Some(StepState::Verifying) => 3,
        Some(StepState::Ready) => 4,
        Some(StepState::Waiting) | None => 5,
        Some(StepState::Purged) => 6,
        Some(StepState::Skipped) => 7,
        Some(StepState::Gone) => 8,
    }
}
