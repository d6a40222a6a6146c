//! Short sentences about deletions, steps, blockers and events.

use chrono::{DateTime, Utc};

use super::words::{count, kind_words, range_words, resource_words, thousands, time};
use crate::domain::attention::Cause;
use crate::domain::awaiting::{deployment_of, fate_words, silent_deployment};
use crate::domain::estimate::{Outlook, is_blocked, outlook};
use crate::domain::ladder::Rung;
use crate::domain::model::{
    Blocker, Counts, Deletion, EventKind, Mapped, OnFailure, Plan, PlanOptions, RefusalRule,
    ResourceKey, Step, StepError, StepState, Target, short_id,
};
use crate::domain::relations::{Relation, RelationKind};

/// A slower rate is not shown: it would read as zero.
const RATE_SHOWN_MIN: f64 = 0.05;

/// Describes a blocker: `floating IP 203.0.113.9 (project demo, not in this plan)`.
pub fn blocker_words(blocker: &Blocker) -> String {
    if let Some(name) = silent_deployment(blocker) {
        return format!("pending clearance of deployment {name}");
    }
    let name = match blocker.name.as_str() {
        "" => &blocker.id,
        name => name,
    };
    let words = format!("{} {name}", kind_words(&blocker.kind));
    if let (Some(at), Some(fate)) = (deployment_of(blocker), fate_words(blocker)) {
        return format!("{words} at {at} ({fate})");
    }
    let owner = match blocker.owner.is_empty() {
        true => "owner unknown".to_owned(),
        false => format!("project {}", blocker.owner_shown()),
    };
    let plan = match blocker.in_plan {
        true => "goes with this plan",
        false => "not in this plan",
    };
    format!("{words} ({owner}, {plan})")
}

/// Describes a blocker for programs and for people who have to find it (P2): `port "web-1" 4fdb… at
/// prod/RegionOne (project demo, since 2026-11-02T03:04:05Z, not in this plan)`.
pub fn blocker_words_in_full(blocker: &Blocker) -> String {
    if let Some(name) = silent_deployment(blocker) {
        return format!("pending clearance of deployment {name}");
    }
    let name = match blocker.name.as_str() {
        "" => String::new(),
        name => format!(" \"{name}\""),
    };
    let owner = (!blocker.owner.is_empty()).then(|| blocker.owner_shown());
    let owner = owner.map(|owner| format!("project {owner}"));
    let since = blocker.since.map(|at| format!("since {}", time(at)));
    let fate = fate_words(blocker).unwrap_or(match blocker.in_plan {
        true => "in this plan",
        false => "not in this plan",
    });
    let facts = owner.into_iter().chain(since).chain([fate.to_owned()]);
    let facts: Vec<String> = facts.collect();
    let Blocker { kind, id, site, .. } = blocker;
    format!("{kind}{name} {id} at {site} ({})", facts.join(", "))
}

/// Describes all blockers of a step in full; empty if there are none.
pub fn blocked_by_words(step: &Step) -> String {
    let blockers: Vec<String> = step.blockers.iter().map(blocker_words_in_full).collect();
    blockers.join("; ")
}

/// `network web (4fdb…@prod/RegionOne)`, or without the name if there is none.
pub fn target_in_full(target: &Target) -> String {
    if target.name.is_empty() {
        return target.key.to_string();
    }
    let ResourceKey { kind, id, site } = &target.key;
    format!("{kind} {} ({id}@{site})", target.name)
}

/// All targets, each as [`target_in_full`].
pub fn targets_in_full(targets: &[Target]) -> String {
    let targets: Vec<String> = targets.iter().map(target_in_full).collect();
    targets.join("; ")
}

/// `409 NetworkInUse: … (req-1)`, as the cloud said it.
pub fn answer_words(error: &StepError) -> String {
    let status = error.status.map(|status| status.to_string());
    let kind = (!error.kind.is_empty()).then(|| error.kind.clone());
    let head: Vec<String> = status.into_iter().chain(kind).collect();
    let head = match head.is_empty() {
        true => error.class.as_str().to_owned(),
        false => head.join(" "),
    };
    let request = match error.request_id.as_str() {
        "" => String::new(),
        id => format!(" ({id})"),
    };
    format!("{head}: {}{request}", error.message)
}

/// `409 PortInUse (blocked)`, or the error class alone if there is no status and no type.
pub fn cause_words(cause: &Cause) -> String {
    let Some(class) = cause.class else {
        return "without an answer".to_owned();
    };
    let status = cause.status.map(|status| status.to_string());
    let kind = cause.error_type.clone().filter(|kind| !kind.is_empty());
    let words: Vec<String> = status.into_iter().chain(kind).collect();
    match words.is_empty() {
        true => class.as_str().replace('_', " "),
        false => format!("{} ({})", words.join(" "), class.as_str().replace('_', " ")),
    }
}

/// Returns how a resource is related to another: `used by`.
fn relation_word(how: RelationKind) -> &'static str {
    match how {
        RelationKind::Uses => "uses",
        RelationKind::UsedBy => "used by",
        RelationKind::OwnedBy => "belongs to",
        RelationKind::DeletedBy => "in",
        RelationKind::ProtectedBy => "protected",
    }
}

/// `used by port web-1 (port on network web)`
pub fn relation_words(relation: &Relation) -> String {
    let how = relation_word(relation.how);
    let note = relation.note.as_str();
    match &relation.resource {
        None if relation.how == RelationKind::ProtectedBy => format!("{how}: {note}"),
        None => format!("{how} {note}"),
        Some(Target { key, name }) => {
            let words = resource_words(&key.kind, name, &key.id);
            match note {
                "" => format!("{how} {words}"),
                note => format!("{how} {words} ({note})"),
            }
        }
    }
}

/// Returns why a resource refuses a plan, as the end of a sentence about it: `port web-1 is` *protected*.
pub fn rule_words(rule: RefusalRule) -> &'static str {
    match rule {
        RefusalRule::InUse => "in use",
        RefusalRule::OtherProject => "of another project",
        RefusalRule::Protected => "protected",
        RefusalRule::Copies => "not copied exactly once",
        RefusalRule::Cycle => "in a cycle",
        RefusalRule::Unreadable => "cannot be read",
        RefusalRule::NotShown => "not shown to this login",
        RefusalRule::Drift => "not as approved",
    }
}

/// Returns the word for the kind of an event in a timeline.
pub fn event_word(kind: EventKind) -> &'static str {
    match kind {
        EventKind::DeletionAccepted => "accepted",
        EventKind::DeletionPlanned => "planned",
        EventKind::DeletionRefused => "refused",
        EventKind::DeletionState => "deletion",
        EventKind::StepState => "step",
        EventKind::Attempt => "attempt",
        EventKind::Recreated => "re-created",
        EventKind::Revived => "revived",
        EventKind::Registry => "registry",
        EventKind::Deployment => "deployment",
        EventKind::Purge => "purge",
        EventKind::Drift => "drift",
        EventKind::Site => "site",
        EventKind::Engine => "engine",
        EventKind::NeedsPerson => "needs you",
    }
}

/// `network web and 2 more`
pub fn target_words(deletion: &Deletion) -> String {
    let Some(first) = deletion.targets.first() else {
        return String::new();
    };
    let words = resource_words(&first.key.kind, &first.name, &first.key.id);
    match deletion.targets.len() {
        1 => words,
        n => format!("{words} and {} more", n - 1),
    }
}

/// `running: gone 120 of 536, running 8, waiting 408, 4.2/s, 1-3 min left`
pub fn state_words(deletion: &Deletion) -> String {
    let counts = &deletion.counts;
    let (gone, total) = (counts.gone, counts.total);
    let mut words = format!("{}: gone {gone} of {total}", deletion_state_word(deletion));
    for state in StepState::ALL {
        let number = counts.of(state);
        if number > 0 && state != StepState::Gone {
            words += &format!(", {} {number}", state.as_str());
        }
    }
    match pace_words(deletion, time) {
        Some(pace) => format!("{words}, {pace}"),
        None => words,
    }
}

/// `120/536`: the steps whose resources are gone, of all steps. The resource of a skipped or an abandoned step may
/// still exist.
pub fn progress_words(counts: &Counts) -> String {
    format!("{}/{}", thousands(counts.gone), thousands(counts.total))
}

/// `4.2/s, 2-4 min left`, at the rate of the last minute; `next attempt at 2026-11-26T03:12:07Z` if all that is
/// left is blocked; none if nothing is known. `at` writes a time.
pub fn pace_words(deletion: &Deletion, at: impl Fn(DateTime<Utc>) -> String) -> Option<String> {
    let rate = Some(deletion.rate_per_second).filter(|rate| *rate >= RATE_SHOWN_MIN);
    let rate = rate.map(|rate| format!("{rate:.1}/s"));
    let outlook = outlook(deletion).map(|outlook| match outlook {
        Outlook::Within { least, most } => format!("{} left", range_words(least, most)),
        Outlook::NextAttempt(next) => format!("next attempt at {}", at(next)),
    });
    let words: Vec<String> = rate.into_iter().chain(outlook).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns the state of a deletion for people: `blocked` if it runs, but all steps that are left wait.
pub fn deletion_state_word(deletion: &Deletion) -> &'static str {
    match is_blocked(deletion) {
        true => StepState::Blocked.as_str(),
        false => deletion.state.as_str(),
    }
}

/// Describes the result of a rung. `orphans` names the list of orphans in this front end.
pub fn purged_words(rung: Rung, moved: u64, unpinned_by: Option<&str>, orphans: &str) -> String {
    let steps = count(moved, "step");
    match (rung, unpinned_by) {
        (_, Some(by)) => {
            let by = short_id(by);
            format!("deletion {by} removes the blockers of the step, which is then retried")
        }
        (Rung::Forget, None) => {
            format!("{steps} abandoned; {orphans} shows what is left behind")
        }
        (rung, None) => format!("{}: {steps}", rung.as_str()),
    }
}

/// `attempt 3 of 8`, or why there is none.
pub fn attempts_words(step: &Step) -> String {
    let error = step.last_error.as_ref();
    let was_answered = error.is_some_and(|error| error.status.is_some());
    match (step.attempts, step.state) {
        (0, StepState::Stuck) if was_answered => "sent; not retried automatically".to_owned(),
        (0, StepState::Stuck) => "not sent".to_owned(),
        (0, _) => "no failed attempt".to_owned(),
        (attempts, _) => format!("attempt {attempts} of {}", step.max_attempts),
    }
}

/// Returns in one line why a step does not go: the blocker if it is known, else the cloud's own words.
pub fn step_reason(step: &Step) -> String {
    if let Some(blocker) = step.blockers.first() {
        let more = match step.blockers.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        return blocker_words(blocker) + &more;
    }
    step.last_error.as_ref().map_or_else(String::new, |error| {
        let status = error.status.map(|s| format!("{s} ")).unwrap_or_default();
        format!("{status}{} {}", error.kind, error.message)
    })
}

/// Returns why a step has not ended: all of its blockers, and the last answer; empty if it has ended.
pub fn unfinished_reason(step: &Step) -> String {
    if !step.state.is_live() && step.state != StepState::Stuck {
        return String::new();
    }
    let message = step.last_error.as_ref().map(|error| error.message.clone());
    blocked_reason(step, message)
}

/// All blockers of a step, and what the cloud answered last.
pub fn blocked_reason(step: &Step, answer: Option<String>) -> String {
    let blockers = blocked_by_words(step);
    let blocked = (!blockers.is_empty()).then(|| format!("blocked by {blockers}"));
    let parts: Vec<String> = blocked.into_iter().chain(answer).collect();
    parts.join(": ")
}

/// Returns in one line why a deletion was refused.
pub fn refusal_reason(deletion: &Deletion) -> String {
    match deletion.refused.first() {
        None => deletion.note.clone(),
        Some(refusal) => match &refusal.blocker {
            None => refusal.reason.clone(),
            Some(blocker) => blocker_words(blocker),
        },
    }
}

/// Returns the number of steps in each of these states, such as `880 waiting, 9,120 gone`.
pub fn counts_words(counts: &Counts, states: [StepState; 9]) -> String {
    let some = states.into_iter().filter(|state| counts.of(*state) > 0);
    let words = some.map(|state| format!("{} {}", thousands(counts.of(state)), state.as_str()));
    words.collect::<Vec<_>>().join(", ")
}

/// `12 steps, 3 automatic, 1 unset, 0 refused, at most 14 calls`, and the copies if there are any.
pub fn plan_words(plan: &Plan, between: &str) -> String {
    let copies = plan.mapping.iter().flat_map(Mapped::copies).count();
    let counts = [
        count(plan.steps.len(), "step"),
        format!("{} automatic", plan.automatic.len()),
        format!("{} unset", plan.unset.len()),
        format!("{} refused", plan.refused.len()),
        format!("at most {}", count(plan.calls_estimate, "call")),
        match copies {
            1 => "1 copy at another site".to_owned(),
            n => format!("{n} copies at other sites"),
        },
    ];
    counts[..if copies > 0 { 6 } else { 5 }].join(between)
}

/// Returns the options of a plan in words. Options that extend the plan are named only if they are on.
pub fn plan_options_words(options: &PlanOptions) -> Vec<&'static str> {
    let stops = options.on_failure == OnFailure::Stop;
    let choices = [
        (options.cascade, "cascade on", "cascade off"),
        (
            options.delete_detached,
            "floating IPs released",
            "floating IPs kept",
        ),
        (stops, "on failure stop", "on failure go on with the rest"),
        (
            options.include_public,
            "also what other projects may use",
            "",
        ),
        (options.with_project, "also the Keystone project", ""),
        (options.with_servers, "also the servers on the networks", ""),
    ];
    let choices = choices
        .into_iter()
        .map(|(is_on, on, off)| if is_on { on } else { off });
    choices.filter(|choice| !choice.is_empty()).collect()
}
