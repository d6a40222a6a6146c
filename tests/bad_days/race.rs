//! A region that copies the networks of another region as fast as it can, while they are being deleted (T12, T14).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::support::program::DEADLINE;
use super::support::{Running, Stage, text, wait_for};

const PULLERS: u64 = 50;
const NETWORKS: usize = 20;
const PORTS: u64 = 2;
/// The longest time between a puller's read and its create.
const READ_AGE_MS_MAX: u64 = 200;
/// The least number of creates that the pullers attempt: in one test, and for each seed of a test with several seeds.
const CREATES_MIN: usize = 1_000;
const CREATES_MIN_PER_SEED: usize = 200;
const SWEEP: Duration = Duration::from_secs(5);
/// An interval of sweeps that is longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// Which calls of the pullers go through gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateUse {
    /// All creates, and the reads of half of the pullers.
    Creates,
    /// All reads, and no create.
    Reads,
    /// The reads of half of the pullers, and the creates of the others.
    Either,
    Nothing,
}

/// The addresses of the gates, such as `127.0.0.1:9696`, in the order of the settings.
#[derive(Clone, Debug)]
struct Gates {
    /// The gate of the network service of the first region, for users.
    user: String,
    /// The gate of the network service of the first region, for reads by the second region.
    read: String,
    /// The gate of the network service of the second region, for the creates of that region.
    create: String,
    /// The gate of the image service of the first region, for users.
    image: String,
}

const GATES: [(&str, &str, &str); 4] = [
    ("user", "RegionOne", "network"),
    ("local", "RegionOne", "network"),
    ("local", "RegionTwo", "network"),
    ("user", "RegionOne", "image"),
];

struct Race {
    stage: Stage,
    runtime: Runtime,
    http: Client,
    token: String,
    networks: Vec<String>,
    /// In each region, a network that has the name of a deleted one, and must stay.
    bystanders: [String; 2],
    seed: u64,
    shared: Arc<Shared>,
}

/// The state that the pullers share, and the counts of what they did.
#[derive(Default)]
struct Shared {
    gates: Mutex<Option<Gates>>,
    over: AtomicBool,
    attempted: AtomicUsize,
    created: AtomicUsize,
}

impl Race {
    fn new(seed: u64) -> Self {
        let stage = Stage::in_cloud(&["RegionOne", "RegionTwo"], &["--keep-ids"]);
        let shape = json!({
            "name": "race", "networks": NETWORKS, "ports_per_network": PORTS
        });
        let seeded = stage.seed(shape);
        let networks = seeded["networks"].as_array().unwrap().iter().map(text);
        let networks = networks.collect();
        let bystanders = ["RegionOne", "RegionTwo"].map(|region| {
            let same_name = json!({"network": {"name": "race-net-0"}});
            let path = format!("{region}/network/v2.0/networks");
            text(&stage.as_client("POST", &path, same_name)["network"]["id"])
        });
        // Each call takes some milliseconds, so that the calls of the engine and of the pullers overlap.
        stage.limits(json!({"latency_ms": 3}));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        Self {
            token: stage.token(),
            stage,
            runtime,
            http: Client::builder().timeout(DEADLINE).build().unwrap(),
            networks,
            bystanders,
            seed,
            shared: Arc::default(),
        }
    }

    fn settings(&self, sweep: Duration, with_gates: bool) {
        let mut settings = format!(
            "[engine]\nsweep = '{}s'\n[[mapping]]\ncentral = 'prod/RegionOne'\nlocals = ['prod/RegionTwo']\n\
             match = 'id'\n",
            sweep.as_secs()
        );
        for (source, region, service) in GATES.iter().filter(|_| with_gates) {
            settings.push_str(&format!(
                "[[gate]]\nlisten = '127.0.0.1:0'\nsource = '{source}'\nupstream = {{ cloud = 'prod', \
                 region = '{region}', service = '{service}' }}\n"
            ));
        }
        self.stage.settings(&settings);
    }

    fn engine(&self) -> Running {
        self.stage.engine_by("--engine --all-regions")
    }

    /// Starts an engine with gates, and gives their addresses to the pullers.
    fn engine_with_gates(&self) -> Running {
        let engine = self.engine();
        let listening = || -> Vec<String> {
            let log = engine.err();
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let open = lines.filter(|line| line["message"] == "a gate is open");
            open.map(|line| text(&line["address"])).collect()
        };
        wait_for("the gates", || listening().len() == GATES.len());
        let [user, read, create, image] = listening().try_into().unwrap();
        let gates = Gates {
            user,
            read,
            create,
            image,
        };
        *self.shared.gates.lock().unwrap() = Some(gates);
        engine
    }

    /// Starts the pullers, which run until [`Race::end`].
    fn pull(&self, gate_use: GateUse) -> JoinSet<()> {
        let mut pullers = JoinSet::new();
        for number in 0..PULLERS {
            let puller = Puller {
                random: fastrand::Rng::with_seed(self.seed * PULLERS + number),
                http: self.http.clone(),
                token: self.token.clone(),
                networks: self.networks.clone(),
                cloud: self.stage.url.clone(),
                reads_by_gate: gate_use != GateUse::Nothing && number % 2 == 0
                    || gate_use == GateUse::Reads,
                creates_by_gate: gate_use == GateUse::Creates
                    || gate_use == GateUse::Either && number % 2 == 1,
                shared: self.shared.clone(),
            };
            pullers.spawn_on(puller.run(), self.runtime.handle());
        }
        pullers
    }

    /// Stops the pullers.
    fn end(&self, mut pullers: JoinSet<()>) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.runtime.block_on(async {
            while let Some(ended) = pullers.join_next().await {
                ended.unwrap();
            }
        });
    }

    fn created(&self) -> usize {
        self.shared.created.load(Ordering::SeqCst)
    }

    fn attempted(&self) -> usize {
        self.shared.attempted.load(Ordering::SeqCst)
    }

    /// Deletes one network after the other. The deletes are spread evenly over the attempted creates.
    fn delete_all(&self, creates_min: usize) {
        for (number, network) in self.networks.iter().enumerate() {
            self.await_attempts(creates_min * (number + 1) / NETWORKS);
            self.delete(network);
        }
    }

    fn await_attempts(&self, enough: usize) {
        wait_for("the pullers", || self.attempted() >= enough);
    }

    /// Deletes a network through a gate, and repeats the request until the gate answers with a status other
    /// than 503.
    fn delete(&self, network: &str) {
        let ask = async || {
            let gate = self.shared.gates.lock().unwrap().clone().unwrap().user;
            let url =
                format!("http://{gate}/RegionOne/network/v2.0/networks/{network}?cascade=true");
            let request = self.http.delete(url).header("x-auth-token", &self.token);
            let status = request.send().await.ok()?.status().as_u16();
            assert!(
                [202, 204, 404, 503].contains(&status),
                "{network}: {status}"
            );
            (status != 503).then_some(())
        };
        wait_for("an answer", || self.runtime.block_on(ask()).is_some());
    }

    /// Returns the networks that the second region has a copy of.
    fn copies(&self) -> BTreeSet<String> {
        let answer = self
            .stage
            .as_client("GET", "RegionTwo/network/v2.0/networks", Value::Null);
        let rows = answer["networks"].as_array().unwrap();
        let ids = rows.iter().map(|row| text(&row["id"]));
        ids.filter(|id| self.networks.contains(id)).collect()
    }

    /// Waits until all deletions have ended. Asserts that the first region then has none of the deleted networks.
    fn await_gone(&self) {
        wait_for("the end of all deletions", || {
            let all = self.stage.gone("list deletions -o json").ok().json();
            let all = all.as_array().unwrap();
            all.len() >= NETWORKS && all.iter().all(|it| it["state"] == "gone")
        });
        let left = self.stage.ids("networks");
        assert!(
            self.networks.iter().all(|id| !left.contains(id)),
            "{left:?}"
        );
    }

    /// Waits for the last sweep after copies were re-created, and asserts that the bystanders and the member still
    /// exist. `since` is the end of the pullers.
    fn assert_swept(&self, since: Instant, member: &Member) {
        wait_for("the last sweep", || self.copies().is_empty());
        let took = since.elapsed();
        println!("swept after {took:?}");
        assert!(took < 2 * SWEEP, "{took:?}");
        self.assert_bystanders();
        member.assert_there(self);
        assert!(self.attempted() >= CREATES_MIN, "{}", self.attempted());
        let created = self.created();
        assert!(created > NETWORKS, "no copy was created again: {created}");
    }

    fn await_copies(&self) {
        wait_for("a copy of every network", || {
            self.copies().len() == NETWORKS
        });
    }

    fn assert_bystanders(&self) {
        for (region, id) in ["RegionOne", "RegionTwo"].iter().zip(&self.bystanders) {
            let path = format!("{region}/network/v2.0/networks/{id}");
            let shown = self.stage.as_client("GET", &path, Value::Null);
            assert_eq!(shown["network"]["name"], "race-net-0");
        }
    }
}

struct Puller {
    random: fastrand::Rng,
    http: Client,
    token: String,
    networks: Vec<String>,
    cloud: String,
    reads_by_gate: bool,
    creates_by_gate: bool,
    shared: Arc<Shared>,
}

impl Puller {
    async fn run(mut self) {
        while !self.shared.over.load(Ordering::SeqCst) {
            let network = self.networks[self.random.usize(..self.networks.len())].clone();
            if self.reads(&network).await {
                // After this time the copy may be out of date when it is created.
                let age = Duration::from_millis(self.random.u64(..READ_AGE_MS_MAX));
                tokio::time::sleep(age).await;
                self.create(&network).await;
            }
        }
    }

    async fn reads(&self, network: &str) -> bool {
        let Some(base) = self.base_url(self.reads_by_gate, |gates| &gates.read) else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            return false;
        };
        let url = format!("{base}/RegionOne/network/v2.0/networks/{network}");
        self.send(Method::GET, url, None).await == Some(200)
    }

    async fn create(&self, network: &str) {
        let Some(base) = self.base_url(self.creates_by_gate, |gates| &gates.create) else {
            return;
        };
        let url = format!("{base}/RegionTwo/network/v2.0/networks");
        let copy = json!({"network": {"id": network, "name": "race-net-0"}});
        match self.send(Method::POST, url, Some(copy)).await {
            Some(201) => {
                self.shared.created.fetch_add(1, Ordering::SeqCst);
            }
            Some(409) => {}
            // There is no engine now, or it has just started.
            None | Some(502 | 503) => return,
            Some(other) => panic!("a create was answered with {other}"),
        }
        self.shared.attempted.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the address of a gate or of the cloud; None for a gate while there is no engine.
    fn base_url(&self, by_gate: bool, gate: fn(&Gates) -> &String) -> Option<String> {
        if !by_gate {
            return Some(self.cloud.clone());
        }
        let gates = self.shared.gates.lock().unwrap();
        gates
            .as_ref()
            .map(|gates| format!("http://{}", gate(gates)))
    }

    async fn send(&self, method: Method, url: String, body: Option<Value>) -> Option<u16> {
        let mut request = self
            .http
            .request(method, url)
            .header("x-auth-token", &self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        Some(request.send().await.ok()?.status().as_u16())
    }
}

/// Deletes all networks from the command line, while the second region reads and creates without gates. Returns
/// whether the second region re-creates a copy that was deleted there.
fn brings_back_without_gates(seed: u64) -> bool {
    let race = Race::new(seed);
    race.settings(NEVER, false);
    let engine = race.engine();
    let pullers = race.pull(GateUse::Nothing);
    race.await_copies();
    let targets: Vec<String> = race
        .networks
        .iter()
        .map(|id| format!("network/{id}@prod/RegionOne"))
        .collect();
    let delete = format!("delete {} --cascade --yes -o json", targets.join(" "));
    let id = text(&race.stage.gone(&delete).ok().json()["id"]);
    let brought_back = || race.created() > NETWORKS;
    wait_for("the end, or a re-created copy", || {
        brought_back() || race.stage.show(&id)["state"] == "gone"
    });
    race.end(pullers);
    engine.kill();
    brought_back()
}

/// Deletes all networks through a gate, while the second region creates through gates.
fn with_gates(seed: u64, creates_min: usize) -> Race {
    let race = Race::new(seed);
    race.settings(NEVER, true);
    let engine = race.engine_with_gates();
    let pullers = race.pull(GateUse::Creates);
    race.await_copies();
    race.delete_all(creates_min);
    race.await_gone();
    race.end(pullers);
    engine.stop().ok();
    race
}

#[test]
fn t12_t14_with_gates_no_copy_outlives_the_deletion_of_its_original() {
    let race = with_gates(0, CREATES_MIN);
    assert_eq!(race.copies(), BTreeSet::new());
    // Each copy was created once, before its deletion.
    assert_eq!(race.created(), NETWORKS);
    assert!(race.attempted() >= CREATES_MIN, "{}", race.attempted());
    race.assert_bystanders();
}

#[test]
fn t12_t14_copies_come_back_without_gates_and_not_with_them() {
    let seeds_with_copies = (1..=10)
        .filter(|seed| brings_back_without_gates(*seed))
        .count();
    assert!(
        seeds_with_copies >= 9,
        "copies were re-created with {seeds_with_copies} of 10 seeds"
    );
    for seed in 1..=3 {
        let race = with_gates(seed, CREATES_MIN_PER_SEED);
        assert_eq!(race.copies(), BTreeSet::new(), "seed {seed}");
        assert_eq!(race.created(), NETWORKS, "seed {seed}");
    }
}

#[test]
fn t14_copies_created_around_the_gates_are_swept() {
    let race = Race::new(11);
    race.settings(SWEEP, true);
    let engine = race.engine_with_gates();
    let member = Member::added_again(&race);
    let pullers = race.pull(GateUse::Reads);
    race.await_copies();
    race.delete_all(CREATES_MIN);
    race.end(pullers);
    let last = Instant::now();
    race.await_gone();
    race.assert_swept(last, &member);
    engine.stop().ok();
}

#[test]
fn t08_t12_t14_no_copy_stays_although_engine_and_gates_are_killed_repeatedly() {
    let race = Race::new(12);
    race.settings(SWEEP, true);
    let mut engine = race.engine_with_gates();
    let member = Member::added_again(&race);
    let pullers = race.pull(GateUse::Either);
    race.await_copies();
    let mut random = fastrand::Rng::with_seed(race.seed);
    for (number, network) in race.networks.iter().enumerate() {
        race.await_attempts(CREATES_MIN * (number + 1) / NETWORKS);
        race.delete(network);
        // The kill comes at a random moment of the deletion.
        std::thread::sleep(Duration::from_millis(random.u64(..200)));
        engine.kill();
        *race.shared.gates.lock().unwrap() = None;
        engine = race.engine_with_gates();
    }
    race.await_gone();
    race.end(pullers);
    let last = Instant::now();
    race.assert_swept(last, &member);
    engine.stop().ok();
}

/// An image's member, which gone deleted and which was then added again through a gate.
struct Member {
    path: String,
}

impl Member {
    fn added_again(race: &Race) -> Self {
        const PROJECT: &str = "0f0e0d0c0b0a09080706050403020100";
        let client =
            |method: &str, path: &str, body: Value| race.stage.as_client(method, path, body);
        let image = json!({"name": "shared", "visibility": "shared"});
        let image = text(&client("POST", "RegionOne/image/v2/images", image)["id"]);
        let members = format!("RegionOne/image/v2/images/{image}/members");
        client("POST", &members, json!({"member": PROJECT}));
        let line = format!("delete image_member/{image},{PROJECT}@prod/RegionOne --yes --wait=1m");
        race.stage.gone(&line).ok();
        let gate = race.shared.gates.lock().unwrap().clone().unwrap().image;
        let again = race
            .http
            .post(format!("http://{gate}/{members}"))
            .header("x-auth-token", &race.token)
            .json(&json!({"member": PROJECT}));
        let answered = race.runtime.block_on(async { again.send().await.unwrap() });
        assert_eq!(answered.status(), 200);
        Self {
            path: format!("{members}/{PROJECT}"),
        }
    }

    fn assert_there(&self, race: &Race) {
        let shown = race.stage.as_client("GET", &self.path, Value::Null);
        assert_eq!(shown["status"], "pending");
    }
}
