//! Reading a cloud is as patient as deleting from it (N16).

use std::sync::atomic::Ordering;

use gone::domain::model::StepState;
use serde_json::{Value, json};

use super::harness::*;

/// How a busy, an overloaded and an absent service answer.
fn busy() -> [Value; 4] {
    [
        json!({ "status": 429, "retry_after": 1 }),
        json!({ "status": 413, "retry_after": 1 }),
        json!({ "status": 503, "html": true }),
        json!({ "status": 500, "message": "the database is away" }),
    ]
}

#[test]
fn n16_a_list_or_a_login_that_is_throttled_or_away_for_a_while_refuses_nothing() {
    for answer in busy() {
        for matched in [
            json!({ "method": "GET", "kind": "port" }),
            json!({ "method": "GET" }),
            json!({ "method": "POST", "path": "*/auth/tokens" }),
        ] {
            paused(async {
                let bench = Bench::new(1);
                let (network, _) = bench.plain_network(2);
                bench.faults(json!([{ "match": matched, "times": 2, "action": answer }]));
                bench
                    .run(async |client| {
                        let id = client.delete("network", &network).await;
                        client.gone(&id).await;
                    })
                    .await
                    .unwrap();
            });
        }
    }
}

#[test]
fn n16_a_delete_over_the_limit_uses_no_attempt_whichever_status_says_so() {
    for answer in &busy()[..2] {
        paused(async {
            let bench = Bench::new(1);
            let (network, ports) = bench.plain_network(1);
            bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 3, "action": answer }]));
            bench
                .run(async |client| {
                    let id = client.delete("network", &network).await;
                    client.until_step(&id, "port", StepState::Blocked).await;
                    client.gone(&id).await;
                    assert_eq!(client.step(&id, "port").await.attempts, 0);
                })
                .await
                .unwrap();
        });
    }
}

#[test]
fn n16_a_site_that_asks_for_time_is_left_alone_for_as_long() {
    paused(async {
        let bench = Bench::new(1);
        let (network, ports) = bench.plain_network(40);
        bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 1, "action": { "status": 429, "retry_after": 20 } }]));
        bench
            .run(async |client| {
                let id = client.delete("network", &network).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
        let sent = bench.sent();
        let told = sent.iter().find(|call| call.status == Some(429)).unwrap();
        let after = sent.iter().filter(|call| {
            let seconds = (call.at - told.at).num_seconds();
            call.method == "DELETE" && (1..19).contains(&seconds)
        });
        assert_eq!(
            after.count(),
            0,
            "calls were in flight when it was told, and none after"
        );
    });
}

#[test]
fn n16_a_ledger_that_cannot_be_read_for_a_moment_makes_no_drift_of_a_refusal() {
    paused(async {
        let bench = Bench::new(1);
        let (network, ports) = bench.plain_network(1);
        let away = |port: &str| json!({ "match": { "method": "DELETE", "id": port }, "action": { "status": 503 } });
        bench.faults(json!([away(&ports[0])]));
        bench
            .run(async |client| {
                let id = client.delete("network", &network).await;
                client.until_step(&id, "port", StepState::Blocked).await;
                // It came after the plan, and goes by a deletion of its own.
                let late = bench.create("ports", json!({ "network_id": network }));
                bench.faults(json!([away(&late)]));
                let own = client.delete("port", &late).await;
                client.until_step(&own, "port", StepState::Blocked).await;
                bench.crash.cannot_read.store(true, Ordering::SeqCst);
                let blocked = client.until_step(&id, "network", StepState::Blocked).await;
                let why = blocked.last_error.unwrap().message;
                assert!(
                    why.contains("could not be found out: cannot write"),
                    "{why}"
                );
                bench.crash.cannot_read.store(false, Ordering::SeqCst);
                bench.faults(json!([]));
                client.gone(&own).await;
                client.gone(&id).await;
            })
            .await
            .unwrap();
    });
}
