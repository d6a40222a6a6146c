//! The transitions of steps and deletions as tables: each trigger with each state, including the pairs that must be
//! refused.

use gone::domain::model::{Counts, DeletionState, Phase, StepState};
use gone::ledger::transitions::deletion::{self, derived};
use gone::ledger::transitions::step::{self, Effects, Facts, Trigger, after};

use StepState::{Blocked, Gone, Purged, Ready, Running, Skipped, Stuck, Verifying, Waiting};

const NO: Option<StepState> = None;
const NONE: Facts = Facts {
    waits: false,
    sent: false,
    stuck_by_another: false,
    left: false,
    cancelled: false,
    cleared: false,
};
const WAITS: Facts = Facts {
    waits: true,
    ..NONE
};
const SENT: Facts = Facts { sent: true, ..NONE };
const SENT_WAITS: Facts = Facts {
    waits: true,
    ..SENT
};
const HELD: Facts = Facts {
    stuck_by_another: true,
    ..NONE
};
const HELD_WAITS: Facts = Facts {
    waits: true,
    ..HELD
};
const LEFT: Facts = Facts { left: true, ..NONE };
const HELD_LEFT: Facts = Facts { left: true, ..HELD };
const CANCELLED: Facts = Facts {
    cancelled: true,
    ..NONE
};
const CLEARED: Facts = Facts {
    cleared: true,
    ..NONE
};

fn to(state: StepState) -> Option<StepState> {
    Some(state)
}

/// A trigger, the facts, and the next state from each state; none where the trigger must be refused.
type Row = (Trigger, Facts, [Option<StepState>; 9]);

/// The rows of the table. The states are: waiting, ready, running, verifying, blocked, stuck, gone, skipped, purged.
fn rows() -> Vec<Row> {
    use Trigger as T;
    let (ready, waiting, stuck) = (to(Ready), to(Waiting), to(Stuck));
    let (verifying, gone, skipped) = (to(Verifying), to(Gone), to(Skipped));
    let same = [gone, skipped, to(Purged)];
    // An answer may arrive for any step that has not ended.
    let any = |state| [state, state, state, state, state, state, NO, NO, NO];
    let none = [NO; 9];
    let ended = |from: [Option<StepState>; 6]| {
        let [a, b, c, d, e, f] = from;
        let [x, y, z] = same;
        [a, b, c, d, e, f, x, y, z]
    };
    vec![
        (
            T::DependenciesEnded,
            NONE,
            [ready, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::DependenciesEnded,
            LEFT,
            [waiting, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::DependenciesEnded,
            CANCELLED,
            [verifying, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::Claimed,
            NONE,
            [NO, to(Running), NO, NO, NO, NO, NO, NO, NO],
        ),
        (T::Due, NONE, [NO, NO, NO, NO, ready, NO, NO, NO, NO]),
        (
            T::EngineEnded,
            SENT,
            [NO, NO, verifying, NO, NO, NO, NO, NO, NO],
        ),
        (T::Retried, SENT, [NO, NO, NO, NO, ready, ready, NO, NO, NO]),
        (
            T::Retried,
            SENT_WAITS,
            [NO, NO, NO, NO, waiting, waiting, NO, NO, NO],
        ),
        (
            T::DependentRetried,
            SENT,
            [NO, NO, NO, NO, NO, NO, ready, NO, NO],
        ),
        (
            T::DependencyStuck,
            WAITS,
            [stuck, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::DeletionStopped,
            NONE,
            [stuck, stuck, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::DeletionStopped,
            SENT,
            [NO, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::StuckCauseReleased,
            HELD,
            [NO, NO, NO, NO, NO, ready, NO, NO, NO],
        ),
        (
            T::StuckCauseReleased,
            HELD_WAITS,
            [NO, NO, NO, NO, NO, waiting, NO, NO, NO],
        ),
        (
            T::StuckCauseReleased,
            HELD_LEFT,
            [NO, NO, NO, NO, NO, waiting, NO, NO, NO],
        ),
        (T::StuckCauseReleased, NONE, none),
        (
            T::DependencyAbandoned,
            NONE,
            [stuck, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::DeletionCancelled,
            NONE,
            ended([skipped, skipped, to(Running), verifying, verifying, skipped]),
        ),
        (
            T::DeletionCancelled,
            SENT,
            ended([
                waiting,
                verifying,
                to(Running),
                verifying,
                verifying,
                verifying,
            ]),
        ),
        (
            T::DeletionCancelled,
            SENT_WAITS,
            ended([
                waiting,
                verifying,
                to(Running),
                verifying,
                verifying,
                waiting,
            ]),
        ),
        (
            T::Abandoned,
            SENT,
            [NO, NO, NO, NO, to(Purged), to(Purged), NO, NO, NO],
        ),
        (T::Recreated, SENT, [NO, NO, NO, NO, NO, NO, stuck, NO, NO]),
        (T::OwnerGone, LEFT, [gone, NO, NO, NO, NO, gone, NO, NO, NO]),
        (
            T::OwnerStuck,
            LEFT,
            [stuck, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::OwnerContinues,
            LEFT,
            [waiting, NO, NO, NO, NO, waiting, NO, NO, NO],
        ),
        (
            T::OwnerContinues,
            HELD_LEFT,
            [waiting, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::OwnerSkipped,
            NONE,
            [ready, NO, NO, NO, NO, ready, NO, NO, NO],
        ),
        (
            T::OwnerSkipped,
            WAITS,
            [waiting, NO, NO, NO, NO, waiting, NO, NO, NO],
        ),
        (
            T::OwnerSkipped,
            HELD,
            [stuck, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (
            T::OwnerAbandoned,
            LEFT,
            [stuck, NO, NO, NO, NO, stuck, NO, NO, NO],
        ),
        (T::Answered(Waiting), NONE, none),
        (T::Answered(Running), NONE, none),
        (T::Answered(Ready), NONE, any(ready)),
        (T::Answered(Ready), WAITS, none),
        (T::Answered(Ready), CANCELLED, any(skipped)),
        (T::Answered(Verifying), NONE, any(verifying)),
        (T::Answered(Verifying), WAITS, none),
        (T::Answered(Verifying), CANCELLED, any(verifying)),
        (T::Answered(Blocked), NONE, any(to(Blocked))),
        (T::Answered(Blocked), WAITS, none),
        (T::Answered(Blocked), CLEARED, any(ready)),
        (T::Answered(Blocked), CANCELLED, any(skipped)),
        (T::Answered(Stuck), NONE, any(stuck)),
        (T::Answered(Stuck), WAITS, any(stuck)),
        (T::Answered(Stuck), CANCELLED, any(skipped)),
        (T::Answered(Gone), NONE, any(gone)),
        (T::Answered(Gone), WAITS, any(gone)),
        (T::Answered(Gone), CANCELLED, any(gone)),
        (T::Answered(Skipped), NONE, any(skipped)),
        (T::Answered(Purged), NONE, any(to(Purged))),
    ]
}

#[test]
fn each_trigger_moves_each_step_state_to_the_listed_state_or_is_refused() {
    use Trigger as T;
    for (trigger, facts, row) in rows() {
        for (from, wanted) in StepState::ALL.into_iter().zip(row) {
            let next = after(from, trigger, facts);
            let found = next.as_ref().ok().map(|next| next.state);
            assert_eq!(found, wanted, "{trigger:?} of {from:?} with {facts:?}");
            if let Err(why) = next {
                // No outcome can be `waiting` or `running`, so the refusal names that state. But a step that has ended
                // refuses every outcome, and names its own state.
                let named = match trigger {
                    T::Answered(to @ (Waiting | Running))
                        if !matches!(from, Gone | Skipped | Purged) =>
                    {
                        to
                    }
                    _ => from,
                };
                assert!(why.to_string().contains(named.as_str()), "{why}");
            }
        }
    }
}

/// The match makes the compiler ask for a row when a trigger is added.
#[test]
fn each_step_trigger_has_a_row_in_the_table() {
    let number = |trigger: Trigger| match trigger {
        Trigger::DependenciesEnded => 0,
        Trigger::Claimed => 1,
        Trigger::Due => 2,
        Trigger::EngineEnded => 3,
        Trigger::Retried => 4,
        Trigger::DependentRetried => 5,
        Trigger::DependencyStuck => 6,
        Trigger::DeletionStopped => 7,
        Trigger::StuckCauseReleased => 8,
        Trigger::DependencyAbandoned => 9,
        Trigger::DeletionCancelled => 10,
        Trigger::Abandoned => 11,
        Trigger::Recreated => 12,
        Trigger::OwnerGone => 13,
        Trigger::OwnerStuck => 14,
        Trigger::OwnerContinues => 15,
        Trigger::OwnerSkipped => 16,
        Trigger::OwnerAbandoned => 17,
        Trigger::Answered(state) => 18 + StepState::ALL.iter().position(|it| *it == state).unwrap(),
    };
    let found: std::collections::BTreeSet<usize> = rows()
        .iter()
        .map(|(trigger, ..)| number(*trigger))
        .collect();
    assert_eq!(found, (0..27).collect());
}

#[test]
fn each_step_move_has_the_listed_effects() {
    let ended = |phase| Effects {
        tombstone: Some(phase),
        dependents: Some(Trigger::DependenciesEnded),
        ..Effects::default()
    };
    let sticks = Effects {
        dependents: Some(Trigger::DependencyStuck),
        notifies: true,
        ..Effects::default()
    };
    let releases = Effects {
        frees_stuck_steps: true,
        ..Effects::default()
    };
    let nothing = Effects::default();
    let rows = [
        // A tombstone ends with its step, and never by a failure.
        (Verifying, Trigger::Answered(Gone), NONE, ended(Phase::Gone)),
        (
            Running,
            Trigger::Answered(Skipped),
            NONE,
            ended(Phase::Released),
        ),
        (Running, Trigger::Answered(Blocked), NONE, nothing),
        (Running, Trigger::Answered(Verifying), NONE, nothing),
        (
            Running,
            Trigger::Answered(Ready),
            CANCELLED,
            ended(Phase::Released),
        ),
        (Running, Trigger::Answered(Stuck), NONE, sticks),
        (
            Stuck,
            Trigger::Answered(Gone),
            NONE,
            Effects {
                frees_stuck_steps: true,
                ..ended(Phase::Gone)
            },
        ),
        // Nobody is notified of a step that is stuck because of another one.
        (Waiting, Trigger::DependencyStuck, WAITS, nothing),
        (Ready, Trigger::DeletionStopped, NONE, nothing),
        (Waiting, Trigger::DependencyAbandoned, NONE, sticks),
        (Stuck, Trigger::DependencyAbandoned, HELD, sticks),
        (Waiting, Trigger::OwnerStuck, LEFT, sticks),
        (Stuck, Trigger::OwnerStuck, LEFT, nothing),
        (Stuck, Trigger::OwnerAbandoned, LEFT, sticks),
        (
            Gone,
            Trigger::Recreated,
            NONE,
            Effects {
                tombstone: Some(Phase::Deleting),
                ..sticks
            },
        ),
        // A step that was stuck by itself releases its dependents. A step that another step keeps stuck releases its
        // dependents only when its owner is gone.
        (Stuck, Trigger::Retried, NONE, releases),
        (Blocked, Trigger::Retried, NONE, nothing),
        (Stuck, Trigger::StuckCauseReleased, HELD, nothing),
        (Stuck, Trigger::OwnerContinues, LEFT, releases),
        (Stuck, Trigger::OwnerSkipped, NONE, releases),
        (Stuck, Trigger::OwnerSkipped, HELD, nothing),
        (
            Stuck,
            Trigger::OwnerGone,
            HELD_LEFT,
            Effects {
                frees_stuck_steps: true,
                ..ended(Phase::Gone)
            },
        ),
        // The dependents of an abandoned step need a person.
        (
            Stuck,
            Trigger::Abandoned,
            NONE,
            Effects {
                tombstone: Some(Phase::Purged),
                frees_stuck_steps: true,
                dependents: Some(Trigger::DependencyAbandoned),
                notifies: false,
            },
        ),
        // The other steps of the deletion get the same trigger, so this step passes none on.
        (
            Stuck,
            Trigger::DeletionCancelled,
            NONE,
            Effects {
                tombstone: Some(Phase::Released),
                ..nothing
            },
        ),
        (Gone, Trigger::DeletionCancelled, NONE, nothing),
    ];
    for (from, trigger, facts, wanted) in rows {
        let found = after(from, trigger, facts).unwrap().effects;
        assert_eq!(found, wanted, "{trigger:?} of {from:?} with {facts:?}");
    }
}

#[test]
fn a_planned_step_waits_for_its_dependencies_and_its_owner() {
    assert_eq!(step::planned(NONE), Ready);
    assert_eq!(step::planned(WAITS), Waiting);
    assert_eq!(step::planned(LEFT), Waiting);
}

fn counts(states: &[StepState]) -> Counts {
    let mut counts = Counts::default();
    for state in states {
        *counts.of_mut(*state) += 1;
        counts.total += 1;
    }
    counts
}

#[test]
fn the_state_of_a_deletion_is_derived_from_its_flags_and_step_counts() {
    use DeletionState as D;
    let all = StepState::ALL;
    let rows: [(bool, bool, &[StepState], D); 14] = [
        (true, true, &all, D::Cancelled),
        (false, true, &all, D::Paused),
        (false, false, &all, D::Running),
        (false, false, &[Waiting], D::Running),
        (false, false, &[Ready], D::Running),
        (false, false, &[Running], D::Running),
        (false, false, &[Verifying, Stuck], D::Running),
        (false, false, &[Blocked, Stuck], D::Running),
        (false, false, &[Stuck, Purged, Gone], D::Stuck),
        (false, false, &[Purged, Skipped, Gone], D::Purged),
        (false, false, &[Skipped, Gone], D::Gone),
        (false, false, &[Skipped], D::Gone),
        (false, false, &[Gone], D::Gone),
        (false, false, &[], D::Gone),
    ];
    for (cancelled, paused, states, wanted) in rows {
        let facts = deletion::Facts {
            cancelled,
            paused,
            counts: counts(states),
        };
        assert_eq!(derived(&facts), wanted, "{facts:?}");
    }
}

#[test]
fn each_trigger_moves_each_deletion_state_to_the_listed_state_or_is_refused() {
    use DeletionState as D;
    use DeletionState::{AwaitingApproval, Cancelled, Paused, Planning, Refused};
    use deletion::Trigger as T;
    const NO: Option<D> = None;
    let live = Some(D::Running);
    let (planning, refused, cancelled) = (Some(Planning), Some(Refused), Some(Cancelled));
    let (paused, approval) = (Some(Paused), Some(AwaitingApproval));
    // The states are: planning, refused, awaiting approval, running, paused, stuck, gone, cancelled, purged. A
    // deletion that has started has one ready step.
    let rows: [(T, [Option<D>; 9]); 9] = [
        (T::PlanStarted, [live, NO, live, NO, NO, NO, NO, NO, NO]),
        (
            T::PlanRefused,
            [refused, NO, refused, NO, NO, NO, NO, NO, NO],
        ),
        (
            T::StepsMoved,
            [
                planning, refused, approval, live, paused, live, live, cancelled, live,
            ],
        ),
        (
            T::Retried { by_person: true },
            [NO, planning, NO, live, paused, live, NO, NO, NO],
        ),
        (
            T::Retried { by_person: false },
            [NO, NO, NO, live, NO, live, NO, NO, NO],
        ),
        (
            T::Cancelled,
            [
                cancelled, NO, cancelled, cancelled, cancelled, cancelled, NO, NO, NO,
            ],
        ),
        (
            T::Paused,
            [planning, NO, approval, paused, NO, NO, NO, NO, NO],
        ),
        (T::Resumed, [NO, NO, NO, NO, live, NO, NO, NO, NO]),
        (
            T::StepsAbandoned,
            [NO, NO, approval, live, paused, live, live, cancelled, live],
        ),
    ];
    for (trigger, row) in rows {
        for (from, wanted) in D::ALL.into_iter().zip(row) {
            let facts = deletion::Facts {
                cancelled: from == Cancelled,
                paused: from == Paused,
                counts: match deletion::is_before_start(from) && trigger != T::PlanStarted {
                    true => Counts::default(),
                    false => counts(&[Ready]),
                },
            };
            let next = deletion::after(from, trigger, &facts);
            let found = next.as_ref().ok().map(|next| next.state);
            assert_eq!(found, wanted, "{trigger:?} of {from:?}");
            if let Ok(next) = next {
                assert_eq!(next.cancelled, from == Cancelled || trigger == T::Cancelled);
            }
        }
    }
}

#[test]
fn a_pause_ends_with_the_last_live_step_and_at_a_cancellation() {
    let facts = |states: &[StepState]| deletion::Facts {
        cancelled: false,
        paused: true,
        counts: counts(states),
    };
    let paused = |trigger, states: &[StepState]| {
        let next = deletion::after(DeletionState::Paused, trigger, &facts(states)).unwrap();
        (next.state, next.paused)
    };
    let moved = deletion::Trigger::StepsMoved;
    assert_eq!(paused(moved, &[Ready]), (DeletionState::Paused, true));
    assert_eq!(paused(moved, &[Stuck]), (DeletionState::Stuck, false));
    assert_eq!(paused(moved, &[Gone]), (DeletionState::Gone, false));
    let cancelled = paused(deletion::Trigger::Cancelled, &[Verifying]);
    assert_eq!(cancelled, (DeletionState::Cancelled, false));
}
