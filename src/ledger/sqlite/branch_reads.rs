//! Branches of a deletion's tree, counted from an index of branch and state alone.

use rusqlite::{Connection, Row, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::model::{Counts, KindName, StepState};
use crate::domain::outline::Branch;
use crate::ledger::store::BranchRange;

pub(super) fn load(db: &Connection, num: i64, below: Option<i64>) -> Sql<Vec<Branch>> {
    let mut branches = db.all(
        "SELECT id, below, site, kind, action, leaf FROM branches
         WHERE deletion = ?1 AND below IS ?2 ORDER BY id",
        params![num, below],
        branch,
    )?;
    for branch in &mut branches {
        branch.counts = count(db, branch.id)?;
    }
    Ok(branches)
}

/// Without its counts.
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

pub(super) fn count(db: &Connection, branch: i64) -> Sql<Counts> {
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
