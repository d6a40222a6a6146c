//! The files as written: found, parsed, laid over one another. Nothing is interpreted yet.
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::{ConfigError, nearest};
use super::{Environment, Origin, Warning};

/// Keys that say how to log in; they may stand in `auth` or beside it.
pub(super) const AUTH_FIELDS: &[&str] = &[
    "auth_url",
    "username",
    "user_name",
    "user_id",
    "password",
    "token",
    "auth_token",
    "project_id",
    "project_name",
    "tenant_id",
    "tenant_name",
    "user_domain_id",
    "user_domain_name",
    "project_domain_id",
    "project_domain_name",
    "domain_id",
    "domain_name",
    "default_domain",
    "default_domain_id",
    "default_domain_name",
    "system_scope",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
];

/// Keys of a cloud that are read here.
const CLOUD_FIELDS: &[&str] = &[
    "auth_type",
    "auth_plugin",
    "profile",
    "cloud",
    "region_name",
    "interface",
    "endpoint_type",
    "verify",
    "insecure",
    "cacert",
    "cert",
    "key",
];

/// Where openstacksdk takes a value that is no single text.
const NESTED_FIELDS: &[&str] = &["auth", "regions"];

const OVERRIDE: &str = "_endpoint_override";

/// A value with its place. All are kept as secrets: a password may stand beside `auth`, too.
#[derive(Clone)]
pub(super) struct Scalar {
    value: SecretString,
    pub(super) origin: Origin,
}

impl Scalar {
    pub(super) fn secret(&self) -> SecretString {
        self.value.clone()
    }

    /// The text; only for fields that hold no secret.
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
    /// Lays `over` on this: its values win, one by one.
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

    /// Unknown keys that look like known ones. Others belong to other clients, and are no fault.
    pub(super) fn unknown_fields(&self, cloud: &str) -> Vec<Warning> {
        let known: Vec<&str> = [AUTH_FIELDS, CLOUD_FIELDS, NESTED_FIELDS].concat();
        self.unknown
            .iter()
            .filter(|(field, _)| !field.ends_with("_api_version"))
            .filter_map(|(field, origin)| {
                let nearest = nearest(field, &known)
                    // Near in letters: other clients' keys share words with ours.
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

    /// An unknown key that could be meant as `field`.
    pub(super) fn lookalike(&self, field: &str) -> Option<String> {
        let unknown: Vec<&str> = self.unknown.iter().map(|(name, _)| name.as_str()).collect();
        nearest(field, &unknown)
    }

    fn place(mut self, origin: &Origin) -> Self {
        let scalars = self.auth.values_mut().chain(self.fields.values_mut());
        for scalar in scalars {
            scalar.origin = origin.clone();
        }
        for (_, at) in &mut self.unknown {
            *at = origin.clone();
        }
        self.found_in = vec![origin.clone()];
        self.regions = self.regions.map(|regions| {
            let place = |(name, raw): (String, Self)| (name, raw.place(origin));
            regions.into_iter().map(place).collect()
        });
        self
    }

    fn insert(&mut self, key: &str, value: Option<String>, in_auth: bool) {
        let known = AUTH_FIELDS.contains(&key) || (!in_auth && is_cloud_field(key));
        if !known {
            self.unknown.push((key.to_owned(), Origin::Environment));
        } else if let Some(value) = value {
            let scalar = Scalar {
                value: SecretString::from(value),
                origin: Origin::Environment,
            };
            let scalars = if in_auth {
                &mut self.auth
            } else {
                &mut self.fields
            };
            scalars.insert(key.to_owned(), scalar);
        }
    }
}

fn is_cloud_field(key: &str) -> bool {
    CLOUD_FIELDS.contains(&key) || key.ends_with(OVERRIDE)
}

/// The first file of this stem, with its text.
pub(super) fn find(
    environment: &Environment,
    stem: &str,
    variable: &'static str,
    searched: &mut Vec<PathBuf>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if let Some(named) = environment.variable(variable) {
        let path = environment.current_dir.join(named);
        let text = std::fs::read_to_string(&path).map_err(|reason| match reason.kind() {
            io::ErrorKind::NotFound => ConfigError::NamedFileMissing {
                variable,
                path: path.clone(),
            },
            _ => ConfigError::Unreadable {
                path: path.clone(),
                reason,
            },
        })?;
        warn_of_mode(&path, warnings);
        return Ok(Some((path, text)));
    }
    for folder in environment.folders() {
        for suffix in ["yaml", "yml", "json"] {
            let path = folder.join(format!("{stem}.{suffix}"));
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    warn_of_mode(&path, warnings);
                    return Ok(Some((path, text)));
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    warnings.push(Warning::Unreadable { path });
                }
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    searched.push(path);
                }
                Err(reason) => return Err(ConfigError::Unreadable { path, reason }),
            }
        }
    }
    Ok(None)
}

fn warn_of_mode(path: &Path, warnings: &mut Vec<Warning>) {
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        warnings.push(Warning::ReadableByOthers {
            path: path.to_owned(),
            mode,
        });
    }
}

/// The clouds of one file.
pub(super) fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, RawCloud>, ConfigError> {
    // An empty file says nothing, and is no mistake.
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    let options = serde_saphyr::options! {
        // Snippets would show the lines around a mistake, and so a password.
        with_snippet: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    let mut at = String::new();
    let parsed =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            serde_path_to_error::deserialize::<_, RawFile>(deserializer).map_err(|error| {
                at = error.path().to_string();
                error.into_inner()
            })
        });
    let origin = Origin::File(path.to_owned());
    match parsed {
        Ok(file) => Ok(file
            .clouds
            .into_iter()
            .map(|(name, cloud)| (name, cloud.place(&origin)))
            .collect()),
        Err(error) => Err(explain(path, &at, &error)),
    }
}

/// The parser's own message is not used: it may quote the value.
fn explain(path: &Path, at: &str, error: &serde_saphyr::Error) -> ConfigError {
    let (line, column) = error
        .location()
        .map_or((0, 0), |at| (at.line(), at.column()));
    use serde_saphyr::Error as E;
    let shape = matches!(
        error.without_snippet(),
        E::Message { .. }
            | E::Unexpected { .. }
            | E::SerdeInvalidType { .. }
            | E::SerdeInvalidValue { .. }
            | E::SerdeMissingField { .. }
            | E::MergeValueNotMapOrSeqOfMaps { .. }
    );
    if !shape {
        return ConfigError::Syntax {
            path: path.to_owned(),
            line,
            column,
        };
    }
    let (field, expected) = match at.split('.').collect::<Vec<_>>()[..] {
        [""] | ["", ""] => ("the file", "a mapping with the key \"clouds\""),
        ["clouds"] => (at, "a mapping of cloud names"),
        ["clouds", _] => (at, "a mapping of settings"),
        ["clouds", _, "auth"] => (at, "a mapping, such as {auth_url: …, username: …}"),
        ["clouds", _, field, ..] if field.starts_with("regions") => {
            (at, "a list of names, or of {name, values}")
        }
        _ => (at, "a single value"),
    };
    ConfigError::Shape {
        path: path.to_owned(),
        line,
        field: field.to_owned(),
        expected,
    }
}

/// The cloud that the `OS_*` variables describe, if they name where to log in.
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
        // OS_CLOUD chooses a cloud; in a file `cloud` is an old word for `profile`.
        if key != "cloud" && (AUTH_FIELDS.contains(&&*key) || is_cloud_field(&key)) {
            cloud.insert(&key, Some(value.clone()), false);
        }
    }
    cloud.found_in = vec![Origin::Environment];
    Some(cloud)
}

#[derive(Default)]
struct RawFile {
    clouds: BTreeMap<String, RawCloud>,
}

impl<'de> Deserialize<'de> for RawFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FileVisitor;
        impl<'de> Visitor<'de> for FileVisitor {
            type Value = RawFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFile, A::Error> {
                let mut file = RawFile::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "clouds" {
                        let clouds: Option<BTreeMap<String, Option<RawCloud>>> =
                            map.next_value()?;
                        file.clouds = clouds
                            .unwrap_or_default()
                            .into_iter()
                            .map(|(name, cloud)| (name, cloud.unwrap_or_default()))
                            .collect();
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(FileVisitor)
    }
}

impl<'de> Deserialize<'de> for RawCloud {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CloudVisitor;
        impl<'de> Visitor<'de> for CloudVisitor {
            type Value = RawCloud;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawCloud, A::Error> {
                let mut cloud = RawCloud::default();
                while let Some(key) = map.next_key::<String>()? {
                    let key = key.replace('-', "_");
                    match key.as_str() {
                        "auth" => {
                            // Typed as text, so that 0123 and 1e5 stay as they are written.
                            let auth: Option<BTreeMap<String, Option<String>>> =
                                map.next_value()?;
                            for (name, value) in auth.unwrap_or_default() {
                                cloud.insert(&name.replace('-', "_"), value, true);
                            }
                        }
                        "regions" => {
                            let regions: Option<Vec<RawRegion>> = map.next_value()?;
                            cloud.regions = regions
                                .map(|r| r.into_iter().map(|r| (r.name, r.values)).collect());
                        }
                        known if AUTH_FIELDS.contains(&known) || is_cloud_field(known) => {
                            let value = map.next_value()?;
                            cloud.insert(&key, value, false);
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            cloud.insert(&key, None, false);
                        }
                    }
                }
                Ok(cloud)
            }
        }
        deserializer.deserialize_map(CloudVisitor)
    }
}

struct RawRegion {
    name: String,
    values: RawCloud,
}

impl<'de> Deserialize<'de> for RawRegion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RegionVisitor;
        impl<'de> Visitor<'de> for RegionVisitor {
            type Value = RawRegion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a region's name, or {name, values}")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<RawRegion, E> {
                Ok(RawRegion {
                    name: name.to_owned(),
                    values: RawCloud::default(),
                })
            }
            fn visit_i64<E: serde::de::Error>(self, name: i64) -> Result<RawRegion, E> {
                self.visit_str(&name.to_string())
            }
            fn visit_u64<E: serde::de::Error>(self, name: u64) -> Result<RawRegion, E> {
                self.visit_str(&name.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawRegion, A::Error> {
                let mut name = None;
                let mut values = None;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => name = Some(map.next_value::<String>()?),
                        "values" => values = map.next_value::<Option<RawCloud>>()?,
                        _ => return Err(serde::de::Error::custom("not a key of a region")),
                    }
                }
                Ok(RawRegion {
                    name: name.ok_or_else(|| serde::de::Error::missing_field("name"))?,
                    values: values.unwrap_or_default(),
                })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<RawRegion, A::Error> {
                Err(serde::de::Error::custom("a list is not a region"))
            }
        }
        deserializer.deserialize_any(RegionVisitor)
    }
}
