//! All deletions, with their progress.

use crate::control::{Snapshot, query};
use crate::domain::filter::SearchQuery;
use crate::domain::model::{Deletion, short_id};
use crate::frontends::console::about::{deletion_lines, fits_deletion};
use crate::frontends::console::requests::{cancel, ladder, pause, retry};
use crate::frontends::console::route::{Route, Source};
use crate::present::{duration, progress_words, target_words};

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, PAGE_ROWS};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};

pub(crate) struct DeletionsPane {
    rows: Rows<Deletion>,
}

impl DeletionsPane {
    pub(crate) fn new() -> Self {
        Self { rows: Rows::new() }
    }
}

impl Row for Deletion {
    type Key = String;

    fn key(&self) -> String {
        self.id.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        fits_deletion(filter, self, &target_words(self))
    }
}

fn progress_width(look: &RenderContext) -> u16 {
    if look.width < 120 { 10 } else { 20 }
}

fn progress_bar(deletion: &Deletion, look: &RenderContext) -> Cell {
    let counts = &deletion.counts;
    if counts.total == 0 {
        return Cell::default();
    }
    let bar = look.bar(counts, usize::from(progress_width(look)));
    Cell::new(bar, look.deletion_state(deletion.state).tone)
}

impl ListPane for DeletionsPane {
    type Row = Deletion;
    const SCOPE: Scope = Scope::Deletions;
    const WORD: Option<&'static str> = Some("deletions");
    const NOUN: &'static str = "deletion";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the deletions…";

    fn rows(&self) -> &Rows<Deletion> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<Deletion> {
        &mut self.rows
    }
    fn request(&mut self, cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(context.ask(query::Deletions {
            cursor,
            limit: PAGE_ROWS,
            ..query::Deletions::default()
        }))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let feed = &mut self.rows.feed;
        feed.receive::<query::Deletions>(arrived, context, |page| page)
    }
    fn table(&self, look: &RenderContext) -> Table<Self::Row> {
        Table(vec![
            show(Column::fixed("STATE", 11), |row, look| {
                look.deletion_state(row.state)
            }),
            show(Column::fixed("ID", 8).from(60), |row, _| {
                Cell::dim(short_id(&row.id))
            }),
            show(Column::flex("WHAT", 3), |row, _| {
                Cell::plain(target_words(row))
            }),
            show(
                Column::fixed("PROGRESS", progress_width(look)).from(60),
                progress_bar,
            ),
            show(Column::fixed("DONE", 13).right(), |row, _| {
                match row.counts.total {
                    0 => Cell::default(),
                    _ => Cell::plain(progress_words(row)),
                }
            }),
            show(Column::fixed("LEFT", 7).right().from(60), |row, _| {
                Cell::dim(row.eta_seconds.map(duration).unwrap_or_default())
            }),
            // These columns appear only on screens so wide that the name loses nothing.
            show(Column::fixed("REQUESTED", 11).from(120), |row, look| {
                Cell::dim(look.time(row.requested_at))
            }),
            show(Column::flex("BY", 1).from(140), |row, _| {
                Cell::dim(row.requested_by.name.clone())
            }),
        ])
    }
    fn details(&self, deletion: &Deletion, look: &RenderContext) -> Vec<Cell> {
        // The column may have cut the targets.
        let mut lines = vec![Cell::plain(target_words(deletion))];
        lines.extend(deletion_lines(deletion, look));
        lines
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("No deletion had been asked for by then.")];
        }
        vec![
            Cell::plain("No deletion has been asked for yet. Once one is, it is followed here."),
            Cell::default(),
            Cell::dim(":network    lists the networks; so does every other kind"),
            Cell::dim(format!(
                "{:<11} on a row plans its deletion, and deletes nothing yet",
                look.key(Action::PlanDeletion)
            )),
            Cell::dim(format!("{:<11} shows all keys", look.key(Action::Help))),
        ]
    }
    /// Takes deletions from the snapshot, which is newer than the page.
    fn update(&mut self, snapshot: &Snapshot) {
        for row in &mut self.rows.feed.rows {
            if let Some(new) = snapshot.deletions.iter().find(|d| d.id == row.id) {
                row.clone_from(new);
            }
        }
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        let Some(deletion) = self.rows.current() else {
            return;
        };
        match action {
            // A refused deletion has no steps; the pane shows why it was refused.
            Action::Open if deletion.counts.total == 0 => {
                context.push(Route::InspectDeletion(Box::new(deletion.clone())));
            }
            Action::Open => context.push(Route::Tree(deletion.id.clone())),
            Action::Blockers => context.push(Route::Blockers {
                subject: target_words(deletion),
                rows: Vec::new(),
                source: Some(Source::Deletion(deletion.id.clone())),
            }),
            Action::Retry => context.requests.push(retry(deletion)),
            Action::Ladder => context.push(ladder(deletion)),
            Action::Chart => context.push(Route::Chart(Box::new(deletion.clone()))),
            Action::Pause => context.requests.push(pause(deletion)),
            Action::Cancel => context.requests.push(cancel(deletion)),
            Action::Copy => context.copy(deletion.id.clone()),
            _ => {}
        }
    }
}
