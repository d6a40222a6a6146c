//! The content of a deletion's report, which is the same as text and as a web page.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::domain::gantt::{Gantt, GanttRow};
use crate::domain::model::{
    Actor, Deletion, DeletionState, Event, EventKind, KindName, Origin, Plan, PlanStep, Refusal,
    Site, Step, StepState, Target, short_id,
};
use crate::present::{
    Column, Sheet, answer_words, blocked_by_words, blocker_words_in_full, chart_last_words,
    chart_words, columns, duration, event_word, kind_words, or_empty, plan_options_words,
    plan_words, resource_words, state_words, step_reason, target_words, targets_in_full, thousands,
    time, time_or_empty, unfinished_reason,
};

/// Maximum number of rows of a section. The rest is counted: a report is read by people.
const ROWS_MAX: usize = 1_000;

/// The records that a report is made from.
pub(super) struct ReportRecords<'p> {
    pub(super) deletion: &'p Deletion,
    /// None if the deletion has no plan, for example if it was refused before it had one.
    pub(super) plan: Option<&'p Plan>,
    pub(super) steps: &'p [Step],
    pub(super) chart: Option<Gantt>,
    pub(super) history: History,
    pub(super) made_at: DateTime<Utc>,
}

/// The facts from a deletion's events, gathered while they are read.
#[derive(Default)]
pub(super) struct History {
    /// When each step ended, by its number.
    ended: BTreeMap<i64, DateTime<Utc>>,
    /// The events with errors: calls that a cloud did not carry out, or whose effect was missing; oldest first.
    refused: FirstEvents,
    /// The events of the deletion as a whole.
    story: FirstEvents,
}

/// The first of many events, and the number of the others.
#[derive(Default)]
struct FirstEvents {
    events: Vec<Event>,
    left_out: usize,
}

impl FirstEvents {
    fn push(&mut self, event: Event) {
        match self.events.len() < ROWS_MAX {
            true => self.events.push(event),
            false => self.left_out += 1,
        }
    }
}

impl History {
    pub(super) fn add(&mut self, event: Event) {
        let state = event.data.get("state").and_then(|state| state.as_str());
        let ends = [StepState::Gone, StepState::Skipped, StepState::Purged];
        let has_ended = ends.iter().any(|end| state == Some(end.as_str()));
        if let Some(step) = event.step_id.filter(|_| has_ended) {
            self.ended.insert(step, event.at);
        }
        let has_error = event.data.get("error").is_some_and(|it| !it.is_null());
        match event.kind {
            EventKind::Attempt | EventKind::StepState if has_error => self.refused.push(event),
            EventKind::Attempt | EventKind::StepState => {}
            _ => self.story.push(event),
        }
    }
}

pub struct Report {
    pub title: String,
    /// The deletion's state and its counts.
    pub outcome: String,
    /// Facts such as the targets, the requester, the plan, the options and the end, each with its label.
    pub facts: Vec<(&'static str, String)>,
    pub(super) chart: Option<Gantt>,
    pub sections: Vec<Section>,
}

/// One table of a report.
pub struct Section {
    pub title: &'static str,
    /// A sentence about the section's rows.
    pub about: &'static str,
    pub sheet: Sheet,
    left_out: usize,
}

impl Section {
    fn new<R>(
        title: &'static str,
        columns: &[Column<R>],
        rows: impl IntoIterator<Item = R, IntoIter: ExactSizeIterator>,
    ) -> Self {
        let rows = rows.into_iter();
        let left_out = rows.len().saturating_sub(ROWS_MAX);
        let rows: Vec<R> = rows.take(ROWS_MAX).collect();
        Self {
            title,
            about: "",
            sheet: Sheet::of(columns, &rows),
            left_out,
        }
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Sets the number of rows that were left out before the section was made.
    fn leaving_out(self, left_out: usize) -> Self {
        Self { left_out, ..self }
    }

    /// The number of rows that the section leaves out, in words; None if it leaves out none.
    pub fn more(&self) -> Option<String> {
        let more = thousands(self.left_out);
        (self.left_out > 0).then(|| format!("and {more} more"))
    }
}

/// The steps of one kind at one site.
#[derive(Default)]
struct Kind {
    name: String,
    site: String,
    steps: u64,
    gone: u64,
    /// Blocked or stuck.
    waiting: u64,
    last: Option<DateTime<Utc>>,
}

columns! {
    KINDS: Kind, |row|
    "KIND" 9 => row.name;
    "SITE" 8 => row.site;
    "STEPS" 7 => thousands(row.steps);
    "GONE" 9 => thousands(row.gone);
    "BLOCKED, STUCK" 6 => thousands(row.waiting);
    "LAST ENDED" 5 => time_or_empty(row.last);

    CHART: GanttRow, |row|
    "WHAT" 9 => chart_words(row);
    "SITE" 6 => row.site;
    "ENDED" 8 => format!("{} of {}", thousands(row.ended), thousands(row.steps));
    "THE LAST" 7 => chart_last_words(row, time);

    /// Blocked and stuck steps.
    WAITING: Step, |row|
    "STATE" 9 => row.state.as_str();
    "RESOURCE" 9 => step_name(row);
    "SITE" 4 => row.resource.key.site;
    "SINCE" 5 => time_or_empty(row.blocked_since);
    "ATTEMPTS" 3 => format!("{} of {}", row.attempts, row.max_attempts);
    "NEXT" 3 => time_or_empty(row.next_attempt_at);
    "BLOCKED BY" 8 => blocked_by_words(row);
    "ANSWER" 7 => or_empty(row.last_error.as_ref().map(answer_words));

    REFUSALS: Refusal, |row|
    "RESOURCE" 9 => target_name(&row.resource);
    "SITE" 5 => row.resource.key.site;
    "WHY" 8 => row.reason;
    "BLOCKED BY" 7 => or_empty(row.blocker.as_ref().map(blocker_words_in_full));

    /// Resources that are not deleted, each with the reason.
    STAYS: (Target, String), |row|
    "RESOURCE" 9 => target_name(&row.0);
    "ID" 5 => row.0.key.id;
    "SITE" 6 => row.0.key.site;
    "WHY" 8 => row.1;

    /// Steps, each with the time at which it ended, if it has.
    RESOURCES: (Step, Option<DateTime<Utc>>), |row|
    "STATE" 9 => row.0.state.as_str();
    "ENDED" 7 => time_or_empty(row.1);
    "ACTION" 3 => row.0.action.as_str();
    "KIND" 8 => kind_words(&row.0.resource.key.kind);
    "NAME" 8 => row.0.resource.name;
    "ID" 5 => row.0.resource.key.id;
    "SITE" 4 => row.0.resource.key.site;
    "PLANNED BECAUSE" 4 => row.0.why;
    "WHY NOT" 6 => unfinished_reason(&row.0);

    AUTOMATIC: PlanStep, |row|
    "KIND" 9 => kind_words(&row.kind);
    "NAME" 8 => row.name;
    "ID" 7 => row.resource_id;
    "SITE" 6 => row.site;
    "WHY" 5 => row.why;

    /// Refused attempts, each with the resource of its step.
    ATTEMPTS: (Event, String), |row|
    "TIME" 9 => time(row.0.at);
    "RESOURCE" 9 => row.1;
    "STATUS" 8 => or_empty(row.0.data.get("status").and_then(|status| status.as_u64()));
    "ANSWER" 9 => row.0.message;
    "REQUEST" 4 => or_empty(row.0.data.get("request_id").and_then(|id| id.as_str()));

    STORY: Event, |row|
    "TIME" 9 => time(row.at);
    "EVENT" 8 => event_word(row.kind);
    "MESSAGE" 9 => row.message;

    WARNINGS: String, |row|
    "WARNING" 9 => row;
}

fn target_name(target: &Target) -> String {
    resource_words(&target.key.kind, &target.name, &target.key.id)
}

impl Report {
    pub(super) fn new(parts: ReportRecords<'_>) -> Self {
        let deletion = parts.deletion;
        let id = short_id(&deletion.id);
        let facts = facts(&parts);
        let chart = parts.chart.clone();
        let mut sections = sections(parts);
        sections.retain(|section| !section.sheet.is_empty());
        Self {
            title: format!("Deletion {id}: {}", target_words(deletion)),
            outcome: state_words(deletion),
            facts,
            chart,
            sections,
        }
    }
}

fn facts(parts: &ReportRecords<'_>) -> Vec<(&'static str, String)> {
    let deletion = parts.deletion;
    let stopped = deletion.finished_at.map(|at| {
        let took = (at - deletion.requested_at).num_seconds();
        let took = duration(took.try_into().unwrap_or(0));
        format!("{}, after {took}", time(at))
    });
    // A stuck deletion continues once a person retries it.
    let end = match deletion.state {
        DeletionState::Stuck => "stuck since",
        _ => "ended at",
    };
    let plan = parts.plan.map(|plan| plan_words(plan, ", "));
    let facts = [
        ("id", deletion.id.clone()),
        ("targets", targets_in_full(&deletion.targets)),
        ("asked for by", actor_words(&deletion.requested_by)),
        ("asked for at", time(deletion.requested_at)),
        ("reason", deletion.reason.clone()),
        ("caused by", or_empty(deletion.cause.as_ref())),
        ("plan", plan.unwrap_or_default()),
        ("plan's hash", or_empty(deletion.plan_hash.as_ref())),
        ("options", plan_options_words(&deletion.options).join(", ")),
        (end, stopped.unwrap_or_default()),
        ("note", deletion.note.clone()),
        ("reported at", time(parts.made_at)),
    ];
    let said = facts.into_iter().filter(|(_, value)| !value.is_empty());
    said.collect()
}

/// `ada, by the console`
fn actor_words(actor: &Actor) -> String {
    let by = match actor.origin {
        Origin::Console => "by the console",
        Origin::Cli => "by the command line",
        Origin::Api => "by the API",
        Origin::Gate => "through a gate",
        Origin::Peer => "for another deployment",
        Origin::Engine => "by itself",
    };
    format!("{}, {by}", actor.name)
}

fn sections(parts: ReportRecords<'_>) -> Vec<Section> {
    let steps = parts.steps;
    let (kinds, stays, resources) = (kinds(&parts), stays(&parts), resources(&parts));
    let (refused, story) = (parts.history.refused, parts.history.story);
    let chart = parts.chart.map(|chart| chart.rows).unwrap_or_default();
    let is_waiting = |step: &&Step| matches!(step.state, StepState::Stuck | StepState::Blocked);
    let mut waiting: Vec<Step> = steps.iter().filter(is_waiting).cloned().collect();
    waiting.sort_by_key(|step| step.state != StepState::Stuck);
    let names = steps.iter().map(|step| (step.id, step_name(step)));
    let names: BTreeMap<i64, String> = names.collect();
    let attempts = refused.events.into_iter().map(|event| {
        let name = or_empty(event.step_id.and_then(|id| names.get(&id)));
        (event, name)
    });
    let plan = parts.plan.filter(|_| parts.deletion.refused.is_empty());
    let automatic = plan.map(|plan| plan.automatic.clone()).unwrap_or_default();
    let warnings = plan.map(|plan| plan.warnings.clone()).unwrap_or_default();
    vec![
        Section::new("Refused", REFUSALS, parts.deletion.refused.clone())
            .about("Nothing was sent, for these reasons."),
        Section::new("Resources by kind and site", KINDS, kinds)
            .about("The resources that the plan deletes, and how many of them are gone."),
        Section::new("Over time", CHART, chart)
            .about("Which steps ended last, and what they had waited for."),
        Section::new("Not gone", WAITING, waiting)
            .about("Steps that wait for a person or for their next attempt, and what blocks them."),
        Section::new("Resources that stay", STAYS, stays)
            .about("Resources that are not deleted: by the plan, or because their step was abandoned or skipped."),
        resources,
        Section::new("Removed by the cloud itself", AUTOMATIC, automatic)
            .about("Resources that the cloud removes along with others; gone sends nothing for them."),
        Section::new("Refused attempts", ATTEMPTS, attempts)
            .about("Calls that a cloud did not carry out, or whose effect was missing, with the cloud's answers.")
            .leaving_out(refused.left_out),
        Section::new("Warnings of the plan", WARNINGS, warnings)
            .about("The warnings that the plan had before its approval."),
        Section::new("What happened", STORY, story.events)
            .about("The events of the deletion as a whole.")
            .leaving_out(story.left_out),
    ]
}

fn step_name(step: &Step) -> String {
    let (key, name) = (&step.resource.key, &step.resource.name);
    resource_words(&key.kind, name, &key.id)
}

fn kinds(parts: &ReportRecords<'_>) -> Vec<Kind> {
    let mut kinds: BTreeMap<(&KindName, &Site), Kind> = BTreeMap::new();
    for step in parts.steps {
        let key = &step.resource.key;
        let row = kinds.entry((&key.kind, &key.site)).or_insert(Kind {
            name: kind_words(&key.kind),
            site: key.site.to_string(),
            ..Kind::default()
        });
        row.steps += 1;
        match step.state {
            StepState::Gone => row.gone += 1,
            StepState::Blocked | StepState::Stuck => row.waiting += 1,
            _ => {}
        }
        row.last = row.last.max(parts.history.ended.get(&step.id).copied());
    }
    kinds.into_values().collect()
}

/// The resources that stay: those that the plan keeps, and those whose step was abandoned or skipped.
fn stays(parts: &ReportRecords<'_>) -> Vec<(Target, String)> {
    let mut all = Vec::new();
    if let Some(plan) = parts.plan.filter(|_| parts.deletion.refused.is_empty()) {
        let why = "the plan keeps it, and deletes what belongs to it";
        all.extend(plan.kept.iter().map(|kept| (kept.clone(), why.to_owned())));
        let why = "it only loses its reference to a deleted resource";
        let target = |step: &PlanStep| Target::of(&step.key(), &step.name);
        all.extend(plan.unset.iter().map(|step| (target(step), why.to_owned())));
        let left = plan.left.iter();
        all.extend(left.map(|left| (left.resource.clone(), left.reason.clone())));
    }
    let steps = parts.steps.iter().filter_map(|step| {
        let why = match (step.state, step_reason(step)) {
            (StepState::Purged, reason) if reason.is_empty() => "a person abandoned it".to_owned(),
            (StepState::Purged, reason) => format!("a person abandoned it: {reason}"),
            (StepState::Skipped, _) => {
                "the deletion was cancelled before the resource was deleted".to_owned()
            }
            _ => return None,
        };
        Some((Target::of(&step.resource.key, &step.resource.name), why))
    });
    all.extend(steps);
    all
}

/// The steps with the times of their ends: first those that have not ended, then the abandoned and skipped ones, then
/// those whose resources are gone; each group by time.
fn resources(parts: &ReportRecords<'_>) -> Section {
    let ended = |step: &Step| {
        let is_over = !step.state.is_live() && step.state != StepState::Stuck;
        let at = parts.history.ended.get(&step.id);
        at.copied().filter(|_| is_over)
    };
    let mut all: Vec<&Step> = parts.steps.iter().collect();
    all.sort_by_cached_key(|step| (step.state == StepState::Gone, ended(step), step.id));
    let rows = all.into_iter().map(|step| (step.clone(), ended(step)));
    Section::new("Each resource", RESOURCES, rows).about(
        "The steps of the plan: first those whose resources are not gone, then the others by the time of their end.",
    )
}

/// The first and the last time of the chart.
pub(super) fn chart_span(chart: &Gantt) -> String {
    format!("{} – {}", time(chart.from), time(chart.until))
}
