//! The report of a deletion: the prompt for its file, and the question before an existing file is replaced.

use std::path::PathBuf;

use gone::frontends::console::render_lines;

use super::fake::{TestConsole, World};

fn console(keys: &str) -> TestConsole {
    TestConsole::new(World::busy(), (100, 24)).after(keys)
}

#[test]
fn a_report_is_written_to_the_file_that_is_named() {
    // A report can be written from the list of deletions, from a tree, from a step, and from the first screen.
    for keys in [
        "",
        "enter down",
        "enter down down enter",
        ":home enter home down",
    ] {
        let mut console = console(keys);
        console.press("W");
        let prompt = console.line(" report to: ");
        assert!(prompt.contains("deletion-0000000"), "{keys}\n{prompt}");
        assert!(console.reports.is_empty());
        console.press("ctrl-u /tmp/a.html enter");
        assert_eq!(console.reports, [(PathBuf::from("/tmp/a.html"), false)]);
        console.assert_shows(["the report is in /tmp/a.html"]);
    }
}

#[test]
fn a_file_that_exists_is_replaced_only_after_a_question() {
    let mut console = console("");
    let file = PathBuf::from("deletion-00000001.html");
    console.existing_files.push(file.clone());
    console.press("W enter");
    console.assert_shows(["deletion-00000001.html exists already.", "esc  keep it"]);
    // Enter, which people press out of habit, is no answer.
    console.press("enter n space");
    assert_eq!(console.reports, [(file.clone(), false)]);
    console.press("esc");
    console.assert_shows(["no report was written"]);
    console.press("W enter y");
    let requested = [(file.clone(), false), (file.clone(), false), (file, true)];
    assert_eq!(console.reports, requested);
    console.assert_shows(["the report is in "]);
}

#[test]
fn esc_and_an_empty_name_write_no_report_and_a_failed_write_is_shown() {
    let mut console = console("W esc");
    console.assert_shows(["no report was written"]);
    console.press("W ctrl-u enter");
    console.assert_shows(["it needs the name of a file"]);
    assert!(console.reports.is_empty());
    console.write_result = Err("the disk is full".to_owned());
    console.press("W enter");
    console.assert_shows(["could not be written to deletion-00000001.html: the disk is full"]);
}

#[test]
fn the_console_in_lines_asks_for_the_file_and_for_the_answer_too() {
    let mut console = console("W");
    let lines = render_lines(&console.state);
    let prompt =
        "Type the file for the report, such as deletion-00000001.html. An empty line: no report.";
    assert_eq!(lines, [prompt]);
    console
        .existing_files
        .push(PathBuf::from("deletion-00000001.html"));
    console.press("enter");
    let lines = render_lines(&console.state);
    assert!(lines[0].contains("exists already"), "{lines:?}");
    assert!(lines[1].starts_with("y: replace it."), "{lines:?}");
}
