//! A sample of each command, query, receipt, page and error of the control.

use gone::control::{Accepted, Purged, query};
use gone::domain::model::Paged;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeZone, Utc};
use gone::control::*;
use gone::domain::activity::{Reconciler, ReconcilerError, ReconcilerStatus};
use gone::domain::attention::{Cause, CauseGroup};
use gone::domain::engines::{EngineRole, EngineRow};
use gone::domain::gantt::{Gantt, GanttCell, GanttRow, Last, Upcoming, WaitedFor};
use gone::domain::kinds::FieldMeanings;
use gone::domain::ladder::{Ladder, PurgeScope, Rung};
use gone::domain::last_day::LastDay;
use gone::domain::last_hour::{LastHour, SiteMinute};
use gone::domain::model::*;
use gone::domain::notification::{CursorPosition, NotificationCursor};
use gone::domain::outline::{Branch, BranchRead, Outline, StepPosition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::testkit;

pub fn noon() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 2, 12, 0, 0).unwrap()
}

pub fn site() -> Site {
    Site::region("prod", "RegionOne")
}

pub fn key(kind: &str, id: &str) -> ResourceKey {
    testkit::key(site(), kind, id)
}

pub fn target(kind: &str, id: &str) -> Target {
    Target {
        key: key(kind, id),
        name: format!("{id}-name"),
    }
}

pub fn actor() -> Actor {
    testkit::actor("alice", Origin::Console)
}

pub fn blocker() -> Blocker {
    Blocker {
        owner: "other".into(),
        owner_name: "demo".into(),
        since: Some(noon()),
        ..Blocker::of(&key("port", "p9"), "\u{1b}[31mhostile")
    }
}

pub fn refusal(rule: RefusalRule) -> Refusal {
    Refusal {
        resource: target("network", "n1"),
        rule,
        reason: "network n1 is in use by port p9".into(),
        blocker: Some(blocker()),
        changes: Vec::new(),
    }
}

pub fn deletion(id: &str) -> Deletion {
    Deletion {
        targets: vec![target("network", "n1")],
        reason: "ticket 7".into(),
        options: PlanOptions {
            cascade: true,
            ..PlanOptions::default()
        },
        plan_hash: Some("abc".into()),
        counts: Counts {
            gone: 1,
            stuck: 1,
            total: 2,
            ..Counts::default()
        },
        rate_per_second: 1.5,
        eta_seconds: Some(30),
        next_attempt_at: Some(noon()),
        deadline: Some(noon()),
        ..testkit::deletion(id, actor(), DeletionState::Running, noon())
    }
}

pub fn step(id: i64, kind: &str, depends_on: &[i64], state: StepState) -> Step {
    let message = "There are one or more ports still in use";
    let mut step = testkit::step(id, "d1", key(kind, &format!("{kind}-{id}")), state);
    step.resource.name = format!("name-{id}");
    Step {
        depends_on: depends_on.to_vec(),
        attempts: 2,
        next_attempt_at: Some(noon()),
        blockers: vec![blocker()],
        last_error: Some(StepError {
            status: Some(409),
            request_id: "req-1".into(),
            ..testkit::error(ErrorClass::Blocked, "NetworkInUse", message, noon())
        }),
        project_id: "proj".into(),
        why: "target".into(),
        ..step
    }
}

pub fn tombstone() -> Tombstone {
    Tombstone {
        record_id: 1,
        key: key("network", "n1"),
        phase: Phase::Deleting,
        deleted_at: Some(noon()),
        gone_at: None,
        incarnation: 1,
        recreated: 0,
        deletion_id: "d1".into(),
    }
}

pub fn event(seq: i64) -> Event {
    Event {
        seq,
        at: noon(),
        deletion_id: Some("d1".into()),
        step_id: Some(7),
        kind: EventKind::StepState,
        message: format!("event {seq}\nwith two lines"),
        data: json!({"state": "gone"}),
    }
}

pub fn plan_step(id: u32, kind: &str, depends_on: &[u32], action: Action) -> PlanStep {
    PlanStep {
        project_id: "proj".into(),
        action,
        fingerprint: "f".into(),
        vars: Arc::new(BTreeMap::from([("router_id".into(), "r1".into())])),
        ..testkit::plan_step(id, key(kind, &format!("{kind}-{id}")), depends_on)
    }
}

pub fn plan() -> Plan {
    let steps = vec![
        plan_step(0, "network", &[1], Action::Delete),
        plan_step(1, "port", &[], Action::Delete),
    ];
    Plan {
        hash: "abc".into(),
        options: PlanOptions {
            cascade: true,
            ..PlanOptions::default()
        },
        endpoints: BTreeMap::from([("prod/RegionOne network".into(), "http://c:9696".into())]),
        identities: BTreeMap::from([(
            "prod/RegionOne".into(),
            Identity {
                user_id: "u".into(),
                project_id: "p".into(),
                roles: vec!["admin".into()],
            },
        )]),
        automatic: vec![plan_step(2, "port", &[], Action::Delete)],
        unset: vec![plan_step(3, "floatingip", &[], Action::Unset)],
        left: vec![gone::domain::model::Left {
            resource: target("network", "n2"),
            project_id: "p1".into(),
            reason: "it is shared".into(),
        }],
        refused: vec![refusal(RefusalRule::InUse)],
        warnings: vec!["trunk t1 is enabled first".into()],
        calls_estimate: 2,
        ..testkit::plan(vec![target("network", "n1")], steps)
    }
}

pub fn gate() -> GateStatus {
    GateStatus {
        listen: "127.0.0.1:9696".into(),
        source: "user".into(),
        site: site(),
        service: "network".into(),
        traffic: GateTraffic {
            requests: 70,
            hidden: 5,
            deleting: 4,
            refused: 3,
            accepted: 2,
            failed: 1,
        },
    }
}

pub fn site_status(state: SiteState) -> SiteStatus {
    SiteStatus {
        site: site(),
        state,
        reason: "connection refused".into(),
        latency_ms: Some(250),
        error_percent: Some(2),
        in_flight: 3,
        concurrency_limit: 8,
        read_only: false,
        as_user: "admin".into(),
        reason_wanted: Some("OPS-*".into()),
        paused_by: Some(SitePause {
            site: site(),
            by: deletion("d1").requested_by,
            reason: "upgrade".into(),
            at: noon(),
        }),
    }
}

pub fn ladder() -> Ladder {
    Ladder {
        sites: vec![site()],
        deletion_id: "d1".into(),
        step_id: Some(7),
        subject: "port p1".into(),
        confirm: "d1".into(),
        offers: vec![testkit::offer(Rung::Forget, None, &["sends nothing"], "p1")],
    }
}

pub fn orphan() -> Orphan {
    Orphan {
        resource: step(7, "port", &[], StepState::Purged).resource,
        project_id: "demo".into(),
        since: noon(),
        why: "in use".into(),
        deletion_id: "d1".into(),
        step_id: 7,
        there: Presence::Unclear,
    }
}

pub fn snapshot(version: u64) -> Snapshot {
    Snapshot {
        version,
        at: Some(noon()),
        engine: EngineStatus {
            follows: true,
            version: "0.1.0".into(),
            pid: 42,
            epoch: 1,
            started_at: Some(noon()),
            read_only: false,
            fault: None,
            unreachable_since: None,
            ledger: "/tmp/ledger.db".into(),
        },
        sites: vec![site_status(SiteState::Reachable)],
        deletions_by_state: BTreeMap::from([("running".into(), 1)]),
        steps: Counts {
            waiting: 2,
            gone: 3,
            total: 5,
            ..Counts::default()
        },
        deletions: vec![deletion("d1")],
        attention: vec![step(7, "port", &[], StepState::Stuck)],
        last_event: 0,
        rate_per_second: 1.5,
    }
}

pub fn spec() -> TargetSpec {
    TargetSpec {
        kind: "network".into(),
        id_or_name: "web".into(),
        site: SiteSpec::Region(site()),
    }
}

pub fn commands() -> Vec<Command> {
    let deletion_id = || "d1".to_owned();
    let targets = || {
        let everywhere = SiteSpec::All;
        let cloud = SiteSpec::Cloud("prod".into());
        vec![
            spec(),
            TargetSpec {
                site: everywhere,
                ..spec()
            },
            TargetSpec {
                site: cloud,
                ..spec()
            },
        ]
    };
    let named = || NamedOptions {
        drift: Some(DriftPolicy::Absorb),
        on_failure: Some(OnFailure::Stop),
    };
    let options = PlanOptions {
        cascade: true,
        on_failure: OnFailure::Stop,
        drift: DriftPolicy::Refuse,
        delete_detached: true,
        include_public: true,
        with_project: true,
        with_servers: true,
        park: true,
        chained: true,
    };
    let all = vec![
        Command::Plan {
            targets: targets(),
            options,
        },
        Command::Delete {
            targets: targets(),
            options,
            named: named(),
        },
        Command::DeletePlan {
            plan_hash: "abc".into(),
            named: named(),
        },
        Command::DeletePlanFile {
            plan: Box::new(plan()),
        },
        Command::Retry {
            deletion_id: deletion_id(),
        },
        Command::RetryStep { step_id: 7 },
        Command::RetryMatching {
            filter: Box::new(RetryFilter {
                deletion_id: Some("d1".into()),
                site: Some(site()),
                kind: Some(KindName::new("port")),
                state: Some(StepState::Stuck),
                class: Some(ErrorClass::Fatal),
                status: Some(403),
                error_type: Some("PolicyNotAuthorized".into()),
                older_than: Some(noon()),
                causes: vec![cause_group().cause],
            }),
            dry_run: true,
        },
        Command::Cancel {
            deletion_id: deletion_id(),
        },
        Command::Pause {
            deletion_id: deletion_id(),
        },
        Command::Resume {
            deletion_id: deletion_id(),
        },
        Command::Purge {
            what: PurgeScope::Step(7),
            rung: Rung::Unpin,
            confirm: "d1".into(),
        },
        Command::Release {
            key: key("port", "p1"),
        },
        Command::Prune {
            before: Some(noon()),
        },
        Command::PauseSite { site: site() },
        Command::ResumeSite { site: site() },
        Command::PauseEngine {
            name: "admin1".into(),
        },
        Command::ResumeEngine {
            name: "admin1".into(),
        },
        Command::Create {
            kind: "invoice".into(),
            body: json!({"id": "i1"}),
        },
        Command::Update {
            kind: "invoice".into(),
            id: "i1".into(),
            body: json!({"name": null}),
        },
        Command::ReleaseImporter {
            name: "d0-1".into(),
        },
        Command::Drift {
            deletion_id: deletion_id(),
            accept: true,
        },
    ];
    covers_all::<Command, _>(&all, "do");
    all
}

pub fn receipts() -> Vec<Receipt> {
    let all = vec![
        Receipt::Planned {
            plan: Arc::new(plan()),
        },
        Receipt::Accepted(Accepted {
            deletion_id: "d1".into(),
            existing: true,
        }),
        Receipt::Done { moved: 3 },
        Receipt::Bulk(Retried {
            eligible: 1480,
            not_eligible: vec![NotEligible {
                reason: "it is protected: tag keep".into(),
                steps: 20,
            }],
            moved: 1480,
        }),
        purged(Rung::Runbook),
        Receipt::Resource { row: native() },
    ];
    covers_all::<Receipt, _>(&all, "receipt");
    all
}

pub fn engine() -> EngineRow {
    EngineRow {
        name: "admin1".into(),
        role: EngineRole::Leads,
        epoch: 3,
        host: "admin1.example".into(),
        pid: 4242,
        version: "0.1.0".into(),
        started_at: noon(),
        renewed_at: Some(noon()),
        running: 5,
        has_gates: true,
        behind: 1,
    }
}

pub fn reconciler() -> ReconcilerStatus {
    ReconcilerStatus {
        name: Reconciler::Dispatch,
        running: 5,
        subjects: vec!["port web-12".into(), "port web-13".into()],
        since: noon(),
        last_run_at: Some(noon()),
        last_run_ms: Some(40),
        last_error: Some(ReconcilerError {
            message: "port web-9: 409, in use".into(),
            at: noon(),
        }),
        next_run_at: Some(noon()),
    }
}

pub fn deployment() -> DeploymentStatus {
    DeploymentStatus {
        service: "s1".into(),
        region: "r1".into(),
        name: Some("d1-1".into()),
        watch: Some(WatchStatus {
            kinds: vec![KindName::new("rx")],
            seq: 7,
            answered_at: Some(noon()),
            fresh: true,
            reason: String::new(),
        }),
        importer: Some(ImporterStatus {
            kinds: vec![KindName::new("network")],
            since: Some(noon()),
            last_contact_at: Some(noon()),
            seq: 5,
            lag: 2,
            pending_clearances: 1,
            reason: "it does not answer".into(),
        }),
    }
}

pub fn native() -> serde_json::Value {
    json!({
        "id": "i1", "incarnation": 1, "status": "ACTIVE", "created_at": noon(), "updated_at": noon(),
        "network": "n1@prod/RegionOne",
    })
}

pub fn purged(rung: Rung) -> Receipt {
    Receipt::Purged(Purged {
        rung,
        moved: 1,
        deletion_id: Some("d2".into()),
        runbook: Some("1. look".into()),
    })
}

pub fn queries() -> Vec<Query> {
    let all = vec![
        Query::Deletions(query::Deletions {
            states: DeletionState::ALL.to_vec(),
            site: Some(site()),
            kind: Some(KindName::new("network")),
            older_than: Some(noon()),
            cursor: Some("c".into()),
            limit: 5,
        }),
        Query::Deletion(query::Deletion { id: "d1".into() }),
        Query::Steps(query::Steps {
            deletion_id: Some("d1".into()),
            states: StepState::ALL.to_vec(),
            site: Some(site()),
            kind: None,
            older_than: None,
            cursor: None,
            cause: Some(cause_group().cause),
            filter: "web age>1h".into(),
            limit: 500,
        }),
        Query::StepCount(query::StepCount {
            deletion_id: Some("d1".into()),
            states: vec![StepState::Stuck],
            cause: Some(cause_group().cause),
            filter: "!lab".into(),
            cursor: Some("1:2".into()),
        }),
        Query::Outline(query::Outline {
            deletion_id: "d1".into(),
            below: vec![None, Some(7)],
        }),
        Query::BranchSteps(query::BranchSteps {
            deletion_id: "d1".into(),
            branch: 3,
            counts: Counts::default(),
            from: 1_000,
            limit: 500,
        }),
        Query::Step(query::Step { id: 7 }),
        Query::Progress(query::Progress {
            deletion_id: "d1".into(),
        }),
        Query::Timeline(query::Timeline {
            deletion_id: None,
            step_id: Some(7),
            after: 3,
        }),
        Query::Tombstones(query::Tombstones {
            site: Some(site()),
            kind: Some(KindName::new("network")),
            phases: vec![Phase::Checking, Phase::Deleting, Phase::Gone],
            id: Some("a/b@c%".into()),
            cursor: None,
            limit: 1,
        }),
        Query::Plan(query::Plan { hash: "abc".into() }),
        Query::FrozenPlan(query::FrozenPlan {
            deletion_id: "d1".into(),
            without_steps: true,
        }),
        Query::Resources(query::Resources {
            kind: "port".into(),
            site: Some(site()),
            names: true,
            bare: true,
        }),
        Query::ResourceCounts(query::ResourceCounts {
            kind: "port".into(),
        }),
        Query::Explain(query::Explain { target: spec() }),
        Query::Sites(query::Sites {}),
        Query::Gates(query::Gates {}),
        Query::Causes(query::Causes { sites: Vec::new() }),
        Query::Chart(query::Chart {
            deletion_id: "d1".into(),
            columns: 80,
        }),
        Query::Upcoming(query::Upcoming {}),
        Query::LastHour(query::LastHour {}),
        Query::LastDay(query::LastDay {}),
        Query::Kinds(query::Kinds {}),
        Query::Audit(query::Audit { after: 9 }),
        Query::NotificationCursor(query::NotificationCursor {
            channel: "mail".into(),
        }),
        Query::Ladder(query::Ladder {
            what: PurgeScope::Deletion("d1".into()),
        }),
        Query::Orphans(query::Orphans {
            cursor: Some("1:2".into()),
            limit: 5,
        }),
        Query::Native(query::Native {
            kind: "invoice".into(),
            by: vec![("network".into(), "n1@prod/RegionOne".into())],
            cursor: Some("7".into()),
            limit: 5,
        }),
        Query::Deployments(query::Deployments {}),
        Query::Reconcilers(query::Reconcilers {}),
        Query::Engines(query::Engines {}),
        Query::TombstonesOf(query::TombstonesOf {
            keys: vec![key("port", "p1")],
        }),
    ];
    covers_all::<Query, _>(&all, "ask");
    all
}

fn gantt() -> Gantt {
    Gantt {
        from: noon(),
        until: noon(),
        columns: 80,
        rows: vec![GanttRow {
            site: site(),
            kind: KindName::new("port"),
            action: Action::Delete,
            steps: 2,
            ended: 1,
            cells: vec![GanttCell {
                column: 1,
                sent: 2,
                refused: 1,
                ended: 1,
            }],
            last: Last {
                name: "p1".into(),
                ended_at: Some(noon()),
                waited_for: Some(WaitedFor {
                    kind: KindName::new("trunk"),
                    name: "t1".into(),
                    ended_at: None,
                }),
            },
        }],
    }
}

fn cause_group() -> CauseGroup {
    CauseGroup {
        cause: Cause {
            state: StepState::Stuck,
            kind: KindName::new("port"),
            class: Some(ErrorClass::Fatal),
            status: Some(403),
            error_type: Some("PolicyNotAuthorized".into()),
        },
        steps: 500,
        since: noon(),
        message: "not yours".into(),
    }
}

pub fn pages() -> Vec<Page> {
    let next = || Some("c2".to_owned());
    let listing = SiteListing {
        site: site(),
        rows: vec![Resource {
            key: key("port", "p1"),
            name: "p".into(),
            project_id: String::new(),
            tags: vec!["t".into()],
            attributes: json!({"fixed_ips": [{"ip_address": "10.0.0.1"}]}),
        }],
        error: Some("timed out".into()),
        class: None,
        names: Default::default(),
        at: noon(),
    };
    let explanation = Explanation {
        target: target("network", "n1"),
        deletion: Some(deletion("d1")),
        step: Some(step(7, "port", &[1], StepState::Blocked)),
        tombstone: Some(tombstone()),
        lines: vec!["blocked by port p9".into()],
        blockers: vec![blocker()],
        refused: vec![refusal(RefusalRule::Cycle)],
        next_action: "delete port p9".into(),
        relations: Vec::new(),
    };
    let kind = KindInfo {
        name: KindName::new("network"),
        aliases: vec!["net".into()],
        columns: vec![("NAME".into(), "name".into())],
        fields: FieldMeanings::default(),
        has_dependents: true,
        is_counted: true,
    };
    let steps = vec![step(7, "port", &[1, 2], StepState::Stuck)];
    let all = vec![
        Page::Deletions(Paged {
            rows: vec![deletion("d1")],
            next: next(),
        }),
        Page::Deletion(Box::new(deletion("d1"))),
        Page::Steps(Paged {
            rows: steps.clone(),
            next: next(),
        }),
        Page::Step(Box::new(step(7, "port", &[], StepState::Gone))),
        Page::Timeline(vec![event(1)]),
        Page::Tombstones(Paged {
            rows: vec![tombstone()],
            next: None,
        }),
        Page::Plan(Arc::new(plan())),
        Page::Resources(vec![listing]),
        Page::Explain(Box::new(explanation)),
        Page::Sites(vec![site_status(SiteState::Paused)]),
        Page::Kinds(vec![kind]),
        Page::Audit(vec![json!({
            "seq": 1, "at": noon(), "actor": actor(), "action": "delete",
            "target": "network/n1@prod/RegionOne", "reason": "ticket 7", "detail": {},
            "hash": "abc",
        })]),
        Page::Progress(vec![SiteProgress {
            site: site(),
            counts: deletion("d1").counts,
        }]),
        Page::NotificationCursor(NotificationCursor {
            ledger_id: "9f86".into(),
            newest: 9,
            position: Some(CursorPosition {
                through: 7,
                sending_through: Some(8),
                last_error: "no answer in time".into(),
            }),
        }),
        Page::Ladder(Box::new(ladder())),
        Page::Orphans(Paged {
            rows: vec![orphan()],
            next: next(),
        }),
        Page::Gates(vec![gate()]),
        Page::Causes(vec![cause_group()]),
        Page::StepCount(query::Counted {
            steps: 12,
            next: next(),
        }),
        Page::Outline(outline()),
        Page::Chart(gantt()),
        Page::Upcoming(Upcoming {
            at: noon(),
            now: 3,
            columns: vec![0, 1, 2],
            next: Some(noon()),
        }),
        Page::Native(Paged {
            rows: vec![native()],
            next: next(),
        }),
        Page::Deployments(vec![deployment()]),
        Page::BranchSteps(steps),
        Page::FrozenPlan(Arc::new(plan())),
        Page::Reconcilers(vec![reconciler()]),
        Page::TombstonesOf(vec![tombstone()]),
        Page::ResourceCounts(vec![SiteCount {
            site: site(),
            resources: Some(1_203),
            error: None,
            at: noon(),
        }]),
        Page::Engines(vec![engine()]),
        Page::LastHour(LastHour {
            until: noon(),
            minutes: vec![SiteMinute {
                site: site(),
                minute: 59,
                calls: 3,
                refused: 1,
            }],
        }),
        Page::LastDay(LastDay {
            deletions: 3,
            gone: 1_203,
        }),
    ];
    covers_all::<Page, _>(&all, "page");
    all
}

/// A sample of each error, with its HTTP status and its problem type.
pub fn errors() -> Vec<(ControlError, u16, &'static str)> {
    let message = || "what and why".to_owned();
    let refused = |rules: &[RefusalRule]| ControlError::Refused {
        message: message(),
        refused: rules.iter().map(|rule| refusal(*rule)).collect(),
    };
    let changes = vec!["port p2 is new".to_owned()];
    let candidates = vec![target("network", "n1"), target("network", "n2")];
    let all = vec![
        (
            ControlError::Usage { message: message() },
            422,
            "unprocessable",
        ),
        (
            ControlError::NotFound { message: message() },
            404,
            "not-found",
        ),
        (
            ControlError::Ambiguous {
                message: message(),
                candidates,
            },
            409,
            "ambiguous",
        ),
        (ControlError::Auth { message: message() }, 502, "cloud-auth"),
        (
            ControlError::Forbidden { message: message() },
            403,
            "forbidden",
        ),
        (
            ControlError::Unreachable { message: message() },
            503,
            "unreachable",
        ),
        (refused(&[]), 403, "guarded"),
        (refused(&[RefusalRule::Protected]), 403, "guarded"),
        (
            refused(&[RefusalRule::Protected, RefusalRule::InUse]),
            409,
            "blocked",
        ),
        (refused(&[RefusalRule::OtherProject]), 409, "blocked"),
        (
            ControlError::Drifted {
                message: message(),
                changes,
            },
            409,
            "drifted",
        ),
        (
            ControlError::Conflict { message: message() },
            409,
            "conflict",
        ),
        (
            ControlError::Expired {
                message: message(),
                oldest: 12,
            },
            410,
            "expired",
        ),
        (
            ControlError::Internal { message: message() },
            500,
            "internal",
        ),
    ];
    let errors: Vec<_> = all.iter().map(|(error, ..)| error).collect();
    covers_all::<ControlError, _>(&errors, "error");
    all
}

fn outline() -> Outline {
    let step = step(7, "port", &[], StepState::Running);
    let branch = Branch {
        id: 3,
        below: Some(9),
        site: site(),
        kind: step.resource.key.kind.clone(),
        action: step.action,
        leaf: true,
        counts: Counts::default(),
    };
    let place = StepPosition {
        branch: 4,
        index: 12,
        step: step.clone(),
    };
    Outline {
        branches: vec![BranchRead {
            branch,
            steps: vec![step],
        }],
        places: vec![place],
    }
}

/// Returns the value of `tag` in the JSON of a request or an answer, or None for a variant that has no JSON because
/// it is never sent over a socket.
pub fn variant_of(value: &impl Serialize, tag: &str) -> Option<String> {
    let json = serde_json::to_value(value).ok()?;
    Some(json[tag].as_str().unwrap().to_owned())
}

/// Asserts that there is a sample of each variant that is sent over a socket. serde names all variants when it
/// refuses an unknown one.
fn covers_all<T: DeserializeOwned, S: Serialize>(samples: &[S], tag: &str) {
    let refusal = serde_json::from_value::<T>(json!({ tag: "unknown" })).err();
    let refusal = refusal.unwrap().to_string();
    let (_, expected) = refusal.split_once("expected one of ").unwrap();
    let expected: BTreeSet<&str> = expected.split('`').skip(1).step_by(2).collect();
    let sampled: Vec<_> = samples
        .iter()
        .map(|sample| variant_of(sample, tag))
        .collect();
    let sampled: BTreeSet<&str> = sampled
        .iter()
        .map(|name| name.as_deref().unwrap())
        .collect();
    assert_eq!(sampled, expected, "variants that have a sample");
}
