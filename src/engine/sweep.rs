//! The sweep: searches for gone resources throughout their hold-down, and deletes those that exist again, each in a
//! deletion of its own (T14b). Only a resource with the same id counts. Kinds with natural keys, or without a list by
//! id, are never swept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::activity::Activity;
use super::reads::{Reads, rows_to_plan};
use super::removal::{PAGE, Removal, swept_together};
use super::sweep_copies::CopySweep;
use crate::domain::kinds::Kind;
use crate::domain::model::{KindName, Site, Tombstone};
use crate::domain::query::{BY_ID, ListFilter};
use crate::ledger::{LedgerError, WorkQueue};
use crate::system::clock::Clock;

/// Resources that have been gone for longer than the duration are searched for only in every nth sweep, where n is the
/// number: a resource that is re-created without passing the gate is re-created soon, and a hold-down of days must not
/// cost lists twice a minute.
const OLDER_EVERY: [(Duration, u64); 3] = [
    (Duration::from_secs(10 * 60), 4),
    (Duration::from_secs(60 * 60), 20),
    (Duration::from_secs(24 * 60 * 60), 120),
];

/// The sweep of this deployment's sites.
pub(super) struct Sweep {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn WorkQueue>,
    pub(super) reads: Arc<Reads>,
    pub(super) removal: Arc<Removal>,
    pub(super) copies: CopySweep,
    pub(super) every: Duration,
    pub(super) hold_down: Duration,
    pub(super) activity: Arc<Activity>,
}

impl Sweep {
    /// Starts a sweep that is due. Returns how long until the next one.
    pub(super) fn start(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Duration {
        let now = self.clock.now();
        let every = self.every;
        let due = self.activity.next_run_or(every);
        if due > now {
            return (due - now).to_std().unwrap_or(every);
        }
        // A sweep that takes longer than its period wakes the loop when it ends.
        if self.activity.is_running() {
            return every;
        }
        self.activity.runs_in(every);
        // The first sweep after a start searches for all resources in hold-down.
        let reach = reach(self.activity.begun(), self.hold_down);
        let (sweep, run) = (self.clone(), self.activity.begin(""));
        tasks.spawn(async move {
            let since = now - reach;
            let swept = async {
                sweep.sweep_all(since).await?;
                sweep.copies.sweep(since).await
            };
            if let Err(error) = swept.await {
                run.failed(&error);
                tracing::warn!(%error, "the sweep was interrupted; the next sweep starts from the beginning");
            }
        });
        every
    }

    async fn sweep_all(&self, mut since: DateTime<Utc>) -> Result<(), LedgerError> {
        let mut after = 0;
        loop {
            let page = self.ledger.held_down(since, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            (since, after) = (last.gone_at.unwrap_or(since), last.record_id);
            let mut groups: BTreeMap<(Site, KindName), Vec<Tombstone>> = BTreeMap::new();
            for tombstone in page {
                let kind = self.reads.kinds.get(&tombstone.key.kind);
                if kind.is_some_and(Kind::is_swept)
                    && self.reads.sites.may_read(&tombstone.key.site)
                    && !self.reads.sites.read_only(&tombstone.key.site)
                {
                    groups
                        .entry((tombstone.key.site.clone(), tombstone.key.kind.clone()))
                        .or_default()
                        .push(tombstone);
                }
            }
            for ((site, kind), tombstones) in groups {
                let Some(kind) = self.reads.kinds.get(&kind) else {
                    continue;
                };
                for batch in tombstones.chunks(swept_together(kind, BY_ID)) {
                    self.sweep_batch(&site, kind, batch).await?;
                }
            }
        }
    }

    async fn sweep_batch(
        &self,
        site: &Site,
        kind: &Kind,
        batch: &[Tombstone],
    ) -> Result<(), LedgerError> {
        let filter = ListFilter::by_ids(batch.iter().map(|tombstone| tombstone.key.id.clone()));
        let filter = Some(&filter).filter(|it| batch.len() <= kind.values_max(&it.key));
        let listing = self.reads.list_once(rows_to_plan(site, kind, filter)).await;
        let rows = match listing {
            Ok(listing) => listing.rows,
            Err(failure) => {
                self.reads.site_answered(site, Some(&failure));
                let kind = &kind.name;
                self.activity
                    .failed(format!("{kind} at {site}: {}", failure.message));
                return Ok(());
            }
        };
        let back: BTreeSet<String> = rows.iter().filter_map(|row| kind.id_of(row)).collect();
        for tombstone in batch
            .iter()
            .filter(|tombstone| back.contains(&tombstone.key.id))
        {
            self.removal.remove_again(tombstone, None).await?;
        }
        Ok(())
    }
}

/// Returns a duration: the `nth` sweep searches for resources that have been gone for at most this long.
fn reach(nth: u64, hold_down: Duration) -> Duration {
    let skipped = OLDER_EVERY
        .iter()
        .find(|(_, every)| !nth.is_multiple_of(*every));
    skipped.map_or(hold_down, |(age, _)| hold_down.min(*age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t14_resources_gone_for_longer_are_swept_less_often() {
        const MINUTE: Duration = Duration::from_secs(60);
        let week = 7 * 24 * 60 * MINUTE;
        let reaches = [
            (0, week),
            (1, 10 * MINUTE),
            (4, 60 * MINUTE),
            (20, 24 * 60 * MINUTE),
        ];
        for (nth, expected) in reaches {
            assert_eq!(reach(nth, week), expected, "sweep {nth}");
        }
        assert_eq!(reach(120, week), week);
        assert_eq!(reach(1, MINUTE), MINUTE);
    }
}
