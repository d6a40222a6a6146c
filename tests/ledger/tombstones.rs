//! Tombstones are written before anything else, are kept through every failure, and have one row for each identity.

use std::sync::Arc;

use gone::domain::model::{
    Action, CopiedBy, DeletionState, KindName, Local, Mapped, Origin, Phase, Refusal, RefusalRule,
    ResourceKey, Site, Step, StepState, Target,
};
use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::tombstones::Tombstones;
use gone::ledger::{
    Applied, Change, KeyedRequest, Ledger, NewDeletion, PurgeAction, RecreationReason, Selection,
    StepFilter, TombstoneFilter, Views as _,
};

use crate::stores::on_each_store;
use crate::support::*;

async fn steps_of(ledger: &dyn Ledger, name: &str) -> Vec<Step> {
    let filter = StepFilter {
        deletion_id: Some(id(name)),
        ..StepFilter::default()
    };
    ledger.steps(filter, first_page()).await.unwrap().rows
}

fn accepted(name: &str, existing: bool) -> Applied {
    Applied::Accepted {
        deletion_id: id(name),
        existing,
    }
}

async fn tombstone(ledger: &dyn Ledger, resource: &str) -> gone::domain::model::Tombstone {
    let filter = TombstoneFilter {
        id: Some(resource.to_owned()),
        ..TombstoneFilter::default()
    };
    let mut page = ledger.tombstones(filter, first_page()).await.unwrap();
    assert_eq!(page.rows.len(), 1, "one row per identity");
    page.rows.remove(0)
}

#[tokio::test]
async fn t01_a_tombstone_exists_before_any_step_can_be_claimed() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "a", at(0)).await;
        let row = tombstone(ledger, "a").await;
        assert_eq!(row.phase, Phase::Checking);
        assert_eq!(row.key, key("port", "a"));
        assert_eq!(row.deleted_at, Some(at(0)));
        assert!(claim(ledger, 10).await.is_empty());

        commit_one(
            ledger,
            start("one", &ports(&[("a", &[]), ("b", &[])]), at(5)),
        )
        .await;
        for resource in ["a", "b"] {
            assert_eq!(tombstone(ledger, resource).await.phase, Phase::Deleting);
        }
        assert_eq!(claim(ledger, 10).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn t03_enable_and_unset_steps_have_no_tombstone() {
    on_each_store(async |ledger| {
        let plan = plan(vec![
            plan_step(0, Action::Enable, key("trunk", "t"), &[]),
            plan_step(1, Action::Unset, key("floating_ip", "f"), &[]),
            plan_step(2, Action::Detach, key("subport", "t,p"), &[0]),
            plan_step(3, Action::Delete, key("trunk", "t"), &[2]),
        ]);
        start_deletion(ledger, "one", &plan).await;
        let page = ledger
            .tombstones(
                TombstoneFilter {
                    phases: vec![Phase::Deleting],
                    ..Default::default()
                },
                first_page(),
            )
            .await
            .unwrap();
        let mut ids: Vec<String> = page.rows.iter().map(|t| t.key.to_string()).collect();
        ids.sort();
        assert_eq!(ids, ["subport/t,p@cloud/one", "trunk/t@cloud/one"]);
    })
    .await;
}

#[tokio::test]
async fn t03_a_refused_deletion_releases_its_tombstone_and_can_be_retried() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "a", at(0)).await;
        let refusal = Refusal {
            resource: target("port", "a"),
            rule: RefusalRule::InUse,
            reason: "a router uses it".to_owned(),
            blocker: None,
            changes: Vec::new(),
        };
        let refuse = |now| Change::Refuse {
            deletion_id: id("one"),
            refused: vec![refusal.clone()],
            note: "in use".to_owned(),
            now,
        };
        assert_eq!(commit_one(ledger, refuse(at(1))).await, Applied::Done);
        assert_eq!(tombstone(ledger, "a").await.phase, Phase::Released);
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Refused);
        assert_eq!(deletion.refused, std::slice::from_ref(&refusal));
        assert_eq!(
            (deletion.note.as_str(), deletion.finished_at),
            ("in use", Some(at(1)))
        );
        let summary = ledger.summary().await.unwrap();
        assert_eq!(
            summary.attention[0].last_error.as_ref().unwrap().message,
            "a router uses it"
        );

        // The plan can no longer start, and another deletion can take the resource.
        let late = commit_one(ledger, start("one", &ports(&[("a", &[])]), at(2))).await;
        assert!(matches!(late, Applied::Refused(_)), "{late:?}");
        let again = accept(new_deletion("two", vec![target("port", "a")], at(3)));
        assert_eq!(commit_one(ledger, again).await, accepted("two", false));

        // A person may retry the first deletion, but not while the second one has the tombstone.
        let retry_it = || retry(Selection::Deletion(id("one")), Origin::Cli, at(4));
        let taken = commit_one(ledger, retry_it()).await;
        assert!(matches!(taken, Applied::Refused(_)), "{taken:?}");
        commit_one(ledger, cancel("two", at(5))).await;
        assert_eq!(commit_one(ledger, retry_it()).await, Applied::Moved(1));
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.finished_at),
            (DeletionState::Planning, None)
        );
        assert!(deletion.refused.is_empty());
        assert_eq!(tombstone(ledger, "a").await.phase, Phase::Checking);
    })
    .await;
}

#[tokio::test]
async fn t06_a_repeated_delete_returns_the_existing_deletion_and_records_nothing() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let events = ledger.summary().await.unwrap().last_event;
        let audit = ledger.audit(0, 100).await.unwrap().len();

        let again = accept(new_deletion("two", vec![target("port", "a")], at(9)));
        assert_eq!(commit_one(ledger, again).await, accepted("one", true));
        assert_eq!(ledger.deletion(&id("two")).await.unwrap(), None);
        assert_eq!(ledger.summary().await.unwrap().last_event, events);
        assert_eq!(ledger.audit(0, 100).await.unwrap().len(), audit);
    })
    .await;
}

#[tokio::test]
async fn p09_t06_a_new_target_beside_one_already_being_deleted_gets_its_own_deletion() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let both = vec![target("port", "x"), target("port", "a")];
        let two = accept(new_deletion("two", both, at(9)));
        assert_eq!(commit_one(ledger, two).await, accepted("two", false));
        assert_eq!(tombstone(ledger, "x").await.phase, Phase::Checking);
        assert_eq!(tombstone(ledger, "a").await.deletion_id, id("one"));

        commit_one(
            ledger,
            start("two", &ports(&[("x", &[]), ("a", &[])]), at(9)),
        )
        .await;
        let steps = steps_of(ledger, "two").await;
        let state = |name: &str| {
            steps
                .iter()
                .find(|step| step.resource.key.id == *name)
                .unwrap()
                .state
        };
        assert_eq!(
            (state("x"), state("a")),
            (StepState::Ready, StepState::Waiting)
        );
        assert_eq!(tombstone(ledger, "a").await.deletion_id, id("one"));
    })
    .await;
}

#[tokio::test]
async fn t01_t15_a_refused_or_cancelled_deletion_of_a_gone_resource_keeps_its_tombstone() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let claimed = claim(ledger, 1).await;
        end_step(ledger, &claimed[0], StepState::Gone, at(2)).await;
        let before = tombstone(ledger, "a").await;
        assert_eq!(before.phase, Phase::Gone);

        for (name, ends) in [("two", "refused"), ("three", "cancelled")] {
            accept_port(ledger, name, "a", at(4)).await;
            // A repeated request returns this deletion (T6), and a re-creation is not counted (T14).
            let again = accept(new_deletion("again", vec![target("port", "a")], at(5)));
            assert_eq!(commit_one(ledger, again).await, accepted(name, true));
            let recreated = Change::Recreated {
                key: key("port", "a"),
                copy: None,
                stuck: None,
                now: at(5),
            };
            let counted = commit_one(ledger, recreated).await;
            assert!(matches!(counted, Applied::Refused(_)), "{counted:?}");
            let end = match ends {
                "refused" => Change::Refuse {
                    deletion_id: id(name),
                    refused: Vec::new(),
                    note: "it does not exist".into(),
                    now: at(6),
                },
                _ => cancel(name, at(6)),
            };
            assert_eq!(commit_one(ledger, end).await, Applied::Done);
            assert_eq!(tombstone(ledger, "a").await, before, "{ends}");
        }

        // A plan that finds the resource again is about its next incarnation (M1).
        accept_port(ledger, "four", "a", at(7)).await;
        commit_one(ledger, start("four", &ports(&[("a", &[])]), at(8))).await;
        let now = tombstone(ledger, "a").await;
        assert_eq!(
            (now.phase, now.deletion_id, now.incarnation),
            (Phase::Deleting, id("four"), 2)
        );
    })
    .await;
}

#[tokio::test]
async fn i09_a_resource_deleted_by_force_in_another_deletion_is_left_to_that_deletion() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let claimed = claim(ledger, 1).await;
        end_step(ledger, &claimed[0], StepState::Stuck, at(2)).await;
        let what = Selection::Steps(vec![claimed[0].id]);
        commit_one(ledger, purge(what, PurgeAction::Force, at(3))).await;
        assert_eq!(steps_of(ledger, "one").await[0].action, Action::Force);

        accept_port(ledger, "two", "x", at(4)).await;
        let started = start("two", &ports(&[("x", &[]), ("a", &[])]), at(4));
        assert_eq!(commit_one(ledger, started).await, Applied::Done);
        let states: Vec<StepState> = steps_of(ledger, "two")
            .await
            .iter()
            .map(|step| step.state)
            .collect();
        assert_eq!(states, [StepState::Ready, StepState::Waiting]);
    })
    .await;
}

#[tokio::test]
async fn t06_a_repeated_delete_returns_the_cancelled_deletion_while_its_call_is_in_flight() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let claimed = claim(ledger, 1).await;
        commit_one(ledger, cancel("one", at(2))).await;
        let again = || accept(new_deletion("two", vec![target("port", "a")], at(3)));
        assert_eq!(commit_one(ledger, again()).await, accepted("one", true));

        end_step(ledger, &claimed[0], StepState::Ready, at(4)).await;
        assert_eq!(commit_one(ledger, again()).await, accepted("two", false));
    })
    .await;
}

#[tokio::test]
async fn t15_deleted_at_is_set_once() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "a", at(10)).await;
        commit_one(ledger, start("one", &ports(&[("a", &[])]), at(20))).await;
        accept_port(ledger, "two", "a", at(30)).await;
        assert_eq!(tombstone(ledger, "a").await.deleted_at, Some(at(10)));
        claim_all_and_move_to(ledger, StepState::Gone).await;
        assert_eq!(tombstone(ledger, "a").await.deleted_at, Some(at(10)));
    })
    .await;
}

#[tokio::test]
async fn m01_m03_a_revived_identity_keeps_its_record() {
    on_each_store(async |ledger| {
        let member = target("image_member", "image,project");
        let mut record = None;
        for round in 0..4 {
            let name = format!("round{round}");
            let requested_at = at(100 * i64::from(round));
            commit_one(
                ledger,
                accept(new_deletion(&name, vec![member.clone()], requested_at)),
            )
            .await;
            let step = plan_step(0, Action::Delete, member.key.clone(), &[]);
            commit_one(ledger, start(&name, &plan(vec![step]), requested_at)).await;
            let row = tombstone(ledger, "image,project").await;
            assert_eq!(row.incarnation, round + 1);
            assert_eq!((row.deleted_at, row.gone_at), (Some(requested_at), None));
            assert_eq!(row.record_id, *record.get_or_insert(row.record_id));
            assert_eq!(row.deletion_id, id(&name));
            claim_all_and_move_to(ledger, StepState::Gone).await;
            assert_eq!(tombstone(ledger, "image,project").await.phase, Phase::Gone);
        }
    })
    .await;
}

#[tokio::test]
async fn m01_deleting_a_released_identity_again_keeps_its_incarnation() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        commit_one(ledger, cancel("one", at(1))).await;
        assert_eq!(tombstone(ledger, "a").await.phase, Phase::Released);
        accept_port(ledger, "two", "a", at(50)).await;
        let row = tombstone(ledger, "a").await;
        assert_eq!((row.incarnation, row.deleted_at), (1, Some(at(50))));
    })
    .await;
}

#[tokio::test]
async fn t14_recreations_are_counted_and_only_tombstones_in_hold_down_are_swept() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[0])])).await;
        let recreated = |now| Change::Recreated {
            key: key("port", "a"),
            copy: None,
            stuck: None,
            now,
        };
        let early = commit_one(ledger, recreated(at(0))).await;
        assert!(matches!(early, Applied::Refused(_)), "{early:?}");
        claim_all_and_move_to(ledger, StepState::Gone).await;
        for _ in 0..3 {
            assert_eq!(commit_one(ledger, recreated(at(5))).await, Applied::Done);
        }
        let swept = ledger.held_down(at(2), 0, 10).await.unwrap();
        assert_eq!(swept.len(), 1);
        assert_eq!((swept[0].key.id.as_str(), swept[0].recreated), ("a", 3));
        assert!(ledger.held_down(at(3), 0, 10).await.unwrap().is_empty());
        assert!(
            ledger
                .held_down(at(2), swept[0].record_id, 10)
                .await
                .unwrap()
                .is_empty()
        );
    })
    .await;
}

#[tokio::test]
async fn t14_a_resource_recreated_too_often_is_stuck_and_no_longer_swept() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        let change = Change::Recreated {
            key: key("port", "a"),
            copy: None,
            stuck: Some(RecreationReason::TooOften),
            now: at(5),
        };
        assert_eq!(commit_one(ledger, change).await, Applied::Done);
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(deletion.state, DeletionState::Stuck);
        let summary = ledger.summary().await.unwrap();
        let error = summary.attention[0].last_error.clone().unwrap();
        assert!(error.message.contains("re-created 1 time"), "{error:?}");
        assert_eq!(tombstone(ledger, "a").await.phase, Phase::Deleting);
        assert!(ledger.held_down(at(0), 0, 10).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn t14_tombstones_to_sweep_are_paged_in_the_order_of_their_gone_at() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[]), ("b", &[]), ("c", &[])])).await;
        let mut steps = claim(ledger, 3).await;
        steps.sort_by(|one, other| one.key.cmp(&other.key));
        for (step, gone_at) in steps.iter().zip([7, 5, 7]) {
            end_step(ledger, step, StepState::Gone, at(gone_at)).await;
        }
        let (mut since, mut after) = (at(5), 0);
        let mut found = Vec::new();
        while let Some(next) = ledger.held_down(since, after, 1).await.unwrap().pop() {
            (since, after) = (next.gone_at.unwrap(), next.record_id);
            found.push(next.key.id);
        }
        assert_eq!(found, ["b", "a", "c"]);
    })
    .await;
}

#[tokio::test]
async fn t14_t12_originals_are_listed_with_the_sites_of_their_copies_until_hold_down_ends() {
    on_each_store(async |ledger| {
        let mapped = |id: &str, by| Mapped {
            original: key("port", id),
            by,
            locals: vec![Local {
                site: Site::region("edge", "B"),
                copies: vec!["copy".to_owned()],
            }],
            parts: Vec::new(),
        };
        let mut plan = ports(&[("a", &[]), ("b", &[])]);
        plan.mapping = vec![mapped("a", CopiedBy::Tag), mapped("b", CopiedBy::Name)];
        start_deletion(ledger, "one", &plan).await;
        let originals = async |since| ledger.originals(at(since), 0, 10).await.unwrap();
        let found = originals(9).await;
        // The name is kept only if copies are found by name, so that other resources of that name can be reported.
        let by_name: Vec<bool> = found.iter().map(|it| it.name.is_some()).collect();
        assert_eq!(by_name, [false, true]);
        assert_eq!(found[0].tombstone.key, key("port", "a"));
        assert_eq!(found[0].locals, [Site::region("edge", "B")]);
        let recreated = |now| Change::Recreated {
            key: key("port", "a"),
            copy: Some(key("port", "new")),
            stuck: None,
            now,
        };
        assert_eq!(commit_one(ledger, recreated(at(1))).await, Applied::Done);
        assert_eq!(originals(9).await[0].tombstone.recreated, 1);
        commit_one(ledger, pause("one", true, at(1))).await;
        assert!(
            originals(9).await.is_empty(),
            "originals of a paused deletion are not listed"
        );
        commit_one(ledger, pause("one", false, at(1))).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        assert_eq!(originals(2).await.len(), 2);
        assert!(originals(3).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn t12_t14_a_gone_copy_of_a_target_that_is_being_planned_is_not_counted_as_recreated() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("copy", &[])])).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        let original = Target {
            key: ResourceKey {
                site: Site::region("edge", "B"),
                ..key("port", "original")
            },
            ..target("port", "original")
        };
        let planned = NewDeletion {
            copies: vec![key("port", "copy")],
            ..new_deletion("two", vec![original], at(5))
        };
        assert_eq!(
            commit_one(ledger, accept(planned)).await,
            accepted("two", false)
        );
        let recreated = Change::Recreated {
            key: key("port", "copy"),
            copy: None,
            stuck: None,
            now: at(6),
        };
        let counted = commit_one(ledger, recreated).await;
        assert!(
            matches!(&counted, Applied::Refused(why) if why.contains("has not started yet")),
            "{counted:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn i09_a_resource_of_two_deletions_is_claimed_once() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("shared", &[]), ("a", &[0])])).await;
        start_deletion(ledger, "two", &ports(&[("shared", &[]), ("b", &[0])])).await;
        assert_eq!(
            states(ledger, "two").await,
            [
                ("shared".to_owned(), StepState::Waiting),
                ("b".to_owned(), StepState::Waiting)
            ]
        );
        let claimed = claim(ledger, 10).await;
        let claimed: Vec<&str> = claimed.iter().map(|step| step.key.id.as_str()).collect();
        assert_eq!(claimed, ["shared"]);
        assert_eq!(tombstone(ledger, "shared").await.deletion_id, id("one"));

        // Cancelling the second deletion does not change the tombstone of the first.
        commit_one(ledger, cancel("two", at(5))).await;
        assert_eq!(tombstone(ledger, "shared").await.phase, Phase::Deleting);
    })
    .await;
}

#[tokio::test]
async fn i09_a_plan_with_the_same_step_twice_is_refused_without_failing_its_batch() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "a", at(0)).await;
        let applied = ledger
            .commit(vec![
                accept(new_deletion("two", vec![target("port", "z")], at(0))),
                start("one", &ports(&[("a", &[]), ("a", &[])]), at(1)),
                start("two", &ports(&[("z", &[])]), at(1)),
            ])
            .await
            .unwrap();
        assert!(matches!(&applied[1], Applied::Refused(_)), "{applied:?}");
        assert_eq!(applied[2], Applied::Done);
        assert!(states(ledger, "one").await.is_empty());
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.counts.total),
            (DeletionState::Planning, 0)
        );
        assert_eq!(tombstone(ledger, "a").await.phase, Phase::Checking);
    })
    .await;
}

#[tokio::test]
async fn an_idempotency_key_stands_for_one_request_of_one_actor_for_a_day() {
    on_each_store(async |ledger| {
        let keyed = |name: &str, resource: &str, now| {
            let new = new_deletion(name, vec![target("port", resource)], now);
            let request = KeyedRequest {
                actor: new.actor.clone(),
                key: "k1".to_owned(),
                body: resource.to_owned(),
            };
            NewDeletion {
                request: Some(request),
                ..new
            }
        };
        assert_eq!(
            commit_one(ledger, accept(keyed("one", "a", at(0)))).await,
            accepted("one", false)
        );
        commit_one(ledger, cancel("one", at(1))).await;
        assert_eq!(
            commit_one(ledger, accept(keyed("two", "a", at(2)))).await,
            accepted("one", true)
        );
        let other = commit_one(ledger, accept(keyed("three", "b", at(3)))).await;
        assert!(matches!(other, Applied::KeyReused(_)), "{other:?}");
        let mut someone_else = keyed("four", "b", at(4));
        someone_else.actor = actor(Origin::Api);
        let request = someone_else.request.as_mut().unwrap();
        request.actor = actor(Origin::Api);
        assert_eq!(
            commit_one(ledger, accept(someone_else)).await,
            accepted("four", false)
        );
        let next_day = at(24 * 3600);
        assert_eq!(
            commit_one(ledger, accept(keyed("five", "c", next_day))).await,
            accepted("five", false)
        );
    })
    .await;
}

#[tokio::test]
async fn a_deletion_with_an_empty_plan_is_gone_at_once() {
    on_each_store(async |ledger| {
        accept_port(ledger, "one", "root", at(0)).await;
        assert_eq!(
            commit_one(ledger, start("one", &plan(Vec::new()), at(1))).await,
            Applied::Done
        );
        let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
        assert_eq!(
            (deletion.state, deletion.finished_at),
            (DeletionState::Gone, Some(at(1)))
        );
        assert_eq!(tombstone(ledger, "root").await.phase, Phase::Gone);
    })
    .await;
}

#[tokio::test]
async fn p01_a_started_plan_and_a_saved_plan_are_read_back_unchanged() {
    on_each_store(async |ledger| {
        let mut plan = ports(&[("a", &[]), ("b", &[0]), ("c", &[0, 1])]);
        let vars = Arc::make_mut(&mut plan.steps[1].vars);
        vars.insert("router_id".to_owned(), "r".to_owned());
        plan.unset = vec![plan_step(3, Action::Unset, key("floating_ip", "f"), &[])];
        assert_eq!(ledger.frozen_plan(&id("one"), true).await.unwrap(), None);
        start_deletion(ledger, "one", &plan).await;
        claim_all_and_move_to(ledger, StepState::Gone).await;
        assert_eq!(
            ledger
                .frozen_plan(&id("one"), true)
                .await
                .unwrap()
                .as_deref(),
            Some(&plan)
        );

        let save = Change::SavePlan {
            plan: std::sync::Arc::new(plan.clone()),
            now: at(0),
        };
        commit_one(ledger, save).await;
        let day = 24 * 3600;
        assert_eq!(
            ledger
                .plan(&plan.hash, at(day - 1))
                .await
                .unwrap()
                .as_deref(),
            Some(&plan)
        );
        assert_eq!(ledger.plan(&plan.hash, at(day)).await.unwrap(), None);
    })
    .await;
}

/// Opens a ledger in a file, with the index of its tombstones in memory.
fn open_with_index(folder: &Folder) -> (InlineLedger, Arc<Tombstones>) {
    let index = Arc::<Tombstones>::default();
    let options = Options {
        tombstones: Some(index.clone()),
        ..Options::default()
    };
    let store = Store::open(&folder.ledger(), options).unwrap();
    (InlineLedger::new(store), index)
}

#[tokio::test]
async fn t03_a_tombstone_is_in_the_memory_index_when_its_commit_returns_and_after_a_restart() {
    const UUID: &str = "0C7BF79B-64c4-4ad9-a0a3-1059a152d7d3";
    let folder = Folder::new();
    let phase = |index: &Tombstones, id: &str| index.phase(&site(), &KindName::new("port"), id);
    let (ledger, index) = open_with_index(&folder);
    let targets = vec![target("port", UUID), target("port", "Image,Project")];
    commit_one(&ledger, accept(new_deletion("one", targets, at(0)))).await;
    for id in [UUID, &UUID.to_lowercase(), "image,project"] {
        assert_eq!(phase(&index, id), Some(Phase::Checking), "{id}");
    }
    assert_eq!(phase(&index, &UUID.replace('-', "")), None);
    drop(ledger);

    let (ledger, index) = open_with_index(&folder);
    assert_eq!(phase(&index, UUID), Some(Phase::Checking));
    assert!(index.any(&site(), &KindName::new("port")));
    assert!(!index.any(&site(), &KindName::new("network")));
    let refuse = Change::Refuse {
        deletion_id: id("one"),
        refused: Vec::new(),
        note: String::new(),
        now: at(1),
    };
    commit_one(&ledger, refuse).await;
    assert!(index.is_empty());
}

#[tokio::test]
async fn t14_a_write_guard_waits_only_for_writes_of_its_site_that_began_before_it() {
    let index = Arc::<Tombstones>::default();
    let elsewhere = Site::region("sandbox", "RegionTwo");
    let here = site();
    let before = index.begin_write(&here);
    let _other = index.begin_write(&elsewhere);
    let mut drained = Box::pin(index.drained(&here));
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    let _after = index.begin_write(&here);
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    drop(before);
    drained.await;
}

#[tokio::test]
async fn t07_the_snapshot_of_a_resource_is_kept_until_its_step_ends() {
    let folder = Folder::new();
    let (ledger, _) = open_with_index(&folder);
    let shown = serde_json::json!({"id": "a", "name": "web", "mtu": 1450});
    let before = async || ledger.shown_before(key("port", "a")).await.unwrap();
    let mut deletion = new_deletion("one", vec![target("port", "a")], at(0));
    deletion.shown = vec![(key("port", "a"), shown.clone())];
    commit_one(&ledger, accept(deletion)).await;
    assert_eq!(before().await, Some(shown.clone()));
    commit_one(&ledger, start("one", &ports(&[("a", &[])]), at(1))).await;
    assert_eq!(before().await, Some(shown));
    assert_eq!(ledger.shown_before(key("port", "b")).await.unwrap(), None);
    claim_all_and_move_to(&ledger, StepState::Gone).await;
    assert_eq!(before().await, None);
    let db = rusqlite::Connection::open(folder.ledger()).unwrap();
    let kept: i64 = db
        .query_row("SELECT count(*) FROM snapshots", (), |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 0);
}
