//! The source design's own example as a scene: D0-1 refers to what other deployments keep, and something
//! in the console's own deployment is deleted.

use super::seat::Seat;
use super::stage::Stage;

#[test]
fn a_scene_of_five_deployments_says_who_holds_what_and_goes_once_nothing_does() {
    let stage = Stage::new();
    let mut seat = Seat::take(&stage, &["--sandbox=deployments"]);
    seat.see("2 of 2 sites reachable");
    seat.go("rx", "rx 2");
    seat.see("blocked elsewhere");
    seat.press("D");
    seat.see("▶ 1 step");
    seat.go_on();
    seat.see("Type the name");
    seat.press("rx-1\r");
    seat.see("── deletion");
    // From end to end: who points at it, and what holds that, which stays.
    seat.see_all(&["deployment d0-1 still has c c-1", "d d-1 at d0-1"]);
    seat.see_all(&["└ c c-1 @d0-1", "└ d d-1 @d0-1"]);
    let socket = stage.path(".local/state/gone/sandbox/d0-1.sock");
    let there = |line: &str| {
        let mut arguments = vec!["--socket", socket.to_str().unwrap()];
        arguments.extend(line.split(' '));
        stage.json(&arguments)
    };
    let kept = |kind: &str| -> Vec<String> {
        let rows = there(&format!("list {kind}"));
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    };
    // What cascades is gone, what is unset points at the others only, and what is held is marked.
    assert_eq!(kept("a"), ["a-2"]);
    let b = &there("list b")[0];
    assert_eq!(
        b["attributes"]["rxs"],
        serde_json::json!(["rx-2@d1-1", "rx-3@d1-2"])
    );
    assert_eq!(there("list c")[0]["attributes"]["status"], "DELETING");
    let watched = there("list deployments");
    let watched = watched.as_array().unwrap().iter();
    assert_eq!(watched.filter(|row| !row["watch"].is_null()).count(), 4);
    seat.go("deployments", "deployments 4");
    seat.see_all(&["d0-1", "s0/r1"]);
    let deleted = stage.gone(&[
        "--socket",
        socket.to_str().unwrap(),
        "delete",
        "d/d-1",
        "--yes",
        "--wait=30s",
    ]);
    deleted.ok();
    seat.go("deletions", "deletions 1");
    seat.see("✓ gone");
    seat.go("rx", "rx 1");
    assert_eq!(kept("c"), Vec::<String>::new());
    seat.press("q");
    seat.left();
}
