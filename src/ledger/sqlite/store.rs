//! The only writer of an engine: takes requests, applies them in one durable transaction, and returns the outcomes.

use std::path::Path;
use std::sync::{Arc, Weak};

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::connection::{check_content, check_pages, check_version, configure, fault};
use super::lock::{self, Lock, beside};
use super::mirror::Mirror;
use super::seal;
use super::sql::{Sql, Stop, unrefused};
use super::transaction::SqliteRows;
use super::{Options, schema};
use crate::ledger::audit::{self, Head};
use crate::ledger::transitions::Rotation;
use crate::ledger::working_set::WorkingSet;
use crate::ledger::{
    Applied, AuditEntry, Capacity, Change, ClaimedStep, LedgerError, Outcome, WriteRequest, answer,
    fails_alone,
};
use crate::system::private;

/// A ledger that is open for writing, and locked: no other engine has it.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    path: String,
    epoch: i64,
    rotation: Rotation,
    options: Options,
    mirror: Option<Mirror>,
    /// None for a ledger in memory, and if the key of the seal was not found.
    seal: Option<seal::Key>,
    /// None for a ledger in memory, which no other process can reach. Dropped last: the file is closed by then.
    lock: Option<Arc<Lock>>,
}

impl Store {
    /// Opens the ledger as its engine: takes the lock, creates the ledger if there is none, migrates its schema, begins
    /// a new epoch, and finds or makes the key of the audit's seal.
    ///
    /// # Errors
    /// Another process holds the ledger; the file is empty, damaged, an unfinished copy, of a newer version or not
    /// a ledger; or the file, or the key of the audit's seal, cannot be read or written.
    pub fn open(path: &Path, options: Options) -> Result<Self, LedgerError> {
        let name = path.display().to_string();
        let lock = lock_or_create(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(|e| fault(&name, &e))?;
        check_version(&db, &name)?;
        if schema::version(&db).map_err(|e| fault(&name, &e))? == 0 {
            return Err(LedgerError::Foreign { name });
        }
        check_pages(&db, path)?;
        let mut store = Self::start(db, name, Some(lock), options)?;
        store.seal = seal::prepare(&mut store.db, path, &store.options.seal_keys)?;
        Ok(store)
    }

    /// Creates a ledger in memory, for tests and simulations.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn in_memory(options: Options) -> Result<Self, LedgerError> {
        let name = ":memory:".to_owned();
        let db = Connection::open_in_memory().map_err(|e| fault(&name, &e))?;
        Self::start(db, name, None, options)
    }

    fn start(
        mut db: Connection,
        path: String,
        lock: Option<Lock>,
        options: Options,
    ) -> Result<Self, LedgerError> {
        let begin = |db: &mut Connection| -> Sql<i64> {
            configure(db)?;
            db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            // A power cut right after a commit loses nothing.
            db.pragma_update(None, "synchronous", "full")?;
            schema::migrate(db)?;
            if let Some(pages) = options.pages_max {
                db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
            }
            db.execute("INSERT INTO engines(pid) VALUES(?1)", [std::process::id()])?;
            Ok(db.last_insert_rowid())
        };
        let epoch = begin(&mut db).map_err(|e| fault(&path, &e))?;
        let index = options.tombstones.clone();
        let mirror = index.map(|index| Mirror::start(&mut db, index)).transpose();
        Ok(Self {
            mirror: mirror.map_err(|e| fault(&path, &e))?,
            db,
            path,
            epoch,
            rotation: Rotation::new(),
            options,
            seal: None,
            lock: lock.map(Arc::new),
        })
    }

    /// The epoch of this opening, greater than all before it.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The path of the file, or `:memory:`.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn lock(&self) -> Weak<Lock> {
        self.lock.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// Sets how far the file may grow: see [`Options::pages_max`].
    pub fn set_pages_max(&mut self, pages: u32) -> Result<(), LedgerError> {
        self.db
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            .map_err(|e| fault(&self.path, &e))
    }

    /// Applies the changes in order, in one transaction; see [`crate::ledger::Commit::commit`].
    pub fn apply(&mut self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        match self.group(&[WriteRequest::Commit(changes)])?.pop() {
            Some(Outcome::Applied(applied)) => Ok(applied),
            _ => Ok(Vec::new()),
        }
    }

    /// Claims ready steps; see [`crate::ledger::WorkQueue::claim`].
    pub fn claim(
        &mut self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError> {
        match self
            .group(&[WriteRequest::Claim { capacities, now }])?
            .pop()
        {
            Some(Outcome::Claimed(claimed)) => Ok(claimed),
            _ => Ok(Vec::new()),
        }
    }

    /// Applies several requests in one transaction, and returns their outcomes in the same order. After an error,
    /// nothing was written.
    pub fn group(&mut self, requests: &[WriteRequest]) -> Result<Vec<Outcome>, LedgerError> {
        self.transact(requests).map_err(|e| fault(&self.path, &e))
    }

    fn transact(&mut self, requests: &[WriteRequest]) -> Sql<Vec<Outcome>> {
        match self.attempt(requests, false) {
            Err(stop) if fails_alone::<SqliteRows<'_>>(&stop) => {
                unrefused(self.attempt(requests, true))
            }
            done => unrefused(done),
        }
    }

    /// `apart`: see [`answer`].
    fn attempt(&mut self, requests: &[WriteRequest], apart: bool) -> Result<Vec<Outcome>, Stop> {
        if let Some(mirror) = &self.mirror {
            mirror.undo();
        }
        let tx = Transaction::new(&mut self.db, TransactionBehavior::Immediate)?;
        let mut set = WorkingSet::new(SqliteRows::new(&tx, self.epoch, self.seal.as_ref()));
        let outcomes = answer(&mut set, requests, &mut self.rotation, apart)?;
        let removed = set.store().removed.take();
        drop(set);
        tx.commit()?;
        if let Some(mirror) = &self.mirror {
            mirror.take_over(&self.db, removed);
        }
        Ok(outcomes)
    }

    /// Seals the audit as it is, with this entry as its last row: after a person has found out why the seal does not
    /// confirm the audit, or when the key is lost. Returns the end that was sealed. If the chain is broken, returns the
    /// row at which it is broken, and leaves the ledger as it was.
    pub fn reseal(
        &mut self,
        ledger: &Path,
        entry: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Result<Result<Head, audit::Broken>, LedgerError> {
        let failed = |error: rusqlite::Error| fault(&self.path, &error);
        let mut key = seal::own_key(ledger)?;
        let tx = Transaction::new(&mut self.db, TransactionBehavior::Immediate).map_err(failed)?;
        let rows = SqliteRows::new(&tx, self.epoch, None);
        rows.save_audit(entry, now).map_err(failed)?;
        let sealed = seal::reseal(&tx, &key).map_err(failed)?;
        if sealed.is_ok() {
            tx.commit().map_err(failed)?;
            key.mark_sealed()
                .map_err(|error| seal::no_key(ledger, &error))?;
            self.seal = Some(key);
        }
        Ok(sealed)
    }

    /// Reads what is committed, on the writer's own connection.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Sql<T>,
    ) -> Result<T, LedgerError> {
        read(&self.db).map_err(|e| fault(&self.path, &e))
    }
}

/// Takes the lock of a ledger, and creates the ledger if there is none.
pub(super) fn lock_or_create(path: &Path) -> Result<Lock, LedgerError> {
    let failed = |error: std::io::Error| LedgerError::io(path.display(), error);
    lock::prepare_folder(path).map_err(failed)?;
    let lock = Lock::acquire(path)?;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(path)?,
        _ => check_content(path)?,
    }
    lock::make_private(path).map_err(failed)?;
    Ok(lock)
}

/// Creates a ledger under another name, and renames it once it is complete. So a file of the ledger's name that is
/// empty or has other tables was not made by gone. The key of an older ledger of that name is renamed, too.
fn create(path: &Path) -> Result<(), LedgerError> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| LedgerError::io(&name, error);
    // An earlier attempt may have left an unfinished file, and SQLite would take the log of a removed ledger for that
    // of the new one.
    for left in [".new", "-wal", "-shm", "-journal"] {
        lock::remove(&beside(path, left)).map_err(failed)?;
    }
    let new = &beside(path, ".new");
    drop(private::create_new(new).map_err(failed)?);
    write_tables(new).map_err(|error| fault(&name, &error))?;
    let file = std::fs::File::open(new).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    seal::rename_old_key(path).map_err(failed)?;
    std::fs::rename(new, path).map_err(failed)
}

/// Writes the tables of a ledger into an empty file.
fn write_tables(new: &Path) -> Sql<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(new, flags)?;
    // A crash loses nothing here: the next attempt replaces the file that it leaves.
    db.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "off")?;
    schema::migrate(&mut db)?;
    db.close().map_err(|(_, error)| error)
}
