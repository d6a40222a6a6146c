//! Alerts for a person who is not looking at the console: a deletion has ended, or something needs a person.

use super::about::deletions_in;
use super::panes::kit::step_words;
use crate::control::Snapshot;
use crate::domain::model::{Deletion, DeletionState, StepState};
use crate::present::{count, joined, target_words, thousands};

/// The snapshot has at most this many deletions, so one that is missing from a full list may still be under way.
const DELETIONS_MAX: usize = 50;

/// Returns the words for what happened between two snapshots; `None` if no deletion is known to have ended and nothing
/// new needs a person.
pub(super) fn words(before: &Snapshot, now: &Snapshot) -> Option<String> {
    // Compared with the empty snapshot before the engine's first one, everything would look new.
    before.at?;
    let said = [needs_person(before, now), ended(before, now)];
    let said = joined(said.into_iter().flatten(), ", ");
    (!said.is_empty()).then_some(said)
}

fn needs_person(before: &Snapshot, now: &Snapshot) -> Option<String> {
    let waiting = |it: &Snapshot| {
        let deletions = [DeletionState::Refused, DeletionState::AwaitingApproval];
        let deletions = deletions.map(|state| deletions_in(state, it));
        it.steps.stuck + deletions.into_iter().sum::<u64>()
    };
    let more = waiting(now)
        .checked_sub(waiting(before))
        .filter(|n| *n > 0)?;
    let is_new = |id: i64| before.attention.iter().all(|step| step.id != id);
    let mut stuck = now.attention.iter();
    let stuck = stuck.find(|step| step.state == StepState::Stuck && is_new(step.id));
    let stuck = stuck.map(|step| format!("{} is stuck", step_words(step)));
    Some(match (stuck, more) {
        (None, 1) => "1 deletion or step needs you".to_owned(),
        (None, more) => format!("{more} deletions or steps need you"),
        (Some(stuck), 1) => stuck,
        (Some(stuck), 2) => format!("{stuck}, and 1 other deletion or step needs you"),
        (Some(stuck), more) => format!(
            "{stuck}, and {} other deletions or steps need you",
            thousands(more - 1)
        ),
    })
}

fn ended(before: &Snapshot, now: &Snapshot) -> Option<String> {
    if now.deletions.len() >= DELETIONS_MAX {
        return None;
    }
    let goes_on = |it: &&Deletion| now.deletions.iter().any(|other| other.id == it.id);
    let ended = before.deletions.iter().filter(|it| !goes_on(it));
    let ended: Vec<String> = ended.map(target_words).collect();
    match ended.as_slice() {
        [] => None,
        [one] => Some(format!("the deletion of {one} has ended")),
        [first, others @ ..] => {
            let others = count(others.len(), "other");
            Some(format!("the deletion of {first} and {others} have ended"))
        }
    }
}
