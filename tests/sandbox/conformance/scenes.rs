//! The scenes about Neutron and Glance, in the order of `tests/testbed/behaviour/network.py`.
use super::Caller::{BadToken, Demo};
use super::{Step, delete, get, image_files, image_lists, images, more_network, post, put};

pub type Scene = (&'static str, fn() -> Vec<Step>);

pub const SCENES: &[Scene] = &[
    ("networks", networks),
    ("device_owners", device_owners),
    ("missing_resources", missing_resources),
    ("router_in_use", router_in_use),
    ("router_interfaces", router_interfaces),
    ("shared_interfaces", shared_interfaces),
    ("automatic_addresses", automatic_addresses),
    ("server_owned_ports", server_owned_ports),
    ("external_networks", external_networks),
    ("port_forwardings", port_forwardings),
    ("trunks", trunks),
    ("disabled_trunks", disabled_trunks),
    ("security_groups", security_groups),
    ("pools_and_policies", pools_and_policies),
    ("segments", segments),
    ("address_groups", address_groups),
    ("qos_policies", qos_policies),
    ("local_ips", more_network::local_ips),
    ("conntrack_helpers", more_network::conntrack_helpers),
    ("ndp_proxies", more_network::ndp_proxies),
    ("metering_labels", more_network::metering_labels),
    ("permissions", permissions),
    ("if_match", if_match),
    ("revision_numbers", revision_numbers),
    ("list_pages", list_pages),
    ("list_filters", list_filters),
    ("missing_markers", missing_markers),
    ("request_bodies", request_bodies),
    ("bulk_creation", bulk_creation),
    ("tags", tags),
    ("attributes", attributes),
    ("images", images::images),
    ("image_members", images::members),
    ("image_member_added_again", images::member_added_again),
    ("image_visibility", images::visibility),
    ("image_deletion", images::deletion),
    ("image_files", image_files::files),
    ("image_tags", image_files::tags),
    ("image_lists", image_lists::lists),
    ("image_filters", image_lists::filters),
    ("image_sorting", image_lists::sorting),
    ("image_pages", image_lists::pages),
    ("image_refusals", image_lists::refusals),
];

/// A network `n` with a subnet `s`.
fn net(cidr: &'static str) -> Vec<Step> {
    vec![
        post("/networks", r#"{"network": {"name": "conformance"}}"#).save("n"),
        post("/subnets", cidr).save("s"),
    ]
}

const CIDR: &str = r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.1.0.0/24"}}"#;
const PORT: &str = r#"{"port": {"network_id": "$n"}}"#;
const SERVER_PORT: &str =
    r#"{"port": {"network_id": "$n", "device_owner": "compute:nova", "device_id": "vm"}}"#;
const DHCP_PORT: &str =
    r#"{"port": {"network_id": "$n", "device_owner": "network:dhcp", "device_id": "dhcp-x"}}"#;
const SUBNET_IN_USE: &str = "Unable to complete operation on subnet $s: One or more ports have an IP allocation from this subnet.";

fn scene(parts: Vec<Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

fn networks() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            post("/ports", SERVER_PORT).save("p"),
            delete("/networks/$n").refuses(409, "NetworkInUse", "Unable to complete operation on network $n. There are one or more ports still in use on the network, id for these ports is: $p.").row("network with ports"),
            delete("/subnets/$s").refuses(409, "SubnetInUse", SUBNET_IN_USE).row("subnet with a port"),
            delete("/ports/$p").row("compute port"),
            delete("/ports/$p").refuses(404, "PortNotFound", "Port $p could not be found."),
            post("/ports", DHCP_PORT).save("d"),
            delete("/subnets/$s").row("subnet with DHCP ports"),
            get("/ports/$d?fields=id&fields=fixed_ips&fields=device_owner")
                .shows("/port", r#"{"id": "$d", "device_owner": "network:dhcp", "fixed_ips": []}"#),
            delete("/networks/$n").row("network with automatic ports"),
            get("/ports/$d").refuses(404, "PortNotFound", "Port $d could not be found."),
        ],
        net(CIDR),
        vec![
            delete("/networks/$n").row("network with subnets"),
            get("/subnets/$s").refuses(404, "SubnetNotFound", "Subnet $s could not be found."),
        ],
    ])
}

/// For each device owner: a network with one port of that owner, and the deletion of the network.
fn device_owners() -> Vec<Step> {
    macro_rules! port_of {
        ($owner:literal) => {
            post(
                "/ports",
                concat!(
                    r#"{"port": {"network_id": "$n", "device_owner": ""#,
                    $owner,
                    r#"", "device_id": "x"}}"#
                ),
            )
            .save("p")
        };
    }
    let mut steps = Vec::new();
    for port in [
        port_of!("network:dhcp"),
        port_of!("network:distributed"),
        port_of!("network:floatingip_agent_gateway"),
    ] {
        steps.extend(net(CIDR));
        steps.push(port);
        steps.push(delete("/networks/$n").row("network with automatic ports"));
        steps.push(get("/ports/$p").refuses(404, "PortNotFound", "Port $p could not be found."));
    }
    for port in [
        port_of!("network:ha_router_replicated_interface"),
        port_of!("network:router_ha_interface"),
        port_of!("network:floatingip"),
        port_of!("network:router_gateway"),
        port_of!("network:local_ip"),
        port_of!("network:metadata"),
        port_of!("neutron:foo"),
        port_of!("Octavia"),
        port_of!("trunk:subport"),
        port_of!(""),
    ] {
        steps.extend(net(CIDR));
        steps.push(port);
        steps.push(delete("/networks/$n").refuses(409, "NetworkInUse", "Unable to complete operation on network $n. There are one or more ports still in use on the network, id for these ports is: $p.").row("network with any other port"));
        steps.push(delete("/ports/$p").row("compute port"));
        steps.push(delete("/networks/$n"));
    }
    steps
}

fn missing_resources() -> Vec<Step> {
    vec![
        delete("/networks/$gone").refuses(
            404,
            "NetworkNotFound",
            "Network $gone could not be found.",
        ),
        delete("/subnets/$gone").refuses(404, "SubnetNotFound", "Subnet $gone could not be found."),
        delete("/ports/$gone").refuses(404, "PortNotFound", "Port $gone could not be found."),
        delete("/routers/$gone").refuses(404, "RouterNotFound", "Router $gone could not be found"),
        delete("/floatingips/$gone").refuses(
            404,
            "FloatingIPNotFound",
            "Floating IP $gone could not be found",
        ),
        delete("/security-groups/$gone").refuses(
            404,
            "SecurityGroupNotFound",
            "Security group $gone does not exist",
        ),
        delete("/security-group-rules/$gone").refuses(
            404,
            "SecurityGroupRuleNotFound",
            "Security group rule $gone does not exist",
        ),
        delete("/subnetpools/$gone").refuses(
            404,
            "SubnetPoolNotFound",
            "Subnet pool $gone could not be found.",
        ),
        delete("/address-scopes/$gone").refuses(
            404,
            "AddressScopeNotFound",
            "Address scope $gone could not be found.",
        ),
        delete("/trunks/$gone").refuses(404, "TrunkNotFound", "Trunk $gone could not be found."),
        delete("/qos/policies/$gone").refuses(
            404,
            "QosPolicyNotFound",
            "QoS policy $gone could not be found.",
        ),
        delete("/rbac-policies/$gone").refuses(
            404,
            "RbacPolicyNotFound",
            "RBAC policy of type unknown with ID $gone not found",
        ),
        delete("/address-groups/$gone").refuses(
            404,
            "AddressGroupNotFound",
            "Address group $gone could not be found.",
        ),
        delete("/segments/$gone").refuses(
            404,
            "SegmentNotFound",
            "Segment $gone could not be found.",
        ),
        delete("/local_ips/$gone").refuses(
            404,
            "LocalIPNotFound",
            "Local IP $gone could not be found.",
        ),
        delete("/ndp_proxies/$gone").refuses(
            404,
            "NDPProxyNotFound",
            "Ndp proxy $gone could not be found.",
        ),
        delete("/metering/metering-labels/$gone").refuses(
            404,
            "MeteringLabelNotFound",
            "Metering label '$gone' does not exist.",
        ),
        delete("/agents/$gone").refuses(404, "AgentNotFound", "Agent $gone could not be found."),
        delete("/flavors/$gone").refuses(404, "FlavorNotFound", "Flavor $gone could not be found."),
        delete("/networks/not-a-uuid").refuses(
            404,
            "NetworkNotFound",
            "Network not-a-uuid could not be found.",
        ),
        delete("/nosuchthing/$gone").refuses(
            404,
            "HTTPNotFound",
            "The resource could not be found.",
        ),
        get("/nosuchthing").refuses(404, "HTTPNotFound", "The resource could not be found."),
        delete("/networks").refuses(404, "NetworkNotFound", "Network None could not be found."),
        delete("/ports")
            .body(r#"{"ports": [{"id": "$gone"}]}"#)
            .refuses(404, "PortNotFound", "Port None could not be found."),
        put("/networks", r#"{"network": {}}"#).refuses(
            404,
            "NetworkNotFound",
            "Network None could not be found.",
        ),
        get("/networks/$gone").refuses(404, "NetworkNotFound", "Network $gone could not be found."),
        put("/ports/$gone", r#"{"port": {"name": "x"}}"#).refuses(
            404,
            "PortNotFound",
            "Port $gone could not be found.",
        ),
        get("/extensions/trunk").shows("/extension/alias", r#""trunk""#),
        get("/extensions/nosuch").status(404),
    ]
}

/// An external network `x` with a subnet `xs`, a network `n` with a subnet `s`, and a router `r` that connects the two.
fn routed_network() -> Vec<Step> {
    scene(vec![
        vec![
            post("/networks", r#"{"network": {"name": "conformance-x", "router:external": true}}"#).save("x"),
            post("/subnets", r#"{"subnet": {"network_id": "$x", "ip_version": 4, "cidr": "172.24.0.0/24", "enable_dhcp": false}}"#).save("xs"),
        ],
        net(CIDR),
        vec![
            post("/routers", r#"{"router": {"name": "conformance", "external_gateway_info": {"network_id": "$x"}}}"#).save("r"),
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#).save("i")
                .shows("/subnet_ids", r#"["$s"]"#).shows("/id", r#""$r""#).shows("/network_id", r#""$n""#),
            get("/ports?device_id=$r&device_owner=network:router_gateway").save("g")
                .shows("/ports/0/project_id", r#""""#).shows("/ports/0/tenant_id", r#""""#),
        ],
    ])
}

const GATEWAY_IN_USE: &str = "Gateway cannot be updated for router $r, since a gateway to external network $x is required by one or more floating IPs.";

fn router_in_use() -> Vec<Step> {
    scene(vec![
        routed_network(),
        vec![
            get("/ports?device_id=$r&device_owner=network:router_interface&fields=id&fields=fixed_ips")
                .shows("/ports", r#"[{"id": "$i.port_id", "fixed_ips": [{"subnet_id": "$s", "ip_address": "10.1.0.1"}]}]"#),
            delete("/ports/$i.port_id").refuses(409, "ServicePortInUse", "Port $i.port_id cannot be deleted directly via the port API: has device owner network:router_interface.").row("router's port"),
            delete("/ports/$g").refuses(409, "ServicePortInUse", "Port $g cannot be deleted directly via the port API: has device owner network:router_gateway.").row("router's port"),
            delete("/subnets/$s").refuses(409, "SubnetInUse", SUBNET_IN_USE),
            delete("/networks/$n").refuses(409, "NetworkInUse", "Unable to complete operation on network $n. There are one or more ports still in use on the network, id for these ports is: $i.port_id."),
            delete("/routers/$r").refuses(409, "RouterInUse", "Router $r has ports still attached: $i.port_id").row("router with interfaces"),
            post("/ports", SERVER_PORT).save("p"),
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$x", "port_id": "$p"}}"#).save("f")
                .shows("/floatingip/router_id", r#""$r""#).shows("/floatingip/status", r#""DOWN""#),
            get("/ports?device_id=$f").save("fp")
                .shows("/ports/0/project_id", r#""""#).shows("/ports/0/device_owner", r#""network:floatingip""#),
            delete("/ports/$fp").refuses(409, "ServicePortInUse", "Port $fp cannot be deleted directly via the port API: has device owner network:floatingip.").row("router's port"),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(409, "RouterInterfaceInUseByFloatingIP", "Router interface for subnet $s on router $r cannot be deleted, as it is required by one or more floating IPs.").row("interface with floating IPs"),
            put("/routers/$r", r#"{"router": {"external_gateway_info": null}}"#).refuses(409, "RouterExternalGatewayInUseByFloatingIp", GATEWAY_IN_USE).row("gateway with floating IPs"),
            put("/routers/$r", r#"{"router": {"external_gateway_info": {}}}"#).refuses(409, "RouterExternalGatewayInUseByFloatingIp", GATEWAY_IN_USE).row("gateway with floating IPs"),
            delete("/networks/$x").status(409).row("external network in use"),
            delete("/subnets/$xs").status(409),
            delete("/ports/$p").row("port with a floating IP"),
            get("/floatingips/$f?fields=id&fields=port_id&fields=router_id&fields=status&fields=fixed_ip_address")
                .shows("/floatingip", r#"{"id": "$f", "router_id": null, "port_id": null, "fixed_ip_address": null, "status": "DOWN"}"#),
            delete("/floatingips/$f").row("floating IP"),
            delete("/floatingips/$f").refuses(404, "FloatingIPNotFound", "Floating IP $f could not be found"),
            get("/ports/$fp").refuses(404, "PortNotFound", "Port $fp could not be found."),
            post("/ports", SERVER_PORT).save("p"),
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$x", "port_id": "$p"}}"#).save("f"),
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$x", "port_id": "$p"}}"#).refuses(409, "FloatingIPPortAlreadyAssociated", "*"),
            delete("/floatingips/$f").row("floating IP"),
        ],
    ])
}

fn router_interfaces() -> Vec<Step> {
    const ROUTE: &str =
        r#"{"router": {"routes": [{"destination": "203.0.113.0/24", "nexthop": "10.1.0.77"}]}}"#;
    scene(vec![
        routed_network(),
        vec![
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#).refuses(400, "BadRequest", "Bad router request: Router already has a port on subnet $s."),
            put("/routers/$r", ROUTE).shows("/router/routes", r#"[{"destination": "203.0.113.0/24", "nexthop": "10.1.0.77"}]"#),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(409, "RouterInterfaceInUseByRoute", "Router interface for subnet $s on router $r cannot be deleted, as it is required by one or more routes.").row("interface with routes"),
            put("/routers/$r/remove_extraroutes", r#"{"router": {"routes": [{"destination": "198.51.100.0/24", "nexthop": "10.1.0.77"}]}}"#)
                .shows("/router/routes/0/nexthop", r#""10.1.0.77""#),
            put("/routers/$r/remove_extraroutes", ROUTE).shows("/router/routes", "[]").shows("/router/id", r#""$r""#),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#)
                .shows("", r#"{"id": "$r", "project_id": "$r.project_id", "port_id": "$i.port_id", "network_id": "$n", "subnet_id": "$s", "subnet_ids": ["$s"]}"#),
            get("/ports/$i.port_id").refuses(404, "PortNotFound", "Port $i.port_id could not be found."),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(404, "RouterInterfaceNotFoundForSubnet", "Router $r has no interface on subnet $s").row("removed interface by subnet"),
            put("/routers/$r/remove_router_interface", r#"{"port_id": "$i.port_id"}"#).refuses(404, "RouterInterfaceNotFound", "Router $r does not have an interface with id $i.port_id").row("removed interface by port"),
            put("/routers/$r/remove_router_interface", "{}").refuses(400, "BadRequest", "Bad router request: Either subnet_id or port_id must be specified.").row("interface without subnet or port"),
        ],
        net(CIDR),
        vec![
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(404, "RouterInterfaceNotFoundForSubnet", "Router $r has no interface on subnet $s").row("removed interface by subnet"),
            put("/routers/$gone/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(404, "RouterNotFound", "Router $gone could not be found").row("interface of a gone router"),
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$gone"}"#).refuses(404, "SubnetNotFound", "Subnet $gone could not be found."),
            put("/routers/$r/add_router_interface", r#"{"port_id": "$gone"}"#).refuses(404, "PortNotFound", "Port $gone could not be found."),
            put("/routers/$r/add_router_interface", "{}").refuses(400, "BadRequest", "Bad router request: Either subnet_id or port_id must be specified."),
            post("/ports", PORT).save("p"),
            put("/routers/$r/add_router_interface", r#"{"port_id": "$p"}"#),
            put("/routers/$r/remove_router_interface", r#"{"port_id": "$p"}"#)
                .shows("", r#"{"id": "$r", "project_id": "$r.project_id", "port_id": "$p", "network_id": "$n", "subnet_id": "$s", "subnet_ids": ["$s"]}"#),
            get("/ports/$p").refuses(404, "PortNotFound", "Port $p could not be found."),
            put("/routers/$r", r#"{"router": {"external_gateway_info": {"network_id": "$n"}}}"#).status(400),
            put("/routers/$r", r#"{"router": {"external_gateway_info": null}}"#).shows("/router/external_gateway_info", "null"),
            get("/ports/$g").refuses(404, "PortNotFound", "Port $g could not be found."),
        ],
    ])
}

const SLAAC: [&str; 2] = [
    r#"{"subnet": {"network_id": "$n", "ip_version": 6, "cidr": "2001:db8:1::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}}"#,
    r#"{"subnet": {"network_id": "$n", "ip_version": 6, "cidr": "2001:db8:2::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}}"#,
];

/// A router `r` with interfaces `i` and `j` on the IPv6 subnets `s` and `t` of one network.
fn router_on_two_subnets() -> Vec<Step> {
    scene(vec![
        net(SLAAC[0]),
        vec![
            post("/subnets", SLAAC[1]).save("t"),
            post("/routers", r#"{"router": {"name": "conformance"}}"#).save("r"),
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#).save("i"),
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$t"}"#)
                .shows("/port_id", r#""$i.port_id""#)
                .shows("/subnet_ids", r#"["$t"]"#),
        ],
    ])
}

fn shared_interfaces() -> Vec<Step> {
    scene(vec![
        router_on_two_subnets(),
        vec![
            put(
                "/routers/$r/remove_router_interface",
                r#"{"subnet_id": "$s"}"#,
            )
            .shows("/subnet_ids", r#"["$s"]"#)
            .row("one subnet of a shared interface"),
            get("/ports/$i.port_id").shows("/port/fixed_ips/0/subnet_id", r#""$t""#),
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#),
            put(
                "/routers/$r/remove_router_interface",
                r#"{"subnet_id": "$s", "port_id": "$i.port_id"}"#,
            )
            .status(200)
            .row("shared interface by port and subnet"),
            get("/ports/$i.port_id").refuses(
                404,
                "PortNotFound",
                "Port $i.port_id could not be found.",
            ),
        ],
        router_on_two_subnets(),
        vec![
            put(
                "/routers/$r/remove_router_interface",
                r#"{"port_id": "$i.port_id"}"#,
            )
            .status(200)
            .row("shared interface by port"),
            get("/ports/$i.port_id").refuses(
                404,
                "PortNotFound",
                "Port $i.port_id could not be found.",
            ),
        ],
    ])
}

fn automatic_addresses() -> Vec<Step> {
    scene(vec![
        router_on_two_subnets(),
        vec![
            delete("/subnets/$s").refuses(409, "SubnetInUse", "Unable to complete operation on subnet $s: One or more ports have an IP allocation from this subnet.").row("automatic subnet with a router interface"),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#),
            post("/ports", r#"{"port": {"network_id": "$n", "fixed_ips": [{"subnet_id": "$s"}]}}"#).save("p"),
            delete("/subnets/$s").status(204).row("automatic subnet with a port"),
            get("/ports/$p").status(200),
        ],
        net(r#"{"subnet": {"network_id": "$n", "ip_version": 6, "cidr": "2001:db8:3::/64", "ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}}"#),
        vec![
            post("/ports", r#"{"port": {"network_id": "$n", "fixed_ips": [{"subnet_id": "$s"}]}}"#).save("p"),
            delete("/subnets/$s").refuses(409, "SubnetInUse", "Unable to complete operation on subnet $s: One or more ports have an IP allocation from this subnet.").row("stateful subnet with a port"),
        ],
    ])
}

fn server_owned_ports() -> Vec<Step> {
    let with_port = |body: &'static str| {
        vec![
            post("/networks", r#"{"network": {"name": "conformance"}}"#)
                .by(Demo)
                .save("n"),
            post("/ports", body).by(Demo).save("p"),
            delete("/ports/$p")
                .by(Demo)
                .refuses(
                    403,
                    "PolicyNotAuthorized",
                    "rule:delete_port is disallowed by policy",
                )
                .row("server's port as a member"),
            put(
                "/ports/$p",
                r#"{"port": {"device_owner": "", "device_id": ""}}"#,
            )
            .by(Demo)
            .shows("/port/device_owner", r#""""#),
            delete("/ports/$p")
                .by(Demo)
                .status(204)
                .row("released port as a member"),
            delete("/networks/$n").by(Demo),
        ]
    };
    scene(vec![
        with_port(
            r#"{"port": {"network_id": "$n", "device_owner": "compute:nova", "device_id": "x"}}"#,
        ),
        with_port(
            r#"{"port": {"network_id": "$n", "device_owner": "baremetal:none", "device_id": "x"}}"#,
        ),
        with_port(
            r#"{"port": {"network_id": "$n", "device_owner": "manila:share", "device_id": "x"}}"#,
        ),
    ])
}

fn external_networks() -> Vec<Step> {
    const FREE: &str = r#"{"floatingip": {"floating_network_id": "$x"}}"#;
    scene(vec![
        routed_network(),
        vec![
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$n"}}"#).refuses(400, "BadRequest", "Bad floatingip request: Network $n is not a valid external network."),
            post("/ports", SERVER_PORT).save("p"),
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$x", "port_id": "$p"}}"#).save("f"),
            delete("/networks/$x").status(409).row("external network in use"),
            put("/floatingips/$f", r#"{"floatingip": {"port_id": null}}"#).shows("/floatingip/router_id", "null"),
            // Although it is refused, the call deletes the floating IPs that are not associated.
            delete("/networks/$x").refuses(409, "NetworkInUse", "Unable to complete operation on network $x. There are one or more ports still in use on the network, id for these ports is: $g.").row("external network in use"),
            get("/floatingips/$f").refuses(404, "FloatingIPNotFound", "Floating IP $f could not be found"),
            delete("/ports/$p"),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#),
            delete("/routers/$r").row("router with gateway"),
            get("/ports/$g").refuses(404, "PortNotFound", "Port $g could not be found."),
            post("/floatingips", FREE).save("f"),
            delete("/networks/$x").row("external network with free floating IPs"),
            get("/floatingips/$f?fields=id").refuses(404, "FloatingIPNotFound", "Floating IP $f could not be found"),
        ],
    ])
}

fn port_forwardings() -> Vec<Step> {
    const FORWARDING: &str = r#"{"port_forwarding": {"internal_port_id": "$p", "internal_port": 80, "external_port": 80, "protocol": "tcp", "internal_ip_address": "$p.fixed_ips.0.ip_address"}}"#;
    scene(vec![
        routed_network(),
        vec![
            post("/ports", PORT).save("p"),
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$x"}}"#).save("f"),
            post("/floatingips/$f/port_forwardings", FORWARDING).save("pf"),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(409, "RouterInterfaceInUseByFloatingIP", "Router interface for subnet $s on router $r cannot be deleted, as it is required by one or more floating IPs.").row("interface with floating IPs"),
            put("/routers/$r", r#"{"router": {"external_gateway_info": null}}"#).refuses(409, "RouterExternalGatewayInUseByFloatingIp", GATEWAY_IN_USE).row("gateway with floating IPs"),
            get("/floatingips/$f?fields=port_id&fields=port_details&fields=port_forwardings&fields=router_id")
                .shows("/floatingip", r#"{"router_id": "$r", "port_id": null, "port_details": null, "port_forwardings": [{"id": "$pf", "protocol": "tcp", "internal_ip_address": "$p.fixed_ips.0.ip_address", "internal_port_id": "$p", "internal_port": 80, "external_port": 80}]}"#),
            get("/floatingips/$f/port_forwardings/$pf").shows("/port_forwarding/internal_port_range", r#""80:80""#),
            delete("/floatingips/$f").refuses(409, "FipInUseByPortForwarding", "Floating IP $f in use by Port Forwarding resources.").row("floating IP with forwardings"),
            delete("/ports/$p").row("port with a forwarding"),
            get("/floatingips/$f/port_forwardings/$pf").refuses(404, "PortForwardingNotFound", "Port Forwarding $pf could not be found."),
            delete("/floatingips/$f/port_forwardings/$pf").refuses(404, "PortForwardingNotFound", "Port Forwarding $pf could not be found."),
            get("/floatingips/$gone/port_forwardings").refuses(404, "FloatingIPNotFound", "Floating IP $gone could not be found"),
            delete("/floatingips/$f"),
        ],
    ])
}

/// A parent `p`, a subport `q` and a trunk `t` on a network.
fn trunk_with_subport() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            post("/ports", PORT).save("p"),
            post("/ports", PORT).save("q"),
            post("/trunks", r#"{"trunk": {"port_id": "$p", "sub_ports": [{"port_id": "$q", "segmentation_type": "vlan", "segmentation_id": 5}]}}"#).save("t"),
        ],
    ])
}

fn trunks() -> Vec<Step> {
    const ADD: &str =
        r#"{"sub_ports": [{"port_id": "$q", "segmentation_type": "vlan", "segmentation_id": 5}]}"#;
    const REMOVE: &str = r#"{"sub_ports": [{"port_id": "$q"}]}"#;
    scene(vec![
        trunk_with_subport(),
        vec![
            get("/ports/$q?fields=device_owner&fields=device_id&fields=trunk_details").shows("/port", r#"{"device_id": "", "device_owner": ""}"#),
            get("/ports/$p?fields=device_owner&fields=device_id&fields=trunk_details")
                .shows("/port", r#"{"device_id": "", "device_owner": "", "trunk_details": {"trunk_id": "$t", "sub_ports": [{"segmentation_id": 5, "segmentation_type": "vlan", "port_id": "$q", "mac_address": "$q.mac_address"}]}}"#),
            get("/trunks/$t/get_subports").shows("", ADD),
            delete("/ports/$p").refuses(409, "PortInUseAsTrunkParent", "Port $p is currently a parent port for trunk $t.").row("trunk's parent"),
            delete("/ports/$q").refuses(409, "PortInUseAsSubPort", "Port $q is currently a subport for trunk $t.").row("trunk's subport"),
            delete("/networks/$n").status(409),
            post("/trunks", r#"{"trunk": {"port_id": "$p"}}"#).refuses(409, "ParentPortInUse", "Port $p is currently in use and is not eligible for use as a parent port."),
            post("/trunks", r#"{"trunk": {"port_id": "$gone"}}"#).refuses(404, "PortNotFound", "Port $gone could not be found."),
            put("/trunks/$t/remove_subports", REMOVE).shows("/sub_ports", "[]").shows("/id", r#""$t""#).shows("/revision_number", "0"),
            put("/trunks/$t/remove_subports", REMOVE).refuses(404, "SubPortNotFound", "SubPort $q on trunk $t could not be found."),
            put("/trunks/$t/add_subports", ADD).shows("/revision_number", "0"),
            put("/trunks/$t/add_subports", ADD).refuses(409, "TrunkPortInUse", "Port $q is in use by another trunk."),
            post("/ports", PORT).save("o"),
            put("/trunks/$t/add_subports", r#"{"sub_ports": [{"port_id": "$o"}]}"#).status(400),
            put("/trunks/$t/add_subports", r#"{"sub_ports": [{"port_id": "$gone", "segmentation_type": "vlan", "segmentation_id": 8}]}"#).refuses(404, "PortNotFound", "Port $gone could not be found."),
            post("/ports", SERVER_PORT).save("o"),
            put("/trunks/$t/add_subports", r#"{"sub_ports": [{"port_id": "$o", "segmentation_type": "vlan", "segmentation_id": 6}]}"#).refuses(409, "PortInUse", "Unable to complete operation on port $o for network $n. Port already has an attached device vm."),
            delete("/trunks/$t").row("trunk with subports"),
            get("/ports/$p?fields=id").shows("/port", r#"{"id": "$p"}"#),
            get("/ports/$q?fields=id").shows("/port", r#"{"id": "$q"}"#),
            delete("/ports/$p"),
            delete("/ports/$q"),
        ],
    ])
}

fn disabled_trunks() -> Vec<Step> {
    const DISABLED: (&str, &str) = ("TrunkDisabled", "Trunk $t is currently disabled.");
    scene(vec![
        trunk_with_subport(),
        vec![
            put("/trunks/$t", r#"{"trunk": {"admin_state_up": false}}"#).shows("/trunk/admin_state_up", "false").shows("/trunk/revision_number", "1"),
            put("/trunks/$t/remove_subports", r#"{"sub_ports": [{"port_id": "$q"}]}"#).refuses(409, DISABLED.0, DISABLED.1),
            post("/ports", PORT).save("o"),
            put("/trunks/$t/add_subports", r#"{"sub_ports": [{"port_id": "$o", "segmentation_type": "vlan", "segmentation_id": 6}]}"#).refuses(409, DISABLED.0, DISABLED.1),
            put("/trunks/$t/add_subports", r#"{"sub_ports": [{"port_id": "$q", "segmentation_type": "vlan", "segmentation_id": 6}]}"#).refuses(409, "TrunkPortInUse", "Port $q is in use by another trunk."),
            delete("/trunks/$t").refuses(409, DISABLED.0, DISABLED.1),
            put("/trunks/$t", r#"{"trunk": {"admin_state_up": true}}"#).shows("/trunk/revision_number", "2"),
            delete("/trunks/$t"),
        ],
    ])
}

fn security_groups() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            post("/security-groups", r#"{"security_group": {"name": "conformance-1"}}"#).save("g"),
            post("/security-groups", r#"{"security_group": {"name": "conformance-2"}}"#).save("h"),
            post("/security-group-rules", r#"{"security_group_rule": {"security_group_id": "$g", "remote_group_id": "$h", "direction": "ingress", "ethertype": "IPv4"}}"#).save("u"),
            post("/security-group-rules", r#"{"security_group_rule": {"security_group_id": "$g", "remote_group_id": "$h", "direction": "ingress", "ethertype": "IPv4"}}"#).refuses(409, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is $u."),
            post("/security-group-rules", r#"{"security_group_rule": {"security_group_id": "$h", "remote_group_id": "$g", "direction": "ingress", "ethertype": "IPv4"}}"#),
            post("/ports", r#"{"port": {"network_id": "$n", "security_groups": ["$g"]}}"#).save("p"),
            delete("/security-groups/$g").refuses(409, "SecurityGroupInUse", "Security Group $g in use.").row("group on a port"),
            put("/ports/$p", r#"{"port": {"security_groups": ["$gone"]}}"#).refuses(404, "SecurityGroupNotFound", "Security group $gone does not exist"),
            delete("/ports/$p"),
            delete("/security-groups/$h").row("group named by others' rules"),
            get("/security-group-rules/$u").refuses(404, "SecurityGroupRuleNotFound", "Security group rule $u does not exist"),
            post("/security-groups", r#"{"security_group": {"name": "conformance-3"}}"#).save("h"),
            get("/security-groups?name=default&project_id=$lonely").save("d").shows("/security_groups/0/project_id", r#""$lonely""#),
            delete("/security-groups/$d").row("default group as admin"),
            get("/security-groups/$d").refuses(404, "SecurityGroupNotFound", "Security group $d does not exist"),
            get("/security-groups?name=default&project_id=$lonely").save("d").shows("/security_groups/0/name", r#""default""#),
            delete("/security-groups/$d"),
            post("/security-groups", r#"{"security_group": {"name": "default"}}"#).refuses(409, "SecurityGroupDefaultAlreadyExists", "Default security group already exists."),
            get("/security-groups?name=default").by(Demo).save("d"),
            delete("/security-groups/$d").by(Demo).refuses(409, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.").row("default group as a member"),
        ],
    ])
}

fn address_groups() -> Vec<Step> {
    vec![
        post("/address-groups", r#"{"address_group": {"name": "conformance", "addresses": ["nonsense"]}}"#).refuses(400, "HTTPBadRequest", "Invalid input for addresses. Reason: 'nonsense' is not a valid IP subnet."),
        post("/address-groups", r#"{"address_group": {"name": "conformance"}}"#).save("e").shows("/address_group/addresses", "[]").shows("/address_group/revision_number", "0"),
        post("/address-groups", r#"{"address_group": {"name": "conformance", "addresses": ["192.0.2.0/24"]}}"#).save("a").shows("/address_group/addresses", r#"["192.0.2.0/24"]"#).shows("/address_group/revision_number", "1"),
        post("/security-groups", r#"{"security_group": {"name": "conformance"}}"#).save("g"),
        post("/security-group-rules", r#"{"security_group_rule": {"security_group_id": "$g", "direction": "ingress", "remote_address_group_id": "$gone"}}"#).refuses(404, "AddressGroupNotFound", "Address group $gone could not be found."),
        post("/security-group-rules", r#"{"security_group_rule": {"security_group_id": "$g", "direction": "ingress", "remote_address_group_id": "$a"}}"#).save("r").shows("/security_group_rule/remote_address_group_id", r#""$a""#),
        get("/security-group-rules?remote_address_group_id=$a&fields=direction").shows("/security_group_rules/0/direction", r#""ingress""#),
        get("/address-groups?tags=x").refuses(400, "HTTPBadRequest", "['tags'] is invalid attribute for filtering"),
        delete("/address-groups/$a").refuses(409, "AddressGroupInUse", "Address group $a is in use on one or more security group rules.").row("address group in a rule"),
        delete("/security-groups/$g"),
        delete("/address-groups/$a"),
        delete("/address-groups/$e"),
        get("/address-groups/$a").refuses(404, "AddressGroupNotFound", "Address group $a could not be found."),
    ]
}

fn qos_policies() -> Vec<Step> {
    let used = |by: &'static str| {
        delete("/qos/policies/$q")
            .refuses(409, "QosPolicyInUse", by)
            .row("QoS policy in use")
    };
    vec![
        post("/qos/policies", r#"{"policy": {"name": "conformance"}}"#)
            .save("q")
            .shows("/policy/rules", "[]")
            .shows("/policy/is_default", "false"),
        post(
            "/networks",
            r#"{"network": {"name": "conformance", "qos_policy_id": "$q"}}"#,
        )
        .save("n"),
        used("QoS Policy $q is used by network $n."),
        post(
            "/ports",
            r#"{"port": {"network_id": "$n", "qos_policy_id": "$gone"}}"#,
        )
        .refuses(
            404,
            "QosPolicyNotFound",
            "QoS policy $gone could not be found.",
        ),
        post("/ports", r#"{"port": {"network_id": "$n"}}"#)
            .save("o")
            .shows("/port/qos_policy_id", "null")
            .shows("/port/qos_network_policy_id", r#""$q""#),
        post(
            "/ports",
            r#"{"port": {"network_id": "$n", "qos_policy_id": "$q"}}"#,
        )
        .save("p")
        .shows("/port/qos_policy_id", r#""$q""#),
        get("/ports?qos_policy_id=$q").refuses(
            400,
            "HTTPBadRequest",
            "['qos_policy_id'] is invalid attribute for filtering",
        ),
        // If a port and a network use the policy, the message names the port.
        used("QoS Policy $q is used by port $p."),
        put("/networks/$n", r#"{"network": {"qos_policy_id": null}}"#),
        used("QoS Policy $q is used by port $p."),
        delete("/ports/$p"),
        delete("/ports/$o"),
        delete("/qos/policies/$q"),
        get("/qos/policies/$q").refuses(
            404,
            "QosPolicyNotFound",
            "QoS policy $q could not be found.",
        ),
        delete("/networks/$n"),
    ]
}

fn segments() -> Vec<Step> {
    vec![
        post("/networks", r#"{"network": {"name": "conformance"}}"#).save("n"),
        get("/segments?network_id=$n").save("f").shows("/segments/0/name", "null").shows("/segments/0/network_id", r#""$n""#),
        get("/segments?network_id=$n&name=second").shows("/segments", "[]"),
        post("/segments", r#"{"segment": {"network_id": "$n", "name": "second"}}"#).refuses(400, "HTTPBadRequest", "Failed to parse request. Required attribute 'network_type' not specified"),
        post("/segments", r#"{"segment": {"network_id": "$n", "network_type": "vxlan", "name": "second"}}"#).save("g").shows("/segment/network_id", r#""$n""#),
        get("/segments?network_id=$n&name=second&fields=id").shows("/segments/0/id", r#""$g""#),
        post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.1.0.0/24", "segment_id": "$gone"}}"#).refuses(404, "SegmentNotFound", "Segment $gone could not be found."),
        post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.1.0.0/24", "segment_id": "$g"}}"#).save("s").shows("/subnet/segment_id", r#""$g""#),
        get("/subnets?segment_id=$g&fields=id").shows("/subnets", r#"[{"id": "$s"}]"#),
        // The message repeats its reason, two or three times: as often as Neutron ran its check.
        delete("/segments/$g").refuses(409, "SegmentInUse", "*"),
        delete("/subnets/$s"),
        delete("/segments/$g"),
        delete("/segments/$f").row("last segment"),
        delete("/segments/$g").refuses(404, "SegmentNotFound", "Segment $g could not be found."),
        delete("/networks/$n"),
        get("/segments?network_id=$n").shows("/segments", "[]"),
    ]
}

fn pools_and_policies() -> Vec<Step> {
    vec![
        post("/address-scopes", r#"{"address_scope": {"name": "conformance"}}"#).refuses(400, "HTTPBadRequest", "Failed to parse request. Required attribute 'ip_version' not specified"),
        post("/address-scopes", r#"{"address_scope": {"name": "conformance", "ip_version": 4}}"#).save("a").shows("/address_scope/shared", "false").shows("/address_scope/ip_version", "4"),
        put("/address-scopes/$a", r#"{"address_scope": {"ip_version": 6}}"#).refuses(400, "HTTPBadRequest", "Cannot update read-only attribute ip_version"),
        post("/subnetpools", r#"{"subnetpool": {"name": "conformance", "prefixes": ["10.128.0.0/16"], "default_prefixlen": 24, "address_scope_id": "$a"}}"#).save("o").shows("/subnetpool/address_scope_id", r#""$a""#),
        post("/subnetpools", r#"{"subnetpool": {"name": "conformance", "prefixes": ["10.1.0.0/16"], "address_scope_id": "$gone"}}"#).refuses(404, "AddressScopeNotFound", "Address scope $gone could not be found."),
        delete("/address-scopes/$a").refuses(409, "AddressScopeInUse", "Unable to complete operation on address scope $a. There are one or more subnet pools in use on the address scope.").row("address scope with pools"),
        get("/subnetpools?address_scope_id=$a&fields=id").shows("/subnetpools", r#"[{"id": "$o"}]"#),
        post("/networks", r#"{"network": {"name": "conformance"}}"#).save("n"),
        post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4, "subnetpool_id": "$o"}}"#).save("s").shows("/subnet/cidr", r#""10.128.0.0/24""#),
        post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.1.0.0/24"}}"#).refuses(400, "NetworkSubnetPoolAffinityError", "Subnets hosted on the same network must be allocated from the same subnet pool."),
        delete("/subnetpools/$o").refuses(400, "SubnetPoolDeleteError", "Unable to delete subnet pool: Subnet pool has existing allocations.").row("subnet pool with subnets"),
        post("/rbac-policies", r#"{"rbac_policy": {"object_type": "network", "object_id": "$n", "action": "access_as_shared", "target_tenant": "$demo"}}"#).save("b"),
        get("/networks/$n?fields=shared").shows("/network", r#"{"shared": false}"#),
        get("/networks/$n?fields=shared").by(Demo).shows("/network", r#"{"shared": true}"#),
        post("/ports", PORT).by(Demo).save("p").shows("/port/project_id", r#""$demo""#),
        post("/ports", PORT).save("q"),
        delete("/rbac-policies/$b").status(409).row("RBAC policy in use"),
        delete("/networks/$n").status(409).row("shared network with another project's port"),
        delete("/ports/$p").by(Demo),
        delete("/ports/$q").by(Demo).refuses(404, "PortNotFound", "Port $q could not be found."),
        delete("/ports/$q"),
        delete("/networks/$n").row("network with subnets"),
        // The message names the type only if the Neutron process that answers has handled the policy before.
        get("/rbac-policies/$b").refuses(404, "RbacPolicyNotFound", "*"),
        delete("/subnetpools/$o"),
        delete("/address-scopes/$a"),
        get("/address-scopes/$a").refuses(404, "AddressScopeNotFound", "Address scope $a could not be found."),
    ]
}

fn permissions() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            delete("/networks/$n").by(Demo).refuses(404, "NetworkNotFound", "Network $n could not be found.").row("another project's network"),
            get("/networks/$n").by(Demo).refuses(404, "NetworkNotFound", "Network $n could not be found."),
            post("/ports", PORT).by(Demo).refuses(404, "NetworkNotFound", "Network $n could not be found."),
            post("/networks", r#"{"network": {"name": "conformance-shared", "shared": true}}"#).save("h"),
            delete("/networks/$h").by(Demo).refuses(403, "PolicyNotAuthorized", "rule:delete_network is disallowed by policy").row("shared network as a member"),
            put("/networks/$h", r#"{"network": {"name": "x"}}"#).by(Demo).refuses(403, "PolicyNotAuthorized", "rule:update_network is disallowed by policy"),
            post("/networks", r#"{"network": {"name": "x", "shared": true}}"#).by(Demo).refuses(403, "PolicyNotAuthorized", "(rule:create_network and rule:create_network:shared) is disallowed by policy"),
            post("/networks", r#"{"network": {"name": "x", "project_id": "other"}}"#).by(Demo).refuses(400, "HTTPBadRequest", "Specifying 'project_id' other than the authenticated project in request is not allowed for the current user."),
            get("/networks").by(BadToken).refuses(401, "Unauthorized", "The request you have made requires authentication.").row("bad token"),
            delete("/networks/$n").by(BadToken).refuses(401, "Unauthorized", "The request you have made requires authentication.").row("bad token"),
            post("/networks", r#"{"network": {"name": "conformance-demo"}}"#).by(Demo).save("m"),
            post("/ports", r#"{"port": {"network_id": "$m"}}"#).save("p"),
            // The owner of a network may delete ports of other projects on it.
            delete("/ports/$p").by(Demo),
            delete("/networks/$m").by(Demo),
        ],
    ])
}

fn if_match() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            delete("/networks/$n").if_match("revision_number=0").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 0, but current revision is 2"),
            put("/networks/$n", r#"{"network": {"name": "x"}}"#).if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 2"),
            delete("/networks/$n").if_match("revision_number=abc").refuses(400, "BadRequest", "Bad if-match request: Revision number etag must be in the format of revision_number=<int>."),
            delete("/networks/$n").if_match("revision_number=2"),
            delete("/networks/$n").if_match("revision_number=2").refuses(404, "NetworkNotFound", "Network $n could not be found."),
        ],
        net(CIDR),
        vec![delete("/networks/$n").if_match("0")],
        net(CIDR),
        vec![
            post("/ports", PORT).save("p"),
            post("/routers", r#"{"router": {"name": "conformance"}}"#).save("r"),
            post("/security-groups", r#"{"security_group": {"name": "conformance"}}"#).save("g"),
            post("/trunks", r#"{"trunk": {"port_id": "$p"}}"#).save("t"),
            delete("/trunks/$t").if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 0"),
            delete("/trunks/$t"),
            put("/ports/$p", r#"{"port": {"name": "x"}}"#).if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 1"),
            delete("/ports/$p").if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 1"),
            // Dependencies are checked before revision numbers.
            delete("/subnets/$s").if_match("revision_number=999").refuses(409, "SubnetInUse", SUBNET_IN_USE),
            delete("/networks/$n").if_match("revision_number=999").status(409),
            delete("/routers/$r").if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 1"),
            put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#).save("i"),
            delete("/routers/$r").if_match("revision_number=999").refuses(409, "RouterInUse", "Router $r has ports still attached: $i.port_id"),
            put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 2"),
            delete("/security-groups/$g").if_match("revision_number=999").refuses(412, "RevisionNumberConstraintFailed", "Constrained to 999, but current revision is 1"),
        ],
    ])
}

fn revision_numbers() -> Vec<Step> {
    vec![
        post("/networks", r#"{"network": {"name": "conformance"}}"#).save("n").shows("/network/revision_number", "1"),
        post("/subnets", CIDR).save("s").shows("/subnet/revision_number", "0"),
        get("/networks/$n?fields=revision_number").shows("/network/revision_number", "2"),
        post("/ports", PORT).save("p").shows("/port/revision_number", "1"),
        get("/networks/$n?fields=revision_number").shows("/network/revision_number", "2"),
        post("/routers", r#"{"router": {"name": "conformance"}}"#).save("r").shows("/router/revision_number", "1"),
        put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#),
        get("/routers/$r?fields=revision_number").shows("/router/revision_number", "2"),
        put("/routers/$r", r#"{"router": {"routes": [{"destination": "203.0.113.0/24", "nexthop": "10.1.0.77"}]}}"#).shows("/router/revision_number", "3"),
        put("/routers/$r/remove_extraroutes", r#"{"router": {"routes": [{"destination": "203.0.113.0/24", "nexthop": "10.1.0.77"}]}}"#).shows("/router/revision_number", "4"),
        get("/subnets/$s?fields=revision_number").shows("/subnet/revision_number", "0"),
        put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#),
        get("/routers/$r?fields=revision_number").shows("/router/revision_number", "5"),
        put("/networks/$n", r#"{"network": {"name": "conformance-renamed"}}"#).shows("/network/revision_number", "3"),
        put("/subnets/$s", r#"{"subnet": {"name": "conformance-renamed"}}"#).shows("/subnet/revision_number", "1"),
        put("/ports/$p", r#"{"port": {"name": "conformance-renamed"}}"#).shows("/port/revision_number", "2"),
    ]
}

/// A network with five ports named `l0` to `l4`, with tags.
fn five_ports() -> Vec<Step> {
    macro_rules! port {
        ($name:literal, $tag:literal) => {
            vec![
                post(
                    "/ports",
                    concat!(
                        r#"{"port": {"network_id": "$n", "name": ""#,
                        $name,
                        r#""}}"#
                    ),
                )
                .save($name),
                put(
                    concat!("/ports/$", $name, "/tags"),
                    concat!(r#"{"tags": ["all", ""#, $tag, r#""]}"#),
                ),
            ]
        };
    }
    scene(vec![
        net(CIDR),
        port!("l0", "t0"),
        port!("l1", "t1"),
        port!("l2", "t0"),
        port!("l3", "t1"),
        port!("l4", "t0"),
    ])
}

fn list_pages() -> Vec<Step> {
    scene(vec![
        five_ports(),
        vec![
            get("/ports?network_id=$n&limit=2&sort_key=name&sort_dir=desc&fields=id&fields=name").shows("", r#"{
                "ports": [{"id": "$l4", "name": "l4"}, {"id": "$l3", "name": "l3"}],
                "ports_links": [
                    {"rel": "next", "href": "$url/ports?network_id=$n&limit=2&sort_key=name&sort_dir=desc&fields=id&fields=name&marker=$l3"},
                    {"rel": "previous", "href": "$url/ports?network_id=$n&limit=2&sort_key=name&sort_dir=desc&fields=id&fields=name&marker=$l4&page_reverse=True"}
                ]}"#),
            get("/ports?network_id=$n&limit=2&sort_key=name&sort_dir=desc&fields=id&fields=name&marker=$l3")
                .shows("/ports", r#"[{"id": "$l2", "name": "l2"}, {"id": "$l1", "name": "l1"}]"#)
                .shows("/ports_links/0/rel", r#""next""#),
            get("/ports?network_id=$n&limit=2&sort_key=name&sort_dir=desc&fields=name&marker=$l1").shows("", r#"{
                "ports": [{"name": "l0"}],
                "ports_links": [{"rel": "previous", "href": "$url/ports?network_id=$n&limit=2&sort_key=name&sort_dir=desc&fields=name&marker=$l0&page_reverse=True"}]}"#),
            get("/ports?network_id=$n&limit=5&sort_key=name&sort_dir=asc&fields=name")
                .shows("/ports", r#"[{"name": "l0"}, {"name": "l1"}, {"name": "l2"}, {"name": "l3"}, {"name": "l4"}]"#)
                .shows("/ports_links/0/rel", r#""next""#)
                .shows("/ports_links/1/rel", r#""previous""#),
            get("/ports?network_id=$n&limit=5&sort_key=name&sort_dir=asc&fields=name&marker=$l4").shows("", r#"{
                "ports": [],
                "ports_links": [{"rel": "previous", "href": "$url/ports?network_id=$n&limit=5&sort_key=name&sort_dir=asc&fields=name&page_reverse=True"}]}"#),
            get("/ports?network_id=$n&sort_key=name&sort_dir=asc&fields=id&page_reverse=true&limit=1&marker=$l2").shows("", r#"{
                "ports": [{"id": "$l1"}],
                "ports_links": [
                    {"rel": "next", "href": "$url/ports?network_id=$n&sort_key=name&sort_dir=asc&fields=id&limit=1&marker=$l1"},
                    {"rel": "previous", "href": "$url/ports?network_id=$n&sort_key=name&sort_dir=asc&fields=id&limit=1&marker=$l1&page_reverse=True"}
                ]}"#),
            get("/ports?network_id=$n&sort_key=name&sort_dir=asc&fields=name&page_reverse=true&limit=3&marker=$l2").shows("", r#"{
                "ports": [{"name": "l0"}, {"name": "l1"}],
                "ports_links": [{"rel": "next", "href": "$url/ports?network_id=$n&sort_key=name&sort_dir=asc&fields=name&limit=3&marker=$l1"}]}"#),
            get("/ports?fixed_ips=subnet_id%3D$s&sort_key=name&sort_dir=asc&fields=name&limit=1").shows("", r#"{
                "ports": [{"name": "l0"}],
                "ports_links": [
                    {"rel": "next", "href": "$url/ports?fixed_ips=subnet_id%3D$s&sort_key=name&sort_dir=asc&fields=name&limit=1&marker=$l0"},
                    {"rel": "previous", "href": "$url/ports?fixed_ips=subnet_id%3D$s&sort_key=name&sort_dir=asc&fields=name&limit=1&marker=$l0&page_reverse=True"}
                ]}"#),
            get("/ports?network_id=$n&limit=0&fields=name&sort_key=name&sort_dir=asc")
                .shows("", r#"{"ports": [{"name": "l0"}, {"name": "l1"}, {"name": "l2"}, {"name": "l3"}, {"name": "l4"}]}"#),
            get("/ports?limit=-1&network_id=$n").refuses(400, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not '-1'."),
            get("/ports?limit=x&network_id=$n").refuses(400, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not 'x'."),
            get("/ports?fields=nosuch&limit=1&network_id=$n").shows("/ports", "[{}]"),
            get("/ports?sort_key=nosuch&sort_dir=asc").refuses(400, "HTTPBadRequest", "*"),
            get("/ports?sort_key=name&sort_dir=up").refuses(400, "HTTPBadRequest", "*"),
            get("/networks?id=$n&fields=id&fields=subnets").shows("", r#"{"networks": [{"id": "$n", "subnets": ["$s"]}]}"#),
        ],
    ])
}

fn list_filters() -> Vec<Step> {
    const SORTED: &str = r#"[{"name": "l1"}, {"name": "l3"}]"#;
    scene(vec![
        five_ports(),
        vec![
            get("/ports?network_id=$n&tags=all,t1&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=$n&tags-any=t1,nosuch&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=$n&tags-any=nosuch&tags-any=t1&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=$n&tags=all&tags=t1&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=$n&not-tags=t0&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=$n&not-tags-any=t0,nosuch&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=$n&name=l1&name=l3&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?id=$l1&id=$l3&id=$gone&fields=name&sort_key=name&sort_dir=asc").shows("/ports", SORTED),
            get("/ports?network_id=&fields=id").shows("", r#"{"ports": []}"#),
            get("/ports?network_id=$gone").shows("", r#"{"ports": []}"#),
            get("/ports?network_id=$n&device_owner=&name=l2&fields=name").shows("/ports", r#"[{"name": "l2"}]"#),
            get("/ports?network_id=$n&admin_state_up=False").shows("/ports", "[]"),
            get("/ports?network_id=$n&admin_state_up=true&name=l4&fields=name").shows("/ports", r#"[{"name": "l4"}]"#),
            get("/ports?fixed_ips=ip_address%3D$l2.fixed_ips.0.ip_address&fixed_ips=subnet_id%3D$s&fields=name").shows("/ports", r#"[{"name": "l2"}]"#),
            get("/ports?mac_address=$l2.mac_address&network_id=$n&fields=name").shows("/ports", r#"[{"name": "l2"}]"#),
            get("/ports?nosuch=1").refuses(400, "HTTPBadRequest", "['nosuch'] is invalid attribute for filtering"),
            get("/ports/$l1?nosuch=1").refuses(400, "HTTPBadRequest", "['nosuch'] is invalid attribute for filtering"),
            get("/ports?dns_name=x").refuses(400, "HTTPBadRequest", "['dns_name'] is invalid attribute for filtering"),
            get("/routers?status=ACTIVE").refuses(400, "HTTPBadRequest", "['status'] is invalid attribute for filtering"),
            get("/subnets?network_id=$n&fields=cidr").shows("/subnets", r#"[{"cidr": "10.1.0.0/24"}]"#),
            get("/networks?router:external=true&id=$n").shows("/networks", "[]"),
            get("/networks?router:external=false&id=$n&fields=id").shows("/networks", r#"[{"id": "$n"}]"#),
            get("/networks?shared=false&id=$n&fields=id").shows("/networks", r#"[{"id": "$n"}]"#),
        ],
    ])
}

/// Lists after a marker that does not exist: for some kinds the answer is 404, for other kinds the list starts from the
/// beginning.
fn missing_markers() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            get("/ports?limit=2&marker=$gone").refuses(
                404,
                "PortNotFound",
                "Port $gone could not be found.",
            ),
            get("/networks?limit=2&marker=$gone").refuses(
                404,
                "NetworkNotFound",
                "Network $gone could not be found.",
            ),
            get("/subnets?network_id=$n&fields=id&limit=2&marker=$gone")
                .shows("/subnets", r#"[{"id": "$s"}]"#),
            get("/routers?limit=2&marker=$gone").refuses(
                404,
                "RouterNotFound",
                "Router $gone could not be found",
            ),
            get("/floatingips?limit=2&marker=$gone").status(200),
            get("/trunks?limit=2&marker=$gone").status(200),
            get("/security-groups?limit=2&marker=$gone").status(200),
            get("/security-group-rules?limit=2&marker=$gone").status(200),
            get("/subnetpools?limit=2&marker=$gone").status(200),
            // Without a limit, Neutron ignores the marker.
            get("/ports?network_id=$gone&marker=$gone").shows("", r#"{"ports": []}"#),
        ],
    ])
}

fn request_bodies() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            post("/ports", r#"{"port": {"network_id": "$n", "name": "conformance"}}"#).save("p"),
            put("/ports/$p", r#"{"port": {"name": "x", "nosuch": 1}}"#).refuses(400, "HTTPBadRequest", "Unrecognized attribute(s) 'nosuch'"),
            put("/ports/$p", r#"{"port": {"network_id": "$n"}}"#).refuses(400, "HTTPBadRequest", "Cannot update read-only attribute network_id"),
            post("/networks", r#"{"network": {"id": "$gone"}}"#).refuses(400, "HTTPBadRequest", "Attribute 'id' not allowed in POST"),
            post("/networks", r#"{"network": {"name": 3}}"#).refuses(400, "HTTPBadRequest", "Invalid input for name. Reason: '3' is not a valid string."),
            post("/networks", "{}").refuses(400, "HTTPBadRequest", "Unable to find 'network' in request body"),
            post("/ports", r#"{"port": {"name": "x"}}"#).refuses(400, "HTTPBadRequest", "Failed to parse request. Required attribute 'network_id' not specified"),
            post("/ports", r#"{"port": {"network_id": "$gone"}}"#).refuses(404, "NetworkNotFound", "Network $gone could not be found."),
            post("/networks/$n", r#"{"network": {}}"#).refuses(405, "HTTPMethodNotAllowed", "The server could not comply with the request since it is either malformed or otherwise incorrect."),
            post("/subnets", CIDR).refuses(400, "InvalidInput", "Invalid input for operation: Requested subnet with cidr: 10.1.0.0/24 for network: $n overlaps with another subnet."),
            post("/ports", r#"{"port": {"network_id": "$n", "fixed_ips": [{"subnet_id": "$s", "ip_address": "$p.fixed_ips.0.ip_address"}]}}"#).refuses(409, "IpAddressAlreadyAllocated", "IP address $p.fixed_ips.0.ip_address already allocated in subnet $s"),
            post("/ports", r#"{"port": {"network_id": "$n", "fixed_ips": [{"subnet_id": "$s", "ip_address": "10.99.0.1"}]}}"#).refuses(400, "InvalidIpForSubnet", "IP address 10.99.0.1 is not a valid IP for the specified subnet."),
            put("/networks/$gone", r#"{"network": {"nosuch": 1}}"#).refuses(400, "HTTPBadRequest", "Unrecognized attribute(s) 'nosuch'"),
            put("/networks/$gone", "{}").refuses(404, "NetworkNotFound", "Network $gone could not be found."),
            put("/networks/$n", "{}").refuses(400, "HTTPBadRequest", "Unable to find 'network' in request body"),
            post("/networks", r#"{"network": {"tags": ["a"]}}"#).refuses(400, "HTTPBadRequest", "Attribute 'tags' not allowed in POST"),
            post("/ports", r#"{"port": {"network_id": "$n", "tags": ["a"]}}"#).save("q"),
            get("/ports/$q?fields=tags").shows("/port", r#"{"tags": []}"#),
            put("/ports/$q", r#"{"port": {"tags": ["a"]}}"#).refuses(400, "HTTPBadRequest", "Cannot update read-only attribute tags"),
            post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "banana"}}"#).refuses(400, "InvalidInput", "Invalid input for operation: banana is not in a CIDR format."),
            post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4}}"#).refuses(400, "BadRequest", "Bad subnets request: a subnetpool must be specified in the absence of a cidr."),
            post("/subnets", r#"{"subnet": {"network_id": "$n", "cidr": "10.77.0.0/24"}}"#).refuses(400, "HTTPBadRequest", "Failed to parse request. Required attribute 'ip_version' not specified"),
            post("/ports", r#"{"port": {"network_id": "x"}}"#).refuses(400, "HTTPBadRequest", "Invalid input for network_id. Reason: 'x' is not a valid UUID."),
            post("/networks", r#"{"network": {"admin_state_up": "maybe"}}"#).refuses(400, "InvalidInput", "Invalid input for operation: 'maybe' cannot be converted to boolean."),
            post("/routers", r#"{"router": {"external_gateway_info": {"network_id": "$gone"}}}"#).refuses(404, "NetworkNotFound", "Network $gone could not be found."),
            post("/floatingips", r#"{"floatingip": {"floating_network_id": "$gone"}}"#).refuses(404, "NetworkNotFound", "Network $gone could not be found."),
            put("/ports/$q", r#"{"port": {"fixed_ips": [{"subnet_id": "$gone"}]}}"#).refuses(404, "SubnetNotFound", "Subnet $gone could not be found."),
            post("/trunks", r#"{"trunk": {}}"#).refuses(400, "HTTPBadRequest", "Failed to parse request. Required attribute 'port_id' not specified"),
            get("/networks/${n}.json?fields=id").shows("/network", r#"{"id": "$n"}"#),
        ],
    ])
}

fn bulk_creation() -> Vec<Step> {
    const NOT_SUPPORTED: (&str, &str) = ("HTTPBadRequest", "Bulk operation not supported");
    vec![
        post("/networks", r#"{"networks": [{"name": "conformance-1"}, {"name": "conformance-2"}]}"#).save("n").shows("/networks/1/name", r#""conformance-2""#),
        post("/subnets", r#"{"subnets": [{"network_id": "$n", "ip_version": 4, "cidr": "10.1.0.0/24"}]}"#),
        post("/ports", r#"{"ports": [{"network_id": "$n", "name": "b1"}, {"network_id": "$n", "name": "b2"}]}"#).save("p").shows("/ports/1/name", r#""b2""#),
        // A bulk creation creates all ports or none.
        post("/ports", r#"{"ports": [{"network_id": "$n", "name": "b3"}, {"network_id": "$gone", "name": "b4"}]}"#).refuses(404, "NetworkNotFound", "Network $gone could not be found."),
        get("/ports?network_id=$n&name=b3").shows("/ports", "[]"),
        post("/security-groups", r#"{"security_groups": [{"name": "conformance-b1"}, {"name": "conformance-b2"}]}"#),
        post("/routers", r#"{"routers": [{"name": "x"}]}"#).refuses(400, NOT_SUPPORTED.0, NOT_SUPPORTED.1),
        post("/floatingips", r#"{"floatingips": [{"floating_network_id": "$n"}]}"#).refuses(400, NOT_SUPPORTED.0, NOT_SUPPORTED.1),
        post("/trunks", r#"{"trunks": [{"port_id": "$p"}]}"#).refuses(400, NOT_SUPPORTED.0, NOT_SUPPORTED.1),
        post("/subnetpools", r#"{"subnetpools": [{"prefixes": ["10.128.0.0/16"]}]}"#).refuses(400, NOT_SUPPORTED.0, NOT_SUPPORTED.1),
    ]
}

fn tags() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            put("/networks/$n/tags", r#"{"tags": ["a", "b"]}"#)
                .shows("", r#"{"tags": ["a", "b"]}"#),
            get("/networks/$n/tags").shows("", r#"{"tags": ["a", "b"]}"#),
            put("/networks/$n/tags/c", "").status(201),
            get("/networks/$n/tags/c").status(204),
            get("/networks/$n/tags/z").refuses(404, "TagNotFound", "Tag z could not be found."),
            delete("/networks/$n/tags/c"),
            delete("/networks/$n/tags/z").refuses(404, "TagNotFound", "Tag z could not be found."),
            get("/networks/$n?fields=tags").shows("/network/tags", r#"["a", "b"]"#),
            delete("/networks/$n/tags"),
            get("/networks/$n/tags").shows("", r#"{"tags": []}"#),
            put("/subnets/$s/tags", r#"{"tags": ["a"]}"#).shows("", r#"{"tags": ["a"]}"#),
        ],
    ])
}

/// The attributes of each kind that an admin and a member see.
fn attributes() -> Vec<Step> {
    scene(vec![
        net(CIDR),
        vec![
            post("/ports", PORT).save("p"),
            post("/routers", r#"{"router": {"name": "conformance"}}"#).save("r"),
            post("/trunks", r#"{"trunk": {"port_id": "$p"}}"#).save("t"),
            post("/security-groups", r#"{"security_group": {"name": "conformance"}}"#).save("g"),
            get("/networks/$n").keys("/network", "admin_state_up availability_zone_hints availability_zones created_at description dns_domain id ipv4_address_scope ipv6_address_scope l2_adjacency mtu name port_security_enabled project_id provider:network_type provider:physical_network provider:segmentation_id qos_policy_id revision_number router:external shared status subnets tags tenant_id updated_at"),
            get("/subnets/$s").keys("/subnet", "allocation_pools cidr created_at description dns_nameservers enable_dhcp gateway_ip host_routes id ip_version ipv6_address_mode ipv6_ra_mode name network_id project_id revision_number router:external segment_id service_types subnetpool_id tags tenant_id updated_at"),
            get("/ports/$p").keys("/port", "admin_state_up allowed_address_pairs binding:host_id binding:profile binding:vif_details binding:vif_type binding:vnic_type created_at description device_id device_owner dns_assignment dns_name extra_dhcp_opts fixed_ips id ip_allocation mac_address name network_id port_security_enabled project_id qos_network_policy_id qos_policy_id resource_request revision_number security_groups status tags tenant_id trunk_details updated_at"),
            get("/routers/$r").keys("/router", "admin_state_up availability_zone_hints availability_zones conntrack_helpers created_at description distributed enable_ndp_proxy external_gateway_info flavor_id ha id name project_id revision_number routes status tags tenant_id updated_at"),
            get("/trunks/$t").keys("/trunk", "admin_state_up created_at description id name port_id project_id revision_number status sub_ports tags tenant_id updated_at"),
            get("/security-groups/$g").keys("/security_group", "created_at description id name project_id revision_number security_group_rules shared stateful tags tenant_id updated_at"),
            get("/security-group-rules?security_group_id=$g").keys("/security_group_rules/0", "belongs_to_default_sg created_at description direction ethertype id normalized_cidr port_range_max port_range_min project_id protocol remote_address_group_id remote_group_id remote_ip_prefix revision_number security_group_id tenant_id updated_at"),
            post("/networks", r#"{"network": {"name": "conformance"}}"#).by(Demo).save("n"),
            post("/subnets", CIDR).by(Demo).save("s"),
            post("/ports", PORT).by(Demo).save("p"),
            post("/routers", r#"{"router": {"name": "conformance"}}"#).by(Demo).save("r"),
            get("/networks/$n").by(Demo).keys("/network", "admin_state_up availability_zone_hints availability_zones created_at description dns_domain id ipv4_address_scope ipv6_address_scope l2_adjacency mtu name port_security_enabled project_id qos_policy_id revision_number router:external shared status subnets tags tenant_id updated_at"),
            get("/subnets/$s").by(Demo).keys("/subnet", "allocation_pools cidr created_at description dns_nameservers enable_dhcp gateway_ip host_routes id ip_version ipv6_address_mode ipv6_ra_mode name network_id project_id revision_number router:external service_types subnetpool_id tags tenant_id updated_at"),
            get("/ports/$p").by(Demo).keys("/port", "admin_state_up allowed_address_pairs binding:vnic_type created_at description device_id device_owner dns_assignment dns_name extra_dhcp_opts fixed_ips id ip_allocation mac_address name network_id port_security_enabled project_id qos_network_policy_id qos_policy_id revision_number security_groups status tags tenant_id updated_at"),
            get("/routers/$r").by(Demo).keys("/router", "admin_state_up availability_zone_hints availability_zones conntrack_helpers created_at description enable_ndp_proxy external_gateway_info flavor_id id name project_id revision_number routes status tags tenant_id updated_at"),
        ],
    ])
}
