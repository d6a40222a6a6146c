//! Stacks in a plan: resources that a stack made are deleted with it, retained ones stay, and blockers are deleted
//! before it.

use gone::domain::model::{Plan, PlanOptions, PlanStep, Refusal, RefusalRule};
use serde_json::{Value, json};

use super::topology::{Topology, cascade, goes_after, steps};

/// A stack that made a network with a subnet, a router with an interface, and a server with its port. Its nested stack
/// made a volume, and another volume is retained. A port that the stack did not make is on its network.
fn stack() -> Topology {
    let mut cloud = Topology::new();
    cloud
        .add("project", json!({ "id": "p1", "name": "demo" }))
        .add(
            "stack",
            json!({ "id": "1", "stack_name": "web", "project": "p1", "stack_status": "CREATE_COMPLETE" }),
        );
    for (name, of_type, made) in [
        ("net", "OS::Neutron::Net", json!(["net"])),
        ("subnet", "OS::Neutron::Subnet", json!(["s"])),
        ("router", "OS::Neutron::Router", json!(["r"])),
        (
            "interface",
            "OS::Neutron::RouterInterface",
            json!(["r", "subnet_id", "s"]),
        ),
        ("server", "OS::Nova::Server", json!(["vm"])),
        ("group", "OS::Heat::ResourceGroup", json!(["inner"])),
        (
            "password",
            "OS::Heat::RandomString",
            json!(["web-password-x"]),
        ),
    ] {
        cloud.add("stack_resource", resource("web,1", name, of_type, made));
    }
    let mut group = resource("web,1", "more", "OS::Heat::ResourceGroup", json!(["inner"]));
    group["nested"] = json!(["inner,2"]);
    let mut kept = resource("web,1", "kept", "OS::Cinder::Volume", json!(["kept"]));
    kept["deletion_policy"] = json!("Retain");
    cloud
        .add("stack_resource", group)
        .add("stack_resource", kept)
        .add(
            "stack_resource",
            resource("inner,2", "disk", "OS::Cinder::Volume", json!(["disk"])),
        );
    let network = json!({ "id": "net", "name": "net", "shared": false, "router:external": false });
    cloud
        .add("network", network)
        .add(
            "subnet",
            json!({ "id": "s", "network_id": "net", "cidr": "10.0.0.0/24" }),
        )
        .add("router", json!({ "id": "r", "routes": [] }))
        .add(
            "server",
            json!({ "id": "vm", "uuid": "vm", "name": "vm", "tenant_id": "p1", "locked": false }),
        );
    for (id, owner, device) in [
        ("if", "network:router_interface", "r"),
        ("nic", "compute:nova", "vm"),
        ("foreign", "", ""),
    ] {
        cloud.add(
            "port",
            json!({ "id": id, "name": id, "network_id": "net", "device_owner": owner, "device_id": device,
            "fixed_ips": [{ "subnet_id": "s" }], "security_groups": [] }),
        );
    }
    for id in ["disk", "kept"] {
        cloud.add(
            "volume",
            json!({ "id": id, "name": id, "status": "available", "attachments": [],
            "os-vol-tenant-attr:tenant_id": "p1" }),
        );
    }
    cloud
}

fn resource(stack: &str, name: &str, of_type: &str, made: Value) -> Value {
    json!({ "id": "", "stack": stack, "resource_name": name, "resource_type": of_type, "made": made,
        "nested": [], "project_id": "" })
}

/// Returns kind and id of the automatic resources of the plan, without the stack resources.
fn automatic(plan: &Plan) -> Vec<String> {
    let made = plan.automatic.iter();
    let made = made.filter(|it| it.kind.as_str() != "stack_resource");
    made.map(|it| format!("{}/{}", it.kind, it.resource_id))
        .collect()
}

#[test]
fn n05_resources_that_a_stack_made_are_deleted_with_it_and_retained_ones_are_listed() {
    let mut cloud = stack();
    let plan = cloud.plan("stack", "web,1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    assert_eq!(
        automatic(&plan),
        [
            "network/net",
            "router/r",
            "router_interface/r,s",
            "server/vm",
            "subnet/s",
            "volume/disk"
        ]
    );
    let volume = plan.automatic.iter().find(|it| it.resource_id == "disk");
    assert_eq!(
        &*volume.unwrap().why,
        "goes with stack resource disk (inner,2,disk)"
    );
    let kept: Vec<String> = plan
        .unset
        .iter()
        .map(|it| format!("{}: {}", it.resource_id, it.why))
        .collect();
    assert_eq!(kept, ["kept: is kept by stack resource kept (web,1,kept)"]);
    // A stack resource that is no resource of a known kind is named too.
    let password = |it: &PlanStep| it.resource_id == "web,1,password";
    assert!(plan.automatic.iter().any(password));
}

/// Heat would fail only after a minute of its own retries.
#[test]
fn n15_blockers_of_a_stack_are_deleted_before_it_and_its_servers_port_after_it() {
    let plan = stack().plan("stack", "web,1", cascade());
    let mut all = steps(&plan);
    all.sort();
    assert_eq!(all, ["port/foreign", "port/nic", "stack/web,1"]);
    assert!(goes_after(&plan, "stack/web,1", "port/foreign"));
    assert!(goes_after(&plan, "port/nic", "stack/web,1"));

    let refused = stack()
        .plan("stack", "web,1", PlanOptions::default())
        .refused;
    let reasons: Vec<&str> = refused.iter().map(|it| &*it.reason).collect();
    assert!(
        refused.iter().all(|it| it.rule == RefusalRule::InUse) && !refused.is_empty(),
        "{reasons:?}"
    );
    assert!(
        reasons
            .iter()
            .all(|it| it.contains("port foreign (foreign)")),
        "{reasons:?}"
    );
}

#[test]
fn n19_a_projects_stack_is_deleted_before_everything_that_it_made() {
    let plan = stack().plan("project", "p1", cascade());
    assert!(plan.refused.is_empty(), "{:?}", plan.refused);
    for made in [
        "network/net",
        "subnet/s",
        "router/r",
        "router_interface/r,s",
        "server/vm",
        "port/nic",
        "volume/disk",
        "volume/kept",
    ] {
        let gone_with_network = made == "subnet/s";
        if !gone_with_network {
            assert!(goes_after(&plan, made, "stack/web,1"), "{made}");
        }
    }
    assert!(goes_after(&plan, "stack/web,1", "port/foreign"));
}

#[test]
fn p04_a_resource_of_a_stack_cannot_be_a_target_of_its_own() {
    let refused = stack()
        .plan("stack_resource", "web,1,server", cascade())
        .refused;
    let has_reason = |it: &Refusal| it.reason.contains("Heat deletes it with its stack alone");
    assert!(refused.iter().any(has_reason), "{refused:?}");
}
