//! Simulations of several engines on one ledger, from seeds. In addition to the faults of [`seeds`](super::seeds),
//! engines lose their connection to the ledger for up to three leases, and miss notices. The same invariants must hold.
//!
//! `GONE_SEED=17 cargo test --test engine several_engines` runs one seed; `GONE_SEEDS=0..100000` runs many.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gone::engine::Engine;
use gone::ledger::engines::EngineTerms;
use tokio::time::{sleep, timeout};

use super::harness::*;
use super::invariants::after_crash;
use super::planted_faults::assert_detected;
use super::ports::{Crash, FaultyLedger, PlantedFault};
use super::seed_selection::in_parts;
use super::seeds::{
    CRASHES_MAX, RequestProgress, Simulation, request_until_gone, run_on_paused_clock,
};
use super::shared_ledger::{Connection, Server, SharedLedger};

/// The lease of an engine, which must be longer than the time limit of a call.
const LEASE: Duration = Duration::from_secs(30);
/// Longer than any simulation takes on its clock. A simulation that has not ended by then hangs.
const SIMULATION_MAX: Duration = Duration::from_secs(30 * 60);
/// The most times that an engine loses its connection after each start.
const CUTS_MAX: u32 = 4;

/// An engine that runs, with its connection to the ledger.
struct RunningEngine {
    engine: Engine,
    crash: Arc<Crash>,
    connection: Arc<Connection>,
    ledger: std::sync::Weak<FaultyLedger>,
    heartbeat: tokio::task::JoinHandle<()>,
    epoch: i64,
}

impl RunningEngine {
    fn start(simulation: &Simulation, server: &Server, name: &str, seed: u64) -> Self {
        let bench = &simulation.bench;
        let terms = EngineTerms {
            name: name.to_owned(),
            lease: LEASE,
            call_timeout: bench.settings.engine.call_timeout,
            is_alone: false,
        };
        let (ledger, connection, heartbeat) =
            SharedLedger::open(server, terms, seed, bench.planted_fault);
        let (epoch, gate) = (ledger.epoch(), ledger.gate());
        let crash = Arc::new(Crash::default());
        let (engine, ledger) = bench.engine(Box::new(ledger), epoch, &crash, gate);
        Self {
            engine,
            crash,
            connection,
            ledger,
            heartbeat,
            epoch,
        }
    }

    fn client(&self) -> Client {
        Client {
            control: self.engine.control(),
        }
    }

    /// Runs the engine until its crash.
    async fn run_until_crash(&self) {
        tokio::select! {
            biased;
            () = self.crash.now.notified() => {}
            ended = self.engine.run() => panic!("the engine ended by itself: {ended:?}"),
        }
    }

    /// Ends the engine as a crash does. `is_noticed`: whether other engines notice the end of its process. Otherwise
    /// its lease runs out.
    async fn stop(self, server: &Server, is_noticed: bool) {
        self.connection.die();
        self.heartbeat.abort();
        if is_noticed {
            server.mark_dead(self.epoch);
        }
        drop(self.engine);
        // The tasks of the engine are cancelled with it. They drop the ledger when the runtime polls them next.
        while self.ledger.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn seconds(dice: &mut fastrand::Rng, most: u64) -> Duration {
    Duration::from_millis(dice.u64(0..most * 1000))
}

fn schedule_crash(crash: &Crash, dice: &mut fastrand::Rng) {
    match dice.u8(0..4) {
        0 | 1 => crash.at_write(dice.u64(1..60)),
        2 => crash.at_call(dice.u64(1..80)),
        _ => crash.cancel(),
    }
}

/// Runs an engine that crashes, is started again, and loses its connection to the ledger several times.
async fn restart_repeatedly(
    simulation: &Simulation,
    server: &Server,
    number: usize,
    mut dice: fastrand::Rng,
) {
    for crashes in 0.. {
        sleep(seconds(&mut dice, 40)).await;
        let running = RunningEngine::start(
            simulation,
            server,
            &format!("engine-{number}"),
            dice.u64(..),
        );
        if crashes < CRASHES_MAX {
            schedule_crash(&running.crash, &mut dice);
        }
        let cuts = async {
            for _ in 0..CUTS_MAX {
                sleep(seconds(&mut dice, 60)).await;
                let duration = seconds(&mut dice, 3 * LEASE.as_secs());
                match dice.bool() {
                    true => running.connection.cut(duration),
                    false => running.connection.cut_at_claim(duration),
                }
                sleep(duration).await;
            }
        };
        {
            let mut lives = pin!(running.run_until_crash());
            tokio::select! {
                biased;
                () = &mut lives => {}
                () = cuts => lives.await,
            }
        }
        running.stop(server, dice.bool()).await;
    }
}

/// Runs a seed with two or three engines. Returns the requests, or the invariant that does not hold.
fn run(seed: u64, planted_fault: PlantedFault) -> Result<Vec<SentRequest>, String> {
    run_on_paused_clock(simulate(seed, planted_fault))
}

async fn simulate(seed: u64, planted_fault: PlantedFault) -> Result<Vec<SentRequest>, String> {
    let mut simulation = Simulation::new(seed, planted_fault);
    simulation.bench.keep_in_memory();
    let server = Server::new(simulation.bench.storage.rows().clone(), seed);
    simulation.server = Some(server.clone());
    let before = simulation.bench.all_ids();
    let faults = simulation.begin();
    let mut dice = fastrand::Rng::with_seed(simulation.dice.u64(..));
    let others = (1..dice.usize(2..4)).map(|number| {
        let dice = fastrand::Rng::with_seed(dice.u64(..));
        restart_repeatedly(&simulation, &server, number, dice)
    });
    let others = join_all(others.collect::<Vec<_>>());
    let first = run_first_engine(&simulation, &server, &faults, dice);
    let ended = tokio::select! {
        biased;
        ended = timeout(SIMULATION_MAX, first) => ended,
        _ = others => unreachable!("other engines are started again for ever"),
    };
    let ended = match ended {
        Ok(ended) => server.overwritten().map_or(ended, Err),
        Err(_) => Err(hang_report(&simulation, &server).await),
    };
    simulation.end(&before, &faults, ended).await
}

/// Describes the ledger of a simulation that hangs.
async fn hang_report(simulation: &Simulation, server: &Server) -> String {
    let deletions = simulation.bench.ledger_state().await.deletions;
    let engines = server.rows.tables().engines.clone();
    format!("the simulation hangs: {deletions:#?}\nengines: {engines:#?}")
}

/// Runs the engine to which the person sends the request, and the person's request.
async fn run_first_engine(
    simulation: &Simulation,
    server: &Server,
    faults: &serde_json::Value,
    mut dice: fastrand::Rng,
) -> Result<super::seeds::EndState, String> {
    let mut progress = RequestProgress::new(faults);
    for crashes in 0.. {
        sleep(seconds(&mut dice, 20)).await;
        let running = RunningEngine::start(simulation, server, "engine-0", dice.u64(..));
        if crashes < CRASHES_MAX {
            schedule_crash(&running.crash, &mut dice);
        }
        let client = running.client();
        let ended = tokio::select! {
            biased;
            () = running.run_until_crash() => None,
            ended = request_until_gone(simulation, &client, &mut progress) => Some(ended),
        };
        if let Some(ended) = ended {
            return ended;
        }
        drop(client);
        running.stop(server, dice.bool()).await;
        after_crash(&simulation.bench, progress.acknowledged.as_deref()).await?;
    }
    Err("the loop over the engines ended".to_owned())
}

in_parts! { |seed| run(seed, PlantedFault::None);
    0 i11_n14_t03_nothing_is_lost_or_repeated_part_0,
    1 i11_n14_t03_nothing_is_lost_or_repeated_part_1,
    2 i11_n14_t03_nothing_is_lost_or_repeated_part_2,
    3 i11_n14_t03_nothing_is_lost_or_repeated_part_3,
    4 i11_n14_t03_nothing_is_lost_or_repeated_part_4,
    5 i11_n14_t03_nothing_is_lost_or_repeated_part_5,
    6 i11_n14_t03_nothing_is_lost_or_repeated_part_6,
    7 i11_n14_t03_nothing_is_lost_or_repeated_part_7,
}

#[test]
fn one_seed_of_several_engines_gives_the_same_calls_each_time() {
    for seed in 0..4 {
        assert_eq!(
            run(seed, PlantedFault::None),
            run(seed, PlantedFault::None),
            "seed {seed}"
        );
    }
}

#[test]
fn i11_an_engine_that_ignores_the_end_of_its_lease_is_detected() {
    assert_detected(PlantedFault::IgnoresLeaseEnd, run);
}

#[test]
fn i11_a_shared_ledger_that_ignores_fencing_is_detected() {
    assert_detected(PlantedFault::IgnoresFencing, run);
}

#[test]
fn i10_an_engine_that_is_not_woken_by_the_changes_of_others_is_detected() {
    assert_detected(PlantedFault::OthersAreNotWoken, run);
}

#[test]
fn t03_a_gate_that_lacks_new_tombstones_is_detected() {
    assert_detected(PlantedFault::GateLacksTombstones, run);
}
