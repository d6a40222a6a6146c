//! Verbs that read send no call that changes a cloud, whatever waits in the ledger (P10).

use rustix::process::Signal;
use serde_json::json;

use super::support::{Stage, text};

/// Starts a deletion of many slow calls, and interrupts it after the first. Returns its id.
fn interrupted_deletion(stage: &Stage) -> String {
    stage.settings("[engine]\nconcurrency = 1\nconcurrency_max = 1\n");
    stage.network("web", 20);
    stage.network("other", 0);
    stage.faults(json!([
        { "match": { "method": "DELETE", "kind": "port" }, "action": { "delay_ms": 500 } }
    ]));
    let deleting = stage.start("delete network/web-net-0 --cascade --yes");
    stage.await_writes(1);
    deleting.signal(Signal::INT);
    deleting.end().ends_with(130);
    stage.faults(json!([]));
    let deletions = stage.gone("list -o json").ok().json();
    let deletion = &deletions[0];
    assert!(deletion["counts"]["ready"].as_u64() > Some(0), "{deletion}");
    text(&deletion["id"])
}

#[test]
fn p10_verbs_that_read_send_no_step_that_waits_in_the_ledger() {
    let stage = Stage::new();
    let id = interrupted_deletion(&stage);
    let sent = stage.writes().len();
    let ports = stage.ids("ports");
    // With the default concurrency, an engine at work would send deletes beside the reads of a plan, long before
    // the plan is done.
    stage.settings("");
    stage.limits(json!({"latency_ms": 100, "parallel": 16}));
    for verb in [
        "plan network/other-net-0",
        "list",
        "list stuck",
        "list network",
        "list sites",
        "list tombstones",
        "explain network/web-net-0",
        "doctor",
        "check kinds",
        "retry --all --dry-run",
    ] {
        stage.gone(verb).ok();
        assert_eq!(stage.writes().len(), sent, "sent by gone {verb}");
    }
    for verb in ["show", "tree", "purge"] {
        stage.gone(&format!("{verb} {id}")).ok();
        assert_eq!(stage.writes().len(), sent, "sent by gone {verb}");
    }
    assert_eq!(stage.ids("ports"), ports);
}

#[test]
fn p10_a_retry_without_an_engine_works_until_the_deletion_has_ended() {
    let stage = Stage::new();
    let id = interrupted_deletion(&stage);
    let ran = stage.gone(&format!("retry {id}")).ok();
    assert!(ran.err.contains("gone"), "{}", ran.err);
    assert_eq!(stage.show(&id)["state"], "gone");
    assert!(
        !stage
            .list("networks")
            .iter()
            .any(|row| row["name"] == "web-net-0")
    );
}
