//! Keystone of the practice cloud: logins, tokens, access rules, projects, domains and regions.
use gone::sandbox::{CREDENTIAL_ID, CREDENTIAL_SECRET};
use http::Method;
use serde_json::{Value, json};

use crate::cloud::{Cloud, ParsedReply};

fn issue_token(cloud: &mut Cloud, auth: Value) -> ParsedReply {
    cloud.send(
        Method::POST,
        "/v3/auth/tokens",
        None,
        Some(&json!({"auth": auth})),
        &[],
    )
}

fn password(user: &str, password: &str) -> Value {
    json!({"methods": ["password"], "password": {"user": {"name": user, "domain": {"id": "default"}, "password": password}}})
}

fn project(name: &str) -> Value {
    json!({"project": {"name": name, "domain": {"id": "default"}}})
}

fn token_of(got: &ParsedReply) -> String {
    got.reply.response.headers()["x-subject-token"]
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn version_discovery_links_to_keystone_v3_and_neutron_v2_0() {
    let mut cloud = Cloud::new();
    let root = cloud.send(Method::GET, "/", None, None, &[]);
    assert_eq!(root.status, 300);
    assert_eq!(root.body["versions"]["values"][0]["id"], "v3.14");
    for path in ["/v3", "/v3/"] {
        let version = cloud.send(Method::GET, path, None, None, &[]);
        assert_eq!(version.status, 200);
        assert_eq!(
            version.body["version"]["links"][0]["href"],
            "http://sandbox.invalid/v3/"
        );
    }
    let network = cloud.send(Method::GET, "/RegionOne/network/", None, None, &[]);
    assert_eq!(
        network.body["versions"][0]["links"][0]["href"],
        "http://sandbox.invalid/RegionOne/network/v2.0/"
    );
}

#[test]
fn a_refused_login_gets_the_same_401_for_every_reason() {
    let mut cloud = Cloud::new();
    let refused = json!({"error": {
        "code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication.",
    }});
    for auth in [
        json!({"identity": password("admin", "wrong"), "scope": project("admin")}),
        json!({"identity": password("nobody", "secret"), "scope": project("admin")}),
        json!({"identity": password("demo", "secret"), "scope": project("admin")}),
        json!({"identity": password("admin", "secret"), "scope": project("nosuch")}),
    ] {
        let got = issue_token(&mut cloud, auth);
        assert_eq!((got.status, &got.body), (401, &refused));
        let challenge = &got.reply.response.headers()["www-authenticate"];
        assert_eq!(challenge, "Keystone uri=\"http://sandbox.invalid/v3\"");
    }
    assert_eq!(issue_token(&mut cloud, json!({})).status, 400);
}

#[test]
fn a_scoped_token_has_roles_and_a_catalog_and_an_unscoped_one_has_neither() {
    let mut cloud = Cloud::new();
    let scoped = issue_token(
        &mut cloud,
        json!({"identity": password("demo", "secret"), "scope": project("demo")}),
    );
    assert_eq!(scoped.status, 201);
    let token = &scoped.body["token"];
    assert_eq!(token["project"]["name"], "demo");
    let roles: Vec<&str> = token["roles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| role["name"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["member", "reader"]);
    let types: Vec<&str> = token["catalog"]
        .as_array()
        .unwrap()
        .iter()
        .map(|service| service["type"].as_str().unwrap())
        .collect();
    let services = "identity network load-balancer image volumev3 compute";
    assert_eq!(types.join(" "), services);

    let unscoped = issue_token(&mut cloud, json!({"identity": password("demo", "secret")}));
    assert_eq!(unscoped.body["token"].get("catalog"), None);
    assert_eq!(unscoped.body["token"].get("roles"), None);
    let projects = cloud.send(
        Method::GET,
        "/v3/auth/projects",
        Some(&token_of(&unscoped)),
        None,
        &[],
    );
    assert_eq!(projects.body["projects"][0]["name"], "demo");
    assert_eq!(projects.body["projects"].as_array().unwrap().len(), 1);

    let bare = cloud.send(
        Method::POST,
        "/v3/auth/tokens?nocatalog",
        None,
        Some(&json!({"auth": {"identity": password("demo", "secret"), "scope": project("demo")}})),
        &[],
    );
    assert_eq!(bare.body["token"].get("catalog"), None);
}

#[test]
fn an_application_credential_logs_in_to_its_own_project_and_refuses_a_scope() {
    let mut cloud = Cloud::new();
    let proof = |secret: &str| json!({"methods": ["application_credential"], "application_credential": {"id": CREDENTIAL_ID, "secret": secret}});
    let got = issue_token(&mut cloud, json!({"identity": proof(CREDENTIAL_SECRET)}));
    assert_eq!(
        (got.status, &got.body["token"]["project"]["name"]),
        (201, &json!("admin"))
    );
    let token = token_of(&got);
    assert_eq!(
        cloud
            .call_as(&token, "GET", "/networks", Value::Null)
            .status,
        200
    );
    assert_eq!(
        issue_token(&mut cloud, json!({"identity": proof("wrong")})).status,
        401
    );
    let scoped = issue_token(
        &mut cloud,
        json!({"identity": proof(CREDENTIAL_SECRET), "scope": project("admin")}),
    );
    assert_eq!(scoped.status, 401);
}

#[test]
fn access_rules_limit_a_token_to_their_calls_and_its_own_validation() {
    let mut cloud = Cloud::new();
    let rule = |path: &str| json!({"service": "network", "method": "GET", "path": path});
    let rules = json!({"access_rules": [rule("/v2.0/networks"), rule("/v2.0/subnets/*"), rule("/v2.0/ports/**")]});
    let set = cloud.send(
        Method::PUT,
        "/sandbox/v1/credential",
        None,
        Some(&rules),
        &[],
    );
    assert_eq!(set.status, 204, "{:?}", set.body);
    let proof = json!({"methods": ["application_credential"],
        "application_credential": {"id": CREDENTIAL_ID, "secret": CREDENTIAL_SECRET}});
    let got = issue_token(&mut cloud, json!({"identity": proof}));
    let shown = &got.body["token"]["application_credential"]["access_rules"];
    assert_eq!(shown, &rules["access_rules"]);
    let token = token_of(&got);
    for (method, path, status) in [
        ("GET", "/networks", 200),
        ("POST", "/networks", 401),
        ("GET", "/networks/x", 401),
        ("GET", "/subnets", 401),
        ("GET", "/subnets/x", 404),
        ("GET", "/subnets/x/y", 401),
        ("GET", "/ports/x/y", 404),
        ("GET", "/routers", 401),
    ] {
        let answer = cloud.call_as(&token, method, path, json!({"network": {}}));
        assert_eq!(answer.status, status, "{method} {path}");
    }
    let mut validate = |headers: &[(&str, &str)]| {
        let mut all = vec![("x-subject-token", token.as_str())];
        all.extend_from_slice(headers);
        cloud
            .send(Method::GET, "/v3/auth/tokens", Some(&token), None, &all)
            .status
    };
    assert_eq!(validate(&[]), 404);
    assert_eq!(validate(&[("openstack-identity-access-rules", "1.0")]), 200);
    let refused = cloud.send(Method::GET, "/v3/auth/projects", Some(&token), None, &[]);
    assert_eq!(refused.status, 401);
}

#[test]
fn a_token_issued_for_a_token_expires_with_the_first() {
    let mut cloud = Cloud::new();
    let first = issue_token(
        &mut cloud,
        json!({"identity": password("admin", "secret"), "scope": project("admin")}),
    );
    cloud.advance(60_000);
    let proof = json!({"methods": ["token"], "token": {"id": token_of(&first)}});
    let second = issue_token(
        &mut cloud,
        json!({"identity": proof, "scope": project("admin")}),
    );
    assert_eq!(second.status, 201);
    assert_eq!(
        second.body["token"]["expires_at"],
        first.body["token"]["expires_at"]
    );
    assert_eq!(
        second.body["token"]["methods"],
        json!(["password", "token"])
    );
}

#[test]
fn only_an_admin_validates_other_tokens_and_lists_projects() {
    let mut cloud = Cloud::new();
    let admin = cloud.log_in("admin", "secret").unwrap();
    let demo = cloud.log_in("demo", "secret").unwrap();
    let validate = |cloud: &mut Cloud, by: &str, subject: &str| {
        let headers = [("x-subject-token", subject)];
        cloud.send(Method::GET, "/v3/auth/tokens", Some(by), None, &headers)
    };
    let validated = validate(&mut cloud, &admin, &demo);
    assert_eq!(
        (validated.status, &validated.body["token"]["user"]["name"]),
        (200, &json!("demo"))
    );
    assert_eq!(validate(&mut cloud, &demo, &demo).status, 200);
    assert_eq!(validate(&mut cloud, &demo, &admin).status, 403);
    assert_eq!(validate(&mut cloud, &admin, "bad").status, 404);
    assert_eq!(validate(&mut cloud, "bad", &demo).status, 401);

    assert_eq!(
        cloud
            .send(Method::GET, "/v3/projects", Some(&demo), None, &[])
            .status,
        403
    );
    let all = cloud.send(Method::GET, "/v3/projects", Some(&admin), None, &[]);
    assert_eq!(all.body["projects"].as_array().unwrap().len(), 3);
    let named = cloud.send(
        Method::GET,
        "/v3/projects?name=demo",
        Some(&admin),
        None,
        &[],
    );
    assert_eq!(named.body["projects"][0]["name"], "demo");

    let headers = [("x-subject-token", demo.as_str())];
    let gone = cloud.send(
        Method::DELETE,
        "/v3/auth/tokens",
        Some(&admin),
        None,
        &headers,
    );
    assert_eq!(gone.status, 204);
    assert_eq!(
        cloud.call_as(&demo, "GET", "/networks", Value::Null).status,
        401
    );
}

/// The names of the listed projects, or the status and the message of the refusal.
fn projects(cloud: &mut Cloud, token: &str, query: &str) -> Value {
    let path = format!("/v3/projects{query}");
    let got = cloud.send(Method::GET, &path, Some(token), None, &[]);
    match got.body["projects"].as_array() {
        Some(listed) => listed
            .iter()
            .map(|project| &project["name"])
            .cloned()
            .collect(),
        None => json!([got.status, got.body["error"]["message"]]),
    }
}

#[test]
fn projects_are_filtered_as_keystone_filters_them() {
    let mut cloud = Cloud::new();
    let admin = cloud.log_in("admin", "secret").unwrap();
    let all = json!(["admin", "demo", "service"]);
    let demo = json!(["demo"]);
    let none = json!([]);
    for (query, expected) in [
        ("", &all),
        // `id` is not a filter of this list; Keystone ignores it as it ignores unknown parameters.
        ("?id=11111111222243338444555555555555", &all),
        ("?nosuch=x", &all),
        ("?name=DEMO", &demo),
        ("?name=demo&name=DEMO", &demo),
        ("?name=demo&name=admin", &none),
        ("?name=demo&enabled=true", &demo),
        ("?name=demo&enabled=", &demo),
        ("?name=demo&enabled=no", &none),
        ("?enabled=0", &none),
        ("?enabled=true&enabled=false", &none),
        ("?domain_id=DEFAULT", &all),
        ("?domain_id=nosuch", &none),
        ("?parent_id=11111111222243338444555555555555", &none),
        ("?is_domain=false", &all),
        ("?is_domain=1", &none),
        ("?is_domain=true&name=demo", &none),
    ] {
        assert_eq!(projects(&mut cloud, &admin, query), *expected, "{query}");
    }
    let member = cloud.log_in("demo", "secret").unwrap();
    let forbidden = json!([
        403,
        "You are not authorized to perform the requested action: identity:list_projects."
    ]);
    assert_eq!(projects(&mut cloud, &member, "?name=demo"), forbidden);
    let got = cloud.send(
        Method::GET,
        "/v3/projects?name=demo",
        Some(&admin),
        None,
        &[],
    );
    assert_eq!(
        got.body["links"]["self"],
        "http://sandbox.invalid/v3/projects?name=demo"
    );
}

#[test]
fn a_project_is_shown_to_its_members_and_to_admins() {
    let mut cloud = Cloud::new();
    let admin = cloud.log_in("admin", "secret").unwrap();
    let demo = cloud.log_in("demo", "secret").unwrap();
    let listed = cloud.send(
        Method::GET,
        "/v3/projects?name=demo",
        Some(&admin),
        None,
        &[],
    );
    let own = listed.body["projects"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut show = |token: &str, id: &str| {
        let path = format!("/v3/projects/{id}");
        let got = cloud.send(Method::GET, &path, Some(token), None, &[]);
        let message = got.body["error"]["message"].as_str().unwrap_or_default();
        (
            got.status,
            message.to_owned(),
            got.body["project"]["name"].clone(),
        )
    };
    let shown = |name: &str| (200, String::new(), json!(name));
    let refused = |status: u16, message: &str| (status, message.to_owned(), Value::Null);
    let forbidden = "You are not authorized to perform the requested action: identity:get_project.";
    assert_eq!(show(&admin, &own), shown("demo"));
    assert_eq!(show(&demo, &own), shown("demo"));
    assert_eq!(show(&demo, &own.to_uppercase()), shown("demo"));
    assert_eq!(show(&demo, "default"), refused(403, forbidden));
    assert_eq!(
        show(&admin, "nosuch"),
        refused(404, "Could not find project: nosuch.")
    );
    assert_eq!(show(&demo, "nosuch"), refused(403, forbidden));
}

#[test]
fn only_an_admin_lists_domains_and_every_user_lists_regions() {
    let mut cloud = Cloud::new();
    let admin = cloud.log_in("admin", "secret").unwrap();
    let demo = cloud.log_in("demo", "secret").unwrap();
    for (path, to_admin, to_demo) in [
        ("/v3/domains", 200, 403),
        ("/v3/domains/default", 200, 200),
        ("/v3/domains/nosuch", 404, 403),
        ("/v3/regions", 200, 200),
        ("/v3/regions/RegionTwo", 200, 200),
        ("/v3/regions/nosuch", 404, 404),
    ] {
        for (token, status) in [(&admin, to_admin), (&demo, to_demo)] {
            let got = cloud.send(Method::GET, path, Some(token), None, &[]);
            assert_eq!(got.status, status, "{path}: {got:?}");
        }
    }
}

#[test]
fn every_answer_has_a_request_id_of_its_own() {
    let mut cloud = Cloud::new();
    let ids: Vec<String> = (0..3)
        .map(|_| {
            let got = cloud.get("/networks/nosuch");
            got.reply.response.headers()["x-openstack-request-id"]
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert!(ids.iter().all(|id| id.starts_with("req-")));
    assert_ne!(ids[0], ids[1]);
    assert_ne!(ids[1], ids[2]);
}
