//! One action on all marked rows, after a question whose answer is the number of steps or deletions that it affects. To
//! abandon them, the person types `abandon` too, because that cannot be undone.

use std::collections::{BTreeMap, BTreeSet};

use super::acts::{CANCEL_FOLLOWS, WholeDeletion, WorkItem, pausing, retry};
use super::{Action, Confirm, Context, Tone};
use crate::control::Command;
use crate::domain::ladder::Rung;
use crate::domain::model::{DeletionState, Site, StepState, short_id};
use crate::present::{count, joined, thousands};

/// Maximum number of rows that the question names; the others are counted.
const NAMED_MAX: usize = 3;
/// The consequences of retrying, pausing and abandoning, for the person. Those of a cancellation are
/// [`CANCEL_FOLLOWS`].
const RETRIES: &str =
    "The steps are sent again. A step that is refused as in use goes to the retry queue.";
const PAUSES: &str = "Nothing more is sent for a deletion until a person resumes it; calls that were already sent are completed.";
const ABANDONS: &str = "Nothing is sent, now or later: whatever still exists stays in its cloud, and is listed in \
                        :orphans. This cannot be undone.";

/// The command for a row, or why nothing happens to it.
type Planned = Result<Command, &'static str>;

/// Asks whether to perform the action on the rows that allow it, or says why none of them allows it.
pub(super) fn ask(items: &[WorkItem<'_>], action: Action, context: &mut Context) {
    let of_items = |planned: fn(&WorkItem<'_>) -> Planned| -> Vec<_> {
        let planned = items.iter().map(|item| (item.words(), planned(item)));
        planned.collect()
    };
    let whole = deletions(items, context);
    let of_whole = |planned: &dyn Fn(&WholeDeletion) -> Planned| -> Vec<_> {
        let planned = whole.iter().map(|it| (it.words.clone(), planned(it)));
        planned.collect()
    };
    // The verb for the action, the word for one of the items, the consequence in a sentence for the person, and the
    // command for each item.
    let (verb, noun, follows, planned) = match action {
        Action::Retry => ("Retry", noun(items), RETRIES, of_items(retry_one)),
        Action::Pause => {
            // If all deletions that can be paused are paused, they are resumed.
            let mut pausable = whole.iter().filter(|it| can_pause(it));
            let resumes = pausable.all(WholeDeletion::is_paused);
            let (verb, follows) = match resumes {
                true => ("Resume", "Each continues where it was paused."),
                false => ("Pause", PAUSES),
            };
            let planned = of_whole(&|it| pause_one(it, resumes));
            (verb, "deletion", follows, planned)
        }
        Action::Cancel => ("Cancel", "deletion", CANCEL_FOLLOWS, of_whole(&cancel_one)),
        _ => ("Abandon", noun(items), ABANDONS, of_items(abandon_one)),
    };
    let (mut named, mut commands) = (Vec::new(), Vec::new());
    // Number of steps or deletions to which nothing happens, by the reason.
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for (words, command) in planned {
        match command {
            Ok(command) => {
                named.push(words);
                commands.push(command);
            }
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    }
    let does = verb.to_lowercase();
    if commands.is_empty() {
        let why = joined(left_out.into_keys(), "; ");
        return context.say(Tone::Warn, format!("there is nothing to {does}: {why}"));
    }
    let n = commands.len();
    if n > NAMED_MAX {
        named.truncate(NAMED_MAX);
        named.push(format!("{} more", thousands(n - NAMED_MAX)));
    }
    let mut lines = vec![format!("{verb} {}", count(n, noun)), follows.to_owned()];
    let left_out = left_out.into_iter();
    lines.extend(left_out.map(|(why, n)| format!("{} left out: {why}", thousands(n))));
    lines.push(named.join(", "));
    let abandons = action == Action::Ladder;
    let (ask, accepted) = match abandons {
        true => {
            let typed = format!("abandon {n}");
            (format!("\"{typed}\""), vec![typed])
        }
        false => {
            let typed = vec![n.to_string(), thousands(n)];
            (format!("how many: {n}"), typed)
        }
    };
    let what = format!("{does} {}", count(n, noun));
    let confirm = Confirm::of_marked(ask, accepted, what, commands).saying(lines);
    context.confirm(match abandons {
        true => confirm.at(items.iter().flat_map(sites), context.snapshot),
        false => confirm,
    });
}

fn sites<'r>(item: &WorkItem<'r>) -> Vec<&'r Site> {
    match *item {
        WorkItem::Step(step) => vec![&step.resource.key.site],
        WorkItem::Deletion(it) => it.targets.iter().map(|target| &target.key.site).collect(),
    }
}

/// The word for one of the rows: `row` if some are steps and some are deletions.
fn noun(items: &[WorkItem<'_>]) -> &'static str {
    let steps = items.iter().filter(|it| matches!(it, WorkItem::Step(_)));
    match steps.count() {
        0 => "deletion",
        steps if steps == items.len() => "step",
        _ => "row",
    }
}

/// Returns an error unless the step is stuck or blocked.
fn does_not_go(state: StepState) -> Result<(), &'static str> {
    match state {
        StepState::Stuck | StepState::Blocked => Ok(()),
        _ => Err("the step is neither stuck nor blocked"),
    }
}

fn retry_one(item: &WorkItem<'_>) -> Planned {
    match item {
        WorkItem::Step(step) => does_not_go(step.state)?,
        WorkItem::Deletion(deletion) => match deletion.state {
            DeletionState::Gone | DeletionState::Cancelled | DeletionState::Purged => {
                return Err("the deletion has ended");
            }
            DeletionState::Planning | DeletionState::AwaitingApproval => {
                return Err("the deletion has not begun");
            }
            _ => {}
        },
    }
    Ok(retry(item.scope()))
}

fn abandon_one(item: &WorkItem<'_>) -> Planned {
    match item {
        WorkItem::Step(step) => does_not_go(step.state)?,
        WorkItem::Deletion(it) if it.counts.stuck + it.counts.blocked == 0 => {
            return Err("the deletion has no stuck or blocked step");
        }
        WorkItem::Deletion(_) => {}
    }
    Ok(Command::Purge {
        what: item.scope(),
        rung: Rung::Forget,
        confirm: short_id(&item.deletion_id()).to_owned(),
    })
}

/// The deletions of these rows, each once.
fn deletions(items: &[WorkItem<'_>], context: &Context) -> Vec<WholeDeletion> {
    let mut seen = BTreeSet::new();
    let all = items
        .iter()
        .map(|item| WholeDeletion::of(*item, context.snapshot));
    all.filter(|whole| seen.insert(whole.id.clone())).collect()
}

fn can_pause(whole: &WholeDeletion) -> bool {
    !whole.state.is_some_and(DeletionState::is_terminal)
}

fn pause_one(whole: &WholeDeletion, resumes: bool) -> Planned {
    match whole.is_paused() {
        _ if !can_pause(whole) => Err("the deletion has ended, so it cannot be paused or resumed"),
        true if !resumes => Err("the deletion is paused already"),
        _ => Ok(pausing(resumes, whole.id.clone())),
    }
}

fn cancel_one(whole: &WholeDeletion) -> Planned {
    let has_ended = |state: DeletionState| state.is_terminal() && state != DeletionState::Stuck;
    if whole.state.is_some_and(has_ended) {
        return Err("the deletion has ended");
    }
    let deletion_id = whole.id.clone();
    Ok(Command::Cancel { deletion_id })
}
