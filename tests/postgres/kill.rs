//! The server is killed in the middle of a deletion on the practice cloud, through the program itself.

use std::collections::BTreeMap;

use gone::ledger::postgres::holder;

use super::server::OwnServer;
use super::stage::{Stage, text, wait_for};

const PORTS: u32 = 40;
/// Calls of the cloud that change it, until the server is killed.
const SENT_BEFORE: usize = 6;
/// Calls at a time.
const CONCURRENCY: usize = 4;
/// As many are claimed ahead at most.
const CLAIMED_MAX: usize = 2 * CONCURRENCY;

#[test]
fn n13_i11_a_server_that_is_killed_in_the_middle_of_a_deletion_loses_nothing_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = OwnServer::start(folder.path());
    let address = server.address_of("practice");
    let stage = Stage::new();
    stage.settings(&format!(
        "[ledger]\npath = '{address}'\n[engine]\nconcurrency = {CONCURRENCY}\nconcurrency_max = {CONCURRENCY}\n"
    ));
    let network = stage.network("doomed", PORTS);
    stage.limits(serde_json::json!({"latency_ms": 30, "parallel": CONCURRENCY}));
    let engine = stage.start("--engine");
    wait_for("the engine", || {
        holder(&address).is_some_and(|it| it.pid == engine.pid() && it.socket.is_some())
    });
    let line = format!("delete network/{network} --cascade --yes -o json");
    let id = text(&stage.gone(&line).ok().json()["id"]);
    stage.await_writes(SENT_BEFORE);

    server.kill();
    let at_kill = stage.writes().len();
    wait_for("the engine says so", || {
        engine.err().contains("cannot write the ledger")
    });
    let refused = stage.gone(&format!("pause {id} --reason later"));
    refused.says(&["cannot write the ledger"]);
    wait_for("the calls in flight end", || {
        let calls = stage.calls();
        calls.iter().all(|call| call.status.is_some())
    });
    // What was claimed before is sent, since the ledger says so; nothing can be claimed.
    let sent = stage.writes().len();
    assert!(
        sent <= at_kill + CLAIMED_MAX,
        "{at_kill} were sent before, {sent} after"
    );
    assert!(
        sent < PORTS as usize,
        "the deletion was over before the server was killed"
    );

    server.restart();
    let deletion = stage.await_state(&id, "gone");
    assert_eq!(
        deletion["counts"]["gone"], deletion["counts"]["total"],
        "{deletion}"
    );
    engine.stop().ok();
    let mut deletes: BTreeMap<String, usize> = BTreeMap::new();
    for call in stage.writes() {
        if call.method == "DELETE" {
            *deletes.entry(call.path).or_default() += 1;
        }
    }
    assert!(deletes.len() > PORTS as usize, "{deletes:?}");
    assert!(deletes.values().all(|times| *times == 1), "{deletes:?}");
}
