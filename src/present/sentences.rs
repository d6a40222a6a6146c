//! Short sentences about deletions, steps, blockers, events and the rows of a chart.

use chrono::{DateTime, Utc};

use super::words::*;
use crate::domain::attention::Cause;
use crate::domain::awaiting::{deployment_of, fate_words, silent_deployment};
use crate::domain::estimate::{Outlook, is_blocked, outlook};
use crate::domain::gantt::GanttRow;
use crate::domain::ladder::Rung;
use crate::domain::model::{
    Action, Blocker, Counts, Deletion, EventKind, Mapped, OnFailure, Plan, PlanOptions,
    RefusalRule, ResourceKey, Step, StepError, StepState, Target, short_id,
};
use crate::domain::relations::{Relation, RelationKind};

/// A slower rate is not shown: it would read as zero.
const RATE_SHOWN_MIN: f64 = 0.05;

/// Describes a blocker: `floating IP 203.0.113.9 (project demo, not in this plan)`.
pub fn blocker_words(blocker: &Blocker) -> String {
    if let Some(name) = silent_deployment(blocker) {
        return format!("pending clearance of deployment {name}");
    }
    let name = name_or_whole_id(&blocker.name, &blocker.id);
    let words = format!("{} {name}", kind_words(&blocker.kind));
    if let (Some(at), Some(fate)) = (deployment_of(blocker), fate_words(blocker)) {
        return format!("{words} at {at} ({fate})");
    }
    let owner = match blocker.owner.is_empty() {
        true => "owner unknown".to_owned(),
        false => format!("project {}", blocker.owner_shown()),
    };
    let plan = match blocker.in_plan {
        true => "in this plan",
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
    let has_owner = !blocker.owner.is_empty();
    let owner = has_owner.then(|| format!("project {}", blocker.owner_shown()));
    let since = blocker.since.map(|at| format!("since {}", time(at)));
    let fate = fate_words(blocker).unwrap_or(match blocker.in_plan {
        true => "in this plan",
        false => "not in this plan",
    });
    let facts = owner.into_iter().chain(since).chain([fate.to_owned()]);
    let facts = joined(facts, ", ");
    let Blocker { kind, id, site, .. } = blocker;
    format!("{kind}{name} {id} at {site} ({facts})")
}

/// Describes all blockers of a step in full; empty if there are none.
pub fn blocked_by_words(step: &Step) -> String {
    joined(step.blockers.iter().map(blocker_words_in_full), "; ")
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
    joined(targets.iter().map(target_in_full), "; ")
}

/// `409 NetworkInUse: … (req-1)`, as the cloud said it.
pub fn answer_words(error: &StepError) -> String {
    let head = match status_and_type(error.status, &error.kind) {
        head if head.is_empty() => error.class.as_str().to_owned(),
        head => head,
    };
    let request = match error.request_id.as_str() {
        "" => String::new(),
        id => format!(" ({id})"),
    };
    format!("{head}: {}{request}", error.message)
}

/// `409 PortInUse (blocked)`, or the error class alone if there is no status and no type; `without an answer` if there
/// is no class.
pub fn cause_words(cause: &Cause) -> String {
    let Some(class) = cause.class else {
        return "without an answer".to_owned();
    };
    let class = class.as_str().replace('_', " ");
    let error_type = cause.error_type.as_deref().unwrap_or_default();
    match status_and_type(cause.status, error_type) {
        words if words.is_empty() => class,
        words => format!("{words} ({class})"),
    }
}

/// `409 PortInUse`; empty if neither is known.
fn status_and_type(status: Option<u16>, error_type: &str) -> String {
    let words = format!("{} {error_type}", or_empty(status));
    words.trim().to_owned()
}

/// `used by port web-1 (port on network web)`
pub fn relation_words(relation: &Relation) -> String {
    let how = match relation.how {
        RelationKind::Uses => "uses",
        RelationKind::UsedBy => "used by",
        RelationKind::OwnedBy => "belongs to",
        RelationKind::DeletedBy => "in",
        RelationKind::ProtectedBy => "protected",
    };
    let note = relation.note.as_str();
    let Some(Target { key, name }) = &relation.resource else {
        return match relation.how {
            RelationKind::ProtectedBy => format!("{how}: {note}"),
            _ => format!("{how} {note}"),
        };
    };
    let words = resource_words(&key.kind, name, &key.id);
    match note {
        "" => format!("{how} {words}"),
        note => format!("{how} {words} ({note})"),
    }
}

/// Returns why a resource refuses a plan, as the end of a sentence about the resource: `port web-1 is` *protected*.
pub fn rule_words(rule: RefusalRule) -> &'static str {
    match rule {
        RefusalRule::InUse => "in use",
        RefusalRule::OtherProject => "of another project",
        RefusalRule::Protected => "protected",
        RefusalRule::Copies => "not copied exactly once",
        RefusalRule::Cycle => "in a cycle",
        RefusalRule::Unreadable => "unreadable",
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
    words + &and_more(deletion.targets.len() - 1)
}

/// ` and 2 more`, as the end of a list; empty if nothing is left out.
pub fn and_more(left_out: usize) -> String {
    match left_out {
        0 => String::new(),
        more => format!(" and {more} more"),
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

/// `4.2/s, 2-4 min left`, at the rate of the last minute; `next attempt at 2026-11-26T03:12:07Z` if some steps are
/// blocked, and none is ready or under way; none if nothing is known. `at` writes a time.
pub fn pace_words(deletion: &Deletion, at: impl Fn(DateTime<Utc>) -> String) -> Option<String> {
    let rate = Some(deletion.rate_per_second).filter(|rate| *rate >= RATE_SHOWN_MIN);
    let rate = rate.map(|rate| format!("{rate:.1}/s"));
    let outlook = outlook(deletion).map(|outlook| match outlook {
        Outlook::Within { least, most } => format!("{} left", range_words(least, most)),
        Outlook::NextAttempt(next) => format!("next attempt at {}", at(next)),
    });
    let words = joined(rate.into_iter().chain(outlook), ", ");
    (!words.is_empty()).then_some(words)
}

/// Returns the state of a deletion for people: `blocked` if it runs, some of its steps are blocked, and none is ready
/// or under way.
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

/// `attempt 3 of 8`; if no attempt is counted, words in its place, such as `not sent`.
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

/// Returns in one line why a step has not ended: its first blocker if one is known, else the cloud's answer.
pub fn step_reason(step: &Step) -> String {
    if let Some(blocker) = step.blockers.first() {
        return blocker_words(blocker) + &and_more(step.blockers.len() - 1);
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

/// All blockers of a step, and the answer if there is one.
pub fn blocked_reason(step: &Step, answer: Option<String>) -> String {
    let blockers = blocked_by_words(step);
    let blocked = (!blockers.is_empty()).then(|| format!("blocked by {blockers}"));
    joined(blocked.into_iter().chain(answer), ": ")
}

/// Returns in one line why a deletion was refused.
pub fn refusal_reason(deletion: &Deletion) -> String {
    let refusal = deletion.refused.first();
    let reason = refusal.map_or(&deletion.note, |refusal| &refusal.reason);
    let blocker = refusal.and_then(|refusal| refusal.blocker.as_ref());
    blocker.map_or_else(|| reason.clone(), blocker_words)
}

/// Returns the number of steps in each of these states that has any, such as `880 waiting, 9,120 gone`.
pub fn counts_words(counts: &Counts, states: [StepState; 9]) -> String {
    let some = states.into_iter().filter(|state| counts.of(*state) > 0);
    let words = some.map(|state| format!("{} {}", thousands(counts.of(state)), state.as_str()));
    joined(words, ", ")
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
        (
            stops,
            "on failure stop",
            "on failure go on with the other steps",
        ),
        (
            options.include_public,
            "also resources that other projects may use",
            "",
        ),
        (options.with_project, "also the Keystone project", ""),
        (options.with_servers, "also the servers on the networks", ""),
    ];
    let choices = choices.map(|(is_on, on, off)| if is_on { on } else { off });
    choices.into_iter().filter(|it| !it.is_empty()).collect()
}

/// Returns the kind of a row of the chart, with the action if that is not a delete: `detach router interface`.
pub fn chart_words(row: &GanttRow) -> String {
    let kind = kind_words(&row.kind);
    match row.action {
        Action::Delete => kind,
        other => format!("{} {kind}", other.as_str()),
    }
}

/// Returns the progress of a row, such as `port at prod/RegionOne: 12 of 600 ended`.
pub fn chart_facts(row: &GanttRow) -> String {
    let (what, site) = (chart_words(row), &row.site);
    let (ended, steps) = (thousands(row.ended), thousands(row.steps));
    format!("{what} at {site}: {ended} of {steps} ended")
}

/// Describes the row's step that ended last, or a step that has not ended, and the dependency for which this step
/// waited.
pub fn chart_last_words(row: &GanttRow, time: impl Fn(DateTime<Utc>) -> String) -> String {
    let last = &row.last;
    let name = &last.name;
    let waited = last.waited_for.as_ref();
    let other = waited.map(|it| format!("{} {}", kind_words(&it.kind), it.name));
    match (last.ended_at, other, waited.and_then(|it| it.ended_at)) {
        (Some(at), Some(other), Some(before)) => {
            let seconds = (at - before).num_seconds().unsigned_abs();
            let (at, took) = (time(at), duration(seconds));
            format!(
                "the last step to end was {name} at {at}: {took} after {other}, for which it waited"
            )
        }
        (Some(at), Some(other), None) => {
            let at = time(at);
            format!(
                "the last step to end was {name} at {at}; {other}, for which it waited, has not ended"
            )
        }
        (Some(at), None, _) => {
            let at = time(at);
            format!("the last step to end was {name} at {at}; it waited for no other step")
        }
        (None, Some(other), None) => format!("{name} has not ended: it waits for {other}"),
        (None, Some(other), Some(before)) => {
            let before = time(before);
            format!(
                "{name} has not ended; the last step that it waited for, {other}, ended at {before}"
            )
        }
        (None, None, _) => format!("{name} has not ended; it waits for no other step"),
    }
}
