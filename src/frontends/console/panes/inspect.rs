//! One step, or one deletion: the facts, and its timeline of attempts (P2).

use super::kit::*;
use crate::domain::model::{Deletion, Event as LedgerEvent, Step, short_id};
use crate::frontends::console::about::{datum, event_tone, message_lines};
use crate::present::event_word;

struct InspectPane {
    of: PurgeScope,
    deletion_id: String,
    /// The step, or nothing if the pane is about a deletion.
    step: Feed<Step>,
    /// The deletion, or nothing if the pane is about a step.
    deletion: Feed<Deletion>,
}

pub(super) fn of_step(id: i64, deletion_id: String) -> Box<dyn Pane> {
    let pane = InspectPane {
        of: PurgeScope::Step(id),
        deletion_id,
        step: Feed::reading(query::Step { id }, |it| *it),
        deletion: Feed::silent(),
    };
    pane.listed()
}

pub(super) fn of_deletion(deletion: Deletion) -> Box<dyn Pane> {
    let id = deletion.id.clone();
    let mut pane = InspectPane {
        of: PurgeScope::Deletion(id.clone()),
        deletion_id: id.clone(),
        step: Feed::silent(),
        deletion: Feed::reading(query::Deletion { id }, |it| *it),
    };
    pane.deletion.rows.push(deletion);
    pane.listed()
}

impl InspectPane {
    /// The pane with its timeline, which later answers continue.
    fn listed(self) -> Box<dyn Pane> {
        let (step_id, deletion_id) = match &self.of {
            PurgeScope::Step(id) => (Some(*id), None),
            PurgeScope::Deletion(id) => (None, Some(id.clone())),
        };
        let ask = move |at: At<'_, LedgerEvent>| query::Timeline {
            deletion_id: deletion_id.clone(),
            step_id,
            after: at.known.last().map_or(0, |event| event.seq),
        };
        listed(self, Feed::asking(ask, |events| events).continued())
    }

    /// The step or the deletion, once it is known.
    fn item(&self) -> Option<WorkItem<'_>> {
        let step = self.step.rows.first().map(WorkItem::Step);
        step.or(self.deletion.rows.first().map(WorkItem::Deletion))
    }

    fn words(&self) -> String {
        self.item().map_or("step".to_owned(), WorkItem::words)
    }

    /// The texts of the step or the deletion that can be copied.
    fn own_copies(&self) -> Vec<Copied> {
        match &self.of {
            PurgeScope::Deletion(id) => vec![Copied::id(id)],
            PurgeScope::Step(_) => self.item().map_or_else(Vec::new, WorkItem::copies),
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
    const DETAIL_ROWS: u16 = 4;
    const LOADING: &'static str = "Reading the timeline…";
    const NOTHING: &'static [&'static str] = &[
        "No event has been recorded yet.",
        "Each attempt is listed here, with its answer and request id.",
    ];
    const NOTHING_THEN: &'static str = "No event had been recorded by then.";
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
        let state = self.deletion.rows.first().map(|it| look.deletion_state(it));
        let lines = self.item().into_iter().flat_map(|item| item.lines(look));
        state.into_iter().chain(lines).collect()
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
        match (action, self.item()) {
            // Before anything has happened there is no row, but the id can be copied.
            (Action::Copy, _) if rows.len() == 0 => {
                let texts = self.own_copies();
                rows.list.copy(String::new(), texts, context);
            }
            (Action::Report, _) => context.report(self.deletion_id.clone()),
            (Action::AcceptDrift | Action::RefuseDrift, Some(item)) => item.act(action, context),
            (action, _) => return act(&self.of, self.words(), action, context),
        }
        true
    }
}
