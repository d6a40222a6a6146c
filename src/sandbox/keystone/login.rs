//! Issues tokens for proofs of identity.
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Value, json};

use super::access_rules::AccessRule;
use super::{
    CREDENTIAL_ID, CREDENTIAL_NAME, CREDENTIAL_SECRET, Keystone, SUBJECT_TOKEN, Token, not_found,
    unknown_token,
};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

impl Keystone {
    /// `POST /v3/auth/tokens`.
    pub(super) fn issue(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<Answer> {
        let body = call.json();
        let Some(identity) = body.pointer("/auth/identity") else {
            return Err(invalid("'identity' is a required property"));
        };
        let methods: Vec<String> = identity
            .get("methods")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|method| method.as_str().map(str::to_owned))
            .collect();
        let Some(method) = methods.first() else {
            return Err(invalid("'methods' is a required property"));
        };
        let proof = identity.get(method).cloned().unwrap_or_default();
        let scope = body.pointer("/auth/scope");
        let found = match method.as_str() {
            "password" => self.by_password(&proof)?,
            "token" => self.by_token(&proof, now)?,
            "application_credential" => self.by_credential(&proof, scope)?,
            _ => {
                return Err(Refusal::new(
                    StatusCode::UNAUTHORIZED,
                    "Unauthorized",
                    "Attempted to authenticate with an unsupported method.",
                ));
            }
        };
        let is_system = |scope: &Value| scope.pointer("/system/all") == Some(&Value::Bool(true));
        let system = scope.is_some_and(is_system);
        if system && !self.is_admin(&found.user) {
            return Err(Refusal::unauthorized());
        }
        let project = match (found.project, scope) {
            (Some(project), _) => Some(project),
            (None, _) if system => None,
            (None, Some(scope)) if scope.is_object() => Some(self.scoped(&found.user, scope)?),
            _ => None,
        };
        let mut audit_ids = vec![self.ids.hex()];
        audit_ids.extend(found.audit_id);
        let mut proven = found.methods;
        proven.push(method.clone());
        let token = Token {
            user: found.user,
            project,
            system,
            access_rules: found.access_rules,
            methods: proven,
            audit_ids,
            issued: now,
            expires: found.expires.unwrap_or(now + self.lifetime),
        };
        let shown = self.shown(&token, call.param("nocatalog").is_none());
        let secret = format!("gAAAAA{}{}", self.ids.hex(), self.ids.hex());
        // Nobody needs expired tokens. Clients renew theirs, so this stays small.
        self.tokens.retain(|_, token| now < token.expires);
        self.tokens.insert(secret.clone(), token);
        Ok(Answer::created(json!({"token": shown})).with(SUBJECT_TOKEN, secret))
    }

    fn by_password(&self, proof: &Value) -> Result<Found> {
        let text = |name: &str| proof.pointer(name).and_then(Value::as_str);
        let user = text("/user/id")
            .or_else(|| text("/user/name"))
            .and_then(|wanted| self.user(wanted))
            .filter(|user| user.enabled && text("/user/password") == Some(&user.password))
            .ok_or_else(Refusal::unauthorized)?;
        Ok(Found::new(&user.id))
    }

    /// A token issued for another token expires no later than that one.
    fn by_token(&self, proof: &Value, now: DateTime<Utc>) -> Result<Found> {
        let token = proof
            .get("id")
            .and_then(Value::as_str)
            .and_then(|id| self.valid(id, now))
            .ok_or_else(unknown_token)?;
        Ok(Found {
            methods: token
                .methods
                .iter()
                .filter(|method| *method != "token")
                .cloned()
                .collect(),
            expires: Some(token.expires),
            audit_id: token.audit_ids.last().cloned(),
            access_rules: token.access_rules.clone(),
            ..Found::new(&token.user)
        })
    }

    fn by_credential(&self, proof: &Value, scope: Option<&Value>) -> Result<Found> {
        if scope.is_some_and(|scope| !scope.is_null()) {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "Error authenticating with application credential: Application credentials cannot request a scope.",
            ));
        }
        let text = |name: &str| proof.get(name).and_then(Value::as_str);
        let named = text("id") == Some(CREDENTIAL_ID) || text("name") == Some(CREDENTIAL_NAME);
        if !named {
            let wanted = text("id").or(text("name")).unwrap_or_default();
            return Err(not_found("Application Credential", wanted));
        }
        let user = self.user("admin").filter(|user| user.enabled);
        let (Some(user), Some(CREDENTIAL_SECRET)) = (user, text("secret")) else {
            return Err(Refusal::unauthorized());
        };
        Ok(Found {
            project: self.project_id("admin").map(str::to_owned),
            access_rules: self.access_rules.clone(),
            ..Found::new(&user.id)
        })
    }

    fn is_admin(&self, user: &str) -> bool {
        let mut roles = self.user(user).into_iter().flat_map(|it| it.roles.values());
        roles.any(|roles| roles.contains("admin"))
    }

    /// Returns the project of a scope, if the user has a role there.
    fn scoped(&self, user: &str, scope: &Value) -> Result<String> {
        let text = |name: &str| scope.pointer(name).and_then(Value::as_str);
        text("/project/id")
            .or_else(|| text("/project/name"))
            .and_then(|wanted| self.project(wanted))
            .filter(|project| {
                self.user(user)
                    .is_some_and(|user| user.roles.contains_key(&project.id))
            })
            .map(|project| project.id.clone())
            .ok_or_else(Refusal::unauthorized)
    }
}

/// The user that a proof of identity belongs to, and the properties of the token that the proof already
/// fixes.
struct Found {
    user: String,
    project: Option<String>,
    access_rules: Option<Vec<AccessRule>>,
    methods: Vec<String>,
    expires: Option<DateTime<Utc>>,
    audit_id: Option<String>,
}

impl Found {
    fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            project: None,
            access_rules: None,
            methods: Vec::new(),
            expires: None,
            audit_id: None,
        }
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::bad_request("Bad Request", message)
}
