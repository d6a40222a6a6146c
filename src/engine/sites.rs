//! The state that the engine keeps for each site: whether it may send calls, and how many.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::limit::Limit;
use super::lock;
use super::pace::Pace;
use crate::cloud::CloudFailure;
use crate::control::{SiteState, SiteStatus};
use crate::domain::model::{ErrorClass, Identity, KindName, Site, SitePause};
use crate::domain::policy::Retry;
use crate::ledger::{Capacity, ClaimedStep, Membership};
use crate::system::config::Settings;

/// Minimum length of the time for whose calls steps are claimed in advance. In this time the ledger writes an outcome
/// and a claim, so that a free permit need not wait for the ledger. A site whose latency is shorter is treated as if
/// its latency were this long.
const AHEAD_MIN: Duration = Duration::from_millis(20);
/// Maximum length of the time for whose calls steps are claimed in advance, even if the ledger is slower, because no
/// other engine can send a step that is claimed.
const AHEAD_MAX: Duration = Duration::from_millis(200);
/// Window of recent calls over which the failure rate is computed.
const ANSWERS_KEPT: usize = 100;
/// A call or read that takes this long, and also [`HANGS_TIMES`] as long as the site's calls usually take, lends its
/// permit to another. So a call or read that hangs blocks only itself (I12).
const HANGS_AFTER: Duration = Duration::from_secs(5);
const HANGS_TIMES: u32 = 10;
/// A site that asks for a longer wait is called after this time all the same, because some sites ask for a day and mean
/// a minute.
const CLOSED_MAX: Duration = Duration::from_secs(60);
/// How often a read that waits for its permit checks whether a hanging call has lent one.
const PERMIT_CHECK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Sites {
    sites: Mutex<BTreeMap<Site, Runtime>>,
    /// The living resources that prove listings complete (I13b).
    witnesses: Mutex<HashMap<(Site, KindName), Witness>>,
    /// Whether to sign in only to sites that a command or query names (I15).
    pub(super) only_named: AtomicBool,
    /// Maximum number of calls in flight at a site, of all engines together.
    concurrency_max: usize,
    /// The mean time that a claim takes to be written.
    claim_time: Mutex<Duration>,
    /// The claims with steps whose calls are not sent yet.
    claims: Mutex<Vec<Weak<Claim>>>,
}

/// The deletions of the steps that were claimed together, and which of them were cancelled or paused since then. Each
/// step keeps the claim until its call is sent, so that a withdrawal also reaches a step that is not queued for a
/// permit yet, or that already has one (P8).
#[derive(Default)]
pub(super) struct Claim {
    /// Id of each deletion → whether its calls were withdrawn.
    deletions: Mutex<HashMap<String, bool>>,
}

impl Claim {
    /// Notes the deletions whose steps were claimed.
    pub(super) fn note_deletions(&self, steps: &[ClaimedStep]) {
        let mut deletions = lock(&self.deletions);
        for step in steps {
            deletions.entry(step.deletion_id.clone()).or_default();
        }
    }

    fn is_withdrawn(&self, deletion_id: &str) -> bool {
        lock(&self.deletions).get(deletion_id) == Some(&true)
    }
}

pub(super) struct Runtime {
    pub(super) status: SiteStatus,
    limit: Limit,
    /// This engine's share of the maximum number of calls in flight. Steps are claimed within it; one read may
    /// be in flight in any case.
    ceiling: usize,
    /// For each of the last calls, false if the site was overloaded or unavailable, or if the outcome is
    /// unknown; the newest last.
    answered: VecDeque<bool>,
    /// Mean duration of the last calls.
    latency: Option<Duration>,
    /// The calls and reads in flight, the oldest first.
    sent: Vec<InFlight>,
    /// The calls of claimed steps that wait for a permit, the oldest first.
    calls: VecDeque<QueuedCall>,
    /// Reads that wait for a permit, the oldest first. They belong to no deletion.
    reads: VecDeque<oneshot::Sender<Instant>>,
    /// Whether a call or a read got the last permit. Calls and reads alternate, so that no call waits for all reads to
    /// end, and no read waits for all calls (I12).
    last: Traffic,
    /// The time before which the site asked not to be called (`Retry-After`).
    closed_until: Option<Instant>,
    /// The number of calls a second that the site takes.
    pace: Pace,
    /// The identity that the login must cover again before anything is sent.
    pub(super) expected: Option<Identity>,
    pub(super) asked_at: Option<Instant>,
    /// Number of refused logins in a row.
    pub(super) refusals: u32,
    /// When the refused login was last checked for a change.
    pub(super) login_checked_at: Option<Instant>,
}

/// A living resource that proves a listing complete (I13b).
#[derive(Clone, Debug)]
pub(super) struct Witness {
    pub(super) id: String,
    pub(super) project_id: String,
}

/// A request that has a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InFlight {
    sent: Instant,
    of: Traffic,
}

/// The kinds of requests that need a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Call,
    Read,
}

/// The call of a claimed step, which waits for a permit. Dropping it withdraws the call.
struct QueuedCall {
    deletion_id: String,
    granted: oneshot::Sender<Instant>,
}

/// A permit for one read. Dropping it releases the permit, even while the reader still waits for it.
pub(super) struct Permit<'s> {
    sites: &'s Sites,
    site: &'s Site,
    granted: oneshot::Receiver<Instant>,
    given: Option<Instant>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if let Some(given) = self.given.or_else(|| self.granted.try_recv().ok()) {
            self.sites.ended_read(self.site, given);
        }
    }
}

impl Runtime {
    /// Whether a person paused the site, or its login is refused or has lost rights. A person's pause ends when a
    /// person resumes the site, and the other reasons end once the login has its rights.
    fn is_paused(&self) -> bool {
        self.status.state == SiteState::Paused || self.status.paused_by.is_some()
    }

    /// Returns how many calls may be in flight now: at least one.
    fn limit(&self) -> usize {
        self.limit.now().min(self.ceiling).max(1)
    }

    fn hangs_after(&self) -> Duration {
        HANGS_AFTER.max(self.latency.unwrap_or_default() * HANGS_TIMES)
    }

    /// Returns how many of these requests have a permit. Requests that hang lend theirs, at most as many as the limit
    /// allows.
    fn permits_taken(&self, now: Instant, in_flight: impl Iterator<Item = InFlight>) -> usize {
        let after = self.hangs_after();
        let (hanging, others): (Vec<InFlight>, Vec<InFlight>) =
            in_flight.partition(|it| now - it.sent >= after);
        others.len() + hanging.len().saturating_sub(self.status.concurrency_limit)
    }

    fn has_permit(&self, now: Instant) -> bool {
        self.permits_taken(now, self.sent.iter().copied()) < self.status.concurrency_limit
    }

    /// Removes the request that was sent at this time.
    fn remove(&mut self, sent: Instant, of: Traffic) {
        let ended = InFlight { sent, of };
        if let Some(at) = self.sent.iter().position(|it| *it == ended) {
            self.sent.remove(at);
        }
    }

    fn is_open(&self, now: Instant) -> bool {
        self.opens().is_none_or(|opens| opens <= now)
    }

    /// Returns when the next call may be sent. None means at once.
    fn opens(&self) -> Option<Instant> {
        self.closed_until.max(self.pace.next())
    }

    /// Records that the site was sent too many calls.
    fn throttled(&mut self, sent: Option<Instant>, now: Instant, retry_after: Option<Duration>) {
        self.pace.refused(sent.unwrap_or(now), now);
        self.close(now, retry_after);
        let rate = self.pace.rate().unwrap_or_default();
        tracing::debug!(site = %self.status.site, rate, "throttled: limited to this many calls a \
                                                         second");
    }

    /// Lets nothing be sent for as long as the cloud asks, at most [`CLOSED_MAX`].
    fn close(&mut self, now: Instant, retry_after: Option<Duration>) {
        let until = retry_after.map(|wait| now + wait.min(CLOSED_MAX));
        self.closed_until = self.closed_until.max(until);
    }

    /// Returns how many more steps may be claimed. Reads do not lower the number, because a claimed step waits
    /// for its permit.
    fn capacity(&self, now: Instant, ahead: Duration) -> Capacity {
        let limit = self.status.concurrency_limit;
        let ahead = self.latency.map_or(0, |latency| {
            (limit as f64 * ahead.div_duration_f64(latency.max(AHEAD_MIN))) as usize
        });
        let calls = self
            .sent
            .iter()
            .filter(|it| it.of == Traffic::Call)
            .copied();
        let claimed = self.permits_taken(now, calls) + self.calls.len();
        let now = limit.saturating_sub(claimed);
        Capacity {
            site: self.status.site.clone(),
            now,
            ahead: (limit + ahead).saturating_sub(claimed + now),
        }
    }

    /// Grants permits to the first calls and reads that wait, as many as the site takes now.
    fn grant_permits(&mut self, now: Instant) {
        while self.is_open(now)
            && self.has_permit(now)
            && let Some((granted, of)) = self.next_in_line()
        {
            if granted.send(now).is_ok() {
                self.last = of;
                self.sent.push(InFlight { sent: now, of });
                self.pace.sent(now);
            }
        }
    }

    /// Removes from its queue the request that gets the next permit, and returns it; none if both queues are empty.
    fn next_in_line(&mut self) -> Option<(oneshot::Sender<Instant>, Traffic)> {
        if (self.last == Traffic::Call || self.calls.is_empty())
            && let Some(read) = self.reads.pop_front()
        {
            return Some((read, Traffic::Read));
        }
        let call = self.calls.pop_front()?;
        Some((call.granted, Traffic::Call))
    }

    /// Sets or ends a person's pause. A pause withdraws the calls that wait, and leaves the reads.
    fn set_pause(&mut self, pause: Option<SitePause>) {
        self.status.paused_by = pause;
        if self.is_paused() {
            self.calls.clear();
        }
    }

    fn shown(&self) -> SiteStatus {
        let mut shown = self.status.clone();
        shown.in_flight = self.sent.len();
        let errors = self.answered.iter().filter(|answered| !**answered).count();
        let percent = (errors * 100).checked_div(self.answered.len());
        shown.error_percent = percent.and_then(|percent| u8::try_from(percent).ok());
        shown.latency_ms = self
            .latency
            .map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX));
        if let Some(pause) = &shown.paused_by {
            let why = match pause.reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            let also = match shown.reason.as_str() {
                "" => String::new(),
                reason => format!("; {reason}"),
            };
            shown.reason = format!("paused by {}{why}{also}", pause.by.name);
            shown.state = SiteState::Paused;
        }
        shown
    }
}

impl Sites {
    pub(super) fn new(sites: Vec<Site>, settings: &Settings) -> Self {
        let runtime = |site: Site| {
            let cloud = match &site {
                Site::Region { cloud, .. } => cloud.to_string(),
                Site::Deployment { name } => name.to_string(),
            };
            Runtime {
                status: SiteStatus {
                    state: SiteState::Unknown,
                    reason: String::new(),
                    latency_ms: None,
                    error_percent: None,
                    in_flight: 0,
                    concurrency_limit: settings.engine.concurrency,
                    read_only: settings.guard.read_only
                        || settings.guard.read_only_clouds.contains(&cloud),
                    as_user: String::new(),
                    reason_wanted: settings.guard.reason.get(&cloud).cloned(),
                    paused_by: None,
                    site,
                },
                limit: Limit::new(settings.engine.concurrency, settings.engine.concurrency_max),
                ceiling: settings.engine.concurrency_max,
                answered: VecDeque::new(),
                latency: None,
                sent: Vec::new(),
                calls: VecDeque::new(),
                reads: VecDeque::new(),
                last: Traffic::Read,
                closed_until: None,
                pace: Pace::default(),
                expected: None,
                asked_at: None,
                refusals: 0,
                login_checked_at: None,
            }
        };
        Self {
            sites: Mutex::new(
                sites
                    .into_iter()
                    .map(|site| (site.clone(), runtime(site)))
                    .collect(),
            ),
            witnesses: Mutex::default(),
            only_named: AtomicBool::new(false),
            concurrency_max: settings.engine.concurrency_max,
            claim_time: Mutex::default(),
            claims: Mutex::default(),
        }
    }

    /// Limits each site's concurrency to this engine's share of `concurrency_max`.
    pub(super) fn set_shares(&self, membership: &Membership) {
        let ceiling = membership.share_of(self.concurrency_max);
        for site in self
            .lock()
            .values_mut()
            .filter(|site| site.ceiling != ceiling)
        {
            site.ceiling = ceiling;
            site.status.concurrency_limit = site.limit();
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Site, Runtime>> {
        lock(&self.sites)
    }

    pub(super) fn statuses(&self) -> Vec<SiteStatus> {
        self.lock().values().map(Runtime::shown).collect()
    }

    /// From now on, signs in to a site only when a command or query names it.
    pub(super) fn sign_in_to_named_only(&self) {
        self.only_named.store(true, Ordering::Relaxed);
    }

    /// Makes the refused login of a site due at once and resets the pause between its sign-ins, because a person
    /// resumed the site or retried steps there (I15). Returns whether the login had been refused.
    pub(super) fn ask_site_again(&self, site: &Site) -> bool {
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site).filter(|site| site.refusals > 0) else {
            return false;
        };
        (site.refusals, site.asked_at) = (0, None);
        true
    }

    /// Sets or ends a person's pause, as recorded in the ledger.
    pub(super) fn set_pause(&self, site: &Site, pause: Option<SitePause>) {
        if let Some(site) = self.lock().get_mut(site) {
            site.set_pause(pause);
        }
    }

    /// Sets these pauses, as recorded in the ledger, and ends the pauses of all other sites.
    pub(super) fn set_pauses(&self, pauses: &[SitePause]) {
        for (name, site) in self.lock().iter_mut() {
            let pause = pauses.iter().find(|pause| pause.site == *name);
            site.set_pause(pause.cloned());
        }
    }

    /// Begins a claim. Call this before the ledger writes the claim, so that the claim also notes the deletions that
    /// are cancelled in the meantime.
    pub(super) fn begin_claim(&self) -> Arc<Claim> {
        let claim = Arc::<Claim>::default();
        let mut claims = lock(&self.claims);
        claims.retain(|claim| claim.strong_count() > 0);
        claims.push(Arc::downgrade(&claim));
        claim
    }

    /// Returns the ids of the deletions with claimed steps whose calls are not sent yet.
    pub(super) fn deletions_with_unsent_calls(&self) -> BTreeSet<String> {
        let claims = lock(&self.claims);
        let claims = claims.iter().filter_map(Weak::upgrade);
        claims
            .flat_map(|claim| lock(&claim.deletions).keys().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Whether the call of a claimed step may still be sent: its deletion was neither cancelled nor paused, and its
    /// site is not paused.
    pub(super) fn may_send(&self, site: &Site, deletion_id: &str, claim: &Claim) -> bool {
        self.may_read(site) && !claim.is_withdrawn(deletion_id)
    }

    /// Returns how many calls the site may have in flight now: at least one.
    pub(super) fn concurrency_limit(&self, site: &Site) -> usize {
        self.lock()
            .get(site)
            .map_or(1, |site| site.status.concurrency_limit)
    }

    pub(super) fn reason_wanted(&self, site: &Site) -> Option<String> {
        self.lock().get(site)?.status.reason_wanted.clone()
    }

    pub(super) fn read_only(&self, site: &Site) -> bool {
        self.lock()
            .get(site)
            .is_some_and(|site| site.status.read_only)
    }

    /// Returns the sites where steps may be claimed now. Read-only is enforced here, not by hiding keys (P5).
    pub(super) fn capacities(&self) -> Vec<Capacity> {
        let now = Instant::now();
        let ahead = (*lock(&self.claim_time) * 2).clamp(AHEAD_MIN, AHEAD_MAX);
        let mut sites = self.lock();
        // Permits are granted also at sites where nothing may be claimed, because claimed steps and reads continue
        // there.
        sites.values_mut().for_each(|site| site.grant_permits(now));
        sites
            .values()
            .filter(|site| site.ceiling > 0 && !site.is_paused() && !site.status.read_only)
            .filter(|site| site.is_open(now))
            .map(|site| site.capacity(now, ahead))
            .filter(|capacity| capacity.now + capacity.ahead > 0)
            .collect()
    }

    /// Updates the mean time that a claim takes.
    pub(super) fn note_claim(&self, took: Duration) {
        let mut time = lock(&self.claim_time);
        *time = (*time * 7 + took) / 8;
    }

    /// Returns the time until the first site that may not be called now may be called again; [`Duration::MAX`] if there
    /// is none.
    pub(super) fn next_open(&self) -> Duration {
        let now = Instant::now();
        let sites = self.lock();
        let closed = sites.values().filter_map(Runtime::opens);
        let next = closed.filter(|until| *until > now).map(|until| until - now);
        next.min().unwrap_or(Duration::MAX)
    }

    /// Waits for a permit for a read. For a site whose login is refused or has lost rights, or which is unknown,
    /// returns an empty permit; the read itself then says why it fails.
    pub(super) async fn read_permit<'s>(&'s self, site: &'s Site) -> Permit<'s> {
        let mut permit = Permit {
            sites: self,
            site,
            granted: self.queue_read(site),
            given: None,
        };
        loop {
            tokio::select! {
                biased;
                given = &mut permit.granted => {
                    permit.given = given.ok();
                    return permit;
                }
                () = tokio::time::sleep(self.next_permit(site)) => {}
            }
        }
    }

    /// Grants the permits that are free. Returns how long to wait before the next check.
    fn next_permit(&self, site: &Site) -> Duration {
        let now = Instant::now();
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site) else {
            return PERMIT_CHECK_EVERY;
        };
        site.grant_permits(now);
        let opens = site.opens().filter(|opens| *opens > now);
        opens.map_or(PERMIT_CHECK_EVERY, |until| until - now)
    }

    /// Records the answer to a read. An overload lowers the limit of the site. The duration of a read does not
    /// change the limit, which is about calls.
    pub(super) fn read_ended(&self, permit: &Permit<'_>, failure: Option<&CloudFailure>) {
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(permit.site) else {
            return;
        };
        let now = Instant::now();
        match failure.map(|failure| (failure.retry, failure.retry_after)) {
            Some((Retry::Throttled, after)) => site.throttled(permit.given, now, after),
            Some((Retry::Unavailable, after)) => {
                site.close(now, after);
                site.limit.overloaded();
                site.status.concurrency_limit = site.limit();
            }
            None => site.pace.answered(now),
            // These failures do not show how many calls the site takes.
            Some((
                Retry::Scheduled
                | Retry::Pending
                | Retry::Unknown
                | Retry::SitePaused
                | Retry::AwaitsClearance
                | Retry::Never,
                _,
            )) => {}
        }
    }

    /// Reserves the time at which a read without a permit may be sent. Returns that time.
    pub(super) fn next_slot(&self, site: &Site) -> Instant {
        let now = Instant::now();
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site) else {
            return now;
        };
        let slot = now.max(site.opens().unwrap_or(now));
        site.pace.sent(slot);
        slot
    }

    /// Records the answer to a read without a permit.
    pub(super) fn single_read_ended(
        &self,
        site: &Site,
        sent: Instant,
        failure: Option<&CloudFailure>,
    ) {
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site) else {
            return;
        };
        let now = Instant::now();
        match failure {
            None => site.pace.answered(now),
            Some(failure) if failure.retry == Retry::Throttled => {
                site.throttled(Some(sent), now, failure.retry_after);
            }
            Some(failure) if failure.retry == Retry::Unavailable => {
                site.close(now, failure.retry_after);
            }
            Some(_) => {}
        }
    }

    /// Records in the site's status whether a read worked. Returns whether the status changed.
    pub(super) fn read_answered(&self, site: &Site, failure: Option<&CloudFailure>) -> bool {
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site) else {
            return false;
        };
        if site.status.state == SiteState::Paused {
            return false;
        }
        let (state, reason) = match failure {
            None => (SiteState::Reachable, String::new()),
            Some(failure)
                if matches!(
                    failure.class,
                    ErrorClass::Unavailable | ErrorClass::OutcomeUnknown
                ) =>
            {
                (SiteState::Unreachable, failure.message.clone())
            }
            Some(_) => return false,
        };
        let is_news = (site.status.state, &site.status.reason) != (state, &reason);
        (site.status.state, site.status.reason) = (state, reason);
        is_news
    }

    /// Releases the permit of a call that was not sent.
    pub(super) fn return_permit(&self, site: &Site, given: Instant) {
        self.free(site, given, Traffic::Call);
    }

    fn ended_read(&self, site: &Site, given: Instant) {
        self.free(site, given, Traffic::Read);
    }

    fn free(&self, site: &Site, given: Instant, of: Traffic) {
        if let Some(site) = self.lock().get_mut(site) {
            site.remove(given, of);
            site.grant_permits(Instant::now());
        }
    }

    /// Returns the time until the next request in flight counts as hanging and lends its permit.
    pub(super) fn next_hanging(&self) -> Duration {
        let now = Instant::now();
        let sites = self.lock();
        let next = sites.values().filter_map(|site| {
            let after = site.hangs_after();
            let ages = site.sent.iter().map(|it| now - it.sent);
            ages.filter(|age| *age < after).max().map(|age| after - age)
        });
        next.min().unwrap_or(Duration::MAX)
    }

    /// Whether the site may be observed. A paused site may not: a person wants no calls there, or the login lacks the
    /// rights without which its answers do not count.
    pub(super) fn may_read(&self, site: &Site) -> bool {
        self.lock().get(site).is_none_or(|site| !site.is_paused())
    }

    /// Whether any call or read with a permit is in flight.
    pub(super) fn busy(&self) -> bool {
        self.lock().values().any(|site| !site.sent.is_empty())
    }

    pub(super) fn witness(&self, site: &Site, kind: &KindName) -> Option<Witness> {
        lock(&self.witnesses)
            .get(&(site.clone(), kind.clone()))
            .cloned()
    }

    pub(super) fn keep_witness(&self, site: &Site, kind: &KindName, witness: Witness) {
        lock(&self.witnesses).insert((site.clone(), kind.clone()), witness);
    }

    pub(super) fn forget_witness(&self, site: &Site, kind: &KindName) {
        lock(&self.witnesses).remove(&(site.clone(), kind.clone()));
    }

    /// Queues a call of a deletion, and waits for its permit, which [`Self::ended`] or [`Self::return_permit`]
    /// releases. Returns the time at which the permit was granted; none if the call was withdrawn and must not be sent.
    pub(super) fn call_permit(
        &self,
        site: &Site,
        deletion_id: &str,
        claim: &Claim,
    ) -> impl Future<Output = Option<Instant>> + use<> {
        let permit = self.queue_call(site, deletion_id, claim);
        async { permit.await.ok() }
    }

    fn queue_call(
        &self,
        site: &Site,
        deletion_id: &str,
        claim: &Claim,
    ) -> oneshot::Receiver<Instant> {
        let (granted, permit) = oneshot::channel();
        if let Some(site) = self.lock().get_mut(site)
            && !site.is_paused()
            && !claim.is_withdrawn(deletion_id)
        {
            site.calls.push_back(QueuedCall {
                deletion_id: deletion_id.to_owned(),
                granted,
            });
            site.grant_permits(Instant::now());
        }
        permit
    }

    /// Queues a read, also at a site that a person paused: no calls are sent there, but people and plans still
    /// read it.
    fn queue_read(&self, site: &Site) -> oneshot::Receiver<Instant> {
        let (granted, permit) = oneshot::channel();
        if let Some(site) = self.lock().get_mut(site)
            && site.status.state != SiteState::Paused
        {
            site.reads.push_back(granted);
            site.grant_permits(Instant::now());
        }
        permit
    }

    /// Withdraws the calls of a deletion that are not sent yet.
    pub(super) fn withdraw_calls(&self, deletion_id: &str) {
        // The queues and the claims change under one lock of the sites: a call that was queued before is removed here,
        // and a later call finds its deletion withdrawn in its claim, and is not queued.
        let mut sites = self.lock();
        for site in sites.values_mut() {
            site.calls.retain(|call| call.deletion_id != deletion_id);
        }
        for claim in lock(&self.claims).iter().filter_map(Weak::upgrade) {
            lock(&claim.deletions).insert(deletion_id.to_owned(), true);
        }
    }

    /// Records that a call has ended, and adapts how many calls the site takes. `failed` says how the call is
    /// retried, and how long the cloud asks to wait.
    pub(super) fn ended(
        &self,
        site: &Site,
        sent: Instant,
        failed: Option<(Retry, Option<Duration>)>,
        reason: &str,
    ) {
        let (retry, retry_after) = failed.unzip();
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site) else {
            return;
        };
        site.remove(sent, Traffic::Call);
        let now = Instant::now();
        let took = now - sent;
        let latency = site.latency.map_or(took, |before| (before * 7 + took) / 8);
        site.latency = Some(latency);
        let failed = matches!(
            retry,
            Some(Retry::Unavailable | Retry::Throttled | Retry::Unknown)
        );
        site.answered.push_back(!failed);
        if site.answered.len() > ANSWERS_KEPT {
            site.answered.pop_front();
        }
        match retry {
            Some(Retry::Unavailable) => {
                site.close(now, retry_after.flatten());
                site.limit.overloaded();
                if site.status.state != SiteState::Paused {
                    site.status.state = SiteState::Unreachable;
                    reason.clone_into(&mut site.status.reason);
                }
            }
            Some(Retry::Throttled) => site.throttled(Some(sent), now, retry_after.flatten()),
            Some(Retry::SitePaused | Retry::Unknown) => {}
            Some(Retry::Scheduled | Retry::Pending | Retry::AwaitsClearance | Retry::Never)
            | None => {
                site.pace.answered(now);
                if site.status.state != SiteState::Paused {
                    site.status.state = SiteState::Reachable;
                    site.status.reason.clear();
                }
                site.limit.answered(now, took);
            }
        }
        let limit = site.limit();
        if limit != site.status.concurrency_limit {
            let name = &site.status.site;
            tracing::debug!(site = %name, limit, ?took, "changed the number of calls that may be in flight at the site");
            site.status.concurrency_limit = limit;
        }
        site.grant_permits(now);
    }

    /// Pauses a site whose login is refused or has lost rights, and withdraws the calls and reads that wait for a
    /// permit. Returns whether the site was not paused for such a reason before.
    pub(super) fn pause(&self, site: &Site, reason: &str, expected: Option<Identity>) -> bool {
        let mut sites = self.lock();
        let Some(site) = sites.get_mut(site) else {
            return false;
        };
        let newly = site.status.state != SiteState::Paused;
        site.status.state = SiteState::Paused;
        site.calls.clear();
        site.reads.clear();
        reason.clone_into(&mut site.status.reason);
        site.expected = expected.or(site.expected.take());
        site.asked_at = Some(Instant::now());
        newly
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::{Actor, Origin};

    /// Returns how many steps a site takes now and in advance. Its calls take 40 ms, and claims took this long.
    fn capacity(claims_took: Duration) -> (usize, usize) {
        let site = Site::region("prod", "RegionOne");
        let mut settings = Settings::default();
        settings.engine.concurrency = 8;
        let sites = Sites::new(vec![site.clone()], &settings);
        if let Some(site) = sites.lock().get_mut(&site) {
            site.latency = Some(Duration::from_millis(40));
        }
        for _ in 0..100 {
            sites.note_claim(claims_took);
        }
        let capacities = sites.capacities();
        (capacities[0].now, capacities[0].ahead)
    }

    /// A site that takes one call at a time.
    fn narrow() -> (Sites, Site) {
        let site = Site::region("prod", "RegionOne");
        let mut settings = Settings::default();
        (settings.engine.concurrency, settings.engine.concurrency_max) = (1, 1);
        (Sites::new(vec![site.clone()], &settings), site)
    }

    #[tokio::test]
    async fn i12_calls_and_reads_get_permits_alternately() {
        let (sites, site) = narrow();
        let mut reads: Vec<_> = (0..100).map(|_| sites.queue_read(&site)).collect();
        let claim = Claim::default();
        let call = |_| sites.queue_call(&site, "one", &claim);
        let mut calls: Vec<_> = (0..3).map(call).collect();
        let mut order = String::new();
        for _ in 0..6 {
            let came = |permit: &mut oneshot::Receiver<Instant>| permit.try_recv().ok();
            if let Some(sent) = reads.iter_mut().find_map(came) {
                order.push('r');
                sites.ended_read(&site, sent);
            } else if let Some(sent) = calls.iter_mut().find_map(came) {
                order.push('c');
                sites.return_permit(&site, sent);
            }
        }
        assert_eq!(order, "rcrcrc");
    }

    #[tokio::test]
    async fn i12_queued_reads_do_not_prevent_claims() {
        let (sites, site) = narrow();
        let _reads: Vec<_> = (0..100).map(|_| sites.queue_read(&site)).collect();
        let capacities = sites.capacities();
        assert_eq!((capacities[0].now, capacities[0].ahead), (1, 0));
    }

    #[tokio::test]
    async fn n16_reads_of_a_paused_site_stay_within_its_limit() {
        let (sites, site) = narrow();
        let by = Actor::new("anna", Origin::Cli);
        let pause = SitePause {
            site: site.clone(),
            by,
            reason: String::new(),
            at: chrono::Utc::now(),
        };
        sites.set_pause(&site, Some(pause));
        let claim = Claim::default();
        assert_eq!(sites.call_permit(&site, "one", &claim).await, None);
        let mut reads: Vec<_> = (0..3).map(|_| sites.queue_read(&site)).collect();
        let sent = reads.iter_mut().filter_map(|read| read.try_recv().ok());
        assert_eq!(sent.count(), 1);
    }

    #[test]
    fn i15_a_person_who_resumes_a_site_repeats_the_refused_login_of_that_site_only() {
        let [one, two] = ["one", "two"].map(|region| Site::region("prod", region));
        let sites = Sites::new(vec![one.clone(), two.clone()], &Settings::default());
        sites.lock().values_mut().for_each(|site| site.refusals = 3);
        assert!(sites.ask_site_again(&one));
        assert!(
            !sites.ask_site_again(&one),
            "the refused login is due already"
        );
        let refusals = |site| sites.lock().get(site).map(|site: &Runtime| site.refusals);
        assert_eq!((refusals(&one), refusals(&two)), (Some(0), Some(3)));
    }

    #[tokio::test]
    async fn p08_a_cancelled_deletion_sends_no_call_whether_its_step_has_a_permit_or_not() {
        let (sites, site) = narrow();
        let claim = sites.begin_claim();
        let with_permit = sites.call_permit(&site, "one", &claim).await;
        assert!(with_permit.is_some() && sites.may_send(&site, "one", &claim));
        sites.withdraw_calls("one");
        assert!(!sites.may_send(&site, "one", &claim));
        assert_eq!(sites.call_permit(&site, "one", &claim).await, None);
        // The calls of other deletions are sent. After a resume, so are the calls of a later claim.
        assert!(sites.may_send(&site, "two", &claim));
        assert!(sites.may_send(&site, "one", &sites.begin_claim()));
    }

    #[test]
    fn steps_are_claimed_ahead_to_cover_the_time_that_a_claim_takes() {
        assert_eq!(capacity(Duration::ZERO), (8, 4));
        assert_eq!(capacity(Duration::from_millis(40)), (8, 15));
        assert_eq!(capacity(Duration::from_secs(10)), (8, 40));
    }
}
