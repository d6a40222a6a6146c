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
#[path = "support/stage.rs"]
mod stage;
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{Api, text};
use stage::{Call, Stage};
use support::{Timeline, per_second, plain, timeline};

const LIVE_MEMORY_MB_MAX: u64 = 300;
const REST: Duration = Duration::from_secs(10);
const LATENCY_MS: u32 = 20;
const PARALLEL: usize = 64;

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
    stage.limits(LATENCY_MS, PARALLEL);
    let began = Instant::now();
    let id = stage.delete(ports);
    let deletion = stage.until(&id, |deletion| deletion["state"] == "gone");
    let whole = began.elapsed();
    let calls = stage.calls();
    let steps = deletion["counts"]["total"].as_u64().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Timeline { deletes, rest } = runtime.block_on(timeline(&stage.ledger(), &id, ports));
    let ours = per_second(ports, deletes);

    let stage = Stage::start();
    stage.limits(LATENCY_MS, PARALLEL);
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
