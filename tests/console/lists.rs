//! Lists of resources, and the keys that work on them.

use gone::control::{Command, Explanation, Page, Query, SiteListing, query};
use gone::domain::model::{DeletionState, Resource, Target};
use gone::domain::relations::{Relation, RelationKind};
use gone::frontends::console::{ConsoleOptions, Event, Keymap};
use serde_json::json;
use termina::event::{KeyCode, KeyEvent, Modifiers};

use super::fake::{self, Desk, World, deletion, drifted, id, key, options, resource};

fn desk(networks: &[(&str, &str)]) -> Desk {
    let mut world = World::busy();
    let rows = (1..).zip(networks).map(|(n, (name, status))| {
        let mut row: Resource = resource("network", n, name);
        row.attributes["status"] = json!(status);
        row
    });
    world.listings[0].rows = rows.collect();
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter");
    desk
}

fn names(desk: &Desk, all: &[&str]) -> Vec<String> {
    let text = desk.text();
    let rows = text
        .lines()
        .filter(|line| line.contains("ACTIVE") || line.contains("DOWN"));
    let words = rows.map(|row| {
        row.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    words
        .filter_map(|words| words.into_iter().find(|word| all.contains(&word.as_str())))
        .collect()
}

#[test]
fn rows_are_sorted_by_column_and_the_cursor_stays_on_its_row() {
    let all = ["web", "Archive", "10", "9"];
    let mut desk = desk(&[
        ("web", "DOWN"),
        ("Archive", "ACTIVE"),
        ("10", "DOWN"),
        ("9", "ACTIVE"),
    ]);
    let on = |desk: &Desk, name: &str| {
        let text = desk.text();
        let row = text
            .lines()
            .find(|line| line.starts_with('>'))
            .unwrap()
            .to_owned();
        assert!(row.contains(name), "{text}");
    };
    on(&desk, "web");
    desk.press("s");
    assert!(desk.text().contains("NAME▲"), "{}", desk.text());
    assert_eq!(names(&desk, &all), ["9", "10", "Archive", "web"]);
    on(&desk, "web");
    desk.press("S");
    assert!(desk.text().contains("NAME▼"), "{}", desk.text());
    assert_eq!(names(&desk, &all), ["web", "Archive", "10", "9"]);
    // A later column, in the direction that was chosen; equal ones the other way round, too.
    desk.press("s s");
    assert!(desk.text().contains("STATUS▼"), "{}", desk.text());
    assert_eq!(names(&desk, &all), ["10", "web", "9", "Archive"]);
    on(&desk, "web");
    // A refresh keeps the order.
    desk.press("ctrl-r");
    assert_eq!(names(&desk, &all), ["10", "web", "9", "Archive"]);
    for _ in 0..8 {
        desk.press("s");
        if !desk.text().contains(['▲', '▼']) {
            assert_eq!(names(&desk, &all), all);
            return;
        }
    }
    panic!("never as listed again:\n{}", desk.text());
}

/// A terminal that is not in raw mode yet makes a line feed of it.
#[test]
fn enter_that_was_typed_before_the_console_took_keys_is_enter() {
    let mut desk = desk(&[("web", "DOWN")]);
    desk.press(":network ctrl-j");
    assert!(desk.text().contains("── network 1"), "{}", desk.text());
}

#[test]
fn changed_keys_do_what_help_footer_and_texts_say() {
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
    let mut desk = Desk::with(World::busy(), (80, 24), options);
    desk.press(":network enter");
    assert!(desk.text().contains("P plan deletion"), "{}", desk.text());
    desk.press("delete");
    assert!(
        desk.text().contains("P on a row plans a deletion"),
        "{}",
        desk.text()
    );
    desk.press("/nowhere enter");
    assert!(
        desk.text().contains("f2 shows all again"),
        "{}",
        desk.text()
    );
    desk.take(Event::Key(KeyEvent::new(
        KeyCode::Function(2),
        Modifiers::NONE,
    )));
    desk.press("D");
    assert!(desk.sent.is_empty(), "{:?}", desk.sent);
    desk.press("P");
    assert!(
        matches!(desk.sent[..], [Command::Plan { .. }]),
        "{:?}",
        desk.sent
    );
    desk.press(":stuck enter");
    let text = desk.text();
    assert!(
        text.contains("R retries it, once the reason is gone; L shows"),
        "{text}"
    );
    desk.press("?");
    let text = desk.text();
    assert!(text.contains("R                  retry now"), "{text}");
}

#[test]
fn n19_a_plan_is_made_again_with_what_is_public_the_project_itself_and_the_servers() {
    let mut desk = desk(&[("web", "n-1")]);
    desk.press(":network enter D");
    // A sentence may be broken over lines.
    let text = |desk: &Desk| desk.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!text(&desk).contains("also what other projects may use"));
    desk.press("u");
    assert!(text(&desk).contains("also what other projects may use"));
    desk.press("w");
    assert!(text(&desk).contains("also the Keystone project"));
    desk.press("v");
    assert!(text(&desk).contains("also the servers on the networks"));
    let asked = desk.sent.iter().map(|command| match command {
        Command::Plan { options, .. } => [
            options.include_public,
            options.with_project,
            options.with_servers,
        ],
        other => panic!("{other:?}"),
    });
    let asked: Vec<[bool; 3]> = asked.collect();
    let all = [true; 3];
    assert_eq!(
        asked,
        [[false; 3], [true, false, false], [true, true, false], all]
    );
}

/// What needs a person comes in several answers.
#[test]
fn the_cursor_begins_at_the_first_row_whatever_is_answered_first() {
    for last_first in [false, true] {
        let mut desk = Desk::new(World::busy(), (80, 24));
        desk.last_first = last_first;
        desk.press(":stuck enter");
        let text = desk.text();
        assert!(text.contains(">  ✖ stuck"), "{text}");
        assert!(text.contains("✖ refused"), "{text}");
    }
}

#[test]
fn the_header_draws_how_fast_it_went() {
    let mut desk = Desk::new(World::busy(), (132, 24));
    for rate in [1.0, 8.0, 4.0] {
        desk.world.snapshot.rate_per_second = rate;
        desk.publish();
    }
    assert!(desk.text().contains("4.0/s ▂█▅"), "{}", desk.text());
}

#[test]
fn p02_any_row_is_explained_and_the_id_of_what_holds_it_is_copied() {
    for (way, words) in [
        (":network enter e", "why network web at prod/RegionOne"),
        (":stuck enter e", "why load balancer lb-shop"),
        ("enter e", "why network web"),
        (":orphans enter e", "why port old-1"),
    ] {
        let mut desk = Desk::new(World::busy(), (80, 24));
        desk.press(way);
        let text = desk.text();
        assert!(text.contains(words), "{way}: {text}");
        assert!(
            text.contains("free the floating IP, or ask its owner"),
            "{text}"
        );
        desk.press("end y");
        assert_eq!(desk.copied, ["7d444840-9dc0-11d1-b245-00000000b10c"]);
        assert!(desk.sent.is_empty());
    }
}

#[test]
fn help_says_what_the_signs_mean_and_how_settings_call_a_key() {
    let mut desk = desk(&[("web", "ACTIVE")]);
    desk.press("? down down");
    assert!(
        desk.text().contains("\"plan_deletion\" in [console] keys"),
        "{}",
        desk.text()
    );
    desk.press("esc");
    desk.press("? / a c c e p t e d enter");
    let text = desk.text();
    for line in ["◌ verifying", "██▓▓░░", "the cloud has accepted it"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("stuck, see"), "{text}");
}

#[test]
fn a_click_goes_to_its_row_and_a_second_one_opens_it() {
    let mut desk = desk(&[("web", "ACTIVE"), ("lab", "ACTIVE"), ("10", "ACTIVE")]);
    let line = |desk: &Desk, word: &str| {
        let text = desk.text();
        let line = text.lines().position(|line| line.contains(word));
        u16::try_from(line.unwrap_or_else(|| panic!("no {word} in\n{text}"))).unwrap()
    };
    let under_cursor = |desk: &Desk| {
        let text = desk.text();
        let row = text.lines().find(|line| line.starts_with('>'));
        row.unwrap_or_default().to_owned()
    };
    let lab = line(&desk, "lab");
    desk.take(Event::Click(lab));
    assert!(under_cursor(&desk).contains("lab"));
    desk.take(Event::Wheel { down: false });
    assert!(under_cursor(&desk).contains("web"));
    desk.take(Event::Wheel { down: true });
    assert!(under_cursor(&desk).contains("10"));
    for nothing in [0, line(&desk, "NAME"), lab + 2, 23, 99] {
        desk.take(Event::Click(nothing));
        assert!(under_cursor(&desk).contains("10"), "line {nothing}");
    }
    desk.take(Event::Click(lab));
    desk.take(Event::Click(lab));
    assert!(desk.text().contains("── network lab ──"), "{}", desk.text());
}

#[test]
fn a_site_that_fails_now_and_then_says_how_often() {
    let mut world = World::busy();
    world.snapshot.sites[0].error_percent = Some(7);
    let mut desk = Desk::new(world, (120, 24));
    let header = |desk: &Desk| desk.text().lines().nth(2).unwrap().to_owned();
    assert!(
        header(&desk).contains("prod/RegionOne 34 ms 16 at a time 7% errors"),
        "{}",
        header(&desk)
    );
    desk.press(":sites enter");
    let text = desk.text();
    assert!(text.contains("7% of the last calls failed"), "{text}");
    desk.take(Event::Resize(90, 24));
    desk.size = (90, 24);
    let header = header(&desk);
    assert!(header.contains("prod/RegionOne 7% errors"), "{header}");
}

#[test]
fn p01_no_click_starts_a_deletion() {
    let mut desk = desk(&[("web", "ACTIVE")]);
    desk.press("D");
    let changes = desk.changes().len();
    for line in 0..24 {
        desk.take(Event::Click(line));
        desk.take(Event::Click(line));
    }
    assert!(desk.text().contains("plan: delete"), "{}", desk.text());
    desk.press("enter");
    for line in 0..24 {
        desk.take(Event::Click(line));
    }
    assert!(desk.text().contains("Type the name"), "{}", desk.text());
    assert_eq!(desk.changes().len(), changes);
}

#[test]
fn a_filter_takes_projects_by_name_and_asks_for_the_names_once() {
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
    world.answers = Some(Box::new(|query| match query {
        Query::Resources(query::Resources {
            kind,
            site: Some(at),
            ..
        }) if kind == "project" => {
            let project = |id: &str, name: &str| {
                let mut row = resource("project", 1, name);
                row.key.id = id.to_owned();
                row
            };
            let listing = SiteListing {
                site: at.clone(),
                rows: vec![project("a1", "shop"), project("b2", "Lab")],
                error: None,
                class: None,
                names: Default::default(),
                at: super::fake::now(),
            };
            Some(Ok(Page::Resources(vec![listing])))
        }
        _ => None,
    }));
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter /");
    desk.press("project=lab enter");
    let text = desk.text();
    assert!(text.contains("net-b2"), "{text}");
    assert!(
        !text.contains("net-a1") && !text.contains("net-c3"),
        "{text}"
    );
    // As it was typed, not as it is meant.
    assert!(text.contains("filter: project=lab "), "{text}");
    desk.press("esc / project=a1,lab enter");
    let text = desk.text();
    assert!(text.contains("net-a1") && text.contains("net-b2"), "{text}");
    let asked = desk.asked.iter();
    let asked = asked.filter(
        |it| matches!(it, Query::Resources(query::Resources { kind, .. }) if kind == "project"),
    );
    assert_eq!(asked.count(), 1, "one cloud, one question");
}

/// These texts, in the order in which they are on the screen.
fn order<'t>(desk: &Desk, all: &[&'t str]) -> Vec<&'t str> {
    let text = desk.text();
    let mut places: Vec<_> = all.iter().map(|it| (text.find(it), *it)).collect();
    assert!(places.iter().all(|(at, _)| at.is_some()), "{all:?}\n{text}");
    places.sort_unstable();
    places.into_iter().map(|(_, it)| it).collect()
}

#[test]
fn every_list_is_sorted_by_any_column_and_numbers_in_names_count_by_size() {
    let mut desk = desk(&[("web-10", "ACTIVE"), ("web-2", "DOWN"), ("web-1", "ACTIVE")]);
    desk.press("s");
    let all = ["web-1", "web-2", "web-10"];
    assert_eq!(names(&desk, &all), all);
    let mut world = World::busy();
    world.deletions.truncate(2);
    for (deletion, name) in world.deletions.iter_mut().zip(["net-10", "net-9"]) {
        deletion.targets[0].name = name.to_owned();
    }
    world.snapshot.deletions.clear();
    world.steps.push(drifted(95, "web"));
    let mut desk = Desk::new(world, (120, 40));
    assert_eq!(order(&desk, &["net-9", "net-10"]), ["net-10", "net-9"]);
    desk.press("s s s");
    assert!(desk.text().contains("WHAT▲"), "{}", desk.text());
    assert!(desk.text().contains("sorted by WHAT"), "{}", desk.text());
    assert_eq!(order(&desk, &["net-9", "net-10"]), ["net-9", "net-10"]);
    desk.press("S");
    assert!(desk.text().contains("WHAT▼"), "{}", desk.text());
    assert_eq!(order(&desk, &["net-9", "net-10"]), ["net-10", "net-9"]);
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
        desk.press(&format!(":{word} enter s"));
        assert!(desk.text().contains('▲'), "{word}\n{}", desk.text());
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
    let mut desk = desk(&rows);
    for (filter, wanted) in [
        ("/~^web-[0-9]+$", vec!["web-1", "web-10"]),
        ("/!~^web-[0-9]+$", vec!["my-web-2"]),
        ("/status:active", vec!["web-1", "my-web-2"]),
        ("/!status:active", vec!["web-10"]),
        ("/name:web-1 status:down", vec!["web-10"]),
        ("/state:active name:my", vec!["my-web-2"]),
        // It is not typed to its end, so it hides nothing.
        ("/~^web-[", all.to_vec()),
    ] {
        desk.type_line(filter);
        assert_eq!(names(&desk, &all), wanted, "{filter}");
        desk.press("esc");
    }
    desk.type_line("/~^web-[");
    assert!(
        desk.text()
            .contains("this regular expression is not complete"),
        "{}",
        desk.text()
    );
}

#[test]
fn relations_lead_on_and_back() {
    let mut world = World::busy();
    world.answers = Some(Box::new(|query| {
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
        let is_port = target.kind == "port";
        let relations = match is_port {
            true => Vec::new(),
            false => vec![
                relation(RelationKind::UsedBy, Some(used), "port on network web"),
                Relation::deleted_by(&deletion),
                relation(RelationKind::ProtectedBy, None, "the rule tag keep"),
            ],
        };
        Some(Ok(Page::Explain(Box::new(Explanation {
            target: fake::target(&target.kind, 1, "web"),
            deletion: None,
            step: None,
            tombstone: None,
            lines: vec![format!("this is a {}", target.kind)],
            blockers: Vec::new(),
            refused: Vec::new(),
            next_action: String::new(),
            relations,
        }))))
    }));
    let mut desk = Desk::new(world, (120, 40));
    desk.press(":network enter e");
    for words in [
        "used by port server-42 (port on network web)",
        "in deletion 00000001, which is running",
        "protected: the rule tag keep",
    ] {
        assert!(desk.text().contains(words), "{}", desk.text());
    }
    desk.press("enter");
    assert!(
        desk.text().contains("leads to no resource"),
        "{}",
        desk.text()
    );
    desk.press("down y enter");
    assert_eq!(desk.copied, [id(42)]);
    assert!(
        desk.text().contains("why port server-42"),
        "{}",
        desk.text()
    );
    assert!(desk.text().contains("this is a port"), "{}", desk.text());
    desk.press("[ down enter");
    assert!(
        desk.text().contains("── deletion 00000001"),
        "{}",
        desk.text()
    );
    desk.press("[ [");
    assert!(desk.text().contains("── network"), "{}", desk.text());
    assert!(desk.changes().is_empty());
}

#[test]
fn a_key_that_does_nothing_here_says_so() {
    let mut desk = desk(&[("web", "ACTIVE")]);
    desk.press("enter");
    for (key, told) in [
        ("D", "only in a list of resources"),
        ("x", "only on a plan and in :tombstones"),
        ("e", "but in :home and 6 other places"),
    ] {
        desk.press(key);
        let told = format!("{key} does nothing here, {told}; ? shows the keys");
        assert!(desk.text().contains(&told), "{}", desk.text());
    }
    desk.press("Z");
    assert!(
        desk.text()
            .contains("Z does nothing here; ? shows the keys"),
        "{}",
        desk.text()
    );
    desk.take(Event::Key(KeyEvent::new(
        KeyCode::Char('e'),
        Modifiers::ALT,
    )));
    let text = desk.text();
    assert!(text.contains("alt-e does nothing here; ?"), "{text}");
    // It is no message that `:events` would keep.
    desk.press(":events enter");
    assert!(!desk.text().contains("does nothing"), "{}", desk.text());
}
