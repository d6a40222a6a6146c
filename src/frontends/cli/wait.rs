//! `--wait`: follows a deletion until it has ended, or until waiting is of no use.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use super::exit::Exit;
use super::failure::Failure;
use super::session::{PAGE_ROWS, Session};
use crate::control::{ControlError, SiteState, SiteStatus, query};
use crate::domain::model::{
    Deletion, DeletionState, ErrorClass, Event, EventKind, Paged, Site, Step, StepState, short_id,
};
use crate::domain::peers::AWAITED;

/// `--wait` without a duration does not wait for next attempts that are further away than this.
const HORIZON: TimeDelta = TimeDelta::minutes(60);
/// How long an engine that went away may take to come back after a restart or a hand-over.
pub(super) const ENGINE_AWAY_MAX: Duration = Duration::from_secs(10);
/// Shortest time between two queries: a person reads at most four progress lines a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Events wake the wait; without any, it checks the clock this often.
const EVENTS_WAIT_MS: u64 = 1000;
/// Longest delay until the end of this deletion is noticed while others cause events without end.
const EVENTS_EVERY: Duration = Duration::from_millis(50);

/// The decision that follows from the present state of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Settled,
    /// Nothing can run before the deadline, and something is blocked.
    Hopeless,
    OutOfTime,
    GoOn,
}

/// Decides whether to wait longer. `next_attempt_at` is the earliest of the blocked steps; it counts only
/// if [`nothing_moves`]. `deadline` is `None` for `--wait` without a duration: then the wait ends when
/// the first next attempt is more than 60 minutes away.
pub fn judge(
    deletion: &Deletion,
    next_attempt_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
    deadline: Option<DateTime<Utc>>,
) -> Verdict {
    if deletion.state.is_terminal() {
        return Verdict::Settled;
    }
    if deadline.is_some_and(|deadline| now >= deadline) {
        return Verdict::OutOfTime;
    }
    let last = deadline.unwrap_or(now + HORIZON);
    let waits_for_a_person = matches!(
        deletion.state,
        DeletionState::Paused | DeletionState::AwaitingApproval
    );
    if nothing_moves(deletion) {
        let runs_in_time = next_attempt_at.is_some_and(|at| at <= last) && !waits_for_a_person;
        if deletion.counts.blocked > 0 && !runs_in_time {
            return Verdict::Hopeless;
        }
    }
    if waits_for_a_person && deadline.is_none() {
        return Verdict::OutOfTime;
    }
    Verdict::GoOn
}

/// Whether no step runs or is about to: all that are left are blocked, or wait for blocked steps.
pub fn nothing_moves(deletion: &Deletion) -> bool {
    let counts = &deletion.counts;
    deletion.state != DeletionState::Planning
        && counts.ready + counts.running + counts.verifying == 0
}

/// The end of a wait: the deletion as it was last observed, and the exit code.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) deletion: Deletion,
    pub(super) exit: Exit,
}

/// Follows a deletion, with one line of progress on a terminal.
pub(super) async fn follow(
    session: &mut Session<'_>,
    deletion_id: &str,
    deadline: Option<DateTime<Utc>>,
) -> Result<Ended, Failure> {
    let tried = format!("follow deletion {}", short_id(deletion_id));
    let mut after = session.control.snapshot().borrow().last_event;
    let mut progress = Progress::new(session.clock.now());
    loop {
        let deletion = look(session, &tried, deletion_id).await?;
        let now = session.clock.now();
        progress.show(session, &deletion, now)?;
        let next = if nothing_moves(&deletion) && deletion.counts.blocked > 0 {
            let horizon = deadline.unwrap_or(now + HORIZON);
            first_attempt(session, &tried, deletion_id, (now, horizon)).await?
        } else {
            None
        };
        let verdict = judge(&deletion, next, now, deadline);
        let stopped = stopped_site(session, &deletion);
        if verdict != Verdict::GoOn || stopped.is_some() {
            progress.end(session)?;
            let exit = exit_of(session, &tried, &deletion, verdict, stopped).await?;
            return Ok(Ended { deletion, exit });
        }
        let left = deadline.and_then(|deadline| (deadline - now).to_std().ok());
        let interrupt = session.interrupt.clone();
        tokio::select! {
            biased;
            () = interrupt.cancelled() => {
                progress.end(session)?;
                return Err(Failure::interrupted(tried, ""));
            }
            () = tokio::time::sleep(left.unwrap_or(Duration::MAX)) => {}
            () = news(session, deletion_id, &mut after) => {}
        }
    }
}

/// If the engine ends with this verb, waits until each deletion has ended or nothing more can run, and tells
/// on standard error how each ended.
pub(super) async fn carry_on(session: &mut Session<'_>, tried: &str) -> Result<Exit, Failure> {
    if !session.embedded {
        return Ok(Exit::Done);
    }
    let mut exits = Vec::new();
    for deletion in session.live_deletions(tried).await? {
        let ended = follow(session, &deletion.id, None).await?;
        let id = short_id(&ended.deletion.id);
        let how = format!("Deletion {id}: {}", line(&ended.deletion, None, None));
        writeln!(session.err, "{}", session.style.safe(&how))?;
        if ended.exit != Exit::Done {
            writeln!(session.err, "It stays in the ledger: gone show {id}")?;
        }
        exits.push(ended.exit);
    }
    Ok(Exit::first_of(exits))
}

/// Queries the deletion. An engine that has gone away is given some time to come back.
pub(super) async fn look(
    session: &Session<'_>,
    tried: &str,
    deletion_id: &str,
) -> Result<Deletion, Failure> {
    let since = Instant::now();
    loop {
        match session.deletion(tried, deletion_id).await {
            Err(failure)
                if failure.exit == Exit::Unreachable && since.elapsed() < ENGINE_AWAY_MAX =>
            {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            answer => return answer,
        }
    }
}

/// Waits until there may be something to show, but no longer than the deletion's next change of state.
async fn news(session: &Session<'_>, deletion_id: &str, after: &mut i64) {
    let settles = |event: &Event| {
        event.deletion_id.as_deref() == Some(deletion_id)
            && matches!(
                event.kind,
                EventKind::DeletionState | EventKind::DeletionRefused
            )
    };
    let until = Instant::now() + LOOK_EVERY;
    loop {
        match session.control.events(*after, EVENTS_WAIT_MS).await {
            Ok(events) => {
                *after = events.last().map_or(*after, |event| event.seq);
                if events.iter().any(settles) {
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

/// Returns the earliest next attempt of the blocked steps; reads no further than to one within the horizon.
/// If none is blocked any more, the deletion moves now: an answer may come between two queries.
async fn first_attempt(
    session: &Session<'_>,
    tried: &str,
    deletion_id: &str,
    (now, horizon): (DateTime<Utc>, DateTime<Utc>),
) -> Result<Option<DateTime<Utc>>, Failure> {
    let mut first: Option<DateTime<Utc>> = None;
    let mut blocked = query::Steps {
        deletion_id: Some(deletion_id.to_owned()),
        states: vec![StepState::Blocked],
        limit: PAGE_ROWS,
        ..query::Steps::default()
    };
    let mut any_blocked = false;
    loop {
        let Paged { rows, next } = session.ask(tried, blocked.clone()).await?;
        let page = rows.iter().filter_map(|step| attempt(step, now)).min();
        first = first.into_iter().chain(page).min();
        any_blocked |= !rows.is_empty();
        if next.is_none() && !any_blocked {
            return Ok(Some(now));
        }
        if next.is_none() || first.is_some_and(|first| first <= horizon) {
            return Ok(first);
        }
        blocked.cursor = next;
    }
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
    let targets: Vec<&Site> = deletion.targets.iter().map(|t| &t.key.site).collect();
    let snapshot = session.control.snapshot();
    let snapshot = snapshot.borrow();
    let sites = snapshot.sites.iter();
    sites
        .filter(|row| targets.contains(&&row.site))
        .cloned()
        .collect()
}

/// Returns the exit code of a deletion that has ended.
pub(super) async fn exit_of_settled(
    session: &Session<'_>,
    tried: &str,
    deletion: &Deletion,
) -> Result<Exit, Failure> {
    exit_of(session, tried, deletion, Verdict::Settled, None).await
}

async fn exit_of(
    session: &Session<'_>,
    tried: &str,
    deletion: &Deletion,
    verdict: Verdict,
    stopped: Option<Exit>,
) -> Result<Exit, Failure> {
    let failures = match deletion.counts.stuck {
        0 => Vec::new(),
        _ => failures(session, tried, &deletion.id).await?,
    };
    let mut exits = vec![Exit::of_deletion(deletion, &failures)];
    if deletion.counts.stuck > 0 || verdict == Verdict::Hopeless {
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

async fn failures(
    session: &Session<'_>,
    tried: &str,
    deletion_id: &str,
) -> Result<Vec<ErrorClass>, Failure> {
    let stuck = session
        .steps(tried, deletion_id, &[StepState::Stuck])
        .await?;
    Ok(stuck
        .iter()
        .filter_map(|step| Some(step.last_error.as_ref()?.class))
        .collect())
}

/// A progress line on a terminal, which overwrites itself.
struct Progress {
    start: DateTime<Utc>,
    accepted_at_start: Option<u64>,
    shown: String,
}

impl Progress {
    fn new(start: DateTime<Utc>) -> Self {
        Self {
            start,
            accepted_at_start: None,
            shown: String::new(),
        }
    }

    fn show(
        &mut self,
        session: &mut Session<'_>,
        deletion: &Deletion,
        now: DateTime<Utc>,
    ) -> Result<(), Failure> {
        if !session.style.err_terminal {
            return Ok(());
        }
        let accepted_at_start = *self
            .accepted_at_start
            .get_or_insert(deletion.counts.accepted());
        let accepted = deletion.counts.accepted();
        let rate = rate(accepted.saturating_sub(accepted_at_start), now - self.start);
        let fault = session.control.snapshot().borrow().engine.fault.clone();
        let line = line(deletion, rate, fault.as_deref());
        if line == self.shown {
            return Ok(());
        }
        write!(session.err, "\r{}\u{1b}[K", session.style.safe(&line))?;
        session.err.flush()?;
        self.shown = line;
        Ok(())
    }

    fn end(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        if !self.shown.is_empty() {
            writeln!(session.err)?;
        }
        Ok(())
    }
}

/// Steps per second since the wait began; `None` in its first second, which says nothing.
fn rate(accepted: u64, elapsed: TimeDelta) -> Option<f64> {
    let seconds = u32::try_from(elapsed.num_seconds()).ok()?;
    let accepted = u32::try_from(accepted).ok()?;
    (seconds > 0 && accepted > 0).then(|| f64::from(accepted) / f64::from(seconds))
}

/// The progress in words: `running: gone 120 of 536, running 8, blocked 2, 14.2/s, 28s left`.
pub fn line(deletion: &Deletion, rate: Option<f64>, fault: Option<&str>) -> String {
    let counts = &deletion.counts;
    let mut line = format!(
        "{}: gone {} of {}",
        deletion.state.as_str(),
        counts.gone,
        counts.total
    );
    for state in StepState::ALL {
        let number = counts.of(state);
        if number > 0 && !matches!(state, StepState::Gone) {
            line += &format!(", {} {number}", state.as_str());
        }
    }
    if let Some(rate) = rate {
        line += &format!(", {rate:.1}/s");
    }
    if let Some(eta) = deletion.eta_seconds {
        line += &format!(", {} left", rough(eta));
    }
    if let Some(fault) = fault {
        line += &format!("; the engine takes no work: {fault}");
    }
    line
}

/// `28s`, `4m`, `3h`: one unit is enough for an estimate.
fn rough(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}
