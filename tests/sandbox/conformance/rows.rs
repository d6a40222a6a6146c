//! Ties the tables of `tests/testbed/BEHAVIOUR.md` to the scenes.

/// The first cell of a row, and the key that the scenes use for it.
pub const ROWS: &[(&str, &str)] = &[
    ("network with ports", "network with ports"),
    ("network with subnets, no ports", "network with subnets"),
    (
        "network whose only ports are network:dhcp or network:distributed",
        "network with automatic ports",
    ),
    (
        "network with a port of any other owner (Octavia, neutron:*, trunk:subport, '', network:floatingip, network:local_ip, network:router_ha_interface ...)",
        "network with any other port",
    ),
    (
        "external network with a router gateway, or an associated floating IP",
        "external network in use",
    ),
    (
        "**external network with only unassociated floating IPs**",
        "external network with free floating IPs",
    ),
    (
        "another project's port on a shared network",
        "shared network with another project's port",
    ),
    ("subnet with a port", "subnet with a port"),
    (
        "subnet with only network:dhcp ports",
        "subnet with DHCP ports",
    ),
    ("compute:nova port", "compute port"),
    (
        "router interface port, gateway port, floating IP's port",
        "router's port",
    ),
    ("port with a floating IP", "port with a floating IP"),
    ("port with a port forwarding", "port with a forwarding"),
    ("trunk's parent port", "trunk's parent"),
    ("trunk's subport", "trunk's subport"),
    ("trunk with subports", "trunk with subports"),
    ("router with interfaces", "router with interfaces"),
    ("router with gateway, no interface", "router with gateway"),
    ("floating IP", "floating IP"),
    (
        "**floating IP with port forwardings**",
        "floating IP with forwardings",
    ),
    ("security group on a port", "group on a port"),
    (
        "**security group that only others' rules refer to (remote_group_id)**",
        "group named by others' rules",
    ),
    ("default group, as a member", "default group as a member"),
    ("default group, as admin", "default group as admin"),
    ("**subnet pool with subnets**", "subnet pool with subnets"),
    ("address scope with pools", "address scope with pools"),
    ("address group in a rule", "address group in a rule"),
    ("QoS policy", "QoS policy in use"),
    (
        "RBAC policy whose target uses the network",
        "RBAC policy in use",
    ),
    ("shared network, as a member", "shared network as a member"),
    (
        "another project's network, as a member",
        "another project's network",
    ),
    ("bad token", "bad token"),
    (
        "a floating IP or a port forwarding behind it",
        "interface with floating IPs",
    ),
    (
        "an extra route's nexthop in that subnet",
        "interface with routes",
    ),
    (
        "again, by subnet_id; or a subnet of another router",
        "interface again by subnet",
    ),
    ("again, by port_id", "interface again by port"),
    ("router gone", "interface of a gone router"),
    ("empty body", "interface of nothing"),
    (
        "`PUT /routers/{id}` external_gateway_info null or {} with floating IPs or forwardings",
        "gateway with floating IPs",
    ),
    (
        "DELETE load balancer with children",
        "balancer with children",
    ),
    ("`?cascade=true`", "cascade"),
    ("again meanwhile", "deleted again meanwhile"),
    (
        "a child while the balancer is PENDING_*",
        "child of a pending balancer",
    ),
    ("gone", "gone balancer"),
    (
        "POST of a child of a balancer that is gone",
        "child of a gone balancer",
    ),
    ("pool that an L7 policy redirects to", "pool of a policy"),
    (
        "L7 policy with rules; listener with L7 policies; pool with members and a monitor",
        "things with children",
    ),
    ("the VIP's port, in Neutron", "VIP's port"),
    (
        "balancer on a port that the user made (vip_port_id)",
        "the user's VIP port",
    ),
    (
        "**POST of a whole balancer that is refused for what is in it**",
        "a refused balancer's port",
    ),
    (
        "another project's balancer or child, as a member",
        "another project's balancer",
    ),
];

/// First cells of rows about kinds that the sandbox does not have.
pub const OUT_OF_SCOPE: &[&str] = &["last segment of a network"];

/// Sections about services that the sandbox does not have.
pub const OTHER_SERVICES: &[&str] = &["Glance", "For comparison"];
