//! Story 6: on a read-only cloud, keys that delete in other programs send nothing; and a confirmation is for the row
//! on which the key was pressed, although another row moves into the position of that row.

use serde_json::{Value, json};

use super::home::{Cloud, Home};
use super::session::Session;
use super::variation::{Variation, in_variations};

fn add_network(cloud: &Cloud, name: &str) {
    let body = json!({"network": { "name": name }});
    let (status, answer) = cloud.call("admin", "POST", "/networks", body);
    assert_eq!(status, 201, "{answer}");
}

in_variations! { run_delete_keys,
    baseline fn story_6_p05_delete_keys_of_other_programs_send_nothing_in_a_moving_list();
    slow_cloud fn story_6_p05_delete_keys_of_other_programs_send_nothing_in_a_moving_list_on_a_slow_cloud();
    fast_cloud fn story_6_p05_delete_keys_of_other_programs_send_nothing_in_a_moving_list_on_a_fast_cloud();
}

fn run_delete_keys(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud("quiet");
    let mut session = Session::start(&home, &["--read-only"]);
    session.wait_for("READ-ONLY");
    session.open("network", "network");
    session.wait_for("ACTIVE");
    let wanted = format!("{}-net-1", variation.name("quiet"));
    session.press(&format!("/{wanted}\r"));
    session.wait_for(&format!("filter: {wanted}"));
    session.press(" ");
    session.wait_for("1 marked");
    let writes = cloud.writes().len();
    for (round, keys) in ["\x04", "\x0b", "\x1b[3~", "\x7f"].iter().enumerate() {
        // The new network is the first of the list, so the rows after it move.
        add_network(&cloud, &format!("{}-{round}", variation.name("aaa")));
        session.press("\x12");
        session.press(keys);
        session.wait_for("deletes nothing here");
        session.press("j");
        session.wait_until("an answer to the key", |screen| {
            !screen.contains("deletes nothing here")
        });
    }
    session.press(&format!("\x1b[200~D\n{wanted}\nyes\n\x1b[201~"));
    session.wait_for("pasted text does nothing here");
    session.press("D");
    session.wait_for("read-only");
    // The answer to a question that the console does not ask. None of the letters quits the console.
    session.press("\ryes\r");
    // The only writes are the creates of the four networks.
    assert_eq!(cloud.writes().len(), writes + 4);
    assert_eq!(home.json(&["list"]), json!([]));
    session.quit();
}

in_variations! { run_moved_row,
    baseline fn story_6_the_confirmation_names_the_row_under_the_cursor_when_the_key_was_pressed();
    slow_cloud fn story_6_the_confirmation_names_the_row_of_the_key_on_a_slow_cloud();
    fast_cloud fn story_6_the_confirmation_names_the_row_of_the_key_on_a_fast_cloud();
}

fn run_moved_row(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud("quiet");
    let mut session = Session::start(&home, &[]);
    session.wait_for("reachable");
    session.open("network", "network");
    session.wait_for("ACTIVE");
    let wanted = &format!("{}-net-1", variation.name("quiet"));
    let other = &format!("{wanted}-a");
    session.press(&format!("/{wanted}\r"));
    session.wait_for(&format!("filter: {wanted}"));
    let id = cloud.id_of("networks", wanted);
    // A new network moves into the row while the plan is made. The console drops keys that are typed ahead.
    add_network(&cloud, other);
    session.press(&format!("D\r{other}\r\r"));
    session.wait_for(&format!("plan: delete network {wanted} at"));
    // A text of the finished plan.
    session.wait_for("cascade on");
    session.open_confirmation();
    let short = &id[id.len() - 8..];
    session.wait_for_all(&[&format!(
        "Type the name \"{wanted}\" or the short id {short}"
    )]);
    session.press(&format!("{other}\r"));
    session.wait_for("That is not it");
    assert_eq!(cloud.status(&format!("/networks/{id}")), 200);
    session.press("\x1b");
    session.wait_for("nothing was sent");
    let deletes = |writes: Vec<String>| writes.iter().any(|call| call.starts_with("DELETE"));
    assert!(!deletes(cloud.writes()));
    assert_eq!(home.json(&["list"]), Value::Array(Vec::new()));
    session.quit();
}
