//! Several deployments in one process, each with its own ledger, kinds and clock, in paused time. Messages between
//! them may be lost, delayed, duplicated or stale, connections may be cut, and deployments may crash.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use gone::cloud::{Cloud, Registry};
use gone::control::{Command, Control, ControlError, DeploymentStatus, Envelope, Receipt, query};
use gone::domain::kinds::{Home, Kinds, Source};
use gone::domain::model::{Actor, Deletion, Origin};
use gone::domain::peers::{Answers, DeletionNotices, Deployment, Question, Watch};
use gone::engine::{Engine, EngineParts, Neighbours};
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::peers::{Peer, PeerFailure, Peers};
use gone::system::clock::Clock;
use gone::system::config::Settings;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client::Client;

const HEARTBEAT: Duration = Duration::from_secs(30);

/// Faults of messages. The first three are probabilities from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageFaults {
    /// The request or its answer is lost.
    pub lost: f64,
    /// A watch or a question is delivered twice.
    pub duplicated: f64,
    /// A question gets the answer to an earlier question.
    pub stale: f64,
    /// The longest delay of a request, and of an answer.
    pub delay_max: Duration,
}

/// The network between deployments.
pub struct Mesh {
    up: Mutex<BTreeMap<Peer, Arc<dyn Control>>>,
    cuts: Mutex<Vec<(Peer, Peer)>>,
    message_faults: Mutex<MessageFaults>,
    dice: Mutex<fastrand::Rng>,
    /// The last answers, by the deployment that asked and the one that answered.
    answered: Mutex<BTreeMap<(Peer, Peer), Answers>>,
    /// The number of questions so far.
    pub questions: Mutex<u64>,
    hints_lost: AtomicBool,
    /// Changes to the messages of deployments that are dishonest.
    pub forged: Mutex<ForgedMessages>,
}

/// Functions that forge the messages of a peer before they are delivered.
#[derive(Default)]
pub struct ForgedMessages {
    pub notices: Option<Forge<DeletionNotices>>,
    pub answers: Option<Forge<Answers>>,
}

type Forge<T> = Box<dyn Fn(&Peer, &mut T) + Send>;

impl Mesh {
    pub fn lose_hints(&self) {
        self.hints_lost.store(true, Ordering::Relaxed);
    }

    fn chance(&self, of: f64) -> bool {
        self.dice.lock().unwrap().f64() < of
    }

    fn message_faults(&self) -> MessageFaults {
        *self.message_faults.lock().unwrap()
    }

    async fn delay(&self) {
        let delay_max = self.message_faults().delay_max;
        if !delay_max.is_zero() {
            let part = self.dice.lock().unwrap().f64();
            tokio::time::sleep(delay_max.mul_f64(part)).await;
        }
    }

    fn reach(&self, from: &Peer, to: &Peer) -> Result<Arc<dyn Control>, PeerFailure> {
        let lost = || PeerFailure::new(format!("{to} does not answer"));
        let cut = |(a, b): &(Peer, Peer)| (a, b) == (from, to) || (b, a) == (from, to);
        if self.cuts.lock().unwrap().iter().any(cut) || self.chance(self.message_faults().lost) {
            return Err(lost());
        }
        self.up.lock().unwrap().get(to).cloned().ok_or_else(lost)
    }

    /// Delivers an answer after its delay, or loses it.
    async fn deliver_answer<T>(
        &self,
        to: &Peer,
        answer: Result<T, ControlError>,
    ) -> Result<T, PeerFailure> {
        self.delay().await;
        if self.chance(self.message_faults().lost) {
            return Err(PeerFailure::new(format!("the answer of {to} was lost")));
        }
        answer.map_err(|error| PeerFailure::new(error.to_string()))
    }
}

/// The peers of one deployment, which it reaches through the mesh.
struct InProcessPeers {
    own: Peer,
    known: Vec<Peer>,
    mesh: Arc<Mesh>,
}

fn envelope(command: Command) -> Envelope {
    Envelope {
        command,
        actor: Actor {
            name: "peer".into(),
            origin: Origin::Peer,
        },
        reason: String::new(),
        idempotency_key: None,
        deadline: None,
    }
}

#[async_trait]
impl Peers for InProcessPeers {
    fn known(&self) -> Vec<Peer> {
        self.known.clone()
    }

    async fn watch(&self, peer: &Peer, watch: Watch) -> Result<DeletionNotices, PeerFailure> {
        self.mesh.delay().await;
        let there = self.mesh.reach(&self.own, peer)?;
        let call = || {
            let watch = watch.clone();
            there.submit(envelope(Command::Watch { watch }))
        };
        let limit = Duration::from_millis(watch.wait_ms) + Duration::from_secs(10);
        if self.mesh.chance(self.mesh.message_faults().duplicated) {
            // The answer to the duplicate is dropped.
            let _ = tokio::time::timeout(Duration::from_secs(1), call()).await;
        }
        let answer = tokio::time::timeout(limit, call()).await;
        let answer = answer.map_err(|_| PeerFailure::new(format!("{peer} took too long")))?;
        match self.mesh.deliver_answer(peer, answer).await? {
            Receipt::Notices(mut notices) => {
                if let Some(forge) = &self.mesh.forged.lock().unwrap().notices {
                    forge(peer, &mut notices);
                }
                Ok(*notices)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn ask(&self, peer: &Peer, question: Question) -> Result<Answers, PeerFailure> {
        *self.mesh.questions.lock().unwrap() += 1;
        self.mesh.delay().await;
        let there = self.mesh.reach(&self.own, peer)?;
        let pair = (self.own.clone(), peer.clone());
        if self.mesh.chance(self.mesh.message_faults().stale)
            && let Some(stale) = self.mesh.answered.lock().unwrap().get(&pair)
        {
            return Ok(stale.clone());
        }
        let call = || {
            let question = question.clone();
            there.ask(query::ClearanceAnswers { question })
        };
        if self.mesh.chance(self.mesh.message_faults().duplicated) {
            let _ = call().await;
        }
        let answer = tokio::time::timeout(Duration::from_secs(10), call()).await;
        let answer = answer.map_err(|_| PeerFailure::new(format!("{peer} took too long")))?;
        let mut answers = self.mesh.deliver_answer(peer, answer).await?;
        if let Some(forge) = &self.mesh.forged.lock().unwrap().answers {
            forge(peer, &mut answers);
        }
        let mut answered = self.mesh.answered.lock().unwrap();
        answered.insert(pair, answers.clone());
        Ok(answers)
    }

    async fn hint(&self, peer: &Peer, from: Deployment) -> Result<(), PeerFailure> {
        if self.mesh.hints_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.mesh.delay().await;
        let there = self.mesh.reach(&self.own, peer)?;
        let answer = there.submit(envelope(Command::Hint { from })).await;
        self.mesh.deliver_answer(peer, answer).await.map(drop)
    }
}

/// A deployment, running or not.
struct Member {
    deployment: Deployment,
    kinds: Arc<Kinds>,
    ledger: PathBuf,
    clock: Clock,
    running: Option<Running>,
}

struct Running {
    control: Arc<dyn Control>,
    engine: JoinHandle<()>,
    /// Can be upgraded for as long as a task of the engine has a reference to the ledger.
    ledger: Weak<InlineLedger>,
}

pub struct Deployments {
    members: BTreeMap<String, Member>,
    pub mesh: Arc<Mesh>,
    pub settings: Settings,
    _folder: tempfile::TempDir,
}

impl Deployments {
    /// `services` are names with the text of their kinds. `deployments` are names, services and regions. Each
    /// deployment knows its own kinds, those of the services that it imports directly or indirectly, and no others
    /// (G8).
    pub fn new(seed: u64, services: &[(&str, &str)], deployments: &[(&str, &str, &str)]) -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let text_of = |service: &str| {
            let found = services.iter().find(|(name, _)| *name == service);
            found.unwrap().1
        };
        let imports_of = |service: &str| {
            let list = text_of(service).lines();
            let list = list.filter_map(|line| line.strip_prefix("imports = "));
            let list = list.map(|list| serde_json::from_str::<Vec<String>>(list).unwrap());
            list.flatten().collect::<Vec<String>>()
        };
        let kinds_of = |service: &str| {
            let mut wanted = vec![service.to_owned()];
            let mut at = 0;
            while let Some(service) = wanted.get(at).cloned() {
                at += 1;
                for imported in imports_of(&service) {
                    if !wanted.contains(&imported) {
                        wanted.push(imported);
                    }
                }
            }
            let sources = wanted.iter().map(|service| Source {
                file: format!("{service}.toml"),
                text: format!("service = \"{service}\"\n{}", text_of(service)),
            });
            gone::cloud::read_kinds(sources.collect::<Vec<_>>()).unwrap()
        };
        let start: DateTime<Utc> = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut dice = fastrand::Rng::with_seed(seed);
        let members = deployments.iter().map(|(name, service, region)| {
            let deployment = Deployment {
                name: (*name).to_owned(),
                service: (*service).to_owned(),
                region: (*region).to_owned(),
            };
            let home = Home {
                site: deployment.site(),
                service: (*service).to_owned(),
            };
            // The clock of each deployment is off by up to an hour.
            let apart = TimeDelta::seconds(dice.i64(-3600..3600));
            let member = Member {
                kinds: Arc::new(kinds_of(service).at_home(Some(home))),
                ledger: folder.path().join(format!("{name}.db")),
                clock: Clock::simulated(start + apart, dice.u64(..)),
                running: None,
                deployment,
            };
            ((*name).to_owned(), member)
        });
        let members = members.collect();
        let mut settings = Settings::default();
        settings.gc.jitter = 0.1;
        Self {
            members,
            mesh: Arc::new(Mesh {
                up: Mutex::default(),
                cuts: Mutex::default(),
                message_faults: Mutex::default(),
                dice: Mutex::new(dice),
                answered: Mutex::default(),
                questions: Mutex::default(),
                hints_lost: AtomicBool::new(false),
                forged: Mutex::default(),
            }),
            settings,
            _folder: folder,
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    pub fn start_all(&mut self) {
        for name in self.names() {
            self.start(&name);
        }
    }

    pub fn start(&mut self, name: &str) {
        let known = self.members.values();
        let known: Vec<Peer> = known.map(|it| Peer::from(&it.deployment)).collect();
        let member = self.members.get_mut(name).unwrap();
        let own = Peer::from(&member.deployment);
        let known = known.into_iter().filter(|peer| *peer != own).collect();
        let ledger = InlineLedger::new(Store::open(&member.ledger, Options::default()).unwrap());
        let epoch = ledger.epoch();
        let ledger = Arc::new(ledger);
        let weak = Arc::downgrade(&ledger);
        let site = member.deployment.site();
        let registry = Registry::new(
            site,
            member.kinds.clone(),
            ledger.clone(),
            member.clock.clone(),
        );
        let cloud: Arc<dyn Cloud> = Arc::new(registry);
        let engine = Engine::new(EngineParts {
            neighbours: Some(Neighbours {
                home: member.deployment.clone(),
                peers: Arc::new(InProcessPeers {
                    own: own.clone(),
                    known,
                    mesh: self.mesh.clone(),
                }),
                heartbeat: HEARTBEAT,
            }),
            tombstones: None,
            gates: Arc::default(),
            ledger,
            cloud,
            kinds: member.kinds.clone(),
            clock: member.clock.clone(),
            settings: self.settings.clone(),
            ledger_name: "simulation".into(),
            epoch,
        });
        let control = engine.control();
        self.mesh.up.lock().unwrap().insert(own, control.clone());
        let run = tokio::spawn(async move {
            engine.run().await.unwrap();
        });
        member.running = Some(Running {
            control,
            engine: run,
            ledger: weak,
        });
    }

    /// Ends an engine as a crash would. Waits until its ledger is closed.
    pub async fn kill(&mut self, name: &str) {
        let member = self.members.get_mut(name).unwrap();
        let own = Peer::from(&member.deployment);
        self.mesh.up.lock().unwrap().remove(&own);
        let Some(Running {
            control,
            engine,
            ledger,
        }) = member.running.take()
        else {
            return;
        };
        engine.abort();
        let _ = engine.await;
        drop(control);
        // Calls of peers to this engine keep its ledger open until they time out.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        while ledger.strong_count() > 0 {
            assert!(
                tokio::time::Instant::now() < deadline,
                "tasks of {name} still use its ledger"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub fn set_message_faults(&self, message_faults: MessageFaults) {
        *self.mesh.message_faults.lock().unwrap() = message_faults;
    }

    pub fn cut(&self, a: &str, b: &str) {
        let peer = |name: &str| Peer::from(&self.members[name].deployment);
        self.cuts().push((peer(a), peer(b)));
    }

    pub fn repair_cuts(&self) {
        self.cuts().clear();
    }

    fn cuts(&self) -> MutexGuard<'_, Vec<(Peer, Peer)>> {
        self.mesh.cuts.lock().unwrap()
    }

    pub fn is_up(&self, name: &str) -> bool {
        self.members[name].running.is_some()
    }

    pub fn at(&self, name: &str) -> Client {
        let running = self.members[name].running.as_ref();
        Client {
            control: running.expect("the deployment is down").control.clone(),
        }
    }

    pub async fn try_create(
        &self,
        name: &str,
        kind: &str,
        body: Value,
    ) -> Result<(), ControlError> {
        self.at(name).try_create(kind, body).await.map(drop)
    }

    /// Creates a resource. Repeats the request for up to ten minutes while the watches of the deployment are not fresh.
    pub async fn create(&self, name: &str, kind: &str, body: Value) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
        loop {
            match self.try_create(name, kind, body.clone()).await {
                Ok(()) => return,
                Err(error @ ControlError::Unreachable { .. }) => {
                    assert!(tokio::time::Instant::now() < deadline, "{error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{name} {kind} {body}: {error}"),
            }
        }
    }

    /// Returns the rows of a native kind of a deployment.
    pub async fn native_rows(&self, name: &str, kind: &str) -> Vec<Value> {
        self.at(name).native_rows(kind).await
    }

    pub async fn exists(&self, name: &str, kind: &str, id: &str) -> bool {
        let rows = self.native_rows(name, kind).await;
        rows.iter().any(|row| row["id"] == json!(id))
    }

    pub async fn delete(&self, name: &str, kind: &str, id: &str) -> String {
        self.at(name).delete(kind, id).await
    }

    pub async fn statuses(&self, name: &str) -> Vec<DeploymentStatus> {
        let control = self.at(name).control;
        control.ask(query::Deployments {}).await.unwrap()
    }

    pub async fn deletion(&self, name: &str, id: &str) -> Deletion {
        self.at(name).deletion(id).await
    }
}
