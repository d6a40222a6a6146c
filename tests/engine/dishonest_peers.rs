//! Dishonest deployments, which report the resources of others, or send messages under the names of others (P13).

use std::time::Duration;

use gone::control::{Command, ControlError, query};
use gone::domain::model::{DeletionState, KindName, Phase, ResourceKey, Site};
use gone::domain::peers::{
    ClearanceRequest, DeletionNotice, DeletionNotices, Deployment, Question, Watch,
};
use gone::peers::Peer;
use serde_json::json;

use super::harness::{assert_contains, assert_matches};
use super::mesh::Deployments;
use super::peers::{start_blocked_deletion, start_example, start_with_referrer};

fn key_at(name: &str, kind: &str, id: &str) -> ResourceKey {
    ResourceKey {
        site: Site::Deployment { name: name.into() },
        kind: KindName::new(kind),
        id: id.to_owned(),
    }
}

/// Returns a notice of `d1-2` about a resource of `d1-1`.
fn notice_of_another_owner(phase: Phase) -> DeletionNotice {
    DeletionNotice {
        key: key_at("d1-1", "rx", "x"),
        phase,
        incarnation: 1,
        deletion: "evil".to_owned(),
        root: "d1-2/evil".to_owned(),
    }
}

/// Whether the peer is `d1-2`.
fn is_dishonest(peer: &Peer) -> bool {
    (peer.service.as_str(), peer.region.as_str()) == ("s1", "r2")
}

/// Forges the notices of `d1-2` from now on. Waits until `d0-1` reports an error for its watch of `d1-2`.
async fn forge_notices(all: &Deployments, forge: impl Fn(&mut DeletionNotices) + Send + 'static) {
    all.mesh.forged.lock().unwrap().notices = Some(Box::new(move |peer, notices| {
        if is_dishonest(peer) {
            forge(notices);
            notices.seq += 1;
        }
    }));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
    while watch_error(all).await.is_empty() {
        let in_time = tokio::time::Instant::now() < deadline;
        assert!(
            in_time,
            "the watch reported no error within ten minutes: the forged notice was accepted"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Returns the error that `d0-1` reports for its watch of `d1-2`, or an empty text.
async fn watch_error(all: &Deployments) -> String {
    let rows = all.statuses("d0-1").await;
    let row = rows
        .iter()
        .find(|row| (row.service.as_str(), row.region.as_str()) == ("s1", "r2"));
    row.and_then(|row| row.watch.clone())
        .map(|it| it.reason)
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn p13_notices_about_another_owners_resource_delete_nothing() {
    let all = start_with_referrer(71).await;
    forge_notices(&all, |notices| {
        notices
            .changes
            .push(notice_of_another_owner(Phase::Deleting))
    })
    .await;
    let why = watch_error(&all).await;
    assert_contains(&why, "may name only its own resources");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(all.exists("d0-1", "a", "a1").await);
    // The owner of the resource can still delete it.
    let id = all.delete("d1-1", "rx", "x").await;
    let done = all.at("d1-1").until_terminal(&id).await;
    assert_eq!(done.state, DeletionState::Gone);
    assert!(!all.exists("d0-1", "a", "a1").await);
}

#[tokio::test(start_paused = true)]
async fn p13_notices_under_the_name_of_another_owner_are_not_accepted() {
    let all = start_with_referrer(72).await;
    forge_notices(&all, |notices| {
        notices.from.name = "d1-1".to_owned();
        notices
            .changes
            .push(notice_of_another_owner(Phase::Deleting));
    })
    .await;
    let why = watch_error(&all).await;
    assert_contains(&why, "deployment d1-1 is on record as s1/r1");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(all.exists("d0-1", "a", "a1").await);
}

#[tokio::test(start_paused = true)]
async fn p13_notices_of_one_owner_do_not_release_a_resource_of_another() {
    let (all, _) = start_blocked_deletion(73).await;
    forge_notices(&all, |notices| {
        notices
            .changes
            .push(notice_of_another_owner(Phase::Released))
    })
    .await;
    let more = json!({"id": "c2", "rx": "x@d1-1"});
    let said = all
        .try_create("d0-1", "c", more)
        .await
        .unwrap_err()
        .to_string();
    assert_contains(&said, "is being deleted by deletion");
}

#[tokio::test(start_paused = true)]
async fn p13_notices_of_an_unwatched_kind_or_with_an_unnamed_root_are_not_accepted() {
    let all = start_example(74);
    all.create("d1-2", "rx", json!({"id": "x"})).await;
    forge_notices(&all, |notices| {
        notices.changes.push(DeletionNotice {
            key: key_at("d1-2", "a", "x"),
            ..notice_of_another_owner(Phase::Deleting)
        });
    })
    .await;
    assert!(
        watch_error(&all)
            .await
            .contains("of a kind that this deployment does not watch")
    );
    all.mesh.forged.lock().unwrap().notices = None;
    tokio::time::sleep(Duration::from_secs(60)).await;
    forge_notices(&all, |notices| {
        notices.changes.push(DeletionNotice {
            key: key_at("d1-2", "rx", "x"),
            root: "0197".to_owned(),
            ..notice_of_another_owner(Phase::Deleting)
        });
    })
    .await;
    assert!(
        watch_error(&all)
            .await
            .contains("does not name the deployment")
    );
}

/// Returns a watch of the kind `rx` by this deployment.
fn watch(name: &str, service: &str, region: &str) -> Watch {
    Watch {
        from: Deployment {
            name: name.to_owned(),
            service: service.to_owned(),
            region: region.to_owned(),
        },
        kinds: [KindName::new("rx")].into(),
        ledger: String::new(),
        after: 0,
        wait_ms: 0,
    }
}

/// Returns the names of the importers of a deployment.
async fn importers(all: &Deployments, name: &str) -> Vec<String> {
    let rows = all.statuses(name).await;
    let rows = rows.into_iter().filter(|row| row.importer.is_some());
    rows.map(|row| row.name.unwrap_or_default()).collect()
}

#[tokio::test(start_paused = true)]
async fn p13_a_peer_registers_once_under_a_name_of_its_own() {
    let all = start_with_referrer(75).await;
    assert_eq!(importers(&all, "d1-1").await, ["d0-1"]);
    let register = async |name: &str| {
        let command = Command::Watch {
            watch: watch(name, "s2", "r2"),
        };
        all.at("d1-1").submit(command).await.map(drop)
    };
    let long = "n".repeat(100_000);
    let names = ["", "a/b", "a@b", "\u{1b}[2J", "\u{3164}", "d 1", &long];
    for name in names {
        let refused = register(name).await;
        let short = name.chars().take(9).collect::<String>();
        let Err(ControlError::Usage { message }) = refused else {
            panic!("the name {short:?} was not refused as a mistake: {refused:?}");
        };
        assert!(
            message.len() < 300 && !message.contains('\u{1b}'),
            "{message}"
        );
    }
    // The owner's own name and the name of another importer are refused, too.
    for name in ["d1-1", "d0-1"] {
        register(name).await.unwrap_err();
    }
    assert_eq!(importers(&all, "d1-1").await, ["d0-1"]);
    // A peer keeps its one name, however many times it sends another.
    register("d2-2").await.unwrap();
    for n in 0..300 {
        let refused = register(&format!("more-{n}")).await;
        assert_matches!(refused, Err(ControlError::Conflict { .. }));
    }
    register("d2-2").await.unwrap();
    assert_eq!(importers(&all, "d1-1").await, ["d0-1", "d2-2"]);
    // Kinds that the owner does not have are not stored.
    let mut wide = watch("d2-2", "s2", "r2");
    wide.kinds
        .extend((0..1_000).map(|n| KindName::new(&format!("kind-{n}"))));
    all.at("d1-1")
        .submit(Command::Watch { watch: wide })
        .await
        .unwrap();
    let rows = all.statuses("d1-1").await;
    let kinds = rows
        .into_iter()
        .filter_map(|row| row.importer)
        .map(|it| it.kinds.len());
    assert_eq!(kinds.max(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn p13_a_peer_may_ask_only_about_its_own_resources() {
    let all = start_example(76);
    all.create("d1-1", "rx", json!({"id": "x"})).await;
    all.create("d1-2", "rx", json!({"id": "x"})).await;
    all.create("d0-1", "a", json!({"id": "a1", "rx": "x@d1-1"}))
        .await;
    let ask = async |from: Deployment, about: ResourceKey| {
        let question = Question {
            from,
            ledger: String::new(),
            seq: 0,
            about: vec![ClearanceRequest {
                key: about,
                deletion: None,
                incarnation: 0,
                root: String::new(),
            }],
        };
        let control = all.at("d0-1").control;
        control.ask(query::ClearanceAnswers { question }).await
    };
    let from = watch("d1-2", "s1", "r2").from;
    let refused = ask(from.clone(), key_at("d1-1", "rx", "x"))
        .await
        .unwrap_err()
        .to_string();
    assert_contains(&refused, "may name only its own resources");
    let refused = ask(from.clone(), key_at("d1-2", "a", "a1"))
        .await
        .unwrap_err()
        .to_string();
    assert_contains(&refused, "it asks about a, a kind of the service s0");
    // A question under the name of the owner is refused, too.
    let named = Deployment {
        name: "d1-1".to_owned(),
        ..from
    };
    ask(named, key_at("d1-1", "rx", "x")).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn p13_an_answer_that_names_another_deployments_resource_is_not_accepted() {
    let all = start_with_referrer(77).await;
    all.mesh.forged.lock().unwrap().answers = Some(Box::new(|_, answers| {
        for answered in &mut answers.about {
            for referrer in &mut answered.referrers {
                referrer.key = key_at("d1-2", "rx", "x");
                referrer.blocks = true;
            }
        }
    }));
    let plan = all.at("d1-1").plan("rx", "x").await;
    let refused = &plan.refused[0].reason;
    assert_contains(refused, "is not accepted");
    assert_contains(refused, "may name only its own resources");
    assert!(plan.refused[0].blocker.is_none());
}
