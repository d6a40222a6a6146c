//! `:causes`: what needs a person, by why it does not move. The triage after an outage: a cause at a time
//! is marked, counted by the engine, and tried again.

use crate::control::{
    Command, ControlError, NotEligible, Receipt, RetryFilter, query, unexpected_reply,
};
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::Paged;
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone, count, kind_words, thousands};
use super::super::prompt::Confirm;
use super::super::rows::{Row, Rows};
use super::attention::AttentionPane;
use super::{Column, Context, Pane, PaneRequest};

/// Reasons of the engine that are named where steps may not be tried again.
const REASONS_MAX: usize = 4;

pub(crate) struct CausesPane {
    rows: Rows<CauseGroup>,
    /// The engine counts what may be tried again of these.
    counting: Option<(u64, Vec<Cause>)>,
    /// The engine tries again.
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

    /// What is marked; without a mark, the row under the cursor.
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
            return context.say(Tone::Warn, format!("no step can be tried again: {why}"));
        }
        let n = counted.eligible;
        let mut lines = vec![format!("{} eligible, {left}", thousands(n))];
        lines.extend(reasons(&counted.not_eligible));
        lines.push("Each is sent once more; what is refused again comes back here.".to_owned());
        let confirm = Confirm::new(
            format!("how many are tried again: {n}"),
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
    type Request = query::Causes;
    fn request(_cursor: Option<String>) -> query::Causes {
        query::Causes::default()
    }
    fn of(rows: Vec<Self>) -> Paged<Self> {
        whole(rows)
    }
}

/// What becomes of what is not tried again.
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

/// By which a row is marked, and found again.
fn key(cause: &Cause) -> String {
    let state = cause.state.as_str();
    format!("{state} {} {}", cause.kind, cause_words(cause))
}

/// `409 PortInUse`, or what stands in its place.
pub(crate) fn cause_words(cause: &Cause) -> String {
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

impl Pane for CausesPane {
    fn scope(&self) -> Scope {
        Scope::Causes
    }
    fn word(&self) -> Option<&str> {
        Some("causes")
    }
    fn title(&self, _look: &RenderContext) -> String {
        let steps: u64 = self.rows.feed.rows.iter().map(|row| row.steps).sum();
        let mut title = format!(
            "{} of {}",
            count(self.rows.feed.rows.len() as u64, "cause"),
            count(steps, "step")
        );
        if !self.rows.list.marks.is_empty() {
            title.push_str(&format!(", {} marked", self.rows.list.marks.len()));
        }
        title
    }
    fn list(&self) -> &List {
        &self.rows.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.rows.list
    }
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn is_busy(&self) -> bool {
        self.rows.feed.is_waiting() || self.counting.is_some() || self.retrying.is_some()
    }
    fn is_marked(&self, row: usize) -> bool {
        let row = self.rows.get(row);
        row.is_some_and(|row| self.rows.list.marks.contains(&key(&row.cause)))
    }
    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        vec![
            Column::fixed("STATE", 9),
            Column::fixed("STEPS", 9).right(),
            Column::fixed("KIND", 16).from(60),
            Column::flex("CAUSE", 1),
            Column::fixed("SINCE", look.brief_width()).from(60),
        ]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows.get(row) else {
            return Vec::new();
        };
        vec![
            look.step_state(row.cause.state),
            Cell::plain(thousands(row.steps)),
            Cell::plain(kind_words(&row.cause.kind)),
            Cell::plain(cause_words(&row.cause)),
            Cell::dim(look.brief(row.since)),
        ]
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut head = look.errors(&self.rows.feed.error);
        if self.counting.is_some() {
            head.push(Cell::new("counting what may be tried again…", Tone::Busy));
        }
        if self.retrying.is_some() {
            head.push(Cell::new("trying again…", Tone::Busy));
        }
        head
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows.current() else {
            return Vec::new();
        };
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
    fn strip_rows(&self) -> u16 {
        4
    }
    fn empty(&self, look: &RenderContext) -> Vec<Cell> {
        if !self.rows.feed.loaded {
            return vec![Cell::dim("Asking what does not go…")];
        }
        if !self.rows.list.filter.is_empty() {
            return vec![Cell::dim(look.nothing_fits("cause"))];
        }
        if look.replays {
            return vec![Cell::plain("Nothing was stuck then.")];
        }
        vec![
            Cell::plain("Nothing is stuck."),
            Cell::dim("What needs you is grouped here by why it does not go, the largest first."),
        ]
    }
    fn filter_changed(&mut self) {
        self.rows.refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.rows.ask_anew(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            self.rows.feed.invalidate();
        }
        self.rows.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        if !self.rows.answer(arrived, context) {
            return false;
        }
        let there: Vec<String> = self.rows.feed.rows.iter().map(Row::key).collect();
        self.rows.list.marks.retain(|mark| there.contains(mark));
        true
    }
    fn receipt(
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
                    context.say(Tone::Good, format!("{moved} tried again, {left}"));
                }
                Ok(_) => context.say(Tone::Bad, unexpected_reply().to_string()),
                Err(error) => context.say(Tone::Bad, format!("retry: {error}")),
            }
            self.rows.list.marks.clear();
            self.open(context);
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
    fn confirmed(&mut self, ticket: u64) -> bool {
        self.retrying = Some(ticket);
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Refresh {
            self.open(context);
            return;
        }
        let Some(row) = self.rows.current() else {
            return;
        };
        match action {
            Action::Open => context.push(AttentionPane::of(row.cause.clone())),
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
