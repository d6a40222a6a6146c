//! Observations: a resource is gone only when its absence is confirmed.

use std::time::Duration;

use super::harness::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::TimeDelta;
use gone::domain::model::{ErrorClass, StepState};
use gone::system::clock::Clock;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn i13_an_accepted_delete_that_removed_nothing_is_noticed_and_repeated() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    bench.faults(
        json!([{ "match": { "method": "DELETE" }, "times": 1, "action": { "keep": true } }]),
    );
    with_engine(&bench, async |client| {
        // Without this pause the port would seem to have been created after its delete.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let id = client.delete("port", &ports[0]).await;
        let step = client.until_blocked(&id, "port").await;
        let error = step.last_error.unwrap();
        assert_eq!(
            (error.kind.as_str(), error.class),
            ("StillPresent", ErrorClass::Blocked)
        );
        assert!(bench.exists("ports", &ports[0]));
        client.until_gone(&id).await;
    })
    .await;
    assert!(!bench.exists("ports", &ports[0]));
    let writes = bench.writes();
    assert_eq!(writes.len(), 2);
    // The engine observes the port for as long as its settings say, and then retries the step on the schedule.
    assert!(writes[1].at - writes[0].at > TimeDelta::seconds(110));
}

#[tokio::test(start_paused = true)]
async fn n13_a_call_whose_answer_was_lost_is_not_repeated_if_it_took_effect() {
    for action in ["drop_after_effect", "truncate"] {
        let bench = Bench::new(1);
        let shop = bench.shop(2);
        bench.faults(json!([{ "match": { "path": "/v2.0/", "method": "DELETE" }, "action": { action: true } },
            { "match": { "path": "/v2.0/", "method": "PUT" }, "action": { action: true } }]));
        bench.delete_until_gone("network", &shop.network).await;
        let mut signatures: Vec<String> =
            bench.writes().iter().map(SentRequest::signature).collect();
        let sent = signatures.len();
        signatures.sort();
        signatures.dedup();
        assert_eq!(signatures.len(), sent, "{action}: a call was sent twice");
    }
}

#[tokio::test(start_paused = true)]
async fn n13_a_call_that_hung_without_effect_is_repeated_after_an_observation() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    bench.faults(
        json!([{ "match": { "method": "DELETE" }, "times": 1, "action": { "hang": true } }]),
    );
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("port", &ports[0]).await.id;
        assert_eq!(client.step(&id, "port").await.attempts, 0);
    })
    .await;
    let sent = bench.sent();
    let first = sent.iter().position(SentRequest::is_write).unwrap();
    let second = sent.iter().rposition(SentRequest::is_write).unwrap();
    let observed = sent[first..second]
        .iter()
        .any(|call| call.is_read() && call.path.contains(&ports[0]));
    assert!(first < second && observed, "{sent:#?}");
}

#[test]
fn i13_an_empty_list_is_not_absence() {
    // Lists are empty from the plan on, or only from the selection of a witness on, or only when the witness should be
    // in the list.
    for lists in 1..=4 {
        assert!(
            is_correct_when_lists_are_empty(lists, PlantedFault::None),
            "{lists}"
        );
    }
}

#[test]
fn i13_a_client_that_takes_an_empty_list_for_absence_is_detected() {
    let found = |lists| !is_correct_when_lists_are_empty(lists, PlantedFault::EmptyListIsAbsence);
    assert!((1..=4).any(found));
}

/// Returns whether no existing port is reported as gone while lists of ports are empty after the first `lists` ones.
fn is_correct_when_lists_are_empty(lists: u32, planted_fault: PlantedFault) -> bool {
    paused(async {
        let mut bench = Bench::new(1);
        bench.planted_fault = planted_fault;
        let (network, ports) = bench.plain_network(30);
        let (_, others) = bench.plain_network(3);
        // Deletes are accepted and have no effect. After the first `lists` lists of ports, the next 40 are empty.
        bench.faults(json!([
            { "match": { "method": "DELETE", "kind": "port" }, "times": 30, "action": { "keep": true } },
            { "match": { "method": "GET", "path": "/v2.0/ports$" }, "times": lists, "action": {} },
            { "match": { "method": "GET", "path": "/v2.0/ports$" }, "times": 40, "action": { "empty_list": true } },
        ]));
        let is_correct = with_engine(&bench, async |client| {
            let id = client.delete("network", &network).await;
            client
                .until(&id, |it| it.counts.blocked > 0 || it.counts.gone > 0)
                .await;
            let steps = client.steps(&id).await;
            let mut gone = steps.iter().filter(|step| step.state == StepState::Gone);
            if gone.any(|step| bench.exists("ports", &step.resource.key.id)) {
                return false;
            }
            client.until_gone(&id).await;
            true
        })
        .await;
        assert!(!is_correct || ports.iter().all(|port| !bench.exists("ports", port)));
        assert!(others.iter().all(|port| bench.exists("ports", port)));
        is_correct
    })
}

#[tokio::test(start_paused = true)]
async fn i13_a_resource_that_the_cloud_no_longer_offers_is_not_gone() {
    let mut bench = Bench::new(1);
    bench.planted_fault = PlantedFault::NoLongerOffers;
    let (_, ports) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        client.until_step(&id, "port", StepState::Verifying).await;
        let step = loop {
            let step = client.step(&id, "port").await;
            if step.last_error.is_some() || step.state == StepState::Gone {
                break step;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        assert_eq!(step.state, StepState::Verifying);
        let error = step.last_error.unwrap();
        assert!(
            error
                .message
                .contains("no longer offers resources of the kind port"),
            "{error:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i13_an_empty_list_of_extensions_is_not_absence() {
    let bench = Bench::new(1);
    let made = bench.seed(json!({ "networks": 1, "ports_per_network": 2, "trunks": 1 }));
    let network = made["networks"][0].as_str().unwrap();
    let trunk = made["trunks"][0].as_str().unwrap();
    bench.faults(json!([
        { "match": { "method": "DELETE", "kind": "trunk" }, "action": { "hang": true } },
    ]));
    let id = with_engine(&bench, async |client| {
        let id = client.delete("network", network).await;
        client.until(&id, |it| it.counts.running > 0).await;
        id
    })
    .await;
    // The next engine asks the cloud again which extensions it offers.
    bench.faults(json!([
        { "match": { "method": "GET", "path": "/extensions" }, "times": 5, "action": { "empty_list": true } },
    ]));
    with_engine(&bench, async |client| client.until_gone(&id).await).await;
    assert!(!bench.exists("trunks", trunk));
    let refused: Vec<SentRequest> = bench
        .sent()
        .into_iter()
        .filter(|call| call.status == Some(409))
        .collect();
    assert_eq!(
        refused,
        [],
        "the ports of the trunk were deleted while the trunk existed"
    );
}

#[tokio::test(start_paused = true)]
async fn i13_an_empty_list_of_a_networks_ports_is_not_absence() {
    let bench = Bench::new(1);
    // These are too many ports for a list by id, so the engine lists them by their network.
    let (network, ports) = bench.plain_network(300);
    let (_, others) = bench.plain_network(3);
    with_engine(&bench, async |client| {
        // Without this pause the ports would seem to have been created after their deletes.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.total > 0).await;
        bench.faults(json!([
            { "match": { "method": "DELETE", "kind": "port" }, "times": 300, "action": { "keep": true } },
            { "match": { "method": "GET", "path": "/v2.0/ports$" }, "times": 20, "action": { "empty_list": true } },
        ]));
        let deletion = client
            .until(&id, |it| {
                it.counts.blocked > 0 || it.counts.gone > 20
            })
            .await;
        assert!(deletion.counts.blocked > 0, "{:?}", deletion.counts);
        client.until_gone(&id).await;
    })
    .await;
    let by_network = |sent: &SentRequest| sent.path.contains("/ports?network_id=");
    let sent = bench.sent();
    let first_write = sent.iter().position(SentRequest::is_write).unwrap();
    assert!(sent[first_write..].iter().any(by_network));
    assert!(ports.iter().all(|port| !bench.exists("ports", port)));
    assert!(others.iter().all(|port| bench.exists("ports", port)));
}

#[tokio::test(start_paused = true)]
async fn n14_an_interface_is_observed_by_a_list_of_its_networks_ports() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(600);
    let router = bench.create("routers", json!({ "name": "edge" }));
    bench.add_interface(&router, &bench.ids("subnets")[0]);
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("network", &network).await.id;
        let interface = client.step(&id, "router_interface").await;
        assert_eq!(interface.state, StepState::Gone);
    })
    .await;
    let sent = bench.sent();
    let first_write = sent.iter().position(SentRequest::is_write).unwrap();
    let observations = sent[first_write..].iter().filter(|it| it.is_read());
    let lists: Vec<&str> = observations
        .map(|it| it.path.as_str())
        .filter(|path| path.contains("/ports"))
        .collect();
    assert!(!lists.is_empty());
    for path in lists {
        assert_contains(path, "/ports?network_id=");
    }
}

#[tokio::test(start_paused = true)]
async fn i13_a_witness_that_was_deleted_is_replaced_in_the_same_observation() {
    let bench = Bench::new(1);
    let (first, _) = bench.plain_network(10);
    bench.plain_network(1);
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &first).await;
        // One of these ports was the witness for the ports of the deleted network.
        for port in bench.ids("ports") {
            let path = format!("/v2.0/ports/{port}");
            assert_eq!(bench.api("DELETE", &path, Value::Null).0, 204);
        }
        let (second, _) = bench.plain_network(10);
        bench.plain_network(1);
        let id = client.delete_until_gone("network", &second).await.id;
        let timeline = client.timeline(Some(&id), None).await;
        let unclear = timeline.iter().find(|it| it.message.contains("unclear"));
        assert_eq!(unclear, None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i13_a_proxys_page_is_not_absence() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    let page = json!({ "status": 404, "html": true });
    bench.faults(json!([
        { "match": { "method": "DELETE", "kind": "port" }, "times": 1, "action": page },
        { "match": { "method": "DELETE", "kind": "port" }, "times": 1, "action": { "keep": true } },
        { "match": { "method": "GET", "id": ports[0] }, "times": 3, "action": page },
    ]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        let step = client.until_blocked(&id, "port").await;
        assert_eq!(step.last_error.unwrap().status, Some(404));
        client.until_step(&id, "port", StepState::Verifying).await;
        client.until_gone(&id).await;
        // The port was never counted as gone: otherwise the sweep would have started another deletion.
        assert_eq!(client.deletions(Vec::new(), None).await.len(), 1);
    })
    .await;
    assert_eq!(
        bench.answers_to(&ports[0]),
        [Some(404), Some(204), Some(204)]
    );
}

#[tokio::test(start_paused = true)]
async fn i13_the_kinds_own_not_found_is_absence() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 1, "action": { "status": 503 } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_blocked(&id, "port").await;
        // Somebody else deletes the port first.
        bench.api("DELETE", &format!("/v2.0/ports/{}", ports[0]), Value::Null);
        client.until_gone(&id).await;
    })
    .await;
    let last = bench.writes_to(&ports[0]).pop().unwrap();
    assert_eq!(
        (last.status, last.error.as_str()),
        (Some(404), "PortNotFound")
    );
}

#[tokio::test(start_paused = true)]
async fn i13_an_observation_that_fails_is_repeated() {
    let bad = [
        json!({ "status": 500 }),
        json!({ "status": 503 }),
        json!({ "status": 429, "retry_after": 1 }),
        json!({ "status": 502, "html": true }),
        json!({ "truncate": true }),
        json!({ "hang": true }),
        json!({ "drop_after_effect": true }),
        json!({ "empty_list": true }),
    ];
    for action in bad {
        for ports in [1, 12] {
            let bench = Bench::new(1);
            let (network, _) = bench.plain_network(ports);
            let (bystander, _) = bench.plain_network(2);
            with_engine(&bench, async |client| {
                // The plan is made before the faults begin.
                let plan = client.plan("network", &network).await;
                assert!(plan.refused.is_empty());
                let id = client.delete("network", &network).await;
                client.until(&id, |it| it.counts.total > 0).await;
                bench.faults(json!([{ "match": { "method": "GET", "path": "/v2.0/" }, "times": 3, "action": action }]));
                client.until_gone(&id).await;
            })
            .await;
            bench.faults(json!([]));
            assert!(!bench.exists("networks", &network));
            assert!(bench.exists("networks", &bystander));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i10_an_interface_re_created_on_the_same_subnet_is_not_touched() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    bench.faults(json!([{ "match": { "kind": "router_interface" }, "times": 1, "action": { "status": 503, "retry_after": 30 } }]));
    let interface = |bench: &Bench| {
        let ports = bench.rows("ports");
        ports
            .iter()
            .find(|port| {
                port["network_id"] == shop.network.as_str()
                    && port["device_owner"] == "network:router_interface"
            })
            .map(|port| port["id"].as_str().unwrap().to_owned())
    };
    with_engine(&bench, async |client| {
        let old = interface(&bench).unwrap();
        let id = client.delete("network", &shop.network).await;
        client.until_blocked(&id, "router_interface").await;
        let routers = format!("/v2.0/routers/{}", shop.router);
        let body = json!({ "subnet_id": shop.subnet });
        bench.call_ok("PUT", &format!("{routers}/remove_router_interface"), body);
        bench.add_interface(&shop.router, &shop.subnet);
        let new = interface(&bench).unwrap();
        assert_ne!(old, new);
        // The new interface uses the network: it is a newcomer, and a person decides.
        client.until_stuck(&id).await;
        assert_eq!(bench.writes_to(&new), []);
        assert_eq!(interface(&bench), Some(new));
        let step = client.step(&id, "network").await;
        assert_eq!(step.last_error.unwrap().class, ErrorClass::Drift);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_host_clock_that_is_set_neither_stalls_the_deletion_nor_makes_its_clock_jump() {
    for set_by in [-3600, 24 * 3600] {
        let mut bench = Bench::new(1);
        bench.send_one_at_a_time();
        let (network, _) = bench.plain_network(6);
        bench.limits(json!({ "latency_ms": 200 }));
        let offset = Arc::new(AtomicI64::new(0));
        let (host, set) = (bench.clock.clone(), offset.clone());
        bench.clock = Clock::following(Arc::new(move || {
            host.now() + TimeDelta::seconds(set.load(Ordering::Relaxed))
        }));
        with_engine(&bench, async |client| {
            let id = client.delete("network", &network).await;
            client.until(&id, |it| it.counts.gone > 1).await;
            let before = bench.clock.now();
            offset.store(set_by, Ordering::Relaxed);
            let began = tokio::time::Instant::now();
            client.until_gone(&id).await;
            let took = began.elapsed();
            assert!(took < Duration::from_secs(120), "{set_by}: {took:?}");
            let passed = (bench.clock.now() - before).to_std().unwrap();
            assert!(passed <= took * 60, "{set_by}: {passed:?} in {took:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn i13_an_absence_does_not_count_while_the_identity_of_the_plan_cannot_be_read() {
    let mut bench = Bench::new(1);
    bench.planted_fault = PlantedFault::CannotReadIdentity;
    let (_, ports) = bench.plain_network(1);
    let id = with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(!bench.exists("ports", &ports[0]));
        let step = client.steps(&id).await.remove(0);
        assert_eq!(step.state, StepState::Verifying, "{step:?}");
        let error = step.last_error.unwrap();
        assert!(error.message.contains("cannot be read"), "{error:?}");
        id
    })
    .await;
    bench.planted_fault = PlantedFault::None;
    with_engine(&bench, async |client| client.until_gone(&id).await).await;
}

#[tokio::test(start_paused = true)]
async fn n13_a_delete_whose_error_leaves_its_outcome_open_is_observed_before_it_is_repeated() {
    // The answers of a service and of proxies, each with the number of attempts that it uses up.
    for (action, attempts) in [
        (json!({ "status": 500 }), 1),
        (json!({ "status": 502, "html": true }), 0),
        (json!({ "status": 504 }), 0),
    ] {
        let bench = Bench::new(1);
        let (_, ports) = bench.plain_network(1);
        let delete = json!({ "method": "DELETE", "id": ports[0] });
        bench.faults(json!([{ "match": delete, "times": 1, "action": action }]));
        with_engine(&bench, async |client| {
            let id = client.delete("port", &ports[0]).await;
            let step = client.until_step(&id, "port", StepState::Verifying).await;
            let error = step.last_error.unwrap();
            assert_eq!(error.class, ErrorClass::OutcomeUnknown, "{action}");
            assert_eq!(error.status.map(u64::from), action["status"].as_u64());
            let step = client.until_blocked(&id, "port").await;
            let error = step.last_error.unwrap();
            assert_eq!(error.class, ErrorClass::Unavailable, "{action}");
            assert_eq!(step.attempts, attempts, "{action}");
            client.until_gone(&id).await;
        })
        .await;
        let sent = bench.sent();
        let is_delete = |sent: &SentRequest| sent.method == "DELETE";
        let first = sent.iter().position(is_delete).unwrap();
        let second = sent.iter().rposition(is_delete).unwrap();
        assert!(first < second, "{action}");
        let observations = &sent[first + 1..second];
        assert!(
            observations
                .iter()
                .any(|sent| sent.path.starts_with("/v2.0/ports")),
            "{action}: {observations:#?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn n13_a_delete_that_took_effect_despite_an_error_is_not_repeated() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    // The proxy answers after a second; meanwhile Neutron performs the delete.
    let proxy = json!({ "match": { "method": "DELETE" }, "times": 1, "action": { "status": 504, "delay_ms": 1000 } });
    bench.faults(json!([proxy]));
    with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        client.until_step(&id, "port", StepState::Running).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.api("DELETE", &format!("/v2.0/ports/{}", ports[0]), Value::Null);
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(bench.writes_to(&ports[0]).len(), 1);
}
