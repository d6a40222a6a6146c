//! Reads for screens and scripts: pages, short ids, causes, rates, and the summary.

use gone::domain::attention::Cause;
use gone::domain::model::{Action, Blocker, DeletionState, ErrorClass, KindName, Site, StepState};
use gone::ledger::{Cursor, DeletionFilter, Ledger, LedgerError, StepFilter, TombstoneFilter};

use crate::stores::on_each_store;
use crate::support::*;

fn page(after: Option<String>, limit: usize) -> Cursor {
    Cursor { after, limit }
}

#[tokio::test]
async fn pages_of_deletions_are_newest_first_and_complete() {
    on_each_store(async |ledger| {
        for n in 0..7 {
            let name = format!("n{n}");
            start_deletion(ledger, &name, &ports(&[(&name, &[])])).await;
        }
        commit_one(ledger, pause("n3", true, at(1))).await;
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let page = ledger
                .deletions(DeletionFilter::default(), page(after, 3))
                .await
                .unwrap();
            assert!(page.rows.len() <= 3);
            ids.extend(page.rows.into_iter().map(|d| d.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(
            ids,
            (0..7)
                .rev()
                .map(|n| id(&format!("n{n}")))
                .collect::<Vec<_>>()
        );

        let filtered = |filter| async {
            ledger
                .deletions(filter, first_page())
                .await
                .unwrap()
                .rows
                .len()
        };
        let states = vec![DeletionState::Paused, DeletionState::Gone];
        assert_eq!(
            filtered(DeletionFilter {
                states,
                ..Default::default()
            })
            .await,
            1
        );
        let kind = Some(KindName::new("port"));
        assert_eq!(
            filtered(DeletionFilter {
                kind,
                site: Some(site()),
                ..Default::default()
            })
            .await,
            7
        );
        let elsewhere = Some(Site::region("cloud", "two"));
        assert_eq!(
            filtered(DeletionFilter {
                site: elsewhere,
                ..Default::default()
            })
            .await,
            0
        );
        assert_eq!(
            filtered(DeletionFilter {
                older_than: Some(at(0)),
                ..Default::default()
            })
            .await,
            0
        );
        assert_eq!(
            filtered(DeletionFilter {
                older_than: Some(at(1)),
                ..Default::default()
            })
            .await,
            7
        );
    })
    .await;
}

#[tokio::test]
async fn pages_of_steps_continue_across_deletions_and_states() {
    on_each_store(async |ledger| {
        for name in ["aa", "bb"] {
            let ids: Vec<String> = (0..5).map(|n| format!("{name}{n}")).collect();
            let steps: Vec<(&str, &[u32])> =
                ids.iter().map(|id| (id.as_str(), &[] as &[u32])).collect();
            start_deletion(ledger, name, &ports(&steps)).await;
        }
        claim_some_gone(ledger).await;
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let page = ledger
                .steps(StepFilter::default(), page(after, 3))
                .await
                .unwrap();
            ids.extend(page.rows.into_iter().map(|s| s.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(ids, (1..=10).collect::<Vec<i64>>());
        let gone = StepFilter {
            states: vec![StepState::Gone],
            deletion_id: Some(id("aa")),
            ..Default::default()
        };
        assert_eq!(
            ledger.steps(gone, first_page()).await.unwrap().rows.len(),
            2
        );
        let none = StepFilter {
            deletion_id: Some(id("none")),
            ..Default::default()
        };
        assert!(
            ledger
                .steps(none, first_page())
                .await
                .unwrap()
                .rows
                .is_empty()
        );
        let other = StepFilter {
            kind: Some(KindName::new("router")),
            ..Default::default()
        };
        assert!(
            ledger
                .steps(other, first_page())
                .await
                .unwrap()
                .rows
                .is_empty()
        );
        let old = StepFilter {
            older_than: Some(at(1)),
            ..Default::default()
        };
        assert_eq!(ledger.steps(old, first_page()).await.unwrap().rows.len(), 6);
    })
    .await;
}

#[tokio::test]
async fn steps_that_need_a_person_are_grouped_by_cause() {
    on_each_store(async |ledger| {
        let ids: Vec<String> = (0..8).map(|n| format!("p{n}")).collect();
        let steps: Vec<(&str, &[u32])> =
            ids.iter().map(|id| (id.as_str(), &[] as &[u32])).collect();
        let mut plan = ports(&steps);
        plan.steps
            .push(plan_step(8, Action::Delete, key("network", "n"), &[0]));
        start_deletion(ledger, "aa", &plan).await;
        let claimed = claim(ledger, 8).await;
        let blocker = |in_plan| Blocker {
            kind: KindName::new("floating_ip"),
            id: "f".into(),
            name: String::new(),
            site: site(),
            owner: "demo".into(),
            owner_name: String::new(),
            since: None,
            in_plan,
            holds: None,
        };
        let blocked = |step, in_plan| {
            with_decision(
                failure(step, StepState::Blocked, ErrorClass::Blocked, at(7)),
                |it| it.blockers = vec![blocker(in_plan)],
            )
        };
        let refused = |step, seconds| {
            let mut change = failure(step, StepState::Stuck, ErrorClass::Fatal, at(seconds));
            let error = change.decision.error.as_mut().unwrap();
            (error.status, error.kind) = (Some(403), "PolicyNotAuthorized".into());
            change
        };
        for change in [
            failure(&claimed[0], StepState::Stuck, ErrorClass::Blocked, at(4)),
            refused(&claimed[1], 6),
            refused(&claimed[2], 5),
            refused(&claimed[3], 9),
            blocked(&claimed[4], false),
            blocked(&claimed[5], false),
            // This step continues by itself once its blocker, which is in the plan, is gone.
            blocked(&claimed[6], true),
            // This step has no error.
            outcome(&claimed[7], StepState::Stuck, at(8)),
        ] {
            commit_one(ledger, record_outcome(change)).await;
        }
        let causes = ledger.causes(Vec::new()).await.unwrap();
        assert_eq!(ledger.causes(vec![site()]).await.unwrap(), causes);
        let elsewhere = Site::region("cloud", "two");
        assert_eq!(ledger.causes(vec![elsewhere]).await.unwrap(), []);
        let shown: Vec<(u64, &str, Option<u16>, StepState)> = causes
            .iter()
            .map(|it| {
                let cause = &it.cause;
                let kind = cause.error_type.as_deref().unwrap_or("");
                (it.steps, kind, cause.status, cause.state)
            })
            .collect();
        assert_eq!(
            shown,
            [
                (3, "PolicyNotAuthorized", Some(403), StepState::Stuck),
                (2, "PortInUse", Some(409), StepState::Blocked),
                (1, "PortInUse", Some(409), StepState::Stuck),
                (1, "", None, StepState::Stuck),
                (1, "DependencyStuck", None, StepState::Stuck),
            ]
        );
        assert_eq!(
            (causes[0].since, &*causes[0].message),
            (at(5), "still in use")
        );
        // Each cause equals the cause of each of its steps, and a filter by it finds just these steps.
        let mut found = 0;
        for cause in causes {
            let filter = StepFilter {
                states: vec![StepState::Stuck, StepState::Blocked],
                cause: Some(cause.cause.clone()),
                ..Default::default()
            };
            let steps = ledger.steps(filter, first_page()).await.unwrap().rows;
            assert_eq!(steps.len() as u64, cause.steps, "{cause:?}");
            for step in &steps {
                assert_eq!(Cause::of(step).as_ref(), Some(&cause.cause));
            }
            found += steps.len();
        }
        assert_eq!(found, 8);
    })
    .await;
}

async fn claim_some_gone(ledger: &dyn Ledger) {
    for step in claim(ledger, 4).await {
        end_step(ledger, &step, StepState::Gone, at(2)).await;
    }
}

#[tokio::test]
async fn a_page_is_never_longer_than_500() {
    on_each_store(async |ledger| {
        let ids: Vec<String> = (0..600).map(|n| format!("p{n}")).collect();
        let steps: Vec<(&str, &[u32])> =
            ids.iter().map(|id| (id.as_str(), &[] as &[u32])).collect();
        start_deletion(ledger, "one", &ports(&steps)).await;
        for limit in [0, 500, 9999] {
            let steps = ledger
                .steps(StepFilter::default(), page(None, limit))
                .await
                .unwrap();
            assert_eq!(steps.rows.len(), 500);
            let rest = ledger
                .steps(StepFilter::default(), page(steps.next, limit))
                .await
                .unwrap();
            assert_eq!((rest.rows.len(), rest.next), (100, None));
            let tombstones = ledger
                .tombstones(TombstoneFilter::default(), page(None, limit))
                .await
                .unwrap();
            assert_eq!(tombstones.rows.len(), 500);
        }
    })
    .await;
}

#[tokio::test]
async fn a_malformed_cursor_is_refused() {
    on_each_store(async |ledger| {
        for text in ["", "x", "1:2:3", "9999999999999999999999"] {
            let page = page(Some(text.to_owned()), 3);
            let error = ledger.steps(StepFilter::default(), page).await.unwrap_err();
            assert!(matches!(error, LedgerError::Cursor { .. }), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_short_id_finds_the_only_deletion_whose_id_ends_with_it() {
    on_each_store(async |ledger| {
        for name in ["1abcdefgh", "2abcdefgh", "ijklmnop"] {
            start_deletion(ledger, name, &ports(&[(name, &[])])).await;
        }
        let found =
            |text: &'static str| async { ledger.deletion(text).await.unwrap().map(|d| d.id) };
        assert_eq!(found("ijklmnop").await, Some(id("ijklmnop")));
        assert_eq!(found("0ijklmnop").await, Some(id("ijklmnop")));
        assert_eq!(found("jklmnop").await, None, "too short");
        assert_eq!(found("abcdefgh").await, None, "fits two");
        assert_eq!(found("2abcdefgh").await, Some(id("2abcdefgh")));
        assert_eq!(found("xabcdefgh").await, None);
        assert_eq!(found("äöüäöüäö").await, None);
    })
    .await;
}

#[tokio::test]
async fn the_remaining_time_is_computed_from_the_rate_of_the_last_minute() {
    on_each_store(async |ledger| {
        let ids: Vec<String> = (0..100).map(|n| format!("p{n}")).collect();
        let steps: Vec<(&str, &[u32])> =
            ids.iter().map(|id| (id.as_str(), &[] as &[u32])).collect();
        start_deletion(ledger, "one", &ports(&steps)).await;
        let eta = || async {
            ledger
                .deletion(&id("one"))
                .await
                .unwrap()
                .unwrap()
                .eta_seconds
        };
        assert_eq!(eta().await, None);
        // One step ends each second.
        for second in 1..=50 {
            let step = ledger
                .claim(vec![capacity(1)], at(second))
                .await
                .unwrap()
                .remove(0);
            end_step(ledger, &step, StepState::Gone, at(second)).await;
        }
        let seconds = eta().await.unwrap();
        assert!((45..=55).contains(&seconds), "{seconds}");
        // No step ends for more than a minute.
        accept_port(ledger, "two", "x", at(120)).await;
        assert_eq!(eta().await, None);
    })
    .await;
}

#[tokio::test]
async fn the_summary_counts_over_all_deletions() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "aa", &ports(&[("a", &[]), ("b", &[0])])).await;
        start_deletion(ledger, "bb", &ports(&[("c", &[])])).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        let summary = ledger.summary().await.unwrap();
        assert_eq!((summary.steps.stuck, summary.steps.total), (3, 3));
        let stuck = summary
            .deletions_by_state
            .iter()
            .find(|(s, _)| *s == DeletionState::Stuck);
        assert_eq!(stuck.unwrap().1, 2);
        assert!(summary.deletions.is_empty(), "no deletion is active");
        let attention: Vec<_> = summary
            .attention
            .iter()
            .map(|s| s.resource.key.id.as_str())
            .collect();
        assert_eq!(attention, ["a", "c"]);
    })
    .await;
}

#[tokio::test]
async fn i16_deletions_in_planning_are_listed_in_the_order_of_their_acceptance() {
    on_each_store(async |ledger| {
        for n in 0..5 {
            let root = target("port", &format!("p{n}"));
            commit_one(
                ledger,
                accept(new_deletion(&format!("n{n}"), vec![root], at(n))),
            )
            .await;
        }
        let mut read = Vec::new();
        let mut after = None;
        loop {
            let filter = DeletionFilter {
                states: vec![DeletionState::Planning],
                oldest_first: true,
                ..Default::default()
            };
            let page = Cursor { after, limit: 2 };
            let page = ledger.deletions(filter, page).await.unwrap();
            read.extend(page.rows.into_iter().map(|deletion| deletion.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let accepted: Vec<String> = (0..5).map(|n| id(&format!("n{n}"))).collect();
        assert_eq!(read, accepted);
    })
    .await;
}
