//! The deployments of a practice scenario: engines beside the console's own engine, each with its ledger and
//! its socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::ledger::open_anew;
use super::peers::ScenePart;
use crate::cloud::Registry;
use crate::control::{Command, Control, ControlError, Envelope, Receipt, query};
use crate::domain::kinds::{Home, Source};
use crate::domain::model::{Actor, Origin};
use crate::domain::peers::{Answers, DeletionNotices, Deployment, Question, Watch};
use crate::engine::{Engine, EngineParts, Neighbours};
use crate::frontends::api::{self, ApiHandle};
use crate::frontends::cli::Failure;
use crate::ledger::{Hold, LedgerError, Location};
use crate::peers::{Peer, PeerFailure, Peers};
use crate::sandbox::{Scenario, SceneDeployment, SceneResource};
use crate::system::clock::Clock;
use crate::system::config::{DeploymentSettings, Settings};

/// The heartbeat is short, since users of the practice scenario wait for changes that only a poll finds.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long creating a resource is retried: it may refer to a resource of a deployment whose watch has not begun yet.
const CREATE_WITHIN: Duration = Duration::from_secs(10);
const RETRY_EVERY: Duration = Duration::from_millis(20);
const TRIED: &str = "start the deployments of the scenario";

/// The deployments of a scenario.
pub(super) struct Scene {
    own: Deployment,
    others: Vec<Deployment>,
    /// The kinds of each service.
    kinds: BTreeMap<String, Source>,
    resources: Vec<SceneResource>,
    neighbourhood: Arc<Neighbourhood>,
}

impl Scene {
    /// None for a scenario without deployments.
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        let mut deployments = scenario.deployments.iter().map(deployment);
        let own = deployments.next()?;
        let kinds = scenario.services.iter().map(|service| {
            let source = Source {
                file: format!("{}.toml", service.name),
                text: service.kinds.clone(),
            };
            (service.name.clone(), source)
        });
        Some(Self {
            own,
            others: deployments.collect(),
            kinds: kinds.collect(),
            resources: scenario.resources.clone(),
            neighbourhood: Arc::default(),
        })
    }

    pub(super) fn own_part(&self) -> Result<ScenePart, Failure> {
        let settings = DeploymentSettings::alone(&self.own);
        let kinds = self.known_to(&self.own.service)?;
        Ok((settings, kinds, self.neighbours_of(&self.own)))
    }

    fn all(&self) -> impl Iterator<Item = &Deployment> {
        std::iter::once(&self.own).chain(&self.others)
    }

    fn neighbours_of(&self, home: &Deployment) -> Neighbours {
        let others = self.all().filter(|other| *other != home).map(Peer::from);
        Neighbours {
            home: home.clone(),
            peers: Arc::new(InProcessPeers {
                known: others.collect(),
                neighbourhood: self.neighbourhood.clone(),
            }),
            heartbeat: HEARTBEAT,
        }
    }

    /// Returns a service's own kinds and the kinds that they import, directly or indirectly. A deployment
    /// does not know the rest of the other deployments' kinds (G8).
    fn known_to(&self, service: &str) -> Result<Vec<Source>, Failure> {
        let all = crate::cloud::read_kinds(self.kinds.values().cloned()).map_err(wrong)?;
        let mut wanted = vec![service.to_owned()];
        let mut at = 0;
        while let Some(service) = wanted.get(at).cloned() {
            at += 1;
            for imported in all.native_of(&service).flat_map(|kind| &kind.imports) {
                if !wanted.contains(imported) {
                    wanted.push(imported.clone());
                }
            }
        }
        let sources = wanted.iter().filter_map(|service| self.kinds.get(service));
        Ok(sources.cloned().collect())
    }

    /// Starts the other deployments, and creates each of the scenario's resources at its deployment.
    pub(super) async fn play(
        self,
        own: &Arc<dyn Control>,
        state: &Path,
    ) -> Result<Vec<SideEngine>, Failure> {
        self.neighbourhood.join(&self.own, own.clone());
        let mut beside = Vec::new();
        for other in &self.others {
            let kinds = self.known_to(&other.service)?;
            let neighbours = self.neighbours_of(other);
            let started = SideEngine::start(other, kinds, neighbours, state).await?;
            self.neighbourhood.join(other, started.control.clone());
            beside.push(started);
        }
        for resource in &self.resources {
            self.create(resource).await?;
        }
        Ok(beside)
    }

    async fn create(&self, resource: &SceneResource) -> Result<(), Failure> {
        let at = self.all().find(|it| it.name == resource.at);
        let Some(control) = at.and_then(|at| self.neighbourhood.at(&Peer::from(at))) else {
            let why = format!("there is no deployment {}", resource.at);
            let advice = "Name a deployment of the scenario.";
            return Err(Failure::usage(TRIED, why, advice));
        };
        let deadline = tokio::time::Instant::now() + CREATE_WITHIN;
        loop {
            let create = Command::Create {
                kind: resource.kind.clone(),
                body: resource.body.clone(),
            };
            match control.submit(envelope(create, "the scenario")).await {
                Ok(_) => return Ok(()),
                Err(ControlError::Unreachable { .. }) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                Err(error) => {
                    let why = format!(
                        "a resource of the kind {} was not created at {}: {error}",
                        resource.kind, resource.at
                    );
                    return Err(Failure::usage(TRIED, why, "Correct the scenario."));
                }
            }
        }
    }
}

fn deployment(of: &SceneDeployment) -> Deployment {
    Deployment {
        name: of.name.clone(),
        service: of.service.clone(),
        region: of.region.clone(),
    }
}

fn wrong(error: crate::domain::kinds::KindsError) -> Failure {
    Failure::usage(TRIED, error.to_string(), "Correct the scenario's kinds.")
}

fn envelope(command: Command, who: &str) -> Envelope {
    Envelope::new(command, Actor::new(who, Origin::Peer))
}

/// An engine of the scenario that has no console. Other processes reach it at its socket.
pub(super) struct SideEngine {
    control: Arc<dyn Control>,
    hold: Arc<dyn Hold>,
    engine: JoinHandle<Result<(), LedgerError>>,
    api: ApiHandle,
}

impl SideEngine {
    async fn start(
        home: &Deployment,
        kinds: Vec<Source>,
        neighbours: Neighbours,
        state: &Path,
    ) -> Result<Self, Failure> {
        let clock = Clock::system();
        let place = |ending: &str| -> PathBuf { state.join(format!("{}.{ending}", home.name)) };
        let kinds = crate::cloud::read_kinds(kinds).map_err(wrong)?;
        let kinds = Arc::new(kinds.at_home(Some(Home {
            site: home.site(),
            service: home.service.clone(),
        })));
        let opened = open_anew(Location::File(place("db"))).await?;
        let (site, ledger) = (home.site(), opened.ledger);
        let registry = Registry::new(site, kinds.clone(), ledger.clone(), clock.clone());
        let engine = Engine::new(EngineParts {
            neighbours: Some(neighbours),
            ledger,
            cloud: Arc::new(registry),
            kinds,
            clock: clock.clone(),
            settings: Settings::default(),
            tombstones: None,
            gates: Arc::default(),
            ledger_name: place("db").display().to_string(),
            epoch: opened.epoch,
        });
        let control = engine.control();
        let options = api::ServeOptions {
            clock,
            ..api::ServeOptions::new(place("sock"))
        };
        let api = api::serve(control.clone(), options).await;
        let api = api.map_err(Failure::usage_of(TRIED, ""))?;
        opened.hold.announce(place("sock").to_str())?;
        let engine = tokio::spawn(async move { engine.run().await });
        Ok(Self {
            control,
            hold: opened.hold,
            engine,
            api,
        })
    }

    pub(super) async fn stop(self) {
        self.api.stop().await;
        self.engine.abort();
        // The task was aborted, so its result says nothing.
        let _ = self.engine.await;
        self.hold.release().await;
    }
}

/// Engines of one process, which call each other without a network.
#[derive(Default)]
struct Neighbourhood {
    at: Mutex<BTreeMap<Peer, Arc<dyn Control>>>,
}

impl Neighbourhood {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Peer, Arc<dyn Control>>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, deployment: &Deployment, control: Arc<dyn Control>) {
        self.lock().insert(Peer::from(deployment), control);
    }

    fn at(&self, peer: &Peer) -> Option<Arc<dyn Control>> {
        self.lock().get(peer).cloned()
    }

    fn reach(&self, peer: &Peer) -> Result<Arc<dyn Control>, PeerFailure> {
        let found = self.at(peer);
        found.ok_or_else(|| PeerFailure::new(format!("{peer} has not started yet")))
    }
}

/// The client with which one deployment calls the others.
struct InProcessPeers {
    known: Vec<Peer>,
    neighbourhood: Arc<Neighbourhood>,
}

fn failed(error: ControlError) -> PeerFailure {
    PeerFailure::new(error.to_string())
}

#[async_trait]
impl Peers for InProcessPeers {
    fn known(&self) -> Vec<Peer> {
        self.known.clone()
    }

    async fn watch(&self, peer: &Peer, watch: Watch) -> Result<DeletionNotices, PeerFailure> {
        let receipt = self.submit(peer, Command::Watch { watch }).await;
        receipt.and_then(|it| it.into_notices().map_err(failed))
    }

    async fn ask(&self, peer: &Peer, question: Question) -> Result<Answers, PeerFailure> {
        let there = self.neighbourhood.reach(peer)?;
        let answers = there.ask(query::ClearanceAnswers { question }).await;
        answers.map_err(failed)
    }

    async fn hint(&self, peer: &Peer, from: Deployment) -> Result<(), PeerFailure> {
        let receipt = self.submit(peer, Command::Hint { from }).await;
        receipt.map(drop)
    }
}

impl InProcessPeers {
    async fn submit(&self, peer: &Peer, command: Command) -> Result<Receipt, PeerFailure> {
        let there = self.neighbourhood.reach(peer)?;
        let command = envelope(command, "a deployment");
        there.submit(command).await.map_err(failed)
    }
}
