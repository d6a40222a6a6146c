//! Saves the rows that a change has left in memory, by statements that share a round trip. The statements for deletions
//! are sent with the `COMMIT`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::arrays::Batch;
use super::transaction::PostgresRows;
use crate::ledger::AuditEntry;
use crate::ledger::audit::{self, Head};
use crate::ledger::store::sql::{Decoded, ReadColumns as _, Statements as _, numbers};
use crate::ledger::store::{
    Stored, StoredDeletion, StoredStep, Unsaved, counter_changes, sql_saved as saved,
};

/// The statements that save these rows. They return the tombstones that they write: site, kind, id and phase.
pub(super) fn batches(
    unsaved: &Unsaved<'_>,
    rows: &PostgresRows,
) -> Stored<PostgresRows, Vec<Batch>> {
    // Steps that have ended or are left to another deletion free their resource. They are written first, because
    // another step may take the resource over.
    let is_leaving = |step: &StoredStep| step.ended_at.is_some() || step.left_to.is_some();
    let steps = unsaved.steps.iter().map(|(_, now)| *now);
    let (leaving, staying): (Vec<&StoredStep>, Vec<_>) = steps.partition(|step| is_leaving(step));
    // A statement writes each row once: the last state counts.
    let tombstones = unsaved.others.tombstones.iter().map(|it| (it.record, it));
    let tombstones: BTreeMap<_, _> = tombstones.collect();
    let ended = unsaved
        .others
        .ended
        .iter()
        .map(|it| ((it.record, it.deletion), it));
    let ended: BTreeMap<_, _> = ended.collect();
    let cleared = numbers(unsaved.others.cleared.iter().copied());
    let all = [
        steps_batch(&leaving)?,
        steps_batch(&staying)?,
        Batch::change(
            &format!("UPDATE tombstones SET {}", saved::SET_TOMBSTONE),
            "record_id = $1 RETURNING site, kind, id, phase",
            tombstones.into_values().map(saved::tombstone),
        ),
        Batch::of(ended.into_values().map(saved::ended), end_tombstones),
        Batch::change("DELETE FROM awaited", "step = $1", cleared),
        audit_batch(&unsaved.others.audit, rows)?,
        Batch::of(unsaved.others.events.iter().map(saved::event), save_events),
    ];
    Ok(all.into_iter().flatten().collect())
}

/// Writes all columns of the steps that a change may set: in PostgreSQL, a column that keeps its value needs no new
/// entry in an index.
fn steps_batch(steps: &[&StoredStep]) -> Decoded<Option<Batch>> {
    let rows = steps.iter().map(|step| saved::step(step));
    let rows: Vec<_> = rows.collect::<Decoded<_>>()?;
    let change = format!("UPDATE steps SET {}, {}", saved::SET_MOVED, saved::SET_REST);
    Ok(Batch::change(&change, "id = $1", rows))
}

fn end_tombstones(rows: &str) -> String {
    format!(
        "WITH changed AS (
             UPDATE tombstones t SET phase = n.phase, gone_at = n.gone
             FROM {rows} AS n(record, deletion, phase, gone)
             WHERE t.record_id = n.record AND t.deletion = n.deletion
             RETURNING t.record_id, t.site, t.kind, t.id, t.phase),
         dropped AS (DELETE FROM snapshots WHERE record IN (SELECT record_id FROM changed))
         SELECT site, kind, id, phase FROM changed"
    )
}

/// Continues the audit's chain (P6).
fn audit_batch(
    entries: &[(AuditEntry, DateTime<Utc>)],
    rows: &PostgresRows,
) -> Stored<PostgresRows, Option<Batch>> {
    if entries.is_empty() {
        return Ok(None);
    }
    let last = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1";
    let last = rows.read_first(last, &[], |row| {
        Ok(Head {
            length: row.read(0)?,
            hash: row.read(1)?,
        })
    })?;
    let mut head = last.unwrap_or_else(Head::none);
    let continued = entries.iter().map(|(entry, now)| {
        let row = audit::next_row(&head, entry, *now);
        head = Head::of(&row);
        row
    });
    let continued: Vec<_> = continued.collect();
    let values = continued.iter().map(saved::audit);
    let values: Vec<_> = values.collect::<Decoded<_>>()?;
    Ok(Batch::insert(saved::AUDIT, values, ""))
}

fn save_events(rows: &str) -> String {
    format!(
        "WITH given AS (UPDATE numbers SET last = last + cardinality($1::bigint[]) WHERE name = 'event'
             RETURNING last - cardinality($1::bigint[]) AS before)
         INSERT INTO events(seq, at, deletion, step, kind, message, data)
         SELECT given.before + n.n, n.at, n.deletion, n.step, n.kind, n.message, n.data
         FROM given, {rows} WITH ORDINALITY AS n(at, deletion, step, kind, message, data, n)"
    )
}

/// The statements that save deletions, and the counters of all deletions.
pub(super) fn deletions(changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Vec<Batch> {
    let rows = changed.iter().map(|(_, now)| saved::deletion(now));
    let change = format!("UPDATE deletions SET {}, state = $23", saved::SET_DELETION);
    let counters = counter_changes(changed).into_iter();
    let counters = counters.map(|(name, by)| [name.into(), by.into()]);
    let (into, on_conflict) = saved::COUNT;
    let batches = [
        Batch::change(&change, "num = $1", rows),
        Batch::insert(into, counters, on_conflict),
    ];
    batches.into_iter().flatten().collect()
}
