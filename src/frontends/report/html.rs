//! The report of a deletion as a web page in one file: no script, no picture and no style from elsewhere. Each text
//! is escaped twice: characters that hide or reorder text become visible, as on a terminal, and characters that HTML
//! interprets become entities.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::content::{Report, Section, chart_span};
use crate::domain::gantt::{CellState, Gantt};
use crate::domain::text::escape;
use crate::present::{chart_facts, chart_words, joined, thousands};

const STYLE: &str = include_str!("../../../assets/report.css");
/// Forbids the browser to load or run anything, whatever a text may contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// Height of a row of the chart; its width is its number of columns.
const BAR_HEIGHT: u32 = 10;

pub fn page(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (escape(&report.title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (escape(&report.title)) }
                p.outcome { (escape(&report.outcome)) }
                table.facts {
                    tbody {
                        @for (label, value) in &report.facts {
                            tr { th scope="row" { (label) } td { (escape(value)) } }
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
                                td class=(classes(heading, cell)) { (escape(cell)) }
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
        ("STATE", "gone" | "stuck" | "blocked") => Some(cell),
        ("STATE", "purged") => Some("blocked"),
        _ => None,
    };
    joined(is_word.then_some("word").into_iter().chain(state), " ")
}

/// The chart, with a legend: each row shows the states of one group of steps over time.
fn drawn(chart: &Gantt) -> Markup {
    html! {
        section {
            h2 { "Chart" }
            p.legend {
                @for (mark, means, ..) in MARKS {
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
                            td { (escape(&format!("{} at {}", chart_words(row), row.site))) }
                            @let marks = row.cell_states(chart.columns, chart.columns as usize);
                            td { (bar(&marks, chart.columns.max(1), &chart_facts(row))) }
                            td { (thousands(row.ended)) " of " (thousands(row.steps)) }
                        }
                    }
                }
            }
        }
    }
}

/// The states that are drawn, each with its meaning, its class and the height of its mark. The marks differ in shape,
/// not in colour alone, so that they can be told apart on paper.
const MARKS: &[(CellState, &str, &str, u32)] = &[
    (CellState::Gone, "gone", "gone", 10),
    (CellState::Sent, "sent", "sent", 5),
    (CellState::Refused, "refused", "refused", 7),
    (CellState::Rests, "nothing new", "rests", 2),
    (CellState::Waits, "waits", "waits", 1),
];

/// Draws the state of each column as a mark, from left to right. Equal neighbours are one mark.
fn bar(states: &[CellState], columns: u32, means: &str) -> Markup {
    let runs = states.chunk_by(|left, right| left == right);
    let runs = runs.scan(0, |next, run| {
        let from = *next;
        *next += run.len();
        Some((run[0], from, run.len()))
    });
    html! {
        svg viewBox=(format!("0 0 {columns} {BAR_HEIGHT}")) preserveAspectRatio="none" role="img"
            aria-label=(escape(means)) {
            @for (state, from, width) in runs {
                @if let Some((.., class, height)) = MARKS.iter().find(|(it, ..)| *it == state) {
                    rect class=(class) x=(from) y=(BAR_HEIGHT - height) width=(width) height=(height) {}
                }
            }
        }
    }
}
