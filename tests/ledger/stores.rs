//! The stores on which the tests of a ledger run, except for the tests of files.

use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{Ledger, Location};

use crate::memory::MemoryLedger;
use crate::support::Folder;

/// A SQLite ledger in memory, without a thread of its own.
fn sqlite() -> InlineLedger {
    InlineLedger::new(Store::in_memory(Options::default()).unwrap())
}

/// Runs a test on a new ledger in SQLite, and on one in memory; `tests/postgres` runs it on PostgreSQL.
pub async fn on_each_store(test: impl AsyncFn(&dyn Ledger)) {
    let stores: [(&str, Box<dyn Ledger>); 2] = [
        ("SQLite", Box::new(sqlite())),
        ("memory", Box::new(MemoryLedger::default())),
    ];
    for (name, ledger) in &stores {
        let _named = NamedIfFailing(name);
        test(&**ledger).await;
    }
}

/// A location at which there is no ledger yet.
pub fn new_location(folder: &Folder, name: &str) -> Location {
    Location::File(folder.path(name))
}

/// Prints the name of the store on which a test fails.
struct NamedIfFailing<'n>(&'n str);

impl Drop for NamedIfFailing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on the store: {}", self.0);
        }
    }
}
