//! Pages of a list in which some rows are hidden (T13, T21).

use std::collections::{BTreeMap, BTreeSet};

use gone::domain::model::Phase;
use gone::sandbox::WorldOptions;
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Stage;

/// Follows the links from this page to the last one. Returns the rows of each page.
async fn pages(stage: &Stage, path: &str) -> Vec<Vec<Value>> {
    let mut url = format!("{}{path}", stage.url(GateSource::Local, "network"));
    let mut pages = Vec::new();
    loop {
        let page = stage.send(Method::GET, &url, &stage.admin, None).await;
        assert_eq!(page.status, 200, "{url}: {}", page.text);
        let json = page.json();
        pages.push(json["networks"].as_array().unwrap().clone());
        let links = json["networks_links"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let Some(next) = links.iter().find(|link| link["rel"] == "next") else {
            return pages;
        };
        url = next["href"].as_str().unwrap().to_owned();
    }
}

/// Creates 23 networks. Every third one, and six in a row, are being deleted. Returns the ids of all networks, and of
/// those that are being deleted.
async fn networks(stage: &Stage) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut ids = BTreeSet::new();
    for number in 0..23 {
        let body = json!({"network": {"name": format!("n{number}")}});
        ids.insert(stage.make("network", "/v2.0/networks", body).await);
    }
    let hidden: BTreeSet<String> = ids
        .iter()
        .enumerate()
        .filter(|(at, _)| at % 3 == 0 || (5..11).contains(at))
        .map(|(_, id)| id.clone())
        .collect();
    for id in &hidden {
        stage.set_phase("network", id, Some(Phase::Deleting));
    }
    (ids, hidden)
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_pages_whose_size_the_service_limits_stay_full() {
    let world = WorldOptions {
        page_max: Some(4),
        ..WorldOptions::default()
    };
    let stage = Stage::in_world(world, "").await;
    let (ids, hidden) = networks(&stage).await;
    for path in ["/v2.0/networks", "/v2.0/networks?limit=100"] {
        let pages = pages(&stage, path).await;
        let (last, full) = pages.split_last().unwrap();
        assert!(full.iter().all(|page| page.len() == 4), "{path}: {pages:?}");
        assert!(!last.is_empty(), "{path}");
        assert_eq!(pages.iter().flatten().count(), ids.len() - hidden.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_pages_stay_full_and_list_each_visible_row_once() {
    let stage = Stage::new().await;
    let (ids, hidden) = networks(&stage).await;
    let shown: BTreeSet<String> = ids.difference(&hidden).cloned().collect();
    for (limit, more) in [
        (1, ""),
        (2, ""),
        (4, ""),
        (100, ""),
        (4, "&fields=id"),
        (4, "&fields=id&fields=name"),
    ] {
        let pages = pages(&stage, &format!("/v2.0/networks?limit={limit}{more}")).await;
        let (last, full) = pages.split_last().unwrap();
        assert!(
            full.iter().all(|page| page.len() == limit),
            "{limit}: {pages:?}"
        );
        assert!(
            !last.is_empty() || full.is_empty(),
            "an empty page after a full one"
        );
        let listed: Vec<String> = pages
            .iter()
            .flatten()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            listed.len(),
            shown.len(),
            "limit {limit}: each row is listed once"
        );
        assert_eq!(BTreeSet::from_iter(listed), shown, "{limit}");
    }
    // The gate needs the id of each row; the client did not ask for it, and does not get it.
    let names = pages(&stage, "/v2.0/networks?limit=4&fields=name").await;
    let names: Vec<&Value> = names.iter().flatten().collect();
    assert_eq!(names.len(), shown.len());
    assert!(
        names.iter().all(|row| row.as_object().unwrap().len() == 1),
        "{names:?}"
    );
}

/// Returns the ids on a page, and the URLs of its links by their names.
async fn page(stage: &Stage, url: &str) -> (Vec<String>, BTreeMap<String, String>) {
    let page = stage.send(Method::GET, url, &stage.admin, None).await;
    assert_eq!(page.status, 200, "{url}: {}", page.text);
    let json = page.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = json["networks"].as_array().unwrap().iter();
    let links = json["networks_links"].as_array().into_iter().flatten();
    (
        rows.map(|row| text(&row["id"])).collect(),
        links
            .map(|link| (text(&link["rel"]), text(&link["href"])))
            .collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn t21_pages_are_full_in_both_directions_and_no_link_names_a_hidden_row() {
    let stage = Stage::new().await;
    let (ids, hidden) = networks(&stage).await;
    let shown: Vec<String> = ids.difference(&hidden).cloned().collect();
    let first = format!(
        "{}/v2.0/networks?limit=4&sort_key=id&sort_dir=asc",
        stage.url(GateSource::Local, "network")
    );
    for (start, onward) in [
        (first.clone(), "next"),
        (format!("{first}&page_reverse=True"), "previous"),
    ] {
        let mut pages = Vec::new();
        let mut url = Some(start);
        while let Some(at) = url {
            let (rows, links) = page(&stage, &at).await;
            for link in links.values() {
                let named = hidden.iter().find(|id| link.contains(id.as_str()));
                assert_eq!(named, None, "{at} leads to {link}");
            }
            pages.push(rows);
            url = links.get(onward).cloned();
        }
        let (last, full) = pages.split_last().unwrap();
        assert!(full.iter().all(|page| page.len() == 4), "{pages:?}");
        assert!(last.len() <= 4, "{pages:?}");
        if onward == "previous" {
            pages.reverse();
        }
        assert_eq!(
            pages.concat(),
            shown,
            "each row is listed once, in the order of the list"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t21_a_filter_by_state_applies_to_all_pages() {
    let stage = Stage::new().await;
    let (ids, hidden) = networks(&stage).await;
    for (state, found) in [
        ("DELETING", hidden.clone()),
        ("ACTIVE", ids.difference(&hidden).cloned().collect()),
    ] {
        let mut listed = BTreeSet::new();
        let mut url = Some(format!(
            "{}/v2.0/networks?limit=3&status={state}",
            stage.url(GateSource::User, "network")
        ));
        while let Some(at) = url {
            let (rows, links) = page(&stage, &at).await;
            assert!(rows.len() == 3 || !links.contains_key("next"), "{rows:?}");
            listed.extend(rows);
            url = links.get("next").cloned();
        }
        assert_eq!(listed, found, "{state}");
    }
}
