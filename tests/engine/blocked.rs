//! Blocked steps: attempts and their schedule, reasons and blockers, and when a person is needed.

use std::time::Duration;

use super::harness::*;
use chrono::TimeDelta;
use gone::control::{Command, NotEligible, Receipt, RetryFilter};
use gone::domain::model::{
    Action, DeletionState, DriftPolicy, ErrorClass, EventKind, PlanOptions, RefusalRule, StepState,
};
use gone::system::config::ProtectRule;
use serde_json::{Value, json};

const MINUTE: i64 = 60;

fn in_use(id: &str) -> Value {
    json!([{ "match": { "method": "DELETE", "id": id }, "action": { "status": 409, "type": "PortInUse", "message": "a server holds it" } }])
}

#[tokio::test(start_paused = true)]
async fn i01_each_answer_to_a_delete_sets_the_error_class_the_state_and_the_attempts() {
    use ErrorClass::{Blocked, Fatal, Unavailable};
    // The answer, its error class, and the attempts that it uses; none if the step is stuck at once.
    let answers = [
        (
            json!({"status": 409, "type": "PortInUse"}),
            Blocked,
            Some(1),
        ),
        (json!({ "status": 429 }), Unavailable, Some(0)),
        (json!({ "status": 503 }), Unavailable, Some(0)),
        (json!({ "status": 502, "html": true }), Unavailable, Some(0)),
        (json!({ "status": 500 }), Unavailable, Some(1)),
        (json!({ "status": 404, "html": true }), Unavailable, Some(1)),
        (
            json!({"status": 400, "type": "HTTPBadRequest"}),
            Fatal,
            None,
        ),
        (
            json!({"status": 403, "type": "PolicyNotAuthorized"}),
            Fatal,
            None,
        ),
    ];
    for (action, class, attempts) in answers {
        let bench = Bench::new(1);
        let (_, ports) = bench.plain_network(1);
        bench.faults(json!([{ "match": { "method": "DELETE" }, "times": 1, "action": action }]));
        with_engine(&bench, async |client| {
            let id = client.delete("port", &ports[0]).await;
            let wanted = match attempts {
                Some(_) => StepState::Blocked,
                None => StepState::Stuck,
            };
            let step = client.until_step(&id, "port", wanted).await;
            let error = step.last_error.clone().unwrap();
            assert_eq!(error.class, class, "{action}");
            let used = attempts.unwrap_or(0);
            assert_eq!(step.attempts, used, "{action}: {step:#?}");
            if attempts.is_none() {
                client.until_stuck(&id).await;
                client.retry(&id).await;
            }
            client.until_gone(&id).await;
        })
        .await;
        assert_eq!(bench.writes().len(), 2, "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn n13_the_second_delete_waits_as_long_as_retry_after_asks() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    bench.faults(json!([{ "match": { "method": "DELETE" }, "times": 1, "action": { "status": 429, "retry_after": 40 } }]));
    bench.delete_until_gone("port", &ports[0]).await;
    let writes = bench.writes();
    assert!(
        writes[1].at - writes[0].at >= TimeDelta::seconds(40),
        "{writes:#?}"
    );
    assert!(writes[1].at - writes[0].at < TimeDelta::seconds(60));
}

/// A call that the cloud could not serve counts as failed.
#[tokio::test(start_paused = true)]
async fn a_site_reports_the_share_of_its_calls_that_failed() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(3);
    bench.faults(json!([{ "match": { "method": "DELETE" }, "times": 1, "action": { "status": 503, "retry_after": 5 } }]));
    with_engine(&bench, async |client| {
        assert_eq!(client.site_status().await.error_percent, None);
        client.delete_until_gone("network", &network).await;
        // Three ports and their network were deleted, and one more call failed.
        assert_eq!(client.site_status().await.error_percent, Some(20));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i02_i03_i07_attempts_follow_the_schedule_and_end_stuck_with_one_needs_person_event() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 5;
    bench.settings.engine.sweep = Duration::from_secs(6 * 3600);
    let (network, ports) = bench.plain_network(2);
    bench.faults(in_use(&ports[0]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        let blocked = client.until_blocked(&id, "port").await;
        assert_eq!(blocked.resource.key.id, ports[0]);
        assert_eq!(blocked.attempts, 1);
        assert!(blocked.next_attempt_at.unwrap() > bench.clock.now());
        assert_eq!(blocked.last_error.unwrap().message, "a server holds it");
        client.until_stuck(&id).await;
        let step = client.step_of(&id, &ports[0]).await;
        assert_eq!((step.attempts, step.next_attempt_at), (5, None));
        // The step stays stuck, nothing more is sent, and nobody is notified twice.
        tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
        assert_eq!(client.deletion(&id).await.state, DeletionState::Stuck);
        let lines = client.timeline(Some(&id), None).await;
        let notified = lines
            .iter()
            .filter(|line| line.kind == EventKind::NeedsPerson);
        assert_eq!(notified.count(), 1);
    })
    .await;
    let times: Vec<_> = bench
        .writes_to(&ports[0])
        .iter()
        .map(|sent| sent.at)
        .collect();
    let waits: Vec<i64> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).num_seconds())
        .collect();
    assert_eq!(waits.len(), 4);
    for (wait, planned) in waits
        .iter()
        .zip([MINUTE, 5 * MINUTE, 15 * MINUTE, 60 * MINUTE])
    {
        assert!(
            (planned..=planned * 11 / 10 + 1).contains(wait),
            "{waits:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn i04_the_request_triggers_the_delete_once_and_returns_at_once() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    bench.faults(in_use(&ports[0]));
    with_engine(&bench, async |client| {
        let before = bench.clock.now();
        let id = client.delete("port", &ports[0]).await;
        assert!(bench.clock.now() - before < TimeDelta::seconds(1));
        client.until_blocked(&id, "port").await;
        assert!(bench.clock.now() - before < TimeDelta::seconds(1));
        assert_eq!(bench.writes().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i05_the_retry_worker_takes_only_the_steps_that_are_due() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    bench.faults(json!([
        { "match": { "method": "DELETE", "id": ports[0] }, "times": 1, "action": { "status": 409, "type": "PortInUse" } },
        { "match": { "method": "DELETE", "id": ports[1] }, "times": 2, "action": { "status": 409, "type": "PortInUse" } },
    ]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        // Both ports are due after a minute; the one that is blocked again is due after the second wait.
        client.until(&id, |it| it.counts.gone == 1).await;
        assert_eq!(bench.writes_to(&ports[0]).len(), 2);
        assert_eq!(bench.writes_to(&ports[1]).len(), 2);
        let step = client.step_of(&id, &ports[1]).await;
        let due = step.next_attempt_at.unwrap();
        tokio::time::sleep((due - bench.clock.now()).to_std().unwrap() - Duration::from_secs(1))
            .await;
        assert_eq!(bench.writes_to(&ports[1]).len(), 2);
        client.until_gone(&id).await;
        assert_eq!(bench.writes_to(&ports[1]).len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i06_a_step_blocked_by_another_deletion_uses_no_attempt_and_is_stuck_after_10_minutes() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    let unavailable = |port: &str| json!({ "match": { "method": "DELETE", "id": port }, "action": { "status": 503 } });
    bench.faults(json!([unavailable(&ports[0])]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_blocked(&id, "port").await;
        // This port appears after the plan. Another deletion deletes it, and the port blocks the network until then.
        let late = bench.create("ports", json!({ "network_id": network }));
        bench.faults(json!([unavailable(&late)]));
        let port = client.delete("port", &late).await;
        let blocked = client.until_blocked(&id, "network").await;
        assert_eq!(blocked.attempts, 0, "{blocked:#?}");
        let blocker = &blocked.blockers[0];
        assert_eq!(
            (blocker.kind.as_str(), blocker.id.as_str()),
            ("port", late.as_str())
        );
        let stuck = client.until_step(&id, "network", StepState::Stuck).await;
        assert_eq!(stuck.attempts, 0);
        let age = bench.clock.now() - stuck.blocked_since.unwrap();
        assert!(
            (10 * MINUTE..12 * MINUTE).contains(&age.num_seconds()),
            "{age}"
        );
        bench.faults(json!([]));
        client.until_gone(&port).await;
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i06_a_network_is_deleted_once_another_deletion_has_removed_its_port() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 4, "action": { "status": 503 } }]));
    with_engine(&bench, async |client| {
        let port = client.delete("port", &ports[0]).await;
        client.until_blocked(&port, "port").await;
        let id = client.delete_until_gone("network", &network).await.id;
        assert_eq!(client.step(&id, "network").await.attempts, 0);
        client.until_gone(&port).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p02_a_forbidden_delete_is_explained_by_the_missing_role_and_not_by_a_blocker() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "action": { "status": 403, "type": "PolicyNotAuthorized" } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        for (kind, id) in [("port", &ports[0]), ("network", &network)] {
            let next = client.explain(kind, id).await.next_action;
            assert!(
                next.contains("your role may not do this") && !next.contains("blocks"),
                "{next}"
            );
            assert_contains(&next, "then: gone retry ");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n12_a_step_that_waits_for_a_stuck_step_is_stuck_and_names_it() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 1;
    let (network, ports) = bench.plain_network(3);
    bench.faults(in_use(&ports[1]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        let deletion = client.until_stuck(&id).await;
        assert_eq!(deletion.counts.live(), 0, "a step waits for ever");
        assert_contains(&deletion.note, "a server holds it");
        let waiting = client.step_of(&id, &network).await;
        let error = waiting.last_error.unwrap();
        assert_eq!(error.kind, "DependencyStuck");
        assert_contains(&error.message, &ports[1]);
        let why = client.explain("port", &ports[1]).await;
        assert!(!why.next_action.is_empty());
        assert!(
            why.lines
                .iter()
                .any(|line| line.contains("a server holds it")),
            "{why:#?}"
        );
        // The explanation of a step that waits names the stuck step, its error and the next action.
        let root = client.step_of(&id, &ports[1]).await;
        let why = client.explain("network", &network).await;
        let said = format!("step {} delete port", root.id);
        assert!(
            why.lines
                .iter()
                .any(|line| line.contains(&said) && line.contains("a server holds it")),
            "{why:#?}"
        );
        let purge = format!("gone purge {}", root.id);
        assert_contains(&why.next_action, &purge);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_a_newcomer_during_the_deletion_makes_its_step_stuck_and_is_listed() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 3, "action": { "status": 503 } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_blocked(&id, "port").await;
        let newcomer = bench.create("ports", json!({ "network_id": network, "name": "late" }));
        client.until_stuck(&id).await;
        let step = client.step(&id, "network").await;
        assert_eq!(step.last_error.unwrap().class, ErrorClass::Drift);
        let listed: Vec<_> = step
            .blockers
            .iter()
            .map(|blocker| (blocker.id.as_str(), blocker.name.as_str(), blocker.in_plan))
            .collect();
        assert_eq!(listed, [(newcomer.as_str(), "late", false)]);
        assert_eq!(bench.writes_to(&newcomer), []);
        bench.api("DELETE", &format!("/v2.0/ports/{newcomer}"), Value::Null);
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_a_deletion_that_absorbs_drift_removes_a_newcomer_by_a_deletion_of_its_own() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 3, "action": { "status": 503 } }]));
    with_engine(&bench, async |client| {
        let options = PlanOptions {
            drift: DriftPolicy::Absorb,
            ..cascade()
        };
        let id = client.delete_with("network", &network, options).await;
        client.until_blocked(&id, "port").await;
        let newcomer = bench.create("ports", json!({ "network_id": network }));
        let blocked = client.until_blocked(&id, "network").await;
        assert_eq!(blocked.blockers[0].id, newcomer);
        assert_eq!(
            blocked.attempts, 0,
            "a blocker that is being deleted used an attempt"
        );
        client.until_gone(&id).await;
        assert!(!bench.ids("ports").contains(&newcomer));
        let caused = client.caused_by(&id).await;
        assert_eq!(caused[0].targets[0].key.id, newcomer);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p02_a_blocker_is_named_with_kind_id_name_owner_and_since_when() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let demo = bench.demo_project();
    // The removal of the interface is delayed until a floating IP of another project is on a new port.
    bench.faults(json!([{ "match": { "kind": "router_interface" }, "times": 1, "action": { "status": 503, "retry_after": 30 } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &shop.network).await;
        client.until_blocked(&id, "router_interface").await;
        let port = bench.create("ports", json!({ "network_id": shop.network }));
        let fip = bench.add_floating_ip(&port, &demo);
        let (_, row) = bench.api("GET", &format!("/v2.0/floatingips/{fip}"), Value::Null);
        let address = row["floatingip"]["floating_ip_address"]
            .as_str()
            .unwrap()
            .to_owned();
        let step = client
            .until_any_step(&id, |step| {
                step.resource.key.kind.as_str() == "router_interface" && !step.blockers.is_empty()
            })
            .await;
        let blocker = &step.blockers[0];
        assert_eq!(
            (
                blocker.kind.as_str(),
                &blocker.id,
                &blocker.name,
                &blocker.owner,
                blocker.in_plan
            ),
            ("floating_ip", &fip, &address, &demo, false)
        );
        assert_eq!(blocker.owner_name, "demo");
        assert!(blocker.since.is_some());
        let error = step.last_error.unwrap();
        assert_eq!(
            (error.status, error.kind.as_str()),
            (Some(409), "RouterInterfaceInUseByFloatingIP")
        );
        assert!(error.request_id.starts_with("req-"));
        // The floating IP is disassociated, and its port is deleted.
        bench.api(
            "PUT",
            &format!("/v2.0/floatingips/{fip}"),
            json!({ "floatingip": { "port_id": null } }),
        );
        bench.api("DELETE", &format!("/v2.0/ports/{port}"), Value::Null);
        client.retry(&id).await;
        client.until_gone(&id).await;
        let lines = client.timeline(Some(&id), Some(step.id)).await;
        let attempts: Vec<_> = lines
            .iter()
            .filter(|line| line.kind == EventKind::Attempt)
            .map(|line| line.data["status"].clone())
            .collect();
        assert_eq!(attempts[..2], [json!(503), json!(409)], "{lines:#?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n15_p02_a_blocker_before_the_start_refuses_the_deletion_and_is_named() {
    let bench = Bench::new(1);
    let shop = bench.shop(1);
    let demo = bench.demo_project();
    let port = bench.create("ports", json!({ "network_id": shop.network }));
    let fip = bench.add_floating_ip(&port, &demo);
    with_engine(&bench, async |client| {
        let id = client.delete("network", &shop.network).await;
        let deletion = client.until_refused(&id).await;
        let refusal = deletion
            .refused
            .iter()
            .find(|refusal| refusal.rule == RefusalRule::OtherProject)
            .unwrap();
        let blocker = refusal.blocker.as_ref().unwrap();
        assert_eq!(
            (blocker.kind.as_str(), &blocker.id, &blocker.owner),
            ("floating_ip", &fip, &demo)
        );
    })
    .await;
    assert_eq!(bench.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn i12_a_hanging_delete_does_not_delay_the_other_steps() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(40);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[7] }, "times": 3, "action": { "hang": true } }]));
    with_engine(&bench, async |client| {
        let began = bench.clock.now();
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone == 39).await;
        let took = bench.clock.now() - began;
        assert!(took < TimeDelta::seconds(30), "{took}");
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(bench.writes_to(&ports[7]).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn i12_hanging_deletes_up_to_the_concurrency_limit_delay_another_deletion_only_briefly() {
    let bench = Bench::new(1);
    let limit = u32::try_from(bench.settings.engine.concurrency).unwrap();
    let (hanging, ports) = bench.plain_network(limit);
    let (network, _) = bench.plain_network(10);
    let hang = |port: &String| json!({ "match": { "method": "DELETE", "id": port }, "times": 1, "action": { "hang": true } });
    bench.faults(ports.iter().map(hang).collect());
    with_engine(&bench, async |client| {
        let first = client.delete("network", &hanging).await;
        client
            .until(&first, |it| it.counts.running == u64::from(limit))
            .await;
        let began = bench.clock.now();
        client.delete_until_gone("network", &network).await;
        let took = bench.clock.now() - began;
        assert!(took < TimeDelta::seconds(10), "{took}");
        client.until_gone(&first).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n12_a_trunk_disabled_during_the_deletion_is_stuck_with_that_error_and_no_blockers() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 2;
    let shop = bench.shop(1);
    let set = |is_up: bool| bench.set_trunk_state(&shop.trunk, is_up);
    bench.faults(json!([{ "match": { "method": "DELETE", "kind": "trunk" }, "times": 1, "action": { "status": 503 } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &shop.network).await;
        client.until_blocked(&id, "trunk").await;
        set(false);
        client.until_stuck(&id).await;
        let step = client.step_of(&id, &shop.trunk).await;
        assert_eq!(step.attempts, 2, "{step:#?}");
        assert_eq!(step.last_error.unwrap().kind, "TrunkDisabled");
        assert_eq!(step.blockers, []);
        set(true);
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n12_a_retry_repeats_an_enable_that_the_cloud_confirmed_but_did_not_do() {
    for whole in [true, false] {
        let mut bench = Bench::new(1);
        bench.settings.gc.max_attempts = 2;
        let shop = bench.shop(1);
        bench.set_trunk_state(&shop.trunk, false);
        bench.faults(json!([{ "match": { "method": "PUT", "kind": "trunk" }, "times": 1, "action": { "keep": true } }]));
        with_engine(&bench, async |client| {
            let id = client.delete("network", &shop.network).await;
            client.until_stuck(&id).await;
            let stuck = client
                .until_any_step(&id, |step| {
                    step.state == StepState::Stuck
                        && step.action == Action::Delete
                        && step.resource.key.id == shop.trunk
                })
                .await;
            assert_eq!(stuck.last_error.clone().unwrap().kind, "TrunkDisabled");
            if whole {
                client.retry(&id).await;
            } else {
                let command = Command::RetryStep { step_id: stuck.id };
                client.submit(command).await.unwrap();
            }
            client.until_gone(&id).await;
        })
        .await;
        let calls = bench.writes_to(&shop.trunk);
        let calls: Vec<_> = calls
            .iter()
            .map(|sent| (&*sent.method, sent.status))
            .collect();
        let refused = ("DELETE", Some(409));
        let enabled = ("PUT", Some(200));
        assert_eq!(
            calls,
            [enabled, refused, refused, enabled, ("DELETE", Some(204))],
            "the whole deletion: {whole}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn p04_a_bulk_retry_skips_protected_steps_and_steps_that_wait() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 1;
    let (network, ports) = bench.plain_network(6);
    let rule = |port: &String, status: u16, error_type: &str| json!({ "match": { "method": "DELETE", "id": port }, "action": { "status": status, "type": error_type } });
    bench.faults(json!([
        rule(&ports[0], 409, "SomethingInUse"),
        rule(&ports[1], 409, "SomethingInUse"),
        rule(&ports[2], 403, "PolicyNotAuthorized"),
    ]));
    let path = format!("/v2.0/ports/{}", ports[1]);
    bench.api("PUT", &path, json!({ "port": { "name": "keep-this" } }));
    let id = with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        id
    })
    .await;
    bench.faults(json!([]));
    bench.settings.guard.protect = vec![ProtectRule {
        name: Some("keep-*".into()),
        ..ProtectRule::default()
    }];
    with_engine(&bench, async |client| {
        let retried = async |filter: RetryFilter, dry_run| {
            let filter = Box::new(filter);
            let command = Command::RetryMatching { filter, dry_run };
            match client.submit(command).await.unwrap() {
                Receipt::Bulk(retried) => retried,
                other => panic!("{other:?}"),
            }
        };
        let in_use = || RetryFilter {
            error_type: Some("SomethingInUse".into()),
            ..RetryFilter::default()
        };
        let counted = retried(in_use(), true).await;
        assert_eq!((counted.eligible, counted.moved), (1, 0));
        let why = |reason: &str| NotEligible {
            reason: reason.into(),
            steps: 1,
        };
        assert_eq!(
            counted.not_eligible,
            [why("the resource is protected: name keep-*")]
        );
        let all = retried(RetryFilter::default(), true).await;
        assert_eq!(all.eligible, 2);
        let waits = why("waits for another step that is stuck");
        assert_eq!(
            all.not_eligible,
            [why("the resource is protected: name keep-*"), waits]
        );
        assert_eq!(retried(in_use(), false).await.moved, 1);
        client
            .until_any_step(&id, |step| {
                step.resource.key.id == ports[0] && step.state == StepState::Gone
            })
            .await;
        for port in &ports[1..3] {
            assert_eq!(client.step_of(&id, port).await.state, StepState::Stuck);
        }
    })
    .await;
}
