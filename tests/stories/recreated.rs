//! Story 12: the cloud re-creates a deleted network, and the engine deletes it again.

use super::home::Home;
use super::session::Session;
use super::variation::{Variation, in_variations};

/// Starts a console, and requests the deletion of network phoenix in it.
fn delete_phoenix(home: &Home, settings: &str) -> Session {
    let settings = home.write("settings.toml", settings);
    let sandbox = format!("--sandbox={}", home.scenario("resurrection"));
    let name = home.variation.name("phoenix");
    let mut session = Session::start(home, &[&sandbox, "--config", &settings]);
    session.wait_for("1 of 1 sites reachable");
    session.open("network", "network 2");
    session.wait_for(name);
    session.press(&format!("/{name}"));
    let other = format!("  {} ", home.variation.name("web"));
    session.wait_until("only phoenix", |screen| !screen.contains(&other));
    session.press("\r");
    session.press("D");
    session.wait_for("▶ 4 steps");
    session.open_confirmation();
    session.wait_for("Type the name");
    session.press(name);
    session.wait_for(&format!(">{name}"));
    session.press("\r");
    session.wait_for("── deletion");
    session
}

in_variations! { run,
    baseline fn story_12_t14_a_recreated_network_is_counted_and_deleted_again_until_it_stays_gone();
    slow_cloud fn story_12_t14_a_recreated_network_is_counted_and_deleted_again_on_a_slow_cloud();
    fast_cloud fn story_12_t14_a_recreated_network_is_counted_and_deleted_again_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let home = Home::with(variation);
    let mut session = delete_phoenix(&home, "[engine]\nsweep = \"1s\"\n");
    let cloud = home.embedded_cloud();
    session.wait_for_all(&["✓ gone", "4/4"]);
    session.open("events", "events");
    session.wait_for_all(&["re-created 1 time"]);
    session.wait_for_all(&["re-created 2 times"]);
    session.open("deletions", "deletions 3");
    session.wait_until("three finished deletions", |screen| {
        screen.matches("✓ gone").count() == 3
    });
    session.wait_for("re-created 2 times");
    assert!(
        cloud
            .all("networks")
            .iter()
            .all(|network| network["name"] != variation.name("phoenix"))
    );
    let tombstones = home.json(&["--sandbox", "list", "tombstones"]);
    let phoenix = tombstones
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["kind"] == "network");
    let phoenix = phoenix.unwrap();
    assert_eq!(
        (&phoenix["phase"], &phoenix["recreated"]),
        (&"gone".into(), &2.into())
    );
    session.quit();
}

in_variations! { run_recreate_limit,
    baseline fn story_12_t14_a_network_recreated_beyond_the_limit_is_stuck_with_the_reason();
    slow_cloud fn story_12_t14_a_network_recreated_beyond_the_limit_is_stuck_with_the_reason_on_a_slow_cloud();
    fast_cloud fn story_12_t14_a_network_recreated_beyond_the_limit_is_stuck_with_the_reason_on_a_fast_cloud();
}

fn run_recreate_limit(variation: &Variation) {
    let home = Home::with(variation);
    let settings = "[engine]\nsweep = \"1s\"\n[gc]\nrecreate_max = 1\n";
    let mut session = delete_phoenix(&home, settings);
    session.wait_for("✖ 1 stuck");
    session.open("stuck", "stuck 1");
    let phoenix = format!("network {}", variation.name("phoenix"));
    session.wait_for_all(&["✖ stuck", &phoenix, "a person"]);
    session.press("\r");
    session.wait_for_all(&["re-created 2 times"]);
    let cloud = home.embedded_cloud();
    assert!(
        cloud
            .all("networks")
            .iter()
            .any(|network| network["name"] == variation.name("phoenix"))
    );
    session.quit();
}
