//! `gone drift`: accepts or refuses the resources that appeared after a deletion's plan (P11).

use serde::Serialize;

use super::args::DriftArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::session::Session;
use super::wait;
use crate::control::Command;
use crate::domain::model::{Deletion, short_id};

#[derive(Serialize)]
struct Answered<'a> {
    #[serde(flatten)]
    deletion: &'a Deletion,
    /// `accepted` or `refused`.
    drift: &'static str,
}

pub(super) async fn run(session: &mut Session<'_>, args: DriftArgs) -> Result<Exit, Failure> {
    let accept = args.answer.accept;
    let word = if accept { "accepted" } else { "refused" };
    let tried = format!("answer the drift of {}", args.id);
    session.refuse_if_read_only(&tried)?;
    let deletion_id = session.deletion(&tried, &args.id).await?.id;
    let command = Command::Drift {
        deletion_id: deletion_id.clone(),
        accept,
    };
    session.submit(&tried, command, &args.why.reason).await?;
    // If the engine ends with this call, nobody would continue the deletion.
    let (deletion, exit) = match session.embedded {
        true => {
            let ended = wait::follow(session, &deletion_id, None).await?;
            (ended.deletion, ended.exit)
        }
        false => (session.deletion(&tried, &deletion_id).await?, Exit::Done),
    };
    if session.print_value(&Answered {
        deletion: &deletion,
        drift: word,
    })? {
        return Ok(exit);
    }
    let line = format!(
        "Drift of deletion {} {word}: {}",
        short_id(&deletion.id),
        wait::line(&deletion, None, None)
    );
    writeln!(session.out, "{}", session.style.safe(&line))?;
    if !deletion.note.is_empty() {
        writeln!(session.out, "{}", session.style.safe(&deletion.note))?;
    }
    Ok(exit)
}
