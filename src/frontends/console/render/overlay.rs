//! Boxes over the pane, for questions that must be answered first; and the text of a screen that is too small.

use ratatui::layout::{Position, Rect};
use ratatui::symbols::border;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::super::keys::Action;
use super::super::layout::{COLUMNS_MIN, ROWS_MIN};
use super::super::prompt::Confirm;
use super::super::question::{self, Question};
use super::super::render_context::{Cell, Tone};
use super::super::state::State;
use super::{Canvas, header};
use crate::present::joined;

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
    let text = match question::open(state) {
        Some(question) => in_short(&question),
        None => format!(
            "gone needs {COLUMNS_MIN}x{ROWS_MIN}, this screen is {}x{}. {} quits.",
            area.width,
            area.height,
            look.keys.key(Action::Quit)
        ),
    };
    let rows = usize::from(area.height.max(1));
    for (y, line) in (area.y..).zip(look.wrap(&text, usize::from(area.width.max(1)), rows)) {
        canvas.put(0, y, area.width, &line, Tone::Plain);
    }
}

/// A question for a screen that may have no room for more than its keys.
fn in_short(question: &Question) -> String {
    let keys = question.keys("esc").into_iter();
    let keys = keys.map(|(key, (does, _))| format!("{key} {does}"));
    format!("{}. {}", joined(keys, ", "), question.head.join(" "))
}

/// Returns these lines, with the first one strong.
fn headed(lines: &[String]) -> Vec<Cell> {
    let mut lines: Vec<Cell> = lines.iter().map(Cell::plain).collect();
    if let Some(first) = lines.first_mut() {
        first.tone = Tone::Strong;
    }
    lines
}

/// Draws the typed confirmation; returns the cursor's position once keys have an effect.
pub(super) fn confirm(state: &State, confirm: &Confirm, canvas: &mut Canvas) -> Option<Position> {
    let type_it = format!("Type {}, then enter.", confirm.ask());
    let ask = match confirm.wrong {
        true => Cell::new(format!("That is not it. {type_it}"), Tone::Bad),
        false => Cell::new(format!("{type_it} Esc sends nothing."), Tone::Warn),
    };
    let inner = frame(canvas, "confirm", &headed(&confirm.lines), &[ask], 1);
    // The colours mark the clouds where the command takes effect.
    let mut x = inner.x + 12;
    let is_affected = |cloud: &str| confirm.sites.iter().any(|it| it.cloud() == Some(cloud));
    for (cloud, accent) in header::accents(state).filter(|(cloud, _)| is_affected(cloud)) {
        let style = canvas.look.accent(accent);
        let room = inner.right().saturating_sub(x + 1);
        x = canvas.put_styled(x, inner.y - 1, room, &format!(" {cloud} "), style) + 1;
    }
    let line = Rect::new(inner.x, inner.bottom().saturating_sub(1), inner.width, 1);
    (!state.is_guarded()).then(|| canvas.input(">", &confirm.input, line))
}

/// Draws a question with its keys.
pub(super) fn question(question: &Question, canvas: &mut Canvas) {
    let mut lines = headed(&question.head);
    let keys = question.keys("esc").into_iter();
    lines.extend(keys.map(|(key, (does, more))| Cell::plain(format!("{key:<3}  {does}{more}"))));
    frame(canvas, question.title, &lines, &[], 0);
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
