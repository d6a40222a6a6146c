//! `:orphans`, the resources that abandoned steps left behind, and whether each still exists.

use crate::control::query;
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::{Orphan, Presence, short_id};
use crate::frontends::console::route::Route;

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, PAGE_ROWS};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};
use crate::present::{kind_words, name_or_id};

/// Each answer costs calls to the clouds, so the pane queries when it is opened and when a person asks again,
/// and not whenever the engine makes progress.
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
}

fn presence(there: Presence, look: &RenderContext) -> Cell {
    match there {
        Presence::Present => Cell::new(format!("{} there", look.pick("▲", "!")), Tone::Warn),
        Presence::Absent => Cell::new(format!("{} gone", look.pick("✓", "+")), Tone::Good),
        Presence::Unclear => Cell::dim(format!("{} unclear", look.pick("·", "."))),
    }
}

impl ListPane for OrphansPane {
    type Row = Orphan;
    const SCOPE: Scope = Scope::Orphans;
    const WORD: Option<&'static str> = Some("orphans");
    const NOUN: &'static str = "orphan";
    const REFRESH: Refresh = Refresh::Demand;
    const LOADING: &'static str = "Asking the clouds for what was abandoned…";

    fn rows(&self) -> &Rows<Orphan> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<Orphan> {
        &mut self.rows
    }
    fn request(&mut self, cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(context.ask(query::Orphans {
            cursor,
            limit: PAGE_ROWS,
        }))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let feed = &mut self.rows.feed;
        feed.receive::<query::Orphans>(arrived, context, |page| page)
    }
    fn table(&self, _look: &RenderContext) -> Table<Self::Row> {
        Table(vec![
            show(Column::fixed("THERE", 10), |row, look| {
                presence(row.there, look)
            }),
            show(Column::fixed("KIND", 14).from(60), |row, _| {
                Cell::plain(kind_words(&row.resource.key.kind))
            }),
            show(Column::flex("NAME", 2), |row, _| {
                Cell::plain(name_or_id(&row.resource.name, &row.resource.key.id))
            }),
            show(Column::flex("SITE", 2).from(70), |row, _| {
                Cell::plain(row.resource.key.site.to_string())
            }),
            show(Column::fixed("SINCE (UTC)", 11).from(100), |row, look| {
                Cell::dim(look.time(row.since))
            }),
            show(Column::fixed("DELETION", 8).from(60), |row, _| {
                Cell::dim(short_id(&row.deletion_id))
            }),
            show(Column::flex("WHY", 3).from(90), |row, _| {
                Cell::plain(row.why.clone())
            }),
        ])
    }
    fn details(&self, row: &Orphan, look: &RenderContext) -> Vec<Cell> {
        let key = &row.resource.key;
        let mut lines = vec![Cell::plain(format!(
            "{key}{}abandoned {}{}project {}",
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
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("Nothing had been abandoned by then.")];
        }
        vec![
            Cell::plain("Nothing was abandoned."),
            Cell::dim(
                "F on a stuck step shows the ladder; its last rung abandons the step, and what is \
                 left behind is listed here.",
            ),
        ]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        let Some(row) = self.rows.current() else {
            return;
        };
        match action {
            Action::Open => context.push(Route::InspectStep {
                id: row.step_id,
                deletion_id: row.deletion_id.clone(),
            }),
            Action::Explain => {
                let key = row.resource.key.clone();
                let name = name_or_id(&row.resource.name, &key.id);
                let words = format!("{} {name}", kind_words(&key.kind));
                context.push(Route::Explain { key, words });
            }
            Action::Copy => context.copy(row.resource.key.id.clone()),
            _ => {}
        }
    }
}
