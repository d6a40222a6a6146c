//! The parameters of Glance's lists, and their links.
use serde_json::{Value, json};
use uuid::Uuid;

use super::images::{VISIBILITIES, member_status};
use super::refused;
use crate::sandbox::core::{Call, Condition, Kind, ListQuery, Page, Result, Session, sorts};

/// Default number of images on a page.
const PAGE: usize = 25;
/// Maximum number of images on a page.
const PAGE_MAX: usize = 1000;

/// Parameters that are not filters.
const CONTROLS: &str =
    "limit marker member_status visibility os_hidden tag sort sort_key sort_dir deleted";
const MEMBER_STATUSES: [&str; 4] = ["pending", "accepted", "rejected", "all"];
/// Filters that take an operator: `eq:VALUE`, or `in:VALUE,VALUE`.
const WORDS: [&str; 5] = ["name", "id", "status", "container_format", "disk_format"];

pub(super) fn list_query(
    session: &Session<'_>,
    kind: &'static Kind,
    call: &Call<'_>,
) -> Result<ListQuery> {
    if kind.name != "image" {
        return Ok(ListQuery {
            // Members are listed in the order in which they were first added.
            sorts: vec![("number".to_owned(), true)],
            ..ListQuery::default()
        });
    }
    // The default direction is descending, also for ties.
    let usual = call.param("sort_dir").unwrap_or("desc");
    let mut sorts = sorts(kind, call, usual).map_err(|word| refused("InvalidSort", &[&word]))?;
    for key in ["created_at", "id"] {
        sorts.push((key.to_owned(), usual == "asc"));
    }
    Ok(ListQuery {
        filters: filters(call)?,
        sorts,
        limit: Some(limit(call)?),
        marker: marker(session, call)?,
        shows: Some(shows(call)?),
        ..ListQuery::default()
    })
}

/// Returns each parameter once, with its last value, in order.
fn last_values<'c>(call: &'c Call<'_>) -> Vec<(&'c str, &'c str)> {
    let mut pairs: Vec<(&'c str, &'c str)> = Vec::new();
    for (key, value) in &call.query {
        match pairs.iter_mut().find(|(known, _)| known == key) {
            Some(pair) => pair.1 = value,
            None => pairs.push((key, value)),
        }
    }
    pairs
}

/// Reads the filters. A filter by an attribute that no image has matches no image.
fn filters(call: &Call<'_>) -> Result<Vec<(String, Vec<String>)>> {
    let pairs = last_values(call).into_iter();
    pairs
        .filter(|(key, _)| !CONTROLS.split(' ').any(|control| control == *key))
        .map(|(key, value)| {
            let values = match value.split_once(':').filter(|_| WORDS.contains(&key)) {
                None => vec![value.to_owned()],
                Some(("eq", word)) => vec![word.to_owned()],
                Some(("in", list)) => list.split(',').map(str::to_owned).collect(),
                Some((operator, _)) => return Err(refused("InvalidOperator", &[&operator])),
            };
            Ok((key.to_owned(), values))
        })
        .collect()
}

fn limit(call: &Call<'_>) -> Result<usize> {
    let text = call.param("limit");
    let limit = text.map(|text| text.parse::<usize>());
    match limit.transpose() {
        Ok(limit) => Ok(limit.unwrap_or(PAGE).min(PAGE_MAX)),
        Err(_) => Err(refused("InvalidLimit", &[])),
    }
}

/// Returns the image after which the page starts. Admins may name a deleted one.
fn marker(session: &Session<'_>, call: &Call<'_>) -> Result<Option<Uuid>> {
    let Some(text) = call.param("marker") else {
        return Ok(None);
    };
    let id: Option<Uuid> = text.parse().ok();
    let image = id.and_then(|id| session.store().find("image", id));
    let image = image.filter(|image| session.caller.is_admin || !image.is_deleted);
    let image = image.filter(|image| session.sees(image));
    let image = image.ok_or_else(|| refused("InvalidMarker", &[&text]))?;
    Ok(Some(image.id))
}

/// Returns the condition on an image to be in the caller's list. Community images of other projects are in it only
/// if the call names a visibility, and hidden images only in a list of hidden images.
fn shows(call: &Call<'_>) -> Result<Condition> {
    let owned = |name: &str| call.param(name).map(str::to_owned);
    let visibility = owned("visibility");
    let known = |word: &String| word == "all" || VISIBILITIES.contains(&word.as_str());
    if let Some(word) = visibility.as_ref().filter(|word| !known(word)) {
        return Err(refused("InvalidVisibility", &[word]));
    }
    let status = owned("member_status").unwrap_or_else(|| "accepted".to_owned());
    if !MEMBER_STATUSES.contains(&status.as_str()) {
        return Err(refused("InvalidStatus", &[&status]));
    }
    let is_hidden = call.param("os_hidden").is_some_and(|word| word == "true");
    let tags = call.query.iter().filter(|(key, _)| key == "tag");
    let tags: Vec<String> = tags.map(|(_, tag)| tag.clone()).collect();
    Ok(Box::new(move |session, image| {
        let is_own = *image.project == *session.caller.project;
        let is_for = is_own
            || match image.text("visibility") {
                "public" => true,
                "community" => visibility.is_some(),
                "shared" => {
                    let member = || member_status(session, image);
                    session.caller.is_admin
                        || member().is_some_and(|is| status == "all" || is == status)
                }
                _ => session.caller.is_admin,
            };
        let wanted = visibility.as_deref().filter(|word| *word != "all");
        let own_tags = image.items("tags");
        is_for
            && wanted.is_none_or(|word| image.text("visibility") == word)
            && image.flag("os_hidden") == is_hidden
            && tags.iter().all(|tag| own_tags.iter().any(|own| own == tag))
    }))
}

/// Returns a list with its links, which are relative to the service's URL.
pub(super) fn page(kind: &'static Kind, call: &Call<'_>, page: Page) -> Value {
    let schema = format!("/v2/schemas/{}", kind.plural);
    let mut body = json!({kind.plural: page.items, "schema": schema});
    if kind.name == "image" {
        let mut pairs = last_values(call);
        pairs.retain(|(key, _)| *key != "marker");
        body["first"] = link(&pairs).into();
        let last = page.last.filter(|_| page.is_full).map(|id| id.to_string());
        if let Some(last) = &last {
            pairs.push(("marker", last));
            body["next"] = link(&pairs).into();
        }
    }
    body
}

fn link(pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    match query.finish().as_str() {
        "" => "/v2/images".to_owned(),
        query => format!("/v2/images?{query}"),
    }
}
