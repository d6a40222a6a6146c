//! A login to one cloud, and the calls made under it in one region.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::call::{Answer, Attempt, CallError, Reason, parse};
use super::catalog::{Catalog, CatalogError, join, join_in_account, overridden, service_type};
use super::config::{CloudConfig, Interface};
use super::identity::Identity;
use super::keystone::{AuthError, Token, TokenDescription, check, describe_token, login};
use super::remote::{RemoteError, request_id, retry_after};
use super::transport::{Transport, TransportError, USER_AGENT};

/// The current time, from the host or from a simulation.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// The deadline of a login. It is longer than a slow Keystone takes, because a failed login fails all calls that
/// wait for it.
const LOGIN_DEADLINE: Duration = Duration::from_secs(30);
/// A refused login is not repeated for this long, and after each further refusal for twice as long (I15),
/// because an account that is used with an old password every half minute gets locked.
const REFUSED_PAUSE_FIRST: Duration = Duration::from_secs(30);
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// A session with a cloud. Put it in an `Arc` to share it between tasks.
///
/// 1. The token is fetched when it is first needed, and renewed shortly before it expires.
/// 2. On a 401 there is one new login, *shared by all calls that wait*, and the call is sent once more. A
///    second 401 is the answer. A refused login is shared too. It is the answer to later calls until a pause
///    has passed, which doubles up to an hour, so that a wrong password locks no account (I15). A new
///    session, which people ask for, begins without a pause.
/// 3. With an application credential that has access rules, a 401 may mean that these rules do not allow the
///    call. Keystone is asked whether the token is valid. If it is, there is no new login, and the answer is
///    [`Reason::AccessRules`].
/// 4. A deadline is for the whole call, including logins.
pub struct Session {
    cloud: CloudConfig,
    transport: Arc<dyn Transport>,
    clock: Clock,
    login: Mutex<Login>,
    /// Number of logins that have ended, successful or not. A call that read a lower number shares the
    /// outcome of the last login.
    ended: AtomicU64,
    refused: AtomicBool,
    /// Number of requests for the current identity so far.
    askers: AtomicU64,
    described: Mutex<Description>,
}

/// Keystone's last description of the session's token.
#[derive(Default)]
struct Description {
    /// Number of requests for the identity when Keystone was asked.
    askers: u64,
    identity: Option<Arc<Identity>>,
}

#[derive(Default)]
struct Login {
    token: Option<Arc<Token>>,
    failure: Option<AuthError>,
    /// Number of logins in a row that Keystone refused.
    refusals: u32,
    /// The time before which a refused login is not repeated.
    not_before: Option<Instant>,
}

impl Login {
    /// Records a failed login.
    fn failed(&mut self, error: &AuthError) {
        self.token = None;
        self.failure = Some(error.clone());
        self.not_before = None;
        if error.rejected() {
            let pause = REFUSED_PAUSE_FIRST.saturating_mul(1 << self.refusals.min(16));
            self.not_before = Some(Instant::now() + pause.min(REFUSED_PAUSE_MAX));
            self.refusals = self.refusals.saturating_add(1);
        }
    }

    /// Returns how long a refused login must still wait; none if it may be sent again.
    fn on_hold(&self) -> Option<Duration> {
        let left = self.not_before?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("site", &self.site())
            .finish_non_exhaustive()
    }
}

/// A service of the catalog, and the version of its API that a call is written for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service<'s> {
    /// The service's type: `compute`.
    pub name: &'s str,
    /// The value of the header `OpenStack-API-Version`: `compute 2.53`. Without it, a service with microversions
    /// answers as its oldest microversion does.
    pub api_version: Option<&'s str>,
    /// The header that names the version, if not `OpenStack-API-Version`: `X-OpenStack-Manila-API-Version`.
    pub version_header: Option<&'s str>,
    /// Headers of every call: name → value.
    pub headers: Option<&'s BTreeMap<String, String>>,
    /// Headers with which an admin's calls reach the rows of all projects: name → value.
    pub admin_headers: Option<&'s BTreeMap<String, String>>,
    /// Set if the service's endpoint ends with a project's account: that project's id; empty for the login's own.
    pub account: Option<&'s str>,
}

impl<'s> Service<'s> {
    /// Returns the service with the account of this project, if its endpoint ends with an account. Without a
    /// project, the account stays.
    pub(super) fn in_account(self, project: Option<&'s String>) -> Self {
        let account = self.account.map(|own| project.map_or(own, String::as_str));
        Self { account, ..self }
    }

    /// Returns the header that states the version of the API.
    pub fn version_header(&self) -> &'s str {
        self.version_header.unwrap_or("openstack-api-version")
    }
}

impl<'s> From<&'s str> for Service<'s> {
    fn from(name: &'s str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }
}

impl Session {
    /// Makes a session for the cloud's region. Nothing is sent yet.
    pub fn new(cloud: CloudConfig, transport: Arc<dyn Transport>, clock: Clock) -> Self {
        Self {
            cloud,
            transport,
            clock,
            login: Mutex::default(),
            ended: AtomicU64::new(0),
            refused: AtomicBool::new(false),
            askers: AtomicU64::new(0),
            described: Mutex::default(),
        }
    }

    /// Returns `cloud/region`, or the cloud's name when no region is configured.
    pub fn site(&self) -> String {
        match &self.cloud.region {
            Some(region) => format!("{}/{region}", self.cloud.name),
            None => self.cloud.name.clone(),
        }
    }

    pub fn cloud(&self) -> &CloudConfig {
        &self.cloud
    }

    /// Returns the identity under which calls are made now. Logs in if needed.
    ///
    /// # Errors
    /// The login fails.
    pub async fn identity(&self) -> Result<Arc<Identity>, AuthError> {
        Ok(self.token(None).await?.identity.clone())
    }

    /// Returns the identity under which calls are made, as Keystone describes it now: a token that is still
    /// valid may have lost roles since it was issued. Callers that wait share a request that is sent after
    /// all of them asked. An error is not shared.
    ///
    /// # Errors
    /// Keystone cannot be asked, or refuses the login.
    pub async fn identity_now(&self) -> Result<Arc<Identity>, AuthError> {
        let own = self.askers.fetch_add(1, Ordering::SeqCst) + 1;
        let mut known = self.described.lock().await;
        if let Some(identity) = known.identity.as_ref().filter(|_| known.askers >= own) {
            return Ok(identity.clone());
        }
        let askers = self.askers.load(Ordering::SeqCst);
        let token = self.token(None).await?;
        let now = (self.clock)();
        let identity = match check(&self.cloud, &*self.transport, &token, now, LOGIN_DEADLINE).await
        {
            Ok(identity) => Arc::new(identity),
            Err(error) if error.rejected() => {
                self.token(Some(token.number)).await?.identity.clone()
            }
            Err(error) => return Err(error),
        };
        *known = Description {
            askers,
            identity: Some(identity.clone()),
        };
        Ok(identity)
    }

    /// Asks Keystone about a token that a client shows. None if Keystone does not know the token, or if it
    /// has expired.
    ///
    /// # Errors
    /// Keystone cannot be asked, or refuses the login.
    pub async fn describe_token(
        &self,
        theirs: &SecretString,
    ) -> Result<Option<TokenDescription>, AuthError> {
        let token = self.token(None).await?;
        let now = (self.clock)();
        let asked = describe_token(
            &self.cloud,
            &*self.transport,
            &token,
            theirs,
            now,
            LOGIN_DEADLINE,
        );
        match asked.await {
            // The session's own token is no longer valid.
            Err(error) if error.rejected() => {
                let token = self.token(Some(token.number)).await?;
                describe_token(
                    &self.cloud,
                    &*self.transport,
                    &token,
                    theirs,
                    now,
                    LOGIN_DEADLINE,
                )
                .await
            }
            answered => answered,
        }
    }

    /// Returns the regions and services. Logs in if needed.
    ///
    /// # Errors
    /// The login fails.
    pub async fn catalog(&self) -> Result<Arc<Catalog>, AuthError> {
        Ok(self.token(None).await?.catalog.clone())
    }

    /// Returns the URL of a service. Region and interface are the configured ones unless they are given.
    ///
    /// # Errors
    /// The login fails; there is no such region, service or interface, and the error lists those that exist; or the
    /// catalog's URL cannot be used.
    pub async fn endpoint(
        &self,
        service: &str,
        region: Option<&str>,
        interface: Option<Interface>,
    ) -> Result<Url, CallError> {
        let fail = |reason| self.error(&Method::GET, service.to_owned(), reason);
        let token = self.token(None).await;
        let token = token.map_err(|error| fail(Reason::Login(Box::new(error))))?;
        self.locate(&token.catalog, service, region, interface)
            .map_err(|error| fail(Reason::Catalog(Box::new(error))))
    }

    /// Whether the catalog has a service in the session's region, or its URL is configured.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn offers(&self, service: &str) -> Result<bool, CallError> {
        match self.endpoint(service, None, None).await {
            Ok(_) => Ok(true),
            Err(error) => match &error.reason {
                Reason::Catalog(why) if matches!(**why, CatalogError::NoSuchService { .. }) => {
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }

    /// Returns the services that the catalog has in the session's region, by their official types.
    ///
    /// # Errors
    /// See [`Reason`].
    pub async fn services(&self) -> Result<BTreeSet<String>, CallError> {
        let fail = |reason| self.error(&Method::GET, "catalog".to_owned(), reason);
        let token = self.token(None).await;
        let token = token.map_err(|error| fail(Reason::Login(Box::new(error))))?;
        let region = token.catalog.region(self.cloud.region.as_deref());
        let region = region.map_err(|error| fail(Reason::Catalog(Box::new(error))))?;
        let endpoints = token.catalog.endpoints().iter();
        let here = endpoints.filter(|endpoint| endpoint.region == region);
        Ok(here.map(|it| service_type(&it.service_type)).collect())
    }

    /// Makes one call. `path_and_query` begins with the version, such as `/v2.0/ports?limit=1`, unless the service's
    /// endpoint ends with an account. The caller percent-encodes the names and ids in it.
    ///
    /// # Errors
    /// Anything but a 2xx with an empty or JSON body. See [`Reason`].
    pub async fn request<'s>(
        &self,
        service: impl Into<Service<'s>>,
        method: Method,
        path_and_query: &str,
        body: Option<&Value>,
        deadline: Duration,
    ) -> Result<Answer, CallError> {
        let service = service.into();
        let until = Instant::now() + deadline;
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let named = || format!("{} {path_and_query}", service.name);
        let before = |reason| self.error(&method, named(), reason);
        let mut stale = None;
        loop {
            let token = timeout_at(until, self.token(stale))
                .await
                .unwrap_or(Err(AuthError::NoTime))
                .map_err(|error| before(Reason::Login(Box::new(error))))?;
            let endpoint = self
                .locate(&token.catalog, service.name, None, None)
                .map_err(|error| before(Reason::Catalog(Box::new(error))))?;
            let url = match service.account {
                None => join(&endpoint, path_and_query),
                Some(project) => {
                    let own = token.identity.project_id.as_deref();
                    join_in_account((&endpoint, service.name), own, project, path_and_query)
                }
            };
            let url = url.map_err(|error| before(Reason::Catalog(Box::new(error))))?;
            let fail = |reason| self.error(&method, display(&url), reason);
            let remaining = until.saturating_duration_since(Instant::now());
            let response = self
                .send(&token, (&method, &url), service, &body, remaining)
                .await
                .map_err(|error| fail(Reason::Transport(error)))?;
            if let Some(credential) = token.restricted_by.as_ref()
                && response.status() == StatusCode::UNAUTHORIZED
                && self
                    .is_good(&token, until)
                    .await
                    .map_err(|error| fail(Reason::Login(Box::new(error))))?
            {
                return Err(fail(Reason::AccessRules {
                    credential: credential.clone(),
                    call: format!("{method} {}", url.path()),
                    service: service.name.to_owned(),
                    answer: Box::new(self.refusal(&response, &token)),
                }));
            }
            let first = stale.is_none();
            if response.status() == StatusCode::UNAUTHORIZED && first {
                stale = Some(token.number);
                continue;
            }
            return self.judge(&response, &token).map_err(fail);
        }
    }

    async fn send(
        &self,
        token: &Token,
        (method, url): (&Method, &Url),
        service: Service<'_>,
        body: &Bytes,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(url.as_str())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, USER_AGENT)
            .header("x-auth-token", token.header.clone());
        if let Some(version) = service.api_version {
            request = request.header(service.version_header(), version);
        }
        let of_admins = service.admin_headers.filter(|_| token.identity.is_admin());
        for (name, value) in service.headers.into_iter().chain(of_admins).flatten() {
            request = request.header(name, value);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(body.clone())
            .map_err(|error| TransportError::BadRequest {
                reason: error.to_string(),
            })?;
        let answer = self.transport.send(request, deadline).await;
        tracing::debug!(
            site = self.site(),
            method = method.as_str(),
            url = display(url),
            status = answer.as_ref().ok().map(|a| a.status().as_u16()),
            request_id = answer
                .as_ref()
                .ok()
                .and_then(|a| request_id(a.headers(), &token.secret)),
            "called"
        );
        answer
    }

    fn judge(&self, response: &http::Response<Bytes>, token: &Token) -> Result<Answer, Reason> {
        let now = (self.clock)();
        let status = response.status();
        let identity = token.identity.clone();
        if !status.is_success() {
            let remote = self.refusal(response, token);
            return Err(match status {
                StatusCode::UNAUTHORIZED => Reason::Unauthorized(Box::new(remote)),
                _ => Reason::Refused(Box::new(remote)),
            });
        }
        let request_id = request_id(response.headers(), &token.secret);
        let json = parse(status.as_u16(), response.body(), request_id.as_ref())?;
        Ok(Answer {
            status: status.as_u16(),
            headers: without_tokens(response.headers()),
            body: response.body().clone(),
            json,
            request_id,
            retry_after: retry_after(response.headers(), now),
            identity,
        })
    }

    fn refusal(&self, response: &http::Response<Bytes>, token: &Token) -> RemoteError {
        let identity = Some(token.identity.clone());
        RemoteError::of(response, &token.secret, identity, (self.clock)())
    }

    /// Whether Keystone says that the session's token is valid now. It is an error if Keystone does not answer: if the
    /// token counted as invalid, the service would refuse the call after a new login too, and the site would be paused
    /// as after a wrong password (I15).
    async fn is_good(&self, token: &Token, until: Instant) -> Result<bool, AuthError> {
        let now = (self.clock)();
        let left = until.saturating_duration_since(Instant::now());
        match check(&self.cloud, &*self.transport, token, now, left).await {
            Ok(_) => Ok(true),
            Err(error) if error.rejected() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns a token that is valid now, and is not the token numbered `stale`.
    async fn token(&self, stale: Option<u64>) -> Result<Arc<Token>, AuthError> {
        let seen = self.ended.load(Ordering::Acquire);
        // The lock is held during the login, so a caller that waits here waits for that login.
        let mut state = self.login.lock().await;
        let now = (self.clock)();
        if let Some(token) = &state.token
            && stale != Some(token.number)
            && now < token.renew_at
        {
            return Ok(token.clone());
        }
        let number = self.ended.load(Ordering::Acquire);
        if let (Some(failure), Some(left)) = (&state.failure, state.on_hold()) {
            return Err(failure.clone().held_until(now + left));
        }
        if let (Some(failure), true) = (&state.failure, number > seen) {
            return Err(failure.clone());
        }
        let outcome = login(&self.cloud, &*self.transport, number, now, LOGIN_DEADLINE).await;
        self.ended.store(number + 1, Ordering::Release);
        match outcome {
            Ok(token) => {
                let token = Arc::new(token);
                self.refused.store(false, Ordering::Release);
                *state = Login {
                    token: Some(token.clone()),
                    ..Login::default()
                };
                Ok(token)
            }
            Err(error) => {
                state.failed(&error);
                self.refused.store(error.rejected(), Ordering::Release);
                Err(error)
            }
        }
    }

    /// Whether the last login was refused. A refused login is sent again only once it has changed, or after a pause
    /// (I15).
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    fn locate(
        &self,
        catalog: &Catalog,
        service: &str,
        region: Option<&str>,
        interface: Option<Interface>,
    ) -> Result<Url, CatalogError> {
        let region = region.or(self.cloud.region.as_deref());
        if let Some(url) = overridden(&self.cloud.endpoint_overrides, service) {
            return Ok(url);
        }
        let (wanted, otherwise) = match interface {
            Some(interface) => (interface, &[][..]),
            None => (self.cloud.interface, &*self.cloud.fallback_interfaces),
        };
        let found = catalog.endpoint(service, region, wanted);
        let Err(CatalogError::NoSuchInterface { .. }) = found else {
            return found;
        };
        let others = otherwise.iter();
        let mut others = others.map(|other| catalog.endpoint(service, region, *other));
        others.find(Result::is_ok).unwrap_or(found)
    }

    pub(super) fn error(&self, method: &Method, url: String, reason: Reason) -> CallError {
        let attempt = Box::new(Attempt {
            method: method.clone(),
            url,
            site: self.site(),
        });
        CallError { attempt, reason }
    }
}

/// Returns the headers in a form whose Debug shows no token. Keystone's answer to a token's check contains
/// a token.
fn without_tokens(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    if let Some(token) = headers.get_mut("x-subject-token") {
        token.set_sensitive(true);
    }
    headers
}

/// Returns a URL without user and password.
fn display(url: &Url) -> String {
    let mut url = url.clone();
    // The two setters fail only for URLs that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}
