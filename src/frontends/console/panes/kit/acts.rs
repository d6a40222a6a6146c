//! The keys that act on a step or a deletion, in whatever pane it is shown.

use super::{Action, CommandWords, Confirm, Context, Copied, PaneRequest, Tone};
use crate::control::{Command, SiteSpec, TargetSpec};
use crate::domain::drift::{newcomer_words, newcomers, waits_for_drift_answer};
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, DeletionState, ResourceKey, Step, Target, short_id};
use crate::frontends::console::panes::{Record, Route};
use crate::present::{count, resource_words, target_words};

/// Maximum number of newcomers that the confirmation names; the others are counted.
const NAMED_MAX: usize = 8;

/// Names the resource of a step, such as `network web`.
pub(crate) fn step_words(step: &Step) -> String {
    resource_words(
        &step.resource.key.kind,
        &step.resource.name,
        &step.resource.key.id,
    )
}

/// The texts of a step that can be copied: its resource's id, and the last answer if there is one.
pub(crate) fn step_copies(step: &Step) -> Vec<Copied> {
    let id = Copied::id(&step.resource.key.id);
    [id].into_iter().chain(Copied::error(step)).collect()
}

pub(crate) fn deletion_copies(deletion: &Deletion) -> Vec<Copied> {
    vec![Copied::id(&deletion.id)]
}

/// `network web at prod/RegionOne`
pub(crate) fn words_at(Target { key, name }: &Target) -> String {
    format!(
        "{} at {}",
        resource_words(&key.kind, name, &key.id),
        key.site
    )
}

/// The resource as commands and queries name it.
pub(crate) fn target_spec(key: &ResourceKey) -> TargetSpec {
    TargetSpec {
        kind: key.kind.as_str().to_owned(),
        id_or_name: key.id.clone(),
        site: SiteSpec::Region(key.site.clone()),
    }
}

/// Shows the blockers or the purge ladder of a step or a deletion, or retries it; returns false if the action
/// is another one.
pub(crate) fn act(of: &PurgeScope, words: String, action: Action, context: &mut Context) -> bool {
    match action {
        Action::Blockers => context.push(Route::Blockers(of.clone(), words)),
        Action::Ladder => context.push(Route::Ladder(of.clone(), words)),
        Action::Retry => {
            let command = match of.clone() {
                PurgeScope::Step(step_id) => Command::RetryStep { step_id },
                PurgeScope::Deletion(deletion_id) => Command::Retry { deletion_id },
            };
            let words = CommandWords::of(format!("retry of {words}"));
            context
                .requests
                .push(PaneRequest::Submit { words, command });
        }
        _ => return false,
    }
    true
}

pub(crate) fn act_on_step(step: &Step, action: Action, context: &mut Context) {
    let words = step_words(step);
    match action {
        Action::Open => context.push(Route::InspectStep(step.id, step.deletion_id.clone())),
        Action::Explain => context.push(Route::Explain(step.resource.key.clone(), words)),
        Action::Yaml => context.push(Route::Yaml(Record::Step(step.id), words)),
        Action::AcceptDrift => ask_about_drift(step, true, context),
        Action::RefuseDrift => ask_about_drift(step, false, context),
        Action::Report => {
            let id = step.deletion_id.clone();
            context.requests.push(PaneRequest::Report(id));
        }
        Action::Pause | Action::Cancel => act_on_deletion_of(step, action, context),
        action => {
            act(&PurgeScope::Step(step.id), words, action, context);
        }
    }
}

pub(crate) fn act_on_deletion(deletion: &Deletion, action: Action, context: &mut Context) {
    let boxed = || Box::new(deletion.clone());
    match action {
        // A refused deletion has no steps; the pane shows why it was refused.
        Action::Open if deletion.counts.total == 0 => {
            context.push(Route::InspectDeletion(boxed()));
        }
        Action::Open => context.push(Route::Tree(deletion.id.clone())),
        Action::Chart => context.push(Route::Chart(boxed())),
        Action::Report => {
            let id = deletion.id.clone();
            context.requests.push(PaneRequest::Report(id));
        }
        Action::Yaml => {
            let record = Record::Deletion(deletion.id.clone());
            context.push(Route::Yaml(record, target_words(deletion)));
        }
        Action::Pause => {
            let is_paused = deletion.state == DeletionState::Paused;
            let request = pause(is_paused, &target_words(deletion), deletion.id.clone());
            context.requests.push(request);
        }
        Action::Cancel => {
            context.confirm(cancel(target_words(deletion), deletion.id.clone()));
        }
        action => {
            let of = PurgeScope::Deletion(deletion.id.clone());
            act(&of, target_words(deletion), action, context);
        }
    }
}

/// Pauses or cancels the deletion that the step belongs to.
fn act_on_deletion_of(step: &Step, action: Action, context: &mut Context) {
    let mut known = context.snapshot.deletions.iter();
    let known = known.find(|known| known.id == step.deletion_id).cloned();
    let id = step.deletion_id.clone();
    let words = || format!("deletion {}", short_id(&step.deletion_id));
    match (known, action) {
        (Some(deletion), action) => act_on_deletion(&deletion, action, context),
        (None, Action::Cancel) => context.confirm(cancel(words(), id)),
        (None, _) => context.requests.push(pause(false, &words(), id)),
    }
}

/// Pauses a deletion, or resumes it if it is paused.
fn pause(is_paused: bool, words: &str, deletion_id: String) -> PaneRequest {
    let words = CommandWords::pausing(is_paused, words);
    let command = match is_paused {
        true => Command::Resume { deletion_id },
        false => Command::Pause { deletion_id },
    };
    PaneRequest::Submit { words, command }
}

fn cancel(what: String, deletion_id: String) -> Confirm {
    let short = short_id(&deletion_id).to_owned();
    let confirm = Confirm::new(
        "y".to_owned(),
        vec!["y".to_owned(), "yes".to_owned()],
        format!("cancelling {what}"),
        Command::Cancel { deletion_id },
    );
    let confirm = confirm.done(format!("{what} is cancelled"));
    confirm.saying(vec![
        format!("Cancel the deletion of {what} ({short})"),
        "Calls that were already sent are completed; all other resources are released and stay."
            .to_owned(),
    ])
}

/// Asks for the confirmation to delete the newcomers (P11) that block a step, or to leave them; or says that the step
/// does not wait for an answer.
fn ask_about_drift(step: &Step, accept: bool, context: &mut Context) {
    match confirmation(step, accept, context) {
        Some(confirm) => context.confirm(confirm),
        None => context.say(
            Tone::Warn,
            "this step waits for no answer: no resource that appeared after the plan blocks it",
        ),
    }
}

fn confirmation(step: &Step, accept: bool, context: &Context) -> Option<Confirm> {
    if !waits_for_drift_answer(step) {
        return None;
    }
    let id = short_id(&step.deletion_id);
    let newcomers: Vec<_> = newcomers(step).collect();
    let mut lines = vec![format!(
        "{} appeared after the plan:",
        count(newcomers.len(), "resource")
    )];
    lines.extend(
        newcomers
            .iter()
            .take(NAMED_MAX)
            .map(|it| newcomer_words(it)),
    );
    let more = newcomers.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let (word, is, follows, other) = match accept {
        true => (
            "acceptance",
            "accepted",
            "Accepting deletes them too, in your name and under the same guards.",
            "To leave them and end the deletion: esc, then {refuse_drift}",
        ),
        false => (
            "refusal",
            "refused",
            "Refusing leaves them and ends the deletion: the resources that they block stay too.",
            "To delete them too: esc, then {accept_drift}",
        ),
    };
    lines.push(follows.to_owned());
    lines.push(context.keys.spell(other));
    let confirm = Confirm::new(
        format!("the short id of the deletion, {id}"),
        vec![id.to_owned()],
        format!("{word} of the newcomers of deletion {id}"),
        Command::Drift {
            deletion_id: step.deletion_id.clone(),
            accept,
        },
    );
    let site = &step.resource.key.site;
    Some(
        confirm
            .done(format!("the newcomers of deletion {id} are {is}"))
            .saying(lines)
            .at(std::iter::once(site), context.snapshot),
    )
}
