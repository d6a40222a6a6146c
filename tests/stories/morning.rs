//! Story 1: the morning check of an engine that worked through the night.

use super::seat::Seat;
use super::stage::{Stage, is_alive};
use super::telling::Telling;

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
    // One stuck, three blocked; done are the archive and its ports.
    let engine = stage.start_practice("morning");
    let mut seat = Seat::take(&stage, &[]);
    seat.see_all(&[
        &format!("attached to engine {engine}"),
        "1 of 1 sites reachable",
        "✖ 1 stuck",
        "‖ 3 blocked",
        &format!("✓ {} gone", telling.count(120) + 1),
    ]);

    seat.see_all(&[
        "── home",
        "needs you 1 stuck",
        "running 3 deletions, 3 blocked",
        &format!(
            "1 deletion ended, {} resources gone",
            telling.count(120) + 1
        ),
    ]);
    seat.go("deletions", "deletions 5");
    seat.press("?");
    seat.see("── help");
    seat.see_all(&[
        "keys in :deletions",
        "enter show the deletion as a tree of steps",
        "r retry now",
        "p pause or resume",
        "c cancel, after a question",
        "y copy the id",
        "keys on rows that can be marked",
    ]);
    // The rest stands below.
    seat.page_to("keys everywhere");
    seat.see_all(&[": go to a pane or a kind"]);
    seat.page_to("to the first row");
    seat.page_to("these keys");
    seat.see_all(&["? show these keys"]);
    seat.page_to("ctrl-c");
    seat.see_all(&["q ctrl-c quit"]);
    seat.press("\x1b");
    seat.see("── deletions 5");

    seat.go("stuck", "stuck 1");
    let crm = format!("network {}", telling.name("crm"));
    seat.see_all(&["✖ stuck", &crm, "8/8", "a person"]);
    seat.press("\r");
    seat.see_all(&[
        &format!("── {crm} in deletion"),
        "since",
        "attempt 8 of 8",
        &format!("blocked by port {} (project", telling.name("appliance")),
        "not in this plan",
        "409 NetworkInUse",
        "request req-",
        "r retries it, once the reason is gone; F shows what else can be done",
    ]);
    seat.press("\x1b");
    seat.see("── stuck 1");

    seat.go("gc", "blocked, retried automatically 3");
    seat.see_all(&["‖ blocked", "router interface", "2/8", "3/8", "4/8"]);
    seat.press("\r");
    seat.see_all(&[
        "attempt 4 of 8",
        "next attempt",
        "RouterInterfaceInUseByFloatingIP",
    ]);

    seat.press("q");
    seat.left();
    assert!(is_alive(engine));
    let all = stage.json(&["list"]);
    assert_eq!(all.as_array().unwrap().len(), 5);

    // The cloud agrees with the ledger, and the ledger with itself.
    let cloud = stage.carried_cloud();
    let mut networks = cloud.names("networks");
    networks.sort();
    let mut left = ["branch", "crm", "erp", "hr", "wiki"].map(|name| telling.name(name));
    left.sort_unstable();
    assert_eq!(networks, left);
    assert!(
        cloud
            .names("ports")
            .contains(&telling.name("appliance").to_owned())
    );
    assert_eq!(cloud.writes(), [""; 0], "only the past wrote");
    stage.say(&["ledger", "check"]);
    stage.say(&["audit", "verify"]);
}
