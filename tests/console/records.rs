//! Records as YAML: the same as `-o yaml` prints, beside the panes' own views.

use gone::domain::model::{DeletionState, StepState};
use gone::domain::text::escape;
use gone::present;

use super::fake::{Desk, World, deletion, resource};
use super::pictures::{pictures, shot};

/// The lines of the list on the screen, without the sign of the cursor.
fn listed(desk: &Desk) -> Vec<String> {
    let text = desk.text();
    // On a wide screen the detail is beside the list.
    let rows = text.lines();
    let rows = rows.map(|line| line.split('│').next().unwrap_or_default());
    let rows = rows.skip_while(|line| line.trim() != "YAML").skip(1);
    let rows = rows.map(|line| line.chars().skip(3).collect::<String>());
    let rows = rows.map(|line| line.trim_end().to_owned());
    rows.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn yaml() {
    shot("yaml", &pictures(World::busy, ":network enter enter Y"));
}

#[test]
fn a_resource_is_shown_as_the_command_line_prints_it_and_the_same_key_leads_back() {
    let mut desk = Desk::new(World::busy(), (200, 60));
    desk.press(":network enter enter");
    assert!(desk.text().contains("FIELD"), "{}", desk.text());
    desk.press("Y");
    let printed = present::yaml(&resource("network", 1, "web"), escape).unwrap();
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    assert_eq!(listed(&desk), printed, "{}", desk.text());
    assert!(
        desk.text().contains("network web as YAML"),
        "{}",
        desk.text()
    );
    // A filter shows the lines with a word, and esc all again.
    desk.press("/vxlan enter");
    assert_eq!(listed(&desk).len(), 1, "{}", desk.text());
    desk.press("esc Y");
    assert!(desk.text().contains("FIELD"), "{}", desk.text());
    // In the list it leads to the same, and back to the list.
    desk.press("esc Y");
    assert_eq!(listed(&desk), printed, "{}", desk.text());
    desk.press("Y");
    assert!(desk.text().contains("network 5"), "{}", desk.text());
}

#[test]
fn a_deletion_and_a_step_are_shown_as_they_are_now() {
    let mut desk = Desk::new(World::busy(), (200, 60));
    let shows = |desk: &Desk, words: &str| {
        let lines = listed(desk);
        let shows = lines.iter().any(|line| line.trim() == words);
        assert!(shows, "no {words:?} in\n{}", desk.text());
    };
    desk.press("Y");
    shows(&desk, "state: running");
    shows(&desk, "gone: 120");
    desk.world.deletions[0] = deletion(1, DeletionState::Running, 300, 536);
    desk.world.snapshot.last_event += 1;
    desk.publish();
    shows(&desk, "gone: 300");
    // A step: in a queue, in its timeline, and in a tree.
    for keys in [
        "Y :stuck enter Y",
        "Y enter Y",
        "Y :deletions enter enter Y",
    ] {
        desk.press(keys);
        let text = desk.text();
        assert!(text.contains("as YAML"), "{keys}\n{text}");
        assert!(text.contains("max_attempts: 8"), "{keys}\n{text}");
    }
}

/// What a stuck step got as its last answer is there, with the id of its request.
#[test]
fn the_record_of_a_step_has_its_last_error_with_the_id_of_the_request() {
    let mut desk = Desk::new(World::busy(), (120, 60));
    desk.press(":stuck enter Y");
    let text = desk.text();
    assert!(
        text.contains("request_id: req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11"),
        "{text}"
    );
}

#[test]
fn hostile_names_are_shown_as_escapes() {
    let mut world = World::busy();
    world.listings[0].rows = vec![resource("network", 1, "\u{1b}]0;x\u{7}a\nb: c\u{202e}")];
    world.steps[0].resource.name = "\u{1b}[2J".to_owned();
    world.steps[0].state = StepState::Stuck;
    let mut desk = Desk::new(world, (120, 40));
    desk.press(":network enter enter Y");
    let lines = listed(&desk);
    let name = lines.iter().find(|line| line.starts_with("name:"));
    let name = name.unwrap_or_else(|| panic!("{}", desk.text()));
    for part in ["\\u{1b}]0;x", "\\u{7}a", "b: c", "\\u{202e}"] {
        assert!(name.contains(part), "no {part:?} in {name:?}");
    }
    assert!(!desk.text().contains(['\u{1b}', '\u{7}', '\u{202e}']));
    desk.press(":stuck enter Y");
    assert!(desk.text().contains("\\u{1b}[2J"), "{}", desk.text());
}

#[test]
fn a_record_that_cannot_be_read_says_so() {
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.world.deletions.clear();
    desk.press("Y");
    let text = desk.text();
    assert!(text.contains("The record could not be read"), "{text}");
    assert!(text.contains("there is no such thing here"), "{text}");
}
