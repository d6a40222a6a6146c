//! The relations between the rows of a load balancer.
use uuid::Uuid;

use crate::sandbox::core::{Row, Store};

pub(super) const BALANCER: &str = "load_balancer";

/// Returns the parent of a row, also if the parent is deleted.
pub(super) fn parent_of<'s>(store: &'s Store, row: &Row) -> Option<&'s Row> {
    let parent = row.kind.parent?;
    store.find(parent.kind, row.id_of(parent.attribute)?)
}

/// Lists the children of a row, of one kind, oldest first.
pub(super) fn children<'s>(store: &'s Store, parent: &Row, kind: &str) -> Vec<&'s Row> {
    let taken = parent.kind.takes.iter().find(|taken| taken.kind == kind);
    let attribute = taken.map_or("", |taken| taken.attribute);
    let mut found: Vec<&Row> = store.of(kind, attribute, parent.id).collect();
    found.sort_by_key(|row| row.number);
    found
}

/// Lists the listeners that send to a pool: by default, or by an enabled policy with rules.
pub(super) fn listeners_of(store: &Store, pool: &Row) -> Vec<(&'static str, Uuid)> {
    let is_at_work = |policy: &&Row| {
        policy.flag("admin_state_up") && !children(store, policy, "l7rule").is_empty()
    };
    let by_default = store.of("listener", "default_pool_id", pool.id);
    let by_policy = store.of("l7policy", "redirect_pool_id", pool.id);
    let by_policy = by_policy
        .filter(is_at_work)
        .filter_map(|row| row.id_of("listener_id"));
    let mut found = Vec::new();
    for id in by_default.map(|listener| listener.id).chain(by_policy) {
        if !found.contains(&("listener", id)) {
            found.push(("listener", id));
        }
    }
    found
}
