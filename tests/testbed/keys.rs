//! Natural keys on a real Glance and Neutron: what is added again through the gate lives on in its record.

use serde_json::{Value, json};

use crate::api::text;
use crate::bed::{Bed, Ended};
use crate::gate::{behind_gates, engine_with_gates, openstack};

struct Stage {
    bed: Bed,
    _engine: Ended,
    gated: std::path::PathBuf,
}

impl Stage {
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
    /// incarnation.
    fn lives(&self, kind: &str, id: &str, add: &str, times: u32) {
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
            assert_eq!(code, Some(1), "{error}");
            assert_eq!(self.record(kind), alive);
        }
    }
}

#[test]
fn testbed_m01_m02_m03_what_is_added_again_through_the_gate_lives_in_the_same_record() {
    let shape = "--networks 1 --ports 1 --trunks 0 --fips 0";
    let Some(bed) = Bed::seeded("RegionOne", shape) else {
        return;
    };
    let (engine, gates) = engine_with_gates(&bed);
    let stage = Stage {
        gated: behind_gates(&bed, &gates),
        _engine: engine,
        bed,
    };
    let (bed, project) = (&stage.bed, &stage.bed.project);

    let image = json!({"name": bed.name, "visibility": "shared", "owner": project});
    let image = text(&bed.api.call_any("POST", "/v2/images", image)["id"]);
    let other = bed.api.project_id("demo");
    let add = format!("image add project {image} {other}");
    stage.lives("image_member", &format!("{image},{other}"), &add, 2);
    stage.succeeds(&format!("image member list {image}"));

    let make = |collection: &str, item: &str, mut fields: Value| {
        fields["project_id"] = json!(project);
        let made = bed.api.call("POST", collection, json!({ item: fields }));
        text(&made[item]["id"])
    };
    let router = make("routers", "router", json!({"name": bed.name}));
    let network = make("networks", "network", json!({"name": "edge"}));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "192.0.2.0/24"});
    let subnet = make("subnets", "subnet", subnet);
    let add = format!("router add subnet {router} {subnet}");
    stage.lives("router_interface", &format!("{router},{subnet}"), &add, 1);
}
