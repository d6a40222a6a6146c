//! Compares the gate with nginx, in front of the same service. Both share the cores of this machine with the service
//! and the clients. Needs `nginx`, `wrk` and `h2load` (Debian: nginx-light, wrk, nghttp2-client).
//!
//! With `--smoke`, the bench runs briefly and proves only that it works.
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
#[path = "support/fixture.rs"]
mod fixture;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use fixture::{
    ChildGuard, add_tombstones, command, gate_address, median, memory_mb, practice_cloud, wait_for,
    write_settings,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const TOMBSTONES: usize = 1_000_000;
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 5;
/// The path of a network that was never deleted.
const PATH: &str = "/v2.0/networks/4fdb1c2e-0000-4000-8000-5d0c1a7b9e11";
const TOKEN: &str = "X-Auth-Token: gAAAAABm3Zc8Yb2Kd5";

struct Scale {
    tombstones: usize,
    rounds: usize,
    /// Duration of one measurement.
    seconds: usize,
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let scale = match smoke {
        true => Scale {
            tombstones: 1_000,
            rounds: 1,
            seconds: 1,
        },
        false => Scale {
            tombstones: TOMBSTONES,
            rounds: ROUNDS,
            seconds: 4,
        },
    };
    let home = tempfile::tempdir().unwrap();
    let [upstream, keepalive, plain] = free_ports();
    let _service = nginx(
        &home,
        "upstream",
        &[("UPSTREAM", &upstream), ("BODY", &body())],
    );
    let proxy_ports = [
        ("UPSTREAM", &upstream),
        ("KEEPALIVE", &keepalive),
        ("PLAIN", &plain),
        // nginx gets as many workers as the gate has threads.
        ("WORKERS", &available_parallelism().unwrap().to_string()),
    ];
    let _proxy = nginx(&home, "proxy", &proxy_ports);
    let (_cloud, keystone) = practice_cloud(&home);
    let gate = Gate::start(&home, &keystone, &upstream, scale.tombstones);
    let urls =
        [&gate.port, &keepalive, &plain].map(|port| format!("http://127.0.0.1:{port}{PATH}"));

    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..scale.rounds {
        for (url, rates) in urls.iter().zip(&mut rates) {
            rates.push(requests_per_second(url, scale.seconds));
        }
    }
    let [ours, keepalive, plain] = rates.map(median);
    println!(
        "{} tombstones, {CONNECTIONS} connections: gate {ours:.0} requests/s; nginx that keeps its connections to the service {keepalive:.0}/s: ratio {:.2} (goal >= 0.75); nginx that does not {plain:.0}/s: ratio {:.2} (goal >= 1.5)",
        scale.tombstones,
        ours / keepalive,
        ours / plain
    );
    let rate = ours / 2.0;
    let mut latencies: [Vec<f64>; 2] = Default::default();
    for _ in 0..scale.rounds {
        for (url, latencies) in urls.iter().zip(&mut latencies) {
            latencies.push(latency_p99_ms(&home, url, rate, scale.seconds));
        }
    }
    let [ours, theirs] = latencies.map(median);
    println!(
        "p99 latency at {rate:.0} requests/s: gate {ours:.2} ms, nginx that keeps its connections {theirs:.2} ms: difference {:+.2} ms (goal <= 1)",
        ours - theirs
    );
    println!(
        "the gate started in {:.2} s (goal < 2); the engine took at most {} MB (goal < 200)",
        gate.started_in,
        memory_mb(gate.engine.0.id(), "VmHWM")
    );
}

/// An engine with a gate.
struct Gate {
    engine: ChildGuard,
    port: String,
    /// Seconds from the start of the engine until its log says that the gate is open.
    started_in: f64,
}

impl Gate {
    fn start(home: &tempfile::TempDir, keystone: &str, upstream: &str, tombstones: usize) -> Self {
        let settings = "[engine]\nsweep = '1h'\n[[gate]]\nlisten = '127.0.0.1:0'\n\
            upstream = { cloud = 'bench', region = 'RegionOne', service = 'network' }\n";
        write_settings(home, keystone, &format!("127.0.0.1:{upstream}"), settings);
        add_tombstones(
            &home.path().join("state/gone/ledger.db"),
            "network",
            tombstones,
        );
        let log = home.path().join("engine.log");
        let began = Instant::now();
        let mut engine = command(home, "--cloud bench --engine");
        let engine = engine.stderr(std::fs::File::create(&log).unwrap());
        let engine = ChildGuard(engine.stdout(Stdio::null()).spawn().unwrap());
        let port = gate_address(&log).port().to_string();
        Self {
            engine,
            port,
            started_in: began.elapsed().as_secs_f64(),
        }
    }
}

/// An nginx process. On drop it gets SIGTERM, so that it ends its workers, which SIGKILL would leave behind.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.unwrap(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Starts nginx with the configuration of this name, in which `values` replace words.
fn nginx(home: &tempfile::TempDir, name: &str, values: &[(&str, &String)]) -> Nginx {
    let file = format!(
        "{}/tests/bench/nginx/{name}.conf",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut text = std::fs::read_to_string(file).unwrap();
    text = text.replace("PREFIX", home.path().to_str().unwrap());
    for (word, value) in values {
        text = text.replace(word, value);
    }
    let file = home.path().join(format!("{name}.conf"));
    std::fs::write(&file, text).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(home.path()).arg("-c").arg(&file);
    nginx.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Nginx(nginx.spawn().unwrap());
    let pid = home.path().join(format!("{name}.pid"));
    wait_for("nginx", || pid.exists());
    started
}

/// Three ports that are free at the moment.
fn free_ports() -> [String; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port().to_string())
}

/// The body that the service answers with: one network.
fn body() -> String {
    json!({"network": {
        "id": "4fdb1c2e-0000-4000-8000-5d0c1a7b9e11", "name": "web", "status": "ACTIVE",
        "tenant_id": "d250203aaa984b58a35becb21a4fd989", "admin_state_up": true, "mtu": 1450,
        "subnets": ["3f2b1c2e-0000-4000-8000-5d0c1a7b9e12"], "shared": false, "tags": [],
        "project_id": "d250203aaa984b58a35becb21a4fd989", "router:external": false,
        "availability_zone_hints": [], "availability_zones": ["nova"], "description": "",
        "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:06Z",
        "revision_number": 2, "provider:network_type": "geneve", "provider:segmentation_id": 77,
    }})
    .to_string()
}

fn requests_per_second(url: &str, seconds: usize) -> f64 {
    let mut wrk = Command::new("wrk");
    let connections = CONNECTIONS.to_string();
    let duration = format!("{seconds}s");
    wrk.args([
        "-t",
        "1",
        "-c",
        &connections,
        "-d",
        &duration,
        "-H",
        TOKEN,
        url,
    ]);
    let output = wrk.output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(!report.contains("Non-2xx"), "{report}");
    let rate = report
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.expect(&report).trim().parse().unwrap()
}

/// Returns the p99 of the latency in ms, for a client that sends requests at a fixed rate, however long the answers
/// take. Prints a note if the client did not reach the rate.
fn latency_p99_ms(home: &tempfile::TempDir, url: &str, rate: f64, seconds: usize) -> f64 {
    let log = home.path().join("h2load.log");
    let each = format!("{:.1}", rate / CONNECTIONS as f64);
    let mut h2load = Command::new("h2load");
    h2load
        .args(["--h1", "-t", "1", "-c", &CONNECTIONS.to_string()])
        .args(["-D", &seconds.to_string(), "--rps", &each, "-H", TOKEN])
        .arg(format!("--log-file={}", log.display()))
        .arg(url);
    let output = h2load.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = std::fs::read_to_string(log).unwrap();
    let mut took: Vec<f64> = log
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields[1], "200");
            fields[2].parse::<f64>().unwrap() / 1000.0
        })
        .collect();
    let reached = took.len() as f64 / (rate * seconds as f64);
    if reached < 0.9 {
        println!(
            "the client reached only {reached:.2} of {rate:.0} requests/s, so the machine is too busy for a meaningful p99"
        );
    }
    took.sort_by(f64::total_cmp);
    took[took.len() * 99 / 100]
}
