//! The keys that act on a step or a deletion, in whatever pane it is shown.

use super::{Action, Cell, CommandWords, Confirm, Context, Copied, Feed, RenderContext, Tone};
use crate::control::{Command, SiteSpec, Snapshot, TargetSpec, query};
use crate::domain::drift::{newcomer_words, newcomers, waits_for_drift_answer};
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{
    Deletion, DeletionState, ResourceKey, Step, StepResource, Target, short_id,
};
use crate::frontends::console::about::{deletion_lines, step_lines};
use crate::frontends::console::panes::{Record, Route};
use crate::present::{count, refusal_reason, resource_words, step_reason, target_words};

/// Maximum number of newcomers that the confirmation names; the others are counted.
const NAMED_MAX: usize = 8;

/// A step or a deletion, which have the same keys in whatever pane they are shown.
#[derive(Clone, Copy)]
pub(crate) enum WorkItem<'r> {
    Step(&'r Step),
    Deletion(&'r Deletion),
}

impl<'r> WorkItem<'r> {
    pub(crate) fn either<T>(
        self,
        of_step: impl FnOnce(&'r Step) -> T,
        of_deletion: impl FnOnce(&'r Deletion) -> T,
    ) -> T {
        match self {
            Self::Step(step) => of_step(step),
            Self::Deletion(deletion) => of_deletion(deletion),
        }
    }

    pub(crate) fn scope(self) -> PurgeScope {
        let of_deletion = |it: &Deletion| PurgeScope::Deletion(it.id.clone());
        self.either(|step| PurgeScope::Step(step.id), of_deletion)
    }

    /// The id of the deletion, or of the deletion that the step belongs to.
    pub(crate) fn deletion_id(self) -> String {
        self.either(|step| &step.deletion_id, |it| &it.id).clone()
    }

    /// Names the resource of the step, such as `network web`, or the targets of the deletion.
    pub(crate) fn words(self) -> String {
        self.either(step_words, target_words)
    }

    pub(crate) fn state(self, look: &RenderContext) -> Cell {
        self.either(
            |step| look.step_state(step.state),
            |it| look.deletion_state(it),
        )
    }

    /// The blocker or the last error of the step, or why the deletion was refused.
    pub(crate) fn reason(self) -> String {
        self.either(step_reason, refusal_reason)
    }

    pub(crate) fn lines(self, look: &RenderContext) -> Vec<Cell> {
        self.either(|step| step_lines(step, look), |it| deletion_lines(it, look))
    }

    /// [`Self::words`] and [`Self::lines`], for a pane whose columns may have cut the words.
    pub(crate) fn lines_in_full(self, look: &RenderContext) -> Vec<Cell> {
        let words = Cell::plain(self.words());
        [words].into_iter().chain(self.lines(look)).collect()
    }

    /// The texts that can be copied: the id of the step's resource, and the last answer if there is one; or the id of the
    /// deletion.
    pub(crate) fn copies(self) -> Vec<Copied> {
        let id = self.either(|step| &step.resource.key.id, |it| &it.id);
        let error = self.either(Copied::error, |_| None);
        [Copied::id(id)].into_iter().chain(error).collect()
    }

    pub(crate) fn act(self, action: Action, context: &mut Context) {
        match (action, self) {
            (Action::Open, Self::Step(step)) => {
                context.push(Route::InspectStep(step.id, self.deletion_id()));
            }
            // A deletion without steps has no tree; the pane of its facts shows, for example, why it was refused.
            (Action::Open, Self::Deletion(deletion)) if deletion.counts.total == 0 => {
                context.push(Route::InspectDeletion(Box::new(deletion.clone())));
            }
            (Action::Open, Self::Deletion(_)) => context.push(Route::Tree(self.deletion_id())),
            (Action::Explain, Self::Step(step)) => {
                context.push(Route::Explain(step.resource.key.clone(), self.words()));
            }
            (Action::AcceptDrift | Action::RefuseDrift, Self::Step(step)) => {
                ask_about_drift(step, action == Action::AcceptDrift, context);
            }
            (Action::Chart, Self::Deletion(deletion)) => {
                context.push(Route::Chart(Box::new(deletion.clone())));
            }
            (Action::Report, _) => context.report(self.deletion_id()),
            (Action::Pause, _) => WholeDeletion::of(self, context.snapshot).pause(context),
            (Action::Cancel, _) => {
                context.confirm(WholeDeletion::of(self, context.snapshot).cancel());
            }
            (action, _) => _ = act(&self.scope(), self.words(), action, context),
        }
    }
}

/// Returns a feed that queries a step or a deletion, which `read` turns into rows.
pub(crate) fn feed_of<T: 'static>(of: PurgeScope, read: fn(WorkItem<'_>) -> Vec<T>) -> Feed<T> {
    match of {
        PurgeScope::Step(id) => {
            let read = move |step: Box<Step>| read(WorkItem::Step(&step));
            Feed::reading(query::Step { id }, read)
        }
        PurgeScope::Deletion(id) => {
            let read = move |deletion: Box<Deletion>| read(WorkItem::Deletion(&deletion));
            Feed::reading(query::Deletion { id }, read)
        }
    }
}

/// Names the resource of a step, such as `network web`.
pub(crate) fn step_words(step: &Step) -> String {
    let StepResource { key, name } = &step.resource;
    resource_words(&key.kind, name, &key.id)
}

/// `network web at prod/RegionOne`
pub(crate) fn words_at(Target { key, name }: &Target) -> String {
    let words = resource_words(&key.kind, name, &key.id);
    format!("{words} at {}", key.site)
}

/// The resource as commands and queries name it.
pub(crate) fn target_spec(key: &ResourceKey) -> TargetSpec {
    TargetSpec {
        kind: key.kind.as_str().to_owned(),
        id_or_name: key.id.clone(),
        site: SiteSpec::Region(key.site.clone()),
    }
}

/// The command to retry the step, or all stuck and blocked steps of the deletion.
pub(super) fn retry(of: PurgeScope) -> Command {
    match of {
        PurgeScope::Step(step_id) => Command::RetryStep { step_id },
        PurgeScope::Deletion(deletion_id) => Command::Retry { deletion_id },
    }
}

/// The command to pause a deletion, or to resume it if it is paused.
pub(super) fn pausing(is_paused: bool, deletion_id: String) -> Command {
    match is_paused {
        true => Command::Resume { deletion_id },
        false => Command::Pause { deletion_id },
    }
}

/// Shows the blockers, the purge ladder or the YAML of a step or a deletion, or retries it; returns false if the action
/// is another one.
pub(crate) fn act(of: &PurgeScope, words: String, action: Action, context: &mut Context) -> bool {
    let of = of.clone();
    match action {
        Action::Blockers => context.push(Route::Blockers(of, words)),
        Action::Ladder => context.push(Route::Ladder(of, words)),
        Action::Yaml => context.push(Route::Yaml(Record::Work(of), words)),
        Action::Retry => {
            let words = CommandWords::of(format!("retry of {words}"));
            context.submit(words, retry(of));
        }
        _ => return false,
    }
    true
}

/// A deletion, or the deletion that a step belongs to.
pub(super) struct WholeDeletion {
    pub(super) id: String,
    pub(super) words: String,
    /// `None` if the snapshot does not have the deletion.
    pub(super) state: Option<DeletionState>,
}

impl WholeDeletion {
    pub(super) fn of(item: WorkItem<'_>, snapshot: &Snapshot) -> Self {
        let id = item.deletion_id();
        let known = match item {
            WorkItem::Deletion(deletion) => Some(deletion),
            WorkItem::Step(_) => snapshot.deletions.iter().find(|known| known.id == id),
        };
        Self {
            words: known.map_or_else(|| format!("deletion {}", short_id(&id)), target_words),
            state: known.map(|deletion| deletion.state),
            id,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state == Some(DeletionState::Paused)
    }

    /// Pauses the deletion, or resumes it if it is paused.
    fn pause(self, context: &mut Context) {
        let is_paused = self.is_paused();
        let words = CommandWords::pausing(is_paused, &self.words);
        context.submit(words, pausing(is_paused, self.id));
    }

    fn cancel(self) -> Confirm {
        let Self { id, words, .. } = self;
        let lines = vec![
            format!("Cancel the deletion of {words} ({})", short_id(&id)),
            CANCEL_FOLLOWS.to_owned(),
        ];
        let confirm = Confirm::new(
            "y".to_owned(),
            vec!["y".to_owned(), "yes".to_owned()],
            format!("cancelling {words}"),
            Command::Cancel { deletion_id: id },
        );
        confirm.done(format!("{words} is cancelled")).saying(lines)
    }
}

/// The consequence of a cancellation.
pub(super) const CANCEL_FOLLOWS: &str = "Calls that were already sent are completed. Resources that still exist stay, and their tombstones are released.";

/// Asks for the confirmation to delete the newcomers (P11) that block a step, or to leave them; or says that the step
/// does not wait for an answer.
fn ask_about_drift(step: &Step, accept: bool, context: &mut Context) {
    if !waits_for_drift_answer(step) {
        let none =
            "this step waits for no answer: no resource that appeared after the plan blocks it";
        return context.say(Tone::Warn, none);
    }
    let id = short_id(&step.deletion_id);
    let newcomers: Vec<_> = newcomers(step).collect();
    let new = count(newcomers.len(), "resource");
    let mut lines = vec![format!("{new} appeared after the plan:")];
    let named = newcomers.iter().take(NAMED_MAX);
    lines.extend(named.map(|it| newcomer_words(it)));
    if let more @ 1.. = newcomers.len().saturating_sub(NAMED_MAX) {
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
    let done = format!("the newcomers of deletion {id} are {is}");
    let site = std::iter::once(&step.resource.key.site);
    context.confirm(confirm.done(done).saying(lines).at(site, context.snapshot));
}
