//! The sites that the engine works with.

use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, Tone};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, PaneRequest, Table, show};
use crate::control::{Command, SiteState, SiteStatus, Snapshot};
use crate::domain::filter::{Facts, SearchQuery};
use crate::domain::model::Site;

pub(crate) struct SitesPane {
    rows: Rows<SiteStatus>,
}

impl SitesPane {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut pane = Self { rows: Rows::new() };
        pane.update(snapshot);
        pane
    }
}

impl Row for SiteStatus {
    type Key = Site;

    fn key(&self) -> Site {
        self.site.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits(&Facts {
            texts: &[&self.reason],
            site: &self.site.to_string(),
            ..Facts::default()
        })
    }
}

/// The state of a site, such as `✓ reachable`.
pub(crate) fn site_state(site: &SiteStatus, look: &RenderContext) -> Cell {
    match site.state {
        SiteState::Unknown => Cell::dim(format!("{} not asked yet", look.pick("·", "."))),
        SiteState::Reachable => Cell::new(format!("{} reachable", look.pick("✓", "+")), Tone::Good),
        SiteState::Unreachable => {
            Cell::new(format!("{} unreachable", look.pick("✖", "x")), Tone::Bad)
        }
        SiteState::Paused => Cell::new(format!("{} paused", look.pick("‖", "|")), Tone::Warn),
    }
}

/// Pauses a site, or ends a person's pause; a pause for lost rights ends by itself.
fn pause(status: &SiteStatus) -> PaneRequest {
    let site = status.site.clone();
    match status.paused_by {
        Some(_) => PaneRequest::Submit {
            what: format!("resuming {site}"),
            command: Command::ResumeSite { site },
        },
        None => PaneRequest::Submit {
            what: format!("pausing {site}"),
            command: Command::PauseSite { site },
        },
    }
}

/// Share of the last calls that failed because of the cloud, not because of a resource.
pub(crate) fn errors(site: &SiteStatus, look: &RenderContext) -> Cell {
    match site.error_percent {
        None => Cell::dim(look.none()),
        Some(0) => Cell::dim("0%"),
        Some(percent) => Cell::new(format!("{percent}%"), Tone::Warn),
    }
}

impl ListPane for SitesPane {
    type Row = SiteStatus;
    const SCOPE: Scope = Scope::Sites;
    const WORD: Option<&'static str> = Some("sites");
    const NOUN: &'static str = "site";
    const REFRESH: Refresh = Refresh::Never;
    /// The reason why a site is unreachable is a sentence that ends with what to do.
    const DETAIL_ROWS: u16 = 6;
    const LOADING: &'static str = "Asking the engine for its sites…";

    fn rows(&self) -> &Rows<SiteStatus> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<SiteStatus> {
        &mut self.rows
    }
    fn update(&mut self, snapshot: &Snapshot) {
        if snapshot.at.is_some() {
            self.rows.replace(snapshot.sites.clone());
        }
    }
    fn table(&self, _look: &RenderContext) -> Table<Self::Row> {
        Table(vec![
            show(Column::flex("SITE", 2), |row, _| {
                Cell::plain(row.site.to_string())
            }),
            show(Column::fixed("STATE", 15), site_state),
            show(Column::fixed("LATENCY", 8).right(), |row, look| {
                let latency = row.latency_ms.map(|ms| format!("{ms} ms"));
                Cell::plain(latency.unwrap_or_else(|| look.none().to_owned()))
            }),
            show(Column::fixed("ERRORS", 6).right().from(100), errors),
            show(Column::fixed("CALLS", 7).right().from(50), |row, _| {
                Cell::plain(format!("{}/{}", row.in_flight, row.concurrency_limit))
            }),
            show(Column::flex("AS", 1).from(60), |row, _| {
                Cell::dim(row.as_user.clone())
            }),
            show(Column::flex("WHY", 2).from(70), |row, _| {
                let read_only = row.read_only.then_some("read-only");
                let reason = Some(row.reason.as_str()).filter(|reason| !reason.is_empty());
                let why: Vec<&str> = read_only.into_iter().chain(reason).collect();
                Cell::plain(why.join("; "))
            }),
        ])
    }
    fn details(&self, site: &SiteStatus, look: &RenderContext) -> Vec<Cell> {
        let limit = site.concurrency_limit;
        let calls = format!("{} calls in flight, at most {limit}", site.in_flight);
        let mut facts = vec![site.site.to_string(), calls];
        if let Some(percent) = site.error_percent {
            facts.push(format!("{percent}% of the last calls failed"));
        }
        // The user is unknown if the sign-in was refused.
        if !site.as_user.is_empty() {
            facts.push(format!("as {}", site.as_user));
        }
        let mut lines = vec![Cell::plain(facts.join(look.dot()))];
        if !site.reason.is_empty() {
            lines.push(Cell::new(site.reason.clone(), site_state(site, look).tone));
        }
        if site.read_only {
            lines.push(Cell::new("read-only: nothing is deleted here", Tone::Warn));
        }
        lines
    }
    fn none(look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            let told = "A replay asks no cloud; :events tells when a site was lost or paused.";
            return vec![Cell::plain(told)];
        }
        vec![
            Cell::plain("No cloud is configured."),
            Cell::dim("Put a clouds.yaml into ~/.config/openstack, then start again;"),
            Cell::dim("gone doctor says what was found. gone --sandbox needs none."),
        ]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        let Some(site) = self.rows.current() else {
            return;
        };
        match action {
            Action::Copy => context.copy(site.site.to_string()),
            Action::Pause => context.requests.push(pause(site)),
            _ => {}
        }
    }
}
