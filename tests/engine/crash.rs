//! Ends the engine at each ledger write and at each call. A new engine takes over and must finish the deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::harness::*;
use gone::domain::mapping::Mapping;
use gone::domain::model::{CopiedBy, DeletionState, Phase, Plan, StepState};
use gone::ledger::audit::{GENESIS, verify};
use gone::ledger::{Cursor, StepFilter};
use serde_json::json;

/// The target of the deletion.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The network of [`Bench::shop`].
    Network,
    /// A project with a resource of every kind of Neutron, Octavia and Glance that the practice cloud offers.
    Project,
    /// A network with copies in two other regions.
    Copied,
}

impl Target {
    fn regions(self) -> &'static [&'static str] {
        match self {
            Self::Copied => &["RegionOne", "RegionTwo", "RegionThree"],
            Self::Network | Self::Project => &["RegionOne"],
        }
    }

    /// Creates the target. Returns its kind, and its id or name.
    fn build(self, bench: &mut Bench) -> (&'static str, String) {
        match self {
            Self::Network => ("network", bench.shop(1).network),
            Self::Copied => {
                let (network, _) = bench.plain_network(1);
                let [central, locals @ ..] = self.regions() else {
                    unreachable!();
                };
                bench.settings.mapping = vec![Mapping {
                    central: site_of(central),
                    locals: locals.iter().map(|region| site_of(region)).collect(),
                    by: CopiedBy::Tag,
                }];
                for local in locals {
                    let made = bench
                        .seed(json!({ "region": local, "networks": 1, "ports_per_network": 2 }));
                    bench.tag_as_copy(local, made["networks"][0].as_str().unwrap(), &network);
                }
                ("network", network)
            }
            Self::Project => {
                bench.furnish_demo();
                ("project", "demo".to_owned())
            }
        }
    }
}

/// Runs a deletion with one crash. Returns false if the deletion ended before the crash.
fn run_with_crash(at: CrashPoint, concurrency: usize, target: Target) -> bool {
    paused(async {
        let mut bench = Bench::in_regions(7, target.regions());
        bench.settings.engine.concurrency = concurrency;
        bench.settings.engine.concurrency_max = concurrency;
        let (kind, id_or_name) = target.build(&mut bench);
        // A new load balancer is pending for a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        bench.limits(json!({ "latency_ms": 20 }));
        let (before, owned) = (bench.all_ids(), bench.owned_ports());
        bench.crash.at(at);
        let first = bench
            .run(async |client| {
                client.delete_until_gone(kind, &id_or_name).await;
            })
            .await;
        bench.crash.cancel();
        let in_flight = in_flight(&bench).await;
        let sent_before = bench.writes().len();
        let frozen = with_engine(&bench, async |client| {
            let known = client.deletions(Vec::new(), None).await;
            let id = match known.first() {
                Some(deletion) => deletion.id.clone(),
                // The deletion was not accepted, so the person requests it again.
                None => client.delete(kind, &id_or_name).await,
            };
            client.until_gone(&id).await;
            client.frozen_plan(&id).await
        })
        .await;
        check_outcome(&bench, (&before, &owned), &frozen).await;
        let (old, new) = bench
            .writes()
            .split_at_checked(sent_before)
            .map(|(a, b)| (a.to_vec(), b.to_vec()))
            .unwrap();
        // The new engine first observes the resources whose calls were in flight, so it repeats no call that took
        // effect.
        assert!(
            new.iter().all(|sent| sent.status != Some(404)),
            "{at:?}: {new:#?}"
        );
        let old: BTreeSet<String> = old.iter().map(SentRequest::signature).collect();
        let mut sent_counts: BTreeMap<String, usize> = BTreeMap::new();
        for sent in new {
            let signature = sent.signature();
            *sent_counts.entry(signature.clone()).or_default() += 1;
            if old.contains(&signature) {
                assert!(
                    in_flight.iter().any(|id| signature.contains(id)),
                    "{at:?}: {signature} was sent again, but was not in flight: {in_flight:?}"
                );
            }
        }
        assert!(
            sent_counts.values().all(|count| *count == 1),
            "{at:?}: {sent_counts:#?}"
        );
        first.is_none()
    })
}

/// Returns the ids of the resources whose calls were in flight at the crash. An id of several parts is split.
async fn in_flight(bench: &Bench) -> Vec<String> {
    let ledger = bench.ledger();
    let filter = StepFilter {
        states: vec![StepState::Running],
        ..StepFilter::default()
    };
    let steps = ledger.steps(filter, Cursor::default()).await.unwrap();
    let ids = steps
        .rows
        .iter()
        .flat_map(|step| step.resource.key.id.split(','));
    ids.map(str::to_owned).collect()
}

async fn check_outcome(
    bench: &Bench,
    (before, owned): (&BTreeSet<(String, String)>, &BTreeMap<String, String>),
    frozen: &Plan,
) {
    let after = bench.all_ids();
    let planned: BTreeSet<&str> = frozen
        .steps
        .iter()
        .chain(&frozen.automatic)
        .flat_map(|step| std::iter::once(&step.resource_id).chain(step.vars.values()))
        .map(String::as_str)
        .collect();
    for (collection, id) in before.difference(&after) {
        let owner = owned.get(id).unwrap_or(id);
        assert!(
            planned.contains(owner.as_str()),
            "{collection}/{id} was deleted, and is not in the plan"
        );
    }
    for step in frozen
        .steps
        .iter()
        .filter(|step| !step.resource_id.contains(','))
    {
        assert!(
            !after.iter().any(|(_, id)| *id == step.resource_id),
            "the resource of {step:?} still exists"
        );
    }
    let ledger = bench.ledger();
    let rows = ledger.audit(0, 500).await.unwrap();
    assert!(!rows.is_empty());
    verify(GENESIS, &rows).unwrap();
    let ledger_state = bench.ledger_state_of(&*ledger).await;
    assert_eq!(ledger_state.deletions.len(), 1);
    let counts = ledger_state.deletions[0].counts;
    assert_eq!(ledger_state.deletions[0].state, DeletionState::Gone);
    assert_eq!(
        (counts.gone, counts.total),
        (frozen.steps.len() as u64, frozen.steps.len() as u64)
    );
    let kept: BTreeSet<_> = frozen.kept.iter().map(|target| &target.key).collect();
    for tombstone in &ledger_state.tombstones {
        let phase = match kept.contains(&tombstone.key) {
            true => Phase::Released,
            false => Phase::Gone,
        };
        assert_eq!(tombstone.phase, phase, "{tombstone:?}");
    }
    let with_tombstone: BTreeSet<_> = ledger_state.tombstones.iter().map(|one| &one.key).collect();
    for step in &frozen.steps {
        assert!(
            with_tombstone.contains(&step.key()),
            "{step:?} has no tombstone"
        );
    }
}

fn crash_at_each(point: fn(u64) -> CrashPoint, concurrency: usize, target: Target) {
    crash_at_every_nth((1, 1), point, concurrency, target);
}

/// Crashes at the `first` point and at each `step`-th point after it, so that a long test can be split in two.
fn crash_at_every_nth(
    (first, step): (u64, u64),
    point: fn(u64) -> CrashPoint,
    concurrency: usize,
    target: Target,
) {
    let mut k = first;
    while run_with_crash(point(k), concurrency, target) {
        k += step;
        assert!(k < 500);
    }
    assert!(k > 15, "only {k} points to crash at");
}

#[test]
fn t08_i11_a_crash_at_each_write_is_recovered_with_one_call_at_a_time() {
    crash_at_each(CrashPoint::Write, 1, Target::Network);
}

#[test]
fn t08_i11_a_crash_at_each_write_is_recovered_with_sixteen_calls_at_a_time() {
    crash_at_each(CrashPoint::Write, 16, Target::Network);
}

#[test]
fn t08_i11_a_crash_at_each_call_is_recovered_with_one_call_at_a_time() {
    crash_at_each(CrashPoint::Call, 1, Target::Network);
}

#[test]
fn t08_i11_a_crash_at_each_call_is_recovered_with_sixteen_calls_at_a_time() {
    crash_at_each(CrashPoint::Call, 16, Target::Network);
}

#[test]
fn t08_i11_a_crash_at_each_write_is_recovered_for_a_project_in_three_services() {
    crash_at_each(CrashPoint::Write, 16, Target::Project);
}

#[test]
fn t08_t09_i11_a_crash_at_each_write_is_recovered_for_copies_in_three_regions() {
    crash_at_each(CrashPoint::Write, 16, Target::Copied);
}

#[test]
fn t08_t09_i11_a_crash_at_each_call_is_recovered_for_copies_in_three_regions() {
    crash_at_each(CrashPoint::Call, 1, Target::Copied);
}

#[test]
fn t08_i11_a_crash_at_each_odd_call_is_recovered_for_a_project_in_three_services() {
    crash_at_every_nth((1, 2), CrashPoint::Call, 1, Target::Project);
}

#[test]
fn t08_i11_a_crash_at_each_even_call_is_recovered_for_a_project_in_three_services() {
    crash_at_every_nth((2, 2), CrashPoint::Call, 1, Target::Project);
}
