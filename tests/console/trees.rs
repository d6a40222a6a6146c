//! The shapes that a cascade can have.

use std::time::{Duration, Instant};

use gone::control::{Page, Query, SiteListing, query};
use gone::domain::model::{Counts, DeletionState, EventKind, PlanStep, Step, StepState};
use gone::frontends::console::{ConsoleOptions, Event};

use super::fake::{Desk, World, deletion, options, plan_step, resource, step};

fn planned(steps: Vec<PlanStep>) -> String {
    let mut world = World::busy();
    if let Ok(plan) = &mut world.plan {
        plan.steps = steps;
    }
    let mut desk = Desk::new(world, (80, 40));
    desk.press(":network enter D");
    desk.text()
}

#[test]
fn steps_that_wait_in_a_circle_are_shown_without_an_order() {
    let text = planned(vec![
        plan_step(0, "port", "a", &[1]),
        plan_step(1, "port", "b", &[0]),
        plan_step(2, "network", "c", &[7]),
    ]);
    for name in ["port a", "port b", "network c"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.contains("       1 network c"), "{text}");
}

#[test]
fn what_two_wait_for_stands_once_below_the_deeper() {
    let text = planned(vec![
        plan_step(0, "port", "both", &[]),
        plan_step(1, "subnet", "v4", &[0]),
        plan_step(2, "network", "web", &[0, 1]),
    ]);
    assert_eq!(text.matches("port both").count(), 1, "{text}");
    let line = |what: &str| text.lines().position(|l| l.contains(what)).unwrap();
    assert!(line("network web  ") < line("subnet v4") && line("subnet v4") < line("port both"));
    assert!(
        text.contains("      3 network web") && text.contains("1   └ port both"),
        "{text}"
    );
}

#[test]
fn a_chain_of_ten_thousand_is_laid_out_without_recursion() {
    let start = Instant::now();
    let chain = (0..10_000).map(|n: u32| {
        let before: Vec<u32> = n.checked_sub(1).into_iter().collect();
        plan_step(n, "subnet_pool", "", &before)
    });
    let text = planned(chain.collect());
    assert!(text.contains("10000 subnet pool"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_needs_a_person_is_told_by_the_folded_line_and_stands_first_in_it() {
    let mut world = World::busy();
    world.steps = (1..=20)
        .map(|n| step(n, "port", &format!("p{n}"), StepState::Gone, &[]))
        .collect();
    world.steps[13].state = StepState::Stuck;
    world.steps[17].state = StepState::Blocked;
    let mut desk = Desk::new(world, (80, 40));
    desk.press("enter home");
    assert!(desk.text().contains("✖ 1 ‖ 1"), "{}", desk.text());
    desk.press("enter");
    let text = desk.text();
    let rows: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("─") || l.contains("port p"))
        .collect();
    let ports: Vec<&&str> = rows.iter().filter(|l| l.contains("port p")).collect();
    assert!(
        ports[0].contains("p14") && ports[1].contains("p18"),
        "{text}"
    );
}

/// Networks, each with a subnet and a port below it.
fn networks(count: i64) -> Vec<Step> {
    let mut steps = Vec::new();
    for n in 0..count {
        let first = 1000 + 3 * n;
        let port = format!("port-{n}");
        steps.push(step(first, "port", &port, StepState::Gone, &[]));
        let subnet = format!("subnet-{n}");
        steps.push(step(
            first + 1,
            "subnet",
            &subnet,
            StepState::Waiting,
            &[first],
        ));
        let network = format!("network-{n}");
        let before = [first, first + 1];
        steps.push(step(
            first + 2,
            "network",
            &network,
            StepState::Waiting,
            &before,
        ));
    }
    steps
}

#[test]
fn a_long_branch_is_read_only_where_someone_looks() {
    let mut world = World::busy();
    world.steps = super::fake::steps(5_000);
    let mut desk = Desk::new(world, (80, 24));
    desk.press("enter home down down enter");
    assert!(desk.text().contains("▾ port ×4,990"), "{}", desk.text());
    let first: Vec<&str> = vec!["├ port server-1 ", "├ port server-4 "];
    assert!(
        first.iter().all(|row| desk.text().contains(row)),
        "{}",
        desk.text()
    );
    desk.asked.clear();
    desk.press("end up up up up");
    // The last ones are those that have ended, by their ids.
    assert!(
        desk.text().contains("└ port server-4998"),
        "{}",
        desk.text()
    );
    for _ in 0..30 {
        desk.press("pgup");
        assert!(!desk.text().contains("├ …"), "{}", desk.text());
    }
    let limits = desk.asked.iter().map(|query| match query {
        Query::BranchSteps(query::BranchSteps { limit, .. }) => *limit,
        other => panic!("{other:?}"),
    });
    let limits: Vec<usize> = limits.collect();
    assert!(
        limits.len() < 6 && limits.iter().all(|limit| *limit <= 500),
        "{limits:?}"
    );
}

#[test]
fn one_of_many_opens_in_its_place_and_stays_open_where_it_goes() {
    let mut world = World::busy();
    world.steps = networks(8);
    let mut desk = Desk::new(world, (80, 30));
    desk.press("enter");
    assert!(
        desk.text().contains("> ▸ network ×8") || desk.text().contains(">  ▸ network ×8"),
        "{}",
        desk.text()
    );
    desk.press("enter down down down right");
    let rows = |desk: &Desk| -> Vec<String> {
        let text = desk.text();
        let rows = text.lines().filter(|line| {
            line.contains(['├', '└']) && (line.contains("-0 ") || line.contains("-2 "))
        });
        rows.map(|line| {
            line.trim_start_matches([' ', '>'])
                .chars()
                .take(24)
                .collect::<String>()
                .trim()
                .to_owned()
        })
        .collect()
    };
    assert_eq!(
        rows(&desk),
        [
            "├ ▸ network network-0",
            "├ network network-2",
            "│ └ subnet subnet-2",
            "│   └ port port-2"
        ]
    );
    // It ends, and stands behind those that have not: with what is below it.
    desk.world.steps[8].state = StepState::Gone;
    desk.world.deletions[0].counts.gone += 1;
    desk.world.snapshot.deletions = vec![desk.world.deletions[0].clone()];
    desk.publish();
    assert_eq!(
        rows(&desk),
        [
            "├ ▸ network network-0",
            "└ network network-2",
            "└ subnet subnet-2",
            "└ port port-2"
        ]
    );
    assert!(
        desk.text().contains(">  └ network network-2"),
        "the cursor is on its row\n{}",
        desk.text()
    );
    desk.press("left");
    assert_eq!(
        rows(&desk),
        ["├ ▸ network network-0", "└ ▸ network network-2"]
    );
    desk.press("left");
    assert!(desk.text().contains(">  ▸ network ×8"), "{}", desk.text());
}

#[test]
fn a_refresh_is_not_forgotten_while_more_of_the_tree_is_opened() {
    let mut world = World::busy();
    world.steps = networks(8);
    let mut desk = Desk::new(world, (80, 30));
    desk.press("enter enter down");
    desk.world.steps[23].state = StepState::Gone;
    let gone = serde_json::json!({"state": "gone"});
    let mut event = super::fake::event(6, EventKind::StepState, "network-7 is gone", gone);
    event.step_id = Some(desk.world.steps[23].id);
    desk.world.events.push(event);
    desk.follow();
    // Both are due at once: what this opens, and the numbers.
    desk.now += chrono::TimeDelta::seconds(6);
    let now = desk.now;
    desk.take(Event::Tick(now));
    assert!(desk.text().contains("· 1/8"), "{}", desk.text());
    desk.world.steps[20].state = StepState::Gone;
    let mut event = desk.world.events.pop().unwrap();
    event.seq = 7;
    event.step_id = Some(desk.world.steps[20].id);
    desk.world.events.push(event);
    desk.follow();
    // Time passes with an answer to somebody else's question, which wakes nobody.
    desk.now += chrono::TimeDelta::seconds(6);
    desk.take(Event::Answer {
        ticket: u64::MAX,
        answer: desk.world.answer(&Query::Kinds(query::Kinds {})),
        now: desk.now,
    });
    desk.press("right");
    assert!(desk.text().contains("└ subnet subnet-0"), "{}", desk.text());
    let now = desk.now;
    desk.take(Event::Tick(now));
    assert!(desk.text().contains("· 2/8"), "{}", desk.text());
}

#[test]
fn a_filter_asks_the_engine_and_says_how_many_of_all_fit() {
    let mut world = World::busy();
    world.steps = super::fake::steps(5_000);
    let mut desk = Desk::new(world, (80, 24));
    desk.press("enter /server-499 enter");
    let text = desk.text();
    assert!(text.contains("11 of 536 steps fit"), "{text}");
    assert!(
        text.contains("port server-499 ") && text.contains("port server-4990"),
        "{text}"
    );
    desk.press("/ ctrl-u port enter");
    let text = desk.text();
    assert!(text.contains("4,990 of 536 steps fit"), "{text}");
    // More are asked for at the end of what is there.
    desk.press("end down down down");
    assert!(desk.text().contains("port server-501 "), "{}", desk.text());
    desk.press("esc");
    assert!(desk.text().contains("▸ port ×4,990"), "{}", desk.text());
    desk.press("/nowhere enter");
    assert!(
        desk.text().contains("No step matches \"nowhere\"."),
        "{}",
        desk.text()
    );
}

#[test]
fn what_needs_a_person_is_not_counted_by_looking_through_it() {
    let mut world = World::busy();
    world.steps = (1..=700)
        .map(|n| step(n, "port", &format!("p{n}"), StepState::Stuck, &[]))
        .collect();
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":stuck enter");
    // Besides them there is one that was refused.
    assert!(desk.text().contains("── stuck 501+"), "{}", desk.text());
    let counts = |query: &&Query| matches!(query, Query::StepCount(_));
    assert_eq!(desk.asked.iter().filter(counts).count(), 0);
    desk.press("end");
    desk.publish();
    assert!(desk.text().contains("── stuck 701"), "{}", desk.text());
}

#[test]
fn a_chart_draws_what_ran_when_and_says_what_each_waited_for() {
    let row = |desk: &Desk, word: &str| {
        let text = desk.text();
        let row = text.lines().find(|line| line.contains(word));
        row.unwrap_or_else(|| panic!("no {word} in\n{text}"))
            .to_owned()
    };
    for (width, ascii) in [
        (40, false),
        (80, false),
        (80, true),
        (120, false),
        (300, false),
    ] {
        let look = ConsoleOptions { ascii, ..options() };
        let mut desk = Desk::with(World::busy(), (width, 24), look);
        desk.press(":deletions enter t");
        let signs = match ascii {
            true => ['-', '+', '#', 'x', '.'],
            false => ['·', '▓', '█', '✖', '░'],
        };
        let [waits, sent, gone, refused, rests] = signs;
        let port = row(&desk, ">  port");
        // On a narrow screen what was only sent stands behind what went.
        assert!(port.contains(gone), "{port}");
        assert!(port.contains(sent) || width == 40, "{port}");
        let interface = row(&desk, "detach rout");
        for sign in [waits, refused, rests] {
            assert!(interface.contains(sign), "{sign} in {interface}");
        }
        // To the last column of the screen.
        let network = row(&desk, "   network");
        let end = network.chars().count();
        assert_eq!(end, usize::from(width) - 1, "{network}");
    }
    let mut desk = Desk::new(World::busy(), (80, 24));
    desk.press(":deletions enter t down");
    let text = desk.text();
    assert!(
        text.contains("the last that it waited for, port web-p119"),
        "{text}"
    );
    desk.press("down");
    let text = desk.text();
    assert!(text.contains("it waits for router interface r1"), "{text}");
}

#[test]
fn the_engine_is_asked_for_projects_by_their_ids() {
    let mut world = World::busy();
    world.answers = Some(Box::new(|query| match query {
        Query::Resources(query::Resources { kind, .. }) if kind == "project" => {
            let mut row = resource("project", 1, "shop");
            row.key.id = "a1".to_owned();
            let listing = SiteListing {
                site: row.key.site.clone(),
                rows: vec![row],
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
    desk.press(":deletions enter / project=shop enter");
    desk.press("esc enter / project=shop enter");
    let last = desk.asked.iter().rev().find_map(|query| match query {
        Query::Steps(query::Steps { filter, .. }) => Some(filter.as_str()),
        _ => None,
    });
    assert_eq!(last, Some("project=shop,a1"));
}

#[test]
fn the_collectors_schedule_is_drawn_over_what_is_blocked() {
    for ascii in [false, true] {
        let look = ConsoleOptions { ascii, ..options() };
        let mut desk = Desk::with(World::busy(), (80, 24), look);
        desk.press(":gc enter");
        let text = desk.text();
        let (low, high) = if ascii { ('_', '#') } else { ('▁', '█') };
        let plot = text.lines().find(|line| line.contains(high)).unwrap();
        let axis = text.lines().find(|line| line.contains("10s  30s")).unwrap();
        let at = |line: &str, column: &str| line[..line.find(column).unwrap()].chars().count();
        assert_eq!(at(plot, &high.to_string()), at(axis, "2m"), "{text}");
        assert_eq!(at(plot, &low.to_string()), at(axis, "30m"), "{text}");
        assert!(text.contains("1 now"), "{text}");
    }
}

/// The first deletion is cancelled: 22 of its resources are gone, and 579 still exist.
fn cancelled() -> World {
    let mut world = World::busy();
    world.deletions[0] = deletion(1, DeletionState::Cancelled, 22, 601);
    world.deletions[0].counts = Counts {
        gone: 22,
        skipped: 579,
        total: 601,
        ..Counts::default()
    };
    world.snapshot.deletions.clear();
    let state = |n| {
        if n <= 22 {
            StepState::Gone
        } else {
            StepState::Skipped
        }
    };
    let ids = (1..=89).chain(100..=611);
    let steps = ids.zip(1..);
    world.steps = steps
        .map(|(id, n)| step(id, "port", &format!("p{n}"), state(n), &[]))
        .collect();
    world
}

#[test]
fn p09_what_was_cancelled_before_it_was_sent_is_not_shown_as_deleted() {
    let mut desk = Desk::new(cancelled(), (80, 24));
    for (keys, places) in [("", 1), ("enter", 2)] {
        desk.press(keys);
        let text = desk.text();
        assert!(!text.contains("601/601"), "{text}");
        let lines = text.lines().filter(|line| line.contains("22/601"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), places, "{text}");
        assert!(!lines.concat().contains('█'), "{text}");
    }
}

#[test]
fn the_tree_of_a_cancelled_deletion_shows_how_its_last_call_ends() {
    let mut world = cancelled();
    let mut last = step(1, "port", "p1", StepState::Verifying, &[]);
    std::mem::swap(&mut last, &mut world.steps[0]);
    world.deletions[0].counts.gone = 21;
    world.deletions[0].counts.verifying = 1;
    world.snapshot.steps = world.deletions[0].counts;
    let mut desk = Desk::new(world, (80, 24));
    desk.press("enter");
    assert!(desk.text().contains("21/601"), "{}", desk.text());
    // Nothing is under way any more once it has ended.
    desk.world.steps[0] = last;
    desk.world.deletions[0].counts.gone = 22;
    desk.world.deletions[0].counts.verifying = 0;
    desk.world.snapshot.steps = desk.world.deletions[0].counts;
    desk.publish();
    let text = desk.text();
    assert!(
        text.contains("22/601") && !text.contains("21/601"),
        "{text}"
    );
}
