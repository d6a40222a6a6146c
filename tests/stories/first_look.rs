//! Story 15: the first screen, on which nothing was typed.

use super::seat::Seat;
use super::stage::{Stage, until};
use super::telling::Telling;

#[test]
fn story_15_the_first_screen_says_what_needs_whom_what_runs_and_which_site_is_down() {
    tell(80, 24);
}

#[test]
fn story_15_on_a_wide_screen_it_also_shows_the_row_under_the_cursor() {
    tell(200, 60);
}

fn tell(columns: u16, rows: u16) {
    let mut telling = Telling::as_written();
    (telling.columns, telling.rows) = (columns, rows);
    let mut stage = Stage::of(&telling);
    let cloud = stage.serve_cloud("practice");
    // A second cloud, which does not answer.
    let clouds = stage.path(".config/openstack/clouds.yaml");
    let mut text = std::fs::read_to_string(&clouds).unwrap();
    text.push_str(
        "  attic:\n    auth:\n      auth_url: http://127.0.0.1:1/v3\n      username: nobody\n      password: x\n      \
         project_name: nobody\n      user_domain_id: default\n      project_domain_id: default\n    region_name: \
         RegionOne\n",
    );
    std::fs::write(&clouds, text).unwrap();
    stage.cloud = None;
    let engine = stage.start_engine(&["--all-regions"]);
    for target in [
        "network/render-farm@sandbox/RegionTwo",
        "network/staging@sandbox/RegionOne",
        "network/vault@sandbox/RegionOne",
    ] {
        stage.say(&["delete", target, "--cascade", "--yes"]);
    }
    let told = || stage.json(&["list"]).to_string();
    until("a stuck and a blocked step", told, || {
        let all = stage.json(&["list"]);
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

    let mut seat = Seat::take(&stage, &[]);
    seat.see_all(&[
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
        seat.see_all(&["causes 2 causes of 2 steps", "1 × port"]);
    }
    // How long it takes is said where it is known: of what is blocked only when its next attempt is.
    let row = |name: &str| {
        let text = seat.text();
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
    seat.wait("a range for what runs", |text| {
        let line = text
            .lines()
            .find(|line| line.contains("network render-farm"));
        line.is_some_and(|line| line.contains(" min"))
    });
    // The row under the cursor, beside the rows where the screen is wide.
    seat.press("j");
    let is_beside = columns >= 160;
    seat.wait("the details of the stuck step", |text| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("not retried automatically"));
        line.is_some_and(|line| line.contains('│') == is_beside)
    });
    seat.press("q");
    seat.left();
}
