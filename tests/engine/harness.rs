//! An engine, a ledger and a cloud in one process, with faults at the ports.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use gone::cloud::OpenStack;
use gone::cloud::openstack::config::{CloudsConfig, Environment};
use gone::cloud::openstack::{Transport, TransportError};
use gone::control::{Command, Control, Envelope, Page, Query, Receipt, TargetSpec};
use gone::domain::kinds::Kinds;
use gone::domain::model::{
    Actor, Deletion, DeletionState, Identity, Origin, Plan, PlanOptions, ResourceKey, Site, Step,
    StepState, Tombstone,
};
use gone::engine::{Engine, Parts};
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{
    Applied, AuditRow, Change, ClaimedStep, Cursor, DeletionFilter, Due, EventFilter, EventPage,
    Ledger, LedgerError, Paged, StepFilter, Summary, TombstoneFilter,
};
use gone::sandbox::{Fate, World, WorldOptions};
use gone::system::clock::Clock;
use gone::system::config::Settings;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// One practice cloud and one ledger that outlive engines.
pub struct Bench {
    pub world: Arc<Mutex<World>>,
    pub clock: Clock,
    pub settings: Settings,
    ledger: PathBuf,
    _folder: tempfile::TempDir,
    /// Which ledger writes and calls end the engine.
    pub crash: Arc<Crash>,
    pub lies: Lies,
}

/// Ends the engine at the k-th ledger write or the k-th call, as a crash would.
#[derive(Default)]
pub struct Crash {
    pub writes: AtomicU64,
    pub calls: AtomicU64,
    at_write: AtomicU64,
    at_call: AtomicU64,
    now: Notify,
}

impl Crash {
    pub fn at_write(&self, k: u64) {
        self.at_write
            .store(self.writes.load(Ordering::SeqCst) + k, Ordering::SeqCst);
    }
    pub fn at_call(&self, k: u64) {
        self.at_call
            .store(self.calls.load(Ordering::SeqCst) + k, Ordering::SeqCst);
    }
    pub fn never(&self) {
        self.at_write.store(0, Ordering::SeqCst);
        self.at_call.store(0, Ordering::SeqCst);
    }
    /// Counts; at the chosen one, the engine never hears of it.
    async fn passed(&self, counter: &AtomicU64, at: &AtomicU64) {
        let count = counter.fetch_add(1, Ordering::SeqCst) + 1;
        if count == at.load(Ordering::SeqCst) {
            self.now.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// Planted faults at the ledger's port: what tests must notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lies {
    #[default]
    None,
    /// Says that claims are durable, and forgets them at a crash.
    ForgetsOutcomes,
    /// Ignores the fence: a stale outcome is written with the fence of the row.
    IgnoresRights,
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.gc.jitter = 0.1;
        Self {
            world: Arc::new(Mutex::new(World::new(WorldOptions {
                seed,
                ..WorldOptions::default()
            }))),
            clock: Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap(), seed),
            settings,
            ledger: folder.path().join("ledger.db"),
            _folder: folder,
            crash: Arc::default(),
            lies: Lies::None,
        }
    }

    /// A call to the sandbox's control or, with a path of the cloud, as its admin.
    pub fn control(&self, method: &str, path: &str, body: Value) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://sandbox.invalid/sandbox/v1{path}"))
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let reply = self.world.lock().unwrap().handle(request, self.clock.now());
        let text = String::from_utf8_lossy(reply.response.body()).into_owned();
        assert!(
            reply.response.status().is_success(),
            "{method} {path}: {text}"
        );
        if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap()
        }
    }

    pub fn seed(&self, body: Value) -> Value {
        self.control("POST", "/seed", body)
    }

    pub fn faults(&self, rules: Value) {
        self.control("PUT", "/faults", rules);
    }

    pub fn limits(&self, body: Value) {
        self.control("PUT", "/limits", body);
    }

    /// Every API call so far: (method, path, status).
    pub fn calls(&self) -> Vec<(String, String, Option<u64>)> {
        let log = self.control("GET", "/calls?after=0", Value::Null);
        let calls = log["calls"].as_array().or_else(|| log.as_array()).unwrap();
        calls
            .iter()
            .map(|call| {
                (
                    call["method"].as_str().unwrap().to_owned(),
                    call["path"].as_str().unwrap().to_owned(),
                    call["status"].as_u64(),
                )
            })
            .collect()
    }

    /// Writes of the cloud (not of Keystone), in order.
    pub fn writes(&self) -> Vec<(String, String, Option<u64>)> {
        self.calls()
            .into_iter()
            .filter(|(method, path, _)| method != "GET" && !path.contains("/auth/tokens"))
            .collect()
    }

    /// As the admin sees the cloud's rows now, by a listing of its own.
    pub fn rows(&self, collection: &str) -> Vec<Value> {
        self.api("GET", &format!("/v2.0/{collection}"), Value::Null)
            .1[collection.replace('-', "_")]
        .as_array()
        .unwrap()
        .clone()
    }

    pub fn ids(&self, collection: &str) -> Vec<String> {
        let mut ids: Vec<String> = self
            .rows(collection)
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    }

    /// A call to Neutron as its admin, past all faults that name the engine's user agent.
    pub fn api(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let now = self.clock.now();
        let mut world = self.world.lock().unwrap();
        let login = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": { "name": "admin", "domain": { "id": "default" }, "password": "secret" } } },
            "scope": { "project": { "name": "admin", "domain": { "id": "default" } } } } });
        let request = http::Request::post("http://sandbox.invalid/v3/auth/tokens")
            .body(Bytes::from(login.to_string()))
            .unwrap();
        let reply = world.handle(request, now);
        let token = reply.response.headers()["x-subject-token"].clone();
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://sandbox.invalid/RegionOne/network{path}"))
            .header("x-auth-token", token)
            .body(if body.is_null() {
                Bytes::new()
            } else {
                Bytes::from(body.to_string())
            })
            .unwrap();
        let reply = world.handle(request, now);
        let body = serde_json::from_slice(reply.response.body()).unwrap_or(Value::Null);
        (reply.response.status().as_u16(), body)
    }

    /// Starts an engine on the ledger, runs `work` beside it, and ends it as a crash would. None if
    /// the planned crash came first.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(Client) -> T) -> Option<T> {
        let engine = self.engine();
        let client = Client {
            control: engine.control(),
        };
        tokio::select! {
            biased;
            () = self.crash.now.notified() => None,
            ended = engine.run() => panic!("the engine ended by itself: {ended:?}"),
            answer = work(client) => Some(answer),
        }
    }

    fn engine(&self) -> Engine {
        let store = Store::open(&self.ledger, Options::default()).unwrap();
        let ledger = InlineLedger::new(store);
        let epoch = ledger.epoch();
        Engine::new(Parts {
            ledger: Arc::new(Faulty {
                inner: ledger,
                crash: self.crash.clone(),
                lies: self.lies,
            }),
            cloud: Arc::new(self.cloud()),
            kinds: Arc::new(Kinds::load(&[]).unwrap()),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            ledger_name: "simulation".into(),
            epoch,
        })
    }

    fn cloud(&self) -> OpenStack {
        let variables = HashMap::from([
            ("OS_AUTH_URL", "http://sandbox.invalid/v3"),
            ("OS_USERNAME", "admin"),
            ("OS_PASSWORD", "secret"),
            ("OS_PROJECT_NAME", "admin"),
            ("OS_USER_DOMAIN_ID", "default"),
            ("OS_PROJECT_DOMAIN_ID", "default"),
            ("OS_REGION_NAME", "RegionOne"),
        ]);
        let environment = Environment {
            variables: variables
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            current_dir: self._folder.path().to_owned(),
            home: None,
            system_dir: self._folder.path().to_owned(),
        };
        let config = CloudsConfig::load(&environment).unwrap();
        let cloud = config.cloud("envvars", None).unwrap();
        let transport = InProcess {
            world: self.world.clone(),
            clock: self.clock.clone(),
            crash: self.crash.clone(),
        };
        let transport: Arc<dyn Transport> = Arc::new(transport);
        OpenStack::new(
            vec![(site(), cloud)],
            Box::new(move |_| Ok(transport.clone())),
            self.clock.clone(),
            self.settings.engine.call_timeout,
        )
    }

    /// The ledger as it is on the disk, while no engine runs.
    pub fn ledger(&self) -> InlineLedger {
        InlineLedger::new(Store::open(&self.ledger, Options::default()).unwrap())
    }
}

pub fn site() -> Site {
    Site::region("envvars", "RegionOne")
}

/// A front end of the running engine.
pub struct Client {
    pub control: Arc<dyn Control>,
}

pub fn cascade() -> PlanOptions {
    PlanOptions {
        cascade: true,
        ..PlanOptions::default()
    }
}

pub fn target(kind: &str, word: &str) -> TargetSpec {
    TargetSpec::parse(&format!("{kind}/{word}"), &["envvars"]).unwrap()
}

impl Client {
    pub async fn submit(&self, command: Command) -> Result<Receipt, gone::control::ControlError> {
        let actor = Actor {
            name: "tester".into(),
            origin: Origin::Cli,
        };
        self.control
            .submit(Envelope {
                command,
                actor,
                reason: String::new(),
                idempotency_key: None,
            })
            .await
    }

    pub async fn plan(&self, kind: &str, word: &str) -> Arc<Plan> {
        match self
            .submit(Command::Plan {
                targets: vec![target(kind, word)],
                options: cascade(),
            })
            .await
            .unwrap()
        {
            Receipt::Planned { plan } => plan,
            other => panic!("{other:?}"),
        }
    }

    pub async fn delete(&self, kind: &str, word: &str) -> String {
        self.delete_with(kind, word, cascade()).await
    }

    pub async fn delete_with(&self, kind: &str, word: &str, options: PlanOptions) -> String {
        match self
            .submit(Command::Delete {
                targets: vec![target(kind, word)],
                options,
            })
            .await
            .unwrap()
        {
            Receipt::Accepted { deletion_id, .. } => deletion_id,
            other => panic!("{other:?}"),
        }
    }

    pub async fn deletion(&self, id: &str) -> Deletion {
        match self
            .control
            .query(Query::Deletion { id: id.to_owned() })
            .await
            .unwrap()
        {
            Page::Deletion { row } => *row,
            other => panic!("{other:?}"),
        }
    }

    pub async fn steps(&self, id: &str) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut cursor = None;
        loop {
            let query = Query::Steps {
                deletion_id: Some(id.to_owned()),
                states: Vec::new(),
                site: None,
                kind: None,
                older_than: None,
                cursor,
                limit: 500,
            };
            match self.control.query(query).await.unwrap() {
                Page::Steps { rows, next } => {
                    steps.extend(rows);
                    cursor = next;
                }
                other => panic!("{other:?}"),
            }
            if cursor.is_none() {
                return steps;
            }
        }
    }

    /// Waits, on the paused clock, until the deletion fits.
    pub async fn until(&self, id: &str, fits: impl Fn(&Deletion) -> bool) -> Deletion {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30 * 24 * 60 * 60);
        loop {
            let deletion = self.deletion(id).await;
            if fits(&deletion) {
                return deletion;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "never: {deletion:#?}\n{:#?}",
                self.steps(id).await
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn settled(&self, id: &str) -> Deletion {
        self.until(id, |deletion| deletion.state.is_settled()).await
    }

    pub async fn gone(&self, id: &str) -> Deletion {
        let deletion = self.settled(id).await;
        assert_eq!(
            deletion.state,
            DeletionState::Gone,
            "{deletion:#?}\n{:#?}",
            self.steps(id).await
        );
        deletion
    }

    pub async fn step(&self, id: &str, kind: &str) -> Step {
        self.steps(id)
            .await
            .into_iter()
            .find(|step| step.resource.key.kind.as_str() == kind)
            .unwrap()
    }

    pub async fn until_step(&self, id: &str, kind: &str, state: StepState) -> Step {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30 * 24 * 60 * 60);
        loop {
            let steps = self.steps(id).await;
            if let Some(step) = steps
                .into_iter()
                .find(|step| step.resource.key.kind.as_str() == kind && step.state == state)
            {
                return step;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "no {kind} became {state:?}: {:#?}",
                self.steps(id).await
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The sandbox's core as a transport, on the paused clock.
struct InProcess {
    world: Arc<Mutex<World>>,
    clock: Clock,
    crash: Arc<Crash>,
}

#[async_trait]
impl Transport for InProcess {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let reply = self.world.lock().unwrap().handle(request, self.clock.now());
        self.crash
            .passed(&self.crash.calls, &self.crash.at_call)
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

/// The ledger with a crash and lies at its port.
struct Faulty {
    inner: InlineLedger,
    crash: Arc<Crash>,
    lies: Lies,
}

#[async_trait]
impl Ledger for Faulty {
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        let outcome = changes
            .iter()
            .any(|change| matches!(change, Change::Step(_)));
        let applied = if self.lies == Lies::ForgetsOutcomes && outcome {
            changes.iter().map(|_| Applied::Done).collect()
        } else {
            self.inner.commit(changes).await?
        };
        self.crash
            .passed(&self.crash.writes, &self.crash.at_write)
            .await;
        Ok(applied)
    }
    async fn claim(
        &self,
        limits: Vec<(Site, usize)>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        let claimed = self.inner.claim(limits, now).await?;
        if !claimed.is_empty() {
            self.crash
                .passed(&self.crash.writes, &self.crash.at_write)
                .await;
        }
        Ok(claimed)
    }
    async fn verifying(
        &self,
        now: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        self.inner.verifying(now, limit).await
    }
    async fn next_due(&self) -> Result<Due, LedgerError> {
        self.inner.next_due().await
    }
    async fn held_down(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Tombstone>, LedgerError> {
        self.inner.held_down(since, after_record, limit).await
    }
    async fn deletions(
        &self,
        filter: DeletionFilter,
        page: Cursor,
    ) -> Result<Paged<Deletion>, LedgerError> {
        self.inner.deletions(filter, page).await
    }
    async fn deletion(&self, id: &str) -> Result<Option<Deletion>, LedgerError> {
        self.inner.deletion(id).await
    }
    async fn frozen(&self, deletion_id: &str) -> Result<Option<Arc<Plan>>, LedgerError> {
        self.inner.frozen(deletion_id).await
    }
    async fn identities(
        &self,
        deletion_id: &str,
    ) -> Result<BTreeMap<String, Identity>, LedgerError> {
        if self.lies == Lies::IgnoresRights {
            return Ok(BTreeMap::new());
        }
        self.inner.identities(deletion_id).await
    }
    async fn steps(&self, filter: StepFilter, page: Cursor) -> Result<Paged<Step>, LedgerError> {
        self.inner.steps(filter, page).await
    }
    async fn step(&self, id: i64) -> Result<Option<Step>, LedgerError> {
        self.inner.step(id).await
    }
    async fn tombstones(
        &self,
        filter: TombstoneFilter,
        page: Cursor,
    ) -> Result<Paged<Tombstone>, LedgerError> {
        self.inner.tombstones(filter, page).await
    }
    async fn tombstones_of(&self, keys: Vec<ResourceKey>) -> Result<Vec<Tombstone>, LedgerError> {
        self.inner.tombstones_of(keys).await
    }
    async fn events(
        &self,
        after: i64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<EventPage, LedgerError> {
        self.inner.events(after, filter, limit).await
    }
    async fn audit(&self, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError> {
        self.inner.audit(after, limit).await
    }
    async fn plan(&self, hash: &str, now: DateTime<Utc>) -> Result<Option<Arc<Plan>>, LedgerError> {
        self.inner.plan(hash, now).await
    }
    async fn summary(&self) -> Result<Summary, LedgerError> {
        self.inner.summary().await
    }
}

/// Runs a test on a paused clock, in one thread.
pub fn paused<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}
