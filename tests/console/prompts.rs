//! What is typed after `:` and `/` is completed.

use gone::control::Query;

use super::fake::{Desk, World, resource};

/// What stands in the last line but one, where a prompt is typed.
fn typed(desk: &Desk, sign: char) -> String {
    let text = desk.text();
    let mut lines = text.lines().rev().map(str::trim_start);
    let line = lines.find(|line| line.starts_with(sign));
    line.unwrap_or_else(|| panic!("no prompt in\n{text}"))
        .to_owned()
}

#[test]
fn tab_goes_from_one_completion_to_the_next() {
    let mut desk = Desk::new(World::busy(), (120, 40));
    desk.press(": s tab");
    assert!(typed(&desk, ':').starts_with(":stuck"), "{}", desk.text());
    desk.press("tab");
    assert!(typed(&desk, ':').starts_with(":sites"), "{}", desk.text());
    desk.press("tab");
    assert!(typed(&desk, ':').starts_with(":stuck"), "{}", desk.text());
    desk.press("tab enter");
    assert!(desk.text().contains("── sites"), "{}", desk.text());
    // Another key begins anew.
    desk.press(": s t tab tab");
    assert!(typed(&desk, ':').starts_with(":stuck"), "{}", desk.text());
}

#[test]
fn names_of_places_and_views_are_completed_behind_their_word() {
    let mut desk = Desk::new(World::busy(), (120, 40));
    desk.press(": c l o u d space p tab");
    assert!(
        typed(&desk, ':').starts_with(":cloud prod"),
        "{}",
        desk.text()
    );
    desk.press("esc : n e t w o r k space @ R e g i o n T tab");
    assert!(
        typed(&desk, ':').starts_with(":network @RegionTwo"),
        "{}",
        desk.text()
    );
    desk.press("space / s t a tab");
    assert!(
        typed(&desk, ':').starts_with(":network @RegionTwo /state="),
        "{}",
        desk.text()
    );
    desk.press("tab");
    assert!(
        typed(&desk, ':').starts_with(":network @RegionTwo /status:"),
        "{}",
        desk.text()
    );
}

#[test]
fn projects_are_listed_once_their_name_is_typed() {
    for keys in [
        ": p r o j e c t space",
        ": n e t w o r k space p r o j e c t =",
    ] {
        let mut world = World::busy();
        world.projects = vec![
            resource("project", 71, "shop"),
            resource("project", 72, "demo"),
        ];
        let mut desk = Desk::new(world, (120, 40));
        let lists = |desk: &Desk| {
            let is_list = |it: &&Query| matches!(it, Query::Resources(it) if it.kind == "project");
            desk.asked.iter().filter(is_list).count()
        };
        assert_eq!(lists(&desk), 0);
        desk.press(keys);
        assert_eq!(lists(&desk), 1);
        desk.press("s tab");
        assert!(typed(&desk, ':').contains("shop"), "{}", desk.text());
        desk.press("enter");
        assert!(desk.text().contains("project shop"), "{}", desk.text());
        assert_eq!(lists(&desk), 1, "each cloud is asked once");
    }
}

#[test]
fn columns_are_completed_in_a_filter() {
    let mut desk = Desk::new(World::busy(), (120, 40));
    desk.press(":network enter / w e b space s t a tab tab A C T I V E enter");
    assert!(
        desk.text().contains("filter: web status:ACTIVE"),
        "{}",
        desk.text()
    );
    assert!(desk.text().contains("network 1 of 5"), "{}", desk.text());
}
