//! `:stuck`, the steps and deletions that need a person; the steps of one cause; and `:retrying`, the blocked
//! steps that are retried automatically.

use crate::control::{Command, query};
use crate::domain::attention::{self, Cause};
use crate::domain::duration;
use crate::domain::filter::Facts;
use crate::domain::gantt::{DUE_WITHIN, Upcoming};
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, DeletionState, Site, Step, StepState};
use crate::frontends::console::about::{deletion_lines, fits_deletion, step_lines};
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::requests::{ladder, retry};
use crate::frontends::console::route::{Route, Source};
use std::borrow::Cow;

use super::super::feed::{Feed, Fetch, PAGE_ROWS};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::emptiness::Load;
use super::search::Search;
use super::{Column, Context, Pane, PaneRequest, Table, show};
use crate::present::{
    blocker_words, cause_words, count, kind_words, name_or_id, target_words, thousands,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Stuck,
    Retrying,
}

impl QueueKind {
    /// Searches the queue's steps that fit the filter, of one cause or of all.
    fn steps(self, cause: Option<Cause>, filter: &str) -> Search {
        let states = match self {
            Self::Stuck => attention::STEP_STATES.to_vec(),
            Self::Retrying => vec![StepState::Blocked],
        };
        Search::new(None, filter).among(states, cause)
    }
}

/// A row: a step, or a deletion that was refused before it had steps.
#[derive(Clone, Copy)]
enum Entry {
    Step(usize),
    /// A step of the snapshot on which a cloud has worked for long.
    Slow(usize),
    Deletion(usize),
}

pub(crate) struct AttentionPane {
    which: QueueKind,
    /// The cause to which the steps are restricted, if any.
    cause: Option<Cause>,
    list: List,
    steps: Search,
    refused: Feed<Deletion>,
    /// The schedule of next attempts, for `:retrying`.
    upcoming: Feed<Upcoming>,
    slow: Vec<Step>,
    visible: Vec<Entry>,
}

impl AttentionPane {
    pub(crate) fn new(which: QueueKind) -> Self {
        Self {
            which,
            cause: None,
            list: List::default(),
            steps: which.steps(None, ""),
            refused: Feed::new(PAGE_ROWS),
            upcoming: Feed::new(1),
            slow: Vec::new(),
            visible: Vec::new(),
        }
    }

    pub(crate) fn of(cause: Cause) -> Self {
        Self {
            steps: QueueKind::Stuck.steps(Some(cause.clone()), ""),
            cause: Some(cause),
            ..Self::new(QueueKind::Stuck)
        }
    }

    /// Whether refused deletions and slow steps are shown too.
    fn shows_all(&self) -> bool {
        self.which == QueueKind::Stuck && self.cause.is_none()
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        self.steps.ask(self.list.cursor, context);
        if self.shows_all()
            && let Fetch::Page(cursor) = self.refused.due(context)
        {
            self.page_refused(cursor, context);
        }
        if self.which == QueueKind::Retrying
            && let Fetch::Page(_) = self.upcoming.due(context)
        {
            self.upcoming.ask(query::Upcoming {}, true, context);
        }
    }

    fn page_refused(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let is_first = cursor.is_none();
        let refused = query::Deletions {
            states: vec![DeletionState::Refused],
            cursor,
            limit: PAGE_ROWS,
            ..query::Deletions::default()
        };
        self.refused.ask(refused, is_first, context);
    }

    fn belongs(&self, step: &Step) -> bool {
        match self.which {
            QueueKind::Retrying => step.state == StepState::Blocked,
            QueueKind::Stuck => attention::needs_person(step),
        }
    }

    fn key(&self, entry: Entry) -> String {
        match entry {
            Entry::Step(i) => self.steps.rows()[i].id.to_string(),
            Entry::Slow(i) => self.slow[i].id.to_string(),
            Entry::Deletion(i) => self.refused.rows[i].id.clone(),
        }
    }

    fn held(&self) -> Option<String> {
        // Rows arrive in parts, in any order: they must not carry away a cursor that nobody has moved.
        let comes = self.steps.is_searching() || self.shows_all() && !self.refused.loaded;
        if comes && self.list.cursor == 0 {
            return None;
        }
        let entry = self.visible.get(self.list.cursor)?;
        Some(self.key(*entry))
    }

    fn refilter(&mut self, held: Option<String>) {
        let filter = &self.list.filter;
        let fits = |step: &Step| {
            filter.is_empty() || {
                let reason = step_reason(step);
                let resource = &step.resource;
                let site = resource.key.site.to_string();
                filter.fits(&Facts {
                    texts: &[&resource.name, &resource.key.id, &reason],
                    state: step.state.as_str(),
                    kind: resource.key.kind.as_str(),
                    site: &site,
                    project: &step.project_id,
                    since: step.blocked_since,
                })
            }
        };
        let steps = self.steps.rows().iter().enumerate();
        let steps = steps.filter(|(_, step)| self.belongs(step));
        let mut visible: Vec<Entry> = steps.map(|(i, _)| Entry::Step(i)).collect();
        // Stuck steps come before steps that are still retried.
        visible.sort_by_key(|entry| match entry {
            Entry::Step(i) => self.steps.rows()[*i].state != StepState::Stuck,
            Entry::Slow(_) | Entry::Deletion(_) => false,
        });
        let slow = self.slow.iter().enumerate().filter(|(_, step)| fits(step));
        visible.extend(slow.map(|(i, _)| Entry::Slow(i)));
        let refused = self
            .refused
            .rows
            .iter()
            .enumerate()
            .filter(|(_, deletion)| {
                let words = target_words(deletion);
                fits_deletion(filter, deletion, &words)
            });
        visible.extend(refused.map(|(i, _)| Entry::Deletion(i)));
        self.visible = visible;
        let keys: Vec<String> = self.visible.iter().map(|e| self.key(*e)).collect();
        self.list.hold(held, keys.into_iter());
    }

    fn step(&self, entry: Entry) -> Option<&Step> {
        match entry {
            Entry::Step(i) => self.steps.rows().get(i),
            Entry::Slow(i) => self.slow.get(i),
            Entry::Deletion(_) => None,
        }
    }

    fn see_slow(&mut self, context: &Context<'_>) {
        if !self.shows_all() {
            return;
        }
        let attention = context.snapshot.attention.iter();
        let slow = attention.filter(|step| step.state == StepState::Verifying);
        let slow: Vec<Step> = slow.cloned().collect();
        if slow != self.slow {
            let held = self.held();
            self.slow = slow;
            self.refilter(held);
        }
    }

    fn current(&self) -> Option<Entry> {
        self.visible.get(self.list.cursor).copied()
    }
}

/// The schedule of next attempts: bars over the time until they are due.
///
/// ```text
/// ▂▂▂▂      ████▁▁▁▁
/// 10s  30s  1m   2m   5m   ...
/// ```
fn schedule_lines(upcoming: &Upcoming, look: &RenderContext) -> Vec<Cell> {
    let total = upcoming.now + upcoming.columns.iter().sum::<u64>();
    if total == 0 {
        return Vec::new();
    }
    let width = usize::from(look.width.saturating_sub(2)) / upcoming.columns.len().max(1);
    let bars = look.spark(upcoming.columns.iter().map(|steps| *steps as f64));
    let mut plot = String::new();
    let mut axis = String::new();
    let ends = DUE_WITHIN.map(duration::rough).into_iter();
    for ((bar, steps), end) in bars
        .chars()
        .zip(&upcoming.columns)
        .zip(ends.chain(["later".to_owned()]))
    {
        let sign = if *steps == 0 { ' ' } else { bar };
        // The gap separates one column from the next.
        let drawn = width.saturating_sub(1).max(1);
        plot.extend(std::iter::repeat_n(sign, drawn));
        plot.push_str(&" ".repeat(width - drawn));
        axis.push_str(&format!("{end:<width$.width$}"));
    }
    let next = upcoming
        .next
        .map(|next| format!("{}next at {}", look.dot(), look.time(next)));
    let due = match upcoming.now {
        0 => String::new(),
        now => format!("{}{} now", look.dot(), thousands(now)),
    };
    vec![
        Cell::new(plot.trim_end(), Tone::Warn),
        Cell::dim(axis.trim_end()),
        Cell::plain(format!(
            "{} to be retried, as of {}{due}{}",
            count(total, "step"),
            look.time(upcoming.at),
            next.unwrap_or_default()
        )),
    ]
}

fn act_on_step(step: &Step, action: Action, context: &mut Context<'_>) {
    let name = name_or_id(&step.resource.name, &step.resource.key.id);
    let words = format!("{} {name}", kind_words(&step.resource.key.kind));
    match action {
        Action::Open => context.push(Route::InspectStep {
            id: step.id,
            deletion_id: step.deletion_id.clone(),
        }),
        Action::Explain => context.push(Route::Explain {
            key: step.resource.key.clone(),
            words,
        }),
        Action::Blockers => context.push(Route::Blockers {
            subject: words,
            rows: Vec::new(),
            source: Some(Source::Step(step.id)),
        }),
        Action::Retry => context.requests.push(PaneRequest::Submit {
            what: format!("retry of {words}"),
            command: Command::RetryStep { step_id: step.id },
        }),
        Action::AcceptDrift => super::drift::ask(step, context),
        Action::Ladder => context.push(Route::Ladder {
            what: PurgeScope::Step(step.id),
            words,
        }),
        Action::Copy => context.copy(step.resource.key.id.clone()),
        _ => {}
    }
}

/// A row of the queue.
enum QueueRow<'a> {
    Step(&'a Step),
    Refused(&'a Deletion),
}

impl QueueRow<'_> {
    fn site(&self) -> Option<&Site> {
        match self {
            Self::Step(step) => Some(&step.resource.key.site),
            Self::Refused(deletion) => Some(&deletion.targets.first()?.key.site),
        }
    }

    fn table(look: &RenderContext) -> Table<Self> {
        let brief = look.brief_width();
        Table(vec![
            show(Column::fixed("STATE", 9), |row, look| match row {
                Self::Step(step) => look.step_state(step.state),
                Self::Refused(deletion) => look.deletion_state(deletion.state),
            }),
            show(Column::flex("WHAT", 1), |row, _| match row {
                Self::Step(step) => {
                    let resource = &step.resource;
                    let name = name_or_id(&resource.name, &resource.key.id);
                    Cell::plain(format!("{} {name}", kind_words(&resource.key.kind)))
                }
                Self::Refused(deletion) => Cell::plain(target_words(deletion)),
            }),
            show(Column::flex("BLOCKED BY", 1), |row, _| match row {
                Self::Step(step) => Cell::plain(step_reason(step)),
                Self::Refused(deletion) => Cell::plain(deletion_reason(deletion)),
            }),
            show(
                Column::fixed("SINCE", brief).from(60),
                |row, look| match row {
                    Self::Step(step) => Cell::dim(look.maybe_brief(step.blocked_since)),
                    Self::Refused(deletion) => Cell::dim(look.brief(deletion.requested_at)),
                },
            ),
            show(
                Column::attempts(look).right().from(50),
                |row, look| match row {
                    Self::Step(step) => {
                        Cell::plain(format!("{}/{}", step.attempts, step.max_attempts))
                    }
                    Self::Refused(_) => Cell::dim(look.none()),
                },
            ),
            show(
                Column::fixed("NEXT", brief.max(8)).from(60),
                |row, look| match row {
                    Self::Step(step) if step.state != StepState::Stuck => {
                        Cell::dim(look.maybe_brief(step.next_attempt_at))
                    }
                    Self::Step(_) | Self::Refused(_) => Cell::dim("a person"),
                },
            ),
            show(Column::fixed("SITE", 18).from(130), |row, _| {
                Cell::dim(row.site().map(Site::to_string).unwrap_or_default())
            }),
        ])
    }
}

/// Tells in one line why a step does not go: the blocker if it is known, else the cloud's own words.
fn step_reason(step: &Step) -> String {
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

fn deletion_reason(deletion: &Deletion) -> String {
    deletion.refused.first().map_or_else(
        || deletion.note.clone(),
        |refusal| {
            let blocker = refusal.blocker.as_ref();
            blocker.map_or_else(|| refusal.reason.clone(), blocker_words)
        },
    )
}

impl Pane for AttentionPane {
    fn scope(&self) -> Scope {
        Scope::Attention
    }
    fn word(&self) -> Option<&str> {
        match self.which {
            // The pane of one cause is not the pane that the word opens.
            _ if self.cause.is_some() => None,
            QueueKind::Stuck => Some("stuck"),
            QueueKind::Retrying => Some("retrying"),
        }
    }
    fn title(&self, _look: &RenderContext) -> String {
        let more = if self.steps.has_more() { "+" } else { "" };
        let n = self.visible.len();
        if let Some(cause) = &self.cause {
            let (state, kind) = (cause.state.as_str(), kind_words(&cause.kind));
            return format!("{kind} {state}, {}: {n}{more}", cause_words(cause));
        }
        match self.which {
            QueueKind::Stuck => format!("stuck {n}{more}"),
            QueueKind::Retrying => format!("blocked, retried automatically {n}{more}"),
        }
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.visible.len()
    }
    fn is_busy(&self) -> bool {
        let beside = match self.which {
            QueueKind::Stuck => self.shows_all() && self.refused.is_waiting(),
            QueueKind::Retrying => self.upcoming.is_waiting(),
        };
        self.steps.is_waiting() || beside
    }
    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        QueueRow::table(look).columns()
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(entry) = self.visible.get(row).copied() else {
            return Vec::new();
        };
        let row = match (entry, self.step(entry)) {
            (_, Some(step)) => QueueRow::Step(step),
            (Entry::Deletion(i), None) => QueueRow::Refused(&self.refused.rows[i]),
            (Entry::Step(_) | Entry::Slow(_), None) => return Vec::new(),
        };
        QueueRow::table(look).cells(&row, look)
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut lines = Vec::new();
        if let Some(upcoming) = self.upcoming.rows.first() {
            lines.extend(schedule_lines(upcoming, look));
        }
        let beside = self.refused.error.iter().chain(&self.upcoming.error);
        lines.extend(look.errors(self.steps.error().into_iter().chain(beside)));
        lines
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        match self.current() {
            Some(Entry::Deletion(i)) => deletion_lines(&self.refused.rows[i], look),
            Some(entry) => self
                .step(entry)
                .map_or_else(Vec::new, |step| step_lines(step, look)),
            None => Vec::new(),
        }
    }
    fn detail_rows(&self) -> u16 {
        5
    }
    fn load(&self) -> Load {
        match self.steps.load() {
            Load::Empty if self.shows_all() => self.refused.load(),
            load => load,
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        "step".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Asking what does not go…")]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        match self.which {
            QueueKind::Stuck if look.replays => vec![Cell::plain(
                "Nothing was stuck then, and nothing had been refused.",
            )],
            QueueKind::Retrying if look.replays => vec![Cell::plain("Nothing was blocked then.")],
            QueueKind::Stuck => vec![
                Cell::plain("Nothing is stuck, and nothing was refused."),
                Cell::dim("What needs you comes here, with what blocks it and since when."),
                Cell::dim(
                    ":retrying shows what is blocked for now and is attempted again by itself.",
                ),
            ],
            QueueKind::Retrying => vec![
                Cell::plain("Nothing is blocked."),
                Cell::dim("What a cloud refuses for now comes here, with its next attempt."),
            ],
        }
    }
    fn filter_changed(&mut self) {
        let held = self.held();
        let filter = self.list.filter.meant();
        self.steps = self.which.steps(self.cause.clone(), filter);
        self.refilter(held);
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.steps.invalidate();
        self.refused.invalidate();
        self.upcoming.invalidate();
        self.see_slow(context);
        self.ask(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            self.steps.invalidate();
            self.refused.invalidate();
            self.upcoming.invalidate();
        }
        if self.list.cursor + 1 >= self.visible.len() {
            self.refused.more();
        }
        self.see_slow(context);
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let held = self.held();
        let cursor = self.list.cursor;
        let upcoming = |upcoming| whole(vec![upcoming]);
        if self.steps.answer(arrived, cursor, context)
            || (self
                .upcoming
                .receive::<query::Upcoming>(arrived, context, upcoming))
            .is_some()
        {
        } else {
            match (self.refused).receive::<query::Deletions>(arrived, context, |page| page) {
                None => return false,
                Some(Fetch::Page(next)) => self.page_refused(next, context),
                Some(Fetch::Nothing) => {}
            }
        }
        self.refilter(held);
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Refresh {
            self.open(context);
            return;
        }
        if action == Action::Group && self.shows_all() {
            context.push(Route::Causes);
            return;
        }
        let current = self.current();
        if let Some(step) = current.and_then(|entry| self.step(entry)) {
            return act_on_step(step, action, context);
        }
        if let Some(Entry::Deletion(i)) = current {
            let deletion = &self.refused.rows[i];
            match action {
                Action::Open => context.push(Route::InspectDeletion(Box::new(deletion.clone()))),
                Action::Blockers => context.push(Route::Blockers {
                    subject: target_words(deletion),
                    rows: Vec::new(),
                    source: Some(Source::Deletion(deletion.id.clone())),
                }),
                Action::Retry => context.requests.push(retry(deletion)),
                Action::Ladder => context.push(ladder(deletion)),
                Action::Copy => context.copy(deletion.id.clone()),
                _ => {}
            }
        }
    }
}
