//! The store on which the tests of a ledger run in this target: PostgreSQL.

use gone::ledger::postgres::PostgresLedger;
use gone::ledger::{EngineTerms, Ledger, Location};

use crate::support::Folder;
use crate::{pooler, server};

/// Runs a test on a new ledger, which has a schema of its own.
pub async fn on_each_store(test: impl AsyncFn(&dyn Ledger)) {
    let ledger = open().await;
    test(&ledger).await;
    ledger.close().await;
}

/// A new ledger.
pub async fn open() -> PostgresLedger {
    run_blocking(|| {
        let address = pooler::address();
        PostgresLedger::open(&address, None, EngineTerms::default()).unwrap()
    })
    .await
}

/// A location at which there is no ledger yet.
pub fn new_location(_: &Folder, _: &str) -> Location {
    Location::Postgres(Box::new(server::shared().address()))
}

/// Runs blocking work, on a thread that may block.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}
