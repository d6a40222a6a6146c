//! The columns of a list: how a person chooses them, and how the choice is kept.

use gone::frontends::console::ConsoleOptions;

use super::fake::{TestConsole, World, options};

/// A console that can save its settings, which name the columns of `:deletions`.
fn console(size: (u16, u16)) -> TestConsole {
    let columns = [("deletions", "what state nonsense")];
    let options = ConsoleOptions {
        columns: columns
            .map(|(word, names)| (word.to_owned(), names.to_owned()))
            .into(),
        settings_file: Some("config.toml".into()),
        ..options()
    };
    TestConsole::with(World::busy(), size, options)
}

/// Returns the headings of the list on the screen, which must be at least 100 columns wide.
fn headings(console: &TestConsole) -> Vec<String> {
    let text = console.text();
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
fn marked_columns_are_shown_on_a_narrow_screen_and_saved() {
    let mut console = console((120, 30));
    console.press(":stuck enter");
    let all = ["STATE", "WHAT", "BLOCKED BY", "SINCE", "ATTEMPTS", "NEXT"];
    assert_eq!(headings(&console), all);
    console.press(":columns enter");
    let text = console.text();
    console.assert_shows(["columns of :stuck"]);
    let marked = text.lines().filter(|line| line.get(1..2) == Some("*"));
    assert_eq!(
        marked.count(),
        all.len(),
        "the shown columns are marked\n{text}"
    );
    // Unmarks the columns of the blockers and the attempts, and marks that of the site, for which this screen is too
    // narrow.
    console.press("down down space down space end space enter");
    let chosen = ["STATE", "WHAT", "SINCE", "NEXT", "SITE"];
    assert_eq!(headings(&console), chosen);
    let saved = ("stuck".to_owned(), "state what since next site".to_owned());
    assert_eq!(console.saved, [saved]);
    console.assert_shows(["saved: :stuck shows state, what, since, next, site"]);
    // The choice still applies after the list is opened again, and does not affect another list.
    console.press(":network enter");
    assert_eq!(headings(&console)[..2], ["NAME", "ID"]);
    console.press(":stuck enter");
    assert_eq!(headings(&console), chosen);
    console.type_line(":columns default");
    assert_eq!(headings(&console), all);
    assert_eq!(console.saved[1], ("stuck".to_owned(), String::new()));
}

#[test]
fn columns_are_shown_in_the_order_in_which_their_names_were_typed() {
    let mut console = console((120, 30));
    console.press(":network enter");
    console.type_line(":columns status,name site");
    assert_eq!(headings(&console), ["STATUS", "NAME", "SITE"]);
    // The key s sorts by one shown column after the other, and the heading of that column has an arrow.
    console.press("s");
    assert_eq!(headings(&console), ["STATUS", "NAME▲", "SITE"]);
    console.press("s s s");
    assert_eq!(headings(&console), ["STATUS", "NAME", "SITE"]);
    // The key w, which shows ids in place of names, and a filter leave the columns as they are.
    console.type_line(":columns project,name");
    console.press("w w /web enter");
    assert_eq!(headings(&console), ["PROJECT", "NAME"]);
}

#[test]
fn an_unknown_column_in_the_settings_is_reported_once() {
    let mut console = console((120, 30));
    let expected = "the settings name a column that :deletions does not have: \"nonsense\"";
    // The console starts with this list.
    console.assert_shows([expected]);
    assert_eq!(headings(&console), ["WHAT", "STATE"]);
    console.press(":stuck enter :deletions enter");
    console.assert_hides([expected]);
    assert_eq!(headings(&console), ["WHAT", "STATE"]);
}

/// A comma separates the names after `:columns`.
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
        let console = TestConsole::with(World::busy(), (160, 30), options.clone()).after(keys);
        let text = console.text();
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
    let mut console = console((120, 30));
    console.press(":home enter");
    assert_eq!(headings(&console), ["STATE", "WHAT", "HOW IT IS", "NEXT"]);
    console.type_line(":columns next,how_it_is,what");
    assert_eq!(headings(&console), ["NEXT", "HOW IT IS", "WHAT"]);
    let saved = ("home".to_owned(), "next how_it_is what".to_owned());
    assert_eq!(console.saved, [saved]);
}

#[test]
fn an_unknown_column_name_is_answered_with_the_nearest_name() {
    let mut console = console((120, 30));
    console.press(":network enter");
    for (line, expected) in [
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
        console.type_line(line);
        console.assert_shows([expected]);
    }
    assert_eq!(headings(&console)[..2], ["NAME", "ID"]);
    assert!(console.saved.is_empty());
}

#[test]
fn at_least_one_column_must_be_marked_and_esc_changes_nothing() {
    let mut console = console((120, 30));
    console.press(":network enter :columns enter u enter");
    console.assert_shows(["mark at least one column"]);
    console.press("space esc");
    assert_eq!(headings(&console)[..2], ["NAME", "ID"]);
    assert!(console.saved.is_empty());
}

#[test]
fn a_list_shows_the_columns_from_the_settings_and_ignores_unknown_names() {
    let console = console((120, 30));
    assert_eq!(headings(&console), ["WHAT", "STATE"]);
}

#[test]
fn the_columns_of_the_trees_of_all_deletions_are_chosen_together() {
    let mut console = console((100, 30));
    let all = ["WHAT", "STATE", "DOES", "ID", "ATTEMPTS", "NEXT (UTC)"];
    console.press("enter");
    assert_eq!(headings(&console), all);
    console.press(":columns enter");
    console.assert_shows(["columns of the tree"]);
    // Unmarks the column of the action, and marks that of the reason, for which this screen is too narrow.
    console.press("down down space end space enter");
    let chosen = ["WHAT", "STATE", "ID", "ATTEMPTS", "NEXT (UTC)", "WHY"];
    assert_eq!(headings(&console), chosen);
    let saved = (
        "tree".to_owned(),
        "what state id attempts next why".to_owned(),
    );
    assert_eq!(console.saved, [saved]);
    console.assert_shows(["saved: the tree shows what, state, id, attempts, next, why"]);
    // Rows below others are still indented, and another tree has these columns too.
    console.assert_shows(["└ "]);
    console.press("esc down enter");
    assert_eq!(headings(&console), chosen);
    console.type_line(":columns next,what");
    assert_eq!(headings(&console), ["NEXT (UTC)", "WHAT"]);
    console.type_line(":columns default");
    assert_eq!(headings(&console), all);
}

#[test]
fn column_names_of_a_tree_are_completed_after_columns_but_not_in_its_filter() {
    let mut console = console((80, 24));
    console.press("enter :columns space wha tab");
    console.assert_shows([":columns what"]);
    console.press("esc /wha tab");
    console.assert_hides(["what:"]);
}

#[test]
fn the_columns_command_says_that_the_columns_of_a_plan_are_fixed() {
    let mut console = console((80, 24));
    console.press(":net enter D");
    console.type_line(":columns");
    console.assert_shows(["the columns of this pane cannot be chosen"]);
}

#[test]
fn a_choice_of_columns_that_cannot_be_saved_still_applies_and_says_why() {
    let mut unnamed = TestConsole::new(World::busy(), (120, 30)).after(":network enter");
    unnamed.type_line(":columns name");
    unnamed.assert_shows(["start with --config FILE to keep this choice"]);
    assert_eq!(headings(&unnamed), ["NAME"]);
    let mut full = console((120, 30));
    full.save_result = Err("the disk is full".to_owned());
    full.press(":network enter");
    full.type_line(":columns name");
    full.assert_shows(["the columns of :network could not be saved: the disk is full"]);
    assert_eq!(headings(&full), ["NAME"]);
}
