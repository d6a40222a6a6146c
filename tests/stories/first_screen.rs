//! Story 15: the first screen, before the user types anything.

use super::home::{Home, until};
use super::session::Session;
use super::variation::Variation;

#[test]
fn story_15_the_first_screen_shows_stuck_steps_running_deletions_and_unreachable_sites() {
    run(80, 24);
}

#[test]
fn story_15_a_wide_first_screen_shows_the_details_of_the_current_row_beside_the_rows() {
    run(200, 60);
}

fn run(columns: u16, rows: u16) {
    let mut variation = Variation::baseline();
    (variation.columns, variation.rows) = (columns, rows);
    let mut home = Home::with(&variation);
    let cloud = home.serve_cloud("practice");
    // A second cloud, whose Keystone does not answer.
    let clouds = home.path(".config/openstack/clouds.yaml");
    let mut text = std::fs::read_to_string(&clouds).unwrap();
    text.push_str(
        "  attic:\n    auth:\n      auth_url: http://127.0.0.1:1/v3\n      username: nobody\n      password: x\n      \
         project_name: nobody\n      user_domain_id: default\n      project_domain_id: default\n    region_name: \
         RegionOne\n",
    );
    std::fs::write(&clouds, text).unwrap();
    home.cloud = None;
    let engine = home.start_engine(&["--all-regions"]);
    for target in [
        "network/render-farm@sandbox/RegionTwo",
        "network/staging@sandbox/RegionOne",
        "network/vault@sandbox/RegionOne",
    ] {
        home.stdout_of(&["delete", target, "--cascade", "--yes"]);
    }
    let deletions = || home.json(&["list"]).to_string();
    until("a stuck, a blocked and a deleted step", deletions, || {
        let all = home.json(&["list"]);
        let of = |state: &str| {
            let all = all.as_array().unwrap().iter();
            all.map(|it| it["counts"][state].as_u64().unwrap())
                .sum::<u64>()
        };
        (of("stuck") >= 1 && of("blocked") >= 1 && of("gone") >= 1).then_some(())
    });
    let writes = || cloud.writes().len();
    let before = writes();
    assert!(before > 0);

    let mut session = Session::start(&home, &[]);
    session.wait_for_all(&[
        "── home",
        &format!("attached to engine {engine}"),
        "needs you",
        "stuck",
        "✖ stuck port vault-safe",
        "r retry",
        "running",
        "1 blocked",
        "▶ running network render-farm",
        "‖ blocked network staging",
        "retried next at",
        "4 of 5 reachable",
        "✖ unreachable",
        "last 24 h no deletion ended",
    ]);
    if rows >= 60 {
        session.wait_for_all(&["causes 2 causes of 2 steps", "1 × port"]);
    }
    // A running deletion shows an estimate of its remaining time, a blocked one only its next attempt.
    let row = |name: &str| {
        let text = session.text();
        let line = text.lines().find(|line| line.contains(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
            .to_owned()
    };
    assert!(
        row("network staging").contains('↻'),
        "{}",
        row("network staging")
    );
    assert!(
        !row("network staging").contains("min"),
        "{}",
        row("network staging")
    );
    session.wait_until("an estimate for the running deletion", |text| {
        let line = text
            .lines()
            .find(|line| line.contains("network render-farm"));
        line.is_some_and(|line| line.contains(" min"))
    });
    // The details of the row under the cursor are beside the rows if the screen is wide.
    session.press("j");
    let is_beside = columns >= 160;
    session.wait_until("the details of the stuck step", |text| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("not retried automatically"));
        line.is_some_and(|line| line.contains('│') == is_beside)
    });
    session.quit();
}
