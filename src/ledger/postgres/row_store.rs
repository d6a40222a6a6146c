//! The rows of one transaction, for the changes that are decided in memory.

use chrono::{DateTime, Utc};
use tokio_postgres::Row;

use super::client::Values;
use super::failed::{Failed, Sql};
use super::rows::{self, limit, micros};
use super::save::Save;
use super::transaction::PostgresRows;
use super::{deletion_rows, engines, outcome_rows, step_rows};
use crate::domain::model::{Phase, Site, SitePause};
use crate::domain::notification::Mark;
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{
    NewTombstone, OutcomeRows, OutcomeSteps, RowStore, StepRow, StoredDeletion, StoredStep, Unsaved,
};
use crate::ledger::tombstones::Changed;

/// Classes of errors that a change itself causes: values that the tables do not take, rules that it breaks, and
/// limits of the server that it exceeds.
const OF_THE_CHANGE: [&str; 3] = ["22", "23", "54"];

impl RowStore for PostgresRows {
    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn is_of_the_change(error: &Failed) -> bool {
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

    fn load_ready(&self, site: &Site, deletion: i64, most: usize) -> Sql<Vec<StepRow>> {
        let sql = decode::select_steps(
            "FROM steps s WHERE s.state = 'ready' AND s.site = $1 AND s.deletion = $2
             ORDER BY s.rank DESC, s.id LIMIT $3",
        );
        let values: Values<'_> = &[&site.to_string(), &deletion, &limit(most)];
        self.db.all(&sql, values, |row| Ok(decode::step_row(row)?))
    }

    fn find_stuck_dependency(&self, step: i64) -> Sql<Option<(i64, i64)>> {
        self.db.first(
            "SELECT s.id, coalesce(s.held_by, s.id) FROM edges e JOIN steps s ON s.id = e.dependency
             WHERE e.dependent = $1 AND s.state = 'stuck' AND s.held_by IS DISTINCT FROM $1
             ORDER BY s.id LIMIT 1",
            &[&step],
            |row| Ok((row.read(0)?, row.read(1)?)),
        )
    }

    fn find_abandoned_dependency(&self, step: i64) -> Sql<Option<i64>> {
        self.db.first(
            "SELECT d.id FROM edges e JOIN steps d ON d.id = e.dependency
             WHERE e.dependent = $1 AND d.state = 'purged' ORDER BY d.id LIMIT 1",
            &[&step],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_failed(&self, deletion: i64, other_than: i64) -> Sql<Option<i64>> {
        self.db.first(
            "SELECT id FROM steps WHERE state = 'stuck' AND deletion = $1 AND held_by IS NULL
                 AND id <> $2 ORDER BY id LIMIT 1",
            &[&deletion, &other_than],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_due(&self, now: DateTime<Utc>, most: usize) -> Sql<Vec<i64>> {
        self.db.all(
            "SELECT id FROM steps WHERE state = 'blocked' AND next_attempt_at <= $1
             ORDER BY next_attempt_at, id LIMIT $2",
            &[&micros(now), &limit(most)],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_ahead(&self, now: DateTime<Utc>, observed_by: DateTime<Utc>) -> Sql<Vec<i64>> {
        self.db.all(
            "SELECT id FROM steps WHERE state IN ('blocked', 'verifying') AND (since > $1
                 OR state = 'verifying' AND next_attempt_at > $2)
             ORDER BY id",
            &[&micros(now), &micros(observed_by)],
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

    fn find_gone_step(&self, deletion: i64, record: i64) -> Sql<Option<i64>> {
        self.db.first(
            "SELECT id FROM steps WHERE deletion = $1 AND record = $2 AND state = 'gone'
             ORDER BY id LIMIT 1",
            &[&deletion, &record],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_own_enables(&self, step: i64) -> Sql<Vec<i64>> {
        self.db.all(
            "SELECT s.id FROM edges e JOIN steps s ON s.id = e.dependency
             WHERE e.dependent = $1 AND s.action = 'enable' AND s.state = 'gone'
                 AND NOT EXISTS (SELECT FROM edges other
                     WHERE other.dependency = s.id AND other.dependent <> $1)
                 AND NOT EXISTS (SELECT FROM steps live WHERE live.resource = s.resource
                     AND live.kind = s.kind AND live.site = s.site
                     AND live.action = 'enable' AND live.ended_at IS NULL)
             ORDER BY s.id",
            &[&step],
            |row| Ok(row.read(0)?),
        )
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

    fn find_checking(&self, deletion: i64) -> Sql<Vec<i64>> {
        self.db.all(
            "SELECT record_id FROM tombstones WHERE deletion = $1 AND phase = 'checking'
             ORDER BY record_id",
            &[&deletion],
            |row| Ok(row.read(0)?),
        )
    }

    fn pause_site(&self, site: &Site, pause: Option<&SitePause>) -> Sql<bool> {
        let site = site.to_string();
        let changed = match pause {
            Some(pause) => self.db.run(
                "INSERT INTO site_pauses(site, actor, reason, at) VALUES($1, $2, $3, $4)
                 ON CONFLICT(site) DO NOTHING",
                &[
                    &site,
                    &rows::json(&pause.by)?,
                    &pause.reason,
                    &micros(pause.at),
                ],
            )?,
            None => self
                .db
                .run("DELETE FROM site_pauses WHERE site = $1", &[&site])?,
        };
        Ok(changed > 0)
    }

    fn save_notification_cursor(&self, channel: &str, mark: Option<&Mark>) -> Sql<()> {
        let done = match mark {
            Some(mark) => self.db.run(
                "INSERT INTO told(channel, mark) VALUES($1, $2)
                 ON CONFLICT(channel) DO UPDATE SET mark = excluded.mark",
                &[&channel, &rows::json(mark)?],
            ),
            None => self
                .db
                .run("DELETE FROM told WHERE channel = $1", &[&channel]),
        };
        done.map(drop)
    }

    fn load_site_state(&self, site: &str) -> Sql<Option<String>> {
        let sql = "SELECT state FROM sites WHERE site = $1";
        self.db.first(sql, &[&site], |row| Ok(row.read(0)?))
    }

    fn save_site_state(&self, site: &str, state: &str) -> Sql<()> {
        self.db
            .run(
                "INSERT INTO sites(site, state) VALUES($1, $2)
                 ON CONFLICT(site) DO UPDATE SET state = excluded.state",
                &[&site, &state],
            )
            .map(drop)
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

    /// They are sent with the `COMMIT`.
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

/// The live steps that are left to any of these.
const LEFT_TO: &str =
    "SELECT id FROM steps WHERE left_to = ANY($1) AND ended_at IS NULL ORDER BY id";
