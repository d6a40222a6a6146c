//! Takes over the terminal, paints on it, and restores it completely, whatever happens.
//!
//! The painter is our own and small, for four reasons: a frame that changes nothing writes nothing; without colours no
//! sequence names a colour, not even the terminal's own; the cursor is positioned again after each non-ASCII sign, so
//! that a terminal that draws a sign wider than expected shifts nothing; and over a slow line a frame is written by
//! rows, beginning with those that the person looks at.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use ratatui::buffer::{Buffer, Cell as ScreenCell};
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::domain::text;
use crate::system::config::Alert;

/// The modes in which the shell left the terminal; `None` while the console has not taken it over.
static SHELL_MODES: Mutex<Option<Termios>> = Mutex::new(None);

/// Enables reports of presses and the wheel, in decimals, but not of each move, which would fill the line.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
/// Enables the alternate screen and bracketed paste, and hides the cursor.
const SCREEN_ON: &str = "\x1b[?1049h\x1b[?2004h\x1b[?25l";
/// Resets the colours and undoes [`MOUSE_ON`] and [`SCREEN_ON`].
const ALL_OFF: &str = "\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[?1049l\x1b[?25h";
/// The columns and rows that are assumed for a terminal that reports none, such as a serial line.
const USUAL_SIZE: (u16, u16) = (80, 24);

thread_local! {
    /// Whether this thread runs the console's own code, so that a panic is the console's and not the
    /// engine's.
    static IN_CONSOLE: Cell<bool> = const { Cell::new(false) };
}

/// The speed of a slow line: 9,600 bit/s, with ten bits for a byte.
const SLOW_BYTES_PER_SECOND: f64 = 960.0;
/// Maximum number of bytes of most writes over a slow line; a key waits for such a write for a quarter of a second. A
/// guarded screen or a long row may take more.
const SLOW_BYTES_MAX: f64 = 240.0;

/// Maximum number of characters of an alert; terminals show one line.
const ALERT_CHARS_MAX: usize = 200;

/// Approximate number of bytes that position the cursor, such as `ESC[12;34H`.
const PLACE_BYTES: u16 = 7;

/// The content of the terminal, and the means to change it.
pub(crate) struct Terminal {
    shown: Buffer,
    /// Cells of an earlier frame, in which the next one is drawn.
    spare: Buffer,
    cursor: Option<Position>,
    colour: bool,
    /// Whether the terminal reports clicks and the wheel.
    mouse: bool,
    slow: Option<SlowLine>,
}

/// Token bucket for a slow line: the bytes that may be written now without filling the buffers before the line.
struct SlowLine {
    credit: f64,
    at: Instant,
}

impl SlowLine {
    fn refill(&mut self) -> f64 {
        let earned = self.at.elapsed().as_secs_f64() * SLOW_BYTES_PER_SECOND;
        self.at = Instant::now();
        self.credit = (self.credit + earned).min(SLOW_BYTES_MAX);
        self.credit
    }
}

impl Terminal {
    /// Enters raw mode, the alternate screen and bracketed paste, and enables reports of the mouse if `mouse`; dropping
    /// the value undoes all of it.
    pub(crate) fn take(colour: bool, low_bandwidth: bool, mouse: bool) -> io::Result<Self> {
        if !io::stdout().is_terminal() {
            return Err(io::Error::other("the console needs a terminal to draw on"));
        }
        hook_panics();
        enter(mouse)?;
        Ok(Self {
            mouse,
            shown: Buffer::empty(Rect::ZERO),
            spare: Buffer::empty(Rect::ZERO),
            cursor: None,
            colour,
            slow: low_bandwidth.then(|| SlowLine {
                credit: SLOW_BYTES_MAX,
                at: Instant::now(),
            }),
        })
    }

    /// Gives the terminal to the shell, until [`Self::resume`].
    pub(crate) fn suspend(&mut self) {
        leave();
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        enter(self.mouse)?;
        self.forget();
        Ok(())
    }

    /// Forgets the content of the screen, so that the next frame paints every cell.
    pub(crate) fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
    }

    /// Returns a blank frame, to be drawn on and shown.
    pub(crate) fn blank(&mut self, columns: u16, rows: u16) -> Buffer {
        let mut frame = std::mem::take(&mut self.spare);
        frame.resize(Rect::new(0, 0, columns, rows));
        frame.reset();
        frame
    }

    /// Writes the cells and the cursor that differ from those on the screen, as one synchronized update, or nothing if
    /// none differs. Over a slow line it writes, without synchronization, as much as the line carries, unless the whole
    /// frame is `wanted`. Returns false if some of the frame is left for the next call.
    pub(crate) fn show(
        &mut self,
        frame: Buffer,
        cursor: Option<Position>,
        wanted: bool,
    ) -> io::Result<bool> {
        let mut painter = Painter {
            out: String::new(),
            colour: self.colour,
        };
        let anew = self.shown.area != frame.area;
        if anew {
            self.shown = Buffer::empty(frame.area);
            painter.out.push_str("\x1b[0m\x1b[2J");
        }
        let mut is_whole = true;
        if let Some(slow) = &mut self.slow {
            let carried = slow.refill();
            let room = if wanted { f64::INFINITY } else { carried };
            is_whole = painter.paint_within(room, &mut self.shown, &frame, cursor);
            self.spare = frame;
        } else {
            painter.paint(self.shown.diff_iter(&frame));
            self.spare = std::mem::replace(&mut self.shown, frame);
        }
        if painter.out.is_empty() && cursor == self.cursor {
            return Ok(is_whole);
        }
        let turns = anew || cursor.is_some() != self.cursor.is_some();
        if let Some(at) = cursor {
            painter.place(at.x, at.y);
        }
        if turns {
            let switch = if cursor.is_some() { 'h' } else { 'l' };
            painter.out.push_str(&format!("\x1b[?25{switch}"));
        }
        let out = painter.out;
        self.cursor = cursor;
        if let Some(slow) = &mut self.slow {
            slow.credit -= f64::from(u32::try_from(out.len()).unwrap_or(u32::MAX));
            write_out(&out)?;
        } else {
            write_out(&format!("\x1b[?2026h{out}\x1b[?2026l"))?;
        }
        Ok(is_whole)
    }

    /// Copies the text to the clipboard of the person's terminal, also through SSH (OSC 52).
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        write_out(&format!("\x1b]52;c;{encoded}\x07"))
    }

    /// Rings the bell, has the terminal show a notification, or does nothing, as `how` says.
    pub(crate) fn alert(&mut self, how: Alert, text: &str) -> io::Result<()> {
        write_out(&alert_bytes(how, text))
    }
}

/// Returns the bytes that alert a person. No character of `text` ends the sequence or begins another field of it.
fn alert_bytes(how: Alert, text: &str) -> String {
    let text = text::escape(text).replace(';', ",");
    let text: String = text.chars().take(ALERT_CHARS_MAX).collect();
    match how {
        Alert::Off => String::new(),
        Alert::Bell => "\x07".to_owned(),
        Alert::Osc9 => format!("\x1b]9;gone: {text}\x07"),
        Alert::Osc777 => format!("\x1b]777;notify;gone;{text}\x07"),
    }
}

fn write_out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

/// Runs a piece of the console, so that a panic in it restores the terminal before it is printed.
pub(crate) fn in_console<T>(work: impl FnOnce() -> T) -> T {
    IN_CONSOLE.set(true);
    let result = work();
    IN_CONSOLE.set(false);
    result
}

/// The terminal's columns and rows; [`USUAL_SIZE`] if the terminal reports none.
pub(super) fn size() -> io::Result<(u16, u16)> {
    let size = tcgetwinsize(io::stdin())?;
    match (size.ws_col, size.ws_row) {
        (0, _) | (_, 0) => Ok(USUAL_SIZE),
        known => Ok(known),
    }
}

fn shell_modes() -> MutexGuard<'static, Option<Termios>> {
    SHELL_MODES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn enter(mouse: bool) -> io::Result<()> {
    let mut shell_modes = shell_modes();
    if shell_modes.is_some() {
        return Ok(());
    }
    let modes = tcgetattr(io::stdin())?;
    let mut raw = modes.clone();
    raw.make_raw();
    tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
    *shell_modes = Some(modes);
    drop(shell_modes);
    write_out(&[SCREEN_ON, if mouse { MOUSE_ON } else { "" }].concat())
}

/// Restores the terminal. Errors are ignored, because the terminal may be gone.
fn leave() {
    let Some(modes) = shell_modes().take() else {
        return;
    };
    let _ = write_out(ALL_OFF);
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
}

/// Installs a panic hook: a panic in [`in_console`] restores the terminal and is printed; any other panic while the
/// console has the terminal, such as one of the engine in the same process, goes to the log instead of over the screen.
fn hook_panics() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if shell_modes().is_some() && !IN_CONSOLE.get() {
                tracing::error!(%info, "panic outside the console's own code");
            } else {
                leave();
                hook(info);
            }
        }));
    });
}

/// Writes cells as bytes for a terminal.
struct Painter {
    out: String,
    colour: bool,
}

impl Painter {
    /// Paints as many rows as fit in `room` bytes, but at least one if `room` is positive and nothing was written
    /// before: first the row where the person types, then rows whose first cell changes, as it does when the cursor
    /// moves, then the other rows. Returns true if no row is left.
    fn paint_within(
        &mut self,
        room: f64,
        shown: &mut Buffer,
        frame: &Buffer,
        cursor: Option<Position>,
    ) -> bool {
        let area = frame.area;
        let differs = |shown: &Buffer, x: u16, y: u16| shown[(x, y)] != frame[(x, y)];
        let changed = |y: &u16| (area.left()..area.right()).any(|x| differs(shown, x, *y));
        let mut rows: Vec<u16> = (area.top()..area.bottom()).filter(changed).collect();
        rows.sort_by_key(|y| {
            let is_typed = cursor.is_some_and(|cursor| cursor.y == *y);
            (!is_typed, !differs(shown, area.left(), *y))
        });
        for y in rows {
            let before = self.out.len();
            self.paint_row(shown, frame, y);
            let is_first = before == 0 && room > 0.0;
            let long = f64::from(u32::try_from(self.out.len()).unwrap_or(u32::MAX));
            if !is_first && long > room {
                self.out.truncate(before);
                return false;
            }
            for x in area.left()..area.right() {
                shown[(x, y)] = frame[(x, y)].clone();
            }
        }
        true
    }

    /// Paints one row; one sequence clears the blanks at its end.
    fn paint_row(&mut self, shown: &Buffer, frame: &Buffer, y: u16) {
        let area = frame.area;
        let columns = area.left()..area.right();
        let blank = ScreenCell::default();
        let end = columns.clone().rev().find(|x| frame[(*x, y)] != blank);
        let end = end.map_or(area.left(), |x| x + 1);
        let changed = columns.filter(|x| shown[(*x, y)] != frame[(*x, y)]);
        let (changed, cleared): (Vec<u16>, Vec<u16>) = changed.partition(|x| *x < end);
        let mut kept: Vec<u16> = Vec::new();
        for x in changed {
            // Repeating a few cells costs less than positioning the cursor.
            if let Some(last) = kept.last().filter(|last| x - **last <= PLACE_BYTES) {
                kept.extend(last + 1..x);
            }
            kept.push(x);
        }
        self.paint(kept.iter().map(|x| (*x, y, &frame[(*x, y)])));
        if !cleared.is_empty() {
            self.place(end, y);
            self.out.push_str("\x1b[K");
        }
    }

    fn paint<'a>(&mut self, cells: impl Iterator<Item = (u16, u16, &'a ScreenCell)>) {
        let mut style = None;
        let mut next = None;
        for (x, y, cell) in cells {
            if next != Some((x, y)) {
                self.place(x, y);
            }
            let wanted = (cell.fg, cell.modifier);
            if style != Some(wanted) {
                self.out.push_str(&sgr(cell.fg, cell.modifier, self.colour));
                style = Some(wanted);
            }
            let symbol = cell.symbol();
            self.out.push_str(symbol);
            next = symbol.is_ascii().then_some((x + 1, y));
        }
        if style.is_some() {
            self.out.push_str("\x1b[0m");
        }
    }

    /// Positions the cursor.
    fn place(&mut self, x: u16, y: u16) {
        self.out.push_str(&format!("\x1b[{};{}H", y + 1, x + 1));
    }
}

/// The colours that the themes and the accents of clouds use, with the ends of their sequences.
#[rustfmt::skip]
const SLOTS: &[(Color, &str)] = &[
    (Color::Red, ";31m"), (Color::Green, ";32m"), (Color::Yellow, ";33m"), (Color::Blue, ";34m"),
    (Color::Magenta, ";35m"), (Color::Cyan, ";36m"), (Color::DarkGray, ";90m"), (Color::LightRed, ";91m"),
    (Color::LightGreen, ";92m"), (Color::LightYellow, ";93m"), (Color::LightCyan, ";96m"),
];

/// Returns the sequence that sets a style, such as `ESC[0;1;31m`; without `coloured` the sequence names no colour.
fn sgr(colour: Color, modifier: Modifier, coloured: bool) -> String {
    let mut sgr = "\x1b[0".to_owned();
    let flags = [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::REVERSED, ";7"),
    ];
    for (flag, code) in flags {
        if modifier.contains(flag) {
            sgr.push_str(code);
        }
    }
    let slot = SLOTS.iter().find(|(known, _)| *known == colour && coloured);
    sgr.push_str(slot.map_or("m", |(_, code)| code));
    sgr
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn an_alert_is_one_escape_sequence_whatever_its_text_contains() {
        let hostile = "web\u{7}\u{1b}]52;c;aGk=\u{7}; rm";
        for (how, begins) in [
            (Alert::Osc9, "\u{1b}]9;gone: web"),
            (Alert::Osc777, "\u{1b}]777;notify;gone;web"),
        ] {
            let bytes = alert_bytes(how, hostile);
            assert!(bytes.starts_with(begins), "{bytes:?}");
            assert_eq!(bytes.matches(['\u{1b}', '\u{7}']).count(), 2, "{bytes:?}");
            let text = bytes.strip_prefix(begins).unwrap_or_default();
            assert!(!text.contains(';') && bytes.ends_with('\u{7}'), "{bytes:?}");
        }
        assert_eq!(alert_bytes(Alert::Bell, hostile), "\u{7}");
        assert_eq!(alert_bytes(Alert::Off, hostile), "");
        assert!(alert_bytes(Alert::Osc9, &"x".repeat(5_000)).len() < 300);
    }

    fn painted(before: &Buffer, after: &Buffer, colour: bool) -> String {
        let out = String::new();
        let mut painter = Painter { out, colour };
        painter.paint(before.diff_iter(after));
        painter.out
    }

    #[test]
    fn an_unchanged_frame_writes_no_byte() {
        let mut frame = Buffer::empty(Rect::new(0, 0, 20, 2));
        frame.set_string(0, 0, "網路 web ▶", Style::new().fg(Color::Red));
        assert_eq!(painted(&frame.clone(), &frame, true), "");
    }

    #[test]
    fn without_colours_no_colour_is_named_and_the_selection_is_reversed() {
        let before = Buffer::empty(Rect::new(0, 0, 9, 1));
        let mut after = before.clone();
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED);
        after.set_string(0, 0, "web", style);
        for (colour, codes) in [(false, "0;7"), (true, "0;7;31")] {
            let expected = format!("\x1b[1;1H\x1b[{codes}mweb\x1b[0m");
            assert_eq!(painted(&before, &after, colour), expected);
        }
    }

    #[test]
    fn the_cursor_is_positioned_again_after_a_character_of_uncertain_width() {
        let before = Buffer::empty(Rect::new(0, 0, 9, 1));
        let mut after = before.clone();
        after.set_string(0, 0, "✓ok", Style::new());
        let bytes = painted(&before, &after, true);
        assert!(bytes.contains("✓\x1b[1;2Hok"), "{bytes:?}");
    }

    #[test]
    fn a_slow_connection_gets_the_rows_that_fit_its_budget_and_the_selected_row_first() {
        let area = Rect::new(0, 0, 40, 6);
        let mut shown = Buffer::empty(area);
        let mut frame = Buffer::empty(area);
        for y in 0..6 {
            frame.set_string(1, y, format!("row {y} with some words"), Style::new());
        }
        frame.set_string(0, 4, ">", Style::new());
        let paint_within = |room, shown: &mut Buffer, frame: &Buffer| {
            let (out, colour) = (String::new(), false);
            let mut painter = Painter { out, colour };
            let is_whole = painter.paint_within(room, shown, frame, None);
            (is_whole, painter.out)
        };
        let mut parts = Vec::new();
        let mut is_whole = false;
        while !is_whole {
            let (whole, part) = paint_within(80.0, &mut shown, &frame);
            assert!(part.len() <= 80, "{}", part.len());
            parts.push(part);
            is_whole = whole;
        }
        assert_eq!(shown, frame);
        assert!(parts[0].contains(">row 4"), "{parts:?}");
        assert_eq!(parts.len(), 3, "{parts:?}");
        // Without credit nothing is written.
        let empty = Buffer::empty(area);
        let unpaid = paint_within(-5.0, &mut shown, &empty);
        assert_eq!(unpaid, (false, String::new()));
        // A row that becomes blank takes one position and one sequence.
        let (is_whole, out) = paint_within(80.0, &mut shown, &empty);
        assert!(is_whole);
        assert_eq!(out.len(), 6 * "\x1b[1;1H\x1b[K".len());
        assert_eq!(shown, empty);
    }
}
