//! A person who looks elsewhere is alerted, if the settings say so, when a deletion ends or something needs them.

use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::ConsoleOptions;
use gone::system::config::Alert;

use super::fake::{Desk, World, deletion, options, step};

fn desk(alert: Alert) -> Desk {
    let mut world = World::busy();
    let other = deletion(5, DeletionState::Running, 2, 4);
    world.snapshot.deletions.push(other);
    let options = ConsoleOptions { alert, ..options() };
    Desk::with(world, (80, 24), options)
}

#[test]
fn a_deletion_that_ends_is_told_once() {
    let mut desk = desk(Alert::Osc9);
    desk.publish();
    assert!(desk.alerts.is_empty(), "nothing has ended");
    desk.world.snapshot.deletions.remove(1);
    desk.publish();
    assert_eq!(desk.alerts, ["the deletion of network web-5 has ended"]);
    desk.publish();
    assert_eq!(desk.alerts.len(), 1);
}

#[test]
fn what_gets_stuck_is_told_and_what_was_stuck_already_is_not() {
    let mut desk = desk(Alert::Bell);
    desk.world.snapshot.steps.running += 1;
    desk.publish();
    assert!(desk.alerts.is_empty());
    desk.world.snapshot.steps.stuck += 2;
    let stuck = step(95, "port", "vm-1", StepState::Stuck, &[]);
    desk.world.snapshot.attention.push(stuck);
    desk.publish();
    assert_eq!(desk.alerts, ["port vm-1 is stuck, and 2 steps need you"]);
    let refused = &mut desk.world.snapshot.deletions_by_state;
    *refused.get_mut("refused").unwrap() += 1;
    desk.publish();
    assert_eq!(desk.alerts[1..], ["1 deletion or step needs you"]);
    // A person has solved some of it.
    desk.world.snapshot.steps.stuck -= 1;
    desk.publish();
    assert_eq!(desk.alerts.len(), 2);
}

#[test]
fn nobody_is_alerted_by_default_nor_of_what_an_engine_tells_first() {
    let mut silent = desk(Alert::Off);
    silent.world.snapshot.deletions.clear();
    silent.publish();
    assert!(silent.alerts.is_empty());
    let mut world = World::busy();
    world.snapshot.at = None;
    let options = ConsoleOptions {
        alert: Alert::Osc777,
        ..options()
    };
    let mut desk = Desk::with(world, (80, 24), options);
    desk.world.snapshot.steps.stuck = 7;
    desk.publish();
    assert!(desk.alerts.is_empty(), "{:?}", desk.alerts);
}
