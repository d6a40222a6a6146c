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
    /// Of a text that is too long the end is kept.
    pub(crate) tail: bool,
    /// Shown only on screens at least this wide; columns of what matters less give way.
    pub(crate) from_width: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(u16),
    /// Shares what the fixed columns leave, by weight.
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

/// What a pane may see and ask for while it changes.
pub(crate) struct Context<'a> {
    pub(crate) keys: &'a Keymap,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) now: DateTime<Utc>,
    /// What is shown is a replay, which goes back and forth.
    pub(crate) replays: bool,
    pub(crate) tickets: &'a mut u64,
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) requests: &'a mut Vec<PaneRequest>,
}

/// What a pane wants of the console around it.
pub(crate) enum PaneRequest {
    Push(Route),
    /// In place of the pane that asks.
    Replace(Route),
    Say(Tone, String),
    Ask(Box<Confirm>),
    /// A command; what it was is said with its answer.
    Submit {
        what: String,
        command: Command,
    },
    /// Nothing is taken from the keyboard before the next frame is on the screen.
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
    /// Visible rows.
    fn len(&self) -> usize;
    fn columns(&self, look: &RenderContext) -> Vec<Column>;
    /// As many as there are columns, hidden ones too.
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell>;
    fn is_marked(&self, _row: usize) -> bool {
        false
    }
    /// Pinned above the rows; wrapped.
    fn head(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// More about the row under the cursor; wrapped.
    fn detail(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// How many rows that usually takes.
    fn detail_rows(&self) -> u16 {
        2
    }
    /// The state of the question that its rows answer.
    fn load(&self) -> Load {
        Load::Answered
    }
    /// One of its rows, for people.
    fn noun(&self) -> Cow<'static, str>;
    /// In place of rows, until the first answer.
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// In place of rows, where they could not be asked for.
    fn failed(&self, look: &RenderContext) -> Vec<Cell> {
        let again = look.key(Action::Refresh);
        vec![
            Cell::plain("It could not be read; the reason is above."),
            Cell::dim(format!("{again} asks again.")),
        ]
    }
    /// In place of rows where there are none: what would be here, and how it gets here.
    fn nothing(&self, look: &RenderContext) -> Vec<Cell>;
    /// Something is under way that will be shown: the loop ticks.
    fn is_busy(&self) -> bool {
        false
    }
    /// What it shows changes without the engine: it is woken as time passes.
    fn is_live(&self) -> bool {
        false
    }
    /// Keys other than "back" mean nothing now.
    fn is_modal(&self) -> bool {
        false
    }
    /// Woken next.
    fn filter_changed(&mut self) {}
    /// Opened, or on top again.
    fn open(&mut self, _context: &mut Context<'_>) {}
    /// The engine moved, or time passed.
    fn wake(&mut self, _moved: bool, _context: &mut Context<'_>) {}
    /// True if it was this pane's question.
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
    /// This pane lives on events: they are followed while it is on top.
    fn follows(&self) -> bool {
        false
    }
    fn followed(&mut self, _events: &[LedgerEvent]) {}
    /// The events could not be read.
    fn lost(&mut self) {}
    fn act(&mut self, _action: Action, _context: &mut Context<'_>) {}
    /// What this pane had asked to be confirmed was confirmed, and went out with this ticket; true
    /// if the pane takes the receipt itself.
    fn confirmed(&mut self, _ticket: u64) -> bool {
        false
    }
}
