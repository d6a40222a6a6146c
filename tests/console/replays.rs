//! A ledger as it stood at a time: what the console says of that, and how it goes to another.

use chrono::TimeDelta;
use gone::control::{Command, Moment};
use gone::frontends::console::{ConsoleOptions, Event, Replayed};

use super::fake::{Desk, World, now, options};

/// Ten minutes of a ledger, at their end.
fn desk(size: (u16, u16), ascii: bool) -> Desk {
    let mut world = World::busy();
    world.snapshot.at = Some(now());
    let replay = Replayed {
        ledger: "/backups/ledger-2026.db".to_owned(),
        first: now() - TimeDelta::minutes(10),
        last: now(),
    };
    let look = ConsoleOptions {
        ascii,
        replay: Some(replay),
        ..options()
    };
    Desk::with(world, size, look)
}

/// The engine shows the time that was asked for.
fn arrive(desk: &mut Desk, seconds_back: i64) {
    desk.world.snapshot.at = Some(now() - TimeDelta::seconds(seconds_back));
    desk.publish();
}

fn seeks(desk: &Desk) -> Vec<Moment> {
    let seek = |command: &Command| match command {
        Command::Seek { to } => Some(*to),
        _ => None,
    };
    desk.sent.iter().filter_map(seek).collect()
}

#[test]
fn the_header_says_loudly_which_time_of_what_is_shown() {
    for (size, ascii) in [((80, 24), false), ((120, 40), false), ((80, 24), true)] {
        let desk = desk(size, ascii);
        let text = desk.text();
        let time = now().format("REPLAY %F %T").to_string();
        assert!(text.lines().next().unwrap().contains(&time), "{text}");
        assert!(text.contains("nothing is changed"), "{text}");
        assert!(!ascii || text.is_ascii(), "{text}");
        // Where it stands in all of its time.
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
    let small = desk((40, 10), false);
    assert!(small.text().contains("REPLAY"), "{}", small.text());
}

#[test]
fn keys_and_typed_times_go_to_other_times_one_after_the_other() {
    let at = |seconds| Moment::At(now() - TimeDelta::seconds(seconds));
    let mut desk = desk((80, 24), false);
    desk.press("<");
    assert_eq!(seeks(&desk), [at(30)]);
    // While that is under way, the next are gathered.
    desk.press("< <");
    assert_eq!(seeks(&desk), [at(30)]);
    arrive(&mut desk, 30);
    assert_eq!(seeks(&desk), [at(30), at(90)]);
    arrive(&mut desk, 90);
    desk.press(",");
    assert_eq!(seeks(&desk).last(), Some(&Moment::By(-1)));
    arrive(&mut desk, 95);
    desk.press("{");
    assert_eq!(seeks(&desk).last(), Some(&at(600)));
    arrive(&mut desk, 600);
    let before = seeks(&desk).len();
    desk.press(",");
    assert_eq!(seeks(&desk).len(), before);
    assert!(
        desk.text().contains("this is the first event"),
        "{}",
        desk.text()
    );

    desk.press(":");
    desk.take(Event::Paste("at +2m".to_owned()));
    desk.press("enter");
    assert_eq!(seeks(&desk).last(), Some(&at(480)));
    arrive(&mut desk, 480);
    desk.press(":");
    desk.take(Event::Paste("at half past three".to_owned()));
    desk.press("enter");
    let text = desk.text();
    assert!(text.contains("is not a time; write 03:12:07"), "{text}");
    desk.press(":");
    desk.take(Event::Paste("at +1d".to_owned()));
    desk.press("enter");
    assert!(
        desk.text().contains("that time is after the end"),
        "{}",
        desk.text()
    );
    assert_eq!(seeks(&desk).last(), Some(&at(0)));
}

#[test]
fn p05_nothing_is_sent_from_a_replay_but_for_its_time() {
    for walk in [
        "",
        ":network enter",
        ":stuck enter",
        ":causes enter",
        "enter",
        ":sites enter",
    ] {
        let mut desk = desk((80, 24), false);
        desk.press(walk);
        desk.press("D enter w e b enter esc esc r enter F enter c y enter p x f space");
        let sent: Vec<&Command> = desk.sent.iter().collect();
        assert!(sent.is_empty(), "after {walk:?}: {sent:?}");
    }
    let mut elsewhere = Desk::new(World::busy(), (80, 24));
    elsewhere.press(", . < > { }");
    assert!(elsewhere.sent.is_empty());
    assert!(!elsewhere.text().contains("REPLAY"));
}

#[test]
fn at_rest_a_replay_asks_nothing_and_ticks_for_nothing() {
    let mut desk = desk((80, 24), false);
    for pane in [
        ":deletions enter",
        ":stuck enter",
        ":gc enter",
        ":events enter",
        ":gates enter",
        ":deployments enter",
        ":engine enter",
    ] {
        desk.press(pane);
        assert!(!desk.state.wants_tick(), "{pane}");
    }
}
