//! Days of several deployments from seeds: random resources that point at each other, a deletion, and
//! what can happen between engines; then what must have become of all (G).
//!
//! `GONE_SEED=17 cargo test --test engine peers_seed` replays one; `GONE_SEEDS=0..1000` runs many.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use gone::control::{Page, Query};
use gone::domain::model::{DeletionState, Step, StepState};
use serde_json::json;

use super::harness::paused;
use super::mesh::{Deployments, Weather};

/// What becomes of a reference when what it points at goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Cascade,
    /// Cascades, but within one deployment by a deletion of its own.
    Later,
    Unset,
    Block,
    Dangling,
}

const FATES: [(Fate, &str); 5] = [
    (Fate::Cascade, "cascade"),
    (Fate::Later, "later"),
    (Fate::Unset, "unset"),
    (Fate::Block, "block"),
    (Fate::Dangling, "dangling"),
];
const SERVICES: [&str; 3] = ["s0", "s1", "s2"];
const PLACES: [(&str, &str, &str); 4] = [
    ("d0", "s0", "r1"),
    ("d1", "s1", "r1"),
    ("d2", "s2", "r1"),
    ("d3", "s1", "r2"),
];

/// Five kinds a service, one for each fate, each of which may point at all others.
fn kinds(service: &str) -> String {
    let others: Vec<&str> = SERVICES.into_iter().filter(|it| *it != service).collect();
    let mut text = format!("imports = {}\n", json!(others));
    for (fate, word) in FATES {
        writeln!(text, "[kind.{service}_{word}.native.fields]").unwrap();
        let all = SERVICES
            .into_iter()
            .flat_map(|to| FATES.map(|(_, word)| format!("{to}_{word}")));
        let all: Vec<String> = all.collect();
        for to in &all {
            writeln!(text, "at_{to} = {{}}").unwrap();
        }
        for to in &all {
            let (on_delete, later) = match fate {
                Fate::Cascade => ("cascade", false),
                Fate::Later => ("cascade", true),
                Fate::Unset => ("unset", false),
                Fate::Block => ("block", false),
                Fate::Dangling => ("dangling", false),
            };
            writeln!(
                text,
                "[[kind.{service}_{word}.reference]]\nto = \"{to}\"\nfield = \"at_{to}[]\"\n\
                 on_delete = \"{on_delete}\"\nasynchronous = {later}\nsays = \"at\""
            )
            .unwrap();
        }
    }
    text
}

#[derive(Clone, Debug)]
struct Thing {
    place: usize,
    fate: usize,
    id: String,
    at: Vec<usize>,
}

impl Thing {
    fn kind(&self) -> String {
        format!("{}_{}", PLACES[self.place].1, FATES[self.fate].1)
    }

    fn fate(&self) -> Fate {
        FATES[self.fate].0
    }

    fn name(&self) -> &'static str {
        PLACES[self.place].0
    }
}

struct World {
    things: Vec<Thing>,
    root: usize,
}

impl World {
    /// Within a deployment things point at older ones; elsewhere, at any.
    fn new(dice: &mut fastrand::Rng) -> Self {
        let count = dice.usize(3..10);
        let mut things: Vec<Thing> = (0..count)
            .map(|nth| Thing {
                place: dice.usize(0..PLACES.len()),
                fate: *dice.choice(&[0, 0, 0, 0, 1, 1, 2, 3, 4]).unwrap(),
                id: format!("t{nth}"),
                at: Vec::new(),
            })
            .collect();
        for nth in 0..count {
            for _ in 0..dice.usize(0..4) {
                let to = dice.usize(0..count);
                let here = things[to].place == things[nth].place;
                if to != nth && (!here || to < nth) && !things[nth].at.contains(&to) {
                    things[nth].at.push(to);
                }
            }
        }
        // The one that most hangs on.
        let hang_on = |nth: &usize| things.iter().filter(|it| it.at.contains(nth)).count();
        Self {
            root: (0..count).max_by_key(hang_on).unwrap_or(0),
            things,
        }
    }

    fn pointing_at(&self, to: usize) -> impl Iterator<Item = usize> {
        let things = self.things.iter().enumerate();
        things
            .filter(move |(_, it)| it.at.contains(&to))
            .map(|(nth, _)| nth)
    }

    /// Whether it goes in the same plan, when that goes.
    fn goes_along(&self, from: usize, to: usize) -> bool {
        let from_thing = &self.things[from];
        from_thing.fate() == Fate::Cascade && from_thing.place == self.things[to].place
    }

    /// With all that goes in the same plan.
    fn plan(&self, of: usize) -> BTreeSet<usize> {
        let mut going = BTreeSet::from([of]);
        let mut open = vec![of];
        while let Some(next) = open.pop() {
            for from in self.pointing_at(next) {
                if self.goes_along(from, next) && going.insert(from) {
                    open.push(from);
                }
            }
        }
        going
    }

    fn is_refused(&self) -> bool {
        let plan = self.plan(self.root);
        plan.iter().any(|&to| {
            let mut from = self.pointing_at(to);
            from.any(|from| self.things[from].fate() == Fate::Block && !plan.contains(&from))
        })
    }

    /// All that is to go, in whichever deployment.
    fn going(&self) -> BTreeSet<usize> {
        let mut going = self.plan(self.root);
        loop {
            let more: Vec<usize> = going
                .iter()
                .flat_map(|&to| self.pointing_at(to))
                .filter(|from| matches!(self.things[*from].fate(), Fate::Cascade | Fate::Later))
                .flat_map(|from| self.plan(from))
                .filter(|it| !going.contains(it))
                .collect();
            if more.is_empty() {
                return going;
            }
            going.extend(more);
        }
    }

    /// Of what is to go, what never does: something holds it that stays, or that never goes.
    fn held(&self, going: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut held = BTreeSet::new();
        loop {
            let more: Vec<usize> = going
                .iter()
                .copied()
                .filter(|to| !held.contains(to))
                .filter(|&to| {
                    self.pointing_at(to)
                        .any(|from| match self.things[from].fate() {
                            Fate::Dangling | Fate::Unset => false,
                            _ => !going.contains(&from) || held.contains(&from),
                        })
                })
                .collect();
            if more.is_empty() {
                return held;
            }
            held.extend(more);
        }
    }

    /// Whether one waits for the other and that for it, however far (G13).
    fn in_a_circle(&self, a: usize, b: usize) -> bool {
        let reaches = |from: usize, to: usize| {
            let mut reached = BTreeSet::new();
            let mut open = vec![from];
            while let Some(next) = open.pop() {
                if self.things[next].fate() != Fate::Dangling {
                    open.extend(
                        self.things[next]
                            .at
                            .iter()
                            .filter(|it| reached.insert(**it)),
                    );
                }
            }
            reached.contains(&to)
        };
        reaches(a, b) && reaches(b, a)
    }
}

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
            let mut body = json!({ "id": thing.id });
            for &to in &thing.at {
                let to = &world.things[to];
                let field = format!("at_{}", to.kind());
                if body[&field].is_null() {
                    body[&field] = json!([]);
                }
                let word = match to.place == thing.place {
                    true => to.id.clone(),
                    false => format!("{}@{}", to.id, to.name()),
                };
                body[&field].as_array_mut().unwrap().push(json!(word));
            }
            all.create(thing.name(), &thing.kind(), body).await;
        }
        Self { all, world }
    }

    /// What is there, and at what it points; of a deployment that is down, nothing is known.
    async fn standing(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut standing = BTreeMap::new();
        for (nth, thing) in self.world.things.iter().enumerate() {
            if !self.all.is_up(thing.name()) {
                continue;
            }
            let rows = self.all.kept(thing.name(), &thing.kind()).await;
            let Some(row) = rows.into_iter().find(|row| row["id"] == json!(thing.id)) else {
                continue;
            };
            let points = thing.at.iter().copied().filter(|to| {
                let to = &self.world.things[*to];
                let values = row[format!("at_{}", to.kind())].as_array().cloned();
                let values = values.unwrap_or_default();
                let word = format!("{}@{}", to.id, to.name());
                values
                    .iter()
                    .any(|it| *it == json!(to.id) || *it == json!(word))
            });
            standing.insert(nth, points.collect());
        }
        standing
    }

    /// What does not go, at each deployment, for people.
    async fn told(&self) -> String {
        let mut told = String::new();
        for name in self.all.names() {
            let query = Query::Steps {
                deletion_id: None,
                states: Vec::new(),
                site: None,
                kind: None,
                older_than: None,
                cause: None,
                filter: String::new(),
                cursor: None,
                limit: 500,
            };
            let Page::Steps { rows, .. } = self.all.at(&name).control.query(query).await.unwrap()
            else {
                panic!("no steps");
            };
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
        let standing = self.standing().await;
        for (from, points) in &standing {
            if self.world.things[*from].fate() == Fate::Dangling {
                continue;
            }
            for to in points {
                let thing = &self.world.things[*to];
                let gone = self.all.is_up(thing.name()) && !standing.contains_key(to);
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
        let standing = day.standing().await;
        let there: BTreeSet<usize> = standing.keys().copied().collect();
        if let Some(lost) = stays.difference(&there).next() {
            return Err(format!("t{lost} is gone, and was to stay"));
        }
        let unset = standing.iter().all(|(from, points)| {
            let is_unset = day.world.things[*from].fate() == Fate::Unset;
            !is_unset || points.is_disjoint(&going)
        });
        let state = day.all.deletion(home, &id).await.state;
        if there == stays && unset && state.is_settled() {
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
            Err(why) => {
                let mut dice = fastrand::Rng::with_seed(seed);
                let world = World::new(&mut dice);
                let mut things = String::new();
                for thing in &world.things {
                    let (id, at) = (&thing.id, &thing.at);
                    write!(
                        things,
                        "\n{id} {:?} at {}: {at:?}",
                        thing.fate(),
                        thing.name()
                    )
                    .unwrap();
                }
                panic!("seed {seed}: {why}\nroot t{}{things}", world.root)
            }
        }
    })
}

#[test]
fn g07_g13_always_gone_or_named_never_too_early_whatever_happens_seed_by_seed() {
    let range = |text: String| {
        let (from, to) = text.split_once("..").expect("GONE_SEEDS=FROM..TO");
        from.parse().unwrap()..to.parse().unwrap()
    };
    let seeds: Vec<u64> = match (std::env::var("GONE_SEED"), std::env::var("GONE_SEEDS")) {
        (Ok(seed), _) => vec![seed.parse().unwrap()],
        (_, Ok(seeds)) => range(seeds).collect(),
        _ => (0..30).collect(),
    };
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds {
        *ends.entry(run(seed)).or_default() += 1;
    }
    println!("{ends:?}");
}
