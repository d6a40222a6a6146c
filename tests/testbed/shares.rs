//! Shares of real Manila: deleted with their project, refused for their blockers, and kept by a storage that refuses.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, wait_for};
use crate::cascade::check_only_default_group;
use crate::servers::check_forced_deletion;
use crate::users::Users;

/// A microversion with resource locks.
const MANILA: (&str, &str) = ("x-openstack-manila-api-version", "2.82");

/// The lists of Manila in which a project can have rows, and the keys of their rows.
const LISTS: [(&str, &str); 8] = [
    ("shares", "shares"),
    ("shares?is_soft_deleted=true", "shares"),
    ("snapshots", "snapshots"),
    ("share-networks", "share_networks"),
    ("security-services", "security_services"),
    ("share-groups", "share_groups"),
    ("share-group-snapshots", "share_group_snapshots"),
    ("share-transfers", "transfers"),
];

/// Creates shares of a project by the calls of its member. An admin creates their types, which are deleted when this
/// value is dropped.
pub struct Shares<'p, 'b> {
    users: &'p Users<'b>,
    /// The share type without share servers and replicas.
    plain: String,
    /// The share type with replicas on another storage.
    copied: String,
    /// The share type with share servers.
    served: String,
    group_type: String,
}

impl Drop for Shares<'_, '_> {
    fn drop(&mut self) {
        let admin = &self.users.bed.api;
        let types = [&self.plain, &self.copied, &self.served];
        let types = types.map(|id| format!("types/{id}"));
        let group_type = format!("share-group-types/{}", self.group_type);
        for path in [group_type].iter().chain(&types) {
            admin.delete_with(&url(admin, path), MANILA);
        }
    }
}

/// The URL of a path of Manila.
fn url(api: &Api, path: &str) -> String {
    format!("{}/v2/{path}", api.root_of("shared-file-system"))
}

impl<'p, 'b> Shares<'p, 'b> {
    pub fn new(users: &'p Users<'b>) -> Self {
        let bed = users.bed;
        let make = |path: &str, kind: &str, name: &str, mut fields: Value| {
            fields["name"] = json!(format!("{}-{name}", bed.name));
            let wanted = json!({ kind: fields });
            let (status, made) = bed
                .api
                .send_with("POST", &url(&bed.api, path), MANILA, wanted);
            assert!(status < 300, "{path}: {status} {made}");
            text(&made[kind]["id"])
        };
        let of_type = |name: &str, specs: Value| {
            make("types", "share_type", name, json!({ "extra_specs": specs }))
        };
        let servers = "driver_handles_share_servers";
        let plain = of_type("plain", json!({ servers: false, "snapshot_support": true }));
        let copied = json!({ servers: false, "replication_type": "readable" });
        let snapshots = json!({"consistent_snapshot_support": "pool"});
        let group_type = json!({"share_types": [plain], "group_specs": snapshots});
        Self {
            users,
            group_type: make("share-group-types", "share_group_type", "group", group_type),
            copied: of_type("copied", copied),
            served: of_type("served", json!({ servers: true })),
            plain,
        }
    }

    fn name(&self) -> &str {
        &self.users.bed.name
    }

    /// A POST of the member, which must succeed. Returns the body.
    fn post(&self, path: &str, body: Value) -> Value {
        let member = self.users.api("a member");
        let (status, made) = member.send_with("POST", &url(&member, path), MANILA, body);
        assert!(status < 300, "{path}: {status} {made}");
        made
    }

    /// A GET of the member. Returns status and body.
    fn get(&self, path: &str) -> (u16, Value) {
        let member = self.users.api("a member");
        member.get_with(&url(&member, path), MANILA.0, MANILA.1)
    }

    /// Waits until a field of the resource at this path has this value.
    fn until(&self, path: &str, field: &str, state: &str) {
        wait_for(&format!("{path} to be {state}"), || {
            self.get(path)
                .1
                .pointer(field)
                .is_some_and(|it| it == state)
        });
    }

    /// Creates a share, and waits until it is available.
    pub fn share(&self, name: &str, mut fields: Value) -> String {
        fields["name"] = json!(name);
        fields["size"] = json!(1);
        fields["share_proto"] = json!("NFS");
        if fields["share_type"].is_null() {
            let is_served = !fields["share_network_id"].is_null();
            fields["share_type"] = json!(if is_served { &self.served } else { &self.plain });
        }
        let id = text(&self.post("shares", json!({ "share": fields }))["share"]["id"]);
        self.until(&format!("shares/{id}"), "/share/status", "available");
        id
    }

    /// Creates a snapshot, and waits until it is available.
    fn snapshot(&self, share: &str, name: &str) -> String {
        let fields = json!({"share_id": share, "name": name});
        let id = text(&self.post("snapshots", json!({ "snapshot": fields }))["snapshot"]["id"]);
        self.until(&format!("snapshots/{id}"), "/snapshot/status", "available");
        id
    }

    /// Creates an access rule, and waits until it is active.
    fn access_rule(&self, share: &str) -> String {
        let rule = json!({"access_type": "ip", "access_to": "192.0.2.1", "access_level": "rw"});
        let path = format!("shares/{share}/action");
        let id = text(&self.post(&path, json!({ "allow_access": rule }))["access"]["id"]);
        self.until(
            &format!("share-access-rules/{id}"),
            "/access/state",
            "active",
        );
        id
    }

    /// Creates a share network on the bed's first network, with a security service.
    fn network(&self) -> String {
        let bed = self.users.bed;
        let subnets = bed
            .api
            .rows("subnets", &format!("network_id={}", bed.networks[0]));
        let fields = json!({"name": format!("{}-net", bed.name), "neutron_net_id": bed.networks[0],
            "neutron_subnet_id": subnets[0]["id"]});
        let made = self.post("share-networks", json!({ "share_network": fields }));
        let id = text(&made["share_network"]["id"]);
        let service = json!({"name": bed.name, "type": "ldap", "password": "hidden"});
        let service = self.post("security-services", json!({ "security_service": service }));
        let uses = json!({"security_service_id": service["security_service"]["id"]});
        let path = format!("share-networks/{id}/action");
        self.post(&path, json!({ "add_security_service": uses }));
        id
    }

    /// Creates a share group with a share, and a snapshot of the group.
    fn group(&self) {
        let create = |path: &str, kind: &str, fields: Value| {
            let id = text(&self.post(path, json!({ kind: fields }))[kind]["id"]);
            let state = format!("/{kind}/status");
            self.until(&format!("{path}/{id}"), &state, "available");
            id
        };
        let fields = json!({"name": self.name(), "share_group_type_id": self.group_type,
            "share_types": [self.plain]});
        let group = create("share-groups", "share_group", fields);
        self.share(
            &format!("{}-grouped", self.name()),
            json!({ "share_group_id": group }),
        );
        let fields = json!({ "share_group_id": group });
        create("share-group-snapshots", "share_group_snapshot", fields);
    }

    /// Creates a share with a replica.
    fn copied(&self) {
        let fields = json!({"share_type": self.copied});
        let share = self.share(&format!("{}-copied", self.name()), fields);
        let made = self.post(
            "share-replicas",
            json!({"share_replica": {"share_id": share}}),
        );
        let path = format!("share-replicas/{}", text(&made["share_replica"]["id"]));
        self.until(&path, "/share_replica/status", "available");
    }

    /// Creates a share on a share network, and one with a snapshot and an access rule.
    pub fn create(&self) {
        let network = self.network();
        self.share(
            &format!("{}-served", self.name()),
            json!({ "share_network_id": network }),
        );
        let share = self.share(self.name(), json!({}));
        self.snapshot(&share, self.name());
        self.access_rule(&share);
    }

    /// Creates a group with a share and a snapshot, a share with a replica, a share in the recycle bin, and a share
    /// that is offered to another project.
    fn create_more(&self) {
        self.group();
        self.copied();
        let binned = self.share(&format!("{}-binned", self.name()), json!({}));
        self.post(
            &format!("shares/{binned}/action"),
            json!({"soft_delete": null}),
        );
        let offered = self.share(&format!("{}-offered", self.name()), json!({}));
        let transfer = json!({"share_id": offered, "name": self.name()});
        self.post("share-transfers", json!({ "transfer": transfer }));
    }

    /// The rows that the member still has in Manila.
    pub fn remaining(&self) -> Vec<String> {
        let rows = LISTS.iter().flat_map(|(path, key)| {
            let (status, rows) = self.get(path);
            assert_eq!(status, 200, "{path}: {rows}");
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        rows.collect()
    }
}

/// Number of rows that `create` makes.
pub const CREATED: usize = 5;
/// Number of rows that `create_more` makes.
const CREATED_MORE: usize = 7;

/// The clouds whose logins delete: the member's own, and an admin's.
const LOGINS: [&str; 2] = ["mine", "testbed"];

#[test]
#[ignore = "needs the test bed"]
fn testbed_n20_a_share_is_deleted_after_its_snapshot_and_with_its_access_rule() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let shares = Shares::new(&users);
    for login in LOGINS {
        let share = shares.share(&bed.name, json!({}));
        let snapshot = shares.snapshot(&share, &format!("{}-snapshot", bed.name));
        let rule = shares.access_rule(&share);
        let line = |verb: &str, more: &str| {
            bed.gone(&format!(
                "--cloud {login} --region RegionOne {verb} share/{share} {more}"
            ))
        };
        // Without a cascade the deletion is refused, and names the snapshot.
        line("delete", "--yes --wait=1m")
            .ends_with(6)
            .says(&[&format!("{}-snapshot", bed.name), "share_snapshot"]);
        let plan = line("plan", "--cascade -o json").ok().json();
        let steps = plan["steps"].as_array().unwrap();
        let step = |id: &str| steps.iter().find(|it| it["resource_id"] == id).unwrap();
        assert_eq!(steps.len(), 2, "{plan}");
        assert_eq!(
            step(&share)["depends_on"],
            json!([step(&snapshot)["id"]]),
            "{plan}"
        );
        let automatic = &plan["automatic"][0];
        assert_eq!(automatic["kind"], "share_access_rule", "{plan}");
        assert_eq!(
            automatic["resource_id"],
            format!("{share},{rule}"),
            "{plan}"
        );

        line("delete", "--cascade --yes --wait=1m").ok();
        assert_eq!(shares.remaining(), Vec::<String>::new(), "{login}");
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n19_a_share_network_blocks_its_network_and_is_deleted_with_the_project() {
    let bed = Bed::small();
    bed.delete_qos_policies();
    let users = Users::with_member(&bed);
    let shares = Shares::new(&users);
    shares.create();
    shares.create_more();
    let created = CREATED + CREATED_MORE;
    assert_eq!(
        shares.remaining().len(),
        created,
        "{:?}",
        shares.remaining()
    );
    let served = bed
        .api
        .rows("ports", &format!("network_id={}", bed.networks[0]));
    let served = served
        .iter()
        .filter(|it| it["device_owner"] == "manila:share")
        .count();
    assert_eq!(served, 2);
    for login in LOGINS {
        let line = format!(
            "--cloud {login} --region RegionOne delete network/{} --cascade --yes --wait=1m",
            bed.networks[0]
        );
        bed.gone(&line)
            .ends_with(6)
            .says(&[&format!("{}-net", bed.name), "serves shares on"]);
    }
    let line = format!(
        "--cloud mine delete project/{} --cascade --yes --wait=3m",
        bed.project
    );
    bed.gone(&line).ok();
    assert_eq!(shares.remaining(), Vec::<String>::new());
    check_only_default_group(&bed);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p04_a_locked_share_is_refused_for_an_admin_too() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let shares = Shares::new(&users);
    let share = shares.share(&bed.name, json!({}));
    let lock = json!({"resource_id": share, "resource_type": "share", "resource_action": "delete",
        "lock_reason": format!("{} keeps it", bed.name)});
    let made = shares.post("resource-locks", json!({ "resource_lock": lock }));
    let lock = text(&made["resource_lock"]["id"]);
    let delete = |login: &str, target: &str| {
        bed.gone(&format!(
            "--cloud {login} --region RegionOne delete {target} --cascade --yes --wait=1m"
        ))
    };
    for login in LOGINS {
        for target in [format!("share/{share}"), format!("project/{}", bed.project)] {
            delete(login, &target)
                .ends_with(6)
                .says(&[&format!("{} keeps it", bed.name), "locks"]);
        }
    }
    delete("mine", &format!("resource_lock/{lock}")).ok();
    delete("mine", &format!("share/{share}")).ok();
    assert_eq!(shares.remaining(), Vec::<String>::new());
}

/// After a failure of the storage the share stays in error_deleting, and Manila refuses to delete it.
#[test]
#[ignore = "needs the test bed"]
fn testbed_p03_only_an_admin_deletes_a_share_in_error_deleting_by_force() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let shares = Shares::new(&users);
    let share = shares.share(&bed.name, json!({}));
    check_forced_deletion(&bed, &format!("share/{share}"), "manila", "force_delete");
    assert_eq!(shares.remaining(), Vec::<String>::new());
}
