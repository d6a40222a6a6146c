//! The control calls of the practice cloud: seeds, faults, limits, tokens, users and the call log.
use std::time::Duration;

use gone::sandbox::{Fate, WorldOptions};
use http::Method;
use serde_json::{Value, json};

use crate::cloud::Cloud;

#[test]
fn the_same_seed_makes_the_same_ids() {
    let ids = |seed| {
        let mut cloud = Cloud::with_options(WorldOptions {
            seed,
            ..WorldOptions::default()
        });
        let made = cloud.control(
            "POST",
            "/seed",
            json!({"networks": 2, "ports_per_network": 3, "routers": 1}),
        );
        made.to_string()
    };
    assert_eq!(ids(7), ids(7));
    assert_ne!(ids(7), ids(8));
}

#[test]
fn a_seed_creates_the_requested_networks_ports_routers_floating_ips_and_trunks() {
    let mut cloud = Cloud::new();
    let made = cloud.control(
        "POST",
        "/seed",
        json!({"region": "RegionOne", "name": "shop", "networks": 4, "ports_per_network": 10, "routers": 2, "floating_ips": 3, "trunks": 2}),
    );
    let count = |name: &str| made[name].as_array().unwrap().len();
    assert_eq!(
        [
            count("networks"),
            count("routers"),
            count("floating_ips"),
            count("trunks")
        ],
        [4, 2, 3, 2]
    );
    // 10 ports and a DHCP port on each network, 3 for each trunk, 1 for each floating IP.
    assert_eq!(count("ports"), 4 * 11 + 2 * 3 + 3);

    let network = made["networks"][0].as_str().unwrap();
    let ports = cloud.get(&format!("/ports?network_id={network}")).body;
    let owners: Vec<&str> = ports["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["device_owner"].as_str().unwrap())
        .collect();
    for owner in [
        "network:dhcp",
        "compute:nova",
        "",
        "network:router_interface",
    ] {
        assert!(owners.contains(&owner), "{owner:?} in {owners:?}");
    }

    let router = made["routers"][0].as_str().unwrap();
    let router = cloud.get(&format!("/routers/{router}")).body;
    assert_eq!(router["router"]["routes"].as_array().unwrap().len(), 1);
    assert_eq!(
        router["router"]["external_gateway_info"]["network_id"],
        made["external_network"]
    );

    let trunk = made["trunks"][0].as_str().unwrap();
    let trunk = cloud.get(&format!("/trunks/{trunk}")).body;
    let subports = trunk["trunk"]["sub_ports"].as_array().unwrap();
    let networks: Vec<Value> = subports
        .iter()
        .map(|sub| {
            let port = sub["port_id"].as_str().unwrap();
            cloud.get(&format!("/ports/{port}")).body["port"]["network_id"].clone()
        })
        .collect();
    assert_eq!(
        networks,
        [made["networks"][1].clone(), made["networks"][2].clone()]
    );
}

#[test]
fn an_invalid_seed_is_refused_and_the_error_names_the_field() {
    let mut cloud = Cloud::new();
    for (seed, field) in [
        (json!({"networks": 1, "nosuch": 1}), "nosuch"),
        (json!({"networks": "many"}), "networks"),
        (json!({"region": "Mars"}), "region"),
        (json!({"project": "nobody"}), "project"),
        (json!({"trunks": 1}), "trunks"),
        (json!({"images": 200_000}), "images"),
        (json!({"load_balancers": 1}), "load_balancers"),
        (
            json!({"networks": 1, "ports_per_network": 70_000}),
            "ports_per_network",
        ),
    ] {
        let got = cloud.try_control("POST", "/seed", seed);
        assert_eq!(got.status, 400);
        let error = got.body["error"].as_str().unwrap();
        assert!(error.contains(field), "{field} in {error}");
    }
}

#[test]
fn a_cloud_of_100_000_ports_lists_a_network_by_pages_and_deletes_ports() {
    let mut cloud = Cloud::new();
    let made = cloud.control(
        "POST",
        "/seed",
        json!({"networks": 10, "ports_per_network": 9_999}),
    );
    assert_eq!(made["ports"].as_array().unwrap().len(), 100_000);
    let network = made["networks"][3].as_str().unwrap();

    let mut listed = 0;
    let mut marker = String::new();
    loop {
        let page = cloud
            .get(&format!(
                "/ports?network_id={network}&fields=id&limit=1000{marker}"
            ))
            .body;
        let ports = page["ports"].as_array().unwrap();
        let Some(last) = ports.last() else {
            break;
        };
        listed += ports.len();
        marker = format!("&marker={}", last["id"].as_str().unwrap());
    }
    assert_eq!(listed, 10_000);

    for port in made["ports"].as_array().unwrap().iter().take(2_000) {
        let got = cloud.delete(&format!("/ports/{}", port.as_str().unwrap()));
        assert_eq!(got.status, 204);
    }
}

#[test]
fn a_fault_applies_only_to_matching_calls_and_only_as_often_as_times_says() {
    let mut cloud = Cloud::new();
    let (network, _) = cloud.network("web", "10.0.0.0/24");
    cloud.control(
        "PUT",
        "/faults",
        json!([{
            "match": {"region": "RegionOne", "method": "DELETE", "kind": "networks", "id": network},
            "times": 2,
            "action": {"status": 503, "type": "ServiceUnavailable", "message": "later", "retry_after": 7},
        }]),
    );
    assert_eq!(cloud.get(&format!("/networks/{network}")).status, 200);
    for _ in 0..2 {
        let got = cloud.delete(&format!("/networks/{network}"));
        assert_eq!(got.status, 503);
        assert_eq!(
            got.body,
            json!({"NeutronError": {"type": "ServiceUnavailable", "message": "later", "detail": ""}})
        );
        assert_eq!(got.reply.response.headers()["retry-after"], "7");
    }
    assert_eq!(cloud.delete(&format!("/networks/{network}")).status, 204);
}

#[test]
fn a_fault_of_a_keystone_call_answers_with_an_error_in_keystones_format() {
    let mut cloud = Cloud::new();
    cloud.control(
        "PUT",
        "/faults",
        json!([{"match": {"path": "/v3/auth/tokens"}, "action": {"status": 500, "message": "broken"}}]),
    );
    let got = cloud.send(Method::POST, "/v3/auth/tokens", None, Some(&json!({})), &[]);
    assert_eq!(
        got.body,
        json!({"error": {"code": 500, "title": "Internal Server Error", "message": "broken"}})
    );
}

#[test]
fn a_delete_under_the_fault_keep_answers_204_and_deletes_nothing() {
    let mut cloud = Cloud::new();
    let (network, subnet) = cloud.network("web", "10.0.0.0/24");
    cloud.port(&network);
    cloud.control(
        "PUT",
        "/faults",
        json!([{"match": {"method": "DELETE"}, "action": {"keep": true}}]),
    );
    // First a network that is in use, then one that is not.
    assert_eq!(cloud.delete(&format!("/networks/{network}")).status, 204);
    let (free, _) = cloud.network("free", "10.1.0.0/24");
    assert_eq!(cloud.delete(&format!("/networks/{free}")).status, 204);
    cloud.control("PUT", "/faults", json!([]));
    assert_eq!(cloud.get(&format!("/networks/{network}")).status, 200);
    assert_eq!(cloud.get(&format!("/subnets/{subnet}")).status, 200);
    assert_eq!(
        cloud.get(&format!("/networks/{free}")).body["network"]["subnets"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_deleted_network_is_revived_with_its_subnets_ports_and_tags() {
    let mut cloud = Cloud::new();
    let (network, _) = cloud.network("web", "10.0.0.0/24");
    cloud.call(
        "POST",
        "/ports",
        json!({"port": {"network_id": network, "device_owner": "network:dhcp", "device_id": "x"}}),
    );
    cloud.call(
        "PUT",
        &format!("/networks/{network}/tags"),
        json!({"tags": ["a"]}),
    );
    let path = format!("/networks/{network}");
    let before = cloud.get(&path).body;
    let ports = cloud.get("/ports").body;
    cloud.control(
        "PUT",
        "/faults",
        json!([{"match": {"method": "DELETE", "kind": "network"}, "times": 2, "action": {"recreate_after_ms": 500}}]),
    );
    for _ in 0..2 {
        assert_eq!(cloud.delete(&path).status, 204);
        cloud.advance(499);
        assert_eq!(cloud.get(&path).status, 404);
        cloud.advance(1);
        assert_eq!(cloud.get(&path).body, before);
        assert_eq!(cloud.get("/ports").body, ports);
    }
    assert_eq!(cloud.delete(&path).status, 204);
    cloud.advance(10_000);
    assert_eq!(cloud.get(&path).status, 404);
}

#[test]
fn a_deleted_network_is_revived_under_new_ids() {
    let mut cloud = Cloud::new();
    let (network, subnet) = cloud.network("web", "10.0.0.0/24");
    cloud.control(
        "PUT",
        "/faults",
        json!([{"match": {"method": "DELETE"}, "action": {"recreate_after_ms": 0, "as": "new"}}]),
    );
    cloud.delete(&format!("/networks/{network}"));
    assert_eq!(cloud.get(&format!("/networks/{network}")).status, 404);
    let found = cloud.get("/networks?name=web").body;
    let found = &found["networks"][0];
    assert_ne!(found["id"], network.as_str());
    let new_subnet = found["subnets"][0].as_str().unwrap();
    assert_ne!(new_subnet, subnet);
    let shown = cloud.get(&format!("/subnets/{new_subnet}")).body;
    assert_eq!(shown["subnet"]["network_id"], found["id"]);
}

#[test]
fn a_removed_router_interface_and_a_removed_subport_are_revived() {
    let mut cloud = Cloud::new();
    let (network, subnet) = cloud.network("web", "10.0.0.0/24");
    let router = cloud.call("POST", "/routers", json!({"router": {}})).id();
    cloud.call(
        "PUT",
        &format!("/routers/{router}/add_router_interface"),
        json!({"subnet_id": subnet}),
    );
    let (parent, sub) = (cloud.port(&network), cloud.port(&network));
    let subport = json!({"port_id": sub, "segmentation_type": "vlan", "segmentation_id": 5});
    let trunk = cloud
        .call(
            "POST",
            "/trunks",
            json!({"trunk": {"port_id": parent, "sub_ports": [subport]}}),
        )
        .id();
    cloud.control(
        "PUT",
        "/faults",
        json!([
            {"match": {"kind": "router_interface", "id": subnet}, "times": 1, "action": {"recreate_after_ms": 0}},
            {"match": {"kind": "subport", "id": sub}, "times": 1, "action": {"recreate_after_ms": 0}},
        ]),
    );
    let interface = cloud.get(&format!("/ports?device_id={router}")).body;
    let got = cloud.call(
        "PUT",
        &format!("/routers/{router}/remove_router_interface"),
        json!({"subnet_id": subnet}),
    );
    assert_eq!(got.status, 200);
    assert_eq!(
        cloud.get(&format!("/ports?device_id={router}")).body,
        interface
    );
    assert_eq!(
        cloud.delete(&format!("/routers/{router}")).error_type(),
        "RouterInUse"
    );
    let got = cloud.call(
        "PUT",
        &format!("/trunks/{trunk}/remove_subports"),
        json!({"sub_ports": [{"port_id": sub}]}),
    );
    assert_eq!(got.status, 200);
    assert_eq!(
        cloud.delete(&format!("/ports/{sub}")).error_type(),
        "PortInUseAsSubPort"
    );
}

#[test]
fn faults_empty_truncate_replace_hang_delay_and_drop_answers() {
    let mut cloud = Cloud::new();
    let (network, _) = cloud.network("web", "10.0.0.0/24");
    let fault = |cloud: &mut Cloud, action: Value| {
        cloud.control(
            "PUT",
            "/faults",
            json!([{"match": {"path": "/v2.0/"}, "action": action}]),
        );
    };

    fault(&mut cloud, json!({"empty_list": true}));
    assert_eq!(cloud.get("/networks?limit=1").body, json!({"networks": []}));

    fault(&mut cloud, json!({"truncate": true}));
    let got = cloud.get("/networks");
    assert_eq!((got.status, &got.body), (200, &Value::Null));
    assert!(!got.reply.response.body().is_empty());

    fault(&mut cloud, json!({"status": 502, "html": true}));
    let got = cloud.get("/networks");
    assert!(
        got.reply.response.headers()["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );

    fault(&mut cloud, json!({"hang": true}));
    assert_eq!(
        cloud.delete(&format!("/networks/{network}")).reply.fate,
        Fate::Hang
    );
    fault(&mut cloud, json!({"delay_ms": 250}));
    let got = cloud.get(&format!("/networks/{network}"));
    assert_eq!(
        (got.status, got.reply.delay),
        (200, Duration::from_millis(250))
    );
    fault(&mut cloud, json!({"drop_after_effect": true}));
    assert_eq!(
        cloud.delete(&format!("/networks/{network}")).reply.fate,
        Fate::DropWithoutAnswer
    );
    cloud.control("PUT", "/faults", json!([]));
    assert_eq!(cloud.get(&format!("/networks/{network}")).status, 404);
}

#[test]
fn an_invalid_fault_is_refused_and_the_error_names_the_field() {
    let mut cloud = Cloud::new();
    for (rule, field) in [
        (
            json!({"match": {"methd": "GET"}, "action": {"hang": true}}),
            "[0].match.methd",
        ),
        (json!({"action": {"stauts": 500}}), "[0].action.stauts"),
        (json!({"action": {"status": 9999}}), "status"),
        (json!({"action": {"type": "X"}}), "type"),
        (json!({"action": {"as": "new"}}), "as"),
        (json!({"action": {"keep": true, "hang": true}}), "keep"),
    ] {
        let got = cloud.try_control("PUT", "/faults", json!([rule]));
        assert_eq!(got.status, 400, "{rule}");
        let error = got.body["error"].as_str().unwrap();
        assert!(error.contains(field), "{field} in {error}");
    }
}

#[test]
fn limits_delay_the_answers_of_their_region() {
    let mut cloud = Cloud::new();
    cloud.control(
        "PUT",
        "/limits",
        json!({"region": "RegionOne", "latency_ms": 100, "parallel": 1}),
    );
    let delays: Vec<u128> = (0..3)
        .map(|_| cloud.get("/networks").reply.delay.as_millis())
        .collect();
    assert_eq!(delays, [100, 200, 300]);
    let token = cloud.log_in("admin", "secret").unwrap();
    let other = cloud.send(
        Method::GET,
        "/RegionTwo/network/v2.0/networks",
        Some(&token),
        None,
        &[],
    );
    assert_eq!(other.reply.delay, Duration::ZERO);
}

#[test]
fn the_call_log_has_every_call_except_control_calls() {
    let mut cloud = Cloud::new();
    let before = cloud.control("GET", "/calls", Value::Null)["calls"]
        .as_array()
        .unwrap()
        .len();
    let token = cloud.log_in("demo", "secret").unwrap();
    cloud.send(
        Method::GET,
        "/RegionTwo/network/v2.0/ports?limit=5",
        Some(&token),
        None,
        &[("user-agent", "test/1")],
    );
    cloud.delete("/networks/nosuch");
    let calls = cloud.control("GET", &format!("/calls?after={before}"), Value::Null);
    let calls = calls["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[0]["path"], "/v3/auth/tokens");
    assert_eq!(calls[0]["region"], Value::Null);
    assert_eq!(
        calls[1],
        json!({
            "seq": before + 2, "at": cloud.now, "region": "RegionTwo", "method": "GET",
            "path": "/RegionTwo/network/v2.0/ports?limit=5", "status": 200, "user_agent": "test/1",
        })
    );
    assert_eq!(calls[2]["status"], 404);
}

#[test]
fn tokens_expire_and_can_be_revoked() {
    let mut cloud = Cloud::new();
    assert_eq!(cloud.get("/networks").status, 200);
    cloud.control("PUT", "/tokens", json!({"user": "demo", "revoke": true}));
    assert_eq!(cloud.get("/networks").status, 200);
    assert_eq!(
        cloud.call_as_demo("GET", "/networks", Value::Null).status,
        401
    );
    cloud.control(
        "PUT",
        "/tokens",
        json!({"expires_in_s": 10, "lifetime_s": 60}),
    );
    cloud.advance(9_999);
    assert_eq!(cloud.get("/networks").status, 200);
    cloud.advance(1);
    let got = cloud.get("/networks");
    assert_eq!(got.status, 401);
    assert_eq!(got.body["error"]["title"], "Unauthorized");
    let token = cloud.log_in("admin", "secret").unwrap();
    cloud.advance(59_999);
    assert_eq!(
        cloud
            .call_as(&token, "GET", "/networks", Value::Null)
            .status,
        200
    );
    cloud.advance(1);
    assert_eq!(
        cloud
            .call_as(&token, "GET", "/networks", Value::Null)
            .status,
        401
    );
}

#[test]
fn changed_roles_apply_to_issued_tokens_and_a_changed_password_to_the_next_login() {
    let mut cloud = Cloud::new();
    let network = cloud
        .call_as_demo("POST", "/networks", json!({"network": {"name": "mine"}}))
        .id();
    let path = format!("/networks/{network}");
    cloud.control(
        "PUT",
        "/users",
        json!({"name": "demo", "roles": {"demo": ["reader"]}}),
    );
    assert_eq!(cloud.call_as_demo("GET", &path, Value::Null).status, 200);
    let got = cloud.call_as_demo("DELETE", &path, Value::Null);
    assert_eq!((got.status, got.error_type()), (403, "PolicyNotAuthorized"));
    cloud.control(
        "PUT",
        "/users",
        json!({"name": "admin", "roles": {"admin": ["member"]}}),
    );
    let got = cloud.get(&path);
    assert_eq!((got.status, got.error_type()), (404, "NetworkNotFound"));
    cloud.control(
        "PUT",
        "/users",
        json!({"name": "demo", "roles": {"demo": []}}),
    );
    assert_eq!(cloud.call_as_demo("GET", &path, Value::Null).status, 401);
    cloud.control(
        "PUT",
        "/users",
        json!({"name": "demo", "password": "other"}),
    );
    assert_eq!(cloud.log_in("demo", "secret"), None);
}

#[test]
fn a_given_id_is_used_only_with_the_option_keep_ids() {
    let id = "11111111-2222-4333-8444-555555555555";
    let body = json!({"network": {"id": id}});
    let mut strict = Cloud::new();
    let got = strict.call("POST", "/networks", body.clone());
    assert_eq!((got.status, got.error_type()), (400, "HTTPBadRequest"));
    let mut with_ids = Cloud::with_options(WorldOptions {
        keep_ids: true,
        ..WorldOptions::default()
    });
    assert_eq!(with_ids.call("POST", "/networks", body.clone()).id(), id);
    assert_eq!(with_ids.call("POST", "/networks", body).status, 409);
}

#[test]
fn page_max_limits_the_rows_of_a_page_whatever_limit_is_requested() {
    let mut cloud = Cloud::with_options(WorldOptions {
        page_max: Some(2),
        ..WorldOptions::default()
    });
    let (network, _) = cloud.network("web", "10.0.0.0/24");
    for _ in 0..3 {
        cloud.port(&network);
    }
    for query in ["", "&limit=0", "&limit=100"] {
        let page = cloud
            .get(&format!("/ports?network_id={network}{query}"))
            .body;
        assert_eq!(page["ports"].as_array().unwrap().len(), 2, "{query}");
        assert_eq!(page["ports_links"][0]["rel"], "next");
    }
}

#[test]
fn each_seeded_server_has_one_port_with_the_owner_compute_nova() {
    let mut cloud = Cloud::new();
    let made = cloud.control(
        "POST",
        "/seed",
        json!({"networks": 1, "servers": 2, "images": 0, "load_balancers": 0}),
    );
    let servers = made["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    for server in servers {
        let path = format!("/ports?device_id={}", server.as_str().unwrap());
        let ports = cloud.get(&path).body;
        assert_eq!(ports["ports"].as_array().unwrap().len(), 1);
        assert_eq!(ports["ports"][0]["device_owner"], "compute:nova");
    }
}
