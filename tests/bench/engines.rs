//! One, two, four and eight engines on one PostgreSQL: how long they take for the same deletion, until the site's limit
//! is reached, and what each of them costs at rest.
//!
//! One engine alone is soon faster than the cores of a small machine allow several to be. So an engine is given few
//! calls at a time here, each of which sleeps, and the limit of the site, which they share, grows with their number.
//!
//! `--engines N` runs one engine and `N`; `--smoke` runs small and proves only that all of it works. It needs
//! PostgreSQL, as `tests/postgres` does.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "support/process.rs"]
mod process;
#[path = "../postgres/server.rs"]
mod server;
#[path = "../bad_days/support.rs"]
mod stage;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;
use server::OwnServer;
use stage::{Running, Stage, text};

const LATENCY_MS: u32 = 20;
/// The calls at a time that each engine brings.
const CALLS_EACH: usize = 4;
/// The calls at a time that the site takes from all of them.
const SITE_LIMIT: usize = 16;
const NETWORKS: usize = 20;
/// How much of `n` times the speed of one engine `n` engines reach.
const LINEAR_MIN: f64 = 0.85;
const DEADLINE: Duration = Duration::from_secs(600);
/// A session of the server that has nothing to do any more reports what it did within 10 s.
const REPORTED_WITHIN: Duration = Duration::from_secs(12);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let smoke = arguments.iter().any(|argument| argument == "--smoke");
    let only = arguments
        .iter()
        .position(|argument| argument == "--engines");
    let only: Option<usize> = only.and_then(|at| arguments.get(at + 1)?.parse().ok());
    let (mut counts, steps, rest) = match smoke {
        true => (vec![1, 2], 200, Duration::from_secs(2)),
        false => (vec![1, 2, 4, 8], 20_000, Duration::from_secs(30)),
    };
    counts.retain(|count| *count == 1 || only.is_none_or(|only| only == *count));
    let mut alone = None;
    for count in counts {
        let several = Several::start(count);
        several.rest(rest);
        let took = several.delete(steps).as_secs_f64();
        let limit = limit_of(count);
        let ideal = steps as f64 * f64::from(LATENCY_MS) / 1000.0 / limit as f64;
        let alone = *alone.get_or_insert(took);
        println!(
            "engines: {count}, {limit} calls at a time: {steps} steps in {took:.1} s, {:.2} of what the calls allow; {}",
            ideal / took,
            match count * CALLS_EACH <= SITE_LIMIT {
                true => format!(
                    "{:.2} of linear (goal >= {LINEAR_MIN})",
                    alone / took / count as f64
                ),
                false => format!("{:.2} times one engine, at the site's limit", alone / took),
            }
        );
    }
}

/// How many calls at a time so many engines have together.
fn limit_of(engines: usize) -> usize {
    SITE_LIMIT.min(engines * CALLS_EACH)
}

struct Several {
    engines: Vec<Running>,
    stage: Stage,
    server: OwnServer,
    _folder: tempfile::TempDir,
}

impl Several {
    fn start(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = counting_server(&folder);
        let stage = Stage::new();
        stage.limits(json!({"latency_ms": LATENCY_MS, "parallel": 4 * SITE_LIMIT}));
        let limit = limit_of(count);
        let engines = (0..count).map(|at| {
            let file = stage.path(&format!("{at}.toml"));
            let settings = format!(
                "[ledger]\npath = '{}'\n[engine]\nname = 'engine-{at}'\n\
                 concurrency = {limit}\nconcurrency_max = {limit}\n",
                server.url("engines")
            );
            std::fs::write(&file, settings).unwrap();
            let line = format!(
                "--engine --config {} --socket {}",
                file.display(),
                stage.path(&format!("{at}.sock")).display()
            );
            stage.start(&line)
        });
        let engines = engines.collect();
        let mut several = Self {
            engines,
            stage,
            server,
            _folder: folder,
        };
        // A verb that finds no engine at this socket would serve it by itself, and the first engine would end.
        until("the first engine listens", || {
            several.assert_running();
            UnixStream::connect(several.stage.path("0.sock")).is_ok()
        });
        until("all engines work", || {
            several.assert_running();
            let listed = several
                .stage
                .gone(&several.to_first("list engines -o json"));
            listed.code == Some(0) && {
                let listed = listed.json();
                let rows = listed.as_array().unwrap().iter();
                rows.filter(|row| row["role"] != "lost").count() == count
            }
        });
        several
    }

    fn assert_running(&mut self) {
        for engine in &mut self.engines {
            assert!(!engine.has_ended(), "an engine ended: {}", engine.err());
        }
    }

    /// A line for the first of the engines.
    fn to_first(&self, line: &str) -> String {
        format!("--socket {} {line}", self.stage.path("0.sock").display())
    }

    /// Has so many ports deleted. Returns the time from the first delete that the cloud gets to the last, that of a network.
    fn delete(&self, ports: usize) -> Duration {
        let seed = json!({"networks": NETWORKS, "ports_per_network": ports / NETWORKS});
        let seeded = self.stage.seed(seed);
        let networks = seeded["networks"].as_array().unwrap().iter();
        let targets: Vec<String> = networks.map(|id| format!("network/{}", text(id))).collect();
        let line = format!("delete {} --cascade --yes -o json", targets.join(" "));
        let accepted = self.stage.gone(&self.to_first(&line)).ok().json();
        let id = text(&accepted["id"]);
        until("the deletion is gone", || {
            // Asking is work for an engine.
            std::thread::sleep(Duration::from_secs(1));
            let shown = self.to_first(&format!("show {id} -o json"));
            self.stage.gone(&shown).ok().json()["state"] == "gone"
        });
        let writes = self.stage.writes();
        assert!(writes.len() >= ports, "{} of {ports} calls", writes.len());
        let came = writes.iter().map(|call| call.at);
        let (first, last) = (came.clone().min().unwrap(), came.max().unwrap());
        (last - first).to_std().unwrap()
    }

    /// What the engines cost when they have nothing to do.
    fn rest(&self, rest: Duration) {
        std::thread::sleep(REPORTED_WITHIN);
        let (since, statements, cpu) = (Instant::now(), self.statements(), self.cpu_ms());
        std::thread::sleep(rest);
        let (statements, cpu) = (self.statements() - statements, self.cpu_ms() - cpu);
        let seconds = since.elapsed().as_secs_f64() * self.engines.len() as f64;
        println!(
            "engines: {}, at rest, each: {:.1} statements a second (goal <= 5), {:.2} % of a core (goal <= 1)",
            self.engines.len(),
            statements as f64 / seconds,
            cpu as f64 / 1000.0 / seconds * 100.0
        );
    }

    /// Statements that the engines have sent, with those that begin and end transactions.
    fn statements(&self) -> u64 {
        let sql =
            "SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'";
        self.server.run_sql(sql).parse().unwrap()
    }

    /// The time that the engines have used.
    fn cpu_ms(&self) -> u64 {
        let pids = self.engines.iter().map(Running::pid);
        pids.map(process::cpu_ms).sum()
    }
}

/// A server that waits for the disk at each commit, and counts statements.
fn counting_server(folder: &tempfile::TempDir) -> OwnServer {
    let mut server = OwnServer::durable(folder.path());
    server.run_sql("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'");
    server.kill();
    server.restart();
    server.run_sql("CREATE EXTENSION pg_stat_statements");
    server
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
