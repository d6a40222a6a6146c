//! The clipboard: the parts of a row that the copy key copies when the key is pressed once, and when it is pressed
//! again.

use gone::control::{Command, Purged, Receipt};
use gone::domain::ladder::Rung;

use super::fake::{TestConsole, World, id, resource};

const REQUEST: &str = "req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11";

fn console(keys: &str) -> TestConsole {
    TestConsole::new(World::busy(), (120, 30)).after(keys)
}

#[test]
fn repeated_copying_takes_a_steps_id_then_its_error_then_its_row_then_its_id() {
    let mut console = console(":stuck enter y");
    let expected = format!(
        "copied the id (y again: the error with its request): {}",
        id(590)
    );
    console.assert_shows([&expected]);
    console.press("y");
    console.assert_shows(["(y again: the row)"]);
    console.press("y y");
    let [first, error, row, again] = &console.copied[..] else {
        panic!("{:?}", console.copied);
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
fn copying_starts_with_the_id_again_after_another_row_or_another_key() {
    let mut console = console(":stuck enter y j y k y");
    assert_eq!(console.copied, [id(590), id(591), id(590)]);
    // The key does not count as pressed again after another pane was open in between.
    console.press("b esc y");
    assert_eq!(console.copied.last(), Some(&id(590)));
}

#[test]
fn a_steps_error_is_copied_from_its_timeline_and_from_a_tree_too() {
    let mut timeline = console(":stuck enter enter y y y");
    assert!(
        timeline.copied[1].contains(REQUEST),
        "{:?}",
        timeline.copied
    );
    // The event under the cursor is the last one, and names no request.
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
    let console = TestConsole::new(world, (120, 30)).after("enter /server-1 enter y y");
    assert!(console.copied[1].contains(REQUEST), "{:?}", console.copied);
}

#[test]
fn an_event_is_copied_with_its_time_and_the_id_of_its_request() {
    let mut console = console(":events enter");
    console.deliver_events();
    console.press("home j y y");
    let message = "409 PortInUse: a floating IP is associated";
    let request = "req-3f1a0c52-5a64-4d0e-9f6e-000000000001";
    let whole = format!("2025-11-21T08:30:20Z: {message} (request {request})");
    assert_eq!(console.copied, [message.to_owned(), whole]);
}

#[test]
fn a_whole_runbook_is_copied_as_it_is_written() {
    let mut console = console(":stuck enter F");
    console.answers_commands = false;
    console.press("down down enter 0 0 0 0 0 0 0 1 enter");
    let Some((ticket, Command::Purge { .. })) = console.unanswered_commands.pop() else {
        panic!("no rung was taken:\n{}", console.text());
    };
    let runbook = "1. Look at the log.\n2. Delete the port:\n   openstack port delete p1\n";
    let receipt = Ok(Receipt::Purged(Purged {
        rung: Rung::Runbook,
        moved: 0,
        deletion_id: None,
        runbook: Some(runbook.to_owned()),
    }));
    console.receive(ticket, receipt);
    console.press("y y");
    assert_eq!(console.copied, ["1. Look at the log.", runbook.trim_end()]);
}

/// If a name with a line feed is pasted into a shell, the shell runs the text after the line feed as a command.
#[test]
fn hostile_names_are_copied_as_escapes() {
    let mut world = World::busy();
    world.listings[0].rows = vec![resource("network", 1, "a\nrm -rf ~\n\u{1b}[2J")];
    let mut console = TestConsole::new(world, (120, 30)).after(":network enter y y");
    let row = &console.copied[1];
    assert!(row.starts_with("a\\nrm -rf ~\\n\\u{1b}[2J\t"), "{row:?}");
    assert!(!row.contains(['\n', '\u{1b}']), "{row:?}");
    // The whole YAML is copied with its line breaks; control characters in its values are escaped.
    console.press("Y y y");
    let yaml = console.copied.last().unwrap();
    assert!(yaml.lines().count() > 10, "{yaml}");
    assert!(!yaml.contains('\u{1b}'), "{yaml:?}");
}
