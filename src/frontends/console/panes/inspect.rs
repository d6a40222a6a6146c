//! One step, or one deletion: the facts, and its timeline of attempts (P2).

use super::Record;
use super::kit::acts::{act, act_on_step, step_copies, step_words};
use super::kit::*;
use crate::control::query;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, Event as LedgerEvent, Step, short_id};
use crate::frontends::console::about::{
    datum, deletion_lines, event_tone, message_lines, step_lines,
};
use crate::present::{event_word, target_words};

struct InspectPane {
    of: PurgeScope,
    deletion_id: String,
    /// The step, or nothing if the pane is about a deletion.
    step: Feed<Step>,
    /// The deletion, or nothing if the pane is about a step.
    deletion: Feed<Deletion>,
}

pub(super) fn of_step(id: i64, deletion_id: String) -> Box<dyn Pane> {
    let timeline = Feed::of(move |at| query::Timeline {
        step_id: Some(id),
        ..after(at.known)
    });
    let pane = InspectPane {
        of: PurgeScope::Step(id),
        deletion_id,
        step: Feed::of(move |_| query::Step { id }),
        deletion: Feed::silent(),
    };
    listed(pane, Rows::new(timeline.continued()))
}

pub(super) fn of_deletion(deletion: Deletion) -> Box<dyn Pane> {
    let (id, deletion_id) = (deletion.id.clone(), deletion.id.clone());
    let timeline = Feed::of(move |at| query::Timeline {
        deletion_id: Some(deletion_id.clone()),
        ..after(at.known)
    });
    let mut pane = InspectPane {
        of: PurgeScope::Deletion(id.clone()),
        deletion_id: id.clone(),
        step: Feed::silent(),
        deletion: Feed::of(move |_| query::Deletion { id: id.clone() }),
    };
    pane.deletion.rows.push(deletion);
    listed(pane, Rows::new(timeline.continued()))
}

fn after(known: &[LedgerEvent]) -> query::Timeline {
    query::Timeline {
        after: known.last().map_or(0, |event| event.seq),
        ..query::Timeline::default()
    }
}

impl InspectPane {
    fn words(&self) -> String {
        match (self.step.rows.first(), self.deletion.rows.first()) {
            (Some(step), _) => step_words(step),
            (None, Some(deletion)) => target_words(deletion),
            (None, None) => "step".to_owned(),
        }
    }

    /// The texts of the step or the deletion that can be copied.
    fn own_copies(&self) -> Vec<Copied> {
        match (&self.of, self.step.rows.first()) {
            (PurgeScope::Deletion(id), _) => vec![Copied::id(id)],
            (PurgeScope::Step(_), Some(step)) => step_copies(step),
            (PurgeScope::Step(_), None) => Vec::new(),
        }
    }
}

impl Row for LedgerEvent {
    fn key(&self) -> String {
        self.seq.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.message.as_str(), event_word(self.kind)])
    }
}

impl ListPane for InspectPane {
    type Row = LedgerEvent;
    const SCOPE: Scope = Scope::Inspect;
    const NOUN: &'static str = "event";
    const REFRESH: Refresh = Refresh::EachMove;
    const DETAIL_ROWS: u16 = 4;
    const LOADING: &'static str = "Reading the timeline…";
    const NOTHING: &'static [&'static str] = &[
        "Nothing has happened to it yet.",
        "Each attempt is listed here, with its answer and request id.",
    ];
    const NOTHING_THEN: &'static str = "Nothing had happened to it by then.";
    const FOLLOWS_END: bool = true;

    fn heading(&self, _rows: &Rows<LedgerEvent>, _look: &RenderContext) -> String {
        let id = short_id(&self.deletion_id);
        format!("{} in deletion {id}", self.words())
    }
    fn table(&self, _rows: &Rows<LedgerEvent>, _look: &RenderContext) -> Table<'_, LedgerEvent> {
        columns! { event: LedgerEvent, look;
            fixed("TIME (UTC)", 11) => Cell::dim(look.time(event.at)),
            fixed("EVENT", 10).from(60) => Cell::new(event_word(event.kind), event_tone(event.kind)),
            fixed("ATTEMPT", 7).right() => Cell::plain(datum(event, "attempts")),
            fixed("ANSWER", 6) => Cell::plain(datum(event, "status")),
            flex("MESSAGE", 3) => Cell::plain(&event.message),
            fixed("REQUEST", 40).from(120) => Cell::dim(datum(event, "request_id")),
        }
    }
    fn lead(&self, _rows: &Rows<LedgerEvent>, look: &RenderContext) -> Vec<Cell> {
        let step = self.step.rows.first().map(|step| step_lines(step, look));
        let deletion = self.deletion.rows.first().map(|deletion| {
            let mut lines = vec![look.deletion_state(deletion)];
            lines.extend(deletion_lines(deletion, look));
            lines
        });
        step.or(deletion).unwrap_or_default()
    }
    fn details(&self, event: &LedgerEvent, look: &RenderContext) -> Vec<Cell> {
        message_lines(&event.message, &datum(event, "request_id"), event.at, look)
    }
    others! { step, deletion }
    fn opened(&mut self, rows: &mut Rows<LedgerEvent>, context: &Context) {
        if context.replays {
            let last = context.snapshot.last_event;
            rows.feed.rows.retain(|event| event.seq <= last);
        }
    }
    fn copies(&self, _: &Rows<LedgerEvent>, event: &LedgerEvent) -> Vec<Copied> {
        let mut texts = self.own_copies();
        let request = datum(event, "request_id");
        texts.push(Copied::event(&event.message, &request, event.at));
        texts
    }
    fn act_on(
        &mut self,
        rows: &mut Rows<LedgerEvent>,
        action: Action,
        context: &mut Context,
    ) -> bool {
        match (action, &self.of, self.step.rows.first()) {
            // Before anything has happened there is no row, but the id can be copied.
            (Action::Copy, ..) if rows.len() == 0 => {
                let texts = self.own_copies();
                rows.list.copy(String::new(), texts, context);
            }
            (Action::Report, ..) => {
                let id = self.deletion_id.clone();
                context.requests.push(PaneRequest::Report(id));
            }
            (Action::Yaml, PurgeScope::Deletion(id), _) => {
                context.push(Route::Yaml(Record::Deletion(id.clone()), self.words()));
            }
            (Action::AcceptDrift | Action::RefuseDrift | Action::Yaml, _, Some(step)) => {
                act_on_step(step, action, context);
            }
            (action, of, _) => return act(of, self.words(), action, context),
        }
        true
    }
}
