//! Plans with shares, and with the networks that they use.

use gone::domain::model::{Plan, PlanOptions, RefusalRule};
use serde_json::{Value, json};

use super::topology::{Topology, cascade, goes_after, steps};

/// A project with a share network, which has a share of a group and the port of a share server, and with a share that
/// has a snapshot, an access rule, replicas and a backup.
fn project() -> Topology {
    let mut cloud = Topology::new();
    let on_network = json!([{ "id": "zone", "neutron_net_id": "net", "neutron_subnet_id": "sub" }]);
    cloud
        .add("project", json!({ "id": "p1", "name": "demo" }))
        .add(
            "network",
            json!({ "id": "net", "shared": false, "router:external": false }),
        )
        .add("subnet", json!({ "id": "sub", "network_id": "net" }))
        .add(
            "port",
            json!({ "id": "served", "network_id": "net", "device_owner": "manila:share", "device_id": "server",
                "fixed_ips": [{ "subnet_id": "sub" }], "security_groups": [] }),
        )
        .add(
            "share_network",
            json!({ "id": "on", "name": "on", "share_network_subnets": on_network }),
        )
        .add(
            "security_service",
            json!({ "id": "ldap", "share_networks": ["on"] }),
        )
        .add(
            "share_group",
            json!({ "id": "group", "share_network_id": "on" }),
        )
        .add(
            "share_group_snapshot",
            json!({ "id": "moment", "share_group_id": "group", "members": [{ "share_id": "grouped" }] }),
        )
        .add(
            "share",
            json!({ "id": "grouped", "share_network_id": "on", "share_group_id": "group" }),
        )
        .add("share", json!({ "id": "data", "name": "data", "share_group_id": null }))
        .add("share_snapshot", json!({ "id": "snap", "share_id": "data" }))
        .add(
            "share_access_rule",
            json!({ "id": "rule", "share_id": "data", "access_to": "192.0.2.1" }),
        )
        .add(
            "share_replica",
            json!({ "id": "first", "share_id": "data", "replica_state": "active" }),
        )
        .add(
            "share_replica",
            json!({ "id": "second", "share_id": "data", "replica_state": "in_sync" }),
        )
        .add("share_backup", json!({ "id": "backup", "share_id": "data" }));
    cloud
}

fn automatic(plan: &Plan) -> Vec<String> {
    let named = plan.automatic.iter();
    named
        .map(|it| format!("{}/{}", it.kind, it.resource_id))
        .collect()
}

#[test]
fn n20_a_share_is_deleted_after_its_snapshot_replica_and_backup_and_its_rule_with_it() {
    let plan = project().plan("share", "data", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let mut gone = steps(&plan);
    gone.sort();
    assert_eq!(
        gone,
        [
            "share/data",
            "share_backup/backup",
            "share_replica/second",
            "share_snapshot/snap"
        ]
    );
    for first in [
        "share_backup/backup",
        "share_replica/second",
        "share_snapshot/snap",
    ] {
        assert!(goes_after(&plan, "share/data", first), "{first}");
    }
    let mut along = automatic(&plan);
    along.sort();
    assert_eq!(
        along,
        ["share_access_rule/data,rule", "share_replica/first"]
    );
}

#[test]
fn n19_a_projects_network_is_deleted_after_its_shares_and_their_share_network() {
    let plan = project().plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    for (last, first) in [
        ("network/net", "port/served"),
        ("port/served", "share_network/on"),
        ("share_network/on", "share_network_subnet/on,zone"),
        ("share_network/on", "share/grouped"),
        ("share_network_subnet/on,zone", "share/grouped"),
        ("share_network_subnet/on,zone", "share_group/group"),
        ("share_network/on", "share_group/group"),
        ("share_group/group", "share/grouped"),
        ("share/grouped", "share_group_snapshot/moment"),
        ("security_service/ldap", "share_network/on"),
    ] {
        assert!(
            goes_after(&plan, last, first),
            "{first} before {last}: {:?}",
            steps(&plan)
        );
    }
}

/// Neutron would delete the network while no share server has a port on it, although shares need the network.
#[test]
fn p04_a_network_or_subnet_is_refused_while_a_share_network_uses_it() {
    for (kind, id) in [("network", "net"), ("subnet", "sub")] {
        let refused = project().plan(kind, id, cascade()).refused;
        assert_eq!(refused.len(), 1, "{kind}: {refused:?}");
        assert_eq!(refused[0].rule, RefusalRule::InUse);
        let blocker = refused[0].blocker.as_ref().unwrap();
        assert_eq!(
            (blocker.kind.as_str(), &*blocker.id),
            ("share_network", "on")
        );
    }
}

#[test]
fn p04_a_locked_share_is_refused_and_its_lock_is_named() {
    let mut cloud = project();
    let lock = |id: &str, of: &str, action: &str| json!({ "id": id, "lock_reason": "keep", "resource_type": of, "resource_id": "data", "resource_action": action });
    cloud.add("resource_lock", lock("shown", "share", "show"));
    cloud.add("resource_lock", lock("rule", "access_rule", "delete"));
    assert_eq!(cloud.plan("share", "data", cascade()).refused, []);
    cloud.lookups.clear();
    cloud.add("resource_lock", lock("lock", "share", "delete"));
    for (kind, id) in [("share", "data"), ("project", "p1")] {
        let refused = cloud.plan(kind, id, cascade()).refused;
        let blocker = refused[0].blocker.as_ref().unwrap();
        assert_eq!(
            (blocker.kind.as_str(), &*blocker.id),
            ("resource_lock", "lock")
        );
        assert!(refused[0].reason.contains("keep"), "{refused:?}");
        cloud.lookups.clear();
    }
}

/// Manila deletes a share of a group only if the call names the group.
#[test]
fn a_step_passes_the_group_of_its_share() {
    let plan = project().plan(
        "project",
        "p1",
        PlanOptions {
            cascade: true,
            ..PlanOptions::default()
        },
    );
    let group = |id: &str| -> Value {
        let step = plan.steps.iter().find(|it| it.resource_id == id).unwrap();
        json!(step.vars.get("share_group_id"))
    };
    assert_eq!(group("grouped"), "group");
    assert_eq!(group("data"), "");
}

#[test]
fn n19_a_public_share_stays_unless_public_resources_are_included() {
    let mut cloud = project();
    cloud.change("share", "data", "is_public", json!(true));
    let plan = cloud.plan("project", "p1", cascade());
    assert!(!steps(&plan).contains(&"share/data".to_owned()));
    cloud.lookups.clear();
    let public = PlanOptions {
        include_public: true,
        ..cascade()
    };
    let plan = cloud.plan("project", "p1", public);
    assert!(steps(&plan).contains(&"share/data".to_owned()));
}
