//! The OpenStack provider, driven by kinds: turns templates into calls, and answers into outcomes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::answers::{
    absent, failure, named, not_logged_in, not_shown, other_project, plan_identity, shown_nothing,
    unread, write_outcome,
};
use super::keystone::logs_in_alike;
use super::kinds::{OpenStackKinds, RestCalls, calls_of, microversion, service_of};
use super::project_names::ProjectNames;
use super::requests::{Part, RestList, account_of, escaped, rendered, variables};
use super::session::Service;
use super::{CallError, CloudConfig, ListRequest, Session, Transport};
use crate::cloud::{
    Acted, Call, Cloud, CloudFailure, Fields, Freshness, ListRows, Listed, NameLookup, PAGE_ROWS,
    Row, SignedIn,
};
use crate::domain::kinds::{Kind, Kinds, Offer, Provider, fill, lookup};
use crate::domain::model::{Action, Answer, ErrorClass, Identity, Site};
use crate::domain::policy::{Outcome, Retry};
use crate::system::clock::Clock;

/// Makes the transport of a new session. The error is a message for people.
pub type MakeTransport = dyn Fn(&CloudConfig) -> Result<Arc<dyn Transport>, String> + Send + Sync;

/// Reads the configuration of a cloud again. None if the configuration cannot be used now.
pub type RereadConfig = dyn Fn(&CloudConfig) -> Option<CloudConfig> + Send + Sync;

/// The configured OpenStack clouds.
pub struct OpenStack {
    /// The sites, in the order of the configuration.
    sites: Vec<Site>,
    configured: HashMap<Site, CloudConfig>,
    /// The newer configuration of each site whose login was changed after the start.
    changed: std::sync::Mutex<HashMap<Site, CloudConfig>>,
    reread_config: Option<Box<RereadConfig>>,
    connected: Mutex<HashMap<Site, Arc<Connection>>>,
    transport: Box<MakeTransport>,
    project_names: ProjectNames,
    clock: Clock,
    call_timeout: Duration,
}

struct Connection {
    session: Session,
    extensions: AskedOnce<BTreeSet<String>>,
    /// The newest microversion of each service.
    versions: AskedOnce<Microversion>,
}

/// The answers of services, by the name of the service. A service that has answered is not asked again.
type AskedOnce<T> = std::sync::Mutex<HashMap<String, Arc<OnceCell<T>>>>;

/// Returns the cell that keeps the answer of a service.
fn answer_of<T>(asked: &AskedOnce<T>, service: &str) -> Arc<OnceCell<T>> {
    let mut known = asked.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(service.to_owned()).or_default().clone()
}

/// A microversion: its major and its minor number.
type Microversion = (u32, u32);

impl OpenStack {
    pub fn new(
        clouds: Vec<(Site, CloudConfig)>,
        transport: Box<MakeTransport>,
        clock: Clock,
        call_timeout: Duration,
    ) -> Self {
        Self {
            sites: clouds.iter().map(|(site, _)| site.clone()).collect(),
            configured: clouds.into_iter().collect(),
            changed: std::sync::Mutex::default(),
            reread_config: None,
            connected: Mutex::default(),
            transport,
            project_names: ProjectNames::default(),
            clock,
            call_timeout,
        }
    }

    /// Sets how the configuration of a site is read again, so that a login that was changed after a refusal is used at
    /// once (I15).
    #[must_use]
    pub fn rereading_config(self, reread_config: Box<RereadConfig>) -> Self {
        Self {
            reread_config: Some(reread_config),
            ..self
        }
    }

    /// Returns a site's current configuration: as it was read, or as it was changed since.
    fn configured(&self, site: &Site) -> Option<CloudConfig> {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = changed.get(site).or_else(|| self.configured.get(site));
        found.cloned()
    }

    /// Returns the cloud as it is configured now, if its login has changed.
    fn other_login(&self, site: &Site) -> Option<CloudConfig> {
        let before = self.configured(site)?;
        let now = self.reread_config.as_ref()?(&before)?;
        (!logs_in_alike(&now, &before)).then_some(now)
    }

    /// Returns the connection to a site. It is a new one if there was none, with `anew`, or if its login was refused
    /// and has been changed since (I15).
    async fn connection(&self, site: &Site, anew: bool) -> Result<Arc<Connection>, CloudFailure> {
        let mut connected = self.connected.lock().await;
        let known = connected.get(site);
        let refused = known.is_some_and(|known| known.session.is_refused());
        let other = (anew || refused).then(|| self.other_login(site)).flatten();
        if let (Some(known), false, None) = (known, anew, &other) {
            return Ok(known.clone());
        }
        if let Some(other) = other {
            let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
            changed.insert(site.clone(), other);
        }
        let cloud = self.configured(site).ok_or_else(|| {
            let known: Vec<String> = self.sites.iter().map(Site::to_string).collect();
            CloudFailure::configuration(format!(
                "the site {site} is not configured; configured sites: {}",
                known.join(", ")
            ))
        })?;
        let transport = (self.transport)(&cloud).map_err(CloudFailure::configuration)?;
        let clock = self.clock.clone();
        let connection = Arc::new(Connection {
            session: Session::new(cloud, transport, Arc::new(move || clock.now())),
            extensions: std::sync::Mutex::default(),
            versions: std::sync::Mutex::default(),
        });
        connected.insert(site.clone(), connection.clone());
        Ok(connection)
    }

    /// Whether the site has the service, the API version and the extension that the kind needs. The answers are kept
    /// with the connection. A login to which the service shows nothing is an error, because an empty list would look
    /// like an empty project (P9).
    async fn has(
        &self,
        site: &Site,
        connection: &Connection,
        kind: &Kind,
    ) -> Result<bool, CloudFailure> {
        if calls_of(kind)?.service.needs_project {
            let identity = connection.session.identity().await;
            let identity = identity.map_err(|error| not_logged_in(site, &error))?;
            if identity.project_id.is_none() {
                return Err(shown_nothing(site, kind, &identity));
            }
        }
        let offers = connection.session.offers(&kind.service).await;
        if !offers.map_err(|error| failure(&error, None))? {
            return Ok(false);
        }
        if let Some(needed) = calls_of(kind)?.needed_version()
            && self.newest_version(connection, kind).await? < needed
        {
            return Ok(false);
        }
        let Some(needed) = kind.calls.extension() else {
            return Ok(true);
        };
        Ok(self.extensions(connection, kind).await?.contains(needed))
    }

    /// Returns the aliases of the extensions of the kind's service. The answer is kept with the connection.
    async fn extensions(
        &self,
        connection: &Connection,
        kind: &Kind,
    ) -> Result<BTreeSet<String>, CloudFailure> {
        let path = format!("{}/extensions", calls_of(kind)?.service.prefix);
        let aliases = |answer: &Value| {
            let extensions = answer.get("extensions").and_then(Value::as_array);
            let extensions = extensions.into_iter().flatten();
            let aliases = extensions.filter_map(|one| Some(one.get("alias")?.as_str()?.to_owned()));
            Some(aliases.collect()).filter(|aliases: &BTreeSet<String>| !aliases.is_empty())
        };
        let asked = answer_of(&connection.extensions, &kind.service);
        let answer = asked.get_or_try_init(|| async {
            let answer = self.get(connection, service_of(kind), &path).await;
            let answer = answer.map_err(|error| failure(&error, None))?;
            let missing = || unread(&answer, format!("GET {path} names no extension"));
            aliases(&answer.json).ok_or_else(missing)
        });
        answer.await.cloned()
    }

    /// Returns the newest microversion of the kind's service. The answer is kept with the connection.
    async fn newest_version(
        &self,
        connection: &Connection,
        kind: &Kind,
    ) -> Result<Microversion, CloudFailure> {
        let path = format!("{}/", calls_of(kind)?.service.prefix);
        let newest = |answer: &Value| {
            let versions = answer.get("versions").and_then(Value::as_array);
            let versions = versions.into_iter().flatten();
            let offered = versions.filter_map(|it| microversion(it.get("version")?.as_str()?));
            offered.max()
        };
        // The call names no version, because a service refuses a version that it does not have.
        let service = Service::from(kind.service.as_str());
        let asked = answer_of(&connection.versions, &kind.service);
        let answer = asked.get_or_try_init(|| async {
            let answer = self.get(connection, service, &path).await;
            let answer = answer.map_err(|error| failure(&error, None))?;
            let missing = || unread(&answer, format!("GET {path} names no microversion"));
            newest(&answer.json).ok_or_else(missing)
        });
        answer.await.copied()
    }

    /// Reads a path of a service.
    async fn get(
        &self,
        connection: &Connection,
        service: Service<'_>,
        path: &str,
    ) -> Result<super::Answer, CallError> {
        let session = &connection.session;
        let request = session.request(service, Method::GET, path, None, self.call_timeout);
        request.await
    }

    async fn list_part(
        &self,
        connection: &Connection,
        list: &RestList<'_>,
        part: Part,
        rows_max: Option<usize>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let kind = list.kind;
        let account = part.variables.clone();
        let service = service_of(kind).in_account(list.account(&account));
        let mut pages = connection.session.pages(ListRequest {
            service,
            path: &part.path,
            items_key: &list.call.items,
            query: &part.query,
            page_limit: rows_max.map_or(PAGE_ROWS, |rows| rows.min(PAGE_ROWS)),
            not_found: list.calls.not_found.first().map(String::as_str),
            rows_max,
            paging: list.call.paging,
            row_id: list.call.row_id(),
            options: list.call.options(),
            deadline: self.call_timeout,
        });
        listed(Listed::Part);
        let mut identity = None;
        let failed = |error: CallError| failure(&error, Some(kind));
        let details = match &list.call.details {
            Some(details) => {
                let path = list.filled(&details.path, &part.variables)?;
                let answer = self.get(connection, service, &path).await;
                Some((details, answer.map_err(failed)?.json))
            }
            None => None,
        };
        while let Some(mut page) = pages.next().await.map_err(failed)? {
            if page.first {
                listed(Listed::PartAgain);
            }
            page.items.retain(|row| !list.call.shows_absence(row));
            for row in &mut page.items {
                list.complete(row, &part.variables, &page.identity);
                if let Some((details, answer)) = &details {
                    details.complete(row, answer);
                }
            }
            listed(Listed::Rows(page.items));
            identity = Some(plan_identity(&page.identity));
        }
        Ok(identity)
    }

    /// Sends a call that changes the cloud, and classifies its answer.
    async fn send(
        &self,
        connection: &Connection,
        call: &Call<'_>,
        variables: &BTreeMap<String, String>,
        sent: Sent<'_>,
    ) -> Acted {
        let (method, path, body) = (&sent.method, &sent.path, sent.body.as_ref());
        let (session, deadline) = (&connection.session, self.call_timeout);
        let request = session.request(sent.service, method.clone(), path, body, deadline);
        let line = |answered: &str, request_id: Option<&str>| {
            let id = request_id.map_or_else(String::new, |id| format!(" ({id})"));
            format!("{method} {path} {}{id}", answered.trim_end())
        };
        match request.await {
            Ok(answered) => Acted {
                outcome: Outcome::Accepted,
                named: Vec::new(),
                line: line(&answered.status.to_string(), answered.request_id.as_deref()),
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
                if let Some((status, _)) = absent(&error, call.kind, variables) {
                    let kind = error.remote().and_then(|remote| remote.kind.as_deref());
                    let answered = format!("{status} {}", kind.unwrap_or_default());
                    return Acted {
                        outcome: Outcome::Absent,
                        named: Vec::new(),
                        line: line(&answered, error.request_id()),
                        answer,
                    };
                }
                let failed = failure(&error, Some(call.kind));
                let answered = match failed.status {
                    Some(status) => format!("{status} {}", failed.kind),
                    None => failed.class.as_str().to_owned(),
                };
                Acted {
                    named: named(&error, call),
                    line: line(&answered, error.request_id()),
                    answer,
                    outcome: write_outcome(&error, failed, self.clock.now()),
                }
            }
        }
    }

    /// Lists the login's own project, the only row that the login may see, if the filter finds it.
    async fn own(
        &self,
        request: &ListRows<'_>,
        connection: &Connection,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let identity = connection.session.identity().await;
        let identity = identity.map_err(|error| not_logged_in(request.site, &error))?;
        let row = match &identity.project_id {
            Some(project) => self.read(request.site, request.kind, project).await?.row,
            None => None,
        };
        let fits = |row: &Value| {
            request.filter.is_none_or(|filter| {
                let found = lookup(row, &filter.key);
                found.iter().any(|value| filter.values.contains(value))
            })
        };
        listed(Listed::Part);
        listed(Listed::Rows(row.into_iter().filter(fits).collect()));
        Ok(Some(plan_identity(&identity)))
    }
}

/// A call to one of the site's services.
struct Sent<'k> {
    service: Service<'k>,
    method: Method,
    path: String,
    body: Option<Value>,
}

/// Returns the call to another service that may still have a resource which the kind's own service does not know.
/// None if the kind has no such call, or if the step was planned before the kind had one.
fn elsewhere<'k>(kind: &'k Kind, variables: &BTreeMap<String, String>) -> Option<Sent<'k>> {
    let call = kind.calls_of::<RestCalls>()?.if_absent.as_ref()?;
    Some(Sent {
        service: Service {
            api_version: call.api_version.as_deref(),
            ..Service::from(call.service.as_str())
        },
        method: call.method.parse().ok()?,
        path: fill(&call.path, &escaped(variables)).ok()?,
        body: None,
    })
}

#[async_trait]
impl Cloud for OpenStack {
    fn sites(&self) -> Vec<Site> {
        self.sites.clone()
    }

    fn provider(&self, _: &Site) -> Option<&'static str> {
        Some(OpenStackKinds.name())
    }

    fn has_other_login(&self, site: &Site) -> bool {
        self.other_login(site).is_some()
    }

    async fn identity(&self, site: &Site, freshness: Freshness) -> Result<SignedIn, CloudFailure> {
        let anew = freshness == Freshness::ByLoggingIn;
        let session = &self.connection(site, anew).await?.session;
        let identity = match freshness {
            Freshness::Now => session.identity_now().await,
            Freshness::AtLogin | Freshness::ByLoggingIn => session.identity().await,
        };
        let identity = identity.map_err(|error| not_logged_in(site, &error))?;
        let account = identity
            .project_name
            .as_ref()
            .or(identity.project_id.as_ref())
            .unwrap_or(&identity.domain);
        Ok(SignedIn {
            shown: format!("{} in {account}", identity.user_name),
            identity: plan_identity(&identity),
        })
    }

    async fn endpoint(&self, site: &Site, kind: &Kind) -> Result<String, CloudFailure> {
        let connection = self.connection(site, false).await?;
        let url = connection.session.endpoint(&kind.service, None, None).await;
        url.map(|url| url.to_string())
            .map_err(|error| failure(&error, None))
    }

    async fn offer(&self, site: &Site, kinds: &Kinds) -> Result<Offer, CloudFailure> {
        let connection = self.connection(site, false).await?;
        let services = connection.session.services().await;
        let services = services.map_err(|error| failure(&error, None))?;
        let mut offer = Offer::default();
        for service in kinds.services() {
            if !services.contains(&super::service_type(service)) {
                continue;
            }
            let extended = kinds
                .iter()
                .filter(|kind| kind.service == service)
                .find(|kind| kind.calls.extension().is_some());
            let extensions = match extended {
                Some(kind) => self.extensions(&connection, kind).await?,
                None => BTreeSet::new(),
            };
            offer.covered.insert(service.to_owned(), extensions);
        }
        let covered: BTreeSet<String> = offer
            .covered
            .keys()
            .map(|service| super::service_type(service))
            .collect();
        offer.others = services.difference(&covered).cloned().collect();
        Ok(offer)
    }

    async fn list_by_page(
        &self,
        request: ListRows<'_>,
        listed: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let connection = self.connection(request.site, false).await?;
        let kind = request.kind;
        let list = RestList::of(kind)?;
        if !self.has(request.site, &connection, kind).await? {
            return Ok(None);
        }
        let fields: &[String] = match request.fields {
            Fields::Id if !list.spec.fields.is_empty() => &list.spec.id,
            Fields::Planning => &list.spec.fields,
            Fields::All | Fields::Id => &[],
        };
        let signed_in = connection.session.identity().await;
        let signed_in = signed_in.map_err(|error| not_logged_in(request.site, &error))?;
        if list.spec.own_project
            && let Some(filter) = request.filter
            && filter.key == list.spec.project_filter()
            && (filter.values.iter()).any(|it| Some(it) != signed_in.project_id.as_ref())
        {
            return Err(other_project(request.site, kind, &signed_in));
        }
        let mut identity: Option<Identity> = None;
        for mut part in list.parts(request.filter, &signed_in)? {
            let fields = fields
                .iter()
                .map(|field| ("fields".to_owned(), field.clone()));
            part.query.extend(fields);
            let now = self
                .list_part(&connection, &list, part, request.rows_max, listed)
                .await;
            let now = match now {
                Err(failed) if failed.forbidden && list.spec.own_only => {
                    return self.own(&request, &connection, listed).await;
                }
                Err(failed) if failed.forbidden => {
                    return Err(not_shown(request.site, kind, failed));
                }
                now => now?,
            };
            if identity.is_some() && identity != now {
                let message = format!(
                    "{}: the user's project or roles changed while {} was listed",
                    request.site, kind.name
                );
                let (retry, class) = (Retry::SitePaused, ErrorClass::Auth);
                let changed = CloudFailure::unanswered(retry, class, "IdentityChanged", message);
                return Err(changed);
            }
            identity = now;
        }
        Ok(identity)
    }

    async fn read(&self, site: &Site, kind: &Kind, id: &str) -> Result<Row, CloudFailure> {
        let connection = self.connection(site, false).await?;
        let list = RestList::of(kind)?;
        if !self.has(site, &connection, kind).await? {
            return Ok(Row::not_offered());
        }
        let variables = list.with_parents(kind.id_variables(id));
        if list.calls.service.account && !list.is_whole(&variables) {
            return Ok(Row::answered(None, None));
        }
        let path = list.row_path(&variables)?;
        let method = match list.call.head.is_empty() {
            true => Method::GET,
            false => Method::HEAD,
        };
        let service = service_of(kind).in_account(list.account(&variables));
        let session = &connection.session;
        let answer = session.request(service, method.clone(), &path, None, self.call_timeout);
        match answer.await {
            Ok(answer) if method == Method::HEAD => {
                let mut row = list.row_of_headers(&variables, &answer.headers);
                list.complete(&mut row, &variables, &answer.identity);
                let identity = plan_identity(&answer.identity);
                Ok(Row::answered(Some(row), Some(identity)))
            }
            Ok(answer) => match list.row_in(&answer.json) {
                Some(row @ Value::Object(_)) => {
                    let is_there = !list.call.shows_absence(row);
                    let row = is_there.then(|| {
                        let mut row = row.clone();
                        list.complete(&mut row, &variables, &answer.identity);
                        row
                    });
                    Ok(Row::answered(row, Some(plan_identity(&answer.identity))))
                }
                _ => {
                    let item = list.call.item.as_deref().unwrap_or("id");
                    let message = format!("{site}: GET {path}: the answer has no \"{item}\"");
                    Err(unread(&answer, message))
                }
            },
            Err(error) => match absent(&error, kind, &variables) {
                Some((_, identity)) => Ok(Row {
                    own_project_gone: list.are_projects()
                        && identity.as_ref().is_some_and(|it| it.project_id == id),
                    ..Row::answered(None, identity)
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
        let account = account_of(call.kind, &variables);
        let service = service_of(call.kind).in_account(account);
        let sent = Sent {
            service,
            method,
            path,
            body,
        };
        let acted = self.send(&connection, &call, &variables, sent).await;
        let deletes = matches!(call.action, Action::Delete | Action::Detach);
        let elsewhere = elsewhere(call.kind, &variables).filter(|_| deletes);
        match elsewhere {
            Some(sent) if acted.outcome == Outcome::Absent => {
                let then = self.send(&connection, &call, &variables, sent).await;
                Acted {
                    line: format!("{}; {}", acted.line, then.line),
                    ..then
                }
            }
            _ => acted,
        }
    }

    async fn account_names(
        &self,
        site: &Site,
        ids: &BTreeSet<String>,
        lookup: NameLookup,
    ) -> BTreeMap<String, String> {
        let Ok(connection) = self.connection(site, false).await else {
            return BTreeMap::new();
        };
        let (session, now) = (&connection.session, self.clock.now());
        self.project_names.of(session, ids, lookup, now).await
    }
}
