//! The regions that the engine works with.

use std::borrow::Cow;
use std::sync::Arc;

use crate::control::{Command, SiteState, SiteStatus, Snapshot};
use crate::domain::filter::Facts;

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::emptiness::Load;
use super::{Column, Context, Pane, PaneRequest};

pub(crate) struct SitesPane {
    list: List,
    snapshot: Arc<Snapshot>,
    visible: Vec<usize>,
}

impl SitesPane {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let mut pane = Self {
            list: List::default(),
            snapshot,
            visible: Vec::new(),
        };
        pane.filter_changed();
        pane
    }
    fn current(&self) -> Option<&SiteStatus> {
        let index = *self.visible.get(self.list.cursor)?;
        self.snapshot.sites.get(index)
    }
}

/// `✓ reachable`
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

/// Pauses a site, or ends a pause by hand; that of lost rights ends by itself.
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

/// Of its last calls those that say nothing of a resource, but of the cloud.
pub(crate) fn errors(site: &SiteStatus, look: &RenderContext) -> Cell {
    match site.error_percent {
        None => Cell::dim(look.none()),
        Some(0) => Cell::dim("0%"),
        Some(percent) => Cell::new(format!("{percent}%"), Tone::Warn),
    }
}

impl Pane for SitesPane {
    fn scope(&self) -> Scope {
        Scope::Sites
    }
    fn word(&self) -> Option<&str> {
        Some("sites")
    }
    fn title(&self, _look: &RenderContext) -> String {
        format!("sites {}", self.snapshot.sites.len())
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
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![
            Column::flex("SITE", 2),
            Column::fixed("STATE", 15),
            Column::fixed("LATENCY", 8).right(),
            Column::fixed("ERRORS", 6).right().from(100),
            Column::fixed("CALLS", 7).right().from(50),
            Column::flex("AS", 1).from(60),
            Column::flex("WHY", 2).from(70),
        ]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(site) = self.visible.get(row).map(|i| &self.snapshot.sites[*i]) else {
            return Vec::new();
        };
        let latency = site.latency_ms.map(|ms| format!("{ms} ms"));
        let mut why = site.reason.clone();
        if site.read_only {
            why = if why.is_empty() {
                "read-only".to_owned()
            } else {
                format!("read-only; {why}")
            };
        }
        vec![
            Cell::plain(site.site.to_string()),
            site_state(site, look),
            Cell::plain(latency.unwrap_or_else(|| look.none().to_owned())),
            errors(site, look),
            Cell::plain(format!("{}/{}", site.in_flight, site.concurrency_limit)),
            Cell::dim(site.as_user.clone()),
            Cell::plain(why),
        ]
    }
    /// Why a site is out of reach is a sentence with what to do at its end.
    fn detail_rows(&self) -> u16 {
        6
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        self.current().map_or_else(Vec::new, |site| {
            let limit = site.concurrency_limit;
            let calls = format!("{} calls in flight, at most {limit}", site.in_flight);
            let mut facts = vec![site.site.to_string(), calls];
            if let Some(percent) = site.error_percent {
                facts.push(format!("{percent}% of the last calls failed"));
            }
            // Nobody is signed in where that was refused.
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
        })
    }
    fn load(&self) -> Load {
        match self.snapshot.at {
            None => Load::Asking,
            Some(_) if self.snapshot.sites.is_empty() => Load::Empty,
            Some(_) => Load::Answered,
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        "site".into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim("Asking the engine for its sites…")]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
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
    fn filter_changed(&mut self) {
        let sites = self.snapshot.sites.iter().enumerate();
        self.visible = sites
            .filter(|(_, site)| {
                let name = site.site.to_string();
                self.list.filter.fits(&Facts {
                    texts: &[&site.reason],
                    site: &name,
                    ..Facts::default()
                })
            })
            .map(|(i, _)| i)
            .collect();
    }
    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        let held = self.current().map(|site| site.site.clone());
        self.snapshot = context.snapshot.clone();
        self.filter_changed();
        let sites = &self.snapshot.sites;
        let keys = self.visible.iter().map(|i| sites[*i].site.clone());
        self.list.hold(held, keys);
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        let Some(site) = self.current() else {
            return;
        };
        match action {
            Action::Copy => context.copy(site.site.to_string()),
            Action::Pause => context.requests.push(pause(site)),
            _ => {}
        }
    }
}
