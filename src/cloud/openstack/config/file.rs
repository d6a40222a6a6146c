//! The files: found, and parsed without a word of theirs in an error.
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::ConfigError;
use super::raw::{AUTH_FIELDS, RawCloud, is_cloud_field};
use super::{Environment, Origin, Warning};

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
