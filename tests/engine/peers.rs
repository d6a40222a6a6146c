//! Deletions across deployments: resources of other deployments that refer to the target are deleted or changed first,
//! and blockers are named (G).

use std::time::Duration;

use gone::control::{Command, query};
use gone::domain::awaiting::{NestedBlocker, tree_of};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{
    Deletion, DeletionState, KindName, RefusalRule, Step, StepState, short_id,
};
use gone::system::config::ProtectRule;
use serde_json::json;

use super::harness::assert_contains;
use super::mesh::Deployments;

/// The example of Goten's design: D0-1 imports S1 and S2, which have two deployments each.
const SERVICES: [(&str, &str); 3] = [
    (
        "s0",
        r#"
imports = ["s1", "s2"]
[kind.a.native.fields]
rx = {}
ry = {}
[[kind.a.reference]]
to = "rx"
field = "rx"
on_delete = "cascade"
says = "of"
[[kind.a.reference]]
to = "ry"
field = "ry"
on_delete = "block"
says = "needs"
[kind.b.native.fields]
rxs = {}
[[kind.b.reference]]
to = "rx"
field = "rxs[]"
on_delete = "unset"
says = "counts"
[kind.c.native.fields]
rx = {}
[[kind.c.reference]]
to = "rx"
field = "rx"
on_delete = "cascade"
says = "of"
[kind.d.native.fields]
c = {}
[[kind.d.reference]]
to = "c"
field = "c"
on_delete = "block"
says = "holds"
"#,
    ),
    ("s1", "[kind.rx.native]\n"),
    ("s2", "[kind.ry.native]\n"),
];

const DEPLOYMENTS: [(&str, &str, &str); 5] = [
    ("d0-1", "s0", "r1"),
    ("d1-1", "s1", "r1"),
    ("d1-2", "s1", "r2"),
    ("d2-1", "s2", "r1"),
    ("d2-2", "s2", "r2"),
];

/// Returns whether the last error of a step contains this text.
pub fn error_contains(step: &Step, what: &str) -> bool {
    let error = step.last_error.as_ref();
    error.is_some_and(|error| error.message.contains(what))
}

pub fn start_example(seed: u64) -> Deployments {
    let mut deployments = Deployments::new(seed, &SERVICES, &DEPLOYMENTS);
    deployments.start_all();
    deployments
}

/// Starts the example with the resource `rx/x` at d1-1, to which the resource `a/a1` at d0-1 refers.
pub async fn start_with_referrer(seed: u64) -> Deployments {
    let all = start_example(seed);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    let referrer = json!({"id": "a1", "rx": "x@d1-1"});
    all.create("d0-1", "a", referrer).await;
    all
}

/// Starts the example with a deletion of `rx/x` at d1-1. The deletion waits for `c/c1` at d0-1, which `d/d1` blocks.
/// Returns the id of the deletion too.
pub async fn start_blocked_deletion(seed: u64) -> (Deployments, String) {
    let all = start_example(seed);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    let c1 = json!({"id": "c1", "rx": "x@d1-1"});
    all.create("d0-1", "c", c1).await;
    let d1 = json!({"id": "d1", "c": "c1"});
    all.create("d0-1", "d", d1).await;
    let id = all.delete("d1-1", "rx", "x").await;
    let waits = |step: &Step| error_contains(step, "c c1");
    all.at("d1-1").until_any_step(&id, waits).await;
    (all, id)
}

#[tokio::test(start_paused = true)]
async fn g06_references_from_another_deployment_are_deleted_or_unset() {
    let all = start_example(1);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    all.create("d1-2", "rx", json!({"id": "x"})).await;
    all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
    all.create("d0-1", "a", json!({"id": "a2", "rx": "x@d1-2"}))
        .await;
    let both = json!({"id": "b1", "rxs": ["x@d1-1", "x@d1-2"]});
    all.create("d0-1", "b", both).await;
    let id = all.delete("d1-1", "rx", "x").await;
    let done = all.at("d1-1").until_terminal(&id).await;
    let statuses = (all.statuses("d1-1").await, all.statuses("d0-1").await);
    assert_eq!(done.state, DeletionState::Gone, "{done:?} {statuses:#?}");
    assert!(!all.exists("d1-1", "rx", "x").await);
    assert!(!all.exists("d0-1", "a", "a1").await);
    let b1 = all.native_rows("d0-1", "b").await.remove(0);
    assert_eq!(b1["rxs"], json!(["x@d1-2"]));
    // The resource of d1-2 stays, although it has the same id, and so does the resource that refers to it.
    assert!(all.exists("d0-1", "a", "a2").await);
    assert!(all.exists("d1-2", "rx", "x").await);
}

/// A person sees before the approval which resources of other deployments the deletion affects.
#[tokio::test(start_paused = true)]
async fn g03_a_plan_warns_of_references_from_other_deployments() {
    let all = start_example(21);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    let plan = all.at("d1-1").plan("rx", "x").await;
    assert_eq!(plan.warnings, Vec::<String>::new());
    for n in 1..=6 {
        let body = json!({"id": format!("a{n}"), "rx": "x@d1-1"});
        all.create("d0-1", "a", body).await;
    }
    let plan = all.at("d1-1").plan("rx", "x").await;
    assert_eq!(
        plan.warnings,
        [
            "resources of deployment d0-1 refer to resources of this plan: a a1, a a2, a a3, a a4, a a5, 1 more; \
             deployment d0-1 first deletes its resources, or clears the references"
        ]
    );
    assert!(plan.refused.is_empty());
}

/// Two deployments of each of two services make four watches. A watched deployment does not know the kinds of the
/// importer.
#[tokio::test(start_paused = true)]
async fn g04_g08_every_imported_deployment_is_watched_and_knows_no_kind_of_the_importer() {
    let all = start_with_referrer(16).await;
    let watches = all.statuses("d0-1").await.into_iter();
    let watched: Vec<String> = watches
        .filter(|it| it.watch.as_ref().is_some_and(|watch| watch.fresh))
        .filter_map(|it| it.name)
        .collect();
    assert_eq!(watched, ["d1-1", "d1-2", "d2-1", "d2-2"]);
    let importer = all.statuses("d1-1").await.remove(0);
    let kinds = importer.importer.unwrap().kinds;
    assert_eq!(kinds, [KindName::new("rx")]);
    let control = all.at("d1-1").control;
    let rows = control.ask(query::Kinds {}).await.unwrap();
    let known: Vec<&str> = rows.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(known, ["rx"]);
    all.at("d1-1").delete_until_gone("rx", "x").await;
    assert!(!all.exists("d0-1", "a", "a1").await);
}

#[tokio::test(start_paused = true)]
async fn g02_a_blocker_in_another_deployment_and_a_silent_importer_refuse_the_deletion() {
    let mut all = start_example(2);
    all.create("d2-1", "ry", json!({"id": "y"})).await;
    all.create("d0-1", "a", json!({"id": "a1", "ry": "y@d2-1"}))
        .await;
    let id = all.delete("d2-1", "ry", "y").await;
    let refused = all.at("d2-1").until_refused(&id).await.refused;
    let blocker = refused[0].blocker.as_ref().unwrap();
    assert_eq!(refused[0].rule, RefusalRule::InUse);
    assert_eq!(
        (blocker.id.as_str(), blocker.site.to_string()),
        ("a1", "d0-1".into())
    );
    assert!(all.exists("d2-1", "ry", "y").await);

    all.kill("d0-1").await;
    let id = all.delete("d2-1", "ry", "y").await;
    let refused = all.at("d2-1").until_refused(&id).await.refused;
    assert_eq!(refused[0].rule, RefusalRule::Unreadable);
    assert_contains(&refused[0].reason, "deployment d0-1");
    assert!(all.exists("d2-1", "ry", "y").await);
}

#[tokio::test(start_paused = true)]
async fn g07_a_silent_importer_is_named_as_the_blocker_until_it_gives_its_clearance() {
    let mut all = start_with_referrer(3).await;
    // The importer answers until the deletion is running, and is silent from then on.
    let id = all.delete("d1-1", "rx", "x").await;
    all.at("d1-1")
        .until_state(&id, DeletionState::Running)
        .await;
    all.kill("d0-1").await;
    let step = all
        .at("d1-1")
        .until_any_step(&id, |step| step.state == StepState::Blocked)
        .await;
    assert_eq!(step.attempts, 0);
    assert_eq!(step.blockers[0].site.to_string(), "d0-1");
    let stuck = all.at("d1-1").until_terminal(&id).await;
    assert_eq!(stuck.state, DeletionState::Stuck);
    assert_contains(&stuck.note, "d0-1");
    assert!(all.exists("d1-1", "rx", "x").await);
    // The importer starts again, and the deletion continues without a person.
    all.start("d0-1");
    all.at("d1-1").until_state(&id, DeletionState::Gone).await;
    assert!(!all.exists("d0-1", "a", "a1").await);
}

#[tokio::test(start_paused = true)]
async fn g11_a_blocker_in_another_deployment_is_named_with_the_dependent_that_it_blocks() {
    let all = start_example(4);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    all.create("d0-1", "c", json!({"id": "c1", "rx": "x@d1-1"}))
        .await;
    all.create("d0-1", "d", json!({"id": "d1", "c": "c1"}))
        .await;
    let id = all.delete("d1-1", "rx", "x").await;
    let blocked = all
        .at("d1-1")
        .until_any_step(&id, |step| error_contains(step, "d1 at d0-1"))
        .await;
    let said = blocked.last_error.unwrap().message;
    assert_contains(&said, "c c1");
    let named: Vec<&str> = blocked.blockers.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(named, ["d1", "c1"]);
    assert!(!blocked.blockers[0].in_plan);
    assert_contains(&said, "which this deletion will not remove");
    let why = all.at("d1-1").explain("rx", "x").await;
    let clear = "remove the blockers that d0-1 names, or, if that deployment is gone for \
                 good: gone release d0-1";
    assert_eq!(why.next_action, clear, "{why:#?}");
}

/// `c/c1` has the status `DELETING` while `d/d1` blocks it. Then `d/d1` is deleted.
#[tokio::test(start_paused = true)]
async fn g06_a_resource_that_is_being_deleted_is_gone_once_its_blocker_is_gone() {
    let (all, id) = start_blocked_deletion(12).await;
    let c1 = all.native_rows("d0-1", "c").await.remove(0);
    assert_eq!(c1["status"], "DELETING");
    all.at("d0-1").delete_until_gone("d", "d1").await;
    all.at("d1-1").until_state(&id, DeletionState::Gone).await;
    assert!(!all.exists("d0-1", "c", "c1").await);
}

/// A resource that its own deployment protects is not deleted because of another deployment, and the error says so.
#[tokio::test(start_paused = true)]
async fn g11_a_resource_that_its_own_deployment_protects_stays_and_the_owner_learns_why() {
    let mut all = start_example(19);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    let a1 = json!({"id": "a1", "rx": "x@d1-1", "tags": ["keep"]});
    all.create("d0-1", "a", a1).await;
    all.kill("d0-1").await;
    all.settings.guard.protect = vec![ProtectRule {
        tag: Some("keep".into()),
        ..ProtectRule::default()
    }];
    all.start("d0-1");
    all.create("d0-1", "b", json!({"id": "b1"})).await;
    let id = all.delete("d1-1", "rx", "x").await;
    let step = all
        .at("d1-1")
        .until_any_step(&id, |step| error_contains(step, "is protected: tag keep"))
        .await;
    let said = step.last_error.unwrap().message;
    assert_contains(&said, "a a1, which is not handled: deletion");
    assert!(all.exists("d0-1", "a", "a1").await);
    assert!(all.exists("d1-1", "rx", "x").await);
}

#[tokio::test(start_paused = true)]
async fn t17_g10_a_resource_being_deleted_elsewhere_gets_no_new_references() {
    let (all, _) = start_blocked_deletion(13).await;
    let more = all
        .try_create("d0-1", "c", json!({"id": "c2", "rx": "x@d1-1"}))
        .await;
    let said = more.unwrap_err().to_string();
    assert_contains(&said, "is being deleted by deletion");
    assert_contains(&said, "of deployment d1-1");
}

#[tokio::test(start_paused = true)]
async fn t20_a_resource_gone_elsewhere_gets_no_new_references_until_it_is_re_created() {
    let mut all = start_example(19);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    all.create("d0-1", "a", json!({"id": "a0", "rx": "x@d1-1"}))
        .await;
    all.at("d1-1").delete_until_gone("rx", "x").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = all
        .try_create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
    let said = late.unwrap_err().to_string();
    assert_contains(&said, "was deleted by deletion");
    assert_contains(&said, "of deployment d1-1");

    // An importer that was restarted gets the notice of this deletion, too.
    all.kill("d0-1").await;
    all.start("d0-1");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let late = all
        .try_create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
    let said = late.unwrap_err().to_string();
    assert_contains(&said, "was deleted by deletion");

    all.create("d1-1", "rx", json!({"id": "x"})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn g10_a_resource_whose_deletion_was_cancelled_may_be_referred_to_again() {
    let (all, id) = start_blocked_deletion(17).await;
    let deletion_id = id.clone();
    let cancel = Command::Cancel { deletion_id };
    all.at("d1-1").submit(cancel).await.unwrap();
    // The engine observes the resource first. Then the resource is `ACTIVE` as before, and d0-1 is notified.
    let cancelled = |it: &Deletion| it.finished_at.is_some();
    let deletion = all.at("d1-1").until(&id, cancelled).await;
    assert_eq!(deletion.state, DeletionState::Cancelled);
    assert_eq!(all.native_rows("d1-1", "rx").await[0]["status"], "ACTIVE");
    tokio::time::sleep(Duration::from_secs(1)).await;
    all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
    // The deletion that the cancelled one has caused at d0-1 continues.
    assert_eq!(all.native_rows("d0-1", "c").await[0]["status"], "DELETING");
}

/// An admin abandons the deletion while no importer answers. Nothing is sent, so the resource stays, and others may
/// refer to it again.
#[tokio::test(start_paused = true)]
async fn t10_a_resource_that_is_purged_while_an_importer_is_silent_is_not_deleted() {
    let mut all = start_example(22);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    let id = all.delete("d1-1", "rx", "x").await;
    all.at("d1-1")
        .until_state(&id, DeletionState::Running)
        .await;
    all.kill("d0-1").await;
    let stuck = all.at("d1-1").until_terminal(&id).await;
    assert_eq!(stuck.state, DeletionState::Stuck);
    let purge = Command::Purge {
        what: PurgeScope::Deletion(id.clone()),
        rung: Rung::Forget,
        confirm: short_id(&id).to_owned(),
    };
    all.at("d1-1").submit(purge).await.unwrap();
    all.at("d1-1").until_state(&id, DeletionState::Purged).await;
    assert_eq!(all.native_rows("d1-1", "rx").await[0]["status"], "ACTIVE");
    all.start("d0-1");
    tokio::time::sleep(Duration::from_secs(5)).await;
    all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
    // The resource may be deleted again, once the importer gives its clearance.
    all.at("d1-1").delete_until_gone("rx", "x").await;
    assert!(!all.exists("d0-1", "a", "a1").await);
}

/// The delete is repeated after a restart of each deployment. There is one deletion, and `deleted_at` stays the same.
#[tokio::test(start_paused = true)]
async fn t06_t15_g07_a_repeated_delete_joins_the_first_after_restarts_of_both_deployments() {
    let (mut all, id) = start_blocked_deletion(18).await;
    let since = all.at("d1-1").tombstone("x").await.unwrap().deleted_at;
    for name in ["d0-1", "d1-1"] {
        all.kill(name).await;
        all.start(name);
        assert_eq!(all.delete("d1-1", "rx", "x").await, id);
    }
    assert_eq!(
        all.at("d1-1").tombstone("x").await.unwrap().deleted_at,
        since
    );
    let chained = all.at("d0-1").caused_by(&format!("d1-1/{id}")).await;
    assert_eq!(chained.len(), 1);
    all.at("d0-1").delete_until_gone("d", "d1").await;
    all.at("d1-1").until_state(&id, DeletionState::Gone).await;
}

#[tokio::test(start_paused = true)]
async fn g05_the_poll_finds_cleared_references_when_hints_are_lost() {
    let all = start_with_referrer(14).await;
    all.mesh.lose_hints();
    let began = tokio::time::Instant::now();
    all.at("d1-1").delete_until_gone("rx", "x").await;
    let polls = began.elapsed().as_secs() / 30;
    assert!((1..=2).contains(&polls), "{:?}", began.elapsed());
}

/// A resource that refers to two others, which two deletions delete at once.
#[tokio::test(start_paused = true)]
async fn g06_a_resource_that_loses_two_references_at_once_loses_both() {
    let all = start_example(15);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    all.create("d1-2", "rx", json!({"id": "x"})).await;
    let both = json!({"id": "b1", "rxs": ["x@d1-1", "x@d1-2"]});
    all.create("d0-1", "b", both).await;
    let first = all.delete("d1-1", "rx", "x").await;
    let second = all.delete("d1-2", "rx", "x").await;
    all.at("d1-1").until_gone(&first).await;
    all.at("d1-2").until_gone(&second).await;
    assert_eq!(all.native_rows("d0-1", "b").await[0]["rxs"], json!([]));
}

/// Within one registry: asynchronous references are no part of the plan, and a second deletion handles them.
#[tokio::test(start_paused = true)]
async fn g03_an_asynchronous_reference_refuses_nothing_and_is_handled_by_its_own_deletion() {
    const KINDS: &str = r#"
[kind.project.native]
[kind.invoice.native.fields]
project = {}
[[kind.invoice.reference]]
to = "project"
field = "project"
on_delete = "cascade"
asynchronous = true
says = "of"
[kind.report.native.fields]
projects = {}
[[kind.report.reference]]
to = "project"
field = "projects[]"
on_delete = "unset"
asynchronous = true
says = "sums up"
"#;
    let mut all = Deployments::new(5, &[("s0", KINDS)], &[("d0", "s0", "r1")]);
    all.start_all();
    all.create("d0", "project", json!({"id": "p"})).await;
    all.create("d0", "invoice", json!({"id": "i", "project": "p"}))
        .await;
    all.create("d0", "report", json!({"id": "r", "projects": ["p"]}))
        .await;
    let plan = all.at("d0").plan("project", "p").await;
    assert_eq!((plan.steps.len(), plan.refused.len()), (1, 0));
    let id = all.at("d0").delete_until_gone("project", "p").await.id;
    assert!(all.native_rows("d0", "invoice").await.is_empty());
    assert_eq!(
        all.native_rows("d0", "report").await[0]["projects"],
        json!([])
    );
    let chained = all.at("d0").caused_by(&format!("d0/{id}")).await;
    assert_eq!(chained.len(), 1);
    assert_eq!(chained[0].requested_by.name, "deployment d0");
}

/// Starts five deployments with a chain of six resources that ends where it begins: the kind k(n) of the service s(n)
/// belongs to k(n-1), and k5 is a kind of the same service as k0.
async fn start_chain(seed: u64) -> Deployments {
    let service = |nth: usize| {
        let mut text = match nth {
            0 => "imports = [\"s4\"]\n[kind.k0.native]\n".to_owned(),
            _ => format!("imports = [\"s{}\"]\n", nth - 1),
        };
        let kind = if nth == 0 { 5 } else { nth };
        let to = kind - 1;
        text += &format!(
            "[kind.k{kind}.native.fields]\nof = {{}}\n[[kind.k{kind}.reference]]\n\
             to = \"k{to}\"\nfield = \"of\"\non_delete = \"cascade\"\nsays = \"of\"\n"
        );
        text
    };
    let texts: Vec<(String, String)> = (0..5).map(|n| (format!("s{n}"), service(n))).collect();
    let services: Vec<(&str, &str)> = texts
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let names: Vec<String> = (0..5).map(|n| format!("d{n}")).collect();
    let deployments: Vec<(&str, &str, &str)> = (0..5)
        .map(|n| (names[n].as_str(), services[n].0, "r1"))
        .collect();
    let mut all = Deployments::new(seed, &services, &deployments);
    all.start_all();
    all.create("d0", "k0", json!({"id": "x"})).await;
    for level in 1..6 {
        let (at, before) = (format!("d{}", level % 5), format!("d{}", level - 1));
        let body = json!({"id": "x", "of": format!("x@{before}")});
        all.create(&at, &format!("k{level}"), body).await;
    }
    all
}

#[tokio::test(start_paused = true)]
async fn g09_a_chain_of_six_levels_over_five_deployments_is_deleted() {
    let all = start_chain(6).await;
    let began = tokio::time::Instant::now();
    let id = all.at("d0").delete_until_gone("k0", "x").await.id;
    // Each level notifies the one above it, which does not have to wait for its poll.
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "{:?}",
        began.elapsed()
    );
    for level in 1..6 {
        let at = format!("d{}", level % 5);
        assert!(
            all.native_rows(&at, &format!("k{level}")).await.is_empty(),
            "k{level}"
        );
    }
    // The deletion at d3 names the deletion at d0 as its cause.
    let chained = all.at("d3").caused_by(&format!("d0/{id}")).await;
    assert_eq!(chained.len(), 1);
}

/// A blocker is shown with its own blockers in other deployments, and each of them with its site.
#[tokio::test(start_paused = true)]
async fn g11_blockers_are_shown_as_a_tree_over_all_deployments() {
    let mut all = start_chain(20).await;
    all.kill("d4").await;
    let id = all.delete("d0", "k0", "x").await;
    let silent = |step: &Step| step.blockers.iter().any(|by| by.id == "d4");
    let blocked = all.at("d0").until_any_step(&id, silent).await;
    let shown = tree_of(&blocked.blockers).into_iter();
    let shown: Vec<(usize, String)> = shown
        .map(|NestedBlocker { depth, by }| (depth, format!("{} {} at {}", by.kind, by.id, by.site)))
        .collect();
    let expected = [
        "k1 x at d1",
        "k2 x at d2",
        "k3 x at d3",
        "deployment d4 at d4",
    ];
    let expected = expected.map(str::to_owned).into_iter().enumerate();
    assert_eq!(shown, expected.collect::<Vec<_>>());
    let said = blocked.last_error.unwrap().message;
    assert_eq!(
        said,
        "deployment d1 still has k1 x, which is waiting: clearance of deployment d4 is pending"
    );
    all.start("d4");
    all.at("d0").until_state(&id, DeletionState::Gone).await;
}

const CYCLE: [(&str, &str); 2] = [
    (
        "s0",
        r#"
imports = ["s1"]
[kind.a.native.fields]
to = {}
[[kind.a.reference]]
to = "b"
field = "to"
on_delete = "cascade"
says = "with"
[kind.n.native.fields]
a = {}
[[kind.n.reference]]
to = "a"
field = "a"
on_delete = "block"
says = "needs"
"#,
    ),
    (
        "s1",
        r#"
imports = ["s0"]
[kind.b.native.fields]
to = {}
[[kind.b.reference]]
to = "a"
field = "to"
on_delete = "cascade"
says = "with"
"#,
    ),
];

/// Starts two deployments whose resources a and b refer to each other.
async fn start_cycle(seed: u64) -> Deployments {
    let mut all = Deployments::new(seed, &CYCLE, &[("d0", "s0", "r1"), ("d1", "s1", "r1")]);
    all.start_all();
    let (a, b) = (
        json!({"id": "a", "to": "b@d1"}),
        json!({"id": "b", "to": "a@d0"}),
    );
    all.create("d0", "a", a).await;
    all.create("d1", "b", b).await;
    all
}

#[tokio::test(start_paused = true)]
async fn g13_a_cycle_over_deployments_is_deleted_with_a_bounded_number_of_questions() {
    let all = start_cycle(7).await;
    let before = *all.mesh.questions.lock().unwrap();
    let id = all.at("d0").delete_until_gone("a", "a").await.id;
    let chained = all.at("d1").caused_by(&format!("d0/{id}")).await;
    all.at("d1").until_gone(&chained[0].id).await;
    assert!(!all.exists("d1", "b", "b").await);
    let questions = *all.mesh.questions.lock().unwrap() - before;
    assert!(questions <= 20, "{questions} questions");
}

#[tokio::test(start_paused = true)]
async fn g13_a_cycle_waits_for_a_blocker_outside_of_it() {
    let all = start_cycle(8).await;
    all.create("d0", "n", json!({"id": "n", "a": "a"})).await;
    // `b` is the target. `a` would be deleted with it, and is blocked by `n`, which stays.
    let id = all.delete("d1", "b", "b").await;
    let step = all
        .at("d1")
        .until_any_step(&id, |step| error_contains(step, "n n"))
        .await;
    let said = step.last_error.unwrap().message;
    assert_contains(&said, "will not remove");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(all.exists("d0", "a", "a").await && all.exists("d1", "b", "b").await);
}

#[tokio::test(start_paused = true)]
async fn g10_an_importer_whose_watch_is_too_old_refuses_new_references() {
    let all = start_with_referrer(9).await;
    all.cut("d0-1", "d1-1");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let refused = all
        .try_create("d0-1", "a", json!({"id": "a2", "rx": "x@d1-1"}))
        .await;
    let said = refused.unwrap_err().to_string();
    assert_contains(&said, "deployment d1-1 has been silent for too long");
    // The watch on d1-2 is fresh.
    all.create("d0-1", "a", json!({"id": "a3", "rx": "x@d1-2"}))
        .await;
    all.repair_cuts();
    tokio::time::sleep(Duration::from_secs(60)).await;
    all.create("d0-1", "a", json!({"id": "a2", "rx": "x@d1-1"}))
        .await;
    let nowhere = all
        .try_create("d0-1", "a", json!({"id": "a4", "rx": "x@d9"}))
        .await;
    let said = nowhere.unwrap_err().to_string();
    assert_contains(
        &said,
        "deployment d9 is unknown, or has not sent notices yet",
    );
}

#[tokio::test(start_paused = true)]
async fn g12_an_importer_is_waited_for_after_a_restart_until_an_admin_releases_it() {
    let mut all = start_with_referrer(10).await;
    let id = all.delete("d1-1", "rx", "x").await;
    all.at("d1-1")
        .until_state(&id, DeletionState::Running)
        .await;
    all.kill("d0-1").await;
    all.kill("d1-1").await;
    all.start("d1-1");
    all.at("d1-1").until_state(&id, DeletionState::Stuck).await;
    assert!(all.exists("d1-1", "rx", "x").await);
    // New deletions at d1-1 are refused.
    all.create("d1-1", "rx", json!({"id": "y"})).await;
    let other = all.delete("d1-1", "rx", "y").await;
    let refused = all.at("d1-1").until_refused(&other).await.refused;
    assert_contains(&refused[0].reason, "deployment d0-1");
    let release = |name: &str| Command::ReleaseImporter { name: name.into() };
    let unknown = all.at("d1-1").submit(release("d0-2")).await;
    assert!(
        unknown
            .unwrap_err()
            .to_string()
            .contains("no importer d0-2")
    );
    all.at("d1-1").submit(release("d0-1")).await.unwrap();
    all.at("d1-1").until_state(&id, DeletionState::Gone).await;
    let control = all.at("d1-1").control;
    let rows = control.ask(query::Audit { after: 0 }).await.unwrap();
    let last = rows.last().unwrap();
    assert_eq!(
        (&last["action"], &last["target"]),
        (&json!("release"), &json!("deployment d0-1"))
    );
}
