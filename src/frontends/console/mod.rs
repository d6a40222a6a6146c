//! The console: the interface for a person at a terminal.
//!
//! ```text
//!  terminal ─┐                                   ┌▶ render ─▶ cells ─▶ terminal
//!  snapshot ─┼─▶ Event ─▶ update(&mut State) ────┤
//!  answers ──┘      ▲          pure              └▶ Effect ─▶ the loop performs it
//!                   └────────────── submit, query, events ◀──┘
//! ```
//!
//! 1. The loop takes one [`Event`] at a time. [`update`] changes the state and returns effects, which only
//!    the loop in [`run`] performs. So any sequence of keys is a unit test.
//! 2. Keys become actions through one table, which feeds the help and the footer too.
//! 3. A frame is drawn from the state alone, costs only the rows on the screen, and only the cells that
//!    differ are written: an idle console writes no byte to the terminal.
//! 4. Nothing destructive happens on one key. `D` asks the engine for a plan; the plan's screen
//!    cannot be skipped; then the name or short id must be typed. Keys count for a guarded screen
//!    only once it is visible.
//! 5. Long lists are read only near what is shown: of a deletion's tree the branches, and the steps near
//!    the cursor; the engine searches for rows that fit a filter. So a million steps cost no more.
//!
//! **Architecture invariant:** this module uses [`crate::control`] and the types of [`crate::domain`], and
//! knows nothing of the engine, the ledger or a cloud.

mod about;
mod alert;
mod bulk;
mod column_choice;
mod command;
mod event;
mod input;
mod keys;
mod layout;
mod look;
mod panes;
mod plain;
mod prompt;
mod render;
mod replay_cursor;
mod replaying;
mod reporting;
mod runtime;
mod scope;
mod searching;
mod state;
mod terminal;
mod update;
mod views;

pub use event::{Effect, Event, NotWritten};
pub use keys::{Keymap, WrongKeys};
pub use plain::run_plain;
pub use render::{render, render_lines, render_to_text};
pub use runtime::run;
pub use state::State;
pub use update::update;

use std::collections::BTreeMap;
use std::path::PathBuf;

use chrono::{DateTime, Utc};

use crate::domain::model::Actor;
use crate::system::config::{Accent, Alert, Theme};

/// The options that the console is started with.
#[derive(Clone, Debug)]
pub struct ConsoleOptions {
    /// Whether to draw only ASCII and escape other characters.
    pub ascii: bool,
    /// Whether to draw without colours; the selection is reversed.
    pub no_color: bool,
    /// Whether the line is slow (some 9,600 bit/s): keys cause little output, frames are written in parts.
    pub low_bandwidth: bool,
    pub theme: Theme,
    pub keys: Keymap,
    /// The colours that mark clouds, by the cloud's name.
    pub accent: BTreeMap<String, Accent>,
    /// Whether the console receives clicks and turns of the wheel.
    pub mouse: bool,
    /// How a person is alerted who looks elsewhere.
    pub alert: Alert,
    /// The person on whose behalf commands are sent.
    pub actor: Actor,
    /// What follows `:` to start with, as if it had been typed.
    pub start: Option<String>,
    /// Saved views by name, each as it would be typed after `:`.
    pub views: BTreeMap<String, String>,
    /// The columns that lists show, by the word of their pane, with blanks in between. Other lists show as many as
    /// the screen has room for.
    pub columns: BTreeMap<String, String>,
    /// The settings file in which views and columns are saved; none if they cannot be.
    pub settings_file: Option<PathBuf>,
    /// The file that keeps the last view for the next start; none if it is not kept.
    pub last_view: Option<PathBuf>,
    pub engine: EngineMode,
    /// The practice cloud, if the console shows it.
    pub practice: Option<Practice>,
    /// Whether the console shows the practice cloud, which has a tour.
    pub tour: bool,
    /// The replay to show, if any: keys move its time, and commands are refused.
    pub replay: Option<Replayed>,
}

/// A ledger that is shown as it was at some time, and the times of its first and last events.
#[derive(Clone, Debug)]
pub struct Replayed {
    pub ledger: String,
    pub first: DateTime<Utc>,
    pub last: DateTime<Utc>,
}

/// The practice cloud, which ends with the console that carries its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Practice {
    /// Whether the person named the ledger, so that it outlives the console; else each start has a new one.
    pub keeps_ledger: bool,
}

/// The process in which the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineMode {
    /// In this process: quitting asks what becomes of its work.
    Embedded,
    /// In another process: it goes on whatever this console does.
    Attached,
}

/// The reason why the console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The person quit; no work depends on this process.
    Quit,
    /// The person quit; an embedded engine with work continues without a terminal.
    LeaveRunning,
    /// The person quit and stops an embedded engine; its ledger keeps the work that is left.
    Stop,
    /// The terminal hung up.
    HangUp,
    /// SIGTERM.
    Terminated,
}
