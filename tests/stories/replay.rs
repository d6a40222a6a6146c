//! A post-mortem: a ledger is replayed, while its engine goes on, and tells what was known when.

use super::seat::Seat;
use super::stage::Stage;

const LEDGER: &str = ".local/state/gone/sandbox/ledger.db";

/// A deletion of the practice cloud of which one port may not go: its console, and the ledger's path.
fn stuck(stage: &Stage) -> (Seat, String) {
    let sandbox = format!("--sandbox={}", stage.without_past("practice"));
    let mut seat = Seat::take(stage, &[&sandbox]);
    seat.see("2 of 2 sites reachable");
    let line = ["--sandbox", "delete", "network/vault@sandbox/RegionOne"];
    stage.say(&[&line[..], &["--cascade", "--yes"]].concat());
    seat.go("stuck", "stuck 2");
    (seat, stage.path(LEDGER).display().to_string())
}

#[test]
fn what_was_known_when_is_gone_through_while_the_engine_goes_on() {
    let stage = Stage::new();
    let (mut engine, ledger) = stuck(&stage);
    let scratch = stage.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let scratch = scratch.display().to_string();
    let mut seat = Seat::take_with(&stage, &["replay", &ledger], &[("TMPDIR", &scratch)]);
    seat.see_all(&["REPLAY", "nothing is changed", "✖ 2 stuck"]);
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 1);

    seat.press("{");
    seat.wait("its beginning", |screen| !screen.contains("stuck"));
    seat.see_all(&["── deletions 1", "network vault", "accepted"]);
    // Event by event to where it became stuck, and back.
    let mut events = 0;
    while !seat.text().contains("✖ 2 stuck") {
        seat.press(".");
        seat.quiet();
        events += 1;
        assert!(events < 20, "{}", seat.text());
    }
    assert!(events > 1, "{events}");
    seat.press(",");
    seat.wait("the event before", |screen| !screen.contains("✖ 2 stuck"));
    seat.press("}");
    seat.see("✖ 2 stuck");

    // Nothing can be done, and no cloud is asked.
    seat.go("stuck", "stuck 2");
    seat.press("r");
    seat.see("this is a replay: nothing is changed");
    seat.go("network", "network 0");
    seat.see("a replay asks no cloud");
    seat.press(":at -30d");
    seat.see(":at -30d");
    seat.press("\r");
    seat.see("before the first event");
    seat.press("q");
    seat.left();
    assert_eq!(
        std::fs::read_dir(&scratch).unwrap().count(),
        0,
        "the copy is gone"
    );

    // The engine has noticed nothing.
    engine.press("r");
    engine.see("retry of port vault-safe");
}

#[test]
fn without_a_terminal_a_replay_lists_how_the_deletions_stood() {
    let stage = Stage::new();
    let (seat, ledger) = stuck(&stage);
    drop(seat);
    let before = std::fs::read(&ledger).unwrap();
    let last = stage.json(&["replay", &ledger]);
    assert_eq!(last[0]["state"], "stuck", "{last}");
    let asked = last[0]["requested_at"].as_str().unwrap();
    let first = stage.json(&["replay", &ledger, "--from", asked]);
    assert_eq!(first[0]["state"], "planning", "{first}");
    assert_eq!(std::fs::read(&ledger).unwrap(), before);

    let foreign = stage.write("notes.txt", "no ledger");
    for (arguments, told) in [
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
        stage.gone(&arguments).ends_with(2).complains(&[told]);
    }
}
