//! The panes `:tombstones` and `:drift`: releasing tombstones, and accepting or refusing newcomers.

use gone::control::Command;
use gone::domain::model::{DeletionState, Phase, StepState};

use super::fake::{TestConsole, World, deletion, drifted, id, key, step, tombstone};
use super::pictures::assert_screens;

fn with_tombstones() -> World {
    let mut world = World::busy();
    world.tombstones = vec![
        tombstone(11, "network", Phase::Deleting),
        tombstone(12, "port", Phase::Gone),
        tombstone(13, "load_balancer", Phase::Purged),
        tombstone(14, "port", Phase::Released),
    ];
    world
}

fn with_drift() -> World {
    let mut world = World::busy();
    world.steps.push(drifted(95, "web"));
    world
}

#[test]
fn tombstones_and_drift_at_all_sizes() {
    for (name, world, command) in [
        (
            "tombstones",
            with_tombstones as fn() -> World,
            ":tombstones enter",
        ),
        ("drift", with_drift, ":drift enter"),
    ] {
        let mut all = String::new();
        for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            all.push_str(&TestConsole::new(world(), size).after(command).text());
            all.push('\n');
        }
        assert_screens(name, &all);
    }
}

#[test]
fn a_tombstone_is_released_only_after_its_short_id_was_typed() {
    let mut console =
        TestConsole::new(with_tombstones(), (120, 40)).after(":tombstones enter /port enter");
    console.assert_shows(["tombstones 2 of 4"]);
    console.press("x");
    assert!(console.changes().is_empty());
    console.assert_shows(["Release the tombstone of"]);
    console.type_line("0000000d");
    assert!(
        console.changes().is_empty(),
        "the short id of another resource releases nothing"
    );
    console.press("esc x");
    console.type_line("0000000c");
    let released = key("port", &id(12));
    assert!(
        matches!(&console.sent[..], [Command::Release { key }] if *key == released),
        "{:?}",
        console.sent
    );
    console.press("down x");
    console.assert_shows(["this tombstone is released already"]);
    assert_eq!(console.sent.len(), 1);
}

#[test]
fn a_tombstone_leads_to_its_deletion() {
    let mut console =
        TestConsole::new(with_tombstones(), (120, 40)).after(":tombstones enter enter");
    console.assert_shows(["deletion 00000001: network web-1"]);
    console.press("[ y");
    assert_eq!(console.copied, [id(11)]);
}

#[test]
fn more_tombstones_than_a_page_are_read_on_demand() {
    let mut world = World::busy();
    world.tombstones = (1..=1_200)
        .map(|n| tombstone(n, "port", Phase::Gone))
        .collect();
    let mut console = TestConsole::new(world, (120, 40)).after(":tombstones enter");
    console.assert_shows(["tombstones 500+"]);
    for _ in 0..3 {
        console.press("end");
        console.advance(2);
    }
    console.assert_shows(["tombstones 1,200 "]);
}

#[test]
fn p11_newcomers_are_accepted_or_refused_after_the_short_id_was_typed() {
    for (key, typed, accepts) in [("a", "accept", true), ("n", "refuse", false)] {
        let mut console = TestConsole::new(with_drift(), (120, 40)).after(":drift enter");
        // Steps that are stuck for other reasons are not in this pane.
        console.assert_shows(["drift 1 ", "network web", "port late-1 and 1 more"]);
        console.press(key);
        assert!(console.changes().is_empty(), "{typed}");
        console.assert_shows(["2 resources appeared after the plan"]);
        console.type_line("y");
        assert!(console.changes().is_empty(), "{typed}");
        console.press("esc");
        console.press(key);
        let drifted = deletion(1, DeletionState::Running, 0, 1).id;
        console.type_line(gone::domain::model::short_id(&drifted));
        assert!(
            matches!(&console.sent[..], [Command::Drift { deletion_id, accept }]
                if *deletion_id == drifted && *accept == accepts),
            "{typed}: {:?}",
            console.sent
        );
    }
}

#[test]
fn drift_is_found_behind_many_steps_that_are_stuck_for_other_reasons() {
    let mut world = World::busy();
    let others = (1_000..2_600).map(|n| step(n, "port", "p", StepState::Stuck, &[]));
    world.steps.extend(others);
    world.steps.push(drifted(95, "web"));
    let console = TestConsole::new(world, (120, 40)).after(":drift enter");
    console.assert_shows(["network web"]);
}
