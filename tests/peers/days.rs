//! Days of several deployments from seeds, as in the simulation, but each a process with its own ledger:
//! cut off, slowed and killed at random. Always gone or held by name, never too early (G7, G11, G13).
//!
//! `GONE_SEED=17 cargo test --test peers days` replays one; `GONE_SEEDS=0..50` runs many. Processes and
//! networks have a time of their own: a seed makes the same day, but not to the millisecond.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gone::domain::peers::Deployment;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::lines::{Line, Weather};
use crate::peers_world::{Fate, PLACES, SERVICES, Thing, World, kinds};
use crate::processes::{Home, Setup, address};
use crate::which_seeds::seeds;

/// When all is well again, all ends within this.
const CALM: Duration = Duration::from_secs(45);
/// Days at once: what they do is mostly to wait.
const TOGETHER: usize = 3;
/// What is blocked is tried again at once and for ever: what ends, ends within seconds.
const SETTINGS: &str = "[gc]\nschedule = ['500ms']\njitter = 0.1\nmax_attempts = 1000\n";
const HEARTBEAT: &str = "300ms";

struct Day {
    world: World,
    homes: Vec<Home>,
    lines: BTreeMap<(usize, usize), Line>,
    /// Seen to be gone, ever.
    gone: BTreeSet<usize>,
    /// At what each pointed when it was last seen.
    live_by_number: BTreeMap<usize, BTreeSet<usize>>,
    /// As fair as it gets before all is well: what takes no time would be over before any trouble.
    usual: Weather,
    _network: Runtime,
}

impl Day {
    /// All run, all resources are kept.
    fn new(seed: u64) -> Self {
        let network = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let addresses: Vec<String> = PLACES.iter().map(|_| address()).collect();
        let mut lines = BTreeMap::new();
        for from in 0..PLACES.len() {
            for to in (0..PLACES.len()).filter(|to| *to != from) {
                lines.insert((from, to), Line::to(&addresses[to], &network));
            }
        }
        let texts = SERVICES.map(|service| format!("service = \"{service}\"\n{}", kinds(service)));
        let texts = texts.each_ref().map(String::as_str);
        let homes = addresses.into_iter().enumerate().map(|(place, listen)| {
            let others = (0..PLACES.len()).filter(|other| *other != place);
            let mut home = Home::new(&Setup {
                deployment: deployment(place),
                listen,
                heartbeat: HEARTBEAT,
                peers: others
                    .map(|to| (deployment(to), lines[&(place, to)].address.clone()))
                    .collect(),
                settings: SETTINGS,
                kinds: &texts,
            });
            home.start();
            home
        });
        let day = Self {
            world: World::new(&mut fastrand::Rng::with_seed(seed)),
            homes: homes.collect(),
            lines,
            gone: BTreeSet::new(),
            live_by_number: BTreeMap::new(),
            usual: Weather::Fair,
            _network: network,
        };
        for thing in &day.world.things {
            day.home(thing)
                .create(&thing.kind(), &day.world.body(thing));
        }
        day
    }

    fn home(&self, thing: &Thing) -> &Home {
        let found = self.homes.iter().find(|home| home.name == thing.name());
        found.unwrap()
    }

    fn weather(&self, weather: Weather) {
        for line in self.lines.values() {
            line.has(weather);
        }
    }

    /// Looks at each resource whose deployment runs. Nothing may be gone while something that is no part
    /// of a circle points at it (G7), and what no rule takes away is never gone.
    ///
    /// Each look is judged by the looks that ended before it began, never by one beside or behind it.
    /// Nothing comes back, so what was seen to be gone is gone ever after; who is then seen to point at
    /// it points at what is gone. In the other order it would prove nothing: who was seen to point may
    /// have let go before the other went. So the order of the looks makes no false alarm, only later
    /// ones; and what was seen at a deployment still counts when it is down.
    fn look(&mut self, stays: &BTreeSet<usize>) -> Result<(), String> {
        for (nth, thing) in self.world.things.iter().enumerate() {
            let home = self.home(thing);
            if !home.is_up() {
                continue;
            }
            let Some(row) = home.kept(&thing.kind(), &thing.id) else {
                if stays.contains(&nth) {
                    return Err(format!("t{nth} is gone, and was to stay"));
                }
                self.live_by_number.remove(&nth);
                self.gone.insert(nth);
                continue;
            };
            let points = self.world.points(thing, &row);
            if thing.fate() != Fate::Dangling {
                let mut early = points.intersection(&self.gone);
                if let Some(to) = early.find(|to| !self.world.in_a_circle(nth, **to)) {
                    return Err(format!("t{to} is gone, and t{nth} points at it"));
                }
            }
            if self.gone.contains(&nth) {
                return Err(format!("t{nth} was gone, and is back"));
            }
            self.live_by_number.insert(nth, points);
        }
        Ok(())
    }

    /// What the network and the machines do meanwhile.
    fn trouble(&mut self, dice: &mut fastrand::Rng, stays: &BTreeSet<usize>) -> Result<(), String> {
        for _ in 0..dice.usize(4..12) {
            let place = dice.usize(0..PLACES.len());
            match dice.u8(0..8) {
                0..=2 => match self.homes[place].is_up() {
                    true => self.homes[place].kill(),
                    false => self.homes[place].start(),
                },
                3 => self.weather(self.usual),
                _ => {
                    let other = dice.usize(0..PLACES.len());
                    let slow = Weather::Slow(Duration::from_millis(dice.u64(1..400)));
                    let weather = *dice
                        .choice(&[Weather::Cut, Weather::Cut, Weather::Silent, slow])
                        .unwrap();
                    let both = dice.bool();
                    for ways in [(place, other), (other, place)] {
                        let one = ways.0 == place;
                        if let Some(line) = self.lines.get(&ways).filter(|_| one || both) {
                            line.has(weather);
                        }
                    }
                }
            }
            let until = Instant::now() + Duration::from_millis(dice.u64(1..800));
            while Instant::now() < until {
                self.look(stays)?;
                std::thread::sleep(Duration::from_millis(dice.u64(1..30)));
            }
        }
        Ok(())
    }

    /// All is well, and all run.
    fn calm(&mut self) {
        self.weather(Weather::Fair);
        for home in self.homes.iter_mut().filter(|home| !home.is_up()) {
            home.start();
        }
    }

    fn deletion(&self, of: &Thing, id: &str) -> Value {
        self.get(self.home(of), &format!("deletions/{id}"))
    }

    fn get(&self, home: &Home, path: &str) -> Value {
        let (status, answer) = home.api("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What does not go, at each deployment, for people.
    fn told(&self) -> String {
        let mut told = String::new();
        for home in self.homes.iter().filter(|home| home.is_up()) {
            for deletion in items(&self.get(home, "deletions")) {
                let (id, name) = (text(&deletion["id"]), &home.name);
                let cause = &deletion["cause"];
                let state = &deletion["state"];
                write!(told, "\n{name} deletion {id} {state}, cause {cause}").unwrap();
                for step in items(&self.get(home, &format!("deletions/{id}/steps"))) {
                    let (key, state) = (&step["resource"], &step["state"]);
                    let error = &step["last_error"]["message"];
                    let action = &step["action"];
                    write!(told, "\n    {action} {key} {state}: {error}").unwrap();
                }
            }
            let log = home.log();
            let last = log.lines().rev().take(20).collect::<Vec<_>>();
            for line in last.iter().rev() {
                write!(told, "\n    log: {line}").unwrap();
            }
        }
        told
    }
}

fn deployment(place: usize) -> Deployment {
    let (name, service, region) = PLACES[place];
    Deployment {
        name: name.to_owned(),
        service: service.to_owned(),
        region: region.to_owned(),
    }
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// How a day ended.
struct Lived {
    ended: &'static str,
    /// The trouble was over before the deletion was.
    late: bool,
    /// How long it took when all was well again.
    calm: Duration,
}

fn live_through(seed: u64) -> Result<Lived, String> {
    let mut day = Day::new(seed);
    day.lived(seed)
        .map_err(|why| format!("{why}\n{}{}", World::told(seed), day.told()))
}

impl Day {
    fn lived(&mut self, seed: u64) -> Result<Lived, String> {
        let mut dice = fastrand::Rng::with_seed(seed ^ 0xD1CE);
        let root = self.world.things[self.world.root].clone();
        self.usual = Weather::Slow(Duration::from_millis(dice.u64(1..150)));
        self.weather(self.usual);
        let began = Instant::now();
        let (id, refused) = self.deleted(&root)?;
        if refused {
            return Ok(Lived {
                ended: "refused",
                late: false,
                calm: began.elapsed(),
            });
        }
        let going = self.world.going();
        let held = self.world.held(&going);
        let all: BTreeSet<usize> = (0..self.world.things.len()).collect();
        let stays: BTreeSet<usize> = all
            .into_iter()
            .filter(|it| !going.contains(it) || held.contains(it))
            .collect();
        self.trouble(&mut dice, &stays)?;
        self.calm();
        let calm = Instant::now();
        let mut looks = 0;
        let plan = self.world.plan(self.world.root);
        let is_held = !plan.is_disjoint(&held);
        loop {
            self.look(&stays)?;
            let there: BTreeSet<usize> = self.live_by_number.keys().copied().collect();
            let unset = self.live_by_number.iter().all(|(from, points)| {
                self.world.things[*from].fate() != Fate::Unset || points.is_disjoint(&going)
            });
            let state = text(&self.deletion(&root, &id)["state"]);
            let ended = match is_held {
                true => self.names_who_holds(&root, &id, &stays),
                false => state == "gone",
            };
            if there == stays && unset && ended {
                break;
            }
            looks += 1;
            if calm.elapsed() > CALM {
                let left: Vec<_> = there.difference(&stays).collect();
                return Err(format!(
                    "{state}: {left:?} are left of {going:?}, unset: {unset}, ended: {ended}"
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = match (is_held, held.is_empty()) {
            (true, _) => "held",
            (false, false) => "held elsewhere",
            (false, true) => "gone",
        };
        Ok(Lived {
            ended,
            late: looks > 0,
            calm: calm.elapsed(),
        })
    }

    /// The deletion of the root, and whether it was refused: by name, and as the rules have it.
    fn deleted(&self, root: &Thing) -> Result<(String, bool), String> {
        let path = format!("resources/{}/{}", root.kind(), root.id);
        let (status, answer) = self.home(root).api("DELETE", &path, &Value::Null);
        let id = match status {
            202 => text(&answer["id"]),
            409 => text(&answer["deletion_id"]),
            _ => return Err(format!("the delete is answered with {status} {answer}")),
        };
        let since = Instant::now();
        let mut accepted = self.deletion(root, &id);
        while accepted["state"] == "planning" {
            if since.elapsed() > CALM {
                return Err(format!("it is still planned: {accepted}"));
            }
            std::thread::sleep(Duration::from_millis(5));
            accepted = self.deletion(root, &id);
        }
        let refused = accepted["state"] == "refused";
        let because = accepted["refused"].as_array().cloned().unwrap_or_default();
        if refused != self.world.is_refused() {
            return Err(format!("refused: {refused}; {because:?}"));
        }
        match because.iter().all(|it| !it["blocker"].is_null()) {
            true => Ok((id, refused)),
            false => Err(format!("refused by nobody: {because:?}")),
        }
    }

    /// Whether a step names a resource that stays as its blocker.
    fn names_who_holds(&self, root: &Thing, id: &str, stays: &BTreeSet<usize>) -> bool {
        let steps = items(&self.get(self.home(root), &format!("deletions/{id}/steps")));
        let stay = |blocker: &Value| {
            let mut ids = stays.iter().map(|nth| &self.world.things[*nth].id);
            ids.any(|id| blocker["id"] == *id)
        };
        steps.iter().any(|step| {
            let held = step["state"] == "blocked" || step["state"] == "stuck";
            let blockers = step["blockers"].as_array().into_iter().flatten();
            held && !step["last_error"].is_null() && blockers.into_iter().any(stay)
        })
    }
}

#[test]
fn g07_g13_always_gone_or_named_never_too_early_in_processes_of_their_own() {
    // A circle, a queue, and one that is held.
    let mut open = seeds([1, 18, 60]);
    let count = open.len();
    open.reverse();
    let open = Mutex::new(open);
    let ended = Mutex::new(Vec::new());
    let live = || {
        while let Some(seed) = { open.lock().unwrap().pop() } {
            let lived = std::thread::spawn(move || live_through(seed)).join();
            let lived = lived.unwrap_or_else(|_| Err("it panicked, see above".to_owned()));
            match &lived {
                Ok(Lived { ended, calm, .. }) => println!("seed {seed}: {ended} after {calm:.1?}"),
                Err(why) => println!("seed {seed}: {why}"),
            }
            ended.lock().unwrap().push((seed, lived));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(live);
        }
    });
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut late, mut longest) = (0, Duration::ZERO);
    let mut failed = Vec::new();
    for (seed, lived) in ended.into_inner().unwrap() {
        match lived {
            Ok(Lived {
                ended,
                late: is_late,
                calm,
            }) => {
                *ends.entry(ended).or_default() += 1;
                late += u64::from(is_late);
                longest = longest.max(calm);
            }
            Err(why) => failed.push(format!("seed {seed}: {why}")),
        }
    }
    println!(
        "{count} days: {ends:?}, {} failed; {late} were not over when the trouble was, the longest \
         {longest:.1?} after it",
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
