//! What a person decides: whether a tombstone is released, and what becomes of newcomers.

use gone::control::Command;
use gone::domain::model::{DeletionState, Phase, StepState};

use super::fake::{Desk, World, deletion, drifted, id, key, step, tombstone};
use super::pictures::shot;

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
    for (name, world, word) in [
        (
            "tombstones",
            with_tombstones as fn() -> World,
            ":tombstones enter",
        ),
        ("drift", with_drift, ":drift enter"),
    ] {
        let mut all = String::new();
        for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let mut desk = Desk::new(world(), size);
            desk.press(word);
            all.push_str(&desk.text());
            all.push('\n');
        }
        shot(name, &all);
    }
}

#[test]
fn a_tombstone_is_released_only_after_its_short_id_was_typed() {
    let mut desk = Desk::new(with_tombstones(), (120, 40));
    desk.press(":tombstones enter /port enter");
    assert!(desk.text().contains("tombstones 2 of 4"), "{}", desk.text());
    desk.press("x");
    assert!(desk.changes().is_empty());
    assert!(
        desk.text().contains("Release the tombstone of"),
        "{}",
        desk.text()
    );
    desk.type_line("0000000d");
    assert!(desk.changes().is_empty(), "that is another resource");
    desk.press("esc x");
    desk.type_line("0000000c");
    let released = key("port", &id(12));
    assert!(
        matches!(&desk.sent[..], [Command::Release { key }] if *key == released),
        "{:?}",
        desk.sent
    );
    desk.press("down x");
    assert!(
        desk.text().contains("this tombstone is released already"),
        "{}",
        desk.text()
    );
    assert_eq!(desk.sent.len(), 1);
}

#[test]
fn a_tombstone_leads_to_its_deletion() {
    let mut desk = Desk::new(with_tombstones(), (120, 40));
    desk.press(":tombstones enter enter");
    assert!(
        desk.text().contains("deletion 00000001: network web-1"),
        "{}",
        desk.text()
    );
    desk.press("[ y");
    assert_eq!(desk.copied, [id(11)]);
}

#[test]
fn more_tombstones_than_a_page_are_read_on_demand() {
    let mut world = World::busy();
    world.tombstones = (1..=1_200)
        .map(|n| tombstone(n, "port", Phase::Gone))
        .collect();
    let mut desk = Desk::new(world, (120, 40));
    desk.press(":tombstones enter");
    assert!(desk.text().contains("tombstones 500+"), "{}", desk.text());
    for _ in 0..3 {
        desk.press("end");
        desk.pass(2);
    }
    assert!(desk.text().contains("tombstones 1,200 "), "{}", desk.text());
}

#[test]
fn p11_newcomers_are_accepted_or_refused_after_the_short_id_was_typed() {
    for (key, typed, accepts) in [("a", "accept", true), ("n", "refuse", false)] {
        let mut desk = Desk::new(with_drift(), (120, 40));
        desk.press(":drift enter");
        // What is stuck for another reason is not here.
        assert!(desk.text().contains("drift 1 "), "{}", desk.text());
        for words in ["network web", "port late-1 and 1 more"] {
            assert!(desk.text().contains(words), "{}", desk.text());
        }
        desk.press(key);
        assert!(desk.changes().is_empty(), "{typed}");
        assert!(
            desk.text().contains("2 resources appeared after the plan"),
            "{}",
            desk.text()
        );
        desk.type_line("y");
        assert!(desk.changes().is_empty(), "{typed}");
        desk.press("esc");
        desk.press(key);
        let drifted = deletion(1, DeletionState::Running, 0, 1).id;
        desk.type_line(gone::domain::model::short_id(&drifted));
        assert!(
            matches!(&desk.sent[..], [Command::Drift { deletion_id, accept }]
                if *deletion_id == drifted && *accept == accepts),
            "{typed}: {:?}",
            desk.sent
        );
    }
}

#[test]
fn drift_is_found_behind_many_steps_that_are_stuck_for_other_reasons() {
    let mut world = World::busy();
    let others = (1_000..2_600).map(|n| step(n, "port", "p", StepState::Stuck, &[]));
    world.steps.extend(others);
    world.steps.push(drifted(95, "web"));
    let mut desk = Desk::new(world, (120, 40));
    desk.press(":drift enter");
    assert!(desk.text().contains("network web"), "{}", desk.text());
}
