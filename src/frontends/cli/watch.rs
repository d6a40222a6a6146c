//! `gone watch`: prints events as they happen, one per line; for one deletion until it has ended.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::TryStreamExt as _;
use tokio::time::Instant;

use super::args::Format;
use super::output::Printer;
use super::wait::{self, ENGINE_AWAY_MAX, Verdict};
use super::{Exit, Failure, Needs, Session, Verb, event_words};
use crate::control::ControlError;
use crate::domain::model::{Event, short_id};
use crate::frontends::report;
use crate::present::{state_words, time};

/// Longest wait for events in one request; an engine that has gone away is noticed as often.
const EVENTS_WAIT_MS: u64 = 5_000;
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Show events as they happen, of all deletions or of one until it ends
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone watch                            all that happens, until ctrl-c
  gone watch 9f86d081                   one deletion, with its exit code
  gone watch -o jsonl | jq .message")]
pub struct Watch {
    /// A deletion's id, or its last 8 characters; without one, all
    pub id: Option<String>,
}

impl Verb for Watch {
    const READS: bool = true;

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let id = self.id.as_deref().unwrap_or("all deletions");
        session.action_words = format!("watch {id}");
        let format = session.out.format;
        if !format.is_table() && !matches!(format, Format::Json | Format::Jsonl) {
            let why = "events come one after the other, and this format needs all rows at once";
            let advice = "Use -o table, or jsonl for a line of JSON each.";
            return Err(Failure::wrong(why, advice));
        }
        // This is read before the deletion, so that no event is missed in between.
        let mut after = session.control.snapshot().borrow().last_event;
        let mut watched = None;
        if let Some(id) = &self.id {
            let deletion = session.deletion(id).await?;
            if format.is_table() {
                let id = short_id(&deletion.id);
                let line = format!("{id}  {}", state_words(&deletion));
                session.out.say(line)?;
                session.out.stream.flush()?;
            }
            watched = Some(deletion.id);
        }
        let mut answered = Instant::now();
        loop {
            if let Some(id) = &watched {
                let now = wait::read_deletion(session, id).await?;
                if now.state.is_terminal() {
                    write_last_events(session, id, after).await?;
                    return wait::exit_of(session, &now, Verdict::Ended, None).await;
                }
            }
            let events = session.control.events(after, EVENTS_WAIT_MS);
            let Ok(events) = session.or_interrupted("", events).await else {
                return Ok(Exit::Interrupted);
            };
            match events {
                Ok(events) => {
                    answered = Instant::now();
                    after = events.last().map_or(after, |event| event.seq);
                    let is_watched =
                        |event: &Event| watched.is_none() || event.deletion_id == watched;
                    let events: Vec<Event> = events.into_iter().filter(is_watched).collect();
                    write_events(session, &events).await?;
                }
                Err(ControlError::Expired { oldest, message }) => {
                    after = oldest - 1;
                    session.err.say(message)?;
                }
                // The engine answers again after a restart, or once a headless engine replaces the one in a console.
                Err(ControlError::Unreachable { .. }) if answered.elapsed() < ENGINE_AWAY_MAX => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Writes the events of an ended deletion that come after this one: it may have ended after they were last read.
async fn write_last_events(
    session: &mut Session<'_>,
    deletion_id: &str,
    after: i64,
) -> Result<(), Failure> {
    let control = session.control.clone();
    let mut pages = pin!(report::timeline(&*control, deletion_id, after));
    while let Some(events) = session.or_interrupted("", pages.try_next()).await?? {
        write_events(session, &events).await?;
    }
    Ok(())
}

async fn write_events(session: &mut Session<'_>, events: &[Event]) -> Result<(), Failure> {
    let resources = match session.out.format.is_table() {
        // While the engine restarts, events are shown without them.
        true => event_words::resources(session, events)
            .await?
            .unwrap_or_default(),
        false => BTreeMap::new(),
    };
    for event in events {
        write_event(&mut session.out, event, &resources)?;
    }
    Ok(session.out.stream.flush()?)
}

fn write_event(
    out: &mut Printer<'_>,
    event: &Event,
    resources: &BTreeMap<i64, String>,
) -> io::Result<()> {
    if !out.format.is_table() {
        return out.json(event, false);
    }
    let id = event.deletion_id.as_deref().map_or("-", short_id);
    let words = event_words::event_words(event, resources);
    out.say(format!("{}  {id:8}  {words}", time(event.at)))
}
