//! Story 10: names that attack a terminal, a table or a spreadsheet.

use unicode_width::UnicodeWidthStr as _;

use super::seat::Seat;
use super::stage::{Cloud, Stage};
use super::telling::Telling;

/// A name that would set the terminal's title.
const TITLE: &str = "web\u{1b}]2;owned\u{7}";

/// What must never reach a terminal or a file as it is: controls, overrides, what is invisible.
fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// As it may be shown.
fn visible(name: &str) -> String {
    let escaped = |c: char| match is_hostile(c) || c == '\n' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    name.chars().map(escaped).collect()
}

/// A console on the hostile cloud, past its start.
fn sit(stage: &Stage) -> (Seat, Cloud) {
    let sandbox = format!("--sandbox={}", stage.scenario("hostile"));
    let seat = Seat::take(stage, &[&sandbox]);
    seat.see("1 of 1 sites reachable");
    (seat, stage.carried_cloud())
}

#[test]
fn story_10_the_console_shows_hostile_names_visibly_and_aligned_up_to_the_typed_confirmation() {
    tell_of_the_console(&Telling::as_written());
}

#[test]
fn story_10_the_console_shows_hostile_names_visibly_and_aligned_told_otherwise() {
    tell_of_the_console(&Telling::otherwise());
}

#[test]
fn story_10_the_console_shows_hostile_names_visibly_and_aligned_told_at_leisure() {
    tell_of_the_console(&Telling::at_leisure());
}

fn tell_of_the_console(telling: &Telling) {
    let stage = Stage::of(telling);
    let (mut seat, cloud) = sit(&stage);
    let networks = cloud.all("networks").len();
    seat.go("network", &format!("network {networks}"));
    let shown = |written: &'static str| visible(telling.name(written));
    let owned = shown(TITLE);
    seat.see_all(&[
        &owned,
        &shown("harmless\rDELETED"),
        &shown("first\nsecond"),
        &shown("web-\u{202e}gnp.exe"),
        &shown("we\u{200b}b"),
        &shown("csi \u{9b}31m"),
    ]);
    let columns = seat.columns_of("ACTIVE");
    assert!(columns.len() >= 10, "{}", seat.text());
    assert!(
        columns.iter().all(|at| *at == columns[0]),
        "{}",
        seat.text()
    );

    // One that would set the title: planned, confirmed by what can be typed, and gone.
    let title = cloud.all("networks");
    let title = title.iter().find(|n| n["description"] == "title").unwrap();
    let id = title["id"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    let (before, title) = owned.split_once("]2;").unwrap();
    let title = title.trim_end_matches(r"\u{7}");
    seat.press(&format!("/{title}"));
    let other = shown("harmless\rDELETED");
    seat.wait("only that one", |screen| !screen.contains(&other));
    seat.press("\r");
    seat.press("D");
    seat.see_all(&["▶ 2 steps", &format!("network {before}]2;{title}")]);
    seat.go_on();
    seat.see_all(&[&format!("Type the short id {short}")]);
    let text = seat.text();
    assert!(!text.contains(is_hostile), "{text:?}");
    seat.press(short);
    seat.see(&format!(">{short}"));
    seat.press("\r");
    seat.see_all(&["✓ gone", "2/2", &format!("network {owned}")]);
    assert_eq!(cloud.status(&format!("/networks/{id}")), 404);
    seat.go("stuck", "stuck 0");
    seat.go("events", "events");
    seat.go("deletions", "deletions 1");
    seat.see(&format!("network {before}]2;"));
    seat.press("q");
    seat.left();
    // Of all that was ever sent, only what the console itself sets up begins with ESC.
    let raw = String::from_utf8_lossy(&seat.raw()).into_owned();
    for start in [
        "\x1b]2",
        "\x1b]0",
        "\u{9b}",
        "\u{202e}",
        "\u{200b}",
        "\x1b[31mred",
    ] {
        assert!(!raw.contains(start), "{start:?}");
    }
}

#[test]
fn story_10_tables_are_aligned_and_a_csv_holds_no_formula() {
    tell_of_tables(&Telling::as_written());
}

#[test]
fn story_10_tables_are_aligned_and_a_csv_holds_no_formula_told_otherwise() {
    tell_of_tables(&Telling::otherwise());
}

#[test]
fn story_10_tables_are_aligned_and_a_csv_holds_no_formula_told_at_leisure() {
    tell_of_tables(&Telling::at_leisure());
}

fn tell_of_tables(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let sandbox = format!("--sandbox={}", stage.scenario("hostile"));
    stage.start_engine(&[&sandbox]);
    let table = stage.say(&["--sandbox", "list", "network"]);
    assert!(!table.contains(is_hostile), "{table:?}");
    let ends = |row: &str| row.find(" ACTIVE ").map(|at| row[..at].width());
    let ends: Vec<usize> = table.lines().filter_map(ends).collect();
    assert!(ends.len() >= 10, "{table}");
    // The name is the first column: where it is longer than its place it is cut, or all are moved.
    assert!(ends.iter().all(|at| *at == ends[0]), "{ends:?}\n{table}");

    let text = stage.say(&["--sandbox", "list", "network", "-o", "csv"]);
    assert!(!text.contains(is_hostile), "{text:?}");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), ends.len());
    for cell in rows.iter().flatten() {
        assert!(
            !cell.starts_with(['=', '+', '-', '@', '\t', '\r']),
            "{cell:?}"
        );
    }
    let names = rows
        .iter()
        .flatten()
        .filter(|cell| cell.contains("HYPERLINK"));
    assert_eq!(names.count(), 1, "{text}");

    // Machines get the names as they are.
    let json = stage.json(&["--sandbox", "list", "network"]);
    let names: Vec<&str> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&telling.name(TITLE)), "{names:?}");
}
