//! Alerts to a person who looks at another window: when a deletion ends, and when a step or deletion needs a person.

use gone::domain::model::{DeletionState, StepState};
use gone::frontends::console::ConsoleOptions;
use gone::system::config::Alert;

use super::fake::{TestConsole, World, deletion, options, step};

fn console(alert: Alert) -> TestConsole {
    let mut world = World::busy();
    let other = deletion(5, DeletionState::Running, 2, 4);
    world.snapshot.deletions.push(other);
    let options = ConsoleOptions { alert, ..options() };
    TestConsole::with(world, (80, 24), options)
}

#[test]
fn a_person_is_alerted_once_when_a_deletion_ends() {
    let mut console = console(Alert::Osc9);
    console.publish();
    assert!(console.alerts.is_empty(), "no deletion has ended");
    console.world.snapshot.deletions.remove(1);
    console.publish();
    assert_eq!(console.alerts, ["the deletion of network web-5 has ended"]);
    console.publish();
    assert_eq!(console.alerts.len(), 1);
}

#[test]
fn newly_stuck_steps_and_refused_deletions_alert_a_person() {
    let mut console = console(Alert::Bell);
    console.world.snapshot.steps.running += 1;
    console.publish();
    assert!(console.alerts.is_empty());
    console.world.snapshot.steps.stuck += 2;
    let stuck = step(95, "port", "vm-1", StepState::Stuck, &[]);
    console.world.snapshot.attention.push(stuck);
    console.publish();
    assert_eq!(
        console.alerts,
        ["port vm-1 is stuck, and 1 other deletion or step needs you"]
    );
    let refused = &mut console.world.snapshot.deletions_by_state;
    *refused.get_mut("refused").unwrap() += 1;
    console.publish();
    assert_eq!(console.alerts[1..], ["1 deletion or step needs you"]);
    // One step is no longer stuck, which alerts nobody.
    console.world.snapshot.steps.stuck -= 1;
    console.publish();
    assert_eq!(console.alerts.len(), 2);
}

#[test]
fn no_alert_is_sent_by_default_or_for_the_first_snapshot_of_an_engine() {
    let mut silent = console(Alert::Off);
    silent.world.snapshot.deletions.clear();
    silent.publish();
    assert!(silent.alerts.is_empty());
    let mut world = World::busy();
    world.snapshot.at = None;
    let options = ConsoleOptions {
        alert: Alert::Osc777,
        ..options()
    };
    let mut console = TestConsole::with(world, (80, 24), options);
    console.world.snapshot.steps.stuck = 7;
    console.publish();
    assert!(console.alerts.is_empty(), "{:?}", console.alerts);
}

#[test]
fn an_alert_names_one_stuck_step_and_counts_the_others_without_it() {
    let mut console = console(Alert::Bell);
    console.world.snapshot.steps.stuck += 1;
    let stuck = step(95, "port", "vm-1", StepState::Stuck, &[]);
    console.world.snapshot.attention.push(stuck);
    let refused = &mut console.world.snapshot.deletions_by_state;
    *refused.get_mut("refused").unwrap() += 2;
    console.publish();
    let text = "port vm-1 is stuck, and 2 other deletions or steps need you";
    assert_eq!(console.alerts, [text]);
}
