//! The headless engine, and verbs that attach to it.

use std::process::Command;

use serde_json::json;

use crate::stage::Stage;
use crate::world::World;
use crate::world::program::{Ran, wait_for};

#[test]
fn verbs_attach_to_the_engine_that_runs() {
    let world = World::start();
    world.seed();
    let mut engine = world.engine();
    let sites = world.gone("list sites -o json").ends_with(0).json();
    assert_eq!(sites[0]["site"], "sandbox/RegionOne");

    let accepted = world
        .gone("delete network/seed-net-0 --cascade --yes -o json")
        .ends_with(0)
        .json();
    let id = accepted["id"].as_str().unwrap().to_owned();
    let short = &id[id.len() - 8..];
    wait_for("the deletion is gone", || {
        world.gone(&format!("show {short} -o json")).json()["state"] == "gone"
    });
    let tree = world.gone(&format!("tree {short} --ascii")).ends_with(0);
    assert!(
        tree.out.contains("delete 3 ports") || tree.out.contains("delete port"),
        "{}",
        tree.out
    );
    let tombstones = world.gone("list tombstones -o jsonl").ends_with(0);
    assert!(tombstones.out.lines().count() > 3);

    // The ledger has one engine only.
    world
        .gone("--engine")
        .ends_with(5)
        .complains(&["held by another engine"]);

    let pid = engine.0.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert_eq!(engine.0.wait().unwrap().code(), Some(0));
    assert!(!world.path("state/gone/gone.sock").exists());
    world.gone(&format!("show {short}")).ends_with(0);
}

#[test]
fn a_machine_with_nothing_is_told_what_to_do() {
    let world = World::start();
    let home = tempfile::tempdir().unwrap();
    let empty = |line: &str| {
        let mut command = world.command();
        command
            .env_remove("OS_CLIENT_CONFIG_FILE")
            .env("HOME", home.path())
            .env("XDG_STATE_HOME", home.path().join("s"))
            .current_dir(home.path())
            .args(line.split_whitespace());
        Ran::of(&mut command)
    };
    empty("doctor")
        .ends_with(2)
        .prints(&["clouds.yaml", "gone --sandbox"]);
    assert!(!home.path().join("s").exists(), "doctor makes nothing");

    let well = world.gone("doctor").ok();
    well.prints(&["login sandbox/RegionOne"]);
    assert!(world.sandbox_pid() > 0);
}

#[test]
fn a_gate_is_opened_where_its_site_is_served_and_never_on_a_practice_cloud() {
    let world = World::start();
    let gate = "[[gate]]\nlisten = '127.0.0.1:0'\nupstream = { cloud = 'real', region = 'RegionOne', \
                service = 'network' }\n";
    let folder = world.path(".config/gone");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), gate).unwrap();

    Ran::of(world.of_all_clouds().arg("--engine"))
        .ends_with(2)
        .complains(&["gate[0].upstream names real/RegionOne", "sandbox"]);
    // Also where another cloud is chosen; a practice cloud opens none.
    Ran::of(world.command().arg("--engine")).ends_with(2);
    let mut practice = world.of_all_clouds();
    practice.arg("--sandbox");
    drop(world.served_by(practice));
}

#[test]
fn a_scenario_is_not_looked_for_in_the_practice_cloud_of_another_one() {
    let mut stage = Stage::new();
    stage.start_engine(&["--sandbox=quiet"]);
    for other in ["--sandbox=practice", "--sandbox=default"] {
        stage
            .gone(&["list", "network", other])
            .ends_with(2)
            .complains(&["\"practice\"", "has the scenario \"quiet\""]);
    }
    // Its own name, and none.
    let listed = stage.json(&["list", "network", "--sandbox=quiet"]);
    assert_eq!(listed, stage.json(&["list", "network", "--sandbox"]));
}

#[test]
fn the_doctor_examines_the_practice_cloud_that_runs_and_says_if_none_does() {
    let mut stage = Stage::new();
    stage
        .gone(&["--sandbox", "doctor"])
        .ends_with(2)
        .complains(&[
            "cannot examine the practice cloud",
            "Start `gone --sandbox` in another terminal first",
        ]);
    stage.start_engine(&["--sandbox=quiet"]);
    stage
        .gone(&["--sandbox", "doctor"])
        .ok()
        .prints(&["cloud sandbox", "login sandbox/RegionOne"]);
    stage.gone(&["--sandbox=practice", "doctor"]).ends_with(2);
}

#[test]
fn a_region_that_a_target_names_is_looked_at_though_another_is_the_clouds_own() {
    let world = World::start();
    world.control(
        "POST",
        "/seed",
        &json!({"region": "RegionTwo", "name": "far", "networks": 1, "ports_per_network": 1}),
    );
    let plan = "plan network/far-net-0@sandbox/RegionTwo --cascade";
    let planned = world.gone(plan).ends_with(0);
    assert!(planned.out.contains("far-port-0-0"), "{}", planned.out);
    let explained = world.gone("explain network/far-net-0@sandbox/RegionTwo");
    explained.ends_with(0);
    // What there is not is said to be so.
    world
        .gone("plan network/far-net-0@sandbox/Atlantis")
        .ends_with(2);
}

#[test]
fn the_regions_of_a_mapping_and_of_a_gate_are_served_or_the_start_fails() {
    let world = World::start();
    let folder = world.path(".config/gone");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |text: &str| std::fs::write(folder.join("config.toml"), text).unwrap();
    write(
        "[[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['sandbox/RegionTwo']\nmatch = 'id'\n",
    );
    let engine = world.served_by(world.of_all_clouds());
    let sites = world.gone("list sites -o json").ends_with(0).json();
    let sites: Vec<&str> = sites
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["site"].as_str().unwrap())
        .collect();
    assert!(sites.contains(&"sandbox/RegionTwo"), "{sites:?}");
    drop(engine);

    write(
        "[[gate]]\nlisten = '127.0.0.1:0'\nupstream = { cloud = 'sandbox', region = 'RegionTwo', service = 'network' }\n",
    );
    let engine = world.served_by(world.of_all_clouds());
    let gates = world.gone("list gates -o json").ends_with(0).json();
    assert_eq!(gates.as_array().unwrap().len(), 1, "{gates}");
    drop(engine);

    write(
        "[[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['elsewhere/RegionOne']\nmatch = 'id'\n",
    );
    world
        .gone("doctor")
        .prints(&["mapping[0].locals names elsewhere/RegionOne"]);
    Ran::of(world.of_all_clouds().arg("--engine"))
        .ends_with(2)
        .complains(&["mapping[0].locals names elsewhere/RegionOne"]);
}
