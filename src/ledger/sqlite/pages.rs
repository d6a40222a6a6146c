//! Pages by filter. The first filter is always the state, which is indexed: each state is asked by
//! itself, in the page's order and to the page's length, and the answers are merged.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::batch::Sql;
use super::reads::{self, CAUSE, NEEDS_PERSON};
use super::rows::{self, TOMBSTONE};
use crate::domain::model::{Deletion, DeletionState, Step, StepState, Tombstone};
use crate::ledger::{Cursor, DeletionFilter, LedgerError, Paged, StepFilter, TombstoneFilter};

/// No page is longer; an unset limit means this.
pub(super) const PAGE_MAX: usize = 500;

pub(super) fn limit(wanted: usize) -> usize {
    match wanted {
        0 => PAGE_MAX,
        n => n.min(PAGE_MAX),
    }
}

/// Where a page goes on: the keys of the last row before it.
pub(super) fn position<const N: usize>(cursor: &Cursor) -> Result<Option<[i64; N]>, LedgerError> {
    let Some(text) = &cursor.after else {
        return Ok(None);
    };
    let keys: Option<Vec<i64>> = text.split(':').map(|key| key.parse().ok()).collect();
    keys.and_then(|keys| <[i64; N]>::try_from(keys).ok())
        .map(Some)
        .ok_or_else(|| LedgerError::Cursor {
            cursor: text.chars().take(40).collect(),
        })
}

/// Conditions that are joined by AND, and their values in order.
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

    /// Runs `select … WHERE state = ? AND …` for one state and reads its two leading integers.
    fn keys(
        &self,
        db: &Connection,
        select: &str,
        state: &str,
        order: &str,
        limit: usize,
    ) -> Sql<Vec<(i64, i64)>> {
        let sql = format!("{select} WHERE state = ?{} {order} LIMIT {limit}", self.sql);
        let values = std::iter::once(Value::from(state.to_owned())).chain(self.values.clone());
        db.prepare_cached(&sql)?
            .query_map(params_from_iter(values), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
            .collect()
    }
}

/// Newest first; the cursor is the number of the last one.
pub(super) fn deletions(
    db: &Connection,
    filter: &DeletionFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Sql<Paged<Deletion>> {
    let mut conditions = Conditions::default();
    if let Some([num]) = after {
        conditions.and("d.num < ?", [num.into()]);
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
            "ORDER BY d.num DESC",
            limit + 1,
        )?);
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    let next = (found.len() > limit).then(|| found[limit - 1].0.to_string());
    let rows = found
        .iter()
        .take(limit)
        .map(|(num, _)| reads::deletion_by_num(db, *num))
        .collect::<Sql<_>>()?;
    Ok(Paged { rows, next })
}

/// By deletion, then by id; the cursor is both.
pub(super) fn steps(
    db: &Connection,
    filter: &StepFilter,
    after: Option<[i64; 2]>,
    limit: usize,
) -> Sql<Paged<Step>> {
    let mut conditions = Conditions::default();
    if let Some(id) = &filter.deletion_id {
        let Some(num) = reads::find(db, id)? else {
            return Ok(Paged {
                rows: Vec::new(),
                next: None,
            });
        };
        conditions.and("deletion = ?", [num.into()]);
        if let Some([_, id]) = after {
            conditions.and("id > ?", [id.into()]);
        }
    } else if let Some([num, id]) = after {
        conditions.and("(deletion, id) > (?, ?)", [num.into(), id.into()]);
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
    let states = match filter.states.as_slice() {
        [] => &StepState::ALL,
        some => some,
    };
    let mut found = Vec::new();
    for state in states {
        found.extend(conditions.keys(
            db,
            "SELECT deletion, id FROM steps INDEXED BY steps_by_state",
            state.as_str(),
            "ORDER BY deletion, id",
            limit + 1,
        )?);
    }
    found.sort_unstable();
    found.dedup();
    let next = (found.len() > limit).then(|| {
        let (num, id) = found[limit - 1];
        format!("{num}:{id}")
    });
    let rows = found
        .iter()
        .take(limit)
        .filter_map(|(_, id)| reads::step(db, *id, Some(PAGE_MAX)).transpose())
        .collect::<Sql<_>>()?;
    Ok(Paged { rows, next })
}

/// By record; the cursor is the last one.
pub(super) fn tombstones(
    db: &Connection,
    filter: &TombstoneFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Sql<Paged<Tombstone>> {
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
    let [record] = after.unwrap_or([0]);
    let sql = format!(
        "{TOMBSTONE} WHERE t.record_id > ?{} ORDER BY t.record_id LIMIT {}",
        conditions.sql,
        limit + 1
    );
    let values = std::iter::once(Value::from(record)).chain(conditions.values);
    let mut rows = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), rows::tombstone)?
        .collect::<Sql<Vec<_>>>()?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows
        .last()
        .filter(|_| more)
        .map(|row| row.record_id.to_string());
    Ok(Paged { rows, next })
}
