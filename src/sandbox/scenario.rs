//! Scenarios: files that describe the initial state of a practice cloud.
use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use http::{Request, header};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::core::Limits;
use super::faults::Rule;
use super::seed::Seed;
use super::template::{fill, fill_all};
use super::world::{World, service};

macro_rules! built_in {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../assets/scenarios/", $name, ".toml")))),*]
    };
}

/// The scenarios that come with the program.
const BUILT_IN: [(&str, &str); 8] = built_in! {
    "quiet" "morning" "outage" "giant" "practice" "resurrection" "hostile" "deployments"
};

/// Time after which every change that a call began has ended, unless a course was set for it.
const LONG_ENOUGH: TimeDelta = TimeDelta::minutes(1);

/// The scenario that is used when none is named.
pub const DEFAULT_SCENARIO: &str = "practice";

/// The reason why a scenario cannot be loaded.
#[derive(Debug, Error)]
pub enum ScenarioError {
    #[error("scenario {name}: {problem}")]
    Invalid { name: String, problem: String },
    #[error("scenario {name}: there is no such file; the built-in scenarios are {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("scenario {name}: the file cannot be read: {error}")]
    Unreadable { name: String, error: std::io::Error },
}

/// A scenario file, in TOML. An unknown key is an error that names it.
///
/// Seeds are applied first, then the calls in their order, then limits and faults. The changes that a call begins
/// end before the next call. Later, an engine and not the cloud performs the deletions of the past. `${word}` in a
/// path, a body or a fault is the value that a call saved under that word; `${n}` numbers the repetitions of a call
/// from 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence that says what the scenario shows.
    pub description: String,
    /// The regions to create, unless the command line names others.
    pub regions: Vec<String>,
    #[serde(default)]
    seed: Vec<Seed>,
    #[serde(default)]
    call: Vec<ScriptedCall>,
    #[serde(default)]
    limits: Vec<Limits>,
    /// Rules in the format of `PUT /sandbox/v1/faults`.
    #[serde(default)]
    faults: Vec<Value>,
    /// Engines that run beside each other; the cloud ignores them. The first one manages the cloud.
    #[serde(default, rename = "deployment")]
    pub deployments: Vec<SceneDeployment>,
    /// The services of the deployments.
    #[serde(default, rename = "service")]
    pub services: Vec<SceneService>,
    /// The initial resources of the deployments, in the order of their creation.
    #[serde(default, rename = "resource")]
    pub resources: Vec<SceneResource>,
    /// Deletions before the start of the scenario. The practice cloud ignores them; an engine that is started with
    /// the scenario has them in its ledger.
    #[serde(default)]
    pub past: Vec<PastDeletion>,
    #[serde(skip)]
    name: String,
}

/// A deployment of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneDeployment {
    pub name: String,
    pub service: String,
    pub region: String,
}

/// A service whose kinds the deployments of a scenario have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneService {
    pub name: String,
    /// The text of a kinds file.
    pub kinds: String,
}

/// An initial resource of a deployment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneResource {
    /// The name of the deployment that owns the resource.
    pub at: String,
    pub kind: String,
    pub body: Value,
}

/// A deletion, with all dependents, that was requested before the start of the scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastDeletion {
    pub minutes_ago: u32,
    /// The person who requested the deletion.
    pub by: String,
    #[serde(default)]
    pub reason: String,
    pub kind: String,
    pub name: String,
    /// The region of the deletion's target; the first region when missing.
    #[serde(default)]
    region: Option<String>,
}

/// An ordinary API call, which must be accepted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptedCall {
    /// The region to which the call goes; the first region when missing.
    region: Option<String>,
    /// The name of the user who makes the call: `admin` or `demo`.
    #[serde(rename = "as")]
    user: String,
    /// The service's type in the catalog: `network`, `load-balancer`, `image`, `compute`, `volumev3`.
    service: String,
    method: String,
    /// The path below the first of the service's roots, for example below `/v2.0` of `network`.
    path: String,
    body: Value,
    /// Number of times that the call is made.
    repeat: u32,
    /// Word → JSON pointer to a text in the answer, which is saved under the word.
    save: Saved,
}

/// Words and their texts.
type Saved = BTreeMap<String, String>;

impl Default for ScriptedCall {
    fn default() -> Self {
        Self {
            region: None,
            user: "admin".to_owned(),
            service: "network".to_owned(),
            method: "POST".to_owned(),
            path: String::new(),
            body: Value::Null,
            repeat: 1,
            save: Saved::new(),
        }
    }
}

impl Scenario {
    /// Loads the built-in scenario with this name (`default` means `practice`), or else the file at this
    /// path.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        let wanted = match name {
            "default" => DEFAULT_SCENARIO,
            name => name,
        };
        if let Some((known, text)) = BUILT_IN.iter().find(|(known, _)| *known == wanted) {
            return Self::parse(known, text);
        }
        let name = name.to_owned();
        match std::fs::read_to_string(&name) {
            Ok(text) => Self::parse(&name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let known = Self::built_in().collect();
                Err(ScenarioError::Unknown { name, known })
            }
            Err(error) => Err(ScenarioError::Unreadable { name, error }),
        }
    }

    /// Returns the age of the resources when the practice starts: a day more than the age of the oldest past
    /// deletion, or zero if the scenario has none.
    pub(super) fn age(&self) -> TimeDelta {
        let first = self.past.iter().map(|deletion| deletion.minutes_ago).max();
        first.map_or(TimeDelta::zero(), |minutes| {
            TimeDelta::minutes(minutes.into()) + TimeDelta::days(1)
        })
    }

    /// Returns the name of the region of one of the past deletions.
    pub fn region_of<'s>(&'s self, deletion: &'s PastDeletion) -> &'s str {
        let region = deletion.region.as_ref().or(self.regions.first());
        region.map_or("", String::as_str)
    }

    /// Returns the names of the built-in scenarios.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Parses a scenario; `name` is for error messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let invalid = |problem: String| ScenarioError::Invalid {
            name: name.to_owned(),
            problem,
        };
        let document =
            toml::Deserializer::parse(text).map_err(|error| invalid(error.to_string()))?;
        let mut scenario: Self = serde_path_to_error::deserialize(document)
            .map_err(|error| invalid(error.to_string()))?;
        if scenario.regions.is_empty() {
            return Err(invalid("regions: name at least one region".to_owned()));
        }
        name.clone_into(&mut scenario.name);
        Ok(scenario)
    }
}

impl World {
    /// Brings a new world into the state of a scenario. The calls of the scenario are not logged, and nothing
    /// is delayed.
    ///
    /// Seeds, calls and limits of a region that was left out (`--regions`) are skipped, and so are the faults that
    /// use a word which such a call would have saved.
    pub fn apply(&mut self, scenario: &Scenario, now: DateTime<Utc>) -> Result<(), ScenarioError> {
        let applied = self.try_apply(scenario, now);
        applied.map_err(|problem| ScenarioError::Invalid {
            name: scenario.name.clone(),
            problem,
        })
    }

    fn try_apply(&mut self, scenario: &Scenario, now: DateTime<Utc>) -> Result<(), String> {
        for (index, seed) in scenario.seed.iter().enumerate() {
            if self.has(seed.region.as_deref()) {
                let made = self.seed(seed, now);
                made.map_err(|problem| format!("seed[{index}].{problem}"))?;
            }
        }
        let mut words = Saved::new();
        let mut left_out: Vec<String> = Vec::new();
        for (index, call) in scenario.call.iter().enumerate() {
            if !self.has(call.region.as_deref()) {
                left_out.extend(call.save.keys().map(|word| format!("${{{word}}}")));
                continue;
            }
            for round in 1..=call.repeat {
                words.insert("n".to_owned(), round.to_string());
                let played = self.play(call, &mut words, now);
                played.map_err(|problem| format!("call[{index}]: {problem}"))?;
                for region in &mut self.regions {
                    region.settle(now + LONG_ENOUGH);
                }
            }
        }
        self.clear_log();
        for (index, limits) in scenario.limits.iter().enumerate() {
            if self.has(limits.region.as_deref()) {
                let set = self.limit(limits.clone());
                set.map_err(|problem| format!("limits[{index}].{problem}"))?;
            }
        }
        let mut rules: Vec<Rule> = Vec::new();
        for (index, rule) in scenario.faults.iter().enumerate() {
            let text = rule.to_string();
            if left_out.iter().any(|word| text.contains(word)) {
                continue;
            }
            let rule = fill_all(rule, &mut |word| words.get(word).cloned());
            let rule = rule.map_err(|problem| format!("faults[{index}]: {problem}"))?;
            let rule = serde_path_to_error::deserialize(rule);
            rules.push(rule.map_err(|error| format!("faults[{index}].{error}"))?);
        }
        let set = self.faults.replace(rules);
        set.map_err(|problem| format!("faults{problem}"))
    }

    /// Whether the world has a region; true without a name.
    fn has(&self, region: Option<&str>) -> bool {
        region.is_none_or(|name| self.region_names().any(|known| known == name))
    }

    fn play(
        &mut self,
        call: &ScriptedCall,
        words: &mut Saved,
        now: DateTime<Utc>,
    ) -> Result<(), String> {
        let token = self.keystone.log_in(&call.user, now);
        let token = token.ok_or_else(|| format!("as: no user {}", call.user))?;
        let region = call.region.as_deref();
        let region = region.or(self.region_names().next()).unwrap_or_default();
        let service = service(&call.service);
        let service = service.ok_or_else(|| format!("service: no service {}", call.service))?;
        let service = service.tables.service;
        let mut saved = |word: &str| words.get(word).cloned();
        let path = fill(&call.path, &mut saved)?;
        let body = match fill_all(&call.body, &mut saved)? {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let root = service.roots.first().copied().unwrap_or_default();
        let request = Request::builder()
            .method(call.method.as_str())
            .uri(format!("/{region}/{}{root}{path}", service.kind))
            .header("x-auth-token", token)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| format!("{} {path}: {error}", call.method))?;
        let response = self.handle(request, now).response;
        let (status, text) = (response.status(), String::from_utf8_lossy(response.body()));
        if !status.is_success() {
            return Err(format!("{} {path}: {status} {text}", call.method));
        }
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        for (word, pointer) in &call.save {
            let value = answer.pointer(pointer).and_then(Value::as_str);
            let value =
                value.ok_or_else(|| format!("save.{word}: no text at {pointer} in {text}"))?;
            words.insert(word.clone(), value.to_owned());
        }
        Ok(())
    }
}
