//! What a person is told to do about a step that waits for the word of other deployments.

use chrono::DateTime;
use gone::domain::awaiting::next_action;
use gone::domain::model::{
    Action, Blocker, ErrorClass, KindName, ResourceKey, Site, Step, StepError, StepResource,
    StepState,
};
use gone::domain::peers::{AWAITED, Awaited, awaiting};

fn at(name: &str) -> Site {
    Site::Deployment { name: name.into() }
}

fn held_by(name: &str) -> Blocker {
    Blocker {
        kind: KindName::new("c"),
        id: "c1".to_owned(),
        name: String::new(),
        site: at(name),
        owner: String::new(),
        owner_name: String::new(),
        since: None,
        in_plan: true,
    }
}

/// As an owner says it of who has said nothing.
fn silent(name: &str) -> Blocker {
    let awaited = Awaited {
        importer: name.to_owned(),
        said: None,
    };
    awaiting(&[awaited]).1.remove(0)
}

/// Of deployment d1-1.
fn step(state: StepState, error: &str, blockers: Vec<Blocker>) -> Step {
    Step {
        id: 1,
        deletion_id: "x".to_owned(),
        resource: StepResource {
            key: ResourceKey {
                site: at("d1-1"),
                kind: KindName::new("rx"),
                id: "x".to_owned(),
            },
            name: String::new(),
        },
        action: Action::Delete,
        state,
        depends_on: Vec::new(),
        attempts: 0,
        max_attempts: 8,
        next_attempt_at: None,
        blocked_since: None,
        blockers,
        last_error: Some(StepError {
            class: ErrorClass::Blocked,
            status: None,
            kind: error.to_owned(),
            message: String::new(),
            request_id: String::new(),
            at: DateTime::UNIX_EPOCH,
        }),
        held_by: None,
        recreated: 0,
        project_id: String::new(),
        why: String::new(),
    }
}

#[test]
fn g11_what_waits_for_the_word_of_others_says_how_it_comes_to_have_it() {
    let table = [
        (
            vec![held_by("d0-1"), held_by("d0-1")],
            "clear what d0-1 names, or, if that deployment is gone for good: gone release d0-1",
        ),
        (
            vec![silent("d0-1")],
            "see why d0-1 says nothing, or, if that deployment is gone for good: gone release d0-1",
        ),
        (
            vec![silent("d0-2"), held_by("d0-1"), held_by("d0-3")],
            "clear what d0-1 and d0-3 name, and see why d0-2 says nothing, or, for one that is gone \
             for good: gone release NAME",
        ),
        // Nobody releases himself.
        (vec![held_by("d1-1")], "clear what d1-1 names"),
        (
            vec![held_by("a\u{1b}[2J")],
            "clear what a\\u{1b}[2J names, or, if that deployment is gone for good: gone release \
             a\\u{1b}[2J",
        ),
    ];
    for (blockers, action) in table {
        for state in [StepState::Blocked, StepState::Stuck] {
            let step = step(state, AWAITED, blockers.clone());
            assert_eq!(next_action(&step).as_deref(), Some(action));
        }
    }
}

#[test]
fn g11_of_all_else_it_says_nothing() {
    let held = || vec![held_by("d0-1")];
    for step in [
        step(StepState::Gone, AWAITED, held()),
        step(StepState::Ready, AWAITED, held()),
        step(StepState::Blocked, "NetworkInUse", held()),
        // It could not be read whose word is missing.
        step(StepState::Blocked, AWAITED, Vec::new()),
    ] {
        assert_eq!(next_action(&step), None, "{step:?}");
    }
}
