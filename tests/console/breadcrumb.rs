//! The breadcrumb in the title: the panes to which esc leads back.

use super::fake::{Desk, World};

/// The title of the pane, after its rule.
fn title(desk: &Desk) -> String {
    let text = desk.text();
    let line = text.lines().find_map(|line| line.strip_prefix("── "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let (title, _) = line.split_once(" ──").unwrap();
    title.to_owned()
}

#[test]
fn from_120_columns_on_the_title_names_the_panes_to_which_esc_leads_back() {
    let mut desk = Desk::new(World::busy(), (120, 30));
    desk.press(":home enter :stuck enter enter");
    let of_step = "load balancer lb-shop in deletion 00000001";
    assert_eq!(
        title(&desk),
        format!("{of_step} ‹ stuck ‹ home ‹ deletions")
    );
    // One without a word is named by its title. No more than three are named.
    desk.press("b");
    let title_of_blockers = title(&desk);
    assert!(
        title_of_blockers.ends_with(" ‹ load balancer lb-shop i… ‹ stuck ‹ home"),
        "{title_of_blockers}"
    );
    desk.press("esc esc esc");
    assert_eq!(title(&desk), "home ‹ deletions ‹ home");
    desk.press("esc");
    assert_eq!(title(&desk), "deletions 4 ‹ home");
}

#[test]
fn a_narrow_screen_has_no_room_for_a_breadcrumb() {
    let mut desk = Desk::new(World::busy(), (119, 30));
    desk.press(":stuck enter");
    assert_eq!(title(&desk), "stuck 3");
}
