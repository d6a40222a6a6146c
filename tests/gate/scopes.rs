//! Rights end where they were given (P13): a token's roles count only within the token's scope.

use gone::control::query;
use gone::domain::model::DeletionState;
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::Stage;

/// A Keystone whose catalog has one service, and which describes tokens as the test says.
pub struct Keystone {
    pub server: MockServer,
    domain: String,
}

impl Keystone {
    async fn new(stage: &Stage) -> Self {
        Self::with_network_service(stage.upstream("network")).await
    }

    /// Starts a Keystone whose catalog has the network service at this URL.
    pub async fn with_network_service(network: String) -> Self {
        Self::with_service("network", network).await
    }

    /// Starts a Keystone whose catalog has a service of this type at this URL.
    pub async fn with_service(service: &str, url: String) -> Self {
        let server = MockServer::start().await;
        let catalog = json!([{"type": service, "name": service, "id": "n", "endpoints": [
            {"id": "e", "interface": "public", "region": "RegionOne", "region_id": "RegionOne",
             "url": url}]}]);
        let keystone = Self {
            server,
            domain: "engines".to_owned(),
        };
        let project = json!({"project": keystone.project("p", "engines")});
        let mut token = keystone.token(project, "admin");
        token["token"]["catalog"] = catalog;
        Mock::given(method("POST"))
            .and(path("/v3/auth/tokens"))
            .respond_with(
                ResponseTemplate::new(201)
                    .insert_header("x-subject-token", "the-engines")
                    .set_body_json(token),
            )
            .mount(&keystone.server)
            .await;
        keystone
    }

    fn project(&self, id: &str, domain: &str) -> Value {
        json!({"id": id, "name": id, "domain": {"id": domain, "name": domain}})
    }

    fn token(&self, scope: Value, role: &str) -> Value {
        let domain = json!({"id": self.domain, "name": self.domain});
        let mut token = json!({"methods": ["password"], "roles": [{"id": "r", "name": role}],
            "user": {"id": "u", "name": "eve", "domain": domain},
            "issued_at": "2020-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z"});
        for (key, value) in scope.as_object().unwrap() {
            token[key] = value.clone();
        }
        json!({ "token": token })
    }

    pub async fn add_token(&self, subject: &str, scope: Value, role: &str) {
        Mock::given(method("GET"))
            .and(path("/v3/auth/tokens"))
            .and(header("x-subject-token", subject))
            .respond_with(ResponseTemplate::new(200).set_body_json(self.token(scope, role)))
            .mount(&self.server)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p13_an_admin_of_another_scope_has_no_admin_rights_at_a_gate() {
    let system = json!({"system": {"all": true}});
    let domain = json!({"domain": {"id": "theirs", "name": "theirs"}});
    let own_domain = json!({"domain": {"id": "engines", "name": "engines"}});
    let project = |domain: &str| {
        json!({"project": {"id": "elsewhere", "name": "elsewhere",
        "domain": {"id": domain, "name": domain}}})
    };
    for (scope, role, is_admin) in [
        (system.clone(), "admin", true),
        (system, "reader", false),
        (project("engines"), "admin", true),
        (project("engines"), "member", false),
        (project("theirs"), "admin", false),
        (domain, "admin", false),
        (own_domain, "admin", false),
        (json!({}), "admin", false),
    ] {
        let stage = Stage::new().await;
        let network = stage.network("n").await;
        let failing =
            json!([{"match": {"method": "DELETE"}, "action": {"status": 409, "message": "held"}}]);
        stage.faults(failing).await;
        let id = stage.delete("network", &network, Default::default()).await;
        stage.until_counts(&id, |counts| counts.blocked > 0).await;
        let keystone = Keystone::new(&stage).await;
        // The service checks the token with the practice cloud; the gate checks it with this Keystone.
        keystone.add_token(&stage.admin, scope.clone(), role).await;
        let gate = stage
            .gate_with_keystone(&format!("{}/v3", keystone.server.uri()), "")
            .await;
        let origin = format!("http://{}", gate.address());
        let root = stage.url(GateSource::User, "network");
        let root = url::Url::parse(&root).unwrap().path().to_owned();
        for path in ["", "/report"] {
            let url = format!("{origin}/gone/v1/deletions/{id}{path}");
            let answer = stage.send(Method::GET, &url, &stage.admin, None).await;
            let expected = if is_admin { 200 } else { 404 };
            assert_eq!(
                answer.status, expected,
                "{scope} {role} {path}: {}",
                answer.text
            );
        }
        let url = format!("{origin}{root}/v2.0/networks/{network}");
        let again = stage.send(Method::DELETE, &url, &stage.admin, None).await;
        let expected = if is_admin { 204 } else { 403 };
        assert_eq!(again.status, expected, "{scope} {role}: {}", again.text);
        let foreign = stage.network("m").await;
        let url = format!("{origin}{root}/v2.0/networks/{foreign}?cascade=true");
        let cascade = stage.send(Method::DELETE, &url, &stage.admin, None).await;
        match is_admin {
            true => assert_eq!(cascade.status, 202, "{scope} {role}: {}", cascade.text),
            false => assert!(
                matches!(cascade.status, 403 | 409),
                "{scope} {role}: {}",
                cascade.text
            ),
        }
        if !is_admin {
            assert_eq!(stage.phase("network", &foreign), None);
        }
        gate.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p13_a_deletion_and_its_audit_row_record_the_clients_address() {
    let stage = Stage::new().await;
    let network = stage.network("n").await;
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let id = stage.user_delete(&path).await.with_status(202).deletion();
    let deletion = stage.until(&id, DeletionState::Gone).await;
    let name = deletion.requested_by.name;
    assert!(name.ends_with(" from 127.0.0.1"), "{name}");
    let rows = stage.control.ask(query::Audit { after: 0 }).await.unwrap();
    let deleted = rows.iter().find(|row| row["action"] == "delete").unwrap();
    assert_eq!(deleted["actor"]["name"], name, "{deleted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_an_unknown_token_costs_keystone_one_call() {
    let stage = Stage::new().await;
    let keystone = Keystone::new(&stage).await;
    Mock::given(method("GET"))
        .and(path("/v3/auth/tokens"))
        .respond_with(ResponseTemplate::new(404))
        .expect(1)
        .mount(&keystone.server)
        .await;
    let gate = stage
        .gate_with_keystone(&format!("{}/v3", keystone.server.uri()), "")
        .await;
    let url = format!("http://{}/gone/v1/deletions/x", gate.address());
    // Until Keystone has answered, several requests may ask it at once. After that, none does.
    stage
        .send(Method::GET, &url, "unknown", None)
        .await
        .with_status(401);
    let requests = (0..50).map(|_| stage.send(Method::GET, &url, "unknown", None));
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.status, 401, "{}", answer.text);
    }
    gate.stop().await;
}
