//! Helpers that the tests of a ledger share: times, keys, plans, changes, and shorthands to commit and read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{
    Action, Actor, ErrorClass, KindName, Origin, Plan, PlanStep, ResourceKey, Site, StepError,
    StepState, Target,
};
use gone::domain::policy::Decision;
use gone::ledger::{
    Applied, AuditEntry, Capacity, Change, ClaimedStep, Cursor, Ledger, LedgerError, NewDeletion,
    NewPurge, PurgeAction, RetryBy, Selection, StepChange, StepFilter,
};

use crate::testkit;

pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap() + TimeDelta::seconds(seconds)
}

pub fn site() -> Site {
    Site::region("cloud", "one")
}

pub fn key(kind: &str, id: &str) -> ResourceKey {
    testkit::key(site(), kind, id)
}

pub fn target(kind: &str, id: &str) -> Target {
    Target {
        key: key(kind, id),
        name: format!("name-{id}"),
    }
}

pub fn actor(origin: Origin) -> Actor {
    testkit::actor("ada", origin)
}

pub fn entry(action: &str, target: &str, origin: Origin) -> AuditEntry {
    AuditEntry {
        actor: actor(origin),
        action: action.to_owned(),
        target: target.to_owned(),
        reason: "clean up".to_owned(),
        detail: serde_json::json!({"b": 1, "a": [true, null]}),
    }
}

/// The full id of a deletion, which ends with this name.
pub fn id(name: &str) -> String {
    format!("01890000-0000-7000-8000-{name:0>12}")
}

pub fn new_deletion(name: &str, targets: Vec<Target>, now: DateTime<Utc>) -> NewDeletion {
    NewDeletion {
        reason: "clean up".to_owned(),
        audit: entry("delete", name, Origin::Cli),
        ..testkit::new_deletion(id(name), actor(Origin::Cli), targets, now)
    }
}

pub fn accept(deletion: NewDeletion) -> Change {
    Change::Accept(Box::new(deletion))
}

pub fn plan_step(position: usize, action: Action, key: ResourceKey, after: &[u32]) -> PlanStep {
    let position = u32::try_from(position).unwrap();
    PlanStep {
        name: format!("name-{}", key.id),
        project_id: "project".into(),
        action,
        why: "because".into(),
        fingerprint: "f00d".to_owned(),
        ..testkit::plan_step(position, key, after)
    }
}

/// The kinds in these tests whose ids a cloud never uses again.
pub fn unique_id_kinds() -> std::sync::Arc<[KindName]> {
    ["network", "port", "root"].map(KindName::new).into()
}

/// A plan that deletes ports with these ids. Each waits for the ports at the given positions.
pub fn ports(steps: &[(&str, &[u32])]) -> Plan {
    let steps = steps
        .iter()
        .enumerate()
        .map(|(position, (id, after))| plan_step(position, Action::Delete, key("port", id), after))
        .collect();
    plan(steps)
}

/// A plan that deletes this many ports, `p0`, `p1` and so on. None waits for another.
pub fn many_ports(count: usize) -> Plan {
    let ids: Vec<String> = (0..count).map(|n| format!("p{n}")).collect();
    let steps: Vec<(&str, &[u32])> = ids.iter().map(|id| (id.as_str(), &[][..])).collect();
    ports(&steps)
}

pub fn plan(steps: Vec<PlanStep>) -> Plan {
    Plan {
        hash: format!("hash-{}", steps.len()),
        endpoints: BTreeMap::from([("cloud/one".to_owned(), "http://one".to_owned())]),
        warnings: vec!["careful".to_owned()],
        calls_estimate: 7,
        ..testkit::plan(vec![target("port", "root")], steps)
    }
}

pub fn start(name: &str, plan: &Plan, now: DateTime<Utc>) -> Change {
    Change::Start {
        deletion_id: id(name),
        ranks: vec![1; plan.steps.len()],
        plan: Arc::new(plan.clone()),
        max_attempts: vec![8; plan.steps.len()],
        now,
    }
}

pub fn outcome(step: &ClaimedStep, to: StepState, now: DateTime<Utc>) -> StepChange {
    StepChange {
        step_id: step.id,
        fence: step.fence,
        decision: Decision {
            to,
            attempts: step.attempts + 1,
            next_attempt_at: None,
            blocked_since: None,
            blockers: Vec::new(),
            error: None,
            observed_again: false,
        },
        message: format!("DELETE: {}", to.as_str()),
        answer: None,
        now,
    }
}

pub fn failure(
    step: &ClaimedStep,
    to: StepState,
    class: ErrorClass,
    now: DateTime<Utc>,
) -> StepChange {
    with_decision(outcome(step, to, now), |it| {
        it.error = Some(StepError {
            class,
            status: Some(409),
            kind: "PortInUse".to_owned(),
            message: "still in use".to_owned(),
            request_id: "req-1".to_owned(),
            at: now,
        })
    })
}

/// The same outcome with its decision changed.
pub fn with_decision(
    mut change: StepChange,
    change_decision: impl FnOnce(&mut Decision),
) -> StepChange {
    change_decision(&mut change.decision);
    change
}

pub fn record_outcome(change: StepChange) -> Change {
    Change::Step(Box::new(change))
}

pub fn retry(selection: Selection, origin: Origin, now: DateTime<Utc>) -> Change {
    Change::Retry {
        selection,
        by: match origin {
            Origin::Console | Origin::Cli | Origin::Api => RetryBy::Person,
            _ => RetryBy::Repeat,
        },
        audit: entry("retry", "it", origin),
        now,
    }
}

pub fn cancel(name: &str, now: DateTime<Utc>) -> Change {
    Change::Cancel {
        deletion_id: id(name),
        audit: entry("cancel", name, Origin::Cli),
        now,
    }
}

pub fn pause(name: &str, paused: bool, now: DateTime<Utc>) -> Change {
    Change::Pause {
        deletion_id: id(name),
        paused,
        audit: entry("pause", name, Origin::Cli),
        now,
    }
}

pub fn purge(what: Selection, action: PurgeAction, now: DateTime<Utc>) -> Change {
    let rung = action.rung().as_str();
    Change::Purge(Box::new(NewPurge {
        what,
        action,
        audit: entry(&format!("purge {rung}"), "it", Origin::Cli),
        now,
    }))
}

pub fn release(kind: &str, id: &str, now: DateTime<Utc>) -> Change {
    Change::Release {
        key: key(kind, id),
        audit: entry("release", id, Origin::Cli),
        now,
    }
}

pub fn first_page() -> Cursor {
    Cursor::default()
}

pub struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }
    pub fn ledger(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

pub async fn commit_one(ledger: &dyn Ledger, change: Change) -> Applied {
    ledger.commit(vec![change]).await.unwrap().pop().unwrap()
}

/// Accepts a deletion of a port of its own, and starts this plan for it.
pub async fn start_deletion(ledger: &dyn Ledger, name: &str, plan: &Plan) {
    let root = target("port", &format!("root-{name}"));
    let applied = ledger
        .commit(vec![
            accept(new_deletion(name, vec![root], at(0))),
            start(name, plan, at(0)),
        ])
        .await
        .unwrap();
    assert_eq!(applied.last(), Some(&Applied::Done), "{applied:?}");
}

/// Accepts a deletion of one port.
pub async fn accept_port(
    ledger: &dyn Ledger,
    name: &str,
    port: &str,
    now: DateTime<Utc>,
) -> Applied {
    let deletion = new_deletion(name, vec![target("port", port)], now);
    commit_one(ledger, accept(deletion)).await
}

/// Moves a claimed step to this state by its outcome.
pub async fn end_step(
    ledger: &dyn Ledger,
    step: &ClaimedStep,
    to: StepState,
    now: DateTime<Utc>,
) -> Applied {
    commit_one(ledger, record_outcome(outcome(step, to, now))).await
}

/// Capacity for this many calls now and for none ahead.
pub fn capacity(now: usize) -> Capacity {
    Capacity {
        site: site(),
        now,
        ahead: 0,
    }
}

pub async fn claim(ledger: &dyn Ledger, limit: usize) -> Vec<ClaimedStep> {
    ledger.claim(vec![capacity(limit)], at(1)).await.unwrap()
}

/// Claims all ready steps and moves each of them to this state.
pub async fn claim_all_and_move_to(ledger: &dyn Ledger, to: StepState) -> Vec<ClaimedStep> {
    let steps = claim(ledger, 1000).await;
    for step in &steps {
        let change = match to {
            StepState::Stuck | StepState::Blocked => failure(step, to, ErrorClass::Blocked, at(2)),
            _ => outcome(step, to, at(2)),
        };
        assert_eq!(
            commit_one(ledger, record_outcome(change)).await,
            Applied::Done
        );
    }
    steps
}

/// The resource id and the state of each step of a deletion, in the order of the step ids.
pub async fn states(ledger: &dyn Ledger, name: &str) -> Vec<(String, StepState)> {
    let filter = StepFilter {
        deletion_id: Some(id(name)),
        ..StepFilter::default()
    };
    let page = ledger.steps(filter, first_page()).await.unwrap();
    page.rows
        .into_iter()
        .map(|step| (step.resource.key.id, step.state))
        .collect()
}

pub async fn state_of(ledger: &dyn Ledger, name: &str, resource: &str) -> StepState {
    let states = states(ledger, name).await;
    states.iter().find(|(id, _)| id == resource).unwrap().1
}

pub async fn step_id(ledger: &dyn Ledger, name: &str, resource: &str) -> i64 {
    let filter = StepFilter {
        deletion_id: Some(id(name)),
        ..StepFilter::default()
    };
    let page = ledger.steps(filter, first_page()).await.unwrap();
    page.rows
        .iter()
        .find(|step| step.resource.key.id == resource)
        .unwrap()
        .id
}

/// The steps whose observation is due, as an engine reads them.
pub async fn steps_to_observe(
    ledger: &dyn Ledger,
    now: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<ClaimedStep>, LedgerError> {
    let due = ledger.observations_due(now).await?;
    ledger.steps_to_observe(due, now, limit).await
}
