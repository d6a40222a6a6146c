//! What people may see and delete through the gate: those of the project, those of others, and nobody.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, clouds, wait_for};
use crate::gate::engine_with_gates;

/// People of the testbed's own Keystone, who leave when this is dropped.
pub struct People<'b> {
    pub bed: &'b Bed,
    users: Vec<String>,
    /// By the name of the row; an empty token is nobody's.
    tokens: Vec<(&'static str, String)>,
}

impl Drop for People<'_> {
    fn drop(&mut self) {
        for user in &self.users {
            let path = format!("/users/{user}");
            self.bed.api.identity("DELETE", &path, &Value::Null);
        }
    }
}

impl<'b> People<'b> {
    pub fn none(bed: &'b Bed) -> Self {
        Self {
            bed,
            users: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// A member of the bed's project, whose login gone knows as the cloud `mine`.
    pub fn a_member(bed: &'b Bed) -> Self {
        let mut people = Self::none(bed);
        people.comes("a member", &bed.project, "member");
        bed.change_clouds(|clouds| {
            let mut mine = clouds["clouds"]["testbed"].clone();
            mine["auth"] = json!({"auth_url": mine["auth"]["auth_url"], "username": people.name(0),
                "password": people.name(0), "user_domain_id": "default", "project_id": bed.project});
            mine["regions"] = json!(["RegionOne"]);
            clouds["clouds"]["mine"] = mine;
        });
        people
    }

    fn new(bed: &'b Bed) -> Self {
        let mut people = Self::none(bed);
        people.tokens = vec![
            ("nobody", String::new()),
            ("a token that is none", "no-such-token".to_owned()),
            ("an admin", bed.api.token.clone()),
        ];
        let demo = bed.api.project_id("demo");
        let owner = people.comes("a member", &bed.project, "member");
        people.comes("a reader", &bed.project, "reader");
        people.comes("a tenant who may use it", &demo, "member");
        let other = bed.api.project_id("admin");
        people.comes("a stranger", &other, "member");
        people.restricts(&owner);
        people
    }

    /// The name and the password of a user.
    pub fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.bed.name)
    }

    /// A new user with this role in this project, and a token.
    pub fn comes(&mut self, row: &'static str, project: &str, role: &str) -> (String, String) {
        let api = &self.bed.api;
        let name = self.name(self.users.len());
        let user = json!({"user": {"name": name, "password": name, "domain_id": "default"}});
        let user = text(&api.identity("POST", "/users", &user).0["user"]["id"]);
        self.users.push(user.clone());
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

    /// The same user by an application credential that may only read networks.
    fn restricts(&mut self, (user, token): &(String, String)) {
        let file = clouds();
        let own = Api::by(&file, "testbed", "RegionOne", token);
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

    pub fn api(&self, row: &str) -> Api {
        let (_, token) = self.tokens.iter().find(|(name, _)| *name == row).unwrap();
        Api::by(&clouds(), "testbed", "RegionOne", token)
    }
}

/// Who; a cascade that may not be; then, of what is being deleted: GET, DELETE again, a new port on it,
/// how far it is.
const TABLE: [(&str, u16, u16, u16, u16, u16); 8] = [
    ("nobody", 401, 401, 401, 401, 401),
    ("a token that is none", 401, 401, 401, 401, 401),
    ("access rules", 401, 401, 401, 401, 401),
    ("a stranger", 404, 404, 404, 404, 404),
    ("a tenant who may use it", 409, 200, 403, 409, 404),
    ("a reader", 403, 200, 403, 409, 200),
    ("a member", 202, 200, 204, 409, 200),
    ("an admin", 202, 200, 204, 409, 200),
];

#[test]
#[ignore = "needs the test bed"]
fn testbed_p07_t07_n09_what_each_may_see_and_delete_through_the_gate() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 3 --trunks 0 --fips 0");
    let network = bed.networks[0].clone();
    // The seed lets the project demo use it.
    let people = People::new(&bed);
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

    // Nothing of it goes: all is as without the gate, and who may not cascade is refused.
    for (who, refused, ..) in TABLE {
        let api = people.api(who);
        let direct = format!("{}/networks/{network}", api.network_url);
        let (here, there) = (
            api.answer_at("GET", &plain, Value::Null),
            api.answer_at("GET", &direct, Value::Null),
        );
        assert_eq!(here, there, "{who}");
        let through = listed(&api, &format!("{gate}/v2.0"));
        assert_eq!(through, listed(&api, &api.network_url), "{who}");
        if refused != 202 {
            let (status, answer) = api.answer_at("DELETE", &cascade, Value::Null);
            assert_eq!(status, refused, "{who}: {answer}");
        }
    }
    let deletions = || bed.gone("list deletions -o json").ends_with(0).json();
    assert_eq!(deletions(), json!([]));

    // It is fenced, and nothing is sent yet.
    bed.gone("pause testbed/RegionOne").ends_with(0);
    let (status, answer) = people
        .api("a member")
        .answer_at("DELETE", &cascade, Value::Null);
    assert_eq!(status, 202, "{answer}");
    let id = text(&answer["deletion"]["id"]);
    wait_for("the plan", || deletions()[0]["state"] == "running");
    for (who, _, get, delete, refer, follow) in TABLE {
        let api = people.api(who);
        let (status, answer) = api.answer_at("GET", &plain, Value::Null);
        assert_eq!(status, get, "{who}: {answer}");
        let (_, rows) = listed(&api, &format!("{gate}/v2.0"));
        assert_eq!(rows.len(), usize::from(get == 200), "{who}");
        for row in rows.iter().chain((get == 200).then(|| &answer["network"])) {
            assert_eq!(row["status"], "DELETING", "{who}");
        }
        let (status, answer) = api.answer_at("DELETE", &plain, Value::Null);
        assert_eq!(status, delete, "{who}: {answer}");
        let port = json!({"port": {"network_id": network}});
        let (status, answer) = api.answer_at("POST", &format!("{gate}/v2.0/ports"), port);
        assert_eq!(status, refer, "{who}: {answer}");
        let url = format!("{gate}/gone/v1/deletions/{id}");
        let (status, answer) = api.answer_at("GET", &url, Value::Null);
        assert_eq!(status, follow, "{who}: {answer}");
    }
    bed.gone("resume testbed/RegionOne").ends_with(0);
    wait_for("the end", || deletions()[0]["state"] == "gone");
    for (who, ..) in TABLE {
        let api = people.api(who);
        let (status, answer) = api.answer_at("GET", &plain, Value::Null);
        let known = !matches!(who, "nobody" | "a token that is none" | "access rules");
        assert_eq!(status, if known { 404 } else { 401 }, "{who}: {answer}");
    }
}
