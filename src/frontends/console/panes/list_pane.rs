//! Everything that panes with one list of rows have in common. Such a pane defines its query, its columns as
//! data, and what its keys do.

use std::borrow::Cow;

use super::super::arrived::Arrived;
use super::super::feed::Fetch;
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext};
use super::super::rows::{Row, Rows};
use super::emptiness::Load;
use super::{Column, Context, Pane, Table};
use crate::control::{ControlError, Receipt, Snapshot};

/// The occasions at which a pane queries its rows again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// The engine has made progress.
    EachMove,
    /// The pane is opened for the first time, or a person asks: each answer costs calls to the clouds.
    Demand,
    /// A second has passed: the rows change while the engine rests.
    Clock,
    /// Never: the rows need no query, or [`ListPane::update`] takes them from each snapshot.
    Never,
}

pub(crate) trait ListPane: Send {
    type Row: Row + Send;
    const SCOPE: Scope;
    /// The word after `:` that opens the pane.
    const WORD: Option<&'static str> = None;
    /// The word for one of its rows.
    const NOUN: &'static str;
    const REFRESH: Refresh;
    /// Number of lines that the details of a row usually take.
    const DETAIL_ROWS: u16 = 3;
    /// Shown until the first answer.
    const LOADING: &'static str;

    fn rows(&self) -> &Rows<Self::Row>;
    fn rows_mut(&mut self) -> &mut Rows<Self::Row>;
    /// Queries the page at this cursor, and returns the ticket; `None` if there is nothing to query.
    fn request(&mut self, _cursor: Option<String>, _context: &mut Context<'_>) -> Option<u64> {
        None
    }
    /// Takes the answer to [`Self::request`]; `None` if the answer belongs to another query.
    fn receive(&mut self, _arrived: &mut Arrived, _context: &Context<'_>) -> Option<Fetch> {
        None
    }
    fn table(&self, look: &RenderContext) -> Table<Self::Row>;
    fn details(&self, row: &Self::Row, look: &RenderContext) -> Vec<Cell>;
    /// Lines for a list without rows, which say how rows get here.
    fn none(look: &RenderContext) -> Vec<Cell>;
    fn act_on(&mut self, action: Action, context: &mut Context<'_>);

    fn heading(&self) -> String {
        let feed = &self.rows().feed;
        let more = if feed.has_more() { "+" } else { "" };
        format!(
            "{} {}{more}",
            Self::WORD.unwrap_or(Self::NOUN),
            feed.rows.len()
        )
    }
    /// Lines above the rows.
    fn lead(&self, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    /// Whether a command of this pane is under way.
    fn is_working(&self) -> bool {
        false
    }
    /// Key by which a row is marked; `None` if rows cannot be marked.
    fn mark(_row: &Self::Row) -> Option<String> {
        None
    }
    /// Updates the rows from the snapshot, which is newer.
    fn update(&mut self, _snapshot: &Snapshot) {}
    fn ask(&mut self, context: &mut Context<'_>) {
        let rows = self.rows_mut();
        if rows.list.cursor + 1 >= rows.len() {
            rows.feed.more();
        }
        if let Fetch::Page(cursor) = rows.feed.due(context) {
            self.ask_page(cursor, context);
        }
    }
    fn ask_anew(&mut self, context: &mut Context<'_>) {
        self.rows_mut().feed.invalidate();
        self.ask(context);
    }
    fn ask_page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let is_first = cursor.is_none();
        match self.request(cursor, context) {
            Some(ticket) => self.rows_mut().feed.asked(ticket, is_first, context.now),
            None => self.rows_mut().feed.rest(),
        }
    }
    fn take_receipt(
        &mut self,
        _ticket: u64,
        _receipt: &Result<Receipt, ControlError>,
        _context: &mut Context<'_>,
    ) -> bool {
        false
    }
    fn was_confirmed(&mut self, _ticket: u64) -> bool {
        false
    }
}

impl<P: ListPane> Pane for P {
    fn scope(&self) -> Scope {
        P::SCOPE
    }
    fn word(&self) -> Option<&str> {
        P::WORD
    }
    fn title(&self, _look: &RenderContext) -> String {
        self.heading()
    }
    fn list(&self) -> &List {
        &self.rows().list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.rows_mut().list
    }
    fn len(&self) -> usize {
        self.rows().len()
    }
    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        self.table(look).columns()
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows().get(row) else {
            return Vec::new();
        };
        self.table(look).cells(row, look)
    }
    fn is_marked(&self, row: usize) -> bool {
        let mark = self.rows().get(row).and_then(P::mark);
        mark.is_some_and(|mark| self.rows().list.marks.contains(&mark))
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut head = look.errors(&self.rows().feed.error);
        head.extend(self.lead(look));
        head
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = self.rows().current();
        row.map_or_else(Vec::new, |row| self.details(row, look))
    }
    fn detail_rows(&self) -> u16 {
        P::DETAIL_ROWS
    }
    fn load(&self) -> Load {
        self.rows().feed.load()
    }
    fn noun(&self) -> Cow<'static, str> {
        P::NOUN.into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim(P::LOADING)]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        P::none(look)
    }
    fn is_busy(&self) -> bool {
        match P::REFRESH {
            Refresh::Never => false,
            Refresh::Clock => !self.rows().feed.loaded,
            Refresh::EachMove | Refresh::Demand => {
                self.rows().feed.is_waiting() || self.is_working()
            }
        }
    }
    fn is_live(&self) -> bool {
        P::REFRESH == Refresh::Clock
    }
    fn filter_changed(&mut self) {
        self.rows_mut().refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        let has_answer = self.rows().feed.loaded && !context.replays;
        match P::REFRESH {
            Refresh::Never => {}
            Refresh::Demand if has_answer => {}
            Refresh::Demand | Refresh::EachMove | Refresh::Clock => self.ask_anew(context),
        }
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        match P::REFRESH {
            Refresh::EachMove if moved => {
                self.rows_mut().feed.invalidate();
                self.update(context.snapshot);
            }
            Refresh::Clock => self.rows_mut().feed.invalidate(),
            Refresh::EachMove | Refresh::Demand => {}
            Refresh::Never => return self.update(context.snapshot),
        }
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let held = self.rows().current().map(Row::key);
        let Some(fetch) = self.receive(arrived, context) else {
            return false;
        };
        if let Fetch::Page(next) = fetch {
            self.ask_page(next, context);
        }
        let rows = self.rows_mut();
        rows.refilter_holding(held);
        let marks: Vec<String> = rows.feed.rows.iter().filter_map(P::mark).collect();
        rows.list.marks.retain(|mark| marks.contains(mark));
        true
    }
    fn receipt(
        &mut self,
        ticket: u64,
        receipt: &Result<Receipt, ControlError>,
        context: &mut Context<'_>,
    ) -> bool {
        self.take_receipt(ticket, receipt, context)
    }
    fn confirmed(&mut self, ticket: u64) -> bool {
        self.was_confirmed(ticket)
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match action {
            Action::Refresh => self.ask_anew(context),
            action => self.act_on(action, context),
        }
    }
}
