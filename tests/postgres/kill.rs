//! The PostgreSQL server, or the engine that leads, is killed while the program deletes resources of the practice
//! cloud.

use std::collections::BTreeMap;

use gone::ledger::postgres::{Address, holder};

use super::server::OwnServer;
use super::stage::{Running, Stage, text, wait_for};

const PORTS: u32 = 40;
/// The number of calls that change the cloud before the server or the engine is killed.
const SENT_BEFORE: usize = 6;
/// The number of calls in flight at a time.
const CONCURRENCY: usize = 4;

/// Starts an engine, and waits until it leads and serves its socket.
pub fn start_engine(stage: &Stage, address: &Address) -> Running {
    let engine = stage.start("--engine");
    wait_for("the engine", || {
        holder(address).is_some_and(|it| it.pid == engine.pid() && it.socket.is_some())
    });
    engine
}

/// How often each DELETE was sent, by its path.
fn count_deletes(stage: &Stage) -> BTreeMap<String, usize> {
    let mut deletes = BTreeMap::new();
    let calls = stage.writes().into_iter();
    for call in calls.filter(|call| call.method == "DELETE") {
        *deletes.entry(call.path).or_default() += 1;
    }
    deletes
}

#[test]
fn n13_i11_a_killed_server_loses_no_step_of_a_deletion_and_repeats_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = OwnServer::start(folder.path());
    let address = server.address_of("practice");
    let stage = Stage::new();
    stage.settings(&format!(
        "[ledger]\npath = '{address}'\n[engine]\nconcurrency = {CONCURRENCY}\nconcurrency_max = {CONCURRENCY}\n"
    ));
    let network = stage.network("doomed", PORTS);
    stage.limits(serde_json::json!({"latency_ms": 30, "parallel": CONCURRENCY}));
    let engine = start_engine(&stage, &address);
    let line = format!("delete network/{network} --cascade --yes -o json");
    let id = text(&stage.gone(&line).ok().json()["id"]);
    stage.await_writes(SENT_BEFORE);

    server.kill();
    let at_kill = stage.writes().len();
    wait_for("the engine reports that it cannot use the ledger", || {
        engine.err().contains("cannot read or write the ledger")
    });
    let refused = stage.gone(&format!("pause {id} --reason later"));
    refused.stderr_has(&["cannot read or write the ledger"]);
    wait_for("the calls in flight end", || {
        let calls = stage.calls();
        calls.iter().all(|call| call.status.is_some())
    });
    // Calls of steps that were claimed before the loss of the server wait, too, except for the calls that began before
    // an engine noticed the loss.
    let sent = stage.writes().len();
    assert!(
        sent <= at_kill + 2 * CONCURRENCY,
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
    let deletes = count_deletes(&stage);
    assert!(deletes.len() > PORTS as usize, "{deletes:?}");
    assert!(deletes.values().all(|times| *times == 1), "{deletes:?}");
}

/// Story 20: the engine that leads is killed in the middle of a deletion, and the other engine continues the deletion.
#[test]
fn i11_a_killed_engine_is_replaced_and_only_its_calls_in_flight_are_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let server = OwnServer::start(folder.path());
    let address = server.address_of("practice");
    let stage = Stage::new();
    stage.settings(&format!(
        "[ledger]\npath = '{address}'\n[engine]\nconcurrency = {CONCURRENCY}\nconcurrency_max = {CONCURRENCY}\n\
         call_timeout = '2s'\nlease = '4s'\n"
    ));
    let network = stage.network("doomed", PORTS);
    stage.limits(serde_json::json!({"latency_ms": 100, "parallel": CONCURRENCY}));
    let first = start_engine(&stage, &address);
    let socket = stage.path("second.sock");
    let second = stage.start(&format!("--engine --socket {}", socket.display()));
    let engines = || {
        let listed = stage.gone("list engines -o json").ok().json();
        let rows = listed.as_array().unwrap().clone();
        rows.iter()
            .map(|row| (row["pid"].as_u64().unwrap(), text(&row["role"])))
            .collect::<Vec<_>>()
    };
    let (leader, other) = (u64::from(first.pid()), u64::from(second.pid()));
    wait_for("both engines", || {
        engines() == [(leader, "leads".to_owned()), (other, "works".to_owned())]
    });
    let line = format!("delete network/{network} --cascade --yes -o json");
    let id = text(&stage.gone(&line).ok().json()["id"]);
    stage.await_writes(SENT_BEFORE);

    first.kill();
    let deletion = stage.await_state(&id, "gone");
    assert_eq!(
        deletion["counts"]["gone"], deletion["counts"]["total"],
        "{deletion}"
    );
    wait_for("the other engine leads alone", || {
        engines() == [(other, "leads".to_owned())]
    });
    let deletes = count_deletes(&stage);
    assert!(deletes.len() > PORTS as usize, "{deletes:?}");
    let repeated = deletes.values().filter(|times| **times > 1).count();
    assert!(repeated <= CONCURRENCY, "{deletes:?}");
    assert!(deletes.values().all(|times| *times <= 2), "{deletes:?}");
    second.stop().ok();
}
