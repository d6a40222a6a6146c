//! One step, or one deletion: the facts, and its timeline of attempts (P2).

use crate::control::{Command, query};
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, Event as LedgerEvent, EventKind, Step, short_id};
use crate::frontends::console::about::{datum, deletion_lines, step_lines};
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::route::{Route, Source};
use std::borrow::Cow;

use super::super::feed::{Feed, Fetch, PAGE_ROWS};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::emptiness::Load;
use super::{Column, Context, Pane, PaneRequest, Table, show};
use crate::present::{event_word, kind_words, name_or_id, target_words};

enum Subject {
    Step { id: i64, deletion_id: String },
    Deletion { id: String },
}

pub(crate) struct InspectPane {
    subject: Subject,
    step: Feed<Step>,
    deletion: Feed<Deletion>,
    timeline: Vec<LedgerEvent>,
    ticket: Option<u64>,
    stale: bool,
    error: Option<String>,
    loaded: bool,
    list: List,
    visible: Vec<usize>,
}

impl InspectPane {
    pub(crate) fn of_step(id: i64, deletion_id: &str) -> Self {
        Self::new(Subject::Step {
            id,
            deletion_id: deletion_id.to_owned(),
        })
    }

    pub(crate) fn of_deletion(deletion: &Deletion) -> Self {
        let mut pane = Self::new(Subject::Deletion {
            id: deletion.id.clone(),
        });
        pane.deletion.rows.push(deletion.clone());
        pane
    }

    fn new(subject: Subject) -> Self {
        Self {
            subject,
            step: Feed::new(1),
            deletion: Feed::new(1),
            timeline: Vec::new(),
            ticket: None,
            stale: true,
            error: None,
            loaded: false,
            list: List::default(),
            visible: Vec::new(),
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        let (feed_ask, timeline) = match &self.subject {
            Subject::Step { id, .. } => {
                if let Fetch::Page(_) = self.step.due(context) {
                    self.step.ask(query::Step { id: *id }, true, context);
                }
                (None, Some(*id))
            }
            Subject::Deletion { id } => {
                if let Fetch::Page(_) = self.deletion.due(context) {
                    let id = id.clone();
                    self.deletion.ask(query::Deletion { id }, true, context);
                }
                (Some(id.clone()), None)
            }
        };
        if self.stale && self.ticket.is_none() {
            self.stale = false;
            self.ticket = Some(context.ask(query::Timeline {
                deletion_id: feed_ask,
                step_id: timeline,
                after: self.timeline.last().map_or(0, |event| event.seq),
            }));
        }
    }

    fn subject_words(&self) -> String {
        match &self.subject {
            Subject::Step { .. } => self.step.rows.first().map_or_else(
                || "step".to_owned(),
                |step| {
                    let resource = &step.resource;
                    let name = name_or_id(&resource.name, &resource.key.id);
                    format!("{} {name}", kind_words(&resource.key.kind))
                },
            ),
            Subject::Deletion { .. } => self
                .deletion
                .rows
                .first()
                .map_or_else(|| "deletion".to_owned(), target_words),
        }
    }

    fn refilter(&mut self) {
        self.visible = (0..self.timeline.len())
            .filter(|i| {
                let event = &self.timeline[*i];
                let texts = [event.message.as_str(), event_word(event.kind)];
                self.list.filter.fits_texts(&texts)
            })
            .collect();
    }

    fn event(&self, row: usize) -> Option<&LedgerEvent> {
        self.timeline.get(*self.visible.get(row)?)
    }
}

fn timeline_table() -> Table<LedgerEvent> {
    Table(vec![
        show(Column::fixed("TIME (UTC)", 11), |event, look| {
            Cell::dim(look.time(event.at))
        }),
        show(Column::fixed("EVENT", 10).from(60), |event, _| {
            let tone = match event.kind {
                EventKind::NeedsPerson | EventKind::DeletionRefused => Tone::Bad,
                EventKind::Recreated => Tone::Warn,
                _ => Tone::Plain,
            };
            Cell::new(event_word(event.kind), tone)
        }),
        show(Column::fixed("ATTEMPT", 7).right(), |event, _| {
            Cell::plain(datum(event, "attempts"))
        }),
        show(Column::fixed("ANSWER", 6), |event, _| {
            Cell::plain(datum(event, "status"))
        }),
        show(Column::flex("MESSAGE", 3), |event, _| {
            Cell::plain(event.message.clone())
        }),
        show(Column::fixed("REQUEST", 40).from(120), |event, _| {
            Cell::dim(datum(event, "request_id"))
        }),
    ])
}

impl Pane for InspectPane {
    fn scope(&self) -> Scope {
        Scope::Inspect
    }
    fn title(&self, _look: &RenderContext) -> String {
        let id = match &self.subject {
            Subject::Step { deletion_id, .. } => deletion_id,
            Subject::Deletion { id } => id,
        };
        format!("{} in deletion {}", self.subject_words(), short_id(id))
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
        let feed = match self.subject {
            Subject::Step { .. } => self.step.is_waiting(),
            Subject::Deletion { .. } => self.deletion.is_waiting(),
        };
        feed || self.stale || self.ticket.is_some()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        timeline_table().columns()
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let event = self.event(row);
        event.map_or_else(Vec::new, |event| timeline_table().cells(event, look))
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut lines = match &self.subject {
            Subject::Step { .. } => self
                .step
                .rows
                .first()
                .map_or_else(Vec::new, |step| step_lines(step, look)),
            Subject::Deletion { .. } => self.deletion.rows.first().map_or_else(Vec::new, |d| {
                let mut lines = vec![look.deletion_state(d.state)];
                lines.extend(deletion_lines(d, look));
                lines
            }),
        };
        let errors = [&self.step.error, &self.deletion.error, &self.error];
        for error in errors.into_iter().flatten() {
            let text = format!("{} {error}", look.pick("✖", "x"));
            lines.push(Cell::new(text, Tone::Bad));
        }
        lines
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let Some(event) = self.event(self.list.cursor) else {
            return Vec::new();
        };
        let mut lines = vec![Cell::plain(event.message.clone())];
        let request = datum(event, "request_id");
        if !request.is_empty() {
            lines.push(Cell::dim(format!(
                "request {request}{}{}",
                look.dot(),
                event.at.format("%Y-%m-%d %H:%M:%S UTC")
            )));
        }
        lines
    }
    fn detail_rows(&self) -> u16 {
        4
    }
    fn load(&self) -> Load {
        match (self.loaded, &self.error) {
            (false, _) => Load::Asking,
            (true, Some(_)) if self.timeline.is_empty() => Load::Failed,
            (true, None) if self.timeline.is_empty() => Load::Empty,
            (true, _) => Load::Answered,
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        "event".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Reading the timeline…")]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return vec![Cell::plain("Nothing had happened to it by then.")];
        }
        vec![
            Cell::plain("Nothing has happened to it yet."),
            Cell::dim("Each attempt comes here, with its answer and request id."),
        ]
    }
    fn filter_changed(&mut self) {
        self.refilter();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        if context.replays {
            let last = context.snapshot.last_event;
            self.timeline.retain(|event| event.seq <= last);
            self.refilter();
        }
        // This pane was not woken while another was on top.
        self.stale = true;
        self.step.invalidate();
        self.deletion.invalidate();
        self.ask(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            self.stale = true;
            self.step.invalidate();
            self.deletion.invalidate();
        }
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let step = |row: Box<Step>| whole(vec![*row]);
        let deletion = |row: Box<Deletion>| whole(vec![*row]);
        if (self.step.receive::<query::Step>(arrived, context, step)).is_some()
            || (self
                .deletion
                .receive::<query::Deletion>(arrived, context, deletion))
            .is_some()
        {
            return true;
        }
        let Some(answer) = arrived.take::<query::Timeline>(&mut self.ticket) else {
            return false;
        };
        self.loaded = true;
        self.error = None;
        match answer {
            Ok(rows) => {
                let at_end = self.list.cursor + 1 >= self.visible.len();
                let last = self.timeline.last().map_or(0, |event| event.seq);
                let full = rows.len() >= PAGE_ROWS;
                self.timeline
                    .extend(rows.into_iter().filter(|event| event.seq > last));
                self.refilter();
                // A cursor on the newest event moves along with it.
                if at_end {
                    self.list.cursor = self.visible.len().saturating_sub(1);
                }
                if full {
                    self.stale = true;
                    self.ask(context);
                }
            }
            Err(error) => self.error = Some(error.to_string()),
        }
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        let (source, command, resource) = match &self.subject {
            Subject::Step { id, .. } => (
                Source::Step(*id),
                Command::RetryStep { step_id: *id },
                self.step.rows.first().map(|s| s.resource.key.id.clone()),
            ),
            Subject::Deletion { id } => (
                Source::Deletion(id.clone()),
                Command::Retry {
                    deletion_id: id.clone(),
                },
                Some(id.clone()),
            ),
        };
        match action {
            Action::Blockers => {
                let words = self.subject_words();
                context.push(Route::Blockers {
                    subject: words,
                    rows: Vec::new(),
                    source: Some(source),
                });
            }
            Action::Retry => context.requests.push(PaneRequest::Submit {
                what: format!("retry of {}", self.subject_words()),
                command,
            }),
            Action::AcceptDrift => {
                if let Some(step) = self.step.rows.first() {
                    super::drift::ask(step, context);
                }
            }
            Action::Ladder => {
                let what = match source {
                    Source::Step(id) => PurgeScope::Step(id),
                    Source::Deletion(id) => PurgeScope::Deletion(id),
                };
                context.push(Route::Ladder {
                    what,
                    words: self.subject_words(),
                });
            }
            Action::Copy => {
                if let Some(id) = resource {
                    context.copy(id);
                }
            }
            Action::Refresh => {
                self.wake(true, context);
            }
            _ => {}
        }
    }
}
