//! Finds the services, extensions and resources that a cloud offers and no kind covers. A plan for everything that
//! belongs to a project names them (N19).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Kinds;
use crate::domain::text::{and_more, escape};

/// Number of services, extensions and descriptions of resources that a warning names, since a warning is one line. The
/// others are counted.
const NAMED_MAX: usize = 20;
/// Maximum length of a name from a cloud's catalog or list of extensions, in characters.
const NAME_MAX: usize = 40;

/// The resources that a kinds file names because there is no kind for them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NotCovered {
    /// Resources that every cloud with the file's service may have.
    pub(super) resources: Option<String>,
    /// Extension of the file's service → the resources that it adds.
    pub(super) extensions: BTreeMap<String, String>,
    /// Service of the catalog → its resources.
    pub(super) services: BTreeMap<String, String>,
}

/// The extensions and services that have no resources of a project except those that the kinds cover.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NothingToCover {
    pub(super) extensions: BTreeSet<String>,
    pub(super) services: BTreeSet<String>,
}

/// The statements of all files about coverage.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    services: BTreeMap<String, String>,
    empty_services: BTreeSet<String>,
    of_services: BTreeMap<String, OfService>,
}

#[derive(Clone, Debug, Default)]
struct OfService {
    resources: Vec<String>,
    extensions: BTreeMap<String, String>,
    empty_extensions: BTreeSet<String>,
}

impl Coverage {
    /// Adds the statements of a file. A description of a service or extension replaces an earlier one of the same name;
    /// all other statements add up.
    pub(super) fn add(&mut self, service: &str, not: NotCovered, nothing: NothingToCover) {
        self.services.extend(not.services);
        self.empty_services.extend(nothing.services);
        let of_service = self.of_services.entry(service.to_owned()).or_default();
        of_service.resources.extend(not.resources);
        of_service.extensions.extend(not.extensions);
        of_service.empty_extensions.extend(nothing.extensions);
    }
}

/// The services and extensions that a site offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The services for which there are kinds, by the kinds' names for them, each with its extensions. The
    /// extensions are empty if no kind depends on one.
    pub covered: BTreeMap<String, BTreeSet<String>>,
    /// The other services of the catalog.
    pub others: BTreeSet<String>,
}

impl Kinds {
    /// Returns the services for which there are kinds.
    pub fn services(&self) -> BTreeSet<&str> {
        let services = self.kinds.values().map(|kind| kind.service.as_str());
        services.collect()
    }

    /// Describes everything in this offer that the kinds do not cover, one text for each item: `compute (servers,
    /// key pairs)`.
    pub fn not_covered(&self, offer: &Offer) -> Vec<String> {
        let services = offer.covered.keys();
        let remainders = services.filter_map(|service| {
            let of_service = self.coverage.of_services.get(service)?;
            Some(
                of_service
                    .resources
                    .iter()
                    .map(move |it| format!("{} ({it})", name(service))),
            )
        });
        let mut found = self.services_not_covered(offer);
        found.extend(remainders.flatten());
        found
    }

    /// Describes the services and extensions of this offer that no kind covers. While there are any, some of
    /// a project's resources may not be listed.
    pub fn services_not_covered(&self, offer: &Offer) -> Vec<String> {
        let mut found = Vec::new();
        for service in &offer.others {
            let is_empty = self.coverage.empty_services.contains(service);
            match self.coverage.services.get(service) {
                Some(resources) => found.push(format!("{} ({resources})", name(service))),
                None if is_empty => {}
                None => found.push(format!(
                    "{} (a service that gone does not know)",
                    name(service)
                )),
            }
        }
        for (service, extensions) in &offer.covered {
            let Some(of_service) = self.coverage.of_services.get(service) else {
                continue;
            };
            // If the kinds files do not say which extensions of a service have no resources, every extension would
            // seem to have some.
            if of_service.empty_extensions.is_empty() {
                continue;
            }
            let covered = self.extensions_of_kinds(service);
            for extension in extensions {
                let says = |what: &str| {
                    format!(
                        "extension {} of {} ({what})",
                        name(extension),
                        name(service)
                    )
                };
                let is_empty = of_service.empty_extensions.contains(extension);
                match of_service.extensions.get(extension) {
                    _ if covered.contains(extension.as_str()) => {}
                    Some(resources) => found.push(says(resources)),
                    None if is_empty => {}
                    None => found.push(says("gone does not know whether it has resources")),
                }
            }
        }
        found
    }

    fn extensions_of_kinds(&self, service: &str) -> BTreeSet<&str> {
        let kinds = self.kinds.values().filter(|kind| kind.service == service);
        let needed = kinds.filter_map(|kind| kind.calls.extension());
        needed.collect()
    }
}

/// Returns the warning of a project's plan at a site about everything that no kind covers; none if the kinds cover
/// everything.
pub fn unlisted_warning(not_covered: &[String], site: &str) -> Option<String> {
    if not_covered.is_empty() {
        return None;
    }
    let named: Vec<&str> = not_covered
        .iter()
        .take(NAMED_MAX)
        .map(String::as_str)
        .collect();
    let more = and_more(not_covered.len().saturating_sub(NAMED_MAX));
    Some(format!(
        "not looked at: {}{more}; gone has no kinds for these, so those of the project at {} are \
         not deleted",
        named.join(", "),
        escape(site)
    ))
}

/// Returns a name that a cloud gave, escaped and shortened.
fn name(given: &str) -> String {
    let short: String = given.chars().take(NAME_MAX).collect();
    escape(&short).into_owned()
}
