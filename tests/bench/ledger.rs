//! Measures what the ledger costs, compared with SQLite or PostgreSQL alone in the same run. The ratios are
//! comparable between machines; the absolute numbers are not. With `--smoke`, the bench runs briefly and proves only
//! that it works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

#[path = "support/bare_sqlite.rs"]
mod bare_sqlite;
#[cfg(feature = "postgres")]
#[path = "support/delay_proxy.rs"]
mod delay_proxy;
#[cfg(feature = "postgres")]
#[path = "support/postgres.rs"]
mod postgres;
#[cfg(feature = "postgres")]
#[allow(dead_code, unreachable_pub)]
#[path = "../postgres/server.rs"]
mod server;
#[allow(dead_code, unreachable_pub)]
#[path = "../testkit/mod.rs"]
mod testkit;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{ErrorClass, Origin, Plan, PlanStep, Site, StepError, StepState, Target};
use gone::domain::policy::Decision;
use gone::ledger::sqlite::rewind::Rewind;
use gone::ledger::sqlite::{Options, SqliteLedger, Store};
use gone::ledger::{
    Applied, Capacity, Change, ClaimedStep, Commit, StepChange, Views as _, WorkQueue as _,
    WriteRequest,
};

const BATCH: usize = 1024;
/// Workers that commit at the same time, so that the ledger groups their commits, as it groups those of an engine.
const WORKERS: usize = 512;
const PORTS_PER_NETWORK: usize = 1000;
/// Number of times that the start of a deletion is measured; the shortest time counts. A start is one long transaction,
/// and other processes may disturb it.
const START_ROUNDS: usize = 3;

fn main() {
    let smoke = std::env::args().any(|arg| arg == "--smoke");
    let scale = |full: usize| if smoke { full / 100 } else { full };

    let (ours, bare, size) = transitions(scale(40_000));
    println!(
        "transitions: {ours:.0}/s, SQLite alone {bare:.0}/s, ratio {:.2} (goal >= 0.5); a step that is gone \
         takes {size} bytes, including its events",
        ours / bare
    );
    let grouped = transitions_in_groups(scale(40_000));
    println!("transitions on a disk that takes 5 ms a commit: {grouped:.0}/s (goal >= 5000)");
    #[cfg(feature = "postgres")]
    print_transitions_on_postgres(scale(40_000));
    let (started, bare) = start(scale(100_000), if smoke { 1 } else { START_ROUNDS });
    println!(
        "{} steps started in {started:.2} s (goal < 2), SQLite alone {bare:.2} s, ratio {:.2} \
         (goal >= 0.5)",
        scale(100_000),
        bare / started
    );
    let (few, many) = (scale(10_000), scale(100_000));
    let times = (observations_due(few), observations_due(many));
    println!(
        "query of the due observations with {many} accepted deletes: {:.2} ms, {:.2} times that with {few} \
         (goal <= 2)",
        times.1 * 1000.0,
        times.1 / times.0
    );
    let (steps, first) = first_summary(scale(1_000_000));
    println!(
        "first summary of {steps} steps: {:.1} ms (goal < 50)",
        first.as_secs_f64() * 1000.0
    );
    let replayed = replay(scale(100_000));
    println!(
        "replay of {} steps: opened in {:.2} s, a jump to any time {:.2} s (goal < 1), the longest jump {:.2} s, \
         one event back {:.2} s",
        scale(100_000),
        replayed.opened,
        replayed.jump,
        replayed.longest_jump,
        replayed.step
    );
}

#[cfg(feature = "postgres")]
fn print_transitions_on_postgres(n: usize) {
    let Some(rates) = postgres::transitions(n) else {
        println!("transitions on PostgreSQL: not measured, because PostgreSQL is not installed");
        return;
    };
    println!(
        "transitions on PostgreSQL, 16 in flight: {:.0}/s, the same row changes in a loop {:.0}/s, ratio {:.2} (goal >= 0.5); \
         a step that is gone takes {} bytes, including its events",
        rates.ours,
        rates.bare,
        rates.ours / rates.bare,
        rates.size
    );
    println!(
        "transitions on PostgreSQL, half a millisecond away each way: {:.0}/s with 16 in flight, {:.0}/s with 64 (goal >= 2000)",
        rates.delayed, rates.delayed_most
    );
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn site() -> Site {
    Site::region("cloud", "one")
}

fn capacity(now: usize) -> Capacity {
    Capacity {
        site: site(),
        now,
        ahead: 0,
    }
}

/// A plan of networks with their ports, which are deleted before their networks.
fn plan(steps: usize, seed: u64) -> Arc<Plan> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut planned = Vec::with_capacity(steps);
    let mut ports = Vec::new();
    for id in 0..u32::try_from(steps).unwrap() {
        let is_network = ports.len() == PORTS_PER_NETWORK;
        let (kind, after) = match is_network {
            true => ("network", std::mem::take(&mut ports)),
            false => ("port", Vec::new()),
        };
        let uuid = uuid::Builder::from_random_bytes(dice.u128(..).to_be_bytes()).into_uuid();
        planned.push(PlanStep {
            name: format!("name-{id}"),
            project_id: "8c2a7d4be07f4c2fa5a5bd9e0f5b5d11".into(),
            fingerprint: "0d5c7f1b2a3e4d5c6b7a8990a1b2c3d4e5f60718293a4b5c6d7e8f9001122334"
                .to_owned(),
            ..testkit::plan_step(id, testkit::key(site(), kind, &uuid.to_string()), &after)
        });
        if !is_network {
            ports.push(id);
        }
    }
    Arc::new(Plan {
        hash: format!("hash-{seed}"),
        ..testkit::plan(Vec::new(), planned)
    })
}

fn accept(id: &str) -> Change {
    let target = Target {
        key: testkit::key(site(), "project", id),
        name: String::new(),
    };
    let by = testkit::actor("bench", Origin::Cli);
    let wanted = testkit::new_deletion(id.to_owned(), by, vec![target], now());
    Change::Accept(Box::new(wanted))
}

/// Accepts and starts one deletion. Returns how long the start took.
fn begin(store: &mut Store, id: &str, plan: &Arc<Plan>) -> Duration {
    store.apply(vec![accept(id)]).unwrap();
    let change = Change::Start {
        deletion_id: id.to_owned(),
        ranks: vec![1; plan.steps.len()],
        plan: Arc::clone(plan),
        max_attempts: vec![8; plan.steps.len()],
        now: now(),
    };
    let before = Instant::now();
    assert_eq!(store.apply(vec![change]).unwrap(), [Applied::Done]);
    before.elapsed()
}

/// The change that ends a step's attempt, and moves the step to this state.
fn end(step: &ClaimedStep, to: StepState) -> Change {
    Change::Step(Box::new(StepChange {
        step_id: step.id,
        fence: step.fence,
        decision: Decision {
            to,
            attempts: 1,
            next_attempt_at: None,
            blocked_since: None,
            blockers: Vec::new(),
            error: (to == StepState::Stuck).then(|| StepError {
                status: Some(403),
                request_id: "req-1".to_owned(),
                ..testkit::error(ErrorClass::Fatal, "Forbidden", "no", now())
            }),
            observed_again: false,
        },
        message: "DELETE 204".to_owned(),
        answer: None,
        now: now(),
    }))
}

/// Creates a ledger with one deletion of `n` steps, and claims all steps that can be sent.
fn claimed(path: &Path, n: usize, seed: u64) -> Vec<ClaimedStep> {
    let mut store = Store::open(path, Options::default()).unwrap();
    begin(&mut store, "claimed", &plan(n, seed));
    store.claim(vec![capacity(n)], now()).unwrap()
}

/// Transitions per second in batches of 1,024, of the store and of its statements alone, and the bytes that the store
/// takes for each step afterwards.
fn transitions(n: usize) -> (f64, f64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let claimed = claimed(&path, n, 1);
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();

    let mut store = Store::open(&path, Options::default()).unwrap();
    let before = Instant::now();
    for batch in claimed.chunks(BATCH) {
        let changes = batch
            .iter()
            .map(|step| end(step, StepState::Gone))
            .collect();
        let applied = store.apply(changes).unwrap();
        assert!(applied.iter().all(|applied| *applied == Applied::Done));
    }
    let ours = claimed.len() as f64 / before.elapsed().as_secs_f64();
    // A closed store has no write-ahead log, so the file is all it takes.
    drop(store);
    let size = std::fs::metadata(&path).unwrap().len() / claimed.len() as u64;
    (
        ours,
        bare_sqlite::transitions(&copy, &claimed, BATCH, now()),
        size,
    )
}

/// Transitions per second of many small commits, on a disk that takes 5 ms for each commit.
fn transitions_in_groups(n: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let claimed = claimed(&path, n, 2);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let slow = |store: &mut Store, jobs: &[WriteRequest]| {
            std::thread::sleep(Duration::from_millis(5));
            store.group(jobs)
        };
        let ledger = SqliteLedger::open_with(&path, Options::default(), slow);
        let ledger = Arc::new(ledger.unwrap());
        let rate = end_each(&ledger, &claimed, WORKERS).await;
        ledger.close().await;
        rate
    })
}

/// Ends these steps, each in a commit of its own, by several workers at once. Returns the steps per second.
async fn end_each<L: Commit + 'static>(
    ledger: &Arc<L>,
    steps: &[ClaimedStep],
    workers: usize,
) -> f64 {
    let before = Instant::now();
    let ending = steps.chunks(steps.len().div_ceil(workers)).map(|steps| {
        let (ledger, steps) = (Arc::clone(ledger), steps.to_vec());
        tokio::spawn(async move {
            for step in &steps {
                let applied = ledger.commit(vec![end(step, StepState::Gone)]).await;
                assert_eq!(applied.unwrap(), [Applied::Done]);
            }
        })
    });
    for worker in ending.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    steps.len() as f64 / before.elapsed().as_secs_f64()
}

/// Seconds that the start of a deletion takes, in the store and for the inserts of its rows alone: the best of several
/// alternating rounds.
fn start(n: usize, rounds: usize) -> (f64, f64) {
    let plan = plan(n, 3);
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = folder.path().join(name);
            (Store::open(&path, Options::default()).unwrap(), path)
        };
        let (mut store, _) = open("ledger.db");
        best.0 = best.0.min(begin(&mut store, "start", &plan).as_secs_f64());
        let (tables, path) = open("bare.db");
        drop(tables);
        best.1 = best
            .1
            .min(bare_sqlite::start(&path, &plan, now()).as_secs_f64());
    }
    best
}

/// The median time, in seconds, of the query for due observations when the cloud has accepted this many deletes of
/// one deletion.
fn observations_due(accepted: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let claimed = claimed(&path, accepted, 4);
    let mut store = Store::open(&path, Options::default()).unwrap();
    for batch in claimed.chunks(BATCH) {
        let accept = |step| end(step, StepState::Verifying);
        store.apply(batch.iter().map(accept).collect()).unwrap();
    }
    drop(store);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = SqliteLedger::open_reader(&path).unwrap();
    let query = || {
        let before = Instant::now();
        let due = runtime.block_on(ledger.observations_due(now())).unwrap();
        assert_eq!(due.len(), 1, "the ports are not one group of due steps");
        before.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..101).map(|_| query()).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Measures the first summary after a ledger was opened. The ledger has ten deletions, in which one step in a hundred
/// is stuck. Returns the number of steps and the time.
fn first_summary(n: usize) -> (u64, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut store = Store::open(&path, Options::default()).unwrap();
    for part in 0..10 {
        begin(
            &mut store,
            &format!("part-{part}"),
            &plan(n / 10, 10 + part),
        );
    }
    let claimed = store.claim(vec![capacity(n / 100)], now()).unwrap();
    for batch in claimed.chunks(BATCH) {
        store
            .apply(
                batch
                    .iter()
                    .map(|step| end(step, StepState::Stuck))
                    .collect(),
            )
            .unwrap();
    }
    drop(store);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = SqliteLedger::open_reader(&path).unwrap();
    let before = Instant::now();
    let summary = runtime.block_on(ledger.summary()).unwrap();
    let took = before.elapsed();
    assert!(!summary.attention.is_empty());
    (summary.steps.total, took)
}

/// The times of a replay in seconds.
struct ReplayTimes {
    opened: f64,
    /// The median of jumps to random times.
    jump: f64,
    longest_jump: f64,
    /// A step back by one event.
    step: f64,
}

/// Replays one deletion. The cloud accepted all its deletes; after that, about one step in a hundred became stuck, and
/// the others were gone.
fn replay(n: usize) -> ReplayTimes {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut claimed = claimed(&path, n, 5);
    let mut store = Store::open(&path, Options::default()).unwrap();
    let mut seconds = 0;
    for state in [StepState::Verifying, StepState::Gone] {
        for batch in claimed.chunks_mut(BATCH) {
            seconds += 1;
            let changes = batch.iter_mut().enumerate().map(|(position, step)| {
                let to = if position % 100 == 0 && state == StepState::Gone {
                    StepState::Stuck
                } else {
                    state
                };
                let Change::Step(mut change) = end(step, to) else {
                    unreachable!()
                };
                step.fence.state = to;
                change.now = now() + TimeDelta::seconds(seconds);
                Change::Step(change)
            });
            let applied = store.apply(changes.collect()).unwrap();
            assert!(applied.iter().all(|applied| *applied == Applied::Done));
        }
    }
    drop(store);
    let copy = tempfile::tempdir().unwrap();
    let before = Instant::now();
    let mut rewind = Rewind::open(&path, copy.path()).unwrap();
    let opened = before.elapsed().as_secs_f64();
    let mut dice = fastrand::Rng::with_seed(6);
    let mut timed = |work: &mut dyn FnMut(&mut Rewind)| {
        let before = Instant::now();
        work(&mut rewind);
        before.elapsed().as_secs_f64()
    };
    let mut jumps: Vec<f64> = (0..21)
        .map(|_| {
            let at = now() + TimeDelta::seconds(dice.i64(0..=seconds));
            timed(&mut |rewind| assert_eq!(rewind.seek(at).unwrap(), at))
        })
        .collect();
    jumps.sort_by(f64::total_cmp);
    ReplayTimes {
        opened,
        jump: jumps[jumps.len() / 2],
        longest_jump: jumps[jumps.len() - 1],
        step: timed(&mut |rewind| assert!(rewind.step(-1).is_ok())),
    }
}
