//! Who calls: the peer's uid is the actor.
//!
//! 1. Our own uid and root have all scopes. Their consoles and verbs may name the person behind them
//!    (`X-Gone-Actor`, percent-encoded UTF-8: the SSH or sudo user) and the way the command came
//!    (`X-Gone-Origin: console | cli`).
//! 2. The uids of `[api] uids` are served too, as `uid:N`; what they say of themselves is ignored.
//! 3. Everyone else gets 403.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;

use super::problem::Problem;
use super::socket::Peer;
use crate::domain::model::{Actor, Origin};

/// Long enough for `user@host`; short enough for every row of an audit.
const ACTOR_CHARS_MAX: usize = 128;

/// Whom the socket serves.
#[derive(Debug)]
pub(super) struct Admission {
    own: u32,
    others: Vec<u32>,
}

/// Who makes this request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Caller {
    pub(super) actor: Actor,
    /// Own uid or root: may speak for the person behind it.
    pub(super) trusted: bool,
}

impl Admission {
    pub(super) fn new(others: Vec<u32>) -> Self {
        Self {
            own: rustix::process::geteuid().as_raw(),
            others,
        }
    }

    fn caller(&self, uid: u32, headers: &HeaderMap) -> Result<Caller, Problem> {
        let trusted = uid == self.own || uid == 0;
        if !trusted && !self.others.contains(&uid) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!(
                    "uid {uid} may not use this engine; [api] uids in its configuration names who may"
                ),
            ));
        }
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
            actor: Actor {
                name: name.unwrap_or_else(|| format!("uid:{uid}")),
                origin,
            },
            trusted,
        })
    }
}

impl Caller {
    /// Who asks, when the caller says that it is `claimed`.
    pub(super) fn speaking_for(self, claimed: Actor) -> Actor {
        if self.trusted { claimed } else { self.actor }
    }
}

/// Lets in whom the socket serves, and tells the handlers who it is.
pub(super) async fn admit(
    State(admission): State<Arc<Admission>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
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

    const ADMISSION: fn() -> Admission = || Admission {
        own: 1000,
        others: vec![1001],
    };

    fn claims() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-gone-actor", "J%C3%BCrgen".parse().unwrap());
        headers.insert("x-gone-origin", "console".parse().unwrap());
        headers
    }

    #[test]
    fn p06_the_peers_uid_is_the_actor() {
        for uid in [0, 1000, 1001] {
            let caller = ADMISSION().caller(uid, &HeaderMap::new()).unwrap();
            assert_eq!(caller.actor.name, format!("uid:{uid}"));
            assert_eq!(caller.actor.origin, Origin::Api);
        }
    }

    #[test]
    fn p06_only_our_own_uid_and_root_may_speak_for_a_person() {
        for uid in [0, 1000] {
            let caller = ADMISSION().caller(uid, &claims()).unwrap();
            assert_eq!(
                (caller.actor.name.as_str(), caller.trusted),
                ("Jürgen", true)
            );
            assert_eq!(caller.actor.origin, Origin::Console);
        }
        let caller = ADMISSION().caller(1001, &claims()).unwrap();
        assert_eq!(
            (caller.actor.name.as_str(), caller.trusted),
            ("uid:1001", false)
        );
        assert_eq!(caller.actor.origin, Origin::Api);
    }

    #[test]
    fn p06_an_envelope_names_its_actor_only_if_the_caller_is_trusted() {
        let claimed = || Actor {
            name: "alice".to_owned(),
            origin: Origin::Console,
        };
        let speaking = |uid| {
            let caller = ADMISSION().caller(uid, &HeaderMap::new()).unwrap();
            caller.speaking_for(claimed()).name
        };
        assert_eq!(
            [0, 1000, 1001].map(speaking),
            ["alice", "alice", "uid:1001"]
        );
    }

    #[test]
    fn a_foreign_uid_is_forbidden() {
        let problem = ADMISSION().caller(1002, &claims()).unwrap_err();
        assert_eq!(problem.document()["status"], 403);
        assert_eq!(problem.document()["type"], "urn:gone:problem:forbidden");
    }
}
