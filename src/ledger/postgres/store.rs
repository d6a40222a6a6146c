//! The only writer of an engine: takes requests, applies them in one durable transaction, and returns the outcomes.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::arrays::Batch;
use super::client::{Connection, Values};
use super::engines::{self, NOTIFY};
use super::failed::{Failed, Sql};
use super::lock;
use super::notice::Notice;
use super::outcome_rows;
use super::schema::{self, fault};
use super::transaction::PostgresRows;
use crate::ledger::engines::Member;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::sql::SqlRow as _;
use crate::ledger::store::{OutcomeRows, OutcomeSteps, Stop};
use crate::ledger::tombstones::Changed;
use crate::ledger::transitions::Rotation;
use crate::ledger::working_set::WorkingSet;
use crate::ledger::{LedgerError, Outcome, WriteRequest, answer, fails_alone, steps_of_outcomes};

/// Time between two attempts of the writer to find out whether a transaction was committed.
const COMMIT_CHECK_EVERY: Duration = Duration::from_secs(1);

/// The writing side of an engine.
pub(super) struct Store {
    address: Address,
    member: Arc<Member>,
    /// None while the connection is lost.
    db: Option<Arc<Connection>>,
    /// Number of transactions that this engine has committed, or has sent a `COMMIT` for, in this epoch.
    groups: i64,
    rotation: Rotation,
}

/// How a transaction ended.
enum Attempt {
    Committed(Committed),
    /// Its `COMMIT` was sent, and no answer came.
    Unknown(Committed, Failed),
    /// Nothing was written: other engines have ended this engine's lease, and taken over its steps.
    Ended,
}

struct Committed {
    outcomes: Vec<Outcome>,
    /// Changes of tombstones, in their order: first those of other engines, then those of this transaction.
    changed: Vec<Changed>,
    /// The number of the last change of a tombstone at the commit; none if the commit was not answered.
    applied: Option<i64>,
    /// Whether gates of other engines must apply a change that this transaction made.
    has_raised: bool,
}

/// A transaction that has begun.
struct Begun {
    /// Tombstones that other engines have changed since those in memory were brought up to date.
    changed: Vec<Changed>,
    is_shared: bool,
    others_have_gates: bool,
    /// The rows that the transaction's outcomes need; none if it has no outcomes. None also if a row cannot be read:
    /// that row is loaded once more, and the change that needs it is refused.
    loaded: Option<OutcomeRows>,
}

impl Store {
    /// Opens the ledger as one of its engines: creates the tables if there are none, upgrades those of an older
    /// version, and begins a new epoch.
    pub(super) fn open(address: &Address, member: Arc<Member>) -> Result<Self, LedgerError> {
        // A process that copies the ledger holds its lock for long.
        let db = schema::connect_with(address, lock::SHORT_WAIT)?;
        schema::migrate(&db, address)?;
        engines::join(&db, address, &member)?;
        let store = Self {
            address: address.clone(),
            member,
            // The transactions use another session, which waits longer for the lock.
            db: None,
            groups: 0,
            rotation: Rotation::new(),
        };
        Ok(store)
    }

    /// Begins a new epoch.
    fn join(&mut self) -> Result<(), LedgerError> {
        let db = self.connected()?;
        engines::join(&db, &self.address, &self.member).inspect_err(|_| self.db = None)?;
        self.groups = 0;
        Ok(())
    }

    /// Applies several requests in one transaction, and returns their outcomes in the same order. After an error,
    /// nothing was written, unless the answer to the `COMMIT` was lost and this engine was closed before the server
    /// said whether the transaction was committed.
    pub(super) fn group(&mut self, requests: &[WriteRequest]) -> Result<Vec<Outcome>, LedgerError> {
        loop {
            if self.member.must_join() {
                self.join()?;
            }
            let db = self.connected()?;
            let attempt = self
                .attempt(&db, requests)
                .map_err(|stop| self.lost(&db, &unrefused(stop)))?;
            let committed = match attempt {
                Attempt::Committed(committed) => committed,
                Attempt::Unknown(committed, error) => match self.was_committed(&error)? {
                    Some(last) => {
                        self.member.raise(last);
                        committed
                    }
                    None => continue,
                },
                Attempt::Ended if self.member.is_closing() => return Err(LedgerError::Closed),
                Attempt::Ended => {
                    tracing::warn!(ledger = %self.address, "this engine had no lease for so long that other engines have taken over its steps");
                    self.member.lose_epoch(self.member.epoch());
                    continue;
                }
            };
            self.member
                .committed(committed.changed, committed.applied, committed.has_raised);
            return Ok(committed.outcomes);
        }
    }

    /// Returns the error of the ledger for a statement that failed. A connection that is lost is not used again.
    fn lost(&mut self, db: &Connection, error: &Failed) -> LedgerError {
        if db.is_closed() || is_of_the_connection(error) {
            self.db = None;
            self.member
                .fail(&format!("the ledger does not answer: {error}"));
            self.member.wake();
        }
        fault(&self.address, error)
    }

    fn attempt(
        &mut self,
        db: &Arc<Connection>,
        requests: &[WriteRequest],
    ) -> Result<Attempt, Stop<Failed>> {
        match self.attempt_once(db, requests, false) {
            Err(stop) if fails_alone::<PostgresRows>(&stop) => {
                self.attempt_once(db, requests, true)
            }
            done => done,
        }
    }

    /// `apart`: see [`answer`].
    fn attempt_once(
        &mut self,
        db: &Arc<Connection>,
        requests: &[WriteRequest],
        apart: bool,
    ) -> Result<Attempt, Stop<Failed>> {
        let epoch = self.member.epoch();
        let steps = steps_of_outcomes(requests);
        let answered = self.begin(db, &steps).and_then(|begun| {
            let Some(mut begun) = begun else {
                return Ok(None);
            };
            let rows = PostgresRows::new(db.clone(), epoch);
            if let Some(loaded) = begun.loaded.take() {
                rows.give(steps, loaded);
            }
            let mut set = WorkingSet::new(rows);
            let outcomes = answer(&mut set, requests, &mut self.rotation, apart)?;
            let (own, last) = (set.store().take_changed(), set.store().take_last());
            Ok(Some((outcomes, begun, own, last)))
        });
        let (outcomes, begun, own, last) = match answered {
            Ok(Some(answered)) => answered,
            not_answered => {
                db.roll_back();
                return not_answered.map(|_| Attempt::Ended);
            }
        };
        let has_raised = begun.others_have_gates && !own.is_empty();
        let mut changed = begun.changed;
        changed.extend(own);
        self.groups += 1;
        let notice = begun.is_shared.then(|| Notice {
            epoch,
            is_urgent: requests.iter().any(WriteRequest::raises_tombstones),
        });
        match self.commit(db, epoch, notice, &last) {
            Ok(applied) => Ok(Attempt::Committed(Committed {
                outcomes,
                changed,
                applied: Some(applied),
                has_raised,
            })),
            Err(error) if db.is_closed() || is_of_the_connection(&error) => {
                let committed = Committed {
                    outcomes,
                    changed,
                    applied: None,
                    has_raised,
                };
                Ok(Attempt::Unknown(committed, error))
            }
            Err(error) => {
                db.roll_back();
                Err(error.into())
            }
        }
    }

    /// Begins a transaction, and takes the lock; none if other engines have ended this engine's lease. No engine joins
    /// while the lock is held, so the facts about other engines stay true until the transaction ends. The same round
    /// trip loads the rows that outcomes need.
    fn begin(&self, db: &Connection, steps: &OutcomeSteps) -> Result<Option<Begun>, Stop<Failed>> {
        let (epoch, applied) = (self.member.epoch(), self.member.applied());
        let lock = lock::statement();
        let schema: Values<'_> = &[&self.address.schema];
        let own: Values<'_> = &[&epoch];
        let after: Values<'_> = &[&applied];
        let mut statements = vec![(lock.as_str(), schema), (OTHER_ENGINES, own)];
        if self.member.index.is_some() {
            statements.push((TOMBSTONE_CHANGES, after));
        }
        let known = statements.len();
        let loading = (!steps.is_empty()).then(|| outcome_rows::statements(steps));
        let loading = loading.iter().flatten();
        statements.extend(loading.map(|(sql, columns)| (*sql, &columns[..])));
        let mut answers = db.begin_with(&statements)?;
        let loaded = answers.split_off(known);
        let Some(engines) = answers[1].first() else {
            return Ok(None);
        };
        let changed = answers.get(2).into_iter().flatten();
        let changed = changed.map(|row| {
            let phase = row.text(3)?.is_some();
            let phase = phase.then(|| row.word(3)).transpose()?;
            Ok(Changed::of(row.key(0)?, phase))
        });
        Ok(Some(Begun {
            changed: changed.collect::<Sql<_>>()?,
            is_shared: engines.read(0).map_err(Failed::from)?,
            others_have_gates: engines.read(1).map_err(Failed::from)?,
            loaded: outcome_rows::loaded(&loaded).ok(),
        }))
    }

    /// Saves the deletions, commits, and sends the notice if there is one and anything was written. Returns the number
    /// of the last change of a tombstone.
    fn commit(
        &self,
        db: &Connection,
        epoch: i64,
        notice: Option<Notice>,
        deletions: &[Batch],
    ) -> Sql<i64> {
        // A transaction that wrote nothing is not counted: it need not become durable.
        let counted = "UPDATE engines SET groups = $1
             WHERE epoch = $2 AND pg_current_xact_id_if_assigned() IS NOT NULL";
        let notify = format!("{NOTIFY} WHERE pg_current_xact_id_if_assigned() IS NOT NULL");
        let channel = engines::channel(&self.address);
        let last = "SELECT last FROM numbers WHERE name = 'tombstone'";
        let mut statements: Vec<(&str, Values<'_>)> = vec![(last, &[])];
        let count: Values<'_> = &[&self.groups, &epoch];
        let text = notice.map(Notice::text);
        let told: Values<'_> = &[&channel, &text];
        let saved: Vec<_> = deletions.iter().map(Batch::statement).collect();
        statements.extend(saved.iter().map(|(sql, columns)| (*sql, &columns[..])));
        statements.push((counted, count));
        if text.is_some() {
            statements.push((&notify, told));
        }
        let answers = db.commit_with(&statements)?;
        match answers.first().and_then(|rows| rows.first()) {
            Some(row) => Ok(row.read(0)?),
            None => Ok(0),
        }
    }

    /// Returns the connection; connects again if it is lost.
    fn connected(&mut self) -> Result<Arc<Connection>, LedgerError> {
        if let Some(db) = self.db.as_ref().filter(|db| !db.is_closed()) {
            return Ok(db.clone());
        }
        self.db = None;
        let db = schema::connect(&self.address)?;
        schema::check(&db, &self.address)?;
        tracing::info!(ledger = %self.address, "connected to the ledger");
        let db = Arc::new(db);
        self.db = Some(db.clone());
        Ok(db)
    }

    /// Finds out whether the last transaction, whose `COMMIT` was not answered, was committed. Returns the number of
    /// the last change of a tombstone if it was, and none if it was not. Waits for the server for as long as it takes,
    /// unless this engine is closing, because the requests of the transaction must not be answered before that is
    /// known. Once this session holds the lock, the transaction has ended, one way or the other.
    fn was_committed(&mut self, lost: &Failed) -> Result<Option<i64>, LedgerError> {
        self.db = None;
        tracing::error!(ledger = %self.address, error = %lost, "the connection was lost while a \
            transaction was being committed; this engine waits until the server says whether it was committed");
        let epoch = self.member.epoch();
        loop {
            let looked_up = self.connected().and_then(|db| {
                let sql = "SELECT e.groups, n.last FROM engines e, numbers n
                     WHERE e.epoch = $1 AND n.name = 'tombstone'";
                let groups = lock::within(&db, &self.address.schema, || {
                    db.one(sql, &[&epoch], |row| {
                        Ok((row.read::<i64>(0)?, row.read::<i64>(1)?))
                    })
                });
                groups.map_err(|error| fault(&self.address, &error))
            });
            match looked_up {
                Ok((groups, last)) => return Ok((groups == self.groups).then_some(last)),
                Err(error @ LedgerError::Io { .. }) => {
                    if self.member.is_closing() {
                        return Err(error);
                    }
                    tracing::warn!(%error, "it is still not known whether the transaction was committed");
                    self.db = None;
                    std::thread::sleep(COMMIT_CHECK_EVERY);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether there are other engines, and whether any of them has gates; no row if this engine's lease was ended.
const OTHER_ENGINES: &str = "SELECT count(o.epoch) > 0, coalesce(bool_or(o.has_gates), false)
     FROM engines e LEFT JOIN engines o ON NOT o.ended AND o.epoch <> e.epoch
     WHERE e.epoch = $1 AND NOT e.ended GROUP BY e.epoch";

const TOMBSTONE_CHANGES: &str =
    "SELECT site, kind, id, phase FROM tombstone_changes WHERE seq > $1 ORDER BY seq";

/// Turns the [`Stop`] of a group of requests into an error. A change that the rows do not allow is refused alone (see
/// [`fails_alone`]), so a refusal that remains here is an error of the whole group.
fn unrefused(stop: Stop<Failed>) -> Failed {
    match stop {
        Stop::Failed(error) => error,
        Stop::Impossible(why) | Stop::Refused(why) => Failed::Impossible(why),
    }
}

/// Whether the session or its connection has ended: there was no answer at all, or the server said so (class 57P: it
/// shuts down; 08: the connection).
fn is_of_the_connection(error: &Failed) -> bool {
    match (error, error.code()) {
        (Failed::Statement(_), Some(code)) => {
            let code = code.code();
            code.starts_with("57P") || code.starts_with("08")
        }
        (Failed::Statement(_), None) => true,
        _ => false,
    }
}
