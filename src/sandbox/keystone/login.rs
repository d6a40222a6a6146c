//! Issues tokens for passwords, for other tokens, and for the application credential.
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{
    CREDENTIAL_ID, CREDENTIAL_NAME, CREDENTIAL_SECRET, Keystone, SUBJECT_TOKEN, Token, hex,
    refused, roles,
};
use crate::sandbox::core::{Answer, Call, Refusal, Result, Row, refuse_if};

impl Keystone {
    /// Answers `POST /v3/auth/tokens`.
    pub(super) fn issue(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<Answer> {
        let body = call.json();
        let auth = &body["auth"];
        let required = |name: &str| refused("Required", &[&name]);
        let identity = auth.get("identity").ok_or_else(|| required("identity"))?;
        let method = identity["methods"][0].as_str();
        let method = method.ok_or_else(|| required("methods"))?;
        let (proof, scope) = (&identity[method], &auth["scope"]);
        let mut token = match method {
            "password" => self.by_password(proof, now)?,
            "token" => self.by_token(proof, now)?,
            "application_credential" => self.by_credential(proof, scope, now)?,
            _ => return Err(refused("UnknownMethod", &[])),
        };
        token.methods.push(method.to_owned());
        token.system = scope["system"]["all"] == true;
        if token.system && !self.is_admin(token.user) {
            return Err(Refusal::unauthorized());
        }
        if scope.is_object() && !token.system {
            token.project = Some(self.scoped(token.user, scope)?);
        }
        let shown = self.shown(&token, call);
        let secret = self.store_token(token, now);
        Ok(Answer::created(shown).with(SUBJECT_TOKEN, secret))
    }

    /// Issues a token to a user, for the project of the same name.
    pub(in crate::sandbox) fn log_in(&mut self, user: &str, now: DateTime<Utc>) -> Option<String> {
        let user = self.named("user", user)?;
        let (id, name) = (user.id, user.text("name").to_owned());
        let mut token = self.new_token(id, now);
        token.project = Some(self.named("project", &name)?.id);
        Some(self.store_token(token, now))
    }

    /// Stores a token, and returns its secret.
    fn store_token(&mut self, token: Token, now: DateTime<Utc>) -> String {
        let ids = &mut self.rows.store.ids;
        let secret = format!("gAAAAA{}{}", ids.hex(), ids.hex());
        // Clients renew their tokens, so the number of tokens stays small if expired ones are removed.
        self.tokens.retain(|_, token| now < token.expires);
        self.tokens.insert(secret.clone(), token);
        secret
    }

    fn new_token(&mut self, user: Uuid, now: DateTime<Utc>) -> Token {
        Token {
            user,
            project: None,
            system: false,
            access_rules: None,
            methods: Vec::new(),
            audit_id: self.rows.store.ids.hex(),
            issued: now,
            expires: now + self.lifetime,
        }
    }

    fn by_password(&mut self, proof: &Value, now: DateTime<Utc>) -> Result<Token> {
        let proof = &proof["user"];
        let user = proof["id"].as_str().or(proof["name"].as_str());
        let is_right = |user: &&Row| {
            user.flag("enabled") && proof["password"].as_str() == Some(user.text("password"))
        };
        let user = user
            .and_then(|user| self.named("user", user))
            .filter(is_right);
        let user = user.ok_or_else(Refusal::unauthorized)?.id;
        Ok(self.new_token(user, now))
    }

    /// Returns a token for a token. It expires with the first one, however often it is renewed.
    fn by_token(&mut self, proof: &Value, now: DateTime<Utc>) -> Result<Token> {
        let first = proof["id"].as_str().and_then(|id| self.valid(id, now).ok());
        let first = first.ok_or_else(|| refused("UnknownToken", &[]))?;
        let (user, expires, rules) = (first.user, first.expires, first.access_rules.clone());
        let methods = first.methods.iter().filter(|method| *method != "token");
        let methods = methods.cloned().collect();
        Ok(Token {
            methods,
            expires,
            access_rules: rules,
            ..self.new_token(user, now)
        })
    }

    fn by_credential(&mut self, proof: &Value, scope: &Value, now: DateTime<Utc>) -> Result<Token> {
        refuse_if(!scope.is_null(), || refused("ScopedCredential", &[]))?;
        let named = proof["id"].as_str().or(proof["name"].as_str());
        let named = named.unwrap_or_default();
        if ![CREDENTIAL_ID, CREDENTIAL_NAME].contains(&named) {
            return Err(refused("UnknownCredential", &[&named]));
        }
        let user = self
            .named("user", "admin")
            .filter(|user| user.flag("enabled"));
        let (Some(user), Some(CREDENTIAL_SECRET)) = (user, proof["secret"].as_str()) else {
            return Err(Refusal::unauthorized());
        };
        let user = user.id;
        Ok(Token {
            project: self.named("project", "admin").map(|project| project.id),
            access_rules: self.access_rules.clone(),
            ..self.new_token(user, now)
        })
    }

    fn is_admin(&self, user: Uuid) -> bool {
        let roles = self.rows.store.get("user", user).and_then(roles);
        let mut roles = roles.into_iter().flat_map(|roles| roles.values());
        roles.any(|roles| {
            let mut roles = roles.as_array().into_iter().flatten();
            roles.any(|role| role == "admin")
        })
    }

    /// Returns the project of a scope, if the user has a role there.
    fn scoped(&self, user: Uuid, scope: &Value) -> Result<Uuid> {
        let project = &scope["project"];
        let project = project["id"].as_str().or(project["name"].as_str());
        let project = project.and_then(|wanted| self.named("project", wanted));
        let roles = self.rows.store.get("user", user).and_then(roles);
        let has_role =
            |project: &&Row| roles.is_some_and(|roles| roles.contains_key(&hex(project.id)));
        let project = project.filter(has_role);
        project
            .map(|project| project.id)
            .ok_or_else(Refusal::unauthorized)
    }
}
