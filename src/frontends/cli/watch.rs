//! `gone watch`: prints events as they happen, one per line; for one deletion until it has ended.

use std::time::Duration;

use tokio::time::Instant;

use super::args::{Format, WatchArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::output::write_json;
use super::session::Session;
use super::wait::{self, ENGINE_AWAY_MAX};
use crate::control::ControlError;
use crate::domain::model::{Deletion, Event, short_id};
use crate::present::time;

/// Longest wait for events in one request; an engine that has gone away is noticed as often.
const EVENTS_WAIT_MS: u64 = 5_000;
const AGAIN_AFTER: Duration = Duration::from_millis(250);

pub(super) async fn run(session: &mut Session<'_>, args: WatchArgs) -> Result<Exit, Failure> {
    let tried = match &args.id {
        Some(id) => format!("watch {id}"),
        None => "watch".to_owned(),
    };
    if !matches!(
        session.global.output,
        Format::Table | Format::Json | Format::Jsonl
    ) {
        let advice = "Use -o table, or jsonl for a line of JSON each.";
        return Err(Failure::usage(
            tried,
            "what happens is no table with an end",
            advice,
        ));
    }
    // This is read before the deletion, so that no event is missed in between.
    let mut after = session.control.snapshot().borrow().last_event;
    let watched = match &args.id {
        Some(id) => Some(session.deletion(&tried, id).await?),
        None => None,
    };
    if let Some(deletion) = &watched {
        say_where_it_stands(session, deletion)?;
    }
    let mut answered = Instant::now();
    loop {
        if let Some(deletion) = &watched {
            let now = wait::look(session, &tried, &deletion.id).await?;
            if now.state.is_terminal() {
                return wait::exit_of_settled(session, &tried, &now).await;
            }
        }
        let interrupt = session.interrupt.clone();
        let events = tokio::select! {
            biased;
            () = interrupt.cancelled() => return Ok(Exit::Interrupted),
            events = session.control.events(after, EVENTS_WAIT_MS) => events,
        };
        match events {
            Ok(events) => {
                answered = Instant::now();
                after = events.last().map_or(after, |event| event.seq);
                let of = watched.as_ref().map(|deletion| deletion.id.as_str());
                for event in &events {
                    if of.is_none() || event.deletion_id.as_deref() == of {
                        write_event(session, event)?;
                    }
                }
                session.out.flush()?;
            }
            Err(ControlError::Expired { oldest, message }) => {
                after = oldest - 1;
                writeln!(session.err, "{message}")?;
            }
            // An engine that restarts or is handed over comes back.
            Err(ControlError::Unreachable { .. }) if answered.elapsed() < ENGINE_AWAY_MAX => {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            Err(error) => return Err(Failure::of(tried, error)),
        }
    }
}

fn say_where_it_stands(session: &mut Session<'_>, deletion: &Deletion) -> Result<(), Failure> {
    if session.global.output == Format::Table {
        let line = format!(
            "{}  {}",
            short_id(&deletion.id),
            wait::line(deletion, None, None)
        );
        writeln!(session.out, "{}", session.style.safe(&line))?;
        session.out.flush()?;
    }
    Ok(())
}

fn write_event(session: &mut Session<'_>, event: &Event) -> Result<(), Failure> {
    if session.global.output != Format::Table {
        write_json(session.out, session.style, event, false)?;
        return Ok(());
    }
    let id = event.deletion_id.as_deref().map_or("-", short_id);
    let line = format!("{}  {id:8}  {}", time(event.at), event.message);
    writeln!(session.out, "{}", session.style.safe(&line))?;
    Ok(())
}
