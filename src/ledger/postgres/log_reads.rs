//! Reads of events, of the audit, and of what else happened to the ledger.

use tokio_postgres::Row;

use super::failed::Sql;
use super::rows::{self, get, limit};
use super::transaction::PostgresRows;
use crate::domain::model::{Event, SitePause};
use crate::domain::notification::Mark;
use crate::ledger::AuditRow;
use crate::ledger::store::{EventRange, EventsOf, LogReads};

impl LogReads for PostgresRows {
    fn ledger_id(&self) -> Sql<String> {
        let sql = "SELECT id FROM identity";
        self.db.one(sql, &[], |row| get(row, 0))
    }

    fn load_events(&self, after: i64, of: EventsOf, most: usize) -> Sql<Vec<Event>> {
        let (condition, value) = match of {
            EventsOf::All => ("$3::bigint = 0", 0),
            EventsOf::Deletion(num) => ("e.deletion = $3", num),
            EventsOf::Step(id) => ("e.step = $3", id),
        };
        self.db.all(
            &format!(
                "SELECT e.seq, e.at, d.id, e.step, e.kind, e.message, e.data
                 FROM events e LEFT JOIN deletions d ON d.num = e.deletion
                 WHERE e.seq > $1 AND {condition} ORDER BY e.seq LIMIT $2"
            ),
            &[&after, &limit(most), &value],
            event,
        )
    }

    fn event_range(&self) -> Sql<EventRange> {
        self.db.one(
            // Events that were pruned had numbers, too.
            "SELECT coalesce((SELECT min(seq) FROM events), last + 1), last,
                 (SELECT at FROM events ORDER BY seq DESC LIMIT 1)
             FROM numbers WHERE name = 'event'",
            &[],
            |row| {
                Ok(EventRange {
                    oldest: get(row, 0)?,
                    newest: get(row, 1)?,
                    latest_at: rows::time_opt(row, 2)?,
                })
            },
        )
    }

    fn load_audit(&self, after: i64, most: usize) -> Sql<Vec<AuditRow>> {
        self.db.all(
            "SELECT seq, at, actor, action, target, reason, detail, hash FROM audit
             WHERE seq > $1 ORDER BY seq LIMIT $2",
            &[&after, &limit(most)],
            |row| {
                Ok(AuditRow {
                    seq: get(row, 0)?,
                    at: rows::time(row, 1)?,
                    actor: rows::from_json(row, 2)?,
                    action: get(row, 3)?,
                    target: get(row, 4)?,
                    reason: get(row, 5)?,
                    detail: rows::from_json(row, 6)?,
                    hash: get(row, 7)?,
                })
            },
        )
    }

    fn load_mark(&self, channel: &str) -> Sql<Option<Mark>> {
        let sql = "SELECT mark FROM told WHERE channel = $1";
        self.db
            .first(sql, &[&channel], |row| rows::from_json(row, 0))
    }

    fn load_site_pauses(&self) -> Sql<Vec<SitePause>> {
        let sql = "SELECT site, actor, reason, at FROM site_pauses ORDER BY site";
        self.db.all(sql, &[], |row| {
            Ok(SitePause {
                site: rows::site(row, 0)?,
                by: rows::from_json(row, 1)?,
                reason: get(row, 2)?,
                at: rows::time(row, 3)?,
            })
        })
    }
}

fn event(row: &Row) -> Sql<Event> {
    Ok(Event {
        seq: get(row, 0)?,
        at: rows::time(row, 1)?,
        deletion_id: get(row, 2)?,
        step_id: get(row, 3)?,
        kind: rows::word(row, 4)?,
        message: get(row, 5)?,
        data: rows::from_json(row, 6)?,
    })
}
