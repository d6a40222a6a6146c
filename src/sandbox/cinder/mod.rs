//! Cinder v3 of one region.
//!
//! Most changes take time and show in a row's status. A second DELETE of a volume, a snapshot or a backup meanwhile is
//! refused, unless an admin forces it. The refusal to delete a volume has the same text for every cause.
mod attachments;
mod copies;
mod states;
mod volumes;

use std::fmt::Display;
use std::sync::LazyLock;

pub(super) use attachments::release;
pub(super) use states::begin_status;

use super::core::{
    ADMIN_SEES, Api, Call, Handled, Hooks, Kind, ListQuery, Refusal, Result, Session, Tables,
    filters, is_set, linked, newest_first,
};

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| {
        Tables::read(include_str!("../../../assets/sandbox/block-storage.toml"))
    }),
    hooks: &[
        ("attachment", attachments::ATTACHMENT),
        ("backup", copies::BACKUP),
        ("group_snapshot", volumes::GROUP_SNAPSHOT),
        ("group_type", TYPE),
        ("volume_type", TYPE),
        ("volume", volumes::VOLUME),
        ("volume_group", volumes::GROUP),
        ("volume_snapshot", copies::SNAPSHOT),
        ("volume_transfer", volumes::TRANSFER),
    ],
    own,
    list_query,
    page: linked,
    refuse: |refusal, _| refusal.fault(),
};

/// Types of groups and volumes: all see them, and only admins change them.
const TYPE: Hooks = Hooks {
    visible: |_, _| true,
    writable: |session, _| session.caller.is_admin,
    ..Hooks::NONE
};

/// Returns the refusal with a name, from the service's file.
fn refused(name: &str, parts: &[&dyn Display]) -> Refusal {
    API.tables.service.refusal(name, parts)
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Handled {
    match (call.method.as_str(), path) {
        ("DELETE", ["attachments", id]) => attachments::delete(session, id).map(Some),
        ("DELETE", ["groups", _]) => Err(refused("NoSuchCall", &[])),
        _ => Ok(None),
    }
}

/// Parameters that are not filters.
const CONTROLS: &str = "all_tenants limit marker offset sort sort_key sort_dir with_count";

/// Reads a list's parameters. An admin's filter by an unknown attribute matches no row; other callers may use only
/// the filters that the API documents.
fn list_query(session: &Session<'_>, kind: &'static Kind, call: &Call<'_>) -> Result<ListQuery> {
    let caller = &session.caller;
    let (filters, unknown) = filters(kind, call, CONTROLS);
    let is_closed = |name: &&String| kind.attribute(name).is_some_and(|it| it.is(ADMIN_SEES));
    let closed = filters.iter().map(|(name, _)| name).filter(is_closed);
    let closed: Vec<&str> = closed.chain(&unknown).map(String::as_str).collect();
    if !caller.is_admin && !closed.is_empty() {
        return Err(refused("InvalidFilters", &[&closed.join(",")]));
    }
    let is_of_all =
        (caller.is_admin && is_set(call, "all_tenants")) || kind.attribute("project_id").is_none();
    let own = (!is_of_all).then(|| caller.project.clone());
    let is_empty = !unknown.is_empty();
    Ok(ListQuery {
        filters,
        shows: Some(Box::new(move |_, row| {
            !is_empty && own.as_deref().is_none_or(|own| *row.project == *own)
        })),
        ..newest_first(session, kind, call)?
    })
}
