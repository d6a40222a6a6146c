//! The purge ladder: what can be done about stuck steps, rung by rung (P3). Enter on a rung that is offered
//! leads to a typed confirmation; nothing is sent before that.

use crate::control::{Command, ControlError, Purged, Receipt, Snapshot, query, unexpected_reply};
use crate::domain::ladder::{Ladder, Offer, PurgeScope};
use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::feed::whole;
use crate::frontends::console::panes::emptiness::Load;
use std::borrow::Cow;

use super::super::feed::{Feed, Fetch};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::super::prompt::Confirm;
use super::{Column, Context, Pane, PaneRequest};
use crate::present::purged_words;

pub(crate) struct LadderPane {
    what: PurgeScope,
    /// Describes what is purged, until the engine's answer has a better description.
    words: String,
    list: List,
    feed: Feed<Ladder>,
    visible: Vec<usize>,
    /// Ticket of the confirmed rung that is under way.
    taking: Option<u64>,
    /// The lines of the runbook; once that rung was taken, they are the rows.
    runbook: Option<Vec<String>>,
}

impl LadderPane {
    pub(crate) fn new(what: PurgeScope, words: String) -> Self {
        Self {
            what,
            words,
            list: List::default(),
            feed: Feed::new(1),
            visible: Vec::new(),
            taking: None,
            runbook: None,
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if self.runbook.is_some() || self.taking.is_some() {
            return;
        }
        if let Fetch::Page(_) = self.feed.due(context) {
            let what = self.what.clone();
            self.feed.ask(query::Ladder { what }, true, context);
        }
    }

    fn ladder(&self) -> Option<&Ladder> {
        self.feed.rows.first()
    }

    fn offer(&self, row: usize) -> Option<&Offer> {
        self.ladder()?.offers.get(*self.visible.get(row)?)
    }

    fn line(&self, row: usize) -> Option<&String> {
        self.runbook.as_ref()?.get(*self.visible.get(row)?)
    }

    fn confirm(&self, ladder: &Ladder, offer: &Offer, snapshot: &Snapshot) -> Confirm {
        let rung = offer.rung.as_str();
        let mut lines = vec![format!("{rung}: {}", ladder.subject)];
        lines.extend(offer.does.iter().cloned());
        if !offer.leaves.is_empty() {
            lines.push(format!("leaves: {}", offer.leaves));
        }
        let confirm = Confirm::new(
            format!("the short id of the deletion, {}", ladder.confirm),
            vec![ladder.confirm.clone()],
            format!("{rung} of {}", self.words),
            Command::Purge {
                what: self.what.clone(),
                rung: offer.rung,
                confirm: ladder.confirm.clone(),
            },
        );
        let confirm = confirm.saying(lines);
        confirm.at(ladder.sites.iter(), snapshot)
    }

    fn taken(
        &mut self,
        receipt: &Result<Receipt, ControlError>,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        match receipt {
            Ok(Receipt::Purged(Purged {
                runbook: Some(text),
                ..
            })) => {
                self.runbook = Some(text.lines().map(str::to_owned).collect());
                self.list = List::default();
                self.filter_changed();
            }
            Ok(Receipt::Purged(Purged {
                rung,
                moved,
                deletion_id,
                ..
            })) => {
                let unpinned_by = deletion_id.as_deref();
                let text = purged_words(*rung, *moved, unpinned_by, ":orphans");
                context.say(Tone::Good, text);
            }
            Ok(_) => return Err(unexpected_reply().to_string()),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }
}

impl Pane for LadderPane {
    fn scope(&self) -> Scope {
        Scope::Ladder
    }
    fn title(&self, _look: &RenderContext) -> String {
        let subject = self.ladder().map_or(&self.words, |ladder| &ladder.subject);
        match self.runbook {
            Some(_) => format!("runbook for {subject}"),
            None => format!("ladder of {subject}"),
        }
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
        self.taking.is_some() || (self.runbook.is_none() && self.feed.is_waiting())
    }
    fn is_modal(&self) -> bool {
        self.taking.is_some()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        if self.runbook.is_some() {
            return vec![Column::flex("BY HAND", 1)];
        }
        vec![
            Column::fixed("RUNG", 7),
            Column::fixed("OFFERED", 7),
            Column::flex("WHAT IT DOES, OR WHY NOT", 1),
        ]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        if let Some(line) = self.line(row) {
            return vec![Cell::plain(line.clone())];
        }
        let Some(offer) = self.offer(row) else {
            return Vec::new();
        };
        match &offer.why_not {
            Some(why) => vec![
                Cell::dim(offer.rung.as_str()),
                Cell::dim("no"),
                Cell::dim(why.clone()),
            ],
            None => vec![
                Cell::new(offer.rung.as_str(), Tone::Strong),
                Cell::new(format!("{} yes", look.pick("✓", "+")), Tone::Good),
                Cell::plain(offer.does.join("; ")),
            ],
        }
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        look.errors(&self.feed.error)
    }
    fn detail(&self, _look: &RenderContext) -> Vec<Cell> {
        if let Some(line) = self.line(self.list.cursor) {
            return vec![Cell::plain(line.clone())];
        }
        let Some(offer) = self.offer(self.list.cursor) else {
            return Vec::new();
        };
        if let Some(why) = &offer.why_not {
            return vec![Cell::plain(format!("not offered: {why}"))];
        }
        let mut lines: Vec<Cell> = offer
            .does
            .iter()
            .map(|does| Cell::plain(does.clone()))
            .collect();
        if !offer.leaves.is_empty() {
            lines.push(Cell::new(format!("leaves: {}", offer.leaves), Tone::Warn));
        }
        lines
    }
    fn detail_rows(&self) -> u16 {
        4
    }
    fn load(&self) -> Load {
        self.feed.load()
    }
    fn noun(&self) -> Cow<'static, str> {
        "rung".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Asking what can be done about it…")]
    }
    fn nothing(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain("Nothing can be done about it here.")]
    }
    fn filter_changed(&mut self) {
        let filter = &self.list.filter;
        self.visible = match (&self.runbook, self.ladder()) {
            (Some(lines), _) => (0..lines.len())
                .filter(|at| filter.fits_texts(&[&lines[*at]]))
                .collect(),
            (None, Some(ladder)) => (0..ladder.offers.len())
                .filter(|at| filter.fits_texts(&[ladder.offers[*at].rung.as_str()]))
                .collect(),
            (None, None) => Vec::new(),
        };
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.feed.invalidate();
        self.ask(context);
    }
    // The engine's progress causes no new query, because each answer asks the cloud.
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let ladder = |ladder: Box<Ladder>| whole(vec![*ladder]);
        let received = self.feed.receive::<query::Ladder>(arrived, context, ladder);
        if received.is_none() {
            return false;
        }
        self.filter_changed();
        true
    }
    fn receipt(
        &mut self,
        ticket: u64,
        receipt: &Result<Receipt, ControlError>,
        context: &mut Context<'_>,
    ) -> bool {
        if self.taking != Some(ticket) {
            return false;
        }
        self.taking = None;
        if let Err(why) = self.taken(receipt, context) {
            context.say(Tone::Bad, why);
        }
        self.feed.invalidate();
        self.ask(context);
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        let row = self.list.cursor;
        if let Some(line) = self.line(row) {
            if action == Action::Copy {
                context.copy(line.trim().to_owned());
            }
            return;
        }
        if action == Action::Refresh {
            return self.open(context);
        }
        let (Some(ladder), Some(offer)) = (self.ladder(), self.offer(row)) else {
            return;
        };
        match (action, &offer.why_not) {
            (Action::Confirm, Some(why)) => {
                context.say(
                    Tone::Warn,
                    format!("{} is not offered: {why}", offer.rung.as_str()),
                );
            }
            (Action::Confirm, None) => {
                let confirm = self.confirm(ladder, offer, context.snapshot);
                context.requests.push(PaneRequest::Ask(Box::new(confirm)));
            }
            (Action::Copy, _) => context.copy(offer.does.join("\n")),
            _ => {}
        }
    }
    fn confirmed(&mut self, ticket: u64) -> bool {
        self.taking = Some(ticket);
        true
    }
}
