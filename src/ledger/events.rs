//! The texts and fields of the ledger's events.
//!
//! Programs read the kind and the fields of an event, and a replay derives the past from them
//! ([`super::sqlite::rewind`]): they may not change. The text of an event is only for people, and may change.

use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::{RecreationReason, StepChange};
use crate::domain::model::{
    DeletionState, EventKind, PlanOptions, ResourceKey, Site, StepError, StepState, short_id,
};
use crate::domain::peers::Deployment;
use crate::domain::text::counted;

/// An event before it is written, without its number and time.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDraft {
    pub kind: EventKind,
    /// One line for people.
    pub words: String,
    pub fields: Value,
}

fn draft(kind: EventKind, words: impl Into<String>, fields: Value) -> EventDraft {
    let words = words.into();
    EventDraft {
        kind,
        words,
        fields,
    }
}

/// An event of a deletion; its text is `deletion`, the short id, and then `words`.
fn of_deletion(kind: EventKind, id: &str, words: impl Display, fields: Value) -> EventDraft {
    draft(kind, format!("deletion {}{words}", short_id(id)), fields)
}

/// An event of a step.
fn of_step(words: impl Into<String>, fields: Value) -> EventDraft {
    draft(EventKind::StepState, words, fields)
}

/// Adds the fields of a resource to other fields.
fn of(key: &ResourceKey, mut fields: Value) -> Value {
    fields["site"] = json!(key.site);
    fields["kind"] = json!(key.kind);
    fields["id"] = json!(key.id);
    fields
}

pub fn accepted(deletion: &str, targets: usize) -> EventDraft {
    let fields = json!({"state": DeletionState::Planning, "targets": targets});
    of_deletion(EventKind::DeletionAccepted, deletion, " accepted", fields)
}

/// A deletion was accepted that only handles the resources which refer to its targets. Another deployment deletes the
/// targets.
pub fn handles_referrers(deletion: &str, targets: usize, owner: &str) -> EventDraft {
    let resources = counted(targets as u64, "resource");
    let words = format!(" handles the referrers of {resources} that {owner} deletes");
    let fields = json!({"state": DeletionState::Planning, "targets": targets});
    of_deletion(EventKind::DeletionAccepted, deletion, words, fields)
}

pub fn planned(deletion: &str, steps: u64) -> EventDraft {
    let fields = json!({"steps": steps});
    let words = format!(" planned: {}", counted(steps, "step"));
    of_deletion(EventKind::DeletionPlanned, deletion, words, fields)
}

/// A deletion's plan was refused. `why`: the first refusal. `note`: the new note of the deletion.
pub fn refused(deletion: &str, refusals: usize, why: &str, note: &str) -> EventDraft {
    let fields = json!({"state": DeletionState::Refused, "refusals": refusals, "note": note});
    let words = format!(" refused: {why}");
    of_deletion(EventKind::DeletionRefused, deletion, words, fields)
}

/// A deletion is planned again, because a cloud did not answer.
pub fn delayed(deletion: &str, note: &str) -> EventDraft {
    let fields = json!({"state": DeletionState::Planning});
    let words = format!(": {note}");
    of_deletion(EventKind::DeletionState, deletion, words, fields)
}

pub fn deletion_moved(deletion: &str, state: DeletionState) -> EventDraft {
    let fields = json!({"state": state});
    let words = format!(": {}", state.as_str());
    of_deletion(EventKind::DeletionState, deletion, words, fields)
}

/// The outcome of a call or an observation. Only an outcome with an error has the fields from which a replay shows
/// why a step is not gone; the many other events stay small.
pub fn answered(from: StepState, to: StepState, change: &StepChange) -> EventDraft {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    set("state", json!(to));
    set("attempts", json!(change.decision.attempts));
    // The answer takes precedence over the error, which may come from an earlier call.
    let (status, request_id) = match (&change.answer, &change.decision.error) {
        (Some(answer), _) => (answer.status, answer.request_id.as_deref()),
        (None, Some(error)) => (error.status, Some(error.request_id.as_str())),
        (None, None) => (None, None),
    };
    set("status", json!(status));
    set("request_id", json!(request_id.filter(|id| !id.is_empty())));
    if let Some(error) = &change.decision.error {
        let blockers = (!change.decision.blockers.is_empty()).then_some(&change.decision.blockers);
        set("error", json!(error));
        set("blockers", json!(blockers));
        set("next_attempt_at", json!(change.decision.next_attempt_at));
        set("blocked_since", json!(change.decision.blocked_since));
    } else if matches!(to, StepState::Blocked | StepState::Stuck) {
        // Null says that there was no error. Events of older ledgers lack the field.
        fields.insert("error".to_owned(), Value::Null);
    }
    let kind = match from {
        StepState::Running => EventKind::Attempt,
        _ => EventKind::StepState,
    };
    draft(kind, &change.message, Value::Object(fields))
}

/// A step that prepared a resource is sent again, for a step that is retried. `owner`: the step to which the repeated
/// step was left.
pub fn repeated(owner: Option<i64>) -> EventDraft {
    let mut fields = json!({"state": StepState::Ready});
    if let Some(owner) = owner {
        fields["was_left_to"] = json!(owner);
    }
    let words = "sent again, because the step that depends on it is retried";
    of_step(words, fields)
}

/// A stuck step makes other steps stuck. The field `held` distinguishes this event from one that moves the step itself.
pub fn makes_others_stuck(held: u64) -> EventDraft {
    let fields = json!({"state": StepState::Stuck, "held": held});
    let words = match held {
        1 => "1 step waits for it, and is stuck too".to_owned(),
        n => format!("{n} steps wait for it, and are stuck too"),
    };
    of_step(words, fields)
}

pub fn abandoned() -> EventDraft {
    let fields = json!({"state": StepState::Purged});
    of_step(
        "abandoned: if the resource still exists, it is left behind",
        fields,
    )
}

/// The deletion `by`, to which the step was left, deleted the resource.
pub fn owner_gone(by: &str) -> EventDraft {
    let fields = json!({"state": StepState::Gone});
    of_step(format!("gone: deletion {by} deleted it"), fields)
}

/// The deletion `by`, to which the step is left, is no longer stuck.
pub fn owner_continues(by: &str) -> EventDraft {
    let fields = json!({"state": StepState::Waiting});
    of_step(format!("deletion {by} continues to delete it"), fields)
}

/// A step that is, or was, left to another deletion is stuck in its own right. `taken_from`: the step of that
/// deletion, if the step's own deletion takes the resource over.
pub fn left_step_stuck(error: &StepError, taken_from: Option<i64>) -> EventDraft {
    let fields = json!({"state": StepState::Stuck, "error": error});
    of_step(&error.message, taken_over(fields, taken_from))
}

/// The deletion `by` no longer deletes the resource, so the step's own deletion does.
pub fn left_step_taken_over(by: &str, to: StepState, taken_from: i64) -> EventDraft {
    let fields = taken_over(json!({"state": to}), Some(taken_from));
    let words = format!("deletion {by} no longer deletes it: this deletion does");
    of_step(words, fields)
}

/// Marks the event from which on the step's own deletion deletes the resource.
fn taken_over(mut fields: Value, from: Option<i64>) -> Value {
    if let Some(from) = from {
        fields["was_left_to"] = json!(from);
        fields["taken_over"] = json!(true);
    }
    fields
}

/// Another deletion, `by`, has taken the resource over: the step is left to it now.
pub fn left_step_passed_on(by: &str, was_left_to: i64) -> EventDraft {
    let fields = json!({"was_left_to": was_left_to});
    of_step(format!("left to deletion {by}"), fields)
}

/// A person must act on a stuck step (I7).
pub fn person_needed(
    deletion: &str,
    key: &ResourceKey,
    name: &str,
    error: Option<&StepError>,
) -> EventDraft {
    let called = if name.is_empty() { &key.id } else { name };
    let why = error.map_or("", |error| &error.message);
    let mut fields = of(key, json!({"state": StepState::Stuck}));
    fields["name"] = json!(name);
    fields["error"] = json!(error);
    let words = format!(": {} {called} is stuck: {why}", key.kind);
    of_deletion(EventKind::NeedsPerson, deletion, words, fields)
}

/// A resource that was gone exists again; with `copy`, a new copy of the resource does. `times`: how often the resource
/// or a copy of it was re-created. With `stuck`, also returns why a person must decide about the resource.
pub fn recreated(
    key: &ResourceKey,
    copy: Option<&ResourceKey>,
    times: u32,
    stuck: Option<RecreationReason>,
) -> (EventDraft, Option<String>) {
    let plural = if times == 1 { "" } else { "s" };
    let counted = format!("re-created {times} time{plural}");
    let words = match (copy, stuck) {
        (None, _) => format!("{counted}: {key} exists again"),
        (Some(copy), Some(RecreationReason::NameAlone)) => {
            format!("{counted}, as it seems: {copy} has the name and project of {key}")
        }
        (Some(copy), _) => format!("{counted}: {copy}, a copy of {key}"),
    };
    let back = copy.unwrap_or(key);
    let why = stuck.map(|stuck| match stuck {
        RecreationReason::TooOften => format!(
            "{words}, more often than allowed; find out who re-creates it, remove it, and retry"
        ),
        RecreationReason::NameAlone => format!(
            "{words}; that does not prove that {back} is a copy, so gone does not delete it. If {back} is a copy, run `gone delete {back}` and retry. If it is not, run `gone purge` with the rung forget"
        ),
    });
    let fields = of(back, json!({"recreated": times}));
    (draft(EventKind::Recreated, words, fields), why)
}

/// A person took a rung of the purge ladder. `of`: the deletion or step, in words.
pub fn rung_taken(of: &str, rung: &str, by: &str) -> EventDraft {
    let fields = json!({"rung": rung});
    let words = format!("purge of {of}: {rung}, by {by}");
    draft(EventKind::Purge, words, fields)
}

pub fn tombstone_released(key: &ResourceKey, by: &str) -> EventDraft {
    let fields = of(key, json!({"phase": "released"}));
    let words = format!("tombstone of {key} released by {by}");
    draft(EventKind::Purge, words, fields)
}

pub fn revived(key: &ResourceKey, by: &str, incarnation: u32) -> EventDraft {
    let words = format!("{key} was revived by {by}: incarnation {incarnation}");
    let mut fields = of(key, json!({"phase": "released"}));
    fields["incarnation"] = json!(incarnation);
    draft(EventKind::Revived, words, fields)
}

pub fn site_paused(site: &Site, paused: bool, by: &str, reason: &str) -> EventDraft {
    let did = if paused { "paused" } else { "resumed" };
    let colon = if reason.is_empty() { "" } else { ": " };
    let fields = json!({"site": site, "paused": paused});
    let words = format!("{site} {did} by {by}{colon}{reason}");
    draft(EventKind::Site, words, fields)
}

/// A person answered drift. `answer`: `accepted` or `refused`. `note`: which resources stay, and why.
pub fn drift_answered(deletion: &str, answer: &str, by: &str, note: Option<&str>) -> EventDraft {
    let deletion = short_id(deletion);
    let note = note.map_or_else(String::new, |note| format!(": {note}"));
    let words = format!("drift of deletion {deletion} {answer} by {by}{note}");
    let fields = json!({"answer": answer});
    draft(EventKind::Drift, words, fields)
}

pub fn options_set(deletion: &str, options: &PlanOptions, by: &str) -> EventDraft {
    let words = format!("options of deletion {} set by {by}", short_id(deletion));
    let fields = json!({"options": options});
    draft(EventKind::Drift, words, fields)
}

/// A registry resource was written. `what`: `created` or `updated`.
pub fn registry_written(key: &ResourceKey, what: &str, by: &str) -> EventDraft {
    let fields = of(key, json!({"what": what}));
    draft(EventKind::Registry, format!("{key} {what} by {by}"), fields)
}

pub fn importer_recorded(importer: &Deployment) -> EventDraft {
    let Deployment {
        name,
        service,
        region,
    } = importer;
    let words = format!("deployment {name} ({service}/{region}) refers to resources of this one");
    let fields = json!({"deployment": name});
    draft(EventKind::Deployment, words, fields)
}

pub fn importer_released(name: &str, by: &str, steps: usize) -> EventDraft {
    let words = format!(
        "deployment {name} was released by {by}; steps that no longer wait for its clearance: {steps}"
    );
    draft(EventKind::Deployment, words, json!({"deployment": name}))
}

pub fn owner_replaced(name: &str) -> EventDraft {
    let words = format!("the ledger of deployment {name} was replaced, or restored from a backup");
    let fields = json!({"deployment": name});
    draft(EventKind::Deployment, words, fields)
}
