//! The checks of a body that precede the rules of its kind.
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;
use uuid::Uuid;

use super::attribute::{
    ADMIN_SETS, Attribute, PARENT, POST, PROJECT, PUT, REQUIRED, Shape, WITHIN,
};
use super::kind::{Body, Kind};
use super::session::Session;
use super::wire::{Refusal, Result, refuse_if};

/// Returns the attributes of a body in the form in which they are stored.
///
/// Refuses an attribute that the kind does not have (unless the kind is open), one that POST or PUT does not take, a
/// wrong type, another project than the caller's, an attribute that only admins may set, and then one that POST needs
/// and that is missing.
pub(crate) fn check(
    session: &Session<'_>,
    kind: &'static Kind,
    body: &Body,
    is_new: bool,
) -> Result<Body> {
    Check {
        session,
        kind,
        is_new,
        is_within: false,
    }
    .body(body)
}

struct Check<'a> {
    session: &'a Session<'a>,
    kind: &'static Kind,
    /// Whether the body is that of a POST.
    is_new: bool,
    /// Whether the body is part of the creation of a parent.
    is_within: bool,
}

impl Check<'_> {
    /// Returns the refusal of an attribute's value.
    fn invalid(&self, name: &str, value: &Value, reason: &str) -> Refusal {
        self.kind
            .refusal("invalid", &[&name, &plain(value), &reason])
    }

    fn body(&self, body: &Body) -> Result<Body> {
        let kind = self.kind;
        let is_unknown = |name: &&str| kind.attribute(name).is_none() && !kind.is_open;
        let unknown: Vec<&str> = body.keys().map(String::as_str).filter(is_unknown).collect();
        if !unknown.is_empty() {
            return Err(kind.refusal("unknown", &[&unknown.join(", ")]));
        }
        let mut checked = Body::new();
        for (name, value) in body {
            let value = match kind.attribute(name) {
                Some(attribute) => self.attribute(attribute, value)?,
                None => self.value(name, &Shape::Text(usize::MAX), value)?,
            };
            checked.insert(name.clone(), value);
        }
        let is_missing = |attribute: &&Attribute| {
            attribute.is(REQUIRED)
                && self.takes(attribute)
                && checked.get(attribute.name).is_none_or(Value::is_null)
        };
        match kind.attributes.iter().find(is_missing) {
            Some(missing) if self.is_new => Err(kind.refusal("required", &[&missing.name])),
            _ => Ok(checked),
        }
    }

    fn takes(&self, attribute: &Attribute) -> bool {
        let keeps_id = self.session.options.keep_ids && attribute.name == "id";
        if !self.is_new {
            attribute.is(PUT)
        } else if self.is_within {
            (attribute.is(POST) && !attribute.is(PARENT) && !attribute.is(PROJECT))
                || attribute.is(WITHIN)
        } else {
            attribute.is(POST) || keeps_id
        }
    }

    fn attribute(&self, attribute: &Attribute, value: &Value) -> Result<Value> {
        let (kind, name, caller) = (self.kind, attribute.name, &self.session.caller);
        let (verb, refusal) = match self.is_new {
            true => ("create", "not_in_post"),
            false => ("update", "not_in_put"),
        };
        refuse_if(!self.takes(attribute), || kind.refusal(refusal, &[&name]))?;
        let checked = match value {
            Value::Null => Value::Null,
            value => self.value(name, &attribute.shape, value)?,
        };
        if attribute.is(PROJECT) && !caller.owns(value.as_str().unwrap_or_default()) {
            return Err(kind.refusal("other_project", &[&name, &plain(value)]));
        }
        let is_set = !value.is_null() && checked != Value::Bool(false);
        if attribute.is(ADMIN_SETS) && !caller.is_admin && is_set {
            return Err(kind.refusal("admin_only", &[&verb, &name]));
        }
        Ok(checked)
    }

    fn value(&self, name: &str, shape: &Shape, value: &Value) -> Result<Value> {
        let text = value.as_str();
        let wrong = |reason: &str| Err(self.invalid(name, value, reason));
        let not = |what: &str| wrong(&format!("'{}' is not a valid {what}.", plain(value)));
        let fits = match shape {
            Shape::Any | Shape::Shown | Shape::Row(..) | Shape::Rows(..) => true,
            Shape::Text(max) => match text {
                None => return not("string"),
                Some(text) if text.chars().count() > *max => {
                    return wrong(&format!("'{text}' exceeds maximum length of {max}."));
                }
                Some(_) => true,
            },
            Shape::Texts => {
                let items = value.as_array();
                items.is_some_and(|items| items.iter().all(Value::is_string))
            }
            Shape::Flag => {
                let flag = plain(value).to_ascii_lowercase().parse().map(Value::Bool);
                let wrong = |_| self.kind.refusal("not_a_flag", &[&name, &plain(value)]);
                return flag.map_err(wrong);
            }
            Shape::Number(least, most) => {
                let given = value.as_i64().or_else(|| text?.trim().parse().ok());
                let given = given.filter(|number| (least..=most).contains(&number));
                let value = plain(value);
                let reason = format!("'{value}' is not a number from {least} to {most}.");
                return given.map_or_else(|| wrong(&reason), |number| Ok(number.into()));
            }
            Shape::Choice(words) => text.is_some_and(|text| words.contains(&text)),
            Shape::Id => match text.map(str::parse::<Uuid>) {
                Some(Ok(id)) => return Ok(id.to_string().into()),
                _ => return not("UUID"),
            },
            Shape::Ref(kind) => {
                let id = self.value(name, &Shape::Id, value)?;
                self.session.named(kind, id.as_str().unwrap_or_default())?;
                return Ok(id);
            }
            Shape::Address => text.is_some_and(|text| text.parse::<IpAddr>().is_ok()),
            Shape::Prefixes => return self.prefixes(name, value),
            Shape::Map => value.is_object(),
            Shape::Child(kind) => return self.child(name, kind, value),
            Shape::ChildOrName(kind) => match value.as_object() {
                Some(only) if only.keys().all(|key| key == "name") => true,
                _ => return self.child(name, kind, value),
            },
            Shape::Children(kind) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let items = items.iter().map(|item| self.child(name, kind, item));
                return items.collect();
            }
        };
        match fits {
            true => Ok(value.clone()),
            false => not("value"),
        }
    }

    fn prefixes(&self, name: &str, value: &Value) -> Result<Value> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_net = |text: &str| text.parse::<IpNet>().is_ok();
        let mut wrong = items
            .iter()
            .filter(|item| !item.as_str().is_some_and(is_net));
        match wrong.next() {
            None => Ok(items.to_vec().into()),
            Some(item) => {
                let reason = format!("'{}' is not a valid IP subnet.", plain(item));
                Err(self.invalid(name, item, &reason))
            }
        }
    }

    fn child(&self, name: &str, kind: &str, value: &Value) -> Result<Value> {
        let Some(body) = value.as_object() else {
            return Err(self.invalid(name, value, "it is not an object."));
        };
        let inner = Check {
            kind: self.session.store.kind(kind),
            is_within: true,
            ..*self
        };
        inner.body(body).map(Value::Object)
    }
}

/// Returns a value as messages show it.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
