//! Marked rows: how rows are marked, when marks disappear, and commands for all marked rows at once.

use gone::control::{Command, ControlError, Query};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::ConsoleOptions;

use super::fake::{TestConsole, World, deletion, options, resource, step};

/// A console that lists networks with these names.
fn networks(names: &[&str]) -> TestConsole {
    let mut world = World::busy();
    let rows = (1..).zip(names);
    world.listings[0].rows = rows.map(|(n, name)| resource("network", n, name)).collect();
    world.listings.truncate(1);
    TestConsole::new(world, (80, 24)).after(":network enter")
}

/// Returns the first word of each row that is marked on the screen.
fn marked(console: &TestConsole) -> Vec<String> {
    let text = console.text();
    let rows = text.lines().filter(|line| line.get(1..2) == Some("*"));
    let words = rows.filter_map(|row| row[2..].split_whitespace().next().map(str::to_owned));
    words.collect()
}

/// `n` stuck steps, with ids from 200.
fn stuck(n: i64) -> World {
    let mut world = World::busy();
    world.steps.clear();
    let steps = (0..n).map(|at| {
        let name = format!("server-{at}");
        step(200 + at, "port", &name, StepState::Stuck, &[])
    });
    world.steps.extend(steps);
    world
        .deletions
        .retain(|it| it.state != DeletionState::Refused);
    world.snapshot.attention.clear();
    world
}

#[test]
fn a_range_goes_from_the_last_mark_to_the_cursor_in_either_direction() {
    let all = ["a", "b", "c", "d", "e", "f"];
    let mut console = networks(&all);
    console.press("v");
    console.assert_shows(["mark a row first"]);
    assert_eq!(marked(&console), [""; 0]);
    console.press("down space down down v");
    assert_eq!(marked(&console), ["b", "c", "d", "e"]);
    // Another range starts at the end of the last one, and may go upwards.
    console.press("home v");
    assert_eq!(marked(&console), ["a", "b", "c", "d", "e"]);
    // A range that starts at a row that was just unmarked unmarks its rows.
    console.press("down space down v");
    assert_eq!(marked(&console), ["a", "e"]);
}

/// The console knows the row where a range starts by its id, not by its position.
#[test]
fn a_range_starts_at_its_row_even_after_a_refresh_moved_the_row() {
    let mut console = networks(&["a", "b", "c", "d"]);
    console.press("space");
    console.world.listings[0].rows.rotate_left(1);
    console.press("ctrl-r end up v");
    assert_eq!(marked(&console), ["d", "a"]);
}

#[test]
fn marking_inverting_and_clearing_apply_to_the_shown_rows() {
    let mut console = networks(&["web-1", "db-1", "web-2", "db-2"]);
    console.press("/web enter *");
    assert_eq!(marked(&console), ["web-1", "web-2"]);
    console.assert_shows(["2 rows marked"]);
    console.press("esc i");
    assert_eq!(marked(&console), ["db-1", "db-2"]);
    // Only the marks of shown rows are inverted; hidden rows keep their marks.
    console.press("/b-1 enter i");
    assert_eq!(marked(&console), ["web-1"]);
    console.press("esc");
    assert_eq!(marked(&console), ["web-1", "db-2"]);
    console.press("u");
    assert_eq!(marked(&console), [""; 0]);
    console.assert_hides([" marked ─"]);
}

#[test]
fn a_plan_key_first_warns_about_marked_rows_that_a_filter_hides() {
    let mut console = networks(&["web-1", "db-1", "web-2"]);
    console.press("space space /web enter");
    console.assert_shows(["network 2 of 3 · 2 marked, 1 hidden"]);
    console.press("D");
    assert_eq!(console.sent.len(), 0, "the person is warned first");
    console.assert_shows(["1 of 2 marked rows hidden: D again acts on all"]);
    // After another key in between, D warns again.
    console.press("space D");
    assert_eq!(console.sent.len(), 0);
    console.press("D");
    let Some(Command::Plan { targets, .. }) = console.sent.last() else {
        panic!("no plan:\n{}", console.text());
    };
    assert_eq!(targets.len(), 3, "the hidden row is a target too");
}

#[test]
fn marked_steps_are_retried_only_after_their_number_was_typed() {
    let mut console =
        TestConsole::new(stuck(4), (80, 24)).after(":stuck enter space space space r");
    console.assert_shows(["Retry 3 steps", "Type how many: 3"]);
    console.press("4 enter");
    assert_eq!(console.changes().len(), 0);
    console.press("ctrl-u 3 enter");
    let ids: Vec<i64> = (console.changes().iter())
        .filter_map(|command| match command {
            Command::RetryStep { step_id } => Some(*step_id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [200, 201, 202]);
    console.assert_shows(["retry 3 steps: 3 done"]);
    // The confirmed rows are unmarked.
    console.assert_hides(["marked"]);
}

#[test]
fn p03_marked_steps_are_abandoned_only_after_the_word_and_their_number_were_typed() {
    let mut console = TestConsole::new(stuck(3), (80, 24)).after(":stuck enter * F");
    console.assert_shows(["Abandon 3 steps", "This cannot be undone"]);
    console.press("3 enter ctrl-u abandon");
    assert_eq!(console.changes().len(), 0);
    console.press("space 3 enter");
    let changes = console.changes();
    assert_eq!(changes.len(), 3);
    for (command, id) in changes.into_iter().zip(200..) {
        let Command::Purge {
            what,
            rung,
            confirm,
        } = command
        else {
            panic!("{command:?}");
        };
        assert_eq!((what, rung), (&PurgeScope::Step(id), &Rung::Forget));
        assert_eq!(confirm.len(), 8, "the short id of the deletion confirms");
    }
}

#[test]
fn marked_deletions_are_paused_resumed_and_cancelled_together() {
    let mut world = World::busy();
    world.deletions = vec![
        deletion(1, DeletionState::Running, 1, 9),
        deletion(2, DeletionState::Running, 2, 9),
        deletion(3, DeletionState::Gone, 9, 9),
        deletion(4, DeletionState::Stuck, 1, 9),
    ];
    world.snapshot.deletions.clear();
    let mut console = TestConsole::new(world, (80, 24)).after("* p");
    console.assert_shows(["Pause 2 deletions", "2 left out: the deletion has ended"]);
    console.press("2 enter");
    assert!(matches!(
        console.changes()[..],
        [Command::Pause { .. }, Command::Pause { .. }]
    ));
    console.assert_shows(["pause 2 deletions: 2 done"]);
    console.sent.clear();
    for deletion in &mut console.world.deletions[..2] {
        deletion.state = DeletionState::Paused;
    }
    console.press("ctrl-r");
    console.advance(2);
    console.press("home space space p 2 enter");
    assert!(matches!(
        console.changes()[..],
        [Command::Resume { .. }, Command::Resume { .. }]
    ));
    console.sent.clear();
    // A stuck deletion can be cancelled; one that has ended cannot.
    console.press("* c");
    console.assert_shows(["Cancel 3 deletions", "1 left out: the deletion has ended"]);
    console.press("3 enter");
    assert_eq!(console.changes().len(), 3);
}

#[test]
fn a_command_that_applies_to_no_marked_row_says_so_and_sends_nothing() {
    let mut world = World::busy();
    world.deletions = vec![deletion(3, DeletionState::Gone, 9, 9)];
    world.snapshot.deletions.clear();
    let console = TestConsole::new(world, (80, 24)).after("space c");
    assert_eq!(console.sent.len(), 0);
    console.assert_shows(["there is nothing to cancel: the deletion has ended"]);
}

/// The engine applies the filter, so the console no longer has the other rows, but keeps their marks.
#[test]
fn marks_in_stuck_survive_a_filter_that_the_engine_applies() {
    let mut console =
        TestConsole::new(stuck(4), (80, 24)).after(":stuck enter space /server-3 enter");
    console.assert_shows(["1 marked, 1 hidden"]);
    console.press("space r");
    assert_eq!(console.sent.len(), 0);
    console.press("r 2 enter");
    assert_eq!(console.changes().len(), 2, "{:?}", console.changes());
    // A step that is in no list any more has no mark either.
    console.press("esc space");
    console.assert_shows(["1 marked"]);
    console.world.steps.retain(|step| step.id != 200);
    console.press("ctrl-r");
    console.advance(2);
    console.assert_hides(["marked"]);
}

/// There are more rows than one page has.
#[test]
fn marking_all_rows_includes_rows_that_were_not_read_yet() {
    let console = TestConsole::new(stuck(1_234), (80, 24)).after(":stuck enter *");
    console.assert_shows(["1,234 rows marked", "stuck 1,234 · 1,234 marked"]);
    assert!(console.count(|query| matches!(query, Query::Steps(_))) >= 3);
}

#[test]
fn commands_for_marked_rows_are_sent_eight_at_a_time_and_refusals_are_summed_up() {
    let mut console = TestConsole::new(stuck(20), (80, 24)).after(":stuck enter * r");
    console.answers_commands = false;
    console.press("2 0 enter");
    assert_eq!(console.sent.len(), 8, "eight commands at a time");
    let mut nth = 0;
    while let Some((ticket, command)) = console.unanswered_commands.pop() {
        nth += 1;
        let receipt = match nth % 4 {
            0 => Err(ControlError::Internal {
                message: "the disk is full".to_owned(),
            }),
            _ => console.world.receipt(&command),
        };
        console.receive(ticket, receipt);
        assert!(console.unanswered_commands.len() <= 8);
    }
    assert_eq!(nth, 20);
    console.assert_shows(["retry 20 steps: 15 done, 5 refused", "the disk is full"]);
}

#[test]
fn the_text_to_type_is_shown_on_the_smallest_screen() {
    for (keys, ask) in [("* r", "how many: 3"), ("* F", "\"abandon 3\"")] {
        let options = ConsoleOptions {
            ascii: true,
            ..options()
        };
        let mut console = TestConsole::with(stuck(3), (40, 10), options).after(":stuck enter");
        console.press(keys);
        let flat = console.text().replace(['|', '\n'], " ");
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains(ask) && flat.contains("Esc sends nothing"),
            "{}",
            console.text()
        );
        console.assert_shows(["| >"]);
    }
}
