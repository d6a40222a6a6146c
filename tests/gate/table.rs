//! The gate's answers by phase, source, verb and kind: the table of the promises (`assets/promises.md`).

use gone::domain::model::{Phase, PlanOptions};
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{SOURCES, Stage, site, until};

/// A row of the table: the phase; the answers to GET and LIST from local, user and central; the answers to DELETE from
/// user, local and central; the answer to an update; the answer to a create of a copy from a local or central site.
type Row = (
    Option<Phase>,
    [&'static str; 3],
    [&'static str; 3],
    &'static str,
    &'static str,
);

const PASS: [&str; 3] = ["pass"; 3];

const TABLE: [Row; 5] = [
    (None, PASS, PASS, "pass", "pass"),
    (
        Some(Phase::Checking),
        PASS,
        ["202", "pass", "pass"],
        "409",
        "409",
    ),
    (
        Some(Phase::Deleting),
        ["404", "deleting", "pass"],
        ["204", "404", "pass"],
        "409",
        "409",
    ),
    (
        Some(Phase::Gone),
        ["404"; 3],
        ["404", "404", "pass"],
        "404",
        "409",
    ),
    (
        Some(Phase::Purged),
        ["404", "pass", "pass"],
        ["pass", "404", "pass"],
        "pass",
        "409",
    ),
];

/// One resource of a kind, and how it is read and listed.
struct Sample {
    service: &'static str,
    kind: &'static str,
    id: String,
    list: &'static str,
    /// The field that shows the state, and its value for a resource that is being deleted.
    shown: (&'static str, &'static str),
}

async fn samples(stage: &Stage) -> Vec<Sample> {
    let neutron = ("status", "DELETING");
    let octavia = ("provisioning_status", "PENDING_DELETE");
    let glance = ("status", "pending_delete");
    let network = stage.network("base").await;
    let cidr = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}});
    let subnet = stage.make("network", "/v2.0/subnets", cidr).await;
    let port = json!({"port": {"network_id": network}});
    let port = stage.make("network", "/v2.0/ports", port).await;
    let mut samples = Vec::new();
    let mut add = async |service, kind, list, shown, body| {
        samples.push(Sample::make(stage, (service, kind), list, shown, body).await);
    };
    for (kind, list, body) in [
        ("network", "/v2.0/networks", json!({"name": "n"})),
        (
            "subnet",
            "/v2.0/subnets",
            json!({"network_id": network, "ip_version": 4, "cidr": "10.8.0.0/24"}),
        ),
        ("port", "/v2.0/ports", json!({"network_id": network})),
        ("router", "/v2.0/routers", json!({"name": "r"})),
        ("trunk", "/v2.0/trunks", json!({"port_id": port})),
        (
            "security_group",
            "/v2.0/security-groups",
            json!({"name": "g"}),
        ),
        (
            "address_scope",
            "/v2.0/address-scopes",
            json!({"name": "s", "ip_version": 4}),
        ),
        (
            "subnet_pool",
            "/v2.0/subnetpools",
            json!({"name": "p", "prefixes": ["10.0.0.0/16"]}),
        ),
        (
            "address_group",
            "/v2.0/address-groups",
            json!({"name": "a", "addresses": ["10.0.0.0/24"]}),
        ),
        ("qos_policy", "/v2.0/qos/policies", json!({"name": "q"})),
    ] {
        add("network", kind, list, neutron, body).await;
    }
    let balancer = json!({"name": "b", "vip_subnet_id": subnet});
    let balancers = "/v2.0/lbaas/loadbalancers";
    add(
        "load-balancer",
        "load_balancer",
        balancers,
        octavia,
        balancer,
    )
    .await;
    let nova = ("OS-EXT-STS:task_state", "deleting");
    let cinder = ("status", "deleting");
    let flavor = json!({"flavor": {"name": "small", "ram": 1, "vcpus": 1, "disk": 1}});
    let flavor = stage.make("compute", "/flavors", flavor).await;
    let server = json!({"name": "s", "flavorRef": flavor, "networks": [{"uuid": network}]});
    let volume = json!({"volume": {"name": "v", "size": 1}});
    let volume = stage.make("volumev3", "/volumes", volume).await;
    until("the volume is available", async || {
        let shown = format!("{}/volumes/{volume}", stage.upstream("volumev3"));
        let shown = stage.send(Method::GET, &shown, &stage.admin, None).await;
        shown.json()["volume"]["status"] == "available"
    })
    .await;
    add("compute", "server", "/servers/detail", nova, server).await;
    let other = json!({"name": "other", "size": 1});
    add("volumev3", "volume", "/volumes/detail", cinder, other).await;
    let snapshot = json!({"volume_id": volume});
    add(
        "volumev3",
        "volume_snapshot",
        "/snapshots/detail",
        cinder,
        snapshot,
    )
    .await;
    add("image", "image", "/v2/images", glance, json!({"name": "i"})).await;
    samples
}

impl Sample {
    /// Creates a resource of a kind.
    async fn make(
        stage: &Stage,
        (service, kind): (&'static str, &'static str),
        list: &'static str,
        shown: (&'static str, &'static str),
        body: Value,
    ) -> Self {
        let mut sample = Self {
            service,
            kind,
            id: String::new(),
            list,
            shown,
        };
        let body = match sample.item() {
            "" => body,
            item => json!({ item: body }),
        };
        sample.id = stage.make(service, sample.collection(), body).await;
        sample
    }

    /// The key of a single resource in an answer; empty if the answer is the resource itself.
    fn item(&self) -> &'static str {
        match self.kind {
            "subnet_pool" => "subnetpool",
            "qos_policy" => "policy",
            "load_balancer" => "loadbalancer",
            "volume_snapshot" => "snapshot",
            "image" => "",
            kind => kind,
        }
    }

    /// The key of the rows of a list.
    fn items(&self) -> String {
        let (_, items) = self.collection().rsplit_once('/').unwrap();
        items.replace('-', "_")
    }

    /// The path at which resources of the kind are created, and below which each is read.
    fn collection(&self) -> &'static str {
        self.list.trim_end_matches("/detail")
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.id)
    }

    /// `deleting` if the row shows this state, otherwise `pass`.
    fn state(&self, row: &Value) -> &'static str {
        let (field, deleting) = self.shown;
        match row[field] == deleting {
            true => "deleting",
            false => "pass",
        }
    }

    async fn get(&self, stage: &Stage, source: GateSource) -> &'static str {
        let answer = stage
            .call((source, self.service), Method::GET, &self.path(), None)
            .await;
        match answer.status {
            200 => {
                let json = answer.json();
                let row = match self.item() {
                    "" => &json,
                    item => &json[item],
                };
                assert_eq!(row["id"], json!(self.id));
                self.state(row)
            }
            404 => "404",
            other => panic!("GET {}: {other} {}", self.path(), answer.text),
        }
    }

    async fn listed(&self, stage: &Stage, source: GateSource, query: &str) -> &'static str {
        let path = format!("{}{query}", self.list);
        let answer = stage
            .call((source, self.service), Method::GET, &path, None)
            .await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        let json = answer.json();
        let mut rows = json[self.items()].as_array().unwrap().iter();
        match rows.find(|row| row["id"] == json!(self.id)) {
            Some(row) => self.state(row),
            None => "404",
        }
    }

    async fn delete(&self, stage: &Stage, source: GateSource) -> &'static str {
        let answer = stage
            .call((source, self.service), Method::DELETE, &self.path(), None)
            .await;
        match answer.status {
            409 if answer.text.contains(FAULT_MESSAGE) => "pass",
            202 => "202",
            204 => "204",
            404 => "404",
            other => panic!("DELETE {}: {other} {}", self.path(), answer.text),
        }
    }

    async fn update(&self, stage: &Stage, source: GateSource) -> &'static str {
        let (method, body) = match self.service {
            "image" => (Method::PATCH, json!([])),
            _ => (Method::PUT, json!({ self.item(): {} })),
        };
        let at = (source, self.service);
        let answer = stage.call(at, method, &self.path(), Some(body)).await;
        verdict(&answer)
    }

    async fn copy(&self, stage: &Stage, source: GateSource) -> &'static str {
        let tags = json!([format!("gone:copy-of={}", self.id)]);
        let body = match self.item() {
            "" => json!({ "name": "copy", "tags": tags }),
            // The unknown field makes the service refuse the create.
            item => json!({ item: { "tags": tags, "unknown": true } }),
        };
        let at = (source, self.service);
        let answer = stage
            .call(at, Method::POST, self.collection(), Some(body))
            .await;
        verdict(&answer)
    }
}

/// The gate's answer to a write; `pass` if it forwarded the write.
fn verdict(answer: &crate::support::Answer) -> &'static str {
    match answer.status {
        409 if answer.text.contains("deleted, by deletion") => "409",
        404 => "404",
        _ => "pass",
    }
}

/// The message with which the services refuse every delete.
const FAULT_MESSAGE: &str = "held by the test";

async fn check(stage: &Stage, sample: &Sample, row: usize) {
    let (phase, reads, deletes, refer, copy) = TABLE[row];
    let kind = sample.kind;
    assert_eq!(stage.phase(kind, &sample.id), phase, "{kind}");
    let at = |verb: &str, source| format!("{verb} {kind} as {source:?} while {phase:?}");
    let by_id = format!("?id={}", sample.id);
    let [user, local, central] = SOURCES;
    for (source, expected) in [local, user, central].into_iter().zip(reads) {
        let answer = sample.get(stage, source).await;
        assert_eq!(answer, expected, "{}", at("GET", source));
        // Nova and Cinder have no filter by id.
        let filters = sample.list == sample.collection();
        let by_id = if filters { by_id.as_str() } else { "" };
        for query in ["", by_id, "?limit=1000"] {
            let listed = sample.listed(stage, source, query).await;
            assert_eq!(listed, expected, "{} {query}", at("LIST", source));
        }
    }
    for (source, expected) in [user, local, central].into_iter().zip(deletes) {
        let answer = sample.delete(stage, source).await;
        assert_eq!(answer, expected, "{}", at("DELETE", source));
        // The DELETE has not changed the phase.
        assert_eq!(stage.phase(kind, &sample.id), phase, "{kind}");
    }
    for source in SOURCES {
        let answer = sample.update(stage, source).await;
        assert_eq!(answer, refer, "{}", at("PUT", source));
    }
    for source in [local, central] {
        let answer = sample.copy(stage, source).await;
        assert_eq!(answer, copy, "{}", at("copy", source));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t05_t06_t07_t11_t13_t16_t17_i08_the_gate_answers_as_the_table_says_for_each_sampled_kind()
{
    let stage = Stage::new().await;
    let samples = samples(&stage).await;
    let failing = json!([{"match": {"method": "DELETE"}, "action": {"status": 409, "type": "Held", "message": FAULT_MESSAGE}}]);
    stage.faults(failing).await;
    for sample in &samples {
        check(&stage, sample, 0).await;
        // Planning waits until this write has ended, so that the phase stays `checking`.
        let write = stage.tombstones.begin_write(&site());
        let deletion = stage
            .delete(sample.kind, &sample.id, PlanOptions::default())
            .await;
        check(&stage, sample, 1).await;
        drop(write);
        stage
            .until_phase(sample.kind, &sample.id, Some(Phase::Deleting))
            .await;
        check(&stage, sample, 2).await;
        // The resource still exists, so only the gate can hide it.
        for (row, phase) in [(3, Phase::Gone), (4, Phase::Purged)] {
            stage.set_phase(sample.kind, &sample.id, Some(phase));
            check(&stage, sample, row).await;
        }
        stage.set_phase(sample.kind, &sample.id, None);
        check(&stage, sample, 0).await;
        assert_eq!(stage.deletion(&deletion).await.counts.gone, 0);
    }
}
