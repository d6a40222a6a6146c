//! Fills a project with resources of the kinds of Neutron, Octavia and Glance, by plain calls of an admin: in the
//! sandbox and in the test bed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

const BALANCERS: &str = "/v2.0/lbaas";

/// Sends a call that must succeed: method, path (with `/v2.0`, `/v2.0/lbaas` or `/v2`) and body. Returns the body of
/// the answer.
pub type Send<'a> = dyn Fn(&str, &str, Value) -> Value + 'a;

/// An external network of another project, to which a project's routers lead, and the shared pool of its IPv6
/// addresses.
pub struct Outer {
    pub network: String,
    pub pool: String,
    /// All resources that were created for the network, in the order of their deletion: collection below `/v2.0`,
    /// and id.
    #[allow(dead_code)] // A practice cloud needs no clean-up.
    pub made: [(&'static str, String); 3],
}

impl Outer {
    /// Creates the network in the project of the caller, who must be an admin.
    pub fn make(send: &Send<'_>) -> Self {
        let make = |collection: &str, item: &str, fields: Value| {
            let answer = send(
                "POST",
                &format!("/v2.0/{collection}"),
                json!({ item: fields }),
            );
            answer[item]["id"].as_str().unwrap().to_owned()
        };
        let scope = json!({ "name": "outer", "ip_version": 6, "shared": true });
        let scope = make("address-scopes", "address_scope", scope);
        let pool = json!({ "name": "outer", "prefixes": ["2001:db8:40::/48"],
            "default_prefixlen": 64, "address_scope_id": scope, "shared": true });
        let pool = make("subnetpools", "subnetpool", pool);
        let network = json!({ "name": "outer", "router:external": true });
        let network = make("networks", "network", network);
        let old = json!({ "network_id": network, "ip_version": 4, "cidr": "203.0.113.0/24" });
        make("subnets", "subnet", old);
        let new = json!({ "network_id": network, "ip_version": 6, "subnetpool_id": pool });
        make("subnets", "subnet", new);
        Self {
            made: [
                ("networks", network.clone()),
                ("subnetpools", pool.clone()),
                ("address-scopes", scope),
            ],
            network,
            pool,
        }
    }
}

/// For each kind the id of a resource that can be deleted before the others. Most are on one network.
pub struct Estate(pub BTreeMap<&'static str, String>);

impl Estate {
    /// Creates at least one resource of each kind of Neutron, Octavia and Glance that a project can have, except those
    /// of BGP and VPN. Where possible, a resource of each kind is used by another resource. The outer network belongs
    /// to another project, and the ports of the floating IPs to none. The load balancer is pending for a while.
    pub fn furnish(project: &str, outer: &Outer, send: &Send<'_>) -> Self {
        let builder = Builder { project, send };
        let scope = json!({ "name": "scope", "ip_version": 4 });
        let scope = builder.neutron("address-scopes", "address_scope", scope);
        let pool = json!({ "name": "pool", "prefixes": ["10.40.0.0/16"], "default_prefixlen": 24,
            "address_scope_id": scope });
        let pool = builder.neutron("subnetpools", "subnetpool", pool);
        let network = builder.neutron("networks", "network", json!({ "name": "home" }));
        let subnet = json!({ "network_id": network, "ip_version": 4, "subnetpool_id": pool });
        let subnet = builder.neutron("subnets", "subnet", subnet);
        let routed = builder.neutron("networks", "network", json!({ "name": "routed" }));
        let segment = |name: &str| {
            let segment = json!({ "network_id": routed, "network_type": "vxlan", "name": name });
            builder.without_project("/v2.0/segments", "segment", segment)
        };
        let rack = segment("rack");
        let on_segment = json!({ "network_id": routed, "ip_version": 4, "cidr": "10.50.0.0/24",
            "segment_id": rack });
        let on_segment = builder.neutron("subnets", "subnet", on_segment);
        let spare = segment("spare");
        let port = |name: &str, mut more: Value| {
            more["network_id"] = json!(network);
            more["name"] = json!(name);
            more["fixed_ips"] = json!([{ "subnet_id": subnet }]);
            builder.neutron("ports", "port", more)
        };

        let limits = builder.neutron("qos/policies", "policy", json!({ "name": "slow" }));
        let offices = json!({ "name": "offices", "addresses": ["192.0.2.0/24"] });
        let offices = builder.neutron("address-groups", "address_group", offices);
        let group = |name: &str| {
            builder.neutron("security-groups", "security_group", json!({ "name": name }))
        };
        let (web, data) = (group("web"), group("data"));
        let rule = |key: &str, remote: &str| {
            let rule = json!({ "security_group_id": data, "direction": "ingress", key: remote });
            builder.neutron("security-group-rules", "security_group_rule", rule)
        };
        rule("remote_address_group_id", &offices);
        let rule = rule("remote_group_id", &web);
        let on_data = json!({ "security_groups": [data], "qos_policy_id": limits });
        let server = port("server", on_data);
        let other = port("other", json!({ "security_groups": [web] }));
        let shared = json!({ "object_type": "network", "object_id": network,
            "action": "access_as_shared", "target_tenant": "0123456789abcdef0123456789abcdef" });
        let shared = builder.neutron("rbac-policies", "rbac_policy", shared);

        let router = json!({ "name": "edge", "enable_ndp_proxy": true,
            "external_gateway_info": { "network_id": outer.network } });
        let router = builder.neutron("routers", "router", router);
        let interface = format!("/v2.0/routers/{router}/add_router_interface");
        send("PUT", &interface, json!({ "subnet_id": subnet }));
        let (destination, next_hop) = ("198.51.100.0/24", "10.40.0.200");
        let routes = json!([{ "destination": destination, "nexthop": next_hop }]);
        let routes = json!({ "router": { "routes": routes } });
        send("PUT", &format!("/v2.0/routers/{router}"), routes);
        let floating_ip = |mut more: Value| {
            more["floating_network_id"] = json!(outer.network);
            builder.neutron("floatingips", "floatingip", more)
        };
        let address = floating_ip(json!({ "port_id": server }));
        let forwards = floating_ip(json!({}));
        let forwarding = json!({ "protocol": "tcp", "external_port": 80, "internal_port": 8080,
            "internal_port_id": other, "internal_ip_address": builder.address_of(&other) });
        let forwardings = format!("/v2.0/floatingips/{forwards}/port_forwardings");
        let forwarding = builder.without_project(&forwardings, "port_forwarding", forwarding);

        let (parent, child) = (port("parent", json!({})), port("child", json!({})));
        let trunk = json!({ "port_id": parent, "sub_ports": [{ "port_id": child,
            "segmentation_type": "vlan", "segmentation_id": 5 }] });
        let trunk = builder.neutron("trunks", "trunk", trunk);

        let mut parts = BTreeMap::from([
            ("network", network.clone()),
            ("floating_ip_association", format!("{address},{server}")),
            ("floating_ip", address),
            ("port_forwarding", format!("{forwards},{forwarding}")),
        ]);
        parts.extend(builder.image());
        parts.extend(builder.helpers(&network, &other, &router));
        parts.extend(builder.proxy(&outer.pool, &router));
        parts.extend(builder.meters());
        parts.extend(builder.balancer(&subnet));
        parts.extend([
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
        ]);
        Self(parts)
    }
}

/// Creates resources in a project.
struct Builder<'a> {
    /// The id of the project.
    project: &'a str,
    send: &'a Send<'a>,
}

impl Builder<'_> {
    /// Creates a resource of the project in Neutron. Returns its id.
    fn neutron(&self, collection: &str, item: &str, mut fields: Value) -> String {
        fields["project_id"] = json!(self.project);
        self.without_project(&format!("/v2.0/{collection}"), item, fields)
    }

    /// Creates a resource without a project field. Returns its id.
    fn without_project(&self, path: &str, item: &str, fields: Value) -> String {
        let answer = (self.send)("POST", path, json!({ item: fields }));
        answer[item]["id"].as_str().unwrap().to_owned()
    }

    /// Creates on the network a local IP that leads to the port, and a conntrack helper of the router.
    fn helpers(&self, network: &str, port: &str, router: &str) -> [(&'static str, String); 3] {
        let local = json!({ "name": "cache", "network_id": network });
        let local = self.neutron("local_ips", "local_ip", local);
        let associations = format!("/v2.0/local_ips/{local}/port_associations");
        let leads = json!({ "port_association": { "fixed_port_id": port } });
        (self.send)("POST", &associations, leads);
        let helper = json!({ "protocol": "tcp", "port": 21, "helper": "ftp" });
        let helpers = format!("/v2.0/routers/{router}/conntrack_helpers");
        let helper = self.without_project(&helpers, "conntrack_helper", helper);
        [
            ("local_ip_association", format!("{local},{port}")),
            ("local_ip", local),
            ("conntrack_helper", format!("{router},{helper}")),
        ]
    }

    /// Creates an NDP proxy, with which the router announces a port of a network behind it.
    fn proxy(&self, pool: &str, router: &str) -> [(&'static str, String); 1] {
        let network = self.neutron("networks", "network", json!({ "name": "six" }));
        let subnet = json!({ "network_id": network, "ip_version": 6, "subnetpool_id": pool });
        let subnet = self.neutron("subnets", "subnet", subnet);
        let interface = format!("/v2.0/routers/{router}/add_router_interface");
        (self.send)("PUT", &interface, json!({ "subnet_id": subnet }));
        let port = json!({ "network_id": network, "name": "announced" });
        let port = self.neutron("ports", "port", port);
        let proxy = json!({ "name": "shown", "router_id": router, "port_id": port });
        let proxy = self.neutron("ndp_proxies", "ndp_proxy", proxy);
        [("ndp_proxy", proxy)]
    }

    fn meters(&self) -> [(&'static str, String); 2] {
        let label = json!({ "name": "traffic" });
        let label = self.neutron("metering/metering-labels", "metering_label", label);
        let rule = json!({ "metering_label_id": label, "direction": "ingress",
            "remote_ip_prefix": "192.0.2.0/24" });
        let rules = "/v2.0/metering/metering-label-rules";
        let rule = self.without_project(rules, "metering_label_rule", rule);
        [("metering_label", label), ("metering_label_rule", rule)]
    }

    fn image(&self) -> [(&'static str, String); 2] {
        let image = json!({ "name": "disk", "visibility": "shared", "owner": self.project,
            "disk_format": "raw", "container_format": "bare" });
        let image = (self.send)("POST", "/v2/images", image);
        let image = image["id"].as_str().unwrap();
        let guest = "fedcba9876543210fedcba9876543210";
        let members = format!("/v2/images/{image}/members");
        (self.send)("POST", &members, json!({ "member": guest }));
        [
            ("image_member", format!("{image},{guest}")),
            ("image", image.to_owned()),
        ]
    }

    /// Creates a load balancer with one child of every kind.
    fn balancer(&self, subnet: &str) -> [(&'static str, String); 7] {
        let rules = json!([{ "type": "PATH", "compare_type": "STARTS_WITH", "value": "/admin" }]);
        let balancer = json!({ "name": "front", "vip_subnet_id": subnet,
            "project_id": self.project, "listeners": [{
                "name": "http", "protocol": "HTTP", "protocol_port": 80,
                "l7policies": [{ "name": "no", "action": "REJECT", "rules": rules }],
                "default_pool": { "name": "web", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
                    "members": [{ "address": "10.40.0.9", "protocol_port": 8080 }],
                    "healthmonitor": { "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3 } },
            }] });
        let balancer = self.without_project(
            &format!("{BALANCERS}/loadbalancers"),
            "loadbalancer",
            balancer,
        );
        let [listener, policy, pool, monitor] =
            ["listeners", "l7policies", "pools", "healthmonitors"]
                .map(|rows| self.first(&format!("{rows}?project_id={}", self.project), rows));
        let member = self.first(&format!("pools/{pool}/members"), "members");
        let rule = self.first(&format!("l7policies/{policy}/rules"), "rules");
        [
            ("l7_rule", format!("{policy},{rule}")),
            ("l7_policy", policy),
            ("health_monitor", monitor),
            ("member", format!("{pool},{member}")),
            ("pool", pool),
            ("listener", listener),
            ("load_balancer", balancer),
        ]
    }

    /// The id of the first row of a list of Octavia.
    fn first(&self, path: &str, rows: &str) -> String {
        let answer = (self.send)("GET", &format!("{BALANCERS}/{path}"), Value::Null);
        answer[rows][0]["id"].as_str().unwrap().to_owned()
    }

    fn address_of(&self, port: &str) -> String {
        let answer = (self.send)("GET", &format!("/v2.0/ports/{port}"), Value::Null);
        let address = &answer["port"]["fixed_ips"][0]["ip_address"];
        address.as_str().unwrap().to_owned()
    }
}
