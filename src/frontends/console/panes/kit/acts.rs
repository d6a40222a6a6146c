//! The keys that act on a step or a deletion, in whatever pane it is shown.

use super::{Action, Confirm, Context, PaneRequest, drift};
use crate::control::Command;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, DeletionState, Step, short_id};
use crate::frontends::console::panes::Route;
use crate::present::{resource_words, target_words};

pub(crate) fn step_words(step: &Step) -> String {
    resource_words(
        &step.resource.key.kind,
        &step.resource.name,
        &step.resource.key.id,
    )
}

/// Shows the blockers or the purge ladder of a step or a deletion, or retries it; returns false if the action
/// is another one.
pub(crate) fn act(
    of: &PurgeScope,
    words: String,
    action: Action,
    context: &mut Context<'_>,
) -> bool {
    match action {
        Action::Blockers => context.push(Route::Blockers(of.clone(), words)),
        Action::Ladder => context.push(Route::Ladder(of.clone(), words)),
        Action::Retry => {
            let command = match of.clone() {
                PurgeScope::Step(step_id) => Command::RetryStep { step_id },
                PurgeScope::Deletion(deletion_id) => Command::Retry { deletion_id },
            };
            let what = format!("retry of {words}");
            context.requests.push(PaneRequest::Submit { what, command });
        }
        _ => return false,
    }
    true
}

pub(crate) fn act_on_step(step: &Step, action: Action, context: &mut Context<'_>) {
    let words = step_words(step);
    match action {
        Action::Open => context.push(Route::InspectStep(step.id, step.deletion_id.clone())),
        Action::Explain => context.push(Route::Explain(step.resource.key.clone(), words)),
        Action::AcceptDrift => drift::ask(step, context),
        action => {
            act(&PurgeScope::Step(step.id), words, action, context);
        }
    }
}

pub(crate) fn act_on_deletion(deletion: &Deletion, action: Action, context: &mut Context<'_>) {
    let boxed = || Box::new(deletion.clone());
    match action {
        // A refused deletion has no steps; the pane shows why it was refused.
        Action::Open if deletion.counts.total == 0 => {
            context.push(Route::InspectDeletion(boxed()));
        }
        Action::Open => context.push(Route::Tree(deletion.id.clone())),
        Action::Chart => context.push(Route::Chart(boxed())),
        Action::Pause => context.requests.push(pause(deletion)),
        Action::Cancel => context.confirm(cancel(deletion)),
        action => {
            let of = PurgeScope::Deletion(deletion.id.clone());
            act(&of, target_words(deletion), action, context);
        }
    }
}

/// Pauses a deletion, or resumes it if it is paused.
fn pause(deletion: &Deletion) -> PaneRequest {
    let deletion_id = deletion.id.clone();
    let (does, command) = match deletion.state {
        DeletionState::Paused => ("resuming", Command::Resume { deletion_id }),
        _ => ("pausing", Command::Pause { deletion_id }),
    };
    let what = format!("{does} {}", target_words(deletion));
    PaneRequest::Submit { what, command }
}

fn cancel(deletion: &Deletion) -> Confirm {
    let (what, deletion_id) = (target_words(deletion), deletion.id.clone());
    let confirm = Confirm::new(
        "y".to_owned(),
        vec!["y".to_owned(), "yes".to_owned()],
        format!("cancelling {what}"),
        Command::Cancel { deletion_id },
    );
    confirm.saying(vec![
        format!("Cancel the deletion of {what} ({})", short_id(&deletion.id)),
        "What was sent already runs to its end; what was not is released and stays.".to_owned(),
    ])
}
