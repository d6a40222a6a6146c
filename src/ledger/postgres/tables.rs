//! Whole tables of a ledger on a server: see [`crate::ledger::store::tables`].

use std::sync::Arc;

use super::address::Address;
use super::arrays::Batch;
use super::client::{Connection, Settings};
use super::engines;
use super::failed::{Failed, Sql};
use super::lock;
use super::schema::{self, KNOWN, fault};
use super::transaction::{PostgresRows, SNAPSHOT};
use crate::ledger::LedgerError;
use crate::ledger::store::sql::{ReadColumns as _, SqlValue};
use crate::ledger::store::tables::{
    Cell, ColumnType, LastNumbers, Origin, Row, TABLES, Table, TableReads, TableWrites, UNFINISHED,
};

/// Settings for statements that read and compare whole tables. Unlike an engine's statements, they are faster without
/// an index.
const SETTINGS: Settings<'_> = &[
    ("enable_seqscan", "on"),
    ("enable_hashjoin", "on"),
    ("enable_mergejoin", "on"),
    ("work_mem", "'64MB'"),
];
/// Texts are ordered by their bytes.
const BYTEWISE: &str = " COLLATE \"C\"";
/// Columns that the tables of a file do not have, and that have no default: table, column, and the value in a copied
/// row.
const OWN_COLUMNS: [(&str, &str, &str); 1] = [("engines", "host", "''")];

/// A session in which the tables are read or written.
pub struct ServerTables {
    db: Arc<Connection>,
    address: Address,
    /// Whether the session is within a transaction, which ends with the session.
    in_snapshot: bool,
}

impl ServerTables {
    /// Opens a whole ledger for reading, as of now, even while an engine writes it.
    ///
    /// # Errors
    /// There is no ledger of this version, or it cannot be reached or read.
    pub fn open(address: &Address) -> Result<Self, LedgerError> {
        Self::connect(address)?.at_one_moment()
    }

    /// Opens a whole ledger for reading, as of now, and keeps engines from opening it.
    ///
    /// # Errors
    /// Fails like [`Self::open`], and if an engine holds the ledger.
    pub fn open_locked(address: &Address) -> Result<Self, LedgerError> {
        let opened = Self::connect(address)?;
        engines::keep_out(&opened.db, address)?;
        opened.at_one_moment()
    }

    /// Opens a copy that is not whole, or creates one if there is no ledger. A ledger that no engine has used becomes
    /// such a copy. No other process can open the copy meanwhile. None if there is a ledger that an engine has used.
    ///
    /// # Errors
    /// The copy cannot be reached or written, another process holds it, or the schema has something else.
    pub fn open_copy(address: &Address) -> Result<Option<Self>, LedgerError> {
        let opened = Self::connect(address)?;
        engines::keep_out(&opened.db, address)?;
        match schema::migrate(&opened.db, address) {
            Err(unfinished @ LedgerError::Unfinished { .. }) => {
                match opened.number("SELECT version FROM migration")? {
                    KNOWN => Ok(Some(opened)),
                    _ => Err(unfinished),
                }
            }
            Err(error) => Err(error),
            Ok(()) if opened.number("SELECT count(*) FROM engines")? > 0 => Ok(None),
            Ok(()) => {
                let begin = format!(
                    "CREATE TABLE migration AS
                         SELECT ''::text AS ledger, 0::bigint AS epoch, number AS version FROM version;
                     UPDATE version SET number = {UNFINISHED}"
                );
                let begun = opened.db.within("", || opened.db.batch(&begin));
                begun.map_err(|error| opened.failed(&error))?;
                Ok(Some(opened))
            }
        }
    }

    fn connect(address: &Address) -> Result<Self, LedgerError> {
        let settings = [SETTINGS, lock::SHORT_WAIT].concat();
        Ok(Self {
            db: Arc::new(schema::connect_with(address, &settings)?),
            address: address.clone(),
            in_snapshot: false,
        })
    }

    fn at_one_moment(mut self) -> Result<Self, LedgerError> {
        schema::check(&self.db, &self.address)?;
        let begun = self.db.begin(SNAPSHOT);
        begun.map_err(|error| self.failed(&error))?;
        self.in_snapshot = true;
        Ok(self)
    }

    /// Returns a reader of the rows, in the same session.
    pub(super) fn reads(&self) -> PostgresRows {
        PostgresRows::new(self.db.clone(), 0)
    }

    fn run(&self, sql: &str) -> Result<(), LedgerError> {
        self.db.batch(sql).map_err(|error| self.failed(&error))
    }

    fn number(&self, sql: &str) -> Result<i64, LedgerError> {
        let number = self.db.one(sql, &[], |row| Ok(row.read(0)?));
        number.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &Failed) -> LedgerError {
        fault(&self.address, error)
    }

    fn each_batch_of(
        &self,
        table: &Table,
        skipped: u64,
        visit: &mut dyn FnMut(Vec<Row>) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let name = table.name;
        let select = table.select(BYTEWISE);
        self.run(&format!(
            "DECLARE all_{name} NO SCROLL CURSOR FOR {select} OFFSET {skipped}"
        ))?;
        let fetch = format!("FETCH {} FROM all_{name}", table.batch());
        loop {
            let rows = self.db.all(&fetch, &[], |row| read(row, table));
            let rows = rows.map_err(|error| self.failed(&error))?;
            if rows.is_empty() {
                return self.run(&format!("CLOSE all_{name}"));
            }
            visit(rows)?;
        }
    }
}

impl TableReads for ServerTables {
    fn origin(&self) -> Result<Origin, LedgerError> {
        let sql = "SELECT id, (SELECT coalesce(max(epoch), 0) FROM engines) FROM identity";
        let origin = self.db.one(sql, &[], origin);
        origin.map_err(|error| self.failed(&error))
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
        if self.in_snapshot {
            return self.each_batch_of(table, skipped, visit);
        }
        // A cursor lives within a transaction.
        let failed = |error: Failed| self.failed(&error);
        self.db.begin("READ ONLY").map_err(failed)?;
        let read = self.each_batch_of(table, skipped, visit);
        read.and(self.db.commit().map_err(failed))
    }

    fn last_numbers(&self) -> Result<LastNumbers, LedgerError> {
        let numbers = self.db.all("SELECT name, last FROM numbers", &[], |row| {
            Ok((row.read(0)?, row.read(1)?))
        });
        let numbers = numbers.map_err(|error| self.failed(&error))?;
        Ok(numbers.into_iter().collect())
    }
}

impl TableWrites for ServerTables {
    fn copy_of(&self) -> Result<Option<Origin>, LedgerError> {
        let sql = "SELECT ledger, epoch FROM migration WHERE ledger <> ''";
        let noted = self.db.first(sql, &[], origin);
        noted.map_err(|error| self.failed(&error))
    }

    fn begin(&self, origin: &Origin) -> Result<(), LedgerError> {
        let names: Vec<String> = TABLES.iter().map(|it| format!("\"{}\"", it.name)).collect();
        let empty = format!("TRUNCATE {}; UPDATE numbers SET last = 0", names.join(", "));
        let note = "UPDATE migration SET ledger = $1, epoch = $2";
        let begun = self.db.within("", || {
            self.db.batch(&empty)?;
            self.db.run(note, &[&origin.ledger, &origin.epoch])
        });
        begun.map(drop).map_err(|error| self.failed(&error))
    }

    fn insert(&self, table: &Table, rows: &[Row]) -> Result<(), LedgerError> {
        let mut names = table.columns();
        let mut values = "*".to_owned();
        for (_, column, value) in OWN_COLUMNS.iter().filter(|it| it.0 == table.name) {
            names = format!("{names}, \"{column}\"");
            values = format!("{values}, {value}");
        }
        let rows = rows.iter().map(|row| {
            let cells = row.iter().zip(table.columns);
            cells.map(|(cell, (_, is))| value(cell, *is))
        });
        let batch = Batch::of(rows, |rows| {
            format!(
                "INSERT INTO \"{}\"({names}) SELECT {values} FROM {rows}",
                table.name
            )
        });
        let Some(batch) = batch else {
            return Ok(());
        };
        let (sql, columns) = batch.statement();
        let inserted = self.db.run(sql, &columns).map(drop);
        // The cause may be a text that only a file can keep, such as one with a zero byte.
        let detail = |error| format!("rows of {}: {error}", table.name);
        inserted.map_err(|error| LedgerError::io(&self.address, detail(error)))
    }

    fn finish(&mut self, numbers: &LastNumbers) -> Result<(), LedgerError> {
        let (names, last): (Vec<&str>, Vec<i64>) = numbers
            .iter()
            .map(|(name, last)| (name.as_str(), *last))
            .unzip();
        let given = "UPDATE numbers SET last = n.last
             FROM unnest($1::text[], $2::bigint[]) AS n(name, last) WHERE numbers.name = n.name";
        // A file keeps no last number for deletions, nor for the resources of other deployments.
        let rest = "UPDATE numbers SET last = greatest(last, (SELECT max(num) FROM deletions))
                 WHERE name = 'deletion';
             UPDATE numbers SET last = greatest(last, (SELECT max(num) FROM foreign_going))
                 WHERE name = 'foreign';
             UPDATE version SET number = (SELECT version FROM migration);
             DROP TABLE migration";
        let finished = self.db.within("", || {
            self.db.run(given, &[&names, &last])?;
            self.db.batch(rest)
        });
        finished.map_err(|error| self.failed(&error))
    }
}

fn origin(row: &tokio_postgres::Row) -> Sql<Origin> {
    Ok(Origin {
        ledger: row.read(0)?,
        epoch: row.read(1)?,
    })
}

fn read(row: &tokio_postgres::Row, table: &Table) -> Sql<Row> {
    let cells = table.columns.iter().enumerate().map(|(at, (_, is))| {
        Ok(match is {
            ColumnType::Number => row.read::<Option<i64>>(at)?.map(Cell::Number),
            ColumnType::Flag => {
                let flag = row.read::<Option<bool>>(at)?;
                flag.map(|flag| Cell::Number(flag.into()))
            }
            ColumnType::Text | ColumnType::Document => {
                row.read::<Option<String>>(at)?.map(Cell::Text)
            }
        }
        .unwrap_or(Cell::Null))
    });
    cells.collect()
}

fn value(cell: &Cell, is: ColumnType) -> SqlValue<'_> {
    let number = match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    };
    match (is, cell) {
        (ColumnType::Number, _) => number.into(),
        (ColumnType::Flag, _) => number.is_some_and(|number| number != 0).into(),
        (_, Cell::Text(text)) => text.into(),
        _ => SqlValue::Text(None),
    }
}
