//! The purge ladder (P3): which rungs are offered for a step that is stuck or blocked, what each rung does, and what
//! it leaves behind.
//!
//! | rung | what it does | when it is offered |
//! |---|---|---|
//! | `retry` | repeats the deletion's own call | for a step that is stuck or blocked |
//! | `unpin` | removes the edges that block the step and that its own deletion does not remove, by a deletion of their own; then `retry` | where such an edge is known, in the same project, and nothing protects it |
//! | `reset` | sends the cloud's own call that gives the resource a state from which it may be deleted; then deletes it | for a stuck or blocked step that deletes a resource of a kind with such a call, while the resource's row is in one of the states for which the call is meant, to a login with the required role |
//! | `force` | sends the cloud's own call for a resource that its normal delete does not remove | the same |
//! | `runbook` | sends nothing: prints the manual steps for this one id | for a stuck step whose kind has a runbook for its error, and whose id is safe in a command |
//! | `forget` | sends nothing: the engine abandons the step, and its resource becomes an orphan | for a step that is stuck or blocked |
//!
//! Limits for every rung: nothing is offered at a read-only site, for a step that waits for a stuck step, or for a
//! step whose resource another deletion deletes. For a protected resource, only `forget` is offered. While a cloud
//! works on an accepted delete, no rung except `retry` is offered, and `retry` only for a step that is stuck or
//! blocked, until the kind's time limit has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::kinds::{AnswerClass, Kind, RungRule, fill, holds, lookup_one};
use super::model::{Action, Deletion, ResourceKey, Site, Step, StepResource, StepState, short_id};
use super::text::{and_more, counted, did_you_mean, escape};

/// The error type of a step that is stuck only because another step is: it waits for that step, or its deletion stops
/// at failures.
pub const DEPENDENCY_STUCK: &str = "DependencyStuck";
/// The error type of a step whose resource another deletion deletes.
pub const LEFT_TO: &str = "LeftToAnotherDeletion";
/// The error type of a step that is stuck because a step for which it waited was abandoned.
pub const DEPENDENCY_ABANDONED: &str = "DependencyForgotten";

/// A rung of the purge ladder. The variants are in order, from the lowest rung (P3).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Rung {
    Retry,
    Unpin,
    /// A call of the cloud gives the resource a state from which it may be deleted.
    Reset,
    /// A call of the cloud deletes a resource that the ordinary delete does not remove.
    Force,
    Runbook,
    Forget,
}

impl Rung {
    /// All rungs, from the lowest.
    pub const ALL: [Self; 6] = [
        Self::Retry,
        Self::Unpin,
        Self::Reset,
        Self::Force,
        Self::Runbook,
        Self::Forget,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the rung makes the engine send calls.
    pub fn starts_work(self) -> bool {
        matches!(self, Self::Retry | Self::Unpin | Self::Reset | Self::Force)
    }

    /// Finds the rung that a person named.
    ///
    /// # Errors
    /// The word is not a rung; the message suggests the nearest one and lists all.
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

/// The steps to which a rung of the purge ladder is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeScope {
    /// All stuck and blocked steps of the deletion with this id or short id; for rungs other than retry and forget,
    /// the only one of them that waits for no other. If the deletion has none, the steps whose accepted delete is
    /// observed to be under way.
    Deletion(String),
    Step(i64),
}

/// The ladder of one step, or of all stuck and blocked steps of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ladder {
    pub deletion_id: String,
    /// The step of the ladder; none if the ladder is for the whole deletion.
    pub step_id: Option<i64>,
    /// Words for the steps: `load balancer api (4fdb…) at prod/RegionOne`, `3 stuck or blocked steps`,
    /// `2 steps whose delete a cloud still works on`, or `deletion 4fdb…` if no step of the deletion is any of these.
    pub subject: String,
    /// The sites of the steps.
    #[serde(default)]
    #[schema(required)]
    pub sites: Vec<Site>,
    /// What must be typed to take a rung: the short id of the deletion.
    pub confirm: String,
    /// One offer for each rung, from the lowest.
    pub offers: Vec<Offer>,
}

/// A rung of a ladder: what it does, or why it is not offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    pub rung: Rung,
    /// Why the rung is not offered, in one line; none if it is offered.
    pub why_not: Option<String>,
    /// The effects of the rung, one for each entry: each call with its resource, then its risks and consequences. Empty
    /// if the rung is not offered.
    pub does: Vec<String>,
    /// The resources that stay in the cloud afterwards, in words; empty for retry, reset and force, and for a rung that
    /// is not offered.
    pub leaves: String,
}

impl Ladder {
    pub fn offer(&self, rung: Rung) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.rung == rung)
    }
}

/// The facts about one step from which its ladder follows.
#[derive(Clone, Debug)]
pub struct Facts<'f> {
    pub step: &'f Step,
    pub kind: Option<&'f Kind>,
    /// Variables of the kind's calls, other than the parts of the id, such as `cascade`.
    pub variables: BTreeMap<String, String>,
    /// How long the cloud may work on a delete of this kind (I6).
    pub pending_max: Duration,
    /// Why no rung may lead to a delete of the resource: a rule protects it now (P4), or it is unknown
    /// whether a rule does.
    pub guarded: Option<String>,
    /// Whether the site is read-only.
    pub read_only: bool,
    /// The calls that would remove the edges that block the step, or why there are none.
    pub unpin_calls: Result<Vec<String>, String>,
    /// The row and the roles that decide on the rungs with a call of their own, or why these are not known.
    pub shown: Result<CurrentRow, String>,
    /// Number of steps that are stuck because this step is.
    pub waiting: u64,
}

/// A resource's current row, and the roles of the login that read it.
#[derive(Clone, Debug)]
pub struct CurrentRow {
    /// The resource's row as it is now.
    pub row: Value,
    /// The roles of the login at the step's site.
    pub roles: Vec<String>,
}

/// Builds the ladder of one step.
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

/// Builds the ladder of all stuck and blocked steps of a deletion. `roots` are the stuck and blocked steps that wait
/// for no other such step. If no step is stuck or blocked, `roots` are the steps whose accepted delete is observed to
/// be under way. A single root has its own ladder. For several roots, only `retry` and `forget` can be offered, each
/// only if it is offered for every root.
pub fn of_deletion(deletion: &Deletion, roots: &[Facts<'_>], now: DateTime<Utc>) -> Ladder {
    let not_going = deletion.counts.stuck + deletion.counts.blocked;
    if let [one] = roots {
        let mut ladder = of_step(deletion, one, now);
        if let Some(forget) = ladder.offers.iter_mut().find(|it| it.rung == Rung::Forget)
            && not_going > 1
        {
            forget.does = vec![abandoned_words(not_going)];
            forget.leaves = left_behind(not_going);
        }
        ladder.step_id = None;
        return ladder;
    }
    let subject = match roots {
        [] => format!("deletion {}", short_id(&deletion.id)),
        several if not_going == 0 => {
            format!(
                "{} steps whose delete a cloud still works on",
                several.len()
            )
        }
        _ => format!("{not_going} stuck or blocked steps"),
    };
    let nothing = || match deletion.state.is_terminal() {
        true => format!("the deletion is {}", deletion.state.as_str()),
        false => "none of its steps is stuck or blocked".to_owned(),
    };
    let offers = Rung::ALL.map(|rung| {
        let each: Vec<Offer> = roots.iter().map(|one| offer(rung, one, now)).collect();
        let refused = each.iter().find_map(|offer| offer.why_not.clone());
        let why_not = match rung {
            _ if roots.is_empty() => Some(nothing()),
            Rung::Retry | Rung::Forget => refused,
            Rung::Unpin | Rung::Reset | Rung::Force | Rung::Runbook => Some(one_at_a_time(roots)),
        };
        let forgets = rung == Rung::Forget && why_not.is_none();
        Offer {
            rung,
            does: match why_not {
                Some(_) => Vec::new(),
                None if forgets => vec![abandoned_words(not_going)],
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

/// Number of steps that one line names. The other steps are counted.
const NAMED_MAX: usize = 8;

fn one_at_a_time(roots: &[Facts<'_>]) -> String {
    let numbers = roots.iter().map(|facts| facts.step.id.to_string());
    let named: Vec<String> = numbers.take(NAMED_MAX).collect();
    let more = and_more(roots.len().saturating_sub(NAMED_MAX));
    format!(
        "the rung works on one step at a time; name a step by its number: {}{more}",
        named.join(", ")
    )
}

fn offer(rung: Rung, facts: &Facts<'_>, now: DateTime<Utc>) -> Offer {
    let why_not = why_not(rung, facts, now);
    let step = facts.step;
    let (does, leaves) = match rung {
        _ if why_not.is_some() => (Vec::new(), String::new()),
        Rung::Retry => {
            let mut does = vec![call_of(facts, step.action.planned())];
            if step.state == StepState::Stuck {
                does.push("its attempts start from zero".to_owned());
            }
            (does, String::new())
        }
        Rung::Unpin => {
            let mut does = facts.unpin_calls.clone().unwrap_or_default();
            does.push(format!("then {}", call_of(facts, step.action.planned())));
            (
                does,
                "the resources on both sides of the removed edge stay".to_owned(),
            )
        }
        Rung::Reset => {
            let deletes = format!("then {}", call_of(facts, step.action.planned()));
            let mut does = vec![call_of(facts, Action::Reset), deletes];
            does.extend(risk(Action::Reset, facts));
            (does, String::new())
        }
        Rung::Force => {
            let mut does = vec![call_of(facts, Action::Force)];
            does.extend(risk(Action::Force, facts));
            (does, String::new())
        }
        Rung::Runbook => (
            vec!["sends nothing: shows what to do manually, for this one id".to_owned()],
            "the resource stays until a person has done the steps; then retry".to_owned(),
        ),
        Rung::Forget => {
            let mut does = vec!["sends nothing: the engine abandons the step".to_owned()];
            if facts.waiting > 0 {
                does.push(format!(
                    "the steps that wait for it ({}) are not sent automatically: they stay stuck \
                     until you retry them",
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
    match &step.last_error {
        Some(stuck) if stuck.kind == DEPENDENCY_STUCK => {
            return Some(format!(
                "the step {}: purge that other step instead",
                stuck.message
            ));
        }
        Some(left) if left.kind == LEFT_TO => return Some(left.message.clone()),
        _ => {}
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
        Rung::Unpin => facts.unpin_calls.as_ref().err().cloned(),
        Rung::Reset => no_call(Action::Reset, facts),
        Rung::Force => no_call(Action::Force, facts),
        Rung::Runbook if !stuck => Some(match step.next_attempt_at {
            Some(at) => format!(
                "the step is only blocked for now, and is retried at {} UTC",
                at.format("%F %T")
            ),
            None => "the step is only blocked for now".to_owned(),
        }),
        Rung::Runbook => no_runbook(facts),
        Rung::Forget => None,
    }
}

/// Returns the kind's rule for a rung that makes this call.
fn rung_rule<'k>(call: Action, facts: &Facts<'k>) -> Option<&'k RungRule> {
    let mut rules = facts.kind?.spec.rungs.iter();
    rules.find(|rule| rule.call == call)
}

fn risk(call: Action, facts: &Facts<'_>) -> Option<String> {
    Some(format!("risk: {}", rung_rule(call, facts)?.risk))
}

/// Returns why a rung with a call of its own is not offered; none if it is.
fn no_call(call: Action, facts: &Facts<'_>) -> Option<String> {
    let step = facts.step;
    let Some(rule) = rung_rule(call, facts) else {
        let name = &step.resource.key.kind;
        return Some(format!("the kind {name} has no such call"));
    };
    if step.action.planned() != Action::Delete {
        let word = step.action.as_str();
        return Some(format!(
            "the action of the step is {word}, and the rung is only for a delete"
        ));
    }
    let CurrentRow { row, roles } = match &facts.shown {
        Ok(shown) => shown,
        Err(why) => return Some(why.clone()),
    };
    if let Some(role) = rule.role.as_ref().filter(|role| !roles.contains(role)) {
        return Some(format!("it needs the role {role}"));
    }
    if holds(&rule.when, row) {
        return None;
    }
    let states = rule.when.keys().map(|path| {
        let shown = lookup_one(row, path).unwrap_or_else(|| "none".to_owned());
        format!("{path} is {}", escape(&shown))
    });
    let states: Vec<String> = states.collect();
    let (word, states) = (call.as_str(), states.join(", "));
    Some(format!(
        "the call {word} is not meant for the resource's state: {states}"
    ))
}

/// Returns why no rung is offered for a step that is neither stuck nor blocked.
fn under_way(facts: &Facts<'_>) -> String {
    let step = facts.step;
    match step.state {
        StepState::Verifying => match works_until(facts) {
            Some(until) => still_working(facts, until),
            None => {
                "the delete was sent; gone confirms the resource's absence automatically".to_owned()
            }
        },
        state => format!("the step is {}", state.as_str()),
    }
}

/// Returns the time until which the cloud may work on an accepted delete; none if the cloud is not working on
/// one.
fn works_until(facts: &Facts<'_>) -> Option<DateTime<Utc>> {
    let (kind, error) = (facts.kind?, facts.step.last_error.as_ref()?);
    let settles = kind.spec.settles.as_ref()?;
    let works = settles.pending.contains(&error.kind)
        || kind.calls.meaning(error) == Some(AnswerClass::Pending);
    let limit = chrono::TimeDelta::from_std(facts.pending_max).ok()?;
    works
        .then_some(facts.step.blocked_since?)?
        .checked_add_signed(limit)
}

fn still_working(facts: &Facts<'_>, until: DateTime<Utc>) -> String {
    let settles = facts
        .kind
        .and_then(|kind| kind.spec.settles.as_ref())
        .map_or("the cloud may still work on the delete", |it| {
            it.warning.as_str()
        });
    format!("not before {} UTC: {settles}", until.format("%F %T"))
}

fn no_runbook(facts: &Facts<'_>) -> Option<String> {
    let step = facts.step;
    let name = &step.resource.key.kind;
    let Some(runbook) = facts.kind.and_then(|kind| kind.spec.runbook.as_ref()) else {
        return Some(format!("the kind {name} has no runbook"));
    };
    let error = step.last_error.as_ref();
    let said = |part: &String| {
        error.is_some_and(|error| error.kind.contains(part) || error.message.contains(part))
    };
    if !runbook.says.iter().any(said) {
        return Some(format!(
            "the runbook of the kind {name} is for other errors ({})",
            runbook.says.join(", ")
        ));
    }
    (!is_plain(&step.resource.key.id))
        .then(|| "the resource's id has characters that are unsafe in a command".to_owned())
}

/// Whether an id is safe in a command of a shell or in SQL: it has only letters, digits, `-`, `_`, `.` and `,`.
fn is_plain(id: &str) -> bool {
    !id.is_empty()
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.,".contains(c))
}

/// Returns the runbook of a step with its variables filled in; none if its kind has none.
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
    // Validated at load: the runbook names no other variable.
    fill(&runbook.text, &variables).ok()
}

/// Writes the call of an action on a resource of this kind: `DELETE /v2.0/ports/4fdb…`. If the kind has no such call or
/// a variable is missing, writes `delete` and the resource's key.
pub fn call_line(
    kind: &Kind,
    action: Action,
    key: &ResourceKey,
    more: &BTreeMap<String, String>,
) -> String {
    let mut variables = more.clone();
    variables.extend(kind.id_variables(&key.id));
    // The parts of an edge's id are variables too.
    if let Some(derived) = &kind.spec.derived {
        for (path, part) in derived.id.iter().zip(key.id.split(',')) {
            let named = derived.set.iter().filter(|(_, at)| *at == path);
            variables.extend(named.map(|(name, _)| (name.clone(), part.to_owned())));
        }
    }
    let called = kind.calls.line(action, &variables);
    called.unwrap_or_else(|| format!("delete {key}"))
}

fn call_of(facts: &Facts<'_>, action: Action) -> String {
    let step = facts.step;
    let key = &step.resource.key;
    let line = match facts.kind {
        Some(kind) => call_line(kind, action, key, &facts.variables),
        None => format!("{} {key}", action.as_str()),
    };
    escape(&line).into_owned()
}

fn abandoned_words(number: u64) -> String {
    let steps = counted(number, "step");
    format!("sends nothing: the engine abandons {steps}")
}

fn left_behind(number: u64) -> String {
    format!("all {number}, as orphans: gone list orphans shows them")
}

fn called(step: &Step) -> String {
    let StepResource { key, name } = &step.resource;
    format!("{} at {}", key.called(name), key.site)
}
