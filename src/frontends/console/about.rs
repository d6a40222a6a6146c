//! Parts that several panes share: detail lines about a deletion, a step or an event, the state of a site, and whether
//! a step matches a filter.

use chrono::{DateTime, Utc};

use super::keys::Action;
use super::render_context::{Cell, RenderContext, Tone, or_none};
use crate::control::{SiteState, SiteStatus, Snapshot};
use crate::domain::awaiting;
use crate::domain::drift::waits_for_drift_answer;
use crate::domain::estimate::{Outlook, outlook};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::{
    Deletion, DeletionState, Event as LedgerEvent, EventKind, Step, StepResource, StepState,
};
use crate::present::{
    attempts_words, blocker_words, count, counts_words, json_words, pace_words, range_words,
};

/// Whether a step matches the filter; `others` are texts about it besides the name and the id of its resource.
pub(crate) fn fits_step(filter: &SearchQuery, step: &Step, others: &[&str]) -> bool {
    let StepResource { key, name } = &step.resource;
    filter.fits(&Facts {
        texts: &[&[name.as_str(), &key.id], others].concat(),
        state: step.state.as_str(),
        kind: key.kind.as_str(),
        site: &key.site.to_string(),
        project: &step.project_id,
        since: step.blocked_since,
    })
}

/// The time that the deletion still takes, or the time of its next attempt; empty if neither is known.
pub(crate) fn time_left(deletion: &Deletion, look: &RenderContext) -> String {
    match outlook(deletion) {
        Some(Outlook::Within { least, most }) => range_words(least, most),
        Some(Outlook::NextAttempt(at)) => {
            format!("{} {}", look.pick("↻", "@"), at.format("%H:%M:%S"))
        }
        None => String::new(),
    }
}

/// Detail lines about a deletion: its note, its first refusals, its counts and pace, and who asked for it, when and
/// why.
pub(crate) fn deletion_lines(deletion: &Deletion, look: &RenderContext) -> Vec<Cell> {
    let counts = &deletion.counts;
    let mut lines = Vec::new();
    if !deletion.note.is_empty() {
        lines.push(Cell::plain(&deletion.note));
    }
    for refusal in deletion.refused.iter().take(2) {
        // The note may already give this reason.
        let text = match &refusal.blocker {
            Some(blocker) => format!("blocked by {}", blocker_words(blocker)),
            None if deletion.note.contains(&refusal.reason) => continue,
            None => refusal.reason.clone(),
        };
        lines.push(Cell::new(text, Tone::Bad));
    }
    if counts.total > 0 {
        let steps = count(counts.total, "step");
        let words = counts_words(counts, StepState::ALL);
        let mut facts = vec![format!("{steps}: {words}")];
        facts.extend(pace_words(deletion, |at| look.time(at)));
        lines.push(Cell::plain(facts.join(look.dot())));
    }
    let who = &deletion.requested_by.name;
    let at = look.time(deletion.requested_at);
    let reason = match deletion.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    lines.push(Cell::dim(format!("asked for by {who} at {at}{reason}")));
    lines
}

pub(crate) fn deletions_in(state: DeletionState, snapshot: &Snapshot) -> u64 {
    let known = snapshot.deletions_by_state.get(state.as_str());
    known.copied().unwrap_or(0)
}

/// The rank by which sites are sorted: unreachable sites come first, then paused ones, then those of unknown state.
pub(crate) fn urgency(site: &SiteStatus) -> u8 {
    match site.state {
        SiteState::Unreachable => 0,
        SiteState::Paused => 1,
        SiteState::Unknown => 2,
        SiteState::Reachable => 3,
    }
}

/// The state of a site, such as `✓ reachable`.
pub(crate) fn site_state(site: &SiteStatus, look: &RenderContext) -> Cell {
    match site.state {
        SiteState::Unknown => look.like(StepState::Waiting, "not asked yet"),
        SiteState::Reachable => look.good("reachable"),
        SiteState::Unreachable => look.bad("unreachable"),
        SiteState::Paused => look.like(StepState::Blocked, "paused"),
    }
}

/// Detail lines about a step: its state, its blockers, the last answer, and what comes next.
pub(crate) fn step_lines(step: &Step, look: &RenderContext) -> Vec<Cell> {
    let state = look.step_state(step.state);
    let mut facts = vec![state.text];
    if let Some(since) = step.blocked_since {
        facts.push(format!("since {}", look.time(since)));
    }
    facts.push(attempts_words(step));
    if let Some(next) = step.next_attempt_at.filter(|_| step.state.is_live()) {
        facts.push(format!("next attempt {}", look.time(next)));
    }
    let mut lines = vec![Cell::new(facts.join(look.dot()), state.tone)];
    match (awaiting::next_action(step), &step.last_error) {
        (Some(next), Some(error)) => {
            // The error's message names the blockers at other deployments; no call was sent.
            lines.push(Cell::new(error.message.clone(), Tone::Warn));
            lines.push(Cell::plain(next));
        }
        // The question comes first, because the lines behind it may be cut off.
        _ if waits_for_drift_answer(step) => {
            lines.extend(next_line(step, look));
            lines.extend(blocker_lines(step, look));
        }
        _ => {
            lines.extend(blocker_lines(step, look));
            lines.extend(next_line(step, look));
        }
    }
    lines
}

/// The first blockers of a step, the last answer of the cloud, and how often the resource was re-created.
fn blocker_lines(step: &Step, look: &RenderContext) -> Vec<Cell> {
    let mut lines = Vec::new();
    for blocker in step.blockers.iter().take(3) {
        let text = format!("blocked by {}", blocker_words(blocker));
        lines.push(Cell::new(text, Tone::Warn));
    }
    if let Some(more @ 1..) = step.blockers.len().checked_sub(3) {
        let key = look.keys.key(Action::Blockers);
        lines.push(Cell::dim(format!("and {more} more: {key}")));
    }
    if let Some(error) = &step.last_error {
        let status = error.status.map(|s| format!("{s} ")).unwrap_or_default();
        let answer = format!("{status}{}: {}", error.kind, error.message);
        lines.push(Cell::plain(answer));
        let request = format!("request {}", or_none(&error.request_id, look));
        let facts = [error.class.as_str(), &request, &look.time(error.at)];
        lines.push(Cell::dim(facts.join(look.dot())));
    }
    if step.recreated > 0 {
        let times = count(u64::from(step.recreated), "time");
        lines.push(Cell::new(format!("re-created {times}"), Tone::Warn));
    }
    lines
}

fn next_line(step: &Step, look: &RenderContext) -> Option<Cell> {
    let next = match step.state {
        StepState::Stuck if waits_for_drift_answer(step) => {
            "{accept_drift} deletes the newcomers too; {refuse_drift} leaves them and ends the deletion"
        }
        StepState::Stuck => {
            "{retry} retries the step, once the reason is gone; {ladder} shows what else can be done"
        }
        StepState::Blocked => "the step is retried automatically; {retry} retries it at once",
        _ => return None,
    };
    Some(Cell::dim(look.keys.spell(next)))
}

/// Detail lines about an event: its message, and the request's id with the time, if there was a request.
pub(crate) fn message_lines(
    message: &str,
    request: &str,
    at: DateTime<Utc>,
    look: &RenderContext,
) -> Vec<Cell> {
    let at = at.format("%Y-%m-%d %H:%M:%S UTC");
    let mut lines = vec![Cell::plain(message)];
    if !request.is_empty() {
        lines.push(Cell::dim(format!("request {request}{}{at}", look.dot())));
    }
    lines
}

pub(crate) fn event_tone(kind: EventKind) -> Tone {
    match kind {
        EventKind::NeedsPerson | EventKind::DeletionRefused => Tone::Bad,
        EventKind::Recreated => Tone::Warn,
        _ => Tone::Plain,
    }
}

/// A field of an event's data as text; empty if the event has no such field.
pub(crate) fn datum(event: &LedgerEvent, name: &str) -> String {
    event.data.get(name).map(json_words).unwrap_or_default()
}
