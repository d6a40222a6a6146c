//! Boxes over the pane, for questions that must be answered first.

use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use super::super::keys::Action;
use super::super::layout::{COLUMNS_MIN, ROWS_MIN};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::prompt::{Confirm, Prompt};
use super::super::state::State;
use super::{Canvas, header};
use crate::present::count;

const WIDTH_MAX: u16 = 76;

pub(super) fn too_small(state: &State, canvas: &mut Canvas<'_>) {
    let area = canvas.buffer.area;
    let look = canvas.look;
    let text = if matches!(state.prompt, Some(Prompt::Quit)) {
        "l leave it running, s stop, esc stay".to_owned()
    } else {
        format!(
            "gone needs {COLUMNS_MIN}x{ROWS_MIN}, this screen is {}x{}. {} quits.",
            area.width,
            area.height,
            look.key(Action::Quit)
        )
    };
    let rows = usize::from(area.height);
    let lines = look.wrap(&text, usize::from(area.width.max(1)), rows.max(1));
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        canvas.put(0, y, area.width, &line, Style::new());
    }
}

/// Draws the typed confirmation; returns the cursor's position once keys have an effect.
pub(super) fn confirm(
    state: &State,
    confirm: &Confirm,
    canvas: &mut Canvas<'_>,
) -> Option<Position> {
    let mut lines: Vec<Cell> = confirm.lines.iter().map(Cell::plain).collect();
    if let Some(first) = lines.first_mut() {
        first.tone = Tone::Strong;
    }
    lines.push(Cell::new(
        if confirm.wrong {
            format!("That is not it. Type {}, then enter.", confirm.ask())
        } else {
            format!("Type {}, then enter. Esc sends nothing.", confirm.ask())
        },
        if confirm.wrong { Tone::Bad } else { Tone::Warn },
    ));
    let inner = frame(canvas, "confirm", &lines, 1);
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

pub(super) fn quit(state: &State, canvas: &mut Canvas<'_>) {
    let live = count(state.snapshot.steps.live(), "step");
    let lines = [
        Cell::new(
            format!("The engine lives in this console, and {live} are under way."),
            Tone::Strong,
        ),
        Cell::plain("l    leave it running in the background, and quit"),
        Cell::plain("s    stop it; the ledger keeps all, the next start goes on"),
        Cell::plain("esc  stay"),
    ];
    frame(canvas, "quit", &lines, 0);
}

/// Draws a box with these lines and `more` rows below them; returns the area inside it.
fn frame(canvas: &mut Canvas<'_>, title: &str, lines: &[Cell], more: u16) -> Rect {
    let look = canvas.look;
    let screen = canvas.buffer.area;
    let width = screen.width.saturating_sub(2).min(WIDTH_MAX);
    let inside = usize::from(width.saturating_sub(4));
    let rows_max = screen.height.saturating_sub(2 + more);
    let mut wrapped: Vec<Cell> = Vec::new();
    for cell in lines {
        let rows = look.wrap(&cell.text, inside, 3);
        wrapped.extend(rows.into_iter().map(|text| Cell::new(text, cell.tone)));
    }
    wrapped.truncate(usize::from(rows_max));
    let rows = u16::try_from(wrapped.len()).unwrap_or(rows_max);
    let height = rows + more + 2;
    let area = Rect::new(
        (screen.width - width) / 2,
        screen
            .height
            .saturating_sub(height + 2)
            .min((screen.height - height) / 2),
        width,
        height,
    );
    canvas.clear(area);
    border(canvas, area, title, &look);
    for (y, cell) in (area.y + 1..area.bottom()).zip(&wrapped) {
        canvas.put(
            area.x + 2,
            y,
            width.saturating_sub(4),
            &cell.text,
            look.style(cell.tone),
        );
    }
    Rect::new(area.x + 1, area.y + 1, width - 3, height - 2)
}

fn border(canvas: &mut Canvas<'_>, area: Rect, title: &str, look: &RenderContext) {
    let style = look.style(Tone::Strong);
    let line = look
        .pick("─", "-")
        .repeat(usize::from(area.width.saturating_sub(2)));
    let (left, right) = (area.x, area.right() - 1);
    let corners = if look.ascii {
        ["+", "+", "+", "+"]
    } else {
        ["┌", "┐", "└", "┘"]
    };
    canvas.own(
        left,
        area.y,
        &format!("{}{line}{}", corners[0], corners[1]),
        style,
    );
    let bottom = area.bottom() - 1;
    canvas.own(
        left,
        bottom,
        &format!("{}{line}{}", corners[2], corners[3]),
        style,
    );
    for y in area.y + 1..bottom {
        canvas.own(left, y, look.pick("│", "|"), style);
        canvas.own(right, y, look.pick("│", "|"), style);
    }
    canvas.own(left + 2, area.y, &format!(" {title} "), style);
}
