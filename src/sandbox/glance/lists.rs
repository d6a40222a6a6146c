//! The parameters of Glance's lists, and their links.
use serde_json::{Value, json};
use uuid::Uuid;

use super::members::member;
use super::refused;
use crate::sandbox::core::{
    Body, Call, Condition, Kind, ListQuery, Page, Result, Session, refuse_if, sorts,
};

/// Default number of images on a page.
const PAGE: usize = 25;
/// Maximum number of images on a page.
const PAGE_MAX: usize = 1000;

/// Parameters that are not filters.
const CONTROLS: &str =
    "limit marker member_status visibility os_hidden tag sort sort_key sort_dir deleted";
const VISIBILITIES: [&str; 5] = ["all", "community", "public", "private", "shared"];
const MEMBER_STATUSES: [&str; 4] = ["all", "pending", "accepted", "rejected"];
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
    sorts.extend(["created_at", "id"].map(|key| (key.to_owned(), usual == "asc")));
    let filters = filters(call)?;
    let limit = call.param("limit").map_or(Ok(PAGE), str::parse);
    let limit = limit.map_err(|_| refused("InvalidLimit", &[]))?;
    Ok(ListQuery {
        filters,
        sorts,
        limit: Some(limit.min(PAGE_MAX)),
        marker: marker(session, call)?,
        shows: Some(shows(call)?),
        ..ListQuery::default()
    })
}

/// Returns each parameter once, with its last value, in the order of their first values.
fn last_values(call: &Call<'_>) -> Body {
    let pairs = call.query.iter().cloned();
    pairs.map(|(key, value)| (key, value.into())).collect()
}

/// Reads the filters. A filter by an attribute that no image has matches no image.
fn filters(call: &Call<'_>) -> Result<Vec<(String, Vec<String>)>> {
    let mut pairs = last_values(call);
    pairs.retain(|key, _| !CONTROLS.split(' ').any(|control| control == key));
    let mut filters = Vec::new();
    for (key, value) in pairs {
        let value = value.as_str().unwrap_or_default();
        let operator = value.split_once(':').filter(|_| WORDS.contains(&&*key));
        let values = match operator {
            None => vec![value.to_owned()],
            Some(("eq", word)) => vec![word.to_owned()],
            Some(("in", list)) => list.split(',').map(str::to_owned).collect(),
            Some((operator, _)) => return Err(refused("InvalidOperator", &[&operator])),
        };
        filters.push((key, values));
    }
    Ok(filters)
}

/// Returns the image after which the page starts. Admins may name a deleted one.
fn marker(session: &Session<'_>, call: &Call<'_>) -> Result<Option<Uuid>> {
    let Some(text) = call.param("marker") else {
        return Ok(None);
    };
    let id = text.parse().ok();
    let image = id.and_then(|id| session.store().find("image", id));
    let image = image.filter(|image| session.caller.is_admin || !image.is_deleted);
    let image = image.filter(|image| session.sees(image));
    let image = image.ok_or_else(|| refused("InvalidMarker", &[&text]))?;
    Ok(Some(image.id))
}

/// Returns the condition on an image to be in the caller's list. Community images of other projects are in it only
/// if the call names a visibility, and hidden images only in a list of hidden images.
fn shows(call: &Call<'_>) -> Result<Condition> {
    let visibility = call.param("visibility").map(str::to_owned);
    if let Some(word) = &visibility {
        let is_known = VISIBILITIES.contains(&word.as_str());
        refuse_if(!is_known, || refused("InvalidVisibility", &[word]))?;
    }
    let status = call.param("member_status").unwrap_or("accepted").to_owned();
    let is_known = MEMBER_STATUSES.contains(&status.as_str());
    refuse_if(!is_known, || refused("InvalidStatus", &[&status]))?;
    let is_hidden = call.param("os_hidden") == Some("true");
    let tags = call.query.iter().filter(|(key, _)| key == "tag");
    let tags: Vec<String> = tags.map(|(_, tag)| tag.clone()).collect();
    Ok(Box::new(move |session, image| {
        let caller = &session.caller;
        let is_for = *image.project == *caller.project
            || match image.text("visibility") {
                "public" => true,
                "community" => visibility.is_some(),
                "shared" if !caller.is_admin => member(session, image, &caller.project)
                    .is_some_and(|is| status == "all" || is.text("status") == status),
                _ => caller.is_admin,
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
        let mut query = last_values(call);
        query.shift_remove("marker");
        body["first"] = link(&query).into();
        if let Some(last) = page.last.filter(|_| page.is_full) {
            query.insert("marker".to_owned(), last.to_string().into());
            body["next"] = link(&query).into();
        }
    }
    body
}

fn link(query: &Body) -> String {
    let pairs = query.iter();
    let pairs = pairs.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    match query.extend_pairs(pairs).finish().as_str() {
        "" => "/v2/images".to_owned(),
        query => format!("/v2/images?{query}"),
    }
}
