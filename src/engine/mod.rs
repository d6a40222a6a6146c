//! The engine: reconcilers over the ledger.
//!
//! ```text
//!            ┌─ planning   deletions in `planning` → listings → Start, StillPlanning or Refuse
//!   wake ───▶├─ dispatch   claim ready steps → one call each → outcome
//!   period   ├─ verify     steps in `verifying`, a batch per kind → observe → next state
//!            ├─ retry      blocked steps that are due → ready
//!            ├─ sweep      resources of tombstones in hold-down → observed → deleted again
//!            ├─ prune      records past their retention → deleted
//!            ├─ peers      owners watched and hinted, notices handled, importers asked for clearances
//!            └─ sites      new, paused and unreachable sites signed in to; snapshot published
//! ```
//!
//! Each reconciler is a struct with just the parts that it uses (`assemble.rs` connects them), so a file imports only
//! the files below it: the journal (writes and wake-ups), the sites (permits), the reads, and, built on these, the
//! search for copies, the resolver, planning, observing and the diagnosis. Commands and queries are carried out by
//! structs of the same form.
//!
//! A reconciler takes its work from the ledger and the clock (for sign-ins, also from the states of the sites), is
//! idempotent, and runs when woken and periodically. Restart after a crash is the same path as running: the engine
//! first verifies the steps whose calls were in flight. The engine keeps no graph in memory, only the steps that it has
//! claimed.
//!
//! Each reconciler records its runs (`activity.rs`). `gone list engine` and the console's `:engine` show them.
//!
//! **Architecture invariant:** [`Engine::run`] owns every task of the reconcilers. When its future is dropped, none of
//! these tasks continues, as in a crash. A panic in such a task poisons the engine, which then takes no new work and
//! says so. Only a command with an idempotency key has a task elsewhere (`requests.rs`), which ends with the command.

mod accept;
mod activity;
mod assemble;
mod audit;
mod belongings;
mod bulk;
mod commands;
mod confirm;
mod control_service;
mod copies;
mod diagnose;
mod dispatch;
mod drift;
mod errors;
mod explain;
mod guards;
mod journal;
mod limit;
mod listings;
mod logins;
mod observe;
mod orphans;
mod outcomes;
mod owner_names;
mod pace;
mod peers;
mod plan_queue;
mod planning;
mod protection;
mod prune;
mod purge;
mod queries;
mod reads;
mod records;
mod registry;
mod removal;
pub mod replay;
mod requests;
mod resolve;
mod schedules;
mod sites;
mod snapshot;
mod sweep;
mod sweep_copies;
mod verify;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cloud::Cloud;
use crate::control::Control;
use crate::control::traffic::Counters;
use crate::domain::kinds::Kinds;
use crate::domain::model::DeletionState;
use crate::ledger::tombstones::Tombstones;
use crate::ledger::{Change, Ledger, LedgerError};
use crate::system::clock::Clock;
use crate::system::config::Settings;
use activity::Activity;
use control_service::ControlService;
use dispatch::Dispatching;
use journal::{Journal, LEDGER_RETRY};
use logins::Logins;
use peers::Federation;
use plan_queue::PlanQueue;
use prune::Pruning;
use sites::Sites;
use snapshot::Publishing;
use sweep::Sweep;
use verify::Verifying;

pub use peers::Neighbours;

/// How often an engine that may not send calls, for example because its lease has ended, checks whether it may
/// again.
const LEASE_CHECK: Duration = Duration::from_secs(1);
/// The longest sleep of the loop. Work that is due sooner wakes it sooner.
const PERIOD_MAX: Duration = Duration::from_secs(30);

/// The parts that an engine is made of.
pub struct EngineParts {
    pub ledger: Arc<dyn Ledger>,
    pub cloud: Arc<dyn Cloud>,
    pub kinds: Arc<Kinds>,
    pub clock: Clock,
    pub settings: Settings,
    /// The tombstones by which gates answer requests, and the writes that gates let through; none without a gate.
    pub tombstones: Option<Arc<Tombstones>>,
    /// The counters of the gates.
    pub gates: Arc<Counters>,
    /// The other deployments; none for an engine without `[deployment]`.
    pub neighbours: Option<Neighbours>,
    /// The ledger's name, shown to people in the snapshot.
    pub ledger_name: String,
    /// The engine's epoch in the ledger when it starts (I11), for its status.
    pub epoch: i64,
}

/// An engine that runs while its [`Engine::run`] is polled.
pub struct Engine {
    service: Arc<ControlService>,
    reconcilers: Reconcilers,
}

/// The reconcilers that the loop runs, and the state by which the loop decides when to run them.
struct Reconcilers {
    clock: Clock,
    ledger: Arc<dyn Ledger>,
    journal: Arc<Journal>,
    sites: Arc<Sites>,
    /// Whether the reconcilers work. Until they do, the engine sends nothing that changes a cloud (P10).
    works: Arc<AtomicBool>,
    /// The activity of the retry worker: the loop itself makes the blocked steps that are due ready.
    retrying: Arc<Activity>,
    plan_queue: Arc<PlanQueue>,
    dispatching: Arc<Dispatching>,
    verifying: Arc<Verifying>,
    sweep: Arc<Sweep>,
    pruning: Arc<Pruning>,
    publishing: Arc<Publishing>,
    logins: Arc<Logins>,
    /// Exchanges messages with other deployments; none for an engine without `[deployment]`.
    federation: Option<Arc<Federation>>,
}

impl Engine {
    /// Connects the parts. The engine works only while [`Self::run`] is polled.
    pub fn new(parts: EngineParts) -> Self {
        assemble::engine(parts)
    }

    /// Makes this an engine for one verb. It signs in only to the sites that the verb asks about (I15).
    /// Whatever waits in the ledger, the engine sends nothing that changes a cloud until a command that wants
    /// work done is submitted ([`crate::control::Command::wants_work`]), because a verb that only reads must
    /// not delete (P10).
    #[must_use]
    pub fn idle_until_asked(self) -> Self {
        self.reconcilers.works.store(false, Ordering::Relaxed);
        self.reconcilers.sites.sign_in_to_named_only();
        self
    }

    /// Returns the engine as front ends see it. The result can be used as long as the engine runs.
    pub fn control(&self) -> Arc<dyn Control> {
        self.service.clone()
    }

    /// Runs until the future is dropped. Starts by verifying the steps whose calls an earlier engine had in flight.
    ///
    /// # Errors
    /// The ledger cannot be used at all. If the ledger is only full or slow, the engine waits for it instead.
    pub async fn run(&self) -> Result<(), LedgerError> {
        self.reconcilers.run().await
    }
}

impl Reconcilers {
    async fn run(&self) -> Result<(), LedgerError> {
        let mut tasks = JoinSet::new();
        self.idle(&mut tasks).await;
        self.ledger.begin_work();
        let mut others = self.ledger.follow_others();
        self.journal
            .commit_until_done(vec![Change::Recover {
                now: self.clock.now(),
            }])
            .await?;
        self.apply_changes_of_others().await;
        if let Some(federation) = &self.federation {
            federation.owner.recall_importers().await?;
            federation.importer.watch_all(&mut tasks).await?;
        }
        loop {
            let pass = self.pass(&mut tasks).await;
            let sleep = match pass {
                Ok(sleep) => sleep,
                Err(error @ (LedgerError::Io { .. } | LedgerError::Corrupt { .. })) => {
                    self.journal.set_fault(Some(error.to_string()));
                    LEDGER_RETRY
                }
                Err(error) => return Err(error),
            };
            // A fixed order, so that a simulation with the same seed makes the same calls.
            tokio::select! {
                biased;
                () = self.journal.wait_for_wake() => {}
                Ok(()) = others.changed() => self.apply_changes_of_others().await,
                () = tokio::time::sleep(sleep) => {}
                Some(ended) = tasks.join_next() => self.ended(ended),
            }
            while let Some(ended) = tasks.try_join_next() {
                self.ended(ended);
            }
        }
    }

    /// Applies the pauses and cancellations that people requested here or through another engine of this ledger, and
    /// wakes the readers of events. If the ledger cannot be read now, the next change repeats this.
    async fn apply_changes_of_others(&self) {
        self.journal.others_committed();
        if let Err(error) = self.withdraw_paused_calls().await {
            self.journal.set_fault(Some(error.to_string()));
        }
    }

    async fn withdraw_paused_calls(&self) -> Result<(), LedgerError> {
        self.sites.set_pauses(&self.ledger.site_pauses().await?);
        for id in self.sites.deletions_with_unsent_calls() {
            let deletion = self.ledger.deletion(&id).await?;
            let stops = [DeletionState::Paused, DeletionState::Cancelled];
            if deletion.is_some_and(|deletion| stops.contains(&deletion.state)) {
                self.sites.withdraw_calls(&id);
            }
        }
        Ok(())
    }

    /// Signs in to sites and publishes snapshots, and does nothing else until a command asks for work.
    async fn idle(&self, tasks: &mut JoinSet<()>) {
        while !self.works.load(Ordering::Relaxed) {
            self.publishing.start(tasks);
            let sleep = self.logins.start(tasks).min(PERIOD_MAX);
            tokio::select! {
                biased;
                () = self.journal.wait_for_wake() => {}
                () = tokio::time::sleep(sleep) => {}
                Some(ended) = tasks.join_next() => self.ended(ended),
            }
        }
    }

    /// Runs each reconciler that this engine may run now. Returns the time until something will be due.
    async fn pass(&self, tasks: &mut JoinSet<()>) -> Result<Duration, LedgerError> {
        let membership = self.ledger.membership();
        self.journal.set_membership(&membership);
        self.sites.set_shares(&membership);
        self.publishing.start(tasks);
        if self.journal.is_poisoned() {
            return Ok(PERIOD_MAX);
        }
        if let Err(why) = membership.may_send(Duration::ZERO, Instant::now()) {
            self.journal.set_fault(Some(why));
            return Ok(LEASE_CHECK);
        }
        let led = match membership.leads {
            true => self.lead(tasks, membership.is_takeover_due).await?,
            false => Duration::MAX,
        };
        self.dispatching.start(tasks).await?;
        let sites = self.logins.start(tasks);
        self.journal.set_fault(None);
        let hanging = self.sites.next_hanging().min(self.sites.next_open());
        Ok(led.min(hanging).min(sites).min(PERIOD_MAX))
    }

    /// Runs the reconcilers that only the leading engine of a ledger runs. Returns the time until something
    /// will be due.
    async fn lead(
        &self,
        tasks: &mut JoinSet<()>,
        is_takeover_due: bool,
    ) -> Result<Duration, LedgerError> {
        let now = self.clock.now();
        if is_takeover_due {
            self.journal.commit(vec![Change::TakeOver { now }]).await?;
        }
        let mut due = self.ledger.next_due(now).await?;
        if due.attempt.is_some_and(|due| due <= now) {
            let run = self.retrying.begin("");
            let woken = self.journal.commit(vec![Change::WakeDue { now }]).await;
            woken.inspect_err(|error| run.failed(error))?;
            due = self.ledger.next_due(now).await?;
        }
        let plans = self.plan_queue.start(tasks).await?;
        let hold = self.verifying.start(tasks).await?;
        let sweep = self.sweep.start(tasks);
        let prune = self.pruning.start(tasks);
        let asked = match &self.federation {
            Some(federation) => {
                federation.importer.react(tasks);
                let asked = federation.owner.ask_importers(tasks);
                federation.importer.hint_owners(tasks);
                asked
            }
            None => Duration::MAX,
        };
        self.retrying.runs_at(due.attempt);
        self.verifying.activity.runs_at(due.observation);
        // Work that was due when this round began waits until a task that is under way ends and wakes the loop, but at
        // most for the time `hold`. Work that has become due since then is left to the next round, which begins at
        // once.
        let until_due = [due.attempt, due.observation]
            .into_iter()
            .flatten()
            .filter(|due| *due > now)
            .map(|due| (due - self.clock.now()).to_std().unwrap_or_default())
            .min()
            .unwrap_or(PERIOD_MAX);
        let next = until_due.min(hold).min(sweep).min(prune);
        Ok(next.min(plans).min(asked))
    }

    fn ended(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            tracing::error!(%error, "a worker ended unexpectedly");
            self.journal.poison(format!(
                "a worker panicked: {error}; restart gone to continue: nothing is lost"
            ));
        }
    }
}

/// Locks a mutex, also after a panic: the panic of a worker poisons the whole engine ([`Journal::poison`]).
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of rows of a page, and of the resources or branches about which one query is answered.
const PAGE_MAX: usize = 500;
