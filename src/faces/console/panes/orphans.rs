//! What was given up with the ladder's last rung, and whether it is there still.

use crate::control::{ControlError, Page, Query};
use crate::domain::model::{Orphan, Presence, short_id};

use super::super::feed::{Feed, PAGE_ROWS, Want};
use super::super::filter::Facts;
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, Look, Tone, kind_words, name_or_id};
use super::inspect::InspectPane;
use super::{Column, Context, Pane, unexpected};

/// Each answer is a look at the clouds: it is asked when it is opened and when a person asks again, and
/// not whenever the engine moves.
pub(crate) struct OrphansPane {
    list: List,
    feed: Feed<Orphan>,
    visible: Vec<usize>,
}

impl OrphansPane {
    pub(crate) fn new() -> Self {
        Self {
            list: List::default(),
            feed: Feed::new(PAGE_ROWS),
            visible: Vec::new(),
        }
    }

    fn current(&self) -> Option<&Orphan> {
        let index = *self.visible.get(self.list.cursor)?;
        self.feed.rows.get(index)
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if let Want::Page(cursor) = self.feed.due(context.now) {
            self.page(cursor, context);
        }
    }

    fn page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let ticket = context.query(Query::Orphans {
            cursor: cursor.clone(),
            limit: PAGE_ROWS,
        });
        self.feed.asked(ticket, cursor.as_deref(), context.now);
    }

    fn refilter(&mut self, held: Option<i64>) {
        let rows = &self.feed.rows;
        self.visible = (0..rows.len())
            .filter(|i| {
                let row = &rows[*i];
                let key = &row.resource.key;
                let site = key.site.to_string();
                self.list.filter.fits(&Facts {
                    texts: &[&row.resource.name, &key.id, &row.why],
                    state: row.there.as_str(),
                    kind: key.kind.as_str(),
                    site: &site,
                    project: &row.project_id,
                    since: Some(row.since),
                })
            })
            .collect();
        let keys = self.visible.iter().map(|i| rows[*i].step_id);
        self.list.hold(held, keys);
    }
}

fn presence(there: Presence, look: &Look) -> Cell {
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
    fn title(&self, _look: &Look) -> String {
        let more = if self.feed.has_more() { "+" } else { "" };
        format!("orphans {}{more}", self.feed.rows.len())
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
        self.feed.is_waiting()
    }
    fn columns(&self, _look: &Look) -> Vec<Column> {
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
    fn cells(&self, row: usize, look: &Look) -> Vec<Cell> {
        let Some(row) = self.visible.get(row).map(|i| &self.feed.rows[*i]) else {
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
    fn head(&self, look: &Look) -> Vec<Cell> {
        look.errors(&self.feed.error)
    }
    fn strip(&self, look: &Look) -> Vec<Cell> {
        let Some(row) = self.current() else {
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
    fn empty(&self, _look: &Look) -> Vec<Cell> {
        if !self.feed.loaded {
            return vec![Cell::dim("Looking at what was given up…")];
        }
        if !self.list.filter.is_empty() {
            return vec![Cell::dim("No orphan contains that text; esc shows all.")];
        }
        vec![
            Cell::plain("Nothing was given up."),
            Cell::dim(
                "F on what is stuck shows the ladder; what its last rung forgets is listed here.",
            ),
        ]
    }
    fn filter_changed(&mut self) {
        let held = self.current().map(|row| row.step_id);
        self.refilter(held);
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.feed.spoil();
        self.ask(context);
    }
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        if self.list.cursor + 1 >= self.visible.len() {
            self.feed.more();
        }
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
        let held = self.current().map(|row| row.step_id);
        match answer.take() {
            Some(Ok(Page::Orphans { rows, next })) => {
                if let Want::Page(next) = self.feed.take(rows, next, context.now) {
                    self.page(next, context);
                }
            }
            Some(Err(error)) => self.feed.fail(error.to_string()),
            _ => self.feed.fail(unexpected()),
        }
        self.refilter(held);
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Refresh {
            self.feed.spoil();
            self.ask(context);
            return;
        }
        let Some(row) = self.current() else {
            return;
        };
        match action {
            Action::Open => context.push(InspectPane::of_step(row.step_id, &row.deletion_id)),
            Action::Copy => context.copy(row.resource.key.id.clone()),
            _ => {}
        }
    }
}
