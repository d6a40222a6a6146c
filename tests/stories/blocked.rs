//! Story 3: a floating IP of another project blocks a deletion, the console explains that, and the owner of the
//! floating IP deletes it.

use serde_json::{Value, json};

use super::home::{BLOCKED, Cloud, Home, until};
use super::session::Session;
use super::variation::{Variation, in_variations};

/// Creates a floating IP of the project demo on the port of network web. Returns its id and address.
fn add_floating_ip(cloud: &Cloud, variation: &Variation) -> (String, String) {
    let body = json!({"floatingip": {
        "project_id": cloud.project_of("demo"),
        "floating_network_id": cloud.id_of("networks", variation.name("external")),
        "port_id": cloud.id_of("ports", variation.name("www")),
    }});
    let (status, body) = cloud.call("admin", "POST", "/floatingips", body);
    assert_eq!(status, 201, "{body}");
    let text = |field: &str| body["floatingip"][field].as_str().unwrap().to_owned();
    (text("id"), text("floating_ip_address"))
}

fn delete_floating_ip(cloud: &Cloud, floating_ip: &str) {
    let path = format!("/floatingips/{floating_ip}");
    let (status, body) = cloud.call("demo", "DELETE", &path, Value::Null);
    assert_eq!(status, 204, "{body}");
}

/// In the timeline of a step, checks that `b` names the blocker and its project, and that `y` copies the blocker's id.
fn check_blocker(session: &mut Session, floating_ip: &str, address: &str) {
    session.press("b");
    session.wait_for_all(&[
        "── blockers of",
        &format!("blocked by floating IP {address} (project demo, not in this plan)"),
        &format!("id {floating_ip}"),
    ]);
    session.press("y");
    let shown = || session.text();
    let copied = until("id in the clipboard", shown, || session.clipboard());
    assert_eq!(copied, floating_ip);
}

in_variations! { run_refusal,
    baseline fn story_3_p04_a_deletion_refused_for_a_foreign_floating_ip_ends_once_its_owner_deletes_it();
    slow_cloud fn story_3_p04_a_deletion_refused_for_a_foreign_floating_ip_ends_on_a_slow_cloud();
    fast_cloud fn story_3_p04_a_deletion_refused_for_a_foreign_floating_ip_ends_on_a_fast_cloud();
}

fn run_refusal(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud(BLOCKED);
    let name = variation.name("web");
    let (floating_ip, address) = add_floating_ip(&cloud, variation);
    home.start_engine(&[]);
    home.stdout_of(&["delete", &format!("network/{name}"), "--cascade", "--yes"]);
    home.wait_for_deletion("refusal", |deletion| deletion["state"] == "refused");
    let mut session = Session::start(&home, &[]);
    session.wait_for("✖ 1 refused");
    session.open("stuck", "stuck 1");
    session.wait_for_all(&[
        "✖ refused",
        &format!("network {name}"),
        "a person",
        &format!("blocked by floating IP {address} (project demo"),
    ]);
    session.press("\r");
    session.wait_for_all(&[
        &format!("── network {name} in deletion"),
        "✖ refused",
        "nothing was sent",
        "accepted",
    ]);
    check_blocker(&mut session, &floating_ip, &address);
    assert_eq!(cloud.writes(), ["POST /v2.0/floatingips"]);

    delete_floating_ip(&cloud, &floating_ip);
    session.press("r");
    home.wait_for_deletion("end", |deletion| deletion["state"] == "gone");
    assert!(
        cloud
            .all("networks")
            .iter()
            .all(|network| network["name"] != name)
    );
    session.press("\x1b");
    session.wait_for_all(&[&format!("── network {name} in deletion"), "✓ gone"]);
    session.quit();
}

in_variations! { run_later_blocker,
    baseline fn story_3_p02_a_later_blocker_is_named_with_every_attempt_and_request_id();
    slow_cloud fn story_3_p02_a_later_blocker_is_named_on_a_slow_cloud();
    fast_cloud fn story_3_p02_a_later_blocker_is_named_on_a_fast_cloud();
}

fn run_later_blocker(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud(BLOCKED);
    let port = variation.name("www");
    let www = cloud.id_of("ports", port);
    // The cloud refuses the first delete of the port after a delay, in which the test creates the floating IP with a
    // few calls.
    let delay_ms = 2_000 + 8 * variation.latency_ms.unwrap_or(0);
    cloud.set_faults(&json!([{
        "match": {"method": "DELETE", "kind": "port", "id": www},
        "times": 1,
        "action": {"status": 409, "type": "PortInUse", "message": "Port is in use.", "delay_ms": delay_ms},
    }]));
    home.start_engine(&[]);
    home.stdout_of(&["delete", &format!("port/{port}"), "--yes"]);
    cloud.wait_for_write(&format!("DELETE /v2.0/ports/{www}"));
    let (floating_ip, address) = add_floating_ip(&cloud, variation);

    let mut session = Session::start(&home, &[]);
    session.wait_for("‖ 1 blocked");
    session.open("stuck", "stuck 1");
    session.wait_for_all(&[
        "‖ blocked",
        &format!("port {port}"),
        &format!("floating IP {address}"),
        "1/8",
    ]);
    session.press("\r");
    session.wait_for_all(&[
        &format!("── port {port} in deletion"),
        "attempt 1 of 8",
        "next attempt",
        &format!("blocked by floating IP {address}"),
        "409 PortInUse: Port is in use.",
        "request req-",
    ]);
    check_blocker(&mut session, &floating_ip, &address);

    delete_floating_ip(&cloud, &floating_ip);
    session.press("r");
    home.wait_for_deletion("end", |deletion| deletion["state"] == "gone");
    session.press("\x1b");
    session.wait_for("✓ gone");
    // The timeline has the refused and the accepted attempt, each with its answer and request id.
    for status in ["409", "204"] {
        session.press(&format!("/{status}"));
        session.wait_for(&format!("/{status}"));
        session.press("\r");
        session.wait_until("one attempt", |_| {
            let attempts = session.rows_below("TIME (UTC)");
            attempts.len() == 1 && attempts[0].contains("attempt")
        });
        session.wait_for_all(&[&format!("{www} {status}"), "req-"]);
        session.press("\x1b");
        // A key right after Esc would be read as one key with Alt.
        session.wait_until("no filter", |screen| !screen.contains("filter: "));
    }
    session.quit();
}
