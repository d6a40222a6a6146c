//! Connections to a ledger's file: their settings, and the checks before the file is used.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema;
use super::sql::Sql;
use crate::ledger::LedgerError;
use crate::ledger::store::tables::UNFINISHED;

/// Refuses an empty file: a ledger is never empty, so something has truncated it.
pub(super) fn check_content(path: &Path) -> Result<(), LedgerError> {
    let found = std::fs::metadata(path);
    match found
        .map_err(|error| LedgerError::io(path.display(), error))?
        .len()
    {
        0 => Err(LedgerError::Empty {
            name: path.display().to_string(),
        }),
        _ => Ok(()),
    }
}

/// Applies the settings that connections for reading and for writing share.
pub(super) fn configure(db: &Connection) -> Sql<()> {
    db.set_prepared_statement_cache_capacity(128);
    // Readers meet a lock only while the file is recovered or closed.
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    // Otherwise SQLite may compile a cached statement again when a value that is bound to it changes.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // 64 MiB: the random inserts of a million identities stay in memory.
    db.pragma_update(None, "cache_size", -65_536)
}

/// Opens a ledger for reading, even while an engine writes it.
///
/// # Errors
/// The file is empty, damaged, an unfinished copy, of a newer version or not a ledger; or it cannot be read.
pub(super) fn open_reader(path: &Path) -> Result<Connection, LedgerError> {
    let name = path.display().to_string();
    let failed = |error: rusqlite::Error| fault(&name, &error);
    check_content(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    configure(&db).map_err(failed)?;
    check_version(&db, &name)?;
    match schema::version(&db).map_err(failed)? {
        0 => Err(LedgerError::Foreign { name }),
        _ => Ok(db),
    }
}

/// Checks that a file can be read, is not an unfinished copy, and was not written by a newer version.
pub(super) fn check_version(db: &Connection, path: &str) -> Result<(), LedgerError> {
    let found = schema::version(db).map_err(|e| fault(path, &e))?;
    if found == UNFINISHED {
        return Err(LedgerError::Unfinished {
            name: path.to_owned(),
        });
    }
    if found > schema::KNOWN {
        return Err(LedgerError::Newer {
            name: path.to_owned(),
            found,
            known: schema::KNOWN,
        });
    }
    let damage: Option<String> = db
        .prepare("SELECT count(*) FROM sqlite_master")
        .and_then(|mut tables| tables.query_row((), |row| row.get::<_, i64>(0)))
        .err()
        .map(|_| quick_check(db));
    match damage {
        None => Ok(()),
        Some(detail) => Err(LedgerError::Corrupt {
            name: path.to_owned(),
            detail,
        }),
    }
}

/// Size in bytes of the largest file that is checked whole when an engine opens it, which takes about a tenth of a
/// second.
const CHECKED_BYTES_MAX: u64 = 64 << 20;

/// Checks the whole file for damage before the engine says that it is ready; otherwise damage would be found only
/// when the damaged table is read. Larger files are checked only by `gone ledger check`.
pub(super) fn check_pages(db: &Connection, path: &Path) -> Result<(), LedgerError> {
    let size = std::fs::metadata(path).map_or(u64::MAX, |found| found.len());
    if size > CHECKED_BYTES_MAX {
        return Ok(());
    }
    match quick_check(db).as_str() {
        "ok" => Ok(()),
        damage => Err(LedgerError::Corrupt {
            name: path.display().to_string(),
            detail: damage.to_owned(),
        }),
    }
}

/// Returns SQLite's own description of the first damage, or of the error that ended the check; `ok` if there is none.
fn quick_check(db: &Connection) -> String {
    db.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
        .unwrap_or_else(|error| error.to_string())
}

/// Returns the error of a ledger: its file is damaged, or the disk or SQLite failed.
pub(super) fn fault(path: &str, error: &rusqlite::Error) -> LedgerError {
    let (name, detail) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        // No code: a column holds a value that no ledger writes.
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            LedgerError::Corrupt { name, detail }
        }
        Some(_) => LedgerError::Io { name, detail },
    }
}
