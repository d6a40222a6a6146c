//! The ports of the engine with crashes, planted faults, and a record of the requests.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use gone::cloud::openstack::{Transport, TransportError};
use gone::cloud::{
    Acted, Call, Cloud, CloudFailure, CloudRouter, Freshness, ListRows, Listed, NameLookup, Row,
    Rows, SignedIn,
};
use gone::domain::attention::CauseGroup;
use gone::domain::gantt::{Gantt, Upcoming};
use gone::domain::kinds::{Kind, Kinds, Offer};
use gone::domain::last_day::LastDay;
use gone::domain::last_hour::LastHour;
use gone::domain::model::{
    Actor, Counts, Deletion, Identity, KindName, Paged, Plan, ResourceKey, Site, SitePause, Step,
    Target, Tombstone,
};
use gone::domain::native::Native;
use gone::domain::notification::NotificationCursor;
use gone::domain::outline::Outline;
use gone::domain::peers::{ClearanceRequest, DeletionNotices, Deployment, PendingClearance};
use gone::domain::policy::Outcome;
use gone::ledger::{
    AbandonedStep, Applied, AuditRow, Capacity, Change, ClaimedStep, Commit, Cursor,
    DeletionFilter, Due, Engines, EventFilter, EventPage, Federation, Fence, Importer, KeptRequest,
    Ledger, LedgerError, LiveStep, Membership, NativeFilter, NativeResources, ObservationsDue,
    Original, OriginalName, Referrers, StepFilter, Summary, TombstoneFilter, UnhandledDeletion,
    Views, WatchCursor, WorkQueue,
};
use gone::sandbox::{Fate, World};
use gone::system::clock::Clock;
use tokio::sync::{Notify, watch};

use super::ledger_storage::LedgerStorage;

/// Ends the engine at the k-th ledger write or at the k-th call, as a crash would.
#[derive(Default)]
pub struct Crash {
    pub writes: AtomicU64,
    pub calls: AtomicU64,
    at_write: AtomicU64,
    at_call: AtomicU64,
    /// The write at the crash, if it reaches the ledger only after some writes of the next engine.
    late: Mutex<Option<Late>>,
    pub now: Notify,
    /// Late outcomes that changed the ledger: there must be none (I11).
    pub overwritten: Mutex<Vec<String>>,
    /// How often the ledger was read for a snapshot.
    pub summaries: AtomicU64,
    /// Whether reads of tombstones by their keys fail.
    pub cannot_read: AtomicBool,
    /// True from the crash until the next engine starts: no call and no write gets through.
    dead: AtomicBool,
}

struct Late {
    after_writes: u64,
    changes: Vec<Change>,
}

/// The write or the call at which an engine is ended, counted from the time when the crash is planned.
#[derive(Clone, Copy, Debug)]
pub enum CrashPoint {
    Write(u64),
    Call(u64),
}

impl Crash {
    pub fn at(&self, point: CrashPoint) {
        match point {
            CrashPoint::Write(k) => self.at_write(k),
            CrashPoint::Call(k) => self.at_call(k),
        }
    }

    /// Crashes at the k-th write from now. The write is made, and the engine never gets its answer.
    pub fn at_write(&self, k: u64) {
        let at = self.writes.load(Ordering::SeqCst) + k;
        self.at_write.store(at, Ordering::SeqCst);
    }

    /// Works like [`Crash::at_write`], but a write of outcomes reaches the ledger only after `after` writes of the next
    /// engine, like that of a worker that was taken for dead. `after` is at least 1: that engine first writes its
    /// recovery.
    pub fn at_write_that_comes_late(&self, k: u64, after: u64) {
        self.at_write(k);
        *self.late.lock().unwrap() = Some(Late {
            after_writes: after,
            changes: Vec::new(),
        });
    }

    /// Crashes at the k-th call from now. The call has its effect, and the engine never gets its answer.
    pub fn at_call(&self, k: u64) {
        let at = self.calls.load(Ordering::SeqCst) + k;
        self.at_call.store(at, Ordering::SeqCst);
    }

    /// Cancels the planned crash. Outcomes that were withheld still arrive late.
    pub fn cancel(&self) {
        self.at_write.store(0, Ordering::SeqCst);
        self.at_call.store(0, Ordering::SeqCst);
        let mut late = self.late.lock().unwrap();
        if late.as_ref().is_some_and(|late| late.changes.is_empty()) {
            *late = None;
        }
    }

    /// Lets the calls and writes of the next engine through.
    pub fn revive(&self) {
        self.dead.store(false, Ordering::SeqCst);
    }

    async fn hang_if_dead(&self) {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Counts a write or a call. At the planned one, ends the engine and never returns.
    async fn count_and_crash(&self, counter: &AtomicU64, at: &AtomicU64) {
        let count = counter.fetch_add(1, Ordering::SeqCst) + 1;
        if count == at.load(Ordering::SeqCst) {
            self.dead.store(true, Ordering::SeqCst);
            self.now.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Returns true if the write that begins now must arrive late. Stores its outcomes.
    fn withholds(&self, changes: &[Change]) -> bool {
        let next = self.writes.load(Ordering::SeqCst) + 1;
        let outcomes = changes
            .iter()
            .all(|change| matches!(change, Change::Step(_)));
        let mut late = self.late.lock().unwrap();
        match late.as_mut() {
            // Outcomes that an earlier crash withheld, and that have not arrived yet, are not replaced.
            Some(late)
                if late.changes.is_empty()
                    && next == self.at_write.load(Ordering::SeqCst)
                    && outcomes =>
            {
                late.changes = changes.to_vec();
                true
            }
            _ => false,
        }
    }

    /// Returns the outcomes that arrive late with the write that begins now.
    fn take_late_changes(&self) -> Vec<Change> {
        let mut withheld = self.late.lock().unwrap();
        match withheld.as_mut() {
            Some(late) if !late.changes.is_empty() && late.after_writes == 0 => {
                withheld.take().map(|late| late.changes).unwrap_or_default()
            }
            Some(late) if !late.changes.is_empty() => {
                late.after_writes -= 1;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

/// A fault that is planted at a port of the engine. Tests prove that the invariants detect it, or that the engine
/// handles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedFault {
    #[default]
    None,
    /// The ledger reports that outcomes are written, and does not write them.
    ForgetsOutcomes,
    /// The ledger reports that a write is durable, and a crash undoes the last one.
    CommitsLate,
    /// The ledger accepts the outcome of a worker that was taken for dead.
    IgnoresFencing,
    /// The ledger refuses to store a plan.
    RefusesPlans,
    /// The ledger returns no identity for the plan.
    LosesIdentity,
    /// The ledger cannot read the identity of the plan.
    CannotReadIdentity,
    /// The cloud's client takes any 404 for the absence of the resource.
    AnyNotFoundIsGone,
    /// The cloud's client takes an empty list for a complete one.
    EmptyListIsAbsence,
    /// The cloud's client takes an accepted delete for a done one.
    AcceptedIsGone,
    /// The cloud has dropped the service or the extension since the plan was made.
    NoLongerOffers,
    /// An engine ignores the end of its lease.
    IgnoresLeaseEnd,
    /// No engine is woken by the changes of other engines.
    OthersAreNotWoken,
    /// The gates of an engine report that they have tombstones which they lack.
    GateLacksTombstones,
}

/// One request of the engine, and the answer of the cloud, whether or not the answer arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRequest {
    pub at: DateTime<Utc>,
    pub method: String,
    /// The path from the API version on, with the query.
    pub path: String,
    pub body: String,
    /// None if the cloud gave no answer.
    pub status: Option<u16>,
    /// The type of the error in a body of Neutron, its message in a body with a `faultstring` or a `message`, else
    /// empty.
    pub error: String,
}

/// Whether a path below `/v3` belongs to Cinder, and not to Keystone.
pub fn is_cinder_path(path: &str) -> bool {
    let kinds = ["volumes", "snapshots", "backups", "attachments"];
    let rest = path.strip_prefix("/v3/");
    rest.is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

impl SentRequest {
    /// Whether the request changes something. Only changes of projects count in Keystone.
    pub fn is_write(&self) -> bool {
        let at = ["/v2", "/v3/projects"];
        let is_there = at.iter().any(|at| self.path.starts_with(at));
        self.method != "GET" && (is_there || is_cinder_path(&self.path))
    }

    /// Whether the request reads a list or a resource of a service other than Keystone.
    pub fn is_read(&self) -> bool {
        self.method == "GET" && (self.path.starts_with("/v2") || is_cinder_path(&self.path))
    }

    /// Whether the service itself, and not an injected fault, answered that the resource does not exist.
    pub fn found_nothing(&self) -> bool {
        let by_type = self.error.ends_with("NotFound") && self.error != "HTTPNotFound";
        let by_words = ["not found.", "Failed to find image", "No image found"];
        self.status == Some(404)
            && (by_type || by_words.iter().any(|words| self.error.contains(words)))
    }

    /// Returns the method, path and body: two requests with the same signature are repetitions.
    pub fn signature(&self) -> String {
        format!("{} {} {}", self.method, self.path, self.body)
    }
}

/// The most calls within an hour of the paused clock. No test has as many resources.
const CALLS_MAX: usize = 10_000;

/// A transport to the sandbox in the same process, on the paused clock.
pub struct InProcessTransport {
    pub world: Arc<Mutex<World>>,
    pub rate_limit: Arc<Mutex<Option<RateLimit>>>,
    pub clock: Clock,
    pub crash: Arc<Crash>,
    pub sent: Arc<Mutex<Vec<SentRequest>>>,
}

/// The rate limit of a proxy: calls per second, and the most calls that it saves up for a burst.
pub struct RateLimit {
    pub per_second: f64,
    pub burst: f64,
    /// The `Retry-After` of a refusal, in seconds.
    pub retry_after: Option<u32>,
    saved: f64,
    at: Option<DateTime<Utc>>,
}

impl RateLimit {
    pub fn new(per_second: f64, burst: f64, retry_after: Option<u32>) -> Self {
        Self {
            per_second,
            burst,
            retry_after,
            saved: burst,
            at: None,
        }
    }

    /// Whether the proxy admits a call.
    fn admits(&mut self, now: DateTime<Utc>) -> bool {
        let passed = self
            .at
            .map(|at| now - at)
            .and_then(|passed| passed.to_std().ok());
        let passed = passed.unwrap_or_default().as_secs_f64();
        self.saved = (self.saved + passed * self.per_second).min(self.burst);
        self.at = Some(now);
        let admits = self.saved >= 1.0;
        self.saved -= f64::from(u8::from(admits));
        admits
    }

    fn refusal(&self) -> http::Response<Bytes> {
        let mut answer = http::Response::builder().status(429);
        if let Some(seconds) = self.retry_after {
            answer = answer.header("retry-after", seconds);
        }
        let body = r#"{"error": {"code": 429, "message": "Too many requests", "title": "Too Many Requests"}}"#;
        answer
            .header("content-type", "application/json")
            .body(Bytes::from_static(body.as_bytes()))
            .unwrap()
    }
}

impl InProcessTransport {
    /// Returns the answer of the proxy if it does not admit the call.
    fn rate_limit_refusal(&self, now: DateTime<Utc>) -> Option<http::Response<Bytes>> {
        let mut rate_limit = self.rate_limit.lock().unwrap();
        let rate_limit = rate_limit.as_mut()?;
        (!rate_limit.admits(now)).then(|| rate_limit.refusal())
    }

    fn record(&self, call: SentRequest) {
        let mut sent = self.sent.lock().unwrap();
        let before = sent
            .len()
            .checked_sub(CALLS_MAX)
            .map(|before| sent[before].at);
        let endless = before.is_some_and(|before| call.at - before < chrono::TimeDelta::hours(1));
        assert!(
            !endless,
            "more than {CALLS_MAX} calls within an hour: the engine repeats calls without end"
        );
        sent.push(call);
    }
}

#[async_trait]
impl Transport for InProcessTransport {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, TransportError> {
        self.crash.hang_if_dead().await;
        let at = self.clock.now();
        let whole = request.uri().path_and_query().unwrap().to_string();
        let path = match whole.find("/v2").or(whole.find("/v3/")) {
            Some(start) => whole[start..].to_owned(),
            None => whole,
        };
        let (method, body) = (request.method().to_string(), request.body().clone());
        if let Some(refusal) = self.rate_limit_refusal(at) {
            self.record(SentRequest {
                at,
                method,
                path,
                body: String::new(),
                status: Some(refusal.status().as_u16()),
                error: String::new(),
            });
            return Ok(refusal);
        }
        let reply = self.world.lock().unwrap().handle(request, at);
        let answer: serde_json::Value =
            serde_json::from_slice(reply.response.body()).unwrap_or_default();
        let said = [
            &answer["NeutronError"]["type"],
            &answer["faultstring"],
            &answer["message"],
        ];
        let error = said
            .into_iter()
            .find_map(|it| it.as_str())
            .unwrap_or_default();
        self.record(SentRequest {
            at,
            method,
            path,
            body: String::from_utf8_lossy(&body).into_owned(),
            status: (reply.fate == Fate::Answer).then_some(reply.response.status().as_u16()),
            error: error.to_owned(),
        });
        self.crash
            .count_and_crash(&self.crash.calls, &self.crash.at_call)
            .await;
        let late = reply.delay >= deadline;
        tokio::time::sleep(reply.delay.min(deadline)).await;
        match reply.fate {
            _ if late => Err(TransportError::TimedOut { deadline }),
            Fate::Answer => Ok(reply.response),
            Fate::DropWithoutAnswer => Err(TransportError::Lost {
                reason: "closed without an answer".into(),
            }),
            Fate::Hang => {
                tokio::time::sleep(deadline - reply.delay).await;
                Err(TransportError::TimedOut { deadline })
            }
        }
    }
}

/// The cloud's client, with a planted fault or none.
pub struct FaultyCloud {
    pub inner: CloudRouter,
    pub planted_fault: PlantedFault,
    /// The ids whose delete was accepted, for [`PlantedFault::AcceptedIsGone`].
    pub accepted: Mutex<HashSet<String>>,
}

impl FaultyCloud {
    fn treats_as_gone(&self, id: &str) -> bool {
        self.planted_fault == PlantedFault::AcceptedIsGone
            && self.accepted.lock().unwrap().contains(id)
    }
}

#[async_trait]
impl Cloud for FaultyCloud {
    fn provider(&self, site: &Site) -> Option<&'static str> {
        self.inner.provider(site)
    }
    fn sites(&self) -> Vec<Site> {
        self.inner.sites()
    }

    fn has_other_login(&self, site: &Site) -> bool {
        self.inner.has_other_login(site)
    }

    async fn identity(&self, site: &Site, freshness: Freshness) -> Result<SignedIn, CloudFailure> {
        self.inner.identity(site, freshness).await
    }

    async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        self.inner.endpoint(site, kind).await
    }

    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let Rows { rows, identity } = self.list(request).await?;
        listed(Listed::Part);
        listed(Listed::Rows(rows));
        Ok(identity)
    }

    async fn list(&self, request: ListRows<'_>) -> Result<Rows, CloudFailure> {
        let mut listing = self.inner.list(request).await?;
        let shown =
            |row: &serde_json::Value| !row["id"].as_str().is_some_and(|id| self.treats_as_gone(id));
        listing.rows.retain(shown);
        // The last id of the filter is that of the witness. An empty list gets the row of the witness, so that it
        // seems complete.
        if self.planted_fault == PlantedFault::EmptyListIsAbsence
            && listing.rows.is_empty()
            && let Some(filter) = request.filter.filter(|filter| filter.key == "id")
            && filter.values.len() > 1
        {
            let witness = filter.values.last();
            listing.rows = vec![serde_json::json!({ "id": witness })];
        }
        Ok(listing)
    }

    async fn read(&self, site: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure> {
        match self.inner.read(site, kind, id).await {
            Err(failure)
                if self.planted_fault == PlantedFault::AnyNotFoundIsGone
                    && failure.status == Some(404) =>
            {
                let login = self.inner.identity(site, Freshness::AtLogin).await?;
                Ok(Row::answered(None, Some(login.identity)))
            }
            Ok(_) if self.planted_fault == PlantedFault::NoLongerOffers => Ok(Row::not_offered()),
            Ok(row) if self.treats_as_gone(id) => Ok(Row { row: None, ..row }),
            other => other,
        }
    }

    async fn offer(&self, site: &Site, kinds: &Kinds) -> Result<Offer, CloudFailure> {
        self.inner.offer(site, kinds).await
    }

    async fn account_names(
        &self,
        site: &Site,
        ids: &BTreeSet<String>,
        lookup: NameLookup,
    ) -> BTreeMap<String, String> {
        self.inner.account_names(site, ids, lookup).await
    }

    async fn act(&self, call: Call<'_>) -> Acted {
        let acted = self.inner.act(call).await;
        match &acted.outcome {
            Outcome::Accepted => {
                self.accepted.lock().unwrap().insert(call.id.to_owned());
                acted
            }
            Outcome::Failed(failure)
                if self.planted_fault == PlantedFault::AnyNotFoundIsGone
                    && failure.error.status == Some(404) =>
            {
                Acted {
                    outcome: Outcome::Absent,
                    ..acted
                }
            }
            _ => acted,
        }
    }
}

/// The ledger, with crashes and a planted fault at its port.
pub struct FaultyLedger {
    pub inner: Box<dyn Ledger>,
    pub crash: Arc<Crash>,
    pub planted_fault: PlantedFault,
    /// The storage of the ledger, which outlives the engine.
    pub storage: LedgerStorage,
    /// The newest fencing token of each step, for [`PlantedFault::IgnoresFencing`].
    pub fences: Mutex<HashMap<i64, Fence>>,
}

impl FaultyLedger {
    fn keep_copy(&self) {
        if self.planted_fault == PlantedFault::CommitsLate {
            self.storage.keep_copy();
        }
    }

    /// See [`LedgerStorage::confirm_copy`].
    fn confirm_copy(&self) {
        if self.planted_fault == PlantedFault::CommitsLate {
            self.storage.confirm_copy();
        }
    }

    fn record_fences(&self, steps: &[ClaimedStep]) {
        let mut fences = self.fences.lock().unwrap();
        fences.extend(steps.iter().map(|step| (step.id, step.fence)));
    }

    async fn apply_late(&self, mut changes: Vec<Change>) -> Result<(), LedgerError> {
        if changes.is_empty() {
            return Ok(());
        }
        if self.planted_fault == PlantedFault::IgnoresFencing {
            let fences = self.fences.lock().unwrap();
            for change in &mut changes {
                if let Change::Step(step) = change
                    && let Some(fence) = fences.get(&step.step_id)
                {
                    step.fence = *fence;
                }
            }
        }
        for change in changes {
            let Change::Step(late) = &change else {
                continue;
            };
            let id = late.step_id;
            let before = self.inner.step(id).await?;
            self.inner.commit(vec![change]).await?;
            let after = self.inner.step(id).await?;
            if before != after {
                let problem = format!("I11: a late outcome changed {before:?} to {after:?}");
                self.crash.overwritten.lock().unwrap().push(problem);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Commit for FaultyLedger {
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        self.crash.hang_if_dead().await;
        self.apply_late(self.crash.take_late_changes()).await?;
        let outcome = changes
            .iter()
            .any(|change| matches!(change, Change::Step(_)));
        let applied = if self.crash.withholds(&changes)
            || (self.planted_fault == PlantedFault::ForgetsOutcomes && outcome)
        {
            changes.iter().map(|_| Applied::Done).collect()
        } else if self.planted_fault == PlantedFault::RefusesPlans
            && matches!(changes[..], [Change::Start { .. }])
        {
            vec![Applied::Refused("the ledger cannot store this".into())]
        } else {
            self.keep_copy();
            let applied = self.inner.commit(changes).await?;
            self.confirm_copy();
            applied
        };
        self.crash
            .count_and_crash(&self.crash.writes, &self.crash.at_write)
            .await;
        Ok(applied)
    }
}

/// Implements a trait of the ledger. The methods in braces pass the call on to the inner ledger; the rest of the impl
/// follows them.
macro_rules! forward {
    (
        $trait:ident {
            $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*
        }
        $($own:tt)*
    ) => {
        #[async_trait]
        impl $trait for FaultyLedger {
            $(async fn $name(&self $(, $argument: $type)*) -> Result<$answer, LedgerError> {
                self.inner.$name($($argument),*).await
            })*
            $($own)*
        }
    };
}

forward! {
    WorkQueue {
        fn observations_due(now: DateTime<Utc>) -> Vec<ObservationsDue>;
        fn next_due(now: DateTime<Utc>) -> Due;
        fn held_down(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Tombstone>;
        fn originals(since: DateTime<Utc>, after_record: i64, limit: usize) -> Vec<Original>;
        fn whole_of(part: ResourceKey) -> Option<Tombstone>;
        fn namesakes(
            site: Site, kind: KindName, name: String
        ) -> Vec<(Tombstone, Option<OriginalName>)>;
    }

    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        self.crash.hang_if_dead().await;
        self.keep_copy();
        let claimed = self.inner.claim(capacities, now).await?;
        self.record_fences(&claimed);
        if !claimed.is_empty() {
            self.confirm_copy();
            self.crash
                .count_and_crash(&self.crash.writes, &self.crash.at_write)
                .await;
        }
        Ok(claimed)
    }

    async fn steps_to_observe(
        &self,
        of: Vec<ObservationsDue>,
        now: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        let due = self.inner.steps_to_observe(of, now, limit).await?;
        self.record_fences(&due);
        Ok(due)
    }
}

forward! {
    Views {
        fn deletions(filter: DeletionFilter, page: Cursor) -> Paged<Deletion>;
        fn deletion(id: &str) -> Option<Deletion>;
        fn frozen_plan(deletion_id: &str, with_steps: bool) -> Option<Arc<Plan>>;
        fn progress(deletion_id: &str) -> Vec<(Site, Counts)>;
        fn steps(filter: StepFilter, page: Cursor) -> Paged<Step>;
        fn count_steps(filter: StepFilter, after: Option<String>) -> (u64, Option<String>);
        fn outline(deletion_id: &str, below: Vec<Option<i64>>) -> Outline;
        fn branch_steps(
            deletion_id: &str, branch: i64, counts: Counts, from: u64, limit: usize
        ) -> Vec<Step>;
        fn step(id: i64) -> Option<Step>;
        fn causes(sites: Vec<Site>) -> Vec<CauseGroup>;
        fn tombstones(filter: TombstoneFilter, page: Cursor) -> Paged<Tombstone>;
        fn shown_before(key: ResourceKey) -> Option<serde_json::Value>;
        fn events(after: i64, filter: EventFilter, limit: usize) -> EventPage;
        fn audit(after: i64, limit: usize) -> Vec<AuditRow>;
        fn plan(hash: &str, now: DateTime<Utc>) -> Option<Arc<Plan>>;
        fn kept_request(actor: &Actor, key: &str, now: DateTime<Utc>) -> Option<KeptRequest>;
        fn orphans(page: Cursor) -> Paged<AbandonedStep>;
        fn site_pauses() -> Vec<SitePause>;
        fn gantt(deletion_id: &str, columns: u32, now: DateTime<Utc>) -> Option<Gantt>;
        fn upcoming(now: DateTime<Utc>) -> Upcoming;
        fn last_hour(now: DateTime<Utc>) -> LastHour;
        fn last_day(now: DateTime<Utc>) -> LastDay;
        fn notification_cursor(channel: &str) -> NotificationCursor;
    }

    async fn identities(
        &self,
        deletion_id: &str,
    ) -> Result<BTreeMap<String, Identity>, LedgerError> {
        match self.planted_fault {
            PlantedFault::LosesIdentity => Ok(BTreeMap::new()),
            PlantedFault::CannotReadIdentity => Err(failed_read("planted")),
            _ => self.inner.identities(deletion_id).await,
        }
    }

    async fn tombstones_of(&self, keys: Vec<ResourceKey>) -> Result<Vec<Tombstone>, LedgerError> {
        match self.crash.cannot_read.load(Ordering::SeqCst) {
            true => Err(failed_read("the disk is busy")),
            false => self.inner.tombstones_of(keys).await,
        }
    }

    async fn summary(&self) -> Result<Summary, LedgerError> {
        self.crash.summaries.fetch_add(1, Ordering::SeqCst);
        self.inner.summary().await
    }
}

fn failed_read(detail: &str) -> LedgerError {
    LedgerError::Io {
        name: "simulation".into(),
        detail: detail.into(),
    }
}

forward! {
    NativeResources {
        fn native(filter: NativeFilter, page: Cursor) -> Paged<Native>;
        fn referrers(
            to: Vec<ResourceKey>, fields: Arc<[(KindName, String)]>, named_max: usize
        ) -> Vec<Referrers>;
    }
}

forward! {
    Engines {
        fn guards_reached_gates() -> ();
    }

    fn membership(&self) -> Membership {
        self.inner.membership()
    }

    fn follow_others(&self) -> watch::Receiver<u64> {
        self.inner.follow_others()
    }

    fn begin_work(&self) {
        self.inner.begin_work();
    }
}

forward! {
    Federation {
        fn importers() -> Vec<Importer>;
        fn watches() -> Vec<WatchCursor>;
        fn importers_cursor() -> (String, i64);
        fn notices(
            from: Deployment, since: (String, i64), kinds: BTreeSet<KindName>, limit: usize
        ) -> DeletionNotices;
        fn steps_awaiting_clearance(
            home: Site, importer: &str, after: i64, limit: usize
        ) -> (Vec<(i64, ClearanceRequest)>, i64);
        fn pending_clearances(step: i64) -> Vec<PendingClearance>;
        fn unhandled_deletions(limit: usize) -> Option<UnhandledDeletion>;
        fn handled_by_deletion(key: ResourceKey) -> Option<Deletion>;
        fn deleting_owners() -> BTreeSet<String>;
        fn live_steps(home: Site, keys: Vec<ResourceKey>) -> Vec<Option<LiveStep>>;
        fn live_dependencies(step: i64) -> Vec<Target>;
    }
}
