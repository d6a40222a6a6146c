//! Marks: which rows they choose, what they outlive, and what is done to all of them at once.

use gone::control::{Command, ControlError, Query};
use gone::domain::ladder::{PurgeScope, Rung};
use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::{ConsoleOptions, Event};

use super::fake::{Desk, World, deletion, options, resource, step};

/// Networks with these names.
fn networks(names: &[&str]) -> Desk {
    let mut world = World::busy();
    let rows = (1..).zip(names);
    world.listings[0].rows = rows.map(|(n, name)| resource("network", n, name)).collect();
    world.listings.truncate(1);
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter");
    desk
}

/// The first words of the rows that are marked on the screen.
fn marked(desk: &Desk) -> Vec<String> {
    let text = desk.text();
    let rows = text.lines().filter(|line| line.get(1..2) == Some("*"));
    let words = rows.filter_map(|row| row[2..].split_whitespace().next().map(str::to_owned));
    words.collect()
}

/// Steps of the ids 200 and on that are stuck.
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
    let mut desk = networks(&all);
    desk.press("v");
    assert!(desk.text().contains("mark a row first"), "{}", desk.text());
    assert_eq!(marked(&desk), [""; 0]);
    desk.press("down space down down v");
    assert_eq!(marked(&desk), ["b", "c", "d", "e"]);
    // From the end of a range it goes on, also upwards.
    desk.press("home v");
    assert_eq!(marked(&desk), ["a", "b", "c", "d", "e"]);
    // A range that begins where a row was unmarked is unmarked.
    desk.press("down space down v");
    assert_eq!(marked(&desk), ["a", "e"]);
}

/// The row where a range begins is known by its id: it has moved meanwhile.
#[test]
fn a_range_begins_at_its_row_wherever_a_refresh_has_moved_it() {
    let mut desk = networks(&["a", "b", "c", "d"]);
    desk.press("space");
    desk.world.listings[0].rows.rotate_left(1);
    desk.press("ctrl-r end up v");
    assert_eq!(marked(&desk), ["d", "a"]);
}

#[test]
fn all_that_a_filter_shows_is_marked_inverted_and_cleared() {
    let mut desk = networks(&["web-1", "db-1", "web-2", "db-2"]);
    desk.press("/web enter *");
    assert_eq!(marked(&desk), ["web-1", "web-2"]);
    assert!(desk.text().contains("2 rows marked"), "{}", desk.text());
    desk.press("esc i");
    assert_eq!(marked(&desk), ["db-1", "db-2"]);
    // Only what is shown is inverted: the others stay as they are.
    desk.press("/b-1 enter i");
    assert_eq!(marked(&desk), ["web-1"]);
    desk.press("esc");
    assert_eq!(marked(&desk), ["web-1", "db-2"]);
    desk.press("u");
    assert_eq!(marked(&desk), [""; 0]);
    assert!(!desk.text().contains(" marked ─"), "{}", desk.text());
}

#[test]
fn marks_that_a_filter_hides_are_told_before_anything_is_planned() {
    let mut desk = networks(&["web-1", "db-1", "web-2"]);
    desk.press("space space /web enter");
    let text = desk.text();
    assert!(
        text.contains("network 2 of 3 · 2 marked, 1 hidden"),
        "{text}"
    );
    desk.press("D");
    assert_eq!(desk.sent.len(), 0, "the person is told first");
    let text = desk.text();
    assert!(
        text.contains("1 of 2 marked rows hidden: D again takes all"),
        "{text}"
    );
    // Another key in between is no answer.
    desk.press("space D");
    assert_eq!(desk.sent.len(), 0);
    desk.press("D");
    let Some(Command::Plan { targets, .. }) = desk.sent.last() else {
        panic!("no plan:\n{}", desk.text());
    };
    assert_eq!(targets.len(), 3, "the hidden one too");
}

#[test]
fn marked_steps_are_retried_once_their_number_is_typed() {
    let mut desk = Desk::new(stuck(4), (80, 24));
    desk.press(":stuck enter space space space r");
    let text = desk.text();
    assert!(text.contains("Retry 3 steps"), "{text}");
    assert!(text.contains("Type how many: 3"), "{text}");
    desk.press("4 enter");
    assert_eq!(desk.changes().len(), 0);
    desk.press("ctrl-u 3 enter");
    let ids: Vec<i64> = (desk.changes().iter())
        .filter_map(|command| match command {
            Command::RetryStep { step_id } => Some(*step_id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [200, 201, 202]);
    let text = desk.text();
    assert!(text.contains("retry 3 steps: 3 done"), "{text}");
    assert!(
        !text.contains("marked"),
        "what was confirmed is unmarked\n{text}"
    );
}

#[test]
fn p03_marked_steps_are_abandoned_only_with_the_word_and_their_number() {
    let mut desk = Desk::new(stuck(3), (80, 24));
    desk.press(":stuck enter * F");
    let text = desk.text();
    assert!(text.contains("Abandon 3 steps"), "{text}");
    assert!(text.contains("This cannot be undone"), "{text}");
    desk.press("3 enter ctrl-u abandon");
    assert_eq!(desk.changes().len(), 0);
    desk.press("space 3 enter");
    let changes = desk.changes();
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
        assert_eq!(confirm.len(), 8, "the short id of the deletion");
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
    let mut desk = Desk::new(world, (80, 24));
    desk.press("* p");
    let text = desk.text();
    assert!(text.contains("Pause 2 deletions"), "{text}");
    assert!(
        text.contains("2 left out: it has nothing to pause"),
        "{text}"
    );
    desk.press("2 enter");
    assert!(matches!(
        desk.changes()[..],
        [Command::Pause { .. }, Command::Pause { .. }]
    ));
    desk.sent.clear();
    for deletion in &mut desk.world.deletions[..2] {
        deletion.state = DeletionState::Paused;
    }
    desk.press("ctrl-r");
    desk.pass(2);
    desk.press("home space space p 2 enter");
    assert!(matches!(
        desk.changes()[..],
        [Command::Resume { .. }, Command::Resume { .. }]
    ));
    desk.sent.clear();
    // What is stuck can be cancelled; what has ended cannot.
    desk.press("* c");
    let text = desk.text();
    assert!(text.contains("Cancel 3 deletions"), "{text}");
    assert!(
        text.contains("1 left out: the deletion has ended"),
        "{text}"
    );
    desk.press("3 enter");
    assert_eq!(desk.changes().len(), 3);
}

#[test]
fn nothing_is_asked_if_it_can_be_done_to_none_of_the_marked_rows() {
    let mut world = World::busy();
    world.deletions = vec![deletion(3, DeletionState::Gone, 9, 9)];
    world.snapshot.deletions.clear();
    let mut desk = Desk::new(world, (80, 24));
    desk.press("space c");
    assert_eq!(desk.sent.len(), 0);
    let text = desk.text();
    assert!(
        text.contains("there is nothing to cancel: the deletion has ended"),
        "{text}"
    );
}

/// The engine searches for what fits, so the other rows are not there any more; their marks are.
#[test]
fn marks_in_stuck_outlive_a_filter_for_which_the_engine_searches() {
    let mut desk = Desk::new(stuck(4), (80, 24));
    desk.press(":stuck enter space /server-3 enter");
    let text = desk.text();
    assert!(text.contains("1 marked, 1 hidden"), "{text}");
    desk.press("space r");
    assert_eq!(desk.sent.len(), 0);
    desk.press("r 2 enter");
    assert_eq!(desk.changes().len(), 2, "{:?}", desk.changes());
    // What is gone from all rows has no mark either.
    desk.press("esc space");
    assert!(desk.text().contains("1 marked"), "{}", desk.text());
    desk.world.steps.retain(|step| step.id != 200);
    desk.press("ctrl-r");
    desk.pass(2);
    assert!(!desk.text().contains("marked"), "{}", desk.text());
}

/// There are more rows than a page has.
#[test]
fn all_rows_are_marked_also_those_that_were_not_read_yet() {
    let mut desk = Desk::new(stuck(1_234), (80, 24));
    desk.press(":stuck enter *");
    let text = desk.text();
    assert!(text.contains("1,234 rows marked"), "{text}");
    assert!(text.contains("stuck 1,234 · 1,234 marked"), "{text}");
    let pages = desk
        .asked
        .iter()
        .filter(|query| matches!(query, Query::Steps(_)));
    assert!(pages.count() >= 3);
}

#[test]
fn a_few_commands_at_a_time_are_sent_and_what_was_refused_is_told_as_one() {
    let mut desk = Desk::new(stuck(20), (80, 24));
    desk.press(":stuck enter * r");
    desk.receives = false;
    desk.press("2 0 enter");
    assert_eq!(desk.sent.len(), 8, "a few at a time");
    let mut nth = 0;
    while let Some((ticket, command)) = desk.held.pop() {
        nth += 1;
        let receipt = match nth % 4 {
            0 => Err(ControlError::Internal {
                message: "the disk is full".to_owned(),
            }),
            _ => desk.world.receive(&command),
        };
        let now = desk.now;
        desk.take(Event::Receipt {
            ticket,
            receipt,
            now,
        });
        assert!(desk.held.len() <= 8);
    }
    assert_eq!(nth, 20);
    let text = desk.text();
    assert!(
        text.contains("retry 20 steps: 15 done, 5 refused"),
        "{text}"
    );
    assert!(text.contains("the disk is full"), "{text}");
}

#[test]
fn what_to_type_stays_on_the_smallest_screen() {
    for (keys, ask) in [("* r", "how many: 3"), ("* F", "\"abandon 3\"")] {
        let look = ConsoleOptions {
            ascii: true,
            ..options()
        };
        let mut desk = Desk::with(stuck(3), (40, 10), look);
        desk.press(":stuck enter");
        desk.press(keys);
        let flat = desk.text().replace(['|', '\n'], " ");
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains(ask) && flat.contains("Esc sends nothing"),
            "{}",
            desk.text()
        );
        assert!(desk.text().contains("| >"), "{}", desk.text());
    }
}
