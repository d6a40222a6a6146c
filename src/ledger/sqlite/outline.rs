//! The tree of a deletion. The branch of each step is written once, with the steps; the branches that
//! somebody views are counted from an index of branch and state alone.

use super::sql::{Run, Sql};
use super::{reads, rows};
use crate::domain::model::{Counts, KindName, Step, StepState};
use crate::domain::outline::{self, BY_URGENCY, Branch, BranchRead, FOLD_FROM, Outline, Place};
use rusqlite::{Connection, Row, params};

/// Inserts the branches of a deletion, whose `below` is a position in the plan, and returns the id of the first;
/// the others follow. `id_of` returns the id of the step at a position.
pub(super) fn insert(
    db: &Connection,
    num: i64,
    branches: &[Branch],
    id_of: impl Fn(i64) -> Option<i64>,
) -> Sql<i64> {
    let first: i64 = db.one("SELECT coalesce(max(id), 0) + 1 FROM branches", (), |row| {
        row.get(0)
    })?;
    let mut insert = db.prepare_cached(
        "INSERT INTO branches(id, deletion, below, site, kind, action, leaf)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for branch in branches {
        insert.execute(params![
            first + branch.id,
            num,
            branch.below.and_then(&id_of),
            branch.site.to_string(),
            branch.kind.as_str(),
            branch.action.as_str(),
            branch.leaf
        ])?;
    }
    Ok(first)
}

/// Writes the branches of the steps of an older ledger.
pub(super) fn plant_all(db: &Connection) -> Sql<()> {
    let deletions: Vec<i64> = db
        .prepare("SELECT num FROM deletions")?
        .query_map((), |row| row.get(0))?
        .collect::<Sql<_>>()?;
    let mut place = db.prepare("UPDATE steps SET branch = ?2 WHERE id = ?1")?;
    for num in deletions {
        let (ids, mut steps) = reads::planned_steps(db, num)?;
        let positions: Vec<u32> = steps.iter().map(|step| step.id).collect();
        for step in &mut steps {
            // Some of the steps may have been pruned.
            let left = step.depends_on.iter();
            let left = left.filter_map(|position| positions.binary_search(position).ok());
            step.depends_on = left.filter_map(|at| u32::try_from(at).ok()).collect();
        }
        let planted = outline::plant(&steps);
        let id_of = |at| ids.get(usize::try_from(at).ok()?).copied();
        let first = insert(db, num, &planted.branches, id_of)?;
        for (id, branch) in ids.iter().zip(planted.branch_of) {
            place.execute(params![id, first + i64::from(branch)])?;
        }
    }
    Ok(())
}

/// The branches of a deletion below these steps.
pub(super) fn outline(db: &Connection, deletion_id: &str, below: &[Option<i64>]) -> Sql<Outline> {
    let mut outline = Outline::default();
    let Some(num) = reads::find(db, deletion_id)? else {
        return Ok(outline);
    };
    let mut branches = db.prepare_cached(&format!(
        "{BRANCH} WHERE deletion = ?1 AND below IS ?2 ORDER BY id"
    ))?;
    for below in below {
        let found = branches.query_map(params![num, below], branch)?;
        for branch in found.collect::<Sql<Vec<Branch>>>()? {
            if let Some(read) = counted(db, branch)? {
                outline.branches.push(read);
            }
        }
        if let Some(step) = below {
            outline.places.extend(place(db, num, *step)?);
        }
    }
    Ok(outline)
}

/// The steps of a branch of the deletion, whose counts are given, from this index on, in the order
/// [`BY_URGENCY`].
pub(super) fn branch_steps(
    db: &Connection,
    deletion_id: &str,
    (branch, counts): (i64, &Counts),
    from: u64,
    limit: usize,
) -> Sql<Vec<Step>> {
    let owner: Option<i64> = db.first(
        "SELECT deletion FROM branches WHERE id = ?1",
        [branch],
        |row| row.get(0),
    )?;
    if owner.is_none() || owner != reads::find(db, deletion_id)? {
        return Ok(Vec::new());
    }
    let (mut steps, mut skip, mut room) = (Vec::new(), from, limit as u64);
    for state in BY_URGENCY {
        let all = counts.of(state);
        let passed = skip.min(all);
        skip -= passed;
        let wanted = room.min(all - passed);
        room -= wanted;
        for id in of_state(db, (branch, state), all, passed, wanted)? {
            steps.extend(reads::step(db, id, Some(0))?);
        }
    }
    Ok(steps)
}

/// The ids of the `wanted` steps in one state that follow the first `passed` of `all`; read from the nearer
/// end.
fn of_state(
    db: &Connection,
    (branch, state): (i64, StepState),
    all: u64,
    passed: u64,
    wanted: u64,
) -> Sql<Vec<i64>> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let behind = all - passed - wanted;
    let order = if behind < passed { "DESC" } else { "ASC" };
    let offset = passed.min(behind) as i64;
    let mut ids: Vec<i64> = db.all(
        &format!(
            "SELECT id FROM steps INDEXED BY steps_by_branch WHERE branch = ?1 AND state = ?2
             ORDER BY id {order} LIMIT ?3 OFFSET ?4"
        ),
        params![branch, state.as_str(), wanted as i64, offset],
        |row| row.get(0),
    )?;
    if behind < passed {
        ids.reverse();
    }
    Ok(ids)
}

const BRANCH: &str = "SELECT id, below, site, kind, action, leaf FROM branches";

fn branch(row: &Row) -> Sql<Branch> {
    Ok(Branch {
        id: row.get(0)?,
        below: row.get(1)?,
        site: rows::site(row, 2)?,
        kind: KindName::new(row.get_ref(3)?.as_str()?),
        action: rows::word(row, 4)?,
        leaf: row.get(5)?,
        counts: Counts::default(),
    })
}

/// None if all steps of the branch were pruned.
fn counted(db: &Connection, branch: Branch) -> Sql<Option<BranchRead>> {
    let counts = counts(db, branch.id)?;
    let mut steps = Vec::new();
    if counts.total < FOLD_FROM {
        let ids = db.all(
            "SELECT id FROM steps WHERE branch = ?1 ORDER BY id",
            [branch.id],
            |row| row.get(0),
        )?;
        for id in ids {
            steps.extend(reads::step(db, id, Some(0))?);
        }
    }
    let branch = Branch { counts, ..branch };
    Ok((counts.total > 0).then_some(BranchRead { branch, steps }))
}

fn counts(db: &Connection, branch: i64) -> Sql<Counts> {
    let counted: Vec<(StepState, u64)> = db.all(
        "SELECT state, count(*) FROM steps INDEXED BY steps_by_branch WHERE branch = ?1
         GROUP BY state",
        [branch],
        |row| Ok((rows::word(row, 0)?, rows::number(row, 1)?)),
    )?;
    let mut counts = Counts::default();
    for (state, number) in counted {
        *counts.of_mut(state) += number;
        counts.total += number;
    }
    Ok(counts)
}

/// The index of a step in its branch, if the branch is long. A short branch is read anyway.
fn place(db: &Connection, num: i64, id: i64) -> Sql<Option<Place>> {
    let branch: Option<i64> = db.first(
        "SELECT branch FROM steps WHERE id = ?1 AND deletion = ?2",
        [id, num],
        |row| row.get(0),
    )?;
    let (Some(branch), Some(step)) = (branch, reads::step(db, id, Some(0))?) else {
        return Ok(None);
    };
    let counts = counts(db, branch)?;
    if counts.total < FOLD_FROM {
        return Ok(None);
    }
    let before = BY_URGENCY
        .into_iter()
        .take_while(|state| *state != step.state);
    let before: u64 = before.map(|state| counts.of(state)).sum();
    let beside: u64 = db.one(
        "SELECT count(*) FROM steps INDEXED BY steps_by_branch
             WHERE branch = ?1 AND state = ?2 AND id < ?3",
        params![branch, step.state.as_str(), id],
        |row| rows::number(row, 0),
    )?;
    Ok(Some(Place {
        branch,
        index: before + beside,
        step,
    }))
}
