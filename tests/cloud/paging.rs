//! Lists without links to the next page, which are paged by a marker or by an offset, even while rows are created and
//! deleted.

use std::sync::Mutex;

use gone::cloud::openstack::{ListRequest, Paging, Reason};
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use crate::support::{ports, stub_cloud};

/// A service that pages its rows by `marker` or `offset`, two on a page, and changes them before each page.
struct Rows {
    rows: Mutex<Vec<u32>>,
    /// Called with the number of pages that were read before.
    changes: fn(usize, &mut Vec<u32>),
    pages: Mutex<usize>,
}

impl Respond for Rows {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut rows = self.rows.lock().unwrap();
        let mut pages = self.pages.lock().unwrap();
        (self.changes)(*pages, &mut rows);
        *pages += 1;
        let parameter = |name: &str| {
            let mut pairs = request.url.query_pairs();
            pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
        };
        let from = match (parameter("marker"), parameter("offset")) {
            (Some(marker), _) => {
                let at = rows.iter().position(|id| id.to_string() == marker);
                at.map_or(0, |at| at + 1)
            }
            (None, Some(offset)) => offset.parse().unwrap(),
            (None, None) => 0,
        };
        let page: Vec<Value> = rows.iter().skip(from).take(2).map(row).collect();
        ResponseTemplate::new(200).set_body_json(json!({ "ports": page }))
    }
}

fn row(id: &u32) -> Value {
    json!({ "id": id.to_string() })
}

/// Lists these rows from a service that has two on a page. Returns their ids, or why the list failed.
async fn listed(
    paging: Paging,
    rows: impl IntoIterator<Item = u32>,
    changes: fn(usize, &mut Vec<u32>),
) -> Result<Vec<u32>, Reason> {
    let (server, session) = stub_cloud().await;
    mount(&server, rows.into_iter().collect(), changes).await;
    let request = ListRequest { paging, ..ports() };
    let listing = session.list(request).await.map_err(|error| error.reason)?;
    let ids = listing.items.iter().map(|row| row["id"].as_str().unwrap());
    Ok(ids.map(|id| id.parse().unwrap()).collect())
}

async fn mount(server: &MockServer, rows: Vec<u32>, changes: fn(usize, &mut Vec<u32>)) {
    let rows = Rows {
        rows: Mutex::new(rows),
        changes,
        pages: Mutex::new(0),
    };
    Mock::given(method("GET"))
        .and(path("/v2.0/ports"))
        .respond_with(rows)
        .mount(server)
        .await;
}

#[tokio::test]
async fn i13_lists_without_links_are_read_to_their_end() {
    for paging in [Paging::Marker, Paging::Offset] {
        for number in 0..6 {
            let ids = listed(paging, 0..number, |_, _| {}).await.unwrap();
            assert_eq!(ids, (0..number).collect::<Vec<_>>(), "{paging:?}");
        }
    }
}

#[tokio::test]
async fn i13_a_row_that_comes_or_goes_during_paging_by_offset_hides_no_other_row() {
    let goes = |pages: usize, rows: &mut Vec<u32>| {
        if pages == 1 {
            rows.remove(0);
        }
    };
    let ids = listed(Paging::Offset, 0..6, goes).await.unwrap();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    let comes = |pages: usize, rows: &mut Vec<u32>| {
        if pages == 1 {
            rows.insert(0, 9);
        }
    };
    let ids = listed(Paging::Offset, 0..4, comes).await.unwrap();
    assert_eq!(ids, [9, 0, 1, 2, 3]);
}

#[tokio::test]
async fn i13_a_list_that_empties_during_paging_by_offset_is_empty_and_not_an_error() {
    let all_go = |pages: usize, rows: &mut Vec<u32>| {
        if pages == 1 {
            rows.clear();
        }
    };
    let ids = listed(Paging::Offset, 0..6, all_go).await.unwrap();
    assert_eq!(ids, Vec::<u32>::new());
}

#[tokio::test]
async fn i13_a_list_that_changes_before_every_page_is_an_error() {
    let changes = |pages: usize, rows: &mut Vec<u32>| rows.insert(0, 100 + pages as u32);
    let failed = listed(Paging::Offset, 0..6, changes).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the list was read 6 times, and changed each time while it was read"
    );
}
