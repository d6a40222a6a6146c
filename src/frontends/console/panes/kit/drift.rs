//! Accepting newcomers (P11): a key opens a typed confirmation that names them; nothing is sent before that.

use crate::control::{Command, Snapshot};
use crate::domain::drift::{called, newcomers, waits_for_an_answer};
use crate::domain::model::{Step, short_id};

use super::{Confirm, Context, Tone};
use crate::present::count;

/// Maximum number of newcomers that the confirmation names; the others are counted.
const NAMED_MAX: usize = 8;

/// Asks whether to delete the newcomers that a step is stuck with, or says why there is no question.
pub(crate) fn ask(step: &Step, context: &mut Context<'_>) {
    match confirmation(step, context.snapshot) {
        Some(confirm) => context.confirm(confirm),
        None => context.say(
            Tone::Warn,
            "only what is stuck with drift can be accepted: resources that appeared after the plan",
        ),
    }
}

fn confirmation(step: &Step, snapshot: &Snapshot) -> Option<Confirm> {
    if !waits_for_an_answer(step) {
        return None;
    }
    let id = short_id(&step.deletion_id);
    let newcomers: Vec<_> = newcomers(step).collect();
    let mut lines = vec![format!(
        "{} appeared after the plan:",
        count(newcomers.len(), "resource")
    )];
    lines.extend(newcomers.iter().take(NAMED_MAX).map(|it| called(it)));
    let more = newcomers.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.push("To accept deletes them too, in your name and under the same guards.".to_owned());
    lines.push(format!(
        "To leave them and end the deletion: gone drift {id} --refuse"
    ));
    let confirm = Confirm::new(
        format!("the short id of the deletion, {id}"),
        vec![id.to_owned()],
        format!("acceptance of the newcomers of deletion {id}"),
        Command::Drift {
            deletion_id: step.deletion_id.clone(),
            accept: true,
        },
    );
    let site = &step.resource.key.site;
    Some(confirm.saying(lines).at(std::iter::once(site), snapshot))
}
