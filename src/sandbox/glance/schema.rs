//! The schema of an image in a body, and the messages of its refusals.
use serde_json::{Map, Value};

use super::refusal::bad;
use crate::sandbox::wire::{Refusal, Result};

/// A property that bodies may set.
struct Property {
    name: &'static str,
    /// The allowed types, as the message names them.
    types: &'static str,
    fits: fn(&Value) -> bool,
    rule: Rule,
    /// The property's schema, as the message prints it.
    printed: &'static str,
}

/// A condition in addition to the type.
enum Rule {
    Any,
    Uuid,
    /// Maximum number of characters.
    Length(usize),
    Choice(&'static [&'static str]),
    /// Strings of at most this many characters.
    Strings(usize),
}

const UUID_PATTERN: &str =
    "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$";
const VISIBILITIES: &[&str] = &["community", "public", "private", "shared"];
const CONTAINER_FORMATS: &[&str] = &[
    "ami",
    "ari",
    "aki",
    "bare",
    "ovf",
    "ova",
    "docker",
    "compressed",
];
const DISK_FORMATS: &[&str] = &[
    "ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop",
];
const PRINTED_TAG: &str = "{'type': 'string', 'maxLength': 255}";

fn text_or_null(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

fn whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

const PROPERTIES: [Property; 11] = [
    Property {
        name: "id",
        types: "'string'",
        fits: Value::is_string,
        rule: Rule::Uuid,
        printed: "{'type': 'string',
     'description': 'An identifier for the image',
     'pattern': '^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$'}",
    },
    Property {
        name: "name",
        types: "'null', 'string'",
        fits: text_or_null,
        rule: Rule::Length(255),
        printed: "{'type': ['null', 'string'],
     'description': 'Descriptive name for the image',
     'maxLength': 255}",
    },
    Property {
        name: "visibility",
        types: "'string'",
        fits: Value::is_string,
        rule: Rule::Choice(VISIBILITIES),
        printed: "{'type': 'string',
     'description': 'Scope of image accessibility',
     'enum': ['community', 'public', 'private', 'shared']}",
    },
    Property {
        name: "protected",
        types: "'boolean'",
        fits: Value::is_boolean,
        rule: Rule::Any,
        printed: "{'type': 'boolean',
     'description': 'If true, image will not be deletable.'}",
    },
    Property {
        name: "os_hidden",
        types: "'boolean'",
        fits: Value::is_boolean,
        rule: Rule::Any,
        printed: "{'type': 'boolean',
     'description': 'If true, image will not appear in default image list '
                    'response.'}",
    },
    Property {
        name: "owner",
        types: "'null', 'string'",
        fits: text_or_null,
        rule: Rule::Length(255),
        printed: "{'type': ['null', 'string'],
     'description': 'Owner of the image',
     'maxLength': 255}",
    },
    Property {
        name: "container_format",
        types: "'null', 'string'",
        fits: text_or_null,
        rule: Rule::Choice(CONTAINER_FORMATS),
        printed: "{'type': ['null', 'string'],
     'description': 'Format of the container',
     'enum': [None,
              'ami',
              'ari',
              'aki',
              'bare',
              'ovf',
              'ova',
              'docker',
              'compressed']}",
    },
    Property {
        name: "disk_format",
        types: "'null', 'string'",
        fits: text_or_null,
        rule: Rule::Choice(DISK_FORMATS),
        printed: "{'type': ['null', 'string'],
     'description': 'Format of the disk',
     'enum': [None,
              'ami',
              'ari',
              'aki',
              'vhd',
              'vhdx',
              'vmdk',
              'raw',
              'qcow2',
              'vdi',
              'iso',
              'ploop']}",
    },
    Property {
        name: "tags",
        types: "'array'",
        fits: Value::is_array,
        rule: Rule::Strings(255),
        printed: "{'type': 'array',
     'description': 'List of strings related to the image',
     'items': {'type': 'string', 'maxLength': 255}}",
    },
    Property {
        name: "min_ram",
        types: "'integer'",
        fits: whole,
        rule: Rule::Any,
        printed: "{'type': 'integer',
     'description': 'Amount of ram (in MB) required to boot image.'}",
    },
    Property {
        name: "min_disk",
        types: "'integer'",
        fits: whole,
        rule: Rule::Any,
        printed: "{'type': 'integer',
     'description': 'Amount of disk space (in GB) required to boot image.'}",
    },
];

/// Properties that only Glance sets: refused later, with another message.
const OWN: [&str; 14] = [
    "status",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "size",
    "virtual_size",
    "created_at",
    "updated_at",
    "direct_url",
    "self",
    "file",
    "stores",
    "schema",
    "locations",
];

/// Refuses the first property that does not fit. Free properties must be strings.
pub(super) fn check(body: &Map<String, Value>) -> Result<()> {
    for property in &PROPERTIES {
        if let Some(value) = body.get(property.name) {
            property.check(value)?;
        }
    }
    let known =
        |name: &str| OWN.contains(&name) || PROPERTIES.iter().any(|known| known.name == name);
    let free = body.iter().filter(|(name, _)| !known(name));
    for (name, value) in free {
        if !value.is_string() {
            return Err(refusal(
                &format!("{} is not of type 'string'", python(value)),
                "'type' in schema['additionalProperties']",
                "{'type': 'string'}",
                &format!("['{name}']"),
                value,
            ));
        }
    }
    Ok(())
}

impl Property {
    fn check(&self, value: &Value) -> Result<()> {
        if !(self.fits)(value) {
            return Err(self.refuse(&format!("is not of type {}", self.types), "type", value));
        }
        match self.rule {
            Rule::Uuid if !is_uuid(value) => Err(self.refuse(
                &format!("does not match '{UUID_PATTERN}'"),
                "pattern",
                value,
            )),
            Rule::Length(max) if length(value) > max => {
                Err(self.refuse("is too long", "maxLength", value))
            }
            Rule::Choice(words) if !chosen(words, value) => {
                let mut shown: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
                if (self.fits)(&Value::Null) {
                    shown.insert(0, "None".to_owned());
                }
                let problem = format!("is not one of [{}]", shown.join(", "));
                Err(self.refuse(&problem, "enum", value))
            }
            Rule::Strings(max) => self.check_items(value, max),
            _ => Ok(()),
        }
    }

    fn check_items(&self, value: &Value, max: usize) -> Result<()> {
        let items = value.as_array().into_iter().flatten();
        for (index, item) in items.enumerate() {
            let (problem, rule) = if !item.is_string() {
                ("is not of type 'string'", "type")
            } else if length(item) > max {
                ("is too long", "maxLength")
            } else {
                continue;
            };
            return Err(refusal(
                &format!("{} {problem}", python(item)),
                &format!("'{rule}' in schema['properties']['{}']['items']", self.name),
                PRINTED_TAG,
                &format!("['{}'][{index}]", self.name),
                item,
            ));
        }
        Ok(())
    }

    fn refuse(&self, problem: &str, rule: &str, value: &Value) -> Refusal {
        refusal(
            &format!("{} {problem}", python(value)),
            &format!("'{rule}' in schema['properties']['{}']", self.name),
            self.printed,
            &format!("['{}']", self.name),
            value,
        )
    }
}

fn refusal(problem: &str, rule: &str, printed: &str, place: &str, value: &Value) -> Refusal {
    let shown = python(value);
    bad(format!(
        "Provided object does not match schema 'image': {problem}\n\nFailed validating {rule}:\n    \
         {printed}\n\nOn instance{place}:\n    {shown}"
    ))
}

fn is_uuid(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 36 && text.parse::<uuid::Uuid>().is_ok()
}

fn length(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

fn chosen(words: &[&str], value: &Value) -> bool {
    value.as_str().is_none_or(|word| words.contains(&word))
}

/// Returns a value as Python prints it.
fn python(value: &Value) -> String {
    let listed = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.contains('\'') && !text.contains('"') => format!("\"{text}\""),
        Value::String(text) => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
        }
        Value::Array(items) => format!("[{}]", listed(items.iter().map(python).collect())),
        Value::Object(map) => {
            let pairs = map
                .iter()
                .map(|(name, value)| format!("'{name}': {}", python(value)));
            format!("{{{}}}", listed(pairs.collect()))
        }
    }
}
