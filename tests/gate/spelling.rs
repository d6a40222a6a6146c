//! Other spellings of ids and other methods are refused before anything is forwarded (T22).

use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Stage;

/// Returns the number of calls that the cloud has received so far, without those of the engine, which sends calls
/// meanwhile.
async fn client_calls(stage: &Stage) -> usize {
    let calls = stage.sandbox(Method::GET, "calls?after=0", json!({})).await;
    let calls = calls.get("calls").unwrap_or(&calls);
    let of_engine = |call: &&serde_json::Value| {
        let agent = call["user_agent"].as_str();
        agent.is_some_and(|agent| agent.starts_with("gone/"))
    };
    let calls = calls.as_array().unwrap().iter();
    calls.filter(|call| !of_engine(call)).count()
}

/// Starts deletions of one resource each in Neutron, Octavia and Glance, and makes the services refuse the deletes.
/// Returns service, kind, list and id of each resource.
async fn deleting(stage: &Stage) -> Vec<(&'static str, &'static str, &'static str, String)> {
    let network = stage.network("n").await;
    let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}});
    let subnet = stage.make("network", "/v2.0/subnets", subnet).await;
    let balancer = json!({"loadbalancer": {"name": "b", "vip_subnet_id": subnet}});
    let balancers = "/v2.0/lbaas/loadbalancers";
    let balancer = stage.make("load-balancer", balancers, balancer).await;
    let other = stage.network("other").await;
    let image = json!({"name": "i"});
    let image = stage.make("image", "/v2/images", image).await;
    let failing =
        json!([{"match": {"method": "DELETE"}, "action": {"status": 409, "message": "held"}}]);
    stage.faults(failing).await;
    let all = vec![
        ("network", "network", "/v2.0/networks", other),
        ("load-balancer", "load_balancer", balancers, balancer),
        ("image", "image", "/v2/images", image),
    ];
    for (_, kind, _, id) in &all {
        let deletion = stage.delete(kind, id, Default::default()).await;
        stage
            .until_counts(&deletion, |counts| counts.blocked + counts.stuck > 0)
            .await;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn t22_another_spelling_of_an_id_is_refused_before_anything_is_forwarded() {
    let stage = Stage::new().await;
    for (service, _, list, id) in deleting(&stage).await {
        let before = client_calls(&stage).await;
        let upper = id.to_uppercase();
        let encoded = format!("%{:02x}{}", id.as_bytes()[0], &id[1..]);
        let mut spelled: Vec<String> = [
            ".json", ".JSON", ".Json", "%2eJSON", "%20", "%C3%A1", ".xml",
        ]
        .map(|suffix| format!("{id}{suffix}"))
        .into();
        spelled.extend([upper, encoded, format!("%20{id}")]);
        for source in [GateSource::User, GateSource::Local] {
            for id in &spelled {
                for method in [Method::GET, Method::PUT, Method::DELETE] {
                    let body = (method == Method::PUT).then(|| json!({}));
                    let path = format!("{list}/{id}");
                    let answer = stage
                        .call((source, service), method.clone(), &path, body)
                        .await;
                    assert_eq!(
                        answer.status, 400,
                        "{source:?} {method} {path}: {}",
                        answer.text
                    );
                }
                let tags = format!("{list}/{id}/tags/x");
                let tag = stage
                    .call((source, service), Method::PUT, &tags, None)
                    .await;
                assert_eq!(tag.status, 400, "{source:?} {tags}: {}", tag.text);
            }
            let listed = format!("{list}.JSON");
            let listed = stage
                .call((source, service), Method::GET, &listed, None)
                .await;
            assert_eq!(listed.status, 400, "{source:?} {}", listed.text);
        }
        assert_eq!(client_calls(&stage).await, before, "{service}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t22_a_method_that_a_service_lacks_is_refused_before_anything_is_forwarded() {
    let stage = Stage::new().await;
    for (service, _, list, id) in deleting(&stage).await {
        let before = client_calls(&stage).await;
        for method in [
            "OPTIONS", "TRACE", "FOO", "PROPFIND", "delete", "put", "get",
        ] {
            for path in [format!("{list}/{id}"), list.to_owned(), "/".to_owned()] {
                let answer = stage
                    .call(
                        (GateSource::User, service),
                        method.parse().unwrap(),
                        &path,
                        None,
                    )
                    .await;
                assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text);
                assert!(answer.header("allow").contains("DELETE, GET"), "{method}");
            }
        }
        assert_eq!(client_calls(&stage).await, before, "{service}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t22_a_name_in_place_of_an_id_is_answered_400_so_that_clients_filter_by_name() {
    // openstacksdk reads a resource by its id first, and lists resources by name if the answer is 400, 403 or 404.
    let stage = Stage::new().await;
    let id = stage.network("My Net").await;
    let by_id = stage
        .user_get("/v2.0/networks/My%20Net")
        .await
        .with_status(400);
    assert_eq!(by_id.json()["NeutronError"]["type"], "HTTPBadRequest");
    let by_name = stage.user_get("/v2.0/networks?name=My%20Net").await;
    let ids: Vec<Value> = vec![by_name.json()["networks"][0]["id"].clone()];
    assert_eq!(ids, [json!(id)]);
}
