//! Boxes over the pane, for questions that must be answered first.

use std::path::Path;

use ratatui::layout::{Position, Rect};
use ratatui::symbols::border;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::super::Practice;
use super::super::bulk::Bulk;
use super::super::keys::Action;
use super::super::layout::{COLUMNS_MIN, ROWS_MIN};
use super::super::look::{Cell, Tone};
use super::super::prompt::{Confirm, Prompt};
use super::super::state::State;
use super::{Canvas, header};
use crate::present::count;

const WIDTH_MAX: u16 = 76;
const ASCII: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

pub(super) fn too_small(state: &State, canvas: &mut Canvas) {
    let area = canvas.buffer.area;
    let look = canvas.look;
    let text = if matches!(state.prompt, Some(Prompt::Quit)) {
        match state.options.practice {
            Some(_) => "s stop it, esc stay".to_owned(),
            None => "l leave it running, s stop, esc stay".to_owned(),
        }
    } else if matches!(state.prompt, Some(Prompt::Unsent)) {
        format!("{} d drops them, esc stay", unsent_words(state))
    } else {
        format!(
            "gone needs {COLUMNS_MIN}x{ROWS_MIN}, this screen is {}x{}. {} quits.",
            area.width,
            area.height,
            look.key(Action::Quit)
        )
    };
    let rows = usize::from(area.height.max(1));
    for (y, line) in (area.y..).zip(look.wrap(&text, usize::from(area.width.max(1)), rows)) {
        canvas.put(0, y, area.width, &line, look.style(Tone::Plain));
    }
}

/// Draws the typed confirmation; returns the cursor's position once keys have an effect.
pub(super) fn confirm(state: &State, confirm: &Confirm, canvas: &mut Canvas) -> Option<Position> {
    let mut lines: Vec<Cell> = confirm.lines.iter().map(Cell::plain).collect();
    if let Some(first) = lines.first_mut() {
        first.tone = Tone::Strong;
    }
    let ask = confirm.ask();
    let ask = match confirm.wrong {
        true => Cell::new(
            format!("That is not it. Type {ask}, then enter."),
            Tone::Bad,
        ),
        false => Cell::new(
            format!("Type {ask}, then enter. Esc sends nothing."),
            Tone::Warn,
        ),
    };
    let inner = frame(canvas, "confirm", &lines, &[ask], 1);
    // The colours mark the clouds where the command takes effect.
    let mut x = inner.x + 12;
    for (cloud, accent) in header::accents_of(state, confirm) {
        let style = canvas.look.accent(accent);
        let room = inner.right().saturating_sub(x + 1);
        x = canvas.put(x, inner.y - 1, room, &format!(" {cloud} "), style) + 1;
    }
    let line = Rect::new(inner.x, inner.bottom().saturating_sub(1), inner.width, 1);
    (!state.is_guarded()).then(|| canvas.input(">", &confirm.input, line))
}

pub(super) fn quit(state: &State, canvas: &mut Canvas) {
    let choices = match state.options.practice {
        Some(practice) => [
            Cell::plain(practice_words(practice)),
            Cell::plain("s    stop it, and quit"),
        ],
        None => [
            Cell::plain("l    leave it running in the background, and quit"),
            Cell::plain("s    stop it; the ledger keeps all, and the next start continues"),
        ],
    };
    let mut lines = vec![Cell::new(work_words(state), Tone::Strong)];
    lines.extend(choices);
    lines.push(Cell::plain("esc  stay"));
    frame(canvas, "quit", &lines, &[], 0);
}

pub(super) fn unsent(state: &State, canvas: &mut Canvas) {
    let lines = [
        Cell::new(unsent_words(state), Tone::Strong),
        Cell::plain("d    drop them, and quit: nothing more is sent for these rows"),
        Cell::plain("esc  stay; they are sent meanwhile"),
    ];
    frame(canvas, "quit", &lines, &[], 0);
}

pub(super) fn replace(file: &Path, canvas: &mut Canvas) {
    let lines = [
        Cell::new(exists_words(file), Tone::Strong),
        Cell::plain("y    replace it with the report"),
        Cell::plain("esc  keep it; no report is written"),
    ];
    frame(canvas, "report", &lines, &[], 0);
}

/// Says that a file exists already.
pub(super) fn exists_words(file: &Path) -> String {
    format!("{} exists already.", file.display())
}

/// Says which commands were confirmed and would not be sent.
pub(super) fn unsent_words(state: &State) -> String {
    let unsent = count(state.unsent(), "command");
    let what = state.bulks.iter().map(Bulk::what).collect::<Vec<_>>();
    format!("{unsent} not sent yet: {}.", what.join("; "))
}

/// Says what happens to the practice cloud and its deletions when its console ends.
pub(super) fn practice_words(practice: Practice) -> &'static str {
    match practice.keeps_ledger {
        true => "The practice cloud ends with this console; its deletions stay in the ledger.",
        false => "The practice cloud ends with this console, and its deletions are forgotten.",
    }
}

/// Says which work quitting would interrupt.
pub(super) fn work_words(state: &State) -> String {
    let snapshot = &state.snapshot;
    let of = |state: &str| snapshot.deletions_by_state.get(state).copied().unwrap_or(0);
    let are = |n: u64| if n == 1 { "is" } else { "are" };
    // A deletion that is being planned or waits for an approval has no step under way.
    let work = [
        (snapshot.steps.live(), "step", "under way"),
        (of("planning"), "deletion", "being planned"),
        (
            of("awaiting_approval"),
            "deletion",
            "waiting for an approval",
        ),
    ];
    let work = work.into_iter().filter(|(n, ..)| *n > 0);
    let work = work.map(|(n, what, how)| format!("{} {} {how}", count(n, what), are(n)));
    let work = work.collect::<Vec<_>>().join(", ");
    match work.is_empty() {
        true => "The engine runs in this console, and not all deletions have ended.".to_owned(),
        false => format!("The engine runs in this console: {work}."),
    }
}

/// Draws a box with these lines and `more` rows below them; returns the area inside it. On a small screen the
/// `last` lines are drawn whole, and the others as far as there is room.
fn frame(canvas: &mut Canvas, title: &str, lines: &[Cell], last: &[Cell], more: u16) -> Rect {
    let (look, screen) = (canvas.look, canvas.buffer.area);
    let width = screen.width.saturating_sub(2).min(WIDTH_MAX);
    let rows_max = screen.height.saturating_sub(2 + more);
    let wrap = |lines| look.wrap_all(lines, width.saturating_sub(4), 3);
    let (mut wrapped, last) = (wrap(lines), wrap(last));
    wrapped.truncate(usize::from(rows_max).saturating_sub(last.len()));
    wrapped.extend(last);
    wrapped.truncate(usize::from(rows_max));
    let height = u16::try_from(wrapped.len()).unwrap_or(rows_max) + more + 2;
    let below = screen.height.saturating_sub(height + 2);
    let area = Rect {
        x: (screen.width - width) / 2,
        y: below.min((screen.height - height) / 2),
        width,
        height,
    };
    let (style, rule) = (look.style(Tone::Strong), look.pick("─", "-"));
    let block = Block::bordered()
        .border_set(if look.ascii { ASCII } else { border::PLAIN })
        .border_style(style)
        .title_top(Line::styled(format!("{rule} {title} "), style));
    let inner = block.inner(area);
    Clear.render(area, canvas.buffer);
    block.render(area, canvas.buffer);
    canvas.lines(inner, &wrapped);
    Rect {
        width: inner.width - 1,
        ..inner
    }
}
