//! The engines that share the ledger: which one leads, and what each works on.

use super::kit::*;
use crate::domain::engines::{EngineRole, EngineRow};
use crate::present::{count, lease_words, role_words};

/// Leases are renewed without an event, so they are queried once a second while shown.
struct EnginesPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    Ok(listed(EnginesPane, Feed::of(query::Engines {})))
}

impl Row for EngineRow {
    fn key(&self) -> String {
        self.epoch.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[&self.name, &self.host, self.role.as_str(), &self.version])
    }
}

fn name(row: &EngineRow) -> String {
    match row.name.as_str() {
        "" => format!("process {}", row.pid),
        name => name.to_owned(),
    }
}

fn role(row: &EngineRow) -> Cell {
    let word = row.role.as_str();
    match row.role {
        EngineRole::Leads => Cell::new(word, Tone::Good),
        EngineRole::Works => Cell::plain(word),
        EngineRole::Drained | EngineRole::Idle => Cell::dim(word),
        EngineRole::Lost => Cell::new(word, Tone::Bad),
    }
}

impl ListPane for EnginesPane {
    type Row = EngineRow;
    const SCOPE: Scope = Scope::Engine;
    const NOUN: &'static str = "engine";
    const REFRESH: Refresh = Refresh::Clock;
    const DETAIL_ROWS: u16 = 4;
    const LOADING: &'static str = "Asking which engines share this ledger…";
    const NOTHING: &'static [&'static str] = &["No engine works on this ledger."];
    const NOTHING_THEN: &'static str = "A replay has no engine.";

    fn table(&self, _: &Rows<EngineRow>, _: &RenderContext) -> Table<'_, EngineRow> {
        columns! { row: EngineRow, look;
            flex("ENGINE", 2) => Cell::plain(name(row)),
            fixed("ROLE", 8) => role(row),
            fixed("STEPS", 6) => Cell::plain(row.running.to_string()),
            flex("LEASE", 1).from(50) => Cell::plain(lease_words(row, look.now)); time_key(row.renewed_at),
            fixed("VERSION", 8).from(80) => Cell::dim(&row.version),
            flex("HOST", 1).from(100) => Cell::dim(&row.host),
        }
    }
    fn details(&self, row: &EngineRow, look: &RenderContext) -> Vec<Cell> {
        let dot = look.dot();
        let started = look.time(row.started_at);
        let about = format!(
            "process {} on {}{dot}version {}{dot}started {started}{dot}epoch {}",
            row.pid, row.host, row.version, row.epoch
        );
        let mut lines = vec![Cell::plain(role_words(row.role)), Cell::plain(about)];
        if row.has_gates {
            let missed = count(row.behind, "change");
            lines.push(Cell::plain(match row.behind {
                0 => "its gates know every tombstone".to_owned(),
                _ => format!("its gates have not read the last {missed} of tombstones yet"),
            }));
        }
        lines
    }
    fn copies(&self, _: &Rows<EngineRow>, row: &EngineRow) -> Vec<Copied> {
        vec![Copied::new("the name", &name(row))]
    }
}
