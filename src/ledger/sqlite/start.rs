//! Turns a frozen plan into steps, edges and tombstones, in one transaction (T3).

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use rusqlite::{OptionalExtension, params};

use super::batch::{Batch, unrefused};
use super::fences::Fences;
use super::sql::{Apply, Run, Sql, refuse};
use super::{outline, rows};
use crate::domain::model::{Action, CopiedBy, Phase, Plan, PlanStep, ResourceKey, Site, StepState};
use crate::ledger::Applied;
use crate::ledger::events;
use crate::ledger::transitions::{deletion, step, waiting_error};

/// The deletion that executes a planned step.
#[derive(Clone, Copy)]
enum Share {
    /// This one, with the record of the step's tombstone if the resource itself goes.
    Ours(Option<i64>),
    /// Another live deletion, which has the same step (I9): that step's id.
    Theirs(i64),
}

impl Batch<'_> {
    pub(super) fn start(
        &mut self,
        deletion_id: &str,
        plan: &Plan,
        ranks: &[u32],
        max_attempts: &[u32],
        now: DateTime<Utc>,
    ) -> Apply {
        let num = self.before_start(deletion_id)?;
        if let Err(why) = check_shape(plan, ranks, max_attempts) {
            return refuse(why.to_owned());
        }
        let shares = self.raise_fences(num, plan, now)?;
        self.remember_copies(num, plan)?;
        let states = self.insert_steps(num, plan, ranks, &shares, max_attempts, now)?;
        self.settle_other_targets(num, plan, now)?;
        self.note_owners(num, now)?;
        self.run(
            "UPDATE requests SET frozen = ?2, plan_hash = ?3 WHERE num = ?1",
            params![num, rows::json(&header(plan))?, plan.hash],
        )?;
        let counts = &mut self.deletion(num)?.counts;
        for state in states {
            *counts.of_mut(state) += 1;
            counts.total += 1;
        }
        let counts = *counts;
        self.event(
            Some(num),
            None,
            events::planned(deletion_id, counts.total),
            now,
        );
        self.move_deletion(num, deletion::Trigger::PlanStarted, now)?;
        Ok(Applied::Done)
    }

    fn raise_fences(&self, num: i64, plan: &Plan, now: DateTime<Utc>) -> Sql<Vec<Share>> {
        let mut fences = Fences::prepare(self.db)?;
        let mut live = self.db.prepare_cached(
            "SELECT id FROM steps WHERE resource = ?1 AND kind = ?2 AND site = ?3 AND action = ?4
                 AND iif(action = 'unset', vars, '') = ?5 AND ended_at IS NULL AND left_to IS NULL",
        )?;
        plan.steps
            .iter()
            .map(|step| {
                let (id, site) = (step.resource_id.as_str(), step.site.to_string());
                let takes = takes_the_resource(step);
                if takes {
                    let identity = (id, &step.kind, site.as_str());
                    if let Some(record) = fences.raise(num, identity, Phase::Deleting, now)? {
                        return Ok(Share::Ours(Some(record)));
                    }
                }
                let unsets = match step.action {
                    Action::Unset => rows::json(&step.vars)?,
                    _ => String::new(),
                };
                let (kind, action) = (step.kind.as_str(), step.action.as_str());
                let theirs = live
                    .query_row(params![id, kind, site, action, unsets], |row| row.get(0))
                    .optional()?;
                match theirs {
                    Some(owner) => Ok(Share::Theirs(owner)),
                    // Another deletion's tombstone covers the resource, so that one must have a live step
                    // (T9).
                    None if takes => Err(rusqlite::Error::QueryReturnedNoRows),
                    None => Ok(Share::Ours(None)),
                }
            })
            .collect()
    }

    /// Records where copies may come back, for the sweep (T14b), and under which names if nothing else tells
    /// them.
    fn remember_copies(&self, num: i64, plan: &Plan) -> Sql<()> {
        let mut locals: BTreeMap<&ResourceKey, BTreeSet<&Site>> = BTreeMap::new();
        for mapped in &plan.mapping {
            let sites = mapped.locals.iter().map(|local| &local.site);
            locals.entry(&mapped.original).or_default().extend(sites);
        }
        let mut remember = self.db.prepare_cached(
            "UPDATE tombstones SET copies_at = ?5
             WHERE id = ?1 AND kind = ?2 AND site = ?3 AND deletion = ?4",
        )?;
        for (original, sites) in locals {
            remember.execute(params![
                original.id,
                original.kind.as_str(),
                original.site.to_string(),
                num,
                rows::json(&sites)?
            ])?;
        }
        self.remember_parts(num, plan)?;
        self.remember_namesakes(num, plan)
    }

    /// Records the resources that go with an original without a tombstone of their own (T20).
    fn remember_parts(&self, num: i64, plan: &Plan) -> Sql<()> {
        let mut remember = self.db.prepare_cached(
            "INSERT OR REPLACE INTO parts(site, kind, id, record)
             SELECT ?5, ?6, ?7, record_id FROM tombstones
             WHERE id = ?1 AND kind = ?2 AND site = ?3 AND deletion = ?4",
        )?;
        for mapped in &plan.mapping {
            let original = &mapped.original;
            for part in &mapped.parts {
                remember.execute(params![
                    original.id,
                    original.kind.as_str(),
                    original.site.to_string(),
                    num,
                    part.site.to_string(),
                    part.kind.as_str(),
                    part.id
                ])?;
            }
        }
        Ok(())
    }

    fn remember_namesakes(&self, num: i64, plan: &Plan) -> Sql<()> {
        let by_name = plan.mapping.iter().filter(|it| it.by == CopiedBy::Name);
        let originals: BTreeSet<&ResourceKey> = by_name.map(|it| &it.original).collect();
        if originals.is_empty() {
            return Ok(());
        }
        let mut remember = self.db.prepare_cached(
            "INSERT OR REPLACE INTO namesakes(record, site, kind, name, project)
             SELECT record_id, site, kind, ?5, ?6 FROM tombstones
             WHERE id = ?1 AND kind = ?2 AND site = ?3 AND deletion = ?4",
        )?;
        for step in &plan.steps {
            let key = step.key();
            if originals.contains(&key) && !step.name.is_empty() {
                remember.execute(params![
                    key.id,
                    key.kind.as_str(),
                    key.site.to_string(),
                    num,
                    step.name,
                    step.project_id
                ])?;
            }
        }
        Ok(())
    }

    fn insert_steps(
        &mut self,
        num: i64,
        plan: &Plan,
        ranks: &[u32],
        shares: &[Share],
        max_attempts: &[u32],
        now: DateTime<Utc>,
    ) -> Sql<Vec<StepState>> {
        let first: i64 = self.one("SELECT coalesce(max(id), 0) + 1 FROM steps", (), |row| {
            row.get(0)
        })?;
        let ids: Vec<i64> = (first..).take(plan.steps.len()).collect();
        let branches = outline::plant(self.db, num, &ids, &plan.steps)?;
        let mut insert = self.db.prepare_cached(
            "INSERT INTO steps(id, deletion, state, waits, rank, since, max_attempts, ended_at,
                 record, position, site, kind, resource, action, name, project, vars, why,
                 fingerprint, branch, left_to, last_error)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                 ?17, ?18, ?19, ?20, ?21)",
        )?;
        let mut connect = self
            .db
            .prepare_cached("INSERT OR IGNORE INTO edges(dependency, dependent) VALUES(?1, ?2)")?;
        let importers = self.importers_by_kind()?;
        let at = now;
        let now = rows::micros(now);
        let mut states = Vec::with_capacity(plan.steps.len());
        for (position, planned) in plan.steps.iter().enumerate() {
            let offset = position as i64;
            let id = first + offset;
            let mut dependencies = planned.depends_on.clone();
            dependencies.sort_unstable();
            dependencies.dedup();
            for dependency in &dependencies {
                connect.execute(params![first + i64::from(*dependency), id])?;
            }
            let waits = dependencies.len() as i64;
            let (record, owner) = match shares.get(position) {
                Some(Share::Ours(record)) => (*record, None),
                Some(Share::Theirs(owner)) => (None, Some(*owner)),
                None => (None, None),
            };
            let state = step::planned(step::Facts {
                waits: waits > 0,
                left: owner.is_some(),
                ..step::Facts::default()
            });
            let left = match owner {
                Some(owner) => {
                    let by = unrefused(self.set.deletion_of(owner))?;
                    Some(rows::json(&waiting_error(&by, at))?)
                }
                None => None,
            };
            insert.execute(params![
                id,
                num,
                state.as_str(),
                waits,
                ranks.get(position),
                now,
                max_attempts.get(position),
                record,
                offset,
                planned.site.to_string(),
                planned.kind.as_str(),
                planned.resource_id,
                planned.action.as_str(),
                planned.name,
                planned.project_id,
                (!planned.vars.is_empty())
                    .then(|| rows::json(&planned.vars))
                    .transpose()?,
                planned.why,
                planned.fingerprint,
                branches.get(position),
                owner,
                left
            ])?;
            if let (Some(importers), Some(_)) = (importers.get(&planned.kind), record) {
                self.await_clearance(id, importers)?;
            }
            states.push(state);
        }
        Ok(states)
    }

    /// Notes the owners of a deletion's steps, which may have moved before it started.
    fn note_owners(&mut self, num: i64, now: DateTime<Utc>) -> Sql<()> {
        self.set.moved_at = Some(now);
        self.run(
            "INSERT OR IGNORE INTO owners_moved(step)
             SELECT left_to FROM steps WHERE deletion = ?1 AND left_to IS NOT NULL",
            params![num],
        )
        .map(drop)
    }

    /// Settles the targets that have no step of their own. Resources that the cloud removes by itself, that
    /// only lose a reference, or that stay have no tombstone. In a plan without any step, the other targets
    /// do not exist: they are gone.
    fn settle_other_targets(&mut self, num: i64, plan: &Plan, now: DateTime<Utc>) -> Sql<()> {
        if plan.steps.is_empty() {
            let kept: Vec<ResourceKey> = plan
                .automatic
                .iter()
                .chain(&plan.unset)
                .map(PlanStep::key)
                .chain(plan.kept.iter().map(|target| target.key.clone()))
                .collect();
            let mut end = self.db.prepare_cached(
                "UPDATE tombstones SET phase = 'gone', gone_at = ?5
                 WHERE id = ?1 AND kind = ?2 AND site = ?3 AND deletion = ?4
                     AND phase = 'checking'",
            )?;
            for target in plan.targets.iter().filter(|t| !kept.contains(&t.key)) {
                end.execute(params![
                    target.key.id,
                    target.key.kind.as_str(),
                    target.key.site.to_string(),
                    num,
                    rows::micros(now)
                ])?;
            }
        }
        self.set.release_checking(num, now)
    }
}

/// Whether the step takes away the resource, or the edge that it stands for: then it has a tombstone.
/// Resources that are enabled, lose a reference or go by themselves have none.
fn takes_the_resource(step: &PlanStep) -> bool {
    !step.automatic && matches!(step.action, Action::Delete | Action::Detach)
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

/// Checks that no step of the plan could wait forever; such a plan is not started (N12).
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
