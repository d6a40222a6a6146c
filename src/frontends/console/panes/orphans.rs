//! `:orphans`, the resources that abandoned steps left behind, and whether each still exists.

use super::kit::*;
use crate::domain::model::{Orphan, Presence, StepState, short_id};
use crate::present::{kind_words, name_or_id, resource_words};

struct OrphansPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    Ok(listed(OrphansPane, Feed::paged(query::Orphans::default())))
}

impl Row for Orphan {
    fn key(&self) -> String {
        self.step_id.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let key = &self.resource.key;
        filter.fits(&Facts {
            texts: &[&self.resource.name, &key.id, &self.why],
            state: self.there.as_str(),
            kind: key.kind.as_str(),
            site: &key.site.to_string(),
            project: &self.project_id,
            since: Some(self.since),
        })
    }
}

fn presence(there: Presence, look: &RenderContext) -> Cell {
    match there {
        Presence::Present => Cell::new(format!("{} there", look.pick("▲", "!")), Tone::Warn),
        Presence::Absent => look.good("gone"),
        Presence::Unclear => look.like(StepState::Waiting, "unclear"),
    }
}

impl ListPane for OrphansPane {
    type Row = Orphan;
    const SCOPE: Scope = Scope::Orphans;
    const NOUN: &'static str = "orphan";
    const REFRESH: Refresh = Refresh::Demand;
    const LOADING: &'static str = "Asking the clouds for the abandoned resources…";
    const NOTHING: &'static [&'static str] = &[
        "Nothing was abandoned.",
        "{ladder} on a stuck step shows the ladder; its last rung abandons the step, and what is left behind \
         is listed here.",
    ];
    const NOTHING_THEN: &'static str = "Nothing had been abandoned by then.";

    fn table(&self, _rows: &Rows<Orphan>, _look: &RenderContext) -> Table<'_, Orphan> {
        columns! { row: Orphan, look;
            fixed("THERE", 10) => presence(row.there, look),
            fixed("KIND", 14).from(60) => Cell::plain(kind_words(&row.resource.key.kind)),
            flex("NAME", 2) => Cell::plain(name_or_id(&row.resource.name, &row.resource.key.id)),
            flex("SITE", 2).from(70) => Cell::plain(row.resource.key.site.to_string()),
            fixed("SINCE (UTC)", 11).from(100) => Cell::dim(look.time(row.since)); time_key(row.since),
            fixed("DELETION", 8).from(60) => Cell::dim(short_id(&row.deletion_id)),
            flex("WHY", 3).from(90) => Cell::plain(&row.why),
        }
    }
    fn details(&self, row: &Orphan, look: &RenderContext) -> Vec<Cell> {
        let facts = [
            row.resource.key.to_string(),
            format!("abandoned {}", look.time(row.since)),
            format!("project {}", row.project_id),
        ];
        let facts = Cell::plain(facts.join(look.dot()));
        let why = non_empty(&row.why).map(Cell::dim);
        [facts].into_iter().chain(why).collect()
    }
    fn copies(&self, _: &Rows<Orphan>, row: &Orphan) -> Vec<Copied> {
        vec![Copied::id(&row.resource.key.id)]
    }
    fn act(&mut self, row: &Orphan, action: Action, context: &mut Context) {
        let key = &row.resource.key;
        let words = resource_words(&key.kind, &row.resource.name, &key.id);
        match action {
            Action::Open => context.push(Route::InspectStep(row.step_id, row.deletion_id.clone())),
            Action::Explain => context.push(Route::Explain(key.clone(), words)),
            _ => _ = act(&PurgeScope::Step(row.step_id), words, action, context),
        }
    }
}
