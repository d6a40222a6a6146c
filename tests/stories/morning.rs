//! Story 1: the morning check of an engine that worked through the night.

use super::seat::Seat;
use super::stage::{Stage, is_alive};
use super::telling::Telling;

/// One stuck, three blocked; done are the archive and its ports.
fn night(stage: &mut Stage) -> u32 {
    // What holds crm needs a person at the first refusal; the rest keeps its eight attempts.
    let settings = "[gc.kind.network]\nmax_attempts = 1\n";
    stage.write(".config/gone/config.toml", settings);
    stage.serve_cloud("morning");
    let engine = stage.start_engine(&[]);
    for network in ["archive", "crm", "hr", "erp", "wiki"] {
        let target = format!("network/{}", stage.telling.name(network));
        stage.say(&["delete", &target, "--cascade", "--yes"]);
    }
    engine
}

#[test]
fn story_1_a_morning_check_finds_what_needs_a_person_and_leaves_the_engine_running() {
    tell(&Telling::as_written());
}

#[test]
fn story_1_a_morning_check_finds_what_needs_a_person_and_leaves_the_engine_running_told_otherwise()
{
    tell(&Telling::otherwise());
}

#[test]
fn story_1_a_morning_check_finds_what_needs_a_person_and_leaves_the_engine_running_told_at_leisure()
{
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let engine = night(&mut stage);
    let mut seat = Seat::take(&stage, &[]);
    seat.see_all(&[
        &format!("attached to engine {engine}"),
        "1 of 1 sites reachable",
        "✖ 1 stuck",
        "‖ 3 blocked",
        &format!("✓ {} gone", telling.count(120) + 1),
    ]);

    seat.see("── home");
    seat.go("deletions", "deletions 5");
    seat.press("?");
    seat.see("── help");
    seat.see_all(&[
        "keys in :deletions",
        "enter show the deletion as a tree of steps",
        "r retry now",
        "p pause, or go on",
        "c cancel, after a question",
        "y copy the id",
        "keys everywhere",
        ": go to a pane or a kind",
    ]);
    // The rest stands below.
    seat.page_to("to the first row");
    seat.page_to("these keys");
    seat.see_all(&["? these keys"]);
    seat.page_to("ctrl-c");
    seat.see_all(&["q ctrl-c quit"]);
    seat.press("\x1b");
    seat.see("── deletions 5");

    seat.go("stuck", "stuck 1");
    let crm = format!("network {}", telling.name("crm"));
    seat.see_all(&["✖ stuck", &crm, "1/1", "a person"]);
    seat.press("\r");
    seat.see_all(&[
        &format!("── {crm} in deletion"),
        "since",
        "attempt 1 of 1",
        &format!("blocked by port {} (project", telling.name("appliance")),
        "not in this plan",
        "409 NetworkInUse",
        "request req-",
        "r retries it, once the reason is gone; F shows what else can be done",
    ]);
    seat.press("\x1b");
    seat.see("── stuck 1");

    seat.go("gc", "blocked, retried automatically 3");
    seat.see_all(&["‖ blocked", "router interface", "1/8"]);
    seat.press("\r");
    seat.see_all(&[
        "attempt 1 of 8",
        "next attempt",
        "RouterInterfaceInUseByFloatingIP",
    ]);

    seat.press("q");
    seat.left();
    assert!(is_alive(engine));
    let all = stage.json(&["list"]);
    assert_eq!(all.as_array().unwrap().len(), 5);
}
