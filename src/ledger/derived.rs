//! The state machine as SQL, where a statement derives the states of many rows at once.

use crate::domain::model::{DeletionState, StepState};
use crate::ledger::store::sql::{planned_action, takes_away};
use crate::ledger::transitions::deletion::{Condition, DERIVED, LIVE, has_finished};
use crate::ledger::transitions::step::{self, Facts, Trigger};

/// An expression for the state of a deletion whose plan has started, from its columns: see [`DERIVED`].
fn deletion_state() -> String {
    let cases = DERIVED.iter().map(|(state, condition)| {
        let holds = match condition {
            Condition::Cancelled => "cancelled".to_owned(),
            Condition::Paused => "paused".to_owned(),
            Condition::Any(states) => format!("{} > 0", sum(states)),
            Condition::Always => "true".to_owned(),
        };
        format!(" WHEN {holds} THEN '{}'", state.as_str())
    });
    format!("CASE{} END", cases.collect::<String>())
}

/// A condition: the count of some state differs from the number of the deletion's steps in that state.
fn miscounted() -> String {
    let differs = StepState::ALL.map(|state| {
        let state = state.as_str();
        format!(
            "{state} <> (SELECT count(*) FROM steps
                 WHERE steps.deletion = deletions.num AND steps.state = '{state}')"
        )
    });
    differs.join(" OR ")
}

/// Replaces the placeholders of a statement over deletions: `{state}` by [`deletion_state`], `{live}` by the
/// number of live steps, `{finished}` by the states in which a deletion without live steps has finished, and
/// `{miscounted}` by [`miscounted`]. In a statement over steps, replaces `{takes_away}` by [`takes_away`], and
/// `{action}`, `{s.action}` and `{o.action}` by [`planned_action`] of that column.
pub(super) fn fill(sql: &str) -> String {
    let finished = DeletionState::ALL.into_iter();
    let finished = finished.filter(|state| has_finished(*state, 0));
    let finished: Vec<String> = finished.map(|it| format!("'{}'", it.as_str())).collect();
    sql.replace("{state}", &deletion_state())
        .replace("{live}", &sum(&LIVE))
        .replace("{miscounted}", &miscounted())
        .replace("{finished}", &format!("({})", finished.join(", ")))
        .replace("{takes_away}", &takes_away())
        .replace("{action}", &planned_action("action"))
        .replace("{s.action}", &planned_action("s.action"))
        .replace("{o.action}", &planned_action("o.action"))
}

/// The number of steps in these states, from a deletion's columns.
fn sum(states: &[StepState]) -> String {
    let columns: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    format!("({})", columns.join(" + "))
}

/// An expression for the state of a step after a trigger; `column` has its state before the trigger. States in which
/// the trigger must not happen stay as they are.
pub(super) fn step_state(column: &str, trigger: Trigger, facts: Facts) -> String {
    let cases = StepState::ALL.into_iter().filter_map(|from| {
        let to = step::after(from, trigger, facts).ok()?.state;
        let (from, to) = (from.as_str(), to.as_str());
        (from != to).then(|| format!(" WHEN '{from}' THEN '{to}'"))
    });
    format!(
        "CASE {column}{} ELSE {column} END",
        cases.collect::<String>()
    )
}
