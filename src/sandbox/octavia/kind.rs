//! What Octavia's kinds have in common: their names and their attributes.
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

/// How a kind is called, and what it has.
pub(super) struct Form {
    /// Around one in a body.
    pub(super) singular: &'static str,
    /// Around a list in a body.
    pub(super) plural: &'static str,
    /// In messages.
    pub(super) title: &'static str,
    /// The names that the API's functions have for a body: POST's and PUT's. Messages show them.
    pub(super) arguments: (&'static str, &'static str),
    /// What the API reads first of a body: its message about `{}` shows it. POST's and PUT's.
    pub(super) first_read: (&'static str, &'static str),
    /// In the order in which the API checks them.
    pub(super) attributes: &'static [Attribute],
    /// Filters that no attribute is shown for; those that name what the kind is in.
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
/// Attribute is the parent: at creation only, and not within the parent's own creation.
pub(super) const R: u8 = 16;
/// Attribute may be given within the creation of a load balancer only.
pub(super) const G: u8 = 32;
/// Attribute is a collection that the database cannot compare: to filter by it is an error.
pub(super) const C: u8 = 64;

/// What a value must look like.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// With at most so many characters.
    Text(usize),
    Id,
    Ids,
    Flag,
    /// Least and most.
    Number(i64, i64),
    Decimal,
    /// The status of a redirection.
    Code,
    Choice(&'static [&'static str]),
    Address,
    Url,
    Texts,
    TextMap,
    Persistence,
    Vips,
    /// One of a kind within the creation of a load balancer.
    Child(Kind),
    /// A pool there, which may be a name alone.
    PoolOrName,
    /// Many of a kind there.
    Children(Kind),
    /// Worked out, never given.
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
