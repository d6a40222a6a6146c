//! Story 14: the doctor and the console on a new machine.

use std::os::unix::fs::PermissionsExt as _;

use super::home::{BLOCKED, Home};
use super::session::Session;
use super::variation::{Variation, in_variations};

in_variations! { run,
    baseline fn story_14_the_doctor_reports_clouds_and_logins_and_the_console_opens();
    slow_cloud fn story_14_the_doctor_reports_clouds_and_logins_and_the_console_opens_on_a_slow_cloud();
    fast_cloud fn story_14_the_doctor_reports_clouds_and_logins_and_the_console_opens_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    home.serve_cloud(BLOCKED);
    home.cloud = None;
    let clouds_yaml = home.path(".config/openstack/clouds.yaml");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&clouds_yaml, mode).unwrap();

    let mut session = Session::start(&home, &["doctor"]);
    assert_eq!(session.exit_code(), 0, "{}", session.text());
    session.wait_for("Next: `gone` opens the console");
    let raw = String::from_utf8(session.raw()).unwrap();
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
        "no engine runs; `gone` starts one",
        &format!(
            "xterm-256color, {}x{}, colour, UTF-8",
            variation.columns, variation.rows
        ),
    ] {
        assert!(flat.contains(found), "{found} in\n{raw}");
    }
    // The doctor created no files.
    assert!(!home.path(".local").exists());

    let mut session = Session::start(&home, &[]);
    session.wait_for_all(&[
        "2 of 2 sites reachable",
        "engine in this console",
        ":network lists the networks",
    ]);
    session.open("network", "network 3");
    session.quit();
}

in_variations! { run_wrong_password,
    baseline fn story_14_a_wrong_password_is_reported_with_advice_and_never_printed();
    slow_cloud fn story_14_a_wrong_password_is_reported_with_advice_and_never_printed_on_a_slow_cloud();
    fast_cloud fn story_14_a_wrong_password_is_reported_with_advice_and_never_printed_on_a_fast_cloud();
}

fn run_wrong_password(variation: &Variation) {
    let mut home = Home::with(variation);
    home.serve_cloud(BLOCKED);
    let clouds_yaml = home.path(".config/openstack/clouds.yaml");
    let text = std::fs::read_to_string(&clouds_yaml).unwrap();
    let text = text.replacen("password: ", "password: no", 1);
    std::fs::write(&clouds_yaml, &text).unwrap();
    let wrong = text.split_once("password: ").unwrap().1;
    let wrong = wrong.lines().next().unwrap().to_owned();
    let mut session = Session::start(&home, &["doctor"]);
    assert_eq!(session.exit_code(), 3, "{}", session.text());
    session.wait_for_all(&[
        "login sandbox/RegionOne",
        "Check user, password, project and domains",
    ]);
    // The console opens nevertheless, and shows the same problem.
    let mut console = Session::start(&home, &[]);
    console.wait_for("0 of 1 sites reachable");
    console.open("sites", "sites 1");
    console.wait_for_all(&[
        "401 Unauthorized",
        "check user, domain, project and secret of cloud \"sandbox\"",
    ]);
    console.press("q");
    console.assert_clean_exit();
    for output in [session.raw(), console.raw()] {
        let output = String::from_utf8_lossy(&output).into_owned();
        assert!(!output.contains(&wrong), "{output}");
    }
}

in_variations! { run_without_clouds,
    baseline fn story_14_without_a_cloud_gone_says_so_and_offers_the_practice_cloud();
    slow_cloud fn story_14_without_a_cloud_gone_says_so_and_offers_the_practice_cloud_on_a_large_screen();
    fast_cloud fn story_14_without_a_cloud_gone_says_so_and_offers_the_practice_cloud_to_a_slow_user();
}

fn run_without_clouds(variation: &Variation) {
    let mut home = Home::with(variation);
    home.cloud = None;
    let mut session = Session::start(&home, &[]);
    assert_eq!(session.exit_code(), 2, "{}", session.text());
    session.wait_for_all(&["there is no cloud", "clouds.yaml", "gone --sandbox"]);
    let raw = session.raw();
    assert!(
        !raw.windows(8).any(|bytes| bytes == b"\x1b[?1049h"),
        "the program must not switch to the alternate screen"
    );

    // Without a terminal, too, the error names the next step.
    home.gone(&[])
        .ends_with(2)
        .stderr_has(&["is not a terminal", "gone --help"]);

    let mut session = Session::start(&home, &["--sandbox"]);
    session.wait_for_all(&["2 of 2 sites reachable", ":tour shows you round"]);
    session.press("q");
    session.wait_for("s    stop it");
    session.press("s");
    session.assert_clean_exit();
}
