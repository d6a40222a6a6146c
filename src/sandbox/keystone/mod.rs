//! Keystone v3: projects, users, domains and regions by the common methods; tokens and the catalog.
//!
//! Unlike the other services, Keystone belongs to no region: all regions share it, and check the tokens that it issues.
mod changes;
mod tokens;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderName, StatusCode, header};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::core::{
    Answer, Api, Body, Call, Caller, Hooks, Kind, ListQuery, Refusal, Region, Result, Row, Service,
    Session, Shape, Tables, Undo, WorldOptions, refuse_if, resource,
};

use changes::AccessRule;

/// The password of the users `admin` and `demo`.
pub(super) const PASSWORD: &str = "secret";
/// The application credential of `admin`, in the project `admin`.
pub const CREDENTIAL_ID: &str = "5a9d0b0c000000000000000000000001";
const CREDENTIAL_NAME: &str = "practice";
/// The secret of the application credential.
pub const CREDENTIAL_SECRET: &str = "practice-secret";

const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
const ROLES: [&str; 5] = ["admin", "manager", "member", "reader", "service"];

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| Tables::read(include_str!("../../../assets/sandbox/identity.toml"))),
    hooks: &[
        ("project", PROJECT),
        ("user", NAMED),
        ("domain", NAMED),
        ("region", NAMED),
    ],
    own: |_, _, _| Ok(None),
    list_query,
    page: |kind, call, page| tokens::listed(call, kind.plural, page.items),
    refuse: |refusal, _| refusal.keystone(),
};

/// The hooks of users, domains and regions, and most of those of projects. [`check_permitted`] checks the caller's
/// rights before a hook runs.
const NAMED: Hooks = Hooks {
    create: put_with_id,
    visible: |_, _| true,
    ..Hooks::NONE
};

const PROJECT: Hooks = Hooks {
    create: create_project,
    removed: remove_roles,
    ..NAMED
};

fn put_with_id(session: &mut Session<'_>, mut row: Row, body: &Body) -> Result<Uuid> {
    let id = body.get("id").and_then(Value::as_str);
    row.set("id", id.map_or_else(|| hex(row.id), str::to_owned));
    Ok(session.put(row))
}

fn create_project(session: &mut Session<'_>, row: Row, body: &Body) -> Result<Uuid> {
    let name = row.text("name");
    refuse_if(name.is_empty(), || refused("Required", &[&"name"]))?;
    let is_taken = |other: &Row| other.text("name").eq_ignore_ascii_case(name);
    if session.store().all("project").any(is_taken) {
        return Err(row.kind.refusal("taken", &[&name]));
    }
    put_with_id(session, row, body)
}

/// Removes the roles in a deleted project from all users.
fn remove_roles(session: &mut Session<'_>, project: &Row) {
    let users: Vec<Uuid> = session.store().all("user").map(|user| user.id).collect();
    for user in users {
        session.edit("user", user, |user| {
            let mut roles = roles(user).cloned().unwrap_or_default();
            roles.shift_remove(project.text("id"));
            user.set("roles", roles);
        });
    }
}

/// Returns an id as Keystone writes it: without dashes.
fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

/// Returns the roles of a user by the project's id.
fn roles(user: &Row) -> Option<&Map<String, Value>> {
    user.get("roles")?.as_object()
}

const NO: [&str; 9] = ["False", "FALSE", "false", "0", "n", "N", "no", "off", "OFF"];

/// Reads the filters of a list. If a filter is given twice, a row must meet both; an unknown filter is ignored.
fn list_query(_: &Session<'_>, kind: &'static Kind, call: &Call<'_>) -> Result<ListQuery> {
    let filter = |(name, value): &(String, String)| {
        let attribute = kind.attribute(name).filter(|_| kind.has_filter(name))?;
        let value = match attribute.shape {
            Shape::Flag => (!NO.contains(&value.as_str())).to_string(),
            _ => value.clone(),
        };
        Some((name.clone(), vec![value]))
    };
    Ok(ListQuery {
        filters: call.query.iter().filter_map(filter).collect(),
        sorts: vec![("number".to_owned(), true)],
        ..ListQuery::default()
    })
}

struct Token {
    user: Uuid,
    project: Option<Uuid>,
    /// Whether the token is for the cloud as a whole and not for a project.
    system: bool,
    /// The access rules of the application credential that the token was issued for.
    access_rules: Option<Vec<AccessRule>>,
    methods: Vec<String>,
    audit_id: String,
    issued: DateTime<Utc>,
    expires: DateTime<Utc>,
}

pub(super) struct Keystone {
    /// Keystone's rows: projects, users, domains, regions.
    pub(super) rows: Region,
    base_url: String,
    lifetime: TimeDelta,
    tokens: BTreeMap<String, Token>,
    /// The access rules of the application credential; `None`: it may make every call that its user may make.
    access_rules: Option<Vec<AccessRule>>,
    /// The services of the catalog.
    services: Vec<&'static Service>,
}

impl Keystone {
    /// Makes a Keystone with its first projects, users, domain and regions. `services` are the services of each region.
    pub(super) fn new(
        seed: u64,
        base_url: &str,
        regions: &[String],
        services: &[&Api],
        lifetime: TimeDelta,
    ) -> Self {
        let seed = seed ^ 0x6b65_7973_746f_6e65;
        let mut rows = Region::new("", seed, WorldOptions::default(), &[&API]);
        let mut session = rows.session(Caller::admin_of(""), DateTime::UNIX_EPOCH);
        let mut create = |kind, body| session.create(kind, &body).unwrap_or_default();
        let bootstrap = "Bootstrap project for initializing the cloud.";
        let admin = json!({"name": "admin", "description": bootstrap});
        let admin = hex(create("project", admin));
        let demo = hex(create("project", json!({"name": "demo"})));
        create("project", json!({"name": "service"}));
        let admin = json!({admin: ["admin", "manager", "member", "reader"]});
        let demo = json!({demo: ["member", "reader"]});
        for (name, roles) in [("admin", admin), ("demo", demo)] {
            let user = json!({"name": name, "password": PASSWORD, "roles": roles});
            create("user", user);
        }
        create("domain", json!({"id": "default", "name": "Default"}));
        for region in regions {
            create("region", json!({"id": region}));
        }
        let services = [&API].into_iter().chain(services.iter().copied());
        Self {
            rows,
            base_url: base_url.to_owned(),
            lifetime,
            tokens: BTreeMap::new(),
            access_rules: None,
            services: services.map(|api| api.tables.service).collect(),
        }
    }

    /// Sets the base of the catalog's URLs, once the listener's address is known.
    pub(super) fn set_base_url(&mut self, base_url: &str) {
        base_url.clone_into(&mut self.base_url);
    }

    /// Returns the id of the project with this name or id.
    pub(super) fn project_id(&self, wanted: &str) -> Option<&str> {
        Some(self.named("project", wanted)?.text("id"))
    }

    /// Returns the ids of all projects but this one, oldest first.
    pub(super) fn other_projects(&self, project: &str) -> Vec<String> {
        let mut projects: Vec<&Row> = self.rows.store.all("project").collect();
        projects.sort_by_key(|row| row.number);
        let ids = projects.into_iter().map(|row| row.text("id"));
        ids.filter(|id| *id != project).map(str::to_owned).collect()
    }

    /// Returns the row with this name or id.
    fn named(&self, kind: &str, wanted: &str) -> Option<&Row> {
        let is_it = |row: &&Row| row.text("name") == wanted || row.text("id") == wanted;
        self.rows.store.all(kind).find(is_it)
    }

    /// Returns the caller of a token, with the rights that its user has at this time.
    pub(super) fn caller(&self, token: Option<&str>, now: DateTime<Utc>) -> Option<Caller> {
        Some(self.caller_of(self.valid(token?, now).ok()?))
    }

    fn caller_of(&self, token: &Token) -> Caller {
        let project = token.project.map(hex).unwrap_or_default();
        let roles = self.roles_of(token);
        Caller {
            project: project.into(),
            user: hex(token.user).into(),
            // A system admin is not an admin to services that know only projects.
            is_admin: !token.system && roles.contains(&"admin"),
            is_member: roles.contains(&"member"),
        }
    }

    fn roles_of(&self, token: &Token) -> Vec<&str> {
        match token.project {
            // The only role that the system scope gives in the sandbox.
            _ if token.system => vec!["admin"],
            Some(project) => self.roles_in(token.user, project),
            None => Vec::new(),
        }
    }

    /// Returns the roles of a user in a project.
    fn roles_in(&self, user: Uuid, project: Uuid) -> Vec<&str> {
        let roles = self.rows.store.get("user", user).and_then(roles);
        let roles = roles.and_then(|roles| roles.get(&hex(project))?.as_array());
        let roles = roles.into_iter().flatten();
        roles.filter_map(Value::as_str).collect()
    }

    /// Returns the token unless it has expired, its user is disabled, or the user has lost the roles in its
    /// project. If the project itself does not exist any more, the refusal is a 404 for the project.
    fn valid(&self, token: &str, now: DateTime<Utc>) -> Result<&Token> {
        let store = &self.rows.store;
        let known = self.tokens.get(token);
        let token = known.filter(|token| now < token.expires);
        let token = token.ok_or_else(Refusal::unauthorized)?;
        let is_gone = |project: &Uuid| store.get("project", *project).is_none();
        if let Some(id) = token.project.filter(is_gone) {
            return Err(store.kind("project").missing(hex(id)));
        }
        let user = store.get("user", token.user);
        let is_enabled = user.is_some_and(|user| user.flag("enabled"));
        let has_scope = token.project.is_none() || !self.roles_of(token).is_empty();
        refuse_if(!is_enabled || !has_scope, Refusal::unauthorized)?;
        Ok(token)
    }

    /// Returns the answer to a call, and the changes that it made.
    pub(super) fn handle(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> (Answer, Vec<Undo>) {
        let refused = |refusal: Refusal| (refusal.keystone(), Vec::new());
        let (mut answer, changes) = self.route(call, now).unwrap_or_else(refused);
        if answer.status == StatusCode::UNAUTHORIZED {
            let uri = format!("Keystone uri=\"{}/v3\"", self.base_url);
            answer = answer.with(header::WWW_AUTHENTICATE, uri);
        }
        let answer = answer.with(header::VARY, "X-Auth-Token".to_owned());
        (answer, changes)
    }

    fn route(&mut self, call: &Call<'_>, now: DateTime<Utc>) -> Result<(Answer, Vec<Undo>)> {
        refuse_if(!self.is_allowed("identity", call), Refusal::unauthorized)?;
        let segments = call.segments();
        let answer = match (call.method.as_str(), segments.as_slice()) {
            ("GET", []) => {
                let versions = json!({"versions": {"values": [self.version()]}});
                let answer = Answer::json(StatusCode::MULTIPLE_CHOICES, versions);
                answer.with(header::LOCATION, format!("{}/v3/", self.base_url))
            }
            ("GET", ["v3"]) => Answer::ok(json!({"version": self.version()})),
            ("POST", ["v3", "auth", "tokens"]) => self.issue(call, now)?,
            (_, ["v3", path @ ..]) => {
                let secret = call.header("x-auth-token").unwrap_or_default();
                let token = self.valid(secret, now)?;
                let mut caller = self.caller_of(token);
                // For Keystone, an admin of the system is an admin.
                caller.is_admin |= token.system;
                if let ["auth", path @ ..] = path {
                    self.auth(call, path, &caller, now)?
                } else {
                    check_permitted(call, path, &hex(token.user), &caller)?;
                    let work = |session: &mut Session<'_>| resource::route(session, &API, call);
                    let (answer, changes) = self.rows.transact(caller, now, work);
                    return answer.map(|answer| (answer, changes));
                }
            }
            _ => return Err(refused("no_page", &[])),
        };
        Ok((answer, Vec::new()))
    }
}

/// Refuses a call that does not exist, and a call that only an admin may make, unless the caller is one.
fn check_permitted(call: &Call<'_>, path: &[&str], user: &str, caller: &Caller) -> Result<()> {
    let no_page = || refused("no_page", &[]);
    let kind = API.match_path(path).ok_or_else(no_page)?.kind;
    let is_own = |id: &str| match kind.name {
        "project" => caller.project.eq_ignore_ascii_case(id),
        "user" => user == id,
        name => name == "region" || id == "default",
    };
    let refusal = match (call.method.as_str(), path) {
        ("GET", ["regions"]) => return Ok(()),
        ("GET", [_, id]) if is_own(id) => return Ok(()),
        ("GET", [plural]) => refused("forbidden", &[plural, &"list"]),
        ("GET", [_, _]) => kind.forbidden("get"),
        ("POST", ["projects"]) => kind.forbidden("create"),
        ("DELETE", ["projects", _]) => kind.forbidden("delete"),
        _ => return Err(no_page()),
    };
    refuse_if(!caller.is_admin, || refusal)
}

/// Returns the refusal with a name, from the service's file.
fn refused(name: &str, parts: &[&dyn std::fmt::Display]) -> Refusal {
    API.tables.service.refusal(name, parts)
}
