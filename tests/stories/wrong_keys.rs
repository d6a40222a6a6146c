//! Story 6: keys that delete elsewhere, on a cloud that is only read, while its list moves.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage};
use super::telling::Telling;

fn add_network(cloud: &Cloud, name: &str) {
    let body = json!({"network": { "name": name }});
    let (status, answer) = cloud.call("admin", "POST", "/networks", body);
    assert_eq!(status, 201, "{answer}");
}

#[test]
fn story_6_p05_keys_that_delete_elsewhere_send_nothing_while_the_list_moves() {
    tell_of_keys(&Telling::as_written());
}

#[test]
fn story_6_p05_keys_that_delete_elsewhere_send_nothing_while_the_list_moves_told_otherwise() {
    tell_of_keys(&Telling::otherwise());
}

#[test]
fn story_6_p05_keys_that_delete_elsewhere_send_nothing_while_the_list_moves_told_at_leisure() {
    tell_of_keys(&Telling::at_leisure());
}

fn tell_of_keys(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud("quiet");
    let mut seat = Seat::take(&stage, &["--read-only"]);
    seat.see("READ-ONLY");
    seat.go("network", "network");
    seat.see("ACTIVE");
    let wanted = format!("{}-net-1", telling.name("quiet"));
    seat.press(&format!("/{wanted}\r"));
    seat.see(&format!("filter: {wanted}"));
    seat.press(" ");
    seat.see("1 marked");
    let writes = cloud.writes().len();
    for (round, keys) in ["\x04", "\x0b", "\x1b[3~", "\x7f"].iter().enumerate() {
        // It comes before all others, and the rows move.
        add_network(&cloud, &format!("{}-{round}", telling.name("aaa")));
        seat.press("\x12");
        seat.press(keys);
        seat.see("deletes nothing here");
        seat.press("j");
        seat.wait("an answered key", |screen| {
            !screen.contains("deletes nothing here")
        });
    }
    seat.press(&format!("\x1b[200~D\n{wanted}\nyes\n\x1b[201~"));
    seat.see("pasted text does nothing here");
    seat.press("D");
    seat.see("read-only");
    // As into the question that does not come; no letter of it quits.
    seat.press("\ryes\r");
    // Nothing but what this test itself made.
    assert_eq!(cloud.writes().len(), writes + 4);
    assert_eq!(stage.json(&["list"]), json!([]));
    seat.press("q");
    seat.left();
}

#[test]
fn story_6_the_confirmation_is_for_the_row_under_the_cursor_when_the_key_was_pressed() {
    tell_of_the_row(&Telling::as_written());
}

#[test]
fn story_6_the_confirmation_is_for_the_row_of_the_key_told_otherwise() {
    tell_of_the_row(&Telling::otherwise());
}

#[test]
fn story_6_the_confirmation_is_for_the_row_of_the_key_told_at_leisure() {
    tell_of_the_row(&Telling::at_leisure());
}

fn tell_of_the_row(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud("quiet");
    let mut seat = Seat::take(&stage, &[]);
    seat.see("reachable");
    seat.go("network", "network");
    seat.see("ACTIVE");
    let wanted = &format!("{}-net-1", telling.name("quiet"));
    let other = &format!("{wanted}-a");
    seat.press(&format!("/{wanted}\r"));
    seat.see(&format!("filter: {wanted}"));
    let id = cloud.id_of("networks", wanted);
    // Another one takes its place on the screen while the plan is made; what is typed ahead is lost.
    add_network(&cloud, other);
    seat.press(&format!("D\r{other}\r\r"));
    seat.see(&format!("plan: delete network {wanted} at"));
    // The plan is made, and not only asked for.
    seat.see("cascade on");
    seat.go_on();
    let short = &id[id.len() - 8..];
    seat.see_all(&[&format!(
        "Type the name \"{wanted}\" or the short id {short}"
    )]);
    seat.press(&format!("{other}\r"));
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
