//! The tree of a plan or of a deletion, its chart, and other panes of steps.

use std::time::{Duration, Instant};

use gone::control::{ControlError, Page, Query, query};
use gone::domain::model::{Counts, DeletionState, EventKind, PlanStep, Step, StepState};
use gone::frontends::console::{ConsoleOptions, Event};

use super::fake::{TestConsole, World, deletion, listing, options, plan_step, project, step};

/// Returns the screen of a plan with these steps.
fn planned(steps: Vec<PlanStep>) -> String {
    let mut world = World::busy();
    if let Ok(plan) = &mut world.plan {
        plan.steps = steps;
    }
    TestConsole::new(world, (80, 40))
        .after(":network enter D")
        .text()
}

#[test]
fn steps_that_wait_for_each_other_in_a_cycle_are_shown() {
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
fn a_step_that_two_others_wait_for_is_shown_once_below_the_deeper_one() {
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
fn a_chain_of_ten_thousand_steps_is_laid_out_without_recursion() {
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
fn a_folded_row_counts_its_stuck_and_blocked_steps_and_lists_them_first() {
    let mut world = World::busy();
    world.steps = (1..=20)
        .map(|n| step(n, "port", &format!("p{n}"), StepState::Gone, &[]))
        .collect();
    world.steps[13].state = StepState::Stuck;
    world.steps[17].state = StepState::Blocked;
    let mut console = TestConsole::new(world, (80, 40)).after("enter home");
    console.assert_shows(["✖ 1 ‖ 1"]);
    console.press("enter");
    let text = console.text();
    let ports: Vec<&str> = text.lines().filter(|l| l.contains("port p")).collect();
    assert!(
        ports[0].contains("p14") && ports[1].contains("p18"),
        "{text}"
    );
}

/// The steps of `count` networks, each with a subnet and a port.
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
fn a_long_branch_is_read_only_around_the_shown_rows() {
    let mut world = World::busy();
    world.steps = super::fake::steps(5_000);
    let mut console = TestConsole::new(world, (80, 24)).after("enter home down down enter");
    console.assert_shows(["▾ port ×4,990", "├ port server-1 ", "├ port server-4 "]);
    console.queries.clear();
    console.press("end up up up up");
    // Steps that have ended are last, ordered by their ids.
    console.assert_shows(["└ port server-4998"]);
    for _ in 0..30 {
        console.press("pgup");
        console.assert_hides(["├ …"]);
    }
    let limits = console.queries.iter().map(|query| match query {
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
fn a_row_of_a_branch_opens_in_place_and_stays_open_after_it_moves() {
    let mut world = World::busy();
    world.steps = networks(8);
    let mut console = TestConsole::new(world, (80, 30)).after("enter");
    assert!(console.row().contains("▸ network ×8"));
    console.press("enter down down down right");
    let rows = |console: &TestConsole| -> Vec<String> {
        let text = console.text();
        let rows = text.lines().filter(|line| {
            line.contains(['├', '└']) && (line.contains("-0 ") || line.contains("-2 "))
        });
        let texts = rows.map(|line| line.trim_start_matches([' ', '>']).chars().take(24));
        texts
            .map(|text| text.collect::<String>().trim().to_owned())
            .collect()
    };
    assert_eq!(
        rows(&console),
        [
            "├ ▸ network network-0",
            "├ network network-2",
            "│ └ subnet subnet-2",
            "│   └ port port-2"
        ]
    );
    // The step ends, and moves behind those that have not ended, together with the rows below it.
    console.world.steps[8].state = StepState::Gone;
    console.world.deletions[0].counts.gone += 1;
    console.world.snapshot.deletions = vec![console.world.deletions[0].clone()];
    console.publish();
    assert_eq!(
        rows(&console),
        [
            "├ ▸ network network-0",
            "└ network network-2",
            "└ subnet subnet-2",
            "└ port port-2"
        ]
    );
    // The cursor is still on the row of network-2.
    console.assert_shows([">  └ network network-2"]);
    console.press("left");
    assert_eq!(
        rows(&console),
        ["├ ▸ network network-0", "└ ▸ network network-2"]
    );
    console.press("left");
    console.assert_shows([">  ▸ network ×8"]);
}

#[test]
fn a_due_refresh_still_happens_while_a_branch_is_opened() {
    let mut world = World::busy();
    world.steps = networks(8);
    let mut console = TestConsole::new(world, (80, 30)).after("enter enter down");
    console.world.steps[23].state = StepState::Gone;
    let gone = serde_json::json!({"state": "gone"});
    let mut event = super::fake::event(6, EventKind::StepState, "network-7 is gone", gone);
    event.step_id = Some(console.world.steps[23].id);
    console.world.events.push(event);
    console.deliver_events();
    // Reads of the opened branch's steps and of the folded rows' counts are due at the same time.
    console.now += chrono::TimeDelta::seconds(6);
    console.handle(Event::Tick(console.now));
    console.assert_shows(["· 1/8"]);
    console.world.steps[20].state = StepState::Gone;
    let mut event = console.world.events.pop().unwrap();
    event.seq = 7;
    event.step_id = Some(console.world.steps[20].id);
    console.world.events.push(event);
    console.deliver_events();
    // The console learns the new time from an answer that no pane waits for, so no pane queries anything.
    console.now += chrono::TimeDelta::seconds(6);
    let answer = console.world.answer(&Query::Kinds(query::Kinds {}));
    console.handle(Event::Answer(u64::MAX, answer, console.now));
    console.press("right");
    console.assert_shows(["└ subnet subnet-0"]);
    console.handle(Event::Tick(console.now));
    console.assert_shows(["· 2/8"]);
}

#[test]
fn a_filter_of_a_tree_is_sent_to_the_engine_and_shows_how_many_steps_match() {
    let mut world = World::busy();
    world.steps = super::fake::steps(5_000);
    let mut console = TestConsole::new(world, (80, 24)).after("enter /server-499 enter");
    console.assert_shows([
        "11 of 536 steps fit",
        "port server-499 ",
        "port server-4990",
    ]);
    console.press("/ ctrl-u port enter");
    console.assert_shows(["4,990 of 536 steps fit"]);
    // At the end of the rows that were read, the console reads more.
    console.press("end down down down");
    console.assert_shows(["port server-501 "]);
    console.press("esc");
    console.assert_shows(["▸ port ×4,990"]);
    console.press("/nowhere enter");
    console.assert_shows(["No step matches \"nowhere\"."]);
}

#[test]
fn a_count_of_matching_steps_that_failed_begins_again() {
    let mut world = World::busy();
    world.steps = super::fake::steps(5_000);
    world.override_answer = Some(Box::new(|query| {
        matches!(query, Query::StepCount(_)).then(|| {
            Err(ControlError::Unreachable {
                message: "the socket was closed".to_owned(),
            })
        })
    }));
    let mut console = TestConsole::new(world, (80, 24));
    console.press("enter /port enter");
    let text = console.text();
    assert!(text.contains("500 of 536 steps so far"), "{text}");
    assert!(text.contains("the socket was closed"), "{text}");
    console.world.override_answer = None;
    console.publish();
    let text = console.text();
    assert!(text.contains("4,990 of 536 steps fit"), "{text}");
}

#[test]
fn the_stuck_pane_sends_no_count_query() {
    let mut world = World::busy();
    world.steps = (1..=700)
        .map(|n| step(n, "port", &format!("p{n}"), StepState::Stuck, &[]))
        .collect();
    let mut console = TestConsole::new(world, (80, 24)).after(":stuck enter");
    // One refused deletion is counted too.
    console.assert_shows(["── stuck 501+"]);
    let counts = |query: &Query| matches!(query, Query::StepCount(_));
    assert_eq!(console.count(counts), 0);
    console.press("end");
    console.publish();
    console.assert_shows(["── stuck 701"]);
}

#[test]
fn a_chart_draws_the_activity_of_each_row_and_says_what_it_waited_for() {
    for (width, ascii) in [
        (40, false),
        (80, false),
        (80, true),
        (120, false),
        (300, false),
    ] {
        let options = ConsoleOptions { ascii, ..options() };
        let console =
            TestConsole::with(World::busy(), (width, 24), options).after(":deletions enter t");
        let signs = match ascii {
            true => ['-', '+', '#', 'x', '.'],
            false => ['·', '▓', '█', '✖', '░'],
        };
        let [waiting, sent, gone, refused, nothing_new] = signs;
        let port = console.line(">  port");
        // On a narrow screen, the sign for gone hides the sign for sent.
        assert!(port.contains(gone), "{port}");
        assert!(port.contains(sent) || width == 40, "{port}");
        let interface = console.line("detach rout");
        for sign in [waiting, refused, nothing_new] {
            assert!(interface.contains(sign), "{sign} in {interface}");
        }
        // The chart reaches the last column but one of the screen.
        let network = console.line("   network");
        let end = network.chars().count();
        assert_eq!(end, usize::from(width) - 1, "{network}");
    }
    let mut console = TestConsole::busy(":deletions enter t down");
    console.assert_shows(["the last step that it waited for, port web-p119"]);
    console.press("down");
    console.assert_shows(["it waits for router interface r1"]);
}

#[test]
fn a_project_filter_is_sent_to_the_engine_with_the_projects_id() {
    let mut world = World::busy();
    world.override_answer = Some(Box::new(|query| match query {
        Query::Resources(query::Resources { kind, .. }) if kind == "project" => {
            let projects = vec![project("a1", "shop")];
            Some(Ok(Page::Resources(vec![listing("RegionOne", projects)])))
        }
        _ => None,
    }));
    let mut console =
        TestConsole::new(world, (80, 24)).after(":deletions enter / project=shop enter");
    console.press("esc enter / project=shop enter");
    let last = console.queries.iter().rev().find_map(|query| match query {
        Query::Steps(query::Steps { filter, .. }) => Some(filter.as_str()),
        _ => None,
    });
    assert_eq!(last, Some("project=shop,a1"));
}

#[test]
fn the_retry_schedule_is_drawn_on_its_time_axis() {
    for ascii in [false, true] {
        let options = ConsoleOptions { ascii, ..options() };
        let console = TestConsole::with(World::busy(), (80, 24), options).after(":gc enter");
        let text = console.text();
        let (low, high) = if ascii { ("_", "#") } else { ("▁", "█") };
        let (plot, axis) = (console.line(high), console.line("10s  30s"));
        let at = |line: &str, column: &str| line[..line.find(column).unwrap()].chars().count();
        assert_eq!(at(&plot, high), at(&axis, "2m"), "{text}");
        assert_eq!(at(&plot, low), at(&axis, "30m"), "{text}");
        console.assert_shows(["1 now"]);
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
    let state = |n| match n {
        ..=22 => StepState::Gone,
        _ => StepState::Skipped,
    };
    let ids = (1..=89).chain(100..=611);
    let steps = ids.zip(1..);
    world.steps = steps
        .map(|(id, n)| step(id, "port", &format!("p{n}"), state(n), &[]))
        .collect();
    world
}

#[test]
fn p09_steps_cancelled_before_they_were_sent_are_not_shown_as_deleted() {
    let mut console = TestConsole::new(cancelled(), (80, 24));
    for (keys, lines_expected) in [("", 1), ("enter", 2)] {
        console.press(keys);
        console.assert_hides(["601/601"]);
        let text = console.text();
        let lines = text.lines().filter(|line| line.contains("22/601"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), lines_expected, "{text}");
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
    let mut console = TestConsole::new(world, (80, 24)).after("enter");
    console.assert_shows(["21/601"]);
    // The last call ends, so nothing is under way any more.
    console.world.steps[0] = last;
    console.world.deletions[0].counts.gone = 22;
    console.world.deletions[0].counts.verifying = 0;
    console.world.snapshot.steps = console.world.deletions[0].counts;
    console.publish();
    console.assert_shows(["22/601"]);
    console.assert_hides(["21/601"]);
}
