//! One deletion over time: what ran when, and what it waited for.

use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::panes::emptiness::Load;
use chrono::{DateTime, Utc};
use std::borrow::Cow;

use crate::control::query;
use crate::domain::gantt::{Gantt, GanttRow, Mark};
use crate::domain::model::{Action as Does, Deletion, short_id};

use super::super::feed::{Feed, Fetch};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::{Column, Context, Pane};
use crate::present::{duration, kind_words, target_words, thousands};

/// As many columns as the widest screen shows; narrower ones draw some of them together.
const COLUMNS: u16 = 400;
/// The cursor, a mark, and the edge of the screen.
const SIGNS: u16 = 4;
const ENDED: u16 = 13;

pub(crate) struct ChartPane {
    id: String,
    words: String,
    list: List,
    feed: Feed<Gantt>,
    visible: Vec<usize>,
}

impl ChartPane {
    pub(crate) fn new(deletion: &Deletion) -> Self {
        Self {
            id: deletion.id.clone(),
            words: target_words(deletion),
            list: List::default(),
            feed: Feed::new(1),
            visible: Vec::new(),
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if let Fetch::Page(_) = self.feed.due(context) {
            let chart = query::Chart {
                deletion_id: self.id.clone(),
                columns: COLUMNS.into(),
            };
            self.feed.ask(chart, true, context);
        }
    }

    fn chart(&self) -> Option<&Gantt> {
        self.feed.rows.first()
    }

    fn row(&self, row: usize) -> Option<&GanttRow> {
        self.chart()?.rows.get(*self.visible.get(row)?)
    }

    fn refilter(&mut self) {
        let filter = &self.list.filter;
        let rows = self.chart().map_or(&[][..], |chart| &chart.rows);
        let fits = |row: &GanttRow| {
            filter.fits_texts(&[
                &kind_words(&row.kind),
                row.kind.as_str(),
                &row.site.to_string(),
            ])
        };
        let fitting = rows.iter().enumerate().filter(|(_, row)| fits(row));
        self.visible = fitting.map(|(at, _)| at).collect();
    }

    /// How long one column of the plot is.
    fn column_words(&self, look: &RenderContext) -> Option<String> {
        let chart = self.chart()?;
        let span = u64::try_from((chart.until - chart.from).num_milliseconds()).ok()?;
        let long = span / u64::from(self.plot_width(look)).max(1);
        Some(match long {
            0..1_000 => format!("{long} ms"),
            long => duration(long.div_ceil(1_000)),
        })
    }

    fn has_several_sites(&self) -> bool {
        let rows = self.chart().map_or(&[][..], |chart| &chart.rows);
        rows.windows(2).any(|pair| pair[0].site != pair[1].site)
    }

    fn what_width(&self, look: &RenderContext) -> u16 {
        match (look.width, self.has_several_sites()) {
            (0..60, _) => 14,
            (60..120, _) | (_, false) => 24,
            (_, true) => 44,
        }
    }

    /// What the other columns leave.
    fn plot_width(&self, look: &RenderContext) -> u16 {
        let (gaps, ended) = match look.width {
            0..60 => (1, 0),
            60..100 => (2, ENDED),
            _ => (4, ENDED),
        };
        let taken = SIGNS + self.what_width(look) + ended + gaps;
        // Wider than this nothing is counted.
        look.width.saturating_sub(taken).min(COLUMNS)
    }

    /// The two ends of the time that is drawn, above its first and its last column.
    fn axis(&self, look: &RenderContext) -> String {
        let Some(chart) = self.chart() else {
            return String::new();
        };
        let (from, until) = (look.time(chart.from), look.time(chart.until));
        let room = usize::from(self.plot_width(look)).saturating_sub(from.len() + until.len());
        match room {
            0 => from,
            room => format!("{from}{}{until}", " ".repeat(room)),
        }
    }
}

fn sign(mark: Mark, look: &RenderContext) -> &'static str {
    match mark {
        Mark::Waits => look.pick("·", "-"),
        Mark::Sent => look.pick("▓", "+"),
        Mark::Refused => look.pick("✖", "x"),
        Mark::Gone => look.pick("█", "#"),
        Mark::Rests => look.pick("░", "."),
        Mark::Over => " ",
    }
}

fn words(row: &GanttRow) -> String {
    let kind = kind_words(&row.kind);
    match row.action {
        Does::Delete => kind,
        other => format!("{} {kind}", other.as_str()),
    }
}

/// `port at prod/RegionOne: 12 of 600 ended`
fn facts(row: &GanttRow) -> String {
    let (ended, steps) = (thousands(row.ended), thousands(row.steps));
    format!("{} at {}: {ended} of {steps} ended", words(row), row.site)
}

/// Which of a row's steps ended last, and for what it had waited.
fn last_words(row: &GanttRow, time: impl Fn(DateTime<Utc>) -> String) -> String {
    let last = &row.last;
    let name = &last.name;
    let waited = last.waited_for.as_ref();
    let other = waited.map(|it| format!("{} {}", kind_words(&it.kind), it.name));
    match (last.ended_at, other, waited.and_then(|it| it.ended_at)) {
        (Some(at), Some(other), Some(before)) => {
            let seconds = (at - before).num_seconds().unsigned_abs();
            let (at, took) = (time(at), duration(seconds));
            format!("the last was {name} at {at}: {took} after {other}, for which it waited")
        }
        (Some(at), ..) => format!(
            "the last was {name} at {}; it waited for no other",
            time(at)
        ),
        (None, Some(other), None) => format!("{name} has not ended: it waits for {other}"),
        (None, Some(other), Some(before)) => {
            let before = time(before);
            format!("{name} has not ended; the last that it waited for, {other}, went at {before}")
        }
        (None, None, _) => format!("{name} has not ended; it waits for no other"),
    }
}

impl Pane for ChartPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("chart of deletion {}: {}", short_id(&self.id), self.words)
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
        self.feed.is_waiting()
    }
    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        vec![
            Column::fixed("WHAT", self.what_width(look)),
            Column::fixed("ENDED", ENDED).right().from(60),
            Column {
                heading: self.axis(look).into(),
                ..Column::fixed("", self.plot_width(look))
            },
        ]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let (Some(chart), Some(row)) = (self.chart(), self.row(row)) else {
            return Vec::new();
        };
        let marks = row.marks(chart.columns, usize::from(self.plot_width(look)));
        let plot: String = marks.into_iter().map(|mark| sign(mark, look)).collect();
        let tone = match row.ended == row.steps {
            true => Tone::Good,
            false => Tone::Busy,
        };
        vec![
            Cell::plain(match self.has_several_sites() {
                true => format!("{} {}", words(row), row.site),
                false => words(row),
            }),
            Cell::plain(format!("{}/{}", thousands(row.ended), thousands(row.steps))),
            Cell::new(plot, tone),
        ]
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let legend = [
            (Mark::Waits, "waits"),
            (Mark::Sent, "sent"),
            (Mark::Gone, "gone"),
            (Mark::Refused, "refused"),
            (Mark::Rests, "nothing new"),
        ];
        let mut legend: Vec<String> = legend
            .map(|(mark, means)| format!("{} {means}", sign(mark, look)))
            .into();
        if let Some(long) = self.column_words(look) {
            legend.push(format!("a column is {long}"));
        }
        let mut lines = vec![Cell::dim(legend.join("  "))];
        lines.extend(look.errors(&self.feed.error));
        lines
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.row(self.list.cursor) else {
            return Vec::new();
        };
        vec![
            Cell::plain(facts(row)),
            Cell::plain(last_words(row, |at| look.time(at))),
        ]
    }
    fn detail_rows(&self) -> u16 {
        3
    }
    fn load(&self) -> Load {
        match self.chart() {
            Some(chart) if chart.rows.is_empty() => Load::Empty,
            _ => self.feed.load(),
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        "row".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Counting what happened…")]
    }
    fn nothing(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain("This deletion has no steps yet."),
            Cell::dim("Once it is planned, what runs when is drawn here."),
        ]
    }
    fn filter_changed(&mut self) {
        self.refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.feed.invalidate();
        self.ask(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            self.feed.invalidate();
        }
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let received = self
            .feed
            .receive::<query::Chart>(arrived, context, |it| whole(vec![it]));
        if received.is_none() {
            return false;
        }
        self.refilter();
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match action {
            Action::Refresh => self.open(context),
            Action::Copy => {
                if let Some(row) = self.row(self.list.cursor) {
                    let whole = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
                    let text = format!("{}; {}", facts(row), last_words(row, whole));
                    context.copy(text);
                }
            }
            _ => {}
        }
    }
}
