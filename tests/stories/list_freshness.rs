//! A list drops a deleted resource within two seconds, whether the list is plain, filtered, with marks, or shown again
//! after another pane.

use std::time::{Duration, Instant};

use super::home::{Home, until};
use super::session::Session;
use super::variation::Variation;

const DELAY_MAX: Duration = Duration::from_secs(2);

#[test]
fn a_list_drops_a_deleted_network_within_two_seconds() {
    run(80, 24);
}

#[test]
fn a_list_on_a_wide_screen_drops_a_deleted_network_within_two_seconds() {
    run(200, 60);
}

fn run(columns: u16, rows: u16) {
    let mut variation = Variation::baseline();
    (variation.columns, variation.rows) = (columns, rows);
    let mut home = Home::with(&variation);
    home.serve_cloud("quiet");
    home.start_engine(&["--all-regions"]);
    let mut session = Session::start(&home, &[]);
    session.open("network", "network ");
    // The keys before and after the deletion of the network. The list is plain, then filtered, then has a mark, and
    // then is behind the help.
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
        session.wait_until("the network", is_listed);
        session.press(before);
        let target = format!("network/{network}@sandbox/{region}");
        home.stdout_of(&["delete", &target, "--cascade", "--yes", "--wait=60s"]);
        let ended = Instant::now();
        session.press(after);
        until(
            "list without the network",
            || session.text(),
            || {
                let has_list = session.text().contains("── network ");
                (has_list && !is_listed(&session.text())).then_some(())
            },
        );
        let delay = ended.elapsed();
        assert!(delay < DELAY_MAX, "{network} after {before:?}: {delay:?}");
    }
    // Deleted resources have no marks.
    assert!(!session.text().contains(" marked"), "{}", session.text());
    session.quit();
}
