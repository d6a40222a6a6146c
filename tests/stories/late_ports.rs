//! Story 17: another process creates two ports while their network is being deleted.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/blocked.toml"
);
const LATE: [&str; 2] = ["late-1", "late-2"];

/// The deletion of network web, stuck: while its port was being deleted, another process created two on it.
fn stuck_with_two_ports(stage: &mut Stage) -> (Cloud, Value) {
    let cloud = stage.serve_cloud(SCENARIO);
    let network = cloud.id_of("networks", stage.telling.name("web"));
    let www = cloud.id_of("ports", stage.telling.name("www"));
    // Late enough for both ports; that takes a handful of calls.
    let delay_ms = 2_000 + 8 * stage.telling.latency_ms.unwrap_or(0);
    cloud.faults(&json!([{
        "match": {"method": "DELETE", "kind": "port", "id": www},
        "times": 1,
        "action": {"delay_ms": delay_ms},
    }]));
    stage.start_engine(&[]);
    let target = format!("network/{}", stage.telling.name("web"));
    stage.say(&["delete", &target, "--cascade", "--yes"]);
    let sent = format!("DELETE /v2.0/ports/{www}");
    let told = || cloud.writes().join("\n");
    until("delete of the port", told, || {
        cloud.writes().contains(&sent).then_some(())
    });
    for name in LATE {
        let port = json!({"port": {"name": name, "network_id": network}});
        let (status, body) = cloud.call("admin", "POST", "/ports", port);
        assert_eq!(status, 201, "{body}");
    }
    let deletion = stage.deletion_until("drift", |deletion| deletion["state"] == "stuck");
    (cloud, deletion)
}

fn short(deletion: &Value) -> String {
    let id = deletion["id"].as_str().unwrap();
    id[id.len() - 8..].to_owned()
}

#[test]
fn story_17_p11_two_ports_that_came_meanwhile_are_named_accepted_and_gone() {
    tell_of_acceptance(&Telling::as_written());
}

#[test]
fn story_17_p11_two_ports_that_came_meanwhile_are_accepted_told_otherwise() {
    tell_of_acceptance(&Telling::otherwise());
}

#[test]
fn story_17_p11_two_ports_that_came_meanwhile_are_accepted_told_at_leisure() {
    tell_of_acceptance(&Telling::at_leisure());
}

fn tell_of_acceptance(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let (cloud, deletion) = stuck_with_two_ports(&mut stage);
    let name = telling.name("web");
    let short = short(&deletion);

    let mut seat = Seat::take(&stage, &[]);
    seat.see("✖ 1 stuck");
    seat.go("stuck", "stuck 1");
    seat.see_all(&[&format!("network {name}"), "2 resources appeared"]);
    seat.press("\r");
    seat.see_all(&[
        &format!("── network {name} in deletion"),
        "port late-1",
        "port late-2",
        "project admin",
        "a deletes the newcomers too; n leaves them and ends the deletion",
    ]);
    seat.press("a");
    seat.see_all(&[
        "2 resources appeared after the plan",
        "port late-1",
        "port late-2",
        "created ",
        "deletes them too, in your name",
        &format!("the short id of the deletion, {short}"),
    ]);
    seat.see_asked();
    // Nothing goes on one key, nor on a wrong word.
    let writes = cloud.writes();
    seat.press("yes\r");
    seat.see("That is not it");
    assert_eq!(cloud.writes(), writes);
    seat.press("\x15");
    seat.press(&short);
    seat.press("\r");

    let told = || stage.say(&["list"]);
    until("end of the deletion", told, || {
        let shown = stage.json(&["show", &short]);
        (shown["deletion"]["state"] == "gone" || shown["state"] == "gone").then_some(())
    });
    assert!(!cloud.names("networks").iter().any(|it| it == name));
    let ports = cloud.names("ports");
    assert!(!LATE.iter().any(|late| ports.iter().any(|it| it == late)));
    seat.press("q");
    seat.left();
}

#[test]
fn story_17_p11_two_ports_that_came_meanwhile_stay_when_they_are_refused() {
    let mut stage = Stage::of(&Telling::as_written());
    let (cloud, deletion) = stuck_with_two_ports(&mut stage);
    let short = short(&deletion);
    let shown = stage.say(&["show", &short]);
    for words in [
        "port late-1",
        "port late-2",
        "project admin",
        "created ",
        &format!("gone drift {short} --accept"),
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }

    let refused = stage.say(&["drift", &short, "--refuse"]);
    for words in ["refused", "network web stays", "port late-1", "port late-2"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert_eq!(stage.only_deletion()["state"], "cancelled");
    assert!(cloud.names("networks").contains(&"web".to_owned()));
    let ports = cloud.names("ports");
    assert!(LATE.iter().all(|late| ports.iter().any(|it| it == late)));
}
