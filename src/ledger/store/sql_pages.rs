//! Pages of deletions, steps and tombstones by filter, in the SQL of all stores. The first condition on deletions and
//! steps is the state, which is indexed.

use std::collections::BTreeSet;

use super::Stored;
use super::decode::{self, SEARCHED, TOMBSTONE};
use super::reads::{SearchedStep, StepRange, TombstoneRow};
use super::sql::{Dialect, ReadColumns as _, SqlValue, Statements};
use crate::domain::model::{DeletionState, KindName, Site};
use crate::ledger::{DeletionFilter, TombstoneFilter};

/// Conditions, each with an AND before it, and their values in order.
#[derive(Default)]
struct Conditions<'v> {
    sql: String,
    values: Vec<SqlValue<'v>>,
}

impl<'v> Conditions<'v> {
    /// Adds a condition, in which each `?` stands for the next of these values.
    fn and<const N: usize>(&mut self, condition: &str, values: [SqlValue<'v>; N]) {
        self.sql.push_str(" AND ");
        let mut values = values.into_iter();
        for (at, part) in condition.split('?').enumerate() {
            if at > 0 {
                let place = values.next().map(|value| self.place(value));
                self.sql.push_str(&place.unwrap_or_default());
            }
            self.sql.push_str(part);
        }
    }

    fn of_site_and_kind(&mut self, site: Option<&'v Site>, kind: Option<&'v KindName>) {
        if let Some(site) = site {
            self.and("site = ?", [site.into()]);
        }
        if let Some(kind) = kind {
            self.and("kind = ?", [kind.into()]);
        }
    }

    /// Adds a value, and returns its name (`$3`).
    fn place(&mut self, value: impl Into<SqlValue<'v>>) -> String {
        self.values.push(value.into());
        format!("${}", self.values.len())
    }
}

/// The condition of [`crate::domain::attention::needs_person`].
pub(super) fn needs_person(dialect: &Dialect) -> String {
    format!(
        "(state = 'stuck' OR state = 'blocked' AND EXISTS(SELECT 1 FROM {} b
             WHERE NOT CAST(b.value ->> 'in_plan' AS boolean)))",
        (dialect.elements)("blockers")
    )
}

/// The columns that make up a cause, besides state and kind ([`crate::domain::attention::Cause`]).
pub(super) fn cause(dialect: &Dialect) -> [String; 3] {
    let error = format!("last_error{}", dialect.as_json);
    [
        format!("{error} ->> 'class'"),
        format!("CAST({error} ->> 'status' AS bigint)"),
        format!("{error} ->> 'type'"),
    ]
}

/// Reads the deletions in each state along an index: in the page's order, and up to the page's length.
pub(super) fn deletions<S: Statements>(
    rows: &S,
    filter: &DeletionFilter,
    after: Option<i64>,
    limit: usize,
) -> Stored<S, Vec<i64>> {
    let mut conditions = Conditions::default();
    let (beyond, order) = match filter.oldest_first {
        true => ("d.num > ?", "ASC"),
        false => ("d.num < ?", "DESC"),
    };
    if let Some(num) = after {
        conditions.and(beyond, [num.into()]);
    }
    if let Some(time) = filter.older_than {
        conditions.and("d.requested_at < ?", [time.into()]);
    }
    let site = filter.site.as_ref().map(Site::to_string);
    let kind = filter.kind.as_ref().map(KindName::as_str);
    if site.is_some() || kind.is_some() {
        let about = format!(
            "EXISTS (SELECT 1 FROM requests r, {} t WHERE r.num = d.num
                 AND t.value ->> 'site' = coalesce(CAST(? AS text), t.value ->> 'site')
                 AND t.value ->> 'kind' = coalesce(CAST(? AS text), t.value ->> 'kind'))",
            (S::DIALECT.elements)("r.targets")
        );
        conditions.and(&about, [site.into(), kind.into()]);
    }
    let (limit, wanted) = (conditions.place(limit), &conditions.sql);
    let states: BTreeSet<DeletionState> = match filter.states.as_slice() {
        [] => DeletionState::ALL.into_iter().collect(),
        some => some.iter().copied().collect(),
    };
    let of_states = states.iter().map(|state| {
        format!(
            "SELECT * FROM (SELECT d.num FROM deletions d WHERE d.state = '{}'{wanted}
                 ORDER BY d.num {order} LIMIT {limit}) AS of_{0}",
            state.as_str()
        )
    });
    let sql = format!(
        "{} ORDER BY num {order} LIMIT {limit}",
        of_states.collect::<Vec<_>>().join(" UNION ALL ")
    );
    rows.read_all(&sql, &conditions.values, |row| row.read(0))
}

pub(super) fn steps<S: Statements>(
    rows: &S,
    range: &StepRange<'_>,
    limit: usize,
) -> Stored<S, Vec<(i64, i64)>> {
    let (sql, values) = select_range(&S::DIALECT, "deletion, id", range, limit);
    rows.read_all(&sql, &values, |row| Ok((row.read(0)?, row.read(1)?)))
}

pub(super) fn search_steps<S: Statements>(
    rows: &S,
    range: &StepRange<'_>,
    limit: usize,
    visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
) -> Stored<S> {
    let (sql, values) = select_range(&S::DIALECT, SEARCHED, range, limit);
    rows.visit_rows(&sql, &values, &mut |row| Ok(visit(&decode::searched(row)?)))
}

/// A statement that reads these columns of the steps of a range, and its values.
fn select_range<'f>(
    dialect: &Dialect,
    columns: &str,
    range: &StepRange<'f>,
    limit: usize,
) -> (String, Vec<SqlValue<'f>>) {
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
    conditions.of_site_and_kind(filter.site.as_ref(), filter.kind.as_ref());
    if let Some(time) = filter.older_than {
        conditions.and("since < ?", [time.into()]);
    }
    if let Some(of) = &filter.cause {
        let columns = cause(dialect).join(", ");
        conditions.and(&needs_person(dialect), []);
        conditions.and(
            &format!("(state, kind, {columns}) IS NOT DISTINCT FROM (?, ?, ?, ?, ?)"),
            [
                of.state.into(),
                (&of.kind).into(),
                of.class.map(|class| class.as_str()).into(),
                of.status.map(i64::from).into(),
                of.error_type.as_deref().into(),
            ],
        );
    }
    let limit = conditions.place(limit);
    let sql = format!(
        "SELECT {columns} FROM steps {} WHERE state = '{}'{} ORDER BY deletion, id LIMIT {limit}",
        dialect.by_index("steps_by_state"),
        range.state.as_str(),
        conditions.sql
    );
    (sql, conditions.values)
}

pub(super) fn tombstones<S: Statements>(
    rows: &S,
    filter: &TombstoneFilter,
    after: i64,
    limit: usize,
) -> Stored<S, Vec<TombstoneRow>> {
    let mut conditions = Conditions::default();
    let after = conditions.place(after);
    if let Some(id) = &filter.id {
        conditions.and("id = ?", [id.into()]);
    }
    conditions.of_site_and_kind(filter.site.as_ref(), filter.kind.as_ref());
    if !filter.phases.is_empty() {
        let phases = filter.phases.iter();
        let phases: Vec<_> = phases.map(|it| format!("'{}'", it.as_str())).collect();
        conditions.and(&format!("phase IN ({})", phases.join(", ")), []);
    }
    let limit = conditions.place(limit);
    let sql = format!(
        "SELECT {TOMBSTONE} FROM tombstones t WHERE t.record_id > {after}{} ORDER BY t.record_id
         LIMIT {limit}",
        conditions.sql
    );
    rows.read_all(&sql, &conditions.values, decode::tombstone)
}
