//! Pages by filter. The first condition is always the state, which is indexed: each state is queried
//! separately, in the page's order and to the page's length, and the results are merged.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::reads::{self, CAUSE, NEEDS_PERSON};
use super::rows::{self, TOMBSTONE};
use super::sql::{Run, Sql};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::{
    Blocker, Deletion, DeletionState, Paged, Step, StepError, StepState, Tombstone,
};
use crate::ledger::{Cursor, DeletionFilter, LedgerError, StepFilter, TombstoneFilter};

/// Maximum length of a page; an unset limit means this.
pub(super) const PAGE_MAX: usize = 500;

pub(super) fn limit(wanted: usize) -> usize {
    match wanted {
        0 => PAGE_MAX,
        n => n.min(PAGE_MAX),
    }
}

/// Steps of one state that one page searches for a text: some 20 ms.
const LOOKED_MAX: usize = 25_000;

/// The position after which a page begins: the keys of the previous page's last row.
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
        db.all(&sql, params_from_iter(values), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }
}

impl Conditions {
    /// Finds the steps in one state that match the text: among the first [`LOOKED_MAX`], and at most `limit`.
    fn fitting(
        &self,
        db: &Connection,
        state: StepState,
        text: &SearchQuery,
        limit: usize,
    ) -> Sql<Stretch> {
        let sql = format!(
            "SELECT deletion, id, name, resource, action, kind, site, project, blocked_since,
                 blockers, last_error
             FROM steps INDEXED BY steps_by_state WHERE state = ?{} ORDER BY deletion, id",
            self.sql
        );
        let values = std::iter::once(Value::from(state.as_str().to_owned()));
        let mut look = db.prepare_cached(&sql)?;
        let mut rows = look.query(params_from_iter(values.chain(self.values.clone())))?;
        let mut stretch = Stretch::default();
        let mut looked = 0;
        while let Some(row) = rows.next()? {
            let key = (row.get(0)?, row.get(1)?);
            if has_text(row, state, text)? {
                stretch.found.push(key);
            }
            looked += 1;
            if looked == LOOKED_MAX || stretch.found.len() == limit {
                stretch.stopped_at = Some(key);
                break;
            }
        }
        Ok(stretch)
    }
}

/// The matches among the steps that were searched.
#[derive(Default)]
struct Stretch {
    found: Vec<(i64, i64)>,
    /// The last step that was searched, if there may be more after it.
    stopped_at: Option<(i64, i64)>,
}

fn has_text(row: &Row, state: StepState, text: &SearchQuery) -> Sql<bool> {
    let field = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    let blockers: Vec<Blocker> = rows::from_json_opt(row, 9)?;
    let error: Option<StepError> = rows::from_json_opt(row, 10)?;
    let mut texts = vec![field(2)?, field(3)?, field(4)?];
    for blocker in &blockers {
        texts.extend([blocker.id.as_str(), &blocker.name, &blocker.owner_name]);
    }
    if let Some(error) = &error {
        texts.extend([error.kind.as_str(), &error.message]);
    }
    Ok(text.fits(&Facts {
        texts: &texts,
        state: state.as_str(),
        kind: field(5)?,
        site: field(6)?,
        project: field(7)?,
        since: rows::time_opt(row, 8)?,
    }))
}

/// Newest first, or oldest first if the filter says so; the cursor is the number of the last one.
pub(super) fn deletions(
    db: &Connection,
    filter: &DeletionFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Sql<Paged<Deletion>> {
    let mut conditions = Conditions::default();
    if let Some([num]) = after {
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
            limit + 1,
        )?);
    }
    found.sort_unstable();
    if !filter.oldest_first {
        found.reverse();
    }
    found.dedup();
    let next = (found.len() > limit).then(|| found[limit - 1].0.to_string());
    let rows = found
        .iter()
        .take(limit)
        .map(|(num, _)| reads::deletion_by_num(db, *num))
        .collect::<Sql<_>>()?;
    Ok(Paged { rows, next })
}

/// Ordered by deletion, then by id; the cursor is both.
pub(super) fn steps(
    db: &Connection,
    filter: &StepFilter,
    after: Option<[i64; 2]>,
    limit: usize,
) -> Sql<Paged<Step>> {
    let Some(conditions) = conditions_of(db, filter, after)? else {
        return Ok(Paged {
            rows: Vec::new(),
            next: None,
        });
    };
    let (mut found, mut horizon) = (Vec::new(), None);
    for state in states_of(filter) {
        if filter.text.is_empty() {
            found.extend(conditions.keys(
                db,
                "SELECT deletion, id FROM steps INDEXED BY steps_by_state",
                state.as_str(),
                "ORDER BY deletion, id",
                limit + 1,
            )?);
            continue;
        }
        let stretch = conditions.fitting(db, *state, &filter.text, limit + 1)?;
        found.extend(stretch.found);
        horizon = horizon.into_iter().chain(stretch.stopped_at).min();
    }
    found.sort_unstable();
    found.dedup();
    // After the horizon, not all states were searched.
    found.retain(|key| horizon.is_none_or(|horizon| *key <= horizon));
    let next = match found.len() > limit {
        true => found.get(limit - 1).copied(),
        false => horizon,
    };
    let rows = found
        .iter()
        .take(limit)
        .filter_map(|(_, id)| reads::step(db, *id, Some(PAGE_MAX)).transpose())
        .collect::<Sql<_>>()?;
    let next = next.map(cursor);
    Ok(Paged { rows, next })
}

/// Counts the matching steps of a stretch, and returns where the next one begins.
pub(super) fn count_steps(
    db: &Connection,
    filter: &StepFilter,
    after: Option<[i64; 2]>,
) -> Sql<(u64, Option<String>)> {
    let Some(conditions) = conditions_of(db, filter, after)? else {
        return Ok((0, None));
    };
    let (mut found, mut horizon) = (Vec::new(), None);
    for state in states_of(filter) {
        let stretch = conditions.fitting(db, *state, &filter.text, usize::MAX)?;
        found.extend(stretch.found);
        horizon = horizon.into_iter().chain(stretch.stopped_at).min();
    }
    found.retain(|key| horizon.is_none_or(|horizon| *key <= horizon));
    Ok((found.len() as u64, horizon.map(cursor)))
}

fn states_of(filter: &StepFilter) -> &[StepState] {
    match filter.states.as_slice() {
        [] => &StepState::ALL,
        some => some,
    }
}

fn cursor((num, id): (i64, i64)) -> String {
    format!("{num}:{id}")
}

/// None if the deletion does not exist.
fn conditions_of(
    db: &Connection,
    filter: &StepFilter,
    after: Option<[i64; 2]>,
) -> Sql<Option<Conditions>> {
    let mut conditions = Conditions::default();
    if let Some(id) = &filter.deletion_id {
        let Some(num) = reads::find(db, id)? else {
            return Ok(None);
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
    Ok(Some(conditions))
}

/// Ordered by record; the cursor is the last one.
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
    let found = db.all(&sql, params_from_iter(values), |row| {
        let tombstone = rows::tombstone(row)?;
        Ok((tombstone.record_id, tombstone))
    })?;
    Ok(rows::page(found, limit))
}
