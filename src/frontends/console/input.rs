//! Reads the keys, clicks and pasted texts of the person from the terminal.
//!
//! A library parses the bytes, but the console reads them itself, for two reasons: it can drop at once the input that
//! was typed ahead of a guarded screen; and a reader that also reports the window's size may keep a key that arrives
//! with a resize until the next key.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, retry_on_intr};
use termina::{Event, Parser};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Maximum number of bytes read at once; everything except a pasted text is shorter.
const BYTES_MAX: usize = 1024;

/// The events of the terminal, in their order.
pub(super) struct TerminalInput {
    terminal: AsyncFd<OwnedFd>,
    parser: Parser,
}

impl TerminalInput {
    // `with_interest` is deprecated because some types change their file descriptor. An `OwnedFd` does not, and
    // the replacement is unsafe code.
    #[allow(deprecated)]
    pub(super) fn open() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self {
            terminal: AsyncFd::with_interest(terminal, Interest::READABLE)?,
            parser: Parser::default(),
        })
    }

    /// Waits for the next event. An error means that the terminal is gone.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        loop {
            if let Some(event) = self.parser.pop() {
                return Ok(event);
            }
            let mut ready = self.terminal.readable().await?;
            if !parse_arrived(ready.get_inner(), &mut self.parser)? {
                ready.clear_ready();
            }
        }
    }

    /// Drops all input that has arrived.
    pub(super) fn drop_arrived(&mut self) -> io::Result<()> {
        while parse_arrived(self.terminal.get_ref(), &mut self.parser)? {}
        while self.parser.pop().is_some() {}
        Ok(())
    }
}

/// Parses up to [`BYTES_MAX`] of the bytes that have arrived, without waiting for more. Returns false if none have.
fn parse_arrived(terminal: &OwnedFd, parser: &mut Parser) -> io::Result<bool> {
    if !has_arrived(terminal)? {
        return Ok(false);
    }
    let mut bytes = [0; BYTES_MAX];
    let count = retry_on_intr(|| read(terminal, &mut bytes))?;
    if count == 0 {
        // The input of a terminal ends when the terminal hangs up.
        return Err(Errno::IO.into());
    }
    let is_all = !has_arrived(terminal)?;
    parser.parse(&bytes[..count], !is_all);
    Ok(true)
}

/// Whether bytes can be read without waiting. The terminal is polled and not made non-blocking, because the shell
/// shares it.
fn has_arrived(terminal: &OwnedFd) -> io::Result<bool> {
    let at_once = Timespec::default();
    let mut asked = [PollFd::new(terminal, PollFlags::IN)];
    Ok(retry_on_intr(|| poll(&mut asked, Some(&at_once)))? > 0)
}
