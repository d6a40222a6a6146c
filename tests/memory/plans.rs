//! Rows that are written with a request or a plan.

use chrono::{DateTime, Utc};
use gone::domain::model::{OnFailure, Plan, Refusal};
use gone::domain::outline::Branch;
use gone::ledger::store::{
    KEPT, NewStep, OriginalCopies, PlanRows, StepPlan, StoredRequest, StoredStep,
};
use gone::ledger::{KeptRequest, KeyedRequest, NewDeletion};
use serde_json::Value;

use super::tables::{deletion, micros, step};
use super::{Answer, MemoryRows};

impl PlanRows for MemoryRows {
    fn save_plan(&self, plan: &Plan, now: DateTime<Utc>) -> Answer {
        let plans = &mut self.tables().saved_plans;
        plans.retain(|_, (_, at)| *at > now - KEPT);
        plans.insert(plan.hash.clone(), (plan.clone(), now));
        Ok(())
    }

    fn keep_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Answer {
        let kept = KeptRequest {
            body: request.body.clone(),
            deletion: deletion.to_owned(),
            answer: answer.cloned(),
        };
        let all = &mut self.tables().kept_requests;
        all.retain(|(_, _, at)| *at > now - KEPT);
        let is_same = |it: &KeyedRequest| (&it.actor, &it.key) == (&request.actor, &request.key);
        if all.iter().any(|(it, ..)| is_same(it)) {
            return Err("the key is kept already".to_owned());
        }
        all.push((request.clone(), kept, now));
        Ok(())
    }

    fn save_request(&self, num: i64, request: &StoredRequest) -> Answer {
        let requests = &mut self.tables().requests;
        requests.insert(num, request.clone());
        Ok(())
    }

    fn save_refusals(&self, num: i64, refused: &[Refusal]) -> Answer {
        let requests = &mut self.tables().requests;
        let request = requests.get_mut(&num).ok_or("no request")?;
        request.refused = refused.to_vec();
        Ok(())
    }

    fn save_frozen(&self, num: i64, header: &Plan) -> Answer {
        let tables = &mut *self.tables();
        let request = tables.requests.get_mut(&num).ok_or("no request")?;
        request.plan_hash = Some(header.hash.clone());
        tables.frozen.insert(num, header.clone());
        Ok(())
    }

    fn save_snapshot(&self, record: i64, shown: &Value) -> Answer {
        self.tables().snapshots.insert(record, shown.clone());
        Ok(())
    }

    fn first_free_step(&self) -> Answer<i64> {
        let tables = self.tables();
        Ok(tables.steps.keys().last().map_or(1, |last| last + 1))
    }

    fn insert_deletion(&self, wanted: &NewDeletion, root: Option<&str>) -> Answer<i64> {
        let tables = &mut *self.tables();
        let num = tables.deletions.keys().last().map_or(1, |last| last + 1);
        let stops = wanted.options.on_failure == OnFailure::Stop;
        tables
            .deletions
            .insert(num, deletion(num, &wanted.id, stops));
        let request = StoredRequest {
            targets: wanted.targets.clone(),
            copies: wanted.copies.clone(),
            options: wanted.options,
            plan_hash: wanted.plan_hash.clone(),
            reason: wanted.reason.clone(),
            root: root.map(str::to_owned),
            deadline: wanted.deadline,
            actor: wanted.actor.clone(),
            cause: wanted.cause.clone(),
            refused: Vec::new(),
            requested_at: micros(wanted.now),
        };
        tables.requests.insert(num, request);
        Ok(num)
    }

    fn insert_branches(&self, deletion: i64, first_step: i64, branches: &[Branch]) -> Answer<i64> {
        let tables = &mut *self.tables();
        let first = tables.branches.keys().last().map_or(1, |last| last + 1);
        for branch in branches {
            let row = Branch {
                id: first + branch.id,
                below: branch.below.map(|position| first_step + position),
                ..branch.clone()
            };
            tables.branches.insert(row.id, (deletion, row));
        }
        Ok(first)
    }

    fn insert_steps(&self, new: &[NewStep<'_>]) -> Answer {
        let tables = &mut *self.tables();
        for new in new {
            let (key, planned) = (new.planned.key(), new.planned);
            let of = tables.steps_of.get(&key).into_iter().flatten();
            let is_taken = of.map(|id| &tables.steps[id]).any(|it| {
                it.action.planned() == planned.action
                    && it.ended_at.is_none()
                    && it.left_to.is_none()
                    && tables.plans[&it.id].vars == *planned.vars
            });
            if new.left_to.is_none() && is_taken {
                return Err(format!("two live steps of {key}"));
            }
            let row = StoredStep {
                record: new.record,
                sent: false,
                waits: u32::try_from(new.waits).unwrap(),
                left_to: new.left_to,
                error: new.error.clone(),
                name: planned.name.clone(),
                action: planned.action,
                claim: 0,
                epoch: 0,
                ..step(new.id, new.deletion, key, new.state, micros(new.since))
            };
            let plan = StepPlan {
                position: u32::try_from(new.position).unwrap(),
                rank: new.rank,
                max_attempts: new.max_attempts,
                branch: new.branch,
                project_id: planned.project_id.to_string(),
                vars: (*planned.vars).clone(),
                why: planned.why.to_string(),
                fingerprint: planned.fingerprint.clone(),
            };
            tables.insert_step(row, plan);
        }
        Ok(())
    }

    fn insert_edges(&self, edges: &[(i64, i64)]) -> Answer {
        self.tables().edges.extend(edges);
        Ok(())
    }

    fn remember_copies(&self, deletion: i64, copies: &[OriginalCopies]) -> Answer {
        let tables = &mut *self.tables();
        for of in copies {
            let Some(record) = tables.record_of.get(&of.original) else {
                continue;
            };
            if tables.tombstones[record].1.deletion == deletion {
                tables.copies.insert(*record, of.clone());
            }
        }
        Ok(())
    }
}
