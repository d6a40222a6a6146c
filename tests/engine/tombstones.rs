//! Tombstones: written before anything is sent, and kept until the outcome is known and the hold-down has passed.

use std::time::Duration;

use super::client::delete_command;
use super::harness::*;
use gone::control::{Accepted, ControlError, query};
use gone::domain::model::{DeletionState, Phase, PlanOptions, RefusalRule, StepState};
use serde_json::json;

/// Returns the UUIDs in the path of a request.
fn ids_in(sent: &SentRequest) -> Vec<String> {
    let parts = sent.path.split(['/', '?']);
    parts
        .filter(|part| uuid::Uuid::try_parse(part).is_ok())
        .map(str::to_owned)
        .collect()
}

#[test]
fn t01_every_write_has_its_tombstone_in_the_ledger_when_it_is_sent() {
    // A crash at each call in turn shows the rows that were durable when the call was sent.
    let mut writes_checked = 0;
    for call in 1.. {
        let ended = paused(async {
            let mut bench = Bench::new(1);
            bench.send_one_at_a_time();
            let shop = bench.shop(2);
            bench.crash.at_call(call);
            let ended = bench
                .run(async |client| {
                    client.delete_until_gone("network", &shop.network).await;
                })
                .await;
            let tombstones = bench.ledger_state().await.tombstones;
            for write in bench.writes() {
                writes_checked += 1;
                for id in ids_in(&write) {
                    let has_tombstone = tombstones.iter().any(|tombstone| {
                        tombstone.key.id.contains(&id)
                            && matches!(tombstone.phase, Phase::Deleting | Phase::Gone)
                    });
                    assert!(
                        has_tombstone,
                        "call {call}: {write:?} without a tombstone: {tombstones:#?}"
                    );
                }
            }
            ended.is_some()
        });
        if ended {
            break;
        }
        assert!(call < 500);
    }
    assert!(writes_checked > 10);
}

#[tokio::test(start_paused = true)]
async fn t01_a_tombstone_is_complete_and_stays_through_the_hold_down() {
    let mut bench = Bench::new(1);
    bench.settings.ledger.hold_down = Duration::from_secs(6 * 3600);
    bench.settings.engine.sweep = Duration::from_secs(3600);
    let shop = bench.shop(1);
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &shop.network).await;
        tokio::time::sleep(Duration::from_secs(5 * 3600)).await;
        let tombstone = client.tombstone(&shop.network).await.unwrap();
        assert_eq!(tombstone.phase, Phase::Gone);
        assert_eq!(tombstone.key.kind.as_str(), "network");
        assert_eq!(tombstone.key.site, site());
        assert!(tombstone.gone_at >= tombstone.deleted_at);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t02_an_unknown_kind_is_refused_and_the_nearest_kind_is_suggested() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
        let refused = client
            .try_delete("netwrk", "web", cascade())
            .await
            .unwrap_err();
        assert_matches!(refused, ControlError::Usage { .. });
        let message = refused.to_string();
        assert_contains(&message, "\"netwrk\"; did you mean \"network\"?");
        assert!(client.deletions(Vec::new(), None).await.is_empty());
    })
    .await;
}

#[test]
fn t03_the_write_guard_is_durable_before_listing_and_the_phase_deleting_before_any_write() {
    let mut phases = Vec::new();
    for write in 1.. {
        let ended = paused(async {
            let bench = Bench::new(1);
            let shop = bench.shop(1);
            bench.crash.at_write(write);
            let ended = bench
                .run(async |client| {
                    client.delete_until_gone("network", &shop.network).await;
                })
                .await;
            let ledger_state = bench.ledger_state().await;
            let phase = ledger_state
                .tombstones
                .iter()
                .find(|tombstone| tombstone.key.id == shop.network)
                .map(|tombstone| tombstone.phase);
            let listed_ports = bench
                .sent()
                .iter()
                .any(|sent| sent.is_read() && sent.path.starts_with("/v2.0/ports"));
            match phase {
                None => assert!(!listed_ports, "the ports were listed without a write guard"),
                Some(Phase::Checking) => assert!(bench.writes().is_empty()),
                Some(_) => {}
            }
            phases.push(phase);
            ended.is_some()
        });
        if ended {
            break;
        }
        assert!(write < 500);
    }
    phases.dedup();
    assert_eq!(
        phases,
        [
            None,
            Some(Phase::Checking),
            Some(Phase::Deleting),
            Some(Phase::Gone)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn t03_n15_a_refused_plan_releases_the_tombstone_and_sends_nothing() {
    let bench = Bench::new(1);
    let shop = bench.shop(2);
    let before = bench.all_ids();
    with_engine(&bench, async |client| {
        let id = client
            .delete_with("network", &shop.network, PlanOptions::default())
            .await;
        let deletion = client.until_refused(&id).await;
        assert!(
            deletion
                .refused
                .iter()
                .any(|refusal| { refusal.rule == RefusalRule::InUse && refusal.blocker.is_some() })
        );
        assert_contains(&deletion.note, "nothing was sent");
        let tombstone = client.tombstone(&shop.network).await.unwrap();
        assert_eq!(tombstone.phase, Phase::Released);
        assert!(client.steps(&id).await.is_empty());
    })
    .await;
    assert_eq!(bench.writes(), []);
    assert_eq!(bench.all_ids(), before);
}

#[tokio::test(start_paused = true)]
async fn t03_a_refused_deletion_is_planned_again_on_retry() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let id = client
            .delete_with("network", &network, PlanOptions::default())
            .await;
        client.until_refused(&id).await;
        bench.api("DELETE", &format!("/v2.0/ports/{}", ports[0]), json!(null));
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
    assert!(!bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn t06_t15_a_repeated_delete_joins_the_first_and_leaves_the_tombstone_unchanged() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let shop = bench.shop(3);
    bench.limits(json!({ "latency_ms": 1000 }));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &shop.network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        let before = client.tombstone(&shop.network).await.unwrap();
        let delete = delete_command(vec![target("network", &shop.network)], cascade());
        let again = client.submit(delete).await.unwrap();
        let Accepted {
            deletion_id,
            existing,
        } = again.into_accepted().unwrap();
        assert_eq!((deletion_id, existing), (id.clone(), true));
        assert_eq!(client.tombstone(&shop.network).await.unwrap(), before);
        client.until_gone(&id).await;
        assert_eq!(client.deletions(Vec::new(), None).await.len(), 1);
        let after = client.tombstone(&shop.network).await.unwrap();
        assert_eq!(after.deleted_at, before.deleted_at);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t06_a_repeated_delete_wakes_a_stuck_step_for_one_attempt() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 1;
    let (_, ports) = bench.plain_network(1);
    let refusal = json!({ "status": 409, "type": "PortInUse", "message": "held" });
    bench.faults(json!([{ "match": { "method": "DELETE" }, "times": 2, "action": refusal }]));
    with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        client.until_stuck(&id).await;
        assert_eq!(client.delete("port", &ports[0]).await, id);
        let woken = client.until(&id, |it| it.counts.stuck == 0);
        woken.await;
        client.until_stuck(&id).await;
        assert_eq!(
            bench.writes().len(),
            2,
            "not exactly one more call was sent"
        );
        // Another repeated delete within a minute does not wake the step.
        assert_eq!(client.delete("port", &ports[0]).await, id);
        assert_eq!(client.deletion(&id).await.counts.stuck, 1);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(client.delete("port", &ports[0]).await, id);
        client.until_gone(&id).await;
        assert_eq!(bench.writes().len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i14_a_client_that_polls_with_delete_uses_no_attempts() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    let refusal = json!({ "status": 409, "type": "PortInUse", "message": "held" });
    bench.faults(json!([{ "match": { "method": "DELETE" }, "action": refusal }]));
    with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        client.until(&id, |it| it.counts.blocked == 1).await;
        for _ in 0..120 {
            tokio::time::sleep(Duration::from_secs(61)).await;
            assert_eq!(client.delete("port", &ports[0]).await, id);
        }
        client.until(&id, |it| it.counts.blocked == 1).await;
        let step = client.steps(&id).await.remove(0);
        // Attempts after 0, 1, 6, 21 and 81 minutes, as without the client's repeated deletes.
        assert!((4..=5).contains(&step.attempts), "{step:?}");
        assert!(bench.writes().len() > 100, "a repeated DELETE sent no call");
        bench.faults(json!([]));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(client.delete("port", &ports[0]).await, id);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(client.deletion(&id).await.state, DeletionState::Gone);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t08_the_tombstone_survives_failure_and_restart() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 2;
    let (network, _) = bench.plain_network(2);
    bench.faults(json!([{ "match": { "method": "DELETE", "kind": "network" }, "action": { "status": 500 } }]));
    let id = with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        let tombstone = client.tombstone(&network).await.unwrap();
        assert_eq!(tombstone.phase, Phase::Deleting);
        id
    })
    .await;
    bench.faults(json!([]));
    with_engine(&bench, async |client| {
        let tombstone = client.tombstone(&network).await.unwrap();
        assert_eq!(tombstone.phase, Phase::Deleting);
        assert_eq!(client.deletion(&id).await.state, DeletionState::Stuck);
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t10_stuck_deletions_are_listed_by_age() {
    let mut bench = Bench::new(1);
    bench.settings.engine.sweep = Duration::from_secs(3600);
    let (old, _) = bench.plain_network(0);
    let (young, _) = bench.plain_network(0);
    bench.faults(json!([{ "match": { "method": "DELETE", "kind": "network" }, "action": { "status": 403, "type": "PolicyNotAuthorized" } }]));
    with_engine(&bench, async |client| {
        let old = client.delete("network", &old).await;
        client.until_stuck(&old).await;
        tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
        let young = client.delete("network", &young).await;
        client.until_stuck(&young).await;
        let day_ago = bench.clock.now() - chrono::TimeDelta::hours(24);
        let stuck = client
            .deletions(vec![DeletionState::Stuck], Some(day_ago))
            .await;
        let found: Vec<&str> = stuck.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(found, [old.as_str()]);
        let all = client.deletions(vec![DeletionState::Stuck], None).await;
        assert_eq!(all.len(), 2);
        let steps = query::Steps {
            states: vec![StepState::Stuck],
            older_than: Some(day_ago),
            limit: 500,
            ..query::Steps::default()
        };
        let rows = client.control.ask(steps).await.unwrap().rows;
        assert!(rows.iter().all(|step| step.deletion_id == old) && rows.len() == 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i09_a_resource_in_two_deletions_is_one_step() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let (network, ports) = bench.plain_network(3);
    bench.limits(json!({ "latency_ms": 500 }));
    with_engine(&bench, async |client| {
        let whole = client.delete("network", &network).await;
        client.until(&whole, |it| it.counts.total > 0).await;
        let delete = delete_command(vec![target("port", &ports[2])], cascade());
        let receipt = client.submit(delete).await.unwrap();
        let Accepted {
            deletion_id,
            existing,
        } = receipt.into_accepted().unwrap();
        assert_eq!((&deletion_id, existing), (&whole, true));
        client.until_gone(&whole).await;
    })
    .await;
    for port in &ports {
        assert_eq!(bench.writes_to(port).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn i09_a_step_is_left_to_the_deletion_that_already_deletes_its_resource() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let (network, ports) = bench.plain_network(2);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 3, "action": { "status": 503 } }]));
    with_engine(&bench, async |client| {
        let one = client.delete("port", &ports[0]).await;
        client.until_blocked(&one, "port").await;
        let whole = client.delete("network", &network).await;
        client.until_gone(&one).await;
        client.until_gone(&whole).await;
        let step = client.step_of(&whole, &ports[0]).await;
        assert_eq!(step.state, StepState::Gone);
    })
    .await;
    assert!(!bench.exists("networks", &network));
    assert_eq!(
        bench.answers_to(&ports[0]),
        [Some(503), Some(503), Some(503), Some(204)]
    );
}
