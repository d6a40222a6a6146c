//! Story 17: another process creates two ports while their network is being deleted.

use serde_json::{Value, json};

use super::home::{BLOCKED, Cloud, Home, until};
use super::session::Session;
use super::variation::{Variation, in_variations};

const NEWCOMERS: [&str; 2] = ["late-1", "late-2"];

/// Starts the deletion of network web, creates two ports on the network while its port is being deleted, and waits
/// until the deletion is stuck. Returns the cloud and the deletion.
fn delete_with_two_newcomers(home: &mut Home) -> (Cloud, Value) {
    let cloud = home.serve_cloud(BLOCKED);
    let network = cloud.id_of("networks", home.variation.name("web"));
    let www = cloud.id_of("ports", home.variation.name("www"));
    // The delete takes long enough for the few calls that create both ports.
    let delay_ms = 2_000 + 8 * home.variation.latency_ms.unwrap_or(0);
    cloud.set_faults(&json!([{
        "match": {"method": "DELETE", "kind": "port", "id": www},
        "times": 1,
        "action": {"delay_ms": delay_ms},
    }]));
    home.start_engine(&[]);
    let target = format!("network/{}", home.variation.name("web"));
    home.stdout_of(&["delete", &target, "--cascade", "--yes"]);
    cloud.wait_for_write(&format!("DELETE /v2.0/ports/{www}"));
    for name in NEWCOMERS {
        let port = json!({"port": {"name": name, "network_id": network}});
        let (status, body) = cloud.call("admin", "POST", "/ports", port);
        assert_eq!(status, 201, "{body}");
    }
    let deletion = home.wait_for_deletion("drift", |deletion| deletion["state"] == "stuck");
    (cloud, deletion)
}

fn short(deletion: &Value) -> String {
    let id = deletion["id"].as_str().unwrap();
    id[id.len() - 8..].to_owned()
}

in_variations! { run_acceptance,
    baseline fn story_17_p11_two_newcomer_ports_are_shown_accepted_and_deleted();
    slow_cloud fn story_17_p11_two_newcomer_ports_are_accepted_and_deleted_on_a_slow_cloud();
    fast_cloud fn story_17_p11_two_newcomer_ports_are_accepted_and_deleted_on_a_fast_cloud();
}

fn run_acceptance(variation: &Variation) {
    let mut home = Home::with(variation);
    let (cloud, deletion) = delete_with_two_newcomers(&mut home);
    let name = variation.name("web");
    let short = short(&deletion);

    let mut session = Session::start(&home, &[]);
    session.wait_for("✖ 1 stuck");
    session.open("stuck", "stuck 1");
    session.wait_for_all(&[&format!("network {name}"), "2 resources appeared"]);
    session.press("\r");
    session.wait_for_all(&[
        &format!("── network {name} in deletion"),
        "port late-1",
        "port late-2",
        "project admin",
        "a deletes the newcomers too; n leaves them and ends the deletion",
    ]);
    session.press("a");
    session.wait_for_all(&[
        "2 resources appeared after the plan",
        "port late-1",
        "port late-2",
        "created ",
        "deletes them too, in your name",
        &format!("the short id of the deletion, {short}"),
    ]);
    session.wait_for_prompt();
    // Neither the key alone nor a wrong word accepts the newcomers.
    let writes = cloud.writes();
    session.press("yes\r");
    session.wait_for("That is not it");
    assert_eq!(cloud.writes(), writes);
    session.press("\x15");
    session.press(&short);
    session.press("\r");

    let deletions = || home.stdout_of(&["list"]);
    until("end of the deletion", deletions, || {
        let shown = home.json(&["show", &short]);
        (shown["deletion"]["state"] == "gone" || shown["state"] == "gone").then_some(())
    });
    assert!(!cloud.names("networks").iter().any(|it| it == name));
    let ports = cloud.names("ports");
    assert!(
        !NEWCOMERS
            .iter()
            .any(|late| ports.iter().any(|it| it == late))
    );
    session.quit();
}

#[test]
fn story_17_p11_two_newcomer_ports_and_their_network_stay_when_they_are_refused() {
    let mut home = Home::with(&Variation::baseline());
    let (cloud, deletion) = delete_with_two_newcomers(&mut home);
    let short = short(&deletion);
    let shown = home.stdout_of(&["show", &short]);
    for words in [
        "port late-1",
        "port late-2",
        "project admin",
        "created ",
        &format!("gone drift {short} --accept"),
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }

    let refused = home.stdout_of(&["drift", &short, "--refuse"]);
    for words in ["refused", "network web stays", "port late-1", "port late-2"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert_eq!(home.only_deletion()["state"], "cancelled");
    assert!(cloud.names("networks").contains(&"web".to_owned()));
    let ports = cloud.names("ports");
    assert!(
        NEWCOMERS
            .iter()
            .all(|late| ports.iter().any(|it| it == late))
    );
}
