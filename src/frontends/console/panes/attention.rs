//! `:stuck`, the steps and deletions that need a person; the steps of one cause; and `:retrying`, the blocked
//! steps that are retried automatically.

use super::kit::*;
use super::search::ROWS_MAX;
use crate::domain::attention::{self, Cause};
use crate::domain::duration;
use crate::domain::gantt::{DUE_WITHIN, Upcoming};
use crate::domain::model::{Deletion, DeletionState, Step, StepState};
use crate::frontends::console::about::fits_step;
use crate::present::{cause_words, count, kind_words, step_reason, thousands};

/// The steps that a pane is about.
enum QueueKind {
    /// The steps that need a person, with the refused deletions and the slow steps.
    Stuck,
    /// The steps that need a person because of one cause.
    OfCause(Cause),
    Retrying,
}

struct AttentionPane {
    which: QueueKind,
    /// Deletions that were refused before they had steps, for `:stuck`.
    refused: Feed<Deletion>,
    /// The schedule of next attempts, for `:retrying`.
    upcoming: Feed<Upcoming>,
    /// Steps on which a cloud has worked for a long time, for `:stuck`.
    slow: Vec<Step>,
}

enum QueueRow {
    Step(Box<Step>),
    Refused(Box<Deletion>),
}

impl From<Step> for QueueRow {
    fn from(step: Step) -> Self {
        Self::Step(Box::new(step))
    }
}

pub(super) fn open_stuck(_: &Around<'_>) -> Opened {
    Ok(pane(QueueKind::Stuck))
}

pub(super) fn open_retrying(_: &Around<'_>) -> Opened {
    Ok(pane(QueueKind::Retrying))
}

pub(super) fn of(cause: Cause) -> Box<dyn Pane> {
    pane(QueueKind::OfCause(cause))
}

fn pane(which: QueueKind) -> Box<dyn Pane> {
    let refused = query::Deletions {
        states: vec![DeletionState::Refused],
        ..query::Deletions::default()
    };
    let (refused, upcoming) = match which {
        QueueKind::Stuck => (Feed::paged(refused), Feed::silent()),
        QueueKind::OfCause(_) => (Feed::silent(), Feed::silent()),
        QueueKind::Retrying => (Feed::silent(), Feed::of(query::Upcoming {})),
    };
    let steps = which.steps("");
    let pane = AttentionPane {
        which,
        refused,
        upcoming,
        slow: Vec::new(),
    };
    listed(pane, steps)
}

impl QueueKind {
    /// Returns a feed of the queue's steps that match the filter; the engine searches for them.
    fn steps(&self, filter: &str) -> Feed<QueueRow> {
        let (states, cause) = match self {
            Self::Stuck => (attention::STEP_STATES.to_vec(), None),
            Self::OfCause(cause) => (attention::STEP_STATES.to_vec(), Some(cause.clone())),
            Self::Retrying => (vec![StepState::Blocked], None),
        };
        let steps = query::Steps {
            states,
            cause,
            filter: filter.to_owned(),
            ..query::Steps::default()
        };
        Feed::paged(steps).at_most(ROWS_MAX)
    }

    /// Whether refused deletions and slow steps are shown too.
    fn shows_all(&self) -> bool {
        matches!(self, Self::Stuck)
    }

    fn has(&self, row: &QueueRow) -> bool {
        match (row, self) {
            (QueueRow::Refused(_), _) => true,
            (QueueRow::Step(step), _) if step.state == StepState::Verifying => true,
            (QueueRow::Step(step), Self::Retrying) => step.state == StepState::Blocked,
            (QueueRow::Step(step), _) => attention::needs_person(step),
        }
    }
}

impl Row for QueueRow {
    /// The id of the step or the deletion.
    fn key(&self) -> String {
        let item = self.item();
        item.either(|step| step.id.to_string(), |it| it.id.clone())
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        match self {
            Self::Refused(deletion) => deletion.fits(filter),
            // The engine has already applied the filter to these steps.
            Self::Step(step) if step.state != StepState::Verifying => true,
            Self::Step(step) => fits_step(filter, step, &[&step_reason(step)]),
        }
    }
}

impl QueueRow {
    fn item(&self) -> WorkItem<'_> {
        match self {
            Self::Step(step) => WorkItem::Step(step),
            Self::Refused(deletion) => WorkItem::Deletion(deletion),
        }
    }
    fn since(&self) -> Option<DateTime<Utc>> {
        let item = self.item();
        item.either(|step| step.blocked_since, |it| Some(it.requested_at))
    }
    /// Stuck steps come first; then blocked steps, slow steps and refused deletions.
    fn rank(&self) -> u8 {
        match self {
            Self::Step(step) if step.state == StepState::Stuck => 0,
            Self::Step(step) if step.state == StepState::Verifying => 2,
            Self::Step(_) => 1,
            Self::Refused(_) => 3,
        }
    }
}

/// Shown instead of a time for stuck steps and refused deletions, which have no next attempt without a person.
const PERSON: &str = "a person";

fn attempted(step: &Step) -> Cell {
    Cell::plain(format!("{}/{}", step.attempts, step.max_attempts))
}

fn next(step: &Step, look: &RenderContext) -> String {
    match step.state {
        StepState::Stuck => PERSON.to_owned(),
        _ => look.maybe_brief(step.next_attempt_at),
    }
}

fn first_site(deletion: &Deletion) -> String {
    let first = deletion.targets.first();
    first.map_or_else(String::new, |target| target.key.site.to_string())
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
    // One cell of the width is the gap between two columns.
    let drawn = width.saturating_sub(1).max(1);
    let (mut plot, mut axis) = (String::new(), String::new());
    let ends = DUE_WITHIN.map(duration::rough).into_iter();
    let ends = ends.chain(["later".to_owned()]);
    for ((bar, steps), end) in bars.chars().zip(&upcoming.columns).zip(ends) {
        let sign = if *steps == 0 { ' ' } else { bar };
        let bar = String::from(sign).repeat(drawn);
        plot.push_str(&format!("{bar:<width$}"));
        axis.push_str(&format!("{end:<width$.width$}"));
    }
    let (total, at) = (count(total, "step"), look.time(upcoming.at));
    let mut facts = vec![format!("{total} to be retried, as of {at}")];
    facts.extend((upcoming.now > 0).then(|| format!("{} now", thousands(upcoming.now))));
    let next = upcoming.next.map(|next| look.time(next));
    facts.extend(next.map(|next| format!("next at {next}")));
    vec![
        Cell::new(plot.trim_end(), Tone::Warn),
        Cell::dim(axis.trim_end()),
        Cell::plain(facts.join(look.dot())),
    ]
}

impl ListPane for AttentionPane {
    type Row = QueueRow;
    const SCOPE: Scope = Scope::Attention;
    const NOUN: &'static str = "step";
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the stuck and blocked steps…";
    const NOTHING: &'static [&'static str] = &[
        "Nothing is stuck, and nothing was refused.",
        "This pane lists the steps and deletions that need you, each with its blocker and since when.",
        ":retrying shows the blocked steps, which are retried automatically.",
    ];

    fn heading(&self, rows: &Rows<QueueRow>, _look: &RenderContext) -> String {
        // Some rows that were read are not shown here, and the engine has applied the filter, so a total would mislead.
        let more = if rows.feed.has_more() { "+" } else { "" };
        let n = format!("{}{more}", thousands(rows.len()));
        match &self.which {
            QueueKind::Stuck => format!("stuck {n}"),
            QueueKind::OfCause(cause) => {
                let (state, kind) = (cause.state.as_str(), kind_words(&cause.kind));
                format!("{kind} {state}, {}: {n}", cause_words(cause))
            }
            QueueKind::Retrying => format!("blocked, retried automatically {n}"),
        }
    }
    fn table(&self, _rows: &Rows<QueueRow>, look: &RenderContext) -> Table<'_, QueueRow> {
        let brief = look.brief_width();
        columns! { row: QueueRow, look;
            fixed("STATE", 9) => row.item().state(look),
            flex("WHAT", 1) => Cell::plain(row.item().words()),
            flex("BLOCKED BY", 1) => Cell::plain(row.item().reason()),
            fixed("SINCE", brief).from(60) => Cell::dim(look.maybe_brief(row.since())); time_key(row.since()),
            attempts(look).right().from(50) => row.item().either(attempted, |_| Cell::dim(look.none())),
            fixed("NEXT", brief.max(8)).from(60) => Cell::dim(row.item().either(|it| next(it, look), |_| PERSON.to_owned())); time_key(row.item().either(|it| it.next_attempt_at, |_| None)),
            fixed("SITE", 18).from(130) => Cell::dim(row.item().either(|it| it.resource.key.site.to_string(), first_site)),
        }
    }
    fn item<'r>(&self, row: &'r QueueRow) -> Option<WorkItem<'r>> {
        Some(row.item())
    }
    /// With a filter, the engine returns only the rows that fit.
    fn holds_all(&self, rows: &Rows<QueueRow>) -> bool {
        rows.list.shows_all() && rows.feed.pace.loaded && !rows.feed.has_more()
    }
    fn lead(&self, _rows: &Rows<QueueRow>, look: &RenderContext) -> Vec<Cell> {
        let upcoming = self.upcoming.rows.first();
        upcoming.map_or_else(Vec::new, |upcoming| schedule_lines(upcoming, look))
    }
    fn details(&self, row: &QueueRow, look: &RenderContext) -> Vec<Cell> {
        row.item().lines(look)
    }
    fn load(&self, rows: &Rows<QueueRow>) -> Load {
        match rows.feed.load() {
            // Only steps that match were queried, so there may be other steps.
            Load::Empty if !rows.list.shows_all() => Load::Answered,
            Load::Empty if self.which.shows_all() => self.refused.load(),
            load => load,
        }
    }
    fn nothing(&self, replays: bool) -> &[&'static str] {
        match (&self.which, replays) {
            (QueueKind::Retrying, true) => &["Nothing was blocked then."],
            (QueueKind::Retrying, false) => &[
                "Nothing is blocked.",
                "This pane lists the blocked steps, each with its next attempt.",
            ],
            (_, true) => &["Nothing was stuck then, and nothing had been refused."],
            (_, false) => Self::NOTHING,
        }
    }
    fn arrange(&self, rows: &Rows<QueueRow>, visible: &mut Vec<usize>) {
        visible.retain(|at| rows.at(*at).is_some_and(|row| self.which.has(row)));
        visible.sort_by_key(|at| rows.at(*at).map(QueueRow::rank));
    }
    others! { refused, upcoming }
    fn answered(&mut self, rows: &mut Rows<QueueRow>) {
        let slow = self.slow.iter().cloned().map(QueueRow::from);
        let refused = self.refused.rows.iter().cloned().map(Box::new);
        rows.others = slow.chain(refused.map(QueueRow::Refused)).collect();
    }
    fn filter_changed(&mut self, rows: &mut Rows<QueueRow>) {
        rows.keep_marked();
        rows.feed = self.which.steps(&rows.list.resolved_text());
    }
    /// Takes the slow steps from the snapshot.
    fn update(&mut self, rows: &mut Rows<QueueRow>, context: &Context, _moved: bool) -> bool {
        if rows.list.cursor + 1 >= rows.len() {
            self.refused.more();
        }
        let is_slow = |step: &&Step| self.which.shows_all() && step.state == StepState::Verifying;
        let slow = context.snapshot.attention.iter().filter(is_slow);
        if slow.clone().eq(&self.slow) {
            return false;
        }
        self.slow = slow.cloned().collect();
        self.answered(rows);
        true
    }
    fn act_on(&mut self, _: &mut Rows<QueueRow>, action: Action, context: &mut Context) -> bool {
        let groups = action == Action::Group && self.which.shows_all();
        if groups {
            context.go("causes");
        }
        groups
    }
}
