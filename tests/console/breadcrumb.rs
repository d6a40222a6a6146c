//! The breadcrumb in the title, which names the panes that esc leads back to.

use super::fake::{TestConsole, World};

/// Returns the title of the pane, without the horizontal lines beside it.
fn title(console: &TestConsole) -> String {
    let text = console.text();
    let line = text.lines().find_map(|line| line.strip_prefix("── "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let (title, _) = line.split_once(" ──").unwrap();
    title.to_owned()
}

#[test]
fn the_title_lists_up_to_three_panes_that_esc_leads_back_to_on_120_columns() {
    let mut console =
        TestConsole::new(World::busy(), (120, 30)).after(":home enter :stuck enter enter");
    let of_step = "load balancer lb-shop in deletion 00000001";
    assert_eq!(
        title(&console),
        format!("{of_step} ‹ stuck ‹ home ‹ deletions")
    );
    // A pane that no command opens is named by its title. At most three panes are named.
    console.press("b");
    let title_of_blockers = title(&console);
    assert!(
        title_of_blockers.ends_with(" ‹ load balancer lb-shop i… ‹ stuck ‹ home"),
        "{title_of_blockers}"
    );
    console.press("esc esc esc");
    assert_eq!(title(&console), "home ‹ deletions ‹ home");
    console.press("esc");
    assert_eq!(title(&console), "deletions 4 ‹ home");
}

#[test]
fn a_screen_below_120_columns_shows_no_breadcrumb() {
    let console = TestConsole::new(World::busy(), (119, 30)).after(":stuck enter");
    assert_eq!(title(&console), "stuck 3");
}
