//! `DELETE …?cascade=true`: its answer, and what clients see and may do while the deletion runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gone::control::Command;
use gone::domain::model::{Counts, DeletionState, Phase};
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{SOURCES, Stage, site, until};

/// Creates a network with three ports of servers and one of the DHCP agent. Returns the network's id and the ports'
/// ids; the agent's port is the first.
async fn network(stage: &Stage) -> (String, Vec<String>) {
    let seed = json!({"region": "RegionOne", "networks": 1, "ports_per_network": 3});
    let made = stage.sandbox(Method::POST, "seed", seed).await;
    let ids = |what: &str| -> Vec<String> {
        let ids = made[what].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    (ids("networks").remove(0), ids("ports"))
}

/// Faults that refuse every delete of a port until they are removed.
fn failing_port_deletes() -> Value {
    json!([{"match": {"method": "DELETE", "kind": "port"},
        "action": {"status": 409, "type": "PortInUse", "message": "held by the test"}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_t06_t07_n07_n08_a_cascade_is_accepted_can_be_polled_and_ends_gone() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let path = format!("/v2.0/networks/{network}");
    // Without `cascade`, Neutron's own refusal is passed on.
    for query in ["", "?cascade=false", "?cascade=0"] {
        let plain = stage
            .user_delete(&format!("{path}{query}"))
            .await
            .with_status(409);
        assert_eq!(plain.json()["NeutronError"]["type"], "NetworkInUse");
    }
    stage
        .user_delete(&format!("{path}?cascade=maybe"))
        .await
        .with_status(400);
    stage.faults(failing_port_deletes()).await;
    let accepted = stage
        .user_delete(&format!("{path}?cascade=True"))
        .await
        .with_status(202);
    let id = accepted.deletion();
    let location = format!("/gone/v1/deletions/{id}");
    assert_eq!(accepted.header("location"), location);
    stage.until(&id, DeletionState::Running).await;

    let shown = stage.user_get(&path).await;
    assert_eq!(shown.json()["network"]["status"], "DELETING");
    let host = stage.origin(GateSource::User, "network");
    let followed = stage
        .send(
            Method::GET,
            &format!("{host}{location}"),
            &stage.admin,
            None,
        )
        .await;
    assert_eq!(
        (followed.status, &followed.json()["state"]),
        (200, &json!("running"))
    );

    let report = format!("{host}{location}/report");
    let report = stage
        .send(Method::GET, &report, &stage.admin, None)
        .await
        .json();
    let lines = report["data"].as_array().unwrap();
    let of_root = lines.iter().find(|line| line["resource"]["id"] == network);
    assert_eq!(of_root.unwrap()["status"], 202, "{report}");
    stage.until_counts(&id, |counts| counts.blocked == 3).await;
    stage.faults(json!([])).await;
    // T6: a repeated DELETE wakes the deletion, and starts no second one.
    let again = stage.user_delete(&path).await;
    assert_eq!(
        (again.status, again.header("x-gone-deletion")),
        (204, id.as_str())
    );
    let deletion = stage.until(&id, DeletionState::Gone).await;
    assert_eq!(deletion.counts.gone, deletion.counts.total);
    for method in [Method::GET, Method::DELETE] {
        let after = stage
            .call_user_gate(method, &path, None)
            .await
            .with_status(404);
        assert_eq!(after.json()["NeutronError"]["type"], "NetworkNotFound");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p08_a_cancelled_deletion_releases_remaining_resources_and_keeps_gone_ones_gone() {
    let stage = Stage::new().await;
    let (network, ports) = network(&stage).await;
    let path = format!("/v2.0/networks/{network}");
    let port = |id: &str| format!("/v2.0/ports/{id}");
    let failing = json!([{"match": {"method": "DELETE", "id": ports[1]},
        "action": {"status": 409, "type": "PortInUse", "message": "held by the test"}}]);
    stage.faults(failing).await;
    let before = stage.user_get(&path).await;
    let accepted = format!("{path}?cascade=true");
    let accepted = stage.user_delete(&accepted).await;
    let id = accepted.deletion();
    let halfway = |counts: &Counts| counts.blocked == 1 && counts.gone == 2;
    stage.until_counts(&id, halfway).await;
    let shown = stage.user_get(&path).await;
    assert_eq!(shown.json()["network"]["status"], "DELETING");
    let deletion_id = id.clone();
    stage.submit(Command::Cancel { deletion_id }).await;
    stage.until(&id, DeletionState::Cancelled).await;
    stage.faults(json!([])).await;

    for (path, status) in [
        (path.clone(), 200),
        (port(&ports[1]), 200),
        (port(&ports[2]), 404),
        (port(&ports[3]), 404),
    ] {
        for source in SOURCES {
            let at = (source, "network");
            let read = stage.call(at, Method::GET, &path, None).await;
            assert_eq!(read.status, status, "{source:?} {path}: {}", read.text);
        }
    }
    let after = stage.user_get(&path).await;
    assert_eq!(after.json(), before.json());
    let body = json!({"port": {"network_id": network}});
    stage.user_post("/v2.0/ports", body).await.with_status(201);
    let plain = stage.user_delete(&path).await;
    assert_eq!(plain.json()["NeutronError"]["type"], "NetworkInUse");
}

#[tokio::test(flavor = "multi_thread")]
async fn n09_t17_writes_to_a_network_being_deleted_and_to_its_ports_and_subnets_are_refused() {
    let stage = Stage::new().await;
    let (network, ports) = network(&stage).await;
    stage.faults(failing_port_deletes()).await;
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let id = stage.user_delete(&path).await;
    let id = id.deletion();
    stage
        .until_phase("port", &ports[1], Some(Phase::Deleting))
        .await;
    let bystander = stage.network("other").await;
    let post = |path: &str, body: Value| (Method::POST, path.to_owned(), body);
    let put = |path: String, body: Value| (Method::PUT, path, body);
    let of_network = |rest: &str| format!("/v2.0/networks/{network}{rest}");
    for (method, path, body) in [
        post("/v2.0/ports", json!({"port": {"network_id": network}})),
        post(
            "/v2.0/ports",
            json!({"ports": [{"network_id": bystander}, {"network_id": network.to_uppercase()}]}),
        ),
        post(
            "/v2.0/subnets",
            json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.7.0.0/24"}}),
        ),
        put(of_network(""), json!({"network": {"name": "x"}})),
        put(of_network("/tags"), json!({"tags": ["x"]})),
        put(
            format!("/v2.0/ports/{}", ports[1]),
            json!({"port": {"name": "x"}}),
        ),
        post("/v2.0/trunks", json!({"trunk": {"port_id": ports[1]}})),
        post(
            "/v2.0/rbac-policies",
            json!({"rbac_policy": {"object_id": network, "object_type": "network",
                "action": "access_as_shared", "target_tenant": "*"}}),
        ),
    ] {
        let answer = stage
            .call_user_gate(method.clone(), &path, Some(body))
            .await;
        assert_eq!(answer.status, 409, "{method} {path}: {}", answer.text);
        let error = &answer.json()["NeutronError"];
        assert_eq!(error["type"], "ResourceBeingDeleted");
        assert!(error["message"].as_str().unwrap().contains(&id), "{error}");
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // The subnets have no tombstone, because Neutron deletes them with the network. They can be neither changed,
    // deleted, attached nor detached.
    let subnets = format!("/v2.0/subnets?network_id={network}&fields=id");
    let subnets = stage.user_get(&subnets).await.json();
    let subnet = subnets["subnets"][0]["id"].as_str().unwrap();
    let router = json!({"router": {"name": "r"}});
    let router = stage.make("network", "/v2.0/routers", router).await;
    let of_subnet = format!("/v2.0/subnets/{subnet}");
    let of_router = |what: &str| format!("/v2.0/routers/{router}/{what}_router_interface");
    let subnet_id = Some(json!({"subnet_id": subnet}));
    let rename = Some(json!({"subnet": {"name": "x"}}));
    for (method, path, body) in [
        (Method::PUT, of_subnet.clone(), rename),
        (Method::DELETE, of_subnet, None),
        (Method::PUT, of_router("add"), subnet_id.clone()),
        (Method::PUT, of_router("remove"), subnet_id),
    ] {
        let answer = stage.call_user_gate(method.clone(), &path, body).await;
        assert_eq!(answer.status, 409, "{method} {path}: {}", answer.text);
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // The DHCP agent's port has no tombstone: Neutron deletes it with the network.
    assert_eq!(stage.phase("port", &ports[0]), None);
    let dhcp = format!("/v2.0/ports/{}", ports[0]);
    let rename = Some(json!({"port": {"name": "x"}}));
    for (method, body) in [(Method::PUT, rename), (Method::DELETE, None)] {
        let answer = stage.call_user_gate(method.clone(), &dhcp, body).await;
        assert_eq!(answer.status, 409, "{method}: {}", answer.text);
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // The gate of Octavia refuses a load balancer that refers to the network or its subnet.
    for vip in [
        json!({"vip_network_id": network}),
        json!({"vip_subnet_id": subnet}),
    ] {
        let balancer = Some(json!({ "loadbalancer": vip }));
        let at = (GateSource::User, "load-balancer");
        let path = "/v2.0/lbaas/loadbalancers";
        let answer = stage.call(at, Method::POST, path, balancer).await;
        assert_eq!(answer.status, 409, "{vip}: {}", answer.text);
        assert!(answer.json()["faultstring"].as_str().unwrap().contains(&id));
    }
    let body = json!({"port": {"network_id": bystander}});
    stage.user_post("/v2.0/ports", body).await.with_status(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_a_client_without_rights_can_neither_start_nor_see_a_deletion() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let url = stage.url(GateSource::User, "network");
    let path = format!("{url}/v2.0/networks/{network}?cascade=true");
    stage
        .send(Method::DELETE, &path, &stage.demo, None)
        .await
        .with_status(404);
    for token in ["", "no-such-token"] {
        stage
            .send(Method::DELETE, &path, token, None)
            .await
            .with_status(401);
    }
    assert_eq!(stage.phase("network", &network), None);
    stage.faults(failing_port_deletes()).await;
    let id = stage
        .send(Method::DELETE, &path, &stage.admin, None)
        .await
        .with_status(202)
        .deletion();
    stage.until(&id, DeletionState::Running).await;
    let plain = format!("{url}/v2.0/networks/{network}");
    for (method, token, status) in [
        (Method::GET, stage.demo.as_str(), 404),
        (Method::DELETE, stage.demo.as_str(), 404),
        (Method::DELETE, "", 401),
        (Method::GET, "", 401),
    ] {
        let answer = stage.send(method.clone(), &plain, token, None).await;
        assert_eq!(answer.status, status, "{method}: {}", answer.text);
        assert!(!answer.text.contains(&id));
    }
    let host = stage.origin(GateSource::User, "network");
    let followed = format!("{host}/gone/v1/deletions/{id}");
    for (token, status) in [
        (stage.demo.as_str(), 404),
        ("", 401),
        (stage.admin.as_str(), 200),
    ] {
        stage
            .send(Method::GET, &followed, token, None)
            .await
            .with_status(status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n09_a_port_being_deleted_accepts_writes_only_with_a_valid_service_token() {
    let stage = Stage::new().await;
    let (network, ports) = network(&stage).await;
    let roles = json!({"name": "demo", "roles": {"demo": ["service"]}});
    stage.sandbox(Method::PUT, "users", roles).await;
    stage.faults(failing_port_deletes()).await;
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let id = stage.user_delete(&path).await;
    let id = id.deletion();
    stage.until_counts(&id, |counts| counts.blocked == 3).await;
    stage.faults(json!([])).await;
    let url = stage.url(GateSource::User, "network");
    let send = async |method: Method, port: &str, service: &str| {
        let url = format!("{url}/v2.0/ports/{port}");
        let mut request = stage
            .request(method.clone(), &url)
            .header("x-auth-token", &stage.admin)
            .header("x-service-token", service);
        if method == Method::PUT {
            request = request.json(&json!({"port": {"name": "unbound"}}));
        }
        stage.send_request(request).await
    };
    for port in [&ports[0], &ports[1]] {
        // A service token that Keystone does not confirm as a service's gives no rights.
        for forged in ["forged", &stage.admin] {
            let refused = send(Method::PUT, port, forged).await;
            assert_eq!(refused.status, 409, "{}", refused.text);
        }
        let unbound = send(Method::PUT, port, &stage.demo).await;
        assert_eq!(unbound.status, 200, "{}", unbound.text);
        let deleted = send(Method::DELETE, port, &stage.demo).await;
        assert_eq!(
            (deleted.status, deleted.header("x-gone-deletion")),
            (204, "")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t04_t18_a_trusted_header_can_only_narrow_a_user_to_a_local_site() {
    let trusting = |header: &str, from: &str| {
        format!(
            "[[gate]]\nlisten = '127.0.0.1:0'\nsource = 'user'\n\
             upstream = {{ cloud = 'sandbox', region = 'RegionOne', service = 'network' }}\n\
             trust = {{ header = '{header}', from = ['{from}'] }}\n"
        )
    };
    for (from, narrowed) in [("127.0.0.0/8", true), ("192.0.2.0/24", false)] {
        let stage = Stage::with(&trusting("X-Gone-Source", from)).await;
        let (network, _) = network(&stage).await;
        stage.faults(failing_port_deletes()).await;
        let path = format!("/v2.0/networks/{network}");
        let accepted = stage.user_delete(&format!("{path}?cascade=true")).await;
        let id = accepted.deletion();
        stage.until(&id, DeletionState::Running).await;
        let url = stage.url(GateSource::User, "network");
        for source in ["local", "LOCAL", "central", "user", ""] {
            let request = stage
                .request(Method::GET, &format!("{url}{path}"))
                .header("x-auth-token", &stage.admin)
                .header("x-gone-source", source);
            let answer = stage.send_request(request).await;
            let local = narrowed && source.eq_ignore_ascii_case("local");
            let expected = if local { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{source} from {from}");
            if !local {
                assert_eq!(answer.json()["network"]["status"], "DELETING", "{source}");
            }
        }
    }
}

/// Creates a network of the project `demo` with a port. Returns the network's id.
async fn network_of_demo(stage: &Stage) -> String {
    let url = stage.upstream("network");
    let make = async |path: &str, body: Value| {
        let url = format!("{url}{path}");
        let made = stage
            .send(Method::POST, &url, &stage.demo, Some(body))
            .await
            .with_status(201);
        made.json()
    };
    let network = make("/v2.0/networks", json!({"network": {"name": "d"}})).await;
    let network = network["network"]["id"].as_str().unwrap().to_owned();
    make("/v2.0/ports", json!({"port": {"network_id": network}})).await;
    network
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_a_tenant_cascades_only_into_resources_of_its_own_project() {
    let stage = Stage::new().await;
    let url = stage.url(GateSource::User, "network");
    let (foreign, _) = network(&stage).await;
    let own = network_of_demo(&stage).await;
    let shown = stage.user_get(&format!("/v2.0/networks/{own}")).await;
    // The network is shared with this project alone, so its members see it.
    let share = json!({"rbac_policy": {"object_type": "network", "object_id": foreign,
        "action": "access_as_shared", "target_tenant": shown.json()["network"]["project_id"]}});
    stage.make("network", "/v2.0/rbac-policies", share).await;
    let cascade = async |network: &str| {
        let url = format!("{url}/v2.0/networks/{network}?cascade=true");
        stage.send(Method::DELETE, &url, &stage.demo, None).await
    };
    // The network belongs to another project, so Neutron's own refusal is passed on.
    let refused = cascade(&foreign).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(refused.json()["NeutronError"]["type"], "NetworkInUse");
    assert_eq!(stage.phase("network", &foreign), None);
    assert_eq!(
        refused.header("x-gone-deletion"),
        "",
        "a deletion was planned"
    );

    // While an admin's deletion runs, the member can neither wake it nor learn its id.
    stage.faults(failing_port_deletes()).await;
    let of_foreign = format!("{url}/v2.0/networks/{foreign}?cascade=true");
    let accepted = stage
        .send(Method::DELETE, &of_foreign, &stage.admin, None)
        .await;
    let id = accepted.deletion();
    stage.until_counts(&id, |counts| counts.blocked > 0).await;
    let again = stage
        .send(Method::DELETE, &of_foreign, &stage.demo, None)
        .await;
    assert_eq!((again.status, again.header("x-gone-deletion")), (403, ""));
    stage.faults(json!([])).await;

    let role = |role: &str| json!({"name": "demo", "roles": {"demo": [role]}});
    stage.sandbox(Method::PUT, "users", role("reader")).await;
    let reader = Stage::token(stage.cloud.url(), "demo").await;
    let plain = format!("{url}/v2.0/networks/{own}?cascade=true");
    stage
        .send(Method::DELETE, &plain, &reader, None)
        .await
        .with_status(403);
    assert_eq!(stage.phase("network", &own), None);

    stage.sandbox(Method::PUT, "users", role("member")).await;
    let member = Stage::token(stage.cloud.url(), "demo").await;
    let accepted = stage
        .send(Method::DELETE, &plain, &member, None)
        .await
        .with_status(202);
    stage
        .until(accepted.header("x-gone-deletion"), DeletionState::Gone)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_a_cascade_is_answered_503_when_the_services_answer_is_truncated() {
    let stage = Stage::new().await;
    let url = stage.url(GateSource::User, "network");
    let own = network_of_demo(&stage).await;
    let cut = json!([{"match": {"method": "GET", "path": format!("/v2.0/networks/{own}")},
        "action": {"truncate": true}}]);
    stage.faults(cut).await;
    let cascade = format!("{url}/v2.0/networks/{own}?cascade=true");
    stage
        .send(Method::DELETE, &cascade, &stage.demo, None)
        .await
        .with_status(503);
    assert_eq!(stage.phase("network", &own), None);
    stage.faults(json!([])).await;
    stage
        .send(Method::DELETE, &cascade, &stage.demo, None)
        .await
        .with_status(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_p13_a_refusal_names_blockers_that_the_caller_can_see_and_counts_the_others() {
    let stage = Stage::new().await;
    let own = network_of_demo(&stage).await;
    // Neutron shows a network's owner all of its ports, and no trunk of another project.
    let port = json!({"port": {"network_id": own, "name": "port-of-the-admin"}});
    let port = stage.make("network", "/v2.0/ports", port).await;
    let trunk = json!({"trunk": {"port_id": port, "name": "trunk-of-the-admin"}});
    let trunk = stage.make("network", "/v2.0/trunks", trunk).await;
    let url = stage.url(GateSource::User, "network");
    let cascade = format!("{url}/v2.0/networks/{own}?cascade=true");
    let refuses = async || {
        let refused = stage.send(Method::DELETE, &cascade, &stage.demo, None);
        let refused = refused.await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        let id = refused.header("x-gone-deletion");
        let followed = stage.origin(GateSource::User, "network");
        let followed = format!("{followed}/gone/v1/deletions/{id}");
        let followed = stage
            .send(Method::GET, &followed, &stage.demo, None)
            .await
            .with_status(200);
        [refused.text, followed.text]
    };
    let [answer, followed] = refuses().await;
    for text in [&answer, &followed] {
        assert!(
            !text.contains(&trunk) && !text.contains("trunk-of"),
            "{text}"
        );
        assert!(text.contains(" of other projects"), "{text}");
    }
    // Only the Location is certain to name the port: the answer to the DELETE is due within a second, even if the
    // service has not shown the port by then (N7).
    let named = format!("port-of-the-admin ({port})");
    assert!(followed.contains(&named), "{followed}");
    let owner = "belongs to project admin";
    assert!(
        !followed.contains(owner),
        "it names another project: {followed}"
    );
    assert!(
        followed.contains("1 resource of other projects"),
        "{followed}"
    );
    // While the service does not show the port, the refusal does not name it.
    let down = json!([{"match": {"method": "GET", "path": format!("/v2.0/ports/{port}")},
        "action": {"status": 503}}]);
    stage.faults(down).await;
    for text in refuses().await {
        assert!(!text.contains(&port) && !text.contains("port-of"), "{text}");
        assert!(text.contains("2 resources of other projects"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_a_refusal_names_24_blockers_of_other_projects_and_counts_the_others() {
    let stage = Stage::new().await;
    let own = network_of_demo(&stage).await;
    for _ in 0..30 {
        let port = json!({"port": {"network_id": own}});
        stage.make("network", "/v2.0/ports", port).await;
    }
    let url = stage.url(GateSource::User, "network");
    let cascade = format!("{url}/v2.0/networks/{own}?cascade=true");
    let answer = stage
        .send(Method::DELETE, &cascade, &stage.demo, None)
        .await;
    let id = answer.deletion();
    stage.until(&id, DeletionState::Refused).await;
    let address = stage.origin(GateSource::User, "network");
    let address = format!("{address}/gone/v1/deletions/{id}");
    let shown = stage.send(Method::GET, &address, &stage.demo, None).await;
    let named = shown.json()["refused"].as_array().unwrap().len();
    assert_eq!(named, 24, "{}", shown.text);
    let counted = "; 6 resources of other projects block the deletion";
    assert!(shown.text.contains(counted), "{}", shown.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn t07_p07_a_deleted_resource_is_shown_whole_to_its_project_until_confirmed_gone() {
    let stage = Stage::new().await;
    let own = network_of_demo(&stage).await;
    let path = format!("/v2.0/networks/{own}");
    let url = stage.url(GateSource::User, "network");
    let plain = format!("{url}{path}");
    let before = async |token: &str| stage.send(Method::GET, &plain, token, None).await.json();
    let (mut to_member, mut to_admin) = (before(&stage.demo).await, before(&stage.admin).await);
    assert_ne!(to_member, to_admin, "admins see more fields");
    // The delete takes effect at once, but is not answered while this test runs.
    let slow = json!([{"match": {"method": "DELETE", "kind": "network"}, "action": {"delay_ms": 600_000}}]);
    stage.faults(slow).await;
    let accepted = format!("{plain}?cascade=true");
    let accepted = stage
        .send(Method::DELETE, &accepted, &stage.admin, None)
        .await;
    let id = accepted.deletion();
    let upstream = format!("{}{path}", stage.upstream("network"));
    let gone = async || {
        let shown = stage.send(Method::GET, &upstream, &stage.admin, None).await;
        shown.status == 404
    };
    until("the delete has taken effect", gone).await;
    assert_eq!(stage.phase("network", &own), Some(Phase::Deleting));
    for shown in [&mut to_member, &mut to_admin] {
        shown["network"]["status"] = json!("DELETING");
    }
    for (token, expected) in [(&stage.demo, to_member), (&stage.admin, to_admin)] {
        let answer = stage.send(Method::GET, &plain, token, None).await;
        assert_eq!((answer.status, answer.json()), (200, expected));
        assert_eq!(answer.header("x-gone-deletion"), id);
        let some = format!("{plain}?fields=status&fields=id");
        let some = stage.send(Method::GET, &some, token, None).await;
        let only = json!({"network": {"id": own, "status": "DELETING"}});
        assert_eq!(some.json(), only);
    }
    stage
        .send(Method::GET, &plain, "", None)
        .await
        .with_status(401);
    // A member of another project could never see the network.
    let elsewhere = json!({"name": "demo", "roles": {"demo": [], "admin": ["member"]}});
    stage.sandbox(Method::PUT, "users", elsewhere).await;
    let other = Stage::token_in(stage.cloud.url(), "demo", "admin").await;
    stage
        .send(Method::GET, &plain, &other, None)
        .await
        .with_status(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn n07_a_cascade_is_answered_before_slow_planning_ends() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    // Planning waits until this write has ended.
    let write = stage.tombstones.begin_write(&site());
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let asked = Instant::now();
    let accepted = stage.user_delete(&path).await;
    let took = asked.elapsed();
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let id = accepted.header("x-gone-deletion");
    assert_eq!(stage.deletion(id).await.state, DeletionState::Planning);
    // N8: a deletion may still be refused while it is planned, so the network is shown as before.
    let shown = stage.user_get(&format!("/v2.0/networks/{network}")).await;
    assert_eq!(shown.json()["network"]["status"], "ACTIVE");
    drop(write);
    stage.until(id, DeletionState::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n07_n08_a_refused_cascade_names_the_blocking_port_and_leaves_the_network_active() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let body =
        json!({"port": {"network_id": network, "project_id": "0123456789abcdef0123456789abcdef"}});
    let foreign_port = stage.make("network", "/v2.0/ports", body).await;
    let path = format!("/v2.0/networks/{network}");
    let refused = stage
        .user_delete(&format!("{path}?cascade=true"))
        .await
        .with_status(409);
    let error = &refused.json()["NeutronError"];
    assert_eq!(error["type"], "NetworkInUse");
    assert!(
        error["message"].as_str().unwrap().contains(&foreign_port),
        "{error}"
    );
    assert_eq!(stage.phase("network", &network), None);
    let shown = stage.user_get(&path).await;
    assert_eq!(shown.json()["network"]["status"], "ACTIVE");
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_the_location_of_a_deletion_says_planning_and_then_refused_with_the_reason() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let body =
        json!({"port": {"network_id": network, "project_id": "0123456789abcdef0123456789abcdef"}});
    let foreign_port = stage.make("network", "/v2.0/ports", body).await;
    // Planning waits until this write has ended.
    let write = stage.tombstones.begin_write(&site());
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let accepted = stage.user_delete(&path).await.with_status(202);
    let url = format!(
        "{}{}",
        stage.origin(GateSource::User, "network"),
        accepted.header("location")
    );
    let followed = async || {
        let url = url.clone();
        stage
            .send(Method::GET, &url, &stage.admin, None)
            .await
            .json()
    };
    assert_eq!(followed().await["state"], "planning");
    drop(write);
    let is_refused = async || followed().await["state"] == "refused";
    until("the Location says refused", is_refused).await;
    let refused = followed().await;
    let note = refused["note"].as_str().unwrap();
    assert!(note.contains(&foreign_port), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_an_untrusted_source_header_gives_no_rights() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    stage.faults(failing_port_deletes()).await;
    let path = format!("/v2.0/networks/{network}");
    let accepted = stage.user_delete(&format!("{path}?cascade=true")).await;
    stage
        .until(accepted.header("x-gone-deletion"), DeletionState::Running)
        .await;
    let url = stage.url(GateSource::User, "network");
    for source in ["central", "local", "engine"] {
        let request = stage
            .request(Method::GET, &format!("{url}{path}"))
            .header("x-auth-token", &stage.admin)
            .header("x-gone-source", source);
        let answer = stage.send_request(request).await;
        assert_eq!(answer.json()["network"]["status"], "DELETING", "{source}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_t14_planning_lists_nothing_before_the_forwarded_writes_have_ended() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let slow = json!([{"match": {"method": "POST", "kind": "port"}, "times": 1,
        "action": {"delay_ms": 10_000}}]);
    stage.faults(slow).await;
    let body = json!({"port": {"network_id": network}});
    let late = stage.user_post("/v2.0/ports", body);
    let deleted = async {
        let is_sent = async || {
            let calls = stage
                .sandbox(Method::GET, "calls?after=0", json!(null))
                .await;
            let calls = calls["calls"].as_array().unwrap();
            calls
                .iter()
                .any(|call| call["method"] == "POST" && is_ports(&call["path"]))
        };
        until("the service has received the create", is_sent).await;
        let path = format!("/v2.0/networks/{network}?cascade=true");
        let id = stage.user_delete(&path).await.with_status(202).deletion();
        assert_eq!(stage.deletion(&id).await.state, DeletionState::Planning);
        id
    };
    let (late, id) = tokio::join!(late, deleted);
    assert_eq!(late.status, 201, "{}", late.text);
    let deletion = stage.until(&id, DeletionState::Gone).await;
    // The plan has the network, its three ports and the late port.
    assert_eq!(deletion.counts.total, 5);
}

fn is_ports(path: &Value) -> bool {
    path.as_str().unwrap().ends_with("/v2.0/ports")
}

#[tokio::test(flavor = "multi_thread")]
async fn t17_a_create_that_is_sent_after_a_deletion_was_accepted_does_not_succeed() {
    let stage = Arc::new(Stage::new().await);
    let (network, _) = network(&stage).await;
    let accepted = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let creators: Vec<_> = (0..8)
        .map(|_| {
            let (stage, network) = (stage.clone(), network.clone());
            let (accepted, over) = (accepted.clone(), over.clone());
            tokio::spawn(async move {
                let (mut made, mut refused) = (0, 0);
                while !over.load(Ordering::SeqCst) {
                    let late = accepted.load(Ordering::SeqCst);
                    let body = json!({"port": {"network_id": network}});
                    let answer = stage.user_post("/v2.0/ports", body).await;
                    match answer.status {
                        201 if late => {
                            panic!("created after the deletion was accepted: {}", answer.text)
                        }
                        201 => made += 1,
                        404 | 409 => refused += 1,
                        other => panic!("{other}: {}", answer.text),
                    }
                }
                (made, refused)
            })
        })
        .collect();
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let answer = stage.user_delete(&path).await;
    accepted.store(true, Ordering::SeqCst);
    assert_eq!(answer.status, 202, "{}", answer.text);
    stage
        .until(answer.header("x-gone-deletion"), DeletionState::Gone)
        .await;
    over.store(true, Ordering::SeqCst);
    let (mut made, mut refused) = (0, 0);
    for creator in creators {
        let counts = creator.await.unwrap();
        made += counts.0;
        refused += counts.1;
    }
    assert!(made > 0 && refused > 0, "{made} created, {refused} refused");
    let left = format!(
        "{}/v2.0/ports?network_id={network}",
        stage.upstream("network")
    );
    let left = stage.send(Method::GET, &left, &stage.admin, None).await;
    assert_eq!(left.json()["ports"], json!([]));
}
