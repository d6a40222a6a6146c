//! A project that has a resource of every kind of Neutron, Octavia and Glance that the practice cloud offers.

use std::collections::{BTreeMap, BTreeSet};

use super::harness::*;
use gone::domain::kinds::Kind;
use gone::domain::model::KindName;
use serde_json::Value;

#[path = "../testbed/estate.rs"]
mod build;

use build::{Estate, Outer};

impl Bench {
    /// Gives the project `demo` a resource of every kind (see [`Estate::furnish`]). Returns the id of one
    /// resource of each kind, by kind; for the kind `project`, the name.
    pub fn furnish_demo(&self) -> BTreeMap<&'static str, String> {
        let send = |method: &str, path: &str, body: Value| self.call_ok(method, path, body);
        let outer = Outer::make(&send);
        let Estate(mut estate) = Estate::furnish(&self.demo_project(), &outer, &send);
        estate.insert("project", "demo".to_owned());
        estate
    }
}

#[test]
fn the_estate_has_every_kind_and_each_of_its_resources_can_be_deleted() {
    let parts = paused(async { Bench::new(1).furnish_demo().len() });
    // Checks only kinds that the practice cloud offers, which lacks some extensions of Neutron. Servers and volumes
    // have tests of their own.
    let loaded = paused(async {
        let (_, answer) = Bench::new(1).api("GET", "/v2.0/extensions", Value::Null);
        answer.to_string()
    });
    let is_there = |kind: &&Kind| {
        let needed = kind.calls.extension();
        let estate = ["network", "load-balancer", "image", "identity"];
        let is_here = estate.contains(&kind.service.as_str());
        is_here && needed.is_none_or(|needed| loaded.contains(&format!("\"alias\":\"{needed}\"")))
    };
    let there = KINDS.iter().filter(is_there);
    let mut unmet: BTreeSet<KindName> = there.map(|kind| kind.name.clone()).collect();
    // The resources of a project are deleted, and the project itself stays.
    unmet.remove(&KindName::new("project"));
    for at in 0..parts {
        paused(async {
            let bench = Bench::new(1);
            let (kind, id_or_name) = bench.furnish_demo().into_iter().nth(at).unwrap();
            let deletion = bench.run(async |client| {
                let id = client.delete_until_gone(kind, &id_or_name).await.id;
                client.steps(&id).await
            });
            for step in deletion.await.unwrap() {
                unmet.remove(&step.resource.key.kind);
            }
        });
    }
    assert_eq!(unmet, BTreeSet::new());
}
