//! Draws a state into cells. Nothing here is slow, waits, or changes anything.
//!
//! From the top: the header (what needs a person comes first), the title, the pane's pinned lines,
//! its table, the detail with more about the row under the cursor, the message, the keys.

mod header;
mod overlay;
mod plain;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

use super::keys::{self, Action, Binding, Scope};
use super::layout::{Areas, areas, detail_rows, head_lines, is_too_small};
use super::look::{RenderContext, Tone};
use super::panes::Pane;
use super::prompt::Prompt;
use super::state::State;

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
    if is_too_small((area.width, area.height)) {
        overlay::too_small(state, canvas);
        return None;
    }
    let pane = state.top()?;
    let head = head_lines(pane, &look, area);
    let areas = areas(area, head.len(), detail_rows(pane, &look));
    header::draw(state, canvas, areas.header);
    draw_title(state, pane, canvas, areas.title);
    for (y, line) in (areas.head.y..areas.head.bottom()).zip(&head) {
        canvas.put(1, y, area.width - 1, &line.text, look.style(line.tone));
    }
    table::draw(pane, canvas, areas.table);
    draw_strip(pane, canvas, areas.detail);
    // Keys are offered only once they have an effect.
    if !state.is_guarded() {
        draw_footer(pane, canvas, areas.footer);
    }
    draw_bottom(state, canvas, &areas)
}

fn draw_title(state: &State, pane: &dyn Pane, canvas: &mut Canvas<'_>, area: Rect) {
    let look = canvas.look;
    canvas.rule(area);
    let title = format!(" {} ", pane.title(&look));
    let end = canvas.put(2, area.y, area.width - 12, &title, look.style(Tone::Strong));
    let filter = &pane.list().filter;
    if !filter.is_empty() {
        let text = format!(" filter: {} ", filter.text());
        let room = area.width.saturating_sub(end + 6);
        canvas.put(end + 1, area.y, room, &text, look.style(Tone::Warn));
    }
    if state.is_waiting() {
        let signs = if look.ascii {
            ["|", "/", "-", "\\"]
        } else {
            ["◐", "◓", "◑", "◒"]
        };
        let tick = if look.sparing { 0 } else { state.ticks };
        let sign = format!(" {} ", signs[tick % signs.len()]);
        canvas.own(area.width - 5, area.y, &sign, look.style(Tone::Busy));
    }
}

fn draw_strip(pane: &dyn Pane, canvas: &mut Canvas<'_>, area: Rect) {
    if area.height < 2 {
        return;
    }
    let look = canvas.look;
    canvas.rule(Rect { height: 1, ..area });
    let mut room = usize::from(area.height - 1);
    let mut y = area.y + 1;
    let cells = pane.detail(&look);
    for (at, cell) in cells.iter().enumerate() {
        // A long line leaves one row for each line that follows, as far as there are rows.
        let rows = room.saturating_sub(cells.len() - at - 1).max(1);
        if room == 0 {
            break;
        }
        for line in look.wrap(&cell.text, usize::from(area.width - 2), rows.min(room)) {
            canvas.put(1, y, area.width - 1, &line, look.style(cell.tone));
            y += 1;
            room -= 1;
        }
    }
}

/// Draws the keys of this pane as far as there is room; the keys for help and quit always.
fn draw_footer(pane: &dyn Pane, canvas: &mut Canvas<'_>, area: Rect) {
    let look = canvas.look;
    let entry = |binding: &Binding| {
        let key = binding.keys.first().map(|key| keys::key_name(*key));
        (key.unwrap_or_default(), look.safe(binding.footer))
    };
    let wide = |binding: &Binding| {
        let (key, footer) = entry(binding);
        u16::try_from(key.len() + 1 + footer.chars().count() + 2).unwrap_or(u16::MAX)
    };
    let is_must = |b: &&Binding| match b.action {
        Action::Quit => true,
        Action::Help => !pane.is_modal(),
        _ => false,
    };
    let offered = |b: &&Binding| !b.footer.is_empty() && !b.keys.is_empty();
    let all = || look.keys.bindings().iter().filter(offered);
    // A modal pane accepts only the keys that leave it.
    let counts = |b: &&Binding| !pane.is_modal() || b.action.leaves();
    let own = all().filter(|b| b.scope == pane.scope()).filter(counts);
    let own = own.filter(|b| !look.replays || !b.action.changes_a_cloud());
    let of_replay = all().filter(|b| look.replays && b.scope == Scope::Replay);
    let own = own.chain(of_replay);
    let everywhere = all().filter(|b| b.scope == Scope::Everywhere && !is_must(b));
    let everywhere = everywhere.filter(counts);
    let musts: Vec<&Binding> = all().filter(is_must).collect();
    let mut room = area
        .width
        .saturating_sub(musts.iter().map(|b| wide(b)).sum());
    let fits = |binding: &&Binding| {
        let fits = wide(binding) <= room;
        room -= if fits { wide(binding) } else { 0 };
        fits
    };
    let mut x = 1;
    let shown: Vec<&Binding> = own.chain(everywhere).filter(fits).collect();
    for binding in shown.into_iter().chain(musts) {
        let (key, footer) = entry(binding);
        let left = area.width.saturating_sub(x);
        x = canvas.put(x, area.y, left, &key, look.style(Tone::Strong)) + 1;
        let left = area.width.saturating_sub(x);
        x = canvas.put(x, area.y, left, &footer, look.style(Tone::Dim)) + 2;
    }
}

/// Draws the message or the prompt; returns the cursor's position in the prompt.
fn draw_bottom(state: &State, canvas: &mut Canvas<'_>, areas: &Areas) -> Option<Position> {
    let look = canvas.look;
    let area = areas.message;
    match &state.prompt {
        Some(Prompt::Command(input)) => {
            canvas.clear(area);
            let found = super::command::completions(input.value(), &state.kinds);
            let cursor = canvas.input(":", input, area);
            let end = cursor.x + 1;
            let rest = found.first().and_then(|w| w.strip_prefix(input.value()));
            let more = found.iter().skip(1).take(8).copied();
            let hint = match rest {
                Some(rest) if input.value().is_empty() => {
                    let words: Vec<&str> = found.iter().take(12).copied().collect();
                    let _ = rest;
                    words.join("  ")
                }
                Some(rest) => {
                    let words: Vec<&str> = more.collect();
                    format!("{rest}  {}", words.join("  "))
                }
                None if state.replays() && input.value().starts_with("at") => {
                    "03:12:07, 2026-11-24T03:12:07Z or -10m".to_owned()
                }
                None => "nothing begins with that".to_owned(),
            };
            let x = if input.value().is_empty() || rest.is_none() {
                end + 1
            } else {
                cursor.x
            };
            canvas.put(
                x,
                area.y,
                area.width.saturating_sub(x),
                &hint,
                look.style(Tone::Dim),
            );
            Some(cursor)
        }
        Some(Prompt::Filter { input, .. }) => {
            canvas.clear(area);
            Some(canvas.input("/", input, area))
        }
        Some(Prompt::Confirm(confirm)) => overlay::confirm(state, confirm, canvas),
        Some(Prompt::Quit) => {
            overlay::quit(state, canvas);
            None
        }
        None => {
            if let Some(message) = &state.message {
                canvas.clear(area);
                let style = look.style(message.tone);
                let room = area.width - 1;
                let end = canvas.put(1, area.y, room, &message.text, style);
                // `:events` shows the whole message.
                if end >= area.width {
                    canvas.own(area.width - 9, area.y, " :events ", look.style(Tone::Dim));
                }
            } else if state.replays() && areas.footer != area {
                let happened = state.replay_cursor.happened();
                canvas.put(1, area.y, area.width - 1, happened, look.style(Tone::Dim));
            }
            None
        }
    }
}

/// The cells to draw on. All text passes through here, and is escaped here.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    look: RenderContext<'a>,
}

impl Canvas<'_> {
    /// Draws any text, escaped and cut to the width; returns the column after it.
    fn put(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let text = self.look.fit(text, usize::from(width));
        self.set(x, y, width, &text, style)
    }

    /// Draws our own signs, which are already ASCII where they must be.
    fn own(&mut self, x: u16, y: u16, text: &str, style: Style) {
        self.set(x, y, u16::MAX, text, style);
    }

    fn set(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if x >= area.right() || y >= area.bottom() {
            return x;
        }
        self.buffer
            .set_stringn(x, y, text, usize::from(width), style)
            .0
    }

    fn rule(&mut self, area: Rect) {
        let line = self.look.pick("─", "-").repeat(usize::from(area.width));
        self.own(area.x, area.y, &line, self.look.style(Tone::Dim));
    }

    fn clear(&mut self, area: Rect) {
        let blank = " ".repeat(usize::from(area.width));
        for y in area.y..area.bottom() {
            self.own(area.x, y, &blank, Style::reset());
        }
    }

    fn reverse(&mut self, area: Rect) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        self.buffer.set_style(area, style);
    }

    /// Draws an input line, scrolled so that the cursor is visible; returns the cursor's position.
    fn input(&mut self, sign: &str, input: &tui_input::Input, area: Rect) -> Position {
        let strong = self.look.style(Tone::Strong);
        let x = self.set(area.x + 1, area.y, 2, sign, strong);
        let room = usize::from(area.right().saturating_sub(x + 1));
        let before: String = input.value().chars().take(input.cursor()).collect();
        let safe = self.look.safe(&before);
        let mut start = 0;
        while unicode_width::UnicodeWidthStr::width(&safe[start..]) >= room.max(1) {
            start += safe[start..].chars().next().map_or(1, char::len_utf8);
        }
        let after: String = input.value().chars().skip(input.cursor()).collect();
        let width = area.right() - x;
        let cursor = self.set(x, area.y, width, &safe[start..], Style::new());
        let room = area.right().saturating_sub(cursor);
        self.put(cursor, area.y, room, &after, Style::new());
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
            let wide = unicode_width::UnicodeWidthStr::width(symbol);
            x += u16::try_from(wide.max(1)).unwrap_or(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
