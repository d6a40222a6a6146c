//! Story 3: blocked by what is somebody else's, explained, cleared by its owner.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/blocked.toml"
);

/// A floating IP of the project demo on the port of network web: its id and address.
fn hang_floating_ip(cloud: &Cloud, telling: &Telling) -> (String, String) {
    let body = json!({"floatingip": {
        "project_id": cloud.project_of("demo"),
        "floating_network_id": cloud.id_of("networks", telling.name("external")),
        "port_id": cloud.id_of("ports", telling.name("www")),
    }});
    let (status, body) = cloud.call("admin", "POST", "/floatingips", body);
    assert_eq!(status, 201, "{body}");
    let text = |field: &str| body["floatingip"][field].as_str().unwrap().to_owned();
    (text("id"), text("floating_ip_address"))
}

fn free(cloud: &Cloud, floating_ip: &str) {
    let path = format!("/floatingips/{floating_ip}");
    let (status, body) = cloud.call("demo", "DELETE", &path, Value::Null);
    assert_eq!(status, 204, "{body}");
}

/// From `:stuck`: `b` names what stands in the way and whose it is, `y` copies its id.
fn explained(seat: &mut Seat, floating_ip: &str, address: &str) {
    seat.press("b");
    seat.see_all(&[
        "── blockers of",
        &format!("blocked by floating IP {address} (project demo, not in this plan)"),
        &format!("id {floating_ip}"),
    ]);
    seat.press("y");
    let shown = || seat.text();
    let copied = until("copied id", shown, || seat.clipboard());
    assert_eq!(copied, floating_ip);
}

#[test]
fn story_3_p04_a_deletion_refused_for_anothers_floating_ip_finishes_once_its_owner_freed_it() {
    tell_of_a_refusal(&Telling::as_written());
}

#[test]
fn story_3_p04_a_deletion_refused_for_anothers_floating_ip_finishes_told_otherwise() {
    tell_of_a_refusal(&Telling::otherwise());
}

#[test]
fn story_3_p04_a_deletion_refused_for_anothers_floating_ip_finishes_told_at_leisure() {
    tell_of_a_refusal(&Telling::at_leisure());
}

fn tell_of_a_refusal(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud(SCENARIO);
    let name = telling.name("web");
    let (floating_ip, address) = hang_floating_ip(&cloud, telling);
    stage.start_engine(&[]);
    stage.say(&["delete", &format!("network/{name}"), "--cascade", "--yes"]);
    stage.deletion_until("refusal", |deletion| deletion["state"] == "refused");
    let mut seat = Seat::take(&stage, &[]);
    seat.see("✖ 1 refused");
    seat.go("stuck", "stuck 1");
    seat.see_all(&[
        "✖ refused",
        &format!("network {name}"),
        "a person",
        &format!("blocked by floating IP {address} (project demo"),
    ]);
    seat.press("\r");
    seat.see_all(&[
        &format!("── network {name} in deletion"),
        "✖ refused",
        "nothing was sent",
        "accepted",
    ]);
    explained(&mut seat, &floating_ip, &address);
    assert_eq!(cloud.writes(), ["POST /v2.0/floatingips"]);

    free(&cloud, &floating_ip);
    seat.press("r");
    stage.deletion_until("end", |deletion| deletion["state"] == "gone");
    assert!(
        cloud
            .all("networks")
            .iter()
            .all(|network| network["name"] != name)
    );
    seat.press("\x1b");
    seat.see_all(&[&format!("── network {name} in deletion"), "✓ gone"]);
    seat.press("q");
    seat.left();
}

#[test]
fn story_3_p02_what_came_into_the_way_later_is_named_with_every_attempt_and_request_id() {
    tell_of_what_came_later(&Telling::as_written());
}

#[test]
fn story_3_p02_what_came_into_the_way_later_is_named_told_otherwise() {
    tell_of_what_came_later(&Telling::otherwise());
}

#[test]
fn story_3_p02_what_came_into_the_way_later_is_named_told_at_leisure() {
    tell_of_what_came_later(&Telling::at_leisure());
}

fn tell_of_what_came_later(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud(SCENARIO);
    let port = telling.name("www");
    let www = cloud.id_of("ports", port);
    // The first delete of the port is refused, late enough for the floating IP to come before; that
    // takes a handful of calls.
    let delay_ms = 2_000 + 8 * telling.latency_ms.unwrap_or(0);
    cloud.faults(&json!([{
        "match": {"method": "DELETE", "kind": "port", "id": www},
        "times": 1,
        "action": {"status": 409, "type": "PortInUse", "message": "Port is in use.", "delay_ms": delay_ms},
    }]));
    stage.start_engine(&[]);
    stage.say(&["delete", &format!("port/{port}"), "--yes"]);
    let sent = format!("DELETE /v2.0/ports/{www}");
    let told = || cloud.writes().join("\n");
    until("delete of the port", told, || {
        cloud.writes().contains(&sent).then_some(())
    });
    let (floating_ip, address) = hang_floating_ip(&cloud, telling);

    let mut seat = Seat::take(&stage, &[]);
    seat.see("‖ 1 blocked");
    seat.go("stuck", "stuck 1");
    seat.see_all(&[
        "‖ blocked",
        &format!("port {port}"),
        &format!("floating IP {address}"),
        "1/8",
    ]);
    seat.press("\r");
    seat.see_all(&[
        &format!("── port {port} in deletion"),
        "attempt 1 of 8",
        "next attempt",
        &format!("blocked by floating IP {address}"),
        "409 PortInUse: Port is in use.",
        "request req-",
    ]);
    explained(&mut seat, &floating_ip, &address);

    free(&cloud, &floating_ip);
    seat.press("r");
    stage.deletion_until("end", |deletion| deletion["state"] == "gone");
    seat.press("\x1b");
    seat.see("✓ gone");
    // The timeline: the refused attempt and the accepted one, each with its answer and request id.
    for status in ["409", "204"] {
        seat.press(&format!("/{status}"));
        seat.see(&format!("/{status}"));
        seat.press("\r");
        seat.wait("one attempt", |_| {
            let attempts = seat.rows_below("TIME (UTC)");
            attempts.len() == 1 && attempts[0].contains("attempt")
        });
        seat.see_all(&[&format!("{www} {status}"), "req-"]);
        seat.press("\x1b");
        // Esc and a key in one breath would be one key with alt.
        seat.wait("no filter", |screen| !screen.contains("filter: "));
    }
    seat.press("q");
    seat.left();
}
