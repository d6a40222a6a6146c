//! The gates, and how many requests of clients each of them passed on, changed, refused, accepted as deletions or
//! failed to serve. The gates count independently of the engine's progress.

use super::kit::*;
use crate::control::GateStatus;
use crate::present::{count, thousands};

struct GatesPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    Ok(listed(GatesPane, Feed::of(query::Gates {})))
}

impl Row for GateStatus {
    fn key(&self) -> String {
        self.listen.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits(&Facts {
            texts: &[&self.listen, &self.service, &self.source],
            site: &self.site.to_string(),
            ..Facts::default()
        })
    }
}

/// A count in its tone; zero is dimmed.
fn counted(number: u64, tone: Tone) -> Cell {
    let tone = if number == 0 { Tone::Dim } else { tone };
    Cell::new(thousands(number), tone)
}

impl ListPane for GatesPane {
    type Row = GateStatus;
    const SCOPE: Scope = Scope::Gates;
    const NOUN: &'static str = "gate";
    const REFRESH: Refresh = Refresh::Clock;
    const LOADING: &'static str = "Asking the engine for its gates…";
    const NOTHING: &'static [&'static str] = &[
        "This engine has no gate.",
        "A [[gate]] in the settings opens a gate in front of a service, so that a deleted",
        "resource stays deleted for every client that uses the gate.",
    ];
    const NOTHING_THEN: &'static str =
        "No ledger records the requests at gates, so a replay cannot show them.";

    fn table(&self, _rows: &Rows<GateStatus>, _look: &RenderContext) -> Table<'_, GateStatus> {
        columns! { gate: GateStatus, look;
            fixed("GATE", 21) => Cell::plain(&gate.listen),
            fixed("SERVICE", 13).from(90) => Cell::plain(&gate.service),
            fixed("FOR", 7) => Cell::plain(&gate.source),
            flex("SITE", 2).from(130) => Cell::plain(gate.site.to_string()),
            fixed("REQUESTS", 10).right() => Cell::plain(thousands(gate.traffic.requests)),
            fixed("HIDDEN", 8).right().from(50) => counted(gate.traffic.hidden, Tone::Plain),
            fixed("DELETING", 8).right().from(70) => counted(gate.traffic.deleting, Tone::Plain),
            fixed("REFUSED", 8).right() => counted(gate.traffic.refused, Tone::Warn),
            fixed("ACCEPTED", 8).right().from(60) => counted(gate.traffic.accepted, Tone::Good),
            fixed("FAILED", 7).right().from(100) => counted(gate.traffic.failed, Tone::Bad),
        }
    }
    fn details(&self, row: &GateStatus, look: &RenderContext) -> Vec<Cell> {
        let traffic = &row.traffic;
        let touched = traffic.hidden + traffic.deleting + traffic.refused + traffic.accepted;
        let passed = traffic.requests.saturating_sub(touched + traffic.failed);
        let dot = look.dot();
        vec![
            Cell::plain(format!(
                "{} of {}{dot}listens on {}{dot}source: {}",
                row.service, row.site, row.listen, row.source
            )),
            Cell::dim(format!(
                "{} passed as they were{dot}{} with something hidden{dot}{} shown as deleting",
                thousands(passed),
                thousands(traffic.hidden),
                thousands(traffic.deleting)
            )),
            Cell::dim(format!(
                "{} refused{dot}{} accepted or under way{dot}{} failed",
                thousands(traffic.refused),
                count(traffic.accepted, "deletion"),
                thousands(traffic.failed)
            )),
        ]
    }
    fn copies(&self, _: &Rows<GateStatus>, row: &GateStatus) -> Vec<Copied> {
        vec![Copied::new("the address", &row.listen)]
    }
}
