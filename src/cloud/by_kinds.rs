//! OpenStack, driven by kinds: templates become calls, answers become outcomes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::openstack::{
    self, CallError, Identity as TokenIdentity, ListRequest, Reason, Session, Transport,
};
use super::project_names::ProjectNames;
use super::{
    Acted, Asked, Call, Cloud, CloudFailure, Fields, ListRows, Listed, Names, PAGE_ROWS, Row,
    SignedIn,
};
use crate::domain::kinds::{AnswerClass, CallTemplate, FilterValues, Kind, ListSpec, fill};
use crate::domain::model::{Action, Answer, ErrorClass, Identity, KindName, Site};
use crate::domain::policy::{Outcome, Retry};
use crate::system::clock::Clock;

/// Fronts allow about 8 KB of URL; this much of it for the values of a filter (about 140 ids).
const FILTER_BYTES_MAX: usize = 6 * 1024;
/// Kept of a message in the ledger.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Ids in a refusal that are looked at; the rest show up when these are gone.
const NAMED_MAX: usize = 200;

/// In a path segment everything but unreserved characters is escaped: an id is never a path.
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Makes a session's transport anew when a login must be.
pub type TransportFor =
    dyn Fn(&openstack::Cloud) -> Result<Arc<dyn Transport>, String> + Send + Sync;

/// The configured clouds.
pub struct OpenStack {
    /// In the order of the configuration.
    sites: Vec<Site>,
    configured: HashMap<Site, openstack::Cloud>,
    connected: Mutex<HashMap<Site, Arc<Connection>>>,
    transport: Box<TransportFor>,
    project_names: ProjectNames,
    clock: Clock,
    call_timeout: Duration,
}

struct Connection {
    session: Session,
    extensions: OnceCell<BTreeSet<String>>,
}

impl OpenStack {
    pub fn new(
        clouds: Vec<(Site, openstack::Cloud)>,
        transport: Box<TransportFor>,
        clock: Clock,
        call_timeout: Duration,
    ) -> Self {
        Self {
            sites: clouds.iter().map(|(site, _)| site.clone()).collect(),
            configured: clouds.into_iter().collect(),
            connected: Mutex::default(),
            transport,
            project_names: ProjectNames::default(),
            clock,
            call_timeout,
        }
    }

    async fn connection(&self, site: &Site, anew: bool) -> Result<Arc<Connection>, CloudFailure> {
        let mut connected = self.connected.lock().await;
        if let Some(connection) = connected.get(site).filter(|_| !anew) {
            return Ok(connection.clone());
        }
        let cloud = self.configured.get(site).ok_or_else(|| {
            let known: Vec<String> = self.sites.iter().map(Site::to_string).collect();
            configuration(format!(
                "no such site {site}; configured: {}",
                known.join(", ")
            ))
        })?;
        let transport = (self.transport)(cloud).map_err(configuration)?;
        let clock = self.clock.clone();
        let connection = Arc::new(Connection {
            session: Session::new(cloud.clone(), transport, Arc::new(move || clock.now())),
            extensions: OnceCell::new(),
        });
        connected.insert(site.clone(), connection.clone());
        Ok(connection)
    }

    /// Whether the site has the service and the extension that the kind needs; asked once.
    async fn has(&self, connection: &Connection, kind: &Kind) -> Result<bool, CloudFailure> {
        let offers = connection.session.offers(&kind.service).await;
        if !offers.map_err(|error| failure(&error, None))? {
            return Ok(false);
        }
        let Some(needed) = &kind.spec.requires_extension else {
            return Ok(true);
        };
        let known = connection
            .extensions
            .get_or_try_init(|| async {
                let path = format!("{}/extensions", kind.prefix);
                let request = connection.session.request(
                    &kind.service,
                    Method::GET,
                    &path,
                    None,
                    self.call_timeout,
                );
                let answer = request.await.map_err(|error| failure(&error, None))?;
                let extensions = answer.json.get("extensions").and_then(Value::as_array);
                let aliases = extensions
                    .into_iter()
                    .flatten()
                    .filter_map(|one| one.get("alias")?.as_str());
                Ok(aliases.map(str::to_owned).collect())
            })
            .await?;
        Ok(known.contains(needed))
    }

    async fn list_part(
        &self,
        connection: &Connection,
        (kind, list): (&Kind, &ListSpec),
        Part { path, query }: Part,
        rows_max: Option<usize>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let mut pages = connection.session.pages(ListRequest {
            service: &kind.service,
            path: &path,
            items_key: &list.items,
            query: &query,
            page_limit: rows_max.map_or(PAGE_ROWS, |rows| rows.min(PAGE_ROWS)),
            not_found: kind.spec.not_found.first().map(String::as_str),
            rows_max,
            deadline: self.call_timeout,
        });
        listed(Listed::Part);
        let mut identity = None;
        let failed = |error: CallError| failure(&error, Some(kind));
        while let Some(page) = pages.next().await.map_err(failed)? {
            if page.first {
                listed(Listed::PartAgain);
            }
            listed(Listed::Rows(page.items));
            identity = Some(frozen(&page.identity));
        }
        Ok(identity)
    }
}

#[async_trait]
impl Cloud for OpenStack {
    fn sites(&self) -> Vec<Site> {
        self.sites.clone()
    }

    async fn identity(&self, site: &Site, asked: Asked) -> Result<SignedIn, CloudFailure> {
        let connection = self.connection(site, asked == Asked::ByLoggingIn).await?;
        let session = &connection.session;
        let identity = match asked {
            Asked::Now => session.identity_now().await,
            Asked::AtLogin | Asked::ByLoggingIn => session.identity().await,
        };
        let identity = identity.map_err(|error| CloudFailure {
            retry: if error.rejected() {
                Retry::SitePaused
            } else {
                Retry::Unavailable
            },
            class: if error.rejected() {
                ErrorClass::Auth
            } else {
                ErrorClass::Unavailable
            },
            status: None,
            kind: String::new(),
            message: format!("{site}: {error}"),
            request_id: String::new(),
            retry_after: None,
        })?;
        let place = identity
            .project_name
            .as_ref()
            .or(identity.project_id.as_ref())
            .unwrap_or(&identity.domain);
        Ok(SignedIn {
            shown: format!("{} in {place}", identity.user_name),
            identity: frozen(&identity),
        })
    }

    async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        let connection = self.connection(site, false).await?;
        let url = connection.session.endpoint(&kind.service, None, None).await;
        url.map(|url| url.to_string())
            .map_err(|error| failure(&error, None))
    }

    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let connection = self.connection(request.site, false).await?;
        let kind = request.kind;
        let Some(list) = &kind.spec.list else {
            return Err(configuration(format!("kind {} is not listed", kind.name)));
        };
        if !self.has(&connection, kind).await? {
            return Ok(None);
        }
        let fields: Vec<(String, String)> = match request.fields {
            Fields::All => Vec::new(),
            Fields::Planning => list
                .fields
                .iter()
                .map(|field| ("fields".to_owned(), field.clone()))
                .collect(),
            Fields::Id if list.fields.is_empty() => Vec::new(),
            Fields::Id => vec![("fields".to_owned(), "id".to_owned())],
        };
        let mut identity: Option<Identity> = None;
        for part in parts(kind, list, request.filter)? {
            let part = part.with(&fields);
            let now = self
                .list_part(&connection, (kind, list), part, request.rows_max, listed)
                .await?;
            if identity.is_some() && identity != now {
                return Err(CloudFailure {
                    retry: Retry::SitePaused,
                    class: ErrorClass::Auth,
                    status: None,
                    kind: "IdentityChanged".into(),
                    message: format!(
                        "{}: the user's project or roles changed while {} was listed",
                        request.site, kind.name
                    ),
                    request_id: String::new(),
                    retry_after: None,
                });
            }
            identity = now;
        }
        Ok(identity)
    }

    async fn read(&self, site: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure> {
        let connection = self.connection(site, false).await?;
        let Some(list) = &kind.spec.list else {
            return Err(configuration(format!(
                "kind {} is not read by id",
                kind.name
            )));
        };
        if !self.has(&connection, kind).await? {
            return Ok(Row {
                row: None,
                identity: None,
            });
        }
        let variables = kind.id_variables(id);
        let path = row_path(kind, list, &variables)?;
        let answer = connection
            .session
            .request(&kind.service, Method::GET, &path, None, self.call_timeout)
            .await;
        match answer {
            Ok(answer) => match row_in(&answer.json, list) {
                Some(row @ Value::Object(_)) => Ok(Row {
                    row: Some(row.clone()),
                    identity: Some(frozen(&answer.identity)),
                }),
                _ => Err(CloudFailure {
                    retry: Retry::Scheduled,
                    class: ErrorClass::Unavailable,
                    status: Some(answer.status),
                    kind: String::new(),
                    message: format!(
                        "{site}: GET {path}: the answer has no \"{}\"",
                        list.item.as_deref().unwrap_or("id")
                    ),
                    request_id: answer.request_id.unwrap_or_default(),
                    retry_after: None,
                }),
            },
            Err(error) => match absent(&error, kind, &variables) {
                Some((_, identity)) => Ok(Row {
                    row: None,
                    identity,
                }),
                None => Err(failure(&error, Some(kind))),
            },
        }
    }

    async fn act(&self, call: Call<'_>) -> Acted {
        let connection = match self.connection(call.site, false).await {
            Ok(connection) => connection,
            Err(failed) => {
                let line = failed.message.clone();
                return Acted::not_sent(failed, line, self.clock.now());
            }
        };
        let variables = variables(&call);
        let (method, path, body) = match rendered(&call, &variables) {
            Ok(rendered) => rendered,
            Err(failed) => {
                let line = format!("{} was not sent", call.action.as_str());
                return Acted::not_sent(failed, line, self.clock.now());
            }
        };
        let sent = connection
            .session
            .request(
                &call.kind.service,
                method.clone(),
                &path,
                body.as_ref(),
                self.call_timeout,
            )
            .await;
        let line = |answered: String| format!("{method} {path} {answered}");
        match sent {
            Ok(answered) => Acted {
                outcome: Outcome::Accepted {
                    status: answered.status,
                },
                named: Vec::new(),
                line: line(with_request_id(
                    answered.status.to_string(),
                    answered.request_id.as_deref(),
                )),
                answer: Answer {
                    status: Some(answered.status),
                    request_id: answered.request_id,
                },
            },
            Err(error) => {
                let answer = Answer {
                    status: error.status(),
                    request_id: error.request_id().map(str::to_owned),
                };
                if let Some((status, _)) = absent(&error, call.kind, &variables) {
                    let kind = error
                        .remote()
                        .and_then(|remote| remote.kind.clone())
                        .unwrap_or_default();
                    return Acted {
                        outcome: Outcome::Absent { status },
                        named: Vec::new(),
                        line: line(with_request_id(
                            format!("{status} {kind}"),
                            error.request_id(),
                        )),
                        answer,
                    };
                }
                let failed = failure(&error, Some(call.kind));
                let answered = match failed.status {
                    Some(status) => format!("{status} {}", failed.kind),
                    None => failed.class.as_str().to_owned(),
                };
                Acted {
                    named: named(&error, &call),
                    line: line(with_request_id(answered, error.request_id())),
                    answer,
                    outcome: failed.into_outcome(self.clock.now()),
                }
            }
        }
    }

    async fn project_names(
        &self,
        site: &Site,
        ids: &BTreeSet<String>,
        names: Names,
    ) -> BTreeMap<String, String> {
        match self.connection(site, false).await {
            Ok(connection) => {
                self.project_names
                    .of(&connection.session, ids, names, self.clock.now())
                    .await
            }
            Err(_) => BTreeMap::new(),
        }
    }
}

fn with_request_id(answered: String, request_id: Option<&str>) -> String {
    match request_id {
        Some(id) => format!("{} ({id})", answered.trim_end()),
        None => answered.trim_end().to_owned(),
    }
}

fn frozen(identity: &TokenIdentity) -> Identity {
    Identity {
        user_id: identity.user_id.clone(),
        project_id: identity.project_id.clone().unwrap_or_default(),
        roles: identity.roles.clone(),
    }
}

/// One of the lists that together ask for all values of a filter.
struct Part {
    path: String,
    query: Vec<(String, String)>,
}

impl Part {
    fn with(&self, more: &[(String, String)]) -> Self {
        Self {
            path: self.path.clone(),
            query: self.query.iter().chain(more).cloned().collect(),
        }
    }
}

/// The lists that together ask for all values of a filter; one without any filter asks for all.
fn parts(
    kind: &Kind,
    list: &ListSpec,
    filter: Option<&crate::domain::plan::Filter>,
) -> Result<Vec<Part>, CloudFailure> {
    let mut asked = plain_parts(kind, list, filter)?;
    let plain = asked.len();
    for more in &list.also {
        let more: Vec<(String, String)> = more.clone().into_iter().collect();
        for at in 0..plain {
            asked.extend(asked.get(at).map(|part| part.with(&more)));
        }
    }
    Ok(asked)
}

fn plain_parts(
    kind: &Kind,
    list: &ListSpec,
    filter: Option<&crate::domain::plan::Filter>,
) -> Result<Vec<Part>, CloudFailure> {
    let at = |query: Vec<(String, String)>| Part {
        path: format!("{}{}", kind.prefix, list.path),
        query,
    };
    let key = filter.map(|filter| filter.key.as_str());
    if let Some(within) = &list.within {
        let Some(filter) = filter.filter(|filter| filter.key == *within) else {
            let name = &kind.name;
            return Err(configuration(format!(
                "{name} is listed by {within} alone, not by {}",
                key.unwrap_or("nothing")
            )));
        };
        let path = |value: &String| {
            let variables = BTreeMap::from([(within.clone(), value.clone())]);
            list_path(kind, list, &variables)
        };
        let parts = filter.values.iter().map(|value| {
            Ok(Part {
                path: path(value)?,
                query: Vec::new(),
            })
        });
        return parts.collect();
    }
    let Some(filter) = filter else {
        return Ok(vec![at(Vec::new())]);
    };
    let pair = |value: String| (filter.key.clone(), value);
    let repeated = |values: &[String]| at(values.iter().cloned().map(pair).collect());
    let listed = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        at(vec![pair(format!("in:{}", quoted.join(",")))])
    };
    let runs = runs_of(&filter.values, filter.key.len() + 2);
    Ok(match kind.values_of(&filter.key) {
        FilterValues::Single => filter.values.chunks(1).map(repeated).collect(),
        FilterValues::Repeated => runs.into_iter().map(repeated).collect(),
        FilterValues::Listed => runs.into_iter().map(listed).collect(),
    })
}

/// As Glance reads the values of a list: a comma in one of them ends it, unless it is quoted.
fn quoted(value: &str) -> String {
    match value.contains([',', '"', '\\']) {
        true => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        false => value.to_owned(),
    }
}

/// The values, in as many runs as a URL's length demands; `more` bytes come with each.
fn runs_of(values: &[String], more: usize) -> Vec<&[String]> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (at, value) in values.iter().enumerate() {
        bytes += value.len() + more;
        if bytes > FILTER_BYTES_MAX && at > start {
            runs.extend(values.get(start..at));
            start = at;
            bytes = value.len() + more;
        }
    }
    runs.extend(values.get(start..).filter(|rest| !rest.is_empty()));
    runs
}

fn escaped(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let escape = |value: &str| utf8_percent_encode(value, SEGMENT).to_string();
    let escaped = variables.iter();
    escaped
        .map(|(name, value)| (name.clone(), escape(value)))
        .collect()
}

fn list_path(
    kind: &Kind,
    list: &ListSpec,
    variables: &BTreeMap<String, String>,
) -> Result<String, CloudFailure> {
    let path = fill(&list.path, &escaped(variables)).map_err(|name| {
        configuration(format!("{}: its list's path needs \"{name}\"", kind.name))
    })?;
    Ok(format!("{}{path}", kind.prefix))
}

/// Where one row is: below the list, under its id or what is left of that.
fn row_path(
    kind: &Kind,
    list: &ListSpec,
    variables: &BTreeMap<String, String>,
) -> Result<String, CloudFailure> {
    let last = list.id.last().and_then(|name| variables.get(name));
    let last = utf8_percent_encode(last.map_or("", String::as_str), SEGMENT);
    Ok(format!("{}/{last}", list_path(kind, list, variables)?))
}

fn row_in<'j>(answer: &'j Value, list: &ListSpec) -> Option<&'j Value> {
    match &list.item {
        Some(item) => answer.get(item),
        None => answer.get(list.id.last()?).map(|_| answer),
    }
}

/// What the call's templates may name.
fn variables(call: &Call<'_>) -> BTreeMap<String, String> {
    let mut variables = call.vars.clone();
    variables.extend(call.kind.id_variables(call.id));
    variables
}

fn rendered(
    call: &Call<'_>,
    plain: &BTreeMap<String, String>,
) -> Result<(Method, String, Option<Value>), CloudFailure> {
    let spec = &call.kind.spec;
    let template: &CallTemplate = match (call.action, &spec.enable, &spec.delete) {
        (Action::Enable, Some(enable), _) => &enable.call,
        (_, _, Some(delete)) => delete,
        (_, _, None) => {
            let name = &call.kind.name;
            return Err(configuration(format!("{name}: it is never deleted itself")));
        }
    };
    let escaped = escaped(plain);
    let missing = |name: String| {
        configuration(format!(
            "{} {}: the step has no \"{name}\"",
            call.kind.name, call.id
        ))
    };
    let path = fill(&template.path, &escaped).map_err(missing)?;
    let body = template
        .body
        .as_ref()
        .map(|body| fill_body(body, plain))
        .transpose()
        .map_err(missing)?;
    let method = Method::from_bytes(template.method.as_bytes()).map_err(|_| {
        configuration(format!(
            "{}: no such method {}",
            call.kind.name, template.method
        ))
    })?;
    Ok((method, format!("{}{path}", call.kind.prefix), body))
}

fn fill_body(body: &Value, variables: &BTreeMap<String, String>) -> Result<Value, String> {
    Ok(match body {
        Value::String(template) => Value::String(fill(template, variables)?),
        Value::Array(elements) => Value::Array(
            elements
                .iter()
                .map(|element| fill_body(element, variables))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => {
            let filled = fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), fill_body(value, variables)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// The kind's own not-found answer, in the service's own words (I13a).
fn absent(
    error: &CallError,
    kind: &Kind,
    variables: &BTreeMap<String, String>,
) -> Option<(u16, Option<Identity>)> {
    let Reason::Refused(remote) = &error.reason else {
        return None;
    };
    let error_type = remote.kind.as_deref().unwrap_or_default();
    let said = (remote.status, error_type, remote.message.as_str());
    let known = remote.own && kind.is_not_found(said, variables);
    known.then(|| (remote.status, remote.identity.as_deref().map(frozen)))
}

/// The ids in a refusal, of the kind that the matching rule says: all UUIDs but those of the call.
fn named(error: &CallError, call: &Call<'_>) -> Vec<(KindName, String)> {
    let Some(remote) = error.remote() else {
        return Vec::new();
    };
    let rule = call.kind.classify(
        remote.status,
        remote.kind.as_deref().unwrap_or_default(),
        &remote.message,
    );
    let Some(kind) = rule.and_then(|rule| rule.ids.clone()) else {
        return Vec::new();
    };
    let own: BTreeSet<&str> = call
        .id
        .split(',')
        .chain(call.vars.values().map(String::as_str))
        .collect();
    let mut found = BTreeSet::new();
    for word in remote
        .message
        .split(|c: char| !c.is_ascii_hexdigit() && c != '-')
    {
        if word.len() == 36 && uuid::Uuid::try_parse(word).is_ok() && !own.contains(word) {
            found.insert(word.to_owned());
        }
    }
    found
        .into_iter()
        .take(NAMED_MAX)
        .map(|id| (kind.clone(), id))
        .collect()
}

fn configuration(message: String) -> CloudFailure {
    CloudFailure {
        retry: Retry::Never,
        class: ErrorClass::Fatal,
        status: None,
        kind: "Configuration".into(),
        message,
        request_id: String::new(),
        retry_after: None,
    }
}

/// Classifies what went wrong: by the kind's rules where the service spoke, by what is certain where
/// it did not (N13).
fn failure(error: &CallError, kind: Option<&Kind>) -> CloudFailure {
    let (retry, class) = match &error.reason {
        _ if error.is_auth() => (Retry::SitePaused, ErrorClass::Auth),
        Reason::IdentityChanged => (Retry::SitePaused, ErrorClass::Auth),
        Reason::Refused(remote) if !remote.own => match remote.status {
            // A front speaks: its own 5xx is the service being away, anything else is a riddle.
            500.. | 429 => (Retry::Unavailable, ErrorClass::Unavailable),
            _ => (Retry::Scheduled, ErrorClass::Unavailable),
        },
        Reason::Refused(remote) => refused(remote, kind),
        Reason::Login(_) => (Retry::Unavailable, ErrorClass::Unavailable),
        Reason::Catalog(_) => (Retry::Never, ErrorClass::Fatal),
        Reason::Transport(transport) if transport.nothing_sent() => {
            (Retry::Unavailable, ErrorClass::Unavailable)
        }
        // An answer came and cannot be read, or none came: the call may have had its effect.
        Reason::Transport(_) | Reason::CutOff { .. } | Reason::NotTheService { .. } => {
            (Retry::Unknown, ErrorClass::OutcomeUnknown)
        }
        _ => (Retry::Scheduled, ErrorClass::Unavailable),
    };
    let remote = error.remote();
    // The cloud's own words where it spoke; else what was tried and why it failed.
    let message = match remote {
        Some(remote) if remote.own && class != ErrorClass::Auth => remote.message.clone(),
        _ => error.to_string(),
    };
    CloudFailure {
        retry,
        class,
        status: remote.map(|remote| remote.status),
        kind: remote
            .and_then(|remote| remote.kind.clone())
            .unwrap_or_default(),
        message: capped(&message),
        request_id: error.request_id().unwrap_or_default().to_owned(),
        retry_after: remote.and_then(|remote| remote.retry_after),
    }
}

fn refused(remote: &openstack::RemoteError, kind: Option<&Kind>) -> (Retry, ErrorClass) {
    let error_type = remote.kind.as_deref().unwrap_or_default();
    let rule = kind.and_then(|kind| kind.classify(remote.status, error_type, &remote.message));
    match rule.map(|rule| rule.class) {
        Some(AnswerClass::Blocked) => (Retry::Scheduled, ErrorClass::Blocked),
        Some(AnswerClass::Pending) => (Retry::Pending, ErrorClass::Blocked),
        Some(AnswerClass::Unavailable) => (Retry::Unavailable, ErrorClass::Unavailable),
        Some(AnswerClass::Failed) => (Retry::Scheduled, ErrorClass::Unavailable),
        Some(AnswerClass::Auth) => (Retry::SitePaused, ErrorClass::Auth),
        Some(AnswerClass::Drift) => (Retry::Never, ErrorClass::Drift),
        Some(AnswerClass::Fatal) => (Retry::Never, ErrorClass::Fatal),
        None if remote.status >= 500 || remote.status == 429 => {
            (Retry::Unavailable, ErrorClass::Unavailable)
        }
        None => (Retry::Never, ErrorClass::Fatal),
    }
}

fn capped(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default().to_owned()
}
