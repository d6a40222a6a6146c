//! The scope, which stays when another pane is opened, and views, which are opened and saved by name.

use gone::control::{Command, Query};
use gone::domain::model::StepState;
use gone::frontends::console::ConsoleOptions;

use super::fake::{TestConsole, World, options, project, resource, site, step};

/// Networks and stuck ports at each of two sites.
fn world() -> World {
    let mut world = World::busy();
    let network = |n: u32, name: &str, region: &str, project: &str| {
        let mut row = resource("network", n, name);
        row.key.site = site(region);
        project.clone_into(&mut row.project_id);
        row
    };
    world.listings.truncate(1);
    world.listings[0].rows = vec![
        network(1, "web", "RegionOne", "p1"),
        network(2, "db", "RegionOne", "p2"),
        network(3, "web-far", "RegionTwo", "p1"),
    ];
    world.steps.clear();
    for (n, region) in [(200, "RegionOne"), (201, "RegionTwo")] {
        let name = format!("at-{region}");
        let mut stuck = step(n, "port", &name, StepState::Stuck, &[]);
        stuck.resource.key.site = site(region);
        world.steps.push(stuck);
    }
    world.snapshot.attention.clear();
    world
}

/// A console that can save views, and has two.
fn console() -> TestConsole {
    let views = [("night", "stuck @prod/RegionOne"), ("all", "network")];
    let options = ConsoleOptions {
        views: views
            .map(|(name, view)| (name.to_owned(), view.to_owned()))
            .into(),
        settings_file: Some("config.toml".into()),
        ..options()
    };
    TestConsole::with(world(), (100, 24), options)
}

#[test]
fn a_scope_is_shown_in_the_header_and_kept_over_panes_until_it_is_cleared() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    console.assert_shows([" in RegionTwo  "]);
    console.press(":network enter");
    console.assert_shows(["network 1 of 3", "web-far"]);
    console.assert_hides([" db "]);
    console.press(":stuck enter");
    console.assert_shows(["at-RegionTwo"]);
    console.assert_hides(["at-RegionOne"]);
    // The query to the engine has the scope as a filter.
    let filter = console.queries.iter().rev().find_map(|query| match query {
        Query::Steps(steps) => Some(steps.filter.as_str()),
        _ => None,
    });
    assert_eq!(filter, Some("site==prod/RegionTwo"));
    console.press("0");
    console.assert_shows(["at-RegionOne"]);
    console.assert_hides([" in RegionTwo"]);
    // The list that was opened earlier has no scope any more either.
    console.press("esc");
    console.assert_shows(["network 3 "]);
}

#[test]
fn one_command_line_may_contain_a_kind_a_region_and_a_filter() {
    let mut console = console();
    console.type_line(":Network @RegionOne /web");
    console.assert_shows(["network 1 of 3", "filter: web", " in RegionOne  "]);
    console.press("D");
    let Some(Command::Plan { targets, .. }) = console.sent.last() else {
        panic!("no plan");
    };
    assert_eq!(targets.len(), 1);
}

#[test]
fn a_plan_key_first_warns_about_marked_rows_outside_the_scope() {
    let mut console = console();
    console.press(":network enter *");
    console.type_line(":region RegionTwo");
    console.press("D");
    assert_eq!(console.sent.len(), 0);
    console.assert_shows(["2 of 3 marked rows hidden: D again"]);
}

#[test]
fn a_known_project_becomes_the_scope_and_an_unknown_one_gets_the_nearest_name() {
    let mut world = world();
    world.projects = vec![project("p1", "shop"), project("p2", "demo")];
    let mut console = TestConsole::new(world, (100, 24)).after(":network enter");
    console.type_line(":project demo");
    console.assert_shows(["network 1 of 3", " db ", " in project demo"]);
    console.type_line(":project shpo");
    console.assert_shows(["there is no project \"shpo\"; did you mean \"shop\"?"]);
    console.assert_hides(["in project"]);
}

#[test]
fn unknown_clouds_regions_kinds_and_views_are_answered_with_the_nearest_name() {
    let mut console = console();
    for (line, expected) in [
        (
            ":cloud prd",
            "there is no cloud \"prd\"; did you mean \"prod\"?",
        ),
        (
            ":region RegionTow",
            "there is no region \"RegionTow\"; did you mean \"RegionTwo\"?",
        ),
        (":network @RegionOen", "did you mean \"RegionOne\"?"),
        (":netwrok @RegionOne", "did you mean \"network\"?"),
        (
            ":view nihgt",
            "there is no view \"nihgt\"; did you mean \"night\"?",
        ),
        (":NETWROK", "did you mean \"network\"?"),
        (":cloud", "write the name of a cloud after :cloud"),
        (":Region", "write the name of a region after :region"),
    ] {
        console.type_line(line);
        console.assert_shows([expected]);
        console.assert_hides([" in prod"]);
    }
}

#[test]
fn a_saved_view_restores_the_pane_its_scope_and_its_filter() {
    let mut console = console();
    console.type_line(":network @prod/RegionOne /web");
    console.type_line(":view save mine");
    assert_eq!(
        console.saved,
        [("mine".to_owned(), "network @prod/RegionOne /web".to_owned())]
    );
    console.assert_shows(["saved as :view mine"]);
    console.press("0 esc");
    console.type_line(":sites");
    console.type_line(":view mine");
    console.assert_shows(["network 1 of 3", "filter: web", " in prod/RegionOne"]);
    for (line, expected) in [
        (":view save a/b", "letters, digits"),
        (":view save", "write a name after :view save"),
        (
            ":view save save",
            "\"save\" is reserved; write another name after :view save",
        ),
        (
            ":view save x y",
            "write one name after :view save, without spaces",
        ),
        (":view x y", "write one name after :view, without spaces"),
    ] {
        console.type_line(line);
        console.assert_shows([expected]);
    }
    assert_eq!(console.saved.len(), 1);
}

#[test]
fn a_view_without_a_scope_clears_the_current_scope() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    console.type_line(":view all");
    console.assert_shows(["network 3 "]);
}

#[test]
fn a_view_cannot_be_saved_without_a_settings_file() {
    let mut console = TestConsole::new(world(), (100, 24));
    console.type_line(":view save mine");
    assert!(console.saved.is_empty());
    console.assert_shows(["start with --config FILE"]);
}

#[test]
fn the_console_starts_with_a_view_its_scope_and_its_filter() {
    let options = ConsoleOptions {
        start: Some("network @prod/RegionTwo /far".to_owned()),
        ..options()
    };
    let mut console = TestConsole::with(world(), (100, 24), options);
    console.assert_shows(["network 1 of 3", "filter: far", " in prod/RegionTwo"]);
    // Esc leads back to the first screen.
    console.press("esc esc");
    console.assert_shows(["── home"]);
}

#[test]
fn an_empty_list_says_that_the_scope_hides_its_rows() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    console.type_line(":network /db");
    console.assert_shows([
        "No network matches \"db\" and is in RegionTwo",
        "0 shows all clouds and projects",
    ]);
}

#[test]
fn home_and_causes_say_that_they_cover_all_clouds_and_projects() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    for word in ["home", "causes"] {
        console.type_line(&format!(":{word}"));
        console.assert_shows(["all clouds and projects"]);
    }
}

#[test]
fn a_view_that_cannot_be_saved_leaves_the_saved_view_of_its_name() {
    let mut console = console();
    console.type_line(":network @prod/RegionOne /web");
    console.type_line(":view save mine");
    console.save_result = Err("the disk is full".to_owned());
    console.type_line(":sites");
    console.type_line(":view save mine");
    console.assert_shows(["could not be saved"]);
    console.type_line(":view mine");
    console.assert_shows(["network 1 of 3"]);
}
