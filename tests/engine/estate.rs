//! A project that has something of every kind.

use std::collections::{BTreeMap, BTreeSet};

use super::harness::*;
use gone::domain::model::KindName;
use serde_json::json;

#[path = "../testbed/estate.rs"]
mod build;

use build::Estate;

impl Bench {
    /// Gives the project `demo` something of every kind, see [`Estate::furnish`]; with the project.
    pub fn furnish_demo(&self) -> BTreeMap<&'static str, String> {
        let outer = json!({ "name": "outer", "router:external": true });
        let outer = self.create("networks", outer);
        let addresses = json!({ "network_id": outer, "ip_version": 4, "cidr": "203.0.113.0/24" });
        self.create("subnets", addresses);
        let Estate(mut estate) =
            Estate::furnish(&self.demo_project(), &outer, &|method, path, body| {
                let (status, answer) = self.api(method, path, body);
                assert!(status < 300, "{method} {path}: {status} {answer}");
                answer
            });
        estate.insert("project", "demo".to_owned());
        estate
    }
}

#[test]
fn an_estate_has_every_kind_and_what_can_go_alone_does() {
    let parts = paused(async { Bench::new(1).furnish_demo().len() });
    let mut unmet: BTreeSet<KindName> = KINDS.iter().map(|kind| kind.name.clone()).collect();
    // What belongs to a project goes; it stays.
    unmet.remove(&KindName::new("project"));
    for at in 0..parts {
        paused(async {
            let bench = Bench::new(1);
            let (kind, word) = bench.furnish_demo().into_iter().nth(at).unwrap();
            let deletion = bench.run(async |client| {
                let id = client.delete(kind, &word).await;
                client.gone(&id).await;
                client.steps(&id).await
            });
            for step in deletion.await.unwrap() {
                unmet.remove(&step.resource.key.kind);
            }
        });
    }
    assert_eq!(unmet, BTreeSet::new());
}
