//! An engine, a ledger and a cloud in one process, on a paused clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gone::cloud::openstack::Transport;
use gone::cloud::openstack::config::{CloudsConfig, Environment};
use gone::cloud::{Cloud, CloudRouter, OpenStack, Registry};
use gone::domain::kinds::{Home, Kinds, Source};
use gone::domain::model::{Deletion, Site, Tombstone};
use gone::domain::peers::{Answers, DeletionNotices, Deployment, Question, Watch};
use gone::engine::{Engine, EngineParts, Neighbours};
use gone::ledger::sqlite::rewind::Rewind;
use gone::ledger::tombstones::Tombstones;
use gone::ledger::{Cursor, DeletionFilter, Ledger, TombstoneFilter};
use gone::peers::{Peer, PeerFailure, Peers};
use gone::sandbox::{CREDENTIAL_ID, CREDENTIAL_SECRET, World, WorldOptions};
use gone::system::clock::Clock;
use gone::system::config::Settings;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

pub use super::client::{Client, cascade, target};
use super::ledger_storage::LedgerStorage;
pub use super::ports::{Crash, CrashPoint, PlantedFault, RateLimit, SentRequest, is_cinder_path};
use super::ports::{FaultyCloud, FaultyLedger, InProcessTransport};

/// The collections of Neutron, Octavia and Glance whose rows tests compare. Segments are left out, because every
/// network has one as a part of itself.
pub const COLLECTIONS: [&str; 23] = [
    "networks",
    "subnets",
    "ports",
    "routers",
    "floatingips",
    "trunks",
    "security-groups",
    "security-group-rules",
    "address-scopes",
    "subnetpools",
    "address-groups",
    "rbac-policies",
    "qos/policies",
    "local_ips",
    "ndp_proxies",
    "metering/metering-labels",
    "metering/metering-label-rules",
    "loadbalancers",
    "listeners",
    "pools",
    "healthmonitors",
    "l7policies",
    "images",
];

/// Returns the path of a collection below the endpoint of its service.
pub fn path_of(collection: &str) -> String {
    match collection {
        "loadbalancers" | "listeners" | "pools" | "healthmonitors" | "l7policies" => {
            format!("{BALANCERS}/{collection}")
        }
        "images" => format!("/v2/{collection}"),
        _ => format!("/v2.0/{collection}"),
    }
}

const BALANCERS: &str = "/v2.0/lbaas";

/// The built-in kinds, read once for all engines of a test process.
pub static KINDS: LazyLock<Arc<Kinds>> =
    LazyLock::new(|| Arc::new(gone::cloud::load_kinds(&[]).unwrap()));

/// The login of the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// The admin, in the project `admin`.
    Admin,
    /// The admin, with a system scope and no project.
    System,
    /// The admin, without a scope.
    Unscoped,
    /// The member, in the project `demo`.
    Member,
    /// The practice cloud's application credential, in the project `admin`.
    Credential,
}

/// One practice cloud and one ledger that outlive engines.
pub struct Bench {
    pub world: Arc<Mutex<World>>,
    pub clock: Clock,
    pub settings: Settings,
    /// The kinds of the clouds, and those that [`Bench::register_service`] adds.
    pub kinds: Arc<Kinds>,
    /// The clouds of other providers, which engines have besides the practice cloud.
    pub others: Vec<Arc<dyn Cloud>>,
    regions: Vec<&'static str>,
    pub storage: LedgerStorage,
    _folder: tempfile::TempDir,
    /// The ledger write or call at which the engine is ended.
    pub crash: Arc<Crash>,
    pub planted_fault: PlantedFault,
    /// The login of the engines that start from now on.
    pub login: Login,
    /// Whether an engine serves only one command, and signs in only to the sites that the command names.
    pub for_one_verb: bool,
    sent: Arc<Mutex<Vec<SentRequest>>>,
    /// The rate limit of a proxy in front of the cloud, if there is one.
    pub rate_limit: Arc<Mutex<Option<RateLimit>>>,
    /// The token of each user, for the calls that a test makes beside the engine.
    tokens: Mutex<HashMap<String, HeaderValue>>,
}

/// The ids of the resources that [`Bench::shop`] creates: a network behind a router with a route, a floating IP, and a
/// trunk whose subports are on two other networks.
pub struct Shop {
    pub network: String,
    pub subnet: String,
    pub router: String,
    pub trunk: String,
    pub floating_ip: String,
    pub others: Vec<String>,
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        Self::in_regions(seed, &["RegionOne"])
    }

    pub fn in_regions(seed: u64, regions: &[&'static str]) -> Self {
        let world = WorldOptions {
            seed,
            ..WorldOptions::default()
        };
        Self::in_world(world, regions)
    }

    pub fn in_world(world: WorldOptions, regions: &[&'static str]) -> Self {
        let seed = world.seed;
        // If the machine has `/dev/shm`, the folder is in memory: these tests need no durability, which the tests of
        // the ledger prove.
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let mut settings = Settings::default();
        settings.gc.jitter = 0.1;
        Self {
            world: Arc::new(Mutex::new(World::new(WorldOptions {
                regions: regions.iter().map(|&region| region.to_owned()).collect(),
                ..world
            }))),
            clock: Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap(), seed),
            settings,
            kinds: KINDS.clone(),
            others: Vec::new(),
            regions: regions.to_vec(),
            storage: LedgerStorage::File(folder.path().join("ledger.db")),
            _folder: folder,
            crash: Arc::default(),
            planted_fault: PlantedFault::None,
            login: Login::Admin,
            for_one_verb: false,
            sent: Arc::default(),
            rate_limit: Arc::default(),
            tokens: Mutex::default(),
        }
    }

    /// Makes the engines those of a deployment `home`, which offers this service. The text defines its kinds.
    pub fn register_service(&mut self, service: &str, kinds: &str) {
        let source = Source {
            file: format!("{service}.toml"),
            text: kinds.to_owned(),
        };
        let home = Home {
            site: home(),
            service: service.to_owned(),
        };
        self.kinds = Arc::new(
            gone::cloud::load_kinds(&[source])
                .unwrap()
                .at_home(Some(home)),
        );
    }

    /// Makes engines send one call after the other, so that a test knows which call comes next.
    pub fn send_one_at_a_time(&mut self) {
        self.settings.engine.concurrency = 1;
        self.settings.engine.concurrency_max = 1;
    }

    /// Makes a call to the control API of the sandbox, which must succeed.
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

    /// Sets the access rules of the tokens that the application credential gets from now on.
    pub fn access_rules(&self, rules: Value) {
        self.control("PUT", "/credential", json!({ "access_rules": rules }));
    }

    /// Returns every request of the engines so far.
    pub fn sent(&self) -> Vec<SentRequest> {
        self.sent.lock().unwrap().clone()
    }

    /// Returns every request of the engines so far that would change something in the cloud, in order.
    pub fn writes(&self) -> Vec<SentRequest> {
        let sent = self.sent();
        sent.into_iter().filter(SentRequest::is_write).collect()
    }

    /// Returns the engines' writes whose path or body contains this text.
    pub fn writes_to(&self, text: &str) -> Vec<SentRequest> {
        let mut writes = self.writes();
        writes.retain(|sent| sent.path.contains(text) || sent.body.contains(text));
        writes
    }

    /// Returns the statuses of the engines' writes whose path or body contains this text.
    pub fn answers_to(&self, text: &str) -> Vec<Option<u16>> {
        let writes = self.writes_to(text).into_iter();
        writes.map(|sent| sent.status).collect()
    }

    /// Lists the rows of a collection in `RegionOne` as the admin, beside the engine.
    pub fn rows(&self, collection: &str) -> Vec<Value> {
        self.rows_at("RegionOne", collection)
    }

    pub fn rows_at(&self, region: &str, collection: &str) -> Vec<Value> {
        let (_, answer) = self.api_at(region, "GET", &path_of(collection), Value::Null);
        let rows = collection.rsplit('/').next().unwrap().replace('-', "_");
        answer[rows].as_array().unwrap().clone()
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

    /// Makes a call in `RegionOne` as the admin, beside the engine, to the service of the path. Faults hit it too.
    /// Returns the status and the body.
    pub fn api(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.api_as("admin", method, path, body)
    }

    /// Makes a call like [`Bench::api`], in this region.
    pub fn api_at(&self, region: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call((region, "admin"), method, path, body)
    }

    /// Makes a call like [`Bench::api`], as this user, in the project that has the user's name.
    pub fn api_as(&self, user: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call(("RegionOne", user), method, path, body)
    }

    fn call(
        &self,
        (region, user): (&str, &str),
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let service = match path {
            path if path.starts_with(BALANCERS) => "load-balancer",
            path if path.starts_with("/v2.0") => "network",
            path if path.starts_with("/v2.1") => "compute",
            path if is_cinder_path(path) => "volumev3",
            _ => "image",
        };
        let at = match path.starts_with("/v3") && !is_cinder_path(path) {
            true => String::new(),
            false => format!("/{region}/{service}"),
        };
        let mut tokens = self.tokens.lock().unwrap();
        let is_kept = tokens.contains_key(user);
        let token = tokens
            .entry(user.to_owned())
            .or_insert_with(|| self.sign_in(user));
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("http://sandbox.invalid{at}{path}"))
            .header("x-auth-token", token.clone())
            .body(match body.is_null() {
                true => Bytes::new(),
                false => Bytes::from(body.to_string()),
            })
            .unwrap();
        let now = self.clock.now();
        let send = |request| self.world.lock().unwrap().handle(request, now).response;
        let mut answer = send(request.clone());
        if is_kept && answer.status() == StatusCode::UNAUTHORIZED {
            *token = self.sign_in(user);
            request.headers_mut().insert("x-auth-token", token.clone());
            answer = send(request);
        }
        let body = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
        (answer.status().as_u16(), body)
    }

    /// Gets a new token of a user in the project of the same name.
    fn sign_in(&self, user: &str) -> HeaderValue {
        let login = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": { "name": user, "domain": { "id": "default" }, "password": "secret" } } },
            "scope": { "project": { "name": user, "domain": { "id": "default" } } } } });
        let request = http::Request::post("http://sandbox.invalid/v3/auth/tokens")
            .body(Bytes::from(login.to_string()))
            .unwrap();
        let now = self.clock.now();
        let reply = self.world.lock().unwrap().handle(request, now);
        reply.response.headers()["x-subject-token"].clone()
    }

    /// Creates a resource as the admin. Returns its id. A new load balancer is pending for a second.
    pub fn create(&self, collection: &str, fields: Value) -> String {
        let item = collection.rsplit('/').next().unwrap();
        let item = item.trim_end_matches('s').replace('-', "_");
        let body = json!({ (item.as_str()): fields });
        let answer = self.call_ok("POST", &path_of(collection), body);
        answer[item.as_str()]["id"].as_str().unwrap().to_owned()
    }

    /// Makes a call like [`Bench::api`], which must succeed. Returns the body.
    pub fn call_ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.api(method, path, body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Returns the status of a GET in `RegionOne` as the admin.
    pub fn status(&self, path: &str) -> u16 {
        self.api("GET", path, Value::Null).0
    }

    /// Creates a floating IP of a project on a port. Returns its id.
    pub fn add_floating_ip(&self, port: &str, project: &str) -> String {
        let networks = self.rows("networks");
        let external = networks.iter().find(|row| row["router:external"] == true);
        let external = &external.unwrap()["id"];
        let fields =
            json!({ "floating_network_id": external, "port_id": port, "project_id": project });
        self.create("floatingips", fields)
    }

    /// Attaches a subnet to a router.
    pub fn add_interface(&self, router: &str, subnet: &str) {
        let path = format!("/v2.0/routers/{router}/add_router_interface");
        self.call_ok("PUT", &path, json!({ "subnet_id": subnet }));
    }

    pub fn set_trunk_state(&self, trunk: &str, is_up: bool) {
        let body = json!({ "trunk": { "admin_state_up": is_up } });
        self.call_ok("PUT", &format!("/v2.0/trunks/{trunk}"), body);
    }

    pub fn exists(&self, collection: &str, id: &str) -> bool {
        self.status(&format!("{}/{id}", path_of(collection))) == 200
    }

    /// Returns the ids in all [`COLLECTIONS`] of all regions, as (collection, id). Faults must be off.
    pub fn all_ids(&self) -> BTreeSet<(String, String)> {
        let mut all = BTreeSet::new();
        for region in &self.regions {
            for collection in COLLECTIONS {
                let rows = self.rows_at(region, collection);
                let ids = rows
                    .iter()
                    .map(|row| row["id"].as_str().unwrap().to_owned());
                all.extend(ids.map(|id| (collection.to_owned(), id)));
            }
        }
        all
    }

    /// Returns the ports in `RegionOne` that floating IPs and routers have on the external network, each with the id of
    /// its owner. The cloud removes these ports with their owners.
    pub fn owned_ports(&self) -> BTreeMap<String, String> {
        let ports = self.rows("ports").into_iter();
        let owned = ports.filter(|port| {
            let owner = port["device_owner"].as_str().unwrap();
            ["network:floatingip", "network:router_gateway"].contains(&owner)
        });
        let text = |port: &Value, field: &str| port[field].as_str().unwrap().to_owned();
        owned
            .map(|port| (text(&port, "id"), text(&port, "device_id")))
            .collect()
    }

    pub fn demo_project(&self) -> String {
        let (_, answer) = self.api_as(
            "demo",
            "POST",
            "/v2.0/networks",
            json!({ "network": { "name": "theirs" } }),
        );
        let id = answer["network"]["id"].as_str().unwrap();
        self.api("DELETE", &format!("/v2.0/networks/{id}"), Value::Null);
        answer["network"]["project_id"].as_str().unwrap().to_owned()
    }

    pub fn shop(&self, ports: u32) -> Shop {
        let made = self.seed(json!({ "networks": 3, "ports_per_network": ports, "routers": 1, "floating_ips": 1, "trunks": 1 }));
        let id = |kind: &str, at: usize| made[kind][at].as_str().unwrap().to_owned();
        Shop {
            network: id("networks", 0),
            subnet: id("subnets", 0),
            router: id("routers", 0),
            trunk: id("trunks", 0),
            floating_ip: id("floating_ips", 0),
            others: vec![id("networks", 1), id("networks", 2)],
        }
    }

    /// Tags a network as a copy of an original at another site.
    pub fn tag_as_copy(&self, region: &str, network: &str, original: &str) {
        let path = format!("/v2.0/networks/{network}/tags");
        let tags = json!({ "tags": [format!("gone:copy-of={original}")] });
        let (status, answer) = self.api_at(region, "PUT", &path, tags);
        assert_eq!(status, 200, "{answer}");
    }

    /// Creates a network with a subnet, a DHCP port and this many other ports. Returns the ids of the network and of
    /// the other ports.
    pub fn plain_network(&self, ports: u32) -> (String, Vec<String>) {
        let made = self.seed(json!({ "networks": 1, "ports_per_network": ports }));
        let network = made["networks"][0].as_str().unwrap().to_owned();
        let ports = made["ports"].as_array().unwrap();
        // The first port is the DHCP port, which the cloud removes by itself.
        let ports = ports
            .iter()
            .skip(1)
            .map(|id| id.as_str().unwrap().to_owned());
        (network, ports.collect())
    }

    /// Starts an engine on the ledger, runs `work` beside it, and ends the engine as a crash would. Returns none if
    /// the planned crash came first.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(Client) -> T) -> Option<T> {
        self.crash.revive();
        let (inner, epoch) = self.storage.open();
        let (engine, ledger) = self.engine(inner, epoch, &self.crash, None);
        let client = Client {
            control: engine.control(),
        };
        let answer = tokio::select! {
            biased;
            () = self.crash.now.notified() => None,
            ended = engine.run() => panic!("the engine ended by itself: {ended:?}"),
            answer = work(client) => Some(answer),
        };
        drop(engine);
        // The tasks of the engine are cancelled with it. They drop the ledger when the runtime polls them next.
        while ledger.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        if answer.is_none() && self.planted_fault == PlantedFault::CommitsLate {
            self.storage.undo_last_write();
        }
        answer
    }

    /// Starts an engine that deletes this resource, and ends it once the resource is gone.
    pub async fn delete_until_gone(&self, kind: &str, id_or_name: &str) -> Deletion {
        with_engine(self, async |client| {
            client.delete_until_gone(kind, id_or_name).await
        })
        .await
    }

    /// Keeps the ledger in memory instead of a file. Such a ledger cannot be replayed.
    pub fn keep_in_memory(&mut self) {
        self.storage = LedgerStorage::in_memory();
    }

    /// Builds an engine on an opened ledger. The weak pointer shows when the engine's tasks have dropped the ledger.
    /// `crash` ends the engine.
    pub fn engine(
        &self,
        inner: Box<dyn Ledger>,
        epoch: i64,
        crash: &Arc<Crash>,
        tombstones: Option<Arc<Tombstones>>,
    ) -> (Engine, Weak<FaultyLedger>) {
        let ledger = Arc::new(FaultyLedger {
            inner,
            crash: crash.clone(),
            planted_fault: self.planted_fault,
            storage: self.storage.clone(),
            fences: Mutex::default(),
        });
        let weak = Arc::downgrade(&ledger);
        let mut clouds: Vec<Arc<dyn Cloud>> = vec![Arc::new(self.cloud_of(crash))];
        clouds.extend(self.others.iter().cloned());
        if self.kinds.home().is_some() {
            let registry = Registry::new(
                home(),
                self.kinds.clone(),
                ledger.clone(),
                self.clock.clone(),
            );
            clouds.push(Arc::new(registry));
        }
        let engine = Engine::new(EngineParts {
            neighbours: self.kinds.home().map(|home| Neighbours {
                home: Deployment {
                    name: home.site.to_string(),
                    service: home.service.clone(),
                    region: String::new(),
                },
                peers: Arc::new(NoPeers),
                heartbeat: Duration::from_secs(30),
            }),
            tombstones,
            gates: Arc::default(),
            ledger,
            cloud: Arc::new(FaultyCloud {
                inner: CloudRouter::new(clouds, self.clock.clone()),
                planted_fault: self.planted_fault,
                accepted: Mutex::default(),
            }),
            kinds: self.kinds.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            ledger_name: "simulation".into(),
            epoch,
        });
        match self.for_one_verb {
            true => (engine.idle_until_asked(), weak),
            false => (engine, weak),
        }
    }

    pub fn cloud(&self) -> OpenStack {
        self.cloud_of(&self.crash)
    }

    /// Builds the client by which an engine calls the practice cloud. `crash` ends that engine.
    fn cloud_of(&self, crash: &Arc<Crash>) -> OpenStack {
        let login = |region: &'static str| {
            let by_password = |user, scope: &[(&'static str, &'static str)]| {
                let mut variables = vec![
                    ("OS_USERNAME", user),
                    ("OS_PASSWORD", "secret"),
                    ("OS_USER_DOMAIN_ID", "default"),
                ];
                variables.extend_from_slice(scope);
                variables
            };
            let in_project = |user| {
                let scope = [
                    ("OS_PROJECT_NAME", user),
                    ("OS_PROJECT_DOMAIN_ID", "default"),
                ];
                by_password(user, &scope)
            };
            let mut variables = match self.login {
                Login::Admin => in_project("admin"),
                Login::Member => in_project("demo"),
                Login::System => by_password("admin", &[("OS_SYSTEM_SCOPE", "all")]),
                Login::Unscoped => by_password("admin", &[]),
                Login::Credential => vec![
                    ("OS_AUTH_TYPE", "v3applicationcredential"),
                    ("OS_APPLICATION_CREDENTIAL_ID", CREDENTIAL_ID),
                    ("OS_APPLICATION_CREDENTIAL_SECRET", CREDENTIAL_SECRET),
                ],
            };
            variables.push(("OS_AUTH_URL", "http://sandbox.invalid/v3"));
            variables.push(("OS_REGION_NAME", region));
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
            (site_of(region), cloud)
        };
        let transport = InProcessTransport {
            world: self.world.clone(),
            rate_limit: self.rate_limit.clone(),
            clock: self.clock.clone(),
            crash: crash.clone(),
            sent: self.sent.clone(),
        };
        let transport: Arc<dyn Transport> = Arc::new(transport);
        OpenStack::new(
            self.regions.iter().copied().map(login).collect(),
            Box::new(move |_| Ok(transport.clone())),
            self.clock.clone(),
            self.settings.engine.call_timeout,
        )
    }

    /// Opens a replay of the ledger file while no engine runs. Returns the replay and the folder of its copy of the
    /// file.
    pub fn rewind(&self) -> (Rewind, tempfile::TempDir) {
        let LedgerStorage::File(ledger) = &self.storage else {
            panic!("only a ledger in a file can be replayed");
        };
        let folder = tempfile::tempdir().unwrap();
        let rewind = Rewind::open(ledger, folder.path()).unwrap();
        (rewind, folder)
    }

    /// Opens the ledger while no engine runs.
    pub fn ledger(&self) -> Box<dyn Ledger> {
        self.storage.open().0
    }
}

/// The peers of a deployment that knows no other.
struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    fn known(&self) -> Vec<Peer> {
        Vec::new()
    }
    async fn watch(&self, peer: &Peer, _: Watch) -> Result<DeletionNotices, PeerFailure> {
        Err(PeerFailure::new(format!("{peer} is unknown")))
    }
    async fn ask(&self, peer: &Peer, _: Question) -> Result<Answers, PeerFailure> {
        Err(PeerFailure::new(format!("{peer} is unknown")))
    }
    async fn hint(&self, peer: &Peer, _: Deployment) -> Result<(), PeerFailure> {
        Err(PeerFailure::new(format!("{peer} is unknown")))
    }
}

/// The deletions and tombstones of the ledger, read while no engine runs.
pub struct LedgerState {
    pub deletions: Vec<Deletion>,
    pub tombstones: Vec<Tombstone>,
}

impl Bench {
    pub async fn ledger_state(&self) -> LedgerState {
        self.ledger_state_of(&*self.ledger()).await
    }

    pub async fn ledger_state_of(&self, ledger: &dyn Ledger) -> LedgerState {
        let deletions = ledger.deletions(DeletionFilter::default(), Cursor::default());
        let deletions = deletions.await.unwrap().rows;
        let mut tombstones = Vec::new();
        let mut page = Cursor::default();
        loop {
            let part = ledger.tombstones(TombstoneFilter::default(), page.clone());
            let part = part.await.unwrap();
            tombstones.extend(part.rows);
            page.after = part.next;
            if page.after.is_none() {
                break;
            }
        }
        LedgerState {
            deletions,
            tombstones,
        }
    }
}

pub fn site() -> Site {
    site_of("RegionOne")
}

/// Returns the site of the deployment `home`; see [`Bench::register_service`].
pub fn home() -> Site {
    Site::Deployment {
        name: "home".into(),
    }
}

pub fn site_of(region: &str) -> Site {
    Site::region("envvars", region)
}

/// Starts an engine on the ledger of the bench, runs `work` beside it, and ends the engine as a crash would. The bench
/// must not plan a crash.
pub async fn with_engine<T>(bench: &Bench, work: impl AsyncFnOnce(Client) -> T) -> T {
    bench
        .run(work)
        .await
        .expect("the engine crashed, although no crash was planned")
}

#[track_caller]
pub fn assert_contains(text: &str, words: &str) {
    assert!(text.contains(words), "no {words:?} in: {text}");
}

/// Asserts that a value matches a pattern.
macro_rules! assert_matches {
    ($value:expr, $pattern:pat) => {
        assert!(matches!(&$value, $pattern), "{:?}", $value)
    };
}
pub(crate) use assert_matches;

/// Runs a test on a paused clock, in one thread.
pub fn paused<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}
