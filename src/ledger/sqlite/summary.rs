//! The first screen: counts, and the rows that need a person.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::sql::{Run, Sql};
use super::{pages, reads};
use crate::domain::attention;
use crate::domain::model::{Counts, DeletionState, Step, StepState};
use crate::ledger::{DeletionFilter, Summary};

const UNSETTLED_MAX: usize = 50;
const ATTENTION_MAX: usize = 200;
/// Refused deletions stay refused, so the newest are enough to be noticed.
const REFUSED_MAX: usize = 50;
const SETTLING_MAX: usize = 50;

pub(super) fn summary(db: &Connection) -> Sql<Summary> {
    let counters = db.all("SELECT name, n FROM counters", (), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let counters: BTreeMap<String, i64> = counters.into_iter().collect();
    let counter = |name: String| {
        let n = counters.get(&name).copied().unwrap_or(0);
        u64::try_from(n).unwrap_or(0)
    };
    let mut steps = Counts::default();
    for state in StepState::ALL {
        let n = counter(format!("step_{}", state.as_str()));
        *steps.of_mut(state) = n;
        steps.total += n;
    }
    let unsettled = DeletionFilter {
        states: DeletionState::ALL
            .into_iter()
            .filter(|state| !state.is_terminal())
            .collect(),
        ..DeletionFilter::default()
    };
    Ok(Summary {
        deletions_by_state: DeletionState::ALL
            .into_iter()
            .map(|state| (state, counter(format!("deletion_{}", state.as_str()))))
            .collect(),
        steps,
        deletions: pages::deletions(db, &unsettled, None, UNSETTLED_MAX)?.rows,
        attention: needs_person(db)?,
        settling: settling(db)?,
        last_event: db.one("SELECT coalesce(max(seq), 0) FROM events", (), |row| {
            row.get(0)
        })?,
    })
}

fn settling(db: &Connection) -> Sql<Vec<Step>> {
    let ids = db.all(
        "SELECT id FROM steps INDEXED BY steps_settling
             WHERE state = 'verifying' AND blocked_since IS NOT NULL
             ORDER BY blocked_since LIMIT ?1",
        [SETTLING_MAX as i64],
        |row| row.get(0),
    )?;
    let steps = ids.into_iter();
    steps
        .filter_map(|id| reads::step(db, id, Some(pages::PAGE_MAX)).transpose())
        .collect()
}

/// Steps that need a person, as far as an index finds them, so that a screen has them at once: stuck steps
/// that no other stuck step holds, oldest first; then the newest refusals.
fn needs_person(db: &Connection) -> Sql<Vec<Step>> {
    let ids = db.all(
        "SELECT id FROM steps INDEXED BY steps_stuck
             WHERE state = 'stuck' AND held_by IS NULL ORDER BY since LIMIT ?1",
        [ATTENTION_MAX as i64],
        |row| row.get(0),
    )?;
    let mut lines = Vec::with_capacity(ids.len());
    for id in ids {
        lines.extend(reads::step(db, id, Some(pages::PAGE_MAX))?);
    }
    let room = REFUSED_MAX.min(ATTENTION_MAX.saturating_sub(lines.len()));
    if room == 0 {
        return Ok(lines);
    }
    let filter = DeletionFilter {
        states: vec![DeletionState::Refused],
        ..DeletionFilter::default()
    };
    let newest = pages::deletions(db, &filter, None, room)?.rows;
    lines.extend(newest.iter().rev().filter_map(attention::refused_step));
    Ok(lines)
}
