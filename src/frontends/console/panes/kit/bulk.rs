//! One action on all marked rows, after a question whose answer is their number. To abandon them, the person types
//! that word too, because it cannot be undone.

use std::collections::{BTreeMap, BTreeSet};

use super::acts::step_words;
use super::{Action, Confirm, Context, Tone};
use crate::control::Command;
use crate::domain::ladder::{PurgeScope, Rung};
use crate::domain::model::{Deletion, DeletionState, Site, Step, StepState, short_id};
use crate::present::{count, target_words, thousands};

/// Maximum number of rows that the question names; the others are counted.
const NAMED_MAX: usize = 3;

/// The step or the deletion of a marked row.
#[derive(Clone, Copy)]
pub(crate) enum MarkedItem<'r> {
    Step(&'r Step),
    Deletion(&'r Deletion),
}

/// What is done to one of the marked rows.
struct Item {
    words: String,
    command: Command,
}

/// A question before it is asked.
struct BulkQuestion {
    /// The verb for the action: `Retry`.
    verb: &'static str,
    /// The word for one of the items: `step`.
    noun: &'static str,
    items: Vec<Item>,
    /// Number of marked rows to which nothing happens, by the reason.
    left_out: BTreeMap<&'static str, usize>,
    /// The consequence, in a sentence for the person.
    follows: &'static str,
}

impl BulkQuestion {
    fn new(verb: &'static str, noun: &'static str, follows: &'static str) -> Self {
        let (items, left_out) = Default::default();
        Self {
            verb,
            noun,
            items,
            left_out,
            follows,
        }
    }

    fn add(&mut self, words: String, command: Result<Command, &'static str>) {
        match command {
            Ok(command) => self.items.push(Item { words, command }),
            Err(why) => *self.left_out.entry(why).or_default() += 1,
        }
    }

    fn lines(&self) -> Vec<String> {
        let named = self.items.iter().take(NAMED_MAX);
        let mut named: Vec<&str> = named.map(|item| item.words.as_str()).collect();
        let more = self.items.len().saturating_sub(NAMED_MAX);
        let more = format!("{} more", thousands(more));
        if self.items.len() > NAMED_MAX {
            named.push(&more);
        }
        let mut lines = vec![
            format!("{} {}", self.verb, count(self.items.len(), self.noun)),
            self.follows.to_owned(),
        ];
        let left_out = self.left_out.iter();
        lines.extend(left_out.map(|(why, n)| format!("{} left out: {why}", thousands(*n))));
        lines.push(named.join(", "));
        lines
    }
}

/// Asks whether to perform the action on all these rows, or says why it can be performed on none.
pub(super) fn ask(marked_items: &[MarkedItem<'_>], action: Action, context: &mut Context) {
    let bulk = match action {
        Action::Retry => retry(marked_items),
        Action::Pause => pause(&deletions(marked_items, context)),
        Action::Cancel => cancel(&deletions(marked_items, context)),
        _ => abandon(marked_items),
    };
    let verb = bulk.verb.to_lowercase();
    if bulk.items.is_empty() {
        let why: Vec<&str> = bulk.left_out.keys().copied().collect();
        let none = format!("there is nothing to {verb}: {}", why.join("; "));
        return context.say(Tone::Warn, none);
    }
    let (n, lines) = (bulk.items.len(), bulk.lines());
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
    let what = format!("{verb} {}", count(n, bulk.noun));
    let commands = bulk.items.into_iter().map(|item| item.command).collect();
    let confirm = Confirm::of_marked(ask, accepted, what, commands).saying(lines);
    let sites = sites(marked_items);
    context.confirm(match abandons {
        true => confirm.at(sites.into_iter(), context.snapshot),
        false => confirm,
    });
}

fn sites<'r>(marked_items: &[MarkedItem<'r>]) -> BTreeSet<&'r Site> {
    let of = |marked_item: &MarkedItem<'r>| -> Vec<&'r Site> {
        match *marked_item {
            MarkedItem::Step(step) => vec![&step.resource.key.site],
            MarkedItem::Deletion(it) => it.targets.iter().map(|target| &target.key.site).collect(),
        }
    };
    marked_items.iter().flat_map(of).collect()
}

/// The word for the rows, if they are of one sort.
fn noun(marked_items: &[MarkedItem<'_>]) -> &'static str {
    let is_step = |marked_item: &MarkedItem| matches!(marked_item, MarkedItem::Step(_));
    match marked_items
        .iter()
        .filter(|marked_item| is_step(marked_item))
        .count()
    {
        0 => "deletion",
        steps if steps == marked_items.len() => "step",
        _ => "row",
    }
}

fn retry(marked_items: &[MarkedItem<'_>]) -> BulkQuestion {
    let follows = "Each is sent again. A step that is refused as in use goes to the retry queue.";
    let mut bulk = BulkQuestion::new("Retry", noun(marked_items), follows);
    for marked_item in marked_items {
        match marked_item {
            MarkedItem::Step(step) => {
                let command = Command::RetryStep { step_id: step.id };
                bulk.add(step_words(step), does_not_go(step).map(|()| command));
            }
            MarkedItem::Deletion(deletion) => {
                let deletion_id = deletion.id.clone();
                let command = match deletion.state {
                    DeletionState::Gone | DeletionState::Cancelled | DeletionState::Purged => {
                        Err("the deletion has ended")
                    }
                    DeletionState::Planning | DeletionState::AwaitingApproval => {
                        Err("the deletion has not begun")
                    }
                    _ => Ok(Command::Retry { deletion_id }),
                };
                bulk.add(target_words(deletion), command);
            }
        }
    }
    bulk
}

fn abandon(marked_items: &[MarkedItem<'_>]) -> BulkQuestion {
    let follows = "Nothing is sent, now or later: whatever still exists stays in its cloud, and is listed in \
                   :orphans. This cannot be undone.";
    let mut bulk = BulkQuestion::new("Abandon", noun(marked_items), follows);
    for marked_item in marked_items {
        let (words, what, deletion_id, can) = match marked_item {
            MarkedItem::Step(step) => (
                step_words(step),
                PurgeScope::Step(step.id),
                &step.deletion_id,
                does_not_go(step),
            ),
            MarkedItem::Deletion(deletion) => (
                target_words(deletion),
                PurgeScope::Deletion(deletion.id.clone()),
                &deletion.id,
                match deletion.counts.stuck + deletion.counts.blocked {
                    0 => Err("no step of it is stuck or blocked"),
                    _ => Ok(()),
                },
            ),
        };
        let command = Command::Purge {
            what,
            rung: Rung::Forget,
            confirm: short_id(deletion_id).to_owned(),
        };
        bulk.add(words, can.map(|()| command));
    }
    bulk
}

fn does_not_go(step: &Step) -> Result<(), &'static str> {
    match step.state {
        StepState::Stuck | StepState::Blocked => Ok(()),
        _ => Err("the step is neither stuck nor blocked"),
    }
}

/// A deletion that is marked, or one of whose steps is marked.
struct Whole {
    id: String,
    words: String,
    /// `None` if the snapshot does not have the deletion.
    state: Option<DeletionState>,
}

/// The deletions of these rows, each once.
fn deletions(marked_items: &[MarkedItem<'_>], context: &Context) -> Vec<Whole> {
    let mut seen = BTreeSet::new();
    let all = marked_items.iter().map(|marked_item| match marked_item {
        MarkedItem::Deletion(deletion) => Whole::of(deletion),
        MarkedItem::Step(step) => {
            let mut known = context.snapshot.deletions.iter();
            let known = known.find(|known| known.id == step.deletion_id);
            known.map_or_else(|| Whole::unknown(&step.deletion_id), Whole::of)
        }
    });
    all.filter(|whole| seen.insert(whole.id.clone())).collect()
}

impl Whole {
    fn of(deletion: &Deletion) -> Self {
        Self {
            id: deletion.id.clone(),
            words: target_words(deletion),
            state: Some(deletion.state),
        }
    }

    fn unknown(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            words: format!("deletion {}", short_id(id)),
            state: None,
        }
    }
}

/// Pauses the deletions; if all that can be paused are paused, resumes them.
fn pause(deletions: &[Whole]) -> BulkQuestion {
    let is_paused = |it: &&Whole| it.state == Some(DeletionState::Paused);
    let can = |it: &&Whole| !it.state.is_some_and(DeletionState::is_terminal);
    let resumes = deletions.iter().filter(can).all(|it| is_paused(&it));
    let mut bulk = match resumes {
        true => BulkQuestion::new("Resume", "deletion", "Each continues where it was paused."),
        false => {
            let follows = "Nothing more is sent until a person resumes it; calls that were already sent are completed.";
            BulkQuestion::new("Pause", "deletion", follows)
        }
    };
    for it in deletions {
        let deletion_id = it.id.clone();
        bulk.add(
            it.words.clone(),
            match resumes {
                _ if !can(&it) => Err("it has nothing to pause or resume"),
                true => Ok(Command::Resume { deletion_id }),
                false if is_paused(&it) => Err("it is paused already"),
                false => Ok(Command::Pause { deletion_id }),
            },
        );
    }
    bulk
}

fn cancel(deletions: &[Whole]) -> BulkQuestion {
    let follows =
        "Calls that were already sent are completed; all other resources are released and stay.";
    let mut bulk = BulkQuestion::new("Cancel", "deletion", follows);
    for it in deletions {
        let deletion_id = it.id.clone();
        let has_ended = it
            .state
            .is_some_and(|state| state.is_terminal() && state != DeletionState::Stuck);
        bulk.add(
            it.words.clone(),
            match has_ended {
                true => Err("the deletion has ended"),
                false => Ok(Command::Cancel { deletion_id }),
            },
        );
    }
    bulk
}
