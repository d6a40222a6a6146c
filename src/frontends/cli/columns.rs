//! The columns of lists, as data: a new column is one line, with its heading, its weight (see
//! [`crate::present::Column`]), and the text that a row shows below the heading.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use crate::control::{DeploymentStatus, GateStatus, KindInfo, SiteProgress, SiteStatus};
use crate::domain::activity::ReconcilerStatus;
use crate::domain::attention::{self, CauseGroup};
use crate::domain::duration::rough;
use crate::domain::engines::EngineRow;
use crate::domain::kinds::lookup;
use crate::domain::model::{Deletion, Orphan, Resource, Step, Target, Tombstone, short_id};
use crate::present::{
    Column, Sheet, activity_words, answer_words, blocked_reason, columns, lease_words, or_empty,
    run_time, targets_in_full, time, time_or_empty, unfinished_reason,
};

columns! {
    /// Deletions, each with the number of last characters that tell the ids of the list apart.
    DELETIONS: (Deletion, usize), |row|
    "ID" 9 => suffix(&row.0.id, row.1);
    "STATE" 9 => row.0.state.as_str();
    "TARGETS" 8 => targets_in_full(&row.0.targets);
    "GONE" 7 => row.0.counts.gone;
    "TOTAL" 7 => row.0.counts.total;
    "BLOCKED" 6 => row.0.counts.blocked;
    "STUCK" 6 => row.0.counts.stuck;
    "BY" 4 => row.0.requested_by.name;
    "REQUESTED" 3 => time(row.0.requested_at);
    "NOTE" 5 => row.0.note;

    /// Steps that wait for a person or for their next attempt. A refusal has no step and no attempts: its
    /// deletion is retried.
    pub(super) WAITING_STEPS: Step, |row|
    "STEP" 9 => if_step(row, row.id.to_string());
    "DELETION" 9 => short_id(&row.deletion_id);
    "STATE" 9 => match row.id {
        attention::REFUSAL_ID => "refused".to_owned(),
        _ => row.state.as_str().to_owned(),
    };
    "KIND" 8 => row.resource.key.kind;
    "NAME" 8 => row.resource.name;
    "ID" 4 => row.resource.key.id;
    "SITE" 3 => row.resource.key.site;
    "SINCE" 2 => {
        let answered = row.last_error.as_ref().map(|error| error.at);
        time_or_empty(row.blocked_since.or(answered))
    };
    "ATTEMPTS" 1 => if_step(row, format!("{}/{}", row.attempts, row.max_attempts));
    "NEXT" 2 => time_or_empty(row.next_attempt_at);
    // The blocker comes first, because a narrow table shows only the beginning.
    "WHY" 7 => blocked_reason(row, row.last_error.as_ref().map(answer_words));

    /// The result for each resource of a deletion.
    pub(super) RESULTS: Step, |row|
    "STATE" 9 => row.state.as_str();
    "ACTION" 4 => row.action.as_str();
    "KIND" 8 => row.resource.key.kind;
    "NAME" 8 => row.resource.name;
    "ID" 6 => row.resource.key.id;
    "SITE" 3 => row.resource.key.site;
    "STATUS" 5 => or_empty(row.last_error.as_ref().and_then(|error| error.status));
    "WHY" 7 => unfinished_reason(row);

    pub(super) TOMBSTONES: Tombstone, |row|
    "RECORD" 1 => row.record_id;
    "STATE" 9 => row.phase.as_str();
    "KIND" 9 => row.key.kind;
    "ID" 8 => row.key.id;
    "SITE" 7 => row.key.site;
    "DELETED" 4 => time_or_empty(row.deleted_at);
    "GONE" 5 => time_or_empty(row.gone_at);
    "RE-CREATED" 3 => row.recreated;
    "INCARNATION" 2 => row.incarnation;
    "DELETION" 6 => short_id(&row.deletion_id);

    pub(super) PROGRESS: SiteProgress, |row|
    "SITE" 9 => row.site;
    "GONE" 9 => row.counts.gone;
    "RUNNING" 7 => row.counts.running + row.counts.verifying;
    "WAITING" 7 => row.counts.waiting + row.counts.ready;
    "BLOCKED" 8 => row.counts.blocked;
    "STUCK" 8 => row.counts.stuck;
    "OTHERS" 6 => row.counts.skipped + row.counts.purged;
    "TOTAL" 9 => row.counts.total;

    /// The resources that abandoned steps left behind.
    pub(super) ORPHANS: Orphan, |row|
    "THERE" 9 => row.there.as_str();
    "KIND" 9 => row.resource.key.kind;
    "NAME" 8 => row.resource.name;
    "ID" 7 => row.resource.key.id;
    "SITE" 6 => row.resource.key.site;
    "PROJECT" 3 => row.project_id;
    "SINCE" 2 => time(row.since);
    "DELETION" 4 => short_id(&row.deletion_id);
    "STEP" 4 => row.step_id;
    "WHY" 5 => row.why;

    /// Steps that need a person, by their cause.
    pub(super) CAUSES: CauseGroup, |row|
    "STATE" 9 => row.cause.state.as_str();
    "STEPS" 9 => row.steps;
    "KIND" 9 => row.cause.kind;
    "STATUS" 8 => or_empty(row.cause.status);
    "TYPE" 8 => or_empty(row.cause.error_type.as_ref());
    "CLASS" 5 => or_empty(row.cause.class.map(|class| class.as_str()));
    "SINCE" 4 => time(row.since);
    "ONE OF THEM" 6 => row.message;

    pub(super) GATES: GateStatus, |row|
    "GATE" 9 => row.listen;
    "FOR" 5 => row.source;
    "SERVICE" 8 => row.service;
    "SITE" 8 => row.site;
    "REQUESTS" 7 => row.traffic.requests;
    "HIDDEN" 6 => row.traffic.hidden;
    "DELETING" 6 => row.traffic.deleting;
    "REFUSED" 7 => row.traffic.refused;
    "ACCEPTED" 6 => row.traffic.accepted;
    "FAILED" 7 => row.traffic.failed;

    /// Other deployments, each with the time of the list: whether this deployment and the other one watch each other,
    /// and how many steps wait for the clearance of the other one.
    pub(super) DEPLOYMENTS: (DeploymentStatus, DateTime<Utc>), |row|
    "NAME" 9 => row.0.name.clone().unwrap_or_default();
    "SERVICE/REGION" 9 => row.0.service_and_region();
    "WE WATCH" 6 => match &row.0.watch {
        None => "no".to_owned(),
        Some(watch) => {
            let word = if watch.fresh { "yes" } else { "stale" };
            let answered = watch.answered_at.map(|at| format!("answered {}", ago(at, row.1)));
            format!("{word}, {}", answered.as_deref().unwrap_or("no answer"))
        }
    };
    "IT WATCHES" 6 => match &row.0.importer {
        None => "no".to_owned(),
        Some(importer) => {
            let since = importer.since.map(|at| format!("since {}, ", time(at)));
            let contact = importer.last_contact_at.map(|at| format!("last contact {}", ago(at, row.1)));
            let contact = contact.as_deref().unwrap_or("no contact");
            format!("{}{contact}, lag {}", since.unwrap_or_default(), importer.lag)
        }
    };
    "CLEARANCES" 8 => or_empty(row.0.importer.as_ref().map(|importer| importer.pending_clearances));
    "REASON" 7 => row.0.reasons().join("; ");

    pub(super) SITES: SiteStatus, |row|
    "SITE" 9 => row.site;
    "STATE" 9 => row.state.as_str();
    "LATENCY MS" 5 => or_empty(row.latency_ms);
    "ERRORS %" 6 => or_empty(row.error_percent);
    "IN FLIGHT" 4 => row.in_flight;
    "LIMIT" 3 => row.concurrency_limit;
    "READ ONLY" 7 => if row.read_only { "yes" } else { "no" }.to_owned();
    "AS USER" 4 => row.as_user;
    "REASON" 8 => row.reason;

    /// Findings of `gone explain`, each with its resource.
    pub(super) FINDINGS: (Target, String), |row|
    "KIND" 9 => row.0.key.kind;
    "NAME" 9 => row.0.name;
    "ID" 9 => row.0.key.id;
    "SITE" 9 => row.0.key.site;
    "FINDING" 9 => row.1;

    /// The engine's reconcilers: what each does, did last and does next.
    pub(super) RECONCILERS: ReconcilerStatus, |row|
    "RECONCILER" 9 => row.name.as_str();
    "DOING" 9 => activity_words(row);
    "SINCE" 5 => time(row.since);
    "LAST RUN" 7 => time_or_empty(row.last_run_at);
    "TOOK" 6 => or_empty(row.last_run_ms.map(run_time));
    "NEXT RUN" 7 => time_or_empty(row.next_run_at);
    "LAST ERROR" 8 => or_empty(row.last_error.as_ref().map(|error| &error.message));
    "FAILED" 4 => time_or_empty(row.last_error.as_ref().map(|error| error.at));

    /// The engines that share a ledger, each with the time at which the list was read.
    pub(super) ENGINES: (EngineRow, DateTime<Utc>), |row|
    "ENGINE" 9 => row.0.name;
    "ROLE" 9 => row.0.role.as_str();
    "STEPS" 8 => row.0.running;
    "LEASE" 7 => lease_words(&row.0, row.1);
    "HOST" 6 => row.0.host;
    "PID" 5 => row.0.pid;
    "VERSION" 5 => row.0.version;
    "STARTED" 4 => time(row.0.started_at);
    "EPOCH" 3 => row.0.epoch;
}

pub(super) fn deletions(rows: &[Deletion]) -> Sheet {
    let length = unique_length(rows.iter().map(|row| row.id.as_str()));
    with(length, DELETIONS, rows)
}

/// Returns a table of rows whose columns need a value besides the row, such as the time of the list.
pub(super) fn with<V: Copy, R: Clone>(value: V, columns: &[Column<(R, V)>], rows: &[R]) -> Sheet {
    let rows: Vec<_> = rows.iter().map(|row| (row.clone(), value)).collect();
    Sheet::of(columns, &rows)
}

/// Returns a table of resources, with the columns that their kind names between those that every resource has.
pub(super) fn resources(kind: &KindInfo, rows: &[Resource]) -> Sheet {
    let own = kind.columns.iter();
    let own = own.map(|(heading, path)| (heading.to_uppercase(), path));
    let own = own.filter(|(heading, _)| !["ID", "NAME", "PROJECT"].contains(&heading.as_str()));
    let own: Vec<(String, &String)> = own.collect();
    let common = |heading: &str, weight| (heading.to_owned(), weight);
    let headings = [common("NAME", 9), common("ID", 8)].into_iter();
    let headings = headings.chain(own.iter().map(|(heading, _)| (heading.clone(), 5)));
    let mut sheet = Sheet::new(headings.chain([common("PROJECT", 4), common("SITE", 7)]));
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

/// Returns the text, or an empty one for a refusal, which has no step.
fn if_step(row: &Step, text: String) -> String {
    match row.id {
        attention::REFUSAL_ID => String::new(),
        _ => text,
    }
}

pub(super) fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} ago", rough((now - at).num_seconds()))
}

/// Returns how many of the last characters tell these ids apart; at least 8.
fn unique_length<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
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
