//! What the engine costs: memory with many live steps, calls and time for many deletes, and what it
//! does when there is nothing to do. Engine and practice cloud are processes of their own, as in use.
//!
//! `--smoke` runs small and proves only that all of it works.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "../testbed/api.rs"]
mod api;
mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::{Api, text};
use serde_json::{Value, json};
use support::{Timeline, per_second, plain, timeline};

const LIVE_MEMORY_MB_MAX: u64 = 300;
const REST: Duration = Duration::from_secs(10);
const LATENCY_MS: u32 = 20;
const PARALLEL: usize = 64;
const PORTS_PER_NETWORK: usize = 1000;
const DEADLINE: Duration = Duration::from_secs(900);

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    at_rest_and_live(
        if smoke { 2_000 } else { 100_000 },
        if smoke { REST / 5 } else { REST },
    );
    for ports in if smoke { [200, 1_000] } else { [1_000, 10_000] } {
        deleting(ports);
    }
}

/// An engine without work, and one with many steps that it may not touch.
fn at_rest_and_live(steps: usize, rest: Duration) {
    let stage = Stage::start();
    println!("engine without work: {}", stage.resting(rest));
    let id = stage.delete(steps);
    // From the plan on, its steps are live; nothing is sent while it is paused.
    stage.until(&id, |deletion| deletion["counts"]["total"] != 0);
    stage.gone(&format!("pause {id}"));
    stage.until(&id, |deletion| deletion["counts"]["running"] == 0);
    let counts = stage.deletion(&id)["counts"].clone();
    let live = counts["total"].as_u64().unwrap() - counts["gone"].as_u64().unwrap();
    println!("{live} live steps, paused: {}", stage.resting(rest));
    let (now, most) = (stage.memory_mb("VmRSS"), stage.memory_mb("VmHWM"));
    println!(
        "{live} live steps: {now} MB (goal < {LIVE_MEMORY_MB_MAX}), at most {most} MB while planning"
    );
}

/// One deletion of so many ports, and the same number by plain calls.
fn deleting(ports: usize) {
    let stage = Stage::start();
    stage.limits();
    let began = Instant::now();
    let id = stage.delete(ports);
    let deletion = stage.until(&id, |deletion| deletion["state"] == "gone");
    let whole = began.elapsed();
    let calls = stage.calls();
    let steps = deletion["counts"]["total"].as_u64().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = stage.home.path().join("state/gone/ledger.db");
    let Timeline { deletes, rest } = runtime.block_on(timeline(&ledger, &id, ports));
    let ours = per_second(ports, deletes);

    let stage = Stage::start();
    stage.limits();
    let networks = stage.seed(ports);
    let api = Api::new(
        &stage.home.path().join("clouds.yaml"),
        "sandbox",
        "RegionOne",
    );
    let mut doomed = Vec::new();
    for network in networks {
        let rows = api.rows("ports", &format!("network_id={network}"));
        let rows = rows
            .iter()
            .filter(|row| row["device_owner"] != "network:dhcp");
        doomed.extend(rows.map(|row| text(&row["id"])));
    }
    assert_eq!(doomed.len(), ports);
    let took = runtime.block_on(plain(&api.network_url, &api.token, doomed, PARALLEL));
    let theirs = per_second(ports, took);
    let ideal = PARALLEL as f64 * 1000.0 / f64::from(LATENCY_MS);

    println!(
        "{ports} ports at {LATENCY_MS} ms, {PARALLEL} in parallel: {ours:.0} deletes/s; {:.2} of plain calls ({theirs:.0}/s), {:.2} of the ideal ({ideal:.0}/s); {:.1} s after the last one; {:.1} s in all",
        ours / theirs,
        ours / ideal,
        rest.as_secs_f64(),
        whole.as_secs_f64(),
    );
    let of = |fits: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| fits(call)).count();
    let deletes = of(&|call| call.method == "DELETE");
    let lists = of(&|call| call.is_list());
    let others = calls.len() - deletes - lists;
    // By N14: pages of 500 ports and one more for each other kind, to plan and to verify.
    println!(
        "{ports} ports: {steps} steps, {deletes} deletes, {lists} lists, {others} other calls ({})",
        summed_up(&calls)
    );
    assert!(deletes as u64 <= steps, "more deletes than steps");
    assert!(others <= 20, "more than 20 other calls");
}

struct Call {
    method: String,
    path: String,
}

impl Call {
    /// `/v2.0/ports?…`, and not `/v2.0/ports/ID`.
    fn is_list(&self) -> bool {
        let path = self.path.split('?').next().unwrap();
        let behind = path.split("/v2.0/").nth(1);
        self.method == "GET"
            && behind.is_some_and(|path| !path.contains('/') || path == "qos/policies")
    }
}

/// How often each path was listed or read.
fn summed_up(calls: &[Call]) -> String {
    let mut counts = BTreeMap::new();
    for call in calls.iter().filter(|call| call.method == "GET") {
        let path = call.path.split('?').next().unwrap();
        let path = path.split("/v2.0/").nth(1).unwrap_or(path);
        let many = path.rsplit_once('/').filter(|_| !call.is_list());
        let path = many.map_or(path.to_owned(), |(folder, _)| format!("{folder}/ID"));
        *counts.entry(path).or_insert(0) += 1;
    }
    let counts = counts.iter().map(|(path, count)| format!("{path} {count}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// Ends the process when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Stage {
    home: tempfile::TempDir,
    url: String,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    engine: Ended,
    _cloud: Ended,
}

impl Stage {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut cloud = command(&home, "sandbox --clouds-yaml clouds.yaml")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(cloud.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let log = std::fs::File::create(home.path().join("engine.log")).unwrap();
        let engine = command(&home, "--cloud sandbox --engine")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let stage = Self {
            url: text(&ready["url"]),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            client: reqwest::Client::new(),
            engine: Ended(engine),
            _cloud: Ended(cloud),
            home,
        };
        let ledger = stage.home.path().join("state/gone/ledger.db");
        wait_for("the engine", || {
            let owner = gone::ledger::sqlite::owner(&ledger);
            owner.is_some_and(|owner| owner.pid == stage.engine.0.id() && owner.socket.is_some())
        });
        stage
    }

    fn control(&self, method: &str, what: &str, body: Value) -> Value {
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

    fn limits(&self) {
        let limits = json!({"region": "RegionOne", "latency_ms": LATENCY_MS, "parallel": PARALLEL});
        self.control("PUT", "limits", limits);
    }

    fn seed(&self, ports: usize) -> Vec<String> {
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

    /// Seeds, and has it all deleted; answers the deletion's id.
    fn delete(&self, ports: usize) -> String {
        let networks = self.seed(ports).into_iter();
        let targets: Vec<String> = networks.map(|id| format!("network/{id}")).collect();
        let line = format!("delete {} --cascade --yes -o json", targets.join(" "));
        let accepted: Value = serde_json::from_str(&self.gone(&line)).unwrap();
        text(&accepted["id"])
    }

    fn gone(&self, line: &str) -> String {
        let output = command(&self.home, &format!("--cloud sandbox {line}"))
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {:?} {err}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Read from the ledger: asking the engine would be work for it.
    fn deletion(&self, id: &str) -> Value {
        use gone::ledger::Ledger as _;
        let path = self.home.path().join("state/gone/ledger.db");
        let ledger = gone::ledger::sqlite::SqliteLedger::open_reader(&path).unwrap();
        let deletion = self.runtime.block_on(ledger.deletion(id)).unwrap();
        serde_json::to_value(deletion.unwrap()).unwrap()
    }

    fn until(&self, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut deletion = Value::Null;
        wait_for("the deletion to get there", || {
            deletion = self.deletion(id);
            fits(&deletion)
        });
        deletion
    }

    /// What the engine called, logins aside.
    fn calls(&self) -> Vec<Call> {
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

    fn memory_mb(&self, what: &str) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(what)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            / 1024
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.engine.0.id())).unwrap()
    }

    /// CPU time and how often any of its threads was woken, after it has come to rest.
    fn resting(&self, rest: Duration) -> String {
        std::thread::sleep(Duration::from_secs(1));
        let (cpu, wakes) = (self.cpu_ms(), self.wakes());
        std::thread::sleep(rest);
        let cpu = self.cpu_ms() - cpu;
        let woken = |(thread, count): (OsString, u64)| count - wakes.get(&thread).unwrap_or(&0);
        let wakes: u64 = self.wakes().into_iter().map(woken).sum();
        let seconds = rest.as_secs();
        format!(
            "{cpu} ms of CPU and {wakes} wake-ups in {seconds} s, {} MB",
            self.memory_mb("VmRSS")
        )
    }

    /// To 10 ms, the kernel's tick.
    fn cpu_ms(&self) -> u64 {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
        (ticks(11) + ticks(12)) * 10
    }

    /// By thread: one that ends takes its count with it.
    fn wakes(&self) -> BTreeMap<OsString, u64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.engine.0.id())).unwrap();
        let woken = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt"))?;
            let count = line.split_whitespace().nth(1)?.parse().ok()?;
            Some((thread.file_name(), count))
        };
        threads.filter_map(|thread| woken(thread.ok()?)).collect()
    }
}

fn command(home: &tempfile::TempDir, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gone"));
    command
        .args(line.split_whitespace())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path().join("config"))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("OS_CLIENT_CONFIG_FILE", home.path().join("clouds.yaml"))
        .current_dir(home.path())
        .stdin(Stdio::null());
    command
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
