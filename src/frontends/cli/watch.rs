//! `gone watch`: prints events as they happen, one per line; for one deletion until it has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::TryStreamExt as _;
use tokio::time::Instant;

use super::args::Format;
use super::wait::{self, ENGINE_AWAY_MAX, Verdict};
use super::{Exit, Failure, Session, Verb};
use crate::control::{ControlError, query};
use crate::domain::model::{Event, StepResource, short_id};
use crate::present::{resource_words, state_words, time};

/// Longest wait for events in one request. An engine that ends is noticed at the end of that wait at the latest.
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
        // The newest event's number is read before the deletion, so that no event is missed in between.
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
                    // The deletion may have ended after its events were last read.
                    let control = session.control.clone();
                    let mut pages = pin!(control.timeline(id, after));
                    while let Some(events) = session.or_interrupted("", pages.try_next()).await?? {
                        write_events(session, &events).await?;
                    }
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

async fn write_events(session: &mut Session<'_>, events: &[Event]) -> Result<(), Failure> {
    // While the engine restarts, events are shown without their resources.
    let resources = match step_resources(session, events).await {
        Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
        read => read.unwrap_or_default(),
    };
    for event in events {
        if !session.out.format.is_table() {
            session.out.json(event, false)?;
            continue;
        }
        let id = event.deletion_id.as_deref().map_or("-", short_id);
        let words = event_words(event, &resources);
        let line = format!("{}  {id:8}  {words}", time(event.at));
        session.out.say(line)?;
    }
    Ok(session.out.stream.flush()?)
}

/// Returns the resources of the steps of these events, by the step's number, for a table; other formats need none. A
/// step that was pruned is left out.
pub(super) async fn step_resources(
    session: &Session<'_>,
    events: &[Event],
) -> Result<BTreeMap<i64, String>, Failure> {
    let shown = events.iter().filter(|_| session.out.format.is_table());
    let steps: BTreeSet<i64> = shown.filter_map(|event| event.step_id).collect();
    let mut resources = BTreeMap::new();
    for id in steps {
        let step = session.control.find(query::Step { id });
        if let Some(step) = session.or_interrupted("", step).await?? {
            let StepResource { key, name } = &step.resource;
            resources.insert(id, resource_words(&key.kind, name, &key.id));
        }
    }
    Ok(resources)
}

/// Returns an event in words, with the resource of its step: `port web-12: DELETE /v2.0/ports/3f1c 204`. Most
/// events themselves have only the step's number.
pub(super) fn event_words(event: &Event, resources: &BTreeMap<i64, String>) -> String {
    let resource = event.step_id.and_then(|id| resources.get(&id));
    // Some events name their resource themselves.
    let resource = resource.filter(|resource| !event.message.contains(resource.as_str()));
    let resource = resource.map_or_else(String::new, |resource| format!("{resource}: "));
    format!("{resource}{}", event.message)
}
