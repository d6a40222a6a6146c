//! A service: its tables, and the functions that no table can express.
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};

use super::kind::{Kind, Tables};
use super::lists::{ListQuery, Page};
use super::session::{Hooks, Session};
use super::wire::{Answer, Call, Handled, Refusal, Result};

pub(crate) struct Api {
    /// The service's file in `assets/sandbox`.
    pub(crate) tables: LazyLock<Tables>,
    /// The hooks of the kinds that have some.
    pub(crate) hooks: &'static [(&'static str, Hooks)],
    /// Handles calls that no kind's table describes, or that differ from the common ones; returns no answer to other
    /// calls. The path is the part below the service's root.
    pub(crate) own: fn(&mut Session<'_>, &Call<'_>, &[&str]) -> Handled,
    /// Reads the parameters of a list.
    pub(crate) list_query: fn(&Session<'_>, &'static Kind, &Call<'_>) -> Result<ListQuery>,
    /// Returns the body of a list.
    pub(crate) page: fn(&'static Kind, &Call<'_>, Page) -> Value,
    /// Puts a refusal into the service's own shape.
    pub(crate) refuse: fn(Refusal, &Call<'_>) -> Answer,
}

/// The collection or resource that a path leads to.
pub(crate) struct PathMatch<'p> {
    pub(crate) kind: &'static Kind,
    /// The parent's id in the path.
    pub(crate) parent: Option<&'p str>,
    /// The segments after the collection.
    pub(crate) rest: &'p [&'p str],
}

impl Api {
    /// Returns the service's type in the catalog, which follows the region in the paths of its calls.
    pub(crate) fn kind(&self) -> &'static str {
        self.tables.service.kind
    }

    /// Answers a call for the service's versions, which needs no token.
    pub(crate) fn versions(&self, call: &Call<'_>) -> Option<Answer> {
        let service = self.tables.service;
        let status = match (call.method.as_str(), call.segments().as_slice()) {
            ("GET", []) => StatusCode::from_u16(service.versions_status).ok()?,
            ("GET", ["versions"]) => StatusCode::OK,
            ("GET", [one]) if service.catalog.strip_prefix('/') == Some(*one) => StatusCode::OK,
            _ => return None,
        };
        let root = call.url.trim_end_matches('/').trim_end_matches("/versions");
        let root = root.trim_end_matches(service.catalog);
        let links = json!([{"rel": "self", "href": format!("{root}{}", service.endpoint)}]);
        let version = |version: &&str| {
            let mut words = version.split(' ');
            let mut next = || words.next();
            let mut shown = json!({"id": next(), "status": next(), "links": links});
            if let (Some(first), Some(last)) = (next(), next()) {
                shown["min_version"] = first.into();
                shown["version"] = last.into();
            }
            shown
        };
        let versions: Value = service.versions.iter().map(version).collect();
        Some(Answer::json(status, json!({"versions": versions})))
    }

    /// Returns the part of a path below a root of the service; `None` if the path has no such root.
    pub(crate) fn below<'p>(&self, path: &'p [&'p str]) -> Option<&'p [&'p str]> {
        self.tables.service.roots.iter().find_map(|root| {
            let words = root.split('/').filter(|word| !word.is_empty());
            let mut rest = path;
            for word in words {
                rest = rest.split_first().filter(|(first, _)| **first == word)?.1;
            }
            Some(rest)
        })
    }

    /// Returns the collection or resource of a path below the root; the longest path of a kind wins.
    pub(crate) fn match_path<'p>(&'static self, path: &'p [&'p str]) -> Option<PathMatch<'p>> {
        let kinds = self.tables.kinds.iter();
        let matches = kinds.filter_map(|kind| match_kind(kind, path));
        matches.min_by_key(|matched| matched.rest.len())
    }
}

fn match_kind<'p>(kind: &'static Kind, path: &'p [&'p str]) -> Option<PathMatch<'p>> {
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
    Some(PathMatch { kind, parent, rest })
}
