//! Other deployments: the configured peers, the owners that this deployment watches, and the importers on record (G1 to
//! G12).

use super::kit::*;
use crate::control::{DeploymentStatus, ImporterStatus, WatchStatus};
use crate::domain::duration::rough;
use crate::domain::model::KindName;
use crate::present::{joined, kind_words, thousands, waiting_words};

/// The times of last contact change without an event, so they are queried once a second while shown.
struct DeploymentsPane;

pub(super) fn open(_: &Around<'_>) -> Opened {
    Ok(listed(DeploymentsPane, Feed::of(query::Deployments {})))
}

impl Row for DeploymentStatus {
    /// Service and region identify a deployment.
    fn key(&self) -> String {
        self.service_and_region()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let reasons = self.reasons().join("; ");
        filter.fits(&Facts {
            texts: &[name, &self.service_and_region(), &reasons],
            site: name,
            ..Facts::default()
        })
    }
}

/// The age of a time, such as `12s ago`.
fn ago(at: DateTime<Utc>, look: &RenderContext) -> String {
    format!("{} ago", rough((look.now - at).num_seconds()))
}

/// Whether the deletions of another deployment are known here, as `✓ yes 12s ago`.
fn watch_cell(watch: Option<&WatchStatus>, look: &RenderContext) -> Cell {
    let Some(watch) = watch else {
        return Cell::dim(format!("{} no", look.none()));
    };
    let age = watch.answered_at.map(|at| ago(at, look));
    let age = age.unwrap_or_else(|| "no answer".to_owned());
    match watch.fresh {
        true => look.good(format!("yes {age}")),
        false => look.bad(format!("stale {age}")),
    }
}

/// Whether another deployment knows of the deletions here, as `✓ 12s ago, 2 behind`.
fn importer_cell(importer: Option<&ImporterStatus>, look: &RenderContext) -> Cell {
    let Some(importer) = importer else {
        return Cell::dim(format!("{} no", look.none()));
    };
    let Some(last_contact_at) = importer.last_contact_at else {
        return look.bad("not seen");
    };
    let text = format!("{}{}", ago(last_contact_at, look), lag(importer));
    match importer.reason.is_empty() {
        true => look.good(text),
        false => Cell::new(format!("! {text}"), Tone::Warn),
    }
}

/// The number of changes that the importer has not received yet, such as `, 2 behind`.
fn lag(importer: &ImporterStatus) -> String {
    match u64::try_from(importer.lag) {
        Ok(lag @ 1..) => format!(", {} behind", thousands(lag)),
        _ => String::new(),
    }
}

/// The number of steps that wait for the clearance of another deployment.
fn awaited_cell(importer: Option<&ImporterStatus>, look: &RenderContext) -> Cell {
    match importer.map(|it| it.pending_clearances) {
        None => Cell::dim(look.none()),
        Some(0) => Cell::dim("0"),
        Some(awaited) => Cell::new(thousands(awaited), Tone::Warn),
    }
}

fn kinds(kinds: &[KindName]) -> String {
    joined(kinds.iter().map(kind_words), ", ")
}

fn watch_line(watch: Option<&WatchStatus>, look: &RenderContext) -> Cell {
    let Some(watch) = watch else {
        return Cell::dim("no resource here refers to it");
    };
    let answered = match watch.answered_at {
        Some(at) => format!("last answer {}, {}", look.time(at), ago(at, look)),
        None => "no answer since this engine started".to_owned(),
    };
    let facts = [
        format!("this deployment watches {}", kinds(&watch.kinds)),
        answered,
        format!("notices up to {}", watch.seq),
    ];
    let tone = if watch.fresh { Tone::Plain } else { Tone::Bad };
    Cell::new(facts.join(look.dot()), tone)
}

fn importer_line(importer: Option<&ImporterStatus>, look: &RenderContext) -> Cell {
    let Some(importer) = importer else {
        return Cell::dim("on record, none of its resources refers to a resource here");
    };
    let mut facts = vec![format!("it watches {}", kinds(&importer.kinds))];
    if let Some(since) = importer.since {
        facts.push(format!("on record since {}", look.time(since)));
    }
    facts.push(match importer.last_contact_at {
        Some(at) => format!("last contact {}, {}", look.time(at), ago(at, look)),
        None => "no contact since this engine started".to_owned(),
    });
    let (seq, lag) = (importer.seq, lag(importer));
    facts.push(format!("received notices up to {seq}{lag}"));
    Cell::plain(facts.join(look.dot()))
}

/// Names the deployment, how many steps wait for its clearance, and what to do if the deployment never answers.
fn awaited_line(row: &DeploymentStatus, look: &RenderContext) -> Cell {
    let (name, region) = (row.name.as_deref(), row.service_and_region());
    let known = match name {
        Some(name) => format!("{name} of {region}"),
        None => format!("{region}, no contact yet"),
    };
    let Some(importer) = &row.importer else {
        return Cell::plain(known);
    };
    let waits = waiting_words(importer.pending_clearances);
    let is_idle = importer.pending_clearances == 0;
    let tone = if is_idle { Tone::Plain } else { Tone::Warn };
    let released = name.map(|name| format!("; if it is gone for good: gone release {name}"));
    let (dot, released) = (look.dot(), released.unwrap_or_default());
    let text = format!("{known}{dot}{waits} for its clearance{released}");
    Cell::new(text, tone)
}

impl ListPane for DeploymentsPane {
    type Row = DeploymentStatus;
    const SCOPE: Scope = Scope::Deployments;
    const NOUN: &'static str = "deployment";
    const REFRESH: Refresh = Refresh::Clock;
    /// The reason why a watch has no answer is a sentence that names each attempt.
    const DETAIL_ROWS: u16 = 8;
    const LOADING: &'static str = "Asking the engine for other deployments…";
    const NOTHING: &'static [&'static str] = &[
        "No other deployment is known.",
        "With [deployment] in its settings, an engine belongs to a deployment, which",
        "watches others to which it refers, and waits for its referrers' clearance.",
        "gone --print-config shows the section.",
    ];
    const NOTHING_THEN: &'static str =
        "A replay asks no deployment; :events shows when one was added or released.";

    fn table(&self, _: &Rows<DeploymentStatus>, _: &RenderContext) -> Table<'_, DeploymentStatus> {
        columns! { row: DeploymentStatus, look;
            flex("NAME", 2) => row.name.as_ref().map_or_else(|| Cell::dim("not known yet"), Cell::plain),
            flex("SERVICE/REGION", 2).from(50) => Cell::plain(row.service_and_region()),
            fixed("WE WATCH", 17) => watch_cell(row.watch.as_ref(), look); time_key(row.watch.as_ref().and_then(|it| it.answered_at)),
            fixed("IT WATCHES", 20).from(60) => importer_cell(row.importer.as_ref(), look); time_key(row.importer.as_ref().and_then(|it| it.last_contact_at)),
            fixed("CLEARANCES", 10).right() => awaited_cell(row.importer.as_ref(), look),
            flex("WHY", 3).from(100) => Cell::plain(row.reasons().join("; ")),
        }
    }
    fn details(&self, row: &DeploymentStatus, look: &RenderContext) -> Vec<Cell> {
        let lines = [
            awaited_line(row, look),
            watch_line(row.watch.as_ref(), look),
            importer_line(row.importer.as_ref(), look),
        ];
        let reasons = row.reasons().into_iter();
        let reasons = reasons.map(|reason| Cell::new(reason, Tone::Bad));
        lines.into_iter().chain(reasons).collect()
    }
    fn copies(&self, _: &Rows<DeploymentStatus>, row: &DeploymentStatus) -> Vec<Copied> {
        let name = row.name.clone().unwrap_or_else(|| row.service_and_region());
        vec![Copied::new("the name", &name)]
    }
}
