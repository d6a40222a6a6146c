//! Bodies and parameters, read strictly: an unknown name is an error that names the nearest known one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use url::form_urlencoded;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, OneOf, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::Api;
use super::problem::Problem;
use crate::control::{KindInfo, SiteSpec, TargetSpec, query};
use crate::domain::duration;
use crate::domain::model::{KindName, Site};
use crate::domain::text::did_you_mean;

/// Rows of a page if the request gives no limit.
const PAGE_ROWS: usize = 100;
pub(super) const PAGE_ROWS_MAX: usize = 500;
/// Longest idempotency key. Every UUID, hash and ticket number is shorter, so a longer key is a mistake.
pub(super) const KEY_BYTES_MAX: usize = 256;

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
    let end = reader.end().map(|()| value);
    end.map_err(|error| Problem::invalid(format!("the body: {error}")))
}

/// Returns `; did you mean "a"?` with the expected name that is nearest to the unknown one in serde's "unknown field
/// `x`, expected one of `a`, `b`" or "unknown variant …"; empty for any other message, or if no name is near.
fn hint(message: &str) -> String {
    if !message.starts_with("unknown ") {
        return String::new();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let word = quoted.next().unwrap_or_default();
    did_you_mean(word, quoted)
}

/// A target as text, `network/web@prod/RegionOne`, or as an object, as plans show it.
#[derive(Debug)]
pub(super) enum TargetInput {
    Text(String),
    Object(TargetObject),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetObject {
    kind: String,
    id: Option<String>,
    /// Used only without an id.
    name: Option<String>,
    /// `CLOUD/REGION`, or `CLOUD` for all of its regions; without it, every site.
    site: Option<String>,
}

impl PartialSchema for TargetInput {
    fn schema() -> RefOr<Schema> {
        let text = "A target as text, `KIND/ID-or-NAME[@CLOUD[/REGION]]` with each part percent-encoded where it \
                    must be, or as an object, in which nothing is parsed.";
        let one_of = OneOf::builder().item(Object::builder().schema_type(Type::String));
        let one_of = one_of.item(TargetObject::schema());
        one_of.description(Some(text)).into()
    }
}

impl ToSchema for TargetInput {}

impl<'de> Deserialize<'de> for TargetInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
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
        deserializer.deserialize_any(Either)
    }
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

/// The parameters of a URL, read strictly. Repeated and comma-separated values add up where several make sense;
/// elsewhere the last one that is not empty counts.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        parameters(form_urlencoded::parse(query.as_bytes())).map(Self)
    }
}

/// Reads parameters into a struct that has a field for each of them.
pub(super) fn parameters<'q, T: DeserializeOwned>(
    pairs: impl Iterator<Item = (Cow<'q, str>, Cow<'q, str>)>,
) -> Result<T, Problem> {
    let mut given: BTreeMap<Cow<'q, str>, Values<'q>> = BTreeMap::new();
    for (name, value) in pairs {
        let Values(values) = given.entry(name).or_default();
        values.extend(Some(value).filter(|value| !value.is_empty()));
    }
    let reader = MapDeserializer::<_, de::value::Error>::new(given.into_iter());
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let message = error.inner().to_string();
        let hint = hint(&message);
        Problem::invalid(match message.strip_prefix("unknown field `") {
            Some(unknown) => {
                let name = unknown.split('`').next().unwrap_or_default();
                format!("unknown parameter \"{name}\"{hint}")
            }
            None => {
                let path = error.path().to_string();
                let name = path.split('[').next().unwrap_or_default();
                format!("\"{name}\": {message}{hint}")
            }
        })
    })
}

/// The values of one parameter that are not empty.
#[derive(Default)]
struct Values<'q>(Vec<Cow<'q, str>>);

impl<'q> IntoDeserializer<'_> for Values<'q> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Values<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_string(self.0.pop().unwrap_or_default().into_owned())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0.is_empty() {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let words = self.0.iter().flat_map(|value| value.split(','));
        let words = words.filter(|word| !word.is_empty());
        visitor.visit_seq(SeqDeserializer::new(words.map(str::to_owned)))
    }

    fn deserialize_i64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Self::Error> {
        let text = self.0.pop().unwrap_or_default();
        let number = text
            .parse()
            .map_err(|_| de::Error::custom(format_args!("\"{text}\" is not a whole number")))?;
        visitor.visit_i64(number)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Declares the parameters of a list that comes in pages.
macro_rules! page_params {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($(#[$attribute])* $field: $type,)*
            /// `next` of the previous page; any other value is 400.
            pub(super) cursor: Option<String>,
            #[serde(default)]
            pub(super) limit: Limit,
        }
    };
}
pub(super) use page_params;

/// Rows of a page.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(try_from = "i64")]
#[schema(minimum = 1, maximum = 500, default = 100)]
pub(super) struct Limit(pub(super) usize);

impl Default for Limit {
    fn default() -> Self {
        Self(PAGE_ROWS)
    }
}

impl TryFrom<i64> for Limit {
    type Error = String;

    fn try_from(limit: i64) -> Result<Self, String> {
        let rows = usize::try_from(limit).ok();
        let rows = rows.filter(|rows| (1..=PAGE_ROWS_MAX).contains(rows));
        let too_many = || format!("{limit} is not within 1 to {PAGE_ROWS_MAX}");
        rows.map(Self).ok_or_else(too_many)
    }
}

/// An age: `90s`, `24h`, `7d`.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String)]
pub(super) struct Age(pub(super) TimeDelta);

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let age = TimeDelta::from_std(duration::parse(&text)?);
        age.map(Self)
            .map_err(|error| format!("\"{text}\": {error}"))
    }
}

impl Api {
    /// Returns the time that is this long ago.
    pub(super) fn before(&self, age: Age) -> DateTime<Utc> {
        self.clock.now() - age.0
    }

    /// Parses the targets; there must be at least one.
    pub(super) fn targets(&self, inputs: Vec<TargetInput>) -> Result<Vec<TargetSpec>, Problem> {
        if inputs.is_empty() {
            return Err(Problem::invalid(
                "\"targets\" is empty: name at least one resource",
            ));
        }
        let snapshot = self.control.snapshot().borrow().clone();
        let clouds = snapshot.sites.iter().map(|status| status.site.parts().0);
        let clouds: Vec<&str> = clouds.collect();
        let parsed = inputs.into_iter().enumerate().map(|(at, input)| {
            target(input, &clouds)
                .map_err(|error| Problem::invalid(format!("\"targets[{at}]\": {error}")))
        });
        parsed.collect()
    }

    /// Finds the kind that a client filters by. Refuses an unknown kind, which would match nothing, as if the list were
    /// empty.
    pub(super) async fn kind(&self, kind: Option<KindName>) -> Result<Option<KindName>, Problem> {
        let Some(kind) = kind else {
            return Ok(None);
        };
        let kinds = self.ask(query::Kinds {}).await?;
        let known = KindInfo::find(&kinds, kind.as_str());
        let known = known.map_err(|why| Problem::invalid(format!("\"kind\": {why}")))?;
        Ok(Some(known.name.clone()))
    }

    /// Checks a site. A bare word must be a deployment's name: a cloud without a region would match nothing, as if the
    /// list were empty.
    pub(super) fn site(&self, site: Option<Site>) -> Result<Option<Site>, Problem> {
        let Some(site @ Site::Deployment { .. }) = &site else {
            return Ok(site);
        };
        let text = site.to_string();
        let snapshot = self.control.snapshot().borrow().clone();
        let known: Vec<String> = snapshot.sites.iter().map(|s| s.site.to_string()).collect();
        if known.contains(&text) {
            return Ok(Some(site.clone()));
        }
        let hint = known
            .iter()
            .find(|known| known.split('/').next() == Some(&text))
            .map_or_else(
                || did_you_mean(&text, known.iter().map(String::as_str)),
                |known| format!("; did you mean \"{known}\"?"),
            );
        Err(Problem::invalid(format!(
            "\"site\": \"{text}\" is not CLOUD/REGION{hint}"
        )))
    }
}

/// Reads the `Idempotency-Key` of a request.
///
/// # Errors
/// The key is empty, too long, or not visible ASCII.
pub(super) fn idempotency_key(sent: &HeaderValue) -> Result<String, Problem> {
    let key = sent.to_str().ok();
    let key = key.filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    key.map(str::to_owned).ok_or_else(|| {
        Problem::invalid(format!(
            "Idempotency-Key must be 1 to {KEY_BYTES_MAX} visible ASCII characters"
        ))
    })
}
