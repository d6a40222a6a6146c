//! The console: what a person sees and types.
//!
//! ```text
//!  terminal ─┐                                   ┌▶ render ─▶ cells ─▶ terminal
//!  snapshot ─┼─▶ Event ─▶ update(&mut State) ────┤
//!  answers ──┘      ▲          pure              └▶ Effect ─▶ the loop performs it
//!                   └────────────── submit, query, events ◀──┘
//! ```
//!
//! 1. One [`Event`] at a time, in one order; [`update`] changes the state and says what is to be
//!    done; only the loop in [`run`] does it. So any sequence of keys is a unit test.
//! 2. Keys become actions through one table, which feeds the help and the footer too.
//! 3. A frame is drawn from the state alone, costs the rows on the screen, and is written only as
//!    far as it differs: at rest not one byte goes to the terminal.
//! 4. Nothing destructive happens on one key. `D` asks the engine for a plan; the plan's screen
//!    cannot be skipped; then the name or short id must be typed. Keys count for a guarded screen
//!    only once it is visible.
//! 5. What is long is asked for where someone looks: of a deletion's tree the branches, and of those the
//!    steps near the cursor; what a filter finds comes from the engine. A million steps cost no more.
//!
//! **Architecture invariant:** this room knows [`crate::control`] and the nouns of
//! [`crate::domain`], and nothing of the engine, the ledger or a cloud.

mod about;
mod arrived;
mod command;
mod event;
mod feed;
mod keys;
mod layout;
mod list;
mod look;
mod notice;
mod panes;
mod plain;
mod prompt;
mod render;
mod replay_cursor;
mod replaying;
mod requests;
mod route;
mod rows;
mod runtime;
mod state;
mod terminal;
mod update;

pub use event::{Effect, Event};
pub use keys::{Keymap, WrongKeys};
pub use plain::run_plain;
pub use render::{render, render_lines, render_to_text};
pub use runtime::run;
pub use state::State;
pub use update::update;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::domain::model::Actor;
use crate::system::config::{Accent, Theme};

/// How the console was started.
#[derive(Clone, Debug)]
pub struct ConsoleOptions {
    /// Only ASCII on the screen; all else is escaped.
    pub ascii: bool,
    /// No colour is named; the selection is reversed.
    pub no_color: bool,
    /// The line carries some 9,600 bit/s: little is written for a key, and what it leads to trickles.
    pub low_bandwidth: bool,
    pub theme: Theme,
    pub keys: Keymap,
    /// Clouds that are seen at a glance, by name.
    pub accent: BTreeMap<String, Accent>,
    /// The wheel and clicks are told to the console.
    pub mouse: bool,
    /// On whose behalf commands are sent.
    pub actor: Actor,
    /// What would be typed after `:` at first.
    pub start: Option<String>,
    pub engine: EngineMode,
    /// It looks at the practice cloud that the tour goes through.
    pub tour: bool,
    /// What is shown is a replay: its time goes with keys, and nothing can be done.
    pub replay: Option<Replayed>,
}

/// A ledger that is shown as it stood at a time, and the times that it tells of.
#[derive(Clone, Debug)]
pub struct Replayed {
    pub ledger: String,
    pub first: DateTime<Utc>,
    pub last: DateTime<Utc>,
}

/// Where the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineMode {
    /// In this process: quitting asks what becomes of its work.
    Embedded,
    /// In another: it goes on whatever this console does.
    Attached,
}

/// Why the console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nothing is under way in this process.
    Quit,
    /// An embedded engine with work is to go on without a terminal.
    LeaveRunning,
    /// An embedded engine is to stop; its ledger keeps what it has to do.
    Stop,
    /// The terminal hung up.
    HangUp,
    /// SIGTERM.
    Terminated,
}
