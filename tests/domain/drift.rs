//! The note of a deletion whose newcomers a person refused.

use gone::domain::drift::refusal_note;
use gone::domain::model::{Blocker, KindName, Site, Step, StepState};

use crate::testkit;

#[test]
fn p11_the_note_of_a_refusal_names_five_newcomers_of_a_step_and_counts_the_others() {
    let site = Site::region("prod", "one");
    let newcomer = |n: u32| Blocker {
        kind: KindName::new("port"),
        id: format!("p{n}"),
        name: format!("web-{n}"),
        site: site.clone(),
        owner: String::new(),
        owner_name: String::new(),
        since: None,
        in_plan: false,
        holds: None,
    };
    let note = |newcomers: u32| {
        let key = testkit::key(site.clone(), "network", "n1");
        let step = Step {
            blockers: (1..=newcomers).map(newcomer).collect(),
            ..testkit::step(1, "d1", key, StepState::Stuck)
        };
        refusal_note(&[step])
    };
    assert_eq!(
        note(1),
        "newcomers were refused: network n1 stays, because of port web-1 (p1)"
    );
    assert!(note(5).ends_with(", port web-5 (p5)"), "{}", note(5));
    assert!(
        note(7).ends_with(", port web-5 (p5) and 2 more"),
        "{}",
        note(7)
    );
}
