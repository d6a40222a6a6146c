//! Story 7, the engine's part: 1,500 failures of an outage, in three causes.

use serde_json::{Value, json};

use super::stage::{Stage, until};

/// The deletion of 1,500 ports that the outage left: each cause with its 500.
fn after_the_outage(stage: &mut Stage) -> Value {
    // What one port is refused for needs no eight attempts here.
    let settings = "[gc.kind.port]\nmax_attempts = 1\n\
        [[guard.protect]]\nkind = 'port'\nname = 'keep-*'\n";
    stage.write(".config/gone/config.toml", settings);
    stage.serve_cloud("outage");
    stage.start_engine(&[]);
    stage.say(&["delete", "network/shop-net-0", "--cascade", "--yes"]);
    // What is left: the network that waits for the stuck ones, and what has its looks still to come.
    stage.deletion_until("the failures", |deletion| {
        let counts = &deletion["counts"];
        counts["stuck"].as_u64() > Some(999) && counts["running"] == 0 && counts["ready"] == 0
    })
}

#[test]
fn story_7_a_cause_at_a_time_is_counted_first_and_then_tried_again() {
    let mut stage = Stage::new();
    after_the_outage(&mut stage);
    let retried = |options: &[&str]| stage.json(&[&["retry", "--all"], options].concat());
    let refused = ["--type", "PolicyNotAuthorized"];
    let counted = retried(&[&refused[..], &["--dry-run"]].concat());
    assert_eq!(
        counted,
        json!({ "eligible": 500, "not_eligible": [], "moved": 0 })
    );
    assert_eq!(stage.only_deletion()["state"], "stuck");
    // The network waits for others, and is none of them.
    let whole = retried(&["--dry-run"]);
    assert_eq!(
        whole["not_eligible"],
        json!([{ "reason": "waits for another that is stuck", "steps": 1 }])
    );

    let moved = retried(&refused);
    assert_eq!(
        (&moved["eligible"], &moved["moved"]),
        (&json!(500), &json!(500))
    );
    // A cause that is over finds nothing more.
    let told = || retried(&[&refused[..], &["--dry-run"]].concat()).to_string();
    until("the first cause's end", told, || {
        let counted = retried(&[&refused[..], &["--dry-run"]].concat());
        (counted["eligible"] == 0).then_some(())
    });
    let said = stage.say(&["retry", "--all", "--status", "400"]);
    assert!(
        said.starts_with("500 eligible, 0 not; 500 tried again"),
        "{said}"
    );
    stage.say(&["retry", "--all", "--kind", "port"]);
    stage.deletion_until("end", |deletion| deletion["state"] == "gone");
}
