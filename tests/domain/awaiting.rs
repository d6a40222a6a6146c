//! The advice to a person about a step with pending clearances of other deployments.

use chrono::DateTime;
use gone::domain::awaiting::{next_action, tree_of};
use gone::domain::model::{Blocker, ErrorClass, KindName, Site, Step, StepState};
use gone::domain::peers::{
    AWAITED, ClearanceAnswer, ClearanceRequest, NamedReferrer, PendingClearance, Waits, awaiting,
};

use crate::testkit;

fn at(name: &str) -> Site {
    Site::Deployment { name: name.into() }
}

/// A blocker at the deployment of this name.
fn blocker_at(name: &str) -> Blocker {
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

/// The blocker for the pending clearance of this deployment.
fn silent(name: &str) -> Blocker {
    let pending = PendingClearance {
        importer: name.to_owned(),
        said: None,
    };
    awaiting(&[pending]).1.remove(0)
}

/// A step of deployment d1-1.
fn step(state: StepState, error: &str, blockers: Vec<Blocker>) -> Step {
    let error = testkit::error(ErrorClass::Blocked, error, "", DateTime::UNIX_EPOCH);
    Step {
        blockers,
        last_error: Some(error),
        ..testkit::step(1, "x", testkit::key(at("d1-1"), "rx", "x"), state)
    }
}

#[test]
fn g11_a_step_with_pending_clearances_says_how_to_get_them() {
    let table = [
        (
            vec![blocker_at("d0-1"), blocker_at("d0-1")],
            "remove the blockers that d0-1 names, or, if that deployment is gone for good: \
             gone release d0-1",
        ),
        (
            vec![silent("d0-1")],
            "find out why the clearance of deployment d0-1 is pending, or, if that deployment is \
             gone for good: gone release d0-1",
        ),
        (
            vec![silent("d0-2"), blocker_at("d0-1"), blocker_at("d0-3")],
            "remove the blockers that d0-1 and d0-3 name, and find out why the clearance of \
             deployment d0-2 is pending, or, for one that is gone for good: gone release NAME",
        ),
        // A deployment is never advised to release itself.
        (
            vec![blocker_at("d1-1")],
            "remove the blockers that d1-1 names",
        ),
        (
            vec![blocker_at("a\u{1b}[2J")],
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
fn g11_steps_without_known_pending_clearances_get_no_advice() {
    let blockers = || vec![blocker_at("d0-1")];
    for step in [
        step(StepState::Gone, AWAITED, blockers()),
        step(StepState::Ready, AWAITED, blockers()),
        step(StepState::Blocked, "NetworkInUse", blockers()),
        // The pending clearances could not be read.
        step(StepState::Blocked, AWAITED, Vec::new()),
    ] {
        assert_eq!(next_action(&step), None, "{step:?}");
    }
}

/// A blocker at the deployment `name`. It blocks the resource of the deployment `blocked`, or else the step itself.
fn below(name: &str, blocked: Option<&str>) -> Blocker {
    let key = |name: &str| blocker_at(name).key();
    Blocker {
        holds: blocked.map(|blocked| key(blocked).into()),
        ..blocker_at(name)
    }
}

#[test]
fn g11_each_blocker_is_shown_once_below_the_resource_that_it_blocks() {
    type Blockers<'a> = &'a [(&'a str, Option<&'a str>)];
    type Shown<'a> = &'a [(usize, &'a str)];
    let table: [(Blockers<'_>, Shown<'_>); 5] = [
        (&[], &[]),
        (
            &[("a", None), ("b", None), ("c", Some("a")), ("d", Some("c"))],
            &[(0, "a"), (1, "c"), (2, "d"), (0, "b")],
        ),
        // The order of the blockers does not matter.
        (&[("c", Some("a")), ("a", None)], &[(0, "a"), (1, "c")]),
        // The first blocker blocks a resource that is not listed.
        (&[("c", Some("x")), ("a", None)], &[(0, "c"), (0, "a")]),
        // The blockers block each other in a cycle.
        (&[("a", Some("b")), ("b", Some("a"))], &[(0, "b"), (1, "a")]),
    ];
    for (blockers, expected) in table {
        let blockers = blockers.iter();
        let blockers: Vec<Blocker> = blockers.map(|(name, it)| below(name, *it)).collect();
        let shown = tree_of(&blockers);
        let sites: Vec<String> = shown.iter().map(|it| it.by.site.to_string()).collect();
        let depths = shown.iter().map(|it| it.depth);
        let shown: Vec<(usize, &str)> = depths.zip(sites.iter().map(String::as_str)).collect();
        assert_eq!(shown, expected);
    }
}

/// If an importer's resource waits in a cycle, the importer's blockers include the resource that the request is about,
/// and the importer's resource itself.
#[test]
fn g11_blockers_in_a_cycle_are_listed_once_and_without_the_resource_itself() {
    let request = ClearanceRequest {
        key: blocker_at("own").key(),
        deletion: None,
        incarnation: 1,
        root: "own/x".to_owned(),
    };
    let referrer = NamedReferrer {
        key: blocker_at("a").key(),
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
    let pending = PendingClearance {
        importer: "a".to_owned(),
        said: Some(ClearanceAnswer::of(request, vec![referrer], 1)),
    };
    let (_, blockers) = awaiting(&[pending]);
    assert_eq!(blockers, [below("a", None), below("b", Some("a"))]);
}

#[test]
fn g07_pending_clearances_name_twenty_deployments_and_count_the_others() {
    let pending: Vec<PendingClearance> = (0..250)
        .map(|n| PendingClearance {
            importer: format!("d{n}"),
            said: None,
        })
        .collect();
    let (message, blockers) = awaiting(&pending);
    assert!(
        message.starts_with("clearances of deployments d0, d1, d2, "),
        "{message}"
    );
    assert!(
        message.ends_with(", d19 and 230 more are pending"),
        "{message}"
    );
    assert_eq!(blockers.len(), 100);
    let (message, _) = awaiting(&pending[..2]);
    assert_eq!(message, "clearances of deployments d0, d1 are pending");
}
