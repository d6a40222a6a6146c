//! Steps and refused deletions that need a person, and whether the person is asked about newcomers.

use gone::domain::attention::refused_step;
use gone::domain::drift::waits_for_drift_answer;
use gone::domain::model::{DeletionState, Origin, Refusal, RefusalRule, Site, Step, Target};

use crate::testkit;

#[test]
fn p11_a_plan_that_is_refused_because_the_cloud_changed_asks_about_no_newcomers() {
    let by = testkit::actor("ada", Origin::Cli);
    let at = "2026-01-02T03:04:05Z".parse().unwrap();
    let mut deletion = testkit::deletion("0189-0a1b2c3d", by, DeletionState::Refused, at);
    deletion.refused = vec![Refusal {
        resource: Target {
            key: testkit::key(Site::region("prod", "one"), "network", "4fdb"),
            name: "web".into(),
        },
        rule: RefusalRule::Drift,
        reason: "it does not exist (any more)".into(),
        blocker: None,
        changes: Vec::new(),
    }];
    let refused = refused_step(&deletion).unwrap();
    assert!(!waits_for_drift_answer(&refused));
    let stuck = Step { id: 1, ..refused };
    assert!(waits_for_drift_answer(&stuck));
}
