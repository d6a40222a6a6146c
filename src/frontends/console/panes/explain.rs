//! Explains why a resource is not deleted, or what would block its deletion (P2). The engine reads its clouds
//! for the answer, and sends no write.

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, whole};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};
use crate::control::{Explanation, SiteSpec, TargetSpec, query};
use crate::domain::filter::SearchQuery;
use crate::domain::model::{Blocker, ResourceKey, Site};
use crate::present::blocker_words;

/// One line of an explanation.
pub(crate) struct Line {
    text: String,
    tone: Tone,
    /// The text that `copy` copies.
    copied: String,
}

impl Row for Line {
    type Key = String;

    fn key(&self) -> String {
        self.text.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str()])
    }
}

pub(crate) struct ExplainPane {
    key: ResourceKey,
    subject: String,
    rows: Rows<Line>,
    next_action: String,
}

impl ExplainPane {
    pub(crate) fn new(key: ResourceKey, subject: String) -> Self {
        Self {
            key,
            subject,
            rows: Rows::new(),
            next_action: String::new(),
        }
    }
}

/// Lists what is known of the resource, its blockers, and what would refuse its deletion.
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
        // The words already name the deployment.
        Site::Deployment { .. } => format!("blocked by {words}"),
    }
}

impl ListPane for ExplainPane {
    type Row = Line;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "line";
    // Each answer reads the clouds.
    const REFRESH: Refresh = Refresh::Demand;
    const DETAIL_ROWS: u16 = 4;
    const LOADING: &'static str = "Reading it, and what refers to it…";

    fn rows(&self) -> &Rows<Line> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<Line> {
        &mut self.rows
    }
    fn heading(&self) -> String {
        format!("why {}", self.subject)
    }
    fn request(&mut self, _cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        let target = TargetSpec {
            kind: self.key.kind.as_str().to_owned(),
            id_or_name: self.key.id.clone(),
            site: SiteSpec::Region(self.key.site.clone()),
        };
        Some(context.ask(query::Explain { target }))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let next_action = &mut self.next_action;
        let feed = &mut self.rows.feed;
        feed.receive::<query::Explain>(arrived, context, |explanation| {
            next_action.clone_from(&explanation.next_action);
            whole(lines(&explanation))
        })
    }
    fn table(&self, _look: &RenderContext) -> Table<Self::Row> {
        Table(vec![show(Column::flex("WHAT IS KNOWN", 1), |line, _| {
            Cell::new(line.text.clone(), line.tone)
        })])
    }
    fn lead(&self, _look: &RenderContext) -> Vec<Cell> {
        match self.next_action.as_str() {
            "" => Vec::new(),
            next => vec![Cell::new(next, Tone::Strong)],
        }
    }
    fn details(&self, line: &Line, _look: &RenderContext) -> Vec<Cell> {
        // The row may have cut the text.
        vec![
            Cell::plain(line.text.clone()),
            Cell::dim(format!("id {} at {}", self.key.id, self.key.site)),
        ]
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain(match look.replays {
            true => "No deletion had it as a step by then.",
            false => "Nothing blocks it, and it is in no deletion.",
        })]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some(line)) = (action, self.rows.current()) {
            context.copy(line.copied.clone());
        }
    }
}
