//! The report of a deletion as a web page in one file: no script, no picture and no style from elsewhere. Each text
//! is escaped twice: characters that hide or reorder text become visible, as on a terminal, and characters that HTML
//! interprets become entities.

use std::ops::Range;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use super::content::{Report, Section, chart_span};
use crate::domain::gantt::{CellState, Gantt, GanttRow};
use crate::domain::text;
use crate::present::{chart_facts, chart_words, joined, thousands};

const STYLE: &str = include_str!("../../../assets/report.css");
/// Forbids the browser to load or run anything, whatever a text may contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// Height of a row of the chart; its width is its number of columns.
const BAR_HEIGHT: u32 = 10;

/// A text that may be hostile, because it comes from a cloud or a person.
struct Text<'t>(&'t str);

impl Render for Text<'_> {
    fn render_to(&self, page: &mut String) {
        text::escape(self.0).as_ref().render_to(page);
    }
}

/// Writes the report as a web page.
pub fn page(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (Text(&report.title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (Text(&report.title)) }
                p.outcome { (Text(&report.outcome)) }
                table.facts {
                    tbody {
                        @for (label, value) in &report.facts {
                            tr { th scope="row" { (label) } td { (Text(value)) } }
                        }
                    }
                }
                @if let Some(chart) = report.chart.as_ref().filter(|chart| !chart.rows.is_empty()) {
                    (drawn(chart))
                }
                @for section in &report.sections {
                    (table(section))
                }
            }
        }
    };
    page.into_string()
}

fn table(section: &Section) -> Markup {
    let headings = || section.sheet.headings();
    html! {
        section {
            h2 { (section.title) }
            p { (section.about) }
            table {
                thead {
                    tr { @for heading in headings() { th scope="col" { (heading) } } }
                }
                tbody {
                    @for row in section.sheet.rows() {
                        tr {
                            @for (heading, cell) in headings().zip(row) {
                                td class=(classes(heading, cell)) { (Text(cell)) }
                            }
                        }
                    }
                }
            }
            @if let Some(more) = section.more() { p { (more) } }
        }
    }
}

/// A word of at most this many characters is not broken: a time, a state, the name of a site.
const WORD_MAX: usize = 20;

/// The classes of a cell: whether it is one short word, and the colour of its state.
fn classes(heading: &str, cell: &str) -> String {
    let is_word = !cell.contains(' ') && cell.chars().count() <= WORD_MAX;
    let state = match (heading, cell) {
        ("STATE", "gone") => Some("gone"),
        ("STATE", "stuck") => Some("stuck"),
        ("STATE", "blocked" | "purged") => Some("blocked"),
        _ => None,
    };
    joined(is_word.then_some("word").into_iter().chain(state), " ")
}

/// The chart: what ran when, and what was refused.
fn drawn(chart: &Gantt) -> Markup {
    html! {
        section {
            h2 { "Chart" }
            p.legend {
                @for (mark, means) in LEGEND {
                    span { (bar(&[*mark], 1, means)) " " (means) }
                }
            }
            table.chart {
                thead {
                    tr {
                        th scope="col" { "WHAT" }
                        th scope="col" { (chart_span(chart)) }
                        th scope="col" { "ENDED" }
                    }
                }
                tbody {
                    @for row in &chart.rows {
                        tr {
                            td { (Text(&format!("{} at {}", chart_words(row), row.site))) }
                            td { (row_bar(chart, row)) }
                            td { (thousands(row.ended)) " of " (thousands(row.steps)) }
                        }
                    }
                }
            }
        }
    }
}

/// The marks differ in shape, not in colour alone, so that they are told apart on paper.
const LEGEND: &[(CellState, &str)] = &[
    (CellState::Gone, "gone"),
    (CellState::Sent, "sent"),
    (CellState::Refused, "refused"),
    (CellState::Rests, "nothing new"),
    (CellState::Waits, "waits"),
];

fn row_bar(chart: &Gantt, row: &GanttRow) -> Markup {
    let marks = row.cell_states(chart.columns, chart.columns as usize);
    bar(&marks, chart.columns.max(1), &chart_facts(row))
}

/// Draws marks as bars of their own height, from left to right.
fn bar(marks: &[CellState], columns: u32, means: &str) -> Markup {
    html! {
        svg viewBox=(format!("0 0 {columns} {BAR_HEIGHT}")) preserveAspectRatio="none" role="img"
            aria-label=(Text(means)) {
            @for (mark, columns) in runs(marks) {
                @if let Some((class, height)) = shape(mark) {
                    rect class=(class) x=(columns.start) y=(BAR_HEIGHT - height) width=(columns.len())
                        height=(height) {}
                }
            }
        }
    }
}

/// The class and the height of a mark; none if nothing is drawn.
fn shape(mark: CellState) -> Option<(&'static str, u32)> {
    match mark {
        CellState::Gone => Some(("gone", 10)),
        CellState::Refused => Some(("refused", 7)),
        CellState::Sent => Some(("sent", 5)),
        CellState::Rests => Some(("rests", 2)),
        CellState::Waits => Some(("waits", 1)),
        CellState::Over => None,
    }
}

/// Joins equal neighbours.
fn runs(marks: &[CellState]) -> Vec<(CellState, Range<usize>)> {
    let mut runs: Vec<(CellState, Range<usize>)> = Vec::new();
    for (at, mark) in marks.iter().enumerate() {
        match runs.last_mut() {
            Some((last, columns)) if last == mark => columns.end = at + 1,
            _ => runs.push((*mark, at..at + 1)),
        }
    }
    runs
}
