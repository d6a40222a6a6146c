//! The routes: the command or query that each sends to the control, its status and the shape of its answer.

use gone::control::{Command, ControlError, Page, Query, Receipt, SiteSpec, query};
use gone::domain::model::{DeletionState, DriftPolicy, OnFailure, Origin, RefusalRule};
use reqwest::Method;
use serde_json::{Value, json};

use crate::bench::{Bench, content_type};
use crate::samples;

fn as_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[tokio::test]
async fn a_plan_is_created_and_read_again_by_its_hash() {
    let bench = Bench::new().await;
    let request = json!({
        "targets": ["network/web@prod/RegionOne", {"kind": "router", "id": "r1", "site": "prod"},
            {"kind": "port", "name": "a@prod", "site": "prod/RegionOne"}],
        "cascade": true,
        "on_failure": "stop",
    });
    let (status, plan) = bench.post("/api/v1/plans", request).await;
    assert_eq!((status, &plan), (200, &as_json(&samples::plan())));
    let members = [
        "hash",
        "targets",
        "steps",
        "automatic",
        "unset",
        "refused",
        "warnings",
    ];
    assert!(members.iter().all(|member| plan.get(member).is_some()));
    assert_eq!(plan["calls_estimate"], 2);

    let envelope = bench.fake.last_submitted();
    assert_eq!(envelope.actor.origin, Origin::Api);
    let Command::Plan { targets, options } = envelope.command else {
        panic!("{envelope:?}");
    };
    assert_eq!(targets[0], samples::spec());
    assert_eq!(targets[1].id_or_name, "r1");
    assert_eq!(targets[1].site, SiteSpec::Cloud("prod".into()));
    // The fields of a target object are not parsed, so that a name may have any character.
    assert_eq!(targets[2].id_or_name, "a@prod");
    assert_eq!(targets[2].site, SiteSpec::Region(samples::site()));
    assert!(options.cascade && options.on_failure == OnFailure::Stop);

    let (status, kept) = bench.get("/api/v1/plans/abc").await;
    assert_eq!((status, kept), (200, plan));
    let (status, _) = bench.get("/api/v1/plans/old").await;
    assert_eq!(status, 410);
}

#[tokio::test]
async fn a_deletion_is_accepted_with_202_and_its_location() {
    let bench = Bench::new().await;
    let response = bench
        .request(Method::POST, "/api/v1/deletions")
        .header("Idempotency-Key", "key-1")
        .header("X-Gone-Actor", "J%C3%BCrgen")
        .json(&json!({
            "targets": ["network/web@prod"], "cascade": true, "on_failure": "stop",
            "drift": "absorb", "release_floating_ips": true, "reason": "ticket 7",
        }))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 202);
    assert_eq!(response.headers()["location"], "/api/v1/deletions/d1");
    let deletion: Value = response.json().await.unwrap();
    let mut expected = as_json(&samples::deletion("d1"));
    expected["existing"] = json!(false);
    assert_eq!(deletion, expected);

    let envelope = bench.fake.last_submitted();
    assert_eq!(envelope.idempotency_key.as_deref(), Some("key-1"));
    assert_eq!(envelope.actor.name, "Jürgen");
    assert_eq!(envelope.reason, "ticket 7");
    let Command::Delete {
        targets,
        options,
        named,
    } = envelope.command
    else {
        panic!("{envelope:?}");
    };
    assert_eq!(targets[0].to_string(), "network/web@prod");
    assert_eq!(options.drift, DriftPolicy::Absorb);
    // If the request joins a deletion, the options that the request names apply to that deletion, too.
    let asked = (Some(DriftPolicy::Absorb), Some(OnFailure::Stop));
    assert_eq!((named.drift, named.on_failure), asked);
    assert!(options.cascade && options.delete_detached);
}

#[tokio::test]
async fn p06_the_actor_is_the_uid_of_the_client_if_no_name_is_claimed() {
    let bench = Bench::new().await;
    bench.post("/api/v1/deletions/d1/pause", json!({})).await;
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(bench.fake.last_submitted().actor.name, format!("uid:{own}"));
}

#[tokio::test]
async fn p01_a_deletion_by_plan_hash_runs_exactly_that_plan() {
    let bench = Bench::new().await;
    let request = json!({"plan_hash": "abc", "on_failure": "continue"});
    let (status, _) = bench.post("/api/v1/deletions", request).await;
    assert_eq!(status, 202);
    let command = bench.fake.last_submitted().command;
    assert!(matches!(command, Command::DeletePlan { plan_hash, .. } if plan_hash == "abc"));

    let request = json!({"plan_hash": "abc", "on_failure": "stop"});
    let (status, problem) = bench.post("/api/v1/deletions", request).await;
    assert_eq!(status, 400);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("froze \"continue\""), "{detail}");
    assert_eq!(bench.fake.submits(), 1);
}

#[tokio::test]
async fn n07_a_deletion_refused_at_once_is_409_with_its_blockers() {
    let bench = Bench::new().await;
    let mut deletion = samples::deletion("d1");
    deletion.state = DeletionState::Refused;
    deletion.refused = vec![samples::refusal(RefusalRule::InUse)];
    deletion.note = "nothing was sent: network n1 is in use by port p9".to_owned();
    bench
        .fake
        .answer_next_query(Ok(Page::Deletion(Box::new(deletion))));
    let (status, problem) = bench
        .post("/api/v1/deletions", json!({"targets": ["network/web"]}))
        .await;
    assert_eq!(status, 409);
    assert_eq!(problem["deletion_id"], "d1");
    assert_eq!(problem["blockers"][0]["id"], "p9");
    let detail = "nothing was sent: network n1 is in use by port p9";
    assert_eq!(problem["detail"], detail);
}

#[tokio::test]
async fn deletions_and_steps_are_paged_and_filtered() {
    let bench = Bench::new().await;
    let path = "/api/v1/deletions?state=running,stuck&state=gone&site=prod/RegionOne&kind=network&cursor=c&limit=5";
    let (status, list) = bench.get(path).await;
    assert_eq!(status, 200);
    assert_eq!(
        list,
        json!({"items": [samples::deletion("d1")], "next": "c2"})
    );
    let queried = as_json(&bench.fake.last_queried());
    assert_eq!(queried["states"], json!(["running", "stuck", "gone"]));
    assert_eq!(queried["site"], "prod/RegionOne");
    assert_eq!(
        (&queried["kind"], &queried["cursor"]),
        (&json!("network"), &json!("c"))
    );
    assert_eq!(queried["limit"], 5);

    let (status, deletion) = bench.get("/api/v1/deletions/d1").await;
    assert_eq!((status, deletion), (200, as_json(&samples::deletion("d1"))));
    let (status, _) = bench.get("/api/v1/deletions/d2").await;
    assert_eq!(status, 404);

    let (status, list) = bench.get("/api/v1/deletions/d1/steps?state=stuck").await;
    assert_eq!((status, &list["items"][0]["id"]), (200, &json!(7)));
    let queried = as_json(&bench.fake.last_queried());
    assert_eq!(queried["deletion_id"], "d1");
    assert_eq!(queried["states"], json!(["stuck"]));
    let (status, _) = bench.get("/api/v1/deletions/d2/steps").await;
    assert_eq!(
        status, 404,
        "an unknown deletion must not look like one without steps"
    );

    let (status, step) = bench.get("/api/v1/steps/7").await;
    assert_eq!((status, &step["resource"]["kind"]), (200, &json!("port")));
    assert_eq!(bench.get("/api/v1/steps/seven").await.0, 404);
}

#[tokio::test]
async fn deletions_are_retried_cancelled_paused_and_resumed_and_a_step_is_retried() {
    let bench = Bench::new().await;
    for (call, expected) in [
        ("retry", json!({"do": "retry", "deletion_id": "d1"})),
        ("cancel", json!({"do": "cancel", "deletion_id": "d1"})),
        ("pause", json!({"do": "pause", "deletion_id": "d1"})),
        ("resume", json!({"do": "resume", "deletion_id": "d1"})),
    ] {
        let path = format!("/api/v1/deletions/d1/{call}");
        let (status, deletion) = bench.post(&path, json!({"reason": "why"})).await;
        assert_eq!((status, &deletion["id"]), (202, &json!("d1")), "{call}");
        let envelope = bench.fake.last_submitted();
        assert_eq!(as_json(&envelope.command), expected);
        assert_eq!(envelope.reason, "why");

        let message = "it has ended".to_owned();
        bench
            .fake
            .answer_next_submit(Err(ControlError::Conflict { message }));
        let (status, problem) = bench.post(&path, json!({})).await;
        assert_eq!((status, &problem["detail"]), (409, &json!("it has ended")));
    }
    // The body may be left out.
    let response = bench.request(Method::POST, "/api/v1/steps/7/retry");
    let (status, step) = crate::bench::answer(response).await;
    assert_eq!((status, &step["id"]), (202, &json!(7)));
    let command = bench.fake.last_submitted().command;
    assert!(matches!(command, Command::RetryStep { step_id: 7 }));
}

#[tokio::test]
async fn p11_newcomers_are_accepted_or_refused_by_a_post() {
    let bench = Bench::new().await;
    let path = "/api/v1/deletions/d1/drift";
    for accept in [true, false] {
        let body = json!({"accept": accept, "reason": "ticket 7"});
        let (status, deletion) = bench.post(path, body).await;
        assert_eq!((status, &deletion["id"]), (202, &json!("d1")));
        let envelope = bench.fake.last_submitted();
        assert_eq!(envelope.reason, "ticket 7");
        let expected = json!({"do": "drift", "deletion_id": "d1", "accept": accept});
        assert_eq!(as_json(&envelope.command), expected);
    }
    // A request without `accept` is an error, and accepts nothing.
    let (status, _) = bench.post(path, json!({})).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn p03_the_purge_ladder_is_read_and_a_rung_is_taken() {
    let bench = Bench::new().await;
    for (path, what, id) in [
        (
            "/api/v1/deletions/d1/purge",
            json!({"deletion": "d1"}),
            json!("d1"),
        ),
        ("/api/v1/steps/7/purge", json!({"step": 7}), json!(7)),
    ] {
        let (status, ladder) = bench.get(path).await;
        assert_eq!((status, ladder), (200, as_json(&samples::ladder())));
        assert_eq!(as_json(&bench.fake.last_queried())["what"], what);

        let request = json!({"rung": "forget", "confirm": "d1", "reason": "ticket 7"});
        let (status, shown) = bench.post(path, request).await;
        assert_eq!((status, &shown["id"]), (202, &id), "{shown}");
        let purge =
            json!({"rung": "forget", "moved": 1, "unpinned_by": "d2", "runbook": "1. look"});
        assert_eq!(shown["purge"], purge);
        let envelope = bench.fake.last_submitted();
        let expected = json!({"do": "purge", "what": what, "rung": "forget", "confirm": "d1"});
        assert_eq!(as_json(&envelope.command), expected);
        assert_eq!(envelope.reason, "ticket 7");

        let message = "forget is not offered".to_owned();
        let refused = Err(ControlError::Conflict { message });
        bench.fake.answer_next_submit(refused);
        let request = json!({"rung": "forget", "confirm": "d1"});
        assert_eq!(bench.post(path, request).await.0, 409);
        let before = bench.fake.submits();
        for (body, says) in [
            (
                json!({"rung": "forgt", "confirm": "d1"}),
                "did you mean \"forget\"?",
            ),
            (json!({"rung": "forget"}), "confirm"),
        ] {
            let (status, problem) = bench.post(path, body).await;
            let detail = problem["detail"].as_str().unwrap();
            assert!(status == 400 && detail.contains(says), "{detail}");
        }
        assert_eq!(bench.fake.submits(), before);
    }
}

#[tokio::test]
async fn p03_orphans_are_listed_and_tombstones_released() {
    let bench = Bench::new().await;
    let (status, list) = bench.get("/api/v1/orphans?limit=5&cursor=1:2").await;
    assert_eq!(status, 200);
    assert_eq!(list, json!({"items": [samples::orphan()], "next": "c2"}));
    let queried = json!({"ask": "orphans", "cursor": "1:2", "limit": 5});
    assert_eq!(as_json(&bench.fake.last_queried()), queried);

    let path = "/api/v1/tombstones/prod%2FRegionOne/port/p1/release";
    let (status, tombstone) = bench.post(path, json!({"reason": "restored"})).await;
    assert_eq!((status, tombstone), (202, as_json(&samples::tombstone())));
    let envelope = bench.fake.last_submitted();
    let key = samples::key("port", "p1");
    assert_eq!(
        as_json(&envelope.command),
        json!({"do": "release", "key": key})
    );
    assert_eq!(envelope.reason, "restored");
}

#[tokio::test]
async fn g12_deployments_are_listed_and_released() {
    let bench = Bench::new().await;
    let (status, list) = bench.get("/api/v1/deployments").await;
    assert_eq!(
        (status, list),
        (200, json!({"items": [samples::deployment()], "next": null}))
    );
    let queried = as_json(&bench.fake.last_queried());
    assert_eq!(queried, json!({"ask": "deployments"}));

    let path = "/api/v1/deployments/d0-1/release";
    let (status, answer) = bench.post(path, json!({"reason": "switched off"})).await;
    assert_eq!((status, answer), (202, json!({"released": "d0-1"})));
    let envelope = bench.fake.last_submitted();
    let command = as_json(&envelope.command);
    assert_eq!(command, json!({"do": "release_importer", "name": "d0-1"}));
    assert_eq!(envelope.reason, "switched off");

    bench.fake.answer_next_submit(Err(ControlError::Conflict {
        message: "no importer d0-2 is on record; `gone list deployments` shows the importers"
            .into(),
    }));
    let path = "/api/v1/deployments/d0-2/release";
    let (status, problem) = bench.post(path, json!({})).await;
    assert_eq!(status, 409, "{problem}");
}

#[tokio::test]
async fn sites_are_paused_and_resumed() {
    let bench = Bench::new().await;
    for (call, word) in [("pause", "pause_site"), ("resume", "resume_site")] {
        let path = format!("/api/v1/sites/prod%2FRegionOne/{call}");
        let (status, site) = bench.post(&path, json!({"reason": "upgrade"})).await;
        assert_eq!((status, &site["site"]), (202, &json!("prod/RegionOne")));
        assert_eq!(site["paused_by"]["reason"], "upgrade");
        let command = as_json(&bench.fake.last_submitted().command);
        assert_eq!(command, json!({"do": word, "site": "prod/RegionOne"}));
    }
}

#[tokio::test]
async fn t10_stuck_deletions_are_listed_by_age() {
    let bench = Bench::new().await;
    for (path, hours) in [
        ("/api/v1/stuck", 24),
        ("/api/v1/stuck?older_than=48h", 48),
        ("/api/v1/stuck?older_than=0s", 0),
    ] {
        let (status, list) = bench.get(path).await;
        assert_eq!((status, &list["items"][0]["id"]), (200, &json!("d1")));
        let Query::Deletions(query::Deletions {
            states, older_than, ..
        }) = bench.fake.last_queried()
        else {
            panic!("unexpected query");
        };
        assert_eq!(states, [DeletionState::Stuck]);
        let age = chrono::Utc::now() - older_than.unwrap();
        let slack = chrono::Duration::minutes(1);
        assert!(
            (age - chrono::Duration::hours(hours)).abs() < slack,
            "{path}: {age}"
        );
    }
    let (status, problem) = bench.get("/api/v1/stuck?older_than=soon").await;
    assert_eq!(status, 400);
    assert!(problem["detail"].as_str().unwrap().contains("older_than"));
}

#[tokio::test]
async fn all_list_routes_answer_in_one_shape() {
    let bench = Bench::new().await;
    for path in [
        "/api/v1/deletions",
        "/api/v1/deletions/d1/steps",
        "/api/v1/stuck",
        "/api/v1/gc",
        "/api/v1/sites",
        "/api/v1/causes",
        "/api/v1/gates",
        "/api/v1/deployments",
        "/api/v1/engine",
        "/api/v1/audit",
        "/api/v1/tombstones",
        "/api/v1/orphans",
    ] {
        let (status, list) = bench.get(path).await;
        assert_eq!(status, 200, "{path}");
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{path}");
        assert!(list.get("next").is_some(), "{path}");
        assert_eq!(list.as_object().unwrap().len(), 2, "{path}");
    }
    bench.get("/api/v1/gc").await;
    assert_eq!(
        as_json(&bench.fake.last_queried())["states"],
        json!(["blocked"])
    );
    let (_, audit) = bench.get("/api/v1/audit?cursor=9").await;
    assert!(matches!(
        bench.fake.last_queried(),
        Query::Audit(query::Audit { after: 9 })
    ));
    assert_eq!(audit["next"], "1");
    bench.fake.answer_next_query(Ok(Page::Audit(vec![])));
    let (_, end) = bench.get("/api/v1/audit?cursor=1").await;
    assert_eq!(end, json!({"items": [], "next": null}));
}

#[tokio::test]
async fn i08_tombstones_are_listed_and_read_by_key() {
    let bench = Bench::new().await;
    let path = "/api/v1/tombstones?site=prod/RegionOne&kind=network&phase=deleting,gone,purged";
    let (status, list) = bench.get(path).await;
    assert_eq!(status, 200);
    assert_eq!(list["items"][0], as_json(&samples::tombstone()));
    let queried = as_json(&bench.fake.last_queried());
    assert_eq!(queried["phases"], json!(["deleting", "gone", "purged"]));

    let path = "/api/v1/tombstones/prod%2FRegionOne/static_route/r1%2C10.0.0.0%2F8%2C%25";
    let (status, tombstone) = bench.get(path).await;
    assert_eq!((status, tombstone), (200, as_json(&samples::tombstone())));
    let queried = as_json(&bench.fake.last_queried());
    assert_eq!(queried["site"], "prod/RegionOne");
    assert_eq!(queried["kind"], "static_route");
    assert_eq!(queried["id"], "r1,10.0.0.0/8,%");

    let (status, _) = bench
        .get("/api/v1/tombstones/prod%2FRegionOne/port/none")
        .await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn healthz_is_ok_and_readyz_follows_the_snapshot() {
    use gone::control::SiteState;
    let bench = Bench::new().await;
    assert_eq!(bench.get("/healthz").await, (200, json!({"status": "ok"})));
    assert_eq!(
        bench.get("/readyz").await,
        (200, json!({"status": "ready"}))
    );

    let down = samples::site_status(SiteState::Unreachable);
    bench.fake.publish(|snapshot| snapshot.sites = vec![down]);
    let (status, problem) = bench.get("/readyz").await;
    assert_eq!(status, 503);
    assert_eq!(
        problem["detail"],
        "no cloud is reachable: prod/RegionOne (connection refused)"
    );
    bench.fake.publish(|snapshot| snapshot.engine.epoch = 0);
    assert_eq!(bench.get("/readyz").await.0, 503);
    bench
        .fake
        .publish(|snapshot| snapshot.engine.fault = Some("disk full".into()));
    assert_eq!(bench.get("/readyz").await.1["detail"], "disk full");
    assert_eq!(bench.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let bench = Bench::new().await;
    bench.fake.publish(|snapshot| {
        snapshot.engine.version = "a\"b\\c".into();
    });
    let response = bench.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(content_type(&response), "text/plain; version=0.0.4");
    let text = response.text().await.unwrap();
    for line in [
        "# TYPE gone_steps gauge",
        "gone_steps{state=\"gone\"} 3",
        "gone_steps{state=\"blocked\"} 0",
        "gone_deletions{state=\"running\"} 1",
        "gone_engine_info{version=\"a\\\"b\\\\c\",epoch=\"1\"} 1",
        "gone_site_reachable{site=\"prod/RegionOne\"} 1",
        "gone_site_latency_seconds{site=\"prod/RegionOne\"} 0.25",
        "gone_steps_gone_per_second 1.5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn m02_native_resources_are_created_read_changed_and_deleted() {
    let bench = Bench::new().await;
    let (status, list) = bench
        .get("/api/v1/resources/invoice?network=n1@prod/RegionOne&limit=5")
        .await;
    assert_eq!((status, &list["items"][0]["id"]), (200, &json!("i1")));
    let Query::Native(query::Native {
        kind, by, limit, ..
    }) = bench.fake.last_queried()
    else {
        panic!("unexpected query");
    };
    assert_eq!((kind.as_str(), limit), ("invoice", 5));
    assert_eq!(by, [("network".to_owned(), "n1@prod/RegionOne".to_owned())]);
    let (status, one) = bench.get("/api/v1/resources/invoice/i1").await;
    assert_eq!((status, &one["id"]), (200, &json!("i1")));

    let kept = || {
        Ok(Receipt::Resource {
            row: samples::native(),
        })
    };
    bench.fake.answer_next_submit(kept());
    let created = bench
        .request(Method::POST, "/api/v1/resources/invoice")
        .json(&json!({"id": "i1"}))
        .send()
        .await
        .unwrap();
    assert_eq!(created.status(), 201);
    assert_eq!(
        created.headers()["location"],
        "/api/v1/resources/invoice/i1"
    );
    let Command::Create { kind, body } = bench.fake.last_submitted().command else {
        panic!("unexpected command");
    };
    assert_eq!((kind.as_str(), body), ("invoice", json!({"id": "i1"})));
    bench.fake.answer_next_submit(kept());
    let changed = bench
        .request(Method::PATCH, "/api/v1/resources/invoice/i1")
        .json(&json!({"name": null}))
        .send()
        .await
        .unwrap();
    assert_eq!(changed.status(), 200);
    let Command::Update { id, body, .. } = bench.fake.last_submitted().command else {
        panic!("unexpected command");
    };
    assert_eq!((id.as_str(), body), ("i1", json!({"name": null})));

    bench
        .fake
        .answer_next_submit(Ok(samples::receipts().swap_remove(1)));
    let deleted = bench
        .request(Method::DELETE, "/api/v1/resources/invoice/i1")
        .json(&json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.status(), 202);
    let Command::Delete {
        targets, options, ..
    } = bench.fake.last_submitted().command
    else {
        panic!("unexpected command");
    };
    assert_eq!(
        (targets[0].kind.as_str(), targets[0].id_or_name.as_str()),
        ("invoice", "i1")
    );
    assert!(options.cascade);
}
