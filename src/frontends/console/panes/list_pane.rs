//! A pane that shows one of the engine's lists as it is: everything that such panes have in common. A pane of
//! this kind is its rows, its columns as data, and what its keys do.

use std::borrow::Cow;

use super::super::arrived::Arrived;
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext};
use super::super::rows::{Row, Rows};
use super::emptiness::Load;
use super::{Column, Context, Pane};
use crate::control::{ControlError, Receipt, Snapshot};

/// A column, and what a row shows in it.
pub(crate) struct TableColumn<P: ListPane> {
    pub(crate) column: Column,
    pub(crate) cell: fn(&P::Row, &RenderContext) -> Cell,
}

/// When the rows are asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// The engine has moved.
    EachMove,
    /// The pane is opened, or a person asks: each answer costs calls to the clouds.
    Demand,
    /// As time passes: the rows change while the engine rests.
    Clock,
}

pub(crate) trait ListPane: Send {
    type Row: Row + Send;
    const SCOPE: Scope;
    /// The word after `:` that opens the pane, and its title.
    const WORD: &'static str;
    /// One of its rows.
    const NOUN: &'static str;
    const REFRESH: Refresh;
    /// Lines that the details of a row usually take.
    const DETAIL_ROWS: u16 = 3;
    /// Said until the first answer.
    const LOADING: &'static str;

    fn rows(&self) -> &Rows<Self::Row>;
    fn rows_mut(&mut self) -> &mut Rows<Self::Row>;
    fn table(look: &RenderContext) -> Vec<TableColumn<Self>>
    where
        Self: Sized;
    /// A column with what a row shows in it.
    fn show(column: Column, cell: fn(&Self::Row, &RenderContext) -> Cell) -> TableColumn<Self>
    where
        Self: Sized,
    {
        TableColumn { column, cell }
    }
    fn details(row: &Self::Row, look: &RenderContext) -> Vec<Cell>;
    /// Said where there is nothing, with how something gets here.
    fn none(look: &RenderContext) -> Vec<Cell>;
    fn act_on(&mut self, action: Action, context: &mut Context<'_>);

    fn heading(&self) -> String {
        let feed = &self.rows().feed;
        let more = if feed.has_more() { "+" } else { "" };
        format!("{} {}{more}", Self::WORD, feed.rows.len())
    }
    /// Lines above the rows about work that is under way.
    fn progress(&self) -> Vec<Cell> {
        Vec::new()
    }
    /// By which a row is marked, where rows can be.
    fn mark(_row: &Self::Row) -> Option<String> {
        None
    }
    /// Brings into the rows what the snapshot knows better.
    fn update(&mut self, _snapshot: &Snapshot) {}
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
        Some(P::WORD)
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
        P::table(look).into_iter().map(|it| it.column).collect()
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows().get(row) else {
            return Vec::new();
        };
        let table = P::table(look);
        table.iter().map(|it| (it.cell)(row, look)).collect()
    }
    fn is_marked(&self, row: usize) -> bool {
        let mark = self.rows().get(row).and_then(P::mark);
        mark.is_some_and(|mark| self.rows().list.marks.contains(&mark))
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut head = look.errors(&self.rows().feed.error);
        head.extend(self.progress());
        head
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = self.rows().current();
        row.map_or_else(Vec::new, |row| P::details(row, look))
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
            Refresh::Clock => !self.rows().feed.loaded,
            Refresh::EachMove | Refresh::Demand => {
                self.rows().feed.is_waiting() || !self.progress().is_empty()
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
        self.rows_mut().ask_anew(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        match P::REFRESH {
            Refresh::EachMove if moved => {
                self.rows_mut().feed.invalidate();
                self.update(context.snapshot);
            }
            Refresh::Clock => self.rows_mut().feed.invalidate(),
            Refresh::EachMove | Refresh::Demand => {}
        }
        self.rows_mut().ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let rows = self.rows_mut();
        if !rows.answer(arrived, context) {
            return false;
        }
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
            Action::Refresh => self.open(context),
            action => self.act_on(action, context),
        }
    }
}
