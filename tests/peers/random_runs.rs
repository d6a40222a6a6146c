//! Random runs of several deployments from seeds, as in the simulation, but each deployment is a process with its own
//! ledger. Links are cut, slowed and silenced, and engines killed, at random. The deletion ends gone or with a named
//! blocker, and no resource is gone too early (G7, G11, G13).
//!
//! `GONE_SEED=17 cargo test --test peers random_runs` runs one seed; `GONE_SEEDS=0..50` runs many. A seed decides the
//! resources, the deletion and the faults, but not to the millisecond: processes and networks keep their own time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gone::domain::peers::Deployment;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::links::{Link, LinkState};
use crate::peers_world::{DEPLOYMENTS, Fate, SERVICES, Thing, World, kinds};
use crate::processes::{Home, Setup, address};
use crate::seed_selection::seeds;

/// Limit from the end of the faults to the end of the deletion.
const END_WITHIN: Duration = Duration::from_secs(45);
/// Number of runs at the same time: a run mostly waits.
const RUNS_AT_ONCE: usize = 3;
/// Blocked steps are retried twice a second, practically without end, so that a deletion that can end does so within
/// seconds.
const SETTINGS: &str = "[gc]\nschedule = ['500ms']\njitter = 0.1\nmax_attempts = 1000\n";
const HEARTBEAT: &str = "300ms";

/// The deployments of one run, and the observations of their resources. Resources are numbers: their indices in
/// `world.things`.
struct Run {
    world: World,
    homes: Vec<Home>,
    links: BTreeMap<(usize, usize), Link>,
    /// Resources that any observation found gone.
    gone: BTreeSet<usize>,
    /// The references that each existing resource had when it was last observed.
    references_by_number: BTreeMap<usize, BTreeSet<usize>>,
    /// The state of each link while faults are injected, until a fault changes it. It is slow: otherwise the deletion
    /// would end before the first fault.
    usual: LinkState,
    _network: Runtime,
}

impl Run {
    /// Starts all deployments, and creates all resources.
    fn new(seed: u64) -> Self {
        let network = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let addresses: Vec<String> = DEPLOYMENTS.iter().map(|_| address()).collect();
        let mut links = BTreeMap::new();
        for from in 0..DEPLOYMENTS.len() {
            for to in (0..DEPLOYMENTS.len()).filter(|to| *to != from) {
                links.insert((from, to), Link::to(&addresses[to], &network));
            }
        }
        let texts = SERVICES.map(|service| format!("service = \"{service}\"\n{}", kinds(service)));
        let texts = texts.each_ref().map(String::as_str);
        let homes = addresses.into_iter().enumerate().map(|(number, listen)| {
            let others = (0..DEPLOYMENTS.len()).filter(|other| *other != number);
            let mut home = Home::new(&Setup {
                deployment: deployment(number),
                listen,
                heartbeat: HEARTBEAT,
                peers: others
                    .map(|to| (deployment(to), links[&(number, to)].address.clone()))
                    .collect(),
                settings: SETTINGS,
                kinds: &texts,
            });
            home.start();
            home
        });
        let run = Self {
            world: World::new(&mut fastrand::Rng::with_seed(seed)),
            homes: homes.collect(),
            links,
            gone: BTreeSet::new(),
            references_by_number: BTreeMap::new(),
            usual: LinkState::Normal,
            _network: network,
        };
        for thing in &run.world.things {
            run.home(thing)
                .create(&thing.kind(), &run.world.body(thing));
        }
        run
    }

    fn home(&self, thing: &Thing) -> &Home {
        let found = self.homes.iter().find(|home| home.name == thing.name());
        found.unwrap()
    }

    fn set_links(&self, state: LinkState) {
        for link in self.links.values() {
            link.set_state(state);
        }
    }

    /// Observes each resource whose deployment runs.
    ///
    /// # Errors
    /// A resource in `stays` is gone; a resource that was gone exists again; or a resource is gone while another one,
    /// which is not in a cycle with it, refers to it (G7). References that may dangle do not count.
    ///
    /// The observations are made one after the other. No resource is re-created, so one that was observed gone stays
    /// gone, and a reference to it that is observed later proves the error. The reverse order proves nothing: the
    /// reference may have been removed before its target was gone. So the order of the observations causes no false
    /// alarm, only late ones.
    fn observe(&mut self, stays: &BTreeSet<usize>) -> Result<(), String> {
        for (nth, thing) in self.world.things.iter().enumerate() {
            let home = self.home(thing);
            if !home.is_running() {
                continue;
            }
            let Some(row) = home.resource(&thing.kind(), &thing.id) else {
                if stays.contains(&nth) {
                    return Err(format!("t{nth} is gone, although no rule deletes it"));
                }
                self.references_by_number.remove(&nth);
                self.gone.insert(nth);
                continue;
            };
            let points = self.world.points(thing, &row);
            if thing.fate() != Fate::Dangling {
                let mut early = points.intersection(&self.gone);
                if let Some(to) = early.find(|to| !self.world.in_a_cycle(nth, **to)) {
                    return Err(format!("t{to} is gone, but t{nth} still refers to it"));
                }
            }
            if self.gone.contains(&nth) {
                return Err(format!("t{nth} was gone, and exists again"));
            }
            self.references_by_number.insert(nth, points);
        }
        Ok(())
    }

    /// Injects faults into links and engines at random times, and observes the resources meanwhile.
    fn inject_faults(
        &mut self,
        dice: &mut fastrand::Rng,
        stays: &BTreeSet<usize>,
    ) -> Result<(), String> {
        // How often these pauses occur depends on the machine, so they must not change the next fault.
        let mut pauses = fastrand::Rng::with_seed(dice.u64(..));
        for _ in 0..dice.usize(4..12) {
            let number = dice.usize(0..DEPLOYMENTS.len());
            match dice.u8(0..8) {
                0..=2 => match self.homes[number].is_running() {
                    true => self.homes[number].kill(),
                    false => self.homes[number].start(),
                },
                3 => self.set_links(self.usual),
                _ => {
                    let other = dice.usize(0..DEPLOYMENTS.len());
                    let slow = LinkState::Slow(Duration::from_millis(dice.u64(1..400)));
                    let state = *dice
                        .choice(&[LinkState::Cut, LinkState::Cut, LinkState::Silent, slow])
                        .unwrap();
                    let both = dice.bool();
                    for direction in [(number, other), (other, number)] {
                        let is_first = direction.0 == number;
                        let link = self.links.get(&direction);
                        if let Some(link) = link.filter(|_| is_first || both) {
                            link.set_state(state);
                        }
                    }
                }
            }
            let until = Instant::now() + Duration::from_millis(dice.u64(1..800));
            while Instant::now() < until {
                self.observe(stays)?;
                std::thread::sleep(Duration::from_millis(pauses.u64(1..30)));
            }
        }
        Ok(())
    }

    /// Ends all faults, and starts the engines that do not run.
    fn heal(&mut self) {
        self.set_links(LinkState::Normal);
        for home in self.homes.iter_mut().filter(|home| !home.is_running()) {
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

    /// Lists the deletions, their steps and the end of the log of each deployment whose engine runs, for a failure's
    /// message.
    fn describe(&self) -> String {
        let mut description = String::new();
        for home in self.homes.iter().filter(|home| home.is_running()) {
            for deletion in items(&self.get(home, "deletions")) {
                let (id, name) = (text(&deletion["id"]), &home.name);
                let cause = &deletion["cause"];
                let state = &deletion["state"];
                write!(description, "\n{name} deletion {id} {state}, cause {cause}").unwrap();
                for step in items(&self.get(home, &format!("deletions/{id}/steps"))) {
                    let (key, state) = (&step["resource"], &step["state"]);
                    let error = &step["last_error"]["message"];
                    let action = &step["action"];
                    write!(description, "\n    {action} {key} {state}: {error}").unwrap();
                }
            }
            let log = home.log();
            let last = log.lines().rev().take(20).collect::<Vec<_>>();
            for line in last.iter().rev() {
                write!(description, "\n    log: {line}").unwrap();
            }
        }
        description
    }
}

fn deployment(number: usize) -> Deployment {
    let (name, service, region) = DEPLOYMENTS[number];
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

/// How a run ended.
struct Outcome {
    ended: &'static str,
    /// Whether the deletion ended after the faults.
    is_late: bool,
    /// Time from the end of the faults to the end of the deletion; of a refused deletion, from its request to its
    /// refusal.
    took: Duration,
}

fn run_seed(seed: u64) -> Result<Outcome, String> {
    let mut run = Run::new(seed);
    run.run(seed)
        .map_err(|why| format!("{why}\n{}{}", World::describe(seed), run.describe()))
}

impl Run {
    fn run(&mut self, seed: u64) -> Result<Outcome, String> {
        let mut dice = fastrand::Rng::with_seed(seed ^ 0xD1CE);
        let root = self.world.things[self.world.root].clone();
        self.usual = LinkState::Slow(Duration::from_millis(dice.u64(1..150)));
        self.set_links(self.usual);
        let began = Instant::now();
        let (id, refused) = self.delete_root(&root)?;
        if refused {
            return Ok(Outcome {
                ended: "refused",
                is_late: false,
                took: began.elapsed(),
            });
        }
        let to_delete = self.world.to_delete();
        let blocked = self.world.blocked(&to_delete);
        let all: BTreeSet<usize> = (0..self.world.things.len()).collect();
        let stays: BTreeSet<usize> = all
            .into_iter()
            .filter(|it| !to_delete.contains(it) || blocked.contains(it))
            .collect();
        self.inject_faults(&mut dice, &stays)?;
        self.heal();
        let healed = Instant::now();
        let mut observations = 0;
        let plan = self.world.plan(self.world.root);
        let is_blocked = !plan.is_disjoint(&blocked);
        loop {
            self.observe(&stays)?;
            let there: BTreeSet<usize> = self.references_by_number.keys().copied().collect();
            let unset = self.references_by_number.iter().all(|(from, points)| {
                self.world.things[*from].fate() != Fate::Unset || points.is_disjoint(&to_delete)
            });
            let state = text(&self.deletion(&root, &id)["state"]);
            let ended = match is_blocked {
                true => self.names_a_blocker(&root, &id, &stays),
                false => state == "gone",
            };
            if there == stays && unset && ended {
                break;
            }
            observations += 1;
            if healed.elapsed() > END_WITHIN {
                let left: Vec<_> = there.difference(&stays).collect();
                return Err(format!(
                    "{state}: {left:?} are left of {to_delete:?}, unset: {unset}, ended: {ended}"
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = match (is_blocked, blocked.is_empty()) {
            (true, _) => "blocked",
            (false, false) => "blocked elsewhere",
            (false, true) => "gone",
        };
        Ok(Outcome {
            ended,
            is_late: observations > 0,
            took: healed.elapsed(),
        })
    }

    /// Deletes the root. Returns the deletion's id, and whether it was refused.
    ///
    /// # Errors
    /// The delete was answered with neither 202 nor 409, or the deletion was not planned in time, was refused or
    /// accepted against the rules, or was refused without a named blocker.
    fn delete_root(&self, root: &Thing) -> Result<(String, bool), String> {
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
            if since.elapsed() > END_WITHIN {
                return Err(format!("the deletion is still being planned: {accepted}"));
            }
            std::thread::sleep(Duration::from_millis(5));
            accepted = self.deletion(root, &id);
        }
        let refused = accepted["state"] == "refused";
        let because = accepted["refused"].as_array().cloned().unwrap_or_default();
        if refused != self.world.is_refused() {
            return Err(format!(
                "refused: {refused}, against the rules; {because:?}"
            ));
        }
        match because.iter().all(|it| !it["blocker"].is_null()) {
            true => Ok((id, refused)),
            false => Err(format!("refused without a blocker: {because:?}")),
        }
    }

    /// Whether a step names, as its blocker, a resource that stays.
    fn names_a_blocker(&self, root: &Thing, id: &str, stays: &BTreeSet<usize>) -> bool {
        let steps = items(&self.get(self.home(root), &format!("deletions/{id}/steps")));
        let stay = |blocker: &Value| {
            let mut ids = stays.iter().map(|nth| &self.world.things[*nth].id);
            ids.any(|id| blocker["id"] == *id)
        };
        steps.iter().any(|step| {
            let is_blocked = step["state"] == "blocked" || step["state"] == "stuck";
            let blockers = step["blockers"].as_array().into_iter().flatten();
            is_blocked && !step["last_error"].is_null() && blockers.into_iter().any(stay)
        })
    }
}

#[test]
fn g07_g13_a_deletion_across_processes_ends_gone_or_names_its_blocker_and_never_ends_early() {
    // These seeds make a cycle of references, a target with several referrers, and a deletion that stays blocked.
    let mut open = seeds([1, 18, 60]);
    let count = open.len();
    open.reverse();
    let open = Mutex::new(open);
    let ended = Mutex::new(Vec::new());
    let run_seeds = || {
        while let Some(seed) = { open.lock().unwrap().pop() } {
            let outcome = std::thread::spawn(move || run_seed(seed)).join();
            let outcome = outcome.unwrap_or_else(|_| Err("it panicked, see above".to_owned()));
            match &outcome {
                Ok(Outcome { ended, took, .. }) => {
                    println!("seed {seed}: {ended} after {took:.1?}")
                }
                Err(why) => println!("seed {seed}: {why}"),
            }
            ended.lock().unwrap().push((seed, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(run_seeds);
        }
    });
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut late, mut longest) = (0, Duration::ZERO);
    let mut failed = Vec::new();
    for (seed, outcome) in ended.into_inner().unwrap() {
        match outcome {
            Ok(Outcome {
                ended,
                is_late,
                took,
            }) => {
                *ends.entry(ended).or_default() += 1;
                late += u64::from(is_late);
                longest = longest.max(took);
            }
            Err(why) => failed.push(format!("seed {seed}: {why}")),
        }
    }
    println!(
        "{count} runs: {ends:?}, {} failed; {late} ended after the faults, the last {longest:.1?} after them",
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
