//! `DELETE …?cascade=true`, and what follows from it for clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gone::control::Command;
use gone::domain::model::{Counts, DeletionState, Phase};
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{SOURCES, Stage, site, until};

/// A network with three ports; its id, and theirs.
async fn network(stage: &Stage) -> (String, Vec<String>) {
    let seed = json!({"region": "RegionOne", "networks": 1, "ports_per_network": 3});
    let made = stage.sandbox(Method::POST, "seed", seed).await;
    let ids = |what: &str| -> Vec<String> {
        let ids = made[what].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    (ids("networks").remove(0), ids("ports"))
}

/// No port can be deleted until this is taken back.
fn held() -> Value {
    json!([{"match": {"method": "DELETE", "kind": "port"},
        "action": {"status": 409, "type": "PortInUse", "message": "held by the test"}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_t06_t07_n07_n08_a_cascade_is_accepted_followed_and_gone() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let path = format!("/v2.0/networks/{network}");
    // The old behaviour, unchanged.
    for query in ["", "?cascade=false", "?cascade=0"] {
        let plain = stage
            .user(Method::DELETE, &format!("{path}{query}"), None)
            .await;
        assert_eq!(plain.status, 409, "{}", plain.text);
        assert_eq!(plain.json()["NeutronError"]["type"], "NetworkInUse");
    }
    let odd = stage
        .user(Method::DELETE, &format!("{path}?cascade=maybe"), None)
        .await;
    assert_eq!(odd.status, 400);
    stage.faults(held()).await;
    let accepted = stage
        .user(Method::DELETE, &format!("{path}?cascade=True"), None)
        .await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let id = accepted.header("x-gone-deletion").to_owned();
    let location = format!("/gone/v1/deletions/{id}");
    assert_eq!(accepted.header("location"), location);
    stage.until(&id, DeletionState::Running).await;

    let shown = stage.user(Method::GET, &path, None).await;
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
    // T6: asking again wakes it, and starts no second one.
    let again = stage.user(Method::DELETE, &path, None).await;
    assert_eq!(
        (again.status, again.header("x-gone-deletion")),
        (204, id.as_str())
    );
    let deletion = stage.until(&id, DeletionState::Gone).await;
    assert_eq!(deletion.counts.gone, deletion.counts.total);
    for method in [Method::GET, Method::DELETE] {
        let after = stage.user(method, &path, None).await;
        assert_eq!(after.status, 404, "{}", after.text);
        assert_eq!(after.json()["NeutronError"]["type"], "NetworkNotFound");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p08_what_a_cancel_lets_go_is_as_before_and_what_went_stays_gone() {
    let stage = Stage::new().await;
    // The first is the DHCP agent's.
    let (network, ports) = network(&stage).await;
    let path = format!("/v2.0/networks/{network}");
    let port = |id: &str| format!("/v2.0/ports/{id}");
    let held = json!([{"match": {"method": "DELETE", "id": ports[1]},
        "action": {"status": 409, "type": "PortInUse", "message": "held by the test"}}]);
    stage.faults(held).await;
    let before = stage.user(Method::GET, &path, None).await;
    let accepted = format!("{path}?cascade=true");
    let accepted = stage.user(Method::DELETE, &accepted, None).await;
    let id = accepted.header("x-gone-deletion").to_owned();
    let halfway = |counts: &Counts| counts.blocked == 1 && counts.gone == 2;
    stage.until_counts(&id, halfway).await;
    let shown = stage.user(Method::GET, &path, None).await;
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
    let after = stage.user(Method::GET, &path, None).await;
    assert_eq!(after.json(), before.json());
    let body = json!({"port": {"network_id": network}});
    let made = stage.user(Method::POST, "/v2.0/ports", Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let plain = stage.user(Method::DELETE, &path, None).await;
    assert_eq!(plain.json()["NeutronError"]["type"], "NetworkInUse");
}

#[tokio::test(flavor = "multi_thread")]
async fn n09_t17_nothing_is_added_to_what_is_being_deleted() {
    let stage = Stage::new().await;
    let (network, ports) = network(&stage).await;
    stage.faults(held()).await;
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let id = stage.user(Method::DELETE, &path, None).await;
    let id = id.header("x-gone-deletion").to_owned();
    stage
        .until_phase("port", &ports[1], Some(Phase::Deleting))
        .await;
    let bystander = stage
        .make(
            "network",
            "/v2.0/networks",
            json!({"network": {"name": "other"}}),
        )
        .await;
    for (method, path, body) in [
        (
            Method::POST,
            "/v2.0/ports".to_owned(),
            json!({"port": {"network_id": network}}),
        ),
        (
            Method::POST,
            "/v2.0/ports".to_owned(),
            json!({"ports": [{"network_id": bystander}, {"network_id": network.to_uppercase()}]}),
        ),
        (
            Method::POST,
            "/v2.0/subnets".to_owned(),
            json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.7.0.0/24"}}),
        ),
        (
            Method::PUT,
            format!("/v2.0/networks/{network}"),
            json!({"network": {"name": "x"}}),
        ),
        (
            Method::PUT,
            format!("/v2.0/networks/{network}/tags"),
            json!({"tags": ["x"]}),
        ),
        (
            Method::PUT,
            format!("/v2.0/ports/{}", ports[1]),
            json!({"port": {"name": "x"}}),
        ),
        (
            Method::POST,
            "/v2.0/trunks".to_owned(),
            json!({"trunk": {"port_id": ports[1]}}),
        ),
        (
            Method::POST,
            "/v2.0/rbac-policies".to_owned(),
            json!({"rbac_policy": {"object_id": network,
            "object_type": "network", "action": "access_as_shared", "target_tenant": "*"}}),
        ),
    ] {
        let answer = stage.user(method.clone(), &path, Some(body)).await;
        assert_eq!(answer.status, 409, "{method} {path}: {}", answer.text);
        let error = &answer.json()["NeutronError"];
        assert_eq!(error["type"], "ResourceBeingDeleted");
        assert!(error["message"].as_str().unwrap().contains(&id), "{error}");
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // Its subnets have no tombstone, and go with it: neither changed, removed, attached nor detached.
    let subnets = format!("/v2.0/subnets?network_id={network}&fields=id");
    let subnets = stage.user(Method::GET, &subnets, None).await.json();
    let subnet = subnets["subnets"][0]["id"].as_str().unwrap();
    let router = json!({"router": {"name": "r"}});
    let router = stage.make("network", "/v2.0/routers", router).await;
    let of_subnet = format!("/v2.0/subnets/{subnet}");
    let of_router = |what: &str| format!("/v2.0/routers/{router}/{what}_router_interface");
    for (method, path, body) in [
        (
            Method::PUT,
            of_subnet.clone(),
            Some(json!({"subnet": {"name": "x"}})),
        ),
        (Method::DELETE, of_subnet, None),
        (
            Method::PUT,
            of_router("add"),
            Some(json!({"subnet_id": subnet})),
        ),
        (
            Method::PUT,
            of_router("remove"),
            Some(json!({"subnet_id": subnet})),
        ),
    ] {
        let answer = stage.user(method.clone(), &path, body).await;
        assert_eq!(answer.status, 409, "{method} {path}: {}", answer.text);
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // The cloud's own port has no tombstone: it goes with its network.
    assert_eq!(stage.phase("port", &ports[0]), None);
    let dhcp = format!("/v2.0/ports/{}", ports[0]);
    let rename = Some(json!({"port": {"name": "x"}}));
    for (method, body) in [(Method::PUT, rename), (Method::DELETE, None)] {
        let answer = stage.user(method.clone(), &dhcp, body).await;
        assert_eq!(answer.status, 409, "{method}: {}", answer.text);
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // Another service's resource that refers to it.
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
    let other = stage.user(Method::POST, "/v2.0/ports", Some(body)).await;
    assert_eq!(other.status, 201, "{}", other.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_who_may_not_delete_it_learns_and_does_nothing() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let url = stage.url(GateSource::User, "network");
    let path = format!("{url}/v2.0/networks/{network}?cascade=true");
    let stranger = stage.send(Method::DELETE, &path, &stage.demo, None).await;
    assert_eq!(stranger.status, 404, "{}", stranger.text);
    for token in ["", "no-such-token"] {
        let nobody = stage.send(Method::DELETE, &path, token, None).await;
        assert_eq!(nobody.status, 401, "{}", nobody.text);
    }
    assert_eq!(stage.phase("network", &network), None);
    stage.faults(held()).await;
    let accepted = stage.send(Method::DELETE, &path, &stage.admin, None).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let id = accepted.header("x-gone-deletion");
    stage.until(id, DeletionState::Running).await;
    let plain = format!("{url}/v2.0/networks/{network}");
    for (method, token, status) in [
        (Method::GET, stage.demo.as_str(), 404),
        (Method::DELETE, stage.demo.as_str(), 404),
        (Method::DELETE, "", 401),
        (Method::GET, "", 401),
    ] {
        let answer = stage.send(method.clone(), &plain, token, None).await;
        assert_eq!(answer.status, status, "{method}: {}", answer.text);
        assert!(!answer.text.contains(id));
    }
    let host = stage.origin(GateSource::User, "network");
    let followed = format!("{host}/gone/v1/deletions/{id}");
    for (token, status) in [
        (stage.demo.as_str(), 404),
        ("", 401),
        (stage.admin.as_str(), 200),
    ] {
        let answer = stage.send(Method::GET, &followed, token, None).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n09_a_service_deletes_what_is_its_own_by_its_token() {
    let stage = Stage::new().await;
    let (network, ports) = network(&stage).await;
    let roles = json!({"name": "demo", "roles": {"demo": ["service"]}});
    stage.sandbox(Method::PUT, "users", roles).await;
    stage.faults(held()).await;
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let id = stage.user(Method::DELETE, &path, None).await;
    let id = id.header("x-gone-deletion").to_owned();
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
        stage.answered(request).await
    };
    for port in [&ports[0], &ports[1]] {
        // What is shown as a service's token, and is none, counts for nothing.
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
async fn t04_t18_a_trusted_header_narrows_a_user_to_a_local_and_nothing_else() {
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
        stage.faults(held()).await;
        let path = format!("/v2.0/networks/{network}");
        let accepted = stage
            .user(Method::DELETE, &format!("{path}?cascade=true"), None)
            .await;
        let id = accepted.header("x-gone-deletion").to_owned();
        stage.until(&id, DeletionState::Running).await;
        let url = stage.url(GateSource::User, "network");
        for source in ["local", "LOCAL", "central", "user", ""] {
            let request = stage
                .request(Method::GET, &format!("{url}{path}"))
                .header("x-auth-token", &stage.admin)
                .header("x-gone-source", source);
            let answer = stage.answered(request).await;
            let local = narrowed && source.eq_ignore_ascii_case("local");
            let expected = if local { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{source} from {from}");
            if !local {
                assert_eq!(answer.json()["network"]["status"], "DELETING", "{source}");
            }
        }
    }
}

/// A network of the project `demo`, in use; its id.
async fn of_demo(stage: &Stage) -> String {
    let url = stage.upstream("network");
    let make = async |path: &str, body: Value| {
        let url = format!("{url}{path}");
        let made = stage
            .send(Method::POST, &url, &stage.demo, Some(body))
            .await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.json()
    };
    let network = make("/v2.0/networks", json!({"network": {"name": "d"}})).await;
    let network = network["network"]["id"].as_str().unwrap().to_owned();
    make("/v2.0/ports", json!({"port": {"network_id": network}})).await;
    network
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_a_tenant_cascades_only_into_what_is_his() {
    let stage = Stage::new().await;
    let url = stage.url(GateSource::User, "network");
    let (others, _) = network(&stage).await;
    let his = of_demo(&stage).await;
    let shown = stage
        .user(Method::GET, &format!("/v2.0/networks/{his}"), None)
        .await;
    // He alone may use it, and so sees it.
    let share = json!({"rbac_policy": {"object_type": "network", "object_id": others,
        "action": "access_as_shared", "target_tenant": shown.json()["network"]["project_id"]}});
    stage.make("network", "/v2.0/rbac-policies", share).await;
    let cascade = async |network: &str| {
        let url = format!("{url}/v2.0/networks/{network}?cascade=true");
        stage.send(Method::DELETE, &url, &stage.demo, None).await
    };
    // He sees it, and it is another's: the cloud's own refusal.
    let refused = cascade(&others).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(refused.json()["NeutronError"]["type"], "NetworkInUse");
    assert_eq!(stage.phase("network", &others), None);
    assert_eq!(refused.header("x-gone-deletion"), "", "nothing was planned");

    // Also while it goes: he sees it, and neither wakes nor learns of the deletion.
    stage.faults(held()).await;
    let admins = format!("{url}/v2.0/networks/{others}?cascade=true");
    let accepted = stage
        .send(Method::DELETE, &admins, &stage.admin, None)
        .await;
    let id = accepted.header("x-gone-deletion").to_owned();
    stage.until_counts(&id, |counts| counts.blocked > 0).await;
    let again = stage.send(Method::DELETE, &admins, &stage.demo, None).await;
    assert_eq!((again.status, again.header("x-gone-deletion")), (403, ""));
    stage.faults(json!([])).await;

    let role = |role: &str| json!({"name": "demo", "roles": {"demo": [role]}});
    stage.sandbox(Method::PUT, "users", role("reader")).await;
    let reader = Stage::token(stage.cloud.url(), "demo").await;
    let plain = format!("{url}/v2.0/networks/{his}?cascade=true");
    let refused = stage.send(Method::DELETE, &plain, &reader, None).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert_eq!(stage.phase("network", &his), None);

    stage.sandbox(Method::PUT, "users", role("member")).await;
    let member = Stage::token(stage.cloud.url(), "demo").await;
    let accepted = stage.send(Method::DELETE, &plain, &member, None).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    stage
        .until(accepted.header("x-gone-deletion"), DeletionState::Gone)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_an_answer_that_cannot_be_read_is_no_word_that_there_is_none() {
    let stage = Stage::new().await;
    let url = stage.url(GateSource::User, "network");
    let his = of_demo(&stage).await;
    let cut = json!([{"match": {"method": "GET", "path": format!("/v2.0/networks/{his}")},
        "action": {"truncate": true}}]);
    stage.faults(cut).await;
    let cascade = format!("{url}/v2.0/networks/{his}?cascade=true");
    let refused = stage
        .send(Method::DELETE, &cascade, &stage.demo, None)
        .await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert_eq!(stage.phase("network", &his), None);
    stage.faults(json!([])).await;
    let accepted = stage
        .send(Method::DELETE, &cascade, &stage.demo, None)
        .await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_p13_a_refusal_names_what_the_service_shows_the_caller_and_counts_the_rest() {
    let stage = Stage::new().await;
    let his = of_demo(&stage).await;
    // Neutron shows a network's owner all of its ports, and no trunk of another project.
    let port = json!({"port": {"network_id": his, "name": "port-of-the-admin"}});
    let port = stage.make("network", "/v2.0/ports", port).await;
    let trunk = json!({"trunk": {"port_id": port, "name": "trunk-of-the-admin"}});
    let trunk = stage.make("network", "/v2.0/trunks", trunk).await;
    let url = stage.url(GateSource::User, "network");
    let cascade = format!("{url}/v2.0/networks/{his}?cascade=true");
    let refuses = async || {
        let refused = stage.send(Method::DELETE, &cascade, &stage.demo, None);
        let refused = refused.await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        let id = refused.header("x-gone-deletion");
        let followed = stage.origin(GateSource::User, "network");
        let followed = format!("{followed}/gone/v1/deletions/{id}");
        let followed = stage.send(Method::GET, &followed, &stage.demo, None).await;
        assert_eq!(followed.status, 200, "{}", followed.text);
        [refused.text, followed.text]
    };
    let [answer, followed] = refuses().await;
    for told in [&answer, &followed] {
        assert!(
            !told.contains(&trunk) && !told.contains("trunk-of"),
            "{told}"
        );
        assert!(told.contains(" of other projects"), "{told}");
    }
    // The answer to the DELETE is due within a second, whether the service has shown the port by then or not (N7).
    let named = format!("port-of-the-admin ({port})");
    assert!(followed.contains(&named), "{followed}");
    let owner = "belongs to project admin";
    assert!(!followed.contains(owner), "no project's name: {followed}");
    assert!(
        followed.contains("1 resource of other projects"),
        "{followed}"
    );
    // While the service cannot be asked, nothing is named.
    let down = json!([{"match": {"method": "GET", "path": format!("/v2.0/ports/{port}")},
        "action": {"status": 503}}]);
    stage.faults(down).await;
    for told in refuses().await {
        assert!(!told.contains(&port) && !told.contains("port-of"), "{told}");
        assert!(told.contains("2 resources of other projects"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p07_a_refusal_by_many_asks_the_service_about_few() {
    let stage = Stage::new().await;
    let his = of_demo(&stage).await;
    for _ in 0..30 {
        let port = json!({"port": {"network_id": his}});
        stage.make("network", "/v2.0/ports", port).await;
    }
    let url = stage.url(GateSource::User, "network");
    let cascade = format!("{url}/v2.0/networks/{his}?cascade=true");
    let answer = stage
        .send(Method::DELETE, &cascade, &stage.demo, None)
        .await;
    let id = answer.header("x-gone-deletion").to_owned();
    stage.until(&id, DeletionState::Refused).await;
    let address = stage.origin(GateSource::User, "network");
    let address = format!("{address}/gone/v1/deletions/{id}");
    let shown = stage.send(Method::GET, &address, &stage.demo, None).await;
    let named = shown.json()["refused"].as_array().unwrap().len();
    assert_eq!(named, 24, "{}", shown.text);
    let counted = "; 6 resources of other projects refuse it";
    assert!(shown.text.contains(counted), "{}", shown.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn t07_p07_the_whole_resource_is_shown_to_its_own_until_its_end_is_confirmed() {
    let stage = Stage::new().await;
    let his = of_demo(&stage).await;
    let path = format!("/v2.0/networks/{his}");
    let url = stage.url(GateSource::User, "network");
    let plain = format!("{url}{path}");
    let before = async |token: &str| stage.send(Method::GET, &plain, token, None).await.json();
    let (mut to_him, mut to_admins) = (before(&stage.demo).await, before(&stage.admin).await);
    assert_ne!(to_him, to_admins, "admins see more");
    // It takes effect at once, and is answered after this test.
    let slow = json!([{"match": {"method": "DELETE", "kind": "network"}, "action": {"delay_ms": 600_000}}]);
    stage.faults(slow).await;
    let accepted = format!("{plain}?cascade=true");
    let accepted = stage
        .send(Method::DELETE, &accepted, &stage.admin, None)
        .await;
    let id = accepted.header("x-gone-deletion").to_owned();
    let upstream = format!("{}{path}", stage.upstream("network"));
    let gone = async || {
        let shown = stage.send(Method::GET, &upstream, &stage.admin, None).await;
        shown.status == 404
    };
    until("the delete took effect", gone).await;
    assert_eq!(stage.phase("network", &his), Some(Phase::Deleting));
    for shown in [&mut to_him, &mut to_admins] {
        shown["network"]["status"] = json!("DELETING");
    }
    for (token, expected) in [(&stage.demo, to_him), (&stage.admin, to_admins)] {
        let answer = stage.send(Method::GET, &plain, token, None).await;
        assert_eq!((answer.status, answer.json()), (200, expected));
        assert_eq!(answer.header("x-gone-deletion"), id);
        let some = format!("{plain}?fields=status&fields=id");
        let some = stage.send(Method::GET, &some, token, None).await;
        let only = json!({"network": {"id": his, "status": "DELETING"}});
        assert_eq!(some.json(), only);
    }
    let nobody = stage.send(Method::GET, &plain, "", None).await;
    assert_eq!(nobody.status, 401);
    // A member of another project, for whom it never was there.
    let elsewhere = json!({"name": "demo", "roles": {"demo": [], "admin": ["member"]}});
    stage.sandbox(Method::PUT, "users", elsewhere).await;
    let other = Stage::token_in(stage.cloud.url(), "demo", "admin").await;
    let stranger = stage.send(Method::GET, &plain, &other, None).await;
    assert_eq!(stranger.status, 404, "{}", stranger.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn n07_the_answer_never_waits_longer_than_a_second() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    // Planning waits for this, for as long as it takes.
    let write = stage.tombstones.begin_write(&site());
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let asked = Instant::now();
    let accepted = stage.user(Method::DELETE, &path, None).await;
    let took = asked.elapsed();
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let id = accepted.header("x-gone-deletion");
    assert_eq!(stage.deletion(id).await.state, DeletionState::Planning);
    // N8: as before, until it is known.
    let shown = stage
        .user(Method::GET, &format!("/v2.0/networks/{network}"), None)
        .await;
    assert_eq!(shown.json()["network"]["status"], "ACTIVE");
    drop(write);
    stage.until(id, DeletionState::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n07_n08_what_may_not_go_is_refused_and_stays_as_it_was() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let body =
        json!({"port": {"network_id": network, "project_id": "0123456789abcdef0123456789abcdef"}});
    let stranger = stage.make("network", "/v2.0/ports", body).await;
    let path = format!("/v2.0/networks/{network}");
    let refused = stage
        .user(Method::DELETE, &format!("{path}?cascade=true"), None)
        .await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let error = &refused.json()["NeutronError"];
    assert_eq!(error["type"], "NetworkInUse");
    assert!(
        error["message"].as_str().unwrap().contains(&stranger),
        "{error}"
    );
    assert_eq!(stage.phase("network", &network), None);
    let shown = stage.user(Method::GET, &path, None).await;
    assert_eq!(shown.json()["network"]["status"], "ACTIVE");
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_its_location_tells_planning_from_refused_and_why() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let body =
        json!({"port": {"network_id": network, "project_id": "0123456789abcdef0123456789abcdef"}});
    let stranger = stage.make("network", "/v2.0/ports", body).await;
    // Planning waits for this, for as long as it takes.
    let write = stage.tombstones.begin_write(&site());
    let path = format!("/v2.0/networks/{network}?cascade=true");
    let accepted = stage.user(Method::DELETE, &path, None).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
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
    until("its Location says that it is refused", is_refused).await;
    let refused = followed().await;
    let note = refused["note"].as_str().unwrap();
    assert!(note.contains(&stranger), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_header_that_nobody_trusts_gives_no_power() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    stage.faults(held()).await;
    let path = format!("/v2.0/networks/{network}");
    let accepted = stage
        .user(Method::DELETE, &format!("{path}?cascade=true"), None)
        .await;
    stage
        .until(accepted.header("x-gone-deletion"), DeletionState::Running)
        .await;
    let url = stage.url(GateSource::User, "network");
    for source in ["central", "local", "engine"] {
        let request = stage
            .request(Method::GET, &format!("{url}{path}"))
            .header("x-auth-token", &stage.admin)
            .header("x-gone-source", source);
        let answer = stage.answered(request).await;
        assert_eq!(answer.json()["network"]["status"], "DELETING", "{source}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_t14_nothing_is_listed_before_the_writes_that_passed_the_gate_have_ended() {
    let stage = Stage::new().await;
    let (network, _) = network(&stage).await;
    let slow = json!([{"match": {"method": "POST", "kind": "port"}, "times": 1,
        "action": {"delay_ms": 10_000}}]);
    stage.faults(slow).await;
    let body = json!({"port": {"network_id": network}});
    let late = stage.user(Method::POST, "/v2.0/ports", Some(body));
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
        until("the write is at the service", is_sent).await;
        let path = format!("/v2.0/networks/{network}?cascade=true");
        let accepted = stage.user(Method::DELETE, &path, None).await;
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        let id = accepted.header("x-gone-deletion").to_owned();
        assert_eq!(stage.deletion(&id).await.state, DeletionState::Planning);
        id
    };
    let (late, id) = tokio::join!(late, deleted);
    assert_eq!(late.status, 201, "{}", late.text);
    let deletion = stage.until(&id, DeletionState::Gone).await;
    // Three ports, the network, and the one that came late: it was seen, and is gone.
    assert_eq!(deletion.counts.total, 5);
}

fn is_ports(path: &Value) -> bool {
    path.as_str().unwrap().ends_with("/v2.0/ports")
}

#[tokio::test(flavor = "multi_thread")]
async fn t17_no_create_succeeds_that_is_sent_after_the_deletion_was_accepted() {
    let stage = Arc::new(Stage::new().await);
    let (network, _) = network(&stage).await;
    let accepted = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let pullers: Vec<_> = (0..8)
        .map(|_| {
            let (stage, network) = (stage.clone(), network.clone());
            let (accepted, over) = (accepted.clone(), over.clone());
            tokio::spawn(async move {
                let (mut made, mut refused) = (0, 0);
                while !over.load(Ordering::SeqCst) {
                    let late = accepted.load(Ordering::SeqCst);
                    let body = json!({"port": {"network_id": network}});
                    let answer = stage.user(Method::POST, "/v2.0/ports", Some(body)).await;
                    match answer.status {
                        201 if late => panic!("made after it was accepted: {}", answer.text),
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
    let answer = stage.user(Method::DELETE, &path, None).await;
    accepted.store(true, Ordering::SeqCst);
    assert_eq!(answer.status, 202, "{}", answer.text);
    stage
        .until(answer.header("x-gone-deletion"), DeletionState::Gone)
        .await;
    over.store(true, Ordering::SeqCst);
    let (mut made, mut refused) = (0, 0);
    for puller in pullers {
        let (some, others) = puller.await.unwrap();
        made += some;
        refused += others;
    }
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
    let left = format!(
        "{}/v2.0/ports?network_id={network}",
        stage.upstream("network")
    );
    let left = stage.send(Method::GET, &left, &stage.admin, None).await;
    assert_eq!(left.json()["ports"], json!([]));
}
