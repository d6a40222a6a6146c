//! Writes the branches of deletions' trees in an old ledger. The branches of a new deletion are written with its steps.

use rusqlite::{Connection, params};

use super::sql::{Run, Sql};
use crate::domain::model::{PlanStep, StepState};
use crate::domain::outline;
use crate::ledger::store::sql::{ReadColumns as _, json};

/// Writes the branches of all deletions, in a ledger of a version that had none.
pub(super) fn write_all_outlines(db: &Connection) -> Sql<()> {
    let deletions: Vec<i64> = db
        .prepare("SELECT num FROM deletions")?
        .query_map((), |row| row.get(0))?
        .collect::<Sql<_>>()?;
    let mut insert = db.prepare(
        "INSERT INTO branches(id, deletion, below, site, kind, action, leaf)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let mut place = db.prepare("UPDATE steps SET branch = ?2 WHERE id = ?1")?;
    for num in deletions {
        let (ids, mut steps) = planned_steps(db, num)?;
        let positions: Vec<u32> = steps.iter().map(|step| step.id).collect();
        for step in &mut steps {
            // Some of the steps may have been pruned.
            let left = step.depends_on.iter();
            let left = left.filter_map(|position| positions.binary_search(position).ok());
            step.depends_on = left.filter_map(|at| u32::try_from(at).ok()).collect();
        }
        let tree = outline::build_tree(&steps);
        let next = "SELECT coalesce(max(id), 0) + 1 FROM branches";
        let first: i64 = db.one(next, (), |row| row.get(0))?;
        for branch in &tree.branches {
            let below = branch.below.and_then(|at| usize::try_from(at).ok());
            insert.execute(params![
                first + branch.id,
                num,
                below.and_then(|at| ids.get(at)),
                branch.site.to_string(),
                branch.kind.as_str(),
                branch.action.as_str(),
                branch.leaf
            ])?;
        }
        for (id, branch) in ids.iter().zip(tree.branch_of) {
            place.execute(params![id, first + i64::from(branch)])?;
        }
    }
    Ok(())
}

/// Returns the steps of a deletion and their ids, ordered by id, without steps that were pruned.
fn planned_steps(db: &Connection, num: i64) -> Sql<(Vec<i64>, Vec<PlanStep>)> {
    let mut found = db.all(
        "SELECT id, position, site, kind, resource, action, name, project, why, fingerprint,
                 vars
             FROM steps WHERE state IN (SELECT value FROM json_each(?2)) AND deletion = ?1",
        params![num, json(&StepState::ALL)?],
        |row| {
            let key = row.key(2)?;
            let id: i64 = row.get(0)?;
            Ok((
                id,
                PlanStep {
                    id: row.read(1)?,
                    site: key.site,
                    kind: key.kind,
                    resource_id: key.id,
                    action: row.word(5)?,
                    name: row.get(6)?,
                    project_id: row.get(7)?,
                    depends_on: Vec::new(),
                    // Resources that the cloud removes by itself are not steps.
                    automatic: false,
                    why: row.get(8)?,
                    fingerprint: row.get(9)?,
                    vars: row.json_or_default(10)?,
                    compared: Default::default(),
                },
            ))
        },
    )?;
    found.sort_unstable_by_key(|(id, _)| *id);
    let mut edges = db.prepare_cached("SELECT dependency FROM edges WHERE dependent = ?1")?;
    for (id, step) in &mut found {
        let first = *id - i64::from(step.id);
        step.depends_on = edges
            .query_map([*id], |row| row.get::<_, i64>(0))?
            .map(|id| id.map(|id| u32::try_from(id - first).unwrap_or_default()))
            .collect::<Sql<_>>()?;
        step.depends_on.sort_unstable();
    }
    Ok(found.into_iter().unzip())
}
