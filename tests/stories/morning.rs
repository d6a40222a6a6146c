//! Story 1: the morning check of an engine that worked through the night.

use super::home::{Home, is_alive};
use super::session::Session;
use super::variation::{Variation, in_variations};

in_variations! { run,
    baseline fn story_1_a_morning_check_shows_stuck_and_blocked_steps_and_leaves_the_engine_running();
    slow_cloud fn story_1_a_morning_check_shows_stuck_and_blocked_steps_on_a_slow_cloud();
    fast_cloud fn story_1_a_morning_check_shows_stuck_and_blocked_steps_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    // One deletion is stuck and three are blocked. The deletion of the archive and its ports has ended.
    let engine = home.start_practice_engine("morning");
    let mut session = Session::start(&home, &[]);
    session.wait_for_all(&[
        &format!("attached to engine {engine}"),
        "1 of 1 sites reachable",
        "✖ 1 stuck",
        "‖ 3 blocked",
        &format!("✓ {} gone", variation.count(120) + 1),
    ]);

    session.wait_for_all(&[
        "── home",
        "needs you 1 stuck",
        "running 3 deletions, 3 blocked",
        &format!(
            "1 deletion ended, {} resources gone",
            variation.count(120) + 1
        ),
    ]);
    session.open("deletions", "deletions 5");
    session.press("?");
    session.wait_for("── help");
    session.wait_for_all(&[
        "keys in :deletions",
        "enter show the deletion as a tree of steps",
        "r retry the blocked and stuck steps now",
        "p pause or resume",
        "c cancel the deletion, after a question",
        "y copy the id",
        "keys on rows that can be marked",
    ]);
    // The rest of the help is on further pages.
    session.page_down_to("keys everywhere");
    session.wait_for_all(&[": go to a pane or a kind"]);
    session.page_down_to("to the first row");
    session.page_down_to("these keys");
    session.wait_for_all(&["? show these keys"]);
    session.page_down_to("ctrl-c");
    session.wait_for_all(&["q ctrl-c quit"]);
    session.press("\x1b");
    session.wait_for("── deletions 5");

    session.open("stuck", "stuck 1");
    let crm = format!("network {}", variation.name("crm"));
    session.wait_for_all(&["✖ stuck", &crm, "8/8", "a person"]);
    session.press("\r");
    session.wait_for_all(&[
        &format!("── {crm} in deletion"),
        "since",
        "attempt 8 of 8",
        &format!("blocked by port {} (project", variation.name("appliance")),
        "not in this plan",
        "409 NetworkInUse",
        "request req-",
        "r retries the step, once the reason is gone; F shows what else can be done",
    ]);
    session.press("\x1b");
    session.wait_for("── stuck 1");

    session.open("gc", "blocked, retried automatically 3");
    session.wait_for_all(&["‖ blocked", "router interface", "2/8", "3/8", "4/8"]);
    session.press("\r");
    session.wait_for_all(&[
        "attempt 4 of 8",
        "next attempt",
        "RouterInterfaceInUseByFloatingIP",
    ]);

    session.quit();
    assert!(is_alive(engine));
    let all = home.json(&["list"]);
    assert_eq!(all.as_array().unwrap().len(), 5);

    // The networks of the cloud match the ledger, and the ledger is consistent.
    let cloud = home.embedded_cloud();
    let mut networks = cloud.names("networks");
    networks.sort();
    let mut left = ["branch", "crm", "erp", "hr", "wiki"].map(|name| variation.name(name));
    left.sort_unstable();
    assert_eq!(networks, left);
    assert!(
        cloud
            .names("ports")
            .contains(&variation.name("appliance").to_owned())
    );
    assert_eq!(
        cloud.writes(),
        [""; 0],
        "no call was sent after the past deletions"
    );
    home.stdout_of(&["ledger", "check"]);
    home.stdout_of(&["audit", "verify"]);
}
