//! Records as YAML, as `-o yaml` prints them.

use gone::domain::model::{DeletionState, StepState};
use gone::domain::text::escape;
use gone::present;

use super::fake::{TestConsole, World, deletion, resource};

/// Returns the lines of the YAML on the screen, without the column of the cursor.
fn listed(console: &TestConsole) -> Vec<String> {
    let text = console.text();
    // On a wide screen the detail is beside the list.
    let rows = text
        .lines()
        .map(|line| line.split('│').next().unwrap_or_default());
    let rows = rows.skip_while(|line| line.trim() != "YAML").skip(1);
    let rows = rows.map(|line| line.chars().skip(3).collect::<String>());
    let rows = rows.map(|line| line.trim_end().to_owned());
    rows.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn a_resource_is_shown_as_the_command_line_prints_it_and_the_same_key_leads_back() {
    let mut console = TestConsole::new(World::busy(), (200, 60)).after(":network enter enter");
    console.assert_shows(["FIELD"]);
    console.press("Y");
    let printed = present::yaml(&resource("network", 1, "web"), escape).unwrap();
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    assert_eq!(listed(&console), printed, "{}", console.text());
    console.assert_shows(["network web as YAML"]);
    // A filter shows the lines that match; esc shows all lines again.
    console.press("/vxlan enter");
    assert_eq!(listed(&console).len(), 1, "{}", console.text());
    console.press("esc Y");
    console.assert_shows(["FIELD"]);
    // In the list, the key Y leads to the same YAML, and then back to the list.
    console.press("esc Y");
    assert_eq!(listed(&console), printed, "{}", console.text());
    console.press("Y");
    console.assert_shows(["network 5"]);
}

#[test]
fn a_deletion_and_a_step_are_shown_as_they_are_now() {
    let mut console = TestConsole::new(World::busy(), (200, 60));
    let shows = |console: &TestConsole, words: &str| {
        let lines = listed(console);
        let shows = lines.iter().any(|line| line.trim() == words);
        assert!(shows, "no {words:?} in\n{}", console.text());
    };
    console.press("Y");
    shows(&console, "state: running");
    shows(&console, "gone: 120");
    console.world.deletions[0] = deletion(1, DeletionState::Running, 300, 536);
    console.world.snapshot.last_event += 1;
    console.publish();
    shows(&console, "gone: 300");
    // A step in a queue, in its timeline, and in a tree.
    for keys in [
        "Y :stuck enter Y",
        "Y enter Y",
        "Y :deletions enter enter Y",
    ] {
        console.press(keys);
        console.assert_shows(["as YAML", "max_attempts: 8"]);
    }
}

#[test]
fn the_record_of_a_step_has_its_last_error_with_the_id_of_the_request() {
    let console = TestConsole::new(World::busy(), (120, 60)).after(":stuck enter Y");
    console.assert_shows(["request_id: req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11"]);
}

#[test]
fn hostile_names_are_shown_as_escapes() {
    let mut world = World::busy();
    world.listings[0].rows = vec![resource("network", 1, "\u{1b}]0;x\u{7}a\nb: c\u{202e}")];
    world.steps[0].resource.name = "\u{1b}[2J".to_owned();
    world.steps[0].state = StepState::Stuck;
    let mut console = TestConsole::new(world, (120, 40)).after(":network enter enter Y");
    let lines = listed(&console);
    let name = lines.iter().find(|line| line.starts_with("name:"));
    let name = name.unwrap_or_else(|| panic!("{}", console.text()));
    for part in ["\\u{1b}]0;x", "\\u{7}a", "b: c", "\\u{202e}"] {
        assert!(name.contains(part), "no {part:?} in {name:?}");
    }
    assert!(!console.text().contains(['\u{1b}', '\u{7}', '\u{202e}']));
    console.press(":stuck enter Y");
    console.assert_shows(["\\u{1b}[2J"]);
}

#[test]
fn a_record_that_cannot_be_read_says_so() {
    let mut console = TestConsole::busy("");
    console.world.deletions.clear();
    console.press("Y");
    console.assert_shows([
        "The record could not be read",
        "there is no such thing here",
    ]);
}
