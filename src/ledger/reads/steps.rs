//! Steps: pages of them, searches in their texts, and abandoned steps.

use std::collections::{BTreeSet, HashMap};

use super::{deletions_of, page};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::{DEPENDENCIES_MAX, Paged, Step, StepResource, StepState};
use crate::ledger::store::{LedgerReads, SearchedStep, StepRange, StepRow, Stored};
use crate::ledger::{AbandonedStep, StepFilter};

/// Maximum number of steps of one state that a page or a count searches for a text, in some 20 ms.
const SEARCHED_MAX: usize = 25_000;

/// A step with all of its dependencies.
pub fn step<R: LedgerReads>(rows: &R, id: i64) -> Stored<R, Option<Step>> {
    Ok(shown(rows, &[id], None)?.pop())
}

/// These steps, each with at most `edges_max` of its dependencies (none: with all). Steps that do not exist are
/// left out.
pub fn shown<R: LedgerReads>(
    rows: &R,
    ids: &[i64],
    edges_max: Option<usize>,
) -> Stored<R, Vec<Step>> {
    let found = rows.load_step_rows(ids)?;
    let deletions = deletions_of(rows, found.iter().map(|row| row.now.deletion))?;
    let records: BTreeSet<i64> = found.iter().filter_map(|row| row.now.record).collect();
    let records: Vec<i64> = records.into_iter().collect();
    let records = rows.load_records(&records)?.into_iter();
    let recreated: HashMap<i64, u32> = records
        .map(|it| (it.now.record, it.now.recreated))
        .collect();
    let mut before: HashMap<i64, Vec<i64>> = HashMap::new();
    if edges_max != Some(0) {
        for (dependency, dependent) in rows.load_dependencies(ids, edges_max)? {
            before.entry(dependent).or_default().push(dependency);
        }
    }
    let steps = found.into_iter().filter_map(|StepRow { now, plan }| {
        Some(Step {
            id: now.id,
            deletion_id: deletions.get(&now.deletion)?.id.clone(),
            resource: StepResource {
                key: now.key,
                name: now.name,
            },
            action: now.action,
            state: now.state,
            depends_on: before.remove(&now.id).unwrap_or_default(),
            attempts: now.attempts,
            max_attempts: plan.max_attempts,
            next_attempt_at: now.next_attempt_at,
            blocked_since: now.blocked_since,
            blockers: now.blockers,
            last_error: now.error,
            held_by: now.held_by,
            recreated: now.record.map_or(0, |record| {
                recreated.get(&record).copied().unwrap_or_default()
            }),
            project_id: plan.project_id,
            why: plan.why,
        })
    });
    Ok(steps.collect())
}

/// Lists steps by deletion, then by id; the cursor is the last pair of deletion and id.
///
/// Reads each state separately, because stores have an index by state, and merges the results. For each state, it reads
/// at most one page of steps, or searches at most `SEARCHED_MAX` for a text.
pub fn steps<R: LedgerReads>(
    rows: &R,
    filter: &StepFilter,
    after: Option<[i64; 2]>,
    limit: usize,
) -> Stored<R, Paged<Step>> {
    let (mut found, mut horizon) = (Vec::new(), None);
    for range in ranges(rows, filter, after)? {
        if filter.text.is_empty() {
            found.extend(rows.find_steps(&range, limit + 1)?);
            continue;
        }
        let searched = search(rows, &range, &filter.text, limit + 1)?;
        found.extend(searched.found);
        horizon = horizon.into_iter().chain(searched.stopped_at).min();
    }
    found.sort_unstable();
    found.dedup();
    // After the horizon, the steps of some state were not searched.
    found.retain(|key| horizon.is_none_or(|horizon| *key <= horizon));
    let next = match found.len() > limit {
        true => found.get(limit - 1).copied(),
        false => horizon,
    };
    let ids: Vec<i64> = found.iter().take(limit).map(|(_, id)| *id).collect();
    Ok(Paged {
        rows: shown(rows, &ids, Some(DEPENDENCIES_MAX))?,
        next: next.map(cursor),
    })
}

/// Counts the matches among the steps that one call examines, at most [`SEARCHED_MAX`] of each state. Returns the
/// cursor of the next call; none if all steps were examined.
pub fn count<R: LedgerReads>(
    rows: &R,
    filter: &StepFilter,
    after: Option<[i64; 2]>,
) -> Stored<R, (u64, Option<String>)> {
    let (mut found, mut horizon) = (Vec::new(), None);
    for range in ranges(rows, filter, after)? {
        let searched = search(rows, &range, &filter.text, usize::MAX)?;
        found.extend(searched.found);
        horizon = horizon.into_iter().chain(searched.stopped_at).min();
    }
    found.retain(|key| horizon.is_none_or(|horizon| *key <= horizon));
    Ok((found.len() as u64, horizon.map(cursor)))
}

fn cursor((num, id): (i64, i64)) -> String {
    format!("{num}:{id}")
}

/// One range for each state of the filter; none if the deletion does not exist.
fn ranges<'f, R: LedgerReads>(
    rows: &R,
    filter: &'f StepFilter,
    after: Option<[i64; 2]>,
) -> Stored<R, Vec<StepRange<'f>>> {
    let deletion = match &filter.deletion_id {
        None => None,
        Some(id) => match rows.find_deletion(id)? {
            None => return Ok(Vec::new()),
            found => found,
        },
    };
    let states = match filter.states.as_slice() {
        [] => &StepState::ALL,
        some => some,
    };
    let range = |state: &StepState| StepRange {
        state: *state,
        deletion,
        after: after.map(|[num, id]| (num, id)),
        filter,
    };
    Ok(states.iter().map(range).collect())
}

/// The matches among the steps that were searched.
#[derive(Default)]
struct Searched {
    found: Vec<(i64, i64)>,
    /// The last step that was searched, if there may be more after it.
    stopped_at: Option<(i64, i64)>,
}

/// Finds steps that match the text: among the first [`SEARCHED_MAX`], and at most `limit`.
fn search<R: LedgerReads>(
    rows: &R,
    range: &StepRange<'_>,
    text: &SearchQuery,
    limit: usize,
) -> Stored<R, Searched> {
    let mut matches = Searched::default();
    let mut searched = 0;
    rows.search_steps(range, SEARCHED_MAX, &mut |step| {
        let key = (step.deletion, step.id);
        if has_text(step, range.state, text) {
            matches.found.push(key);
        }
        searched += 1;
        let is_full = searched == SEARCHED_MAX || matches.found.len() == limit;
        matches.stopped_at = is_full.then_some(key);
        !is_full
    })?;
    Ok(matches)
}

fn has_text(step: &SearchedStep<'_>, state: StepState, text: &SearchQuery) -> bool {
    let mut texts = vec![step.name, step.resource, step.action];
    for blocker in &step.blockers {
        texts.extend([blocker.id.as_str(), &blocker.name, &blocker.owner_name]);
    }
    if let Some(error) = &step.error {
        texts.extend([error.kind.as_str(), &error.message]);
    }
    text.fits(&Facts {
        texts: &texts,
        state: state.as_str(),
        kind: step.kind,
        site: step.site,
        project: step.project,
        since: step.blocked_since,
    })
}

/// Lists orphans by deletion, then by step; the cursor is the last pair of deletion and step. A resource that was
/// deleted or released since is not an orphan.
pub fn orphans<R: LedgerReads>(
    rows: &R,
    after: Option<[i64; 2]>,
    limit: usize,
) -> Stored<R, Paged<AbandonedStep>> {
    let after = after.map(|[num, id]| (num, id));
    let found = rows.find_abandoned(after, limit + 1)?;
    let ids: Vec<i64> = found.iter().map(|(_, id)| *id).collect();
    let steps = rows.load_step_rows(&ids)?;
    let deletions = deletions_of(rows, found.iter().map(|(num, _)| *num))?;
    let abandoned = steps.into_iter().filter_map(|StepRow { now, plan }| {
        let deletion_id = &deletions.get(&now.deletion)?.id;
        let orphan = AbandonedStep {
            step: plan.claimed(&now, deletion_id, false),
            since: now.ended_at?,
        };
        Some((cursor((now.deletion, now.id)), orphan))
    });
    Ok(page(abandoned.collect(), limit))
}
