//! Measures what the engine costs: its memory with many live steps, its calls and its time for many deletes, and its
//! processor time without work. Engine and practice cloud run in processes of their own, as in use.
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

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{Api, text};
use fixture::{Call, Fixture};
use support::{Timeline, delete_by_plain_calls, per_second, timeline};

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

/// Measures an engine without work, and then with many steps that are paused.
fn at_rest_and_live(steps: usize, rest: Duration) {
    let fixture = Fixture::start();
    println!("engine without work: {}", fixture.cost_at_rest(rest));
    let id = fixture.seed_and_delete(steps);
    // The steps are live as soon as the deletion is planned; the pause keeps them from being sent.
    fixture.wait_until(&id, |deletion| deletion["counts"]["total"] != 0);
    fixture.run_gone(&format!("pause {id}"));
    fixture.wait_until(&id, |deletion| deletion["counts"]["running"] == 0);
    let counts = fixture.deletion(&id)["counts"].clone();
    let live = counts["total"].as_u64().unwrap() - counts["gone"].as_u64().unwrap();
    println!("{live} live steps, paused: {}", fixture.cost_at_rest(rest));
    let (now, most) = (fixture.memory_mb("VmRSS"), fixture.memory_mb("VmHWM"));
    println!("{live} live steps: {now} MB (goal < {LIVE_MEMORY_MB_MAX}), at most {most} MB so far");
}

/// Measures one deletion of this many ports, and plain calls that delete as many.
fn deleting(ports: usize) {
    let fixture = Fixture::start();
    fixture.set_limits(LATENCY_MS, PARALLEL);
    let began = Instant::now();
    let id = fixture.seed_and_delete(ports);
    let deletion = fixture.wait_until(&id, |deletion| deletion["state"] == "gone");
    let whole = began.elapsed();
    let calls = fixture.calls();
    let steps = deletion["counts"]["total"].as_u64().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Timeline { deletes, rest } = runtime.block_on(timeline(&fixture.ledger(), &id, ports));
    let ours = per_second(ports, deletes);

    let fixture = Fixture::start();
    fixture.set_limits(LATENCY_MS, PARALLEL);
    let networks = fixture.seed(ports);
    let api = Api::new(
        &fixture.home.path().join("clouds.yaml"),
        "sandbox",
        "RegionOne",
    );
    let mut ids = Vec::new();
    for network in networks {
        let rows = api.rows("ports", &format!("network_id={network}"));
        let rows = rows
            .iter()
            .filter(|row| row["device_owner"] != "network:dhcp");
        ids.extend(rows.map(|row| text(&row["id"])));
    }
    assert_eq!(ids.len(), ports);
    let took = runtime.block_on(delete_by_plain_calls(
        &api.network_url,
        &api.token,
        ids,
        PARALLEL,
    ));
    let theirs = per_second(ports, took);
    let ideal = PARALLEL as f64 * 1000.0 / f64::from(LATENCY_MS);

    println!(
        "{ports} ports at {LATENCY_MS} ms, {PARALLEL} calls in parallel: {ours:.0} deletes/s, {:.2} times plain calls ({theirs:.0}/s), {:.2} times the ideal ({ideal:.0}/s); {:.1} s from the last port to the end, {:.1} s in all",
        ours / theirs,
        ours / ideal,
        rest.as_secs_f64(),
        whole.as_secs_f64(),
    );
    let count = |fits: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| fits(call)).count();
    let deletes = count(&|call| call.method == "DELETE");
    let lists = count(&|call| call.is_list());
    let others = calls.len() - deletes - lists;
    // N14 bounds the lists: pages of 500 ports and one page of each other kind, to plan and to verify.
    println!(
        "{ports} ports: {steps} steps, {deletes} deletes, {lists} lists, {others} other calls ({})",
        count_reads(&calls)
    );
    assert!(deletes as u64 <= steps, "more deletes than steps");
    assert!(others <= 20, "more than 20 other calls");
}

/// Returns how often each path was listed or read, as text such as `ports 3, networks/ID 1`.
fn count_reads(calls: &[Call]) -> String {
    let mut counts = BTreeMap::new();
    for call in calls.iter().filter(|call| call.method == "GET") {
        let path = call.path.split('?').next().unwrap();
        let path = path.split("/v2.0/").nth(1).unwrap_or(path);
        let read_in = path.rsplit_once('/').filter(|_| !call.is_list());
        let path = read_in.map_or(path.to_owned(), |(folder, _)| format!("{folder}/ID"));
        *counts.entry(path).or_insert(0) += 1;
    }
    let counts = counts.iter().map(|(path, count)| format!("{path} {count}"));
    counts.collect::<Vec<_>>().join(", ")
}
