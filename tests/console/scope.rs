//! The scope, which is kept over panes; and views, which are opened and saved by name.

use gone::control::{Command, Query};
use gone::domain::model::{Resource, StepState};
use gone::frontends::console::ConsoleOptions;

use super::fake::{Desk, World, options, resource, site, step};

/// Networks and stuck ports, some at each of two sites.
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

/// Views can be saved, and one is.
fn desk() -> Desk {
    let views = [("night", "stuck @prod/RegionOne"), ("all", "network")];
    let look = ConsoleOptions {
        views: views
            .map(|(name, view)| (name.to_owned(), view.to_owned()))
            .into(),
        settings_file: Some("config.toml".into()),
        ..options()
    };
    Desk::with(world(), (100, 24), look)
}

#[test]
fn a_scope_is_shown_in_the_header_and_kept_over_panes_until_it_is_cleared() {
    let mut desk = desk();
    desk.type_line(":region RegionTwo");
    assert!(desk.text().contains(" in RegionTwo  "), "{}", desk.text());
    desk.press(":network enter");
    let text = desk.text();
    assert!(text.contains("network 1 of 3"), "{text}");
    assert!(text.contains("web-far") && !text.contains(" db "), "{text}");
    desk.press(":stuck enter");
    let text = desk.text();
    assert!(
        text.contains("at-RegionTwo") && !text.contains("at-RegionOne"),
        "{text}"
    );
    // The engine searches for what is in the scope.
    let asked = desk.asked.iter().rev();
    let filter = asked.filter_map(|query| match query {
        Query::Steps(steps) => Some(steps.filter.clone()),
        _ => None,
    });
    assert_eq!(filter.take(1).collect::<Vec<_>>(), ["site==prod/RegionTwo"]);
    desk.press("0");
    let text = desk.text();
    assert!(
        text.contains("at-RegionOne") && !text.contains(" in RegionTwo"),
        "{text}"
    );
    // The list below has it no more either.
    desk.press("esc");
    assert!(desk.text().contains("network 3 "), "{}", desk.text());
}

#[test]
fn a_kind_a_place_and_a_filter_are_one_line() {
    let mut desk = desk();
    desk.type_line(":Network @RegionOne /web");
    let text = desk.text();
    assert!(text.contains("network 1 of 3"), "{text}");
    assert!(text.contains("filter: web"), "{text}");
    assert!(text.contains(" in RegionOne  "), "{text}");
    desk.press("D");
    let Some(Command::Plan { targets, .. }) = desk.sent.last() else {
        panic!("no plan");
    };
    assert_eq!(targets.len(), 1);
}

#[test]
fn marks_outside_the_scope_are_told_before_anything_is_planned() {
    let mut desk = desk();
    desk.press(":network enter *");
    desk.type_line(":region RegionTwo");
    desk.press("D");
    assert_eq!(desk.sent.len(), 0);
    let text = desk.text();
    assert!(
        text.contains("2 of 3 marked rows hidden: D again"),
        "{text}"
    );
}

#[test]
fn a_project_is_named_or_the_nearest_is_told() {
    let mut world = world();
    let project = |id: &str, name: &str| {
        let mut row = resource("project", 1, name);
        row.key.id = id.to_owned();
        row
    };
    world.projects = vec![project("p1", "shop"), project("p2", "demo")];
    let mut desk = Desk::new(world, (100, 24));
    desk.press(":network enter");
    desk.type_line(":project demo");
    let text = desk.text();
    assert!(
        text.contains("network 1 of 3") && text.contains(" db "),
        "{text}"
    );
    assert!(text.contains(" in project demo"), "{text}");
    desk.type_line(":project shpo");
    let text = desk.text();
    assert!(
        text.contains("there is no project \"shpo\"; did you mean \"shop\"?"),
        "{text}"
    );
    assert!(!text.contains("in project"), "{text}");
}

#[test]
fn unknown_places_and_views_are_answered_with_the_nearest() {
    let mut desk = desk();
    for (line, told) in [
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
        desk.type_line(line);
        assert!(desk.text().contains(told), "{line}\n{}", desk.text());
        assert!(!desk.text().contains(" in prod"), "{line}\n{}", desk.text());
    }
}

#[test]
fn a_saved_view_is_the_pane_its_scope_and_its_filter() {
    let mut desk = desk();
    desk.type_line(":network @prod/RegionOne /web");
    desk.type_line(":view save mine");
    assert_eq!(
        desk.saved,
        [("mine".to_owned(), "network @prod/RegionOne /web".to_owned())]
    );
    assert!(
        desk.text().contains("saved as :view mine"),
        "{}",
        desk.text()
    );
    desk.press("0 esc");
    desk.type_line(":sites");
    desk.type_line(":view mine");
    let text = desk.text();
    assert!(
        text.contains("network 1 of 3") && text.contains("filter: web"),
        "{text}"
    );
    assert!(text.contains(" in prod/RegionOne"), "{text}");
    for (line, told) in [
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
        desk.type_line(line);
        assert!(desk.text().contains(told), "{line}\n{}", desk.text());
    }
    assert_eq!(desk.saved.len(), 1);
}

#[test]
fn a_view_replaces_the_scope_and_what_it_does_not_name_is_shown_whole() {
    let mut desk = desk();
    desk.type_line(":region RegionTwo");
    desk.type_line(":view all");
    assert!(desk.text().contains("network 3 "), "{}", desk.text());
}

#[test]
fn without_a_settings_file_a_view_cannot_be_saved() {
    let mut desk = Desk::new(world(), (100, 24));
    desk.type_line(":view save mine");
    assert!(desk.saved.is_empty());
    assert!(
        desk.text().contains("start with --config FILE"),
        "{}",
        desk.text()
    );
}

#[test]
fn the_last_view_comes_back_with_its_scope() {
    let look = ConsoleOptions {
        start: Some("network @prod/RegionTwo /far".to_owned()),
        ..options()
    };
    let mut desk = Desk::with(world(), (100, 24), look);
    let text = desk.text();
    assert!(
        text.contains("network 1 of 3") && text.contains("filter: far"),
        "{text}"
    );
    assert!(text.contains(" in prod/RegionTwo"), "{text}");
    // The first screen is below it.
    desk.press("esc esc");
    assert!(desk.text().contains("── home"), "{}", desk.text());
}

#[test]
fn an_empty_list_says_that_the_scope_hides_its_rows() {
    let mut desk = desk();
    desk.type_line(":region RegionTwo");
    desk.type_line(":network /db");
    let text = desk.text();
    assert!(
        text.contains("No network matches \"db\" and is in RegionTwo"),
        "{text}"
    );
    assert!(text.contains("0 shows all clouds and projects"), "{text}");
}

#[test]
fn what_counts_everything_says_so() {
    let mut desk = desk();
    desk.type_line(":region RegionTwo");
    for word in ["home", "causes"] {
        desk.type_line(&format!(":{word}"));
        assert!(
            desk.text().contains("all clouds and projects"),
            "{}",
            desk.text()
        );
    }
}
