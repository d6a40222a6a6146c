//! The parameters of Neutron's lists, and their links.
use serde_json::{Value, json};
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Call, Kind, ListQuery, Page, Result, Session, filters, sorts, values};

/// Parameters that are not filters.
const CONTROLS: &str = "limit marker page_reverse fields sort_key sort_dir";

pub(super) fn list_query(
    session: &Session<'_>,
    kind: &'static Kind,
    call: &Call<'_>,
) -> Result<ListQuery> {
    let (filters, unknown) = filters(kind, call, CONTROLS);
    if !unknown.is_empty() {
        return Err(refused("UnknownFilter", &[&unknown.join("', '")]));
    }
    let text = call.param("limit").unwrap_or("0");
    let limit: usize = text
        .parse()
        .map_err(|_| refused("InvalidLimit", &[&text]))?;
    let limit = match (limit, session.options.page_max) {
        (0, max) => max,
        (limit, Some(max)) => Some(limit.min(max)),
        (limit, None) => Some(limit),
    };
    let marker = match call.param("marker").filter(|_| limit.is_some()) {
        None => None,
        Some(text) => {
            let id: Option<Uuid> = text.parse().ok();
            let known = id.filter(|id| session.get(kind.name, *id).is_some());
            if known.is_none() && !kind.forgets_marker {
                return Err(kind.missing(text));
            }
            known
        }
    };
    Ok(ListQuery {
        filters,
        fields: values(call, "fields"),
        sorts: sorts(kind, call, "asc").map_err(|word| refused("UnknownSortKey", &[&word]))?,
        limit,
        marker,
        is_reverse: call
            .param("page_reverse")
            .is_some_and(|flag| flag.eq_ignore_ascii_case("true")),
        ..ListQuery::default()
    })
}

/// Returns a list with its links; without a limit, it has none. A full page has a `next` and a `previous` link. Another
/// page has only `previous`, or only `next` if it was read in reverse.
pub(super) fn page(kind: &'static Kind, call: &Call<'_>, page: Page) -> Value {
    let mut body = json!({kind.plural: page.items});
    if page.limit.is_some() {
        let mut links = Vec::new();
        if page.is_full || page.is_reverse {
            links.push(json!({"rel": "next", "href": link(call, page.last, false)}));
        }
        if page.is_full || !page.is_reverse {
            links.push(json!({"rel": "previous", "href": link(call, page.first, true)}));
        }
        body[format!("{}_links", kind.plural)] = links.into();
    }
    body
}

fn link(call: &Call<'_>, marker: Option<Uuid>, is_reverse: bool) -> String {
    let kept = call.query.iter();
    let kept = kept.filter(|(key, _)| key != "marker" && key != "page_reverse");
    let marker = marker.map(|id| ("marker".to_owned(), id.to_string()));
    let reverse = is_reverse.then(|| ("page_reverse".to_owned(), "True".to_owned()));
    call.link(kept.cloned().chain(marker).chain(reverse))
}
