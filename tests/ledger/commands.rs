//! Commands for a deletion, from people and programs: cancel, pause, retry. Also its events, and steps that enable a
//! resource before it is deleted.

use gone::domain::model::{
    Action, DeletionState, ErrorClass, EventKind, Origin, Phase, Plan, StepState,
};
use gone::domain::policy::Decision;
use gone::ledger::{Applied, Change, EventFilter, Ledger, Selection, StepChange};

use crate::stores::on_each_store;
use crate::support::*;

#[test]
fn event_messages_use_the_singular_for_one_step() {
    use gone::ledger::events::{handles_referrers, makes_others_stuck, planned};
    for (draft, words) in [
        (planned("d1", 1), "deletion d1 planned: 1 step"),
        (planned("d1", 2), "deletion d1 planned: 2 steps"),
        (
            makes_others_stuck(1),
            "1 step waits for it, and is stuck too",
        ),
        (
            makes_others_stuck(2),
            "2 steps wait for it, and are stuck too",
        ),
        (
            handles_referrers("d1", 1, "d0-1"),
            "deletion d1 handles the referrers of 1 resource that d0-1 deletes",
        ),
    ] {
        assert_eq!(draft.words, words);
    }
}

async fn phase(ledger: &dyn Ledger, resource: &str) -> Phase {
    let filter = gone::ledger::TombstoneFilter {
        id: Some(resource.to_owned()),
        ..Default::default()
    };
    ledger.tombstones(filter, first_page()).await.unwrap().rows[0].phase
}

async fn deletion_state(ledger: &dyn Ledger, name: &str) -> DeletionState {
    ledger.deletion(&id(name)).await.unwrap().unwrap().state
}

#[tokio::test]
async fn p08_a_cancelled_deletion_releases_unsent_steps_and_observes_sent_ones() {
    on_each_store(async |ledger| {
        let plan = ports(&[
            ("ready", &[]),
            ("blocked", &[]),
            ("verifying", &[]),
            ("running", &[]),
            ("waiting", &[0]),
        ]);
        start_deletion(ledger, "one", &plan).await;
        let claimed = claim(ledger, 4).await;
        let of = |id: &str| claimed.iter().find(|s| s.key.id == id).unwrap().clone();
        // The steps "ready" and "running" stay in flight.
        let blocked = with_decision(
            failure(
                &of("blocked"),
                StepState::Blocked,
                ErrorClass::Blocked,
                at(2),
            ),
            |it| it.next_attempt_at = Some(at(9000)),
        );
        let verifying = with_decision(
            outcome(&of("verifying"), StepState::Verifying, at(2)),
            |it| it.next_attempt_at = Some(at(9000)),
        );
        ledger
            .commit(vec![record_outcome(blocked), record_outcome(verifying)])
            .await
            .unwrap();
        assert!(
            steps_to_observe(ledger, at(3), 10)
                .await
                .unwrap()
                .is_empty()
        );

        assert_eq!(
            commit_one(ledger, cancel("one", at(3))).await,
            Applied::Done
        );
        assert_eq!(state_of(ledger, "one", "waiting").await, StepState::Skipped);
        assert_eq!(phase(ledger, "waiting").await, Phase::Released);
        let observed = steps_to_observe(ledger, at(3), 10).await.unwrap();
        assert_eq!(observed.len(), 2);
        assert!(observed.iter().all(|step| step.cancelled));
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.finished_at),
            (DeletionState::Cancelled, None)
        );

        // A step whose resource still exists is skipped, and a step whose resource is gone ends as gone. A step in
        // flight ends with its answer: a refusal skips it.
        for step in &observed {
            let to = if step.key.id == "blocked" {
                StepState::Ready
            } else {
                StepState::Gone
            };
            end_step(ledger, step, to, at(4)).await;
        }
        assert_eq!(state_of(ledger, "one", "blocked").await, StepState::Skipped);
        assert_eq!(phase(ledger, "blocked").await, Phase::Released);
        assert_eq!(phase(ledger, "verifying").await, Phase::Gone);
        let refused = failure(&of("running"), StepState::Stuck, ErrorClass::Fatal, at(5));
        commit_one(ledger, record_outcome(refused)).await;
        commit_one(
            ledger,
            record_outcome(outcome(&of("ready"), StepState::Gone, at(6))),
        )
        .await;
        assert_eq!(state_of(ledger, "one", "running").await, StepState::Skipped);
        assert_eq!(phase(ledger, "running").await, Phase::Released);
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.finished_at),
            (DeletionState::Cancelled, Some(at(6)))
        );
        assert!(claim(ledger, 10).await.is_empty());
        let again = commit_one(ledger, cancel("one", at(7))).await;
        assert!(matches!(again, Applied::Refused(_)), "{again:?}");
    })
    .await;
}

#[tokio::test]
async fn p08_a_deletion_cancelled_before_its_plan_releases_its_tombstone_and_starts_nothing() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "a", at(0)).await;
        commit_one(ledger, cancel("one", at(1))).await;
        assert_eq!(phase(ledger, "a").await, Phase::Released);
        assert_eq!(
            deletion_state(ledger, "one").await,
            DeletionState::Cancelled
        );
        let late = commit_one(ledger, start("one", &ports(&[("a", &[])]), at(2))).await;
        assert!(matches!(late, Applied::Refused(_)), "{late:?}");
    })
    .await;
}

#[tokio::test]
async fn p08_cancelling_a_stuck_deletion_observes_sent_steps_and_skips_unsent_ones() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        commit_one(ledger, cancel("one", at(3))).await;
        assert_eq!(state_of(ledger, "one", "a").await, StepState::Verifying);
        assert_eq!(state_of(ledger, "one", "b").await, StepState::Skipped);
    })
    .await;
}

#[tokio::test]
async fn a_pause_prevents_claims_and_ends_with_the_last_step() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        let step = claim(ledger, 1).await.remove(0);
        assert_eq!(
            commit_one(ledger, pause("one", true, at(2))).await,
            Applied::Done
        );
        assert_eq!(deletion_state(ledger, "one").await, DeletionState::Paused);
        assert!(claim(ledger, 9).await.is_empty());
        let twice = commit_one(ledger, pause("one", true, at(2))).await;
        assert!(matches!(twice, Applied::Refused(_)), "{twice:?}");
        end_step(ledger, &step, StepState::Gone, at(3)).await;
        assert_eq!(deletion_state(ledger, "one").await, DeletionState::Paused);
        commit_one(ledger, pause("one", false, at(4))).await;
        assert_eq!(deletion_state(ledger, "one").await, DeletionState::Running);

        let last = claim(ledger, 9).await.remove(0);
        commit_one(ledger, pause("one", true, at(5))).await;
        end_step(ledger, &last, StepState::Gone, at(6)).await;
        assert_eq!(deletion_state(ledger, "one").await, DeletionState::Gone);
        let over = commit_one(ledger, pause("one", true, at(7))).await;
        assert!(matches!(over, Applied::Refused(_)), "{over:?}");
    })
    .await;
}

#[tokio::test]
async fn a_retry_by_a_person_resets_the_attempt_count() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let step = claim(ledger, 1).await.remove(0);
        let exhausted = with_decision(
            failure(&step, StepState::Stuck, ErrorClass::Fatal, at(2)),
            |it| {
                it.attempts = 8;
                it.blocked_since = Some(at(0));
            },
        );
        commit_one(ledger, record_outcome(exhausted)).await;
        let audit = ledger.audit(0, 99).await.unwrap().len();
        let again = retry(Selection::Deletion(id("one")), Origin::Console, at(3));
        assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
        assert_eq!(ledger.audit(0, 99).await.unwrap().len(), audit + 1);
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.finished_at),
            (DeletionState::Running, None)
        );
        let step = claim(ledger, 1).await.remove(0);
        assert_eq!((step.attempts, step.blocked_since), (0, None));
        assert!(step.last_error.is_some(), "the last error is kept");
    })
    .await;
}

#[tokio::test]
async fn t06_a_repeated_delete_wakes_retryable_steps_for_one_attempt_at_most_once_a_minute() {
    on_each_store(async |ledger| {
        start_deletion(
            ledger,
            "one",
            &ports(&[("fatal", &[]), ("blocked", &[]), ("stuck", &[])]),
        )
        .await;
        for step in claim(ledger, 9).await {
            let (to, class) = match step.key.id.as_str() {
                "fatal" => (StepState::Stuck, ErrorClass::Fatal),
                "stuck" => (StepState::Stuck, ErrorClass::Blocked),
                _ => (StepState::Blocked, ErrorClass::Blocked),
            };
            let change = with_decision(failure(&step, to, class, at(2)), |it| {
                it.attempts = 7;
                it.next_attempt_at = Some(at(9000));
            });
            commit_one(ledger, record_outcome(change)).await;
        }
        let again = |seconds| retry(Selection::Deletion(id("one")), Origin::Gate, at(seconds));
        assert_eq!(commit_one(ledger, again(3)).await, Applied::Moved(2));
        assert_eq!(state_of(ledger, "one", "fatal").await, StepState::Stuck);
        let claimed = claim_all_and_move_to(ledger, StepState::Blocked).await;
        assert!(
            claimed.iter().all(|step| step.attempts == 7),
            "no counter is reset"
        );
        assert_eq!(commit_one(ledger, again(62)).await, Applied::Moved(0));
        assert_eq!(commit_one(ledger, again(63)).await, Applied::Moved(2));
        commit_one(ledger, pause("one", true, at(64))).await;
        let paused = commit_one(ledger, again(200)).await;
        assert!(matches!(paused, Applied::Refused(_)), "{paused:?}");
    })
    .await;
}

#[tokio::test]
async fn a_retry_of_an_ended_or_unknown_deletion_or_an_unknown_step_is_refused() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        for selection in [
            Selection::Deletion(id("one")),
            Selection::Deletion(id("none")),
            Selection::Steps(vec![999]),
        ] {
            let applied = commit_one(ledger, retry(selection, Origin::Cli, at(3))).await;
            assert!(matches!(applied, Applied::Refused(_)), "{applied:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_purged_step_makes_its_dependent_ready_and_its_deletion_purged() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        let id_a = step_id(ledger, "one", "a").await;
        let purge = StepChange {
            step_id: id_a,
            fence: gone::ledger::Fence {
                state: StepState::Stuck,
                claim: 1,
                epoch: 1,
            },
            decision: Decision {
                to: StepState::Purged,
                attempts: 1,
                next_attempt_at: None,
                blocked_since: None,
                blockers: Vec::new(),
                error: None,
                observed_again: false,
            },
            message: "forgotten".to_owned(),
            answer: None,
            now: at(5),
        };
        assert_eq!(
            commit_one(ledger, record_outcome(purge)).await,
            Applied::Done
        );
        assert_eq!(phase(ledger, "a").await, Phase::Purged);
        assert_eq!(state_of(ledger, "one", "b").await, StepState::Ready);
        claim_all_and_move_to(ledger, StepState::Gone).await;
        assert_eq!(deletion_state(ledger, "one").await, DeletionState::Purged);
    })
    .await;
}

#[tokio::test]
async fn each_state_change_of_a_deletion_is_an_event() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        commit_one(ledger, pause("one", true, at(1))).await;
        commit_one(ledger, pause("one", false, at(1))).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        commit_one(ledger, cancel("one", at(3))).await;
        let filter = EventFilter {
            deletion_id: Some(id("one")),
            ..EventFilter::default()
        };
        let page = ledger.events(0, filter, 500).await.unwrap();
        let states: Vec<_> = page
            .events
            .iter()
            .filter(|e| e.kind == EventKind::DeletionState)
            .map(|e| e.data["state"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            states,
            ["running", "paused", "running", "stuck", "cancelled"]
        );
        let first: Vec<_> = page.events.iter().take(2).map(|e| e.kind).collect();
        assert_eq!(
            first,
            [EventKind::DeletionAccepted, EventKind::DeletionPlanned]
        );
        assert_eq!(page.newest, ledger.summary().await.unwrap().last_event);
        let rest = ledger
            .events(page.newest - 1, EventFilter::default(), 500)
            .await
            .unwrap();
        assert_eq!((rest.events.len(), rest.oldest), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_note_becomes_an_event_without_a_deletion_or_step() {
    on_each_store(async |ledger| {
        let event = gone::ledger::NewEvent {
            deletion_id: None,
            step_id: None,
            kind: EventKind::Site,
            message: "cloud/one is unreachable".to_owned(),
            data: serde_json::json!({"site": "cloud/one"}),
        };
        commit_one(ledger, Change::Note { event, now: at(0) }).await;
        let page = ledger.events(0, EventFilter::default(), 10).await.unwrap();
        assert_eq!(page.events[0].message, "cloud/one is unreachable");
        assert_eq!(
            (page.events[0].deletion_id.clone(), page.events[0].step_id),
            (None, None)
        );
    })
    .await;
}

/// A plan that enables a trunk, deletes it, and then deletes its parent port.
fn trunk() -> Plan {
    plan(vec![
        plan_step(0, Action::Enable, key("trunk", "t"), &[]),
        plan_step(1, Action::Delete, key("trunk", "t"), &[0]),
        plan_step(2, Action::Delete, key("port", "p"), &[1]),
    ])
}

async fn all_states(ledger: &dyn Ledger) -> Vec<StepState> {
    let states = states(ledger, "one").await;
    states.into_iter().map(|(_, state)| state).collect()
}

/// Starts the plan of [`trunk`]. The trunk is enabled, and its delete is then refused: the step is stuck.
async fn start_trunk_refused_after_enable(ledger: &dyn Ledger) {
    start_deletion(ledger, "one", &trunk()).await;
    claim_all_and_move_to(ledger, StepState::Gone).await;
    claim_all_and_move_to(ledger, StepState::Stuck).await;
    let stuck = [StepState::Gone, StepState::Stuck, StepState::Stuck];
    assert_eq!(all_states(ledger).await, stuck);
}

#[tokio::test]
async fn n12_a_retry_repeats_the_enable_step_before_the_steps_that_need_it() {
    let waits = [StepState::Ready, StepState::Waiting, StepState::Waiting];
    for origin in [Origin::Console, Origin::Gate] {
        on_each_store(async |ledger| {
            start_trunk_refused_after_enable(ledger).await;
            let again = retry(Selection::Deletion(id("one")), origin, at(3));
            assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
            assert_eq!(all_states(ledger).await, waits);
            // The repeated enable step is refused: its dependents are stuck with it, and are retried with it.
            assert_eq!(
                claim_all_and_move_to(ledger, StepState::Stuck).await.len(),
                1
            );
            assert_eq!(all_states(ledger).await, [StepState::Stuck; 3]);
            let again = retry(Selection::Deletion(id("one")), origin, at(99));
            assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
            assert_eq!(all_states(ledger).await, waits);
            for step in [Action::Enable, Action::Delete, Action::Delete] {
                let claimed = claim_all_and_move_to(ledger, StepState::Gone).await;
                assert_eq!(claimed.len(), 1);
                assert_eq!(claimed[0].action, step);
            }
            assert_eq!(deletion_state(ledger, "one").await, DeletionState::Gone);
            let counts = ledger.deletion(&id("one")).await.unwrap().unwrap().counts;
            assert_eq!((counts.gone, counts.total), (3, 3));
        })
        .await;
    }
}

#[tokio::test]
async fn p08_cancelling_while_an_enable_step_is_repeated_observes_sent_steps() {
    on_each_store(async |ledger| {
        start_trunk_refused_after_enable(ledger).await;
        let again = retry(Selection::Deletion(id("one")), Origin::Cli, at(3));
        commit_one(ledger, again).await;
        commit_one(ledger, cancel("one", at(4))).await;
        let expected = [StepState::Verifying, StepState::Waiting, StepState::Skipped];
        assert_eq!(all_states(ledger).await, expected);
        // The trunk still exists: the cancelled deletion skips both steps, one after the other, and sends nothing.
        for _ in 0..2 {
            let due = steps_to_observe(ledger, at(5), 9).await.unwrap();
            assert_eq!(due.len(), 1);
            let exists = outcome(&due[0], StepState::Ready, at(5));
            assert_eq!(
                commit_one(ledger, record_outcome(exists)).await,
                Applied::Done
            );
            assert!(claim(ledger, 9).await.is_empty());
        }
        assert_eq!(all_states(ledger).await, [StepState::Skipped; 3]);
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Cancelled);
        assert!(deletion.finished_at.is_some());
    })
    .await;
}

#[tokio::test]
async fn p08_cancelling_after_a_repeated_enable_step_failed_observes_sent_steps() {
    on_each_store(async |ledger| {
        start_trunk_refused_after_enable(ledger).await;
        let again = retry(Selection::Deletion(id("one")), Origin::Cli, at(3));
        commit_one(ledger, again).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        commit_one(ledger, cancel("one", at(4))).await;
        let expected = [StepState::Verifying, StepState::Waiting, StepState::Skipped];
        assert_eq!(all_states(ledger).await, expected);
        let due = steps_to_observe(ledger, at(5), 9).await.unwrap();
        end_step(ledger, &due[0], StepState::Gone, at(5)).await;
        let due = steps_to_observe(ledger, at(5), 9).await.unwrap();
        end_step(ledger, &due[0], StepState::Gone, at(5)).await;
        let ended = [StepState::Gone, StepState::Gone, StepState::Skipped];
        assert_eq!(all_states(ledger).await, ended);
    })
    .await;
}

#[tokio::test]
async fn n12_an_enable_step_with_several_dependents_is_not_repeated_for_one_of_them() {
    on_each_store(async |ledger| {
        let plan = plan(vec![
            plan_step(0, Action::Enable, key("trunk", "t"), &[]),
            plan_step(1, Action::Detach, key("subport", "t,a"), &[0]),
            plan_step(2, Action::Detach, key("subport", "t,b"), &[0]),
        ]);
        start_deletion(ledger, "one", &plan).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        let first = step_id(ledger, "one", "t,a").await;
        let again = retry(Selection::Steps(vec![first]), Origin::Cli, at(3));
        assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
        let ready = [StepState::Gone, StepState::Ready, StepState::Stuck];
        assert_eq!(all_states(ledger).await, ready);
    })
    .await;
}
