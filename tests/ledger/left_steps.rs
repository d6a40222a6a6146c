//! A step that is left to another deletion becomes gone or stuck with the step of that deletion, and takes the resource
//! over if that step is skipped or abandoned (P9).

use gone::domain::model::{DeletionState, ErrorClass, Origin, Phase, StepState, short_id};
use gone::ledger::{Applied, Change, ClaimedStep, Ledger, PurgeAction, RetryBy, Selection};

use crate::stores::on_each_store;
use crate::support::{
    at, cancel, claim, commit_one, end_step, entry, failure, id, key, outcome, ports, purge,
    record_outcome, retry, start_deletion, state_of, step_id,
};

/// Starts the deletions `one` and `two` of the same port. Returns the claimed step, which is that of `one`; the step of
/// `two` is left to it.
async fn claim_shared_port(ledger: &dyn Ledger) -> ClaimedStep {
    start_deletion(ledger, "one", &ports(&[("shared", &[])])).await;
    start_deletion(ledger, "two", &ports(&[("shared", &[])])).await;
    let mut claimed = claim(ledger, 10).await;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

async fn deletion_state(ledger: &dyn Ledger, name: &str) -> DeletionState {
    ledger.deletion(&id(name)).await.unwrap().unwrap().state
}

/// The phase of the shared port and the deletion that has its tombstone.
async fn shared_tombstone(ledger: &dyn Ledger) -> (Phase, String) {
    let found = ledger
        .tombstones_of(vec![key("port", "shared")])
        .await
        .unwrap();
    (found[0].phase, found[0].deletion_id.clone())
}

#[tokio::test]
async fn p09_a_step_left_to_another_deletion_is_gone_when_that_deletion_confirms_it() {
    on_each_store(async |ledger| {
        let owner = claim_shared_port(ledger).await;
        assert_eq!(state_of(ledger, "two", "shared").await, StepState::Waiting);
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Running);
        end_step(ledger, &owner, StepState::Gone, at(2)).await;
        assert_eq!(state_of(ledger, "two", "shared").await, StepState::Gone);
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Gone);
    })
    .await;
}

#[tokio::test]
async fn p09_a_step_left_to_a_stuck_step_is_stuck_and_names_the_deletion_to_retry() {
    on_each_store(async |ledger| {
        let owner = claim_shared_port(ledger).await;
        commit_one(
            ledger,
            record_outcome(failure(&owner, StepState::Stuck, ErrorClass::Fatal, at(2))),
        )
        .await;
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Stuck);
        let left = step_id(ledger, "two", "shared").await;
        let error = ledger
            .step(left)
            .await
            .unwrap()
            .unwrap()
            .last_error
            .unwrap();
        let by = short_id(&id("one")).to_owned();
        assert!(
            error.message.contains("still in use")
                && error.message.contains(&format!("gone retry {by}")),
            "{}",
            error.message
        );

        // A retry of the deletion whose step is left is refused, names the deletion to retry, and sends nothing.
        let own = retry(Selection::Deletion(id("two")), Origin::Cli, at(3));
        let Applied::Refused(why) = commit_one(ledger, own).await else {
            panic!("the left step was retried beside its owner");
        };
        assert!(why.contains(&format!("gone retry {by}")), "{why}");
        assert!(claim(ledger, 10).await.is_empty());

        let owners = retry(Selection::Deletion(id("one")), Origin::Cli, at(4));
        assert_eq!(commit_one(ledger, owners).await, Applied::Moved(1));
        assert_eq!(state_of(ledger, "two", "shared").await, StepState::Waiting);
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Running);
    })
    .await;
}

#[tokio::test]
async fn p09_a_step_left_to_a_step_that_is_already_stuck_starts_stuck() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("shared", &[])])).await;
        let owner = claim(ledger, 10).await.remove(0);
        commit_one(
            ledger,
            record_outcome(failure(&owner, StepState::Stuck, ErrorClass::Fatal, at(2))),
        )
        .await;
        start_deletion(ledger, "two", &ports(&[("shared", &[]), ("after", &[0])])).await;
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Stuck);
        assert_eq!(state_of(ledger, "two", "after").await, StepState::Stuck);
    })
    .await;
}

#[tokio::test]
async fn p09_an_unsent_step_of_a_cancelled_deletion_is_taken_over_by_another_deletion() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("shared", &[])])).await;
        start_deletion(ledger, "two", &ports(&[("shared", &[])])).await;
        start_deletion(ledger, "three", &ports(&[("shared", &[])])).await;
        assert_eq!(
            commit_one(ledger, cancel("one", at(2))).await,
            Applied::Done
        );
        assert_eq!(shared_tombstone(ledger).await, (Phase::Deleting, id("two")));
        let mut claimed = claim(ledger, 10).await;
        assert_eq!(claimed.len(), 1, "one step for each resource (I9)");
        assert_eq!(claimed[0].deletion_id, id("two"));
        commit_one(
            ledger,
            record_outcome(outcome(&claimed.remove(0), StepState::Gone, at(3))),
        )
        .await;
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Gone);
        assert_eq!(deletion_state(ledger, "three").await, DeletionState::Gone);
        assert_eq!(
            deletion_state(ledger, "one").await,
            DeletionState::Cancelled
        );
    })
    .await;
}

#[tokio::test]
async fn p09_a_step_left_to_an_abandoned_step_is_stuck_until_a_person_retries_it() {
    on_each_store(async |ledger| {
        let owner = claim_shared_port(ledger).await;
        commit_one(
            ledger,
            record_outcome(failure(&owner, StepState::Stuck, ErrorClass::Fatal, at(2))),
        )
        .await;
        let abandon = purge(Selection::Deletion(id("one")), PurgeAction::Forget, at(3));
        assert_eq!(commit_one(ledger, abandon).await, Applied::Moved(1));
        assert_eq!(deletion_state(ledger, "two").await, DeletionState::Stuck);
        assert!(
            claim(ledger, 10).await.is_empty(),
            "nothing is sent before a person retries the step"
        );
        let again = Change::Retry {
            selection: Selection::Deletion(id("two")),
            by: RetryBy::Person,
            audit: entry("retry", "two", Origin::Cli),
            now: at(4),
        };
        assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
        assert_eq!(claim(ledger, 10).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn p09_a_left_step_keeps_following_its_owner_after_its_own_dependency_is_abandoned() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("earlier", &[]), ("shared", &[0])])).await;
        start_deletion(ledger, "two", &ports(&[("first", &[]), ("shared", &[0])])).await;
        let claimed = claim(ledger, 10).await;
        let first = claimed.iter().find(|step| step.key.id == "first").unwrap();
        commit_one(
            ledger,
            record_outcome(failure(
                first,
                StepState::Blocked,
                ErrorClass::Blocked,
                at(2),
            )),
        )
        .await;
        let chosen = Selection::Steps(vec![step_id(ledger, "two", "first").await]);
        assert_eq!(
            commit_one(ledger, purge(chosen, PurgeAction::Forget, at(3))).await,
            Applied::Moved(1)
        );
        assert_eq!(state_of(ledger, "two", "shared").await, StepState::Waiting);

        // Once the step has taken the resource over, it needs a person, because its abandoned dependency may still
        // block it.
        assert_eq!(
            commit_one(ledger, cancel("one", at(4))).await,
            Applied::Done
        );
        assert_eq!(state_of(ledger, "two", "shared").await, StepState::Stuck);
        assert!(
            claim(ledger, 10).await.is_empty(),
            "nothing is sent before a person retries the step"
        );
        let again = retry(Selection::Deletion(id("two")), Origin::Cli, at(5));
        assert_eq!(commit_one(ledger, again).await, Applied::Moved(1));
        assert_eq!(claim(ledger, 10).await.len(), 1);
    })
    .await;
}
