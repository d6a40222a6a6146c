//! What the ledger costs, against what SQLite or PostgreSQL alone costs in the same run: ratios travel between
//! machines, numbers do not. `--smoke` runs small and proves only that all of it works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

#[path = "support/bare.rs"]
mod bare;
#[cfg(feature = "postgres")]
#[path = "support/distant.rs"]
mod distant;
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
    Applied, Capacity, Change, ClaimedStep, Commit, Job, StepChange, Views as _, WorkQueue as _,
};

const BATCH: usize = 1024;
/// Committers that wait for each other's company, as an engine's workers do.
const WORKERS: usize = 512;
const PORTS_PER_NETWORK: usize = 1000;
/// The best of these counts: a start is one long transaction, and others use the machine too.
const START_ROUNDS: usize = 3;

fn main() {
    let smoke = std::env::args().any(|arg| arg == "--smoke");
    let scale = |full: usize| if smoke { full / 100 } else { full };

    let (ours, bare, size) = transitions(scale(40_000));
    println!(
        "transitions: {ours:.0}/s, bare rusqlite {bare:.0}/s, ratio {:.2} (goal >= 0.5); a step that is gone \
         takes {size} bytes, with its events",
        ours / bare
    );
    let grouped = grouped(scale(40_000));
    println!("transitions at 5 ms a commit: {grouped:.0}/s (goal >= 5000)");
    #[cfg(feature = "postgres")]
    on_a_server(scale(40_000));
    let (started, bare) = start(scale(100_000), if smoke { 1 } else { START_ROUNDS });
    println!(
        "{} steps started in {started:.2} s (goal < 2), bare rusqlite {bare:.2} s, ratio {:.2} \
         (goal >= 0.5)",
        scale(100_000),
        bare / started
    );
    let (few, many) = (scale(10_000), scale(100_000));
    let asked = (observations_due(few), observations_due(many));
    println!(
        "what to look at, asked with {many} accepted deletes: {:.2} ms, {:.2} of that with {few} \
         (goal <= 2)",
        asked.1 * 1000.0,
        asked.1 / asked.0
    );
    let (steps, first) = first_summary(scale(1_000_000));
    println!(
        "first summary of {steps} steps: {:.1} ms (goal < 50)",
        first.as_secs_f64() * 1000.0
    );
    let replayed = replay(scale(100_000));
    println!(
        "replay of {} steps: opened in {:.2} s, any time shown in {:.2} s (goal < 1), the longest {:.2} s, \
         the next event in {:.2} s",
        scale(100_000),
        replayed.opened,
        replayed.jumped,
        replayed.longest,
        replayed.stepped
    );
}

#[cfg(feature = "postgres")]
fn on_a_server(n: usize) {
    let Some(rates) = postgres::transitions(n) else {
        println!("transitions on PostgreSQL: not measured, it is not installed");
        return;
    };
    println!(
        "transitions on PostgreSQL, 16 in flight: {:.0}/s, a bare loop by sets {:.0}/s, ratio {:.2} (goal >= 0.5); \
         a step that is gone takes {} bytes, with its events",
        rates.ours,
        rates.bare,
        rates.ours / rates.bare,
        rates.size
    );
    println!(
        "transitions on PostgreSQL half a millisecond away: {:.0}/s with 16 in flight, {:.0}/s with 64 (goal >= 2000)",
        rates.distant, rates.distant_most
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

/// Networks with their ports; a network goes after its ports.
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

/// Accepts and starts one deletion; how long the start took.
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

/// A ledger with one deletion of so many steps, of which all that can be sent is claimed.
fn claimed(path: &Path, n: usize, seed: u64) -> Vec<ClaimedStep> {
    let mut store = Store::open(path, Options::default()).unwrap();
    begin(&mut store, "claimed", &plan(n, seed));
    store.claim(vec![capacity(n)], now()).unwrap()
}

/// Transitions per second in batches of 1,024: the store, and the statements alone. And how many bytes the store takes
/// for each step then.
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
    // Closed, it has no write-ahead log.
    drop(store);
    let size = std::fs::metadata(&path).unwrap().len() / claimed.len() as u64;
    (ours, bare::transitions(&copy, &claimed, BATCH, now()), size)
}

/// Transitions per second of many small commits on a disk that takes 5 ms for each.
fn grouped(n: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let claimed = claimed(&path, n, 2);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let slow = |store: &mut Store, jobs: &[Job]| {
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

/// Ends these steps, one in a commit, with so many under way at a time. Returns how many a second.
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

/// Seconds that a start takes: the store, and the inserts of its rows alone; the best of so many
/// rounds each, by turns.
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
        best.1 = best.1.min(bare::start(&path, &plan, now()).as_secs_f64());
    }
    best
}

/// Seconds to ask what to look at when so many deletes of one deletion were accepted; the median.
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
    let ask = || {
        let before = Instant::now();
        let due = runtime.block_on(ledger.observations_due(now())).unwrap();
        assert_eq!(due.len(), 1, "ports, which fill a list");
        before.elapsed().as_secs_f64()
    };
    let mut asked: Vec<f64> = (0..101).map(|_| ask()).collect();
    asked.sort_by(f64::total_cmp);
    asked[asked.len() / 2]
}

/// Ten deletions, one step in a hundred stuck; opened anew, read once.
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

/// Seconds.
struct Replayed {
    opened: f64,
    /// The median of jumps to anywhere.
    jumped: f64,
    longest: f64,
    stepped: f64,
}

/// One deletion whose steps were each accepted and then gone, but for one in a hundred that was stuck.
fn replay(n: usize) -> Replayed {
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
    Replayed {
        opened,
        jumped: jumps[jumps.len() / 2],
        longest: jumps[jumps.len() - 1],
        stepped: timed(&mut |rewind| assert!(rewind.step(-1).is_ok())),
    }
}
