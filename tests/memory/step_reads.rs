//! Reads of steps, and counts over steps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use gone::domain::attention::{Cause, CauseGroup};
use gone::domain::gantt::GanttCell;
use gone::domain::last_hour::SiteMinute;
use gone::domain::model::{Counts, EventKind, ResourceKey, Site, StepState};
use gone::domain::outline::Branch;
use gone::domain::policy::{PendingObservations, WORTH_A_LIST};
use gone::ledger::ObservationsDue;
use gone::ledger::store::{
    BranchRange, DueCount, GroupProgress, SearchedStep, StepGroup, StepRange, StepReads, StepRow,
    StoredStep,
};

use super::{Answer, MemoryRows, Tables};

/// The cause for which a step needs a person; none if it needs no person.
fn cause(step: &StoredStep) -> Option<Cause> {
    let needs_person = match step.state {
        StepState::Stuck => true,
        StepState::Blocked => step.blockers.iter().any(|blocker| !blocker.in_plan),
        _ => false,
    };
    let error = step.error.as_ref();
    needs_person.then(|| Cause {
        state: step.state,
        kind: step.key.kind.clone(),
        class: error.map(|error| error.class),
        status: error.and_then(|error| error.status),
        error_type: error.map(|error| error.kind.clone()),
    })
}

fn group(step: &StoredStep) -> StepGroup {
    StepGroup {
        site: step.key.site.clone(),
        kind: step.key.kind.clone(),
        action: step.action.planned(),
    }
}

/// The order in which groups are listed: by site, kind and action.
fn sort_key(group: &StepGroup) -> (String, String, &'static str) {
    let (site, kind) = (group.site.to_string(), group.kind.to_string());
    (site, kind, group.action.as_str())
}

impl Tables {
    fn in_range(&self, range: &StepRange<'_>) -> Vec<&StoredStep> {
        let filter = range.filter;
        let steps = self.steps.values().filter(|it| {
            it.state == range.state
                && range.deletion.is_none_or(|num| it.deletion == num)
                && range.after.is_none_or(|after| (it.deletion, it.id) > after)
                && filter.site.as_ref().is_none_or(|site| *site == it.key.site)
                && filter.kind.as_ref().is_none_or(|kind| *kind == it.key.kind)
                && filter.older_than.is_none_or(|than| it.since < than)
                && (filter.cause.is_none() || cause(it) == filter.cause)
        });
        let mut steps: Vec<&StoredStep> = steps.collect();
        steps.sort_by_key(|it| (it.deletion, it.id));
        steps
    }

    fn in_branch(&self, branch: i64, state: StepState) -> Vec<i64> {
        let plans = self.plans.iter().filter(|(_, plan)| plan.branch == branch);
        let ids = plans.map(|(id, _)| *id);
        ids.filter(|id| self.steps[id].state == state).collect()
    }

    fn count_branch(&self, branch: i64) -> Counts {
        let mut counts = Counts::default();
        for state in StepState::ALL {
            let number = self.in_branch(branch, state).len() as u64;
            *counts.of_mut(state) = number;
            counts.total += number;
        }
        counts
    }

    fn rank(&self, id: i64) -> u32 {
        self.plans.get(&id).map_or(0, |plan| plan.rank)
    }

    fn highest_rank(&self, deletion: i64, site: &Site, state: StepState) -> Option<u32> {
        let steps = self
            .steps
            .values()
            .filter(|it| (it.deletion, &it.key.site, it.state) == (deletion, site, state));
        steps.map(|it| self.rank(it.id)).max()
    }
}

impl StepReads for MemoryRows {
    fn load_step_rows(&self, ids: &[i64]) -> Answer<Vec<StepRow>> {
        let tables = self.tables();
        Ok(ids.iter().filter_map(|id| tables.step_row(*id)).collect())
    }

    fn load_dependencies(&self, ids: &[i64], each_max: Option<usize>) -> Answer<Vec<(i64, i64)>> {
        let tables = self.tables();
        let wanted: BTreeSet<i64> = ids.iter().copied().collect();
        let mut before: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (from, to) in tables.edges.iter().filter(|(_, to)| wanted.contains(to)) {
            before.entry(*to).or_default().push(*from);
        }
        let of = |id: &i64| {
            let before = before.get(id).cloned().unwrap_or_default().into_iter();
            let before = before.take(each_max.unwrap_or(usize::MAX));
            before.map(|from| (from, *id)).collect::<Vec<_>>()
        };
        Ok(ids.iter().flat_map(of).collect())
    }

    fn find_last_dependency(&self, step: i64) -> Answer<Option<i64>> {
        let tables = self.tables();
        let before = tables.edges.iter().filter(|(_, to)| *to == step);
        let before = before.map(|(from, _)| &tables.steps[from]);
        let last = before.min_by_key(|it| (it.ended_at.is_some(), Reverse(it.ended_at), it.id));
        Ok(last.map(|it| it.id))
    }

    fn find_live(&self, keys: &[ResourceKey]) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let of = keys.iter().filter_map(|key| tables.steps_of.get(key));
        let is_live = |id: &i64| {
            let step = &tables.steps[id];
            step.ended_at.is_none() && step.left_to.is_none()
        };
        Ok(of.flatten().copied().filter(is_live).collect())
    }

    fn find_steps(&self, range: &StepRange<'_>, limit: usize) -> Answer<Vec<(i64, i64)>> {
        let tables = self.tables();
        let steps = tables.in_range(range).into_iter().take(limit);
        Ok(steps.map(|it| (it.deletion, it.id)).collect())
    }

    fn search_steps(
        &self,
        range: &StepRange<'_>,
        limit: usize,
        visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
    ) -> Answer {
        let tables = self.tables();
        for it in tables.in_range(range).into_iter().take(limit) {
            let site = it.key.site.to_string();
            let searched = SearchedStep {
                deletion: it.deletion,
                id: it.id,
                name: &it.name,
                resource: &it.key.id,
                action: it.action.as_str(),
                kind: it.key.kind.as_str(),
                site: &site,
                project: &tables.plans[&it.id].project_id,
                blocked_since: it.blocked_since,
                blockers: it.blockers.clone(),
                error: it.error.clone(),
            };
            if !visit(&searched) {
                break;
            }
        }
        Ok(())
    }

    fn find_stuck(&self, limit: usize) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let mut stuck =
            tables.steps_where(|it| it.state == StepState::Stuck && it.held_by.is_none());
        stuck.sort_by_key(|id| tables.steps[id].since);
        stuck.truncate(limit);
        Ok(stuck)
    }

    fn find_delayed(&self, limit: usize) -> Answer<Vec<i64>> {
        let tables = self.tables();
        let mut delayed =
            tables.steps_where(|it| it.state == StepState::Verifying && it.blocked_since.is_some());
        delayed.sort_by_key(|id| tables.steps[id].blocked_since);
        delayed.truncate(limit);
        Ok(delayed)
    }

    fn find_abandoned(&self, after: Option<(i64, i64)>, limit: usize) -> Answer<Vec<(i64, i64)>> {
        let tables = self.tables();
        let abandoned = tables.steps_where(|it| {
            let tombstone = it.record.and_then(|record| tables.tombstones.get(&record));
            it.state == StepState::Purged
                && tombstone.is_some_and(|(_, row)| {
                    row.deletion == it.deletion && row.phase == gone::domain::model::Phase::Purged
                })
        });
        let mut keys: Vec<(i64, i64)> = abandoned
            .into_iter()
            .map(|id| (tables.steps[&id].deletion, id))
            .filter(|key| after.is_none_or(|after| *key > after))
            .collect();
        keys.sort_unstable();
        keys.truncate(limit);
        Ok(keys)
    }

    fn count_causes(&self, sites: &[Site]) -> Answer<Vec<CauseGroup>> {
        let tables = self.tables();
        let mut groups: Vec<CauseGroup> = Vec::new();
        for step in tables.steps.values() {
            let Some(cause) = cause(step) else {
                continue;
            };
            if !sites.is_empty() && !sites.contains(&step.key.site) {
                continue;
            }
            match groups.iter_mut().find(|it| it.cause == cause) {
                Some(group) => {
                    group.steps += 1;
                    group.since = group.since.min(step.since);
                }
                None => groups.push(CauseGroup {
                    cause,
                    steps: 1,
                    since: step.since,
                    message: step.error.clone().map_or(String::new(), |it| it.message),
                }),
            }
        }
        // Groups of one size stay in the order of their first steps.
        groups.sort_by_key(|group| Reverse(group.steps));
        Ok(groups)
    }

    fn count_by_site(&self, deletion: i64) -> Answer<Vec<(Site, StepState, u64)>> {
        let tables = self.tables();
        let mut counted: BTreeMap<(String, &str), (Site, StepState, u64)> = BTreeMap::new();
        for it in tables.steps.values().filter(|it| it.deletion == deletion) {
            let key = (it.key.site.to_string(), it.state.as_str());
            let row = counted
                .entry(key)
                .or_insert_with(|| (it.key.site.clone(), it.state, 0));
            row.2 += 1;
        }
        Ok(counted.into_values().collect())
    }

    fn find_observations_due(&self, now: DateTime<Utc>) -> Answer<Vec<ObservationsDue>> {
        let tables = self.tables();
        let mut groups: BTreeMap<_, Vec<DateTime<Utc>>> = BTreeMap::new();
        let verifying = tables
            .steps
            .values()
            .filter(|it| it.state == StepState::Verifying);
        for it in verifying {
            let key = (
                it.deletion,
                it.key.site.to_string(),
                it.key.kind.clone(),
                tables.rank(it.id),
            );
            groups.entry(key).or_default().extend(it.next_attempt_at);
        }
        let due = groups
            .into_iter()
            .filter_map(|((num, site, kind, rank), times)| {
                let site: Site = site.parse().unwrap();
                let oldest = *times.iter().min().filter(|oldest| **oldest <= now)?;
                let deletion = &tables.deletions[&num];
                let ready = tables
                    .highest_rank(num, &site, StepState::Ready)
                    .filter(|_| !deletion.paused && !deletion.cancelled);
                let gathered = PendingObservations {
                    oldest,
                    fills_a_list: times.iter().filter(|at| **at <= now).count() >= WORTH_A_LIST,
                    rank,
                    ready,
                    running: tables.highest_rank(num, &site, StepState::Running),
                    verifying: deletion.counts.verifying,
                    unsent: deletion.counts.ready + deletion.counts.running,
                    since: tables.requests[&num].requested_at,
                };
                Some(ObservationsDue {
                    deletion: num,
                    site,
                    kind,
                    gathered,
                })
            });
        Ok(due.collect())
    }

    fn load_observed(
        &self,
        of: &[ObservationsDue],
        now: DateTime<Utc>,
        limit: usize,
    ) -> Answer<Vec<StepRow>> {
        let tables = self.tables();
        let mut due = Vec::new();
        for group in of {
            let mut ids = tables.steps_where(|it| {
                it.state == StepState::Verifying
                    && it.next_attempt_at.is_some_and(|at| at <= now)
                    && it.deletion == group.deletion
                    && (&it.key.site, &it.key.kind) == (&group.site, &group.kind)
                    && tables.rank(it.id) == group.gathered.rank
            });
            ids.sort_by_key(|id| tables.steps[id].next_attempt_at);
            due.extend(ids.into_iter().filter_map(|id| tables.step_row(id)));
        }
        due.truncate(limit);
        Ok(due)
    }

    fn find_first_due(
        &self,
        state: StepState,
        after: Option<DateTime<Utc>>,
    ) -> Answer<Option<DateTime<Utc>>> {
        let tables = self.tables();
        let steps = tables.steps.values().filter(|it| it.state == state);
        let times = steps.filter_map(|it| it.next_attempt_at);
        Ok(times
            .filter(|at| after.is_none_or(|after| *at > after))
            .min())
    }

    fn find_next_attempt(&self, deletion: i64) -> Answer<Option<DateTime<Utc>>> {
        let tables = self.tables();
        let blocked = tables
            .steps
            .values()
            .filter(|it| (it.deletion, it.state) == (deletion, StepState::Blocked));
        Ok(blocked.filter_map(|it| it.next_attempt_at).min())
    }

    fn count_due(&self, ends: &[DateTime<Utc>]) -> Answer<Vec<DueCount>> {
        let tables = self.tables();
        let blocked = tables.steps.values();
        let blocked = blocked.filter(|it| it.state == StepState::Blocked);
        let mut counted = vec![DueCount::default(); ends.len() + 1];
        for at in blocked.filter_map(|it| it.next_attempt_at) {
            let count = &mut counted[ends.partition_point(|end| *end < at)];
            count.steps += 1;
            count.first = count.first.into_iter().chain([at]).min();
        }
        Ok(counted)
    }

    fn load_branches(&self, deletion: i64, below: Option<i64>) -> Answer<Vec<Branch>> {
        let tables = self.tables();
        let branches = tables.branches.values();
        let branches = branches.filter(|(of, it)| (*of, it.below) == (deletion, below));
        let branches = branches.map(|(_, it)| Branch {
            counts: tables.count_branch(it.id),
            ..it.clone()
        });
        Ok(branches.collect())
    }

    fn count_branch(&self, branch: i64) -> Answer<Counts> {
        Ok(self.tables().count_branch(branch))
    }

    fn find_in_branch(&self, range: &BranchRange) -> Answer<Vec<i64>> {
        let mut ids = self.tables().in_branch(range.branch, range.state);
        if range.from_end {
            ids.reverse();
        }
        let ids = ids.into_iter().skip(usize::try_from(range.offset).unwrap());
        Ok(ids.take(usize::try_from(range.limit).unwrap()).collect())
    }

    fn count_before(&self, branch: i64, state: StepState, id: i64) -> Answer<u64> {
        let ids = self.tables().in_branch(branch, state);
        Ok(ids.iter().filter(|it| **it < id).count() as u64)
    }

    fn count_cells(
        &self,
        deletion: i64,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        columns: u32,
    ) -> Answer<Vec<(StepGroup, GanttCell)>> {
        let tables = self.tables();
        let columns = i64::from(columns);
        let span = (until - from).num_microseconds().unwrap().max(1);
        let width = (span + columns - 1) / columns;
        let mut cells: BTreeMap<_, (StepGroup, GanttCell)> = BTreeMap::new();
        for event in tables
            .events
            .values()
            .filter(|it| it.deletion == Some(deletion))
        {
            let step = event.step.and_then(|step| tables.steps.get(&step));
            let offset = (event.at - from).num_microseconds().unwrap();
            let Some(step) = step.filter(|_| (0..=span).contains(&offset)) else {
                continue;
            };
            let column = (offset / width).min(columns - 1);
            let group = group(step);
            let cell = cells.entry((sort_key(&group), column)).or_insert_with(|| {
                let column = u32::try_from(column).unwrap();
                (
                    group,
                    GanttCell {
                        column,
                        ..GanttCell::default()
                    },
                )
            });
            let state = event.draft.fields["state"].as_str().unwrap_or_default();
            cell.1.sent += u64::from(event.draft.kind == EventKind::Attempt);
            cell.1.refused += u64::from(["blocked", "stuck"].contains(&state));
            cell.1.ended += u64::from(["gone", "skipped", "purged"].contains(&state));
        }
        Ok(cells.into_values().collect())
    }

    fn count_calls(
        &self,
        after: i64,
        from: DateTime<Utc>,
        minutes: u32,
    ) -> Answer<Vec<SiteMinute>> {
        let tables = self.tables();
        let kinds = [EventKind::Attempt, EventKind::StepState];
        let answers = tables.events.range(after + 1..).filter(|(_, event)| {
            let fields = &event.draft.fields;
            kinds.contains(&event.draft.kind) && !fields["attempts"].is_null()
        });
        let mut counted: BTreeMap<(String, u32), SiteMinute> = BTreeMap::new();
        for (_, event) in answers {
            let step = event.step.and_then(|step| tables.steps.get(&step));
            let minute = (event.at - from)
                .num_microseconds()
                .unwrap()
                .div_euclid(60_000_000);
            let minute = u32::try_from(minute).ok().filter(|it| *it < minutes);
            let (Some(step), Some(minute)) = (step, minute) else {
                continue;
            };
            let state = event.draft.fields["state"].as_str().unwrap_or_default();
            let calls = u64::from(event.draft.kind == EventKind::Attempt);
            let refused = u64::from(["blocked", "stuck"].contains(&state));
            if calls + refused > 0 {
                let site = step.key.site.clone();
                let sum = counted.entry((site.to_string(), minute));
                let sum = sum.or_insert(SiteMinute {
                    site,
                    minute,
                    calls: 0,
                    refused: 0,
                });
                sum.calls += calls;
                sum.refused += refused;
            }
        }
        Ok(counted.into_values().collect())
    }

    fn count_groups(&self, deletion: i64) -> Answer<Vec<GroupProgress>> {
        let tables = self.tables();
        let mut groups: BTreeMap<_, Vec<&StoredStep>> = BTreeMap::new();
        for step in tables.steps.values().filter(|it| it.deletion == deletion) {
            groups.entry(sort_key(&group(step))).or_default().push(step);
        }
        let progress = groups.into_values().map(|steps| {
            let order = |it: &&&StoredStep| (it.ended_at.is_none(), it.ended_at, Reverse(it.id));
            let last = steps.iter().max_by_key(order).unwrap();
            GroupProgress {
                group: group(last),
                steps: steps.len() as u64,
                ended: steps.iter().filter(|it| it.ended_at.is_some()).count() as u64,
                last: last.id,
            }
        });
        Ok(progress.collect())
    }
}
