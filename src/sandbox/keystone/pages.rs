//! Keystone's reads and the bodies of its answers.
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::projects::passes;
use super::{
    CREDENTIAL_ID, CREDENTIAL_NAME, Keystone, Project, SUBJECT_TOKEN, Token, no_page, not_found,
    unknown_token,
};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

impl Keystone {
    /// Answers the authenticated GETs.
    pub(super) fn read(
        &self,
        call: &Call<'_>,
        path: &[&str],
        user: &str,
        now: DateTime<Utc>,
    ) -> Result<Answer> {
        let caller = self.caller(call.header("x-auth-token"), now);
        let admin_only = |rule: &str| self.admin_only(call, rule, now);
        if call.method != http::Method::GET && call.method != http::Method::HEAD {
            return Err(no_page());
        }
        match path {
            ["auth", "tokens"] => {
                let subject = call.header("x-subject-token").unwrap_or_default();
                if call.header("x-auth-token") != Some(subject) {
                    admin_only("validate_token")?;
                }
                let token = self
                    .valid(subject, now)
                    .filter(|token| token.can_be_shown_to(call))
                    .ok_or_else(unknown_token)?;
                let shown = self.shown(token, call.param("nocatalog").is_none());
                Ok(Answer::ok(json!({"token": shown})).with(SUBJECT_TOKEN, subject.to_owned()))
            }
            ["auth", "catalog"] => Ok(Answer::ok(self.listed(call, "catalog", self.catalog()))),
            ["auth", "projects"] => {
                let mine = self.projects.iter().filter(|project| {
                    self.user(user)
                        .is_some_and(|user| user.roles.contains_key(&project.id))
                });
                Ok(Answer::ok(self.listed(
                    call,
                    "projects",
                    self.projects_shown(mine),
                )))
            }
            ["projects"] => {
                admin_only("list_projects")?;
                let wanted = self.projects.iter().filter(|project| passes(call, project));
                Ok(Answer::ok(self.listed(
                    call,
                    "projects",
                    self.projects_shown(wanted),
                )))
            }
            ["projects", id] => {
                let same = |project: &&Project| project.id.eq_ignore_ascii_case(id);
                let project = self.projects.iter().find(same);
                let mine = caller.is_some_and(|caller| caller.project.eq_ignore_ascii_case(id));
                if !mine {
                    admin_only("get_project")?;
                }
                let project = project.ok_or_else(|| not_found("project", id))?;
                Ok(Answer::ok(json!({"project": self.project_shown(project)})))
            }
            [name @ ("users" | "regions" | "domains")] => {
                if *name != "regions" {
                    admin_only(&format!("list_{name}"))?;
                }
                let mut items = self.others(name);
                items.retain(|item| call.param("name").is_none_or(|name| item["name"] == *name));
                Ok(Answer::ok(self.listed(call, name, items.into())))
            }
            [name @ ("users" | "regions" | "domains"), id] => {
                let singular = name.trim_end_matches('s');
                let item = self.others(name).into_iter().find(|it| it["id"] == **id);
                if *name != "regions" && user != *id && *id != "default" {
                    admin_only(&format!("get_{singular}"))?;
                }
                let item = item.ok_or_else(|| not_found(singular, id))?;
                Ok(Answer::ok(json!({singular: item})))
            }
            _ => Err(no_page()),
        }
    }

    /// Returns the items of a collection that clients look names up in.
    fn others(&self, collection: &str) -> Vec<Value> {
        let shown = |id: &str, name: &str, enabled: bool| {
            let link = format!("{}/v3/{collection}/{id}", self.base_url);
            let links = json!({"self": link});
            match collection {
                "regions" => {
                    json!({"id": id, "description": "", "parent_region_id": null, "links": links})
                }
                "users" => {
                    json!({"id": id, "name": name, "domain_id": "default", "enabled": enabled, "options": {}, "links": links})
                }
                _ => {
                    json!({"id": id, "name": name, "description": "", "enabled": enabled, "tags": [], "options": {}, "links": links})
                }
            }
        };
        match collection {
            "users" => {
                let users = self.users.iter();
                users
                    .map(|user| shown(&user.id, &user.name, user.enabled))
                    .collect()
            }
            "regions" => {
                let endpoints = self.services.iter().take(1).flat_map(|it| &it.endpoints);
                let public = endpoints.filter(|(_, interface, _)| *interface == "public");
                public.map(|(region, ..)| shown(region, "", true)).collect()
            }
            _ => vec![shown("default", "Default", true)],
        }
    }

    /// Requires an admin token: of a project or of the system, Keystone accepts either.
    pub(super) fn admin_only(&self, call: &Call<'_>, rule: &str, now: DateTime<Utc>) -> Result<()> {
        let token = call
            .header("x-auth-token")
            .and_then(|it| self.valid(it, now));
        if token.is_some_and(|token| self.roles_of(token).contains(&"admin")) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!("You are not authorized to perform the requested action: identity:{rule}."),
        ))
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

    fn listed(&self, call: &Call<'_>, name: &str, items: Value) -> Value {
        let mut body = Map::new();
        body.insert(name.to_owned(), items);
        body.insert(
            "links".to_owned(),
            json!({"next": null, "self": address(call), "previous": null}),
        );
        Value::Object(body)
    }

    fn projects_shown<'a>(&self, projects: impl Iterator<Item = &'a Project>) -> Value {
        projects
            .map(|project| self.project_shown(project))
            .collect()
    }

    pub(super) fn project_shown(&self, project: &Project) -> Value {
        json!({
            "id": project.id,
            "name": project.name,
            "domain_id": "default",
            "description": project.description,
            "enabled": true,
            "parent_id": "default",
            "is_domain": false,
            "tags": [],
            "options": {},
            "links": {"self": format!("{}/v3/projects/{}", self.base_url, project.id)},
        })
    }

    fn catalog(&self) -> Value {
        self.services
            .iter()
            .map(|service| {
                let endpoints: Value = service
                    .endpoints
                    .iter()
                    .map(|(region, interface, id)| {
                        let url = match service.path {
                            None => format!("{}/v3", self.base_url),
                            Some(path) => format!("{}/{region}/{path}", self.base_url),
                        };
                        json!({"id": id, "interface": interface, "region_id": region, "url": url, "region": region})
                    })
                    .collect();
                json!({"endpoints": endpoints, "id": service.id, "type": service.kind, "name": service.name})
            })
            .collect()
    }

    /// Returns a token's body.
    pub(super) fn shown(&self, token: &Token, catalog: bool) -> Value {
        let domain = json!({"id": "default", "name": "Default"});
        let mut shown = Map::new();
        let mut add = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        add("methods", token.methods.clone().into());
        if let Some(user) = self.user(&token.user) {
            add(
                "user",
                json!({"domain": domain, "id": user.id, "name": user.name, "password_expires_at": null}),
            );
        }
        if let Some(rules) = &token.access_rules {
            let credential = json!({"id": CREDENTIAL_ID, "name": CREDENTIAL_NAME, "restricted": true, "access_rules": rules});
            add("application_credential", credential);
        }
        add("audit_ids", token.audit_ids.clone().into());
        add("expires_at", timestamp(token.expires));
        add("issued_at", timestamp(token.issued));
        let project = token.project.as_deref().and_then(|id| self.project(id));
        if let Some(project) = project {
            add(
                "project",
                json!({"domain": domain, "id": project.id, "name": project.name}),
            );
            add("is_domain", false.into());
        }
        if token.system {
            add("system", json!({"all": true}));
        }
        if project.is_some() || token.system {
            let roles: Value = self
                .roles_of(token)
                .into_iter()
                .map(|role| json!({"id": self.roles.get(role), "name": role}))
                .collect();
            add("roles", roles);
            if catalog {
                add("catalog", self.catalog());
            }
        }
        Value::Object(shown)
    }
}

/// Returns the URL of the request, with its query.
fn address(call: &Call<'_>) -> String {
    let url = &call.url;
    if call.query.is_empty() {
        return url.clone();
    }
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(&call.query);
    format!("{url}?{}", query.finish())
}

fn timestamp(at: DateTime<Utc>) -> Value {
    at.format("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into()
}
