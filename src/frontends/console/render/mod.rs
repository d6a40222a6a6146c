//! Draws a state into cells, without waiting and without changing the state.
//!
//! From the top: the header (what needs a person comes first), the title, the pane's pinned lines, its table, below or
//! beside it the detail with more about the row under the cursor, the message, the keys.

mod header;
mod overlay;
mod plain;
mod table;

use std::ops::Range;

use ratatui::buffer::{Buffer, Cell as ScreenCell};
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Clear, Widget as _};
use unicode_truncate::UnicodeTruncateStr as _;
use unicode_width::UnicodeWidthStr as _;

use super::keys::{self, Action, Binding};
use super::layout::{self, Layout};
use super::panes::kit::Pane;
use super::prompt::Prompt;
use super::question;
use super::render_context::{Cell, RenderContext, Tone};
use super::state::State;
use crate::domain::text::split_plain;
use crate::present::joined;

pub(super) use plain::news;
pub use plain::render_lines;

/// Draws the state into the buffer's whole area; returns the cursor's position if one is shown.
pub fn render(state: &State, buffer: &mut Buffer) -> Option<Position> {
    let look = RenderContext {
        width: buffer.area.width,
        ..state.look()
    };
    let canvas = &mut Canvas { buffer, look };
    let area = canvas.buffer.area;
    let pane = state.top()?;
    let Some(areas) = layout::of(pane, &look, (area.width, area.height)) else {
        overlay::too_small(state, canvas);
        return None;
    };
    header::draw(state, canvas, areas.header);
    draw_title(state, pane, canvas, areas.title);
    canvas.lines(areas.head, &areas.head_lines);
    table::draw(pane, canvas, areas.table);
    draw_detail(pane, canvas, &areas);
    // Keys are offered only once they have an effect.
    if !state.is_guarded() {
        draw_footer(pane, canvas, areas.footer);
    }
    draw_bottom(state, canvas, &areas)
}

/// Width of the screen from which the title has room for the breadcrumb.
const BREADCRUMB_FROM: u16 = 120;
/// Width at the end of the title that the breadcrumb leaves for the age of the rows.
const FRESHNESS_WIDTH: u16 = 40;
/// Maximum number of panes that the breadcrumb names, and maximum width of the name of a pane without a word.
const CRUMBS_MAX: usize = 3;
const CRUMB_WIDTH: usize = 24;

/// The panes to which the back key leads, the nearest one first: `‹ home ‹ deletions `.
fn breadcrumb(state: &State, look: &RenderContext) -> String {
    let nearest = state.panes_below().iter().rev().take(CRUMBS_MAX);
    let named = nearest.map(|pane| {
        let name = match pane.word() {
            Some(word) => word.to_owned(),
            None => look.fit(&pane.title(look), CRUMB_WIDTH),
        };
        format!("{} {name} ", look.pick("‹", "<"))
    });
    named.collect()
}

fn draw_title(state: &State, pane: &dyn Pane, canvas: &mut Canvas, area: Rect) {
    let look = canvas.look;
    canvas.rule(area);
    let title = format!(" {} ", pane.title(&look));
    let mut end = canvas.put(2, area.y, area.width - 12, &title, Tone::Strong);
    let filter = &pane.list().filter;
    if !filter.is_empty() {
        let text = format!(" filter: {} ", filter.text());
        let room = area.width.saturating_sub(end + 6);
        end = canvas.put(end + 1, area.y, room, &text, Tone::Warn);
    }
    if area.width >= BREADCRUMB_FROM {
        let room = (area.width - FRESHNESS_WIDTH).saturating_sub(end);
        end = canvas.put(end, area.y, room, &breadcrumb(state, &look), Tone::Dim);
    }
    if let Some(words) = freshness(state, pane, &look) {
        let wide = u16::try_from(look.safe(&words.text).width() + 2).unwrap_or(u16::MAX);
        let x = area.width.saturating_sub(wide.saturating_add(6));
        // A long title or filter leaves no room for the age.
        if x > end {
            canvas.put(x, area.y, wide, &format!(" {} ", words.text), words.tone);
        }
    }
    if state.is_waiting() {
        let signs = match look.ascii {
            true => ["|", "/", "-", "\\"],
            false => ["◐", "◓", "◑", "◒"],
        };
        let tick = if look.sparing { 0 } else { state.ticks };
        let sign = format!(" {} ", signs[tick % signs.len()]);
        canvas.own(area.width - 5, area.y, &sign, Tone::Busy);
    }
}

/// The age of a pane's rows in words; `None` for rows that do not change, and in a replay, whose time the header shows.
fn freshness(state: &State, pane: &dyn Pane, look: &RenderContext) -> Option<Cell> {
    let last = state.snapshot.at.filter(|_| state.has_lost_engine());
    let freshness = pane.freshness(look.now);
    freshness.words(look, last).filter(|_| !look.replays)
}

/// Draws the detail, below a rule or beside one.
fn draw_detail(pane: &dyn Pane, canvas: &mut Canvas, areas: &Layout) {
    let area = areas.detail;
    if area.height < 2 {
        return;
    }
    let look = canvas.look;
    let mut inner = area;
    if areas.is_beside {
        let bar = look.pick("│", "|");
        for y in area.y..area.bottom() {
            canvas.own(area.x, y, bar, Tone::Dim);
        }
        (inner.x, inner.width) = (area.x + 1, area.width - 1);
    } else {
        canvas.rule(area);
        (inner.y, inner.height) = (area.y + 1, area.height - 1);
    }
    let room = usize::from(inner.height);
    let cells = pane.detail(&look);
    let mut lines = Vec::new();
    for (cell, following) in cells.iter().zip((0..cells.len()).rev()) {
        // A long line leaves one row for each line that follows, as far as there are rows.
        let rows = room.saturating_sub(lines.len() + following).max(1);
        lines.extend(look.wrap_all(std::slice::from_ref(cell), inner.width - 2, rows));
    }
    canvas.lines(inner, &lines);
}

/// Draws the keys that have an effect in this pane, as far as there is room beside those for help and quit.
fn draw_footer(pane: &dyn Pane, canvas: &mut Canvas, area: Rect) {
    let look = canvas.look;
    let offered = look.keys.offered(pane.scope(), look.replays);
    // A modal pane accepts only some keys.
    let offered = offered.filter(|b| !pane.is_modal() || b.action.works_in_modal_pane());
    let entry = |b: &Binding| (keys::key_name(b.keys[0]), look.safe(b.footer), b.action);
    let is_must = |(.., action): &(_, _, Action)| matches!(action, Action::Quit | Action::Help);
    let (musts, others): (Vec<_>, Vec<_>) = offered.map(entry).partition(is_must);
    let wide = |(key, footer, _): &(String, String, Action)| {
        u16::try_from(key.len() + footer.chars().count() + 3).unwrap_or(u16::MAX)
    };
    let mut room = area.width.saturating_sub(musts.iter().map(wide).sum());
    let shown = others.into_iter().filter(|other| {
        let fits = wide(other) <= room;
        room -= if fits { wide(other) } else { 0 };
        fits
    });
    let mut x = 1;
    for (key, footer, _) in shown.chain(musts) {
        x = canvas.put(x, area.y, area.width.saturating_sub(x), &key, Tone::Strong) + 1;
        x = canvas.put(x, area.y, area.width.saturating_sub(x), &footer, Tone::Dim) + 2;
    }
}

/// Suggests completions of the line after `:`.
fn hint(state: &State, typed: &str) -> String {
    let found = super::command::completions(typed, &state.known());
    let words = |from: usize, n: usize| {
        let lines = found.iter().skip(from).take(n);
        joined(lines.filter_map(|line| line.rsplit(' ').next()), "  ")
    };
    match found.first().and_then(|word| word.strip_prefix(typed)) {
        Some(_) if typed.is_empty() => format!("  {}", words(0, 12)),
        Some(rest) => format!("{rest}  {}", words(1, 8)),
        None if state.replays() && typed.starts_with("at") => {
            "  03:12:07, 2026-11-24T03:12:07Z or -10m".to_owned()
        }
        None => "  no line begins with that".to_owned(),
    }
}

/// Draws the prompt or the message, or in a replay without either the latest events; returns the cursor's position in
/// the prompt.
fn draw_bottom(state: &State, canvas: &mut Canvas, areas: &Layout) -> Option<Position> {
    let area = areas.message;
    match &state.prompt {
        Some(Prompt::Command(input, _)) => {
            let cursor = canvas.input(":", input, area);
            let (room, hint) = (area.width - cursor.x, hint(state, input.value()));
            canvas.put(cursor.x, area.y, room, &hint, Tone::Dim);
            Some(cursor)
        }
        Some(Prompt::Filter(input, _)) => Some(canvas.input("/", input, area)),
        Some(Prompt::Report(input, _)) => Some(canvas.input("report to: ", input, area)),
        Some(Prompt::Confirm(confirm)) => overlay::confirm(state, confirm, canvas),
        Some(Prompt::Question(_)) => {
            if let Some(question) = question::open(state) {
                overlay::question(&question, canvas);
            }
            None
        }
        None => {
            if let Some(message) = &state.message {
                canvas.clear(area);
                let end = canvas.put(1, area.y, area.width - 1, &message.text, message.tone);
                // `:events` shows the whole message.
                if end >= area.width {
                    canvas.own(area.width - 9, area.y, " :events ", Tone::Dim);
                }
            } else if state.replays() && areas.footer != area {
                let happened = &state.replay_cursor.happened;
                canvas.put(1, area.y, area.width - 1, happened, Tone::Dim);
            }
            None
        }
    }
}

/// The cells to draw on. All text passes through here. [`Self::put`] and [`Self::put_styled`] escape the text; callers
/// of the other methods escape what is not the console's own.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    look: RenderContext<'a>,
}

impl Canvas<'_> {
    /// Draws any text, escaped and cut to the width; returns the column after it.
    fn put(&mut self, x: u16, y: u16, width: u16, text: &str, tone: Tone) -> u16 {
        self.put_styled(x, y, width, text, self.look.style(tone))
    }

    fn put_styled(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let text = self.look.fit(text, usize::from(width));
        self.set(x, y, width, &text, style)
    }

    /// Draws signs of the console's own, which the caller has already chosen as ASCII where that is required.
    fn own(&mut self, x: u16, y: u16, text: &str, tone: Tone) -> u16 {
        self.set(x, y, u16::MAX, text, self.look.style(tone))
    }

    fn set(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if x >= area.right() || y >= area.bottom() {
            return x;
        }
        let end = x + width.min(area.right() - x);
        let (signs, plain) = split_plain(text);
        let room = usize::from(end - x);
        let (x, _) = self.buffer.set_stringn(x, y, signs, room, style);
        if signs.width() > room {
            return x;
        }
        // A cell for each byte, without the search for signs of several characters.
        for (cell, byte) in self.cells(x..end, y).iter_mut().zip(plain.bytes()) {
            cell.set_char(char::from(byte)).set_style(style);
        }
        let plain = u16::try_from(plain.len()).unwrap_or(u16::MAX);
        x.saturating_add(plain).min(end)
    }

    /// The cells of a row in these columns; none if a column or the row is outside the screen.
    fn cells(&mut self, columns: Range<u16>, y: u16) -> &mut [ScreenCell] {
        let area = self.buffer.area;
        if columns.is_empty() || columns.end > area.right() || !area.rows().any(|row| row.y == y) {
            return &mut [];
        }
        let first = self.buffer.index_of(columns.start, y);
        let row = first..first + columns.len();
        self.buffer.content.get_mut(row).unwrap_or_default()
    }

    fn rule(&mut self, area: Rect) {
        let (sign, style) = (self.look.pick("─", "-"), self.look.style(Tone::Dim));
        for cell in self.cells(area.left()..area.right(), area.y) {
            cell.set_symbol(sign).set_style(style);
        }
    }

    /// Draws lines below each other, as far as there is room, with a blank column on each side.
    fn lines(&mut self, area: Rect, lines: &[Cell]) {
        for (y, line) in (area.y..area.bottom()).zip(lines) {
            self.put(area.x + 1, y, area.width - 1, &line.text, line.tone);
            self.tint(area.x + 1, y, area.width - 1, &line.tones);
        }
    }

    /// Sets the tone of each of the characters that were drawn from this column on.
    fn tint(&mut self, x: u16, y: u16, width: u16, tones: &[Tone]) {
        let right = self.buffer.area.right().min(x.saturating_add(width));
        for (x, tone) in (x..right).zip(tones) {
            if let Some(cell) = self.buffer.cell_mut(Position::new(x, y)) {
                cell.set_style(self.look.style(*tone));
            }
        }
    }

    fn clear(&mut self, area: Rect) {
        Clear.render(area, self.buffer);
    }

    fn reverse(&mut self, area: Rect) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        self.buffer.set_style(area, style);
    }

    /// Draws an input line on a blank area, scrolled so that the cursor is visible; returns the cursor's position.
    fn input(&mut self, sign: &str, input: &tui_input::Input, area: Rect) -> Position {
        self.clear(area);
        let x = self.own(area.x + 1, area.y, sign, Tone::Strong);
        let room = usize::from(area.right().saturating_sub(x + 1));
        let text = input.value();
        let cursor = text.char_indices().nth(input.cursor());
        let (before, after) = text.split_at(cursor.map_or(text.len(), |(at, _)| at));
        let safe = self.look.safe(before);
        let (shown, _) = safe.unicode_truncate_start(room.max(1) - 1);
        let cursor = self.set(x, area.y, area.right() - x, shown, Style::new());
        let room = area.right().saturating_sub(cursor);
        self.put(cursor, area.y, room, after, Tone::Plain);
        Position::new(cursor.min(area.right() - 1), area.y)
    }
}

/// Draws the state as text for documents and tests, without trailing blanks and styles.
pub fn render_to_text(state: &State, columns: u16, rows: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    render(state, &mut buffer);
    let mut text = String::new();
    for y in 0..rows {
        let mut line = String::new();
        let mut x = 0;
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(symbol.width().max(1)).unwrap_or(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
