//! A scripted control: it answers with the data of a [`World`], and records every command for the test.

use gone::domain::engines::EngineRow;
use gone::domain::model::Paged;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, TimeZone as _, Utc};
use clap::Parser as _;
use gone::app::command_line::{Cli, Local, Verb};
use gone::app::upkeep::{Ledger, LedgerWork};
use gone::control::{
    Accepted, Command, Control, ControlError, DeploymentStatus, Envelope, Explanation, GateStatus,
    ImporterStatus, KindInfo, Page, Purged, Query, Receipt, Retried, SiteListing, SiteState,
    SiteStatus, Snapshot, WatchStatus, query,
};
use gone::domain::activity::ReconcilerStatus;
use gone::domain::attention::CauseGroup;
use gone::domain::gantt::Gantt;
use gone::domain::kinds::FieldMeanings;
use gone::domain::ladder::{Ladder, Rung};
use gone::domain::model::*;
use gone::frontends::cli::output::{Printer, Style};
use gone::frontends::cli::{self, Exit, Session};
use gone::system::clock::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::testkit::{self, offer};

pub fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
}

pub const DELETION: &str = "0195d3c0-0000-7000-8000-0000deadbeef";
pub const SHORT: &str = "deadbeef";

/// The data with which the control answers. `deletions` are versions of one deletion: each query for a deletion by its
/// id takes the next version, and the last one stays.
pub struct World {
    pub plan: Result<Plan, ControlError>,
    pub accept: Result<Receipt, ControlError>,
    pub deletions: VecDeque<Deletion>,
    pub steps: Vec<Step>,
    /// The plan of the deletion.
    pub frozen: Option<Plan>,
    pub chart: Option<Gantt>,
    pub events: Vec<Event>,
    /// The events that arrive while a verb follows a deletion: one for each call of `events`, then none.
    pub new_events: VecDeque<Event>,
    pub tombstones: Vec<Tombstone>,
    pub orphans: Vec<Orphan>,
    pub gates: Vec<GateStatus>,
    pub deployments: Vec<DeploymentStatus>,
    pub reconcilers: Vec<ReconcilerStatus>,
    pub engines: Vec<EngineRow>,
    pub causes: Vec<CauseGroup>,
    /// The sites of the last query for causes.
    pub causes_sites: Arc<Mutex<Vec<Site>>>,
    pub listings: Vec<SiteListing>,
    pub retried: Retried,
    pub kinds: Vec<KindInfo>,
    pub explanation: Option<Explanation>,
    pub sites: Vec<SiteStatus>,
    /// Number of rows of a page.
    pub page_rows: usize,
    pub submitted: Vec<Envelope>,
    pub queries: usize,
    /// The number of queries for a deletion that fail before the engine answers again.
    pub unreachable_queries: usize,
}

impl World {
    pub fn new() -> Self {
        Self {
            plan: Ok(plan()),
            accept: Ok(Receipt::Accepted(Accepted {
                deletion_id: DELETION.into(),
                existing: false,
            })),
            deletions: [deletion(DeletionState::Running)].into(),
            steps: Vec::new(),
            frozen: None,
            chart: None,
            events: Vec::new(),
            new_events: VecDeque::new(),
            tombstones: Vec::new(),
            orphans: Vec::new(),
            gates: Vec::new(),
            deployments: Vec::new(),
            reconcilers: Vec::new(),
            engines: Vec::new(),
            causes: Vec::new(),
            causes_sites: Arc::default(),
            listings: Vec::new(),
            retried: Retried {
                eligible: 3,
                not_eligible: Vec::new(),
                moved: 3,
            },
            kinds: Vec::new(),
            explanation: None,
            sites: vec![site("prod", "one"), site("prod", "two"), site("lab", "one")],
            page_rows: 500,
            submitted: Vec::new(),
            queries: 0,
            unreachable_queries: 0,
        }
    }
}

pub struct Fake {
    pub world: Mutex<World>,
    pub snapshot: watch::Sender<Arc<Snapshot>>,
}

impl Fake {
    pub fn new(world: World) -> Arc<Self> {
        let snapshot = Snapshot {
            sites: world.sites.clone(),
            ..Snapshot::default()
        };
        Arc::new(Self {
            world: Mutex::new(world),
            snapshot: watch::channel(Arc::new(snapshot)).0,
        })
    }

    pub fn submitted(&self) -> Vec<Envelope> {
        self.world.lock().unwrap().submitted.clone()
    }
}

fn page<T: Clone>(rows: &[T], cursor: Option<String>, size: usize) -> (Vec<T>, Option<String>) {
    let from: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
    let to = (from + size).min(rows.len());
    (
        rows[from..to].to_vec(),
        (to < rows.len()).then(|| to.to_string()),
    )
}

#[async_trait]
impl Control for Fake {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let mut world = self.world.lock().unwrap();
        world.submitted.push(envelope.clone());
        match envelope.command {
            Command::Plan { .. } => world.plan.clone().map(|plan| Receipt::Planned {
                plan: Arc::new(plan),
            }),
            Command::Delete { .. }
            | Command::DeletePlan { .. }
            | Command::DeletePlanFile { .. } => world.accept.clone(),
            Command::Purge { rung, .. } => Ok(Receipt::Purged(Purged {
                rung,
                moved: 2,
                deletion_id: (rung == Rung::Unpin).then(|| DELETION.to_owned()),
                runbook: (rung == Rung::Runbook).then(|| "1. Look.\n2. Act.\n".to_owned()),
            })),
            Command::RetryMatching { .. } => Ok(Receipt::Bulk(world.retried.clone())),
            _ => Ok(Receipt::Done { moved: 3 }),
        }
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        let mut world = self.world.lock().unwrap();
        world.queries += 1;
        let size = world.page_rows;
        Ok(match query {
            Query::Deletion(query::Deletion { id }) => {
                if world.unreachable_queries > 0 {
                    world.unreachable_queries -= 1;
                    return Err(ControlError::Unreachable {
                        message: "the engine restarts".into(),
                    });
                }
                if !DELETION.ends_with(&id) {
                    return Err(ControlError::NotFound {
                        message: format!("no deletion ends with {id}"),
                    });
                }
                let row = if world.deletions.len() > 1 {
                    world.deletions.pop_front().unwrap()
                } else {
                    world.deletions[0].clone()
                };
                Page::Deletion(Box::new(row))
            }
            Query::Deletions(query::Deletions { states, cursor, .. }) => {
                let fits = |row: &&Deletion| states.is_empty() || states.contains(&row.state);
                let all: Vec<Deletion> = world.deletions.iter().filter(fits).cloned().collect();
                let (rows, next) = page(&all, cursor, size);
                Page::Deletions(Paged { rows, next })
            }
            Query::Steps(query::Steps { states, cursor, .. }) => {
                let fits = |step: &&Step| states.is_empty() || states.contains(&step.state);
                let all: Vec<Step> = world.steps.iter().filter(fits).cloned().collect();
                let (mut rows, next) = page(&all, cursor, size);
                for step in &mut rows {
                    step.depends_on.truncate(DEPENDENCIES_MAX);
                }
                Page::Steps(Paged { rows, next })
            }
            Query::Step(query::Step { id }) => {
                let Some(step) = world.steps.iter().find(|step| step.id == id) else {
                    let message = format!("no step {id}");
                    return Err(ControlError::NotFound { message });
                };
                Page::Step(Box::new(step.clone()))
            }
            Query::FrozenPlan(_) => match &world.frozen {
                Some(plan) => Page::FrozenPlan(Arc::new(plan.clone())),
                None => {
                    let message = "it has no plan".to_owned();
                    return Err(ControlError::NotFound { message });
                }
            },
            Query::Chart(_) => Page::Chart(world.chart.clone().unwrap()),
            Query::Progress(_) => Page::Progress(Vec::new()),
            Query::Timeline(query::Timeline { after, .. }) => Page::Timeline(
                world
                    .events
                    .iter()
                    .filter(|e| e.seq > after)
                    .cloned()
                    .collect(),
            ),
            Query::Tombstones(query::Tombstones { kind, cursor, .. }) => {
                let mut all = world.tombstones.clone();
                all.retain(|row| kind.as_ref().is_none_or(|kind| row.key.kind == *kind));
                let (rows, next) = page(&all, cursor, size);
                Page::Tombstones(Paged { rows, next })
            }
            Query::Ladder(_) => Page::Ladder(Box::new(ladder())),
            Query::Orphans(query::Orphans { cursor, .. }) => {
                let (rows, next) = page(&world.orphans, cursor, size);
                Page::Orphans(Paged { rows, next })
            }
            Query::Causes(query::Causes { sites }) => {
                world.causes_sites.lock().unwrap().clone_from(&sites);
                Page::Causes(world.causes.clone())
            }
            Query::Gates(query::Gates {}) => Page::Gates(world.gates.clone()),
            Query::Deployments(query::Deployments {}) => {
                Page::Deployments(world.deployments.clone())
            }
            Query::Reconcilers(query::Reconcilers {}) => {
                Page::Reconcilers(world.reconcilers.clone())
            }
            Query::Engines(query::Engines {}) => Page::Engines(world.engines.clone()),
            Query::Resources(_) => Page::Resources(world.listings.clone()),
            Query::Explain(_) => Page::Explain(Box::new(world.explanation.clone().unwrap())),
            Query::Sites(query::Sites {}) => Page::Sites(world.sites.clone()),
            Query::Kinds(query::Kinds {}) => Page::Kinds(world.kinds.clone()),
            other => panic!("the fake has no answer to {other:?}"),
        })
    }

    async fn events(&self, _after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        let event = self.world.lock().unwrap().new_events.pop_front();
        if event.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(wait_ms)).await;
        }
        Ok(event.into_iter().collect())
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }
}

/// The output of a verb, and how the verb ended.
#[derive(Debug)]
pub struct Outcome {
    pub exit: Exit,
    pub out: String,
    pub err: String,
}

pub struct Runner {
    pub fake: Arc<Fake>,
    pub embedded: bool,
    /// Whether the settings have `[guard] read_only = true`.
    pub read_only: bool,
    pub style: Style,
    pub typed: String,
    pub interrupt: CancellationToken,
}

impl Runner {
    pub fn new(world: World) -> Self {
        Self {
            fake: Fake::new(world),
            embedded: false,
            read_only: false,
            style: Style::default(),
            typed: String::new(),
            interrupt: CancellationToken::new(),
        }
    }

    /// Runs a command line. The session's clock follows tokio's, which most tests pause.
    pub async fn run(&self, line: &str) -> Outcome {
        let mut out = Vec::new();
        let exit = self.run_into(line, &mut out).await;
        let (exit, err) = exit;
        Outcome {
            exit,
            out: String::from_utf8(out).unwrap(),
            err,
        }
    }

    pub async fn run_into(&self, line: &str, out: &mut dyn Write) -> (Exit, String) {
        let words = std::iter::once("gone").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).unwrap();
        let mut err = Vec::new();
        let typed = self.typed.clone();
        let format = cli.global.output;
        let session = Session {
            action_words: String::new(),
            control: self.fake.clone(),
            embedded: self.embedded,
            actor: Actor {
                name: "ada".into(),
                origin: Origin::Cli,
            },
            global: &cli.global,
            read_only: self.read_only || cli.global.read_only,
            clock: Clock::simulated(start(), 1),
            out: Printer::new(out, self.style, format),
            err: Printer::new(&mut err, self.style, format),
            read_line: Arc::new(move || Ok::<_, io::Error>(typed.clone())),
            interrupt: self.interrupt.clone(),
        };
        let exit = match cli.verb.unwrap() {
            Verb::Engine(verb) => cli::run(session, verb).await,
            Verb::Local(Local::Ledger(Ledger {
                work: LedgerWork::Prune(prune),
            })) => cli::run(session, prune).await,
            Verb::Local(_) => panic!("the runner does not run this verb: {line}"),
        };
        (exit, String::from_utf8(err).unwrap())
    }
}

pub async fn run(world: World, line: &str) -> Outcome {
    Runner::new(world).run(line).await
}

pub fn kind(name: &str, aliases: &[&str]) -> KindInfo {
    KindInfo {
        name: KindName::new(name),
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        columns: vec![],
        fields: FieldMeanings::default(),
        has_dependents: true,
        is_counted: true,
    }
}

pub fn site(cloud: &str, region: &str) -> SiteStatus {
    SiteStatus {
        site: Site::region(cloud, region),
        state: SiteState::Reachable,
        reason: String::new(),
        latency_ms: Some(12),
        error_percent: None,
        in_flight: 0,
        concurrency_limit: 8,
        read_only: false,
        as_user: "admin".into(),
        paused_by: None,
        reason_wanted: None,
    }
}

/// An importer with pending clearances, and a deployment that this engine watches and whose answers are stale.
pub fn deployments() -> Vec<DeploymentStatus> {
    let seconds_ago = |seconds| Some(start() - chrono::TimeDelta::seconds(seconds));
    vec![
        DeploymentStatus {
            service: "s0".into(),
            region: "r1".into(),
            name: Some("d0-1".into()),
            watch: None,
            importer: Some(ImporterStatus {
                kinds: vec![KindName::new("network")],
                since: seconds_ago(86_400),
                last_contact_at: seconds_ago(42),
                seq: 5,
                lag: 2,
                pending_clearances: 3,
                reason: "it does not answer".into(),
            }),
        },
        DeploymentStatus {
            service: "s1".into(),
            region: "r1".into(),
            name: Some("d1-1".into()),
            watch: Some(WatchStatus {
                kinds: vec![KindName::new("zone")],
                seq: 7,
                answered_at: seconds_ago(7_300),
                fresh: false,
                reason: "connection refused".into(),
            }),
            importer: None,
        },
    ]
}

pub fn paused_by_hand() -> SitePause {
    SitePause {
        site: Site::region("prod", "one"),
        by: testkit::actor("ada", Origin::Cli),
        reason: "upgrade".into(),
        at: start(),
    }
}

/// The purge ladder of a load balancer that is stuck.
pub fn ladder() -> Ladder {
    Ladder {
        sites: vec![Site::region("prod", "RegionOne")],
        deletion_id: DELETION.to_owned(),
        step_id: Some(7),
        subject: "load balancer api (lb-1) at prod/one".to_owned(),
        confirm: "deadbeef".to_owned(),
        offers: vec![
            offer(
                Rung::Retry,
                None,
                &["DELETE /v2.0/lbaas/loadbalancers/lb-1"],
                "",
            ),
            offer(Rung::Unpin, Some("nothing is known that pins it"), &[], ""),
            offer(
                Rung::Runbook,
                None,
                &["sends nothing: tells what to do"],
                "",
            ),
            offer(
                Rung::Forget,
                None,
                &["sends nothing: abandons it"],
                "lb-1, as an orphan",
            ),
        ],
    }
}

pub fn key(kind: &str, id: &str) -> ResourceKey {
    testkit::key(Site::region("prod", "one"), kind, id)
}

pub fn target(kind: &str, id: &str, name: &str) -> Target {
    Target {
        key: key(kind, id),
        name: name.into(),
    }
}

pub fn plan_step(id: u32, kind: &str, name: &str, depends_on: &[u32]) -> PlanStep {
    PlanStep {
        name: name.into(),
        why: format!("{kind} on network web").into(),
        fingerprint: "f".into(),
        ..testkit::plan_step(id, key(kind, &format!("{kind}-{id}")), depends_on)
    }
}

/// The plan of a network with a subnet, two ports, a DHCP port and a floating IP.
pub fn plan() -> Plan {
    let mut dhcp = plan_step(4, "port", "", &[]);
    dhcp.automatic = true;
    let mut floating = plan_step(5, "floatingip", "203.0.113.9", &[]);
    floating.action = Action::Unset;
    let targets = vec![target("network", "network-3-4fdb1c2d", "web")];
    let steps = vec![
        plan_step(0, "network", "web", &[1, 2, 3]),
        plan_step(1, "subnet", "web-v4", &[2, 3]),
        plan_step(2, "port", "vm-1", &[]),
        plan_step(3, "port", "=cmd|' /C calc'!A0", &[]),
    ];
    let mut plan = Plan {
        options: PlanOptions {
            cascade: true,
            ..PlanOptions::default()
        },
        automatic: vec![dhcp],
        unset: vec![floating],
        warnings: vec!["trunk t1 is disabled and will be enabled first".into()],
        calls_estimate: 9,
        ..testkit::plan(targets, steps)
    };
    plan.hash = gone::domain::plan::plan_hash(&plan);
    plan
}

pub fn blocker() -> Blocker {
    Blocker {
        owner: "ca9eacfc65d3".into(),
        owner_name: "demo".into(),
        since: Some(start()),
        ..Blocker::of(&key("floatingip", "fip-1"), "203.0.113.9")
    }
}

pub fn refusal() -> Refusal {
    Refusal {
        resource: target("port", "port-2", "vm-1"),
        rule: RefusalRule::InUse,
        reason: "a floating IP of another project uses it".into(),
        blocker: Some(blocker()),
        changes: Vec::new(),
    }
}

pub fn deletion(state: DeletionState) -> Deletion {
    let by = testkit::actor("ada", Origin::Cli);
    Deletion {
        targets: vec![target("network", "network-3-4fdb1c2d", "web")],
        reason: "ticket 4711".into(),
        counts: Counts {
            running: u64::from(state == DeletionState::Running),
            gone: 1,
            total: 2,
            ..Counts::default()
        },
        ..testkit::deletion(DELETION, by, state, start())
    }
}

pub fn step(id: i64, kind: &str, state: StepState, depends_on: &[i64]) -> Step {
    let mut step = testkit::step(id, DELETION, key(kind, &format!("{kind}-{id}")), state);
    step.resource.name = format!("{kind}{id}");
    Step {
        depends_on: depends_on.to_vec(),
        attempts: 2,
        project_id: "demo".into(),
        ..step
    }
}

pub fn error(class: ErrorClass) -> StepError {
    StepError {
        status: Some(409),
        request_id: "req-1".into(),
        ..testkit::error(class, "PortInUse", "port is in use", start())
    }
}
