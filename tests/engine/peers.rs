//! Deletions across deployments: nothing goes while anyone points at it, and all that may go goes (G).

use std::time::Duration;

use gone::domain::model::{DeletionState, RefusalRule, StepState};
use serde_json::json;

use super::harness::paused;
use super::mesh::Deployments;

/// The source design's own example: D0-1 imports S1 and S2, of which there are two deployments each.
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

const PLACES: [(&str, &str, &str); 5] = [
    ("d0-1", "s0", "r1"),
    ("d1-1", "s1", "r1"),
    ("d1-2", "s1", "r2"),
    ("d2-1", "s2", "r1"),
    ("d2-2", "s2", "r2"),
];

fn example(seed: u64) -> Deployments {
    let mut deployments = Deployments::new(seed, &SERVICES, &PLACES);
    deployments.start_all();
    deployments
}

#[test]
fn g04_g06_g07_what_points_at_it_elsewhere_is_deleted_or_unset_and_it_goes_last() {
    paused(async {
        let all = example(1);
        all.create("d1-1", "rx", json!({"id": "x"})).await;
        all.create("d1-2", "rx", json!({"id": "x"})).await;
        all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
            .await;
        all.create("d0-1", "a", json!({"id": "a2", "rx": "x@d1-2"}))
            .await;
        let both = json!({"id": "b1", "rxs": ["x@d1-1", "x@d1-2"]});
        all.create("d0-1", "b", both).await;
        let id = all.delete("d1-1", "rx", "x").await;
        let done = all.at("d1-1").settled(&id).await;
        let statuses = (all.statuses("d1-1").await, all.statuses("d0-1").await);
        assert_eq!(done.state, DeletionState::Gone, "{done:?} {statuses:#?}");
        assert!(!all.exists("d1-1", "rx", "x").await);
        assert!(!all.exists("d0-1", "a", "a1").await);
        let b1 = all.kept("d0-1", "b").await.remove(0);
        assert_eq!(b1["rxs"], json!(["x@d1-2"]));
        // What is of the other deployment stays, whatever its id.
        assert!(all.exists("d0-1", "a", "a2").await);
        assert!(all.exists("d1-2", "rx", "x").await);
    });
}

#[test]
fn g02_a_blocker_elsewhere_refuses_and_is_named_and_who_does_not_answer_is_not_clear() {
    paused(async {
        let mut all = example(2);
        all.create("d2-1", "ry", json!({"id": "y"})).await;
        all.create("d0-1", "a", json!({"id": "a1", "ry": "y@d2-1"}))
            .await;
        let id = all.delete("d2-1", "ry", "y").await;
        let refused = all.at("d2-1").refused(&id).await.refused;
        let blocker = refused[0].blocker.as_ref().unwrap();
        assert_eq!(refused[0].rule, RefusalRule::InUse);
        assert_eq!(
            (blocker.id.as_str(), blocker.site.to_string()),
            ("a1", "d0-1".into())
        );
        assert!(all.exists("d2-1", "ry", "y").await);

        all.kill("d0-1").await;
        let id = all.delete("d2-1", "ry", "y").await;
        let refused = all.at("d2-1").refused(&id).await.refused;
        assert_eq!(refused[0].rule, RefusalRule::Unreadable);
        assert!(
            refused[0].reason.contains("deployment d0-1"),
            "{}",
            refused[0].reason
        );
        assert!(all.exists("d2-1", "ry", "y").await);
    });
}

#[test]
fn g07_g05_a_silent_importer_holds_it_and_is_named_and_its_word_frees_it() {
    paused(async {
        let mut all = example(3);
        all.create("d1-1", "rx", json!({"id": "x"})).await;
        all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
            .await;
        // It answers at accept, and is silent from then on.
        let id = all.delete("d1-1", "rx", "x").await;
        all.at("d1-1")
            .until_state(&id, DeletionState::Running)
            .await;
        all.kill("d0-1").await;
        let step = all
            .at("d1-1")
            .until_any(&id, |step| step.state == StepState::Blocked)
            .await;
        assert_eq!(step.attempts, 0);
        assert_eq!(step.blockers[0].site.to_string(), "d0-1");
        let stuck = all.at("d1-1").settled(&id).await;
        assert_eq!(stuck.state, DeletionState::Stuck);
        assert!(stuck.note.contains("d0-1"), "{}", stuck.note);
        assert!(all.exists("d1-1", "rx", "x").await);
        // It comes back, and nobody need do anything.
        all.start("d0-1");
        all.at("d1-1").until_state(&id, DeletionState::Gone).await;
        assert!(!all.exists("d0-1", "a", "a1").await);
    });
}

#[test]
fn g11_what_goes_and_is_blocked_by_what_stays_is_named_from_end_to_end() {
    paused(async {
        let all = example(4);
        all.create("d1-1", "rx", json!({"id": "x"})).await;
        all.create("d0-1", "c", json!({"id": "c1", "rx": "x@d1-1"}))
            .await;
        all.create("d0-1", "d", json!({"id": "d1", "c": "c1"}))
            .await;
        let id = all.delete("d1-1", "rx", "x").await;
        let held = all
            .at("d1-1")
            .until_any(&id, |step| {
                let error = step.last_error.as_ref();
                error.is_some_and(|error| error.message.contains("d1 at d0-1"))
            })
            .await;
        let said = held.last_error.unwrap().message;
        assert!(said.contains("c c1"), "{said}");
        assert!(
            said.contains("which this deletion will not remove"),
            "{said}"
        );
        // It is marked, and nothing new may refer to it.
        let c1 = all.kept("d0-1", "c").await.remove(0);
        assert_eq!(c1["status"], "DELETING");
        let more = all
            .try_create("d0-1", "c", json!({"id": "c2", "rx": "x@d1-1"}))
            .await;
        assert!(more.unwrap_err().to_string().contains("is being deleted"));
        // Once what blocks goes, all goes by itself.
        let d1 = all.delete("d0-1", "d", "d1").await;
        all.at("d0-1").until_state(&d1, DeletionState::Gone).await;
        all.at("d1-1").until_state(&id, DeletionState::Gone).await;
        assert!(!all.exists("d0-1", "c", "c1").await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
}
