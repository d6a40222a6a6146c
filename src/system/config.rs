//! Settings: an embedded default for every key, patched by the user's file.

mod checks;
mod choices;
mod deployment;
mod gate;
mod kinds;
mod load;
mod notify;
mod paths;
mod secret;

pub use choices::{Choice, ChoiceTable, save_choice};
pub use deployment::{DeploymentSettings, PeerSettings};
pub use gate::{GateSettings, GateSource, Trust, Upstream};
pub use kinds::resolve_kinds;
pub use load::{ConfigError, DEFAULTS, file_of, load, parse, wrong};
pub use notify::{MailSettings, MailTls, NotifySettings, WebhookSettings};
pub use paths::Surroundings;
pub use secret::secret_in;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::duration::{
    DAY, HOUR, MINUTE, format as format_duration, parse as parse_duration,
};
use crate::domain::mapping::Mapping;
use crate::domain::model::Scope;

/// All settings. Unknown keys are errors that suggest the nearest one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub ledger: LedgerSettings,
    pub engine: EngineSettings,
    pub gc: GcSettings,
    pub guard: GuardSettings,
    /// Reverse proxies that keep deleted resources deleted for existing clients.
    pub gate: Vec<GateSettings>,
    /// The sites that have copies of another site's resources.
    pub mapping: Vec<Mapping>,
    /// None for an engine without native resources and without peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentSettings>,
    pub notify: NotifySettings,
    pub api: ApiSettings,
    pub console: ConsoleSettings,
    /// The console's views by name, each as it would be typed after `:`.
    pub views: BTreeMap<String, String>,
    /// The columns that lists of the console show, by the word of their pane: `port = "name status"`.
    pub columns: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LedgerSettings {
    /// A file, or `postgres://USER@HOST/DATABASE`. `gone/ledger.db` in `$XDG_STATE_HOME` (`~/.local/state`) if not set.
    pub path: Option<PathBuf>,
    /// How long a tombstone stays after its resource is gone (T1).
    #[serde(with = "duration")]
    pub hold_down: Duration,
    /// How long events and ended deletions are kept.
    #[serde(with = "duration")]
    pub retention: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Limit of the calls in flight per site at the start. The engine adapts the limit from there.
    pub concurrency: usize,
    /// The highest limit of the calls in flight per site.
    pub concurrency_max: usize,
    /// How long one call to a cloud may take.
    #[serde(with = "duration")]
    pub call_timeout: Duration,
    /// How long an accepted delete is verified before it counts as refused.
    #[serde(with = "duration")]
    pub verify_timeout: Duration,
    /// Time between two sweeps for deleted resources that exist again (T14).
    #[serde(with = "duration")]
    pub sweep: Duration,
    /// Time between two sign-ins to a site that is paused or does not answer (N13). Each refused
    /// login after the first doubles the time, up to an hour (I15).
    #[serde(with = "duration")]
    pub sign_in_every: Duration,
    /// How long gone repeats a read of a cloud that is throttled, unavailable or unanswered (N16).
    #[serde(with = "duration")]
    pub read_patience: Duration,
    /// The name of this engine for people, where several engines share a ledger (`gone list engines`). `HOST/PID` if
    /// empty.
    pub name: String,
    /// How long an engine counts as alive after its last renewal, where several engines share a ledger. After that,
    /// other engines take over its steps (I11). One and a half times `call_timeout` if not set.
    #[serde(with = "option_duration", skip_serializing_if = "Option::is_none")]
    pub lease: Option<Duration>,
}

impl EngineSettings {
    pub fn lease(&self) -> Duration {
        self.lease.unwrap_or(self.call_timeout * 3 / 2)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GcSettings {
    /// Waits between attempts of a blocked step. The last wait repeats (I3).
    #[serde(with = "durations")]
    pub schedule: Vec<Duration>,
    /// Each wait is lengthened by up to this fraction, at random.
    pub jitter: f64,
    pub max_attempts: u32,
    /// How many times a resource that was re-created is deleted again. After one more re-creation, its deletion is
    /// stuck (T14).
    pub recreate_max: u32,
    /// How long a step may wait for something that is still in progress, which uses no attempt (I6). Kinds whose
    /// deletes the cloud completes later have a time of their own.
    #[serde(with = "duration")]
    pub pending_max: Duration,
    /// Values for single kinds, in place of the values above. The keys may be aliases until [`resolve_kinds`] has
    /// replaced them by names.
    pub kind: BTreeMap<String, GcKindSettings>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GcKindSettings {
    #[serde(with = "option_durations", skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Vec<Duration>>,
    pub max_attempts: Option<u32>,
    #[serde(with = "option_duration", skip_serializing_if = "Option::is_none")]
    pub pending_max: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardSettings {
    pub read_only: bool,
    /// Names of the clouds that are read-only.
    pub read_only_clouds: Vec<String>,
    /// Names of the clouds at which deletions, purges and releases require a reason, each with the pattern that a word
    /// of the reason must match: `*`, `OPS-*`.
    pub reason: BTreeMap<String, String>,
    /// Rules for the resources that no cascade may delete, unset or make the cloud remove (P4).
    pub protect: Vec<ProtectRule>,
}

/// Protects the resources that match all of the given fields. A rule without any field is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProtectRule {
    /// The name of a kind; possibly an alias, until [`resolve_kinds`] has replaced it.
    pub kind: Option<String>,
    /// A tag that the resource has.
    pub tag: Option<String>,
    /// A pattern for the name of the resource, with `*` for anything: `prod-*`.
    pub name: Option<String>,
    /// Id of the project that has the resource.
    pub project: Option<String>,
    /// The resource is younger than this: `1h`.
    #[serde(with = "option_duration", skip_serializing_if = "Option::is_none")]
    pub younger_than: Option<Duration>,
    /// The resource is older than this: `365d`.
    #[serde(with = "option_duration", skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSettings {
    /// Uids, in addition to the engine's own and root, that the socket serves, each with its scope. In a
    /// list, each uid has [`Scope::Operate`].
    #[serde(deserialize_with = "scopes_by_uid")]
    pub uids: BTreeMap<u32, Scope>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleSettings {
    /// What happens after a hang-up: with `background` a console with an engine of its own starts `gone --engine` in
    /// a session of its own and ends; with `stop` it only ends. A practice cloud ends in both cases.
    pub on_hangup: OnHangup,
    /// The console's choice among the terminal's 16 colours.
    pub theme: Theme,
    /// Other keys for the console's actions, by the action's name. The console checks them.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Accent colours of clouds, by name, so that a person recognizes a cloud at a glance.
    pub accent: BTreeMap<String, Accent>,
    /// Whether the wheel moves the cursor, and a click moves the cursor to the clicked row, or opens the row if the
    /// cursor is there already. The terminal then selects text only with shift.
    pub mouse: bool,
    /// How the console alerts a person who looks elsewhere, when a deletion ends, or when a step or deletion needs a
    /// person.
    pub alert: Alert,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alert {
    #[default]
    Off,
    Bell,
    /// A notification by OSC 9, which iTerm2, WezTerm, Windows Terminal and others show.
    Osc9,
    /// A notification by OSC 777, which urxvt, foot, Konsole and others show.
    Osc777,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// The plain colours, as the terminal's own theme shows them.
    #[default]
    Terminal,
    /// Bright colours, for a dark background.
    Dark,
    /// Colours for a light background, on which yellow and cyan cannot be read.
    Light,
    /// Bold and bright colours, and nothing dim.
    HighContrast,
    /// No colours.
    Mono,
}

/// One of the terminal's colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accent {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHangup {
    #[default]
    Background,
    Stop,
}

/// Reads `[1001]`, or `{ 1001 = "view" }`.
fn scopes_by_uid<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<u32, Scope>, D::Error> {
    struct Uids;
    impl<'de> Visitor<'de> for Uids {
        type Value = BTreeMap<u32, Scope>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of uids, or a table of uids with their scopes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut uids: A) -> Result<Self::Value, A::Error> {
            let mut scopes = BTreeMap::new();
            while let Some(uid) = uids.next_element()? {
                scopes.insert(uid, Scope::Operate);
            }
            Ok(scopes)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
            let mut scopes = BTreeMap::new();
            while let Some((uid, scope)) = table.next_entry::<String, Scope>()? {
                let uid = uid.parse().map_err(|_| {
                    A::Error::custom(format!(
                        "\"{uid}\" is not a uid; write a number, as `id -u` prints it"
                    ))
                })?;
                scopes.insert(uid, scope);
            }
            Ok(scopes)
        }
    }
    deserializer.deserialize_any(Uids)
}

impl Default for LedgerSettings {
    fn default() -> Self {
        Self {
            path: None,
            hold_down: Duration::from_secs(7 * DAY),
            retention: Duration::from_secs(90 * DAY),
        }
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            concurrency: 8,
            concurrency_max: 64,
            call_timeout: Duration::from_secs(60),
            verify_timeout: Duration::from_secs(60),
            sweep: Duration::from_secs(30),
            sign_in_every: Duration::from_secs(30),
            read_patience: Duration::from_secs(60),
            name: String::new(),
            lease: None,
        }
    }
}

impl Default for GcSettings {
    fn default() -> Self {
        Self {
            schedule: [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY]
                .map(Duration::from_secs)
                .to_vec(),
            jitter: 0.1,
            max_attempts: 8,
            recreate_max: 3,
            pending_max: Duration::from_secs(10 * MINUTE),
            kind: BTreeMap::new(),
        }
    }
}

macro_rules! duration_serde {
    ($name:ident, $type:ty, $raw:ty, $parse:expr, $format:expr) => {
        mod $name {
            use super::*;
            pub(super) fn serialize<S: serde::Serializer>(
                value: &$type,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let format: fn(&$type) -> $raw = $format;
                format(value).serialize(serializer)
            }
            pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                let parse: fn($raw) -> Result<$type, String> = $parse;
                parse(<$raw>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

fn parse_all(texts: Vec<String>) -> Result<Vec<Duration>, String> {
    texts.iter().map(|text| parse_duration(text)).collect()
}

fn format_all(durations: &[Duration]) -> Vec<String> {
    durations.iter().copied().map(format_duration).collect()
}

duration_serde!(
    duration,
    Duration,
    String,
    |text| parse_duration(&text),
    |d| format_duration(*d)
);
duration_serde!(durations, Vec<Duration>, Vec<String>, parse_all, |d| {
    format_all(d)
});
duration_serde!(
    option_duration,
    Option<Duration>,
    Option<String>,
    |text| text.map(|text| parse_duration(&text)).transpose(),
    |d| d.map(format_duration)
);
duration_serde!(
    option_durations,
    Option<Vec<Duration>>,
    Option<Vec<String>>,
    |texts| texts.map(parse_all).transpose(),
    |d| d.as_deref().map(format_all)
);
