//! A project that has something of every kind.

use std::collections::BTreeSet;

use super::harness::*;
use gone::domain::model::KindName;
use serde_json::{Value, json};

pub struct Estate {
    /// Most of it is in this one.
    pub network: String,
    /// Kinds and ids of what can go without the rest, one of each kind.
    pub parts: Vec<(&'static str, String)>,
}

impl Bench {
    /// Gives the project `demo` at least one of every kind that a project can have, each in use by
    /// another where that is possible. The outer network, with the floating IPs' ports, is the admin's.
    pub fn furnish_demo(&self) -> Estate {
        let demo = self.demo_project();
        let own = |mut fields: Value| {
            fields["project_id"] = json!(demo);
            fields
        };
        let outer = json!({ "name": "outer", "router:external": true });
        let outer = self.create("networks", outer);
        let addresses = json!({ "network_id": outer, "ip_version": 4, "cidr": "203.0.113.0/24" });
        self.create("subnets", addresses);

        let scope = json!({ "name": "scope", "ip_version": 4 });
        let scope = self.create("address-scopes", own(scope));
        let pool = json!({ "name": "pool", "prefixes": ["10.40.0.0/16"], "default_prefixlen": 24,
            "address_scope_id": scope });
        let pool = self.create("subnetpools", own(pool));
        let network = self.create("networks", own(json!({ "name": "home" })));
        let subnet = json!({ "network_id": network, "ip_version": 4, "subnetpool_id": pool });
        let subnet = self.create("subnets", own(subnet));
        let routed = self.create("networks", own(json!({ "name": "routed" })));
        let segment = json!({ "network_id": routed, "network_type": "vxlan", "name": "rack" });
        let segment = self.create("segments", segment);
        let on_segment = json!({ "network_id": routed, "ip_version": 4, "cidr": "10.50.0.0/24",
            "segment_id": segment });
        let on_segment = self.create("subnets", own(on_segment));
        let spare = json!({ "network_id": routed, "network_type": "vxlan", "name": "spare" });
        let spare = self.create("segments", spare);
        let port = |name: &str, mut more: Value| {
            more["network_id"] = json!(network);
            more["name"] = json!(name);
            more["fixed_ips"] = json!([{ "subnet_id": subnet }]);
            self.create("ports", own(more))
        };

        let limits = self.make(
            "/v2.0/qos/policies",
            "policy",
            own(json!({ "name": "slow" })),
        );
        let offices = json!({ "name": "offices", "addresses": ["192.0.2.0/24"] });
        let offices = self.create("address-groups", own(offices));
        let web = self.create("security-groups", own(json!({ "name": "web" })));
        let data = self.create("security-groups", own(json!({ "name": "data" })));
        let rule = |key: &str, remote: &str| {
            let rule = json!({ "security_group_id": data, "direction": "ingress", key: remote });
            self.create("security-group-rules", own(rule))
        };
        rule("remote_address_group_id", &offices);
        let rule = rule("remote_group_id", &web);
        let server = port(
            "server",
            json!({ "security_groups": [data], "qos_policy_id": limits }),
        );
        let other = port("other", json!({ "security_groups": [web] }));
        let shared = json!({ "object_type": "network", "object_id": network,
            "action": "access_as_shared", "target_tenant": "0123456789abcdef0123456789abcdef" });
        let shared = self.make("/v2.0/rbac-policies", "rbac_policy", own(shared));

        let router = json!({ "name": "edge", "external_gateway_info": { "network_id": outer } });
        let router = self.create("routers", own(router));
        let interface = json!({ "subnet_id": subnet });
        self.put(
            &format!("/v2.0/routers/{router}/add_router_interface"),
            interface,
        );
        let (destination, next_hop) = ("198.51.100.0/24", "10.40.0.200");
        let routes = json!([{ "destination": destination, "nexthop": next_hop }]);
        let routes = json!({ "router": { "routes": routes } });
        self.put(&format!("/v2.0/routers/{router}"), routes);
        let address = json!({ "floating_network_id": outer, "port_id": server });
        let address = self.create("floatingips", own(address));
        let forwards = json!({ "floating_network_id": outer });
        let forwards = self.create("floatingips", own(forwards));
        let internal = self.address_of(&other);
        let forwarding = json!({ "protocol": "tcp", "external_port": 80, "internal_port": 8080,
            "internal_port_id": other, "internal_ip_address": internal });
        let forwardings = format!("/v2.0/floatingips/{forwards}/port_forwardings");
        let forwarding = self.make(&forwardings, "port_forwarding", forwarding);

        let (parent, child) = (port("parent", json!({})), port("child", json!({})));
        let trunk = json!({ "port_id": parent, "sub_ports": [{ "port_id": child,
            "segmentation_type": "vlan", "segmentation_id": 5 }] });
        let trunk = self.create("trunks", own(trunk));

        let rules = json!([{ "type": "PATH", "compare_type": "STARTS_WITH", "value": "/admin" }]);
        let balancer = json!({ "name": "front", "vip_subnet_id": subnet, "listeners": [{
            "name": "http", "protocol": "HTTP", "protocol_port": 80,
            "l7policies": [{ "name": "no", "action": "REJECT", "rules": rules }],
            "default_pool": { "name": "web", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
                "members": [{ "address": "10.40.0.9", "protocol_port": 8080 }],
                "healthmonitor": { "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3 } },
        }] });
        let balancer = self.make_as("demo", &path_of("loadbalancers"), "loadbalancer", balancer);
        let made = self.seed(json!({ "project": "demo", "images": 1 }));
        let image = made["images"][0].as_str().unwrap();

        let (members, rules) = (path_of("pools"), path_of("l7policies"));
        let [listener, policy, servers, monitor] =
            ["listeners", "l7policies", "pools", "healthmonitors"]
                .map(|rows| self.first(&path_of(rows), rows));
        let member = self.first(&format!("{members}/{servers}/members"), "members");
        let l7_rule = self.first(&format!("{rules}/{policy}/rules"), "rules");
        let guest = self
            .api("GET", &format!("/v2/images/{image}/members"), Value::Null)
            .1;
        let guest = guest["members"][0]["member_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let parts = vec![
            ("project", "demo".to_owned()),
            ("network", network.clone()),
            ("floating_ip_association", format!("{address},{server}")),
            ("floating_ip", address),
            ("port_forwarding", format!("{forwards},{forwarding}")),
            ("image_member", format!("{image},{guest}")),
            ("image", image.to_owned()),
            ("l7_rule", format!("{policy},{l7_rule}")),
            ("l7_policy", policy),
            ("health_monitor", monitor),
            ("member", format!("{servers},{member}")),
            ("pool", servers),
            ("listener", listener),
            ("load_balancer", balancer),
            ("segment", spare),
            ("subnet", on_segment),
            ("subport", format!("{trunk},{child}")),
            ("trunk", trunk),
            ("port", server),
            ("static_route", format!("{router},{destination},{next_hop}")),
            ("rbac_policy", shared),
            ("security_group_rule", rule),
            ("address_group", offices),
            ("subnet_pool", pool),
            ("address_scope", scope),
        ];
        Estate { network, parts }
    }

    fn first(&self, path: &str, rows: &str) -> String {
        let (_, answer) = self.api("GET", path, Value::Null);
        answer[rows][0]["id"].as_str().unwrap().to_owned()
    }

    fn make(&self, path: &str, item: &str, fields: Value) -> String {
        self.make_as("admin", path, item, fields)
    }

    fn make_as(&self, user: &str, path: &str, item: &str, fields: Value) -> String {
        let (status, answer) = self.api_as(user, "POST", path, json!({ item: fields }));
        assert_eq!(status, 201, "{path}: {answer}");
        answer[item]["id"].as_str().unwrap().to_owned()
    }

    fn put(&self, path: &str, body: Value) {
        let (status, answer) = self.api("PUT", path, body);
        assert_eq!(status, 200, "{path}: {answer}");
    }

    fn address_of(&self, port: &str) -> String {
        let (_, answer) = self.api("GET", &format!("/v2.0/ports/{port}"), Value::Null);
        let address = &answer["port"]["fixed_ips"][0]["ip_address"];
        address.as_str().unwrap().to_owned()
    }
}

#[test]
fn an_estate_has_every_kind_and_what_can_go_alone_does() {
    let parts = paused(async { Bench::new(1).furnish_demo().parts.len() });
    let mut unmet: BTreeSet<KindName> = KINDS.iter().map(|kind| kind.name.clone()).collect();
    // What belongs to a project goes; it stays.
    unmet.remove(&KindName::new("project"));
    for at in 0..parts {
        paused(async {
            let bench = Bench::new(1);
            let (kind, word) = bench.furnish_demo().parts.swap_remove(at);
            let deletion = bench.run(async |client| {
                let id = client.delete(kind, &word).await;
                client.gone(&id).await;
                client.steps(&id).await
            });
            for step in deletion.await.unwrap() {
                unmet.remove(&step.resource.key.kind);
            }
        });
    }
    assert_eq!(unmet, BTreeSet::new());
}
