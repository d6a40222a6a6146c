//! The parts of the ledger, each read as a function over a connection, each write as a job of the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use rusqlite::Connection;

use super::pages::{self, position};
use super::{
    gantt, left_for_later, native, notification_cursor, observations, outline, peers, reads,
    summary,
};
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::model::{
    Actor, Counts, Deletion, Identity, KindName, Paged, Plan, ResourceKey, Site, SitePause, Step,
    Target, Tombstone,
};
use crate::domain::native::Native;
use crate::domain::news::NotificationCursor;
use crate::domain::outline::Outline;
use crate::domain::peers::{ClearanceRequest, Deployment, News, PendingClearance};
use crate::ledger::{
    AbandonedStep, Applied, AuditRow, Capacity, Change, ClaimedStep, Commit, Cursor,
    DeletionFilter, Drive, Due, EventFilter, EventPage, Federation, Importer, Job, KeptRequest,
    LedgerError, LiveStep, NativeFilter, NativeResources, ObservationsDue, Original, OriginalName,
    Outcome, PointedAt, StepFilter, Summary, TombstoneFilter, UnhandledDeletion, Views,
    WatchCursor, WorkQueue,
};

/// Implements a part of the ledger for both drivers: each read is one function over a connection. Arguments
/// are owned, because a read runs on another thread.
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
        impl<D: Drive<Reader = Connection>> $port for D {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, LedgerError> {
                $(let $argument = $argument.to_owned();)*
                self.read(move |$db| $read).await
            })*
            $(async fn $page(
                &self,
                filter: $filter,
                page: Cursor,
            ) -> Result<Paged<$row>, LedgerError> {
                let (after, limit) = (position(&page)?, pages::limit(page.limit));
                self.read(move |db| $select(db, &filter, after, limit)).await
            })*
            $($other)*
        }
    };
}

#[async_trait]
impl<D: Drive<Reader = Connection>> Commit for D {
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        match self.write(Job::Commit(changes)).await? {
            Outcome::Applied(applied) => Ok(applied),
            Outcome::Claimed(_) => Err(LedgerError::Closed),
        }
    }
}

port! {
    impl WorkQueue
    reads {
        observations_due(now: DateTime<Utc>) -> Vec<ObservationsDue> =
            |db| observations::observations_due(db, now);
        verifying(of: Vec<ObservationsDue>, now: DateTime<Utc>, limit: usize) -> Vec<ClaimedStep> =
            |db| observations::verifying(db, &of, now, limit);
        next_due(now: DateTime<Utc>) -> Due = |db| observations::next_due(db, now);
        held_down(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Tombstone> =
            |db| reads::held_down(db, since, after_record, pages::limit(limit));
        originals(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Original> =
            |db| reads::originals(db, since, after_record, pages::limit(limit));
        whole_of(part: ResourceKey) -> Option<Tombstone> = |db| reads::whole_of(db, &part);
        namesakes(site: Site, kind: KindName, name: String)
            -> Vec<(Tombstone, Option<OriginalName>)> =
            |db| reads::namesakes(db, &site, &kind, &name);
    }
    pages {}

    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        match self.write(Job::Claim { capacities, now }).await? {
            Outcome::Claimed(claimed) => Ok(claimed),
            Outcome::Applied(_) => Err(LedgerError::Closed),
        }
    }
}

port! {
    impl Views
    reads {
        deletion(id: &str) -> Option<Deletion> = |db| reads::deletion(db, &id);
        frozen(deletion_id: &str, with_steps: bool) -> Option<Arc<Plan>> =
            |db| Ok(reads::frozen(db, &deletion_id, with_steps)?.map(Arc::new));
        identities(deletion_id: &str) -> BTreeMap<String, Identity> =
            |db| reads::identities(db, &deletion_id);
        progress(deletion_id: &str) -> Vec<(Site, Counts)> = |db| reads::progress(db, &deletion_id);
        outline(deletion_id: &str, below: Vec<Option<i64>>) -> Outline =
            |db| outline::outline(db, &deletion_id, &below);
        branch_steps(deletion_id: &str, branch: i64, counts: Counts, from: u64, limit: usize)
            -> Vec<Step> =
            |db| outline::branch_steps(db, &deletion_id, (branch, &counts), from, pages::limit(limit));
        step(id: i64) -> Option<Step> = |db| reads::step(db, id, None);
        causes(sites: Vec<Site>) -> Vec<CauseGroup> = |db| reads::causes(db, &sites);
        tombstones_of(keys: Vec<ResourceKey>) -> Vec<Tombstone> =
            |db| reads::tombstones_of(db, &keys);
        shown_before(key: ResourceKey) -> Option<serde_json::Value> =
            |db| reads::shown_before(db, &key);
        events(after: i64, filter: EventFilter, limit: usize) -> EventPage =
            |db| reads::events(db, after, &filter, pages::limit(limit));
        audit(after: i64, limit: usize) -> Vec<AuditRow> =
            |db| reads::audit(db, after, pages::limit(limit));
        plan(hash: &str, now: DateTime<Utc>) -> Option<Arc<Plan>> =
            |db| Ok(reads::plan(db, &hash, now)?.map(Arc::new));
        kept_request(actor: &Actor, key: &str, now: DateTime<Utc>) -> Option<KeptRequest> =
            |db| reads::kept_request(db, &actor, &key, now);
        site_pauses() -> Vec<SitePause> = |db| left_for_later::site_pauses(db);
        gantt(deletion_id: &str, columns: u32, now: DateTime<Utc>) -> Option<Gantt> =
            |db| gantt::gantt(db, &deletion_id, columns, now);
        upcoming(now: DateTime<Utc>) -> Upcoming = |db| gantt::upcoming(db, now);
        summary() -> Summary = |db| summary::summary(db);
        notification_cursor(channel: &str) -> NotificationCursor =
            |db| notification_cursor::read(db, &channel);
    }
    pages {
        deletions(DeletionFilter) -> Deletion = pages::deletions;
        steps(StepFilter) -> Step = pages::steps;
        tombstones(TombstoneFilter) -> Tombstone = pages::tombstones;
    }

    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError> {
        let after = position(&Cursor { after, limit: 0 })?;
        self.read(move |db| pages::count_steps(db, &filter, after)).await
    }

    async fn orphans(&self, page: Cursor) -> Result<Paged<AbandonedStep>, LedgerError> {
        let (after, limit) = (position(&page)?, pages::limit(page.limit));
        self.read(move |db| left_for_later::orphans(db, after, limit)).await
    }
}

port! {
    impl NativeResources
    reads {
        pointed_at(to: Vec<ResourceKey>, fields: Arc<[(KindName, String)]>, named_max: usize)
            -> Vec<PointedAt> =
            |db| peers::pointed_at(db, &to, &fields, named_max);
    }
    pages {
        native(NativeFilter) -> Native = native::list;
    }
}

port! {
    impl Federation
    reads {
        importers() -> Vec<Importer> = |db| peers::importers(db);
        watches() -> Vec<WatchCursor> = |db| peers::watches(db);
        importers_cursor() -> (String, i64) = |db| peers::position(db);
        news(from: Deployment, since: (String, i64), kinds: BTreeSet<KindName>, limit: usize) -> News =
            |db| peers::news(db, &from, (&since.0, since.1), &kinds, limit);
        awaited(home: Site, importer: &str, after: i64, limit: usize)
            -> (Vec<(i64, ClearanceRequest)>, i64) =
            |db| peers::awaited(db, &home, &importer, after, limit);
        pending_clearances(step: i64) -> Vec<PendingClearance> =
            |db| peers::pending_clearances(db, step);
        unhandled_deletions(limit: usize) -> Option<UnhandledDeletion> =
            |db| peers::unhandled_deletions(db, limit);
        handled_by_deletion(key: ResourceKey) -> Option<Deletion> =
            |db| peers::handled_by_deletion(db, &key);
        owners_going() -> BTreeSet<String> = |db| peers::owners_going(db);
        live_steps(home: Site, keys: Vec<ResourceKey>) -> Vec<Option<LiveStep>> =
            |db| keys.iter().map(|key| peers::live_step(db, &home, key)).collect();
        waited_for(step: i64) -> Vec<Target> = |db| peers::waited_for(db, step);
    }
    pages {}
}
