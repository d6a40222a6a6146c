//! Stacks of real Heat: their resources are deleted with them, retained ones stay, and a newcomer can block the
//! deletion.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, wait_for};
use crate::proxy::Proxy;
use crate::users::Users;

/// Creates a stack. Returns its name and its id, as they follow `/stacks` in a path.
fn create_stack(bed: &Bed, member: &Api, resources: Value) -> String {
    let template = json!({"heat_template_version": "2018-08-31", "resources": resources});
    let wanted = json!({"stack_name": bed.name, "template": template, "timeout_mins": 3});
    let stacks = format!("/{}/stacks", bed.project);
    let made = member.call_service("orchestration", "POST", &stacks, wanted);
    let stack = format!("{}/{}", bed.name, text(&made["stack"]["id"]));
    let path = format!("{stacks}/{stack}");
    wait_for("the stack is complete", || {
        let shown = member.call_service("orchestration", "GET", &path, Value::Null);
        shown["stack"]["stack_status"] == "CREATE_COMPLETE"
    });
    stack
}

fn volumes(member: &Api) -> Vec<Value> {
    let volumes = member.call_any("GET", "/v3/volumes", Value::Null);
    volumes["volumes"].as_array().unwrap().clone()
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n05_a_stack_is_deleted_with_its_resources_except_retained_ones() {
    let bed = Bed::small();
    bed.delete_qos_policies();
    let users = Users::with_member(&bed);
    let member = users.api("a member");
    let volume = json!({"type": "OS::Cinder::Volume", "properties": {"size": 1}});
    let mut kept = volume.clone();
    kept["deletion_policy"] = json!("Retain");
    let resources = json!({
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {"type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.3.0.0/24"}},
        "router": {"type": "OS::Neutron::Router"},
        "interface": {"type": "OS::Neutron::RouterInterface",
            "properties": {"router": {"get_resource": "router"}, "subnet": {"get_resource": "subnet"}}},
        "group": {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": volume}},
        "kept": kept,
        "secret": {"type": "OS::Barbican::Secret",
            "properties": {"payload": "x", "payload_content_type": "text/plain"}},
        "password": {"type": "OS::Heat::RandomString"},
    });
    let id = create_stack(&bed, &member, resources).replace('/', ",");
    // An admin of another project gets the same plan without the secret.
    for (cloud, secrets) in [("mine", 1), ("testbed --region RegionOne", 0)] {
        let line = format!("--cloud {cloud} plan stack/{id} --cascade -o json");
        let plan = bed.gone(&line).ok().json();
        let kinds_in = |part: &str| {
            let steps = plan[part].as_array().unwrap().iter();
            let mut kinds: Vec<String> = steps.map(|it| text(&it["kind"])).collect();
            kinds.retain(|kind| kind != "stack_resource");
            kinds.sort();
            kinds
        };
        assert_eq!(kinds_in("steps"), ["stack"], "{plan}");
        let mut automatic = vec!["network", "router", "router_interface"];
        automatic.extend(vec!["secret"; secrets]);
        automatic.extend(["subnet", "volume"]);
        assert_eq!(kinds_in("automatic"), automatic, "{plan}");
        assert_eq!(kinds_in("unset"), ["volume"], "{plan}");
    }
    let delete = |target: String| {
        let line = format!("--cloud mine delete {target} --cascade --yes --wait=5m");
        bed.gone(&line).ok();
    };
    delete(format!("stack/{id}"));
    let left = volumes(&member);
    assert!(
        left.len() == 1 && text(&left[0]["name"]).contains("-kept-"),
        "{left:?}"
    );
    assert_eq!(
        member
            .rows("networks", &format!("project_id={}", bed.project))
            .len(),
        1
    );
    delete(format!("project/{}", bed.project));
    assert_eq!(volumes(&member), [] as [Value; 0]);
}

/// Heat reports that it cannot delete the stack's volume, in the words that Cinder uses for all causes. The cause is a
/// snapshot that was created after the plan.
#[test]
#[ignore = "needs the test bed"]
fn testbed_i06_a_late_snapshot_that_blocks_a_stack_is_absorbed_and_the_stack_deleted() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let member = users.api("a member");
    let volume = json!({"type": "OS::Cinder::Volume", "properties": {"size": 1}});
    let id = create_stack(&bed, &member, json!({ "disk": volume })).replace('/', ",");
    let proxy = Proxy::to(member.root_of("orchestration"));
    bed.change_clouds(|clouds| {
        let url = format!("{}/v1/{}", proxy.url, bed.project);
        clouds["clouds"]["mine"]["orchestration_endpoint_override"] = url.into();
    });
    let _engine = bed.start_engine("--cloud mine");
    proxy.hold_deletes_after(0);
    let line = format!("delete stack/{id} --cascade --drift absorb --yes -o json");
    let deletion = text(&bed.gone(&line).ok().json()["id"]);
    wait_for("the delete of the stack", || !proxy.deletes().is_empty());
    let created = volumes(&member);
    let snapshot =
        json!({"snapshot": {"volume_id": created[0]["id"], "name": format!("{}-late", bed.name)}});
    member.call_any("POST", "/v3/snapshots", snapshot);
    wait_for("the snapshot", || {
        let snapshots = member.call_any("GET", "/v3/snapshots", Value::Null);
        snapshots["snapshots"][0]["status"] == "available"
    });
    proxy.hold_deletes_after(usize::MAX);
    bed.gone(&format!("watch {deletion}")).ok();
    bed.gone("audit list").says(&["absorb"]);
    let stack = bed.gone(&format!("show {deletion} -o json"));
    assert!(stack.out.contains("DELETE_FAILED"), "{}", stack.out);
    assert_eq!(volumes(&member), [] as [Value; 0]);
}
