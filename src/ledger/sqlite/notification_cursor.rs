//! How far each channel has been notified (I7).

use rusqlite::{Connection, params};

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, Sql};
use crate::domain::news::{Mark, NotificationCursor};
use crate::ledger::Applied;

impl Batch<'_> {
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
