//! `gone check kinds`: finds the deletions that the kinds accept but that can never end (G11).
//!
//! The check reads the kinds and calls no cloud. A finding says that resources can exist with which the
//! problem occurs, and shows the smallest example. These definitions give the findings their meaning. The property
//! test carries them out for all small instances:
//!
//! 1. An *instance* is a set of resources of the kinds. Each reference of a kind leads to one resource of the
//!    kind that it names, or to none. Two resources are joined by at most one reference in each direction,
//!    since the planner takes the first. A required field that an example does not use leads to a resource
//!    outside the example, which changes nothing, because nothing else refers to it. A resource of a kind that
//!    `stays` refers to nothing.
//! 2. A reference *cascades* if its referrer is deleted too: `cascade`, `automatic`, `with_cascade`. A referrer
//!    that is deleted automatically costs no call: the call for its target deletes it.
//! 3. A reference *holds* its target until its referrer is gone: `block`, a synchronous `cascade` (the
//!    referrer must be deleted first), and `unset` of a required field, which cannot be carried out. A cloud's
//!    resource holds nothing any more once the target of its `unset` reference is gone, as in the planner. A
//!    native resource that is unset still holds the targets that its other references block.
//! 4. A deletion takes the requested resource and, step by step, everything that cascades synchronously. It is
//!    *accepted* if nothing else holds any of these resources synchronously, and they can be deleted in some order.
//! 5. A *call* deletes a resource and whatever is removed automatically with it. It succeeds if nothing else
//!    holds any of these.
//! 6. Once a deletion is accepted, every asynchronous referrer of a deleted resource is handled. It is unset,
//!    or is deleted by a deletion of its own, which is never refused but waits until nothing holds the
//!    referrer. Between resources that are already being deleted, an asynchronous cascade holds nothing, so
//!    cycles of asynchronous cascades end (G13).
//!
//! | finding | there is an instance in which |
//! |---|---|
//! | stuck cascade | a deletion is accepted, and a resource that must be deleted is blocked by one that stays |
//! | cycle | no call succeeds, whichever resource is deleted first, because the resources block each other |
//! | unset of a required field | a deletion is refused because of such a reference, or is accepted and never ends |
//! | not imported | a resource is deleted, and the service of a referrer that is not left dangling is not notified |
//! | dangling | a deletion ends, and a reference leads to nothing (a note: it may be intended) |
//!
//! Walks over the kinds find these problems:
//!
//! - A *stuck cascade* begins with an asynchronous cascade, because by 4 and 5 everything else is refused
//!   before anything is sent. From there, cascades of any sort lead to a kind that is the target of a
//!   synchronous reference that blocks it. No deletion deletes a resource that has only this reference.
//! - A *cycle* is a closed walk over references that hold or are automatic, at least two of which hold. With
//!   only one that holds, one call deletes everything. Without a closed walk, there is a resource to which
//!   nothing refers, and which can be deleted.
//!
//! The check leaves out what depends on single resources and not on kinds (guards, protection, projects), and
//! the option that releases floating IPs.
//!
//! Only some of a cloud's resources have a reference with `when` or `match`, and the cloud may never have the
//! resources of the example at the same time. A finding that depends on such a reference is a note.

mod say;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use strum::IntoStaticStr;

use super::kinds::{Kind, Kinds, OnDelete, OneOf, Reference};
use super::model::KindName;
use walk::Reached;

/// A problem that the checked kinds allow, with the smallest example of it, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub category: Category,
    /// The kinds of the example, each once, in the example's order.
    pub kinds: Vec<KindName>,
    pub example: Example,
    pub happens: String,
    pub fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    Error,
    /// The finding may be intended, or impossible in the cloud.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Category {
    StuckCascade,
    Cycle,
    UnsetRequired,
    NotImported,
    Dangling,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A chain of resources, each of which refers to the previous one. In a cycle, the first resource also refers
/// to the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    pub resources: Vec<Specimen>,
    /// The references between the resources, in the order of the resources to which they lead.
    pub references: Vec<Edge>,
}

/// A resource of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Specimen {
    /// The kind's name, with a number if the example has several resources of the kind.
    pub name: String,
    pub kind: KindName,
    pub fate: Fate,
}

/// What happens to a resource of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A user requested the resource's deletion.
    Asked,
    /// The deletion deletes the resource too.
    Goes,
    /// The resource must be deleted, but is blocked for ever.
    Held,
    Stays,
}

/// A reference of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Name of the resource that refers.
    pub from: String,
    /// Name of the resource to which the reference leads.
    pub to: String,
    pub field: String,
    pub on_delete: OnDelete,
    pub asynchronous: bool,
}

/// Returns all findings about the kinds, errors first.
pub fn check(kinds: &Kinds) -> Vec<Finding> {
    let links = Links::of(kinds);
    let mut findings = stuck_cascades(&links);
    findings.extend(cycles(&links));
    findings.extend(links.all.iter().flat_map(of_one_link));
    findings.sort_by_key(|finding| (finding.severity, finding.category));
    findings
}

/// All references of the kinds without `stays`, indexed by the kind that refers and by the target's kind.
struct Links<'k> {
    all: Vec<Link<'k>>,
    from: BTreeMap<&'k KindName, Vec<Link<'k>>>,
    to: BTreeMap<&'k KindName, Vec<Link<'k>>>,
}

impl<'k> Links<'k> {
    fn of(kinds: &'k Kinds) -> Self {
        // A resource of a kind that stays refers to nothing.
        let going = kinds.iter().filter(|from| from.spec.stays.is_none());
        let references = going.flat_map(|from| {
            let references = from.spec.references.iter();
            references.map(move |reference| (from, reference))
        });
        let all: Vec<Link<'k>> = references
            .filter_map(|(from, reference)| {
                let to = kinds.get(&reference.to)?;
                Some(Link {
                    from,
                    to,
                    reference,
                })
            })
            .collect();
        let (mut from, mut to) = (BTreeMap::new(), BTreeMap::new());
        for link in &all {
            let begin: &mut Vec<_> = from.entry(&link.from.name).or_default();
            begin.push(*link);
            let end: &mut Vec<_> = to.entry(&link.to.name).or_default();
            end.push(*link);
        }
        Self { all, from, to }
    }

    /// Returns the cascading references to a kind, each with the kind that refers.
    fn that_follow(&self, kind: &KindName) -> impl Iterator<Item = (Link<'k>, &'k KindName)> {
        let to = self.to.get(kind).into_iter().flatten();
        let follow = to.filter(|link| link.cascades());
        follow.map(|link| (*link, &link.from.name))
    }

    /// Returns the references of a kind that hold their target, or through which the cloud removes the kind's resources
    /// automatically.
    fn that_tie(&self, kind: &KindName) -> impl Iterator<Item = Link<'k>> {
        let from = self.from.get(kind).into_iter().flatten();
        let tie = from.filter(|link| link.holds() || link.is_automatic());
        tie.copied()
    }
}

/// A reference between two kinds.
#[derive(Clone, Copy)]
struct Link<'k> {
    from: &'k Kind,
    to: &'k Kind,
    reference: &'k Reference,
}

impl<'k> Link<'k> {
    fn is_automatic(&self) -> bool {
        use OnDelete::{Automatic, WithCascade};
        matches!(self.reference.on_delete, Automatic | WithCascade)
    }

    fn cascades(&self) -> bool {
        self.is_automatic() || self.reference.on_delete == OnDelete::Cascade
    }

    fn starts_later(&self) -> bool {
        self.reference.asynchronous && self.cascades()
    }

    fn unsets_what_is_required(&self) -> bool {
        self.reference.on_delete == OnDelete::Unset && self.from.spec.requires(self.reference)
    }

    /// Whether the reference blocks its target because the deletion of the target does not delete the referrer.
    fn blocks(&self) -> bool {
        self.reference.on_delete == OnDelete::Block || self.unsets_what_is_required()
    }

    fn holds(&self) -> bool {
        let goes_first = self.reference.on_delete == OnDelete::Cascade;
        self.blocks() || (goes_first && !self.reference.asynchronous)
    }

    /// Whether the referrer's service is notified of the target's deletion.
    fn is_notified(&self) -> bool {
        let owner = &self.to.service;
        !self.from.is_native() || self.from.service == *owner || self.from.imports.contains(owner)
    }

    /// Whether only some resources of a cloud's kind have this reference.
    fn is_conditional(&self) -> bool {
        let conditions = self.reference.when.len() + self.reference.matches.len();
        !self.from.is_native() && conditions > 0
    }

    /// Whether this reference alone forms no cycle among resources of one kind: referrers and targets must have
    /// different values in one field, or a referrer's domain name is below its target's.
    fn never_follows_itself(&self) -> bool {
        let Reference {
            when,
            to_when,
            matches,
            ..
        } = self.reference;
        let is_below = matches.iter().any(|rule| rule.below.is_some());
        let differs = |(path, wanted): (&String, &OneOf)| {
            when.get(path).is_some_and(|own| own.excludes(wanted))
        };
        self.from.name == self.to.name && (is_below || to_when.iter().any(differs))
    }

    fn field(&self) -> &'k str {
        let matched = self.reference.matches.first().map(|rule| &rule.field);
        let field = self.reference.field.as_ref().or(matched);
        field.map_or("", String::as_str)
    }
}

/// Returns a finding for each asynchronous cascade and each blocking reference to which it leads.
fn stuck_cascades(links: &Links<'_>) -> Vec<Finding> {
    // An asynchronous reference that blocks keeps its target's deletion from ending. That is a finding of its own.
    let blocks = links.all.iter().filter(|link| link.blocks());
    let blocks: Vec<_> = blocks.filter(|link| !link.reference.asynchronous).collect();
    let mut findings = Vec::new();
    for first in links.all.iter().filter(|link| link.starts_later()) {
        let reached = Reached::from(&first.from.name, |here| links.that_follow(here).collect());
        for last in &blocks {
            if let Some(way) = reached.way_to(&last.to.name) {
                let chain = [*first].into_iter().chain(way).chain([**last]);
                findings.push(say::stuck(&chain.collect::<Vec<_>>()));
            }
        }
    }
    findings
}

/// Finds the smallest cycle through each reference that holds its target, and returns each cycle once. A cycle of
/// references that never follow themselves ([`Link::never_follows_itself`]) cannot exist, and is left out.
fn cycles(links: &Links<'_>) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    let mut findings = Vec::new();
    for first in links.all.iter().filter(|link| link.holds()) {
        // A state is a kind, and whether the walk has passed another reference that holds its target.
        let reached = Reached::from((&first.to.name, false), |(here, again)| {
            let there = |it: Link<'_>| again || it.holds();
            let ties = links.that_tie(here);
            ties.map(|it| (it, (&it.to.name, there(it)))).collect()
        });
        let Some(back) = reached.way_to((&first.from.name, true)) else {
            continue;
        };
        let ring: Vec<Link<'_>> = [*first].into_iter().chain(back).collect();
        if ring.iter().all(Link::never_follows_itself) {
            continue;
        }
        let references = ring.iter().map(|link| (&link.from.name, link.field()));
        let mut references: Vec<_> = references.collect();
        references.sort_unstable();
        if known.insert(references) {
            findings.push(say::cycle(&ring));
        }
    }
    findings
}

/// Returns the findings that a single reference causes.
fn of_one_link<'k>(link: &Link<'k>) -> impl Iterator<Item = Finding> + use<'k> {
    let left = link.reference.on_delete == OnDelete::Dangling;
    let unset = link.unsets_what_is_required();
    // A dangling reference needs no handling, and a target that stays leaves no dangling reference.
    let not_imported = !left && !link.is_notified();
    let dangles = left && link.to.spec.stays.is_none();
    let unset = unset.then(|| say::unset_required(link));
    let not_imported = not_imported.then(|| say::not_imported(link));
    let dangles = dangles.then(|| say::dangling(link));
    unset.into_iter().chain(not_imported).chain(dangles)
}
