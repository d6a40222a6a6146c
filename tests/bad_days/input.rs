//! Bad input: a clear error that names the field and the nearest valid value.

use serde_json::json;

use super::support::{PASSWORD, SITE, Stage, text, wait_for};

#[test]
fn t02_an_unknown_kind_suggests_the_nearest() {
    let stage = Stage::new();
    for verb in ["plan", "delete --yes"] {
        stage
            .gone(&format!("{verb} netwrok/web"))
            .ends_with(2)
            .stderr_has(&["netwrok/web", "unknown kind", "did you mean", "network"]);
    }
    assert!(stage.writes().is_empty());
}

#[test]
fn an_ambiguous_name_lists_both_resources_and_deletes_neither() {
    let stage = Stage::new();
    let (one, two) = (stage.network("web", 1), stage.network("web", 1));
    stage
        .gone("delete network/web-net-0 --cascade --yes")
        .ends_with(2)
        .stderr_has(&[
            "delete network/web-net-0",
            "2 resources fit",
            &one,
            &two,
            "Write one of these",
        ]);
    let ran = stage
        .gone("delete network/web-net-0 --yes -o json")
        .ends_with(2);
    let candidates = ran.failure()["candidates"].as_array().unwrap().len();
    assert_eq!(candidates, 2, "{}", ran.err);
    assert!(stage.writes().is_empty());
    // The advice works: an id is unambiguous.
    stage.gone(&format!("plan network/{one}")).ok();
}

#[test]
fn a_missing_target_is_reported_with_the_site_that_was_searched() {
    let stage = Stage::new();
    stage
        .gone("delete network/wbe --yes")
        .ends_with(2)
        .stderr_has(&[
            "delete network/wbe",
            "no network",
            "\"wbe\"",
            SITE,
            "gone list KIND",
        ]);
}

#[test]
fn a_wrong_setting_is_reported_with_its_file_line_and_key() {
    let stage = Stage::new();
    let file = stage.settings("[engine]\n# calls\nconcurency = 4\n");
    let file = file.to_str().unwrap();
    for verb in ["list", "--engine", "plan network/web"] {
        stage.gone(verb).ends_with(2).stderr_has(&[
            file,
            "line 3",
            "engine.concurency",
            "did you mean",
            "concurrency",
            "--print-config",
        ]);
    }
    stage.settings("[engine]\ncall_timeout = \"soon\"\n");
    stage.gone("list").ends_with(2).stderr_has(&[
        "line 2",
        "engine.call_timeout",
        "\"soon\" is not a duration",
        "30s",
    ]);
    stage.settings("[console]\nkeys.retry = [\"R\"]\nkeys.rety = [\"F\"]\n");
    let wrong = "line 3, console.keys.rety: no such action; did you mean \"retry\"";
    stage.gone("list").ends_with(2).stderr_has(&[file, wrong]);
    let doctor = stage.gone("doctor").ends_with(2).out;
    assert!(doctor.contains(wrong), "{doctor}");
    stage.settings("[engine\n");
    stage
        .gone("list")
        .ends_with(2)
        .stderr_has(&[file, "line 1"]);
    stage
        .gone("list --config nowhere.toml")
        .ends_with(2)
        .stderr_has(&["nowhere.toml", "cannot be read"]);
}

#[test]
fn a_wrong_password_names_its_file_and_is_not_printed() {
    let stage = Stage::with_web(1);
    stage.clouds_yaml(&stage.url, "wrong-Qx7", "RegionOne");
    for verb in ["plan", "explain", "delete --cascade --yes"] {
        let ran = stage
            .gone(&format!("{verb} network/web-net-0"))
            .ends_with(3)
            .stderr_has(&[
                "network/web-net-0",
                "login refused",
                "\"prod\"",
                "clouds.yaml",
                "gone doctor",
            ]);
        assert!(!ran.err.contains("wrong-Qx7"), "{}", ran.err);
    }
    stage.gone("doctor").ends_with(3);
    assert!(stage.writes().is_empty());
}

#[test]
fn an_unknown_target_cloud_deletion_or_ledger_exits_with_2() {
    let stage = Stage::new();
    for (target, message) in [
        (
            "network/nothing",
            "no cloud that was asked has it, and the ledger does not know it",
        ),
        ("netwrk/web", "netwrk"),
        ("network/web@prd/RegionOne", "prd"),
        ("network/web --cloud prd", "prd"),
        ("019b0000-0000-7000-8000-000000000000", "gone show ID"),
    ] {
        let ran = stage.gone(&format!("explain {target}"));
        ran.ends_with(2).stderr_has(&[message]);
    }
    let doctor = stage.gone("doctor --cloud prd").ends_with(2).out;
    assert!(
        doctor.contains("no cloud \"prd\"; did you mean \"prod\"?"),
        "{doctor}"
    );
    for verb in ["show", "drift", "retry"] {
        let accept = if verb == "drift" { " --accept" } else { "" };
        stage.gone(&format!("{verb} ffffffff{accept}")).ends_with(2);
    }
    stage
        .gone("ledger check --ledger nowhere/l.db")
        .ends_with(2);
}

#[test]
fn an_unknown_region_or_cloud_suggests_the_nearest() {
    let stage = Stage::in_regions(&["RegionOne", "RegionTwo"]);
    for line in [
        "plan network/web --region RegionTow",
        "plan network/web@prod/RegionTow --all-regions",
        "explain network/web --region RegionTow",
        "explain network/web@prod/RegionTow --all-regions",
    ] {
        stage
            .gone(line)
            .ends_with(2)
            .stderr_has(&["RegionTow", "did you mean", "RegionTwo"]);
    }
    stage
        .gone("plan network/web --cloud prd")
        .ends_with(2)
        .stderr_has(&["prd", "did you mean", "prod", "gone doctor"]);
    // For a region that only `clouds.yaml` has, the message lists the regions of the cloud.
    stage.clouds_yaml(&stage.url, PASSWORD, "RegionThree");
    stage.gone("plan network/web").ends_with(2).stderr_has(&[
        "RegionThree",
        "RegionOne",
        "RegionTwo",
    ]);
}

#[test]
fn an_unknown_deletion_id_or_scenario_exits_with_2() {
    let stage = Stage::new();
    stage.gone("show 00000000").ends_with(2).stderr_has(&[
        "show 00000000",
        "no deletion",
        "gone list",
    ]);
    stage
        .gone("sandbox --scenario nowhere")
        .ends_with(2)
        .stderr_has(&["nowhere", "practice"]);
}

#[test]
fn errors_are_json_with_the_json_option() {
    let stage = Stage::with_web(1);
    for (line, code, class) in [
        ("plan netwrok/web -o json", 2, "usage"),
        ("plan network/none -o json", 2, "not_found"),
        ("delet network/web -o json", 2, "usage"),
        ("delete network/web-net-0 -o json", 2, "usage"),
        (
            "delete network/web-net-0 --yes --read-only -o json",
            6,
            "refused",
        ),
        ("show 00000000 -o json", 2, "not_found"),
        ("list --config nowhere -o json", 2, "usage"),
        ("list --socket /proc/none/x -o json", 2, "usage"),
    ] {
        let ran = stage.gone(line).ends_with(code);
        let failure = ran.failure();
        assert_eq!(failure["error"], class, "{line}: {failure}");
        assert_eq!(failure["exit_code"], code, "{line}");
        assert!(!failure["message"].as_str().unwrap().is_empty(), "{line}");
        assert!(!failure["tried"].as_str().unwrap().is_empty(), "{line}");
        assert_eq!(ran.out, "", "{line}");
    }
    stage.faults(json!([{"match": {"path": "/v2.0/"}, "action": {"status": 503}}]));
    stage.settings("[engine]\nread_patience = \"1s\"\n");
    let failure = stage
        .gone("plan network/web-net-0 -o json")
        .ends_with(5)
        .failure();
    assert_eq!(failure["error"], "unreachable", "{failure}");
}

#[test]
fn i15_a_refused_login_is_retried_once_its_file_changes_and_says_so() {
    let stage = Stage::new();
    stage.clouds_yaml(&stage.url, "not-it", "RegionOne");
    // Within the time of the test, only a change of `clouds.yaml` repeats the login.
    stage.settings("[engine]\nsign_in_every = \"30m\"\n");
    let engine = stage.engine();
    let status = || stage.gone("list sites -o json").ok().json()[0].clone();
    wait_for("the refused login", || status()["state"] == "paused");
    let why = text(&status()["reason"]);
    for word in [
        "login refused",
        "clouds.yaml",
        "retried at",
        "as soon as it is changed",
        "gone resume prod/RegionOne",
    ] {
        assert!(why.contains(word), "no {word:?} in {why}");
    }
    // A plan repeats Keystone's refusal without a new login, and says when the next one may come.
    stage
        .gone("plan network/none")
        .ends_with(3)
        .stderr_has(&["does not log in before"]);
    let logins = || {
        let calls = stage.calls().into_iter();
        calls.filter(|call| call.path == "/v3/auth/tokens").count()
    };
    let before = logins();
    stage.gone("plan network/none").ends_with(3);
    assert_eq!(logins(), before);
    stage.clouds_yaml(&stage.url, PASSWORD, "RegionOne");
    wait_for("the new login", || status()["state"] == "reachable");
    engine.stop().ok();
}
