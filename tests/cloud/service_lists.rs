//! Calls of Nova, Cinder, Heat and Manila: which queries and headers a list sends, for an admin and for a member, and
//! how its rows are read.
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

/// Starts a cloud whose login has this role, and which answers each of these paths with its body.
async fn cloud_of(role: &str, answers: &[(&str, Value)]) -> (MockServer, OpenStack) {
    let server = MockServer::start().await;
    let mut token = token_body(&server.uri());
    token["token"]["roles"] = json!([{"id": "1", "name": role}]);
    let heat =
        json!({"interface": "public", "region": "R1", "url": format!("{}/heat", server.uri())});
    let heat = json!({"type": "orchestration", "name": "heat", "endpoints": [heat]});
    let catalog = token["token"]["catalog"].as_array_mut().unwrap();
    catalog.push(heat);
    // Older clouds list the URL with a project, which no call needs.
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

/// Lists a kind in a project. Returns the rows, and the query and microversion of the last request for them.
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
    let requests = server.received_requests().await.unwrap();
    let last = requests.iter().rfind(|it| it.url.path() == at).unwrap();
    let version = last.headers.get("openstack-api-version");
    let version = version.map_or("none", |it| it.to_str().unwrap());
    let query = last.url.query().unwrap_or_default();
    (rows, format!("{query} as {version}"))
}

#[tokio::test]
async fn n19_only_an_admins_volume_list_asks_for_all_projects_and_filters_by_project() {
    // The catalog lists Cinder's URL with a project, which no call needs.
    let at = "/volume/v3/volumes/detail";
    let rows = json!({"volumes": [{"id": "v1"}]});
    let (_, request) = rows_in_project("admin", "volume", at, rows.clone()).await;
    assert_eq!(
        request,
        "project_id=p-id&all_tenants=1&limit=500 as volume 3.44"
    );
    let (_, request) = rows_in_project("member", "volume", at, rows).await;
    assert_eq!(request, "limit=500 as volume 3.44");
}

#[tokio::test]
async fn n19_a_backup_row_without_a_project_belongs_to_the_logins_project() {
    let at = "/volume/v3/backups/detail";
    let rows = json!({"backups": [{"id": "b1"}]});
    let (rows, _) = rows_in_project("member", "backup", at, rows.clone()).await;
    assert_eq!(rows[0]["os-backup-project-attr:project_id"], "p-id");
    let shown = json!({"backups": [{"id": "b1", "os-backup-project-attr:project_id": "other"}]});
    let (rows, _) = rows_in_project("admin", "backup", at, shown).await;
    assert_eq!(rows[0]["os-backup-project-attr:project_id"], "other");
}

/// The list has the ids of the resources that Heat created; the template says which of them Heat keeps.
#[tokio::test]
async fn n05_a_stack_resource_shows_its_created_ids_nested_stacks_and_deletion_policy() {
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
    let requests = server.received_requests().await.unwrap();
    let limited = |it: &&wiremock::Request| it.url.query().is_some_and(|it| it.contains("limit"));
    assert_eq!(requests.iter().filter(limited).count(), 0);
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

/// Lists a kind of Manila with this filter. Returns the rows, and the requests for them: path, query, the microversion
/// in Manila's own header, and the header that allows experimental calls.
async fn manila_rows(
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
    let requests = server.received_requests().await.unwrap();
    let requests = requests
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
    (rows, requests.map(line).collect())
}

#[tokio::test]
async fn n19_manila_gets_its_own_version_header_and_its_recycle_bin_is_listed_too() {
    let at = "/share/v2/shares/detail";
    let answer = json!({"shares": [{"id": "s1"}]});
    let (rows, requests) = manila_rows(&[(at, answer)], "share", ("project_id", "p-id")).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    let of_project = format!("{at}?project_id=p-id&all_tenants=1");
    assert_eq!(
        requests,
        [
            format!("{of_project} as 2.69, experiments true"),
            format!("{of_project}&is_soft_deleted=true as 2.69, experiments true")
        ]
    );
}

#[tokio::test]
async fn share_access_rules_are_listed_for_their_share_and_without_their_secrets() {
    let at = "/share/v2/share-access-rules";
    let rule = json!({"id": "a1", "access_to": "alice", "access_key": "secret"});
    let answers = [(at, json!({"access_list": [rule]}))];
    let (rows, requests) = manila_rows(&answers, "share_access_rule", ("share_id", "s 1&")).await;
    let row = json!({"id": "a1", "access_to": "alice", "share_id": "s 1&"});
    assert_eq!(rows, [row]);
    assert_eq!(
        requests,
        [format!("{at}?share_id=s+1%26 as 2.69, experiments true")]
    );
}

#[tokio::test]
async fn n19_a_kind_whose_microversion_the_cloud_lacks_has_no_rows() {
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
        let (rows, requests) = manila_rows(&answers, "resource_lock", ("resource_id", "s1")).await;
        assert_eq!(rows.len() == 1, rows_are_listed, "{newest}: {rows:?}");
        assert_eq!(requests[0], "/share/v2/? as none, experiments none");
        let list = format!("{at}?resource_id=s1&all_projects=1 as 2.81, experiments true");
        assert_eq!(
            requests.get(1),
            rows_are_listed.then_some(&list),
            "{newest}"
        );
    }
}
