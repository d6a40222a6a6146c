//! Story 6: keys that delete elsewhere, on a cloud that is only read, while its list moves.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage};

fn add_network(cloud: &Cloud, name: &str) {
    let body = json!({"network": { "name": name }});
    let (status, answer) = cloud.call("admin", "POST", "/networks", body);
    assert_eq!(status, 201, "{answer}");
}

#[test]
fn story_6_p05_keys_that_delete_elsewhere_send_nothing_while_the_list_moves() {
    let mut stage = Stage::new();
    let cloud = stage.serve_cloud("quiet");
    let mut seat = Seat::take(&stage, &["--read-only"]);
    seat.see("READ-ONLY");
    seat.go("network", "network");
    seat.see("ACTIVE");
    seat.press("/quiet-net-1\r");
    seat.see("filter: quiet-net-1");
    seat.press(" ");
    seat.see("1 marked");
    let writes = cloud.writes().len();
    for (round, keys) in ["\x04", "\x0b", "\x1b[3~", "\x7f"].iter().enumerate() {
        // It comes before all others, and the rows move.
        add_network(&cloud, &format!("aaa-{round}"));
        seat.press("\x12");
        seat.press(keys);
        seat.see("deletes nothing here");
        seat.press("j");
        seat.wait("an answered key", |screen| {
            !screen.contains("deletes nothing here")
        });
    }
    seat.press("\x1b[200~D\nquiet-net-1\nyes\n\x1b[201~");
    seat.see("pasted text does nothing here");
    seat.press("D");
    seat.see("read-only");
    seat.press("\rquiet-net-1\r");
    // Nothing but what this test itself made.
    assert_eq!(cloud.writes().len(), writes + 4);
    assert_eq!(stage.json(&["list"]), json!([]));
    seat.press("q");
    seat.left();
}

#[test]
fn story_6_the_confirmation_is_for_the_row_under_the_cursor_when_the_key_was_pressed() {
    let mut stage = Stage::new();
    let cloud = stage.serve_cloud("quiet");
    let mut seat = Seat::take(&stage, &[]);
    seat.see("reachable");
    seat.go("network", "network");
    let wanted = "quiet-net-1";
    seat.press(&format!("/{wanted}\r"));
    seat.see(&format!("filter: {wanted}"));
    let id = cloud.id_of("networks", wanted);
    // Another one takes its place on the screen while the plan is made; what is typed ahead is lost.
    add_network(&cloud, "quiet-net-1-a");
    seat.press("D\rquiet-net-1-a\r\r");
    seat.see(&format!("plan: delete network {wanted} at"));
    seat.go_on();
    let short = &id[id.len() - 8..];
    seat.see_all(&[&format!(
        "Type the name \"{wanted}\" or the short id {short}"
    )]);
    seat.press("quiet-net-1-a\r");
    seat.see("That is not it");
    assert_eq!(cloud.status(&format!("/networks/{id}")), 200);
    seat.press("\x1b");
    seat.see("nothing was sent");
    let deletes = |writes: Vec<String>| writes.iter().any(|call| call.starts_with("DELETE"));
    assert!(!deletes(cloud.writes()));
    assert_eq!(stage.json(&["list"]), Value::Array(Vec::new()));
    seat.press("q");
    seat.left();
}
