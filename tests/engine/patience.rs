//! Reads of a cloud, such as those of a plan, are repeated as deletes are, and obey the same limits (N16).

use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use gone::control::{TargetSpec, query};
use gone::domain::model::DeletionState;
use gone::system::clock::Clock;
use serde_json::{Value, json};

use super::client::delete_command;
use super::harness::*;

/// Answers of a service that throttles (429 and 413), is unavailable (503) or fails (500).
fn throttled_or_unavailable() -> [Value; 4] {
    [
        json!({ "status": 429, "retry_after": 1 }),
        json!({ "status": 413, "retry_after": 1 }),
        json!({ "status": 503, "html": true }),
        json!({ "status": 500, "message": "the database is away" }),
    ]
}

#[tokio::test(start_paused = true)]
async fn n16_a_list_or_a_login_that_fails_twice_does_not_refuse_the_deletion() {
    for answer in throttled_or_unavailable() {
        for matched in [
            json!({ "method": "GET", "kind": "port" }),
            json!({ "method": "GET" }),
            json!({ "method": "POST", "path": "*/auth/tokens" }),
        ] {
            let bench = Bench::new(1);
            let (network, _) = bench.plain_network(2);
            bench.faults(json!([{ "match": matched, "times": 2, "action": answer }]));
            bench.delete_until_gone("network", &network).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n16_a_throttled_delete_uses_no_attempt_for_a_429_or_a_413() {
    for answer in &throttled_or_unavailable()[..2] {
        let bench = Bench::new(1);
        let (network, ports) = bench.plain_network(1);
        bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 3, "action": answer }]));
        with_engine(&bench, async |client| {
            let id = client.delete("network", &network).await;
            client.until_blocked(&id, "port").await;
            client.until_gone(&id).await;
            assert_eq!(client.step(&id, "port").await.attempts, 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn n16_a_site_gets_no_deletes_until_its_retry_after_has_passed() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(40);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 1, "action": { "status": 429, "retry_after": 20 } }]));
    bench.delete_until_gone("network", &network).await;
    let sent = bench.sent();
    let throttled = sent.iter().find(|call| call.status == Some(429)).unwrap();
    let after = sent.iter().filter(|call| {
        let seconds = (call.at - throttled.at).num_seconds();
        call.method == "DELETE" && (1..19).contains(&seconds)
    });
    assert_eq!(
        after.count(),
        0,
        "deletes were sent before the Retry-After of the 429 had passed"
    );
}

#[tokio::test(start_paused = true)]
async fn n16_a_ledger_read_error_does_not_turn_a_refused_delete_into_drift() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    let away = |port: &str| json!({ "match": { "method": "DELETE", "id": port }, "action": { "status": 503 } });
    bench.faults(json!([away(&ports[0])]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_blocked(&id, "port").await;
        // This port appears after the plan, and another deletion deletes it.
        let late = bench.create("ports", json!({ "network_id": network }));
        bench.faults(json!([away(&late)]));
        let own = client.delete("port", &late).await;
        client.until_blocked(&own, "port").await;
        bench.crash.cannot_read.store(true, Ordering::SeqCst);
        let blocked = client.until_blocked(&id, "network").await;
        let why = blocked.last_error.unwrap().message;
        assert_contains(&why, "could not be determined: cannot read or write");
        bench.crash.cannot_read.store(false, Ordering::SeqCst);
        bench.faults(json!([]));
        client.until_gone(&own).await;
        client.until_gone(&id).await;
    })
    .await;
}

/// Requests the deletion of a target, with a deadline this long from now. Returns the id of the deletion.
async fn delete_within(
    client: &Client,
    clock: &Clock,
    target: TargetSpec,
    wait: TimeDelta,
) -> String {
    let command = delete_command(vec![target], cascade());
    let deadline = clock.now() + wait;
    let receipt = client.submit_until(command, Some(deadline)).await;
    receipt.unwrap().into_accepted().unwrap().deletion_id
}

#[tokio::test(start_paused = true)]
async fn n16_a_plan_with_a_deadline_waits_for_minutes_for_an_unavailable_cloud() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(2);
    let lists = json!({ "method": "GET", "path": "/v2.0/ports$" });
    let away = json!({ "match": lists, "times": 40, "action": { "status": 503 } });
    with_engine(&bench, async |client| {
        bench.faults(json!([away]));
        let target = target("network", &network);
        let patient = TimeDelta::minutes(30);
        let id = delete_within(&client, &bench.clock, target, patient).await;
        let waiting = client.until(&id, |it| !it.note.is_empty()).await;
        assert_eq!(waiting.state, DeletionState::Planning);
        assert_contains(&waiting.note, "still planning");
        assert_contains(&waiting.note, "Service Unavailable");
        let done = client.until_gone(&id).await;
        let took = done.finished_at.unwrap() - done.requested_at;
        assert!(took > TimeDelta::minutes(2), "{took}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n16_a_plan_whose_cloud_stays_unavailable_is_refused_at_its_deadline() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(2);
    with_engine(&bench, async |client| {
        bench.faults(json!([{ "match": { "method": "GET", "path": "/v2.0/ports$" }, "action": { "status": 503 } }]));
        for (wait, within) in [(0, 2), (5, 7)] {
            let (wait, within) = (TimeDelta::minutes(wait), TimeDelta::minutes(within));
            let target = target("network", &network);
            let id = delete_within(&client, &bench.clock, target, wait).await;
            let ended = client.until_terminal(&id).await;
            assert_eq!(ended.state, DeletionState::Refused);
            let took = ended.finished_at.unwrap() - ended.requested_at;
            assert!(took >= wait && took < within, "{took} of {wait}");
        }
        assert!(bench.writes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n16_plans_that_wait_for_one_region_do_not_delay_a_plan_at_another() {
    let bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    // These are twice as many plans as the engine makes at a time, and one more.
    let networks: Vec<String> = (0..9).map(|_| bench.plain_network(0).0).collect();
    let seeded =
        bench.seed(json!({ "region": "RegionTwo", "networks": 1, "ports_per_network": 1 }));
    let elsewhere = seeded["networks"][0].as_str().unwrap().to_owned();
    with_engine(&bench, async |client| {
        bench.faults(json!([{ "match": { "region": "RegionOne", "method": "GET", "path": "/v2.0/ports$" }, "action": { "status": 503 } }]));
        let mut waiting = Vec::new();
        for network in &networks {
            let target = target("network", &format!("{network}@envvars/RegionOne"));
            let wait = TimeDelta::hours(12);
            waiting.push(delete_within(&client, &bench.clock, target, wait).await);
        }
        let id = client.delete("network", &format!("{elsewhere}@envvars/RegionTwo")).await;
        let done = client.until_gone(&id).await;
        let took = done.finished_at.unwrap() - done.requested_at;
        assert!(took < TimeDelta::minutes(5), "{took}");
        bench.faults(json!([]));
        for id in waiting {
            client.until_gone(&id).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n12_a_plan_that_the_ledger_refuses_ends_its_deletion() {
    let mut bench = Bench::new(1);
    bench.planted_fault = PlantedFault::RefusesPlans;
    let (_, ports) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        let refused = client.until(&id, |it| it.finished_at.is_some()).await;
        assert_eq!(refused.state, DeletionState::Refused);
        assert_contains(&refused.note, "the ledger cannot store this");
        let before = bench.sent().len();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let lists = bench.sent().split_off(before);
        assert!(
            lists.len() < 20,
            "the deletion was planned again: {lists:?}"
        );
    })
    .await;
    assert!(bench.exists("ports", &ports[0]));
}

#[tokio::test(start_paused = true)]
async fn n16_reads_pause_between_attempts_even_if_retry_after_is_zero() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let action = json!({ "status": 503, "retry_after": 0 });
        bench.faults(
            json!([{ "match": { "method": "GET", "path": "/v2.0/ports$" }, "action": action }]),
        );
        let before = bench.sent().len();
        let target = target("network", &network);
        let id = delete_within(&client, &bench.clock, target, TimeDelta::minutes(10)).await;
        client.until(&id, |it| it.finished_at.is_some()).await;
        let reads = bench.sent().split_off(before);
        let reads = reads
            .iter()
            .filter(|sent| sent.path.contains("/ports"))
            .count();
        assert!(reads < 200, "{reads} in 10 minutes");
    })
    .await;
}

/// Deletes a project with at least a hundred resources. Returns the numbers of its steps, of the calls that the limit
/// let through and of those that it refused, and the seconds that the deletion took.
fn delete_a_project(rate_limit: Option<RateLimit>) -> (usize, usize, usize, f64) {
    paused(async {
        let bench = Bench::new(1);
        bench.furnish_demo();
        let project = bench.demo_project();
        let network = json!({ "name": "wide", "project_id": project });
        let network = bench.create("networks", network);
        for _ in 0..90 {
            bench.create(
                "ports",
                json!({ "network_id": network, "project_id": project }),
            );
        }
        bench.limits(json!({ "latency_ms": 50 }));
        with_engine(&bench, async |_| {
            tokio::time::sleep(Duration::from_secs(5)).await
        })
        .await;
        let before = bench.sent().len();
        *bench.rate_limit.lock().unwrap() = rate_limit;
        let (steps, took) = with_engine(&bench, async |client| {
            let id = client.delete("project", "demo").await;
            let done = client.until_gone(&id).await;
            let took = done.finished_at.unwrap() - done.requested_at;
            assert_eq!(done.counts.gone, done.counts.total);
            for step in client.steps(&id).await {
                assert_eq!(step.attempts, 0, "{step:#?}");
            }
            (done.counts.total as usize, took.as_seconds_f64())
        })
        .await;
        let sent = bench.sent().split_off(before);
        let refused = sent.iter().filter(|call| call.status == Some(429)).count();
        (steps, sent.len() - refused, refused, took)
    })
}

#[test]
fn n16_a_project_behind_a_rate_limit_takes_at_most_a_tenth_longer_than_the_limit_allows() {
    let (steps, needed, _, unlimited) = delete_a_project(None);
    assert!(steps >= 100, "{steps}");
    // The limit allows bursts as large as the calls of one second, or of two.
    for (burst, retry_after) in [(10.0, None), (10.0, Some(1)), (20.0, Some(1))] {
        let rate_limit = RateLimit::new(10.0, burst, retry_after);
        let (limited, passed, refused, took) = delete_a_project(Some(rate_limit));
        assert_eq!(limited, steps);
        let allowed = passed as f64 / 10.0;
        let words = format!(
            "burst {burst}, Retry-After {retry_after:?}: {steps} steps, {passed} calls of {needed} and {refused} refused in {took:.1} s; \
             allowed {allowed:.1} s, unlimited {unlimited:.1} s"
        );
        assert!(took <= allowed * 1.1, "{words}");
        assert!(refused * 10 <= passed + refused, "{words}");
        assert!(passed as f64 <= needed as f64 * 1.1, "{words}");
    }
}

/// The lists that people request and the counts of a project are read with permits, too.
#[tokio::test(start_paused = true)]
async fn n16_after_a_throttled_list_of_a_person_the_site_is_read_only_when_its_retry_after_has_passed()
 {
    for (kind, throttled) in [("port", "port"), ("project", "router")] {
        let bench = Bench::new(1);
        bench.plain_network(2);
        let answer = json!({ "status": 429, "retry_after": 30 });
        bench.faults(json!([{ "match": { "method": "GET", "kind": throttled }, "times": 1, "action": answer }]));
        with_engine(&bench, async |client| {
            let list = async |kind: &str| {
                let resources = query::Resources {
                    kind: kind.into(),
                    ..query::Resources::default()
                };
                client.control.ask(resources).await.unwrap()
            };
            list(kind).await;
            let before = tokio::time::Instant::now();
            list("network").await;
            assert!(before.elapsed() >= Duration::from_secs(29), "{kind}");
        })
        .await;
    }
}
