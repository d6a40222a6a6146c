//! What is typed after `:` and `/` is completed.

use super::fake::{Desk, World};

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
