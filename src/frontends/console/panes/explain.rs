//! Explains why a resource is not deleted, or what would block its deletion (P2). The engine reads its clouds
//! for the answer, and sends no write.

use std::sync::Arc;

use super::kit::acts::target_spec;
use super::kit::*;
use crate::control::{Explanation, query};
use crate::domain::model::{Blocker, ResourceKey, Site};
use crate::present::blocker_words;

/// One line of an explanation.
struct Line {
    text: String,
    tone: Tone,
    /// The text that `copy` copies.
    copied: String,
    /// What the person can do, the same for all lines.
    next_action: Arc<str>,
}

impl Row for Line {
    fn key(&self) -> String {
        self.text.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str()])
    }
}

struct ExplainPane {
    key: ResourceKey,
    words: String,
}

pub(super) fn of(key: ResourceKey, words: String) -> Box<dyn Pane> {
    let target = target_spec(&key);
    let ask = move |_: At<'_, _>| query::Explain {
        target: target.clone(),
    };
    let feed = Feed::reading(ask, |explanation| Batch::from(lines(&explanation)));
    listed(ExplainPane { key, words }, Rows::new(feed))
}

/// Lists what is known of the resource, its blockers, and what would refuse its deletion.
fn lines(explanation: &Explanation) -> Vec<Line> {
    let next_action: Arc<str> = explanation.next_action.as_str().into();
    let line = |tone, text: String, copied: &String| Line {
        text,
        tone,
        copied: copied.clone(),
        next_action: next_action.clone(),
    };
    let known = explanation.lines.iter();
    let known = known.map(|text| line(Tone::Plain, text.clone(), text));
    let blockers = explanation.blockers.iter();
    let blockers = blockers.map(|by| line(Tone::Warn, held_words(by), &by.id));
    let refused = explanation.refused.iter();
    let refused = refused.map(|refusal| {
        let id = &refusal.resource.key.id;
        line(Tone::Warn, refusal.reason.clone(), id)
    });
    known.chain(blockers).chain(refused).collect()
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
    const NOTHING: &'static [&'static str] = &["Nothing blocks it, and it is in no deletion."];
    const NOTHING_THEN: &'static str = "No deletion had it as a step by then.";

    fn heading(&self, _rows: &Rows<Line>, _look: &RenderContext) -> String {
        format!("why {}", self.words)
    }
    fn table(&self, _rows: &Rows<Line>, _look: &RenderContext) -> Table<'_, Line> {
        columns! { line: Line, look;
            flex("WHAT IS KNOWN", 1) => Cell::new(&line.text, line.tone),
        }
    }
    fn lead(&self, rows: &Rows<Line>, _look: &RenderContext) -> Vec<Cell> {
        let next = rows.all().next().map_or("", |line| &line.next_action);
        let next = Some(next).filter(|next| !next.is_empty()).into_iter();
        next.map(|next| Cell::new(next, Tone::Strong)).collect()
    }
    fn details(&self, line: &Line, _look: &RenderContext) -> Vec<Cell> {
        // The row may have cut the text.
        vec![
            Cell::plain(&line.text),
            Cell::dim(format!("id {} at {}", self.key.id, self.key.site)),
        ]
    }
    fn copied(&self, line: &Line) -> String {
        line.copied.clone()
    }
}
