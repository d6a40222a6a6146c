//! Which lists a plan needs, and in which order (N14).

use std::collections::BTreeMap;

use serde_json::json;

use super::topology::{Topology, cascade};

/// Returns the filter keys of the lookups of each kind, in order; none for a list of the whole kind.
fn filters_by_kind(cloud: &Topology) -> BTreeMap<String, Vec<Option<String>>> {
    let mut filters: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for lookup in &cloud.lookups {
        let key = lookup.filter.as_ref().map(|filter| filter.key.clone());
        let keys = filters.entry(lookup.kind.to_string()).or_default();
        keys.push(key);
    }
    filters
}

/// A project with a network, its subnet, a port there and a security group.
fn project() -> Topology {
    let mut cloud = Topology::new();
    cloud
        .add("project", json!({ "id": "p1", "name": "demo", "enabled": true }))
        .add(
            "network",
            json!({ "id": "n", "shared": false, "router:external": false }),
        )
        .add("subnet", json!({ "id": "s", "network_id": "n", "cidr": "10.0.0.0/24" }))
        .add("security_group", json!({ "id": "g", "name": "g" }))
        .add(
            "port",
            json!({ "id": "p", "network_id": "n", "device_owner": "",
                "fixed_ips": [{ "subnet_id": "s", "ip_address": "10.0.0.2" }], "security_groups": ["g"] }),
        );
    cloud
}

#[test]
fn n14_ports_are_listed_by_network_in_a_networks_plan_and_by_subnet_in_a_subnets_plan() {
    let by = |key: &str| Some(key.to_owned());
    let mut cloud = Topology::web();
    cloud.plan("network", "web", cascade());
    let ports = &filters_by_kind(&cloud)["port"];
    assert!(
        ports.contains(&by("network_id")) && !ports.contains(&by("fixed_ips")),
        "{ports:?}"
    );

    let mut cloud = Topology::web();
    let plan = cloud.plan("subnet", "s1", cascade());
    let ports = &filters_by_kind(&cloud)["port"];
    assert!(
        ports.contains(&by("fixed_ips")) && !ports.contains(&by("network_id")),
        "{ports:?}"
    );
    assert!(
        plan.steps
            .iter()
            .any(|step| step.kind.as_str() == "router_interface")
    );
}

#[test]
fn n14_ports_are_listed_after_all_networks_and_security_groups_are_known() {
    let mut cloud = project();
    let plan = cloud.plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let mut ports = filters_by_kind(&cloud)["port"].clone();
    ports.sort();
    let by = ["network_id", "project_id", "security_groups"];
    assert_eq!(ports, by.map(|key| Some(key.to_owned())));
    // The lists of ports are made together, after the lists of networks and security groups.
    let of_ports = |kind: &str| kind == "port";
    let kinds: Vec<&str> = cloud.lookups.iter().map(|it| it.kind.as_str()).collect();
    let first = kinds.iter().position(|kind| of_ports(kind)).unwrap();
    assert!(
        kinds[first..first + by.len()]
            .iter()
            .all(|kind| of_ports(kind)),
        "{kinds:?}"
    );
    assert!(kinds[..first].contains(&"network") && kinds[..first].contains(&"security_group"));
}

#[test]
fn n14_ports_that_must_all_be_listed_are_listed_once() {
    let mut cloud = project();
    cloud.add("qos_policy", json!({ "id": "q", "name": "slow" }));
    let plan = cloud.plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert_eq!(filters_by_kind(&cloud)["port"], [None]);
}
