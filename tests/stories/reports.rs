//! The report of a deletion, written from the console: a web page that only its owner can read.

use std::os::unix::fs::PermissionsExt as _;

use super::home::Home;
use super::session::Session;

#[test]
fn a_report_is_written_from_the_console_and_replaces_a_file_only_after_a_question() {
    let mut home = Home::new();
    home.serve_cloud("quiet");
    home.start_engine(&[]);
    let target = "network/quiet-net-1@sandbox/RegionOne";
    home.stdout_of(&["delete", target, "--cascade", "--yes", "--wait=60s"]);
    let id = home.only_deletion()["id"].as_str().unwrap().to_owned();
    let name = format!("deletion-{}.html", &id[id.len() - 8..]);
    let file = home.path(&name);

    let mut session = Session::start(&home, &[]);
    session.open("deletions", "deletions 1");
    session.press("W");
    session.wait_for(&format!("report to: {name}"));
    session.press("\r");
    session.wait_for("the report is in /");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("network quiet-net-1"), "{page}");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The command line writes the same page, except for the time of the report.
    let other = home.path("other.html").display().to_string();
    home.stdout_of(&["report", &id, "--html", &other]);
    let same = |page: &str| page.split("reported at").next().unwrap().to_owned();
    assert_eq!(same(&page), same(&std::fs::read_to_string(&other).unwrap()));

    std::fs::write(&file, "mine").unwrap();
    session.press("W");
    session.wait_for(&format!("report to: {name}"));
    session.press("\r");
    session.wait_for("exists already.");
    session.press("\x1b");
    session.wait_for("no report was written");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    session.press("W");
    session.wait_for(&format!("report to: {name}"));
    session.press("\r");
    session.wait_for("exists already.");
    session.press("y");
    session.wait_for("the report is in /");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("quiet-net-1")
    );

    // A path in a folder that does not exist is an error.
    session.press("W");
    session.wait_for(&format!("report to: {name}"));
    session.press("\x15nowhere/a.html\r");
    session.wait_for("the report could not be written");
    session.quit();
}
