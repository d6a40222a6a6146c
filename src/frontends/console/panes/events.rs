//! The events, the newest last, and every message that this console showed, so that none is lost.

use crate::frontends::console::about::datum;
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::panes::emptiness::Load;
use crate::present::event_word;
use chrono::{DateTime, Utc};
use std::borrow::Cow;

use crate::control::query;
use crate::domain::model::{Event as LedgerEvent, EventKind, short_id};

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::super::notice::Notice;
use super::{Column, Context, Pane, Table, show};

/// Maximum number of entries; older events are in the ledger, and a person scrolls no further.
const KEPT_MAX: usize = 2_000;
/// Number of events that a replay shows, as many as the engine returns at once.
const REPLAYED_MAX: i64 = 500;

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

pub(crate) struct EventsPane {
    list: List,
    entries: Vec<Entry>,
    visible: Vec<usize>,
    /// Ticket of the query for the last events, in a replay.
    asked: Option<u64>,
    load: Load,
}

impl EventsPane {
    pub(crate) fn new<'a>(notices: impl Iterator<Item = &'a Notice>) -> Self {
        let mut pane = Self {
            list: List::default(),
            entries: notices.map(Entry::of_notice).collect(),
            visible: Vec::new(),
            asked: None,
            load: Load::Asking,
        };
        pane.refilter();
        pane
    }

    /// Replaces the events by those of another time of the replay.
    fn replay(&mut self, events: &[LedgerEvent]) {
        let current = self.visible.get(self.list.cursor);
        let held = current.map(|i| self.entries[*i].seq);
        let at_end = self.list.cursor + 1 >= self.visible.len();
        self.entries.retain(|entry| entry.seq == 0);
        self.followed(events);
        let mut visible = self.visible.iter();
        let found = visible.position(|i| Some(self.entries[*i].seq) == held);
        let last = self.visible.len().saturating_sub(1);
        self.list.cursor = found.filter(|_| !at_end).unwrap_or(last);
    }

    fn refilter(&mut self) {
        let at_end = self.list.cursor + 1 >= self.visible.len();
        self.visible = (0..self.entries.len())
            .filter(|i| {
                let entry = &self.entries[*i];
                let texts = [entry.message.as_str(), entry.word, &entry.deletion];
                self.list.filter.fits_texts(&texts)
            })
            .collect();
        if at_end {
            self.list.cursor = self.visible.len().saturating_sub(1);
        }
    }
}

impl Entry {
    fn table() -> Table<Self> {
        Table(vec![
            show(Column::fixed("TIME (UTC)", 11), |it, look| {
                Cell::dim(look.time(it.at))
            }),
            show(Column::fixed("EVENT", 10), |it, _| {
                Cell::new(it.word, it.tone)
            }),
            show(Column::fixed("DELETION", 8).from(60), |it, _| {
                Cell::dim(short_id(&it.deletion))
            }),
            show(Column::flex("MESSAGE", 1), |it, _| {
                Cell::new(it.message.clone(), it.tone)
            }),
        ])
    }
    fn of_notice(notice: &Notice) -> Self {
        Self {
            seq: 0,
            at: notice.at,
            word: "console",
            tone: notice.tone,
            deletion: String::new(),
            message: notice.text.clone(),
            request: String::new(),
        }
    }
    fn of_event(event: &LedgerEvent) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            word: event_word(event.kind),
            tone: match event.kind {
                EventKind::NeedsPerson | EventKind::DeletionRefused => Tone::Bad,
                EventKind::Recreated => Tone::Warn,
                EventKind::Attempt => Tone::Dim,
                _ => Tone::Plain,
            },
            deletion: event.deletion_id.clone().unwrap_or_default(),
            message: event.message.clone(),
            request: datum(event, "request_id"),
        }
    }
}

impl Pane for EventsPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn word(&self) -> Option<&str> {
        Some("events")
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("events {}", self.entries.len())
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
    fn follows(&self) -> bool {
        true
    }
    fn is_busy(&self) -> bool {
        self.asked.is_some()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        Entry::table().columns()
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let entry = self.visible.get(row).map(|i| &self.entries[*i]);
        entry.map_or_else(Vec::new, |entry| Entry::table().cells(entry, look))
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let entry = self.visible.get(self.list.cursor);
        entry.map_or_else(Vec::new, |i| {
            let entry = &self.entries[*i];
            let mut lines = vec![Cell::plain(entry.message.clone())];
            if !entry.request.is_empty() {
                lines.push(Cell::dim(format!(
                    "request {}{}{}",
                    entry.request,
                    look.dot(),
                    entry.at.format("%Y-%m-%d %H:%M:%S UTC")
                )));
            }
            lines
        })
    }
    fn load(&self) -> Load {
        self.load
    }
    fn noun(&self) -> Cow<'static, str> {
        "event".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Reading the events…")]
    }
    fn failed(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain("The events could not be read."),
            Cell::dim(":events asks again."),
        ]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("Nothing had happened by then.")];
        }
        vec![
            Cell::plain("Nothing has happened yet."),
            Cell::dim("Deletions, attempts and this console's own messages come here."),
        ]
    }
    fn filter_changed(&mut self) {
        self.refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        if context.replays {
            self.asked = Some(context.ask(query::Timeline {
                after: (context.snapshot.last_event - REPLAYED_MAX).max(0),
                ..query::Timeline::default()
            }));
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        match arrived.take::<query::Timeline>(&mut self.asked) {
            None => return false,
            Some(Ok(rows)) => self.replay(&rows),
            Some(Err(error)) => {
                self.lost();
                context.say(Tone::Bad, error.to_string());
            }
        }
        true
    }
    fn lost(&mut self) {
        self.load = match self.entries.iter().all(|entry| entry.seq == 0) {
            true => Load::Failed,
            false => Load::Answered,
        };
    }
    fn followed(&mut self, events: &[LedgerEvent]) {
        self.load = match self.entries.is_empty() && events.is_empty() {
            true => Load::Empty,
            false => Load::Answered,
        };
        self.entries.extend(events.iter().map(Entry::of_event));
        // The sort is stable: events of one moment keep their order.
        self.entries.sort_by_key(|entry| entry.at);
        let over = self.entries.len().saturating_sub(KEPT_MAX);
        self.entries.drain(..over);
        self.refilter();
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Copy
            && let Some(i) = self.visible.get(self.list.cursor)
        {
            context.copy(self.entries[*i].message.clone());
        }
    }
}
