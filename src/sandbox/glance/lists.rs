//! `GET /v2/images`: visibility, filters, order and pages.
use std::cmp::Ordering;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::image::{Image, Visibility, same};
use super::refusal::{bad, forbidden};
use super::search::{self, Condition};
use super::session::Session;
use crate::sandbox::Caller;
use crate::sandbox::wire::{Answer, Call, Result};

/// Default number of images per page.
const PAGE: usize = 25;
/// Maximum number of images per page.
const PAGE_MAX: usize = 1000;

const SORT_KEYS: [&str; 8] = [
    "name",
    "status",
    "container_format",
    "disk_format",
    "size",
    "id",
    "created_at",
    "updated_at",
];
const VISIBILITIES: [&str; 5] = ["community", "public", "private", "shared", "all"];
const MEMBER_STATUSES: [&str; 4] = ["pending", "accepted", "rejected", "all"];

/// The characters that a link escapes in its query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~')
    .remove(b' ');

/// The parameters of a list request.
struct Wanted {
    limit: usize,
    marker: Option<String>,
    member_status: String,
    /// Whether the request filters by visibility: only then are others' community images shown.
    by_visibility: bool,
    conditions: Vec<Condition>,
    tags: Vec<String>,
    /// Keys, and whether their order is ascending.
    sorts: Vec<(String, bool)>,
}

/// The query. Known parameters are taken out one after another; the rest are filters.
struct Query(Vec<(String, String)>);

impl Query {
    /// Removes and returns the first value of a key.
    fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(place).1)
    }

    fn take_all(&mut self, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        while let Some(value) = self.take(name) {
            values.push(value.trim().to_owned());
        }
        values
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Returns each key once, with its last value.
    fn last_values(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (key, value) in &self.0 {
            match pairs.iter_mut().find(|(known, _)| known == key) {
                Some(pair) => pair.1.clone_from(value),
                None => pairs.push((key.clone(), value.clone())),
            }
        }
        pairs
    }
}

pub(super) fn list(session: &Session<'_>, call: &Call<'_>) -> Result<Answer> {
    let wanted = Wanted::of(call)?;
    let images = &session.glance.images;
    let mut found: Vec<&Image> = images
        .values()
        .filter(|image| wanted.shows(image, session.caller))
        .collect();
    found.sort_by(|one, other| wanted.compare(one, other));
    if let Some(marker) = marker(session, &wanted)? {
        found.retain(|image| wanted.compare(image, marker) == Ordering::Greater);
    }
    found.truncate(wanted.limit);

    let mut query = Query(call.query.clone());
    query.take_all("marker");
    let mut pairs = query.last_values();
    let mut body = Map::new();
    let shown: Value = found.iter().map(|image| image.view()).collect();
    body.insert("images".to_owned(), shown);
    body.insert("first".to_owned(), link(&pairs).into());
    body.insert("schema".to_owned(), "/v2/schemas/images".into());
    if let Some(last) = found.last()
        && found.len() == wanted.limit
    {
        pairs.push(("marker".to_owned(), last.id.to_string()));
        body.insert("next".to_owned(), link(&pairs).into());
    }
    Ok(Answer::ok(Value::Object(body)))
}

/// Returns a link, relative to the service's URL.
fn link(pairs: &[(String, String)]) -> String {
    let written = |text: &str| {
        utf8_percent_encode(text, PLAIN)
            .to_string()
            .replace(' ', "+")
    };
    let query: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{}={}", written(key), written(value)))
        .collect();
    match query.as_slice() {
        [] => "/v2/images".to_owned(),
        query => format!("/v2/images?{}", query.join("&")),
    }
}

/// Returns the image after which the page starts. Admins may name a deleted one.
fn marker<'s>(session: &'s Session<'_>, wanted: &Wanted) -> Result<Option<&'s Image>> {
    let Some(text) = &wanted.marker else {
        return Ok(None);
    };
    let caller = session.caller;
    let id: Option<Uuid> = text.parse().ok();
    let image = id
        .and_then(|id| session.glance.images.get(&id))
        .filter(|image| caller.admin || !image.deleted)
        .ok_or_else(|| bad(format!("No image found with ID {text}")))?;
    if !image.visible(caller) {
        return Err(forbidden(format!(
            "Forbidding request, image {text} not visible"
        )));
    }
    Ok(Some(image))
}

impl Wanted {
    /// Reads the parameters, and refuses in Glance's order.
    fn of(call: &Call<'_>) -> Result<Self> {
        let mut query = Query(call.query.clone());
        let limit = query.take("limit");
        let marker = query.take("marker");
        let member_status = query.take("member_status");
        let tags = query.take_all("tag");
        let filters = query.last_values();
        let visibility = filters.iter().find(|(key, _)| key == "visibility");
        if let Some((_, word)) = visibility
            && !word.is_empty()
            && !VISIBILITIES.contains(&word.as_str())
        {
            return Err(bad(format!("Invalid visibility value: {word}")));
        }
        let changes_since = filters.iter().find(|(key, _)| key == "changes-since");
        if changes_since.is_some_and(|(_, value)| !value.is_empty()) {
            return Err(bad(
                "The \"changes-since\" filter is no longer available on v2.",
            ));
        }
        let member_status = member_status.unwrap_or_else(|| "accepted".to_owned());
        if !MEMBER_STATUSES.contains(&member_status.as_str()) {
            return Err(bad(format!("Invalid status: {member_status}")));
        }
        let limit = limit.map_or(Ok(PAGE), |text| page_size(&text))?;
        let by_visibility = visibility.is_some();
        let sorts = sorts(&mut query)?;
        Ok(Self {
            limit,
            marker,
            member_status,
            by_visibility,
            conditions: search::conditions(&query.last_values())?,
            tags,
            sorts,
        })
    }

    fn shows(&self, image: &Image, caller: &Caller) -> bool {
        !image.deleted
            && self.is_for(image, caller)
            && self.conditions.iter().all(|passes| passes(image))
            && self
                .tags
                .iter()
                .all(|tag| image.tags.iter().any(|own| same(own, tag)))
    }

    /// Whether the caller's list contains an image. Admins see all images except others' community images,
    /// which are shown only on request.
    fn is_for(&self, image: &Image, caller: &Caller) -> bool {
        if image.owned_by(caller) {
            return true;
        }
        match image.visibility {
            Visibility::Public => true,
            Visibility::Community => self.by_visibility,
            Visibility::Private => caller.admin,
            Visibility::Shared => caller.admin || self.is_shared_with(image, caller),
        }
    }

    fn is_shared_with(&self, image: &Image, caller: &Caller) -> bool {
        image.member(&caller.project).is_some_and(|member| {
            self.member_status == "all" || member.status == self.member_status
        })
    }

    fn compare(&self, one: &Image, other: &Image) -> Ordering {
        for (key, ascending) in &self.sorts {
            let order = match key.as_str() {
                "size" => one.size().cmp(&other.size()),
                "created_at" => one.created.cmp(&other.created),
                "updated_at" => one.updated.cmp(&other.updated),
                _ => text(one, key).cmp(&text(other, key)),
            };
            if order != Ordering::Equal {
                return if *ascending { order } else { order.reverse() };
            }
        }
        Ordering::Equal
    }
}

fn text(image: &Image, key: &str) -> String {
    search::column(image, key)
        .unwrap_or_default()
        .to_lowercase()
}

fn page_size(text: &str) -> Result<usize> {
    let limit: i64 = text
        .trim()
        .parse()
        .map_err(|_| bad("limit param must be an integer"))?;
    let limit = usize::try_from(limit).map_err(|_| bad("limit param must be positive"))?;
    Ok(limit.min(PAGE_MAX))
}

/// Reads `sort=name:asc,id` or `sort_key=name&sort_dir=asc`. The default direction is descending; ties are
/// ordered by creation time and id.
fn sorts(query: &mut Query) -> Result<Vec<(String, bool)>> {
    let mut keys: Vec<String> = Vec::new();
    let mut directions: Vec<bool> = Vec::new();
    if query.has("sort") {
        if query.has("sort_key") || query.has("sort_dir") {
            return Err(bad("Old and new sorting syntax cannot be combined"));
        }
        let sort = query.take("sort").unwrap_or_default();
        for part in sort.trim().split(',') {
            let (key, direction) = part.split_once(':').unwrap_or((part, "desc"));
            keys.push(sort_key(key.trim())?);
            directions.push(ascends(direction.trim())?);
        }
    } else {
        for key in query.take_all("sort_key") {
            keys.push(sort_key(&key)?);
        }
        for direction in query.take_all("sort_dir") {
            directions.push(ascends(&direction)?);
        }
        if directions.len() > 1 && directions.len() != keys.len() {
            return Err(bad(
                "Number of sort dirs does not match the number of sort keys",
            ));
        }
    }
    if keys.is_empty() {
        keys.push("created_at".to_owned());
    }
    let rest = match directions.as_slice() {
        [only] => *only,
        _ => false,
    };
    let directions = directions.into_iter().chain(std::iter::repeat(rest));
    let mut sorts: Vec<(String, bool)> = keys.into_iter().zip(directions).collect();
    for key in ["created_at", "id"] {
        if !sorts.iter().any(|(known, _)| known == key) {
            sorts.push((key.to_owned(), rest));
        }
    }
    Ok(sorts)
}

fn sort_key(key: &str) -> Result<String> {
    if SORT_KEYS.contains(&key) {
        return Ok(key.to_owned());
    }
    Err(bad(format!(
        "Invalid sort key: {key}. It must be one of the following: {}.",
        SORT_KEYS.join(", ")
    )))
}

fn ascends(direction: &str) -> Result<bool> {
    match direction {
        "asc" => Ok(true),
        "desc" => Ok(false),
        _ => Err(bad(format!("Invalid sort direction: {direction}"))),
    }
}
