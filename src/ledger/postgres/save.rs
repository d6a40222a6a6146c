//! Saves the rows that a change has left in memory: one statement for each kind of row, all in one round trip.

use std::collections::BTreeMap;

use chrono::DateTime;

use super::client::{Columns, Connection};
use super::failed::Sql;
use super::rows::{self, micros, micros_opt};
use super::step_rows::{self, Saved};
use crate::domain::model::Phase;
use crate::ledger::audit::{self, GENESIS};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{EndedTombstone, StoredTombstone, Unsaved};
use crate::ledger::{AuditEntry, AuditRow};

/// The columns of the rows to save.
pub(super) struct Save {
    /// Steps that have ended or are left to another deletion, and so free their resource. They are written first,
    /// because another step may take the resource over.
    leaving: Saved,
    steps: Saved,
    tombstones: Tombstones,
    ended: Ended,
    cleared: Vec<i64>,
    audit: Audit,
    events: Events,
}

#[derive(Default)]
struct Tombstones {
    records: Vec<i64>,
    deletions: Vec<i64>,
    phases: Vec<&'static str>,
    deleted: Vec<Option<i64>>,
    gone: Vec<Option<i64>>,
    incarnations: Vec<i64>,
    recreated: Vec<i64>,
}

#[derive(Default)]
struct Ended {
    records: Vec<i64>,
    deletions: Vec<i64>,
    phases: Vec<&'static str>,
    gone: Vec<Option<i64>>,
}

#[derive(Default)]
struct Audit {
    seqs: Vec<i64>,
    at: Vec<i64>,
    actors: Vec<String>,
    actions: Vec<String>,
    targets: Vec<String>,
    reasons: Vec<String>,
    details: Vec<String>,
    hashes: Vec<String>,
}

#[derive(Default)]
struct Events {
    at: Vec<i64>,
    deletions: Vec<Option<i64>>,
    steps: Vec<Option<i64>>,
    kinds: Vec<&'static str>,
    messages: Vec<String>,
    data: Vec<String>,
}

impl Save {
    pub(super) fn of(unsaved: &Unsaved<'_>, db: &Connection) -> Sql<Self> {
        let now = || unsaved.steps.iter().map(|(_, now)| *now);
        let is_leaving = |step: &&crate::ledger::store::StoredStep| {
            step.ended_at.is_some() || step.left_to.is_some()
        };
        Ok(Self {
            leaving: Saved::of(now().filter(is_leaving))?,
            steps: Saved::of(now().filter(|step| !is_leaving(step)))?,
            tombstones: Tombstones::of(&unsaved.tombstones),
            ended: Ended::of(&unsaved.ended),
            cleared: unsaved.cleared.clone(),
            audit: Audit::of(&unsaved.audit, db)?,
            events: Events::of(unsaved),
        })
    }

    /// The statements and their values. They return the tombstones that they write: site, kind, id and phase.
    pub(super) fn statements(&self) -> Vec<(&'static str, Columns<'_>)> {
        let all: [(bool, &str, Columns<'_>); 7] = [
            (
                self.leaving.is_empty(),
                step_rows::SAVE,
                self.leaving.values(),
            ),
            (self.steps.is_empty(), step_rows::SAVE, self.steps.values()),
            (
                self.tombstones.records.is_empty(),
                SAVE_TOMBSTONES,
                self.tombstones.values(),
            ),
            (
                self.ended.records.is_empty(),
                END_TOMBSTONES,
                self.ended.values(),
            ),
            (self.cleared.is_empty(), CLEAR, vec![&self.cleared]),
            (self.audit.seqs.is_empty(), SAVE_AUDIT, self.audit.values()),
            (self.events.at.is_empty(), SAVE_EVENTS, self.events.values()),
        ];
        let needed = all.into_iter().filter(|(is_empty, ..)| !is_empty);
        needed.map(|(_, sql, columns)| (sql, columns)).collect()
    }
}

const CLEAR: &str = "DELETE FROM awaited WHERE step = ANY($1::bigint[])";

const SAVE_TOMBSTONES: &str = "
    UPDATE tombstones t SET deletion = n.deletion, phase = n.phase, deleted_at = n.deleted,
        gone_at = n.gone, incarnation = n.incarnation, recreated = n.recreated
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
        $7::bigint[]) AS n(record, deletion, phase, deleted, gone, incarnation, recreated)
    WHERE t.record_id = n.record RETURNING t.site, t.kind, t.id, t.phase";

impl Tombstones {
    fn of(all: &[StoredTombstone]) -> Self {
        // A statement writes each row once: the last state counts.
        let last: BTreeMap<i64, &StoredTombstone> = all.iter().map(|it| (it.record, it)).collect();
        let mut columns = Self::default();
        for now in last.into_values() {
            columns.records.push(now.record);
            columns.deletions.push(now.deletion);
            columns.phases.push(now.phase.as_str());
            columns.deleted.push(micros_opt(now.deleted_at));
            columns.gone.push(micros_opt(now.gone_at));
            columns.incarnations.push(i64::from(now.incarnation));
            columns.recreated.push(i64::from(now.recreated));
        }
        columns
    }

    fn values(&self) -> Columns<'_> {
        vec![
            &self.records,
            &self.deletions,
            &self.phases,
            &self.deleted,
            &self.gone,
            &self.incarnations,
            &self.recreated,
        ]
    }
}

const END_TOMBSTONES: &str = "
    WITH changed AS (
        UPDATE tombstones t SET phase = n.phase, gone_at = n.gone
        FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
            AS n(record, deletion, phase, gone)
        WHERE t.record_id = n.record AND t.deletion = n.deletion
        RETURNING t.record_id, t.site, t.kind, t.id, t.phase),
    dropped AS (DELETE FROM snapshots WHERE record IN (SELECT record_id FROM changed))
    SELECT site, kind, id, phase FROM changed";

impl Ended {
    fn of(all: &[EndedTombstone]) -> Self {
        let last = all.iter().map(|it| ((it.record, it.deletion), it));
        let last: BTreeMap<(i64, i64), &EndedTombstone> = last.collect();
        let mut columns = Self::default();
        for ended in last.into_values() {
            columns.records.push(ended.record);
            columns.deletions.push(ended.deletion);
            columns.phases.push(ended.phase.as_str());
            let gone = (ended.phase == Phase::Gone).then(|| micros(ended.at));
            columns.gone.push(gone);
        }
        columns
    }

    fn values(&self) -> Columns<'_> {
        vec![&self.records, &self.deletions, &self.phases, &self.gone]
    }
}

const SAVE_AUDIT: &str = "
    INSERT INTO audit(seq, at, actor, action, target, reason, detail, hash)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::text[], $8::text[])";

impl Audit {
    /// Continues the audit's chain (P6).
    fn of(entries: &[(AuditEntry, DateTime<chrono::Utc>)], db: &Connection) -> Sql<Self> {
        let mut columns = Self::default();
        if entries.is_empty() {
            return Ok(columns);
        }
        let last = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1";
        let last = db.first(last, &[], |row| Ok((row.read(0)?, row.read(1)?)))?;
        let (mut seq, mut hash) = last.unwrap_or((0, GENESIS.to_owned()));
        for (entry, now) in entries {
            seq += 1;
            let mut row = AuditRow {
                seq,
                // In the precision of the table; otherwise the hash would not match the row that is read back.
                at: DateTime::from_timestamp_micros(micros(*now)).unwrap_or(*now),
                actor: entry.actor.clone(),
                action: entry.action.clone(),
                target: entry.target.clone(),
                reason: entry.reason.clone(),
                detail: entry.detail.clone(),
                hash: String::new(),
            };
            row.hash = audit::link(&hash, &row);
            hash.clone_from(&row.hash);
            // A log that is kept elsewhere shows whether the audit still has this row.
            tracing::info!(
                audit = format!("{seq}:{hash}"),
                action = row.action,
                "recorded an action in the audit"
            );
            columns.seqs.push(seq);
            columns.at.push(micros(row.at));
            columns.actors.push(rows::json(&row.actor)?);
            columns.actions.push(row.action);
            columns.targets.push(row.target);
            columns.reasons.push(row.reason);
            columns.details.push(row.detail.to_string());
            columns.hashes.push(row.hash);
        }
        Ok(columns)
    }

    fn values(&self) -> Columns<'_> {
        vec![
            &self.seqs,
            &self.at,
            &self.actors,
            &self.actions,
            &self.targets,
            &self.reasons,
            &self.details,
            &self.hashes,
        ]
    }
}

const SAVE_EVENTS: &str = "
    WITH given AS (UPDATE numbers SET last = last + cardinality($1::bigint[]) WHERE name = 'event'
        RETURNING last - cardinality($1::bigint[]) AS before)
    INSERT INTO events(seq, at, deletion, step, kind, message, data)
    SELECT given.before + n.n, n.at, n.deletion, n.step, n.kind, n.message, n.data
    FROM given, unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])
        WITH ORDINALITY AS n(at, deletion, step, kind, message, data, n)";

impl Events {
    fn of(unsaved: &Unsaved<'_>) -> Self {
        let mut columns = Self::default();
        for event in &unsaved.events {
            columns.at.push(micros(event.at));
            columns.deletions.push(event.deletion);
            columns.steps.push(event.step);
            columns.kinds.push(event.draft.kind.as_str());
            columns.messages.push(event.draft.words.clone());
            columns.data.push(event.draft.fields.to_string());
        }
        columns
    }

    fn values(&self) -> Columns<'_> {
        vec![
            &self.at,
            &self.deletions,
            &self.steps,
            &self.kinds,
            &self.messages,
            &self.data,
        ]
    }
}
