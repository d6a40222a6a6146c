//! `gone show`: the state of a deletion (P2).

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use super::output::Printer;
use super::plan_view::{with_options, write_refusals};
use super::watch::{event_words, step_resources};
use super::{Exit, Failure, Session, Verb, columns};
use crate::control::{SiteProgress, query};
use crate::domain::model::{Deletion, DeletionState, Event, Step, StepState, short_id};
use crate::present::{or_empty, state_words, targets_in_full, time, time_or_empty};

/// Number of events of the timeline that are shown: enough to see what is going on.
const EVENTS_SHOWN: usize = 20;
/// Number of the ledger's newest events that are searched for events of the deletion. If the deletion has none among
/// them, its oldest events are read. Either time, at most [`PAGES_MAX`] pages are read.
const EVENTS_BACK: i64 = 10_000;
const PAGES_MAX: usize = 20;

/// Show one deletion: its counts, its blocked steps and its last events
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone show 9f86d081                    by its short id
  gone show 9f86d081 -o json")]
pub struct Show {
    /// A deletion's id, or its last 8 characters
    pub id: String,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    deletion: &'a Deletion,
    /// The progress at each site.
    sites: Vec<SiteProgress>,
    /// Blocked and stuck steps.
    attention: Vec<Step>,
    /// The last events, oldest first.
    timeline: Vec<Event>,
}

impl Verb for Show {
    const READS: bool = true;

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("show {}", self.id);
        let deletion = session.deletion(&self.id).await?;
        let deletion_id = deletion.id.clone();
        let states = [StepState::Stuck, StepState::Blocked];
        let shown = Shown {
            deletion: &deletion,
            sites: session.ask(query::Progress { deletion_id }).await?,
            attention: session.steps(&deletion.id, &states).await?,
            timeline: timeline(session, &deletion.id).await?,
        };
        let one = std::slice::from_ref(&deletion);
        let resources = step_resources(session, &shown.timeline).await?;
        session.out.report(
            &shown,
            |out| out.rows(&columns::deletions(one), one),
            |out| write_for_people(out, &shown, &resources),
        )?;
        // A script that asks later also learns from the exit code that steps were abandoned.
        Ok(match deletion.state {
            DeletionState::Purged => Exit::Stuck,
            _ => Exit::Done,
        })
    }
}

fn write_for_people(
    out: &mut Printer<'_>,
    shown: &Shown<'_>,
    resources: &BTreeMap<i64, String>,
) -> io::Result<()> {
    let deletion = shown.deletion;
    let (at, by) = (time(deletion.requested_at), &deletion.requested_by.name);
    let cascade = match deletion.options.cascade {
        true => "yes",
        false => "no",
    };
    let plan = deletion.plan_hash.as_deref().map(short_id);
    let fields = [
        ("id", deletion.id.clone()),
        ("targets", targets_in_full(&deletion.targets)),
        ("state", state_words(deletion)),
        ("note", with_options(&deletion.note)),
        ("requested", format!("{at} by {by}")),
        ("reason", deletion.reason.clone()),
        ("cause", or_empty(deletion.cause.as_ref())),
        ("plan", or_empty(plan)),
        ("cascade", cascade.to_owned()),
        ("finished", time_or_empty(deletion.finished_at)),
    ];
    for (label, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        out.say(format!("{label:<10} {value}"))?;
    }
    write_refusals(out, &deletion.refused)?;
    if shown.sites.len() > 1 {
        out.title("At each site")?;
        out.list(columns::PROGRESS, &shown.sites)?;
    }
    if !shown.attention.is_empty() {
        out.title("Blocked or stuck")?;
        out.list(columns::WAITING_STEPS, &shown.attention)?;
    }
    let events = shown.timeline.iter();
    let events = events.map(|event| {
        let words = event_words(event, resources);
        format!("{}  {words}", time(event.at))
    });
    out.section("Last events", events)
}

/// Returns the last events of a deletion. The timeline comes oldest first, in pages; a large deletion has
/// more of them than anyone can wait for.
async fn timeline(session: &Session<'_>, deletion_id: &str) -> Result<Vec<Event>, Failure> {
    let newest = session.control.snapshot().borrow().last_event;
    let mut last: Vec<Event> = Vec::new();
    for after in [(newest - EVENTS_BACK).max(0), 0] {
        let pages = session.control.timeline(deletion_id, after);
        let mut pages = pin!(pages.take(PAGES_MAX));
        while let Some(events) = session.or_interrupted("", pages.try_next()).await?? {
            last.extend(events);
            last.drain(..last.len().saturating_sub(EVENTS_SHOWN));
        }
        if !last.is_empty() {
            break;
        }
    }
    Ok(last)
}
