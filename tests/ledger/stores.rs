//! The stores on which each test of a ledger runs that is not about files.

use gone::ledger::sqlite::{InlineLedger, Options, Store};
use gone::ledger::{Ledger, Location};

use crate::memory::MemoryLedger;
use crate::support::Folder;

/// A ledger of the SQLite store without a file, driven inline.
fn sqlite() -> InlineLedger {
    InlineLedger::new(Store::in_memory(Options::default()).unwrap())
}

/// Runs a test on a new ledger of each store.
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

/// Where there is no ledger yet.
pub fn place(folder: &Folder, name: &str) -> Location {
    Location::File(folder.path(name))
}

/// Says on which store a test fails.
struct NamedIfFailing<'n>(&'n str);

impl Drop for NamedIfFailing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on the store: {}", self.0);
        }
    }
}
