//! Lists are complete, or an error.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gone::cloud::openstack::{CallError, HttpTransport, Listing, Reason, RestCalls, Session};
use gone::cloud::{Cloud as _, Fields, ListRows, OpenStack};
use gone::domain::model::{KindName, Site};
use gone::domain::query::ListFilter;
use gone::system::clock::Clock;
use serde_json::{Value, json};
use wiremock::matchers::{method, path, query_param, query_param_is_missing};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::support::{DEADLINE, ports, stub_cloud};

fn rows(from: usize, to: usize) -> Vec<Value> {
    (from..to).map(|n| json!({"id": n.to_string()})).collect()
}

fn page(rows: Vec<Value>, next: Option<String>) -> ResponseTemplate {
    let mut links = vec![json!({"rel": "previous", "href": "http://x/"})];
    links.extend(next.map(|href| json!({"rel": "next", "href": href})));
    ResponseTemplate::new(200).set_body_json(json!({"ports": rows, "ports_links": links}))
}

/// Makes the server answer a request for the page after `marker`; without a marker, for the first page.
async fn mount_page_after(server: &MockServer, marker: Option<&str>, answer: ResponseTemplate) {
    let mock = Mock::given(method("GET")).and(path("/v2.0/ports"));
    let mock = match marker {
        Some(marker) => mock.and(query_param("marker", marker)),
        None => mock.and(query_param_is_missing("marker")),
    };
    mock.respond_with(answer).mount(server).await;
}

fn link(server: &MockServer, marker: &str) -> Option<String> {
    Some(format!(
        "{}/v2.0/ports?limit=2&marker={marker}",
        server.uri()
    ))
}

fn ids(listing: &Listing) -> Vec<&str> {
    let ids = listing.items.iter().map(|item| item["id"].as_str());
    ids.map(Option::unwrap).collect()
}

async fn list(session: &Session) -> Result<Listing, CallError> {
    session.list(ports()).await
}

fn not_found(kind: &str) -> ResponseTemplate {
    let error = json!({"NeutronError": {"type": kind, "message": "Port 1 could not be found.", "detail": ""}});
    ResponseTemplate::new(404).set_body_json(error)
}

#[test]
fn a_value_with_a_comma_is_quoted_where_a_service_takes_a_list_of_values() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let asked = |kind: &str| {
        let kind = kinds.get(&KindName::new(kind)).unwrap();
        let calls = kind.calls_of::<RestCalls>().unwrap();
        calls.filter(calls.list.as_ref().unwrap(), "id", &["a,b", "c"])
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(asked("image"), [pair("id", "in:\"a,b\",c")]);
    assert_eq!(asked("port"), [pair("id", "a,b"), pair("id", "c")]);
}

#[tokio::test]
async fn pages_are_followed_to_an_empty_last_one() {
    let (server, session) = stub_cloud().await;
    mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
    mount_page_after(&server, Some("1"), page(rows(2, 4), link(&server, "3"))).await;
    mount_page_after(&server, Some("3"), page(vec![], None)).await;
    let query = [("network_id".to_owned(), "a b&c".to_owned())];
    let mut request = ports();
    request.query = &query;
    let listing = session.list(request).await.unwrap();
    assert_eq!(ids(&listing), ["0", "1", "2", "3"]);
    assert_eq!((listing.pages, listing.complete), (3, true));
    let first = &server.received_requests().await.unwrap()[1];
    assert_eq!(first.url.query(), Some("network_id=a+b%26c&limit=2"));
}

#[tokio::test]
async fn pages_shorter_than_the_limit_are_followed_too() {
    let (server, session) = stub_cloud().await;
    mount_page_after(&server, None, page(rows(0, 1), link(&server, "0"))).await;
    mount_page_after(&server, Some("0"), page(vec![], link(&server, "x"))).await;
    mount_page_after(&server, Some("x"), page(rows(1, 2), None)).await;
    assert_eq!(ids(&list(&session).await.unwrap()), ["0", "1"]);
}

#[tokio::test]
async fn the_links_of_every_service_are_understood() {
    for next in [
        json!({"ports_links": [{"rel": "next", "href": "URL/v2.0/ports?marker=1"}]}),
        json!({"links": {"next": "URL/v2.0/ports?marker=1", "self": "URL/"}}),
        json!({"next": "/v2.0/ports?marker=1"}),
        // The service does not know that it is behind a TLS proxy.
        json!({"next": "https://127.0.0.1/v2.0/ports?marker=1"}),
    ] {
        let (server, session) = stub_cloud().await;
        let mut body: Value =
            serde_json::from_str(&next.to_string().replace("URL", &server.uri())).unwrap();
        body["ports"] = json!(rows(0, 2));
        mount_page_after(
            &server,
            None,
            ResponseTemplate::new(200).set_body_json(body),
        )
        .await;
        mount_page_after(&server, Some("1"), page(rows(2, 3), None)).await;
        assert_eq!(
            ids(&list(&session).await.unwrap()),
            ["0", "1", "2"],
            "{next}"
        );
    }
}

#[tokio::test]
async fn a_link_to_another_address_is_followed_by_its_marker_at_our_own_endpoint() {
    let (other, _) = stub_cloud().await;
    for link in [
        format!("{}/v2.0/ports?marker=1", other.uri()),
        format!(
            "http://localhost:{}/v2.0/ports?marker=1",
            other.address().port()
        ),
        "http://controller.internal:9696/v2.0/ports.json?limit=7&marker=1".to_owned(),
        "https://proxy.example/networking/v2.0/ports?marker=1".to_owned(),
        "//evil.example/v2.0/ports?marker=1".to_owned(),
        "/v2.0/ports?marker=1".to_owned(),
        "ports?marker=1".to_owned(),
        "?marker=1".to_owned(),
    ] {
        let (server, session) = stub_cloud().await;
        mount_page_after(&server, None, page(rows(0, 2), Some(link.clone()))).await;
        mount_page_after(&server, Some("1"), page(rows(2, 3), None)).await;
        let listing = list(&session).await.unwrap();
        assert_eq!(ids(&listing), ["0", "1", "2"], "{link}");
        assert!(other.received_requests().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_relative_link_does_not_double_the_path_of_the_endpoint() {
    let server = MockServer::start().await;
    let login = crate::support::token_answer(&format!("{}/networking", server.uri()), "t");
    Mock::given(method("POST"))
        .respond_with(login)
        .mount(&server)
        .await;
    let ports_at = || Mock::given(path("/networking/v2.0/ports"));
    let first = page(
        rows(0, 2),
        Some("/networking/v2.0/ports?marker=1".to_owned()),
    );
    let first = ports_at()
        .and(query_param_is_missing("marker"))
        .respond_with(first);
    first.mount(&server).await;
    let second = ports_at().and(query_param("marker", "1"));
    second
        .respond_with(page(rows(2, 3), None))
        .mount(&server)
        .await;
    let session = crate::support::session_of(crate::support::password_cloud(&server.uri()));
    assert_eq!(ids(&list(&session).await.unwrap()), ["0", "1", "2"]);
}

#[tokio::test]
async fn the_next_page_keeps_the_filters_that_its_link_omits() {
    let (server, session) = stub_cloud().await;
    let link = "http://controller.internal:9696/v2.0/ports?marker=1&limit=1".to_owned();
    mount_page_after(&server, None, page(rows(0, 2), Some(link))).await;
    let filtered = Mock::given(method("GET"))
        .and(query_param("marker", "1"))
        .and(query_param("limit", "1"))
        .and(query_param("network_id", "n"));
    filtered
        .respond_with(page(rows(2, 3), None))
        .mount(&server)
        .await;
    let query = [("network_id".to_owned(), "n".to_owned())];
    let mut request = ports();
    request.query = &query;
    let listing = session.list(request).await.unwrap();
    assert_eq!(ids(&listing), ["0", "1", "2"]);
}

#[tokio::test]
async fn a_link_that_does_not_continue_the_list_is_an_error() {
    for link in [
        "http://controller.internal:9696/v2.0/networks?marker=1",
        "http://controller.internal:9696/v2.0/ports",
        "/v2.0/ports/page/2",
        "ftp://127.0.0.1/v2.0/ports?marker=1",
    ] {
        let (server, session) = stub_cloud().await;
        mount_page_after(&server, None, page(rows(0, 2), Some(link.to_owned()))).await;
        let error = list(&session).await.unwrap_err();
        assert!(
            matches!(error.reason, Reason::ForeignLink { .. }),
            "{link}: {error}"
        );
    }
}

#[tokio::test]
async fn i13_a_list_with_unknown_paging_is_an_error_and_not_its_first_page() {
    for fields in [
        json!({"nextToken": "abc"}),
        json!({"next_page_token": "abc"}),
        json!({"next": 2}),
        json!({"links": {"next": {"page": 2}}}),
        json!({"has_more": true}),
        json!({"truncated": true}),
        json!({"cursor": "abc"}),
    ] {
        let (server, session) = stub_cloud().await;
        let mut body = fields.clone();
        body["ports"] = json!(rows(0, 2));
        let answer = ResponseTemplate::new(200).set_body_json(body);
        mount_page_after(&server, None, answer).await;
        let error = list(&session).await.unwrap_err();
        assert!(
            matches!(error.reason, Reason::UnknownPaging { .. }),
            "{fields}: {error}"
        );
    }
    let (server, session) = stub_cloud().await;
    let header = "<http://n/v2.0/ports?marker=1>; rel=\"next\"";
    let answer = page(rows(0, 2), None).insert_header("Link", header);
    mount_page_after(&server, None, answer).await;
    let error = list(&session).await.unwrap_err();
    assert!(
        matches!(error.reason, Reason::UnknownPaging { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn fields_that_announce_no_next_page_end_a_list() {
    let (server, session) = stub_cloud().await;
    let body = json!({
        "ports": rows(0, 2), "links": {"next": null, "previous": null}, "truncated": false,
        "nextToken": null, "first": "/v2.0/ports", "schema": "/v2.0/schemas/ports",
    });
    let answer = ResponseTemplate::new(200).set_body_json(body);
    mount_page_after(&server, None, answer).await;
    assert_eq!(ids(&list(&session).await.unwrap()), ["0", "1"]);
}

#[tokio::test]
async fn a_vanished_marker_starts_the_list_again() {
    let (server, session) = stub_cloud().await;
    let starts = Arc::new(AtomicUsize::new(0));
    let count = starts.clone();
    let uri = server.uri();
    let first = move |_: &Request| {
        let marker = ["1", "2"][count.fetch_add(1, Ordering::SeqCst)];
        page(
            rows(0, 2),
            Some(format!("{uri}/v2.0/ports?marker={marker}")),
        )
    };
    Mock::given(method("GET"))
        .and(query_param_is_missing("marker"))
        .respond_with(first)
        .mount(&server)
        .await;
    mount_page_after(&server, Some("1"), not_found("PortNotFound")).await;
    mount_page_after(&server, Some("2"), page(rows(2, 3), None)).await;
    let listing = list(&session).await.unwrap();
    assert_eq!(ids(&listing), ["0", "1", "2"]);
    assert_eq!((listing.pages, starts.load(Ordering::SeqCst)), (4, 2));
}

#[tokio::test]
async fn a_vanished_marker_drops_only_the_rows_of_its_part_of_the_filter() {
    let (server, _) = stub_cloud().await;
    let (first, second) = ("a".repeat(4_000), "b".repeat(4_000));
    // In the second part of the filter, the last row of the first page is gone when the next page is requested.
    let starts = AtomicUsize::new(0);
    let uri = server.uri();
    let part_two = move |_: &Request| match starts.fetch_add(1, Ordering::SeqCst) {
        0 => page(rows(2, 4), Some(format!("{uri}/v2.0/ports?marker=3"))),
        _ => page(rows(2, 3), None),
    };
    mount_page_after(&server, Some("3"), not_found("PortNotFound")).await;
    Mock::given(query_param("id", &second))
        .respond_with(part_two)
        .mount(&server)
        .await;
    Mock::given(query_param("id", &first))
        .respond_with(page(rows(0, 2), None))
        .mount(&server)
        .await;
    let configured = crate::support::password_cloud(&server.uri());
    let site = Site::region("c", "R1");
    let cloud = OpenStack::new(
        vec![(site.clone(), configured)],
        Box::new(|cloud| Ok(Arc::new(HttpTransport::new(cloud).unwrap()))),
        Clock::system(),
        DEADLINE,
    );
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let request = ListRows {
        site: &site,
        kind: kinds.get(&KindName::new("port")).unwrap(),
        filter: Some(&ListFilter {
            key: "id".into(),
            values: vec![first, second],
        }),
        fields: Fields::All,
        rows_max: None,
    };
    let listed = cloud.list(request).await.unwrap();
    assert_eq!(listed.rows, rows(0, 3));
}

#[tokio::test]
async fn markers_that_always_vanish_end_in_an_error() {
    let (server, session) = stub_cloud().await;
    mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
    mount_page_after(&server, Some("1"), not_found("PortNotFound")).await;
    let error = list(&session).await.unwrap_err();
    assert_eq!(
        error.remote().unwrap().kind.as_deref(),
        Some("PortNotFound")
    );
}

#[tokio::test]
async fn a_404_of_another_type_or_on_the_first_page_is_an_error_at_once() {
    for kind in ["HTTPNotFound", "NetworkNotFound"] {
        let (server, session) = stub_cloud().await;
        mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
        mount_page_after(&server, Some("1"), not_found(kind)).await;
        assert!(list(&session).await.is_err());
        assert_eq!(server.received_requests().await.unwrap().len(), 3, "{kind}");
    }
    let (server, session) = stub_cloud().await;
    mount_page_after(&server, None, not_found("PortNotFound")).await;
    assert!(list(&session).await.is_err());
    assert_eq!(server.received_requests().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_whose_links_form_a_loop_is_an_error() {
    let (server, session) = stub_cloud().await;
    mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
    mount_page_after(&server, Some("1"), page(rows(2, 4), link(&server, "3"))).await;
    mount_page_after(&server, Some("3"), page(rows(0, 2), link(&server, "1"))).await;
    let error = list(&session).await.unwrap_err();
    assert_eq!(error.reason, Reason::EndlessList { page: 3 });
}

#[tokio::test]
async fn i13_an_answer_that_is_not_a_list_is_an_error_and_not_an_empty_list() {
    for body in [
        "",
        "{}",
        "null",
        "[]",
        "{\"ports\": null}",
        "{\"ports\": {}}",
        "{\"networks\": []}",
    ] {
        let (server, session) = stub_cloud().await;
        mount_page_after(
            &server,
            None,
            ResponseTemplate::new(200).set_body_string(body),
        )
        .await;
        let error = list(&session).await.unwrap_err();
        assert!(
            matches!(error.reason, Reason::NoItems { .. }),
            "{body}: {error}"
        );
    }
    for body in ["<html></html>", "{\"ports\": [", "ports"] {
        let (server, session) = stub_cloud().await;
        mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
        mount_page_after(
            &server,
            Some("1"),
            ResponseTemplate::new(200).set_body_string(body),
        )
        .await;
        assert!(
            list(&session).await.unwrap_err().outcome_unknown(),
            "{body}"
        );
    }
}

#[tokio::test]
async fn i13_an_identity_that_changes_during_a_list_is_an_error() {
    let server = MockServer::start().await;
    let (uri, logins) = (server.uri(), AtomicUsize::new(0));
    let login = move |_: &Request| {
        let number = logins.fetch_add(1, Ordering::SeqCst);
        let mut body = crate::support::token_body(&uri);
        body["token"]["roles"] = json!([{"id": "1", "name": format!("role-{number}")}]);
        let answer =
            ResponseTemplate::new(201).insert_header("X-Subject-Token", number.to_string());
        answer.set_body_json(body)
    };
    Mock::given(method("POST"))
        .respond_with(login)
        .mount(&server)
        .await;
    mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
    Mock::given(wiremock::matchers::header("x-auth-token", "0"))
        .and(query_param("marker", "1"))
        .respond_with(ResponseTemplate::new(401))
        .mount(&server)
        .await;
    mount_page_after(&server, Some("1"), page(rows(2, 3), None)).await;
    let session = crate::support::session_of(crate::support::password_cloud(&server.uri()));
    let error = list(&session).await.unwrap_err();
    assert_eq!(error.reason, Reason::IdentityChanged);
}

#[tokio::test]
async fn a_list_can_be_read_page_by_page_or_up_to_a_number_of_rows() {
    let (server, session) = stub_cloud().await;
    mount_page_after(&server, None, page(rows(0, 2), link(&server, "1"))).await;
    mount_page_after(&server, Some("1"), page(rows(2, 4), None)).await;
    let mut pages = session.pages(ports());
    let mut sizes = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        sizes.push((page.items.len(), page.first, page.last));
    }
    assert_eq!(sizes, [(2, true, false), (2, false, true)]);
    for (rows_max, rows, pages, complete) in [
        (1, 1, 1, false),
        (2, 2, 1, false),
        (3, 3, 2, false),
        (4, 4, 2, true),
    ] {
        let mut request = ports();
        request.rows_max = Some(rows_max);
        request.deadline = DEADLINE;
        let listing = session.list(request).await.unwrap();
        let found = (listing.items.len(), listing.pages, listing.complete);
        assert_eq!(found, (rows, pages, complete));
    }
}
