//! Marked rows: how rows are marked, when marks disappear, and commands for all marked rows at once.

use gone::control::{Command, ControlError, Query};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::{ConsoleOptions, Event};

use super::fake::{TestConsole, World, deletion, options, resource, step};

/// A console that lists networks with these names.
fn networks(names: &[&str]) -> TestConsole {
    let mut world = World::busy();
    let rows = (1..).zip(names);
    world.listings[0].rows = rows.map(|(n, name)| resource("network", n, name)).collect();
    world.listings.truncate(1);
    let mut console = TestConsole::new(world, (80, 24));
    console.press(":network enter");
    console
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
    assert!(
        console.text().contains("mark a row first"),
        "{}",
        console.text()
    );
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
    assert!(
        console.text().contains("2 rows marked"),
        "{}",
        console.text()
    );
    console.press("esc i");
    assert_eq!(marked(&console), ["db-1", "db-2"]);
    // Only shown rows are inverted; hidden rows keep their marks.
    console.press("/b-1 enter i");
    assert_eq!(marked(&console), ["web-1"]);
    console.press("esc");
    assert_eq!(marked(&console), ["web-1", "db-2"]);
    console.press("u");
    assert_eq!(marked(&console), [""; 0]);
    assert!(!console.text().contains(" marked ─"), "{}", console.text());
}

#[test]
fn a_plan_key_first_warns_about_marked_rows_that_a_filter_hides() {
    let mut console = networks(&["web-1", "db-1", "web-2"]);
    console.press("space space /web enter");
    let text = console.text();
    assert!(
        text.contains("network 2 of 3 · 2 marked, 1 hidden"),
        "{text}"
    );
    console.press("D");
    assert_eq!(console.sent.len(), 0, "the person is warned first");
    let text = console.text();
    assert!(
        text.contains("1 of 2 marked rows hidden: D again takes all"),
        "{text}"
    );
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
    let mut console = TestConsole::new(stuck(4), (80, 24));
    console.press(":stuck enter space space space r");
    let text = console.text();
    assert!(text.contains("Retry 3 steps"), "{text}");
    assert!(text.contains("Type how many: 3"), "{text}");
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
    let text = console.text();
    assert!(text.contains("retry 3 steps: 3 done"), "{text}");
    assert!(
        !text.contains("marked"),
        "the confirmed rows are unmarked\n{text}"
    );
}

#[test]
fn p03_marked_steps_are_abandoned_only_after_the_word_and_their_number_were_typed() {
    let mut console = TestConsole::new(stuck(3), (80, 24));
    console.press(":stuck enter * F");
    let text = console.text();
    assert!(text.contains("Abandon 3 steps"), "{text}");
    assert!(text.contains("This cannot be undone"), "{text}");
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
    let mut console = TestConsole::new(world, (80, 24));
    console.press("* p");
    let text = console.text();
    assert!(text.contains("Pause 2 deletions"), "{text}");
    assert!(
        text.contains("2 left out: it has nothing to pause"),
        "{text}"
    );
    console.press("2 enter");
    assert!(matches!(
        console.changes()[..],
        [Command::Pause { .. }, Command::Pause { .. }]
    ));
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
    let text = console.text();
    assert!(text.contains("Cancel 3 deletions"), "{text}");
    assert!(
        text.contains("1 left out: the deletion has ended"),
        "{text}"
    );
    console.press("3 enter");
    assert_eq!(console.changes().len(), 3);
}

#[test]
fn a_command_that_applies_to_no_marked_row_says_so_and_sends_nothing() {
    let mut world = World::busy();
    world.deletions = vec![deletion(3, DeletionState::Gone, 9, 9)];
    world.snapshot.deletions.clear();
    let mut console = TestConsole::new(world, (80, 24));
    console.press("space c");
    assert_eq!(console.sent.len(), 0);
    let text = console.text();
    assert!(
        text.contains("there is nothing to cancel: the deletion has ended"),
        "{text}"
    );
}

/// The engine applies the filter, so the console no longer has the other rows, but keeps their marks.
#[test]
fn marks_in_stuck_survive_a_filter_that_the_engine_applies() {
    let mut console = TestConsole::new(stuck(4), (80, 24));
    console.press(":stuck enter space /server-3 enter");
    let text = console.text();
    assert!(text.contains("1 marked, 1 hidden"), "{text}");
    console.press("space r");
    assert_eq!(console.sent.len(), 0);
    console.press("r 2 enter");
    assert_eq!(console.changes().len(), 2, "{:?}", console.changes());
    // A step that is in no list any more has no mark either.
    console.press("esc space");
    assert!(console.text().contains("1 marked"), "{}", console.text());
    console.world.steps.retain(|step| step.id != 200);
    console.press("ctrl-r");
    console.advance(2);
    assert!(!console.text().contains("marked"), "{}", console.text());
}

/// There are more rows than one page has.
#[test]
fn marking_all_rows_includes_rows_that_were_not_read_yet() {
    let mut console = TestConsole::new(stuck(1_234), (80, 24));
    console.press(":stuck enter *");
    let text = console.text();
    assert!(text.contains("1,234 rows marked"), "{text}");
    assert!(text.contains("stuck 1,234 · 1,234 marked"), "{text}");
    let pages = console
        .queries
        .iter()
        .filter(|query| matches!(query, Query::Steps(_)));
    assert!(pages.count() >= 3);
}

#[test]
fn commands_for_marked_rows_are_sent_eight_at_a_time_and_refusals_are_summed_up() {
    let mut console = TestConsole::new(stuck(20), (80, 24));
    console.press(":stuck enter * r");
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
        let now = console.now;
        console.handle(Event::Receipt {
            ticket,
            receipt,
            now,
        });
        assert!(console.unanswered_commands.len() <= 8);
    }
    assert_eq!(nth, 20);
    let text = console.text();
    assert!(
        text.contains("retry 20 steps: 15 done, 5 refused"),
        "{text}"
    );
    assert!(text.contains("the disk is full"), "{text}");
}

#[test]
fn the_text_to_type_is_shown_on_the_smallest_screen() {
    for (keys, ask) in [("* r", "how many: 3"), ("* F", "\"abandon 3\"")] {
        let options = ConsoleOptions {
            ascii: true,
            ..options()
        };
        let mut console = TestConsole::with(stuck(3), (40, 10), options);
        console.press(":stuck enter");
        console.press(keys);
        let flat = console.text().replace(['|', '\n'], " ");
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains(ask) && flat.contains("Esc sends nothing"),
            "{}",
            console.text()
        );
        assert!(console.text().contains("| >"), "{}", console.text());
    }
}
