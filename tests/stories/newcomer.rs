//! Story 14: a new machine.

use std::os::unix::fs::PermissionsExt as _;

use super::seat::Seat;
use super::stage::Stage;
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/blocked.toml"
);

#[test]
fn story_14_the_doctor_says_what_was_found_and_then_the_console_opens() {
    tell(&Telling::as_written());
}

#[test]
fn story_14_the_doctor_says_what_was_found_and_then_the_console_opens_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_14_the_doctor_says_what_was_found_and_then_the_console_opens_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    stage.serve_cloud(SCENARIO);
    stage.cloud = None;
    let clouds_yaml = stage.path(".config/openstack/clouds.yaml");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&clouds_yaml, mode).unwrap();

    let mut seat = Seat::take(&stage, &["doctor"]);
    assert_eq!(seat.ended(), 0, "{}", seat.text());
    seat.see("Next: `gone` opens the console");
    let raw = String::from_utf8(seat.raw()).unwrap();
    let flat = raw.split_whitespace().collect::<Vec<_>>().join(" ");
    for found in [
        "cloud sandbox",
        "cloud sandbox-demo",
        "RegionOne; in",
        "(mode 644)",
        "chmod 600",
        "login sandbox/RegionOne",
        "login sandbox-demo/RegionOne",
        "admin",
        "demo",
        "ledger.db can be written",
        "none runs; `gone` brings its own",
        &format!(
            "xterm-256color, {}x{}, colour, UTF-8",
            telling.columns, telling.rows
        ),
    ] {
        assert!(flat.contains(found), "{found} in\n{raw}");
    }
    // Looking changed nothing.
    assert!(!stage.path(".local").exists());

    let mut seat = Seat::take(&stage, &[]);
    seat.see_all(&[
        "2 of 2 sites reachable",
        "engine in this console",
        ":network lists the networks",
    ]);
    seat.go("network", "network 3");
    seat.press("q");
    seat.left();
}

#[test]
fn story_14_a_wrong_password_is_named_with_what_to_do() {
    tell_of_a_wrong_password(&Telling::as_written());
}

#[test]
fn story_14_a_wrong_password_is_named_with_what_to_do_told_otherwise() {
    tell_of_a_wrong_password(&Telling::otherwise());
}

#[test]
fn story_14_a_wrong_password_is_named_with_what_to_do_told_at_leisure() {
    tell_of_a_wrong_password(&Telling::at_leisure());
}

fn tell_of_a_wrong_password(telling: &Telling) {
    let mut stage = Stage::of(telling);
    stage.serve_cloud(SCENARIO);
    let clouds_yaml = stage.path(".config/openstack/clouds.yaml");
    let text = std::fs::read_to_string(&clouds_yaml).unwrap();
    let text = text.replacen("password: ", "password: no", 1);
    std::fs::write(&clouds_yaml, &text).unwrap();
    let wrong = text.split_once("password: ").unwrap().1;
    let wrong = wrong.lines().next().unwrap().to_owned();
    let mut seat = Seat::take(&stage, &["doctor"]);
    assert_eq!(seat.ended(), 3, "{}", seat.text());
    seat.see_all(&[
        "login sandbox/RegionOne",
        "Check user, password, project and domains",
    ]);
    // And the console opens, so that it can be seen there too.
    let mut console = Seat::take(&stage, &[]);
    console.see("0 of 1 sites reachable");
    console.go("sites", "sites 1");
    console.see_all(&[
        "401 Unauthorized",
        "check user, domain, project and secret of cloud \"sandbox\"",
    ]);
    console.press("q");
    console.left();
    for said in [seat.raw(), console.raw()] {
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.contains(&wrong), "{said}");
    }
}

#[test]
fn story_14_without_any_configuration_it_says_so_and_offers_the_sandbox() {
    tell_of_nothing(&Telling::as_written());
}

#[test]
fn story_14_without_any_configuration_it_says_so_and_offers_the_sandbox_told_otherwise() {
    tell_of_nothing(&Telling::otherwise());
}

#[test]
fn story_14_without_any_configuration_it_says_so_and_offers_the_sandbox_told_at_leisure() {
    tell_of_nothing(&Telling::at_leisure());
}

fn tell_of_nothing(telling: &Telling) {
    let mut stage = Stage::of(telling);
    stage.cloud = None;
    let mut seat = Seat::take(&stage, &[]);
    assert_eq!(seat.ended(), 2, "{}", seat.text());
    seat.see_all(&["there is no cloud", "clouds.yaml", "gone --sandbox"]);
    let raw = seat.raw();
    assert!(
        !raw.windows(8).any(|bytes| bytes == b"\x1b[?1049h"),
        "no screen was taken"
    );

    // Nor a terminal: a script is told the same way out.
    stage
        .gone(&[])
        .ends_with(2)
        .complains(&["this is not a terminal", "gone --help"]);

    let mut seat = Seat::take(&stage, &["--sandbox"]);
    seat.see_all(&["2 of 2 sites reachable", ":tour shows you round"]);
    seat.press("q");
    seat.see("s    stop it");
    seat.press("s");
    seat.left();
}
