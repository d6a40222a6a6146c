//! Load balancers of the practice cloud: seeds, faults, and states that a control call sets.
use http::Method;
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// A cloud with one seeded balancer, and the balancer's id.
fn with_balancer() -> (Cloud, String) {
    let mut cloud = Cloud::new();
    let made = cloud.control("POST", "/seed", json!({"networks": 1, "load_balancers": 1}));
    let id = made["load_balancers"][0].as_str().unwrap().to_owned();
    (cloud, id)
}

/// The balancer in the answer to `GET`; `null` if the balancer does not exist.
fn balancer(cloud: &mut Cloud, id: &str) -> Value {
    let got = cloud.call_octavia("GET", &format!("/loadbalancers/{id}"), Value::Null);
    got.body["loadbalancer"].clone()
}

fn status(cloud: &mut Cloud, id: &str) -> Value {
    balancer(cloud, id)["provisioning_status"].clone()
}

fn delete(cloud: &mut Cloud, id: &str) -> u16 {
    let path = format!("/loadbalancers/{id}?cascade=true");
    cloud.call_octavia("DELETE", &path, Value::Null).status
}

fn balancer_ids(cloud: &mut Cloud) -> Vec<String> {
    let list = cloud.call_octavia("GET", "/loadbalancers?fields=id", Value::Null);
    let list = list.body["loadbalancers"].as_array().unwrap().clone();
    let ids = list.iter().map(|balancer| balancer["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

fn port_of(cloud: &mut Cloud, balancer: &str) -> Value {
    let path = format!("/ports?device_id=lb-{balancer}");
    cloud.get(&path).body["ports"][0].clone()
}

#[test]
fn a_seeded_balancer_is_active_and_has_a_vip_port_a_pool_two_members_and_a_monitor() {
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
        let pool = cloud.call_octavia("GET", &format!("/pools/{pool}"), Value::Null);
        let pool = &pool.body["pool"];
        assert_eq!(pool["members"].as_array().unwrap().len(), 2);
        assert_eq!(pool["listeners"], shown["listeners"]);
        let monitor = pool["healthmonitor_id"].as_str().unwrap();
        let monitor = cloud.call_octavia("GET", &format!("/healthmonitors/{monitor}"), Value::Null);
        let monitor = &monitor.body["healthmonitor"];
        assert_eq!(monitor["provisioning_status"], "ACTIVE");
    }
}

#[test]
fn a_balancer_stays_pending_for_the_time_that_a_control_call_sets() {
    let (mut cloud, id) = with_balancer();
    cloud.control("PUT", "/balancers", json!({"id": id}));
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.advance(3 * 60 * 60 * 1000);
    assert_eq!(status(&mut cloud, &id), "PENDING_DELETE");
    assert_eq!(delete(&mut cloud, &id), 409);
    let change = json!({"id": id, "provisioning_status": "PENDING_UPDATE", "for_s": 30});
    cloud.control("PUT", "/balancers", change);
    cloud.advance(29_999);
    assert_eq!(status(&mut cloud, &id), "PENDING_UPDATE");
    cloud.advance(1);
    assert_eq!(status(&mut cloud, &id), "ACTIVE");
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.advance(1_000);
    assert_eq!(status(&mut cloud, &id), Value::Null);
    assert_eq!(port_of(&mut cloud, &id), Value::Null);
}

#[test]
fn a_balancer_whose_deletion_ended_in_error_refuses_changes_and_can_be_deleted_again() {
    let (mut cloud, id) = with_balancer();
    cloud.control(
        "PUT",
        "/balancers",
        json!({"id": id, "for_s": 5, "ends_in": "ERROR"}),
    );
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.advance(5_000);
    assert_eq!(status(&mut cloud, &id), "ERROR");
    let rename = json!({"loadbalancer": {"name": "x"}});
    let got = cloud.call_octavia("PUT", &format!("/loadbalancers/{id}"), rename);
    let message = format!("Invalid state ERROR of loadbalancer resource {id}");
    assert_eq!(got.body["faultstring"], message);
    let listener =
        json!({"listener": {"loadbalancer_id": id, "protocol": "HTTP", "protocol_port": 81}});
    assert_eq!(
        cloud.call_octavia("POST", "/listeners", listener).status,
        409
    );
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.advance(1_000);
    assert_eq!(status(&mut cloud, &id), Value::Null);
}

#[test]
fn an_invalid_balancer_state_is_refused_and_the_error_names_the_field() {
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
        let got = cloud.try_control("PUT", "/balancers", change);
        assert_eq!(got.status, 400, "{field}");
        let error = got.body["error"].as_str().unwrap();
        assert!(error.contains(field), "{field} in {error}");
    }
}

#[test]
fn a_balancer_deleted_under_the_fault_keep_stays_active_and_keeps_its_port() {
    let (mut cloud, id) = with_balancer();
    let rule = json!([{"match": {"method": "DELETE", "kind": "load_balancer"}, "times": 1, "action": {"keep": true}}]);
    cloud.control("PUT", "/faults", rule);
    assert_eq!(delete(&mut cloud, &id), 204);
    assert_eq!(status(&mut cloud, &id), "ACTIVE");
    cloud.advance(60_000);
    assert_eq!(status(&mut cloud, &id), "ACTIVE");
    assert_ne!(port_of(&mut cloud, &id), Value::Null);
}

#[test]
fn a_balancer_created_under_the_fault_keep_leaves_no_row_and_no_port() {
    let mut cloud = Cloud::new();
    let (network, subnet) = cloud.network("web", "10.0.0.0/24");
    let rule = json!([{"match": {"method": "POST"}, "action": {"keep": true}}]);
    cloud.control("PUT", "/faults", rule);
    let body = json!({"loadbalancer": {"vip_subnet_id": subnet}});
    assert_eq!(
        cloud.call_octavia("POST", "/loadbalancers", body).status,
        201
    );
    assert_eq!(balancer_ids(&mut cloud), Vec::<String>::new());
    assert_eq!(cloud.delete(&format!("/networks/{network}")).status, 204);
}

#[test]
fn a_deleted_balancer_is_revived_with_its_listeners_pools_and_port() {
    let (mut cloud, id) = with_balancer();
    let before = balancer(&mut cloud, &id);
    let rule = json!([{"match": {"method": "DELETE"}, "times": 1, "action": {"recreate_after_ms": 3_000}}]);
    cloud.control("PUT", "/faults", rule);
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.advance(1_500);
    assert_eq!(status(&mut cloud, &id), Value::Null);
    cloud.advance(1_500);
    let after = balancer(&mut cloud, &id);
    assert_eq!(after["provisioning_status"], "ACTIVE");
    for name in ["vip_port_id", "vip_address", "listeners", "pools"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(port_of(&mut cloud, &id)["id"], before["vip_port_id"]);
    assert_eq!(delete(&mut cloud, &id), 204);
    cloud.advance(1_000);
    assert_eq!(port_of(&mut cloud, &id), Value::Null);
}

#[test]
fn a_balancer_is_revived_under_new_ids_once_its_deletion_has_ended() {
    let (mut cloud, id) = with_balancer();
    let before = balancer(&mut cloud, &id);
    let rule = json!([{"match": {"method": "DELETE"}, "times": 1, "action": {"recreate_after_ms": 0, "as": "new"}}]);
    cloud.control("PUT", "/faults", rule);
    assert_eq!(delete(&mut cloud, &id), 204);
    assert_eq!(status(&mut cloud, &id), "PENDING_DELETE");
    cloud.advance(1_000);
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
        .call_octavia("GET", &format!("/pools/{pool}"), Value::Null)
        .body;
    assert_eq!(pool["pool"]["listeners"], after["listeners"]);
    assert_eq!(pool["pool"]["members"].as_array().unwrap().len(), 2);
}

#[test]
fn a_fault_can_match_a_pool_member_and_a_revived_pool_has_its_member_and_listener() {
    let (mut cloud, id) = with_balancer();
    let pool = balancer(&mut cloud, &id)["pools"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let members = cloud
        .call_octavia("GET", &format!("/pools/{pool}/members"), Value::Null)
        .body;
    let member = members["members"][0]["id"].as_str().unwrap().to_owned();
    let rule = json!([{"match": {"kind": "member", "id": member}, "times": 1, "action": {"status": 503, "message": "busy"}}]);
    cloud.control("PUT", "/faults", rule);
    let path = format!("/pools/{pool}/members/{member}");
    let got = cloud.call_octavia("DELETE", &path, Value::Null);
    assert_eq!(
        (got.status, &got.body["faultstring"]),
        (503, &json!("busy"))
    );
    assert_eq!(cloud.call_octavia("DELETE", &path, Value::Null).status, 204);
    let rule = json!([{"match": {"kind": "pool", "method": "DELETE"}, "times": 1, "action": {"recreate_after_ms": 2_000}}]);
    cloud.control("PUT", "/faults", rule);
    cloud.advance(1_000);
    let path = format!("/pools/{pool}");
    assert_eq!(cloud.call_octavia("DELETE", &path, Value::Null).status, 204);
    cloud.advance(1_000);
    assert_eq!(cloud.call_octavia("GET", &path, Value::Null).status, 404);
    cloud.advance(1_000);
    let back = cloud.call_octavia("GET", &path, Value::Null).body;
    assert_eq!(back["pool"]["members"].as_array().unwrap().len(), 1);
    assert_eq!(back["pool"]["listeners"].as_array().unwrap().len(), 1);
}

#[test]
fn octavia_versions_need_no_token_and_a_list_below_v2_links_to_v2_pages() {
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
