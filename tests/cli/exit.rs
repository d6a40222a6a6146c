use chrono::TimeDelta;
use gone::control::ControlError;
use gone::domain::model::{Counts, DeletionState, ErrorClass, Refusal, RefusalRule};
use gone::frontends::cli::wait::{Verdict, verdict_of};
use gone::frontends::cli::{Exit, Failure};

use crate::fake::{deletion, refusal, start};

#[test]
fn exit_codes_are_those_of_the_contract() {
    let codes = [
        (Exit::Done, 0),
        (Exit::Internal, 1),
        (Exit::Usage, 2),
        (Exit::Auth, 3),
        (Exit::Stuck, 4),
        (Exit::Unreachable, 5),
        (Exit::Refused, 6),
        (Exit::Drifted, 7),
        (Exit::StillRunning, 8),
        (Exit::Interrupted, 130),
    ];
    for (exit, code) in codes {
        assert_eq!(exit.code(), code, "{exit:?}");
    }
}

#[test]
fn the_first_applicable_exit_code_of_1_3_5_7_6_4_8_wins() {
    let order = [
        Exit::Internal,
        Exit::Auth,
        Exit::Unreachable,
        Exit::Drifted,
        Exit::Refused,
        Exit::Stuck,
        Exit::StillRunning,
        Exit::Done,
    ];
    for (position, first) in order.iter().enumerate() {
        for later in &order[position..] {
            assert_eq!(Exit::first_of([*later, *first]), *first);
            assert_eq!(Exit::first_of([*first, *later]), *first);
        }
    }
    assert_eq!(Exit::first_of([]), Exit::Done);
}

#[test]
fn each_control_error_has_its_exit_code() {
    let message = String::new;
    let table = [
        (ControlError::Usage { message: message() }, 2),
        (ControlError::NotFound { message: message() }, 2),
        (
            ControlError::Ambiguous {
                message: message(),
                candidates: vec![],
            },
            2,
        ),
        (ControlError::Auth { message: message() }, 3),
        (ControlError::Forbidden { message: message() }, 3),
        (ControlError::Unreachable { message: message() }, 5),
        (
            ControlError::Refused {
                message: message(),
                refused: vec![],
            },
            6,
        ),
        (
            ControlError::Drifted {
                message: message(),
                changes: vec![],
            },
            7,
        ),
        (ControlError::Conflict { message: message() }, 6),
        (
            ControlError::Expired {
                message: message(),
                oldest: 1,
            },
            2,
        ),
        (ControlError::Internal { message: message() }, 1),
    ];
    for (error, code) in table {
        let exit = Failure::of("list", error.clone()).exit;
        assert_eq!(exit.code(), code, "{error:?}");
    }
}

#[test]
fn a_deletion_exits_by_its_state_its_errors_and_its_refusals() {
    use ErrorClass::{Auth, Blocked, Drift, Fatal, Guard, OutcomeUnknown, Unavailable};
    let table: [(DeletionState, &[ErrorClass], &[RefusalRule], u8); 17] = [
        (DeletionState::Gone, &[], &[], 0),
        (DeletionState::Stuck, &[Blocked], &[], 4),
        (DeletionState::Stuck, &[Fatal, OutcomeUnknown], &[], 4),
        // Newcomers during the deletion: calls were sent already, so the code is not 7.
        (DeletionState::Stuck, &[Drift], &[], 4),
        (DeletionState::Stuck, &[Blocked, Guard], &[], 6),
        (DeletionState::Stuck, &[Guard, Unavailable], &[], 5),
        (DeletionState::Stuck, &[Unavailable, Auth], &[], 3),
        (DeletionState::Purged, &[], &[], 4),
        (DeletionState::Cancelled, &[], &[], 4),
        (DeletionState::Refused, &[], &[], 6),
        (DeletionState::Refused, &[], &[RefusalRule::InUse], 6),
        (
            DeletionState::Refused,
            &[],
            &[RefusalRule::Protected, RefusalRule::Drift],
            7,
        ),
        (
            DeletionState::Refused,
            &[],
            &[RefusalRule::Unreadable, RefusalRule::Drift],
            5,
        ),
        (DeletionState::Running, &[], &[], 8),
        (DeletionState::Running, &[Blocked], &[], 8),
        (DeletionState::Paused, &[], &[], 8),
        (DeletionState::Planning, &[], &[], 8),
    ];
    for (state, failures, rules, code) in table {
        let mut deletion = deletion(state);
        deletion.refused = rules
            .iter()
            .map(|rule| Refusal {
                rule: *rule,
                ..refusal()
            })
            .collect();
        let exit = Exit::of_deletion(&deletion, failures);
        assert_eq!(exit.code(), code, "{state:?} {failures:?} {rules:?}");
    }
}

/// A row has the state, the counts as `(ready, running, verifying, blocked)`, the next attempt and the deadline in
/// minutes from now, and the expected verdict.
#[test]
fn a_wait_ends_when_the_deletion_has_ended_cannot_progress_or_time_is_up() {
    use DeletionState::{AwaitingApproval, Cancelled, Gone, Paused, Planning, Running, Stuck};
    type Row = (
        DeletionState,
        (u64, u64, u64, u64),
        Option<i64>,
        Option<i64>,
        Verdict,
    );
    let table: [Row; 19] = [
        (Gone, (0, 0, 0, 0), None, None, Verdict::Ended),
        (Stuck, (0, 0, 0, 0), None, Some(-1), Verdict::Ended),
        (Cancelled, (0, 0, 1, 0), None, None, Verdict::Ended),
        (Planning, (0, 0, 0, 0), None, None, Verdict::Continue),
        (Planning, (0, 0, 0, 0), None, Some(0), Verdict::OutOfTime),
        (Running, (0, 1, 0, 0), None, None, Verdict::Continue),
        (Running, (0, 1, 0, 0), None, Some(5), Verdict::Continue),
        (Running, (0, 1, 0, 0), None, Some(0), Verdict::OutOfTime),
        // Blocked: the next attempt comes by the deadline, or after it.
        (Running, (0, 0, 0, 1), Some(4), Some(5), Verdict::Continue),
        (Running, (0, 0, 0, 1), Some(5), Some(5), Verdict::Continue),
        (
            Running,
            (0, 0, 0, 1),
            Some(6),
            Some(5),
            Verdict::NothingRunsInTime,
        ),
        (Running, (0, 0, 0, 1), Some(60), None, Verdict::Continue),
        (
            Running,
            (0, 0, 0, 1),
            Some(61),
            None,
            Verdict::NothingRunsInTime,
        ),
        // Other steps are at work, and may remove the blocker.
        (Running, (1, 0, 0, 1), Some(61), None, Verdict::Continue),
        (Running, (0, 0, 1, 1), Some(61), Some(5), Verdict::Continue),
        // A person must act first.
        (
            Paused,
            (0, 0, 0, 1),
            Some(1),
            Some(5),
            Verdict::NothingRunsInTime,
        ),
        (Paused, (0, 0, 0, 0), None, Some(5), Verdict::Continue),
        (Paused, (0, 0, 0, 0), None, None, Verdict::OutOfTime),
        (
            AwaitingApproval,
            (0, 0, 0, 0),
            None,
            None,
            Verdict::OutOfTime,
        ),
    ];
    for (state, (ready, running, verifying, blocked), next, deadline, verdict) in table {
        let mut deletion = deletion(state);
        deletion.counts = Counts {
            ready,
            running,
            verifying,
            blocked,
            ..Counts::default()
        };
        let at = |minutes: Option<i64>| minutes.map(|m| start() + TimeDelta::minutes(m));
        let found = verdict_of(&deletion, at(next), start(), at(deadline));
        assert_eq!(
            found, verdict,
            "{state:?} {next:?} {deadline:?} {:?}",
            deletion.counts
        );
    }
}
