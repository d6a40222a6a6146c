//! Keystone's own answers: versions, lists, the catalog, tokens; and the reads of `/v3/auth`.
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CREDENTIAL_ID, CREDENTIAL_NAME, Keystone, SUBJECT_TOKEN, Token, hex, refused, roles};
use crate::sandbox::core::{Answer, Call, Caller, Result, Service};

impl Keystone {
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
                let token = self.valid(subject, now).ok();
                let token = token.filter(|token| token.can_be_shown_to(call));
                let shown = self.shown(token.ok_or_else(unknown)?, call);
                Ok(Answer::ok(shown).with(SUBJECT_TOKEN, subject.to_owned()))
            }
            ("DELETE", ["tokens"]) => match self.tokens.remove(subject) {
                Some(_) => Ok(Answer::no_content()),
                None => Err(unknown()),
            },
            ("GET", ["catalog"]) => Ok(Answer::ok(listed(call, "catalog", self.catalog()))),
            ("GET", ["projects"]) => {
                let user = self.tokens.get(secret).map(|token| token.user);
                let session = self.rows.session(caller.clone(), now);
                let user = user.and_then(|user| session.get("user", user));
                let roles = user.and_then(roles);
                let projects = session.store().all("project");
                let mine = projects
                    .filter(|row| roles.is_some_and(|roles| roles.contains_key(row.text("id"))));
                let shown = mine.map(|row| session.shown(row, &[])).collect();
                Ok(Answer::ok(listed(call, "projects", shown)))
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
        let mut shown = json!({
            "methods": token.methods,
            "audit_ids": [token.audit_id],
            "expires_at": timestamp(token.expires),
            "issued_at": timestamp(token.issued),
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

/// Returns the body of a list.
pub(super) fn listed(call: &Call<'_>, name: &str, items: Value) -> Value {
    let address = match call.query.is_empty() {
        true => call.url.clone(),
        false => call.link(call.query.iter().cloned()),
    };
    json!({name: items, "links": {"next": null, "self": address, "previous": null}})
}

fn timestamp(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
