//! The results of calls: answers, refusals and errors of services, of proxies and of broken connections.
use std::time::Duration;

use gone::cloud::openstack::{CallError, Reason, RemoteError, Session, TransportError};
use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{
    DEADLINE, TOKEN, cloud_of, fixed_clock, password_cloud, session_of, stub_cloud, token_answer,
    token_body,
};

async fn delete(session: &Session, deadline: Duration) -> Result<u16, CallError> {
    let call = session.request("network", Method::DELETE, "/v2.0/ports/1", None, deadline);
    call.await.map(|answer| answer.status)
}

/// Starts a cloud that gives this answer to every DELETE, and makes a session with it.
async fn cloud_answering(answer: ResponseTemplate) -> (MockServer, Session) {
    let (server, session) = stub_cloud().await;
    Mock::given(method("DELETE"))
        .respond_with(answer)
        .mount(&server)
        .await;
    (server, session)
}

async fn refusal(answer: ResponseTemplate) -> RemoteError {
    let (_server, session) = cloud_answering(answer).await;
    let error = delete(&session, DEADLINE).await.unwrap_err();
    assert!(matches!(error.reason, Reason::Refused(_)), "{error}");
    error.remote().unwrap().clone()
}

#[tokio::test]
async fn a_refusal_keeps_status_type_message_body_and_request_id() {
    for (status, body, kind, message) in [
        (
            409,
            json!({"NeutronError": {"type": "NetworkInUse", "message": "in use", "detail": ""}}),
            Some("NetworkInUse"),
            "in use",
        ),
        (
            403,
            json!({"error": {"code": 403, "title": "Forbidden", "message": "no"}}),
            Some("Forbidden"),
            "no",
        ),
        (
            400,
            json!({"faultcode": "Client", "faultstring": "has children", "debuginfo": null}),
            Some("Client"),
            "has children",
        ),
        (
            403,
            json!({"message": "protected<br /><br />\n\n\n", "code": "403 Forbidden", "title": "Forbidden"}),
            Some("Forbidden"),
            "protected",
        ),
        (
            404,
            json!({"itemNotFound": {"code": 404, "message": "none"}}),
            Some("itemNotFound"),
            "none",
        ),
        (400, json!({"NeutronError": "old"}), None, "old"),
    ] {
        let answer = ResponseTemplate::new(status)
            .insert_header("x-openstack-request-id", "req-7")
            .set_body_json(&body);
        let remote = refusal(answer).await;
        assert_eq!((remote.status, remote.kind.as_deref()), (status, kind));
        assert_eq!(remote.message, message);
        assert_eq!(remote.body, body.to_string());
        assert_eq!(remote.request_id.as_deref(), Some("req-7"));
        assert_eq!(remote.identity.unwrap().project_id.as_deref(), Some("p-id"));
        assert!(remote.own);
    }
}

#[tokio::test]
async fn i13_a_404_that_the_service_did_not_write_is_recognized() {
    for body in [
        "<html>Not Found</html>",
        "",
        "default backend - 404",
        "{\"a\": 1}",
        "[]",
    ] {
        let remote = refusal(ResponseTemplate::new(404).set_body_string(body)).await;
        assert!(!remote.own && remote.kind.is_none(), "{body}");
        assert_eq!(remote.body, body);
        assert_eq!(
            remote.to_string(),
            "404 Not Found, but not in the service's error format"
        );
    }
}

#[tokio::test]
async fn i13_a_2xx_that_the_service_did_not_write_is_an_error() {
    let html = ResponseTemplate::new(200).set_body_string("<html>log in to the wifi</html>");
    let (_server, session) = cloud_answering(html).await;
    let error = delete(&session, DEADLINE).await.unwrap_err();
    assert!(matches!(
        error.reason,
        Reason::NotTheService { status: 200, .. }
    ));
    assert!(error.outcome_unknown());
    let message = error.to_string();
    assert!(
        message.starts_with("c/R1: DELETE http://127.0.0.1:"),
        "{message}"
    );
    assert!(message.ends_with(
        "/v2.0/ports/1: status 200, but the body is a web page; the answer may come from a proxy"
    ));

    let cut = ResponseTemplate::new(200)
        .insert_header("x-openstack-request-id", "req-2")
        .set_body_string("{\"port\": {\"id\"");
    let (_server, session) = cloud_answering(cut).await;
    let error = delete(&session, DEADLINE).await.unwrap_err();
    assert!(matches!(error.reason, Reason::CutOff { .. }));
    assert_eq!(error.request_id(), Some("req-2"));
}

#[tokio::test]
async fn n13_a_500_502_or_504_leaves_the_outcome_unknown() {
    for (status, unknown) in [
        (500, true),
        (502, true),
        (503, false),
        (504, true),
        (409, false),
    ] {
        let (_server, session) = cloud_answering(ResponseTemplate::new(status)).await;
        let error = delete(&session, DEADLINE).await.unwrap_err();
        assert_eq!(error.outcome_unknown(), unknown, "{status}");
        assert!(!error.nothing_sent());
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (other, _) = stub_cloud().await;
    let answer = ResponseTemplate::new(302).insert_header("location", other.uri());
    let remote = refusal(answer).await;
    assert_eq!(remote.location, Some(other.uri()));
    assert!(other.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn retry_after_is_seconds_or_a_date() {
    let now = "2015-10-21T07:28:00Z".parse().unwrap();
    for (value, expected) in [
        ("7", Some(7)),
        ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
        ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
        ("soon", None),
    ] {
        let answer = ResponseTemplate::new(429).insert_header("Retry-After", value);
        let (server, _) = cloud_answering(answer).await;
        let cloud = password_cloud(&server.uri());
        let transport = gone::cloud::openstack::HttpTransport::new(&cloud).unwrap();
        let session = Session::new(cloud, std::sync::Arc::new(transport), fixed_clock(now));
        let error = delete(&session, DEADLINE).await.unwrap_err();
        let after = error.remote().unwrap().retry_after;
        assert_eq!(after, expected.map(Duration::from_secs), "{value}");
    }
}

#[tokio::test]
async fn an_answer_has_its_json_and_headers() {
    let (server, session) = stub_cloud().await;
    let created = ResponseTemplate::new(201)
        .insert_header("x-openstack-request-id", "req-3")
        .insert_header("retry-after", "2")
        .set_body_json(json!({"port": {"id": "1"}}));
    Mock::given(method("POST"))
        .respond_with(created)
        .with_priority(9)
        .mount(&server)
        .await;
    let body = json!({"port": {"network_id": "n"}});
    let call = session.request(
        "network",
        Method::POST,
        "/v2.0/ports",
        Some(&body),
        DEADLINE,
    );
    let answer = call.await.unwrap();
    assert_eq!(answer.json["port"]["id"], "1");
    assert_eq!(answer.retry_after, Some(Duration::from_secs(2)));
    assert_eq!(answer.request_id.as_deref(), Some("req-3"));
    let request = &server.received_requests().await.unwrap()[1];
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["accept"], "application/json");
    assert_eq!(request.body_json::<serde_json::Value>().unwrap(), body);
}

#[tokio::test]
async fn n13_a_call_without_an_answer_has_an_unknown_outcome() {
    let hang = ResponseTemplate::new(204).set_delay(Duration::from_secs(60));
    let (_server, session) = cloud_answering(hang).await;
    session.identity().await.unwrap();
    let deadline = Duration::from_millis(300);
    let error = delete(&session, deadline).await.unwrap_err();
    assert!(matches!(
        error.reason,
        Reason::Transport(TransportError::TimedOut { .. })
    ));
    assert!(error.outcome_unknown() && !error.nothing_sent());
}

/// Starts a server that reads one request from each connection, sends these bytes and closes it. Returns its URL.
async fn raw_server(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).await.unwrap_or(0);
            if read > 0 {
                let _ = stream.write_all(answer).await;
            }
        }
    });
    url
}

async fn session_with_network_at(network: &str) -> (MockServer, Session) {
    let server = MockServer::start().await;
    let login = token_answer(network, "t");
    Mock::given(method("POST"))
        .respond_with(login)
        .mount(&server)
        .await;
    let session = session_of(password_cloud(&server.uri()));
    (server, session)
}

#[tokio::test]
async fn n13_a_connection_that_is_lost_before_the_answer_has_an_unknown_outcome() {
    let (_server, session) = session_with_network_at(&raw_server(b"").await).await;
    let error = delete(&session, DEADLINE).await.unwrap_err();
    assert!(
        matches!(error.reason, Reason::Transport(TransportError::Lost { .. })),
        "{error}"
    );
    assert!(error.outcome_unknown());
}

#[tokio::test]
async fn a_truncated_body_is_reported_with_its_status() {
    let cut = raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"ports\": []}").await;
    let (_server, session) = session_with_network_at(&cut).await;
    let error = delete(&session, DEADLINE).await.unwrap_err();
    let Reason::Transport(TransportError::Truncated { status: 200, .. }) = error.reason else {
        panic!("{error}");
    };
}

#[tokio::test]
async fn a_body_larger_than_the_maximum_is_an_error() {
    let (server, _) =
        cloud_answering(ResponseTemplate::new(200).set_body_string("x".repeat(5000))).await;
    let cloud = password_cloud(&server.uri());
    let transport = gone::cloud::openstack::HttpTransport::new(&cloud).unwrap();
    let transport = std::sync::Arc::new(transport.body_bytes_max(4000));
    let session = Session::new(cloud, transport, crate::support::wall_clock());
    let error = delete(&session, DEADLINE).await.unwrap_err();
    let reason = TransportError::TooLarge {
        status: 200,
        body_bytes_max: 4000,
    };
    assert_eq!(error.reason, Reason::Transport(reason));
}

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (_server, session) = session_with_network_at(&closed).await;
    let error = delete(&session, DEADLINE).await.unwrap_err();
    assert!(
        matches!(
            error.reason,
            Reason::Transport(TransportError::Connect { .. })
        ),
        "{error}"
    );
    assert!(error.nothing_sent() && !error.outcome_unknown());

    let cloud = cloud_of(&format!(
        "clouds: {{c: {{auth: {{auth_url: '{closed}', user_id: u, password: p}}}}}}"
    ));
    let error = session_of(cloud).identity().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("login failed: could not connect"),
        "{error}"
    );
    assert!(!error.rejected());
}

#[tokio::test]
async fn only_keystone_serves_a_region_in_which_the_catalog_does_not_list_it() {
    let server = MockServer::start().await;
    let mut body = token_body(&server.uri());
    let keystone = json!({"type": "identity", "name": "keystone", "endpoints": [
        {"id": "k", "interface": "public", "region_id": "R1", "region": "R1", "url": "http://keystone.example/v3"},
    ]});
    body["token"]["catalog"]
        .as_array_mut()
        .unwrap()
        .push(keystone);
    let answer = ResponseTemplate::new(201)
        .insert_header("X-Subject-Token", TOKEN)
        .set_body_json(body);
    Mock::given(method("POST"))
        .and(path("/v3/auth/tokens"))
        .respond_with(answer)
        .mount(&server)
        .await;
    let session = session_of(password_cloud(&server.uri()));
    let in_the_second = session.endpoint("identity", Some("R2"), None).await;
    assert_eq!(
        in_the_second.unwrap().as_str(),
        "http://keystone.example/v3"
    );
    assert!(session.endpoint("volume", Some("R2"), None).await.is_err());
    assert!(session.offers("network").await.unwrap());
    assert!(!session.offers("image").await.unwrap());
}
