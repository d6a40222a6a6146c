//! The practice cloud behind its listener, called by an HTTP client.
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use gone::sandbox::{ServeOptions, ServerHandle, WorldOptions, serve};
use serde_json::{Value, json};

async fn start() -> ServerHandle {
    serve(ServeOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        world: WorldOptions {
            regions: vec!["North".to_owned(), "South".to_owned()],
            ..WorldOptions::default()
        },
        scenario: None,
    })
    .await
    .unwrap()
}

/// Logs in as admin. Returns the token and the body of the answer.
async fn token(server: &ServerHandle) -> (String, Value) {
    let domain = json!({"id": "default"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": "admin", "domain": domain, "password": "secret"}}},
        "scope": {"project": {"name": "admin", "domain": domain}},
    }});
    let answer = reqwest::Client::new()
        .post(format!("{}/v3/auth/tokens", server.url()))
        .json(&body)
        .send()
        .await
        .unwrap();
    let token = answer.headers()["x-subject-token"]
        .to_str()
        .unwrap()
        .to_owned();
    (token, answer.json().await.unwrap())
}

#[tokio::test]
async fn the_catalog_has_working_network_endpoints_for_each_region() {
    let server = start().await;
    let (token, body) = token(&server).await;
    let catalog = body["token"]["catalog"].as_array().unwrap();
    let network = catalog
        .iter()
        .find(|service| service["type"] == "network")
        .unwrap();
    let endpoints = network["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 6);
    for endpoint in endpoints {
        let url = endpoint["url"].as_str().unwrap();
        assert!(!url.contains("v2.0"), "{url}");
        let answer = reqwest::Client::new()
            .get(format!("{url}/v2.0/networks"))
            .header("x-auth-token", &token)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert!(
            answer.headers()["x-openstack-request-id"]
                .to_str()
                .unwrap()
                .starts_with("req-")
        );
        assert_eq!(
            answer.json::<Value>().await.unwrap(),
            json!({"networks": []})
        );
    }
}

#[tokio::test]
async fn the_faults_hang_and_drop_after_effect_reach_an_http_client() {
    let server = start().await;
    let (token, _) = token(&server).await;
    let client = reqwest::Client::new();
    let faults = json!([
        {"match": {"method": "GET"}, "action": {"hang": true}},
        {"match": {"method": "POST"}, "times": 1, "action": {"drop_after_effect": true}},
    ]);
    let control = client
        .put(format!("{}/sandbox/v1/faults", server.url()))
        .json(&faults)
        .send()
        .await
        .unwrap();
    assert_eq!(control.status(), 204);
    let url = format!("{}/North/network/v2.0/networks", server.url());
    let hung = client
        .get(&url)
        .header("x-auth-token", &token)
        .timeout(Duration::from_millis(200))
        .send()
        .await
        .unwrap_err();
    assert!(hung.is_timeout(), "{hung:?}");
    let dropped = client
        .post(&url)
        .header("x-auth-token", &token)
        .json(&json!({"network": {"name": "made"}}))
        .send()
        .await
        .unwrap_err();
    assert!(
        !dropped.is_timeout() && !dropped.is_connect(),
        "{dropped:?}"
    );
    client
        .put(format!("{}/sandbox/v1/faults", server.url()))
        .json(&json!([]))
        .send()
        .await
        .unwrap();
    let made: Value = client
        .get(&url)
        .header("x-auth-token", &token)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(made["networks"][0]["name"], "made");
}

#[tokio::test]
async fn clouds_yaml_is_private_and_names_both_clouds_with_the_url_of_the_ready_line() {
    let server = start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clouds.yaml");
    server.write_clouds_yaml(&path).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let read: Value = serde_saphyr::from_str(&text).unwrap();
    for (cloud, user) in [("sandbox", "admin"), ("sandbox-demo", "demo")] {
        assert_eq!(read["clouds"][cloud]["auth"]["username"], user);
        assert_eq!(read["clouds"][cloud]["regions"], json!(["North", "South"]));
        assert_eq!(
            read["clouds"][cloud]["auth"]["auth_url"],
            format!("{}/v3", server.url())
        );
    }
    let line = server.ready_line(Some(&path));
    assert_eq!(line["url"], server.url());
    assert_eq!(line["regions"], json!(["North", "South"]));
    assert_eq!(line["clouds_yaml"], path.display().to_string());
}
