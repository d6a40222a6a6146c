//! `gone report`: what was asked for, by whom, and what became of each resource: as text, or as one web page that can
//! be attached to a ticket.

use std::io;
use std::path::PathBuf;

use clap::Args;

use super::output::Printer;
use super::{Exit, Failure, Session, Verb, columns};
use crate::control::query;
use crate::domain::model::Deletion;
use crate::domain::report::Line;
use crate::frontends::report;
use crate::system::private;

/// Report a deletion: what was requested, what is gone, and what stays and why
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
The web page is one file that needs no other: its chart is in it, and it has no script. It prints on A4.

Examples:
  gone report 9f86d081
  gone report 9f86d081 --html report.html     to attach to a ticket
  gone report 9f86d081 --html - | mail ...
  gone report 9f86d081 -o json                one line for each resource, as the API reports")]
pub struct Report {
    /// A deletion's id, or its last 8 characters
    pub id: String,
    /// Write a web page to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Verb for Report {
    const READS: bool = true;

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("report {}", self.id);
        let deletion = session.deletion(&self.id).await?;
        if self.html.is_none() && !session.out.format.is_table() {
            write_for_programs(session, &deletion).await?;
            return Ok(Exit::Done);
        }
        let gathered = report::gather(&*session.control, &deletion, session.clock.now());
        let content = session.or_interrupted("", gathered).await??;
        match self.html {
            None => write_for_people(&mut session.out, &content)?,
            Some(path) if path.as_os_str() == "-" => {
                let page = report::page(&content);
                session.out.stream.write_all(page.as_bytes())?;
            }
            Some(path) => {
                let page = report::page(&content);
                let (shown, advice) = (path.display(), "Choose another file or folder.");
                let action_words = format!("write the report to {shown}");
                private::replace(&path, page.as_bytes())
                    .map_err(Failure::usage_of(action_words, advice))?;
                session.err.say(format!("The report is in {shown}"))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Writes one line for each resource; in CSV, only for those with a step.
async fn write_for_programs(session: &mut Session<'_>, deletion: &Deletion) -> Result<(), Failure> {
    let frozen = session.control.find(query::FrozenPlan::of(&deletion.id));
    let plan = session.or_interrupted("", frozen).await??;
    let steps = session.steps(&deletion.id, &[]).await?;
    let mut data = Line::without_a_step(deletion, plan.as_deref());
    data.extend(steps.iter().map(Line::of));
    let csv = |out: &mut Printer<'_>| out.list(columns::RESULTS, &steps);
    Ok(session
        .out
        .report(&serde_json::json!({ "data": data }), csv, |_| Ok(()))?)
}

fn write_for_people(out: &mut Printer<'_>, report: &report::Report) -> io::Result<()> {
    out.say(&report.title)?;
    out.say(&report.outcome)?;
    out.say("")?;
    for (label, value) in &report.facts {
        out.say(format!("{label:<14} {value}"))?;
    }
    for section in &report.sections {
        out.title(section.title)?;
        out.say(section.about)?;
        out.table(&section.sheet)?;
        if let Some(more) = section.more() {
            out.say(more)?;
        }
    }
    Ok(())
}
