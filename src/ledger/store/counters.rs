//! Counters of deletions and steps by state. A store that keeps them answers [`Totals`] at a cost that does not grow
//! with its deletions.

use std::collections::BTreeMap;

use super::{StoredDeletion, Totals};
use crate::domain::model::{DeletionState, StepState};

fn of_deletions(state: DeletionState) -> String {
    format!("deletion_{}", state.as_str())
}

fn of_steps(state: StepState) -> String {
    format!("step_{}", state.as_str())
}

/// Returns by how much each counter changes when these deletions are saved. Each deletion is given as it is saved (none
/// if it is new), and as it is now. Counters that do not change are left out.
pub fn counter_changes(
    changed: &[(Option<StoredDeletion>, StoredDeletion)],
) -> BTreeMap<String, i64> {
    let mut changes: BTreeMap<String, i64> = BTreeMap::new();
    let mut add = |counter: String, by: i64| *changes.entry(counter).or_default() += by;
    for (saved, now) in changed {
        let saved = saved.as_ref();
        for state in StepState::ALL {
            let had = saved.map_or(0, |row| row.counts.of(state));
            let has = now.counts.of(state);
            if has != had {
                add(of_steps(state), has.cast_signed() - had.cast_signed());
            }
        }
        if saved.map(|row| row.state) != Some(now.state) {
            add(of_deletions(now.state), 1);
            if let Some(row) = saved {
                add(of_deletions(row.state), -1);
            }
        }
    }
    changes.retain(|_, by| *by != 0);
    changes
}

impl Totals {
    /// The totals from the counters, by name. A counter that was never changed is zero.
    pub fn from_counters(counters: &BTreeMap<String, u64>) -> Self {
        let counter = |name: String| counters.get(&name).copied().unwrap_or(0);
        let mut totals = Self::default();
        for state in DeletionState::ALL {
            totals.deletions.insert(state, counter(of_deletions(state)));
        }
        for state in StepState::ALL {
            let n = counter(of_steps(state));
            *totals.steps.of_mut(state) = n;
            totals.steps.total += n;
        }
        totals
    }
}
