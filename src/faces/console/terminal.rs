//! The terminal: taken, painted on, and given back whole, whatever happens.
//!
//! The painter is ours and small, for three reasons: a frame that changes nothing writes nothing;
//! without colours not even a reset of colours is written; and after each sign that is not ASCII the
//! place is set again, so that a terminal that draws a sign wider than we think shifts nothing.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, queue, terminal};
use ratatui::buffer::{Buffer, Cell as ScreenCell};
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier};

/// The terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
thread_local! {
    /// The console's own code runs on this thread now, so a panic here is ours and not one of the
    /// engine beside it.
    static IN_CONSOLE: Cell<bool> = const { Cell::new(false) };
}

/// What the terminal shows, and how to change it.
pub(crate) struct Terminal {
    shown: Buffer,
    cursor: Option<Position>,
    colour: bool,
}

impl Terminal {
    /// Raw mode, the alternate screen, bracketed paste; all undone when this is dropped.
    pub(crate) fn take(colour: bool) -> io::Result<Self> {
        if !io::stdout().is_terminal() {
            return Err(io::Error::other("the console needs a terminal to draw on"));
        }
        hook_panics();
        enter()?;
        Ok(Self {
            shown: Buffer::empty(Rect::ZERO),
            cursor: None,
            colour,
        })
    }

    /// Gives the terminal to the shell, until [`Self::resume`].
    pub(crate) fn suspend(&mut self) {
        leave();
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            enter()?;
        }
        self.forget();
        Ok(())
    }

    /// Nothing is known of the screen any more: the next frame paints every cell.
    pub(crate) fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
    }

    /// Writes what differs, in one write and as one synchronized update; nothing if nothing does.
    pub(crate) fn show(&mut self, frame: Buffer, cursor: Option<Position>) -> io::Result<()> {
        let mut out = Vec::new();
        let whole = self.shown.area != frame.area;
        if whole {
            self.shown = Buffer::empty(frame.area);
            out.extend_from_slice(b"\x1b[0m\x1b[2J");
        }
        paint(&mut out, self.shown.diff_iter(&frame), self.colour);
        if out.is_empty() && cursor == self.cursor {
            return Ok(());
        }
        match cursor {
            Some(at) => queue!(out, cursor::MoveTo(at.x, at.y), cursor::Show)?,
            None if self.cursor.is_some() || whole => queue!(out, cursor::Hide)?,
            None => {}
        }
        self.shown = frame;
        self.cursor = cursor;
        let mut stdout = io::stdout().lock();
        stdout.write_all(b"\x1b[?2026h")?;
        stdout.write_all(&out)?;
        stdout.write_all(b"\x1b[?2026l")?;
        stdout.flush()
    }

    /// To the clipboard of the person's terminal, also through SSH (OSC 52).
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        let mut stdout = io::stdout().lock();
        write!(stdout, "\x1b]52;c;{encoded}\x07")?;
        stdout.flush()
    }
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

fn enter() -> io::Result<()> {
    terminal::enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let mut out = Vec::new();
    queue!(
        out,
        EnterAlternateScreen,
        EnableBracketedPaste,
        cursor::Hide
    )?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&out)?;
    stdout.flush()
}

/// Errors have nowhere to go: the terminal may be gone.
fn leave() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = Vec::new();
    out.extend_from_slice(b"\x1b[0m");
    let _ = queue!(
        out,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(&out);
    let _ = stdout.flush();
    let _ = terminal::disable_raw_mode();
}

/// A panic of the console gives the terminal back and is printed. One of the engine in the same
/// process must not scribble over the screen: it goes to the log, and the engine says that it has
/// stopped.
fn hook_panics() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if TAKEN.load(Ordering::SeqCst) && !IN_CONSOLE.get() {
                tracing::error!(%info, "panic beside the console");
            } else {
                leave();
                before(info);
            }
        }));
    });
}

/// Cells as bytes for a terminal.
fn paint<'a>(
    out: &mut Vec<u8>,
    cells: impl Iterator<Item = (u16, u16, &'a ScreenCell)>,
    colour: bool,
) {
    let mut style = None;
    let mut next = None;
    for (x, y, cell) in cells {
        if next != Some((x, y)) {
            out.extend_from_slice(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
        }
        let wanted = (cell.fg, cell.modifier);
        if style != Some(wanted) {
            out.extend_from_slice(sgr(cell.fg, cell.modifier, colour).as_bytes());
            style = Some(wanted);
        }
        let symbol = cell.symbol();
        out.extend_from_slice(symbol.as_bytes());
        next = symbol.is_ascii().then_some((x + 1, y));
    }
    if style.is_some() {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// A style from nothing: `ESC[0;1;31m`. Without colours it names none.
fn sgr(colour: Color, modifier: Modifier, coloured: bool) -> String {
    let mut sgr = "\x1b[0".to_owned();
    for (flag, code) in [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::REVERSED, ";7"),
    ] {
        if modifier.contains(flag) {
            sgr.push_str(code);
        }
    }
    let slot = match colour {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    };
    if coloured {
        sgr.push_str(slot);
    }
    sgr.push('m');
    sgr
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn painted(before: &Buffer, after: &Buffer, colour: bool) -> String {
        let mut out = Vec::new();
        paint(&mut out, before.diff_iter(after), colour);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_frame_that_changes_nothing_is_no_byte() {
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
        assert_eq!(
            painted(&before, &after, false),
            "\x1b[1;1H\x1b[0;7mweb\x1b[0m"
        );
        assert_eq!(
            painted(&before, &after, true),
            "\x1b[1;1H\x1b[0;7;31mweb\x1b[0m"
        );
    }

    #[test]
    fn the_place_is_set_again_after_a_sign_that_may_be_wider() {
        let before = Buffer::empty(Rect::new(0, 0, 9, 1));
        let mut after = before.clone();
        after.set_string(0, 0, "✓ok", Style::new());
        let bytes = painted(&before, &after, true);
        assert!(bytes.contains("✓\x1b[1;2Hok"), "{bytes:?}");
    }
}
