//! The changes that control calls make to tokens, users and the application credential; and the access rules of the
//! credential, applied as keystonemiddleware does.
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Keystone, ROLES, Token, roles};
use crate::sandbox::core::{Call, Caller};

/// The body of `PUT /sandbox/v1/tokens`. Without `user` the change applies to the tokens of all users; `lifetime_s`
/// always does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::sandbox) struct TokenChange {
    user: Option<String>,
    /// Whether existing tokens are refused from now on.
    revoke: bool,
    /// Existing tokens expire this many seconds from now.
    expires_in_s: Option<u32>,
    /// Lifetime in seconds of tokens issued from now on.
    lifetime_s: Option<u32>,
}

/// The body of `PUT /sandbox/v1/users`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sandbox) struct UserChange {
    name: String,
    password: Option<String>,
    enabled: Option<bool>,
    /// Project's name or id → the user's roles (`admin`, `manager`, `member`, `reader`, `service`); an empty list
    /// removes all roles. Existing tokens lose and gain rights at once.
    #[serde(default)]
    roles: BTreeMap<String, BTreeSet<String>>,
}

/// The body of `PUT /sandbox/v1/credential`: tokens that are issued for the credential from now on have these rules.
/// `null` means no rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sandbox) struct CredentialChange {
    access_rules: Option<Vec<AccessRule>>,
}

impl Keystone {
    pub(in crate::sandbox) fn change_credential(&mut self, change: CredentialChange) {
        self.access_rules = change.access_rules;
    }

    pub(in crate::sandbox) fn change_tokens(
        &mut self,
        change: &TokenChange,
        now: DateTime<Utc>,
    ) -> Result<(), String> {
        let user = change.user.as_ref().map(|name| {
            let user = self.named("user", name);
            user.ok_or_else(|| format!("user: no user {name}"))
        });
        let user = user.transpose()?.map(|user| user.id);
        let is_of_user = |token: &Token| user.is_none_or(|user| token.user == user);
        if change.revoke {
            self.tokens.retain(|_, token| !is_of_user(token));
        }
        if let Some(seconds) = change.expires_in_s {
            for token in self.tokens.values_mut().filter(|token| is_of_user(token)) {
                token.expires = now + TimeDelta::seconds(seconds.into());
            }
        }
        if let Some(seconds) = change.lifetime_s {
            self.lifetime = TimeDelta::seconds(seconds.into());
        }
        Ok(())
    }

    pub(in crate::sandbox) fn change_user(
        &mut self,
        change: UserChange,
        now: DateTime<Utc>,
    ) -> Result<(), String> {
        let user = self.named("user", &change.name);
        let user = user.ok_or_else(|| format!("name: no user {}", change.name))?;
        let id = user.id;
        let mut all = roles(user).cloned().unwrap_or_default();
        for (project, names) in change.roles {
            let id = self.project_id(&project);
            let project = id.ok_or_else(|| format!("roles: no project {project}"))?;
            if let Some(wrong) = names.iter().find(|name| !ROLES.contains(&name.as_str())) {
                return Err(format!("roles: no role {wrong}"));
            }
            match names.is_empty() {
                true => all.shift_remove(project),
                false => all.insert(project.to_owned(), json!(names)),
            };
        }
        let mut session = self.rows.session(Caller::admin_of(""), now);
        session.edit("user", id, |user| {
            user.set("roles", all);
            user.set("enabled", change.enabled.unwrap_or(user.flag("enabled")));
            if let Some(password) = change.password {
                user.set("password", password);
            }
        });
        Ok(())
    }

    /// Whether the access rules of a call's token allow the call. Validating a token is always allowed.
    pub(in crate::sandbox) fn is_allowed(&self, service: &str, call: &Call<'_>) -> bool {
        let validates = service == "identity"
            && call.method == http::Method::GET
            && call.path == "/v3/auth/tokens";
        let token = call.header("x-auth-token");
        let token = token.and_then(|secret| self.tokens.get(secret));
        let rules = token.and_then(|token| token.access_rules.as_ref());
        validates || rules.is_none_or(|rules| rules.iter().any(|it| it.allows(service, call)))
    }
}

/// One rule about the calls that a credential allows (Identity API v3, "access rules").
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessRule {
    /// A service's type, for example `network`.
    service: String,
    method: String,
    /// `*` stands for one or more characters of one segment of a path, `**` for any text.
    path: String,
}

impl AccessRule {
    fn allows(&self, service: &str, call: &Call<'_>) -> bool {
        let path = regex::escape(&self.path);
        let path = path.replace(r"\*\*", "(?s:.*)").replace(r"\*", "[^/]+");
        self.service == service
            && self.method == call.method.as_str()
            && Regex::new(&format!("^{path}$")).is_ok_and(|path| path.is_match(&call.path))
    }
}
