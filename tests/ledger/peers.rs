//! Other deployments in the ledger: registered importers, the clearances for which steps wait, and notices about
//! deletions (G).

use std::collections::BTreeSet;

use gone::domain::model::{ErrorClass, KindName, Origin, Phase, ResourceKey, Site, StepState};
use gone::domain::peers::{
    AWAITED, ClearanceAnswer, DeletionNotice, DeletionNotices, Deployment, NamedReferrer, Waits,
};
use gone::ledger::{Applied, Change, ClaimedStep, Ledger, PurgeAction, Selection, StepChange};

use crate::stores::on_each_store;
use crate::support::*;

fn importer(name: &str) -> Deployment {
    Deployment {
        name: name.to_owned(),
        service: "s0".into(),
        region: name.to_owned(),
    }
}

fn register_importer(name: &str, kinds: &[&str]) -> Change {
    Change::RecordImporter {
        importer: importer(name),
        kinds: kinds.iter().map(|kind| KindName::new(kind)).collect(),
        now: at(1),
    }
}

fn home() -> Site {
    Site::Deployment { name: "d1".into() }
}

/// Records an answer of this importer for each step that waits for its clearance: the clearance, or a contract
/// that refers to the resource.
async fn answer_steps(ledger: &dyn Ledger, name: &str, clear: bool) -> Applied {
    let (asked, _) = ledger
        .steps_awaiting_clearance(home(), name, 0, 10)
        .await
        .unwrap();
    let answers = asked.into_iter().map(|(step, asked)| {
        let referrer = NamedReferrer {
            key: key("contract", "c"),
            name: String::new(),
            project_id: String::new(),
            blocks: false,
            root: None,
            waits: Waits::default(),
            why: String::new(),
            held_by: Vec::new(),
        };
        let (referrers, count) = if clear {
            (vec![], 0)
        } else {
            (vec![referrer], 1)
        };
        (step, ClearanceAnswer::of(asked, referrers, count))
    });
    let answered = Change::RecordAnswers {
        importer: name.to_owned(),
        answers: answers.collect(),
        now: at(5),
    };
    commit_one(ledger, answered).await
}

fn awaiting_clearance(step: &ClaimedStep, to: StepState) -> Change {
    let mut change: StepChange = failure(step, to, ErrorClass::Blocked, at(3));
    change.decision.error.as_mut().unwrap().kind = AWAITED.to_owned();
    change.decision.next_attempt_at = Some(at(600));
    record_outcome(change)
}

async fn notices_after(ledger: &dyn Ledger, after: i64, kinds: &[&str]) -> DeletionNotices {
    let kinds: BTreeSet<KindName> = kinds.iter().map(|kind| KindName::new(kind)).collect();
    let (id, _) = ledger.importers_cursor().await.unwrap();
    let notices = ledger.notices(importer("d1"), (id, after), kinds, 10);
    notices.await.unwrap()
}

fn phases(notices: &DeletionNotices) -> Vec<(&str, Phase)> {
    let changes = notices.changes.iter();
    changes.map(|it| (it.key.id.as_str(), it.phase)).collect()
}

#[tokio::test]
async fn g04_an_importer_gets_each_tombstone_change_of_its_kinds_once_and_in_order() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "before", &ports(&[("p0", &[])])).await;
        commit_one(ledger, register_importer("d0", &["port"])).await;
        // A new importer first gets the deletions that began before it registered.
        let notices = notices_after(ledger, 0, &["port"]).await;
        assert_eq!(phases(&notices), [("p0", Phase::Deleting)]);
        start_deletion(ledger, "x", &ports(&[("p1", &[]), ("p2", &[])])).await;
        let more = notices_after(ledger, notices.seq, &["port"]).await;
        assert_eq!(
            phases(&more),
            [
                ("p1", Phase::Deleting),
                ("p2", Phase::Deleting),
                // The target is not in the plan, so its tombstone is released.
                ("root-x", Phase::Released)
            ]
        );
        assert_eq!(more.changes[0].root, format!("d1/{}", id("x")));
        let none = notices_after(ledger, more.seq, &["port"]).await;
        assert_eq!((none.seq, none.changes.len()), (more.seq, 0));
        assert_eq!(phases(&notices_after(ledger, 0, &["network"]).await), []);
        claim_all_and_move_to(ledger, StepState::Gone).await;
        let ended = notices_after(ledger, more.seq, &["port"]).await;
        assert_eq!(
            phases(&ended),
            [
                ("p0", Phase::Gone),
                ("p1", Phase::Gone),
                ("p2", Phase::Gone)
            ]
        );
        // A cursor beyond the newest notice starts from the beginning, and so does one of another ledger.
        let anew = notices_after(ledger, 1_000, &["port"]).await;
        let kinds = BTreeSet::from([KindName::new("port")]);
        let cursor = ("another".to_owned(), ended.seq);
        let elsewhere = ledger.notices(importer("d1"), cursor, kinds, 10);
        assert_eq!(elsewhere.await.unwrap(), anew);
        let all = [
            ("root-x", Phase::Released),
            ("p0", Phase::Gone),
            ("p1", Phase::Gone),
            ("p2", Phase::Gone),
        ];
        assert_eq!(phases(&anew), all);
    })
    .await;
}

#[tokio::test]
async fn g07_a_step_waits_for_the_clearance_of_each_importer_of_its_kind_and_no_other() {
    on_each_store(async |ledger| {
        commit_one(ledger, register_importer("d0", &["port"])).await;
        commit_one(ledger, register_importer("d2", &["port", "network"])).await;
        commit_one(ledger, register_importer("d3", &["network"])).await;
        start_deletion(ledger, "x", &ports(&[("p1", &[])])).await;
        let step = claim(ledger, 1).await.remove(0);
        let awaited = async || -> Vec<String> {
            let awaited = ledger.pending_clearances(step.id).await.unwrap();
            awaited.into_iter().map(|it| it.importer).collect()
        };
        assert_eq!(awaited().await, ["d0", "d2"]);
        commit_one(ledger, awaiting_clearance(&step, StepState::Blocked)).await;
        assert_eq!(answer_steps(ledger, "d0", false).await, Applied::Moved(1));
        // The same answer again changes nothing.
        assert_eq!(answer_steps(ledger, "d0", false).await, Applied::Moved(0));
        answer_steps(ledger, "d2", true).await;
        assert_eq!(awaited().await, ["d0"]);
        answer_steps(ledger, "d0", true).await;
        commit_one(ledger, Change::WakeDue { now: at(6) }).await;
        assert_eq!(state_of(ledger, "x", "p1").await, StepState::Ready);
    })
    .await;
}

#[tokio::test]
async fn g07_a_clearance_that_arrives_before_its_step_waits_for_it_counts() {
    on_each_store(async |ledger| {
        commit_one(ledger, register_importer("d0", &["port"])).await;
        start_deletion(ledger, "x", &ports(&[("p1", &[])])).await;
        let step = claim(ledger, 1).await.remove(0);
        answer_steps(ledger, "d0", true).await;
        commit_one(ledger, awaiting_clearance(&step, StepState::Blocked)).await;
        assert_eq!(state_of(ledger, "x", "p1").await, StepState::Ready);
    })
    .await;
}

#[tokio::test]
async fn g12_a_clearance_or_the_release_of_its_importer_makes_a_stuck_step_ready() {
    for release in [false, true] {
        on_each_store(async |ledger| {
            commit_one(ledger, register_importer("d0", &["port"])).await;
            start_deletion(ledger, "x", &ports(&[("p1", &[])])).await;
            let step = claim(ledger, 1).await.remove(0);
            commit_one(ledger, awaiting_clearance(&step, StepState::Stuck)).await;
            match release {
                true => {
                    let release = Change::ReleaseImporter {
                        name: "d0".into(),
                        audit: entry("release", "deployment d0", Origin::Cli),
                        now: at(5),
                    };
                    assert_eq!(commit_one(ledger, release).await, Applied::Done);
                    assert_eq!(ledger.importers().await.unwrap(), []);
                }
                false => drop(answer_steps(ledger, "d0", true).await),
            }
            assert_eq!(state_of(ledger, "x", "p1").await, StepState::Ready);
        })
        .await;
    }
}

#[tokio::test]
async fn g12_a_running_deletion_waits_for_an_importer_that_registers_later() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "x", &ports(&[("p1", &[])])).await;
        commit_one(ledger, register_importer("d0", &["port"])).await;
        let importers = ledger.importers().await.unwrap();
        assert_eq!((importers.len(), importers[0].pending_clearances), (1, 1));
        // Another deployment cannot register under the same name.
        let other = Change::RecordImporter {
            importer: Deployment {
                region: "elsewhere".into(),
                ..importer("d0")
            },
            kinds: BTreeSet::new(),
            now: at(2),
        };
        assert!(matches!(
            commit_one(ledger, other).await,
            Applied::Refused(_)
        ));
        commit_one(ledger, cancel("x", at(3))).await;
        assert_eq!(ledger.importers().await.unwrap()[0].pending_clearances, 0);
    })
    .await;
}

fn receive_notice(seq: i64, of: &str, phase: Phase, deletion: &str) -> Change {
    let notice = DeletionNotice {
        key: ResourceKey {
            site: home(),
            kind: KindName::new("rx"),
            id: of.to_owned(),
        },
        phase,
        incarnation: 1,
        deletion: deletion.to_owned(),
        root: format!("d1/{deletion}"),
    };
    Change::AdvanceWatch {
        service: "s1".into(),
        region: "r1".into(),
        notices: DeletionNotices {
            from: Deployment {
                name: "d1".into(),
                service: "s1".into(),
                region: "r1".into(),
            },
            ledger: "one".into(),
            seq,
            changes: vec![notice],
            more: false,
        },
        now: at(1),
    }
}

#[tokio::test]
async fn g05_a_repeated_notice_is_handled_once_and_one_of_another_deletion_again() {
    on_each_store(async |ledger| {
        let unhandled_deletions = async || {
            ledger
                .unhandled_deletions(10)
                .await
                .unwrap()
                .map(|it| it.keys.len())
        };
        commit_one(ledger, receive_notice(1, "x", Phase::Checking, "a")).await;
        assert_eq!(unhandled_deletions().await, None);
        commit_one(ledger, receive_notice(2, "x", Phase::Deleting, "a")).await;
        let next = ledger.unhandled_deletions(10).await.unwrap().unwrap();
        assert_eq!((next.root.as_str(), next.owner.as_str()), ("d1/a", "d1"));
        let none = Change::MarkHandled {
            keys: next.keys,
            deletion: None,
        };
        commit_one(ledger, none).await;
        commit_one(ledger, receive_notice(2, "x", Phase::Deleting, "a")).await;
        assert_eq!(unhandled_deletions().await, None);
        commit_one(ledger, receive_notice(3, "x", Phase::Released, "a")).await;
        assert_eq!(ledger.deleting_owners().await.unwrap(), BTreeSet::new());
        commit_one(ledger, receive_notice(4, "x", Phase::Deleting, "b")).await;
        assert_eq!(unhandled_deletions().await, Some(1));
        // The owner's ledger was restored from a backup, so earlier notices no longer count.
        commit_one(ledger, receive_notice(2, "y", Phase::Deleting, "c")).await;
        let next = ledger.unhandled_deletions(10).await.unwrap().unwrap();
        assert_eq!(next.root, "d1/c");
        assert_eq!(next.keys.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn g07_a_step_with_a_forced_delete_waits_for_an_importer_that_registers_later() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let claimed = claim(ledger, 1).await;
        let stuck = record_outcome(outcome(&claimed[0], StepState::Stuck, at(2)));
        assert_eq!(commit_one(ledger, stuck).await, Applied::Done);
        let forced = Selection::Steps(vec![claimed[0].id]);
        commit_one(ledger, purge(forced, PurgeAction::Force, at(3))).await;
        commit_one(ledger, register_importer("d1", &["port"])).await;
        let (awaited, _) = ledger
            .steps_awaiting_clearance(home(), "d1", 0, 10)
            .await
            .unwrap();
        let steps: Vec<i64> = awaited.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [claimed[0].id]);
    })
    .await;
}
