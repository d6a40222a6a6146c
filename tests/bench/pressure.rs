//! How a deletion fares against what the cloud lets it, beside others, and with much that is blocked.
//! Engine and practice cloud are processes of their own, as in use.
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
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stage::Stage;
use support::{Timeline, timeline};

const PARALLEL: usize = 64;
/// The engine's schedule is put off: what is blocked stays so.
const BLOCKED_FOR_LONG: &str = "[gc]\nschedule = [\"6h\"]\n";
const REST: Duration = Duration::from_secs(30);

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let scale = if smoke { 50 } else { 1 };
    for (latency_ms, goal) in [(100, 1.1), (20, 1.35)] {
        against_the_bound(10_000 / scale, latency_ms, goal);
    }
    small_beside_large(100_000 / scale);
    at_rest_with_blocked(100_000 / scale, if smoke { REST / 10 } else { REST });
}

/// From the first write to the last confirmation, against the larger of the critical path and all
/// work on all of the cloud's hands.
fn against_the_bound(ports: usize, latency_ms: u32, goal: f64) {
    let stage = Stage::start();
    let networks = ports.div_ceil(1_000);
    let seed = json!({
        "networks": networks, "ports_per_network": ports / networks,
        "trunks": networks, "routers": 1, "floating_ips": 10,
    });
    let made = stage.control("POST", "seed", seed);
    let networks = made["networks"].as_array().unwrap().iter().map(api::text);
    stage.limits(latency_ms, PARALLEL);
    let id = stage.delete_networks(networks.collect());
    stage.until(&id, |deletion| deletion["state"] == "gone");
    let writes = stage
        .calls()
        .iter()
        .filter(|call| call.method != "GET")
        .count();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Timeline { deletes, rest } = runtime.block_on(timeline(&stage.ledger(), &id, writes));
    let took = (deletes + rest).as_secs_f64();
    let latency = f64::from(latency_ms) / 1000.0;
    let work = writes as f64 * latency / PARALLEL as f64;
    let path = longest_path(&stage, &id) as f64 * latency;
    let bound = work.max(path);
    println!(
        "{ports} ports with trunks and floating IPs at {latency_ms} ms, {PARALLEL} in parallel: {took:.1} s, {:.2} of the bound (goal <= {goal}); all work {work:.1} s, critical path {path:.1} s, {:.1} s after the last call",
        took / bound,
        rest.as_secs_f64(),
    );
}

/// How many calls must follow one another.
fn longest_path(stage: &Stage, id: &str) -> usize {
    use gone::ledger::Views as _;
    let ledger = gone::ledger::sqlite::SqliteLedger::open_reader(&stage.ledger()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plan = runtime.block_on(ledger.frozen(id, true)).unwrap().unwrap();
    let mut lengths: Vec<usize> = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let before = step.depends_on.iter().map(|id| lengths[*id as usize]);
        lengths.push(before.max().unwrap_or(0) + 1);
    }
    lengths.into_iter().max().unwrap_or(0)
}

/// A network of fifty ports by itself, and then beside a large deletion and eight that hang.
fn small_beside_large(ports: usize) {
    const SMALL: usize = 50;
    let took = |stage: &Stage| {
        let networks = stage.seed(SMALL);
        let began = Instant::now();
        let id = stage.delete_networks(networks);
        stage.until(&id, |deletion| deletion["state"] == "gone");
        began.elapsed().as_secs_f64()
    };
    let stage = Stage::start();
    stage.limits(20, PARALLEL);
    let alone = took(&stage);

    let stage = Stage::start();
    let seed = json!({"networks": 1, "ports_per_network": 8});
    let made = stage.control("POST", "seed", seed);
    // The first port is the network's DHCP port, which nobody deletes.
    let hanging = made["ports"].as_array().unwrap().iter().skip(1);
    let faults: Vec<Value> = hanging
        .map(|port| json!({"match": {"method": "DELETE", "id": port}, "action": {"hang": true}}))
        .collect();
    stage.control("PUT", "faults", Value::Array(faults));
    let networks = stage.seed(ports);
    stage.limits(20, PARALLEL);
    stage.delete_networks(vec![api::text(&made["networks"][0])]);
    let large = stage.delete_networks(networks);
    let begun = |deletion: &Value| deletion["counts"]["gone"].as_u64() > Some(ports as u64 / 100);
    stage.until(&large, begun);
    let beside = took(&stage);
    let left = stage.deletion(&large)["counts"]["gone"].as_u64().unwrap();
    println!(
        "{SMALL} ports alone {alone:.2} s; beside {ports} ports and eight that hang {beside:.2} s: {:.2} (goal <= 1.5); the large one was at {left} then",
        beside / alone
    );
}

/// An engine with nothing to do but to wait.
fn at_rest_with_blocked(ports: usize, rest: Duration) {
    let stage = Stage::start_with(BLOCKED_FOR_LONG);
    let in_use = json!([{
        "match": {"method": "DELETE", "kind": "port"},
        "action": {"status": 409, "type": "PortInUse", "message": "in use"},
    }]);
    stage.control("PUT", "faults", in_use);
    let id = stage.delete(ports);
    let blocked = |deletion: &Value| deletion["counts"]["blocked"].as_u64() == Some(ports as u64);
    stage.until(&id, blocked);
    println!(
        "{ports} blocked steps: {} (goals: 0.2 % of a core, 5 wake-ups a second)",
        stage.resting(rest)
    );
}
