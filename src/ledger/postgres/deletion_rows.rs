//! The rows of deletions: the columns that change while their steps move.

use std::sync::LazyLock;

use tokio_postgres::types::ToSql;

use super::client::Columns;
use super::rows::micros_opt;
use crate::domain::model::StepState;
use crate::ledger::store::decode::DELETION;
use crate::ledger::store::{StoredDeletion, counter_changes};

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

/// Adds to the counters of all deletions.
const COUNT: &str = "
    INSERT INTO counters(name, n) SELECT * FROM unnest($1::text[], $2::bigint[])
    ON CONFLICT(name) DO UPDATE SET n = counters.n + excluded.n";

/// The columns of [`SAVE`] and [`COUNT`]: the deletions to save, and how the counters of all deletions change by that.
pub(super) struct Saved {
    nums: Vec<i64>,
    states: Vec<&'static str>,
    notes: Vec<String>,
    cancelled: Vec<bool>,
    paused: Vec<bool>,
    stops: Vec<bool>,
    /// The number of steps in each state, in the order of the columns.
    steps: [Vec<i64>; StepState::ALL.len()],
    totals: Vec<i64>,
    finished: Vec<Option<i64>>,
    woken: Vec<Option<i64>>,
    moved: Vec<Option<i64>>,
    pace_at: Vec<Option<i64>>,
    pace_done: Vec<i64>,
    pace_mid_at: Vec<Option<i64>>,
    pace_mid_done: Vec<i64>,
    counters: Vec<String>,
    by: Vec<i64>,
}

impl Saved {
    pub(super) fn of(changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Self {
        fn column<T>(
            changed: &[(Option<StoredDeletion>, StoredDeletion)],
            of: impl Fn(&StoredDeletion) -> T,
        ) -> Vec<T> {
            changed.iter().map(|(_, now)| of(now)).collect()
        }
        let (counters, by) = counter_changes(changed).into_iter().unzip();
        Self {
            nums: column(changed, |it| it.num),
            states: column(changed, |it| it.state.as_str()),
            notes: column(changed, |it| it.note.clone()),
            cancelled: column(changed, |it| it.cancelled),
            paused: column(changed, |it| it.paused),
            stops: column(changed, |it| it.stops),
            steps: StepState::ALL
                .map(|state| column(changed, |it| it.counts.of(state).cast_signed())),
            totals: column(changed, |it| it.counts.total.cast_signed()),
            finished: column(changed, |it| micros_opt(it.finished_at)),
            woken: column(changed, |it| micros_opt(it.woken_at)),
            moved: column(changed, |it| micros_opt(it.pace.moved_at)),
            pace_at: column(changed, |it| micros_opt(it.pace.from.0)),
            pace_done: column(changed, |it| it.pace.from.1.cast_signed()),
            pace_mid_at: column(changed, |it| micros_opt(it.pace.middle.0)),
            pace_mid_done: column(changed, |it| it.pace.middle.1.cast_signed()),
            counters,
            by,
        }
    }

    pub(super) fn statements(&self) -> [(&'static str, Columns<'_>); 2] {
        let mut columns: Columns<'_> = vec![
            &self.nums,
            &self.states,
            &self.notes,
            &self.cancelled,
            &self.paused,
            &self.stops,
        ];
        columns.extend(
            self.steps
                .iter()
                .map(|of_state| of_state as &(dyn ToSql + Sync)),
        );
        columns.extend::<Columns<'_>>(vec![
            &self.totals,
            &self.finished,
            &self.woken,
            &self.moved,
            &self.pace_at,
            &self.pace_done,
            &self.pace_mid_at,
            &self.pace_mid_done,
        ]);
        [(SAVE, columns), (COUNT, vec![&self.counters, &self.by])]
    }
}

/// Loads the deletions of these steps.
pub(super) static LOAD_OF_STEPS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {DELETION} FROM deletions d
         WHERE d.num IN (SELECT deletion FROM steps WHERE id = ANY($1))"
    )
});
