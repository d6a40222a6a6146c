//! Plans for router interfaces, automatic addresses, and ports that a service owns (N17, N18, N20).

use std::collections::{BTreeMap, BTreeSet};

use gone::cloud::openstack::RestCalls;
use gone::domain::model::{Action, Identity, Plan, PlanOptions};
use serde_json::{Value, json};

use super::topology::{Topology, cascade, site};

fn ids<'p>(steps: impl IntoIterator<Item = &'p gone::domain::model::PlanStep>) -> BTreeSet<String> {
    let named = steps.into_iter();
    named
        .map(|step| {
            format!(
                "{} {}/{}",
                step.action.as_str(),
                step.kind,
                step.resource_id
            )
        })
        .collect()
}

fn port(id: &str, owner: &str, device: &str, addresses: &[(&str, &str)]) -> Value {
    let fixed: Vec<Value> = addresses
        .iter()
        .map(|(subnet, ip)| json!({ "subnet_id": subnet, "ip_address": ip }))
        .collect();
    json!({ "id": id, "name": id, "network_id": "net", "device_owner": owner, "device_id": device,
        "fixed_ips": fixed, "security_groups": [] })
}

/// A network with an IPv4 subnet, two IPv6 subnets and a server's port. The interfaces of the IPv6 subnets share one
/// port of a router.
fn dual(mode: &str) -> Topology {
    let mut cloud = Topology::new();
    cloud
        .add(
            "network",
            json!({ "id": "net", "name": "net", "shared": false, "router:external": false }),
        )
        .add(
            "subnet",
            json!({ "id": "v4", "network_id": "net", "cidr": "10.0.0.0/24" }),
        )
        .add("router", json!({ "id": "r", "name": "r", "routes": [] }))
        .add(
            "port",
            port(
                "if",
                "network:router_interface",
                "r",
                &[("v6-1", "2001:db8:1::"), ("v6-2", "2001:db8:2::")],
            ),
        )
        .add(
            "port",
            port(
                "vm",
                "compute:nova",
                "vm",
                &[("v4", "10.0.0.3"), ("v6-1", "2001:db8:1::3")],
            ),
        );
    for (id, cidr) in [("v6-1", "2001:db8:1::/64"), ("v6-2", "2001:db8:2::/64")] {
        cloud.add(
            "subnet",
            json!({ "id": id, "network_id": "net", "cidr": cidr,
            "ipv6_address_mode": mode, "ipv6_ra_mode": mode }),
        );
    }
    cloud
}

fn interface<'p>(plan: &'p Plan, id: &str) -> &'p BTreeMap<String, String> {
    let mut steps = plan.steps.iter();
    &steps.find(|step| step.resource_id == id).unwrap().vars
}

#[test]
fn n17_an_interface_whose_port_has_more_subnets_is_removed_by_its_subnet() {
    let mut cloud = dual("slaac");
    let plan = cloud.plan("subnet", "v6-1", cascade());
    let expected = ["delete subnet/v6-1", "detach router_interface/r,v6-1"];
    assert_eq!(ids(&plan.steps), expected.map(str::to_owned).into());
    let kinds = cloud.kinds.clone();
    let kind = kinds.resolve("router_interface").unwrap();
    assert!(kind.removes_one_of_row(interface(&plan, "r,v6-1")));
    let calls: &RestCalls = kind.calls_of().unwrap();
    let call = calls.delete_one.as_ref().unwrap();
    assert_eq!(call.body, Some(json!({ "subnet_id": "{subnet_id}" })));

    // An interface whose port has no other subnet is removed by the id of its port, which names the incarnation (I10).
    let alone = port(
        "if",
        "network:router_interface",
        "r",
        &[("v6-1", "2001:db8:1::")],
    );
    cloud.change("port", "if", "fixed_ips", alone["fixed_ips"].clone());
    cloud.lookups.clear();
    let plan = cloud.plan("subnet", "v6-1", cascade());
    assert!(!kind.removes_one_of_row(interface(&plan, "r,v6-1")));
}

#[test]
fn n18_a_subnet_with_automatic_addresses_is_deleted_and_its_ports_lose_them() {
    for mode in ["slaac", "dhcpv6-stateless"] {
        for options in [cascade(), PlanOptions::default()] {
            let mut cloud = dual(mode);
            cloud.change("port", "if", "fixed_ips", json!([]));
            let plan = cloud.plan("subnet", "v6-1", options);
            assert!(plan.refused.is_empty(), "{:?}", plan.refused);
            assert_eq!(ids(&plan.steps), ["delete subnet/v6-1".to_owned()].into());
            assert_eq!(ids(&plan.unset), ["unset port/vm".to_owned()].into());
        }
    }
}

#[test]
fn n18_ports_block_a_subnet_with_stateful_addresses() {
    let mut cloud = dual("dhcpv6-stateful");
    cloud.change("port", "if", "fixed_ips", json!([]));
    let plan = cloud.plan("subnet", "v6-1", PlanOptions::default());
    assert_eq!(plan.refused.len(), 1, "{:?}", plan.refused);
    assert!(plan.unset.is_empty());
}

#[test]
fn n18_a_port_that_loses_an_automatic_address_still_blocks_its_network() {
    let mut cloud = dual("slaac");
    cloud.change("port", "if", "fixed_ips", json!([]));
    let plan = cloud.plan("network", "net", PlanOptions::default());
    let mut blockers = plan.refused.iter().flat_map(|it| &it.blocker);
    assert!(blockers.any(|it| it.id == "vm"), "{:?}", plan.refused);
}

#[test]
fn n20_octavias_ports_are_deleted_with_their_network_although_another_project_owns_them() {
    for name in ["octavia-lb-vrrp-1", "octavia-lb-member-1"] {
        let mut cloud = dual("slaac");
        let mut amphora = port("amphora", "compute:nova", "vm2", &[("v4", "10.0.0.9")]);
        amphora["name"] = json!(name);
        amphora["project_id"] = json!("service");
        cloud.add("port", amphora);
        let plan = cloud.plan("network", "net", cascade());
        assert!(plan.refused.is_empty(), "{:?}", plan.refused);
        assert!(ids(&plan.automatic).contains("delete port/amphora"));
    }
}

#[test]
fn n20_no_call_is_planned_on_a_port_that_a_router_owns() {
    for owner in [
        "network:router_ha_interface",
        "network:router_centralized_snat",
        "network:router_gateway",
    ] {
        let mut cloud = dual("slaac");
        cloud.add(
            "port",
            port("routers", owner, "elsewhere", &[("v4", "10.0.0.9")]),
        );
        for (kind, id) in [("network", "net"), ("subnet", "v4")] {
            cloud.lookups.clear();
            let plan = cloud.plan(kind, id, cascade());
            assert!(!ids(&plan.steps).contains("delete port/routers"), "{owner}");
            let mut blockers = plan.refused.iter().flat_map(|it| &it.blocker);
            assert!(
                blockers.any(|it| it.id == "routers"),
                "{owner}: {:?}",
                plan.refused
            );
        }
    }
    let mut cloud = dual("slaac");
    cloud.add("port", port("ha", "network:router_ha_interface", "r", &[]));
    let plan = cloud.plan("router", "r", cascade());
    assert!(ids(&plan.automatic).contains("delete port/ha"));
}

#[test]
fn n20_a_members_plan_releases_a_service_port_before_it_deletes_the_port() {
    for (role, owner, released) in [
        ("member", "compute:az1", true),
        ("member", "baremetal:none", true),
        ("member", "manila:share", true),
        ("member", "neutron:foo", false),
        ("admin", "compute:az1", false),
    ] {
        let mut cloud = dual("slaac");
        cloud.change("port", "vm", "device_owner", json!(owner));
        let identity = Identity {
            user_id: "u".into(),
            project_id: "p1".into(),
            roles: vec![role.into()],
        };
        cloud.frozen.identities = BTreeMap::from([(site().to_string(), identity)]);
        let plan = cloud.plan("port", "vm", PlanOptions::default());
        let before = plan.steps.iter().find(|it| it.action == Action::Enable);
        assert_eq!(before.is_some(), released, "{role} {owner}");
        if let Some(before) = before {
            let delete = plan.steps.iter().find(|it| it.action == Action::Delete);
            assert_eq!(delete.unwrap().depends_on, [before.id]);
            let is_warned = plan
                .warnings
                .iter()
                .any(|it| it.contains("is released first"));
            assert!(is_warned, "{:?}", plan.warnings);
        }
    }
}
