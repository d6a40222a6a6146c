//! The common parts of panes. Each pane owns its rows and its cursor, queries its data, and describes itself as a head
//! of pinned lines, a table, and a detail with more about the row under the cursor. The renderer draws all panes alike.
//! Most panes are a [`ListPane`]; plans and trees, whose rows fold, implement [`Pane`] themselves.

mod acts;
mod bulk;
mod columns;
mod copying;
pub(crate) mod emptiness;
mod feed;
pub(crate) mod freshness;
mod list_pane;
mod marking;
mod marks;
mod rows;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use chrono::{DateTime, Utc};

use super::super::event::Outbox;
pub(crate) use super::super::keys::{Action, Keymap, Scope};
pub(crate) use super::super::prompt::{CommandWords, Confirm};
pub(crate) use super::super::render_context::{ANY_SCREEN, Cell, RenderContext, Tone, WIDEST};
pub(crate) use super::super::scope::AppliedScope;
pub(crate) use super::{Around, Opened, Record, Route};
pub(crate) use crate::control::{Snapshot, query};
pub(crate) use crate::domain::filter::{Facts, SearchQuery};
pub(crate) use crate::domain::ladder::PurgeScope;
pub(crate) use acts::{WorkItem, act, feed_of, step_words, target_spec, words_at};
pub(crate) use columns::{
    Choosable, Column, ColumnOffer, Order, Shown, TREE, Table, Width, attempts, column_name,
    columns, columns_owner, fixed, flex, paired, time_key,
};
pub(crate) use copying::Copied;
pub(crate) use emptiness::{FAILED, Load, Vacancy};
pub(crate) use feed::{Arrived, At, Batch, Feed, Pace, Refreshed};
pub(crate) use freshness::Freshness;
pub(crate) use list_pane::{ListPane, Refresh, listed, others};
pub(crate) use marks::MARKED_MAX;
pub(crate) use rows::{List, Row, Rows};

use crate::control::{Command, ControlError, Receipt};
use crate::domain::model::{Event as LedgerEvent, Site};

/// The line of a detail with the id and the site of a resource.
pub(crate) fn id_line(id: &str, site: &Site) -> Cell {
    Cell::dim(format!("id {id} at {site}"))
}

/// Returns a text, unless it is empty.
pub(crate) fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// The engine's answer to a command.
pub(crate) type Reply = Result<Receipt, ControlError>;

/// Everything that a pane may read and request while it handles an event.
pub(crate) struct Context<'a> {
    pub(crate) keys: &'a Keymap,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) now: DateTime<Utc>,
    /// Whether a replay is shown, whose time the person moves.
    pub(crate) replays: bool,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) requests: &'a mut Vec<PaneRequest>,
}

/// A request of a pane to the console around it.
pub(crate) enum PaneRequest {
    Push(Route),
    /// Open the pane of this word.
    Go(&'static str),
    /// Open a pane in place of the one that asks.
    Replace(Route),
    /// Return to the pane before this one.
    Back,
    /// Enter this line after `:`, as if the person had typed it.
    Enter(String),
    Say(Tone, String),
    /// Say that the pane has no row; the message is dropped once it has one.
    SayEmpty(String),
    Ask(Box<Confirm>),
    /// Send a command; its answer is reported with these words.
    Submit(CommandWords, Command),
    /// Ask for a file, and write the report of this deletion to it.
    Report(String),
    /// If the pane is on top, ignore all input until its next frame is on the screen.
    Guard,
}

impl Context<'_> {
    pub(crate) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.requests.push(PaneRequest::Say(tone, text.into()));
    }
    /// Says that a key did nothing because the pane has no row. The message is dropped once rows arrive.
    pub(crate) fn say_empty(&mut self, text: impl Into<String>) {
        self.requests.push(PaneRequest::SayEmpty(text.into()));
    }
    pub(crate) fn push(&mut self, route: Route) {
        self.requests.push(PaneRequest::Push(route));
    }
    pub(crate) fn go(&mut self, word: &'static str) {
        self.requests.push(PaneRequest::Go(word));
    }
    /// Asks the person for a file, and writes the report of the deletion to it.
    pub(crate) fn report(&mut self, deletion_id: String) {
        self.requests.push(PaneRequest::Report(deletion_id));
    }
    pub(crate) fn submit(&mut self, words: CommandWords, command: Command) {
        self.requests.push(PaneRequest::Submit(words, command));
    }
    pub(crate) fn confirm(&mut self, confirm: Confirm) {
        self.requests.push(PaneRequest::Ask(Box::new(confirm)));
    }
}

/// A view of one kind of data. The pane on top receives the keys.
pub(crate) trait Pane: Send {
    fn scope(&self) -> Scope;
    /// The word after `:` that opens this pane, if one does.
    fn word(&self) -> Option<&str> {
        self.list().word.as_deref()
    }
    fn title(&self, look: &RenderContext) -> String;
    fn list(&self) -> &List;
    fn list_mut(&mut self) -> &mut List;
    /// Number of rows that the filter and the scope show, and that are not folded.
    fn len(&self) -> usize;
    /// The columns, and the cells of these rows.
    fn shown(&self, rows: Range<usize>, look: &RenderContext) -> Shown;
    fn is_marked(&self, _row: usize) -> bool {
        false
    }
    /// Lines pinned above the rows; they are wrapped.
    fn head(&self, look: &RenderContext) -> Vec<Cell>;
    /// Lines with more about the row under the cursor; they are wrapped.
    fn detail(&self, look: &RenderContext) -> Vec<Cell>;
    /// Number of rows that the detail usually takes.
    fn detail_rows(&self) -> u16;
    /// Whether the rows use all the width, so that the detail is never beside them.
    fn is_full_width(&self) -> bool {
        false
    }
    /// Returns the text that stands in place of rows; called only if there are none.
    fn vacancy(&self, look: &RenderContext) -> Vacancy;
    /// The age of the rows.
    fn freshness(&self, now: DateTime<Utc>) -> Freshness;
    /// Whether something is under way that will be shown, so that the loop ticks.
    fn is_busy(&self) -> bool;
    /// Whether the content changes as time passes, so that the loop ticks.
    fn is_live(&self) -> bool {
        false
    }
    /// Whether only the keys of [`Action::works_in_modal_pane`] have an effect now.
    fn is_modal(&self) -> bool {
        false
    }
    /// Hides the rows outside the scope, if the pane applies the scope; plans and trees are shown whole.
    fn narrow(&mut self, _scope: &AppliedScope) {}
    /// The names of the columns by which rows can be filtered.
    fn columns(&self) -> Vec<String> {
        Vec::new()
    }
    /// The columns that a person can choose; `None` if they are fixed.
    fn choosable(&self) -> Option<Choosable> {
        let kept_as = self.word()?.to_owned();
        let names = self.columns();
        (!names.is_empty()).then_some(Choosable { kept_as, names })
    }
    /// Applies a new filter; [`Self::wake`] is called next.
    fn filter_changed(&mut self);
    /// Called when the pane is opened or on top again, and when a replay shows another time.
    fn open(&mut self, context: &mut Context);
    /// Called for each snapshot (with `moved` if the engine has made progress), after the receipt of a command (with
    /// `moved`), when time has passed, and after the cursor, the filter or the scope has changed.
    fn wake(&mut self, _moved: bool, _context: &mut Context) {}
    /// Takes an answer; returns false if it belongs to another query.
    fn answer(&mut self, _arrived: &mut Arrived, _context: &mut Context) -> bool {
        false
    }
    /// Takes the receipt of a command; returns false if it belongs to another command.
    fn receipt(&mut self, _ticket: u64, _reply: &Reply, _context: &mut Context) -> bool {
        false
    }
    /// Whether the pane shows events, which are followed while it is on top.
    fn follows(&self) -> bool {
        false
    }
    fn followed(&mut self, _events: &[LedgerEvent]) {}
    /// Called when the events could not be read.
    fn lost(&mut self, _error: &str, _now: DateTime<Utc>) {}
    fn act(&mut self, action: Action, context: &mut Context);
    /// Called when this pane's question was confirmed and its command sent with this ticket; returns true
    /// if the pane takes the receipt itself.
    fn confirmed(&mut self, _ticket: u64) -> bool {
        false
    }
}
