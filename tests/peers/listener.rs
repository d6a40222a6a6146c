//! The listener for peers: which callers it serves, which messages it accepts, and how it refuses other callers and
//! messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gone::control::ControlError;
use gone::domain::model::{Actor, Origin};
use gone::peers::{HttpPeers, Limits, ListenError, ListenHandle, Peers as _, listen};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::fake::{FakeEngine, ReceivedCall, answers, notices};
use crate::log::Log;
use crate::support::*;

/// Starts the listener of `d1`, which has the peers `s0` and `s2`, each with its own token.
async fn listening(files: &Files, control: Arc<FakeEngine>) -> ListenHandle {
    files.write("token-2", "tok-of-s2");
    let peers = vec![
        files.peer("s0", "http://127.0.0.1:1", "token"),
        files.peer("s2", "http://127.0.0.1:2", "token-2"),
    ];
    serve(control, &settings(peers)).await
}

/// A call with this token and body; without a token if `token` is empty.
fn call(
    listening: &ListenHandle,
    path: &str,
    token: &str,
    body: impl Into<Vec<u8>>,
) -> RequestBuilder {
    let url = format!("http://{}/peer/v1{path}", listening.address());
    let request = reqwest::Client::new().post(url).body(body.into());
    let request = request.header("gone-protocol", "1");
    match token {
        "" => request,
        token => request.bearer_auth(token),
    }
}

fn bytes(message: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap()
}

/// Returns the status and the detail of a refusal. Asserts that it is a problem document and names the protocol.
async fn refused(request: RequestBuilder) -> (u16, String) {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["gone-protocol"], "1");
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let status = answer.status().as_u16();
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["status"], status);
    (status, problem["detail"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn p12_silent_connections_do_not_block_the_listener() {
    let (files, control) = (Files::new(), FakeEngine::new());
    let listening = listening(&files, control.clone()).await;
    let mut held = Vec::new();
    for _ in 0..600 {
        held.push(
            tokio::net::TcpStream::connect(listening.address())
                .await
                .unwrap(),
        );
    }
    for _ in 0..20 {
        let url = format!("http://{}/peer/v1", listening.address());
        let answer = reqwest::Client::new().get(url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    println!("{} silent connections held, 20 of 20 answered", held.len());
    listening.stop().await;
}

#[tokio::test]
async fn g04_a_peer_can_watch_ask_and_hint() {
    let (files, control) = (Files::new(), FakeEngine::new());
    let listening = listening(&files, control.clone()).await;
    let url = format!("http://{}", listening.address());
    let peers = caller(files.peer("s1", &url, "token"));
    let s1 = peer("s1");
    assert_eq!(peers.known(), std::slice::from_ref(&s1));
    assert_eq!(peers.probe(&s1).await, Ok(()));
    let by = Actor {
        name: "deployment d0".to_owned(),
        origin: Origin::Peer,
    };
    assert_eq!(
        peers.watch(&s1, watch("s0")).await,
        Ok(notices(&watch("s0")))
    );
    assert_eq!(control.last(), ReceivedCall::Watch(watch("s0"), by.clone()));
    let answer = peers.ask(&s1, question("s0")).await.unwrap();
    assert_eq!(answer, answers(&question("s0")));
    assert_eq!(control.last(), ReceivedCall::Question(question("s0")));
    assert_eq!(peers.hint(&s1, deployment("s0")).await, Ok(()));
    assert_eq!(control.last(), ReceivedCall::Hint(deployment("s0"), by));
    listening.stop().await;
    let failure = peers.probe(&s1).await.unwrap_err();
    assert!(failure.message.starts_with("GET http://"), "{failure}");
}

#[tokio::test]
async fn g01_every_unauthenticated_call_gets_the_same_401() {
    let (files, control) = (Files::new(), FakeEngine::new());
    let listening = listening(&files, control.clone()).await;
    let mut refusals = Vec::new();
    for (token, from) in [
        ("", "s0"),
        ("wrong", "s0"),
        ("wrong", "s9"),
        // Valid tokens, but of peers other than the one that the body names.
        (TOKEN, "s2"),
        (TOKEN, "s9"),
        (TOKEN, "s1"),
        ("tok-of-s2", "s0"),
    ] {
        for (path, body) in [
            ("/watch", bytes(&watch(from))),
            ("/points-at", bytes(&question(from))),
            ("/hint", bytes(&json!({"from": deployment(from)}))),
        ] {
            refusals.push(refused(call(&listening, path, token, body)).await);
        }
    }
    let basic = call(&listening, "/watch", "", bytes(&watch("s0"))).basic_auth("d0", Some(TOKEN));
    refusals.push(refused(basic).await);
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals[0].0, 401);
    assert_eq!(control.count(), 0);
    let valid = call(&listening, "/watch", "tok-of-s2", bytes(&watch("s2")));
    assert_eq!(valid.send().await.unwrap().status(), StatusCode::OK);
    listening.stop().await;
}

#[tokio::test]
async fn g01_a_call_without_this_protocol_version_is_refused() {
    let (files, control) = (Files::new(), FakeEngine::new());
    let listening = listening(&files, control.clone()).await;
    let url = format!("http://{}/peer/v1/watch", listening.address());
    for version in ["", "2"] {
        let request = reqwest::Client::new().post(&url).body(bytes(&watch("s0")));
        let request = request.bearer_auth(TOKEN).header("gone-protocol", version);
        let (status, detail) = refused(request).await;
        assert_eq!((status, detail.contains("gone-protocol: 1")), (400, true));
    }
    assert_eq!(control.count(), 0);
    // Without a token, a caller can read the protocol's version and nothing else.
    let client = reqwest::Client::new();
    let root = url.trim_end_matches("/watch");
    let version: Response = client.get(root).send().await.unwrap();
    assert_eq!(version.headers()["gone-protocol"], "1");
    assert_eq!(version.text().await.unwrap(), r#"{"protocol":1}"#);
    assert_eq!(refused(client.get(&url)).await.0, 405);
    assert_eq!(refused(client.get(root.replace("v1", "v2"))).await.0, 404);
    assert_eq!(
        refused(client.get(root.replace("/peer/v1", "/api/v1/sites")))
            .await
            .0,
        404
    );
    listening.stop().await;
}

#[tokio::test]
async fn g07_a_refusal_names_the_missing_or_invalid_field() {
    let (files, control) = (Files::new(), FakeEngine::new());
    let listening = listening(&files, control.clone()).await;
    let mut no_seq = serde_json::to_value(question("s0")).unwrap();
    no_seq.as_object_mut().unwrap().remove("seq");
    let mut wrong = serde_json::to_value(watch("s0")).unwrap();
    wrong["after"] = json!("7");
    for (path, body, status, word) in [
        ("/points-at", bytes(&no_seq), 422, "missing field `seq`"),
        ("/watch", bytes(&wrong), 422, "\"after\": invalid type"),
        ("/hint", b"{}".to_vec(), 422, "missing field `from`"),
        ("/watch", b"{\"from\": {".to_vec(), 400, "EOF"),
        ("/watch", Vec::new(), 400, "EOF"),
        ("/hint", b"<html>".to_vec(), 400, "expected value"),
        ("/watch", vec![b' '; (8 << 20) + 1], 413, "8388608 bytes"),
    ] {
        let (found, detail) = refused(call(&listening, path, TOKEN, body)).await;
        assert_eq!(found, status, "{detail}");
        assert!(detail.contains(word), "{detail}");
    }
    assert_eq!(control.count(), 0);
    let mut later = serde_json::to_value(watch("s0")).unwrap();
    later["mood"] = json!("good");
    later["from"]["motto"] = json!("festina lente");
    let answer = call(&listening, "/watch", TOKEN, bytes(&later))
        .send()
        .await;
    assert_eq!(answer.unwrap().status(), StatusCode::OK);
    assert!(matches!(control.last(), ReceivedCall::Watch(received, _) if received == watch("s0")));
    listening.stop().await;
}

#[tokio::test]
async fn g07_a_refusal_by_the_engine_is_an_error_for_the_caller() {
    let message = || "name taken".to_owned();
    for (error, status) in [
        (ControlError::Conflict { message: message() }, 409),
        (ControlError::Usage { message: message() }, 422),
        (ControlError::Forbidden { message: message() }, 403),
        (ControlError::Unreachable { message: message() }, 503),
        (ControlError::Internal { message: message() }, 500),
    ] {
        let files = Files::new();
        let listening = listening(&files, FakeEngine::refusing(error)).await;
        let url = format!("http://{}", listening.address());
        let peers = caller(files.peer("s1", &url, "token"));
        let failure = peers.watch(&peer("s1"), watch("s0")).await.unwrap_err();
        assert!(
            failure.message.contains(&format!("/watch: {status} ")),
            "{failure}"
        );
        assert!(failure.message.contains("name taken"), "{failure}");
        assert!(peers.ask(&peer("s1"), question("s0")).await.is_err());
        assert!(peers.hint(&peer("s1"), deployment("s0")).await.is_err());
        listening.stop().await;
    }
}

#[tokio::test]
async fn g04_a_listener_serves_250_watches_and_250_questions_at_once() {
    let (files, control) = (Files::new(), FakeEngine::waiting());
    let listening = listening(&files, control.clone()).await;
    let url = format!("http://{}", listening.address());
    let peers = Arc::new(caller(files.peer("s1", &url, "token")));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..250 {
        let (watching, asking) = (peers.clone(), peers.clone());
        let mut patient = watch("s0");
        patient.wait_ms = 60_000;
        calls.spawn(async move { watching.watch(&peer("s1"), patient).await.map(drop) });
        calls.spawn(async move { asking.ask(&peer("s1"), question("s0")).await.map(drop) });
    }
    tokio::time::timeout(DEADLINE, control.wait_for_waiting_calls(500))
        .await
        .unwrap();
    // When the callers hang up, the engine's calls end too.
    calls.abort_all();
    tokio::time::timeout(DEADLINE, control.wait_for_waiting_calls(0))
        .await
        .unwrap();
    listening.stop().await;
}

#[tokio::test]
async fn g04_an_engine_that_stops_ends_its_watches() {
    let (files, control) = (Files::new(), FakeEngine::waiting());
    let listening = listening(&files, control.clone()).await;
    let url = format!("http://{}", listening.address());
    let peers = caller(files.peer("s1", &url, "token"));
    let mut patient = watch("s0");
    patient.wait_ms = 60_000;
    let watched = tokio::spawn(async move { peers.watch(&peer("s1"), patient).await });
    control.wait_for_waiting_calls(1).await;
    let since = Instant::now();
    listening.stop().await;
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
    let failure = watched.await.unwrap().unwrap_err();
    assert!(
        failure
            .message
            .contains("503 Service Unavailable: this deployment is shutting down"),
        "{failure}"
    );
}

#[tokio::test]
async fn g01_plain_http_never_leaves_the_machine() {
    let files = Files::new();
    let mut settings = settings(vec![files.peer("s0", "http://127.0.0.1:1", "token")]);
    settings.listen = "0.0.0.0:0".parse().unwrap();
    let refused = listen(&settings, FakeEngine::new()).await.unwrap_err();
    assert!(
        matches!(refused, ListenError::InTheClear { .. }),
        "{refused}"
    );
    let peers = caller(files.peer("s1", "http://192.0.2.1:9", "token"));
    let failure = peers.ask(&peer("s1"), question("s0")).await.unwrap_err();
    assert!(failure.message.contains("scheme is not"), "{failure}");
}

#[tokio::test]
async fn g01_the_log_contains_no_token() {
    let log = Log::start();
    let files = Files::new();
    let listening = listening(&files, FakeEngine::new()).await;
    let url = format!("http://{}", listening.address());
    files.write("wrong", "tok-Wrong7Hx");
    let one = [files.peer("s1", &url, "wrong")];
    let with_wrong_token = HttpPeers::new(&one, Limits::default()).unwrap();
    assert!(
        with_wrong_token
            .watch(&peer("s1"), watch("s0"))
            .await
            .is_err()
    );
    let with_token_of_s0 = caller(files.peer("s1", &url, "token"));
    assert!(
        with_token_of_s0
            .watch(&peer("s1"), watch("s2"))
            .await
            .is_err()
    );
    assert!(
        with_token_of_s0
            .watch(&peer("s1"), watch("s0"))
            .await
            .is_ok()
    );
    listening.stop().await;
    let log = log.lines().join("\n");
    for message in [
        "listening for other deployments",
        "an unknown peer was refused",
        "claimed=\"s2/r\"",
    ] {
        assert!(log.contains(message), "no {message}: {log}");
    }
    for token in [TOKEN, "tok-Wrong7Hx", "tok-of-s2"] {
        assert!(!log.contains(token), "{log}");
    }
}
