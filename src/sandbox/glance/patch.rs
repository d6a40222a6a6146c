//! `PATCH /v2/images/{id}`: Glance's own forms of JSON patch.
use http::header;
use serde_json::{Map, Value};

use super::image::Image;
use super::properties::{self, READ_ONLY, is_base, is_reserved, may_show};
use super::refusal::{bad, conflicting, denied, forbidden, unsupported_media};
use super::session::{Session, body};
use super::{refuse, schema};
use crate::sandbox::wire::{Answer, Call, Result};

const FORM_4: &str = "application/openstack-images-v2.0-json-patch";
const FORM_10: &str = "application/openstack-images-v2.1-json-patch";
const OPERATIONS: [&str; 3] = ["add", "remove", "replace"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Remove,
    Replace,
}

struct Change {
    operation: Operation,
    name: String,
    /// `null` for a removal.
    value: Value,
    /// Whether the change is in the older form, which cannot add a property that exists.
    older: bool,
}

/// Applies all of the changes, or none.
pub(super) fn patch(session: &mut Session<'_>, call: &Call<'_>, id: &str) -> Result<Answer> {
    let media = call.header("content-type").unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if media != FORM_4 && media != FORM_10 {
        let forms = format!("{FORM_4}, {FORM_10}");
        let detail = format!("Image PATCH expects Content-Type one of: {forms}");
        let refusal = unsupported_media(call, &detail);
        let accept_patch = header::HeaderName::from_static("accept-patch");
        return Ok(refuse(refusal, call).with(accept_patch, forms));
    }
    let Value::Array(body) = body(call)? else {
        return Err(bad(
            "Request body must be a JSON array of operation objects.",
        ));
    };
    let changes: Vec<Change> = body
        .iter()
        .map(|raw| {
            let raw = raw.as_object();
            Change::parse(
                raw.ok_or_else(|| bad("Operations must be JSON objects."))?,
                media == FORM_4,
            )
        })
        .collect::<Result<_>>()?;
    let mut image = session.named(id)?;
    for change in &changes {
        change.apply(session, &mut image)?;
    }
    if !image.visible(session.caller) {
        return Err(forbidden(format!(
            "Forbidding request, image {id} not visible"
        )));
    }
    if !changes.is_empty() {
        image.updated = session.now;
    }
    let shown = image.view();
    if !changes.is_empty() {
        session.save(image);
    }
    Ok(Answer::ok(shown))
}

impl Change {
    fn parse(raw: &Map<String, Value>, older: bool) -> Result<Self> {
        let (word, path) = if older {
            older_form(raw)?
        } else {
            newer_form(raw)?
        };
        let operation = match word {
            "add" => Operation::Add,
            "remove" => Operation::Remove,
            _ => Operation::Replace,
        };
        let name = name_of(&pointer(path)?, operation)?;
        let value = match (operation, raw.get("value")) {
            (Operation::Remove, _) => Value::Null,
            (_, Some(value)) => value.clone(),
            (_, None) => {
                return Err(bad(format!(
                    "Operation \"{word}\" requires a member named \"value\"."
                )));
            }
        };
        let change = Self {
            operation,
            name,
            value,
            older,
        };
        change.check()?;
        Ok(change)
    }

    /// Performs Glance's checks that need no image.
    fn check(&self) -> Result<()> {
        let name = self.name.as_str();
        if READ_ONLY.contains(&name) {
            return Err(forbidden(format!("Attribute '{name}' is read-only.")));
        }
        if is_reserved(name) {
            return Err(forbidden(format!("Attribute '{name}' is reserved.")));
        }
        if self.operation == Operation::Remove {
            return Ok(());
        }
        let mut partial = Map::new();
        partial.insert(name.to_owned(), self.value.clone());
        schema::check(&partial)
    }

    fn apply(&self, session: &Session<'_>, image: &mut Image) -> Result<()> {
        let name = self.name.as_str();
        if name == "locations" {
            return Err(self.invisible_locations());
        }
        let replaces = self.operation == Operation::Replace;
        if replaces && name == "owner" && !session.caller.admin {
            return Err(denied("Owner can't be updated by non admin."));
        }
        if name == "visibility" {
            may_show(session, image, &self.value)?;
        }
        session.allow("modify_image", image)?;
        let there = is_base(name) || image.properties.contains_key(name);
        match self.operation {
            Operation::Remove if is_base(name) => {
                return Err(denied(&format!("Property {name} may not be removed.")));
            }
            Operation::Remove | Operation::Replace if !there => {
                return Err(conflicting(&format!("Property {name} does not exist.")));
            }
            Operation::Add if there && self.older => {
                return Err(conflicting(&format!("Property {name} already present.")));
            }
            Operation::Remove => {
                image.properties.remove(name);
            }
            Operation::Add | Operation::Replace if is_base(name) => {
                properties::set(image, name, &self.value)?;
            }
            Operation::Add | Operation::Replace => {
                image.properties.insert(name.to_owned(), self.value.clone());
            }
        }
        Ok(())
    }

    /// Refuses a change of the locations: this cloud does not show where it stores an image.
    fn invisible_locations(&self) -> crate::sandbox::wire::Refusal {
        let verb = match self.operation {
            Operation::Replace if self.value.as_array().is_some_and(Vec::is_empty) => {
                return denied("Cannot set locations to empty list.");
            }
            Operation::Replace => "update",
            Operation::Add => "add",
            Operation::Remove => "remove",
        };
        forbidden(format!(
            "It's not allowed to {verb} locations if locations are invisible."
        ))
    }
}

/// Reads the operation and the path of `{"op": …, "path": …}`.
fn newer_form(raw: &Map<String, Value>) -> Result<(&str, &str)> {
    let known = OPERATIONS.join(", ");
    let Some(word) = raw.get("op").filter(|word| !word.is_null()) else {
        return Err(bad(format!(
            "Unable to find `op` in JSON Schema change. It must be one of the following: {known}."
        )));
    };
    let Some(word) = word.as_str().filter(|word| OPERATIONS.contains(word)) else {
        let shown = word
            .as_str()
            .map_or_else(|| word.to_string(), str::to_owned);
        return Err(bad(format!(
            "Invalid operation: `{shown}`. It must be one of the following: {known}."
        )));
    };
    let Some(path) = raw.get("path") else {
        return Err(bad("Unable to find 'path' in JSON Schema change"));
    };
    let path = path.as_str().ok_or_else(super::refusal::internal_error)?;
    Ok((word, path))
}

/// Reads the operation and the path of `{"add": path}`.
fn older_form(raw: &Map<String, Value>) -> Result<(&str, &str)> {
    let mut given = OPERATIONS
        .into_iter()
        .filter(|word| raw.contains_key(*word));
    let members = "member named \"add\", \"remove\", or \"replace\".";
    let Some(word) = given.next() else {
        return Err(bad(format!(
            "Operation objects must contain exactly one {members}"
        )));
    };
    if given.next().is_some() {
        return Err(bad(format!(
            "Operation objects must contain only one {members}"
        )));
    }
    let path = raw.get(word).and_then(Value::as_str);
    Ok((word, path.ok_or_else(super::refusal::internal_error)?))
}

/// Splits a JSON pointer into its parts.
fn pointer(path: &str) -> Result<Vec<String>> {
    let Some(below) = path.strip_prefix('/') else {
        return Err(bad(format!("Pointer `{path}` does not start with \"/\".")));
    };
    let parts: Vec<&str> = below.split('/').collect();
    let inner = parts.iter().take(parts.len() - 1).skip(1);
    if inner.into_iter().any(|part| part.trim().is_empty()) {
        return Err(bad(format!("Pointer `{path}` contains adjacent \"/\".")));
    }
    if path.len() > 1 && path.ends_with('/') {
        return Err(bad(format!("Pointer `{path}` end with \"/\".")));
    }
    let escapes_well = |part: &str| {
        part.split('~')
            .skip(1)
            .all(|after| after.starts_with(['0', '1']))
    };
    if !escapes_well(path) {
        return Err(bad(format!(
            "Pointer `{path}` contains \"~\" not part of a recognized escape sequence."
        )));
    }
    let plain = |part: &str| part.replace("~1", "/").replace("~0", "~").trim().to_owned();
    Ok(below
        .trim_start_matches('/')
        .split('/')
        .map(plain)
        .collect())
}

/// Returns the property that a pointer names. Only pointers to locations have a second part.
fn name_of(parts: &[String], operation: Operation) -> Result<String> {
    let name = parts.first().map(String::as_str).unwrap_or_default();
    let depth = match operation {
        Operation::Add | Operation::Remove if name == "locations" => 2,
        _ => 1,
    };
    if parts.len() != depth {
        return Err(bad(format!(
            "Invalid JSON pointer for this resource: '/{}'",
            parts.join("/")
        )));
    }
    Ok(name.to_owned())
}
