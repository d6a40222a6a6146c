//! Keeps the [`Tombstones`] in memory equal to the table of tombstones.
//!
//! SQLite itself names each row that is written, so no write of a tombstone can be missed here. Only the
//! resource of a removed row is not known: [`SqliteRows`](super::transaction::SqliteRows) notes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension};

use super::sql::Sql;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::tombstones::{Changed, Tombstones};

/// Number of rows that are loaded at a time when a ledger is opened.
const LOADED_TOGETHER: usize = 10_000;

#[derive(Debug)]
pub(super) struct Mirror {
    index: Arc<Tombstones>,
    /// Ids of the records that the open transaction has written.
    written: Arc<Mutex<Vec<i64>>>,
}

impl Mirror {
    /// Loads the tombstones into the index, and follows the table from then on.
    pub(super) fn start(db: &mut Connection, index: Arc<Tombstones>) -> Sql<Self> {
        {
            let mut all = db.prepare("SELECT site, kind, id, phase FROM tombstones")?;
            let mut found = all.query_map((), changed)?;
            loop {
                let part: Vec<Changed> =
                    found.by_ref().take(LOADED_TOGETHER).collect::<Sql<_>>()?;
                if part.is_empty() {
                    break;
                }
                index.apply(part);
            }
        }
        let written: Arc<Mutex<Vec<i64>>> = Arc::default();
        let writes = written.clone();
        db.update_hook(Some(move |_, _: &str, table: &str, row: i64| {
            if table == "tombstones" {
                locked(&writes).push(row);
            }
        }))?;
        Ok(Self { index, written })
    }

    /// Discards the noted writes of a transaction that was rolled back.
    pub(super) fn undo(&self) {
        locked(&self.written).clear();
    }

    /// Applies the writes of a committed transaction; `removed` are the rows that it removed.
    pub(super) fn take_over(&self, db: &Connection, removed: Vec<Changed>) {
        if let Err(error) = self.read_again(db, removed) {
            tracing::error!(
                %error,
                "tombstones were written and cannot be read back: the gates answer 503 until the engine is restarted"
            );
            self.index.lose();
        }
    }

    fn read_again(&self, db: &Connection, removed: Vec<Changed>) -> Sql<()> {
        let mut written = std::mem::take(&mut *locked(&self.written));
        if written.is_empty() {
            return Ok(());
        }
        written.sort_unstable();
        written.dedup();
        let mut one =
            db.prepare_cached("SELECT site, kind, id, phase FROM tombstones WHERE record_id = ?1")?;
        let mut changes = removed;
        for record in written {
            changes.extend(one.query_row([record], changed).optional()?);
        }
        self.index.apply(changes);
        Ok(())
    }
}

fn changed(row: &rusqlite::Row) -> Sql<Changed> {
    Ok(Changed::of(row.key(0)?, Some(row.word(3)?)))
}

fn locked(written: &Mutex<Vec<i64>>) -> MutexGuard<'_, Vec<i64>> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}
