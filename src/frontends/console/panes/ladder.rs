//! The purge ladder: what can be done, rung by rung, about steps that are stuck, blocked or slow (P3). Enter on a rung
//! that is offered leads to a typed confirmation; nothing is sent before that.

use std::sync::Arc;

use super::kit::*;
use crate::control::{Command, Purged, Receipt, unexpected_reply};
use crate::domain::ladder::{Ladder, Offer};
use crate::present::purged_words;

struct LadderPane {
    of: PurgeScope,
    /// Names the step or the deletion, until the engine's answer has a better description.
    words: String,
    /// Ticket of the confirmed rung that is under way.
    taking: Option<u64>,
}

pub(super) fn of(of: PurgeScope, words: String) -> Box<dyn Pane> {
    let feed = Feed::reading(query::Ladder { what: of.clone() }, |ladder| {
        let ladder = Arc::new(*ladder);
        let rungs = (0..ladder.offers.len()).map(|at| Line::Rung(ladder.clone(), at));
        rungs.collect::<Vec<_>>()
    });
    let taking = None;
    listed(LadderPane { of, words, taking }, feed)
}

enum Line {
    /// A rung, by its index in the offers of the ladder.
    Rung(Arc<Ladder>, usize),
    /// A line of the runbook. Once the rung `runbook` was taken, the lines of the runbook replace the rungs.
    ByHand(String),
}

impl Line {
    fn offer(&self) -> Option<&Offer> {
        match self {
            Self::Rung(ladder, at) => ladder.offers.get(*at),
            Self::ByHand(_) => None,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Rung(..) => self.offer().map_or("", |offer| offer.rung.as_str()),
            Self::ByHand(text) => text,
        }
    }

    /// The reason why the rung is not offered, if it is not.
    fn why_not(&self) -> Option<&String> {
        self.offer()?.why_not.as_ref()
    }

    fn does(&self) -> String {
        let offer = self.offer();
        offer.map_or_else(String::new, |offer| offer.does.join("; "))
    }
}

impl Row for Line {
    fn key(&self) -> String {
        self.text().to_owned()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text()])
    }
}

impl LadderPane {
    fn confirm(&self, ladder: &Ladder, offer: &Offer, snapshot: &Snapshot) -> Confirm {
        let rung = offer.rung.as_str();
        let mut lines = vec![format!("{rung}: {}", ladder.subject)];
        lines.extend(offer.does.iter().cloned());
        lines.extend(non_empty(&offer.leaves).map(|leaves| format!("leaves: {leaves}")));
        let confirm = Confirm::new(
            format!("the short id of the deletion, {}", ladder.confirm),
            vec![ladder.confirm.clone()],
            format!("{rung} of {}", self.words),
            Command::Purge {
                what: self.of.clone(),
                rung: offer.rung,
                confirm: ladder.confirm.clone(),
            },
        );
        confirm.saying(lines).at(ladder.sites.iter(), snapshot)
    }
}

impl ListPane for LadderPane {
    type Row = Line;
    const SCOPE: Scope = Scope::Ladder;
    const NOUN: &'static str = "rung";
    // The engine's progress causes no new query, because each answer asks the cloud.
    const REFRESH: Refresh = Refresh::Demand;
    const DETAIL_ROWS: u16 = 4;
    const MODAL: bool = true;
    const LOADING: &'static str = "Asking which rungs are offered…";
    const NOTHING: &'static [&'static str] = &["This ladder has no rung."];

    fn heading(&self, rows: &Rows<Line>, _look: &RenderContext) -> String {
        match rows.all().next() {
            Some(Line::Rung(ladder, _)) => format!("ladder of {}", ladder.subject),
            Some(Line::ByHand(_)) => format!("runbook for {}", self.words),
            None => format!("ladder of {}", self.words),
        }
    }
    fn table(&self, rows: &Rows<Line>, _look: &RenderContext) -> Table<'_, Line> {
        if let Some(Line::ByHand(_)) = rows.all().next() {
            return columns! { line: Line, look; flex("BY HAND", 1) => Cell::plain(line.text()), };
        }
        columns! { line: Line, look;
            fixed("RUNG", 7) => Cell::new(line.text(), line.why_not().map_or(Tone::Strong, |_| Tone::Dim)),
            fixed("OFFERED", 7) => line.why_not().map_or_else(|| look.good("yes"), |_| Cell::dim("no")),
            flex("WHAT IT DOES", 1) => line.why_not().map_or_else(|| Cell::plain(line.does()), Cell::dim),
        }
    }
    fn details(&self, line: &Line, _look: &RenderContext) -> Vec<Cell> {
        let Some(offer) = line.offer() else {
            return vec![Cell::plain(line.text())];
        };
        if let Some(why) = &offer.why_not {
            return vec![Cell::plain(format!("not offered: {why}"))];
        }
        let leaves =
            non_empty(&offer.leaves).map(|it| Cell::new(format!("leaves: {it}"), Tone::Warn));
        offer.does.iter().map(Cell::plain).chain(leaves).collect()
    }
    fn is_working(&self) -> bool {
        self.taking.is_some()
    }
    fn opened(&mut self, rows: &mut Rows<Line>, _context: &Context) {
        rows.feed.invalidate();
    }
    fn answered(&mut self, rows: &mut Rows<Line>) {
        if let Some(Line::Rung(ladder, _)) = rows.all().next() {
            self.words.clone_from(&ladder.subject);
        }
    }
    fn receipt(
        &mut self,
        rows: &mut Rows<Line>,
        ticket: u64,
        reply: &Reply,
        context: &mut Context,
    ) -> bool {
        if self.taking.take_if(|taking| *taking == ticket).is_none() {
            return false;
        }
        match reply {
            Ok(Receipt::Purged(Purged {
                runbook: Some(text),
                ..
            })) => {
                let lines = text.lines().map(|line| Line::ByHand(line.to_owned()));
                *rows = lines.collect::<Vec<_>>().into();
            }
            Ok(Receipt::Purged(purged)) => {
                rows.feed.invalidate();
                let unpinned_by = purged.deletion_id.as_deref();
                let text = purged_words(purged.rung, purged.moved, unpinned_by, ":orphans");
                context.say(Tone::Good, text);
            }
            Ok(_) => context.say(Tone::Bad, unexpected_reply().to_string()),
            Err(error) => context.say(Tone::Bad, error.to_string()),
        }
        true
    }
    fn copies(&self, rows: &Rows<Line>, line: &Line) -> Vec<Copied> {
        match line.offer() {
            Some(offer) => {
                let does = offer.does.iter().map(String::as_str);
                vec![Copied::lines("what the rung does", does)]
            }
            None => vec![
                Copied::new("the line", line.text().trim()),
                Copied::lines("the whole runbook", rows.all().map(Line::text)),
            ],
        }
    }
    fn act(&mut self, line: &Line, action: Action, context: &mut Context) {
        let (Action::Confirm, Line::Rung(ladder, at)) = (action, line) else {
            return;
        };
        let offer = &ladder.offers[*at];
        match &offer.why_not {
            Some(why) => {
                let rung = offer.rung.as_str();
                context.say(Tone::Warn, format!("{rung} is not offered: {why}"));
            }
            None => context.confirm(self.confirm(ladder, offer, context.snapshot)),
        }
    }
    fn confirmed(&mut self, ticket: u64) -> bool {
        self.taking = Some(ticket);
        true
    }
}
