//! The purge ladder: which rungs are offered for a step, how they describe what they do, and why others are not offered
//! (P3).

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::kinds::{Kinds, Source};
use gone::domain::ladder::{
    CurrentRow, DEPENDENCY_STUCK, Facts, Ladder, Rung, of_deletion, of_step, runbook,
};
use gone::domain::model::{
    Counts, Deletion, DeletionState, ErrorClass, KindName, Origin, Site, Step, StepError, StepState,
};
use serde_json::json;

use crate::testkit;

const LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

fn now() -> DateTime<Utc> {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn error(kind: &str, status: Option<u16>, message: &str) -> StepError {
    StepError {
        class: ErrorClass::Blocked,
        status,
        kind: kind.to_owned(),
        message: message.to_owned(),
        request_id: String::new(),
        at: now(),
    }
}

fn still_deleting() -> StepError {
    error(
        "PENDING_DELETE",
        None,
        "the load_balancer is still PENDING_DELETE",
    )
}

/// A step that has been blocked for this many minutes.
fn step(kind: &str, state: StepState, error: Option<StepError>, minutes: i64) -> Step {
    let key = testkit::key(Site::region("prod", "one"), kind, "4fdb");
    let mut step = testkit::step(12, "0189-0a1b2c3d", key, state);
    step.resource.name = "api".to_owned();
    Step {
        attempts: 3,
        next_attempt_at: (state == StepState::Blocked).then(now),
        blocked_since: Some(now() - TimeDelta::minutes(minutes)),
        last_error: error,
        project_id: "p1".to_owned(),
        ..step
    }
}

fn deletion(stuck: u64) -> Deletion {
    let by = testkit::actor("ada", Origin::Cli);
    Deletion {
        counts: Counts {
            stuck,
            total: stuck,
            ..Counts::default()
        },
        ..testkit::deletion("0189-0a1b2c3d", by, DeletionState::Stuck, now())
    }
}

fn facts<'f>(kinds: &'f Kinds, step: &'f Step) -> Facts<'f> {
    Facts {
        step,
        kind: kinds.get(&step.resource.key.kind),
        variables: BTreeMap::from([("cascade".to_owned(), "true".to_owned())]),
        pending_max: LIMIT,
        guarded: None,
        read_only: false,
        unpin_calls: Err("nothing pins it".to_owned()),
        shown: Err("its state is not known".to_owned()),
        waiting: 0,
    }
}

fn offered(ladder: &Ladder) -> Vec<Rung> {
    let offers = ladder.offers.iter();
    let offered = offers.filter(|offer| offer.why_not.is_none());
    offered.map(|offer| offer.rung).collect()
}

fn of(step: &Step, change: impl Fn(&mut Facts<'_>)) -> Ladder {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let mut facts = facts(&kinds, step);
    change(&mut facts);
    of_step(&deletion(1), &facts, now())
}

/// The kind, state and error of a step, the minutes for which it has been blocked, whether its blocker can be unpinned,
/// and the offered rungs.
type Row<'r> = (&'r str, StepState, Option<StepError>, i64, bool, &'r [Rung]);

#[test]
fn p03_the_offered_rungs_depend_on_the_steps_kind_state_error_and_age() {
    use Rung::{Forget, Retry, Runbook, Unpin};
    use StepState::{Blocked, Ready, Running, Stuck, Verifying, Waiting};
    let immutable = error(
        "",
        Some(409),
        "Load Balancer x is immutable and cannot be updated.",
    );
    let in_use = error("NetworkInUse", Some(409), "in use");
    let behind_stuck = error(
        DEPENDENCY_STUCK,
        None,
        "waits for step 7, port x, which is stuck",
    );
    let forbidden = error("", Some(403), "no");
    let hours = 4 * 60;
    let table: [Row<'_>; 15] = [
        ("port", Waiting, None, 0, false, &[]),
        ("port", Ready, None, 0, false, &[]),
        ("port", Running, None, 0, false, &[]),
        ("port", Verifying, None, 0, false, &[]),
        (
            "port",
            Blocked,
            Some(in_use.clone()),
            5,
            false,
            &[Retry, Forget],
        ),
        (
            "port",
            Blocked,
            Some(in_use.clone()),
            5,
            true,
            &[Retry, Unpin, Forget],
        ),
        (
            "port",
            Stuck,
            Some(in_use.clone()),
            5,
            true,
            &[Retry, Unpin, Forget],
        ),
        ("port", Stuck, Some(in_use), 5, false, &[Retry, Forget]),
        ("port", Stuck, Some(behind_stuck), 5, true, &[]),
        (
            "load_balancer",
            Verifying,
            Some(still_deleting()),
            12,
            true,
            &[],
        ),
        (
            "load_balancer",
            Blocked,
            Some(immutable.clone()),
            12,
            true,
            &[Retry],
        ),
        ("load_balancer", Stuck, Some(immutable), 12, true, &[Retry]),
        (
            "load_balancer",
            Stuck,
            Some(still_deleting()),
            hours,
            false,
            &[Retry, Runbook, Forget],
        ),
        (
            "load_balancer",
            Stuck,
            Some(forbidden),
            hours,
            false,
            &[Retry, Forget],
        ),
        (
            "listener",
            Stuck,
            Some(still_deleting()),
            hours,
            false,
            &[Retry, Forget],
        ),
    ];
    for (kind, state, error, minutes, can_unpin, expected) in table {
        let step = step(kind, state, error, minutes);
        let ladder = of(&step, |facts| {
            if can_unpin {
                facts.unpin_calls = Ok(vec![
                    "PUT /v2.0/routers/r/remove_router_interface".to_owned(),
                ]);
            }
        });
        assert_eq!(offered(&ladder), expected, "{kind} {state:?}: {ladder:#?}");
        for offer in &ladder.offers {
            // Each rung says what it does, or why it is not offered.
            assert_eq!(offer.why_not.is_none(), !offer.does.is_empty(), "{offer:?}");
        }
    }
}

#[test]
fn p03_no_rung_is_offered_before_the_clouds_time_is_up_and_the_reason_names_the_time() {
    let step = step(
        "load_balancer",
        StepState::Verifying,
        Some(still_deleting()),
        12,
    );
    let ladder = of(&step, |_| {});
    for rung in Rung::ALL {
        let why = ladder.offer(rung).unwrap().why_not.clone().unwrap();
        assert!(why.starts_with("not before 2026-01-02 05:52:05"), "{why}");
        assert!(why.contains("2 h 45 min"), "{why}");
    }
}

#[test]
fn p03_p05_no_rung_is_offered_at_a_read_only_site() {
    let step = step("port", StepState::Stuck, None, 5);
    let ladder = of(&step, |facts| {
        facts.read_only = true;
        facts.unpin_calls = Ok(vec!["PUT".to_owned()]);
    });
    assert_eq!(offered(&ladder), []);
}

#[test]
fn p03_p04_only_forget_is_offered_for_a_protected_resource() {
    let step = step(
        "load_balancer",
        StepState::Stuck,
        Some(still_deleting()),
        240,
    );
    let ladder = of(&step, |facts| {
        facts.guarded = Some("it is protected: tag keep".to_owned());
        facts.unpin_calls = Ok(vec!["PUT".to_owned()]);
    });
    assert_eq!(offered(&ladder), [Rung::Forget]);
    let why = ladder.offer(Rung::Retry).unwrap().why_not.clone();
    assert_eq!(why.as_deref(), Some("it is protected: tag keep"));
}

#[test]
fn p03_the_description_of_a_rung_names_the_call_and_the_resource() {
    let stuck = step(
        "load_balancer",
        StepState::Stuck,
        Some(still_deleting()),
        240,
    );
    let ladder = of(&stuck, |facts| facts.waiting = 3);
    let retry = ladder.offer(Rung::Retry).unwrap();
    assert_eq!(
        retry.does[0],
        "DELETE /v2.0/lbaas/loadbalancers/4fdb?cascade=true"
    );
    let forget = ladder.offer(Rung::Forget).unwrap();
    assert!(forget.does[1].contains("(3)"), "{forget:?}");
    assert!(
        forget
            .leaves
            .contains("load balancer api (4fdb) at prod/one"),
        "{forget:?}"
    );
    let mut edge = step("static_route", StepState::Stuck, None, 5);
    edge.resource.key.id = "r1,10.0.0.0/8,10.9.0.2".to_owned();
    let ladder = of(&edge, |_| {});
    let retry = ladder.offer(Rung::Retry).unwrap();
    assert_eq!(retry.does[0], "PUT /v2.0/routers/r1/remove_extraroutes");
}

#[test]
fn p03_a_runbook_is_not_offered_for_several_stuck_steps_at_once() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let one = step(
        "load_balancer",
        StepState::Stuck,
        Some(still_deleting()),
        240,
    );
    let mut two = one.clone();
    two.id = 13;
    let both = [facts(&kinds, &one), facts(&kinds, &two)];
    let ladder = of_deletion(&deletion(5), &both, now());
    assert_eq!(offered(&ladder), [Rung::Retry, Rung::Forget]);
    let why = ladder
        .offer(Rung::Runbook)
        .unwrap()
        .why_not
        .clone()
        .unwrap();
    assert!(why.contains("12, 13"), "{why}");
    let forget = ladder.offer(Rung::Forget).unwrap();
    assert!(forget.leaves.contains("all 5"), "{forget:?}");
    let ladder = of_deletion(&deletion(5), &both[..1], now());
    assert_eq!(offered(&ladder), [Rung::Retry, Rung::Runbook, Rung::Forget]);
    assert!(ladder.offer(Rung::Forget).unwrap().leaves.contains("all 5"));
    let nothing = of_deletion(&deletion(0), &[], now());
    assert_eq!(offered(&nothing), []);
}

#[test]
fn p03_a_runbook_names_one_id_and_is_refused_for_an_id_unsafe_in_a_shell_or_sql() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let kind = kinds.get(&KindName::new("load_balancer")).unwrap();
    let mut stuck = step(
        "load_balancer",
        StepState::Stuck,
        Some(still_deleting()),
        240,
    );
    let text = runbook(kind, &stuck).unwrap();
    assert!(
        text.contains("WHERE id = '4fdb'") && text.contains("gone retry 12"),
        "{text}"
    );
    assert!(text.contains("2 h 45 min") && !text.contains('{'), "{text}");
    for id in ["a' OR '1'='1", "a; rm -rf /", "$(x)", ""] {
        stuck.resource.key.id = id.to_owned();
        let ladder = of(&stuck, |_| {});
        let offer = ladder.offer(Rung::Runbook).unwrap();
        assert!(offer.why_not.is_some(), "{id}");
    }
}

#[test]
fn a_mistyped_rung_is_answered_with_the_nearest_name() {
    assert_eq!(Rung::parse("unpin"), Ok(Rung::Unpin));
    let error = Rung::parse("forgt").unwrap_err();
    assert!(error.contains("did you mean \"forget\"?"), "{error}");
    assert!(
        error.ends_with("retry, unpin, reset, force, runbook, forget"),
        "{error}"
    );
}

/// Returns the ladder of a step whose volume has this status, for a login with these roles.
fn offers_for(status: &str, roles: &[&str]) -> Ladder {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let failed = error(
        "error_deleting",
        None,
        "the volume has become error_deleting",
    );
    let step = step("volume", StepState::Blocked, Some(failed), 5);
    let facts = Facts {
        shown: Ok(CurrentRow {
            row: json!({ "id": "v1", "status": status }),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        }),
        ..facts(&kinds, &step)
    };
    of_step(&deletion(1), &facts, now())
}

#[test]
fn p03_reset_and_force_are_offered_only_in_their_state_and_role_and_name_their_risk() {
    let ladder = offers_for("error_deleting", &["admin"]);
    let native_calls = [Rung::Reset, Rung::Force];
    assert!(
        native_calls
            .iter()
            .all(|rung| offered(&ladder).contains(rung))
    );
    let reset = ladder.offer(Rung::Reset).unwrap();
    let id = "4fdb";
    assert_eq!(
        reset.does,
        [
            format!(
                "POST /v3/volumes/{id}/action {{\"os-reset_status\":{{\"status\":\"error\"}}}}"
            ),
            format!("then DELETE /v3/volumes/{id}"),
            "risk: the storage, or a server, may still work on the volume, which can lose or keep its data"
                .to_owned()
        ]
    );
    let force = ladder.offer(Rung::Force).unwrap();
    assert_eq!(
        force.does[0],
        format!("POST /v3/volumes/{id}/action {{\"os-force_delete\":{{}}}}")
    );
    assert!(force.does[1].contains("may be left on the storage"));

    for (status, roles, why) in [
        ("available", vec!["admin"], "status is available"),
        ("error_deleting", vec!["member"], "it needs the role admin"),
    ] {
        let ladder = offers_for(status, &roles);
        for rung in native_calls {
            let why_not = ladder.offer(rung).unwrap().why_not.clone().unwrap();
            assert!(why_not.contains(why), "{why_not}");
        }
    }
}

#[test]
fn a_runbook_with_an_unknown_variable_is_an_error() {
    const BALANCERS: &str = include_str!("../../assets/kinds/openstack/load-balancer.toml");
    const NETWORK: &str = include_str!("../../assets/kinds/openstack/network.toml");
    const SECRETS: &str = include_str!("../../assets/kinds/openstack/key-manager.toml");
    const IDENTITY: &str = include_str!("../../assets/kinds/openstack/identity.toml");
    const SHARES: &str = include_str!("../../assets/kinds/openstack/shared-file-system.toml");
    let error_of = |from: &str, to: &str| {
        let changed = BALANCERS.replacen(from, to, 1);
        let files = [
            ("network.toml", NETWORK),
            ("key-manager.toml", SECRETS),
            ("identity.toml", IDENTITY),
            ("shared-file-system.toml", SHARES),
            ("mine.toml", &changed),
        ];
        let sources = files.map(|(file, text)| Source {
            file: file.into(),
            text: text.to_owned(),
        });
        gone::cloud::read_kinds(sources).unwrap_err().to_string()
    };
    let message = error_of("Load balancer {id}\n", "Load balancer {idd}\n");
    let line = BALANCERS
        .lines()
        .position(|line| line == "[kind.load_balancer]");
    assert!(
        message.starts_with(&format!("mine.toml:{}: ", line.unwrap() + 1)),
        "{message}"
    );
    assert!(
        message.ends_with("no variable \"{idd}\"; did you mean \"id\"?"),
        "{message}"
    );
    let message = error_of("says = [\"PENDING_\", \"is immutable\"]", "says = []");
    assert!(message.contains("runbook.says"), "{message}");
}
