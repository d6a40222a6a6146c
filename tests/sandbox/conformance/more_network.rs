//! The scenes about kinds of Neutron that few projects use: local IPs, conntrack helpers, NDP proxies, metering
//! labels.
use super::Caller::Demo;
use super::{Step, delete, get, post, put};

const NETWORK: &str = r#"{"network": {"name": "conformance"}}"#;
const CIDR: &str = r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.1.0.0/24"}}"#;
const PORT: &str = r#"{"port": {"network_id": "$n"}}"#;
const ASSOCIATION: &str = r#"{"port_association": {"fixed_port_id": "$p"}}"#;
const NO_ASSOCIATION: (&str, &str) = (
    "LocalIPAssociationNotFound",
    "Local IP $l association with port $p could not be found.",
);

pub fn local_ips() -> Vec<Step> {
    let refused = |port: &'static str, message: &'static str| {
        delete(port)
            .refuses(409, "ServicePortInUse", message)
            .row("local IP's port")
    };
    vec![
        post("/networks", NETWORK).save("n"),
        post("/subnets", CIDR).save("s"),
        post("/ports", PORT).save("p"),
        post("/ports", PORT).save("q"),
        post("/local_ips", r#"{"local_ip": {"name": "conformance"}}"#).refuses(
            400,
            "LocalIPPortOrNetworkRequired",
            "Either Port ID or Network ID must be specified for Local IP create.",
        ),
        post("/local_ips", r#"{"local_ip": {"network_id": "$gone"}}"#).refuses(
            404,
            "NetworkNotFound",
            "Network $gone could not be found.",
        ),
        post("/local_ips", r#"{"local_ip": {"local_port_id": "$gone"}}"#).refuses(
            400,
            "BadRequest",
            "Bad local_ip request: Port $gone not found.",
        ),
        post(
            "/local_ips",
            r#"{"local_ip": {"name": "conformance", "network_id": "$n"}}"#,
        )
        .save("l")
        .shows("/local_ip/ip_mode", r#""translate""#)
        .shows("/local_ip/revision_number", "0"),
        get("/ports/$l.local_port_id?fields=device_owner&fields=device_id").shows(
            "/port",
            r#"{"device_owner": "network:local_ip", "device_id": "$l"}"#,
        ),
        post(
            "/local_ips",
            r#"{"local_ip": {"name": "conformance", "local_port_id": "$q"}}"#,
        )
        .save("m")
        .shows("/local_ip/network_id", r#""$n""#),
        get("/ports/$q?fields=device_owner").shows("/port", r#"{"device_owner": ""}"#),
        get("/local_ips?network_id=$n&local_port_id=$q&fields=id")
            .shows("/local_ips", r#"[{"id": "$m"}]"#),
        get("/local_ips?nosuch=x").refuses(
            400,
            "HTTPBadRequest",
            "['nosuch'] is invalid attribute for filtering",
        ),
        refused(
            "/ports/$l.local_port_id",
            "Port $l.local_port_id cannot be deleted directly via the port API: still referenced by Local IPs.",
        ),
        refused(
            "/ports/$q",
            "Port $q cannot be deleted directly via the port API: still referenced by Local IPs.",
        ),
        post(
            "/local_ips/$l/port_associations",
            r#"{"port_association": {}}"#,
        )
        .refuses(
            400,
            "HTTPBadRequest",
            "Failed to parse request. Required attribute 'fixed_port_id' not specified",
        ),
        post("/local_ips/$l/port_associations", ASSOCIATION)
            .keys(
                "/port_association",
                "fixed_ip fixed_port_id host local_ip_address local_ip_id",
            )
            .shows("/port_association/local_ip_id", r#""$l""#),
        get("/local_ips/$l/port_associations")
            .shows("/port_associations/0/fixed_port_id", r#""$p""#)
            .shows("/port_associations/0/local_ip_id", r#""$l""#),
        get("/local_ips/$l/port_associations/$p").shows(
            "/port_association/local_ip_address",
            r#""$l.local_ip_address""#,
        ),
        delete("/local_ips/$l")
            .refuses(
                409,
                "LocalIPInUse",
                "Local IP $l is still associated with one or more ports.",
            )
            .row("local IP with associations"),
        delete("/ports/$p").row("port with an association of a local IP"),
        get("/local_ips/$l/port_associations").shows("/port_associations", "[]"),
        delete("/local_ips/$l/port_associations/$p").refuses(
            404,
            NO_ASSOCIATION.0,
            NO_ASSOCIATION.1,
        ),
        post("/ports", PORT).save("p"),
        post("/local_ips/$l/port_associations", ASSOCIATION),
        delete("/local_ips/$l/port_associations/$p").row("association of a local IP"),
        get("/local_ips/$l/port_associations/$p").refuses(404, NO_ASSOCIATION.0, NO_ASSOCIATION.1),
        delete("/local_ips/$l").row("local IP without associations"),
        get("/ports/$l.local_port_id").refuses(
            404,
            "PortNotFound",
            "Port $l.local_port_id could not be found.",
        ),
        get("/local_ips/$l/port_associations").shows("/port_associations", "[]"),
        get("/local_ips/$l/port_associations/$p").refuses(404, NO_ASSOCIATION.0, NO_ASSOCIATION.1),
        delete("/local_ips/$m"),
        get("/ports/$q?fields=id").shows("/port/id", r#""$q""#),
    ]
}

pub fn conntrack_helpers() -> Vec<Step> {
    const FTP: &str = r#"{"conntrack_helper": {"protocol": "tcp", "port": 21, "helper": "ftp"}}"#;
    vec![
        post("/routers", r#"{"router": {"name": "conformance"}}"#).save("r").shows("/router/conntrack_helpers", "[]"),
        post("/routers/$r/conntrack_helpers", r#"{"conntrack_helper": {"protocol": "udp", "helper": "tftp"}}"#).refuses(400, "HTTPBadRequest", "Failed to parse request. Required attribute 'port' not specified"),
        post("/routers/$gone/conntrack_helpers", FTP).refuses(404, "RouterNotFound", "Router $gone could not be found"),
        post("/routers/$r/conntrack_helpers", FTP).save("h").keys("/conntrack_helper", "helper id port protocol"),
        get("/routers/$r?fields=conntrack_helpers&fields=revision_number").shows("/router", r#"{"conntrack_helpers": [{"protocol": "tcp", "port": 21, "helper": "ftp"}], "revision_number": 2}"#),
        get("/routers?id=$r&fields=conntrack_helpers").shows("/routers/0/conntrack_helpers/0/helper", r#""ftp""#),
        get("/routers/$r/conntrack_helpers").shows("/conntrack_helpers", r#"[{"id": "$h", "protocol": "tcp", "port": 21, "helper": "ftp"}]"#),
        get("/routers/$r/conntrack_helpers/$h").shows("/conntrack_helper/helper", r#""ftp""#),
        get("/routers/$gone/conntrack_helpers").shows("/conntrack_helpers", "[]"),
        delete("/routers/$r/conntrack_helpers/$gone").refuses(404, "ConntrackHelperNotFound", "Conntrack Helper $gone could not be found."),
        delete("/routers/$r/conntrack_helpers/$h"),
        get("/routers/$r/conntrack_helpers/$h").refuses(404, "ConntrackHelperNotFound", "Conntrack Helper $h could not be found."),
        post("/routers/$r/conntrack_helpers", FTP).save("h"),
        delete("/routers/$r").row("router with conntrack helpers"),
        get("/routers/$r/conntrack_helpers").shows("/conntrack_helpers", "[]"),
        get("/routers/$r/conntrack_helpers/$h").refuses(404, "ConntrackHelperNotFound", "Conntrack Helper $h could not be found."),
    ]
}

pub fn ndp_proxies() -> Vec<Step> {
    const PROXY: &str =
        r#"{"ndp_proxy": {"name": "conformance", "router_id": "$r", "port_id": "$p"}}"#;
    let invalid_filter = |path: &'static str, message: &'static str| {
        get(path).refuses(400, "HTTPBadRequest", message)
    };
    vec![
        post("/address-scopes", r#"{"address_scope": {"name": "conformance", "ip_version": 6}}"#).save("a"),
        post("/subnetpools", r#"{"subnetpool": {"name": "conformance", "prefixes": ["2001:db8:7::/48"], "default_prefixlen": 64, "address_scope_id": "$a"}}"#).save("o"),
        post("/networks", r#"{"network": {"name": "conformance", "router:external": true}}"#).save("e"),
        post("/subnets", r#"{"subnet": {"network_id": "$e", "ip_version": 4, "cidr": "203.0.113.0/24"}}"#),
        // Only the subnets of one IP version must share a pool in a network.
        post("/subnets", r#"{"subnet": {"network_id": "$e", "ip_version": 6, "subnetpool_id": "$o"}}"#),
        post("/networks", NETWORK).save("n"),
        post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 6, "subnetpool_id": "$o"}}"#).save("s"),
        post("/ports", PORT).save("p"),
        post("/routers", r#"{"router": {"name": "conformance", "external_gateway_info": {"network_id": "$e"}}}"#).save("r"),
        post("/ndp_proxies", PROXY).refuses(409, "PortUnreachableRouter", "The port $p cannot reach the router $r by IPv6 subnet."),
        put("/routers/$r/add_router_interface", r#"{"subnet_id": "$s"}"#),
        put("/routers/$r", r#"{"router": {"enable_ndp_proxy": true}}"#),
        post("/ndp_proxies", PROXY).save("x").keys("/ndp_proxy", "created_at description id ip_address name port_id project_id revision_number router_id tenant_id updated_at"),
        invalid_filter("/ndp_proxies?id=$x", "['id'] is invalid attribute for filtering"),
        invalid_filter("/ndp_proxies?project_id=$x", "['project_id'] is invalid attribute for filtering"),
        get("/ndp_proxies?name=nosuch&description=&revision_number=1").shows("/ndp_proxies", "[]"),
        invalid_filter("/ndp_proxies?router_id=$r", "['router_id'] is invalid attribute for filtering"),
        get("/ndp_proxies/$x?fields=router_id&fields=port_id").shows("/ndp_proxy", r#"{"router_id": "$r", "port_id": "$p"}"#),
        put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#).refuses(409, "RouterInterfaceInUseByNDPProxy", "Unable to remove subnet $s from router $r, There are one or more ndp proxies still in use on the subnet.").row("interface to a port with an NDP proxy"),
        put("/routers/$r", r#"{"router": {"external_gateway_info": null}}"#).refuses(409, "RouterGatewayInUseByNDPProxy", "Unable to unset external gateway of router $r, There are one or more ndp proxies still in use on the router.").row("gateway of a router with an NDP proxy"),
        delete("/ports/$p").row("port with an NDP proxy"),
        get("/ndp_proxies/$x").refuses(404, "NDPProxyNotFound", "Ndp proxy $x could not be found."),
        post("/ports", PORT).save("p"),
        post("/ndp_proxies", PROXY).save("x"),
        delete("/ndp_proxies/$x"),
        delete("/ndp_proxies/$x").refuses(404, "NDPProxyNotFound", "Ndp proxy $x could not be found."),
        put("/routers/$r/remove_router_interface", r#"{"subnet_id": "$s"}"#),
    ]
}

pub fn metering_labels() -> Vec<Step> {
    const LABEL: &str = r#"{"metering_label": {"name": "conformance"}}"#;
    vec![
        post("/metering/metering-labels", LABEL).by(Demo).refuses(403, "PolicyNotAuthorized", "rule:create_metering_label is disallowed by policy"),
        post("/metering/metering-labels", LABEL).save("m").shows("/metering_label/shared", "false"),
        post("/metering/metering-label-rules", r#"{"metering_label_rule": {"metering_label_id": "$gone", "direction": "ingress", "remote_ip_prefix": "10.0.0.0/24"}}"#).refuses(404, "MeteringLabelNotFound", "Metering label '$gone' does not exist."),
        post("/metering/metering-label-rules", r#"{"metering_label_rule": {"metering_label_id": "$m", "direction": "ingress", "remote_ip_prefix": "10.0.0.0/24"}}"#).save("u").shows("/metering_label_rule/excluded", "false"),
        post("/metering/metering-label-rules", r#"{"metering_label_rule": {"metering_label_id": "$m", "direction": "egress", "destination_ip_prefix": "10.1.0.0/24"}}"#).save("v"),
        get("/metering/metering-label-rules?metering_label_id=$m&direction=egress").shows("/metering_label_rules/0/id", r#""$v""#).shows("/metering_label_rules/1", "null"),
        get("/metering/metering-label-rules?project_id=$m").refuses(400, "HTTPBadRequest", "['project_id'] is invalid attribute for filtering"),
        get("/metering/metering-labels?id=$m").shows("/metering_labels/0/id", r#""$m""#).shows("/metering_labels/1", "null"),
        put("/metering/metering-labels/$m", r#"{"metering_label": {"name": "other"}}"#).refuses(400, "HTTPBadRequest", "Cannot update read-only attribute name"),
        delete("/metering/metering-label-rules/$u"),
        delete("/metering/metering-label-rules/$u").refuses(404, "MeteringLabelRuleNotFound", "Metering label rule '$u' does not exist."),
        delete("/metering/metering-labels/$m").row("metering label with rules"),
        get("/metering/metering-label-rules/$v").refuses(404, "MeteringLabelRuleNotFound", "Metering label rule '$v' does not exist."),
        post("/metering/metering-labels", r#"{"metering_label": {"name": "conformance", "project_id": "$demo"}}"#).save("m"),
        get("/metering/metering-labels?id=$m&fields=name").by(Demo).shows("/metering_labels/0/name", r#""conformance""#),
        delete("/metering/metering-labels/$m").by(Demo).refuses(403, "PolicyNotAuthorized", "rule:delete_metering_label is disallowed by policy").row("metering label as a member"),
        delete("/metering/metering-labels/$m"),
    ]
}
