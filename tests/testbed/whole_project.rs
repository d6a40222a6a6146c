//! Whole projects on the real services. One has zones, secrets, a stack, a server group, a container and a volume in
//! transfer; its member empties it. Another one has everything; its member empties it, or an admin does, as far as the
//! services show the resources to that admin.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, wait_for};
use crate::cascade::check_only_default_group;
use crate::objects::Account;
use crate::servers::Machine;
use crate::shares::{CREATED, Shares};
use crate::users::Users;

/// The lists of the project's member: service, path, and the key of the rows.
const LISTS: [(&str, &str, &str); 3] = [
    ("dns", "/zones", "zones"),
    ("key-manager", "/secrets", "secrets"),
    ("key-manager", "/containers", "containers"),
];
/// Further lists, whose paths identify their services: path, and the key of the rows.
const MORE: [(&str, &str); 3] = [
    ("/v2.1/os-server-groups", "server_groups"),
    ("/v3/volumes/detail", "volumes"),
    ("/v3/os-volume-transfer/detail", "transfers"),
];

/// A project with zones, secrets, a stack, a server group, a container and a volume in transfer.
struct ProjectFixture<'p, 'b> {
    users: &'p Users<'b>,
}

impl<'p, 'b> ProjectFixture<'p, 'b> {
    /// Creates the resources. All services work at the same time.
    fn new(users: &'p Users<'b>) -> Self {
        let fixture = Self { users };
        let (stack, zone) = (fixture.stack(), fixture.zone(""));
        let volume = fixture.volume();
        fixture.secrets();
        let member = fixture.member();
        let account = Account::of(users.bed, &member);
        account.put(fixture.name(), "");
        account.put(fixture.name(), "a/b");
        fixture.until("dns", &zone, "/status", "ACTIVE");
        let below = fixture.zone("sub.");
        let record = json!({"name": format!("www.{}.org.", fixture.name()), "type": "A", "records": ["192.0.2.1"]});
        let member = fixture.member();
        member.call_service("dns", "POST", &format!("{zone}/recordsets"), record);
        let group = json!({"name": fixture.name(), "policies": ["anti-affinity"]});
        member.call_any(
            "POST",
            "/v2.1/os-server-groups",
            json!({ "server_group": group }),
        );
        let path = format!("/v3/volumes/{volume}");
        wait_for("the volume is available", || {
            member.call_any("GET", &path, Value::Null)["volume"]["status"] == "available"
        });
        let transfer = json!({"transfer": {"volume_id": volume, "name": fixture.name()}});
        member.call_any("POST", "/v3/os-volume-transfer", transfer);
        fixture.until(
            "orchestration",
            &stack,
            "/stack/stack_status",
            "CREATE_COMPLETE",
        );
        fixture.until("dns", &below, "/status", "ACTIVE");
        fixture
    }

    fn member(&self) -> Api {
        self.users.api("a member")
    }

    fn name(&self) -> &str {
        &self.users.bed.name
    }

    /// Waits until a field of the resource at this path has this value.
    fn until(&self, service: &str, path: &str, field: &str, state: &str) {
        let member = self.member();
        wait_for(&format!("{path} to be {state}"), || {
            let shown = member.call_service(service, "GET", path, Value::Null);
            shown.pointer(field).unwrap() == state
        });
    }

    /// Creates a zone, whose name begins with `below`. Returns its path.
    fn zone(&self, below: &str) -> String {
        let name = format!("{below}{}.org.", self.name());
        let fields = json!({"name": name, "email": "a@example.org"});
        let made = self.member().call_service("dns", "POST", "/zones", fields);
        format!("/zones/{}", text(&made["id"]))
    }

    /// Creates a secret, and a container with it.
    fn secrets(&self) {
        let member = self.member();
        let secret =
            json!({"name": self.name(), "payload": "x", "payload_content_type": "text/plain"});
        let secret = member.call_service("key-manager", "POST", "/secrets", secret);
        let refs = json!([{"name": "a", "secret_ref": secret["secret_ref"]}]);
        let container = json!({"type": "generic", "name": self.name(), "secret_refs": refs});
        member.call_service("key-manager", "POST", "/containers", container);
    }

    /// Creates a stack with a network and a subnet. Returns its path.
    fn stack(&self) -> String {
        let subnet = json!({"network": {"get_resource": "n"}, "cidr": "10.3.0.0/24"});
        let template = json!({"heat_template_version": "2018-08-31", "resources": {
            "n": {"type": "OS::Neutron::Net"},
            "s": {"type": "OS::Neutron::Subnet", "properties": subnet}}});
        let stack = json!({"stack_name": self.name(), "template": template, "timeout_mins": 3});
        let made = self
            .member()
            .call_service("orchestration", "POST", &self.stacks(), stack);
        let id = text(&made["stack"]["id"]);
        format!("{}/{}/{id}", self.stacks(), self.name())
    }

    /// The path of the project's stacks.
    fn stacks(&self) -> String {
        format!("/{}/stacks", self.users.bed.project)
    }

    fn volume(&self) -> String {
        let wanted = json!({"volume": {"size": 1, "name": self.name()}});
        let made = self.member().call_any("POST", "/v3/volumes", wanted);
        text(&made["volume"]["id"])
    }

    /// The rows of the project that its member still sees.
    fn remaining(&self) -> Vec<String> {
        let member = self.member();
        let named = LISTS.iter().flat_map(|(service, path, key)| {
            let rows = member.call_service(service, "GET", path, Value::Null);
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        let more = MORE.iter().flat_map(|(path, key)| {
            let rows = member.call_any("GET", path, Value::Null);
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        let stacks = member.call_service("orchestration", "GET", &self.stacks(), Value::Null);
        let stacks = stacks["stacks"].as_array().unwrap().clone();
        let stacks = stacks.into_iter().map(|row| format!("stacks {row}"));
        let account = Account::of(self.users.bed, &member).rows("");
        let account = account.into_iter().map(|row| format!("account {row}"));
        named.chain(more).chain(stacks).chain(account).collect()
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_16_a_members_project_of_zones_secrets_and_a_stack_is_emptied() {
    let bed = Bed::small();
    bed.delete_qos_policies();
    let users = Users::with_member(&bed);
    let fixture = ProjectFixture::new(&users);
    assert_eq!(fixture.remaining().len(), 9, "{:?}", fixture.remaining());
    // Each resource is found by its name, too, even if the service refuses a name in place of an id.
    let name = &bed.name;
    let kinds = [
        "secret",
        "secret_container",
        "server_group",
        "volume",
        "stack",
    ];
    let named = kinds.map(|kind| format!("{kind}/{name}"));
    for target in named.iter().chain([&format!("zone/{name}.org.")]) {
        let explained = bed.gone(&format!("--cloud mine explain {target} -o json"));
        let explained = explained.ok().json();
        assert_eq!(
            explained["target"]["name"],
            target.split_once('/').unwrap().1
        );
    }
    bed.delete_project("--cloud mine");
    assert_eq!(fixture.remaining(), Vec::<String>::new());
}

/// A project that also has servers with ports and volumes, one of which boots from a volume, a group of volumes with a
/// snapshot, and the resources of the seed in Neutron, Octavia and Glance. The test adds shares.
struct Everything<'b> {
    machine: Machine<'b>,
    /// The id of the server that boots from a volume.
    boots: String,
    /// The paths of the group type and the volume type.
    types: [String; 2],
    /// A consumer of the secret container, as Octavia registers one for a listener: path and body.
    consumer: (String, Value),
}

impl Drop for Everything<'_> {
    fn drop(&mut self) {
        for path in &self.types {
            self.machine.users.bed.api.delete_at(path);
        }
    }
}

impl<'b> Everything<'b> {
    fn create(bed: &'b Bed) -> Self {
        let machine = Machine::create(bed);
        let member = machine.users.api("a member");
        let disk = json!({"uuid": machine.image, "source_type": "image", "destination_type": "volume",
            "volume_size": 1, "boot_index": 0, "delete_on_termination": false});
        let boots = json!({"server": {"name": format!("{}-boots", bed.name), "flavorRef": machine.flavor,
            "networks": [{"uuid": bed.networks[0]}], "block_device_mapping_v2": [disk]}});
        let boots = text(&member.call_any("POST", "/v2.1/servers", boots)["server"]["id"]);
        let types = Self::group(bed, &member);
        let fixture = ProjectFixture::new(&machine.users);
        let balancers = bed.api.balancers_and_images(&bed.project);
        let listener = balancers
            .iter()
            .find_map(|it| it.pointer("/listeners/0/id"));
        let url = format!("https://octavia/listeners/{}", text(listener.unwrap()));
        let containers = member.call_service("key-manager", "GET", "/containers", Value::Null);
        let container = text(&containers["containers"][0]["container_ref"]);
        let id = container.rsplit('/').next().unwrap();
        let consumer = (
            format!("/containers/{id}/consumers"),
            json!({"name": "Octavia", "URL": url}),
        );
        member.call_service("key-manager", "POST", &consumer.0, consumer.1.clone());
        let path = format!("/v2.1/servers/{boots}");
        wait_for("the server that boots from a volume", || {
            member.call_any("GET", &path, Value::Null)["server"]["status"] == "ACTIVE"
        });
        assert_eq!(
            fixture.remaining().len(),
            9 + 3,
            "{:?}",
            fixture.remaining()
        );
        Self {
            machine,
            boots,
            types,
            consumer,
        }
    }

    /// Creates a group with a volume and a snapshot. Returns the paths of the types that an admin created for it.
    fn group(bed: &Bed, member: &Api) -> [String; 2] {
        let root = format!("{}/v3", bed.api.root_of("block-storage"));
        let make = |api: &Api, path: &str, kind: &str, mut fields: Value| {
            fields["name"] = json!(bed.name);
            let url = format!("{root}/{path}");
            let (status, made) = api.send_with("POST", &url, CINDER_3_58, json!({ kind: fields }));
            assert!(status < 300, "{path}: {status} {made}");
            text(&made[kind]["id"])
        };
        let group_type = make(&bed.api, "group_types", "group_type", json!({}));
        let specs = json!({"extra_specs": {"volume_backend_name": "testbed"}});
        let volume_type = make(&bed.api, "types", "volume_type", specs);
        let wanted = json!({"group_type": group_type, "volume_types": [volume_type]});
        let group = make(member, "groups", "group", wanted);
        let (name, value) = CINDER_3_58;
        let until = |path: String, kind: &str| {
            wait_for(&format!("{path} to be available"), || {
                let (_, shown) = member.get_with(&format!("{root}/{path}"), name, value);
                shown[kind]["status"] == "available"
            });
        };
        until(format!("groups/{group}"), "group");
        let wanted = json!({"size": 1, "volume_type": volume_type, "group_id": group});
        let volume = make(member, "volumes", "volume", wanted);
        until(format!("volumes/{volume}"), "volume");
        let wanted = json!({ "group_id": group });
        let snapshot = make(member, "group_snapshots", "group_snapshot", wanted);
        until(format!("group_snapshots/{snapshot}"), "group_snapshot");
        [
            format!("/v3/group_types/{group_type}"),
            format!("/v3/types/{volume_type}"),
        ]
    }

    /// The rows of the project that the services still list.
    fn remaining(&self) -> Vec<String> {
        let users = &self.machine.users;
        let mut left = ProjectFixture { users }.remaining();
        left.extend(self.machine.remaining());
        let root = users.bed.api.root_of("block-storage");
        let (name, value) = CINDER_3_58;
        for collection in ["groups", "group_snapshots"] {
            let url = format!("{root}/v3/{collection}");
            let (_, rows) = users.api("a member").get_with(&url, name, value);
            let rows = rows[collection].as_array().unwrap().clone();
            left.extend(rows.iter().map(|row| format!("{collection} {row}")));
        }
        left
    }
}

/// A microversion with groups of volumes, and with their projects.
const CINDER_3_58: (&str, &str) = ("openstack-api-version", "volume 3.58");

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_16_a_project_with_everything_is_emptied_but_an_admin_leaves_its_secrets() {
    let shape = "--networks 2 --ports 2 --trunks 1 --fips 1 --groups 2 --balancers 1 --images 1";
    for (login, sees_secrets) in [("mine", true), ("testbed --region RegionOne", false)] {
        let bed = Bed::seeded("RegionOne", shape);
        let everything = Everything::create(&bed);
        let shares = Shares::new(&everything.machine.users);
        shares.create();
        assert_eq!(
            shares.remaining().len(),
            CREATED,
            "{:?}",
            shares.remaining()
        );
        let plan = format!(
            "--cloud {login} plan server/{} --cascade -o json",
            everything.boots
        );
        let plan = bed.gone(&plan).ok().json();
        let boot_volume = plan["unset"].as_array().unwrap().iter();
        let mut boot_volume = boot_volume.filter(|it| it["kind"] == "volume");
        let why = text(&boot_volume.next().unwrap()["why"]);
        assert!(
            why.starts_with("stays: it is the boot volume of server"),
            "{why}"
        );

        let line = |login: &str| {
            format!(
                "--cloud {login} delete project/{} --cascade --yes --wait=5m",
                bed.project
            )
        };
        bed.gone(&line(login)).ok();
        // Barbican shows nothing to an admin of another project, so the secrets stay. The member deletes them.
        if !sees_secrets {
            let left = everything.remaining();
            let secrets =
                |row: &String| row.starts_with("secrets") || row.starts_with("containers");
            assert!(left.len() == 2 && left.iter().all(secrets), "{left:?}");
            let member = everything.machine.users.api("a member");
            let (path, consumer) = everything.consumer.clone();
            member.call_service("key-manager", "DELETE", &path, consumer);
            bed.gone(&line("mine")).ok();
        }
        assert_eq!(everything.remaining(), Vec::<String>::new(), "{login}");
        assert_eq!(shares.remaining(), Vec::<String>::new(), "{login}");
        check_only_default_group(&bed);
    }
}

/// Keystone would refuse to delete the parent project and the domain, but only after their resources are deleted.
#[test]
#[ignore = "needs the test bed"]
fn testbed_n19_a_parent_project_and_a_domain_are_refused_before_anything_is_deleted() {
    let bed = Bed::small();
    let before = bed.holdings().all_ids();
    let make = |path: &str, kind: &str, fields: Value| {
        let made = bed.api.identity("POST", path, &json!({ kind: fields })).0;
        text(&made[kind]["id"])
    };
    let name = |part: &str| format!("{}-{part}", bed.name);
    let below = json!({"name": name("below"), "parent_id": bed.project});
    let below = make("/projects", "project", below);
    let domain = make("/domains", "domain", json!({"name": name("domain")}));
    let delete = |id: &str| {
        let line = format!("--cloud testbed delete project/{id} --cascade --with-project --yes");
        bed.gone(&line)
    };
    let of_project = delete(&bed.project);
    let of_domain = delete(&domain);
    let left = bed.holdings().all_ids();
    let disabled = json!({"domain": {"enabled": false}});
    let path = format!("/domains/{domain}");
    bed.api.identity("PATCH", &path, &disabled);
    for path in [path, format!("/projects/{below}")] {
        bed.api.identity("DELETE", &path, &Value::Null);
    }
    of_project
        .ends_with(6)
        .says(&[&name("below"), "is below it"]);
    of_domain
        .ends_with(6)
        .says(&[&name("domain"), "it is a domain"]);
    assert_eq!(left, before);
}
