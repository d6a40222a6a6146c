//! The attributes of each kind, in the order in which the API checks them.
use super::kind::{Attribute, C, F, Form, G, Kind, M, P, R, Shape, U, Unset};

const NAME_MAX: usize = 255;
const PROJECT_MAX: usize = 36;
const PORT: Shape = Shape::Number(1, 65_535);
/// Milliseconds.
const TIMEOUT: Shape = Shape::Number(0, 24 * 24 * 60 * 60 * 1000);
const RETRIES: Shape = Shape::Number(1, 10);
const NAME: Shape = Shape::Text(NAME_MAX);

const ID: Attribute = Attribute::new("id", Shape::Computed, F, Unset::Absent);
const NAMED: Attribute = Attribute::new("name", NAME, P | U | F, Unset::Null);
const DESCRIBED: Attribute = Attribute::new("description", NAME, P | U | F, Unset::Null);
const ENABLED: Attribute =
    Attribute::new("admin_state_up", Shape::Flag, P | U | F, Unset::Flag(true));
const STATUS: Attribute = Attribute::new("provisioning_status", Shape::Computed, F, Unset::Absent);
const WORKING: Attribute = Attribute::new("operating_status", Shape::Computed, F, Unset::Absent);
const PROJECT: Attribute =
    Attribute::new("project_id", Shape::Text(PROJECT_MAX), P | F, Unset::Absent);
const TENANT: Attribute = Attribute::new("tenant_id", Shape::Text(PROJECT_MAX), P, Unset::Absent);
const CREATED: Attribute = Attribute::new("created_at", Shape::Computed, F, Unset::Absent);
const UPDATED: Attribute = Attribute::new("updated_at", Shape::Computed, F, Unset::Absent);
const TAGS: Attribute = Attribute::new("tags", Shape::Texts, P | U, Unset::List);

/// Returns an attribute that is only shown: no body may set it.
const fn shown(name: &'static str, flags: u8) -> Attribute {
    Attribute::new(name, Shape::Computed, flags, Unset::Absent)
}

const fn text(name: &'static str) -> Attribute {
    Attribute::new(name, NAME, P | U | F, Unset::Null)
}

pub(super) static LOAD_BALANCER: Form = Form {
    singular: "loadbalancer",
    plural: "loadbalancers",
    title: "Load Balancer",
    arguments: ("load_balancer", "load_balancer"),
    first_read: ("project_id", "vip_sg_ids"),
    parents: &[],
    attributes: &[
        ID,
        NAMED,
        DESCRIBED,
        ENABLED,
        STATUS,
        WORKING,
        Attribute::new("vip_address", Shape::Address, P | F, Unset::Absent),
        Attribute::new("vip_port_id", Shape::Id, P | F, Unset::Absent),
        Attribute::new("vip_subnet_id", Shape::Id, P | F, Unset::Absent),
        Attribute::new("vip_network_id", Shape::Id, P | F, Unset::Absent),
        Attribute::new("vip_qos_policy_id", Shape::Id, P | U | F, Unset::Null),
        Attribute::new("vip_sg_ids", Shape::Ids, P | U, Unset::List),
        Attribute::new("additional_vips", Shape::Vips, P | C, Unset::Absent),
        PROJECT,
        TENANT,
        Attribute::new(
            "listeners",
            Shape::Children(Kind::Listener),
            G | C,
            Unset::Absent,
        ),
        Attribute::new("pools", Shape::Children(Kind::Pool), G | C, Unset::Absent),
        Attribute::new("provider", Shape::Text(64), P | F, Unset::Text("testbed")),
        TAGS,
        Attribute::new("flavor_id", Shape::Id, P | F, Unset::Null),
        Attribute::new("availability_zone", NAME, P | F, Unset::Null),
        Attribute::new("vip_vnic_type", Shape::Computed, F, Unset::Text("normal")),
        CREATED,
        UPDATED,
    ],
};

pub(super) static LISTENER: Form = Form {
    singular: "listener",
    plural: "listeners",
    title: "Listener",
    arguments: ("listener_", "listener_"),
    first_read: ("loadbalancer_id", ""),
    parents: &["loadbalancer_id", "load_balancer_id"],
    attributes: &[
        ID,
        NAMED,
        DESCRIBED,
        ENABLED,
        STATUS,
        WORKING,
        Attribute::new(
            "protocol",
            Shape::Choice(&[
                "HTTP",
                "HTTPS",
                "PROMETHEUS",
                "SCTP",
                "TCP",
                "TERMINATED_HTTPS",
                "UDP",
            ]),
            P | M | F,
            Unset::Null,
        ),
        Attribute::new("protocol_port", PORT, P | M | F, Unset::Null),
        Attribute::new(
            "connection_limit",
            Shape::Number(-1, i64::MAX),
            P | U | F,
            Unset::Number(-1),
        ),
        text("default_tls_container_ref"),
        Attribute::new("sni_container_refs", Shape::Texts, P | U, Unset::List),
        PROJECT,
        TENANT,
        Attribute::new("default_pool_id", Shape::Id, P | U | F, Unset::Null),
        Attribute::new("default_pool", Shape::PoolOrName, G, Unset::Absent),
        Attribute::new(
            "l7policies",
            Shape::Children(Kind::Policy),
            G | C,
            Unset::Absent,
        ),
        Attribute::new("insert_headers", Shape::TextMap, P | U | F, Unset::Object),
        Attribute::new("loadbalancer_id", Shape::Id, P | M | R, Unset::Absent),
        shown("loadbalancers", 0),
        Attribute::new(
            "timeout_client_data",
            TIMEOUT,
            P | U | F,
            Unset::Number(50_000),
        ),
        Attribute::new(
            "timeout_member_connect",
            TIMEOUT,
            P | U | F,
            Unset::Number(5_000),
        ),
        Attribute::new(
            "timeout_member_data",
            TIMEOUT,
            P | U | F,
            Unset::Number(50_000),
        ),
        Attribute::new("timeout_tcp_inspect", TIMEOUT, P | U | F, Unset::Number(0)),
        TAGS,
        text("client_ca_tls_container_ref"),
        Attribute::new(
            "client_authentication",
            Shape::Choice(&["MANDATORY", "NONE", "OPTIONAL"]),
            P | U | F,
            Unset::Text("NONE"),
        ),
        text("client_crl_container_ref"),
        Attribute::new("allowed_cidrs", Shape::Texts, P | U, Unset::Null),
        Attribute::new("tls_ciphers", Shape::Text(2048), P | U | F, Unset::Null),
        Attribute::new("tls_versions", Shape::Texts, P | U, Unset::Null),
        Attribute::new("alpn_protocols", Shape::Texts, P | U, Unset::Null),
        Attribute::new(
            "hsts_max_age",
            Shape::Number(0, i64::MAX),
            P | U | F,
            Unset::Null,
        ),
        Attribute::new(
            "hsts_include_subdomains",
            Shape::Flag,
            P | U | F,
            Unset::Flag(false),
        ),
        Attribute::new("hsts_preload", Shape::Flag, P | U | F, Unset::Flag(false)),
        CREATED,
        UPDATED,
    ],
};

pub(super) static POOL: Form = Form {
    singular: "pool",
    plural: "pools",
    title: "Pool",
    arguments: ("pool_", "pool_"),
    first_read: ("loadbalancer_id", "tls_versions"),
    parents: &["loadbalancer_id", "load_balancer_id"],
    attributes: &[
        ID,
        NAMED,
        DESCRIBED,
        ENABLED,
        STATUS,
        WORKING,
        Attribute::new("listener_id", Shape::Id, P | R, Unset::Absent),
        Attribute::new("loadbalancer_id", Shape::Id, P | R, Unset::Absent),
        Attribute::new(
            "protocol",
            Shape::Choice(&["HTTP", "HTTPS", "PROXY", "PROXYV2", "SCTP", "TCP", "UDP"]),
            P | M | F,
            Unset::Null,
        ),
        Attribute::new(
            "lb_algorithm",
            Shape::Choice(&[
                "LEAST_CONNECTIONS",
                "ROUND_ROBIN",
                "SOURCE_IP",
                "SOURCE_IP_PORT",
            ]),
            P | U | M | F,
            Unset::Null,
        ),
        Attribute::new(
            "session_persistence",
            Shape::Persistence,
            P | U,
            Unset::Null,
        ),
        PROJECT,
        TENANT,
        Attribute::new(
            "healthmonitor",
            Shape::Child(Kind::HealthMonitor),
            G,
            Unset::Absent,
        ),
        shown("healthmonitor_id", F),
        Attribute::new(
            "members",
            Shape::Children(Kind::Member),
            G | C,
            Unset::Absent,
        ),
        shown("loadbalancers", 0),
        shown("listeners", 0),
        TAGS,
        text("tls_container_ref"),
        text("ca_tls_container_ref"),
        text("crl_container_ref"),
        Attribute::new("tls_enabled", Shape::Flag, P | U | F, Unset::Flag(false)),
        Attribute::new("tls_ciphers", Shape::Text(2048), P | U | F, Unset::Null),
        Attribute::new("tls_versions", Shape::Texts, P | U, Unset::Null),
        Attribute::new("alpn_protocols", Shape::Texts, P | U, Unset::Null),
        CREATED,
        UPDATED,
    ],
};

pub(super) static MEMBER: Form = Form {
    singular: "member",
    plural: "members",
    title: "Member",
    arguments: ("member_", "member_"),
    first_read: ("address", "backup"),
    parents: &["pool_id"],
    attributes: &[
        ID,
        NAMED,
        ENABLED,
        STATUS,
        WORKING,
        Attribute::new("address", Shape::Address, P | M | F, Unset::Null),
        Attribute::new("protocol_port", PORT, P | M | F, Unset::Null),
        Attribute::new("weight", Shape::Number(0, 256), P | U | F, Unset::Number(1)),
        Attribute::new("backup", Shape::Flag, P | U | F, Unset::Flag(false)),
        Attribute::new("subnet_id", Shape::Id, P | F, Unset::Null),
        PROJECT,
        TENANT,
        Attribute::new("monitor_port", PORT, P | U | F, Unset::Null),
        Attribute::new("monitor_address", Shape::Address, P | U | F, Unset::Null),
        TAGS,
        Attribute::new("vnic_type", Shape::Computed, F, Unset::Text("normal")),
        CREATED,
        UPDATED,
    ],
};

pub(super) static HEALTH_MONITOR: Form = Form {
    singular: "healthmonitor",
    plural: "healthmonitors",
    title: "Health Monitor",
    arguments: ("health_monitor_", "health_monitor_"),
    first_read: ("pool_id", "http_method"),
    parents: &["pool_id"],
    attributes: &[
        ID,
        NAMED,
        Attribute::new(
            "type",
            Shape::Choice(&[
                "HTTP",
                "HTTPS",
                "PING",
                "SCTP",
                "TCP",
                "TLS-HELLO",
                "UDP-CONNECT",
            ]),
            P | M | F,
            Unset::Null,
        ),
        Attribute::new(
            "delay",
            Shape::Number(0, i64::MAX),
            P | U | M | F,
            Unset::Null,
        ),
        Attribute::new(
            "timeout",
            Shape::Number(0, i64::MAX),
            P | U | M | F,
            Unset::Null,
        ),
        Attribute::new("max_retries_down", RETRIES, P | U | F, Unset::Number(3)),
        Attribute::new("max_retries", RETRIES, P | U | M | F, Unset::Null),
        Attribute::new(
            "http_method",
            Shape::Choice(&[
                "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
            ]),
            P | U | F,
            Unset::Null,
        ),
        text("url_path"),
        text("expected_codes"),
        ENABLED,
        PROJECT,
        TENANT,
        Attribute::new("pool_id", Shape::Id, P | M | R, Unset::Absent),
        shown("pools", 0),
        STATUS,
        WORKING,
        TAGS,
        Attribute::new("http_version", Shape::Decimal, P | U | F, Unset::Null),
        text("domain_name"),
        CREATED,
        UPDATED,
    ],
};

pub(super) static POLICY: Form = Form {
    singular: "l7policy",
    plural: "l7policies",
    title: "L7 Policy",
    arguments: ("l7policy_", "l7policy_"),
    first_read: ("listener_id", "to_dict"),
    parents: &["listener_id"],
    attributes: &[
        ID,
        NAMED,
        DESCRIBED,
        ENABLED,
        STATUS,
        WORKING,
        PROJECT,
        TENANT,
        Attribute::new(
            "action",
            Shape::Choice(&[
                "REDIRECT_PREFIX",
                "REDIRECT_TO_POOL",
                "REDIRECT_TO_URL",
                "REJECT",
            ]),
            P | U | M | F,
            Unset::Null,
        ),
        Attribute::new("redirect_pool_id", Shape::Id, P | U | F, Unset::Null),
        Attribute::new("redirect_pool", Shape::PoolOrName, G, Unset::Absent),
        Attribute::new("redirect_url", Shape::Url, P | U | F, Unset::Null),
        Attribute::new("redirect_prefix", Shape::Url, P | U | F, Unset::Null),
        Attribute::new(
            "position",
            Shape::Number(1, i32::MAX as i64),
            P | U | F,
            Unset::Null,
        ),
        Attribute::new("listener_id", Shape::Id, P | M | R, Unset::Absent),
        Attribute::new("rules", Shape::Children(Kind::Rule), G, Unset::Absent),
        TAGS,
        Attribute::new("redirect_http_code", Shape::Code, P | U | F, Unset::Null),
        CREATED,
        UPDATED,
    ],
};

pub(super) static RULE: Form = Form {
    singular: "rule",
    plural: "rules",
    title: "L7 Rule",
    arguments: ("rule_", "l7rule_"),
    first_read: ("value", "invert"),
    parents: &["l7policy_id"],
    attributes: &[
        ID,
        Attribute::new(
            "type",
            Shape::Choice(&[
                "COOKIE",
                "FILE_TYPE",
                "HEADER",
                "HOST_NAME",
                "PATH",
                "SSL_CONN_HAS_CERT",
                "SSL_DN_FIELD",
                "SSL_VERIFY_RESULT",
            ]),
            P | U | M | F,
            Unset::Null,
        ),
        Attribute::new(
            "compare_type",
            Shape::Choice(&["CONTAINS", "ENDS_WITH", "EQUAL_TO", "REGEX", "STARTS_WITH"]),
            P | U | M | F,
            Unset::Null,
        ),
        text("key"),
        Attribute::new("value", NAME, P | U | M | F, Unset::Null),
        Attribute::new("invert", Shape::Flag, P | U | F, Unset::Flag(false)),
        ENABLED,
        STATUS,
        WORKING,
        PROJECT,
        TENANT,
        TAGS,
        CREATED,
        UPDATED,
    ],
};
