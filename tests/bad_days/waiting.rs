//! Waits that end before the deletion is gone.

use rustix::process::Signal;
use serde_json::json;

use super::support::{Stage, text};

/// Makes the cloud serve one call at a time, in half a second each.
fn slow_down(stage: &Stage) {
    stage.limits(json!({"latency_ms": 500, "parallel": 1}));
}

#[test]
fn p02_a_stuck_deletion_exits_with_4_and_names_its_blocker() {
    let stage = Stage::new();
    stage.settings("[gc]\nschedule = [\"300ms\"]\njitter = 0.0\nmax_attempts = 2\n");
    let seeded = stage.seed(json!({"name": "web", "networks": 1, "ports_per_network": 2}));
    let (network, port) = (text(&seeded["networks"][0]), text(&seeded["ports"][1]));
    // Something re-creates the port after each delete.
    stage.faults(json!([{
        "match": {"method": "DELETE", "id": port},
        "action": {"recreate_after_ms": 1, "as": "new"},
    }]));
    let ran = stage
        .gone("delete network/web-net-0 --cascade --yes")
        .ends_with(4)
        .stderr_has(&["needs a person", "gone show", "gone retry"]);
    let blocker = stage
        .list("ports")
        .into_iter()
        .find(|port| port["device_owner"] == "compute:nova");
    let blocker = text(&blocker.unwrap()["id"]);
    for word in [
        "stuck",
        network.as_str(),
        "409",
        "blocked by port",
        blocker.as_str(),
    ] {
        assert!(ran.out.contains(word), "no {word:?} in {}", ran.out);
    }
    let stuck = stage.gone("list stuck -o json").ok().json();
    assert_eq!(stuck[0]["resource"]["id"], network.as_str(), "{stuck}");
    assert_eq!(stuck[0]["blockers"][0]["id"], blocker.as_str(), "{stuck}");
}

#[test]
fn a_wait_that_times_out_exits_with_8_and_the_deletion_continues() {
    let stage = Stage::with_web(6);
    slow_down(&stage);
    let engine = stage.engine();
    let ran = stage
        .gone("delete network/web-net-0 --cascade --yes --wait=1s -o json")
        .ends_with(8)
        .stderr_has(&["still running", "gone show"]);
    let id = text(&ran.json()["id"]);
    stage.limits(json!({}));
    stage.await_state(&id, "gone");
    engine.stop().ok();
}

#[test]
fn ctrl_c_while_waiting_exits_with_130_and_says_how_the_deletion_continues() {
    let stage = Stage::with_web(6);
    slow_down(&stage);
    // Without an engine: the verb's own engine ends with it, and the deletion stays in the ledger.
    let alone = stage.start("delete network/web-net-0 --cascade --yes");
    stage.await_writes(1);
    alone.signal(Signal::INT);
    alone.end().ends_with(130).stderr_has(&[
        "Interrupted",
        "stays in the ledger",
        "gone --engine",
        "gone show",
        "gone cancel",
    ]);
    // With an engine: the deletion continues there.
    stage.limits(json!({}));
    let engine = stage.engine();
    let rows = stage.gone("list -o json").ok().json();
    stage.await_state(&text(&rows[0]["id"]), "gone");
    stage.network("db", 6);
    slow_down(&stage);
    let sent = stage.writes().len();
    let waiting = stage.start("delete network/db-net-0 --cascade --yes --wait");
    stage.await_writes(sent + 1);
    waiting.signal(Signal::INT);
    waiting.end().ends_with(130).stderr_has(&[
        "Interrupted",
        "continues in the engine",
        "gone show",
    ]);
    stage.limits(json!({}));
    let rows = stage.gone("list -o json").ok().json();
    stage.await_state(&text(&rows[0]["id"]), "gone");
    stage.await_state(&text(&rows[1]["id"]), "gone");
    engine.stop().ok();
    assert!(stage.ids("networks").is_empty());
}
