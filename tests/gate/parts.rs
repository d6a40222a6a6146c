//! Parts are shown, hidden and guarded as their parent is (T20), and a filter by state finds the rows that are shown
//! with that state (T21).

use gone::domain::model::{DeletionState, Phase};
use gone::system::config::GateSource::{Central, Local, User};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Stage, until};

const BALANCERS: &str = "/v2.0/lbaas/loadbalancers";

/// A network with a subnet, the DHCP agent's port and a port of a server.
struct WebNetwork {
    network: String,
    subnet: String,
    dhcp_port: String,
    server_port: String,
}

impl WebNetwork {
    async fn new(stage: &Stage) -> Self {
        let seed = json!({"region": "RegionOne", "networks": 1, "ports_per_network": 1});
        let made = stage.sandbox(Method::POST, "seed", seed).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let network = text(&made["networks"][0]);
        let path = format!("/v2.0/subnets?network_id={network}");
        let shown = stage.user_get(&path).await.json();
        Self {
            subnet: text(&shown["subnets"][0]["id"]),
            dhcp_port: text(&made["ports"][0]),
            server_port: text(&made["ports"][1]),
            network,
        }
    }

    fn path(&self) -> String {
        format!("/v2.0/networks/{}", self.network)
    }
}

async fn router(stage: &Stage) -> String {
    let body = json!({"router": {"name": "r"}});
    stage.make("network", "/v2.0/routers", body).await
}

/// Creates a load balancer with a listener, an L7 policy, a pool and a health monitor, and waits until it is active.
/// Returns its id, and the lists and ids of its parts.
async fn balancer(stage: &Stage, subnet: &str) -> (String, Vec<(&'static str, String)>) {
    let pool = json!({"name": "p", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
        "healthmonitor": {"type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3}});
    let listener = json!({"name": "l", "protocol": "HTTP", "protocol_port": 80, "default_pool": pool,
        "l7policies": [{"name": "x", "action": "REJECT"}]});
    let body =
        json!({"loadbalancer": {"name": "b", "vip_subnet_id": subnet, "listeners": [listener]}});
    let balancer = stage.make("load-balancer", BALANCERS, body).await;
    let upstream = stage.upstream("load-balancer");
    let read = async |path: &str| {
        let url = format!("{upstream}/v2.0/lbaas/{path}");
        stage
            .send(Method::GET, &url, &stage.admin, None)
            .await
            .json()
    };
    until("the balancer is active", async || {
        let shown = read(&format!("loadbalancers/{balancer}")).await;
        shown["loadbalancer"]["provisioning_status"] == "ACTIVE"
    })
    .await;
    let first = async |list: &str, field: &str, of: &str| {
        let all = read(list).await;
        let rows = all[list].as_array().unwrap();
        let row = rows.iter().find(|row| row[field].to_string().contains(of));
        row.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let listener = first("listeners", "loadbalancers", &balancer).await;
    let pool = first("pools", "loadbalancers", &balancer).await;
    let monitor = first("healthmonitors", "pools", &pool).await;
    let policy = first("l7policies", "listener_id", &listener).await;
    let parts = vec![
        ("listeners", listener),
        ("pools", pool),
        ("healthmonitors", monitor),
        ("l7policies", policy),
    ];
    (balancer, parts)
}

/// Returns how a resource is shown to the sources local, user and central: `404`, `deleting` or `pass`. Asserts that
/// lists, with all fields or with few, show the same as a read by id.
async fn states_by_source(
    stage: &Stage,
    service: &'static str,
    (list, id): (&str, &str),
    state: (&str, &str),
) -> [&'static str; 3] {
    let mut shown = [""; 3];
    let items = list.rsplit('/').next().unwrap().replace('-', "_");
    for (nth, source) in [Local, User, Central].into_iter().enumerate() {
        let at = (source, service);
        let one = stage
            .call(at, Method::GET, &format!("{list}/{id}"), None)
            .await;
        let of = |row: &Value| match row[state.0] == state.1 {
            true => "deleting",
            false => "pass",
        };
        shown[nth] = match one.status {
            404 => "404",
            200 => of(one.json().as_object().unwrap().values().next().unwrap()),
            other => panic!("{other}: {}", one.text),
        };
        let few = format!("?fields=id&fields={}", state.0);
        for query in ["", few.as_str()] {
            let all = stage
                .call(at, Method::GET, &format!("{list}{query}"), None)
                .await;
            let all = all.json();
            let rows = all[items.as_str()].as_array().unwrap();
            let row = rows.iter().find(|row| row["id"] == id);
            let listed = row.map_or("404", of);
            assert_eq!(listed, shown[nth], "{list}{query} {source:?}: {all}");
            if !query.is_empty() {
                let known = |key: &String| key == "id" || key == state.0;
                let mut keys = rows.iter().flat_map(|row| row.as_object().unwrap().keys());
                assert_eq!(keys.find(|key| !known(key)), None);
            }
        }
    }
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_part_is_shown_and_hidden_as_its_parent_is() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    let (balancer, parts) = balancer(&stage, &web.subnet).await;
    let group = json!({"security_group": {"name": "g"}});
    let group = stage.make("network", "/v2.0/security-groups", group).await;
    let path = format!("/v2.0/security-group-rules?security_group_id={group}");
    let rules = stage.user_get(&path).await.json();
    let rule = rules["security_group_rules"][0]["id"].as_str().unwrap();
    let path = format!("/v2.0/ports?device_id=lb-{balancer}");
    let ports = stage.user_get(&path).await.json();
    let vip = ports["ports"][0]["id"].as_str().unwrap();

    let neutron = ("status", "DELETING");
    let octavia = ("provisioning_status", "PENDING_DELETE");
    let of_balancer: Vec<(String, &str)> = parts
        .iter()
        .map(|(list, id)| (format!("/v2.0/lbaas/{list}"), id.as_str()))
        .collect();
    let network = ("network", &web.network);
    let mut cases = vec![
        ("network", network, "/v2.0/subnets", &*web.subnet, neutron),
        ("network", network, "/v2.0/ports", &*web.dhcp_port, neutron),
        (
            "network",
            ("security_group", &group),
            "/v2.0/security-group-rules",
            rule,
            neutron,
        ),
        (
            "network",
            ("load_balancer", &balancer),
            "/v2.0/ports",
            vip,
            neutron,
        ),
    ];
    for (list, id) in &of_balancer {
        let whole = ("load_balancer", &balancer);
        cases.push(("load-balancer", whole, list, id, octavia));
    }
    for (service, (kind, whole), list, id, state) in cases {
        for (phase, expected) in [
            (None, ["pass", "pass", "pass"]),
            (Some(Phase::Checking), ["pass", "pass", "pass"]),
            (Some(Phase::Deleting), ["404", "deleting", "pass"]),
            // After a purge, the resources that remain must stay reachable.
            (Some(Phase::Purged), ["pass", "pass", "pass"]),
        ] {
            stage.set_phase(kind, whole, phase);
            let found = states_by_source(&stage, service, (list, id), state).await;
            assert_eq!(found, expected, "{list} of a {kind} in {phase:?}");
        }
        stage.set_phase(kind, whole, None);
    }
    // The members of a pool are parts of a part.
    let pool = &parts[1].1;
    let members = format!("/v2.0/lbaas/pools/{pool}/members");
    stage.set_phase("load_balancer", &balancer, Some(Phase::Deleting));
    for (source, status) in [(Local, 404), (User, 200), (Central, 200)] {
        let at = (source, "load-balancer");
        let answer = stage.call(at, Method::GET, &members, None).await;
        assert_eq!(answer.status, status, "{source:?}: {}", answer.text);
    }
}

/// Calls that refer to the subnet or a port of the network, in different fields.
async fn references(stage: &Stage, web: &WebNetwork) -> Vec<(&'static str, Method, String, Value)> {
    let router = router(stage).await;
    let other = stage.network("other").await;
    let port = json!({"port": {"network_id": other}});
    let port = stage.make("network", "/v2.0/ports", port).await;
    let trunk = json!({"trunk": {"port_id": port}});
    let trunk = stage.make("network", "/v2.0/trunks", trunk).await;
    let WebNetwork {
        subnet,
        dhcp_port,
        server_port,
        ..
    } = web;
    let put = |path: &str, body: Value| ("network", Method::PUT, path.to_owned(), body);
    let post = |path: &str, body: Value| ("network", Method::POST, path.to_owned(), body);
    let balance = |body: Value| ("load-balancer", Method::POST, BALANCERS.to_owned(), body);
    let at = |path: &str, id: &str, rest: &str| format!("/v2.0/{path}/{id}{rest}");
    let subport = json!({"sub_ports": [{"port_id": server_port, "segmentation_type": "vlan", "segmentation_id": 7}]});
    let vip = |field: &str, id: &str| json!({"loadbalancer": {"name": "b", field: id}});
    let second = json!({"loadbalancer": {"name": "b", "vip_network_id": other,
        "additional_vips": [{"subnet_id": subnet}]}});
    let tree = json!({"loadbalancer": {"name": "b", "vip_network_id": other, "pools": [
        {"protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "members": [
            {"address": "10.0.0.9", "protocol_port": 80, "subnet_id": subnet}]}]}});
    vec![
        put(&at("subnets", subnet, ""), json!({"subnet": {"name": "x"}})),
        put(&at("subnets", subnet, "/tags"), json!({"tags": ["x"]})),
        put(&at("ports", dhcp_port, ""), json!({"port": {"name": "x"}})),
        put(
            &at("ports", server_port, ""),
            json!({"port": {"name": "x"}}),
        ),
        put(
            &at("routers", &router, "/add_router_interface"),
            json!({"subnet_id": subnet}),
        ),
        put(
            &at("routers", &router, "/add_router_interface"),
            json!({"port_id": server_port}),
        ),
        put(&at("trunks", &trunk, "/add_subports"), subport),
        post("/v2.0/trunks", json!({"trunk": {"port_id": server_port}})),
        post(
            "/v2.0/floatingips",
            json!({"floatingip": {"floating_network_id": other, "port_id": server_port}}),
        ),
        post(
            "/v2.0/ports",
            json!({"port": {"network_id": other, "fixed_ips": [{"subnet_id": subnet}]}}),
        ),
        post(
            "/v2.0/local_ips",
            json!({"local_ip": {"local_port_id": server_port}}),
        ),
        post(
            &at("local_ips", &trunk, "/port_associations"),
            json!({"port_association": {"fixed_port_id": server_port}}),
        ),
        balance(vip("vip_subnet_id", subnet)),
        balance(vip("vip_port_id", server_port)),
        balance(second),
        balance(tree),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_reference_to_a_part_at_any_depth_is_refused_by_neutrons_and_octavias_gates() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    let references = references(&stage, &web).await;
    for phase in [Phase::Checking, Phase::Deleting] {
        stage.set_phase("network", &web.network, Some(phase));
        for (service, method, path, body) in &references {
            for source in [User, Local, Central] {
                let at = (source, *service);
                let answer = stage
                    .call(at, method.clone(), path, Some(body.clone()))
                    .await;
                assert_eq!(
                    answer.status, 409,
                    "{phase:?} {path} {body}: {}",
                    answer.text
                );
                let names_parent = answer.text.contains(&web.network);
                assert!(
                    names_parent,
                    "{path} does not name the network: {}",
                    answer.text
                );
            }
        }
        let subnet = format!("/v2.0/subnets/{}", web.subnet);
        stage.user_delete(&subnet).await.with_status(409);
        if phase == Phase::Deleting {
            let at = (Local, "network");
            stage
                .call(at, Method::DELETE, &subnet, None)
                .await
                .with_status(404);
        }
    }
    stage.set_phase("network", &web.network, None);
    let (service, method, path, body) = &references[0];
    let at = (User, *service);
    stage
        .call(at, method.clone(), path, Some(body.clone()))
        .await
        .with_status(200);
    // Without a token, the gate reads no parent and answers 401.
    stage.set_phase("network", &web.network, Some(Phase::Deleting));
    let url = format!("{}{path}", stage.url(User, "network"));
    stage
        .send(Method::PUT, &url, "", Some(body.clone()))
        .await
        .with_status(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_b5_a_load_balancer_cannot_use_a_security_group_being_deleted() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    let group = json!({"security_group": {"name": "g"}});
    let group = stage.make("network", "/v2.0/security-groups", group).await;
    stage.set_phase("security_group", &group, Some(Phase::Deleting));
    let body = json!({"loadbalancer": {"vip_subnet_id": web.subnet, "vip_sg_ids": [group]}});
    let at = (User, "load-balancer");
    stage
        .call(at, Method::POST, BALANCERS, Some(body))
        .await
        .with_status(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_reference_whose_parent_cannot_be_read_is_answered_503() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    stage.set_phase("network", &web.network, Some(Phase::Deleting));
    let down = json!([{"match": {"method": "GET", "kind": "subnet"}, "action": {"status": 500}}]);
    stage.faults(down).await;
    let body = json!({"loadbalancer": {"name": "b", "vip_subnet_id": web.subnet}});
    let at = (User, "load-balancer");
    stage
        .call(at, Method::POST, BALANCERS, Some(body))
        .await
        .with_status(503);
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_parked_deletion_guards_its_parts_and_lets_them_be_detached() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    let attached_router = router(&stage).await;
    let attach = format!("/v2.0/routers/{attached_router}/add_router_interface");
    let body = Some(json!({"subnet_id": web.subnet}));
    stage
        .call_user_gate(Method::PUT, &attach, body)
        .await
        .with_status(200);
    let references = references(&stage, &web).await;
    let parked = format!("{}?park=true", web.path());
    let id = stage.user_delete(&parked).await.with_status(202).deletion();
    for (service, method, path, body) in references {
        let answer = stage.call((User, service), method, &path, Some(body)).await;
        assert_eq!(answer.status, 409, "{path}: {}", answer.text);
        assert_eq!(answer.header("x-gone-deletion"), id);
    }
    // The blockers may be removed: the deletion waits for that.
    let detach = format!("/v2.0/routers/{attached_router}/remove_router_interface");
    let body = Some(json!({"subnet_id": web.subnet}));
    stage
        .call_user_gate(Method::PUT, &detach, body)
        .await
        .with_status(200);
    let port = format!("/v2.0/ports/{}", web.server_port);
    stage.user_delete(&port).await.with_status(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_port_created_by_the_cloud_after_planning_is_hidden_too() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    let failing = json!([{"match": {"method": "DELETE", "kind": "port"},
        "action": {"status": 409, "type": "PortInUse", "message": "held by the test"}}]);
    stage.faults(failing).await;
    let path = format!("{}?cascade=true", web.path());
    let accepted = stage.user_delete(&path).await;
    let id = accepted.deletion();
    stage.until_counts(&id, |counts| counts.blocked > 0).await;
    let port = json!({"port": {"network_id": web.network, "device_owner": "network:dhcp",
        "device_id": "reserved_dhcp_port"}});
    let late = stage.make("network", "/v2.0/ports", port).await;
    let found = states_by_source(
        &stage,
        "network",
        ("/v2.0/ports", &late),
        ("status", "DELETING"),
    )
    .await;
    assert_eq!(found, ["404", "deleting", "pass"]);
    stage.faults(json!([])).await;
    stage.user_delete(&web.path()).await;
    stage.until(&id, DeletionState::Gone).await;
}

async fn listed(
    stage: &Stage,
    at: (gone::system::config::GateSource, &'static str),
    path: &str,
) -> Vec<String> {
    let answer = stage.call(at, Method::GET, path, None).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    let json = answer.json();
    let rows = json.as_object().unwrap().values().find_map(Value::as_array);
    let ids = rows.unwrap().iter().filter_map(|row| row["id"].as_str());
    ids.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn t21_a_filter_by_state_finds_the_resources_shown_with_that_state_in_three_services() {
    let stage = Stage::new().await;
    let web = WebNetwork::new(&stage).await;
    let other = WebNetwork::new(&stage).await;
    let (going, _) = balancer(&stage, &web.subnet).await;
    let (stays, _) = balancer(&stage, &other.subnet).await;
    let image = json!({"name": "i"});
    let image = stage.make("image", "/v2/images", image).await;
    let kept = stage
        .make("image", "/v2/images", json!({"name": "k"}))
        .await;
    stage.set_phase("network", &web.network, Some(Phase::Deleting));
    stage.set_phase("load_balancer", &going, Some(Phase::Deleting));
    stage.set_phase("image", &image, Some(Phase::Deleting));
    let networks = (&web.network, &other.network);
    for (service, list, [field, deleting, active], (gone, there)) in [
        (
            "network",
            "/v2.0/networks",
            ["status", "DELETING", "ACTIVE"],
            networks,
        ),
        (
            "load-balancer",
            BALANCERS,
            ["provisioning_status", "PENDING_DELETE", "ACTIVE"],
            (&going, &stays),
        ),
        (
            "image",
            "/v2/images",
            ["status", "pending_delete", "queued"],
            (&image, &kept),
        ),
    ] {
        let user = (User, service);
        let find = |state: &str| format!("{list}?{field}={state}");
        assert_eq!(
            listed(&stage, user, &find(deleting)).await,
            std::slice::from_ref(gone),
            "{service}"
        );
        let active = listed(&stage, user, &find(active)).await;
        assert!(
            !active.contains(gone) && active.contains(there),
            "{active:?}"
        );
        let local = listed(&stage, (Local, service), &find(deleting)).await;
        assert_eq!(local, [] as [String; 0], "{service}");
    }
    // The filter also finds parts, works with few fields, and takes both states at once.
    let subnets = listed(
        &stage,
        (User, "network"),
        "/v2.0/subnets?status=DELETING&fields=id",
    )
    .await;
    assert_eq!(subnets, std::slice::from_ref(&web.subnet));
    let both = "/v2.0/networks?status=DELETING&status=ACTIVE";
    let both = listed(&stage, (User, "network"), both).await;
    assert!(both.contains(&web.network) && both.contains(&other.network));
    // The central site is shown the service's own state, and its filter applies to that state.
    let central = listed(&stage, (Central, "network"), "/v2.0/networks?status=ACTIVE").await;
    assert!(central.contains(&web.network));
}
