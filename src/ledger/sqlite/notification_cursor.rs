//! How far each channel has been notified (I7), and the state of each site that people were notified of.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, Sql};
use crate::domain::news::{Mark, NotificationCursor};
use crate::ledger::Applied;

impl Batch<'_> {
    /// Whether a site's state differs from the one that any engine wrote last. A site that works, and never
    /// failed, is not a change.
    pub(super) fn site_changed(&self, data: &Value) -> Sql<bool> {
        let (Some(site), Some(state)) = (data["site"].as_str(), data["state"].as_str()) else {
            return Ok(true);
        };
        let changed = match state {
            "reachable" => self.run(
                "UPDATE sites SET state = ?2 WHERE site = ?1 AND state <> ?2",
                params![site, state],
            )?,
            _ => self.run(
                "INSERT INTO sites(site, state) VALUES(?1, ?2)
                 ON CONFLICT(site) DO UPDATE SET state = excluded.state
                     WHERE state <> excluded.state",
                params![site, state],
            )?,
        };
        Ok(changed > 0)
    }

    pub(super) fn move_notification_cursor(&self, channel: &str, mark: Option<&Mark>) -> Apply {
        match mark {
            Some(mark) => self.run(
                "INSERT OR REPLACE INTO told(channel, mark) VALUES(?1, ?2)",
                params![channel, rows::json(mark)?],
            )?,
            None => self.run("DELETE FROM told WHERE channel = ?1", params![channel])?,
        };
        Ok(Applied::Done)
    }
}

pub(super) fn read(db: &Connection, channel: &str) -> Sql<NotificationCursor> {
    let mark = db.first(
        "SELECT mark FROM told WHERE channel = ?1",
        params![channel],
        |row| rows::from_json(row, 0),
    )?;
    let (ledger_id, newest) = db.one(
        "SELECT id, coalesce((SELECT max(seq) FROM events), 0) FROM identity",
        (),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(NotificationCursor {
        ledger_id,
        newest,
        mark,
    })
}
