//! Tokens: issued for passwords, for other tokens, and for the application credential; and Keystone's own answers:
//! versions, lists, the catalog, tokens, and the reads of `/v3/auth`.
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    API, CREDENTIAL_ID, CREDENTIAL_NAME, CREDENTIAL_SECRET, Keystone, SUBJECT_TOKEN, Token, hex,
    refused,
};
use crate::sandbox::core::{Answer, Call, Caller, Refusal, Result, Row, Service, refuse_if};

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
        if token.system {
            let mut projects = self.rows.store.all("project");
            let is_admin = projects.any(|it| self.roles_in(token.user, it.id).contains(&"admin"));
            refuse_if(!is_admin, Refusal::unauthorized)?;
        } else if scope.is_object() {
            token.project = Some(self.scoped(token.user, scope)?);
        }
        let shown = self.shown(&token, call);
        let secret = self.store_token(token, now);
        Ok(Answer::created(shown).with(SUBJECT_TOKEN, secret))
    }

    /// Issues a token to a user, for the project of the same name.
    pub(in crate::sandbox) fn log_in(&mut self, user: &str, now: DateTime<Utc>) -> Option<String> {
        let user = self.named("user", user)?;
        let project = self.named("project", user.text("name"))?;
        let (user, project) = (user.id, Some(project.id));
        let token = self.new_token(user, now);
        Some(self.store_token(Token { project, ..token }, now))
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
        let user = user.and_then(|user| self.named("user", user));
        let user = user.filter(is_right);
        let user = user.ok_or_else(Refusal::unauthorized)?.id;
        Ok(self.new_token(user, now))
    }

    /// Returns a token for another token. The new one expires with the first, however often it is renewed.
    fn by_token(&mut self, proof: &Value, now: DateTime<Utc>) -> Result<Token> {
        let first = proof["id"].as_str().and_then(|id| self.valid(id, now).ok());
        let first = first.ok_or_else(|| refused("UnknownToken", &[]))?;
        let (user, expires, access_rules) = (first.user, first.expires, first.access_rules.clone());
        let mut methods = first.methods.clone();
        methods.retain(|method| method != "token");
        Ok(Token {
            methods,
            expires,
            access_rules,
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
        let user = self.named("user", "admin");
        let user = user.filter(|user| user.flag("enabled"));
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

    /// Returns the project of a scope, if the user has a role there.
    fn scoped(&self, user: Uuid, scope: &Value) -> Result<Uuid> {
        let project = &scope["project"];
        let project = project["id"].as_str().or(project["name"].as_str());
        let project = project.and_then(|wanted| self.named("project", wanted));
        let project = project.map(|project| project.id);
        let project = project.filter(|project| !self.roles_in(user, *project).is_empty());
        project.ok_or_else(Refusal::unauthorized)
    }

    /// Handles a call below `/v3/auth` of a caller with a valid token.
    pub(super) fn auth(
        &mut self,
        call: &Call<'_>,
        path: &[&str],
        caller: &Caller,
        now: DateTime<Utc>,
    ) -> Result<Answer> {
        let secret = call.header("x-auth-token").unwrap_or_default();
        let subject = call.header("x-subject-token").unwrap_or_default();
        let unknown = || refused("UnknownToken", &[]);
        match (call.method.as_str(), path) {
            ("GET" | "HEAD", ["tokens"]) => {
                if secret != subject && !caller.is_admin {
                    return Err(refused("forbidden", &[&"token", &"validate"]));
                }
                // A token with access rules is shown only to a caller that declares that it applies them.
                let applies_rules = call.header("openstack-identity-access-rules").is_some();
                let token = self.valid(subject, now).ok();
                let token = token.filter(|token| applies_rules || token.access_rules.is_none());
                let shown = self.shown(token.ok_or_else(unknown)?, call);
                Ok(Answer::ok(shown).with(SUBJECT_TOKEN, subject.to_owned()))
            }
            ("DELETE", ["tokens"]) => match self.tokens.remove(subject) {
                Some(_) => Ok(Answer::no_content()),
                None => Err(unknown()),
            },
            ("GET", ["catalog"]) => Ok(Answer::ok(listed(call, "catalog", self.catalog()))),
            ("GET", ["projects"]) => {
                let user = self.valid(secret, now)?.user;
                let projects = self.rows.store.all("project").map(|project| project.id);
                let mine = projects.filter(|project| !self.roles_in(user, *project).is_empty());
                let mine: Vec<Uuid> = mine.collect();
                let session = self.rows.session(caller.clone(), now);
                let shown = mine.into_iter().map(|id| session.shown_now("project", id));
                Ok(Answer::ok(listed(call, "projects", shown.collect())))
            }
            _ => Err(refused("no_page", &[])),
        }
    }

    pub(super) fn version(&self) -> Value {
        json!({
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": format!("{}/v3/", self.base_url)}],
            "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
        })
    }

    fn catalog(&self) -> Value {
        let mut regions: Vec<_> = self.rows.store.all("region").collect();
        regions.sort_by_key(|row| row.number);
        let service = |service: &&'static Service| {
            let endpoint = |region: &str, interface: &str| {
                let url = match service.kind {
                    "identity" => format!("{}/v3", self.base_url),
                    kind => format!("{}/{region}/{kind}{}", self.base_url, service.catalog),
                };
                let id = named_id(&format!("{url} {region} {interface}"));
                json!({"id": id, "interface": interface, "region_id": region, "url": url, "region": region})
            };
            let regions = regions.iter().map(|row| row.text("id"));
            let endpoints: Value = regions
                .flat_map(|name| ["admin", "internal", "public"].map(|it| endpoint(name, it)))
                .collect();
            json!({"endpoints": endpoints, "id": named_id(service.kind), "type": service.kind, "name": service.name})
        };
        self.services.iter().map(service).collect()
    }

    /// Returns a token's body. A token with a scope has the catalog, unless the call says `nocatalog`.
    pub(super) fn shown(&self, token: &Token, call: &Call<'_>) -> Value {
        let store = &self.rows.store;
        let domain = json!({"id": "default", "name": "Default"});
        let time = |at: DateTime<Utc>| at.format(API.tables.service.times).to_string();
        let mut shown = json!({
            "methods": token.methods,
            "audit_ids": [token.audit_id],
            "expires_at": time(token.expires),
            "issued_at": time(token.issued),
        });
        if let Some(user) = store.get("user", token.user) {
            let name = user.text("name");
            shown["user"] = json!({"domain": domain, "id": hex(token.user), "name": name, "password_expires_at": null});
        }
        if let Some(rules) = &token.access_rules {
            shown["application_credential"] = json!({"id": CREDENTIAL_ID, "name": CREDENTIAL_NAME, "restricted": true, "access_rules": rules});
        }
        let project = token.project.and_then(|id| store.get("project", id));
        if let Some(project) = project {
            let name = project.text("name");
            shown["project"] = json!({"domain": domain, "id": hex(project.id), "name": name});
            shown["is_domain"] = false.into();
        }
        if token.system {
            shown["system"] = json!({"all": true});
        }
        if project.is_some() || token.system {
            let roles = self.roles_of(token).into_iter();
            let roles = roles.map(|role| json!({"id": named_id(role), "name": role}));
            shown["roles"] = roles.collect();
            if call.param("nocatalog").is_none() {
                shown["catalog"] = self.catalog();
            }
        }
        json!({"token": shown})
    }
}

/// Returns an id that depends only on a name, and so is the same in all worlds: of a role, a service, an endpoint.
fn named_id(name: &str) -> String {
    hex(Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()))
}

/// Returns the body of a list with Keystone's links.
pub(super) fn listed(call: &Call<'_>, name: &str, items: Value) -> Value {
    let address = match call.query.is_empty() {
        true => call.url.clone(),
        false => call.link(call.query.iter().cloned()),
    };
    json!({name: items, "links": {"next": null, "self": address, "previous": null}})
}
