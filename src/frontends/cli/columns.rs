//! The columns of what is listed. Pure: rows in, a [`Sheet`] out.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::output::Sheet;
use super::plan_view::{blocked_by, target};
use super::time;
use crate::control::{
    DeploymentStatus, Explanation, GateStatus, ImporterStatus, KindInfo, SiteProgress, SiteState,
    SiteStatus, WatchStatus,
};
use crate::domain::attention::{self, CauseGroup};
use crate::domain::duration::rough;
use crate::domain::kinds::lookup;
use crate::domain::model::{Deletion, Orphan, Resource, Step, StepError, Tombstone, short_id};

pub fn deletions(rows: &[Deletion]) -> Sheet {
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let length = unique_length(&ids);
    let mut sheet = Sheet::new([
        "ID",
        "STATE",
        "TARGETS",
        "GONE",
        "TOTAL",
        "BLOCKED",
        "STUCK",
        "BY",
        "REQUESTED",
        "NOTE",
    ]);
    for row in rows {
        let targets: Vec<String> = row.targets.iter().map(target).collect();
        sheet.push([
            suffix(&row.id, length).to_owned(),
            row.state.as_str().to_owned(),
            targets.join("; "),
            row.counts.gone.to_string(),
            row.counts.total.to_string(),
            row.counts.blocked.to_string(),
            row.counts.stuck.to_string(),
            row.requested_by.name.clone(),
            time(row.requested_at),
            row.note.clone(),
        ]);
    }
    sheet
}

/// What waits for a person or for its next attempt: since when, tried how often, and why. A refusal
/// has no step and no attempts: it is retried by its deletion.
pub fn waiting_steps(rows: &[Step]) -> Sheet {
    let mut sheet = Sheet::new([
        "STEP",
        "DELETION",
        "STATE",
        "KIND",
        "NAME",
        "ID",
        "SITE",
        "SINCE",
        "ATTEMPTS",
        "NEXT",
        "BLOCKED BY",
        "ANSWER",
    ]);
    for row in rows {
        let key = &row.resource.key;
        let (id, state, attempts) = match row.id {
            attention::REFUSAL_ID => (String::new(), "refused", String::new()),
            id => (
                id.to_string(),
                row.state.as_str(),
                format!("{}/{}", row.attempts, row.max_attempts),
            ),
        };
        sheet.push([
            id,
            short_id(&row.deletion_id).to_owned(),
            state.to_owned(),
            key.kind.to_string(),
            row.resource.name.clone(),
            key.id.clone(),
            key.site.to_string(),
            since(row).map(time).unwrap_or_default(),
            attempts,
            row.next_attempt_at.map(time).unwrap_or_default(),
            blockers(row),
            row.last_error.as_ref().map(answer).unwrap_or_default(),
        ]);
    }
    sheet
}

/// One result per step: what became of each resource.
pub fn results(rows: &[Step]) -> Sheet {
    let mut sheet = Sheet::new([
        "STATE", "ACTION", "KIND", "NAME", "ID", "SITE", "STATUS", "WHY",
    ]);
    for row in rows {
        let key = &row.resource.key;
        let status = row.last_error.as_ref().and_then(|error| error.status);
        let blockers = blockers(row);
        let why = match (&row.last_error, blockers.as_str()) {
            (_, _)
                if !row.state.is_live() && row.state != crate::domain::model::StepState::Stuck =>
            {
                String::new()
            }
            (Some(error), "") => error.message.clone(),
            (Some(error), _) => format!("blocked by {blockers}: {}", error.message),
            (None, "") => String::new(),
            (None, _) => format!("blocked by {blockers}"),
        };
        sheet.push([
            row.state.as_str().to_owned(),
            row.action.as_str().to_owned(),
            key.kind.to_string(),
            row.resource.name.clone(),
            key.id.clone(),
            key.site.to_string(),
            status.map(|status| status.to_string()).unwrap_or_default(),
            why,
        ]);
    }
    sheet
}

pub fn tombstones(rows: &[Tombstone]) -> Sheet {
    let mut sheet = Sheet::new([
        "RECORD",
        "STATE",
        "KIND",
        "ID",
        "SITE",
        "DELETED",
        "GONE",
        "CAME BACK",
        "INCARNATION",
        "DELETION",
    ]);
    for row in rows {
        sheet.push([
            row.record_id.to_string(),
            row.phase.as_str().to_owned(),
            row.key.kind.to_string(),
            row.key.id.clone(),
            row.key.site.to_string(),
            row.deleted_at.map(time).unwrap_or_default(),
            row.gone_at.map(time).unwrap_or_default(),
            row.recreated.to_string(),
            row.incarnation.to_string(),
            short_id(&row.deletion_id).to_owned(),
        ]);
    }
    sheet
}

pub fn progress(rows: &[SiteProgress]) -> Sheet {
    let mut sheet = Sheet::new([
        "SITE", "GONE", "RUNNING", "WAITING", "BLOCKED", "STUCK", "OTHERS", "TOTAL",
    ]);
    for SiteProgress { site, counts } in rows {
        let numbers = [
            counts.gone,
            counts.running + counts.verifying,
            counts.waiting + counts.ready,
            counts.blocked,
            counts.stuck,
            counts.skipped + counts.purged,
            counts.total,
        ];
        let numbers = numbers.iter().map(u64::to_string);
        sheet.push([site.to_string()].into_iter().chain(numbers));
    }
    sheet
}

/// What was given up: whether it is there still, and what its last attempt met.
pub fn orphans(rows: &[Orphan]) -> Sheet {
    let mut sheet = Sheet::new([
        "THERE", "KIND", "NAME", "ID", "SITE", "PROJECT", "SINCE", "DELETION", "STEP", "WHY",
    ]);
    for row in rows {
        let key = &row.resource.key;
        sheet.push([
            row.there.as_str().to_owned(),
            key.kind.to_string(),
            row.resource.name.clone(),
            key.id.clone(),
            key.site.to_string(),
            row.project_id.clone(),
            time(row.since),
            short_id(&row.deletion_id).to_owned(),
            row.step_id.to_string(),
            row.why.clone(),
        ]);
    }
    sheet
}

/// What needs a person, by why it does not move.
pub fn causes(rows: &[CauseGroup]) -> Sheet {
    let mut sheet = Sheet::new([
        "STATE",
        "STEPS",
        "KIND",
        "STATUS",
        "TYPE",
        "CLASS",
        "SINCE",
        "ONE OF THEM",
    ]);
    for row in rows {
        let cause = &row.cause;
        let class = cause.class.map(|class| class.as_str().to_owned());
        sheet.push([
            cause.state.as_str().to_owned(),
            row.steps.to_string(),
            cause.kind.to_string(),
            cause.status.map_or_else(String::new, |it| it.to_string()),
            cause.error_type.clone().unwrap_or_default(),
            class.unwrap_or_default(),
            time(row.since),
            row.message.clone(),
        ]);
    }
    sheet
}

pub fn gates(rows: &[GateStatus]) -> Sheet {
    let mut sheet = Sheet::new([
        "LISTENS", "FOR", "SERVICE", "SITE", "REQUESTS", "HIDDEN", "DELETING", "REFUSED",
        "ACCEPTED", "FAILED",
    ]);
    for row in rows {
        sheet.push([
            row.listen.clone(),
            row.source.clone(),
            row.service.clone(),
            row.site.to_string(),
            row.traffic.requests.to_string(),
            row.traffic.hidden.to_string(),
            row.traffic.deleting.to_string(),
            row.traffic.refused.to_string(),
            row.traffic.accepted.to_string(),
            row.traffic.failed.to_string(),
        ]);
    }
    sheet
}

/// Whether each side hears the other, as of `now`, and what waits for its word.
pub fn deployments(rows: &[DeploymentStatus], now: DateTime<Utc>) -> Sheet {
    let mut sheet = Sheet::new([
        "NAME",
        "SERVICE/REGION",
        "WE WATCH",
        "IT WATCHES",
        "WAITED FOR",
        "REASON",
    ]);
    let ago = |at: DateTime<Utc>| format!("{} ago", rough((now - at).num_seconds()));
    let watched = |watch: &WatchStatus| {
        let word = if watch.fresh { "yes" } else { "stale" };
        let heard = watch.heard_at.map(ago);
        let heard = heard.map_or_else(|| "not heard".to_owned(), |ago| format!("heard {ago}"));
        format!("{word}, {heard}")
    };
    let watches = |importer: &ImporterStatus| {
        let since = importer.since.map(|at| format!("since {}", time(at)));
        let seen = importer.seen_at.map(ago);
        let seen = seen.map_or_else(|| "not seen".to_owned(), |ago| format!("seen {ago}"));
        let facts = since.into_iter().chain([seen]);
        let facts: Vec<String> = facts.chain([format!("lag {}", importer.lag)]).collect();
        facts.join(", ")
    };
    for row in rows {
        let (watch, importer) = (row.watch.as_ref(), row.importer.as_ref());
        sheet.push([
            row.name.clone().unwrap_or_default(),
            row.place(),
            watch.map_or_else(|| "no".to_owned(), watched),
            importer.map_or_else(|| "no".to_owned(), watches),
            importer.map_or_else(String::new, |it| it.awaited.to_string()),
            row.reasons().join("; "),
        ]);
    }
    sheet
}

pub fn sites(rows: &[SiteStatus]) -> Sheet {
    let mut sheet = Sheet::new([
        "SITE",
        "STATE",
        "LATENCY MS",
        "ERRORS %",
        "IN FLIGHT",
        "LIMIT",
        "READ ONLY",
        "AS USER",
        "REASON",
    ]);
    for row in rows {
        let state = match row.state {
            SiteState::Unknown => "unknown",
            SiteState::Reachable => "reachable",
            SiteState::Unreachable => "unreachable",
            SiteState::Paused => "paused",
        };
        sheet.push([
            row.site.to_string(),
            state.to_owned(),
            row.latency_ms.map(|ms| ms.to_string()).unwrap_or_default(),
            row.error_percent
                .map(|it| it.to_string())
                .unwrap_or_default(),
            row.in_flight.to_string(),
            row.concurrency_limit.to_string(),
            if row.read_only { "yes" } else { "no" }.to_owned(),
            row.as_user.clone(),
            row.reason.clone(),
        ]);
    }
    sheet
}

/// What was found out of why resources do not go, one finding a row.
pub fn findings(explanations: &[Explanation]) -> Sheet {
    let mut sheet = Sheet::new(["KIND", "NAME", "ID", "SITE", "FINDING"]);
    for one in explanations {
        let blockers = one.blockers.iter();
        let blockers = blockers.map(|blocker| format!("blocked by {}", blocked_by(blocker)));
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

/// The columns that the kind names, between what every resource has.
pub fn resources(kind: Option<&KindInfo>, rows: &[Resource]) -> Sheet {
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

/// `409 NetworkInUse: …`, as the cloud said it.
pub(super) fn answer(error: &StepError) -> String {
    let status = error.status.map(|status| format!("{status} "));
    let head = format!("{}{}", status.unwrap_or_default(), error.kind);
    let head = match head.trim() {
        "" => error.class.as_str(),
        head => head,
    };
    let request = match error.request_id.as_str() {
        "" => String::new(),
        id => format!(" ({id})"),
    };
    format!("{head}: {}{request}", error.message)
}

pub(super) fn blockers(step: &Step) -> String {
    let all: Vec<String> = step.blockers.iter().map(blocked_by).collect();
    all.join("; ")
}

pub(super) fn since(step: &Step) -> Option<DateTime<Utc>> {
    let answered = step.last_error.as_ref().map(|error| error.at);
    step.blocked_since.or(answered)
}

/// How many of the last characters tell these ids apart; at least 8.
fn unique_length(ids: &[&str]) -> usize {
    let longest = ids.iter().map(|id| id.len()).max().unwrap_or_default();
    let tells_apart = |length: &usize| {
        let mut seen = BTreeMap::new();
        ids.iter().all(|id| {
            seen.insert(suffix(id, *length), *id)
                .is_none_or(|other| other == *id)
        })
    };
    (8..=longest).find(tells_apart).unwrap_or(8.max(longest))
}

fn suffix(id: &str, length: usize) -> &str {
    let cut = id.len().saturating_sub(length);
    id.get(cut..).unwrap_or(id)
}
