//! Keystone v3: users, projects, tokens, the catalog.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderName, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ids::Ids;
use super::wire::{Answer, Call, Refusal, Result};

/// The password of both users.
pub(super) const PASSWORD: &str = "secret";
/// The application credential of `admin`.
pub(super) const CREDENTIAL_ID: &str = "5a9d0b0c000000000000000000000001";
pub(super) const CREDENTIAL_NAME: &str = "practice";
pub(super) const CREDENTIAL_SECRET: &str = "practice-secret";

/// Whom a token speaks for.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Empty for an unscoped token.
    pub(super) project: Arc<str>,
    pub(super) admin: bool,
    member: bool,
}

impl Caller {
    /// An admin of a project, for what the sandbox does by itself.
    pub(super) fn admin_of(project: &str) -> Self {
        Self {
            project: project.into(),
            admin: true,
            member: true,
        }
    }

    /// Admins own everything.
    pub(super) fn owns(&self, project: &str) -> bool {
        self.admin || *self.project == *project
    }

    /// A mere reader changes nothing.
    pub(super) fn writes(&self) -> bool {
        self.admin || self.member
    }
}

struct Project {
    id: String,
    name: String,
    description: &'static str,
}

struct User {
    id: String,
    name: String,
    password: String,
    enabled: bool,
    /// Project id → names of roles.
    roles: BTreeMap<String, BTreeSet<String>>,
}

struct Token {
    user: String,
    project: Option<String>,
    methods: Vec<String>,
    audit_ids: Vec<String>,
    issued: DateTime<Utc>,
    expires: DateTime<Utc>,
}

/// What `PUT /sandbox/v1/tokens` takes. Without `user`: all tokens.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TokenChange {
    user: Option<String>,
    /// Existing tokens are refused from now on.
    revoke: bool,
    /// Existing tokens expire so many seconds from now.
    expires_in_s: Option<u32>,
    /// Tokens given from now on live so many seconds.
    lifetime_s: Option<u32>,
}

/// What `PUT /sandbox/v1/users` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserChange {
    name: String,
    password: Option<String>,
    enabled: Option<bool>,
    /// Project's name → its roles (`admin`, `member`, `reader`); an empty list takes all away.
    /// Tokens that are out lose and gain rights at once.
    #[serde(default)]
    roles: BTreeMap<String, BTreeSet<String>>,
}

pub(super) struct Keystone {
    ids: Ids,
    base_url: String,
    regions: Vec<String>,
    lifetime: TimeDelta,
    projects: Vec<Project>,
    users: Vec<User>,
    tokens: BTreeMap<String, Token>,
    /// Role's name → id.
    roles: BTreeMap<&'static str, String>,
    /// (type, name, id, (region, interface) → endpoint id).
    services: Vec<Service>,
}

struct Service {
    id: String,
    kind: &'static str,
    name: &'static str,
    /// Below the region's prefix; Keystone's own URL has none.
    path: Option<&'static str>,
    endpoints: Vec<(String, &'static str, String)>,
}

impl Keystone {
    pub(super) fn new(seed: u64, base_url: &str, regions: &[String], lifetime: TimeDelta) -> Self {
        let mut ids = Ids::new(seed ^ 0x6b65_7973_746f_6e65);
        let projects: Vec<Project> = [
            ("admin", "Bootstrap project for initializing the cloud."),
            ("demo", ""),
            ("service", ""),
        ]
        .into_iter()
        .map(|(name, description)| Project {
            id: ids.hex(),
            name: name.to_owned(),
            description,
        })
        .collect();
        let id_of = |name: &str| {
            projects
                .iter()
                .find(|project| project.name == name)
                .map(|project| project.id.clone())
                .unwrap_or_default()
        };
        let mut user = |name: &str, roles: &[&str]| User {
            id: ids.hex(),
            name: name.to_owned(),
            password: PASSWORD.to_owned(),
            enabled: true,
            roles: BTreeMap::from([(
                id_of(name),
                roles.iter().map(|role| (*role).to_owned()).collect(),
            )]),
        };
        let users = vec![
            user("admin", &["admin", "manager", "member", "reader"]),
            user("demo", &["member", "reader"]),
        ];
        let roles = ["admin", "manager", "member", "reader", "service"]
            .into_iter()
            .map(|role| (role, ids.hex()))
            .collect();
        let mut service = |kind, name, path| Service {
            id: ids.hex(),
            kind,
            name,
            path,
            endpoints: regions
                .iter()
                .flat_map(|region| {
                    ["admin", "internal", "public"].map(|interface| (region.clone(), interface))
                })
                .map(|(region, interface)| (region, interface, ids.hex()))
                .collect(),
        };
        let services = vec![
            service("identity", "keystone", None),
            service("network", "neutron", Some("network")),
        ];
        Self {
            ids,
            base_url: base_url.to_owned(),
            regions: regions.to_vec(),
            lifetime,
            projects,
            users,
            tokens: BTreeMap::new(),
            roles,
            services,
        }
    }

    /// The catalog's URLs, once the listener's address is known.
    pub(super) fn set_base_url(&mut self, base_url: &str) {
        base_url.clone_into(&mut self.base_url);
    }

    /// The id of the project with this name or id.
    pub(super) fn project_id(&self, wanted: &str) -> Option<&str> {
        self.project(wanted).map(|project| project.id.as_str())
    }

    fn project(&self, wanted: &str) -> Option<&Project> {
        self.projects
            .iter()
            .find(|project| project.name == wanted || project.id == wanted)
    }

    fn user(&self, wanted: &str) -> Option<&User> {
        self.users
            .iter()
            .find(|user| user.name == wanted || user.id == wanted)
    }

    /// Whom a token speaks for; its rights are looked up anew each time.
    pub(super) fn caller(&self, token: Option<&str>, now: DateTime<Utc>) -> Option<Caller> {
        let token = self.valid(token?, now)?;
        let project = token.project.as_deref().unwrap_or_default();
        let roles = self.roles_of(token);
        Some(Caller {
            project: project.into(),
            admin: roles.contains(&"admin"),
            member: roles.contains(&"member"),
        })
    }

    fn roles_of(&self, token: &Token) -> Vec<&str> {
        let roles = self
            .user(&token.user)
            .zip(token.project.as_ref())
            .and_then(|(user, project)| user.roles.get(project));
        roles.into_iter().flatten().map(String::as_str).collect()
    }

    /// A token that has expired, or whose user has lost the project, is worth nothing.
    fn valid(&self, token: &str, now: DateTime<Utc>) -> Option<&Token> {
        let token = self.tokens.get(token)?;
        let user = self.user(&token.user)?;
        let scoped = token.project.is_none() || !self.roles_of(token).is_empty();
        (user.enabled && scoped && now < token.expires).then_some(token)
    }

    pub(super) fn change_tokens(
        &mut self,
        change: &TokenChange,
        now: DateTime<Utc>,
    ) -> Result<(), String> {
        let user = match &change.user {
            None => None,
            Some(name) => Some(
                self.user(name)
                    .map(|user| user.id.clone())
                    .ok_or_else(|| format!("user: no user {name}"))?,
            ),
        };
        let meant = |token: &Token| user.as_ref().is_none_or(|user| token.user == *user);
        if change.revoke {
            self.tokens.retain(|_, token| !meant(token));
        }
        if let Some(seconds) = change.expires_in_s {
            for token in self.tokens.values_mut().filter(|token| meant(token)) {
                token.expires = now + TimeDelta::seconds(seconds.into());
            }
        }
        if let Some(seconds) = change.lifetime_s {
            self.lifetime = TimeDelta::seconds(seconds.into());
        }
        Ok(())
    }

    pub(super) fn change_user(&mut self, change: UserChange) -> Result<(), String> {
        let mut roles = Vec::new();
        for (project, names) in change.roles {
            let id = self
                .project_id(&project)
                .ok_or_else(|| format!("roles: no project {project}"))?;
            if let Some(wrong) = names
                .iter()
                .find(|name| !self.roles.contains_key(name.as_str()))
            {
                return Err(format!("roles: no role {wrong}"));
            }
            roles.push((id.to_owned(), names));
        }
        let Some(user) = self.users.iter_mut().find(|user| user.name == change.name) else {
            return Err(format!("name: no user {}", change.name));
        };
        user.enabled = change.enabled.unwrap_or(user.enabled);
        if let Some(password) = change.password {
            user.password = password;
        }
        for (project, names) in roles {
            if names.is_empty() {
                user.roles.remove(&project);
            } else {
                user.roles.insert(project, names);
            }
        }
        Ok(())
    }

    pub(super) fn handle(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Answer {
        let answer = self.route(call, now).unwrap_or_else(|refusal| {
            let unauthorized = refusal.status == StatusCode::UNAUTHORIZED;
            let answer = refusal.keystone();
            if unauthorized {
                let uri = format!("Keystone uri=\"{}/v3\"", self.base_url);
                answer.with(http::header::WWW_AUTHENTICATE, uri)
            } else {
                answer
            }
        });
        answer.with(http::header::VARY, "X-Auth-Token".to_owned())
    }

    fn route(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<Answer> {
        let segments = call.segments();
        match (call.method.as_str(), segments.as_slice()) {
            ("GET", []) => {
                let url = format!("{}/v3/", self.base_url);
                let versions = json!({"versions": {"values": [self.version()]}});
                Ok(Answer::json(StatusCode::MULTIPLE_CHOICES, versions)
                    .with(http::header::LOCATION, url))
            }
            ("GET", ["v3"]) => Ok(Answer::ok(json!({"version": self.version()}))),
            ("POST", ["v3", "auth", "tokens"]) => self.issue(call, now),
            (_, ["v3", rest @ ..]) => {
                let Some(token) = call
                    .header("x-auth-token")
                    .and_then(|token| self.valid(token, now))
                else {
                    return Err(Refusal::unauthorized());
                };
                let user = token.user.clone();
                if call.method == http::Method::DELETE && rest == ["auth", "tokens"] {
                    let subject = call.header("x-subject-token").unwrap_or_default();
                    return match self.tokens.remove(subject) {
                        Some(_) => Ok(Answer::no_content()),
                        None => Err(unknown_token()),
                    };
                }
                self.read(call, rest, &user, now)
            }
            _ => Err(no_page()),
        }
    }

    /// The authenticated GETs.
    fn read(
        &self,
        call: &Call<'_>,
        path: &[&str],
        user: &str,
        now: DateTime<Utc>,
    ) -> Result<Answer> {
        let caller = self.caller(call.header("x-auth-token"), now);
        let admin = caller.as_ref().is_some_and(|caller| caller.admin);
        let admin_only = |rule: &str| {
            if admin {
                return Ok(());
            }
            Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "Forbidden",
                format!("You are not authorized to perform the requested action: identity:{rule}."),
            ))
        };
        if call.method != http::Method::GET && call.method != http::Method::HEAD {
            return Err(no_page());
        }
        match path {
            ["auth", "tokens"] => {
                let subject = call.header("x-subject-token").unwrap_or_default();
                if call.header("x-auth-token") != Some(subject) {
                    admin_only("validate_token")?;
                }
                let token = self.valid(subject, now).ok_or_else(unknown_token)?;
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
                let wanted = self
                    .projects
                    .iter()
                    .filter(|project| call.param("name").is_none_or(|name| project.name == name));
                Ok(Answer::ok(self.listed(
                    call,
                    "projects",
                    self.projects_shown(wanted),
                )))
            }
            ["projects", id] => {
                let project = self.projects.iter().find(|project| project.id == *id);
                let mine = caller.is_some_and(|caller| *caller.project == **id);
                if !mine {
                    admin_only("get_project")?;
                }
                let project = project.ok_or_else(|| not_found("project", id))?;
                Ok(Answer::ok(json!({"project": self.project_shown(project)})))
            }
            ["users"] => {
                admin_only("list_users")?;
                let wanted: Value = self
                    .users
                    .iter()
                    .filter(|user| call.param("name").is_none_or(|name| user.name == name))
                    .map(|user| self.user_shown(user))
                    .collect();
                Ok(Answer::ok(self.listed(call, "users", wanted)))
            }
            ["users", id] => {
                if user != *id {
                    admin_only("get_user")?;
                }
                let user = self.users.iter().find(|user| user.id == *id);
                let user = user.ok_or_else(|| not_found("user", id))?;
                Ok(Answer::ok(json!({"user": self.user_shown(user)})))
            }
            ["regions"] => {
                let regions: Value = self
                    .regions
                    .iter()
                    .map(
                        |region| json!({"id": region, "description": "", "parent_region_id": null}),
                    )
                    .collect();
                Ok(Answer::ok(self.listed(call, "regions", regions)))
            }
            ["domains", "default"] => Ok(Answer::ok(json!({"domain": domain_shown()}))),
            ["domains"] => Ok(Answer::ok(self.listed(
                call,
                "domains",
                json!([domain_shown()]),
            ))),
            _ => Err(no_page()),
        }
    }

    fn version(&self) -> Value {
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
            json!({"next": null, "self": call.url, "previous": null}),
        );
        Value::Object(body)
    }

    fn projects_shown<'a>(&self, projects: impl Iterator<Item = &'a Project>) -> Value {
        projects
            .map(|project| self.project_shown(project))
            .collect()
    }

    fn project_shown(&self, project: &Project) -> Value {
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

    fn user_shown(&self, user: &User) -> Value {
        json!({
            "id": user.id,
            "name": user.name,
            "domain_id": "default",
            "enabled": user.enabled,
            "password_expires_at": null,
            "options": {},
            "links": {"self": format!("{}/v3/users/{}", self.base_url, user.id)},
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

    /// A token's body.
    fn shown(&self, token: &Token, catalog: bool) -> Value {
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
        add("audit_ids", token.audit_ids.clone().into());
        add("expires_at", timestamp(token.expires));
        add("issued_at", timestamp(token.issued));
        if let Some(project) = token.project.as_deref().and_then(|id| self.project(id)) {
            add(
                "project",
                json!({"domain": domain, "id": project.id, "name": project.name}),
            );
            add("is_domain", false.into());
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

    /// `POST /v3/auth/tokens`.
    fn issue(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<Answer> {
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
        let project = match (found.project, scope) {
            (Some(project), _) => Some(project),
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
            methods: proven,
            audit_ids,
            issued: now,
            expires: found.expires.unwrap_or(now + self.lifetime),
        };
        let shown = self.shown(&token, call.param("nocatalog").is_none());
        let secret = format!("gAAAAA{}{}", self.ids.hex(), self.ids.hex());
        // Expired tokens are of no use to anyone; clients renew theirs, so this stays small.
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

    /// A token from a token lives no longer than the first one.
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
            ..Found::new(&user.id)
        })
    }

    /// The project of a scope, if the user has a role there.
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

/// Whom a proof of identity belongs to, and what the proof already fixes.
struct Found {
    user: String,
    project: Option<String>,
    methods: Vec<String>,
    expires: Option<DateTime<Utc>>,
    audit_id: Option<String>,
}

impl Found {
    fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            project: None,
            methods: Vec::new(),
            expires: None,
            audit_id: None,
        }
    }
}

const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

fn domain_shown() -> Value {
    json!({"id": "default", "name": "Default", "description": "The default domain", "enabled": true, "tags": [], "options": {}})
}

fn timestamp(at: DateTime<Utc>) -> Value {
    at.format("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into()
}

fn invalid(message: &str) -> Refusal {
    Refusal::bad_request("Bad Request", message)
}

fn not_found(what: &str, id: &str) -> Refusal {
    Refusal::not_found("Not Found", format!("Could not find {what}: {id}."))
}

fn unknown_token() -> Refusal {
    Refusal::not_found("Not Found", "Could not recognize Fernet token")
}

fn no_page() -> Refusal {
    Refusal::not_found(
        "Not Found",
        "The requested URL was not found on the server.",
    )
}
