//! A post-mortem: the replay of a ledger, while its engine runs, shows the state of the ledger at each time.

use super::home::Home;
use super::session::Session;

const LEDGER: &str = ".local/state/gone/sandbox/ledger.db";

/// Starts a console, and a deletion in which the cloud refuses to delete one port. Returns the console and the path of
/// the ledger.
fn start_stuck_deletion(home: &Home) -> (Session, String) {
    let sandbox = format!("--sandbox={}", home.without_past("practice"));
    let mut session = Session::start(home, &[&sandbox]);
    session.wait_for("2 of 2 sites reachable");
    let line = ["--sandbox", "delete", "network/vault@sandbox/RegionOne"];
    home.stdout_of(&[&line[..], &["--cascade", "--yes"]].concat());
    session.open("stuck", "stuck 2");
    (session, home.path(LEDGER).display().to_string())
}

#[test]
fn a_replay_steps_through_the_events_of_a_ledger_while_its_engine_runs() {
    let home = Home::new();
    let (mut engine, ledger) = start_stuck_deletion(&home);
    let scratch = home.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let scratch = scratch.display().to_string();
    let mut session = Session::start_with_env(&home, &["replay", &ledger], &[("TMPDIR", &scratch)]);
    session.wait_for_all(&["REPLAY", "nothing is changed", "✖ 2 stuck"]);
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 1);

    session.press("{");
    session.wait_until("the beginning of the ledger", |screen| {
        !screen.contains("stuck")
    });
    session.wait_for_all(&["── deletions 1", "network vault", "accepted"]);
    // Moves one event at a time to the event at which the deletion became stuck, and then one event back.
    let mut events = 0;
    while !session.text().contains("✖ 2 stuck") {
        session.press(".");
        session.wait_for_silence();
        events += 1;
        assert!(events < 20, "{}", session.text());
    }
    assert!(events > 1, "{events}");
    session.press(",");
    session.wait_until("the event before", |screen| !screen.contains("✖ 2 stuck"));
    session.press("}");
    session.wait_for("✖ 2 stuck");

    // The replay refuses commands and calls no cloud.
    session.open("stuck", "stuck 2");
    session.press("r");
    session.wait_for("this is a replay: nothing is changed");
    session.open("network", "network 0");
    session.wait_for("a replay asks no cloud");
    session.press(":at -30d");
    session.wait_for(":at -30d");
    session.press("\r");
    session.wait_for("before the first event");
    session.quit();
    assert_eq!(
        std::fs::read_dir(&scratch).unwrap().count(),
        0,
        "the copy of the ledger must be deleted"
    );

    // The engine still works.
    engine.press("r");
    engine.wait_for("retry of port vault-safe");
}

#[test]
fn a_replay_without_a_terminal_lists_the_deletions_at_a_time() {
    let home = Home::new();
    let (session, ledger) = start_stuck_deletion(&home);
    drop(session);
    let before = std::fs::read(&ledger).unwrap();
    let last = home.json(&["replay", &ledger]);
    assert_eq!(last[0]["state"], "stuck", "{last}");
    let requested_at = last[0]["requested_at"].as_str().unwrap();
    let first = home.json(&["replay", &ledger, "--from", requested_at]);
    assert_eq!(first[0]["state"], "planning", "{first}");
    assert_eq!(std::fs::read(&ledger).unwrap(), before);

    let foreign = home.write("notes.txt", "no ledger");
    for (arguments, expected) in [
        (
            ["replay", "/nowhere.db", "--from", "-1h"],
            "there is no file /nowhere.db",
        ),
        (
            ["replay", &foreign, "--from", "-1h"],
            "is not a ledger of gone",
        ),
        (["replay", &ledger, "--from", "25:00"], "write 03:12:07"),
        (
            ["replay", &ledger, "--from", "-30d"],
            "is outside of the time that the ledger covers",
        ),
    ] {
        home.gone(&arguments).ends_with(2).stderr_has(&[expected]);
    }
}
