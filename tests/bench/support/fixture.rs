//! An engine and a practice cloud, each in a process of its own.

#[path = "proc_stats.rs"]
mod proc_stats;
#[path = "../../testkit/program.rs"]
mod program;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gone::ledger::Views as _;
use gone::ledger::sqlite::{self, Options, SqliteLedger};
pub use program::ChildGuard;
use serde_json::{Value, json};

use crate::api::text;

const PORTS_PER_NETWORK: usize = 1000;
const DEADLINE: Duration = Duration::from_secs(900);

/// A call that the engine sent to the cloud.
pub struct Call {
    pub method: String,
    pub path: String,
}

impl Call {
    /// Whether the call lists resources (`/v2.0/ports?…`) and does not read one (`/v2.0/ports/ID`).
    pub fn is_list(&self) -> bool {
        let path = self.path.split('?').next().unwrap();
        let below = path.split("/v2.0/").nth(1);
        self.method == "GET"
            && below.is_some_and(|path| !path.contains('/') || path == "qos/policies")
    }
}

pub struct Fixture {
    pub home: tempfile::TempDir,
    url: String,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    engine: ChildGuard,
    reader: OnceCell<SqliteLedger>,
    _cloud: ChildGuard,
}

impl Fixture {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a practice cloud, and an engine with this text as its `config.toml`.
    pub fn start_with(settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("config/gone")).unwrap();
        std::fs::write(home.path().join("config/gone/config.toml"), settings).unwrap();
        let (cloud, url) = practice_cloud(&home);
        let log = std::fs::File::create(home.path().join("engine.log")).unwrap();
        let engine = command(&home, "--cloud sandbox --engine")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let fixture = Self {
            url,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            client: reqwest::Client::new(),
            engine: ChildGuard(engine),
            reader: OnceCell::new(),
            _cloud: cloud,
            home,
        };
        let ledger = fixture.ledger();
        wait_for("the engine", || {
            let owner = sqlite::holder(&ledger);
            owner.is_some_and(|owner| owner.pid == fixture.engine.0.id() && owner.socket.is_some())
        });
        fixture
    }

    /// Sends a control call to the practice cloud, and asserts that it succeeds.
    pub fn control(&self, method: &str, what: &str, body: Value) -> Value {
        let url = format!("{}/sandbox/v1/{what}", self.url);
        let call = self
            .client
            .request(method.parse().unwrap(), url)
            .json(&body);
        self.runtime.block_on(async {
            let answer = call.send().await.unwrap();
            assert!(answer.status().is_success(), "{method} {what}");
            serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default()
        })
    }

    /// Sets the latency of each call, and how many calls the cloud serves at once.
    pub fn set_limits(&self, latency_ms: u32, parallel: usize) {
        let limits = json!({"region": "RegionOne", "latency_ms": latency_ms, "parallel": parallel});
        self.control("PUT", "limits", limits);
    }

    pub fn ledger(&self) -> std::path::PathBuf {
        self.home.path().join("state/gone/ledger.db")
    }

    /// Creates networks with this many ports in all, and returns the ids of the networks.
    pub fn seed(&self, ports: usize) -> Vec<String> {
        let networks = ports.div_ceil(PORTS_PER_NETWORK);
        let each = ports / networks;
        let seed = json!({"networks": networks, "ports_per_network": each});
        let made = self.control("POST", "seed", seed);
        made["networks"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect()
    }

    /// Creates networks with this many ports in all, and requests their deletion. Returns the id of the deletion.
    pub fn seed_and_delete(&self, ports: usize) -> String {
        self.delete_networks(self.seed(ports))
    }

    /// Requests the deletion of networks with all their dependents. Returns the id of the deletion.
    pub fn delete_networks(&self, networks: Vec<String>) -> String {
        let networks = networks.into_iter();
        let targets: Vec<String> = networks.map(|id| format!("network/{id}")).collect();
        let line = format!("delete {} --cascade --yes -o json", targets.join(" "));
        let accepted: Value = serde_json::from_str(&self.run_gone(&line)).unwrap();
        text(&accepted["id"])
    }

    /// Runs `gone` with these arguments, and asserts that it succeeds. Returns its output.
    pub fn run_gone(&self, line: &str) -> String {
        let output = command(&self.home, &format!("--cloud sandbox {line}"))
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {:?} {err}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Reads a deletion from the ledger, because a request would be work for the engine. All reads share one reader,
    /// because engine and cloud run on the same cores.
    pub fn deletion(&self, id: &str) -> Value {
        let ledger = self
            .reader
            .get_or_init(|| SqliteLedger::open_reader(&self.ledger()).unwrap());
        let deletion = self.runtime.block_on(ledger.deletion(id)).unwrap();
        serde_json::to_value(deletion.unwrap()).unwrap()
    }

    /// Waits until the deletion fulfils a condition. Returns the deletion.
    pub fn wait_until(&self, id: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let mut deletion = Value::Null;
        wait_for("the deletion to reach the expected state", || {
            deletion = self.deletion(id);
            is_met(&deletion)
        });
        deletion
    }

    /// The calls that gone sent to the cloud, without those whose path has `/v3/`, such as logins.
    pub fn calls(&self) -> Vec<Call> {
        let log = self.control("GET", "calls?after=0", Value::Null);
        let calls = log["calls"].as_array().unwrap().iter();
        calls
            .filter(|call| {
                call["user_agent"]
                    .as_str()
                    .is_some_and(|agent| agent.starts_with("gone/"))
            })
            .filter(|call| !call["path"].as_str().unwrap().contains("/v3/"))
            .map(|call| Call {
                method: text(&call["method"]),
                path: text(&call["path"]),
            })
            .collect()
    }

    /// The memory of the engine in MB; see [`memory_mb`].
    pub fn memory_mb(&self, what: &str) -> u64 {
        memory_mb(self.engine.0.id(), what)
    }

    /// Measures the engine for some time without work: its CPU time, how often a thread of it woke up, and its
    /// memory.
    pub fn cost_at_rest(&self, rest: Duration) -> String {
        std::thread::sleep(Duration::from_secs(1));
        let (cpu, before) = (self.cpu_ms(), self.wake_ups());
        std::thread::sleep(rest);
        let cpu = self.cpu_ms() - cpu;
        let since = |(thread, count): (OsString, u64)| count - before.get(&thread).unwrap_or(&0);
        let wake_ups: u64 = self.wake_ups().into_iter().map(since).sum();
        let seconds = rest.as_secs();
        format!(
            "{cpu} ms of CPU and {wake_ups} wake-ups in {seconds} s, {} MB",
            self.memory_mb("VmRSS")
        )
    }

    fn cpu_ms(&self) -> u64 {
        proc_stats::cpu_ms(self.engine.0.id())
    }

    /// The wake-ups of each thread so far. A sum over all threads would fall when a thread ends.
    fn wake_ups(&self) -> BTreeMap<OsString, u64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.engine.0.id())).unwrap();
        let of_thread = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt"))?;
            let count = line.split_whitespace().nth(1)?.parse().ok()?;
            Some((thread.file_name(), count))
        };
        threads
            .filter_map(|thread| of_thread(thread.ok()?))
            .collect()
    }
}

/// Starts a practice cloud, which writes `clouds.yaml` in this folder. Returns the cloud and its URL.
pub fn practice_cloud(home: &tempfile::TempDir) -> (ChildGuard, String) {
    let mut cloud = command(home, "sandbox --clouds-yaml clouds.yaml");
    let mut cloud = cloud
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(cloud.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    (ChildGuard(cloud), text(&ready["url"]))
}

/// Writes the settings of an engine, and a `clouds.yaml` with the cloud `bench`, whose network service is at this
/// address.
pub fn write_settings(home: &tempfile::TempDir, keystone: &str, service: &str, settings: &str) {
    let clouds = format!(
        "clouds:\n  bench:\n    auth: {{auth_url: '{keystone}/v3', username: admin, password: secret, \
         project_name: admin, user_domain_id: default, project_domain_id: default}}\n    \
         region_name: RegionOne\n    network_endpoint_override: 'http://{service}'\n"
    );
    std::fs::write(home.path().join("clouds.yaml"), clouds).unwrap();
    std::fs::create_dir_all(home.path().join("config/gone")).unwrap();
    std::fs::write(home.path().join("config/gone/config.toml"), settings).unwrap();
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Waits until the engine's log says that the gate is open, and returns its address.
pub fn gate_address(log: &Path) -> SocketAddr {
    let mut address = None;
    wait_for("the gate", || {
        let text_of_log = std::fs::read_to_string(log).unwrap();
        let mut lines = text_of_log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let open = lines.find(|line| line["message"] == "a gate is open");
        address = open.map(|open| text(&open["address"]).parse().unwrap());
        address.is_some()
    });
    address.unwrap()
}

/// Adds tombstones of gone resources of the cloud `bench` to a ledger, which is created if it does not exist.
pub fn add_tombstones(ledger: &Path, kind: &str, tombstones: usize) {
    std::fs::create_dir_all(ledger.parent().unwrap()).unwrap();
    drop(SqliteLedger::open(ledger, Options::default()).unwrap());
    let db = rusqlite::Connection::open(ledger).unwrap();
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO tombstones(site, kind, id, phase, deleted_at, gone_at, deletion)
         SELECT 'bench/RegionOne', ?2,
             lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)),
                 substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6)))),
             'gone', 1000000 * unixepoch(), 1000000 * unixepoch(), 0
         FROM n",
        rusqlite::params![i64::try_from(tombstones).unwrap(), kind],
    )
    .unwrap();
}

/// The memory of a process in MB: now (`VmRSS`), or at its peak so far (`VmHWM`).
pub fn memory_mb(process: u32, what: &str) -> u64 {
    proc_stats::memory_kb(process, what) / 1024
}

/// A command that runs `gone` with these arguments, and with its files in this folder.
pub fn command(home: &tempfile::TempDir, line: &str) -> Command {
    let mut command = Command::new(program::GONE);
    program::run_in(home.path(), &mut command).args(line.split_whitespace());
    command
}

/// Waits until a condition is true; panics after [`DEADLINE`].
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < DEADLINE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
