//! What goes with a network, what stays, in which order and at how many calls.

use std::collections::{BTreeMap, BTreeSet};

use super::harness::*;
use gone::control::{Command, ControlError};
use gone::domain::model::{
    Action, DeletionState, EventKind, OnFailure, Phase, PlanOptions, RefusalRule, StepState,
};
use gone::system::config::ProtectRule;
use serde_json::{Value, json};

#[test]
fn n02_interfaces_and_routes_go_and_floating_ips_stay_disassociated() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(2);
        bench
            .run(async |client| {
                let id = client.delete("network", &shop.network).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
        assert!(!bench.exists("networks", &shop.network));
        let (_, router) = bench.api(
            "GET",
            &format!("/v2.0/routers/{}", shop.router),
            Value::Null,
        );
        assert_eq!(router["router"]["routes"], json!([]));
        let (_, fip) = bench.api(
            "GET",
            &format!("/v2.0/floatingips/{}", shop.floating_ip),
            Value::Null,
        );
        assert_eq!(fip["floatingip"]["port_id"], Value::Null);
        assert_eq!(bench.writes_to(&shop.floating_ip), []);
        // The other two networks keep their interfaces.
        let ports = bench.rows("ports");
        let interfaces = ports
            .iter()
            .filter(|port| port["device_owner"] == "network:router_interface");
        assert_eq!(interfaces.count(), 2);
    });
}

#[test]
fn n02_floating_ips_are_released_if_the_caller_asks() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(1);
        bench
            .run(async |client| {
                let options = PlanOptions {
                    release_floating_ips: true,
                    ..cascade()
                };
                let id = client.delete_with("network", &shop.network, options).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
        assert_eq!(bench.ids("floatingips"), Vec::<String>::new());
    });
}

#[test]
fn n03_trunks_and_their_subports_go_and_the_other_networks_stay() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(1);
        bench
            .run(async |client| {
                let id = client.delete("network", &shop.network).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
        assert_eq!(bench.ids("trunks"), Vec::<String>::new());
        let left = bench.rows("ports");
        assert!(
            left.iter()
                .all(|port| !port["name"].as_str().unwrap().contains("subport"))
        );
        for other in &shop.others {
            assert!(bench.exists("networks", other));
        }
    });
}

#[test]
fn n03_a_disabled_trunk_is_enabled_first() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(1);
        let trunk = format!("/v2.0/trunks/{}", shop.trunk);
        let (status, answer) = bench.api(
            "PUT",
            &trunk,
            json!({ "trunk": { "admin_state_up": false } }),
        );
        assert_eq!(status, 200, "{answer}");
        bench
            .run(async |client| {
                let plan = client.plan("network", &shop.network).await;
                let enable = plan.steps.iter().find(|step| step.action == Action::Enable);
                assert!(enable.unwrap().why.contains("disabled"));
                let id = client.delete("network", &shop.network).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
        let calls: Vec<_> = bench
            .writes_to(&shop.trunk)
            .iter()
            .map(|sent| (sent.method.clone(), sent.status))
            .collect();
        assert_eq!(
            calls,
            [
                ("PUT".to_owned(), Some(200)),
                ("DELETE".to_owned(), Some(204))
            ]
        );
    });
}

#[test]
fn n03_a_port_that_is_a_subport_elsewhere_is_detached_first() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(1);
        // Its trunk hangs on `web`; only the subport's network goes.
        let target = &shop.others[0];
        bench
            .run(async |client| {
                let id = client.delete("network", target).await;
                client.gone(&id).await;
                let steps = client.steps(&id).await;
                assert!(
                    steps
                        .iter()
                        .any(|step| step.resource.key.kind.as_str() == "subport"
                            && step.state == StepState::Gone)
                );
            })
            .await
            .unwrap();
        let (status, trunk) =
            bench.api("GET", &format!("/v2.0/trunks/{}", shop.trunk), Value::Null);
        assert_eq!(status, 200);
        assert_eq!(trunk["trunk"]["sub_ports"].as_array().unwrap().len(), 1);
        assert!(bench.exists("networks", &shop.network));
        let writes = bench.writes();
        assert!(
            writes
                .iter()
                .all(|sent| sent.status.is_some_and(|status| status < 300)),
            "{writes:#?}"
        );
    });
}

#[test]
fn n04_n05_ports_of_servers_go_and_automatic_ones_cost_no_call() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(5);
        let mine = bench.rows("ports");
        let mine: Vec<_> = mine
            .iter()
            .filter(|port| port["network_id"] == shop.network.as_str())
            .collect();
        let of = |owner: &str| -> Vec<String> {
            let found = mine.iter().filter(|port| port["device_owner"] == owner);
            found
                .map(|port| port["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let (dhcp, servers) = (of("network:dhcp"), of("compute:nova"));
        assert!(!dhcp.is_empty() && servers.len() > 2);
        bench
            .run(async |client| {
                let plan = client.plan("network", &shop.network).await;
                assert!(
                    plan.automatic
                        .iter()
                        .any(|step| step.resource_id == dhcp[0] && step.automatic)
                );
                let id = client.delete("network", &shop.network).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
        assert_eq!(bench.writes_to(&dhcp[0]), []);
        for port in &servers {
            assert_eq!(bench.writes_to(port).len(), 1);
        }
        assert!(!bench.exists("ports", &dhcp[0]));
    });
}

#[test]
fn n06_the_network_goes_last_and_its_subnets_with_it() {
    paused(async {
        let bench = Bench::new(1);
        let shop = bench.shop(4);
        let before = bench.everything();
        let frozen = bench
            .run(async |client| {
                let plan = client.plan("network", &shop.network).await;
                let id = client.delete("network", &shop.network).await;
                client.gone(&id).await;
                plan
            })
            .await
            .unwrap();
        let last = bench.writes().pop().unwrap();
        assert_eq!(last.path, format!("/v2.0/networks/{}", shop.network));
        assert!(bench.writes_to(&shop.subnet).is_empty());
        assert!(!bench.exists("subnets", &shop.subnet));
        // Nothing went that the plan did not say, and all that it said.
        let planned: BTreeSet<&str> = frozen
            .steps
            .iter()
            .chain(&frozen.automatic)
            .map(|step| step.resource_id.as_str())
            .collect();
        let after = bench.everything();
        for (collection, id) in before.difference(&after) {
            let said = planned.contains(id.as_str())
                || collection == "ports"
                    && frozen
                        .steps
                        .iter()
                        .any(|step| step.vars.values().any(|value| value == id));
            assert!(said, "{collection}/{id} went, and was not planned");
        }
        assert!(after.is_subset(&before));
    });
}

#[test]
fn n10_each_resource_reports_its_action_status_and_message() {
    paused(async {
        let mut bench = Bench::new(1);
        bench.settings.gc.max_attempts = 1;
        let (network, ports) = bench.plain_network(2);
        bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[1] }, "action": { "status": 409, "type": "PortInUse", "message": "it is held" } }]));
        bench
            .run(async |client| {
                let id = client.delete("network", &network).await;
                client.stuck(&id).await;
                let held = client.step_of(&id, &ports[1]).await;
                let error = held.last_error.clone().unwrap();
                assert_eq!(
                    (held.action, held.state),
                    (Action::Delete, StepState::Stuck)
                );
                assert_eq!(
                    (error.status, error.kind.as_str(), error.message.as_str()),
                    (Some(409), "PortInUse", "it is held")
                );
                assert!(error.request_id.starts_with("req-"));
                let done = client.step_of(&id, &ports[0]).await;
                assert_eq!(done.state, StepState::Gone);
                let lines = client.timeline(Some(&id), Some(done.id)).await;
                assert!(
                    lines.iter().any(|line| line.kind == EventKind::Attempt
                        && line.message.contains("204")
                        && line.message.contains("DELETE")),
                    "{lines:#?}"
                );
                let lines = client.timeline(Some(&id), Some(held.id)).await;
                let attempt = lines
                    .iter()
                    .find(|line| line.kind == EventKind::Attempt)
                    .unwrap();
                assert_eq!(attempt.data["status"], 409);
            })
            .await
            .unwrap();
    });
}

#[test]
fn n11_after_a_failure_the_rest_goes_on_or_stops_as_asked() {
    for (on_failure, others) in [(OnFailure::Continue, 5), (OnFailure::Stop, 0)] {
        paused(async {
            let mut bench = Bench::new(1);
            bench.settings.engine.concurrency = 1;
            let (network, ports) = bench.plain_network(6);
            let first = {
                let plan = bench
                    .run(async |client| client.plan("network", &network).await)
                    .await
                    .unwrap();
                plan.steps[0].resource_id.clone()
            };
            assert!(ports.contains(&first));
            bench.faults(json!([{ "match": { "method": "DELETE", "id": first }, "action": { "status": 403, "type": "PolicyNotAuthorized" } }]));
            bench
                .run(async |client| {
                    let options = PlanOptions {
                        on_failure,
                        ..cascade()
                    };
                    let id = client.delete_with("network", &network, options).await;
                    let deletion = client.stuck(&id).await;
                    assert_eq!(deletion.counts.gone, others);
                    assert_eq!(deletion.counts.stuck, 7 - others);
                    bench.faults(json!([]));
                    client.retry(&id).await;
                    client.gone(&id).await;
                })
                .await
                .unwrap();
        });
    }
}

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
        type Change<'c> = (&'c str, Box<dyn Fn(&Bench) + 'c>);
        let changes: [Change<'_>; 3] = [
            (
                "new",
                Box::new(|bench| {
                    bench.create("ports", json!({ "network_id": network }));
                }),
            ),
            (
                "no longer there",
                Box::new(|bench| {
                    bench.api("DELETE", &format!("/v2.0/ports/{}", ports[0]), Value::Null);
                }),
            ),
            (
                "changed",
                Box::new(|bench| {
                    bench.api(
                        "PUT",
                        &format!("/v2.0/ports/{}", ports[1]),
                        json!({ "port": { "name": "mine now" } }),
                    );
                }),
            ),
        ];
        bench
            .run(async |client| {
                for (word, change) in &changes {
                    let plan_hash = client.plan("network", &network).await.hash.clone();
                    assert_eq!(
                        client.plan("network", &network).await.hash,
                        plan_hash,
                        "an unchanged cloud hashes alike"
                    );
                    change(&bench);
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
        bench.settings.engine.concurrency = 1;
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
