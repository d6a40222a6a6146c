//! The console: the interface for a person at a terminal.
//!
//! ```text
//!  terminal ─┐                                   ┌▶ render ─▶ cells ─▶ terminal
//!  snapshot ─┼─▶ Event ─▶ update(&mut State) ────┤
//!  answers ──┘      ▲          pure              └▶ Effect ─▶ the loop performs it
//!                   └────────────── submit, query, events ◀──┘
//! ```
//!
//! 1. The loop takes one [`Event`] at a time. [`update`] changes the state and returns effects, which only the loops in
//!    [`run`] and [`run_plain`] perform. So any sequence of keys can be a unit test.
//! 2. Keys become actions through one table, which feeds the help and the footer too.
//! 3. A frame is drawn from the state alone, costs only the rows on the screen, and only the cells that
//!    differ from the frame before are written: an idle console writes no byte to the terminal.
//! 4. No single key begins or abandons a deletion. `D` asks the engine for a plan; the plan's screen cannot be skipped;
//!    then the name or short id of the resource, or the number of marked resources, must be typed. A guarded
//!    screen accepts keys only once it is visible.
//! 5. Long lists of the ledger are read only as far as the cursor goes: page by page, or in the tree of a deletion its
//!    branches and the steps near the cursor. For a tree, `:stuck` and `:retrying`, the engine searches for the rows
//!    that match a filter. So a deletion of a million steps costs no more than a small one.
//!
//! **Architecture invariant:** this module reaches the engine only through [`crate::control`]. It imports neither the
//! engine, nor the ledger, nor a cloud.

mod about;
mod alert;
mod bulk;
mod column_choice;
mod command;
mod event;
mod input;
mod keys;
mod layout;
mod panes;
mod plain;
mod prompt;
mod question;
mod render;
mod render_context;
mod replay_cursor;
mod replaying;
mod reporting;
mod runtime;
mod scope;
mod state;
mod terminal;
mod update;
mod views;

pub use event::{Effect, Event, NotWritten, ReportFile};
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
    /// Whether to draw without colours.
    pub no_color: bool,
    /// Whether the line is slow (some 9,600 bit/s). Keys then cause little output, and frames are written in parts.
    pub low_bandwidth: bool,
    pub theme: Theme,
    pub keys: Keymap,
    /// The colours that mark clouds, by the cloud's name.
    pub accent: BTreeMap<String, Accent>,
    /// Whether the console receives clicks and turns of the mouse wheel.
    pub mouse: bool,
    /// How the terminal alerts a person who is not looking at the console.
    pub alert: Alert,
    /// The person on whose behalf commands are sent.
    pub actor: Actor,
    /// The line that the console enters after `:` when it starts, as if a person had typed it.
    pub start: Option<String>,
    /// Saved views by name, each as it would be typed after `:`.
    pub views: BTreeMap<String, String>,
    /// The columns that each pane shows: their names, separated by spaces. The key is the word of the pane, or `tree`
    /// for all trees. A pane without an entry shows as many columns as fit on the screen.
    pub columns: BTreeMap<String, String>,
    /// The settings file in which views and columns are saved; `None` if they cannot be saved.
    pub settings_file: Option<PathBuf>,
    /// The file that keeps the last view for the next start; `None` if the view is not kept.
    pub last_view: Option<PathBuf>,
    pub engine: EngineMode,
    /// The practice cloud, if the console shows it.
    pub practice: Option<Practice>,
    /// Whether the practice cloud runs the scenario that `:tour` is about.
    pub tour: bool,
    /// The replay to show, if any: keys and `:at` move its time, and commands are refused.
    pub replay: Option<Replayed>,
}

/// A ledger that is shown as it was at an earlier time, and the times of its first event and its last change.
#[derive(Clone, Debug)]
pub struct Replayed {
    pub ledger: String,
    pub first: DateTime<Utc>,
    pub last: DateTime<Utc>,
}

/// The practice cloud, which ends with the console that runs its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Practice {
    /// Whether the person named the ledger, so that it outlives the console. Otherwise each start has a new ledger.
    pub keeps_ledger: bool,
}

/// The process in which the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineMode {
    /// In this process: quitting asks what happens to the engine's work, if there is any.
    Embedded,
    /// In another process, which continues when this console ends.
    Attached,
}

/// The reason why the console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The person quit, and no work depends on this process.
    Quit,
    /// The person quit; an embedded engine with work continues without a terminal.
    LeaveRunning,
    /// The person quit, and an embedded engine stops; its ledger keeps the work that is left, unless the ledger ends
    /// with the practice cloud.
    Stop,
    /// The terminal hung up, or the input of the console in lines ended.
    HangUp,
    /// SIGTERM.
    Terminated,
}
