//! Plans over several services: load balancers, images, and all resources of a project (N1, N4, P4).

use std::collections::BTreeSet;

use gone::domain::model::{Plan, PlanOptions, PlanStep, RefusalRule};
use serde_json::json;

use super::topology::{Topology, cascade, goes_after, steps};

fn names(steps: &[PlanStep]) -> BTreeSet<String> {
    let name = |step: &PlanStep| format!("{}/{}", step.kind, step.resource_id);
    steps.iter().map(name).collect()
}

fn set(expected: &[&str]) -> BTreeSet<String> {
    expected.iter().map(|name| (*name).to_owned()).collect()
}

fn step<'p>(plan: &'p Plan, kind: &str, id: &str) -> &'p PlanStep {
    let is = |step: &&PlanStep| step.kind.as_str() == kind && step.resource_id == id;
    plan.steps.iter().find(is).unwrap()
}

/// The network `web` with two load balancers: `lb` has a VIP port that Octavia made and every kind of child, and
/// `plain` has a port that the user made and no children.
fn balancers() -> Topology {
    let mut cloud = Topology::new();
    cloud
        .add("network", json!({ "id": "web", "name": "web", "shared": false, "router:external": false }))
        .add("subnet", json!({ "id": "s1", "network_id": "web", "cidr": "10.0.0.0/24" }))
        .add("port", json!({ "id": "vip", "network_id": "web", "device_owner": "Octavia", "device_id": "lb-lb" }))
        .add("port", json!({ "id": "mine", "network_id": "web", "device_owner": "", "device_id": "" }))
        .add("load_balancer", json!({ "id": "lb", "name": "front", "vip_network_id": "web", "vip_subnet_id": "s1",
            "vip_port_id": "vip", "additional_vips": [], "provisioning_status": "ACTIVE" }))
        .add("load_balancer", json!({ "id": "plain", "name": "plain", "vip_network_id": "web", "vip_subnet_id": "s1",
            "vip_port_id": "mine", "additional_vips": [], "provisioning_status": "ACTIVE" }))
        .add("listener", json!({ "id": "li", "loadbalancers": [{ "id": "lb" }], "default_pool_id": "po" }))
        .add("pool", json!({ "id": "po", "loadbalancers": [{ "id": "lb" }], "members": [{ "id": "m1" }] }))
        .add("health_monitor", json!({ "id": "hm", "pools": [{ "id": "po" }] }))
        .add("l7_policy", json!({ "id": "l7", "listener_id": "li", "redirect_pool_id": "po", "rules": [{ "id": "ru" }] }));
    cloud
}

const CHILDREN: [&str; 6] = [
    "health_monitor/hm",
    "l7_policy/l7",
    "l7_rule/l7,ru",
    "listener/li",
    "member/po,m1",
    "pool/po",
];

#[test]
fn n04_balancers_are_deleted_by_their_own_cascade_before_a_port_that_the_user_made() {
    let plan = balancers().plan("network", "web", cascade());
    assert_eq!(plan.refused, []);
    assert_eq!(
        names(&plan.steps),
        set(&[
            "load_balancer/lb",
            "load_balancer/plain",
            "network/web",
            "port/mine"
        ])
    );
    let automatic: Vec<&str> = CHILDREN
        .into_iter()
        .chain(["port/vip", "subnet/s1"])
        .collect();
    assert_eq!(names(&plan.automatic), set(&automatic));
    assert_eq!(step(&plan, "load_balancer", "lb").vars["cascade"], "true");
    assert!(goes_after(&plan, "port/mine", "load_balancer/plain"));
    assert!(goes_after(&plan, "network/web", "load_balancer/lb"));
}

#[test]
fn n04_a_balancer_with_another_vip_on_the_network_is_deleted_too() {
    let mut cloud = balancers();
    cloud
        .add("port", json!({ "id": "second", "network_id": "web", "device_owner": "Octavia", "device_id": "lb-far" }))
        .add("load_balancer", json!({ "id": "far", "vip_network_id": "other", "vip_subnet_id": "s9",
            "vip_port_id": "elsewhere", "additional_vips": [{ "port_id": "second", "subnet_id": "s1" }] }));
    let plan = cloud.plan("network", "web", cascade());
    assert_eq!(plan.refused, []);
    assert!(names(&plan.automatic).contains("port/second"));
    assert!(goes_after(&plan, "network/web", "load_balancer/far"));
}

#[test]
fn n01_a_plan_without_the_cascade_is_refused_for_a_balancers_children() {
    let mut cloud = balancers();
    let plan = cloud.plan("load_balancer", "lb", PlanOptions::default());
    let blockers: BTreeSet<String> = plan
        .refused
        .iter()
        .filter_map(|refusal| refusal.blocker.as_ref())
        .map(|blocker| format!("{}/{}", blocker.kind, blocker.id))
        .collect();
    assert_eq!(blockers, set(&["listener/li", "pool/po"]));
    assert_eq!(names(&plan.automatic), set(&["port/vip"]));
    // Without children, the call does not cascade either, so it fails if a child appears after the plan.
    cloud.lookups.clear();
    let plan = cloud.plan("load_balancer", "plain", PlanOptions::default());
    assert_eq!(plan.refused, []);
    assert_eq!(
        step(&plan, "load_balancer", "plain").vars["cascade"],
        "false"
    );
}

#[test]
fn n15_a_pool_that_a_policy_redirects_to_is_refused() {
    let plan = balancers().plan("pool", "po", cascade());
    let [refusal] = plan.refused.as_slice() else {
        panic!("{:?}", plan.refused);
    };
    assert_eq!(refusal.rule, RefusalRule::InUse);
    assert_eq!(refusal.blocker.as_ref().unwrap().id, "l7");
    assert_eq!(names(&plan.unset), set(&["listener/li"]));
}

#[test]
fn p04_the_members_of_a_shared_image_are_deleted_with_it_and_are_listed() {
    let mut cloud = Topology::new();
    cloud
        .add("image", json!({ "id": "i1", "name": "base", "owner": "p1", "visibility": "shared", "protected": false }))
        .add("image", json!({ "id": "i2", "name": "own", "owner": "p1", "visibility": "private", "protected": false }))
        .add("image_member", json!({ "image_id": "i1", "member_id": "p2", "status": "accepted" }));
    let plan = cloud.plan("image", "i1", PlanOptions::default());
    assert_eq!(plan.refused, []);
    assert_eq!(steps(&plan), ["image/i1"]);
    assert_eq!(names(&plan.automatic), set(&["image_member/i1,p2"]));
    // Glance refuses to list the members of an image that is not shared.
    cloud.lookups.clear();
    let plan = cloud.plan("image", "i2", PlanOptions::default());
    assert_eq!(steps(&plan), ["image/i2"]);
    assert_eq!(cloud.lookups, []);
}

#[test]
fn p04_a_protected_image_is_refused_and_says_what_to_do() {
    let mut cloud = Topology::new();
    let row = json!({ "id": "i1", "name": "base", "owner": "p1", "visibility": "private", "protected": true });
    cloud.add("image", row);
    let plan = cloud.plan("image", "i1", cascade());
    let [refusal] = plan.refused.as_slice() else {
        panic!("{:?}", plan.refused);
    };
    assert_eq!(refusal.rule, RefusalRule::Protected);
    let reason = "image base (i1) is never deleted: it is protected: take the protection off first";
    assert_eq!(refusal.reason, reason);
}

/// The project `p1` with a network, load balancers, an image and security groups, and the project `p2`.
fn project() -> Topology {
    let mut cloud = balancers();
    cloud
        .add(
            "project",
            json!({ "id": "p1", "name": "leftovers", "enabled": true }),
        )
        .add(
            "project",
            json!({ "id": "p2", "name": "neighbour", "enabled": true }),
        )
        .add(
            "image",
            json!({ "id": "i1", "owner": "p1", "visibility": "private", "protected": false }),
        )
        .add(
            "image",
            json!({ "id": "i2", "owner": "p2", "visibility": "private", "protected": false }),
        )
        .add(
            "network",
            json!({ "id": "n2", "project_id": "p2", "shared": false, "router:external": false }),
        )
        .add("security_group", json!({ "id": "g0", "name": "default" }))
        .add("security_group", json!({ "id": "g1", "name": "web" }))
        .add(
            "security_group_rule",
            json!({ "id": "r0", "security_group_id": "g0" }),
        )
        .add(
            "security_group_rule",
            json!({ "id": "r1", "security_group_id": "g1" }),
        );
    cloud
}

#[test]
fn a_projects_plan_covers_all_services_but_not_the_project_and_its_default_group() {
    let plan = project().plan("project", "p1", cascade());
    assert_eq!(plan.refused, []);
    assert_eq!(
        names(&plan.steps),
        set(&[
            "image/i1",
            "load_balancer/lb",
            "load_balancer/plain",
            "network/web",
            "port/mine",
            "security_group/g1",
        ])
    );
    let automatic = names(&plan.automatic);
    assert!(automatic.contains("security_group_rule/r1"));
    assert!(!automatic.contains("security_group_rule/r0"));
    assert_eq!(
        plan.warnings,
        [
            "project leftovers (p1): the Keystone project stays",
            "security group default (g0) stays: it is the project's default group: Neutron creates it again at once"
        ]
    );
}

#[test]
fn n01_a_projects_resources_are_deleted_only_with_the_cascade() {
    let plan = project().plan("project", "p1", PlanOptions::default());
    assert_eq!(steps(&plan), Vec::<String>::new());
    let rules: BTreeSet<&str> = plan
        .refused
        .iter()
        .map(|refusal| refusal.resource.key.kind.as_str())
        .collect();
    assert_eq!(rules, BTreeSet::from(["project"]));
    assert!(
        plan.refused[0]
            .reason
            .ends_with("add the cascade to delete it too")
    );
}

#[test]
fn p04_another_projects_port_on_a_projects_network_refuses_the_plan() {
    let mut cloud = project();
    cloud.add("port", json!({ "id": "theirs", "project_id": "p2", "network_id": "web", "device_owner": "compute:nova" }));
    let plan = cloud.plan("project", "p1", cascade());
    let [refusal] = plan.refused.as_slice() else {
        panic!("{:?}", plan.refused);
    };
    assert_eq!(refusal.rule, RefusalRule::OtherProject);
    assert_eq!(refusal.resource.key.id, "theirs");
}

#[test]
fn n14_one_list_replaces_many_lookups_by_a_filter_that_takes_one_value() {
    let mut cloud = balancers();
    for n in 0..9 {
        cloud
            .add("load_balancer", json!({ "id": format!("lb{n}"), "vip_network_id": "web", "vip_port_id": "", "additional_vips": [] }))
            .add("listener", json!({ "id": format!("li{n}"), "loadbalancers": [{ "id": format!("lb{n}") }] }));
    }
    let plan = cloud.plan("network", "web", cascade());
    assert_eq!(plan.refused, []);
    let filter_values: Vec<usize> = cloud
        .lookups
        .iter()
        .filter(|lookup| lookup.kind.as_str() == "listener")
        .map(|lookup| {
            lookup
                .filter
                .as_ref()
                .map_or(0, |filter| filter.values.len())
        })
        .collect();
    assert_eq!(
        filter_values,
        [0],
        "the lookups are not one list of all listeners"
    );
    assert_eq!(
        plan.automatic
            .iter()
            .filter(|it| it.kind.as_str() == "listener")
            .count(),
        10
    );
}
