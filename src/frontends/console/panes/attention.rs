//! `:stuck`, the steps and deletions that need a person; the steps of one cause; and `:retrying`, the blocked
//! steps that are retried automatically.

use super::kit::acts::{act_on_deletion, act_on_step, step_words};
use super::kit::{Action, Batch, Cell, Context, Feed, ListPane, Load, PAGE_ROWS, Pane, Refresh};
use super::kit::{Refreshed, RenderContext, Row, Rows, Scope, Table, Tone};
use super::kit::{attempts, columns, fixed, flex, listed};
use super::search::ROWS_MAX;
use super::{Around, Opened, Route};
use crate::control::{Snapshot, query};
use crate::domain::attention::{self, Cause};
use crate::domain::duration;
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::gantt::{DUE_WITHIN, Upcoming};
use crate::domain::model::{Deletion, DeletionState, Paged, Site, Step, StepState};
use crate::frontends::console::about::{deletion_lines, fits_deletion, step_lines};
use crate::present::{blocker_words, cause_words, count, kind_words, target_words, thousands};

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueKind {
    Stuck,
    Retrying,
}

struct AttentionPane {
    which: QueueKind,
    /// The cause to which the steps are restricted, if any.
    cause: Option<Cause>,
    /// Deletions that were refused before they had steps, for `:stuck`.
    refused: Feed<Deletion>,
    /// The schedule of next attempts, for `:retrying`.
    upcoming: Feed<Upcoming>,
    /// Steps on which a cloud has worked for long, for `:stuck`.
    slow: Vec<Step>,
}

/// A row of the queue.
enum QueueRow {
    Step(Box<Step>),
    Refused(Box<Deletion>),
}

pub(super) fn open_stuck(_: &Around<'_>) -> Opened {
    let refused = Feed::of(|cursor| query::Deletions {
        states: vec![DeletionState::Refused],
        cursor,
        limit: PAGE_ROWS,
        ..query::Deletions::default()
    });
    Ok(pane(QueueKind::Stuck, None, refused, Feed::silent()))
}

pub(super) fn open_retrying(_: &Around<'_>) -> Opened {
    let upcoming = Feed::reading(|_| query::Upcoming {}, |it| Batch::from(vec![it]));
    Ok(pane(QueueKind::Retrying, None, Feed::silent(), upcoming))
}

pub(super) fn of(cause: Cause) -> Box<dyn Pane> {
    let (refused, upcoming) = (Feed::silent(), Feed::silent());
    pane(QueueKind::Stuck, Some(cause), refused, upcoming)
}

fn pane(
    which: QueueKind,
    cause: Option<Cause>,
    refused: Feed<Deletion>,
    upcoming: Feed<Upcoming>,
) -> Box<dyn Pane> {
    let pane = AttentionPane {
        which,
        cause,
        refused,
        upcoming,
        slow: Vec::new(),
    };
    let rows = Rows::new(pane.steps(""));
    listed(pane, rows)
}

impl AttentionPane {
    /// The queue's steps that fit the filter, for which the engine searches.
    fn steps(&self, filter: &str) -> Feed<QueueRow> {
        let steps = query::Steps {
            states: match self.which {
                QueueKind::Stuck => attention::STEP_STATES.to_vec(),
                QueueKind::Retrying => vec![StepState::Blocked],
            },
            cause: self.cause.clone(),
            filter: filter.to_owned(),
            limit: PAGE_ROWS,
            ..query::Steps::default()
        };
        let page = move |cursor| query::Steps {
            cursor,
            ..steps.clone()
        };
        let read = |Paged { rows, next }: Paged<Step>| {
            let rows = rows.into_iter().map(|step| QueueRow::Step(Box::new(step)));
            Batch::from(Paged {
                rows: rows.collect(),
                next,
            })
        };
        Feed::reading(page, read).at_most(ROWS_MAX)
    }

    /// Whether refused deletions and slow steps are shown too.
    fn shows_all(&self) -> bool {
        self.which == QueueKind::Stuck && self.cause.is_none()
    }

    fn belongs(&self, row: &QueueRow) -> bool {
        match (row, self.which) {
            (QueueRow::Refused(_), _) => true,
            (QueueRow::Step(step), _) if step.state == StepState::Verifying => true,
            (QueueRow::Step(step), QueueKind::Retrying) => step.state == StepState::Blocked,
            (QueueRow::Step(step), QueueKind::Stuck) => attention::needs_person(step),
        }
    }
}

impl Row for QueueRow {
    /// The id of the step or the deletion.
    type Key = String;

    fn key(&self) -> String {
        match self {
            Self::Step(step) => step.id.to_string(),
            Self::Refused(deletion) => deletion.id.clone(),
        }
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        match self {
            Self::Refused(deletion) => fits_deletion(filter, deletion, &target_words(deletion)),
            // The engine has searched for these.
            Self::Step(step) if step.state != StepState::Verifying => true,
            Self::Step(step) => {
                let resource = &step.resource;
                filter.fits(&Facts {
                    texts: &[&resource.name, &resource.key.id, &step_reason(step)],
                    state: step.state.as_str(),
                    kind: resource.key.kind.as_str(),
                    site: &resource.key.site.to_string(),
                    project: &step.project_id,
                    since: step.blocked_since,
                })
            }
        }
    }
}

impl QueueRow {
    /// Stuck steps come before steps that are still retried.
    fn rank(&self) -> u8 {
        match self {
            Self::Step(step) => match step.state {
                StepState::Stuck => 0,
                StepState::Verifying => 2,
                _ => 1,
            },
            Self::Refused(_) => 3,
        }
    }
    fn state(&self, look: &RenderContext) -> Cell {
        match self {
            Self::Step(step) => look.step_state(step.state),
            Self::Refused(deletion) => look.deletion_state(deletion.state),
        }
    }
    fn words(&self) -> String {
        match self {
            Self::Step(step) => step_words(step),
            Self::Refused(deletion) => target_words(deletion),
        }
    }
    fn reason(&self) -> String {
        match self {
            Self::Step(step) => step_reason(step),
            Self::Refused(deletion) => deletion_reason(deletion),
        }
    }
    fn since(&self, look: &RenderContext) -> String {
        match self {
            Self::Step(step) => look.maybe_brief(step.blocked_since),
            Self::Refused(deletion) => look.brief(deletion.requested_at),
        }
    }
    fn attempts(&self, look: &RenderContext) -> Cell {
        match self {
            Self::Step(step) => Cell::plain(format!("{}/{}", step.attempts, step.max_attempts)),
            Self::Refused(_) => Cell::dim(look.none()),
        }
    }
    fn next(&self, look: &RenderContext) -> String {
        match self {
            Self::Step(step) if step.state != StepState::Stuck => {
                look.maybe_brief(step.next_attempt_at)
            }
            Self::Step(_) | Self::Refused(_) => "a person".to_owned(),
        }
    }
    fn site(&self) -> String {
        let site = match self {
            Self::Step(step) => Some(&step.resource.key.site),
            Self::Refused(deletion) => deletion.targets.first().map(|target| &target.key.site),
        };
        site.map(Site::to_string).unwrap_or_default()
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
    match deletion.refused.first() {
        None => deletion.note.clone(),
        Some(refusal) => match &refusal.blocker {
            None => refusal.reason.clone(),
            Some(blocker) => blocker_words(blocker),
        },
    }
}

impl ListPane for AttentionPane {
    type Row = QueueRow;
    const SCOPE: Scope = Scope::Attention;
    const NOUN: &'static str = "step";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking what does not go…";
    const NOTHING: &'static [&'static str] = &[
        "Nothing is stuck, and nothing was refused.",
        "What needs you comes here, with what blocks it and since when.",
        ":retrying shows what is blocked for now and is attempted again by itself.",
    ];

    fn word(&self) -> Option<&str> {
        match self.which {
            // The pane of one cause is not the pane that the word opens.
            _ if self.cause.is_some() => None,
            QueueKind::Stuck => Some("stuck"),
            QueueKind::Retrying => Some("retrying"),
        }
    }
    fn heading(&self, rows: &Rows<QueueRow>, _look: &RenderContext) -> String {
        let more = if rows.feed.has_more() { "+" } else { "" };
        let n = rows.len();
        match (&self.cause, self.which) {
            (Some(cause), _) => {
                let (state, kind) = (cause.state.as_str(), kind_words(&cause.kind));
                format!("{kind} {state}, {}: {n}{more}", cause_words(cause))
            }
            (None, QueueKind::Stuck) => format!("stuck {n}{more}"),
            (None, QueueKind::Retrying) => format!("blocked, retried automatically {n}{more}"),
        }
    }
    fn table(&self, _rows: &Rows<QueueRow>, look: &RenderContext) -> Table<'_, QueueRow> {
        let brief = look.brief_width();
        columns! { row: QueueRow, look;
            fixed("STATE", 9) => row.state(look),
            flex("WHAT", 1) => Cell::plain(row.words()),
            flex("BLOCKED BY", 1) => Cell::plain(row.reason()),
            fixed("SINCE", brief).from(60) => Cell::dim(row.since(look)),
            attempts(look).right().from(50) => row.attempts(look),
            fixed("NEXT", brief.max(8)).from(60) => Cell::dim(row.next(look)),
            fixed("SITE", 18).from(130) => Cell::dim(row.site()),
        }
    }
    fn lead(&self, _rows: &Rows<QueueRow>, look: &RenderContext) -> Vec<Cell> {
        let upcoming = self.upcoming.rows.first();
        upcoming.map_or_else(Vec::new, |upcoming| schedule_lines(upcoming, look))
    }
    fn details(&self, row: &QueueRow, look: &RenderContext) -> Vec<Cell> {
        match row {
            QueueRow::Step(step) => step_lines(step, look),
            QueueRow::Refused(deletion) => deletion_lines(deletion, look),
        }
    }
    fn load(&self, rows: &Rows<QueueRow>) -> Load {
        match rows.feed.load() {
            // Only rows that match were queried, so there may be others.
            Load::Empty if !rows.list.filter.is_empty() => Load::Answered,
            Load::Empty if self.shows_all() => self.refused.load(),
            load => load,
        }
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        match (self.which, look.replays) {
            (QueueKind::Stuck, true) => {
                look.texts(&["Nothing was stuck then, and nothing had been refused."])
            }
            (QueueKind::Retrying, true) => look.texts(&["Nothing was blocked then."]),
            (QueueKind::Stuck, false) => look.texts(Self::NOTHING),
            (QueueKind::Retrying, false) => look.texts(&[
                "Nothing is blocked.",
                "What a cloud refuses for now comes here, with its next attempt.",
            ]),
        }
    }
    fn arrange(&self, rows: &Rows<QueueRow>, visible: &mut Vec<usize>) {
        visible.retain(|at| rows.at(*at).is_some_and(|row| self.belongs(row)));
        visible.sort_by_key(|at| rows.at(*at).map(QueueRow::rank));
    }
    fn others(&self) -> Vec<&dyn Refreshed> {
        vec![&self.refused, &self.upcoming]
    }
    fn others_mut(&mut self) -> Vec<&mut dyn Refreshed> {
        vec![&mut self.refused, &mut self.upcoming]
    }
    fn answered(&mut self, rows: &mut Rows<QueueRow>) {
        let slow = self.slow.iter().cloned();
        let slow = slow.map(|step| QueueRow::Step(Box::new(step)));
        let refused = self.refused.rows.iter().cloned();
        let refused = refused.map(|deletion| QueueRow::Refused(Box::new(deletion)));
        rows.others = slow.chain(refused).collect();
    }
    fn filter_changed(&mut self, rows: &mut Rows<QueueRow>) {
        rows.feed = self.steps(rows.list.filter.meant());
    }
    /// Takes the slow steps from the snapshot.
    fn update(&mut self, rows: &mut Rows<QueueRow>, snapshot: &Snapshot, _moved: bool) -> bool {
        if rows.list.cursor + 1 >= rows.len() {
            self.refused.more();
        }
        let is_slow = |step: &&Step| self.shows_all() && step.state == StepState::Verifying;
        let slow = snapshot.attention.iter().filter(is_slow);
        if slow.clone().eq(&self.slow) {
            return false;
        }
        self.slow = slow.cloned().collect();
        self.answered(rows);
        true
    }
    fn copied(&self, row: &QueueRow) -> String {
        match row {
            QueueRow::Step(step) => step.resource.key.id.clone(),
            QueueRow::Refused(deletion) => deletion.id.clone(),
        }
    }
    fn act_anywhere(
        &mut self,
        _rows: &mut Rows<QueueRow>,
        action: Action,
        context: &mut Context<'_>,
    ) -> bool {
        let groups = action == Action::Group && self.shows_all();
        if groups {
            context.push(Route::Causes());
        }
        groups
    }
    fn act(&mut self, row: &QueueRow, action: Action, context: &mut Context<'_>) {
        match row {
            QueueRow::Step(step) => act_on_step(step, action, context),
            QueueRow::Refused(deletion) => act_on_deletion(deletion, action, context),
        }
    }
}
