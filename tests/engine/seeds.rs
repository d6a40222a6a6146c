//! Simulations from seeds: sizes, faults, crashes and the retries of a person are drawn, and the same invariants must
//! hold at the end. Half of the ledgers are SQLite files, and half are in memory. A crash drops the engine, and leaves
//! the rows.
//!
//! `GONE_SEED=17 cargo test --test engine one_seed_gives` runs one seed twice, and shows its calls if a check fails.
//! `GONE_SEEDS=0..100000 cargo test --release --test engine seeds::invariants_hold` runs many.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use super::invariants::{after_crash, check};
use super::ledger_storage::LedgerStorage;
use super::seed_selection::{in_parts, seeds};
use super::shared_ledger::Server;
use gone::domain::mapping::Mapping;
use gone::domain::model::{
    CopiedBy, Deletion, DeletionState, KindName, OnFailure, Plan, PlanOptions, ResourceKey, Step,
    StepState,
};
use gone::ledger::tombstones::Tombstones;
use serde_json::{Value, json};

/// The most times that a person repeats the request, and then retries the deletion. The faults end before the last
/// request, and after half of the retries.
const RETRIES_MAX: u32 = 12;
/// The most crashes of one simulation.
pub const CRASHES_MAX: u32 = 3;
/// One seed in this many has a project with a resource of every kind. Each such seed deletes the next of these
/// resources.
const FURNISHED_EVERY: u64 = 16;
/// The remainder of these seeds when they are divided by [`FURNISHED_EVERY`].
const FURNISHED: u64 = 5;

/// The simulation of a seed.
pub struct Simulation {
    seed: u64,
    pub dice: fastrand::Rng,
    pub bench: Bench,
    pub target: (&'static str, String),
    pub options: PlanOptions,
    /// The owned ports before the deletion, see [`Bench::owned_ports`].
    pub owned: BTreeMap<String, String>,
    /// The server of the ledger, if several engines share one.
    pub server: Option<Server>,
}

impl Simulation {
    pub fn new(seed: u64, planted_fault: PlantedFault) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        // A third of the seeds has two regions: the second has a copy of a network of the first region.
        let regions: &[&str] = match seed % 3 {
            0 => &["RegionOne", "RegionTwo"],
            _ => &["RegionOne"],
        };
        let mut bench = Bench::in_regions(seed, regions);
        bench.planted_fault = planted_fault;
        if is_in_memory(seed) {
            bench.keep_in_memory();
        }
        let engine = &mut bench.settings.engine;
        engine.concurrency = *dice.choice(&[1, 2, 4, 16]).unwrap();
        engine.call_timeout = Duration::from_secs(10);
        engine.verify_timeout = Duration::from_secs(5);
        let gc = &mut bench.settings.gc;
        gc.schedule = [1, 3, 10].map(Duration::from_secs).to_vec();
        gc.max_attempts = dice.u32(2..5);
        let (made, network, project, target) = if seed % FURNISHED_EVERY == FURNISHED {
            let estate = bench.furnish_demo();
            let network = estate["network"].clone();
            let turn = (seed / FURNISHED_EVERY) as usize % estate.len();
            let target = estate.into_iter().nth(turn).unwrap();
            (Value::Null, network, "demo", target)
        } else {
            random_topology(&bench, &mut dice)
        };
        if let [central, local] = regions {
            add_copy(&mut bench, seed, (central, &network), local, project);
        }
        if let Some(trunk) = made["trunks"][0].as_str().filter(|_| dice.u8(0..4) == 0) {
            bench.set_trunk_state(trunk, false);
        }
        if dice.bool() {
            bench.limits(json!({ "latency_ms": dice.u32(1..300) }));
        }
        let on_failure = *dice
            .choice(&[OnFailure::Continue, OnFailure::Stop])
            .unwrap();
        let options = PlanOptions {
            on_failure,
            delete_detached: dice.bool(),
            ..cascade()
        };
        let owned = bench.owned_ports();
        Self {
            seed,
            dice,
            bench,
            target,
            options,
            owned,
            server: None,
        }
    }

    /// Checks that each gate that may answer knows the tombstone of a network when its deletion is acknowledged (T3).
    /// The deletion may have been refused by then.
    fn is_known_to_gates(&self) -> Result<(), String> {
        let (kind, id) = &self.target;
        let Some(server) = self.server.as_ref().filter(|_| *kind == "network") else {
            return Ok(());
        };
        let key = ResourceKey {
            site: site(),
            kind: KindName::new(kind),
            id: id.clone(),
        };
        let is_unknown = |gate: &Arc<Tombstones>| gate.phase(&key.site, &key.kind, id).is_none();
        match server.is_guarded(&key) && server.trusted_gates().iter().any(is_unknown) {
            true => Err(format!(
                "T3: a gate may answer, and lacks the tombstone of {id}"
            )),
            false => Ok(()),
        }
    }

    /// Draws the faults. Each hits a bounded number of calls, so that the simulation can end.
    pub fn faults(&mut self) -> Value {
        let dice = &mut self.dice;
        let rules = (0..dice.u32(0..7)).map(|_| {
            let (method, kinds): (&str, &[&str]) = match dice.u8(0..5) {
                0 | 1 => (
                    "GET",
                    &[
                        "port",
                        "network",
                        "router",
                        "trunk",
                        "loadbalancer",
                        "listener",
                        "image",
                    ],
                ),
                2 => (
                    "PUT",
                    &["router_interface", "static_route", "trunk", "subport"],
                ),
                _ => (
                    "DELETE",
                    &[
                        "port",
                        "network",
                        "trunk",
                        "floating_ip",
                        "loadbalancer",
                        "image",
                    ],
                ),
            };
            let action = match dice.u8(0..13) {
                0 => json!({ "status": 409, "type": "SomethingInUse" }),
                1 => json!({ "status": 429, "retry_after": dice.u32(0..20) }),
                2 => json!({ "status": 500 }),
                3 => json!({ "status": 503 }),
                4 => json!({ "hang": true }),
                5 => json!({ "drop_after_effect": true }),
                6 => json!({ "keep": true }),
                7 => json!({ "delay_ms": dice.u32(1..15_000) }),
                8 if method == "GET" => json!({ "empty_list": true }),
                9 => json!({ "truncate": true }),
                10 => json!({ "status": 502, "html": true }),
                11 => json!({ "status": 404, "html": true }),
                _ => json!({ "status": 404, "type": "HTTPNotFound" }),
            };
            // Keystone gets no faults: the faults of logins have tests of their own.
            let mut wanted = json!({ "method": method, "path": "/v2" });
            if dice.u8(0..4) > 0 {
                wanted["kind"] = json!(dice.choice(kinds));
            }
            json!({ "match": wanted, "times": dice.u32(1..8), "action": action })
        });
        Value::Array(rules.collect())
    }

    fn schedule_crash(&mut self) {
        let (dice, crash) = (&mut self.dice, &self.bench.crash);
        match dice.u8(0..4) {
            0 => crash.at_write(dice.u64(1..60)),
            1 => crash.at_write_that_comes_late(dice.u64(4..60), dice.u64(1..12)),
            2 => crash.at_call(dice.u64(1..80)),
            _ => crash.cancel(),
        }
    }
}

/// Whether the ledger of a seed is in memory, and not in a SQLite file. True for half of the seeds with one region,
/// half of those with two, and half of those with a furnished project.
fn is_in_memory(seed: u64) -> bool {
    (seed / 3) % 2 == 1
}

/// Creates a topology of a random size. Returns the ids of the created resources, the id of the first network, the
/// project, and the target.
fn random_topology(
    bench: &Bench,
    dice: &mut fastrand::Rng,
) -> (Value, String, &'static str, (&'static str, String)) {
    let networks = dice.u32(1..4);
    let routers = dice.u32(0..2);
    // With a router, the project has an external network, which is never deleted, so the project cannot be emptied.
    let project = if routers == 0 && dice.bool() {
        "demo"
    } else {
        "admin"
    };
    let made = bench.seed(json!({
        "project": project,
        "networks": networks,
        "ports_per_network": *dice.choice(&[0, 1, 3, 5, 8]).unwrap(),
        "routers": routers,
        "floating_ips": if routers > 0 { dice.u32(0..3) } else { 0 },
        "trunks": dice.u32(0..2),
        "load_balancers": dice.u32(0..3),
        "images": dice.u32(0..2),
    }));
    let network = made["networks"][0].as_str().unwrap().to_owned();
    let target = match project {
        "demo" => ("project", project.to_owned()),
        _ => ("network", network.clone()),
    };
    (made, network, project, target)
}

/// Creates a copy of a network with ports of its own at the local site, and the mapping between the sites.
fn add_copy(
    bench: &mut Bench,
    seed: u64,
    (central, network): (&str, &str),
    local: &str,
    project: &str,
) {
    bench.settings.mapping = vec![Mapping {
        central: site_of(central),
        locals: vec![site_of(local)],
        by: CopiedBy::Tag,
    }];
    let mut dice = fastrand::Rng::with_seed(seed);
    let made = bench.seed(json!({
        "region": local,
        "project": project,
        "networks": dice.u32(1..3),
        "ports_per_network": dice.u32(0..4),
        "trunks": dice.u32(0..2),
    }));
    bench.tag_as_copy(local, made["networks"][0].as_str().unwrap(), network);
}

/// Runs a seed. Returns the requests, or the invariant that does not hold.
pub fn run(seed: u64, planted_fault: PlantedFault) -> Result<Vec<SentRequest>, String> {
    run_on_paused_clock(simulate(seed, planted_fault))
}

/// Runs a simulation on a paused clock, and returns a panic as an error.
pub fn run_on_paused_clock(
    simulation: impl Future<Output = Result<Vec<SentRequest>, String>>,
) -> Result<Vec<SentRequest>, String> {
    match catch_unwind(AssertUnwindSafe(|| paused(simulation))) {
        Ok(ended) => ended,
        Err(panic) => Err(match panic.downcast::<String>() {
            Ok(text) => format!("panicked: {text}"),
            Err(_) => "panicked".to_owned(),
        }),
    }
}

async fn simulate(seed: u64, planted_fault: PlantedFault) -> Result<Vec<SentRequest>, String> {
    let mut simulation = Simulation::new(seed, planted_fault);
    let before = simulation.bench.all_ids();
    let faults = simulation.begin();
    let mut progress = RequestProgress::new(&faults);
    let mut crashes = 0;
    let ended = loop {
        match crashes {
            CRASHES_MAX => simulation.bench.crash.cancel(),
            _ => simulation.schedule_crash(),
        }
        let (shared, of_person) = (&simulation, &mut progress);
        let run = simulation
            .bench
            .run(async move |client| request_until_gone(shared, &client, of_person).await);
        match run.await {
            Some(ended) => break ended,
            None => crashes += 1,
        }
        simulation.bench.crash.cancel();
        after_crash(&simulation.bench, progress.acknowledged.as_deref()).await?;
    };
    simulation.end(&before, &faults, ended).await
}

/// The progress of a person's request, over all engines to which it was sent.
pub struct RequestProgress {
    /// The id of the deletion that was acknowledged.
    pub acknowledged: Option<String>,
    /// The faults that begin once the plan is made.
    later_faults: Option<Value>,
}

impl RequestProgress {
    pub fn new(faults: &Value) -> Self {
        Self {
            acknowledged: None,
            later_faults: Some(faults.clone()),
        }
    }
}

impl Simulation {
    /// Draws the faults, and injects those that cannot falsify a plan. Returns all of the faults.
    pub fn begin(&mut self) -> Value {
        let faults = self.faults();
        // While a plan is made, an empty list from a fault looks like a true one.
        let honest = faults.as_array().into_iter().flatten();
        let honest = honest.filter(|rule| rule["action"]["empty_list"] != true);
        self.bench.faults(honest.cloned().collect());
        faults
    }

    /// Checks the invariants at the end. Returns the requests, or a report of the problem. `before` has the ids from
    /// before the deletion.
    pub async fn end(
        &self,
        before: &BTreeSet<(String, String)>,
        faults: &Value,
        ended: Result<EndState, String>,
    ) -> Result<Vec<SentRequest>, String> {
        self.bench.faults(json!([]));
        let checked = match &ended {
            Ok(ended) => check(self, before, ended).await,
            Err(problem) => Err(problem.clone()),
        };
        let sent = self.bench.sent();
        match checked {
            Ok(()) => Ok(sent),
            Err(problem) => Err(self.report(&problem, faults, &sent)),
        }
    }

    /// Describes a problem, with the faults and the requests.
    fn report(&self, problem: &str, faults: &Value, sent: &[SentRequest]) -> String {
        let store = match self.bench.storage {
            LedgerStorage::Memory { .. } => "memory",
            LedgerStorage::File(_) => "SQLite",
        };
        let seed = self.seed;
        let mut text = format!("seed {seed} (ledger in {store}): {problem}\nfaults: {faults}\n");
        for call in sent {
            // The parameters `fields` would only make the report longer.
            let path = call
                .path
                .split(['?', '&'])
                .filter(|part| !part.starts_with("fields="))
                .collect::<Vec<_>>()
                .join("&");
            let body = if call.is_write() {
                call.body.as_str()
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "{} {} {path} {body} {:?} {}",
                call.at.format("%T%.3f"),
                call.method,
                call.status,
                call.error
            );
        }
        text
    }
}

/// A deletion that has ended, its steps, and its plan.
pub type EndState = (Deletion, Vec<Step>, Option<Plan>);

/// Requests the deletion, as a person does, and retries it while it is refused or stuck. Returns its state at the end.
pub async fn request_until_gone(
    simulation: &Simulation,
    client: &Client,
    progress: &mut RequestProgress,
) -> Result<EndState, String> {
    let bench = &simulation.bench;
    let RequestProgress {
        acknowledged,
        later_faults,
    } = progress;
    let mut retries_left = RETRIES_MAX;
    let id = loop {
        if let Some(id) = acknowledged.clone() {
            break id;
        }
        // The answer may have been lost although the deletion was accepted.
        if let Some(known) = client.deletions(Vec::new(), None).await.first() {
            break known.id.clone();
        }
        let (kind, target) = &simulation.target;
        match client.try_delete(kind, target, simulation.options).await {
            Ok(id) => {
                *acknowledged = Some(id.clone());
                simulation.is_known_to_gates()?;
                break id;
            }
            Err(_) if retries_left > 0 => {
                retries_left -= 1;
                tokio::time::sleep(Duration::from_secs(30)).await;
                if retries_left == 0 {
                    bench.faults(json!([]));
                }
            }
            Err(error) => return Err(format!("the deletion was never accepted: {error}")),
        }
    };
    let mut retries_left = RETRIES_MAX;
    loop {
        if later_faults.is_some() {
            let planned =
                |deletion: &Deletion| deletion.counts.total > 0 || deletion.state.is_terminal();
            let deletion = client.until_or_timeout(&id, planned).await?;
            if deletion.counts.total > 0 {
                bench.faults(later_faults.take().unwrap_or_default());
            }
        }
        let deletion = client
            .until_or_timeout(&id, |it| it.state.is_terminal())
            .await?;
        let steps = client.steps(&id).await;
        match deletion.state {
            DeletionState::Gone => {
                let plan = client.frozen_plan(&id).await;
                return Ok((deletion, steps, Some((*plan).clone())));
            }
            DeletionState::Stuck => {
                if deletion.counts.live() > 0 {
                    // Other steps continue while one is stuck.
                    client
                        .until_or_timeout(&id, |it| it.counts.live() == 0)
                        .await?;
                }
                let without_reason = steps
                    .iter()
                    .find(|step| step.state == StepState::Stuck && step.last_error.is_none());
                if let Some(without_reason) = without_reason {
                    return Err(format!("stuck without a reason: {without_reason:#?}"));
                }
            }
            DeletionState::Refused if deletion.refused.is_empty() => {
                return Err(format!("refused without a reason: {deletion:#?}"));
            }
            DeletionState::Refused => {}
            other => return Err(format!("the deletion ended as {other:?}")),
        }
        if retries_left == 0 {
            return Err(format!(
                "not gone after {RETRIES_MAX} retries: {deletion:?}\n{}",
                steps_in_short(&steps)
            ));
        }
        retries_left -= 1;
        if retries_left == RETRIES_MAX / 2 {
            bench.faults(json!([]));
            *later_faults = None;
        }
        for step in &steps {
            let error = step.last_error.as_ref();
            if error.is_some_and(|error| error.kind == "TrunkDisabled") {
                let path = format!("/v2.0/trunks/{}", step.resource.key.id);
                bench.api("PUT", &path, json!({ "trunk": { "admin_state_up": true } }));
            }
        }
        client.retry(&id).await;
        // The deletion may have ended again before the answer of the retry arrived.
        client
            .until_or_timeout(&id, |now| {
                !now.state.is_terminal() || now.finished_at != deletion.finished_at
            })
            .await?;
    }
}

fn steps_in_short(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |mut text, step| {
        let error = step.last_error.as_ref().map(|error| &error.message);
        let _ = writeln!(
            text,
            "{} {} {:?} after {} attempts: {error:?}, blockers {:?}",
            step.action.as_str(),
            step.resource.key,
            step.state,
            step.attempts,
            step.blockers
        );
        text
    })
}

in_parts! { |seed| run(seed, PlantedFault::None);
    0 invariants_hold_part_0,
    1 invariants_hold_part_1,
    2 invariants_hold_part_2,
    3 invariants_hold_part_3,
    4 invariants_hold_part_4,
    5 invariants_hold_part_5,
    6 invariants_hold_part_6,
    7 invariants_hold_part_7,
}

#[test]
fn one_seed_gives_the_same_calls_each_time() {
    for seed in seeds(0..20) {
        let first = run(seed, PlantedFault::None);
        let second = run(seed, PlantedFault::None);
        assert_eq!(first, second, "two runs of seed {seed} differ");
        if let Err(problem) = first {
            panic!("{problem}");
        }
    }
}
