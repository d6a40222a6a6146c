//! Story 7: 1,500 failures of an outage, in three causes.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};

/// The deletion of 1,500 ports that the outage left: each cause with its 500.
fn after_the_outage(stage: &mut Stage) -> Cloud {
    // What one port is refused for needs no eight attempts here.
    let settings = "[gc.kind.port]\nmax_attempts = 1\n\
        [[guard.protect]]\nkind = 'port'\nname = 'keep-*'\n";
    stage.write(".config/gone/config.toml", settings);
    let cloud = stage.serve_cloud("outage");
    stage.start_engine(&[]);
    stage.say(&["delete", "network/shop-net-0", "--cascade", "--yes"]);
    // What is left: the network that waits for the stuck ones, and what has its looks still to come.
    stage.deletion_until("the failures", |deletion| {
        let counts = &deletion["counts"];
        counts["stuck"].as_u64() > Some(999) && counts["running"] == 0 && counts["ready"] == 0
    });
    cloud
}

/// Ports that the cloud forbade to delete, and that are protected from now on.
fn protect(stage: &Stage, cloud: &Cloud, count: usize) {
    let stuck: Value = stage.json(&["list", "stuck"]);
    let stuck = stuck.as_array().unwrap().iter();
    let forbidden = stuck.filter(|step| step["last_error"]["status"] == 403);
    for (n, step) in forbidden.take(count).enumerate() {
        let path = format!("/ports/{}", step["resource"]["id"].as_str().unwrap());
        let name = json!({"port": {"name": format!("keep-{n}")}});
        let (status, answer) = cloud.call("admin", "PUT", &path, name);
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn story_7_p04_causes_are_marked_counted_and_tried_again_from_the_console() {
    let mut stage = Stage::new();
    let cloud = after_the_outage(&mut stage);
    protect(&stage, &cloud, 20);
    let writes = cloud.writes().len();
    let mut seat = Seat::take(&stage, &[]);
    seat.see("✖");
    seat.go("stuck", "stuck");
    seat.see("PolicyNotAuthorized");
    seat.press("g");
    seat.see_all(&[
        "500 port 403 PolicyNotAuthorized (fatal)",
        "500 port 400 BadRequest (fatal)",
        "500 port 404 HTTPNotFound (fatal)",
        "1 network DependencyStuck",
    ]);
    seat.press(" ");
    seat.see("1 marked");
    seat.press("j j ");
    seat.see("3 marked");
    seat.press("r");
    seat.see_all(&[
        "1,480 eligible, 20 not",
        "20 not: it is protected",
        "how many are tried again: 1480",
    ]);
    // What does not say how many does nothing.
    seat.press("1000\r");
    seat.see("That is not it");
    assert_eq!(cloud.writes().len(), writes);
    seat.press("\u{15}1480\r");
    seat.see("1,480 tried again, 20 not");
    stage.deletion_until("all but the protected", |deletion| {
        let counts = &deletion["counts"];
        counts["stuck"] == 21 && counts["running"] == 0 && counts["ready"] == 0
    });
    seat.see_all(&["20 port 403 PolicyNotAuthorized"]);
    seat.press("g\r");
    seat.see("── port stuck, 403 PolicyNotAuthorized (fatal): 20");
    seat.press("q");
    seat.left();
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
