//! Scenarios: files that describe the initial state of a practice cloud.
use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{Method, Request, header};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::faults::Rule;
use super::keystone::PASSWORD;
use super::neutron::Seed;
use super::pace::Limits;
use super::region::service;
use super::world::World;

macro_rules! built_in {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../assets/scenarios/", $name, ".toml")))),*]
    };
}

/// The scenarios that come with the program.
const BUILT_IN: [(&str, &str); 8] = built_in! {
    "quiet" "morning" "outage" "giant" "practice" "resurrection" "hostile" "deployments"
};

/// The scenario that is used when none is named.
pub const DEFAULT_SCENARIO: &str = "practice";

/// The reason why a scenario cannot be loaded.
#[derive(Debug, Error)]
pub enum ScenarioError {
    #[error("scenario {name}: {problem}")]
    Invalid { name: String, problem: String },
    #[error("scenario {name}: there is no such file, and the built-in ones are {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("scenario {name}: {error}")]
    Unreadable { name: String, error: std::io::Error },
}

/// A scenario file, in TOML. An unknown key is an error that names it.
///
/// Seeds are applied first, then calls in their order, then limits and faults. `${word}` in a path, a body or
/// a fault is the value that a call saved under that word; `${n}` numbers the repetitions of a call from 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence.
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
    #[serde(skip)]
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneDeployment {
    pub name: String,
    pub service: String,
    pub region: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneService {
    pub name: String,
    /// The text of a kinds file.
    pub kinds: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneResource {
    /// The deployment that owns it.
    pub at: String,
    pub kind: String,
    pub body: Value,
}

/// An ordinary API call, which must be accepted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    /// The first region when missing.
    region: Option<String>,
    /// `admin` or `demo`.
    #[serde(default = "admin", rename = "as")]
    user: String,
    /// `network`, `load-balancer` or `image`.
    #[serde(default = "network")]
    service: String,
    #[serde(default = "post")]
    method: String,
    /// The path below the service's version: `/v2.0`, `/v2.0/lbaas`, `/v2`.
    path: String,
    #[serde(default)]
    body: Value,
    /// Number of times that the call is made.
    #[serde(default = "once")]
    repeat: u32,
    /// Word → JSON pointer into the answer.
    #[serde(default)]
    save: BTreeMap<String, String>,
}

fn admin() -> String {
    "admin".to_owned()
}

fn network() -> String {
    "network".to_owned()
}

fn post() -> String {
    "POST".to_owned()
}

fn once() -> u32 {
    1
}

impl Scenario {
    /// Loads the built-in scenario with this name (`default` means `practice`), or else the file at this
    /// path.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        let wanted = if name == "default" {
            DEFAULT_SCENARIO
        } else {
            name
        };
        if let Some((known, text)) = BUILT_IN.iter().find(|(known, _)| *known == wanted) {
            return Self::parse(known, text);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ScenarioError::Unknown {
                    name: name.to_owned(),
                    known: Self::built_in().collect(),
                })
            }
            Err(error) => Err(ScenarioError::Unreadable {
                name: name.to_owned(),
                error,
            }),
        }
    }

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
            return Err(invalid("regions: at least one".to_owned()));
        }
        name.clone_into(&mut scenario.name);
        Ok(scenario)
    }
}

impl World {
    /// Brings a new world into the state of a scenario. The calls of the scenario are not logged, and nothing
    /// is delayed.
    ///
    /// A seed or call whose region was left out (`--regions`) is skipped, along with the faults that name a
    /// word it would have saved.
    pub fn apply(&mut self, scenario: &Scenario, now: DateTime<Utc>) -> Result<(), ScenarioError> {
        let invalid = |problem: String| ScenarioError::Invalid {
            name: scenario.name.clone(),
            problem,
        };
        for (index, seed) in scenario.seed.iter().enumerate() {
            if self.lacks(seed.region.as_deref()) {
                continue;
            }
            self.seed(seed, now)
                .map_err(|problem| invalid(format!("seed[{index}].{problem}")))?;
        }
        let mut words = BTreeMap::new();
        let mut left_out: Vec<&String> = Vec::new();
        for (index, call) in scenario.call.iter().enumerate() {
            if self.lacks(call.region.as_deref()) {
                left_out.extend(call.save.keys());
                continue;
            }
            for round in 1..=call.repeat {
                words.insert("n".to_owned(), round.to_string());
                self.play(call, &mut words, now)
                    .map_err(|problem| invalid(format!("call[{index}]: {problem}")))?;
            }
        }
        self.forget_calls();
        for (index, limits) in scenario.limits.iter().enumerate() {
            if !self.lacks(limits.region.as_deref()) {
                self.limit(limits.clone())
                    .map_err(|problem| invalid(format!("limits[{index}].{problem}")))?;
            }
        }
        let mut rules: Vec<Rule> = Vec::new();
        for (index, rule) in scenario.faults.iter().enumerate() {
            let text = rule.to_string();
            if left_out
                .iter()
                .any(|word| text.contains(&format!("${{{word}}}")))
            {
                continue;
            }
            let rule = fill_all(rule, &words)
                .map_err(|problem| invalid(format!("faults[{index}]: {problem}")))?;
            let rule = serde_path_to_error::deserialize(rule)
                .map_err(|error| invalid(format!("faults[{index}].{error}")))?;
            rules.push(rule);
        }
        self.faults
            .replace(rules)
            .map_err(|problem| invalid(format!("faults{problem}")))
    }

    fn lacks(&self, region: Option<&str>) -> bool {
        region.is_some_and(|name| !self.region_names().any(|known| known == name))
    }

    fn play(
        &mut self,
        call: &ScriptedCall,
        words: &mut BTreeMap<String, String>,
        now: DateTime<Utc>,
    ) -> Result<(), String> {
        let region = match &call.region {
            Some(region) => region.clone(),
            None => self.region_names().next().unwrap_or_default().to_owned(),
        };
        let api = service(&call.service);
        let api = api.ok_or_else(|| format!("service: there is no {}", call.service))?;
        let token = self.token_of(&call.user, now)?;
        let path = fill(&call.path, words)?;
        let body = fill_all(&call.body, words)?;
        let bytes = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let request = Request::builder()
            .method(
                Method::from_bytes(call.method.as_bytes())
                    .map_err(|error| format!("method: {error}"))?,
            )
            .uri(format!("/{region}/{}{}{path}", api.kind, api.root()))
            .header("x-auth-token", token)
            .header(header::CONTENT_TYPE, "application/json")
            .body(bytes)
            .map_err(|error| format!("path: {error}"))?;
        let response = self.handle(request, now).response;
        let text = String::from_utf8_lossy(response.body());
        if !response.status().is_success() {
            return Err(format!(
                "{} {path}: {} {text}",
                call.method,
                response.status()
            ));
        }
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        for (word, pointer) in &call.save {
            let value = answer
                .pointer(pointer)
                .and_then(Value::as_str)
                .ok_or_else(|| format!("save.{word}: no text at {pointer} in {text}"))?;
            words.insert(word.clone(), value.to_owned());
        }
        Ok(())
    }

    fn token_of(&mut self, user: &str, now: DateTime<Utc>) -> Result<String, String> {
        let domain = serde_json::json!({"id": "default"});
        let body = serde_json::json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": PASSWORD}}},
            "scope": {"project": {"name": user, "domain": domain}},
        }});
        let request = Request::post("/v3/auth/tokens")
            .body(Bytes::from(body.to_string()))
            .map_err(|error| error.to_string())?;
        let response = self.handle(request, now).response;
        response
            .headers()
            .get("x-subject-token")
            .and_then(|token| token.to_str().ok())
            .map(str::to_owned)
            .ok_or_else(|| format!("as: no user {user}"))
    }
}

/// Replaces `${word}`. An unknown word is an error.
fn fill(text: &str, words: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (word, after) = after
            .split_once('}')
            .ok_or_else(|| format!("{text:?}: ${{ without }}"))?;
        let value = words
            .get(word)
            .ok_or_else(|| format!("nothing saved as {word}"))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    Ok(filled + rest)
}

fn fill_all(value: &Value, words: &BTreeMap<String, String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, words)?),
        Value::Array(items) => items
            .iter()
            .map(|item| fill_all(item, words))
            .collect::<Result<_, _>>()?,
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| Ok((name.clone(), fill_all(value, words)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}
