//! How far each channel has been notified (I7).

use rusqlite::Connection;

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::news::NotificationCursor;

pub(super) fn read(db: &Connection, channel: &str) -> Sql<NotificationCursor> {
    let mark = db.first(
        "SELECT mark FROM told WHERE channel = ?1",
        [channel],
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
