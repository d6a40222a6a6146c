//! Days of several deployments from seeds: random resources that point at each other, a deletion, and
//! what can happen between engines; then what must have become of all (G).
//!
//! `GONE_SEED=17 cargo test --test engine peers_seeds` replays one; `GONE_SEEDS=0..1000` runs many.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use gone::control::query;
use gone::domain::model::{DeletionState, Step, StepState};
use serde_json::json;

use super::harness::paused;
use super::mesh::{Deployments, Weather};
use super::peers_world::{Fate, PLACES, SERVICES, World, kinds};
use super::which_seeds::seeds;

struct Day {
    all: Deployments,
    world: World,
}

impl Day {
    async fn new(seed: u64) -> Self {
        let texts = SERVICES.map(|service| (service, kinds(service)));
        let services: Vec<(&str, &str)> = texts
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut all = Deployments::new(seed, &services, &PLACES);
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

    /// What is there, and at what it points; of a deployment that is down, nothing is known.
    async fn live_by_number(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut live_by_number = BTreeMap::new();
        for (nth, thing) in self.world.things.iter().enumerate() {
            if !self.all.is_up(thing.name()) {
                continue;
            }
            let rows = self.all.kept(thing.name(), &thing.kind()).await;
            let Some(row) = rows.into_iter().find(|row| row["id"] == json!(thing.id)) else {
                continue;
            };
            live_by_number.insert(nth, self.world.points(thing, &row));
        }
        live_by_number
    }

    /// What does not go, at each deployment, for people.
    async fn told(&self) -> String {
        let mut told = String::new();
        for name in self.all.names() {
            let steps = query::Steps {
                limit: 500,
                ..query::Steps::default()
            };
            let steps = self.all.at(&name).control.ask(steps).await;
            let rows = steps.unwrap().rows;
            for status in self.all.statuses(&name).await {
                let peer = format!("{}/{}", status.service, status.region);
                let watch = status.watch.map(|it| (it.seq, it.reason));
                let importer = status.importer.map(|it| (it.awaited, it.lag, it.reason));
                write!(told, "\n{name} {peer}: {watch:?} {importer:?}").unwrap();
            }
            for step in rows {
                let error = step.last_error.as_ref();
                let message = error.map(|it| it.message.as_str()).unwrap_or_default();
                let (id, state) = (&step.resource.key.id, step.state);
                let of = &step.deletion_id[step.deletion_id.len() - 4..];
                let action = step.action;
                write!(told, "\n{name} {of} {action:?} {id} {state:?}: {message}").unwrap();
            }
        }
        told
    }

    /// Nothing is gone while something that is no part of a circle points at it (G7).
    async fn nothing_went_too_early(&self) -> Result<(), String> {
        let live_by_number = self.live_by_number().await;
        for (from, points) in &live_by_number {
            if self.world.things[*from].fate() == Fate::Dangling {
                continue;
            }
            for to in points {
                let thing = &self.world.things[*to];
                let gone = self.all.is_up(thing.name()) && !live_by_number.contains_key(to);
                if gone && !self.world.in_a_circle(*from, *to) {
                    return Err(format!("t{to} is gone, and t{from} points at it"));
                }
            }
        }
        Ok(())
    }
}

/// What the network and the machines do meanwhile.
async fn trouble(day: &mut Day, dice: &mut fastrand::Rng) -> Result<(), String> {
    for _ in 0..dice.usize(4..16) {
        let weather = Weather {
            lost: *dice.choice(&[0.0, 0.1, 0.5]).unwrap(),
            doubled: *dice.choice(&[0.0, 0.3]).unwrap(),
            old: *dice.choice(&[0.0, 0.0, 0.5]).unwrap(),
            late: Duration::from_millis(*dice.choice(&[0, 20, 3_000]).unwrap()),
        };
        day.all.weather(weather);
        let name = PLACES[dice.usize(0..PLACES.len())].0;
        match dice.u8(0..6) {
            0 | 1 if day.all.is_up(name) => day.all.kill(name).await,
            0 | 1 => day.all.start(name),
            2 => {
                let other = PLACES[dice.usize(0..PLACES.len())].0;
                day.all.cut(name, other);
            }
            3 => day.all.mend(),
            _ => {}
        }
        let pause = dice.u64(1..40_000);
        let until = tokio::time::Instant::now() + Duration::from_millis(pause);
        while tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(dice.u64(1..2_000))).await;
            day.nothing_went_too_early().await?;
        }
    }
    Ok(())
}

async fn live_through(seed: u64) -> Result<&'static str, String> {
    let mut day = Day::new(seed).await;
    let mut dice = fastrand::Rng::with_seed(seed ^ 0xD1CE);
    let root = day.world.things[day.world.root].clone();
    let home = root.name();
    if dice.bool() {
        day.all.weather(Weather {
            late: Duration::from_millis(50),
            ..Weather::default()
        });
    }
    let id = day.all.delete(home, &root.kind(), &root.id).await;
    let settled = |state: DeletionState| state != DeletionState::Planning;
    let accepted = day.all.at(home).until(&id, |it| settled(it.state)).await;
    let refused = accepted.state == DeletionState::Refused;
    if refused != day.world.is_refused() {
        return Err(format!("refused: {refused}; {:?}", accepted.refused));
    }
    if refused {
        return match accepted.refused.iter().all(|it| it.blocker.is_some()) {
            true => Ok("refused"),
            false => Err(format!("refused by nobody: {:?}", accepted.refused)),
        };
    }
    trouble(&mut day, &mut dice).await?;
    day.all.weather(Weather::default());
    day.all.mend();
    for name in day.all.names() {
        if !day.all.is_up(&name) {
            day.all.start(&name);
        }
    }
    let going = day.world.going();
    let held = day.world.held(&going);
    let all: BTreeSet<usize> = (0..day.world.things.len()).collect();
    let gone: BTreeSet<usize> = going.difference(&held).copied().collect();
    let stays: BTreeSet<usize> = all.difference(&gone).copied().collect();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(6 * 60 * 60);
    loop {
        day.nothing_went_too_early().await?;
        let live_by_number = day.live_by_number().await;
        let there: BTreeSet<usize> = live_by_number.keys().copied().collect();
        if let Some(lost) = stays.difference(&there).next() {
            return Err(format!("t{lost} is gone, and was to stay"));
        }
        let unset = live_by_number.iter().all(|(from, points)| {
            let is_unset = day.world.things[*from].fate() == Fate::Unset;
            !is_unset || points.is_disjoint(&going)
        });
        let state = day.all.deletion(home, &id).await.state;
        if there == stays && unset && state.is_terminal() {
            break;
        }
        if tokio::time::Instant::now() > deadline {
            let left: Vec<_> = there.difference(&stays).collect();
            return Err(format!(
                "{state:?}: {left:?} are left of {going:?}, unset: {unset}{}",
                day.told().await
            ));
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    if held.is_empty() {
        let state = day.all.deletion(home, &id).await.state;
        return match state {
            DeletionState::Gone => Ok("gone"),
            other => Err(format!("all is gone, and the deletion is {other:?}")),
        };
    }
    let steps = steps_that_wait(&day, home, &id).await;
    let root_held = day
        .world
        .plan(day.world.root)
        .iter()
        .any(|it| held.contains(it));
    let named = |step: &Step| step.last_error.is_some() && !step.blockers.is_empty();
    match (root_held, steps.iter().any(named)) {
        (false, _) => Ok("held elsewhere"),
        (true, true) => Ok("held"),
        (true, false) => Err(format!("it is held, and nobody is named: {steps:#?}")),
    }
}

async fn steps_that_wait(day: &Day, name: &str, id: &str) -> Vec<Step> {
    let mut steps = day.all.at(name).steps(id).await;
    steps.retain(|step| step.state != StepState::Gone);
    steps
}

fn run(seed: u64) -> &'static str {
    paused(async move {
        match live_through(seed).await {
            Ok(ended) => ended,
            Err(why) => panic!("seed {seed}: {why}\n{}", World::told(seed)),
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
