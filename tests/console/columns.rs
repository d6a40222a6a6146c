//! The columns of a list: which ones a person chose, and that they stay chosen.

use gone::frontends::console::ConsoleOptions;

use super::fake::{Desk, World, options};
use super::pictures::{pictures, shot};

/// The settings can be saved, and name the columns of one list already.
fn desk(size: (u16, u16)) -> Desk {
    let columns = [("deletions", "what state nonsense")];
    let options = ConsoleOptions {
        columns: columns
            .map(|(word, names)| (word.to_owned(), names.to_owned()))
            .into(),
        settings_file: Some("config.toml".into()),
        ..options()
    };
    Desk::with(World::busy(), size, options)
}

/// The headings of the list on the screen, which is at least 100 columns wide.
fn headings(desk: &Desk) -> Vec<String> {
    let text = desk.text();
    let is_heading = |line: &&str| {
        line.starts_with("   ") && !line.trim().is_empty() && !line.contains(char::is_lowercase)
    };
    let heading = text.lines().find(is_heading);
    let heading = heading.unwrap_or_else(|| panic!("{text}"));
    let words = heading.split("  ").map(str::trim);
    let words = words.filter(|word| !word.is_empty()).map(str::to_owned);
    words.collect()
}

#[test]
fn columns() {
    shot(
        "columns",
        &pictures(World::busy, ":stuck enter :columns enter down space"),
    );
}

#[test]
fn the_marked_columns_are_shown_however_narrow_the_screen_is_and_saved() {
    let mut desk = desk((120, 30));
    desk.press(":stuck enter");
    let all = ["STATE", "WHAT", "BLOCKED BY", "SINCE", "ATTEMPTS", "NEXT"];
    assert_eq!(headings(&desk), all);
    desk.press(":columns enter");
    let text = desk.text();
    assert!(text.contains("columns of :stuck"), "{text}");
    let marked = text.lines().filter(|line| line.get(1..2) == Some("*"));
    assert_eq!(
        marked.count(),
        all.len(),
        "those that are shown are marked\n{text}"
    );
    // Without the blockers and the attempts, but with the site, for which this screen is too narrow.
    desk.press("down down space down space end space enter");
    let chosen = ["STATE", "WHAT", "SINCE", "NEXT", "SITE"];
    assert_eq!(headings(&desk), chosen);
    let saved = ("stuck".to_owned(), "state what since next site".to_owned());
    assert_eq!(desk.saved, [saved]);
    assert!(
        desk.text()
            .contains("saved: :stuck shows state, what, since, next, site"),
        "{}",
        desk.text()
    );
    // They stay, also when the list is opened anew; another list is as before.
    desk.press(":network enter");
    assert_eq!(headings(&desk)[..2], ["NAME", "ID"]);
    desk.press(":stuck enter");
    assert_eq!(headings(&desk), chosen);
    desk.type_line(":columns default");
    assert_eq!(headings(&desk), all);
    assert_eq!(desk.saved[1], ("stuck".to_owned(), String::new()));
}

#[test]
fn names_are_typed_in_the_order_in_which_the_columns_are_shown() {
    let mut desk = desk((120, 30));
    desk.press(":network enter");
    desk.type_line(":columns status,name site");
    assert_eq!(headings(&desk), ["STATUS", "NAME", "SITE"]);
    // Only what is shown is sorted by, and its heading says so.
    desk.press("s");
    assert_eq!(headings(&desk), ["STATUS", "NAME▲", "SITE"]);
    desk.press("s s s");
    assert_eq!(headings(&desk), ["STATUS", "NAME", "SITE"]);
    // Ids in place of names, as before.
    desk.type_line(":columns project,name");
    desk.press("w w /web enter");
    assert_eq!(headings(&desk), ["PROJECT", "NAME"]);
}

#[test]
fn a_column_of_the_settings_that_there_is_not_is_named_once() {
    let mut desk = desk((120, 30));
    let says = "the settings name a column that :deletions does not have: \"nonsense\"";
    // The console begins with this list.
    assert!(desk.text().contains(says), "{}", desk.text());
    assert_eq!(headings(&desk), ["WHAT", "STATE"]);
    desk.press(":stuck enter :deletions enter");
    assert!(!desk.text().contains(says), "{}", desk.text());
    assert_eq!(headings(&desk), ["WHAT", "STATE"]);
}

/// A comma ends a name in `:columns`.
#[test]
fn no_heading_has_a_comma() {
    let options = ConsoleOptions {
        tour: true,
        ..options()
    };
    for keys in [
        ":home enter",
        ":deletions enter",
        ":deletions enter enter",
        ":deletions enter t",
        ":stuck enter",
        ":stuck enter enter",
        ":stuck enter b",
        ":stuck enter e",
        ":stuck enter F",
        ":stuck enter :columns enter",
        ":causes enter",
        ":retrying enter",
        ":orphans enter",
        ":drift enter",
        ":tombstones enter",
        ":events enter",
        ":sites enter",
        ":gates enter",
        ":deployments enter",
        ":engine enter",
        ":engines enter",
        ":tour enter",
        ":help enter",
        ":network enter",
        ":network enter enter",
        ":network enter Y",
        ":network enter D",
    ] {
        let mut desk = Desk::with(World::busy(), (160, 30), options.clone());
        desk.press(keys);
        let text = desk.text();
        let is_heading = |line: &&str| {
            line.starts_with("   ")
                && line.contains(char::is_uppercase)
                && !line.contains(char::is_lowercase)
        };
        let mut headings = text.lines().filter(is_heading);
        assert!(!headings.any(|line| line.contains(',')), "{keys}\n{text}");
    }
}

#[test]
fn the_columns_of_home_are_chosen_by_name() {
    let mut desk = desk((120, 30));
    desk.press(":home enter");
    assert_eq!(headings(&desk), ["STATE", "WHAT", "HOW IT IS", "NEXT"]);
    desk.type_line(":columns next,how_it_is,what");
    assert_eq!(headings(&desk), ["NEXT", "HOW IT IS", "WHAT"]);
    let saved = ("home".to_owned(), "next how_it_is what".to_owned());
    assert_eq!(desk.saved, [saved]);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let mut desk = desk((120, 30));
    desk.press(":network enter");
    for (line, told) in [
        (
            ":columns name,statsu",
            "there is no column \"statsu\"; did you mean \"status\"?",
        ),
        (
            ":columns defualt",
            "there is no column \"defualt\"; did you mean \"default\"?",
        ),
        (
            ":columns wavelength",
            "there is no column \"wavelength\"; the columns are name, id, status, project, site",
        ),
    ] {
        desk.type_line(line);
        assert!(desk.text().contains(told), "{line}\n{}", desk.text());
    }
    assert_eq!(headings(&desk)[..2], ["NAME", "ID"]);
    assert!(desk.saved.is_empty());
}

#[test]
fn at_least_one_column_must_be_marked_and_esc_changes_nothing() {
    let mut desk = desk((120, 30));
    desk.press(":network enter :columns enter u enter");
    assert!(
        desk.text().contains("mark at least one column"),
        "{}",
        desk.text()
    );
    desk.press("space esc");
    assert_eq!(headings(&desk)[..2], ["NAME", "ID"]);
    assert!(desk.saved.is_empty());
}

#[test]
fn the_settings_say_what_a_list_shows_and_unknown_names_in_them_are_passed_over() {
    let desk = desk((120, 30));
    assert_eq!(headings(&desk), ["WHAT", "STATE"]);
}

#[test]
fn the_columns_of_all_trees_are_chosen_together() {
    let mut desk = desk((100, 30));
    let all = ["WHAT", "STATE", "DOES", "ID", "ATTEMPTS", "NEXT (UTC)"];
    desk.press("enter");
    assert_eq!(headings(&desk), all);
    desk.press(":columns enter");
    assert!(
        desk.text().contains("columns of the tree"),
        "{}",
        desk.text()
    );
    // The reason, for which this screen is too narrow, in place of the action.
    desk.press("down down space end space enter");
    let chosen = ["WHAT", "STATE", "ID", "ATTEMPTS", "NEXT (UTC)", "WHY"];
    assert_eq!(headings(&desk), chosen);
    let saved = (
        "tree".to_owned(),
        "what state id attempts next why".to_owned(),
    );
    assert_eq!(desk.saved, [saved]);
    let text = desk.text();
    let told = "saved: the tree shows what, state, id, attempts, next, why";
    assert!(text.contains(told), "{text}");
    // Rows that fold stay rows of a tree, and another tree has these columns too.
    assert!(text.contains("└ "), "{text}");
    desk.press("esc down enter");
    assert_eq!(headings(&desk), chosen);
    desk.type_line(":columns next,what");
    assert_eq!(headings(&desk), ["NEXT (UTC)", "WHAT"]);
    desk.type_line(":columns default");
    assert_eq!(headings(&desk), all);
}

#[test]
fn the_columns_of_a_tree_are_completed_and_its_filter_knows_none_of_them() {
    let mut desk = desk((80, 24));
    desk.press("enter :columns space wha tab");
    assert!(desk.text().contains(":columns what"), "{}", desk.text());
    desk.press("esc /wha tab");
    assert!(!desk.text().contains("what:"), "{}", desk.text());
}

#[test]
fn the_columns_of_a_plan_are_fixed_and_say_so() {
    let mut desk = desk((80, 24));
    desk.press(":net enter D");
    desk.type_line(":columns");
    let text = desk.text();
    assert!(
        text.contains("the columns of this pane are fixed"),
        "{text}"
    );
}

#[test]
fn a_choice_that_cannot_be_saved_counts_until_the_console_ends() {
    let mut unnamed = Desk::new(World::busy(), (120, 30));
    unnamed.press(":network enter");
    unnamed.type_line(":columns name");
    let text = unnamed.text();
    assert!(
        text.contains("start with --config FILE to keep it"),
        "{text}"
    );
    assert_eq!(headings(&unnamed), ["NAME"]);
    let mut full = desk((120, 30));
    full.saves = Err("the disk is full".to_owned());
    full.press(":network enter");
    full.type_line(":columns name");
    let text = full.text();
    assert!(
        text.contains("the columns of :network could not be saved: the disk is full"),
        "{text}"
    );
    assert_eq!(headings(&full), ["NAME"]);
}
