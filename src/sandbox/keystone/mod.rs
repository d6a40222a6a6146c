//! Keystone v3: users, projects, tokens and the catalog.
mod access_rules;
mod login;
mod pages;
mod projects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderName, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::ids::Ids;
use super::region;
use super::wire::{Answer, Call, Refusal, Result};

use access_rules::AccessRule;
pub(super) use access_rules::CredentialChange;

/// The password of both users.
pub(super) const PASSWORD: &str = "secret";
/// The application credential of `admin`, in the project `admin`.
pub const CREDENTIAL_ID: &str = "5a9d0b0c000000000000000000000001";
const CREDENTIAL_NAME: &str = "practice";
pub const CREDENTIAL_SECRET: &str = "practice-secret";

/// The rights of a token.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Empty for an unscoped token.
    pub(super) project: Arc<str>,
    pub(super) admin: bool,
    member: bool,
}

impl Caller {
    /// Returns an admin of a project, for what the sandbox does by itself.
    pub(super) fn admin_of(project: &str) -> Self {
        Self {
            project: project.into(),
            admin: true,
            member: true,
        }
    }

    /// Whether the caller owns the resources of a project. An admin owns everything.
    pub(super) fn owns(&self, project: &str) -> bool {
        self.admin || *self.project == *project
    }

    /// Whether the caller may change anything. A mere reader may not.
    pub(super) fn writes(&self) -> bool {
        self.admin || self.member
    }
}

struct Project {
    id: String,
    name: String,
    description: String,
}

struct User {
    id: String,
    name: String,
    password: String,
    enabled: bool,
    /// Project id → names of the user's roles.
    roles: BTreeMap<String, BTreeSet<String>>,
}

struct Token {
    user: String,
    project: Option<String>,
    /// Whether the token is for the cloud as a whole and not for a project.
    system: bool,
    /// The access rules of the application credential that it was issued for.
    access_rules: Option<Vec<AccessRule>>,
    methods: Vec<String>,
    audit_ids: Vec<String>,
    issued: DateTime<Utc>,
    expires: DateTime<Utc>,
}

/// The body of `PUT /sandbox/v1/tokens`. Without `user` it concerns all tokens.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TokenChange {
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
pub(super) struct UserChange {
    name: String,
    password: Option<String>,
    enabled: Option<bool>,
    /// Project's name → the user's roles (`admin`, `member`, `reader`); an empty list removes them all.
    /// Existing tokens lose and gain rights at once.
    #[serde(default)]
    roles: BTreeMap<String, BTreeSet<String>>,
}

pub(super) struct Keystone {
    ids: Ids,
    base_url: String,

    lifetime: TimeDelta,
    projects: Vec<Project>,
    users: Vec<User>,
    tokens: BTreeMap<String, Token>,
    /// The access rules of the application credential; `None`: it may make every call that its user may make.
    access_rules: Option<Vec<AccessRule>>,
    /// Name of a role → its id.
    roles: BTreeMap<&'static str, String>,
    services: Vec<Service>,
}

struct Service {
    id: String,
    kind: &'static str,
    name: &'static str,
    /// Path below the region's prefix; Keystone's own URL has none.
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
            description: description.to_owned(),
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
        let mut service = |kind, name, path: Option<&'static str>| Service {
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
        let mut services = vec![service("identity", "keystone", None)];
        services.extend(region::SERVICES.map(|api| service(api.kind, api.name, Some(api.kind))));
        Self {
            ids,
            base_url: base_url.to_owned(),
            lifetime,
            projects,
            users,
            tokens: BTreeMap::new(),
            access_rules: None,
            roles,
            services,
        }
    }

    /// Sets the base of the catalog's URLs, once the listener's address is known.
    pub(super) fn set_base_url(&mut self, base_url: &str) {
        base_url.clone_into(&mut self.base_url);
    }

    /// Returns the id of the project with this name or id.
    pub(super) fn project_id(&self, wanted: &str) -> Option<&str> {
        self.project(wanted).map(|project| project.id.as_str())
    }

    /// Returns the ids of all projects but this one.
    pub(super) fn other_projects(&self, project: &str) -> Vec<String> {
        let ids = self.projects.iter().map(|project| &project.id);
        ids.filter(|id| *id != project).cloned().collect()
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

    /// Returns the caller of a token; its rights are looked up anew each time.
    pub(super) fn caller(&self, token: Option<&str>, now: DateTime<Utc>) -> Option<Caller> {
        let token = self.valid(token?, now)?;
        let project = token.project.as_deref().unwrap_or_default();
        let roles = self.roles_of(token);
        Some(Caller {
            project: project.into(),
            // A system admin is not an admin to services that know only projects.
            admin: !token.system && roles.contains(&"admin"),
            member: roles.contains(&"member"),
        })
    }

    fn roles_of(&self, token: &Token) -> Vec<&str> {
        let roles = self
            .user(&token.user)
            .zip(token.project.as_ref())
            .and_then(|(user, project)| user.roles.get(project));
        let roles = roles.into_iter().flatten().map(String::as_str);
        match token.system {
            // The only role that the system scope gives in the sandbox.
            true => vec!["admin"],
            false => roles.collect(),
        }
    }

    /// Returns the token unless it has expired, its user is disabled, or the user has lost the project.
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
        if !self.is_allowed("identity", call) {
            return Err(Refusal::unauthorized());
        }
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
                match (call.method.as_str(), rest) {
                    ("POST", ["projects"]) => self.create_project(call, now),
                    ("DELETE", ["projects", id]) => self.delete_project(call, id, now),
                    _ => self.read(call, rest, &user, now),
                }
            }
            _ => Err(no_page()),
        }
    }
}

const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

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
