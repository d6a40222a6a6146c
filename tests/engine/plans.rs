//! How many calls a plan costs, what refuses it, and what changes on the way.

use std::collections::{BTreeMap, BTreeSet};

use super::harness::*;
use gone::control::{Command, ControlError};
use gone::domain::model::{DeletionState, Phase, RefusalRule, StepState};
use gone::system::config::ProtectRule;
use serde_json::{Value, json};

#[test]
fn n14_calls_are_bounded_at_a_thousand_ports() {
    n14_calls_are_bounded(1_000);
}

#[test]
fn n14_calls_are_bounded_at_three_thousand_ports() {
    n14_calls_are_bounded(3_000);
}

fn n14_calls_are_bounded(ports: u32) {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(ports);
        let sizes: BTreeMap<&str, usize> = COLLECTIONS
            .into_iter()
            .map(|collection| (collection, bench.rows(collection).len()))
            .collect();
        let steps = bench
            .run(async |client| {
                let id = client.delete("network", &shop.network).await;
                let deletion = client.gone(&id).await;
                usize::try_from(deletion.counts.total).unwrap()
            })
            .await
            .unwrap();
        let sent = bench.sent();
        let first_write = sent.iter().position(Sent::is_write).unwrap();
        assert!(
            bench.writes().len() <= steps,
            "{} writes for {steps} steps",
            bench.writes().len()
        );
        // (collection, filter without paging) → lists; what is read by id counts as other.
        let collection = |sent: &Sent| -> Option<String> {
            let path = sent.path.strip_prefix("/v2.0/")?;
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let filters: BTreeSet<&str> = query
                .split('&')
                .filter_map(|pair| pair.split_once('=').map(|(key, _)| key))
                .filter(|key| !["limit", "marker", "fields", "page_reverse"].contains(key))
                .collect();
            (sent.is_read() && COLLECTIONS.contains(&path)).then(|| format!("{path}?{filters:?}"))
        };
        let mut plan: BTreeMap<String, usize> = BTreeMap::new();
        for call in &sent[..first_write] {
            if let Some(list) = collection(call) {
                *plan.entry(list).or_default() += 1;
            }
        }
        let allowed: usize = plan
            .keys()
            .map(|list| sizes[list.split('?').next().unwrap()].div_ceil(500) + 1)
            .sum();
        let planned: usize = plan.values().sum();
        assert!(
            planned <= allowed,
            "{planned} lists to plan, {allowed} allowed: {plan:#?}"
        );
        let verified = sent[first_write..]
            .iter()
            .filter(|call| collection(call).is_some())
            .count();
        assert!(
            verified <= allowed,
            "{verified} lists to verify, {allowed} allowed"
        );
        let others = sent
            .iter()
            .filter(|call| !call.is_write() && collection(call).is_none())
            .count();
        assert!(others <= 20, "{others} other calls");
    });
}

#[test]
fn n15_p04_other_projects_and_protected_ones_refuse_before_the_first_write() {
    paused(async {
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
        bench
            .run(async |client| {
                let id = client.delete("network", &network).await;
                let deletion = client.refused(&id).await;
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
                    .until(&id, |deletion| deletion.state == DeletionState::Planning)
                    .await;
                let deletion = client.refused(&id).await;
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
            .await
            .unwrap();
        assert_eq!(bench.writes(), []);
    });
}

#[test]
fn p01_a_cloud_that_changed_since_the_plan_is_not_touched() {
    paused(async {
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
        bench
            .run(async |client| {
                for word in ["new", "no longer there", "changed"] {
                    let plan_hash = client.plan("network", &network).await.hash.clone();
                    assert_eq!(
                        client.plan("network", &network).await.hash,
                        plan_hash,
                        "an unchanged cloud hashes alike"
                    );
                    change(word);
                    let receipt = client
                        .submit(Command::DeletePlan { plan_hash })
                        .await
                        .unwrap();
                    let gone::control::Receipt::Accepted { deletion_id, .. } = receipt else {
                        panic!("{receipt:?}");
                    };
                    let deletion = client.refused(&deletion_id).await;
                    assert_eq!(deletion.refused[0].rule, RefusalRule::Drift);
                    assert!(
                        deletion.refused[0].reason.contains(word),
                        "{}",
                        deletion.refused[0].reason
                    );
                }
                let plan_hash = client.plan("network", &network).await.hash.clone();
                let receipt = client
                    .submit(Command::DeletePlan { plan_hash })
                    .await
                    .unwrap();
                assert_eq!(bench.writes(), []);
                let gone::control::Receipt::Accepted { deletion_id, .. } = receipt else {
                    panic!("{receipt:?}");
                };
                client.gone(&deletion_id).await;
            })
            .await
            .unwrap();
    });
}

#[test]
fn p05_read_only_sends_no_write_whoever_asks() {
    paused(async {
        let mut bench = Bench::new(1);
        bench.settings.gc.max_attempts = 1;
        let (network, _) = bench.plain_network(2);
        bench.faults(json!([{ "match": { "method": "DELETE", "kind": "network" }, "action": { "status": 409, "type": "NetworkInUse" } }]));
        let id = bench
            .run(async |client| {
                let id = client.delete("network", &network).await;
                client.stuck(&id).await;
                id
            })
            .await
            .unwrap();
        let sent = bench.writes().len();
        bench.faults(json!([]));
        bench.settings.guard.read_only = true;
        bench
            .run(async |client| {
                let refused = client
                    .submit(Command::Delete {
                        targets: vec![target("network", &network)],
                        options: cascade(),
                    })
                    .await
                    .unwrap_err();
                assert!(
                    matches!(refused, ControlError::Refused { .. }),
                    "{refused:?}"
                );
                let refused = client
                    .submit(Command::Retry {
                        deletion_id: id.clone(),
                    })
                    .await
                    .unwrap_err();
                assert!(refused.to_string().contains("read-only"), "{refused}");
                // Planning is reading.
                client.plan("network", &network).await;
                tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            })
            .await
            .unwrap();
        assert_eq!(bench.writes().len(), sent);
        // What was on its way waits, too, and goes on when the guard is down.
        bench.settings.guard.read_only = false;
        bench
            .run(async |client| {
                client.retry(&id).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
    });
}

#[test]
fn p08_a_cancelled_deletion_leaves_what_had_no_delete_sent() {
    paused(async {
        let mut bench = Bench::new(1);
        bench.one_at_a_time();
        let (network, ports) = bench.plain_network(6);
        bench.limits(json!({ "latency_ms": 1000 }));
        bench
            .run(async |client| {
                let id = client.delete("network", &network).await;
                client
                    .until(&id, |deletion| {
                        deletion.counts.gone + deletion.counts.verifying >= 2
                    })
                    .await;
                // A call is in flight: it comes to its end.
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                client
                    .submit(Command::Cancel {
                        deletion_id: id.clone(),
                    })
                    .await
                    .unwrap();
                let sent = bench.writes().len();
                let deletion = client
                    .until(&id, |deletion| {
                        deletion.state == DeletionState::Cancelled && deletion.counts.live() == 0
                    })
                    .await;
                assert_eq!(bench.writes().len(), sent, "nothing more is sent");
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
            .await
            .unwrap();
        assert!(bench.exists("networks", &network));
    });
}
