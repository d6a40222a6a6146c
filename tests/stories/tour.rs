//! The tour: what a newcomer is told to press does what the tour says, to its last station.

use super::seat::Seat;
use super::stage::Stage;

/// As the plan's screen and its confirmation want it.
fn delete(seat: &mut Seat, network: &str) {
    seat.go("network", "network");
    seat.see(network);
    seat.press(&format!("/{network}"));
    seat.see(&format!("/{network}"));
    seat.press("\r");
    seat.see(&format!("filter: {network}"));
    seat.press("D");
    seat.go_on();
    seat.press(network);
    seat.see(&format!("│ >{network}"));
    seat.press("\r");
    seat.see("accepted as deletion");
}

/// Whether the list of deletions shows the one of this network as gone.
fn is_gone(screen: &str, network: &str) -> bool {
    let network = format!("network {network} ");
    let mut rows = screen.lines().filter(|row| row.contains(&network));
    rows.any(|row| row.contains("✓ gone"))
}

fn at_the_tour(seat: &mut Seat, done: usize) {
    seat.go("tour", "tour of the practice cloud");
    seat.see(&format!("tour of the practice cloud: {done} of 5"));
}

#[test]
fn the_tour_leads_from_a_plan_to_the_last_rung() {
    let stage = Stage::new();
    let mut seat = Seat::take(&stage, &["--sandbox"]);
    seat.see(":tour shows you round");
    at_the_tour(&mut seat, 0);
    seat.see("Type :network and enter, go to web, press D.");

    delete(&mut seat, "web");
    // Three were there before.
    seat.go("deletions", "deletions 4");
    seat.wait("web gone", |screen| is_gone(screen, "web"));
    seat.press("t");
    seat.see_all(&["── chart of deletion", "port", "the last was"]);
    at_the_tour(&mut seat, 2);
    // On to the next that is not done.
    seat.see("Its router's interface is not freed at once");

    delete(&mut seat, "legacy");
    seat.go("gc", "blocked, retried automatically 2");
    seat.see("2 steps to be retried");
    // One was blocked before, and is above it.
    seat.press("G\r");
    seat.see_all(&["required by one or more floating IPs", "attempt 1 of 8"]);
    seat.press("\x1b");
    seat.see("── blocked, retried automatically 2");
    for tries in 2..4 {
        seat.press("r");
        // It leaves the list for the attempt.
        seat.see(&format!(" {tries}/8 "));
        seat.press("G");
        seat.see(&format!("attempt {tries} of 8"));
    }
    seat.press("r");
    seat.go("deletions", "deletions 5");
    seat.wait("both gone", |screen| {
        is_gone(screen, "web") && is_gone(screen, "legacy")
    });

    delete(&mut seat, "vault");
    seat.go("stuck", "stuck 3");
    seat.see("vault-safe");
    // As in the list of retries.
    seat.press("j\r");
    seat.see_all(&["── port vault-safe in deletion", "PolicyNotAuthorized"]);
    seat.press("\x1b");
    seat.see("── stuck 3");
    seat.press("e");
    seat.see_all(&["vault-safe", "disallowed by policy"]);
    at_the_tour(&mut seat, 4);
    seat.see("In :stuck, F on the port shows");

    seat.go("stuck", "stuck 3");
    seat.press("jF");
    seat.see_all(&["── ladder of port vault-safe", "forget", "✓ yes"]);
    seat.press("G\r");
    seat.see("the short id of the deletion, ");
    seat.see_asked();
    let text = seat.text();
    let (_, short) = text.split_once("the short id of the deletion, ").unwrap();
    let short: String = short.chars().take(8).collect();
    seat.press(&short);
    seat.see(&format!("│ >{short}"));
    seat.press("\r");
    seat.see("abandoned");
    seat.go("orphans", "orphans");
    seat.see("vault-safe");
    at_the_tour(&mut seat, 5);
}

#[test]
fn elsewhere_the_tour_says_where_it_is() {
    let stage = Stage::new();
    let sandbox = format!("--sandbox={}", stage.scenario("quiet"));
    let mut seat = Seat::take(&stage, &[&sandbox]);
    seat.see("── home");
    assert!(!seat.text().contains(":tour"), "{}", seat.text());
    seat.press(":tour");
    seat.see(":tour");
    seat.press("\r");
    seat.see("the tour is through the practice cloud: gone --sandbox");
}
