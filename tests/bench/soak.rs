//! Runs three engines, two of them with gates, on a PostgreSQL server with a synchronous standby. Deletions keep
//! arriving, while engines and servers are killed, stopped, restarted and promoted at random. Every accepted deletion
//! must end, only deletes may be sent, no gate may let a client add a port to a network that is being deleted, and
//! the memory and the open files of the engines must not grow. Also measures how far the gates are behind the ledger.
//!
//! `--minutes N` sets the duration (30 by default), `--seed N` the seed; `--smoke` runs for half a minute. It needs
//! PostgreSQL, as `tests/postgres` does.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "../postgres/server.rs"]
mod server;
#[path = "../bad_days/support.rs"]
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use server::OwnServer;
use stage::{Running, Stage, text};

const PORTS: u32 = 8;
/// The most deletions that run at the same time.
const RUNNING_MAX: usize = 6;
/// The most memory and open files in the last third of the time, as a multiple of those in the first third.
const GROWTH_MAX: f64 = 1.25;
/// The time within which everything ends after the last fault.
const END_TIMEOUT: Duration = Duration::from_secs(120);
const GATES: &str = "[[gate]]\nlisten = '127.0.0.1:0'\nsource = 'user'\n\
     upstream = { cloud = 'prod', region = 'RegionOne', service = 'network' }\n";

fn main() {
    let options: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = options.iter().position(|option| option == name)?;
        options.get(at + 1)?.parse::<u64>().ok()
    };
    let lasts = match options.iter().any(|option| option == "--smoke") {
        true => Duration::from_secs(30),
        false => Duration::from_secs(60 * number("--minutes").unwrap_or(30)),
    };
    let seed = number("--seed").unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("seed {seed}, for {} s", lasts.as_secs());
    let mut soak = Soak::begin(seed);
    let since = Instant::now();
    while since.elapsed() < lasts {
        soak.round();
    }
    soak.end();
}

/// An engine, whose process may have ended.
struct Engine {
    name: &'static str,
    process: Option<Running>,
}

/// A primary server, and the standby that it waits for at each commit.
struct Servers {
    primary: OwnServer,
    standby: OwnServer,
}

impl Servers {
    fn start(folder: &Path) -> Self {
        let primary = OwnServer::start(&folder.join("a"));
        let standby = primary.with_standby(&folder.join("b"));
        Self { primary, standby }
    }

    /// The address of a schema on whichever server accepts writes.
    fn url(&self, schema: &str) -> String {
        let [one, other] = [&self.primary, &self.standby].map(|it| it.folder().display());
        format!("postgres://postgres@/postgres?host={one},{other}&schema={schema}")
    }

    /// Kills the primary for good and promotes its standby, which then gets a new standby in the folder of the lost
    /// server.
    fn fail_over(&mut self, after: Duration) {
        self.primary.kill();
        std::thread::sleep(after);
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
        let lost = self.standby.folder().to_owned();
        let data = lost.join("data");
        // The processes of the lost server may go on writing for a moment, until they notice that it has ended.
        let since = Instant::now();
        while data.exists() {
            let removed = std::fs::remove_dir_all(&data);
            assert!(since.elapsed() < END_TIMEOUT, "{removed:?}");
        }
        self.standby = self.primary.with_standby(&lost);
    }
}

/// The memory and the open files of an engine at one time.
struct Sample {
    at: Duration,
    megabytes: f64,
    files: f64,
}

struct Deletion {
    id: String,
    network: String,
}

struct Soak {
    random: fastrand::Rng,
    began: Instant,
    folder: tempfile::TempDir,
    servers: Servers,
    stage: Stage,
    engines: Vec<Engine>,
    running: Vec<Deletion>,
    ended: usize,
    kills: usize,
    restarts: usize,
    fail_overs: usize,
    stops: usize,
    samples: Vec<Sample>,
    /// The largest number of changes to tombstones by which a gate was behind the ledger.
    behind_max: u64,
    gate_answers: BTreeMap<u16, usize>,
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    token: String,
}

impl Soak {
    fn begin(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let servers = Servers::start(folder.path());
        let address = servers.url("soak");
        let stage = Stage::new();
        let common = |name: &str| {
            format!(
                "[ledger]\npath = '{address}'\n[engine]\nname = '{name}'\nconcurrency = 4\n\
                 concurrency_max = 12\ncall_timeout = '2s'\nlease = '5s'\nverify_timeout = '5s'\n\
                 [gc]\nschedule = ['1s']\nmax_attempts = 1000\n"
            )
        };
        let names = ["one", "two", "three"];
        for name in names {
            let gates = if name == "three" { "" } else { GATES };
            let file = stage.path(&format!("{name}.toml"));
            std::fs::write(file, common(name) + gates).unwrap();
        }
        // The verbs have settings of their own.
        stage.settings(&common("verb"));
        stage.limits(json!({"latency_ms": 50, "parallel": 16}));
        let token = stage.token();
        let engine = |name| Engine {
            name,
            process: None,
        };
        let mut soak = Self {
            began: Instant::now(),
            random: fastrand::Rng::with_seed(seed),
            folder,
            servers,
            stage,
            engines: names.map(engine).into(),
            running: Vec::new(),
            ended: 0,
            kills: 0,
            restarts: 0,
            fail_overs: 0,
            stops: 0,
            samples: Vec::new(),
            behind_max: 0,
            gate_answers: BTreeMap::new(),
            http: reqwest::Client::new(),
            runtime: tokio::runtime::Runtime::new().unwrap(),
            token,
        };
        for at in 0..soak.engines.len() {
            soak.start(at);
        }
        soak
    }

    fn start(&mut self, at: usize) {
        let name = self.engines[at].name;
        let config = self.stage.path(&format!("{name}.toml"));
        let line = format!(
            "--engine --config {} --socket {}",
            config.display(),
            self.socket(at)
        );
        self.engines[at].process = Some(self.stage.start(&line));
    }

    /// Restarts the engines that have ended, as a service manager does, and prints why each ended. An engine ends if
    /// a verb was serving the engine's socket when the engine started.
    fn restart_ended(&mut self) {
        for at in 0..self.engines.len() {
            let process = self.engines[at].process.as_mut();
            if let Some(process) = process
                && process.has_ended()
            {
                println!("an engine ended by itself: {}", last_lines(&process.err()));
                self.start(at);
            }
        }
    }

    fn socket(&self, at: usize) -> String {
        let socket = self.stage.path(&format!("{}.sock", self.engines[at].name));
        socket.display().to_string()
    }

    /// Restarts ended engines, requests new deletions, causes a fault, requests new ports on networks that are being
    /// deleted, and checks the states of the deletions.
    fn round(&mut self) {
        self.restart_ended();
        while self.running.len() < RUNNING_MAX && self.request_deletion() {}
        self.cause_fault();
        for _ in 0..self.random.usize(5..30) {
            self.try_to_add_ports();
            std::thread::sleep(Duration::from_millis(100));
        }
        self.take_samples();
        self.remove_ended();
    }

    /// Requests a deletion from an engine. Returns whether it was accepted.
    fn request_deletion(&mut self) -> bool {
        let name = format!("n{}", self.random.u64(..));
        let network = self.stage.network(&name, PORTS);
        let at = self.random.usize(..self.engines.len());
        let line = format!(
            "--socket {} delete network/{network} --cascade --yes -o json",
            self.socket(at)
        );
        let ran = self.stage.gone(&line);
        let Some(id) = (ran.code == Some(0)).then(|| text(&ran.json()["id"])) else {
            return false;
        };
        self.running.push(Deletion { id, network });
        true
    }

    /// Causes a random fault, or none: kills an engine or a server, promotes the standby, or stops an engine for a
    /// while.
    fn cause_fault(&mut self) {
        let at = self.random.usize(..self.engines.len());
        let pause = Duration::from_millis(self.random.u64(..3_000));
        match self.random.u8(..10) {
            0..3 => {
                self.kills += 1;
                if let Some(process) = self.engines[at].process.take() {
                    process.kill();
                }
                std::thread::sleep(Duration::from_millis(self.random.u64(..7_000)));
                self.start(at);
            }
            3..5 => {
                self.restarts += 1;
                self.servers.primary.kill();
                std::thread::sleep(pause);
                self.servers.primary.restart();
            }
            // No commit succeeds until the standby runs again.
            5 => {
                self.restarts += 1;
                self.servers.standby.kill();
                std::thread::sleep(pause);
                self.servers.standby.restart();
            }
            6 => {
                self.fail_overs += 1;
                self.servers.fail_over(pause);
            }
            7..9 => {
                self.stops += 1;
                if let Some(process) = &self.engines[at].process {
                    process.signal(Signal::STOP);
                    std::thread::sleep(Duration::from_millis(self.random.u64(..9_000)));
                    process.signal(Signal::CONT);
                }
            }
            _ => {}
        }
    }

    /// Requests, at each gate, a new port on a network whose deletion was accepted. Asserts that a gate that answers
    /// refuses the port.
    fn try_to_add_ports(&mut self) {
        let Some(deletion) = self.random.choice(&self.running) else {
            return;
        };
        let gates = self.engines.iter().filter_map(|engine| {
            let log = engine.process.as_ref()?.err();
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut open = lines.filter(|line| line["message"] == "a gate is open");
            open.next().map(|line| text(&line["address"]))
        });
        for gate in gates.collect::<Vec<_>>() {
            let url = format!("http://{gate}/RegionOne/network/v2.0/ports");
            let port = json!({"port": {"network_id": deletion.network, "name": "late"}});
            let request = self.http.post(url).header("x-auth-token", &self.token);
            let request = request.json(&port).timeout(Duration::from_secs(1));
            // A stopped gate does not answer.
            let sending = async { request.send().await };
            if let Ok(answer) = self.runtime.block_on(sending) {
                let status = answer.status().as_u16();
                assert!(
                    [404, 409, 502, 503, 504].contains(&status),
                    "a gate let a port be added to {}: {status}",
                    deletion.network
                );
                *self.gate_answers.entry(status).or_default() += 1;
            }
        }
    }

    /// Reads the memory and the open files of each engine, and how far the gates are behind.
    fn take_samples(&mut self) {
        for engine in &self.engines {
            let Some(pid) = engine.process.as_ref().map(Running::pid) else {
                continue;
            };
            let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kilobytes =
                memory.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            self.samples.push(Sample {
                at: self.began.elapsed(),
                megabytes: kilobytes.unwrap_or_default() / 1_024.0,
                files: files as f64,
            });
        }
        let at = self.random.usize(..self.engines.len());
        let listed = format!("--socket {} list engines -o json", self.socket(at));
        let listed = self.stage.gone(&listed);
        if listed.code == Some(0) {
            let listed = listed.json();
            let rows = listed.as_array().unwrap().iter();
            let alive = rows.filter(|row| row["role"] != "lost");
            let behind = alive.filter_map(|row| row["behind"].as_u64());
            self.behind_max = self.behind_max.max(behind.max().unwrap_or_default());
        }
    }

    /// Prints the median of a value in the first and in the last third of the time, and its maximum. Asserts in a
    /// long run that the value does not grow; in a short one, engines still fill their memory in the first third.
    fn check_growth(&self, what: &str, of: impl Fn(&Sample) -> f64) {
        let third = self.began.elapsed() / 3;
        let median = |is_in: &dyn Fn(&Sample) -> bool| {
            let mut values: Vec<f64> = self
                .samples
                .iter()
                .filter(|it| is_in(it))
                .map(&of)
                .collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        let (first, last) = (
            median(&|it| it.at < third),
            median(&|it| it.at >= 2 * third),
        );
        let most = self.samples.iter().map(&of).fold(0.0, f64::max);
        println!(
            "{what} of an engine: {first:.0} in the first third, {last:.0} in the last third: ratio {:.2} (goal <= {GROWTH_MAX}); at most {most:.0}",
            last / first
        );
        let is_long = third > Duration::from_secs(5 * 60);
        assert!(!is_long || last <= first * GROWTH_MAX, "{what} grows");
    }

    /// Removes from `running` the deletions that are gone. Asserts that none in `running` is stuck or unknown.
    fn remove_ended(&mut self) {
        let at = self.random.usize(..self.engines.len());
        let listed = self.stage.gone(&format!(
            "--socket {} list deletions -o json",
            self.socket(at)
        ));
        if listed.code != Some(0) {
            return;
        }
        let listed = listed.json();
        let rows = listed.as_array().unwrap();
        let states: BTreeMap<&str, &str> = rows
            .iter()
            .map(|row| (row["id"].as_str().unwrap(), row["state"].as_str().unwrap()))
            .collect();
        let before = self.running.len();
        for deletion in &self.running {
            let state = states.get(deletion.id.as_str()).copied();
            assert!(
                matches!(state, Some("planning" | "running" | "gone")),
                "deletion {} is in state {state:?}",
                deletion.id
            );
        }
        self.running
            .retain(|deletion| states.get(deletion.id.as_str()) != Some(&"gone"));
        self.ended += before - self.running.len();
    }

    /// Waits until every deletion is gone. Asserts that no port was added and only deletes were sent, few of them
    /// twice.
    fn end(mut self) {
        for at in 0..self.engines.len() {
            if self.engines[at].process.is_none() {
                self.start(at);
            }
        }
        let since = Instant::now();
        while !self.running.is_empty() {
            assert!(
                since.elapsed() < END_TIMEOUT,
                "{} deletions did not end",
                self.running.len()
            );
            std::thread::sleep(Duration::from_millis(200));
            self.remove_ended();
            self.take_samples();
        }
        let late = self.stage.list("ports");
        assert!(late.iter().all(|port| port["name"] != "late"), "{late:?}");
        let mut deletes: BTreeMap<String, usize> = BTreeMap::new();
        for call in self.stage.writes() {
            assert!(call.method == "DELETE", "{} {}", call.method, call.path);
            *deletes.entry(call.path).or_default() += 1;
        }
        let repeated = deletes.values().filter(|times| **times > 1).count();
        let in_flight = 12 * (self.kills + self.restarts + self.fail_overs + self.stops);
        assert!(repeated <= in_flight, "{repeated} deletes were repeated");
        println!(
            "{} deletions ended, {} deletes sent, {repeated} of them more than once; {} kills and {} stops of engines, \
             {} restarts of a server, {} promotions; answers of the gates by status: {:?}",
            self.ended,
            deletes.len(),
            self.kills,
            self.stops,
            self.restarts,
            self.fail_overs,
            self.gate_answers
        );
        self.check_growth("memory in MB", |it| it.megabytes);
        self.check_growth("open files", |it| it.files);
        println!(
            "gates: at most {} changes behind the ledger",
            self.behind_max
        );
        let checked = self.stage.gone("ledger check").ok();
        println!("{}", checked.out.trim().lines().last().unwrap_or_default());
        let names: BTreeSet<&str> = self.engines.iter().map(|engine| engine.name).collect();
        println!("engines {names:?}: every accepted deletion is gone");
    }
}

/// The last lines that a program wrote to standard error.
fn last_lines(err: &str) -> String {
    let lines: Vec<&str> = err.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
