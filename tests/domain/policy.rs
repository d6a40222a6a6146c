//! The next state of a step after a call or an observation: the retry schedule, snoozes, and waits between observations
//! (I1, I3, I6, I7, N13).

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{Blocker, ErrorClass, KindName, Site, StepError, StepState};
use gone::domain::policy::{
    Decision, Failure, Observed, Outcome, PendingObservations, Repeats, Retry, Schedule, StepFacts,
    after_call, after_observation, observation_wait,
};

const MINUTE: u64 = 60;

fn now() -> DateTime<Utc> {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn schedule() -> Schedule {
    Schedule {
        waits: [
            MINUTE,
            5 * MINUTE,
            15 * MINUTE,
            60 * MINUTE,
            360 * MINUTE,
            1440 * MINUTE,
        ]
        .map(Duration::from_secs)
        .to_vec(),
        jitter: 0.1,
        pending_max: Duration::from_secs(600),
        verify_max: Duration::from_secs(60),
        settles: false,
        repeats: None,
    }
}

fn error(class: ErrorClass) -> StepError {
    StepError {
        class,
        status: Some(409),
        kind: "InUse".into(),
        message: "in use".into(),
        request_id: "req-1".into(),
        at: now(),
    }
}

fn failed(retry: Retry, class: ErrorClass) -> Outcome {
    Outcome::Failed(Failure {
        retry,
        error: error(class),
        blockers: Vec::new(),
        retry_after: None,
    })
}

/// A step without any attempt.
fn fresh() -> StepFacts<'static> {
    StepFacts {
        attempts: 0,
        max_attempts: 8,
        blocked_since: None,
        last_error: None,
        observations: 0,
        own_attempt_at: None,
        cancelled: false,
    }
}

/// Decides after a call, without jitter.
fn call(step: StepFacts<'_>, outcome: Outcome) -> Decision {
    after_call(step, outcome, now(), &schedule(), 0.0)
}

#[test]
fn i14_a_call_caused_by_a_repeated_delete_does_not_move_the_schedule() {
    let own = now() + TimeDelta::hours(6);
    let woken = StepFacts {
        attempts: 5,
        own_attempt_at: Some(own),
        ..fresh()
    };
    let decision = call(woken, failed(Retry::Scheduled, ErrorClass::Blocked));
    assert_eq!((decision.to, decision.attempts), (StepState::Blocked, 5));
    assert_eq!(decision.next_attempt_at, Some(own));
    // A step that had no attempt left is stuck again.
    let spent = StepFacts {
        attempts: 8,
        ..woken
    };
    let decision = call(spent, failed(Retry::Scheduled, ErrorClass::Blocked));
    assert_eq!((decision.to, decision.attempts), (StepState::Stuck, 8));
    // If the next attempt of the schedule is due, the call counts as an attempt.
    let due = StepFacts {
        own_attempt_at: Some(now()),
        ..woken
    };
    let decision = call(due, failed(Retry::Scheduled, ErrorClass::Blocked));
    assert_eq!(decision.attempts, 6);
}

#[test]
fn i13_an_accepted_delete_is_observed_before_it_counts() {
    let decision = call(fresh(), Outcome::Accepted);
    assert_eq!(decision.to, StepState::Verifying);
}

#[test]
fn i13_the_kinds_own_not_found_means_gone() {
    assert_eq!(call(fresh(), Outcome::Absent).to, StepState::Gone);
}

#[test]
fn i03_the_schedule_grows_and_its_last_wait_repeats() {
    let waited: Vec<i64> = (0..7)
        .map(|attempts| {
            let decision = call(
                StepFacts {
                    attempts,
                    ..fresh()
                },
                failed(Retry::Scheduled, ErrorClass::Blocked),
            );
            assert_eq!(
                (decision.to, decision.attempts),
                (StepState::Blocked, attempts + 1)
            );
            (decision.next_attempt_at.unwrap() - now()).num_minutes()
        })
        .collect();
    assert_eq!(waited, [1, 5, 15, 60, 360, 1440, 1440]);
}

#[test]
fn i03_jitter_lengthens_a_wait_by_at_most_its_fraction() {
    let decision = after_call(
        fresh(),
        failed(Retry::Scheduled, ErrorClass::Blocked),
        now(),
        &schedule(),
        1.0,
    );
    assert_eq!(
        (decision.next_attempt_at.unwrap() - now()).num_seconds(),
        66
    );
}

#[test]
fn i07_a_step_is_stuck_with_its_error_after_its_last_attempt() {
    let decision = call(
        StepFacts {
            attempts: 7,
            ..fresh()
        },
        failed(Retry::Scheduled, ErrorClass::Blocked),
    );
    assert_eq!((decision.to, decision.attempts), (StepState::Stuck, 8));
    assert_eq!(decision.error.unwrap().request_id, "req-1");
    assert_eq!(decision.next_attempt_at, None);
}

#[test]
fn i06_a_pending_failure_uses_no_attempt_and_is_bounded_by_age() {
    let pending = || failed(Retry::Pending, ErrorClass::Blocked);
    let snoozed = call(fresh(), pending());
    assert_eq!((snoozed.to, snoozed.attempts), (StepState::Blocked, 0));
    assert_eq!(snoozed.blocked_since, Some(now()));
    let late = now() - Duration::from_secs(600);
    assert_eq!(
        call(
            StepFacts {
                blocked_since: Some(late),
                ..fresh()
            },
            pending()
        )
        .to,
        StepState::Stuck
    );
    let soon = now() - Duration::from_secs(599);
    assert_eq!(
        call(
            StepFacts {
                blocked_since: Some(soon),
                ..fresh()
            },
            pending()
        )
        .to,
        StepState::Blocked
    );
}

#[test]
fn n13_retry_after_is_heeded_for_a_day_at_most() {
    for seconds in [2 * 86_400, u64::MAX] {
        for (retry, class) in [
            (Retry::Unavailable, ErrorClass::Unavailable),
            (Retry::Scheduled, ErrorClass::Blocked),
        ] {
            let outcome = Outcome::Failed(Failure {
                retry,
                error: error(class),
                blockers: Vec::new(),
                retry_after: Some(Duration::from_secs(seconds)),
            });
            let next = call(fresh(), outcome).next_attempt_at.unwrap();
            assert_eq!(next, now() + Duration::from_secs(86_400));
        }
    }
}

#[test]
fn i01_unavailability_uses_no_attempt_and_heeds_retry_after() {
    let decision = call(
        StepFacts {
            attempts: 7,
            ..fresh()
        },
        failed(Retry::Unavailable, ErrorClass::Unavailable),
    );
    assert_eq!((decision.to, decision.attempts), (StepState::Blocked, 7));
    let outcome = Outcome::Failed(Failure {
        retry: Retry::Unavailable,
        error: error(ErrorClass::Unavailable),
        blockers: Vec::new(),
        retry_after: Some(Duration::from_secs(90)),
    });
    assert_eq!(
        (call(fresh(), outcome).next_attempt_at.unwrap() - now()).num_seconds(),
        90
    );
}

#[test]
fn i01_a_failure_that_is_never_retried_makes_the_step_stuck_at_once() {
    let decision = call(fresh(), failed(Retry::Never, ErrorClass::Fatal));
    assert_eq!((decision.to, decision.attempts), (StepState::Stuck, 0));
}

#[test]
fn n13_a_call_with_a_lost_answer_is_observed_before_it_is_repeated() {
    let decision = call(fresh(), failed(Retry::Unknown, ErrorClass::OutcomeUnknown));
    assert_eq!((decision.to, decision.attempts), (StepState::Verifying, 0));
    let error = decision.error.unwrap();
    let step = StepFacts {
        last_error: Some(&error),
        ..fresh()
    };
    assert_eq!(
        after_observation(step, Observed::Present, now(), &schedule(), 0.0).to,
        StepState::Ready
    );
    assert_eq!(
        after_observation(step, Observed::Absent, now(), &schedule(), 0.0).to,
        StepState::Gone
    );
}

#[test]
fn n13_an_unclear_observation_keeps_the_error_of_the_lost_answer() {
    let lost = error(ErrorClass::OutcomeUnknown);
    let step = StepFacts {
        last_error: Some(&lost),
        ..fresh()
    };
    let decision = after_observation(
        step,
        Observed::Unclear(error(ErrorClass::Unavailable)),
        now(),
        &schedule(),
        0.0,
    );
    assert_eq!(decision.to, StepState::Verifying);
    assert_eq!(decision.error.unwrap().class, ErrorClass::OutcomeUnknown);
}

#[test]
fn n12_a_step_that_cannot_be_observed_for_a_day_needs_a_person() {
    let unclear = |step| {
        let error = error(ErrorClass::Unavailable);
        after_observation(step, Observed::Unclear(error), now(), &schedule(), 0.0)
    };
    let first = unclear(fresh());
    assert_eq!(
        (first.to, first.blocked_since),
        (StepState::Verifying, Some(now()))
    );
    for (hours, to) in [(23, StepState::Verifying), (24, StepState::Stuck)] {
        let decision = unclear(StepFacts {
            blocked_since: Some(now() - TimeDelta::hours(hours)),
            last_error: first.error.as_ref(),
            ..fresh()
        });
        assert_eq!((decision.to, decision.attempts), (to, 0), "{hours} h");
    }

    // The time without observations does not count as time for which the cloud works on a delete.
    let step = StepFacts {
        blocked_since: Some(now() - TimeDelta::hours(23)),
        last_error: first.error.as_ref(),
        ..fresh()
    };
    let still_deleting = Observed::StillDeleting(error(ErrorClass::Blocked));
    let decision = after_observation(step, still_deleting, now(), &schedule(), 0.0);
    assert_eq!(
        (decision.to, decision.blocked_since),
        (StepState::Verifying, Some(now()))
    );
}

#[test]
fn n13_lost_rights_use_no_attempt_and_leave_the_step_ready() {
    let decision = call(
        StepFacts {
            attempts: 3,
            ..fresh()
        },
        failed(Retry::SitePaused, ErrorClass::Auth),
    );
    assert_eq!((decision.to, decision.attempts), (StepState::Ready, 3));
}

#[test]
fn i13_an_accepted_delete_whose_resource_stays_becomes_a_refused_attempt() {
    let mut waited = Duration::ZERO;
    for observations in 0..100 {
        let decision = after_observation(
            StepFacts {
                observations,
                ..fresh()
            },
            Observed::Present,
            now(),
            &schedule(),
            0.0,
        );
        if decision.to == StepState::Blocked {
            assert!(
                waited >= Duration::from_secs(60) && waited < Duration::from_secs(75),
                "{waited:?}"
            );
            assert_eq!(decision.attempts, 1);
            assert!(decision.error.unwrap().message.contains("still exists"));
            return;
        }
        assert!(decision.observed_again);
        waited += (decision.next_attempt_at.unwrap() - now())
            .to_std()
            .unwrap();
    }
    panic!("the step is observed for ever");
}

#[test]
fn t14_a_re_created_resource_is_deleted_again_at_once_while_attempts_are_left() {
    let anew = || Observed::Recreated(error(ErrorClass::Blocked));
    let decide = |attempts| {
        let step = StepFacts {
            attempts,
            ..fresh()
        };
        after_observation(step, anew(), now(), &schedule(), 0.0)
    };
    let max = fresh().max_attempts;
    for attempts in 0..max - 1 {
        let decision = decide(attempts);
        assert_eq!(
            (decision.to, decision.attempts, decision.next_attempt_at),
            (StepState::Ready, attempts + 1, None)
        );
    }
    assert_eq!(decide(max - 1).to, StepState::Stuck);
    let cancelled = StepFacts {
        cancelled: true,
        ..fresh()
    };
    let decision = after_observation(cancelled, anew(), now(), &schedule(), 0.0);
    assert_eq!(decision.to, StepState::Skipped);
}

#[test]
fn p08_a_cancelled_step_is_skipped_if_its_resource_exists_and_gone_if_not() {
    let step = StepFacts {
        cancelled: true,
        ..fresh()
    };
    assert_eq!(
        after_observation(step, Observed::Present, now(), &schedule(), 0.0).to,
        StepState::Skipped
    );
    assert_eq!(
        after_observation(step, Observed::Absent, now(), &schedule(), 0.0).to,
        StepState::Gone
    );
}

fn blocked_for(seconds: u64) -> StepFacts<'static> {
    StepFacts {
        blocked_since: Some(now() - Duration::from_secs(seconds)),
        ..fresh()
    }
}

fn wait_of(decision: &Decision) -> u64 {
    let wait = decision.next_attempt_at.unwrap() - now();
    wait.to_std().unwrap().as_secs()
}

#[test]
fn i01_an_unavailable_service_is_retried_after_longer_waits_for_a_day() {
    let unavailable_for = |seconds| {
        let outcome = failed(Retry::Unavailable, ErrorClass::Unavailable);
        call(blocked_for(seconds), outcome)
    };
    // The wait is half of the time for which the service has been unavailable, between a second and a minute.
    for (seconds, wait) in [(0, 1), (40, 20), (119, 59), (1000, 60)] {
        assert_eq!(
            wait_of(&unavailable_for(seconds)),
            wait,
            "after {seconds} s"
        );
    }
    let day = 24 * 60 * 60;
    assert_eq!(unavailable_for(day - 1).to, StepState::Blocked);
    let stuck = unavailable_for(day);
    assert_eq!(stuck.to, StepState::Stuck);
    assert_eq!(stuck.next_attempt_at, None);
}

#[test]
fn i06_a_pending_step_is_retried_after_a_quarter_of_its_age() {
    for (seconds, wait) in [(0, 2), (40, 10), (599, 30)] {
        let outcome = failed(Retry::Pending, ErrorClass::Blocked);
        let decision = call(blocked_for(seconds), outcome);
        assert_eq!(wait_of(&decision), wait, "after {seconds} s");
    }
}

#[test]
fn i13_the_first_observation_is_due_at_once() {
    for outcome in [
        Outcome::Accepted,
        failed(Retry::Unknown, ErrorClass::OutcomeUnknown),
    ] {
        let decision = call(fresh(), outcome);
        assert_eq!(decision.to, StepState::Verifying);
        assert_eq!(decision.next_attempt_at, Some(now()));
    }
}

#[test]
fn i13_an_observation_at_the_end_of_the_time_is_the_last() {
    let schedule = Schedule {
        verify_max: Duration::from_millis(200),
        repeats: None,
        ..schedule()
    };
    let state_after = |observations| {
        let step = StepFacts {
            observations,
            ..fresh()
        };
        after_observation(step, Observed::Present, now(), &schedule, 0.0).to
    };
    assert_eq!(state_after(0), StepState::Verifying);
    assert_eq!(state_after(1), StepState::Blocked);
}

#[test]
fn i07_a_failure_keeps_its_blockers_and_since_when_the_step_is_blocked() {
    let blocker = Blocker {
        kind: KindName::new("port"),
        id: "vm".into(),
        name: "vm".into(),
        site: Site::region("prod", "RegionOne"),
        owner: String::new(),
        owner_name: String::new(),
        since: None,
        in_plan: false,
        holds: None,
    };
    let outcome = Outcome::Failed(Failure {
        retry: Retry::Scheduled,
        error: error(ErrorClass::Blocked),
        blockers: vec![blocker.clone()],
        retry_after: None,
    });
    let first = call(fresh(), outcome.clone());
    assert_eq!(first.blockers, [blocker]);
    assert_eq!(first.blocked_since, Some(now()));
    let later = call(blocked_for(300), outcome);
    assert_eq!(later.blocked_since, Some(now() - Duration::from_secs(300)));
}

/// Accepted deletes of ports, the oldest from 4 s ago. Their deletion has taken 100 s and has nothing else to do.
fn gathered(verifying: u64) -> PendingObservations {
    PendingObservations {
        fills_a_list: verifying >= 139,
        verifying,
        oldest: now() - Duration::from_secs(4),
        rank: 1,
        ready: None,
        running: None,
        unsent: 0,
        since: now() - Duration::from_secs(100),
    }
}

#[test]
fn n14_observations_wait_until_nothing_else_is_to_do_or_many_have_gathered() {
    let waits = |gathered: PendingObservations| observation_wait(&gathered, false, now()).as_secs();
    assert_eq!(waits(gathered(1)), 0, "nothing else to do");
    let sending = |verifying: u64, unsent: u64| PendingObservations {
        ready: Some(1),
        running: Some(1),
        unsent,
        ..gathered(verifying)
    };
    assert_eq!(waits(sending(1, 500)), 46, "half of the deletion's time");
    assert_eq!(
        waits(sending(300, 151)),
        46,
        "fewer than twice as many as are still to be sent"
    );
    assert_eq!(waits(sending(300, 150)), 0);
    assert_eq!(
        waits(sending(300, 138)),
        46,
        "the steps to be sent do not fill a list"
    );
    let mostly_others = PendingObservations {
        fills_a_list: false,
        ..sending(300, 150)
    };
    assert_eq!(
        waits(mostly_others),
        46,
        "the deletes of this kind do not fill a list"
    );
    let young = PendingObservations {
        since: now() - Duration::from_secs(4),
        ..sending(1, 500)
    };
    assert_eq!(waits(young), 26, "30 s at least");
}

#[test]
fn n14_an_observation_that_the_longest_path_waits_for_is_made_at_once() {
    let waits = |ready, running| {
        let trunks = PendingObservations {
            rank: 2,
            ready,
            running,
            unsent: 500,
            ..gathered(10)
        };
        observation_wait(&trunks, false, now()).as_secs()
    };
    assert_eq!(waits(Some(1), Some(1)), 0, "ports are sent meanwhile");
    assert_eq!(waits(Some(2), Some(1)), 46, "more trunks can be sent");
    assert_eq!(waits(Some(1), Some(2)), 46, "a trunk is in flight");
    assert_eq!(waits(None, Some(3)), 6);
}

#[test]
fn i12_observations_wait_only_briefly_for_calls_that_hang() {
    let hanging = PendingObservations {
        running: Some(1),
        unsent: 1,
        ..gathered(1)
    };
    assert_eq!(observation_wait(&hanging, false, now()).as_secs(), 6);
    let late = PendingObservations {
        oldest: now() - Duration::from_secs(11),
        ..hanging
    };
    assert_eq!(observation_wait(&late, false, now()), Duration::ZERO);
}

#[test]
fn n14_an_asynchronous_delete_is_first_observed_at_an_even_second_after_it_can_have_ended() {
    let schedule = Schedule {
        settles: true,
        ..schedule()
    };
    let due = |millis: i64| {
        let sent = now() + TimeDelta::milliseconds(millis);
        let decision = after_call(fresh(), Outcome::Accepted, sent, &schedule, 0.0);
        assert_eq!(decision.to, StepState::Verifying);
        (decision.next_attempt_at.unwrap() - now()).num_milliseconds()
    };
    // The next even second is 1 s away. Deletes within the same two seconds are observed together.
    assert_eq!([due(0), due(500)], [1_000; 2]);
    assert_eq!([due(501), due(1_700), due(2_500)], [3_000; 3]);
    // A call with a lost answer is observed at once.
    let lost = failed(Retry::Unknown, ErrorClass::OutcomeUnknown);
    let decision = after_call(fresh(), lost, now(), &schedule, 0.0);
    assert_eq!(decision.next_attempt_at, Some(now()));
}

#[test]
fn n14_observations_of_asynchronous_deletes_wait_only_in_a_long_deletion() {
    let after = |seconds: u64| PendingObservations {
        oldest: now(),
        ready: Some(9),
        running: Some(9),
        unsent: 500,
        since: now() - Duration::from_secs(seconds),
        ..gathered(1)
    };
    let waits = |seconds: u64| observation_wait(&after(seconds), true, now()).as_secs();
    assert_eq!([waits(0), waits(31)], [0, 0]);
    // The wait is a multiple of 2 s, so that deletes that fall due at even seconds are observed at even seconds.
    assert_eq!([waits(32), waits(63), waits(64), waits(640)], [2, 2, 4, 40]);
    // A call that hangs delays these observations no longer than it delays other observations (I12).
    let hanging = PendingObservations {
        ready: None,
        ..after(3600)
    };
    assert_eq!(observation_wait(&hanging, true, now()).as_secs(), 10);
    assert_eq!(observation_wait(&hanging, false, now()).as_secs(), 10);
    // Deletes that the longest path waits for are observed at once, as deletes of other kinds are.
    let first = PendingObservations {
        rank: 10,
        ..after(640)
    };
    assert_eq!(observation_wait(&first, true, now()), Duration::ZERO);
}

/// The observation of a load balancer whose delete the cloud works on.
fn still_deleting() -> Observed {
    Observed::StillDeleting(StepError {
        status: None,
        kind: "PENDING_DELETE".into(),
        ..error(ErrorClass::Blocked)
    })
}

#[test]
fn i06_a_delete_under_way_uses_no_attempt_and_is_stuck_at_its_limit() {
    let observe = |step| after_observation(step, still_deleting(), now(), &schedule(), 0.0);
    let first = observe(fresh());
    assert_eq!(first.to, StepState::Verifying);
    assert_eq!((first.attempts, first.blocked_since), (0, Some(now())));
    assert_eq!(first.error.as_ref().unwrap().kind, "PENDING_DELETE");
    let later = observe(blocked_for(599));
    assert_eq!((later.to, later.attempts), (StepState::Verifying, 0));
    let end = observe(blocked_for(600));
    assert_eq!((end.to, end.attempts), (StepState::Stuck, 0));
    assert_eq!(end.error.unwrap().kind, "PENDING_DELETE");
    assert_eq!(end.next_attempt_at, None);
}

/// As in Nova: a delete that was sent before the host went down never ends, but one that is sent afterwards does.
#[test]
fn i06_a_repeated_delete_under_way_is_stuck_at_the_same_limit() {
    let schedule = Schedule {
        repeats: Some(Repeats {
            every: Duration::from_secs(180),
            pending: vec!["PENDING_DELETE".into()],
        }),
        ..schedule()
    };
    let (mut at, mut since, mut last, mut repeated) = (now(), None, None, Vec::new());
    loop {
        let step = StepFacts {
            blocked_since: since,
            last_error: last.as_ref(),
            ..fresh()
        };
        let Observed::StillDeleting(error) = still_deleting() else {
            unreachable!()
        };
        let observed = Observed::StillDeleting(StepError { at, ..error });
        let mut decision = after_observation(step, observed, at, &schedule, 0.0);
        assert_eq!(decision.attempts, 0);
        if decision.to == StepState::Stuck {
            break;
        }
        if decision.to == StepState::Ready {
            repeated.push((at - now()).num_seconds());
            let step = StepFacts {
                blocked_since: decision.blocked_since,
                last_error: decision.error.as_ref(),
                ..fresh()
            };
            decision = after_call(step, Outcome::Accepted, at, &schedule, 0.0);
        }
        assert_eq!(decision.to, StepState::Verifying);
        at = decision
            .next_attempt_at
            .unwrap()
            .max(at + TimeDelta::seconds(1));
        (since, last) = (decision.blocked_since, decision.error);
    }
    let periods: Vec<i64> = repeated.iter().map(|seconds| seconds / 180).collect();
    assert_eq!(periods, [1, 2, 3], "{repeated:?}");
    let took = (at - now()).num_seconds();
    assert!((600..640).contains(&took), "{took}");
}

#[test]
fn n14_asynchronous_deletes_are_observed_again_at_the_same_even_seconds() {
    let at = |millis: i64| {
        let now = now() + TimeDelta::milliseconds(millis);
        let decision = after_observation(fresh(), still_deleting(), now, &schedule(), 0.0);
        let next = decision.next_attempt_at.unwrap();
        assert_eq!(
            next.timestamp_millis() % 2_000,
            0,
            "not observed at an even second, so by more than one list in 2 s"
        );
        (next - self::now()).num_milliseconds()
    };
    assert_eq!([at(1), at(500)], [1_000; 2]);
    // The next observation is at the first even second that is at least 500 ms away.
    assert_eq!([at(501), at(1_300), at(2_500)], [3_000; 3]);
}

#[test]
fn i06_a_long_delete_under_way_is_observed_less_often() {
    let wait_at = |age: u64| {
        let decision =
            after_observation(blocked_for(age), still_deleting(), now(), &schedule(), 0.0);
        (decision.next_attempt_at.unwrap() - now()).num_seconds()
    };
    // The next even second is 1 s away.
    assert_eq!([wait_at(0), wait_at(16), wait_at(32)], [1, 3, 5]);
    assert_eq!([wait_at(240), wait_at(500)], [31, 31]);
}

#[test]
fn i06_a_delete_that_the_cloud_failed_at_is_a_refused_attempt() {
    let observed = Observed::failed(error(ErrorClass::Blocked));
    let decision = after_observation(fresh(), observed, now(), &schedule(), 0.0);
    assert_eq!((decision.to, decision.attempts), (StepState::Blocked, 1));
    assert_eq!(wait_of(&decision), MINUTE);
}
