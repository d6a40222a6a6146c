//! Bodies and parameters, read strictly: an unknown name is an error that names the nearest known one.

use std::convert::Infallible;
use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::de::{self, DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer};

use super::Api;
use super::problem::Problem;
use crate::control::{SiteSpec, TargetSpec};
use crate::domain::duration;
use crate::domain::model::{KindName, Site};
use crate::domain::text::did_you_mean;

/// Rows of a page, unless asked for otherwise.
const PAGE_ROWS: usize = 100;
pub(super) const PAGE_ROWS_MAX: usize = 500;
/// As long as any UUID, hash or ticket number; a longer key is a mistake.
const KEY_BYTES_MAX: usize = 256;

/// A JSON body, read strictly; an empty one counts as `{}`.
pub(super) struct StrictJson<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for StrictJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| {
            let status = rejection.status();
            let kind = match status {
                StatusCode::PAYLOAD_TOO_LARGE => "too-large",
                _ => "invalid-request",
            };
            Problem::new(status, kind, rejection.body_text())
        })?;
        parse(&bytes).map(Self)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let json: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let at = match error.path().to_string() {
            path if path == "." => "the body".to_owned(),
            path => format!("\"{path}\""),
        };
        let message = error.inner().to_string();
        let hint = hint(&message);
        Problem::invalid(format!("{at}: {message}{hint}"))
    })?;
    reader
        .end()
        .map_err(|error| Problem::invalid(format!("the body: {error}")))?;
    Ok(value)
}

/// Returns the nearest of the names in serde's "unknown field `x`, expected one of `a`, `b`".
fn hint(message: &str) -> String {
    if !message.starts_with("unknown ") {
        return String::new();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    quoted
        .next()
        .map_or_else(String::new, |word| did_you_mean(word, quoted))
}

/// A target as text, `network/web@prod/RegionOne`, or as an object, as plans show them.
#[derive(Debug)]
pub(super) enum TargetInput {
    Text(String),
    Object(TargetObject),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetObject {
    kind: String,
    id: Option<String>,
    /// Used only without an id.
    name: Option<String>,
    /// `cloud/region`, or `cloud` for all of its regions; without it, every site.
    site: Option<String>,
}

impl<'de> Deserialize<'de> for TargetInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TargetInput;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("KIND/ID-or-NAME[@CLOUD[/REGION]] or {kind, id or name, site}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TargetInput, E> {
                Ok(TargetInput::Text(text.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TargetInput, A::Error> {
                TargetObject::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(TargetInput::Object)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Parses the targets; there must be at least one.
pub(super) fn targets(api: &Api, inputs: Vec<TargetInput>) -> Result<Vec<TargetSpec>, Problem> {
    if inputs.is_empty() {
        return Err(Problem::invalid("\"targets\" names nothing"));
    }
    let snapshot = api.control.snapshot().borrow().clone();
    let clouds: Vec<&str> = snapshot
        .sites
        .iter()
        .map(|status| match &status.site {
            Site::Region { cloud, .. } => &**cloud,
            Site::Deployment { name } => &**name,
        })
        .collect();
    inputs
        .into_iter()
        .enumerate()
        .map(|(at, input)| {
            target(input, &clouds)
                .map_err(|error| Problem::invalid(format!("\"targets[{at}]\": {error}")))
        })
        .collect()
}

fn target(input: TargetInput, clouds: &[&str]) -> Result<TargetSpec, String> {
    match input {
        TargetInput::Text(text) => TargetSpec::parse(&text, clouds),
        TargetInput::Object(object) => Ok(TargetSpec {
            kind: object.kind,
            id_or_name: object
                .id
                .or(object.name)
                .filter(|id_or_name| !id_or_name.is_empty())
                .ok_or("neither id nor name is given")?,
            site: match object.site.as_deref() {
                None => SiteSpec::All,
                Some(site) => match site.split_once('/') {
                    // Within JSON, nothing is percent-encoded.
                    Some((cloud, region)) => SiteSpec::Region(Site::region(cloud, region)),
                    None => SiteSpec::Cloud(site.into()),
                },
            },
        }),
    }
}

/// The parameters of a URL. Repeated and comma-separated values add up where several make sense.
pub(super) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        Ok(Self(pairs.into_owned().collect()))
    }
}

impl Params {
    /// Returns all other parameters than these.
    pub(super) fn others(&self, known: &[&str]) -> Vec<(String, String)> {
        let others = self.0.iter().filter(|(name, _)| !known.contains(&&**name));
        others.cloned().collect()
    }

    /// Refuses every other parameter than these.
    pub(super) fn only(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.iter().find(|(name, _)| !known.contains(&&**name)) {
            None => Ok(self),
            Some((name, _)) => Err(Problem::invalid(format!(
                "unknown parameter \"{name}\"{}",
                did_you_mean(name, known.iter().copied())
            ))),
        }
    }

    /// Returns the last value that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(found, value)| found == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn cursor(&self) -> Option<String> {
        self.text("cursor").map(str::to_owned)
    }

    pub(super) fn kind(&self) -> Option<KindName> {
        self.text("kind").map(KindName::new)
    }

    /// Words of a closed set (`state=stuck,blocked`).
    pub(super) fn words<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, Problem> {
        self.0
            .iter()
            .filter(|(found, _)| found == name)
            .flat_map(|(_, value)| value.split(','))
            .filter(|word| !word.is_empty())
            .map(|word| {
                let word: de::value::StrDeserializer<'_, de::value::Error> =
                    word.into_deserializer();
                T::deserialize(word).map_err(|error| {
                    let message = error.to_string();
                    let hint = hint(&message);
                    Problem::invalid(format!("\"{name}\": {message}{hint}"))
                })
            })
            .collect()
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.text(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Problem::invalid(format!("\"{name}\": \"{text}\" is not a whole number"))
                })
            })
            .transpose()
    }

    pub(super) fn limit(&self) -> Result<usize, Problem> {
        match self.number("limit")? {
            None => Ok(PAGE_ROWS),
            Some(limit) => usize::try_from(limit)
                .ok()
                .filter(|limit| (1..=PAGE_ROWS_MAX).contains(limit))
                .ok_or_else(|| {
                    Problem::invalid(format!(
                        "\"limit\": {limit} is not within 1 to {PAGE_ROWS_MAX}"
                    ))
                }),
        }
    }

    /// `site=prod/RegionOne`. A bare word must be a deployment's name: a cloud without a region would
    /// fit nothing and look like an empty list.
    pub(super) fn site(&self, api: &Api) -> Result<Option<Site>, Problem> {
        self.text("site").map(|text| site(api, text)).transpose()
    }

    /// Returns the time that is this long ago: `older_than=24h`.
    pub(super) fn before(&self, api: &Api, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let invalid = |error: String| Problem::invalid(format!("\"{name}\": {error}"));
        let age = duration::parse(text).map_err(invalid)?;
        chrono::Duration::from_std(age)
            .ok()
            .and_then(|age| api.clock.now().checked_sub_signed(age))
            .map(Some)
            .ok_or_else(|| invalid(format!("\"{text}\" is too long ago")))
    }
}

pub(super) fn site(api: &Api, text: &str) -> Result<Site, Problem> {
    let Ok(site) = text.parse::<Site>();
    if matches!(site, Site::Region { .. }) {
        return Ok(site);
    }
    let snapshot = api.control.snapshot().borrow().clone();
    let known: Vec<String> = snapshot.sites.iter().map(|s| s.site.to_string()).collect();
    if known.iter().any(|known| known == text) {
        return Ok(site);
    }
    let hint = known
        .iter()
        .find(|known| known.split('/').next() == Some(text))
        .map_or_else(
            || did_you_mean(text, known.iter().map(String::as_str)),
            |known| format!("; did you mean \"{known}\"?"),
        );
    Err(Problem::invalid(format!(
        "\"site\": \"{text}\" is no CLOUD/REGION{hint}"
    )))
}

/// Returns the client's own name for this request: a request with the same name is the same request.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX)
        .map(|key| Some(key.to_owned()))
        .ok_or_else(|| {
            Problem::invalid(format!(
                "Idempotency-Key must be 1 to {KEY_BYTES_MAX} visible ASCII characters"
            ))
        })
}
