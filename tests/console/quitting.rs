//! Quitting while commands for marked rows are not sent yet.

use gone::domain::model::StepState;
use gone::frontends::console::{Event, Exit};

use super::fake::{TestConsole, World, step};

/// A console that was asked to quit after it sent 8 of 20 commands for marked rows.
fn with_unsent_commands() -> TestConsole {
    let mut world = World::busy();
    // A refused deletion would be one more row.
    world.deletions.clear();
    world.steps = (1..=20)
        .map(|n| step(n, "port", "p", StepState::Stuck, &[]))
        .collect();
    let mut console = TestConsole::new(world, (80, 24)).after(":stuck enter * r");
    console.answers_commands = false;
    console.press("2 0 enter q");
    console
}

#[test]
fn quitting_asks_about_commands_that_were_not_sent() {
    let mut console = with_unsent_commands();
    assert!(console.exits.is_empty());
    console.assert_shows(["12 commands not sent yet: retry 20 steps."]);
    console.press("esc");
    assert!(console.exits.is_empty());
    console.assert_hides(["not sent yet"]);
    console.press("q q x enter");
    assert!(console.exits.is_empty(), "no other key answers");
    console.press("d");
    assert_eq!(console.exits, [Exit::Quit]);
    assert_eq!(console.sent.len(), 8, "the other 12 commands were dropped");
}

#[test]
fn quitting_proceeds_once_all_commands_were_sent() {
    let mut console = with_unsent_commands();
    while let Some((ticket, command)) = console.unanswered_commands.pop() {
        console.answer_command(ticket, &command);
    }
    assert_eq!(console.sent.len(), 20);
    assert_eq!(console.exits, [Exit::Quit]);
}

#[test]
fn a_screen_that_is_too_small_says_what_was_not_sent() {
    let mut console = with_unsent_commands();
    console.handle(Event::Resize(39, 9));
    let flat = console.text().replace('\n', " ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("12 commands not sent yet"), "{flat}");
    console.press("d");
    assert_eq!(console.exits, [Exit::Quit]);
}
