//! Story 7: 1,500 failures after an outage, with three causes. The variations have fewer failures.

use serde_json::{Value, json};

use super::home::{Cloud, Home, until};
use super::session::Session;
use super::variation::{Variation, in_variations};

/// Starts an engine whose ledger has the deletion of all ports, stuck since the outage. Each cause has a third of the
/// ports. Returns the cloud.
fn start_after_outage(home: &mut Home) -> Cloud {
    let settings = "[[guard.protect]]\nkind = 'port'\nname = 'keep-*'\n";
    home.write(".config/gone/config.toml", settings);
    home.start_practice_engine("outage");
    home.embedded_cloud()
}

/// Renames this many ports whose delete was forbidden, so that `[[guard.protect]]` protects them.
fn protect(home: &Home, cloud: &Cloud, count: usize) {
    let stuck: Value = home.json(&["list", "stuck"]);
    let stuck = stuck.as_array().unwrap().iter();
    let forbidden = stuck.filter(|step| step["last_error"]["status"] == 403);
    for (n, step) in forbidden.take(count).enumerate() {
        let path = format!("/ports/{}", step["resource"]["id"].as_str().unwrap());
        let name = json!({"port": {"name": format!("keep-{n}")}});
        let (status, answer) = cloud.call("admin", "PUT", &path, name);
        assert_eq!(status, 200, "{answer}");
    }
}

in_variations! { run,
    baseline fn story_7_p04_marked_causes_are_counted_and_retried_from_the_console();
    slow_cloud fn story_7_p04_marked_causes_are_counted_and_retried_from_the_console_on_a_slow_cloud();
    fast_cloud fn story_7_p04_marked_causes_are_counted_and_retried_from_the_console_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = start_after_outage(&mut home);
    protect(&home, &cloud, 20);
    let writes = cloud.writes().len();
    let mut session = Session::start(&home, &[]);
    session.wait_for("✖");
    session.open("stuck", "stuck");
    session.wait_for("PolicyNotAuthorized");
    session.press("g");
    let third = variation.count(500);
    session.wait_for_all(&[
        &format!("{third} port 403 PolicyNotAuthorized (fatal)"),
        &format!("{third} port 400 BadRequest (fatal)"),
        &format!("{third} port 404 HTTPNotFound (fatal)"),
        "1 network DependencyStuck",
    ]);
    session.press(" ");
    session.wait_for("1 marked");
    // Marking a row moves the cursor to the next row.
    session.press("  ");
    session.wait_for("3 marked");
    session.press("r");
    let eligible = variation.count(1_500) - 20;
    let shown = match eligible {
        1_000.. => format!("{},{:03}", eligible / 1_000, eligible % 1_000),
        _ => eligible.to_string(),
    };
    session.wait_for_all(&[
        &format!("{shown} steps can be retried, 20 cannot"),
        "20 not: the resource is protected",
        &format!("how many are retried: {eligible}"),
    ]);
    session.wait_for_prompt();
    // A wrong number does not retry anything.
    session.press(&format!("{}\r", variation.count(1_000)));
    session.wait_for("That is not it");
    assert_eq!(cloud.writes().len(), writes);
    session.press(&format!("\u{15}{eligible}\r"));
    session.wait_for(&format!("{shown} retried, 20 not"));
    home.wait_for_deletion("end of all steps but the protected ones", |deletion| {
        let counts = &deletion["counts"];
        counts["stuck"] == 21 && counts["running"] == 0 && counts["ready"] == 0
    });
    session.wait_for_all(&["20 port 403 PolicyNotAuthorized"]);
    session.press("g\r");
    session.wait_for("── port stuck, 403 PolicyNotAuthorized (fatal): 20");
    session.quit();
}

in_variations! { run_retry_verbs,
    baseline fn story_7_each_cause_is_counted_and_retried_from_the_command_line();
    slow_cloud fn story_7_each_cause_is_counted_and_retried_from_the_command_line_on_a_slow_cloud();
    fast_cloud fn story_7_each_cause_is_counted_and_retried_from_the_command_line_on_a_fast_cloud();
}

fn run_retry_verbs(variation: &Variation) {
    let mut home = Home::with(variation);
    start_after_outage(&mut home);
    let retried = |options: &[&str]| home.json(&[&["retry", "--all"], options].concat());
    let third = variation.count(500);
    let refused = ["--type", "PolicyNotAuthorized"];
    let counted = retried(&[&refused[..], &["--dry-run"]].concat());
    assert_eq!(
        counted,
        json!({ "eligible": third, "not_eligible": [], "moved": 0 })
    );
    assert_eq!(home.only_deletion()["state"], "stuck");
    // The network waits for stuck steps, so a retry does not include it.
    let whole = retried(&["--dry-run"]);
    assert_eq!(
        whole["not_eligible"],
        json!([{ "reason": "waits for another step that is stuck", "steps": 1 }])
    );

    let moved = retried(&refused);
    assert_eq!(
        (&moved["eligible"], &moved["moved"]),
        (&json!(third), &json!(third))
    );
    // After the retry, no step has the first cause.
    let counts = || retried(&[&refused[..], &["--dry-run"]].concat()).to_string();
    until("end of the first cause", counts, || {
        let counted = retried(&[&refused[..], &["--dry-run"]].concat());
        (counted["eligible"] == 0).then_some(())
    });
    let said = home.stdout_of(&["retry", "--all", "--status", "400"]);
    assert!(
        said.starts_with(&format!(
            "{third} steps can be retried, 0 cannot; {third} retried"
        )),
        "{said}"
    );
    home.stdout_of(&["retry", "--all", "--kind", "port"]);
    home.wait_for_deletion("end", |deletion| deletion["state"] == "gone");
}
