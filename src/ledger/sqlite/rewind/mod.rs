//! A copy of a ledger that can be set to an earlier time: for post-mortems.
//!
//! ```text
//! original ── copied, never written ─▶ copy ── migrated ─▶ last_… tables: its state at the end
//!                                                  all_events ─▶ moves, turns, spans, fences, retries
//! seek(time) ─▶ shown(seq, at) ─▶ steps, deletions, requests, tombstones, counters of that time
//! ```
//!
//! 1. The copy shows the state that the events up to the time give: a step as of its last event, a deletion in
//!    its last state. Later deletions, their steps and later events are not there.
//! 2. A row that has not moved since the time is the same as at the end, in every column.
//! 3. The rest of the copy is derived: a step is ready when all its dependencies have ended, and is stuck with the step
//!    that it waits for. Counts, sums and phases of tombstones follow from the steps.
//!
//! Some moves have no event, so the copy does not show them, or shows them late:
//! - A step with a call in flight shows as `ready`, except in a deletion that was cancelled or stopped at a failure. If
//!   the engine ended meanwhile, the step shows as `ready` until it is observed. If a deletion stopped at a failure and
//!   was retried before its calls in flight were answered, the states of the steps with these calls are a guess.
//! - A blocked step whose next attempt was due shows as `blocked` until the attempt is answered.
//! - A retried step shows as retried from the audit row on. If many steps were retried at once, the audit has
//!   only their number: the steps that were sent again later show as retried.
//! - Events of an older ledger have no errors; these are derived from the messages (`old_messages`). Blockers and
//!   the next attempt are known only if the step has not moved since.
//! - Moves before the oldest event that is kept are not known, and the incarnations of a record are estimated.

mod copy;
mod old_messages;
mod prepare;
mod project_deletions;
mod project_steps;

use std::path::Path;

use chrono::{DateTime, Utc};

use super::connection::{configure, fault};
use super::sql::{Run, Sql};
use super::{Options, SqliteLedger, Store};
use crate::ledger::LedgerError;
use crate::ledger::store::sql::ReadColumns as _;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

/// Why a ledger cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("cannot read {path}: {detail}")]
    Unreadable { path: String, detail: String },
    #[error("{path} is not a ledger of gone")]
    Foreign { path: String },
    #[error("{path} has no events to replay")]
    Empty { path: String },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A copy of a ledger that can be set to any time between its first event and its last change.
#[derive(Debug)]
pub struct Rewind {
    db: Connection,
    /// The original's path, for messages.
    name: String,
    first: DateTime<Utc>,
    last: DateTime<Utc>,
}

impl Rewind {
    /// Copies the ledger into this folder and prepares the copy, which first shows the end. The original is
    /// only read, even while an engine has it open. Blocks for as long as SQLite does.
    ///
    /// # Errors
    /// The original cannot be read, is not a ledger, is an unfinished copy or of a newer version, or has no events; or
    /// the folder cannot be written.
    pub fn open(original: &Path, folder: &Path) -> Result<Self, ReplayError> {
        let name = original.display().to_string();
        let path = copy::path(folder);
        copy::take(original, &path)?;
        // Migrates the copy.
        drop(Store::open(&path, Options::default())?);
        let failed = |error: rusqlite::Error| fault(&name, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(&path, flags).map_err(failed)?;
        let span = configure(&db).and_then(|()| prepare::prepare(&mut db));
        let Some((first, last)) = span.map_err(failed)? else {
            return Err(ReplayError::Empty { path: name });
        };
        Ok(Self {
            db,
            name,
            first,
            last,
        })
    }

    /// Opens the copy for reading, at the time to which it is set.
    ///
    /// # Errors
    /// The copy does not exist any more, is damaged, or cannot be read.
    pub fn ledger(&self) -> Result<SqliteLedger, LedgerError> {
        let path = self.db.path().unwrap_or_default();
        SqliteLedger::open_reader(Path::new(path))
    }

    /// The times of the first event, and of the last change.
    pub fn span(&self) -> (DateTime<Utc>, DateTime<Utc>) {
        (self.first, self.last)
    }

    /// Sets the copy to this time, or to the nearer end of its span. Returns the time that the copy shows.
    ///
    /// # Errors
    /// The copy cannot be read or written.
    pub fn seek(&mut self, at: DateTime<Utc>) -> Result<DateTime<Utc>, LedgerError> {
        let at = at.clamp(self.first, self.last);
        let shown = show(&mut self.db, at.timestamp_micros());
        shown.map_err(|error| fault(&self.name, &error))?;
        Ok(at)
    }

    /// Moves the copy by this many moments, backwards if negative; events of one instant are one moment. Stops at an
    /// end of the span.
    ///
    /// # Errors
    /// As with [`Self::seek`].
    pub fn step(&mut self, moments: i64) -> Result<DateTime<Utc>, LedgerError> {
        let moment = moment(&self.db, moments);
        let at = moment.map_err(|error| fault(&self.name, &error))?;
        let end = if moments < 0 { self.first } else { self.last };
        self.seek(at.unwrap_or(end))
    }
}

/// The time of the moment that is this many moments after the time that is shown. A negative number counts back
/// from the moment whose state is shown. None beyond the ends of the span.
fn moment(db: &Connection, moments: i64) -> Sql<Option<DateTime<Utc>>> {
    let skipped = moments.saturating_abs().saturating_sub(1);
    let sql = match moments {
        0 => "SELECT at FROM shown LIMIT 1 OFFSET ?1 + 1",
        ..0 => {
            "SELECT DISTINCT at FROM all_events WHERE at < (SELECT max(at) FROM all_events
                 WHERE at <= (SELECT at FROM shown)) ORDER BY at DESC LIMIT 1 OFFSET ?1"
        }
        1.. => {
            "SELECT DISTINCT at FROM all_events WHERE at > (SELECT at FROM shown)
             ORDER BY at LIMIT 1 OFFSET ?1"
        }
    };
    db.first(sql, [skipped], |row| Ok(row.read(0)?))
}

/// Sets the copy to a time, in one transaction: a reader sees the copy at the time before, or at this one.
fn show(db: &mut Connection, at: i64) -> Sql<()> {
    let tx = Transaction::new(db, TransactionBehavior::Immediate)?;
    let moved = tx.execute(
        "UPDATE shown SET before_seq = seq, before_at = at, at = ?1, seq =
             (SELECT max(seq) FROM all_events WHERE at <= ?1)
         WHERE at <> ?1",
        [at],
    )?;
    if moved > 0 {
        project_steps::write(&tx)?;
    }
    tx.commit()
}
