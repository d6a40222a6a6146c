//! The scope, which applies to all panes, and views, which are opened and saved by name.

use gone::control::{Command, Query};
use gone::domain::model::{Resource, StepState};
use gone::frontends::console::ConsoleOptions;

use super::fake::{TestConsole, World, options, resource, site, step};

/// Networks and stuck ports at each of two sites.
fn world() -> World {
    let mut world = World::busy();
    let network = |n: u32, name: &str, region: &str, project: &str| {
        let row = resource("network", n, name);
        let mut key = row.key.clone();
        key.site = site(region);
        Resource {
            key,
            project_id: project.to_owned(),
            ..row
        }
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
    assert!(
        console.text().contains(" in RegionTwo  "),
        "{}",
        console.text()
    );
    console.press(":network enter");
    let text = console.text();
    assert!(text.contains("network 1 of 3"), "{text}");
    assert!(text.contains("web-far") && !text.contains(" db "), "{text}");
    console.press(":stuck enter");
    let text = console.text();
    assert!(
        text.contains("at-RegionTwo") && !text.contains("at-RegionOne"),
        "{text}"
    );
    // The query to the engine has the scope as a filter.
    let queries = console.queries.iter().rev();
    let filter = queries.filter_map(|query| match query {
        Query::Steps(steps) => Some(steps.filter.clone()),
        _ => None,
    });
    assert_eq!(filter.take(1).collect::<Vec<_>>(), ["site==prod/RegionTwo"]);
    console.press("0");
    let text = console.text();
    assert!(
        text.contains("at-RegionOne") && !text.contains(" in RegionTwo"),
        "{text}"
    );
    // The list that was opened earlier has no scope any more either.
    console.press("esc");
    assert!(console.text().contains("network 3 "), "{}", console.text());
}

#[test]
fn one_command_line_may_contain_a_kind_a_region_and_a_filter() {
    let mut console = console();
    console.type_line(":Network @RegionOne /web");
    let text = console.text();
    assert!(text.contains("network 1 of 3"), "{text}");
    assert!(text.contains("filter: web"), "{text}");
    assert!(text.contains(" in RegionOne  "), "{text}");
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
    let text = console.text();
    assert!(
        text.contains("2 of 3 marked rows hidden: D again"),
        "{text}"
    );
}

#[test]
fn a_known_project_becomes_the_scope_and_an_unknown_one_gets_the_nearest_name() {
    let mut world = world();
    let project = |id: &str, name: &str| {
        let mut row = resource("project", 1, name);
        row.key.id = id.to_owned();
        row
    };
    world.projects = vec![project("p1", "shop"), project("p2", "demo")];
    let mut console = TestConsole::new(world, (100, 24));
    console.press(":network enter");
    console.type_line(":project demo");
    let text = console.text();
    assert!(
        text.contains("network 1 of 3") && text.contains(" db "),
        "{text}"
    );
    assert!(text.contains(" in project demo"), "{text}");
    console.type_line(":project shpo");
    let text = console.text();
    assert!(
        text.contains("there is no project \"shpo\"; did you mean \"shop\"?"),
        "{text}"
    );
    assert!(!text.contains("in project"), "{text}");
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
        assert!(
            console.text().contains(expected),
            "{line}\n{}",
            console.text()
        );
        assert!(
            !console.text().contains(" in prod"),
            "{line}\n{}",
            console.text()
        );
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
    assert!(
        console.text().contains("saved as :view mine"),
        "{}",
        console.text()
    );
    console.press("0 esc");
    console.type_line(":sites");
    console.type_line(":view mine");
    let text = console.text();
    assert!(
        text.contains("network 1 of 3") && text.contains("filter: web"),
        "{text}"
    );
    assert!(text.contains(" in prod/RegionOne"), "{text}");
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
        assert!(
            console.text().contains(expected),
            "{line}\n{}",
            console.text()
        );
    }
    assert_eq!(console.saved.len(), 1);
}

#[test]
fn a_view_without_a_scope_clears_the_current_scope() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    console.type_line(":view all");
    assert!(console.text().contains("network 3 "), "{}", console.text());
}

#[test]
fn a_view_cannot_be_saved_without_a_settings_file() {
    let mut console = TestConsole::new(world(), (100, 24));
    console.type_line(":view save mine");
    assert!(console.saved.is_empty());
    assert!(
        console.text().contains("start with --config FILE"),
        "{}",
        console.text()
    );
}

#[test]
fn the_console_starts_with_a_view_its_scope_and_its_filter() {
    let options = ConsoleOptions {
        start: Some("network @prod/RegionTwo /far".to_owned()),
        ..options()
    };
    let mut console = TestConsole::with(world(), (100, 24), options);
    let text = console.text();
    assert!(
        text.contains("network 1 of 3") && text.contains("filter: far"),
        "{text}"
    );
    assert!(text.contains(" in prod/RegionTwo"), "{text}");
    // Esc leads back to the first screen.
    console.press("esc esc");
    assert!(console.text().contains("── home"), "{}", console.text());
}

#[test]
fn an_empty_list_says_that_the_scope_hides_its_rows() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    console.type_line(":network /db");
    let text = console.text();
    assert!(
        text.contains("No network matches \"db\" and is in RegionTwo"),
        "{text}"
    );
    assert!(text.contains("0 shows all clouds and projects"), "{text}");
}

#[test]
fn home_and_causes_say_that_they_cover_all_clouds_and_projects() {
    let mut console = console();
    console.type_line(":region RegionTwo");
    for word in ["home", "causes"] {
        console.type_line(&format!(":{word}"));
        assert!(
            console.text().contains("all clouds and projects"),
            "{}",
            console.text()
        );
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
    let text = console.text();
    assert!(text.contains("could not be saved"), "{text}");
    console.type_line(":view mine");
    let text = console.text();
    assert!(text.contains("network 1 of 3"), "{text}");
}
