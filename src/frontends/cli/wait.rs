//! `--wait`: follows a deletion until it has ended, the time has run out, or waiting is of no use.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::TryStreamExt as _;
use tokio::time::Instant;

use super::{Exit, Failure, Session};
use crate::control::{ControlError, SiteState, SiteStatus, query};
use crate::domain::duration;
use crate::domain::estimate::waits;
use crate::domain::model::{
    Deletion, DeletionState, ErrorClass, Event, EventKind, Step, StepState, short_id,
};
use crate::domain::peers::AWAITED;
use crate::present::state_words;

/// How long to wait. Without a duration: as long as something can happen within the hour.
pub type Wait = Option<Duration>;

/// Parses the value of `--wait`, which may be empty.
pub(super) fn parse(text: &str) -> Result<Wait, String> {
    match text {
        "" => Ok(None),
        text => duration::parse(text).map(Some),
    }
}

/// Returns the end of a wait that begins now; none for a wait without a duration.
pub(super) fn deadline(wait: Wait, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    now.checked_add_signed(TimeDelta::from_std(wait?).ok()?)
}

/// `--wait` without a duration does not wait for next attempts that are further away than this.
const HORIZON: TimeDelta = TimeDelta::minutes(60);
/// How long an engine may be unreachable during a restart or a hand-over.
pub(super) const ENGINE_AWAY_MAX: Duration = Duration::from_secs(10);
/// Shortest time between two queries: a person reads at most four progress lines a second.
const QUERY_EVERY: Duration = Duration::from_millis(250);
/// Longest pause between two checks of the clock, if no event ends it earlier.
const EVENTS_WAIT_MS: u64 = 1000;
/// Longest delay until the end of this deletion is noticed while other deletions cause events without end.
const EVENTS_EVERY: Duration = Duration::from_millis(50);

/// The decision that follows from the present state of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ended,
    /// No step can run before the deadline (without one: within the hour), and steps are blocked.
    NothingRunsInTime,
    OutOfTime,
    Continue,
}

/// Decides whether to wait longer. `next_attempt_at` is the earliest next attempt of the blocked steps; it counts only
/// if all steps that are left are blocked or wait for blocked steps. `deadline` is `None` for `--wait` without a
/// duration: then the wait ends when the first next attempt is more than 60 minutes away, or the deletion waits for a
/// person.
pub fn verdict_of(
    deletion: &Deletion,
    next_attempt_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
    deadline: Option<DateTime<Utc>>,
) -> Verdict {
    if deletion.state.is_terminal() {
        return Verdict::Ended;
    }
    if deadline.is_some_and(|deadline| now >= deadline) {
        return Verdict::OutOfTime;
    }
    let last = deadline.unwrap_or(now + HORIZON);
    let waits_for_a_person =
        [DeletionState::Paused, DeletionState::AwaitingApproval].contains(&deletion.state);
    let runs_in_time = next_attempt_at.is_some_and(|at| at <= last) && !waits_for_a_person;
    if only_waits(deletion) && !runs_in_time {
        return Verdict::NothingRunsInTime;
    }
    if waits_for_a_person && deadline.is_none() {
        return Verdict::OutOfTime;
    }
    Verdict::Continue
}

/// Whether the deletion only waits: all steps that are left are blocked, or wait for blocked steps.
fn only_waits(deletion: &Deletion) -> bool {
    deletion.state != DeletionState::Planning && waits(&deletion.counts)
}

/// Follows a deletion, with one line of progress on a terminal. Returns it as it was last observed, and the exit
/// code.
pub(super) async fn follow(
    session: &mut Session<'_>,
    deletion_id: &str,
    deadline: Option<DateTime<Utc>>,
) -> Result<(Deletion, Exit), Failure> {
    let mut shown = String::new();
    let mut after = session.control.snapshot().borrow().last_event;
    let ended: Result<_, Failure> = async {
        loop {
            let deletion = read_deletion(session, deletion_id).await?;
            let now = session.clock.now();
            show_progress(session, &deletion, &mut shown)?;
            let horizon = deadline.unwrap_or(now + HORIZON);
            let next = first_attempt(session, &deletion, now, horizon).await?;
            let verdict = verdict_of(&deletion, next, now, deadline);
            let stopped = stopped_site(session, &deletion);
            if verdict != Verdict::Continue || stopped.is_some() {
                let exit = exit_of(session, &deletion, verdict, stopped).await?;
                return Ok((deletion, exit));
            }
            let left = deadline.and_then(|deadline| (deadline - now).to_std().ok());
            let change = wait_for_change(session, deletion_id, &mut after);
            let change = tokio::time::timeout(left.unwrap_or(Duration::MAX), change);
            // At the deadline, the next verdict ends the wait.
            let _ = session.or_interrupted("", change).await?;
        }
    }
    .await;
    if !shown.is_empty() {
        writeln!(session.err.stream)?;
    }
    ended.map_err(|failure| {
        failure.with_action(format!("follow deletion {}", short_id(deletion_id)))
    })
}

/// Ends a verb; `works` says whether the verb gave the engine work. If the engine ends with the verb, waits until each
/// deletion has ended or nothing more can run, and says on standard error how each ended. After ctrl-c it does not
/// wait.
pub(super) async fn carry_on(
    session: &mut Session<'_>,
    works: bool,
    exit: Exit,
) -> Result<Exit, Failure> {
    if !works || !session.embedded || exit == Exit::Interrupted {
        return Ok(exit);
    }
    session.out.stream.flush()?;
    let mut exits = vec![exit];
    let live = query::Deletions {
        states: vec![DeletionState::Planning, DeletionState::Running],
        ..query::Deletions::default()
    };
    let live = session.ask_all(live, |_| true).await?;
    for deletion in live.into_iter().rev() {
        let (deletion, exit) = follow(session, &deletion.id, None).await?;
        let id = short_id(&deletion.id);
        let state = state_words(&deletion);
        session.err.say(format!("Deletion {id}: {state}"))?;
        if exit != Exit::Done {
            let line = format!("The deletion stays in the ledger: gone show {id}");
            session.err.say(line)?;
        }
        exits.push(exit);
    }
    Ok(Exit::first_of(exits))
}

/// Queries the deletion. Repeats the query for up to [`ENGINE_AWAY_MAX`] while the engine cannot be reached.
pub(super) async fn read_deletion(
    session: &Session<'_>,
    deletion_id: &str,
) -> Result<Deletion, Failure> {
    let since = Instant::now();
    loop {
        match session.deletion(deletion_id).await {
            Err(failure)
                if failure.exit == Exit::Unreachable && since.elapsed() < ENGINE_AWAY_MAX =>
            {
                tokio::time::sleep(QUERY_EVERY).await;
            }
            answer => return answer,
        }
    }
}

/// Waits until there may be progress to show, but only until the deletion's next change of state.
async fn wait_for_change(session: &Session<'_>, deletion_id: &str, after: &mut i64) {
    let changes = [EventKind::DeletionState, EventKind::DeletionRefused];
    let changes_state = |event: &Event| {
        event.deletion_id.as_deref() == Some(deletion_id) && changes.contains(&event.kind)
    };
    let until = Instant::now() + QUERY_EVERY;
    loop {
        match session.control.events(*after, EVENTS_WAIT_MS).await {
            Ok(events) => {
                *after = events.last().map_or(*after, |event| event.seq);
                if events.iter().any(changes_state) {
                    return;
                }
            }
            // The state is queried anyway, so missed events are not needed.
            Err(ControlError::Expired { oldest, .. }) => *after = oldest,
            // The next query says what is wrong.
            Err(_) => {}
        }
        if Instant::now() >= until {
            return;
        }
        tokio::time::sleep(EVENTS_EVERY).await;
    }
}

/// Returns the next attempt of a blocked step. A step that waits only for clearances of other deployments
/// continues whenever they come, which may be now.
fn attempt(step: &Step, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let error = step.last_error.as_ref();
    match error.is_some_and(|error| error.kind == AWAITED) {
        true => Some(now),
        false => step.next_attempt_at,
    }
}

/// Returns the earliest next attempt of the blocked steps of a deletion in which nothing else can run; None if another
/// step can run, or no blocked step has a next attempt. Reads pages of steps until one of the attempts is within the
/// horizon. Returns `now` if no step is blocked any more: an answer may come between two queries.
async fn first_attempt(
    session: &Session<'_>,
    deletion: &Deletion,
    now: DateTime<Utc>,
    horizon: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, Failure> {
    if !only_waits(deletion) {
        return Ok(None);
    }
    let blocked = query::Steps {
        states: vec![StepState::Blocked],
        ..query::Steps::of(&deletion.id)
    };
    let mut pages = std::pin::pin!(session.control.pages(blocked));
    let mut first: Option<DateTime<Utc>> = None;
    let mut any_blocked = false;
    while let Some(rows) = session.or_interrupted("", pages.try_next()).await?? {
        let page = rows.iter().filter_map(|step| attempt(step, now)).min();
        first = first.into_iter().chain(page).min();
        any_blocked |= !rows.is_empty();
        if first.is_some_and(|first| first <= horizon) {
            break;
        }
    }
    Ok(if any_blocked { first } else { Some(now) })
}

/// Returns the exit code if nothing is in flight and all of the targets' sites are paused: then nothing
/// happens until a person acts.
fn stopped_site(session: &Session<'_>, deletion: &Deletion) -> Option<Exit> {
    let counts = &deletion.counts;
    let at_work = counts.running + counts.verifying > 0;
    if deletion.state != DeletionState::Running || at_work {
        return None;
    }
    let sites = sites_of(session, deletion);
    let all = !sites.is_empty() && sites.iter().all(|site| site.state == SiteState::Paused);
    // A pause by a person does not mean that rights are missing.
    let exits = sites.iter().filter_map(site_exit);
    all.then(|| Exit::first_of(exits.chain([Exit::StillRunning])))
}

fn sites_of(session: &Session<'_>, deletion: &Deletion) -> Vec<SiteStatus> {
    let is_target = |row: &SiteStatus| deletion.targets.iter().any(|it| it.key.site == row.site);
    let mut sites = session.control.snapshot().borrow().sites.clone();
    sites.retain(is_target);
    sites
}

pub(super) async fn exit_of(
    session: &Session<'_>,
    deletion: &Deletion,
    verdict: Verdict,
    stopped: Option<Exit>,
) -> Result<Exit, Failure> {
    let stuck = match deletion.counts.stuck {
        0 => Vec::new(),
        _ => session.steps(&deletion.id, &[StepState::Stuck]).await?,
    };
    let errors = stuck.iter().filter_map(|step| step.last_error.as_ref());
    let failures: Vec<ErrorClass> = errors.map(|error| error.class).collect();
    let mut exits = vec![Exit::of_deletion(deletion, &failures)];
    if deletion.counts.stuck > 0 || verdict == Verdict::NothingRunsInTime {
        exits.push(Exit::Stuck);
    }
    exits.extend(stopped);
    if verdict == Verdict::OutOfTime {
        exits.extend(sites_of(session, deletion).iter().filter_map(site_exit));
    }
    Ok(Exit::first_of(exits))
}

fn site_exit(site: &SiteStatus) -> Option<Exit> {
    match site.state {
        SiteState::Paused if site.paused_by.is_some() => None,
        SiteState::Paused => Some(Exit::Auth),
        SiteState::Unreachable => Some(Exit::Unreachable),
        SiteState::Unknown | SiteState::Reachable => None,
    }
}

/// Shows the progress on a terminal, in one line that each update overwrites. `shown` is the text of that line.
fn show_progress(
    session: &mut Session<'_>,
    deletion: &Deletion,
    shown: &mut String,
) -> Result<(), Failure> {
    if !session.err.style.err_terminal {
        return Ok(());
    }
    let mut line = state_words(deletion);
    if let Some(fault) = &session.control.snapshot().borrow().engine.fault {
        line += &format!("; the engine takes no work: {fault}");
    }
    if line != *shown {
        let safe = session.err.style.safe(&line);
        write!(session.err.stream, "\r{safe}\u{1b}[K")?;
        session.err.stream.flush()?;
        *shown = line;
    }
    Ok(())
}
