//! Servers and volumes of real Nova and Cinder: deleted with their project, deleted one by one, and kept by a
//! hypervisor or a storage that refuses.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, clouds, wait_for};
use crate::cascade::check_only_default_group;
use crate::gate::engine_with_gates;
use crate::proxy::Proxy;
use crate::users::Users;

/// The lists of servers, volumes, snapshots and backups, and the keys of their rows.
const LISTS: [(&str, &str); 4] = [
    ("/v2.1/servers/detail", "servers"),
    ("/v3/volumes/detail", "volumes"),
    ("/v3/snapshots/detail", "snapshots"),
    ("/v3/backups/detail", "backups"),
];

/// A server of the bed's project. It has a port that Nova created, a port that the member created, and a volume with a
/// snapshot and two backups.
pub struct Machine<'b> {
    pub users: Users<'b>,
    pub server: String,
    pub volume: String,
    own_port: String,
    pub image: String,
    pub flavor: String,
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let admin = &self.users.bed.api;
        admin.delete_at(&format!("/v2.1/flavors/{}", self.flavor));
        admin.delete_at(&format!("/v2/images/{}", self.image));
    }
}

impl<'b> Machine<'b> {
    /// Creates the server as a member, whose login is the cloud `mine` of the program's `clouds.yaml`.
    pub fn create(bed: &'b Bed) -> Self {
        let users = Users::with_member(bed);
        let member = users.api("a member");
        let name = &bed.name;
        let image = json!({"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"});
        let image = text(&bed.api.call_any("POST", "/v2/images", image)["id"]);
        bed.api
            .upload(&format!("/v2/images/{image}/file"), b"boots nothing");
        let flavor = json!({"flavor": {"name": name, "ram": 64, "vcpus": 1, "disk": 1}});
        let flavor = text(&bed.api.call_any("POST", "/v2.1/flavors", flavor)["flavor"]["id"]);

        let network = &bed.networks[0];
        bed.delete_qos_policies();
        let port = json!({"port": {"network_id": network, "name": format!("{name}-own")}});
        let own_port = text(&member.call("POST", "ports", port)["port"]["id"]);
        let server = json!({"server": {"name": name, "imageRef": image, "flavorRef": flavor,
            "networks": [{"uuid": network}, {"port": own_port}]}});
        let server = text(&member.call_any("POST", "/v2.1/servers", server)["server"]["id"]);
        let until = |path: &str, kind: &str, state: &str| {
            wait_for(&format!("{path} {state}"), || {
                member.call_any("GET", path, Value::Null)[kind]["status"] == state
            });
        };
        let create = |path: &str, kind: &str, mut fields: Value| {
            fields["name"] = json!(name);
            let made = member.call_any("POST", path, json!({ kind: fields }));
            let id = text(&made[kind]["id"]);
            until(&format!("{path}/{id}"), kind, "available");
            id
        };
        // Nova builds the server meanwhile.
        let volume = create("/v3/volumes", "volume", json!({"size": 1}));
        create("/v3/snapshots", "snapshot", json!({"volume_id": volume}));
        create("/v3/backups", "backup", json!({"volume_id": volume}));
        create(
            "/v3/backups",
            "backup",
            json!({"volume_id": volume, "incremental": true}),
        );
        until(&format!("/v2.1/servers/{server}"), "server", "ACTIVE");
        let attachment = json!({"volumeAttachment": {"volumeId": volume}});
        let path = format!("/v2.1/servers/{server}/os-volume_attachments");
        member.call_any("POST", &path, attachment);
        until(&format!("/v3/volumes/{volume}"), "volume", "in-use");
        Self {
            server,
            volume,
            own_port,
            image,
            flavor,
            users,
        }
    }

    /// The rows of the project that Nova and Cinder still list.
    pub fn remaining(&self) -> Vec<String> {
        let admin = &self.users.bed.api;
        let project = &self.users.bed.project;
        let rows = LISTS.iter().flat_map(|(path, key)| {
            let path = format!("{path}?all_tenants=1&project_id={project}");
            let rows = admin.call_any("GET", &path, Value::Null);
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        rows.collect()
    }
}

/// Misbehaviour of a service towards resources of one name. It ends when this value is dropped.
pub struct Misbehavior(&'static str);

impl Misbehavior {
    /// Switches on the misbehaviour `how`, see `README.md`, for resources with this name; for `soft-delete`, `name` is
    /// a number of seconds.
    pub fn start(service: &'static str, how: &str, name: &str) -> Self {
        misbehave(&[service, how, name]);
        Self(service)
    }
}

impl Drop for Misbehavior {
    fn drop(&mut self) {
        misbehave(&[self.0, "well"]);
    }
}

fn misbehave(words: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed/misbehave");
    let mut command = Command::new(script);
    command.env("TESTBED_DIR", clouds().parent().unwrap());
    assert!(command.args(words).status().unwrap().success(), "{words:?}");
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_8_n19_a_project_of_servers_and_volumes_is_emptied() {
    for login in ["mine", "testbed"] {
        let bed = Bed::small();
        let machine = Machine::create(&bed);
        assert_eq!(machine.remaining().len(), 5);
        let line = format!(
            "--cloud {login} --region RegionOne delete project/{} --cascade --yes --wait=5m",
            bed.project
        );
        bed.gone(&line).ok();
        assert_eq!(machine.remaining(), Vec::<String>::new(), "{login}");
        check_only_default_group(&bed);
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n04_a_volume_is_detached_before_its_deletion_and_a_server_releases_its_ports() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let member = machine.users.api("a member");
    let line = |target: String| format!("--cloud mine delete {target} --cascade --yes --wait=5m");
    bed.gone(&line(format!("volume/{}", machine.volume))).ok();
    let server = format!("/v2.1/servers/{}", machine.server);
    let status = &member.call_any("GET", &server, Value::Null)["server"]["status"];
    assert_eq!(status, "ACTIVE");

    // Two volumes with delete_on_termination. Nova keeps the one that has a snapshot.
    let on_termination = [(); 2].map(|()| {
        let wanted = json!({"volume": {"name": bed.name, "size": 1}});
        let id = text(&member.call_any("POST", "/v3/volumes", wanted)["volume"]["id"]);
        wait_for_volume(&member, &id, "available");
        let url = format!(
            "{}{server}/os-volume_attachments",
            bed.api.root_of("compute")
        );
        let body = json!({"volumeAttachment": {"volumeId": id, "delete_on_termination": true}});
        let (status, made) = member.send_with("POST", &url, NOVA_2_79, body);
        assert_eq!(status, 200, "{made}");
        wait_for_volume(&member, &id, "in-use");
        id
    });
    let snapshot = json!({"snapshot": {"volume_id": on_termination[1], "force": true}});
    member.call_any("POST", "/v3/snapshots", snapshot);
    let plan = format!(
        "--cloud mine plan server/{} --cascade -o json",
        machine.server
    );
    let plan = bed.gone(&plan).ok().json();
    let reason = |id: &String| {
        let automatic = plan["automatic"].as_array().unwrap();
        let step = automatic.iter().find(|it| it["resource_id"] == *id);
        text(&step.unwrap_or_else(|| panic!("{plan}"))["why"])
    };
    for id in &on_termination {
        assert!(
            reason(id).contains("unless it has snapshots"),
            "{}",
            reason(id)
        );
    }

    bed.gone(&line(format!("server/{}", machine.server))).ok();
    let volumes = || {
        let rows = member.call_any("GET", "/v3/volumes", Value::Null);
        let rows = rows["volumes"].as_array().unwrap().iter();
        rows.map(|row| text(&row["id"])).collect::<Vec<_>>()
    };
    wait_for("Nova's delete", || !volumes().contains(&on_termination[0]));
    assert_eq!(volumes(), [on_termination[1].clone()]);
    let ports = member.rows("ports", &format!("network_id={}", bed.networks[0]));
    let of_routers = |port: &&Value| text(&port["device_owner"]).starts_with("network:");
    let ports: Vec<Value> = ports
        .into_iter()
        .filter(|port| !of_routers(&port))
        .collect();
    assert!(
        ports.len() == 1 && ports[0]["id"] == machine.own_port,
        "{ports:?}"
    );
    bed.gone(&line(format!("project/{}", bed.project))).ok();
    assert_eq!(machine.remaining(), Vec::<String>::new());
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p04_a_locked_server_is_refused_for_an_admin_too() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let member = machine.users.api("a member");
    let action = format!("/v2.1/servers/{}/action", machine.server);
    member.call_any("POST", &action, json!({"lock": null}));
    for target in [
        format!("server/{}", machine.server),
        format!("project/{}", bed.project),
    ] {
        let line =
            format!("--cloud testbed --region RegionOne delete {target} --cascade --yes --wait=5m");
        bed.gone(&line).ends_with(6).says(&["it is locked"]);
    }
    member.call_any("POST", &action, json!({"unlock": null}));
    bed.delete_project("--cloud mine");
    assert_eq!(machine.remaining(), Vec::<String>::new());
}

/// An accepted delete that the cloud does not perform counts as a failed attempt with the cloud's reason.
#[test]
#[ignore = "needs the test bed"]
fn testbed_i06_a_delete_that_a_hypervisor_or_a_storage_refused_succeeds_when_retried() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let _engine = bed.start_engine("--cloud mine");
    let start = |target: String| {
        let line = format!("delete {target} --cascade --yes -o json");
        let accepted = bed.gone(&line).ok().json();
        text(&accepted["id"])
    };
    let busy = Misbehavior::start("cinder", "delete-busy", &bed.name);
    let volume = start(format!("volume/{}", machine.volume));
    bed.wait_for_show(&volume, &["is no longer being deleted, and is available"]);
    drop(busy);
    let refuses = Misbehavior::start("nova", "delete-fails", &bed.name);
    let server = start(format!("server/{}", machine.server));
    let words = "is no longer being deleted, and is ERROR: Failed to terminate instance";
    bed.wait_for_show(&server, &[words]);
    drop(refuses);
    for id in [&volume, &server] {
        bed.gone(&format!("retry {id}")).ok();
        bed.gone(&format!("watch {id}")).ok();
    }
    let rest = start(format!("project/{}", bed.project));
    bed.gone(&format!("watch {rest}")).ok();
    assert_eq!(machine.remaining(), Vec::<String>::new());
}

/// After a failure of the storage the snapshot stays in error_deleting, and Cinder refuses to delete it.
#[test]
#[ignore = "needs the test bed"]
fn testbed_p03_only_an_admin_deletes_a_snapshot_in_error_deleting_by_force() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let member = machine.users.api("a member");
    let path = format!("/v3/snapshots?volume_id={}", machine.volume);
    let snapshots = &member.call_any("GET", &path, Value::Null)["snapshots"];
    let snapshot = format!("volume_snapshot/{}", text(&snapshots[0]["id"]));
    check_forced_deletion(&bed, &snapshot, "cinder", "os-force_delete");
    assert!(
        !machine
            .remaining()
            .iter()
            .any(|row| row.starts_with("snapshots"))
    );
    bed.delete_project("--cloud mine");
}

/// Deletes a resource while its storage fails, which leaves it in error_deleting: only an admin can then delete
/// it, by force. `service` manages the storage, and `call` is its action.
pub fn check_forced_deletion(bed: &Bed, target: &str, service: &'static str, call: &str) {
    // A deletion that is blocked after its first attempt: its id, and the command that forces it.
    let blocked = |cloud: &str| {
        let line = format!("{cloud} delete {target} --cascade --yes --wait=20s -o json");
        let id = text(&bed.gone(&line).ends_with(4).json()["id"]);
        let short = &id[id.len() - 8..];
        let force = format!("{cloud} purge {short} --rung force --confirm {short}");
        (id, force)
    };
    let fails = Misbehavior::start(service, "delete-fails", &bed.name);
    let (id, force) = blocked("--cloud mine");
    bed.gone(&force).says(&["it needs the role admin"]);
    bed.gone(&format!("--cloud mine cancel {id}")).ok();
    drop(fails);

    let cloud = "--cloud testbed --region RegionOne";
    let (id, force) = blocked(cloud);
    let shown = bed.gone(&format!("{cloud} show {id}"));
    shown.says(&["(the resource is error_deleting)"]);
    let ladder = bed.gone(&format!("{cloud} purge {id}"));
    ladder.says(&[call, "may be left on the storage"]);
    bed.gone(&force);
    bed.gone(&format!("{cloud} watch {id}")).ok();
    bed.gone("audit list").says(&["purge force"]);
}

/// Volumes stay attached to a missing server if Nova deletes the server while Cinder is down. Neither service detaches
/// them.
#[test]
#[ignore = "needs the test bed"]
fn testbed_p03_a_volume_attached_to_a_missing_server_is_detached_and_deleted() {
    let bed = Bed::small();
    let mut users = Users::empty(&bed);
    users.add("a member", &bed.project, "member");
    let member = users.api("a member");
    let volume = || {
        let wanted = json!({"volume": {"name": bed.name, "size": 1}});
        let id = text(&member.call_any("POST", "/v3/volumes", wanted)["volume"]["id"]);
        wait_for_volume(&member, &id, "available");
        id
    };
    let storage = bed.api.root_of("block-storage");
    let attach = |volume: &str, connector: Value| {
        let body = json!({"attachment": {"volume_uuid": volume, "connector": connector,
            "instance_uuid": "00000000-0000-4000-8000-000000000000"}});
        let url = format!("{storage}/v3/attachments");
        let (status, made) = member.send_with("POST", &url, CINDER_3_44, body);
        assert_eq!(status, 200, "{made}");
        text(&made["attachment"]["id"])
    };
    let (attached, reserved) = (volume(), volume());
    let connector = json!({"initiator": "iqn", "ip": "127.0.0.1", "host": "gone", "platform": "x86_64",
        "os_type": "linux2", "multipath": false, "mountpoint": "/dev/vdb"});
    let attachment = attach(&attached, connector);
    let url = format!("{storage}/v3/attachments/{attachment}/action");
    member.send_with("POST", &url, CINDER_3_44, json!({"os-complete": {}}));
    wait_for_volume(&member, &attached, "in-use");
    attach(&reserved, Value::Null);
    wait_for_volume(&member, &reserved, "reserved");

    let cloud = "--cloud testbed --region RegionOne";
    let line = format!("{cloud} delete volume/{attached} --cascade --yes --wait=1m");
    bed.gone(&line).ok();

    let line = format!("{cloud} delete volume/{reserved} --yes --wait=20s -o json");
    let id = text(&bed.gone(&line).ends_with(4).json()["id"]);
    let short = &id[id.len() - 8..];
    bed.gone(&format!("{cloud} show {id}"))
        .says(&["(the resource is reserved)"]);
    bed.gone(&format!(
        "{cloud} purge {short} --rung reset --confirm {short}"
    ));
    bed.gone(&format!("{cloud} watch {id}")).ok();
    let left = member.call_any("GET", "/v3/volumes", Value::Null);
    assert_eq!(left["volumes"], json!([]));
}

/// The first microversion with `delete_on_termination` of an attached volume.
const NOVA_2_79: (&str, &str) = ("openstack-api-version", "compute 2.79");
/// A microversion in which attachments are resources.
const CINDER_3_44: (&str, &str) = ("openstack-api-version", "volume 3.44");

/// Waits until the volume has this status.
pub fn wait_for_volume(member: &Api, id: &str, state: &str) {
    let path = format!("/v3/volumes/{id}");
    wait_for(&format!("the volume to be {state}"), || {
        member.call_any("GET", &path, Value::Null)["volume"]["status"] == state
    });
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n04_a_plan_lists_a_networks_servers_and_deletes_them_only_on_request() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let member = machine.users.api("a member");
    let network = format!("network/{}", bed.networks[0]);
    let planned = |options: &str| {
        let line = format!("--cloud mine plan {network} --cascade {options} -o json");
        bed.gone(&line).ok().json()
    };
    let count = |part: &Value| {
        let steps = part.as_array().unwrap().iter();
        steps
            .filter(|it| it["resource_id"] == machine.server)
            .count()
    };
    let plan = planned("");
    assert_eq!(
        (count(&plan["steps"]), count(&plan["unset"])),
        (0, 1),
        "{plan}"
    );
    let plan = planned("--with-servers");
    assert_eq!(
        (count(&plan["steps"]), count(&plan["unset"])),
        (1, 0),
        "{plan}"
    );

    let line = format!("--cloud mine delete {network} --cascade --with-servers --yes --wait=5m");
    bed.gone(&line).ok();
    let servers = member.call_any("GET", "/v2.1/servers", Value::Null);
    assert_eq!(servers["servers"], json!([]));
    assert_eq!(
        member.rows("networks", &format!("id={}", bed.networks[0])),
        [] as [Value; 0]
    );
    let volume = format!("/v3/volumes/{}", machine.volume);
    let volume = member.call_any("GET", &volume, Value::Null);
    assert_eq!(volume["volume"]["status"], "available");
    bed.delete_project("--cloud mine");
    assert_eq!(machine.remaining(), Vec::<String>::new());
}

/// The engine is killed again and again while the server and its volumes are deleted.
#[test]
#[ignore = "needs the test bed"]
fn testbed_i11_repeatedly_killed_engines_empty_a_project_and_delete_no_volume_twice() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let proxy = Proxy::to(bed.api.root_of("block-storage"));
    bed.change_clouds(|clouds| {
        let url = format!("{}/v3", proxy.url);
        clouds["clouds"]["mine"]["block_storage_endpoint_override"] = url.into();
    });
    let mut engine = bed.start_engine("--cloud mine");
    let line = format!("delete project/{} --cascade --yes -o json", bed.project);
    let id = text(&bed.gone(&line).ok().json()["id"]);
    for millis in [200, 600, 1200, 1800, 2500, 3500] {
        std::thread::sleep(Duration::from_millis(millis));
        drop(engine);
        engine = bed.start_engine("--cloud mine");
    }
    bed.gone(&format!("watch {id}")).ok();
    assert_eq!(machine.remaining(), Vec::<String>::new());
    bed.gone("ledger check").ok();
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    for (path, status) in proxy.deletes() {
        *accepted.entry(path).or_default() += usize::from(status == Some(202));
    }
    assert!(accepted.len() >= 4, "{accepted:?}");
    assert!(accepted.values().all(|times| *times <= 1), "{accepted:?}");
}

/// Some clouds keep deleted servers for a while, with their ports and volumes.
#[test]
#[ignore = "needs the test bed"]
fn testbed_p03_a_soft_deleted_server_is_reported_and_deleted_by_force() {
    let bed = Bed::small();
    let machine = Machine::create(&bed);
    let soft = Misbehavior::start("nova", "soft-delete", "600");
    let server = format!("server/{}", machine.server);
    let line = format!("--cloud mine delete {server} --cascade --yes --wait=20s -o json");
    let id = text(&bed.gone(&line).ends_with(4).json()["id"]);
    let short = &id[id.len() - 8..];
    bed.gone(&format!("--cloud mine show {id}"))
        .says(&["is no longer being deleted, and is SOFT_DELETED"]);
    bed.gone(&format!(
        "--cloud mine purge {id} --rung force --confirm {short}"
    ));
    bed.gone(&format!("--cloud mine watch {id}")).ok();
    drop(soft);
    bed.delete_project("--cloud mine");
    assert_eq!(machine.remaining(), Vec::<String>::new());
}

/// Adds the cloud `own` to the program's `clouds.yaml`: an admin in the bed's project, to whom `seed` has granted that
/// role. Barbican shows a login only the secrets of its own project.
fn add_project_admin(bed: &Bed) {
    bed.change_clouds(|clouds| {
        let mut own = clouds["clouds"]["testbed"].clone();
        own["auth"]["project_name"] = json!(bed.name);
        own["regions"] = json!(["RegionOne"]);
        clouds["clouds"]["own"] = own;
    });
}

/// Creates a second server of the project, whose name does not contain the name for which the host misbehaves.
fn create_unaffected_server(bed: &Bed, machine: &Machine<'_>) {
    let member = machine.users.api("a member");
    let name: String = bed.name.chars().rev().collect();
    let fields = json!({"server": {"name": name, "imageRef": machine.image,
        "flavorRef": machine.flavor, "networks": [{"uuid": bed.networks[0]}]}});
    let made = member.call_any("POST", "/v2.1/servers", fields);
    let path = format!("/v2.1/servers/{}", text(&made["server"]["id"]));
    wait_for("the unaffected server", || {
        member.call_any("GET", &path, Value::Null)["server"]["status"] == "ACTIVE"
    });
}

/// The host of one server hangs: everything except the server and its volume is deleted, and the server is stuck with a
/// reason and its ladder. A member retries it when the host works again. An admin of the project resets its state, and
/// the project itself is deleted last.
#[test]
#[ignore = "needs the test bed"]
fn testbed_story_16_n12_only_the_server_on_a_hanging_host_is_stuck_and_its_ladder_is_shown() {
    for (login, options) in [("mine", ""), ("own", "--with-project")] {
        let bed = Bed::small();
        let machine = Machine::create(&bed);
        create_unaffected_server(&bed, &machine);
        add_project_admin(&bed);
        bed.configure("[gc.kind.server]\npending_max = '20s'\n");
        let misbehavior = Misbehavior::start("nova", "delete-hangs", &bed.name);
        let _engine = bed.start_engine(&format!("--cloud {login}"));
        let project = &bed.project;
        let line = format!("delete project/{project} --cascade {options} --yes -o json");
        let id = text(&bed.gone(&line).ok().json()["id"]);
        bed.wait_for_show(&id, &["stuck", &machine.server, "is still deleting"]);
        let is_stuck =
            |row: &String| row.contains(&machine.server) || row.contains(&machine.volume);
        wait_for("the end of all other resources", || {
            let left = machine.remaining();
            left.len() == 2 && left.iter().all(is_stuck)
        });
        let ladder = bed.gone(&format!("purge {id}"));
        let reset = format!("purge {id} --rung reset --confirm {}", &id[id.len() - 8..]);
        if login == "mine" {
            ladder.says(&["reset", "it needs the role admin", "force"]);
            bed.gone(&reset).says(&["it needs the role admin"]);
            drop(misbehavior);
            bed.gone(&format!("retry {id}")).ok();
        } else {
            ladder.says(&["reset", "its hypervisor may still run it", "force"]);
            assert!(has_project(&bed));
            drop(misbehavior);
            bed.gone(&reset).ok();
        }
        bed.gone(&format!("watch {id}")).ok();
        assert_eq!(machine.remaining(), Vec::<String>::new(), "{login}");
        assert_eq!(has_project(&bed), login == "mine");
    }
}

/// Whether Keystone still has the bed's project.
fn has_project(bed: &Bed) -> bool {
    let projects = bed.api.identity("GET", "/projects", &Value::Null).0;
    let mut projects = projects["projects"].as_array().unwrap().iter();
    projects.any(|project| project["id"] == bed.project.as_str())
}

/// The command line and the gate refuse the foreign port, and the gate then accepts the deletion. Neutron does not let
/// a member delete a port of a server, so gone clears the port's owner first. The server keeps running without
/// the port.
#[test]
#[ignore = "needs the test bed"]
fn testbed_story_18_n20_a_member_deletes_a_running_servers_network_without_foreign_ports() {
    let mut bed = Bed::small();
    let network = bed.networks[0].clone();
    let foreign = json!({"network_id": network, "name": "of-another"});
    let foreign = text(&bed.create_foreign("ports", "port", foreign)["id"]);
    let machine = Machine::create(&bed);
    let (_engine, gates) = engine_with_gates(&bed);
    let delete = format!("--cloud mine delete network/{network} --cascade --yes --wait=2m");
    let refusal = format!("port of-another ({foreign}) belongs to project");
    bed.gone(&delete).ends_with(6).says(&[&refusal]);
    let mut member = machine.users.api("a member");
    member.network_url = format!("http://{}/v2.0", gates[0]);
    let path = format!("networks/{network}?cascade=true");
    // The answer is due within a second, whether the plan is complete or not. The deletion's address has more time to
    // ask Neutron which blockers it shows to the member.
    let (status, answer) = member.answer("DELETE", &path, Value::Null);
    assert!([202, 409].contains(&status), "{answer}");
    let deletions = bed.gone("list deletions -o json").ok().json();
    assert_eq!(deletions[0]["requested_by"]["origin"], "gate");
    let id = text(&deletions[0]["id"]);
    let address = format!("http://{}/gone/v1/deletions/{id}", gates[0]);
    let address = || member.answer_at("GET", &address, Value::Null);
    wait_for("the refusal", || address().1["state"] == "refused");
    let (status, answer) = address();
    assert_eq!(status, 200, "{answer}");
    assert!(answer.to_string().contains(&refusal), "{answer}");

    bed.api.delete_at(&format!("/v2.0/ports/{foreign}"));
    let (status, answer) = member.answer("DELETE", &path, Value::Null);
    assert_eq!(status, 202, "{answer}");
    wait_for("the network's end", || {
        member
            .answer("GET", &format!("networks/{network}"), Value::Null)
            .0
            == 404
    });
    let path = format!("/v2.1/servers/{}", machine.server);
    let server = &member.call_any("GET", &path, Value::Null)["server"];
    assert_eq!(server["status"], "ACTIVE");
    let rest = format!(
        "--cloud mine delete project/{} --cascade --yes --wait=5m",
        bed.name
    );
    bed.gone(&rest).ok();
    assert_eq!(machine.remaining(), Vec::<String>::new());
}
