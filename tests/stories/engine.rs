//! The headless engine, and verbs that attach to it.

use std::process::Command;

use serde_json::json;

use crate::home::Home;
use crate::world::World;
use crate::world::program::{RunResult, wait_for};

#[test]
fn verbs_attach_to_the_running_engine() {
    let world = World::start();
    world.seed();
    let mut engine = world.engine();
    let sites = world.gone("list sites -o json").ok().json();
    assert_eq!(sites[0]["site"], "sandbox/RegionOne");

    let accepted = world
        .gone("delete network/seed-net-0 --cascade --yes -o json")
        .ok()
        .json();
    let id = accepted["id"].as_str().unwrap().to_owned();
    let short = &id[id.len() - 8..];
    wait_for("the deletion is gone", || {
        world.gone(&format!("show {short} -o json")).json()["state"] == "gone"
    });
    let tree = world.gone(&format!("tree {short} --ascii")).ok();
    assert!(
        tree.out.contains("delete 3 ports") || tree.out.contains("delete port"),
        "{}",
        tree.out
    );
    let tombstones = world.gone("list tombstones -o jsonl").ok();
    assert!(tombstones.out.lines().count() > 3);

    // A second engine on the same ledger is refused.
    world
        .gone("--engine")
        .ends_with(5)
        .stderr_has(&["held by another engine"]);

    let pid = engine.0.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert_eq!(engine.0.wait().unwrap().code(), Some(0));
    assert!(!world.path("state/gone/gone.sock").exists());
    world.gone(&format!("show {short}")).ok();
}

#[test]
fn the_doctor_names_the_next_steps_on_a_machine_without_clouds() {
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
        RunResult::of(&mut command)
    };
    empty("doctor")
        .ends_with(2)
        .stdout_has(&["clouds.yaml", "gone --sandbox"]);
    assert!(
        !home.path().join("s").exists(),
        "the doctor creates no files"
    );

    let well = world.gone("doctor").ok();
    well.stdout_has(&["login sandbox/RegionOne"]);
    assert!(world.sandbox_pid() > 0);
}

#[test]
fn a_gate_before_an_unknown_cloud_stops_an_engine_unless_it_runs_the_practice_cloud() {
    let world = World::start();
    let gate = "[[gate]]\nlisten = '127.0.0.1:0'\nupstream = { cloud = 'real', region = 'RegionOne', \
                service = 'network' }\n";
    let folder = world.path(".config/gone");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), gate).unwrap();

    RunResult::of(world.command_for_all_clouds().arg("--engine"))
        .ends_with(2)
        .stderr_has(&["gate[0].upstream names real/RegionOne", "sandbox"]);
    // An engine with `--cloud sandbox` stops, too. An engine that runs the practice cloud ignores the gates of the
    // settings.
    RunResult::of(world.command().arg("--engine")).ends_with(2);
    let mut practice = world.command_for_all_clouds();
    practice.arg("--sandbox");
    drop(world.start_engine_by(practice));
}

#[test]
fn a_verb_for_another_scenario_than_that_of_the_running_engine_is_refused() {
    let mut home = Home::new();
    home.start_engine(&["--sandbox=quiet"]);
    for other in ["--sandbox=practice", "--sandbox=default"] {
        home.gone(&["list", "network", other])
            .ends_with(2)
            .stderr_has(&["\"practice\"", "has the scenario \"quiet\""]);
    }
    // The name of the running scenario is accepted, and so is `--sandbox` without a name.
    let listed = home.json(&["list", "network", "--sandbox=quiet"]);
    assert_eq!(listed, home.json(&["list", "network", "--sandbox"]));
}

#[test]
fn the_doctor_examines_the_running_practice_cloud_and_says_if_none_runs() {
    let mut home = Home::new();
    home.gone(&["--sandbox", "doctor"])
        .ends_with(2)
        .stderr_has(&[
            "cannot examine the practice cloud",
            "Start `gone --sandbox` in another terminal first",
        ]);
    home.start_engine(&["--sandbox=quiet"]);
    home.gone(&["--sandbox", "doctor"])
        .ok()
        .stdout_has(&["cloud sandbox", "login sandbox/RegionOne"]);
    home.gone(&["--sandbox=practice", "doctor"]).ends_with(2);
}

#[test]
fn a_target_in_another_region_than_the_default_one_is_planned_and_explained() {
    let world = World::start();
    world.control(
        "POST",
        "/seed",
        &json!({"region": "RegionTwo", "name": "far", "networks": 1, "ports_per_network": 1}),
    );
    let plan = "plan network/far-net-0@sandbox/RegionTwo --cascade";
    let planned = world.gone(plan).ok();
    assert!(planned.out.contains("far-port-0-0"), "{}", planned.out);
    let explained = world.gone("explain network/far-net-0@sandbox/RegionTwo");
    explained.ok();
    // An unknown region is an error.
    world
        .gone("plan network/far-net-0@sandbox/Atlantis")
        .ends_with(2);
}

#[test]
fn an_engine_serves_the_regions_of_its_mappings_and_gates_or_does_not_start() {
    let world = World::start();
    let folder = world.path(".config/gone");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |text: &str| std::fs::write(folder.join("config.toml"), text).unwrap();
    write(
        "[[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['sandbox/RegionTwo']\nmatch = 'id'\n",
    );
    let engine = world.start_engine_by(world.command_for_all_clouds());
    let sites = world.gone("list sites -o json").ok().json();
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
    let engine = world.start_engine_by(world.command_for_all_clouds());
    let gates = world.gone("list gates -o json").ok().json();
    assert_eq!(gates.as_array().unwrap().len(), 1, "{gates}");
    drop(engine);

    write(
        "[[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['elsewhere/RegionOne']\nmatch = 'id'\n",
    );
    world
        .gone("doctor")
        .stdout_has(&["mapping[0].locals names elsewhere/RegionOne"]);
    RunResult::of(world.command_for_all_clouds().arg("--engine"))
        .ends_with(2)
        .stderr_has(&["mapping[0].locals names elsewhere/RegionOne"]);
}
