//! The tables of a ledger as data, and their rows, for copies from one store to another.
//!
//! A store with SQL has these tables under these names. Besides, each store has its own way to give numbers
//! ([`LastNumbers`]) and to keep the version of its tables, and a ledger in a file has the seal of its audit.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use crate::domain::text::inert_json;
use crate::ledger::LedgerError;

/// The version of the tables of an unfinished copy: newer than any other version, so that older programs refuse the
/// copy, too.
pub const UNFINISHED: i64 = 1_000_000;

/// Number of rows of a table that are read or written together. It is smaller for tables with large rows.
const BATCH: usize = 1_000;
const BATCH_OF_DOCUMENTS: usize = 10;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Also a time, as microseconds since 1970.
    Number,
    /// A truth value; as a [`Cell`] the number 0 or 1.
    Flag,
    Text,
    /// A text of possibly several megabytes, such as a plan.
    Document,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [(&'static str, ColumnType)],
    /// The columns that identify a row, and by which rows are ordered.
    pub key: &'static [&'static str],
}

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident by $($key:ident)+ { $($column:ident: $is:ident,)+ })*) => {
        /// All tables, in the order in which they are copied.
        pub const TABLES: &[Table] = &[$(Table {
            name: stringify!($name),
            columns: &[$((stringify!($column), ColumnType::$is)),+],
            key: &[$(stringify!($key)),+],
        }),*];
    };
}

tables! {
    identity by id { id: Text, }
    engines by epoch { epoch: Number, pid: Number, }
    counters by name { name: Text, n: Number, }
    deletions by num {
        num: Number, id: Text, state: Text, cancelled: Flag, paused: Flag, stops: Flag,
        waiting: Number, ready: Number, running: Number, verifying: Number, blocked: Number,
        stuck: Number, gone: Number, skipped: Number, purged: Number, total: Number,
        requested_at: Number, finished_at: Number, woken_at: Number, moved_at: Number,
        pace_at: Number, pace_done: Number, pace_mid_at: Number, pace_mid_done: Number,
        note: Text,
    }
    requests by num {
        num: Number, targets: Document, copies: Text, options: Text, plan_hash: Text, actor: Text,
        reason: Text, cause: Text, root: Text, deadline: Number, refused: Document,
        frozen: Document,
    }
    steps by id {
        id: Number, deletion: Number, state: Text, claim: Number, epoch: Number, waits: Number,
        rank: Number, since: Number, attempts: Number, max_attempts: Number,
        next_attempt_at: Number, own_attempt_at: Number, blocked_since: Number, looks: Number,
        sent: Flag, told: Flag, held_by: Number, left_to: Number, ended_at: Number,
        record: Number, position: Number, branch: Number, site: Text, kind: Text, resource: Text,
        action: Text, name: Text, project: Text, vars: Text, blockers: Text, last_error: Text,
        why: Text, fingerprint: Text,
    }
    edges by dependency dependent { dependency: Number, dependent: Number, }
    branches by id {
        id: Number, deletion: Number, below: Number, site: Text, kind: Text, action: Text,
        leaf: Flag,
    }
    tombstones by record_id {
        record_id: Number, site: Text, kind: Text, id: Text, phase: Text, deleted_at: Number,
        gone_at: Number, incarnation: Number, recreated: Number, deletion: Number,
        copies_at: Text,
    }
    snapshots by record { record: Number, shown: Text, }
    namesakes by record { record: Number, site: Text, kind: Text, name: Text, project: Text, }
    parts by id kind site { site: Text, kind: Text, id: Text, record: Number, }
    plans by hash { hash: Text, body: Document, saved_at: Number, }
    idempotency by actor key {
        actor: Text, key: Text, body: Text, deletion: Text, answer: Text, at: Number,
    }
    events by seq {
        seq: Number, at: Number, deletion: Number, step: Number, kind: Text, message: Text,
        data: Text,
    }
    audit by seq {
        seq: Number, at: Number, actor: Text, action: Text, target: Text, reason: Text,
        detail: Text, hash: Text,
    }
    told by channel { channel: Text, mark: Text, }
    sites by site { site: Text, state: Text, }
    site_pauses by site { site: Text, actor: Text, reason: Text, at: Number, }
    native by num {
        num: Number, site: Text, kind: Text, id: Text, incarnation: Number, name: Text,
        fields: Text, created_at: Number, updated_at: Number,
    }
    native_references by num field id kind site {
        num: Number, field: Text, id: Text, kind: Text, site: Text,
    }
    importers by name { name: Text, service: Text, region: Text, since: Number, }
    awaited by importer step { importer: Text, step: Number, said: Text, }
    peer_changes by seq { seq: Number, record: Number, }
    watches by service region { service: Text, region: Text, name: Text, ledger: Text, seq: Number, }
    foreign_going by num {
        num: Number, owner: Text, site: Text, kind: Text, id: Text, phase: Text,
        incarnation: Number, deletion: Text, root: Text, handled_by: Number, gone_at: Number,
    }
    // Last, because a store writes a notice for each inserted tombstone whose kind has an importer.
    importer_kinds by kind importer { kind: Text, importer: Text, }
}

impl Table {
    pub fn batch(&self) -> usize {
        let is_document = |(_, is): &(&str, ColumnType)| *is == ColumnType::Document;
        match self.columns.iter().any(is_document) {
            true => BATCH_OF_DOCUMENTS,
            false => BATCH,
        }
    }

    /// The names of the table's columns, as SQL: `"dependency", "dependent"`.
    pub fn columns(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }

    /// A statement that returns all rows in the order of the key. `bytewise`: the SQL by which a store orders a text by
    /// its bytes, so that the order is the same in every store.
    pub fn select(&self, bytewise: &str) -> String {
        let order = self.key.iter().map(|name| {
            let is_number = self.columns.contains(&(name, ColumnType::Number));
            let bytewise = if is_number { "" } else { bytewise };
            format!("\"{name}\"{bytewise}")
        });
        let order = order.collect::<Vec<_>>().join(", ");
        format!(
            "SELECT {} FROM \"{}\" ORDER BY {order}",
            self.columns(),
            self.name
        )
    }
}

/// The value of a row in one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    Null,
    Number(i64),
    Text(String),
}

/// A row, in the order of the table's columns.
pub type Row = Vec<Cell>;

/// The last numbers that were given, even to rows that were removed, by names that are the same in every store.
pub type LastNumbers = BTreeMap<String, i64>;

/// The ledger and the epoch from which a copy is made. Every engine that opens a ledger for writing begins a new epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The ledger's own id.
    pub ledger: String,
    pub epoch: i64,
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ledger, self.epoch)
    }
}

/// A ledger whose tables are read, as of one moment.
pub trait TableReads {
    fn origin(&self) -> Result<Origin, LedgerError>;

    fn count_rows(&self, table: &Table) -> Result<u64, LedgerError>;

    /// Passes the rows to `visit` in the order of their key, without the first `skipped`, at most [`Table::batch`] at a
    /// time.
    fn each_batch(
        &self,
        table: &Table,
        skipped: u64,
        visit: &mut dyn FnMut(Vec<Row>) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError>;

    fn last_numbers(&self) -> Result<LastNumbers, LedgerError>;
}

/// An unfinished copy of a ledger, which no engine opens. The copy is filled in the order of the tables and of their
/// rows: the rows that it has are always the first ones of the ledger.
pub trait TableWrites: TableReads {
    /// Returns the origin of the copy; none if nothing was copied yet.
    fn copy_of(&self) -> Result<Option<Origin>, LedgerError>;

    /// Removes all rows, and notes the origin of the rows that are inserted from now on.
    fn begin(&self, origin: &Origin) -> Result<(), LedgerError>;

    /// Inserts rows, all of them or none. They are durable once this returns.
    fn insert(&self, table: &Table, rows: &[Row]) -> Result<(), LedgerError>;

    /// Makes the copy a whole ledger, whose next rows get higher numbers than these.
    fn finish(&mut self, numbers: &LastNumbers) -> Result<(), LedgerError>;
}

/// Writes a row as a line of JSON: `{"table": "edges", "dependency": 1, "dependent": 2}`.
///
/// # Errors
/// The output cannot be written.
pub fn export_row(
    out: &mut dyn Write,
    table: &str,
    cells: Vec<(String, Value)>,
) -> Result<(), LedgerError> {
    let table = [("table".to_owned(), Value::from(table))];
    let line = Value::from_iter(table.into_iter().chain(cells)).to_string();
    writeln!(out, "{}", inert_json(&line, false)).map_err(|error| LedgerError::Output {
        detail: error.to_string(),
    })
}
