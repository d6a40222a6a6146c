//! Against real services, if `GONE_TESTBED_CLOUDS` names the testbed's clouds.yaml.
use std::collections::BTreeMap;
use std::path::PathBuf;

use gone::cloud::openstack::{CloudsConfig, Environment, Reason, Session};
use http::Method;
use serde_json::json;

use crate::support::{DEADLINE, ports, session_of};

fn session(cloud: &str) -> Option<Session> {
    let Ok(file) = std::env::var("GONE_TESTBED_CLOUDS") else {
        eprintln!("SKIPPED: GONE_TESTBED_CLOUDS is not set; nothing was tried on a real cloud");
        return None;
    };
    let environment = Environment {
        variables: BTreeMap::from([("OS_CLIENT_CONFIG_FILE".to_owned(), file)]),
        current_dir: PathBuf::from("/"),
        ..Environment::default()
    };
    let config = CloudsConfig::load(&environment).unwrap();
    Some(session_of(config.cloud(cloud, None).unwrap()))
}

#[tokio::test]
async fn testbed_a_port_is_made_listed_and_deleted() {
    let Some(session) = session("testbed-demo") else {
        return;
    };
    let call = async |method: Method, path: String, body: Option<serde_json::Value>| {
        let body = body.as_ref();
        let answer = session.request("neutron", method, &path, body, DEADLINE);
        answer.await.unwrap().json
    };
    let network = json!({"network": {"name": "gone-client-test"}});
    let network = call(Method::POST, "/v2.0/networks".into(), Some(network)).await;
    let network = network["network"]["id"].as_str().unwrap().to_owned();
    for _ in 0..5 {
        let port = json!({"port": {"network_id": network}});
        call(Method::POST, "/v2.0/ports".into(), Some(port)).await;
    }
    let query = [("network_id".to_owned(), network.clone())];
    let mut request = ports();
    request.query = &query;
    let listing = session.list(request).await.unwrap();
    assert_eq!((listing.items.len(), listing.complete), (5, true));
    assert_eq!(listing.pages, 3);
    assert_eq!(listing.identity.project_name.as_deref(), Some("demo"));

    let path = format!("/v2.0/networks/{network}");
    let refused = session
        .request("network", Method::DELETE, &path, None, DEADLINE)
        .await
        .unwrap_err();
    let remote = refused.remote().unwrap();
    assert_eq!(remote.status, 409);
    assert_eq!(remote.kind.as_deref(), Some("NetworkInUse"));
    assert!(remote.request_id.as_ref().unwrap().starts_with("req-"));

    for port in &listing.items {
        let id = port["id"].as_str().unwrap();
        call(Method::DELETE, format!("/v2.0/ports/{id}"), None).await;
    }
    call(Method::DELETE, path.clone(), None).await;
    let gone = session
        .request("network", Method::GET, &path, None, DEADLINE)
        .await
        .unwrap_err();
    assert_eq!(
        gone.remote().unwrap().kind.as_deref(),
        Some("NetworkNotFound")
    );
    assert!(gone.remote().unwrap().own);
}

#[tokio::test]
async fn testbed_a_region_has_the_services_that_it_lists() {
    let Some(session) = session("testbed-region2") else {
        return;
    };
    assert_eq!(session.site(), "testbed-region2/RegionTwo");
    assert_eq!(
        session.catalog().await.unwrap().regions(),
        ["RegionOne", "RegionTwo"]
    );
    session.list(ports()).await.unwrap();
    let error = session.endpoint("octavia", None, None).await.unwrap_err();
    assert!(matches!(error.reason, Reason::Catalog(_)), "{error}");
}

#[tokio::test]
async fn testbed_every_service_answers_in_words_that_are_understood() {
    let Some(session) = session("testbed") else {
        return;
    };
    let unknown = "00000000-0000-0000-0000-000000000000";
    for (service, path, kind) in [
        ("network", "/v2.0/ports/", "PortNotFound"),
        ("image", "/v2/images/", "Not Found"),
        ("load-balancer", "/v2/lbaas/loadbalancers/", "Client"),
        ("identity", "/v3/projects/", "Not Found"),
    ] {
        let path = format!("{path}{unknown}");
        let error = session
            .request(service, Method::GET, &path, None, DEADLINE)
            .await
            .unwrap_err();
        let remote = error.remote().unwrap();
        assert!(remote.own, "{error}");
        assert_eq!((remote.status, remote.kind.as_deref()), (404, Some(kind)));
        println!("{error}");
    }
}
