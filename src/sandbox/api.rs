//! The part of a service that no table can express.
use super::kind::{Kind, Tables};
use super::lists::{Page, Wanted};
use super::session::{Hooks, Session};
use super::wire::{Answer, Call, Handled, Refusal, Result};
use serde_json::Value;
use std::sync::LazyLock;

pub(super) struct Api {
    /// Its file in `assets/sandbox`.
    pub(super) tables: &'static LazyLock<Tables>,
    /// Returns the hooks of a kind that has some.
    pub(super) hooks: fn(&str) -> Option<Hooks>,
    /// Answers what needs no token.
    pub(super) open: fn(&Call<'_>) -> Option<Answer>,
    /// Handles what is no method of a kind, or differs from the common one. The path is that below the root;
    /// `None` if there is none.
    pub(super) own: fn(&mut Session<'_>, &Call<'_>, Option<&[&str]>) -> Handled,
    /// Reads the parameters of a list.
    pub(super) wanted: fn(&Session<'_>, &'static Kind, &Call<'_>) -> Result<Wanted>,
    /// Returns the body of a list.
    pub(super) page: fn(&'static Kind, &Call<'_>, Page) -> Value,
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
    /// Its type in the catalog, which is also its path below the region's.
    pub(super) fn kind(&self) -> &'static str {
        self.tables.service.kind
    }

    /// Returns the path below the root.
    pub(super) fn below<'p>(&self, path: &'p [&'p str]) -> Option<&'p [&'p str]> {
        self.tables.service.roots.iter().find_map(|root| {
            let words = root.split('/').filter(|word| !word.is_empty());
            let mut rest = path;
            for word in words {
                rest = rest.split_first().filter(|(first, _)| **first == word)?.1;
            }
            Some(rest)
        })
    }

    /// Returns the place that a path below the root leads to; the longest path of a kind wins.
    pub(super) fn place<'p>(&self, path: &'p [&'p str]) -> Option<Place<'p>> {
        let kinds = self.tables.kinds.iter();
        let places = kinds.filter_map(|kind| place_in(kind, path));
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
