//! The clipboard: what one key copies of a row, and what the same key copies when it is pressed again.

use gone::control::{Command, Purged, Receipt};
use gone::domain::ladder::Rung;
use gone::frontends::console::Event;

use super::fake::{Desk, World, id, resource};

const REQUEST: &str = "req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11";

fn desk(keys: &str) -> Desk {
    let mut desk = Desk::new(World::busy(), (120, 30));
    desk.press(keys);
    desk
}

#[test]
fn of_a_step_first_its_id_then_the_error_with_its_request_then_the_row_and_again_the_id() {
    let mut desk = desk(":stuck enter y");
    let text = desk.text();
    let told = format!(
        "copied the id (y again: the error with its request): {}",
        id(590)
    );
    assert!(text.contains(&told), "{text}");
    desk.press("y");
    assert!(
        desk.text().contains("(y again: the row)"),
        "{}",
        desk.text()
    );
    desk.press("y y");
    let [first, error, row, again] = &desk.copied[..] else {
        panic!("{:?}", desk.copied);
    };
    assert_eq!((first, again), (&id(590), &id(590)));
    let key = format!("load_balancer/{}@prod/RegionOne", id(590));
    assert_eq!(
        *error,
        format!(
            "load balancer lb-shop ({key}) at 2025-11-21T09:27:00Z: 409 Conflict: Load Balancer is immutable and \
             cannot be updated. ({REQUEST})"
        )
    );
    let cells: Vec<&str> = row.split('\t').collect();
    assert_eq!(cells[..2], ["✖ stuck", "load balancer lb-shop"], "{row}");
    assert_eq!(cells.last(), Some(&"prod/RegionOne"), "{row}");
}

#[test]
fn another_row_or_another_key_begins_with_the_id_again() {
    let mut desk = desk(":stuck enter y j y k y");
    assert_eq!(desk.copied, [id(590), id(591), id(590)]);
    // A look at something else in between is no second press either.
    desk.press("b esc y");
    assert_eq!(desk.copied.last(), Some(&id(590)));
}

#[test]
fn the_error_is_copied_from_a_timeline_and_from_a_tree_too() {
    let mut timeline = desk(":stuck enter enter y y y");
    assert!(
        timeline.copied[1].contains(REQUEST),
        "{:?}",
        timeline.copied
    );
    // The event under the cursor is the last one, and has no request of its own.
    let event = "2025-11-21T08:30:50Z: load balancer lb-shop is stuck";
    assert_eq!(timeline.copied[2], event);
    timeline.press("k k y y y");
    assert!(
        timeline.copied[5].ends_with("(request req-3f1a0c52-5a64-4d0e-9f6e-000000000002)"),
        "{:?}",
        timeline.copied
    );
    let mut world = World::busy();
    let failed = world.steps.iter().find(|step| step.id == 90).cloned();
    world.steps[0].last_error = failed.and_then(|step| step.last_error);
    let mut desk = Desk::new(world, (120, 30));
    desk.press("enter /server-1 enter y y");
    assert!(desk.copied[1].contains(REQUEST), "{:?}", desk.copied);
}

#[test]
fn an_event_is_copied_with_its_time_and_the_id_of_its_request() {
    let mut desk = desk(":events enter");
    desk.follow();
    desk.press("home j y y");
    let message = "409 PortInUse: a floating IP is associated";
    let request = "req-3f1a0c52-5a64-4d0e-9f6e-000000000001";
    let whole = format!("2025-11-21T08:30:20Z: {message} (request {request})");
    assert_eq!(desk.copied, [message.to_owned(), whole]);
}

#[test]
fn a_whole_runbook_is_copied_as_it_is_written() {
    let mut desk = desk(":stuck enter F");
    desk.receives = false;
    desk.press("down down enter 0 0 0 0 0 0 0 1 enter");
    let Some((ticket, Command::Purge { .. })) = desk.held.pop() else {
        panic!("no rung is taken:\n{}", desk.text());
    };
    let runbook = "1. Look at the log.\n2. Delete the port:\n   openstack port delete p1\n";
    let receipt = Ok(Receipt::Purged(Purged {
        rung: Rung::Runbook,
        moved: 0,
        deletion_id: None,
        runbook: Some(runbook.to_owned()),
    }));
    let now = desk.now;
    desk.take(Event::Receipt {
        ticket,
        receipt,
        now,
    });
    desk.press("y y");
    assert_eq!(desk.copied, ["1. Look at the log.", runbook.trim_end()]);
}

/// A line feed in a name would run what follows it in the shell that it is pasted into.
#[test]
fn hostile_names_are_copied_as_escapes() {
    let mut world = World::busy();
    world.listings[0].rows = vec![resource("network", 1, "a\nrm -rf ~\n\u{1b}[2J")];
    let mut desk = Desk::new(world, (120, 30));
    desk.press(":network enter y y");
    let row = &desk.copied[1];
    assert!(row.starts_with("a\\nrm -rf ~\\n\\u{1b}[2J\t"), "{row:?}");
    assert!(!row.contains(['\n', '\u{1b}']), "{row:?}");
    // As YAML each line is one line of the record.
    desk.press("Y y y");
    let yaml = desk.copied.last().unwrap();
    assert!(yaml.lines().count() > 10, "{yaml}");
    assert!(!yaml.contains('\u{1b}'), "{yaml:?}");
}
