//! Read-only clouds, required reasons, protected resources, and plans that differ from the cloud.

use serde_json::{Value, json};

use super::support::{Stage, text};

#[test]
fn p05_a_read_only_engine_or_setting_refuses_a_delete_and_sends_nothing() {
    let stage = Stage::with_web(2);
    let line = "delete network/web-net-0 --cascade --yes";
    let words = ["delete network/web-net-0", "read-only", "nothing was sent"];
    let assert_refused = |ran: super::support::RunResult| {
        let output = ran.err.to_lowercase();
        for word in words {
            assert!(output.contains(word), "no {word:?} in {output}");
        }
    };
    assert_refused(stage.gone(&format!("{line} --read-only")).ends_with(6));
    stage.settings("[guard]\nread_only = true\n");
    assert_refused(stage.gone(line).ends_with(6));
    stage.settings("[guard]\nread_only_clouds = [\"prod\"]\n");
    assert_refused(stage.gone(line).ends_with(6));
    // An engine that was started read-only refuses every client.
    stage.settings("");
    let engine = stage.engine_by("--engine --read-only");
    assert_refused(stage.gone(line).ends_with(6));
    stage.gone("plan network/web-net-0 --cascade").ok();
    engine.stop().ok();
    // A client with read-only settings is refused although the engine is not read-only.
    let engine = stage.engine();
    stage.settings("[guard]\nread_only = true\n");
    assert_refused(stage.gone(line).ends_with(6));
    stage.gone("plan network/web-net-0 --cascade").ok();
    engine.stop().ok();
    assert!(stage.writes().is_empty());
}

#[test]
fn a_cloud_that_requires_a_reason_refuses_a_deletion_without_one() {
    let stage = Stage::with_web(2);
    let line = "delete network/web-net-0 --cascade --yes";
    stage.settings("[guard]\nreason = { prod = \"OPS-*\" }\n");
    for without in [line.to_owned(), format!("{line} --reason because")] {
        let output = stage.gone(&without).ends_with(6).err;
        for word in [
            "prod/RegionOne",
            "a word like OPS-*",
            "nothing was sent",
            "--reason",
        ] {
            assert!(output.contains(word), "no {word:?} in {output}");
        }
    }
    assert!(stage.writes().is_empty());
    // A plan needs no reason.
    stage.gone("plan network/web-net-0 --cascade").ok();
    let ran = stage
        .gone(&format!("{line} --wait --reason OPS-4711 -o json"))
        .ok();
    assert_eq!(ran.json()["reason"], "OPS-4711");
    assert!(stage.ids("networks").is_empty());

    stage.network("lab", 1);
    let line = "delete network/lab-net-0 --cascade --yes --wait";
    stage.settings("[guard]\nreason = { prod = \"*\" }\n");
    let output = stage.gone(line).ends_with(6).err;
    assert!(
        output.contains("prod/RegionOne requires a reason"),
        "{output}"
    );
    stage.settings("[guard]\nreason = { lab = \"*\" }\n");
    stage.gone(line).ok();
}

#[test]
fn p04_one_protected_resource_refuses_the_whole_deletion_and_is_named() {
    let stage = Stage::new();
    stage.settings("[[guard.protect]]\nkind = \"port\"\nname = \"web-port-0-*\"\n");
    let seeded = stage.seed(json!({"name": "web", "networks": 1, "ports_per_network": 2}));
    stage
        .gone("plan network/web-net-0 --cascade --check")
        .ends_with(6);
    let ran = stage
        .gone("delete network/web-net-0 --cascade --yes")
        .ends_with(6);
    let port = text(&seeded["ports"][1]);
    ran.says(&["nothing was sent", "protect", "web-port-0-*", &port]);
    assert!(stage.writes().is_empty());
    assert_eq!(stage.ids("networks").len(), 1);
}

#[test]
fn p04_a_protect_rule_accepts_kind_aliases_and_an_unknown_kind_is_an_error() {
    let stage = Stage::with_web(1);
    let line = "delete network/web-net-0 --cascade --yes";
    stage.settings("[guard]\nprotect = [{ kind = \"networks\", name = \"web-*\" }]\n");
    let ran = stage.gone(line).ends_with(6);
    let output = format!("{}{}", ran.out, ran.err);
    assert!(
        output.contains("protect") && output.contains("web-*"),
        "{output}"
    );
    let rule = "[guard]\nprotect = [{ kind = \"netwrok\", name = \"web-*\" }]\n";
    let at = "line 2, guard.protect[0].kind";
    for (settings, at) in [
        (rule, at),
        (
            "[gc.kind.netwrok]\nmax_attempts = 3\n",
            "line 1, gc.kind.netwrok",
        ),
    ] {
        let file = stage.settings(settings);
        let file = file.to_str().unwrap();
        let words = [file, at, "unknown kind", "did you mean \"network\""];
        for verb in [line, "list", "--engine", "check kinds"] {
            stage.gone(verb).ends_with(2).stderr_has(&words);
        }
        stage.gone("doctor").ends_with(2).stdout_has(&words);
    }
    assert!(stage.writes().is_empty());
}

#[test]
fn n01_without_cascade_a_resource_in_use_is_refused_with_its_blockers() {
    let stage = Stage::new();
    let network = stage.network("web", 2);
    let ran = stage.gone("delete network/web-net-0 --yes").ends_with(6);
    let output = format!("{}{}", ran.out, ran.err);
    let port = stage
        .list("ports")
        .into_iter()
        .find(|port| port["device_owner"] == "compute:nova");
    let port = text(&port.unwrap()["id"]);
    for word in ["nothing was sent", network.as_str(), port.as_str()] {
        assert!(output.contains(word), "no {word:?} in {output}");
    }
    assert!(stage.writes().is_empty());
}

#[test]
fn p01_a_plan_that_differs_from_the_cloud_exits_with_7_and_sends_nothing() {
    let stage = Stage::new();
    let network = stage.network("web", 2);
    stage
        .gone("plan network/web-net-0 --cascade --out plan.json")
        .ok();
    let port = json!({"port": {"network_id": network, "name": "newcomer"}});
    stage.as_client("POST", "RegionOne/network/v2.0/ports", port);
    let ran = stage.gone("delete --plan plan.json --yes").ends_with(7);
    ran.says(&[
        "nothing was sent",
        "differs from the approved plan",
        "new: port newcomer",
    ]);
    assert!(stage.writes().is_empty());
    // A running engine refuses the plan, too.
    let engine = stage.engine();
    stage
        .gone("delete --plan plan.json --yes --wait")
        .ends_with(7);
    assert!(stage.writes().is_empty());
    stage
        .gone("plan network/web-net-0 --cascade --out plan.json")
        .ok();
    stage.gone("delete --plan plan.json --yes --wait").ok();
    engine.stop().ok();
    assert!(stage.ids("networks").is_empty());
}

#[test]
fn p01_a_changed_truncated_or_missing_plan_file_exits_with_2() {
    let stage = Stage::new();
    let kept = stage.network("kept", 1);
    stage.network("web", 2);
    stage
        .gone("plan network/web-net-0 --cascade --out plan.json")
        .ok();
    let file = stage.path("plan.json");
    let frozen = std::fs::read_to_string(&file).unwrap();
    let mut plan: Value = serde_json::from_str(&frozen).unwrap();
    plan["steps"][0]["resource_id"] = kept.into();
    std::fs::write(&file, plan.to_string()).unwrap();
    stage
        .gone("delete --plan plan.json --yes")
        .ends_with(2)
        .stderr_has(&["plan.json", "changed after it was frozen", "gone plan"]);
    std::fs::write(&file, &frozen[..frozen.len() / 2]).unwrap();
    stage
        .gone("delete --plan plan.json --yes")
        .ends_with(2)
        .stderr_has(&["plan.json", "not a plan of this version"]);
    stage
        .gone("delete --plan none.json --yes")
        .ends_with(2)
        .stderr_has(&["none.json", "No such file"]);
    assert!(stage.writes().is_empty());
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_deleted() {
    let stage = Stage::with_web(1);
    stage
        .gone("delete network/web-net-0 --cascade")
        .ends_with(2)
        .stderr_has(&["delete network/web-net-0", "no terminal", "--yes"]);
    stage
        .gone("")
        .ends_with(2)
        .stderr_has(&["not a terminal", "--engine"]);
    assert!(stage.writes().is_empty());
}
