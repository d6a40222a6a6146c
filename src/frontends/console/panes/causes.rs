//! `:causes`: the steps that need a person, grouped by cause. For the triage after an outage: a person marks
//! causes, the engine counts their steps, and after a confirmation they are retried.

use crate::control::{
    Command, ControlError, NotEligible, Receipt, RetryFilter, query, unexpected_reply,
};
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::filter::{Facts, SearchQuery};
use crate::frontends::console::route::Route;

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, whole};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::prompt::Confirm;
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, PaneRequest, Table, show};
use crate::present::{cause_words, count, kind_words, thousands};

/// Maximum number of reasons that are named for steps that cannot be retried.
const REASONS_MAX: usize = 4;

pub(crate) struct CausesPane {
    rows: Rows<CauseGroup>,
    /// The dry run under way, in which the engine counts the steps of these causes that can be retried.
    counting: Option<(u64, Vec<Cause>)>,
    /// Ticket of the retry under way.
    retrying: Option<u64>,
}

impl CausesPane {
    pub(crate) fn new() -> Self {
        Self {
            rows: Rows::new(),
            counting: None,
            retrying: None,
        }
    }

    /// Returns the marked causes, or without a mark the one under the cursor.
    fn chosen(&self) -> Vec<Cause> {
        let marks = &self.rows.list.marks;
        let marked = self.rows.feed.rows.iter().map(|row| &row.cause);
        let marked: Vec<Cause> = marked
            .filter(|cause| marks.contains(&key(cause)))
            .cloned()
            .collect();
        match (marked.is_empty(), self.rows.current()) {
            (true, Some(row)) => vec![row.cause.clone()],
            (_, _) => marked,
        }
    }

    fn retry(&mut self, context: &mut Context<'_>) {
        let causes = self.chosen();
        let ticket = context.submit(again(causes.clone(), true));
        self.counting = Some((ticket, causes));
    }

    fn counted(
        &mut self,
        causes: Vec<Cause>,
        receipt: &Result<Receipt, ControlError>,
        context: &mut Context<'_>,
    ) {
        let counted = match receipt {
            Ok(Receipt::Bulk(counted)) => counted,
            Ok(_) => return context.say(Tone::Bad, unexpected_reply().to_string()),
            Err(error) => return context.say(Tone::Bad, format!("retry: {error}")),
        };
        let left = left(&counted.not_eligible);
        if counted.eligible == 0 {
            let why = reasons(&counted.not_eligible).join("; ");
            return context.say(Tone::Warn, format!("no step can be retried: {why}"));
        }
        let n = counted.eligible;
        let mut lines = vec![format!("{} eligible, {left}", thousands(n))];
        lines.extend(reasons(&counted.not_eligible));
        lines.push("Each is sent once more; what is refused again comes back here.".to_owned());
        let confirm = Confirm::new(
            format!("how many are retried: {n}"),
            vec![n.to_string(), thousands(n)],
            format!("retry of {}", count(n, "step")),
            again(causes, false),
        );
        context
            .requests
            .push(PaneRequest::Ask(Box::new(confirm.saying(lines))));
    }
}

impl Row for CauseGroup {
    type Key = String;

    fn key(&self) -> String {
        key(&self.cause)
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let words = cause_words(&self.cause);
        filter.fits(&Facts {
            texts: &[&words, &self.message],
            state: self.cause.state.as_str(),
            kind: self.cause.kind.as_str(),
            since: Some(self.since),
            ..Facts::default()
        })
    }
}

/// Tells how many steps are not retried.
fn left(others: &[NotEligible]) -> String {
    let left: u64 = others.iter().map(|it| it.steps).sum();
    format!("{} not", thousands(left))
}

fn reasons(others: &[NotEligible]) -> Vec<String> {
    let mut largest: Vec<_> = others.iter().collect();
    largest.sort_by_key(|it| std::cmp::Reverse(it.steps));
    let words = largest.iter().take(REASONS_MAX);
    let mut words: Vec<String> = words
        .map(|it| format!("{} not: {}", thousands(it.steps), it.reason))
        .collect();
    if others.len() > REASONS_MAX {
        words.push(format!("and {} more reasons", others.len() - REASONS_MAX));
    }
    words
}

fn again(causes: Vec<Cause>, dry_run: bool) -> Command {
    let filter = RetryFilter {
        causes,
        ..RetryFilter::default()
    };
    Command::RetryMatching {
        filter: Box::new(filter),
        dry_run,
    }
}

/// Key by which a row is marked, and found again.
fn key(cause: &Cause) -> String {
    let state = cause.state.as_str();
    format!("{state} {} {}", cause.kind, cause_words(cause))
}

impl ListPane for CausesPane {
    type Row = CauseGroup;
    const SCOPE: Scope = Scope::Causes;
    const WORD: Option<&'static str> = Some("causes");
    const NOUN: &'static str = "cause";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 4;
    const LOADING: &'static str = "Asking what does not go…";

    fn rows(&self) -> &Rows<CauseGroup> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<CauseGroup> {
        &mut self.rows
    }
    fn request(&mut self, _cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(context.ask(query::Causes::default()))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let feed = &mut self.rows.feed;
        feed.receive::<query::Causes>(arrived, context, whole)
    }
    fn heading(&self) -> String {
        let rows = &self.rows.feed.rows;
        let steps: u64 = rows.iter().map(|row| row.steps).sum();
        let causes = count(rows.len(), "cause");
        let mut heading = format!("{causes} of {}", count(steps, "step"));
        if !self.rows.list.marks.is_empty() {
            heading.push_str(&format!(", {} marked", self.rows.list.marks.len()));
        }
        heading
    }
    fn table(&self, look: &RenderContext) -> Table<Self::Row> {
        Table(vec![
            show(Column::fixed("STATE", 9), |row, look| {
                look.step_state(row.cause.state)
            }),
            show(Column::fixed("STEPS", 9).right(), |row, _| {
                Cell::plain(thousands(row.steps))
            }),
            show(Column::fixed("KIND", 16).from(60), |row, _| {
                Cell::plain(kind_words(&row.cause.kind))
            }),
            show(Column::flex("CAUSE", 1), |row, _| {
                Cell::plain(cause_words(&row.cause))
            }),
            show(
                Column::fixed("SINCE", look.brief_width()).from(60),
                |row, look| Cell::dim(look.brief(row.since)),
            ),
        ])
    }
    fn is_working(&self) -> bool {
        self.counting.is_some() || self.retrying.is_some()
    }
    fn lead(&self, _look: &RenderContext) -> Vec<Cell> {
        let counting = (self.counting.as_ref()).map(|_| "counting what can be retried…");
        let retrying = self.retrying.map(|_| "trying again…");
        let under_way = counting.into_iter().chain(retrying);
        under_way
            .map(|words| Cell::new(words, Tone::Busy))
            .collect()
    }
    fn details(&self, row: &CauseGroup, look: &RenderContext) -> Vec<Cell> {
        let since = look.time(row.since);
        let mut lines = vec![Cell::plain(format!(
            "{} of {}, the first since {since}",
            count(row.steps, "step"),
            kind_words(&row.cause.kind)
        ))];
        if !row.message.is_empty() {
            lines.push(Cell::dim(format!("one of them: {}", row.message)));
        }
        lines
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("Nothing was stuck then.")];
        }
        vec![
            Cell::plain("Nothing is stuck."),
            Cell::dim("What needs you is grouped here by why it does not go, the largest first."),
        ]
    }
    fn mark(row: &CauseGroup) -> Option<String> {
        Some(key(&row.cause))
    }
    fn take_receipt(
        &mut self,
        ticket: u64,
        receipt: &Result<Receipt, ControlError>,
        context: &mut Context<'_>,
    ) -> bool {
        if self.retrying.is_some_and(|asked| asked == ticket) {
            self.retrying = None;
            match receipt {
                Ok(Receipt::Bulk(done)) => {
                    let moved = thousands(done.moved);
                    let left = left(&done.not_eligible);
                    context.say(Tone::Good, format!("{moved} retried, {left}"));
                }
                Ok(_) => context.say(Tone::Bad, unexpected_reply().to_string()),
                Err(error) => context.say(Tone::Bad, format!("retry: {error}")),
            }
            self.rows.list.marks.clear();
            self.ask_anew(context);
            return true;
        }
        match self.counting.take_if(|(asked, _)| *asked == ticket) {
            Some((_, causes)) => {
                self.counted(causes, receipt, context);
                true
            }
            None => false,
        }
    }
    fn was_confirmed(&mut self, ticket: u64) -> bool {
        self.retrying = Some(ticket);
        true
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        let Some(row) = self.rows.current() else {
            return;
        };
        match action {
            Action::Open => context.push(Route::Cause(row.cause.clone())),
            Action::Mark => {
                let key = key(&row.cause);
                if !self.rows.list.marks.remove(&key) {
                    self.rows.list.marks.insert(key);
                }
            }
            Action::Retry => self.retry(context),
            Action::Copy => {
                let message = row.message.clone();
                context.copy(message);
            }
            _ => {}
        }
    }
}
