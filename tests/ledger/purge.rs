//! The purge ladder in the ledger: abandoned steps, their dependents, orphans, and released tombstones. Also pauses of
//! sites, and re-created resources.

use gone::domain::ladder::{DEPENDENCY_ABANDONED, DEPENDENCY_STUCK};
use gone::domain::model::{
    Action, DeletionState, ErrorClass, EventKind, OnFailure, Origin, Phase, Site, StepState,
};
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{
    Applied, Change, ClaimedStep, EventFilter, Ledger, NewOptions, PurgeAction, Selection,
    StepFilter, TombstoneFilter, Views as _,
};

use crate::stores::on_each_store;
use crate::support::*;

async fn phase(ledger: &dyn Ledger, resource: &str) -> Phase {
    let filter = TombstoneFilter {
        id: Some(resource.to_owned()),
        ..TombstoneFilter::default()
    };
    ledger.tombstones(filter, first_page()).await.unwrap().rows[0].phase
}

async fn error_of(ledger: &dyn Ledger, resource: &str) -> (String, String) {
    let steps = ledger
        .steps(StepFilter::default(), first_page())
        .await
        .unwrap();
    let steps = steps.rows.into_iter();
    let mut found = steps.filter(|step| step.resource.key.id == resource);
    let error = found.next().unwrap().last_error.unwrap();
    (error.kind, error.message)
}

/// Starts a deletion in which `balancer` is stuck, its dependents `port` and `network` are stuck because of it, and
/// `other` is gone.
async fn start_with_stuck_balancer(ledger: &dyn Ledger) {
    let plan = ports(&[
        ("balancer", &[]),
        ("port", &[0]),
        ("network", &[1]),
        ("other", &[]),
    ]);
    start_deletion(ledger, "one", &plan).await;
    for step in claim(ledger, 10).await {
        let change = match step.key.id.as_str() {
            "balancer" => failure(&step, StepState::Stuck, ErrorClass::Blocked, at(2)),
            _ => outcome(&step, StepState::Gone, at(2)),
        };
        assert_eq!(
            commit_one(ledger, record_outcome(change)).await,
            Applied::Done
        );
    }
}

async fn abandon(ledger: &dyn Ledger, resource: &str) -> Applied {
    let step = step_id(ledger, "one", resource).await;
    let what = Selection::Steps(vec![step]);
    commit_one(ledger, purge(what, PurgeAction::Forget, at(3))).await
}

#[tokio::test]
async fn p03_abandoning_a_step_purges_its_tombstone_and_leaves_its_dependents_stuck() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        assert_eq!(abandon(ledger, "balancer").await, Applied::Moved(1));
        assert_eq!(
            states(ledger, "one").await,
            [
                ("balancer".to_owned(), StepState::Purged),
                ("port".to_owned(), StepState::Stuck),
                ("network".to_owned(), StepState::Stuck),
                ("other".to_owned(), StepState::Gone),
            ]
        );
        assert_eq!(phase(ledger, "balancer").await, Phase::Purged);
        assert_eq!(phase(ledger, "port").await, Phase::Deleting);
        let (kind, message) = error_of(ledger, "port").await;
        assert_eq!(kind, DEPENDENCY_ABANDONED);
        assert!(message.contains("balancer"), "{message}");
        assert_eq!(error_of(ledger, "network").await.0, DEPENDENCY_STUCK);
        assert!(claim(ledger, 10).await.is_empty());
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Stuck);
        // A person retries the dependent: then the deletion continues, in order.
        let port = step_id(ledger, "one", "port").await;
        let again = retry(
            Selection::Steps(vec![port]),
            gone::domain::model::Origin::Cli,
            at(4),
        );
        assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
        claim_all_and_move_to(ledger, StepState::Gone).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Purged);
        assert_eq!((deletion.counts.gone, deletion.counts.purged), (3, 1));
        assert!(deletion.finished_at.is_some());
    })
    .await;
}

#[tokio::test]
async fn p03_abandoning_a_deletion_makes_all_its_stuck_steps_orphans() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        let what = Selection::Deletion(id("one"));
        let applied = commit_one(ledger, purge(what, PurgeAction::Forget, at(3))).await;
        assert_eq!(applied, Applied::Moved(3));
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Purged);
        for resource in ["balancer", "port", "network"] {
            assert_eq!(phase(ledger, resource).await, Phase::Purged, "{resource}");
        }
        let orphans = ledger.orphans(first_page()).await.unwrap().rows;
        let ids: Vec<&str> = orphans.iter().map(|it| it.step.key.id.as_str()).collect();
        assert_eq!(ids, ["balancer", "port", "network"]);
        assert_eq!(orphans[0].since, at(3));
        assert_eq!(
            orphans[0].step.last_error.as_ref().unwrap().message,
            "still in use"
        );
    })
    .await;
}

#[tokio::test]
async fn p11_an_abandoned_blocked_step_is_never_sent_again() {
    on_each_store(async |ledger| {
        let plan = ports(&[("locked", &[]), ("network", &[0])]);
        start_deletion(ledger, "one", &plan).await;
        let step = claim(ledger, 10).await.remove(0);
        let change = failure(&step, StepState::Blocked, ErrorClass::Blocked, at(2));
        assert_eq!(
            commit_one(ledger, record_outcome(change)).await,
            Applied::Done
        );
        assert_eq!(abandon(ledger, "locked").await, Applied::Moved(1));
        assert_eq!(phase(ledger, "locked").await, Phase::Purged);
        assert_eq!(error_of(ledger, "network").await.0, DEPENDENCY_ABANDONED);
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        let counts = (deletion.counts.blocked, deletion.counts.purged);
        assert_eq!((deletion.state, counts), (DeletionState::Stuck, (0, 1)));
        let now = at(24 * 3600);
        commit_one(ledger, Change::WakeDue { now }).await;
        assert!(claim(ledger, 10).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn p03_a_gone_or_purged_step_cannot_be_abandoned() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        let refused = abandon(ledger, "other").await;
        assert!(matches!(refused, Applied::Refused(_)), "{refused:?}");
        let before = ledger.audit(0, 500).await.unwrap().len();
        abandon(ledger, "balancer").await;
        let refused = abandon(ledger, "balancer").await;
        assert!(matches!(refused, Applied::Refused(_)), "{refused:?}");
        assert_eq!(ledger.audit(0, 500).await.unwrap().len(), before + 1);
    })
    .await;
}

#[tokio::test]
async fn p03_a_retried_dependent_of_an_abandoned_step_waits_for_its_other_stuck_dependency() {
    on_each_store(async |ledger| {
        let plan = ports(&[("a", &[]), ("b", &[]), ("both", &[0, 1])]);
        start_deletion(ledger, "one", &plan).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        abandon(ledger, "a").await;
        assert_eq!(error_of(ledger, "both").await.0, DEPENDENCY_ABANDONED);
        let both = step_id(ledger, "one", "both").await;
        let again = retry(
            Selection::Steps(vec![both]),
            gone::domain::model::Origin::Cli,
            at(4),
        );
        assert!(matches!(
            commit_one(ledger, again).await,
            Applied::Refused(_)
        ));
        assert_eq!(state_of(ledger, "one", "both").await, StepState::Stuck);
        assert_eq!(error_of(ledger, "both").await.0, DEPENDENCY_STUCK);
        let all_again = retry(
            Selection::Deletion(id("one")),
            gone::domain::model::Origin::Cli,
            at(5),
        );
        commit_one(ledger, all_again).await;
        assert_eq!(state_of(ledger, "one", "both").await, StepState::Waiting);
    })
    .await;
}

#[tokio::test]
async fn p03_the_rungs_runbook_unpin_and_forget_add_an_audit_row_and_an_event() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        let balancer = step_id(ledger, "one", "balancer").await;
        let steps = || Selection::Steps(vec![balancer]);
        let unpins = new_deletion("two", vec![target("port", "pin")], at(3));
        let actions = [
            PurgeAction::Runbook,
            PurgeAction::Unpin(Box::new(unpins)),
            PurgeAction::Forget,
        ];
        for action in actions {
            let rung = action.rung();
            if rung == gone::domain::ladder::Rung::Forget {
                claim_all_and_move_to(ledger, StepState::Stuck).await;
            }
            let before = ledger.audit(0, 500).await.unwrap().len();
            let applied = commit_one(ledger, purge(steps(), action, at(4))).await;
            assert!(!matches!(applied, Applied::Refused(_)), "{applied:?}");
            let rows = ledger.audit(0, 500).await.unwrap();
            let new: Vec<&str> = rows[before..]
                .iter()
                .map(|row| row.action.as_str())
                .collect();
            let purges = format!("purge {}", rung.as_str());
            assert!(new.contains(&purges.as_str()), "{new:?}");
            let events = ledger.events(0, EventFilter::default(), 500).await.unwrap();
            let purge = events
                .events
                .iter()
                .rfind(|event| event.kind == EventKind::Purge);
            let purge = purge.unwrap();
            assert_eq!(purge.data["rung"], rung.as_str());
            assert_eq!(purge.step_id, Some(balancer));
        }
    })
    .await;
}

#[tokio::test]
async fn p03_a_refused_unpin_accepts_no_deletion() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        let what = Selection::Steps(vec![step_id(ledger, "one", "network").await]);
        let unpins = new_deletion("two", vec![target("port", "pin")], at(3));
        let applied = commit_one(
            ledger,
            purge(what, PurgeAction::Unpin(Box::new(unpins)), at(3)),
        )
        .await;
        assert!(matches!(applied, Applied::Refused(_)), "{applied:?}");
        assert!(ledger.deletion(&id("two")).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn t08_a_tombstone_is_released_only_after_its_end() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        for (resource, released) in [("balancer", false), ("port", false), ("other", true)] {
            let applied = commit_one(ledger, release("port", resource, at(4))).await;
            assert_eq!(
                applied == Applied::Done,
                released,
                "{resource}: {applied:?}"
            );
        }
        assert_eq!(phase(ledger, "other").await, Phase::Released);
        abandon(ledger, "balancer").await;
        assert_eq!(
            commit_one(ledger, release("port", "balancer", at(5))).await,
            Applied::Done
        );
        assert!(ledger.orphans(first_page()).await.unwrap().rows.is_empty());
        let rows = ledger.audit(0, 500).await.unwrap();
        assert_eq!(rows.iter().filter(|row| row.action == "release").count(), 2);
    })
    .await;
}

#[tokio::test]
async fn an_abandoned_resource_that_is_deleted_again_is_no_orphan() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        abandon(ledger, "balancer").await;
        start_deletion(ledger, "two", &ports(&[("balancer", &[])])).await;
        assert!(ledger.orphans(first_page()).await.unwrap().rows.is_empty());
        assert_eq!(phase(ledger, "balancer").await, Phase::Deleting);
    })
    .await;
}

#[tokio::test]
async fn the_pause_of_a_site_is_kept_for_the_next_engine() {
    let folder = Folder::new();
    let open = || InlineLedger::new(Store::open(&folder.ledger(), Options::default()).unwrap());
    let pausing = |site: Site, paused| Change::PauseSite {
        site,
        paused,
        audit: entry("pause site", "it", gone::domain::model::Origin::Cli),
        now: at(1),
    };
    let ledger = open();
    assert_eq!(
        commit_one(&ledger, pausing(site(), true)).await,
        Applied::Done
    );
    let again = commit_one(&ledger, pausing(site(), true)).await;
    assert!(matches!(again, Applied::Refused(_)), "{again:?}");
    drop(ledger);
    let ledger = open();
    let pauses = ledger.site_pauses().await.unwrap();
    let [pause] = pauses.as_slice() else {
        panic!("{pauses:?}");
    };
    assert_eq!(
        (
            &pause.site,
            pause.by.name.as_str(),
            pause.reason.as_str(),
            pause.at
        ),
        (&site(), "ada", "clean up", at(1))
    );
    assert_eq!(
        commit_one(&ledger, pausing(site(), false)).await,
        Applied::Done
    );
    assert!(ledger.site_pauses().await.unwrap().is_empty());
    let again = commit_one(&ledger, pausing(site(), false)).await;
    assert!(matches!(again, Applied::Refused(_)), "{again:?}");
}

#[tokio::test]
async fn m01_recreating_an_ended_resource_revives_its_record_as_the_next_incarnation() {
    on_each_store(async |ledger| {
        start_with_stuck_balancer(ledger).await;
        abandon(ledger, "balancer").await;
        let revive = async |resource: &str| {
            let change = Change::Revive {
                key: key("port", resource),
                audit: entry("create anew", resource, Origin::Gate),
                now: at(9),
            };
            assert_eq!(
                commit_one(ledger, change).await,
                Applied::Done,
                "{resource}"
            );
            let filter = TombstoneFilter {
                id: Some(resource.to_owned()),
                ..TombstoneFilter::default()
            };
            let found = ledger
                .tombstones(filter, first_page())
                .await
                .unwrap()
                .rows
                .pop();
            found.map(|it| (it.phase, it.incarnation, it.deleted_at.is_some()))
        };
        for ended in ["other", "balancer"] {
            let alive = Some((Phase::Released, 2, false));
            assert_eq!(revive(ended).await, alive, "{ended}");
            assert_eq!(revive(ended).await, alive, "{ended} was revived before");
        }
        let deleting = revive("network").await;
        assert_eq!(deleting, Some((Phase::Deleting, 1, true)));
        assert_eq!(revive("unheard-of").await, None);
        let audit = ledger.audit(0, 100).await.unwrap();
        let recreated = audit.iter().filter(|row| row.action == "create anew");
        assert_eq!(
            recreated.count(),
            2,
            "a revive without an effect adds no row"
        );
        let filter = EventFilter::default();
        let events = ledger.events(0, filter, 1_000).await.unwrap().events;
        let revived = events.iter().filter(|it| it.kind == EventKind::Revived);
        assert_eq!(revived.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn p03_a_forced_delete_replaces_no_call_that_is_in_flight() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[])])).await;
        let claimed = claim(ledger, 1).await;
        let stuck = record_outcome(outcome(&claimed[0], StepState::Stuck, at(2)));
        assert_eq!(commit_one(ledger, stuck).await, Applied::Done);
        let in_flight = claim(ledger, 1).await;
        let both = vec![claimed[0].id, in_flight[0].id];
        let force = purge(Selection::Steps(both), PurgeAction::Force, at(3));
        assert_eq!(commit_one(ledger, force).await, Applied::Moved(1));
        let steps = ledger
            .steps(StepFilter::default(), first_page())
            .await
            .unwrap();
        let action = |claimed: &ClaimedStep| {
            let found = steps.rows.iter().find(|step| step.id == claimed.id);
            found.unwrap().action
        };
        assert_eq!(action(&claimed[0]), Action::Force);
        assert_eq!(action(&in_flight[0]), Action::Delete);
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_refused_halfway_leaves_the_options_as_they_were() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let events = async || {
            let page = ledger.events(0, EventFilter::default(), 100).await;
            page.unwrap().events.len()
        };
        let (before, audit) = (events().await, ledger.audit(0, 100).await.unwrap().len());
        let options = Change::SetOptions(Box::new(NewOptions {
            deletion_id: id("one"),
            drift: None,
            on_failure: Some(OnFailure::Stop),
            retry: vec![4711],
            audit: entry("set options", "one", Origin::Cli),
            now: at(3),
        }));
        let refused = commit_one(ledger, options).await;
        assert!(matches!(refused, Applied::Refused(_)), "{refused:?}");
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.options.on_failure, OnFailure::Continue);
        assert_eq!(events().await, before);
        assert_eq!(ledger.audit(0, 100).await.unwrap().len(), audit);
    })
    .await;
}
