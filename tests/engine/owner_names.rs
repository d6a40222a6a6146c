//! Names of projects and resources in refusals and explanations. gone requests them seldom, and waits only briefly for
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use gone::domain::model::{Deletion, Phase, RefusalRule};
use serde_json::json;

use super::harness::{Bench, Client, assert_contains, with_engine};

impl Bench {
    /// Returns the paths and statuses of the calls about projects.
    fn project_requests(&self) -> Vec<(String, Option<u16>)> {
        let sent = self.sent().into_iter();
        let about = sent.filter(|sent| sent.path.starts_with("/v3/projects"));
        about.map(|sent| (sent.path, sent.status)).collect()
    }

    /// Associates `count` floating IPs of the project `demo` with new ports of a network.
    fn hang_floating_ips(&self, network: &str, count: usize) {
        let demo = self.demo_project();
        for _ in 0..count {
            let port = self.create("ports", json!({ "network_id": network }));
            self.add_floating_ip(&port, &demo);
        }
    }
}

/// Returns the owners (id and name) of the blockers of other projects, and the reason of the first refusal
/// because of such a blocker.
fn owners_and_reason(deletion: &Deletion) -> (Vec<(String, String)>, String) {
    let others = || {
        let refused = deletion.refused.iter();
        refused.filter(|refusal| refusal.rule == RefusalRule::OtherProject)
    };
    let blockers = others().filter_map(|refusal| refusal.blocker.clone());
    let owners = blockers.map(|blocker| (blocker.owner, blocker.owner_name));
    let reason = others().next().map(|refusal| refusal.reason.clone());
    (owners.collect(), reason.unwrap_or_default())
}

/// Requests the deletion of a network, which must be refused. Returns the refused deletion.
async fn refused_deletion(client: &Client, network: &str) -> Deletion {
    let id = client.delete("network", network).await;
    client.until_refused(&id).await
}

#[tokio::test(start_paused = true)]
async fn p02_n14_project_names_are_listed_once_an_hour_for_many_blockers_and_deletions() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let demo = bench.demo_project();
    bench.hang_floating_ips(&shop.network, 5);
    with_engine(&bench, async |client| {
        for _ in 0..3 {
            let deletion = refused_deletion(&client, &shop.network).await;
            let (owners, reason) = owners_and_reason(&deletion);
            assert_eq!(owners, vec![(demo.clone(), "demo".to_owned()); 5]);
            assert_contains(&reason, "belongs to project demo, not");
            assert_contains(&deletion.note, "project demo");
        }
        let plan = client.plan("network", &shop.network).await;
        let named = plan.refused.iter().filter_map(|one| one.blocker.as_ref());
        assert!(named.clone().count() > 0);
        for blocker in named {
            assert_eq!(blocker.owner_name, "demo");
        }
        let explanation = client.explain("network", &shop.network).await;
        let lines = explanation.lines.join("\n");
        assert_contains(&lines, "belongs to project demo, not");
        // After an hour the names are requested again, since projects may have been renamed.
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        refused_deletion(&client, &shop.network).await;
    })
    .await;
    let listing = ("/v3/projects?limit=1000".to_owned(), Some(200));
    assert_eq!(bench.project_requests(), [listing.clone(), listing]);
    assert_eq!(bench.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn n14_project_names_are_not_requested_without_a_blocker_of_another_project() {
    let bench = Bench::new(1);
    let shop = bench.shop(3);
    let demo = bench.demo_project();
    let theirs = bench.create("networks", json!({ "project_id": demo }));
    bench.create("ports", json!({ "network_id": theirs, "project_id": demo }));
    with_engine(&bench, async |client| {
        // The deletion is refused because of the network's own ports, since it does not cascade. The login knows the
        // name of its own project.
        let options = gone::domain::model::PlanOptions::default();
        let id = client.delete_with("network", &shop.network, options).await;
        let deletion = client.until_refused(&id).await;
        let blockers = deletion
            .refused
            .iter()
            .filter_map(|one| one.blocker.as_ref());
        assert!(
            blockers
                .clone()
                .any(|blocker| blocker.owner_name == "admin")
        );
        // This deletion is refused because of the network's own port, too. The port belongs to the project of the
        // target, so no name is requested.
        let id = client.delete_with("network", &theirs, options).await;
        let blockers = client.until_refused(&id).await.refused.into_iter();
        let blockers = blockers.filter_map(|one| one.blocker);
        let owners: Vec<String> = blockers.map(|blocker| blocker.owner).collect();
        assert_eq!(owners, [demo]);
        client.delete_until_gone("network", &shop.network).await;
    })
    .await;
    assert_eq!(bench.project_requests(), []);
}

#[tokio::test(start_paused = true)]
async fn p02_a_login_that_may_not_list_projects_gets_their_ids() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let demo = bench.demo_project();
    bench.hang_floating_ips(&shop.network, 5);
    bench.faults(json!([{ "match": { "path": "/v3/projects" }, "action": { "status": 403 } }]));
    with_engine(&bench, async |client| {
        for _ in 0..3 {
            let (owners, reason) =
                owners_and_reason(&refused_deletion(&client, &shop.network).await);
            assert_eq!(owners, vec![(demo.clone(), String::new()); 5]);
            let words = format!("belongs to project {demo}, not");
            assert_contains(&reason, &words);
        }
    })
    .await;
    let listing = ("/v3/projects?limit=1000".to_owned(), Some(403));
    let by_id = (format!("/v3/projects/{demo}"), Some(403));
    assert_eq!(bench.project_requests(), [listing, by_id]);
}

#[tokio::test(start_paused = true)]
async fn i12_a_hanging_keystone_delays_one_refusal_briefly_and_no_deletion() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let demo = bench.demo_project();
    bench.hang_floating_ips(&shop.network, 1);
    bench.faults(json!([
        { "match": { "path": "/v3/projects" }, "action": { "hang": true } },
        { "match": { "method": "DELETE", "kind": "port" }, "times": 1, "action": { "status": 409, "type": "PortInUse", "message": "in use" } },
    ]));
    let free = bench.rows("ports");
    let free = free
        .iter()
        .find(|port| port["network_id"] == shop.others[0] && port["device_owner"] == "");
    with_engine(&bench, async |client| {
        for limit_ms in [3_500, 500] {
            let began = bench.clock.now();
            let (owners, _) = owners_and_reason(&refused_deletion(&client, &shop.network).await);
            assert_eq!(owners, [(demo.clone(), String::new())]);
            let took = bench.clock.now() - began;
            assert!(took < TimeDelta::milliseconds(limit_ms), "{took}");
        }
        // A step that the cloud refuses does not wait for names either.
        let port = free.unwrap()["id"].as_str().unwrap();
        let began = bench.clock.now();
        let id = client.delete("port", port).await;
        client.until_blocked(&id, "port").await;
        let took = bench.clock.now() - began;
        assert!(took < TimeDelta::milliseconds(500), "{took}");
        client.until_gone(&id).await;
    })
    .await;
    let hung = ("/v3/projects?limit=1000".to_owned(), None);
    assert_eq!(bench.project_requests(), [hung]);
}

#[tokio::test(start_paused = true)]
async fn p02_an_explanation_waits_for_names_for_less_than_ten_seconds() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let port = bench.create("ports", json!({ "network_id": shop.network }));
    let reads = json!({ "method": "GET", "kind": "security_group" });
    bench.faults(json!([{ "match": reads, "action": { "hang": true } }]));
    let relations = with_engine(&bench, async |client| {
        let began = tokio::time::Instant::now();
        let explanation = client.explain("port", &port).await;
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        explanation.relations
    })
    .await;
    let others = relations.into_iter().filter_map(|it| it.resource);
    let groups: Vec<String> = others
        .filter(|it| it.key.kind.as_str() == "security_group")
        .map(|it| it.name)
        .collect();
    assert_eq!(groups, [""], "the group is not listed once, without a name");
}

#[tokio::test(start_paused = true)]
async fn an_explanation_names_the_network_and_the_project_of_a_port() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let demo = bench.demo_project();
    let fields = json!({ "network_id": shop.network, "project_id": demo });
    let port = bench.create("ports", fields);
    let named = with_engine(&bench, async |client| {
        let explanation = client.explain("port", &port).await;
        let others = explanation.relations.into_iter();
        let others = others.filter_map(|relation| relation.resource);
        others
            .map(|other| (other.key.kind.to_string(), other.name))
            .collect::<BTreeMap<_, _>>()
    })
    .await;
    let networks = bench.rows("networks");
    let network = networks.iter().find(|row| row["id"] == *shop.network);
    assert_eq!(named["network"], network.unwrap()["name"].as_str().unwrap());
    assert_eq!(named["project"], "demo");
}

#[tokio::test(start_paused = true)]
async fn a_gone_resource_is_explained_by_the_name_of_its_step() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("network", &network).await.id;
        let name = client.step(&id, "network").await.resource.name;
        let explained = client.explain("network", &name).await;
        assert_eq!(explained.target.key.id, network);
        assert_eq!(explained.target.name, name);
        assert_eq!(explained.tombstone.unwrap().phase, Phase::Gone);
    })
    .await;
}
