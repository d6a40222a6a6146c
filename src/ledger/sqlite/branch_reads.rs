//! Reads of the branches of a deletion's tree. Their steps are counted from an index of branch and state alone.

use rusqlite::{Connection, params};

use super::sql::{Run, Sql};
use crate::domain::model::{Counts, StepState};
use crate::domain::outline::Branch;
use crate::ledger::store::BranchRange;
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;

pub(super) fn load(db: &Connection, num: i64, below: Option<i64>) -> Sql<Vec<Branch>> {
    let mut branches = db.all(
        "SELECT id, below, site, kind, action, leaf FROM branches
         WHERE deletion = ?1 AND below IS ?2 ORDER BY id",
        params![num, below],
        |row| Ok(decode::branch(row)?),
    )?;
    for branch in &mut branches {
        branch.counts = count(db, branch.id)?;
    }
    Ok(branches)
}

pub(super) fn count(db: &Connection, branch: i64) -> Sql<Counts> {
    let counted: Vec<(StepState, u64)> = db.all(
        "SELECT state, count(*) FROM steps INDEXED BY steps_by_branch WHERE branch = ?1
         GROUP BY state",
        [branch],
        |row| Ok((row.word(0)?, row.read(1)?)),
    )?;
    let mut counts = Counts::default();
    for (state, number) in counted {
        *counts.of_mut(state) += number;
        counts.total += number;
    }
    Ok(counts)
}

pub(super) fn find(db: &Connection, range: &BranchRange) -> Sql<Vec<i64>> {
    let order = if range.from_end { "DESC" } else { "ASC" };
    db.all(
        &format!(
            "SELECT id FROM steps INDEXED BY steps_by_branch WHERE branch = ?1 AND state = ?2
             ORDER BY id {order} LIMIT ?3 OFFSET ?4"
        ),
        params![
            range.branch,
            range.state.as_str(),
            range.limit.cast_signed(),
            range.offset.cast_signed()
        ],
        |row| row.get(0),
    )
}
