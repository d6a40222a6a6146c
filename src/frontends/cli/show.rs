//! `gone show`, `tree` and `explain`: the state of a deletion, and why a resource is not deleted (P2).

use serde::Serialize;

use super::args::{ExplainArgs, Format, IdArg};
use super::exit::Exit;
use super::failure::Failure;
use super::plan_view::write_refusals;
use super::session::Session;
use super::tree::{nest, write_tree};
use super::{columns, wait};
use crate::control::{Explanation, SiteProgress, query};
use crate::domain::model::{Deletion, DeletionState, Event, Step, StepState, short_id};
use crate::present::{answer_words, blocker_words_in_full, target_in_full, time};

/// Number of events of the timeline that are shown: enough to see what is going on.
const EVENTS_SHOWN: usize = 20;
/// Number of the newest events that are searched for them; if none is the deletion's, its oldest are read.
const EVENTS_BACK: i64 = 10_000;
const PAGES_MAX: usize = 20;

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    deletion: &'a Deletion,
    /// The progress at each site.
    sites: &'a [SiteProgress],
    /// Blocked and stuck steps.
    attention: &'a [Step],
    /// The last events, oldest first.
    timeline: &'a [Event],
}

pub(super) async fn show(session: &mut Session<'_>, args: IdArg) -> Result<Exit, Failure> {
    let tried = format!("show {}", args.id);
    let deletion = session.deletion(&tried, &args.id).await?;
    let sites = progress(session, &tried, &deletion.id).await?;
    // The exit code tells abandoned steps apart, also for a script that asks later.
    let exit = match deletion.state {
        DeletionState::Purged => Exit::Stuck,
        _ => Exit::Done,
    };
    let held = [StepState::Stuck, StepState::Blocked];
    let attention = session.steps(&tried, &deletion.id, &held).await?;
    let timeline = timeline(session, &tried, &deletion.id).await?;
    let shown = Shown {
        deletion: &deletion,
        sites: &sites,
        attention: &attention,
        timeline: &timeline,
    };
    if session.print_value(&shown)? {
        return Ok(exit);
    }
    if session.global.output == Format::Csv {
        let one = [deletion];
        session.print_deletions(&one)?;
        return Ok(exit);
    }
    write_deletion(session, &deletion)?;
    if sites.len() > 1 {
        writeln!(session.out, "\nAt each site")?;
        session.print_rows(columns::PROGRESS, &sites)?;
    }
    if !attention.is_empty() {
        writeln!(session.out, "\nWaits or is stuck")?;
        session.print_rows(columns::WAITING_STEPS, &attention)?;
    }
    if !timeline.is_empty() {
        writeln!(session.out, "\nLast events")?;
    }
    for event in &timeline {
        let line = format!("  {}  {}", time(event.at), event.message);
        writeln!(session.out, "{}", session.style.safe(&line))?;
    }
    Ok(exit)
}

fn write_deletion(session: &mut Session<'_>, deletion: &Deletion) -> Result<(), Failure> {
    let style = session.style;
    let targets: Vec<String> = deletion.targets.iter().map(target_in_full).collect();
    let options = &deletion.options;
    let fields = [
        ("id", deletion.id.clone()),
        ("targets", targets.join("; ")),
        ("state", wait::line(deletion, None, None)),
        ("note", deletion.note.clone()),
        (
            "requested",
            format!(
                "{} by {}",
                time(deletion.requested_at),
                deletion.requested_by.name
            ),
        ),
        ("reason", deletion.reason.clone()),
        ("cause", deletion.cause.clone().unwrap_or_default()),
        (
            "plan",
            deletion
                .plan_hash
                .as_deref()
                .map(|hash| short_id(hash).to_owned())
                .unwrap_or_default(),
        ),
        (
            "cascade",
            if options.cascade { "yes" } else { "no" }.to_owned(),
        ),
        (
            "finished",
            deletion.finished_at.map(time).unwrap_or_default(),
        ),
    ];
    for (label, value) in fields {
        if !value.is_empty() {
            writeln!(session.out, "{label:<10} {}", style.safe(&value))?;
        }
    }
    Ok(write_refusals(session.out, style, &deletion.refused)?)
}

async fn progress(
    session: &Session<'_>,
    tried: &str,
    deletion_id: &str,
) -> Result<Vec<SiteProgress>, Failure> {
    let deletion_id = deletion_id.to_owned();
    session.ask(tried, query::Progress { deletion_id }).await
}

/// Returns the last events of a deletion. The timeline comes oldest first, in pages; a large deletion has
/// more of them than anyone can wait for.
async fn timeline(
    session: &Session<'_>,
    tried: &str,
    deletion_id: &str,
) -> Result<Vec<Event>, Failure> {
    let newest = session.control.snapshot().borrow().last_event;
    let last = timeline_after(session, tried, deletion_id, newest - EVENTS_BACK).await?;
    if last.is_empty() {
        return timeline_after(session, tried, deletion_id, 0).await;
    }
    Ok(last)
}

async fn timeline_after(
    session: &Session<'_>,
    tried: &str,
    deletion_id: &str,
    after: i64,
) -> Result<Vec<Event>, Failure> {
    let mut last: Vec<Event> = Vec::new();
    let mut after = after.max(0);
    for _ in 0..PAGES_MAX {
        let events = query::Timeline {
            deletion_id: Some(deletion_id.to_owned()),
            step_id: None,
            after,
        };
        let rows = session.ask(tried, events).await?;
        let Some(newest) = rows.last().map(|event| event.seq) else {
            break;
        };
        after = newest;
        last.extend(rows);
        let surplus = last.len().saturating_sub(EVENTS_SHOWN);
        last.drain(..surplus);
    }
    Ok(last)
}

pub(super) async fn tree(session: &mut Session<'_>, args: IdArg) -> Result<Exit, Failure> {
    let tried = format!("show the tree of {}", args.id);
    let deletion = session.deletion(&tried, &args.id).await?;
    let steps = session.steps(&tried, &deletion.id, &[]).await?;
    let roots = nest(&steps);
    if session.print_value(&roots)? {
        return Ok(Exit::Done);
    }
    if session.global.output == Format::Csv {
        session.print_rows(columns::RESULTS, &steps)?;
        return Ok(Exit::Done);
    }
    let head = format!(
        "Deletion {}: {}",
        short_id(&deletion.id),
        wait::line(&deletion, None, None)
    );
    writeln!(session.out, "{}", session.style.safe(&head))?;
    write_tree(session.out, session.style, &roots)?;
    Ok(Exit::Done)
}

pub(super) async fn explain(session: &mut Session<'_>, args: ExplainArgs) -> Result<Exit, Failure> {
    let tried = format!("explain {}", args.target);
    let words = [args.target];
    let mut found = Vec::new();
    // Several sites may have been chosen; each needs its own query.
    for target in session.targets(&tried, &words).await? {
        let explanation = session.ask(&tried, query::Explain { target }).await?;
        found.push(*explanation);
    }
    let printed = match found.as_slice() {
        [one] => session.print_value(one)?,
        several => session.print_value(&several)?,
    };
    if !printed && session.global.output == Format::Csv {
        session.print_sheet(&columns::findings(&found), &found)?;
    } else if !printed {
        for explanation in &found {
            write_explanation(session, explanation)?;
        }
    }
    Ok(Exit::Done)
}

fn write_explanation(session: &mut Session<'_>, explanation: &Explanation) -> Result<(), Failure> {
    let style = session.style;
    let head = target_in_full(&explanation.target);
    writeln!(session.out, "{}", style.safe(&head))?;
    if let Some(deletion) = &explanation.deletion {
        let line = format!(
            "  deletion {}: {}",
            short_id(&deletion.id),
            wait::line(deletion, None, None)
        );
        writeln!(session.out, "{}", style.safe(&line))?;
    }
    if let Some(step) = &explanation.step {
        let line = format!(
            "  step {} is {}, attempt {} of {}{}",
            step.id,
            step.state.as_str(),
            step.attempts,
            step.max_attempts,
            step.next_attempt_at
                .map(|at| format!(", next at {}", time(at)))
                .unwrap_or_default()
        );
        writeln!(session.out, "{line}")?;
        if let Some(error) = &step.last_error {
            let line = format!("  last answer: {}", answer_words(error));
            writeln!(session.out, "{}", style.safe(&line))?;
        }
    }
    if let Some(tombstone) = &explanation.tombstone {
        let line = format!(
            "  tombstone: {} since {}",
            tombstone.phase.as_str(),
            tombstone.deleted_at.map(time).unwrap_or_default()
        );
        writeln!(session.out, "{line}")?;
    }
    for line in &explanation.lines {
        writeln!(session.out, "  {}", style.safe(line))?;
    }
    for blocker in &explanation.blockers {
        let line = format!("  blocked by {}", blocker_words_in_full(blocker));
        writeln!(session.out, "{}", style.safe(&line))?;
    }
    write_refusals(session.out, style, &explanation.refused)?;
    if !explanation.next_action.is_empty() {
        let line = format!("Next: {}", explanation.next_action);
        writeln!(session.out, "{}", style.safe(&line))?;
    }
    Ok(())
}
