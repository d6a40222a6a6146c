//! Neutron v2.0 of one region.
//!
//! Every call runs in a `Session`: it sees the region through its caller's eyes, and what it
//! changes is taken back when it is refused. A kind's rules stand in its own file; what all kinds
//! share (paths, bodies, lists, revision numbers, tags) stands here, in `body` and in `lists`.
use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

mod body;
mod floating_ips;
mod groups;
mod kind;
mod lists;
mod networks;
mod pools;
mod ports;
mod revival;
mod routers;
mod seed;
mod store;
mod subnets;
mod trunks;

use floating_ips::{FloatingIp, Forwarding};
use groups::{Group, Rule};
use kind::{Meta, Row};
use networks::Network;
use pools::{Pool, RbacPolicy};
use ports::Port;
use routers::Router;
pub(super) use seed::{Seed, Seeded};
use store::{Store, Undo};
use subnets::Subnet;
use trunks::Trunk;

use super::Caller;
use super::ids::Ids;
use super::wire::{Answer, Call, Refusal, Result};

/// What this release of Neutron says of itself.
const EXTENSIONS: &str = include_str!("extensions.json");

/// Collections that exist, and stay empty here: path, type and words of a 404.
const EMPTY_COLLECTIONS: [(&str, &str, &str, &str); 9] = [
    (
        "address-scopes",
        "AddressScopeNotFound",
        "Address scope ",
        " could not be found.",
    ),
    (
        "qos/policies",
        "QosPolicyNotFound",
        "QoS policy ",
        " could not be found.",
    ),
    (
        "address-groups",
        "AddressGroupNotFound",
        "Address group ",
        " could not be found.",
    ),
    (
        "segments",
        "SegmentNotFound",
        "Segment ",
        " could not be found.",
    ),
    (
        "local_ips",
        "LocalIPNotFound",
        "Local IP ",
        " could not be found.",
    ),
    (
        "ndp_proxies",
        "NDPProxyNotFound",
        "Ndp proxy ",
        " could not be found.",
    ),
    (
        "metering/metering-labels",
        "MeteringLabelNotFound",
        "Metering label '",
        "' does not exist.",
    ),
    ("agents", "AgentNotFound", "Agent ", " could not be found."),
    (
        "flavors",
        "FlavorNotFound",
        "Flavor ",
        " could not be found.",
    ),
];

/// One region's network service.
pub(super) struct Neutron {
    store: Store,
    ids: Ids,
    keep_ids: bool,
    page_max: Option<usize>,
    segments: u32,
}

/// What a rule needs to know of the region and of who asks.
struct Scope<'a> {
    store: &'a Store,
    caller: &'a Caller,
}

/// What a call changed, so that a fault can take it back, or bring back what it deleted.
#[derive(Default)]
pub(super) struct Changes(Vec<Undo>);

pub(super) struct Outcome {
    pub(super) answer: Answer,
    pub(super) changes: Changes,
}

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
                answer: versions(call),
                changes: Changes::default(),
            };
        }
        let Some(caller) = caller else {
            return Outcome {
                answer: Refusal::unauthorized().neutron(),
                changes: Changes::default(),
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
            changes: Changes(changes),
        }
    }
}

/// One call at work.
struct Session<'a> {
    neutron: &'a mut Neutron,
    caller: &'a Caller,
    now: DateTime<Utc>,
    /// The revision number of `If-Match`.
    if_match: Option<u64>,
    /// Changes that stay even when the call is refused.
    committed: Vec<Undo>,
}

impl Session<'_> {
    fn store(&self) -> &Store {
        &self.neutron.store
    }

    fn caller(&self) -> &Caller {
        self.caller
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            store: &self.neutron.store,
            caller: self.caller,
        }
    }

    /// Makes what was changed so far stay, even when the call is refused.
    fn commit(&mut self) {
        self.committed.extend(self.neutron.store.recorded());
        self.neutron.store.record();
    }

    fn insert<R: Row>(&mut self, row: R) -> Uuid {
        let id = row.meta().id;
        self.neutron.store.put(row);
        id
    }

    fn put<R: Row>(&mut self, row: R) {
        self.neutron.store.put(row);
    }

    fn take<R: Row>(&mut self, id: Uuid) -> Option<R> {
        self.neutron.store.take(id)
    }

    fn edit<R: Row>(&mut self, id: Uuid, change: impl FnOnce(&mut R)) {
        self.neutron.store.edit(id, change);
    }

    /// Raises the revision number and the time of the last update.
    fn bump<R: Row>(&mut self, id: Uuid) {
        let now = self.now;
        self.edit(id, |row: &mut R| {
            row.meta_mut().revision += 1;
            row.meta_mut().updated = now;
        });
    }

    /// A row that is known to be there.
    fn row<R: Row>(&self, id: Uuid) -> Result<&R> {
        self.store().get(id).ok_or_else(|| R::KIND.missing(id))
    }

    /// The row that an id in a path or a body names, if the caller may see it.
    fn named<R: Row>(&self, text: &str) -> Result<&R> {
        // Only the form with dashes is an id here, though `Uuid` reads others.
        let id = Some(text)
            .filter(|text| text.len() == 36)
            .and_then(|text| text.parse().ok());
        id.and_then(|id| self.store().get::<R>(id))
            .filter(|row| row.visible(&self.scope()))
            .ok_or_else(|| R::KIND.missing(text))
    }

    /// The row that a required attribute of a body names.
    fn referred<R: Row>(&self, body: &Map<String, Value>, name: &str) -> Result<R> {
        let text = body::required(body, name)?;
        body::id(body, name)?;
        self.named::<R>(text).cloned()
    }

    /// What every new resource has, out of a checked body.
    fn meta<R: Row>(&mut self, body: &Map<String, Value>) -> Result<Meta> {
        let project = match body.get("project_id").or_else(|| body.get("tenant_id")) {
            Some(Value::String(project)) => project.as_str().into(),
            _ => self.caller.project.clone(),
        };
        let mut meta = self.new_meta::<R>(project);
        if let Some(id) = body::id(body, "id")? {
            if self.store().get::<R>(id).is_some() {
                return Err(Refusal::conflict(
                    "Conflict",
                    format!("{} with id {id} already exists.", R::KIND.singular),
                ));
            }
            meta.id = id;
        }
        body::text(body, "name")?
            .unwrap_or_default()
            .clone_into(&mut meta.name);
        body::text(body, "description")?
            .unwrap_or_default()
            .clone_into(&mut meta.description);
        keep::<R>(&mut meta, body);
        Ok(meta)
    }

    fn new_meta<R: Row>(&mut self, project: Arc<str>) -> Meta {
        Meta {
            id: self.neutron.ids.uuid(),
            project,
            name: String::new(),
            description: String::new(),
            tags: BTreeSet::new(),
            created: self.now,
            updated: self.now,
            revision: R::KIND.first_revision.unwrap_or(0),
            more: Map::new(),
        }
    }

    fn next_segment(&mut self) -> u32 {
        self.neutron.segments += 1;
        self.neutron.segments
    }

    fn random_mac(&mut self) -> [u8; 6] {
        self.neutron.ids.mac()
    }

    /// Refuses when `If-Match` names another revision.
    fn constrain<R: Row>(&self, id: Uuid) -> Result<()> {
        let revision = self.row::<R>(id)?.meta().revision;
        match self.if_match {
            Some(wanted) if wanted != revision && R::KIND.first_revision.is_some() => {
                Err(Refusal::new(
                    StatusCode::PRECONDITION_FAILED,
                    "RevisionNumberConstraintFailed",
                    format!("Constrained to {wanted}, but current revision is {revision}"),
                ))
            }
            _ => Ok(()),
        }
    }

    fn shown<R: Row>(&self, id: Uuid) -> Value {
        self.store()
            .get::<R>(id)
            .map_or(Value::Null, |row| kind::view(row, &[], &self.scope()))
    }

    fn no_such_path(&self) -> Refusal {
        Refusal::not_found("HTTPNotFound", "The resource could not be found.")
    }

    fn unsupported(&self) -> Refusal {
        Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "HTTPMethodNotAllowed",
            "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        )
    }

    fn internal_error(&self) -> Refusal {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "HTTPInternalServerError",
            "Request Failed: internal server error while processing your request.",
        )
    }

    fn forbidden(&self, rule: &str) -> Refusal {
        Refusal::new(
            StatusCode::FORBIDDEN,
            "PolicyNotAuthorized",
            format!("rule:{rule} is disallowed by policy"),
        )
    }

    /// The id of a row that the caller may change. Others' rows are not found, shared ones and
    /// readers are forbidden.
    fn changeable<R: Row>(&self, text: &str, verb: &str) -> Result<Uuid> {
        let row = self.named::<R>(text)?;
        if !self.caller.writes() || !row.writable(&self.scope()) {
            return Err(self.forbidden(&format!("{verb}_{}", R::KIND.singular)));
        }
        Ok(row.meta().id)
    }
}

/// Attributes that no rule reads are kept as they were given.
fn keep<R: Row>(meta: &mut Meta, body: &Map<String, Value>) {
    for (name, value) in body {
        if R::KIND
            .attribute(name)
            .is_some_and(kind::Attribute::is_kept)
        {
            meta.more.insert(name.clone(), value.clone());
        }
    }
}

fn tag_set(tags: &Value) -> Result<BTreeSet<String>> {
    tags.as_array()
        .and_then(|tags| {
            tags.iter()
                .map(|tag| tag.as_str().map(str::to_owned))
                .collect()
        })
        .ok_or_else(|| body::invalid("tags", "the list of tags is not valid."))
}

/// `If-Match: revision_number=N`. A header of another form is ignored, as Neutron does.
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

fn versions(call: &Call<'_>) -> Answer {
    let root = call.url.trim_end_matches('/');
    Answer::ok(json!({"versions": [{
        "id": "v2.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": format!("{root}/v2.0/")}],
    }]}))
}

fn route(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let segments = call.segments();
    let ["v2.0", path @ ..] = segments.as_slice() else {
        return Err(session.no_such_path());
    };
    match path {
        [] => Ok(resources(call)),
        ["extensions", rest @ ..] => extensions(session, rest),
        ["networks", rest @ ..] => resource::<Network>(session, call, rest),
        ["subnets", rest @ ..] => resource::<Subnet>(session, call, rest),
        ["ports", rest @ ..] => resource::<Port>(session, call, rest),
        ["routers", id, action] if is_action(call, action) => {
            let id = session.changeable::<Router>(id, "update")?;
            routers::act(session, id, action, &call.json()).map(Answer::ok)
        }
        ["routers", rest @ ..] => resource::<Router>(session, call, rest),
        ["floatingips", ip, "port_forwardings", rest @ ..] => forwardings(session, call, ip, rest),
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
        ["rbac-policies", rest @ ..] => resource::<RbacPolicy>(session, call, rest),
        _ => empty_collection(session, call, path),
    }
}

fn is_action(call: &Call<'_>, word: &str) -> bool {
    call.method == Method::PUT && word != "tags"
}

/// What all kinds answer to.
fn resource<R: Row>(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Result<Answer> {
    let method = call.method.as_str();
    match (method, path) {
        ("GET", []) => {
            lists::list::<R>(call, &session.scope(), session.neutron.page_max).map(Answer::ok)
        }
        ("POST", []) => create::<R>(session, call),
        // There is no bulk DELETE and no bulk PUT: the id is taken for missing.
        ("PUT" | "DELETE", []) => Err(R::KIND.missing("None")),
        ("GET", [id]) => {
            let row = session.named::<R>(id)?;
            let fields = lists::fields_of(R::KIND, call)?;
            Ok(Answer::ok(
                json!({R::KIND.singular: kind::view(row, &fields, &session.scope())}),
            ))
        }
        ("PUT", [id]) => update::<R>(session, call, id),
        ("DELETE", [id]) => {
            let id = session.changeable::<R>(id, "delete")?;
            let row = session.row::<R>(id)?.clone();
            row.deletable(session)?;
            session.constrain::<R>(id)?;
            R::delete(session, id);
            Ok(Answer::no_content())
        }
        (_, [_] | []) => Err(session.unsupported()),
        (_, [id, "tags", rest @ ..]) if R::KIND.attribute("tags").is_some() => {
            tags::<R>(session, call, id, rest)
        }
        _ => Err(session.no_such_path()),
    }
}

fn create<R: Row>(session: &mut Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let kind = R::KIND;
    let body = call.json();
    if !session.caller.writes() {
        return Err(session.forbidden(&format!("create_{}", kind.singular)));
    }
    if let Some(items) = body.get(kind.plural).and_then(Value::as_array) {
        if !kind.bulk {
            return Err(Refusal::bad_request(
                "HTTPBadRequest",
                "Bulk operation not supported",
            ));
        }
        if kind.plural == Rule::KIND.plural {
            groups::one_group(items)?;
        }
        let made: Vec<Value> = items
            .iter()
            .map(|item| {
                let id = create_one::<R>(session, item)?;
                Ok(session.shown::<R>(id))
            })
            .collect::<Result<_>>()?;
        return Ok(Answer::created(json!({kind.plural: made})));
    }
    let id = create_one::<R>(session, attributes_in::<R>(&body)?)?;
    Ok(Answer::created(
        json!({kind.singular: session.shown::<R>(id)}),
    ))
}

fn attributes_in<R: Row>(body: &Value) -> Result<&Value> {
    body.get(R::KIND.singular).ok_or_else(|| {
        Refusal::bad_request(
            "HTTPBadRequest",
            format!("Unable to find '{}' in request body", R::KIND.singular),
        )
    })
}

fn create_one<R: Row>(session: &mut Session<'_>, attributes: &Value) -> Result<Uuid> {
    let empty = Map::new();
    let attributes = attributes.as_object().unwrap_or(&empty);
    body::checked(
        R::KIND,
        attributes,
        true,
        session.neutron.keep_ids,
        session.caller,
    )?;
    R::create(session, attributes)
}

fn update<R: Row>(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    let body = call.json();
    let empty = Map::new();
    let attributes = body.get(R::KIND.singular).and_then(Value::as_object);
    // A body that cannot be is refused before the id is looked up; a missing one after it.
    body::checked(
        R::KIND,
        attributes.unwrap_or(&empty),
        false,
        false,
        session.caller,
    )?;
    let id = session.changeable::<R>(id, "update")?;
    attributes_in::<R>(&body)?;
    let attributes = attributes.unwrap_or(&empty);
    session.constrain::<R>(id)?;
    let name = body::text(attributes, "name")?.map(str::to_owned);
    let description = body::text(attributes, "description")?.map(str::to_owned);
    session.edit(id, |row: &mut R| {
        let meta = row.meta_mut();
        if let Some(name) = name {
            meta.name = name;
        }
        if let Some(description) = description {
            meta.description = description;
        }
        keep::<R>(meta, attributes);
    });
    R::update(session, id, attributes)?;
    session.bump::<R>(id);
    Ok(Answer::ok(
        json!({R::KIND.singular: session.shown::<R>(id)}),
    ))
}

/// `/{collection}/{id}/tags` and `/tags/{tag}`.
fn tags<R: Row>(
    session: &mut Session<'_>,
    call: &Call<'_>,
    id: &str,
    path: &[&str],
) -> Result<Answer> {
    let method = call.method.as_str();
    if method == "GET" {
        let tags = &session.named::<R>(id)?.meta().tags;
        return match path {
            [] => Ok(Answer::ok(json!({"tags": tags}))),
            [tag] if tags.contains(*tag) => Ok(Answer::no_content()),
            [tag] => Err(no_such_tag(tag)),
            _ => Err(session.no_such_path()),
        };
    }
    let id = session.changeable::<R>(id, "update")?;
    let mut tags = session.row::<R>(id)?.meta().tags.clone();
    let answer = match (method, path) {
        ("PUT", []) => {
            tags = tag_set(call.json().get("tags").unwrap_or(&Value::Null))?;
            Answer::ok(json!({"tags": tags}))
        }
        ("PUT", [tag]) => {
            tags.insert((*tag).to_owned());
            Answer::created(Value::Null)
        }
        ("DELETE", []) => {
            tags.clear();
            Answer::no_content()
        }
        ("DELETE", [tag]) => {
            if !tags.remove(*tag) {
                return Err(no_such_tag(tag));
            }
            Answer::no_content()
        }
        _ => return Err(session.no_such_path()),
    };
    session.edit(id, |row: &mut R| row.meta_mut().tags = tags);
    session.bump::<R>(id);
    Ok(answer)
}

fn no_such_tag(tag: &str) -> Refusal {
    Refusal::not_found("TagNotFound", format!("Tag {tag} could not be found."))
}

/// Port forwardings live below their floating IP, and are seen only there.
fn forwardings(
    session: &mut Session<'_>,
    call: &Call<'_>,
    ip: &str,
    path: &[&str],
) -> Result<Answer> {
    let ip = session.named::<FloatingIp>(ip)?.meta.id;
    let here = |session: &Session<'_>, text: &str| {
        session
            .named::<Forwarding>(text)
            .ok()
            .filter(|forwarding| forwarding.floating_ip == ip)
            .map(|forwarding| forwarding.meta.id)
            .ok_or_else(|| Forwarding::KIND.missing(text))
    };
    match (call.method.as_str(), path) {
        ("GET", []) => {
            let scope = session.scope();
            let all: Value = scope
                .store
                .indexes()
                .forwardings_by_floating_ip
                .of(&ip)
                .filter_map(|id| scope.store.get::<Forwarding>(id))
                .map(|forwarding| kind::view(forwarding, &[], &scope))
                .collect();
            Ok(Answer::ok(json!({"port_forwardings": all})))
        }
        ("POST", []) => {
            if !session.caller.writes() {
                return Err(session.forbidden("create_floatingip_port_forwarding"));
            }
            let body = call.json();
            let mut attributes = attributes_in::<Forwarding>(&body)?
                .as_object()
                .cloned()
                .unwrap_or_default();
            body::checked(Forwarding::KIND, &attributes, true, false, session.caller)?;
            attributes.insert("floatingip_id".to_owned(), ip.to_string().into());
            let id = Forwarding::create(session, &attributes)?;
            Ok(Answer::created(
                json!({"port_forwarding": session.shown::<Forwarding>(id)}),
            ))
        }
        (_, [id]) => {
            here(session, id)?;
            resource::<Forwarding>(session, call, path)
        }
        _ => Err(session.no_such_path()),
    }
}

/// Listing groups makes the default one of each project that the list is about.
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

fn resources(call: &Call<'_>) -> Answer {
    let root = call.url.trim_end_matches('/');
    let listed: Value = ["network", "subnet", "subnetpool", "port"]
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "collection": format!("{name}s"),
                "links": [{"rel": "self", "href": format!("{root}/{name}s")}],
            })
        })
        .collect();
    Answer::ok(json!({"resources": listed}))
}

fn extensions(session: &Session<'_>, path: &[&str]) -> Result<Answer> {
    let all: Value = serde_json::from_str(EXTENSIONS).map_err(|_| session.internal_error())?;
    match path {
        [] => Ok(Answer::ok(json!({"extensions": all}))),
        [alias] => all
            .as_array()
            .into_iter()
            .flatten()
            .find(|extension| extension.get("alias").and_then(Value::as_str) == Some(*alias))
            .map(|extension| Answer::ok(json!({"extension": extension})))
            .ok_or_else(|| session.no_such_path()),
        _ => Err(session.no_such_path()),
    }
}

fn empty_collection(session: &Session<'_>, call: &Call<'_>, path: &[&str]) -> Result<Answer> {
    let joined = path.join("/");
    for (collection, kind, before, after) in EMPTY_COLLECTIONS {
        let Some(rest) = joined.strip_prefix(collection) else {
            continue;
        };
        if rest.is_empty() && call.method == Method::GET {
            let plural = collection
                .rsplit('/')
                .next()
                .unwrap_or(collection)
                .replace('-', "_");
            return Ok(Answer::ok(json!({plural: []})));
        }
        if let Some(id) = rest.strip_prefix('/') {
            return Err(Refusal::not_found(kind, format!("{before}{id}{after}")));
        }
    }
    Err(session.no_such_path())
}
