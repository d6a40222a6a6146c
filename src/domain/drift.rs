//! Messages about newcomers: resources that appeared after a deletion's plan (P1, P11).

use super::attention::REFUSAL_ID;
use super::model::{Blocker, ErrorClass, Step, StepState, short_id};
use super::text::{and_more, escape};

/// The error type of a step whose resource was re-created (T14). Its class is drift if the resource was re-created more
/// often than allowed, but a person cannot accept this drift.
pub const RECREATED: &str = "Recreated";

/// Number of newcomers that one line names.
const NAMED_MAX: usize = 5;

/// Whether a step waits until a person accepts or refuses newcomers. False for a resource that was re-created
/// too often, because it needs another decision. False for a step that waits for a stuck step, because a person decides
/// about the stuck step's newcomers. False for a refused plan, because nothing of it was sent.
pub fn waits_for_drift_answer(step: &Step) -> bool {
    let error = step.last_error.as_ref();
    step.state == StepState::Stuck
        && step.held_by.is_none()
        && step.id != REFUSAL_ID
        && error.is_some_and(|it| it.class == ErrorClass::Drift && it.kind != RECREATED)
}

/// Returns the newcomers that a person accepts or refuses: the step's blockers that are not in the plan.
pub fn newcomers(step: &Step) -> impl Iterator<Item = &Blocker> {
    step.blockers.iter().filter(|blocker| !blocker.in_plan)
}

/// Returns a line that describes the first `NAMED_MAX` newcomers ([`newcomer_words`]) and counts the others, says
/// what to do, and quotes the cloud's own message.
pub fn newcomers_line(deletion_id: &str, named: &[&Blocker], count: usize, answer: &str) -> String {
    let id = short_id(deletion_id);
    let listed: Vec<String> = named
        .iter()
        .take(NAMED_MAX)
        .map(|it| newcomer_words(it))
        .collect();
    let more = and_more(count.saturating_sub(listed.len()));
    let (appeared, them) = match count {
        1 => ("1 resource appeared", "it"),
        _ => ("resources appeared", "them"),
    };
    let number = match count {
        1 => String::new(),
        many => format!("{many} "),
    };
    format!(
        "{number}{appeared} after the plan: {}{more}. Delete {them} too: gone drift {id} --accept. \
         Leave {them}, and end this deletion: gone drift {id} --refuse. The cloud answered: {answer}",
        listed.join(", ")
    )
}

/// Returns the words for a newcomer: kind, name, id, project and time of creation. A project or time that is not known
/// is left out.
pub fn newcomer_words(blocker: &Blocker) -> String {
    let name = match blocker.name.as_str() {
        "" => &blocker.id,
        name => name,
    };
    let owner = match (blocker.owner_name.as_str(), blocker.owner.as_str()) {
        ("", "") => String::new(),
        ("", id) => format!(", project {}", escape(id)),
        (name, _) => format!(", project {}", escape(name)),
    };
    let created = blocker
        .since
        .map(|at| format!(", created {} UTC", at.format("%F %T")))
        .unwrap_or_default();
    format!(
        "{} {} ({}{owner}{created})",
        blocker.kind,
        escape(name),
        escape(&blocker.id)
    )
}

/// Returns the note of a deletion whose newcomers a person refused: which resources stay, and because of which
/// newcomers (the first `NAMED_MAX` of each step, and the number of the others).
pub fn refusal_note(stuck: &[Step]) -> String {
    let steps: Vec<String> = stuck
        .iter()
        .map(|step| {
            let key = &step.resource.key;
            let name = match step.resource.name.as_str() {
                "" => &key.id,
                name => name,
            };
            let because: Vec<String> = newcomers(step).map(newcomer_words).collect();
            let named = &because[..because.len().min(NAMED_MAX)];
            format!(
                "{} {} stays, because of {}{}",
                key.kind,
                escape(name),
                named.join(", "),
                and_more(because.len() - named.len())
            )
        })
        .collect();
    format!("newcomers were refused: {}", steps.join("; "))
}
