//! The panes. Each owns its rows and its cursor, asks for data, and describes itself as a head of
//! pinned lines, a table, and a detail that says more about the row under the cursor; the renderer
//! draws them all alike.

pub(crate) mod attention;
pub(crate) mod blockers;
pub(crate) mod browse;
pub(crate) mod causes;
pub(crate) mod chart;
pub(crate) mod deletions;
pub(crate) mod deployments;
pub(crate) mod details;
pub(crate) mod drift;
pub(crate) mod emptiness;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod forest;
pub(crate) mod gates;
pub(crate) mod help;
pub(crate) mod inspect;
pub(crate) mod ladder;
pub(crate) mod list_pane;
pub(crate) mod open;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod search;
pub(crate) mod sites;
pub(crate) mod tour;
pub(crate) mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::control::{Command, ControlError, Receipt, Request, Snapshot};
use crate::domain::model::Event as LedgerEvent;

use self::emptiness::Load;
use super::arrived::Arrived;
use super::event::Effect;
use super::keys::{Action, Keymap, Scope};
use super::list::List;
use super::look::{Cell, RenderContext, Tone};
use super::prompt::Confirm;
use super::route::Route;

/// A column: its heading, and how it gets its width.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) heading: Cow<'static, str>,
    pub(crate) width: Width,
    pub(crate) right: bool,
    /// Whether a text that is too long keeps its end.
    pub(crate) tail: bool,
    /// Shown only on screens at least this wide; less important columns give way.
    pub(crate) from_width: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(u16),
    /// Shares the width that the fixed columns leave, by weight.
    Flex(u16),
}

impl Column {
    pub(crate) fn fixed(heading: &'static str, width: u16) -> Self {
        Self {
            heading: heading.into(),
            width: Width::Fixed(width),
            right: false,
            tail: false,
            from_width: 0,
        }
    }
    pub(crate) fn flex(heading: &'static str, weight: u16) -> Self {
        Self {
            width: Width::Flex(weight),
            ..Self::fixed(heading, 0)
        }
    }
    /// The number of attempts, of so many.
    pub(crate) fn attempts(look: &RenderContext) -> Self {
        match look.width {
            // Names need the room.
            0..100 => Self::fixed("ATT.", 5),
            _ => Self::fixed("ATTEMPTS", 8),
        }
    }
    pub(crate) fn right(self) -> Self {
        Self {
            right: true,
            ..self
        }
    }
    pub(crate) fn from(self, from_width: u16) -> Self {
        Self { from_width, ..self }
    }
}

/// A column, and what a row shows in it.
pub(crate) struct TableColumn<R> {
    column: Column,
    cell: fn(&R, &RenderContext) -> Cell,
}

pub(crate) fn show<R>(column: Column, cell: fn(&R, &RenderContext) -> Cell) -> TableColumn<R> {
    TableColumn { column, cell }
}

/// The columns of a pane with their cells, as data.
pub(crate) struct Table<R>(pub(crate) Vec<TableColumn<R>>);

impl<R> Table<R> {
    pub(crate) fn columns(self) -> Vec<Column> {
        self.0.into_iter().map(|it| it.column).collect()
    }
    pub(crate) fn cells(&self, row: &R, look: &RenderContext) -> Vec<Cell> {
        self.0.iter().map(|it| (it.cell)(row, look)).collect()
    }
}

/// Everything that a pane may read and request while it handles an event.
pub(crate) struct Context<'a> {
    pub(crate) keys: &'a Keymap,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) now: DateTime<Utc>,
    /// Whether a replay is shown, whose time goes back and forth.
    pub(crate) replays: bool,
    pub(crate) tickets: &'a mut u64,
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) requests: &'a mut Vec<PaneRequest>,
}

/// A request of a pane to the console around it.
pub(crate) enum PaneRequest {
    Push(Route),
    /// Open a pane in place of the one that asks.
    Replace(Route),
    Say(Tone, String),
    Ask(Box<Confirm>),
    /// Send a command; its answer is reported with the words of `what`.
    Submit {
        what: String,
        command: Command,
    },
    /// Ignore the keyboard until the next frame is on the screen.
    Guard,
}

impl Context<'_> {
    pub(crate) fn ask(&mut self, request: impl Request) -> u64 {
        *self.tickets += 1;
        let ticket = *self.tickets;
        let query = request.into();
        self.effects.push(Effect::Query { ticket, query });
        ticket
    }
    pub(crate) fn submit(&mut self, command: Command) -> u64 {
        *self.tickets += 1;
        let ticket = *self.tickets;
        self.effects.push(Effect::Submit {
            ticket,
            command,
            reason: String::new(),
        });
        ticket
    }
    pub(crate) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.requests.push(PaneRequest::Say(tone, text.into()));
    }
    pub(crate) fn push(&mut self, route: Route) {
        self.requests.push(PaneRequest::Push(route));
    }
    pub(crate) fn copy(&mut self, text: String) {
        self.say(Tone::Good, format!("copied {text}"));
        self.effects.push(Effect::Copy(text));
    }
}

pub(crate) trait Pane: Send {
    fn scope(&self) -> Scope;
    /// The word after `:` that opens this pane, if one does.
    fn word(&self) -> Option<&str> {
        None
    }
    fn title(&self, look: &RenderContext) -> String;
    fn list(&self) -> &List;
    fn list_mut(&mut self) -> &mut List;
    /// Number of visible rows.
    fn len(&self) -> usize;
    fn columns(&self, look: &RenderContext) -> Vec<Column>;
    /// The cells of a row, one for each column, including hidden columns.
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell>;
    fn is_marked(&self, _row: usize) -> bool {
        false
    }
    /// Lines pinned above the rows; they are wrapped.
    fn head(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// Lines with more about the row under the cursor; they are wrapped.
    fn detail(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// Number of rows that the detail usually takes.
    fn detail_rows(&self) -> u16 {
        2
    }
    /// The state of the query that fills the rows.
    fn load(&self) -> Load {
        Load::Answered
    }
    /// The word for one of its rows.
    fn noun(&self) -> Cow<'static, str>;
    /// Lines in place of rows until the first answer.
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// Lines in place of rows after the query failed.
    fn failed(&self, look: &RenderContext) -> Vec<Cell> {
        let again = look.key(Action::Refresh);
        vec![
            Cell::plain("It could not be read; the reason is above."),
            Cell::dim(format!("{again} asks again.")),
        ]
    }
    /// Lines in place of rows if there are none: what would be here, and how it gets here.
    fn nothing(&self, look: &RenderContext) -> Vec<Cell>;
    /// Whether something is under way that will be shown, so that the loop ticks.
    fn is_busy(&self) -> bool {
        false
    }
    /// Whether its content changes without the engine, so that it is woken as time passes.
    fn is_live(&self) -> bool {
        false
    }
    /// Whether only keys that leave the pane have an effect now.
    fn is_modal(&self) -> bool {
        false
    }
    /// Applies a new filter; [`Self::wake`] is called next.
    fn filter_changed(&mut self) {}
    /// Called when the pane is opened, or is on top again.
    fn open(&mut self, _context: &mut Context<'_>) {}
    /// Called when the engine has made progress (`moved`), or time has passed.
    fn wake(&mut self, _moved: bool, _context: &mut Context<'_>) {}
    /// Takes an answer; returns false if it belongs to another query.
    fn answer(&mut self, _arrived: &mut Arrived, _context: &mut Context<'_>) -> bool {
        false
    }
    fn receipt(
        &mut self,
        _ticket: u64,
        _receipt: &Result<Receipt, ControlError>,
        _context: &mut Context<'_>,
    ) -> bool {
        false
    }
    /// Whether the pane shows events, which are followed while it is on top.
    fn follows(&self) -> bool {
        false
    }
    fn followed(&mut self, _events: &[LedgerEvent]) {}
    /// Called when the events could not be read.
    fn lost(&mut self) {}
    fn act(&mut self, _action: Action, _context: &mut Context<'_>) {}
    /// Called when this pane's question was confirmed and its command sent with this ticket; returns true
    /// if the pane takes the receipt itself.
    fn confirmed(&mut self, _ticket: u64) -> bool {
        false
    }
}
