//! Maps paths to resources, as the kinds describe them. Refuses spellings of a path that a service may read
//! as another resource or collection (T22).

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;

use crate::cloud::openstack::{Created, RestCalls};
use crate::domain::kinds::{ActionWord, IdSpelling, Kind, Kinds, Reference, fill, variables};
use crate::domain::model::{KindName, ResourceKey, Site};

/// The characters that are escaped in one segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A segment of a pattern: the id of a project.
const PROJECT: &str = ":project";

/// The paths of one service.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// The path of the service's endpoint, without its version.
    root: String,
    patterns: Vec<Pattern>,
    /// Body fields that refer to a resource, by their last part: `network_id`.
    pub(super) references: BTreeMap<String, BTreeSet<KindName>>,
    /// The calls that create under a natural key.
    creates: Vec<CreatePattern>,
    /// The methods that the service accepts.
    methods: BTreeSet<String>,
    /// The calls that only detach a resource from another: the method and the path of each.
    detaches: Vec<(String, Vec<Segment>)>,
    /// Whether all calls are forwarded as they are, because names of the service's resources may be any text, and
    /// bodies may have any size.
    pub(super) is_unguarded: bool,
}

#[derive(Clone, Debug)]
struct CreatePattern {
    kind: KindName,
    segments: Vec<Segment>,
    created: Created,
}

/// A call that creates resources under natural keys; its body names the keys.
pub struct Creates<'r> {
    pattern: &'r CreatePattern,
    variables: BTreeMap<String, String>,
}

impl Creates<'_> {
    /// Returns the resources that the call creates, from its body or the answer to it.
    pub fn named(&self, body: &Value) -> Vec<Named> {
        let CreatePattern { kind, created, .. } = self.pattern;
        let ids = created.ids(&self.variables, body).into_iter();
        ids.map(|id| Named::new(kind, id)).collect()
    }
}

#[derive(Clone, Debug)]
struct Pattern {
    kind: KindName,
    segments: Vec<Segment>,
    /// Whether the pattern is that of a list whose rows are not read below its own path: `/servers/detail`.
    is_list: bool,
    /// The kind within which the resources are listed.
    parent: Option<KindName>,
    ids: IdSpelling,
}

#[derive(Clone, Debug)]
enum Segment {
    Literal(String),
    /// A part of the id.
    Variable,
    /// The id of a project, which does not identify the resource.
    Project,
}

impl Segment {
    /// Whether `text` is read as this segment.
    fn reads(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == text,
            Self::Variable => true,
            // The services themselves distinguish a project from a collection in this way.
            Self::Project => text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')),
        }
    }
}

/// A resource that a request names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    pub kind: KindName,
    /// The id as it was received, decoded.
    pub id: String,
}

impl Named {
    pub(super) fn new(kind: &KindName, id: impl Into<String>) -> Self {
        Self {
            kind: kind.clone(),
            id: id.into(),
        }
    }

    /// Returns the resource's key at a site, as the service spells it: UUIDs in lower case, and all else as received.
    pub(super) fn at(&self, site: &Site) -> ResourceKey {
        ResourceKey::new(site, &self.kind, spelled(&self.id))
    }
}

/// Returns an id with its UUIDs in lower case, also those that are parts of it (`ROUTER,2001:DB8::/64,…`).
fn spelled(id: &str) -> String {
    let part = |part: &str| match uuid::Uuid::try_parse(part) {
        Ok(_) => part.to_lowercase(),
        Err(_) => part.to_owned(),
    };
    id.split(',').map(part).collect::<Vec<_>>().join(",")
}

/// The resource or the collection that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// A path of no kind: versions, quotas, agents.
    Elsewhere,
    /// A collection, in which resources are listed and created; within a parent or not.
    Collection {
        kind: KindName,
        parent: Option<Named>,
    },
    Resource {
        named: Named,
        parent: Option<Named>,
    },
    /// An action on a resource, or a path below it.
    Below(Named),
}

impl PathTarget {
    /// Returns the resources that the path names.
    pub fn names(&self) -> Vec<Named> {
        match self {
            Self::Elsewhere => Vec::new(),
            Self::Collection { parent, .. } => parent.iter().cloned().collect(),
            Self::Resource { named, parent } => parent.iter().chain([named]).cloned().collect(),
            Self::Below(named) => vec![named.clone()],
        }
    }
}

/// A path that the gate and the service may read differently, or an id that is not in its canonical spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ambiguous;

impl Routes {
    /// Returns the routes of the kinds of `service`, below the path of its endpoint.
    pub fn new(kinds: &Kinds, service: &str, root: &str) -> Self {
        let mut routes = Self {
            root: root.to_owned(),
            ..Self::default()
        };
        for kind in kinds.iter().filter(|kind| kind.service == service) {
            match kind.calls_of::<RestCalls>() {
                Some(calls) if calls.service.unguarded => routes.is_unguarded = true,
                Some(calls) => routes.add(kind, calls),
                None => {}
            }
        }
        for reference in kinds.iter().flat_map(|kind| &kind.spec.references) {
            let find = reference.find.as_ref().filter(|find| find.of == "id");
            let found_by = find.map(|find| find.key.as_str());
            for path in reference.id_fields().chain(found_by) {
                let leaf = path.rsplit('.').next().unwrap_or(path);
                let leaf = leaf.trim_end_matches("[]");
                // `id` alone refers to nothing: every row has it.
                if leaf != "id" {
                    let kinds = routes.references.entry(leaf.to_owned()).or_default();
                    kinds.insert(reference.to.clone());
                }
            }
        }
        for (field, to) in kinds.iter().flat_map(|kind| &kind.spec.names) {
            let kinds = routes.references.entry(field.clone()).or_default();
            kinds.extend(to.iter().cloned());
        }
        routes
    }

    /// Adds the paths and methods of one kind.
    fn add(&mut self, kind: &Kind, calls: &RestCalls) {
        let projects = match calls.service.project_in_path {
            true => &["", PROJECT][..],
            false => &[""],
        };
        let patterns = |path: &str| {
            let mut found = Vec::new();
            for prefix in calls.prefixes() {
                for project in projects {
                    found.push(pattern(&format!("{}{prefix}/{project}{path}", self.root)));
                }
            }
            found
        };
        if let (Some(list), Some(call)) = (&kind.spec.list, &calls.list) {
            let mut references = kind.spec.references.iter();
            let within = |it: &&Reference| it.field.is_some() && it.field == list.within;
            let parent = references.find(within).map(|it| it.to.clone());
            let also_at = call.also_at.iter().map(String::as_str);
            let collections = [call.collection()].into_iter().chain(also_at);
            // `/detail`, where the list is not the collection itself.
            let below = call.path.strip_prefix(call.collection()).unwrap_or("");
            let lists = collections.clone().filter(|_| !below.is_empty());
            let lists = lists.flat_map(|it| patterns(&format!("{it}{below}")));
            let lists = lists.map(|segments| (segments, true));
            let found = collections.flat_map(&patterns).map(|it| (it, false));
            let found = found.chain(lists).map(|(segments, is_list)| Pattern {
                kind: kind.name.clone(),
                segments,
                is_list,
                parent: parent.clone().filter(|_| !is_list),
                ids: kind.spec.ids,
            });
            self.patterns.extend(found);
        }
        for created in &calls.created {
            let found = patterns(&created.path).into_iter();
            self.creates.extend(found.map(|segments| CreatePattern {
                kind: kind.name.clone(),
                segments,
                created: created.clone(),
            }));
        }
        // The path of a call that detaches distinguishes the call from an update, unless the path ends with an id.
        let detaches = kind.spec.action == ActionWord::Detach;
        let call = calls.delete.as_ref().filter(|_| detaches);
        if let Some(call) = call.filter(|call| !call.path.ends_with('}')) {
            let found = patterns(&call.path).into_iter();
            let found = found.map(|segments| (call.method.clone(), segments));
            self.detaches.extend(found);
        }
        let methods = calls.service.methods.iter();
        self.methods.extend(methods.cloned());
    }

    /// Whether the service accepts this method, compared case-sensitively. A service without kinds accepts
    /// any.
    pub fn takes(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method.as_str())
    }

    /// Returns the methods that the service accepts, as the `Allow` header lists them.
    pub fn allow(&self) -> String {
        let methods: Vec<&str> = self.methods.iter().map(String::as_str).collect();
        methods.join(", ")
    }

    /// Whether this call only detaches a resource from another, such as an interface from a router.
    pub fn detaches(&self, method: &Method, path: &str) -> bool {
        let segments = segments(path).unwrap_or_default();
        let mut calls = self.detaches.iter();
        calls.any(|(its, pattern)| method == its.as_str() && whole(pattern, &segments).is_some())
    }

    /// Returns the creations under natural keys that this call makes; nearly always none.
    pub fn creates(&self, method: &Method, path: &str) -> Vec<Creates<'_>> {
        let segments = segments(path).unwrap_or_default();
        let patterns = self.creates.iter();
        let patterns = patterns.filter(|it| it.created.method == method.as_str());
        let creates = patterns.filter_map(|pattern| {
            let values = whole(&pattern.segments, &segments)?.into_iter();
            let names = variables(&pattern.created.path).map(str::to_owned);
            Some(Creates {
                pattern,
                variables: names.zip(values.map(|it| it.text.clone())).collect(),
            })
        });
        creates.collect()
    }

    /// Returns the path of a resource at this service; None for an edge.
    pub(super) fn path_of(&self, kind: &Kind, id: &str) -> Option<String> {
        Some(format!("{}{}", self.root, path_of(kind, id)?))
    }

    /// Returns the resource or the collection that a path names.
    ///
    /// # Errors
    /// The path can be read in two ways, or the id is not in its canonical spelling.
    pub fn target_of(&self, path: &str) -> Result<PathTarget, Ambiguous> {
        let segments = segments(path)?;
        let found = self
            .patterns
            .iter()
            .filter(|pattern| !pattern.is_list || pattern.segments.len() == segments.len())
            .filter_map(|pattern| Some((pattern, matched(&pattern.segments, &segments)?)))
            // `/images/I/members/M` is a member, not a path below an image.
            .max_by_key(|(pattern, _)| pattern.segments.len());
        let all = self.patterns.iter().map(|it| &it.segments);
        let mut all = all.chain(self.creates.iter().map(|it| &it.segments));
        if all.any(|pattern| is_misspelled(pattern, &segments)) {
            return Err(Ambiguous);
        }
        let Some((pattern, ids)) = found else {
            return Ok(PathTarget::Elsewhere);
        };
        let rest = segments.get(pattern.segments.len()..).unwrap_or_default();
        let mut spelled = ids.iter().copied().chain(rest.first());
        if !spelled.all(|it| pattern.ids.is_canonical(&it.raw)) {
            return Err(Ambiguous);
        }
        let mut ids: Vec<&str> = ids.into_iter().map(|it| it.text.as_str()).collect();
        let parent = pattern.parent.as_ref();
        let parent = parent.map(|kind| Named::new(kind, ids.join(",")));
        let Some((last, below)) = rest.split_first() else {
            let kind = pattern.kind.clone();
            return Ok(PathTarget::Collection { kind, parent });
        };
        ids.push(&last.text);
        let named = Named::new(&pattern.kind, ids.join(","));
        Ok(match below {
            [] => PathTarget::Resource { named, parent },
            _ => PathTarget::Below(named),
        })
    }
}

/// Returns the path of a resource below the service's endpoint; None for an edge, which is only visible in
/// another resource's row.
pub(super) fn path_of(kind: &Kind, id: &str) -> Option<String> {
    let list = kind.spec.list.as_ref()?;
    let calls = kind.calls_of::<RestCalls>()?;
    let encoded = |id: &str| utf8_percent_encode(id, SEGMENT).to_string();
    let parts = kind.id_variables(id).into_iter();
    let parts: BTreeMap<String, String> =
        parts.map(|(name, part)| (name, encoded(&part))).collect();
    let below = fill(calls.list.as_ref()?.collection(), &parts).ok()?;
    let last = list.id.last().and_then(|part| parts.get(part))?;
    Some(format!("{}{below}/{last}", calls.service.prefix))
}

/// Splits a kind's path into segments.
fn pattern(path: &str) -> Vec<Segment> {
    let segments = path.split('/').filter(|part| !part.is_empty());
    segments
        .map(|part| match part {
            PROJECT => Segment::Project,
            _ if part.starts_with('{') => Segment::Variable,
            _ => Segment::Literal(part.to_owned()),
        })
        .collect()
}

/// One segment of a path.
struct PathPart {
    /// The segment as it was received.
    raw: String,
    /// The segment decoded.
    text: String,
}

/// Returns the values of the variables, if the path begins with the pattern.
fn matched<'p>(pattern: &[Segment], path: &'p [PathPart]) -> Option<Vec<&'p PathPart>> {
    if path.len() < pattern.len() {
        return None;
    }
    let mut values = Vec::new();
    for (segment, part) in pattern.iter().zip(path) {
        if matches!(segment, Segment::Variable) {
            values.push(part);
        } else if !segment.reads(&part.raw) {
            return None;
        }
    }
    Some(values)
}

/// Works like [`matched`], but only for a path that has as many segments as the pattern.
fn whole<'p>(pattern: &[Segment], path: &'p [PathPart]) -> Option<Vec<&'p PathPart>> {
    let ends = pattern.len() == path.len();
    ends.then(|| matched(pattern, path)).flatten()
}

/// Whether the path does not match the pattern, but the service could read it as if it did: services decode
/// segments, and Pecan cuts any known suffix (regardless of case) off the last one.
fn is_misspelled(pattern: &[Segment], path: &[PathPart]) -> bool {
    if path.len() < pattern.len() {
        return false;
    }
    let mut differs = false;
    for (at, (segment, part)) in pattern.iter().zip(path).enumerate() {
        if segment.reads(&part.raw) {
            continue;
        }
        let text = part.text.trim().to_lowercase();
        let stem = match at + 1 == path.len() {
            true => text.split('.').next().unwrap_or_default(),
            false => &text,
        };
        if !segment.reads(stem) && !segment.reads(&text) {
            return false;
        }
        differs = true;
    }
    differs
}

/// Splits a path into decoded segments.
fn segments(path: &str) -> Result<Vec<PathPart>, Ambiguous> {
    let path = path.strip_prefix('/').ok_or(Ambiguous)?;
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for raw in path.split('/') {
        let part = percent_decode_str(raw)
            .decode_utf8()
            .map_err(|_| Ambiguous)?;
        let odd = |c: char| c.is_control() || matches!(c, '/' | '\\');
        if part.is_empty() || part == "." || part == ".." || part.contains(odd) {
            return Err(Ambiguous);
        }
        parts.push(PathPart {
            raw: raw.to_owned(),
            text: part.into_owned(),
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn m01_only_the_uuids_of_an_id_are_spelled_in_lower_case() {
        let router = "0A9A2A1E-7F2E-4F53-8D55-0E1C6F8F7A01";
        let route = spelled(&format!("{router},2001:DB8::/64,Next"));
        assert_eq!(
            route,
            "0a9a2a1e-7f2e-4f53-8d55-0e1c6f8f7a01,2001:DB8::/64,Next"
        );
    }
}
