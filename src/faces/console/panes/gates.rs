//! What clients do through each gate, and what becomes of it.

use crate::control::{ControlError, GateStatus, Page, Query};

use super::super::feed::{Feed, PAGE_ROWS, Want};
use super::super::filter::Facts;
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, Look, Tone};
use super::{Column, Context, Pane, unexpected};

/// Counted by the gates, whatever the engine does: so it is asked for once a second while it is shown.
pub(crate) struct GatesPane {
    list: List,
    feed: Feed<GateStatus>,
    visible: Vec<usize>,
}

impl GatesPane {
    pub(crate) fn new() -> Self {
        Self {
            list: List::default(),
            feed: Feed::new(PAGE_ROWS),
            visible: Vec::new(),
        }
    }

    fn current(&self) -> Option<&GateStatus> {
        let index = *self.visible.get(self.list.cursor)?;
        self.feed.rows.get(index)
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        self.feed.spoil();
        if let Want::Page(_) = self.feed.due(context.now) {
            let ticket = context.query(Query::Gates);
            self.feed.asked(ticket, None, context.now);
        }
    }

    fn refilter(&mut self, held: Option<String>) {
        let rows = &self.feed.rows;
        self.visible = (0..rows.len())
            .filter(|i| {
                let row = &rows[*i];
                let site = row.site.to_string();
                self.list.filter.fits(&Facts {
                    texts: &[&row.listen, &row.service, &row.source],
                    site: &site,
                    ..Facts::default()
                })
            })
            .collect();
        let keys = self.visible.iter().map(|i| rows[*i].listen.clone());
        self.list.hold(held, keys);
    }

    fn held(&self) -> Option<String> {
        self.current().map(|row| row.listen.clone())
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
    fn title(&self, _look: &Look) -> String {
        format!("gates {}", self.feed.rows.len())
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.visible.len()
    }
    fn is_busy(&self) -> bool {
        !self.feed.loaded
    }
    fn is_live(&self) -> bool {
        true
    }
    fn columns(&self, _look: &Look) -> Vec<Column> {
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
    fn cells(&self, row: usize, _look: &Look) -> Vec<Cell> {
        let Some(row) = self.visible.get(row).map(|i| &self.feed.rows[*i]) else {
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
    fn head(&self, look: &Look) -> Vec<Cell> {
        look.errors(&self.feed.error)
    }
    fn strip(&self, look: &Look) -> Vec<Cell> {
        let Some(row) = self.current() else {
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
    fn empty(&self, _look: &Look) -> Vec<Cell> {
        if !self.feed.loaded {
            return vec![Cell::dim("Asking the engine for its gates…")];
        }
        if !self.list.filter.is_empty() {
            return vec![Cell::dim("No gate contains that text; esc shows all.")];
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
        let held = self.held();
        self.refilter(held);
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.ask(context);
    }
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        self.ask(context);
    }
    fn answer(
        &mut self,
        ticket: u64,
        answer: &mut Option<Result<Page, ControlError>>,
        context: &mut Context<'_>,
    ) -> bool {
        if !self.feed.owns(ticket) {
            return false;
        }
        let held = self.held();
        match answer.take() {
            Some(Ok(Page::Gates { rows })) => {
                self.feed.take(rows, None, context.now);
            }
            Some(Err(error)) => self.feed.fail(error.to_string()),
            _ => self.feed.fail(unexpected()),
        }
        self.refilter(held);
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some(row)) = (action, self.current()) {
            context.copy(row.listen.clone());
        }
    }
}
