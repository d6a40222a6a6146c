//! What clients do through each gate, and what becomes of it.

use crate::control::{GateStatus, query};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::Paged;
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::{Column, Context, Pane};

/// Counted by the gates, whatever the engine does: so it is asked for once a second while it is shown.
pub(crate) struct GatesPane {
    rows: Rows<GateStatus>,
}

impl GatesPane {
    pub(crate) fn new() -> Self {
        Self { rows: Rows::new() }
    }
}

impl Row for GateStatus {
    type Key = String;

    fn key(&self) -> String {
        self.listen.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let site = self.site.to_string();
        filter.fits(&Facts {
            texts: &[&self.listen, &self.service, &self.source],
            site: &site,
            ..Facts::default()
        })
    }
    type Request = query::Gates;
    fn request(_cursor: Option<String>) -> query::Gates {
        query::Gates {}
    }
    fn of(rows: Vec<Self>) -> Paged<Self> {
        whole(rows)
    }
}

/// A number that is worth a look unless it is none.
fn counted(count: u64, tone: Tone) -> Cell {
    match count {
        0 => Cell::dim("0"),
        count => Cell::new(count.to_string(), tone),
    }
}

impl Pane for GatesPane {
    fn scope(&self) -> Scope {
        Scope::Gates
    }
    fn word(&self) -> Option<&str> {
        Some("gates")
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("gates {}", self.rows.feed.rows.len())
    }
    fn list(&self) -> &List {
        &self.rows.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.rows.list
    }
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn is_busy(&self) -> bool {
        !self.rows.feed.loaded
    }
    fn is_live(&self) -> bool {
        true
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![
            Column::fixed("GATE", 21),
            Column::fixed("SERVICE", 13).from(90),
            Column::fixed("FOR", 7),
            Column::flex("SITE", 2).from(130),
            Column::fixed("REQUESTS", 10).right(),
            Column::fixed("HIDDEN", 8).right().from(50),
            Column::fixed("DELETING", 8).right().from(70),
            Column::fixed("REFUSED", 8).right(),
            Column::fixed("ACCEPTED", 8).right().from(60),
            Column::fixed("FAILED", 7).right().from(100),
        ]
    }
    fn cells(&self, row: usize, _look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows.get(row) else {
            return Vec::new();
        };
        let traffic = &row.traffic;
        vec![
            Cell::plain(row.listen.clone()),
            Cell::plain(row.service.clone()),
            Cell::plain(row.source.clone()),
            Cell::plain(row.site.to_string()),
            Cell::plain(traffic.requests.to_string()),
            counted(traffic.hidden, Tone::Plain),
            counted(traffic.deleting, Tone::Plain),
            counted(traffic.refused, Tone::Warn),
            counted(traffic.accepted, Tone::Good),
            counted(traffic.failed, Tone::Bad),
        ]
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        look.errors(&self.rows.feed.error)
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows.current() else {
            return Vec::new();
        };
        let traffic = &row.traffic;
        let touched = traffic.hidden + traffic.deleting + traffic.refused + traffic.accepted;
        let passed = traffic.requests.saturating_sub(touched + traffic.failed);
        let dot = look.dot();
        vec![
            Cell::plain(format!(
                "{} of {}{dot}listens on {}, for {}",
                row.service, row.site, row.listen, row.source
            )),
            Cell::dim(format!(
                "{passed} passed as they were{dot}{} with something hidden{dot}{} shown as deleting",
                traffic.hidden, traffic.deleting
            )),
            Cell::dim(format!(
                "{} refused{dot}{} deletions accepted or under way{dot}{} failed",
                traffic.refused, traffic.accepted, traffic.failed
            )),
        ]
    }
    fn strip_rows(&self) -> u16 {
        3
    }
    fn empty(&self, look: &RenderContext) -> Vec<Cell> {
        if !self.rows.feed.loaded {
            return vec![Cell::dim("Asking the engine for its gates…")];
        }
        if !self.rows.list.filter.is_empty() {
            return vec![Cell::dim(look.nothing_fits("gate"))];
        }
        if look.replays {
            let told = "What came through gates is in no ledger: a replay cannot tell.";
            return vec![Cell::plain(told)];
        }
        vec![
            Cell::plain("This engine has no gate."),
            Cell::dim(
                "A [[gate]] in the settings opens one in front of a service, so that what is",
            ),
            Cell::dim("deleted stays deleted for every client that comes that way."),
        ]
    }
    fn filter_changed(&mut self) {
        self.rows.refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.rows.ask_anew(context);
    }
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        self.rows.ask_anew(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        self.rows.answer(arrived, context)
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some(row)) = (action, self.rows.current()) {
            context.copy(row.listen.clone());
        }
    }
}
