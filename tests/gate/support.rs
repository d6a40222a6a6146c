//! A practice cloud, an engine on a ledger of its own, and gates in front of the cloud's services.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gone::cloud::openstack::{self, CloudsConfig, Environment, HttpTransport, Session};
use gone::cloud::{Cloud as _, OpenStack};
use gone::control::traffic::Counters;
use gone::control::{
    Command, Control, ControlError, Envelope, NamedOptions, Page, Query, Receipt, SiteSpec,
    Snapshot, TargetSpec, query,
};
use gone::domain::kinds::Kinds;
use gone::domain::model::{
    Actor, Counts, Deletion, DeletionState, Event, KindName, Origin, Phase, PlanOptions, Site,
};
use gone::engine::{Engine, EngineParts};
use gone::frontends::gate::{self, Budget, KeyLocks, Threads};
use gone::ledger::sqlite::{Options, SqliteLedger};
use gone::ledger::tombstones::{Changed, Tombstones};
use gone::sandbox::{self, ServeOptions, ServerHandle, WorldOptions};
use gone::system::clock::Clock;
use gone::system::config::{GateSettings, GateSource, Settings, parse};
use gone::system::listener::ListenHandle;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Limit for everything that a test waits for. Even a busy machine needs less.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Service types, as the catalog names them.
const SERVICES: [&str; 5] = ["network", "image", "load-balancer", "compute", "volumev3"];
pub const SOURCES: [GateSource; 3] = [GateSource::User, GateSource::Local, GateSource::Central];

pub fn site() -> Site {
    at("RegionOne")
}

pub fn at(region: &str) -> Site {
    Site::region("sandbox", region)
}

/// A practice cloud, one engine, and a gate for each region, source and service.
pub struct Stage {
    pub cloud: ServerHandle,
    pub tombstones: Arc<Tombstones>,
    pub control: Arc<dyn Control>,
    /// The admin's token.
    pub admin: String,
    /// The token of a member of the project `demo`.
    pub demo: String,
    gates: HashMap<(Site, GateSource, &'static str), ListenHandle>,
    parts: Box<dyn Fn(GateSettings, Arc<Session>) -> gate::GateParts + Send + Sync>,
    threads: Arc<Threads>,
    logins: BTreeMap<Site, openstack::CloudConfig>,
    clock: Clock,
    /// Path of each service's endpoint, by region and service type.
    paths: BTreeMap<(String, String), String>,
    http: reqwest::Client,
    engine: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

/// The answer to an HTTP request.
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Asserts that the answer has this status, and returns the answer.
    #[track_caller]
    pub fn with_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Returns the id of the deletion that the answer names, or an empty text.
    pub fn deletion(&self) -> String {
        self.header("x-gone-deletion").to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

impl Stage {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// Starts the default practice cloud; `more` is appended to the engine's settings.
    pub async fn with(more: &str) -> Self {
        Self::in_world(WorldOptions::default(), more).await
    }

    /// Starts a practice cloud with these options. The engine serves all its regions, and each has gates.
    pub async fn in_world(world: WorldOptions, more: &str) -> Self {
        let regions = world.regions.clone();
        let folder = tempfile::tempdir().unwrap();
        let options = ServeOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            world,
            scenario: None,
        };
        let cloud = sandbox::serve(options).await.unwrap();
        let yaml = folder.path().join("clouds.yaml");
        cloud.write_clouds_yaml(&yaml).unwrap();
        let environment = Environment {
            variables: BTreeMap::from([(
                "OS_CLIENT_CONFIG_FILE".to_owned(),
                yaml.display().to_string(),
            )]),
            current_dir: folder.path().to_owned(),
            home: None,
            system_dir: folder.path().to_owned(),
        };
        let configured = CloudsConfig::load(&environment).unwrap();
        let text = settings_text(&regions, more);
        let settings = parse(&text, "config.toml".as_ref()).unwrap();
        let kinds = Arc::new(gone::cloud::load_kinds(&[]).unwrap());
        let clock = Clock::system();
        let tombstones = Arc::<Tombstones>::default();
        let options = Options {
            tombstones: Some(tombstones.clone()),
            ..Options::default()
        };
        let ledger = SqliteLedger::open(&folder.path().join("ledger.db"), options).unwrap();
        let logins: BTreeMap<Site, openstack::CloudConfig> = regions
            .iter()
            .map(|region| {
                (
                    at(region),
                    configured.cloud("sandbox", Some(region)).unwrap(),
                )
            })
            .collect();
        let counters = Arc::<Counters>::default();
        let (engine, control) = start_engine(
            ledger,
            logins.clone(),
            (kinds.clone(), tombstones.clone(), clock.clone()),
            (settings.clone(), counters.clone()),
        );
        let mapping = settings.mapping.clone();
        let key_locks = Arc::<KeyLocks>::default();
        let budget = Arc::<Budget>::default();
        let threads = Threads::start().unwrap();
        let parts = {
            let (kinds, tombstones) = (kinds.clone(), tombstones.clone());
            let (control, clock) = (control.clone(), clock.clone());
            move |settings, session| gate::GateParts {
                settings,
                kinds: kinds.clone(),
                mapping: mapping.clone(),
                tombstones: tombstones.clone(),
                key_locks: key_locks.clone(),
                budget: budget.clone(),
                counters: counters.clone(),
                control: control.clone(),
                session,
                clock: clock.clone(),
                call_timeout: DEADLINE,
            }
        };
        let mut gates = HashMap::new();
        for settings in settings.gate {
            let mut services = SERVICES.into_iter();
            let service = services.find(|it| *it == settings.upstream.service);
            let site = settings.upstream.site();
            let session = session(logins[&site].clone(), &clock);
            let key = (site, settings.source, service.unwrap());
            let parts = parts(settings, session);
            let handle = gate::serve(parts, threads.clone()).await.unwrap();
            gates.insert(key, handle);
        }
        let http = reqwest::Client::new();
        let (admin, catalog) = sign_in(&http, cloud.url(), ("admin", "admin")).await;
        let (demo, _) = sign_in(&http, cloud.url(), ("demo", "demo")).await;
        Self {
            paths: paths(&catalog),
            cloud,
            tombstones,
            control,
            admin,
            demo,
            gates,
            parts: Box::new(parts),
            threads,
            logins,
            clock,
            http,
            engine,
            _folder: folder,
        }
    }

    /// Returns a new token of this user for the project of the same name.
    pub async fn token(url: &str, user: &str) -> String {
        Self::token_in(url, user, user).await
    }

    pub async fn token_in(url: &str, user: &str, project: &str) -> String {
        sign_in(&reqwest::Client::new(), url, (user, project))
            .await
            .0
    }

    /// Starts another user gate of the network service. The gate checks tokens with the Keystone at `auth_url`.
    pub async fn gate_with_keystone(&self, auth_url: &str, limits: &str) -> ListenHandle {
        self.gate_for_service("network", auth_url, limits).await
    }

    /// Starts another user gate of this service. The gate checks tokens with the Keystone at `auth_url`.
    pub async fn gate_for_service(
        &self,
        service: &str,
        auth_url: &str,
        limits: &str,
    ) -> ListenHandle {
        let parts = self.parts_for_service(service, auth_url, limits);
        gate::serve(parts, self.threads.clone()).await.unwrap()
    }

    /// Starts another user gate of the network service. The gate gets the steps of deletions on pages of one step each.
    pub async fn gate_with_one_step_a_page(&self, plain_wait: Duration) -> ListenHandle {
        let auth_url = self.logins[&site()].auth_url.to_string();
        let mut parts = self.parts_for_service("network", &auth_url, "");
        parts.settings.plain_wait = plain_wait;
        parts.control = Arc::new(OneStepAPage(parts.control));
        gate::serve(parts, self.threads.clone()).await.unwrap()
    }

    fn parts_for_service(&self, service: &str, auth_url: &str, limits: &str) -> gate::GateParts {
        let text = format!(
            "[[gate]]\nlisten = '127.0.0.1:0'\nupstream = {{ cloud = 'sandbox', region = \
             'RegionOne', service = '{service}' }}\nlimits = {{ {limits} }}\n"
        );
        let mut settings = parse(&text, "config.toml".as_ref()).unwrap();
        let mut login = self.logins[&site()].clone();
        login.auth_url = auth_url.parse().unwrap();
        let session = session(login, &self.clock);
        (self.parts)(settings.gate.remove(0), session)
    }

    /// Returns a gate's URL without a path.
    pub fn origin(&self, source: GateSource, service: &'static str) -> String {
        self.origin_at("RegionOne", source, service)
    }

    fn origin_at(&self, region: &str, source: GateSource, service: &'static str) -> String {
        let gate = &self.gates[&(at(region), source, service)];
        format!("http://{}", gate.address())
    }

    /// Returns the URL of a service through a gate.
    pub fn url(&self, source: GateSource, service: &'static str) -> String {
        self.url_at("RegionOne", source, service)
    }

    pub fn url_at(&self, region: &str, source: GateSource, service: &'static str) -> String {
        let origin = self.origin_at(region, source, service);
        format!("{origin}{}", self.path_of(region, service))
    }

    /// Returns the service's own URL, which bypasses the gates.
    pub fn upstream(&self, service: &str) -> String {
        self.upstream_at("RegionOne", service)
    }

    pub fn upstream_at(&self, region: &str, service: &str) -> String {
        format!("{}{}", self.cloud.url(), self.path_of(region, service))
    }

    pub fn path_of(&self, region: &str, service: &str) -> &str {
        &self.paths[&(region.to_owned(), service.to_owned())]
    }

    /// Sends a call with the admin's token through a gate.
    pub async fn call(
        &self,
        (source, service): (GateSource, &'static str),
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let url = format!("{}{path}", self.url(source, service));
        self.send(method, &url, &self.admin, body).await
    }

    pub async fn user_get(&self, path: &str) -> Answer {
        self.call_user_gate(Method::GET, path, None).await
    }

    pub async fn user_delete(&self, path: &str) -> Answer {
        self.call_user_gate(Method::DELETE, path, None).await
    }

    pub async fn user_post(&self, path: &str, body: Value) -> Answer {
        self.call_user_gate(Method::POST, path, Some(body)).await
    }

    pub async fn user_put(&self, path: &str, body: Value) -> Answer {
        self.call_user_gate(Method::PUT, path, Some(body)).await
    }

    /// Sends a call with the admin's token through the user gate of the network service.
    pub async fn call_user_gate(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        self.call((GateSource::User, "network"), method, path, body)
            .await
    }

    pub async fn send(
        &self,
        method: Method,
        url: &str,
        token: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.http.request(method, url).timeout(DEADLINE);
        if !token.is_empty() {
            request = request.header("x-auth-token", token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.send_request(request).await
    }

    pub async fn send_request(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap();
        Answer {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            text: answer.text().await.unwrap(),
        }
    }

    pub fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        self.http.request(method, url).timeout(DEADLINE)
    }

    /// Sends a call to the practice cloud's control API.
    pub async fn sandbox(&self, method: Method, what: &str, body: Value) -> Value {
        let url = format!("{}/sandbox/v1/{what}", self.cloud.url());
        let answer = self.send(method, &url, "", Some(body)).await;
        assert!(answer.status < 300, "{what}: {}", answer.text);
        serde_json::from_str(&answer.text).unwrap_or_default()
    }

    pub async fn faults(&self, faults: Value) {
        self.sandbox(Method::PUT, "faults", faults).await;
    }

    /// Creates a resource at the service itself, past every gate. Returns its id.
    pub async fn make(&self, service: &str, path: &str, body: Value) -> String {
        self.make_at("RegionOne", service, path, body).await
    }

    /// Creates a network of this name at the service itself. Returns its id.
    pub async fn network(&self, name: &str) -> String {
        let body = json!({"network": {"name": name}});
        self.make("network", "/v2.0/networks", body).await
    }

    pub async fn make_at(&self, region: &str, service: &str, path: &str, body: Value) -> String {
        let url = format!("{}{path}", self.upstream_at(region, service));
        let answer = self.send(Method::POST, &url, &self.admin, Some(body)).await;
        assert!(answer.status < 300, "POST {path}: {}", answer.text);
        let body = answer.json();
        let inner = body.as_object().unwrap().values().next().unwrap();
        let id = body.get("id").or_else(|| inner.get("id"));
        id.unwrap().as_str().unwrap().to_owned()
    }

    pub async fn submit(&self, command: Command) -> Receipt {
        let envelope = Envelope {
            command,
            actor: Actor {
                name: "a test".into(),
                origin: Origin::Cli,
            },
            reason: String::new(),
            idempotency_key: None,
            deadline: None,
        };
        self.control.submit(envelope).await.unwrap()
    }

    /// Submits a deletion to the engine, as the command line does. Returns its id.
    pub async fn delete(&self, kind: &str, id: &str, options: PlanOptions) -> String {
        let target = TargetSpec {
            kind: kind.to_owned(),
            id_or_name: id.to_owned(),
            site: SiteSpec::Region(site()),
        };
        let command = Command::Delete {
            targets: vec![target],
            options,
            named: NamedOptions::default(),
        };
        let receipt = self.submit(command).await;
        receipt.into_accepted().unwrap().deletion_id
    }

    pub async fn deletion(&self, id: &str) -> Deletion {
        let id = id.to_owned();
        *self.control.ask(query::Deletion { id }).await.unwrap()
    }

    pub async fn until(&self, id: &str, state: DeletionState) -> Deletion {
        let what = format!("deletion {id} is {state:?}");
        until(&what, async || self.deletion(id).await.state == state).await;
        self.deletion(id).await
    }

    pub async fn until_counts(&self, id: &str, enough: impl Fn(&Counts) -> bool) {
        let counts = async || {
            let deletion = self.deletion(id).await;
            assert_ne!(deletion.state, DeletionState::Refused, "{deletion:?}");
            enough(&deletion.counts)
        };
        until(&format!("deletion {id} has the expected counts"), counts).await;
    }

    pub fn phase(&self, kind: &str, id: &str) -> Option<Phase> {
        self.tombstones.phase(&site(), &KindName::new(kind), id)
    }

    /// Sets the phase in the gates' copy of the tombstones, as a commit of the ledger does.
    pub fn set_phase(&self, kind: &str, id: &str, phase: Option<Phase>) {
        self.tombstones.apply([Changed {
            site: site(),
            kind: KindName::new(kind),
            id: id.to_owned(),
            phase,
        }]);
    }

    pub async fn until_phase(&self, kind: &str, id: &str, phase: Option<Phase>) {
        let what = format!("{kind} {id} is {phase:?}");
        until(&what, async || self.phase(kind, id) == phase).await;
    }
}

struct OneStepAPage(Arc<dyn Control>);

#[async_trait]
impl Control for OneStepAPage {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        self.0.submit(envelope).await
    }

    async fn query(&self, mut query: Query) -> Result<Page, ControlError> {
        if let Query::Steps(steps) = &mut query {
            steps.limit = 1;
        }
        self.0.query(query).await
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        self.0.events(after, wait_ms).await
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.snapshot()
    }
}

/// Waits until the condition holds, at most for [`DEADLINE`].
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns settings with a gate for each region, source and service. Sweeps and retries start only after an hour,
/// so that none runs during a test.
fn settings_text(regions: &[String], more: &str) -> String {
    let mut text = String::from("[engine]\nsweep = '1h'\n[gc]\njitter = 0.0\nschedule = ['1h']\n");
    for (region, source) in regions
        .iter()
        .flat_map(|region| SOURCES.map(|source| (region, source)))
    {
        let source = serde_json::to_value(source).unwrap();
        for service in SERVICES {
            text.push_str(&format!(
                "[[gate]]\nlisten = '127.0.0.1:0'\nsource = {source}\nupstream = {{ cloud = \
                 'sandbox', region = '{region}', service = '{service}' }}\n"
            ));
        }
    }
    text.push_str(more);
    text
}

fn start_engine(
    ledger: SqliteLedger,
    logins: BTreeMap<Site, openstack::CloudConfig>,
    (kinds, tombstones, clock): (Arc<Kinds>, Arc<Tombstones>, Clock),
    (settings, gates): (Settings, Arc<Counters>),
) -> (JoinHandle<()>, Arc<dyn Control>) {
    let transport = |cloud: &openstack::CloudConfig| {
        let transport = HttpTransport::new(cloud).map_err(|error| error.to_string())?;
        Ok(Arc::new(transport) as Arc<dyn openstack::Transport>)
    };
    let sites: Vec<Site> = logins.keys().cloned().collect();
    let logins = logins.into_iter().collect();
    let cloud = OpenStack::new(logins, Box::new(transport), clock.clone(), DEADLINE);
    assert_eq!(cloud.sites(), sites);
    let epoch = ledger.epoch();
    let engine = Engine::new(EngineParts {
        neighbours: None,
        ledger: Arc::new(ledger),
        cloud: Arc::new(cloud),
        kinds,
        clock,
        settings,
        tombstones: Some(tombstones),
        gates,
        ledger_name: "a test's".into(),
        epoch,
    });
    let control = engine.control();
    let engine = tokio::spawn(async move {
        let ended = engine.run().await;
        panic!("the engine ended before the test did: {ended:?}");
    });
    (engine, control)
}

fn session(cloud: openstack::CloudConfig, clock: &Clock) -> Arc<Session> {
    let transport = HttpTransport::new(&cloud).unwrap();
    let clock = clock.clone();
    let clock = Arc::new(move || clock.now());
    Arc::new(Session::new(cloud, Arc::new(transport), clock))
}

async fn sign_in(
    http: &reqwest::Client,
    url: &str,
    (user, project): (&str, &str),
) -> (String, Value) {
    let domain = json!({"id": "default"});
    let user_of = json!({"name": user, "domain": domain, "password": "secret"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user_of}},
        "scope": {"project": {"name": project, "domain": domain}},
    }});
    let request = http.post(format!("{url}/v3/auth/tokens")).json(&body);
    let answer = request.send().await.unwrap();
    let token = answer.headers()["x-subject-token"].to_str().unwrap();
    let token = token.to_owned();
    let body: Value = answer.json().await.unwrap();
    (token, body["token"]["catalog"].clone())
}

fn paths(catalog: &Value) -> BTreeMap<(String, String), String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut paths = BTreeMap::new();
    for service in catalog.as_array().unwrap() {
        for endpoint in service["endpoints"].as_array().unwrap() {
            let url = url::Url::parse(&text(&endpoint["url"])).unwrap();
            let key = (text(&endpoint["region"]), text(&service["type"]));
            paths.insert(key, url.path().trim_end_matches('/').to_owned());
        }
    }
    paths
}
