//! The caller of a request: the uid at the other end of the socket is the actor.
//!
//! 1. Our own uid and root have all scopes. Their consoles and verbs may name the person behind them
//!    (`X-Gone-Actor`, percent-encoded UTF-8: the SSH or sudo user) and their front end
//!    (`X-Gone-Origin: console | cli`).
//! 2. The uids of `[api] uids` are served too, as `uid:N`, within the scope that each has there; their
//!    `X-Gone-` headers are ignored.
//! 3. Everyone else gets 403.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Extension, RequestExt};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use super::Api;
use super::input::{self, StrictJson};
use super::problem::Problem;
use crate::control::{Command, ControlError, Envelope};
use crate::domain::model::{Actor, Origin, Scope};

/// The process at the other end of the socket, as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) uid: u32,
}

/// Number of characters of an actor's name in `X-Gone-Actor` that are kept: enough for `user@host`, and few enough for
/// a row of the audit.
const ACTOR_CHARS_MAX: usize = 128;

/// The uids that the socket serves.
#[derive(Debug)]
pub(super) struct Admission {
    own: u32,
    others: BTreeMap<u32, Scope>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Caller {
    actor: Actor,
    scope: Scope,
    /// Whether the caller's uid is the engine's own, or root. Such a caller may name the person behind the request.
    trusted: bool,
    /// The `Idempotency-Key` of the request as it was sent, if it has one.
    idempotency_key: Option<HeaderValue>,
}

impl Api {
    pub(super) fn caller(&self) -> Result<&Caller, Problem> {
        let caller = self.caller.as_ref();
        caller.ok_or_else(|| forbidden("the caller was not admitted".to_owned()))
    }
}

/// The state for a request that changes something, and the request's body.
pub(super) struct Sent<T>(pub(super) Api, pub(super) T);

impl<T: DeserializeOwned> FromRequest<Api> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, api: &Api) -> Result<Self, Problem> {
        let Ok(api) = request.extract_parts_with_state::<Api, _>(api).await;
        let StrictJson(body) = StrictJson::from_request(request, &api).await?;
        Ok(Self(api, body))
    }
}

impl Admission {
    pub(super) fn new(others: BTreeMap<u32, Scope>) -> Self {
        Self {
            own: rustix::process::geteuid().as_raw(),
            others,
        }
    }

    /// Whether the socket serves this uid.
    pub(super) fn serves(&self, uid: u32) -> bool {
        uid == self.own || uid == 0 || self.others.contains_key(&uid)
    }

    /// Whether uids other than our own and root are served.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    fn caller(&self, uid: u32, headers: &HeaderMap) -> Result<Caller, Problem> {
        let trusted = uid == self.own || uid == 0;
        let scope = match self.others.get(&uid) {
            _ if trusted => Scope::Admin,
            Some(&scope) => scope,
            None => return Err(not_served(uid)),
        };
        let header = |name| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .filter(|_| trusted)
        };
        let name = header("x-gone-actor")
            .map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned())
            .filter(|name| !name.is_empty())
            .map(|name| name.chars().take(ACTOR_CHARS_MAX).collect());
        let origin = match header("x-gone-origin") {
            Some("console") => Origin::Console,
            Some("cli") => Origin::Cli,
            _ => Origin::Api,
        };
        Ok(Caller {
            actor: Actor::new(name.unwrap_or_else(|| format!("uid:{uid}")), origin),
            scope,
            trusted,
            idempotency_key: headers.get("idempotency-key").cloned(),
        })
    }
}

impl Caller {
    /// Puts the command into an envelope with the caller's name, if the caller's scope allows the command.
    pub(super) fn authorize_command(
        &self,
        command: Command,
        reason: String,
    ) -> Result<Envelope, Problem> {
        let key = self.idempotency_key.as_ref();
        self.authorize(Envelope {
            reason,
            idempotency_key: key.map(input::idempotency_key).transpose()?,
            ..Envelope::new(command, self.actor.clone())
        })
    }

    /// Returns the envelope if the caller's scope allows its command. Only a trusted caller may name another
    /// actor in it.
    pub(super) fn authorize(&self, mut envelope: Envelope) -> Result<Envelope, Problem> {
        let needed = envelope.command.scope();
        if self.scope < needed {
            return Err(forbidden(format!(
                "this command needs the scope \"{}\", but [api] uids in the engine's settings gives {} the scope \"{}\"",
                needed.as_str(),
                self.actor.name,
                self.scope.as_str(),
            )));
        }
        if !self.trusted {
            envelope.actor = self.actor.clone();
        }
        Ok(envelope)
    }
}

pub(super) fn not_served(uid: u32) -> Problem {
    forbidden(format!(
        "uid {uid} may not use this engine: add the uid to [api] uids in the engine's settings"
    ))
}

fn forbidden(message: String) -> Problem {
    ControlError::Forbidden { message }.into()
}

/// Admits a request if the socket serves its uid, and stores the [`Caller`] for the handlers.
pub(super) async fn admit(
    State(admission): State<Arc<Admission>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let caller = admission.caller(peer.uid, request.headers())?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::domain::model::{KindName, PlanOptions, ResourceKey};

    fn admission() -> Admission {
        Admission {
            own: 1000,
            others: BTreeMap::from([(1001, Scope::Operate), (1003, Scope::View)]),
        }
    }

    fn caller(uid: u32, headers: &HeaderMap) -> Caller {
        admission().caller(uid, headers).unwrap()
    }

    fn claims() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-gone-actor", "J%C3%BCrgen".parse().unwrap());
        headers.insert("x-gone-origin", "console".parse().unwrap());
        headers
    }

    #[test]
    fn p06_the_peers_uid_is_the_actor() {
        for uid in [0, 1000, 1001] {
            let caller = caller(uid, &HeaderMap::new());
            assert_eq!(caller.actor, Actor::new(format!("uid:{uid}"), Origin::Api));
        }
    }

    #[test]
    fn p06_only_our_own_uid_and_root_may_speak_for_a_person() {
        for uid in [0, 1000] {
            let caller = caller(uid, &claims());
            assert_eq!(caller.actor, Actor::new("Jürgen", Origin::Console));
            assert!(caller.trusted);
        }
        let caller = caller(1001, &claims());
        assert_eq!(caller.actor, Actor::new("uid:1001", Origin::Api));
        assert!(!caller.trusted);
    }

    #[test]
    fn p06_an_envelope_names_its_actor_only_if_the_caller_is_trusted() {
        let deletion_id = "d".to_owned();
        let command = Command::Cancel { deletion_id };
        let claimed = Envelope::new(command, Actor::new("alice", Origin::Console));
        let speaking = |uid| {
            let caller = caller(uid, &HeaderMap::new());
            caller.authorize(claimed.clone()).unwrap().actor.name
        };
        let named = [0, 1000, 1001].map(speaking);
        assert_eq!(named, ["alice", "alice", "uid:1001"]);
    }

    #[test]
    fn a_uid_may_do_what_its_scope_allows() {
        let allowed = |uid| {
            let site = "prod/RegionOne".parse().unwrap();
            let key = ResourceKey::new(&site, &KindName::new("network"), "d");
            let plan = Command::Plan {
                targets: Vec::new(),
                options: PlanOptions::default(),
            };
            let deletion_id = "d".to_owned();
            let cancel = Command::Cancel { deletion_id };
            let prune = Command::Prune { before: None };
            [plan, cancel, Command::Release { key }, prune].map(|command| {
                let caller = caller(uid, &HeaderMap::new());
                let authorized = caller.authorize_command(command, String::new());
                authorized
                    .map_err(|problem| assert_eq!(problem.document()["status"], 403))
                    .is_ok()
            })
        };
        assert_eq!(allowed(1003), [true, false, false, false], "view");
        assert_eq!(allowed(1001), [true, true, false, false], "operate");
        assert_eq!(allowed(1000), [true; 4], "the uid of the engine");
        assert_eq!(allowed(0), [true; 4], "root");
    }

    #[test]
    fn an_unlisted_uid_is_forbidden() {
        let problem = admission().caller(1002, &claims()).unwrap_err();
        assert_eq!(problem.document()["status"], 403);
        assert_eq!(problem.document()["type"], "urn:gone:problem:forbidden");
    }
}
