//! Reads and validates kinds files; an error names file, line and the nearest valid word.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::coverage::{Coverage, NotCovered, NothingToCover};
use super::native;
use super::{
    ActionWord, AnswerRule, CallTemplate, Created, FilterValues, Kind, KindName, KindSpec, Kinds,
    ListSpec, OnDelete, Reference, Runbook, value,
};
use crate::domain::nesting::{TOO_DEEP, first_too_deep, line_of};
use crate::domain::text::did_you_mean;

/// One kinds file: where it is from, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    pub file: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct KindsError {
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    service: String,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    also_at: Vec<String>,
    #[serde(default)]
    values: FilterValues,
    #[serde(default)]
    listed: Vec<String>,
    uploads: Option<String>,
    #[serde(default = "all_methods")]
    methods: Vec<String>,
    #[serde(default)]
    needs_project: bool,
    #[serde(default)]
    shown_to: String,
    #[serde(default)]
    imports: Vec<String>,
    #[serde(default)]
    deleting: BTreeMap<String, String>,
    #[serde(default, rename = "answer")]
    answers: Vec<AnswerRule>,
    #[serde(default)]
    not_covered: NotCovered,
    #[serde(default)]
    nothing_to_cover: NothingToCover,
    kind: BTreeMap<KindName, Spanned<KindSpec>>,
}

/// The methods of a service whose file lists none.
fn all_methods() -> Vec<String> {
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
        .map(str::to_owned)
        .into()
}

const EMBEDDED: &[(&str, &str)] = &[
    (
        "kinds/openstack/identity.toml",
        include_str!("../../../assets/kinds/openstack/identity.toml"),
    ),
    (
        "kinds/openstack/image.toml",
        include_str!("../../../assets/kinds/openstack/image.toml"),
    ),
    (
        "kinds/openstack/load-balancer.toml",
        include_str!("../../../assets/kinds/openstack/load-balancer.toml"),
    ),
    (
        "kinds/openstack/network.toml",
        include_str!("../../../assets/kinds/openstack/network.toml"),
    ),
    (
        "kinds/openstack/network-more.toml",
        include_str!("../../../assets/kinds/openstack/network-more.toml"),
    ),
];

impl Kinds {
    /// Loads the built-in kinds and the user's. A later file replaces a kind of the same name only if it says
    /// `override = true`.
    pub fn load(more: &[Source]) -> Result<Self, KindsError> {
        let embedded = EMBEDDED.iter().map(|(file, text)| Source {
            file: (*file).to_owned(),
            text: (*text).to_owned(),
        });
        Self::from_sources(embedded.chain(more.iter().cloned()))
    }

    pub fn from_sources(sources: impl IntoIterator<Item = Source>) -> Result<Self, KindsError> {
        let mut kinds = BTreeMap::new();
        let mut coverage = Coverage::default();
        // The origin of each kind, for errors that only show when all are known.
        let mut origins = BTreeMap::new();
        for source in sources {
            if let Some(at) = first_too_deep(&source.text) {
                return Err(KindsError {
                    line: line_of(&source.text, at.start),
                    file: source.file,
                    message: TOO_DEEP.to_owned(),
                });
            }
            let file: File =
                toml::from_str(&source.text).map_err(|error| parse_error(&source, &error))?;
            coverage.add(&file.service, file.not_covered, file.nothing_to_cover);
            for (name, spec) in file.kind {
                let line = line_of(&source.text, spec.span().start);
                let mut spec = spec.into_inner();
                if spec.deleting.is_empty() {
                    spec.deleting.clone_from(&file.deleting);
                }
                let mut answers = spec.answers.clone();
                answers.extend(file.answers.iter().cloned());
                let kind = Kind {
                    name: name.clone(),
                    service: file.service.clone(),
                    answers,
                    prefix: file.prefix.clone(),
                    also_at: file.also_at.clone(),
                    uploads: file.uploads.clone(),
                    methods: file.methods.clone(),
                    values: file.values,
                    listed: file.listed.clone(),
                    needs_project: file.needs_project,
                    shown_to: file.shown_to.clone(),
                    imports: file.imports.clone(),
                    spec,
                };
                if let Err(message) = validate_override(&kind, &origins) {
                    return Err(KindsError {
                        file: source.file,
                        line,
                        message: format!("kind \"{name}\": {message}"),
                    });
                }
                origins.insert(name.clone(), (source.file.clone(), line));
                kinds.insert(name, kind);
            }
        }
        let mut kinds = Self {
            kinds,
            home: None,
            coverage,
        };
        for kind in kinds.kinds.values_mut() {
            if let Err(message) = native::complete(kind) {
                let (file, line) = origins.get(&kind.name).cloned().unwrap_or_default();
                return Err(KindsError {
                    file,
                    line,
                    message: format!("kind \"{}\": {message}", kind.name),
                });
            }
        }
        for kind in kinds.iter() {
            if let Err(message) = kinds.validate(kind) {
                let (file, line) = origins.get(&kind.name).cloned().unwrap_or_default();
                return Err(KindsError {
                    file,
                    line,
                    message: format!("kind \"{}\": {message}", kind.name),
                });
            }
        }
        Ok(kinds)
    }

    fn validate(&self, kind: &Kind) -> Result<(), String> {
        let spec = &kind.spec;
        self.validate_source(spec)?;
        for to in spec.names.values().flatten() {
            self.known("names", to)?;
        }
        self.validate_takes_effect(kind)?;
        for reference in &spec.references {
            self.validate_reference(spec, reference)?;
            if let Some(edge) = &reference.unpinned_by {
                self.validate_unpinned_by(kind, edge)?;
            }
        }
        if let Some(within) = spec.list.as_ref().and_then(|it| it.within.as_ref()) {
            validate_within(spec, within)?;
        }
        for takes in &spec.takes {
            self.known("takes.kind", &takes.kind)?;
        }
        for rule in &kind.answers {
            if let Some(ids) = &rule.ids {
                self.known("answer.ids", ids)?;
            }
        }
        for guard in &spec.guards {
            if let Some(kind) = &guard.left_in {
                self.known("guard.left_in", kind)?;
            }
        }
        match (&spec.delete, &spec.stays, spec.goes_with) {
            (Some(delete), None, None) | (Some(delete), Some(_), Some(_)) => {
                self.validate_call(kind, "delete", delete)?;
            }
            (None, Some(_), None) => {}
            (_, _, Some(_)) => {
                return Err("\"goes_with\" is for a kind that has \"delete\" and \"stays\"".into());
            }
            _ => return Err("needs either \"delete\" or \"stays\"".into()),
        }
        if spec.delete.is_some() && spec.not_found.is_empty() && spec.not_found_says.is_empty() {
            return Err(
                "needs \"not_found\" or \"not_found_says\": absence is never assumed".into(),
            );
        }
        if let Some(one) = &spec.delete_one {
            self.validate_call(kind, "delete_one", one)?;
            if spec.delete.is_none() || spec.derived.as_ref().is_none_or(|it| it.each.is_none()) {
                return Err(
                    "\"delete_one\" requires \"delete\", and \"each\" of \"derived\"".into(),
                );
            }
        }
        for template in &spec.not_found_says {
            validate_variables(kind, "not_found_says", value::variables(template))?;
        }
        if let Some(enable) = &spec.enable {
            self.validate_call(kind, "enable.call", &enable.call)?;
        }
        for created in &spec.created {
            validate_created(spec, created)?;
        }
        match &spec.runbook {
            Some(runbook) => validate_runbook(runbook),
            None => Ok(()),
        }
    }

    /// Checks where the kind's resources are listed.
    fn validate_source(&self, spec: &KindSpec) -> Result<(), String> {
        match (&spec.list, &spec.derived) {
            (Some(_), Some(_)) => {
                Err("has both \"list\" and \"derived\"; a kind has one of them".into())
            }
            (None, None) => Err(
                "has none of \"list\", \"derived\" and \"native\"; a kind has one of them".into(),
            ),
            (Some(list), None) => {
                if let Some(field) = &list.scope {
                    validate_listed("list.scope", field, list)?;
                }
                validate_settles(spec, list)?;
                match &list.within {
                    Some(within) if list.id.first() != Some(within) => Err(format!(
                        "list.within: \"{within}\" must be the first of list.id"
                    )),
                    Some(_) | None => Ok(()),
                }
            }
            (None, Some(derived)) => {
                let parent = self.known("derived.from", &derived.from)?;
                let Some(list) = &parent.spec.list else {
                    return Err(format!(
                        "derived.from: \"{}\" is itself derived; name a listed kind",
                        derived.from
                    ));
                };
                validate_settles(spec, list)?;
                if !derived.set.values().any(|path| path == "id") {
                    return Err(
                        "derived.set: one variable must have the path \"id\", the parent's".into(),
                    );
                }
                if let Some(join) = &derived.join {
                    self.known("derived.join.kind", &join.kind)?;
                }
                Ok(())
            }
        }
    }

    fn validate_reference(&self, spec: &KindSpec, reference: &Reference) -> Result<(), String> {
        let Reference { to, matches, .. } = reference;
        let target = self.known("reference.to", to)?;
        if target.is_native() && spec.native.is_none() {
            return Err(format!(
                "reference to \"{to}\": that kind is native, so a cloud's kind cannot refer to it"
            ));
        }
        if reference.field.is_none() == matches.is_empty() {
            return Err(format!(
                "reference to \"{to}\" needs either \"field\" or \"match\""
            ));
        }
        if !matches.is_empty() && matches.iter().all(|rule| rule.equals.is_none()) {
            return Err(format!(
                "reference to \"{to}\": \"match\" needs at least one rule with \"equals\": \
                 resources are found by equal values, and \"in_cidr\" only narrows what is found"
            ));
        }
        for rule in matches {
            if rule.equals.is_some() == rule.in_cidr.is_some() {
                return Err(format!(
                    "match of \"{}\" needs either \"equals\" or \"in_cidr\"",
                    rule.field
                ));
            }
        }
        if reference.partial && reference.on_delete != OnDelete::Unset {
            return Err(format!(
                "reference to \"{to}\": \"partial\" requires on_delete = \"unset\""
            ));
        }
        if reference.of_service && reference.on_delete != OnDelete::Automatic {
            return Err(format!(
                "reference to \"{to}\": \"of_service\" requires on_delete = \"automatic\""
            ));
        }
        if reference.released_by.is_some() && reference.on_delete != OnDelete::Unset {
            return Err(format!(
                "reference to \"{to}\": \"released_by\" requires on_delete = \"unset\""
            ));
        }
        // Without a filter, the lists that other references request show it.
        let within = spec.list.as_ref().and_then(|list| list.within.as_ref());
        let key = reference.find.as_ref().map(|find| &find.key);
        match (within, key) {
            (Some(within), Some(key)) if key != within => Err(format!(
                "reference to \"{to}\": \"find.key\" must be \"{within}\", without which it is not listed"
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn validate_unpinned_by(&self, kind: &Kind, edge: &KindName) -> Result<(), String> {
        let spec = &self.known("reference.unpinned_by", edge)?.spec;
        let of_this = spec.derived.as_ref().is_some_and(|it| it.from == kind.name);
        match of_this && spec.action == ActionWord::Detach {
            true => Ok(()),
            false => Err(format!(
                "reference.unpinned_by: \"{edge}\" is not an edge that is detached from a {}",
                kind.name
            )),
        }
    }

    fn known(&self, field: &str, name: &KindName) -> Result<&Kind, String> {
        self.get(name).ok_or_else(|| {
            let names = self.iter().map(|kind| kind.name.as_str());
            format!(
                "{field}: unknown kind \"{name}\"{}",
                did_you_mean(name.as_str(), names)
            )
        })
    }

    fn validate_call(&self, kind: &Kind, field: &str, call: &CallTemplate) -> Result<(), String> {
        validate_method(field, &call.method)?;
        validate_variables(kind, field, call.variables().iter().map(String::as_str))
    }
}

/// Checks that a kind has `override = true` exactly when an earlier file defines it.
fn validate_override(
    kind: &Kind,
    origins: &BTreeMap<KindName, (String, usize)>,
) -> Result<(), String> {
    match (origins.get(&kind.name), kind.spec.overrides) {
        (Some((file, line)), false) => Err(format!(
            "is already defined in {file}:{line}; write \"override = true\" to replace that \
             definition with this one, or choose another name"
        )),
        (None, true) => Err(format!(
            "override: no earlier file defines this kind{}",
            did_you_mean(kind.name.as_str(), origins.keys().map(KindName::as_str))
        )),
        (Some(_), true) | (None, false) => Ok(()),
    }
}

fn validate_method(field: &str, method: &String) -> Result<(), String> {
    const METHODS: [&str; 4] = ["DELETE", "PUT", "POST", "PATCH"];
    if METHODS.contains(&method.as_str()) {
        return Ok(());
    }
    Err(format!(
        "{field}.method: \"{method}\" is not one of {}{}",
        METHODS.join(", "),
        did_you_mean(method, METHODS)
    ))
}

/// Checks that it names every part of the kind's id.
fn validate_created(spec: &KindSpec, created: &Created) -> Result<(), String> {
    validate_method("created", &created.method)?;
    let listed = spec.list.as_ref().map(|list| list.id.len());
    let derived = spec.derived.as_ref().map(|derived| derived.id.len());
    let parts = listed.or(derived).unwrap_or_default();
    if created.id.len() != parts {
        return Err(format!("created.id: its ids have {parts} parts"));
    }
    let known: Vec<&str> = value::variables(&created.path).collect();
    let mut named = created.id.iter().flat_map(|part| value::variables(part));
    match named.find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "created.id: no variable \"{{{name}}}\" in its path{}",
            did_you_mean(name, known)
        )),
    }
}

/// Checks that its field is listed, by the kind itself or by the one that it is derived from.
fn validate_settles(spec: &KindSpec, list: &ListSpec) -> Result<(), String> {
    match &spec.settles {
        Some(settles) => validate_listed("settles.field", &settles.field, list),
        None => Ok(()),
    }
}

/// Checks that a reference requests the lists below parents.
fn validate_within(spec: &KindSpec, within: &String) -> Result<(), String> {
    let mut found_by = spec.references.iter().flat_map(|it| &it.find);
    match found_by.any(|find| find.key == *within) {
        true => Ok(()),
        false => Err(format!(
            "list.within: no reference has \"find.key\" = \"{within}\", without which it is not listed"
        )),
    }
}

fn validate_listed(word: &str, field: &String, list: &ListSpec) -> Result<(), String> {
    if list.fields.is_empty() || list.fields.contains(field) {
        return Ok(());
    }
    Err(format!(
        "{word}: \"{field}\" is not among list.fields{}",
        did_you_mean(field, list.fields.iter().map(String::as_str))
    ))
}

fn validate_runbook(runbook: &Runbook) -> Result<(), String> {
    const KNOWN: [&str; 5] = ["id", "name", "project", "site", "step"];
    if runbook.says.iter().all(String::is_empty) {
        return Err("runbook.says: name a part of the errors that it is for".into());
    }
    match value::variables(&runbook.text).find(|name| !KNOWN.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "runbook.text: no variable \"{{{name}}}\"{}",
            did_you_mean(name, KNOWN)
        )),
    }
}

fn validate_variables<'n>(
    kind: &Kind,
    field: &str,
    mut names: impl Iterator<Item = &'n str>,
) -> Result<(), String> {
    match names.find(|name| !kind.variables().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "{field}: no variable \"{{{name}}}\"{}",
            did_you_mean(name, kind.variables())
        )),
    }
}

impl Kind {
    /// Returns the variables that templates may name: `id` and its parts, `cascade`, and those that a derived
    /// kind sets.
    fn variables(&self) -> impl Iterator<Item = &str> {
        let derived = self.spec.derived.iter();
        let set = derived.flat_map(|derived| derived.set.keys());
        let parts = self.spec.list.iter().flat_map(|list| &list.id);
        ["id", "cascade"]
            .into_iter()
            .chain(set.chain(parts).map(String::as_str))
    }
}

impl CallTemplate {
    pub(in crate::domain) fn variables(&self) -> Vec<String> {
        let mut names: Vec<String> = value::variables(&self.path).map(str::to_owned).collect();
        let mut rest: Vec<&Value> = self.body.iter().collect();
        while let Some(value) = rest.pop() {
            match value {
                Value::String(text) if text == value::NULL => {}
                Value::String(text) => names.extend(value::variables(text).map(str::to_owned)),
                Value::Array(elements) => rest.extend(elements),
                Value::Object(fields) => rest.extend(fields.values()),
                _ => {}
            }
        }
        names
    }
}

fn parse_error(source: &Source, error: &toml::de::Error) -> KindsError {
    KindsError {
        file: source.file.clone(),
        line: error
            .span()
            .map_or(1, |span| line_of(&source.text, span.start)),
        message: with_nearest(error.message()),
    }
}

/// Adds the nearest valid word to an error of serde, which lists them all (``unknown field `x`, expected one
/// of `a`, `b` ``).
fn with_nearest(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let Some(wrong) = words.next() else {
        return message.to_owned();
    };
    let valid: Vec<&str> = words.collect();
    format!("{message}{}", did_you_mean(wrong, valid))
}
