//! A second provider, which no code above `cloud` knows: plans, deletes, blockers, retries, pending deletes, sweep and
//! hold-down work as with OpenStack, and beside it.

mod adapter;
mod cloud;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use gone::cloud::openstack::EMBEDDED;
use gone::cloud::{CloudRouter, OpenStackKinds};
use gone::control::{Command, Moment, TargetSpec, query};
use gone::domain::kinds::{Kinds, Source};
use gone::domain::model::{DeletionState, Site, Step, StepState};
use gone::engine::replay::Replay;
use gone::system::clock::Clock;
use serde_json::json;

use self::adapter::{ToyCloud, ToyKinds};
use self::cloud::{TOKEN, ToyServer};
use super::harness::{Bench, Client, assert_contains, cascade, paused, with_engine};

const KINDS: &str = include_str!("kinds.toml");

fn kinds(toy: &str) -> Result<Kinds, gone::domain::kinds::KindsError> {
    let toy = ("toy.toml", toy);
    let sources = EMBEDDED.iter().copied().chain([toy]);
    let sources = sources.map(|(file, text)| Source {
        file: file.to_owned(),
        text: text.to_owned(),
    });
    Kinds::read(sources, &[&OpenStackKinds, &ToyKinds])
}

/// Creates a practice cloud and, beside it, a toy cloud that has a VPC with two subnets and four machines.
fn bench() -> (Bench, Arc<Mutex<ToyServer>>) {
    let mut bench = Bench::new(1);
    let mut server = ToyServer::default();
    server.create("Vpc", "vpc-Shop", json!({}));
    for net in ["net-A", "net-a"] {
        server.create("Subnet", net, json!({ "vpcId": "vpc-Shop" }));
        for machine in ["1", "2"] {
            let id = format!("m-{net}{machine}");
            server.create("Machine", &id, json!({ "subnetId": net }));
        }
    }
    let server = Arc::new(Mutex::new(server));
    bench.kinds = Arc::new(kinds(KINDS).unwrap());
    bench.others.push(Arc::new(ToyCloud {
        site: site(),
        token: TOKEN,
        server: server.clone(),
        clock: bench.clock.clone(),
    }));
    (bench, server)
}

fn site() -> Site {
    Site::region("yard", "main")
}

fn target(text: &str) -> TargetSpec {
    TargetSpec::parse(&format!("{text}@yard/main"), &["envvars", "yard"]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cascade_deletes_each_resource_before_the_one_it_is_in() {
    let (bench, server) = bench();
    with_engine(&bench, async |client| {
        let id = client.delete_each(vec![target("vpc/vpc-Shop")]).await;
        let deletion = client.until_gone(&id).await;
        assert_eq!(deletion.counts.gone, 7);
    })
    .await;
    assert_eq!(server.lock().unwrap().ids(), Vec::<&str>::new());
    // Two subnets differ only in the case of their ids, and so do their machines.
    assert_eq!(bench.ledger_state().await.tombstones.len(), 7);
    let server = server.lock().unwrap();
    let deletes = server
        .calls
        .iter()
        .filter(|call| call.starts_with("Delete"));
    let deletes: Vec<&String> = deletes.collect();
    // One delete for each resource, although a machine exists for a minute after its delete.
    assert_eq!(deletes.len(), 7, "{deletes:?}");
    assert_eq!(deletes.last().unwrap().as_str(), "DeleteVpc vpc-Shop");
}

#[tokio::test(start_paused = true)]
async fn two_ids_that_differ_only_in_case_are_two_resources() {
    let (bench, server) = bench();
    with_engine(&bench, async |client| {
        let id = client.delete_each(vec![target("subnet/net-A")]).await;
        assert_eq!(client.until_gone(&id).await.counts.gone, 3);
    })
    .await;
    let expected = ["m-net-a1", "m-net-a2", "net-a", "vpc-Shop"];
    assert_eq!(server.lock().unwrap().ids(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_step_names_its_blocker_and_a_retry_succeeds_without_it() {
    let (bench, server) = bench();
    with_engine(&bench, async |client| {
        let id = client.delete_each(vec![target("subnet/net-A")]).await;
        let is_sent = |step: &Step| step.state == StepState::Verifying;
        client.until_any_step(&id, is_sent).await;
        // A machine appears while the others are shut down: it is a newcomer, and a person decides.
        server
            .lock()
            .unwrap()
            .create("Machine", "m-New", json!({ "subnetId": "net-A" }));
        let step = client.until_step(&id, "toy.subnet", StepState::Stuck).await;
        assert_eq!(step.blockers[0].id, "m-New");
        assert_eq!(step.blockers[0].kind.as_str(), "toy.machine");
        server.lock().unwrap().remove("Machine", "m-New");
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_throttled_call_and_a_failed_one_are_repeated() {
    let (bench, server) = bench();
    server.lock().unwrap().faults = vec![
        ("DeleteVpc", "InternalFailure"),
        ("DeleteSubnet", "Throttling"),
        ("ListMachines", "Throttling"),
    ];
    with_engine(&bench, async |client| {
        let id = client.delete_each(vec![target("vpc/vpc-Shop")]).await;
        client.until_gone(&id).await;
    })
    .await;
    assert!(server.lock().unwrap().ids().is_empty());
}

#[tokio::test(start_paused = true)]
async fn i06_a_machine_whose_shutdown_the_cloud_cancels_is_blocked_and_retried() {
    let (bench, server) = bench();
    let busy = ("m-net-A1".to_owned(), "its disk is busy");
    server.lock().unwrap().put_back.extend([busy]);
    with_engine(&bench, async |client| {
            let id = client.delete_each(vec![target("subnet/net-A")]).await;
            let is_blocked = |step: &Step| step.state == StepState::Blocked;
            client.until_any_step(&id, is_blocked).await;
            let steps = client.steps(&id).await;
            let blocked = steps.iter().find(|step| is_blocked(step)).unwrap();
            assert_eq!(blocked.resource.key.id, "m-net-A1");
            assert_eq!(
                blocked.last_error.as_ref().unwrap().message,
                "the delete was accepted; the toy.machine is no longer being deleted, and is available: its disk is busy"
            );
            client.until_gone(&id).await;
        }).await;
    let server = server.lock().unwrap();
    let sent = server
        .calls
        .iter()
        .filter(|it| *it == "DeleteMachine m-net-A1");
    assert_eq!(sent.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_sweep_deletes_a_re_created_resource() {
    let (bench, server) = bench();
    with_engine(&bench, async |client| {
        let id = client.delete_each(vec![target("subnet/net-A")]).await;
        client.until_gone(&id).await;
        server
            .lock()
            .unwrap()
            .create("Subnet", "net-A", json!({ "vpcId": "vpc-Shop" }));
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    })
    .await;
    assert!(!server.lock().unwrap().ids().contains(&"net-A"));
    let deletions = bench.ledger_state().await.deletions;
    assert_eq!(deletions.len(), 2);
    assert!(deletions.iter().all(|it| it.state == DeletionState::Gone));
}

#[tokio::test(start_paused = true)]
async fn records_of_ids_that_are_no_uuids_are_pruned_after_the_hold_down() {
    let (mut bench, _) = bench();
    bench.settings.ledger.hold_down = Duration::from_secs(60 * 60);
    with_engine(&bench, async |client| {
        let id = client.delete_each(vec![target("subnet/net-A")]).await;
        client.until_gone(&id).await;
        tokio::time::sleep(bench.settings.ledger.hold_down * 2).await;
        // The newest deletion is kept, so that its numbers are not used again.
        let newest = client.delete_each(vec![target("subnet/net-a")]).await;
        client.until_gone(&newest).await;
        let before = Some(bench.clock.now());
        client.submit(Command::Prune { before }).await.unwrap();
    })
    .await;
    let kept = bench.ledger_state().await.tombstones;
    let kept: BTreeSet<&str> = kept.iter().map(|it| it.key.id.as_str()).collect();
    assert_eq!(kept, BTreeSet::from(["m-net-a1", "m-net-a2", "net-a"]));
}

#[test]
fn a_replay_shows_a_deletion_as_it_was_at_each_time() {
    let (bench, id, then, steps) = paused(async {
        let (bench, _) = bench();
        let (id, then, steps) = with_engine(&bench, async |client| {
            let id = client.delete_each(vec![target("subnet/net-A")]).await;
            let is_sent = |step: &Step| step.state == StepState::Verifying;
            client.until_any_step(&id, is_sent).await;
            // The shutdown of the machines takes a minute.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let steps = client.steps(&id).await;
            let then = bench.clock.now();
            client.until_gone(&id).await;
            (id, then, steps)
        })
        .await;
        (bench, id, then, steps)
    });
    let states = |steps: &[Step]| -> BTreeSet<(String, &str)> {
        let states = steps.iter();
        states
            .map(|step| (step.resource.key.to_string(), step.state.as_str()))
            .collect()
    };
    // The replay has threads of its own, so its clock is not paused.
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (rewind, _folder) = bench.rewind();
        let nothing = Arc::new(CloudRouter::new(Vec::new(), Clock::system()));
        let replay = Replay::open(rewind, then, bench.kinds.clone(), nothing, "toy".into());
        let client = Client {
            control: Arc::new(replay.await.unwrap()),
        };
        assert_eq!(states(&client.steps(&id).await), states(&steps));
        assert_eq!(client.deletion(&id).await.state, DeletionState::Running);
        let tombstones = client.control.ask(query::Tombstones::default());
        let tombstones = tombstones.await.unwrap().rows;
        let ids: BTreeSet<&str> = tombstones.iter().map(|it| it.key.id.as_str()).collect();
        assert_eq!(ids, BTreeSet::from(["m-net-A1", "m-net-A2", "net-A"]));
        let to = Moment::At(then + TimeDelta::hours(1));
        client.submit(Command::Seek { to }).await.unwrap();
        assert_eq!(client.deletion(&id).await.counts.gone, 3);
        assert!(
            client
                .steps(&id)
                .await
                .iter()
                .all(|step| step.state == StepState::Gone)
        );
    });
}

#[tokio::test(start_paused = true)]
async fn a_kind_name_of_two_providers_means_that_of_the_sites_provider() {
    let (bench, _) = bench();
    let (network, _) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let plan = client
            .plan_of(vec![target("subnet/net-a")], cascade())
            .await;
        assert!(
            plan.steps
                .iter()
                .all(|step| step.kind.as_str().starts_with("toy."))
        );
        // The plan of an OpenStack network has no steps of these kinds.
        let plan = client.plan("network", &network).await;
        assert!(
            plan.steps
                .iter()
                .all(|step| !step.kind.as_str().starts_with("toy."))
        );
    })
    .await;
}

#[test]
fn mistakes_in_a_kinds_file_of_another_provider_are_reported() {
    let of = |from: &str, to: &str| {
        assert!(KINDS.contains(from));
        kinds(&KINDS.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let message = of("\"toy\"", "\"tyo\"");
    assert!(
        message.ends_with(
            "provider: unknown provider \"tyo\"; did you mean \"toy\"?; known: openstack, toy"
        ),
        "{message}"
    );
    let message = of("not_found =", "not_fund =");
    assert!(
        message.starts_with("toy.toml:17: unknown field `not_fund`")
            && message.ends_with("did you mean \"not_found\"?"),
        "{message}"
    );
    let message = of("to = \"vpc\"", "to = \"network\"");
    assert_contains(&message, "unknown kind \"toy.network\"");
    // An alias may repeat an alias of another provider. A kind needs all of its calls.
    let shared = KINDS.replacen("[kind.vpc]\n", "[kind.vpc]\naliases = [\"net\"]\n", 1);
    assert!(kinds(&shared).is_ok());
    let other = "service = \"yard\"\n[kind.vpc]\ncall.list = \"ListVpcs\"\n";
    assert!(kinds(other).is_err());
}
