//! What the sandbox alone does with load balancers: seeds, faults, and states on demand.
use http::Method;
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// A cloud with one seeded balancer, and its id.
fn with_balancer() -> (Cloud, String) {
    let mut cloud = Cloud::new();
    let made = cloud.control("POST", "/seed", json!({"networks": 1, "load_balancers": 1}));
    let id = made["load_balancers"][0].as_str().unwrap().to_owned();
    (cloud, id)
}

/// What `GET` of a balancer shows; `null` when it is gone.
fn balancer(cloud: &mut Cloud, id: &str) -> Value {
    let got = cloud.balancing("GET", &format!("/loadbalancers/{id}"), Value::Null);
    got.body["loadbalancer"].clone()
}

fn status(cloud: &mut Cloud, id: &str) -> Value {
    balancer(cloud, id)["provisioning_status"].clone()
}

fn delete(cloud: &mut Cloud, id: &str) -> u16 {
    let path = format!("/loadbalancers/{id}?cascade=true");
    cloud.balancing("DELETE", &path, Value::Null).status
}

fn balancer_ids(cloud: &mut Cloud) -> Vec<String> {
    let list = cloud.balancing("GET", "/loadbalancers?fields=id", Value::Null);
    let list = list.body["loadbalancers"].as_array().unwrap().clone();
    let ids = list.iter().map(|balancer| balancer["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

fn port_of(cloud: &mut Cloud, balancer: &str) -> Value {
    let path = format!("/ports?device_id=lb-{balancer}");
    cloud.get(&path).body["ports"][0].clone()
}

#[test]
fn seeded_balancers_are_whole_and_active() {
    let mut cloud = Cloud::new();
    let made = cloud.control(
        "POST",
        "/seed",
        json!({"name": "shop", "networks": 2, "load_balancers": 3}),
    );
    let ids = made["load_balancers"].as_array().unwrap();
    assert_eq!(ids.len(), 3);
    for id in ids {
        let id = id.as_str().unwrap();
        let shown = balancer(&mut cloud, id);
        assert_eq!(shown["provisioning_status"], "ACTIVE");
        assert_eq!(shown["vip_network_id"], made["networks"][0]);
        assert_eq!(port_of(&mut cloud, id)["id"], shown["vip_port_id"]);
        let pool = shown["pools"][0]["id"].as_str().unwrap();
        let pool = cloud.balancing("GET", &format!("/pools/{pool}"), Value::Null);
        let pool = &pool.body["pool"];
        assert_eq!(pool["members"].as_array().unwrap().len(), 2);
        assert_eq!(pool["listeners"], shown["listeners"]);
        let monitor = pool["healthmonitor_id"].as_str().unwrap();
        let monitor = cloud.balancing("GET", &format!("/healthmonitors/{monitor}"), Value::Null);
        let monitor = &monitor.body["healthmonitor"];
        assert_eq!(monitor["provisioning_status"], "ACTIVE");
    }
}

#[test]
fn a_balancer_hangs_as_long_as_told() {
    let (mut cloud, id) = with_balancer();
    cloud.control("PUT", "/balancers", json!({"id": id}));
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.pass(3 * 60 * 60 * 1000);
    assert_eq!(status(&mut cloud, &id), "PENDING_DELETE");
    assert_eq!(delete(&mut cloud, &id), 409);
    let change = json!({"id": id, "provisioning_status": "PENDING_UPDATE", "for_s": 30});
    cloud.control("PUT", "/balancers", change);
    cloud.pass(29_999);
    assert_eq!(status(&mut cloud, &id), "PENDING_UPDATE");
    cloud.pass(1);
    assert_eq!(status(&mut cloud, &id), "ACTIVE");
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.pass(1_000);
    assert_eq!(status(&mut cloud, &id), Value::Null);
    assert_eq!(port_of(&mut cloud, &id), Value::Null);
}

#[test]
fn a_deletion_may_end_in_error_and_be_asked_for_again() {
    let (mut cloud, id) = with_balancer();
    cloud.control(
        "PUT",
        "/balancers",
        json!({"id": id, "for_s": 5, "ends_in": "ERROR"}),
    );
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.pass(5_000);
    assert_eq!(status(&mut cloud, &id), "ERROR");
    let rename = json!({"loadbalancer": {"name": "x"}});
    let got = cloud.balancing("PUT", &format!("/loadbalancers/{id}"), rename);
    let message = format!("Invalid state ERROR of loadbalancer resource {id}");
    assert_eq!(got.body["faultstring"], message);
    let listener =
        json!({"listener": {"loadbalancer_id": id, "protocol": "HTTP", "protocol_port": 81}});
    assert_eq!(cloud.balancing("POST", "/listeners", listener).status, 409);
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.pass(1_000);
    assert_eq!(status(&mut cloud, &id), Value::Null);
}

#[test]
fn a_state_that_cannot_be_names_the_field() {
    let (mut cloud, id) = with_balancer();
    let gone = "11111111-2222-4333-8444-555555555555";
    for (change, field) in [
        (json!({"id": gone}), "id"),
        (json!({"id": id, "region": "Mars"}), "region"),
        (
            json!({"id": id, "provisioning_status": "DELETED"}),
            "provisioning_status",
        ),
        (
            json!({"id": id, "provisioning_status": "ERROR", "for_s": 1}),
            "provisioning_status",
        ),
        (json!({"id": id, "ends_in": "ERROR"}), "ends_in"),
        (json!({"id": id, "nosuch": 1}), "nosuch"),
    ] {
        let got = cloud.refused_or_not("PUT", "/balancers", change);
        assert_eq!(got.status, 400, "{field}");
        let error = got.body["error"].as_str().unwrap();
        assert!(error.contains(field), "{field} in {error}");
    }
}

#[test]
fn a_kept_balancer_stays_active() {
    let (mut cloud, id) = with_balancer();
    let rule = json!([{"match": {"method": "DELETE", "kind": "load_balancer"}, "times": 1, "action": {"keep": true}}]);
    cloud.control("PUT", "/faults", rule);
    assert_eq!(delete(&mut cloud, &id), 204);
    assert_eq!(status(&mut cloud, &id), "ACTIVE");
    cloud.pass(60_000);
    assert_eq!(status(&mut cloud, &id), "ACTIVE");
    assert_ne!(port_of(&mut cloud, &id), Value::Null);
}

#[test]
fn a_kept_creation_leaves_nothing() {
    let mut cloud = Cloud::new();
    let (network, subnet) = cloud.network("web", "10.0.0.0/24");
    let rule = json!([{"match": {"method": "POST"}, "action": {"keep": true}}]);
    cloud.control("PUT", "/faults", rule);
    let body = json!({"loadbalancer": {"vip_subnet_id": subnet}});
    assert_eq!(cloud.balancing("POST", "/loadbalancers", body).status, 201);
    assert_eq!(balancer_ids(&mut cloud), Vec::<String>::new());
    assert_eq!(cloud.delete(&format!("/networks/{network}")).status, 204);
}

#[test]
fn a_balancer_comes_back_with_its_children_and_its_port() {
    let (mut cloud, id) = with_balancer();
    let before = balancer(&mut cloud, &id);
    let rule = json!([{"match": {"method": "DELETE"}, "times": 1, "action": {"recreate_after_ms": 3_000}}]);
    cloud.control("PUT", "/faults", rule);
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.pass(1_500);
    assert_eq!(status(&mut cloud, &id), Value::Null);
    cloud.pass(1_500);
    let after = balancer(&mut cloud, &id);
    assert_eq!(after["provisioning_status"], "ACTIVE");
    for name in ["vip_port_id", "vip_address", "listeners", "pools"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(port_of(&mut cloud, &id)["id"], before["vip_port_id"]);
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.pass(1_000);
    assert_eq!(port_of(&mut cloud, &id), Value::Null);
}

#[test]
fn a_balancer_that_is_not_gone_yet_comes_back_when_it_is_as_another() {
    let (mut cloud, id) = with_balancer();
    let before = balancer(&mut cloud, &id);
    let rule = json!([{"match": {"method": "DELETE"}, "times": 1, "action": {"recreate_after_ms": 0, "as": "new"}}]);
    cloud.control("PUT", "/faults", rule);
    assert_eq!(delete(&mut cloud, &id), 204);
    assert_eq!(status(&mut cloud, &id), "PENDING_DELETE");
    cloud.pass(1_000);
    assert_eq!(status(&mut cloud, &id), Value::Null);
    let ids = balancer_ids(&mut cloud);
    assert_eq!(ids.len(), 1);
    let after = balancer(&mut cloud, &ids[0]);
    assert_eq!(after["name"], before["name"]);
    assert_ne!(after["listeners"], before["listeners"]);
    let port = port_of(&mut cloud, &ids[0]);
    assert_eq!(port["id"], after["vip_port_id"]);
    assert_eq!(port["fixed_ips"][0]["ip_address"], before["vip_address"]);
    let pool = after["pools"][0]["id"].as_str().unwrap();
    let pool = cloud
        .balancing("GET", &format!("/pools/{pool}"), Value::Null)
        .body;
    assert_eq!(pool["pool"]["listeners"], after["listeners"]);
    assert_eq!(pool["pool"]["members"].as_array().unwrap().len(), 2);
}

#[test]
fn a_member_is_a_kind_of_its_own_for_faults() {
    let (mut cloud, id) = with_balancer();
    let pool = balancer(&mut cloud, &id)["pools"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let members = cloud
        .balancing("GET", &format!("/pools/{pool}/members"), Value::Null)
        .body;
    let member = members["members"][0]["id"].as_str().unwrap().to_owned();
    let rule = json!([{"match": {"kind": "member", "id": member}, "times": 1, "action": {"status": 503, "message": "busy"}}]);
    cloud.control("PUT", "/faults", rule);
    let path = format!("/pools/{pool}/members/{member}");
    let got = cloud.balancing("DELETE", &path, Value::Null);
    assert_eq!(
        (got.status, &got.body["faultstring"]),
        (503, &json!("busy"))
    );
    assert_eq!(cloud.balancing("DELETE", &path, Value::Null).status, 204);
    let rule = json!([{"match": {"kind": "pool", "method": "DELETE"}, "times": 1, "action": {"recreate_after_ms": 2_000}}]);
    cloud.control("PUT", "/faults", rule);
    cloud.pass(1_000);
    let path = format!("/pools/{pool}");
    assert_eq!(cloud.balancing("DELETE", &path, Value::Null).status, 204);
    cloud.pass(1_000);
    assert_eq!(cloud.balancing("GET", &path, Value::Null).status, 404);
    cloud.pass(1_000);
    let back = cloud.balancing("GET", &path, Value::Null).body;
    assert_eq!(back["pool"]["members"].as_array().unwrap().len(), 1);
    assert_eq!(back["pool"]["listeners"].as_array().unwrap().len(), 1);
}

#[test]
fn the_versions_need_no_token_and_both_spellings_lead_to_the_same() {
    let (mut cloud, id) = with_balancer();
    let versions = cloud.send(Method::GET, "/RegionOne/load-balancer/", None, None, &[]);
    assert_eq!(versions.status, 200);
    let last = versions.body["versions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert_eq!(last["id"], "v2.30");
    assert_eq!(last["status"], "CURRENT");
    assert_eq!(
        last["links"][0]["href"],
        "http://sandbox.invalid/RegionOne/load-balancer/v2"
    );
    let token = cloud.log_in("admin", "secret").unwrap();
    let path = "/RegionOne/load-balancer/v2/lbaas/loadbalancers?limit=1";
    let page = cloud.send(Method::GET, path, Some(&token), None, &[]).body;
    assert_eq!(page["loadbalancers"][0]["id"], *id);
    let next = format!("http://sandbox.invalid{path}&marker={id}");
    assert_eq!(page["loadbalancers_links"][0]["href"], *next);
}
