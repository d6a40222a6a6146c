//! `gone ledger prune`: the engine that owns the ledger removes old rows.

use std::time::Duration;

use clap::Args;

use super::{Exit, Failure, Session, Verb};
use crate::control::{Command, Receipt};
use crate::domain::duration;
use crate::present::count;

/// Remove old events and ended deletions, as the engine does every hour
#[derive(Clone, Debug, Args)]
pub struct Prune {
    /// Remove what is older than this [default: ledger.retention of the settings]
    ///
    /// Tombstones in their hold-down stay.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}

impl Verb for Prune {
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = "ledger prune".to_owned();
        let before = self.older_than.map(|age| session.clock.now() - age);
        let command = Command::Prune { before };
        let rows = session.submit(command, "", None, Receipt::into_moved);
        let rows = rows.await?;
        if !session.out.value(&serde_json::json!({ "rows": rows }))? {
            let line = format!("{} of the ledger removed", count(rows, "row"));
            session.out.say(line)?;
        }
        Ok(Exit::Done)
    }
}
