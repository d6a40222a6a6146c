//! Finds and parses the configuration files. No error quotes their text.
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::error::ConfigError;
use super::raw::{RawCloud, is_auth_field, is_cloud_field};
use super::{Environment, Origin, Warning};

/// Finds and reads the file of this stem: the one that the variable names, or the first one in the searched folders
/// that can be read. Adds the paths that do not exist to `searched`, and a warning for each file that this user has no
/// permission to read.
///
/// # Errors
/// The file that the variable names does not exist or cannot be read, or a file in a searched folder cannot be read
/// for another reason than its permissions.
pub(super) fn find(
    environment: &Environment,
    stem: &str,
    variable: &'static str,
    searched: &mut Vec<PathBuf>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if let Some(named) = environment.variable(variable) {
        let path = environment.current_dir.join(named);
        return match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ConfigError::NamedFileMissing { variable, path })
            }
            Err(error) => {
                let reason = error.to_string();
                Err(ConfigError::Unreadable { path, reason })
            }
        };
    }
    for folder in environment.folders() {
        for suffix in ["yaml", "yml", "json"] {
            let path = folder.join(format!("{stem}.{suffix}"));
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(Some((path, text))),
                Err(error) => match error.kind() {
                    io::ErrorKind::PermissionDenied => warnings.push(Warning::Unreadable { path }),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => searched.push(path),
                    _ => {
                        let reason = error.to_string();
                        return Err(ConfigError::Unreadable { path, reason });
                    }
                },
            }
        }
    }
    Ok(None)
}

pub(super) fn warn_of_mode(path: &Path, warnings: &mut Vec<Warning>) {
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

/// The clouds of a file, and the errors of those that cannot be read.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) clouds: BTreeMap<String, RawCloud>,
    pub(super) broken: BTreeMap<String, ConfigError>,
}

/// Parses the clouds of one file, below `key`. A mistake in one cloud does not affect the other clouds: the file is
/// read again without that cloud.
///
/// # Errors
/// The text is not YAML, or the mistake is in no cloud.
pub(super) fn parse(path: &Path, text: &str, key: &'static str) -> Result<Parsed, ConfigError> {
    let mut parsed = Parsed::default();
    // An empty file has no clouds, which is not a mistake.
    if text.trim().is_empty() {
        return Ok(parsed);
    }
    let mut text = text.to_owned();
    loop {
        let mistake = match attempt(&text, key, &parsed.broken) {
            Ok(clouds) => {
                let origin = Origin::File(path.to_owned());
                let clouds = clouds.into_iter();
                parsed.clouds = clouds
                    .map(|(name, cloud)| (name, cloud.with_origin(&origin)))
                    .collect();
                return Ok(parsed);
            }
            Err(mistake) => mistake,
        };
        let error = explain(path, key, &mistake);
        let Some(cloud) = mistake.cloud else {
            return Err(error);
        };
        match untagged(&text, &mistake.error) {
            Some(without) => text = without,
            None if !error.is_of_one_cloud() || parsed.broken.contains_key(&cloud) => {
                return Err(error);
            }
            None => {}
        }
        parsed.broken.entry(cloud).or_insert(error);
    }
}

/// The mistake at which reading ended.
struct Mistake {
    error: Box<serde_saphyr::Error>,
    /// The dotted path of the wrong value: `clouds.c.auth`.
    at: String,
    /// The cloud that contains the mistake; none if no cloud does.
    cloud: Option<String>,
}

fn attempt(
    text: &str,
    key: &'static str,
    broken: &BTreeMap<String, ConfigError>,
) -> Result<BTreeMap<String, RawCloud>, Mistake> {
    let options = serde_saphyr::options! {
        // Snippets would show the lines around a mistake, which may contain a password.
        with_snippet: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        // `!vault x` would be sent as the password "x".
        reject_unsupported_tags: true,
    };
    let reading = RefCell::new(None);
    let mut track = serde_path_to_error::Track::new();
    let file = FileSeed {
        key,
        broken,
        reading: &reading,
    };
    let parsed =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            file.deserialize(serde_path_to_error::Deserializer::new(
                deserializer,
                &mut track,
            ))
        });
    parsed.map_err(|error| Mistake {
        error: Box::new(error),
        at: track.path().to_string(),
        cloud: reading.take(),
    })
}

/// Returns the text without the unsupported tag, so that the other values can be read; none if the error has another
/// cause.
fn untagged(text: &str, error: &serde_saphyr::Error) -> Option<String> {
    let serde_saphyr::Error::UnsupportedTag { location, .. } = error.without_snippet() else {
        return None;
    };
    let line_at = usize::try_from(location.line()).ok()?.checked_sub(1)?;
    let column = usize::try_from(location.column()).ok()?;
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut line: Vec<char> = lines.get(line_at)?.chars().collect();
    let begins = |at: &usize| {
        line[*at] == '!'
            && (*at == 0 || line[*at - 1].is_whitespace() || "[{,:".contains(line[*at - 1]))
    };
    let begin = (0..line.len())
        .filter(begins)
        .min_by_key(|at| at.abs_diff(column))?;
    let ends = |c: &char| c.is_whitespace() || matches!(c, ',' | ']' | '}');
    let length = line[begin..].iter().position(ends);
    let end = length.map_or(line.len(), |length| begin + length);
    line[begin..end].fill(' ');
    lines[line_at] = line.into_iter().collect();
    Some(lines.join("\n"))
}

/// Describes the mistake without the parser's own message, which may quote the value.
fn explain(path: &Path, key: &str, mistake: &Mistake) -> ConfigError {
    let (error, at) = (&mistake.error, mistake.at.as_str());
    let (line, column) = error
        .location()
        .map_or((0, 0), |at| (at.line(), at.column()));
    use serde_saphyr::Error as E;
    let shape = match error.without_snippet() {
        E::UnsupportedTag { .. } => {
            return ConfigError::Tagged {
                path: path.to_owned(),
                line,
                field: at.to_owned(),
            };
        }
        error => matches!(
            error,
            E::Message { .. }
                | E::Unexpected { .. }
                | E::SerdeInvalidType { .. }
                | E::SerdeInvalidValue { .. }
                | E::SerdeMissingField { .. }
                | E::MergeValueNotMapOrSeqOfMaps { .. }
        ),
    };
    if !shape {
        return ConfigError::Syntax {
            path: path.to_owned(),
            line,
            column,
        };
    }
    // A cloud's name may contain dots.
    let within = mistake.cloud.as_ref().and_then(|cloud| {
        let rest = at.strip_prefix(key)?.strip_prefix('.')?;
        let rest = rest.strip_prefix(cloud.as_str())?;
        Some(rest.strip_prefix('.').unwrap_or(rest))
    });
    let (field, expected) = match (at, within) {
        ("" | ".", _) if key == "clouds" => ("the file", "a mapping with the key \"clouds\""),
        ("" | ".", _) => ("the file", "a mapping with the key \"public-clouds\""),
        (at, _) if at == key => (at, "a mapping of cloud names"),
        (_, Some("")) => (at, "a mapping of settings"),
        (_, Some("auth")) => (at, "a mapping, such as {auth_url: …, username: …}"),
        (_, Some(field)) if field.starts_with("regions") => {
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

/// Reads the clouds of a file, except those that are known to be broken.
struct FileSeed<'a> {
    key: &'static str,
    broken: &'a BTreeMap<String, ConfigError>,
    reading: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for FileSeed<'_> {
    type Value = BTreeMap<String, RawCloud>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FileSeed<'_> {
    type Value = BTreeMap<String, RawCloud>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut clouds = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == self.key {
                clouds = map.next_value_seed(CloudsSeed(&self))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(clouds)
    }
}

struct CloudsSeed<'a>(&'a FileSeed<'a>);

impl<'de> DeserializeSeed<'de> for CloudsSeed<'_> {
    type Value = BTreeMap<String, RawCloud>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for CloudsSeed<'_> {
    type Value = BTreeMap<String, RawCloud>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of cloud names")
    }
    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut clouds = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            self.0.reading.replace(Some(name.clone()));
            if self.0.broken.contains_key(&name) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let cloud = map.next_value::<Option<RawCloud>>()?;
                clouds.insert(name, cloud.unwrap_or_default());
            }
            self.0.reading.replace(None);
        }
        Ok(clouds)
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
                            // The values are read as text, so that 0123 and 1e5 stay as they are written.
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
                        "interface" | "endpoint_type" | "region_name" => {
                            let values = map.next_value::<Option<OneOrMore>>()?;
                            cloud.insert(&key, values.map(|values| values.0.join(",")), false);
                        }
                        known if is_auth_field(known) || is_cloud_field(known) => {
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

/// A value, or a list of values in the order of preference.
struct OneOrMore(Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = OneOrMore;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a list of names")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<OneOrMore, E> {
                Ok(OneOrMore(vec![value.to_owned()]))
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<OneOrMore, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<OneOrMore, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMore, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element::<String>()? {
                    values.push(value);
                }
                Ok(OneOrMore(values))
            }
        }
        deserializer.deserialize_any(ListVisitor)
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
