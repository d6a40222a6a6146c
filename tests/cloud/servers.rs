//! The words of Nova's, Cinder's and Manila's calls: what a list sends for an admin and for others, and what a row shows of
//! a resource that is gone.
use std::sync::Arc;
use std::time::Duration;

use gone::cloud::openstack::{HttpTransport, Transport};
use gone::cloud::{Cloud as _, Fields, ListRows, OpenStack};
use gone::domain::model::{KindName, Site};
use gone::domain::query::ListFilter;
use gone::system::clock::Clock;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{TOKEN, password_cloud, token_body};

/// A cloud whose login has this role, and which answers each of these paths with its body.
async fn cloud_of(role: &str, answers: &[(&str, Value)]) -> (MockServer, OpenStack) {
    let server = MockServer::start().await;
    let mut token = token_body(&server.uri());
    token["token"]["roles"] = json!([{"id": "1", "name": role}]);
    let heat =
        json!({"interface": "public", "region": "R1", "url": format!("{}/heat", server.uri())});
    let heat = json!({"type": "orchestration", "name": "heat", "endpoints": [heat]});
    let catalog = token["token"]["catalog"].as_array_mut().unwrap();
    catalog.push(heat);
    // As older clouds list it, with a project that no call needs.
    let manila = format!("{}/share/v2/p-id", server.uri());
    let manila = json!({"interface": "public", "region": "R1", "url": manila});
    catalog.push(json!({"type": "sharev2", "name": "manilav2", "endpoints": [manila]}));
    let login = ResponseTemplate::new(201)
        .insert_header("X-Subject-Token", TOKEN)
        .set_body_json(token);
    Mock::given(method("POST"))
        .and(path("/v3/auth/tokens"))
        .respond_with(login)
        .mount(&server)
        .await;
    for (at, answer) in answers {
        Mock::given(method("GET"))
            .and(path(*at))
            .respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .mount(&server)
            .await;
    }
    let cloud = OpenStack::new(
        vec![(site(), password_cloud(&server.uri()))],
        Box::new(|cloud| {
            let transport = HttpTransport::new(cloud).map_err(|error| error.to_string())?;
            Ok(Arc::new(transport) as Arc<dyn Transport>)
        }),
        Clock::system(),
        Duration::from_secs(20),
    );
    (server, cloud)
}

fn site() -> Site {
    Site::region("c", "R1")
}

/// The rows of a kind in a project, and the last request for them.
async fn rows_in_project(role: &str, kind: &str, at: &str, rows: Value) -> (Vec<Value>, String) {
    let (server, cloud) = cloud_of(role, &[(at, rows)]).await;
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let kind = kinds.get(&KindName::new(kind)).unwrap();
    let filter = ListFilter {
        key: "project_id".to_owned(),
        values: vec!["p-id".to_owned()],
    };
    let site = site();
    let request = ListRows {
        site: &site,
        kind,
        filter: Some(&filter),
        fields: Fields::Planning,
        rows_max: None,
    };
    let rows = cloud.list(request).await.unwrap().rows;
    let asked = server.received_requests().await.unwrap();
    let asked = asked.iter().rfind(|it| it.url.path() == at).unwrap();
    let version = asked.headers.get("openstack-api-version");
    let version = version.map_or("none", |it| it.to_str().unwrap());
    let query = asked.url.query().unwrap_or_default();
    (rows, format!("{query} as {version}"))
}

#[tokio::test]
async fn n19_an_admins_list_names_all_projects_and_a_members_sends_no_filter_that_cinder_refuses_him()
 {
    // The catalog lists Cinder with the project in its path, which no call needs.
    let at = "/volume/v3/volumes/detail";
    let rows = json!({"volumes": [{"id": "v1"}]});
    let (_, asked) = rows_in_project("admin", "volume", at, rows.clone()).await;
    assert_eq!(
        asked,
        "project_id=p-id&all_tenants=1&limit=500 as volume 3.44"
    );
    let (_, asked) = rows_in_project("member", "volume", at, rows).await;
    assert_eq!(asked, "limit=500 as volume 3.44");
}

#[tokio::test]
async fn n19_a_backup_whose_project_only_admins_are_shown_is_in_the_logins_own() {
    let at = "/volume/v3/backups/detail";
    let rows = json!({"backups": [{"id": "b1"}]});
    let (rows, _) = rows_in_project("member", "backup", at, rows.clone()).await;
    assert_eq!(rows[0]["os-backup-project-attr:project_id"], "p-id");
    let shown = json!({"backups": [{"id": "b1", "os-backup-project-attr:project_id": "other"}]});
    let (rows, _) = rows_in_project("admin", "backup", at, shown).await;
    assert_eq!(rows[0]["os-backup-project-attr:project_id"], "other");
}

/// The list names what Heat made, and the template says what it keeps.
#[tokio::test]
async fn n05_a_resource_of_a_stack_shows_what_heat_made_and_whether_it_keeps_it() {
    let nested = "http://heat/v1/p-id/stacks/web-more-x/2";
    let rows = json!({"resources": [
        {"resource_name": "interface", "physical_resource_id": "r:subnet_id=s", "links": []},
        {"resource_name": "key", "physical_resource_id": "http://barbican/v1/secrets/k", "links": []},
        {"resource_name": "more", "physical_resource_id": "2", "links": [{"rel": "nested", "href": nested}]},
        {"resource_name": "disk", "physical_resource_id": "", "links": [{"rel": "self", "href": "x"}]},
    ]});
    let template = json!({"resources": {"disk": {"deletion_policy": "retain"}, "key": {}},
        "Resources": {"more": {"DeletionPolicy": "Retain"}}});
    let answers = [
        ("/heat/stacks/web/1/resources", rows),
        ("/heat/stacks/web/1/template", template),
    ];
    let (server, cloud) = cloud_of("member", &answers).await;
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let filter = ListFilter {
        key: "stack".to_owned(),
        values: vec!["web,1".to_owned()],
    };
    let request = ListRows {
        site: &site(),
        kind: kinds.get(&KindName::new("stack_resource")).unwrap(),
        filter: Some(&filter),
        fields: Fields::Planning,
        rows_max: None,
    };
    let rows = cloud.list(request).await.unwrap().rows;
    let shown = |field: &str| {
        rows.iter()
            .map(|row| row[field].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown("stack"), ["web,1"; 4]);
    assert_eq!(shown("made")[0], json!(["r", "subnet_id", "s"]));
    assert!(shown("made")[1].as_array().unwrap().contains(&json!("k")));
    assert_eq!(shown("made")[3], json!([]));
    let none = json!([]);
    let inner = json!(["web-more-x,2"]);
    assert_eq!(shown("nested"), [none.clone(), none.clone(), inner, none]);
    let null = Value::Null;
    let kept = [null.clone(), null, json!("Retain"), json!("retain")];
    assert_eq!(shown("deletion_policy"), kept);
    let asked = server.received_requests().await.unwrap();
    let limited = |it: &&wiremock::Request| it.url.query().is_some_and(|it| it.contains("limit"));
    assert_eq!(asked.iter().filter(limited).count(), 0);
}

#[tokio::test]
async fn i13_a_server_that_nova_still_shows_as_deleted_is_gone() {
    let at = "/compute/v2.1/servers/s1";
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let server = kinds.get(&KindName::new("server")).unwrap();
    for (status, is_there) in [("ACTIVE", true), ("SOFT_DELETED", true), ("DELETED", false)] {
        let answer = json!({"server": {"id": "s1", "status": status}});
        let (_server, cloud) = cloud_of("member", &[(at, answer)]).await;
        let read = cloud.read(&site(), server, "s1").await.unwrap();
        assert_eq!(read.row.is_some(), is_there, "{status}");
        assert!(read.offered);
    }
}

/// The rows of a kind that this filter finds, and the requests to Manila for them: their paths and queries, the
/// microversion that a header of Manila's own names, and whether it asks for experiments.
async fn shares(
    answers: &[(&str, Value)],
    kind: &str,
    (key, value): (&str, &str),
) -> (Vec<Value>, Vec<String>) {
    let (server, cloud) = cloud_of("admin", answers).await;
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let filter = ListFilter {
        key: key.to_owned(),
        values: vec![value.to_owned()],
    };
    let request = ListRows {
        site: &site(),
        kind: kinds.get(&KindName::new(kind)).unwrap(),
        filter: Some(&filter),
        fields: Fields::Planning,
        rows_max: None,
    };
    let rows = cloud.list(request).await.unwrap().rows;
    let asked = server.received_requests().await.unwrap();
    let asked = asked
        .iter()
        .filter(|it| it.url.path().starts_with("/share"));
    let line = |it: &wiremock::Request| {
        let header = |name: &str| {
            let value = it.headers.get(name);
            value.map_or("none", |it| it.to_str().unwrap()).to_owned()
        };
        assert_eq!(header("openstack-api-version"), "none");
        format!(
            "{}?{} as {}, experiments {}",
            it.url.path(),
            it.url.query().unwrap_or_default(),
            header("x-openstack-manila-api-version"),
            header("x-openstack-manila-api-experimental")
        )
    };
    (rows, asked.map(line).collect())
}

#[tokio::test]
async fn n19_manilas_version_has_a_header_of_its_own_and_the_recycle_bin_is_listed_too() {
    let at = "/share/v2/shares/detail";
    let answer = json!({"shares": [{"id": "s1"}]});
    let (rows, asked) = shares(&[(at, answer)], "share", ("project_id", "p-id")).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    let of_project = format!("{at}?project_id=p-id&all_tenants=1");
    assert_eq!(
        asked,
        [
            format!("{of_project} as 2.69, experiments true"),
            format!("{of_project}&is_soft_deleted=true as 2.69, experiments true")
        ]
    );
}

#[tokio::test]
async fn access_rules_are_listed_by_a_filter_for_their_share_and_without_their_secrets() {
    let at = "/share/v2/share-access-rules";
    let rule = json!({"id": "a1", "access_to": "alice", "access_key": "secret"});
    let answers = [(at, json!({"access_list": [rule]}))];
    let (rows, asked) = shares(&answers, "share_access_rule", ("share_id", "s 1&")).await;
    let row = json!({"id": "a1", "access_to": "alice", "share_id": "s 1&"});
    assert_eq!(rows, [row]);
    assert_eq!(
        asked,
        [format!("{at}?share_id=s+1%26 as 2.69, experiments true")]
    );
}

#[tokio::test]
async fn n19_a_cloud_that_does_not_offer_a_kinds_version_has_none_of_the_kind() {
    let at = "/share/v2/resource-locks";
    for (newest, rows_are_listed) in [
        ("2.80", false),
        ("2.81", true),
        ("2.99", true),
        ("3.0", true),
    ] {
        let answers = [
            (
                "/share/v2/",
                json!({"versions": [{"id": "v2.0", "version": newest}]}),
            ),
            (at, json!({"resource_locks": [{"id": "k1"}]})),
        ];
        let (rows, asked) = shares(&answers, "resource_lock", ("resource_id", "s1")).await;
        assert_eq!(rows.len() == 1, rows_are_listed, "{newest}: {rows:?}");
        assert_eq!(asked[0], "/share/v2/? as none, experiments none");
        let list = format!("{at}?resource_id=s1&all_projects=1 as 2.81, experiments true");
        assert_eq!(asked.get(1), rows_are_listed.then_some(&list), "{newest}");
    }
}
