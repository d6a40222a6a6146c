//! `:home`, the first screen. Its sections show the steps and deletions that need a person, each with its next key, the
//! deletions that run and how long they take, when blocked steps are retried, the sites, the deletions of the last day,
//! and the number of steps that need a person for each cause. While nothing is under way and nothing needs a person,
//! another section counts the resources of each kind and site.
//!
//! ```text
//! needs you    2 stuck, 1 refused
//!  ✖ stuck       load balancer lb-shop      409 Conflict: …       r retry
//! running      2 deletions
//!  ▶ running     network web                ████░░░░ 120/536      2-4 min
//! retried      next at 09:31:30             40 steps: 3 within 2m, 37 within 1h
//! sites        1 of 2 reachable
//! last 24 h    3 deletions ended, 1,203 resources gone
//! ```

use std::fmt::Display;
use std::sync::Arc;

use super::census::{Census, KindCount};
use super::heat;
use super::kit::*;
use crate::control::{SiteState, SiteStatus};
use crate::domain::attention::CauseGroup;
use crate::domain::drift::waits_for_drift_answer;
use crate::domain::duration;
use crate::domain::estimate::is_blocked;
use crate::domain::gantt::{DUE_WITHIN, Upcoming};
use crate::domain::last_day::LastDay;
use crate::domain::last_hour::LastHour;
use crate::domain::model::{Counts, Deletion, DeletionState, Step, StepState};
use crate::frontends::console::about::{deletions_in, fits_step, site_state, time_left, urgency};
use crate::present::{
    cause_words, count, joined, kind_words, progress_words, refusal_reason, step_reason,
    target_words, thousands,
};

/// Maximum numbers of rows of the sections. The heading of a section counts all of them, and opens their pane if there
/// is one.
const NEEDS_MAX: usize = 8;
const REFUSED_MAX: usize = 3;
const RUNNING_MAX: usize = 8;
const SITES_MAX: usize = 12;
const CAUSES_MAX: usize = 5;
const KINDS_MAX: usize = 20;
/// Maximum number of numbers in one line.
const NUMBERS_MAX: usize = 4;
const FIRST: &[&str] = &[
    "No deletion has been asked for yet. Once you start one, it is shown here.",
    ":network lists the networks; the name of any other kind lists its resources.",
    "{plan_deletion} on a row plans its deletion, and deletes nothing yet.",
];

struct HomePane {
    refused: Feed<Deletion>,
    causes: Feed<CauseGroup>,
    upcoming: Feed<Upcoming>,
    /// One deletion, if there is any.
    any: Feed<Deletion>,
    last_day: Feed<LastDay>,
    /// The resources, which are counted while nothing is under way and nothing needs a person.
    census: Census,
    /// The share of refused and failed calls to the sites in the last hour.
    heat: Feed<LastHour>,
    snapshot: Arc<Snapshot>,
}

enum HomeRow {
    /// The heading of a section, which counts all of its items and leads to the pane that shows them, if there is one.
    Section(Section),
    Step(Box<Step>),
    Deletion(Box<Deletion>),
    Site(Box<SiteStatus>),
    /// A cause, with the number of steps of the largest cause, which has a full bar.
    Cause(Box<CauseGroup>, u64),
    /// The number of resources of a kind.
    Kind(Box<KindCount>),
    /// The counts of the last day; `None` until the engine has counted them.
    LastDay(Option<LastDay>),
}

struct Section {
    name: &'static str,
    says: String,
    /// More facts, for a wide screen.
    more: String,
    tone: Tone,
    /// The word of the pane that shows all items; `None` if there is no such pane.
    pane: Option<&'static str>,
}

fn section(name: &'static str, tone: Tone, pane: &'static str, says: String) -> HomeRow {
    HomeRow::Section(Section {
        name,
        says,
        more: String::new(),
        tone,
        pane: Some(pane),
    })
}

pub(super) fn open(_: &Around<'_>) -> Opened {
    let home = HomePane {
        refused: first_deletions(&[DeletionState::Refused], REFUSED_MAX),
        causes: Feed::of(query::Causes::default()),
        upcoming: Feed::of(query::Upcoming {}),
        any: first_deletions(&[], 1),
        last_day: Feed::of(query::LastDay {}),
        census: Census::new(),
        heat: heat::last_hour(),
        snapshot: Arc::default(),
    };
    Ok(listed(home, Feed::silent()))
}

/// Queries the first deletions in these states, or in any state if the list is empty.
fn first_deletions(states: &[DeletionState], limit: usize) -> Feed<Deletion> {
    let deletions = query::Deletions {
        states: states.to_vec(),
        limit,
        ..query::Deletions::default()
    };
    Feed::reading(deletions, |page| page.rows)
}

/// `3 deletions ended, 1,203 resources gone`
fn last_day_words(day: Option<LastDay>) -> String {
    match day {
        None => "not counted yet".to_owned(),
        Some(LastDay { deletions: 0, .. }) => "no deletion ended".to_owned(),
        Some(LastDay { deletions, gone }) => {
            let (deletions, gone) = (count(deletions, "deletion"), count(gone, "resource"));
            format!("{deletions} ended, {gone} gone")
        }
    }
}

impl HomePane {
    fn rows(&self) -> Vec<HomeRow> {
        let mut rows = Vec::new();
        self.needs_you(&mut rows);
        self.running(&mut rows);
        rows.extend(self.retried().map(HomeRow::Section));
        self.sites(&mut rows);
        rows.push(HomeRow::LastDay(self.last_day.rows.first().copied()));
        self.causes(&mut rows);
        if self.census.is_shown {
            self.resources(&mut rows);
        }
        rows
    }

    /// Whether nothing runs, and nothing needs a person.
    fn is_at_rest(&self) -> bool {
        self.snapshot.attention.is_empty() && self.snapshot.deletions.is_empty()
    }

    fn needs_you(&self, rows: &mut Vec<HomeRow>) {
        let steps = self.snapshot.attention.iter().take(NEEDS_MAX);
        let slow = steps.clone().filter(|it| it.state == StepState::Verifying);
        let in_state = |state| deletions_in(state, &self.snapshot);
        let says = numbers([
            (self.snapshot.steps.stuck, "stuck"),
            (in_state(DeletionState::Refused), "refused"),
            (in_state(DeletionState::AwaitingApproval), "to approve"),
            (slow.count() as u64, "slow"),
        ]);
        if says.is_empty() {
            return;
        }
        rows.push(section("needs you", Tone::Bad, "stuck", says));
        rows.extend(steps.map(|step| HomeRow::Step(Box::new(step.clone()))));
        let refused = self.refused.rows.iter().take(REFUSED_MAX).cloned();
        rows.extend(refused.map(|it| HomeRow::Deletion(Box::new(it))));
    }

    fn running(&self, rows: &mut Vec<HomeRow>) {
        let running = &self.snapshot.deletions;
        if running.is_empty() {
            return;
        }
        let blocked = running.iter().filter(|it| is_blocked(it)).count();
        let mut says = count(running.len(), "deletion");
        if blocked > 0 {
            says.push_str(&format!(", {blocked} blocked"));
        }
        rows.push(section("running", Tone::Busy, "deletions", says));
        let shown = running.iter().take(RUNNING_MAX).cloned();
        rows.extend(shown.map(|it| HomeRow::Deletion(Box::new(it))));
    }

    /// The section that says when blocked steps are due for their next attempt.
    fn retried(&self) -> Option<Section> {
        let upcoming = self.upcoming.rows.first()?;
        let total = upcoming.now + upcoming.columns.iter().sum::<u64>();
        if total == 0 {
            return None;
        }
        let steps = count(total, "step");
        let next = upcoming.next;
        let next = next.map(|next| format!("next at {}", next.format("%H:%M:%S")));
        Some(Section {
            name: "retried",
            more: format!("{steps}: {}", due_words(upcoming)),
            says: next.unwrap_or(steps),
            tone: Tone::Warn,
            pane: Some("retrying"),
        })
    }

    fn sites(&self, rows: &mut Vec<HomeRow>) {
        let mut sites = self.snapshot.sites.clone();
        sites.sort_by_key(urgency);
        let answer = sites.iter().filter(|it| it.state == SiteState::Reachable);
        let (answer, all) = (answer.count(), sites.len());
        let none = "no cloud is configured: gone doctor says what to do";
        let (says, tone) = match all {
            0 => (none.to_owned(), Tone::Warn),
            1 if answer == all => ("1 reachable".to_owned(), Tone::Good),
            _ if answer == all => (format!("all {all} reachable"), Tone::Good),
            _ => (format!("{answer} of {all} reachable"), Tone::Warn),
        };
        rows.push(section("sites", tone, "sites", says));
        let shown = sites.into_iter().take(SITES_MAX);
        rows.extend(shown.map(|site| HomeRow::Site(Box::new(site))));
    }

    fn causes(&self, rows: &mut Vec<HomeRow>) {
        let causes = &self.causes.rows;
        let Some(most) = causes.iter().map(|it| it.steps).max() else {
            return;
        };
        let steps: u64 = causes.iter().map(|it| it.steps).sum();
        let (number, steps) = (count(causes.len(), "cause"), count(steps, "step"));
        let says = format!("{number} of {steps}");
        rows.push(section("causes", Tone::Warn, "causes", says));
        let shown = causes.iter().take(CAUSES_MAX).cloned();
        rows.extend(shown.map(|it| HomeRow::Cause(Box::new(it), most)));
    }

    /// Adds the section with the number of resources of each kind.
    fn resources(&self, rows: &mut Vec<HomeRow>) {
        let counts = self.census.counts();
        let total: u64 = counts.iter().map(|it| it.total()).sum();
        let total = count(total, "resource");
        let says = match self.census.progress() {
            (0, _) => "not counted yet".to_owned(),
            (counted, kinds) if counted == kinds => format!("{total} of all kinds"),
            (counted, kinds) => format!("{total}, {counted} of {kinds} kinds counted"),
        };
        rows.push(HomeRow::Section(Section {
            name: "resources",
            says,
            more: self.census.gaps(counts.len().saturating_sub(KINDS_MAX)),
            tone: Tone::Good,
            pane: None,
        }));
        let shown = counts.into_iter().take(KINDS_MAX).cloned();
        rows.extend(shown.map(|it| HomeRow::Kind(Box::new(it))));
    }

    /// The facts about a site; on a wide screen after a picture of its last hour.
    fn site_cell(&self, site: &SiteStatus, look: &RenderContext) -> Cell {
        let facts = site_facts(site, look);
        // The reason why a site does not answer needs the width.
        let has_room = look.width >= HEAT_FROM && site.reason.is_empty();
        match self.heat.rows.first().filter(|_| has_room) {
            None => Cell::dim(facts),
            Some(hour) => {
                let line = heat::heat_line(hour, "", &site.site, HEAT_SIGNS, look);
                Cell {
                    text: format!("{}  {facts}", line.text),
                    tone: Tone::Dim,
                    ..line
                }
            }
        }
    }

    fn says(&self, row: &HomeRow, look: &RenderContext) -> Cell {
        match row {
            HomeRow::Section(section) => Cell::new(&section.says, Tone::Strong),
            HomeRow::Step(step) => Cell::plain(WorkItem::Step(step).words()),
            HomeRow::Deletion(deletion) => Cell::plain(target_words(deletion)),
            HomeRow::Site(site) => Cell::plain(look.site(&site.site)),
            HomeRow::Cause(group, _) => {
                let (steps, kind) = (thousands(group.steps), kind_words(&group.cause.kind));
                Cell::plain(format!("{steps} × {kind}").replace('×', look.pick("×", "x")))
            }
            HomeRow::Kind(it) => Cell::plain(kind_words(&it.kind.name)),
            HomeRow::LastDay(day) => Cell::plain(last_day_words(*day)),
        }
    }
}

/// Number of signs for the last hour at a site, five minutes each.
const HEAT_SIGNS: usize = 12;
/// Width of the screen from which the signs of the last hour fit before a site's facts.
const HEAT_FROM: u16 = 120;

/// `3 now, 12 within 2m, 40 within 1h`
fn due_words(upcoming: &Upcoming) -> String {
    let ends = DUE_WITHIN.map(|end| format!("within {}", duration::rough(end)));
    let ends = ends.into_iter().chain(["later".to_owned()]);
    let due = upcoming.columns.iter().copied().zip(ends);
    numbers([(upcoming.now, "now".to_owned())].into_iter().chain(due))
}

/// The first numbers that are not zero, such as `2 stuck, 1 refused`.
fn numbers<W: Display>(all: impl IntoIterator<Item = (u64, W)>) -> String {
    let some = all.into_iter().filter(|(n, _)| *n > 0).take(NUMBERS_MAX);
    let words = some.map(|(n, word)| format!("{} {word}", thousands(n)));
    joined(words, ", ")
}

fn state(row: &HomeRow, look: &RenderContext) -> Cell {
    let inner = |cell: Cell| Cell::new(format!(" {}", cell.text), cell.tone);
    match row {
        HomeRow::Section(section) => Cell::new(section.name, section.tone),
        HomeRow::Step(step) => inner(look.step_state(step.state)),
        HomeRow::Deletion(deletion) => inner(look.deletion_state(deletion)),
        HomeRow::Site(site) => inner(site_state(site, look)),
        HomeRow::Cause(group, most) => {
            let counts = Counts {
                gone: group.steps,
                total: *most,
                ..Counts::default()
            };
            inner(Cell::new(look.bar(&counts, BAR), Tone::Warn))
        }
        HomeRow::Kind(it) => {
            let partial = it.is_partial().then_some(Tone::Warn);
            inner(Cell::new(it.total_words(look), partial.unwrap_or_default()))
        }
        HomeRow::LastDay(_) => Cell::new("last 24 h", Tone::Good),
    }
}

/// Width of a bar.
const BAR: usize = 10;

fn facts(row: &HomeRow, look: &RenderContext) -> Cell {
    match row {
        HomeRow::Section(section) => Cell::dim(&section.more),
        HomeRow::Step(step) => Cell::plain(step_reason(step)),
        HomeRow::Deletion(it) if it.counts.total == 0 => Cell::plain(refusal_reason(it)),
        HomeRow::Deletion(it) => {
            let (bar, words) = (look.bar(&it.counts, BAR), progress_words(&it.counts));
            Cell::new(format!("{bar} {words}"), look.deletion_state(it).tone)
        }
        HomeRow::Cause(group, _) => Cell::plain(cause_words(&group.cause)),
        HomeRow::Kind(it) => Cell::dim(it.by_site(look)),
        HomeRow::Site(_) | HomeRow::LastDay(_) => Cell::default(),
    }
}

/// `34 ms · 2% errors · 3 of 16 calls · read-only`, or why the site is unreachable, paused or not signed in.
fn site_facts(site: &SiteStatus, look: &RenderContext) -> String {
    if !site.reason.is_empty() {
        return site.reason.clone();
    }
    let latency = site.latency_ms.map(|ms| format!("{ms} ms"));
    let errors = site.error_percent.map(|it| format!("{it}% errors"));
    let calls = format!("{} of {} calls", site.in_flight, site.concurrency_limit);
    let read_only = site.read_only.then(|| "read-only".to_owned());
    let facts = [latency, errors, Some(calls), read_only];
    joined(facts.into_iter().flatten(), look.dot())
}

/// The next key for the row; for a deletion that runs, the time that is left, or that of its next attempt.
fn next(row: &HomeRow, look: &RenderContext) -> Cell {
    let key = match row {
        HomeRow::Section(_) | HomeRow::LastDay(_) => return Cell::default(),
        HomeRow::Step(step) if waits_for_drift_answer(step) => "{accept_drift} accept",
        HomeRow::Step(step) if step.state == StepState::Verifying => "{ladder} ladder",
        HomeRow::Step(step) if !step.blockers.is_empty() => "{blockers} blockers",
        HomeRow::Step(_) => "{retry} retry",
        HomeRow::Deletion(it) => match (time_left(it, look), it.state) {
            (left, _) if !left.is_empty() => return Cell::plain(left),
            (_, DeletionState::Refused) => "{blockers} blockers",
            (_, DeletionState::Paused) => "{pause} resume",
            _ if is_blocked(it) => "{blockers} blockers",
            _ => "{open} tree",
        },
        HomeRow::Site(site) if site.state == SiteState::Reachable => return Cell::default(),
        HomeRow::Site(_) => "{open} sites",
        HomeRow::Cause(..) => "{open} rows",
        HomeRow::Kind(_) => "{open} list",
    };
    Cell::dim(look.keys.spell(key))
}

impl Row for HomeRow {
    fn key(&self) -> String {
        match self {
            Self::Section(section) => section.name.to_owned(),
            Self::Step(step) => format!("step {}", step.id),
            Self::Deletion(deletion) => deletion.key(),
            Self::Site(site) => site.key(),
            Self::Cause(group, _) => group.key(),
            Self::Kind(it) => format!("kind {}", it.kind.name),
            Self::LastDay(_) => "last day".to_owned(),
        }
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        match self {
            Self::Section(_) | Self::LastDay(_) => false,
            Self::Step(step) => fits_step(filter, step, &[&step_reason(step)]),
            Self::Deletion(deletion) => deletion.fits(filter),
            Self::Site(site) => site.fits(filter),
            Self::Cause(group, _) => group.fits(filter),
            Self::Kind(it) => filter.fits(&Facts {
                texts: &[&kind_words(&it.kind.name)],
                kind: it.kind.name.as_str(),
                ..Facts::default()
            }),
        }
    }
}

impl ListPane for HomePane {
    type Row = HomeRow;
    const SCOPE: Scope = Scope::Home;
    /// The headings count the items of all clouds and projects.
    const SCOPED: bool = false;
    const NOUN: &'static str = "row";
    const DETAIL_ROWS: u16 = 3;
    const LOADING: &'static str = "Asking the engine…";
    const NOTHING: &'static [&'static str] = &["The engine has not answered yet."];

    fn heading(&self, _rows: &Rows<HomeRow>, look: &RenderContext) -> String {
        match self.is_at_rest() && !look.replays {
            true => "home: nothing under way".to_owned(),
            false => "home".to_owned(),
        }
    }
    fn freshness(&self, _rows: &Rows<HomeRow>, now: DateTime<Utc>) -> Freshness {
        self.causes.pace.freshness(true, now)
    }
    fn table(&self, _rows: &Rows<HomeRow>, _look: &RenderContext) -> Table<'_, HomeRow> {
        columns! { row: HomeRow, look;
            fixed("STATE", 14) => state(row, look),
            flex("WHAT", 3) => self.says(row, look),
            flex("HOW IT IS", 4).from(60) => match row {
                HomeRow::Site(site) => self.site_cell(site, look),
                _ => facts(row, look),
            },
            fixed("NEXT", 11).from(70) => next(row, look),
        }
    }
    fn details(&self, row: &HomeRow, look: &RenderContext) -> Vec<Cell> {
        match row {
            HomeRow::Section(section) => {
                let mut says = format!("{}: {}", section.name, section.says);
                if !section.more.is_empty() {
                    says = [&*says, &section.more].join(look.dot());
                }
                let opens = section.pane.map(|pane| format!("{{open}} opens :{pane}"));
                look.texts(&[says].into_iter().chain(opens).collect::<Vec<_>>())
            }
            HomeRow::Step(step) => WorkItem::Step(step).lines_in_full(look),
            HomeRow::Deletion(it) => WorkItem::Deletion(it).lines_in_full(look),
            HomeRow::Site(site) => vec![
                Cell::plain(site.site.to_string()),
                Cell::plain(site_facts(site, look)),
                Cell::dim(look.keys.spell("{open} opens :sites")),
            ],
            HomeRow::Cause(group, _) => {
                let (steps, since) = (count(group.steps, "step"), look.time(group.since));
                vec![
                    Cell::plain(format!("{steps}, the first since {since}")),
                    Cell::dim(format!("one of them: {}", group.message)),
                ]
            }
            HomeRow::Kind(it) => it.lines(look),
            HomeRow::LastDay(_) => look.texts(&["{open} opens :deletions"]),
        }
    }
    /// Says how to begin a deletion, as long as there has been none.
    fn lead(&self, _rows: &Rows<HomeRow>, look: &RenderContext) -> Vec<Cell> {
        let is_first = self.any.pace.loaded && self.any.rows.is_empty();
        match is_first && self.any.pace.errors.is_empty() && !look.replays {
            true => look.texts(FIRST),
            false => Vec::new(),
        }
    }
    others! { refused, causes, upcoming, any, last_day, census, heat }
    fn answered(&mut self, rows: &mut Rows<HomeRow>) {
        rows.feed.replace_rows(self.rows());
        // Until all sections are known, the cursor stays on the first row, whatever that row is.
        // The first snapshot of an engine counts no deletion.
        let has_counts = !self.snapshot.deletions_by_state.is_empty();
        let is_counted = self.any.rows.is_empty() || has_counts;
        let feeds = [&self.any.pace, &self.last_day.pace, &self.causes.pace];
        rows.feed.pace.loaded = is_counted && feeds.iter().all(|pace| pace.loaded);
    }
    /// Takes the facts that the snapshot has, which need no query.
    fn update(&mut self, rows: &mut Rows<HomeRow>, context: &Context, _moved: bool) -> bool {
        let is_new = !Arc::ptr_eq(&self.snapshot, context.snapshot) || !rows.feed.pace.loaded;
        if is_new {
            self.snapshot = context.snapshot.clone();
            // A replay asks no cloud.
            let can_count = !self.snapshot.sites.is_empty() && !context.replays;
            self.census.is_shown = can_count && self.is_at_rest();
            self.answered(rows);
        }
        is_new
    }
    fn copies(&self, _: &Rows<HomeRow>, row: &HomeRow) -> Vec<Copied> {
        match row {
            HomeRow::Section(_) | HomeRow::LastDay(_) => Vec::new(),
            HomeRow::Step(step) => WorkItem::Step(step).copies(),
            HomeRow::Deletion(deletion) => WorkItem::Deletion(deletion).copies(),
            HomeRow::Site(site) => vec![Copied::new("the name", &site.site.to_string())],
            HomeRow::Cause(group, _) => vec![Copied::new("the answer", &group.message)],
            HomeRow::Kind(it) => vec![Copied::new("the kind", it.kind.name.as_str())],
        }
    }
    fn act(&mut self, row: &HomeRow, action: Action, context: &mut Context) {
        match row {
            HomeRow::Step(step) => WorkItem::Step(step).act(action, context),
            HomeRow::Deletion(deletion) => WorkItem::Deletion(deletion).act(action, context),
            _ if action != Action::Open => {}
            HomeRow::Section(section) => {
                if let Some(pane) = section.pane {
                    context.go(pane);
                }
            }
            HomeRow::Site(_) => context.go("sites"),
            HomeRow::Cause(group, _) => context.push(Route::Cause(group.cause.clone())),
            HomeRow::Kind(it) => context.push(Route::Browse(it.kind.clone())),
            HomeRow::LastDay(_) => context.go("deletions"),
        }
    }
}
