//! Other deployments: those that our resources refer to, and those whose clearance our steps wait for (G).

use chrono::{DateTime, Utc};

use crate::control::{DeploymentStatus, ImporterStatus, WatchStatus, query};
use crate::domain::duration::rough;
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::KindName;

use super::super::arrived::Arrived;
use super::super::feed::{Fetch, whole};
use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};
use crate::present::{count, kind_words, thousands};

/// The times of last contact change without the engine, so they are queried once a second while shown.
pub(crate) struct DeploymentsPane {
    rows: Rows<DeploymentStatus>,
}

impl DeploymentsPane {
    pub(crate) fn new() -> Self {
        Self { rows: Rows::new() }
    }
}

impl Row for DeploymentStatus {
    /// Service and region, which identify a deployment.
    type Key = (String, String);

    fn key(&self) -> Self::Key {
        (self.service.clone(), self.region.clone())
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let reasons = self.reasons().join("; ");
        filter.fits(&Facts {
            texts: &[name, &self.place(), &reasons],
            site: name,
            ..Facts::default()
        })
    }
}

/// The age of a time, such as `12s ago`.
fn ago(at: DateTime<Utc>, look: &RenderContext) -> String {
    format!("{} ago", rough((look.now - at).num_seconds()))
}

/// Whether the deletions of that deployment are known here, as `✓ yes 12s ago`.
fn watch_cell(watch: Option<&WatchStatus>, look: &RenderContext) -> Cell {
    let Some(watch) = watch else {
        return Cell::dim(format!("{} no", look.none()));
    };
    let heard = watch.heard_at.map(|at| ago(at, look));
    let heard = heard.unwrap_or_else(|| "not heard".to_owned());
    match watch.fresh {
        true => Cell::new(format!("{} yes {heard}", look.pick("✓", "+")), Tone::Good),
        false => Cell::new(format!("{} stale {heard}", look.pick("✖", "x")), Tone::Bad),
    }
}

/// Whether that deployment knows of the deletions here, as `✓ 12s ago, 2 behind`.
fn importer_cell(importer: Option<&ImporterStatus>, look: &RenderContext) -> Cell {
    let Some(importer) = importer else {
        return Cell::dim(format!("{} no", look.none()));
    };
    let Some(seen_at) = importer.seen_at else {
        return Cell::new(format!("{} not seen", look.pick("✖", "x")), Tone::Bad);
    };
    let lag = lag(importer).map(|lag| format!(", {lag}"));
    let text = format!("{}{}", ago(seen_at, look), lag.unwrap_or_default());
    match importer.reason.is_empty() {
        true => Cell::new(format!("{} {text}", look.pick("✓", "+")), Tone::Good),
        false => Cell::new(format!("! {text}"), Tone::Warn),
    }
}

/// The number of changes that the importer has not received yet, such as `2 behind`.
fn lag(importer: &ImporterStatus) -> Option<String> {
    let lag = u64::try_from(importer.lag).unwrap_or_default();
    (lag > 0).then(|| format!("{} behind", thousands(lag)))
}

fn kinds(kinds: &[KindName]) -> String {
    let kinds: Vec<String> = kinds.iter().map(kind_words).collect();
    kinds.join(", ")
}

fn watch_line(watch: Option<&WatchStatus>, look: &RenderContext) -> Cell {
    let Some(watch) = watch else {
        return Cell::dim("nothing of ours refers to it");
    };
    let heard = match watch.heard_at {
        Some(at) => format!("heard {}, {}", look.time(at), ago(at, look)),
        None => "not heard since this engine began".to_owned(),
    };
    let facts = [
        format!("we watch {}", kinds(&watch.kinds)),
        heard,
        format!("up to {}", watch.seq),
    ];
    let tone = if watch.fresh { Tone::Plain } else { Tone::Bad };
    Cell::new(facts.join(look.dot()), tone)
}

fn importer_line(importer: Option<&ImporterStatus>, look: &RenderContext) -> Cell {
    let Some(importer) = importer else {
        return Cell::dim("nothing of it refers to ours, as far as is on record");
    };
    let mut facts = vec![format!("it watches {}", kinds(&importer.kinds))];
    if let Some(since) = importer.since {
        facts.push(format!("on record since {}", look.time(since)));
    }
    facts.push(match importer.seen_at {
        Some(at) => format!("seen {}, {}", look.time(at), ago(at, look)),
        None => "not seen since this engine began".to_owned(),
    });
    let lag = lag(importer).map(|lag| format!(", {lag}"));
    facts.push(format!(
        "has heard up to {}{}",
        importer.seq,
        lag.unwrap_or_default()
    ));
    Cell::plain(facts.join(look.dot()))
}

/// Names the deployment, how many steps wait for its clearance, and what to do if that never comes.
fn awaited_line(row: &DeploymentStatus, look: &RenderContext) -> Cell {
    let name = row.name.as_deref();
    let known = match name {
        Some(name) => format!("{name} of {}", row.place()),
        None => format!("{}, not heard of yet", row.place()),
    };
    let Some(importer) = &row.importer else {
        return Cell::plain(known);
    };
    let (waits, tone) = match importer.awaited {
        0 => ("no step waits for its clearance".to_owned(), Tone::Plain),
        1 => ("1 step waits for its clearance".to_owned(), Tone::Warn),
        n => (
            format!("{} wait for its clearance", count(n, "step")),
            Tone::Warn,
        ),
    };
    let released = name.map(|name| format!("; if it is gone for good: gone release {name}"));
    let released = released.unwrap_or_default();
    Cell::new(format!("{known}{}{waits}{released}", look.dot()), tone)
}

impl ListPane for DeploymentsPane {
    type Row = DeploymentStatus;
    const SCOPE: Scope = Scope::Deployments;
    const WORD: Option<&'static str> = Some("deployments");
    const NOUN: &'static str = "deployment";
    const REFRESH: Refresh = Refresh::Clock;
    /// The reason why a deployment is not heard is a sentence with what was tried.
    const DETAIL_ROWS: u16 = 8;
    const LOADING: &'static str = "Asking the engine for other deployments…";

    fn rows(&self) -> &Rows<DeploymentStatus> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<DeploymentStatus> {
        &mut self.rows
    }
    fn request(&mut self, _cursor: Option<String>, context: &mut Context<'_>) -> Option<u64> {
        Some(context.ask(query::Deployments {}))
    }
    fn receive(&mut self, arrived: &mut Arrived, context: &Context<'_>) -> Option<Fetch> {
        let feed = &mut self.rows.feed;
        feed.receive::<query::Deployments>(arrived, context, whole)
    }
    fn table(&self, _look: &RenderContext) -> Table<Self::Row> {
        Table(vec![
            show(Column::flex("NAME", 2), |row, _| match &row.name {
                Some(name) => Cell::plain(name.clone()),
                None => Cell::dim("not known yet"),
            }),
            show(Column::flex("SERVICE/REGION", 2).from(50), |row, _| {
                Cell::plain(row.place())
            }),
            show(Column::fixed("WE WATCH", 17), |row, look| {
                watch_cell(row.watch.as_ref(), look)
            }),
            show(Column::fixed("IT WATCHES", 20).from(60), |row, look| {
                importer_cell(row.importer.as_ref(), look)
            }),
            show(
                Column::fixed("CLEARANCES", 10).right(),
                |row, look| match row.importer.as_ref().map(|it| it.awaited) {
                    None => Cell::dim(look.none()),
                    Some(0) => Cell::dim("0"),
                    Some(awaited) => Cell::new(thousands(awaited), Tone::Warn),
                },
            ),
            show(Column::flex("WHY", 3).from(100), |row, _| {
                Cell::plain(row.reasons().join("; "))
            }),
        ])
    }
    fn details(&self, row: &DeploymentStatus, look: &RenderContext) -> Vec<Cell> {
        let mut lines = vec![
            awaited_line(row, look),
            watch_line(row.watch.as_ref(), look),
            importer_line(row.importer.as_ref(), look),
        ];
        let reasons = row.reasons().into_iter();
        lines.extend(reasons.map(|reason| Cell::new(reason, Tone::Bad)));
        lines
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            let told = "A replay asks no deployment; :events tells when one came or was released.";
            return vec![Cell::plain(told)];
        }
        vec![
            Cell::plain("No other deployment is known."),
            Cell::dim("An engine with [deployment] in its settings is one of several: it watches"),
            Cell::dim(
                "those that it refers to, and waits for the clearance of those that refer to it.",
            ),
            Cell::dim("gone --print-config shows the section."),
        ]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some(row)) = (action, self.rows.current()) {
            context.copy(row.name.clone().unwrap_or_else(|| row.place()));
        }
    }
}
