//! A whole project on a real OpenStack: how long it takes and what is left, against what people do
//! today. All in one run, each with a project of its own; the script, which is the yardstick, in pairs
//! with ours.
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

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use bed::{Bed, clouds};
use serde_json::Value;

/// Of the script's time.
const GOAL: f64 = 0.95;
const LARGE: &str =
    "--networks 10 --ports 60 --trunks 10 --fips 10 --groups 9 --balancers 1 --images 4";
const SMALL: &str =
    "--networks 2 --ports 5 --trunks 1 --fips 1 --groups 2 --balancers 1 --images 1";

fn main() {
    if std::env::var_os("GONE_TESTBED_CLOUDS").is_none() {
        println!("not measured: GONE_TESTBED_CLOUDS names no test bed");
        return;
    }
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (shape, pairs) = if smoke { (SMALL, 1) } else { (LARGE, 5) };
    let run = |called: &str, by: &dyn Fn(&Bed) -> f64| {
        let bed = Bed::seeded("RegionOne", shape);
        let held = left(&bed);
        let took = by(&bed);
        println!("{called}: {took:.1} s, {} of {held} left", left(&bed));
        took
    };
    let script = || run("script, 8 threads", &|bed| contender(bed, "script"));
    let gone = || run("gone", &ours);
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // Who is first changes: the cloud is not the same for the second.
        let (ours, theirs) = if pair % 2 == 0 {
            (gone(), script())
        } else {
            let theirs = script();
            (gone(), theirs)
        };
        println!(
            "pair {pair}: gone takes {:.2} of the script's time",
            ours / theirs
        );
        ratios.push(ours / theirs);
    }
    run("project_cleanup", &|bed| contender(bed, "cleanup"));
    run("openstack commands", &|bed| contender(bed, "commands"));
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("median of {pairs} pairs: {median:.2} of the script's time (goal <= {GOAL})");
}

fn ours(bed: &Bed) -> f64 {
    let line = format!(
        "--cloud testbed delete project/{} --cascade --yes --wait=30m -o json",
        bed.name
    );
    let began = Instant::now();
    let done: Value = bed.gone(&line).ends_with(0).json();
    assert_eq!(done["state"], "gone");
    began.elapsed().as_secs_f64()
}

/// In seconds, Python's start and the login aside.
fn contender(bed: &Bed, how: &str) -> f64 {
    let clouds = clouds();
    let python = clouds.parent().unwrap().join("venv/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/contenders.py");
    let output = Command::new(python)
        .arg(script)
        .args([how, &bed.project])
        .env("OS_CLIENT_CONFIG_FILE", &clouds)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{how}: {err}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// All that the project holds, its default group and that one's rules aside.
fn left(bed: &Bed) -> usize {
    let held = bed.holdings();
    let groups = held.0["security-groups"].values();
    let default = groups.filter(|group| group["name"] == "default");
    let rules: usize = default
        .clone()
        .map(|group| group["security_group_rules"].as_array().map_or(0, Vec::len))
        .sum();
    let all: usize = held.0.values().map(std::collections::BTreeMap::len).sum();
    all + bed.api.of_others(&bed.project).len() - default.count() - rules
}
