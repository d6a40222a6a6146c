//! The shapes that a cascade can have.

use std::time::{Duration, Instant};

use gone::domain::model::{PlanStep, StepState};

use super::fake::{Desk, World, plan_step, step};

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
