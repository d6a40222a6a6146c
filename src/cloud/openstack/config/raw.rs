//! Clouds as files and variables describe them: merged from all sources, and not interpreted yet.
use std::collections::BTreeMap;

use secrecy::{ExposeSecret as _, SecretString};

use super::error::nearest;
use super::{Origin, Warning};

/// Keys that say how to log in. A file may have them in `auth` or beside it.
const AUTH_FIELDS: &str = "\
    auth_url username user_name user_id password token auth_token project_id project_name \
    tenant_id tenant_name user_domain_id user_domain_name project_domain_id project_domain_name \
    domain_id domain_name default_domain default_domain_id default_domain_name system_scope \
    application_credential_id application_credential_name application_credential_secret";

/// Other keys of a cloud that gone reads as a single text, in addition to `SERVICE_endpoint_override`.
const CLOUD_FIELDS: &str = "\
    auth_type auth_plugin profile cloud region_name interface endpoint_type verify insecure \
    cacert cert key";

/// Keys whose values are a mapping or a list.
const NESTED_FIELDS: &str = "auth regions";

const OVERRIDE: &str = "_endpoint_override";

/// A value with its origin. All values are kept as secrets, since a password may also be written beside
/// `auth`.
#[derive(Clone)]
pub(super) struct Scalar {
    value: SecretString,
    pub(super) origin: Origin,
}

impl Scalar {
    pub(super) fn secret(&self) -> SecretString {
        self.value.clone()
    }

    /// Returns the text. Use it only for fields that contain no secret.
    pub(super) fn text(&self) -> &str {
        self.value.expose_secret()
    }
}

pub(super) type Scalars = BTreeMap<String, Scalar>;

#[derive(Clone, Default)]
pub(super) struct RawCloud {
    pub(super) auth: Scalars,
    pub(super) fields: Scalars,
    pub(super) regions: Option<Vec<(String, RawCloud)>>,
    pub(super) found_in: Vec<Origin>,
    unknown: Vec<(String, Origin)>,
}

impl RawCloud {
    /// Merges `over` into this cloud. Each value of `over` wins.
    pub(super) fn overlay(&mut self, over: Self) {
        self.auth.extend(over.auth);
        self.fields.extend(over.fields);
        self.regions = over.regions.or(self.regions.take());
        for origin in over.found_in {
            if !self.found_in.contains(&origin) {
                self.found_in.push(origin);
            }
        }
        self.unknown.extend(over.unknown);
    }

    /// Replaces values of the files by those that variables set. Returns the variables without effect: an id
    /// in the files takes precedence over a name, as in openstackclient.
    pub(super) fn choose(&mut self, chosen: Vec<(String, String)>) -> Vec<(String, &'static str)> {
        const OUTDONE: [(&str, &str); 2] = [
            ("project_name", "project_id"),
            ("project_domain_name", "project_domain_id"),
        ];
        for (key, value) in &chosen {
            let old = match key.as_str() {
                "project_id" => "tenant_id",
                "project_name" => "tenant_name",
                "interface" => "endpoint_type",
                other => other,
            };
            for key in [key.as_str(), old] {
                self.auth.remove(key);
                self.fields.remove(key);
            }
            self.insert(key, Some(value.clone()), false);
        }
        let has = |key: &str| self.auth.contains_key(key) || self.fields.contains_key(key);
        let said = |key: &str| chosen.iter().any(|(said, _)| said == key);
        let is_outdone = |(name, id): &(&str, &str)| said(name) && !said(id) && has(id);
        let without_effect = OUTDONE.into_iter().filter(is_outdone);
        without_effect
            .map(|(name, id)| (variable(name), id))
            .collect()
    }

    pub(super) fn region_names(&self) -> Vec<String> {
        if let Some(regions) = &self.regions {
            return regions.iter().map(|(name, _)| name.clone()).collect();
        }
        let names = self.fields.get("region_name").map_or("", Scalar::text);
        names
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// Returns a warning for each unknown key that looks like a known one. Other unknown keys belong to other
    /// clients, and are not mistakes.
    pub(super) fn unknown_fields(&self, cloud: &str) -> Vec<Warning> {
        let known = [AUTH_FIELDS, CLOUD_FIELDS, NESTED_FIELDS];
        let known: Vec<&str> = known.iter().flat_map(|words| words.split(' ')).collect();
        self.unknown
            .iter()
            .filter(|(field, _)| !field.ends_with("_api_version"))
            .filter_map(|(field, origin)| {
                let nearest = nearest(field, &known)
                    // The keys must be near in letters, because other clients' keys share whole words with
                    // gone's.
                    .filter(|n| strsim::damerau_levenshtein(n, field) <= 2)?;
                Some(Warning::UnknownField {
                    origin: origin.clone(),
                    cloud: cloud.to_owned(),
                    field: field.clone(),
                    nearest,
                })
            })
            .collect()
    }

    pub(super) fn region_not_first(&self, cloud: &str) -> Option<Warning> {
        let (first, _) = self.regions.as_ref()?.first()?;
        let own = self.fields.get("region_name")?.text();
        (own != first).then(|| Warning::RegionNotFirst {
            cloud: cloud.to_owned(),
            region_name: own.to_owned(),
            first: first.clone(),
        })
    }

    /// Returns an unknown key that could be a misspelling of `field`.
    pub(super) fn lookalike(&self, field: &str) -> Option<String> {
        let unknown: Vec<&str> = self.unknown.iter().map(|(name, _)| name.as_str()).collect();
        nearest(field, &unknown)
    }

    /// Sets the origin of all values.
    pub(super) fn with_origin(mut self, origin: &Origin) -> Self {
        let scalars = self.auth.values_mut().chain(self.fields.values_mut());
        for scalar in scalars {
            scalar.origin = origin.clone();
        }
        for (_, at) in &mut self.unknown {
            *at = origin.clone();
        }
        self.found_in = vec![origin.clone()];
        self.regions = self.regions.map(|regions| {
            let regions = regions.into_iter();
            regions
                .map(|(name, raw)| (name, raw.with_origin(origin)))
                .collect()
        });
        self
    }

    /// Takes the value of a known key, or records an unknown key.
    pub(super) fn insert(&mut self, key: &str, value: Option<String>, in_auth: bool) {
        let known = is_auth_field(key) || (!in_auth && is_cloud_field(key));
        if !known {
            self.unknown.push((key.to_owned(), Origin::Environment));
        } else if let Some(value) = value {
            let scalar = Scalar {
                value: SecretString::from(value),
                origin: Origin::Environment,
            };
            let scalars = match in_auth {
                true => &mut self.auth,
                false => &mut self.fields,
            };
            scalars.insert(key.to_owned(), scalar);
        }
    }
}

pub(super) fn is_auth_field(key: &str) -> bool {
    AUTH_FIELDS.split(' ').any(|known| known == key)
}

pub(super) fn is_cloud_field(key: &str) -> bool {
    CLOUD_FIELDS.split(' ').any(|known| known == key) || key.ends_with(OVERRIDE)
}

/// The keys that variables may set in the cloud that `OS_CLOUD` names, as in openstackclient. Only the file
/// sets the user and the URL of the login.
const CHOSEN_BY_VARIABLES: &str = "\
    region_name interface cacert cert key project_id project_name project_domain_id \
    project_domain_name";

/// Returns the keys of [`CHOSEN_BY_VARIABLES`] that variables set, with their values.
pub(super) fn beside(variables: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let chosen = CHOSEN_BY_VARIABLES.split(' ').filter_map(|key| {
        let value = variables.get(&variable(key))?;
        (!value.is_empty()).then(|| (key.to_owned(), value.clone()))
    });
    chosen.collect()
}

/// Returns the name of the variable for a key.
pub(super) fn variable(key: &str) -> String {
    format!("OS_{}", key.to_uppercase())
}

/// Returns the cloud that the `OS_*` variables describe, if they say where to log in.
pub(super) fn from_variables(variables: &BTreeMap<String, String>) -> Option<RawCloud> {
    const OTHERS: [&str; 3] = ["OS_TEST", "OS_STD", "OS_LOG"];
    variables.get("OS_AUTH_URL").filter(|url| !url.is_empty())?;
    let mut cloud = RawCloud::default();
    for (name, value) in variables {
        let Some(key) = name.strip_prefix("OS_") else {
            continue;
        };
        if value.is_empty() || OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let key = key.to_lowercase();
        // OS_CLOUD chooses a cloud, whereas in a file `cloud` is an old name for `profile`.
        if key != "cloud" && (is_auth_field(&key) || is_cloud_field(&key)) {
            cloud.insert(&key, Some(value.clone()), false);
        }
    }
    cloud.found_in = vec![Origin::Environment];
    Some(cloud)
}
