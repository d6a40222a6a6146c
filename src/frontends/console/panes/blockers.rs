//! The blockers of one resource, and their owners (P2).

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, whole};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::route::{BlockerRow, Route, Source};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, PaneRequest, Table, show};
use crate::control::{Command, query};
use crate::domain::filter::SearchQuery;
use crate::domain::ladder::PurgeScope;

pub(crate) struct BlockersPane {
    subject: String,
    rows: Rows<BlockerRow>,
    /// The step or deletion to query; `None` for the blockers of a plan, which need no query.
    source: Option<Source>,
}

impl BlockersPane {
    pub(crate) fn new(subject: String, known: Vec<BlockerRow>, source: Option<Source>) -> Self {
        let rows = match source {
            Some(_) => Rows::new(),
            None => Rows::of(known),
        };
        Self {
            subject,
            rows,
            source,
        }
    }
}

impl Row for BlockerRow {
    type Key = (String, String);

    fn key(&self) -> Self::Key {
        (self.id.clone(), self.resource.clone())
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str(), &self.id, &self.resource])
    }
}

impl ListPane for BlockersPane {
    type Row = BlockerRow;
    const SCOPE: Scope = Scope::Blockers;
    const NOUN: &'static str = "blocker";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the blockers…";

    fn rows(&self) -> &Rows<BlockerRow> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<BlockerRow> {
        &mut self.rows
    }
    fn heading(&self) -> String {
        format!("in the way of {}", self.subject)
    }
    fn request(&mut self, _cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(match self.source.as_ref()? {
            Source::Step(id) => context.ask(query::Step { id: *id }),
            Source::Deletion(id) => context.ask(query::Deletion { id: id.clone() }),
        })
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let feed = &mut self.rows.feed;
        match self.source.as_ref()? {
            Source::Step(_) => feed
                .receive::<query::Step>(arrived, context, |step| whole(BlockerRow::of_step(&step))),
            Source::Deletion(_) => feed.receive::<query::Deletion>(arrived, context, |deletion| {
                whole(BlockerRow::of_refusals(&deletion.refused))
            }),
        }
    }
    fn table(&self, _look: &RenderContext) -> Table<Self::Row> {
        Table(vec![
            show(Column::flex("WHAT", 4), |row, _| {
                Cell::new(row.text.clone(), Tone::Warn)
            }),
            show(Column::fixed("SINCE (UTC)", 11).from(60), |row, look| {
                Cell::dim(look.maybe_time(row.since))
            }),
            show(Column::flex("HOLDS", 2).from(110), |row, _| {
                Cell::plain(row.resource.clone())
            }),
            show(Column::fixed("SITE", 18).from(130), |row, _| {
                Cell::dim(row.site.clone())
            }),
        ])
    }
    fn details(&self, row: &BlockerRow, _look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain(row.text.clone()),
            Cell::dim(format!("id {} at {}", row.id, row.site)),
            Cell::plain(row.advice.clone()),
        ]
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("No blocker was known then.")];
        }
        vec![
            Cell::plain("No blocker is known."),
            Cell::dim("If it still does not go, its own error says why: enter on the step."),
        ]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        match (action, &self.source) {
            (Action::Copy, _) => {
                if let Some(row) = self.rows.current() {
                    context.copy(row.id.clone());
                }
            }
            (Action::Retry, Some(source)) => {
                let command = match source {
                    Source::Step(id) => Command::RetryStep { step_id: *id },
                    Source::Deletion(id) => Command::Retry {
                        deletion_id: id.clone(),
                    },
                };
                context.requests.push(PaneRequest::Submit {
                    what: format!("retry of {}", self.subject),
                    command,
                });
            }
            (Action::Ladder, Some(source)) => {
                let what = match source {
                    Source::Step(id) => PurgeScope::Step(*id),
                    Source::Deletion(id) => PurgeScope::Deletion(id.clone()),
                };
                context.push(Route::Ladder {
                    what,
                    words: self.subject.clone(),
                });
            }
            _ => {}
        }
    }
}
