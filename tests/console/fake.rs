//! [`World`] is an engine that answers at once from plain data. [`TestConsole`] is a console that is attached to a
//! world; it records the effects of the console.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use gone::control::{
    Accepted, Command, ControlError, DeploymentStatus, EngineStatus, Explanation, GateStatus,
    GateTraffic, ImporterStatus, KindInfo, NotEligible, Page, Purged, Query, Receipt, Retried,
    SiteCount, SiteListing, SiteState, SiteStatus, Snapshot, WatchStatus, query,
};
use gone::domain::activity::{Reconciler, ReconcilerError, ReconcilerStatus};
use gone::domain::attention::{Cause, CauseGroup};
use gone::domain::engines::{EngineRole, EngineRow};
use gone::domain::filter::{Facts, SearchQuery};
use gone::domain::gantt::{DUE_WITHIN, Gantt, GanttCell, GanttRow, Last, Upcoming, WaitedFor};
use gone::domain::kinds::FieldMeanings;
use gone::domain::ladder::{Ladder, Rung};
use gone::domain::last_day::{DAY, LastDay};
use gone::domain::last_hour::{LastHour, SiteMinute, minute_end};
use gone::domain::model::{
    Action, Actor, Blocker, Counts, Deletion, DeletionState, ErrorClass, Event as LedgerEvent,
    EventKind, KindName, OnFailure, Origin, Orphan, Paged, Phase, Plan, PlanOptions, PlanStep,
    Presence, Refusal, RefusalRule, Resource, ResourceKey, Site, Step, StepError, StepResource,
    StepState, Target, Tombstone,
};
use gone::domain::outline::{self, BY_URGENCY, Branch, BranchRead, Outline, StepPosition};
use gone::domain::peers::{
    AWAITED, ClearanceAnswer, ClearanceRequest, NamedReferrer, PendingClearance, Waits, awaiting,
};
use gone::frontends::console::{
    ConsoleOptions, Effect, EngineMode, Event, Exit, Keymap, NotWritten, State, render_to_text,
    update,
};
use serde_json::{Value, json};
use termina::event::{KeyCode, KeyEvent, Modifiers};

use crate::testkit::{self, offer};

/// Largest number of rows of a page, as in the engine.
const PAGE_ROWS: usize = 500;

/// The time at which the console starts.
pub fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2025, 11, 21, 9, 30, 0).unwrap()
}

fn ago(minutes: i64) -> DateTime<Utc> {
    now() - TimeDelta::minutes(minutes)
}

pub fn site(region: &str) -> Site {
    Site::region("prod", region)
}

pub fn key(kind: &str, id: &str) -> ResourceKey {
    testkit::key(site("RegionOne"), kind, id)
}

/// Returns the `n`th id, a UUID that ends with `n` in hexadecimal.
pub fn id(n: u32) -> String {
    format!("7d444840-9dc0-11d1-b245-{n:012x}")
}

pub fn resource(kind: &str, n: u32, name: &str) -> Resource {
    let id = id(n);
    Resource {
        key: key(kind, &id),
        name: name.to_owned(),
        project_id: "demo".to_owned(),
        tags: vec!["team:web".to_owned()],
        attributes: json!({
            "id": id, "name": name, "status": "ACTIVE", "project_id": "demo",
            "subnets": [format!("subnet-{n}")], "provider": {"segment": 100 + n, "type": "vxlan"},
        }),
    }
}

pub fn project(id: &str, name: &str) -> Resource {
    let mut project = resource("project", 1, name);
    id.clone_into(&mut project.key.id);
    project
}

/// The list of a region, with these rows and no error, made at [`now`].
pub fn listing(region: &str, rows: Vec<Resource>) -> SiteListing {
    SiteListing {
        site: site(region),
        rows,
        error: None,
        class: None,
        names: BTreeMap::new(),
        at: now(),
    }
}

/// An explanation without a deletion, lines, blockers or relations.
pub fn explanation(target: Target) -> Explanation {
    Explanation {
        target,
        deletion: None,
        step: None,
        tombstone: None,
        lines: Vec::new(),
        blockers: Vec::new(),
        refused: Vec::new(),
        next_action: String::new(),
        relations: Vec::new(),
    }
}

pub fn unreachable(message: &str) -> ControlError {
    ControlError::Unreachable {
        message: message.to_owned(),
    }
}

pub fn plan_step(id: u32, kind: &str, name: &str, depends_on: &[u32]) -> PlanStep {
    PlanStep {
        name: name.to_owned(),
        why: format!("{kind} on network web").into(),
        ..testkit::plan_step(id, key(kind, &self::id(100 + id)), depends_on)
    }
}

pub fn plan(targets: Vec<Target>, ports: u32) -> Plan {
    let mut steps = vec![plan_step(0, "router_interface", "gw-web", &[])];
    steps[0].action = Action::Detach;
    steps.push(plan_step(1, "trunk", "tr-1", &[]));
    for n in 0..ports {
        steps.push(plan_step(2 + n, "port", &format!("server-{n}"), &[1]));
    }
    let all: Vec<u32> = (0..2 + ports).collect();
    steps.push(plan_step(2 + ports, "subnet", "web-v4", &all));
    let mut before = all;
    before.push(2 + ports);
    steps.push(plan_step(3 + ports, "network", "web", &before));
    let mut dhcp = plan_step(4 + ports, "port", "", &[]);
    dhcp.automatic = true;
    dhcp.why = "dhcp port on network web".into();
    let mut floating = plan_step(5 + ports, "floating_ip", "203.0.113.9", &[]);
    floating.action = Action::Unset;
    Plan {
        hash: "c0ffee".repeat(10) + "abcd",
        options: PlanOptions {
            cascade: true,
            on_failure: OnFailure::Continue,
            ..PlanOptions::default()
        },
        calls_estimate: u64::from(ports) + 9,
        automatic: vec![dhcp],
        unset: vec![floating],
        warnings: vec!["trunk tr-1 is disabled and is enabled first".to_owned()],
        ..testkit::plan(targets, steps)
    }
}

pub fn blocker() -> Blocker {
    Blocker {
        owner: "ca9eacfc65d3".to_owned(),
        owner_name: "demo".to_owned(),
        since: Some(ago(90)),
        ..Blocker::of(&key("floating_ip", &id(0xb10c)), "203.0.113.9")
    }
}

pub fn target(kind: &str, n: u32, name: &str) -> Target {
    Target {
        key: key(kind, &id(n)),
        name: name.to_owned(),
    }
}

pub fn refusal() -> Refusal {
    Refusal {
        resource: target("port", 42, "server-42"),
        rule: RefusalRule::OtherProject,
        reason: "the floating IP belongs to another project; ask its owner to free it".to_owned(),
        blocker: Some(blocker()),
        changes: Vec::new(),
    }
}

pub fn deletion(n: u32, state: DeletionState, gone: u64, total: u64) -> Deletion {
    let mut counts = Counts {
        gone,
        total,
        ..Counts::default()
    };
    let rest = total - gone;
    match state {
        DeletionState::Running => {
            counts.running = rest.min(8);
            counts.waiting = rest - rest.min(8);
        }
        DeletionState::Stuck => counts.stuck = rest,
        _ => counts.waiting = rest,
    }
    let id = format!("0198f2aa-0000-7000-8000-{n:012x}");
    let by = testkit::actor("alice", Origin::Console);
    Deletion {
        targets: vec![target("network", n, &format!("web-{n}"))],
        reason: "decommissioned".to_owned(),
        counts,
        rate_per_second: match state {
            DeletionState::Running => 2.2,
            _ => 0.0,
        },
        eta_seconds: (state == DeletionState::Running).then_some(185),
        ..testkit::deletion(&id, by, state, ago(i64::from(n) * 7))
    }
}

pub fn step(n: i64, kind: &str, name: &str, state: StepState, depends_on: &[i64]) -> Step {
    let deletion = deletion(1, DeletionState::Running, 0, 1).id;
    let key = key(kind, &id(u32::try_from(n).unwrap() + 500));
    let mut step = testkit::step(n, &deletion, key, state);
    name.clone_into(&mut step.resource.name);
    Step {
        depends_on: depends_on.to_vec(),
        attempts: u32::from(state == StepState::Stuck) * 8 + u32::from(state == StepState::Blocked),
        next_attempt_at: (state == StepState::Blocked).then(|| now() + TimeDelta::minutes(5)),
        blocked_since: matches!(state, StepState::Blocked | StepState::Stuck).then(|| ago(1500)),
        project_id: "demo".to_owned(),
        why: "on network web".to_owned(),
        ..step
    }
}

pub fn error() -> StepError {
    let message = "Unable to complete operation on port: a floating IP is associated.";
    StepError {
        status: Some(409),
        request_id: "req-3f1a0c52-5a64-4d0e-9f6e-0a4b2f8d9c11".to_owned(),
        ..testkit::error(ErrorClass::Blocked, "PortInUse", message, ago(3))
    }
}

/// The steps of one network, its subnet and this many ports.
pub fn steps(ports: i64) -> Vec<Step> {
    let states = [StepState::Gone, StepState::Running, StepState::Waiting];
    let mut steps: Vec<Step> = (1..=ports)
        .map(|n| {
            let state = states[usize::try_from(n % 3).unwrap()];
            step(n, "port", &format!("server-{n}"), state, &[])
        })
        .collect();
    let all: Vec<i64> = (1..=ports).collect();
    steps.push(step(
        ports + 1,
        "subnet",
        "web-v4",
        StepState::Waiting,
        &all,
    ));
    let mut before = all;
    before.push(ports + 1);
    steps.push(step(
        ports + 2,
        "network",
        "web",
        StepState::Waiting,
        &before,
    ));
    steps
}

pub fn event(seq: i64, kind: EventKind, message: &str, data: Value) -> LedgerEvent {
    LedgerEvent {
        seq,
        at: ago(60) + TimeDelta::seconds(seq * 10),
        deletion_id: Some(deletion(1, DeletionState::Running, 0, 1).id),
        step_id: Some(1),
        kind,
        message: message.to_owned(),
        data,
    }
}

pub fn tombstone(n: u32, kind: &str, phase: Phase) -> Tombstone {
    Tombstone {
        record_id: i64::from(n),
        key: key(kind, &id(n)),
        phase,
        deleted_at: Some(now() - TimeDelta::hours(3)),
        gone_at: (phase == Phase::Gone).then(|| now() - TimeDelta::hours(2)),
        incarnation: 1,
        recreated: u32::from(phase == Phase::Gone),
        deletion_id: deletion(1, DeletionState::Running, 0, 1).id,
    }
}

/// A step that is stuck with drift, because two ports appeared after the plan.
pub fn drifted(n: i64, name: &str) -> Step {
    let newcomer = |n: u32, name: &str| Blocker {
        owner: "demo".to_owned(),
        since: Some(now() - TimeDelta::minutes(20)),
        ..Blocker::of(&key("port", &id(n)), name)
    };
    Step {
        blockers: vec![newcomer(700, "late-1"), newcomer(701, "late-2")],
        last_error: Some(StepError {
            class: ErrorClass::Drift,
            ..error()
        }),
        ..step(n, "network", name, StepState::Stuck, &[])
    }
}

/// The data with which the fake engine answers queries and commands.
pub struct World {
    pub snapshot: Snapshot,
    pub kinds: Vec<KindInfo>,
    pub listings: Vec<SiteListing>,
    /// The listed projects. If empty, a list of projects has the rows of `listings`, like that of any other kind.
    pub projects: Vec<Resource>,
    pub plan: Result<Plan, ControlError>,
    pub deletions: Vec<Deletion>,
    pub steps: Vec<Step>,
    pub events: Vec<LedgerEvent>,
    pub orphans: Vec<Orphan>,
    pub gates: Vec<GateStatus>,
    pub deployments: Vec<DeploymentStatus>,
    pub reconcilers: Vec<ReconcilerStatus>,
    pub engines: Vec<EngineRow>,
    pub tombstones: Vec<Tombstone>,
    /// Answers a query in place of this world, unless this function returns `None`.
    pub override_answer: Option<AnswerOverride>,
}

pub type AnswerOverride = Box<dyn Fn(&Query) -> Option<Result<Page, ControlError>> + Send + Sync>;

/// One engine in each role.
fn engines() -> Vec<EngineRow> {
    let roles = [
        ("admin1", EngineRole::Leads, 12),
        ("admin2", EngineRole::Works, 16),
        ("admin3", EngineRole::Drained, 1),
        ("", EngineRole::Idle, 0),
        ("night", EngineRole::Lost, 4),
    ];
    let numbered = (0_u32..).zip(roles);
    let engine = |(n, (name, role, running)): (u32, (&str, EngineRole, u64))| EngineRow {
        name: name.to_owned(),
        role,
        epoch: i64::from(n) + 3,
        host: format!("admin{n}.example"),
        pid: 4_000 + n,
        version: "0.1.0".to_owned(),
        started_at: ago(60),
        renewed_at: Some(now() - TimeDelta::seconds(7)),
        running,
        has_gates: n < 2,
        behind: u64::from(n == 1) * 3,
    };
    numbered.map(engine).collect()
}

/// Reconcilers that run or wait. One failed and waits for its next run, and one failed before its last run.
fn reconcilers() -> Vec<ReconcilerStatus> {
    let seconds_ago = |seconds| now() - TimeDelta::seconds(seconds);
    let waiting = |name| ReconcilerStatus {
        name,
        running: 0,
        subjects: Vec::new(),
        since: ago(60),
        last_run_at: None,
        last_run_ms: None,
        last_error: None,
        next_run_at: None,
    };
    let ran = |name, seconds, ms| ReconcilerStatus {
        last_run_at: Some(seconds_ago(seconds)),
        last_run_ms: Some(ms),
        ..waiting(name)
    };
    let failed = |message: &str, seconds| {
        Some(ReconcilerError {
            message: message.to_owned(),
            at: seconds_ago(seconds),
        })
    };
    vec![
        ReconcilerStatus {
            running: 1,
            subjects: vec!["deletion 1a2b3c4d".to_owned()],
            since: seconds_ago(2),
            ..ran(Reconciler::Planning, 300, 1_240)
        },
        ReconcilerStatus {
            next_run_at: Some(now() + TimeDelta::seconds(55)),
            ..ran(Reconciler::Retry, 5, 2)
        },
        ReconcilerStatus {
            running: 8,
            subjects: ["web-12", "web-13", "web-14"]
                .map(|name| format!("port {name}"))
                .to_vec(),
            since: seconds_ago(40),
            last_error: failed("port web-9: 409, the port is in use", 31),
            ..ran(Reconciler::Dispatch, 1, 40)
        },
        ReconcilerStatus {
            last_error: failed("network at demo/RegionOne: no answer in time", 12),
            next_run_at: Some(now() + TimeDelta::seconds(18)),
            ..ran(Reconciler::Sweep, 12, 30_000)
        },
        waiting(Reconciler::Prune),
    ]
}

/// An importer that is up to date, a deployment that is an importer and an owner and does not answer, and an owner that
/// was never reached.
fn deployments() -> Vec<DeploymentStatus> {
    let row = |service: &str, name: Option<&str>| DeploymentStatus {
        service: service.to_owned(),
        region: "eu-1".to_owned(),
        name: name.map(str::to_owned),
        watch: None,
        importer: None,
    };
    let seconds_ago = |seconds| Some(now() - TimeDelta::seconds(seconds));
    let kinds = |names: &[&str]| names.iter().map(|name| KindName::new(name)).collect();
    let importer = ImporterStatus {
        kinds: kinds(&["network", "floating_ip"]),
        since: Some(ago(60 * 24 * 9)),
        last_contact_at: seconds_ago(12),
        seq: 4_711,
        lag: 0,
        pending_clearances: 0,
        reason: String::new(),
    };
    let unreachable =
        "asking dns-1: POST https://dns-1.example:9443/peer/v1/asks: connection refused";
    vec![
        DeploymentStatus {
            importer: Some(importer.clone()),
            ..row("billing", Some("billing-1"))
        },
        DeploymentStatus {
            watch: Some(WatchStatus {
                kinds: kinds(&["zone"]),
                seq: 88,
                answered_at: seconds_ago(312),
                fresh: false,
                reason: unreachable
                    .replace("asking", "watching")
                    .replace("asks", "watches"),
            }),
            importer: Some(ImporterStatus {
                last_contact_at: seconds_ago(330),
                seq: 4_697,
                lag: 14,
                pending_clearances: 1_203,
                reason: unreachable.to_owned(),
                ..importer
            }),
            ..row("dns", Some("dns-1"))
        },
        DeploymentStatus {
            watch: Some(WatchStatus {
                kinds: kinds(&["volume", "snapshot"]),
                ..WatchStatus::default()
            }),
            ..row("storage", None)
        },
    ]
}

/// A world with a stuck zone. A record set of one deployment still refers to the zone, and is blocked by a lease;
/// another deployment has not answered.
pub fn pending_clearances() -> World {
    let mut zone = step(71, "zone", "example.org", StepState::Stuck, &[]);
    let importer = Site::Deployment {
        name: "d0-1".into(),
    };
    let key = |kind: &str, id: &str| testkit::key(importer.clone(), kind, id);
    let holder = NamedReferrer {
        key: key("record_set", "rs-1"),
        name: "www".to_owned(),
        project_id: String::new(),
        blocks: false,
        root: Some("dns-1/x".to_owned()),
        waits: Waits::default(),
        why: "blocked by lease l1 at d0-1, which this deletion will not remove".to_owned(),
        held_by: vec![Blocker::of(&key("lease", "l1"), "")],
    };
    let request = ClearanceRequest {
        key: zone.resource.key.clone(),
        deletion: None,
        incarnation: 1,
        root: "dns-1/x".to_owned(),
    };
    let pending = |importer: &str, said| PendingClearance {
        importer: importer.to_owned(),
        said,
    };
    let answered = ClearanceAnswer::of(request, vec![holder], 1);
    let (message, blockers) = awaiting(&[pending("d0-1", Some(answered)), pending("d0-2", None)]);
    zone.attempts = 0;
    zone.blockers = blockers;
    zone.last_error = Some(StepError {
        status: None,
        kind: AWAITED.to_owned(),
        message,
        request_id: String::new(),
        ..error()
    });
    let mut world = World::empty();
    world.deletions = vec![deletion(1, DeletionState::Stuck, 0, 1)];
    world.steps = vec![zone];
    world
}

/// A kind with these headings and paths of columns.
pub fn kind(name: &str, columns: &[(&str, &str)]) -> KindInfo {
    let columns = columns
        .iter()
        .map(|(heading, path)| ((*heading).to_owned(), (*path).to_owned()));
    KindInfo {
        name: KindName::new(name),
        aliases: Vec::new(),
        columns: columns.collect(),
        fields: FieldMeanings {
            project: Some("project_id".to_owned()),
            state: Some("status".to_owned()),
            created: Some("created_at".to_owned()),
            refers_to: [("network_id".to_owned(), KindName::new("network"))].into(),
        },
        has_dependents: true,
        is_counted: true,
    }
}

impl World {
    pub fn empty() -> Self {
        let common = [
            ("name", "name"),
            ("id", "id"),
            ("status", "status"),
            ("project", "project_id"),
        ];
        let kinds = [
            ("network", "net"),
            ("floating_ip", "fip"),
            ("load_balancer", "lb"),
        ];
        let kinds = kinds.map(|(name, alias)| KindInfo {
            aliases: vec![alias.to_owned()],
            ..kind(name, &common)
        });
        Self {
            snapshot: Snapshot {
                version: 1,
                at: Some(now()),
                engine: EngineStatus {
                    version: "0.1.0".to_owned(),
                    pid: 4242,
                    ..EngineStatus::default()
                },
                ..Snapshot::default()
            },
            kinds: kinds.to_vec(),
            listings: Vec::new(),
            projects: Vec::new(),
            plan: Ok(plan(vec![target("network", 1, "web")], 2)),
            deletions: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
            orphans: Vec::new(),
            gates: Vec::new(),
            deployments: Vec::new(),
            reconcilers: Vec::new(),
            engines: Vec::new(),
            tombstones: Vec::new(),
            override_answer: None,
        }
    }

    /// A world with rows for most panes, and a deletion under way.
    pub fn busy() -> Self {
        let mut world = Self::empty();
        let status = |region: &str, state, reason: &str, latency_ms| SiteStatus {
            site: site(region),
            state,
            reason: reason.to_owned(),
            latency_ms,
            error_percent: None,
            in_flight: 3,
            concurrency_limit: 16,
            read_only: false,
            as_user: "admin".to_owned(),
            paused_by: None,
            reason_wanted: None,
        };
        let refused_connection = "connection refused by 10.0.0.5:5000";
        world.snapshot.sites = vec![
            status("RegionOne", SiteState::Reachable, "", Some(34)),
            status(
                "RegionTwo",
                SiteState::Unreachable,
                refused_connection,
                None,
            ),
        ];
        let names = ["web", "db", "storage", "edge", "lab"];
        let rows = (1u32..).zip(names);
        let rows = rows.map(|(n, name)| resource("network", n, name));
        world.listings = vec![
            listing("RegionOne", rows.collect()),
            SiteListing {
                error: Some(refused_connection.to_owned()),
                ..listing("RegionTwo", Vec::new())
            },
        ];
        let mut refused = deletion(4, DeletionState::Refused, 0, 0);
        refused.refused = vec![refusal()];
        world.deletions = vec![
            deletion(1, DeletionState::Running, 120, 536),
            deletion(2, DeletionState::Gone, 12, 12),
            deletion(3, DeletionState::Stuck, 40, 41),
            refused,
        ];
        world.steps = steps(12);
        let mut stuck = step(90, "load_balancer", "lb-shop", StepState::Stuck, &[]);
        stuck.last_error = Some(StepError {
            kind: "Conflict".to_owned(),
            message: "Load Balancer is immutable and cannot be updated.".to_owned(),
            ..error()
        });
        let mut blocked = step(91, "port", "server-42", StepState::Blocked, &[]);
        blocked.blockers = vec![blocker()];
        blocked.last_error = Some(error());
        world.steps.push(stuck);
        world.steps.push(blocked);
        let attempt = |n: i64, message: &str| {
            let request = format!("req-3f1a0c52-5a64-4d0e-9f6e-{n:012x}");
            let data = json!({"attempts": n, "status": 409, "request_id": request});
            event(n + 1, EventKind::Attempt, message, data)
        };
        let orphan = |step_id: i64, name: &str, there| Orphan {
            resource: StepResource {
                key: key("port", &id(u32::try_from(step_id).unwrap() + 500)),
                name: name.to_owned(),
            },
            project_id: "demo".to_owned(),
            since: ago(600),
            why: "Port is in use by a device nobody knows.".to_owned(),
            deletion_id: deletion(3, DeletionState::Stuck, 40, 41).id,
            step_id,
            there,
        };
        world.tombstones = vec![tombstone(11, "network", Phase::Deleting)];
        world.gates = ["user", "local"]
            .into_iter()
            .zip([9696_u16, 9697])
            .map(|(source, port)| GateStatus {
                listen: format!("127.0.0.1:{port}"),
                source: source.into(),
                site: site("RegionOne"),
                service: "network".into(),
                traffic: GateTraffic {
                    requests: 12_345,
                    hidden: u64::from(port) - 9_600,
                    deleting: if source == "user" { 61 } else { 0 },
                    refused: 7,
                    accepted: if source == "user" { 3 } else { 0 },
                    failed: 0,
                },
            })
            .collect();
        world.deployments = deployments();
        world.reconcilers = reconcilers();
        world.engines = engines();
        world.orphans = vec![
            orphan(92, "old-1", Presence::Present),
            orphan(93, "old-2", Presence::Absent),
            orphan(94, "", Presence::Unclear),
        ];
        world.events = vec![
            event(
                1,
                EventKind::DeletionAccepted,
                "asked for by alice",
                json!({}),
            ),
            attempt(1, "409 PortInUse: a floating IP is associated"),
            attempt(2, "409 PortInUse: a floating IP is associated"),
            event(
                4,
                EventKind::StepState,
                "port server-1 is blocked",
                json!({"state": "blocked"}),
            ),
            event(
                5,
                EventKind::NeedsPerson,
                "load balancer lb-shop is stuck",
                json!({}),
            ),
        ];
        world.snapshot.steps = Counts {
            stuck: 1,
            blocked: 3,
            running: 8,
            waiting: 408,
            gone: 120,
            total: 540,
            ..Counts::default()
        };
        world.snapshot.deletions_by_state = BTreeMap::from([("refused".to_owned(), 1)]);
        world.snapshot.deletions = vec![world.deletions[0].clone()];
        world.snapshot.rate_per_second = 4.2;
        world.snapshot.last_event = 5;
        world
    }

    /// Answers a query from the data of this world. An unknown id and a query without data are `NotFound`.
    pub fn answer(&self, query: &Query) -> Result<Page, ControlError> {
        if let Some(answer) = self.override_answer.as_ref().and_then(|over| over(query)) {
            return answer;
        }
        let missing = || ControlError::NotFound {
            message: "there is no such thing here".to_owned(),
        };
        let find = |id: &str| self.deletions.iter().find(|d| d.id == *id);
        Ok(match query {
            Query::Kinds(query::Kinds {}) => Page::Kinds(self.kinds.clone()),
            Query::Resources(query::Resources { kind, .. })
                if kind == "project" && !self.projects.is_empty() =>
            {
                let mut listing = self.listings[0].clone();
                listing.rows = self.projects.clone();
                Page::Resources(vec![listing])
            }
            Query::Resources(_) => Page::Resources(self.listings.clone()),
            Query::ResourceCounts(query::ResourceCounts { kind }) => {
                let counts = self.listings.iter().map(|listing| {
                    let rows = listing.rows.iter();
                    let rows = rows.filter(|row| row.key.kind.as_str() == kind);
                    SiteCount {
                        site: listing.site.clone(),
                        resources: listing.error.is_none().then_some(rows.count() as u64),
                        error: listing.error.clone(),
                        at: listing.at,
                    }
                });
                Page::ResourceCounts(counts.collect())
            }
            Query::Deletions(query::Deletions { states, .. }) => {
                let rows = self.deletions.iter();
                let rows = rows.filter(|d| states.is_empty() || states.contains(&d.state));
                Page::Deletions(Paged {
                    rows: rows.cloned().collect(),
                    next: None,
                })
            }
            Query::Deletion(query::Deletion { id }) => {
                Page::Deletion(Box::new(find(id).ok_or_else(missing)?.clone()))
            }
            Query::Steps(query::Steps {
                states,
                cursor,
                deletion_id,
                cause,
                filter,
                ..
            }) => {
                let filter = SearchQuery::parse(filter);
                let from: usize = cursor.as_deref().map_or(0, |c| c.parse().unwrap());
                let rows = self
                    .steps
                    .iter()
                    .filter(|s| states.is_empty() || states.contains(&s.state))
                    .filter(|s| cause.is_none() || Cause::of(s) == *cause)
                    .filter(|s| fits(&filter, s))
                    .filter(|s| deletion_id.is_none() || is_of_deletion(s));
                let rows: Vec<Step> = rows.skip(from).take(PAGE_ROWS + 1).cloned().collect();
                let next = (rows.len() > PAGE_ROWS).then(|| (from + PAGE_ROWS).to_string());
                Page::Steps(Paged {
                    rows: rows.into_iter().take(PAGE_ROWS).collect(),
                    next,
                })
            }
            Query::StepCount(query::StepCount {
                deletion_id,
                states,
                filter,
                ..
            }) => {
                let filter = SearchQuery::parse(filter);
                let fitting = self
                    .steps
                    .iter()
                    .filter(|s| states.is_empty() || states.contains(&s.state))
                    .filter(|s| fits(&filter, s))
                    .filter(|s| deletion_id.is_none() || is_of_deletion(s));
                Page::StepCount(query::Counted {
                    steps: fitting.count() as u64,
                    next: None,
                })
            }
            Query::Outline(query::Outline { below, .. }) => Page::Outline(self.outline(below)),
            Query::BranchSteps(query::BranchSteps {
                branch,
                from,
                limit,
                ..
            }) => {
                let (_, members) = self.tree();
                let rows = members[usize::try_from(*branch).unwrap()].iter();
                let from = usize::try_from(*from).unwrap();
                Page::BranchSteps(rows.skip(from).take(*limit).map(|s| (*s).clone()).collect())
            }
            Query::Step(query::Step { id }) => Page::Step(Box::new(
                self.steps
                    .iter()
                    .find(|s| s.id == *id)
                    .ok_or_else(missing)?
                    .clone(),
            )),
            Query::Timeline(query::Timeline { after, .. }) => Page::Timeline(
                self.events
                    .iter()
                    .filter(|e| e.seq > *after)
                    .cloned()
                    .collect(),
            ),
            Query::Explain(query::Explain { target }) => Page::Explain(Box::new(Explanation {
                lines: vec![
                    "no deletion is at it".to_owned(),
                    "a deletion with its cascade would take 6 steps".to_owned(),
                ],
                blockers: vec![blocker()],
                next_action: "free the floating IP, or ask its owner".to_owned(),
                ..explanation(Target {
                    key: key(&target.kind, &target.id_or_name),
                    name: "web".to_owned(),
                })
            })),
            Query::Ladder(_) => Page::Ladder(Box::new(ladder())),
            Query::Orphans(_) => Page::Orphans(Paged {
                rows: self.orphans.clone(),
                next: None,
            }),
            Query::Chart(query::Chart { deletion_id, .. }) => {
                Page::Chart(match find(deletion_id).ok_or_else(missing)?.counts.total {
                    0 => Gantt {
                        rows: Vec::new(),
                        ..gantt()
                    },
                    _ => gantt(),
                })
            }
            Query::Upcoming(query::Upcoming {}) => Page::Upcoming(self.upcoming()),
            Query::LastHour(query::LastHour {}) => Page::LastHour(last_hour()),
            Query::LastDay(query::LastDay {}) => Page::LastDay(self.last_day()),
            Query::Causes(_) => Page::Causes(self.causes()),
            Query::Gates(query::Gates {}) => Page::Gates(self.gates.clone()),
            Query::Deployments(query::Deployments {}) => {
                Page::Deployments(self.deployments.clone())
            }
            Query::Reconcilers(query::Reconcilers {}) => {
                Page::Reconcilers(self.reconcilers.clone())
            }
            Query::Engines(query::Engines {}) => Page::Engines(self.engines.clone()),
            Query::Tombstones(query::Tombstones { cursor, .. }) => {
                let from: usize = cursor.as_deref().map_or(0, |c| c.parse().unwrap());
                let rows = self.tombstones.iter().skip(from).take(PAGE_ROWS);
                let next = from + PAGE_ROWS;
                Page::Tombstones(Paged {
                    rows: rows.cloned().collect(),
                    next: (next < self.tombstones.len()).then(|| next.to_string()),
                })
            }
            Query::TombstonesOf(query::TombstonesOf { keys }) => {
                let of_these = self.tombstones.iter().filter(|it| keys.contains(&it.key));
                Page::TombstonesOf(of_these.cloned().collect())
            }
            Query::FrozenPlan(_) => {
                Page::FrozenPlan(Arc::new(self.plan.clone().map_err(|_| missing())?))
            }
            _ => return Err(missing()),
        })
    }

    /// Returns the branches of the tree of deletion 1, and the steps of each branch in the order of their rows.
    fn tree(&self) -> (Vec<Branch>, Vec<Vec<&Step>>) {
        let steps: Vec<&Step> = self.steps.iter().filter(|s| is_of_deletion(s)).collect();
        let positions: HashMap<i64, u32> = steps.iter().map(|s| s.id).zip(0..).collect();
        let planned: Vec<PlanStep> = (0..)
            .zip(&steps)
            .map(|(at, s)| {
                let before = s
                    .depends_on
                    .iter()
                    .filter_map(|id| positions.get(id).copied());
                PlanStep {
                    action: s.action,
                    site: s.resource.key.site.clone(),
                    ..plan_step(
                        at,
                        s.resource.key.kind.as_str(),
                        "",
                        &before.collect::<Vec<_>>(),
                    )
                }
            })
            .collect();
        let mut tree = outline::build_tree(&planned);
        let mut members = vec![Vec::new(); tree.branches.len()];
        for (step, branch) in steps.iter().zip(&tree.branch_of) {
            members[*branch as usize].push(*step);
        }
        for (branch, members) in tree.branches.iter_mut().zip(&mut members) {
            let below = branch
                .below
                .map(|at| steps[usize::try_from(at).unwrap()].id);
            branch.below = below;
            members
                .iter()
                .for_each(|s| *branch.counts.of_mut(s.state) += 1);
            if branch.counts.total >= outline::FOLD_FROM {
                let urgency = |s: &Step| BY_URGENCY.iter().position(|it| *it == s.state);
                members.sort_by_key(|s| urgency(s));
            }
        }
        (tree.branches, members)
    }

    fn outline(&self, below: &[Option<i64>]) -> Outline {
        let (branches, members) = self.tree();
        let mut outline = Outline::default();
        for (branch, members) in branches.iter().zip(&members) {
            let is_long = branch.counts.total >= outline::FOLD_FROM;
            if below.contains(&branch.below) {
                let steps = members.iter().filter(|_| !is_long);
                outline.branches.push(BranchRead {
                    branch: branch.clone(),
                    steps: steps.map(|s| (*s).clone()).collect(),
                });
            }
            let places = (0..).zip(members);
            let places = places.filter(|(_, s)| is_long && below.contains(&Some(s.id)));
            outline
                .places
                .extend(places.map(|(index, step)| StepPosition {
                    branch: branch.id,
                    index,
                    step: (*step).clone(),
                }));
        }
        outline
    }

    fn last_day(&self) -> LastDay {
        let has_ended = |it: &&Deletion| {
            let ended = it.finished_at.is_some_and(|at| at > now() - DAY);
            ended && it.state != DeletionState::Stuck
        };
        let mut day = LastDay::default();
        for deletion in self.deletions.iter().filter(has_ended) {
            day.deletions += 1;
            day.gone += deletion.counts.gone;
        }
        day
    }

    fn upcoming(&self) -> Upcoming {
        let blocked = self
            .steps
            .iter()
            .filter(|step| step.state == StepState::Blocked);
        let mut columns = vec![0; DUE_WITHIN.len() + 1];
        columns[3] = 40 * blocked.clone().count() as u64;
        columns[7] = blocked.clone().count() as u64;
        Upcoming {
            at: now(),
            now: blocked.clone().count() as u64,
            columns,
            next: blocked.map(|_| now() + TimeDelta::seconds(90)).next(),
        }
    }

    /// Returns the receipt for a command. The command changes nothing.
    pub fn receipt(&self, command: &Command) -> Result<Receipt, ControlError> {
        match command {
            Command::Plan { options, .. } => self.plan.clone().map(|mut plan| {
                plan.options.include_public = options.include_public;
                plan.options.with_project = options.with_project;
                plan.options.with_servers = options.with_servers;
                Receipt::Planned {
                    plan: Arc::new(plan),
                }
            }),
            Command::DeletePlan { .. } => Ok(Receipt::Accepted(Accepted {
                deletion_id: deletion(1, DeletionState::Running, 0, 1).id,
                existing: false,
            })),
            Command::Purge { rung, .. } => Ok(Receipt::Purged(Purged {
                rung: *rung,
                moved: 1,
                deletion_id: None,
                runbook: (*rung == Rung::Runbook).then(|| "1. Look at the log.\n".to_owned()),
            })),
            Command::RetryMatching { filter, dry_run } => {
                let fits = self.steps.iter().filter(|step| filter.fits(step));
                let all = fits.count() as u64;
                // One of the steps is protected.
                let eligible = all.saturating_sub(1);
                Ok(Receipt::Bulk(Retried {
                    eligible,
                    not_eligible: vec![NotEligible {
                        reason: "protected: name keep-*".to_owned(),
                        steps: all - eligible,
                    }],
                    moved: if *dry_run { 0 } else { eligible },
                }))
            }
            Command::Pause { .. } | Command::Resume { .. } => Ok(Receipt::Done { moved: 0 }),
            _ => Ok(Receipt::Done { moved: 1 }),
        }
    }

    fn causes(&self) -> Vec<CauseGroup> {
        let mut all: Vec<CauseGroup> = Vec::new();
        for step in &self.steps {
            let Some(cause) = Cause::of(step) else {
                continue;
            };
            if let Some(known) = all.iter_mut().find(|it| it.cause == cause) {
                known.steps += 1;
                continue;
            }
            let error = step.last_error.as_ref();
            all.push(CauseGroup {
                cause,
                steps: 1,
                since: step.blocked_since.unwrap_or(now()),
                message: error.map_or_else(String::new, |error| error.message.clone()),
            });
        }
        all.sort_by_key(|it| std::cmp::Reverse(it.steps));
        all
    }
}

/// Whether a step belongs to deletion 1. The steps 90 to 99 belong to other deletions.
fn is_of_deletion(step: &Step) -> bool {
    !(90..100).contains(&step.id)
}

fn fits(filter: &SearchQuery, step: &Step) -> bool {
    let resource = &step.resource;
    let site = resource.key.site.to_string();
    filter.fits(&Facts {
        texts: &[&resource.name, &resource.key.id, step.action.as_str()],
        state: step.state.as_str(),
        kind: resource.key.kind.as_str(),
        site: &site,
        project: &step.project_id,
        since: step.blocked_since,
    })
}

fn last_hour() -> LastHour {
    let minute = |(minute, calls, refused)| SiteMinute {
        site: site("RegionOne"),
        minute,
        calls,
        refused,
    };
    let counted = [
        (49, 72, 0),
        (50, 91, 1),
        (51, 90, 0),
        (52, 90, 0),
        (53, 18, 0),
        (54, 1, 1),
    ];
    LastHour {
        until: minute_end(now()),
        minutes: counted.map(minute).into(),
    }
}

/// The chart of a deletion: the ports are gone, the router interface was refused twice, and the network waits.
pub fn gantt() -> Gantt {
    let cell = |column, sent, refused, ended| GanttCell {
        column,
        sent,
        refused,
        ended,
    };
    let row = |kind: &str, action, (ended, steps), cells: Vec<GanttCell>, last| GanttRow {
        site: site("RegionOne"),
        kind: KindName::new(kind),
        action,
        steps,
        ended,
        cells,
        last,
    };
    let last =
        |name: &str, ended: Option<i64>, waited_for: Option<(&str, &str, Option<i64>)>| Last {
            name: name.to_owned(),
            ended_at: ended.map(ago),
            waited_for: waited_for.map(|(kind, name, ended)| WaitedFor {
                kind: KindName::new(kind),
                name: name.to_owned(),
                ended_at: ended.map(ago),
            }),
        };
    let busy = (0..40)
        .map(|n| cell(n * 4 + 8, 9, 0, u64::from(n % 3)))
        .collect();
    let refused = vec![cell(40, 1, 1, 0), cell(200, 1, 1, 0)];
    Gantt {
        from: ago(10),
        until: now(),
        columns: 400,
        rows: vec![
            row(
                "port",
                Action::Delete,
                (120, 120),
                busy,
                last("web-p119", Some(6), None),
            ),
            row(
                "router_interface",
                Action::Detach,
                (0, 1),
                refused,
                last("r1", None, Some(("port", "web-p119", Some(6)))),
            ),
            row(
                "network",
                Action::Delete,
                (0, 1),
                Vec::new(),
                last("web", None, Some(("router_interface", "r1", None))),
            ),
        ],
    }
}

/// The ladder of a load balancer that has been PENDING_DELETE for a long time.
fn ladder() -> Ladder {
    let call = "DELETE /v2.0/lbaas/loadbalancers/lb-1?cascade=true";
    let forgets = "sends nothing: the engine abandons the step";
    Ladder {
        sites: vec![site("RegionOne")],
        deletion_id: "d-00000001".to_owned(),
        step_id: Some(1),
        subject: "load balancer lb-shop (lb-1) at prod/RegionOne".to_owned(),
        confirm: "00000001".to_owned(),
        offers: vec![
            offer(Rung::Retry, None, &[call], ""),
            offer(Rung::Unpin, Some("nothing is known that pins it"), &[], ""),
            offer(
                Rung::Runbook,
                None,
                &["sends nothing: tells what to do by hand"],
                "",
            ),
            offer(Rung::Forget, None, &[forgets], "lb-shop, as an orphan"),
        ],
    }
}

/// A console, and the engine that answers it.
pub struct TestConsole {
    pub state: State,
    pub world: World,
    /// The commands that were sent, oldest first.
    pub sent: Vec<Command>,
    /// The queries that were sent, oldest first.
    pub queries: Vec<Query>,
    /// The texts that were copied to the clipboard.
    pub copied: Vec<String>,
    /// The texts of the alerts.
    pub alerts: Vec<String>,
    /// The names and values of the views and columns that were saved in the settings.
    pub saved: Vec<(String, String)>,
    /// The result of saving settings.
    pub save_result: Result<(), String>,
    /// The files that a report would replace.
    pub existing_files: Vec<PathBuf>,
    /// The result of writing a report.
    pub write_result: Result<(), String>,
    /// The file of each requested report, and whether it may replace an existing file.
    pub reports: Vec<(PathBuf, bool)>,
    pub exits: Vec<Exit>,
    pub now: DateTime<Utc>,
    /// The ticket of the pending request for events, and the sequence number after which events are requested. The test
    /// answers the request with [`Self::deliver_events`] or [`Self::fail_events`].
    pub event_request: Option<(u64, i64)>,
    /// Whether a guarded screen counts as painted after each event. Keys are ignored until a guarded screen is painted.
    pub paints_frames: bool,
    /// Whether queries are answered at once. Otherwise [`Self::answer_withheld`] answers them.
    pub answers_queries: bool,
    /// Returns true for a query that is not answered at once, as if a cloud were slow.
    pub withholds: fn(&Query) -> bool,
    /// Whether commands are answered at once. Otherwise [`Self::answer_command`] answers them.
    pub answers_commands: bool,
    /// Whether effects that come together are performed in reverse order, so that the last query is answered first.
    pub answers_last_first: bool,
    /// The commands that were not answered yet, with their tickets, oldest first.
    pub unanswered_commands: Vec<(u64, Command)>,
    /// The tickets of the withheld queries, and their answers as of the time of the query.
    pub withheld_answers: Vec<(u64, Result<Page, ControlError>)>,
    /// The reason of each sent command.
    pub reasons: Vec<String>,
    pub size: (u16, u16),
}

pub fn options() -> ConsoleOptions {
    ConsoleOptions {
        low_bandwidth: false,
        theme: gone::system::config::Theme::Terminal,
        accent: BTreeMap::new(),
        mouse: false,
        alert: gone::system::config::Alert::Off,
        keys: Keymap::default(),
        ascii: false,
        no_color: false,
        actor: Actor {
            name: "alice".to_owned(),
            origin: Origin::Console,
        },
        // Most tests start with the deletions; those in `home.rs` start with the first screen.
        start: Some("deletions".to_owned()),
        views: BTreeMap::new(),
        columns: BTreeMap::new(),
        settings_file: None,
        last_view: None,
        practice: None,
        tour: false,
        replay: None,
        engine: EngineMode::Attached,
    }
}

/// The options of a console that runs the engine in its own process.
pub fn embedded() -> ConsoleOptions {
    ConsoleOptions {
        engine: EngineMode::Embedded,
        ..options()
    }
}

impl TestConsole {
    /// A console of 80x24 that is attached to [`World::busy`], after these keys.
    pub fn busy(keys: &str) -> Self {
        Self::new(World::busy(), (80, 24)).after(keys)
    }

    /// Presses these keys, as [`Self::press`] does.
    pub fn after(mut self, keys: &str) -> Self {
        self.press(keys);
        self
    }

    pub fn new(world: World, size: (u16, u16)) -> Self {
        Self::with(world, size, options())
    }

    pub fn with(world: World, size: (u16, u16), options: ConsoleOptions) -> Self {
        let snapshot = Arc::new(world.snapshot.clone());
        let (state, effects) = State::new(options, snapshot, now(), size);
        let mut console = Self {
            state,
            world,
            sent: Vec::new(),
            queries: Vec::new(),
            copied: Vec::new(),
            alerts: Vec::new(),
            saved: Vec::new(),
            save_result: Ok(()),
            existing_files: Vec::new(),
            write_result: Ok(()),
            reports: Vec::new(),
            exits: Vec::new(),
            now: now(),
            event_request: None,
            paints_frames: true,
            answers_queries: true,
            withholds: |_| false,
            answers_commands: true,
            answers_last_first: false,
            reasons: Vec::new(),
            unanswered_commands: Vec::new(),
            withheld_answers: Vec::new(),
            size,
        };
        console.perform(effects);
        console
    }

    /// Passes an event to the console, and performs the effects that the console returns.
    pub fn handle(&mut self, event: Event) {
        if let Event::Resize(columns, rows) = event {
            self.size = (columns, rows);
        }
        let effects = update(&mut self.state, event);
        self.perform(effects);
        if self.paints_frames && self.state.is_guarded() {
            update(&mut self.state, Event::GuardPainted);
        }
    }

    fn perform(&mut self, mut effects: Vec<Effect>) {
        if self.answers_last_first {
            effects.reverse();
        }
        for effect in effects {
            match effect {
                Effect::Query(ticket, query) => {
                    let answer = self.world.answer(&query);
                    let is_withheld = !self.answers_queries || (self.withholds)(&query);
                    self.queries.push(query);
                    if is_withheld {
                        self.withheld_answers.push((ticket, answer));
                        continue;
                    }
                    self.handle(Event::Answer(ticket, answer, self.now));
                }
                Effect::Submit {
                    ticket,
                    command,
                    reason,
                } => {
                    self.sent.push(command.clone());
                    self.reasons.push(reason);
                    if self.answers_commands {
                        self.answer_command(ticket, &command);
                    } else {
                        self.unanswered_commands.push((ticket, command));
                    }
                }
                Effect::Follow(ticket, after) => self.event_request = Some((ticket, after)),
                Effect::Copy(text) => self.copied.push(text),
                Effect::Alert(text) => self.alerts.push(text),
                Effect::Quit(exit) => self.exits.push(exit),
                Effect::Save(_, choice) => {
                    let value = choice.value.clone().unwrap_or_default();
                    self.saved.push((choice.name.clone(), value));
                    let result = self.save_result.clone();
                    self.handle(Event::Saved(choice, result));
                }
                Effect::WriteReport { report, replaces } => {
                    let exists = self.existing_files.contains(&report.file) && !replaces;
                    let result = match (exists, &self.write_result) {
                        (true, _) => Err(NotWritten::Exists),
                        (false, Ok(())) => Ok(()),
                        (false, Err(why)) => Err(NotWritten::Failed(why.clone())),
                    };
                    self.reports.push((report.file.clone(), replaces));
                    self.handle(Event::ReportWritten(report, result));
                }
                Effect::Suspend | Effect::Repaint => {}
            }
        }
    }

    /// Answers a command with the receipt of the world.
    pub fn answer_command(&mut self, ticket: u64, command: &Command) {
        self.receive(ticket, self.world.receipt(command));
    }

    /// Answers the command that was sent last.
    pub fn answer_last_command(&mut self) {
        let (ticket, command) = self.unanswered_commands.pop().unwrap();
        self.answer_command(ticket, &command);
    }

    /// Delivers the receipt of a command.
    pub fn receive(&mut self, ticket: u64, receipt: Result<Receipt, ControlError>) {
        self.handle(Event::Receipt(ticket, receipt, self.now));
    }

    /// Answers the pending request for events with the events so far.
    pub fn deliver_events(&mut self) {
        let (ticket, after) = self.event_request.take().unwrap();
        let events = self.world.events.iter();
        let events = events.filter(|e| e.seq > after).cloned().collect();
        self.handle(Event::Followed(ticket, Ok(events)));
    }

    /// Answers the pending request for events with an error.
    pub fn fail_events(&mut self, error: ControlError) {
        let (ticket, _) = self.event_request.take().unwrap();
        let events = Err(error);
        self.handle(Event::Followed(ticket, events));
    }

    /// Delivers the withheld answers after this many seconds.
    pub fn answer_withheld(&mut self, seconds: i64) {
        self.now += TimeDelta::seconds(seconds);
        for (ticket, answer) in std::mem::take(&mut self.withheld_answers) {
            self.handle(Event::Answer(ticket, answer, self.now));
        }
    }

    /// Lets this many seconds pass, with a tick for each if the console wants ticks.
    pub fn advance(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += TimeDelta::seconds(1);
            if self.state.wants_tick() {
                self.handle(Event::Tick(self.now));
            }
        }
    }

    /// Publishes the snapshot of the engine after six seconds.
    pub fn publish(&mut self) {
        self.now += TimeDelta::seconds(6);
        self.world.snapshot.version += 1;
        let snapshot = Arc::new(self.world.snapshot.clone());
        self.handle(Event::Snapshot(snapshot, self.now));
    }

    /// Presses keys, separated by spaces: each word is the name of a key, or is typed letter by letter.
    /// `:stuck enter` types a command line.
    pub fn press(&mut self, keys: &str) {
        for word in keys.split_whitespace() {
            for key in named(word) {
                self.handle(Event::Key(key));
            }
        }
    }

    /// Types a line, with its spaces, and presses enter.
    pub fn type_line(&mut self, line: &str) {
        for c in line.chars() {
            self.handle(Event::Key(KeyEvent::new(KeyCode::Char(c), Modifiers::NONE)));
        }
        self.press("enter");
    }

    /// Returns the screen as text.
    pub fn text(&self) -> String {
        render_to_text(&self.state, self.size.0, self.size.1)
    }

    /// Returns the first line of the screen that has this text.
    #[track_caller]
    pub fn line(&self, text: &str) -> String {
        let screen = self.text();
        let line = screen.lines().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("no {text:?} in\n{screen}"))
            .to_owned()
    }

    /// Returns the row under the cursor.
    #[track_caller]
    pub fn row(&self) -> String {
        let screen = self.text();
        let row = screen.lines().find(|line| line.starts_with('>'));
        row.unwrap_or_else(|| panic!("no cursor in\n{screen}"))
            .to_owned()
    }

    /// Number of the sent queries for which `is_counted` returns true.
    pub fn count(&self, is_counted: impl Fn(&Query) -> bool) -> usize {
        self.queries.iter().filter(|it| is_counted(it)).count()
    }

    /// Panics unless the screen shows each of these texts.
    #[track_caller]
    pub fn assert_shows(&self, texts: impl IntoIterator<Item = impl AsRef<str>>) {
        let screen = self.text();
        for text in texts {
            let text = text.as_ref();
            assert!(screen.contains(text), "no {text:?} in\n{screen}");
        }
    }

    /// Panics if the screen shows one of these texts.
    #[track_caller]
    pub fn assert_hides(&self, texts: impl IntoIterator<Item = impl AsRef<str>>) {
        let screen = self.text();
        for text in texts {
            let text = text.as_ref();
            assert!(!screen.contains(text), "{text:?} in\n{screen}");
        }
    }

    /// Returns the sent commands that change anything.
    pub fn changes(&self) -> Vec<&Command> {
        let changes = |c: &&Command| {
            !matches!(
                c,
                Command::Plan { .. } | Command::RetryMatching { dry_run: true, .. }
            )
        };
        self.sent.iter().filter(changes).collect()
    }
}

fn named(word: &str) -> Vec<KeyEvent> {
    let plain = |code| vec![KeyEvent::new(code, Modifiers::NONE)];
    if let Some(letter) = word.strip_prefix("ctrl-") {
        let code = KeyCode::Char(letter.chars().next().unwrap());
        return vec![KeyEvent::new(code, Modifiers::CONTROL)];
    }
    match word {
        "enter" => plain(KeyCode::Enter),
        "esc" => plain(KeyCode::Escape),
        "space" => plain(KeyCode::Char(' ')),
        "tab" => plain(KeyCode::Tab),
        "delete" => plain(KeyCode::Delete),
        "backspace" => plain(KeyCode::Backspace),
        "up" => plain(KeyCode::Up),
        "down" => plain(KeyCode::Down),
        "left" => plain(KeyCode::Left),
        "right" => plain(KeyCode::Right),
        "end" => plain(KeyCode::End),
        "home" => plain(KeyCode::Home),
        "pgdn" => plain(KeyCode::PageDown),
        "pgup" => plain(KeyCode::PageUp),
        word => word
            .chars()
            .map(|c| KeyEvent::new(KeyCode::Char(c), Modifiers::NONE))
            .collect(),
    }
}
