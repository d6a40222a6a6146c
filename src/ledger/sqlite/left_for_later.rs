//! What people left for later: sites that they paused, and orphans.

use rusqlite::{Connection, params};

use super::rows::{self, CLAIMED};
use super::sql::{Run, Sql};
use crate::domain::model::{Paged, SitePause};
use crate::ledger::AbandonedStep;

pub(super) fn site_pauses(db: &Connection) -> Sql<Vec<SitePause>> {
    db.all(
        "SELECT site, actor, reason, at FROM site_pauses ORDER BY site",
        (),
        |row| {
            Ok(SitePause {
                site: rows::site(row, 0)?,
                by: rows::from_json(row, 1)?,
                reason: row.get(2)?,
                at: rows::time(row, 3)?,
            })
        },
    )
}

/// By deletion, then by step; the cursor is both. A resource deleted or released since is not an orphan.
pub(super) fn orphans(
    db: &Connection,
    after: Option<[i64; 2]>,
    limit: usize,
) -> Sql<Paged<AbandonedStep>> {
    let [num, id] = after.unwrap_or([0, 0]);
    let found = db.all(
        &format!(
            "SELECT {CLAIMED}, d.id, s.ended_at FROM steps s INDEXED BY steps_by_state
             JOIN deletions d ON d.num = s.deletion
             JOIN tombstones t ON t.record_id = s.record AND t.deletion = s.deletion
             WHERE s.state = 'purged' AND t.phase = 'purged' AND (s.deletion, s.id) > (?1, ?2)
             ORDER BY s.deletion, s.id LIMIT ?3"
        ),
        params![num, id, limit as i64 + 1],
        |row| {
            let deletion_id: String = row.get(20)?;
            let forgotten = AbandonedStep {
                step: rows::claimed(row, &deletion_id, false)?,
                since: rows::time(row, 21)?,
            };
            let num: i64 = row.get(1)?;
            Ok((format!("{num}:{}", forgotten.step.id), forgotten))
        },
    )?;
    Ok(rows::page(found, limit))
}
