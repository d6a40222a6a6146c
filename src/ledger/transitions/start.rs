//! Turns a frozen plan into steps, edges and tombstones, in one transaction (T3). A plan may have 100,000 steps,
//! so their rows go to the store in parts, and are not kept in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};

use super::{deletion, refuse, step, waiting_error};
use crate::domain::model::{Action, CopiedBy, Phase, Plan, PlanStep, ResourceKey, StepError};
use crate::domain::outline;
use crate::ledger::store::{LedgerRows, NewStep, OriginalCopies, StepRow, Stop};
use crate::ledger::working_set::{Changing, STEPS_IN_MEMORY_MAX, WorkingSet};
use crate::ledger::{Applied, events};

/// The deletion that executes a planned step.
#[derive(Clone, Copy)]
enum Share {
    /// This deletion, with the record of the step's tombstone; none if the resource stays.
    Ours(Option<i64>),
    /// Another live deletion, which has the same step (I9): that step's id.
    Theirs(i64),
}

/// A plan whose steps become rows.
struct Starting<'p> {
    num: i64,
    plan: &'p Plan,
    ranks: &'p [u32],
    max_attempts: &'p [u32],
    now: DateTime<Utc>,
}

impl<S: LedgerRows> WorkingSet<S> {
    /// Starts a plan; see [`Change::Start`](crate::ledger::Change::Start).
    pub fn start(
        &mut self,
        deletion_id: &str,
        plan: &Plan,
        ranks: &[u32],
        max_attempts: &[u32],
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let num = self.before_start(deletion_id)?;
        if let Err(why) = check_shape(plan, ranks, max_attempts) {
            return refuse(why);
        }
        let starting = Starting {
            num,
            plan,
            ranks,
            max_attempts,
            now,
        };
        let mut shares = Vec::with_capacity(plan.steps.len());
        for part in plan.steps.chunks(STEPS_IN_MEMORY_MAX) {
            shares.extend(self.share(num, part, now)?);
        }
        self.store().remember_copies(num, &copies(plan))?;
        self.insert_steps(&starting, &shares)?;
        self.end_targets_without_step(num, plan, now)?;
        self.store().save_frozen(num, &header(plan))?;
        let total = self.deletion(num)?.counts.total;
        self.event(Some(num), None, events::planned(deletion_id, total), now);
        self.move_deletion(num, deletion::Trigger::PlanStarted, now)?;
        Ok(Applied::Done)
    }

    /// Raises the tombstones of these steps, and finds the steps that are left to another deletion.
    fn share(
        &mut self,
        num: i64,
        part: &[PlanStep],
        now: DateTime<Utc>,
    ) -> Changing<S, Vec<Share>> {
        let taken = part.iter().filter(|step| takes_the_resource(step));
        let taken: Vec<ResourceKey> = taken.map(PlanStep::key).collect();
        let records = self.raise_tombstones(num, &taken, Phase::Deleting, now)?;
        let mut records = records.into_iter();
        let without_record = |(step, record): (&PlanStep, &Option<i64>)| match record {
            Some(_) => None,
            None => Some(step.key()),
        };
        let records = part.iter().map(|step| match takes_the_resource(step) {
            true => records.next().flatten(),
            false => None,
        });
        let records: Vec<Option<i64>> = records.collect();
        let others = part.iter().zip(&records).filter_map(without_record);
        let live = self.live_steps(&others.collect::<Vec<_>>())?;
        let mut shares = Vec::with_capacity(part.len());
        for (step, record) in part.iter().zip(records) {
            let takes = takes_the_resource(step);
            let theirs = match record {
                Some(_) => None,
                None => same_step(&live, step),
            };
            shares.push(match theirs {
                Some(owner) => Share::Theirs(owner),
                // Another deletion's tombstone covers the resource, so that deletion must have a live step (T9).
                None if takes && record.is_none() => {
                    let why = format!(
                        "{} has the tombstone of a deletion that has no step for it",
                        step.key()
                    );
                    return Err(Stop::Impossible(why));
                }
                None => Share::Ours(record),
            });
        }
        Ok(shares)
    }

    /// The live steps of these resources, in any deletion, without the steps that are left to another deletion.
    fn live_steps(&self, keys: &[ResourceKey]) -> Changing<S, HashMap<ResourceKey, Vec<StepRow>>> {
        let mut live: HashMap<ResourceKey, Vec<StepRow>> = HashMap::new();
        let found = self.store().find_live(keys)?;
        for row in self.store().load_step_rows(&found)? {
            live.entry(row.now.key.clone()).or_default().push(row);
        }
        Ok(live)
    }

    fn insert_steps(&mut self, starting: &Starting<'_>, shares: &[Share]) -> Changing<S> {
        let steps = &starting.plan.steps;
        let first = self.store().first_free_step()?;
        let tree = outline::build_tree(steps);
        let first_branch = self
            .store()
            .insert_branches(starting.num, first, &tree.branches)?;
        let importers = self.importers_by_kind()?;
        let (num, now) = (starting.num, starting.now);
        let parts = steps
            .chunks(STEPS_IN_MEMORY_MAX)
            .zip(shares.chunks(STEPS_IN_MEMORY_MAX));
        for (offset, (part, shares)) in (0..).step_by(STEPS_IN_MEMORY_MAX).zip(parts) {
            let (mut rows, mut edges, mut awaited) = (Vec::new(), Vec::new(), Vec::new());
            for (at, (planned, share)) in (offset..).zip(part.iter().zip(shares)) {
                let (record, left_to) = match *share {
                    Share::Ours(record) => (record, None),
                    Share::Theirs(owner) => (None, Some(owner)),
                };
                let id = first + at as i64;
                let dependencies: BTreeSet<u32> = planned.depends_on.iter().copied().collect();
                let state = step::planned(step::Facts {
                    waits: !dependencies.is_empty(),
                    left: left_to.is_some(),
                    ..step::Facts::default()
                });
                rows.push(NewStep {
                    id,
                    deletion: num,
                    planned,
                    position: at,
                    state,
                    since: now,
                    waits: dependencies.len(),
                    rank: starting.ranks[at],
                    max_attempts: starting.max_attempts[at],
                    branch: first_branch + i64::from(tree.branch_of[at]),
                    record,
                    left_to,
                    error: left_to
                        .map(|owner| self.left_to_error(owner, now))
                        .transpose()?,
                });
                let before = dependencies.into_iter();
                edges.extend(before.map(|before| (first + i64::from(before), id)));
                if record.is_some() {
                    let importers = importers.get(&planned.kind).into_iter().flatten();
                    awaited.extend(importers.map(|importer| (importer.clone(), id)));
                }
                let counts = &mut self.deletion(num)?.counts;
                *counts.of_mut(state) += 1;
                counts.total += 1;
            }
            let store = self.store();
            store.insert_steps(&rows)?;
            store.insert_edges(&edges)?;
            store.await_clearances(&awaited)?;
            self.forget_steps();
        }
        Ok(())
    }

    /// The error of a step that is left to another deletion. Notes the owner, which may have moved before.
    fn left_to_error(&mut self, owner: i64, now: DateTime<Utc>) -> Changing<S, StepError> {
        self.note_owner(owner, now);
        let by = self.deletion_of(owner)?;
        Ok(waiting_error(&by, now))
    }

    /// Ends the tombstones of the targets without a step of their own. In a plan without any step, targets that the
    /// plan does not name do not exist, so their tombstones become gone. All other tombstones are released: their
    /// resources stay, lose a reference, are removed by the cloud itself, or do not exist.
    fn end_targets_without_step(
        &mut self,
        num: i64,
        plan: &Plan,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        if plan.steps.is_empty() {
            let kept: BTreeSet<ResourceKey> = plan
                .automatic
                .iter()
                .chain(&plan.unset)
                .map(PlanStep::key)
                .chain(plan.kept.iter().map(|target| target.key.clone()))
                .collect();
            let targets = plan.targets.iter().map(|target| target.key.clone());
            let gone: Vec<ResourceKey> = targets.filter(|key| !kept.contains(key)).collect();
            let found = self.searched()?.load_tombstones(&gone)?;
            for tombstone in found.into_iter().flatten() {
                if tombstone.phase == Phase::Checking {
                    self.end_tombstone(num, Some(tombstone.record), Some(Phase::Gone), now);
                }
            }
        }
        Ok(self.release_checking(num, now)?)
    }
}

/// Whether the step deletes its resource, or the edge that the step stands for. The resource has a tombstone only then.
/// Resources that are enabled, lose a reference or are removed by the cloud itself have none.
fn takes_the_resource(step: &PlanStep) -> bool {
    !step.automatic && step.action.takes_away()
}

/// The live step that does the same to the same resource, even by a rung of the ladder. Steps that unset are the same
/// only if they unset the same reference: two deletions may delete two resources to which one resource refers (I9).
fn same_step(live: &HashMap<ResourceKey, Vec<StepRow>>, planned: &PlanStep) -> Option<i64> {
    let same = live.get(&planned.key())?.iter().find(|row| {
        row.now.action.planned() == planned.action
            && (planned.action != Action::Unset || row.plan.vars == *planned.vars)
    });
    same.map(|row| row.now.id)
}

/// The sites where copies of the originals may be re-created, for the sweep (T14b): with the parts of each original
/// (T20), and its name if nothing else identifies its copies.
fn copies(plan: &Plan) -> Vec<OriginalCopies> {
    let mut copies: BTreeMap<&ResourceKey, OriginalCopies> = BTreeMap::new();
    let mut by_name = BTreeSet::new();
    for mapped in &plan.mapping {
        let original = &mapped.original;
        let of = copies.entry(original).or_insert_with(|| OriginalCopies {
            original: original.clone(),
            sites: BTreeSet::new(),
            parts: BTreeSet::new(),
            name: None,
        });
        of.sites
            .extend(mapped.locals.iter().map(|local| local.site.clone()));
        of.parts.extend(mapped.parts.iter().cloned());
        if mapped.by == CopiedBy::Name {
            by_name.insert(original.clone());
        }
    }
    if !by_name.is_empty() {
        for step in plan.steps.iter().filter(|step| !step.name.is_empty()) {
            let key = step.key();
            if let Some(of) = copies.get_mut(&key).filter(|_| by_name.contains(&key)) {
                of.name = Some((step.name.clone(), step.project_id.to_string()));
            }
        }
    }
    copies.into_values().collect()
}

/// The plan without its steps, which have rows of their own.
fn header(plan: &Plan) -> Plan {
    Plan {
        hash: plan.hash.clone(),
        targets: plan.targets.clone(),
        options: plan.options,
        endpoints: plan.endpoints.clone(),
        identities: plan.identities.clone(),
        steps: Vec::new(),
        automatic: plan.automatic.clone(),
        unset: plan.unset.clone(),
        kept: plan.kept.clone(),
        left: plan.left.clone(),
        mapping: plan.mapping.clone(),
        refused: plan.refused.clone(),
        warnings: plan.warnings.clone(),
        calls_estimate: plan.calls_estimate,
    }
}

/// Checks that the plan has one rank and one limit of attempts for each step, and that no step could wait forever
/// (N12).
fn check_shape(plan: &Plan, ranks: &[u32], max_attempts: &[u32]) -> Result<(), &'static str> {
    let n = plan.steps.len();
    if ranks.len() != n {
        return Err("the plan does not have exactly one rank for each step");
    }
    if max_attempts.len() != n {
        return Err("the plan does not have exactly one limit of attempts for each step");
    }
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut waits = vec![0usize; n];
    for (position, step) in plan.steps.iter().enumerate() {
        for dependency in &step.depends_on {
            let list = usize::try_from(*dependency)
                .ok()
                .and_then(|at| dependents.get_mut(at))
                .ok_or("a step of the plan depends on a step that is not in the plan")?;
            list.push(position);
            waits[position] += 1;
        }
    }
    let mut free: Vec<usize> = (0..n).filter(|&at| waits[at] == 0).collect();
    let mut reached = 0;
    while let Some(at) = free.pop() {
        reached += 1;
        for &dependent in &dependents[at] {
            waits[dependent] -= 1;
            if waits[dependent] == 0 {
                free.push(dependent);
            }
        }
    }
    match reached == n {
        true => Ok(()),
        false => Err("the steps of the plan form a dependency cycle"),
    }
}
