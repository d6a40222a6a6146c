//! Copies a whole ledger to another location, a file or a server: with its identity, numbers, audit and epochs.
//! [`copy_to_file`] has only the second of these safeguards of [`migrate`]:
//!
//! 1. No engine can open or write either ledger meanwhile: the copy has locked both.
//! 2. The target is marked as unfinished from its first row until it is whole, and no engine opens such a ledger.
//! 3. Rows are copied in the order of tables and keys, in durable batches of bounded size. So an interrupted copy has
//!    the first of the rows, and the next attempt continues after them. It starts from the beginning if an engine has
//!    opened the source since.
//! 4. At the end both ledgers are read again: each table must have the same rows, by their number and a hash.
//!
//! The source does not change. [`migrate`] copies no audit whose chain is broken or that its seal does not confirm: on
//! a server, an audit has no seal that would show the damage.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::LedgerError;
use super::audit::Head;
use super::location::Location;
#[cfg(feature = "postgres")]
use super::postgres::{ServerTables, can_write};
use super::sqlite::FileTables;
use super::store::tables::{Origin, Row, TABLES, Table, TableReads, TableWrites};
use super::upkeep;
use crate::domain::canonical::Canonical;

/// Why a ledger was not copied.
#[derive(Debug, thiserror::Error)]
pub enum NotCopied {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the source and the target are the same ledger, {name}")]
    Same { name: String },
    #[error("an engine has already used the ledger at {name}")]
    InUse { name: String },
    #[error("{name} is the interrupted copy of another ledger ({ledger})")]
    AnotherSource { name: String, ledger: String },
    #[error("the audit of {name} is not confirmed: {why}")]
    Audit { name: String, why: String },
    #[error("the table {table} of the copy {name} differs from the table of the source")]
    Differs { name: String, table: &'static str },
}

/// A table as it was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedTable {
    pub table: &'static str,
    pub rows: u64,
    /// SHA-256 of its rows, each as a line of JSON without spaces, in the order of their keys; empty if they were only
    /// counted.
    pub hash: String,
}

/// The tables that were copied, and the end of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub tables: Vec<CopiedTable>,
    pub audit: Head,
}

/// How far a copy has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub work: CopyWork,
    pub table: &'static str,
    /// Rows of the table that are done.
    pub rows: u64,
    /// All rows of the table.
    pub of: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyWork {
    Copying,
    Comparing,
}

/// Copies a ledger to a location that has none, or continues an interrupted copy. Blocks the thread until the copy is
/// whole. `seal_keys`: see [`upkeep::check`].
///
/// # Errors
/// The reasons that [`NotCopied`] lists, or an engine holds one of the ledgers.
pub fn migrate(
    from: &Location,
    to: &Location,
    seal_keys: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied, NotCopied> {
    check_locations(from, to)?;
    let source = open_source(from, true)?;
    let audit = upkeep::verify_audit(from, seal_keys)?.map_err(|why| NotCopied::Audit {
        name: from.to_string(),
        why,
    })?;
    let mut target = open_target(to)?.ok_or_else(|| NotCopied::InUse {
        name: to.to_string(),
    })?;
    let origin = source.origin()?;
    match target.copy_of()? {
        Some(begun) if begun == origin => {}
        Some(begun) if begun.ledger != origin.ledger => {
            return Err(NotCopied::AnotherSource {
                name: to.to_string(),
                ledger: begun.ledger,
            });
        }
        _ => target.begin(&origin)?,
    }
    fill(&*source, &*target, progress)?;
    let tables = match compare(&*source, &*target, progress)? {
        Ok(tables) => tables,
        Err(table) => {
            // With this epoch, which no engine has, the next attempt starts from the beginning.
            target.begin(&Origin { epoch: 0, ..origin })?;
            let name = to.to_string();
            return Err(NotCopied::Differs { name, table });
        }
    };
    target.finish(&source.last_numbers()?)?;
    Ok(Copied { tables, audit })
}

/// Counts the rows that [`migrate`] would copy, and checks that no engine has used the target and, on a server, that
/// it could be written. Works while an engine runs, and writes nothing.
///
/// # Errors
/// [`NotCopied::Same`], [`NotCopied::InUse`]; or the source cannot be read; or the target cannot be read or, on a
/// server, be written. Checks neither the locks nor the audit.
pub fn count(from: &Location, to: &Location) -> Result<Vec<CopiedTable>, NotCopied> {
    check_locations(from, to)?;
    let source = open_source(from, false)?;
    if is_in_use(to)? {
        return Err(NotCopied::InUse {
            name: to.to_string(),
        });
    }
    let counted = TABLES.iter().map(|table| {
        Ok(CopiedTable {
            table: table.name,
            rows: source.count_rows(table)?,
            hash: String::new(),
        })
    });
    counted.collect()
}

/// Copies a ledger as it is now into a new file, even while an engine writes the ledger.
///
/// # Errors
/// The ledger cannot be read, the file cannot be written, or an engine has used the ledger in that file.
pub fn copy_to_file(from: &Location, file: &Path) -> Result<(), NotCopied> {
    let source = open_source(from, false)?;
    let mut target = FileTables::open_copy(file)?.ok_or_else(|| NotCopied::InUse {
        name: file.display().to_string(),
    })?;
    target.begin(&source.origin()?)?;
    fill(&*source, &target, &mut |_| {})?;
    Ok(target.finish(&source.last_numbers()?)?)
}

fn check_locations(from: &Location, to: &Location) -> Result<(), NotCopied> {
    match from == to {
        true => Err(NotCopied::Same {
            name: from.to_string(),
        }),
        false => Ok(()),
    }
}

fn open_source(from: &Location, locked: bool) -> Result<Box<dyn TableReads>, LedgerError> {
    Ok(match (from, locked) {
        (Location::File(path), true) => Box::new(FileTables::open_locked(path)?),
        (Location::File(path), false) => Box::new(FileTables::open(path)?),
        #[cfg(feature = "postgres")]
        (Location::Postgres(address), true) => Box::new(ServerTables::open_locked(address)?),
        #[cfg(feature = "postgres")]
        (Location::Postgres(address), false) => Box::new(ServerTables::open(address)?),
    })
}

/// Opens a location for a copy. Returns None if an engine has used the ledger there.
fn open_target(to: &Location) -> Result<Option<Box<dyn TableWrites>>, LedgerError> {
    fn boxed(target: impl TableWrites + 'static) -> Box<dyn TableWrites> {
        Box::new(target)
    }
    Ok(match to {
        Location::File(path) => FileTables::open_copy(path)?.map(boxed),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => ServerTables::open_copy(address)?.map(boxed),
    })
}

/// Whether an engine has used the ledger at this location.
fn is_in_use(to: &Location) -> Result<bool, LedgerError> {
    let used = match to {
        Location::File(path) if !path.exists() => return Ok(false),
        Location::File(_) => open_source(to, false),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => match can_write(address) {
            // There is a ledger of this version or none: if it cannot be read, there is none.
            Ok(()) => match ServerTables::open(address) {
                Ok(opened) => Ok(Box::new(opened) as Box<dyn TableReads>),
                Err(_) => return Ok(false),
            },
            Err(error) => Err(error),
        },
    };
    match used {
        Ok(ledger) => Ok(ledger.origin()?.epoch > 0),
        Err(LedgerError::Unfinished { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Copies the rows that the target does not have yet.
fn fill(
    source: &dyn TableReads,
    target: &dyn TableWrites,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LedgerError> {
    for table in TABLES {
        let (mut rows, of) = (target.count_rows(table)?, source.count_rows(table)?);
        source.each_batch(table, rows, &mut |batch| {
            target.insert(table, &batch)?;
            rows += batch.len() as u64;
            progress(Progress {
                work: CopyWork::Copying,
                table: table.name,
                rows,
                of,
            });
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads both ledgers again. Returns their tables if they are the same, otherwise the name of the first that differs.
fn compare(
    source: &dyn TableReads,
    target: &dyn TableReads,
    progress: &mut dyn FnMut(Progress),
) -> Result<Result<Vec<CopiedTable>, &'static str>, LedgerError> {
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let was = summed_up(source, table, progress)?;
        if was != summed_up(target, table, progress)? {
            return Ok(Err(table.name));
        }
        tables.push(was);
    }
    Ok(Ok(tables))
}

fn summed_up(
    ledger: &dyn TableReads,
    table: &'static Table,
    progress: &mut dyn FnMut(Progress),
) -> Result<CopiedTable, LedgerError> {
    let of = ledger.count_rows(table)?;
    let (mut rows, mut hash) = (0, Canonical::default());
    ledger.each_batch(table, 0, &mut |batch| {
        rows += batch.len() as u64;
        batch.iter().for_each(|row| add(&mut hash, row));
        progress(Progress {
            work: CopyWork::Comparing,
            table: table.name,
            rows,
            of,
        });
        Ok(())
    })?;
    Ok(CopiedTable {
        table: table.name,
        rows,
        hash: hash.finish(),
    })
}

fn add(hash: &mut Canonical, row: &Row) {
    hash.value(&serde_json::json!(row));
    hash.text("\n");
}
