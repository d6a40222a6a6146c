//! Tests against the real services of the test bed. `GONE_TESTBED_CLOUDS` names its `clouds.yaml`.
use std::collections::BTreeMap;
use std::path::PathBuf;

use gone::cloud::openstack::config::{Credentials, Scope, UserRef};
use gone::cloud::openstack::{CloudsConfig, Environment, Reason, Session};
use http::Method;
use serde_json::json;

use crate::support::{DEADLINE, ports, session_of};

fn session(cloud: &str) -> Session {
    let file = std::env::var("GONE_TESTBED_CLOUDS");
    let file = file.expect("GONE_TESTBED_CLOUDS must name the test bed's clouds.yaml");
    let environment = Environment {
        variables: BTreeMap::from([("OS_CLIENT_CONFIG_FILE".to_owned(), file)]),
        current_dir: PathBuf::from("/"),
        ..Environment::default()
    };
    let config = CloudsConfig::load(&environment).unwrap();
    session_of(config.cloud(cloud, None).unwrap())
}

#[tokio::test]
#[ignore = "needs the test bed"]
async fn testbed_a_port_is_created_listed_and_deleted() {
    let session = session("testbed-demo");
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
#[ignore = "needs the test bed"]
async fn testbed_a_region_offers_only_its_own_services() {
    let session = session("testbed-region2");
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
#[ignore = "needs the test bed"]
async fn testbed_the_404_of_neutron_glance_octavia_and_keystone_is_recognized() {
    let session = session("testbed");
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

#[tokio::test]
#[ignore = "needs the test bed"]
async fn testbed_an_application_credential_logs_in_and_a_wrong_password_does_not() {
    let session = session("testbed-demo");
    let identity = session.identity().await.unwrap();
    let path = format!("/v3/users/{}/application_credentials", identity.user_id);
    let call = async |method: Method, path: &str, body: Option<&serde_json::Value>| {
        let call = session.request("keystone", method, path, body, DEADLINE);
        call.await.unwrap().json
    };
    let name = format!("gone-{}", uuid::Uuid::now_v7());
    let body = json!({"application_credential": {"name": name}});
    let created = session.request("keystone", Method::POST, &path, Some(&body), DEADLINE);
    let created = &created.await.unwrap().json["application_credential"];
    let text = |key: &str| created[key].as_str().unwrap().to_owned();
    let with = |credentials| {
        let mut cloud = session.cloud().clone();
        (cloud.credentials, cloud.scope) = (credentials, Scope::Unscoped);
        session_of(cloud)
    };
    let by_credential = with(Credentials::ApplicationCredentialId {
        id: text("id"),
        secret: text("secret").into(),
    });
    let as_credential = by_credential.identity().await;
    call(Method::DELETE, &format!("{path}/{}", text("id")), None).await;
    assert_eq!(as_credential.unwrap().project_id, identity.project_id);

    let wrong = with(Credentials::Password {
        user: UserRef::Id(identity.user_id.clone()),
        password: "wrong".into(),
    });
    let error = wrong.identity().await.unwrap_err();
    assert!(error.rejected());
    println!("{error}");
}

#[tokio::test]
#[ignore = "needs the test bed"]
async fn testbed_paging_in_neutron_glance_octavia_and_keystone_lists_each_row_once() {
    let session = session("testbed");
    for (service, path, items_key) in [
        ("network", "/v2.0/security-groups", "security_groups"),
        ("image", "/v2/images", "images"),
        ("load-balancer", "/v2/lbaas/loadbalancers", "loadbalancers"),
        ("identity", "/v3/users", "users"),
    ] {
        let mut request = ports();
        (request.service, request.path, request.items_key) = (service.into(), path, items_key);
        request.not_found = None;
        let mut whole = request.clone();
        (request.page_limit, whole.page_limit) = (1, 1000);
        let ids = async |request| {
            let listed = session.list(request).await.unwrap();
            assert!(listed.complete, "{service}");
            println!(
                "{service}: {} in {} pages",
                listed.items.len(),
                listed.pages
            );
            let ids = listed.items.iter();
            ids.map(|row| row["id"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let before = ids(whole.clone()).await;
        let paged = ids(request).await;
        let after = ids(whole).await;
        // Load balancers are there only while another test has some.
        let may_be_empty = service == "load-balancer";
        assert!(may_be_empty || !before.is_empty(), "{service} has no row");
        // Other tests use the test bed meanwhile: only rows that exist before and after are compared.
        for id in before.iter().filter(|id| after.contains(id)) {
            let times = paged.iter().filter(|it| *it == id).count();
            assert_eq!(times, 1, "{service}: {id}");
        }
    }
}

#[tokio::test]
#[ignore = "needs the test bed"]
async fn testbed_only_an_admin_can_read_the_names_of_all_projects() {
    let (admin, demo) = (session("testbed"), session("testbed-demo"));
    let projects = admin.projects(DEADLINE).await.unwrap();
    let own = demo.identity().await.unwrap().project_id.clone().unwrap();
    assert_eq!(projects.get(&own).map(String::as_str), Some("demo"));

    let refused = demo.projects(DEADLINE).await.unwrap_err();
    assert_eq!(refused.remote().unwrap().status, 403);
    let name = demo.project(&own, DEADLINE).await.unwrap();
    assert_eq!(name.as_deref(), Some("demo"));
    let other = projects.keys().find(|id| **id != own).unwrap();
    let refused = demo.project(other, DEADLINE).await.unwrap_err();
    assert_eq!(refused.remote().unwrap().status, 403);
}

/// The test bed's Neutron is configured without its service type, so it refuses every call of a token with access
/// rules, even one that a rule allows.
#[tokio::test]
#[ignore = "needs the test bed"]
async fn testbed_a_call_that_no_access_rule_allows_is_not_an_auth_error() {
    let session = session("testbed-demo");
    let identity = session.identity().await.unwrap();
    let path = format!("/v3/users/{}/application_credentials", identity.user_id);
    let project = format!("/v3/projects/{}", identity.project_id.clone().unwrap());
    let name = format!("gone-{}", uuid::Uuid::now_v7());
    let rule = json!({"service": "identity", "method": "GET", "path": project});
    let body = json!({"application_credential": {"name": name, "access_rules": [rule]}});
    let created = session.request("keystone", Method::POST, &path, Some(&body), DEADLINE);
    let created = created.await.unwrap().json["application_credential"].clone();
    let text = |key: &str| created[key].as_str().unwrap().to_owned();
    let mut cloud = session.cloud().clone();
    cloud.scope = Scope::Unscoped;
    cloud.credentials = Credentials::ApplicationCredentialId {
        id: text("id"),
        secret: text("secret").into(),
    };
    let restricted = session_of(cloud);
    let as_restricted = restricted.identity_now().await;
    let get = |service, path| restricted.request(service, Method::GET, path, None, DEADLINE);
    let allowed = get("keystone", &project).await;
    let no_rule = get("keystone", "/v3/projects").await;
    let ports = get("network", "/v2.0/ports").await;
    let path = format!("{path}/{}", text("id"));
    let removed = session.request("keystone", Method::DELETE, &path, None, DEADLINE);
    removed.await.unwrap();

    assert_eq!(as_restricted.unwrap().project_id, identity.project_id);
    assert_eq!(allowed.unwrap().status, 200);
    for (refused, call) in [
        (no_rule, "GET /v3/projects of the keystone service"),
        (ports, "GET /v2.0/ports of the network service"),
    ] {
        let error = refused.unwrap_err();
        assert!(!error.is_auth(), "{error}");
        let expected =
            format!("the access rules of the application credential {name:?} do not allow {call}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
