//! Explains why a resource is not deleted, or what would block its deletion (P2), and how it is related to others. Each
//! relation leads to the resource or the deletion at its other end. The engine reads its clouds for the answer, and
//! sends no write.

use std::sync::Arc;

use super::kit::*;
use crate::control::Explanation;
use crate::domain::model::{Blocker, ResourceKey, Site, Target, short_id};
use crate::domain::relations::Relation;
use crate::present::{blocker_words, relation_words, resource_words};

/// One line of an explanation.
struct Line {
    text: String,
    tone: Tone,
    copied: String,
    /// The next action of the person, the same for all lines.
    next_action: Arc<str>,
    leads_to: Option<End>,
}

/// The other end of a relation.
#[derive(Clone)]
enum End {
    Resource(Target),
    Deletion(String),
}

impl End {
    fn of(relation: &Relation) -> Option<Self> {
        let deletion = relation.deletion_id.clone().map(Self::Deletion);
        deletion.or(relation.resource.clone().map(Self::Resource))
    }

    fn of_blocker(blocker: &Blocker) -> Option<Self> {
        // This engine does not know the resources of other deployments.
        let is_known = matches!(blocker.site, Site::Region { .. });
        is_known.then(|| Self::Resource(Target::of(&blocker.key(), &blocker.name)))
    }

    fn id(&self) -> &str {
        match self {
            Self::Resource(target) => &target.key.id,
            Self::Deletion(id) => id,
        }
    }
}

impl Row for Line {
    fn key(&self) -> String {
        let id = self.leads_to.as_ref().map_or("", End::id);
        format!("{} {id}", self.text)
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str(), &self.copied])
    }
}

struct ExplainPane {
    key: ResourceKey,
    words: String,
}

pub(super) fn of(key: ResourceKey, words: String) -> Box<dyn Pane> {
    let target = target_spec(&key);
    let feed = Feed::reading(query::Explain { target }, |it| lines(&it));
    listed(ExplainPane { key, words }, feed)
}

/// Lists the findings about the resource, its blockers, the reasons to refuse its deletion, and its relations to other
/// resources.
fn lines(explanation: &Explanation) -> Vec<Line> {
    let next_action: Arc<str> = explanation.next_action.as_str().into();
    let line = |tone, text: String, copied: &String| Line {
        text,
        tone,
        copied: copied.clone(),
        next_action: next_action.clone(),
        leads_to: None,
    };
    let known = explanation.lines.iter();
    let mut lines: Vec<Line> = known
        .map(|text| line(Tone::Plain, text.clone(), text))
        .collect();
    lines.extend(explanation.blockers.iter().map(|by| Line {
        leads_to: End::of_blocker(by),
        ..line(Tone::Warn, blocked_by_words(by), &by.id)
    }));
    lines.extend(explanation.refused.iter().map(|refusal| {
        let id = &refusal.resource.key.id;
        line(Tone::Warn, refusal.reason.clone(), id)
    }));
    lines.extend(explanation.relations.iter().map(|relation| {
        let (text, leads_to) = (relation_words(relation), End::of(relation));
        let copied = leads_to.as_ref().map_or(&*text, End::id).to_owned();
        Line {
            leads_to,
            ..line(Tone::Plain, text, &copied)
        }
    }));
    lines
}

fn blocked_by_words(blocker: &Blocker) -> String {
    let words = blocker_words(blocker);
    match &blocker.site {
        site @ Site::Region { .. } => format!("blocked by {words} at {site}"),
        // The words already name the deployment.
        Site::Deployment { .. } => format!("blocked by {words}"),
    }
}

impl ListPane for ExplainPane {
    type Row = Line;
    const SCOPE: Scope = Scope::Relations;
    const NOUN: &'static str = "line";
    // Each answer reads the clouds.
    const REFRESH: Refresh = Refresh::Demand;
    const DETAIL_ROWS: u16 = 4;
    const LOADING: &'static str = "Reading the resource, and the resources that refer to it…";
    const NOTHING: &'static [&'static str] =
        &["Nothing blocks the resource, and it is in no deletion."];
    const NOTHING_THEN: &'static str = "No deletion had the resource as a step by then.";

    fn heading(&self, _rows: &Rows<Line>, _look: &RenderContext) -> String {
        format!("why {}", self.words)
    }
    fn table(&self, _rows: &Rows<Line>, _look: &RenderContext) -> Table<'_, Line> {
        columns! { line: Line, look;
            flex("WHAT IS KNOWN", 1) => Cell::new(&line.text, line.tone),
            fixed("LEADS TO", 8).from(60) => match &line.leads_to {
                Some(end) => Cell::dim(short_id(end.id())),
                None => Cell::default(),
            },
        }
    }
    fn lead(&self, rows: &Rows<Line>, _look: &RenderContext) -> Vec<Cell> {
        let next = rows.all().next().map_or("", |line| &line.next_action);
        let next = non_empty(next).into_iter();
        next.map(|next| Cell::new(next, Tone::Strong)).collect()
    }
    fn details(&self, line: &Line, look: &RenderContext) -> Vec<Cell> {
        let about = match &line.leads_to {
            None => format!("id {} at {}", self.key.id, self.key.site),
            Some(End::Resource(Target { key, .. })) => {
                format!("{} leads to {key}", look.keys.key(Action::Open))
            }
            Some(End::Deletion(_)) => look.keys.spell("{open} shows the tree of the deletion"),
        };
        // The row may have cut the text.
        vec![Cell::plain(&line.text), Cell::dim(about)]
    }
    fn copies(&self, _: &Rows<Line>, line: &Line) -> Vec<Copied> {
        let is_line = line.copied == line.text;
        let what = if is_line { "the line" } else { "the id" };
        vec![Copied::new(what, &line.copied)]
    }
    fn act(&mut self, line: &Line, action: Action, context: &mut Context) {
        match (action, &line.leads_to) {
            (Action::Open, Some(End::Resource(Target { key, name }))) => {
                let words = resource_words(&key.kind, name, &key.id);
                context.push(Route::Explain(key.clone(), words));
            }
            (Action::Open, Some(End::Deletion(id))) => context.push(Route::Tree(id.clone())),
            (Action::Open, None) => context.say(Tone::Dim, "this line leads to no resource"),
            _ => {}
        }
    }
}
