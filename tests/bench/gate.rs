//! The gate beside nginx, on the same service and the same cores, which the service and the clients have
//! too. Needs `nginx`, `wrk` and `h2load` (Debian: nginx-light, wrk, nghttp2-client).
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
#[path = "support/stage.rs"]
mod stage;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use stage::{Ended, command, fill, gate_address, memory_mb, practice_cloud, wait_for};

const TOMBSTONES: usize = 1_000_000;
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 5;
/// A network that was never deleted.
const PATH: &str = "/v2.0/networks/4fdb1c2e-0000-4000-8000-5d0c1a7b9e11";
const TOKEN: &str = "X-Auth-Token: gAAAAABm3Zc8Yb2Kd5";

struct Scale {
    tombstones: usize,
    rounds: usize,
    /// Of one measurement.
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
    let [upstream, keeping, plain] = free_ports();
    let _service = nginx(
        &home,
        "upstream",
        &[("UPSTREAM", &upstream), ("BODY", &body())],
    );
    let proxy_ports = [
        ("UPSTREAM", &upstream),
        ("KEEPING", &keeping),
        ("PLAIN", &plain),
        // As many as the gate has threads.
        ("WORKERS", &available_parallelism().unwrap().to_string()),
    ];
    let _proxy = nginx(&home, "proxy", &proxy_ports);
    let (_cloud, keystone) = practice_cloud(&home);
    let gate = Gate::start(&home, &keystone, &upstream, scale.tombstones);
    let urls = [&gate.port, &keeping, &plain].map(|port| format!("http://127.0.0.1:{port}{PATH}"));

    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..scale.rounds {
        for (url, rates) in urls.iter().zip(&mut rates) {
            rates.push(requests_per_second(url, scale.seconds));
        }
    }
    let [ours, keeping, plain] = rates.map(median);
    println!(
        "{} tombstones, {CONNECTIONS} connections: {ours:.0}/s, nginx with kept connections {keeping:.0}/s: ratio {:.2} (goal >= 0.75); nginx without {plain:.0}/s: ratio {:.2} (goal >= 1.5)",
        scale.tombstones,
        ours / keeping,
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
        "p99 at {rate:.0}/s: {ours:.2} ms, nginx with kept connections {theirs:.2} ms: {:+.2} ms (goal <= 1)",
        ours - theirs
    );
    println!(
        "started in {:.2} s (goal < 2), {} MB at most (goal < 200)",
        gate.started_in,
        memory_mb(gate.engine.0.id(), "VmHWM")
    );
}

struct Gate {
    engine: Ended,
    port: String,
    /// Seconds, to the first answer.
    started_in: f64,
}

impl Gate {
    fn start(home: &tempfile::TempDir, keystone: &str, upstream: &str, tombstones: usize) -> Self {
        let clouds = format!(
            "clouds:\n  bench:\n    auth: {{auth_url: '{keystone}/v3', username: admin, password: secret, \
             project_name: admin, user_domain_id: default, project_domain_id: default}}\n    \
             region_name: RegionOne\n    network_endpoint_override: 'http://127.0.0.1:{upstream}'\n"
        );
        std::fs::write(home.path().join("clouds.yaml"), clouds).unwrap();
        std::fs::create_dir_all(home.path().join("config/gone")).unwrap();
        let settings = "[engine]\nsweep = '1h'\n[[gate]]\nlisten = '127.0.0.1:0'\n\
            upstream = { cloud = 'bench', region = 'RegionOne', service = 'network' }\n";
        std::fs::write(home.path().join("config/gone/config.toml"), settings).unwrap();
        fill(
            &home.path().join("state/gone/ledger.db"),
            "network",
            tombstones,
        );
        let log = home.path().join("engine.log");
        let began = Instant::now();
        let mut engine = command(home, "--cloud bench --engine");
        let engine = engine.stderr(std::fs::File::create(&log).unwrap());
        let engine = Ended(engine.stdout(Stdio::null()).spawn().unwrap());
        let port = gate_address(&log).port().to_string();
        Self {
            engine,
            port,
            started_in: began.elapsed().as_secs_f64(),
        }
    }
}

/// Ended with its workers, which it must do itself.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.unwrap(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Serves by the file of this name.
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

/// Free now, and for the moment.
fn free_ports() -> [String; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port().to_string())
}

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
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains("Non-2xx"), "{said}");
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.expect(&said).trim().parse().unwrap()
}

/// By a client that holds the rate, whatever the answers take; if it cannot, it says so.
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
    let held = took.len() as f64 / (rate * seconds as f64);
    if held < 0.9 {
        println!(
            "the client held only {held:.2} of {rate:.0}/s: a busy machine; the p99 that follows says little"
        );
    }
    took.sort_by(f64::total_cmp);
    took[took.len() * 99 / 100]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
