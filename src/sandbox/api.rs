//! A service as data: its kinds, its paths, and how it says no.
use uuid::Uuid;

use super::kind::Kind;
use super::lists::{Page, Wanted};
use super::session::Session;
use super::wire::{Answer, Call, Handled, Refusal, Result};
use serde_json::Value;

/// A reason to refuse a call that all services have. Each service puts it into its own words.
#[derive(Clone, Copy)]
pub(super) enum Problem<'a> {
    NoPage,
    NoMethod,
    /// PUT or DELETE of a collection.
    NoId(&'static Kind),
    /// No resource in the body.
    NoBody(&'static Kind),
    /// The verb (`get`, `create`, `update`, `delete`, or an action) is not for this caller.
    Forbidden(&'a str, &'static Kind),
    /// There is a row with this id.
    Taken(&'static Kind, Uuid),
    NoBulk,
    /// The attributes are unknown.
    Unknown(&'static Kind, &'a str),
    /// Neither POST (or PUT, for `false`) takes the attribute.
    NotTaken(&'static Kind, &'a str, bool),
    /// The attribute is missing in the body.
    Required(&'a str),
    /// Attribute, value and reason.
    Invalid(&'a str, &'a Value, &'a str),
    /// Only an admin sets the attribute; `true` for POST.
    AdminOnly(&'static Kind, &'a str, bool),
    /// The attribute names another project.
    OtherProject(&'a str, &'a Value),
}

pub(super) struct Api {
    /// Its type in the catalog, which is also its path below the region's.
    pub(super) kind: &'static str,
    /// Its name in the catalog.
    pub(super) name: &'static str,
    /// The paths at which its API begins; the first is the usual one.
    pub(super) roots: &'static [&'static str],
    /// Parents come before their children.
    pub(super) kinds: fn() -> &'static [Kind],
    /// Format of times.
    pub(super) times: &'static str,
    /// Whether lists compare texts ignoring case.
    pub(super) folds: bool,
    /// Whether a row that the caller may not see is missing. Otherwise it is forbidden.
    pub(super) hides: bool,
    /// Answers what needs no token.
    pub(super) open: fn(&Call<'_>) -> Option<Answer>,
    /// Handles what is no method of a kind, or differs from the common one. The path is that below the root;
    /// `None` if there is none.
    pub(super) own: fn(&mut Session<'_>, &Call<'_>, Option<&[&str]>) -> Handled,
    /// Reads the parameters of a list.
    pub(super) wanted: fn(&Session<'_>, &'static Kind, &Call<'_>) -> Result<Wanted>,
    /// Returns the body of a list.
    pub(super) page: fn(&'static Kind, &Call<'_>, Page) -> Value,
    pub(super) problem: fn(Problem<'_>) -> Refusal,
    /// Puts a refusal into the service's own shape.
    pub(super) refuse: fn(Refusal, &Call<'_>) -> Answer,
}

/// The collection or resource that a path leads to.
pub(super) struct Place<'p> {
    pub(super) kind: &'static Kind,
    /// The parent's id in the path.
    pub(super) parent: Option<&'p str>,
    /// What follows the collection.
    pub(super) rest: &'p [&'p str],
}

impl Api {
    pub(super) fn root(&self) -> &'static str {
        self.roots.first().copied().unwrap_or_default()
    }

    /// Returns the path below the root.
    pub(super) fn below<'p>(&self, path: &'p [&'p str]) -> Option<&'p [&'p str]> {
        self.roots.iter().find_map(|root| {
            let words = root.split('/').filter(|word| !word.is_empty());
            let mut rest = path;
            for word in words {
                let (first, below) = rest.split_first()?;
                if *first != word {
                    return None;
                }
                rest = below;
            }
            Some(rest)
        })
    }

    /// Returns the place that a path below the root leads to; the longest path of a kind wins.
    pub(super) fn place<'p>(&self, path: &'p [&'p str]) -> Option<Place<'p>> {
        let places = (self.kinds)()
            .iter()
            .filter_map(|kind| place_in(kind, path));
        places.min_by_key(|place| place.rest.len())
    }
}

fn place_in<'p>(kind: &'static Kind, path: &'p [&'p str]) -> Option<Place<'p>> {
    let (mut rest, mut parent) = (path, None);
    for word in kind.path.split('/') {
        let (first, below) = rest.split_first()?;
        match word {
            "*" => parent = Some(*first),
            word if word != *first => return None,
            _ => {}
        }
        rest = below;
    }
    Some(Place { kind, parent, rest })
}
