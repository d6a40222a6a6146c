//! `gone drift`: accepts or refuses the resources that appeared after a deletion's plan (P11).

use clap::{ArgGroup, Args};
use serde::Serialize;

use super::args::Why;
use super::{Exit, Failure, Session, Verb, wait};
use crate::control::Command;
use crate::domain::model::{Deletion, short_id};
use crate::present::state_words;

/// Accept or refuse the resources that appeared after a deletion's plan
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
A deletion with --drift ask is stuck when resources appear after its plan: `gone show ID` names them.
--accept deletes them too, under the guards of every deletion. --refuse leaves them, ends the
deletion, and says which resources stay because of them.

Examples:
  gone drift 9f86d081 --accept --reason 'ticket 4711'
  gone drift 9f86d081 --refuse")]
#[command(group = ArgGroup::new("answer").required(true).args(["accept", "refuse"]))]
pub struct Drift {
    /// A deletion's id, or its last 8 characters
    pub id: String,
    /// Delete the newcomers too
    #[arg(long)]
    pub accept: bool,
    /// Leave the newcomers, and end the deletion
    #[arg(long)]
    pub refuse: bool,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Serialize)]
struct Answered<'a> {
    #[serde(flatten)]
    deletion: &'a Deletion,
    /// `accepted` or `refused`.
    drift: &'static str,
}

impl Verb for Drift {
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("answer the drift of {}", self.id);
        session.refuse_if_read_only()?;
        let deletion_id = session.deletion(&self.id).await?.id;
        let id = deletion_id.clone();
        let accept = self.accept;
        let command = Command::Drift {
            deletion_id,
            accept,
        };
        session.submit(command, &self.why.reason, None, Ok).await?;
        // If the engine ends with this call, nobody would continue the deletion.
        let (deletion, exit) = match session.embedded {
            true => wait::follow(session, &id, None).await?,
            false => (session.deletion(&id).await?, Exit::Done),
        };
        let drift = if accept { "accepted" } else { "refused" };
        let deletion = &deletion;
        if !session.out.value(&Answered { deletion, drift })? {
            let (id, state) = (short_id(&id), state_words(deletion));
            let line = format!("Drift of deletion {id} {drift}: {state}");
            session.out.say(line)?;
            if !deletion.note.is_empty() {
                session.out.say(&deletion.note)?;
            }
        }
        Ok(exit)
    }
}
