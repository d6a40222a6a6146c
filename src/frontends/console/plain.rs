//! The console in lines: it prints plain lines, and each typed line is a key, the number of a row, a line after `:` or
//! `/`, or the answer to a prompt. It writes no byte that moves a cursor or sets a colour.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use termina::event::{KeyCode, KeyEvent, Modifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::control::Control;

use super::event::Event;
use super::keys::{self, Keymap};
use super::prompt::Prompt;
use super::question;
use super::render::{news, render_lines};
use super::runtime::{Asker, TICK};
use super::state::State;
use super::update::update;
use super::{ConsoleOptions, Exit, views};

/// Columns and rows of the screen that is printed as lines: wide enough for all columns, and with few enough rows
/// for a screen reader to read out.
const SIZE: (u16, u16) = (200, 32);
/// After this time an incomplete screen is printed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the console in lines until the person quits, standard input ends, or SIGHUP or SIGTERM arrives.
pub async fn run_plain(control: Arc<dyn Control>, options: ConsoleOptions) -> anyhow::Result<Exit> {
    let options = ConsoleOptions {
        ascii: true,
        no_color: true,
        // Typed lines name keys as the documentation writes them, so the settings do not change them.
        keys: Keymap::default(),
        ..options
    };
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut lines = lines()?;
    let mut asker = Asker::new(control, options.actor.clone());
    let (state, effects) = State::new(options, asker.snapshot(), Utc::now(), SIZE);
    let mut console = Plain {
        printed_news: news(&state),
        state,
        owed: Some(Instant::now()),
        exit: asker.perform(effects),
    };
    loop {
        if let Some(exit) = console.exit.take() {
            return Ok(exit);
        }
        if console.say_if_due(&mut lines)? {
            console.take(Event::GuardPainted, &mut asker);
        }
        let ticks = console.owed.is_some() || console.state.wants_tick();
        let tick_at = Instant::now() + TICK;
        let event = tokio::select! {
            biased;
            _ = hangup.recv() => return Ok(Exit::HangUp),
            _ = terminate.recv() => return Ok(Exit::Terminated),
            _ = interrupt.recv() => Event::Key(KeyCode::Char('q').into()),
            event = asker.next() => event?,
            line = lines.recv() => match line {
                Some(line) => { console.typed(&line, &mut asker); continue; }
                None => return Ok(Exit::HangUp),
            },
            () = sleep_until(tick_at), if ticks => Event::Tick(Utc::now()),
        };
        console.take(event, &mut asker);
    }
}

/// The typed lines that were not handled yet.
type Typed = mpsc::UnboundedReceiver<String>;

struct Plain {
    state: State,
    /// The time since which the person waits for output, if they do.
    owed: Option<Instant>,
    /// The summary that was printed last ([`news`]).
    printed_news: String,
    exit: Option<Exit>,
}

impl Drop for Plain {
    fn drop(&mut self) {
        views::keep_last(&self.state);
    }
}

impl Plain {
    fn take(&mut self, event: Event, asker: &mut Asker) {
        if matches!(event, Event::EngineGone) {
            self.owed.get_or_insert_with(Instant::now);
        }
        let effects = update(&mut self.state, event);
        self.exit = asker.perform(effects).or(self.exit.take());
    }

    fn typed(&mut self, line: &str, asker: &mut Asker) {
        let events = match question::open(&self.state) {
            Some(question) => read_answer(line, question.options.iter().map(|(key, _)| *key)),
            None => read(line, self.state.prompt.as_ref()),
        };
        match events {
            Ok(events) => events.into_iter().for_each(|event| self.take(event, asker)),
            Err(complaint) => self.state.warn(complaint),
        }
        self.owed = Some(Instant::now());
    }

    /// Prints the screen that the person waits for once it is complete or [`PATIENCE`] has passed, or any guarded
    /// screen once it is complete, or else a changed summary. Returns true if it printed a guarded screen.
    fn say_if_due(&mut self, typed: &mut Typed) -> std::io::Result<bool> {
        let news = news(&self.state);
        let is_whole = !self.state.is_waiting();
        let is_due = match self.owed {
            Some(since) => is_whole || since.elapsed() > PATIENCE,
            // A plan may arrive only after an incomplete screen was printed.
            None => is_whole && self.state.is_guarded(),
        };
        let guards = is_due && self.state.is_guarded();
        if guards {
            // Lines that were typed before this screen were meant for another one. They are discarded before it is
            // printed, because a person who has read it may answer at once.
            discard_typed_ahead(typed);
        }
        let mut out = std::io::stdout().lock();
        if is_due {
            for line in render_lines(&self.state) {
                writeln!(out, "{line}")?;
            }
            if !is_whole {
                writeln!(
                    out,
                    "some answers have not arrived yet; an empty line prints the screen again"
                )?;
            }
            self.owed = None;
            self.printed_news = news;
        } else if self.owed.is_none() && news != self.printed_news {
            writeln!(out, "news: {news}")?;
            self.printed_news = news;
        }
        out.flush()?;
        Ok(guards)
    }
}

/// Returns a channel of the typed lines; it closes when standard input ends.
fn lines() -> std::io::Result<Typed> {
    let (sender, lines) = mpsc::unbounded_channel();
    // The read has its own thread, so that a read that never returns does not delay the end of the process.
    let read = move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("lines".to_owned())
        .spawn(read)?;
    Ok(lines)
}

fn discard_typed_ahead(lines: &mut Typed) {
    while lines.try_recv().is_ok() {}
    // Errors are ignored, because standard input may not be a terminal.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Translates the answer to a question that offers these keys into events.
///
/// # Errors
/// The line is neither empty nor one of the keys; the message says what to type.
fn read_answer(line: &str, offered: impl Iterator<Item = char>) -> Result<Vec<Event>, String> {
    let line = line.trim();
    let offered: Vec<String> = offered.map(String::from).collect();
    let code = match line.chars().next() {
        None => KeyCode::Escape,
        Some(first) if offered.iter().any(|key| key == line) => KeyCode::Char(first),
        Some(_) => {
            let keys = offered.join(" or ");
            return Err(format!(
                "\"{line}\" is no answer; type {keys}, or an empty line"
            ));
        }
    };
    Ok(vec![Event::Key(code.into())])
}

/// Translates a typed line into events: the text for an open prompt, a line after `:` or `/`, a row or a key.
///
/// # Errors
/// The line is none of these, or the name of the delete key; the message says what to type.
fn read(line: &str, prompt: Option<&Prompt>) -> Result<Vec<Event>, String> {
    let line = line.trim();
    let press = |code: KeyCode| Event::Key(code.into());
    let enter = || press(KeyCode::Enter);
    let clear = || Event::Key(KeyEvent::new(KeyCode::Char('u'), Modifiers::CONTROL));
    let paste = |text: &str| Event::Paste(text.to_owned());
    match prompt {
        Some(_) if line.is_empty() => return Ok(vec![press(KeyCode::Escape)]),
        Some(_) => return Ok(vec![clear(), paste(line), enter()]),
        None => {}
    }
    if let Some(sign) = [':', '/'].into_iter().find(|sign| line.starts_with(*sign)) {
        let rest = paste(line.get(1..).unwrap_or_default());
        return Ok(vec![press(KeyCode::Char(sign)), clear(), rest, enter()]);
    }
    // Rows count from 1; 0 is a key.
    let number = line.parse::<usize>().ok();
    if let Some(row) = number.and_then(|number| number.checked_sub(1)) {
        return Ok(vec![Event::Row(row)]);
    }
    let name = match line {
        "" => return Ok(Vec::new()),
        "open" => "enter",
        "back" => "esc",
        "mark" => "space",
        "+" => "pgdn",
        "-" => "pgup",
        "help" => "?",
        "quit" => "q",
        name => name,
    };
    match keys::parse_key(name) {
        // A person who types `delete` wants to delete a resource, not to press the key of that name.
        None | Some((KeyCode::Delete, _)) => Err(format!(
            "\"{name}\" is not a key; a key is one letter or its name, :{name} goes to a pane, \
             /{name} filters, ? lists the keys"
        )),
        Some((code, modifiers)) => Ok(vec![Event::Key(KeyEvent::new(code, modifiers))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_words(line: &str) -> String {
        format!("{:?}", read(line, None).map_err(|_| ()))
    }

    #[test]
    fn a_line_is_read_as_a_key_a_row_number_or_the_text_of_a_prompt() {
        let one = |code: KeyCode| format!("{:?}", Ok::<_, ()>(vec![Event::Key(code.into())]));
        for (line, code) in [
            ("D", KeyCode::Char('D')),
            (" open ", KeyCode::Enter),
            ("back", KeyCode::Escape),
            ("+", KeyCode::PageDown),
            ("?", KeyCode::Char('?')),
        ] {
            assert_eq!(read_words(line), one(code), "{line}");
        }
        assert_eq!(read_words(""), "Ok([])");
        assert!(read_words("12").contains("Row(11)"));
        assert!(read_words(":stuck").contains("Paste(\"stuck\")"));
        assert!(read_words("/web age>1h").contains("Paste(\"web age>1h\")"));
        assert_eq!(read_words("delete"), "Err(())");
    }

    #[test]
    fn an_answer_is_exactly_one_of_the_offered_keys_or_an_empty_line() {
        let answer = |line: &str| format!("{:?}", read_answer(line, "ls".chars()));
        let key = |code: KeyCode| Event::Key(code.into());
        let pressed = |code| format!("{:?}", Ok::<_, String>(vec![key(code)]));
        assert_eq!(answer(" s "), pressed(KeyCode::Char('s')));
        assert_eq!(answer(""), pressed(KeyCode::Escape));
        for word in ["stay", "ss", "l s", "x", "S"] {
            let refused = format!("{word}\\\" is no answer; type l or s, or an empty line");
            assert!(answer(word).contains(&refused), "{}", answer(word));
        }
    }

    #[test]
    fn a_prompt_takes_the_whole_line_and_an_empty_line_cancels_it() {
        let filter = Prompt::Filter(tui_input::Input::default(), String::new());
        let text = |line: &str| format!("{:?}", read(line, Some(&filter)));
        assert!(text("12").contains("Paste(\"12\")"));
        assert!(text("").contains("Esc") && !text("").contains("Enter"));
    }
}
