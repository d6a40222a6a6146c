//! What stands in the way of one resource, and whose it is (P2).

use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::panes::emptiness::Load;
use chrono::{DateTime, Utc};
use std::borrow::Cow;

use crate::control::{Command, query};
use crate::domain::awaiting;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Blocker, Refusal, Step};

use super::super::feed::{Feed, Fetch};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone, blocker_words, kind_words, name_or_id};
use super::ladder::LadderPane;
use super::plan::rule_words;
use super::{Column, Context, Pane, PaneRequest};

/// One thing in the way.
#[derive(Clone, Debug)]
pub(crate) struct BlockerRow {
    /// `blocked by floating IP 203.0.113.9 (project demo, not in this plan)`
    text: String,
    /// What it holds.
    resource: String,
    /// Of the blocker; of the resource itself, where a rule holds it.
    id: String,
    site: String,
    since: Option<DateTime<Utc>>,
    advice: String,
}

impl BlockerRow {
    pub(crate) fn of_refusals(refused: &[Refusal]) -> Vec<Self> {
        refused
            .iter()
            .map(|refusal| {
                let resource = &refusal.resource;
                let name = name_or_id(&resource.name, &resource.key.id);
                let resource_words = format!("{} {name}", kind_words(&resource.key.kind));
                match &refusal.blocker {
                    Some(blocker) => Self::new(blocker, resource_words, refusal.reason.clone()),
                    None => Self {
                        text: format!("{resource_words} is {}", rule_words(refusal.rule)),
                        resource: resource_words,
                        id: resource.key.id.clone(),
                        site: resource.key.site.to_string(),
                        since: None,
                        advice: refusal.reason.clone(),
                    },
                }
            })
            .collect()
    }

    pub(crate) fn of_step(step: &Step) -> Vec<Self> {
        let resource = &step.resource;
        let name = name_or_id(&resource.name, &resource.key.id);
        let words = format!("{} {name}", kind_words(&resource.key.kind));
        let blockers = step.blockers.iter();
        let elsewhere = awaiting::next_action(step);
        blockers
            .map(|blocker| {
                let advice = if let Some(advice) = &elsewhere {
                    advice
                } else if blocker.in_plan {
                    "This deletion removes it too; wait for it."
                } else {
                    "This deletion leaves it alone: its owner has to free it. Then try again."
                };
                Self::new(blocker, words.clone(), advice.to_owned())
            })
            .collect()
    }

    fn new(blocker: &Blocker, resource: String, advice: String) -> Self {
        Self {
            text: format!("blocked by {}", blocker_words(blocker)),
            resource,
            id: blocker.id.clone(),
            site: blocker.site.to_string(),
            since: blocker.since,
            advice,
        }
    }
}

/// Whose blockers they are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Step(i64),
    Deletion(String),
}

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
    fn strip_rows(&self) -> u16 {
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
                context.push(LadderPane::new(what, self.subject.clone()));
            }
            (Action::Refresh, Some(_)) => {
                self.feed.invalidate();
                self.ask(context);
            }
            _ => {}
        }
    }
}
