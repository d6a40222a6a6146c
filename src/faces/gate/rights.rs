//! Whose request it is: what Keystone says of its token.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use http::request;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;
use super::{Gate, text_of};
use crate::cloud::openstack::{Identity, Vouched};
use crate::domain::text::escape;

/// How long Keystone's word counts: a role that was taken away ends here after this time.
const VOUCHED_FOR: TimeDelta = TimeDelta::seconds(10);
/// Tokens that are remembered at a time.
const VOUCHERS_MAX: usize = 10_000;

/// By the token's hash: what was said of it, and until when that counts.
type Known = HashMap<[u8; 32], (Vouched, DateTime<Utc>)>;

/// What Keystone has said lately.
#[derive(Default)]
pub(super) struct Vouchers {
    known: Mutex<Known>,
}

impl Vouchers {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, hash: &[u8; 32], now: DateTime<Utc>) -> Option<Vouched> {
        let known = self.lock();
        let (vouched, until) = known.get(hash)?;
        (now < *until).then(|| vouched.clone())
    }

    fn keep(&self, hash: [u8; 32], vouched: &Vouched, now: DateTime<Utc>) {
        let mut known = self.lock();
        if known.len() >= VOUCHERS_MAX {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() < VOUCHERS_MAX {
            let until = vouched.expires_at.min(now + VOUCHED_FOR);
            known.insert(hash, (vouched.clone(), until));
        }
    }
}

impl Gate {
    /// Who asks, as Keystone vouches for it (P7).
    ///
    /// # Errors
    /// 401: no good token, or one whose access rules the gate cannot check. 503: Keystone is silent.
    pub(super) async fn caller(&self, head: &request::Parts) -> Result<Identity, Refusal> {
        let token = text_of(head, "x-auth-token");
        let vouched = self.vouched(token).await?;
        let Some(vouched) = vouched else {
            let message = "the request needs a token that Keystone knows";
            return Err(Refusal::unauthorized(message));
        };
        if vouched.restricted {
            let message = "an application credential with access rules is not enough here: the gate \
                           cannot check its paths";
            return Err(Refusal::unauthorized(message));
        }
        Ok(vouched.identity)
    }

    /// Whether a service asks on the caller's behalf: for what is its own.
    pub(super) async fn is_service(&self, head: &request::Parts) -> Result<bool, Refusal> {
        let token = text_of(head, "x-service-token");
        if token.is_empty() {
            return Ok(false);
        }
        let vouched = self.vouched(token).await?;
        let roles = vouched.map(|it| it.identity.roles).unwrap_or_default();
        Ok(roles.iter().any(|role| role == "service"))
    }

    async fn vouched(&self, token: &str) -> Result<Option<Vouched>, Refusal> {
        if token.is_empty() {
            return Ok(None);
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        if let Some(vouched) = self.vouchers.find(&hash, now) {
            return Ok(Some(vouched));
        }
        let asked = self.session.vouch(&SecretString::from(token)).await;
        let vouched = asked.map_err(|error| {
            tracing::warn!(gate = %self.address, %error, "Keystone does not vouch for tokens now");
            Refusal::unavailable("Keystone cannot be asked whose token this is")
        })?;
        if let Some(vouched) = &vouched {
            self.vouchers.keep(hash, vouched, now);
        }
        Ok(vouched.filter(|vouched| now < vouched.expires_at))
    }

    pub(super) fn is_admin(&self, caller: &Identity) -> bool {
        has_role(caller, &self.settings.admin_roles)
    }

    /// Who may cascade at all; into what, his project says (P7).
    pub(super) fn may_cascade(&self, caller: &Identity) -> Result<(), Refusal> {
        if self.is_admin(caller) || has_role(caller, &self.settings.cascade_roles) {
            return Ok(());
        }
        let message = format!(
            "none of the roles {} may delete here (of {})",
            caller.roles.join(", "),
            escape(&caller.user_name),
        );
        Err(Refusal::forbidden(message))
    }
}

fn has_role(caller: &Identity, roles: &[String]) -> bool {
    caller.roles.iter().any(|role| roles.contains(role))
}
