//! Servers and volumes in a plan, and how their rows show the result of a delete.

use std::collections::BTreeMap;

use gone::domain::kinds::AsyncDelete;
use gone::domain::model::{Action, KindName, Plan, PlanOptions, PlanStep, RefusalRule};
use gone::domain::plan::ranks;
use serde_json::json;

use super::topology::{Topology, cascade};

/// A project with a server, which has a port and a volume; the volume has a snapshot and a backup.
fn project() -> Topology {
    let mut cloud = Topology::new();
    let volume = json!({ "id": "data", "name": "data", "status": "in-use",
        "os-vol-tenant-attr:tenant_id": "p1", "attachments": [{ "server_id": "vm", "attachment_id": "use" }] });
    cloud
        .add("project", json!({ "id": "p1", "name": "demo" }))
        .add(
            "network",
            json!({ "id": "net", "shared": false, "router:external": false }),
        )
        .add(
            "port",
            json!({ "id": "nic", "network_id": "net", "device_owner": "compute:nova",
            "device_id": "vm", "fixed_ips": [], "security_groups": [] }),
        )
        .add(
            "server",
            json!({ "id": "vm", "uuid": "vm", "name": "vm", "tenant_id": "p1", "locked": false,
                "os-extended-volumes:volumes_attached": [{ "id": "data" }] }),
        )
        .add("volume", volume)
        .add(
            "volume_snapshot",
            json!({ "id": "snap", "volume_id": "data",
            "os-extended-snapshot-attributes:project_id": "p1" }),
        )
        .add(
            "backup",
            json!({ "id": "more", "volume_id": "data", "os-backup-project-attr:project_id": "p1",
                "is_incremental": true, "has_dependent_backups": false }),
        )
        .add(
            "backup",
            json!({ "id": "full", "volume_id": "data", "os-backup-project-attr:project_id": "p1",
                "is_incremental": false, "has_dependent_backups": true }),
        );
    cloud
}

/// Returns the steps that each step waits for directly, all as `action kind`.
fn waits(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let named = |step: &PlanStep| format!("{} {}", step.action.as_str(), step.kind);
    let before = |id: &u32| {
        plan.steps
            .iter()
            .find(|it| it.id == *id)
            .map(named)
            .unwrap()
    };
    let steps = plan.steps.iter();
    steps
        .map(|step| {
            let mut first: Vec<String> = step.depends_on.iter().map(before).collect();
            first.sort();
            (named(step), first)
        })
        .collect()
}

/// Deletes that take the cloud seconds start before deletes that it answers at once.
#[test]
fn steps_that_take_the_cloud_longest_have_the_highest_ranks() {
    let mut cloud = project();
    cloud.add("zone", json!({ "id": "zone", "name": "example.org." }));
    let plan = cloud.plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let ranks = ranks(&plan, &cloud.kinds);
    let rank = |id: &str| {
        let mut steps = plan.steps.iter();
        ranks[steps.position(|it| it.resource_id == id).unwrap()]
    };
    // A port and its network wait for the server; a volume waits for the server and for its own snapshot.
    assert_eq!([rank("net"), rank("nic")], [1, 2]);
    assert_eq!([rank("zone"), rank("data"), rank("full")], [10; 3]);
    assert_eq!([rank("vm"), rank("snap"), rank("more")], [20; 3]);
}

#[test]
fn n20_a_projects_server_is_deleted_before_its_ports_and_volumes() {
    let plan = project().plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let waits = waits(&plan);
    assert_eq!(waits["delete server"], Vec::<String>::new());
    assert_eq!(waits["delete port"], ["delete server"]);
    assert_eq!(waits["delete network"], ["delete port"]);
    assert_eq!(
        waits["delete volume"],
        ["delete server", "delete volume_snapshot"]
    );
    let backups = plan.steps.iter().filter(|it| it.kind.as_str() == "backup");
    let backups: Vec<&str> = backups.map(|it| &*it.resource_id).collect();
    assert_eq!(backups, ["more", "full"]);
    assert_eq!(waits["delete backup"], ["delete backup"]);
    // The cloud detaches the volume when it deletes the server.
    let automatic: Vec<&str> = plan.automatic.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(automatic, ["volume_attachment"]);
}

#[test]
fn n04_a_volume_is_detached_and_its_server_stays() {
    let plan = project().plan("volume", "data", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let waits = waits(&plan);
    let steps: Vec<&str> = waits.keys().map(String::as_str).collect();
    assert_eq!(
        steps,
        [
            "delete volume",
            "delete volume_snapshot",
            "detach volume_attachment"
        ]
    );
    assert_eq!(
        waits["delete volume"],
        ["delete volume_snapshot", "detach volume_attachment"]
    );
    let refused = project()
        .plan("volume", "data", PlanOptions::default())
        .refused;
    assert!(
        refused.iter().all(|it| it.rule == RefusalRule::InUse),
        "{refused:?}"
    );
    assert!(!refused.is_empty());
}

/// The volume is attached to something that Nova does not know, for example bare metal.
#[test]
fn n04_a_volume_attached_to_no_server_is_detached_too() {
    let mut cloud = project();
    cloud.change("volume", "data", "attachments", json!([]));
    let use_of = json!([{ "attachment_id": "use", "host_name": "metal-1" }]);
    cloud.change("volume", "data", "attachments_without_server", use_of);
    let plan = cloud.plan("volume", "data", cascade());
    assert_eq!(
        waits(&plan)["delete volume"],
        ["delete volume_snapshot", "detach storage_attachment"]
    );
}

#[test]
fn n04_the_plan_of_a_server_leaves_its_ports_and_volumes() {
    let plan = project().plan("server", "vm", cascade());
    let steps: Vec<_> = plan
        .steps
        .iter()
        .map(|it| (it.action, it.kind.as_str()))
        .collect();
    assert_eq!(steps, [(Action::Delete, "server")]);
    let unset: Vec<&str> = plan.unset.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(unset, ["port"]);
}

/// Nova deletes volumes with `delete_on_termination`, but leaves a volume that has snapshots.
#[test]
fn p01_a_volume_that_nova_deletes_with_its_server_is_in_the_plan() {
    let mut cloud = project();
    cloud.change("server", "vm", "volumes_deleted_along", json!(["data"]));
    for options in [cascade(), PlanOptions::default()] {
        let plan = cloud.plan("server", "vm", options);
        assert!(plan.refused.is_empty(), "{:?}", plan.refused);
        let steps: Vec<&str> = plan.steps.iter().map(|it| it.kind.as_str()).collect();
        assert_eq!(steps, ["server"]);
        let along = plan
            .automatic
            .iter()
            .find(|it| it.kind.as_str() == "volume");
        assert_eq!(
            &*along.unwrap().why,
            "goes, unless it has snapshots, with server vm (vm)"
        );
        cloud.lookups.clear();
    }
    // In the project's plan, the volume has its own step, which waits for its snapshots.
    let plan = cloud.plan("project", "p1", cascade());
    assert!(plan.automatic.iter().all(|it| it.kind.as_str() != "volume"));
    assert_eq!(
        waits(&plan)["delete volume"],
        ["delete server", "delete volume_snapshot"]
    );
}

/// The servers of ports and the volumes of servers are known from the project's lists.
#[test]
fn n14_a_listed_row_is_not_queried_again_by_its_id() {
    let filters_of = |cloud: &Topology, kind: &str| -> Vec<Option<String>> {
        let lookups = cloud
            .lookups
            .iter()
            .filter(|lookup| lookup.kind.as_str() == kind);
        let keys = lookups.map(|lookup| lookup.filter.as_ref().map(|filter| filter.key.clone()));
        keys.collect()
    };
    let mut cloud = project();
    cloud.plan("project", "p1", cascade());
    for kind in ["server", "volume"] {
        assert_eq!(
            filters_of(&cloud, kind),
            [Some("project_id".to_owned())],
            "{kind}"
        );
    }
    // The plan of a server alone looks up its volumes; that of a volume looks up its own row, which has the
    // attachments.
    for (kind, id) in [("server", "vm"), ("volume", "data")] {
        let mut cloud = project();
        cloud.plan(kind, id, cascade());
        assert_eq!(
            filters_of(&cloud, "volume"),
            [Some("id".to_owned())],
            "{kind}"
        );
    }
}

/// Without `with_servers`, the plan lists the servers as unset, with the port that each loses.
#[test]
fn n04_a_networks_servers_stay_and_are_listed_or_are_deleted_before_their_ports() {
    let plan = project().plan("network", "net", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let kinds: Vec<&str> = plan.steps.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["port", "network"]);
    let unset: Vec<(&str, &str)> = plan
        .unset
        .iter()
        .map(|it| (it.kind.as_str(), &*it.why))
        .collect();
    assert_eq!(unset, [("server", "is plugged into port nic")]);

    let with_servers = PlanOptions {
        with_servers: true,
        ..cascade()
    };
    let plan = project().plan("network", "net", with_servers);
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    let waits = waits(&plan);
    assert_eq!(waits["delete server"], Vec::<String>::new());
    assert_eq!(waits["delete port"], ["delete server"]);
    assert_eq!(waits["delete network"], ["delete port"]);
    assert!(!waits.contains_key("delete volume"), "{waits:?}");
}

/// Nova deletes the boot volume of a server only if it has `delete_on_termination`.
#[test]
fn p01_a_boot_volume_that_stays_is_in_the_plan_of_its_server() {
    let mut cloud = project();
    cloud.change("server", "vm", "image", json!(""));
    cloud.change("volume", "data", "bootable", json!("true"));
    let use_of = json!([{ "server_id": "vm", "attachment_id": "use", "device": "/dev/vda" }]);
    cloud.change("volume", "data", "attachments", use_of);
    let plan = cloud.plan("server", "vm", cascade());
    let volume = plan.unset.iter().find(|it| it.kind.as_str() == "volume");
    assert_eq!(
        &*volume.unwrap().why,
        "stays: it is the boot volume of server vm (vm)"
    );
    cloud.lookups.clear();
    cloud.change("server", "vm", "volumes_deleted_along", json!(["data"]));
    let plan = cloud.plan("server", "vm", cascade());
    let is_volume = |it: &PlanStep| it.kind.as_str() == "volume";
    assert!(plan.automatic.iter().any(is_volume) && !plan.unset.iter().any(is_volume));
}

/// Nova would delete a locked server for an admin.
#[test]
fn a_locked_server_is_refused_before_anything_is_sent() {
    let mut cloud = project();
    cloud.change("server", "vm", "locked", json!(true));
    for (kind, id) in [("server", "vm"), ("project", "p1")] {
        let refused = cloud.plan(kind, id, cascade()).refused;
        let locked = refused.iter().any(|it| it.reason.contains("it is locked"));
        assert!(locked, "{kind}: {refused:?}");
        cloud.lookups.clear();
    }
}

#[test]
fn a_row_shows_whether_a_delete_goes_on_has_failed_or_was_put_back() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let kind = |name: &str| kinds.get(&KindName::new(name)).unwrap();
    let (server, volume, network) = (kind("server"), kind("volume"), kind("network"));

    let deleting = json!({ "status": "ACTIVE", "OS-EXT-STS:task_state": "deleting" });
    let goes_on = Some((AsyncDelete::GoesOn, "deleting".to_owned()));
    assert_eq!(server.settling(&deleting), goes_on);
    let refused = json!({ "status": "ERROR", "OS-EXT-STS:task_state": null,
        "fault": { "message": "Failed to terminate instance: no" } });
    assert_eq!(server.settling(&refused), None);
    assert_eq!(server.put_back(&refused).as_deref(), Some("ERROR"));
    let because = server.failed_because(&refused);
    assert_eq!(because.as_deref(), Some("Failed to terminate instance: no"));

    let failed = Some((AsyncDelete::Failed, "error_deleting".to_owned()));
    assert_eq!(
        volume.settling(&json!({ "status": "error_deleting" })),
        failed
    );
    let busy = json!({ "status": "available" });
    assert_eq!(volume.put_back(&busy).as_deref(), Some("available"));
    assert_eq!(volume.failed_because(&busy), None);

    // Neutron deletes at once, so the row of a network shows nothing about a delete.
    assert_eq!(network.put_back(&json!({ "status": "ACTIVE" })), None);
}

/// A soft-deleted server keeps its ports and volumes, but Nova does not list it.
#[test]
fn i13_a_list_does_not_prove_that_a_server_is_gone() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let all_at_once = |name: &str| {
        let kind = kinds.get(&KindName::new(name)).unwrap();
        kind.calls.lists_all_at_once()
    };
    assert!(!all_at_once("server"));
    assert!(all_at_once("volume") && all_at_once("load_balancer"));
}
