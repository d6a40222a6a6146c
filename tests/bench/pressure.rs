//! Measures a deletion against the shortest time that the cloud allows, a small deletion while large and hanging ones
//! run, and an engine at rest with many blocked steps. Engine and practice cloud run in processes of their own, as in
//! use.
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
mod support;

use std::time::{Duration, Instant};

use fixture::Fixture;
use serde_json::{Value, json};
use support::{Timeline, timeline};

const PARALLEL: usize = 64;
/// A schedule of retries that leaves blocked steps blocked for the length of the bench.
const LATE_RETRIES: &str = "[gc]\nschedule = [\"6h\"]\n";
const REST: Duration = Duration::from_secs(30);

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let scale = if smoke { 50 } else { 1 };
    for (latency_ms, goal) in [(100, 1.1), (20, 1.35)] {
        against_the_bound(10_000 / scale, latency_ms, goal);
    }
    small_during_large(100_000 / scale);
    at_rest_with_blocked(100_000 / scale, if smoke { REST / 10 } else { REST });
}

/// Measures the time from the first write to the last confirmation, against a lower bound: the longer of the critical
/// path and of the time in which the cloud serves all calls, as many in parallel as it can.
fn against_the_bound(ports: usize, latency_ms: u32, goal: f64) {
    let fixture = Fixture::start();
    let networks = ports.div_ceil(1_000);
    let seed = json!({
        "networks": networks, "ports_per_network": ports / networks,
        "trunks": networks, "routers": 1, "floating_ips": 10,
    });
    let made = fixture.control("POST", "seed", seed);
    let networks = made["networks"].as_array().unwrap().iter().map(api::text);
    fixture.set_limits(latency_ms, PARALLEL);
    let id = fixture.delete_networks(networks.collect());
    fixture.wait_until(&id, |deletion| deletion["state"] == "gone");
    let writes = fixture
        .calls()
        .iter()
        .filter(|call| call.method != "GET")
        .count();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Timeline { deletes, rest } = runtime.block_on(timeline(&fixture.ledger(), &id, writes));
    let took = (deletes + rest).as_secs_f64();
    let latency = f64::from(latency_ms) / 1000.0;
    let work = writes as f64 * latency / PARALLEL as f64;
    let path = longest_path(&fixture, &id) as f64 * latency;
    let bound = work.max(path);
    println!(
        "{ports} ports with trunks and floating IPs at {latency_ms} ms, {PARALLEL} calls in parallel: {took:.1} s, {:.2} times the lower bound (goal <= {goal}); all calls {work:.1} s, critical path {path:.1} s, {:.1} s from the last call to the end",
        took / bound,
        rest.as_secs_f64(),
    );
}

/// The length of the critical path: how many steps must follow one another.
fn longest_path(fixture: &Fixture, id: &str) -> usize {
    use gone::ledger::Views as _;
    let ledger = gone::ledger::sqlite::SqliteLedger::open_reader(&fixture.ledger()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plan = runtime
        .block_on(ledger.frozen_plan(id, true))
        .unwrap()
        .unwrap();
    let mut lengths: Vec<usize> = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let before = step.depends_on.iter().map(|id| lengths[*id as usize]);
        lengths.push(before.max().unwrap_or(0) + 1);
    }
    lengths.into_iter().max().unwrap_or(0)
}

/// Measures the deletion of a network with fifty ports: without other deletions, and then during a large deletion and a
/// deletion whose eight calls hang.
fn small_during_large(ports: usize) {
    const SMALL: usize = 50;
    let took = |fixture: &Fixture| {
        let networks = fixture.seed(SMALL);
        let began = Instant::now();
        let id = fixture.delete_networks(networks);
        fixture.wait_until(&id, |deletion| deletion["state"] == "gone");
        began.elapsed().as_secs_f64()
    };
    let fixture = Fixture::start();
    fixture.set_limits(20, PARALLEL);
    let alone = took(&fixture);

    let fixture = Fixture::start();
    let seed = json!({"networks": 1, "ports_per_network": 8});
    let made = fixture.control("POST", "seed", seed);
    // The first port is the network's DHCP port, which Neutron deletes itself.
    let hanging = made["ports"].as_array().unwrap().iter().skip(1);
    let faults: Vec<Value> = hanging
        .map(|port| json!({"match": {"method": "DELETE", "id": port}, "action": {"hang": true}}))
        .collect();
    fixture.control("PUT", "faults", Value::Array(faults));
    let networks = fixture.seed(ports);
    fixture.set_limits(20, PARALLEL);
    fixture.delete_networks(vec![api::text(&made["networks"][0])]);
    let large = fixture.delete_networks(networks);
    let has_begun =
        |deletion: &Value| deletion["counts"]["gone"].as_u64() > Some(ports as u64 / 100);
    fixture.wait_until(&large, has_begun);
    let during = took(&fixture);
    let gone = fixture.deletion(&large)["counts"]["gone"].as_u64().unwrap();
    println!(
        "{SMALL} ports without other deletions {alone:.2} s; during a deletion of {ports} ports and one of eight hanging calls {during:.2} s: ratio {:.2} (goal <= 1.5); {gone} steps of the large deletion were gone by then",
        during / alone
    );
}

/// Measures an engine that has only blocked steps, which are not yet due.
fn at_rest_with_blocked(ports: usize, rest: Duration) {
    let fixture = Fixture::start_with(LATE_RETRIES);
    let in_use = json!([{
        "match": {"method": "DELETE", "kind": "port"},
        "action": {"status": 409, "type": "PortInUse", "message": "in use"},
    }]);
    fixture.control("PUT", "faults", in_use);
    let id = fixture.seed_and_delete(ports);
    let blocked = |deletion: &Value| deletion["counts"]["blocked"].as_u64() == Some(ports as u64);
    fixture.wait_until(&id, blocked);
    println!(
        "{ports} blocked steps: {} (goals: at most 0.2 % of a core, and 5 wake-ups a second)",
        fixture.cost_at_rest(rest)
    );
}
