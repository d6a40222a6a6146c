//! The names of resources to which rows refer by their ids. They are looked up in the background; rows show the ids
//! until the names are known, or if they cannot be read.

use std::collections::BTreeMap;

use super::kit::*;
use crate::control::query;
use crate::domain::model::Site;
use crate::frontends::console::render_context::or_none;

/// Names by id.
pub(super) type NamesById = BTreeMap<String, String>;

/// Replaces each id in a list of ids, separated by `, `, by its name if that is known.
pub(super) fn named(ids: &str, names: &NamesById) -> String {
    let known = |id: &str| names.get(id).filter(|name| !name.is_empty()).cloned();
    if names.is_empty() || ids.is_empty() {
        return ids.to_owned();
    }
    let each = ids
        .split(", ")
        .map(|id| known(id).unwrap_or_else(|| id.to_owned()));
    each.collect::<Vec<_>>().join(", ")
}

/// The name of a project with its id, or the id alone.
pub(super) fn project_words(id: &str, name: Option<&String>, look: &RenderContext) -> String {
    match name.filter(|name| *name != id) {
        Some(name) => format!("{name} ({id})"),
        None => or_none(id, look).to_owned(),
    }
}

/// Looks up the names of all resources of one kind, once.
pub(super) struct NameLookup {
    kind: String,
    site: Option<Site>,
    pace: Pace,
    pub(super) names: NamesById,
}

impl NameLookup {
    /// Returns a lookup at all sites.
    pub(super) fn of(kind: String) -> Self {
        Self {
            kind,
            site: None,
            pace: Pace::new(),
            names: NamesById::new(),
        }
    }

    /// Returns the lookups of the names of projects, one for each cloud, at one of these sites.
    pub(super) fn of_projects<'s>(sites: impl Iterator<Item = &'s Site>) -> Vec<Self> {
        let clouds: BTreeMap<Option<&str>, &Site> = sites.map(|it| (it.cloud(), it)).collect();
        let of_one = |site: &Site| Self {
            site: Some(site.clone()),
            ..Self::of("project".to_owned())
        };
        clouds.into_values().map(of_one).collect()
    }
}

impl Refreshed for NameLookup {
    /// Does nothing: a name changes seldom, and a listing costs calls.
    fn invalidate(&mut self) {}
    fn ask(&mut self, context: &mut Context) {
        if !self.pace.loaded && self.pace.is_due(context) {
            let ticket = context.outbox.ask(query::Resources {
                kind: self.kind.clone(),
                site: self.site.clone(),
                bare: true,
                ..query::Resources::default()
            });
            self.pace.asked(ticket, context.now);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let Some(answer) = arrived.take::<query::Resources>(&mut self.pace.ticket) else {
            return false;
        };
        match answer {
            // If a site lists no resource of the kind to this login, its rows keep the ids.
            Ok(listings) => {
                let rows = listings.into_iter().flat_map(|listing| listing.rows);
                self.names = rows.map(|row| (row.key.id, row.name)).collect();
                self.pace.arrived(context.now);
            }
            Err(error) => self.pace.fail(error.to_string(), context.now),
        }
        true
    }
    /// False: no person waits for the names.
    fn is_waiting(&self) -> bool {
        false
    }
    fn errors(&self) -> &[String] {
        &[]
    }
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
