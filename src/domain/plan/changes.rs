//! Finds what changed between an approved plan and the same plan made again (P1).

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::model::{
    Action, ChangeKind, FieldChange, Plan, PlanChange, PlanStep, Refusal, RefusalRule, ResourceKey,
    Target,
};
use crate::domain::text::escape;

/// Maximum number of changes that one refusal stores.
const KEPT_MAX: usize = 100;
/// Number of changes that one line names. The other changes are counted.
const NAMED_MAX: usize = 10;
/// Maximum number of characters of a value in one line.
const VALUE_MAX: usize = 80;

/// Returns every resource that is new, missing or changed. If the list is empty, plans with different hashes differ
/// in targets, order, mapping, endpoints or options.
pub fn changes(before: &Plan, after: &Plan) -> Vec<PlanChange> {
    let (old, new) = (by_resource(before), by_resource(after));
    let change = |step: &PlanStep, change, fields| PlanChange {
        resource: step.target(),
        change,
        fields,
    };
    let appeared = new.iter().filter(|(key, _)| !old.contains_key(*key));
    let mut found: Vec<PlanChange> = appeared
        .filter_map(|(_, steps)| Some(change(steps.first()?, ChangeKind::New, Vec::new())))
        .collect();
    let vanished = old.iter().filter(|(key, _)| !new.contains_key(*key));
    found
        .extend(vanished.filter_map(|(_, steps)| {
            Some(change(steps.first()?, ChangeKind::Missing, Vec::new()))
        }));
    found.extend(old.iter().filter_map(|(key, before)| {
        let (first, after) = (before.first()?, new.get(key)?);
        let fields = fields(before, after);
        (!fields.is_empty()).then(|| change(first, ChangeKind::Changed, fields))
    }));
    found
}

/// Groups the steps by resource. A resource has one step, or two if it is enabled first.
fn by_resource(plan: &Plan) -> BTreeMap<ResourceKey, Vec<&PlanStep>> {
    let mut steps: BTreeMap<ResourceKey, Vec<&PlanStep>> = BTreeMap::new();
    for step in plan.steps.iter().chain(&plan.automatic).chain(&plan.unset) {
        steps.entry(step.key()).or_default().push(step);
    }
    steps
}

fn fields(before: &[&PlanStep], after: &[&PlanStep]) -> Vec<FieldChange> {
    let (Some(old), Some(new)) = (before.first(), after.first()) else {
        return Vec::new();
    };
    let mut fields = Vec::new();
    let mut compare = |field: &str, before: String, after: String| {
        if before != after {
            fields.push(FieldChange {
                field: field.to_owned(),
                before,
                after,
            });
        }
    };
    compare("name", old.name.clone(), new.name.clone());
    compare(
        "project_id",
        old.project_id.to_string(),
        new.project_id.to_string(),
    );
    let (old_fields, new_fields) = (old.compared.fields(), new.compared.fields());
    // A plan of an older version has no values to compare.
    if !old.compared.is_empty() || old.fingerprint == new.fingerprint {
        let both: BTreeSet<&str> = old_fields
            .keys()
            .chain(new_fields.keys())
            .copied()
            .collect();
        for field in both {
            let text = |fields: &BTreeMap<&str, Vec<&str>>| {
                fields
                    .get(field)
                    .map(|all| all.join(", "))
                    .unwrap_or_default()
            };
            compare(field, text(&old_fields), text(&new_fields));
        }
    }
    let both: BTreeSet<&String> = old.vars.keys().chain(new.vars.keys()).collect();
    for field in both {
        let text = |step: &PlanStep| step.vars.get(field).cloned().unwrap_or_default();
        compare(field, text(old), text(new));
    }
    compare("action", done(before), done(after));
    if fields.is_empty() && old.fingerprint != new.fingerprint {
        fields.push(FieldChange {
            field: "tags, owner or references".to_owned(),
            before: "(not recorded)".to_owned(),
            after: "(different)".to_owned(),
        });
    }
    fields
}

fn done(steps: &[&PlanStep]) -> String {
    let each = steps
        .iter()
        .map(|step| match (step.automatic, step.action) {
            (true, _) => "removed by the cloud itself",
            (false, Action::Delete | Action::Reset | Action::Force) => "deleted",
            (false, Action::Detach) => "detached",
            (false, Action::Unset) => "unset",
            (false, Action::Enable) => "prepared",
        });
    let each: Vec<&str> = each.collect();
    each.join(", then ")
}

/// Returns the words for a change: `changed: network web (4fdb…) at prod/RegionOne: name was "web", is now
/// "other"`.
fn line(change: &PlanChange) -> String {
    let what = match change.change {
        ChangeKind::New => "new",
        ChangeKind::Missing => "no longer in the plan",
        ChangeKind::Changed => "changed",
    };
    let key = &change.resource.key;
    let called = key.called(&change.resource.name);
    let fields = change.fields.iter().map(|it| {
        format!(
            "{} was {}, is now {}",
            it.field,
            quoted(&it.before),
            quoted(&it.after)
        )
    });
    let fields: Vec<String> = fields.collect();
    match fields.is_empty() {
        true => format!("{what}: {called} at {}", key.site),
        false => format!("{what}: {called} at {}: {}", key.site, fields.join("; ")),
    }
}

fn quoted(value: &str) -> String {
    let shown: String = value.chars().take(VALUE_MAX).collect();
    match value.len() {
        0 => "empty".to_owned(),
        all if all > shown.len() => format!("\"{}...\"", escape(&shown)),
        _ => format!("\"{}\"", escape(&shown)),
    }
}

/// Returns the changes in one line, for a person.
pub fn changes_line(changes: &[PlanChange]) -> String {
    let mut lines: Vec<String> = changes.iter().take(NAMED_MAX).map(line).collect();
    match changes.len().saturating_sub(lines.len()) {
        0 => {}
        more => lines.push(format!("and {more} more")),
    }
    match lines.is_empty() {
        true => "the plan's targets, order, mapping, endpoints or options differ".to_owned(),
        false => lines.join("; "),
    }
}

/// Refuses the targets at the sites with changes, each with the changes at its site. If no target is at such a site,
/// because only copies or the plan as a whole changed, refuses every target with all changes.
pub fn drifted(targets: &[Target], changes: &[PlanChange]) -> Vec<Refusal> {
    let refusal = |target: &Target, here: &[PlanChange]| Refusal {
        changes: here.iter().take(KEPT_MAX).cloned().collect(),
        ..Refusal::new(target, RefusalRule::Drift, changes_line(here))
    };
    let own = targets.iter().filter_map(|target| {
        let at = |change: &&PlanChange| change.resource.key.site == target.key.site;
        let here: Vec<PlanChange> = changes.iter().filter(at).cloned().collect();
        (!here.is_empty()).then(|| refusal(target, &here))
    });
    let own: Vec<Refusal> = own.collect();
    match own.is_empty() {
        true => targets.iter().map(|it| refusal(it, changes)).collect(),
        false => own,
    }
}
