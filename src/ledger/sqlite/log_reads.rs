//! Reads of events, of the audit, and of what else happened to the ledger.

use rusqlite::{Row, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::model::{Event, SitePause};
use crate::domain::notification::Mark;
use crate::ledger::AuditRow;
use crate::ledger::store::{EventRange, EventsOf, LogReads};

impl<R: Run> LogReads for R {
    fn ledger_id(&self) -> Sql<String> {
        self.one("SELECT id FROM identity", (), |row| row.get(0))
    }

    fn load_events(&self, after: i64, of: EventsOf, limit: usize) -> Sql<Vec<Event>> {
        let (condition, value) = match of {
            EventsOf::All => ("?3 = 0", 0),
            EventsOf::Deletion(num) => ("e.deletion = ?3", num),
            EventsOf::Step(id) => ("e.step = ?3", id),
        };
        self.all(
            &format!(
                "SELECT e.seq, e.at, d.id, e.step, e.kind, e.message, e.data
                 FROM events e LEFT JOIN deletions d ON d.num = e.deletion
                 WHERE e.seq > ?1 AND {condition} ORDER BY e.seq LIMIT ?2"
            ),
            params![after, limit as i64, value],
            event,
        )
    }

    fn event_range(&self) -> Sql<EventRange> {
        self.one(
            // Events that were pruned had numbers, too. In a replay `events` is a view, which has no sequence.
            "SELECT coalesce((SELECT min(seq) FROM events), last + 1), last,
                 (SELECT at FROM events ORDER BY seq DESC LIMIT 1)
             FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'),
                 (SELECT max(seq) FROM events), 0) AS last)",
            (),
            |row| {
                Ok(EventRange {
                    oldest: row.get(0)?,
                    newest: row.get(1)?,
                    latest_at: rows::time_opt(row, 2)?,
                })
            },
        )
    }

    fn load_audit(&self, after: i64, limit: usize) -> Sql<Vec<AuditRow>> {
        self.all(
            "SELECT seq, at, actor, action, target, reason, detail, hash FROM audit
             WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            params![after, limit as i64],
            |row| {
                Ok(AuditRow {
                    seq: row.get(0)?,
                    at: rows::time(row, 1)?,
                    actor: rows::from_json(row, 2)?,
                    action: row.get(3)?,
                    target: row.get(4)?,
                    reason: row.get(5)?,
                    detail: rows::from_json(row, 6)?,
                    hash: row.get(7)?,
                })
            },
        )
    }

    fn load_mark(&self, channel: &str) -> Sql<Option<Mark>> {
        let sql = "SELECT mark FROM told WHERE channel = ?1";
        self.first(sql, [channel], |row| rows::from_json(row, 0))
    }

    fn load_site_pauses(&self) -> Sql<Vec<SitePause>> {
        let sql = "SELECT site, actor, reason, at FROM site_pauses ORDER BY site";
        self.all(sql, (), |row| {
            Ok(SitePause {
                site: rows::site(row, 0)?,
                by: rows::from_json(row, 1)?,
                reason: row.get(2)?,
                at: rows::time(row, 3)?,
            })
        })
    }
}

fn event(row: &Row) -> Sql<Event> {
    Ok(Event {
        seq: row.get(0)?,
        at: rows::time(row, 1)?,
        deletion_id: row.get(2)?,
        step_id: row.get(3)?,
        kind: rows::word(row, 4)?,
        message: row.get(5)?,
        data: rows::from_json(row, 6)?,
    })
}
