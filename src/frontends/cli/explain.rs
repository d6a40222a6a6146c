//! `gone explain`: why a resource is not deleted, or what would block its deletion (P2).

use std::io;

use clap::Args;

use super::output::Printer;
use super::plan_view::{with_options, write_refusals};
use super::{Exit, Failure, Needs, Session, Verb, columns};
use crate::control::{Explanation, query};
use crate::domain::model::{Target, short_id};
use crate::domain::relations::Relation;
use crate::present::{
    answer_words, attempts_words, blocker_words_in_full, relation_words, state_words,
    target_in_full, time, time_or_empty,
};

/// Say why a resource is not deleted, or what would block its deletion
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone explain network/web@prod
  gone explain loadbalancer/api -o json")]
pub struct Explain {
    /// KIND/ID-or-NAME[@CLOUD[/REGION]], such as network/web@prod
    #[arg(value_name = "TARGET")]
    pub target: String,
}

impl Verb for Explain {
    fn needs(&self) -> Needs<'_> {
        Needs::reading(true).of_targets(std::slice::from_ref(&self.target))
    }

    async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        session.action_words = format!("explain {}", self.target);
        let mut found = Vec::new();
        // Several sites may have been chosen; each needs its own query.
        for target in session.targets(self.needs().targets).await? {
            found.push(*session.ask(query::Explain { target }).await?);
        }
        let csv = |out: &mut Printer<'_>| {
            let findings: Vec<_> = found.iter().flat_map(findings).collect();
            out.list(columns::FINDINGS, &findings)
        };
        let people =
            |out: &mut Printer<'_>| found.iter().try_for_each(|one| write_for_people(out, one));
        match found.as_slice() {
            [one] => session.out.report(one, csv, people)?,
            several => session.out.report(&several, csv, people)?,
        }
        Ok(Exit::Done)
    }
}

/// The findings and the blockers, one per line.
fn lines(explanation: &Explanation) -> impl Iterator<Item = String> {
    let blockers = explanation.blockers.iter().map(blocker_words_in_full);
    let blockers = blockers.map(|words| format!("blocked by {words}"));
    let lines = explanation.lines.iter().map(|line| with_options(line));
    lines.chain(blockers)
}

/// A relation with the id and the site of its other end: `used by port web-1: port/4fdb…@prod/RegionOne`.
fn relation_in_full(relation: &Relation) -> String {
    match &relation.resource {
        None => relation_words(relation),
        Some(Target { key, .. }) => format!("{}: {key}", relation_words(relation)),
    }
}

/// Returns a row for each finding, blocker, refusal and relation, and for the next action.
fn findings(explanation: &Explanation) -> Vec<(Target, String)> {
    let refusals = explanation.refused.iter();
    let refusals = refusals.map(|refusal| with_options(&refusal.reason));
    let next = Some(&explanation.next_action).filter(|next| !next.is_empty());
    let next = next.map(|next| format!("next: {next}"));
    let relations = explanation.relations.iter().map(relation_in_full);
    let all = lines(explanation)
        .chain(refusals)
        .chain(relations)
        .chain(next);
    let rows = all.map(|finding| (explanation.target.clone(), finding));
    rows.collect()
}

fn write_for_people(out: &mut Printer<'_>, explanation: &Explanation) -> io::Result<()> {
    out.say(target_in_full(&explanation.target))?;
    if let Some(deletion) = &explanation.deletion {
        let id = short_id(&deletion.id);
        out.say(format!("  deletion {id}: {}", state_words(deletion)))?;
    }
    if let Some(step) = &explanation.step {
        let (id, state) = (step.id, step.state.as_str());
        let next = step.next_attempt_at;
        let next = next.map(|at| format!(", next at {}", time(at)));
        let (attempts, next) = (attempts_words(step), next.unwrap_or_default());
        out.say(format!("  step {id} is {state}, {attempts}{next}"))?;
        if let Some(error) = &step.last_error {
            out.say(format!("  last answer: {}", answer_words(error)))?;
        }
    }
    if let Some(tombstone) = &explanation.tombstone {
        let since = time_or_empty(tombstone.deleted_at);
        let phase = tombstone.phase.as_str();
        out.say(format!("  tombstone: {phase} since {since}"))?;
    }
    for line in lines(explanation) {
        out.say(format!("  {line}"))?;
    }
    let relations = explanation.relations.iter().map(relation_in_full);
    out.section("Relations", relations)?;
    write_refusals(out, &explanation.refused)?;
    match explanation.next_action.as_str() {
        "" => Ok(()),
        next => out.say(format!("Next: {next}")),
    }
}
