//! Kinds as data: the names and attributes of a collection, which rows go with which, and the hooks for rules
//! that no table can express.
//!
//! The tables are in `assets/sandbox`. Each kind has the fields of [`Kind`], and `attributes` with one line
//! each: the name, letters, a shape, and in JSON the value of an attribute that nobody set.
//!
//! | letter | attribute |
//! |---|---|
//! | `f`, `s` | filters a list; sorts a list |
//! | `p`, `u`, `m` | may be given at creation; may be updated; must be given at creation |
//! | `a`, `w` | is shown to admins only; is set by admins only |
//! | `h` | is never shown: only filters and rules read it |
//! | `i` | indexes the rows: by a text, by each of a list, or by the first id of each part of a list |
//! | `j` | names the project that owns the row |
//! | `r` | names the parent: not given within the parent's own creation |
//! | `g` | is given only within the creation of a parent |
//! | `b` | gets back what a call took out of it when what the call deleted is revived |
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::api::Api;
use super::row::Row;
use super::session::{Session, View};
use super::wire::{Call, Handled, Refusal, Result};

/// Attributes by name, as a body has them.
pub(super) type Body = Map<String, Value>;

pub(super) const FILTERS: char = 'f';
pub(super) const SORTS: char = 's';
pub(super) const POST: char = 'p';
pub(super) const PUT: char = 'u';
pub(super) const REQUIRED: char = 'm';
pub(super) const ADMIN_SEES: char = 'a';
pub(super) const ADMIN_SETS: char = 'w';
pub(super) const HIDDEN: char = 'h';
const INDEXED: char = 'i';
pub(super) const PROJECT: char = 'j';
pub(super) const PARENT: char = 'r';
pub(super) const WITHIN: char = 'g';
pub(super) const REVIVED: char = 'b';

/// The form of a value in a body.
pub(super) enum Shape {
    /// `-`: no body may set it.
    Shown,
    /// `any`: stored as it is given.
    Any,
    /// `text:N`: of at most this many characters; `text`: of any length.
    Text(usize),
    /// `texts`: a list.
    Texts,
    Flag,
    /// `number:MIN..MAX`; without MAX: any number from MIN on.
    Number(i64, i64),
    /// `one:A|B|C`.
    Choice(Vec<&'static str>),
    Id,
    /// `ref:KIND`: the id of an existing row.
    Ref(&'static str),
    Address,
    /// A list of IP networks.
    Prefixes,
    /// Texts by name.
    Map,
    /// `child:KIND`: a row that is created with its parent.
    Child(&'static str),
    /// `child-or-name:KIND`: the same, or only its name.
    ChildOrName(&'static str),
    /// `children:KIND`: several such rows.
    Children(&'static str),
}

pub(super) struct Attribute {
    pub(super) name: &'static str,
    letters: &'static str,
    pub(super) shape: Shape,
    /// The value that nobody set; `None`: it is not shown, unless a hook computes it.
    pub(super) unset: Option<Value>,
}

impl Attribute {
    pub(super) fn is(&self, letter: char) -> bool {
        self.letters.contains(letter)
    }
}

/// An attribute of another kind that names rows of this one.
#[derive(Clone, Copy)]
pub(super) struct Reference {
    pub(super) kind: &'static str,
    pub(super) attribute: &'static str,
}

/// Rows that hold the row that they name: it cannot be deleted.
pub(super) struct Holder {
    pub(super) by: Reference,
    pub(super) status: u16,
    /// The type and the message; `{id}` is the row, `{by}` the first holder, `{all}` all holders.
    pub(super) message: (&'static str, &'static str),
}

pub(super) struct Kind {
    pub(super) api: &'static Api,
    /// Unique in a region.
    pub(super) name: &'static str,
    /// The key around one resource in a body; usually the name.
    pub(super) singular: &'static str,
    /// The key around a list in a body.
    pub(super) plural: &'static str,
    /// The path below the service's root; `*` is the id of the parent. Usually `plural`.
    pub(super) path: &'static str,
    /// The kind without which a row cannot exist, and the attribute that names it.
    pub(super) parent: Option<Reference>,
    /// Whether a list below a parent that does not exist is empty. Otherwise the parent is missed.
    pub(super) parent_may_be_gone: bool,
    /// The attribute by which a path names a row; usually `id`.
    pub(super) key: &'static str,
    /// Type and message of a 404; `{id}` is the id in the path, `{parent}` that of the parent.
    missing: (&'static str, &'static str),
    /// Whether a body has the attributes themselves, without a key around them.
    pub(super) is_bare: bool,
    /// Whether attributes that the kind does not have are kept too.
    pub(super) is_open: bool,
    /// Whether POST takes a list.
    pub(super) has_bulk: bool,
    /// The revision number of a new row; `None` where the kind has none.
    pub(super) first_revision: Option<u64>,
    /// Whether a list whose marker is gone starts from the beginning.
    pub(super) forgets_marker: bool,
    /// Whether deleted rows stay in the database, where only some rules see them.
    pub(super) keeps_deleted: bool,
    pub(super) attributes: Vec<Attribute>,
    /// Rows that name a deleted row there are deleted with it, in this order.
    pub(super) takes: Vec<Reference>,
    pub(super) held_by: Vec<Holder>,
    pub(super) hooks: Hooks,
    /// The indexed attributes.
    pub(super) indexed: Vec<&'static str>,
}

/// The rules of a kind that differ from the common ones.
pub(super) struct Hooks {
    /// Completes and stores a new row, whose attributes are set from a checked body.
    pub(super) create: fn(&mut Session<'_>, Row, &Body) -> Result<Uuid>,
    /// Stores a changed row, whose attributes are set from a checked body.
    pub(super) update: fn(&mut Session<'_>, Row, &Body) -> Result<()>,
    /// Checks that a row can be deleted.
    pub(super) deletable: fn(&mut Session<'_>, &Row) -> Result<()>,
    /// Deletes a row. The common way is [`Session::remove`], at once.
    pub(super) delete: fn(&mut Session<'_>, &Row, &Call<'_>) -> Result<()>,
    /// Does what follows the removal of a row and the rows that it took along.
    pub(super) removed: fn(&mut Session<'_>, &Row),
    /// Ends the pending change of a row, which is not due any more.
    pub(super) settle: fn(&mut Session<'_>, &Row),
    /// Computes an attribute; `None` for its stored value.
    pub(super) show: fn(&View<'_>, &Row, &str) -> Option<Value>,
    pub(super) visible: fn(&View<'_>, &Row) -> bool,
    /// Whether a caller that sees a row and is no mere reader may change it.
    pub(super) writable: fn(&View<'_>, &Row) -> bool,
    /// Handles a call below a row: `path` is the rest. `None` if there is no such path.
    pub(super) act: fn(&mut Session<'_>, &Call<'_>, &Row, path: &[&str]) -> Handled,
}

impl Hooks {
    pub(super) const NONE: Self = Self {
        create: |session, row, _| Ok(session.put(row)),
        update: |session, row, _| {
            session.put(row);
            Ok(())
        },
        deletable: |session, row| session.not_held(row),
        delete: |session, row, _| {
            session.remove(row.kind.name, row.id);
            Ok(())
        },
        removed: |_, _| (),
        settle: |_, _| (),
        show: |_, _, _| None,
        visible: |view, row| view.caller.owns(&row.project) || row.flag("shared"),
        writable: |view, row| view.caller.owns(&row.project),
        act: |_, _, _, _| None,
    };
}

impl Kind {
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|known| known.name == name)
    }

    pub(super) fn missing(&self, id: impl fmt::Display) -> Refusal {
        let (error, message) = self.missing;
        Refusal::not_found(error, message.replace("{id}", &id.to_string()))
    }

    /// Returns the refusal of a row that a parent does not have.
    pub(super) fn missing_in(&self, parent: Uuid, id: &str) -> Refusal {
        let mut refusal = self.missing(id);
        refusal.message = refusal.message.replace("{parent}", &parent.to_string());
        refusal
    }

    /// Whether a row is created together with its contents.
    pub(super) fn has_contents(&self) -> bool {
        let mut attributes = self.attributes.iter();
        attributes.any(|it| it.is(POST) && matches!(it.shape, Shape::Children(_)))
    }

    /// Whether the kind has a filter. An open kind has any.
    pub(super) fn has_filter(&self, name: &str) -> bool {
        self.attribute(name)
            .map_or(self.is_open, |attribute| attribute.is(FILTERS))
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

#[derive(Deserialize)]
struct Tables {
    kind: Vec<Table>,
}

/// A kind as its table has it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    name: String,
    singular: Option<String>,
    plural: String,
    path: Option<String>,
    parent: Option<String>,
    parent_may_be_gone: bool,
    key: Option<String>,
    missing: String,
    is_bare: bool,
    is_open: bool,
    has_bulk: bool,
    first_revision: Option<u64>,
    forgets_marker: bool,
    keeps_deleted: bool,
    attributes: String,
    takes: Vec<String>,
    held_by: Vec<HolderTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HolderTable {
    reference: String,
    #[serde(default = "conflict")]
    status: u16,
    message: String,
}

fn conflict() -> u16 {
    409
}

/// Returns the kinds of a service's tables, which come with the program.
pub(super) fn tables(text: &str, api: &'static Api, hooks: fn(&str) -> Hooks) -> Vec<Kind> {
    let kinds = read(text, api, hooks);
    kinds.unwrap_or_else(|problem| unreachable!("a table cannot be read: {problem}"))
}

/// The error names what cannot be read.
fn read(text: &str, api: &'static Api, hooks: fn(&str) -> Hooks) -> Result<Vec<Kind>, String> {
    let tables: Tables = toml::from_str(text).map_err(|error| error.to_string())?;
    let tables = tables.kind.into_iter();
    tables.map(|table| table.read(api, hooks)).collect()
}

impl Table {
    fn read(self, api: &'static Api, hooks: fn(&str) -> Hooks) -> Result<Kind, String> {
        let name = leak(self.name);
        let plural = leak(self.plural);
        let lines = leak(self.attributes).lines();
        let lines = lines.filter(|line| !line.is_empty());
        let attributes = lines.map(|line| {
            attribute(line).ok_or_else(|| format!("{name}: unreadable attribute: {line}"))
        });
        let attributes: Vec<Attribute> = attributes.collect::<Result<_, _>>()?;
        let holder = |holder: HolderTable| {
            Ok::<_, String>(Holder {
                by: reference(holder.reference)?,
                status: holder.status,
                message: error(holder.message),
            })
        };
        let indexed = attributes.iter().filter(|it| it.is(INDEXED));
        Ok(Kind {
            api,
            name,
            singular: self.singular.map_or(name, leak),
            plural,
            path: self.path.map_or(plural, leak),
            parent: self.parent.map(reference).transpose()?,
            parent_may_be_gone: self.parent_may_be_gone,
            key: self.key.map_or("id", leak),
            missing: error(self.missing),
            is_bare: self.is_bare,
            is_open: self.is_open,
            has_bulk: self.has_bulk,
            first_revision: self.first_revision,
            forgets_marker: self.forgets_marker,
            keeps_deleted: self.keeps_deleted,
            indexed: indexed.map(|attribute| attribute.name).collect(),
            attributes,
            takes: self
                .takes
                .into_iter()
                .map(reference)
                .collect::<Result<_, _>>()?,
            held_by: self
                .held_by
                .into_iter()
                .map(holder)
                .collect::<Result<_, _>>()?,
            hooks: hooks(name),
        })
    }
}

/// The tables are read once, and needed for as long as the program runs.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Reads `KIND.ATTRIBUTE`.
fn reference(text: String) -> Result<Reference, String> {
    let (kind, attribute) = leak(text)
        .split_once('.')
        .ok_or("a reference without a dot")?;
    Ok(Reference { kind, attribute })
}

/// Reads `TYPE: MESSAGE`, or a message alone.
fn error(text: String) -> (&'static str, &'static str) {
    let text = leak(text);
    text.split_once(": ").unwrap_or(("", text))
}

/// Reads the line of an attribute.
fn attribute(line: &'static str) -> Option<Attribute> {
    let mut words = line.split_whitespace();
    let (name, letters) = (words.next()?, words.next()?);
    let shape = shape(words.next()?)?;
    let unset = words.next().map(serde_json::from_str).transpose();
    Some(Attribute {
        name,
        letters,
        shape,
        unset: unset.ok()?,
    })
}

fn shape(word: &'static str) -> Option<Shape> {
    let (word, rest) = word.split_once(':').unwrap_or((word, ""));
    Some(match word {
        "-" => Shape::Shown,
        "any" => Shape::Any,
        "text" if rest.is_empty() => Shape::Text(usize::MAX),
        "text" => Shape::Text(rest.parse().ok()?),
        "texts" => Shape::Texts,
        "flag" => Shape::Flag,
        "number" => {
            let (least, most) = rest.split_once("..")?;
            Shape::Number(least.parse().ok()?, most.parse().unwrap_or(i64::MAX))
        }
        "one" => Shape::Choice(rest.split('|').collect()),
        "id" => Shape::Id,
        "ref" => Shape::Ref(rest),
        "address" => Shape::Address,
        "prefixes" => Shape::Prefixes,
        "map" => Shape::Map,
        "child" => Shape::Child(rest),
        "child-or-name" => Shape::ChildOrName(rest),
        "children" => Shape::Children(rest),
        _ => return None,
    })
}
