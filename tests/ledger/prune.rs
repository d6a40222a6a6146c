//! Pruning removes old events, deletions and tombstones, and keeps stuck and abandoned deletions, the audit, and the
//! records of natural keys.

use gone::domain::model::{DeletionState, KindName, Phase, StepState};
use gone::ledger::{
    Applied, Change, EventFilter, Ledger, PurgeAction, Selection, StepFilter, TombstoneFilter,
};

use crate::stores::on_each_store;
use crate::support::*;

/// Prunes piece by piece until nothing is left to prune. Returns the number of events, steps and deletions
/// that were removed.
async fn prune(ledger: &dyn Ledger, before: i64) -> u64 {
    let mut rows = 0;
    loop {
        let piece = Change::Prune {
            before: at(before),
            unique_id_kinds: unique_id_kinds(),
            audit: None,
            now: at(before),
        };
        match commit_one(ledger, piece).await {
            Applied::Moved(0) => return rows,
            Applied::Moved(moved) => rows += moved,
            other => panic!("{other:?}"),
        }
    }
}

async fn phase_of(ledger: &dyn Ledger, id: &str) -> Option<Phase> {
    let filter = TombstoneFilter {
        id: Some(id.to_owned()),
        ..TombstoneFilter::default()
    };
    let page = ledger.tombstones(filter, first_page()).await.unwrap();
    page.rows.first().map(|row| row.phase)
}

#[tokio::test]
async fn m01_an_old_deletion_is_pruned_and_a_natural_key_keeps_its_record() {
    on_each_store(async |ledger| {
        let mut old = ports(&[("p", &[]), ("router,subnet", &[0])]);
        old.steps[1].kind = KindName::new("router_interface");
        start_deletion(ledger, "old", &old).await;
        while !claim_all_and_move_to(ledger, StepState::Gone)
            .await
            .is_empty()
        {}
        start_deletion(ledger, "new", &ports(&[("b", &[])])).await;
        let before = ledger.audit(0, 100).await.unwrap();

        prune(ledger, 2).await;
        assert!(
            ledger.deletion(&id("old")).await.unwrap().is_some(),
            "it ended at this time, not before"
        );
        prune(ledger, 10).await;
        assert!(ledger.deletion(&id("old")).await.unwrap().is_none());
        let of_old = StepFilter {
            deletion_id: Some(id("old")),
            ..StepFilter::default()
        };
        assert!(
            ledger
                .steps(of_old, first_page())
                .await
                .unwrap()
                .rows
                .is_empty()
        );
        assert_eq!(phase_of(ledger, "p").await, None);
        assert_eq!(phase_of(ledger, "router,subnet").await, Some(Phase::Gone));
        assert_eq!(
            ledger.audit(0, 100).await.unwrap(),
            before,
            "the audit is never pruned"
        );
        assert_eq!(states(ledger, "new").await.len(), 1);
        let summary = ledger.summary().await.unwrap();
        assert_eq!((summary.steps.total, summary.steps.gone), (1, 0));

        // The re-created resource is deleted again under the record that it had.
        let mut again = ports(&[("router,subnet", &[])]);
        again.steps[0].kind = KindName::new("router_interface");
        start_deletion(ledger, "again", &again).await;
        let filter = TombstoneFilter {
            id: Some("router,subnet".to_owned()),
            ..TombstoneFilter::default()
        };
        let again = ledger
            .tombstones(filter, first_page())
            .await
            .unwrap()
            .rows
            .remove(0);
        assert_eq!((again.incarnation, again.deletion_id), (2, id("again")));
    })
    .await;
}

#[tokio::test]
async fn p03_stuck_and_abandoned_deletions_are_not_pruned() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "stuck", &ports(&[("a", &[])])).await;
        start_deletion(ledger, "forgotten", &ports(&[("b", &[])])).await;
        claim_all_and_move_to(ledger, StepState::Stuck).await;
        let what = Selection::Deletion(id("forgotten"));
        commit_one(ledger, purge(what, PurgeAction::Forget, at(3))).await;
        start_deletion(ledger, "new", &ports(&[("c", &[])])).await;
        prune(ledger, 1_000).await;
        for (name, state) in [
            ("stuck", DeletionState::Stuck),
            ("forgotten", DeletionState::Purged),
        ] {
            let kept = ledger.deletion(&id(name)).await.unwrap().unwrap();
            assert_eq!((kept.state, kept.counts.total), (state, 1));
        }
        assert_eq!(ledger.orphans(first_page()).await.unwrap().rows.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn old_events_are_pruned_and_readers_get_the_number_of_the_oldest_event_that_is_left() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let events = async || ledger.events(0, EventFilter::default(), 100).await.unwrap();
        let page = events().await;
        let (count, newest) = (page.events.len(), page.newest);
        assert_eq!(page.oldest, 1);
        claim_all_and_move_to(ledger, StepState::Gone).await;
        prune(ledger, 1).await;
        let page = events().await;
        assert_eq!(page.oldest, newest + 1, "{count} events were of second 0");
        assert!(page.events.iter().all(|event| event.at >= at(1)));
        prune(ledger, 1_000).await;
        let page = events().await;
        assert_eq!((page.events.len(), page.oldest), (0, page.newest + 1));
        assert!(page.newest > newest);
    })
    .await;
}

#[tokio::test]
async fn a_large_deletion_is_pruned_in_pieces_and_its_counts_stay_true() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "large", &many_ports(2_500)).await;
        commit_one(ledger, cancel("large", at(1))).await;
        start_deletion(ledger, "new", &ports(&[("b", &[])])).await;
        let mut left = Vec::new();
        loop {
            let piece = Change::Prune {
                before: at(1_000),
                unique_id_kinds: unique_id_kinds(),
                audit: None,
                now: at(1_000),
            };
            if commit_one(ledger, piece).await == Applied::Moved(0) {
                break;
            }
            let large = ledger.deletion(&id("large")).await.unwrap();
            left.push(large.map(|large| (large.counts.skipped, large.counts.total)));
        }
        left.dedup();
        let expected = [Some((2_500, 2_500)), Some((500, 500)), Some((0, 0)), None];
        assert_eq!(left, expected);
    })
    .await;
}
