//! Logs in with Keystone v3's `POST /auth/tokens`, and asks Keystone about tokens with `GET /auth/tokens`.
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::catalog::{Catalog, WireService};
use super::config::{CloudConfig, Credentials, DomainRef, Scope, UserRef};
use super::identity::Identity;
use super::remote::RemoteError;
use super::transport::{Transport, TransportError, USER_AGENT};

/// A token is renewed this long before it expires, so that it does not expire during a call.
const MARGIN_SECONDS_MAX: i64 = 120;
/// A token with a short lifetime is used for three quarters of it.
const MARGIN_PART: i32 = 4;

/// A client's token, as Keystone describes it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDescription {
    pub identity: Identity,
    pub expires_at: DateTime<Utc>,
    /// Whether access rules of an application credential restrict the token to some paths of some services.
    pub restricted: bool,
    pub scope: TokenScope,
}

/// The scope of a token. The token's roles count within its scope only (P13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenScope {
    /// One project; [`Identity::domain`] is its domain.
    Project,
    /// A domain itself: its users and projects, but no service's resources.
    Domain,
    /// The whole cloud.
    System,
    /// The token has no scope yet.
    Unscoped,
}

/// Why a login, or a request to Keystone about a token, failed. All calls that waited for the login get the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error(
        "{url}: login refused: {answer}; check {} of cloud {cloud:?} in {found_in}{}",
        to_check(answer),
        not_before(again_at)
    )]
    Rejected {
        url: String,
        cloud: String,
        found_in: String,
        answer: Arc<RemoteError>,
        /// If set, this error is the answer to an earlier login. It counts until this time, or until the
        /// login is changed (I15).
        again_at: Option<DateTime<Utc>>,
    },
    #[error("{url}: login failed: {source}")]
    Transport { url: String, source: TransportError },
    #[error("{url}: login failed: {problem}; is this the URL of a Keystone v3?")]
    NotKeystone { url: String, problem: String },
    #[error("Keystone gave no token before the call's deadline; the call was not sent")]
    NoTime,
}

impl AuthError {
    /// Returns this error as the answer to a later login that was not sent.
    pub(super) fn held_until(mut self, at: DateTime<Utc>) -> Self {
        if let Self::Rejected { again_at, .. } = &mut self {
            *again_at = Some(at);
        }
        self
    }

    /// Returns the answer of Keystone, or of a proxy before it, that refused the login; none for another failure.
    pub fn answer(&self) -> Option<&RemoteError> {
        match self {
            Self::Rejected { answer, .. } => Some(answer),
            Self::Transport { .. } | Self::NotKeystone { .. } | Self::NoTime => None,
        }
    }

    /// Whether Keystone itself refused the login or the token.
    pub fn rejected(&self) -> bool {
        let Self::Rejected { answer, .. } = self else {
            return false;
        };
        matches!(answer.status, 400 | 401 | 403 | 404) && !is_of_a_proxy(answer)
    }
}

/// A token, with the data that came with it. It is kept in memory only.
pub(super) struct Token {
    /// The number of this login within the session, which distinguishes an old token from a new one.
    pub(super) number: u64,
    pub(super) header: HeaderValue,
    pub(super) secret: SecretString,
    pub(super) identity: Arc<Identity>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) renew_at: DateTime<Utc>,
    /// The name of the application credential that the token was issued for, if the credential has access rules.
    pub(super) restricted_by: Option<String>,
}

/// Sends one login, and returns its token with this number.
pub(super) async fn login(
    cloud: &CloudConfig,
    transport: &dyn Transport,
    number: u64,
    now: DateTime<Utc>,
    deadline: Duration,
) -> Result<Token, AuthError> {
    let url = tokens_url(&cloud.auth_url);
    let (body, secret) = request_body(cloud);
    let not_keystone = |problem: String| AuthError::NotKeystone {
        url: url.clone(),
        problem,
    };
    let request = http::Request::builder()
        .method(Method::POST)
        .uri(&url)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, USER_AGENT)
        .body(Bytes::from(body.to_string()))
        .map_err(|error| not_keystone(error.to_string()))?;
    let response = transport.send(request, deadline).await;
    let response = response.map_err(|source| AuthError::Transport {
        url: url.clone(),
        source,
    })?;
    if response.status() != StatusCode::CREATED && response.status() != StatusCode::OK {
        let status = response.status().as_u16();
        tracing::warn!(cloud = cloud.name, status, "login refused");
        return Err(rejected(cloud, &response, &secret, now));
    }
    let mut header = response
        .headers()
        .get("x-subject-token")
        .cloned()
        .ok_or_else(|| not_keystone("the answer has no token".to_owned()))?;
    header.set_sensitive(true);
    let secret = SecretString::from(header.to_str().unwrap_or_default());
    let wire: WireAnswer = serde_json::from_slice(response.body()).map_err(|error| {
        // The error's own text could quote the body.
        not_keystone(format!(
            "the answer is not a token's description ({:?} at line {}, column {})",
            error.classify(),
            error.line(),
            error.column()
        ))
    })?;
    Ok(wire.token.into_token(number, header, secret, now))
}

/// Asks Keystone to describe the session's token now. Its roles may be fewer than when it was issued.
pub(super) async fn check(
    cloud: &CloudConfig,
    transport: &dyn Transport,
    token: &Token,
    now: DateTime<Utc>,
    deadline: Duration,
) -> Result<Identity, AuthError> {
    let subject = token.header.clone();
    let rules = token.restricted_by.is_some();
    let response = described(cloud, transport, (token, subject, rules), deadline).await?;
    match response.status() {
        StatusCode::OK => Ok(description(cloud, &response)?.identity()),
        _ => Err(rejected(cloud, &response, &token.secret, now)),
    }
}

/// Asks Keystone about a token that a client shows. None if Keystone does not know the token, or if it has
/// expired.
pub(super) async fn describe_token(
    cloud: &CloudConfig,
    transport: &dyn Transport,
    ours: &Token,
    theirs: &SecretString,
    now: DateTime<Utc>,
    deadline: Duration,
) -> Result<Option<TokenDescription>, AuthError> {
    let Ok(mut subject) = HeaderValue::from_str(theirs.expose_secret()) else {
        return Ok(None);
    };
    subject.set_sensitive(true);
    let response = described(cloud, transport, (ours, subject, false), deadline).await?;
    match response.status() {
        StatusCode::OK => {
            let token = description(cloud, &response)?;
            Ok(Some(TokenDescription {
                identity: token.identity(),
                expires_at: token.expires_at,
                restricted: token.restricted_by().is_some(),
                scope: token.scope(),
            }))
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(rejected(cloud, &response, theirs, now)),
    }
}

/// Requests Keystone's description of a token. Keystone describes a token with access rules only to a client
/// that declares by a header that it enforces such rules (`rules`).
async fn described(
    cloud: &CloudConfig,
    transport: &dyn Transport,
    (ours, subject, rules): (&Token, HeaderValue, bool),
    deadline: Duration,
) -> Result<http::Response<Bytes>, AuthError> {
    let url = tokens_url(&cloud.auth_url);
    let mut request = http::Request::builder()
        .method(Method::GET)
        .uri(format!("{url}?nocatalog"))
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, USER_AGENT)
        .header("x-auth-token", ours.header.clone())
        .header("x-subject-token", subject);
    if rules {
        request = request.header("openstack-identity-access-rules", "1.0");
    }
    let request = request
        .body(Bytes::new())
        .map_err(|error| AuthError::NotKeystone {
            url: url.clone(),
            problem: error.to_string(),
        })?;
    let sent = transport.send(request, deadline).await;
    sent.map_err(|source| AuthError::Transport { url, source })
}

fn description(
    cloud: &CloudConfig,
    response: &http::Response<Bytes>,
) -> Result<WireToken, AuthError> {
    let wire: Result<WireAnswer, _> = serde_json::from_slice(response.body());
    // The error's own text could quote the body.
    let wire = wire.map_err(|_| AuthError::NotKeystone {
        url: tokens_url(&cloud.auth_url),
        problem: "the answer is not a token's description".to_owned(),
    })?;
    Ok(wire.token)
}

fn rejected(
    cloud: &CloudConfig,
    response: &http::Response<Bytes>,
    secret: &SecretString,
    now: DateTime<Utc>,
) -> AuthError {
    AuthError::Rejected {
        url: tokens_url(&cloud.auth_url),
        cloud: cloud.name.clone(),
        found_in: found_in(cloud),
        answer: Arc::new(RemoteError::of(response, secret, None, now)),
        again_at: None,
    }
}

/// Whether a proxy refused the request, or has no Keystone behind it: it answers with a page of its own, and not in
/// the shape of Keystone's errors.
fn is_of_a_proxy(answer: &RemoteError) -> bool {
    matches!(answer.status, 400 | 403 | 404) && !answer.own
}

fn to_check(answer: &RemoteError) -> &'static str {
    match is_of_a_proxy(answer) {
        true => "the network, the proxies (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) and auth_url",
        false => "user, domain, project and secret",
    }
}

fn not_before(again_at: &Option<DateTime<Utc>>) -> String {
    again_at.map_or_else(String::new, |at| {
        format!(
            "; unless the login changes, gone does not log in before {} UTC, so that the account is not locked",
            at.format("%T")
        )
    })
}

/// Whether both configurations log in at the same Keystone, as the same user, for the same scope, with the
/// same secret.
pub(super) fn logs_in_alike(one: &CloudConfig, other: &CloudConfig) -> bool {
    one.auth_url == other.auth_url && request_body(one).0 == request_body(other).0
}

fn tokens_url(auth_url: &Url) -> String {
    format!("{}/auth/tokens", auth_url.as_str().trim_end_matches('/'))
}

fn found_in(cloud: &CloudConfig) -> String {
    let places: Vec<String> = cloud.found_in.iter().map(ToString::to_string).collect();
    places.join(", ")
}

/// Returns the body of the login, and the secret in it.
fn request_body(cloud: &CloudConfig) -> (Value, SecretString) {
    let (identity, secret) = match &cloud.credentials {
        Credentials::Password {
            user: who,
            password,
        } => {
            let mut user = user(who);
            user["password"] = password.expose_secret().into();
            let identity = json!({"methods": ["password"], "password": {"user": user}});
            (identity, password)
        }
        Credentials::ApplicationCredentialId { id, secret } => {
            let credential = json!({"id": id, "secret": secret.expose_secret()});
            (application_credential(credential), secret)
        }
        Credentials::ApplicationCredentialName {
            name,
            user: who,
            secret,
        } => {
            let credential =
                json!({"name": name, "user": user(who), "secret": secret.expose_secret()});
            (application_credential(credential), secret)
        }
        Credentials::Token(token) => {
            let identity = json!({"methods": ["token"], "token": {"id": token.expose_secret()}});
            (identity, token)
        }
    };
    let mut auth = json!({"identity": identity});
    let scope = match &cloud.scope {
        Scope::ProjectId(id) => json!({"project": {"id": id}}),
        Scope::ProjectName { name, domain: of } => {
            json!({"project": {"name": name, "domain": domain(of)}})
        }
        Scope::Domain(of) => json!({"domain": domain(of)}),
        Scope::System => json!({"system": {"all": true}}),
        Scope::Unscoped => Value::Null,
    };
    if !scope.is_null() {
        auth["scope"] = scope;
    }
    (json!({"auth": auth}), secret.clone())
}

fn application_credential(credential: Value) -> Value {
    json!({"methods": ["application_credential"], "application_credential": credential})
}

fn user(user: &UserRef) -> Value {
    match user {
        UserRef::Id(id) => json!({"id": id}),
        UserRef::Name { name, domain: of } => json!({"name": name, "domain": domain(of)}),
    }
}

fn domain(domain: &DomainRef) -> Value {
    match domain {
        DomainRef::Id(id) => json!({"id": id}),
        DomainRef::Name(name) => json!({"name": name}),
    }
}

#[derive(Deserialize)]
struct WireAnswer {
    token: WireToken,
}

#[derive(Deserialize)]
struct WireToken {
    user: WireUser,
    project: Option<WireUser>,
    domain: Option<WireDomain>,
    system: Option<WireSystem>,
    #[serde(default)]
    roles: Vec<WireRole>,
    #[serde(default)]
    catalog: Vec<WireService>,
    expires_at: DateTime<Utc>,
    issued_at: Option<DateTime<Utc>>,
    application_credential: Option<WireApplicationCredential>,
}

#[derive(Deserialize)]
struct WireSystem {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
struct WireApplicationCredential {
    #[serde(default)]
    name: String,
    #[serde(default)]
    access_rules: Vec<Value>,
}

/// A user or a project. Both have a domain.
#[derive(Deserialize)]
struct WireUser {
    id: String,
    name: String,
    domain: WireDomain,
}

#[derive(Deserialize)]
struct WireDomain {
    id: String,
}

#[derive(Deserialize)]
struct WireRole {
    name: String,
}

impl WireToken {
    fn into_token(
        self,
        number: u64,
        header: HeaderValue,
        secret: SecretString,
        now: DateTime<Utc>,
    ) -> Token {
        // The expiry is computed from the token's lifetime, because this host's clock and the cloud's may
        // differ.
        let lifetime = self.expires_at - self.issued_at.unwrap_or(now);
        let margin = TimeDelta::seconds(MARGIN_SECONDS_MAX).min(lifetime / MARGIN_PART);
        Token {
            number,
            header,
            secret,
            identity: Arc::new(self.identity()),
            restricted_by: self.restricted_by().map(str::to_owned),
            catalog: Arc::new(Catalog::of(self.catalog)),
            renew_at: now + (lifetime - margin),
        }
    }

    fn restricted_by(&self) -> Option<&str> {
        let credential = self.application_credential.as_ref();
        credential
            .filter(|credential| !credential.access_rules.is_empty())
            .map(|credential| credential.name.as_str())
    }

    fn scope(&self) -> TokenScope {
        match (&self.project, &self.domain, &self.system) {
            (Some(_), _, _) => TokenScope::Project,
            (None, Some(_), _) => TokenScope::Domain,
            (None, None, Some(system)) if system.all => TokenScope::System,
            (None, None, _) => TokenScope::Unscoped,
        }
    }

    fn identity(&self) -> Identity {
        let mut roles: Vec<String> = self.roles.iter().map(|role| role.name.clone()).collect();
        roles.sort();
        roles.dedup();
        let project = self.project.as_ref();
        let domain = project
            .map(|project| &project.domain)
            .or(self.domain.as_ref());
        Identity {
            user_id: self.user.id.clone(),
            user_name: self.user.name.clone(),
            project_id: project.map(|project| project.id.clone()),
            project_name: project.map(|project| project.name.clone()),
            roles,
            domain: domain.unwrap_or(&self.user.domain).id.clone(),
        }
    }
}
