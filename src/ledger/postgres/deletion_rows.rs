//! The rows of deletions: the columns that change while their steps move.

use tokio_postgres::Row;

use super::client::Connection;
use super::failed::Sql;
use super::rows::{self, get, micros_opt};
use crate::domain::model::StepState;
use crate::ledger::store::{Pace, StoredDeletion, counter_changes};

/// The hot columns of a deletion.
pub(super) const DELETION: &str = "d.num, d.id, d.state, d.cancelled, d.paused, d.stops, d.waiting, \
     d.ready, d.running, d.verifying, d.blocked, d.stuck, d.gone, d.skipped, d.purged, d.total, \
     d.finished_at, d.woken_at, d.note, d.moved_at, d.pace_at, d.pace_done, d.pace_mid_at, \
     d.pace_mid_done";

/// A deletion, from [`DELETION`].
pub(super) fn deletion(row: &Row) -> Sql<StoredDeletion> {
    Ok(StoredDeletion {
        num: get(row, 0)?,
        id: get(row, 1)?,
        state: rows::word(row, 2)?,
        cancelled: get(row, 3)?,
        paused: get(row, 4)?,
        stops: get(row, 5)?,
        counts: rows::counts(row, 6)?,
        finished_at: rows::time_opt(row, 16)?,
        woken_at: rows::time_opt(row, 17)?,
        note: get(row, 18)?,
        pace: Pace {
            moved_at: rows::time_opt(row, 19)?,
            from: (rows::time_opt(row, 20)?, rows::number(row, 21)?),
            middle: (rows::time_opt(row, 22)?, rows::number(row, 23)?),
        },
    })
}

const SAVE: &str = "
    UPDATE deletions d SET state = n.state, note = n.note, cancelled = n.cancelled,
        paused = n.paused, stops = n.stops, waiting = n.waiting, ready = n.ready,
        running = n.running, verifying = n.verifying, blocked = n.blocked, stuck = n.stuck,
        gone = n.gone, skipped = n.skipped, purged = n.purged, total = n.total,
        finished_at = n.finished_at, woken_at = n.woken_at, moved_at = n.moved_at,
        pace_at = n.pace_at, pace_done = n.pace_done, pace_mid_at = n.pace_mid_at,
        pace_mid_done = n.pace_mid_done
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[], $5::boolean[], $6::boolean[],
        $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
        $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
        $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[])
        AS n(num, state, note, cancelled, paused, stops, waiting, ready, running, verifying,
            blocked, stuck, gone, skipped, purged, total, finished_at, woken_at, moved_at, pace_at,
            pace_done, pace_mid_at, pace_mid_done)
    WHERE d.num = n.num";

/// Saves deletions, and the counters of all of them, in one round trip.
pub(super) fn save(
    db: &Connection,
    changed: &[(Option<StoredDeletion>, StoredDeletion)],
) -> Sql<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let column = |of: fn(&StoredDeletion) -> Option<i64>| -> Vec<Option<i64>> {
        changed.iter().map(|(_, now)| of(now)).collect()
    };
    let flag = |of: fn(&StoredDeletion) -> bool| -> Vec<bool> {
        changed.iter().map(|(_, now)| of(now)).collect()
    };
    let nums = column(|it| Some(it.num));
    let states: Vec<&str> = changed.iter().map(|(_, now)| now.state.as_str()).collect();
    let notes: Vec<&str> = changed.iter().map(|(_, now)| now.note.as_str()).collect();
    let (cancelled, paused) = (flag(|it| it.cancelled), flag(|it| it.paused));
    let stops = flag(|it| it.stops);
    // In the order of the columns.
    let counts = StepState::ALL.map(|state| {
        let counts = changed.iter().map(|(_, now)| now.counts.of(state));
        counts.map(u64::cast_signed).collect::<Vec<i64>>()
    });
    let [
        waiting,
        ready,
        running,
        verifying,
        blocked,
        stuck,
        gone,
        skipped,
        purged,
    ] = &counts;
    let totals = column(|it| Some(it.counts.total.cast_signed()));
    let finished = column(|it| micros_opt(it.finished_at));
    let woken = column(|it| micros_opt(it.woken_at));
    let moved = column(|it| micros_opt(it.pace.moved_at));
    let (pace_at, pace_mid_at) = (
        column(|it| micros_opt(it.pace.from.0)),
        column(|it| micros_opt(it.pace.middle.0)),
    );
    let (pace_done, pace_mid_done) = (
        column(|it| Some(it.pace.from.1.cast_signed())),
        column(|it| Some(it.pace.middle.1.cast_signed())),
    );
    let changes = counter_changes(changed);
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    let by: Vec<i64> = changes.values().copied().collect();
    db.together(&[
        (
            SAVE,
            &[
                &nums,
                &states,
                &notes,
                &cancelled,
                &paused,
                &stops,
                waiting,
                ready,
                running,
                verifying,
                blocked,
                stuck,
                gone,
                skipped,
                purged,
                &totals,
                &finished,
                &woken,
                &moved,
                &pace_at,
                &pace_done,
                &pace_mid_at,
                &pace_mid_done,
            ],
        ),
        (
            "INSERT INTO counters(name, n) SELECT * FROM unnest($1::text[], $2::bigint[])
             ON CONFLICT(name) DO UPDATE SET n = counters.n + excluded.n",
            &[&names, &by],
        ),
    ])
    .map(drop)
}
