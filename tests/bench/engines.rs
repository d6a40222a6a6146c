//! Measures one, two, four and eight engines on one PostgreSQL server: how long they take for the same deletion, and
//! what each of them costs at rest.
//!
//! At full speed, one engine alone would use all cores of a small machine. So each engine may have only a few calls
//! in flight here, during which it waits, and the limit of the site, which the engines share, grows with their
//! number, up to [`SITE_LIMIT`].
//!
//! With `--engines N`, the bench measures one engine, and then `N`, which is 2, 4 or 8. With `--smoke`, it runs
//! briefly, with at most two engines, and proves only that it works. It needs PostgreSQL, as `tests/postgres` does.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "support/proc_stats.rs"]
mod proc_stats;
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
/// The most calls in flight for each engine.
const CALLS_EACH: usize = 4;
/// The most calls in flight for all engines together.
const SITE_LIMIT: usize = 16;
const NETWORKS: usize = 20;
/// The least speed of `n` engines, as a share of `n` times the speed of one engine.
const LINEAR_MIN: f64 = 0.85;
const DEADLINE: Duration = Duration::from_secs(600);
/// A session of the server reports its statements within 10 s after it has become idle.
const STATISTICS_DELAY: Duration = Duration::from_secs(12);

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
        let group = Engines::start(count);
        group.print_cost_at_rest(rest);
        let took = group.time_to_delete(steps).as_secs_f64();
        let limit = limit_of(count);
        let ideal = steps as f64 * f64::from(LATENCY_MS) / 1000.0 / limit as f64;
        let alone = *alone.get_or_insert(took);
        println!(
            "{count} engines, {limit} calls in flight: {steps} steps in {took:.1} s, {:.2} times the speed that the calls allow; {}",
            ideal / took,
            match count * CALLS_EACH <= SITE_LIMIT {
                true => format!(
                    "{:.2} times linear speed-up (goal >= {LINEAR_MIN})",
                    alone / took / count as f64
                ),
                false => format!(
                    "{:.2} times the speed of one engine, at the site's limit",
                    alone / took
                ),
            }
        );
    }
}

/// The most calls in flight of this many engines together.
fn limit_of(engines: usize) -> usize {
    SITE_LIMIT.min(engines * CALLS_EACH)
}

/// Engines on one server, with a practice cloud.
struct Engines {
    engines: Vec<Running>,
    stage: Stage,
    server: OwnServer,
    _folder: tempfile::TempDir,
}

impl Engines {
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
        let mut group = Self {
            engines,
            stage,
            server,
            _folder: folder,
        };
        // A verb that finds no engine at this socket starts one of its own there. The first engine would then find the
        // socket taken and end.
        wait_for("the first engine to listen", || {
            group.assert_running();
            UnixStream::connect(group.stage.path("0.sock")).is_ok()
        });
        wait_for("all engines to work", || {
            group.assert_running();
            let listed = group.stage.gone(&group.on_first("list engines -o json"));
            listed.code == Some(0) && {
                let listed = listed.json();
                let rows = listed.as_array().unwrap().iter();
                rows.filter(|row| row["role"] != "lost").count() == count
            }
        });
        group
    }

    /// Panics if an engine has ended.
    fn assert_running(&mut self) {
        for engine in &mut self.engines {
            assert!(!engine.has_ended(), "an engine ended: {}", engine.err());
        }
    }

    /// The arguments of a verb that calls the first of the engines.
    fn on_first(&self, line: &str) -> String {
        format!("--socket {} {line}", self.stage.path("0.sock").display())
    }

    /// Deletes this many ports with their networks. Returns the time from the first delete that reaches the cloud to
    /// the last.
    fn time_to_delete(&self, ports: usize) -> Duration {
        let seed = json!({"networks": NETWORKS, "ports_per_network": ports / NETWORKS});
        let seeded = self.stage.seed(seed);
        let networks = seeded["networks"].as_array().unwrap().iter();
        let targets: Vec<String> = networks.map(|id| format!("network/{}", text(id))).collect();
        let line = format!("delete {} --cascade --yes -o json", targets.join(" "));
        let accepted = self.stage.gone(&self.on_first(&line)).ok().json();
        let id = text(&accepted["id"]);
        wait_for("the deletion to be gone", || {
            // Each request is work for an engine, so there is at most one a second.
            std::thread::sleep(Duration::from_secs(1));
            let shown = self.on_first(&format!("show {id} -o json"));
            self.stage.gone(&shown).ok().json()["state"] == "gone"
        });
        let writes = self.stage.writes();
        assert!(
            writes.len() >= ports,
            "{} calls for {ports} ports",
            writes.len()
        );
        let times = writes.iter().map(|call| call.at);
        let (first, last) = (times.clone().min().unwrap(), times.max().unwrap());
        (last - first).to_std().unwrap()
    }

    /// Measures the engines while they have no work.
    fn print_cost_at_rest(&self, rest: Duration) {
        std::thread::sleep(STATISTICS_DELAY);
        let (since, statements, cpu) = (Instant::now(), self.statements(), self.cpu_ms());
        std::thread::sleep(rest);
        let (statements, cpu) = (self.statements() - statements, self.cpu_ms() - cpu);
        let seconds = since.elapsed().as_secs_f64() * self.engines.len() as f64;
        println!(
            "{} engines at rest, each: {:.1} statements a second (goal <= 5), {:.2} % of a core (goal <= 1)",
            self.engines.len(),
            statements as f64 / seconds,
            cpu as f64 / 1000.0 / seconds * 100.0
        );
    }

    /// The number of statements that the engines have sent so far, including those that begin and end transactions.
    fn statements(&self) -> u64 {
        let sql =
            "SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'";
        self.server.run_sql(sql).parse().unwrap()
    }

    /// The processor time that all engines together have used so far, in ms.
    fn cpu_ms(&self) -> u64 {
        let pids = self.engines.iter().map(Running::pid);
        pids.map(proc_stats::cpu_ms).sum()
    }
}

/// Starts a server that waits for the disk at each commit, and counts statements.
fn counting_server(folder: &tempfile::TempDir) -> OwnServer {
    let mut server = OwnServer::durable(folder.path());
    server.run_sql("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'");
    server.kill();
    server.restart();
    server.run_sql("CREATE EXTENSION pg_stat_statements");
    server
}

/// Waits until a condition is true; panics after [`DEADLINE`].
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < DEADLINE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
