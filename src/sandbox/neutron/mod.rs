//! Neutron v2.0 of one region.
//!
//! Every call runs in a `Session`: it sees the region with its caller's rights, and its changes are rolled
//! back when it is refused. Each kind has a file with its rules; `resource`, `body` and `lists` have the
//! methods that all kinds share, `kind` and `store` the storage.
use std::sync::Arc;

use chrono::{DateTime, Utc};
use http::Method;

mod address_groups;
mod addresses;
mod body;
mod conntrack;
mod fixed;
mod floating_ips;
mod forwardings;
mod groups;
mod interfaces;
mod kind;
mod lists;
mod local_ips;
mod metering;
mod ndp_proxies;
mod networks;
mod pools;
mod ports;
mod qos;
mod resource;
mod revival;
mod routers;
mod scopes;
mod seed;
mod segments;
mod session;
mod store;
mod subnets;
mod trunks;
mod vips;

use address_groups::AddressGroup;
use floating_ips::FloatingIp;
use groups::{Group, Rule};
use local_ips::LocalIp;
use metering::{MeteringLabel, MeteringRule};
use ndp_proxies::NdpProxy;
use networks::Network;
use pools::{Pool, RbacPolicy};
use ports::Port;
use qos::QosPolicy;
use resource::resource;
use routers::Router;
use scopes::AddressScope;
pub(super) use seed::{Seed, Seeded};
use segments::Segment;
use session::Session;
use store::{Store, Undo};
use subnets::Subnet;
use trunks::Trunk;
pub(super) use vips::{VipPort, VipSubnet, WantedPort};

use super::Caller;
use super::ids::Ids;
use super::region::{self, Outcome};
use super::wire::{Answer, Call, Refusal, Result};

/// One region's network service.
pub(super) struct Neutron {
    store: Store,
    ids: Ids,
    keep_ids: bool,
    page_max: Option<usize>,
    segments: u32,
}

/// The data that rules read: the region's resources and the caller.
struct Scope<'a> {
    store: &'a Store,
    caller: &'a Caller,
}

/// The changes that a call made, so that a fault can roll them back or revive what the call deleted.
#[derive(Default)]
pub(super) struct Changes(Vec<Undo>);

impl Neutron {
    /// `keep_ids`: POST may name the id. `page_max`: Neutron's `pagination_max_limit`.
    pub(super) fn new(seed: u64, keep_ids: bool, page_max: Option<usize>) -> Self {
        Self {
            store: Store::default(),
            ids: Ids::new(seed),
            keep_ids,
            page_max,
            segments: 0,
        }
    }

    /// `caller` is `None` for a missing or bad token.
    pub(super) fn handle(
        &mut self,
        call: &Call<'_>,
        caller: Option<&Caller>,
        now: DateTime<Utc>,
    ) -> Outcome {
        if call.segments().is_empty() {
            return Outcome {
                answer: fixed::versions(call),
                changes: region::Changes::default(),
            };
        }
        let Some(caller) = caller else {
            return Outcome {
                answer: Refusal::unauthorized().neutron(),
                changes: region::Changes::default(),
            };
        };
        self.transact(caller, now, |session| {
            session.if_match = if_match(call)?;
            route(session, call)
        })
    }

    pub(super) fn roll_back(&mut self, changes: Changes) {
        self.store.roll_back(changes.0);
    }

    fn transact(
        &mut self,
        caller: &Caller,
        now: DateTime<Utc>,
        work: impl FnOnce(&mut Session<'_>) -> Result<Answer>,
    ) -> Outcome {
        self.store.record();
        let mut session = Session {
            neutron: self,
            caller,
            now,
            if_match: None,
            committed: Vec::new(),
        };
        let result = work(&mut session);
        let mut changes = session.committed;
        let recorded = self.store.recorded();
        let answer = match result {
            Ok(answer) => {
                changes.extend(recorded);
                answer
            }
            Err(refusal) => {
                self.store.roll_back(recorded);
                refusal.neutron()
            }
        };
        Outcome {
            answer,
            changes: region::Changes {
                network: Changes(changes),
                ..region::Changes::default()
            },
        }
    }
}

/// Reads `If-Match: revision_number=N`. A header of another form is ignored, as in Neutron; a malformed
/// number is refused.
fn if_match(call: &Call<'_>) -> Result<Option<u64>> {
    if call.method != Method::PUT && call.method != Method::DELETE {
        return Ok(None);
    }
    let Some(number) = call
        .header("if-match")
        .and_then(|value| value.trim().strip_prefix("revision_number="))
    else {
        return Ok(None);
    };
    number.parse().map(Some).map_err(|_| {
        Refusal::bad_request(
            "BadRequest",
            "Bad if-match request: Revision number etag must be in the format of revision_number=<int>.",
        )
    })
}

fn route(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let segments = call.segments();
    let ["v2.0", path @ ..] = segments.as_slice() else {
        return Err(session.no_such_path());
    };
    match path {
        [] => Ok(fixed::resources(call)),
        ["extensions", rest @ ..] => fixed::extensions(session, rest),
        ["networks", rest @ ..] => resource::<Network>(session, call, rest),
        ["subnets", rest @ ..] => resource::<Subnet>(session, call, rest),
        ["ports", rest @ ..] => resource::<Port>(session, call, rest),
        ["routers", router, "conntrack_helpers", rest @ ..] => {
            conntrack::below(session, call, router, rest)
        }
        ["routers", id, action] if is_action(call, action) => {
            let id = session.changeable::<Router>(id, "update")?;
            routers::act(session, id, action, &call.json()).map(Answer::ok)
        }
        ["routers", rest @ ..] => resource::<Router>(session, call, rest),
        ["floatingips", ip, "port_forwardings", rest @ ..] => {
            forwardings::below(session, call, ip, rest)
        }
        ["floatingips", rest @ ..] => resource::<FloatingIp>(session, call, rest),
        ["trunks", id, "get_subports"] if call.method == Method::GET => {
            let id = session.named::<Trunk>(id)?.meta.id;
            trunks::subports(session, id).map(Answer::ok)
        }
        ["trunks", id, action] if is_action(call, action) => {
            let id = session.changeable::<Trunk>(id, "update")?;
            trunks::act(session, id, action, &call.json()).map(Answer::ok)
        }
        ["trunks", rest @ ..] => resource::<Trunk>(session, call, rest),
        ["security-groups", rest @ ..] => {
            if rest.is_empty() && call.method == Method::GET {
                refill_default_groups(session, call);
            }
            resource::<Group>(session, call, rest)
        }
        ["security-group-rules", rest @ ..] => resource::<Rule>(session, call, rest),
        ["subnetpools", rest @ ..] => resource::<Pool>(session, call, rest),
        ["address-groups", rest @ ..] => resource::<AddressGroup>(session, call, rest),
        ["qos", "policies", rest @ ..] => resource::<QosPolicy>(session, call, rest),
        ["address-scopes", rest @ ..] => resource::<AddressScope>(session, call, rest),
        ["segments", rest @ ..] => resource::<Segment>(session, call, rest),
        ["rbac-policies", rest @ ..] => resource::<RbacPolicy>(session, call, rest),
        ["local_ips", local_ip, "port_associations", rest @ ..] => {
            local_ips::associations(session, call, local_ip, rest)
        }
        ["local_ips", rest @ ..] => resource::<LocalIp>(session, call, rest),
        ["ndp_proxies", rest @ ..] => resource::<NdpProxy>(session, call, rest),
        ["metering", "metering-labels", rest @ ..] => {
            resource::<MeteringLabel>(session, call, rest)
        }
        ["metering", "metering-label-rules", rest @ ..] => {
            resource::<MeteringRule>(session, call, rest)
        }
        _ => fixed::empty_collection(session, call, path),
    }
}

fn is_action(call: &Call<'_>, word: &str) -> bool {
    call.method == Method::PUT && word != "tags"
}

/// Creates the missing default groups of the projects that a list of groups covers, as Neutron does.
fn refill_default_groups(session: &mut Session<'_>, call: &Call<'_>) {
    let mut projects = vec![session.caller.project.clone()];
    if session.caller.admin {
        projects.extend(
            call.query
                .iter()
                .filter(|(key, value)| {
                    matches!(key.as_str(), "project_id" | "tenant_id") && !value.is_empty()
                })
                .map(|(_, value)| Arc::from(value.as_str())),
        );
    }
    for project in projects {
        groups::ensure_default(session, &project);
    }
}
