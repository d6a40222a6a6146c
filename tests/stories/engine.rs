//! The headless engine, and verbs that attach to it.

use std::process::Command;

use serde_json::json;

use crate::stage::Stage;
use crate::world::{World, until};

#[test]
fn verbs_attach_to_the_engine_that_runs() {
    let world = World::start();
    world.seed();
    let mut engine = world.engine();
    let sites = world.gone("list sites -o json").expect(0).json();
    assert_eq!(sites[0]["site"], "sandbox/RegionOne");

    let accepted = world
        .gone("delete network/seed-net-0 --cascade --yes -o json")
        .expect(0)
        .json();
    let id = accepted["id"].as_str().unwrap().to_owned();
    let short = &id[id.len() - 8..];
    until("the deletion is gone", || {
        world.gone(&format!("show {short} -o json")).json()["state"] == "gone"
    });
    let tree = world.gone(&format!("tree {short} --ascii")).expect(0);
    assert!(
        tree.out.contains("delete 3 ports") || tree.out.contains("delete port"),
        "{}",
        tree.out
    );
    let tombstones = world.gone("list tombstones -o jsonl").expect(0);
    assert!(tombstones.out.lines().count() > 3);

    // The ledger has one engine only.
    let second = world.gone("--engine");
    assert_eq!(second.code, 5, "{}", second.err);
    assert!(
        second.err.contains("held by another engine"),
        "{}",
        second.err
    );

    let pid = engine.0.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert_eq!(engine.0.wait().unwrap().code(), Some(0));
    assert!(!world.path("state/gone/gone.sock").exists());
    world.gone(&format!("show {short}")).expect(0);
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
        command.output().unwrap()
    };
    let doctor = empty("doctor");
    assert_eq!(doctor.status.code(), Some(2));
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        text.contains("clouds.yaml") && text.contains("gone --sandbox"),
        "{text}"
    );
    assert!(!home.path().join("s").exists(), "doctor makes nothing");

    let well = world.gone("doctor").expect(0);
    assert!(well.out.contains("login sandbox/RegionOne"), "{}", well.out);
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

    let refused = world.of_all_clouds().arg("--engine").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(
        told.contains("gate[0].upstream names real/RegionOne") && told.contains("sandbox"),
        "{told}"
    );
    // Also where another cloud is chosen; a practice cloud opens none.
    let chosen = world.command().arg("--engine").output().unwrap();
    assert_eq!(chosen.status.code(), Some(2));
    let mut practice = world.of_all_clouds();
    practice.arg("--sandbox");
    drop(world.served_by(practice));
}

#[test]
fn a_scenario_is_not_looked_for_in_the_practice_cloud_of_another_one() {
    let mut stage = Stage::new();
    stage.start_engine(&["--sandbox=quiet"]);
    for other in ["--sandbox=practice", "--sandbox=default"] {
        let refused = stage.gone(&["list", "network", other]);
        assert_eq!(refused.status.code(), Some(2));
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("\"practice\""), "{told}");
        assert!(told.contains("has the scenario \"quiet\""), "{told}");
    }
    // Its own name, and none.
    let listed = stage.json(&["list", "network", "--sandbox=quiet"]);
    assert_eq!(listed, stage.json(&["list", "network", "--sandbox"]));
}

#[test]
fn the_doctor_examines_the_practice_cloud_that_runs_and_says_if_none_does() {
    let mut stage = Stage::new();
    let none = stage.gone(&["--sandbox", "doctor"]);
    assert_eq!(none.status.code(), Some(2));
    let told = String::from_utf8_lossy(&none.stderr);
    for word in [
        "cannot examine the practice cloud",
        "Start `gone --sandbox` in another terminal first",
    ] {
        assert!(told.contains(word), "{told}");
    }
    stage.start_engine(&["--sandbox=quiet"]);
    let well = stage.gone(&["--sandbox", "doctor"]);
    let found = String::from_utf8_lossy(&well.stdout);
    assert_eq!(well.status.code(), Some(0), "{found}");
    for word in ["cloud sandbox", "login sandbox/RegionOne"] {
        assert!(found.contains(word), "{found}");
    }
    let other = stage.gone(&["--sandbox=practice", "doctor"]);
    assert_eq!(other.status.code(), Some(2));
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
    let planned = world.gone(plan).expect(0);
    assert!(planned.out.contains("far-port-0-0"), "{}", planned.out);
    let explained = world.gone("explain network/far-net-0@sandbox/RegionTwo");
    explained.expect(0);
    // What there is not is said to be so.
    world
        .gone("plan network/far-net-0@sandbox/Atlantis")
        .expect(2);
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
    let sites = world.gone("list sites -o json").expect(0).json();
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
    let gates = world.gone("list gates -o json").expect(0).json();
    assert_eq!(gates.as_array().unwrap().len(), 1, "{gates}");
    drop(engine);

    write(
        "[[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['elsewhere/RegionOne']\nmatch = 'id'\n",
    );
    let doctor = world.gone("doctor").out;
    assert!(
        doctor.contains("mapping[0].locals names elsewhere/RegionOne"),
        "{doctor}"
    );
    let refused = world.of_all_clouds().arg("--engine").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(
        told.contains("mapping[0].locals names elsewhere/RegionOne"),
        "{told}"
    );
}
