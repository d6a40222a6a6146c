//! Which answers of a peer count, and which are errors.

use std::time::{Duration, Instant};

use gone::domain::peers::Answers;
use gone::peers::{HttpPeers, Limits, PeerFailure, Peers as _};
use tokio::net::TcpListener;

use crate::fake::{FakeEngine, answers, notices};
use crate::support::*;

/// Asks a peer that sends these bytes as its answer to every call. Returns the result.
async fn ask_peer_answering(answer: impl Into<Vec<u8>>) -> Result<Answers, PeerFailure> {
    let files = Files::new();
    let url = stub(answer).await;
    let peers = caller(files.peer("s1", &url, "token"));
    let answer = peers.ask(&peer("s1"), question("s0")).await;
    answer.inspect_err(|failure| {
        let called = format!("POST {url}/peer/v1/points-at: ");
        assert!(failure.message.starts_with(&called), "{failure}");
        assert!(!failure.message.contains(TOKEN), "{failure}");
    })
}

/// Returns the reason why a peer's answer is an error.
async fn failure_of(answer: impl Into<Vec<u8>>) -> String {
    let failure = ask_peer_answering(answer).await.unwrap_err();
    let (_, why) = failure.message.split_once("points-at: ").unwrap();
    why.to_owned()
}

fn json_of(answers: &Answers) -> String {
    serde_json::to_string(answers).unwrap()
}

#[tokio::test]
async fn g07_an_answer_is_returned_unchanged_even_if_it_does_not_match_the_question() {
    let mut other = answers(&question("s0"));
    assert_eq!(
        ask_peer_answering(answer("200 OK", "", &json_of(&other))).await,
        Ok(other.clone())
    );
    // Only the engine compares the answer with the question.
    other.about[0].asked = clearance_request("rx-2");
    other.seq = -1;
    let received = ask_peer_answering(answer("200 OK", "", &json_of(&other)))
        .await
        .unwrap();
    assert_eq!(received, other);
    assert!(received.check(&question("s0")).is_err());
}

#[tokio::test]
async fn g07_fields_of_a_later_version_are_ignored() {
    let known = answers(&question("s0"));
    let later = json_of(&known).replacen('{', "{\"mood\":\"good\",", 2);
    assert_eq!(
        ask_peer_answering(answer("200 OK", "", &later)).await,
        Ok(known)
    );
}

#[tokio::test]
async fn g07_an_empty_answer_is_an_error() {
    let why = failure_of(answer("200 OK", "", "")).await;
    assert!(
        why.starts_with("200 OK: the answer cannot be read: EOF"),
        "{why}"
    );
    assert!(
        failure_of("").await.contains("closed"),
        "a closed connection"
    );
    let why = failure_of(answer("204 No Content", "", "")).await;
    assert_eq!(why, "unexpected status 204 No Content");
    let why = failure_of(answer("200 OK", "", "{}")).await;
    assert!(why.contains("missing field `from`"), "{why}");
    let why = failure_of(answer("200 OK", "", "null")).await;
    assert!(why.contains("cannot be read"), "{why}");
}

#[tokio::test]
async fn g07_a_truncated_answer_is_an_error() {
    let whole = json_of(&answers(&question("s0")));
    let half = &whole[..whole.len() / 2];
    let why = failure_of(answer("200 OK", "", half)).await;
    assert!(
        why.starts_with("200 OK: the answer cannot be read: EOF"),
        "{why}"
    );
    let cut = answer("200 OK", "", &whole);
    let why = failure_of(&cut.as_bytes()[..cut.len() - 9]).await;
    assert!(why.starts_with("200 OK: the answer was cut off: "), "{why}");
    let why = failure_of(answer("200 OK", "", &format!("{whole}{whole}"))).await;
    assert!(why.contains("trailing characters"), "{why}");
}

#[tokio::test]
async fn g07_an_answer_of_another_program_or_protocol_version_is_an_error() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>";
    let why = failure_of(page).await;
    assert_eq!(
        why,
        "200 OK: the answer has no header gone-protocol: 1; check that url is the address of a deployment of gone"
    );
    let whole = answer("200 OK", "", &json_of(&answers(&question("s0"))));
    let why = failure_of(whole.replace("gone-protocol: 1\r\n", "")).await;
    assert!(why.contains("has no header gone-protocol: 1"), "{why}");
    let why = failure_of(whole.replace("gone-protocol: 1", "gone-protocol: 2")).await;
    assert!(why.contains("has no header gone-protocol: 1"), "{why}");
    let why = failure_of(whole.replace("application/json", "text/html")).await;
    assert_eq!(
        why,
        "200 OK: the answer is not JSON; check that url is the address of a deployment of gone: text/html"
    );
    let why = failure_of("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    assert!(why.starts_with("502 Bad Gateway: "), "{why}");
    assert!(!failure_of("220 mail.example ESMTP\r\n").await.is_empty());
}

#[tokio::test]
async fn g07_a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    for status in ["301 Moved Permanently", "307 Temporary Redirect"] {
        let why = failure_of(answer(status, &location, "")).await;
        assert_eq!(
            why,
            format!("{status}: redirects are not followed: set url to the redirect's address")
        );
    }
    let connected = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(
        connected.is_err(),
        "the call, with its token, followed the redirect"
    );
}

#[tokio::test]
async fn g07_an_answer_that_is_too_large_is_an_error() {
    let why = failure_of(
        "HTTP/1.1 200 OK\r\ngone-protocol: 1\r\ncontent-type: application/json\r\n\r\n"
            .bytes()
            .chain(std::iter::repeat_n(b' ', (64 << 20) + 1))
            .collect::<Vec<u8>>(),
    )
    .await;
    assert_eq!(why, "200 OK: the answer is larger than 67108864 bytes");
}

#[tokio::test]
async fn g07_the_detail_of_a_refusal_is_escaped_redacted_and_shortened() {
    let detail = format!("\\u001b[2J{TOKEN} and {}", "on ".repeat(500));
    let why = failure_of(answer(
        "409 Conflict",
        "",
        &format!("{{\"detail\": \"{detail}\"}}"),
    ))
    .await;
    assert!(
        why.starts_with("409 Conflict: \\u{1b}[2J… and on on"),
        "{why}"
    );
    assert!(why.len() < 400 && why.ends_with('…'), "{why}");
    assert_eq!(
        failure_of(answer("500 Internal Server Error", "", "<html>")).await,
        "500 Internal Server Error"
    );
}

#[tokio::test]
async fn g05_only_a_204_confirms_a_hint() {
    let files = Files::new();
    let hint = async |answer: String| {
        let peers = caller(files.peer("s1", &stub(answer).await, "token"));
        peers.hint(&peer("s1"), deployment("s0")).await
    };
    let confirmed = "HTTP/1.1 204 No Content\r\ngone-protocol: 1\r\n\r\n".to_owned();
    assert_eq!(hint(confirmed).await, Ok(()));
    let failure = hint(answer("200 OK", "", "{}")).await.unwrap_err();
    assert!(
        failure
            .message
            .ends_with("/peer/v1/hint: unexpected status 200 OK")
    );
}

#[tokio::test]
async fn g07_a_call_to_a_silent_peer_ends_at_its_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let files = Files::new();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let limits = Limits {
        answer: Duration::from_millis(50),
        ..Limits::default()
    };
    let peers = HttpPeers::new(&[files.peer("s1", &url, "token")], limits).unwrap();
    let failure = peers.ask(&peer("s1"), question("s0")).await.unwrap_err();
    assert!(
        failure.message.ends_with("no answer within 0.05 s"),
        "{failure}"
    );
    // The time that a watch waits at the peer is added to the time limit.
    let mut patient = watch("s0");
    patient.wait_ms = 200;
    let since = Instant::now();
    let failure = peers.watch(&peer("s1"), patient).await.unwrap_err();
    assert!(
        failure.message.ends_with("no answer within 0.25 s"),
        "{failure}"
    );
    assert!(since.elapsed() >= Duration::from_millis(250));
    assert_eq!(Limits::default().answer, Duration::from_secs(10));
}

#[tokio::test]
async fn g07_a_refused_connection_is_reported_with_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let files = Files::new();
    let peers = caller(files.peer("s1", &url, "token"));
    let failure = peers.ask(&peer("s1"), question("s0")).await.unwrap_err();
    let called = format!("POST {url}/peer/v1/points-at: ");
    assert!(failure.message.starts_with(&called), "{failure}");
    assert!(failure.message.contains("refused"), "{failure}");
    let failure = peers.ask(&peer("s9"), question("s0")).await.unwrap_err();
    assert_eq!(
        failure.message,
        "s9/r is not one of the peers in [deployment] of the settings"
    );
    let none = HttpPeers::new(&[], Limits::default()).unwrap();
    assert!(none.known().is_empty());
}

#[tokio::test]
async fn g01_both_sides_read_a_rotated_token_again() {
    let files = Files::new();
    files.write("ours", "old");
    files.write("theirs", "old");
    let settings = settings(vec![files.peer("s0", "http://127.0.0.1:1", "theirs")]);
    let control = FakeEngine::new();
    let listening = serve(control.clone(), &settings).await;
    let url = format!("http://{}/", listening.address());
    let peers = caller(files.peer("s1", &url, "ours"));
    let call = async || peers.watch(&peer("s1"), watch("s0")).await;
    assert_eq!(call().await, Ok(notices(&watch("s0"))));
    files.write("theirs", "new");
    let since = Instant::now();
    while call().await.is_ok() {
        assert!(
            since.elapsed() < DEADLINE,
            "the old token is still accepted"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    files.write("ours", "new");
    assert_eq!(call().await, Ok(notices(&watch("s0"))));
    std::fs::remove_file(files.path("ours")).unwrap();
    assert_eq!(
        call().await,
        Ok(notices(&watch("s0"))),
        "the caller lost the token of a file that was removed"
    );
    listening.stop().await;
}
