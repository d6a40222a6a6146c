//! The deletion of a project covers every kind and visibility, for admins and members, even if Keystone no longer knows
//! the project (N19). It is an error if a service shows nothing to the login (P9).

use std::sync::Arc;

use gone::control::{ControlError, query};
use gone::domain::kinds::Source;
use gone::domain::model::{DeletionState, ErrorClass, Plan, PlanOptions, RefusalRule};
use gone::frontends::offline::doctor::log_in;
use serde_json::{Value, json};

use crate::client::{Client, cascade};
use crate::harness::{Bench, Login, assert_contains, assert_matches, with_engine};

fn with_public() -> PlanOptions {
    PlanOptions {
        include_public: true,
        ..cascade()
    }
}

fn with_project() -> PlanOptions {
    PlanOptions {
        with_project: true,
        ..cascade()
    }
}

fn image(bench: &Bench, project: &str, visibility: &str, hidden: bool) -> String {
    let answer = bench.call_ok(
        "POST",
        "/v2/images",
        json!({ "name": format!("{visibility}-{hidden}"), "visibility": visibility, "os_hidden": hidden,
            "owner": project, "container_format": "bare", "disk_format": "raw" }),
    );
    answer["id"].as_str().unwrap().to_owned()
}

fn project(bench: &Bench, name: &str) -> String {
    project_with(bench, json!({ "name": name }))
}

fn project_with(bench: &Bench, fields: Value) -> String {
    let answer = bench.call_ok("POST", "/v3/projects", json!({ "project": fields }));
    answer["project"]["id"].as_str().unwrap().to_owned()
}

/// Creates a network with a subnet and two ports in a project. Neutron adds the default security group. Returns the id
/// of the network.
fn furnish(bench: &Bench, project: &str) -> String {
    let network = bench.create("networks", json!({ "name": "rest", "project_id": project }));
    bench.create(
        "subnets",
        json!({ "network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24", "project_id": project }),
    );
    for name in ["one", "two"] {
        bench.create(
            "ports",
            json!({ "network_id": network, "name": name, "project_id": project }),
        );
    }
    network
}

fn rows_of(bench: &Bench, collection: &str, project: &str) -> usize {
    let rows = bench.rows(collection).into_iter();
    rows.filter(|row| row["project_id"] == project).count()
}

fn steps_of(plan: &Plan, kind: &str) -> Vec<String> {
    let steps = plan.steps.iter().filter(|step| step.kind.as_str() == kind);
    steps.map(|step| step.resource_id.clone()).collect()
}

async fn projects(client: &Client) -> Vec<Value> {
    listed(client, query::Resources::default()).await
}

async fn listed(client: &Client, how: query::Resources) -> Vec<Value> {
    let resources = query::Resources {
        kind: "project".into(),
        ..how
    };
    let listings = client.control.ask(resources).await.unwrap();
    let [listing] = &listings[..] else {
        panic!("{listings:?}");
    };
    assert_eq!(listing.error, None);
    let rows = listing.rows.iter();
    rows.map(|row| row.attributes.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn n19_private_and_shared_images_are_deleted_and_public_ones_stay_unless_included() {
    let bench = Bench::new(1);
    let demo = bench.demo_project();
    let mut open = Vec::new();
    let mut own = Vec::new();
    for hidden in [false, true] {
        open.extend(["public", "community"].map(|it| image(&bench, &demo, it, hidden)));
        own.extend(["shared", "private"].map(|it| image(&bench, &demo, it, hidden)));
    }
    open.sort();
    own.sort();
    let left = with_engine(&bench, async |client| {
        let plan = client.plan("project", "demo").await;
        let mut planned = steps_of(&plan, "image");
        planned.sort();
        assert_eq!(planned, own);
        let mut left: Vec<String> = plan
            .left
            .iter()
            .map(|left| left.resource.key.id.clone())
            .collect();
        left.retain(|id| open.contains(id));
        left.sort();
        assert_eq!(left, open);
        for id in &open {
            let says = plan.warnings.iter().find(|warning| warning.contains(id));
            assert!(
                says.unwrap().contains("all projects may use it"),
                "{says:?}"
            );
        }
        let id = client.delete_until_gone("project", "demo").await.id;
        let plan = client.frozen_plan(&id).await;
        let deletion = client.deletion(&id).await;
        gone::domain::report::Line::without_a_step(&deletion, Some(&plan))
    })
    .await;
    for id in &open {
        let line = left.iter().find(|line| line.resource.id == *id).unwrap();
        assert!(line.message.starts_with("stays: it is"), "{line:?}");
        assert_eq!(line.status, 424);
        assert_eq!(bench.status(&format!("/v2/images/{id}")), 200);
    }
    for id in &own {
        assert_eq!(bench.status(&format!("/v2/images/{id}")), 404);
    }
    with_engine(&bench, async |client| {
        let id = client.delete_with("project", "demo", with_public()).await;
        client.until_gone(&id).await;
    })
    .await;
    for id in &open {
        assert_eq!(bench.status(&format!("/v2/images/{id}")), 404);
    }
}

#[tokio::test(start_paused = true)]
async fn n19_a_community_image_that_is_itself_the_target_is_deleted() {
    let bench = Bench::new(1);
    let demo = bench.demo_project();
    let community = image(&bench, &demo, "community", false);
    bench.delete_until_gone("image", "community-false").await;
    assert_eq!(bench.status(&format!("/v2/images/{community}")), 404);
}

#[tokio::test(start_paused = true)]
async fn n19_an_external_network_stays_with_its_subnet_pool_and_address_scope() {
    let bench = Bench::new(1);
    let shop = project(&bench, "shop");
    let scope = bench.create(
        "address-scopes",
        json!({ "name": "scope", "ip_version": 4, "project_id": shop }),
    );
    let pool = bench.create(
        "subnetpools",
        json!({ "name": "pool", "prefixes": ["10.8.0.0/16"], "default_prefixlen": 24,
            "address_scope_id": scope, "project_id": shop }),
    );
    let external = bench.create(
        "networks",
        json!({ "name": "ext", "router:external": true, "project_id": shop }),
    );
    let subnet = bench.create(
        "subnets",
        json!({ "network_id": external, "ip_version": 4, "subnetpool_id": pool, "project_id": shop }),
    );
    let inner = furnish(&bench, &shop);
    with_engine(&bench, async |client| {
        let plan = client.plan("project", "shop").await;
        assert_eq!(plan.refused, []);
        let left: Vec<&str> = plan
            .left
            .iter()
            .map(|left| left.resource.key.id.as_str())
            .collect();
        for id in [&external, &subnet, &pool, &scope] {
            assert!(left.contains(&id.as_str()), "{left:?}");
            assert!(plan.steps.iter().all(|step| step.resource_id != *id));
        }
        client.delete_until_gone("project", "shop").await;
    })
    .await;
    assert!(!bench.exists("networks", &inner));
    assert!(bench.exists("networks", &external) && bench.exists("subnets", &subnet));
    assert!(bench.exists("subnetpools", &pool) && bench.exists("address-scopes", &scope));
}

#[tokio::test(start_paused = true)]
async fn n19_a_shared_network_stays_unless_public_resources_are_included() {
    let bench = Bench::new(1);
    let shop = project(&bench, "shop");
    let shared = bench.create(
        "networks",
        json!({ "name": "all", "shared": true, "project_id": shop }),
    );
    let port = bench.create("ports", json!({ "network_id": shared, "project_id": shop }));
    bench.delete_until_gone("project", "shop").await;
    assert!(bench.exists("networks", &shared) && !bench.exists("ports", &port));
    with_engine(&bench, async |client| {
        let id = client.delete_with("project", "shop", with_public()).await;
        client.until_gone(&id).await;
    })
    .await;
    assert!(!bench.exists("networks", &shared));
}

#[tokio::test(start_paused = true)]
async fn p09_a_login_without_a_project_is_an_error_and_not_an_empty_project() {
    for login in [Login::System, Login::Unscoped] {
        let mut bench = Bench::new(1);
        let demo = bench.demo_project();
        furnish(&bench, &demo);
        bench.login = login;
        with_engine(&bench, async |client| {
            for (kind, id_or_name) in [("project", demo.as_str()), ("network", "rest")] {
                let message = match client.try_delete(kind, id_or_name, cascade()).await {
                    // The project itself is found, but the services do not show its resources to the login.
                    Ok(id) => {
                        let refused = client.until_refused(&id).await;
                        assert_eq!(refused.refused[0].rule, RefusalRule::NotShown);
                        refused.note
                    }
                    Err(ControlError::Auth { message }) => message,
                    Err(other) => panic!("{login:?} {kind}: {other:?}"),
                };
                let names_the_reason = message.contains("has no project")
                    || message.contains("the login has no project")
                    || message.contains("not authorized");
                assert!(names_the_reason, "{message}");
            }
        })
        .await;
        assert_eq!(bench.writes().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn p09_the_doctor_names_each_service_that_shows_the_login_no_resources() {
    let mut bench = Bench::new(1);
    let doctor = async |bench: &Bench| {
        let logins = log_in(&bench.cloud(), &bench.kinds).await;
        logins.into_iter().next().unwrap().result
    };
    assert_eq!(doctor(&bench).await, Ok("admin in admin".to_owned()));
    bench.faults(json!([{ "match": { "path": "/lbaas", "method": "GET" },
        "action": { "status": 403, "message": "Policy does not allow this request to be performed." } }]));
    let (class, why) = doctor(&bench).await.unwrap_err();
    assert_eq!(class, ErrorClass::Auth);
    assert_contains(&why, "load-balancer_member");
    bench.faults(json!([]));
    bench.login = Login::System;
    let (class, why) = doctor(&bench).await.unwrap_err();
    assert_eq!(class, ErrorClass::Auth);
    for service in ["image", "load-balancer", "network"] {
        assert_contains(
            &why,
            &format!("the {service} service shows it no resources"),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn i15_the_doctor_names_the_calls_that_access_rules_do_not_allow() {
    let mut bench = Bench::new(1);
    bench.login = Login::Credential;
    let doctor = async |bench: &Bench| {
        let logins = log_in(&bench.cloud(), &bench.kinds).await;
        logins.into_iter().next().unwrap().result
    };
    assert_eq!(doctor(&bench).await, Ok("admin in admin".to_owned()));
    bench.access_rules(json!([
        { "service": "network", "method": "GET", "path": "/v2.0/**" },
        { "service": "image", "method": "GET", "path": "/v2/*" },
    ]));
    let (class, why) = doctor(&bench).await.unwrap_err();
    assert_eq!(class, ErrorClass::Auth);
    let missing = "the access rules of the application credential \"practice\" do not allow GET";
    assert_contains(&why, missing);
    assert_contains(&why, "of the load-balancer service");
    assert!(!why.contains("of the network service"), "{why}");
    assert!(!why.contains("of the image service"), "{why}");
    bench.access_rules(Value::Null);
    assert_eq!(doctor(&bench).await, Ok("admin in admin".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn n19_a_member_may_delete_the_members_own_project_by_name() {
    let mut bench = Bench::new(1);
    let demo = bench.demo_project();
    let (_, made) = bench.api_as(
        "demo",
        "POST",
        "/v2.0/networks",
        json!({ "network": { "name": "mine" } }),
    );
    bench.login = Login::Member;
    with_engine(&bench, async |client| {
        let names: Vec<Value> = projects(&client).await;
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(names[0]["name"], "demo");
        client.delete_until_gone("project", "demo").await;
        let other = client.try_delete("project", "admin", cascade()).await;
        assert_matches!(other, Err(ControlError::Auth { .. }));
    })
    .await;
    assert!(!bench.exists("networks", made["network"]["id"].as_str().unwrap()));
    assert_eq!(rows_of(&bench, "networks", &demo), 0);
}

#[tokio::test(start_paused = true)]
async fn a_bare_list_of_projects_asks_only_keystone() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
        let before = bench.sent().len();
        let bare = query::Resources {
            bare: true,
            ..query::Resources::default()
        };
        let rows = listed(&client, bare).await;
        let sent = bench.sent().split_off(before);
        assert!(rows.iter().any(|row| row["name"] == "demo"), "{rows:?}");
        assert!(rows.iter().all(|row| row["resources"].is_null()));
        assert!(sent.iter().all(|it| it.path.contains("/v3/")), "{sent:?}");
        assert!(
            projects(&client)
                .await
                .iter()
                .all(|row| row["resources"].is_u64())
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n19_a_project_that_keystone_no_longer_knows_is_listed_and_emptied() {
    let bench = Bench::new(1);
    let dead = project(&bench, "defunct");
    furnish(&bench, &dead);
    assert_eq!(rows_of(&bench, "security-groups", &dead), 1);
    let (status, _) = bench.api("DELETE", &format!("/v3/projects/{dead}"), Value::Null);
    assert_eq!(status, 204);
    with_engine(&bench, async |client| {
        let listed = projects(&client).await;
        let found = listed
            .iter()
            .find(|row| row["id"] == dead.as_str())
            .unwrap();
        assert_eq!(found["note"], "Keystone does not know it any more");
        assert_eq!(found["counts"]["network"], 1);
        assert_eq!(found["counts"]["security_group"], 1);
        assert_eq!(found["resources"], 5);
        let unknown = listed.iter().filter(|row| row["unknown"] == true);
        assert_eq!(unknown.count(), 1, "{listed:?}");

        client.delete_until_gone("project", &dead).await;
        let listed = projects(&client).await;
        assert!(listed.iter().all(|row| row["id"] != dead.as_str()));
        let again = client.try_delete("project", &dead, cascade()).await;
        assert_matches!(again, Err(ControlError::NotFound { .. }));
    })
    .await;
    // The default security group is gone, too: the lists that gone reads must not make Neutron create it again.
    for collection in ["networks", "subnets", "ports", "security-groups"] {
        assert_eq!(rows_of(&bench, collection, &dead), 0, "{collection}");
    }
}

#[tokio::test(start_paused = true)]
async fn p01_an_approved_plan_whose_project_or_network_has_vanished_is_drift() {
    let bench = Bench::new(1);
    let shop = project(&bench, "shop");
    let network = furnish(&bench, &shop);
    with_engine(&bench, async |client| {
        let of_network = client.plan("network", &network).await.hash.clone();
        let of_project = client.plan("project", "shop").await.hash.clone();
        bench.api("DELETE", &format!("/v3/projects/{shop}"), Value::Null);
        for port in bench.rows("ports") {
            let id = port["id"].as_str().unwrap();
            bench.api("DELETE", &format!("/v2.0/ports/{id}"), Value::Null);
        }
        bench.api("DELETE", &format!("/v2.0/networks/{network}"), Value::Null);
        for hash in [of_network, of_project] {
            let id = client.delete_plan(&hash).await;
            let refused = client.until_refused(&id).await.refused;
            assert_eq!(refused[0].rule, RefusalRule::Drift, "{refused:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n19_the_keystone_project_is_deleted_once_it_is_empty_in_each_region() {
    let bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    let shop = project(&bench, "shop");
    furnish(&bench, &shop);
    let (status, answer) = bench.api_at(
        "RegionTwo",
        "POST",
        "/v2.0/networks",
        json!({ "network": { "name": "far", "project_id": shop } }),
    );
    assert_eq!(status, 201, "{answer}");
    let golden = image(&bench, &shop, "public", false);
    with_engine(&bench, async |client| {
        // A request for one region leaves out the other one.
        let one = client
            .try_delete("project", "shop@envvars/RegionOne", with_project())
            .await;
        let refused = client.until_refused(&one.unwrap()).await;
        assert!(
            refused
                .note
                .contains("but the request leaves out envvars/RegionTwo"),
            "{refused:?}"
        );
        let id = client.delete_with("project", "shop", with_project()).await;
        let refused = client.until_refused(&id).await.refused;
        assert!(
            refused[0].reason.contains("would not be empty"),
            "{refused:?}"
        );
        assert_eq!(refused[0].blocker.as_ref().unwrap().key().id, golden);

        let all = PlanOptions {
            include_public: true,
            ..with_project()
        };
        let id = client.delete_with("project", "shop", all).await;
        assert_eq!(client.until_gone(&id).await.state, DeletionState::Gone);
    })
    .await;
    assert_eq!(bench.status(&format!("/v3/projects/{shop}")), 404);
    let writes = bench.writes();
    let of_project = |sent: &crate::harness::SentRequest| sent.path.contains("/projects/");
    let deleted: Vec<_> = writes.iter().filter(|sent| of_project(sent)).collect();
    assert_eq!(deleted.len(), 1, "{:?}", writes.last());
    assert!(of_project(writes.last().unwrap()), "{:?}", writes.last());
    assert_eq!(rows_of(&bench, "security-groups", &shop), 0);
}

/// Without its project the login has no identity: to each of its calls, Keystone answers that the project does not
/// exist.
#[tokio::test(start_paused = true)]
async fn n19_i13_the_logins_own_project_is_confirmed_gone_by_keystones_answers() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
        for (project, is_the_logins) in [("admin", true), ("demo", false)] {
            let plan = client.plan_with("project", project, with_project()).await;
            let mut warnings = plan.warnings.iter();
            let warns = warnings.any(|it| it.contains("can no longer sign in to"));
            assert_eq!(warns, is_the_logins, "{project}: {:?}", plan.warnings);
        }
        let id = client.delete_with("project", "admin", with_project()).await;
        assert_eq!(client.until_gone(&id).await.state, DeletionState::Gone);
    })
    .await;
    let writes = bench.writes();
    let last = writes.last().unwrap();
    assert!(last.path.contains("/projects/"), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn n19_a_project_with_a_child_project_and_a_domain_are_refused_before_any_write() {
    let bench = Bench::new(1);
    let shop = project(&bench, "shop");
    furnish(&bench, &shop);
    let till = project_with(&bench, json!({ "name": "till", "parent_id": shop }));
    let domain = project_with(&bench, json!({ "name": "retail", "is_domain": true }));
    with_engine(&bench, async |client| {
        let id = client.delete_with("project", "shop", with_project()).await;
        let refused = client.until_refused(&id).await.refused;
        assert_eq!(refused.len(), 1, "{refused:?}");
        let why = format!("project till ({till}) is below it");
        assert!(refused[0].reason.contains(&why), "{refused:?}");
        assert_eq!(refused[0].blocker.as_ref().unwrap().key().id, till);

        let id = client.delete_with("project", &domain, with_project()).await;
        let refused = client.until_refused(&id).await.refused;
        assert_eq!(refused.len(), 1, "{refused:?}");
        let reason = &refused[0].reason;
        assert_contains(reason, "project retail");
        assert_contains(reason, "it is a domain");

        // The resources of a project may be deleted while it has child projects.
        assert_eq!(client.plan("project", "shop").await.refused, []);
    })
    .await;
    assert_eq!(bench.writes().len(), 0, "{:?}", bench.writes());
}

#[tokio::test(start_paused = true)]
async fn n19_the_keystone_project_stays_if_gone_has_no_kinds_for_an_extension() {
    let mut bench = Bench::new(1);
    let shop = project(&bench, "shop");
    bench.kinds = Arc::new(
        gone::cloud::load_kinds(&[Source {
            file: "more.toml".into(),
            text: "service = \"network\"\n[not_covered]\nextensions = { external-net = \"kites\" }\n[kind]\n".into(),
        }])
        .unwrap(),
    );
    with_engine(&bench, async |client| {
        let id = client.delete_with("project", "shop", with_project()).await;
        let refused = client.until_refused(&id).await.refused;
        assert!(refused[0].reason.contains("kites"), "{refused:?}");
        // If the Keystone project stays, the extension is no reason for a refusal.
        let plan = client.plan("project", "shop").await;
        assert_eq!(plan.refused, []);
    })
    .await;
    assert_eq!(bench.status(&format!("/v3/projects/{shop}")), 200);
}

#[tokio::test(start_paused = true)]
async fn n19_a_service_that_refuses_its_lists_blocks_only_the_plans_that_need_it() {
    let mut bench = Bench::new(1);
    let demo = bench.demo_project();
    let made = bench.seed(
        json!({ "project": "demo", "networks": 2, "ports_per_network": 1,
        "load_balancers": 1 }),
    );
    let balancer = made["load_balancers"][0].as_str().unwrap();
    bench.login = Login::Member;
    bench.faults(json!([{ "match": { "kind": "load_balancer", "method": "GET" },
        "action": { "status": 403, "message": "Policy does not allow this request to be performed." } }]));
    let ports = bench.rows("ports");
    let vip = ports
        .iter()
        .find(|port| port["device_owner"] == "Octavia")
        .unwrap();
    let networks = made["networks"].as_array().unwrap();
    let free = networks
        .iter()
        .find(|it| **it != vip["network_id"])
        .unwrap();
    with_engine(&bench, async |client| {
        let plan = client.plan("network", free.as_str().unwrap()).await;
        assert_eq!(plan.refused, []);
        let says = |warning: &&String| {
            warning.contains("not looked at: load_balancer")
                && warning.contains("load-balancer_member")
        };
        assert!(
            plan.warnings.iter().any(|it| says(&it)),
            "{:?}",
            plan.warnings
        );

        let plan = client
            .plan("network", vip["network_id"].as_str().unwrap())
            .await;
        let refusal = &plan.refused[0];
        assert_eq!(refusal.resource.key.id, vip["id"].as_str().unwrap());
        assert!(
            refusal
                .reason
                .contains("the load-balancer service does not show"),
            "{refusal:?}"
        );

        // A plan for a project needs the lists of every service.
        let refused = client.try_delete("project", &demo, cascade()).await;
        match refused {
            Ok(id) => {
                let refused = client.until_refused(&id).await;
                assert!(refused.note.contains("load-balancer_member"), "{refused:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
    bench.faults(json!([]));
    let path = format!("/v2.0/lbaas/loadbalancers/{balancer}");
    assert_eq!(bench.status(&path), 200);
}
