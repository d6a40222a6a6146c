//! A ledger that several engines share, as on a server. Each engine has a lease, and a connection that may be lost.
//!
//! The engines use the same code as on a real server ([`Heartbeat`] and [`Member`]). Only the server and the network
//! are simulated, on the paused clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use gone::domain::model::{Phase, ResourceKey};
use gone::ledger::engines::{
    BEAT_WAIT_MIN, Beat, EngineTerms, GATE_LEASE, Heartbeat, Member, MemberRow, READ_EVERY, Roster,
};
use gone::ledger::store::{Stored, StoredStep};
use gone::ledger::tombstones::{Changed, Tombstones};
use gone::ledger::transitions::Rotation;
use gone::ledger::{Change, Drive, Engines, Fence, LedgerError, Membership, Outcome, WriteRequest};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::memory::{EngineRow, MemoryRows, Tables};
use super::ports::PlantedFault;

/// The pause between two attempts to connect.
const CONNECT_EVERY: Duration = Duration::from_secs(1);

/// The server: the rows, and the engines that listen for notices.
#[derive(Clone)]
pub struct Server {
    pub rows: MemoryRows,
    members: Arc<Mutex<Vec<Weak<Member>>>>,
    dice: Arc<Mutex<fastrand::Rng>>,
    /// Late outcomes that changed a step although another engine had claimed it meanwhile: there must be none (I11).
    overwritten: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn new(rows: MemoryRows, seed: u64) -> Self {
        Self {
            rows,
            members: Arc::default(),
            dice: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
            overwritten: Arc::default(),
        }
    }

    /// Describes the first outcome that changed a step of another engine, if there is one.
    pub fn overwritten(&self) -> Option<String> {
        self.overwritten.lock().unwrap().first().cloned()
    }

    /// Whether the resource has a tombstone that gates must know.
    pub fn is_guarded(&self, key: &ResourceKey) -> bool {
        let phase = phases(&self.rows.tables()).get(key).copied();
        phase.is_some_and(|phase| phase != Phase::Released)
    }

    /// Returns the tombstones in memory of those engines whose gates may answer now.
    pub fn trusted_gates(&self) -> Vec<Arc<Tombstones>> {
        let members = self.members.lock().unwrap();
        let living = members.iter().filter_map(Weak::upgrade);
        let gates = living.filter_map(|member| member.index.clone());
        gates.filter(|gate| !gate.is_lost()).collect()
    }

    /// Wakes the other engines. One notice in four is lost.
    fn notify(&self, from: &Arc<Member>) {
        for member in self.members.lock().unwrap().iter() {
            if let Some(member) = member.upgrade()
                && !Arc::ptr_eq(&member, from)
                && self.dice.lock().unwrap().u8(0..4) > 0
            {
                member.wake();
            }
        }
    }

    /// Ends the lease of an engine whose process has ended.
    pub fn mark_dead(&self, epoch: i64) {
        for engine in &mut self.rows.tables().engines {
            if engine.epoch == epoch {
                engine.renewed = None;
            }
        }
    }
}

/// The connection of one engine to the server.
#[derive(Default)]
pub struct Connection {
    is_dead: AtomicBool,
    cut_until: Mutex<Option<Instant>>,
    /// The time for which the connection is cut when the next claim is committed.
    cut_at_claim: Mutex<Option<Duration>>,
    dice: Mutex<fastrand::Rng>,
}

impl Connection {
    /// Ends the connection: no request of the engine is answered any more.
    pub fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// Cuts the connection for this long.
    pub fn cut(&self, duration: Duration) {
        *self.cut_until.lock().unwrap() = Some(Instant::now() + duration);
    }

    /// Cuts the connection when the next claim is committed, before its answer.
    pub fn cut_at_claim(&self, duration: Duration) {
        *self.cut_at_claim.lock().unwrap() = Some(duration);
    }

    fn committed(&self, outcome: &Outcome) {
        if matches!(outcome, Outcome::Claimed(steps) if !steps.is_empty())
            && let Some(duration) = self.cut_at_claim.lock().unwrap().take()
        {
            self.cut(duration);
        }
    }

    fn is_cut(&self) -> bool {
        let cut = self.cut_until.lock().unwrap();
        cut.is_some_and(|until| Instant::now() < until)
    }

    /// Transmits a request or an answer. Fails if the connection is cut.
    async fn transmit(&self) -> Result<(), LedgerError> {
        let duration = self.dice.lock().unwrap().u64(0..20);
        sleep(Duration::from_millis(duration)).await;
        self.hang_if_dead().await;
        if !self.is_cut() {
            return Ok(());
        }
        sleep(CONNECT_EVERY).await;
        Err(failed("the connection was lost".to_owned()))
    }

    /// Waits until the server can be reached again.
    async fn wait_until_connected(&self) {
        while self.is_cut() {
            sleep(CONNECT_EVERY).await;
        }
        self.hang_if_dead().await;
    }

    async fn hang_if_dead(&self) {
        if self.is_dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

/// The ledger over the connection of one engine. Clones belong to the same engine.
#[derive(Clone)]
pub struct SharedLedger(Arc<Shared>);

struct Shared {
    server: Server,
    member: Arc<Member>,
    connection: Arc<Connection>,
    /// Locked for each transaction, so that those of one engine run one after the other.
    rotation: tokio::sync::Mutex<Rotation>,
    planted_fault: PlantedFault,
}

/// A transaction that was committed.
struct Committed {
    outcome: Outcome,
    /// The arguments of [`Member::committed`]: changed tombstones, the number of the last change, and whether gates of
    /// other engines must apply a change of this transaction.
    changed: Vec<Changed>,
    last: i64,
    has_raised: bool,
}

impl SharedLedger {
    /// Opens the ledger as one of its engines. The returned task renews the engine's lease until it is aborted.
    pub fn open(
        server: &Server,
        terms: EngineTerms,
        seed: u64,
        planted_fault: PlantedFault,
    ) -> (Self, Arc<Connection>, JoinHandle<()>) {
        let member = Arc::new(Member::new(terms, Some(Arc::default())));
        let connection = Arc::new(Connection {
            dice: Mutex::new(fastrand::Rng::with_seed(seed)),
            ..Connection::default()
        });
        let ledger = Self(Arc::new(Shared {
            server: server.clone(),
            member: member.clone(),
            connection: connection.clone(),
            rotation: tokio::sync::Mutex::default(),
            planted_fault,
        }));
        let mut members = server.members.lock().unwrap();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(&member));
        drop(members);
        ledger.0.join();
        let renewed = ledger.clone();
        let heartbeat_task = tokio::spawn(async move { renewed.renew().await });
        (ledger, connection, heartbeat_task)
    }

    pub fn epoch(&self) -> i64 {
        self.0.member.epoch()
    }

    pub fn gate(&self) -> Option<Arc<Tombstones>> {
        self.0.member.index.clone()
    }

    /// Renews the lease whenever that is due.
    async fn renew(&self) {
        let mut heartbeat = Heartbeat::new(self.0.member.clone());
        let woken = self.0.member.waker();
        loop {
            let wait = self.beat(&mut heartbeat).await;
            let _ = timeout(wait, woken.notified()).await;
            sleep(BEAT_WAIT_MIN).await;
        }
    }

    async fn beat(&self, heartbeat: &mut Heartbeat) -> Duration {
        let Shared {
            server,
            member,
            connection,
            ..
        } = &*self.0;
        let Some(beat) = heartbeat.begin() else {
            self.nudge();
            return READ_EVERY;
        };
        let exchange = async {
            connection.transmit().await?;
            let roster = roster(&mut server.rows.tables(), &beat);
            connection.transmit().await.map(|()| roster)
        };
        match exchange.await {
            Ok(roster) => {
                let next = heartbeat.conclude(&beat, roster);
                if next.wakes_others {
                    server.notify(member);
                }
                if next.is_behind {
                    self.nudge();
                }
                next.wait
            }
            Err(error) => {
                member.fail(&error.to_string());
                CONNECT_EVERY
            }
        }
    }

    /// Runs an empty transaction, which begins a new epoch if necessary and brings the tombstones up to date.
    fn nudge(&self) {
        let ledger = self.clone();
        tokio::spawn(async move { ledger.0.transact(WriteRequest::Commit(Vec::new())).await });
    }
}

impl Shared {
    /// Begins a new epoch, and loads the tombstones.
    fn join(&self) {
        let (member, now) = (&self.member, Instant::now());
        let (epoch, last) = {
            let mut tables = self.server.rows.tables();
            let epoch = tables.next_epoch();
            let last = last_change(&tables);
            tables.engines.push(EngineRow {
                epoch,
                works: member.works(),
                has_gates: member.index.is_some(),
                applied: last,
                passed: last,
                renewed: Some(now),
                lease: member.terms.lease,
                has_ended: false,
            });
            if let Some(index) = &member.index {
                index.distrust();
                index.clear();
                index.apply(changes(&BTreeMap::new(), &phases(&tables)));
            }
            (epoch, last)
        };
        member.joined(epoch, last, now + member.terms.lease);
        self.server.notify(member);
    }

    async fn transact(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        let rotation = &mut *self.rotation.lock().await;
        loop {
            if let Err(lost) = self.connection.transmit().await {
                self.member.fail(&lost.to_string());
                self.member.wake();
                return Err(lost);
            }
            if self.member.must_join() {
                self.join();
            }
            let epoch = self.member.epoch();
            let Some(committed) = self.attempt(epoch, &request, rotation).map_err(failed)? else {
                self.member.lose_epoch(epoch);
                continue;
            };
            self.server.notify(&self.member);
            self.connection.committed(&committed.outcome);
            // An engine that gets no answer waits until it knows whether the transaction was committed.
            let is_answered = self.connection.transmit().await.is_ok();
            if !is_answered {
                self.connection.wait_until_connected().await;
                self.member.raise(committed.last);
            }
            let changed = match self.planted_fault {
                PlantedFault::GateLacksTombstones => Vec::new(),
                _ => committed.changed,
            };
            let last = is_answered.then_some(committed.last);
            self.member.committed(changed, last, committed.has_raised);
            return Ok(committed.outcome);
        }
    }

    /// Runs a transaction. Returns none if another engine has ended this epoch.
    fn attempt(
        &self,
        epoch: i64,
        request: &WriteRequest,
        rotation: &mut Rotation,
    ) -> Result<Option<Committed>, String> {
        let rows = self.server.rows.of_epoch(epoch);
        let (mut changed, before, others_have_gates) = {
            let tables = rows.tables();
            let mut living = tables.engines.iter().filter(|engine| !engine.has_ended);
            if self.planted_fault != PlantedFault::IgnoresFencing
                && !living.clone().any(|it| it.epoch == epoch)
            {
                return Ok(None);
            }
            let known = usize::try_from(self.member.applied()).unwrap();
            let changed = tables.tombstone_changes[known..].to_vec();
            let others_have_gates = living.any(|it| it.epoch != epoch && it.has_gates);
            (changed, phases(&tables), others_have_gates)
        };
        let steps_of_others = steps_of_others(request, &rows.tables());
        let request = match self.planted_fault {
            PlantedFault::IgnoresFencing => with_current_fences(request, &rows.tables()),
            _ => request.clone(),
        };
        let outcome = rows.transact(rotation, request)?;
        let mut tables = rows.tables();
        for before in steps_of_others {
            if tables.steps.get(&before.id) != Some(&before) {
                let problem = format!("I11: a late outcome changed {before:?}");
                self.server.overwritten.lock().unwrap().push(problem);
            }
        }
        let own = changes(&before, &phases(&tables));
        tables.tombstone_changes.extend(own.iter().cloned());
        let has_raised = others_have_gates && !own.is_empty();
        changed.extend(own);
        Ok(Some(Committed {
            outcome,
            changed,
            last: last_change(&tables),
            has_raised,
        }))
    }
}

/// Returns the steps whose outcomes are in a request although another engine has claimed them since.
fn steps_of_others(request: &WriteRequest, tables: &Tables) -> Vec<StoredStep> {
    let WriteRequest::Commit(changes) = request else {
        return Vec::new();
    };
    let of_other = |change: &Change| match change {
        Change::Step(change) => tables
            .steps
            .get(&change.step_id)
            .filter(|step| step.epoch != change.fence.epoch)
            .cloned(),
        _ => None,
    };
    changes.iter().filter_map(of_other).collect()
}

/// Gives outcomes the current fencing tokens of their steps: a ledger that ignores fencing accepts them from a worker
/// that was taken for dead.
fn with_current_fences(request: &WriteRequest, tables: &Tables) -> WriteRequest {
    let mut request = request.clone();
    if let WriteRequest::Commit(changes) = &mut request {
        for change in changes {
            if let Change::Step(change) = change
                && let Some(step) = tables.steps.get(&change.step_id)
            {
                change.fence = Fence {
                    state: step.state,
                    claim: step.claim,
                    epoch: step.epoch,
                };
            }
        }
    }
    request
}

/// Renews a lease if that is due, and reads the rows of the engines. Returns none if the lease has been ended.
fn roster(tables: &mut Tables, beat: &Beat) -> Option<Roster> {
    let mut was_trusted = true;
    if beat.renews {
        let mut engines = tables.engines.iter_mut();
        let own = engines.find(|it| it.epoch == beat.epoch && !it.has_ended)?;
        was_trusted = own.renewed.is_some_and(|at| at.elapsed() < GATE_LEASE);
        own.renewed = Some(Instant::now());
        (own.works, own.applied, own.passed) = (beat.works, beat.applied, beat.passed);
    }
    let living = tables.engines.iter().filter(|engine| !engine.has_ended);
    let rows = living.map(|engine| MemberRow {
        epoch: engine.epoch,
        claims: engine.works,
        has_gates: engine.has_gates,
        applied: engine.applied,
        passed: engine.passed,
        renewed_ago_ms: engine.renewed_ago_ms(),
        lease_ms: engine.lease.as_millis() as i64,
    });
    Some(Roster {
        rows: rows.collect(),
        event: tables.last_event(),
        tombstone: last_change(tables),
        was_trusted,
    })
}

fn last_change(tables: &Tables) -> i64 {
    i64::try_from(tables.tombstone_changes.len()).unwrap()
}

fn phases(tables: &Tables) -> BTreeMap<ResourceKey, Phase> {
    let rows = tables.tombstones.values();
    rows.map(|(key, row)| (key.clone(), row.phase)).collect()
}

/// Returns the tombstones that differ in their phase between two states, or that only one of them has.
fn changes(
    before: &BTreeMap<ResourceKey, Phase>,
    now: &BTreeMap<ResourceKey, Phase>,
) -> Vec<Changed> {
    let change = |key: &ResourceKey, phase: Option<Phase>| Changed {
        site: key.site.clone(),
        kind: key.kind.clone(),
        id: key.id.clone(),
        phase,
    };
    let moved = now
        .iter()
        .filter(|(key, phase)| before.get(key) != Some(phase));
    let removed = before.keys().filter(|key| !now.contains_key(key));
    moved
        .map(|(key, phase)| change(key, Some(*phase)))
        .chain(removed.map(|key| change(key, None)))
        .collect()
}

fn failed(detail: String) -> LedgerError {
    LedgerError::Io {
        name: "shared".to_owned(),
        detail,
    }
}

#[async_trait]
impl Engines for SharedLedger {
    fn membership(&self) -> Membership {
        let membership = self.0.member.membership();
        match self.0.planted_fault {
            PlantedFault::IgnoresLeaseEnd => Membership {
                until: None,
                fault: None,
                ..membership
            },
            _ => membership,
        }
    }

    fn follow_others(&self) -> watch::Receiver<u64> {
        match self.0.planted_fault {
            PlantedFault::OthersAreNotWoken => watch::Sender::new(0).subscribe(),
            _ => self.0.member.follow_others(),
        }
    }

    fn begin_work(&self) {
        self.0.member.begin_work();
    }

    async fn guards_reached_gates(&self) -> Result<(), LedgerError> {
        self.0.connection.transmit().await?;
        let last = last_change(&self.0.server.rows.tables());
        self.0.member.gates_caught_up(last, true).await;
        Ok(())
    }
}

#[async_trait]
impl Drive for SharedLedger {
    type Reader = MemoryRows;

    async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        let effects = self.0.member.begin(&request);
        let outcome = self.0.transact(request).await?;
        self.0.member.end(effects).await;
        Ok(outcome)
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&MemoryRows) -> Stored<MemoryRows, T> + Send + 'static,
    {
        self.0.connection.transmit().await?;
        read(&self.0.server.rows).map_err(failed)
    }
}
