//! `gone retry`, `cancel`, `pause`, `resume`: one command for each id.

use chrono::TimeDelta;
use serde::Serialize;

use super::args::{PruneArgs, RetryArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::output::Column;
use super::session::Session;
use super::wait;
use crate::control::{Command, NotEligible, RetryFilter};
use crate::domain::model::{KindName, Site, short_id};

const DONE: &[Column<Done>] = &[
    ("ID", |row, _| match row.id.contains('/') {
        // A site.
        true => row.id.clone(),
        false => short_id(&row.id).to_owned(),
    }),
    ("DID", |row, _| row.did.to_owned()),
    ("STEPS MOVED", |row, _| row.moved.to_string()),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Retry,
    Cancel,
    Pause,
    Resume,
}

impl Act {
    fn verb(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    fn on_deletion(self, deletion_id: String) -> Command {
        match self {
            Self::Retry => Command::Retry { deletion_id },
            Self::Cancel => Command::Cancel { deletion_id },
            Self::Pause => Command::Pause { deletion_id },
            Self::Resume => Command::Resume { deletion_id },
        }
    }

    /// Returns the command for a site. A site is written CLOUD/REGION, which no id is.
    fn on_site(self, word: &str) -> Option<Command> {
        let (cloud, region) = word.split_once('/')?;
        let site = Site::region(cloud, region);
        match self {
            Self::Pause => Some(Command::PauseSite { site }),
            Self::Resume => Some(Command::ResumeSite { site }),
            Self::Retry | Self::Cancel => None,
        }
    }

    /// Whether the action may cause a delete to be sent.
    fn sends(self) -> bool {
        matches!(self, Self::Retry | Self::Resume)
    }
}

#[derive(Serialize)]
struct Done {
    id: String,
    did: &'static str,
    /// Number of steps that it moved.
    moved: u64,
}

pub(super) async fn retry(session: &mut Session<'_>, args: RetryArgs) -> Result<Exit, Failure> {
    if !args.all {
        return run(session, Act::Retry, &args.ids, "").await;
    }
    if !args.dry_run {
        session.refuse_if_read_only(Act::Retry.verb())?;
    }
    let filter = RetryFilter {
        site: args.site,
        kind: args.kind.as_deref().map(KindName::new),
        error_type: args.error_type,
        status: args.status,
        ..RetryFilter::default()
    };
    let dry_run = args.dry_run;
    let command = Command::RetryMatching {
        filter: Box::new(filter),
        dry_run,
    };
    let tried = "retry --all";
    let receipt = session.submit(tried, command, "").await?;
    let retried = receipt
        .into_retried()
        .map_err(|it| Failure::of(tried, it))?;
    if session.print_value(&retried)? {
        return carry_on(session, tried, dry_run).await;
    }
    let left: u64 = retried.not_eligible.iter().map(|it| it.steps).sum();
    let moved = match dry_run {
        true => "nothing done".to_owned(),
        false => format!("{} retried", retried.moved),
    };
    writeln!(
        session.out,
        "{} eligible, {left} not; {moved}",
        retried.eligible
    )?;
    for NotEligible { reason, steps } in &retried.not_eligible {
        let line = format!("  {steps}: {reason}");
        writeln!(session.out, "{}", session.style.safe(&line))?;
    }
    carry_on(session, tried, dry_run).await
}

async fn carry_on(session: &mut Session<'_>, tried: &str, dry_run: bool) -> Result<Exit, Failure> {
    if dry_run {
        return Ok(Exit::Done);
    }
    session.out.flush()?;
    wait::carry_on(session, tried).await
}

#[derive(Serialize)]
struct Pruned {
    /// Number of rows removed from the ledger.
    rows: u64,
}

pub(super) async fn prune(session: &mut Session<'_>, args: &PruneArgs) -> Result<Exit, Failure> {
    let tried = "ledger prune";
    let now = session.clock.now();
    let ago = |age| now.checked_sub_signed(TimeDelta::from_std(age).ok()?);
    let before = match args.older_than.map(ago) {
        Some(None) => {
            let why = "--older-than is longer than any time";
            return Err(Failure::usage(
                tried,
                why,
                "Give a shorter one, such as 90d.",
            ));
        }
        before => before.flatten(),
    };
    let prune = Command::Prune { before };
    let receipt = session.submit(tried, prune, "").await?;
    let rows = receipt.into_moved().map_err(|it| Failure::of(tried, it))?;
    if !session.print_value(&Pruned { rows })? {
        writeln!(session.out, "{rows} rows of the ledger removed")?;
    }
    Ok(Exit::Done)
}

/// Handles every id, even after one that fails; the exit code is that of the worst.
pub(super) async fn run(
    session: &mut Session<'_>,
    act: Act,
    ids: &[String],
    reason: &str,
) -> Result<Exit, Failure> {
    if act.sends() {
        session.refuse_if_read_only(act.verb())?;
    }
    let mut done = Vec::new();
    let mut exits = Vec::new();
    for id in ids {
        match one(session, act, id, reason).await {
            Ok(row) => done.push(row),
            Err(failure) => {
                failure.write(session.err, session.style, session.global.output)?;
                exits.push(failure.exit);
            }
        }
    }
    if exits.is_empty() || !done.is_empty() {
        session.print_rows(DONE, &done)?;
    }
    if act.sends() && !done.is_empty() {
        session.out.flush()?;
        exits.push(wait::carry_on(session, act.verb()).await?);
    }
    Ok(Exit::first_of(exits))
}

/// Acts on a site or a deletion; for a retry also on a step by its number, if no deletion's id ends with it.
async fn one(session: &Session<'_>, act: Act, id: &str, reason: &str) -> Result<Done, Failure> {
    let tried = format!("{} {id}", act.verb());
    if let Some(command) = act.on_site(id) {
        session.submit(&tried, command, reason).await?;
        return Ok(Done {
            id: id.to_owned(),
            did: act.verb(),
            moved: 0,
        });
    }
    let found = session.deletion(&tried, id).await;
    let (id, command) = match (found, id.parse::<i64>()) {
        (Ok(deletion), _) => (deletion.id.clone(), act.on_deletion(deletion.id)),
        (Err(failure), Ok(step_id)) if failure.error == "not_found" && act == Act::Retry => {
            (id.to_owned(), Command::RetryStep { step_id })
        }
        (Err(failure), _) => return Err(failure),
    };
    let receipt = session.submit(&tried, command, reason).await?;
    let moved = receipt.into_moved().map_err(|it| Failure::of(tried, it))?;
    Ok(Done {
        id,
        did: act.verb(),
        moved,
    })
}
