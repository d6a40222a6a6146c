//! Story 12: what the cloud makes again is removed again.

use super::seat::Seat;
use super::stage::Stage;
use super::telling::Telling;

/// A console in which network phoenix is being deleted.
fn delete_phoenix(stage: &Stage, settings: &str) -> Seat {
    let settings = stage.write("settings.toml", settings);
    let sandbox = format!("--sandbox={}", stage.scenario("resurrection"));
    let name = stage.telling.name("phoenix");
    let mut seat = Seat::take(stage, &[&sandbox, "--config", &settings]);
    seat.see("1 of 1 sites reachable");
    seat.go("network", "network 2");
    seat.see(name);
    seat.press(&format!("/{name}"));
    let other = format!("  {} ", stage.telling.name("web"));
    seat.wait("only phoenix", |screen| !screen.contains(&other));
    seat.press("\r");
    seat.press("D");
    seat.see("▶ 4 steps");
    seat.go_on();
    seat.see("Type the name");
    seat.press(name);
    seat.see(&format!(">{name}"));
    seat.press("\r");
    seat.see("── deletion");
    seat
}

#[test]
fn story_12_t14_what_comes_back_is_counted_and_removed_again_until_it_stays_away() {
    tell(&Telling::as_written());
}

#[test]
fn story_12_t14_what_comes_back_is_counted_and_removed_again_until_it_stays_away_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_12_t14_what_comes_back_is_counted_and_removed_again_until_it_stays_away_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let stage = Stage::of(telling);
    let mut seat = delete_phoenix(&stage, "[engine]\nsweep = \"1s\"\n");
    let cloud = stage.carried_cloud();
    seat.see_all(&["✓ gone", "4/4"]);
    seat.go("events", "events");
    seat.see_all(&["re-created 1 time"]);
    seat.see_all(&["re-created 2 times"]);
    seat.go("deletions", "deletions 3");
    seat.wait("three that are gone", |screen| {
        screen.matches("✓ gone").count() == 3
    });
    seat.see("re-created 2 times");
    assert!(
        cloud
            .all("networks")
            .iter()
            .all(|network| network["name"] != telling.name("phoenix"))
    );
    let tombstones = stage.json(&["--sandbox", "list", "tombstones"]);
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
    seat.press("q");
    seat.left();
}

#[test]
fn story_12_t14_beyond_the_limit_it_is_stuck_and_says_why() {
    tell_of_the_limit(&Telling::as_written());
}

#[test]
fn story_12_t14_beyond_the_limit_it_is_stuck_and_says_why_told_otherwise() {
    tell_of_the_limit(&Telling::otherwise());
}

#[test]
fn story_12_t14_beyond_the_limit_it_is_stuck_and_says_why_told_at_leisure() {
    tell_of_the_limit(&Telling::at_leisure());
}

fn tell_of_the_limit(telling: &Telling) {
    let stage = Stage::of(telling);
    let settings = "[engine]\nsweep = \"1s\"\n[gc]\nrecreate_max = 1\n";
    let mut seat = delete_phoenix(&stage, settings);
    seat.see("✖ 1 stuck");
    seat.go("stuck", "stuck 1");
    let phoenix = format!("network {}", telling.name("phoenix"));
    seat.see_all(&["✖ stuck", &phoenix, "a person"]);
    seat.press("\r");
    seat.see_all(&["re-created 2 times"]);
    let cloud = stage.carried_cloud();
    assert!(
        cloud
            .all("networks")
            .iter()
            .any(|network| network["name"] == telling.name("phoenix"))
    );
    seat.press("q");
    seat.left();
}
