//! `gone purge`: shows what can be done about stuck steps, and does it (P3).

use serde::Serialize;

use super::args::{Format, PurgeArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::output::Column;
use super::session::Session;
use super::wait;
use crate::control::{Command, query};
use crate::domain::ladder::{Ladder, Offer, PurgeScope, Rung};
use crate::present::purged_words;

#[derive(Serialize)]
struct Done {
    id: String,
    rung: Rung,
    /// Number of steps that it retried or abandoned.
    moved: u64,
    /// Id of the deletion that removes what pins the resource.
    unpinned_by: Option<String>,
    runbook: Option<String>,
}

const DONE: &[Column<Done>] = &[
    ("ID", |row, _| row.id.clone()),
    ("RUNG", |row, _| row.rung.as_str().to_owned()),
    ("STEPS MOVED", |row, _| row.moved.to_string()),
    ("UNPINNED BY", |row, _| {
        row.unpinned_by.clone().unwrap_or_default()
    }),
    ("RUNBOOK", |row, _| row.runbook.clone().unwrap_or_default()),
];

const OFFERS: &[Column<Offer>] = &[
    ("RUNG", |row, _| row.rung.as_str().to_owned()),
    ("OFFERED", |row, _| offered(row).to_owned()),
    ("DOES", |row, _| row.does.join("; ")),
    ("LEAVES", |row, _| row.leaves.clone()),
    ("WHY NOT", |row, _| row.why_not.clone().unwrap_or_default()),
];

/// Takes a rung; without one it shows the offers, and sends nothing.
pub(super) async fn run(session: &mut Session<'_>, args: PurgeArgs) -> Result<Exit, Failure> {
    let Some(rung) = args.rung else {
        for (at, id) in args.ids.iter().enumerate() {
            if at > 0 {
                writeln!(session.out)?;
            }
            show(session, id).await?;
        }
        return Ok(Exit::Done);
    };
    session.refuse_if_read_only("purge")?;
    let mut done = Vec::new();
    let mut exits = Vec::new();
    for id in &args.ids {
        match take(session, id, rung, &args).await {
            Ok(row) => done.push(row),
            Err(failure) => {
                failure.write(session.err, session.style, session.global.output)?;
                exits.push(failure.exit);
            }
        }
    }
    if session.global.output == Format::Table {
        write_done(session, &done)?;
    } else if exits.is_empty() || !done.is_empty() {
        session.print_rows(DONE, &done)?;
    }
    if rung.starts_work() && !done.is_empty() {
        session.out.flush()?;
        exits.push(wait::carry_on(session, "purge").await?);
    }
    Ok(Exit::first_of(exits))
}

/// Resolves the id of a deletion, or the number of a step if no deletion's id ends with it.
async fn what(session: &Session<'_>, tried: &str, id: &str) -> Result<PurgeScope, Failure> {
    match (session.deletion(tried, id).await, id.parse::<i64>()) {
        (Ok(deletion), _) => Ok(PurgeScope::Deletion(deletion.id)),
        (Err(failure), Ok(step)) if failure.error == "not_found" => Ok(PurgeScope::Step(step)),
        (Err(failure), _) => Err(failure),
    }
}

async fn take(
    session: &Session<'_>,
    id: &str,
    rung: Rung,
    args: &PurgeArgs,
) -> Result<Done, Failure> {
    let tried = format!("purge {id}");
    let command = Command::Purge {
        what: what(session, &tried, id).await?,
        rung,
        confirm: args.confirm.clone().unwrap_or_default(),
    };
    let receipt = session.submit(&tried, command, &args.why.reason).await?;
    let purged = receipt.into_purged();
    let purged = purged.map_err(|it| Failure::of(tried, it))?;
    Ok(Done {
        id: id.to_owned(),
        rung: purged.rung,
        moved: purged.moved,
        unpinned_by: purged.deletion_id,
        runbook: purged.runbook,
    })
}

fn write_done(session: &mut Session<'_>, done: &[Done]) -> Result<(), Failure> {
    for row in done {
        if let Some(runbook) = &row.runbook {
            for line in runbook.lines() {
                writeln!(session.out, "{}", session.style.safe(line))?;
            }
            continue;
        }
        let orphans = "gone list orphans";
        let words = purged_words(row.rung, row.moved, row.unpinned_by.as_deref(), orphans);
        let line = format!("{}: {words}", row.id);
        writeln!(session.out, "{}", session.style.safe(&line))?;
    }
    Ok(())
}

async fn show(session: &mut Session<'_>, id: &str) -> Result<(), Failure> {
    let tried = format!("show the ladder of {id}");
    let what = what(session, &tried, id).await?;
    let ladder = session.ask(&tried, query::Ladder { what }).await?;
    if session.print_value(&*ladder)? {
        return Ok(());
    }
    if session.global.output == Format::Csv {
        return session.print_rows(OFFERS, &ladder.offers);
    }
    write_ladder(session, id, &ladder)
}

fn offered(offer: &Offer) -> &'static str {
    if offer.why_not.is_none() { "yes" } else { "no" }
}

fn write_ladder(session: &mut Session<'_>, id: &str, ladder: &Ladder) -> Result<(), Failure> {
    let style = session.style;
    let head = format!("{}, in deletion {}", ladder.subject, ladder.confirm);
    writeln!(session.out, "{}\n", style.safe(&head))?;
    writeln!(session.out, "RUNG     OFFERED  WHAT IT DOES")?;
    for offer in &ladder.offers {
        let mut lines = match &offer.why_not {
            Some(why) => vec![why.clone()],
            None => offer.does.clone(),
        };
        if !offer.leaves.is_empty() {
            lines.push(format!("leaves: {}", offer.leaves));
        }
        let mut lead = format!("{:<7}  {:<7}  ", offer.rung.as_str(), offered(offer));
        for line in lines {
            writeln!(session.out, "{lead}{}", style.safe(&line))?;
            lead = " ".repeat(18);
        }
    }
    if ladder.offers.iter().any(|offer| offer.why_not.is_none()) {
        let confirm = &ladder.confirm;
        writeln!(
            session.out,
            "\nNothing was done. To take one: gone purge {} --rung NAME --confirm {confirm}",
            style.safe(id)
        )?;
    }
    Ok(())
}
