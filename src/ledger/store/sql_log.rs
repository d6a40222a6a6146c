//! Reads of events, of the audit, of notification cursors, and of paused sites, in the SQL of all stores.

use super::Stored;
use super::decode;
use super::reads::{EventRange, EventsOf, LogReads};
use super::sql::{ReadColumns as _, SqlValue, Statements};
use crate::domain::model::{Event, SitePause};
use crate::domain::notification::CursorPosition;
use crate::ledger::AuditRow;

impl<S: Statements> LogReads for S {
    fn ledger_id(&self) -> Stored<Self, String> {
        self.read_one("SELECT id FROM identity", &[], |row| row.read(0))
    }

    fn load_events(&self, after: i64, of: EventsOf, limit: usize) -> Stored<Self, Vec<Event>> {
        let (condition, number) = match of {
            EventsOf::All => ("", None),
            EventsOf::Deletion(num) => ("AND e.deletion = $3", Some(num)),
            EventsOf::Step(id) => ("AND e.step = $3", Some(id)),
        };
        let sql = format!(
            "SELECT e.seq, e.at, d.id, e.step, e.kind, e.message, e.data
             FROM events e LEFT JOIN deletions d ON d.num = e.deletion
             WHERE e.seq > $1 {condition} ORDER BY e.seq LIMIT $2"
        );
        let mut values: Vec<SqlValue<'_>> = vec![after.into(), limit.into()];
        values.extend(number.map(SqlValue::from));
        self.read_all(&sql, &values, decode::event)
    }

    fn event_range(&self) -> Stored<Self, EventRange> {
        let last = Self::DIALECT.last_event;
        // The last number may be that of an event that was pruned.
        let sql = format!(
            "SELECT coalesce((SELECT min(seq) FROM events), n.last + 1), n.last,
                 (SELECT at FROM events ORDER BY seq DESC LIMIT 1)
             FROM (SELECT {last} AS last) AS n"
        );
        self.read_one(&sql, &[], |row| {
            Ok(EventRange {
                oldest: row.read(0)?,
                newest: row.read(1)?,
                latest_at: row.read(2)?,
            })
        })
    }

    fn load_audit(&self, after: i64, limit: usize) -> Stored<Self, Vec<AuditRow>> {
        let sql = "SELECT seq, at, actor, action, target, reason, detail, hash FROM audit
             WHERE seq > $1 ORDER BY seq LIMIT $2";
        self.read_all(sql, &[after.into(), limit.into()], decode::audit_row)
    }

    fn load_cursor_position(&self, channel: &str) -> Stored<Self, Option<CursorPosition>> {
        let sql = "SELECT mark FROM told WHERE channel = $1";
        self.read_first(sql, &[channel.into()], |row| row.json(0))
    }

    fn load_site_pauses(&self) -> Stored<Self, Vec<SitePause>> {
        let sql = "SELECT site, actor, reason, at FROM site_pauses ORDER BY site";
        self.read_all(sql, &[], decode::site_pause)
    }
}
