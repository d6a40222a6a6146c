//! The events, the newest last, and the messages that this console showed, except for those about keys without an
//! effect.

use super::kit::*;
use crate::domain::model::{Event as LedgerEvent, EventKind, short_id};
use crate::frontends::console::about::{datum, event_tone, message_lines};
use crate::frontends::console::render_context::ConsoleMessage;
use crate::present::event_word;

/// Maximum number of entries, more than a person scrolls through; the ledger has the older events.
const KEPT_MAX: usize = 2_000;
/// Number of events that a replay shows, as many as the engine returns at once.
const REPLAYED_MAX: i64 = 500;

#[derive(Clone)]
struct Entry {
    /// Sequence number of the event; 0 for a message of this console.
    seq: i64,
    at: DateTime<Utc>,
    word: &'static str,
    tone: Tone,
    deletion: String,
    message: String,
    request: String,
}

struct EventsPane;

/// Opens the pane. It follows the events; in a replay, which has an end, it queries them.
pub(super) fn open(around: &Around<'_>) -> Opened {
    let messages: Vec<Entry> = around.messages.iter().map(Entry::of_message).collect();
    if !around.replays {
        let mut feed = Feed::silent();
        feed.rows = messages;
        return Ok(listed(EventsPane, feed));
    }
    let ask = |at: At<'_, Entry>| query::Timeline {
        after: (at.last_event - REPLAYED_MAX).max(0),
        ..query::Timeline::default()
    };
    let read = move |events: Vec<LedgerEvent>| {
        let events = events.iter().map(Entry::of_event);
        sorted(messages.iter().cloned().chain(events).collect())
    };
    Ok(listed(EventsPane, Feed::asking(ask, read)))
}

/// Sorts the entries by time, and drops the oldest beyond [`KEPT_MAX`]. Entries of one moment keep their order.
fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| entry.at);
    let over = entries.len().saturating_sub(KEPT_MAX);
    entries.drain(..over);
    entries
}

impl Entry {
    fn of_message(message: &ConsoleMessage) -> Self {
        Self {
            seq: 0,
            at: message.at,
            word: "console",
            tone: message.tone,
            deletion: String::new(),
            message: message.text.clone(),
            request: String::new(),
        }
    }
    fn of_event(event: &LedgerEvent) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            word: event_word(event.kind),
            tone: match event.kind {
                EventKind::Attempt => Tone::Dim,
                kind => event_tone(kind),
            },
            deletion: event.deletion_id.clone().unwrap_or_default(),
            message: event.message.clone(),
            request: datum(event, "request_id"),
        }
    }
}

impl Row for Entry {
    fn key(&self) -> String {
        format!("{} {}", self.seq, self.at)
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.message.as_str(), self.word, &self.deletion])
    }
}

impl ListPane for EventsPane {
    type Row = Entry;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "event";
    const REFRESH: Refresh = Refresh::Demand;
    const DETAIL_ROWS: u16 = 2;
    const LOADING: &'static str = "Reading the events…";
    const NOTHING: &'static [&'static str] = &[
        "Nothing has happened yet.",
        "Deletions, attempts and this console's own messages are listed here.",
    ];
    const NOTHING_THEN: &'static str = "Nothing had happened by then.";
    const FAILED: &'static [&'static str] =
        &["The events could not be read.", ":events asks again."];
    const FOLLOWS_END: bool = true;
    const FOLLOWS: bool = true;

    fn freshness(&self, rows: &Rows<Entry>, now: DateTime<Utc>) -> Freshness {
        match rows.feed.pace.freshness(true, now) {
            // Events come without a query.
            Freshness::Fixed => Freshness::Live,
            other => other,
        }
    }
    fn table(&self, _rows: &Rows<Entry>, _look: &RenderContext) -> Table<'_, Entry> {
        columns! { it: Entry, look;
            fixed("TIME (UTC)", 11) => Cell::dim(look.time(it.at)),
            fixed("EVENT", 10) => Cell::new(it.word, it.tone),
            fixed("DELETION", 8).from(60) => Cell::dim(short_id(&it.deletion)),
            flex("MESSAGE", 1) => Cell::new(&it.message, it.tone),
        }
    }
    fn details(&self, entry: &Entry, look: &RenderContext) -> Vec<Cell> {
        message_lines(&entry.message, &entry.request, entry.at, look)
    }
    fn load(&self, rows: &Rows<Entry>) -> Load {
        let has_events = rows.all().any(|entry| entry.seq != 0);
        match rows.feed.pace.errors.is_empty() || has_events {
            true => rows.feed.load(),
            // Messages of this console say nothing about the events.
            false => Load::Failed,
        }
    }
    fn copies(&self, _: &Rows<Entry>, entry: &Entry) -> Vec<Copied> {
        vec![
            Copied::new("the message", &entry.message),
            Copied::event(&entry.message, &entry.request, entry.at),
        ]
    }
    fn followed(&mut self, rows: &mut Rows<Entry>, events: &[LedgerEvent]) {
        let mut entries = std::mem::take(&mut rows.feed.rows);
        entries.extend(events.iter().map(Entry::of_event));
        rows.feed.replace_rows(sorted(entries));
    }
}
