//! The first screen: counts, deletions under way, and steps that need a person or are delayed.

use super::{PAGE_MAX, deletions, steps};
use crate::domain::attention;
use crate::domain::model::{DeletionState, Step};
use crate::ledger::store::{LedgerReads, Stored};
use crate::ledger::{DeletionFilter, Summary};

const UNFINISHED_MAX: usize = 50;
const ATTENTION_MAX: usize = 200;
/// Refused deletions stay refused until a person retries them, so the newest are enough.
const REFUSED_MAX: usize = 50;
const DELAYED_MAX: usize = 50;

pub fn summary<R: LedgerReads>(rows: &R) -> Stored<R, Summary> {
    let totals = rows.load_totals()?;
    let of = |state| totals.deletions.get(&state).copied().unwrap_or_default();
    let unfinished = DeletionFilter {
        states: DeletionState::ALL
            .into_iter()
            .filter(|state| !state.is_terminal())
            .collect(),
        ..DeletionFilter::default()
    };
    let delayed = rows.find_delayed(DELAYED_MAX)?;
    Ok(Summary {
        deletions_by_state: DeletionState::ALL
            .into_iter()
            .map(|state| (state, of(state)))
            .collect(),
        steps: totals.steps,
        deletions: deletions::page(rows, &unfinished, None, UNFINISHED_MAX)?.rows,
        attention: needs_person(rows)?,
        delayed: steps::shown(rows, &delayed, Some(PAGE_MAX))?,
        last_event: rows.event_range()?.newest,
    })
}

/// Steps that need a person, as far as an index finds them, so that a screen has them at once: steps that are
/// stuck in their own right, the longest stuck first; then the newest refused deletions.
fn needs_person<R: LedgerReads>(rows: &R) -> Stored<R, Vec<Step>> {
    let stuck = rows.find_stuck(ATTENTION_MAX)?;
    let mut lines = steps::shown(rows, &stuck, Some(PAGE_MAX))?;
    let refused_max = REFUSED_MAX.min(ATTENTION_MAX.saturating_sub(lines.len()));
    if refused_max == 0 {
        return Ok(lines);
    }
    let filter = DeletionFilter {
        states: vec![DeletionState::Refused],
        ..DeletionFilter::default()
    };
    let newest = deletions::page(rows, &filter, None, refused_max)?.rows;
    lines.extend(newest.iter().rev().filter_map(attention::refused_step));
    Ok(lines)
}
