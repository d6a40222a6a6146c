//! `gone ledger prune`: the engine that owns the ledger removes old rows.

use std::time::Duration;

use chrono::TimeDelta;
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
        session.tried = "ledger prune".to_owned();
        let now = session.clock.now();
        let ago = |age| now.checked_sub_signed(TimeDelta::from_std(age).ok()?);
        let before = self.older_than.and_then(ago);
        if before.is_none() && self.older_than.is_some() {
            let why = "--older-than is longer than any time";
            return Err(Failure::wrong(why, "Give a shorter one, such as 90d."));
        }
        let command = Command::Prune { before };
        let rows = session
            .submit(command, "", None, Receipt::into_moved)
            .await?;
        if !session.out.value(&serde_json::json!({ "rows": rows }))? {
            let line = format!("{} of the ledger removed", count(rows, "row"));
            session.out.say(line)?;
        }
        Ok(Exit::Done)
    }
}
