//! `:causes`, the steps that need a person, grouped by cause. After an outage, a person marks causes, the engine counts
//! their steps, and after a confirmation it retries them.

use super::kit::*;
use crate::control::{Command, NotEligible, Receipt, Retried, RetryFilter, unexpected_reply};
use crate::domain::attention::{Cause, CauseGroup};
use crate::present::{cause_words, count, kind_words, thousands};

/// Maximum number of reasons that are named for steps that cannot be retried.
const REASONS_MAX: usize = 4;

#[derive(Default)]
struct CausesPane {
    /// The dry run under way, in which the engine counts the steps of these causes that can be retried.
    counting: Option<(u64, Vec<Cause>)>,
    /// Ticket of the retry under way.
    retrying: Option<u64>,
}

pub(super) fn open(_: &Around<'_>) -> Opened {
    let feed = Feed::of(query::Causes::default());
    Ok(listed(CausesPane::default(), feed))
}

impl Row for CauseGroup {
    fn key(&self) -> String {
        let Cause { state, kind, .. } = &self.cause;
        format!("{} {kind} {}", state.as_str(), cause_words(&self.cause))
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits(&Facts {
            texts: &[&cause_words(&self.cause), &self.message],
            state: self.cause.state.as_str(),
            kind: self.cause.kind.as_str(),
            since: Some(self.since),
            ..Facts::default()
        })
    }
}

/// Asks whether to retry the steps that were counted, or says why none can be retried.
fn confirm(causes: Vec<Cause>, counted: &Retried, context: &mut Context) {
    let (n, others) = (counted.eligible, &counted.not_eligible);
    if n == 0 {
        let why = reasons(others).join("; ");
        return context.say(Tone::Warn, format!("no step can be retried: {why}"));
    }
    let can = count(n, "step");
    let mut lines = vec![format!("{can} can be retried, {} cannot", left(others))];
    lines.extend(reasons(others));
    lines.push("Each step is sent again; one that still needs you is listed again.".to_owned());
    let confirm = Confirm::new(
        format!("how many are retried: {n}"),
        vec![n.to_string(), thousands(n)],
        format!("retry of {}", count(n, "step")),
        again(causes, false),
    );
    context.confirm(confirm.saying(lines));
}

/// Returns the number of steps that are not retried.
fn left(others: &[NotEligible]) -> String {
    let left: u64 = others.iter().map(|it| it.steps).sum();
    thousands(left)
}

fn reasons(others: &[NotEligible]) -> Vec<String> {
    let mut largest: Vec<_> = others.iter().collect();
    largest.sort_by_key(|it| std::cmp::Reverse(it.steps));
    let named = largest.iter().take(REASONS_MAX);
    let named = named.map(|it| format!("{} not: {}", thousands(it.steps), it.reason));
    let more = others.len().saturating_sub(REASONS_MAX);
    let more = (more > 0).then(|| format!("and {more} more reasons"));
    named.chain(more).collect()
}

fn again(causes: Vec<Cause>, dry_run: bool) -> Command {
    let filter = Box::new(RetryFilter {
        causes,
        ..RetryFilter::default()
    });
    Command::RetryMatching { filter, dry_run }
}

impl ListPane for CausesPane {
    type Row = CauseGroup;
    const SCOPE: Scope = Scope::Causes;
    const NOUN: &'static str = "cause";
    const DETAIL_ROWS: u16 = 4;
    /// A cause is counted over all sites.
    const SCOPED: bool = false;
    const LOADING: &'static str = "Asking for the causes…";
    const NOTHING: &'static [&'static str] = &[
        "Nothing is stuck.",
        "Steps that need you are grouped here by cause, the largest group first.",
    ];
    const NOTHING_THEN: &'static str = "Nothing was stuck then.";

    fn heading(&self, rows: &Rows<CauseGroup>, _look: &RenderContext) -> String {
        let steps: u64 = rows.all().map(|row| row.steps).sum();
        let causes = count(rows.all().count(), "cause");
        format!("{causes} of {}", count(steps, "step"))
    }
    fn table(&self, _rows: &Rows<CauseGroup>, look: &RenderContext) -> Table<'_, CauseGroup> {
        columns! { row: CauseGroup, look;
            fixed("STATE", 9) => look.step_state(row.cause.state),
            fixed("STEPS", 9).right() => Cell::plain(thousands(row.steps)),
            fixed("KIND", 16).from(60) => Cell::plain(kind_words(&row.cause.kind)),
            flex("CAUSE", 1) => Cell::plain(cause_words(&row.cause)),
            fixed("SINCE", look.brief_width()).from(60) => Cell::dim(look.brief(row.since)); time_key(row.since),
        }
    }
    fn is_working(&self) -> bool {
        self.counting.is_some() || self.retrying.is_some()
    }
    fn lead(&self, _rows: &Rows<CauseGroup>, _look: &RenderContext) -> Vec<Cell> {
        let counting = (self.counting.as_ref()).map(|_| "counting the steps that can be retried…");
        let retrying = self.retrying.map(|_| "retrying…");
        let busy = |words| Cell::new(words, Tone::Busy);
        counting.into_iter().chain(retrying).map(busy).collect()
    }
    fn details(&self, row: &CauseGroup, look: &RenderContext) -> Vec<Cell> {
        let since = look.time(row.since);
        let (steps, kind) = (count(row.steps, "step"), kind_words(&row.cause.kind));
        let facts = Cell::plain(format!("{steps} of {kind}, the first since {since}"));
        let message = non_empty(&row.message);
        let message = message.map(|it| Cell::dim(format!("one of them: {it}")));
        [facts].into_iter().chain(message).collect()
    }
    fn copies(&self, _: &Rows<CauseGroup>, row: &CauseGroup) -> Vec<Copied> {
        vec![Copied::new("the answer", &row.message)]
    }
    fn receipt(
        &mut self,
        rows: &mut Rows<CauseGroup>,
        ticket: u64,
        reply: &Reply,
        context: &mut Context,
    ) -> bool {
        let counted = self.counting.take_if(|(asked, _)| *asked == ticket);
        let is_retried = self.retrying.take_if(|asked| *asked == ticket).is_some();
        if counted.is_none() && !is_retried {
            return false;
        }
        if is_retried {
            rows.list.marks.clear();
            rows.feed.invalidate();
        }
        match (reply, counted) {
            (Ok(Receipt::Bulk(bulk)), Some((_, causes))) => confirm(causes, bulk, context),
            (Ok(Receipt::Bulk(done)), None) => {
                let (moved, left) = (thousands(done.moved), left(&done.not_eligible));
                context.say(Tone::Good, format!("{moved} retried, {left} not"));
            }
            (Ok(_), _) => context.say(Tone::Bad, unexpected_reply().to_string()),
            (Err(error), _) => context.say(Tone::Bad, format!("retry: {error}")),
        }
        true
    }
    fn confirmed(&mut self, ticket: u64) -> bool {
        self.retrying = Some(ticket);
        true
    }
    fn act_on(
        &mut self,
        rows: &mut Rows<CauseGroup>,
        action: Action,
        context: &mut Context,
    ) -> bool {
        let causes = rows.chosen().into_iter().map(|row| row.cause.clone());
        let causes: Vec<Cause> = causes.collect();
        let retries = action == Action::Retry && !causes.is_empty();
        if retries {
            let ticket = context.outbox.submit(again(causes.clone(), true), "");
            self.counting = Some((ticket, causes));
        }
        retries
    }
    fn act(&mut self, row: &CauseGroup, action: Action, context: &mut Context) {
        if action == Action::Open {
            context.push(Route::Cause(row.cause.clone()));
        }
    }
}
