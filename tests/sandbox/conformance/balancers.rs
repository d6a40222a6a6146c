//! The scenes about load balancers, with the ports of their VIPs in the network service.
use super::Caller::{BadToken, Demo};
use super::Service::LoadBalancer;
use super::scenes::Scene;
use super::{Step, step};

pub const SCENES: &[Scene] = &[
    ("balancers", balancers),
    ("balancer_children", balancer_children),
    ("balancer_deletions", balancer_deletions),
    ("balancer_updates", balancer_updates),
    ("balancer_vips", balancer_vips),
    ("balancer_ports", balancer_ports),
    ("balancer_graphs", balancer_graphs),
    ("balancer_lists", balancer_lists),
    ("balancer_filters", balancer_filters),
    ("balancer_permissions", balancer_permissions),
    ("balancer_request_bodies", balancer_request_bodies),
    (
        "balancer_child_request_bodies",
        balancer_child_request_bodies,
    ),
];

const PENDING_CREATE: &str = "Invalid state PENDING_CREATE of loadbalancer resource $b";
const IMMUTABLE: &str = "Load Balancer $b is immutable and cannot be updated.";
const FORBIDDEN: &str = "Policy does not allow this request to be performed.";
const INVALID_FILTER: &str = "One or more arguments are either duplicate or invalid";

fn get(path: &'static str) -> Step {
    step("GET", path).at(LoadBalancer)
}

fn post(path: &'static str, body: &'static str) -> Step {
    step("POST", path).body(body).at(LoadBalancer)
}

fn put(path: &'static str, body: &'static str) -> Step {
    step("PUT", path).body(body).at(LoadBalancer)
}

fn delete(path: &'static str) -> Step {
    step("DELETE", path).at(LoadBalancer)
}

/// A network `n` with a subnet `s`.
fn net() -> Vec<Step> {
    vec![
        super::post("/networks", r#"{"network": {"name": "balanced"}}"#).save("n"),
        super::post(
            "/subnets",
            r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.9.0.0/24"}}"#,
        )
        .save("s"),
    ]
}

/// Waits until the balancer `b` is ACTIVE, so that it accepts changes.
fn balancer_active() -> Step {
    get("/loadbalancers/$b")
        .shows("/loadbalancer/provisioning_status", "\"ACTIVE\"")
        .eventually()
}

/// A network, and on it the balancer `b`, which is ACTIVE.
fn balancer() -> Vec<Step> {
    let mut steps = net();
    steps.push(
        post(
            "/loadbalancers",
            r#"{"loadbalancer": {"name": "web", "vip_subnet_id": "$s"}}"#,
        )
        .save("b"),
    );
    steps.push(balancer_active());
    steps
}

/// A change, and the end of the balancer's pending state.
fn and_wait(change: Step) -> Vec<Step> {
    vec![change, balancer_active()]
}

const LISTENER: &str =
    r#"{"listener": {"loadbalancer_id": "$b", "protocol": "HTTP", "protocol_port": 80}}"#;
const POOL: &str =
    r#"{"pool": {"listener_id": "$l", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"}}"#;
const MEMBER: &str = r#"{"member": {"address": "10.9.0.9", "protocol_port": 8080}}"#;
const MONITOR: &str = r#"{"healthmonitor": {"pool_id": "$p", "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 2}}"#;
const POLICY: &str = r#"{"l7policy": {"listener_id": "$l", "action": "REDIRECT_TO_POOL", "redirect_pool_id": "$p"}}"#;
const RULE: &str = r#"{"rule": {"type": "PATH", "compare_type": "STARTS_WITH", "value": "/a"}}"#;

fn scene(parts: Vec<Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

fn balancers() -> Vec<Step> {
    scene(vec![
        net(),
        vec![
            post("/loadbalancers", r#"{"loadbalancer": {"name": "web", "vip_subnet_id": "$s"}}"#)
                .shows("/loadbalancer/provisioning_status", "\"PENDING_CREATE\"")
                .shows("/loadbalancer/operating_status", "\"OFFLINE\"")
                .shows("/loadbalancer/vip_network_id", "\"$n\"")
                .shows("/loadbalancer/updated_at", "null")
                .shows("/loadbalancer/listeners", "[]")
                .keys("/loadbalancer", "additional_vips admin_state_up availability_zone created_at description flavor_id id listeners name operating_status pools project_id provider provisioning_status tags tenant_id updated_at vip_address vip_network_id vip_port_id vip_qos_policy_id vip_sg_ids vip_subnet_id vip_vnic_type")
                .save("b"),
            delete("/loadbalancers/$b").refuses(409, "", PENDING_CREATE),
            put("/loadbalancers/$b", r#"{"loadbalancer": {"name": "other"}}"#).refuses(409, "", PENDING_CREATE),
            post("/listeners", LISTENER).refuses(409, "", IMMUTABLE).row("child of a pending balancer"),
            super::get("/ports/$b.vip_port_id")
                .shows("/port/name", "\"octavia-lb-$b\"")
                .shows("/port/device_id", "\"lb-$b\"")
                .shows("/port/device_owner", "\"Octavia\"")
                .shows("/port/admin_state_up", "false")
                .shows("/port/project_id", "\"$b.project_id\"")
                .shows("/port/fixed_ips/0/subnet_id", "\"$s\"")
                .shows("/port/fixed_ips/0/ip_address", "\"$b.vip_address\""),
            super::delete("/networks/$n").refuses(409, "NetworkInUse", "Unable to complete operation on network $n. There are one or more ports still in use on the network, id for these ports is: $b.vip_port_id."),
            balancer_active().shows("/loadbalancer/operating_status", "\"ONLINE\""),
        ],
        and_wait(post("/listeners", LISTENER).save("l")),
        vec![
            delete("/loadbalancers/$b").refuses(400, "", "Validation failure: Cannot delete Load Balancer $b - it has children").row("balancer with children"),
            delete("/loadbalancers/$b?cascade=false").refuses(400, "", "Validation failure: Cannot delete Load Balancer $b - it has children"),
            delete("/loadbalancers/$b?cascade=true").row("cascade"),
            get("/loadbalancers/$b").shows("/loadbalancer/provisioning_status", "\"PENDING_DELETE\""),
            get("/listeners/$l").shows("/listener/provisioning_status", "\"ACTIVE\""),
            delete("/loadbalancers/$b?cascade=true")
                .refuses(409, "", "Invalid state PENDING_DELETE of loadbalancer resource $b")
                .row("balancer deleted again"),
            delete("/listeners/$l").refuses(409, "", IMMUTABLE),
            get("/loadbalancers/$b").refuses(404, "", "Load Balancer $b not found.").eventually().row("gone balancer"),
            delete("/loadbalancers/$b").refuses(404, "", "Load Balancer $b not found."),
            get("/loadbalancers?id=$b").shows("/loadbalancers", "[]"),
            get("/listeners/$l").refuses(404, "", "Listener $l not found."),
            super::get("/ports/$b.vip_port_id").refuses(404, "PortNotFound", "Port $b.vip_port_id could not be found."),
            post("/listeners", LISTENER).refuses(409, "", IMMUTABLE).row("child of a gone balancer"),
            super::delete("/networks/$n"),
        ],
    ])
}

fn balancer_children() -> Vec<Step> {
    scene(vec![
        balancer(),
        vec![
            post("/listeners", LISTENER)
                .shows("/listener/provisioning_status", "\"PENDING_CREATE\"")
                .shows("/listener/operating_status", "\"OFFLINE\"")
                .shows("/listener/loadbalancers", r#"[{"id": "$b"}]"#)
                .shows("/listener/connection_limit", "-1")
                .shows("/listener/insert_headers", "{}")
                .keys("/listener", "admin_state_up allowed_cidrs alpn_protocols client_authentication client_ca_tls_container_ref client_crl_container_ref connection_limit created_at default_pool_id default_tls_container_ref description hsts_include_subdomains hsts_max_age hsts_preload id insert_headers l7policies loadbalancers name operating_status project_id protocol protocol_port provisioning_status sni_container_refs tags tenant_id timeout_client_data timeout_member_connect timeout_member_data timeout_tcp_inspect tls_ciphers tls_versions updated_at")
                .save("l"),
            get("/loadbalancers/$b")
                .shows("/loadbalancer/provisioning_status", "\"PENDING_UPDATE\"")
                .shows("/loadbalancer/listeners", r#"[{"id": "$l"}]"#),
            balancer_active(),
            get("/listeners/$l")
                .shows("/listener/provisioning_status", "\"ACTIVE\"")
                .shows("/listener/operating_status", "\"ONLINE\""),
            post("/pools", POOL)
                .shows("/pool/listeners", r#"[{"id": "$l"}]"#)
                .shows("/pool/session_persistence", "null")
                .keys("/pool", "admin_state_up alpn_protocols ca_tls_container_ref created_at crl_container_ref description id lb_algorithm listeners loadbalancers members name operating_status project_id protocol provisioning_status session_persistence tags tenant_id tls_ciphers tls_container_ref tls_enabled tls_versions updated_at")
                .save("p"),
            get("/listeners/$l")
                .shows_either("/listener/provisioning_status", "PENDING_UPDATE", "ACTIVE")
                .shows("/listener/default_pool_id", "\"$p\""),
            post("/pools/$p/members", MEMBER).refuses(409, "", "Pool $p is immutable and cannot be updated."),
            balancer_active(),
            post("/pools", POOL).refuses(409, "", "This listener already has a default pool"),
            post("/pools/$p/members", MEMBER)
                .shows("/member/weight", "1")
                .keys("/member", "address admin_state_up backup created_at id monitor_address monitor_port name operating_status project_id protocol_port provisioning_status subnet_id tags tenant_id updated_at vnic_type weight")
                .save("m"),
            get("/pools/$p")
                .shows("/pool/provisioning_status", "\"PENDING_UPDATE\"")
                .shows("/pool/members", r#"[{"id": "$m"}]"#),
            get("/listeners/$l").shows_either("/listener/provisioning_status", "PENDING_UPDATE", "ACTIVE"),
            balancer_active(),
            get("/pools/$p/members/$m").shows("/member/operating_status", "\"ONLINE\""),
            post("/healthmonitors", MONITOR)
                .shows("/healthmonitor/max_retries_down", "3")
                .shows("/healthmonitor/pools", r#"[{"id": "$p"}]"#)
                .keys("/healthmonitor", "admin_state_up created_at delay domain_name expected_codes http_method http_version id max_retries max_retries_down name operating_status pools project_id provisioning_status tags tenant_id timeout type updated_at url_path")
                .save("h"),
            get("/pools/$p")
                .shows("/pool/provisioning_status", "\"PENDING_UPDATE\"")
                .shows("/pool/healthmonitor_id", "\"$h\""),
            balancer_active(),
            post("/healthmonitors", MONITOR).refuses(409, "", "This pool already has a health monitor"),
        ],
        and_wait(post("/pools/$p/members", r#"{"member": {"address": "10.9.0.10", "protocol_port": 8080}}"#)),
        vec![
            post("/l7policies", POLICY)
                .keys("/l7policy", "action admin_state_up created_at description id listener_id name operating_status position project_id provisioning_status redirect_http_code redirect_pool_id redirect_prefix redirect_url rules tags tenant_id updated_at")
                .save("y"),
            balancer_active(),
            post("/l7policies/$y/rules", RULE)
                .shows("/rule/invert", "false")
                .keys("/rule", "admin_state_up compare_type created_at id invert key operating_status project_id provisioning_status tags tenant_id type updated_at value")
                .save("r"),
            get("/l7policies/$y")
                .shows("/l7policy/provisioning_status", "\"PENDING_UPDATE\"")
                .shows("/l7policy/rules", r#"[{"id": "$r"}]"#),
            get("/listeners/$l")
                .shows_either("/listener/provisioning_status", "PENDING_UPDATE", "ACTIVE")
                .shows("/listener/l7policies", r#"[{"id": "$y"}]"#),
            balancer_active(),
        ],
        and_wait(post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "UDP", "protocol_port": 80}}"#)),
    ])
}

fn balancer_deletions() -> Vec<Step> {
    let pool_with_children = || {
        scene(vec![
            and_wait(post("/pools", POOL).save("p")),
            and_wait(post("/pools/$p/members", MEMBER).save("m")),
            and_wait(post("/healthmonitors", MONITOR).save("h")),
        ])
    };
    scene(vec![
        balancer(),
        and_wait(post("/listeners", LISTENER).save("l")),
        pool_with_children(),
        and_wait(post("/l7policies", POLICY).save("y")),
        and_wait(post("/l7policies/$y/rules", RULE).save("r")),
        vec![
            delete("/pools/$p")
                .refuses(409, "", "Pool $p is in use by L7 policy $y")
                .row("pool of a policy"),
            delete("/l7policies/$y/rules/$r").row("pool member or policy rule"),
            get("/l7policies/$y/rules/$r").shows("/rule/provisioning_status", "\"PENDING_DELETE\""),
            get("/l7policies/$y")
                .shows("/l7policy/provisioning_status", "\"PENDING_UPDATE\"")
                .shows("/l7policy/rules/0/id", "\"$r\"")
                .row("pool member or policy rule"),
            delete("/l7policies/$y").refuses(409, "", IMMUTABLE),
            balancer_active(),
            get("/l7policies/$y/rules/$r").refuses(404, "", "L7 Rule $r not found."),
        ],
        and_wait(post("/l7policies/$y/rules", RULE).save("r")),
        vec![
            delete("/l7policies/$y").row("child with children"),
            get("/l7policies/$y").shows("/l7policy/provisioning_status", "\"PENDING_DELETE\""),
            balancer_active(),
            get("/l7policies/$y").refuses(404, "", "L7 Policy $y not found."),
            get("/l7policies/$y/rules/$r").refuses(404, "Bad Request", "L7Policy $y not found."),
            delete("/pools/$p/members/$m").row("pool member or policy rule"),
            get("/pools/$p/members/$m").shows("/member/provisioning_status", "\"PENDING_DELETE\""),
            get("/pools/$p")
                .shows("/pool/provisioning_status", "\"PENDING_UPDATE\"")
                .shows("/pool/members/0/id", "\"$m\"")
                .row("pool member or policy rule"),
            balancer_active(),
            get("/pools/$p/members/$m").refuses(404, "", "Member $m not found."),
            delete("/healthmonitors/$h"),
            get("/healthmonitors/$h")
                .shows("/healthmonitor/provisioning_status", "\"PENDING_DELETE\""),
            balancer_active(),
            get("/healthmonitors/$h").refuses(404, "", "Health Monitor $h not found."),
            get("/pools/$p").shows("/pool/healthmonitor_id", "null"),
        ],
        and_wait(post("/pools/$p/members", MEMBER).save("m")),
        and_wait(post("/healthmonitors", MONITOR).save("h")),
        vec![
            delete("/pools/$p").row("child with children"),
            get("/pools/$p").shows("/pool/provisioning_status", "\"PENDING_DELETE\""),
            get("/listeners/$l").shows_either(
                "/listener/provisioning_status",
                "PENDING_UPDATE",
                "ACTIVE",
            ),
            get("/pools/$p/members/$m").shows("/member/provisioning_status", "\"ACTIVE\""),
            balancer_active(),
            get("/pools/$p").refuses(404, "", "Pool $p not found."),
            get("/pools/$p/members/$m").refuses(404, "Bad Request", "Pool $p not found."),
            get("/healthmonitors/$h").refuses(404, "", "Health Monitor $h not found."),
            get("/listeners/$l").shows("/listener/default_pool_id", "null"),
        ],
        pool_with_children(),
        and_wait(post("/l7policies", POLICY).save("y")),
        vec![
            delete("/listeners/$l").row("child with children"),
            get("/listeners/$l").shows("/listener/provisioning_status", "\"PENDING_DELETE\""),
            balancer_active(),
            get("/listeners/$l").refuses(404, "", "Listener $l not found."),
            get("/l7policies/$y").refuses(404, "", "L7 Policy $y not found."),
            get("/pools/$p").shows("/pool/listeners", "[]"),
            delete("/loadbalancers/$b").refuses(
                400,
                "",
                "Validation failure: Cannot delete Load Balancer $b - it has children",
            ),
            delete("/pools/$p"),
            balancer_active(),
            delete("/loadbalancers/$b"),
            get("/loadbalancers/$b")
                .refuses(404, "", "Load Balancer $b not found.")
                .eventually(),
        ],
    ])
}

fn balancer_updates() -> Vec<Step> {
    scene(vec![
        balancer(),
        and_wait(put("/loadbalancers/$b", r#"{"loadbalancer": {"name": "other", "description": null, "tags": ["t"]}}"#)
            .shows("/loadbalancer/provisioning_status", "\"PENDING_UPDATE\"")
            .shows("/loadbalancer/name", "\"other\"")
            .shows("/loadbalancer/description", "\"\"")
            .shows("/loadbalancer/tags", r#"["t"]"#)),
        and_wait(put("/loadbalancers/$b", r#"{"loadbalancer": {}}"#).shows("/loadbalancer/provisioning_status", "\"PENDING_UPDATE\"")),
        vec![put("/loadbalancers/$b", r#"{"loadbalancer": {"vip_subnet_id": "$s"}}"#)
            .refuses(400, "", "*")],
        and_wait(post("/listeners", LISTENER).save("l")),
        and_wait(post("/pools", POOL).save("p")),
        and_wait(post("/pools/$p/members", MEMBER).save("m")),
        and_wait(post("/healthmonitors", MONITOR).save("h")),
        and_wait(put("/listeners/$l", r#"{"listener": {"name": "n", "connection_limit": null}}"#)
            .shows("/listener/connection_limit", "-1")
            .shows("/listener/provisioning_status", "\"PENDING_UPDATE\"")),
        and_wait(put("/listeners/$l", r#"{"listener": {"default_pool_id": null}}"#).shows("/listener/default_pool_id", "null")),
        and_wait(put("/listeners/$l", r#"{"listener": {"default_pool_id": "$p"}}"#).shows("/listener/default_pool_id", "\"$p\"")),
        vec![
            put("/listeners/$l", r#"{"listener": {"default_pool_id": "$gone"}}"#).refuses(404, "", "Pool $gone not found."),
            put("/listeners/$l", "{}").refuses(400, "", "*"),
            put("/pools/$p", r#"{"pool": {"lb_algorithm": "SOURCE_IP", "session_persistence": {"type": "SOURCE_IP"}}}"#)
                .shows("/pool/provisioning_status", "\"PENDING_UPDATE\""),
            get("/listeners/$l").shows_either("/listener/provisioning_status", "PENDING_UPDATE", "ACTIVE"),
            balancer_active(),
        ],
        and_wait(put("/pools/$p/members/$m", r#"{"member": {"weight": 3}}"#)
            .shows("/member/weight", "3")
            .shows("/member/provisioning_status", "\"PENDING_UPDATE\"")),
        and_wait(put("/pools/$p/members/$m", r#"{"member": {"weight": null}}"#).shows("/member/weight", "1")),
        vec![
            put("/pools/$p/members/$m", r#"{"member": {"address": "10.9.0.4"}}"#)
                .refuses(400, "", "*"),
            put("/healthmonitors/$h", r#"{"healthmonitor": {"delay": null}}"#).refuses(400, "", "None is not a valid option for delay"),
        ],
        and_wait(put("/healthmonitors/$h", r#"{"healthmonitor": {"delay": 9, "url_path": "/up"}}"#)
            .shows("/healthmonitor/delay", "9")
            .shows("/healthmonitor/url_path", "\"/up\"")),
        and_wait(post("/l7policies", POLICY).save("y")),
        and_wait(put("/l7policies/$y", r#"{"l7policy": {"name": "n"}}"#).shows("/l7policy/name", "\"n\"")),
        and_wait(post("/l7policies/$y/rules", RULE).save("r")),
        and_wait(put("/l7policies/$y/rules/$r", r#"{"rule": {"value": "/b"}}"#)
            .shows("/rule/value", "\"/b\"")
            .shows("/rule/provisioning_status", "\"PENDING_UPDATE\"")),
    ])
}

fn balancer_vips() -> Vec<Step> {
    scene(vec![
        net(),
        vec![
            post("/loadbalancers", r#"{"loadbalancer": {"name": "x"}}"#).refuses(400, "", "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id."),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$gone"}}"#).refuses(400, "", "Subnet $gone not found."),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_network_id": "$gone"}}"#).refuses(400, "", "Network $gone not found."),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_port_id": "$gone"}}"#).refuses(400, "", "Port $gone not found."),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_network_id": "$n", "vip_subnet_id": "$gone"}}"#).refuses(400, "", "Subnet $gone not found."),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_network_id": "$n", "vip_address": "10.7.0.1"}}"#).refuses(400, "", "*"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$s", "vip_address": "10.7.0.1"}}"#).refuses(400, "", "*"),
            super::post("/networks", r#"{"network": {"name": "empty"}}"#).save("e"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_network_id": "$e"}}"#).refuses(400, "", "*"),
            super::post("/subnets", r#"{"subnet": {"network_id": "$e", "ip_version": 4, "cidr": "10.8.0.0/30", "gateway_ip": null}}"#).save("t"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_network_id": "$e"}}"#).shows("/loadbalancer/vip_subnet_id", "\"$t\"").save("b"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$t"}}"#).save("c"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$t"}}"#).refuses(500, "", "*"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$t", "vip_address": "$b.vip_address"}}"#).refuses(500, "", "*"),
        ],
    ])
}

fn balancer_ports() -> Vec<Step> {
    scene(vec![
        net(),
        vec![
            super::post("/ports", r#"{"port": {"network_id": "$n", "device_id": "vm", "device_owner": "compute:nova"}}"#).save("q"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_port_id": "$q"}}"#).refuses(400, "", "Validation failure: Port $q is already used by device vm"),
            super::post("/ports", r#"{"port": {"network_id": "$n"}}"#).save("p"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_port_id": "$p", "vip_address": "10.9.0.250"}}"#).refuses(400, "", "Validation failure: Specified VIP address not found on the specified VIP port."),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_port_id": "$p"}}"#)
                .shows("/loadbalancer/vip_port_id", "\"$p\"")
                .shows("/loadbalancer/vip_address", "\"$p.fixed_ips.0.ip_address\"")
                .shows("/loadbalancer/vip_subnet_id", "\"$s\"")
                .save("b"),
            super::get("/ports/$p").shows("/port/device_owner", "\"\"").shows("/port/device_id", "\"\"").shows("/port/name", "\"\""),
            balancer_active(),
            delete("/loadbalancers/$b"),
            get("/loadbalancers/$b").status(404).eventually(),
            super::get("/ports/$p").row("VIP port of the user"),
            super::post("/subnets", r#"{"subnet": {"network_id": "$n", "ip_version": 4, "cidr": "10.8.0.0/24"}}"#).save("t"),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$s", "vip_address": "10.9.0.200", "project_id": "$demo", "additional_vips": [{"subnet_id": "$t", "ip_address": "10.8.0.7"}]}}"#)
                .shows("/loadbalancer/vip_address", "\"10.9.0.200\"")
                .shows("/loadbalancer/project_id", "\"$demo\"")
                .shows("/loadbalancer/additional_vips/0/subnet_id", "\"$t\"")
                .shows("/loadbalancer/additional_vips/0/ip_address", "\"10.8.0.7\"")
                .save("b"),
            super::get("/ports?network_id=$n&device_owner=Octavia&fixed_ips=subnet_id%3D$t")
                .shows("/ports/0/id", "\"$b.vip_port_id\"")
                .shows("/ports/0/project_id", "\"$demo\""),
            balancer_active(),
            super::delete("/ports/$b.vip_port_id").row("VIP's port"),
            get("/loadbalancers/$b").shows("/loadbalancer/vip_port_id", "\"$b.vip_port_id\"").shows("/loadbalancer/provisioning_status", "\"ACTIVE\""),
            delete("/loadbalancers/$b"),
            get("/loadbalancers/$b").status(404).eventually(),
        ],
    ])
}

fn balancer_graphs() -> Vec<Step> {
    scene(vec![
        net(),
        vec![
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$s", "listeners": [{"protocol": "HTTP", "protocol_port": 80, "default_pool": {"name": "none"}}]}}"#)
                .refuses(400, "", "Validation failure: Pool 'none' was referenced but no full definition was found."),
            super::get("/ports?network_id=$n")
                .shows("/ports/0/device_owner", "\"Octavia\"")
                .row("port of a refused balancer")
                .save("o"),
            super::delete("/ports/$o"),
            post("/loadbalancers", r#"{"loadbalancer": {"name": "whole", "vip_subnet_id": "$s",
                "pools": [{"name": "q", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"}],
                "listeners": [{"protocol": "HTTP", "protocol_port": 80,
                    "default_pool": {"name": "p", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
                        "members": [{"address": "10.9.0.4", "protocol_port": 80}],
                        "healthmonitor": {"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2}},
                    "l7policies": [{"action": "REDIRECT_TO_POOL", "redirect_pool": {"name": "q"},
                        "rules": [{"type": "PATH", "compare_type": "EQUAL_TO", "value": "/"}]}]}]}}"#)
                .shows("/loadbalancer/provisioning_status", "\"PENDING_CREATE\"")
                .shows("/loadbalancer/listeners/0/provisioning_status", "\"PENDING_CREATE\"")
                .shows("/loadbalancer/listeners/0/l7policies/0/rules/0/value", "\"/\"")
                .keys("/loadbalancer/listeners/0/l7policies/0", "action admin_state_up created_at description id listener_id name operating_status position project_id provisioning_status redirect_http_code redirect_pool_id redirect_prefix redirect_url rules tags tenant_id updated_at")
                .keys("/loadbalancer/pools/0", "admin_state_up alpn_protocols ca_tls_container_ref created_at crl_container_ref description healthmonitor id lb_algorithm listeners members name operating_status project_id protocol provisioning_status session_persistence tags tenant_id tls_ciphers tls_container_ref tls_enabled tls_versions updated_at")
                .save("b"),
            balancer_active(),
            get("/pools?name=q&loadbalancer_id=$b").shows("/pools/0/listeners/0/id", "\"$b.listeners.0.id\""),
        ],
    ])
}

fn balancer_lists() -> Vec<Step> {
    scene(vec![
        net(),
        vec![
            super::post("/ports", r#"{"port": {"network_id": "$n"}}"#).save("q"),
            post("/loadbalancers", r#"{"loadbalancer": {"name": "a", "vip_subnet_id": "$s"}}"#).save("b"),
            balancer_active(),
            post("/loadbalancers", r#"{"loadbalancer": {"name": "c", "vip_port_id": "$q", "tags": ["t", "u"]}}"#).save("c"),
            get("/loadbalancers?vip_network_id=$n&fields=id").shows("", r#"{"loadbalancers": [{"id": "$b"}, {"id": "$c"}], "loadbalancers_links": []}"#),
            get("/loadbalancers?vip_network_id=$n&fields=nosuch").shows("/loadbalancers", "[{}, {}]"),
            get("/loadbalancers?vip_network_id=$n&fields=id&limit=1")
                .shows("/loadbalancers", r#"[{"id": "$b"}]"#)
                .shows("/loadbalancers_links", r#"[{"rel": "next", "href": "${balancers_url}/loadbalancers?limit=1&marker=$b"}]"#),
            get("/loadbalancers?vip_network_id=$n&fields=id&limit=1&marker=$b&sort_key=created_at")
                .shows("/loadbalancers", r#"[{"id": "$c"}]"#)
                .shows("/loadbalancers_links", r#"[{"rel": "previous", "href": "${balancers_url}/loadbalancers?limit=1&sort_key=created_at&marker=$c&page_reverse=True"}, {"rel": "next", "href": "${balancers_url}/loadbalancers?limit=1&sort_key=created_at&marker=$c"}]"#),
            get("/loadbalancers?vip_network_id=$n&fields=id&marker=$b")
                .shows("/loadbalancers_links", r#"[{"rel": "previous", "href": "${balancers_url}/loadbalancers?limit=1000&marker=$c&page_reverse=True"}]"#),
            get("/loadbalancers?vip_network_id=$n&fields=id&limit=2&page_reverse=True&marker=$c").shows("/loadbalancers", r#"[{"id": "$b"}]"#),
            get("/loadbalancers?vip_network_id=$n&fields=id&limit=1&marker=$c").shows("", r#"{"loadbalancers": [], "loadbalancers_links": []}"#),
            get("/loadbalancers?vip_network_id=$n&fields=id&limit=0")
                .shows("/loadbalancers_links", r#"[{"rel": "next", "href": "${balancers_url}/loadbalancers?limit=None&marker=$c"}]"#),
            get("/loadbalancers?limit=x").refuses(400, "Bad Request", "Supplied pagination limit 'x' is not valid."),
            get("/loadbalancers?limit=1&marker=$gone").refuses(400, "", "Supplied pagination marker '$gone' is not valid."),
            get("/loadbalancers?vip_network_id=$n&fields=name&sort_key=name&sort_dir=desc").shows("/loadbalancers", r#"[{"name": "c"}, {"name": "a"}]"#),
            get("/loadbalancers?vip_network_id=$n&fields=name&sort=name:desc").shows("/loadbalancers/0/name", "\"c\""),
            get("/loadbalancers?sort_key=nosuch").refuses(400, "", "*"),
            get("/loadbalancers/$b?fields=id").shows("", r#"{"loadbalancer": {"id": "$b"}}"#),
            balancer_active(),
            delete("/loadbalancers/$b"),
            get("/loadbalancers/$b").status(404).eventually(),
            get("/loadbalancers?vip_network_id=$n&fields=id&marker=$b").shows("/loadbalancers", r#"[{"id": "$c"}]"#),
        ],
    ])
}

fn balancer_filters() -> Vec<Step> {
    let finds = |path: &'static str| get(path).shows("/loadbalancers", r#"[{"id": "$b"}]"#);
    let lacks = |path: &'static str| get(path).shows("/loadbalancers", "[]");
    let lists = |path: &'static str, pointer: &'static str, found: &'static str| {
        get(path).shows(pointer, found)
    };
    scene(vec![
        balancer(),
        and_wait(post("/listeners", LISTENER).save("l")),
        and_wait(post("/pools", POOL).save("p")),
        and_wait(post("/pools/$p/members", MEMBER).save("m")),
        and_wait(post("/healthmonitors", MONITOR).save("h")),
        and_wait(post("/l7policies", POLICY).save("y")),
        and_wait(put(
            "/loadbalancers/$b",
            r#"{"loadbalancer": {"tags": ["t", "u"]}}"#,
        )),
        vec![
            finds("/loadbalancers?id=$b&fields=id"),
            finds("/loadbalancers?name=WEB&vip_network_id=$n&fields=id"),
            finds("/loadbalancers?vip_port_id=$b.vip_port_id&fields=id"),
            finds("/loadbalancers?vip_subnet_id=$s&fields=id"),
            finds("/loadbalancers?vip_address=$b.vip_address&vip_subnet_id=$s&fields=id"),
            finds("/loadbalancers?project_id=$b.project_id&vip_network_id=$n&fields=id"),
            finds("/loadbalancers?provisioning_status=active&vip_network_id=$n&fields=id"),
            finds("/loadbalancers?operating_status=ONLINE&vip_network_id=$n&fields=id"),
            finds("/loadbalancers?admin_state_up=true&vip_network_id=$n&fields=id"),
            finds("/loadbalancers?tags=t,u&vip_network_id=$n&fields=id"),
            finds("/loadbalancers?tags-any=t,x&vip_network_id=$n&fields=id"),
            lacks("/loadbalancers?tags=t,x&vip_network_id=$n"),
            lacks("/loadbalancers?not-tags=t&vip_network_id=$n"),
            lacks("/loadbalancers?not-tags-any=t,x&vip_network_id=$n"),
            lacks("/loadbalancers?admin_state_up=false&vip_network_id=$n"),
            lacks("/loadbalancers?provisioning_status=ERROR&vip_network_id=$n"),
            lacks("/loadbalancers?project_id=$demo&vip_network_id=$n"),
            lacks("/loadbalancers?vip_network_id=$gone"),
            lacks("/loadbalancers?id=xyz"),
            get("/loadbalancers?nosuch=1").refuses(400, "", INVALID_FILTER),
            get("/loadbalancers?tenant_id=$demo").refuses(400, "", INVALID_FILTER),
            get("/loadbalancers?id=$b&id=$gone").refuses(500, "", "*"),
            get("/loadbalancers?vip_network_id=$n&vip_network_id=$gone").refuses(500, "", "*"),
            get("/loadbalancers?id=$b&id=$gone&nosuch=1").refuses(400, "", INVALID_FILTER),
            lists(
                "/listeners?loadbalancer_id=$b&fields=id",
                "",
                r#"{"listeners": [{"id": "$l"}], "listeners_links": []}"#,
            ),
            lists(
                "/listeners?load_balancer_id=$b&protocol=HTTP&protocol_port=80&fields=id",
                "/listeners",
                r#"[{"id": "$l"}]"#,
            ),
            lists(
                "/listeners?default_pool_id=$p&fields=id",
                "/listeners",
                r#"[{"id": "$l"}]"#,
            ),
            lists("/listeners?loadbalancer_id=$gone", "/listeners", "[]"),
            get("/listeners?loadbalancers=$b").refuses(400, "", INVALID_FILTER),
            lists(
                "/pools?loadbalancer_id=$b&lb_algorithm=ROUND_ROBIN&fields=id",
                "/pools",
                r#"[{"id": "$p"}]"#,
            ),
            get("/pools?listener_id=$l").refuses(400, "", INVALID_FILTER),
            lists(
                "/pools/$p/members?address=10.9.0.9&pool_id=$p&fields=id",
                "",
                r#"{"members": [{"id": "$m"}], "members_links": []}"#,
            ),
            lists("/pools/$p/members?protocol_port=81", "/members", "[]"),
            get("/pools/$p/members?nosuch=1").refuses(400, "", INVALID_FILTER),
            lists(
                "/healthmonitors?pool_id=$p&type=HTTP&delay=5&fields=id",
                "/healthmonitors",
                r#"[{"id": "$h"}]"#,
            ),
            get("/healthmonitors?loadbalancer_id=$b").refuses(400, "", INVALID_FILTER),
            lists(
                "/l7policies?listener_id=$l&redirect_pool_id=$p&position=1&fields=id",
                "/l7policies",
                r#"[{"id": "$y"}]"#,
            ),
            get("/l7policies?loadbalancer_id=$b").refuses(400, "", INVALID_FILTER),
            get("/l7policies/$y/rules?l7policy_id=$y&type=PATH")
                .shows("", r#"{"rules": [], "rules_links": []}"#),
            get("/l7policies/$y/rules?nosuch=1").refuses(400, "", INVALID_FILTER),
        ],
    ])
}

fn balancer_permissions() -> Vec<Step> {
    let refused = |step: Step| step.by(Demo).refuses(403, "", FORBIDDEN);
    scene(vec![
        balancer(),
        and_wait(post("/listeners", LISTENER).save("l")),
        and_wait(post("/pools", POOL).save("p")),
        and_wait(post("/pools/$p/members", MEMBER).save("m")),
        and_wait(post("/l7policies", POLICY).save("y")),
        vec![
            refused(get("/loadbalancers/$b")).row("another project's balancer"),
            refused(put("/loadbalancers/$b", r#"{"loadbalancer": {}}"#)),
            refused(delete("/loadbalancers/$b")),
            refused(delete("/loadbalancers/$b?cascade=true")),
            refused(get("/listeners/$l")),
            refused(delete("/listeners/$l")),
            refused(post("/listeners", LISTENER)),
            refused(delete("/pools/$p")),
            refused(post("/pools", POOL)),
            refused(get("/pools/$p/members")),
            refused(get("/pools/$p/members/$m")),
            refused(delete("/pools/$p/members/$m")),
            refused(post("/pools/$p/members", MEMBER)),
            refused(post("/healthmonitors", MONITOR)),
            refused(delete("/l7policies/$y")),
            refused(get("/l7policies/$y/rules")),
            refused(post("/l7policies/$y/rules", RULE)),
            refused(get("/loadbalancers?project_id=$b.project_id")),
            refused(post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$s", "project_id": "$b.project_id"}}"#)),
            post("/loadbalancers", r#"{"loadbalancer": {"vip_subnet_id": "$s"}}"#).by(Demo).refuses(400, "", "Subnet $s not found."),
            get("/loadbalancers?id=$b").by(Demo).shows("/loadbalancers", "[]"),
            get("/listeners?loadbalancer_id=$b").by(Demo).shows("/listeners", "[]"),
            get("/loadbalancers").by(BadToken).refuses(401, "Unauthorized", "The request you have made requires authentication."),
            get("/loadbalancers/$gone").refuses(404, "", "Load Balancer $gone not found."),
            get("/loadbalancers/xyz").refuses(404, "", "Load Balancer xyz not found."),
            put("/loadbalancers/$gone", r#"{"loadbalancer": {}}"#).refuses(404, "", "Load Balancer $gone not found."),
            delete("/listeners/$gone").refuses(404, "", "Listener $gone not found."),
            delete("/pools/$gone").refuses(404, "", "Pool $gone not found."),
            delete("/pools/$p/members/$gone").refuses(404, "", "Member $gone not found."),
            delete("/pools/$gone/members/$m").refuses(404, "Bad Request", "Pool $gone not found."),
            get("/pools/$gone/members").refuses(404, "Bad Request", "Pool $gone not found."),
            delete("/healthmonitors/$gone").refuses(404, "", "Health Monitor $gone not found."),
            delete("/l7policies/$gone").refuses(404, "", "L7 Policy $gone not found."),
            delete("/l7policies/$y/rules/$gone").refuses(404, "", "L7 Rule $gone not found."),
            get("/l7policies/$gone/rules").refuses(404, "Bad Request", "L7Policy $gone not found."),
            get("/nosuch").refuses(404, "Not Found", ""),
            delete("/loadbalancers").refuses(400, "", "Missing argument: \"id\""),
            step("PATCH", "/loadbalancers/$b").at(LoadBalancer).body("{}").refuses(405, "Method Not Allowed", ""),
        ],
        and_wait(post("/pools", r#"{"pool": {"loadbalancer_id": "$b", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}}"#).save("o")),
        vec![get("/pools/$o/members/$m").refuses(404, "", "Member $m not found.")],
    ])
}

fn balancer_request_bodies() -> Vec<Step> {
    scene(vec![
        net(),
        vec![
            step("POST", "/loadbalancers")
                .at(LoadBalancer)
                .refuses(400, "", "*"),
            post("/loadbalancers", r#"{"nosuch": {}}"#).refuses(400, "", "*"),
            post("/loadbalancers", r#"{"loadbalancer": {"nosuch": 1}}"#).refuses(400, "", "*"),
            post("/loadbalancers", r#"{"loadbalancer": {"id": "$gone"}}"#).refuses(400, "", "*"),
            post(
                "/loadbalancers",
                r#"{"loadbalancer": {"vip_subnet_id": "xyz"}}"#,
            )
            .refuses(400, "", "*"),
            post("/loadbalancers", r#"{"loadbalancer": {"name": 5}}"#).refuses(400, "", "*"),
            post(
                "/loadbalancers",
                r#"{"loadbalancer": {"vip_address": "abc"}}"#,
            )
            .refuses(400, "", "*"),
            post(
                "/loadbalancers",
                r#"{"loadbalancer": {"vip_subnet_id": "$s", "admin_state_up": "maybe"}}"#,
            )
            .refuses(400, "", "*"),
            step("POST", "/healthmonitors")
                .at(LoadBalancer)
                .refuses(400, "", "*"),
        ],
    ])
}

fn balancer_child_request_bodies() -> Vec<Step> {
    scene(vec![
        balancer(),
        vec![
            post("/listeners", r#"{"listener": {}}"#).refuses(400, "", "Invalid input for field/attribute protocol. Value: 'None'. Mandatory field missing."),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "HTTP"}}"#).refuses(400, "", "Invalid input for field/attribute protocol_port. Value: 'None'. Mandatory field missing."),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$gone", "protocol": "HTTP", "protocol_port": 80}}"#).refuses(404, "", "Load Balancer $gone not found."),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "nosuch", "protocol_port": 80}}"#).refuses(400, "", "*"),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "HTTP", "protocol_port": 0}}"#).refuses(400, "", "*"),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "HTTP", "protocol_port": 70000}}"#).refuses(400, "", "*"),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "HTTP", "protocol_port": "x"}}"#).refuses(400, "", "*"),
            post("/listeners", r#"{"listener": {"loadbalancer_id": "$b", "protocol": "HTTP", "protocol_port": 80, "default_pool_id": "$gone"}}"#).refuses(404, "", "Pool $gone not found."),
            post("/pools", r#"{"pool": {"protocol": "HTTP"}}"#).refuses(400, "", "Invalid input for field/attribute lb_algorithm. Value: 'None'. Mandatory field missing."),
            post("/pools", r#"{"pool": {"protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"}}"#).refuses(400, "", "Validation failure: Must provide at least one of: loadbalancer_id, listener_id"),
            post("/pools", r#"{"pool": {"protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "loadbalancer_id": "$gone"}}"#).refuses(404, "", "Load Balancer $gone not found."),
        ],
        and_wait(post("/listeners", LISTENER).save("l")),
        and_wait(post("/pools", POOL).save("p")),
        vec![
            post("/pools/$p/members", r#"{"member": {}}"#).refuses(400, "", "Invalid input for field/attribute address. Value: 'None'. Mandatory field missing."),
            post("/pools/$p/members", r#"{"member": {"address": "10.9.0.3", "protocol_port": 80, "weight": 1000}}"#).refuses(400, "", "*"),
            post("/healthmonitors", r#"{"healthmonitor": {"pool_id": "$gone", "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2}}"#).refuses(404, "", "Pool $gone not found."),
            post("/healthmonitors", r#"{"healthmonitor": {"pool_id": "$p", "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 20}}"#).refuses(400, "", "*"),
            post("/l7policies", r#"{"l7policy": {"listener_id": "$gone", "action": "REJECT"}}"#).refuses(404, "", "Listener $gone not found."),
            post("/l7policies", r#"{"l7policy": {"listener_id": "$l", "action": "REDIRECT_TO_POOL", "redirect_pool_id": "$gone"}}"#).refuses(404, "", "Pool $gone not found."),
        ],
        and_wait(post("/l7policies", POLICY).save("y")),
        vec![
            post("/l7policies/$y/rules", "{}").refuses(400, "", "*"),
        ],
    ])
}
