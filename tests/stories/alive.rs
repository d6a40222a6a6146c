//! The first screen of the practice cloud shows what the program is for: one deletion goes on, one is blocked, one is
//! stuck.

use serde_json::Value;

use super::seat::Seat;
use super::stage::{Stage, until};

/// The deletion of this network.
fn deletion(stage: &Stage, network: &str) -> Value {
    let all = stage.json(&["list"]);
    let mut all = all.as_array().unwrap().iter();
    let found = all.find(|it| it["targets"][0]["name"] == network);
    found
        .unwrap_or_else(|| panic!("no deletion of {network}"))
        .clone()
}

#[test]
fn the_practice_cloud_opens_on_what_goes_on_what_is_blocked_and_what_is_stuck() {
    let mut stage = Stage::new();
    stage.start_practice("practice");
    let mut seat = Seat::take(&stage, &[]);
    let alive = [
        "── home",
        "needs you 1 stuck",
        "✖ stuck network intranet port printer",
        "running 2 deletions, 1 blocked",
        "▶ running network render-farm",
        "/601",
        "‖ blocked network staging",
        "0/2",
        "retried next at",
        "last 24 h no deletion ended",
    ];
    seat.see_all(&alive);
    // Nobody moved the cursor, so it is on what matters most.
    seat.see_all(&["> needs you"]);
    seat.resize(200, 60);
    seat.see_all(&alive);
    seat.see("port printer (project demo, not in this plan)");

    // It really goes on.
    let begun = &deletion(&stage, "render-farm")["counts"]["gone"];
    let told = || deletion(&stage, "render-farm").to_string();
    until("progress", told, || {
        let gone = &deletion(&stage, "render-farm")["counts"]["gone"];
        (gone.as_u64() > begun.as_u64()).then_some(())
    });
    // What is blocked and stuck is there, and what holds it too.
    let cloud = stage.carried_cloud();
    for network in ["intranet", "staging", "web", "legacy", "vault"] {
        cloud.id_of("networks", network);
    }
    cloud.id_of("ports", "printer");
    let stuck = stage.json(&["list", "stuck"]);
    assert_eq!(stuck[0]["blockers"][0]["name"], "printer", "{stuck}");
    // A person's retry is what frees it: at the second attempt.
    let intranet = deletion(&stage, "intranet");
    let id = intranet["id"].as_str().unwrap();
    stage.say(&["retry", id]);
    let told = || deletion(&stage, "intranet").to_string();
    until("the next attempt", told, || {
        (deletion(&stage, "intranet")["counts"]["blocked"] == 1).then_some(())
    });
    stage.say(&["retry", id]);
    until("the end", told, || {
        (deletion(&stage, "intranet")["state"] == "gone").then_some(())
    });
    assert!(!cloud.names("networks").contains(&"intranet".to_owned()));
    seat.press("q");
    seat.left();
}

#[test]
fn a_ledger_of_ones_own_gets_no_past() {
    let stage = Stage::new();
    let ledger = stage.path("own.db").display().to_string();
    let all = stage.json(&["--sandbox=morning", "--ledger", &ledger, "list"]);
    assert_eq!(all, serde_json::json!([]));
    let all = stage.json(&["--sandbox=morning", "list"]);
    assert_eq!(all.as_array().unwrap().len(), 5);
}

#[test]
fn a_past_that_names_nothing_says_so() {
    let stage = Stage::new();
    let scenario = "description = \"\"\nregions = [\"RegionOne\"]\n\
        [[past]]\nminutes_ago = 5\nby = \"ada\"\nkind = \"network\"\nname = \"nowhere\"\n";
    let scenario = stage.write("scenario.toml", scenario);
    stage
        .gone(&[&format!("--sandbox={scenario}"), "list"])
        .ends_with(2)
        .complains(&["the past of the scenario", "network/nowhere"]);
}
