//! Claims ready steps, fairly between deletions, and finds the steps to observe.
//!
//! The queries name their indexes: without statistics SQLite takes another index that also begins with the
//! state, and sorts all ready steps at each claim.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, CLAIMED};
use super::sql::{Run, Sql, Stop, unrefused};
use super::transaction::Rows;
use crate::domain::model::{KindName, Site, StepState};
use crate::domain::policy::{Gathered, WORTH_A_LIST};
use crate::ledger::transitions::step;
use crate::ledger::{Capacity, ClaimedStep, Due, Fence, ObservationsDue};

/// The deletion that was served last at each site; the next round starts after it.
pub(super) type Rotation = BTreeMap<Site, i64>;

impl Rows<'_> {
    pub(super) fn claim(
        &mut self,
        capacities: &[Capacity],
        rotation: &mut Rotation,
        now: DateTime<Utc>,
    ) -> Sql<Vec<ClaimedStep>> {
        let mut claimed = Vec::new();
        for capacity in capacities {
            let last = rotation.entry(capacity.site.clone()).or_default();
            self.claim_at(capacity, last, now, &mut claimed)?;
        }
        Ok(claimed)
    }

    fn claim_at(
        &mut self,
        capacity: &Capacity,
        last: &mut i64,
        now: DateTime<Utc>,
        claimed: &mut Vec<ClaimedStep>,
    ) -> Sql<()> {
        let site = &capacity.site.to_string();
        let mut deletions = self.in_turn(site, *last, capacity.now + capacity.ahead)?;
        let mut stops = false;
        for num in &deletions {
            stops |= self.deletion(*num)?.stops;
        }
        let mut left = if stops {
            capacity.now
        } else {
            capacity.now + capacity.ahead
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

    /// Lists deletions that have ready steps at this site and are neither paused nor cancelled: round-robin
    /// from the one after `last`, at most `limit`.
    fn in_turn(&mut self, site: &str, last: i64, limit: usize) -> Sql<Vec<i64>> {
        let mut turn = Vec::new();
        let mut around = false;
        let mut at = last;
        while turn.len() < limit {
            let next: Option<i64> = self.first(
                "SELECT deletion FROM steps INDEXED BY steps_ready
                     WHERE state = 'ready' AND site = ?1
                     AND deletion > ?2 ORDER BY deletion LIMIT 1",
                params![site, at],
                |row| row.get(0),
            )?;
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
            "SELECT {CLAIMED} FROM steps s INDEXED BY steps_ready
             WHERE state = 'ready' AND site = ?1 AND deletion = ?2
             ORDER BY rank DESC, id LIMIT ?3"
        );
        let limit = limit as i64;
        let mut taken = self.all(&sql, params![site, num, limit], |row| {
            rows::claimed(row, &deletion_id, false)
        })?;
        let facts = step::Facts::default();
        let running = step::after(StepState::Ready, step::Trigger::Claimed, facts);
        let running = unrefused(running.map_err(|why| Stop::Impossible(why.0)))?;
        let epoch = self.store().epoch;
        // Row by row, as in `release_dependents`.
        for step in &mut taken {
            step.fence = Fence {
                state: running.state,
                claim: step.fence.claim + 1,
                epoch,
            };
            step.since = now;
            self.run(
                "UPDATE steps SET state = ?2, since = ?3, claim = ?4, epoch = ?5, sent = 1,
                     next_attempt_at = NULL
                 WHERE id = ?1",
                params![
                    step.id,
                    step.fence.state.as_str(),
                    rows::micros(now),
                    step.fence.claim,
                    step.fence.epoch
                ],
            )?;
        }
        let n = taken.len() as u64;
        self.moved(num, StepState::Ready, running.state, n, now)?;
        Ok(taken)
    }
}

/// Jumps from one group to the next: the cost grows with the number of groups, and only a little with their
/// steps.
pub(super) fn observations_due(db: &Connection, now: DateTime<Utc>) -> Sql<Vec<ObservationsDue>> {
    let mut due = Vec::new();
    let mut behind = db.prepare_cached(
        "SELECT deletion, site, kind, rank FROM steps INDEXED BY steps_looks
         WHERE state = 'verifying'
             AND (deletion, site, kind, rank, next_attempt_at) > (?1, ?2, ?3, ?4, ?5)
         ORDER BY deletion, site, kind, rank LIMIT 1",
    )?;
    let mut of_group = db.prepare_cached(
        "SELECT (SELECT min(v.next_attempt_at) FROM steps v INDEXED BY steps_looks
                 WHERE v.state = 'verifying' AND v.deletion = ?1 AND v.site = ?2
                     AND v.kind = ?3 AND v.rank = ?4) AS oldest,
             ?6 = (SELECT count(*) FROM (SELECT 1 FROM steps v INDEXED BY steps_looks
                 WHERE v.state = 'verifying' AND v.deletion = ?1 AND v.site = ?2
                     AND v.kind = ?3 AND v.rank = ?4 AND v.next_attempt_at <= ?5 LIMIT ?6)),
             (SELECT s.rank FROM steps s INDEXED BY steps_ready
                 WHERE s.state = 'ready' AND s.site = ?2 AND s.deletion = ?1
                     AND d.paused = 0 AND d.cancelled = 0 ORDER BY s.rank DESC LIMIT 1),
             (SELECT max(s.rank) FROM steps s INDEXED BY steps_by_state
                 WHERE s.state = 'running' AND s.deletion = ?1 AND s.site = ?2),
             d.verifying, d.ready + d.running, d.requested_at
         FROM deletions d WHERE d.num = ?1 AND oldest <= ?5",
    )?;
    let full = WORTH_A_LIST as i64;
    let mut group = (0_i64, String::new(), String::new(), 0_u32);
    while let Some(next) = behind
        // Starts after the group's last entry; from its first entry, SQLite would read the whole group.
        .query_row(
            params![group.0, group.1, group.2, group.3, i64::MAX],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .optional()?
    {
        group = next;
        let (deletion, site, kind, rank) = &group;
        let values = params![deletion, site, kind, rank, rows::micros(now), full];
        let gathered = of_group
            .query_row(values, |row| {
                Ok(Gathered {
                    oldest: rows::time(row, 0)?,
                    fills_a_list: row.get(1)?,
                    rank: *rank,
                    ready: row.get(2)?,
                    running: row.get(3)?,
                    verifying: rows::number(row, 4)?,
                    unsent: rows::number(row, 5)?,
                    since: rows::time(row, 6)?,
                })
            })
            .optional()?;
        due.extend(gathered.map(|gathered| ObservationsDue {
            deletion: *deletion,
            site: rows::site_of(site),
            kind: KindName::new(kind),
            gathered,
        }));
    }
    Ok(due)
}

pub(super) fn verifying(
    db: &Connection,
    of: &[ObservationsDue],
    now: DateTime<Utc>,
    limit: usize,
) -> Sql<Vec<ClaimedStep>> {
    let sql = format!(
        "SELECT {CLAIMED}, d.id, d.cancelled FROM steps s INDEXED BY steps_looks
         JOIN deletions d ON d.num = s.deletion
         WHERE s.state = 'verifying' AND s.next_attempt_at <= ?1
             AND s.deletion = ?2 AND s.site = ?3 AND s.kind = ?4 AND s.rank = ?5
         ORDER BY s.next_attempt_at LIMIT ?6"
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
                group.gathered.rank,
                left
            ],
            |row| {
                let deletion_id: String = row.get(20)?;
                rows::claimed(row, &deletion_id, row.get(21)?)
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
        db.one(
            "SELECT min(next_attempt_at) FROM steps INDEXED BY steps_due
             WHERE (state = 'blocked' OR state = 'verifying') AND state = ?1
                 AND next_attempt_at > ?2",
            params![state, after],
            |row| rows::time_opt(row, 0),
        )
    };
    Ok(Due {
        attempt: first("blocked", i64::MIN)?,
        look: first("verifying", rows::micros(now))?,
    })
}
