//! The invariants that hold after each crash, and at the end of each simulation.

use std::collections::{BTreeMap, BTreeSet};

use super::harness::*;
use super::seeds::Simulation;
use gone::domain::model::{Action, Deletion, Phase, Plan, Site, Step, StepState, Tombstone};
use gone::ledger::audit::{GENESIS, verify};
use gone::ledger::{Cursor, StepFilter};
use serde_json::Value;

/// Checks the ledger and the sent requests after a crash. `acknowledged` is the id of the deletion that an engine had
/// acknowledged, if any.
pub async fn after_crash(bench: &Bench, acknowledged: Option<&str>) -> Result<(), String> {
    let ledger_state = bench.ledger_state().await;
    if let Some(id) = acknowledged
        && !ledger_state
            .deletions
            .iter()
            .any(|deletion| deletion.id == id)
    {
        return Err(format!(
            "deletion {id} was acknowledged, and is not in the ledger"
        ));
    }
    // T9: a step and its tombstone end together.
    let ledger = bench.ledger();
    let filter = StepFilter {
        states: vec![StepState::Gone],
        ..StepFilter::default()
    };
    let gone = ledger
        .steps(filter, Cursor::default())
        .await
        .map_err(|error| error.to_string())?;
    check_tombstones(&gone.rows, &ledger_state.tombstones)?;
    let has_tombstone = |id: &str| {
        ledger_state.tombstones.iter().any(|tombstone| {
            tombstone.key.id.contains(id)
                && matches!(tombstone.phase, Phase::Deleting | Phase::Gone)
        })
    };
    for sent in bench.writes() {
        let id = sent
            .path
            .split(['/', '?'])
            .find(|part| uuid::Uuid::try_parse(part).is_ok());
        if let Some(id) = id.filter(|id| !has_tombstone(id)) {
            return Err(format!("T1: {sent:?} was sent without a tombstone of {id}"));
        }
    }
    Ok(())
}

/// Checks the cloud and the ledger after a deletion has ended. `before` has the ids in the cloud before the deletion.
pub async fn check(
    simulation: &Simulation,
    before: &BTreeSet<(String, String)>,
    (deletion, steps, plan): &(Deletion, Vec<Step>, Option<Plan>),
) -> Result<(), String> {
    let bench = &simulation.bench;
    if let Some(problem) = bench.crash.overwritten.lock().unwrap().first() {
        return Err(problem.clone());
    }
    let plan = plan.as_ref().ok_or("the deletion has no plan")?;
    let after = bench.all_ids();
    // No resource outside of the frozen plan was deleted.
    let planned: BTreeSet<&str> = plan
        .steps
        .iter()
        .chain(&plan.automatic)
        .flat_map(|step| std::iter::once(&step.resource_id).chain(step.vars.values()))
        .map(String::as_str)
        .collect();
    for (collection, id) in before.difference(&after) {
        let owner = simulation.owned.get(id).unwrap_or(id);
        if !planned.contains(owner.as_str()) {
            return Err(format!(
                "{collection}/{id} was deleted, and is not in the plan"
            ));
        }
    }
    // The resource of each step that is gone is absent.
    let there: BTreeSet<&str> = after.iter().map(|(_, id)| id.as_str()).collect();
    for step in steps.iter().filter(|step| step.state == StepState::Gone) {
        if is_there(bench, step, &there) {
            return Err(format!(
                "the step is gone, and its resource exists: {step:#?}"
            ));
        }
    }
    // The counts of the deletion agree with its steps and its plan.
    let counts = deletion.counts;
    if counts.gone != counts.total
        || counts.total != plan.steps.len() as u64
        || steps.len() != plan.steps.len()
    {
        return Err(format!(
            "the counts disagree with the steps and the plan: {counts:?}, {} steps",
            steps.len()
        ));
    }
    let ledger_state = bench.ledger_state().await;
    check_tombstones(steps, &ledger_state.tombstones)?;
    let ledger = bench.ledger();
    let rows = ledger
        .audit(0, 500)
        .await
        .map_err(|error| error.to_string())?;
    verify(GENESIS, &rows).map_err(|error| error.to_string())?;
    let live = StepFilter {
        states: vec![
            StepState::Ready,
            StepState::Running,
            StepState::Verifying,
            StepState::Blocked,
            StepState::Waiting,
        ],
        ..StepFilter::default()
    };
    let left = ledger
        .steps(live, Cursor::default())
        .await
        .map_err(|error| error.to_string())?;
    if !left.rows.is_empty() {
        return Err(format!(
            "the deletion is gone, and some of its steps are not: {:#?}",
            left.rows
        ));
    }
    check_repetitions(bench)
}

/// Whether the resource of a step exists. False for a step that only enables a resource. Edges have composite ids: an
/// interface exists while its port does.
fn is_there(bench: &Bench, step: &Step, there: &BTreeSet<&str>) -> bool {
    let key = &step.resource.key;
    if step.action == Action::Enable {
        return false;
    }
    let parts: Vec<&str> = key.id.split(',').collect();
    let Site::Region { region, .. } = &key.site else {
        return false;
    };
    let rows = |collection: &str| bench.rows_at(region, collection);
    let within = |parents: &str, children: &str, id: &str| {
        let path = format!("{parents}/{}/{children}", parts[0]);
        let (_, answer) = bench.api_at(region, "GET", &path, Value::Null);
        let rows = answer[children].as_array();
        rows.is_some_and(|rows| rows.iter().any(|row| row[id] == parts[1]))
    };
    match key.kind.as_str() {
        "router_interface" => rows("ports").iter().any(|port| {
            port["device_id"] == parts[0]
                && port["fixed_ips"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|ip| ip["subnet_id"] == parts[1])
        }),
        "static_route" => {
            rows("routers").iter().any(|router| {
                router["id"] == parts[0]
                    && router["routes"].as_array().unwrap().iter().any(|route| {
                        route["destination"] == parts[1] && route["nexthop"] == parts[2]
                    })
            })
        }
        "subport" => rows("trunks").iter().any(|trunk| {
            trunk["id"] == parts[0]
                && trunk["sub_ports"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|port| port["port_id"] == parts[1])
        }),
        "floating_ip_association" => rows("floatingips")
            .iter()
            .any(|address| address["id"] == parts[0] && address["port_id"] == parts[1]),
        "port_forwarding" => rows("floatingips").iter().any(|address| {
            address["id"] == parts[0]
                && address["port_forwardings"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one["id"] == parts[1]))
        }),
        "segment" => rows("segments").iter().any(|row| row["id"] == key.id),
        "member" => within(&path_of("pools"), "members", "id"),
        "l7_rule" => within(&path_of("l7policies"), "rules", "id"),
        "image_member" => within(&path_of("images"), "members", "member_id"),
        _ => there.contains(key.id.as_str()),
    }
}

/// Checks that the tombstone of each of these steps, all of which are gone, is gone too. Leaves out steps that only
/// enable a resource.
fn check_tombstones(steps: &[Step], tombstones: &[Tombstone]) -> Result<(), String> {
    for step in steps.iter().filter(|step| step.action != Action::Enable) {
        let tombstone = tombstones
            .iter()
            .find(|tombstone| tombstone.key == step.resource.key);
        match tombstone {
            Some(tombstone) if tombstone.phase == Phase::Gone && tombstone.gone_at.is_some() => {}
            other => {
                return Err(format!(
                    "{step:#?} is gone, and its tombstone is {other:#?}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks that no call was repeated after it had taken effect. The engine must observe before it repeats a call.
fn check_repetitions(bench: &Bench) -> Result<(), String> {
    let mut answers: BTreeMap<String, Vec<SentRequest>> = BTreeMap::new();
    for sent in bench.writes() {
        answers.entry(sent.signature()).or_default().push(sent);
    }
    for (signature, answers) in answers {
        if answers.iter().any(SentRequest::found_nothing) {
            return Err(format!(
                "{signature} was sent after it had taken effect: {answers:?}"
            ));
        }
    }
    Ok(())
}
