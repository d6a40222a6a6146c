//! Renders the state as lines of text, for screen readers and for terminals that can only print lines.

use super::super::keys::Scope;
use super::super::panes::kit::{Column, Pane, Shown, emptiness};
use super::super::prompt::{Confirm, Prompt};
use super::super::question::{self, Question};
use super::super::render_context::{Cell, RenderContext, Tone};
use super::super::state::State;
use super::{header, keys};
use crate::present::{joined, thousands};

/// Returns everything that is shown now, as lines of text.
pub fn render_lines(state: &State) -> Vec<String> {
    let look = state.look();
    let mut lines = Vec::new();
    let mut say = |text: &str| {
        let text = look.safe(text);
        lines.push(text.trim_end().to_owned());
    };
    if let Some(message) = &state.message {
        let is_bad = message.tone == Tone::Bad;
        let sign = if is_bad { "!!" } else { "!" };
        say(&format!("{sign} {}", message.text));
    }
    match &state.prompt {
        Some(Prompt::Confirm(confirm)) => confirm_lines(confirm).iter().for_each(|line| say(line)),
        Some(Prompt::Question(_)) => {
            let question = question::open(state);
            let lines = question.iter().flat_map(question_lines);
            lines.for_each(|line| say(&line));
        }
        Some(Prompt::Report(input, _)) => {
            let file = input.value();
            say(&format!(
                "Type the file for the report, such as {file}. An empty line: no report."
            ));
        }
        // A typed line opens such a prompt and answers it at once, so the prompt is never shown.
        Some(Prompt::Command(..) | Prompt::Filter(..)) | None => {
            header_lines(state, &look).iter().for_each(|line| say(line));
            let pane = state.top();
            let lines = pane.map(|pane| pane_lines(state, pane, &look));
            lines.iter().flatten().for_each(|line| say(line));
        }
    }
    lines
}

/// Returns a summary: the fault of the engine, the numbers of stuck steps and refused deletions, and whether work is
/// under way. It is printed when it changes.
pub(in super::super) fn news(state: &State) -> String {
    let look = state.look();
    let facts = [header::engine_words(state, &look)].into_iter();
    let facts = facts.chain(header::counts(state, &look));
    let urgent = facts.filter(|fact| fact.tone == Tone::Bad);
    let steps = &state.snapshot.steps;
    let work = match state.has_work() {
        false => format!("nothing is under way, {} gone", thousands(steps.gone)),
        true => "work is under way".to_owned(),
    };
    joined(urgent.map(|fact| fact.text).chain([work]), ", ")
}

fn confirm_lines(confirm: &Confirm) -> Vec<String> {
    let mut lines = confirm.lines.clone();
    lines.push(match confirm.wrong {
        true => format!("That is not it. Type {}.", confirm.ask()),
        false => format!("Type {}. An empty line sends nothing.", confirm.ask()),
    });
    lines
}

fn question_lines(question: &Question) -> Vec<String> {
    let keys = question.keys("An empty line").into_iter();
    let keys = keys.map(|(key, (does, more))| format!("{key}: {does}{more}."));
    question.head.iter().cloned().chain(keys).collect()
}

fn header_lines(state: &State, look: &RenderContext) -> Vec<String> {
    let words = |facts: Vec<Cell>| joined(facts.into_iter().map(|fact| fact.text), ", ");
    if let (Some(replay), Some(at)) = (&state.options.replay, state.shown_at()) {
        let (first, last) = header::ends(replay);
        let at = at.format("%F %T%.3f UTC");
        return vec![
            format!("REPLAY of {} at {at}, nothing is changed", replay.ledger),
            words(header::counts(state, look)),
            format!(
                "it covers {first} to {last}; {}",
                state.replay_cursor.happened
            ),
        ];
    }
    let mut first = vec![header::engine_words(state, look)];
    if state.snapshot.engine.read_only {
        first.push(Cell::new("READ-ONLY", Tone::Warn));
    }
    let clouds = header::accents(state).map(|(cloud, _)| Cell::plain(cloud));
    first.extend(clouds);
    vec![
        words(first),
        words(header::counts(state, look)),
        words(header::sites(state, look)),
    ]
}

fn pane_lines(state: &State, pane: &dyn Pane, look: &RenderContext) -> Vec<String> {
    let list = pane.list();
    let mut title = format!("== {}", pane.title(look));
    if !list.filter.is_empty() {
        title.push_str(&format!(", filter {}", list.filter.text()));
    }
    let mut lines = vec![title];
    lines.extend(pane.head(look).into_iter().map(|cell| cell.text));
    if pane.len() == 0 {
        let empty = emptiness::lines(pane, look).into_iter();
        lines.extend(empty.map(|cell| cell.text));
    }
    let last = (list.top + state.table_rows()).min(pane.len());
    let Shown { columns, rows } = pane.shown(list.top..last, look);
    let rows = (list.top..).zip(&rows);
    lines.extend(rows.map(|(row, cells)| row_line(pane, row, (&columns, cells), look)));
    if last < pane.len() || list.top > 0 {
        let (from, all) = (list.top + 1, pane.len());
        lines.push(format!(
            "rows {from} to {last} of {all}; + and - show the next and the previous"
        ));
    }
    let detail = pane.detail(look).into_iter().map(|cell| cell.text);
    let detail = joined(detail.filter(|text| !text.trim().is_empty()), ". ");
    if !detail.is_empty() {
        lines.push(format!("row {}: {detail}", list.cursor + 1));
    }
    lines.push(format!("keys: {}", offered(pane, look)));
    lines
}

/// A row as `>2 marked. name web, status ACTIVE`: each cell follows its heading, because lines have no columns.
fn row_line(
    pane: &dyn Pane,
    row: usize,
    (columns, cells): (&[Column], &[Cell]),
    look: &RenderContext,
) -> String {
    let is_said = |(column, cell): &(&Column, &Cell)| {
        column.from_width <= look.width && !cell.text.trim().is_empty()
    };
    let said = columns.iter().zip(cells).filter(is_said);
    let said = said.map(|(column, cell)| {
        let heading = column.heading.to_lowercase();
        format!("{heading} {}", cell.text.trim())
    });
    let cursor = if row == pane.list().cursor { ">" } else { "" };
    let mark = if pane.is_marked(row) { " marked" } else { "" };
    format!("{cursor}{}{mark}. {}", row + 1, joined(said, ", "))
}

fn offered(pane: &dyn Pane, look: &RenderContext) -> String {
    let own = look.keys.offered(pane.scope(), look.replays);
    let own = own.filter(|b| b.scope != Scope::Everywhere);
    let own = own.map(|b| format!("{} {}", keys::key_name(b.keys[0]), b.footer));
    let everywhere = "a number goes to its row; esc back; :stuck; /text; ? help; q quit";
    joined(own.chain([everywhere.to_owned()]), "; ")
}
