//! Taking steps: what is ready for whom, fair between deletions, and what must be looked at.
//!
//! The indexes are named: without statistics SQLite takes another that also begins with the state,
//! and sorts everything that is ready at each claim.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::{Batch, Sql};
use super::rows::{self, CLAIMED};
use crate::domain::model::{Site, StepState};
use crate::ledger::{ClaimedStep, Due};

/// The deletion that was served last at each site: the next round starts behind it.
pub(super) type Rotation = BTreeMap<Site, i64>;

impl Batch<'_> {
    pub(super) fn claim(
        &mut self,
        limits: &[(Site, usize)],
        rotation: &mut Rotation,
        now: DateTime<Utc>,
    ) -> Sql<Vec<ClaimedStep>> {
        let mut claimed = Vec::new();
        for (site, limit) in limits {
            let last = rotation.entry(site.clone()).or_default();
            self.claim_at(&site.to_string(), *limit, last, now, &mut claimed)?;
        }
        Ok(claimed)
    }

    fn claim_at(
        &mut self,
        site: &str,
        limit: usize,
        last: &mut i64,
        now: DateTime<Utc>,
        claimed: &mut Vec<ClaimedStep>,
    ) -> Sql<()> {
        let mut deletions = self.in_turn(site, *last, limit)?;
        let mut left = limit;
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

pub(super) fn verifying(
    db: &Connection,
    now: DateTime<Utc>,
    limit: usize,
) -> Sql<Vec<ClaimedStep>> {
    let columns = CLAIMED.replace(", ", ", s.");
    let sql = format!(
        "SELECT s.{columns}, d.id, d.cancelled FROM steps s INDEXED BY steps_due
         JOIN deletions d ON d.num = s.deletion
         WHERE s.state = 'verifying' AND s.next_attempt_at <= ?1
         ORDER BY s.next_attempt_at LIMIT ?2"
    );
    let mut due = db
        .prepare_cached(&sql)?
        .query_map(
            params![rows::micros(now), i64::try_from(limit).unwrap_or(i64::MAX)],
            |row| {
                let deletion_id: String = row.get(19)?;
                rows::claimed(row, &deletion_id, row.get(20)?)
            },
        )?
        .collect::<Sql<Vec<_>>>()?;
    // Stable: oldest first within a group.
    due.sort_by(|a, b| (&a.key.site, &a.key.kind).cmp(&(&b.key.site, &b.key.kind)));
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
