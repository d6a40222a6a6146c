//! The replay of a ledger: how the console shows its time, and how a person moves to another time.

use chrono::TimeDelta;
use gone::control::{Command, Moment};
use gone::frontends::console::{ConsoleOptions, Event, Replayed};

use super::fake::{TestConsole, World, now, options};

/// A console that replays ten minutes of a ledger, at their end.
fn console(size: (u16, u16), ascii: bool) -> TestConsole {
    let mut world = World::busy();
    world.snapshot.at = Some(now());
    let replay = Replayed {
        ledger: "/backups/ledger-2026.db".to_owned(),
        first: now() - TimeDelta::minutes(10),
        last: now(),
    };
    let options = ConsoleOptions {
        ascii,
        replay: Some(replay),
        ..options()
    };
    TestConsole::with(world, size, options)
}

/// The engine publishes the state of the ledger at this many seconds before its end.
fn publish_time(console: &mut TestConsole, seconds_back: i64) {
    console.world.snapshot.at = Some(now() - TimeDelta::seconds(seconds_back));
    console.publish();
}

fn seeks(console: &TestConsole) -> Vec<Moment> {
    let seek = |command: &Command| match command {
        Command::Seek { to } => Some(*to),
        _ => None,
    };
    console.sent.iter().filter_map(seek).collect()
}

#[test]
fn the_header_shows_that_this_is_a_replay_and_its_time() {
    for (size, ascii) in [((80, 24), false), ((120, 40), false), ((80, 24), true)] {
        let console = console(size, ascii);
        let text = console.text();
        let time = now().format("REPLAY %F %T").to_string();
        assert!(text.lines().next().unwrap().contains(&time), "{text}");
        console.assert_shows(["nothing is changed"]);
        assert!(!ascii || text.is_ascii(), "{text}");
        // The bar shows the position between the first and the last event.
        let knob = if ascii { "O  " } else { "●  " };
        let ends = [now() - TimeDelta::minutes(10), now()].map(|at| at.format("%T").to_string());
        let bar = text
            .lines()
            .find(|line| line.contains(&ends[0]) && line.contains(&ends[1]));
        assert!(
            bar.unwrap_or_default().contains(knob),
            "{knob:?} in\n{text}"
        );
    }
    let small = console((40, 10), false);
    small.assert_shows(["REPLAY"]);
}

#[test]
fn keys_and_typed_times_move_the_replay_one_seek_at_a_time() {
    let at = |seconds| Moment::At(now() - TimeDelta::seconds(seconds));
    let mut console = console((80, 24), false);
    console.press("<");
    assert_eq!(seeks(&console), [at(30)]);
    // Further seeks are gathered until the engine has published the time of the first.
    console.press("< <");
    assert_eq!(seeks(&console), [at(30)]);
    publish_time(&mut console, 30);
    assert_eq!(seeks(&console), [at(30), at(90)]);
    publish_time(&mut console, 90);
    console.press(",");
    assert_eq!(seeks(&console).last(), Some(&Moment::By(-1)));
    publish_time(&mut console, 95);
    console.press("{");
    assert_eq!(seeks(&console).last(), Some(&at(600)));
    publish_time(&mut console, 600);
    let before = seeks(&console).len();
    console.press(",");
    assert_eq!(seeks(&console).len(), before);
    console.assert_shows(["this is the first event"]);

    console.press(":");
    console.handle(Event::Paste("at +2m".to_owned()));
    console.press("enter");
    assert_eq!(seeks(&console).last(), Some(&at(480)));
    publish_time(&mut console, 480);
    console.press(":");
    console.handle(Event::Paste("at half past three".to_owned()));
    console.press("enter");
    console.assert_shows(["is not a time; write 03:12:07"]);
    console.press(":");
    console.handle(Event::Paste("at +1d".to_owned()));
    console.press("enter");
    console.assert_shows(["that time is after the end"]);
    assert_eq!(seeks(&console).last(), Some(&at(0)));
}

#[test]
fn p05_other_keys_send_nothing_from_a_replay_and_seek_keys_nothing_outside_of_one() {
    for walk in [
        "",
        ":network enter",
        ":stuck enter",
        ":causes enter",
        "enter",
        ":sites enter",
    ] {
        let mut console = console((80, 24), false);
        console.press(walk);
        console.press("D enter w e b enter esc esc r enter F enter c y enter p x f space");
        let sent: Vec<&Command> = console.sent.iter().collect();
        assert!(sent.is_empty(), "after {walk:?}: {sent:?}");
    }
    let elsewhere = TestConsole::busy(", . < > { }");
    assert!(elsewhere.sent.is_empty());
    elsewhere.assert_hides(["REPLAY"]);
}

#[test]
fn an_idle_replay_wants_no_ticks() {
    let mut console = console((80, 24), false);
    for pane in [
        ":deletions enter",
        ":stuck enter",
        ":gc enter",
        ":events enter",
        ":gates enter",
        ":deployments enter",
        ":engine enter",
    ] {
        console.press(pane);
        assert!(!console.state.wants_tick(), "{pane}");
    }
}
