//! Why a resource does not go, or what would hold it if it were to go (P2): asked of the engine, which looks
//! at its clouds and sends no write.

use crate::control::{Explanation, SiteSpec, TargetSpec, query};
use crate::domain::model::{Blocker, ResourceKey, Site};
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::panes::emptiness::Load;
use std::borrow::Cow;

use super::super::feed::{Feed, Fetch};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::{Column, Context, Pane};
use crate::present::blocker_words;

/// One finding.
struct Line {
    text: String,
    tone: Tone,
    /// What `copy` takes of it.
    copied: String,
}

pub(crate) struct ExplainPane {
    key: ResourceKey,
    subject: String,
    list: List,
    feed: Feed<Line>,
    visible: Vec<usize>,
    next_action: String,
}

impl ExplainPane {
    pub(crate) fn new(key: ResourceKey, subject: String) -> Self {
        Self {
            key,
            subject,
            list: List::default(),
            feed: Feed::new(1),
            visible: Vec::new(),
            next_action: String::new(),
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if let Fetch::Page(_) = self.feed.due(context) {
            let target = TargetSpec {
                kind: self.key.kind.as_str().to_owned(),
                id_or_name: self.key.id.clone(),
                site: SiteSpec::Region(self.key.site.clone()),
            };
            self.feed.ask(query::Explain { target }, true, context);
        }
    }

    fn current(&self) -> Option<&Line> {
        self.feed.rows.get(*self.visible.get(self.list.cursor)?)
    }
}

/// What it is, what holds it, and what would hold it.
fn lines(explanation: &Explanation) -> Vec<Line> {
    let said = explanation.lines.iter().map(|text| Line {
        text: text.clone(),
        tone: Tone::Plain,
        copied: text.clone(),
    });
    let blockers = explanation.blockers.iter().map(|blocker| Line {
        text: held_words(blocker),
        tone: Tone::Warn,
        copied: blocker.id.clone(),
    });
    let refused = explanation.refused.iter().map(|refusal| Line {
        text: refusal.reason.clone(),
        tone: Tone::Warn,
        copied: refusal.resource.key.id.clone(),
    });
    said.chain(blockers).chain(refused).collect()
}

fn held_words(blocker: &Blocker) -> String {
    let words = blocker_words(blocker);
    match &blocker.site {
        site @ Site::Region { .. } => format!("blocked by {words} at {site}"),
        // The words name it.
        Site::Deployment { .. } => format!("blocked by {words}"),
    }
}

impl Pane for ExplainPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("why {}", self.subject)
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
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![Column::flex("WHAT IS KNOWN", 1)]
    }
    fn cells(&self, row: usize, _look: &RenderContext) -> Vec<Cell> {
        let line = self.visible.get(row).map(|at| &self.feed.rows[*at]);
        line.map_or_else(Vec::new, |line| {
            vec![Cell::new(line.text.clone(), line.tone)]
        })
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut lines = look.errors(&self.feed.error);
        if !self.next_action.is_empty() {
            lines.push(Cell::new(self.next_action.clone(), Tone::Strong));
        }
        lines
    }
    fn detail(&self, _look: &RenderContext) -> Vec<Cell> {
        // The row may have cut it.
        let line = self.current().map(|line| Cell::plain(line.text.clone()));
        let id = Cell::dim(format!("id {} at {}", self.key.id, self.key.site));
        line.into_iter().chain([id]).collect()
    }
    fn detail_rows(&self) -> u16 {
        4
    }
    fn load(&self) -> Load {
        self.feed.load()
    }
    fn noun(&self) -> Cow<'static, str> {
        "line".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Reading it, and what refers to it…")]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain(match look.replays {
            true => "No deletion had it as a step by then.",
            false => "Nothing blocks it, and it is in no deletion.",
        })]
    }
    fn filter_changed(&mut self) {
        let fits = |at: &usize| self.list.filter.fits_texts(&[&self.feed.rows[*at].text]);
        self.visible = (0..self.feed.rows.len()).filter(fits).collect();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        if context.replays {
            self.feed.invalidate();
        }
        if !self.feed.loaded || context.replays {
            self.ask(context);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let next_action = &mut self.next_action;
        let received = self
            .feed
            .receive::<query::Explain>(arrived, context, |explanation| {
                next_action.clone_from(&explanation.next_action);
                whole(lines(&explanation))
            });
        if received.is_none() {
            return false;
        }
        self.filter_changed();
        true
    }
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        self.ask(context);
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match action {
            // It reads the cloud: only when asked.
            Action::Refresh => {
                self.feed.invalidate();
                self.ask(context);
            }
            Action::Copy => {
                if let Some(line) = self.current() {
                    context.copy(line.copied.clone());
                }
            }
            _ => {}
        }
    }
}
