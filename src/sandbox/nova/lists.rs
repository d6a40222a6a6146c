//! The parameters of Nova's lists, and their pages.
use serde_json::{Value, json};

use super::refused;
use super::states::is_deleted;
use crate::sandbox::core::{
    Call, Kind, ListQuery, Page, Result, Session, filters, is_set, linked, newest_first,
};

/// Parameters that are not filters.
const CONTROLS: &str =
    "all_tenants all_projects deleted limit marker offset sort_key sort_dir changes-since";

/// Reads a list's parameters; a filter that Nova does not know is ignored. Deleted and soft-deleted servers are only
/// in an admin's list of deleted servers.
pub(super) fn list_query(
    session: &Session<'_>,
    kind: &'static Kind,
    call: &Call<'_>,
) -> Result<ListQuery> {
    let caller = &session.caller;
    let (mut filters, _) = filters(kind, call, CONTROLS);
    let is_project = |name: &str| matches!(name, "project_id" | "tenant_id");
    let projects = filters.iter().filter(|(name, _)| is_project(name));
    let mut projects = projects.flat_map(|(_, ids)| ids);
    let names_others = projects.any(|id| **id != *caller.project);
    let is_of_all = is_set(call, "all_tenants")
        || is_set(call, "all_projects")
        || (caller.is_admin && names_others);
    if kind.name != "server" {
        let is_of_all = is_of_all && caller.is_admin;
        let own = caller.project.clone();
        // Only lists of servers have a marker: `page` cuts the other lists by `offset` and `limit`.
        return Ok(ListQuery {
            sorts: vec![("number".to_owned(), true)],
            shows: Some(Box::new(move |session, row| {
                let is_open = is_of_all || row.kind.attribute("project_id").is_none();
                session.sees(row) && (is_open || *row.project == *own)
            })),
            ..ListQuery::default()
        });
    }
    if is_of_all && !caller.is_admin {
        let list = match call.path.ends_with("/detail") {
            true => "detail",
            false => "index",
        };
        return Err(refused("AllProjects", &[&list]));
    }
    if !is_of_all {
        filters.retain(|(name, _)| !is_project(name));
    }
    let own = (!is_of_all).then(|| caller.project.clone());
    let wants_deleted = caller.is_admin && is_set(call, "deleted");
    Ok(ListQuery {
        filters,
        with_deleted: wants_deleted,
        shows: Some(Box::new(move |_, row| {
            is_deleted(row) == wants_deleted
                && own.as_deref().is_none_or(|own| *row.project == *own)
        })),
        ..newest_first(session, kind, call)?
    })
}

pub(super) fn page(kind: &'static Kind, call: &Call<'_>, mut page: Page) -> Value {
    let number = |name: &str| call.param(name).and_then(|text| text.parse().ok());
    if kind.name == "server" {
        return linked(kind, call, page);
    }
    let items = page.items.as_array_mut().map(std::mem::take);
    let items = items.unwrap_or_default().into_iter();
    let items = items.skip(number("offset").unwrap_or(0));
    let items = items.take(number("limit").unwrap_or(usize::MAX));
    let items: Value = match kind.name {
        "keypair" => items.map(|key| json!({"keypair": key})).collect(),
        _ => items.collect(),
    };
    json!({kind.plural: items})
}
