//! Reads the settings file, and says exactly what is wrong with it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::checks::{ZERO, first_wrong, nonsense};
use super::{Settings, Surroundings, deployment, gate, notify};
use crate::domain::mapping::Mapping;
use crate::domain::model::Site;
use crate::domain::nesting::{TOO_DEEP, first_too_deep, line_of};
use crate::domain::text::{did_you_mean, escape};

/// Every key with its default and its meaning, as TOML. `--print-config` shows it.
pub const DEFAULTS: &str = include_str!("../../../assets/config.toml");

/// Keys of later versions. If one were ignored, a person would believe that it works.
const NOT_YET: [&str; 6] = [
    "api.listen",
    "api.gids",
    "engine.rate",
    "guard.approval",
    "guard.blast_limit",
    "guard.cloud",
];

/// An error in the settings, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    pub file: PathBuf,
    /// The line, counted from 1; none if the file could not be read, or does not contain the key.
    pub line: Option<usize>,
    /// The dotted path of the key; empty if the error is about the whole file or its syntax.
    pub key: String,
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ", {}", escape(&self.key))?;
        }
        write!(f, ": {}", escape(&self.message))
    }
}

/// Returns the path of the settings file: the one that the option names, or the usual one, which need not exist.
pub fn file_of(option: Option<&Path>, around: &Surroundings) -> Option<PathBuf> {
    let usual = || Some(around.config_folder()?.join("config.toml"));
    option.map(Path::to_path_buf).or_else(usual)
}

/// Returns the settings, and the file from which they were read. Without a file, returns the defaults.
///
/// # Errors
/// The file cannot be read, its text is not valid ([`parse`]), or a secret file that the text names is missing or
/// can be read by other users.
pub fn load(
    option: Option<&Path>,
    around: &Surroundings,
) -> Result<(Settings, Option<PathBuf>), ConfigError> {
    let Some(file) = file_of(option, around) else {
        return Ok((Settings::default(), None));
    };
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let settings = parse(&text, &file)?;
            match exposed_secret(&settings) {
                None => Ok((settings, Some(file))),
                Some((key, message)) => Err(at_key(&text, &file, key, &message)),
            }
        }
        Err(error) if option.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok((Settings::default(), None))
        }
        Err(error) => Err(ConfigError {
            message: format!("cannot be read: {error}"),
            file,
            line: None,
            key: String::new(),
        }),
    }
}

/// Parses settings. Every key that the text leaves out has its default.
///
/// # Errors
/// The first of these: the text nests too deeply; it is not TOML; a key belongs to a later version; a key is
/// unknown (the error has the nearest known key); a value has the wrong shape; a value makes no sense.
pub fn parse(text: &str, file: &Path) -> Result<Settings, ConfigError> {
    let source = Source { text, file };
    if let Some(at) = first_too_deep(text) {
        return Err(source.error(Some(at), String::new(), TOO_DEEP));
    }
    let table = DeTable::parse(text)
        .map_err(|error| source.error(error.span(), String::new(), error.message()))?;
    for key in NOT_YET {
        if let Some(span) = span_of(table.get_ref(), key) {
            let message = "not supported by this version; remove it";
            return Err(source.error(Some(span), key.to_owned(), message));
        }
    }
    let deserializer = toml::de::Deserializer::from(table.clone());
    let settings: Settings = serde_path_to_error::deserialize(deserializer)
        .map_err(|error| source.shape_error(error.path().to_string(), error.inner()))?;
    match first_nonsense(&settings) {
        None => Ok(settings),
        Some((key, message)) => {
            let span = span_of(table.get_ref(), &key);
            Err(source.error(span, key, &message))
        }
    }
}

/// Creates the error for a setting that can be checked only where it is used. The error has the line of this file that
/// sets the key, if there is one.
pub fn wrong(file: &Path, key: String, message: &str) -> ConfigError {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    at_key(&text, file, key, message)
}

/// Returns an error about the value of a key, with the line of the key if the text contains it.
fn at_key(text: &str, file: &Path, key: String, message: &str) -> ConfigError {
    let table = DeTable::parse(text).ok();
    let span = table.and_then(|table| span_of(table.get_ref(), &key));
    Source { text, file }.error(span, key, message)
}

struct Source<'a> {
    text: &'a str,
    file: &'a Path,
}

impl Source<'_> {
    fn error(&self, span: Option<Range<usize>>, key: String, message: &str) -> ConfigError {
        ConfigError {
            file: self.file.to_path_buf(),
            line: span.map(|span| line_of(self.text, span.start)),
            key,
            message: message.to_owned(),
        }
    }

    /// Rewords an error of serde. If a key is unknown, serde puts the unknown key and then the known keys into
    /// backticks, and nothing else.
    fn shape_error(&self, path: String, error: &toml::de::Error) -> ConfigError {
        let message = error.message();
        let mut words = message.split('`').skip(1).step_by(2);
        let unknown = words.next().unwrap_or_default();
        let known: Vec<&str> = words.collect();
        let near = did_you_mean(unknown, known.iter().copied());
        if message.starts_with("unknown variant") {
            return self.error(error.span(), path, &format!("{message}{near}"));
        }
        if !message.starts_with("unknown field") {
            let message = message
                .replace("expected usize", "expected a whole number")
                .replace("expected u32", "expected a whole number")
                .replace("expected f64", "expected a number");
            return self.error(error.span(), path, &message);
        }
        let key = match path.as_str() {
            "." | "" => unknown.to_owned(),
            path if path == unknown || path.ends_with(&format!(".{unknown}")) => path.to_owned(),
            path => format!("{path}.{unknown}"),
        };
        let message = format!("unknown key{near} (known here: {})", known.join(", "));
        self.error(error.span(), key, &message)
    }
}

/// Returns the position of a dotted key in the text. Elements of lists are written as `[0]`.
fn span_of(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let path = path.replace('[', ".").replace(']', "");
    let mut parts = path.split('.');
    let (key, mut value) = table.get_key_value(parts.next()?)?;
    let mut span = key.span();
    for part in parts {
        match value.get_ref() {
            DeValue::Table(table) => {
                let (key, next) = table.get_key_value(part)?;
                span = key.span();
                value = next;
            }
            DeValue::Array(array) => {
                value = array.get(part.parse::<usize>().ok()?)?;
                span = value.span();
            }
            _ => return None,
        }
    }
    Some(span)
}

/// Finds the first secret file that is missing, or that other users can read. Returns the key of the setting that
/// names the file, and the reason.
fn exposed_secret(settings: &Settings) -> Option<(String, String)> {
    let deployment = settings.deployment.as_ref();
    notify::exposed_secret(&settings.notify).or_else(|| deployment::exposed_secret(deployment?))
}

/// Finds the first value that has the right shape but makes no sense. Returns its key, and why.
fn first_nonsense(settings: &Settings) -> Option<(String, String)> {
    let Settings {
        ledger, engine, gc, ..
    } = settings;
    let url = ledger.path.as_deref().and_then(Path::to_str);
    let scheme = url.and_then(|url| url.split_once("://"));
    if scheme.is_some_and(|(scheme, _)| !["postgres", "postgresql"].contains(&scheme)) {
        let message = "is not supported by this version: give the path of a file, or \
             postgres://USER@HOST/DATABASE";
        return nonsense("ledger.path", message);
    }
    let own = [
        (
            engine.concurrency == 0,
            "engine.concurrency",
            "must be at least 1",
        ),
        (
            engine.concurrency_max < engine.concurrency,
            "engine.concurrency_max",
            "must not be less than engine.concurrency",
        ),
        (ledger.retention.is_zero(), "ledger.retention", ZERO),
        (engine.call_timeout.is_zero(), "engine.call_timeout", ZERO),
        (
            engine.verify_timeout.is_zero(),
            "engine.verify_timeout",
            ZERO,
        ),
        (engine.sweep.is_zero(), "engine.sweep", ZERO),
        (engine.sign_in_every.is_zero(), "engine.sign_in_every", ZERO),
        (engine.read_patience.is_zero(), "engine.read_patience", ZERO),
        (gc.pending_max.is_zero(), "gc.pending_max", ZERO),
        (
            engine.lease() <= engine.call_timeout,
            "engine.lease",
            "must be longer than engine.call_timeout",
        ),
        (
            !(0.0..=1.0).contains(&gc.jitter),
            "gc.jitter",
            "must be between 0 and 1",
        ),
    ];
    let of_kinds = || {
        gc.kind.iter().find_map(|(kind, own)| {
            let at = format!("gc.kind.{kind}.");
            schedule_nonsense(&at, own.schedule.as_deref(), own.max_attempts)
        })
    };
    let found = first_wrong("", own)
        .or_else(|| schedule_nonsense("gc.", Some(&gc.schedule), Some(gc.max_attempts)))
        .or_else(of_kinds)
        .or_else(|| mapping_nonsense(&settings.mapping))
        .or_else(|| gate::first_nonsense(&settings.gate))
        .or_else(|| notify::first_nonsense(&settings.notify))
        .or_else(|| deployment::first_nonsense(settings.deployment.as_ref()?));
    if found.is_some() {
        return found;
    }
    let mut reasons = settings.guard.reason.iter();
    if let Some((cloud, _)) = reasons.find(|(_, pattern)| pattern.trim().is_empty()) {
        let message = "must not be empty; write \"*\" for any reason, or a pattern like \"OPS-*\"";
        return nonsense(&format!("guard.reason.{cloud}"), message);
    }
    let mut rules = settings.guard.protect.iter();
    let empty = rules.position(|rule| *rule == super::ProtectRule::default())?;
    let message = "a rule needs at least one of kind, tag, name, project, younger_than, older_than: without any, \
                   it does not say what to protect";
    nonsense(&format!("guard.protect[{empty}]"), message)
}

fn schedule_nonsense(
    at: &str,
    schedule: Option<&[Duration]>,
    max_attempts: Option<u32>,
) -> Option<(String, String)> {
    let has_zero = schedule.is_some_and(|waits| waits.contains(&Duration::ZERO));
    let settings = [
        (
            schedule.is_some_and(<[Duration]>::is_empty),
            "schedule",
            "needs at least one wait",
        ),
        (has_zero, "schedule", "each wait must be longer than 0s"),
        (
            max_attempts == Some(0),
            "max_attempts",
            "must be at least 1",
        ),
    ];
    first_wrong(at, settings)
}

fn mapping_nonsense(mapping: &[Mapping]) -> Option<(String, String)> {
    mapping.iter().enumerate().find_map(|(position, mapping)| {
        let (central, locals) = (&mapping.central, &mapping.locals);
        let no_region = |site: &Site| site.cloud().is_none();
        let twice = |site: &Site| locals.iter().filter(|it| *it == site).count() > 1;
        let settings = [
            (no_region(central), "central", "must be CLOUD/REGION"),
            (
                locals.is_empty(),
                "locals",
                "needs at least one CLOUD/REGION",
            ),
            (
                locals.iter().any(no_region),
                "locals",
                "each entry must be CLOUD/REGION",
            ),
            (
                locals.iter().any(twice),
                "locals",
                "lists a site twice; each site may be listed once",
            ),
            (
                locals.contains(central),
                "locals",
                "must not name the central site itself",
            ),
        ];
        first_wrong(&format!("mapping[{position}]."), settings)
    })
}
