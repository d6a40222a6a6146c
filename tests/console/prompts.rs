//! Completion of the words that are typed after `:` and `/`.

use gone::control::Query;

use super::fake::{TestConsole, World, resource};

/// Returns the text of the prompt that begins with this sign.
fn typed(console: &TestConsole, sign: char) -> String {
    let text = console.text();
    let mut lines = text.lines().rev().map(str::trim_start);
    let line = lines.find(|line| line.starts_with(sign));
    line.unwrap_or_else(|| panic!("no prompt in\n{text}"))
        .to_owned()
}

#[test]
fn tab_goes_from_one_completion_to_the_next() {
    let mut console = TestConsole::new(World::busy(), (120, 40)).after(": s tab");
    assert!(
        typed(&console, ':').starts_with(":stuck"),
        "{}",
        console.text()
    );
    console.press("tab");
    assert!(
        typed(&console, ':').starts_with(":sites"),
        "{}",
        console.text()
    );
    console.press("tab");
    assert!(
        typed(&console, ':').starts_with(":stuck"),
        "{}",
        console.text()
    );
    console.press("tab enter");
    console.assert_shows(["── sites"]);
    // After another key, tab starts with the first completion again.
    console.press(": s t tab tab");
    assert!(
        typed(&console, ':').starts_with(":stuck"),
        "{}",
        console.text()
    );
}

#[test]
fn clouds_regions_and_filter_keys_are_completed_after_their_word() {
    let mut console = TestConsole::new(World::busy(), (120, 40)).after(": c l o u d space p tab");
    assert!(
        typed(&console, ':').starts_with(":cloud prod"),
        "{}",
        console.text()
    );
    console.press("esc : n e t w o r k space @ R e g i o n T tab");
    assert!(
        typed(&console, ':').starts_with(":network @RegionTwo"),
        "{}",
        console.text()
    );
    console.press("space / s t a tab");
    assert!(
        typed(&console, ':').starts_with(":network @RegionTwo /state="),
        "{}",
        console.text()
    );
    console.press("tab");
    assert!(
        typed(&console, ':').starts_with(":network @RegionTwo /status:"),
        "{}",
        console.text()
    );
}

#[test]
fn projects_are_listed_only_when_a_project_name_is_typed_and_once_per_cloud() {
    for keys in [
        ": p r o j e c t space",
        ": n e t w o r k space p r o j e c t =",
    ] {
        let mut world = World::busy();
        world.projects = vec![
            resource("project", 71, "shop"),
            resource("project", 72, "demo"),
        ];
        let mut console = TestConsole::new(world, (120, 40));
        let lists = |console: &TestConsole| {
            let is_list = |it: &&Query| matches!(it, Query::Resources(it) if it.kind == "project");
            console.queries.iter().filter(is_list).count()
        };
        assert_eq!(lists(&console), 0);
        console.press(keys);
        assert_eq!(lists(&console), 1);
        console.press("s tab");
        assert!(typed(&console, ':').contains("shop"), "{}", console.text());
        console.press("enter");
        console.assert_shows(["project shop"]);
        assert_eq!(lists(&console), 1, "each cloud is queried once");
    }
}

#[test]
fn columns_are_completed_in_a_filter() {
    let console = TestConsole::new(World::busy(), (120, 40))
        .after(":network enter / w e b space s t a tab tab A C T I V E enter");
    console.assert_shows(["filter: web status:ACTIVE", "network 1 of 5"]);
}
