//! The API's checks of a body that precede the rules of each kind, and their messages.
use std::net::IpAddr;

use http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::kind::{Attribute, Form, G, Kind, M, P, R, Shape, U};
use crate::sandbox::wire::{Call, Refusal, Result};

const PERSISTENCES: [&str; 3] = ["APP_COOKIE", "HTTP_COOKIE", "SOURCE_IP"];
/// Status codes that a redirection may use.
const CODES: [i64; 5] = [301, 302, 303, 307, 308];
const VIP_FIELDS: [&str; 3] = ["subnet_id", "ip_address", "port_id"];

pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::bad_request("", message)
}

pub(super) fn failed(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

pub(super) fn conflict(message: impl Into<String>) -> Refusal {
    Refusal::conflict("", message)
}

pub(super) fn invalid(detail: &str) -> Refusal {
    bad(format!("Validation failure: {detail}"))
}

/// Returns the refusal of an attribute's value.
fn wrong(name: &str, value: &Value, problem: &str) -> Refusal {
    bad(format!(
        "Invalid input for field/attribute {name}. Value: '{}'. {problem}",
        plain(value)
    ))
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Verb {
    Post,
    Put,
}

/// The body that is being read, for messages.
struct Reader<'a> {
    argument: &'static str,
    body: &'a Value,
}

/// Returns the attributes in a body as they are stored, checked against the kind.
///
/// Refuses in the API's order: no body; no JSON; another word around the attributes; attributes that the kind
/// does not have; then each attribute in the kind's order. Where the API fails on a body that it did not
/// expect, so does this function.
pub(super) fn read(kind: Kind, verb: Verb, call: &Call<'_>) -> Result<Map<String, Value>> {
    let form = kind.form();
    let (argument, first_read) = match verb {
        Verb::Post => (form.arguments.0, form.first_read.0),
        Verb::Put => (form.arguments.1, form.first_read.1),
    };
    if call.body.is_empty() {
        return Err(bad(format!("Missing argument: \"{argument}\"")));
    }
    let body: Value = serde_json::from_slice(call.body)
        .map_err(|_| bad("Request is not in valid JSON format"))?;
    let outer = object(&body)?;
    let unknown: Vec<&str> = outer
        .keys()
        .map(String::as_str)
        .filter(|key| *key != form.singular)
        .collect();
    refuse_unknown(argument, &unknown)?;
    match outer.get(form.singular) {
        None if kind == Kind::Listener && verb == Verb::Put => {
            Err(invalid("No listener object supplied."))
        }
        None if kind == Kind::Rule && verb == Verb::Post => Err(bad(format!(
            "Error parsing L7Rule: 'UnsetType' object has no attribute '{first_read}'"
        ))),
        None => Err(failed(format!(
            "'UnsetType' object has no attribute '{first_read}'"
        ))),
        Some(Value::Null) => Err(failed(format!(
            "'NoneType' object has no attribute '{first_read}'"
        ))),
        Some(inner) => {
            let reader = Reader {
                argument,
                body: &body,
            };
            let path = format!("{argument}.{}", form.singular);
            reader.attributes(form, verb, false, &path, object(inner)?)
        }
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>> {
    value.as_object().ok_or_else(|| {
        failed(format!(
            "'{}' object has no attribute 'keys'",
            type_of(value)
        ))
    })
}

fn refuse_unknown(path: &str, unknown: &[&str]) -> Result<()> {
    let many = if unknown.len() > 1 { "s" } else { "" };
    if unknown.is_empty() {
        return Ok(());
    }
    Err(bad(format!(
        "Unknown attribute{many} for argument {path}: {}",
        unknown.join(", ")
    )))
}

/// Whether an attribute may be in a body. `within`: inside the creation of a load balancer.
fn takes(attribute: &Attribute, verb: Verb, within: bool) -> bool {
    match verb {
        Verb::Put => attribute.is(U),
        Verb::Post if within => {
            (attribute.is(P) && !attribute.is(R) || attribute.is(G))
                && !matches!(attribute.name, "project_id" | "tenant_id")
        }
        // Only a load balancer can be created together with its contents.
        Verb::Post => {
            attribute.is(P)
                || matches!(
                    attribute.shape,
                    Shape::Children(Kind::Listener | Kind::Pool)
                )
        }
    }
}

impl Reader<'_> {
    fn attributes(
        &self,
        form: &Form,
        verb: Verb,
        within: bool,
        path: &str,
        given: &Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        let known = |name: &str| {
            form.attributes
                .iter()
                .any(|known| known.name == name && takes(known, verb, within))
        };
        let unknown: Vec<&str> = given
            .keys()
            .map(String::as_str)
            .filter(|name| !known(name))
            .collect();
        refuse_unknown(path, &unknown)?;
        let mut read = Map::new();
        for attribute in form
            .attributes
            .iter()
            .filter(|attribute| takes(attribute, verb, within))
        {
            let name = attribute.name;
            match given.get(name) {
                Some(Value::Null) => {
                    read.insert(name.to_owned(), Value::Null);
                }
                Some(value) => {
                    let path = format!("{path}.{name}");
                    read.insert(name.to_owned(), self.value(attribute, &path, value)?);
                }
                None if verb == Verb::Post && attribute.is(M) => {
                    return Err(wrong(name, &Value::Null, "Mandatory field missing."));
                }
                None => {}
            }
        }
        Ok(read)
    }

    /// Returns the refusal of a problem that no attribute can be named for yet.
    fn unreadable(&self, problem: &str) -> Refusal {
        wrong(self.argument, self.body, problem)
    }

    fn value(&self, attribute: &Attribute, path: &str, value: &Value) -> Result<Value> {
        let wrong = |problem: &str| wrong(attribute.name, value, problem);
        Ok(match attribute.shape {
            Shape::Text(max) => text(attribute.name, value, max)?,
            Shape::Id => match value.as_str().map(str::parse::<Uuid>) {
                Some(Ok(id)) => id.to_string().into(),
                _ => return Err(wrong("Value should be UUID format")),
            },
            Shape::Ids => self.list(value, |item| match item.as_str().map(str::parse::<Uuid>) {
                Some(Ok(id)) => Ok(id.to_string().into()),
                _ => Err(wrong("Value should be UUID format")),
            })?,
            Shape::Flag => self.flag(value)?,
            Shape::Number(least, most) => {
                let number = self.number(value)?;
                if number < least {
                    return Err(wrong(&format!(
                        "Value should be greater or equal to {least}"
                    )));
                }
                if number > most {
                    return Err(wrong(&format!("Value should be lower or equal to {most}")));
                }
                number.into()
            }
            Shape::Decimal => value.clone(),
            Shape::Code => match self.number(value)? {
                code if CODES.contains(&code) => code.into(),
                _ => {
                    let codes = CODES.map(|code| code.to_string()).join(", ");
                    return Err(wrong(&format!("Value should be one of: {codes}")));
                }
            },
            Shape::Choice(choices) => choice(attribute.name, value, choices)?,
            Shape::Address => match value.as_str().map(str::parse::<IpAddr>) {
                Some(Ok(_)) => value.clone(),
                _ => return Err(wrong("Value should be IPv4 or IPv6 format")),
            },
            Shape::Url => match value.as_str() {
                Some(text) if url::Url::parse(text).is_ok_and(|url| url.has_host()) => {
                    value.clone()
                }
                _ => return Err(wrong("Value must be a valid URL string")),
            },
            Shape::Texts => self.list(value, |item| text(attribute.name, item, usize::MAX))?,
            Shape::TextMap => match value {
                Value::Object(_) => value.clone(),
                other => {
                    return Err(
                        self.unreadable(&format!("Value not a valid dict: {}", plain(other)))
                    );
                }
            },
            Shape::Persistence => persistence(path, object(value)?)?,
            Shape::Vips => self.list(value, |item| vip(path, object(item)?))?,
            Shape::Child(kind) => self.child(kind, path, value)?,
            Shape::PoolOrName => self.child_or_name(path, value)?,
            Shape::Children(kind) => self.list(value, |item| self.child(kind, path, item))?,
            Shape::Computed => return Err(self.unreadable("Cannot set read only field.")),
        })
    }

    fn child(&self, kind: Kind, path: &str, value: &Value) -> Result<Value> {
        self.attributes(kind.form(), Verb::Post, true, path, object(value)?)
            .map(Value::Object)
    }

    /// Reads a pool, or the name of a pool that is described elsewhere in the same body.
    fn child_or_name(&self, path: &str, value: &Value) -> Result<Value> {
        let given = object(value)?;
        if given.keys().all(|name| name == "name") {
            return Ok(value.clone());
        }
        self.child(Kind::Pool, path, value)
    }

    fn list(&self, value: &Value, read: impl Fn(&Value) -> Result<Value>) -> Result<Value> {
        let Value::Array(items) = value else {
            let problem = format!("Value not a valid list: {}", plain(value));
            return Err(self.unreadable(&problem));
        };
        items.iter().map(read).collect()
    }

    fn flag(&self, value: &Value) -> Result<Value> {
        match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::Number(number) => Ok((number.as_f64() != Some(0.0)).into()),
            Value::String(word)
                if ["true", "t", "yes", "y", "on", "1"].contains(&word.as_str()) =>
            {
                Ok(true.into())
            }
            Value::String(word)
                if ["false", "f", "no", "n", "off", "0"].contains(&word.as_str()) =>
            {
                Ok(false.into())
            }
            other => Err(self.unreadable(&format!(
                "Value not an unambiguous boolean: {}",
                plain(other)
            ))),
        }
    }

    fn number(&self, value: &Value) -> Result<i64> {
        value
            .as_i64()
            .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
            .ok_or_else(|| {
                let shown = shown(value);
                self.unreadable(&format!("invalid literal for int() with base 10: {shown}"))
            })
    }
}

fn text(name: &str, value: &Value, max: usize) -> Result<Value> {
    match value.as_str() {
        None => Err(wrong(name, value, "Value should be string")),
        Some(text) if text.chars().count() > max => Err(wrong(
            name,
            value,
            &format!("Value should have a maximum character requirement of {max}"),
        )),
        Some(_) => Ok(value.clone()),
    }
}

/// Checks a choice. The API lists the choices in an order that changes with each start.
fn choice(name: &str, value: &Value, choices: &[&str]) -> Result<Value> {
    if value.as_str().is_some_and(|word| choices.contains(&word)) {
        return Ok(value.clone());
    }
    let problem = format!("Value should be one of: {}", choices.join(", "));
    Err(wrong(name, value, &problem))
}

fn persistence(path: &str, given: &Map<String, Value>) -> Result<Value> {
    let mut read = json!({
        "type": null,
        "cookie_name": null,
        "persistence_timeout": null,
        "persistence_granularity": null,
    });
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|name| read.get(*name).is_none())
        .collect();
    refuse_unknown(path, &unknown)?;
    choice(
        "type",
        given.get("type").unwrap_or(&Value::Null),
        &PERSISTENCES,
    )?;
    for (name, value) in given {
        if let Some(slot) = read.get_mut(name) {
            slot.clone_from(value);
        }
    }
    Ok(read)
}

fn vip(path: &str, given: &Map<String, Value>) -> Result<Value> {
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|name| !VIP_FIELDS.contains(name))
        .collect();
    refuse_unknown(path, &unknown)?;
    match given.get("subnet_id") {
        None => Err(wrong("subnet_id", &Value::Null, "Mandatory field missing.")),
        Some(Value::String(id)) if id.parse::<Uuid>().is_ok() => Ok(given.clone().into()),
        Some(other) => Err(wrong("subnet_id", other, "Value should be UUID format")),
    }
}

/// Returns Python's name for a JSON value's type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Returns a value as Python's `str` shows it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => shown(other),
    }
}

/// Returns a value as Python's `repr` shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{text}'"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("'{key}': {}", shown(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}
