//! Resources at the deployment d0-1 refer to resources of other deployments, and a resource of the console's own
//! deployment is deleted.

use super::home::Home;
use super::session::Session;

#[test]
fn a_deletion_across_deployments_shows_its_blockers_and_ends_once_they_are_deleted() {
    let home = Home::new();
    let mut session = Session::start(&home, &["--sandbox=deployments"]);
    session.wait_for("2 of 2 sites reachable");
    session.open("rx", "rx 2");
    session.wait_for("blocked elsewhere");
    session.press("D");
    session.wait_for("▶ 1 step");
    session.open_confirmation();
    session.wait_for("Type the name");
    session.press("rx-1\r");
    session.wait_for("── deletion");
    // The explanation leads from the referrer c-1 to its own blocker d-1, which is not deleted.
    session.wait_for_all(&["deployment d0-1 still has c c-1", "d d-1 at d0-1"]);
    session.wait_for_all(&["└ c c-1 @d0-1", "└ d d-1 @d0-1"]);
    let socket = home.path(".local/state/gone/sandbox/d0-1.sock");
    let at_d0_1 = |line: &str| {
        let mut arguments = vec!["--socket", socket.to_str().unwrap()];
        arguments.extend(line.split(' '));
        home.json(&arguments)
    };
    let kept = |kind: &str| -> Vec<String> {
        let rows = at_d0_1(&format!("list {kind}"));
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    };
    // The cascading referrer is gone, the referrer whose reference is unset has lost only this reference, and the
    // blocked referrer is `DELETING`.
    assert_eq!(kept("a"), ["a-2"]);
    let b = &at_d0_1("list b")[0];
    assert_eq!(
        b["attributes"]["rxs"],
        serde_json::json!(["rx-2@d1-1", "rx-3@d1-2"])
    );
    assert_eq!(at_d0_1("list c")[0]["attributes"]["status"], "DELETING");
    let watched = at_d0_1("list deployments");
    let watched = watched.as_array().unwrap().iter();
    assert_eq!(watched.filter(|row| !row["watch"].is_null()).count(), 4);
    session.open("deployments", "deployments 4");
    session.wait_for_all(&["d0-1", "s0/r1"]);
    let deleted = home.gone(&[
        "--socket",
        socket.to_str().unwrap(),
        "delete",
        "d/d-1",
        "--yes",
        "--wait=30s",
    ]);
    deleted.ok();
    session.open("deletions", "deletions 1");
    session.wait_for("✓ gone");
    session.open("rx", "rx 1");
    assert_eq!(kept("c"), Vec::<String>::new());
    session.quit();
}
