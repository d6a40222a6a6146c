//! The caller of a request, by Keystone's description of its token.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use http::StatusCode;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::refusal::{Refusal, Result};
use super::{Gate, Head, text_of};
use crate::cloud::openstack::{Identity, TokenDescription, TokenScope};
use crate::domain::text::escape;

/// How long an answer of Keystone is valid: a gate notices within this time that a role was revoked.
const VOUCHED_FOR: TimeDelta = TimeDelta::seconds(10);
/// Maximum number of tokens in a cache.
const CACHED_TOKENS_MAX: usize = 10_000;

/// How long a token counts as unknown: long enough that a client that repeats the token costs one call, and short
/// enough for a token that Keystone has just learned of.
const UNKNOWN_FOR: TimeDelta = TimeDelta::seconds(3);
/// Maximum number of a gate's concurrent calls to Keystone about tokens: invalid tokens must not flood Keystone.
const ASKED_MAX: usize = 16;
const NOT_ASKED: &str =
    "Keystone cannot be asked whose token this is; send the request again later";

/// Answers by the token's hash, and until when they are valid; None: Keystone does not know the token.
type Answers = Mutex<HashMap<[u8; 32], (Option<TokenDescription>, DateTime<Utc>)>>;

/// Keystone's recent answers about tokens.
pub(super) struct TokenCache {
    known: Answers,
    /// Kept apart, so that invalid tokens leave space for known ones.
    unknown: Answers,
    asking: Semaphore,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            unknown: Mutex::default(),
            asking: Semaphore::new(ASKED_MAX),
        }
    }
}

impl TokenCache {
    fn find(&self, hash: &[u8; 32], now: DateTime<Utc>) -> Option<Option<TokenDescription>> {
        [&self.known, &self.unknown]
            .into_iter()
            .find_map(|answers| {
                let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                let (described, until) = answers.get(hash)?;
                (now < *until).then(|| described.clone())
            })
    }

    fn keep(&self, hash: [u8; 32], described: Option<TokenDescription>, now: DateTime<Utc>) {
        let (answers, until) = match &described {
            Some(described) => (&self.known, described.expires_at.min(now + VOUCHED_FOR)),
            None => (&self.unknown, now + UNKNOWN_FOR),
        };
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= CACHED_TOKENS_MAX {
            answers.retain(|_, (_, until)| now < *until);
        }
        if answers.len() < CACHED_TOKENS_MAX {
            answers.insert(hash, (described, until));
        }
    }
}

/// The caller of a request, with the rights that the token's scope allows (P13).
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) identity: Identity,
    /// Whether the caller has a role of `admin_roles` for the whole cloud, or in a project of a domain whose
    /// admins are this gate's admins.
    pub(super) is_admin: bool,
    /// Whether the roles are for a project or for the whole cloud.
    has_roles_here: bool,
    /// Address of the request, for the audit.
    pub(super) address: Option<SocketAddr>,
}

impl Caller {
    /// Whether a resource of this project belongs to the project of the caller's token.
    pub(super) fn owns(&self, project_id: &str) -> bool {
        self.identity.project_id.as_deref() == Some(project_id)
    }
}

impl Gate {
    /// Returns the caller, as Keystone vouches for it (P7).
    ///
    /// # Errors
    /// 401: no valid token, or one with access rules, which the gate cannot check. 503: Keystone does not
    /// answer.
    pub(super) async fn caller(&self, head: &Head) -> Result<Caller> {
        let described = self.authenticate(head).await?;
        if described.restricted {
            let message = "the gate cannot check the paths of an application credential with access rules: use one \
                           without access rules";
            return Err(Refusal::of(StatusCode::UNAUTHORIZED, message));
        }
        Ok(Caller {
            is_admin: self.is_admins(&described).await?,
            has_roles_here: matches!(described.scope, TokenScope::Project | TokenScope::System),
            identity: described.identity,
            address: head.extensions.get().copied(),
        })
    }

    /// Whether the token is an admin's at this gate. An admin role in a domain gives no right to the
    /// service's resources, and one in a project of another domain only to those of that project.
    async fn is_admins(&self, described: &TokenDescription) -> Result<bool> {
        if !has_role(&described.identity, &self.parts.settings.admin_roles) {
            return Ok(false);
        }
        let domain = &described.identity.domain;
        match described.scope {
            TokenScope::System => Ok(true),
            TokenScope::Domain | TokenScope::Unscoped => Ok(false),
            TokenScope::Project if self.parts.settings.admin_domains.contains(domain) => Ok(true),
            TokenScope::Project => {
                let own = self.parts.session.identity().await.map_err(|error| {
                    tracing::warn!(gate = %self.address, %error, "the engine's own login fails");
                    Refusal::unavailable(NOT_ASKED)
                })?;
                Ok(own.domain == *domain)
            }
        }
    }

    /// Returns Keystone's description of the request's token, whatever its rights. A request without a valid
    /// token is refused before the gate reads anything for it.
    pub(super) async fn authenticate(&self, head: &Head) -> Result<TokenDescription> {
        let described = self.described(text_of(head, "x-auth-token")).await?;
        let message = "the request needs a token that Keystone knows";
        described.ok_or_else(|| Refusal::of(StatusCode::UNAUTHORIZED, message))
    }

    /// Whether the request has a service's token: a service acts on its own resources.
    pub(super) async fn is_service(&self, head: &Head) -> Result<bool> {
        let described = self.described(text_of(head, "x-service-token")).await?;
        let roles = described.map(|it| it.identity.roles).unwrap_or_default();
        Ok(roles.iter().any(|role| role == "service"))
    }

    async fn described(&self, token: &str) -> Result<Option<TokenDescription>> {
        if token.is_empty() {
            return Ok(None);
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.parts.clock.now();
        if let Some(said) = self.tokens.find(&hash, now) {
            return Ok(said);
        }
        // The semaphore is never closed.
        let _asking = self.tokens.asking.acquire().await.ok();
        // Another request may have asked in the meantime.
        if let Some(said) = self.tokens.find(&hash, now) {
            return Ok(said);
        }
        let token = SecretString::from(token);
        let described = self.parts.session.describe_token(&token).await.map_err(|error| {
            tracing::warn!(gate = %self.address, %error, "Keystone could not be asked about a token; the request is refused");
            Refusal::unavailable(NOT_ASKED)
        })?;
        self.tokens.keep(hash, described.clone(), now);
        Ok(described.filter(|described| now < described.expires_at))
    }

    /// Checks that the caller's roles allow a cascade. The caller's project limits which resources it deletes (P7).
    pub(super) fn may_cascade(&self, caller: &Caller) -> Result<()> {
        let has = |roles| caller.has_roles_here && has_role(&caller.identity, roles);
        // An admin of another domain has the rights of a member in the token's own project.
        let may = has(&self.parts.settings.cascade_roles) || has(&self.parts.settings.admin_roles);
        if caller.is_admin || may {
            return Ok(());
        }
        let message = format!(
            "user {} may not delete through this gate: none of the roles {} is one of its cascade_roles",
            escape(&caller.identity.user_name),
            caller.identity.roles.join(", "),
        );
        Err(Refusal::forbidden(message))
    }
}

fn has_role(caller: &Identity, roles: &[String]) -> bool {
    caller.roles.iter().any(|role| roles.contains(role))
}
