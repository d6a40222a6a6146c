//! The rows of steps.

use std::sync::LazyLock;

use super::client::{Columns, Connection};
use super::failed::Sql;
use super::rows::{self, micros_opt};
use crate::ledger::store::decode::STEP;
use crate::ledger::store::{NewStep, StoredStep};

/// Loads steps by their ids; those that do not exist are left out.
pub(super) static LOAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {STEP} FROM unnest($1::bigint[]) WITH ORDINALITY AS k(id, n)
         JOIN steps s ON s.id = k.id ORDER BY k.n"
    )
});

/// Loads the steps that depend on any of these.
pub(super) static LOAD_DEPENDENTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {STEP} FROM steps s
         WHERE s.id IN (SELECT dependent FROM edges WHERE dependency = ANY($1))"
    )
});

/// The columns of steps to save, in the order of [`SAVE`].
#[derive(Default)]
pub(super) struct Saved {
    ids: Vec<i64>,
    states: Vec<&'static str>,
    since: Vec<i64>,
    waits: Vec<i64>,
    attempts: Vec<i64>,
    looks: Vec<i64>,
    next: Vec<Option<i64>>,
    own: Vec<Option<i64>>,
    blocked: Vec<Option<i64>>,
    blockers: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    held_by: Vec<Option<i64>>,
    claims: Vec<i64>,
    epochs: Vec<i64>,
    sent: Vec<bool>,
    ended: Vec<Option<i64>>,
    left_to: Vec<Option<i64>>,
    records: Vec<Option<i64>>,
    actions: Vec<&'static str>,
    told: Vec<bool>,
}

/// Saves steps. A column that keeps its value costs no entry of an index.
pub(super) const SAVE: &str = "
    UPDATE steps s SET state = n.state, since = n.since, waits = n.waits, attempts = n.attempts,
        looks = n.looks, next_attempt_at = n.next, own_attempt_at = n.own,
        blocked_since = n.blocked, blockers = n.blockers, last_error = n.error,
        held_by = n.held_by, claim = n.claim, epoch = n.epoch, sent = n.sent,
        ended_at = n.ended, left_to = n.left_to, record = n.record, action = n.action,
        told = n.told
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
        $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::bigint[],
        $13::bigint[], $14::bigint[], $15::boolean[], $16::bigint[], $17::bigint[], $18::bigint[],
        $19::text[], $20::boolean[])
        AS n(id, state, since, waits, attempts, looks, next, own, blocked, blockers, error,
            held_by, claim, epoch, sent, ended, left_to, record, action, told)
    WHERE s.id = n.id";

impl Saved {
    pub(super) fn of<'s>(steps: impl IntoIterator<Item = &'s StoredStep>) -> Sql<Self> {
        let mut all = Self::default();
        for step in steps {
            all.ids.push(step.id);
            all.states.push(step.state.as_str());
            all.since.push(rows::micros(step.since));
            all.waits.push(i64::from(step.waits));
            all.attempts.push(i64::from(step.attempts));
            all.looks.push(i64::from(step.observations));
            all.next.push(micros_opt(step.next_attempt_at));
            all.own.push(micros_opt(step.own_attempt_at));
            all.blocked.push(micros_opt(step.blocked_since));
            let blockers = (!step.blockers.is_empty()).then_some(&step.blockers);
            all.blockers.push(rows::json_opt(blockers)?);
            all.errors.push(rows::json_opt(step.error.as_ref())?);
            all.held_by.push(step.held_by);
            all.claims.push(step.claim);
            all.epochs.push(step.epoch);
            all.sent.push(step.sent);
            all.ended.push(micros_opt(step.ended_at));
            all.left_to.push(step.left_to);
            all.records.push(step.record);
            all.actions.push(step.action.as_str());
            all.told.push(step.notified);
        }
        Ok(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn values(&self) -> Columns<'_> {
        vec![
            &self.ids,
            &self.states,
            &self.since,
            &self.waits,
            &self.attempts,
            &self.looks,
            &self.next,
            &self.own,
            &self.blocked,
            &self.blockers,
            &self.errors,
            &self.held_by,
            &self.claims,
            &self.epochs,
            &self.sent,
            &self.ended,
            &self.left_to,
            &self.records,
            &self.actions,
            &self.told,
        ]
    }
}

/// Number of steps that one statement inserts: their columns are in memory twice, here and as a message.
const INSERTED_TOGETHER: usize = 5_000;

/// The columns that differ between the steps of a plan.
#[derive(Default)]
struct Planned {
    ids: Vec<i64>,
    deletions: Vec<i64>,
    states: Vec<&'static str>,
    waits: Vec<i64>,
    ranks: Vec<i64>,
    since: Vec<i64>,
    max_attempts: Vec<i64>,
    records: Vec<Option<i64>>,
    positions: Vec<i64>,
    keys: Vec<crate::domain::model::ResourceKey>,
    actions: Vec<&'static str>,
    names: Vec<String>,
    projects: Vec<String>,
    vars: Vec<Option<String>>,
    whys: Vec<String>,
    fingerprints: Vec<String>,
    branches: Vec<i64>,
    left_to: Vec<Option<i64>>,
    errors: Vec<Option<String>>,
}

pub(super) fn insert(db: &Connection, new: &[NewStep<'_>]) -> Sql<()> {
    for some in new.chunks(INSERTED_TOGETHER) {
        insert_together(db, some)?;
    }
    Ok(())
}

fn insert_together(db: &Connection, new: &[NewStep<'_>]) -> Sql<()> {
    let mut all = Planned::default();
    for step in new {
        let planned = step.planned;
        all.ids.push(step.id);
        all.deletions.push(step.deletion);
        all.states.push(step.state.as_str());
        all.waits.push(step.waits as i64);
        all.ranks.push(i64::from(step.rank));
        all.since.push(rows::micros(step.since));
        all.max_attempts.push(i64::from(step.max_attempts));
        all.records.push(step.record);
        all.positions.push(step.position as i64);
        all.keys.push(planned.key());
        all.actions.push(planned.action.as_str());
        all.names.push(planned.name.clone());
        all.projects.push(planned.project_id.to_string());
        let vars = (!planned.vars.is_empty()).then(|| rows::json(&*planned.vars));
        all.vars.push(vars.transpose()?);
        all.whys.push(planned.why.to_string());
        all.fingerprints.push(planned.fingerprint.clone());
        all.branches.push(step.branch);
        all.left_to.push(step.left_to);
        all.errors.push(rows::json_opt(step.error.as_ref())?);
    }
    let keys = rows::Keys::of(&all.keys);
    db.run(
        "INSERT INTO steps(id, deletion, state, waits, rank, since, max_attempts, record, position,
             site, kind, resource, action, name, project, vars, why, fingerprint, branch, left_to,
             last_error)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
             $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::text[],
             $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[],
             $18::text[], $19::bigint[], $20::bigint[], $21::text[])",
        &[
            &all.ids,
            &all.deletions,
            &all.states,
            &all.waits,
            &all.ranks,
            &all.since,
            &all.max_attempts,
            &all.records,
            &all.positions,
            &keys.sites,
            &keys.kinds,
            &keys.ids,
            &all.actions,
            &all.names,
            &all.projects,
            &all.vars,
            &all.whys,
            &all.fingerprints,
            &all.branches,
            &all.left_to,
            &all.errors,
        ],
    )
    .map(drop)
}
