//! The past of a practice scenario.
//!
//! An engine runs the deletions of the past on the practice cloud, and writes them to the ledger that the next
//! engine takes over. So the ledger and the cloud agree: the cause of each stuck or blocked step of the ledger
//! exists in the cloud, and a resource that is gone in the ledger does not exist in the cloud.
//!
//! Only time is simulated. The past has a runtime of its own, whose clock begins at the first deletion and ends now,
//! and is put forward whenever all tasks wait (tokio's paused clock). While no attempt is due, no engine runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::ledger::file_of;
use crate::cloud::openstack::{CloudConfig, Transport, TransportError};
use crate::cloud::{Cloud, OpenStack};
use crate::control::{Command, Envelope, NamedOptions, SiteSpec, TargetSpec};
use crate::domain::kinds::Kinds;
use crate::domain::model::{Actor, DeletionState, Origin, PlanOptions, Site};
use crate::engine::{Engine, EngineParts};
use crate::frontends::cli::Failure;
use crate::ledger::sqlite::{InlineLedger, Options, Store};
use crate::ledger::{LedgerError, Location, Views as _, WorkQueue as _};
use crate::sandbox::{Fate, PastDeletion, World};
use crate::system::clock::Clock;
use crate::system::config::Settings;

/// How often, in simulated time, the ledger is read to find whether the engine has work left.
const CHECK_EVERY: TimeDelta = TimeDelta::seconds(1);
/// The seed of the jitter, so that each start has the same past.
const SEED: u64 = 1;
const TRIED: &str = "play the past of the scenario";
const ADVICE: &str = "Correct the [[past]] of the scenario.";

/// The deletions of a past, and the practice cloud and the ledger on which they are played.
pub(super) struct Past {
    /// The deletions, each with its site.
    pub(super) deletions: Vec<(Site, PastDeletion)>,
    pub(super) clouds: Vec<(Site, CloudConfig)>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) world: Arc<Mutex<World>>,
    /// The ledger, which does not exist yet.
    pub(super) ledger: Location,
    pub(super) now: DateTime<Utc>,
}

impl Past {
    /// Plays the past, on a thread that may block.
    ///
    /// # Errors
    /// A deletion of the past is not accepted, or the ledger cannot be written.
    pub(super) fn play(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        runtime.block_on(self.live())
    }

    async fn live(mut self) -> Result<(), Failure> {
        let ago = |deletion: &PastDeletion| TimeDelta::minutes(deletion.minutes_ago.into());
        self.deletions
            .sort_by_key(|(_, deletion)| std::cmp::Reverse(deletion.minutes_ago));
        let times = self.deletions.iter().map(|(_, it)| self.now - ago(it));
        let times: Vec<DateTime<Utc>> = times.chain([self.now]).collect();
        let life = Life::beginning(&self, times[0])?;
        for (deletion, next) in self.deletions.iter().zip(&times[1..]) {
            life.work(Some(deletion), *next).await?;
            life.pass(*next).await?;
        }
        lock(&self.world).clear_log();
        Ok(())
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The practice cloud and the ledger while the past is played.
struct Life {
    clock: Clock,
    ledger: Arc<InlineLedger>,
    ledger_name: String,
    cloud: Arc<dyn Cloud>,
    kinds: Arc<Kinds>,
}

impl Life {
    fn beginning(past: &Past, at: DateTime<Utc>) -> Result<Self, Failure> {
        let clock = Clock::simulated(at, SEED);
        let advice = "Leave --ledger out, or name a file.";
        let path = file_of(&past.ledger, "play the past of the practice cloud", advice)?;
        let store = Store::open(path, Options::default())?;
        let transport: Arc<dyn Transport> = Arc::new(InProcess {
            world: past.world.clone(),
            clock: clock.clone(),
        });
        let cloud = OpenStack::new(
            past.clouds.clone(),
            Box::new(move |_| Ok(transport.clone())),
            clock.clone(),
            Settings::default().engine.call_timeout,
        );
        Ok(Self {
            clock,
            ledger: Arc::new(InlineLedger::new(store)),
            ledger_name: past.ledger.to_string(),
            cloud: Arc::new(cloud),
            kinds: past.kinds.clone(),
        })
    }

    /// Lets time pass until `until`. An engine runs whenever an attempt is due.
    async fn pass(&self, until: DateTime<Utc>) -> Result<(), Failure> {
        loop {
            let now = self.clock.now();
            if now >= until {
                return Ok(());
            }
            let due = self.ledger.next_due(now).await?.attempt;
            let next = due.map_or(until, |due| due.min(until));
            tokio::time::sleep((next - now).to_std().unwrap_or_default()).await;
            self.work(None, until).await?;
        }
    }

    /// Runs an engine until it has nothing left to do for now, at most until `until`. First asks it for a deletion,
    /// if one is given.
    async fn work(
        &self,
        asked: Option<&(Site, PastDeletion)>,
        until: DateTime<Utc>,
    ) -> Result<(), Failure> {
        let engine = Engine::new(EngineParts {
            ledger: self.ledger.clone(),
            cloud: self.cloud.clone(),
            kinds: self.kinds.clone(),
            clock: self.clock.clone(),
            settings: Settings::default(),
            tombstones: None,
            gates: Arc::default(),
            neighbours: None,
            ledger_name: self.ledger_name.clone(),
            epoch: self.ledger.epoch(),
        });
        let work = async {
            if let Some((site, deletion)) = asked {
                let submitted = engine.control().submit(envelope(site, deletion)).await;
                submitted.map_err(|error| {
                    let why = format!("{}/{}: {error}", deletion.kind, deletion.name);
                    Failure::usage(TRIED, why, ADVICE)
                })?;
            }
            self.rest(until).await.map_err(Failure::from)
        };
        tokio::select! {
            biased;
            ended = engine.run() => {
                ended?;
                Err(Failure::usage(TRIED, "the engine ended", ADVICE))
            }
            worked = work => worked,
        }
    }

    /// Waits until no deletion is being planned and no step moves, or until `until`.
    async fn rest(&self, until: DateTime<Utc>) -> Result<(), LedgerError> {
        loop {
            let left = until - self.clock.now();
            let wait = left.min(CHECK_EVERY).to_std().unwrap_or_default();
            tokio::time::sleep(wait).await;
            let summary = self.ledger.summary().await?;
            let steps = summary.steps;
            let mut states = summary.deletions_by_state.iter();
            let plans = states.any(|(state, n)| *state == DeletionState::Planning && *n > 0);
            let moves = plans || steps.ready + steps.running + steps.verifying > 0;
            if left <= CHECK_EVERY || !moves {
                return Ok(());
            }
        }
    }
}

fn envelope(site: &Site, deletion: &PastDeletion) -> Envelope {
    let target = TargetSpec {
        kind: deletion.kind.clone(),
        id_or_name: deletion.name.clone(),
        site: SiteSpec::Region(site.clone()),
    };
    let command = Command::Delete {
        targets: vec![target],
        options: PlanOptions::cascading(),
        named: NamedOptions::default(),
    };
    Envelope {
        reason: deletion.reason.clone(),
        ..Envelope::new(command, Actor::new(&deletion.by, Origin::Cli))
    }
}

/// The transport to a practice cloud in this process, without a connection.
struct InProcess {
    world: Arc<Mutex<World>>,
    clock: Clock,
}

#[async_trait]
impl Transport for InProcess {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let reply = lock(&self.world).handle(request, self.clock.now());
        let answered = match reply.fate {
            Fate::Hang => Duration::MAX,
            Fate::Answer | Fate::DropWithoutAnswer => reply.delay,
        };
        tokio::time::sleep(answered.min(deadline)).await;
        if answered >= deadline {
            return Err(TransportError::TimedOut { deadline });
        }
        match reply.fate {
            Fate::Answer => Ok(reply.response),
            Fate::DropWithoutAnswer | Fate::Hang => Err(TransportError::Lost {
                reason: "closed without an answer".into(),
            }),
        }
    }
}
