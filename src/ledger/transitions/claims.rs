//! Claims of ready steps, fairly between deletions.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::step::{Facts, Trigger};
use crate::domain::model::{Site, StepState};
use crate::ledger::store::{LedgerRows, StepRow};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Capacity, ClaimedStep};

/// The deletion that was served last at each site; the next round starts after it.
pub type Rotation = BTreeMap<Site, i64>;

impl<S: LedgerRows> WorkingSet<S> {
    /// Claims ready steps; see [`WorkQueue::claim`](crate::ledger::WorkQueue::claim).
    pub fn claim(
        &mut self,
        capacities: &[Capacity],
        rotation: &mut Rotation,
        now: DateTime<Utc>,
    ) -> Changing<S, Vec<ClaimedStep>> {
        let mut claimed = Vec::new();
        for capacity in capacities {
            let last = rotation.entry(capacity.site.clone()).or_default();
            self.claim_at(capacity, last, now, &mut claimed)?;
        }
        self.save()?;
        self.forget_steps();
        Ok(claimed)
    }

    fn claim_at(
        &mut self,
        capacity: &Capacity,
        last: &mut i64,
        now: DateTime<Utc>,
        claimed: &mut Vec<ClaimedStep>,
    ) -> Changing<S> {
        let site = &capacity.site;
        let mut deletions = self.next_deletions(site, *last, capacity.now + capacity.ahead)?;
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
    fn next_deletions(&mut self, site: &Site, last: i64, limit: usize) -> Changing<S, Vec<i64>> {
        let mut next = Vec::new();
        for (mut after, until) in [(last, i64::MAX), (0, last)] {
            let mut may_be_more = true;
            while may_be_more && next.len() < limit {
                let wanted = limit - next.len();
                let store = self.searched()?;
                let found = store.find_ready_deletions(site, (after, until), wanted)?;
                may_be_more = found.len() == wanted;
                after = found.last().copied().unwrap_or(after);
                for num in found {
                    let row = self.deletion(num)?;
                    if !row.paused && !row.cancelled {
                        next.push(num);
                    }
                }
            }
        }
        Ok(next)
    }

    fn take(
        &mut self,
        site: &Site,
        num: i64,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Changing<S, Vec<ClaimedStep>> {
        let deletion_id = self.deletion(num)?.id.clone();
        let ready = self.searched()?.load_ready(site, num, limit)?;
        let running = Self::next(StepState::Ready, Trigger::Claimed, Facts::default())?;
        let epoch = self.store().epoch();
        let mut taken = Vec::with_capacity(ready.len());
        for StepRow { now: step, plan } in ready {
            let id = step.id;
            self.adopt_step(step);
            let step = self.step_mut(id)?;
            step.state = running.state;
            step.since = now;
            step.claim += 1;
            step.epoch = epoch;
            step.sent = true;
            step.next_attempt_at = None;
            taken.push(plan.claimed(step, &deletion_id, false));
        }
        let n = taken.len() as u64;
        self.moved(num, StepState::Ready, running.state, n, now)?;
        Ok(taken)
    }
}
