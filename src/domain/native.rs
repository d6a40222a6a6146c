//! Native resources, which a deployment keeps in its registry: how callers write them, and how a list shows them.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kinds::{Kind, OnDelete, base, lookup, referred};
use super::model::{KindName, ResourceKey, Site};
use super::text::{did_you_mean, escape};

/// A native resource as the registry keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Native {
    pub key: ResourceKey,
    /// Grows when the resource is created again under the same id (M1).
    pub incarnation: u32,
    /// `name`, `project_id`, `tags` and the fields of its kind, as the caller wrote them.
    pub fields: Map<String, Value>,
    /// Whether the resource is being deleted.
    pub deleting: bool,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A reference of a native resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeReference {
    pub field: String,
    pub to: ResourceKey,
    /// Whether the target must exist in this registry. This is false if a cloud or another deployment keeps the target,
    /// or if the reference may dangle.
    pub here: bool,
}

impl Native {
    /// Returns the row that a listing shows.
    pub fn row(&self) -> Value {
        let time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Micros, true).into();
        let mut row = self.fields.clone();
        row.insert("id".into(), self.key.id.clone().into());
        row.insert("incarnation".into(), self.incarnation.into());
        let status = match self.deleting {
            true => "DELETING",
            false => "ACTIVE",
        };
        row.insert("status".into(), status.into());
        row.insert("created_at".into(), time(self.created_at));
        row.insert("updated_at".into(), time(self.updated_at));
        Value::Object(row)
    }
}

/// Maximum length of an id, in characters.
const ID_MAX: usize = 128;

/// Reads the body of a request: the id, if the caller chose one, and the fields.
///
/// # Errors
/// The body is not an object, the id has a wrong character or length, or a field is unknown, missing or of the wrong
/// type. The message names the field, and for an unknown field the nearest valid one.
pub fn read(kind: &Kind, body: &Value) -> Result<(Option<String>, Map<String, Value>), String> {
    let mut fields = known_fields(kind, body)?;
    let id = match fields.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(valid_id(id)?),
        Some(_) => return Err("\"id\" must be a text".into()),
    };
    for (name, spec) in &declared(kind).fields {
        if spec.required && fields.get(name).is_none_or(Value::is_null) {
            return Err(format!("{} needs \"{name}\"", kind.name));
        }
    }
    fields.retain(|_, value| !value.is_null());
    Ok((id, fields))
}

/// Returns the fields after an update. The body replaces the fields that it names, and null removes a field.
///
/// # Errors
/// As for [`read`]; also, the id cannot be changed.
pub fn amend(
    kind: &Kind,
    before: &Map<String, Value>,
    body: &Value,
) -> Result<Map<String, Value>, String> {
    let changes = known_fields(kind, body)?;
    if changes.contains_key("id") {
        return Err("\"id\" cannot be changed".into());
    }
    let mut fields = before.clone();
    fields.extend(changes);
    read(kind, &Value::Object(fields)).map(|(_, fields)| fields)
}

/// Returns the kind to which a field refers; none if the field is not a reference.
pub fn refers_to<'k>(kind: &'k Kind, field: &str) -> Option<&'k KindName> {
    let mut references = kind.spec.references.iter();
    let refers = references.find(|it| it.field.as_deref().map(base) == Some(field));
    refers.map(|reference| &reference.to)
}

/// Returns the key of the resource that a reference's value names.
pub fn key_of(value: &str, kind: &KindName, home: &Site) -> ResourceKey {
    let (id, site) = referred(value);
    ResourceKey::new(site.as_ref().unwrap_or(home), kind, id)
}

/// Returns the references in the fields, each once. A value without a site names a resource at `home`.
pub fn references(kind: &Kind, fields: &Map<String, Value>, home: &Site) -> Vec<NativeReference> {
    let row = Value::Object(fields.clone());
    let mut found: Vec<NativeReference> = Vec::new();
    for reference in &kind.spec.references {
        let Some(path) = &reference.field else {
            continue;
        };
        for value in lookup(&row, path) {
            let to = key_of(&value, &reference.to, home);
            let reference = NativeReference {
                field: base(path).to_owned(),
                here: to.site == *home && reference.on_delete != OnDelete::Dangling,
                to,
            };
            if !found.contains(&reference) {
                found.push(reference);
            }
        }
    }
    found
}

/// Returns the fields without the reference to `to` in `field`.
pub fn without(
    mut fields: Map<String, Value>,
    field: &str,
    to: &ResourceKey,
    home: &Site,
) -> Map<String, Value> {
    let points = |value: &Value| {
        value.as_str().map(referred).is_some_and(|(id, site)| {
            id.eq_ignore_ascii_case(&to.id) && site.as_ref().unwrap_or(home) == &to.site
        })
    };
    match fields.get_mut(field) {
        Some(Value::Array(values)) => values.retain(|value| !points(value)),
        Some(value) if points(value) => {
            fields.remove(field);
        }
        _ => {}
    }
    fields
}

/// Returns the step variable that lists the references that a step must unset: field and target of each.
pub fn unset_vars(
    references: impl Iterator<Item = (String, ResourceKey)>,
) -> Option<(String, String)> {
    let references: Vec<(String, ResourceKey)> = references
        .map(|(field, to)| (base(&field).to_owned(), to))
        .collect();
    let text = serde_json::to_string(&references).ok()?;
    Some((UNSET.to_owned(), text))
}

/// Reads the references that a step must unset.
///
/// # Errors
/// The variable is missing or cannot be read, so it is not known what the step must unset.
pub fn unset_of(vars: &BTreeMap<String, String>) -> Result<Vec<(String, ResourceKey)>, String> {
    let text = vars
        .get(UNSET)
        .ok_or("the references that the step must unset are not recorded in the step")?;
    serde_json::from_str(text)
        .map_err(|error| format!("the step's references cannot be read: {error}"))
}

const UNSET: &str = "unset";

fn declared(kind: &Kind) -> super::kinds::NativeSpec {
    kind.spec.native.clone().unwrap_or_default()
}

fn known_fields(kind: &Kind, body: &Value) -> Result<Map<String, Value>, String> {
    let Value::Object(fields) = body else {
        return Err(format!("{} must be an object with fields", kind.name));
    };
    let declared = declared(kind).fields;
    let common = ["id", "name", "project_id", "tags"];
    for (name, value) in fields {
        if !common.contains(&name.as_str()) && !declared.contains_key(name) {
            let known = common
                .into_iter()
                .chain(declared.keys().map(String::as_str));
            return Err(format!(
                "{} has no field \"{}\"{}",
                kind.name,
                escape(name),
                did_you_mean(name, known)
            ));
        }
        let texts = |value: &Value| {
            let values = value.as_array();
            values.is_some_and(|values| values.iter().all(Value::is_string))
        };
        let refers = kind
            .spec
            .references
            .iter()
            .find(|reference| reference.field.as_deref().map(base) == Some(name));
        let several = refers.and_then(|it| it.field.as_ref());
        let several = name == "tags" || several.is_some_and(|field| field.ends_with("[]"));
        match value {
            Value::Null => {}
            value if several && !texts(value) => {
                return Err(format!("\"{name}\" must be a list of texts"));
            }
            value
                if !several
                    && !value.is_string()
                    && (refers.is_some() || name == "name" || name == "project_id") =>
            {
                return Err(format!("\"{name}\" must be a text"));
            }
            _ => {}
        }
    }
    Ok(fields.clone())
}

/// Checks an id. Ids occur in paths and in targets, and before an `@`.
fn valid_id(id: String) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    match !id.is_empty() && id.len() <= ID_MAX && id.chars().all(fits) {
        true => Ok(id),
        false => Err(format!(
            "\"id\" must be 1 to {ID_MAX} letters, digits, \".\", \"_\", \":\" or \"-\", not \"{}\"",
            escape(&id)
        )),
    }
}
