//! The attributes of kinds.
//!
//! Each attribute has a line in its kind's table: its name, letters, a shape, and its value in JSON while nobody
//! has set it.
//!
//! | letter | attribute |
//! |---|---|
//! | `f`, `s` | filters a list; sorts a list |
//! | `p`, `u`, `m` | may be given at creation; may be updated; must be given at creation |
//! | `a`, `w` | is shown to admins only; is set by admins only |
//! | `h` | is never shown: only filters and rules read it |
//! | `i` | indexes the rows: by a text, by each text of a list, or by the first id of each object of a list |
//! | `j` | names the project that owns the row |
//! | `r` | names the parent: not given within the parent's own creation |
//! | `g` | is given only within the creation of a parent |
//! | `o` | is stored by the hooks of its kind alone, by rules of its own |
//! | `b` | gets back the values that a call removed from it, when the rows that the call deleted are revived |
use serde::Deserialize;
use serde_json::Value;

pub(crate) const FILTERS: char = 'f';
pub(crate) const SORTS: char = 's';
pub(crate) const POST: char = 'p';
pub(crate) const PUT: char = 'u';
pub(crate) const REQUIRED: char = 'm';
pub(crate) const ADMIN_SEES: char = 'a';
pub(crate) const ADMIN_SETS: char = 'w';
pub(crate) const HIDDEN: char = 'h';
pub(crate) const INDEXED: char = 'i';
pub(crate) const PROJECT: char = 'j';
pub(crate) const PARENT: char = 'r';
pub(crate) const WITHIN: char = 'g';
pub(crate) const OWN_RULES: char = 'o';
pub(crate) const REVIVED: char = 'b';

/// `KIND.ATTRIBUTE`: an attribute of another kind that names rows of this one. For a parent, and for [`Shape::Row`]: the
/// kind of the row that is named, and the attribute of this kind that names it.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "&'static str")]
pub(crate) struct Reference {
    pub(crate) kind: &'static str,
    pub(crate) attribute: &'static str,
}

impl TryFrom<&'static str> for Reference {
    type Error = &'static str;

    fn try_from(text: &'static str) -> Result<Self, Self::Error> {
        let parts = text.split_once('.');
        let (kind, attribute) = parts.ok_or("a reference is KIND.ATTRIBUTE")?;
        Ok(Self { kind, attribute })
    }
}

/// The form of a value in a body.
pub(crate) enum Shape {
    /// `-`: no body may set it.
    Shown,
    /// `row:KIND.ATTRIBUTE:NAME,NAME`: the attributes NAME of the row of KIND that ATTRIBUTE names, as an object; the bare
    /// value of a single NAME. No body may set it.
    Row(Reference, &'static str),
    /// `rows:KIND.ATTRIBUTE:NAME,NAME`: a list of the same, of all rows of KIND whose ATTRIBUTE names this row; without a
    /// NAME, of all attributes. No body may set it.
    Rows(Reference, &'static str),
    /// `any`: stored as it is given.
    Any,
    /// `text:N`: of at most this many characters; `text`: of any length.
    Text(usize),
    /// `texts`: a list of texts.
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
    /// `child-or-name:KIND`: a row that is created with its parent, or only the name of such a row.
    ChildOrName(&'static str),
    /// `children:KIND`: a list of rows that are created with their parent.
    Children(&'static str),
}

pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    letters: &'static str,
    pub(crate) shape: Shape,
    /// The value while nobody has set one. With `None` the attribute is then shown only if it is computed.
    pub(crate) unset: Option<Value>,
}

impl Attribute {
    /// Reads a line of a table.
    pub(crate) fn read(line: &'static str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (name, letters) = (words.next()?, words.next()?);
        let shape = shape(words.next()?)?;
        let unset = words.next().map(serde_json::from_str).transpose();
        Some(Self {
            name,
            letters,
            shape,
            unset: unset.ok()?,
        })
    }

    pub(crate) fn is(&self, letter: char) -> bool {
        self.letters.contains(letter)
    }
}

fn shape(word: &'static str) -> Option<Shape> {
    let (word, rest) = word.split_once(':').unwrap_or((word, ""));
    let (reference, names) = rest.split_once(':').unwrap_or((rest, ""));
    Some(match word {
        "-" => Shape::Shown,
        "row" => Shape::Row(reference.try_into().ok()?, names),
        "rows" => Shape::Rows(reference.try_into().ok()?, names),
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
