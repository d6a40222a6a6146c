//! Makes the copy that is set to other times. The original is never written, nor locked longer than for a
//! read.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::super::connection::{check_version, fault};
use super::super::lock::{self, beside};
use super::super::{schema, upkeep};
use super::ReplayError;
use crate::system::private;

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The log that an engine leaves behind if it does not end cleanly: part of the ledger.
const LOG: &str = "-wal";

pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("ledger.db")
}

/// Copies the original. While an engine has the original open, SQLite copies it as of one moment. Otherwise the files
/// are copied as they are, so the original may lie where nothing can be written, and nothing is left beside it.
pub(super) fn take(original: &Path, copy: &Path) -> Result<(), ReplayError> {
    check_kind_of_file(original)?;
    if !lock::is_held(original) {
        copy_files(original, copy).map_err(|error| unreadable(original, &error))?;
        if !lock::is_held(original) {
            return check_ledger(original, copy);
        }
        // An engine has started meanwhile: the copied files may be of different moments.
        for file in [copy.to_owned(), beside(copy, LOG)] {
            lock::remove(&file).map_err(|error| unreadable(original, &error))?;
        }
    }
    upkeep::backup(original, copy)?;
    check_ledger(original, copy)
}

fn copy_files(original: &Path, copy: &Path) -> io::Result<()> {
    for (from, to) in [
        (original.to_owned(), copy.to_owned()),
        (beside(original, LOG), beside(copy, LOG)),
    ] {
        let mut from = match File::open(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to != *copy => continue,
            from => from?,
        };
        io::copy(&mut from, &mut private::create_new(&to)?)?;
    }
    Ok(())
}

fn check_kind_of_file(original: &Path) -> Result<(), ReplayError> {
    let mut begin = Vec::new();
    let read = File::open(original).and_then(|file| {
        file.take(MAGIC.len() as u64)
            .read_to_end(&mut begin)
            .map(drop)
    });
    read.map_err(|error| unreadable(original, &error))?;
    match begin == *MAGIC {
        true => Ok(()),
        false => Err(foreign(original)),
    }
}

/// Checks the copy before any migration, which would turn any file into a ledger.
fn check_ledger(original: &Path, copy: &Path) -> Result<(), ReplayError> {
    let name = original.display().to_string();
    let failed = |error: rusqlite::Error| fault(&name, &error);
    // The copy is opened for writing too, because its log may have to be applied.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(copy, flags).map_err(failed)?;
    check_version(&db, &name)?;
    let tables = "SELECT count(*) FROM sqlite_master
        WHERE type = 'table' AND name IN ('deletions', 'steps', 'events', 'tombstones')";
    let tables: i64 = db.query_row(tables, (), |row| row.get(0)).map_err(failed)?;
    match tables == 4 && schema::version(&db).map_err(failed)? > 0 {
        true => Ok(()),
        false => Err(foreign(original)),
    }
}

fn unreadable(original: &Path, error: &io::Error) -> ReplayError {
    ReplayError::Unreadable {
        path: original.display().to_string(),
        detail: error.to_string(),
    }
}

fn foreign(original: &Path) -> ReplayError {
    ReplayError::Foreign {
        path: original.display().to_string(),
    }
}
