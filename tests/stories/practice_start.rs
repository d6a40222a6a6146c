//! The start of the practice cloud. Its past gives the first screen a running, a blocked and a stuck deletion.

use serde_json::Value;

use super::home::{Home, until};
use super::session::Session;

/// Returns the deletion whose target is this network.
fn deletion(home: &Home, network: &str) -> Value {
    let all = home.json(&["list"]);
    let mut all = all.as_array().unwrap().iter();
    let found = all.find(|it| it["targets"][0]["name"] == network);
    found
        .unwrap_or_else(|| panic!("no deletion of {network}"))
        .clone()
}

#[test]
fn the_practice_cloud_opens_with_a_running_a_blocked_and_a_stuck_deletion() {
    let mut home = Home::new();
    home.start_practice_engine("practice");
    let mut session = Session::start(&home, &[]);
    let parts = [
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
    session.wait_for_all(&parts);
    // Without a key press the cursor is on the most urgent section.
    session.wait_for_all(&["> needs you"]);
    session.resize(200, 60);
    session.wait_for_all(&parts);
    session.wait_for("port printer (project demo, not in this plan)");

    // The running deletion makes progress.
    let begun = &deletion(&home, "render-farm")["counts"]["gone"];
    let state = || deletion(&home, "render-farm").to_string();
    until("progress", state, || {
        let gone = &deletion(&home, "render-farm")["counts"]["gone"];
        (gone.as_u64() > begun.as_u64()).then_some(())
    });
    // The networks of the stuck and the blocked deletion, the networks without a deletion, and the blocker of the stuck
    // deletion still exist.
    let cloud = home.embedded_cloud();
    for network in ["intranet", "staging", "web", "legacy", "vault"] {
        cloud.id_of("networks", network);
    }
    cloud.id_of("ports", "printer");
    let stuck = home.json(&["list", "stuck"]);
    assert_eq!(stuck[0]["blockers"][0]["name"], "printer", "{stuck}");
    // The second retry by a person succeeds.
    let intranet = deletion(&home, "intranet");
    let id = intranet["id"].as_str().unwrap();
    home.stdout_of(&["retry", id]);
    let state = || deletion(&home, "intranet").to_string();
    until("next attempt", state, || {
        (deletion(&home, "intranet")["counts"]["blocked"] == 1).then_some(())
    });
    home.stdout_of(&["retry", id]);
    until("end of the deletion", state, || {
        (deletion(&home, "intranet")["state"] == "gone").then_some(())
    });
    assert!(!cloud.names("networks").contains(&"intranet".to_owned()));
    session.quit();
}

#[test]
fn a_ledger_that_the_user_names_gets_no_past_deletions() {
    let home = Home::new();
    let ledger = home.path("own.db").display().to_string();
    let all = home.json(&["--sandbox=morning", "--ledger", &ledger, "list"]);
    assert_eq!(all, serde_json::json!([]));
    let all = home.json(&["--sandbox=morning", "list"]);
    assert_eq!(all.as_array().unwrap().len(), 5);
}

#[test]
fn a_past_that_names_an_unknown_network_is_refused_and_names_it() {
    let home = Home::new();
    let scenario = "description = \"\"\nregions = [\"RegionOne\"]\n\
        [[past]]\nminutes_ago = 5\nby = \"ada\"\nkind = \"network\"\nname = \"nowhere\"\n";
    let scenario = home.write("scenario.toml", scenario);
    home.gone(&[&format!("--sandbox={scenario}"), "list"])
        .ends_with(2)
        .stderr_has(&["the past of the scenario", "network/nowhere"]);
}
