//! The rights of callers at the gate: users of the project, users of other projects, and callers without a valid token.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, clouds, wait_for};
use crate::gate::engine_with_gates;

/// Users in the Keystone of the test bed. They are deleted when this value is dropped.
pub struct Users<'b> {
    pub bed: &'b Bed,
    ids: Vec<String>,
    /// The tokens by the names of their callers, as in [`TABLE`]; empty for a caller without a token.
    tokens: Vec<(&'static str, String)>,
}

impl Drop for Users<'_> {
    fn drop(&mut self) {
        for user in &self.ids {
            let path = format!("/users/{user}");
            self.bed.api.identity("DELETE", &path, &Value::Null);
        }
    }
}

impl<'b> Users<'b> {
    /// Creates no user yet; [`Self::add`] does.
    pub fn empty(bed: &'b Bed) -> Self {
        Self {
            bed,
            ids: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// A member of the bed's project. The program's `clouds.yaml` has its login as the cloud `mine`.
    pub fn with_member(bed: &'b Bed) -> Self {
        let mut users = Self::empty(bed);
        users.add("a member", &bed.project, "member");
        bed.change_clouds(|clouds| {
            let mut mine = clouds["clouds"]["testbed"].clone();
            mine["auth"] = json!({"auth_url": mine["auth"]["auth_url"], "username": users.name(0),
                "password": users.name(0), "user_domain_id": "default", "project_id": bed.project});
            mine["regions"] = json!(["RegionOne"]);
            clouds["clouds"]["mine"] = mine;
        });
        users
    }

    /// A user or a token for each row of [`TABLE`].
    fn new(bed: &'b Bed) -> Self {
        let mut users = Self::empty(bed);
        users.tokens = vec![
            ("no token", String::new()),
            ("an invalid token", "no-such-token".to_owned()),
            ("an admin", bed.api.token.clone()),
        ];
        let demo = bed.api.project_id("demo");
        let owner = users.add("a member", &bed.project, "member");
        users.add("a reader", &bed.project, "reader");
        users.add("a member of a project that may use it", &demo, "member");
        let other = bed.api.project_id("admin");
        users.add("a member of another project", &other, "member");
        users.add_restricted(&owner);
        users
    }

    /// The name of a user, which is also its password.
    pub fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.bed.name)
    }

    /// Creates a user with this role in this project. Returns its id and a token.
    pub fn add(&mut self, row: &'static str, project: &str, role: &str) -> (String, String) {
        let api = &self.bed.api;
        let name = self.name(self.ids.len());
        let user = json!({"user": {"name": name, "password": name, "domain_id": "default"}});
        let user = text(&api.identity("POST", "/users", &user).0["user"]["id"]);
        self.ids.push(user.clone());
        let roles = format!("/roles?name={role}");
        let role = text(&api.identity("GET", &roles, &Value::Null).0["roles"][0]["id"]);
        let grant = format!("/projects/{project}/users/{user}/roles/{role}");
        api.identity("PUT", &grant, &Value::Null);
        let login = json!({"auth": {
            "identity": {"methods": ["password"],
                "password": {"user": {"id": user, "password": name}}},
            "scope": {"project": {"id": project}},
        }});
        let token = api.identity("POST", "/auth/tokens", &login).1;
        self.tokens.push((row, token.clone()));
        (user, token)
    }

    /// Adds the row `access rules`: a token that this user gets by an application credential whose access rules allow
    /// only reads of networks.
    fn add_restricted(&mut self, (user, token): &(String, String)) {
        let file = clouds();
        let own = Api::with_token(&file, "testbed", "RegionOne", token);
        let credential = json!({"application_credential": {
            "name": "reads", "secret": "reads",
            "access_rules": [{"path": "/v2.0/networks/**", "method": "GET", "service": "network"}],
        }});
        let path = format!("/users/{user}/application_credentials");
        let made = own.identity("POST", &path, &credential).0;
        let login = json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {
                "id": made["application_credential"]["id"], "secret": "reads",
            },
        }}});
        let token = self.bed.api.identity("POST", "/auth/tokens", &login).1;
        self.tokens.push(("access rules", token));
    }

    /// Calls with the token of this row.
    pub fn api(&self, row: &str) -> Api {
        let (_, token) = self.tokens.iter().find(|(name, _)| *name == row).unwrap();
        Api::with_token(&clouds(), "testbed", "RegionOne", token)
    }
}

/// A user, and the statuses of its requests: of a cascade; and, once the network is being deleted, of GET, another
/// DELETE, a new port on the network, and a GET of the deletion's address.
const TABLE: [(&str, u16, u16, u16, u16, u16); 8] = [
    ("no token", 401, 401, 401, 401, 401),
    ("an invalid token", 401, 401, 401, 401, 401),
    ("access rules", 401, 401, 401, 401, 401),
    ("a member of another project", 404, 404, 404, 404, 404),
    (
        "a member of a project that may use it",
        409,
        200,
        403,
        409,
        404,
    ),
    ("a reader", 403, 200, 403, 409, 200),
    ("a member", 202, 200, 204, 409, 200),
    ("an admin", 202, 200, 204, 409, 200),
];

#[test]
#[ignore = "needs the test bed"]
fn testbed_p07_t07_n09_the_gate_lets_each_user_see_and_delete_what_its_rights_allow() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 3 --trunks 0 --fips 0");
    let network = bed.networks[0].clone();
    // The seed shares the network with the project demo.
    let users = Users::new(&bed);
    let (_engine, gates) = engine_with_gates(&bed);
    let gate = format!("http://{}", gates[0]);
    let plain = format!("{gate}/v2.0/networks/{network}");
    let cascade = format!("{plain}?cascade=true");
    let listed = |api: &Api, at: &str| {
        let url = format!("{at}/networks?id={network}");
        let (status, answer) = api.answer_at("GET", &url, Value::Null);
        let rows = answer["networks"].as_array().cloned().unwrap_or_default();
        (status, rows)
    };

    // Before the deletion, the gate answers as Neutron does, and refuses cascades to users without the right.
    for (user, refused, ..) in TABLE {
        let api = users.api(user);
        let direct = format!("{}/networks/{network}", api.network_url);
        let (here, there) = (
            api.answer_at("GET", &plain, Value::Null),
            api.answer_at("GET", &direct, Value::Null),
        );
        assert_eq!(here, there, "{user}");
        let through = listed(&api, &format!("{gate}/v2.0"));
        assert_eq!(through, listed(&api, &api.network_url), "{user}");
        if refused != 202 {
            let (status, answer) = api.answer_at("DELETE", &cascade, Value::Null);
            assert_eq!(status, refused, "{user}: {answer}");
        }
    }
    let deletions = || bed.gone("list deletions -o json").ok().json();
    assert_eq!(deletions(), json!([]));

    // The deletion has its tombstones, but the paused site gets no calls.
    bed.gone("pause testbed/RegionOne").ok();
    let (status, answer) = users
        .api("a member")
        .answer_at("DELETE", &cascade, Value::Null);
    assert_eq!(status, 202, "{answer}");
    let id = text(&answer["deletion"]["id"]);
    wait_for("the plan", || deletions()[0]["state"] == "running");
    for (user, _, get, delete, refer, follow) in TABLE {
        let api = users.api(user);
        let (status, answer) = api.answer_at("GET", &plain, Value::Null);
        assert_eq!(status, get, "{user}: {answer}");
        let (_, rows) = listed(&api, &format!("{gate}/v2.0"));
        assert_eq!(rows.len(), usize::from(get == 200), "{user}");
        for row in rows.iter().chain((get == 200).then(|| &answer["network"])) {
            assert_eq!(row["status"], "DELETING", "{user}");
        }
        let (status, answer) = api.answer_at("DELETE", &plain, Value::Null);
        assert_eq!(status, delete, "{user}: {answer}");
        let port = json!({"port": {"network_id": network}});
        let (status, answer) = api.answer_at("POST", &format!("{gate}/v2.0/ports"), port);
        assert_eq!(status, refer, "{user}: {answer}");
        let url = format!("{gate}/gone/v1/deletions/{id}");
        let (status, answer) = api.answer_at("GET", &url, Value::Null);
        assert_eq!(status, follow, "{user}: {answer}");
    }
    bed.gone("resume testbed/RegionOne").ok();
    wait_for("the end", || deletions()[0]["state"] == "gone");
    for (user, ..) in TABLE {
        let api = users.api(user);
        let (status, answer) = api.answer_at("GET", &plain, Value::Null);
        let known = !matches!(user, "no token" | "an invalid token" | "access rules");
        assert_eq!(status, if known { 404 } else { 401 }, "{user}: {answer}");
    }
}
