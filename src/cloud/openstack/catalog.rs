//! The services of a cloud and their URLs.
use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use url::Url;

use super::config::{Interface, did_you_mean, nearest};
use super::remote::shown;

/// Services that own resources: the official type, the other types in order of preference, and the name of the
/// OpenStack project (`neutron`), as in os-service-types.
const SERVICE_TYPES: [(&str, &[&str], &str); 17] = [
    ("identity", &[], "keystone"),
    ("compute", &[], "nova"),
    ("image", &[], "glance"),
    ("network", &[], "neutron"),
    ("load-balancer", &[], "octavia"),
    ("object-store", &[], "swift"),
    (
        "block-storage",
        &["volumev3", "volumev2", "volume", "block-store"],
        "cinder",
    ),
    ("shared-file-system", &["sharev2", "share"], "manila"),
    ("orchestration", &[], "heat"),
    ("dns", &[], "designate"),
    ("key-manager", &[], "barbican"),
    ("baremetal", &["bare-metal"], "ironic"),
    (
        "container-infrastructure-management",
        &["container-infrastructure", "container-infra"],
        "magnum",
    ),
    ("application-container", &["container"], "zun"),
    ("database", &[], "trove"),
    ("placement", &[], "placement-api"),
    ("instance-ha", &["ha"], "masakari"),
];

const IDENTITY: &str = "identity";

/// The characters that are escaped in a path segment: all but unreserved ones, so that an id is never a path.
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Returns the official type of a service that is named by this type, by another type, or by the name of its
/// OpenStack project. `_` may stand for `-`. An unknown name is returned unchanged.
pub fn service_type(name: &str) -> String {
    let name = name.replace('_', "-");
    let known = SERVICE_TYPES.iter().find(|(official, aliases, project)| {
        *official == name || aliases.contains(&name.as_str()) || *project == name
    });
    known.map_or(name, |(official, ..)| (*official).to_owned())
}

/// A service in a region, as the catalog lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub service_type: String,
    pub interface: String,
    pub region: String,
    pub url: String,
}

/// All endpoints that a token may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    endpoints: Vec<Endpoint>,
}

/// Why the catalog gives no URL for a call, with the names that the catalog has instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("the catalog is empty: the login has no project; set project_name in clouds.yaml")]
    Empty,
    #[error("no such region {region:?}{}; the catalog has {}", did_you_mean(nearest), known.join(", "))]
    NoSuchRegion {
        region: String,
        nearest: Option<String>,
        known: Vec<String>,
    },
    #[error("the catalog has several regions ({}); set region_name in clouds.yaml", known.join(", "))]
    RegionUnnamed { known: Vec<String> },
    #[error(
        "no service {service:?} in region {region:?}{}; the region has {}",
        did_you_mean(nearest), known.join(", ")
    )]
    NoSuchService {
        service: String,
        region: String,
        nearest: Option<String>,
        known: Vec<String>,
    },
    #[error("service {service:?} has no {interface} interface in region {region:?}; it has {}", known.join(", "))]
    NoSuchInterface {
        service: String,
        region: String,
        interface: &'static str,
        known: Vec<String>,
    },
    #[error("the catalog's URL of {service:?} cannot be used: {}", shown(url))]
    BadUrl { service: String, url: String },
    #[error(
        "{path:?} is not a path of a service: it must begin with / and contain no . or .. segment"
    )]
    BadPath { path: String },
    #[error(
        "the catalog's URL of {service:?} does not contain the login's project, so gone cannot derive the URL of \
         another project's account from it: {}; log in to that project",
        shown(url)
    )]
    NoAccount { service: String, url: String },
}

#[derive(Deserialize)]
pub(super) struct WireService {
    #[serde(rename = "type")]
    service_type: String,
    #[serde(default)]
    endpoints: Vec<WireEndpoint>,
}

#[derive(Deserialize)]
struct WireEndpoint {
    interface: String,
    region_id: Option<String>,
    region: Option<String>,
    url: String,
}

impl Catalog {
    pub(super) fn of(services: Vec<WireService>) -> Self {
        let endpoints = services.into_iter().flat_map(|service| {
            let service_type = service.service_type;
            service.endpoints.into_iter().map(move |e| Endpoint {
                service_type: service_type.clone(),
                interface: e.interface,
                region: e.region_id.or(e.region).unwrap_or_default(),
                url: e.url,
            })
        });
        Self {
            endpoints: endpoints.collect(),
        }
    }

    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Returns the region names, sorted.
    pub fn regions(&self) -> Vec<String> {
        distinct(self.endpoints.iter().map(|e| &e.region))
    }

    /// Returns the region to which calls go: `region` if the catalog has it, or the catalog's only region.
    ///
    /// # Errors
    /// The catalog is empty, has no such region, or has several regions while `region` names none.
    pub fn region(&self, region: Option<&str>) -> Result<String, CatalogError> {
        let known = self.regions();
        match (region, known.as_slice()) {
            (_, []) => Err(CatalogError::Empty),
            (Some(region), _) if known.iter().any(|k| k == region) => Ok(region.to_owned()),
            (Some(region), _) => Err(CatalogError::NoSuchRegion {
                region: region.to_owned(),
                nearest: nearest(region, &known),
                known,
            }),
            (None, [only]) => Ok(only.clone()),
            (None, _) => Err(CatalogError::RegionUnnamed { known }),
        }
    }

    /// Returns the URL of a service, as the catalog lists it.
    ///
    /// # Errors
    /// As with [`Self::region`]; or there is no such service or interface, and the error lists those that exist; or the
    /// URL cannot be used.
    pub fn endpoint(
        &self,
        service: &str,
        region: Option<&str>,
        interface: Interface,
    ) -> Result<Url, CatalogError> {
        let region = self.region(region)?;
        let official = service_type(service);
        let here = self.endpoints.iter().filter(|e| e.region == region);
        let mut here: Vec<&Endpoint> = here.collect();
        // One Keystone serves all regions, and many catalogs list it in only one of them.
        if official == IDENTITY && !here.iter().any(|e| e.service_type == IDENTITY) {
            here.extend(self.endpoints.iter().filter(|e| e.service_type == IDENTITY));
        }
        // A cloud may list volumev2 and volumev3. The order of preference decides, not the catalog's order.
        let named = candidates(&official)
            .into_iter()
            .map(|name| here.iter().filter(move |e| e.service_type == name))
            .map(Iterator::collect::<Vec<_>>)
            .find(|found| !found.is_empty());
        let Some(named) = named else {
            let known = distinct(here.iter().map(|e| &e.service_type));
            return Err(CatalogError::NoSuchService {
                service: service.to_owned(),
                nearest: nearest(service, &known),
                region,
                known,
            });
        };
        let Some(found) = named.iter().find(|e| {
            // Catalogs that were moved from v2 still say publicURL.
            e.interface.trim_end_matches("URL") == interface.as_str()
        }) else {
            return Err(CatalogError::NoSuchInterface {
                service: official,
                region,
                interface: interface.as_str(),
                known: distinct(named.iter().map(|e| &e.interface)),
            });
        };
        let url = Url::parse(&found.url).ok().filter(Url::has_host);
        url.ok_or_else(|| CatalogError::BadUrl {
            service: official,
            url: found.url.clone(),
        })
    }
}

/// Returns the configured URL of a service, if one is set.
pub(super) fn overridden(overrides: &BTreeMap<String, Url>, service: &str) -> Option<Url> {
    let official = service_type(service);
    let mut overrides = overrides.iter();
    let found = overrides.find(|(name, _)| service_type(name) == official);
    found.map(|(_, url)| url.clone())
}

fn candidates(official: &str) -> Vec<&str> {
    let known = SERVICE_TYPES.iter().find(|(name, ..)| *name == official);
    let aliases = known.map_or(&[][..], |(_, aliases, _)| aliases);
    let mut names = vec![official];
    names.extend(aliases);
    names
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let names: BTreeSet<String> = names.cloned().collect();
    names.into_iter().collect()
}

/// Returns the URL of `path_and_query` below an endpoint. Endpoints are listed with and without the version
/// (`…:9696`, `…/v2.0`): if the path begins with a version, that version replaces the endpoint's.
pub(super) fn join(endpoint: &Url, path_and_query: &str) -> Result<Url, CatalogError> {
    let first = path_and_query.split(['/', '?']).nth(1).unwrap_or_default();
    let base = match is_version(first) {
        true => root_of(endpoint.path()),
        false => endpoint.path().trim_end_matches('/'),
    };
    below(endpoint, base, path_and_query)
}

/// Returns the URL of `path_and_query` in the account of a project. The endpoint ends with the account of the
/// login's own project, whose id (`own`) is replaced. Unlike in [`join`], a version at the beginning of the path does
/// not replace the endpoint's version, because the word may be a name.
pub(super) fn join_in_account(
    (endpoint, service): (&Url, &str),
    own: Option<&str>,
    project: &str,
    path_and_query: &str,
) -> Result<Url, CatalogError> {
    let path = endpoint.path().trim_end_matches('/');
    if project.is_empty() || Some(project) == own {
        return below(endpoint, path, path_and_query);
    }
    let account = own
        .filter(|own| !own.is_empty())
        .and_then(|own| path.rsplit_once(own));
    let Some((before, after)) = account.filter(|(_, after)| !after.contains('/')) else {
        return Err(CatalogError::NoAccount {
            service: service.to_owned(),
            url: endpoint.to_string(),
        });
    };
    let project = utf8_percent_encode(project, SEGMENT);
    let account = format!("{before}{project}{after}");
    below(endpoint, &account, path_and_query)
}

/// Returns the URL of `path_and_query` below a path of the endpoint's host.
fn below(endpoint: &Url, base: &str, path_and_query: &str) -> Result<Url, CatalogError> {
    let (path, query) = match path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_and_query, None),
    };
    let climbs = path.split('/').any(|segment| {
        let plain = segment.to_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    });
    if !path.starts_with('/') || path.starts_with("//") || path.contains(['#', '\\']) || climbs {
        return Err(CatalogError::BadPath {
            path: path.to_owned(),
        });
    }
    let mut url = endpoint.clone();
    url.set_path(&format!("{base}{path}"));
    url.set_query(query.filter(|query| !query.is_empty()));
    url.set_fragment(None);
    Ok(url)
}

/// Returns an endpoint's path without its version, and without the project after it: older catalogs list Nova
/// and Cinder as `/v3/PROJECT`, and neither needs the project there.
pub fn root_of(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    match path.rsplit_once('/') {
        Some((root, last)) if is_version(last) => root,
        Some((versioned, _)) => match versioned.rsplit_once('/') {
            Some((root, version)) if is_version(version) => root,
            _ => path,
        },
        None => path,
    }
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && rest.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}
