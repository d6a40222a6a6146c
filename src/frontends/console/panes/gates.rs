//! The gates: how many requests of clients each of them passed on, changed or refused.

use crate::control::{GateStatus, query};
use crate::domain::filter::{Facts, SearchQuery};

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, whole};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};

/// The gates count independently of the engine, so the pane queries once a second while it is shown.
pub(crate) struct GatesPane {
    rows: Rows<GateStatus>,
}

impl GatesPane {
    pub(crate) fn new() -> Self {
        Self { rows: Rows::new() }
    }
}

impl Row for GateStatus {
    type Key = String;

    fn key(&self) -> String {
        self.listen.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let site = self.site.to_string();
        filter.fits(&Facts {
            texts: &[&self.listen, &self.service, &self.source],
            site: &site,
            ..Facts::default()
        })
    }
}

/// A count in its tone; zero is dimmed.
fn counted(count: u64, tone: Tone) -> Cell {
    match count {
        0 => Cell::dim("0"),
        count => Cell::new(count.to_string(), tone),
    }
}

impl ListPane for GatesPane {
    type Row = GateStatus;
    const SCOPE: Scope = Scope::Gates;
    const WORD: Option<&'static str> = Some("gates");
    const NOUN: &'static str = "gate";
    const REFRESH: Refresh = Refresh::Clock;
    const LOADING: &'static str = "Asking the engine for its gates…";

    fn rows(&self) -> &Rows<GateStatus> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<GateStatus> {
        &mut self.rows
    }
    fn request(&mut self, _cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(context.ask(query::Gates {}))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let feed = &mut self.rows.feed;
        feed.receive::<query::Gates>(arrived, context, whole)
    }
    fn table(&self, _look: &RenderContext) -> Table<Self::Row> {
        let number = |heading, width| Column::fixed(heading, width).right();
        Table(vec![
            show(Column::fixed("GATE", 21), |gate, _| {
                Cell::plain(gate.listen.clone())
            }),
            show(Column::fixed("SERVICE", 13).from(90), |gate, _| {
                Cell::plain(gate.service.clone())
            }),
            show(Column::fixed("FOR", 7), |gate, _| {
                Cell::plain(gate.source.clone())
            }),
            show(Column::flex("SITE", 2).from(130), |gate, _| {
                Cell::plain(gate.site.to_string())
            }),
            show(number("REQUESTS", 10), |gate, _| {
                Cell::plain(gate.traffic.requests.to_string())
            }),
            show(number("HIDDEN", 8).from(50), |gate, _| {
                counted(gate.traffic.hidden, Tone::Plain)
            }),
            show(number("DELETING", 8).from(70), |gate, _| {
                counted(gate.traffic.deleting, Tone::Plain)
            }),
            show(number("REFUSED", 8), |gate, _| {
                counted(gate.traffic.refused, Tone::Warn)
            }),
            show(number("ACCEPTED", 8).from(60), |gate, _| {
                counted(gate.traffic.accepted, Tone::Good)
            }),
            show(number("FAILED", 7).from(100), |gate, _| {
                counted(gate.traffic.failed, Tone::Bad)
            }),
        ])
    }
    fn details(&self, row: &GateStatus, look: &RenderContext) -> Vec<Cell> {
        let traffic = &row.traffic;
        let touched = traffic.hidden + traffic.deleting + traffic.refused + traffic.accepted;
        let passed = traffic.requests.saturating_sub(touched + traffic.failed);
        let dot = look.dot();
        vec![
            Cell::plain(format!(
                "{} of {}{dot}listens on {}, for {}",
                row.service, row.site, row.listen, row.source
            )),
            Cell::dim(format!(
                "{passed} passed as they were{dot}{} with something hidden{dot}{} shown as deleting",
                traffic.hidden, traffic.deleting
            )),
            Cell::dim(format!(
                "{} refused{dot}{} deletions accepted or under way{dot}{} failed",
                traffic.refused, traffic.accepted, traffic.failed
            )),
        ]
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            let told = "What came through gates is in no ledger: a replay cannot tell.";
            return vec![Cell::plain(told)];
        }
        vec![
            Cell::plain("This engine has no gate."),
            Cell::dim(
                "A [[gate]] in the settings opens one in front of a service, so that what is",
            ),
            Cell::dim("deleted stays deleted for every client that comes that way."),
        ]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some(row)) = (action, self.rows.current()) {
            context.copy(row.listen.clone());
        }
    }
}
