//! Application credentials with access rules: a call that the rules do not allow is not reported as a wrong
//! password.
use std::sync::Arc;
use std::time::Duration;

use gone::cloud::openstack::{CallError, HttpTransport, Reason, Session, Transport};
use gone::cloud::{Cloud as _, Fields, Freshness, ListRows, OpenStack};
use gone::domain::model::{ErrorClass, Site};
use gone::domain::policy::Retry;
use gone::system::clock::Clock;
use http::Method;
use serde_json::json;
use wiremock::matchers::{header, method, path, path_regex};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{DEADLINE, TOKEN, password_cloud, session_of, token_body};

/// How Keystone answers when it is asked whether the token is valid.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    Valid,
    Expired,
    /// Keystone answers 503.
    Unknown,
}

/// Starts a Keystone that issues tokens with access rules, and describes a token only to clients whose header says that
/// they support such rules; and a Neutron that answers every call 401.
async fn cloud(token: Token) -> MockServer {
    let server = MockServer::start().await;
    let mut body = token_body(&server.uri());
    body["token"]["application_credential"] = json!({
        "id": "ac", "name": "nightly", "restricted": true,
        "access_rules": [{"id": "r", "service": "network", "method": "GET", "path": "/v2.0/networks"}],
    });
    let shown = |status: u16| {
        let answer = ResponseTemplate::new(status).insert_header("X-Subject-Token", TOKEN);
        answer.set_body_json(&body)
    };
    let login = Mock::given(method("POST")).and(path("/v3/auth/tokens"));
    login.respond_with(shown(201)).mount(&server).await;
    if token == Token::Valid {
        let checked = Mock::given(method("GET")).and(path("/v3/auth/tokens"));
        let supported = checked.and(header("openstack-identity-access-rules", "1.0"));
        supported.respond_with(shown(200)).mount(&server).await;
    }
    let refused = |status: u16, message: &str| {
        let body = json!({"error": {"code": status, "title": "T", "message": message}});
        ResponseTemplate::new(status).set_body_json(body)
    };
    let otherwise = match token {
        Token::Valid | Token::Expired => refused(404, "Failed to validate token"),
        Token::Unknown => refused(503, "The server is currently unavailable."),
    };
    let checked = Mock::given(method("GET")).and(path("/v3/auth/tokens"));
    checked.respond_with(otherwise).mount(&server).await;
    let neutron = Mock::given(path_regex("^/v2.0/"));
    let unauthorized = refused(401, "The request you have made requires authentication.");
    neutron.respond_with(unauthorized).mount(&server).await;
    server
}

async fn logins(server: &MockServer) -> usize {
    let requests = server.received_requests().await.unwrap();
    let login = |request: &&wiremock::Request| request.method.as_str() == "POST";
    requests.iter().filter(login).count()
}

async fn ports(session: &Session) -> CallError {
    let path = "/v2.0/ports?limit=1";
    let answer = session.request("network", Method::GET, path, None, DEADLINE);
    answer.await.unwrap_err()
}

#[tokio::test]
async fn a_call_that_no_access_rule_allows_is_reported_as_such_and_causes_no_second_login() {
    let server = cloud(Token::Valid).await;
    let session = session_of(password_cloud(&server.uri()));
    for _ in 0..3 {
        let error = ports(&session).await;
        assert!(!error.is_auth() && !error.outcome_unknown(), "{error:?}");
        let message = error.to_string();
        let expected = "the access rules of the application credential \"nightly\" do not allow GET \
                    /v2.0/ports of the network service";
        assert!(message.contains(expected), "{message}");
        assert!(
            message.contains("use a credential with a rule for this call"),
            "{message}"
        );
    }
    let identity = session.identity_now().await.unwrap();
    assert_eq!(identity.project_id.as_deref(), Some("p-id"));
    assert_eq!(logins(&server).await, 1);
}

#[tokio::test]
async fn an_expired_token_with_access_rules_is_renewed_once() {
    let server = cloud(Token::Expired).await;
    let session = session_of(password_cloud(&server.uri()));
    let error = ports(&session).await;
    assert!(matches!(error.reason, Reason::Unauthorized(_)), "{error}");
    assert_eq!(logins(&server).await, 2);
}

#[tokio::test]
async fn i15_a_401_is_not_a_wrong_password_when_keystone_cannot_check_the_token() {
    let server = cloud(Token::Unknown).await;
    let session = session_of(password_cloud(&server.uri()));
    let error = ports(&session).await;
    assert!(matches!(error.reason, Reason::Login(_)), "{error}");
    assert!(!error.is_auth(), "{error}");
    assert_eq!(error.status(), Some(503));
    assert_eq!(logins(&server).await, 1);
}

#[tokio::test]
async fn i15_a_call_that_no_access_rule_allows_is_a_fatal_403_and_causes_no_second_login() {
    let server = cloud(Token::Valid).await;
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let site = Site::region("c", "R1");
    let cloud = OpenStack::new(
        vec![(site.clone(), password_cloud(&server.uri()))],
        Box::new(|cloud| {
            let transport = HttpTransport::new(cloud).map_err(|error| error.to_string())?;
            Ok(Arc::new(transport) as Arc<dyn Transport>)
        }),
        Clock::system(),
        Duration::from_secs(20),
    );
    cloud.identity(&site, Freshness::Now).await.unwrap();
    let rows = ListRows {
        site: &site,
        kind: kinds.resolve("network").unwrap(),
        filter: None,
        fields: Fields::Id,
        rows_max: Some(1),
    };
    for _ in 0..3 {
        let failed = cloud.list(rows).await.unwrap_err();
        let found = (failed.retry, failed.class, failed.status);
        assert_eq!(
            found,
            (Retry::Never, ErrorClass::Fatal, Some(403)),
            "{failed}"
        );
        assert!(failed.message.contains("access rules"), "{failed}");
    }
    assert_eq!(logins(&server).await, 1);
}
