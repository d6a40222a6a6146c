//! What a person is told to do about a step that waits for the word of other deployments.

use chrono::DateTime;
use gone::domain::awaiting::{next_action, tree_of};
use gone::domain::model::{Blocker, ErrorClass, KindName, Site, Step, StepState};
use gone::domain::peers::{
    AWAITED, Answered, ClearanceRequest, Holder, PendingClearance, Waits, awaiting,
};

use crate::testkit;

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
        holds: None,
    }
}

/// As an owner says it of who has said nothing.
fn silent(name: &str) -> Blocker {
    let awaited = PendingClearance {
        importer: name.to_owned(),
        said: None,
    };
    awaiting(&[awaited]).1.remove(0)
}

/// Of deployment d1-1.
fn step(state: StepState, error: &str, blockers: Vec<Blocker>) -> Step {
    let error = testkit::error(ErrorClass::Blocked, error, "", DateTime::UNIX_EPOCH);
    Step {
        blockers,
        last_error: Some(error),
        ..testkit::step(1, "x", testkit::key(at("d1-1"), "rx", "x"), state)
    }
}

#[test]
fn g11_what_waits_for_the_word_of_others_says_how_it_comes_to_have_it() {
    let table = [
        (
            vec![held_by("d0-1"), held_by("d0-1")],
            "remove the blockers that d0-1 names, or, if that deployment is gone for good: \
             gone release d0-1",
        ),
        (
            vec![silent("d0-1")],
            "find out why the clearance of deployment d0-1 is pending, or, if that deployment is \
             gone for good: gone release d0-1",
        ),
        (
            vec![silent("d0-2"), held_by("d0-1"), held_by("d0-3")],
            "remove the blockers that d0-1 and d0-3 name, and find out why the clearance of \
             deployment d0-2 is pending, or, for one that is gone for good: gone release NAME",
        ),
        // Nobody releases himself.
        (vec![held_by("d1-1")], "remove the blockers that d1-1 names"),
        (
            vec![held_by("a\u{1b}[2J")],
            "remove the blockers that a\\u{1b}[2J names, or, if that deployment is gone for good: \
             gone release a\\u{1b}[2J",
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

/// `NAME below HELD`: at the deployment of its name.
fn below(name: &str, held: Option<&str>) -> Blocker {
    let key = |name: &str| held_by(name).key();
    Blocker {
        holds: held.map(|held| key(held).into()),
        ..held_by(name)
    }
}

#[test]
fn g11_what_holds_a_step_is_shown_once_each_below_what_it_holds() {
    type NotificationCursor<'a> = &'a [(&'a str, Option<&'a str>)];
    type Shown<'a> = &'a [(usize, &'a str)];
    let table: [(NotificationCursor<'_>, Shown<'_>); 5] = [
        (&[], &[]),
        (
            &[("a", None), ("b", None), ("c", Some("a")), ("d", Some("c"))],
            &[(0, "a"), (1, "c"), (2, "d"), (0, "b")],
        ),
        // Whatever comes first.
        (&[("c", Some("a")), ("a", None)], &[(0, "a"), (1, "c")]),
        // What it holds is not told.
        (&[("c", Some("x")), ("a", None)], &[(0, "c"), (0, "a")]),
        // In a circle.
        (&[("a", Some("b")), ("b", Some("a"))], &[(0, "b"), (1, "a")]),
    ];
    for (told, expected) in table {
        let told: Vec<Blocker> = told.iter().map(|(name, held)| below(name, *held)).collect();
        let shown = tree_of(&told);
        let sites: Vec<String> = shown.iter().map(|it| it.by.site.to_string()).collect();
        let depths = shown.iter().map(|it| it.depth);
        let shown: Vec<(usize, &str)> = depths.zip(sites.iter().map(String::as_str)).collect();
        assert_eq!(shown, expected);
    }
}

/// What a deployment says of one that waits in a circle holds that itself, and again what is said already.
#[test]
fn g11_what_holds_a_step_in_a_circle_is_told_once_and_without_itself() {
    let asked = ClearanceRequest {
        key: held_by("own").key(),
        deletion: None,
        incarnation: 1,
        root: "own/x".to_owned(),
    };
    let holder = Holder {
        key: held_by("a").key(),
        name: String::new(),
        project_id: String::new(),
        blocks: false,
        root: Some("own/x".to_owned()),
        waits: Waits::default(),
        why: String::new(),
        held_by: vec![
            below("b", None),
            below("own", Some("b")),
            below("a", Some("own")),
            below("b", Some("a")),
        ],
    };
    let awaited = PendingClearance {
        importer: "a".to_owned(),
        said: Some(Answered::of(asked, vec![holder], 1)),
    };
    let (_, blockers) = awaiting(&[awaited]);
    assert_eq!(blockers, [below("a", None), below("b", Some("a"))]);
}

#[test]
fn g07_of_many_deployments_some_are_named_and_the_others_counted() {
    let awaited: Vec<PendingClearance> = (0..250)
        .map(|n| PendingClearance {
            importer: format!("d{n}"),
            said: None,
        })
        .collect();
    let (message, blockers) = awaiting(&awaited);
    assert!(
        message.starts_with("clearances of deployments d0, d1, d2, "),
        "{message}"
    );
    assert!(
        message.ends_with(", d19 and 230 more are pending"),
        "{message}"
    );
    assert_eq!(blockers.len(), 100);
    let (message, _) = awaiting(&awaited[..2]);
    assert_eq!(message, "clearances of deployments d0, d1 are pending");
}
