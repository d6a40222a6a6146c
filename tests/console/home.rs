//! The first screen.

use chrono::TimeDelta;
use gone::control::{Command, ControlError, Page, Query, query};
use gone::domain::last_day::LastDay;
use gone::domain::last_hour::{LastHour, minute_end};
use gone::domain::model::DeletionState;
use gone::frontends::console::ConsoleOptions;

use super::fake::{Desk, World, deletion, now, options, resource};
use super::pictures::{shot, styles};

/// One deletion runs, of another all that is left is blocked; a step is stuck, one site is down.
fn morning() -> World {
    let mut world = World::busy();
    let mut blocked = deletion(5, DeletionState::Running, 2, 4);
    blocked.counts.running = 0;
    blocked.counts.waiting = 1;
    blocked.counts.blocked = 1;
    blocked.rate_per_second = 0.0;
    blocked.next_attempt_at = Some(now() + TimeDelta::seconds(90));
    world.snapshot.deletions.push(blocked);
    let stuck = world.steps.iter().find(|step| step.id == 90);
    world.snapshot.attention = stuck.cloned().into_iter().collect();
    world.deletions[1].finished_at = Some(now() - TimeDelta::hours(3));
    world
}

fn first(world: World, size: (u16, u16)) -> Desk {
    let options = ConsoleOptions {
        start: None,
        ..options()
    };
    Desk::with(world, size, options)
}

#[test]
fn the_first_screen_at_all_sizes() {
    let mut all = String::new();
    for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        all.push_str(&first(morning(), size).text());
        all.push('\n');
    }
    for no_color in [false, true] {
        let options = ConsoleOptions {
            start: None,
            no_color,
            ..options()
        };
        let desk = Desk::with(morning(), (80, 24), options);
        all.push_str(if no_color { "mono\n" } else { "colours\n" });
        all.push_str(&styles(&desk));
    }
    shot("home", &all);
}

#[test]
fn at_rest_it_says_how_to_begin() {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        all.push_str(&first(World::empty(), size).text());
        all.push('\n');
    }
    shot("home_at_rest", &all);
}

#[test]
fn story_15_the_first_screen_says_what_needs_whom_and_what_runs() {
    for size in [(80, 24), (200, 60)] {
        let desk = first(morning(), size);
        let text = desk.text();
        for words in [
            "needs you",
            "1 stuck, 1 refused",
            "✖ stuck",
            "load balancer lb-shop",
            "r retry",
            "running",
            "2 deletions, 1 blocked",
            "120/536",
            "1-6 min",
            "‖ blocked",
            "2/4",
            "09:31:30",
            "retried",
            "next at 09:31:30",
            "1 of 2 reachable",
            "34 ms",
            "causes",
            "last 24 h",
            "1 deletion ended, 12 resources gone",
        ] {
            assert!(text.contains(words), "{size:?}: no {words:?} in\n{text}");
        }
    }
}

#[test]
fn its_rows_take_the_keys_that_it_names() {
    let mut desk = first(morning(), (120, 40));
    desk.press("down");
    assert!(desk.changes().is_empty());
    desk.press("r");
    let step_id = 90;
    assert!(
        matches!(desk.sent[..], [Command::RetryStep { step_id: id }] if id == step_id),
        "{:?}",
        desk.sent
    );
    desk.press("enter");
    assert!(desk.text().contains("in deletion"), "{}", desk.text());
    desk.press("esc home enter");
    assert!(desk.text().contains("── stuck"), "{}", desk.text());
    desk.press("esc esc esc");
    assert!(desk.text().contains("── home"), "{}", desk.text());
}

#[test]
fn it_follows_the_engine_without_a_query_for_what_the_snapshot_has() {
    let mut desk = first(morning(), (80, 24));
    let asked = desk.asked.len();
    desk.world.snapshot.deletions.remove(1);
    desk.publish();
    assert!(!desk.text().contains("‖ blocked"), "{}", desk.text());
    let before = desk.asked.len();
    assert!(before - asked <= 5, "one query for each other part");
    for _ in 0..5 {
        desk.publish();
    }
    assert_eq!(desk.asked.len(), before, "nothing has moved");
    assert!(!desk.state.wants_tick());
}

#[test]
fn from_160_columns_on_the_detail_is_beside_the_table() {
    let detail = |size| {
        let mut desk = first(morning(), size);
        desk.press("down");
        let text = desk.text();
        let line = text
            .lines()
            .find(|line| line.contains("Load Balancer is immutable"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(detail((200, 60)).contains('│'));
    assert!(!detail((159, 60)).contains('│'));
}

/// Nothing is under way, and no site was called in the last hour; one of the two sites cannot be listed.
fn at_rest() -> World {
    let busy = World::busy();
    let mut world = World::empty();
    let until = minute_end(now());
    world.answers = Some(Box::new(move |query| match query {
        Query::LastHour(_) => Some(Ok(Page::LastHour(LastHour {
            until,
            minutes: Vec::new(),
        }))),
        _ => None,
    }));
    world.snapshot.sites = busy.snapshot.sites;
    world.listings = busy.listings;
    let balancers = (10..1_213).map(|n| resource("load_balancer", n, "lb"));
    world.listings[0].rows.extend(balancers);
    world
}

fn counts(desk: &Desk) -> Vec<&str> {
    let counts = desk.asked.iter().filter_map(|query| match query {
        Query::ResourceCounts(query::ResourceCounts { kind }) => Some(kind.as_str()),
        _ => None,
    });
    counts.collect()
}

#[test]
fn at_rest_it_counts_the_resources_of_each_kind_and_site() {
    let mut desk = first(at_rest(), (120, 40));
    assert!(desk.text().contains("resources"), "{}", desk.text());
    assert!(desk.text().contains("not counted yet"), "{}", desk.text());
    desk.pass(1);
    let text = desk.text();
    assert!(text.contains("1 of 3 kinds counted"), "{text}");
    desk.pass(4);
    assert_eq!(counts(&desk), ["network", "floating_ip", "load_balancer"]);
    for words in [
        "1,208 resources of all kinds",
        "no complete counts from prod/RegionTwo",
        "≥ 1,203",
        "load balancer",
        "prod/RegionOne 1,203 · prod/RegionTwo failed",
        "≥ 5",
    ] {
        assert!(
            desk.text().contains(words),
            "no {words:?} in\n{}",
            desk.text()
        );
    }
    // It knows of no floating IP, and says nothing of them.
    assert!(!desk.text().contains("floating IP"), "{}", desk.text());
    desk.press("end up");
    let why = "prod/RegionTwo: connection refused";
    assert!(desk.text().contains(why), "{}", desk.text());
    desk.press("enter");
    assert!(desk.text().contains("── load balancer"), "{}", desk.text());
}

#[test]
fn counts_go_on_at_the_pace_of_lists_and_write_nothing_new() {
    let mut desk = first(at_rest(), (120, 40));
    desk.pass(10);
    let (text, before) = (desk.text(), counts(&desk).len());
    for _ in 0..60 {
        desk.pass(1);
        assert_eq!(desk.text(), text);
    }
    let asked = counts(&desk).len() - before;
    assert!((10..=12).contains(&asked), "{asked} in a minute");
    // A slow cloud is asked more rarely, and never twice at a time.
    desk.withholds = |query| matches!(query, Query::ResourceCounts(_));
    desk.pass(60);
    assert_eq!(desk.withheld.len(), 1);
    desk.answer_withheld(0);
    let before = counts(&desk).len();
    desk.pass(60);
    assert_eq!(counts(&desk).len(), before);
}

#[test]
fn a_count_that_fails_says_so_and_is_counted_again() {
    let mut world = at_rest();
    world.listings.remove(1);
    world.answers = Some(Box::new(|query| match query {
        Query::ResourceCounts(counts) if counts.kind == "network" => {
            let message = "the engine is busy".to_owned();
            Some(Err(ControlError::Unreachable { message }))
        }
        _ => None,
    }));
    let mut desk = first(world, (120, 40));
    desk.pass(5);
    let text = desk.text();
    let line = text.lines().find(|line| line.contains(" network "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("failed"), "{line}");
    assert!(line.contains("the engine is busy"), "{line}");
    desk.world.answers = None;
    desk.pass(20);
    let text = desk.text();
    assert!(!text.contains("failed") && !text.contains("busy"), "{text}");
    assert!(text.contains("1,208 resources of all kinds"), "{text}");
}

#[test]
fn nothing_is_counted_while_something_is_under_way() {
    let mut desk = first(morning(), (120, 40));
    desk.pass(30);
    assert!(counts(&desk).is_empty());
    assert!(!desk.text().contains("resources  "), "{}", desk.text());
}

#[test]
fn the_last_day_is_counted_by_the_engine_and_says_so_until_it_is() {
    for (answer, words) in [
        (None, "last 24 h       not counted yet"),
        (Some((0, 0)), "last 24 h       no deletion ended"),
        (
            Some((1_204, 60_000)),
            "last 24 h       1,204 deletions ended, 60,000 resources gone",
        ),
    ] {
        let mut world = World::busy();
        world.answers = Some(Box::new(move |query| match (query, answer) {
            (Query::LastDay(_), Some((deletions, gone))) => {
                Some(Ok(Page::LastDay(LastDay { deletions, gone })))
            }
            (Query::LastDay(_), None) => {
                let message = "the engine is busy".to_owned();
                Some(Err(ControlError::Unreachable { message }))
            }
            _ => None,
        }));
        let desk = first(world, (120, 40));
        assert!(desk.text().contains(words), "{}", desk.text());
    }
}
