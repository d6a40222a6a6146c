//! Steps and their deletions: dependencies, due times, observations, notifications, fencing tokens, and the order of
//! claims.

use gone::domain::model::{
    Answer, Blocker, DeletionState, ErrorClass, EventKind, KindName, OnFailure, Origin, Phase,
    Site, StepState,
};
use gone::domain::notification::CursorPosition;
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{
    Applied, Capacity, Change, ClaimedStep, EventFilter, Fence, Ledger, NewEvent, ObservationsDue,
    RecreationReason, Selection, StepChange,
};

use crate::stores::on_each_store;
use crate::support::*;

#[tokio::test]
async fn t09_steps_and_tombstones_end_together() {
    on_each_store(async |ledger| {
        let plan = ports(&[("a", &[]), ("b", &[0]), ("c", &[0, 1])]);
        start_deletion(ledger, "one", &plan).await;

        for round in 0..3 {
            let claimed = claim_all_and_move_to(ledger, StepState::Gone).await;
            assert_eq!(claimed.len(), 1, "round {round}");
            let tombstones = ledger
                .tombstones_of(vec![claimed[0].key.clone()])
                .await
                .unwrap();
            assert_eq!(tombstones[0].phase, Phase::Gone);
            assert_eq!(tombstones[0].gone_at, Some(at(2)));
        }
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Gone);
        assert_eq!(deletion.finished_at, Some(at(2)));
        assert_eq!((deletion.counts.gone, deletion.counts.total), (3, 3));
    })
    .await;
}

#[tokio::test]
async fn t09_each_step_ends_only_the_tombstone_of_its_own_resource() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "gone", &ports(&[("b", &[])])).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        start_deletion(ledger, "live", &ports(&[("c", &[])])).await;
        let in_flight = claim(ledger, 1).await;
        let names = ["a", "b", "c", "d"];
        start_deletion(ledger, "all", &ports(&names.map(|name| (name, &[][..])))).await;
        assert_eq!(state_of(ledger, "all", "c").await, StepState::Waiting);

        let phases = async || {
            let keys = names.map(|name| key("port", name)).to_vec();
            let tombstones = ledger.tombstones_of(keys).await.unwrap();
            tombstones.iter().map(|it| it.phase).collect::<Vec<_>>()
        };
        let mut wanted = [Phase::Deleting; 4];
        assert_eq!(phases().await, wanted);
        for step in claim(ledger, 10).await.iter().chain(&in_flight) {
            end_step(ledger, step, StepState::Gone, at(2)).await;
            let place = names.iter().position(|name| *name == step.key.id);
            wanted[place.unwrap()] = Phase::Gone;
            assert_eq!(phases().await, wanted);
        }
        assert_eq!(wanted, [Phase::Gone; 4]);
    })
    .await;
}

#[tokio::test]
async fn i02_a_blocked_step_keeps_its_error_its_blockers_and_its_next_attempt() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let claimed = claim(ledger, 1).await;
        let blocker = Blocker {
            kind: KindName::new("router"),
            id: "r".to_owned(),
            name: "edge".to_owned(),
            site: site(),
            owner: "project".to_owned(),
            owner_name: "demo".to_owned(),
            since: Some(at(0)),
            in_plan: false,
            holds: None,
        };
        let change = with_decision(
            failure(&claimed[0], StepState::Blocked, ErrorClass::Blocked, at(2)),
            |it| {
                it.next_attempt_at = Some(at(60));
                it.blocked_since = Some(at(2));
                it.blockers = vec![blocker.clone()];
            },
        );
        let error = change.decision.error.clone();
        commit_one(ledger, record_outcome(change)).await;

        let step = ledger.step(claimed[0].id).await.unwrap().unwrap();
        assert_eq!(step.resource.key, key("port", "a"));
        assert_eq!(
            (step.state, step.attempts, step.max_attempts),
            (StepState::Blocked, 1, 8)
        );
        assert_eq!(step.next_attempt_at, Some(at(60)));
        assert_eq!(step.blocked_since, Some(at(2)));
        assert_eq!((step.blockers, step.last_error), (vec![blocker], error));
    })
    .await;
}

#[tokio::test]
async fn i05_only_blocked_steps_that_are_due_become_ready() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        for (step, due) in claim(ledger, 2).await.iter().zip([60, 120]) {
            let change = with_decision(
                failure(step, StepState::Blocked, ErrorClass::Blocked, at(2)),
                |it| it.next_attempt_at = Some(at(due)),
            );
            commit_one(ledger, record_outcome(change)).await;
        }
        let next = || async { ledger.next_due(at(90)).await.unwrap() };
        assert_eq!(next().await.attempt, Some(at(60)));
        let wake = |seconds| Change::WakeDue { now: at(seconds) };
        assert_eq!(commit_one(ledger, wake(59)).await, Applied::Moved(0));
        assert_eq!(commit_one(ledger, wake(60)).await, Applied::Moved(1));
        assert_eq!(next().await.attempt, Some(at(120)));
        let claimed = claim(ledger, 2).await;
        assert_eq!(
            (claimed.len(), claimed[0].attempts),
            (1, 1),
            "the attempts are kept"
        );
    })
    .await;
}

#[tokio::test]
async fn n14_due_observations_come_by_rank_with_the_ranks_of_ready_and_running_steps() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "c", at(0)).await;
        let plan = ports(&[("a", &[]), ("b", &[]), ("c", &[0])]);
        let mut start = start("one", &plan, at(1));
        if let Change::Start { ranks, .. } = &mut start {
            *ranks = vec![2, 1, 0];
        }
        assert_eq!(commit_one(ledger, start).await, Applied::Done);
        let due_ranks = || async {
            let due = ledger.observations_due(at(3)).await.unwrap();
            let ranks = |due: ObservationsDue| {
                (due.gathered.rank, due.gathered.ready, due.gathered.running)
            };
            due.into_iter().map(ranks).collect::<Vec<_>>()
        };
        let verifying = |step: &ClaimedStep| {
            with_decision(outcome(step, StepState::Verifying, at(2)), |it| {
                it.next_attempt_at = Some(at(2))
            })
        };
        let first = claim(ledger, 1).await.remove(0);
        assert_eq!(due_ranks().await, []);
        commit_one(ledger, record_outcome(verifying(&first))).await;
        assert_eq!(due_ranks().await, [(2, Some(1), None)]);
        let second = claim(ledger, 1).await.remove(0);
        assert_eq!(due_ranks().await, [(2, None, Some(1))]);
        commit_one(ledger, record_outcome(verifying(&second))).await;
        assert_eq!(due_ranks().await, [(1, None, None), (2, None, None)]);
    })
    .await;
}

#[tokio::test]
async fn n14_due_observations_say_whether_they_are_enough_for_a_list() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &many_ports(139)).await;
        let claimed = claim(ledger, 139).await;
        let observe_at = |step: &ClaimedStep, due| {
            record_outcome(with_decision(
                outcome(step, StepState::Verifying, at(2)),
                |it| it.next_attempt_at = Some(at(due)),
            ))
        };
        let gathered = || async {
            let gathered = ledger
                .observations_due(at(3))
                .await
                .unwrap()
                .remove(0)
                .gathered;
            (gathered.fills_a_list, gathered.verifying, gathered.unsent)
        };
        for step in &claimed[1..] {
            commit_one(ledger, observe_at(step, 2)).await;
        }
        assert_eq!(gathered().await, (false, 138, 1));
        commit_one(ledger, observe_at(&claimed[0], 4)).await;
        assert_eq!(gathered().await, (false, 139, 0), "one is not due yet");
        let due = ledger.observations_due(at(4)).await.unwrap();
        assert!(due[0].gathered.fills_a_list);
    })
    .await;
}

#[tokio::test]
async fn i12_an_overdue_observation_does_not_hide_a_later_one() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        for (step, due) in claim(ledger, 2).await.iter().zip([60, 120]) {
            let change = with_decision(outcome(step, StepState::Verifying, at(2)), |it| {
                it.next_attempt_at = Some(at(due))
            });
            commit_one(ledger, record_outcome(change)).await;
        }
        let next_due = |now| ledger.next_due(now);
        assert_eq!(next_due(at(59)).await.unwrap().observation, Some(at(60)));
        assert_eq!(next_due(at(60)).await.unwrap().observation, Some(at(120)));
        assert_eq!(next_due(at(120)).await.unwrap().observation, None);
    })
    .await;
}

#[tokio::test]
async fn waits_that_began_in_the_future_restart_when_an_engine_recovers() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        // The clock of the first engine is an hour ahead.
        let ahead = |seconds: i64| at(3600 + seconds);
        let capacity = Capacity {
            now: 2,
            ..capacity(2)
        };
        let claimed = ledger.claim(vec![capacity], ahead(0)).await.unwrap();
        for (step, (to, wait)) in claimed
            .iter()
            .zip([(StepState::Verifying, 2), (StepState::Blocked, 60)])
        {
            let change = with_decision(outcome(step, to, ahead(0)), |it| {
                it.next_attempt_at = Some(ahead(wait))
            });
            commit_one(ledger, record_outcome(change)).await;
        }
        commit_one(ledger, Change::Recover { now: at(3) }).await;
        let due = ledger.next_due(at(3)).await.unwrap();
        assert_eq!((due.observation, due.attempt), (Some(at(5)), Some(at(63))));
    })
    .await;
}

/// The steps whose events say that they need a person, in the order of the events.
async fn steps_that_need_a_person(ledger: &dyn Ledger) -> Vec<i64> {
    let page = ledger.events(0, EventFilter::default(), 500).await.unwrap();
    page.events
        .iter()
        .filter(|event| event.kind == EventKind::NeedsPerson)
        .map(|event| event.step_id.unwrap())
        .collect()
}

#[tokio::test]
async fn i07_a_stuck_step_stays_stuck_and_causes_one_notification() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        let steps: Vec<i64> = claim_all_and_move_to(ledger, StepState::Stuck)
            .await
            .iter()
            .map(|step| step.id)
            .collect();
        assert_eq!(
            steps_that_need_a_person(ledger).await,
            steps,
            "one event for each step"
        );
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.counts.stuck),
            (DeletionState::Stuck, 2)
        );
        assert_eq!(deletion.note, "2 steps; port name-a: still in use");
        commit_one(ledger, pause("one", true, at(5))).await;
        commit_one(ledger, Change::WakeDue { now: at(9999) }).await;
        assert_eq!(steps_that_need_a_person(ledger).await, steps);
        assert_eq!(ledger.summary().await.unwrap().attention.len(), 2);

        // A step that is retried by a person and stuck again has another event.
        commit_one(
            ledger,
            retry(Selection::Deletion(id("one")), Origin::Cli, at(10)),
        )
        .await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        assert_eq!(
            steps_that_need_a_person(ledger).await,
            [steps.clone(), steps].concat()
        );
    })
    .await;
}

#[tokio::test]
async fn i07_a_stuck_step_causes_a_notification_while_other_steps_of_its_deletion_run() {
    on_each_store(async |ledger| {
        let plan = ports(&[("a", &[]), ("b", &[]), ("held", &[0])]);
        start_deletion(ledger, "one", &plan).await;
        let steps = claim(ledger, 2).await;
        let stuck = failure(&steps[0], StepState::Stuck, ErrorClass::Blocked, at(2));
        commit_one(ledger, record_outcome(stuck)).await;
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Running, "b is in flight");
        assert_eq!(steps_that_need_a_person(ledger).await, [steps[0].id]);
        assert_eq!(state_of(ledger, "one", "held").await, StepState::Stuck);

        // The other step ends, so the deletion is stuck. The stuck step has no second event.
        end_step(ledger, &steps[1], StepState::Gone, at(9)).await;
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Stuck);
        assert_eq!(steps_that_need_a_person(ledger).await, [steps[0].id]);
    })
    .await;
}

#[tokio::test]
async fn i07_t06_repeated_deletes_cause_no_further_notification() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let step = claim_all_and_move_to(ledger, StepState::Stuck).await[0].id;
        for minute in 1..=3 {
            let again = retry(
                Selection::Deletion(id("one")),
                Origin::Gate,
                at(100 * minute),
            );
            assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
            claim_all_and_move_to(ledger, StepState::Stuck).await;
        }
        assert_eq!(steps_that_need_a_person(ledger).await, [step]);
    })
    .await;
}

#[tokio::test]
async fn i07_a_site_event_is_recorded_only_when_the_state_of_the_site_changes() {
    on_each_store(async |ledger| {
        let note = |site: &str, state: &str| Change::Note {
            event: NewEvent {
                deletion_id: None,
                step_id: None,
                kind: EventKind::Site,
                message: format!("{site} {state}"),
                data: serde_json::json!({ "site": site, "state": state }),
            },
            now: at(0),
        };
        for (site, state) in [
            ("a", "reachable"),
            ("a", "paused"),
            ("a", "paused"),
            ("b", "paused"),
            ("a", "reachable"),
            ("a", "reachable"),
            ("a", "paused"),
        ] {
            commit_one(ledger, note(site, state)).await;
        }
        let page = ledger.events(0, EventFilter::default(), 500).await.unwrap();
        let lines: Vec<&str> = page.events.iter().map(|line| &*line.message).collect();
        assert_eq!(
            lines,
            ["a paused", "b paused", "a reachable", "a paused"],
            "a site that is reachable from the start has no event"
        );
    })
    .await;
}

#[tokio::test]
async fn i07_each_channel_has_its_own_notification_cursor() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let fresh = ledger.notification_cursor("mail").await.unwrap();
        assert_eq!((fresh.position, fresh.ledger_id.len()), (None, 32));
        let page = ledger.events(0, EventFilter::default(), 500).await.unwrap();
        assert_eq!(fresh.newest, page.events.last().unwrap().seq);
        let position = CursorPosition {
            through: 3,
            sending_through: Some(9),
            last_error: "no answer".to_owned(),
        };
        let move_cursor = |channel: &str, position| Change::MoveNotificationCursor {
            channel: channel.to_owned(),
            position,
        };
        commit_one(ledger, move_cursor("mail", Some(position.clone()))).await;
        assert_eq!(
            ledger.notification_cursor("mail").await.unwrap().position,
            Some(position)
        );
        assert_eq!(
            ledger
                .notification_cursor("webhook")
                .await
                .unwrap()
                .position,
            None
        );
        commit_one(ledger, move_cursor("mail", None)).await;
        assert_eq!(
            ledger.notification_cursor("mail").await.unwrap().position,
            None
        );
    })
    .await;
}

#[tokio::test]
async fn i11_a_late_worker_cannot_overwrite_a_newer_claim() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let first = claim(ledger, 1).await.remove(0);
        assert!(
            claim(ledger, 1).await.is_empty(),
            "a claimed step is not claimed again"
        );
        end_step(ledger, &first, StepState::Ready, at(2)).await;
        let second = claim(ledger, 1).await.remove(0);
        assert!(second.fence.claim > first.fence.claim);

        let late = ledger
            .commit(vec![
                record_outcome(outcome(&first, StepState::Gone, at(3))),
                record_outcome(outcome(&second, StepState::Verifying, at(3))),
            ])
            .await
            .unwrap();
        assert_eq!(late, [Applied::Stale, Applied::Done]);
        assert_eq!(state_of(ledger, "one", "a").await, StepState::Verifying);
        let unknown = StepChange {
            step_id: 999,
            ..outcome(&first, StepState::Gone, at(3))
        };
        assert_eq!(
            commit_one(ledger, record_outcome(unknown)).await,
            Applied::Stale
        );
    })
    .await;
}

#[tokio::test]
async fn i11_a_step_in_flight_at_a_crash_is_observed_and_not_sent_again() {
    let folder = Folder::new();
    let open = || InlineLedger::new(Store::open(&folder.ledger(), Options::default()).unwrap());
    let before = open();
    start_deletion(&before, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
    let lost = claim(&before, 1).await.remove(0);
    drop(before);

    let after = open();
    assert_eq!(
        commit_one(&after, Change::Recover { now: at(9) }).await,
        Applied::Moved(1)
    );
    let observed = steps_to_observe(&after, at(9), 10).await.unwrap();
    assert_eq!((observed.len(), observed[0].id), (1, lost.id));
    assert_eq!(observed[0].fence.epoch, after.epoch());
    assert!(claim(&after, 10).await.is_empty(), "nothing is sent twice");
    let late = StepChange {
        fence: Fence {
            state: StepState::Verifying,
            ..lost.fence
        },
        ..outcome(&lost, StepState::Gone, at(10))
    };
    assert_eq!(
        commit_one(&after, record_outcome(late)).await,
        Applied::Stale
    );
    end_step(&after, &observed[0], StepState::Gone, at(10)).await;
    assert_eq!(state_of(&after, "one", "b").await, StepState::Ready);
}

#[tokio::test]
async fn i12_claims_are_fair_between_deletions_and_longest_path_first() {
    on_each_store(async |ledger| {
        let many: Vec<String> = (0..20).map(|n| format!("many{n}")).collect();
        let many: Vec<(&str, &[u32])> =
            many.iter().map(|id| (id.as_str(), &[] as &[u32])).collect();
        start_deletion(ledger, "big", &ports(&many)).await;
        let small = ports(&[("low", &[]), ("high", &[])]);
        accept_port(ledger, "small", "low", at(0)).await;
        let ranked = Change::Start {
            deletion_id: id("small"),
            plan: std::sync::Arc::new(small),
            ranks: vec![1, 9],
            max_attempts: vec![8; 2],
            now: at(0),
        };
        commit_one(ledger, ranked).await;

        let first = claim(ledger, 2).await;
        let mut of: Vec<&str> = first.iter().map(|s| s.deletion_id.as_str()).collect();
        of.sort_unstable();
        assert_eq!(of, [id("big"), id("small")]);
        assert!(first.iter().any(|s| s.key.id == "high"));
        // The deletion with more ready steps gets the capacity that the other one leaves.
        assert_eq!(claim(ledger, 10).await.len(), 10);
        let elsewhere = Capacity {
            site: Site::region("cloud", "two"),
            ..capacity(5)
        };
        assert_eq!(ledger.claim(vec![elsewhere], at(1)).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn i12_single_claims_rotate_between_deletions() {
    on_each_store(async |ledger| {
        for name in ["aa", "bb", "cc"] {
            let ids = [format!("{name}0"), format!("{name}1")];
            start_deletion(ledger, name, &ports(&[(&ids[0], &[]), (&ids[1], &[])])).await;
        }
        commit_one(ledger, pause("bb", true, at(1))).await;
        let mut served = Vec::new();
        for _ in 0..4 {
            served.push(claim(ledger, 1).await.remove(0).deletion_id);
        }
        assert_eq!(served, [id("aa"), id("cc"), id("aa"), id("cc")]);
        assert!(claim(ledger, 1).await.is_empty());
        commit_one(ledger, pause("bb", false, at(2))).await;
        assert_eq!(claim(ledger, 9).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn n12_dependents_of_a_stuck_step_are_stuck_and_a_retry_releases_them() {
    on_each_store(async |ledger| {
        // c waits for a, d for a and b, e for d, and f for no step.
        let plan = ports(&[
            ("a", &[]),
            ("b", &[]),
            ("c", &[0]),
            ("d", &[0, 1]),
            ("e", &[3]),
            ("f", &[]),
        ]);
        start_deletion(ledger, "one", &plan).await;
        let claimed = claim(ledger, 10).await;
        let by_id = |id: &str| claimed.iter().find(|s| s.key.id == id).unwrap().clone();
        let a = by_id("a");
        commit_one(
            ledger,
            record_outcome(failure(&a, StepState::Stuck, ErrorClass::Fatal, at(2))),
        )
        .await;
        for resource in ["c", "d", "e"] {
            let id = step_id(ledger, "one", resource).await;
            let step = ledger.step(id).await.unwrap().unwrap();
            assert_eq!(step.state, StepState::Stuck);
            let error = step.last_error.unwrap();
            assert!(
                error
                    .message
                    .contains(&format!("step {}, port name-a (a)", a.id)),
                "{error:?}"
            );
        }
        // Only the step that failed needs a person, and independent steps continue (N11).
        assert_eq!(ledger.summary().await.unwrap().attention.len(), 1);
        assert_eq!(state_of(ledger, "one", "f").await, StepState::Running);
        commit_one(
            ledger,
            record_outcome(failure(
                &by_id("b"),
                StepState::Stuck,
                ErrorClass::Blocked,
                at(3),
            )),
        )
        .await;
        commit_one(
            ledger,
            record_outcome(outcome(&by_id("f"), StepState::Gone, at(3))),
        )
        .await;
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.counts.stuck),
            (DeletionState::Stuck, 5)
        );

        // A retry of one failed step releases the dependents that only it kept stuck.
        commit_one(
            ledger,
            retry(Selection::Steps(vec![a.id]), Origin::Cli, at(4)),
        )
        .await;
        let found = states(ledger, "one").await;
        let expected = [
            ("a", StepState::Ready),
            ("b", StepState::Stuck),
            ("c", StepState::Waiting),
            ("d", StepState::Stuck),
            ("e", StepState::Stuck),
            ("f", StepState::Gone),
        ];
        assert_eq!(found, expected.map(|(id, state)| (id.to_owned(), state)));
        let d = step_id(ledger, "one", "d").await;
        let error = ledger.step(d).await.unwrap().unwrap().last_error.unwrap();
        assert!(error.message.contains("name-b"), "{error:?}");
        let refused =
            commit_one(ledger, retry(Selection::Steps(vec![d]), Origin::Cli, at(5))).await;
        assert!(matches!(refused, Applied::Refused(_)), "{refused:?}");

        // After a retry of the deletion, all of its resources are deleted.
        commit_one(
            ledger,
            retry(Selection::Deletion(id("one")), Origin::Cli, at(6)),
        )
        .await;
        while !claim_all_and_move_to(ledger, StepState::Gone)
            .await
            .is_empty()
        {}
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.counts.gone),
            (DeletionState::Gone, 6)
        );
    })
    .await;
}

#[tokio::test]
async fn n11_n12_a_step_stopped_by_two_failures_stays_stuck_until_both_are_retried() {
    on_each_store(async |ledger| {
        let plan = ports(&[("a", &[]), ("b", &[]), ("c", &[])]);
        let mut stopping = new_deletion("one", vec![target("port", "a")], at(0));
        stopping.options.on_failure = OnFailure::Stop;
        let begin = vec![accept(stopping), start("one", &plan, at(0))];
        ledger.commit(begin).await.unwrap();
        for step in claim(ledger, 2).await {
            let stuck = failure(&step, StepState::Stuck, ErrorClass::Fatal, at(2));
            commit_one(ledger, record_outcome(stuck)).await;
        }
        let held_by = async |name: &str| {
            let id = step_id(ledger, "one", name).await;
            ledger.step(id).await.unwrap().unwrap().held_by
        };
        let first = step_id(ledger, "one", "a").await;
        let second = step_id(ledger, "one", "b").await;
        assert_eq!(held_by("c").await, Some(first));

        let again = |step| retry(Selection::Steps(vec![step]), Origin::Cli, at(4));
        commit_one(ledger, again(first)).await;
        assert_eq!(held_by("c").await, Some(second));
        commit_one(ledger, again(second)).await;
        assert_eq!(state_of(ledger, "one", "c").await, StepState::Ready);
    })
    .await;
}

#[tokio::test]
async fn n11_a_recreated_resource_stops_its_deletion_until_it_is_retried() {
    on_each_store(async |ledger| {
        let plan = ports(&[("a", &[]), ("b", &[]), ("c", &[1])]);
        let mut stopping = new_deletion("one", vec![target("port", "a")], at(0));
        stopping.options.on_failure = OnFailure::Stop;
        let begin = vec![accept(stopping), start("one", &plan, at(0))];
        ledger.commit(begin).await.unwrap();
        let sent = claim(ledger, 1).await;
        end_step(ledger, &sent[0], StepState::Gone, at(2)).await;
        let recreated = Change::Recreated {
            key: key("port", "a"),
            copy: None,
            stuck: Some(RecreationReason::TooOften),
            now: at(3),
        };
        assert_eq!(commit_one(ledger, recreated).await, Applied::Done);
        let all = states(ledger, "one").await.into_iter();
        assert!(all.map(|(_, state)| state).eq([StepState::Stuck; 3]));
        assert!(claim(ledger, 9).await.is_empty());
        let again = retry(Selection::Deletion(id("one")), Origin::Cli, at(4));
        commit_one(ledger, again).await;
        let all = states(ledger, "one").await.into_iter();
        let ready = [StepState::Ready, StepState::Ready, StepState::Waiting];
        assert!(all.map(|(_, state)| state).eq(ready));
    })
    .await;
}

#[tokio::test]
async fn n11_a_failure_makes_all_unsent_steps_stuck_if_the_deletion_stops_on_failure() {
    on_each_store(async |ledger| {
        let plan = ports(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[2])]);
        let mut stopping = new_deletion("one", vec![target("port", "a")], at(0));
        stopping.options.on_failure = OnFailure::Stop;
        ledger
            .commit(vec![accept(stopping), start("one", &plan, at(0))])
            .await
            .unwrap();
        let claimed = claim(ledger, 2).await;
        commit_one(
            ledger,
            record_outcome(failure(
                &claimed[0],
                StepState::Stuck,
                ErrorClass::Fatal,
                at(2),
            )),
        )
        .await;
        let expected = |states: [StepState; 4]| {
            ["a", "b", "c", "d"]
                .map(str::to_owned)
                .into_iter()
                .zip(states)
                .collect::<Vec<_>>()
        };
        use StepState::{Gone, Ready, Running, Stuck, Waiting};
        assert_eq!(
            states(ledger, "one").await,
            expected([Stuck, Running, Stuck, Stuck])
        );
        end_step(ledger, &claimed[1], Gone, at(3)).await;
        assert!(claim(ledger, 10).await.is_empty());
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Stuck);

        commit_one(
            ledger,
            retry(Selection::Deletion(id("one")), Origin::Cli, at(4)),
        )
        .await;
        assert_eq!(
            states(ledger, "one").await,
            expected([Ready, Gone, Ready, Waiting])
        );
    })
    .await;
}

#[tokio::test]
async fn n12_a_plan_with_a_cycle_an_unknown_dependency_or_extra_ranks_is_refused() {
    on_each_store(async |ledger| {
        for (name, plan, ranks) in [
            ("circle", ports(&[("a", &[1]), ("b", &[0])]), 2),
            ("beyond", ports(&[("a", &[7])]), 1),
            ("ranks", ports(&[("a", &[])]), 3),
        ] {
            accept_port(ledger, name, name, at(0)).await;
            let change = Change::Start {
                deletion_id: id(name),
                plan: std::sync::Arc::new(plan),
                ranks: vec![1; ranks],
                max_attempts: vec![8; ranks],
                now: at(0),
            };
            let applied = commit_one(ledger, change).await;
            assert!(
                matches!(applied, Applied::Refused(_)),
                "{name}: {applied:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn n10_the_timeline_has_a_line_for_each_attempt() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let step = claim(ledger, 1).await.remove(0);
        commit_one(
            ledger,
            record_outcome(failure(
                &step,
                StepState::Blocked,
                ErrorClass::Blocked,
                at(2),
            )),
        )
        .await;
        commit_one(ledger, Change::WakeDue { now: at(3) }).await;
        let step = claim(ledger, 1).await.remove(0);
        let accepted = StepChange {
            answer: Some(Answer {
                status: Some(204),
                request_id: Some("req-2".to_owned()),
            }),
            ..outcome(&step, StepState::Verifying, at(3))
        };
        commit_one(ledger, record_outcome(accepted)).await;
        for observation in 0..3 {
            let step = steps_to_observe(ledger, at(4), 1).await.unwrap().remove(0);
            assert_eq!(step.observations, observation);
            let change = with_decision(outcome(&step, StepState::Verifying, at(4)), |it| {
                it.observed_again = true
            });
            commit_one(ledger, record_outcome(change)).await;
        }
        let step = steps_to_observe(ledger, at(4), 1).await.unwrap().remove(0);
        end_step(ledger, &step, StepState::Gone, at(5)).await;

        let filter = EventFilter {
            step_id: Some(step.id),
            ..EventFilter::default()
        };
        let page = ledger.events(0, filter, 500).await.unwrap();
        let lines: Vec<_> = page
            .events
            .iter()
            .map(|e| {
                (
                    e.kind,
                    e.message.as_str(),
                    e.data["state"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                (EventKind::Attempt, "DELETE: blocked", "blocked"),
                (EventKind::Attempt, "DELETE: verifying", "verifying"),
                (EventKind::StepState, "DELETE: gone", "gone"),
            ]
        );
        assert_eq!(page.events[0].data["status"], 409);
        assert_eq!(page.events[0].data["request_id"], "req-1");
        assert_eq!(page.events[1].data["status"], 204);
        assert_eq!(page.events[1].data["request_id"], "req-2");
        // An observation is no call, so its event has no status and no request id.
        let observed = page.events[2].data.as_object().unwrap();
        assert!(observed.keys().eq(["state", "attempts"]), "{observed:?}");
        assert_eq!(page.events[0].deletion_id, Some(id("one")));
    })
    .await;
}

#[tokio::test]
async fn an_impossible_outcome_is_refused() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
        let step = claim(ledger, 1).await.remove(0);
        for to in [StepState::Waiting, StepState::Running] {
            let applied = end_step(ledger, &step, to, at(2)).await;
            assert!(matches!(applied, Applied::Refused(_)), "{applied:?}");
        }
        let waiting = StepChange {
            step_id: step_id(ledger, "one", "b").await,
            fence: Fence {
                state: StepState::Waiting,
                claim: 0,
                epoch: 0,
            },
            ..outcome(&step, StepState::Ready, at(2))
        };
        let applied = commit_one(ledger, record_outcome(waiting)).await;
        assert!(matches!(applied, Applied::Refused(_)), "{applied:?}");
    })
    .await;
}

#[tokio::test]
async fn n12_a_retry_does_not_release_a_dependent_that_is_stuck_for_its_own_reason() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
        let step = claim(ledger, 1).await.remove(0);
        let drifted = StepChange {
            step_id: step_id(ledger, "one", "b").await,
            fence: Fence {
                state: StepState::Waiting,
                claim: 0,
                epoch: 0,
            },
            ..failure(&step, StepState::Stuck, ErrorClass::Drift, at(2))
        };
        assert_eq!(
            commit_one(ledger, record_outcome(drifted)).await,
            Applied::Done
        );
        let refused = failure(&step, StepState::Stuck, ErrorClass::Fatal, at(2));
        commit_one(ledger, record_outcome(refused)).await;
        commit_one(
            ledger,
            retry(Selection::Steps(vec![step.id]), Origin::Cli, at(3)),
        )
        .await;
        assert_eq!(state_of(ledger, "one", "b").await, StepState::Stuck);
        claim_all_and_move_to(ledger, StepState::Gone).await;
        assert_eq!(state_of(ledger, "one", "b").await, StepState::Stuck);
        commit_one(
            ledger,
            retry(Selection::Deletion(id("one")), Origin::Cli, at(4)),
        )
        .await;
        assert_eq!(state_of(ledger, "one", "b").await, StepState::Ready);
    })
    .await;
}
