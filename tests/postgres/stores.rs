//! The store on which the tests of a ledger run here.

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
    off_the_runtime(|| {
        let address = pooler::address();
        PostgresLedger::open(&address, None, EngineTerms::default()).unwrap()
    })
    .await
}

/// Where there is no ledger yet.
pub fn place(_: &Folder, _: &str) -> Location {
    Location::Postgres(Box::new(server::shared().address()))
}

/// Does work that blocks on a thread that may.
pub async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}
