//! Several engines on one ledger: the leader, takeovers, shares of a limit, and the write guards at all gates.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gone::domain::engines::EngineRole;
use gone::domain::model::{Origin, Phase, StepState};
use gone::ledger::postgres::{Address, PostgresLedger, holder};
use gone::ledger::tombstones::Tombstones;
use gone::ledger::{
    Applied, Change, EngineTerms, Engines, Hold as _, LedgerError, Membership, Selection,
    Views as _, WorkQueue as _,
};

use crate::pooler;
use crate::server;
use crate::stores::run_blocking;
use crate::support::{
    accept, accept_port, at, capacity, claim, commit_one, end_step, entry, id, key, many_ports,
    new_deletion, outcome, ports, record_outcome, retry, site, start, start_deletion, states,
    target,
};

/// No wait takes longer, unless something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

async fn new_schema() -> Address {
    run_blocking(pooler::address).await
}

async fn engine(address: &Address, name: &str) -> PostgresLedger {
    engine_with_gates(address, name, None).await
}

async fn engine_with_gates(
    address: &Address,
    name: &str,
    tombstones: Option<Arc<Tombstones>>,
) -> PostgresLedger {
    let terms = EngineTerms {
        name: name.to_owned(),
        ..EngineTerms::default()
    };
    let address = address.clone();
    let opening = move || PostgresLedger::open(&address, tombstones, terms).unwrap();
    let ledger = run_blocking(opening).await;
    ledger.begin_work();
    ledger
}

/// Waits until the membership of the engine is as expected.
async fn await_membership(
    ledger: &PostgresLedger,
    is_expected: impl Fn(&Membership) -> bool,
) -> Membership {
    let mut changes = ledger.follow_others();
    let since = Instant::now();
    loop {
        let membership = ledger.membership();
        if is_expected(&membership) {
            return membership;
        }
        assert!(since.elapsed() < PATIENCE, "{membership:?}");
        let _ = tokio::time::timeout(Duration::from_millis(100), changes.changed()).await;
    }
}

/// Ends the lease of an engine that still runs.
async fn end_lease(address: &Address, epoch: i64) {
    let schema = address.schema().to_owned();
    let sql = format!(
        "UPDATE \"{schema}\".engines SET renewed_at = to_timestamp(0) WHERE epoch = {epoch}"
    );
    run_blocking(move || server::shared().run_sql(&sql)).await;
}

async fn set_drained(ledger: &PostgresLedger, name: &str, is_drained: bool) -> Applied {
    let change = Change::DrainEngines {
        name: name.to_owned(),
        is_drained,
        audit: entry("pause engine", name, Origin::Cli),
        now: at(1),
    };
    commit_one(ledger, change).await
}

#[tokio::test]
async fn the_engine_that_began_first_leads_and_all_share_the_limit_of_a_site() {
    let address = new_schema().await;
    let first = engine(&address, "first").await;
    let alone = await_membership(&first, |membership| membership.leads).await;
    assert_eq!((alone.epoch, alone.share_of(7)), (1, 7));
    let second = engine(&address, "second").await;
    let led = await_membership(&second, |membership| membership.working == 2).await;
    let leads = await_membership(&first, |membership| membership.working == 2).await;
    assert_eq!((leads.leads, led.leads), (true, false));
    assert_eq!((leads.share_of(7), led.share_of(7)), (4, 3));
    assert_eq!((leads.share_of(1), led.share_of(1)), (1, 0));

    first.announce(Some("/run/first.sock")).unwrap();
    let found = holder(&address).unwrap();
    assert_eq!(found.pid, std::process::id());
    assert_eq!(found.socket.as_deref(), Some("/run/first.sock"));

    assert_eq!(set_drained(&second, "first", true).await, Applied::Moved(0));
    let refused = set_drained(&second, "third", true).await;
    assert!(matches!(refused, Applied::Refused(_)), "{refused:?}");
    let audited = second.audit(0, 10).await.unwrap();
    let actions: Vec<(&str, &str)> = audited
        .iter()
        .map(|row| (row.action.as_str(), row.target.as_str()))
        .collect();
    assert_eq!(actions, [("pause engine", "first")]);
    await_membership(&second, |membership| {
        membership.leads && membership.share_of(7) == 7
    })
    .await;
    let drained = await_membership(&first, |membership| membership.rank.is_none()).await;
    assert_eq!(drained.share_of(7), 0);
    let roles: Vec<(String, EngineRole)> = second
        .engines()
        .await
        .unwrap()
        .into_iter()
        .map(|engine| (engine.name, engine.role))
        .collect();
    assert_eq!(
        roles,
        [
            ("second".to_owned(), EngineRole::Leads),
            ("first".to_owned(), EngineRole::Drained)
        ]
    );
    set_drained(&second, "first", false).await;
    await_membership(&first, |membership| membership.leads).await;

    first.close().await;
    await_membership(&second, |membership| {
        membership.leads && membership.is_takeover_due
    })
    .await;
    commit_one(&second, Change::TakeOver { now: at(1) }).await;
    await_membership(&second, |membership| !membership.is_takeover_due).await;
    assert_eq!(second.engines().await.unwrap().len(), 1);
}

#[tokio::test]
async fn g12_an_engine_that_must_be_alone_shares_its_ledger_with_no_other() {
    let address = new_schema().await;
    let open = |is_alone| {
        let address = address.clone();
        let terms = EngineTerms {
            is_alone,
            ..EngineTerms::default()
        };
        run_blocking(move || PostgresLedger::open(&address, None, terms))
    };
    let is_held = |opened: Result<PostgresLedger, LedgerError>| matches!(opened, Err(LedgerError::Held { pid, .. }) if pid == std::process::id());
    let alone = open(true).await.unwrap();
    assert!(is_held(open(false).await) && is_held(open(true).await));
    alone.close().await;
    let first = open(false).await.unwrap();
    assert!(is_held(open(true).await));
    let second = open(false).await.unwrap();
    assert_eq!((first.epoch(), second.epoch()), (2, 3));
}

#[tokio::test]
async fn i11_two_engines_that_claim_at_the_same_time_claim_each_step_once() {
    const STEPS: usize = 200;
    let address = new_schema().await;
    let (first, second) = (
        engine(&address, "first").await,
        engine(&address, "second").await,
    );
    start_deletion(&first, "one", &many_ports(STEPS)).await;
    let work = async |ledger: &PostgresLedger| {
        let mut claimed = Vec::new();
        loop {
            let some = ledger.claim(vec![capacity(7)], at(1)).await.unwrap();
            if some.is_empty() {
                return claimed;
            }
            for step in some {
                end_step(ledger, &step, StepState::Gone, at(2)).await;
                claimed.push(step.key.id);
            }
        }
    };
    let (by_first, by_second) = tokio::join!(work(&first), work(&second));
    assert!(!by_first.is_empty() && !by_second.is_empty());
    let all: BTreeSet<&String> = by_first.iter().chain(&by_second).collect();
    assert_eq!(
        (all.len(), by_first.len() + by_second.len()),
        (STEPS, STEPS)
    );
    let states = states(&second, "one").await;
    assert!(states.iter().all(|(_, state)| *state == StepState::Gone));
}

#[tokio::test]
async fn i11_the_steps_in_flight_of_a_lost_engine_are_taken_over_and_its_outcomes_are_stale() {
    let address = new_schema().await;
    let (first, second) = (
        engine(&address, "first").await,
        engine(&address, "second").await,
    );
    start_deletion(&first, "one", &ports(&[("a", &[]), ("b", &[])])).await;
    let of_first = claim(&first, 1).await;
    let of_second = claim(&second, 1).await;
    set_drained(&second, "first", true).await;
    end_lease(&address, 1).await;
    let taken = commit_one(&second, Change::TakeOver { now: at(2) }).await;
    assert_eq!(taken, Applied::Moved(1));
    let verifying = (of_first[0].key.id.clone(), StepState::Verifying);
    assert!(states(&second, "one").await.contains(&verifying));

    // The engine whose lease was ended begins a new epoch by itself. Its earlier claims are no longer its own.
    let late = record_outcome(outcome(&of_first[0], StepState::Gone, at(3)));
    assert_eq!(commit_one(&first, late).await, Applied::Stale);
    assert_eq!(first.epoch(), 3);
    let own = record_outcome(outcome(&of_second[0], StepState::Gone, at(3)));
    assert_eq!(commit_one(&second, own).await, Applied::Done);
    assert!(states(&first, "one").await.contains(&verifying));
    await_membership(&first, |membership| {
        membership.epoch == 3 && membership.working == 1 && membership.rank.is_none()
    })
    .await;
}

#[tokio::test]
async fn t03_the_gates_of_all_engines_have_the_write_guard_before_a_deletion_is_acknowledged() {
    let address = new_schema().await;
    let (before, after) = (Arc::<Tombstones>::default(), Arc::<Tombstones>::default());
    let gates = engine_with_gates(&address, "gates", Some(before.clone())).await;
    let accepts = engine(&address, "accepts").await;
    let late = engine_with_gates(&address, "late", Some(after.clone())).await;
    await_membership(&accepts, |membership| membership.working == 3).await;
    let phase = |index: &Tombstones, id: &str| index.phase(&site(), &key("port", id).kind, id);
    for n in 0..20 {
        let (name, id) = (format!("d{n}"), format!("p{n}"));
        let wanted = new_deletion(&name, vec![target("port", &id)], at(n));
        commit_one(&accepts, accept(wanted)).await;
        for index in [&before, &after] {
            assert!(!index.is_lost());
            assert_eq!(phase(index, &id), Some(Phase::Checking), "{id}");
        }
        commit_one(&accepts, start(&name, &ports(&[(&id, &[])]), at(n))).await;
        for index in [&before, &after] {
            assert_eq!(phase(index, &id), Some(Phase::Deleting), "{id}");
        }
    }
    // An engine that starts later has all earlier tombstones.
    let newest = Arc::<Tombstones>::default();
    let _newest = engine_with_gates(&address, "newest", Some(newest.clone())).await;
    assert_eq!(newest.len(), before.len());
    drop((gates, late));
}

/// A refused deletion has no write guards; its retry raises them again.
#[tokio::test]
async fn t03_the_gates_of_all_engines_have_the_write_guard_before_a_retry_is_acknowledged() {
    let address = new_schema().await;
    let index = Arc::<Tombstones>::default();
    let gates = engine_with_gates(&address, "gates", Some(index.clone())).await;
    let accepts = engine(&address, "accepts").await;
    await_membership(&accepts, |membership| membership.working == 2).await;
    let port = key("port", "p");
    let phase = || index.phase(&port.site, &port.kind, &port.id);
    accept_port(&accepts, "d", "p", at(0)).await;
    for n in 1..20 {
        let refuse = Change::Refuse {
            deletion_id: id("d"),
            refused: Vec::new(),
            note: "refused".to_owned(),
            now: at(n),
        };
        assert_eq!(commit_one(&accepts, refuse).await, Applied::Done);
        let again = retry(Selection::Deletion(id("d")), Origin::Cli, at(n));
        assert_eq!(commit_one(&accepts, again).await, Applied::Moved(1));
        assert!(!index.is_lost());
        assert_eq!(phase(), Some(Phase::Checking), "retry {n}");
    }
    drop(gates);
}

/// Write guards also work with an engine that has just started and that the others do not know yet.
#[tokio::test]
async fn t03_a_new_engine_exchanges_write_guards_with_the_others_from_the_start() {
    let address = new_schema().await;
    let index = Arc::<Tombstones>::default();
    let first = engine_with_gates(&address, "first", Some(index.clone())).await;
    let phase = |index: &Tombstones, id: &str| index.phase(&site(), &key("port", id).kind, id);
    for n in 0..10 {
        let (id, own) = (format!("p{n}"), format!("q{n}"));
        let second_index = Arc::<Tombstones>::default();
        let second = engine_with_gates(&address, "second", Some(second_index.clone())).await;
        let of_second = new_deletion(&format!("d{n}"), vec![target("port", &id)], at(n));
        let of_first = new_deletion(&format!("e{n}"), vec![target("port", &own)], at(n));
        let (_, _) = tokio::join!(
            commit_one(&second, accept(of_second)),
            commit_one(&first, accept(of_first))
        );
        for index in [&index, &second_index] {
            let phases = [phase(index, &id), phase(index, &own)];
            assert_eq!(phases, [Some(Phase::Checking); 2], "{n}");
        }
        second.close().await;
    }
}

#[tokio::test]
async fn t14_planning_waits_for_writes_that_gates_of_other_engines_passed_before_the_guard() {
    let address = new_schema().await;
    let index = Arc::<Tombstones>::default();
    let plans = engine(&address, "plans").await;
    let gates = engine_with_gates(&address, "gates", Some(index.clone())).await;
    let accepts = engine(&address, "accepts").await;
    await_membership(&plans, |membership| membership.working == 3).await;
    let write = index.begin_write(&site());
    accept_port(&accepts, "one", "a", at(0)).await;
    let waiting = plans.guards_reached_gates();
    tokio::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut waiting).await;
    assert!(
        early.is_err(),
        "planning did not wait for a write in progress"
    );
    drop(write);
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    ended.unwrap().unwrap();
    drop(gates);
}

/// The hardest case of T3: an engine with gates hangs. Its gates may answer from their index until their lease ends.
/// Until then no deletion is acknowledged, and from then on these gates answer nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t03_a_hung_gate_answers_nothing_once_a_deletion_is_acknowledged_without_it() {
    let address = new_schema().await;
    let index = Arc::<Tombstones>::default();
    let hung = engine_with_gates(&address, "hung", Some(index.clone())).await;
    let accepts = engine(&address, "accepts").await;
    await_membership(&accepts, |membership| membership.working == 2).await;
    assert!(!index.is_lost());
    // The row of the engine is locked, as if its renewals were lost on the way.
    let schema = address.schema().to_owned();
    let locked = run_blocking(move || {
        server::shared().open_transaction(&format!(
            "SELECT 1 FROM \"{schema}\".engines WHERE name = 'hung' FOR UPDATE"
        ))
    })
    .await;
    let wanted = new_deletion("one", vec![target("port", "a")], at(0));
    let mut accepting = pin!(commit_one(&accepts, accept(wanted)));
    let began = Instant::now();
    while tokio::time::timeout(Duration::from_millis(5), &mut accepting)
        .await
        .is_err()
    {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(index.is_lost());
    drop(locked);
    // The engine renews its lease, and its gates answer again once they have the changes that they missed.
    let since = Instant::now();
    while index.is_lost() {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let known = index.phase(&site(), &key("port", "a").kind, "a");
    assert_eq!(known, Some(Phase::Checking));
    drop(hung);
}
