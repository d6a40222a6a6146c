//! Taking steps: what is ready for whom, fair between deletions, and what must be looked at.
//!
//! The indexes are named: without statistics SQLite takes another that also begins with the state,
//! and sorts everything that is ready at each claim.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::{Batch, Sql};
use super::rows::{self, CLAIMED};
use crate::domain::model::{KindName, Site, StepState};
use crate::domain::policy::Gathered;
use crate::ledger::{ClaimedStep, Due, LooksDue, Room};

/// The deletion that was served last at each site: the next round starts behind it.
pub(super) type Rotation = BTreeMap<Site, i64>;

impl Batch<'_> {
    pub(super) fn claim(
        &mut self,
        rooms: &[Room],
        rotation: &mut Rotation,
        now: DateTime<Utc>,
    ) -> Sql<Vec<ClaimedStep>> {
        let mut claimed = Vec::new();
        for room in rooms {
            let last = rotation.entry(room.site.clone()).or_default();
            self.claim_at(room, last, now, &mut claimed)?;
        }
        Ok(claimed)
    }

    fn claim_at(
        &mut self,
        room: &Room,
        last: &mut i64,
        now: DateTime<Utc>,
        claimed: &mut Vec<ClaimedStep>,
    ) -> Sql<()> {
        let site = &room.site.to_string();
        let mut deletions = self.in_turn(site, *last, room.now + room.ahead)?;
        let mut stops = false;
        for num in &deletions {
            stops |= self.deletion(*num)?.stops;
        }
        let mut left = if stops {
            room.now
        } else {
            room.now + room.ahead
        };
        while left > 0 && !deletions.is_empty() {
            let quota = left.div_ceil(deletions.len());
            let mut unserved = Vec::new();
            for num in deletions {
                let wanted = quota.min(left);
                if wanted == 0 {
                    break;
                }
                let taken = self.take(site, num, wanted, now)?;
                if !taken.is_empty() {
                    *last = num;
                }
                if taken.len() == wanted {
                    unserved.push(num);
                }
                left -= taken.len();
                claimed.extend(taken);
            }
            deletions = unserved;
        }
        Ok(())
    }

    /// Deletions with something ready at this site, at most `limit`, from the one behind `last` on
    /// and around.
    fn in_turn(&mut self, site: &str, last: i64, limit: usize) -> Sql<Vec<i64>> {
        let mut turn = Vec::new();
        let mut around = false;
        let mut at = last;
        while turn.len() < limit {
            let next: Option<i64> = self
                .db
                .prepare_cached(
                    "SELECT deletion FROM steps INDEXED BY steps_ready
                     WHERE state = 'ready' AND site = ?1
                     AND deletion > ?2 ORDER BY deletion LIMIT 1",
                )?
                .query_row(params![site, at], |row| row.get(0))
                .optional()?;
            match next {
                Some(num) if around && num > last => break,
                Some(num) => {
                    at = num;
                    let row = self.deletion(num)?;
                    if !row.paused && !row.cancelled {
                        turn.push(num);
                    }
                }
                None if around => break,
                None => (around, at) = (true, 0),
            }
        }
        Ok(turn)
    }

    fn take(
        &mut self,
        site: &str,
        num: i64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Sql<Vec<ClaimedStep>> {
        let deletion_id = self.deletion(num)?.id.clone();
        let sql = format!(
            "UPDATE steps SET state = 'running', since = ?4, claim = claim + 1, epoch = ?5,
                 sent = 1, next_attempt_at = NULL
             WHERE id IN (SELECT id FROM steps INDEXED BY steps_ready
                 WHERE state = 'ready' AND site = ?1 AND deletion = ?2 ORDER BY rank DESC, id LIMIT ?3)
             RETURNING {CLAIMED}, rank"
        );
        let mut taken = self
            .db
            .prepare_cached(&sql)?
            .query_map(
                params![
                    site,
                    num,
                    i64::try_from(limit).unwrap_or(i64::MAX),
                    rows::micros(now),
                    self.epoch
                ],
                |row| {
                    Ok((
                        row.get::<_, i64>(19)?,
                        rows::claimed(row, &deletion_id, false)?,
                    ))
                },
            )?
            .collect::<Sql<Vec<_>>>()?;
        taken.sort_by_key(|(rank, step)| (std::cmp::Reverse(*rank), step.id));
        let n = taken.len() as u64;
        self.moved(num, StepState::Ready, StepState::Running, n, now)?;
        Ok(taken.into_iter().map(|(_, step)| step).collect())
    }
}

pub(super) fn looks_due(db: &Connection, now: DateTime<Utc>) -> Sql<Vec<LooksDue>> {
    db.prepare_cached(
        "SELECT g.deletion, g.site, g.kind, g.steps, g.oldest,
             d.paused = 0 AND d.cancelled = 0 AND EXISTS(SELECT 1
                 FROM steps s INDEXED BY steps_ready
                 WHERE s.state = 'ready' AND s.site = g.site AND s.deletion = g.deletion),
             EXISTS(SELECT 1 FROM steps s INDEXED BY steps_by_state
                 WHERE s.state = 'running' AND s.deletion = g.deletion AND s.site = g.site),
             d.ready + d.running, d.requested_at
         FROM (SELECT deletion, site, kind, count(*) AS steps, min(next_attempt_at) AS oldest
             FROM steps INDEXED BY steps_due
             WHERE state = 'verifying' AND next_attempt_at <= ?1
             GROUP BY deletion, site, kind) AS g
         JOIN deletions d ON d.num = g.deletion",
    )?
    .query_map([rows::micros(now)], |row| {
        Ok(LooksDue {
            deletion: row.get(0)?,
            site: rows::site(row, 1)?,
            kind: KindName::new(row.get_ref(2)?.as_str()?),
            gathered: Gathered {
                steps: rows::number(row, 3)?,
                oldest: rows::time(row, 4)?,
                ready: row.get(5)?,
                running: row.get(6)?,
                unsent: rows::number(row, 7)?,
                since: rows::time(row, 8)?,
            },
        })
    })?
    .collect()
}

pub(super) fn verifying(
    db: &Connection,
    of: &[LooksDue],
    now: DateTime<Utc>,
    limit: usize,
) -> Sql<Vec<ClaimedStep>> {
    let columns = CLAIMED.replace(", ", ", s.");
    let sql = format!(
        "SELECT s.{columns}, d.id, d.cancelled FROM steps s INDEXED BY steps_due
         JOIN deletions d ON d.num = s.deletion
         WHERE s.state = 'verifying' AND s.next_attempt_at <= ?1
             AND s.deletion = ?2 AND s.site = ?3 AND s.kind = ?4
         ORDER BY s.next_attempt_at LIMIT ?5"
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut due = Vec::new();
    for group in of {
        let left = i64::try_from(limit - due.len()).unwrap_or(i64::MAX);
        let steps = select.query_map(
            params![
                rows::micros(now),
                group.deletion,
                group.site.to_string(),
                group.kind.as_str(),
                left
            ],
            |row| {
                let deletion_id: String = row.get(19)?;
                rows::claimed(row, &deletion_id, row.get(20)?)
            },
        )?;
        for step in steps {
            due.push(step?);
        }
    }
    Ok(due)
}

pub(super) fn next_due(db: &Connection, now: DateTime<Utc>) -> Sql<Due> {
    let first = |state: &str, after: i64| {
        db.prepare_cached(
            "SELECT min(next_attempt_at) FROM steps INDEXED BY steps_due
             WHERE (state = 'blocked' OR state = 'verifying') AND state = ?1
                 AND next_attempt_at > ?2",
        )?
        .query_row(params![state, after], |row| rows::time_opt(row, 0))
    };
    Ok(Due {
        attempt: first("blocked", i64::MIN)?,
        look: first("verifying", rows::micros(now))?,
    })
}
