//! Story 11: tiny, without colours, only ASCII, and of every size one after another.

use super::seat::Seat;
use super::stage::Stage;
use super::telling::Telling;

/// Sizes that a storm of resizes goes through: the smallest, smaller ones, and large ones.
fn storm(telling: &Telling) -> impl Iterator<Item = (u16, u16)> {
    let edges = [(40, 10), (300, 100), (39, 10), (40, 9), (9, 3), (80, 24)];
    let mut dice = fastrand::Rng::with_seed(telling.columns.into());
    let any = std::iter::repeat_with(move || (dice.u16(40..=300), dice.u16(10..=100)));
    edges.into_iter().chain(any.take(20)).chain([(40, 10)])
}

#[test]
fn story_11_tiny_mono_and_ascii_no_screen_breaks_and_the_selection_is_seen() {
    tell(&Telling::as_written());
}

#[test]
fn story_11_tiny_mono_and_ascii_no_screen_breaks_and_the_selection_is_seen_told_otherwise() {
    tell(&Telling::otherwise());
}

/// The kernel tells of both at once, and neither may hide the other.
#[test]
fn a_key_that_comes_with_a_resize_is_shown_without_another_key() {
    let telling = Telling::as_written();
    let stage = Stage::of(&telling);
    let mut seat = Seat::take(&stage, &["--sandbox"]);
    seat.see("sites reachable");
    for round in 0..30 {
        seat.press(":");
        let mut typed = ":".to_owned();
        for letter in 'a'..='j' {
            typed.push(letter);
            seat.resize(telling.columns, telling.rows - 1 + round % 2);
            seat.press(&letter.to_string());
            seat.see(&typed);
        }
        seat.press("\x1b");
        seat.wait("no command line", |screen| !screen.contains(&typed));
    }
}

fn tell(telling: &Telling) {
    let stage = Stage::of(telling);
    let sandbox = format!("--sandbox={}", stage.scenario("hostile"));
    let more = [("NO_COLOR", "1"), ("LANG", "C"), ("LC_ALL", "C")];
    let mut seat = Seat::take_with(&stage, &[&sandbox, "--ascii"], &more);
    seat.see("1 of 1 sites reachable");
    let walk = [
        (":network\r", "STATUS"),
        ("\r", "FIELD"),
        ("\x1b", "STATUS"),
        // The plan, not that it is being made: a key that comes with it is typed ahead, and dropped.
        ("D", "floating IPs"),
        ("\x1b", "STATUS"),
        (":stuck\r", "-- stuck"),
        (":causes\r", "causes"),
        (":events\r", "-- events"),
        (":sites\r", "-- sites"),
        ("?", "keys"),
    ];
    for (keys, title) in walk {
        seat.press(keys);
        seat.see(title);
        for (columns, rows) in storm(telling) {
            seat.resize(columns, rows);
            seat.press("j");
        }
        seat.resize(telling.columns, telling.rows);
        // Keys on a screen that is too small mean nothing: not before this one is painted.
        seat.quiet();
        seat.see(title);
    }
    seat.press(":network\r");
    seat.see("STATUS");
    seat.wait("a selected row", |_| seat.reversed_rows() == 1);
    seat.quiet();
    let before = seat.raw().len();
    seat.quiet();
    assert_eq!(seat.raw().len(), before, "at rest it writes nothing");
    seat.press("q");
    seat.left();
    let raw = seat.raw();
    assert!(raw.is_ascii(), "only ASCII");
    let raw = String::from_utf8(raw).unwrap();
    for sequence in raw.split("\x1b[").skip(1) {
        let codes = sequence.split_once('m').map_or("", |(codes, _)| codes);
        let is_style = codes.chars().all(|c| c.is_ascii_digit() || c == ';');
        let mut colours = codes.split(';').filter_map(|code| code.parse::<u8>().ok());
        assert!(!is_style || !colours.any(|code| code >= 30), "{codes}");
    }
}
