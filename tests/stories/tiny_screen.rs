//! Story 11: a tiny terminal without colours and with ASCII only, which is resized again and again.

use super::home::Home;
use super::session::Session;
use super::variation::{Variation, in_variations};

/// A sequence of sizes: the smallest allowed, smaller ones and large ones.
fn sizes(variation: &Variation) -> impl Iterator<Item = (u16, u16)> {
    let edges = [(40, 10), (300, 100), (39, 10), (40, 9), (9, 3), (80, 24)];
    let mut dice = fastrand::Rng::with_seed(variation.columns.into());
    let any = std::iter::repeat_with(move || (dice.u16(40..=300), dice.u16(10..=100)));
    edges.into_iter().chain(any.take(20)).chain([(40, 10)])
}

in_variations! { run,
    baseline fn story_11_resizes_of_an_ascii_screen_without_colours_keep_each_pane_and_the_selection();
    slow_cloud fn story_11_resizes_of_an_ascii_screen_without_colours_keep_each_pane_on_a_slow_cloud();
}

/// The kernel reports the key and the resize together, and the program must handle both.
#[test]
fn a_key_that_comes_with_a_resize_is_shown_without_another_key() {
    let variation = Variation::baseline();
    let home = Home::with(&variation);
    let mut session = Session::start(&home, &["--sandbox"]);
    session.wait_for("sites reachable");
    for round in 0..30 {
        session.press(":");
        let mut typed = ":".to_owned();
        for letter in 'a'..='j' {
            typed.push(letter);
            session.resize(variation.columns, variation.rows - 1 + round % 2);
            session.press(&letter.to_string());
            session.wait_for(&typed);
        }
        session.press("\x1b");
        session.wait_until("no command line", |screen| !screen.contains(&typed));
    }
}

fn run(variation: &Variation) {
    let home = Home::with(variation);
    let sandbox = format!("--sandbox={}", home.scenario("hostile"));
    let more = [("NO_COLOR", "1"), ("LANG", "C"), ("LC_ALL", "C")];
    let mut session = Session::start_with_env(&home, &[&sandbox, "--ascii"], &more);
    session.wait_for("1 of 1 sites reachable");
    let panes = [
        (":network\r", "STATUS"),
        ("\r", "FIELD"),
        ("\x1b", "STATUS"),
        // A text of the finished plan: the console drops keys that are typed while the plan is made.
        ("D", "floating IPs"),
        ("\x1b", "STATUS"),
        (":stuck\r", "-- stuck"),
        (":causes\r", "causes"),
        (":events\r", "-- events"),
        (":sites\r", "-- sites"),
        ("?", "keys"),
    ];
    for (keys, title) in panes {
        session.press(keys);
        session.wait_for(title);
        for (columns, rows) in sizes(variation) {
            session.resize(columns, rows);
            session.press("j");
        }
        session.resize(variation.columns, variation.rows);
        // The console drops keys while the screen is too small, so wait until this size is drawn.
        session.wait_for_silence();
        session.wait_for(title);
    }
    session.press(":network\r");
    session.wait_for("STATUS");
    session.wait_until("a selected row", |_| session.reversed_rows() == 1);
    session.wait_for_silence();
    let before = session.raw().len();
    session.wait_for_silence();
    assert_eq!(
        session.raw().len(),
        before,
        "a console at rest writes nothing"
    );
    session.quit();
    let raw = session.raw();
    assert!(raw.is_ascii(), "only ASCII");
    let raw = String::from_utf8(raw).unwrap();
    for sequence in raw.split("\x1b[").skip(1) {
        let codes = sequence.split_once('m').map_or("", |(codes, _)| codes);
        let is_style = codes.chars().all(|c| c.is_ascii_digit() || c == ';');
        let mut colours = codes.split(';').filter_map(|code| code.parse::<u8>().ok());
        assert!(!is_style || !colours.any(|code| code >= 30), "{codes}");
    }
}
