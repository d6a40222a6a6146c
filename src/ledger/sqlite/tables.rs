//! Whole tables of a ledger's file: see [`crate::ledger::store::tables`].

use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};

use super::connection::{check_content, check_version, configure, fault, open_reader};
use super::lock::Lock;
use super::sql::{Run as _, Sql};
use super::store::lock_or_create;
use super::{schema, seal};
use crate::ledger::LedgerError;
use crate::ledger::store::tables::{
    Cell, LastNumbers, Origin, Row, TABLES, Table, TableReads, TableWrites, UNFINISHED,
};

/// Texts are ordered by their bytes.
const BYTEWISE: &str = " COLLATE BINARY";
/// The last numbers that a file keeps, each with the table whose rows have them.
const NUMBERS: [(&str, &str); 4] = [
    ("event", "events"),
    ("native", "native"),
    ("notice", "peer_changes"),
    ("record", "tombstones"),
];

/// A connection by which the tables are read or written.
pub struct FileTables {
    db: Connection,
    path: PathBuf,
    /// None if an engine may write the ledger meanwhile. Dropped last: the file is closed by then.
    _lock: Option<Lock>,
}

impl FileTables {
    /// Opens a whole ledger for reading, as it is now, and keeps engines from opening it.
    ///
    /// # Errors
    /// There is no ledger of this version, it cannot be read, or an engine holds it.
    pub fn open_locked(path: &Path) -> Result<Self, LedgerError> {
        check_content(path)?;
        let lock = Lock::acquire(path)?;
        Ok(Self {
            _lock: Some(lock),
            ..Self::open(path)?
        })
    }

    /// Opens a whole ledger for reading, as it is now, even while an engine writes it.
    ///
    /// # Errors
    /// There is no ledger of this version, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let name = path.display().to_string();
        let opened = Self {
            db: open_reader(path)?,
            path: path.to_owned(),
            _lock: None,
        };
        match opened.version()? {
            schema::KNOWN => {}
            found => {
                return Err(LedgerError::Older {
                    name,
                    found,
                    known: schema::KNOWN,
                });
            }
        }
        opened.run("BEGIN")?;
        Ok(opened)
    }

    /// Opens a copy that is not whole, or creates one if there is no file. A ledger that no engine has used becomes
    /// such a copy. No other process can open the copy meanwhile. None if there is a ledger that an engine has used.
    ///
    /// # Errors
    /// The file is something else, cannot be written, or another process holds it.
    pub fn open_copy(path: &Path) -> Result<Option<Self>, LedgerError> {
        let name = path.display().to_string();
        let lock = lock_or_create(path)?;
        let opened = Self::connect(path, lock)?;
        opened.run("PRAGMA journal_mode = wal; PRAGMA synchronous = full")?;
        match check_version(&opened.db, &name) {
            Err(unfinished @ LedgerError::Unfinished { .. }) => {
                match opened.number("SELECT version FROM migration")? {
                    schema::KNOWN => Ok(Some(opened)),
                    _ => Err(unfinished),
                }
            }
            Err(error) => Err(error),
            Ok(()) => match opened.version()? {
                0 => Err(LedgerError::Foreign { name }),
                _ if opened.number("SELECT count(*) FROM engines")? > 0 => Ok(None),
                known => {
                    opened.run(&format!(
                        "BEGIN IMMEDIATE;
                         CREATE TABLE migration AS
                             SELECT '' AS ledger, 0 AS epoch, {known} AS version;
                         PRAGMA user_version = {UNFINISHED};
                         COMMIT"
                    ))?;
                    Ok(Some(opened))
                }
            },
        }
    }

    fn connect(path: &Path, lock: Lock) -> Result<Self, LedgerError> {
        let failed = |error: rusqlite::Error| fault(&path.display().to_string(), &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(failed)?;
        configure(&db).map_err(failed)?;
        Ok(Self {
            db,
            path: path.to_owned(),
            _lock: Some(lock),
        })
    }

    fn run(&self, sql: &str) -> Result<(), LedgerError> {
        self.done(self.db.execute_batch(sql))
    }

    fn number(&self, sql: &str) -> Result<i64, LedgerError> {
        self.done(self.db.one(sql, (), |row| row.get(0)))
    }

    fn version(&self) -> Result<i64, LedgerError> {
        self.done(schema::version(&self.db))
    }

    fn done<T>(&self, done: Sql<T>) -> Result<T, LedgerError> {
        done.map_err(|error| fault(&self.path.display().to_string(), &error))
    }

    /// Writes in one durable transaction.
    fn transact(&self, write: impl FnOnce(&Connection) -> Sql<()>) -> Result<(), LedgerError> {
        let transact = || {
            let tx = self.db.unchecked_transaction()?;
            write(&tx)?;
            tx.commit()
        };
        self.done(transact())
    }
}

impl TableReads for FileTables {
    fn origin(&self) -> Result<Origin, LedgerError> {
        let sql = "SELECT id, (SELECT coalesce(max(epoch), 0) FROM engines) FROM identity";
        self.done(self.db.one(sql, (), origin))
    }

    fn count_rows(&self, table: &Table) -> Result<u64, LedgerError> {
        let counted = self.number(&format!("SELECT count(*) FROM \"{}\"", table.name))?;
        Ok(counted.unsigned_abs())
    }

    fn each_batch(
        &self,
        table: &Table,
        skipped: u64,
        visit: &mut dyn FnMut(Vec<Row>) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let sql = format!("{} LIMIT -1 OFFSET {skipped}", table.select(BYTEWISE));
        let mut all = self.done(self.db.prepare(&sql))?;
        let mut found = self.done(all.query(()))?;
        let mut batch = Vec::new();
        while let Some(row) = self.done(found.next())? {
            let cells = (0..table.columns.len()).map(|at| cell(row, at));
            batch.push(self.done(cells.collect::<Sql<Row>>())?);
            if batch.len() == table.batch() {
                visit(std::mem::take(&mut batch))?;
            }
        }
        match batch.is_empty() {
            true => Ok(()),
            false => visit(batch),
        }
    }

    fn last_numbers(&self) -> Result<LastNumbers, LedgerError> {
        let mut numbers = LastNumbers::new();
        for (name, table) in NUMBERS {
            let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
            let last = self.done(self.db.first(sql, [table], |row| row.get(0)))?;
            numbers.insert(name.to_owned(), last.unwrap_or_default());
        }
        Ok(numbers)
    }
}

impl TableWrites for FileTables {
    fn copy_of(&self) -> Result<Option<Origin>, LedgerError> {
        let sql = "SELECT ledger, epoch FROM migration WHERE ledger <> ''";
        self.done(self.db.first(sql, (), origin))
    }

    fn begin(&self, origin: &Origin) -> Result<(), LedgerError> {
        self.transact(|db| {
            for table in TABLES {
                db.execute(&format!("DELETE FROM \"{}\"", table.name), ())?;
            }
            db.execute("DELETE FROM audit_seal", ())?;
            db.execute("DELETE FROM sqlite_sequence", ())?;
            let note = "UPDATE migration SET ledger = ?1, epoch = ?2";
            db.execute(note, (&origin.ledger, origin.epoch)).map(drop)
        })
    }

    fn insert(&self, table: &Table, rows: &[Row]) -> Result<(), LedgerError> {
        let places = vec!["?"; table.columns.len()].join(", ");
        let columns = table.columns();
        let sql = format!("INSERT INTO \"{}\"({columns}) VALUES({places})", table.name);
        self.transact(|db| {
            let mut insert = db.prepare_cached(&sql)?;
            for row in rows {
                insert.execute(params_from_iter(row))?;
            }
            Ok(())
        })
    }

    fn finish(&mut self, numbers: &LastNumbers) -> Result<(), LedgerError> {
        self.transact(|db| {
            for (name, table) in NUMBERS {
                db.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [table])?;
                let last = numbers.get(name).copied().unwrap_or_default();
                let given = "INSERT INTO sqlite_sequence(name, seq) VALUES(?1, ?2)";
                db.execute(given, (table, last))?;
            }
            db.execute("DROP TABLE migration", ())?;
            db.pragma_update(None, "user_version", schema::KNOWN)
        })?;
        seal::prepare(&mut self.db, &self.path, &[]).map(drop)
    }
}

fn origin(row: &rusqlite::Row) -> Sql<Origin> {
    Ok(Origin {
        ledger: row.get(0)?,
        epoch: row.get(1)?,
    })
}

fn cell(row: &rusqlite::Row, at: usize) -> Sql<Cell> {
    match row.get(at)? {
        Value::Null => Ok(Cell::Null),
        Value::Integer(number) => Ok(Cell::Number(number)),
        Value::Text(text) => Ok(Cell::Text(text)),
        // No column of a ledger has reals or blobs.
        other => Err(rusqlite::Error::InvalidColumnType(
            at,
            String::new(),
            other.data_type(),
        )),
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> Sql<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
