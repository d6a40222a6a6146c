//! A project of zones, secrets, a stack, a server group and a volume that is offered, on real Designate, Barbican, Heat, Nova
//! and Cinder: emptied by its member, and by an admin as far as the services show it to him.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, wait_for};
use crate::people::People;

const SMALL: &str = "--networks 1 --ports 0 --trunks 0 --fips 0";

/// What the project's member has, by service, path of the list and its key.
const LISTS: [(&str, &str, &str); 3] = [
    ("dns", "/zones", "zones"),
    ("key-manager", "/secrets", "secrets"),
    ("key-manager", "/containers", "containers"),
];
const MORE: [(&str, &str); 3] = [
    ("/v2.1/os-server-groups", "server_groups"),
    ("/v3/volumes/detail", "volumes"),
    ("/v3/os-volume-transfer/detail", "transfers"),
];

/// A project with a member, whose login gone knows as the cloud `mine`.
struct Furnished<'b> {
    people: People<'b>,
}

impl<'b> Furnished<'b> {
    fn new(bed: &'b Bed) -> Self {
        bed.without_policies();
        let mut people = People::none(bed);
        people.comes("a member", &bed.project, "member");
        bed.change_clouds(|clouds| {
            let mut mine = clouds["clouds"]["testbed"].clone();
            mine["auth"] = json!({"auth_url": mine["auth"]["auth_url"], "username": people.name(0),
                "password": people.name(0), "user_domain_id": "default", "project_id": bed.project});
            mine["regions"] = json!(["RegionOne"]);
            clouds["clouds"]["mine"] = mine;
        });
        let furnished = Self { people };
        furnished.zones();
        furnished.secrets();
        furnished.stack();
        furnished.volumes();
        furnished
    }

    fn member(&self) -> Api {
        self.people.api("a member")
    }

    fn name(&self) -> &str {
        &self.people.bed.name
    }

    /// A zone, one below it, and a record set.
    fn zones(&self) {
        let member = self.member();
        let zone = |name: String| {
            let fields = json!({"name": name, "email": "a@example.org"});
            let made = member.call_of("dns", "POST", "/zones", fields);
            let path = format!("/zones/{}", text(&made["id"]));
            wait_for("the zone is active", || {
                member.call_of("dns", "GET", &path, Value::Null)["status"] == "ACTIVE"
            });
            path
        };
        let name = format!("{}.org.", self.name());
        let above = zone(name.clone());
        zone(format!("sub.{name}"));
        let record = json!({"name": format!("www.{name}"), "type": "A", "records": ["192.0.2.1"]});
        member.call_of("dns", "POST", &format!("{above}/recordsets"), record);
    }

    /// A secret in a container.
    fn secrets(&self) {
        let member = self.member();
        let secret =
            json!({"name": self.name(), "payload": "x", "payload_content_type": "text/plain"});
        let secret = member.call_of("key-manager", "POST", "/secrets", secret);
        let refs = json!([{"name": "a", "secret_ref": secret["secret_ref"]}]);
        let container = json!({"type": "generic", "name": self.name(), "secret_refs": refs});
        member.call_of("key-manager", "POST", "/containers", container);
    }

    /// A stack that made a network with a subnet.
    fn stack(&self) {
        let member = self.member();
        let subnet = json!({"network": {"get_resource": "n"}, "cidr": "10.3.0.0/24"});
        let template = json!({"heat_template_version": "2018-08-31", "resources": {
            "n": {"type": "OS::Neutron::Net"},
            "s": {"type": "OS::Neutron::Subnet", "properties": subnet}}});
        let stack = json!({"stack_name": self.name(), "template": template, "timeout_mins": 3});
        let made = member.call_of("orchestration", "POST", &self.stacks(), stack);
        let id = text(&made["stack"]["id"]);
        let path = format!("{}/{}/{id}", self.stacks(), self.name());
        wait_for("the stack is complete", || {
            let stack = member.call_of("orchestration", "GET", &path, Value::Null);
            stack["stack"]["stack_status"] == "CREATE_COMPLETE"
        });
    }

    /// The path of the project's stacks.
    fn stacks(&self) -> String {
        format!("/{}/stacks", self.people.bed.project)
    }

    /// A server group, and a volume that is offered to another project.
    fn volumes(&self) {
        let member = self.member();
        let group = json!({"name": self.name(), "policies": ["anti-affinity"]});
        let group = json!({ "server_group": group });
        member.call_any("POST", "/v2.1/os-server-groups", group);
        let made = |fields: Value| {
            let volume = member.call_any("POST", "/v3/volumes", json!({"volume": fields}));
            let path = format!("/v3/volumes/{}", text(&volume["volume"]["id"]));
            wait_for("the volume is available", || {
                member.call_any("GET", &path, Value::Null)["volume"]["status"] == "available"
            });
            text(&volume["volume"]["id"])
        };
        let offered = made(json!({"size": 1, "name": self.name()}));
        let transfer = json!({"transfer": {"volume_id": offered, "name": self.name()}});
        member.call_any("POST", "/v3/os-volume-transfer", transfer);
    }

    /// What the project still has, as its member sees it.
    fn left(&self) -> Vec<String> {
        let member = self.member();
        let named = LISTS.iter().flat_map(|(service, path, key)| {
            let rows = member.call_of(service, "GET", path, Value::Null);
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        let more = MORE.iter().flat_map(|(path, key)| {
            let rows = member.call_any("GET", path, Value::Null);
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        let stacks = member.call_of("orchestration", "GET", &self.stacks(), Value::Null);
        let stacks = stacks["stacks"].as_array().unwrap().clone();
        let stacks = stacks.into_iter().map(|row| format!("stacks {row}"));
        named.chain(more).chain(stacks).collect()
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_16_a_members_project_of_zones_secrets_and_a_stack_is_left_empty() {
    let bed = Bed::seeded("RegionOne", SMALL);
    let furnished = Furnished::new(&bed);
    assert_eq!(furnished.left().len(), 8, "{:?}", furnished.left());
    let line = format!(
        "--cloud mine delete project/{} --cascade --yes --wait=5m",
        bed.project
    );
    bed.gone(&line).ends_with(0);
    assert_eq!(furnished.left(), Vec::<String>::new());
}
