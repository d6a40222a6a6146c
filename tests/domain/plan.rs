//! Which steps a plan has, and in which order (N2–N6, N15, P1, P4).

use std::collections::BTreeSet;

use gone::domain::kinds::Kinds;
use gone::domain::model::{Action, OnFailure, Plan, PlanOptions, PlanStep, RefusalRule, Resource};
use gone::domain::plan::{name_owners, plan_hash, ranks};
use proptest::prelude::*;
use serde_json::json;

use super::topology::{Topology, cascade, goes_after, steps};

fn names(steps: &[PlanStep]) -> BTreeSet<String> {
    steps
        .iter()
        .map(|step| format!("{}/{}", step.kind, step.resource_id))
        .collect()
}

fn set(expected: &[&str]) -> BTreeSet<String> {
    expected.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn n02_interfaces_and_the_routes_behind_them_are_deleted_and_floating_ips_stay() {
    let plan = Topology::web().plan("network", "web", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert_eq!(
        names(&plan.steps),
        set(&[
            "network/web",
            "port/parent",
            "port/sub1",
            "port/sub2",
            "port/vm",
            "router_interface/r1,s1",
            "static_route/r1,192.0.2.0/24,10.0.0.9",
            "trunk/t1",
        ])
    );
    assert_eq!(names(&plan.unset), set(&["floating_ip/fip"]));
    assert!(goes_after(
        &plan,
        "router_interface/r1,s1",
        "static_route/r1,192.0.2.0/24,10.0.0.9"
    ));
    // The floating IP blocks the interface until the port that it is attached to is gone.
    assert!(goes_after(&plan, "router_interface/r1,s1", "port/vm"));
}

#[test]
fn p01_a_row_that_vanished_when_its_list_was_restarted_is_in_no_plan() {
    let mut cloud = Topology::web();
    let plan = cloud.plan("network", "web", cascade());
    let rows = cloud.rows.values().flatten();
    let there: BTreeSet<&str> = rows.map(|row| row["id"].as_str().unwrap()).collect();
    for step in [&plan.steps, &plan.automatic, &plan.unset]
        .into_iter()
        .flatten()
    {
        let parts: Vec<&str> = step.resource_id.split(',').collect();
        assert!(parts.iter().any(|part| there.contains(part)), "{step:?}");
    }
}

#[test]
fn n02_floating_ips_are_deleted_too_with_delete_detached() {
    let options = PlanOptions {
        delete_detached: true,
        ..cascade()
    };
    let mut cloud = Topology::web();
    cloud.add_floating_ips_port();
    let plan = cloud.plan("network", "web", options);
    assert!(names(&plan.steps).contains("floating_ip/fip"));
    assert!(plan.unset.is_empty());
    assert_eq!(plan.refused, []);
    let own = plan.automatic.iter().find(|step| step.resource_id == "own");
    assert_eq!(
        &*own.unwrap().why,
        "is the address of floating ip 203.0.113.9 (fip)"
    );
    assert!(goes_after(
        &plan,
        "router_interface/r1,s1",
        "floating_ip/fip"
    ));
}

#[test]
fn n05_a_floating_ips_own_port_is_deleted_with_it_and_stays_with_it() {
    let mut cloud = Topology::web();
    cloud.add_floating_ips_port();
    let plan = cloud.plan("floating_ip", "fip", PlanOptions::default());
    assert_eq!(names(&plan.steps), set(&["floating_ip/fip"]));
    assert_eq!(names(&plan.automatic), set(&["port/own"]));
    assert_eq!(plan.refused, []);
    // If the floating IP is only disassociated, its own port is not in the plan.
    cloud.lookups.clear();
    let plan = cloud.plan("network", "web", cascade());
    assert_eq!(names(&plan.unset), set(&["floating_ip/fip"]));
    assert!(!names(&plan.automatic).contains("port/own"));
}

#[test]
fn n03_a_trunk_is_deleted_with_its_subports_and_the_other_network_stays() {
    let plan = Topology::web().plan("network", "web", cascade());
    assert!(goes_after(&plan, "port/parent", "trunk/t1"));
    assert!(goes_after(&plan, "port/sub1", "trunk/t1"));
    assert!(!names(&plan.steps).contains("network/storage"));
    assert!(!names(&plan.steps).contains("port/other"));
    assert_eq!(
        names(&plan.automatic),
        set(&[
            "port/dhcp",
            "subnet/s1",
            "subport/t1,sub1",
            "subport/t1,sub2"
        ])
    );
}

#[test]
fn n03_a_port_that_is_a_subport_elsewhere_is_detached_first() {
    let mut cloud = Topology::web();
    cloud.change("trunk", "t1", "sub_ports", json!([{ "port_id": "sub1" }]));
    let plan = cloud.plan("network", "storage", cascade());
    assert!(goes_after(&plan, "port/sub1", "subport/t1,sub1"));
    assert!(!names(&plan.steps).contains("trunk/t1"));
    let detach = plan
        .steps
        .iter()
        .find(|step| step.kind.as_str() == "subport")
        .unwrap();
    assert_eq!(detach.action, Action::Detach);
    assert_eq!(detach.vars["trunk_id"], "t1");
}

#[test]
fn n03_a_disabled_trunk_is_enabled_first_and_the_plan_says_so() {
    let mut cloud = Topology::web();
    cloud.change("trunk", "t1", "admin_state_up", json!(false));
    let plan = cloud.plan("network", "web", cascade());
    let enable = plan
        .steps
        .iter()
        .find(|step| step.action == Action::Enable)
        .unwrap();
    let delete = plan
        .steps
        .iter()
        .find(|step| step.kind.as_str() == "trunk" && step.action == Action::Delete)
        .unwrap();
    assert_eq!(delete.depends_on, [enable.id]);
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("t1") && warning.contains("enabled first")),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn n05_ports_that_the_cloud_removes_are_automatic_and_listed_by_network() {
    let mut cloud = Topology::web();
    let plan = cloud.plan("network", "web", cascade());
    let dhcp = plan
        .automatic
        .iter()
        .find(|step| step.resource_id == "dhcp")
        .unwrap();
    assert!(dhcp.automatic);
    assert!(dhcp.depends_on.is_empty());
    assert!(cloud.lookups.iter().all(|lookup| {
        lookup
            .filter
            .as_ref()
            .is_none_or(|filter| filter.key != "project_id")
    }));
}

#[test]
fn n06_the_network_is_deleted_last_and_its_subnets_with_it() {
    let plan = Topology::web().plan("network", "web", cascade());
    let last = plan.steps.last().unwrap();
    assert_eq!(
        (last.kind.as_str(), last.resource_id.as_str()),
        ("network", "web")
    );
    for port in ["port/vm", "port/parent", "router_interface/r1,s1"] {
        assert!(goes_after(&plan, "network/web", port), "{port}");
    }
    assert!(names(&plan.automatic).contains("subnet/s1"));
}

#[test]
fn n01_an_address_scope_is_deleted_after_its_pools_their_subnets_and_ports() {
    let mut cloud = Topology::web();
    cloud.add(
        "address_scope",
        json!({ "id": "scope", "name": "scope", "ip_version": 4 }),
    );
    cloud.add(
        "subnet_pool",
        json!({ "id": "pool", "name": "pool", "address_scope_id": "scope" }),
    );
    cloud.change("subnet", "s1", "subnetpool_id", json!("pool"));
    let plan = cloud.plan("address_scope", "scope", cascade());
    assert_eq!(plan.refused, []);
    assert_eq!(
        names(&plan.steps),
        set(&[
            "address_scope/scope",
            "port/parent",
            "port/sub1",
            "port/sub2",
            "port/vm",
            "router_interface/r1,s1",
            "static_route/r1,192.0.2.0/24,10.0.0.9",
            "subnet/s1",
            "subnet_pool/pool",
            "trunk/t1",
        ])
    );
    // The network stays, and its DHCP port stays without an address.
    assert!(names(&plan.unset).contains("port/dhcp"));
    for (later, earlier) in [
        ("address_scope/scope", "subnet_pool/pool"),
        ("subnet_pool/pool", "subnet/s1"),
        ("subnet/s1", "port/vm"),
    ] {
        assert!(goes_after(&plan, later, earlier), "{later} {earlier}");
    }
}

#[test]
fn n01_an_address_group_is_deleted_after_the_rules_that_name_it() {
    let mut cloud = Topology::new();
    cloud.add("address_group", json!({ "id": "a", "name": "a" }));
    for group in ["g1", "g2"] {
        cloud.add("security_group", json!({ "id": group, "name": group }));
        let rule = json!({ "id": format!("{group}-rule"), "security_group_id": group,
            "remote_address_group_id": "a" });
        cloud.add("security_group_rule", rule);
    }
    let plan = cloud.plan("address_group", "a", cascade());
    assert_eq!(plan.refused, []);
    assert_eq!(
        steps(&plan),
        [
            "security_group_rule/g1-rule",
            "security_group_rule/g2-rule",
            "address_group/a"
        ]
    );
}

#[test]
fn n15_resources_that_use_a_qos_policy_block_it_and_are_not_deleted() {
    let mut cloud = Topology::web();
    cloud.add("qos_policy", json!({ "id": "q", "name": "slow" }));
    cloud.change("network", "storage", "qos_policy_id", json!("q"));
    cloud.change("port", "vm", "qos_policy_id", json!("q"));
    cloud.change("floating_ip", "fip", "qos_policy_id", json!("q"));
    let gateway = json!({ "network_id": "outside", "qos_policy_id": "q" });
    cloud.change("router", "r1", "external_gateway_info", gateway);
    let plan = cloud.plan("qos_policy", "q", cascade());
    assert_eq!(steps(&plan), ["qos_policy/q"]);
    let blockers: BTreeSet<String> = plan
        .refused
        .iter()
        .map(|refusal| refusal.blocker.as_ref().unwrap())
        .map(|blocker| format!("{}/{}", blocker.kind, blocker.id))
        .collect();
    assert_eq!(
        blockers,
        set(&["floating_ip/fip", "network/storage", "port/vm", "router/r1"])
    );
    assert!(
        plan.refused
            .iter()
            .all(|refusal| refusal.rule == RefusalRule::InUse)
    );
}

#[test]
fn p04_rbac_policies_of_a_network_are_deleted_with_it_and_are_listed() {
    let mut cloud = Topology::web();
    for (id, kind, object) in [("r1", "network", "web"), ("r2", "network", "storage")] {
        cloud.add(
            "rbac_policy",
            json!({ "id": id, "object_type": kind, "object_id": object, "target_tenant": "*" }),
        );
    }
    let plan = cloud.plan("network", "web", cascade());
    assert_eq!(plan.refused, []);
    assert!(names(&plan.automatic).contains("rbac_policy/r1"));
    let all = [&plan.steps, &plan.automatic, &plan.unset];
    assert!(
        !all.iter()
            .any(|steps| names(steps).contains("rbac_policy/r2"))
    );
    cloud.lookups.clear();
    let protected = |resource: &Resource| (resource.key.id == "r1").then(|| "kept".to_owned());
    let guarded = cloud.plan_guarded("network", "web", cascade(), &protected);
    assert_eq!(guarded.refused.len(), 1);
    assert_eq!(guarded.refused[0].rule, RefusalRule::Protected);
}

#[test]
fn n01_a_plan_without_the_cascade_names_the_dependents_and_deletes_none() {
    let plan = Topology::web().plan("network", "web", PlanOptions::default());
    assert_eq!(steps(&plan), ["network/web"]);
    let blockers: BTreeSet<String> = plan
        .refused
        .iter()
        .filter_map(|refusal| refusal.blocker.as_ref())
        .map(|blocker| blocker.id.clone())
        .collect();
    assert_eq!(blockers, set(&["vm", "parent", "r1,s1"]));
    assert!(
        plan.refused
            .iter()
            .all(|refusal| refusal.rule == RefusalRule::InUse)
    );
}

#[test]
fn n15_a_floating_ip_that_only_needs_the_interface_blocks_its_router() {
    let mut cloud = Topology::web();
    cloud.change("router", "r1", "routes", json!([]));
    let plan = cloud.plan("router", "r1", cascade());
    assert_eq!(plan.refused.len(), 1, "{:?}", plan.refused);
    assert_eq!(plan.refused[0].blocker.as_ref().unwrap().id, "fip");
}

#[test]
fn p01_two_plans_of_an_unchanged_cloud_have_the_same_hash() {
    let first = Topology::web().plan("network", "web", cascade());
    let mut shuffled = Topology::web();
    shuffled.rows.values_mut().for_each(|rows| rows.reverse());
    // A changed status or revision is not drift.
    shuffled.change("port", "vm", "status", json!("ACTIVE"));
    shuffled.change("port", "vm", "revision_number", json!(17));
    let second = shuffled.plan("network", "web", cascade());
    assert_eq!(first.hash, second.hash);
    assert_eq!(first.hash, plan_hash(&first));
}

#[test]
fn p01_drift_is_any_difference_in_set_project_name_tags_owner_or_reference() {
    let plain = Topology::web().plan("network", "web", cascade()).hash;
    let drifted = |change: &dyn Fn(&mut Topology)| {
        let mut cloud = Topology::web();
        change(&mut cloud);
        cloud.plan("network", "web", cascade()).hash
    };
    type Change<'c> = &'c dyn Fn(&mut Topology);
    let changes: [(&str, Change<'_>); 7] = [
        ("a new port", &|cloud| {
            cloud.add(
                "port",
                json!({ "id": "new", "network_id": "web", "device_owner": "", "fixed_ips": [] }),
            );
        }),
        ("a port gone", &|cloud| {
            cloud
                .rows
                .get_mut("port")
                .unwrap()
                .retain(|row| row["id"] != "vm")
        }),
        ("a name", &|cloud| {
            cloud.change("port", "vm", "name", json!("renamed"))
        }),
        ("a tag", &|cloud| {
            cloud.change("port", "dhcp", "tags", json!(["keep"]))
        }),
        ("an owner", &|cloud| {
            cloud.change("port", "vm", "device_owner", json!("compute:other"))
        }),
        ("a reference", &|cloud| {
            cloud.change("floating_ip", "fip", "port_id", json!("parent"))
        }),
        ("a project", &|cloud| {
            cloud.change("port", "vm", "project_id", json!("p2"))
        }),
    ];
    for (what, change) in changes {
        assert_ne!(drifted(change), plain, "{what} is not drift");
    }
}

#[test]
fn p01_the_hash_covers_the_options() {
    let hash = |options| Topology::web().plan("network", "web", options).hash;
    assert_ne!(
        hash(cascade()),
        hash(PlanOptions {
            on_failure: OnFailure::Stop,
            ..cascade()
        })
    );
}

#[test]
fn p04_another_projects_resource_refuses_the_plan_as_a_step_automatic_or_unset() {
    for (kind, id) in [
        ("port", "vm"),
        ("port", "dhcp"),
        ("floating_ip", "fip"),
        ("trunk", "t1"),
        ("port", "sub1"),
    ] {
        let mut cloud = Topology::web();
        cloud.change(kind, id, "project_id", json!("p2"));
        let plan = cloud.plan("network", "web", cascade());
        let refusal = plan
            .refused
            .iter()
            .find(|refusal| refusal.rule == RefusalRule::OtherProject);
        let refusal =
            refusal.unwrap_or_else(|| panic!("{kind}/{id} of another project was not refused"));
        assert!(refusal.reason.contains("p2"), "{}", refusal.reason);
        assert_eq!(refusal.blocker.as_ref().unwrap().owner, "p2");
    }
}

#[test]
fn p02_a_refusal_names_the_project_where_its_name_is_known_and_keeps_its_id() {
    let mut cloud = Topology::web();
    cloud.change("port", "vm", "project_id", json!("p2"));
    cloud.change("port", "parent", "project_id", json!("p3"));
    let mut plan = cloud.plan("network", "web", cascade());
    let hash = plan.hash.clone();
    name_owners(&mut plan.refused, |blocker| {
        (blocker.owner == "p2").then(|| "de\u{1b}]2;mo".to_owned())
    });
    let of = |id: &str| {
        let mut refused = plan.refused.iter();
        let found = refused.find(|refusal| refusal.resource.key.id == id);
        let refusal = found.unwrap();
        let blocker = refusal.blocker.as_ref().unwrap();
        (
            blocker.owner.as_str(),
            blocker.owner_shown(),
            refusal.reason.as_str(),
        )
    };
    assert_eq!(
        of("vm"),
        (
            "p2",
            "de\u{1b}]2;mo",
            "port vm (vm) belongs to project de\\u{1b}]2;mo, not to the target's; its owner must remove it first"
        )
    );
    assert_eq!(
        of("parent"),
        (
            "p3",
            "p3",
            "port parent (parent) belongs to project p3, not to the target's; its owner must remove it first"
        )
    );
    assert_eq!(plan_hash(&plan), hash);
}

#[test]
fn p04_ports_without_a_project_belong_to_no_other_project() {
    let mut cloud = Topology::web();
    cloud.change("port", "dhcp", "project_id", json!(""));
    assert!(cloud.plan("network", "web", cascade()).refused.is_empty());
}

#[test]
fn p04_protection_applies_to_steps_automatic_and_unset() {
    for protected in ["vm", "dhcp", "s1", "fip", "web", "t1,sub1"] {
        let plan = Topology::web().plan_guarded("network", "web", cascade(), &move |resource| {
            (resource.key.id == protected).then(|| "tag keep".to_owned())
        });
        let refusal = plan
            .refused
            .iter()
            .find(|refusal| refusal.rule == RefusalRule::Protected);
        let refusal = refusal.unwrap_or_else(|| panic!("{protected} was not protected"));
        assert_eq!(refusal.resource.key.id, protected);
        assert!(refusal.reason.contains("tag keep"), "{}", refusal.reason);
    }
}

#[test]
fn p04_shared_and_external_networks_and_default_groups_are_never_deleted() {
    for (field, word) in [("shared", "shared"), ("router:external", "external")] {
        let mut cloud = Topology::web();
        cloud.change("network", "web", field, json!(true));
        let plan = cloud.plan("network", "web", cascade());
        assert!(
            plan.refused
                .iter()
                .any(|refusal| refusal.rule == RefusalRule::Protected
                    && refusal.reason.contains(word))
        );
    }
    let mut cloud = Topology::new();
    cloud.add("security_group", json!({ "id": "g", "name": "default" }));
    let plan = cloud.plan("security_group", "g", cascade());
    assert!(plan.refused[0].reason.contains("default group"));
}

#[test]
fn p04_rules_of_other_groups_that_are_deleted_silently_are_listed_by_id() {
    let mut cloud = Topology::new();
    cloud
        .add("security_group", json!({ "id": "g1", "name": "g1" }))
        .add("security_group", json!({ "id": "g2", "name": "g2" }))
        .add(
            "security_group_rule",
            json!({ "id": "own", "security_group_id": "g1" }),
        )
        .add(
            "security_group_rule",
            json!({ "id": "others", "security_group_id": "g2", "remote_group_id": "g1" }),
        );
    let plan = cloud.plan("security_group", "g1", cascade());
    assert_eq!(steps(&plan), ["security_group/g1"]);
    assert_eq!(
        names(&plan.automatic),
        set(&["security_group_rule/own", "security_group_rule/others"])
    );
    assert!(plan.refused.is_empty());
}

#[test]
fn a_port_that_uses_a_group_blocks_it_even_in_a_cascade() {
    let mut cloud = Topology::new();
    cloud
        .add("security_group", json!({ "id": "g1", "name": "g1" }))
        .add(
            "port",
            json!({ "id": "p", "network_id": "n", "device_owner": "", "security_groups": ["g1"] }),
        );
    let plan = cloud.plan("security_group", "g1", cascade());
    assert_eq!(plan.refused[0].blocker.as_ref().unwrap().id, "p");
}

#[test]
fn a_forwarding_is_deleted_with_its_port_and_then_the_interface_is_not_blocked() {
    let mut cloud = Topology::web();
    cloud.change("floating_ip", "fip", "port_id", json!(null));
    cloud.change("floating_ip", "fip", "fixed_ip_address", json!(null));
    cloud.change(
        "floating_ip",
        "fip",
        "port_forwardings",
        json!([{ "id": "pf", "internal_port_id": "vm", "internal_ip_address": "10.0.0.3" }]),
    );
    let plan = cloud.plan("network", "web", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert!(names(&plan.automatic).contains("port_forwarding/fip,pf"));
    assert!(goes_after(&plan, "router_interface/r1,s1", "port/vm"));
    assert!(!names(&plan.steps).contains("floating_ip/fip"));
}

#[test]
fn a_subnet_that_is_deleted_alone_leaves_the_dhcp_port_without_its_address() {
    let plan = Topology::web().plan("subnet", "s1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert!(names(&plan.unset).contains("port/dhcp"));
    assert!(!names(&plan.steps).contains("network/web"));
    assert!(goes_after(&plan, "subnet/s1", "router_interface/r1,s1"));
}

#[test]
fn n14_planning_lists_once_for_each_kind_and_filter() {
    let mut cloud = Topology::web();
    for number in 0..2_000 {
        cloud.add("port", json!({ "id": format!("many{number:05}"), "network_id": "web", "device_owner": "", "fixed_ips": [] }));
    }
    let plan = cloud.plan("network", "web", cascade());
    assert_eq!(plan.steps.len(), 2_008);
    let lists = cloud.lookups.len();
    assert!(
        lists <= 20,
        "{lists} lookups: {:#?}",
        cloud
            .lookups
            .iter()
            .map(|lookup| (
                lookup.kind.as_str(),
                lookup
                    .filter
                    .as_ref()
                    .map(|filter| (filter.key.clone(), filter.values.len()))
            ))
            .collect::<Vec<_>>()
    );
}

/// Checks that each step comes after the steps that it depends on, and that their ranks are higher than its own.
fn assert_ordered(plan: &Plan, kinds: &Kinds) {
    let ranks = ranks(plan, kinds);
    for (position, step) in plan.steps.iter().enumerate() {
        assert_eq!(step.id as usize, position);
        for before in &step.depends_on {
            assert!(*before < step.id);
            assert!(ranks[*before as usize] > ranks[position]);
        }
    }
}

proptest! {
    #[test]
    fn a_plan_of_any_topology_is_ordered_and_stable(ports in proptest::collection::vec((0u8..3, 0u8..4, any::<bool>()), 0..40), target in 0u8..3) {
        let build = || {
            let mut cloud = Topology::new();
            for network in 0..3 {
                cloud.add("network", json!({ "id": format!("n{network}"), "shared": false, "router:external": false }));
                cloud.add("subnet", json!({ "id": format!("s{network}"), "network_id": format!("n{network}"), "cidr": format!("10.{network}.0.0/16") }));
            }
            cloud.add("router", json!({ "id": "r", "routes": [] }));
            for (number, (network, owner, trunk)) in ports.iter().enumerate() {
                let owner = ["", "compute:nova", "network:dhcp", "network:router_interface"][*owner as usize];
                let device = if owner == "network:router_interface" { "r" } else { "" };
                cloud.add("port", json!({ "id": format!("p{number}"), "network_id": format!("n{network}"), "device_owner": owner, "device_id": device,
                    "fixed_ips": [{ "subnet_id": format!("s{network}"), "ip_address": format!("10.{network}.0.{number}") }] }));
                if *trunk && number > 0 && owner.is_empty() {
                    cloud.add("trunk", json!({ "id": format!("t{number}"), "port_id": format!("p{number}"), "admin_state_up": number % 2 == 0,
                        "sub_ports": [{ "port_id": format!("p{}", number - 1) }] }));
                }
            }
            cloud.plan("network", &format!("n{target}"), cascade())
        };
        let plan = build();
        if plan.refused.is_empty() {
            assert_ordered(&plan, &Topology::new().kinds);
        }
        prop_assert_eq!(&plan.hash, &build().hash);
    }
}

#[test]
fn n14_a_lookup_uses_a_filter_up_to_700_values_and_lists_all_above() {
    for (subports, by_filter) in [(2, true), (700, true), (701, false)] {
        let mut cloud = Topology::new();
        for network in ["n", "far"] {
            cloud.add(
                "network",
                json!({ "id": network, "shared": false, "router:external": false }),
            );
        }
        let parent =
            json!({ "id": "parent", "network_id": "n", "device_owner": "", "fixed_ips": [] });
        cloud.add("port", parent);
        let ids: Vec<String> = (0..subports).map(|number| format!("sub{number}")).collect();
        for id in &ids {
            cloud.add(
                "port",
                json!({ "id": id, "network_id": "far", "device_owner": "", "fixed_ips": [] }),
            );
        }
        let sub_ports: Vec<_> = ids.iter().map(|id| json!({ "port_id": id })).collect();
        cloud.add("trunk", json!({ "id": "t", "port_id": "parent", "admin_state_up": true, "sub_ports": sub_ports }));
        let plan = cloud.plan("network", "n", cascade());
        assert_eq!(plan.steps.len(), subports + 3, "{subports} subports");

        let ports = cloud
            .lookups
            .iter()
            .filter(|lookup| lookup.kind.as_str() == "port");
        let filters: Vec<_> = ports.map(|lookup| lookup.filter.as_ref()).collect();
        assert_eq!(
            filters.iter().all(Option::is_some),
            by_filter,
            "{subports} subports"
        );
        let of_id = filters.iter().flatten().find(|filter| filter.key == "id");
        assert_eq!(
            of_id.map(|filter| filter.values.len()),
            by_filter.then_some(subports)
        );
        assert!(
            filters
                .iter()
                .flatten()
                .all(|filter| !filter.values.is_empty())
        );
    }
}

#[test]
fn n03_a_subport_on_the_same_network_is_deleted_after_its_trunk() {
    let mut cloud = Topology::web();
    cloud.change("port", "sub1", "network_id", json!("web"));
    let plan = cloud.plan("network", "web", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert!(goes_after(&plan, "port/sub1", "trunk/t1"));
    assert!(goes_after(&plan, "network/web", "port/sub1"));
}

#[test]
fn automatic_and_unset_resources_have_numbers_of_their_own() {
    let plan = Topology::web().plan("network", "web", cascade());
    let all = [&plan.steps, &plan.automatic, &plan.unset];
    let numbers: Vec<u32> = all.into_iter().flatten().map(|step| step.id).collect();
    let count = numbers.len();
    assert!(plan.automatic.len() > 1 && !plan.unset.is_empty());
    assert_eq!(
        numbers,
        (0..u32::try_from(count).unwrap()).collect::<Vec<_>>()
    );
    // A call for each step, one observation of all steps, and the lists.
    assert_eq!(plan.calls_estimate, plan.steps.len() as u64 + 21);
}

#[test]
fn n01_a_refusal_names_the_blocker_by_name_and_id_and_says_what_would_help() {
    let mut cloud = Topology::web();
    cloud.change("port", "vm", "name", json!("web-1"));
    cloud.change("port", "parent", "name", json!(""));
    let plan = cloud.plan("network", "web", PlanOptions::default());
    let reason = |id: &str| {
        let of = |refusal: &&gone::domain::model::Refusal| {
            refusal
                .blocker
                .as_ref()
                .is_some_and(|blocker| blocker.id == id)
        };
        plan.refused.iter().find(of).unwrap().reason.clone()
    };
    assert!(reason("vm").starts_with("network web (web) is in use: port web-1 (vm) "));
    assert!(
        reason("vm").ends_with("it; add the cascade to delete it too"),
        "{}",
        reason("vm")
    );
    assert!(
        reason("parent").contains(": port parent "),
        "{}",
        reason("parent")
    );

    let mut groups = Topology::new();
    groups
        .add("security_group", json!({ "id": "g1", "name": "g1" }))
        .add(
            "port",
            json!({ "id": "p", "network_id": "n", "device_owner": "", "security_groups": ["g1"] }),
        );
    let plan = groups.plan("security_group", "g1", cascade());
    assert!(
        plan.refused[0]
            .reason
            .ends_with("and this plan does not remove it")
    );
}

#[test]
fn n03_a_plan_with_an_enabled_trunk_has_no_warnings() {
    let plan = Topology::web().plan("network", "web", cascade());
    assert_eq!(plan.warnings, Vec::<String>::new());
}
