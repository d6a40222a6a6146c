//! The gate's answers by phase, source, verb and kind: the table of the promises (`assets/promises.md`).

use gone::domain::model::{KindName, Phase, PlanOptions};
use gone::ledger::tombstones::Changed;
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

const TABLE: [Row; 5] = [
    (
        None,
        ["pass", "pass", "pass"],
        ["pass", "pass", "pass"],
        "pass",
        "pass",
    ),
    (
        Some(Phase::Checking),
        ["pass", "pass", "pass"],
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
        ["404", "404", "404"],
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
    items: &'static str,
    /// The key of a single resource in an answer; empty if the answer is the resource itself.
    item: &'static str,
    /// The field that shows the state, and its value for a resource that is being deleted.
    shown: (&'static str, &'static str),
}

async fn samples(stage: &Stage) -> Vec<Sample> {
    let neutron = ("status", "DELETING");
    let octavia = ("provisioning_status", "PENDING_DELETE");
    let glance = ("status", "pending_delete");
    let mut samples = Vec::new();
    let network = stage
        .make(
            "network",
            "/v2.0/networks",
            json!({"network": {"name": "base"}}),
        )
        .await;
    let cidr = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}});
    let subnet = stage.make("network", "/v2.0/subnets", cidr).await;
    let port = stage
        .make(
            "network",
            "/v2.0/ports",
            json!({"port": {"network_id": network}}),
        )
        .await;
    let balancer = json!({"loadbalancer": {"name": "b", "vip_subnet_id": subnet}});
    for (service, kind, list, items, item, shown, body) in [
        (
            "network",
            "network",
            "/v2.0/networks",
            "networks",
            "network",
            neutron,
            json!({"name": "n"}),
        ),
        (
            "network",
            "subnet",
            "/v2.0/subnets",
            "subnets",
            "subnet",
            neutron,
            json!({"network_id": network, "ip_version": 4, "cidr": "10.8.0.0/24"}),
        ),
        (
            "network",
            "port",
            "/v2.0/ports",
            "ports",
            "port",
            neutron,
            json!({"network_id": network}),
        ),
        (
            "network",
            "router",
            "/v2.0/routers",
            "routers",
            "router",
            neutron,
            json!({"name": "r"}),
        ),
        (
            "network",
            "trunk",
            "/v2.0/trunks",
            "trunks",
            "trunk",
            neutron,
            json!({"port_id": port}),
        ),
        (
            "network",
            "security_group",
            "/v2.0/security-groups",
            "security_groups",
            "security_group",
            neutron,
            json!({"name": "g"}),
        ),
        (
            "network",
            "address_scope",
            "/v2.0/address-scopes",
            "address_scopes",
            "address_scope",
            neutron,
            json!({"name": "s", "ip_version": 4}),
        ),
        (
            "network",
            "subnet_pool",
            "/v2.0/subnetpools",
            "subnetpools",
            "subnetpool",
            neutron,
            json!({"name": "p", "prefixes": ["10.0.0.0/16"]}),
        ),
        (
            "network",
            "address_group",
            "/v2.0/address-groups",
            "address_groups",
            "address_group",
            neutron,
            json!({"name": "a", "addresses": ["10.0.0.0/24"]}),
        ),
        (
            "network",
            "qos_policy",
            "/v2.0/qos/policies",
            "policies",
            "policy",
            neutron,
            json!({"name": "q"}),
        ),
    ] {
        let id = stage.make(service, list, json!({ item: body })).await;
        samples.push(Sample {
            service,
            kind,
            id,
            list,
            items,
            item,
            shown,
        });
    }
    samples.push(Sample {
        service: "load-balancer",
        kind: "load_balancer",
        id: stage
            .make("load-balancer", "/v2.0/lbaas/loadbalancers", balancer)
            .await,
        list: "/v2.0/lbaas/loadbalancers",
        items: "loadbalancers",
        item: "loadbalancer",
        shown: octavia,
    });
    let (nova, cinder) = (
        ("OS-EXT-STS:task_state", "deleting"),
        ("status", "deleting"),
    );
    let flavor = json!({"flavor": {"name": "small", "ram": 1, "vcpus": 1, "disk": 1}});
    let flavor = stage.make("compute", "/flavors", flavor).await;
    let server = json!({"name": "s", "flavorRef": flavor, "networks": [{"uuid": network}]});
    let volume = json!({"volume": {"name": "v", "size": 1}});
    let volume = stage.make("volumev3", "/volumes", volume).await;
    let base = format!("/volumes/{volume}");
    until("the volume is available", async || {
        let shown = format!("{}{base}", stage.upstream("volumev3"));
        let shown = stage.send(Method::GET, &shown, &stage.admin, None).await;
        shown.json()["volume"]["status"] == "available"
    })
    .await;
    for (service, kind, list, items, item, shown, body) in [
        (
            "compute",
            "server",
            "/servers/detail",
            "servers",
            "server",
            nova,
            server,
        ),
        (
            "volumev3",
            "volume",
            "/volumes/detail",
            "volumes",
            "volume",
            cinder,
            json!({"name": "other", "size": 1}),
        ),
        (
            "volumev3",
            "volume_snapshot",
            "/snapshots/detail",
            "snapshots",
            "snapshot",
            cinder,
            json!({"volume_id": volume}),
        ),
    ] {
        let path = list.trim_end_matches("/detail");
        let id = stage.make(service, path, json!({ item: body })).await;
        samples.push(Sample {
            service,
            kind,
            id,
            list,
            items,
            item,
            shown,
        });
    }
    samples.push(Sample {
        service: "image",
        kind: "image",
        id: stage
            .make("image", "/v2/images", json!({"name": "i"}))
            .await,
        list: "/v2/images",
        items: "images",
        item: "",
        shown: glance,
    });
    samples
}

impl Sample {
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
                let row = match self.item {
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
        let mut rows = json[self.items].as_array().unwrap().iter();
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
            _ => (Method::PUT, json!({ self.item: {} })),
        };
        let at = (source, self.service);
        let answer = stage.call(at, method, &self.path(), Some(body)).await;
        verdict(&answer)
    }

    async fn copy(&self, stage: &Stage, source: GateSource) -> &'static str {
        let tags = json!([format!("gone:copy-of={}", self.id)]);
        let body = match self.item {
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
    assert_eq!(
        stage.phase(sample.kind, &sample.id),
        phase,
        "{}",
        sample.kind
    );
    let at = |verb: &str, source| format!("{verb} {} as {source:?} while {phase:?}", sample.kind);
    let by_id = format!("?id={}", sample.id);
    let [user, local, central] = SOURCES;
    for (source, expected) in [local, user, central].into_iter().zip(reads) {
        assert_eq!(
            sample.get(stage, source).await,
            expected,
            "{}",
            at("GET", source)
        );
        // Nova and Cinder have no filter by id.
        let filters = sample.list == sample.collection();
        let by_id = if filters { by_id.as_str() } else { "" };
        for query in ["", by_id, "?limit=1000"] {
            let listed = sample.listed(stage, source, query).await;
            assert_eq!(listed, expected, "{} {query}", at("LIST", source));
        }
    }
    for (source, expected) in [user, local, central].into_iter().zip(deletes) {
        assert_eq!(
            sample.delete(stage, source).await,
            expected,
            "{}",
            at("DELETE", source)
        );
        // The DELETE has not changed the phase.
        assert_eq!(
            stage.phase(sample.kind, &sample.id),
            phase,
            "{}",
            sample.kind
        );
    }
    for source in SOURCES {
        assert_eq!(
            sample.update(stage, source).await,
            refer,
            "{}",
            at("PUT", source)
        );
    }
    for source in [local, central] {
        assert_eq!(
            sample.copy(stage, source).await,
            copy,
            "{}",
            at("copy", source)
        );
    }
}

/// Sets the phase in the gates' copy of the tombstones, as a commit of the ledger does.
fn set_phase(stage: &Stage, sample: &Sample, phase: Option<Phase>) {
    stage.tombstones.apply([Changed {
        site: site(),
        kind: KindName::new(sample.kind),
        id: sample.id.clone(),
        phase,
    }]);
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
            set_phase(&stage, sample, Some(phase));
            check(&stage, sample, row).await;
        }
        set_phase(&stage, sample, None);
        check(&stage, sample, 0).await;
        assert_eq!(stage.deletion(&deletion).await.counts.gone, 0);
    }
}
