//! Lists of resources, and the keys that work on them.

use chrono::TimeDelta;
use gone::control::{Command, Explanation, Page, Query, SiteListing, query};
use gone::domain::model::{DeletionState, Resource, Step, Target};
use gone::domain::relations::{Relation, RelationKind};
use gone::frontends::console::{ConsoleOptions, Event, Keymap};
use serde_json::json;
use termina::event::{KeyCode, KeyEvent, Modifiers};

use super::fake::{
    self, TestConsole, World, deletion, drifted, explanation, id, key, listing, now, options,
    project, resource,
};

fn console(networks: &[(&str, &str)]) -> TestConsole {
    let mut world = World::busy();
    let rows = (1..).zip(networks).map(|(n, (name, status))| {
        let mut row: Resource = resource("network", n, name);
        row.attributes["status"] = json!(status);
        row
    });
    world.listings[0].rows = rows.collect();
    TestConsole::new(world, (80, 24)).after(":network enter")
}

fn names(console: &TestConsole, all: &[&str]) -> Vec<String> {
    let text = console.text();
    let is_row = |line: &&str| line.contains("ACTIVE") || line.contains("DOWN");
    let named = |row: &str| {
        row.split_whitespace()
            .find(|word| all.contains(word))
            .map(str::to_owned)
    };
    text.lines().filter(is_row).filter_map(named).collect()
}

#[test]
fn rows_are_sorted_by_column_and_the_cursor_stays_on_its_row() {
    let all = ["web", "Archive", "10", "9"];
    let mut console = console(&[
        ("web", "DOWN"),
        ("Archive", "ACTIVE"),
        ("10", "DOWN"),
        ("9", "ACTIVE"),
    ]);
    assert!(console.row().contains("web"));
    console.press("s");
    console.assert_shows(["NAME▲"]);
    assert_eq!(names(&console, &all), ["9", "10", "Archive", "web"]);
    assert!(console.row().contains("web"));
    console.press("S");
    console.assert_shows(["NAME▼"]);
    assert_eq!(names(&console, &all), ["web", "Archive", "10", "9"]);
    // Another column keeps the chosen direction; rows with equal cells are in reverse order too.
    console.press("s s");
    console.assert_shows(["STATUS▼"]);
    assert_eq!(names(&console, &all), ["10", "web", "9", "Archive"]);
    assert!(console.row().contains("web"));
    // A refresh keeps the order.
    console.press("ctrl-r");
    assert_eq!(names(&console, &all), ["10", "web", "9", "Archive"]);
    for _ in 0..8 {
        console.press("s");
        if !console.text().contains(['▲', '▼']) {
            assert_eq!(names(&console, &all), all);
            return;
        }
    }
    panic!(
        "the key s never leads back to the listed order:\n{}",
        console.text()
    );
}

/// A terminal that is not in raw mode yet turns enter into a line feed.
#[test]
fn a_line_feed_counts_as_enter() {
    let mut console = console(&[("web", "DOWN")]);
    console.press(":network ctrl-j");
    console.assert_shows(["── network 1"]);
}

#[test]
fn changed_keys_work_and_are_named_in_the_help_the_footer_and_the_texts() {
    let keys = [
        ("retry", "R"),
        ("ladder", "L"),
        ("plan_deletion", "P"),
        ("back", "f2"),
        ("copy", "f3"),
    ];
    let keys = keys.map(|(action, key)| (action.to_owned(), vec![key.to_owned()]));
    let options = ConsoleOptions {
        keys: Keymap::with(&keys.into()).unwrap(),
        ..options()
    };
    let mut console = TestConsole::with(World::busy(), (80, 24), options).after(":network enter");
    console.assert_shows(["P plan deletion"]);
    console.press("delete");
    console.assert_shows(["P on a row plans a deletion"]);
    console.press("/nowhere enter");
    console.assert_shows(["f2 shows all again"]);
    console.handle(Event::Key(KeyEvent::new(
        KeyCode::Function(2),
        Modifiers::NONE,
    )));
    console.press("D");
    assert!(console.sent.is_empty(), "{:?}", console.sent);
    console.press("P");
    assert!(
        matches!(console.sent[..], [Command::Plan { .. }]),
        "{:?}",
        console.sent
    );
    console.press(":stuck enter");
    console.assert_shows(["R retries the step, once the reason is gone; L shows"]);
    console.press("?");
    console.assert_shows(["R                  retry the step or the deletion now"]);
}

#[test]
fn n19_keys_add_public_resources_the_project_and_the_servers_to_a_new_plan() {
    let mut console = console(&[("web", "n-1")]);
    console.press(":network enter D");
    // A sentence may be wrapped on the screen.
    let text = |console: &TestConsole| {
        console
            .text()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert!(!text(&console).contains("also resources that other projects may use"));
    console.press("u");
    assert!(text(&console).contains("also resources that other projects may use"));
    console.press("w");
    assert!(text(&console).contains("also the Keystone project"));
    console.press("v");
    assert!(text(&console).contains("also the servers on the networks"));
    let options = console.sent.iter().map(|command| match command {
        Command::Plan { options, .. } => [
            options.include_public,
            options.with_project,
            options.with_servers,
        ],
        other => panic!("{other:?}"),
    });
    let options: Vec<[bool; 3]> = options.collect();
    let all = [true; 3];
    assert_eq!(
        options,
        [[false; 3], [true, false, false], [true, true, false], all]
    );
}

/// Stuck steps and refused deletions come in separate answers.
#[test]
fn the_cursor_starts_at_the_first_row_whichever_answer_comes_first() {
    for last_first in [false, true] {
        let mut console = TestConsole::busy("");
        console.answers_last_first = last_first;
        console.press(":stuck enter");
        console.assert_shows([">  ✖ stuck", "✖ refused"]);
    }
}

#[test]
fn the_header_draws_the_recent_rates() {
    let mut console = TestConsole::new(World::busy(), (132, 24));
    for rate in [1.0, 8.0, 4.0] {
        console.world.snapshot.rate_per_second = rate;
        console.publish();
    }
    console.assert_shows(["4.0/s ▂█▅"]);
}

#[test]
fn p02_resources_steps_and_orphans_are_explained_and_the_id_of_the_blocker_is_copied() {
    for (keys, words) in [
        (":network enter e", "why network web at prod/RegionOne"),
        (":stuck enter e", "why load balancer lb-shop"),
        ("enter e", "why network web"),
        (":orphans enter e", "why port old-1"),
    ] {
        let mut console = TestConsole::busy(keys);
        let text = console.text();
        assert!(text.contains(words), "{keys}: {text}");
        console.assert_shows(["free the floating IP, or ask its owner"]);
        console.press("end y");
        assert_eq!(console.copied, ["7d444840-9dc0-11d1-b245-00000000b10c"]);
        assert!(console.sent.is_empty());
    }
}

#[test]
fn help_explains_the_signs_and_shows_the_name_of_a_key_in_the_settings() {
    let mut console = console(&[("web", "ACTIVE")]);
    console.press("? down down");
    console.assert_shows(["\"plan_deletion\" in [console] keys"]);
    console.press("esc");
    console.press("? / a c c e p t e d enter");
    console.assert_shows(["◌ verifying", "██▓▓░░", "the cloud has accepted the call"]);
    console.assert_hides(["stuck, see"]);
}

#[test]
fn a_click_selects_a_row_and_a_second_click_opens_it() {
    let mut console = console(&[("web", "ACTIVE"), ("lab", "ACTIVE"), ("10", "ACTIVE")]);
    let line = |console: &TestConsole, word: &str| {
        let text = console.text();
        let line = text.lines().position(|line| line.contains(word));
        u16::try_from(line.unwrap_or_else(|| panic!("no {word} in\n{text}"))).unwrap()
    };
    let lab = line(&console, "lab");
    console.handle(Event::Click(lab));
    assert!(console.row().contains("lab"));
    console.handle(Event::Wheel { down: false });
    assert!(console.row().contains("web"));
    console.handle(Event::Wheel { down: true });
    assert!(console.row().contains("10"));
    for no_row in [0, line(&console, "NAME"), lab + 2, 23, 99] {
        console.handle(Event::Click(no_row));
        assert!(console.row().contains("10"), "line {no_row}");
    }
    console.handle(Event::Click(lab));
    console.handle(Event::Click(lab));
    console.assert_shows(["── network lab ──"]);
}

#[test]
fn the_error_rate_of_a_site_is_shown_in_the_header_and_in_sites() {
    let mut world = World::busy();
    world.snapshot.sites[0].error_percent = Some(7);
    let mut console = TestConsole::new(world, (120, 24));
    let header = |console: &TestConsole| console.text().lines().nth(2).unwrap().to_owned();
    assert!(
        header(&console).contains("prod/RegionOne 34 ms 16 at a time 7% errors"),
        "{}",
        header(&console)
    );
    console.press(":sites enter");
    console.assert_shows(["7% of the last calls failed"]);
    console.handle(Event::Resize(90, 24));
    console.size = (90, 24);
    let header = header(&console);
    assert!(header.contains("prod/RegionOne 7% errors"), "{header}");
}

#[test]
fn p01_no_click_starts_a_deletion() {
    let mut console = console(&[("web", "ACTIVE")]);
    console.press("D");
    let changes = console.changes().len();
    for line in 0..24 {
        console.handle(Event::Click(line));
        console.handle(Event::Click(line));
    }
    console.assert_shows(["plan: delete"]);
    console.press("enter");
    for line in 0..24 {
        console.handle(Event::Click(line));
    }
    console.assert_shows(["Type the name"]);
    assert_eq!(console.changes().len(), changes);
}

#[test]
fn a_filter_accepts_project_names_and_queries_them_once() {
    let mut world = World::busy();
    world.listings[0].rows = ["a1", "b2", "c3"]
        .iter()
        .zip(1..)
        .map(|(project, n)| Resource {
            project_id: (*project).to_owned(),
            ..resource("network", n, &format!("net-{project}"))
        })
        .collect();
    world.listings.truncate(1);
    world.override_answer = Some(Box::new(|query| match query {
        Query::Resources(query::Resources {
            kind,
            site: Some(at),
            ..
        }) if kind == "project" => {
            let projects = vec![project("a1", "shop"), project("b2", "Lab")];
            Some(Ok(Page::Resources(vec![SiteListing {
                site: at.clone(),
                ..listing("", projects)
            }])))
        }
        _ => None,
    }));
    let mut console = TestConsole::new(world, (80, 24)).after(":network enter /project=lab enter");
    console.assert_shows(["net-b2"]);
    console.assert_hides(["net-a1", "net-c3"]);
    // The filter is shown as typed, with the name and not the id of the project.
    console.assert_shows(["filter: project=lab "]);
    console.press("esc / project=a1,lab enter");
    console.assert_shows(["net-a1", "net-b2"]);
    let is_of_projects = |it: &Query| matches!(it, Query::Resources(it) if it.kind == "project");
    assert_eq!(
        console.count(is_of_projects),
        1,
        "each cloud is queried once"
    );
}

/// Returns these texts in the order in which they are on the screen.
fn order<'t>(console: &TestConsole, all: &[&'t str]) -> Vec<&'t str> {
    let text = console.text();
    let mut places: Vec<_> = all.iter().map(|it| (text.find(it), *it)).collect();
    assert!(places.iter().all(|(at, _)| at.is_some()), "{all:?}\n{text}");
    places.sort_unstable();
    places.into_iter().map(|(_, it)| it).collect()
}

#[test]
fn lists_can_be_sorted_and_numbers_in_names_are_compared_by_value() {
    let mut console = console(&[("web-10", "ACTIVE"), ("web-2", "DOWN"), ("web-1", "ACTIVE")]);
    console.press("s");
    let all = ["web-1", "web-2", "web-10"];
    assert_eq!(names(&console, &all), all);
    let mut world = World::busy();
    world.deletions.truncate(2);
    for (deletion, name) in world.deletions.iter_mut().zip(["net-10", "net-9"]) {
        deletion.targets[0].name = name.to_owned();
    }
    world.snapshot.deletions.clear();
    world.steps.push(drifted(95, "web"));
    let mut console = TestConsole::new(world, (120, 40));
    assert_eq!(order(&console, &["net-9", "net-10"]), ["net-10", "net-9"]);
    console.press("s s s");
    console.assert_shows(["WHAT▲", "sorted by WHAT"]);
    assert_eq!(order(&console, &["net-9", "net-10"]), ["net-9", "net-10"]);
    console.press("S");
    console.assert_shows(["WHAT▼"]);
    assert_eq!(order(&console, &["net-9", "net-10"]), ["net-10", "net-9"]);
    for word in [
        "stuck",
        "retrying",
        "causes",
        "orphans",
        "tombstones",
        "drift",
        "sites",
        "gates",
        "deployments",
        "engine",
    ] {
        console.press(&format!(":{word} enter s"));
        assert!(console.text().contains('▲'), "{word}\n{}", console.text());
    }
}

#[test]
fn rows_are_filtered_by_column_and_by_regular_expression() {
    let rows = [
        ("web-1", "ACTIVE"),
        ("web-10", "DOWN"),
        ("my-web-2", "ACTIVE"),
    ];
    let all = ["web-1", "web-10", "my-web-2"];
    let mut console = console(&rows);
    for (filter, wanted) in [
        ("/~^web-[0-9]+$", vec!["web-1", "web-10"]),
        ("/!~^web-[0-9]+$", vec!["my-web-2"]),
        ("/status:active", vec!["web-1", "my-web-2"]),
        ("/!status:active", vec!["web-10"]),
        ("/name:web-1 status:down", vec!["web-10"]),
        ("/state:active name:my", vec!["my-web-2"]),
        // A regular expression that is not complete hides no row.
        ("/~^web-[", all.to_vec()),
    ] {
        console.type_line(filter);
        assert_eq!(names(&console, &all), wanted, "{filter}");
        console.press("esc");
    }
    console.type_line("/~^web-[");
    console.assert_shows(["this regular expression is not complete"]);
}

#[test]
fn relations_open_the_related_resource_or_deletion_and_lead_back() {
    let mut world = World::busy();
    world.override_answer = Some(Box::new(|query| {
        let Query::Explain(query::Explain { target }) = query else {
            return None;
        };
        let used = Target {
            key: key("port", &id(42)),
            name: "server-42".to_owned(),
        };
        let deletion = deletion(1, DeletionState::Running, 120, 536);
        let relation = |how, resource, note: &str| Relation {
            how,
            resource,
            deletion_id: None,
            note: note.to_owned(),
        };
        let relations = match target.kind.as_str() {
            "port" => Vec::new(),
            _ => vec![
                relation(RelationKind::UsedBy, Some(used), "port on network web"),
                Relation::deleted_by(&deletion),
                relation(RelationKind::ProtectedBy, None, "the rule tag keep"),
            ],
        };
        Some(Ok(Page::Explain(Box::new(Explanation {
            lines: vec![format!("this is a {}", target.kind)],
            relations,
            ..explanation(fake::target(&target.kind, 1, "web"))
        }))))
    }));
    let mut console = TestConsole::new(world, (120, 40)).after(":network enter e");
    console.assert_shows([
        "used by port server-42 (port on network web)",
        "in deletion 00000001, which is running",
        "protected: the rule tag keep",
    ]);
    console.press("enter");
    console.assert_shows(["leads to no resource"]);
    console.press("down y enter");
    assert_eq!(console.copied, [id(42)]);
    console.assert_shows(["why port server-42", "this is a port"]);
    console.press("[ down enter");
    console.assert_shows(["── deletion 00000001"]);
    console.press("[ [");
    console.assert_shows(["── network"]);
    assert!(console.changes().is_empty());
}

#[test]
fn a_key_that_does_nothing_here_says_so() {
    let mut console = console(&[("web", "ACTIVE")]);
    console.press("enter");
    for (key, expected) in [
        ("D", "only in a list of resources"),
        ("x", "only on a plan and in :tombstones"),
        ("e", "but in :home and 6 other panes"),
    ] {
        console.press(key);
        let expected = format!("{key} does nothing here, {expected}; ? shows the keys");
        console.assert_shows([&expected]);
    }
    console.press("Z");
    console.assert_shows(["Z does nothing here; ? shows the keys"]);
    console.handle(Event::Key(KeyEvent::new(
        KeyCode::Char('e'),
        Modifiers::ALT,
    )));
    console.assert_shows(["alt-e does nothing here; ?"]);
    // `:events` does not keep this message.
    console.press(":events enter");
    console.assert_hides(["does nothing"]);
}

#[test]
fn columns_of_ages_are_sorted_by_their_time_and_filtered_by_what_the_screen_shows() {
    let mut console = TestConsole::new(World::busy(), (120, 40)).after(":engine enter");
    let all = ["planning", "retry", "dispatch", "sweep", "prune"];
    console.assert_shows(["12s ago"]);
    console.press("s s s");
    console.assert_shows(["LAST RUN▲"]);
    // Prune has not run; planning ran five minutes ago, the others seconds ago.
    let longest_ago_first = ["prune", "planning", "sweep", "retry", "dispatch"];
    assert_eq!(order(&console, &all), longest_ago_first);
    console.press("s");
    console.assert_shows(["NEXT RUN▲"]);
    assert_eq!(order(&console, &["retry", "sweep"]), ["sweep", "retry"]);
    console.type_line("/last_run:12s");
    console.assert_shows(["engine 1 of 5", "sweep"]);
    console.press(":deployments enter s s s s");
    console.assert_shows(["IT WATCHES▲"]);
    let longest_ago_first = ["dns-1", "billing-1"];
    assert_eq!(order(&console, &["billing-1", "dns-1"]), longest_ago_first);
}

#[test]
fn a_column_of_dates_is_sorted_by_year() {
    let mut world = World::busy();
    // One step has been blocked since January, the other since December of the year before.
    for (n, name, days) in [(95, "new", 300), (96, "old", 340)] {
        world.steps.push(Step {
            blocked_since: Some(now() - TimeDelta::days(days)),
            ..drifted(n, name)
        });
    }
    let console = TestConsole::new(world, (120, 40)).after(":drift enter s s s s s");
    console.assert_shows(["SINCE (UTC)▲"]);
    let all = ["network new", "network old"];
    assert_eq!(order(&console, &all), ["network old", "network new"]);
}
