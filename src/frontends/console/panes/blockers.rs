//! What stands in the way of one resource, and whose it is (P2).

use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::panes::emptiness::Load;
use crate::frontends::console::route::{BlockerRow, Route, Source};
use std::borrow::Cow;

use crate::control::{Command, query};
use crate::domain::ladder::PurgeScope;

use super::super::feed::{Feed, Fetch};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::{Column, Context, Pane, PaneRequest};

pub(crate) struct BlockersPane {
    subject: String,
    list: List,
    feed: Feed<BlockerRow>,
    visible: Vec<usize>,
    /// None: as a plan said; nothing is asked.
    source: Option<Source>,
}

impl BlockersPane {
    pub(crate) fn new(subject: String, held: Vec<BlockerRow>, source: Option<Source>) -> Self {
        let mut feed = Feed::new(1);
        feed.rows = held;
        feed.loaded = source.is_none();
        let mut pane = Self {
            subject,
            list: List::default(),
            feed,
            visible: Vec::new(),
            source,
        };
        pane.filter_changed();
        pane
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        let Some(source) = &self.source else { return };
        if let Fetch::Page(_) = self.feed.due(context) {
            match source {
                Source::Step(id) => self.feed.ask(query::Step { id: *id }, true, context),
                Source::Deletion(id) => {
                    let id = id.clone();
                    self.feed.ask(query::Deletion { id }, true, context);
                }
            }
        }
    }

    fn current(&self) -> Option<&BlockerRow> {
        let index = *self.visible.get(self.list.cursor)?;
        self.feed.rows.get(index)
    }
}

impl Pane for BlockersPane {
    fn scope(&self) -> Scope {
        Scope::Blockers
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("in the way of {}", self.subject)
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
        self.source.is_some() && self.feed.is_waiting()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![
            Column::flex("WHAT", 4),
            Column::fixed("SINCE (UTC)", 11).from(60),
            Column::flex("HOLDS", 2).from(110),
            Column::fixed("SITE", 18).from(130),
        ]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let held = self.visible.get(row).map(|i| &self.feed.rows[*i]);
        held.map_or_else(Vec::new, |held| {
            vec![
                Cell::new(held.text.clone(), Tone::Warn),
                Cell::dim(look.maybe_time(held.since)),
                Cell::plain(held.resource.clone()),
                Cell::dim(held.site.clone()),
            ]
        })
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        look.errors(&self.feed.error)
    }
    fn detail(&self, _look: &RenderContext) -> Vec<Cell> {
        self.current().map_or_else(Vec::new, |held| {
            vec![
                Cell::plain(held.text.clone()),
                Cell::dim(format!("id {} at {}", held.id, held.site)),
                Cell::plain(held.advice.clone()),
            ]
        })
    }
    fn detail_rows(&self) -> u16 {
        5
    }
    fn load(&self) -> Load {
        self.feed.load()
    }
    fn noun(&self) -> Cow<'static, str> {
        "blocker".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Asking for the blockers…")]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("No blocker was known then.")];
        }
        vec![
            Cell::plain("No blocker is known."),
            Cell::dim("If it still does not go, its own error says why: enter on the step."),
        ]
    }
    fn filter_changed(&mut self) {
        self.visible = (0..self.feed.rows.len())
            .filter(|i| {
                let held = &self.feed.rows[*i];
                let texts = [held.text.as_str(), &held.id, &held.resource];
                self.list.filter.fits_texts(&texts)
            })
            .collect();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.feed.invalidate();
        self.ask(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            self.feed.invalidate();
        }
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let feed = &mut self.feed;
        let received = match &self.source {
            Some(Source::Step(_)) => feed
                .receive::<query::Step>(arrived, context, |step| whole(BlockerRow::of_step(&step))),
            Some(Source::Deletion(_)) => {
                feed.receive::<query::Deletion>(arrived, context, |deletion| {
                    whole(BlockerRow::of_refusals(&deletion.refused))
                })
            }
            None => None,
        };
        if received.is_none() {
            return false;
        }
        self.filter_changed();
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match (action, &self.source) {
            (Action::Copy, _) => {
                if let Some(held) = self.current() {
                    context.copy(held.id.clone());
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
            (Action::Refresh, Some(_)) => {
                self.feed.invalidate();
                self.ask(context);
            }
            _ => {}
        }
    }
}
