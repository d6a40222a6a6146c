//! The values of listed rows that planning keeps in memory: few of each row, since a plan may list hundreds of
//! thousands of rows.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::Protection;
use crate::domain::kinds::{Kind, Kinds, OneOf, text};
use crate::domain::model::{Resource, ResourceKey};
use crate::domain::query::Lookup;

/// A target, a copy, or a resource that a list showed, reduced to the values that rules read.
pub(super) struct ListedRow {
    pub(super) name: Arc<str>,
    /// Id of the project that owns the resource; empty where the cloud keeps none.
    pub(super) project_id: Arc<str>,
    pub(super) tags: Vec<Arc<str>>,
    pub(super) facts: Facts,
    /// The rule that protects the resource (P4), if there is one.
    pub(super) protected: Option<String>,
    /// Whether a list showed the resource, with all resources that are derived from its row.
    pub(super) is_listed: bool,
}

impl ListedRow {
    pub(super) fn new(resource: &Resource, protection: &Protection<'_>, texts: &mut Texts) -> Self {
        Self {
            name: texts.shared(&resource.name),
            project_id: texts.shared(&resource.project_id),
            tags: resource.tags.iter().map(|tag| texts.shared(tag)).collect(),
            facts: Facts::of(&resource.attributes, texts),
            protected: protection(resource),
            is_listed: false,
        }
    }
}

/// The texts of a row, each under its path (`fixed_ips[].subnet_id`); numbers and booleans as they
/// are written.
#[derive(Default)]
pub(super) struct Facts(Box<[(Arc<str>, Arc<str>)]>);

impl Facts {
    fn of(row: &Value, texts: &mut Texts) -> Self {
        let mut facts = Vec::new();
        flatten(row, "", texts, &mut facts);
        Self(facts.into())
    }

    /// Returns the non-empty texts under a path.
    pub(super) fn all<'f>(&'f self, path: &str) -> impl Iterator<Item = &'f str> {
        self.0
            .iter()
            .filter(move |(at, text)| **at == *path && !text.is_empty())
            .map(|(_, text)| &**text)
    }

    /// Returns the non-empty texts under a path, each with the path, for a caller that stores them.
    pub(super) fn kept<'f>(&'f self, path: &str) -> impl Iterator<Item = &'f (Arc<str>, Arc<str>)> {
        let facts = self.0.iter();
        facts.filter(move |(at, text)| **at == *path && !text.is_empty())
    }

    pub(super) fn one(&self, path: &str) -> Option<&str> {
        self.all(path).next()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.iter().any(|(at, _)| **at == *path)
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (&**path, &**text))
    }

    /// Copies the values under these paths from another row.
    pub(super) fn take(&mut self, paths: &[String], other: &Self) {
        let taken = other
            .0
            .iter()
            .filter(|(path, _)| paths.iter().any(|wanted| **wanted == **path));
        self.0 = self.0.iter().chain(taken).cloned().collect();
    }

    /// Whether the row meets a condition: each path has one of its values.
    pub(super) fn hold(&self, when: &BTreeMap<String, OneOf>) -> bool {
        when.iter().all(|(path, wanted)| {
            self.pairs()
                .any(|(at, text)| at == path && wanted.accepts(text))
        })
    }
}

fn flatten(value: &Value, path: &str, texts: &mut Texts, facts: &mut Vec<(Arc<str>, Arc<str>)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match path {
                    "" => flatten(value, key, texts, facts),
                    path => flatten(value, &format!("{path}.{key}"), texts, facts),
                }
            }
        }
        Value::Array(elements) => {
            let each = format!("{path}[]");
            for element in elements {
                flatten(element, &each, texts, facts);
            }
        }
        leaf => {
            if let Some(text) = text(leaf) {
                facts.push((texts.shared(path), texts.shared(&text)));
            }
        }
    }
}

/// Stores each text once, for all rows that share it.
#[derive(Default)]
pub(super) struct Texts(HashSet<Arc<str>>);

impl Texts {
    pub(super) fn shared(&mut self, text: &str) -> Arc<str> {
        match self.0.get(text) {
            Some(text) => text.clone(),
            None => {
                let text: Arc<str> = text.into();
                self.0.insert(text.clone());
                text
            }
        }
    }
}

/// The rows of a lookup, as they arrive.
pub struct Found<'p> {
    kinds: &'p Kinds,
    listed: Option<&'p Kind>,
    protection: &'p Protection<'p>,
    lookup: Lookup,
    texts: Texts,
    pub(super) resources: Vec<(ResourceKey, ListedRow)>,
    /// The index at which the current part of the rows began.
    part: usize,
}

impl<'p> Found<'p> {
    pub(super) fn new(kinds: &'p Kinds, protection: &'p Protection<'p>, lookup: &Lookup) -> Self {
        Self {
            kinds,
            listed: kinds.get(&lookup.kind),
            protection,
            lookup: lookup.clone(),
            texts: Texts::default(),
            resources: Vec::new(),
            part: 0,
        }
    }

    /// Begins a part of the rows: those that [`Self::begin_again`] discards.
    pub fn begin(&mut self) {
        self.part = self.resources.len();
    }

    /// Discards the rows of the current part, which is listed again.
    pub fn begin_again(&mut self) {
        self.resources.truncate(self.part);
    }

    /// Adds the resources that these rows show.
    pub fn add(&mut self, rows: &[Value]) {
        let Some(listed) = self.listed else {
            return;
        };
        for row in rows {
            for resource in self.kinds.resources_in(&self.lookup.site, listed, row) {
                let mut seen = ListedRow::new(&resource, self.protection, &mut self.texts);
                seen.is_listed = true;
                self.resources.push((resource.key, seen));
            }
        }
    }
}
