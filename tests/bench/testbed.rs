//! Measures the deletes per second of gone on a real OpenStack, in turn with those of plain parallel calls. The goal
//! for gone's rate, as a share of the rate of the plain calls, is 0.95. Neutron's own speed limits both rates.
//!
//! `GONE_TESTBED_CLOUDS` names the testbed's `clouds.yaml`; without it, nothing is measured. With `--smoke`, the
//! bench runs briefly and proves only that it works.
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
#[allow(dead_code)] // The bench needs only the type of the external network.
#[path = "../testbed/estate.rs"]
mod estate;
mod support;

use std::time::Duration;

use api::text;
use bed::Bed;
use serde_json::Value;
use support::{Timeline, delete_by_plain_calls, per_second, timeline};

const GOAL: f64 = 0.95;
/// The networks of a pair, in the order of their deletion: true if gone deletes the ports of the network, false if
/// plain calls do; in every second pair the other way round. The turns alternate, because the load of the machine
/// changes from minute to minute, and because the database is slower in the first turn after a seed than later.
const TURNS: [bool; 8] = [true, false, false, true, false, true, true, false];
/// The numbers of clients for the plain calls, of which the fastest is used.
const CLIENTS: [usize; 3] = [4, 8, 16];

fn main() {
    if std::env::var_os("GONE_TESTBED_CLOUDS").is_none() {
        println!(
            "not measured: GONE_TESTBED_CLOUDS is not set; it names the clouds.yaml of the testbed"
        );
        return;
    }
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (ports, trial, pairs) = if smoke { (10, 20, 1) } else { (125, 150, 5) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let clients = fastest_clients(&runtime, trial);
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let bed = seeded(&runtime, TURNS.len(), ports, clients);
        let (mut ours, mut theirs, mut rest) = (0.0, 0.0, 0.0);
        for (network, is_ours) in TURNS.into_iter().enumerate() {
            if is_ours == (pair % 2 == 0) {
                let by_gone = by_gone(&runtime, &bed, network, ports);
                ours += by_gone.deletes.as_secs_f64();
                rest += by_gone.rest.as_secs_f64();
            } else {
                let took = by_plain_calls(&runtime, &bed, network, ports, clients);
                theirs += took.as_secs_f64();
            }
        }
        let deleted = (ports * TURNS.len() / 2) as f64;
        let ratio = theirs / ours;
        println!(
            "pair {pair}: {:.1} deletes/s, plain calls {:.1}/s, ratio {ratio:.2}; gone took {rest:.1} s more for observations and the networks",
            deleted / ours,
            deleted / theirs,
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("median ratio {median:.2} of {pairs} pairs (goal >= {GOAL})");
}

/// A project with this number of networks, each with this number of ports to delete. The ports of one more network have
/// been deleted already, without being measured: after a seed, the database is slower for some seconds,
/// whoever sends the deletes.
fn seeded(runtime: &tokio::runtime::Runtime, networks: usize, ports: usize, clients: usize) -> Bed {
    // One port in ten is a DHCP port, which neither gone nor the plain calls delete.
    let with_dhcp = ports + ports.div_ceil(9);
    let networks = networks + 1;
    let bed = Bed::seeded(
        "RegionOne",
        &format!(
            "--networks {networks} --ports {with_dhcp} --trunks 0 --fips 0 --routers 0 --groups 1"
        ),
    );
    by_plain_calls(runtime, &bed, networks - 1, ports, clients);
    bed
}

/// The number of parallel clients with the most deletes per second.
fn fastest_clients(runtime: &tokio::runtime::Runtime, ports: usize) -> usize {
    let bed = seeded(runtime, CLIENTS.len(), ports, CLIENTS[0]);
    let mut rates = Vec::new();
    for (network, clients) in CLIENTS.into_iter().enumerate() {
        let took = by_plain_calls(runtime, &bed, network, ports, clients);
        let rate = per_second(ports, took);
        println!("plain calls, {clients} clients: {rate:.1} deletes/s");
        rates.push((rate, clients));
    }
    let best = rates.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(1, |(_, clients)| clients)
}

/// Deletes the ports of a network by plain calls.
fn by_plain_calls(
    runtime: &tokio::runtime::Runtime,
    bed: &Bed,
    network: usize,
    ports: usize,
    clients: usize,
) -> Duration {
    let rows = bed
        .api
        .rows("ports", &format!("network_id={}", bed.networks[network]));
    let ids: Vec<String> = rows
        .iter()
        .filter(|row| row["device_owner"] != "network:dhcp")
        .map(|row| text(&row["id"]))
        .collect();
    assert_eq!(ids.len(), ports);
    runtime.block_on(delete_by_plain_calls(
        &bed.api.network_url,
        &bed.api.token,
        ids,
        clients,
    ))
}

/// Deletes a network with gone.
fn by_gone(runtime: &tokio::runtime::Runtime, bed: &Bed, network: usize, ports: usize) -> Timeline {
    let network = &bed.networks[network];
    let line =
        format!("--cloud testbed delete network/{network} --cascade --yes --wait=30m -o json");
    let ran = bed.gone(&line).ends_with(0);
    let done: Value = ran.json();
    let total = usize::try_from(done["counts"]["total"].as_u64().unwrap()).unwrap();
    assert_eq!(
        total,
        ports + 1,
        "the steps are not the ports and their network"
    );
    runtime.block_on(timeline(&bed.ledger(), done["id"].as_str().unwrap(), ports))
}
