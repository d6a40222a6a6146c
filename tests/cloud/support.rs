//! A stub cloud, and a session with it. Keystone listens on a loopback port; its catalog lists the other services at
//! the same port.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use gone::cloud::openstack::{
    Clock, CloudConfig, CloudsConfig, Environment, HttpTransport, ListOptions, ListRequest, Paging,
    Session,
};
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

pub const PASSWORD: &str = "hunter2-Geheim";
pub const TOKEN: &str = "gAAAAtoken-";
/// A deadline that is long enough on a busy machine; no test waits until it passes.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub fn wall_clock() -> Clock {
    Arc::new(Utc::now)
}

pub fn fixed_clock(at: DateTime<Utc>) -> Clock {
    Arc::new(move || at)
}

/// An environment without variables, whose directories are in this folder.
pub fn environment(folder: &Path) -> Environment {
    Environment {
        variables: BTreeMap::new(),
        current_dir: folder.join("cwd"),
        home: Some(folder.join("home")),
        system_dir: folder.join("etc"),
    }
}

pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Returns the cloud `c` of a clouds.yaml with this text.
pub fn cloud_of(yaml: &str) -> CloudConfig {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    write(&environment.current_dir.join("clouds.yaml"), yaml);
    let config = CloudsConfig::load(&environment).unwrap();
    config.cloud("c", None).unwrap()
}

pub fn password_cloud(auth_url: &str) -> CloudConfig {
    cloud_of(&format!(
        "clouds: {{c: {{region_name: R1, auth: {{auth_url: '{auth_url}', username: u, \
         password: {PASSWORD}, project_name: p, user_domain_id: default, \
         project_domain_id: default}}}}}}"
    ))
}

pub fn session_of(cloud: CloudConfig) -> Session {
    let transport = Arc::new(HttpTransport::new(&cloud).unwrap());
    Session::new(cloud, transport, wall_clock())
}

/// The body of Keystone's answer to a login; `network` is Neutron's URL.
pub fn token_body(network: &str) -> Value {
    let endpoint = |interface: &str, region: &str, url: &str| json!({"id": "e", "interface": interface, "region_id": region, "region": region, "url": url});
    json!({"token": {
        "methods": ["password"],
        "user": {"domain": {"id": "default", "name": "Default"}, "id": "u-id", "name": "u"},
        "project": {"domain": {"id": "pd", "name": "Projects"}, "id": "p-id", "name": "p"},
        "roles": [{"id": "2", "name": "reader"}, {"id": "1", "name": "member"}],
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "expires_at": "2026-01-01T01:00:00.000000Z",
        "catalog": [
            {"type": "network", "name": "neutron", "endpoints": [
                endpoint("public", "R1", network),
                endpoint("internal", "R1", &format!("{network}/internal")),
                endpoint("public", "R2", &format!("{network}/two/v2.0")),
            ]},
            {"type": "reservation", "name": "blazar", "endpoints": [endpoint("public", "R1", network)]},
            {"type": "compute", "name": "nova", "endpoints": [endpoint("public", "R1", &format!("{network}/compute/v2.1"))]},
            {"type": "volumev3", "name": "cinder", "endpoints": [
                endpoint("public", "R1", &format!("{network}/volume/v3/p-id")),
            ]},
        ],
    }})
}

pub fn token_answer(network: &str, token: &str) -> ResponseTemplate {
    ResponseTemplate::new(201)
        .insert_header("X-Subject-Token", token)
        .set_body_json(token_body(network))
}

/// Starts a server whose Keystone accepts every login. Returns the server, and a session with it.
pub async fn stub_cloud() -> (MockServer, Session) {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v3/auth/tokens"))
        .respond_with(token_answer(&server.uri(), TOKEN))
        .mount(&server)
        .await;
    let session = session_of(password_cloud(&server.uri()));
    (server, session)
}

pub fn ports<'a>() -> ListRequest<'a> {
    ListRequest {
        service: "network".into(),
        path: "/v2.0/ports",
        items_key: "ports",
        query: &[],
        page_limit: 2,
        not_found: Some("PortNotFound"),
        rows_max: None,
        paging: Paging::Links,
        row_id: "id",
        options: ListOptions::default(),
        deadline: DEADLINE,
    }
}
