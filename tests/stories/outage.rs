//! Story 7: 1,500 failures of an outage, in three causes; otherwise told fewer.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

/// The morning after the deletion of the ports: each cause has a third of them.
fn after_the_outage(stage: &mut Stage) -> Cloud {
    let settings = "[[guard.protect]]\nkind = 'port'\nname = 'keep-*'\n";
    stage.write(".config/gone/config.toml", settings);
    stage.start_practice("outage");
    stage.carried_cloud()
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
    tell(&Telling::as_written());
}

#[test]
fn story_7_p04_causes_are_marked_counted_and_tried_again_from_the_console_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_7_p04_causes_are_marked_counted_and_tried_again_from_the_console_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = after_the_outage(&mut stage);
    protect(&stage, &cloud, 20);
    let writes = cloud.writes().len();
    let mut seat = Seat::take(&stage, &[]);
    seat.see("✖");
    seat.go("stuck", "stuck");
    seat.see("PolicyNotAuthorized");
    seat.press("g");
    let third = telling.count(500);
    seat.see_all(&[
        &format!("{third} port 403 PolicyNotAuthorized (fatal)"),
        &format!("{third} port 400 BadRequest (fatal)"),
        &format!("{third} port 404 HTTPNotFound (fatal)"),
        "1 network DependencyStuck",
    ]);
    seat.press(" ");
    seat.see("1 marked");
    // The mark moves on to the next row.
    seat.press("  ");
    seat.see("3 marked");
    seat.press("r");
    let eligible = telling.count(1_500) - 20;
    let shown = match eligible {
        1_000.. => format!("{},{:03}", eligible / 1_000, eligible % 1_000),
        _ => eligible.to_string(),
    };
    seat.see_all(&[
        &format!("{shown} eligible, 20 not"),
        "20 not: it is protected",
        &format!("how many are retried: {eligible}"),
    ]);
    seat.see_asked();
    // What does not say how many does nothing.
    seat.press(&format!("{}\r", telling.count(1_000)));
    seat.see("That is not it");
    assert_eq!(cloud.writes().len(), writes);
    seat.press(&format!("\u{15}{eligible}\r"));
    seat.see(&format!("{shown} retried, 20 not"));
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
    tell_of_the_verbs(&Telling::as_written());
}

#[test]
fn story_7_a_cause_at_a_time_is_counted_first_and_then_tried_again_told_otherwise() {
    tell_of_the_verbs(&Telling::otherwise());
}

#[test]
fn story_7_a_cause_at_a_time_is_counted_first_and_then_tried_again_told_at_leisure() {
    tell_of_the_verbs(&Telling::at_leisure());
}

fn tell_of_the_verbs(telling: &Telling) {
    let mut stage = Stage::of(telling);
    after_the_outage(&mut stage);
    let retried = |options: &[&str]| stage.json(&[&["retry", "--all"], options].concat());
    let third = telling.count(500);
    let refused = ["--type", "PolicyNotAuthorized"];
    let counted = retried(&[&refused[..], &["--dry-run"]].concat());
    assert_eq!(
        counted,
        json!({ "eligible": third, "not_eligible": [], "moved": 0 })
    );
    assert_eq!(stage.only_deletion()["state"], "stuck");
    // The network waits for others, and is none of them.
    let whole = retried(&["--dry-run"]);
    assert_eq!(
        whole["not_eligible"],
        json!([{ "reason": "waits for another step that is stuck", "steps": 1 }])
    );

    let moved = retried(&refused);
    assert_eq!(
        (&moved["eligible"], &moved["moved"]),
        (&json!(third), &json!(third))
    );
    // A cause that is over finds nothing more.
    let told = || retried(&[&refused[..], &["--dry-run"]].concat()).to_string();
    until("the first cause's end", told, || {
        let counted = retried(&[&refused[..], &["--dry-run"]].concat());
        (counted["eligible"] == 0).then_some(())
    });
    let said = stage.say(&["retry", "--all", "--status", "400"]);
    assert!(
        said.starts_with(&format!(
            "{third} steps can be retried, 0 cannot: {third} retried"
        )),
        "{said}"
    );
    stage.say(&["retry", "--all", "--kind", "port"]);
    stage.deletion_until("end", |deletion| deletion["state"] == "gone");
}
