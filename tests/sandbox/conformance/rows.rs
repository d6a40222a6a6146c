//! Ties the rows of the tables of `tests/testbed/BEHAVIOUR.md` to the steps of the scenes.

/// The first cell of each row, word for word, and the key by which steps name the row.
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
    (
        "subnet of automatic addresses (SLAAC or stateless DHCPv6, by either mode) with ports, also with ports that have no other address",
        "automatic subnet with a port",
    ),
    (
        "subnet of automatic addresses with a router interface",
        "automatic subnet with a router interface",
    ),
    (
        "subnet of stateful DHCPv6 with a port",
        "stateful subnet with a port",
    ),
    ("compute:nova port", "compute port"),
    (
        "compute:*, baremetal:* or manila:* port, as a member",
        "server's port as a member",
    ),
    (
        "the same after `PUT {\"port\": {\"device_owner\": \"\", \"device_id\": \"\"}}`",
        "released port as a member",
    ),
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
    ("last segment of a network", "last segment"),
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
        "removed interface by subnet",
    ),
    ("again, by port_id", "removed interface by port"),
    (
        "**a port with addresses of several IPv6 subnets, by one subnet_id**",
        "one subnet of a shared interface",
    ),
    ("**the same by port_id**", "shared interface by port"),
    (
        "**the same by port_id and subnet_id**",
        "shared interface by port and subnet",
    ),
    ("router gone", "interface of a gone router"),
    ("empty body", "interface without subnet or port"),
    (
        "`PUT /routers/{id}` external_gateway_info null or {} with floating IPs or forwardings",
        "gateway with floating IPs",
    ),
    ("DELETE image with members", "image with members"),
    ("DELETE image, protected", "protected image"),
    (
        "DELETE another's image that the caller sees (public, community, shared with him)",
        "visible image of another project",
    ),
    (
        "DELETE another's image that the caller does not see",
        "invisible image of another project",
    ),
    ("DELETE image, again", "image deleted again"),
    ("bad token, Glance", "image call with a bad token"),
    (
        "**POST image with the id of a deleted one**",
        "image with the id of a deleted one",
    ),
    ("POST member of a shared image", "member of a shared image"),
    ("POST member that is there", "member added again"),
    ("POST member that was deleted", "deleted member added again"),
    (
        "POST, PUT, DELETE member of a private, public or community image",
        "member of an image that is not shared",
    ),
    (
        "GET members of a private, public or community image",
        "list of members of an image that is not shared",
    ),
    (
        "members of an image that was private for a while",
        "members of an image that was private for a while",
    ),
    (
        "member that is not there, or that the caller does not see",
        "unknown member",
    ),
    (
        "DELETE member, as the member itself",
        "member removes itself",
    ),
    (
        "PUT status of a member, as the image's owner",
        "owner accepts for a member",
    ),
    (
        "GET file of an image without one",
        "file of an image that has none",
    ),
    ("PUT file without formats", "upload without formats"),
    ("PUT file", "upload"),
    ("PUT file again", "upload again"),
    (
        "GET file of a deactivated image, as a member",
        "file of a deactivated image",
    ),
    ("as a member", "list as a member"),
    ("**an image with `os_hidden`**", "hidden image"),
    (
        "`member_status=all` (or pending, rejected), as a member",
        "list of all shared images as a member",
    ),
    ("**`id=A&id=B`**", "filter given twice"),
    ("`id=in:A,B`, `name=in:A,B`", "filter with several values"),
    ("`tag=A&tag=B`", "tag given twice"),
    (
        "**an unknown filter, `fields` among them**",
        "unknown filter",
    ),
    ("`name=a` of an image A", "filter in another case"),
    ("`limit`, `marker`", "page"),
    ("no `limit`", "page without a limit"),
    ("a marker that was deleted, as a member", "deleted marker"),
    (
        "a marker that was deleted, as an admin",
        "deleted marker as an admin",
    ),
    (
        "DELETE load balancer with children",
        "balancer with children",
    ),
    ("`?cascade=true`", "cascade"),
    ("again meanwhile", "balancer deleted again"),
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
        "child with children",
    ),
    (
        "member of a pool, rule of an L7 policy",
        "pool member or policy rule",
    ),
    ("the VIP's port, in Neutron", "VIP's port"),
    (
        "balancer on a port that the user made (vip_port_id)",
        "VIP port of the user",
    ),
    (
        "**POST of a whole balancer that is refused for what is in it**",
        "port of a refused balancer",
    ),
    (
        "another project's balancer or child, as a member",
        "another project's balancer",
    ),
    (
        "local IP's own port, or a port of the user's that a local IP has its address from",
        "local IP's port",
    ),
    ("local IP with associations", "local IP with associations"),
    (
        "local IP without associations",
        "local IP without associations",
    ),
    (
        "port with an association of a local IP",
        "port with an association of a local IP",
    ),
    ("association of a local IP", "association of a local IP"),
    (
        "router with conntrack helpers",
        "router with conntrack helpers",
    ),
    ("port with an NDP proxy", "port with an NDP proxy"),
    (
        "router interface towards a port with an NDP proxy",
        "interface to a port with an NDP proxy",
    ),
    (
        "gateway of a router with an NDP proxy",
        "gateway of a router with an NDP proxy",
    ),
    ("metering label with rules", "metering label with rules"),
    (
        "metering label of his project, as a member",
        "metering label as a member",
    ),
];

/// Sections of BEHAVIOUR.md whose rows the scenes need not show: about services that the practice cloud lacks, or of
/// which it imitates only a part. The scenes about servers and volumes name no rows.
pub const OTHER_SERVICES: &[&str] = &[
    "For comparison",
    "Keystone",
    "Nova",
    "Cinder",
    "Heat",
    "Designate",
    "Barbican",
    "Manila",
    "Swift",
];
