//! A chart of one deletion over time: which steps ran when, and what they waited for.

use chrono::{DateTime, Utc};

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, whole};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};
use crate::control::query;
use crate::domain::filter::SearchQuery;
use crate::domain::gantt::{Gantt, GanttRow, Mark};
use crate::domain::model::{Action as Does, Deletion, KindName, Site, short_id};
use crate::present::{duration, kind_words, target_words, thousands};

/// Number of columns to query, enough for the widest screen; a narrower one draws several as one.
const COLUMNS: u16 = 400;
/// Width of the cursor, a mark, and the edge of the screen.
const SIGNS: u16 = 4;
const ENDED: u16 = 13;

pub(crate) struct ChartPane {
    id: String,
    words: String,
    rows: Rows<ChartRow>,
    span: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

/// A row of the chart, and the facts about the whole chart that its cells need.
pub(crate) struct ChartRow {
    row: GanttRow,
    columns: u32,
    /// Whether the chart has rows of several sites.
    names_site: bool,
}

impl ChartRow {
    fn all_of(chart: Gantt) -> Vec<Self> {
        let names_site = chart
            .rows
            .windows(2)
            .any(|pair| pair[0].site != pair[1].site);
        let rows = chart.rows.into_iter().map(|row| Self {
            row,
            columns: chart.columns,
            names_site,
        });
        rows.collect()
    }
    fn plot(&self, look: &RenderContext) -> Cell {
        let width = usize::from(plot_width(look, self.names_site));
        let marks = self.row.marks(self.columns, width);
        let plot: String = marks.into_iter().map(|mark| sign(mark, look)).collect();
        let has_ended = self.row.ended == self.row.steps;
        Cell::new(plot, if has_ended { Tone::Good } else { Tone::Busy })
    }
}

impl Row for ChartRow {
    type Key = (KindName, Site, Does);

    fn key(&self) -> Self::Key {
        (
            self.row.kind.clone(),
            self.row.site.clone(),
            self.row.action,
        )
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[
            &kind_words(&self.row.kind),
            self.row.kind.as_str(),
            &self.row.site.to_string(),
        ])
    }
}

fn what_width(look: &RenderContext, names_site: bool) -> u16 {
    match (look.width, names_site) {
        (0..60, _) => 14,
        (60..120, _) | (_, false) => 24,
        (_, true) => 44,
    }
}

/// The width that the other columns leave.
fn plot_width(look: &RenderContext, names_site: bool) -> u16 {
    let (gaps, ended) = match look.width {
        0..60 => (1, 0),
        60..100 => (2, ENDED),
        _ => (4, ENDED),
    };
    let taken = SIGNS + what_width(look, names_site) + ended + gaps;
    // The engine counts no more columns than these.
    look.width.saturating_sub(taken).min(COLUMNS)
}

impl ChartPane {
    pub(crate) fn new(deletion: &Deletion) -> Self {
        Self {
            id: deletion.id.clone(),
            words: target_words(deletion),
            rows: Rows::new(),
            span: None,
        }
    }

    fn names_site(&self) -> bool {
        self.rows
            .feed
            .rows
            .first()
            .is_some_and(|row| row.names_site)
    }

    /// The time that one column of the plot stands for.
    fn column_words(&self, look: &RenderContext) -> Option<String> {
        let (from, until) = self.span?;
        let span = u64::try_from((until - from).num_milliseconds()).ok()?;
        let long = span / u64::from(plot_width(look, self.names_site())).max(1);
        Some(match long {
            0..1_000 => format!("{long} ms"),
            long => duration(long.div_ceil(1_000)),
        })
    }

    /// The two ends of the time that is drawn, above its first and its last column.
    fn axis(&self, look: &RenderContext) -> String {
        let Some((from, until)) = self.span else {
            return String::new();
        };
        let (from, until) = (look.time(from), look.time(until));
        let room = usize::from(plot_width(look, self.names_site()));
        match room.saturating_sub(from.len() + until.len()) {
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

/// The progress of a row, such as `port at prod/RegionOne: 12 of 600 ended`.
fn facts(row: &GanttRow) -> String {
    let (ended, steps) = (thousands(row.ended), thousands(row.steps));
    format!("{} at {}: {ended} of {steps} ended", words(row), row.site)
}

/// Describes which of a row's steps ended last, and what it had waited for.
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

impl ListPane for ChartPane {
    type Row = ChartRow;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "row";
    const REFRESH: Refresh = Refresh::EachMove;
    const LOADING: &'static str = "Counting what happened…";

    fn rows(&self) -> &Rows<ChartRow> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<ChartRow> {
        &mut self.rows
    }
    fn heading(&self) -> String {
        format!("chart of deletion {}: {}", short_id(&self.id), self.words)
    }
    fn request(&mut self, _cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(context.ask(query::Chart {
            deletion_id: self.id.clone(),
            columns: COLUMNS.into(),
        }))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let (feed, span) = (&mut self.rows.feed, &mut self.span);
        feed.receive::<query::Chart>(arrived, context, |chart| {
            *span = Some((chart.from, chart.until));
            whole(ChartRow::all_of(chart))
        })
    }
    fn table(&self, look: &RenderContext) -> Table<Self::Row> {
        let names_site = self.names_site();
        let plot = Column {
            heading: self.axis(look).into(),
            ..Column::fixed("", plot_width(look, names_site))
        };
        Table(vec![
            show(
                Column::fixed("WHAT", what_width(look, names_site)),
                |it, _| {
                    Cell::plain(match it.names_site {
                        true => format!("{} {}", words(&it.row), it.row.site),
                        false => words(&it.row),
                    })
                },
            ),
            show(Column::fixed("ENDED", ENDED).right().from(60), |it, _| {
                let (ended, steps) = (thousands(it.row.ended), thousands(it.row.steps));
                Cell::plain(format!("{ended}/{steps}"))
            }),
            show(plot, ChartRow::plot),
        ])
    }
    fn lead(&self, look: &RenderContext) -> Vec<Cell> {
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
        vec![Cell::dim(legend.join("  "))]
    }
    fn details(&self, it: &ChartRow, look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain(facts(&it.row)),
            Cell::plain(last_words(&it.row, |at| look.time(at))),
        ]
    }
    fn none(_look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain("This deletion has no steps yet."),
            Cell::dim("Once it is planned, what runs when is drawn here."),
        ]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some(it)) = (action, self.rows.current()) {
            let whole = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
            context.copy(format!(
                "{}; {}",
                facts(&it.row),
                last_words(&it.row, whole)
            ));
        }
    }
}
