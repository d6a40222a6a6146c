//! The columns of every list: a heading, and the text that a row shows below it. They are data: a new column
//! is one line.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::output::{Column, Sheet};
use crate::control::{
    DeploymentStatus, Explanation, GateStatus, ImporterStatus, KindInfo, SiteProgress, SiteStatus,
    WatchStatus,
};
use crate::domain::attention::{self, CauseGroup};
use crate::domain::duration::rough;
use crate::domain::kinds::lookup;
use crate::domain::model::{Deletion, Orphan, Resource, Step, StepState, Tombstone, short_id};
use crate::present::{answer_words, blocker_words_in_full, target_in_full, time};

pub(super) const DELETIONS: &[Column<Deletion>] = &[
    ("ID", |row, list| suffix(&row.id, list.id_length).to_owned()),
    ("STATE", |row, _| row.state.as_str().to_owned()),
    ("TARGETS", |row, _| {
        joined(row.targets.iter().map(target_in_full))
    }),
    ("GONE", |row, _| row.counts.gone.to_string()),
    ("TOTAL", |row, _| row.counts.total.to_string()),
    ("BLOCKED", |row, _| row.counts.blocked.to_string()),
    ("STUCK", |row, _| row.counts.stuck.to_string()),
    ("BY", |row, _| row.requested_by.name.clone()),
    ("REQUESTED", |row, _| time(row.requested_at)),
    ("NOTE", |row, _| row.note.clone()),
];

/// Steps that wait for a person or for their next attempt. A refusal has no step and no attempts: its
/// deletion is retried.
pub(super) const WAITING_STEPS: &[Column<Step>] = &[
    ("STEP", |row, _| if_step(row, row.id.to_string())),
    ("DELETION", |row, _| short_id(&row.deletion_id).to_owned()),
    ("STATE", |row, _| match row.id {
        attention::REFUSAL_ID => "refused".to_owned(),
        _ => row.state.as_str().to_owned(),
    }),
    ("KIND", |row, _| row.resource.key.kind.to_string()),
    ("NAME", |row, _| row.resource.name.clone()),
    ("ID", |row, _| row.resource.key.id.clone()),
    ("SITE", |row, _| row.resource.key.site.to_string()),
    ("SINCE", |row, _| {
        let answered = row.last_error.as_ref().map(|error| error.at);
        or_empty(row.blocked_since.or(answered))
    }),
    ("ATTEMPTS", |row, _| {
        if_step(row, format!("{}/{}", row.attempts, row.max_attempts))
    }),
    ("NEXT", |row, _| or_empty(row.next_attempt_at)),
    ("BLOCKED BY", |row, _| blockers(row)),
    ("ANSWER", |row, _| {
        row.last_error
            .as_ref()
            .map(answer_words)
            .unwrap_or_default()
    }),
];

/// The result for each resource of a deletion.
pub(super) const RESULTS: &[Column<Step>] = &[
    ("STATE", |row, _| row.state.as_str().to_owned()),
    ("ACTION", |row, _| row.action.as_str().to_owned()),
    ("KIND", |row, _| row.resource.key.kind.to_string()),
    ("NAME", |row, _| row.resource.name.clone()),
    ("ID", |row, _| row.resource.key.id.clone()),
    ("SITE", |row, _| row.resource.key.site.to_string()),
    ("STATUS", |row, _| {
        let status = row.last_error.as_ref().and_then(|error| error.status);
        status.map(|status| status.to_string()).unwrap_or_default()
    }),
    ("WHY", |row, _| why(row)),
];

pub(super) const TOMBSTONES: &[Column<Tombstone>] = &[
    ("RECORD", |row, _| row.record_id.to_string()),
    ("STATE", |row, _| row.phase.as_str().to_owned()),
    ("KIND", |row, _| row.key.kind.to_string()),
    ("ID", |row, _| row.key.id.clone()),
    ("SITE", |row, _| row.key.site.to_string()),
    ("DELETED", |row, _| or_empty(row.deleted_at)),
    ("GONE", |row, _| or_empty(row.gone_at)),
    ("CAME BACK", |row, _| row.recreated.to_string()),
    ("INCARNATION", |row, _| row.incarnation.to_string()),
    ("DELETION", |row, _| short_id(&row.deletion_id).to_owned()),
];

pub(super) const PROGRESS: &[Column<SiteProgress>] = &[
    ("SITE", |row, _| row.site.to_string()),
    ("GONE", |row, _| row.counts.gone.to_string()),
    ("RUNNING", |row, _| {
        (row.counts.running + row.counts.verifying).to_string()
    }),
    ("WAITING", |row, _| {
        (row.counts.waiting + row.counts.ready).to_string()
    }),
    ("BLOCKED", |row, _| row.counts.blocked.to_string()),
    ("STUCK", |row, _| row.counts.stuck.to_string()),
    ("OTHERS", |row, _| {
        (row.counts.skipped + row.counts.purged).to_string()
    }),
    ("TOTAL", |row, _| row.counts.total.to_string()),
];

/// The resources that abandoned steps left behind.
pub(super) const ORPHANS: &[Column<Orphan>] = &[
    ("THERE", |row, _| row.there.as_str().to_owned()),
    ("KIND", |row, _| row.resource.key.kind.to_string()),
    ("NAME", |row, _| row.resource.name.clone()),
    ("ID", |row, _| row.resource.key.id.clone()),
    ("SITE", |row, _| row.resource.key.site.to_string()),
    ("PROJECT", |row, _| row.project_id.clone()),
    ("SINCE", |row, _| time(row.since)),
    ("DELETION", |row, _| short_id(&row.deletion_id).to_owned()),
    ("STEP", |row, _| row.step_id.to_string()),
    ("WHY", |row, _| row.why.clone()),
];

/// Steps and refused deletions that need a person, by their cause.
pub(super) const CAUSES: &[Column<CauseGroup>] = &[
    ("STATE", |row, _| row.cause.state.as_str().to_owned()),
    ("STEPS", |row, _| row.steps.to_string()),
    ("KIND", |row, _| row.cause.kind.to_string()),
    ("STATUS", |row, _| {
        row.cause
            .status
            .map_or_else(String::new, |it| it.to_string())
    }),
    ("TYPE", |row, _| {
        row.cause.error_type.clone().unwrap_or_default()
    }),
    ("CLASS", |row, _| {
        row.cause
            .class
            .map_or("", |class| class.as_str())
            .to_owned()
    }),
    ("SINCE", |row, _| time(row.since)),
    ("ONE OF THEM", |row, _| row.message.clone()),
];

pub(super) const GATES: &[Column<GateStatus>] = &[
    ("GATE", |row, _| row.listen.clone()),
    ("FOR", |row, _| row.source.clone()),
    ("SERVICE", |row, _| row.service.clone()),
    ("SITE", |row, _| row.site.to_string()),
    ("REQUESTS", |row, _| row.traffic.requests.to_string()),
    ("HIDDEN", |row, _| row.traffic.hidden.to_string()),
    ("DELETING", |row, _| row.traffic.deleting.to_string()),
    ("REFUSED", |row, _| row.traffic.refused.to_string()),
    ("ACCEPTED", |row, _| row.traffic.accepted.to_string()),
    ("FAILED", |row, _| row.traffic.failed.to_string()),
];

/// Whether this deployment and each other one watch each other, and how many steps wait for its clearance.
pub(super) const DEPLOYMENTS: &[Column<DeploymentStatus>] = &[
    ("NAME", |row, _| row.name.clone().unwrap_or_default()),
    ("SERVICE/REGION", |row, _| row.place()),
    ("WE WATCH", |row, list| {
        row.watch
            .as_ref()
            .map_or_else(|| "no".to_owned(), |watch| watched(watch, list.now))
    }),
    ("IT WATCHES", |row, list| {
        row.importer
            .as_ref()
            .map_or_else(|| "no".to_owned(), |importer| watches(importer, list.now))
    }),
    ("CLEARANCES", |row, _| {
        row.importer
            .as_ref()
            .map_or_else(String::new, |it| it.awaited.to_string())
    }),
    ("REASON", |row, _| row.reasons().join("; ")),
];

pub(super) const SITES: &[Column<SiteStatus>] = &[
    ("SITE", |row, _| row.site.to_string()),
    ("STATE", |row, _| row.state.as_str().to_owned()),
    ("LATENCY MS", |row, _| {
        row.latency_ms.map(|ms| ms.to_string()).unwrap_or_default()
    }),
    ("ERRORS %", |row, _| {
        row.error_percent
            .map(|it| it.to_string())
            .unwrap_or_default()
    }),
    ("IN FLIGHT", |row, _| row.in_flight.to_string()),
    ("LIMIT", |row, _| row.concurrency_limit.to_string()),
    ("READ ONLY", |row, _| {
        if row.read_only { "yes" } else { "no" }.to_owned()
    }),
    ("AS USER", |row, _| row.as_user.clone()),
    ("REASON", |row, _| row.reason.clone()),
];

/// Returns one row for each finding about why resources are not deleted.
pub(super) fn findings(explanations: &[Explanation]) -> Sheet {
    let mut sheet = Sheet::new(["KIND", "NAME", "ID", "SITE", "FINDING"]);
    for one in explanations {
        let blockers = one.blockers.iter();
        let blockers =
            blockers.map(|blocker| format!("blocked by {}", blocker_words_in_full(blocker)));
        let refusals = one.refused.iter().map(|refusal| refusal.reason.clone());
        let next = (!one.next_action.is_empty()).then(|| format!("next: {}", one.next_action));
        let findings = one.lines.iter().cloned();
        for finding in findings.chain(blockers).chain(refusals).chain(next) {
            let key = &one.target.key;
            sheet.push([
                key.kind.to_string(),
                one.target.name.clone(),
                key.id.clone(),
                key.site.to_string(),
                finding,
            ]);
        }
    }
    sheet
}

/// Returns the columns that the kind names, between those that every resource has.
pub(super) fn resources(kind: Option<&KindInfo>, rows: &[Resource]) -> Sheet {
    let own: Vec<&(String, String)> = kind.iter().flat_map(|kind| &kind.columns).collect();
    let is_common = |heading: &str| ["ID", "NAME", "PROJECT"].contains(&heading);
    let own: Vec<(String, &str)> = own
        .into_iter()
        .map(|(heading, path)| (heading.to_uppercase(), path.as_str()))
        .filter(|(heading, _)| !is_common(heading))
        .collect();
    let headings = ["NAME", "ID"].into_iter().map(str::to_owned);
    let headings = headings.chain(own.iter().map(|(heading, _)| heading.clone()));
    let mut sheet = Sheet::new(headings.chain(["PROJECT".to_owned(), "SITE".to_owned()]));
    for row in rows {
        let cells = own
            .iter()
            .map(|(_, path)| lookup(&row.attributes, path).join(", "));
        let head = [row.name.clone(), row.key.id.clone()];
        let tail = [row.project_id.clone(), row.key.site.to_string()];
        sheet.push(head.into_iter().chain(cells).chain(tail));
    }
    sheet
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("; ")
}

fn or_empty(at: Option<DateTime<Utc>>) -> String {
    at.map(time).unwrap_or_default()
}

/// Returns the text, or nothing for a refusal, which is no step.
fn if_step(row: &Step, text: String) -> String {
    match row.id {
        attention::REFUSAL_ID => String::new(),
        _ => text,
    }
}

pub(super) fn blockers(step: &Step) -> String {
    joined(step.blockers.iter().map(blocker_words_in_full))
}

/// Tells why a step has not succeeded; empty if it has.
fn why(step: &Step) -> String {
    if !step.state.is_live() && step.state != StepState::Stuck {
        return String::new();
    }
    let message = step.last_error.as_ref().map(|error| error.message.clone());
    let blockers = blockers(step);
    let blocked = (!blockers.is_empty()).then(|| format!("blocked by {blockers}"));
    let parts: Vec<String> = blocked.into_iter().chain(message).collect();
    parts.join(": ")
}

fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} ago", rough((now - at).num_seconds()))
}

fn watched(watch: &WatchStatus, now: DateTime<Utc>) -> String {
    let word = if watch.fresh { "yes" } else { "stale" };
    let heard = watch.heard_at.map(|at| format!("heard {}", ago(at, now)));
    format!("{word}, {}", heard.as_deref().unwrap_or("not heard"))
}

fn watches(importer: &ImporterStatus, now: DateTime<Utc>) -> String {
    let since = importer.since.map(|at| format!("since {}", time(at)));
    let seen = importer.seen_at.map(|at| format!("seen {}", ago(at, now)));
    let seen = seen.unwrap_or_else(|| "not seen".to_owned());
    let facts = since
        .into_iter()
        .chain([seen, format!("lag {}", importer.lag)]);
    facts.collect::<Vec<_>>().join(", ")
}

/// Returns how many of the last characters tell these ids apart; at least 8.
pub(super) fn unique_length<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    let ids: BTreeSet<&str> = ids.collect();
    let longest = ids.iter().map(|id| id.len()).max().unwrap_or_default();
    let tells_apart = |length: &usize| {
        let suffixes: BTreeSet<&str> = ids.iter().map(|id| suffix(id, *length)).collect();
        suffixes.len() == ids.len()
    };
    (8..=longest).find(tells_apart).unwrap_or(8.max(longest))
}

fn suffix(id: &str, length: usize) -> &str {
    let cut = id.len().saturating_sub(length);
    id.get(cut..).unwrap_or(id)
}
