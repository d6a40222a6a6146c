//! The first screen, `:home`.

use chrono::TimeDelta;
use gone::control::{Command, Page, Query, query};
use gone::domain::last_day::LastDay;
use gone::domain::last_hour::{LastHour, minute_end};
use gone::domain::model::DeletionState;
use gone::frontends::console::ConsoleOptions;

use super::fake::{TestConsole, World, deletion, now, options, resource, unreachable};
use super::pictures::{assert_screens, styles};

/// One deletion is running, and another has only blocked and waiting steps left. One step is stuck, and one site is
/// unreachable.
fn busy() -> World {
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

fn first(world: World, size: (u16, u16)) -> TestConsole {
    let options = ConsoleOptions {
        start: None,
        ..options()
    };
    TestConsole::with(world, size, options)
}

#[test]
fn the_first_screen_at_all_sizes() {
    let mut all = String::new();
    for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        all.push_str(&first(busy(), size).text());
        all.push('\n');
    }
    for no_color in [false, true] {
        let options = ConsoleOptions {
            start: None,
            no_color,
            ..options()
        };
        let console = TestConsole::with(busy(), (80, 24), options);
        all.push_str(if no_color { "mono\n" } else { "colours\n" });
        all.push_str(&styles(&console));
    }
    assert_screens("home", &all);
}

#[test]
fn an_idle_first_screen_says_how_to_begin() {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        all.push_str(&first(World::empty(), size).text());
        all.push('\n');
    }
    assert_screens("home_at_rest", &all);
}

#[test]
fn story_15_the_first_screen_shows_what_needs_a_person_and_what_runs() {
    for size in [(80, 24), (200, 60)] {
        let console = first(busy(), size);
        let text = console.text();
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
fn rows_of_the_first_screen_take_the_keys_retry_and_enter() {
    let mut console = first(busy(), (120, 40));
    console.press("down");
    assert!(console.changes().is_empty());
    console.press("r");
    let step_id = 90;
    assert!(
        matches!(console.sent[..], [Command::RetryStep { step_id: id }] if id == step_id),
        "{:?}",
        console.sent
    );
    console.press("enter");
    console.assert_shows(["in deletion"]);
    console.press("esc home enter");
    console.assert_shows(["── stuck"]);
    console.press("esc esc esc");
    console.assert_shows(["── home"]);
}

#[test]
fn the_first_screen_queries_only_what_the_snapshot_lacks() {
    let mut console = first(busy(), (80, 24));
    let at_start = console.queries.len();
    console.world.snapshot.deletions.remove(1);
    console.publish();
    console.assert_hides(["‖ blocked"]);
    let before = console.queries.len();
    assert!(
        before - at_start <= 5,
        "one query for each part that the snapshot lacks"
    );
    for _ in 0..5 {
        console.publish();
    }
    assert_eq!(console.queries.len(), before, "nothing has changed");
    assert!(!console.state.wants_tick());
}

#[test]
fn the_detail_is_beside_the_table_from_160_columns_on() {
    let detail = |size| {
        let mut console = first(busy(), size);
        console.press("down");
        console.line("Load Balancer is immutable")
    };
    assert!(detail((200, 60)).contains('│'));
    assert!(!detail((159, 60)).contains('│'));
}

/// No deletion is under way, and no site was called in the last hour. One of the two sites cannot be listed.
fn idle() -> World {
    let busy = World::busy();
    let mut world = World::empty();
    let until = minute_end(now());
    world.override_answer = Some(Box::new(move |query| match query {
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

fn counts(console: &TestConsole) -> Vec<&str> {
    let counts = console.queries.iter().filter_map(|query| match query {
        Query::ResourceCounts(query::ResourceCounts { kind }) => Some(kind.as_str()),
        _ => None,
    });
    counts.collect()
}

#[test]
fn an_idle_first_screen_counts_the_resources_of_each_kind_and_site() {
    let mut console = first(idle(), (120, 40));
    console.assert_shows(["resources", "not counted yet"]);
    console.advance(1);
    console.assert_shows(["1 of 3 kinds counted"]);
    console.advance(4);
    assert_eq!(
        counts(&console),
        ["network", "floating_ip", "load_balancer"]
    );
    console.assert_shows([
        "1,208 resources of all kinds",
        "no complete counts from prod/RegionTwo",
        "≥ 1,203",
        "load balancer",
        "prod/RegionOne 1,203 · prod/RegionTwo failed",
        "≥ 5",
    ]);
    // No floating IP exists, so that kind has no row.
    console.assert_hides(["floating IP"]);
    console.press("end up");
    console.assert_shows(["prod/RegionTwo: connection refused"]);
    console.press("enter");
    console.assert_shows(["── load balancer"]);
}

#[test]
fn resources_are_counted_again_as_often_as_lists_without_changing_the_screen() {
    let mut console = first(idle(), (120, 40));
    console.advance(10);
    let (text, before) = (console.text(), counts(&console).len());
    for _ in 0..60 {
        console.advance(1);
        assert_eq!(console.text(), text);
    }
    let repeated = counts(&console).len() - before;
    assert!((10..=12).contains(&repeated), "{repeated} in a minute");
    // A slow cloud is queried less often, and with one query at a time.
    console.withholds = |query| matches!(query, Query::ResourceCounts(_));
    console.advance(60);
    assert_eq!(console.withheld_answers.len(), 1);
    console.answer_withheld(0);
    let before = counts(&console).len();
    console.advance(60);
    assert_eq!(counts(&console).len(), before);
}

#[test]
fn a_failed_count_shows_its_error_and_is_repeated() {
    let mut world = idle();
    world.listings.remove(1);
    world.override_answer = Some(Box::new(|query| match query {
        Query::ResourceCounts(counts) if counts.kind == "network" => {
            Some(Err(unreachable("the engine is busy")))
        }
        _ => None,
    }));
    let mut console = first(world, (120, 40));
    console.advance(5);
    let line = console.line(" network ");
    assert!(line.contains("failed"), "{line}");
    assert!(line.contains("the engine is busy"), "{line}");
    console.world.override_answer = None;
    console.advance(20);
    console.assert_hides(["failed", "busy"]);
    console.assert_shows(["1,208 resources of all kinds"]);
}

#[test]
fn resources_are_not_counted_while_a_deletion_is_under_way() {
    let mut console = first(busy(), (120, 40));
    console.advance(30);
    assert!(counts(&console).is_empty());
    console.assert_hides(["resources  "]);
}

#[test]
fn the_first_screen_shows_the_engines_count_of_the_last_day_or_that_none_came_yet() {
    for (answer, words) in [
        (None, "last 24 h       not counted yet"),
        (Some((0, 0)), "last 24 h       no deletion ended"),
        (
            Some((1_204, 60_000)),
            "last 24 h       1,204 deletions ended, 60,000 resources gone",
        ),
    ] {
        let mut world = World::busy();
        world.override_answer = Some(Box::new(move |query| match (query, answer) {
            (Query::LastDay(_), Some((deletions, gone))) => {
                Some(Ok(Page::LastDay(LastDay { deletions, gone })))
            }
            (Query::LastDay(_), None) => Some(Err(unreachable("the engine is busy"))),
            _ => None,
        }));
        let console = first(world, (120, 40));
        console.assert_shows([words]);
    }
}
