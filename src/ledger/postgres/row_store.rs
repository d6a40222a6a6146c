//! The rows of one transaction, for the changes that are decided in memory.

use tokio_postgres::Row;

use super::client::Values;
use super::failed::{Failed, Sql};
use super::rows::{self, limit, micros};
use super::save::Save;
use super::transaction::PostgresRows;
use super::{deletion_rows, engines, outcome_rows, step_rows};
use crate::domain::model::{Phase, Site};
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{
    NewTombstone, OutcomeRows, OutcomeSteps, RowStore, StoredDeletion, StoredStep, Unsaved,
};
use crate::ledger::tombstones::Changed;

/// Classes of errors that a change itself causes: values that the tables do not take, rules that it breaks, and
/// limits of the server that it exceeds.
const OF_THE_CHANGE: [&str; 3] = ["22", "23", "54"];

impl RowStore for PostgresRows {
    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn is_caused_by_change(error: &Failed) -> bool {
        match error {
            Failed::Damaged { .. } | Failed::Impossible(_) => true,
            Failed::Io(_) => false,
            Failed::Statement(_) => error
                .code()
                .and_then(|code| code.code().get(..2))
                .is_some_and(|class| OF_THE_CHANGE.contains(&class)),
        }
    }

    fn begin_savepoint(&self) -> Sql<()> {
        self.db.batch("SAVEPOINT change")?;
        self.mark_savepoint();
        Ok(())
    }

    fn keep_savepoint(&self) -> Sql<()> {
        self.end_savepoint(false);
        self.db.batch("RELEASE SAVEPOINT change")
    }

    fn undo_savepoint(&self) -> Sql<()> {
        self.end_savepoint(true);
        self.db
            .batch("ROLLBACK TO SAVEPOINT change; RELEASE SAVEPOINT change")
    }

    fn load_steps(&self, ids: &[i64]) -> Sql<Vec<StoredStep>> {
        self.db
            .all(&step_rows::LOAD, &[&ids], |row| Ok(decode::step(row)?))
    }

    fn load_dependents(&self, ids: &[i64]) -> Sql<Vec<(i64, i64)>> {
        self.db
            .all(outcome_rows::DEPENDENTS, &[&ids], outcome_rows::edge)
    }

    /// Takes one round trip, or none if the rows were loaded when the transaction began.
    fn load_for_outcomes(&self, steps: &OutcomeSteps) -> Sql<OutcomeRows> {
        if let Some(rows) = self.take_loaded(steps) {
            return Ok(rows);
        }
        let statements = outcome_rows::statements(steps);
        let statements = statements
            .each_ref()
            .map(|(sql, columns)| (*sql, &columns[..]));
        outcome_rows::loaded(&self.db.together(&statements)?)
    }

    /// Jumps from one deletion to the next: the cost does not grow with their steps.
    fn find_ready_deletions(
        &self,
        site: &Site,
        (after, until): (i64, i64),
        most: usize,
    ) -> Sql<Vec<i64>> {
        self.db.all(
            "WITH RECURSIVE found(num) AS (
                 (SELECT deletion FROM steps WHERE state = 'ready' AND site = $1 AND deletion > $2
                      AND deletion <= $3 ORDER BY deletion LIMIT 1)
                 UNION ALL
                 SELECT (SELECT deletion FROM steps WHERE state = 'ready' AND site = $1
                     AND deletion > found.num AND deletion <= $3 ORDER BY deletion LIMIT 1)
                 FROM found WHERE found.num IS NOT NULL
             )
             SELECT num FROM found WHERE num IS NOT NULL LIMIT $4",
            &[&site.to_string(), &after, &until, &limit(most)],
            |row| Ok(row.read(0)?),
        )
    }

    fn end_lost_engines(&self) -> Sql<Vec<i64>> {
        engines::end_lost(&self.db, self.epoch)
    }

    fn drain_engines(&self, name: &str, is_drained: bool) -> Sql<usize> {
        engines::drain(&self.db, name, is_drained)
    }

    fn take_over_observations(&self) -> Sql<()> {
        let sql = "UPDATE steps SET epoch = $1 WHERE state = 'verifying'";
        self.db.run(sql, &[&self.epoch]).map(drop)
    }

    fn find_left_to(&self, owners: &[i64]) -> Sql<Vec<i64>> {
        self.db.all(LEFT_TO, &[&owners], |row| Ok(row.read(0)?))
    }

    fn await_clearances(&self, awaited: &[(String, i64)]) -> Sql<()> {
        let (importers, steps): (Vec<&str>, Vec<i64>) = awaited
            .iter()
            .map(|(by, step)| (by.as_str(), *step))
            .unzip();
        self.db
            .run(
                "INSERT INTO awaited(importer, step) SELECT * FROM unnest($1::text[], $2::bigint[])
                 ON CONFLICT DO NOTHING",
                &[&importers, &steps],
            )
            .map(drop)
    }

    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Sql<Vec<i64>> {
        let keys = rows::Keys::of(new.iter().map(|new| new.key));
        let phases: Vec<&str> = new.iter().map(|new| new.phase.as_str()).collect();
        let deleted: Vec<i64> = new.iter().map(|new| micros(new.deleted_at)).collect();
        let deletions: Vec<i64> = new.iter().map(|new| new.deletion).collect();
        let before = self.db.first(
            "WITH given AS (UPDATE numbers SET last = last + cardinality($1::text[])
                 WHERE name = 'record' RETURNING last - cardinality($1::text[]) AS before),
             inserted AS (
                 INSERT INTO tombstones(record_id, id, kind, site, phase, deleted_at, deletion)
                 SELECT given.before + n.n, n.id, n.kind, n.site, n.phase, n.at, n.deletion
                 FROM given, unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[],
                     $6::bigint[]) WITH ORDINALITY AS n(id, kind, site, phase, at, deletion, n))
             SELECT before FROM given",
            &[
                &keys.ids,
                &keys.kinds,
                &keys.sites,
                &phases,
                &deleted,
                &deletions,
            ],
            |row| Ok(row.read::<i64>(0)?),
        )?;
        self.note(new.iter().map(|new| Changed {
            site: new.key.site.clone(),
            kind: new.key.kind.clone(),
            id: new.key.id.clone(),
            phase: Some(new.phase),
        }));
        let first = before.unwrap_or_default() + 1;
        Ok((first..).take(new.len()).collect())
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Sql<()> {
        self.save_and(unsaved, None).map(drop)
    }

    /// Takes one round trip.
    fn save_and_find_left_to(&self, unsaved: &Unsaved<'_>, owners: &[i64]) -> Sql<Vec<i64>> {
        let owners: Values<'_> = &[&owners];
        let left = self.save_and(unsaved, Some((LEFT_TO, owners)))?;
        left.iter().map(|row| Ok(row.read(0)?)).collect()
    }

    /// The deletions are sent with the `COMMIT`.
    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Sql<()> {
        if !changed.is_empty() {
            self.save_last(deletion_rows::Saved::of(changed));
        }
        Ok(())
    }
}

impl PostgresRows {
    /// Saves, and returns the rows of one more statement in the same round trip.
    fn save_and(&self, unsaved: &Unsaved<'_>, more: Option<(&str, Values<'_>)>) -> Sql<Vec<Row>> {
        let save = Save::of(unsaved, &self.db)?;
        let statements = save.statements();
        let saved = statements.len();
        let statements: Vec<_> = statements
            .iter()
            .map(|(sql, values)| (*sql, &values[..]))
            .chain(more)
            .collect();
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers = self.db.together(&statements)?;
        let more = answers.split_off(saved);
        for row in answers.iter().flatten() {
            let key = row.key(0)?;
            self.note([Changed {
                site: key.site,
                kind: key.kind,
                id: key.id,
                phase: Some(row.word::<Phase>(3)?),
            }]);
        }
        Ok(more.into_iter().flatten().collect())
    }
}

/// The live steps that are left to any of these owners, which are steps of other deletions.
const LEFT_TO: &str =
    "SELECT id FROM steps WHERE left_to = ANY($1) AND ended_at IS NULL ORDER BY id";
