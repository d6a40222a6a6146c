//! Errors: problem documents that name the field and the nearest valid value.

use gone::control::{ControlError, Page};
use reqwest::Method;
use serde_json::{Value, json};

use crate::bench::{Bench, answer};
use crate::samples;

#[tokio::test]
async fn each_control_error_has_its_http_status() {
    let bench = Bench::new().await;
    for (error, status, kind) in samples::errors() {
        bench.fake.answer_next_submit(Err(error.clone()));
        let request = json!({"targets": ["network/web"]});
        let (found, problem) = bench.post("/api/v1/deletions", request).await;
        assert_eq!(found, status, "{error:?}");
        assert_eq!(problem["type"], format!("urn:gone:problem:{kind}"));
        assert_eq!(problem["detail"], "what and why");
        match error {
            ControlError::Ambiguous { .. } => assert_eq!(problem["candidates"][1]["id"], "n2"),
            ControlError::Drifted { .. } => assert_eq!(problem["changes"][0], "port p2 is new"),
            ControlError::Expired { .. } => assert_eq!(problem["oldest"], 12),
            ControlError::Refused { refused, .. } => {
                assert_eq!(problem["refused"], json!(refused));
                assert_eq!(problem["blockers"].as_array().unwrap().len(), refused.len());
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_query_that_the_engine_rejects_is_400() {
    let bench = Bench::new().await;
    let message = "no such cursor".to_owned();
    bench
        .fake
        .answer_next_query(Err(ControlError::Usage { message }));
    let (status, problem) = bench.get("/api/v1/deletions?cursor=x").await;
    assert_eq!(
        (status, &problem["detail"]),
        (400, &json!("no such cursor"))
    );
}

/// A route, a body, and the words of the answer.
const INVALID_BODIES: &str = r#"
deletions | {"targets": ["a/b"], "cascad": true} | cascad | did you mean "cascade"?
deletions | {"targets": ["a/b"], "on_failure": "stopp"} | "on_failure" | did you mean "stop"?
deletions | {"targets": [{"kind": "network", "nam": "x"}]} | targets[0] | did you mean "name"?
deletions | {"targets": [{"kind": "network"}]} | targets[0] | neither id nor name
deletions | {"targets": ["network/a", "network"]} | targets[1] | KIND/ID-or-NAME
deletions | {"targets": [7]} | targets[0] | KIND/ID-or-NAME
deletions | {"targets": []} | targets | is empty
deletions | {} | "targets" or "plan_hash"
deletions | {"targets": ["a/b"], "plan_hash": "abc"} | not both
plans | {"cascade": true} | targets
plans | {"targets": ["a/b"], "drift": "no"} | drift
deletions/d1/retry | {"raison": "x"} | did you mean "reason"?
"#;

#[tokio::test]
async fn an_invalid_body_is_400_and_names_the_wrong_field() {
    let bench = Bench::new().await;
    let deletions = "/api/v1/deletions";
    for row in INVALID_BODIES.trim().lines() {
        let mut cells = row.split(" | ");
        let path = format!("/api/v1/{}", cells.next().unwrap());
        let body: Value = serde_json::from_str(cells.next().unwrap()).unwrap();
        let (status, problem) = bench.post(&path, body).await;
        assert_eq!(status, 400, "{row}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        for part in cells {
            assert!(detail.contains(part), "{row}: {detail}");
        }
    }
    for text in ["", "{", "[]", "{\"targets\": [\"a/b\"]} trailing"] {
        let request = bench.request(Method::POST, deletions).body(text);
        assert_eq!(answer(request).await.0, 400, "{text}");
    }
    assert_eq!(bench.fake.submits(), 0, "nothing reached the engine");
}

#[tokio::test]
async fn an_invalid_query_parameter_is_400_and_says_what_is_valid() {
    let bench = Bench::new().await;
    for (path, says) in [
        ("/api/v1/deletions?stat=stuck", "did you mean \"state\"?"),
        ("/api/v1/deletions?state=stuk", "did you mean \"stuck\"?"),
        ("/api/v1/deletions?limit=501", "1 to 500"),
        ("/api/v1/deletions?limit=0", "1 to 500"),
        ("/api/v1/deletions?limit=many", "not a whole number"),
        (
            "/api/v1/deletions?site=prod",
            "did you mean \"prod/RegionOne\"?",
        ),
        (
            "/api/v1/tombstones?phase=deletin",
            "did you mean \"deleting\"?",
        ),
        (
            "/api/v1/tombstones?kind=ntwork",
            "did you mean \"network\"?",
        ),
        ("/api/v1/stuck?kind=ntwork", "unknown kind \"ntwork\""),
        ("/api/v1/stuck?older_than=99999999999999999d", "older_than"),
        ("/api/v1/sites?site=prod", "unknown parameter"),
        ("/api/v1/events?after=x", "not a whole number"),
    ] {
        let (status, problem) = bench.get(path).await;
        assert_eq!(status, 400, "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{path}: {detail}");
    }
}

#[tokio::test]
async fn an_invalid_cursor_is_400_in_every_list() {
    let bench = Bench::new().await;
    for list in [
        "deletions",
        "deletions/d1/steps",
        "stuck",
        "gc",
        "orphans",
        "audit",
        "tombstones",
        "resources/customer",
    ] {
        if list == "deletions/d1/steps" {
            bench
                .fake
                .answer_next_query(Ok(Page::Deletion(Box::new(samples::deletion("d1")))));
        }
        // The cursor of the audit is a row number, which the API itself checks.
        if list != "audit" {
            bench.fake.answer_next_query(Err(ControlError::Usage {
                message: "the cursor \"forged\" was not returned by an earlier page".to_owned(),
            }));
        }
        let (status, problem) = bench.get(&format!("/api/v1/{list}?cursor=forged")).await;
        assert_eq!(status, 400, "{list}: {problem}");
        assert_eq!(problem["type"], "urn:gone:problem:invalid-request");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("cursor"), "{list}: {detail}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_with_a_problem() {
    let bench = Bench::new().await;
    for path in ["/", "/api/v1/nothing", "/api/v2/plans", "/control/v1/x"] {
        let (status, problem) = bench.get(path).await;
        assert_eq!(status, 404);
        assert_eq!(problem["type"], "urn:gone:problem:not-found");
        assert!(problem["detail"].as_str().unwrap().contains(path));
    }
    let response = bench.request(Method::PUT, "/api/v1/deletions");
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 405);
    assert!(
        response.headers()["allow"]
            .to_str()
            .unwrap()
            .contains("POST")
    );
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["status"], 405);
    assert_eq!(bench.get("/api/v1/deletions/%FF").await.0, 400);
}

#[tokio::test]
async fn a_body_above_1_mib_is_413_except_for_a_frozen_plan() {
    let bench = Bench::new().await;
    let heavy = json!({"targets": ["network/web"], "reason": "x".repeat(1 << 20)});
    let (status, problem) = bench.post("/api/v1/deletions", heavy).await;
    assert_eq!(status, 413, "{problem}");

    // A frozen plan may be large, and is sent by the route of the remote control.
    let mut plan = samples::plan();
    plan.warnings = vec!["x".repeat(2 << 20)];
    let envelope = gone::control::Envelope {
        command: gone::control::Command::DeletePlanFile {
            plan: Box::new(plan),
        },
        actor: samples::actor(),
        reason: String::new(),
        idempotency_key: None,
        deadline: None,
    };
    let (status, _) = bench.post("/control/v1/submit", json!(envelope)).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn every_changing_call_passes_its_idempotency_key_to_the_control() {
    let bench = Bench::new().await;
    let path = |path: &str| format!("/api/v1/{path}");
    let post = |at: &str, body: Value| (Method::POST, path(at), body);
    let purge = json!({"rung": "retry", "confirm": "d1"});
    for (method, path, body) in [
        post("deletions", json!({"targets": ["network/web"]})),
        post("deletions/d1/retry", json!({})),
        post("deletions/d1/cancel", json!({})),
        post("deletions/d1/pause", json!({})),
        post("deletions/d1/resume", json!({})),
        post("deletions/d1/drift", json!({"accept": true})),
        post("deletions/d1/purge", purge.clone()),
        post("steps/1/purge", purge),
        post("steps/1/retry", json!({})),
        post("steps:retry", json!({})),
        post("sites/prod%2FRegionOne/pause", json!({})),
        post("sites/prod%2FRegionOne/resume", json!({})),
        post("deployments/d0/release", json!({})),
        post("tombstones/prod%2FRegionOne/network/n1/release", json!({})),
        post("resources/customer", json!({"name": "acme"})),
        (
            Method::PATCH,
            path("resources/customer/acme"),
            json!({"name": "a"}),
        ),
        (Method::DELETE, path("resources/customer/acme"), json!({})),
    ] {
        let before = bench.fake.submits();
        let key = format!("{method} {path}");
        let request = bench.request(method, &path).json(&body);
        request
            .header("Idempotency-Key", &key)
            .send()
            .await
            .unwrap();
        assert_eq!(bench.fake.submits(), before + 1, "{key}");
        let passed_on = bench.fake.last_submitted().idempotency_key;
        assert_eq!(passed_on, Some(key));
    }
}

#[tokio::test]
async fn an_empty_or_too_long_idempotency_key_is_400() {
    let bench = Bench::new().await;
    for key in [String::new(), "k".repeat(257)] {
        let request = bench
            .request(Method::POST, "/api/v1/deletions")
            .header("Idempotency-Key", key)
            .json(&json!({"targets": ["network/web"]}));
        let (status, problem) = answer(request).await;
        assert_eq!(status, 400);
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("Idempotency-Key")
        );
    }
}
