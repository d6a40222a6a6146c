//! Services and their kinds as data: the tables of `assets/sandbox`.
//!
//! A file has one `[service]` (the fields of [`Service`]), its `[refusals]`, and a `[[kind]]` for each kind
//! (the fields of [`Table`]); parents come before their children. A refusal is
//! `NAME = "STATUS [TYPE] MESSAGE"`: without a type, the name is the type; `{0}`, `{1}` … are values that the code
//! passes. The refusals of the core have names in small letters: in their messages, `{0}` is the kind.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::attribute::{Attribute, FILTERS, INDEXED, Reference};
use super::wire::Refusal;

/// Attributes by name, as a body has them.
pub(crate) type Body = Map<String, Value>;

/// Rows that block the deletion of the row that they name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct Blocker {
    pub(crate) reference: Reference,
    #[serde(default = "code::<409>")]
    pub(crate) status: u16,
    /// The refusal: `{id}` is the id of the row, `{by}` that of the first blocker, `{all}` those of all blockers.
    pub(crate) message: Message,
}

/// `TYPE: MESSAGE`, or a message alone.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(from = "&'static str")]
pub(crate) struct Message {
    kind: &'static str,
    text: &'static str,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Service {
    /// The service's type in the catalog, which follows the region in the paths of its calls.
    pub(crate) kind: &'static str,
    /// The service's name in the catalog.
    pub(crate) name: &'static str,
    /// The paths at which the service's API begins; the first is the usual one.
    pub(crate) roots: Vec<&'static str>,
    /// Format of times, in the syntax of `chrono`.
    pub(crate) times: &'static str,
    /// Whether lists compare texts ignoring case.
    pub(crate) ignores_case: bool,
    /// Whether the service reports a row that the caller may not see as missing; if false, it reports the row as
    /// forbidden. If true, a new row also has an update time.
    pub(crate) hides: bool,
    /// The path after the service's URL in the links of its versions.
    pub(crate) endpoint: &'static str,
    /// The path after the service's URL in the catalog.
    pub(crate) catalog: &'static str,
    /// The service's versions: the id and the status of each, and its first and last microversion if it has some.
    pub(crate) versions: Vec<&'static str>,
    /// The status of the answer with the service's versions.
    #[serde(default = "code::<200>")]
    pub(crate) versions_status: u16,
    /// The service's own words for verbs such as `create` and `update` in a refusal.
    verbs: BTreeMap<&'static str, &'static str>,
    /// The section `[refusals]`.
    #[serde(skip)]
    refusals: BTreeMap<&'static str, &'static str>,
}

/// The table of a kind.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Table {
    /// The kind's name, unique in a region.
    pub(crate) name: &'static str,
    /// The key around one resource in a body; usually the name.
    pub(crate) singular: &'static str,
    /// The key around a list in a body.
    pub(crate) plural: &'static str,
    /// The path below the service's root; `*` is the id of the parent.
    pub(crate) path: &'static str,
    /// The parent's kind, and the attribute that names the parent. A row cannot exist without its parent.
    pub(crate) parent: Option<Reference>,
    /// Whether a parent that does not exist counts as one without children. Otherwise, and for a POST, the call is
    /// refused.
    pub(crate) parent_may_be_gone: bool,
    /// Whether everybody who sees the parent sees a row.
    pub(crate) seen_with_parent: bool,
    /// The calls that raise the parent's revision number: any of `create` and `delete`.
    pub(crate) revises_parent: Vec<&'static str>,
    /// The calls that only admins may make for a row: any of `get`, `create`, `update` and `delete`.
    pub(crate) admin_only: Vec<&'static str>,
    /// The attribute by which a path names a row. If the path names no parent, this attribute must be indexed, except
    /// an `id` that is the row's own.
    #[serde(default = "id")]
    pub(crate) key: &'static str,
    /// The refusal (404) for a row that does not exist; `{id}` is the id in the path, `{parent}` that of the parent.
    missing: Message,
    /// The status of the answer to POST.
    #[serde(default = "code::<201>")]
    pub(crate) created: u16,
    /// The status of the answer to DELETE.
    #[serde(default = "code::<204>")]
    pub(crate) deleted: u16,
    /// The attributes that the answer to POST shows; all when missing.
    pub(crate) new: &'static str,
    /// The attributes that a list shows, if the list with all attributes is at `detail` below the list's path.
    pub(crate) brief: &'static str,
    /// Whether a body has the attributes themselves, without a key around them.
    pub(crate) is_bare: bool,
    /// Whether attributes are stored that the kind does not have.
    pub(crate) is_open: bool,
    /// Whether POST takes a list.
    pub(crate) has_bulk: bool,
    /// The revision number of a new row; `None` where the kind has none.
    pub(crate) first_revision: Option<u64>,
    /// Whether a list whose marker is gone starts from the beginning.
    pub(crate) forgets_marker: bool,
    /// Whether deleted rows stay in the database, where only some rules see them.
    pub(crate) keeps_deleted: bool,
    #[serde(deserialize_with = "attributes")]
    pub(crate) attributes: Vec<Attribute>,
    /// Rows that name a deleted row in one of these attributes are deleted with it, in this order.
    pub(crate) takes: Vec<Reference>,
    pub(crate) blocked_by: Vec<Blocker>,
}

fn id() -> &'static str {
    "id"
}

fn code<const CODE: u16>() -> u16 {
    CODE
}

/// A kind of a service. It has the fields of its table, by `Deref`.
pub(crate) struct Kind {
    pub(crate) service: &'static Service,
    table: Table,
    /// The indexed attributes.
    pub(crate) indexed: Vec<&'static str>,
}

impl Deref for Kind {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Service {
    /// Returns the refusal with a name; `parts` replace `{0}`, `{1}` ….
    pub(crate) fn refusal(&self, name: &str, parts: &[&dyn Display]) -> Refusal {
        let known = self.refusals.get_key_value(name);
        let (kind, text) =
            known.unwrap_or_else(|| unreachable!("{} has no refusal {name}", self.name));
        let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
        let typed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (kind, message) = typed.unwrap_or((kind, rest));
        let mut message = message.trim_start().to_owned();
        for (number, part) in parts.iter().enumerate() {
            message = message.replace(&format!("{{{number}}}"), &part.to_string());
        }
        Refusal::new(status.parse().unwrap_or_default(), kind, message)
    }
}

impl Kind {
    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|known| known.name == name)
    }

    /// Returns the service's refusal with a name, in which `{0}` is the kind.
    pub(crate) fn refusal(&self, name: &str, parts: &[&dyn Display]) -> Refusal {
        let kind: &[&dyn Display] = &[&self.singular];
        self.service.refusal(name, &[kind, parts].concat())
    }

    /// Returns the refusal of a call that the caller may not make; `verb` is for example `create`.
    pub(crate) fn forbidden(&self, verb: &str) -> Refusal {
        let verb = self.service.verbs.get(verb).copied().unwrap_or(verb);
        self.refusal("forbidden", &[&verb])
    }

    pub(crate) fn missing(&self, id: impl Display) -> Refusal {
        let Message { kind, text } = self.missing;
        Refusal::new(404, kind, text.replace("{id}", &id.to_string()))
    }

    /// Returns the refusal of a PUT or DELETE without an id: some services then look for the id `None`.
    pub(crate) fn no_id(&self) -> Refusal {
        match self.service.refusals.contains_key("no_id") {
            true => self.refusal("no_id", &[]),
            false => self.missing("None"),
        }
    }

    /// Returns the refusal of a row that a parent does not have.
    pub(crate) fn missing_in(&self, parent: Uuid, id: &str) -> Refusal {
        let mut refusal = self.missing(id);
        refusal.message = refusal.message.replace("{parent}", &parent.to_string());
        refusal
    }

    /// Whether the kind has a filter. An open kind has any.
    pub(crate) fn has_filter(&self, name: &str) -> bool {
        self.attribute(name)
            .map_or(self.is_open, |attribute| attribute.is(FILTERS))
    }
}

impl Blocker {
    /// Returns the refusal to delete a row whose deletion other rows block.
    pub(crate) fn refusal(&self, id: Uuid, by: &[Uuid]) -> Refusal {
        let all: Vec<String> = by.iter().map(Uuid::to_string).collect();
        let first = all.first().map_or("", String::as_str);
        let message = self.message.text.replace("{id}", &id.to_string());
        let message = message.replace("{by}", first);
        let message = message.replace("{all}", &all.join(", "));
        Refusal::new(self.status, self.message.kind, message)
    }
}

/// A service and its kinds.
pub(crate) struct Tables {
    pub(crate) service: &'static Service,
    pub(crate) kinds: Vec<Kind>,
}

impl Tables {
    /// Reads a service's file, which comes with the program.
    pub(crate) fn read(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|problem| unreachable!("a table is wrong: {problem}"))
    }

    /// Parses the tables of a service from TOML. The error says what is wrong, and where.
    fn parse(text: &str) -> Result<Self, String> {
        // The tables are read once and needed until the program ends, so they are leaked.
        let file: Value = toml::from_str(text).map_err(|error| error.to_string())?;
        let file: &'static Value = Box::leak(Box::new(file));
        let read = Service::deserialize(&file["service"]);
        let mut service = read.map_err(|error| format!("service: {error}"))?;
        let read = BTreeMap::deserialize(&file["refusals"]);
        service.refusals = read.map_err(|error| format!("refusals: {error}"))?;
        let service: &'static Service = Box::leak(Box::new(service));
        let kind = |value: &'static Value| {
            let table = Table::deserialize(value);
            let mut table = table.map_err(|error| format!("{}: {error}", value["name"]))?;
            if [table.name, table.plural, table.path, table.missing.text].contains(&"") {
                return Err(format!("{value}: has no name, plural, path or missing"));
            }
            if table.singular.is_empty() {
                table.singular = table.name;
            }
            let indexed = table.attributes.iter().filter(|it| it.is(INDEXED));
            Ok::<_, String>(Kind {
                service,
                indexed: indexed.map(|attribute| attribute.name).collect(),
                table,
            })
        };
        let kinds = file["kind"].as_array().into_iter().flatten();
        let kinds = kinds.map(kind).collect::<Result<_, _>>()?;
        Ok(Self { service, kinds })
    }
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Self {
        let typed = text.split_once(": ");
        let (kind, text) = typed
            .filter(|(kind, _)| !kind.contains(' '))
            .unwrap_or(("", text));
        Self { kind, text }
    }
}

fn attributes<'de: 'static, D: Deserializer<'de>>(from: D) -> Result<Vec<Attribute>, D::Error> {
    let lines = <&'static str>::deserialize(from)?.lines();
    let lines = lines.filter(|line| !line.is_empty());
    let wrong = |line| D::Error::custom(format!("this line is not an attribute: {line}"));
    lines
        .map(|line| Attribute::read(line).ok_or_else(|| wrong(line)))
        .collect()
}
