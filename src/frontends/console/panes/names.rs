//! The names of resources to which rows refer by their ids. They are looked up in the background; rows show the ids
//! until the names are known, or if they cannot be read.

use std::collections::BTreeMap;

use chrono::TimeDelta;

use super::kit::*;
use crate::control::SiteListing;
use crate::domain::model::Site;
use crate::frontends::console::render_context::or_none;
use crate::present::joined;

pub(super) type NamesById = BTreeMap<String, String>;

/// Replaces each id in a list of ids, separated by `, `, by its name if that is known.
pub(super) fn named(ids: &str, names: &NamesById) -> String {
    let each = ids.split(", ").map(|id| match names.get(id) {
        Some(name) if !name.is_empty() => name,
        _ => id,
    });
    joined(each, ", ")
}

/// The name of a project with its id, or the id alone.
pub(super) fn project_words(id: &str, name: Option<&String>, look: &RenderContext) -> String {
    match name.filter(|name| *name != id) {
        Some(name) => format!("{name} ({id})"),
        None => or_none(id, look).to_owned(),
    }
}

/// Looks up the names of all resources of one kind, at one site or at all, once: a name changes seldom, and a listing
/// costs calls. The rows are ids with their names.
pub(super) fn look_up(kind: &str, site: Option<Site>) -> Feed<(String, String)> {
    let resources = query::Resources {
        kind: kind.to_owned(),
        site,
        bare: true,
        ..query::Resources::default()
    };
    // If a site lists no resource of the kind to this login, its rows keep the ids.
    let read = |listings: Vec<SiteListing>| {
        let rows = listings.into_iter().flat_map(|listing| listing.rows);
        let names = rows.map(|row| (row.key.id, row.name));
        names.collect::<Vec<_>>()
    };
    Feed::reading(resources, read).in_background(TimeDelta::MAX)
}

/// Looks up the names of projects: for each cloud, at one of these sites.
pub(super) fn look_up_projects<'s>(
    sites: impl Iterator<Item = &'s Site>,
) -> Vec<Feed<(String, String)>> {
    let clouds: BTreeMap<Option<&str>, &Site> = sites.map(|it| (it.cloud(), it)).collect();
    let of_one = |site: &Site| look_up("project", Some(site.clone()));
    clouds.into_values().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_stays_an_id() {
        let names = NamesById::from([("s1".to_owned(), "web-v4".to_owned())]);
        assert_eq!(named("s1, s2", &names), "web-v4, s2");
        assert_eq!(named("", &names), "");
    }
}
