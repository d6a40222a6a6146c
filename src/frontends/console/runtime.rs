//! The loop, which takes one event at a time and performs the effects that [`update`] returns.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::Utc;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use termina::Event as TerminalEvent;
use termina::event::{MouseButton, MouseEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::control::{Control, Envelope, Snapshot};
use crate::domain::model::Actor;
use crate::system::config::save_choice;

use super::event::{Effect, Event};
use super::input::TerminalInput;
use super::state::State;
use super::terminal::{self, Terminal, in_console};
use super::update::update;
use super::{ConsoleOptions, Exit, render, reporting, views};

/// New data is painted at most ten times a second, because a person could not follow more. Keys are echoed at once.
/// Over a slow line, this is the shortest time between two parts of one frame.
const FRAME: Duration = Duration::from_millis(100);
/// Shortest time between two frames of new data over a slow line, which is filled less that way.
const SLOW_FRAME: Duration = Duration::from_millis(500);
/// Time between two ticks.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// How long the engine may wait for new events before it answers a request for them.
const FOLLOW_WAIT_MS: u64 = 20_000;

/// Runs the console on this terminal until the person quits, the terminal hangs up, or SIGTERM arrives.
pub async fn run(control: Arc<dyn Control>, options: ConsoleOptions) -> anyhow::Result<Exit> {
    match run_on_terminal(control, options).await {
        // Writing a frame may fail before the signal arrives.
        Err(error) if is_gone(&error) => Ok(Exit::HangUp),
        ended => ended,
    }
}

/// Whether the error is the answer to a read from, or a write to, a terminal that was hung up.
fn is_gone(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref());
    let mut codes = causes.filter_map(std::io::Error::raw_os_error);
    codes.any(|code| code == Errno::IO.raw_os_error())
}

async fn run_on_terminal(
    control: Arc<dyn Control>,
    options: ConsoleOptions,
) -> anyhow::Result<Exit> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut go_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut resized = signal(SignalKind::window_change())?;
    let size = terminal::size().context("cannot read the terminal's size")?;
    let is_slow = options.low_bandwidth;
    let terminal = Terminal::take(!options.no_color, is_slow, options.mouse);
    let terminal = terminal.context("cannot take over the terminal")?;
    let frame = if is_slow { SLOW_FRAME } else { FRAME };
    let mut asker = Asker::new(control, options.actor.clone());
    let (state, effects) = State::new(options, asker.snapshot(), Utc::now(), size);
    let mut console = Console {
        asker,
        state,
        terminal,
        frame,
        painted_at: Instant::now(),
        at_once: true,
        is_whole: true,
        suspended: false,
        exit: None,
    };
    console.perform(effects)?;
    let mut input = TerminalInput::open().context("cannot read the terminal")?;
    let mut next_tick = Instant::now() + TICK;
    loop {
        console.paint_if_due(&mut input)?;
        if let Some(exit) = console.exit.take() {
            return Ok(exit);
        }
        let ticks = console.state.wants_tick();
        let paint_at = console.painted_at + console.pause();
        let event = tokio::select! {
            // Keys come before data: they echo at once, however much arrives.
            biased;
            _ = hangup.recv() => return Ok(Exit::HangUp),
            _ = terminate.recv() => return Ok(Exit::Terminated),
            _ = stop.recv() => { console.suspend()?; continue; }
            _ = go_on.recv() => { console.resume()?; continue; }
            _ = resized.recv() => { console.resize()?; continue; }
            typed = input.next() => match typed {
                Ok(event) => { console.at_once = true; terminal_event(event) }
                // The terminal has gone; its SIGHUP may still be on the way.
                Err(_) => return Ok(Exit::HangUp),
            },
            event = console.asker.next() => Some(event?),
            () = sleep_until(next_tick), if ticks => {
                next_tick = Instant::now() + TICK;
                Some(Event::Tick(Utc::now()))
            }
            () = sleep_until(paint_at), if console.state.dirty || !console.is_whole => None,
        };
        if let Some(event) = event {
            console.take(event)?;
        }
    }
}

/// Sends queries and commands to the engine, saves choices and writes reports, and turns the answers, the results and
/// the engine's snapshots into events.
pub(super) struct Asker {
    control: Arc<dyn Control>,
    actor: Actor,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    engine_lives: bool,
    /// The work under way whose result is an event; dropping the set cancels it, except for a choice that is being
    /// saved.
    tasks: JoinSet<Event>,
}

impl Asker {
    pub(super) fn new(control: Arc<dyn Control>, actor: Actor) -> Self {
        Self {
            snapshots: control.snapshot(),
            engine_lives: true,
            control,
            actor,
            tasks: JoinSet::new(),
        }
    }

    pub(super) fn snapshot(&mut self) -> Arc<Snapshot> {
        self.snapshots.borrow_and_update().clone()
    }

    /// Waits for the next answer, result or snapshot, or for the end of the engine.
    pub(super) async fn next(&mut self) -> anyhow::Result<Event> {
        tokio::select! {
            biased;
            Some(event) = self.tasks.join_next() => event.context("a query of the console failed"),
            changed = self.snapshots.changed(), if self.engine_lives => {
                self.engine_lives = changed.is_ok();
                Ok(match changed {
                    Ok(()) => Event::Snapshot(self.snapshot(), Utc::now()),
                    Err(_) => Event::EngineGone,
                })
            }
            else => pending().await,
        }
    }

    /// Performs effects for a console without a screen; returns how the console ends, if it does.
    pub(super) fn perform(&mut self, effects: Vec<Effect>) -> Option<Exit> {
        let mut exit = None;
        for effect in effects {
            match effect {
                Effect::Quit(how) => exit = Some(how),
                asked => self.ask(asked),
            }
        }
        exit
    }

    fn ask(&mut self, effect: Effect) {
        let control = self.control.clone();
        match effect {
            Effect::Query(ticket, query) => {
                self.tasks.spawn(async move {
                    let answer = control.query(query).await;
                    Event::Answer(ticket, answer, Utc::now())
                });
            }
            Effect::Submit {
                ticket,
                command,
                reason,
            } => {
                let envelope = Envelope {
                    reason,
                    // One key press is one command, even if a socket has to send it again.
                    idempotency_key: Some(uuid::Uuid::new_v4().to_string()),
                    ..Envelope::new(command, self.actor.clone())
                };
                self.tasks.spawn(async move {
                    let receipt = control.submit(envelope).await;
                    Event::Receipt(ticket, receipt, Utc::now())
                });
            }
            Effect::Follow(ticket, after) => {
                self.tasks.spawn(async move {
                    Event::Followed(ticket, control.events(after, FOLLOW_WAIT_MS).await)
                });
            }
            Effect::Save(file, choice) => {
                self.tasks.spawn_blocking(move || {
                    let result = save_choice(&file, &choice);
                    Event::Saved(choice, result)
                });
            }
            Effect::WriteReport {
                mut report,
                replaces,
            } => {
                self.tasks.spawn(async move {
                    report.file = std::path::absolute(&report.file).unwrap_or(report.file);
                    let result = reporting::make(&*control, &report, replaces).await;
                    Event::ReportWritten(report, result)
                });
            }
            // These concern the screen or the process, not the engine.
            Effect::Copy(_)
            | Effect::Alert(_)
            | Effect::Quit(_)
            | Effect::Suspend
            | Effect::Repaint => {}
        }
    }
}

/// Translates a terminal event; returns `None` if it means nothing to the console.
fn terminal_event(event: TerminalEvent) -> Option<Event> {
    match event {
        TerminalEvent::Key(key) => Some(Event::Key(key)),
        TerminalEvent::Paste(text) => Some(Event::Paste(text)),
        TerminalEvent::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Event::Click(mouse.row)),
            MouseEventKind::ScrollDown => Some(Event::Wheel { down: true }),
            MouseEventKind::ScrollUp => Some(Event::Wheel { down: false }),
            _ => None,
        },
        // SIGWINCH reports a resize. The console requests no reports of focus and no answers.
        _ => None,
    }
}

struct Console {
    asker: Asker,
    state: State,
    terminal: Terminal,
    /// Shortest time between frames of new data.
    frame: Duration,
    painted_at: Instant,
    at_once: bool,
    /// Whether all of the last frame is on the screen.
    is_whole: bool,
    suspended: bool,
    exit: Option<Exit>,
}

impl Drop for Console {
    fn drop(&mut self) {
        views::keep_last(&self.state);
    }
}

impl Console {
    fn take(&mut self, event: Event) -> anyhow::Result<()> {
        let effects = in_console(|| update(&mut self.state, event));
        self.perform(effects)
    }

    /// Shortest time between the last frame, or the last part of one, and the next.
    fn pause(&self) -> Duration {
        if self.is_whole { self.frame } else { FRAME }
    }

    fn paint_if_due(&mut self, input: &mut TerminalInput) -> anyhow::Result<()> {
        let due = self.at_once || self.painted_at.elapsed() >= self.pause();
        let is_new = due && !self.suspended && (self.state.take_dirty() || !self.is_whole);
        if !is_new {
            return Ok(());
        }
        self.at_once = false;
        let (columns, rows) = self.state.size;
        // A guarded screen is painted whole, because keys have an effect once it is visible.
        let all = self.state.is_guarded();
        self.is_whole = in_console(|| {
            let mut frame = self.terminal.blank(columns, rows);
            let cursor = render::render(&self.state, &mut frame);
            self.terminal.show(frame, cursor, all)
        })?;
        self.painted_at = Instant::now();
        if all {
            // This input was typed before the guarded screen was visible, and was meant for an earlier screen.
            input.drop_arrived().context("cannot read the terminal")?;
            self.take(Event::GuardPainted)?;
        }
        Ok(())
    }

    fn perform(&mut self, effects: Vec<Effect>) -> anyhow::Result<()> {
        for effect in effects {
            match effect {
                Effect::Copy(text) => self.terminal.copy(&text)?,
                Effect::Alert(text) => self.terminal.alert(self.state.options.alert, &text)?,
                Effect::Quit(exit) => self.exit = Some(exit),
                Effect::Suspend => self.suspend()?,
                Effect::Repaint => self.terminal.forget(),
                asked => self.asker.ask(asked),
            }
        }
        Ok(())
    }

    /// Stops this process as the shell expects it; SIGCONT leads to [`Self::resume`].
    fn suspend(&mut self) -> anyhow::Result<()> {
        if !self.suspended {
            self.suspended = true;
            self.terminal.suspend();
            kill_process(getpid(), Signal::STOP).context("cannot suspend the console")?;
        }
        Ok(())
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.suspended = false;
        self.terminal.resume()?;
        self.resize()
    }

    fn resize(&mut self) -> anyhow::Result<()> {
        self.at_once = true;
        let (columns, rows) = terminal::size()?;
        self.take(Event::Resize(columns, rows))
    }
}
