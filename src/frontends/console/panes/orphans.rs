//! What was given up with the ladder's last rung, and whether it is there still.

use crate::control::query;
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::{Orphan, Paged, Presence, short_id};
use crate::frontends::console::arrived::Arrived;

use super::super::feed::PAGE_ROWS;
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone, kind_words, name_or_id};
use super::super::rows::{Row, Rows};
use super::explain::ExplainPane;
use super::inspect::InspectPane;
use super::{Column, Context, Pane};

/// Each answer is a look at the clouds: it is asked when it is opened and when a person asks again, and
/// not whenever the engine moves.
pub(crate) struct OrphansPane {
    rows: Rows<Orphan>,
}

impl OrphansPane {
    pub(crate) fn new() -> Self {
        Self { rows: Rows::new() }
    }
}

impl Row for Orphan {
    type Key = i64;

    fn key(&self) -> i64 {
        self.step_id
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let key = &self.resource.key;
        let site = key.site.to_string();
        filter.fits(&Facts {
            texts: &[&self.resource.name, &key.id, &self.why],
            state: self.there.as_str(),
            kind: key.kind.as_str(),
            site: &site,
            project: &self.project_id,
            since: Some(self.since),
        })
    }
    type Request = query::Orphans;
    fn request(cursor: Option<String>) -> query::Orphans {
        query::Orphans {
            cursor,
            limit: PAGE_ROWS,
        }
    }
    fn of(page: Paged<Self>) -> Paged<Self> {
        page
    }
}

fn presence(there: Presence, look: &RenderContext) -> Cell {
    match there {
        Presence::Present => Cell::new(format!("{} there", look.pick("▲", "!")), Tone::Warn),
        Presence::Absent => Cell::new(format!("{} gone", look.pick("✓", "+")), Tone::Good),
        Presence::Unclear => Cell::dim(format!("{} unclear", look.pick("·", "."))),
    }
}

impl Pane for OrphansPane {
    fn scope(&self) -> Scope {
        Scope::Orphans
    }
    fn word(&self) -> Option<&str> {
        Some("orphans")
    }
    fn title(&self, _look: &RenderContext) -> String {
        let more = if self.rows.feed.has_more() { "+" } else { "" };
        format!("orphans {}{more}", self.rows.feed.rows.len())
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
        self.rows.feed.is_waiting()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![
            Column::fixed("STILL", 10),
            Column::fixed("KIND", 14).from(60),
            Column::flex("NAME", 2),
            Column::flex("SITE", 2).from(70),
            Column::fixed("SINCE (UTC)", 11).from(100),
            Column::fixed("DELETION", 8).from(60),
            Column::flex("WHY", 3).from(90),
        ]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows.get(row) else {
            return Vec::new();
        };
        let key = &row.resource.key;
        vec![
            presence(row.there, look),
            Cell::plain(kind_words(&key.kind)),
            Cell::plain(name_or_id(&row.resource.name, &key.id)),
            Cell::plain(key.site.to_string()),
            Cell::dim(look.time(row.since)),
            Cell::dim(short_id(&row.deletion_id)),
            Cell::plain(row.why.clone()),
        ]
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        look.errors(&self.rows.feed.error)
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.rows.current() else {
            return Vec::new();
        };
        let key = &row.resource.key;
        let mut lines = vec![Cell::plain(format!(
            "{key}{}given up {}{}project {}",
            look.dot(),
            look.time(row.since),
            look.dot(),
            row.project_id
        ))];
        if !row.why.is_empty() {
            lines.push(Cell::dim(row.why.clone()));
        }
        lines
    }
    fn strip_rows(&self) -> u16 {
        3
    }
    fn empty(&self, look: &RenderContext) -> Vec<Cell> {
        if !self.rows.feed.loaded {
            return vec![Cell::dim("Looking at what was given up…")];
        }
        if !self.rows.list.filter.is_empty() {
            return vec![Cell::dim(look.nothing_fits("orphan"))];
        }
        if look.replays {
            return vec![Cell::plain("Nothing had been given up by then.")];
        }
        vec![
            Cell::plain("Nothing was given up."),
            Cell::dim(
                "F on what is stuck shows the ladder; what its last rung forgets is listed here.",
            ),
        ]
    }
    fn filter_changed(&mut self) {
        self.rows.refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.rows.ask_anew(context);
    }
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        self.rows.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        self.rows.answer(arrived, context)
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Refresh {
            self.rows.ask_anew(context);
            return;
        }
        let Some(row) = self.rows.current() else {
            return;
        };
        match action {
            Action::Open => context.push(InspectPane::of_step(row.step_id, &row.deletion_id)),
            Action::Explain => {
                let key = row.resource.key.clone();
                let name = name_or_id(&row.resource.name, &key.id);
                let words = format!("{} {name}", kind_words(&key.kind));
                context.push(ExplainPane::new(key, words));
            }
            Action::Copy => context.copy(row.resource.key.id.clone()),
            _ => {}
        }
    }
}
