//! The common form of Octavia's kinds: their names and their attributes.
use super::attributes;
pub(super) use crate::sandbox::unset::Unset;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    LoadBalancer,
    Listener,
    Pool,
    Member,
    HealthMonitor,
    Policy,
    Rule,
}

/// The names and the attributes of a kind.
pub(super) struct Form {
    /// The key around one resource in a body.
    pub(super) singular: &'static str,
    /// The key around a list in a body.
    pub(super) plural: &'static str,
    /// The name in messages.
    pub(super) title: &'static str,
    /// The parameter names of the API's functions for POST and PUT, as messages show them.
    pub(super) arguments: (&'static str, &'static str),
    /// The attribute that the API reads first, for POST and PUT: its message about `{}` shows it.
    pub(super) first_read: (&'static str, &'static str),
    /// The attributes, in the order in which the API checks them.
    pub(super) attributes: &'static [Attribute],
    /// Filters by the parent, which no attribute shows.
    pub(super) parents: &'static [&'static str],
}

impl Kind {
    pub(super) fn form(self) -> &'static Form {
        match self {
            Self::LoadBalancer => &attributes::LOAD_BALANCER,
            Self::Listener => &attributes::LISTENER,
            Self::Pool => &attributes::POOL,
            Self::Member => &attributes::MEMBER,
            Self::HealthMonitor => &attributes::HEALTH_MONITOR,
            Self::Policy => &attributes::POLICY,
            Self::Rule => &attributes::RULE,
        }
    }
}

impl Form {
    pub(super) fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes.iter().find(|known| known.name == name)
    }
}

/// Attribute may be given at creation.
pub(super) const P: u8 = 1;
/// Attribute may be updated.
pub(super) const U: u8 = 2;
/// Attribute must be given at creation.
pub(super) const M: u8 = 4;
/// Attribute may be used to filter and to sort a list.
pub(super) const F: u8 = 8;
/// Attribute is the parent: given at creation only, and not within the parent's own creation.
pub(super) const R: u8 = 16;
/// Attribute may be given only within the creation of a load balancer.
pub(super) const G: u8 = 32;
/// Attribute is a collection that the database cannot compare: filtering by it is an error.
pub(super) const C: u8 = 64;

/// The form of a value.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A text with at most this many characters.
    Text(usize),
    Id,
    Ids,
    Flag,
    /// A number between a minimum and a maximum.
    Number(i64, i64),
    Decimal,
    /// The status code of a redirection.
    Code,
    Choice(&'static [&'static str]),
    Address,
    Url,
    Texts,
    TextMap,
    Persistence,
    Vips,
    /// One resource of a kind, within the creation of a load balancer.
    Child(Kind),
    /// A pool within such a creation; its name alone is enough.
    PoolOrName,
    /// Several resources of a kind within such a creation.
    Children(Kind),
    /// Computed; no body may set it.
    Computed,
}

pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    flags: u8,
    pub(super) unset: Unset,
}

impl Attribute {
    pub(super) const fn new(name: &'static str, shape: Shape, flags: u8, unset: Unset) -> Self {
        Self {
            name,
            shape,
            flags,
            unset,
        }
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
