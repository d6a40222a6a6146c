//! A list shows nothing that ended more than two seconds ago, however it is looked at.

use std::time::{Duration, Instant};

use super::seat::Seat;
use super::stage::{Stage, until};
use super::telling::Telling;

const LATE: Duration = Duration::from_secs(2);

#[test]
fn a_list_shows_no_network_that_went_more_than_two_seconds_ago() {
    tell(80, 24);
}

#[test]
fn a_list_on_a_wide_screen_shows_no_network_that_went_more_than_two_seconds_ago() {
    tell(200, 60);
}

fn tell(columns: u16, rows: u16) {
    let mut telling = Telling::as_written();
    (telling.columns, telling.rows) = (columns, rows);
    let mut stage = Stage::of(&telling);
    stage.serve_cloud("quiet");
    stage.start_engine(&["--all-regions"]);
    let mut seat = Seat::take(&stage, &[]);
    seat.go("network", "network ");
    // What is pressed before and after the network's deletion ends, while its list is shown, filtered, marked and
    // hidden.
    for (before, after, network, region) in [
        ("", "", "quiet-net-0", "RegionOne"),
        ("/quiet\r", "\x1b", "quiet-net-1", "RegionOne"),
        ("* ", "u", "quiet-net-0", "RegionTwo"),
        ("?", "\x1b", "quiet-net-1", "RegionTwo"),
    ] {
        let is_listed = |text: &str| {
            let mut lines = text.lines();
            lines.any(|line| line.contains(network) && line.contains(region))
        };
        seat.wait("the network", is_listed);
        seat.press(before);
        let target = format!("network/{network}@sandbox/{region}");
        stage.say(&["delete", &target, "--cascade", "--yes", "--wait=60s"]);
        let ended = Instant::now();
        seat.press(after);
        until(
            "list without it",
            || seat.text(),
            || {
                let has_list = seat.text().contains("── network ");
                (has_list && !is_listed(&seat.text())).then_some(())
            },
        );
        let late = ended.elapsed();
        assert!(late < LATE, "{network} after {before:?}: {late:?}");
    }
    // The marks of what is gone are gone too.
    assert!(!seat.text().contains(" marked"), "{}", seat.text());
    seat.press("q");
    seat.left();
}
