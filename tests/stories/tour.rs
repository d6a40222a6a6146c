//! The tour: the keys of each station do what the tour says, up to the last station.

use super::home::Home;
use super::session::Session;

/// Deletes a network in the console: filter, plan and typed confirmation.
fn delete(session: &mut Session, network: &str) {
    session.open("network", "network");
    session.wait_for(network);
    session.press(&format!("/{network}"));
    session.wait_for(&format!("/{network}"));
    session.press("\r");
    session.wait_for(&format!("filter: {network}"));
    session.press("D");
    session.open_confirmation();
    session.press(network);
    session.wait_for(&format!("│ >{network}"));
    session.press("\r");
    session.wait_for("accepted as deletion");
}

/// Whether the list of deletions shows the deletion of this network as gone.
fn is_gone(screen: &str, network: &str) -> bool {
    let network = format!("network {network} ");
    let mut rows = screen.lines().filter(|row| row.contains(&network));
    rows.any(|row| row.contains("✓ gone"))
}

/// Opens the tour, and checks the number of stations that are done.
fn check_tour(session: &mut Session, done: usize) {
    session.open("tour", "tour of the practice cloud");
    session.wait_for(&format!("tour of the practice cloud: {done} of 5"));
}

#[test]
fn the_tour_leads_from_a_plan_to_the_last_rung() {
    let home = Home::new();
    let mut session = Session::start(&home, &["--sandbox"]);
    session.wait_for(":tour shows you round");
    check_tour(&mut session, 0);
    session.wait_for("Type :network and enter, go to web, press D.");

    delete(&mut session, "web");
    // The practice cloud starts with three deletions.
    session.open("deletions", "deletions 4");
    session.wait_until("web gone", |screen| is_gone(screen, "web"));
    session.press("t");
    session.wait_for_all(&["── chart of deletion", "port", "the last step to end was"]);
    check_tour(&mut session, 2);
    // The tour shows the next station.
    session.wait_for("Its router's interface is not freed at once");

    delete(&mut session, "legacy");
    session.open("gc", "blocked, retried automatically 2");
    session.wait_for("2 steps to be retried");
    // The step that was blocked before is in the row above.
    session.press("G\r");
    session.wait_for_all(&["required by one or more floating IPs", "attempt 1 of 8"]);
    session.press("\x1b");
    session.wait_for("── blocked, retried automatically 2");
    for attempt in 2..4 {
        session.press("r");
        // The step leaves the list during the attempt.
        session.wait_for(&format!(" {attempt}/8 "));
        session.press("G");
        session.wait_for(&format!("attempt {attempt} of 8"));
    }
    session.press("r");
    session.open("deletions", "deletions 5");
    session.wait_until("both gone", |screen| {
        is_gone(screen, "web") && is_gone(screen, "legacy")
    });

    delete(&mut session, "vault");
    session.open("stuck", "stuck 3");
    session.wait_for("vault-safe");
    // The row above has a step that was stuck before.
    session.press("j\r");
    session.wait_for_all(&["── port vault-safe in deletion", "PolicyNotAuthorized"]);
    session.press("\x1b");
    session.wait_for("── stuck 3");
    session.press("e");
    session.wait_for_all(&["vault-safe", "disallowed by policy"]);
    check_tour(&mut session, 4);
    session.wait_for("In :stuck, F on the port shows");

    session.open("stuck", "stuck 3");
    session.press("jF");
    session.wait_for_all(&["── ladder of port vault-safe", "forget", "✓ yes"]);
    session.press("G\r");
    session.wait_for("the short id of the deletion, ");
    session.wait_for_prompt();
    let text = session.text();
    let (_, short) = text.split_once("the short id of the deletion, ").unwrap();
    let short: String = short.chars().take(8).collect();
    session.press(&short);
    session.wait_for(&format!("│ >{short}"));
    session.press("\r");
    session.wait_for("abandoned");
    session.open("orphans", "orphans");
    session.wait_for("vault-safe");
    check_tour(&mut session, 5);
}

#[test]
fn in_another_scenario_the_tour_names_the_command_that_starts_it() {
    let home = Home::new();
    let sandbox = format!("--sandbox={}", home.scenario("quiet"));
    let mut session = Session::start(&home, &[&sandbox]);
    session.wait_for("── home");
    assert!(!session.text().contains(":tour"), "{}", session.text());
    session.press(":tour");
    session.wait_for(":tour");
    session.press("\r");
    session.wait_for("the tour needs the practice cloud: start gone --sandbox");
}
