//! Finds the next page of a list in an answer.

use http::HeaderMap;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::call::Reason;

/// Returns the path and query of the next page, below the configured endpoint; none if the page `body` is the last one.
/// `start` is the path and query of the list's first page.
///
/// Only the query of a link is used. Services behind a proxy write links to hosts, schemes and paths that
/// only they know, and the token may only go to the configured endpoint. Parameters that the link lacks are
/// kept from the first request, so that no filter is lost.
///
/// # Errors
/// The answer points to a next page in an unknown way, or to a page of another list. If this page were taken for the
/// whole list, rows would be lost.
pub(super) fn onward(
    body: &Value,
    headers: &HeaderMap,
    items_key: &str,
    start: &str,
) -> Result<Option<String>, Reason> {
    let Some(link) = next_link(body, items_key)? else {
        return match unknown_continuation(body, headers, items_key) {
            Some(said) => Err(Reason::UnknownPaging { said }),
            None => Ok(None),
        };
    };
    let (path, asked) = start.split_once('?').unwrap_or((start, ""));
    let foreign = || Reason::ForeignLink {
        link: link.clone(),
        path: path.to_owned(),
    };
    let (there, query) = parts(&link).ok_or_else(foreign)?;
    let same_list = there.is_empty() || last_segment(&there) == last_segment(path);
    if !same_list || query.is_empty() {
        return Err(foreign());
    }
    let carried: Vec<(String, String)> = pairs(&query);
    let kept = pairs(asked)
        .into_iter()
        .filter(|(key, _)| !carried.iter().any(|(carried, _)| carried == key));
    let mut next = form_urlencoded::Serializer::new(String::new());
    next.extend_pairs(kept);
    next.extend_pairs(carried.iter());
    Ok(Some(format!("{path}?{}", next.finish())))
}

/// Returns the decoded parameter `marker` of a path's query; none if it is missing or empty.
pub(super) fn marker(path: &str) -> Option<String> {
    let (_, query) = path.split_once('?')?;
    let (_, marker) = pairs(query).into_iter().find(|(key, _)| key == "marker")?;
    Some(marker).filter(|marker| !marker.is_empty())
}

/// Returns the link to the next page: `{key}_links` (Neutron, Octavia, Nova), `links.next` (Keystone), or
/// `next` (Glance). Each is a text, or an object with an `href`.
fn next_link(body: &Value, items_key: &str) -> Result<Option<String>, Reason> {
    for field in [&format!("{items_key}_links"), "links", "next"] {
        let link = match body.get(field) {
            None => continue,
            Some(Value::Array(links)) => {
                let rel = |link: &&Value| link.get("rel").and_then(Value::as_str) == Some("next");
                links.iter().find(rel)
            }
            Some(Value::Object(links)) if field == "links" => links.get("next"),
            said => said,
        };
        match link {
            None | Some(Value::Null) => {}
            Some(link) => match link.get("href").unwrap_or(link).as_str() {
                Some("") => {}
                Some(link) => return Ok(Some(link.to_owned())),
                None => {
                    let said = format!("{field:?} is not a link");
                    return Err(Reason::UnknownPaging { said });
                }
            },
        }
    }
    Ok(None)
}

/// Returns the field or header that announces more pages in a form that gone does not know, if there is one.
fn unknown_continuation(body: &Value, headers: &HeaderMap, items_key: &str) -> Option<String> {
    const SIGNS: [&str; 5] = ["next", "continuation", "cursor", "more", "truncated"];
    const KNOWN: [&str; 2] = ["next", "links"];
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    let of_pages = |key: &str| {
        let plain = key.to_lowercase().replace(['_', '-'], "");
        key != items_key
            && !KNOWN.contains(&key)
            && SIGNS.iter().any(|sign| {
                plain.starts_with(sign)
                    || plain.strip_prefix("has").is_some_and(|it| it == *sign)
                    || plain.strip_prefix("is").is_some_and(|it| it == *sign)
            })
    };
    let mut fields = body.as_object().into_iter().flatten();
    let in_body = fields.find(|(key, value)| of_pages(key) && !empty(value));
    let in_body = in_body.map(|(key, _)| format!("the field {key:?}"));
    in_body.or_else(|| {
        let link = headers.get("link")?.to_str().ok()?.to_lowercase();
        let next = link.contains("rel=\"next\"") || link.contains("rel=next");
        next.then(|| "the header Link".to_owned())
    })
}

/// Splits a link, absolute or not, into path and query.
fn parts(link: &str) -> Option<(String, String)> {
    let link = link.split('#').next().unwrap_or_default();
    if let Ok(url) = Url::parse(link) {
        let http = matches!(url.scheme(), "http" | "https");
        let query = url.query().unwrap_or_default().to_owned();
        return http.then(|| (url.path().to_owned(), query));
    }
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    Some((path.to_owned(), query.to_owned()))
}

fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

fn last_segment(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    last.trim_end_matches(".json")
}
