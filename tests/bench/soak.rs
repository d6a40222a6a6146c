//! Three engines, two of them with gates, on one PostgreSQL with a synchronous standby, while deletions keep arriving
//! and engines and servers are killed, stopped, restarted and promoted at random: nothing is lost, nothing is sent that
//! was not approved, no gate tells an old truth, and memory, files and what gates are behind stay flat.
//!
//! `--minutes N` (30 if not given), `--seed N`; `--smoke` runs for half a minute. It needs PostgreSQL, as
//! `tests/postgres` does.
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
/// Deletions under way at a time, at most.
const UNDER_WAY: usize = 6;
/// How many times the memory and files of the first third of the time engines may have in the last.
const GROWTH_MAX: f64 = 1.25;
/// From the last fault on, everything ends within this.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
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

/// One of the engines.
struct Engine {
    name: &'static str,
    running: Option<Running>,
}

/// A primary, and the standby that it waits for at each commit.
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

    /// The schema on the one of them that takes writes.
    fn url(&self, schema: &str) -> String {
        let [one, other] = [&self.primary, &self.standby].map(|it| it.folder().display());
        format!("postgres://postgres@/postgres?host={one},{other}&schema={schema}")
    }

    /// The primary is lost for good. Its standby takes over, and has a new standby in the place of the lost one.
    fn fail_over(&mut self, after: Duration) {
        self.primary.kill();
        std::thread::sleep(after);
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
        let lost = self.standby.folder().to_owned();
        let data = lost.join("data");
        // The lost one's processes notice its end by themselves, and still write for a moment.
        let since = Instant::now();
        while data.exists() {
            let removed = std::fs::remove_dir_all(&data);
            assert!(since.elapsed() < ENDS_WITHIN, "{removed:?}");
        }
        self.standby = self.primary.with_standby(&lost);
    }
}

/// What an engine holds at a moment.
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
    under_way: Vec<Deletion>,
    ended: usize,
    kills: usize,
    restarts: usize,
    fail_overs: usize,
    stops: usize,
    samples: Vec<Sample>,
    /// Changes to tombstones that a gate did not have yet, at most.
    behind_most: u64,
    refused_by_gates: BTreeMap<u16, usize>,
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
        // The verbs read these.
        stage.settings(&common("verb"));
        stage.limits(json!({"latency_ms": 50, "parallel": 16}));
        let token = stage.token();
        let engine = |name| Engine {
            name,
            running: None,
        };
        let mut soak = Self {
            began: Instant::now(),
            random: fastrand::Rng::with_seed(seed),
            folder,
            servers,
            stage,
            engines: names.map(engine).into(),
            under_way: Vec::new(),
            ended: 0,
            kills: 0,
            restarts: 0,
            fail_overs: 0,
            stops: 0,
            samples: Vec::new(),
            behind_most: 0,
            refused_by_gates: BTreeMap::new(),
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
        self.engines[at].running = Some(self.stage.start(&line));
    }

    /// Starts an engine again that has ended, as a service manager does, and prints why it ended: a verb may have
    /// served its socket when it started.
    fn start_ended(&mut self) {
        for at in 0..self.engines.len() {
            let running = self.engines[at].running.as_mut();
            if let Some(running) = running
                && running.has_ended()
            {
                println!("an engine ended by itself: {}", last_words(&running.err()));
                self.start(at);
            }
        }
    }

    fn socket(&self, at: usize) -> String {
        let socket = self.stage.path(&format!("{}.sock", self.engines[at].name));
        socket.display().to_string()
    }

    /// New deletions, a fault, and a look at everything.
    fn round(&mut self) {
        self.start_ended();
        while self.under_way.len() < UNDER_WAY && self.accept() {}
        self.fault();
        for _ in 0..self.random.usize(5..30) {
            self.ask_gates();
            std::thread::sleep(Duration::from_millis(100));
        }
        self.look();
        self.take_ended();
    }

    /// Asks an engine for a deletion. Returns whether it was accepted.
    fn accept(&mut self) -> bool {
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
        self.under_way.push(Deletion { id, network });
        true
    }

    fn fault(&mut self) {
        let at = self.random.usize(..self.engines.len());
        let pause = Duration::from_millis(self.random.u64(..3_000));
        match self.random.u8(..10) {
            0..3 => {
                self.kills += 1;
                if let Some(running) = self.engines[at].running.take() {
                    running.kill();
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
            // Nothing is committed until it is back.
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
                if let Some(running) = &self.engines[at].running {
                    running.signal(Signal::STOP);
                    std::thread::sleep(Duration::from_millis(self.random.u64(..9_000)));
                    running.signal(Signal::CONT);
                }
            }
            _ => {}
        }
    }

    /// Whatever has been accepted takes no new port, by any gate, at any time.
    fn ask_gates(&mut self) {
        let Some(deletion) = self.random.choice(&self.under_way) else {
            return;
        };
        let gates = self.engines.iter().filter_map(|engine| {
            let said = engine.running.as_ref()?.err();
            let lines = said
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
            // A gate that is stopped answers nothing.
            let sending = async { request.send().await };
            if let Ok(answer) = self.runtime.block_on(sending) {
                let status = answer.status().as_u16();
                assert!(
                    [404, 409, 502, 503, 504].contains(&status),
                    "a gate let a port be added to {}: {status}",
                    deletion.network
                );
                *self.refused_by_gates.entry(status).or_default() += 1;
            }
        }
    }

    fn look(&mut self) {
        for engine in &self.engines {
            let Some(pid) = engine.running.as_ref().map(Running::pid) else {
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
            self.behind_most = self.behind_most.max(behind.max().unwrap_or_default());
        }
    }

    /// The median in the first third of the time and in the last, and the most. In a short run, engines are still
    /// filling their memory in the first third.
    fn over_time(&self, what: &str, of: impl Fn(&Sample) -> f64) {
        let third = self.began.elapsed() / 3;
        let median = |fits: &dyn Fn(&Sample) -> bool| {
            let mut found: Vec<f64> = self.samples.iter().filter(|it| fits(it)).map(&of).collect();
            found.sort_by(f64::total_cmp);
            found.get(found.len() / 2).copied().unwrap_or_default()
        };
        let (first, last) = (
            median(&|it| it.at < third),
            median(&|it| it.at >= 2 * third),
        );
        let most = self.samples.iter().map(&of).fold(0.0, f64::max);
        println!(
            "{what} of an engine: {first:.0} in the first third, {last:.0} in the last: {:.2} (goal <= {GROWTH_MAX}); at most {most:.0}",
            last / first
        );
        let is_long = third > Duration::from_secs(5 * 60);
        assert!(!is_long || last <= first * GROWTH_MAX, "{what} grows");
    }

    /// Forgets the deletions that have ended.
    fn take_ended(&mut self) {
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
        let before = self.under_way.len();
        for deletion in &self.under_way {
            let state = states.get(deletion.id.as_str()).copied();
            assert!(
                matches!(state, Some("planning" | "running" | "gone")),
                "{} is {state:?}",
                deletion.id
            );
        }
        self.under_way
            .retain(|deletion| states.get(deletion.id.as_str()) != Some(&"gone"));
        self.ended += before - self.under_way.len();
    }

    /// Everything ends, and what was sent is what was approved.
    fn end(mut self) {
        for at in 0..self.engines.len() {
            if self.engines[at].running.is_none() {
                self.start(at);
            }
        }
        let since = Instant::now();
        while !self.under_way.is_empty() {
            assert!(
                since.elapsed() < ENDS_WITHIN,
                "{} do not end",
                self.under_way.len()
            );
            std::thread::sleep(Duration::from_millis(200));
            self.take_ended();
            self.look();
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
            "{} deletions ended, {} deletes sent, {repeated} of them again; {} kills and {} stops of engines, \
             {} restarts of a server, {} promotions; gates answered {:?}",
            self.ended,
            deletes.len(),
            self.kills,
            self.stops,
            self.restarts,
            self.fail_overs,
            self.refused_by_gates
        );
        self.over_time("memory in MB", |it| it.megabytes);
        self.over_time("open files", |it| it.files);
        println!("gates: at most {} changes behind", self.behind_most);
        let checked = self.stage.gone("ledger check").ok();
        println!("{}", checked.out.trim().lines().last().unwrap_or_default());
        let names: BTreeSet<&str> = self.engines.iter().map(|engine| engine.name).collect();
        println!("engines {names:?}: everything that was accepted is gone");
    }
}

/// The last lines of what a program wrote to standard error.
fn last_words(err: &str) -> String {
    let lines: Vec<&str> = err.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
