//! Natural keys on a real Glance and Neutron: what is added again through the gate lives on in its record.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, ChildGuard, clouds, wait_for};
use crate::gate::{behind_gates, engine_with_gates, openstack};
use crate::proxy::Proxy;

/// For the bed's project.
fn shared_image(bed: &Bed) -> String {
    let image = json!({"name": bed.name, "visibility": "shared", "owner": bed.project});
    text(&bed.api.call_any("POST", "/v2/images", image)["id"])
}

struct Stage {
    bed: Bed,
    _engine: ChildGuard,
    gates: Vec<String>,
    gated: std::path::PathBuf,
}

impl Stage {
    fn new() -> Self {
        let shape = "--networks 1 --ports 1 --trunks 0 --fips 0";
        Self::of(Bed::seeded("RegionOne", shape))
    }

    fn of(bed: Bed) -> Self {
        let (engine, gates) = engine_with_gates(&bed);
        Self {
            gated: behind_gates(&bed, &gates),
            _engine: engine,
            gates,
            bed,
        }
    }

    /// Of the bed's project; its id.
    fn make(&self, collection: &str, item: &str, mut fields: Value) -> String {
        fields["project_id"] = json!(self.bed.project);
        let made = self
            .bed
            .api
            .call("POST", collection, json!({ item: fields }));
        text(&made[item]["id"])
    }

    /// By the command line's client, through the gates.
    fn client(&self, words: &str) -> (Option<i32>, String, String) {
        openstack(&self.gated, words)
    }

    fn succeeds(&self, words: &str) {
        let (code, out, error) = self.client(words);
        assert_eq!(code, Some(0), "{words}: {out} {error}");
    }

    /// The one record of this kind.
    fn record(&self, kind: &str) -> Value {
        let all = self.bed.gone("list tombstones -o json").ends_with(0).json();
        let mut of_kind = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["kind"] == kind);
        let record = of_kind.next().expect("a record").clone();
        assert_eq!(of_kind.next(), None);
        record
    }

    /// Deleted by gone and added again by a client, so many times: one record, each life another
    /// incarnation. `twice` is what the client ends with where it adds what is there.
    fn lives(&self, kind: &str, id: &str, add: &str, times: u32, twice: Option<i32>) {
        self.succeeds(add);
        for life in 1..=times {
            let delete = format!("delete {kind}/{id}@testbed/RegionOne --yes --wait=2m");
            self.bed.gone(&delete).ends_with(0);
            let gone = self.record(kind);
            assert_eq!(
                (&gone["phase"], &gone["incarnation"]),
                (&json!("gone"), &json!(life))
            );
            self.succeeds(add);
            let alive = self.record(kind);
            assert_eq!(alive["record_id"], gone["record_id"]);
            assert_eq!(
                (&alive["phase"], &alive["incarnation"], &alive["deleted_at"]),
                (&json!("released"), &json!(life + 1), &Value::Null)
            );
            // A live one is not created again.
            let (code, _, error) = self.client(add);
            assert_eq!(code, twice, "{error}");
            assert_eq!(self.record(kind), alive);
        }
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_m01_m02_m03_m06_what_is_added_again_through_the_gate_lives_in_the_same_record() {
    let stage = Stage::new();
    let image = shared_image(&stage.bed);
    let other = stage.bed.api.project_id("demo");
    let add = format!("image add project {image} {other}");
    stage.lives(
        "image_member",
        &format!("{image},{other}"),
        &add,
        2,
        Some(1),
    );
    stage.succeeds(&format!("image member list {image}"));

    let make = |collection, item, fields| stage.make(collection, item, fields);
    let router = make("routers", "router", json!({"name": stage.bed.name}));
    let network = make("networks", "network", json!({"name": "edge"}));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "192.0.2.0/24"});
    let subnet = make("subnets", "subnet", subnet);
    let add = format!("router add subnet {router} {subnet}");
    let id = format!("{router},{subnet}");
    stage.lives("router_interface", &id, &add, 1, Some(1));

    // What is there already is no fault to Neutron.
    let (to, hop) = ("198.51.100.0/24", "192.0.2.77");
    let add = format!("router add route {router} --route destination={to},gateway={hop}");
    let id = format!("{router},{to},{hop}");
    stage.lives("static_route", &id, &add, 1, Some(0));

    let port = || make("ports", "port", json!({ "network_id": network }));
    let (parent, child) = (port(), port());
    let trunk = make("trunks", "trunk", json!({ "port_id": parent }));
    let vlan = "segmentation-type=vlan,segmentation-id=7";
    let add = format!("network trunk set --subport port={child},{vlan} {trunk}");
    stage.lives("subport", &format!("{trunk},{child}"), &add, 1, Some(1));
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_m05_of_those_that_add_a_deleted_member_at_once_one_wins() {
    let stage = Stage::new();
    let (image, other) = (shared_image(&stage.bed), stage.bed.api.project_id("demo"));
    stage.succeeds(&format!("image add project {image} {other}"));
    let member = format!("image_member/{image},{other}@testbed/RegionOne");
    let delete = format!("delete {member} --yes --wait=2m");
    stage.bed.gone(&delete).ends_with(0);
    let url = format!("http://{}/v2/images/{image}/members", stage.gates[1]);
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
    let record = stage.record("image_member");
    assert_eq!(
        (&record["phase"], &record["incarnation"]),
        (&json!("released"), &json!(2))
    );
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i10_an_interface_that_was_made_anew_meanwhile_is_not_touched() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 1 --trunks 0 --fips 0");
    let proxy = Proxy::before(&bed.api);
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
    // Or its interface would be in use.
    bed.api.call(
        "PUT",
        &format!("routers/{router}"),
        json!({"router": {"routes": []}}),
    );
    let _engine = bed.engine("--cloud testbed");
    proxy.fail(Method::PUT, "remove_router_interface");
    let delete = format!("--cloud testbed delete network/{network} --cascade --yes -o json");
    let id = text(&bed.gone(&delete).ends_with(0).json()["id"]);
    wait_for("an attempt", || proxy.failed() > 0);
    for verb in ["remove", "add"] {
        let path = format!("routers/{router}/{verb}_router_interface");
        bed.api.call("PUT", &path, subnet.clone());
    }
    let new = interfaces().remove(0);
    assert_ne!(old["id"], new["id"]);
    proxy.recover();
    let state = || {
        let shown = bed.gone(&format!("--cloud testbed show {id} -o json"));
        shown.ends_with(0).json()["state"].clone()
    };
    // The network is in use by it: a newcomer, about which a person is asked.
    wait_for("the deletion to be stuck", || state() == "stuck");
    assert_eq!(interfaces()[0]["id"], new["id"]);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_m04_of_two_old_records_of_a_member_one_is_left_and_lives_on() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 1 --trunks 0 --fips 0");
    let image = shared_image(&bed);
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
    // One from another engine, which wrote ids in its own way; both have seen two lives.
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
    let stage = Stage::of(bed);
    let merged = stage.record("image_member");
    assert_eq!(
        (&merged["record_id"], &merged["incarnation"]),
        (&json!(oldest), &json!(4))
    );
    stage.succeeds(&format!("image add project {image} {other}"));
    let alive = stage.record("image_member");
    assert_eq!(
        (&alive["record_id"], &alive["phase"], &alive["incarnation"]),
        (&json!(oldest), &json!("released"), &json!(5))
    );
    stage.bed.gone("ledger check").ends_with(0);
}
