//! A chart of one deletion over time: which steps ran when, and what they waited for.

use std::sync::Arc;

use super::kit::*;
use crate::domain::gantt::{CellState, Gantt, GanttRow};
use crate::domain::model::{Deletion, short_id};
use crate::present::{
    chart_facts, chart_last_words, chart_words, duration, joined, kind_words, target_words,
    thousands,
};

/// Number of columns to query, enough for a wide screen; on a narrower one, several are drawn as one.
const COLUMNS: u16 = 400;
/// Width of the cursor, a mark, and the edge of the screen.
const SIGNS: u16 = 4;
const ENDED: u16 = 13;

struct ChartPane {
    title: String,
}

pub(super) fn of(deletion: &Deletion) -> Box<dyn Pane> {
    let query = query::Chart {
        deletion_id: deletion.id.clone(),
        columns: COLUMNS.into(),
    };
    let words = target_words(deletion);
    let title = format!("chart of deletion {}: {words}", short_id(&deletion.id));
    let feed = Feed::reading(query, |chart| {
        let chart = Arc::new(chart);
        let rows = (0..chart.rows.len()).map(|at| ChartRow(chart.clone(), at));
        rows.collect::<Vec<_>>()
    });
    listed(ChartPane { title }, feed)
}

/// A chart, and the index of one of its rows.
struct ChartRow(Arc<Gantt>, usize);

impl ChartRow {
    fn row(&self) -> &GanttRow {
        &self.0.rows[self.1]
    }

    /// Whether the chart has rows of several sites.
    fn names_site(&self) -> bool {
        let mut pairs = self.0.rows.windows(2);
        pairs.any(|pair| pair[0].site != pair[1].site)
    }

    fn plot(&self, look: &RenderContext) -> Cell {
        let width = usize::from(self.plot_width(look));
        let marks = self.row().cell_states(self.0.columns, width);
        let plot: String = marks.into_iter().map(|mark| sign(mark, look)).collect();
        let has_ended = self.row().ended == self.row().steps;
        Cell::new(plot, if has_ended { Tone::Good } else { Tone::Busy })
    }

    fn words(&self) -> String {
        match self.names_site() {
            true => format!("{} {}", chart_words(self.row()), self.row().site),
            false => chart_words(self.row()),
        }
    }

    fn ended(&self) -> String {
        let (ended, steps) = (thousands(self.row().ended), thousands(self.row().steps));
        format!("{ended}/{steps}")
    }

    fn what_width(&self, look: &RenderContext) -> u16 {
        match (look.width, self.names_site()) {
            (0..60, _) => 14,
            (60..120, _) | (_, false) => 24,
            (_, true) => 44,
        }
    }

    /// The width that the other columns leave.
    fn plot_width(&self, look: &RenderContext) -> u16 {
        let (gaps, ended) = match look.width {
            0..60 => (1, 0),
            60..100 => (2, ENDED),
            _ => (4, ENDED),
        };
        let taken = SIGNS + self.what_width(look) + ended + gaps;
        // The engine returns only this number of columns.
        look.width.saturating_sub(taken).min(COLUMNS)
    }

    /// The time that one column of the plot stands for.
    fn column_words(&self, look: &RenderContext) -> String {
        let span = (self.0.until - self.0.from)
            .num_milliseconds()
            .unsigned_abs();
        match span / u64::from(self.plot_width(look)).max(1) {
            long @ 0..1_000 => format!("{long} ms"),
            long => duration(long.div_ceil(1_000)),
        }
    }

    /// The two ends of the time that is drawn, above its first and its last column; without room for both, only the
    /// first.
    fn axis(&self, look: &RenderContext) -> String {
        let (from, until) = (look.time(self.0.from), look.time(self.0.until));
        let room = usize::from(self.plot_width(look));
        match room.saturating_sub(from.len() + until.len()) {
            0 => from,
            room => format!("{from}{}{until}", " ".repeat(room)),
        }
    }
}

impl Row for ChartRow {
    fn key(&self) -> String {
        let row = self.row();
        format!("{} {} {}", row.action.as_str(), row.kind, row.site)
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let (kind, site) = (&self.row().kind, self.row().site.to_string());
        filter.fits_texts(&[&kind_words(kind), kind.as_str(), &site])
    }
}

fn sign(mark: CellState, look: &RenderContext) -> &'static str {
    match mark {
        CellState::Waits => look.pick("·", "-"),
        CellState::Sent => look.pick("▓", "+"),
        CellState::Refused => look.pick("✖", "x"),
        CellState::Gone => look.pick("█", "#"),
        CellState::Rests => look.pick("░", "."),
        CellState::Over => " ",
    }
}

impl ListPane for ChartPane {
    type Row = ChartRow;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "row";
    const FULL_WIDTH: bool = true;
    const LOADING: &'static str = "Counting what happened…";
    const NOTHING: &'static [&'static str] = &[
        "This deletion has no steps: it is not planned yet, was refused or cancelled,",
        "or its plan has nothing to delete. This chart shows when each step runs.",
    ];

    fn heading(&self, _rows: &Rows<ChartRow>, _look: &RenderContext) -> String {
        self.title.clone()
    }
    fn table(&self, rows: &Rows<ChartRow>, look: &RenderContext) -> Table<'_, ChartRow> {
        let Some(chart) = rows.all().next() else {
            return Table(Vec::new());
        };
        columns! { it: ChartRow, look;
            fixed("WHAT", chart.what_width(look)) => Cell::plain(it.words()),
            fixed("ENDED", ENDED).right().from(60) => Cell::plain(it.ended()),
            fixed(chart.axis(look), chart.plot_width(look)) => it.plot(look),
        }
    }
    fn lead(&self, rows: &Rows<ChartRow>, look: &RenderContext) -> Vec<Cell> {
        let signs = [
            (CellState::Waits, "waits"),
            (CellState::Sent, "sent"),
            (CellState::Gone, "gone"),
            (CellState::Refused, "refused"),
            (CellState::Rests, "nothing new"),
        ];
        let signs = signs.map(|(mark, means)| format!("{} {means}", sign(mark, look)));
        let first = rows.all().next();
        let column = first.map(|it| format!("a column is {}", it.column_words(look)));
        vec![Cell::dim(joined(signs.into_iter().chain(column), "  "))]
    }
    fn details(&self, it: &ChartRow, look: &RenderContext) -> Vec<Cell> {
        let last = chart_last_words(it.row(), |at| look.time(at));
        vec![Cell::plain(chart_facts(it.row())), Cell::plain(last)]
    }
    fn copies(&self, _: &Rows<ChartRow>, it: &ChartRow) -> Vec<Copied> {
        let whole = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
        let (facts, last) = (chart_facts(it.row()), chart_last_words(it.row(), whole));
        vec![Copied::new("the facts", &format!("{facts}; {last}"))]
    }
}
