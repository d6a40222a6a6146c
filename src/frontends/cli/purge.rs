//! `gone purge`: shows what can be done about stuck steps, and does it (P3).

use std::io;

use clap::Args;
use serde::Serialize;

use super::args::{Format, Why};
use super::output::Printer;
use super::{Exit, Failure, Needs, Session, Verb, wait};
use crate::control::{Command, Purged, Receipt, query};
use crate::domain::ladder::{Ladder, Offer, Rung};
use crate::present::{Sheet, columns, or_empty, purged_words};

/// Show the purge ladder of a stuck deletion or step, or take a rung of it
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
The rungs, from the lowest on: retry, unpin (remove the edges that block it), reset (its state, by
the cloud's own call, then delete it), force (the cloud's own call that removes a resource in spite
of its state), runbook (what to do manually, for this one id), forget (abandon it: what still exists
becomes an orphan).

Examples:
  gone purge 9f86d081                   what is offered, what each does, and why others are not
  gone purge 1742 --rung unpin --confirm 9f86d081
  gone purge 9f86d081 --rung forget --confirm 9f86d081 --reason 'ticket 4711'")]
pub struct Purge {
    /// Ids of deletions, or their last 8 characters; or numbers of steps
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Take this rung: retry, unpin, reset, force, runbook or forget
    #[arg(long, value_name = "NAME", requires = "confirm", value_parser = Rung::parse)]
    pub rung: Option<Rung>,
    /// The deletion's short id, as a confirmation
    #[arg(long, value_name = "SHORT-ID", requires = "rung")]
    pub confirm: Option<String>,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Serialize)]
struct Done {
    id: String,
    #[serde(flatten)]
    purged: Purged,
}

columns! {
    DONE: Done, |row|
    "ID" 9 => row.id;
    "RUNG" 9 => row.purged.rung.as_str();
    "STEPS MOVED" 9 => row.purged.moved;
    "UNPINNED BY" 9 => or_empty(row.purged.deletion_id.as_ref());
    "RUNBOOK" 9 => or_empty(row.purged.runbook.as_ref());

    OFFERS: Offer, |row|
    "RUNG" 9 => row.rung.as_str();
    "OFFERED" 9 => offered(row);
    "DOES" 9 => row.does.join("; ");
    "LEAVES" 9 => row.leaves;
    "WHY NOT" 9 => or_empty(row.why_not.as_ref());
}

impl Verb for Purge {
    fn needs(&self) -> Needs<'_> {
        Needs::reading(self.rung.is_none())
    }

    /// Takes a rung. Without one, shows the offers and sends nothing.
    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let Some(rung) = self.rung else {
            for (at, id) in self.ids.iter().enumerate() {
                if at > 0 {
                    session.out.say("")?;
                }
                session.action_words = format!("show the ladder of {id}");
                show(session, id).await?;
            }
            return Ok(Exit::Done);
        };
        session.action_words = "purge".to_owned();
        session.refuse_if_read_only()?;
        let take = async |session: &mut Session<'_>, id: &str| {
            let command = Command::Purge {
                what: session.deletion_or_step(id).await?,
                rung,
                confirm: self.confirm.clone().unwrap_or_default(),
            };
            let purged = session.submit(command, &self.why.reason, None, Receipt::into_purged);
            let (id, purged) = (id.to_owned(), purged.await?);
            Ok(Done { id, purged })
        };
        let (done, exit) = session.each(&self.ids, take).await?;
        match session.out.format.is_table() {
            _ if done.is_empty() => {}
            true => write_done(&mut session.out, &done)?,
            false => session.out.list(DONE, &done)?,
        }
        wait::carry_on(session, rung.starts_work() && !done.is_empty(), exit).await
    }
}

fn write_done(out: &mut Printer<'_>, done: &[Done]) -> io::Result<()> {
    for Done { id, purged } in done {
        let by = purged.deletion_id.as_deref();
        let words = || purged_words(purged.rung, purged.moved, by, "gone list orphans");
        match &purged.runbook {
            Some(runbook) => runbook.lines().try_for_each(|line| out.say(line))?,
            None => out.say(format!("{id}: {}", words()))?,
        }
    }
    Ok(())
}

async fn show(session: &mut Session<'_>, id: &str) -> Result<(), Failure> {
    let what = session.deletion_or_step(id).await?;
    let ladder = session.ask(query::Ladder { what }).await?;
    Ok(session.out.report(
        &*ladder,
        |out| out.list(OFFERS, &ladder.offers),
        |out| write_ladder(out, id, &ladder),
    )?)
}

fn offered(offer: &Offer) -> &'static str {
    if offer.why_not.is_none() { "yes" } else { "no" }
}

/// Writes, for each rung, a line for each of its actions, or the reason why the rung is not offered; and a line for the
/// resources that it leaves behind. The first line of a rung also has its name.
fn write_ladder(out: &mut Printer<'_>, id: &str, ladder: &Ladder) -> io::Result<()> {
    let (subject, confirm) = (&ladder.subject, &ladder.confirm);
    out.say(format!("{subject}, in deletion {confirm}"))?;
    out.say("")?;
    let mut sheet = Sheet::new([("RUNG", 9), ("OFFERED", 9), ("WHAT IT DOES", 9)]);
    for offer in &ladder.offers {
        let mut lines = match &offer.why_not {
            Some(why) => vec![why.clone()],
            None => offer.does.clone(),
        };
        if !offer.leaves.is_empty() {
            lines.push(format!("leaves: {}", offer.leaves));
        }
        let mut lead = [offer.rung.as_str(), offered(offer)];
        for line in lines {
            sheet.push(lead.map(str::to_owned).into_iter().chain([line]));
            lead = [" ", " "];
        }
    }
    out.formatted(Format::Wide).table(&sheet)?;
    if ladder.offers.iter().any(|offer| offer.why_not.is_none()) {
        let how = format!("gone purge {id} --rung NAME --confirm {confirm}");
        out.title(&format!("Nothing was done. To take a rung: {how}"))?;
    }
    Ok(())
}
