//! The report of a deletion, written from the console: a web page that only its owner can read.

use std::os::unix::fs::PermissionsExt as _;

use super::seat::Seat;
use super::stage::Stage;

#[test]
fn a_report_is_written_from_the_console_and_replaces_a_file_only_after_a_question() {
    let mut stage = Stage::new();
    stage.serve_cloud("quiet");
    stage.start_engine(&[]);
    let target = "network/quiet-net-1@sandbox/RegionOne";
    stage.say(&["delete", target, "--cascade", "--yes", "--wait=60s"]);
    let id = stage.only_deletion()["id"].as_str().unwrap().to_owned();
    let name = format!("deletion-{}.html", &id[id.len() - 8..]);
    let file = stage.path(&name);

    let mut seat = Seat::take(&stage, &[]);
    seat.go("deletions", "deletions 1");
    seat.press("W");
    seat.see(&format!("report to: {name}"));
    seat.press("\r");
    seat.see("the report is in /");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("network quiet-net-1"), "{page}");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The same as the command line writes, but for the time.
    let other = stage.path("other.html").display().to_string();
    stage.say(&["report", &id, "--html", &other]);
    let same = |page: &str| page.split("reported at").next().unwrap().to_owned();
    assert_eq!(same(&page), same(&std::fs::read_to_string(&other).unwrap()));

    std::fs::write(&file, "mine").unwrap();
    seat.press("W");
    seat.see(&format!("report to: {name}"));
    seat.press("\r");
    seat.see("exists already.");
    seat.press("\x1b");
    seat.see("no report was written");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    seat.press("W");
    seat.see(&format!("report to: {name}"));
    seat.press("\r");
    seat.see("exists already.");
    seat.press("y");
    seat.see("the report is in /");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("quiet-net-1")
    );

    // In a folder that does not exist nothing is written, and it says so.
    seat.press("W");
    seat.see(&format!("report to: {name}"));
    seat.press("\x15nowhere/a.html\r");
    seat.see("the report could not be written");
    seat.press("q");
    seat.left();
}
