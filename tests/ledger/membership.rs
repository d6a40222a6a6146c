//! The rules for an engine while other engines share its ledger: which calls it may send, and which share of a limit it
//! has.

use std::time::Duration;

use gone::domain::model::StepState;
use gone::ledger::{Applied, Change, Membership};
use tokio::time::Instant;

use crate::stores::on_each_store;
use crate::support::{
    at, claim, commit_one, outcome, ports, record_outcome, start_deletion, states,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn i11_an_engine_sends_no_call_whose_deadline_is_after_the_end_of_its_lease() {
    let now = Instant::now();
    let membership = Membership {
        until: Some(now + SECOND * 60),
        ..Membership::alone(1)
    };
    assert!(membership.may_send(SECOND * 60, now).is_ok());
    let refused = membership.may_send(SECOND * 60, now + SECOND).unwrap_err();
    assert!(refused.contains("lease may end"), "{refused}");
    let away = Membership {
        fault: Some("the ledger does not answer".to_owned()),
        ..membership
    };
    assert!(away.may_send(SECOND, now).is_err());
    assert!(Membership::alone(1).may_send(SECOND * 1_000, now).is_ok());
}

#[test]
fn i11_a_step_claimed_before_the_lease_was_lost_is_not_sent() {
    let now = Instant::now();
    let renewed = Membership {
        until: Some(now + SECOND * 60),
        ..Membership::alone(2)
    };
    let refused = renewed.may_send_step(1, SECOND, now).unwrap_err();
    assert!(refused.contains("since the step was claimed"), "{refused}");
    assert!(renewed.may_send_step(2, SECOND, now).is_ok());
    assert!(renewed.may_send_step(2, SECOND * 61, now).is_err());
}

#[test]
fn n14_the_shares_of_all_engines_add_up_to_the_limit_and_differ_by_at_most_one() {
    for limit in 0..20 {
        for working in 1..8 {
            let share_of = |rank| {
                let membership = Membership {
                    working,
                    rank: Some(rank),
                    ..Membership::alone(1)
                };
                membership.share_of(limit)
            };
            let shares: Vec<usize> = (0..working).map(share_of).collect();
            assert_eq!(shares.iter().sum::<usize>(), limit);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{shares:?}");
        }
    }
    let idle = Membership {
        rank: None,
        ..Membership::alone(1)
    };
    assert_eq!(idle.share_of(8), 0);
}

#[tokio::test]
async fn i11_an_engine_that_takes_over_keeps_its_own_steps_in_flight() {
    on_each_store(async |ledger| {
        start_deletion(ledger, "one", &ports(&[("a", &[])])).await;
        let claimed = claim(ledger, 1).await;
        let taken = commit_one(ledger, Change::TakeOver { now: at(1) }).await;
        assert_eq!(taken, Applied::Moved(0));
        let gone = record_outcome(outcome(&claimed[0], StepState::Gone, at(2)));
        assert_eq!(commit_one(ledger, gone).await, Applied::Done);
        let states = states(ledger, "one").await;
        assert_eq!(states, [("a".to_owned(), StepState::Gone)]);
    })
    .await;
}
