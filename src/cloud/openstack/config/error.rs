//! The errors of the configuration, each with the details that a person needs to fix it.
use std::path::PathBuf;

use super::Origin;

/// Why the configuration cannot be used. No message shows a value that may be a secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{variable} names {}, which does not exist", path.display())]
    NamedFileMissing {
        variable: &'static str,
        path: PathBuf,
    },
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// The text of the file is not shown, since it may contain a password.
    #[error(
        "{}: not valid YAML at line {line}, column {column}; values that begin with one of \
         * & ! % @ ` or that hold \": \" or \" #\" need quotes",
        path.display()
    )]
    Syntax {
        path: PathBuf,
        line: u64,
        column: u64,
    },
    /// A tag has a meaning for another program only, so its value must not be sent as a password.
    #[error(
        "{}: line {line}: {field} has a tag (!…), and tags are not read; write the value itself, in \
         quotes if it begins with !",
        path.display()
    )]
    Tagged {
        path: PathBuf,
        line: u64,
        field: String,
    },
    #[error("{}: line {line}: {field} must be {expected}", path.display())]
    Shape {
        path: PathBuf,
        line: u64,
        field: String,
        expected: &'static str,
    },
    #[error(
        "no cloud {cloud:?}{}{}",
        did_you_mean(&nearest(cloud, known)),
        known_or_searched(known, searched)
    )]
    NoSuchCloud {
        cloud: String,
        known: Vec<String>,
        searched: Vec<PathBuf>,
    },
    #[error(
        "{}: cloud {cloud:?} has the same name as the cloud of the OS_* variables; rename it, or set OS_CLOUD_NAME",
        shown_origin(origin)
    )]
    NameClash {
        origin: Option<Origin>,
        cloud: String,
    },
    #[error("{origin}: cloud {cloud:?}: {field}: {problem}")]
    BadField {
        origin: Origin,
        cloud: String,
        field: String,
        /// The problem, with the nearest valid value if there is one.
        problem: String,
    },
    #[error(
        "{}: cloud {cloud:?}: {field} is missing{}",
        shown_origin(origin),
        found_instead(instead)
    )]
    MissingField {
        origin: Option<Origin>,
        cloud: String,
        field: String,
        /// An unknown key that looks like the missing one.
        instead: Option<String>,
    },
    #[error(
        "{}: cloud {cloud:?} has no region {region:?}{}; its regions are {}",
        shown_origin(origin), did_you_mean(&nearest(region, known)), known.join(", ")
    )]
    NoSuchRegion {
        origin: Option<Origin>,
        cloud: String,
        region: String,
        known: Vec<String>,
    },
    #[error(
        "{origin}: cloud {cloud:?}: profile {profile:?} {problem}; write its auth_url, regions and other \
         settings into the cloud"
    )]
    Profile {
        origin: Origin,
        cloud: String,
        profile: String,
        /// The end of the message: where the profile was looked up, and the nearest known name.
        problem: String,
    },
}

impl ConfigError {
    /// Whether the error, if it is in the entry of one cloud, affects only that cloud.
    pub(super) fn is_of_one_cloud(&self) -> bool {
        matches!(self, Self::Shape { .. } | Self::Tagged { .. })
    }
}

/// Returns the word of `known` that is closest to `word`, if they differ by no more than a typing mistake.
pub(in crate::cloud::openstack) fn nearest<S: AsRef<str>>(
    word: &str,
    known: &[S],
) -> Option<String> {
    // Measured on typical slips: a letter swapped, lost or doubled scores above 0.8.
    const SIMILAR_MIN: f64 = 0.75;
    let lower = word.to_lowercase();
    known
        .iter()
        .map(|k| {
            let score = strsim::jaro_winkler(&lower, &k.as_ref().to_lowercase());
            (score, k.as_ref())
        })
        .filter(|(score, k)| *score >= SIMILAR_MIN && *k != word)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k.to_owned())
}

/// Returns `; did you mean "x"?`, or nothing.
pub(in crate::cloud::openstack) fn did_you_mean(nearest: &Option<String>) -> String {
    let shown = nearest.as_ref().map(|n| format!("; did you mean {n:?}?"));
    shown.unwrap_or_default()
}

fn found_instead(found: &Option<String>) -> String {
    let shown = found.as_ref();
    let shown = shown.map(|f| format!("; there is an unknown key {f:?}"));
    shown.unwrap_or_default()
}

pub(super) fn paths(paths: &[PathBuf]) -> String {
    let shown = paths.iter().map(|path| path.display().to_string());
    shown.collect::<Vec<_>>().join(", ")
}

fn shown_origin(origin: &Option<Origin>) -> String {
    let shown = origin.as_ref().map(ToString::to_string);
    shown.unwrap_or_else(|| "configuration".to_owned())
}

fn known_or_searched(known: &[String], searched: &[PathBuf]) -> String {
    let searched = paths(searched);
    match known.is_empty() {
        true => format!("; no clouds are configured (searched: {searched})"),
        false => format!("; configured clouds: {}", known.join(", ")),
    }
}
