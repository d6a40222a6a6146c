//! Notifications (I7): one event for each step that is stuck in its own right, and the cursor up to which
//! each channel has been notified.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde_json::Value;

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, Sql};

use crate::domain::model::StepError;
use crate::domain::news::{Mark, NotificationCursor};
use crate::ledger::Applied;
use crate::ledger::events;

impl Batch<'_> {
    /// Notifies people that a step is stuck in its own right, once until a person puts it to work again. A
    /// repeated DELETE (T6), which wakes the step for one attempt, does not notify again.
    pub(super) fn tell_person(&mut self, num: i64, step: i64, now: DateTime<Utc>) -> Sql<()> {
        let untold = self.run(
            "UPDATE steps SET told = 1 WHERE id = ?1 AND told = 0",
            params![step],
        )?;
        if untold == 0 {
            return Ok(());
        }
        let deletion = self.deletion(num)?.id.clone();
        let happened = self.one(
            "SELECT site, kind, resource, name, last_error FROM steps WHERE id = ?1",
            [step],
            |row| {
                let (key, name): (_, String) = (rows::key(row, 0)?, row.get(3)?);
                let error: Option<StepError> = rows::from_json_opt(row, 4)?;
                Ok(events::person_needed(
                    &deletion,
                    &key,
                    &name,
                    error.as_ref(),
                ))
            },
        )?;
        self.event(Some(num), Some(step), &happened, now)
    }

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
