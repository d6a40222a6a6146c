//! A remote control answers as the control behind the socket does.

use std::sync::Arc;

use gone::control::remote::{PROTOCOL, RemoteControl};
use gone::control::{Control, ControlError, Envelope, Query, query};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::{Bench, eventually};
use crate::fake::Fake;
use crate::samples;

fn as_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

async fn attach(bench: &Bench) -> Arc<dyn Control> {
    RemoteControl::connect(&bench.socket).await.unwrap()
}

#[tokio::test]
async fn every_query_and_page_passes_unchanged() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    for query in samples::queries() {
        let page = remote.query(query.clone()).await.unwrap();
        assert_eq!(as_json(&bench.fake.last_queried()), as_json(&query));
        let direct = bench.fake.query(query).await.unwrap();
        assert_eq!(as_json(&page), as_json(&direct));
    }
    for page in samples::pages() {
        let expected = as_json(&page);
        bench.fake.answer_next_query(Ok(page));
        let page = remote.query(Query::Sites(query::Sites {})).await.unwrap();
        assert_eq!(as_json(&page), expected);
    }
}

#[tokio::test]
async fn every_command_and_receipt_passes_unchanged() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    let envelope = |command| Envelope {
        command,
        actor: samples::actor(),
        reason: "ticket 7".into(),
        idempotency_key: Some("key".into()),
        deadline: None,
    };
    for command in samples::commands() {
        let sent = envelope(command);
        remote.submit(sent.clone()).await.unwrap();
        assert_eq!(as_json(&bench.fake.last_submitted()), as_json(&sent));
    }
    for receipt in samples::receipts() {
        let expected = as_json(&receipt);
        bench.fake.answer_next_submit(Ok(receipt));
        let command = samples::commands().swap_remove(0);
        let receipt = remote.submit(envelope(command)).await.unwrap();
        assert_eq!(as_json(&receipt), expected);
    }
}

#[tokio::test]
async fn every_error_passes_with_its_type() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    for (error, ..) in samples::errors() {
        bench.fake.answer_next_query(Err(error.clone()));
        let found = remote
            .query(Query::Sites(query::Sites {}))
            .await
            .unwrap_err();
        assert_eq!(as_json(&found), as_json(&error));
        assert_eq!(found.to_string(), "what and why");

        bench.fake.fail_next_events(error.clone());
        let found = remote.events(0, 0).await.unwrap_err();
        assert_eq!(as_json(&found), as_json(&error));
    }
}

#[tokio::test]
async fn a_call_for_events_waits_until_one_arrives() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    assert_eq!(remote.events(0, 0).await.unwrap(), []);
    let waiting = tokio::spawn({
        let remote = remote.clone();
        async move { remote.events(0, 8_000).await.unwrap() }
    });
    bench.fake.emit([1]);
    assert_eq!(waiting.await.unwrap(), [samples::event(1)]);
    bench.fake.emit(2..=9);
    let page = remote.events(4, 8_000).await.unwrap();
    assert_eq!(page, [5, 6, 7].map(samples::event));
}

#[tokio::test]
async fn snapshots_follow_the_engine() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    let mut snapshots = remote.snapshot();
    assert_eq!(**snapshots.borrow_and_update(), samples::snapshot(1));
    for version in 2..50 {
        bench.fake.publish(|snapshot| snapshot.version = version);
    }
    let newest = snapshots.wait_for(|snapshot| snapshot.version == 49);
    let newest = tokio::time::timeout(crate::bench::DEADLINE, newest);
    assert_eq!(**newest.await.unwrap().unwrap(), samples::snapshot(49));
}

#[tokio::test]
async fn a_wait_for_events_does_not_delay_the_shutdown() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    let waiting = tokio::spawn(async move { remote.events(0, 60_000).await.unwrap() });
    eventually("the call for events waits", async || {
        bench.fake.waiting_event_calls() > 0
    })
    .await;
    bench.api.stop().await;
    let events = tokio::time::timeout(crate::bench::DEADLINE, waiting).await;
    assert_eq!(events.unwrap().unwrap(), []);
}

#[tokio::test]
async fn a_dropped_remote_control_ends_its_snapshot_stream() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    assert_eq!(bench.fake.snapshots.receiver_count(), 1);
    drop(remote);
    eventually("the stream of snapshots ends", async || {
        bench.fake.snapshots.receiver_count() == 0
    })
    .await;
}

#[tokio::test]
async fn heartbeats_between_snapshots_are_ignored() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("gone.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let hello = json!({"protocol": PROTOCOL, "version": "0.1.0", "pid": 1});
    let body = format!("\n\n{}\n\n", as_json(&samples::snapshot(5)));
    let engine = axum::Router::new()
        .route(
            "/control/v1/hello",
            axum::routing::get(async move || axum::Json(hello)),
        )
        .route(
            "/control/v1/snapshots",
            axum::routing::get(async move || body),
        );
    let engine = tokio::spawn(async move { axum::serve(listener, engine).await });
    let remote = RemoteControl::connect(&socket).await.unwrap();
    assert_eq!(**remote.snapshot().borrow(), samples::snapshot(5));
    engine.abort();
}

#[tokio::test]
async fn a_remote_control_survives_a_restart_of_the_engine() {
    let bench = Bench::new().await;
    let remote = attach(&bench).await;
    let snapshots = remote.snapshot();
    let bench = bench
        .replace(Fake::new(1000), async || {
            eventually(
                "the snapshot says that the engine is unreachable",
                async || {
                    let engine = snapshots.borrow().engine.clone();
                    let fault = engine.fault.unwrap_or_default();
                    engine.unreachable_since.is_some()
                        && fault.starts_with("engine not reachable since ")
                },
            )
            .await;
            assert_eq!(snapshots.borrow().version, 1, "the last snapshot stays");
            let error = remote
                .query(Query::Sites(query::Sites {}))
                .await
                .unwrap_err();
            assert!(
                matches!(error, ControlError::Unreachable { .. }),
                "{error:?}"
            );
            let error = remote.events(0, 0).await.unwrap_err();
            assert!(
                matches!(error, ControlError::Unreachable { .. }),
                "{error:?}"
            );
        })
        .await;
    eventually("the new engine's snapshot", async || {
        **snapshots.borrow() == samples::snapshot(1000)
    })
    .await;
    remote.query(Query::Sites(query::Sites {})).await.unwrap();
    assert!(matches!(
        bench.fake.last_queried(),
        Query::Sites(query::Sites {})
    ));
}

#[tokio::test]
async fn a_missing_engine_is_reported_with_its_socket() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("gone.sock");
    let Err(error) = RemoteControl::connect(&socket).await else {
        panic!("connected although no engine listens");
    };
    let text = error.to_string();
    assert!(matches!(error, ControlError::Unreachable { .. }), "{text}");
    assert!(text.contains(socket.to_str().unwrap()), "{text}");
    assert!(
        text.contains("No such file") && text.contains("running?"),
        "{text}"
    );
}

#[tokio::test]
async fn an_engine_of_another_protocol_is_refused_with_both_versions() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("gone.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let hello = json!({"protocol": 99, "version": "9.9.9", "pid": 1});
    let newer = axum::Router::new().route(
        "/control/v1/hello",
        axum::routing::get(async move || axum::Json(hello)),
    );
    let engine = tokio::spawn(async move { axum::serve(listener, newer).await });
    let Err(error) = RemoteControl::connect(&socket).await else {
        panic!("connected to an engine of another protocol");
    };
    let text = error.to_string();
    assert!(matches!(error, ControlError::Usage { .. }), "{text}");
    assert!(
        text.contains("9.9.9") && text.contains(env!("CARGO_PKG_VERSION")),
        "{text}"
    );
    engine.abort();
}

#[tokio::test]
async fn a_403_from_the_api_becomes_a_forbidden_error() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("gone.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let problem = (
        axum::http::StatusCode::FORBIDDEN,
        [("content-type", "application/problem+json")],
        json!({"detail": "uid 4711 may not use this engine"}).to_string(),
    );
    let guarded = axum::Router::new().fallback(async move || problem);
    let engine = tokio::spawn(async move { axum::serve(listener, guarded).await });
    let Err(error) = RemoteControl::connect(&socket).await else {
        panic!("connected although the API refused it");
    };
    assert!(matches!(error, ControlError::Forbidden { .. }), "{error:?}");
    assert!(error.to_string().contains("uid 4711"), "{error}");
    engine.abort();
}
