//! All traits of the ledger except [`Engines`](super::Engines), for every store with [`Drive`]: each read calls a
//! function on the rows of one snapshot, and each write sends a [`WriteRequest`] to the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::reads::{
    self, deletions, due, gantt, log, outline, page_limit, peers, position, steps, summary,
    tombstones,
};
use super::store::{
    DeletionReads as _, LogReads as _, NativeReads as _, PeerReads as _, StepReads as _,
};
use super::{
    AbandonedStep, Applied, AuditRow, Capacity, Change, ClaimedStep, Commit, Cursor,
    DeletionFilter, Drive, Due, EventFilter, EventPage, Federation, Importer, KeptRequest,
    LedgerError, LiveStep, NativeFilter, NativeResources, ObservationsDue, Original, OriginalName,
    Outcome, Referrers, StepFilter, Summary, TombstoneFilter, UnhandledDeletion, Views,
    WatchCursor, WorkQueue, WriteRequest,
};
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::last_day::{DAY, LastDay};
use crate::domain::last_hour::LastHour;
use crate::domain::model::{
    Actor, Counts, Deletion, Identity, KindName, Paged, Plan, ResourceKey, Site, SitePause, Step,
    Target, Tombstone,
};
use crate::domain::native::Native;
use crate::domain::notification::NotificationCursor;
use crate::domain::outline::Outline;
use crate::domain::peers::{ClearanceRequest, DeletionNotices, Deployment, PendingClearance};

/// Implements a trait of the ledger: each read calls one function on the rows of one snapshot. Arguments are
/// owned, because a read runs on another thread.
macro_rules! port {
    (
        impl $port:ident
        reads { $(
            $name:ident($($argument:ident: $type:ty),*) -> $answer:ty = |$db:ident| $read:expr;
        )* }
        pages { $($page:ident($filter:ty) -> $row:ty = $select:path;)* }
        $($other:item)*
    ) => {
        #[async_trait]
        impl<D: Drive> $port for D {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, LedgerError> {
                $(let $argument = $argument.to_owned();)*
                self.read(move |$db| $read).await
            })*
            $(async fn $page(
                &self,
                filter: $filter,
                page: Cursor,
            ) -> Result<Paged<$row>, LedgerError> {
                let (after, limit) = (position(&page)?, page_limit(page.limit));
                self.read(move |db| $select(db, &filter, after, limit)).await
            })*
            $($other)*
        }
    };
}

#[async_trait]
impl<D: Drive> Commit for D {
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        match self.write(WriteRequest::Commit(changes)).await? {
            Outcome::Applied(applied) => Ok(applied),
            Outcome::Claimed(_) => Err(LedgerError::Closed),
        }
    }
}

port! {
    impl WorkQueue
    reads {
        observations_due(now: DateTime<Utc>) -> Vec<ObservationsDue> =
            |db| db.find_observations_due(now);
        steps_to_observe(of: Vec<ObservationsDue>, now: DateTime<Utc>, limit: usize) -> Vec<ClaimedStep> =
            |db| due::steps_to_observe(db, &of, now, limit);
        next_due(now: DateTime<Utc>) -> Due = |db| due::next_due(db, now);
        held_down(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Tombstone> =
            |db| tombstones::held_down(db, since, after_record, page_limit(limit));
        originals(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Original> =
            |db| tombstones::originals(db, since, after_record, page_limit(limit));
        whole_of(part: ResourceKey) -> Option<Tombstone> = |db| tombstones::whole_of(db, &part);
        namesakes(site: Site, kind: KindName, name: String)
            -> Vec<(Tombstone, Option<OriginalName>)> =
            |db| tombstones::namesakes(db, &site, &kind, &name);
    }
    pages {}

    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        match self.write(WriteRequest::Claim { capacities, now }).await? {
            Outcome::Claimed(claimed) => Ok(claimed),
            Outcome::Applied(_) => Err(LedgerError::Closed),
        }
    }
}

port! {
    impl Views
    reads {
        deletion(id: &str) -> Option<Deletion> = |db| deletions::deletion(db, &id);
        frozen_plan(deletion_id: &str, with_steps: bool) -> Option<Arc<Plan>> =
            |db| deletions::frozen_plan(db, &deletion_id, with_steps);
        identities(deletion_id: &str) -> BTreeMap<String, Identity> =
            |db| deletions::identities(db, &deletion_id);
        progress(deletion_id: &str) -> Vec<(Site, Counts)> = |db| deletions::progress(db, &deletion_id);
        outline(deletion_id: &str, below: Vec<Option<i64>>) -> Outline =
            |db| outline::outline(db, &deletion_id, &below);
        branch_steps(deletion_id: &str, branch: i64, counts: Counts, from: u64, limit: usize)
            -> Vec<Step> =
            |db| outline::branch_steps(db, &deletion_id, (branch, &counts), from, page_limit(limit));
        step(id: i64) -> Option<Step> = |db| steps::step(db, id);
        causes(sites: Vec<Site>) -> Vec<CauseGroup> = |db| db.count_causes(&sites);
        tombstones_of(keys: Vec<ResourceKey>) -> Vec<Tombstone> =
            |db| tombstones::of_keys(db, &keys);
        shown_before(key: ResourceKey) -> Option<serde_json::Value> =
            |db| tombstones::shown_before(db, &key);
        events(after: i64, filter: EventFilter, limit: usize) -> EventPage =
            |db| log::events(db, after, &filter, page_limit(limit));
        audit(after: i64, limit: usize) -> Vec<AuditRow> =
            |db| db.load_audit(after, page_limit(limit));
        plan(hash: &str, now: DateTime<Utc>) -> Option<Arc<Plan>> =
            |db| deletions::plan(db, &hash, now);
        kept_request(actor: &Actor, key: &str, now: DateTime<Utc>) -> Option<KeptRequest> =
            |db| deletions::kept_request(db, &actor, &key, now);
        site_pauses() -> Vec<SitePause> = |db| db.load_site_pauses();
        gantt(deletion_id: &str, columns: u32, now: DateTime<Utc>) -> Option<Gantt> =
            |db| gantt::gantt(db, &deletion_id, columns, now);
        upcoming(now: DateTime<Utc>) -> Upcoming = |db| gantt::upcoming(db, now);
        last_hour(now: DateTime<Utc>) -> LastHour = |db| gantt::last_hour(db, now);
        last_day(now: DateTime<Utc>) -> LastDay = |db| db.count_ended(now - DAY);
        summary() -> Summary = |db| summary::summary(db);
        notification_cursor(channel: &str) -> NotificationCursor =
            |db| log::notification_cursor(db, &channel);
    }
    pages {
        deletions(DeletionFilter) -> Deletion = deletions::page;
        steps(StepFilter) -> Step = steps::steps;
        tombstones(TombstoneFilter) -> Tombstone = tombstones::tombstones;
    }

    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError> {
        let after = position(&Cursor { after, limit: 0 })?;
        self.read(move |db| steps::count(db, &filter, after)).await
    }

    async fn orphans(&self, page: Cursor) -> Result<Paged<AbandonedStep>, LedgerError> {
        let (after, limit) = (position(&page)?, page_limit(page.limit));
        self.read(move |db| steps::orphans(db, after, limit)).await
    }
}

port! {
    impl NativeResources
    reads {
        referrers(to: Vec<ResourceKey>, fields: Arc<[(KindName, String)]>, named_max: usize)
            -> Vec<Referrers> =
            |db| db.find_referrers(&to, &fields, named_max);
    }
    pages {
        native(NativeFilter) -> Native = reads::natives;
    }
}

port! {
    impl Federation
    reads {
        importers() -> Vec<Importer> = |db| peers::importers(db);
        watches() -> Vec<WatchCursor> = |db| db.load_watches();
        importers_cursor() -> (String, i64) = |db| Ok((db.ledger_id()?, db.newest_notice()?));
        notices(from: Deployment, since: (String, i64), kinds: BTreeSet<KindName>, limit: usize) -> DeletionNotices =
            |db| peers::notices(db, &from, (&since.0, since.1), &kinds, limit);
        steps_awaiting_clearance(home: Site, importer: &str, after: i64, limit: usize)
            -> (Vec<(i64, ClearanceRequest)>, i64) =
            |db| peers::steps_awaiting_clearance(db, &home, &importer, after, limit);
        pending_clearances(step: i64) -> Vec<PendingClearance> =
            |db| db.load_pending(step);
        unhandled_deletions(limit: usize) -> Option<UnhandledDeletion> =
            |db| db.find_unhandled(limit);
        handled_by_deletion(key: ResourceKey) -> Option<Deletion> =
            |db| peers::handled_by(db, &key);
        deleting_owners() -> BTreeSet<String> = |db| db.load_deleting_owners();
        live_steps(home: Site, keys: Vec<ResourceKey>) -> Vec<Option<LiveStep>> =
            |db| peers::live_steps(db, &home, &keys);
        live_dependencies(step: i64) -> Vec<Target> = |db| peers::live_dependencies(db, step);
    }
    pages {}
}
