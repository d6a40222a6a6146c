//! Three engines, two of them with gates, on one PostgreSQL, while deletions keep arriving and engines and server are
//! killed, stopped and restarted at random: nothing is lost, nothing is sent that was not approved, no gate tells an old
//! truth, and memory and files stay flat.
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
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use server::OwnServer;
use stage::{Running, Stage, text};

const PORTS: u32 = 8;
/// Deletions under way at a time, at most.
const UNDER_WAY: usize = 6;
/// From the last fault on, everything ends within this.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
/// In a second (`man 5 proc`).
const CLOCK_TICKS: f64 = 100.0;
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
    /// Memory in MB and open files, when it was last looked at; the first time, and the most.
    first: Option<(u64, usize)>,
    most: (u64, usize),
    kills: usize,
}

struct Deletion {
    id: String,
    network: String,
}

struct Soak {
    random: fastrand::Rng,
    folder: tempfile::TempDir,
    server: OwnServer,
    stage: Stage,
    engines: Vec<Engine>,
    under_way: Vec<Deletion>,
    ended: usize,
    /// Deletes in flight that a kill may have repeated.
    kills: usize,
    restarts: usize,
    stops: usize,
    refused_by_gates: BTreeMap<u16, usize>,
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    token: String,
}

impl Soak {
    fn begin(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = OwnServer::start(folder.path());
        let address = server.address_of("soak");
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
            first: None,
            most: (0, 0),
            kills: 0,
        };
        let mut soak = Self {
            random: fastrand::Rng::with_seed(seed),
            folder,
            server,
            stage,
            engines: names.map(engine).into(),
            under_way: Vec::new(),
            ended: 0,
            kills: 0,
            restarts: 0,
            stops: 0,
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

    fn socket(&self, at: usize) -> String {
        let socket = self.stage.path(&format!("{}.sock", self.engines[at].name));
        socket.display().to_string()
    }

    /// New deletions, a fault, and a look at everything.
    fn round(&mut self) {
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
        match self.random.u8(..10) {
            0..4 => {
                self.kills += 1;
                self.engines[at].kills += 1;
                if let Some(running) = self.engines[at].running.take() {
                    running.kill();
                }
                self.engines[at].first = None;
                std::thread::sleep(Duration::from_millis(self.random.u64(..7_000)));
                self.start(at);
            }
            4..6 => {
                self.restarts += 1;
                self.server.kill();
                std::thread::sleep(Duration::from_millis(self.random.u64(..3_000)));
                self.server.restart();
            }
            6..8 => {
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
        for engine in &mut self.engines {
            let Some(pid) = engine.running.as_ref().map(Running::pid) else {
                continue;
            };
            let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kilobytes =
                memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            let now = (kilobytes.unwrap_or_default() / 1_024, files);
            engine.first.get_or_insert(now);
            engine.most = (engine.most.0.max(now.0), engine.most.1.max(now.1));
        }
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

    /// What the engines cost that have nothing to do.
    fn rest(&self) {
        let statements = || {
            let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
            self.server.run_sql(sql).trim().parse::<u64>().unwrap()
        };
        // A session that has nothing to do any more reports what it did within 10 s.
        std::thread::sleep(Duration::from_secs(12));
        let engines = self.engines.len() as f64;
        let (since, before, ticks) = (Instant::now(), statements(), self.cpu_ticks());
        std::thread::sleep(Duration::from_secs(10));
        let (after, ticks) = (statements(), self.cpu_ticks() - ticks);
        let seconds = since.elapsed().as_secs_f64();
        println!(
            "at rest, each engine: {:.1} transactions a second (goal <= 5), {:.2} % of a core (goal <= 1)",
            (after - before) as f64 / seconds / engines,
            ticks as f64 / CLOCK_TICKS / seconds / engines * 100.0
        );
    }

    /// The time that the engines have used.
    fn cpu_ticks(&self) -> u64 {
        let pids = self
            .engines
            .iter()
            .filter_map(|engine| engine.running.as_ref());
        let ticks = pids.map(|running| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
            let (_, after_name) = stat.rsplit_once(')').unwrap();
            let fields: Vec<&str> = after_name.split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        });
        ticks.sum()
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
        let in_flight = 12 * (self.kills + self.restarts + self.stops);
        assert!(repeated <= in_flight, "{repeated} deletes were repeated");
        println!(
            "{} deletions ended, {} deletes sent, {repeated} of them again; {} kills, {} stops, \
             {} restarts of the server; gates answered {:?}",
            self.ended,
            deletes.len(),
            self.kills,
            self.stops,
            self.restarts,
            self.refused_by_gates
        );
        for engine in &self.engines {
            println!(
                "engine {}: {} kills; MB and files at first {:?}, at most {:?}",
                engine.name, engine.kills, engine.first, engine.most
            );
        }
        self.rest();
        let names: BTreeSet<&str> = self.engines.iter().map(|engine| engine.name).collect();
        println!("engines {names:?}: everything that was accepted is gone");
    }
}
