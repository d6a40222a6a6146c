//! Access rules of the application credential, applied as keystonemiddleware does.
use serde::{Deserialize, Serialize};

use super::{Keystone, Token};
use crate::sandbox::core::Call;

/// One call that a credential allows (Identity API v3, "access rules").
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessRule {
    /// A service's type, for example `network`.
    service: String,
    method: String,
    /// `*` stands for one segment of a path, `**` for any number of segments.
    path: String,
}

impl AccessRule {
    fn allows(&self, service: &str, call: &Call<'_>) -> bool {
        self.service == service
            && self.method == call.method.as_str()
            && matches(self.path.as_bytes(), call.path.as_bytes())
    }
}

impl Keystone {
    /// Whether the access rules of a call's token allow it. Validating a token is always allowed.
    pub(in crate::sandbox) fn is_allowed(&self, service: &str, call: &Call<'_>) -> bool {
        let validates = service == "identity"
            && call.method == http::Method::GET
            && call.path == "/v3/auth/tokens";
        let token = call.header("x-auth-token");
        let rules = token
            .and_then(|secret| self.tokens.get(secret))
            .and_then(|token| token.access_rules.as_deref());
        let allow = |rules: &[AccessRule]| rules.iter().any(|it| it.allows(service, call));
        validates || rules.is_none_or(allow)
    }
}

impl Token {
    /// Whether the caller may see the token. Keystone shows a token with access rules only to a caller that
    /// declares that it applies them.
    pub(super) fn can_be_shown_to(&self, call: &Call<'_>) -> bool {
        self.access_rules.is_none() || call.header("openstack-identity-access-rules").is_some()
    }
}

fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|skipped| matches(rest, &path[skipped..])),
        [b'*', rest @ ..] => {
            let part = path.iter().take_while(|byte| **byte != b'/').count();
            (1..=part).any(|skipped| matches(rest, &path[skipped..]))
        }
        [first, rest @ ..] => path
            .split_first()
            .is_some_and(|(byte, path)| byte == first && matches(rest, path)),
    }
}
