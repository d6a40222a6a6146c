//! The report of a deletion: the file that is asked for, and that none is replaced without a question.

use std::path::PathBuf;

use gone::frontends::console::render_lines;

use super::fake::{Desk, World};
use super::pictures::{pictures, shot};

fn desk(keys: &str) -> Desk {
    let mut desk = Desk::new(World::busy(), (100, 24));
    desk.press(keys);
    desk
}

#[test]
fn report() {
    shot("report", &pictures(World::busy, "W"));
}

#[test]
fn a_report_is_written_to_the_file_that_is_named() {
    // In the list of deletions, in a tree, on a step, and on the first screen.
    for keys in [
        "",
        "enter down",
        "enter down down enter",
        ":home enter home down",
    ] {
        let mut desk = desk(keys);
        desk.press("W");
        let text = desk.text();
        let asks = text.lines().find(|line| line.starts_with(" report to: "));
        let asks = asks.unwrap_or_else(|| panic!("{keys}\n{text}"));
        assert!(asks.contains("deletion-0000000"), "{keys}\n{text}");
        assert!(desk.reports.is_empty());
        desk.press("ctrl-u /tmp/a.html enter");
        assert_eq!(desk.reports, [(PathBuf::from("/tmp/a.html"), false)]);
        let text = desk.text();
        assert!(text.contains("the report is in /tmp/a.html"), "{text}");
    }
}

#[test]
fn a_file_that_exists_is_replaced_only_after_a_question() {
    let mut desk = desk("");
    let file = PathBuf::from("deletion-00000001.html");
    desk.files.push(file.clone());
    desk.press("W enter");
    let text = desk.text();
    assert!(
        text.contains("deletion-00000001.html exists already."),
        "{text}"
    );
    assert!(text.contains("esc  keep it"), "{text}");
    // Enter is typed out of habit, and no answer.
    desk.press("enter n space");
    assert_eq!(desk.reports, [(file.clone(), false)]);
    desk.press("esc");
    assert!(
        desk.text().contains("no report was written"),
        "{}",
        desk.text()
    );
    desk.press("W enter y");
    let asked = [(file.clone(), false), (file.clone(), false), (file, true)];
    assert_eq!(desk.reports, asked);
    assert!(desk.text().contains("the report is in "), "{}", desk.text());
}

#[test]
fn esc_and_an_empty_name_write_nothing_and_a_failure_is_told() {
    let mut desk = desk("W esc");
    assert!(
        desk.text().contains("no report was written"),
        "{}",
        desk.text()
    );
    desk.press("W ctrl-u enter");
    assert!(
        desk.text().contains("it needs the name of a file"),
        "{}",
        desk.text()
    );
    assert!(desk.reports.is_empty());
    desk.writes = Err("the disk is full".to_owned());
    desk.press("W enter");
    let text = desk.text();
    assert!(
        text.contains("could not be written to deletion-00000001.html: the disk is full"),
        "{text}"
    );
}

#[test]
fn in_lines_the_file_and_the_answer_are_asked_for_too() {
    let mut desk = desk("W");
    let lines = render_lines(&desk.state);
    let asks =
        "Type the file for the report, such as deletion-00000001.html. An empty line: no report.";
    assert_eq!(lines, [asks]);
    desk.files.push(PathBuf::from("deletion-00000001.html"));
    desk.press("enter");
    let lines = render_lines(&desk.state);
    assert!(lines[0].contains("exists already"), "{lines:?}");
    assert!(lines[1].starts_with("y: replace it."), "{lines:?}");
}
