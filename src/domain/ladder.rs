//! The ladder of a force-purge (P3): which rungs are offered for what is stuck, what each will do, and
//! what it leaves behind.
//!
//! | rung | what it does | offered |
//! |---|---|---|
//! | `retry` | the deletion's own call again | of what is stuck, or blocked for now |
//! | `unpin` | removes the edges that hold it and that its own deletion does not remove, as a deletion of their own; then `retry` | where such an edge is known, of the same project, and nothing protects it |
//! | `runbook` | sends nothing: steps for this one id, by hand | where the kind has one for this error |
//! | `forget` | sends nothing: the engine gives up, and what is there becomes an orphan | of what is stuck, or blocked for now |
//!
//! Whatever the rung: nothing is offered at a read-only site; what would lead to a delete is not offered
//! of what a rule protects; and while a cloud works on a delete that it accepted, nothing but `retry`,
//! until the kind's own limit has passed.
//!
//! No service that we know has a call that resets the state of a resource, or that deletes it by force:
//! so there are no such rungs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::kinds::{AnswerClass, Kind, fill};
use super::model::{Deletion, ResourceKey, Site, Step, StepError, StepState, short_id};
use super::text::{did_you_mean, escape};

/// The type of the error of a step that is stuck only because it waits for one that is.
pub const HELD: &str = "DependencyStuck";
/// The error type of a step whose resource another deletion deletes.
pub const LEFT_TO: &str = "LeftToAnotherDeletion";
/// The type of the error of a step that waited for one that was forgotten.
pub const FORGOTTEN: &str = "DependencyForgotten";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    Retry,
    Unpin,
    Runbook,
    Forget,
}

impl Rung {
    /// From the lowest on.
    pub const ALL: [Self; 4] = [Self::Retry, Self::Unpin, Self::Runbook, Self::Forget];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Unpin => "unpin",
            Self::Runbook => "runbook",
            Self::Forget => "forget",
        }
    }

    /// # Errors
    /// For the person who wrote the word, with the nearest rung.
    pub fn parse(word: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::as_str);
        let found = Self::ALL.into_iter().find(|rung| rung.as_str() == word);
        found.ok_or_else(|| {
            format!(
                "unknown rung \"{}\"{}; the rungs are {}",
                escape(word),
                did_you_mean(word, names),
                names.join(", ")
            )
        })
    }
}

/// What a rung of the purge ladder is applied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeScope {
    /// By its id, or its short id: all of it that is stuck.
    Deletion(String),
    Step(i64),
}

/// The whole ladder of one step, or of all that is stuck or blocked in a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    pub deletion_id: String,
    /// None: of the deletion as a whole.
    pub step_id: Option<i64>,
    /// `load_balancer api (4fdb…) at prod/RegionOne`, or `3 stuck steps`.
    pub subject: String,
    /// Where what it is about is.
    #[serde(default)]
    pub sites: Vec<Site>,
    /// What must be typed to take a rung: the short id of the deletion.
    pub confirm: String,
    /// From the lowest rung on, all of them.
    pub offers: Vec<Offer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub rung: Rung,
    /// Why it is not offered, in one line; none if it is.
    pub why_not: Option<String>,
    /// What it will do, a fact a line: each call, and on what.
    pub does: Vec<String>,
    /// What is in the cloud afterwards.
    pub leaves: String,
}

impl Ladder {
    pub fn offer(&self, rung: Rung) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.rung == rung)
    }
}

/// What is known of one step that does not go.
#[derive(Clone, Debug)]
pub struct Facts<'f> {
    pub step: &'f Step,
    pub kind: Option<&'f Kind>,
    /// Variables of the kind's calls beside the id's own (`cascade`).
    pub variables: BTreeMap<String, String>,
    /// How long the cloud may work on a delete of this kind (I6).
    pub pending_max: Duration,
    /// Why nothing may lead to its delete: a rule that protects it now (P4), or that nobody can tell.
    pub guarded: Option<String>,
    /// The site takes no write.
    pub read_only: bool,
    /// The calls that would remove what pins it; or why there are none.
    pub pins: Result<Vec<String>, String>,
    /// Steps that wait for this one.
    pub waiting: u64,
}

/// The ladder of one step.
pub fn of_step(deletion: &Deletion, facts: &Facts<'_>, now: DateTime<Utc>) -> Ladder {
    let offers = Rung::ALL.map(|rung| offer(rung, facts, now));
    Ladder {
        deletion_id: deletion.id.clone(),
        step_id: Some(facts.step.id),
        subject: called(facts.step),
        sites: vec![facts.step.resource.key.site.clone()],
        confirm: short_id(&deletion.id).to_owned(),
        offers: offers.into(),
    }
}

/// The ladder of all that does not go in a deletion: that of its one step, or what all have in common.
/// `roots`: what waits for none of the others.
pub fn of_deletion(deletion: &Deletion, roots: &[Facts<'_>], now: DateTime<Utc>) -> Ladder {
    let not_going = deletion.counts.stuck + deletion.counts.blocked;
    if let [one] = roots {
        let mut ladder = of_step(deletion, one, now);
        if let Some(forget) = ladder.offers.iter_mut().find(|it| it.rung == Rung::Forget)
            && not_going > 1
        {
            forget.does = vec![given_up(not_going)];
            forget.leaves = left_behind(not_going);
        }
        ladder.step_id = None;
        return ladder;
    }
    let subject = match roots {
        [] => format!("deletion {}", short_id(&deletion.id)),
        several => format!("{} steps that do not go", several.len()),
    };
    let nothing = || match deletion.state.is_terminal() {
        true => format!("the deletion is {}", deletion.state.as_str()),
        false => "nothing of it is stuck or blocked".to_owned(),
    };
    let offers = Rung::ALL.map(|rung| {
        let each: Vec<Offer> = roots.iter().map(|one| offer(rung, one, now)).collect();
        let refused = each.iter().find_map(|offer| offer.why_not.clone());
        let why_not = match rung {
            _ if roots.is_empty() => Some(nothing()),
            Rung::Retry | Rung::Forget => refused,
            Rung::Unpin | Rung::Runbook => Some(one_at_a_time(roots)),
        };
        let forgets = rung == Rung::Forget && why_not.is_none();
        Offer {
            rung,
            does: match why_not {
                Some(_) => Vec::new(),
                None if forgets => vec![given_up(not_going)],
                None => each.into_iter().flat_map(|offer| offer.does).collect(),
            },
            leaves: if forgets {
                left_behind(not_going)
            } else {
                String::new()
            },
            why_not,
        }
    });
    let sites: BTreeSet<&Site> = roots.iter().map(|it| &it.step.resource.key.site).collect();
    Ladder {
        deletion_id: deletion.id.clone(),
        step_id: None,
        subject,
        sites: sites.into_iter().cloned().collect(),
        confirm: short_id(&deletion.id).to_owned(),
        offers: offers.into(),
    }
}

/// Numbers that are named in one line; the rest are counted.
const NAMED_MAX: usize = 8;

fn one_at_a_time(roots: &[Facts<'_>]) -> String {
    let numbers = roots.iter().map(|facts| facts.step.id.to_string());
    let named: Vec<String> = numbers.take(NAMED_MAX).collect();
    let more = match roots.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "it is for one step at a time: {}{more}, by its number",
        named.join(", ")
    )
}

fn offer(rung: Rung, facts: &Facts<'_>, now: DateTime<Utc>) -> Offer {
    let why_not = why_not(rung, facts, now);
    let step = facts.step;
    let (does, leaves) = match rung {
        _ if why_not.is_some() => (Vec::new(), String::new()),
        Rung::Retry => (
            vec![call_of(facts), "its attempts start anew".to_owned()],
            String::new(),
        ),
        Rung::Unpin => {
            let mut does = facts.pins.clone().unwrap_or_default();
            does.push(format!("then {}", call_of(facts)));
            (does, "both ends of what is removed stay".to_owned())
        }
        Rung::Runbook => (
            vec!["sends nothing: tells what to do by hand, for this one id".to_owned()],
            "what is there stays until the steps were taken; then retry".to_owned(),
        ),
        Rung::Forget => {
            let mut does = vec!["sends nothing: the engine gives it up".to_owned()];
            if facts.waiting > 0 {
                does.push(format!(
                    "what waits for it ({}) is not sent by itself: it stays stuck, and says so",
                    facts.waiting
                ));
            }
            let name = called(step);
            (
                does,
                format!("{name}, as an orphan: gone list orphans shows it"),
            )
        }
    };
    Offer {
        rung,
        why_not,
        does,
        leaves,
    }
}

fn why_not(rung: Rung, facts: &Facts<'_>, now: DateTime<Utc>) -> Option<String> {
    let step = facts.step;
    if facts.read_only {
        return Some(format!("{} is read-only", step.resource.key.site));
    }
    if let Some(held) = step.last_error.as_ref().filter(|error| error.kind == HELD) {
        return Some(format!("it {}: purge that one", held.message));
    }
    if let Some(left) = step
        .last_error
        .as_ref()
        .filter(|error| error.kind == LEFT_TO)
    {
        return Some(left.message.clone());
    }
    let stuck = step.state == StepState::Stuck;
    if !stuck && step.state != StepState::Blocked {
        return Some(under_way(facts));
    }
    if rung != Rung::Forget
        && let Some(why) = &facts.guarded
    {
        return Some(why.clone());
    }
    if rung == Rung::Retry {
        return None;
    }
    if let Some(until) = works_until(facts).filter(|until| *until > now) {
        return Some(still_working(facts, until));
    }
    match rung {
        Rung::Retry => None,
        Rung::Unpin => facts.pins.as_ref().err().cloned(),
        Rung::Runbook if !stuck => Some(match step.next_attempt_at {
            Some(at) => format!(
                "it is only blocked for now, and tried again at {}",
                at.format("%F %T")
            ),
            None => "it is only blocked for now".to_owned(),
        }),
        Rung::Runbook => no_runbook(facts),
        Rung::Forget => None,
    }
}

/// Of what is neither stuck nor blocked.
fn under_way(facts: &Facts<'_>) -> String {
    let step = facts.step;
    match step.state {
        StepState::Verifying => match works_until(facts) {
            Some(until) => still_working(facts, until),
            None => "its delete was sent, and it is looked for by itself".to_owned(),
        },
        state => format!("it is {}", state.as_str()),
    }
}

/// Until when a cloud may work on a delete that it accepted; none if it does not.
fn works_until(facts: &Facts<'_>) -> Option<DateTime<Utc>> {
    let (kind, error) = (facts.kind?, facts.step.last_error.as_ref()?);
    let settles = kind.spec.settles.as_ref()?;
    let works = settles.pending.contains(&error.kind) || is_pending(kind, error);
    let limit = chrono::TimeDelta::from_std(facts.pending_max).ok()?;
    works
        .then_some(facts.step.blocked_since?)?
        .checked_add_signed(limit)
}

fn is_pending(kind: &Kind, error: &StepError) -> bool {
    let rule = kind.classify(
        error.status.unwrap_or_default(),
        &error.kind,
        &error.message,
    );
    rule.is_some_and(|rule| rule.class == AnswerClass::Pending)
}

fn still_working(facts: &Facts<'_>, until: DateTime<Utc>) -> String {
    let settles = facts
        .kind
        .and_then(|kind| kind.spec.settles.as_ref())
        .map_or("the cloud may still work on it", |it| it.warning.as_str());
    format!("not before {}: {settles}", until.format("%F %T"))
}

fn no_runbook(facts: &Facts<'_>) -> Option<String> {
    let step = facts.step;
    let name = &step.resource.key.kind;
    let Some(runbook) = facts.kind.and_then(|kind| kind.spec.runbook.as_ref()) else {
        return Some(format!("there is none for a {name}"));
    };
    let error = step.last_error.as_ref();
    let said = |part: &String| {
        error.is_some_and(|error| error.kind.contains(part) || error.message.contains(part))
    };
    if !runbook.says.iter().any(said) {
        return Some(format!(
            "that of a {name} is for another error ({})",
            runbook.says.join(", ")
        ));
    }
    (!is_plain(&step.resource.key.id)).then(|| "its id cannot stand in a command".to_owned())
}

/// Nothing that a shell or SQL reads otherwise.
fn is_plain(id: &str) -> bool {
    !id.is_empty()
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.,".contains(c))
}

/// The runbook of a step, with its names in it; none if its kind has none.
pub fn runbook(kind: &Kind, step: &Step) -> Option<String> {
    let runbook = kind.spec.runbook.as_ref()?;
    let key = &step.resource.key;
    let shown = |text: &str| escape(text).into_owned();
    let variables = BTreeMap::from([
        ("id".to_owned(), shown(&key.id)),
        ("name".to_owned(), shown(&step.resource.name)),
        ("project".to_owned(), shown(&step.project_id)),
        ("site".to_owned(), shown(&key.site.to_string())),
        ("step".to_owned(), step.id.to_string()),
    ]);
    // Validated at load: it names no other variable.
    fill(&runbook.text, &variables).ok()
}

/// `DELETE /v2.0/ports/4fdb…`: the call that removes a resource of this kind.
pub fn call_line(kind: &Kind, key: &ResourceKey, more: &BTreeMap<String, String>) -> String {
    let mut variables = more.clone();
    variables.extend(kind.id_variables(&key.id));
    // The parts of an edge's id are variables too.
    if let Some(derived) = &kind.spec.derived {
        for (path, part) in derived.id.iter().zip(key.id.split(',')) {
            let named = derived.set.iter().filter(|(_, at)| *at == path);
            variables.extend(named.map(|(name, _)| (name.clone(), part.to_owned())));
        }
    }
    let called = kind.spec.delete.as_ref().and_then(|delete| {
        let path = fill(&delete.path, &variables).ok()?;
        Some(format!("{} {}{path}", delete.method, kind.prefix))
    });
    called.unwrap_or_else(|| format!("delete {key}"))
}

fn call_of(facts: &Facts<'_>) -> String {
    let step = facts.step;
    let key = &step.resource.key;
    let line = match facts.kind {
        Some(kind) => call_line(kind, key, &facts.variables),
        None => format!("{} {key}", step.action.as_str()),
    };
    escape(&line).into_owned()
}

fn given_up(number: u64) -> String {
    format!(
        "sends nothing: the engine gives up {number} {}",
        steps(number)
    )
}

fn left_behind(number: u64) -> String {
    format!("all {number}, as orphans: gone list orphans shows them")
}

fn steps(n: u64) -> &'static str {
    if n == 1 { "step" } else { "steps" }
}

fn called(step: &Step) -> String {
    let key = &step.resource.key;
    match step.resource.name.as_str() {
        "" => format!("{} {} at {}", key.kind, escape(&key.id), key.site),
        name => format!(
            "{} {} ({}) at {}",
            key.kind,
            escape(name),
            escape(&key.id),
            key.site
        ),
    }
}
