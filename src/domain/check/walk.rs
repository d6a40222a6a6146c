//! Shortest walks, breadth first.

use std::collections::{BTreeMap, VecDeque};

/// All states that can be reached from a start, each by a shortest walk.
pub(super) struct Reached<State, Step> {
    /// For each state, the last step to it and the state before that step; none for the start.
    came_by: BTreeMap<State, Option<(Step, State)>>,
}

impl<State: Copy + Ord, Step: Copy> Reached<State, Step> {
    /// Among several shortest walks to a state, keeps the one whose steps come first in `next`.
    pub(super) fn from(start: State, next: impl Fn(State) -> Vec<(Step, State)>) -> Self {
        let mut came_by = BTreeMap::from([(start, None)]);
        let mut open = VecDeque::from([start]);
        while let Some(here) = open.pop_front() {
            for (step, there) in next(here) {
                came_by.entry(there).or_insert_with(|| {
                    open.push_back(there);
                    Some((step, here))
                });
            }
        }
        Self { came_by }
    }

    /// Returns the steps that lead to a state; the list is empty for the start. None if the state cannot be
    /// reached.
    pub(super) fn way_to(&self, state: State) -> Option<Vec<Step>> {
        let mut last = *self.came_by.get(&state)?;
        let mut steps = Vec::new();
        while let Some((step, before)) = last {
            steps.push(step);
            last = *self.came_by.get(&before)?;
        }
        steps.reverse();
        Some(steps)
    }
}
