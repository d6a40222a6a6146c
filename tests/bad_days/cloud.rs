//! A cloud that is down or slow, or that gives wrong answers.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::support::{DELETE_WEB, LoggedCall, PASSWORD, Stage, assert_counts_sum, text, wait_for};

/// Settings with waits that are short enough for a test.
const QUICK: &str = "\
[engine]
call_timeout = \"1s\"
verify_timeout = \"1s\"
[gc]
schedule = [\"300ms\"]
jitter = 0.0
max_attempts = 3
";

fn first_port(stage: &Stage, network: &str) -> String {
    let ports = stage.list("ports");
    let mut here = ports.iter().filter(|port| {
        port["network_id"] == network && !text(&port["device_owner"]).starts_with("network:")
    });
    text(&here.next().unwrap()["id"])
}

fn assert_all_gone(stage: &Stage, deletion: &Value) {
    assert_eq!(deletion["state"], "gone", "{deletion}");
    assert_counts_sum(deletion);
    assert!(stage.ids("ports").is_empty());
    assert!(stage.ids("networks").is_empty());
}

#[test]
fn an_unreachable_cloud_exits_with_5_and_names_its_address() {
    let stage = Stage::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    stage.clouds_yaml(&format!("http://127.0.0.1:{port}"), PASSWORD, "RegionOne");
    for verb in ["plan", "explain", "delete --yes"] {
        stage
            .gone(&format!("{verb} network/web"))
            .ends_with(5)
            .stderr_has(&[
                "network/web",
                &format!("127.0.0.1:{port}"),
                "refused",
                "gone doctor",
            ]);
    }
    stage.gone("doctor").ends_with(5);
}

#[test]
fn an_untrusted_certificate_exits_with_5_and_names_cacert() {
    let stage = Stage::new();
    let port = super::tls::start_untrusted_server();
    stage.clouds_yaml(&format!("https://localhost:{port}"), PASSWORD, "RegionOne");
    stage.gone("plan network/web").ends_with(5).stderr_has(&[
        "network/web",
        "https://localhost",
        "certificate",
        "cacert",
        "clouds.yaml",
    ]);
}

#[test]
fn a_throttled_delete_is_repeated_after_the_time_of_retry_after() {
    let stage = Stage::new();
    let network = stage.network("web", 3);
    let port = first_port(&stage, &network);
    stage.faults(json!([{
        "match": {"method": "DELETE", "id": port}, "times": 1,
        "action": {"status": 429, "message": "slow down", "retry_after": 2},
    }]));
    let deletion = stage.gone(DELETE_WEB).ok().json();
    assert_all_gone(&stage, &deletion);
    let sent = stage.deletes_of(&port);
    assert_eq!(sent.len(), 2);
    assert!(sent[1].at - sent[0].at >= TimeDelta::seconds(2), "{sent:?}");
}

#[test]
fn server_errors_and_lost_answers_are_retried() {
    let stage = Stage::new();
    // A 500 may be permanent: the step is retried by the schedule, whose first wait is a minute by default.
    stage.settings(QUICK);
    stage.network("web", 6);
    stage.faults(json!([
        {"match": {"method": "DELETE"}, "times": 2, "action": {"status": 500}},
        {"match": {"method": "DELETE"}, "times": 2, "action": {"status": 503, "html": true}},
        {"match": {"method": "DELETE"}, "times": 1, "action": {"drop_after_effect": true}},
    ]));
    let deletion = stage.gone(DELETE_WEB).ok().json();
    assert_all_gone(&stage, &deletion);
    let answered = |status: u16| {
        let writes = stage.writes().into_iter();
        writes.filter(|call| call.status == Some(status)).count()
    };
    assert_eq!((answered(500), answered(503)), (2, 2));
}

#[test]
fn i12_a_hanging_call_delays_no_other() {
    let stage = Stage::new();
    stage.settings(QUICK);
    let network = stage.network("web", 12);
    let port = first_port(&stage, &network);
    stage.faults(json!([
        {"match": {"method": "DELETE", "id": port}, "times": 1, "action": {"hang": true}},
    ]));
    let deletion = stage.gone(DELETE_WEB).ok().json();
    assert_all_gone(&stage, &deletion);
    let sent = stage.deletes_of(&port);
    let repeated_at = sent[1].at;
    let others = stage.writes();
    let before = others.iter().filter(|call| call.at < repeated_at).count();
    // The network and its subnet wait for the hanging call; the other ports do not.
    assert!(before >= 12, "{before} of {others:?}");
    assert_eq!(sent.len(), 2);
}

#[test]
fn a_truncated_or_html_answer_to_a_list_fails_the_plan_and_names_the_list() {
    let stage = Stage::new();
    stage.settings("[engine]\nread_patience = \"1s\"\n");
    stage.network("web", 2);
    let lists = json!({"method": "GET", "path": "/v2.0/ports$"});
    for (action, words) in [
        (json!({"truncate": true}), ["/v2.0/ports", "cut off"]),
        (
            json!({"status": 200, "html": true}),
            ["/v2.0/ports", "a proxy"],
        ),
        (json!({"status": 502, "html": true}), ["/v2.0/ports", "502"]),
    ] {
        stage.faults(json!([{"match": lists, "action": action}]));
        for verb in ["plan", "delete --yes"] {
            let line = format!("{verb} network/web-net-0 --cascade");
            let ran = stage.gone(&line).ends_with(5);
            let output = format!("{}{}", ran.out, ran.err);
            for word in words {
                assert!(output.contains(word), "{action}: no {word:?} in {output}");
            }
            assert!(!output.contains("<html"), "{output}");
        }
    }
    assert!(stage.writes().is_empty(), "no write was sent");
    stage.faults(json!([]));
    let deletion = stage.gone(DELETE_WEB).ok().json();
    assert_all_gone(&stage, &deletion);
}

/// The cloud accepts the deletes of the ports, keeps the ports, and then hides them by a false answer. No port may
/// count as gone. Once the cloud answers truly, the deletion must end.
fn assert_hidden_ports_are_not_gone(ports: u32, false_answer: Value) {
    let stage = Stage::new();
    stage.settings(QUICK);
    stage.network("web", ports);
    let keep = json!({"match": {"method": "DELETE", "kind": "port"}, "action": {"keep": true}});
    stage.faults(json!([keep]));
    let engine = stage.engine();
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    stage.await_writes(1);
    stage.faults(json!([false_answer, keep]));
    let from = stage.calls().len();
    let false_path = text(&false_answer["match"]["path"]);
    let meets_it = |call: &LoggedCall| {
        let path = call.path.split('?').next().unwrap();
        call.method == "GET"
            && match false_path.strip_suffix('$') {
                Some(end) => path.ends_with(end),
                None => path.contains(&false_path),
            }
    };
    wait_for("four observations that get the false answer", || {
        let calls = stage.calls();
        calls[from..].iter().filter(|call| meets_it(call)).count() >= 4
    });
    let deletion = stage.show(&id);
    assert_eq!(deletion["counts"]["gone"], 0, "{deletion}");
    stage.faults(json!([]));
    // A step that was refused too often meanwhile is stuck.
    wait_for("the end", || {
        let state = text(&stage.show(&id)["state"]);
        if state == "stuck" {
            stage.gone(&format!("retry {id}"));
        }
        state == "gone"
    });
    assert_all_gone(&stage, &stage.show(&id));
    engine.stop().ok();
}

#[test]
fn i13_an_empty_list_does_not_confirm_absence() {
    let lists = json!({"method": "GET", "path": "/v2.0/ports$"});
    assert_hidden_ports_are_not_gone(8, json!({"match": lists, "action": {"empty_list": true}}));
}

#[test]
fn i13_a_404_page_of_a_proxy_does_not_confirm_absence() {
    let reads = json!({"method": "GET", "path": "/v2.0/ports/"});
    assert_hidden_ports_are_not_gone(
        2,
        json!({"match": reads, "action": {"status": 404, "html": true}}),
    );
}

#[test]
fn i13_a_truncated_answer_does_not_confirm_absence() {
    let reads = json!({"method": "GET", "path": "/v2.0/ports"});
    assert_hidden_ports_are_not_gone(2, json!({"match": reads, "action": {"truncate": true}}));
}

#[test]
fn i13_an_accepted_delete_that_kept_the_resource_is_repeated() {
    let stage = Stage::new();
    stage.settings(QUICK);
    let network = stage.network("web", 3);
    let port = first_port(&stage, &network);
    stage.faults(json!([
        {"match": {"method": "DELETE", "id": port}, "times": 1, "action": {"keep": true}},
    ]));
    let deletion = stage.gone(DELETE_WEB).ok().json();
    assert_all_gone(&stage, &deletion);
    assert_eq!(stage.deletes_of(&port).len(), 2);
}

#[test]
fn i07_a_delete_that_is_accepted_each_time_without_effect_ends_stuck() {
    let stage = Stage::new();
    stage.settings(QUICK);
    let network = stage.network("web", 3);
    let port = first_port(&stage, &network);
    stage.faults(json!([{"match": {"method": "DELETE", "id": port}, "action": {"keep": true}}]));
    // A port that was created in the same second as its delete would seem to have been re-created.
    let ports = stage.list("ports");
    let row = ports.iter().find(|row| row["id"] == port.as_str()).unwrap();
    let created: DateTime<Utc> = text(&row["created_at"]).parse().unwrap();
    wait_for("the next second", || {
        Utc::now() - created >= TimeDelta::seconds(1)
    });
    let since = Instant::now();
    let ran = stage
        .gone("delete network/web-net-0 --cascade --yes")
        .ends_with(4);
    // Three attempts of 1.5 seconds each, none of which waits for anything else.
    assert!(since.elapsed() < Duration::from_secs(20));
    assert!(
        ran.out.contains("accepted, but the resource still exists"),
        "{}",
        ran.out
    );
    ran.stderr_has(&["needs a person", "gone show", "gone retry"]);
    assert_eq!(stage.deletes_of(&port).len(), 3, "max_attempts");
    assert_eq!(stage.ids("networks"), [network]);
}

#[test]
fn n13_a_token_revoked_during_a_deletion_is_renewed_once() {
    let stage = Stage::with_web(60);
    stage.limits(json!({"latency_ms": 20, "parallel": 4}));
    let engine = stage.engine();
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    stage.await_writes(10);
    let logins = |stage: &Stage| {
        let calls = stage.calls().into_iter();
        calls
            .filter(|call| call.path.ends_with("/auth/tokens"))
            .count()
    };
    let before = logins(&stage);
    stage.control("PUT", "tokens", json!({"revoke": true}));
    let deletion = stage.await_state(&id, "gone");
    assert_all_gone(&stage, &deletion);
    let refused = stage
        .writes()
        .iter()
        .filter(|call| call.status == Some(401))
        .count();
    assert!(refused > 0, "the revoked token was in use");
    // All calls that were refused at the same time share one new login.
    assert_eq!(logins(&stage), before + 1);
    engine.stop().ok();
}

#[test]
fn i13_lost_rights_pause_the_site_until_they_are_restored() {
    let stage = Stage::with_web(60);
    stage.limits(json!({"latency_ms": 20, "parallel": 4}));
    let engine = stage.engine();
    let id = text(&stage.gone(DELETE_WEB).ok().json()["id"]);
    stage.await_writes(10);
    let roles = |roles: Value| json!({"name": "admin", "roles": {"admin": roles}});
    stage.control("PUT", "users", roles(json!([])));
    let sites = || stage.gone("list sites -o json").ok().json();
    wait_for("the pause of the site", || sites()[0]["state"] == "paused");
    // A new deletion fails meanwhile, and the message says what to do.
    stage
        .gone("delete network/web-net-0 --yes --wait")
        .ends_with(3)
        .stderr_has(&["login refused", "clouds.yaml", "gone doctor"]);
    assert!(text(&sites()[0]["reason"]).contains("login refused"));
    let paused = stage.show(&id);
    assert_eq!(paused["state"], "running");
    // Only resources that were deleted before the rights were lost are gone.
    let writes = stage.writes();
    let deleted = writes
        .iter()
        .filter(|call| call.status == Some(204))
        .count();
    let gone = usize::try_from(paused["counts"]["gone"].as_u64().unwrap()).unwrap();
    assert!(gone <= deleted, "{gone} of {deleted}: {paused}");
    for state in ["blocked", "stuck"] {
        assert_eq!(paused["counts"][state], 0, "{paused}");
    }
    let before = stage.writes().len();
    let all = json!(["admin", "manager", "member", "reader"]);
    stage.control("PUT", "users", roles(all));
    let deletion = stage.await_state(&id, "gone");
    assert!(
        stage.writes().len() > before,
        "the rest is sent once the rights are restored"
    );
    assert_all_gone(&stage, &deletion);
    engine.stop().ok();
}
