//! Sites and engines that a person pauses, and events that change at most the saved state of a site.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::refuse;
use crate::domain::model::{EventKind, Site, SitePause};
use crate::ledger::events::{self, EventDraft};
use crate::ledger::store::RowStore;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, AuditEntry, NewEvent};

impl<S: RowStore> WorkingSet<S> {
    /// Pauses or resumes a site at the request of a person.
    pub fn pause_site(
        &mut self,
        site: &Site,
        paused: bool,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let pause = paused.then(|| SitePause {
            site: site.clone(),
            by: audit.actor.clone(),
            reason: audit.reason.clone(),
            at: now,
        });
        if !self.store().pause_site(site, pause.as_ref())? {
            return refuse(match paused {
                true => format!("{site} is paused already"),
                false => format!("{site} is not paused by a person"),
            });
        }
        self.audit(audit, now);
        let draft = events::site_paused(site, paused, &audit.actor.name, &audit.reason);
        self.event(None, None, draft, now);
        Ok(Applied::Done)
    }

    /// Makes the engines of this name claim nothing more, or work again, at the request of a person.
    pub fn drain_engines(
        &mut self,
        name: &str,
        is_drained: bool,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        if self.store().drain_engines(name, is_drained)? == 0 {
            return refuse(format!("no engine of this ledger is called {name}"));
        }
        self.audit(audit, now);
        Ok(Applied::Moved(0))
    }

    /// Writes an event; see [`Change::Note`](crate::ledger::Change::Note).
    pub fn note(&mut self, event: &NewEvent, now: DateTime<Utc>) -> Changing<S, Applied> {
        if event.kind == EventKind::Site && !self.note_site(&event.data)? {
            return Ok(Applied::Done);
        }
        let num = match &event.deletion_id {
            Some(id) => self.store().find_deletion(id)?,
            None => None,
        };
        let draft = EventDraft {
            kind: event.kind,
            words: event.message.clone(),
            fields: event.data.clone(),
        };
        self.event(num, event.step_id, draft, now);
        Ok(Applied::Done)
    }

    /// Saves the state of a site, and returns whether it differs from the saved one. A site without a saved state
    /// counts as reachable.
    fn note_site(&mut self, data: &Value) -> Changing<S, bool> {
        let (Some(site), Some(state)) = (data["site"].as_str(), data["state"].as_str()) else {
            return Ok(true);
        };
        let before = self.store().load_site_state(site)?;
        let changed = before.as_deref().unwrap_or("reachable") != state;
        if changed {
            self.store().save_site_state(site, state)?;
        }
        Ok(changed)
    }
}
