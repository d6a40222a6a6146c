//! Steps and deletions: who waits for whom, who may write, when all is over.

use gone::domain::model::{DeletionState, Phase, StepState};
use gone::ledger::Ledger;

use crate::support::*;

#[tokio::test]
async fn t09_steps_and_tombstones_end_together() {
    let ledger = memory();
    let plan = ports(&[("a", &[]), ("b", &[0]), ("c", &[0, 1])]);
    running(&ledger, "one", &plan).await;

    for round in 0..3 {
        let claimed = claim_all_to(&ledger, StepState::Gone).await;
        assert_eq!(claimed.len(), 1, "round {round}");
        let held = ledger
            .tombstones_of(vec![claimed[0].key.clone()])
            .await
            .unwrap();
        assert_eq!(held[0].phase, Phase::Gone);
        assert_eq!(held[0].gone_at, Some(at(2)));
    }
    let deletion = ledger.deletion(&id("one")).await.unwrap().unwrap();
    assert_eq!(deletion.state, DeletionState::Gone);
    assert_eq!(deletion.finished_at, Some(at(2)));
    assert_eq!((deletion.counts.gone, deletion.counts.total), (3, 3));
}
