//! Conntrack helpers, which live below their router and are deleted with it.
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::resource::{attributes_in, resource, rows_below};
use super::revival::Renamed;
use super::routers::Router;
use super::store::Store;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

/// The helpers that Neutron allows by default, with their protocols.
const HELPERS: [(&str, &str); 3] = [("amanda", "tcp"), ("ftp", "tcp"), ("tftp", "udp")];

#[derive(Clone, Debug)]
pub(super) struct ConntrackHelper {
    pub(super) meta: Meta,
    router: Uuid,
    protocol: String,
    port: u64,
    helper: String,
}

static KIND: Kind = Kind {
    singular: "conntrack_helper",
    plural: "conntrack_helpers",
    not_found: "ConntrackHelperNotFound",
    before: "Conntrack Helper ",
    after: " could not be found.",
    bulk: false,
    first_revision: None,
    forgets_marker: false,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("protocol", F | S | P | U, Unset::Absent),
        Attribute::new("port", F | S | P | U, Unset::Absent),
        Attribute::new("helper", F | S | P | U, Unset::Absent),
    ],
};

impl Row for ConntrackHelper {
    const KIND: &'static Kind = &KIND;

    stored!(conntrack_helpers, ConntrackHelper);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "protocol" => self.protocol.as_str().into(),
            "port" => self.port.into(),
            "helper" => self.helper.as_str().into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.router);
    }

    /// The body has the router as `router_id`, copied there from the path.
    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let router = session.referred::<Router>(body, "router_id")?.meta.id;
        let protocol = body::required(body, "protocol")?.to_owned();
        let helper = body::required(body, "helper")?.to_owned();
        let port = body.get("port").and_then(Value::as_u64);
        let port = port.ok_or_else(|| body::missing("port"))?;
        let Some((_, supported)) = HELPERS.iter().find(|(known, _)| *known == helper) else {
            return Err(Refusal::bad_request(
                "ConntrackHelperNotAllowed",
                format!("Conntrack Helper {helper} is not allowed."),
            ));
        };
        if protocol != *supported {
            return Err(Refusal::bad_request(
                "InvalidProtocolForHelper",
                format!(
                    "Conntrack Helper {helper} does not support: {protocol}. Supported protocols \
                     are: {supported}"
                ),
            ));
        }
        let row = Self {
            router,
            protocol,
            port,
            helper,
            meta: session.new_meta::<Self>(session.caller.project.clone()),
        };
        let id = session.insert(row);
        session.bump::<Router>(router);
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let port = body.get("port").and_then(Value::as_u64);
        session.edit(id, |row: &mut Self| row.port = port.unwrap_or(row.port));
        Ok(())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }

    fn visible(&self, scope: &Scope<'_>) -> bool {
        let router = scope.store.get::<Router>(self.router);
        router.is_some_and(|router| router.visible(scope))
    }
}

/// Lists the helpers of a router.
pub(super) fn helpers_of(store: &Store, router: Uuid) -> impl Iterator<Item = &ConntrackHelper> {
    let all = store.all::<ConntrackHelper>().values();
    all.filter(move |row| row.router == router)
}

/// Returns the helpers as the router's own row shows them: without ids.
pub(super) fn shown_in_router(store: &Store, router: Uuid) -> Value {
    let shown = |row: &ConntrackHelper| json!({"protocol": row.protocol, "port": row.port, "helper": row.helper});
    helpers_of(store, router).map(shown).collect()
}

/// Handles `/routers/{id}/conntrack_helpers` and everything below.
pub(super) fn below(
    session: &mut Session<'_>,
    call: &Call<'_>,
    router: &str,
    path: &[&str],
) -> Result<Answer> {
    let here = |row: &ConntrackHelper| row.router.to_string() == router;
    match (call.method.as_str(), path) {
        ("GET", []) => rows_below(session, call, here).map(Answer::ok),
        ("POST", []) => {
            let body = call.json();
            let mut attributes = attributes_in::<ConntrackHelper>(&body)?
                .as_object()
                .cloned()
                .unwrap_or_default();
            body::checked(&KIND, &attributes, true, false, session.caller)?;
            attributes.insert("router_id".to_owned(), router.into());
            let id = ConntrackHelper::create(session, &attributes)?;
            let shown = session.shown::<ConntrackHelper>(id);
            Ok(Answer::created(json!({"conntrack_helper": shown})))
        }
        (_, [id]) => {
            let row = session.named::<ConntrackHelper>(id);
            if !row.is_ok_and(here) {
                return Err(KIND.missing(id));
            }
            resource::<ConntrackHelper>(session, call, path)
        }
        _ => Err(session.no_such_path()),
    }
}
