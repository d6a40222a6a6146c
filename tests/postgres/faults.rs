//! Servers that are killed or cannot be reached, and ledgers that are held by another engine, foreign, older or
//! newer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gone::domain::model::{Phase, StepState};
use gone::ledger::postgres::{Address, PostgresLedger, can_write, holder};
use gone::ledger::tombstones::Tombstones;
use gone::ledger::{
    Applied, Commit as _, EngineTerms, Hold as _, LedgerError, Views as _, WorkQueue as _,
};

use crate::pooler;
use crate::server::{self, OwnServer};
use crate::stores::run_blocking;
use crate::support::{
    accept, accept_port, at, capacity, claim, commit_one, end_step, id, key, many_ports,
    new_deletion, outcome, ports, record_outcome, site, start, start_deletion, states, target,
};

/// The tables of version 1, and the changes of version 2.
const VERSIONS: [&str; 2] = [
    include_str!("../../src/ledger/postgres/schema.sql"),
    include_str!("../../src/ledger/postgres/schema_2.sql"),
];

async fn open(address: &Address) -> Result<PostgresLedger, LedgerError> {
    let address = address.clone();
    run_blocking(move || PostgresLedger::open(&address, None, EngineTerms::default())).await
}

#[tokio::test]
async fn the_next_engine_of_a_released_ledger_has_a_greater_epoch_and_the_first_is_closed() {
    let address = run_blocking(pooler::address).await;
    assert_eq!(holder(&address), None);
    let first = open(&address).await.unwrap();
    first.announce(Some("/run/first.sock")).unwrap();
    let holder = holder(&address).unwrap();
    assert_eq!(holder.pid, std::process::id());
    assert_eq!(holder.socket.as_deref(), Some("/run/first.sock"));
    first.release().await;
    let second = open(&address).await.unwrap();
    assert_eq!((first.epoch(), second.epoch()), (1, 2));
    let late = first.commit(vec![start("none", &ports(&[]), at(0))]).await;
    assert!(matches!(late, Err(LedgerError::Closed)), "{late:?}");
}

/// A ledger of version 1 is upgraded, but not while an engine of that version still runs and holds its lock.
#[tokio::test]
async fn a_ledger_of_version_1_is_upgraded_once_its_engine_has_ended() {
    let address = run_blocking(pooler::address).await;
    let schema = address.schema().to_owned();
    let first = VERSIONS[0];
    let tables = format!(
        "CREATE SCHEMA \"{schema}\"; SET search_path = \"{schema}\"; {first}
         INSERT INTO version(number) VALUES(1);
         INSERT INTO engines(epoch, pid, host) VALUES(7, 1, 'elsewhere')"
    );
    let old = run_blocking(move || {
        server::shared().run_sql(&tables);
        let lock = format!("SELECT pg_advisory_lock(hashtextextended('gone ledger {schema}', 0))");
        server::shared().open_transaction(&lock)
    })
    .await;
    let error = open(&address).await.unwrap_err();
    assert!(matches!(error, LedgerError::Held { pid: 1, .. }), "{error}");
    run_blocking(move || drop(old)).await;
    let ledger = open(&address).await.unwrap();
    assert_eq!(ledger.epoch(), 8);
    accept_port(&ledger, "one", "a", at(0)).await;
}

/// A ledger of version 2 is upgraded once its engines on all machines have ended. An engine that lost its lease
/// meanwhile does not write the tables of a newer version.
#[tokio::test]
async fn tables_are_upgraded_only_while_no_engine_is_alive_and_an_older_engine_stops_writing() {
    let address = run_blocking(pooler::address).await;
    let schema = address.schema().to_owned();
    let tables = format!(
        "CREATE SCHEMA \"{schema}\"; SET search_path = \"{schema}\"; {}
         INSERT INTO version(number) VALUES(2);
         INSERT INTO engines(epoch, pid, host, machine, renewed_at, lease_ms, ended)
             VALUES(7, 4711, 'elsewhere', 'another', clock_timestamp(), 60000, false)",
        VERSIONS.concat()
    );
    let run = |sql: String| run_blocking(move || server::shared().run_sql(&sql));
    run(tables).await;
    let error = open(&address).await.unwrap_err();
    let is_held = matches!(error, LedgerError::Held { pid: 4711, .. });
    assert!(is_held, "{error}");
    let version = format!("SELECT number FROM {schema}.version");
    assert_eq!(run(version.clone()).await, "2");

    run(format!(
        "UPDATE {schema}.engines SET renewed_at = to_timestamp(0)"
    ))
    .await;
    let ledger = open(&address).await.unwrap();
    assert_eq!(ledger.epoch(), 8);
    assert_eq!(run(version).await, "3");

    // As a newer version would do, once this engine's lease had ended.
    run(format!(
        "UPDATE {schema}.version SET number = 4; UPDATE {schema}.engines SET ended = true"
    ))
    .await;
    let error = ledger.commit(vec![start("none", &ports(&[]), at(0))]).await;
    let error = error.unwrap_err();
    let is_newer = matches!(
        error,
        LedgerError::Newer {
            found: 4,
            known: 3,
            ..
        }
    );
    assert!(is_newer, "{error}");
    ledger.close().await;
}

#[tokio::test]
async fn the_schema_of_another_program_and_a_newer_ledger_are_refused() {
    let (foreign, newer) = run_blocking(|| {
        let server = server::shared();
        let foreign = server.address();
        assert!(can_write(&foreign).is_ok());
        let schema = foreign.schema();
        server.run_sql(&format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.elses(id int)"
        ));
        let newer = server.address();
        drop(PostgresLedger::open(&newer, None, EngineTerms::default()).unwrap());
        let schema = newer.schema();
        server.run_sql(&format!("UPDATE {schema}.version SET number = 99"));
        (foreign, newer)
    })
    .await;
    let error = open(&foreign).await.unwrap_err();
    let named = format!("\"{}\" has tables", foreign.schema());
    assert!(error.to_string().contains(&named), "{error}");
    assert!(can_write(&foreign).is_err());
    let error = open(&newer).await.unwrap_err();
    assert!(
        matches!(
            error,
            LedgerError::Newer {
                found: 99,
                known: 3,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn an_unreachable_server_is_named_with_the_reason() {
    let address = Address::parse("postgres://u@127.0.0.1:1/d?sslmode=disable").unwrap();
    let error = open(&address).await.unwrap_err().to_string();
    assert!(error.contains("postgres://u@127.0.0.1:1/d"), "{error}");
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn t03_tombstones_are_in_the_memory_index_when_their_commit_returns_and_after_a_restart() {
    let address = run_blocking(pooler::address).await;
    let follow = |address: Address| {
        run_blocking(move || {
            let index = Arc::new(Tombstones::default());
            (
                PostgresLedger::open(&address, Some(index.clone()), EngineTerms::default())
                    .unwrap(),
                index,
            )
        })
    };
    let (ledger, index) = follow(address.clone()).await;
    let phase = |index: &Tombstones, id: &str| index.phase(&site(), &key("port", id).kind, id);
    accept_port(&ledger, "one", "a", at(0)).await;
    assert_eq!(phase(&index, "a"), Some(Phase::Checking));
    commit_one(
        &ledger,
        start("one", &ports(&[("a", &[]), ("b", &[])]), at(1)),
    )
    .await;
    assert_eq!(phase(&index, "b"), Some(Phase::Deleting));
    for step in claim(&ledger, 1).await {
        end_step(&ledger, &step, StepState::Gone, at(2)).await;
        assert_eq!(phase(&index, &step.key.id), Some(Phase::Gone));
    }
    // A refused change leaves nothing in the index, not even if it fails half-way.
    let twice = start("two", &ports(&[("c", &[]), ("c", &[])]), at(3));
    let applied = ledger
        .commit(vec![
            accept(new_deletion("two", vec![target("port", "z")], at(3))),
            twice,
        ])
        .await
        .unwrap();
    assert!(matches!(&applied[1], Applied::Refused(_)), "{applied:?}");
    assert_eq!(phase(&index, "z"), Some(Phase::Checking));
    assert_eq!(phase(&index, "c"), None);
    ledger.close().await;
    let (_ledger, again) = follow(address).await;
    assert_eq!(phase(&again, "z"), Some(Phase::Checking));
    let phases = ["a", "b"].map(|id| phase(&again, id));
    assert!(phases.contains(&Some(Phase::Gone)) && phases.contains(&Some(Phase::Deleting)));
}

/// The number of steps that may end before the first fault, and after each.
const SHARE: usize = 15;
/// Limit for [`end_steps_despite`]; even a busy machine needs less.
const ENDED_WITHIN: Duration = Duration::from_secs(120);

/// Starts a deletion of many steps on these engines, which claim and end them one at a time, while faults happen to
/// their servers. Each fault begins while steps end, and the last share of the steps may end only after the last
/// fault, so every fault meets open work. No step is claimed twice, even if the answer to a claim was late, and all
/// acknowledged outcomes are kept. `fault` gets the servers and the number of earlier faults. Returns the servers.
pub async fn end_steps_despite<S: Send + 'static>(
    engines: &[&PostgresLedger],
    mut servers: S,
    faults: usize,
    mut fault: impl FnMut(&mut S, usize) + Send + 'static,
) -> S {
    let steps = SHARE * (faults + 1);
    start_deletion(engines[0], "one", &many_ports(steps)).await;

    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(SHARE)]);
    let shared = counts.clone();
    let failing = std::thread::spawn(move || {
        let [ended, may_end] = &*shared;
        for before in 0..faults {
            while ended.load(Ordering::SeqCst) < before * SHARE + SHARE / 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            fault(&mut servers, before);
            may_end.fetch_add(SHARE, Ordering::SeqCst);
        }
        servers
    });
    let ending = claim_and_end_each_once(engines, steps, &counts);
    let ended = tokio::time::timeout(ENDED_WITHIN, ending).await;
    ended.expect("the steps do not end");
    let servers = run_blocking(move || failing.join().unwrap()).await;

    let states = states(engines[0], "one").await;
    assert_eq!(states.len(), steps);
    let are_gone = states.iter().all(|(_, state)| *state == StepState::Gone);
    assert!(are_gone, "{states:?}");
    let deletion = engines[0].deletion(&id("one")).await.unwrap().unwrap();
    assert_eq!(deletion.counts.gone, steps as u64);
    servers
}

/// Has these engines claim and end this many steps. `ended` counts them, and never exceeds `may_end`.
async fn claim_and_end_each_once(
    engines: &[&PostgresLedger],
    steps: usize,
    [ended, may_end]: &[AtomicUsize; 2],
) {
    let mut claimed_before = BTreeSet::new();
    while claimed_before.len() < steps {
        for ledger in engines {
            if claimed_before.len() >= may_end.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(claimed) = ledger.claim(vec![capacity(1)], at(1)).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            for step in claimed {
                let is_new = claimed_before.insert(step.key.id.clone());
                assert!(is_new, "{} was claimed twice", step.key);
                let gone = record_outcome(outcome(&step, StepState::Gone, at(2)));
                while ledger.commit(vec![gone.clone()]).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                ended.fetch_add(1, Ordering::SeqCst);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A primary with a synchronous standby is killed, and the standby is promoted. The standby has all acknowledged
/// outcomes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_outcomes_survive_a_lost_primary_when_its_standby_is_promoted() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = folders.each_ref().map(|folder| folder.path().to_owned());
    let servers = run_blocking(move || {
        let primary = OwnServer::start(&first);
        let standby = primary.with_standby(&second);
        (primary, standby)
    })
    .await;
    let url = format!(
        "postgres://postgres@/postgres?host={},{}&schema=moved",
        servers.0.folder().display(),
        servers.1.folder().display()
    );
    let ledger = open(&Address::parse(&url).unwrap()).await.unwrap();
    let fail_over = |(primary, standby): &mut (OwnServer, OwnServer), _| {
        primary.kill();
        standby.promote();
    };
    let _servers = end_steps_despite(&[&ledger], servers, 1, fail_over).await;
    ledger.close().await;
}

/// The server is killed again and again while steps are claimed and end. Acknowledged outcomes are kept, and no step is
/// claimed twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_outcomes_survive_a_server_that_is_killed_repeatedly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let server = run_blocking(move || OwnServer::start(&path)).await;
    let ledger = open(&server.address()).await.unwrap();
    let kill = |server: &mut OwnServer, _| {
        server.kill();
        std::thread::sleep(Duration::from_millis(150));
        server.restart();
    };
    let _server = end_steps_despite(&[&ledger], server, 3, kill).await;
    ledger.close().await;
}
