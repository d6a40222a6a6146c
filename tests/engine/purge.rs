//! The purge ladder: the rungs that are offered, what each does, and the guards that apply to it. Orphans, released
//! tombstones, and sites that a person paused (P3, T10).

use std::time::Duration;

use super::harness::*;
use gone::control::{Command, ControlError, Purged, Receipt, SiteState, query};
use gone::domain::ladder::{DEPENDENCY_ABANDONED, Ladder, PurgeScope, Rung};
use gone::domain::model::{
    DeletionState, ErrorClass, EventKind, Orphan, Phase, Presence, Site, Step, StepState, short_id,
};
use gone::ledger::Cursor;
use gone::system::config::ProtectRule;
use serde_json::{Value, json};

async fn ladder(client: &Client, what: PurgeScope) -> Ladder {
    *client.control.ask(query::Ladder { what }).await.unwrap()
}

/// Takes a rung, with the short id of the deletion as confirmation.
async fn take_rung(
    client: &Client,
    id: &str,
    what: PurgeScope,
    rung: Rung,
) -> Result<Receipt, ControlError> {
    let confirm = short_id(id).to_owned();
    let command = Command::Purge {
        what,
        rung,
        confirm,
    };
    client.submit(command).await
}

fn whole_deletion(id: &str) -> PurgeScope {
    PurgeScope::Deletion(id.to_owned())
}

/// Returns the reason why a rung is not offered, or none if it is offered.
fn reason_against(ladder: &Ladder, rung: Rung) -> Option<String> {
    ladder.offer(rung).unwrap().why_not.clone()
}

fn offered(ladder: &Ladder) -> Vec<Rung> {
    let offers = ladder.offers.iter();
    let offered = offers.filter(|offer| offer.why_not.is_none());
    offered.map(|offer| offer.rung).collect()
}

async fn orphans(client: &Client) -> Vec<Orphan> {
    let orphans = client.control.ask(query::Orphans::default()).await;
    orphans.unwrap().rows
}

/// Creates a network with ports and two balancers, the first of which is PENDING_DELETE for 30 days after its delete.
/// Returns the ids of the network and of the balancers.
fn network_with_pending_balancer(bench: &Bench) -> (String, Vec<String>) {
    let made = bench.seed(json!({ "networks": 1, "ports_per_network": 3, "load_balancers": 2 }));
    let id = |kind: &str, at: usize| made[kind][at].as_str().unwrap().to_owned();
    let balancers = vec![id("load_balancers", 0), id("load_balancers", 1)];
    let course = json!({ "id": balancers[0], "for_s": 30 * 24 * 3600 });
    bench.control("PUT", "/balancers", course);
    (id("networks", 0), balancers)
}

#[tokio::test(start_paused = true)]
async fn p03_t10_a_balancer_that_stays_pending_can_be_abandoned_in_the_end_and_is_an_orphan() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_pending_balancer(&bench);
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        // The first balancer does not delay the other one.
        let sibling = |it: &Step| it.resource.key.id == balancers[1] && it.state == StepState::Gone;
        client.until_any_step(&id, sibling).await;
        tokio::time::sleep(Duration::from_secs(20 * 60)).await;
        let step = client.step_of(&id, &balancers[0]).await;
        assert_eq!(step.state, StepState::Verifying);
        // The snapshot lists this step for a person, and no other pending step.
        let shown = client.control.snapshot().borrow().attention.clone();
        let ids: Vec<i64> = shown.iter().map(|it| it.id).collect();
        assert_eq!(ids, [step.id]);
        let of_all = ladder(&client, whole_deletion(&id)).await;
        assert!(
            reason_against(&of_all, Rung::Forget)
                .unwrap()
                .contains("2 h 45 min")
        );
        let early = ladder(&client, PurgeScope::Step(step.id)).await;
        assert_eq!(offered(&early), []);
        let why = reason_against(&early, Rung::Forget).unwrap();
        assert_contains(&why, "2 h 45 min");
        let refused = take_rung(&client, &id, PurgeScope::Step(step.id), Rung::Forget).await;
        assert_matches!(refused, Err(ControlError::Conflict { .. }));

        client.until_stuck(&id).await;
        let late = ladder(&client, PurgeScope::Step(step.id)).await;
        assert_eq!(offered(&late), [Rung::Retry, Rung::Runbook, Rung::Forget]);
        let retry = &late.offer(Rung::Retry).unwrap().does[0];
        assert_eq!(
            *retry,
            format!(
                "DELETE /v2.0/lbaas/loadbalancers/{}?cascade=true",
                balancers[0]
            )
        );
        let sent = bench.writes().len();
        let runbook = take_rung(&client, &id, PurgeScope::Step(step.id), Rung::Runbook).await;
        let Ok(Receipt::Purged(Purged {
            runbook: Some(runbook),
            ..
        })) = runbook
        else {
            panic!("{runbook:?}");
        };
        assert_contains(&runbook, &format!("WHERE id = '{}'", balancers[0]));
        assert_contains(&runbook, &format!("gone retry {}", step.id));
        assert!(!runbook.contains('{'), "{runbook}");

        let forgotten = take_rung(&client, &id, PurgeScope::Step(step.id), Rung::Forget).await;
        assert_matches!(forgotten, Ok(Receipt::Purged(Purged { moved: 1, .. })));
        // Neither the runbook nor the rung `forget` sent anything.
        tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
        assert_eq!(bench.writes().len(), sent);
        assert_eq!(
            client.tombstone(&balancers[0]).await.unwrap().phase,
            Phase::Purged
        );
        let waited = client.step_of(&id, &network).await;
        assert_eq!(waited.state, StepState::Stuck);
        assert_eq!(waited.last_error.unwrap().kind, DEPENDENCY_ABANDONED);

        let rows = orphans(&client).await;
        let [orphan] = rows.as_slice() else {
            panic!("{rows:#?}");
        };
        assert_eq!(orphan.resource.key.id, balancers[0]);
        assert_eq!(orphan.there, Presence::Present);
        assert!(orphan.why.contains("PENDING_DELETE"), "{orphan:?}");
        assert_eq!(orphan.deletion_id, id);

        // The cloud refuses to delete the network, which the balancer blocks. The step of the network is stuck at once.
        client.retry(&id).await;
        client.until_stuck(&id).await;
        let refused = client.step_of(&id, &network).await;
        assert_eq!((refused.attempts, refused.state), (0, StepState::Stuck));
        let blockers = refused.blockers.iter();
        let known: Vec<_> = blockers.map(|it| (it.id.as_str(), it.in_plan)).collect();
        assert!(known.contains(&(balancers[0].as_str(), false)), "{known:?}");

        take_rung(&client, &id, whole_deletion(&id), Rung::Forget)
            .await
            .unwrap();
        let deletion = client.until_terminal(&id).await;
        assert_eq!(deletion.state, DeletionState::Purged);
        assert_eq!(orphans(&client).await.len(), 2);
    })
    .await;
    assert!(bench.exists("loadbalancers", &balancers[0]));
    assert!(bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn p03_an_orphan_removed_elsewhere_is_absent_and_one_deleted_again_is_not_listed() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(2);
    let forbidden = |id: &str| {
        json!({ "match": { "method": "DELETE", "id": id }, "times": 1,
        "action": { "status": 403, "type": "PolicyNotAuthorized" } })
    };
    bench.faults(json!([forbidden(&ports[0]), forbidden(&ports[1])]));
    with_engine(&bench, async |client| {
        for port in &ports {
            let id = client.delete("port", port).await;
            client.until_stuck(&id).await;
            take_rung(&client, &id, whole_deletion(&id), Rung::Forget)
                .await
                .unwrap();
            assert_eq!(
                client.until_terminal(&id).await.state,
                DeletionState::Purged
            );
        }
        bench.api("DELETE", &format!("/v2.0/ports/{}", ports[0]), Value::Null);
        let rows = orphans(&client).await;
        let there = |id: &str| {
            rows.iter()
                .find(|it| it.resource.key.id == id)
                .unwrap()
                .there
        };
        assert_eq!(there(&ports[0]), Presence::Absent);
        assert_eq!(there(&ports[1]), Presence::Present);
        client.delete_until_gone("port", &ports[1]).await;
        assert_eq!(orphans(&client).await.len(), 1);
    })
    .await;
}

/// Deletes a network with two ports. Three deletes of one port fail, and meanwhile an interface of a router is added to
/// the network. Returns the ids of the deletion, of the network and of the router.
async fn network_blocked_by_interface(
    bench: &Bench,
    client: &Client,
    router: Value,
) -> (String, String, String) {
    let made = bench.seed(json!({ "networks": 1, "ports_per_network": 2 }));
    let network = made["networks"][0].as_str().unwrap().to_owned();
    let port = made["ports"][1].as_str().unwrap().to_owned();
    bench.faults(json!([{ "match": { "method": "DELETE", "id": port }, "times": 3, "action": { "status": 503 } }]));
    let id = client.delete("network", &network).await;
    client.until_blocked(&id, "port").await;
    let router = bench.create("routers", router);
    bench.add_interface(&router, made["subnets"][0].as_str().unwrap());
    // The network is stuck with drift if the router is in the same project, else blocked.
    let is_blocked = |step: &Step| step.resource.key.id == network && !step.blockers.is_empty();
    client.until_any_step(&id, is_blocked).await;
    (id, network, router)
}

#[tokio::test(start_paused = true)]
async fn p03_unpin_removes_the_blocking_edge_by_a_deletion_of_its_own_and_the_first_ends_gone() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
        let (id, network, router) =
            network_blocked_by_interface(&bench, &client, json!({ "name": "late" })).await;
        let step = client.step_of(&id, &network).await;
        assert_eq!(step.last_error.as_ref().unwrap().class, ErrorClass::Drift);
        let shown = ladder(&client, PurgeScope::Step(step.id)).await;
        assert_eq!(offered(&shown), [Rung::Retry, Rung::Unpin, Rung::Forget]);
        let does = &shown.offer(Rung::Unpin).unwrap().does;
        let call = format!("PUT /v2.0/routers/{router}/remove_router_interface");
        assert!(does[0].starts_with(&call), "{does:?}");
        assert_eq!(does[1], format!("then DELETE /v2.0/networks/{network}"));
        let before = bench.writes_to("remove_router_interface").len();
        let taken = take_rung(&client, &id, PurgeScope::Step(step.id), Rung::Unpin).await;
        let Ok(Receipt::Purged(Purged {
            deletion_id: Some(unpins),
            ..
        })) = taken
        else {
            panic!("{taken:?}");
        };
        client.until_gone(&id).await;
        client.until_gone(&unpins).await;
        assert_eq!(client.caused_by(&id).await[0].id, unpins);
        assert_eq!(bench.writes_to("remove_router_interface").len(), before + 1);
        assert!(bench.exists("routers", &router) && !bench.exists("networks", &network));
        let lines = client.timeline(Some(&id), Some(step.id)).await;
        assert!(
            lines.iter().any(|line| line.kind == EventKind::Purge),
            "{lines:#?}"
        );
    })
    .await;
    let rows = bench.ledger().audit(0, 500).await.unwrap();
    let purge = rows.iter().find(|row| row.action == "purge unpin").unwrap();
    assert!(
        purge.detail["does"][0]
            .as_str()
            .unwrap()
            .contains("remove_router_interface")
    );
}

#[tokio::test(start_paused = true)]
async fn p03_p04_no_rung_changes_a_protected_resource_or_one_of_another_project() {
    let protects = |kind: &str, name: Option<&str>| ProtectRule {
        kind: Some(kind.to_owned()),
        name: name.map(str::to_owned),
        ..ProtectRule::default()
    };
    for (rule, refused) in [
        (Some(protects("router_interface", None)), vec![Rung::Unpin]),
        (
            Some(protects("network", Some("*"))),
            vec![Rung::Retry, Rung::Unpin],
        ),
        (None, vec![Rung::Unpin]),
    ] {
        let mut bench = Bench::new(1);
        let router = match &rule {
            Some(_) => json!({ "name": "late" }),
            None => json!({ "name": "late", "project_id": bench.demo_project() }),
        };
        let (id, network) = with_engine(&bench, async |client| {
            let (id, network, _) = network_blocked_by_interface(&bench, &client, router).await;
            (id, network)
        })
        .await;
        bench.settings.guard.protect.extend(rule.clone());
        let sent = bench.writes().len();
        with_engine(&bench, async |client| {
            let shown = ladder(&client, whole_deletion(&id)).await;
            for rung in &refused {
                let why = reason_against(&shown, *rung);
                assert!(why.is_some(), "{rule:?} {rung:?}: {shown:#?}");
                let taken = take_rung(&client, &id, whole_deletion(&id), *rung).await;
                assert_matches!(taken, Err(ControlError::Conflict { .. }));
            }
            let why = reason_against(&shown, Rung::Unpin).unwrap();
            let words = if rule.is_some() {
                "protected"
            } else {
                "project"
            };
            assert_contains(&why, words);
            // The rung `forget` sends nothing, so it changes no protected resource.
            assert_eq!(reason_against(&shown, Rung::Forget), None);
        })
        .await;
        assert_eq!(bench.writes().len(), sent);
        assert!(bench.exists("networks", &network));
    }
}

#[tokio::test(start_paused = true)]
async fn p03_p04_only_forget_is_offered_while_the_protection_cannot_be_read() {
    let mut bench = Bench::new(1);
    let tagged = ProtectRule {
        tag: Some("keep".to_owned()),
        ..ProtectRule::default()
    };
    bench.settings.guard.protect.push(tagged);
    with_engine(&bench, async |client| {
        let (id, _, _) =
            network_blocked_by_interface(&bench, &client, json!({ "name": "late" })).await;
        bench.faults(json!([{ "match": { "method": "GET" }, "action": { "status": 503 } }]));
        let shown = ladder(&client, whole_deletion(&id)).await;
        assert_eq!(offered(&shown), [Rung::Forget]);
        let why = reason_against(&shown, Rung::Retry).unwrap();
        assert!(
            why.starts_with("gone cannot tell whether the resource is protected"),
            "{why}"
        );
        take_rung(&client, &id, whole_deletion(&id), Rung::Forget)
            .await
            .unwrap();
        let there: Vec<_> = orphans(&client).await.iter().map(|it| it.there).collect();
        assert_eq!(there, [Presence::Unclear]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p03_p05_a_read_only_engine_refuses_every_rung() {
    let mut bench = Bench::new(1);
    let id = with_engine(&bench, async |client| {
        network_blocked_by_interface(&bench, &client, json!({ "name": "late" }))
            .await
            .0
    })
    .await;
    bench.settings.guard.read_only = true;
    let sent = bench.writes().len();
    with_engine(&bench, async |client| {
        let shown = ladder(&client, whole_deletion(&id)).await;
        assert_eq!(offered(&shown), []);
        for rung in Rung::ALL {
            let taken = take_rung(&client, &id, whole_deletion(&id), rung).await;
            assert!(
                matches!(taken, Err(ControlError::Refused { .. })),
                "{rung:?}: {taken:?}"
            );
        }
        assert_eq!(client.deletion(&id).await.state, DeletionState::Stuck);
    })
    .await;
    assert_eq!(bench.writes().len(), sent);
}

#[tokio::test(start_paused = true)]
async fn p03_a_rung_is_taken_only_if_the_short_id_of_the_deletion_was_typed() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
        let (id, _, _) =
            network_blocked_by_interface(&bench, &client, json!({ "name": "late" })).await;
        let short = short_id(&id);
        for confirm in ["", "yes", "00000000", &short[1..]] {
            let command = Command::Purge {
                what: whole_deletion(&id),
                rung: Rung::Forget,
                confirm: confirm.to_owned(),
            };
            let refused = client.submit(command).await;
            assert_matches!(refused, Err(ControlError::Usage { .. }));
        }
        assert_eq!(client.deletion(&id).await.state, DeletionState::Stuck);
        take_rung(&client, &id, whole_deletion(&id), Rung::Forget)
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_a_blocked_step_can_be_abandoned_and_a_waiting_step_has_no_rung() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    bench.faults(json!([{ "match": { "method": "DELETE", "id": ports[0] }, "action": { "status": 409, "type": "PortInUse" } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        let step = client.until_blocked(&id, "port").await;
        let waiting = client.step_of(&id, &network).await;
        let shown = ladder(&client, PurgeScope::Step(waiting.id)).await;
        assert_eq!(offered(&shown), []);
        assert_eq!(
            reason_against(&shown, Rung::Retry).unwrap(),
            "the step is waiting"
        );
        let other = |it: &Step| it.resource.key.id == ports[1] && it.state == StepState::Gone;
        client.until_any_step(&id, other).await;

        let shown = ladder(&client, PurgeScope::Step(step.id)).await;
        assert_eq!(offered(&shown), [Rung::Retry, Rung::Forget]);
        let why = reason_against(&shown, Rung::Runbook).unwrap();
        assert_contains(&why, "retried at");
        let sent = bench.writes().len();
        let of_all = ladder(&client, whole_deletion(&id)).await;
        assert_eq!(offered(&of_all), [Rung::Retry, Rung::Forget]);
        let forgotten = take_rung(&client, &id, PurgeScope::Step(step.id), Rung::Forget).await;
        assert_matches!(forgotten, Ok(Receipt::Purged(Purged { moved: 1, .. })));

        // The port is an orphan, the network that waited for it is stuck, and nothing is sent for either.
        let waited = client.step_of(&id, &network).await;
        assert_eq!(waited.state, StepState::Stuck);
        assert_eq!(waited.last_error.unwrap().kind, DEPENDENCY_ABANDONED);
        tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
        assert_eq!(bench.writes().len(), sent);
        let orphans = orphans(&client).await;
        let ids: Vec<&str> = orphans
            .iter()
            .map(|it| it.resource.key.id.as_str())
            .collect();
        assert_eq!(ids, [ports[0].as_str()]);
        take_rung(&client, &id, whole_deletion(&id), Rung::Forget)
            .await
            .unwrap();
        assert_eq!(
            client.until_terminal(&id).await.state,
            DeletionState::Purged
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p03_unpin_disassociates_a_floating_ip_and_is_not_offered_if_it_is_protected() {
    for protects in [false, true] {
        let mut bench = Bench::new(1);
        if protects {
            bench.settings.guard.protect.push(ProtectRule {
                kind: Some("floating_ip".to_owned()),
                ..ProtectRule::default()
            });
        }
        let shop = bench.shop(1);
        let path = format!("/v2.0/floatingips/{}", shop.floating_ip);
        let row = bench.api("GET", &path, Value::Null).1;
        let port = row["floatingip"]["port_id"].clone();
        let associate =
            |port: &Value| bench.api("PUT", &path, json!({ "floatingip": { "port_id": port } }));
        associate(&Value::Null);
        bench.faults(json!([{ "match": { "method": "PUT", "path": "*/remove_router_interface" }, "times": 2, "action": { "status": 503 } }]));
        with_engine(&bench, async |client| {
            let interface = format!("{},{}", shop.router, shop.subnet);
            let id = client.delete("router_interface", &interface).await;
            let is = |it: &Step, known: bool| {
                it.resource.key.id == interface
                    && it.state == StepState::Blocked
                    && it.blockers.is_empty() != known
            };
            client.until_any_step(&id, |it| is(it, false)).await;
            assert_eq!(associate(&port).0, 200);
            let step = client.until_any_step(&id, |it| is(it, true)).await;
            let shown = ladder(&client, PurgeScope::Step(step.id)).await;
            if protects {
                let why = reason_against(&shown, Rung::Unpin).unwrap();
                assert_contains(&why, "is protected");
                return;
            }
            assert_eq!(offered(&shown), [Rung::Retry, Rung::Unpin, Rung::Forget]);
            let does = &shown.offer(Rung::Unpin).unwrap().does[0];
            assert!(does.starts_with(&format!("PUT {path}")), "{does}");
            take_rung(&client, &id, PurgeScope::Step(step.id), Rung::Unpin)
                .await
                .unwrap();
            client.until_gone(&id).await;
            let row = bench.api("GET", &path, Value::Null).1;
            assert_eq!(row["floatingip"]["port_id"], Value::Null);
            assert_eq!(bench.writes_to("\"port_id\":null").len(), 1);
        })
        .await;
        assert!(bench.exists("floatingips", &shop.floating_ip));
    }
}

/// Takes a rung with an engine that crashes, and ends the deletion with another engine. Returns false if the first
/// engine did not crash.
fn run_with_crash(at: CrashPoint, rung: Rung) -> bool {
    paused(async {
        let bench = Bench::new(3);
        let (id, network, router) = with_engine(&bench, async |client| {
            network_blocked_by_interface(&bench, &client, json!({ "name": "late" })).await
        })
        .await;
        bench.limits(json!({ "latency_ms": 20 }));
        bench.crash.at(at);
        let sent = bench.writes().len();
        let first = bench
            .run(async |client| {
                take_rung(&client, &id, whole_deletion(&id), rung)
                    .await
                    .unwrap();
                if rung == Rung::Unpin {
                    client.until_gone(&id).await;
                }
            })
            .await;
        bench.crash.cancel();
        with_engine(&bench, async |client| {
            // A person who got no answer reads the state, and repeats the command if it had no effect.
            if client.until_terminal(&id).await.state == DeletionState::Stuck {
                let step: Step = client.step_of(&id, &network).await;
                take_rung(&client, &id, PurgeScope::Step(step.id), rung)
                    .await
                    .unwrap();
            }
            let deletion = client.until_terminal(&id).await;
            let expected = match rung {
                Rung::Forget => DeletionState::Purged,
                _ => DeletionState::Gone,
            };
            assert_eq!(deletion.state, expected, "{at:?} {deletion:#?}");
        })
        .await;
        let purges = || bench.writes()[sent..].to_vec();
        match rung {
            Rung::Forget => assert_eq!(purges(), [], "{at:?}"),
            _ => {
                // The engine observes the resources whose calls were in flight, and repeats no call that took effect.
                let missed: Vec<_> = purges()
                    .into_iter()
                    .filter(|it| it.status == Some(404))
                    .collect();
                assert_eq!(missed, [], "{at:?}");
                assert!(!bench.exists("networks", &network), "{at:?}");
            }
        }
        assert!(bench.exists("routers", &router), "{at:?}");
        let rows = bench.ledger().audit(0, 500).await.unwrap();
        gone::ledger::audit::verify(gone::ledger::audit::GENESIS, &rows).unwrap();
        let name = format!("purge {}", rung.as_str());
        assert!(rows.iter().any(|row| row.action == name), "{at:?}");
        first.is_none()
    })
}

fn crash_at_each(point: fn(u64) -> CrashPoint, rung: Rung, least: u64) {
    let mut k = 1;
    while run_with_crash(point(k), rung) {
        k += 1;
        assert!(k < 200);
    }
    assert!(k > least, "only {k} points to crash at");
}

#[test]
fn p03_i11_a_crash_at_each_write_of_an_unpin_is_recovered() {
    crash_at_each(CrashPoint::Write, Rung::Unpin, 6);
}

#[test]
fn p03_i11_a_crash_at_each_call_of_an_unpin_is_recovered() {
    crash_at_each(CrashPoint::Call, Rung::Unpin, 6);
}

#[test]
fn p03_i11_a_crash_at_each_write_of_a_forget_is_recovered() {
    crash_at_each(CrashPoint::Write, Rung::Forget, 1);
}

async fn release(client: &Client, id: &str) -> Result<Receipt, ControlError> {
    let key = client.tombstone(id).await.unwrap().key;
    client.submit(Command::Release { key }).await
}

#[tokio::test(start_paused = true)]
async fn t08_a_tombstone_is_released_only_if_its_resource_exists_and_no_step_works_on_it() {
    let mut bench = Bench::new(1);
    bench.settings.engine.sweep = Duration::from_secs(48 * 3600);
    let (_, ports) = bench.plain_network(3);
    bench.faults(json!([
        { "match": { "method": "DELETE", "id": ports[1] }, "action": { "status": 409, "type": "PortInUse" } },
        { "match": { "method": "DELETE", "id": ports[2] }, "times": 1, "action": { "recreate_after_ms": 5000 } },
    ]));
    with_engine(&bench, async |client| {
        client.delete_until_gone("port", &ports[0]).await;
        let absent = release(&client, &ports[0]).await;
        assert_matches!(absent, Err(ControlError::Conflict { .. }));
        let blocked = client.delete("port", &ports[1]).await;
        client.until_blocked(&blocked, "port").await;
        let worked_on = release(&client, &ports[1]).await;
        assert_matches!(worked_on, Err(ControlError::Conflict { .. }));
        client.delete_until_gone("port", &ports[2]).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        release(&client, &ports[2]).await.unwrap();
        assert_eq!(
            client.tombstone(&ports[2]).await.unwrap().phase,
            Phase::Released
        );
    })
    .await;
    assert!(bench.exists("ports", &ports[2]));
    let rows = bench.ledger().audit(0, 500).await.unwrap();
    assert!(rows.iter().any(|row| row.action == "release"));
}

#[tokio::test(start_paused = true)]
async fn a_site_that_a_person_paused_gets_no_calls_until_a_person_resumes_it() {
    let mut bench = Bench::new(1);
    bench.send_one_at_a_time();
    let (network, _) = bench.plain_network(6);
    bench.limits(json!({ "latency_ms": 200 }));
    let steer = |paused: bool| {
        let site: Site = site();
        match paused {
            true => Command::PauseSite { site },
            false => Command::ResumeSite { site },
        }
    };
    let id = with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until(&id, |it| it.counts.gone > 1).await;
        client.submit(steer(true)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let sent = bench.sent().len();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let status = client.site_status().await;
        assert_eq!(status.state, SiteState::Paused);
        assert_eq!(status.reason, "paused by tester");
        assert_eq!(status.paused_by.unwrap().by.name, "tester");
        assert_eq!(
            bench.sent().len(),
            sent,
            "a call was sent to the paused site"
        );
        let again = client.submit(steer(true)).await;
        assert_matches!(again, Err(ControlError::Conflict { .. }));
        id
    })
    .await;
    let writes = bench.writes().len();
    // The pause outlives the engine, and a login that fails and then works again does not end it.
    with_engine(&bench, async |client| {
        let password = |word: &str| json!({ "name": "admin", "password": word });
        bench.control("PUT", "/users", password("changed"));
        bench.control("PUT", "/tokens", json!({ "user": "admin", "revoke": true }));
        tokio::time::sleep(Duration::from_secs(600)).await;
        bench.control("PUT", "/users", password("secret"));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(client.site_status().await.state, SiteState::Paused);
        assert_eq!(bench.writes().len(), writes);
        client.submit(steer(false)).await.unwrap();
        client.until_gone(&id).await;
        assert_eq!(client.site_status().await.state, SiteState::Reachable);
    })
    .await;
    let ledger = bench.ledger();
    assert!(ledger.site_pauses().await.unwrap().is_empty());
    let page = Cursor::default();
    assert!(ledger.orphans(page).await.unwrap().rows.is_empty());
}
