//! Pages of deletions, steps and tombstones by filter. For deletions and steps, the first condition is the state,
//! which is indexed.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::rows::{self, CAUSE, NEEDS_PERSON};
use super::sql::{Run, Sql};
use crate::domain::model::DeletionState;
use crate::ledger::store::decode::{self, SEARCHED, TOMBSTONE};
use crate::ledger::store::{SearchedStep, StepRange, TombstoneRow};
use crate::ledger::{DeletionFilter, TombstoneFilter};

/// Conditions joined by AND, and their values in order.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    /// Runs `select … WHERE state = ? AND …` for one state, and returns the first two columns.
    fn keys(
        &self,
        db: &Connection,
        select: &str,
        state: &str,
        order: &str,
        limit: usize,
    ) -> Sql<Vec<(i64, i64)>> {
        // SQLite reads a negative limit as no limit.
        let limit = i64::try_from(limit).unwrap_or(-1);
        let sql = format!("{select} WHERE state = ?{} {order} LIMIT {limit}", self.sql);
        let values = std::iter::once(Value::from(state.to_owned())).chain(self.values.clone());
        db.all(&sql, params_from_iter(values), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }
}

/// Queries each state separately, because the state is indexed: in the page's order and up to the page's length.
pub(super) fn deletions(
    db: &Connection,
    filter: &DeletionFilter,
    after: Option<i64>,
    limit: usize,
) -> Sql<Vec<i64>> {
    let mut conditions = Conditions::default();
    if let Some(num) = after {
        let beyond = if filter.oldest_first {
            "d.num > ?"
        } else {
            "d.num < ?"
        };
        conditions.and(beyond, [num.into()]);
    }
    if let Some(time) = filter.older_than {
        conditions.and("requested_at < ?", [rows::micros(time).into()]);
    }
    if filter.site.is_some() || filter.kind.is_some() {
        let site = filter.site.as_ref().map(ToString::to_string);
        let kind = filter.kind.as_ref().map(ToString::to_string);
        conditions.and(
            "EXISTS (SELECT 1 FROM requests r, json_each(r.targets) t WHERE r.num = d.num
                 AND t.value ->> 'site' = coalesce(?, t.value ->> 'site')
                 AND t.value ->> 'kind' = coalesce(?, t.value ->> 'kind'))",
            [Value::from(site), Value::from(kind)],
        );
    }
    let states = match filter.states.as_slice() {
        [] => &DeletionState::ALL,
        some => some,
    };
    let mut found = Vec::new();
    for state in states {
        found.extend(conditions.keys(
            db,
            "SELECT d.num, 0 FROM deletions d",
            state.as_str(),
            if filter.oldest_first {
                "ORDER BY d.num"
            } else {
                "ORDER BY d.num DESC"
            },
            limit,
        )?);
    }
    found.sort_unstable();
    if !filter.oldest_first {
        found.reverse();
    }
    found.dedup();
    found.truncate(limit);
    Ok(found.into_iter().map(|(num, _)| num).collect())
}

pub(super) fn steps(db: &Connection, range: &StepRange<'_>, limit: usize) -> Sql<Vec<(i64, i64)>> {
    conditions_of(range).keys(
        db,
        "SELECT deletion, id FROM steps INDEXED BY steps_by_state",
        range.state.as_str(),
        "ORDER BY deletion, id",
        limit,
    )
}

pub(super) fn search_steps(
    db: &Connection,
    range: &StepRange<'_>,
    limit: usize,
    visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
) -> Sql<()> {
    let conditions = conditions_of(range);
    let mut search = db.prepare_cached(&format!(
        "SELECT {SEARCHED} FROM steps INDEXED BY steps_by_state WHERE state = ?{} ORDER BY deletion, id LIMIT {limit}",
        conditions.sql
    ))?;
    let values = std::iter::once(Value::from(range.state.as_str().to_owned()));
    let mut rows = search.query(params_from_iter(values.chain(conditions.values)))?;
    while let Some(row) = rows.next()? {
        if !visit(&decode::searched(row)?) {
            break;
        }
    }
    Ok(())
}

fn conditions_of(range: &StepRange<'_>) -> Conditions {
    let mut conditions = Conditions::default();
    let filter = range.filter;
    match (range.deletion, range.after) {
        (Some(num), after) => {
            conditions.and("deletion = ?", [num.into()]);
            if let Some((_, id)) = after {
                conditions.and("id > ?", [id.into()]);
            }
        }
        (None, Some((num, id))) => {
            conditions.and("(deletion, id) > (?, ?)", [num.into(), id.into()]);
        }
        (None, None) => {}
    }
    if let Some(site) = &filter.site {
        conditions.and("site = ?", [site.to_string().into()]);
    }
    if let Some(kind) = &filter.kind {
        conditions.and("kind = ?", [kind.to_string().into()]);
    }
    if let Some(time) = filter.older_than {
        conditions.and("since < ?", [rows::micros(time).into()]);
    }
    if let Some(cause) = &filter.cause {
        conditions.and(
            &format!("{NEEDS_PERSON} AND (state, kind, {CAUSE}) IS (?, ?, ?, ?, ?)"),
            [
                cause.state.as_str().to_owned().into(),
                cause.kind.to_string().into(),
                cause.class.map(|class| class.as_str().to_owned()).into(),
                cause.status.map(i64::from).into(),
                cause.error_type.clone().into(),
            ],
        );
    }
    conditions
}

pub(super) fn tombstones(
    db: &Connection,
    filter: &TombstoneFilter,
    after: i64,
    limit: usize,
) -> Sql<Vec<TombstoneRow>> {
    let mut conditions = Conditions::default();
    if let Some(id) = &filter.id {
        conditions.and("t.id = ?", [id.clone().into()]);
    }
    if let Some(site) = &filter.site {
        conditions.and("t.site = ?", [site.to_string().into()]);
    }
    if let Some(kind) = &filter.kind {
        conditions.and("t.kind = ?", [kind.to_string().into()]);
    }
    if !filter.phases.is_empty() {
        let marks = vec!["?"; filter.phases.len()].join(", ");
        conditions.and(
            &format!("t.phase IN ({marks})"),
            filter
                .phases
                .iter()
                .map(|phase| phase.as_str().to_owned().into()),
        );
    }
    let sql = format!(
        "SELECT {TOMBSTONE} FROM tombstones t WHERE t.record_id > ?{} ORDER BY t.record_id \
         LIMIT {limit}",
        conditions.sql
    );
    let values = std::iter::once(Value::from(after)).chain(conditions.values);
    db.all(&sql, params_from_iter(values), |row| {
        Ok(decode::tombstone(row)?)
    })
}
