//! Logins, the lifetime and renewal of tokens, and the endpoints of the catalog.
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use gone::cloud::openstack::{
    AuthError, HttpTransport, Identity, Interface, Reason, Session, service_type,
};
use http::Method;
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::support::{
    DEADLINE, TOKEN, cloud_of, password_cloud, session_of, stub_cloud, token_answer, token_body,
};

/// The bodies of the logins that the stub's Keystone received.
async fn logins(server: &MockServer) -> Vec<Value> {
    let requests = server.received_requests().await.unwrap();
    let logins = requests
        .iter()
        .filter(|r| r.url.path() == "/v3/auth/tokens");
    logins.map(|r| r.body_json().unwrap()).collect()
}

async fn get(session: &Session) -> Result<u16, gone::cloud::openstack::CallError> {
    let answer = session.request("network", Method::GET, "/v2.0/x", None, DEADLINE);
    answer.await.map(|answer| answer.status)
}

/// A Keystone whose n-th token is `{TOKEN}{n}`, and a service that accepts only tokens from number `valid_from` on.
async fn counting_cloud(valid_from: usize) -> (MockServer, Session) {
    let server = MockServer::start().await;
    let uri = server.uri();
    let count = AtomicUsize::new(0);
    Mock::given(method("POST"))
        .and(path("/v3/auth/tokens"))
        .respond_with(move |_: &Request| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            token_answer(&uri, &format!("{TOKEN}{number}"))
        })
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .respond_with(move |request: &Request| {
            let token = request.headers["x-auth-token"].to_str().unwrap();
            let number: usize = token.strip_prefix(TOKEN).unwrap().parse().unwrap();
            let unauthorized =
                json!({"error": {"code": 401, "title": "Unauthorized", "message": "m"}});
            match number >= valid_from {
                true => ResponseTemplate::new(200).set_body_json(json!({})),
                false => ResponseTemplate::new(401).set_body_json(unauthorized),
            }
        })
        .mount(&server)
        .await;
    let session = session_of(password_cloud(&server.uri()));
    (server, session)
}

#[tokio::test]
async fn a_password_login_sends_user_project_and_domains() {
    let (server, session) = stub_cloud().await;
    let identity = session.identity().await.unwrap();
    let expected = Identity {
        user_id: "u-id".into(),
        user_name: "u".into(),
        project_id: Some("p-id".into()),
        project_name: Some("p".into()),
        roles: vec!["member".into(), "reader".into()],
        domain: "pd".into(),
    };
    assert_eq!(*identity, expected);
    let sent = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": "u", "domain": {"id": "default"}, "password": crate::support::PASSWORD,
        }}},
        "scope": {"project": {"name": "p", "domain": {"id": "default"}}},
    }});
    assert_eq!(logins(&server).await, [sent]);
    let request = &server.received_requests().await.unwrap()[0];
    let agent = concat!("gone/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.headers["user-agent"], agent);
    assert_eq!(request.headers["accept"], "application/json");
}

#[tokio::test]
async fn an_application_credential_and_a_token_log_in_too() {
    let server = MockServer::start().await;
    let answer = token_answer(&server.uri(), TOKEN);
    Mock::given(path("/v3/auth/tokens"))
        .respond_with(answer)
        .mount(&server)
        .await;
    let url = server.uri();
    for auth in [
        format!(
            "application_credential_id: i, application_credential_secret: s, auth_url: '{url}'"
        ),
        format!("token: t, project_id: p, auth_url: '{url}'"),
    ] {
        let cloud = cloud_of(&format!("clouds: {{c: {{auth: {{{auth}}}}}}}"));
        session_of(cloud).identity().await.unwrap();
    }
    let credential = json!({"auth": {"identity": {
        "methods": ["application_credential"],
        "application_credential": {"id": "i", "secret": "s"},
    }}});
    let token = json!({"auth": {
        "identity": {"methods": ["token"], "token": {"id": "t"}},
        "scope": {"project": {"id": "p"}},
    }});
    assert_eq!(logins(&server).await, [credential, token]);
}

#[tokio::test]
async fn a_wrong_password_causes_one_login_for_all_waiting_calls() {
    let server = MockServer::start().await;
    let refusal = json!({"error": {"code": 401, "title": "Unauthorized",
        "message": "The request you have made requires authentication."}});
    let slow = ResponseTemplate::new(401)
        .insert_header("x-openstack-request-id", "req-1")
        .set_body_json(refusal)
        // The login must last until all twenty calls wait for it.
        .set_delay(Duration::from_millis(300));
    Mock::given(method("POST"))
        .respond_with(slow)
        .mount(&server)
        .await;
    let session = session_of(password_cloud(&server.uri()));
    let answers = join_all((0..20).map(|_| get(&session))).await;
    for error in answers.into_iter().map(Result::unwrap_err) {
        assert!(error.is_auth() && error.nothing_sent());
        assert_eq!(error.request_id(), Some("req-1"));
        let message = error.to_string();
        assert!(
            message.contains("login refused: 401 Unauthorized: The request you have"),
            "{message}"
        );
        assert!(
            message.contains("check user, domain, project and secret of cloud \"c\" in "),
            "{message}"
        );
    }
    assert_eq!(logins(&server).await.len(), 1);
    // For a while, a later call gets the same answer without a login: repeated logins would lock the account (I15).
    assert!(get(&session).await.unwrap_err().is_auth());
    assert_eq!(logins(&server).await.len(), 1);
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once_for_twenty_calls() {
    let (server, session) = counting_cloud(1).await;
    session.identity().await.unwrap();
    let answers = join_all((0..20).map(|_| get(&session))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap() == 200));
    assert_eq!(logins(&server).await.len(), 2);
}

#[tokio::test]
async fn i13_a_request_for_current_rights_is_never_answered_from_an_earlier_call() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(token_answer(&server.uri(), TOKEN))
        .mount(&server)
        .await;
    let (uri, count) = (server.uri(), AtomicUsize::new(0));
    // Each answer says how many calls came before it.
    let shown = move |_: &Request| {
        let mut body = token_body(&uri);
        let before = count.fetch_add(1, Ordering::SeqCst);
        body["token"]["user"]["name"] = format!("asked {before} times before").into();
        ResponseTemplate::new(200)
            .set_body_json(body)
            .set_delay(Duration::from_millis(300))
    };
    Mock::given(method("GET"))
        .respond_with(shown)
        .mount(&server)
        .await;
    let session = Arc::new(session_of(password_cloud(&server.uri())));
    let calls = || async {
        let requests = server.received_requests().await.unwrap();
        requests.iter().filter(|r| r.method == Method::GET).count()
    };
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.identity_now().await.unwrap().user_name.clone() }
    });
    while calls().await == 0 {
        tokio::task::yield_now().await;
    }
    let later = join_all((0..20).map(|_| session.identity_now())).await;
    assert_eq!(first.await.unwrap(), "asked 0 times before");
    for identity in later {
        assert_eq!(identity.unwrap().user_name, "asked 1 times before");
    }
    assert_eq!(
        calls().await,
        2,
        "the twenty requests did not share one call"
    );
    let identity = session.identity_now().await.unwrap();
    assert_eq!(identity.user_name, "asked 2 times before");
}

#[tokio::test]
async fn n13_a_second_401_is_an_auth_error_after_one_new_login() {
    let (server, session) = counting_cloud(usize::MAX).await;
    let error = get(&session).await.unwrap_err();
    assert!(error.is_auth() && !error.nothing_sent());
    assert!(matches!(&error.reason, Reason::Unauthorized(remote) if remote.own));
    assert_eq!(logins(&server).await.len(), 2);
}

#[tokio::test]
async fn a_token_is_renewed_before_its_lifetime_ends() {
    let (server, _) = counting_cloud(0).await;
    let cloud = password_cloud(&server.uri());
    let transport = Arc::new(HttpTransport::new(&cloud).unwrap());
    // This clock is far from the cloud's own, which says 2026-01-01: only the token's lifetime may count.
    let start: DateTime<Utc> = "2031-05-05T05:05:05Z".parse().unwrap();
    let seconds = Arc::new(AtomicI64::new(0));
    let elapsed = seconds.clone();
    let clock = Arc::new(move || start + TimeDelta::seconds(elapsed.load(Ordering::SeqCst)));
    let session = Session::new(cloud, transport, clock);
    for (at, expected) in [(0, 1), (3479, 1), (3480, 2), (3480 + 3479, 2), (7200, 3)] {
        seconds.store(at, Ordering::SeqCst);
        get(&session).await.unwrap();
        assert_eq!(logins(&server).await.len(), expected, "after {at} s");
    }
}

#[tokio::test]
async fn a_call_whose_login_outlasts_the_deadline_sends_nothing() {
    let server = MockServer::start().await;
    let hang = token_answer(&server.uri(), TOKEN).set_delay(Duration::from_secs(60));
    Mock::given(method("POST"))
        .respond_with(hang)
        .mount(&server)
        .await;
    let session = session_of(password_cloud(&server.uri()));
    let error = session
        .request(
            "network",
            Method::DELETE,
            "/v2.0/x",
            None,
            Duration::from_millis(200),
        )
        .await
        .unwrap_err();
    assert!(error.nothing_sent() && !error.is_auth());
    assert!(
        matches!(&error.reason, Reason::Login(e) if **e == AuthError::NoTime),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_from_keystone_is_reported_as_such() {
    for (answer, expected) in [
        (
            ResponseTemplate::new(200).set_body_string("<html>"),
            "the answer has no token",
        ),
        (
            ResponseTemplate::new(201)
                .insert_header("X-Subject-Token", "t")
                .set_body_string("{\"token\": "),
            "the answer is not a token's description",
        ),
        (
            ResponseTemplate::new(404).set_body_string("<html>"),
            "login refused: 404 Not Found, but not in",
        ),
    ] {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(answer)
            .mount(&server)
            .await;
        let session = session_of(password_cloud(&server.uri()));
        let message = session.identity().await.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn an_endpoint_is_found_by_alias_region_and_interface() {
    let (server, session) = stub_cloud().await;
    let uri = server.uri();
    let url = async |service: &str, region, interface| {
        let url = session.endpoint(service, region, interface).await;
        url.map(String::from).map_err(|e| e.reason.to_string())
    };
    assert_eq!(url("neutron", None, None).await, Ok(format!("{uri}/")));
    let internal = Some(Interface::Internal);
    assert_eq!(
        url("network", None, internal).await,
        Ok(format!("{uri}/internal"))
    );
    let second = Some("R2");
    assert_eq!(
        url("network", second, None).await,
        Ok(format!("{uri}/two/v2.0"))
    );
    let volume = format!("{uri}/volume/v3/p-id");
    assert_eq!(url("block-storage", None, None).await, Ok(volume.clone()));
    assert_eq!(url("cinder", None, None).await, Ok(volume));
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(
        url("network", Some("R1x"), None).await,
        error("no such region \"R1x\"; did you mean \"R1\"?; the catalog has R1, R2")
    );
    assert_eq!(
        url("netwrok", None, None).await,
        error(
            "no service \"netwrok\" in region \"R1\"; did you mean \"network\"?; the region has compute, network, reservation, volumev3"
        )
    );
    assert_eq!(
        url("network", second, internal).await,
        error("service \"network\" has no internal interface in region \"R2\"; it has public")
    );
    assert_eq!(service_type("load_balancer"), "load-balancer");
}

#[tokio::test]
async fn a_catalog_with_several_regions_requires_a_region_name() {
    let (server, _) = stub_cloud().await;
    let cloud = cloud_of(&format!(
        "clouds: {{c: {{auth: {{auth_url: '{}', user_id: u, password: p}}}}}}",
        server.uri()
    ));
    let session = session_of(cloud);
    let error = get(&session).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "c: GET network /v2.0/x: the catalog has several regions (R1, R2); set region_name in clouds.yaml"
    );
}

#[tokio::test]
async fn a_path_is_joined_to_an_endpoint_with_or_without_its_version() {
    for (endpoint, expected) in [
        ("", "/v2.0/ports"),
        ("/", "/v2.0/ports"),
        ("/v2.0", "/v2.0/ports"),
        ("/networking/v2.0/", "/networking/v2.0/ports"),
        ("/networking", "/networking/v2.0/ports"),
    ] {
        let server = MockServer::start().await;
        let body = token_body(&format!("{}{endpoint}", server.uri()));
        let login = ResponseTemplate::new(201)
            .insert_header("X-Subject-Token", TOKEN)
            .set_body_json(body);
        Mock::given(method("POST"))
            .respond_with(login)
            .mount(&server)
            .await;
        Mock::given(method("GET"))
            .and(path(expected))
            .and(header("x-auth-token", TOKEN))
            .respond_with(ResponseTemplate::new(204))
            .expect(1)
            .mount(&server)
            .await;
        let session = session_of(password_cloud(&server.uri()));
        let call = session.request("network", Method::GET, "/v2.0/ports?a=%2F", None, DEADLINE);
        call.await.unwrap();
        let requests = server.received_requests().await.unwrap();
        assert_eq!(requests[1].url.query(), Some("a=%2F"));
        for path in [
            "v2.0/ports",
            "//evil/x",
            "/v2.0/../x",
            "/v2.0/%2E%2e/x",
            "/a#b",
        ] {
            let call = session.request("network", Method::DELETE, path, None, DEADLINE);
            assert!(call.await.unwrap_err().nothing_sent(), "{path}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_override_wins() {
    let (server, _) = stub_cloud().await;
    let cloud = cloud_of(&format!(
        "clouds: {{c: {{region_name: R1, network_endpoint_override: 'http://over/x/v2.0', \
         auth: {{auth_url: '{}', user_id: u, password: p}}}}}}",
        server.uri()
    ));
    let url = session_of(cloud).endpoint("neutron", None, None).await;
    assert_eq!(url.unwrap().as_str(), "http://over/x/v2.0");
}
