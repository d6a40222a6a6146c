//! The rows of one transaction, for the changes that are decided in memory.

use tokio_postgres::Row;

use super::arrays::Batch;
use super::client::Values;
use super::failed::{Failed, Sql};
use super::transaction::PostgresRows;
use super::{engines, outcome_rows, save};
use crate::ledger::store::sql::{ReadColumns as _, key_values};
use crate::ledger::store::{
    NewTombstone, OutcomeRows, OutcomeSteps, RowStore, StoredDeletion, Unsaved,
};
use crate::ledger::tombstones::Changed;

/// Classes of the error codes (SQLSTATE) of errors that a change itself causes: values that the tables do not take,
/// rules that it breaks, and limits of the server that it exceeds.
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

    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Sql<Vec<i64>> {
        let rows = new.iter().map(|new| {
            let [id, kind, site] = key_values(new.key);
            let (phase, deleted_at) = (new.phase.into(), new.deleted_at.into());
            [id, kind, site, phase, deleted_at, new.deletion.into()]
        });
        let Some(batch) = Batch::of(rows, insert_tombstones) else {
            return Ok(Vec::new());
        };
        let (sql, columns) = batch.statement();
        let before: i64 = self.db.one(sql, &columns, |row| Ok(row.read(0)?))?;
        self.note(
            new.iter()
                .map(|new| Changed::of(new.key.clone(), Some(new.phase))),
        );
        Ok((before + 1..).take(new.len()).collect())
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
        self.save_last(save::deletions(changed));
        Ok(())
    }
}

impl PostgresRows {
    /// Saves rows, notes the tombstones among them, and returns the rows of one more statement in the same round trip.
    fn save_and(&self, unsaved: &Unsaved<'_>, more: Option<(&str, Values<'_>)>) -> Sql<Vec<Row>> {
        let batches = save::batches(unsaved, self)?;
        let statements: Vec<_> = batches.iter().map(Batch::statement).collect();
        let statements = statements.iter().map(|(sql, values)| (*sql, &values[..]));
        let statements: Vec<_> = statements.chain(more).collect();
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers = self.db.together(&statements)?;
        let more = answers.split_off(batches.len());
        for row in answers.iter().flatten() {
            self.note([Changed::of(row.key(0)?, Some(row.word(3)?))]);
        }
        Ok(more.into_iter().flatten().collect())
    }
}

/// Returns the statement that inserts tombstones (id, kind, site, phase, time of the deletion, deletion) and returns
/// the id of the record before the first one.
fn insert_tombstones(rows: &str) -> String {
    format!(
        "WITH given AS (UPDATE numbers SET last = last + cardinality($1::text[])
             WHERE name = 'record' RETURNING last - cardinality($1::text[]) AS before),
         inserted AS (
             INSERT INTO tombstones(record_id, id, kind, site, phase, deleted_at, deletion)
             SELECT given.before + n.n, n.id, n.kind, n.site, n.phase, n.at, n.deletion
             FROM given, {rows} WITH ORDINALITY AS n(id, kind, site, phase, at, deletion, n))
         SELECT before FROM given"
    )
}

/// The live steps that are left to any of these owners, which are steps of other deletions.
const LEFT_TO: &str =
    "SELECT id FROM steps WHERE left_to = ANY($1) AND ended_at IS NULL ORDER BY id";
