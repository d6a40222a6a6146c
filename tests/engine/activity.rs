//! The reports of the reconcilers about their present, last and next work; and snapshots, with and without a reader who
//! follows them.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chrono::TimeDelta;
use serde_json::json;

use super::harness::*;
use gone::control::{Command, SiteState, query};
use gone::domain::activity::{Reconciler, ReconcilerStatus};

async fn reconcilers(client: &Client) -> Vec<ReconcilerStatus> {
    client.control.ask(query::Reconcilers {}).await.unwrap()
}

async fn reconciler(client: &Client, name: Reconciler) -> ReconcilerStatus {
    let all = reconcilers(client).await;
    all.into_iter().find(|it| it.name == name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn reconcilers_report_their_work_and_their_last_failure() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(3);
    bench.limits(json!({ "latency_ms": 200 }));
    let refusal = json!({ "status": 503, "message": "the port agent restarts" });
    bench.faults(
        json!([{ "match": { "method": "DELETE", "id": ports[0] }, "times": 1, "action": refusal }]),
    );
    with_engine(&bench, async |client| {
        let began = bench.clock.now();
        let names: Vec<Reconciler> = reconcilers(&client)
            .await
            .iter()
            .map(|it| it.name)
            .collect();
        let expected = [
            Reconciler::Planning,
            Reconciler::Retry,
            Reconciler::Dispatch,
            Reconciler::Verify,
            Reconciler::Sweep,
            Reconciler::Prune,
            Reconciler::SignIn,
            Reconciler::Publish,
        ];
        assert_eq!(names, expected);
        let idle = reconciler(&client, Reconciler::Dispatch).await;
        assert_eq!((idle.running, idle.last_run_at), (0, None), "{idle:?}");

        let id = client.delete("network", &network).await;
        let busy = loop {
            let dispatch = reconciler(&client, Reconciler::Dispatch).await;
            if dispatch.running > 0 {
                break dispatch;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!(busy.since > began, "{busy:?}");
        assert!(busy.subjects[0].starts_with("port "), "{busy:?}");

        client.until_gone(&id).await;
        let planning = reconciler(&client, Reconciler::Planning).await;
        assert_eq!((planning.running, planning.last_error), (0, None));
        let dispatch = reconciler(&client, Reconciler::Dispatch).await;
        assert_eq!((dispatch.running, dispatch.subjects.len()), (0, 0));
        assert!(dispatch.last_run_at > Some(busy.since), "{dispatch:?}");
        assert!(dispatch.last_run_ms >= Some(200), "{dispatch:?}");
        let failure = dispatch.last_error.unwrap();
        assert!(
            failure.message.contains("the port agent restarts") && failure.at > began,
            "{failure:?}"
        );
        let now = bench.clock.now();
        for name in [Reconciler::Verify, Reconciler::SignIn, Reconciler::Publish] {
            let status = reconciler(&client, name).await;
            assert!(status.last_run_at >= Some(began), "{status:?}");
        }
        let sweep = reconciler(&client, Reconciler::Sweep).await;
        let every = TimeDelta::from_std(bench.settings.engine.sweep).unwrap();
        assert!(sweep.next_run_at > Some(now), "{sweep:?}");
        assert!(sweep.next_run_at <= Some(now + every), "{sweep:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_retry_worker_reports_when_the_next_attempt_is_due() {
    let bench = Bench::new(1);
    let (_, ports) = bench.plain_network(1);
    let refusal = json!({ "status": 409, "message": "in use" });
    bench.faults(json!([{ "match": { "method": "DELETE" }, "times": 1, "action": refusal }]));
    with_engine(&bench, async |client| {
        let id = client.delete("port", &ports[0]).await;
        client
            .until_any_step(&id, |step| step.next_attempt_at.is_some())
            .await;
        // The engine reads the time of the next attempt in its next pass.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let step = client.step(&id, "port").await;
        let retry = reconciler(&client, Reconciler::Retry).await;
        assert_eq!(retry.next_run_at, step.next_attempt_at, "{step:?}");
        assert_eq!(retry.last_run_at, None);
        client.until_gone(&id).await;
        let retry = reconciler(&client, Reconciler::Retry).await;
        assert!(retry.last_run_at >= step.next_attempt_at, "{retry:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_has_reconcilers_for_its_owners_and_importers() {
    let mut bench = Bench::new(1);
    bench.register_service(
        "billing",
        "service = \"billing\"\n[kind.invoice.native.fields]\ncustomer = {}\n",
    );
    with_engine(&bench, async |client| {
        let names: Vec<Reconciler> = reconcilers(&client)
            .await
            .iter()
            .map(|it| it.name)
            .collect();
        let own = [
            Reconciler::WatchOwners,
            Reconciler::HandleNotices,
            Reconciler::AskImporters,
            Reconciler::HintOwners,
        ];
        assert_eq!(names[names.len() - 4..], own);
    })
    .await;
}

/// Creates a network whose ports take seconds to delete. Returns the id of the network too.
fn slow_network() -> (Bench, String) {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(400);
    bench.limits(json!({ "latency_ms": 100 }));
    (bench, network)
}

/// Starts a deletion of this network, and waits until it has sent its first calls.
async fn start_deletion(client: &Client, network: &str) -> String {
    let id = client.delete("network", network).await;
    client.until(&id, |it| it.counts.verifying > 0).await;
    id
}

/// Returns how many times a second the ledger is read for a snapshot while ports are deleted.
fn snapshots_per_second(is_followed: bool) -> f64 {
    paused(async {
        let (bench, network) = slow_network();
        with_engine(&bench, async |client| {
            let _reader = is_followed.then(|| client.control.snapshot());
            let id = start_deletion(&client, &network).await;
            let (read, began) = (bench.crash.summaries.load(SeqCst), bench.clock.now());
            client.until_gone(&id).await;
            let read = bench.crash.summaries.load(SeqCst) - read;
            read as f64 / (bench.clock.now() - began).as_seconds_f64()
        })
        .await
    })
}

#[test]
fn snapshots_are_built_often_only_while_a_reader_follows_them() {
    let (followed, unfollowed) = (snapshots_per_second(true), snapshots_per_second(false));
    assert!(followed > 5.0, "{followed} a second");
    assert!(unfollowed < 1.5, "{unfollowed} a second");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_site_is_in_the_snapshot_within_250_ms_without_followers() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
        let soon = || tokio::time::sleep(Duration::from_millis(250));
        let site = site();
        client.submit(Command::PauseSite { site }).await.unwrap();
        soon().await;
        let site = self::site();
        client.submit(Command::ResumeSite { site }).await.unwrap();
        soon().await;
        // Reads the snapshot only once, because a new reader ends the pause between snapshots.
        let shown = client.control.snapshot().borrow().sites[0].state;
        assert_ne!(shown, SiteState::Paused);
    })
    .await;
}

/// A deletion is accepted in a commit of its own, and not in that of a command.
#[tokio::test(start_paused = true)]
async fn an_accepted_deletion_is_in_the_snapshot_within_250_ms_without_followers() {
    let (bench, network) = slow_network();
    let others: Vec<String> = (0..3).map(|_| bench.plain_network(1).0).collect();
    with_engine(&bench, async |client| {
        start_deletion(&client, &network).await;
        // The requests arrive at different moments of the pause between snapshots, so that no deletion is shown by
        // chance.
        for (before, other) in others.iter().enumerate() {
            tokio::time::sleep(Duration::from_millis(370)).await;
            client.delete("network", other).await;
            tokio::time::sleep(Duration::from_millis(250)).await;
            let shown = client.control.snapshot().borrow().clone();
            let accepted: u64 = shown.deletions_by_state.values().sum();
            assert_eq!(accepted, 2 + before as u64);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_follower_gets_a_snapshot_within_300_ms() {
    let (bench, network) = slow_network();
    with_engine(&bench, async |client| {
        start_deletion(&client, &network).await;
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(350)).await;
            let mut reader = client.control.snapshot();
            let shown = tokio::time::timeout(Duration::from_millis(300), reader.changed());
            shown.await.unwrap().unwrap();
        }
    })
    .await;
}
