//! Octavia v2 of one region.
//!
//! A balancer takes one change at a time: it is PENDING_* until `settle` completes the change, and refuses
//! others meanwhile. Resources of all kinds are stored alike, as `Item`s that know their parent; the modules
//! `balancers` and `children` have the rules of each kind. The port of a VIP is created and deleted in the
//! region's network service, so its networks are "in use" by Neutron's own rules.
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

mod attributes;
mod balancers;
mod body;
mod children;
mod graph;
mod kind;
mod lists;
mod policies;
mod resource;
mod revival;
mod seed;
mod session;
mod settling;
mod store;
mod versions;
mod view;

use revival::Tree;
use session::Session;
pub(super) use settling::BalancerChange;
use store::{Store, Undo};
use versions::versions;

use super::Caller;
use super::ids::Ids;
use super::neutron::{self, Neutron};
use super::region::{self, Outcome};
use super::wire::{Answer, Call, Refusal, Result};

/// One region's load-balancer service.
pub(super) struct Octavia {
    store: Store,
    ids: Ids,
    /// Resources to revive as soon as they are gone, and whether under new ids.
    returns: BTreeMap<Uuid, (Tree, bool)>,
}

/// The changes that a call made, so that a fault can roll them back or revive what the call deleted.
#[derive(Default)]
pub(super) struct Changes {
    undone: Vec<Undo>,
    deleted: Vec<Tree>,
}

impl Octavia {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            store: Store::default(),
            ids: Ids::new(seed),
            returns: BTreeMap::new(),
        }
    }

    /// `caller` is `None` for a missing or bad token.
    pub(super) fn handle(
        &mut self,
        call: &Call<'_>,
        caller: Option<&Caller>,
        neutron: &mut Neutron,
        now: DateTime<Utc>,
    ) -> Outcome {
        let unchanged = |answer| Outcome {
            answer,
            changes: region::Changes::default(),
        };
        if call.segments().is_empty() {
            return unchanged(versions(call));
        }
        let Some(caller) = caller else {
            return unchanged(Refusal::unauthorized().octavia());
        };
        self.transact(caller, neutron, now, |session| route(session, call))
    }

    fn transact(
        &mut self,
        caller: &Caller,
        neutron: &mut Neutron,
        now: DateTime<Utc>,
        work: impl FnOnce(&mut Session<'_>) -> Result<Answer>,
    ) -> Outcome {
        self.store.record();
        let mut session = Session {
            octavia: self,
            neutron,
            caller,
            now,
            network: neutron::Changes::default(),
            deleted: Vec::new(),
        };
        let result = work(&mut session);
        let Session {
            network, deleted, ..
        } = session;
        let undone = self.store.recorded();
        let (answer, load_balancer) = match result {
            Ok(answer) => (answer, Changes { undone, deleted }),
            // Whatever was created in the network service stays there, as in Octavia.
            Err(refusal) => {
                self.store.roll_back(undone);
                (shaped(refusal), Changes::default())
            }
        };
        Outcome {
            answer,
            changes: region::Changes {
                network,
                load_balancer,
                ..region::Changes::default()
            },
        }
    }

    pub(super) fn roll_back(&mut self, changes: Changes) {
        self.store.roll_back(changes.undone);
    }
}

/// Gives a refusal its shape: one from before the API's own functions has a title and becomes a page.
fn shaped(refusal: Refusal) -> Answer {
    if refusal.kind.is_empty() {
        return refusal.octavia();
    }
    Answer::json(
        refusal.status,
        json!({
            "code": refusal.status.as_u16(),
            "title": refusal.kind,
            "description": refusal.message,
        }),
    )
}

fn no_page() -> Refusal {
    Refusal::not_found("Not Found", "")
}

fn no_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed", "")
}

fn route(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let segments = call.segments();
    let path = match segments.as_slice() {
        ["v2.0" | "v2"] | ["v2.0" | "v2", "lbaas"] if call.method == Method::GET => {
            return Ok(Answer::ok("v2".into()));
        }
        ["v2.0" | "v2", "lbaas", path @ ..] | ["v2.0" | "v2", path @ ..] => path,
        _ => return Err(no_page()),
    };
    resource::route(session, call, path)
}
