//! One action on all marked rows, after a question whose answer is their number. To abandon them, the person types
//! that word too, because it cannot be undone.

use std::collections::{BTreeMap, BTreeSet};

use super::acts::{CANCEL_FOLLOWS, WholeDeletion, WorkItem, retry};
use super::{Action, Confirm, Context, Tone};
use crate::control::Command;
use crate::domain::ladder::Rung;
use crate::domain::model::{DeletionState, Site, StepState, short_id};
use crate::present::{count, joined, thousands};

/// Maximum number of rows that the question names; the others are counted.
const NAMED_MAX: usize = 3;

/// What is done to a row: its words, and the command, or why nothing happens to it.
type Planned = (String, Result<Command, &'static str>);

/// A question before it is asked.
struct BulkQuestion {
    /// The verb for the action: `Retry`.
    verb: &'static str,
    /// The word for one of the items: `step`.
    noun: &'static str,
    /// The consequence, in a sentence for the person.
    follows: &'static str,
    planned: Vec<Planned>,
}

/// Asks whether to perform the action on all these rows, or says why it can be performed on none.
pub(super) fn ask(items: &[WorkItem<'_>], action: Action, context: &mut Context) {
    let BulkQuestion {
        verb,
        noun,
        follows,
        planned,
    } = match action {
        Action::Retry => retry_all(items),
        Action::Pause => pause_all(&deletions(items, context)),
        Action::Cancel => cancel_all(&deletions(items, context)),
        _ => abandon_all(items),
    };
    let (mut named, mut commands) = (Vec::new(), Vec::new());
    // Number of marked rows to which nothing happens, by the reason.
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

/// The word for the rows, if they are of one sort.
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

fn retry_all(items: &[WorkItem<'_>]) -> BulkQuestion {
    let planned = items.iter().map(|item| {
        let can = match item {
            WorkItem::Step(step) => does_not_go(step.state),
            WorkItem::Deletion(deletion) => match deletion.state {
                DeletionState::Gone | DeletionState::Cancelled | DeletionState::Purged => {
                    Err("the deletion has ended")
                }
                DeletionState::Planning | DeletionState::AwaitingApproval => {
                    Err("the deletion has not begun")
                }
                _ => Ok(()),
            },
        };
        (item.words(), can.map(|()| retry(item.scope())))
    });
    BulkQuestion {
        verb: "Retry",
        noun: noun(items),
        follows: "Each is sent again. A step that is refused as in use goes to the retry queue.",
        planned: planned.collect(),
    }
}

fn abandon_all(items: &[WorkItem<'_>]) -> BulkQuestion {
    let planned = items.iter().map(|item| {
        let can = match item {
            WorkItem::Step(step) => does_not_go(step.state),
            WorkItem::Deletion(deletion) => match deletion.counts.stuck + deletion.counts.blocked {
                0 => Err("no step of it is stuck or blocked"),
                _ => Ok(()),
            },
        };
        let command = Command::Purge {
            what: item.scope(),
            rung: Rung::Forget,
            confirm: short_id(&item.deletion_id()).to_owned(),
        };
        (item.words(), can.map(|()| command))
    });
    BulkQuestion {
        verb: "Abandon",
        noun: noun(items),
        follows: "Nothing is sent, now or later: whatever still exists stays in its cloud, and is listed in \
                  :orphans. This cannot be undone.",
        planned: planned.collect(),
    }
}

/// The deletions of these rows, each once.
fn deletions(items: &[WorkItem<'_>], context: &Context) -> Vec<WholeDeletion> {
    let mut seen = BTreeSet::new();
    let all = items
        .iter()
        .map(|item| WholeDeletion::of(*item, context.snapshot));
    all.filter(|whole| seen.insert(whole.id.clone())).collect()
}

/// Pauses the deletions; if all that can be paused are paused, resumes them.
fn pause_all(deletions: &[WholeDeletion]) -> BulkQuestion {
    let can = |it: &&WholeDeletion| !it.state.is_some_and(DeletionState::is_terminal);
    let resumes = deletions.iter().filter(can).all(WholeDeletion::is_paused);
    let planned = deletions.iter().map(|it| {
        let deletion_id = it.id.clone();
        let command = match resumes {
            _ if !can(&it) => Err("it has nothing to pause or resume"),
            true => Ok(Command::Resume { deletion_id }),
            false if it.is_paused() => Err("it is paused already"),
            false => Ok(Command::Pause { deletion_id }),
        };
        (it.words.clone(), command)
    });
    let (verb, follows) = match resumes {
        true => ("Resume", "Each continues where it was paused."),
        false => (
            "Pause",
            "Nothing more is sent until a person resumes it; calls that were already sent are completed.",
        ),
    };
    BulkQuestion {
        verb,
        noun: "deletion",
        follows,
        planned: planned.collect(),
    }
}

fn cancel_all(deletions: &[WholeDeletion]) -> BulkQuestion {
    let has_ended = |state: DeletionState| state.is_terminal() && state != DeletionState::Stuck;
    let planned = deletions.iter().map(|it| {
        let deletion_id = it.id.clone();
        let command = match it.state.is_some_and(has_ended) {
            true => Err("the deletion has ended"),
            false => Ok(Command::Cancel { deletion_id }),
        };
        (it.words.clone(), command)
    });
    BulkQuestion {
        verb: "Cancel",
        noun: "deletion",
        follows: CANCEL_FOLLOWS,
        planned: planned.collect(),
    }
}
