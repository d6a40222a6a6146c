//! The sweep: re-created resources are deleted again, or a person decides. Pruning after the retention.

use std::time::Duration;

use super::harness::*;
use chrono::TimeDelta;
use gone::control::{Command, Query, Receipt, query};
use gone::domain::model::{DeletionState, ErrorClass, EventKind, Origin, Phase, StepState};
use gone::sandbox::WorldOptions;
use serde_json::json;

/// Returns a fault by which the cloud re-creates a network five seconds after its delete.
fn re_create_after_delete(times: u64) -> serde_json::Value {
    json!([{ "match": { "method": "DELETE", "kind": "network" }, "times": times, "action": { "recreate_after_ms": 5000 } }])
}

#[tokio::test(start_paused = true)]
async fn t14_m01_m03_a_re_created_resource_is_removed_under_the_same_record() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(1);
    bench.faults(re_create_after_delete(2));
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &network).await;
        let first = client.tombstone(&network).await.unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(!bench.exists("networks", &network));
        let all = client.deletions(Vec::new(), None).await;
        assert_eq!(all.len(), 3, "{all:#?}");
        assert!(
            all.iter()
                .all(|deletion| deletion.state == DeletionState::Gone)
        );
        let again = all
            .iter()
            .filter(|deletion| deletion.requested_by.origin == Origin::Engine);
        let mut reasons: Vec<&str> = again.map(|deletion| deletion.reason.as_str()).collect();
        reasons.sort_unstable();
        assert_eq!(reasons, ["re-created 1 time", "re-created 2 times"]);
        let last = client.tombstone(&network).await.unwrap();
        assert_eq!(last.record_id, first.record_id);
        assert_eq!((last.phase, last.recreated), (Phase::Gone, 2));
        assert!(last.incarnation > first.incarnation);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t14_a_resource_re_created_more_often_than_allowed_is_stuck_with_that_reason() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(0);
    bench.faults(re_create_after_delete(100));
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &network).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let stuck = client.deletions(vec![DeletionState::Stuck], None).await;
        assert_eq!(stuck.len(), 1);
        let step = client.step(&stuck[0].id, "network").await;
        let error = step.last_error.unwrap();
        assert_eq!(
            (error.kind.as_str(), error.class),
            ("Recreated", ErrorClass::Drift)
        );
        assert_contains(&error.message, "re-created 4 times");
        let tombstone = client.tombstone(&network).await.unwrap();
        assert_eq!(tombstone.phase, Phase::Deleting);
        // No further delete is sent until a person decides.
        assert_eq!(bench.writes_to(&network).len(), 4);
        bench.faults(json!([]));
        client.retry(&stuck[0].id).await;
        client.until_gone(&stuck[0].id).await;
    })
    .await;
    assert!(!bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn t14_a_copy_under_another_id_is_not_swept() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(0);
    bench.faults(json!([{ "match": { "method": "DELETE", "kind": "network" }, "times": 1, "action": { "recreate_after_ms": 5000, "as": "new" } }]));
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &network).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(client.deletions(Vec::new(), None).await.len(), 1);
    })
    .await;
    assert_eq!(bench.ids("networks").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn t14_the_sweep_ends_with_the_hold_down() {
    let mut bench = Bench::new(1);
    bench.settings.ledger.hold_down = Duration::from_secs(3600);
    let (network, _) = bench.plain_network(0);
    bench.faults(json!([{ "match": { "method": "DELETE", "kind": "network" }, "times": 1, "action": { "recreate_after_ms": 4_000_000 } }]));
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &network).await;
        tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
        let lines = client.timeline(None, None).await;
        assert!(lines.iter().all(|line| line.kind != EventKind::Recreated));
    })
    .await;
    assert!(bench.exists("networks", &network));
}

/// The engine prunes every hour, and when a person asks. Deletions in their hold-down are always kept.
#[tokio::test(start_paused = true)]
async fn m01_p06_deletions_that_ended_longer_ago_than_the_retention_are_pruned() {
    let mut bench = Bench::new(1);
    let hour = Duration::from_secs(3600);
    bench.settings.ledger.hold_down = 2 * hour;
    bench.settings.ledger.retention = 4 * hour;
    let networks = [(); 4].map(|()| bench.plain_network(2).0);
    let now = bench.clock.clone();
    with_engine(&bench, async |client| {
        let delete = async |network: &str| {
            let id = client.delete("network", network).await;
            client.until_gone(&id).await.id
        };
        let is_kept = async |id: &str| {
            let found = client
                .control
                .query(Query::Deletion(query::Deletion { id: id.to_owned() }))
                .await;
            found.is_ok()
        };
        let prune = async || {
            let before = Some(now.now());
            match client.submit(Command::Prune { before }).await.unwrap() {
                Receipt::Done { moved } => moved,
                other => panic!("{other:?}"),
            }
        };
        let first = delete(&networks[0]).await;
        let second = delete(&networks[1]).await;
        tokio::time::sleep(hour).await;
        assert_eq!(prune().await, 0, "a deletion in its hold-down was pruned");
        tokio::time::sleep(2 * hour).await;
        let third = delete(&networks[2]).await;
        assert!(
            is_kept(&first).await && is_kept(&second).await,
            "a deletion was pruned within its retention"
        );
        assert!(prune().await > 0);
        assert!(!is_kept(&first).await && !is_kept(&second).await);
        tokio::time::sleep(hour).await;
        let fourth = delete(&networks[3]).await;
        tokio::time::sleep(4 * hour).await;
        assert!(!is_kept(&third).await && is_kept(&fourth).await);
    })
    .await;
    let audit = bench.ledger().audit(0, 500).await.unwrap();
    let pruned = audit.iter().filter(|row| row.action == "prune");
    assert_eq!(
        pruned.count(),
        2,
        "the audit has no row, or more than one, for a prune that a person requested"
    );
}

#[tokio::test(start_paused = true)]
async fn m03_a_resource_deleted_and_re_created_many_times_has_one_record() {
    let mut bench = Bench::new(1);
    bench.settings.gc.recreate_max = 10;
    let (network, _) = bench.plain_network(0);
    bench.faults(re_create_after_delete(8));
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &network).await;
        let first = client.tombstone(&network).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let last = client.tombstone(&network).await.unwrap();
        assert_eq!((last.record_id, last.recreated), (first.record_id, 8));
        assert_eq!(last.incarnation, first.incarnation + 8);
    })
    .await;
    let ledger_state = bench.ledger_state().await;
    assert_eq!(ledger_state.tombstones.len(), 1);
}

/// The network is re-created after its delete has taken effect, and before an observation can confirm its absence.
#[tokio::test(start_paused = true)]
async fn t14_a_resource_re_created_before_its_absence_is_confirmed_is_deleted_at_once() {
    let world = WorldOptions {
        keep_ids: true,
        ..WorldOptions::default()
    };
    let bench = Bench::in_world(world, &["RegionOne"]);
    let network = bench.create("networks", json!({ "name": "web" }));
    bench.faults(
        json!([{ "match": { "method": "DELETE" }, "times": 1, "action": { "delay_ms": 3000 } }]),
    );
    with_engine(&bench, async |client| {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let id = client.delete("network", &network).await;
        while bench.exists("networks", &network) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bench.create("networks", json!({ "name": "web", "id": network }));
        client.until_gone(&id).await;
        let step = client.step(&id, "network").await;
        assert_eq!((step.state, step.attempts), (StepState::Gone, 1));
        let events = client.timeline(Some(&id), None).await;
        let again = events
            .iter()
            .filter(|it| it.message.contains("the resource was re-created at"));
        assert_eq!(again.count(), 1, "{events:#?}");
    })
    .await;
    assert!(!bench.exists("networks", &network));
    let writes = bench.writes();
    assert_eq!(writes.len(), 2);
    assert!(writes[1].at - writes[0].at < TimeDelta::seconds(5));
}

#[tokio::test(start_paused = true)]
async fn i10_m01_a_re_created_interface_is_not_swept_and_its_deletion_revives_the_record() {
    let bench = Bench::new(1);
    let shop = bench.shop(0);
    // Without the route and the floating IP nothing blocks the interface.
    let router = format!("/v2.0/routers/{}", shop.router);
    bench.api("PUT", &router, json!({ "router": { "routes": [] } }));
    bench.api(
        "DELETE",
        &format!("/v2.0/floatingips/{}", shop.floating_ip),
        json!(null),
    );
    let edge = format!("{},{}", shop.router, shop.subnet);
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("router_interface", &edge).await.id;
        let first = client.tombstone(&edge).await.unwrap();
        bench.add_interface(&shop.router, &shop.subnet);
        let sent = bench.writes().len();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(bench.writes().len(), sent, "an interface was swept");
        assert_eq!(client.tombstone(&edge).await.unwrap(), first);
        let again = client.delete("router_interface", &edge).await;
        assert_ne!(again, id);
        client.until_gone(&again).await;
        let second = client.tombstone(&edge).await.unwrap();
        assert_eq!(second.record_id, first.record_id);
        assert_eq!(second.incarnation, first.incarnation + 1);
        assert!(second.deleted_at > first.deleted_at);
    })
    .await;
    let ports: Vec<String> = bench
        .writes()
        .iter()
        .map(|sent| sent.body.clone())
        .collect();
    assert_eq!(ports.len(), 2);
    assert_ne!(
        ports[0], ports[1],
        "both calls name the port of the same incarnation"
    );
}
