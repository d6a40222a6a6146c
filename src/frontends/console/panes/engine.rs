//! The engine's reconcilers: what each does, did last and does next.

use super::kit::*;
use crate::domain::activity::ReconcilerStatus;
use crate::domain::duration::rough;
use crate::present::{activity_words, reconciler_words, run_time};

/// The statuses change without an event, so they are queried once a second while shown.
struct EnginePane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    Ok(listed(EnginePane, Feed::of(query::Reconcilers {})))
}

impl Row for ReconcilerStatus {
    fn key(&self) -> String {
        self.name.as_str().to_owned()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let failure = self.last_error.as_ref();
        let failure = failure.map_or("", |error| error.message.as_str());
        filter.fits_texts(&[self.name.as_str(), &activity_words(self), failure])
    }
}

/// The age and the duration of the last run, such as `12s ago, 40 ms`.
fn last_run(row: &ReconcilerStatus, look: &RenderContext) -> Cell {
    let Some(at) = row.last_run_at else {
        return Cell::dim(look.none());
    };
    let ago = rough((look.now - at).num_seconds());
    let took = row.last_run_ms.map(|ms| format!(", {}", run_time(ms)));
    Cell::plain(format!("{ago} ago{}", took.unwrap_or_default()))
}

fn next_run(row: &ReconcilerStatus, look: &RenderContext) -> Cell {
    match row.next_run_at {
        Some(at) if at > look.now => {
            Cell::plain(format!("in {}", rough((at - look.now).num_seconds())))
        }
        Some(_) => Cell::plain("now"),
        None => Cell::dim(look.none()),
    }
}

/// The last failure, which is dimmed if it is older than the last run.
fn last_error(row: &ReconcilerStatus, look: &RenderContext) -> Cell {
    match &row.last_error {
        None => Cell::dim(look.none()),
        Some(error) if Some(error.at) < row.last_run_began() => Cell::dim(&error.message),
        Some(error) => Cell::new(&error.message, Tone::Warn),
    }
}

impl ListPane for EnginePane {
    type Row = ReconcilerStatus;
    const SCOPE: Scope = Scope::Engine;
    const NOUN: &'static str = "reconciler";
    const REFRESH: Refresh = Refresh::Clock;
    const DETAIL_ROWS: u16 = 6;
    const LOADING: &'static str = "Asking the engine what it does…";
    const NOTHING: &'static [&'static str] = &["This engine has no reconcilers."];
    const NOTHING_THEN: &'static str =
        "A replay runs no reconciler; :events shows what the engine did.";

    fn table(&self, _: &Rows<ReconcilerStatus>, _: &RenderContext) -> Table<'_, ReconcilerStatus> {
        columns! { row: ReconcilerStatus, look;
            fixed("RECONCILER", 14) => Cell::plain(row.name.as_str()),
            flex("DOING", 2) => match row.running {
                0 => Cell::dim(activity_words(row)),
                _ => Cell::plain(activity_words(row)),
            },
            fixed("LAST RUN", 18).from(50) => last_run(row, look); time_key(row.last_run_at),
            fixed("NEXT RUN", 8).from(60) => next_run(row, look); time_key(row.next_run_at),
            flex("LAST ERROR", 2).from(80) => last_error(row, look),
        }
    }
    fn details(&self, row: &ReconcilerStatus, look: &RenderContext) -> Vec<Cell> {
        let (since, does) = (look.time(row.since), activity_words(row));
        let does = format!("{}{does}", look.dot());
        let now = match row.running {
            0 => format!("waiting since {since}"),
            1 => format!("running since {since}{does}"),
            runs => format!("{runs} running, the first since {since}{does}"),
        };
        let mut lines = vec![Cell::plain(reconciler_words(row.name)), Cell::plain(now)];
        if let Some(error) = &row.last_error {
            let text = format!("failed {}: {}", look.time(error.at), error.message);
            lines.push(Cell::new(text, Tone::Warn));
        }
        lines
    }
    fn copies(&self, _: &Rows<ReconcilerStatus>, row: &ReconcilerStatus) -> Vec<Copied> {
        let failure = row.last_error.as_ref();
        let failure = failure.map(|error| Copied::new("the last failure", &error.message));
        let name = Copied::new("the name", row.name.as_str());
        failure.into_iter().chain([name]).collect()
    }
}
