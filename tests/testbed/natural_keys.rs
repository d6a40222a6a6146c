//! Natural keys on a real Glance and Neutron: a resource that is added again through the gate keeps its record.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, ChildGuard, clouds, wait_for};
use crate::gate::{clouds_behind_gates, engine_with_gates, openstack};
use crate::proxy::Proxy;

/// Creates a shared image of the bed's project.
fn create_shared_image(bed: &Bed) -> String {
    let image = json!({"name": bed.name, "visibility": "shared", "owner": bed.project});
    text(&bed.api.call_any("POST", "/v2/images", image)["id"])
}

/// A bed whose engine has a gate for each service.
struct GatedBed {
    bed: Bed,
    _engine: ChildGuard,
    /// The addresses of the gates.
    gates: Vec<String>,
    /// The `clouds.yaml` of clients behind the gates.
    clients_yaml: std::path::PathBuf,
}

impl GatedBed {
    fn new() -> Self {
        let shape = "--networks 1 --ports 1 --trunks 0 --fips 0";
        Self::of(Bed::seeded("RegionOne", shape))
    }

    fn of(bed: Bed) -> Self {
        let (engine, gates) = engine_with_gates(&bed);
        Self {
            clients_yaml: clouds_behind_gates(&bed, &gates),
            _engine: engine,
            gates,
            bed,
        }
    }

    /// Creates a resource of the bed's project. Returns its id.
    fn create(&self, collection: &str, item: &str, mut fields: Value) -> String {
        fields["project_id"] = json!(self.bed.project);
        let made = self
            .bed
            .api
            .call("POST", collection, json!({ item: fields }));
        text(&made[item]["id"])
    }

    /// Runs the `openstack` client through the gates. Returns exit code, standard output and standard error.
    fn client(&self, words: &str) -> (Option<i32>, String, String) {
        openstack(&self.clients_yaml, words)
    }

    /// Runs the `openstack` client through the gates, and asserts that it succeeds.
    fn run_client(&self, words: &str) {
        let (code, out, error) = self.client(words);
        assert_eq!(code, Some(0), "{words}: {out} {error}");
    }

    /// The only tombstone of this kind.
    fn record(&self, kind: &str) -> Value {
        let all = self.bed.gone("list tombstones -o json").ok().json();
        let mut of_kind = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["kind"] == kind);
        let record = of_kind.next().expect("a tombstone of this kind").clone();
        assert_eq!(of_kind.next(), None);
        record
    }

    /// Deletes a resource with gone and adds it again with a client, `times` times. The resource must keep one record,
    /// with a new incarnation each time. `twice` is the exit code of the client if it adds an existing resource.
    fn check_incarnations(&self, kind: &str, id: &str, add: &str, times: u32, twice: Option<i32>) {
        self.run_client(add);
        for incarnation in 1..=times {
            let delete = format!("delete {kind}/{id}@testbed/RegionOne --yes --wait=2m");
            self.bed.gone(&delete).ok();
            let gone = self.record(kind);
            assert_eq!(
                (&gone["phase"], &gone["incarnation"]),
                (&json!("gone"), &json!(incarnation))
            );
            self.run_client(add);
            let alive = self.record(kind);
            assert_eq!(alive["record_id"], gone["record_id"]);
            assert_eq!(
                (&alive["phase"], &alive["incarnation"], &alive["deleted_at"]),
                (&json!("released"), &json!(incarnation + 1), &Value::Null)
            );
            // Adding an existing resource does not change its record.
            let (code, _, error) = self.client(add);
            assert_eq!(code, twice, "{error}");
            assert_eq!(self.record(kind), alive);
        }
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_m01_m02_m03_m06_a_resource_readded_through_the_gate_keeps_its_record() {
    let gated = GatedBed::new();
    let image = create_shared_image(&gated.bed);
    let other = gated.bed.api.project_id("demo");
    let add = format!("image add project {image} {other}");
    gated.check_incarnations(
        "image_member",
        &format!("{image},{other}"),
        &add,
        2,
        Some(1),
    );
    gated.run_client(&format!("image member list {image}"));

    let create = |collection, item, fields| gated.create(collection, item, fields);
    let router = create("routers", "router", json!({"name": gated.bed.name}));
    let network = create("networks", "network", json!({"name": "edge"}));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "192.0.2.0/24"});
    let subnet = create("subnets", "subnet", subnet);
    let add = format!("router add subnet {router} {subnet}");
    let id = format!("{router},{subnet}");
    gated.check_incarnations("router_interface", &id, &add, 1, Some(1));

    // Neutron accepts a route that exists already.
    let (to, hop) = ("198.51.100.0/24", "192.0.2.77");
    let add = format!("router add route {router} --route destination={to},gateway={hop}");
    let id = format!("{router},{to},{hop}");
    gated.check_incarnations("static_route", &id, &add, 1, Some(0));

    let port = || create("ports", "port", json!({ "network_id": network }));
    let (parent, child) = (port(), port());
    let trunk = create("trunks", "trunk", json!({ "port_id": parent }));
    let vlan = "segmentation-type=vlan,segmentation-id=7";
    let add = format!("network trunk set --subport port={child},{vlan} {trunk}");
    gated.check_incarnations("subport", &format!("{trunk},{child}"), &add, 1, Some(1));
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_m05_one_of_several_concurrent_additions_of_a_deleted_member_succeeds() {
    let gated = GatedBed::new();
    let (image, other) = (
        create_shared_image(&gated.bed),
        gated.bed.api.project_id("demo"),
    );
    gated.run_client(&format!("image add project {image} {other}"));
    let member = format!("image_member/{image},{other}@testbed/RegionOne");
    let delete = format!("delete {member} --yes --wait=2m");
    gated.bed.gone(&delete).ok();
    let url = format!("http://{}/v2/images/{image}/members", gated.gates[1]);
    let add = || {
        let api = Api::new(&clouds(), "testbed", "RegionOne");
        api.answer_at("POST", &url, json!({ "member": other })).0
    };
    let mut answers: Vec<u16> = std::thread::scope(|scope| {
        let adding = [(); 4].map(|()| scope.spawn(add));
        adding.map(|it| it.join().unwrap()).to_vec()
    });
    answers.sort_unstable();
    assert_eq!(answers, [200, 409, 409, 409]);
    let record = gated.record("image_member");
    assert_eq!(
        (&record["phase"], &record["incarnation"]),
        (&json!("released"), &json!(2))
    );
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i10_an_interface_recreated_during_the_deletion_is_not_deleted() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 1 --trunks 0 --fips 0");
    let proxy = Proxy::to_neutron(&bed.api);
    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["network_endpoint_override"] = proxy.url.clone().into();
    });
    let network = &bed.networks[0];
    let interfaces = || {
        let owner = "device_owner=network:router_interface";
        bed.api
            .rows("ports", &format!("network_id={network}&{owner}"))
    };
    let old = interfaces().remove(0);
    let router = text(&old["device_id"]);
    let subnet = json!({"subnet_id": old["fixed_ips"][0]["subnet_id"]});
    // A route in the subnet would block the interface.
    bed.api.call(
        "PUT",
        &format!("routers/{router}"),
        json!({"router": {"routes": []}}),
    );
    let _engine = bed.start_engine("--cloud testbed");
    proxy.fail(Method::PUT, "remove_router_interface");
    let delete = format!("--cloud testbed delete network/{network} --cascade --yes -o json");
    let id = text(&bed.gone(&delete).ok().json()["id"]);
    wait_for("an attempt", || proxy.failed_calls() > 0);
    for verb in ["remove", "add"] {
        let path = format!("routers/{router}/{verb}_router_interface");
        bed.api.call("PUT", &path, subnet.clone());
    }
    let new = interfaces().remove(0);
    assert_ne!(old["id"], new["id"]);
    proxy.recover();
    let state = || {
        let shown = bed.gone(&format!("--cloud testbed show {id} -o json"));
        shown.ok().json()["state"].clone()
    };
    // The new interface is a newcomer that blocks the network, so the deletion waits for a person.
    wait_for("the deletion to be stuck", || state() == "stuck");
    assert_eq!(interfaces()[0]["id"], new["id"]);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_m04_two_old_records_of_a_member_are_merged_into_the_oldest_and_revived() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 1 --trunks 0 --fips 0");
    let image = create_shared_image(&bed);
    let other = bed.api.project_id("demo");
    let member = format!("{image},{other}");
    std::fs::create_dir_all(bed.ledger().parent().unwrap()).unwrap();
    let old = rusqlite::Connection::open(bed.ledger()).unwrap();
    old.execute_batch(include_str!("../ledger/version_1.sql"))
        .unwrap();
    old.execute_batch(
        "DELETE FROM deletions; DELETE FROM requests; DELETE FROM steps; DELETE FROM edges;
         DELETE FROM tombstones; UPDATE counters SET n = 0;",
    )
    .unwrap();
    // The second record is from another engine, which wrote ids in capitals. Each is of incarnation 2.
    for id in [&member, &member.to_uppercase()] {
        let now = "1000000 * unixepoch()";
        let values =
            format!("'testbed/RegionOne', 'image_member', ?1, 'gone', {now}, {now}, 2, 0, 99");
        let columns =
            "site, kind, id, phase, deleted_at, gone_at, incarnation, recreated, deletion";
        let insert = format!("INSERT INTO tombstones({columns}) VALUES({values})");
        old.execute(&insert, [id]).unwrap();
    }
    let oldest: i64 = old
        .query_row("SELECT min(record_id) FROM tombstones", [], |row| {
            row.get(0)
        })
        .unwrap();
    drop(old);
    let gated = GatedBed::of(bed);
    let merged = gated.record("image_member");
    assert_eq!(
        (&merged["record_id"], &merged["incarnation"]),
        (&json!(oldest), &json!(4))
    );
    gated.run_client(&format!("image add project {image} {other}"));
    let alive = gated.record("image_member");
    assert_eq!(
        (&alive["record_id"], &alive["phase"], &alive["incarnation"]),
        (&json!(oldest), &json!("released"), &json!(5))
    );
    gated.bed.gone("ledger check").ok();
}
