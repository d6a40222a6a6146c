//! What next: the collector's schedule, snoozes, looks (I1, I3, I6, I7, N13).

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{Blocker, ErrorClass, KindName, Site, StepError, StepState};
use gone::domain::policy::{
    Decision, Failure, Gathered, Observed, Outcome, Repeats, Retry, Schedule, StepFacts,
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

fn call(step: StepFacts<'_>, outcome: Outcome) -> Decision {
    after_call(step, outcome, now(), &schedule(), 0.0)
}

#[test]
fn i14_a_call_that_a_repeated_delete_asked_for_leaves_the_schedule_where_it_stood() {
    let own = now() + TimeDelta::hours(6);
    let woken = StepFacts {
        attempts: 5,
        own_attempt_at: Some(own),
        ..fresh()
    };
    let decision = call(woken, failed(Retry::Scheduled, ErrorClass::Blocked));
    assert_eq!((decision.to, decision.attempts), (StepState::Blocked, 5));
    assert_eq!(decision.next_attempt_at, Some(own));
    // What had no attempt left has none now, and is stuck as before.
    let spent = StepFacts {
        attempts: 8,
        ..woken
    };
    let decision = call(spent, failed(Retry::Scheduled, ErrorClass::Blocked));
    assert_eq!((decision.to, decision.attempts), (StepState::Stuck, 8));
    // Once its own time has come, the attempt counts.
    let due = StepFacts {
        own_attempt_at: Some(now()),
        ..woken
    };
    let decision = call(due, failed(Retry::Scheduled, ErrorClass::Blocked));
    assert_eq!(decision.attempts, 6);
}

#[test]
fn i13_an_accepted_delete_is_looked_for_before_it_counts() {
    let decision = call(fresh(), Outcome::Accepted);
    assert_eq!(decision.to, StepState::Verifying);
}

#[test]
fn i13_the_kinds_own_not_found_is_gone() {
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
fn i07_at_the_maximum_it_is_stuck_with_its_error() {
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
fn i06_not_yet_uses_no_attempt_and_is_bounded_by_age() {
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
fn i01_unavailability_is_retried_as_such_and_heeds_retry_after() {
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
fn i01_forbidden_and_invalid_are_fatal_at_once() {
    let decision = call(fresh(), failed(Retry::Never, ErrorClass::Fatal));
    assert_eq!((decision.to, decision.attempts), (StepState::Stuck, 0));
}

#[test]
fn n13_a_lost_answer_is_looked_at_before_it_is_repeated() {
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
fn n13_an_unclear_look_forgets_not_that_the_answer_was_lost() {
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

    // What was not known says nothing about how long the cloud has worked on a delete.
    let step = StepFacts {
        blocked_since: Some(now() - TimeDelta::hours(23)),
        last_error: first.error.as_ref(),
        ..fresh()
    };
    let works = Observed::StillDeleting(error(ErrorClass::Blocked));
    let decision = after_observation(step, works, now(), &schedule(), 0.0);
    assert_eq!(
        (decision.to, decision.blocked_since),
        (StepState::Verifying, Some(now()))
    );
}

#[test]
fn n13_lost_rights_pause_and_use_no_attempt() {
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
fn i13_what_was_accepted_and_stays_is_a_refused_attempt_in_the_end() {
    let mut waited = Duration::ZERO;
    for looks in 0..100 {
        let decision = after_observation(
            StepFacts {
                observations: looks,
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
    panic!("looked for ever");
}

#[test]
fn t14_what_was_created_again_is_sent_again_at_once_as_long_as_there_are_attempts() {
    let anew = || Observed::Anew(error(ErrorClass::Blocked));
    let looked = |attempts| {
        let step = StepFacts {
            attempts,
            ..fresh()
        };
        after_observation(step, anew(), now(), &schedule(), 0.0)
    };
    let max = fresh().max_attempts;
    for attempts in 0..max - 1 {
        let decision = looked(attempts);
        assert_eq!(
            (decision.to, decision.attempts, decision.next_attempt_at),
            (StepState::Ready, attempts + 1, None)
        );
    }
    assert_eq!(looked(max - 1).to, StepState::Stuck);
    let cancelled = StepFacts {
        cancelled: true,
        ..fresh()
    };
    let decision = after_observation(cancelled, anew(), now(), &schedule(), 0.0);
    assert_eq!(decision.to, StepState::Skipped);
}

#[test]
fn p08_a_cancelled_step_that_is_present_is_released() {
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
fn i01_a_service_that_is_away_is_asked_later_and_later_for_a_day() {
    let away = |seconds| {
        let outcome = failed(Retry::Unavailable, ErrorClass::Unavailable);
        call(blocked_for(seconds), outcome)
    };
    // Half of the time that it was away, between a second and a minute.
    for (seconds, wait) in [(0, 1), (40, 20), (119, 59), (1000, 60)] {
        assert_eq!(wait_of(&away(seconds)), wait, "after {seconds} s");
    }
    let day = 24 * 60 * 60;
    assert_eq!(away(day - 1).to, StepState::Blocked);
    let given_up = away(day);
    assert_eq!(given_up.to, StepState::Stuck);
    assert_eq!(given_up.next_attempt_at, None);
}

#[test]
fn i06_what_is_not_yet_ready_is_asked_again_after_a_quarter_of_its_age() {
    for (seconds, wait) in [(0, 2), (40, 10), (599, 30)] {
        let outcome = failed(Retry::Pending, ErrorClass::Blocked);
        let decision = call(blocked_for(seconds), outcome);
        assert_eq!(wait_of(&decision), wait, "after {seconds} s");
    }
}

#[test]
fn i13_the_first_look_is_due_at_once() {
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
fn i13_a_look_at_the_end_of_the_time_is_the_last() {
    let schedule = Schedule {
        verify_max: Duration::from_millis(200),
        repeats: None,
        ..schedule()
    };
    let looked = |looks| {
        let step = StepFacts {
            observations: looks,
            ..fresh()
        };
        after_observation(step, Observed::Present, now(), &schedule, 0.0).to
    };
    assert_eq!(looked(0), StepState::Verifying);
    assert_eq!(looked(1), StepState::Blocked);
}

#[test]
fn i07_a_failure_keeps_who_blocks_it_and_since_when() {
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

/// Ports accepted 4 s ago, of a deletion of 100 s ago that has nothing else to do.
fn gathered(verifying: u64) -> Gathered {
    Gathered {
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
fn n14_looks_wait_until_nothing_else_is_to_be_done_or_many_have_gathered() {
    let waits = |gathered: Gathered| observation_wait(&gathered, false, now()).as_secs();
    assert_eq!(waits(gathered(1)), 0, "nothing else to do");
    let sending = |verifying: u64, unsent: u64| Gathered {
        ready: Some(1),
        running: Some(1),
        unsent,
        ..gathered(verifying)
    };
    assert_eq!(waits(sending(1, 500)), 46, "half of the deletion's time");
    assert_eq!(
        waits(sending(300, 151)),
        46,
        "not yet twice as many as left"
    );
    assert_eq!(waits(sending(300, 150)), 0);
    assert_eq!(waits(sending(300, 138)), 46, "the last ones are waited for");
    let others_wait = Gathered {
        fills_a_list: false,
        ..sending(300, 150)
    };
    assert_eq!(waits(others_wait), 46, "not yet a list full of this kind");
    let young = Gathered {
        since: now() - Duration::from_secs(4),
        ..sending(1, 500)
    };
    assert_eq!(waits(young), 26, "30 s at least");
}

#[test]
fn n14_a_look_that_the_longest_path_waits_for_is_made_at_once() {
    let waits = |ready, running| {
        let trunks = Gathered {
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
fn i12_looks_wait_but_shortly_for_calls_that_hang() {
    let hanging = Gathered {
        running: Some(1),
        unsent: 1,
        ..gathered(1)
    };
    assert_eq!(observation_wait(&hanging, false, now()).as_secs(), 6);
    let late = Gathered {
        oldest: now() - Duration::from_secs(11),
        ..hanging
    };
    assert_eq!(observation_wait(&late, false, now()), Duration::ZERO);
}

#[test]
fn n14_what_settles_is_looked_for_first_at_the_even_second_at_which_it_can_have_ended() {
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
    // The next even second is 1 s away. Deletes of two seconds are looked for together.
    assert_eq!([due(0), due(500)], [1_000; 2]);
    assert_eq!([due(501), due(1_700), due(2_500)], [3_000; 3]);
    // What came of a lost call is asked at once.
    let lost = failed(Retry::Unknown, ErrorClass::OutcomeUnknown);
    let decision = after_call(fresh(), lost, now(), &schedule, 0.0);
    assert_eq!(decision.next_attempt_at, Some(now()));
}

#[test]
fn n14_a_look_at_what_settles_waits_for_no_other_kind_and_only_in_a_long_deletion() {
    let taken = |seconds: u64| Gathered {
        oldest: now(),
        ready: Some(9),
        running: Some(9),
        unsent: 500,
        since: now() - Duration::from_secs(seconds),
        ..gathered(1)
    };
    let waits = |seconds: u64| observation_wait(&taken(seconds), true, now()).as_secs();
    assert_eq!([waits(0), waits(31)], [0, 0]);
    // By whole turns of 2 s, so that what falls due at even seconds is looked for at even seconds.
    assert_eq!([waits(32), waits(63), waits(64), waits(640)], [2, 2, 4, 40]);
    // A call that hangs holds it up no longer than it does the others (I12).
    let hanging = Gathered {
        ready: None,
        ..taken(3600)
    };
    assert_eq!(observation_wait(&hanging, true, now()).as_secs(), 10);
    assert_eq!(observation_wait(&hanging, false, now()).as_secs(), 10);
    // What the longest path waits for is looked for at once, as ever.
    let first = Gathered {
        rank: 10,
        ..taken(640)
    };
    assert_eq!(observation_wait(&first, true, now()), Duration::ZERO);
}

/// What a look says of a balancer whose delete the cloud works on.
fn settling() -> Observed {
    Observed::StillDeleting(StepError {
        status: None,
        kind: "PENDING_DELETE".into(),
        ..error(ErrorClass::Blocked)
    })
}

#[test]
fn i06_what_the_cloud_works_on_uses_no_attempt_and_is_stuck_at_its_limit() {
    let look = |step| after_observation(step, settling(), now(), &schedule(), 0.0);
    let first = look(fresh());
    assert_eq!(first.to, StepState::Verifying);
    assert_eq!((first.attempts, first.blocked_since), (0, Some(now())));
    assert_eq!(first.error.as_ref().unwrap().kind, "PENDING_DELETE");
    let later = look(blocked_for(599));
    assert_eq!((later.to, later.attempts), (StepState::Verifying, 0));
    let end = look(blocked_for(600));
    assert_eq!((end.to, end.attempts), (StepState::Stuck, 0));
    assert_eq!(end.error.unwrap().kind, "PENDING_DELETE");
    assert_eq!(end.next_attempt_at, None);
}

/// Nova's case: a delete that was sent before the host was down never ends, and one that is sent after it does.
#[test]
fn i06_a_delete_under_way_is_repeated_where_that_does_no_harm_and_is_stuck_at_the_same_time() {
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
        let Observed::StillDeleting(seen) = settling() else {
            unreachable!()
        };
        let seen = Observed::StillDeleting(StepError { at, ..seen });
        let mut decision = after_observation(step, seen, at, &schedule, 0.0);
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
    let turns: Vec<i64> = repeated.iter().map(|seconds| seconds / 180).collect();
    assert_eq!(turns, [1, 2, 3], "{repeated:?}");
    let took = (at - now()).num_seconds();
    assert!((600..640).contains(&took), "{took}");
}

#[test]
fn n14_what_settles_at_different_times_is_looked_for_at_the_same_even_second() {
    let at = |millis: i64| {
        let now = now() + TimeDelta::milliseconds(millis);
        let decision = after_observation(fresh(), settling(), now, &schedule(), 0.0);
        let next = decision.next_attempt_at.unwrap();
        assert_eq!(
            next.timestamp_millis() % 2_000,
            0,
            "no more than one list in 2 s"
        );
        (next - self::now()).num_milliseconds()
    };
    assert_eq!([at(1), at(500)], [1_000; 2]);
    // What was looked for at an even second is looked for at the next one, not at the one after it.
    assert_eq!([at(501), at(1_300), at(2_500)], [3_000; 3]);
}

#[test]
fn i06_what_the_cloud_works_on_for_long_is_looked_for_more_rarely() {
    let wait_at = |age: u64| {
        let decision = after_observation(blocked_for(age), settling(), now(), &schedule(), 0.0);
        (decision.next_attempt_at.unwrap() - now()).num_seconds()
    };
    // The next even second is 1 s away.
    assert_eq!([wait_at(0), wait_at(16), wait_at(32)], [1, 3, 5]);
    assert_eq!([wait_at(240), wait_at(500)], [31, 31]);
}

#[test]
fn i06_what_the_cloud_has_failed_at_is_a_refused_attempt() {
    let looked = Observed::failed(error(ErrorClass::Blocked));
    let decision = after_observation(fresh(), looked, now(), &schedule(), 0.0);
    assert_eq!((decision.to, decision.attempts), (StepState::Blocked, 1));
    assert_eq!(wait_of(&decision), MINUTE);
}
