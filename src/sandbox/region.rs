//! One region: the rows of its services, and how fast it answers.
use chrono::{DateTime, Utc};

use super::api::Api;
use super::ids::Ids;
use super::keystone::Caller;
use super::kind::Kind;
use super::pace::Pace;
use super::resource;
use super::session::Session;
use super::store::{Store, Undo};
use super::wire::{Answer, Call, Refusal, Result};
use super::{glance, neutron, octavia};

/// The services of a region. Keystone is not among them: all regions share it.
pub(super) static SERVICES: [&Api; 3] = [&neutron::API, &octavia::API, &glance::API];

/// Returns the service with a type of the catalog.
pub(super) fn service(kind: &str) -> Option<&'static Api> {
    SERVICES.into_iter().find(|known| known.kind == kind)
}

/// The options of a world that its regions need.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Whether a POST to Neutron may name the id.
    pub(super) keep_ids: bool,
    /// Neutron's `pagination_max_limit`.
    pub(super) page_max: Option<usize>,
    /// Whether an image's deleted member can be added again.
    pub(super) member_reuse: bool,
}

pub(super) struct Region {
    pub(super) name: String,
    pub(super) store: Store,
    pub(super) ids: Ids,
    pub(super) settings: Settings,
    pub(super) pace: Pace,
    /// The last number that was given to a row.
    pub(super) numbers: u64,
    /// Deletions whose rows are revived once they are gone, and whether under new ids.
    pub(super) waiting: Vec<(Vec<Undo>, bool)>,
}

pub(super) struct Outcome {
    pub(super) answer: Answer,
    /// The changes that the call made, so that a fault can roll them back or revive what the call deleted.
    pub(super) changes: Vec<Undo>,
}

impl Region {
    pub(super) fn new(name: &str, seed: u64, settings: Settings) -> Self {
        let kinds = SERVICES.iter().flat_map(|api| (api.kinds)());
        Self {
            name: name.to_owned(),
            store: Store::new(kinds),
            ids: Ids::new(seed),
            settings,
            pace: Pace::default(),
            numbers: 0,
            waiting: Vec::new(),
        }
    }

    /// Returns the kind with a name, which must be in one of the tables.
    pub(super) fn kind(&self, kind: &str) -> &'static Kind {
        let known = self.store.kind(kind);
        known.unwrap_or_else(|| unreachable!("no table has the kind {kind}"))
    }

    /// Ends everything that is due by `now`.
    pub(super) fn settle(&mut self, now: DateTime<Utc>) {
        while let Some((at, kind, id)) = self.store.first_due(now) {
            self.as_service(at, |session| {
                let row = session.get(kind, id).cloned();
                session.edit(kind, id, |row| row.due = None);
                if let Some(row) = row {
                    (row.kind.hooks.settle)(session, &row);
                }
            });
            for (changes, as_new) in std::mem::take(&mut self.waiting) {
                self.revive(changes, as_new);
            }
        }
    }

    /// Does something by the region itself, not by a call.
    pub(super) fn as_service<T>(
        &mut self,
        now: DateTime<Utc>,
        work: impl FnOnce(&mut Session<'_>) -> T,
    ) -> T {
        work(&mut Session {
            region: self,
            caller: Caller::admin_of(""),
            now,
            if_match: None,
            committed: Vec::new(),
        })
    }

    /// `caller` is `None` for a missing or bad token.
    pub(super) fn handle(
        &mut self,
        api: &'static Api,
        call: &Call<'_>,
        caller: Option<Caller>,
        now: DateTime<Utc>,
    ) -> Outcome {
        let unchanged = |answer| Outcome {
            answer,
            changes: Vec::new(),
        };
        if let Some(answer) = (api.open)(call) {
            return unchanged(answer);
        }
        let Some(caller) = caller else {
            return unchanged((api.refuse)(Refusal::unauthorized(), call));
        };
        let (result, changes) =
            self.transact(caller, now, |session| resource::route(session, api, call));
        Outcome {
            answer: result.unwrap_or_else(|refusal| (api.refuse)(refusal, call)),
            changes,
        }
    }

    /// Does something whole or not at all, and returns the changes.
    pub(super) fn transact<T>(
        &mut self,
        caller: Caller,
        now: DateTime<Utc>,
        work: impl FnOnce(&mut Session<'_>) -> Result<T>,
    ) -> (Result<T>, Vec<Undo>) {
        self.store.record();
        let mut session = Session {
            region: self,
            caller,
            now,
            if_match: None,
            committed: Vec::new(),
        };
        let result = work(&mut session);
        let mut changes = session.committed;
        let recorded = self.store.recorded();
        if result.is_ok() {
            changes.extend(recorded);
        } else {
            self.store.roll_back(recorded);
        }
        (result, changes)
    }
}
