//! Plans: the number of calls that they cost, the reasons for refusing them, and drift after the approval. Deletions in
//! a read-only engine, and cancelled deletions.

use std::collections::{BTreeMap, BTreeSet};

use super::harness::*;
use gone::control::{Command, ControlError};
use gone::domain::model::{DeletionState, Phase, RefusalRule, StepState};
use gone::system::config::ProtectRule;
use serde_json::{Value, json};

#[test]
fn n14_calls_are_bounded_at_a_thousand_ports() {
    assert_calls_are_bounded(|bench| vec![bench.shop(1_000).network]);
}

#[test]
fn n14_calls_are_bounded_at_three_thousand_ports() {
    assert_calls_are_bounded(|bench| vec![bench.shop(3_000).network]);
}

#[test]
fn n14_calls_are_bounded_for_many_networks_at_once() {
    assert_calls_are_bounded(|bench| (0..40).map(|_| bench.plain_network(40).0).collect());
}

#[test]
fn n14_calls_are_bounded_on_a_slow_cloud() {
    assert_calls_are_bounded(|bench| {
        // A real Neutron takes a second for each port.
        bench.limits(json!({ "latency_ms": 1_000 }));
        vec![bench.plain_network(1_000).0]
    });
}

fn assert_calls_are_bounded(seed: impl FnOnce(&Bench) -> Vec<String>) {
    paused(async {
        let bench = Bench::new(1);
        let networks = seed(&bench);
        // If no other resource of a kind exists, only a read by id proves absence (I13).
        bench.plain_network(1);
        let sizes: BTreeMap<&str, usize> = COLLECTIONS
            .into_iter()
            .map(|collection| (collection, bench.rows(collection).len()))
            .collect();
        let steps = with_engine(&bench, async |client| {
            let id = client.delete_all("network", &networks).await;
            let deletion = client.until_gone(&id).await;
            usize::try_from(deletion.counts.total).unwrap()
        })
        .await;
        let sent = bench.sent();
        let first_write = sent.iter().position(SentRequest::is_write).unwrap();
        let writes = bench.writes().len();
        assert!(writes <= steps, "{writes} writes for {steps} steps");
        let planned = lists(&sent[..first_write]);
        let allowed: BTreeMap<&String, usize> = planned
            .keys()
            .map(|list| {
                let collection = list.split('?').next().unwrap();
                (list, sizes[collection].div_ceil(500) + 1)
            })
            .collect();
        for (list, count) in &planned {
            assert!(
                *count <= allowed[list],
                "{count} of {list} to plan: {planned:#?}"
            );
        }
        let observed = lists(&sent[first_write..]);
        let (count, allowed) = (observed.values().sum::<usize>(), allowed.values().sum());
        assert!(
            count <= allowed,
            "{count} lists to verify, {allowed} allowed: {observed:#?}"
        );
        let others: Vec<&SentRequest> = sent
            .iter()
            .filter(|call| !call.is_write() && list_of(call).is_none())
            .collect();
        assert!(others.len() <= 20, "{} other calls", others.len());
    });
}

/// Returns the collection of a list and the names of its filters, without those of paging, for example
/// `ports?{"network_id"}`. Returns none for any other request.
fn list_of(sent: &SentRequest) -> Option<String> {
    let (path, query) = sent.path.split_once('?').unwrap_or((&sent.path, ""));
    let collection = path.rsplit('/').next()?;
    let filters: BTreeSet<&str> = query
        .split('&')
        .filter_map(|pair| pair.split_once('=').map(|(key, _)| key))
        .filter(|key| !["limit", "marker", "fields", "page_reverse"].contains(key))
        .collect();
    let known = COLLECTIONS.contains(&collection) && path_of(collection) == path;
    (sent.is_read() && known).then(|| format!("{collection}?{filters:?}"))
}

fn lists(sent: &[SentRequest]) -> BTreeMap<String, usize> {
    let mut lists = BTreeMap::new();
    for list in sent.iter().filter_map(list_of) {
        *lists.entry(list).or_default() += 1;
    }
    lists
}

#[tokio::test(start_paused = true)]
async fn n15_p04_resources_of_other_projects_and_protected_ones_refuse_before_any_write() {
    let mut bench = Bench::new(1);
    bench.settings.guard.protect = vec![ProtectRule {
        tag: Some("keep".into()),
        ..ProtectRule::default()
    }];
    let (network, ports) = bench.plain_network(2);
    let theirs = bench.create(
        "ports",
        json!({ "network_id": network, "project_id": bench.demo_project() }),
    );
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        let deletion = client.until_refused(&id).await;
        let refusal = &deletion.refused[0];
        assert_eq!(
            (refusal.rule, refusal.resource.key.id.as_str()),
            (RefusalRule::OtherProject, theirs.as_str())
        );
        bench.api("DELETE", &format!("/v2.0/ports/{theirs}"), Value::Null);
        bench.api(
            "PUT",
            &format!("/v2.0/ports/{}/tags", ports[0]),
            json!({ "tags": ["keep"] }),
        );
        client.retry(&id).await;
        client
            .until(&id, |it| it.state == DeletionState::Planning)
            .await;
        let deletion = client.until_refused(&id).await;
        let refusal = &deletion.refused[0];
        assert_eq!(
            (refusal.rule, refusal.resource.key.id.as_str()),
            (RefusalRule::Protected, ports[0].as_str())
        );
        assert_eq!(
            client.tombstone(&network).await.unwrap().phase,
            Phase::Released
        );
    })
    .await;
    assert_eq!(bench.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn p01_a_cloud_that_changed_since_the_plan_is_not_touched() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    let change = |word: &str| match word {
        "new" => drop(bench.create("ports", json!({ "network_id": network }))),
        "changed" => {
            let body = json!({ "port": { "name": "mine now" } });
            bench.api("PUT", &format!("/v2.0/ports/{}", ports[1]), body);
        }
        _ => {
            bench.api("DELETE", &format!("/v2.0/ports/{}", ports[0]), Value::Null);
        }
    };
    with_engine(&bench, async |client| {
        for word in ["new", "no longer in the plan", "changed"] {
            let plan_hash = client.plan("network", &network).await.hash.clone();
            assert_eq!(
                client.plan("network", &network).await.hash,
                plan_hash,
                "two plans of an unchanged cloud have different hashes"
            );
            change(word);
            let deletion_id = client.delete_plan(&plan_hash).await;
            let deletion = client.until_refused(&deletion_id).await;
            assert_eq!(deletion.refused[0].rule, RefusalRule::Drift);
            assert_contains(&deletion.refused[0].reason, word);
        }
        let plan_hash = client.plan("network", &network).await.hash.clone();
        let deletion_id = client.delete_plan(&plan_hash).await;
        assert_eq!(bench.writes(), []);
        client.until_gone(&deletion_id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p05_a_read_only_engine_sends_no_write_for_new_or_running_deletions() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 1;
    let (network, _) = bench.plain_network(2);
    let (_, ports) = bench.plain_network(1);
    bench.faults(json!([
        { "match": { "method": "DELETE", "kind": "network" }, "action": { "status": 409, "type": "NetworkInUse" } },
        { "match": { "method": "DELETE", "id": ports[0] }, "action": { "status": 503 } },
    ]));
    let (id, on_its_way) = with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        let on_its_way = client.delete("port", &ports[0]).await;
        client.until_blocked(&on_its_way, "port").await;
        (id, on_its_way)
    })
    .await;
    let sent = bench.writes().len();
    bench.faults(json!([]));
    bench.settings.guard.read_only = true;
    with_engine(&bench, async |client| {
        let refused = client
            .try_delete("network", &network, cascade())
            .await
            .unwrap_err();
        assert_matches!(refused, ControlError::Refused { .. });
        let refused = client
            .submit(Command::Retry {
                deletion_id: id.clone(),
            })
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("read-only"), "{refused}");
        // Planning only reads from the cloud.
        client.plan("network", &network).await;
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    })
    .await;
    assert_eq!(bench.writes().len(), sent);
    // The deletion that was running waits, too, and continues once the engine is no longer read-only.
    bench.settings.guard.read_only = false;
    with_engine(&bench, async |client| {
        client.until_gone(&on_its_way).await;
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p08_a_cancelled_deletion_keeps_the_resources_whose_delete_was_not_sent() {
    for latency_ms in [1_000, 10] {
        let mut bench = Bench::new(1);
        bench.send_one_at_a_time();
        let (network, ports) = bench.plain_network(6);
        bench.limits(json!({ "latency_ms": latency_ms }));
        with_engine(&bench, async |client| {
            let id = client.delete("network", &network).await;
            client
                .until(&id, |it| it.counts.gone + it.counts.verifying >= 2)
                .await;
            // A call that is in flight runs to its end. Steps that the engine has claimed in advance, as it does
            // when calls are short, are not sent.
            tokio::time::sleep(std::time::Duration::from_millis(latency_ms / 2)).await;
            client
                .submit(Command::Cancel {
                    deletion_id: id.clone(),
                })
                .await
                .unwrap();
            let sent = bench.writes().len();
            let deletion = client
                .until(&id, |it| {
                    it.state == DeletionState::Cancelled && it.counts.live() == 0
                })
                .await;
            assert_eq!(
                bench.writes().len(),
                sent,
                "a call was sent after the cancellation"
            );
            assert_eq!(
                deletion.counts.gone + deletion.counts.skipped,
                deletion.counts.total
            );
            for step in client.steps(&id).await {
                let gone = step.state == StepState::Gone;
                let key = &step.resource.key;
                assert_eq!(
                    bench.exists(&format!("{}s", key.kind), &key.id),
                    !gone,
                    "{step:?}"
                );
                let phase = client.tombstone(&key.id).await.unwrap().phase;
                assert_eq!(phase, if gone { Phase::Gone } else { Phase::Released });
            }
            assert!(ports.iter().any(|port| bench.exists("ports", port)));
        })
        .await;
        assert!(bench.exists("networks", &network));
    }
}
