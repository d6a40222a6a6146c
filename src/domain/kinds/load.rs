//! Reads and validates kinds files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::coverage::{Coverage, NotCovered, NothingToCover};
use super::native::{self, RegistryCalls};
use super::source::{KindsError, Source};
use super::{
    ActionWord, Bond, Find, Kind, KindName, KindSpec, Kinds, ListSpec, MadeKind, MadeSpec, Match,
    OnDelete, OneOf, Provider, Reference, Runbook, Settles, value,
};
use crate::domain::model::Action;
use crate::domain::nesting::line_of;
use crate::domain::text::did_you_mean;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The name of the provider; by default the first one that gone has.
    provider: Option<String>,
    service: String,
    #[serde(default)]
    imports: Vec<String>,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    not_covered: NotCovered,
    #[serde(default)]
    nothing_to_cover: NothingToCover,
    kind: BTreeMap<KindName, Spanned<KindSpec>>,
}

/// The values of a file that apply to each of its kinds that does not set its own.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Defaults {
    deleting: BTreeMap<String, String>,
    settles: Option<Settles>,
    /// The reference of a kind with `in_project = true`.
    in_project: Option<Reference>,
    /// The `call` section, which the provider reads from the file itself.
    #[serde(rename = "call")]
    _call: Option<IgnoredAny>,
}

impl Kinds {
    /// Reads kinds files in their order. A later file replaces a kind of the same name only if it says
    /// `override = true`.
    ///
    /// # Errors
    /// A file is not valid; the error has the file, the line and the reason.
    pub fn read(
        sources: impl IntoIterator<Item = Source>,
        providers: &[&dyn Provider],
    ) -> Result<Self, KindsError> {
        let first = providers.first().map_or("", |provider| provider.name());
        let mut kinds = BTreeMap::new();
        let mut coverage = Coverage::default();
        // The origin of each kind, for errors that can only be found when all kinds are known.
        let mut origins: BTreeMap<KindName, Origin> = BTreeMap::new();
        for source in sources {
            let file: File = source.parse()?;
            let provider = named(file.provider.as_deref(), providers);
            let provider = provider.map_err(|message| KindsError {
                file: source.file.clone(),
                line: 1,
                message,
            })?;
            let mut calls = provider.calls(&source)?;
            let is_other = provider.name() != first;
            let qualified = |name: KindName| match is_other {
                true => KindName::new(&format!("{}.{name}", provider.name())),
                false => name,
            };
            coverage.add(&file.service, file.not_covered, file.nothing_to_cover);
            for (name, spec) in file.kind {
                let line = line_of(&source.text, spec.span().start);
                let at = (source.file.clone(), line);
                let mut spec = spec.into_inner();
                let folded = file.defaults.fold_into(&mut spec);
                folded.map_err(|message| invalid(&name, &at, &message))?;
                let of_provider = calls.remove(&name);
                if of_provider.is_none() && spec.native.is_none() {
                    let provider = provider.name();
                    let message = format!("has no \"call\", which says how {provider} deletes it");
                    return Err(invalid(&name, &at, &message));
                }
                let of_provider = of_provider.filter(|_| spec.native.is_none());
                let name = qualified(name);
                if is_other {
                    spec.kinds_mut()
                        .for_each(|name| *name = qualified(name.clone()));
                }
                let kind = Kind {
                    provider: of_provider.is_some().then(|| provider.name()),
                    calls: of_provider
                        .unwrap_or_else(|| Arc::new(RegistryCalls { kind: name.clone() })),
                    name: name.clone(),
                    service: file.service.clone(),
                    imports: file.imports.clone(),
                    spec,
                };
                let overrides = validate_override(&kind, &origins);
                overrides.map_err(|message| invalid(&name, &at, &message))?;
                origins.insert(name.clone(), at);
                kinds.insert(name, kind);
            }
        }
        let mut kinds = Self {
            kinds,
            home: None,
            coverage,
            first,
        };
        kinds.refer_to_makers();
        let nowhere = Origin::default();
        let refuse = |name: &KindName, message: String| {
            invalid(name, origins.get(name).unwrap_or(&nowhere), &message)
        };
        for kind in kinds.kinds.values_mut() {
            native::complete(kind).map_err(|message| refuse(&kind.name, message))?;
        }
        for kind in kinds.iter() {
            let validated = kinds.validate(kind);
            validated.map_err(|message| refuse(&kind.name, message))?;
        }
        Ok(kinds)
    }

    /// Adds to each kind whose resources a service makes (`made`) the references to the rows that stand for these
    /// resources.
    fn refer_to_makers(&mut self) {
        let makers = self.kinds.values();
        let makers = makers.filter_map(|it| Some((it.name.clone(), it.spec.made.clone()?)));
        for (maker, made) in makers.collect::<Vec<_>>() {
            for (of_type, of_kind) in &made.kinds {
                if let Some(kind) = self.kinds.get_mut(&of_kind.kind) {
                    let list = kind.spec.list.as_ref();
                    let by_id = list.is_some_and(|it| it.by_id && it.within.is_none());
                    let references = made.references(&maker, of_type, of_kind, by_id);
                    kind.spec.references.extend(references);
                }
            }
        }
    }

    fn validate(&self, kind: &Kind) -> Result<(), String> {
        let spec = &kind.spec;
        self.validate_source(spec)?;
        for to in spec.names.values().flatten() {
            self.known("names", to)?;
        }
        for to in spec.shows.values() {
            self.known("shows", to)?;
        }
        for made in spec.made.iter().flat_map(|made| made.kinds.values()) {
            self.known("made.kinds", &made.kind)?;
        }
        self.validate_takes_effect(kind)?;
        Self::validate_rungs(spec)?;
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
        for guard in &spec.guards {
            if let Some(kind) = &guard.left_in {
                self.known("guard.left_in", kind)?;
            }
        }
        let deletes = kind.calls.can(kind.action());
        match (deletes, &spec.stays, spec.goes_with) {
            (true, None, None) | (true, Some(_), Some(_)) | (false, Some(_), None) => {}
            // A part needs no delete call: the cloud removes it with its parent.
            (false, None, None) if kind.bonds(Bond::Part).next().is_some() => {}
            (_, _, Some(_)) => {
                return Err(
                    "\"goes_with\" is for a kind that has a delete call and \"stays\"".into(),
                );
            }
            _ => return Err("needs either a delete call or \"stays\"".into()),
        }
        kind.calls.validate(kind)?;
        for named in kind.calls.kinds() {
            self.known("call.answer.ids", named)?;
        }
        match &spec.runbook {
            Some(runbook) => validate_runbook(runbook),
            None => Ok(()),
        }
    }

    /// Checks that the kind has either `list` or `derived`, and that this section is valid.
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
                if list.separator.is_some() && list.id.len() < 2 {
                    return Err("list.separator: an id of one field has nothing to separate".into());
                }
                if list.separator.as_ref().is_some_and(String::is_empty) {
                    return Err("list.separator: it must not be empty".into());
                }
                match &list.within {
                    Some(within) if list.id.first() != Some(within) => Err(format!(
                        "list.within: \"{within}\" must be the first field of list.id"
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
                        "derived.set: one variable must have the path \"id\", which is the parent's id".into(),
                    );
                }
                if let Some(join) = &derived.join {
                    self.known("derived.join.kind", &join.kind)?;
                }
                Ok(())
            }
        }
    }

    fn validate_rungs(spec: &KindSpec) -> Result<(), String> {
        for (nth, rung) in spec.rungs.iter().enumerate() {
            if !matches!(rung.call, Action::Reset | Action::Force) {
                return Err(format!(
                    "rung.call: \"{}\" is not one of reset, force",
                    rung.call.as_str()
                ));
            }
            if spec
                .rungs
                .iter()
                .skip(nth + 1)
                .any(|other| other.call == rung.call)
            {
                return Err(format!(
                    "rung.call: \"{}\" is given twice",
                    rung.call.as_str()
                ));
            }
        }
        Ok(())
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
                 resources are found by equal values, and \"in_cidr\" and \"below\" only narrow the result"
            ));
        }
        for rule in matches {
            let ways = [&rule.equals, &rule.in_cidr, &rule.below];
            if ways.into_iter().flatten().count() != 1 {
                return Err(format!(
                    "match of \"{}\" needs exactly one of \"equals\", \"in_cidr\" and \"below\"",
                    rule.field
                ));
            }
        }
        use OnDelete::{Automatic, Unset};
        let requirements: [(&str, bool, &[OnDelete]); 4] = [
            ("partial", reference.partial, &[Unset]),
            ("after", reference.after, &[Unset, Automatic]),
            ("of_service", reference.of_service, &[Automatic]),
            ("released_by", reference.released_by.is_some(), &[Unset]),
        ];
        for (field, is_set, wanted) in requirements {
            if is_set && !wanted.contains(&reference.on_delete) {
                let words: Vec<_> = wanted
                    .iter()
                    .map(|it| format!("\"{}\"", it.as_str()))
                    .collect();
                return Err(format!(
                    "reference to \"{to}\": \"{field}\" requires on_delete = {}",
                    words.join(" or ")
                ));
            }
        }
        // The rows of a referrer without `find` are in the lists that other references request.
        let within = spec.list.as_ref().and_then(|list| list.within.as_ref());
        let key = reference.find.as_ref().map(|find| &find.key);
        match (within, key) {
            (Some(within), Some(key)) if key != within => Err(format!(
                "reference to \"{to}\": \"find.key\" must be \"{within}\", without which this kind cannot be listed"
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
}

impl Defaults {
    fn fold_into(&self, spec: &mut KindSpec) -> Result<(), String> {
        if spec.deleting.is_empty() {
            spec.deleting.clone_from(&self.deleting);
        }
        if spec.settles.is_none() {
            spec.settles.clone_from(&self.settles);
        }
        match (spec.in_project, &self.in_project) {
            (true, Some(reference)) => spec.references.push(reference.clone()),
            (true, None) => {
                return Err("in_project: the file has no \"defaults.in_project\"".into());
            }
            (false, _) => {}
        }
        Ok(())
    }
}

/// The file and the line in which a kind is defined.
type Origin = (String, usize);

/// Returns the error for a kind that is not valid.
fn invalid(kind: &KindName, (file, line): &Origin, message: &str) -> KindsError {
    KindsError {
        file: file.clone(),
        line: *line,
        message: format!("kind \"{kind}\": {message}"),
    }
}

/// Returns the provider of this name, or the first provider if no name is given.
fn named<'p>(
    name: Option<&str>,
    providers: &[&'p dyn Provider],
) -> Result<&'p dyn Provider, String> {
    let is_it = |it: &&&dyn Provider| name.is_none_or(|name| it.name() == name);
    providers.iter().find(is_it).copied().ok_or_else(|| {
        let name = name.unwrap_or_default();
        let known: Vec<&str> = providers.iter().map(|it| it.name()).collect();
        format!(
            "provider: unknown provider \"{name}\"{}; known: {}",
            did_you_mean(name, known.iter().copied()),
            known.join(", ")
        )
    })
}

/// Checks that a kind has `override = true` exactly when an earlier file defines it.
fn validate_override(kind: &Kind, origins: &BTreeMap<KindName, Origin>) -> Result<(), String> {
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

/// Checks that `settles.field` is among the fields that are listed, by the kind itself or by the kind from which it
/// is derived.
fn validate_settles(spec: &KindSpec, list: &ListSpec) -> Result<(), String> {
    match &spec.settles {
        Some(settles) => validate_listed("settles.field", &settles.field, list),
        None => Ok(()),
    }
}

/// Checks that one of the kind's references requests the lists below its parents.
fn validate_within(spec: &KindSpec, within: &String) -> Result<(), String> {
    let mut found_by = spec.references.iter().flat_map(|it| &it.find);
    match found_by.any(|find| find.key == *within) {
        true => Ok(()),
        false => Err(format!(
            "list.within: no reference has \"find.key\" = \"{within}\", without which this kind cannot be listed"
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
        return Err(
            "runbook.says: give a text that occurs in the errors for which the runbook is meant"
                .into(),
        );
    }
    match value::variables(&runbook.text).find(|name| !KNOWN.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "runbook.text: no variable \"{{{name}}}\"{}",
            did_you_mean(name, KNOWN)
        )),
    }
}

impl KindSpec {
    /// Returns the names of other kinds in the spec.
    fn kinds_mut(&mut self) -> impl Iterator<Item = &mut KindName> {
        let derived = self.derived.iter_mut();
        let derived = derived.flat_map(|it| {
            let joined = it.join.iter_mut().map(|join| &mut join.kind);
            std::iter::once(&mut it.from).chain(joined)
        });
        let references = self.references.iter_mut().flat_map(|it| {
            let others = it.shown_by.iter_mut().chain(&mut it.unpinned_by);
            std::iter::once(&mut it.to).chain(others)
        });
        derived
            .chain(references)
            .chain(self.takes.iter_mut().map(|it| &mut it.kind))
            .chain(self.guards.iter_mut().flat_map(|it| &mut it.left_in))
            .chain(
                self.made
                    .iter_mut()
                    .flat_map(|made| made.kinds.values_mut().map(|it| &mut it.kind)),
            )
            .chain(self.names.values_mut().flatten())
            .chain(self.shows.values_mut())
    }
}

impl MadeSpec {
    /// Returns the references of a kind to the rows that stand for its resources: one for resources that the service
    /// keeps, if the rows have `kept_when`, and one for resources that are deleted with their row. `by_id` says whether
    /// the cloud finds the kind's rows by their ids.
    fn references(
        &self,
        maker: &KindName,
        of_type: &str,
        of_kind: &MadeKind,
        by_id: bool,
    ) -> impl Iterator<Item = Reference> {
        let equals = |field: &String| Match {
            field: field.clone(),
            equals: Some(self.ids.clone()),
            ..Match::default()
        };
        let key = of_kind.find.clone().or(by_id.then(|| "id".to_owned()));
        let reference = |kept: bool| {
            let is_type = OneOf::One(of_type.into());
            let mut to_when = BTreeMap::from([(self.of_type.clone(), is_type)]);
            if kept {
                to_when.extend(self.kept_when.clone());
            }
            Reference {
                to: maker.clone(),
                field: None,
                matches: of_kind.by.iter().map(equals).collect(),
                when: BTreeMap::new(),
                to_when,
                on_delete: match kept {
                    true => OnDelete::Unset,
                    false => OnDelete::Automatic,
                },
                partial: kept,
                after: true,
                of_service: false,
                made: true,
                asynchronous: false,
                find: key.clone().map(|key| Find {
                    key,
                    value: "{}".into(),
                    of: self.ids.clone(),
                    when: BTreeMap::new(),
                    in_scope: false,
                }),
                shown_by: None,
                says: match kept {
                    true => "is kept by".into(),
                    false => "goes with".into(),
                },
                released_by: None,
                only_with: None,
                unpinned_by: None,
            }
        };
        // The planner takes the first reference that leads to a row.
        let kept = (!self.kept_when.is_empty()).then(|| reference(true));
        kept.into_iter().chain([reference(false)])
    }
}

impl Kind {
    /// Returns the variables that templates may name: `id` and its parts, `cascade`, the variables that a derived
    /// kind sets, and the fields that the kind passes.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let derived = self.spec.derived.iter();
        let set = derived.flat_map(|derived| derived.set.keys());
        let parts = self.spec.list.iter().flat_map(|list| &list.id);
        ["id", "cascade"].into_iter().chain(
            set.chain(parts)
                .chain(&self.spec.passes)
                .map(String::as_str),
        )
    }
}
