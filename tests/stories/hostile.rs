//! Story 10: names that attack a terminal, a table or a spreadsheet.

use unicode_width::UnicodeWidthStr as _;

use super::home::{Cloud, Home};
use super::session::Session;
use super::variation::{Variation, in_variations};

/// A name that would set the terminal's title.
const TITLE: &str = "web\u{1b}]2;owned\u{7}";

/// Whether the character must never be written unescaped: control characters, direction overrides and invisible
/// characters.
fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The escaped form in which the program may show the name.
fn escaped(name: &str) -> String {
    let escape = |c: char| match is_hostile(c) || c == '\n' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    name.chars().map(escape).collect()
}

/// Starts a console on the practice cloud with hostile names.
fn start_console(home: &Home) -> (Session, Cloud) {
    let sandbox = format!("--sandbox={}", home.scenario("hostile"));
    let session = Session::start(home, &[&sandbox]);
    session.wait_for("1 of 1 sites reachable");
    (session, home.embedded_cloud())
}

in_variations! { run_console,
    baseline fn story_10_the_console_escapes_and_aligns_hostile_names_up_to_the_typed_confirmation();
    slow_cloud fn story_10_the_console_escapes_and_aligns_hostile_names_on_a_slow_cloud();
    fast_cloud fn story_10_the_console_escapes_and_aligns_hostile_names_on_a_fast_cloud();
}

fn run_console(variation: &Variation) {
    let home = Home::with(variation);
    let (mut session, cloud) = start_console(&home);
    let networks = cloud.all("networks").len();
    session.open("network", &format!("network {networks}"));
    let shown = |written: &'static str| escaped(variation.name(written));
    let owned = shown(TITLE);
    session.wait_for_all(&[
        &owned,
        &shown("harmless\rDELETED"),
        &shown("first\nsecond"),
        &shown("web-\u{202e}gnp.exe"),
        &shown("we\u{200b}b"),
        &shown("csi \u{9b}31m"),
    ]);
    let columns = session.columns_of("ACTIVE");
    assert!(columns.len() >= 10, "{}", session.text());
    assert!(
        columns.iter().all(|at| *at == columns[0]),
        "{}",
        session.text()
    );

    // The network whose name would set the title is planned, confirmed by its short id, and deleted.
    let title = cloud.all("networks");
    let title = title.iter().find(|n| n["description"] == "title").unwrap();
    let id = title["id"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    let (before, title) = owned.split_once("]2;").unwrap();
    let title = title.trim_end_matches(r"\u{7}");
    session.press(&format!("/{title}"));
    let other = shown("harmless\rDELETED");
    session.wait_until("only that network", |screen| !screen.contains(&other));
    session.press("\r");
    session.press("D");
    session.wait_for_all(&["▶ 2 steps", &format!("network {before}]2;{title}")]);
    session.open_confirmation();
    session.wait_for_all(&[&format!("Type the short id {short}")]);
    let text = session.text();
    assert!(!text.contains(is_hostile), "{text:?}");
    session.press(short);
    session.wait_for(&format!(">{short}"));
    session.press("\r");
    session.wait_for_all(&["✓ gone", "2/2", &format!("network {owned}")]);
    assert_eq!(cloud.status(&format!("/networks/{id}")), 404);
    session.open("stuck", "stuck 0");
    session.open("events", "events");
    session.open("deletions", "deletions 1");
    session.wait_for(&format!("network {before}]2;"));
    session.quit();
    // The program has written none of these control sequences and characters, which names contain or could inject.
    let raw = String::from_utf8_lossy(&session.raw()).into_owned();
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

in_variations! { run_tables,
    baseline fn story_10_tables_are_aligned_and_a_csv_holds_no_formula();
    slow_cloud fn story_10_tables_are_aligned_and_a_csv_holds_no_formula_on_a_slow_cloud();
    fast_cloud fn story_10_tables_are_aligned_and_a_csv_holds_no_formula_on_a_fast_cloud();
}

fn run_tables(variation: &Variation) {
    let mut home = Home::with(variation);
    let sandbox = format!("--sandbox={}", home.scenario("hostile"));
    home.start_engine(&[&sandbox]);
    let table = home.stdout_of(&["--sandbox", "list", "network"]);
    assert!(!table.contains(is_hostile), "{table:?}");
    let ends = |row: &str| row.find(" ACTIVE ").map(|at| row[..at].width());
    let ends: Vec<usize> = table.lines().filter_map(ends).collect();
    assert!(ends.len() >= 10, "{table}");
    // The name is the first column. A long name is cut, or it widens the column in all rows.
    assert!(ends.iter().all(|at| *at == ends[0]), "{ends:?}\n{table}");

    let text = home.stdout_of(&["--sandbox", "list", "network", "-o", "csv"]);
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

    // JSON has the unescaped names.
    let json = home.json(&["--sandbox", "list", "network"]);
    let names: Vec<&str> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&variation.name(TITLE)), "{names:?}");
}
