//! Simulates several deployments from seeds: random resources that refer to each other, a deletion, and faults between
//! the engines. In the end each resource must be gone or still exist, as the rules demand (G).
//!
//! `GONE_SEED=17 cargo test --test engine peers_seeds` replays one seed; `GONE_SEEDS=0..1000` runs many.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use gone::control::query;
use gone::domain::model::{DeletionState, Step, StepState};
use serde_json::json;

use super::harness::paused;
use super::mesh::{Deployments, MessageFaults};
use super::peers_world::{DEPLOYMENTS, Fate, SERVICES, World, kinds};
use super::seed_selection::seeds;

struct PeerSimulation {
    all: Deployments,
    world: World,
}

impl PeerSimulation {
    async fn new(seed: u64) -> Self {
        let texts = SERVICES.map(|service| (service, kinds(service)));
        let services: Vec<(&str, &str)> = texts
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut all = Deployments::new(seed, &services, &DEPLOYMENTS);
        all.settings.gc.schedule = vec![Duration::from_secs(60)];
        all.settings.gc.max_attempts = 3;
        all.settings.gc.pending_max = Duration::from_secs(30 * 60);
        all.start_all();
        let world = World::new(&mut dice);
        for thing in &world.things {
            all.create(thing.name(), &thing.kind(), world.body(thing))
                .await;
        }
        Self { all, world }
    }

    /// Returns the numbers of the resources that exist, each with the numbers of those that it refers to. Leaves out
    /// deployments that are down.
    async fn live_by_number(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut live_by_number = BTreeMap::new();
        for (nth, thing) in self.world.things.iter().enumerate() {
            if !self.all.is_up(thing.name()) {
                continue;
            }
            let rows = self.all.native_rows(thing.name(), &thing.kind()).await;
            let Some(row) = rows.into_iter().find(|row| row["id"] == json!(thing.id)) else {
                continue;
            };
            live_by_number.insert(nth, self.world.points(thing, &row));
        }
        live_by_number
    }

    /// Describes the peers and the steps of each deployment, for the message of a failure.
    async fn report(&self) -> String {
        let mut report = String::new();
        for name in self.all.names() {
            let control = self.all.at(&name).control;
            let steps = control.ask(query::Steps::default()).await;
            let rows = steps.unwrap().rows;
            for status in self.all.statuses(&name).await {
                let peer = format!("{}/{}", status.service, status.region);
                let watch = status.watch.map(|it| (it.seq, it.reason));
                let importer = status
                    .importer
                    .map(|it| (it.pending_clearances, it.lag, it.reason));
                write!(report, "\n{name} {peer}: {watch:?} {importer:?}").unwrap();
            }
            for step in rows {
                let error = step.last_error.as_ref();
                let message = error.map(|it| it.message.as_str()).unwrap_or_default();
                let (id, state) = (&step.resource.key.id, step.state);
                let of = &step.deletion_id[step.deletion_id.len() - 4..];
                let action = step.action;
                write!(report, "\n{name} {of} {action:?} {id} {state:?}: {message}").unwrap();
            }
        }
        report
    }

    /// Checks that no resource is gone while a resource outside of its cycle refers to it (G7). Dangling references do
    /// not count.
    async fn check_nothing_deleted_too_early(&self) -> Result<(), String> {
        let live_by_number = self.live_by_number().await;
        for (from, points) in &live_by_number {
            if self.world.things[*from].fate() == Fate::Dangling {
                continue;
            }
            for to in points {
                let thing = &self.world.things[*to];
                let gone = self.all.is_up(thing.name()) && !live_by_number.contains_key(to);
                if gone && !self.world.in_a_cycle(*from, *to) {
                    return Err(format!("t{to} is gone, and t{from} still refers to it"));
                }
            }
        }
        Ok(())
    }
}

/// Changes the faults of messages, cuts connections, and kills and starts engines, several times. Checks meanwhile that
/// nothing is deleted too early.
async fn inject_faults(
    simulation: &mut PeerSimulation,
    dice: &mut fastrand::Rng,
) -> Result<(), String> {
    for _ in 0..dice.usize(4..16) {
        let message_faults = MessageFaults {
            lost: *dice.choice(&[0.0, 0.1, 0.5]).unwrap(),
            duplicated: *dice.choice(&[0.0, 0.3]).unwrap(),
            stale: *dice.choice(&[0.0, 0.0, 0.5]).unwrap(),
            delay_max: Duration::from_millis(*dice.choice(&[0, 20, 3_000]).unwrap()),
        };
        simulation.all.set_message_faults(message_faults);
        let name = DEPLOYMENTS[dice.usize(0..DEPLOYMENTS.len())].0;
        match dice.u8(0..6) {
            0 | 1 if simulation.all.is_up(name) => simulation.all.kill(name).await,
            0 | 1 => simulation.all.start(name),
            2 => {
                let other = DEPLOYMENTS[dice.usize(0..DEPLOYMENTS.len())].0;
                simulation.all.cut(name, other);
            }
            3 => simulation.all.repair_cuts(),
            _ => {}
        }
        let pause = dice.u64(1..40_000);
        let until = tokio::time::Instant::now() + Duration::from_millis(pause);
        while tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(dice.u64(1..2_000))).await;
            simulation.check_nothing_deleted_too_early().await?;
        }
    }
    Ok(())
}

async fn simulate(seed: u64) -> Result<&'static str, String> {
    let mut simulation = PeerSimulation::new(seed).await;
    let mut dice = fastrand::Rng::with_seed(seed ^ 0xD1CE);
    let root = simulation.world.things[simulation.world.root].clone();
    let home = root.name();
    if dice.bool() {
        simulation.all.set_message_faults(MessageFaults {
            delay_max: Duration::from_millis(50),
            ..MessageFaults::default()
        });
    }
    let id = simulation.all.delete(home, &root.kind(), &root.id).await;
    let settled = |state: DeletionState| state != DeletionState::Planning;
    let accepted = simulation
        .all
        .at(home)
        .until(&id, |it| settled(it.state))
        .await;
    let refused = accepted.state == DeletionState::Refused;
    if refused != simulation.world.is_refused() {
        return Err(format!(
            "the deletion was refused: {refused}, which the rules do not expect; {:?}",
            accepted.refused
        ));
    }
    if refused {
        return match accepted.refused.iter().all(|it| it.blocker.is_some()) {
            true => Ok("refused"),
            false => Err(format!("refused without a blocker: {:?}", accepted.refused)),
        };
    }
    inject_faults(&mut simulation, &mut dice).await?;
    simulation.all.set_message_faults(MessageFaults::default());
    simulation.all.repair_cuts();
    for name in simulation.all.names() {
        if !simulation.all.is_up(&name) {
            simulation.all.start(&name);
        }
    }
    let to_delete = simulation.world.to_delete();
    let blocked = simulation.world.blocked(&to_delete);
    let all: BTreeSet<usize> = (0..simulation.world.things.len()).collect();
    let gone: BTreeSet<usize> = to_delete.difference(&blocked).copied().collect();
    let stays: BTreeSet<usize> = all.difference(&gone).copied().collect();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(6 * 60 * 60);
    loop {
        simulation.check_nothing_deleted_too_early().await?;
        let live_by_number = simulation.live_by_number().await;
        let there: BTreeSet<usize> = live_by_number.keys().copied().collect();
        if let Some(lost) = stays.difference(&there).next() {
            return Err(format!("t{lost} is gone, and must stay"));
        }
        let unset = live_by_number.iter().all(|(from, points)| {
            let is_unset = simulation.world.things[*from].fate() == Fate::Unset;
            !is_unset || points.is_disjoint(&to_delete)
        });
        let state = simulation.all.deletion(home, &id).await.state;
        if there == stays && unset && state.is_terminal() {
            break;
        }
        if tokio::time::Instant::now() > deadline {
            let left: Vec<_> = there.difference(&stays).collect();
            return Err(format!(
                "{state:?}: {left:?} are left of {to_delete:?}, references unset: {unset}{}",
                simulation.report().await
            ));
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    if blocked.is_empty() {
        let state = simulation.all.deletion(home, &id).await.state;
        return match state {
            DeletionState::Gone => Ok("gone"),
            other => Err(format!(
                "all resources to delete are gone, but the deletion is {other:?}"
            )),
        };
    }
    let steps = steps_that_wait(&simulation, home, &id).await;
    let root_is_blocked = simulation
        .world
        .plan(simulation.world.root)
        .iter()
        .any(|it| blocked.contains(it));
    let named = |step: &Step| step.last_error.is_some() && !step.blockers.is_empty();
    match (root_is_blocked, steps.iter().any(named)) {
        (false, _) => Ok("blocked elsewhere"),
        (true, true) => Ok("blocked"),
        (true, false) => Err(format!(
            "the root is blocked, and no step names a blocker: {steps:#?}"
        )),
    }
}

async fn steps_that_wait(simulation: &PeerSimulation, name: &str, id: &str) -> Vec<Step> {
    let mut steps = simulation.all.at(name).steps(id).await;
    steps.retain(|step| step.state != StepState::Gone);
    steps
}

fn run(seed: u64) -> &'static str {
    paused(async move {
        match simulate(seed).await {
            Ok(ended) => ended,
            Err(why) => panic!("seed {seed}: {why}\n{}", World::describe(seed)),
        }
    })
}

#[test]
fn g07_g13_each_seed_ends_gone_or_with_a_named_blocker_and_deletes_nothing_too_early() {
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds(0..30) {
        *ends.entry(run(seed)).or_default() += 1;
    }
    println!("{ends:?}");
}
