//! Quitting asks about commands for marked rows that were not sent yet.

use gone::domain::model::StepState;
use gone::frontends::console::{Event, Exit};

use super::fake::{Desk, World, step};

fn in_the_middle() -> Desk {
    let mut world = World::busy();
    // A refused deletion is a row of its own.
    world.deletions.clear();
    world.steps = (1..=20)
        .map(|n| step(n, "port", "p", StepState::Stuck, &[]))
        .collect();
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":stuck enter * r");
    desk.receives = false;
    desk.press("2 0 enter q");
    desk
}

#[test]
fn quitting_asks_about_commands_that_were_not_sent() {
    let mut desk = in_the_middle();
    assert!(desk.exits.is_empty());
    let text = desk.text();
    assert!(
        text.contains("12 commands not sent yet: retry 20 steps."),
        "{text}"
    );
    desk.press("esc");
    assert!(desk.exits.is_empty());
    assert!(!desk.text().contains("not sent yet"), "{}", desk.text());
    desk.press("q q x enter");
    assert!(desk.exits.is_empty(), "no other key answers");
    desk.press("d");
    assert_eq!(desk.exits, [Exit::Quit]);
    assert_eq!(desk.sent.len(), 8, "the others were dropped, as was said");
}

#[test]
fn once_all_were_sent_quitting_asks_no_more() {
    let mut desk = in_the_middle();
    while let Some((ticket, command)) = desk.held.pop() {
        desk.receive(ticket, &command);
    }
    assert_eq!(desk.sent.len(), 20);
    assert_eq!(desk.exits, [Exit::Quit]);
}

#[test]
fn a_screen_that_is_too_small_says_what_was_not_sent() {
    let mut desk = in_the_middle();
    desk.take(Event::Resize(39, 9));
    let flat = desk.text().replace('\n', " ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("12 commands not sent yet"), "{flat}");
    desk.press("d");
    assert_eq!(desk.exits, [Exit::Quit]);
}
