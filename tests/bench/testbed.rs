//! Deletes per second on a real OpenStack, against plain parallel calls in the same minutes: the
//! ratio's goal is 0.9. What Neutron can take is the limit of both.
//!
//! `GONE_TESTBED_CLOUDS` names the testbed's `clouds.yaml`; without it nothing is measured.
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
#[path = "../testbed/bed.rs"]
mod bed;
#[allow(dead_code)] // Of the estate a bench needs the outer network's type alone.
#[path = "../testbed/estate.rs"]
mod estate;
mod support;

use api::text;
use bed::Bed;
use serde_json::Value;
use support::{Timeline, per_second, plain, timeline};

const GOAL: f64 = 0.9;
/// Of the plain calls: the best of these.
const CLIENTS: [usize; 3] = [4, 8, 16];

fn main() {
    if std::env::var_os("GONE_TESTBED_CLOUDS").is_none() {
        println!("not measured: GONE_TESTBED_CLOUDS names no test bed");
        return;
    }
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (ports, trial, pairs) = if smoke { (20, 20, 1) } else { (500, 150, 3) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let clients = best(&runtime, trial);
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // One network each, made together, so that the machine is the same for both.
        let bed = seeded(2, ports);
        let ours = || ours(&runtime, &bed, ports);
        let theirs = || by_plain_calls(&runtime, &bed, 1, clients);
        let ((ours, rest), theirs) = if pair % 2 == 0 {
            let ours = ours();
            (ours, theirs())
        } else {
            let theirs = theirs();
            (ours(), theirs)
        };
        println!(
            "pair {pair}: {ours:.1} deletes/s, plain calls {theirs:.1}/s, ratio {:.2}; looks and the network took {rest:.1} s more",
            ours / theirs
        );
        ratios.push(ours / theirs);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("{ports} ports: median ratio {median:.2} of {pairs} (goal >= {GOAL})");
}

fn seeded(networks: usize, ports: usize) -> Bed {
    // One port in ten is a DHCP port, which costs neither a call.
    let with_dhcp = ports + ports.div_ceil(9);
    Bed::seeded(
        "RegionOne",
        &format!(
            "--networks {networks} --ports {with_dhcp} --trunks 0 --fips 0 --routers 0 --groups 1"
        ),
    )
}

/// How many clients at a time Neutron serves best here and now.
fn best(runtime: &tokio::runtime::Runtime, ports: usize) -> usize {
    let bed = seeded(CLIENTS.len(), ports);
    let mut rates = Vec::new();
    for (network, clients) in CLIENTS.into_iter().enumerate() {
        let rate = by_plain_calls(runtime, &bed, network, clients);
        println!("plain calls, {clients} clients: {rate:.1} deletes/s");
        rates.push((rate, clients));
    }
    let best = rates.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(1, |(_, clients)| clients)
}

fn by_plain_calls(
    runtime: &tokio::runtime::Runtime,
    bed: &Bed,
    network: usize,
    clients: usize,
) -> f64 {
    let rows = bed
        .api
        .rows("ports", &format!("network_id={}", bed.networks[network]));
    let ports: Vec<String> = rows
        .iter()
        .filter(|row| row["device_owner"] != "network:dhcp")
        .map(|row| text(&row["id"]))
        .collect();
    let count = ports.len();
    let took = runtime.block_on(plain(&bed.api.network_url, &bed.api.token, ports, clients));
    per_second(count, took)
}

/// Deletes per second, and how many seconds came after the last one.
fn ours(runtime: &tokio::runtime::Runtime, bed: &Bed, ports: usize) -> (f64, f64) {
    let network = &bed.networks[0];
    let line = format!(
        "-vv --log-format text --cloud testbed delete network/{network} --cascade --yes --wait=30m -o json"
    );
    let ran = bed.gone(&line).ends_with(0);
    let done: Value = ran.json();
    let limits: Vec<&str> = ran.err.lines().filter_map(limit_in).collect();
    println!("calls at a time, after those at the start: {limits:?}");
    let total = usize::try_from(done["counts"]["total"].as_u64().unwrap()).unwrap();
    assert_eq!(total, ports + 1, "the ports and their network");
    let Timeline { deletes, rest } =
        runtime.block_on(timeline(&bed.ledger(), done["id"].as_str().unwrap(), ports));
    (per_second(ports, deletes), rest.as_secs_f64())
}

/// The number of calls at a time that a line of the log says the engine went over to.
fn limit_in(line: &str) -> Option<&str> {
    let (_, after) = line.split_once("at a time")?.1.split_once("limit=")?;
    after.split_whitespace().next()
}
