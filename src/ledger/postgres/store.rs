//! The only writer: takes requests, runs one durable transaction, and returns the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::address::Address;
use super::client::Connection;
use super::failed::{Failed, Sql};
use super::lock::{self, Session};
use super::rows::{self, get};
use super::schema::{self, fault};
use super::transaction::PostgresRows;
use crate::ledger::store::Stop;
use crate::ledger::tombstones::{Changed, Tombstones};
use crate::ledger::transitions::Rotation;
use crate::ledger::working_set::WorkingSet;
use crate::ledger::{Job, LedgerError, Outcome, answer, fails_alone};

/// Rows that are loaded at a time when a ledger is opened.
const LOADED_TOGETHER: i64 = 10_000;
/// How often the writer tries to find out whether a transaction was committed.
const LOOK_UP: Duration = Duration::from_secs(1);

/// A ledger that is open for writing, and locked: no other engine has it.
pub(super) struct Store {
    address: Address,
    /// None while the connection is lost.
    db: Option<Arc<Connection>>,
    session: Session,
    epoch: i64,
    /// Number of transactions that this engine has committed or tried to.
    groups: i64,
    rotation: Rotation,
    tombstones: Option<Arc<Tombstones>>,
    /// Whether the ledger is being closed, so that nobody waits for the server any more.
    is_closing: Arc<AtomicBool>,
}

/// How a transaction ended.
enum Attempt {
    Committed(Vec<Outcome>, Vec<Changed>),
    /// Its `COMMIT` was sent, and no answer came.
    Unknown(Vec<Outcome>, Vec<Changed>, Failed),
}

impl Store {
    /// Opens the ledger as its engine, and creates it if there is none: takes the lock, creates the tables, begins a
    /// new epoch.
    pub(super) fn open(
        address: &Address,
        tombstones: Option<Arc<Tombstones>>,
    ) -> Result<Self, LedgerError> {
        let failed = |error: Failed| fault(address, &error);
        let db = schema::connect(address)?;
        lock::acquire(&db, address, None)?;
        schema::migrate(&db, address)?;
        let epoch = begin(&db).map_err(failed)?;
        if let Some(index) = &tombstones {
            load_tombstones(&db, index).map_err(failed)?;
        }
        Ok(Self {
            session: Session::of(&db).map_err(failed)?,
            address: address.clone(),
            db: Some(Arc::new(db)),
            epoch,
            groups: 0,
            rotation: Rotation::new(),
            tombstones,
            is_closing: Arc::default(),
        })
    }

    /// The epoch of this opening, greater than all before it.
    pub(super) fn epoch(&self) -> i64 {
        self.epoch
    }

    /// To be set when the ledger is closed.
    pub(super) fn is_closing(&self) -> Arc<AtomicBool> {
        self.is_closing.clone()
    }

    /// Applies several requests in one transaction, and answers each in its place; after an error, nothing of them
    /// was written.
    pub(super) fn group(&mut self, jobs: &[Job]) -> Result<Vec<Outcome>, LedgerError> {
        loop {
            let db = self.connected()?;
            let attempt = self.attempt(&db, jobs).map_err(|stop| {
                let error = unrefused(stop);
                if db.is_closed() || is_of_the_connection(&error) {
                    self.db = None;
                }
                fault(&self.address, &error)
            })?;
            let (outcomes, changed) = match attempt {
                Attempt::Committed(outcomes, changed) => (outcomes, changed),
                Attempt::Unknown(outcomes, changed, error) => match self.was_committed(&error)? {
                    true => (outcomes, changed),
                    false => continue,
                },
            };
            if let Some(index) = &self.tombstones {
                index.apply(changed);
            }
            return Ok(outcomes);
        }
    }

    fn attempt(&mut self, db: &Arc<Connection>, jobs: &[Job]) -> Result<Attempt, Stop<Failed>> {
        match self.attempt_once(db, jobs, false) {
            Err(stop) if fails_alone::<PostgresRows>(&stop) => self.attempt_once(db, jobs, true),
            done => done,
        }
    }

    /// `apart`: see [`answer`].
    fn attempt_once(
        &mut self,
        db: &Arc<Connection>,
        jobs: &[Job],
        apart: bool,
    ) -> Result<Attempt, Stop<Failed>> {
        db.batch("BEGIN")?;
        let mut set = WorkingSet::new(PostgresRows::new(db.clone(), self.epoch));
        let answered = answer(&mut set, jobs, &mut self.rotation, apart);
        let changed = set.store().take_changed();
        drop(set);
        let outcomes = match answered {
            Ok(outcomes) => outcomes,
            Err(stop) => {
                // A connection that is lost has undone it already.
                let _ = db.batch("ROLLBACK");
                return Err(stop);
            }
        };
        self.groups += 1;
        // A transaction that wrote nothing is not counted: it need not become durable.
        let counted = "UPDATE engines SET groups = $1
             WHERE epoch = $2 AND pg_current_xact_id_if_assigned() IS NOT NULL";
        let ended = db.together(&[(counted, &[&self.groups, &self.epoch]), ("COMMIT", &[])]);
        match ended {
            Ok(_) => Ok(Attempt::Committed(outcomes, changed)),
            Err(error) if db.is_closed() || is_of_the_connection(&error) => {
                Ok(Attempt::Unknown(outcomes, changed, error))
            }
            Err(error) => {
                let _ = db.batch("ROLLBACK");
                Err(error.into())
            }
        }
    }

    /// The connection; connects again if it is lost.
    fn connected(&mut self) -> Result<Arc<Connection>, LedgerError> {
        if let Some(db) = self.db.as_ref().filter(|db| !db.is_closed()) {
            return Ok(db.clone());
        }
        self.db = None;
        let failed = |error: Failed| fault(&self.address, &error);
        let db = schema::connect(&self.address)?;
        lock::acquire(&db, &self.address, Some(&self.session))?;
        schema::check(&db, &self.address)?;
        let newest = lock::newest(&db).map_err(failed)?;
        if newest.as_ref().map(|engine| engine.epoch) != Some(self.epoch) {
            return Err(lock::held(&self.address, newest));
        }
        self.session = Session::of(&db).map_err(failed)?;
        tracing::info!(ledger = %self.address, "connected again");
        let db = Arc::new(db);
        self.db = Some(db.clone());
        Ok(db)
    }

    /// Whether the last transaction was committed, whose `COMMIT` was not answered. Waits for the server for as long
    /// as it takes: whoever asked for the transaction must not do anything before that is known.
    fn was_committed(&mut self, lost: &Failed) -> Result<bool, LedgerError> {
        self.db = None;
        tracing::error!(ledger = %self.address, error = %lost, "the connection was lost while a \
            transaction was being committed; nothing goes on until the server says whether it was");
        loop {
            let looked_up = self.connected().and_then(|db| {
                let sql = "SELECT groups FROM engines WHERE epoch = $1";
                let groups = db.one(sql, &[&self.epoch], |row| get::<i64>(row, 0));
                groups.map_err(|error| fault(&self.address, &error))
            });
            match looked_up {
                Ok(groups) => return Ok(groups == self.groups),
                Err(error @ LedgerError::Io { .. }) => {
                    if self.is_closing.load(Ordering::Relaxed) {
                        return Err(error);
                    }
                    tracing::warn!(%error, "still not known");
                    self.db = None;
                    std::thread::sleep(LOOK_UP);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The error of requests that must not be refused. What the rows do not allow is an error of the change that asked for
/// it; see [`fails_alone`].
fn unrefused(stop: Stop<Failed>) -> Failed {
    match stop {
        Stop::Failed(error) => error,
        Stop::Impossible(why) | Stop::Refused(why) => Failed::Impossible(why),
    }
}

/// Whether the session has ended, or its connection: no answer at all, or the server's last word (class 57: it is
/// shutting down; 08: the connection).
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

/// Begins a new epoch.
fn begin(db: &Connection) -> Sql<i64> {
    db.one(
        "INSERT INTO engines(epoch, pid, host)
         SELECT coalesce(max(epoch), 0) + 1, $1::bigint, $2::text FROM engines RETURNING epoch",
        &[&i64::from(std::process::id()), &lock::host()],
        |row| get(row, 0),
    )
}

/// Loads the tombstones into memory, which follow the table from here on.
fn load_tombstones(db: &Connection, index: &Tombstones) -> Sql<()> {
    let mut after = 0_i64;
    loop {
        let part = db.all(
            "SELECT record_id, site, kind, id, phase FROM tombstones WHERE record_id > $1
             ORDER BY record_id LIMIT $2",
            &[&after, &LOADED_TOGETHER],
            |row| {
                let key = rows::key(row, 1)?;
                let changed = Changed {
                    site: key.site,
                    kind: key.kind,
                    id: key.id,
                    phase: Some(rows::word(row, 4)?),
                };
                Ok((get::<i64>(row, 0)?, changed))
            },
        )?;
        let Some((last, _)) = part.last() else {
            return Ok(());
        };
        after = *last;
        index.apply(part.into_iter().map(|(_, changed)| changed));
    }
}
