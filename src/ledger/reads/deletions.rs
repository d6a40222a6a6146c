//! Deletions and their plans.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{PAGE_MAX, requests_of};
use crate::domain::estimate;
use crate::domain::model::{
    Actor, Counts, Deletion, DeletionState, Identity, Paged, Plan, PlanStep, Site, StepState,
};
use crate::ledger::store::{
    DeletionReads, KEPT, LedgerReads, Stored, StoredDeletion, StoredRequest,
};
use crate::ledger::working_set::STEPS_IN_MEMORY_MAX;
use crate::ledger::{DeletionFilter, KeptRequest};

/// A deletion with more blocked steps than this is shown without its next attempt, because each read of the deletion
/// would search them all.
const BLOCKED_READ_MAX: u64 = 1_000;

/// Number of characters of the shortest suffix that names a deletion.
const SHORT_ID: usize = 8;

/// Finds a deletion by its full id, or by a suffix that only one deletion has.
pub fn deletion<R: LedgerReads>(rows: &R, id: &str) -> Stored<R, Option<Deletion>> {
    let found = match rows.find_deletion(id)? {
        Some(num) => vec![num],
        None if id.len() < SHORT_ID => Vec::new(),
        None => rows.find_deletions_ending(id, 2)?,
    };
    match found.as_slice() {
        [num] => by_num(rows, *num),
        _ => Ok(None),
    }
}

pub fn by_num<R: LedgerReads>(rows: &R, num: i64) -> Stored<R, Option<Deletion>> {
    Ok(by_nums(rows, &[num])?.into_iter().next())
}

/// The deletions with these numbers, in the same order.
fn by_nums<R: LedgerReads>(rows: &R, nums: &[i64]) -> Stored<R, Vec<Deletion>> {
    // The time of the newest event serves as now: readers have no clock that a simulation could set.
    let latest = rows.event_range()?.latest_at;
    let mut requests = requests_of(rows, nums.iter().copied())?;
    let mut found = Vec::with_capacity(nums.len());
    for row in rows.load_deletions(nums)? {
        let num = row.num;
        let Some(request) = requests.remove(&num) else {
            continue;
        };
        let mut deletion = shown(row, request, latest);
        if estimate::is_blocked(&deletion) && deletion.counts.blocked <= BLOCKED_READ_MAX {
            deletion.next_attempt_at = rows.find_next_attempt(num)?;
        }
        found.push(deletion);
    }
    Ok(found)
}

/// A deletion for front ends, without its next attempt.
fn shown(row: StoredDeletion, request: StoredRequest, latest: Option<DateTime<Utc>>) -> Deletion {
    let counts = row.counts;
    let is_under_way =
        row.state == DeletionState::Running && counts.ready + counts.running + counts.verifying > 0;
    let rate_per_second = latest
        .filter(|_| is_under_way)
        .map_or(0.0, |latest| row.pace.rate_per_second(&counts, latest));
    let left = (counts.live() - counts.verifying).max(1) as f64;
    let has_end = rate_per_second > 0.0 && counts.blocked == 0;
    Deletion {
        id: row.id,
        targets: request.targets,
        state: row.state,
        requested_by: request.actor,
        requested_at: request.requested_at,
        reason: request.reason,
        cause: request.cause,
        options: request.options,
        plan_hash: request.plan_hash,
        counts,
        rate_per_second,
        // A cast of a float saturates.
        eta_seconds: has_end.then(|| (left / rate_per_second).ceil() as u64),
        next_attempt_at: None,
        finished_at: row.finished_at,
        refused: request.refused,
        note: row.note,
        deadline: request.deadline,
    }
}

/// Lists deletions, the newest first, or the oldest first if the filter says so. The cursor is the number of the last
/// one.
pub fn page<R: LedgerReads>(
    rows: &R,
    filter: &DeletionFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Stored<R, Paged<Deletion>> {
    let after = after.map(|[num]| num);
    let mut found = rows.find_deletions(filter, after, limit + 1)?;
    let more = found.len() > limit;
    found.truncate(limit);
    Ok(Paged {
        rows: by_nums(rows, &found)?,
        next: found.last().filter(|_| more).map(ToString::to_string),
    })
}

/// Passes the request of each deletion that matches the filter to `visit`, the oldest deletion first.
pub fn each_request<R: DeletionReads>(
    rows: &R,
    filter: DeletionFilter,
    mut visit: impl FnMut(StoredRequest),
) -> Stored<R> {
    let filter = DeletionFilter {
        oldest_first: true,
        ..filter
    };
    let mut after = None;
    loop {
        let found = rows.find_deletions(&filter, after, PAGE_MAX)?;
        after = found.last().copied();
        for (_, request) in rows.load_requests(&found)? {
            visit(request);
        }
        if found.len() < PAGE_MAX {
            return Ok(());
        }
    }
}

pub fn progress<R: LedgerReads>(rows: &R, id: &str) -> Stored<R, Vec<(Site, Counts)>> {
    let mut progress: Vec<(Site, Counts)> = Vec::new();
    let Some(num) = rows.find_deletion(id)? else {
        return Ok(progress);
    };
    for (site, state, number) in rows.count_by_site(num)? {
        if progress.last().is_none_or(|(last, _)| *last != site) {
            progress.push((site, Counts::default()));
        }
        if let Some((_, counts)) = progress.last_mut() {
            *counts.of_mut(state) += number;
            counts.total += number;
        }
    }
    Ok(progress)
}

pub fn identities<R: LedgerReads>(rows: &R, id: &str) -> Stored<R, BTreeMap<String, Identity>> {
    let found = match rows.find_deletion(id)? {
        Some(num) => rows.load_identities(num)?,
        None => None,
    };
    Ok(found.unwrap_or_default())
}

/// The plan that has started, from its header and its steps.
pub fn frozen_plan<R: LedgerReads>(
    rows: &R,
    id: &str,
    with_steps: bool,
) -> Stored<R, Option<Arc<Plan>>> {
    let Some(num) = rows.find_deletion(id)? else {
        return Ok(None);
    };
    let Some(mut plan) = rows.load_frozen(num)? else {
        return Ok(None);
    };
    if with_steps {
        plan.steps = planned_steps(rows, num)?;
    }
    Ok(Some(Arc::new(plan)))
}

/// The planned steps in the order of their ids, without steps that were pruned.
fn planned_steps<R: LedgerReads>(rows: &R, num: i64) -> Stored<R, Vec<PlanStep>> {
    let mut ids = Vec::new();
    for state in StepState::ALL {
        ids.extend(rows.find_in_state(num, state)?);
    }
    ids.sort_unstable();
    let mut steps = Vec::with_capacity(ids.len());
    for part in ids.chunks(STEPS_IN_MEMORY_MAX) {
        let mut before: HashMap<i64, Vec<i64>> = HashMap::new();
        for (dependency, dependent) in rows.load_dependencies(part, None)? {
            before.entry(dependent).or_default().push(dependency);
        }
        for row in rows.load_step_rows(part)? {
            let (step, plan) = (row.now, row.plan);
            let first = step.id - i64::from(plan.position);
            let before = before.remove(&step.id).unwrap_or_default().into_iter();
            let mut depends_on: Vec<u32> = before
                .map(|id| u32::try_from(id - first).unwrap_or_default())
                .collect();
            depends_on.sort_unstable();
            steps.push(PlanStep {
                id: plan.position,
                site: step.key.site,
                kind: step.key.kind,
                resource_id: step.key.id,
                action: step.action,
                name: step.name,
                project_id: plan.project_id.into(),
                depends_on,
                // Resources that the cloud removes by itself are not steps.
                automatic: false,
                why: plan.why.into(),
                fingerprint: plan.fingerprint,
                vars: Arc::new(plan.vars),
                compared: Default::default(),
            });
        }
    }
    Ok(steps)
}

pub fn plan<R: DeletionReads>(
    rows: &R,
    hash: &str,
    now: DateTime<Utc>,
) -> Stored<R, Option<Arc<Plan>>> {
    Ok(rows.load_plan(hash, now - KEPT)?.map(Arc::new))
}

pub fn kept_request<R: DeletionReads>(
    rows: &R,
    actor: &Actor,
    key: &str,
    now: DateTime<Utc>,
) -> Stored<R, Option<KeptRequest>> {
    rows.find_request(actor, key, now - KEPT)
}
