//! The gate's answers by phase and source, for real resources: each is held in its deletion by what is
//! in its way, and then let go, or called back.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, ChildGuard, wait_for};
use crate::gate::addresses;

const SOURCES: [&str; 3] = ["local", "user", "central"];

/// A resource, and the call that takes away what is in its way.
struct Sample {
    kind: &'static str,
    path: String,
    item: &'static str,
    frees: (&'static str, String, Value),
}

struct Stage<'b> {
    bed: &'b Bed,
    _engine: ChildGuard,
    /// By [`SOURCES`].
    gates: Vec<String>,
}

impl Sample {
    fn id(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }
}

/// GET and LIST, and DELETE, of [`SOURCES`]; an update, or a reference, of each.
struct Row {
    seen: [&'static str; 3],
    deleted: [&'static str; 3],
    updated: &'static str,
}

/// The cloud itself refuses a DELETE of what is in use.
const NONE: Row = Row {
    seen: ["pass", "pass", "pass"],
    deleted: ["in use", "in use", "in use"],
    updated: "pass",
};
const DELETING: Row = Row {
    seen: ["404", "deleting", "pass"],
    deleted: ["404", "204", "in use"],
    updated: "being deleted",
};
const GONE: Row = Row {
    seen: ["404", "404", "404"],
    deleted: ["404", "404", "404"],
    updated: "404",
};

impl<'b> Stage<'b> {
    fn new(bed: &'b Bed) -> Self {
        let gate = |source| {
            let trust = match source {
                "user" => "trust = { header = 'X-Region', from = ['127.0.0.0/8'] }\n",
                _ => "",
            };
            format!(
                "[[gate]]\nlisten = '127.0.0.1:0'\nsource = '{source}'\n{trust}upstream = {{ cloud = \
                 'testbed', region = 'RegionOne', service = 'network' }}\n"
            )
        };
        let text: String = SOURCES.map(gate).concat();
        bed.configure(&text);
        let engine = bed.engine("");
        wait_for("the gates", || addresses(bed).len() == SOURCES.len());
        let gates = addresses(bed).into_iter();
        Self {
            bed,
            _engine: engine,
            gates: gates.map(|gate| format!("http://{gate}/v2.0")).collect(),
        }
    }

    fn answer(&self, source: usize, method: &str, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}/{path}", self.gates[source]);
        self.bed.api.answer_at(method, &url, body)
    }

    fn seen(&self, source: usize, sample: &Sample) -> &'static str {
        let (status, answer) = self.answer(source, "GET", &sample.path, Value::Null);
        let seen = shown(status, &answer[sample.item]);
        let (collection, id) = sample.path.rsplit_once('/').unwrap();
        let by_id = format!("{collection}?id={id}");
        let (status, answer) = self.answer(source, "GET", &by_id, Value::Null);
        assert_eq!(status, 200, "{answer}");
        let rows = answer.as_object().unwrap().values().next().unwrap();
        let listed = rows.get(0).map_or("404", |row| shown(200, row));
        assert_eq!(seen, listed, "{by_id}");
        seen
    }

    fn check(&self, sample: &Sample, row: &Row, phase: &str) {
        for (source, name) in SOURCES.iter().enumerate() {
            let what = format!("{} as {name} while {phase}", sample.kind);
            assert_eq!(self.seen(source, sample), row.seen[source], "GET {what}");
            let (status, answer) = self.answer(source, "DELETE", &sample.path, Value::Null);
            let deleted = match status {
                204 => "204",
                404 => "404",
                // Subnet pools in use are a bad request.
                400 | 409 => "in use",
                other => panic!("DELETE {what}: {other} {answer}"),
            };
            assert_eq!(deleted, row.deleted[source], "DELETE {what}: {answer}");
            let same = json!({ sample.item: {} });
            let (status, answer) = self.answer(source, "PUT", &sample.path, same);
            let updated = match status {
                404 => "404",
                409 if answer["NeutronError"]["type"] == "ResourceBeingDeleted" => "being deleted",
                _ => "pass",
            };
            assert_eq!(updated, row.updated, "PUT {what}: {status} {answer}");
        }
    }

    /// By a header that the listener trusts, and one that it does not.
    fn check_headers(&self, sample: &Sample) {
        let url = format!("{}/{}", self.gates[1], sample.path);
        for (header, value, expected) in [
            ("x-region", "local", "404"),
            ("x-region", "central", "deleting"),
            ("x-gone-source", "local", "deleting"),
        ] {
            let (status, answer) = self.bed.api.get_with(&url, header, value);
            let seen = shown(status, &answer[sample.item]);
            assert_eq!(seen, expected, "{header}: {value}");
        }
    }

    /// What an inventory holds after one round of the example that synchronises it (I8).
    fn synced(&self) -> BTreeSet<String> {
        let database = self.bed.path("inventory.db");
        let output = Command::new("python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/assets/examples/sync_inventory.py"
            ))
            .env("OS_TOKEN", &self.bed.api.token)
            .args(["--site", "testbed/RegionOne", "--socket"])
            .arg(self.bed.path("state/gone/gone.sock"))
            .args([
                "--network",
                self.bed.api.network_url.trim_end_matches("/v2.0"),
            ])
            .arg("--database")
            .arg(&database)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let inventory = rusqlite::Connection::open(database).unwrap();
        let mut ids = inventory.prepare("SELECT id FROM inventory").unwrap();
        let ids = ids.query_map((), |row| row.get(0)).unwrap();
        ids.collect::<Result<_, _>>().unwrap()
    }

    /// To be deleted once nothing is in its way; its deletion.
    fn park(&self, sample: &Sample) -> String {
        let path = format!("{}?park=true", sample.path);
        let (status, answer) = self.answer(1, "DELETE", &path, Value::Null);
        assert_eq!(status, 202, "{path}: {answer}");
        text(&answer["deletion"]["id"])
    }

    /// In this state, and with no call under way.
    fn await_end(&self, id: &str, state: &str) {
        wait_for(&format!("{state} of {id}"), || {
            let shown = self.bed.gone(&format!("show {id} -o json")).ends_with(0);
            let shown = shown.json();
            shown["state"] == state && !shown["finished_at"].is_null()
        });
    }
}

fn shown(status: u16, row: &Value) -> &'static str {
    match status {
        200 if row["status"] == "DELETING" => "deleting",
        200 => "pass",
        404 => "404",
        other => panic!("{other} {row}"),
    }
}

/// One of each kind that can be in use, in the project of the bed.
fn samples(api: &Api, project: &str) -> Vec<Sample> {
    let make = |collection: &str, item: &str, mut fields: Value| {
        fields["project_id"] = json!(project);
        let made = api.call("POST", collection, json!({ item: fields }));
        text(&made[item]["id"])
    };
    let gone = |path: String| ("DELETE", path, Value::Null);
    let mut samples = Vec::new();
    let mut sample = |kind, path: String, item, frees| {
        samples.push(Sample {
            kind,
            path,
            item,
            frees,
        });
    };
    let network = |name: &str| make("networks", "network", json!({ "name": name }));
    let subnet = |network: &str| {
        let cidr = json!({"network_id": network, "ip_version": 4, "cidr": "192.0.2.0/24"});
        make("subnets", "subnet", cidr)
    };
    let port = |network: &str| make("ports", "port", json!({ "network_id": network }));

    let used = network("used");
    let held_by = port(&used);
    sample(
        "network",
        format!("networks/{used}"),
        "network",
        gone(format!("ports/{held_by}")),
    );

    let of_subnet = network("of-subnet");
    let used = subnet(&of_subnet);
    let held_by = port(&of_subnet);
    sample(
        "subnet",
        format!("subnets/{used}"),
        "subnet",
        gone(format!("ports/{held_by}")),
    );

    let of_trunk = network("of-trunk");
    let used = port(&of_trunk);
    let held_by = make("trunks", "trunk", json!({ "port_id": used }));
    sample(
        "port",
        format!("ports/{used}"),
        "port",
        gone(format!("trunks/{held_by}")),
    );

    let of_router = subnet(&network("of-router"));
    let used = make("routers", "router", json!({}));
    let edge = json!({ "subnet_id": of_router });
    api.call(
        "PUT",
        &format!("routers/{used}/add_router_interface"),
        edge.clone(),
    );
    let remove = format!("routers/{used}/remove_router_interface");
    sample(
        "router",
        format!("routers/{used}"),
        "router",
        ("PUT", remove, edge),
    );

    let used = make("security-groups", "security_group", json!({"name": "used"}));
    let of_group = network("of-group");
    let held_by = json!({"network_id": of_group, "security_groups": [used]});
    let held_by = make("ports", "port", held_by);
    let path = format!("security-groups/{used}");
    sample(
        "security_group",
        path,
        "security_group",
        gone(format!("ports/{held_by}")),
    );

    let used = make(
        "address-scopes",
        "address_scope",
        json!({"name": "used", "ip_version": 4}),
    );
    let pool =
        json!({"name": "in-scope", "prefixes": ["198.51.100.0/24"], "address_scope_id": used});
    let held_by = make("subnetpools", "subnetpool", pool);
    let path = format!("address-scopes/{used}");
    sample(
        "address_scope",
        path,
        "address_scope",
        gone(format!("subnetpools/{held_by}")),
    );

    let used = make("qos/policies", "policy", json!({"name": "used"}));
    let held_by = json!({"name": "with-policy", "qos_policy_id": used});
    let held_by = make("networks", "network", held_by);
    let path = format!("qos/policies/{used}");
    sample(
        "qos_policy",
        path,
        "policy",
        gone(format!("networks/{held_by}")),
    );
    samples
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_t04_t05_t06_t07_t11_t13_t16_t17_t18_i08_p08_the_table_holds_for_real_resources() {
    let shape = "--networks 1 --ports 0 --trunks 0 --fips 0";
    let bed = Bed::seeded("RegionOne", shape);
    let stage = Stage::new(&bed);
    let samples = samples(&bed.api, &bed.project);
    let mut parked = Vec::new();
    for sample in &samples {
        stage.check(sample, &NONE, "none");
        parked.push(stage.park(sample));
        stage.check(sample, &DELETING, "deleting");
        stage.check_headers(sample);
    }
    let inventory = stage.synced();
    assert!(inventory.contains(&bed.networks[0]));
    let shown = samples
        .iter()
        .filter(|sample| inventory.contains(sample.id()));
    assert_eq!(
        shown.count(),
        0,
        "what is being deleted is not synchronised"
    );
    for (number, (sample, id)) in samples.iter().zip(&parked).enumerate() {
        if number % 3 == 0 {
            bed.gone(&format!("cancel {id}")).ends_with(0);
            stage.await_end(id, "cancelled");
            stage.check(sample, &NONE, "released");
            // The inventory has these kinds, among others.
            if ["network", "router"].contains(&sample.kind) {
                assert!(stage.synced().contains(sample.id()), "{}", sample.kind);
            }
            continue;
        }
        let (method, path, body) = &sample.frees;
        let (status, answer) = bed.api.answer(method, path, body.clone());
        assert!(status < 300, "{method} {path}: {status} {answer}");
        bed.gone(&format!("retry {id}")).ends_with(0);
        stage.await_end(id, "gone");
        stage.check(sample, &GONE, "gone");
    }
}
