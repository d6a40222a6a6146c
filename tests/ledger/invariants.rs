//! Random sequences of changes and claims, on both drivers of the SQLite store and on a store in memory. All three give
//! the same answers, and both stores have the same rows. Everything that a ledger maintains equals a recount over its
//! tables.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use gone::domain::gantt::Gantt;
use gone::domain::model::{Action, ErrorClass, KindName, OnFailure, Origin, Plan, StepState};
use gone::ledger::sqlite::upkeep::rules;
use gone::ledger::sqlite::{InlineLedger, Options, SqliteLedger, Store};
use gone::ledger::tombstones::Tombstones;
use gone::ledger::{
    Applied, Capacity, Change, ClaimedStep, DeletionFilter, EventFilter, Ledger, PurgeAction,
    RecreationReason, Selection, StepFilter, TombstoneFilter, Views as _, WorkQueue as _, audit,
};
use proptest::prelude::*;
use rusqlite::{Connection, OptionalExtension as _};

use crate::memory::MemoryLedger;
use crate::support::*;

#[derive(Clone, Debug)]
enum Op {
    Accept {
        deletion: u8,
        resource: u8,
        stops: bool,
    },
    /// Starts the plan that [`graph`] makes of these resources and bits.
    Start {
        deletion: u8,
        resources: Vec<(u8, u8)>,
    },
    Refuse {
        deletion: u8,
    },
    Claim {
        now: usize,
        ahead: usize,
    },
    /// An outcome with the fencing token of a claim, counted from the newest claim.
    End {
        claim: usize,
        to: StepState,
    },
    /// An outcome of a step whose observation is due.
    Observe {
        nth: usize,
        to: StepState,
    },
    Wake,
    Retry {
        deletion: u8,
        by_gate: bool,
    },
    RetryStep {
        step: i64,
    },
    Cancel {
        deletion: u8,
    },
    Pause {
        deletion: u8,
        paused: bool,
    },
    Recover,
    Recreated {
        resource: u8,
    },
    /// Abandons the steps of a deletion, or one step.
    Forget {
        deletion: u8,
        step: Option<i64>,
    },
    /// The rung `force` or `reset` on a step.
    CallInstead {
        step: i64,
        force: bool,
    },
    /// The rung `unpin` on a step: accepts another deletion of this resource, and retries the step.
    Unpin {
        step: i64,
        deletion: u8,
        resource: u8,
    },
    Release {
        resource: u8,
    },
    /// Prunes the rows that are older than this many operations.
    Prune {
        age: i64,
    },
}

const DELETIONS: u8 = 4;
/// Seconds between two operations. Some repeated deletes from a gate then come within a minute of the one before, and
/// some do not.
const SECONDS: i64 = 25;
const RESOURCES: u8 = 7;

fn outcomes() -> impl Strategy<Value = StepState> {
    prop_oneof![
        4 => Just(StepState::Gone),
        3 => Just(StepState::Stuck),
        2 => Just(StepState::Blocked),
        2 => Just(StepState::Verifying),
        2 => Just(StepState::Ready),
        1 => Just(StepState::Skipped),
        1 => Just(StepState::Purged),
        1 => Just(StepState::Waiting),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let deletion = 0..DELETIONS;
    let resource = 0..RESOURCES;
    prop_oneof![
        3 => (deletion.clone(), resource.clone(), any::<bool>())
            .prop_map(|(deletion, resource, stops)| Op::Accept { deletion, resource, stops }),
        4 => (deletion.clone(), prop::collection::vec((resource.clone(), any::<u8>()), 0..6))
            .prop_map(|(deletion, resources)| Op::Start { deletion, resources }),
        1 => deletion.clone().prop_map(|deletion| Op::Refuse { deletion }),
        5 => (0usize..3, 0usize..3).prop_map(|(now, ahead)| Op::Claim { now, ahead }),
        9 => (0usize..4, outcomes()).prop_map(|(claim, to)| Op::End { claim, to }),
        2 => (any::<usize>(), outcomes()).prop_map(|(claim, to)| Op::End { claim, to }),
        3 => (any::<usize>(), outcomes()).prop_map(|(nth, to)| Op::Observe { nth, to }),
        2 => Just(Op::Wake),
        2 => (deletion.clone(), any::<bool>())
            .prop_map(|(deletion, by_gate)| Op::Retry { deletion, by_gate }),
        2 => (1i64..12).prop_map(|step| Op::RetryStep { step }),
        1 => deletion.clone().prop_map(|deletion| Op::Cancel { deletion }),
        1 => (deletion, any::<bool>())
            .prop_map(|(deletion, paused)| Op::Pause { deletion, paused }),
        1 => Just(Op::Recover),
        1 => resource.clone().prop_map(|resource| Op::Recreated { resource }),
        2 => (0..DELETIONS, prop::option::of(1i64..12))
            .prop_map(|(deletion, step)| Op::Forget { deletion, step }),
        2 => (1i64..12, any::<bool>())
            .prop_map(|(step, force)| Op::CallInstead { step, force }),
        1 => (1i64..12, 0..DELETIONS, resource.clone())
            .prop_map(|(step, deletion, resource)| Op::Unpin { step, deletion, resource }),
        1 => resource.prop_map(|resource| Op::Release { resource }),
        2 => (0i64..20).prop_map(|age| Op::Prune { age }),
    ]
}

/// Some deletions that are accepted and started, and then random operations, few of which have an effect without a
/// started deletion.
fn sequences() -> impl Strategy<Value = Vec<Op>> {
    let resources = prop::collection::btree_map(0..RESOURCES, any::<u8>(), 1..6);
    let begun = (0..RESOURCES, any::<bool>(), resources);
    let begun = prop::collection::vec(begun, 1..=usize::from(DELETIONS));
    (begun, prop::collection::vec(ops(), 1..60)).prop_map(|(begun, rest)| {
        let begun = (0..).zip(begun);
        let begun = begun.flat_map(|(deletion, (resource, stops, resources))| {
            let resources = resources.into_iter().collect();
            [
                Op::Accept {
                    deletion,
                    resource,
                    stops,
                },
                Op::Start {
                    deletion,
                    resources,
                },
            ]
        });
        begun.chain(rest).collect()
    })
}

fn name(deletion: u8) -> String {
    format!("d{deletion}")
}

/// Every second id is a UUID.
fn resource_id(resource: u8) -> String {
    match resource % 2 {
        0 => format!("r{resource}"),
        _ => format!("{resource:08x}-0000-4000-8000-000000000000"),
    }
}

/// A plan that deletes these resources. A resource whose bit n is set waits for the resource at position n, if that is
/// before it. A resource whose topmost bit is set is enabled first.
fn graph(resources: &[(u8, u8)]) -> Plan {
    let mut steps = Vec::new();
    let mut deletes: Vec<u32> = Vec::new();
    for (resource, bits) in resources {
        let before = deletes.iter().enumerate();
        let before = before.filter(|(at, _)| bits & (1 << at) != 0);
        let mut after: Vec<u32> = before.map(|(_, step)| *step).collect();
        let key = key("port", &resource_id(*resource));
        if bits & 0x80 != 0 {
            after.push(u32::try_from(steps.len()).unwrap());
            steps.push(plan_step(steps.len(), Action::Enable, key.clone(), &[]));
        }
        deletes.push(u32::try_from(steps.len()).unwrap());
        steps.push(plan_step(steps.len(), Action::Delete, key, &after));
    }
    plan(steps)
}

/// The change for an operation; none if the operation does not apply now.
fn change(op: &Op, claims: &[ClaimedStep], due: &[ClaimedStep], now: i64) -> Option<Change> {
    let now = at(now);
    let ended = |step: &ClaimedStep, to: StepState| {
        let change = match to {
            StepState::Stuck => failure(step, to, ErrorClass::Fatal, now),
            StepState::Blocked => failure(step, to, ErrorClass::Blocked, now),
            _ => outcome(step, to, now),
        };
        record_outcome(with_decision(change, |it| it.next_attempt_at = Some(now)))
    };
    Some(match op {
        Op::Accept {
            deletion,
            resource,
            stops,
        } => {
            let root = vec![target("port", &resource_id(*resource))];
            let mut deletion = new_deletion(&name(*deletion), root, now);
            if *stops {
                deletion.options.on_failure = OnFailure::Stop;
            }
            accept(deletion)
        }
        Op::Start {
            deletion,
            resources,
        } => start(&name(*deletion), &graph(resources), now),
        Op::Refuse { deletion } => Change::Refuse {
            deletion_id: id(&name(*deletion)),
            refused: Vec::new(),
            note: "no".to_owned(),
            now,
        },
        Op::End { claim, to } => ended(claims.iter().nth_back(claim % claims.len().max(1))?, *to),
        Op::Observe { nth, to } => ended(due.get(nth % due.len().max(1))?, *to),
        Op::Wake => Change::WakeDue { now },
        Op::Retry { deletion, by_gate } => {
            let origin = if *by_gate { Origin::Gate } else { Origin::Cli };
            retry(Selection::Deletion(id(&name(*deletion))), origin, now)
        }
        Op::RetryStep { step } => retry(Selection::Steps(vec![*step]), Origin::Cli, now),
        Op::Cancel { deletion } => cancel(&name(*deletion), now),
        Op::Pause { deletion, paused } => pause(&name(*deletion), *paused, now),
        Op::Recover => Change::Recover { now },
        Op::Recreated { resource } => Change::Recreated {
            key: key("port", &resource_id(*resource)),
            copy: None,
            stuck: (resource % 2 == 0).then_some(RecreationReason::TooOften),
            now,
        },
        Op::Forget { deletion, step } => {
            let what = match step {
                Some(step) => Selection::Steps(vec![*step]),
                None => Selection::Deletion(id(&name(*deletion))),
            };
            purge(what, PurgeAction::Forget, now)
        }
        Op::CallInstead { step, force } => {
            let action = if *force {
                PurgeAction::Force
            } else {
                PurgeAction::Reset
            };
            purge(Selection::Steps(vec![*step]), action, now)
        }
        Op::Unpin {
            step,
            deletion,
            resource,
        } => {
            let root = vec![target("port", &resource_id(*resource))];
            let unpins = new_deletion(&format!("u{deletion}"), root, now);
            let what = Selection::Steps(vec![*step]);
            purge(what, PurgeAction::Unpin(Box::new(unpins)), now)
        }
        Op::Release { resource } => release("port", &resource_id(*resource), now),
        Op::Prune { age } => Change::Prune {
            before: now - chrono::TimeDelta::seconds(SECONDS * age),
            unique_id_kinds: unique_id_kinds(),
            audit: None,
            now,
        },
        Op::Claim { .. } => return None,
    })
}

fn any_stops(db: &Connection, steps: &[ClaimedStep]) -> bool {
    let stops = "SELECT EXISTS(SELECT 1 FROM deletions WHERE id = ?1 AND stops)";
    steps.iter().any(|step| {
        let mut stops = db.prepare_cached(stops).unwrap();
        stops
            .query_row([&step.deletion_id], |row| row.get(0))
            .unwrap()
    })
}

fn check(db: &Connection, after: &Op) -> Result<(), TestCaseError> {
    for (rule, sql) in rules(i64::MAX) {
        let broken: i64 = db
            .prepare_cached(&sql)
            .unwrap()
            .query_row((), |row| row.get(0))
            .unwrap();
        prop_assert_eq!(broken, 0, "{} (after {:?})", rule, after);
    }
    Ok(())
}

/// Checks that the index which the gates read equals the table, also after tombstones were pruned.
fn check_index(db: &Connection, index: &Tombstones, after: &Op) -> Result<(), TestCaseError> {
    let phase_in_table = |id: &str| -> Option<String> {
        let phase =
            "SELECT phase FROM tombstones WHERE kind = 'port' AND id = ?1 AND phase <> 'released'";
        let mut phase = db.prepare_cached(phase).unwrap();
        phase.query_row([id], |row| row.get(0)).optional().unwrap()
    };
    for id in (0..RESOURCES).map(resource_id) {
        let found = index.phase(&site(), &KindName::new("port"), &id);
        let found = found.map(|phase| phase.as_str().to_owned());
        prop_assert_eq!(found, phase_in_table(&id), "{} (after {:?})", id, after);
    }
    let all = "SELECT count(*) FROM tombstones WHERE phase <> 'released'";
    let all: i64 = db.query_row(all, (), |row| row.get(0)).unwrap();
    prop_assert_eq!(index.len() as i64, all, "(after {:?})", after);
    Ok(())
}

/// The answer without the text of a refusal by the store itself, since each store has its own.
fn without_store_text(applied: &Applied) -> Applied {
    match applied {
        Applied::Refused(why) if why.starts_with("the ledger cannot store this") => {
            Applied::Refused(String::new())
        }
        other => other.clone(),
    }
}

/// A Gantt chart without the names of the steps that ended last: if several ended at once, a store names any of them.
fn without_names(mut gantt: Gantt) -> Gantt {
    for row in &mut gantt.rows {
        row.last.name.clear();
        row.last.waited_for = None;
    }
    gantt
}

/// Checks that both stores return the same from each of these reads.
async fn check_rows(
    ledger: &dyn Ledger,
    memory: &dyn Ledger,
    now: DateTime<Utc>,
    after: &Op,
) -> Result<(), TestCaseError> {
    macro_rules! same {
        ($read:ident($($argument:expr),*)) => {
            let found = ledger.$read($($argument),*).await.unwrap();
            let in_memory = memory.$read($($argument),*).await.unwrap();
            prop_assert_eq!(found, in_memory, "{} (after {:?})", stringify!($read), after);
        };
    }
    same!(steps(StepFilter::default(), first_page()));
    same!(deletions(DeletionFilter::default(), first_page()));
    same!(tombstones(TombstoneFilter::default(), first_page()));
    same!(orphans(first_page()));
    same!(causes(Vec::new()));
    same!(summary());
    same!(upcoming(now));
    same!(next_due(now));
    same!(observations_due(now));
    same!(held_down(at(0), 0, 0));
    // One deletion each time: to compare all of them would take longer than everything else.
    let turn = now.timestamp() / SECONDS % i64::from(DELETIONS);
    let deletion = id(&name(u8::try_from(turn).unwrap()));
    same!(progress(&deletion));
    same!(frozen_plan(&deletion, true));
    let found = ledger.gantt(&deletion, 7, now).await.unwrap();
    let in_memory = memory.gantt(&deletion, 7, now).await.unwrap();
    prop_assert_eq!(
        found.map(without_names),
        in_memory.map(without_names),
        "(after {:?})",
        after
    );
    same!(outline(&deletion, vec![None]));
    Ok(())
}

async fn run(folder: &Folder, other: &Path, ops: &[Op]) -> Result<(), TestCaseError> {
    let index = Arc::<Tombstones>::default();
    let followed = Options {
        tombstones: Some(index.clone()),
        ..Options::default()
    };
    let inline = InlineLedger::new(Store::open(&folder.ledger(), followed).unwrap());
    let threaded = SqliteLedger::open(other, Options::default()).unwrap();
    let memory = MemoryLedger::default();
    let db = Connection::open(folder.ledger()).unwrap();
    db.set_prepared_statement_cache_capacity(32);
    let mut claims: Vec<ClaimedStep> = Vec::new();
    let mut in_flight = BTreeSet::new();
    for (op, now) in ops.iter().zip(1i64..) {
        let now = now * SECONDS;
        if let Op::Claim {
            now: at_once,
            ahead,
        } = *op
        {
            let capacities = vec![Capacity {
                ahead,
                ..capacity(at_once)
            }];
            let claimed = inline.claim(capacities.clone(), at(now)).await.unwrap();
            prop_assert_eq!(
                &claimed,
                &threaded.claim(capacities.clone(), at(now)).await.unwrap()
            );
            prop_assert!(claimed.len() <= at_once + ahead);
            // N11: no step of a deletion that stops at a failure is claimed ahead.
            prop_assert!(claimed.len() <= at_once || !any_stops(&db, &claimed));
            for step in &claimed {
                prop_assert!(
                    in_flight.insert(step.id),
                    "step {} was claimed while in flight",
                    step.id
                );
            }
            prop_assert_eq!(&claimed, &memory.claim(capacities, at(now)).await.unwrap());
            claims.extend(claimed);
        } else {
            let due = steps_to_observe(&inline, at(now), 9).await.unwrap();
            prop_assert_eq!(
                &due,
                &steps_to_observe(&threaded, at(now), 9).await.unwrap()
            );
            let Some(change) = change(op, &claims, &due, now) else {
                continue;
            };
            let applied = commit_one(&inline, change.clone()).await;
            prop_assert_eq!(&applied, &commit_one(&threaded, change.clone()).await);
            let in_memory = commit_one(&memory, change.clone()).await;
            prop_assert_eq!(
                without_store_text(&applied),
                without_store_text(&in_memory),
                "{:?}",
                in_memory
            );
            match (&change, &applied) {
                (Change::Step(step), Applied::Done) if step.fence.state == StepState::Running => {
                    prop_assert!(
                        in_flight.remove(&step.step_id),
                        "{:?} was not in flight",
                        step
                    );
                }
                (Change::Recover { .. }, _) => in_flight.clear(),
                _ => {}
            }
        }
        check(&db, op)?;
        check_index(&db, &index, op)?;
        check_rows(&inline, &memory, at(now), op).await?;
    }
    prop_assert_eq!(
        inline.summary().await.unwrap(),
        threaded.summary().await.unwrap()
    );
    let events = inline.events(0, EventFilter::default(), 0).await.unwrap();
    let in_memory = memory.events(0, EventFilter::default(), 0).await.unwrap();
    prop_assert_eq!(events.events, in_memory.events);
    prop_assert_eq!(
        (events.oldest, events.newest),
        (in_memory.oldest, in_memory.newest)
    );
    let rows = inline.audit(0, 500).await.unwrap();
    prop_assert_eq!(&rows, &memory.audit(0, 500).await.unwrap());
    prop_assert!(audit::verify(audit::GENESIS, &rows).is_ok());
    threaded.close().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn t08_t09_i09_n11_n12_any_sequence_keeps_the_invariants(
        ops in sequences()
    ) {
        let folder = Folder::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(&folder, &folder.path("other.db"), &ops))?;
    }
}
