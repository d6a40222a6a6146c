//! `gone check kinds`: which deletions the kinds allow to begin and never to end (G11).
//!
//! Nothing is looked up: a finding says that resources are possible with which it happens, and shows
//! the fewest. What the findings mean, and what the property test runs over all small instances:
//!
//! 1. An *instance* is some resources of the kinds. Each of a kind's references leads to one resource of
//!    the kind that it names, or to none; two resources are joined by one reference at most in each
//!    direction, as the planner takes the first. A field that is required leads somewhere outside the
//!    example: a resource to which nothing else refers changes nothing. What `stays` refers to nothing.
//! 2. A reference *cascades* if what refers goes too: `cascade`, `automatic`, `with_cascade`. What goes
//!    automatically costs no call: it goes in the same as what it refers to.
//! 3. A reference *holds* what it leads to until what refers is gone: `block`, a synchronous `cascade`
//!    (that has to go first), and `unset` of a required field, which cannot be carried out. A cloud's
//!    resource holds nothing any more once what it unsets is gone, as the planner has it; one of ours
//!    that is unset here still holds what it blocks there.
//! 4. A deletion takes its root and all that cascades to it synchronously, and on from there. It is
//!    *accepted* if nothing else synchronously holds any of that, and an order of calls exists.
//! 5. A *call* deletes a resource and what goes automatically with it. It succeeds if nothing else holds
//!    any of these.
//! 6. Once a deletion is accepted, what refers asynchronously to anything that goes is seen to: it is
//!    unset, or goes by a deletion of its own that is never refused, but waits for what holds it. Among
//!    resources that go already an asynchronous cascade holds nothing, so circles of them end (G13).
//!
//! | finding | there is an instance in which |
//! |---|---|
//! | stuck cascade | a deletion is accepted, and something that goes is held by what does not go |
//! | cycle | no call succeeds, whatever is deleted first: the resources hold each other |
//! | unset of a required field | such a reference refuses a deletion, or keeps an accepted one from its end |
//! | not imported | something goes, and the service of what refers to it, and is not left dangling, is not told |
//! | dangling | a deletion ends, and a reference leads to nothing (a note: it may be meant) |
//!
//! Each is decided by a walk over kinds:
//!
//! - *Stuck* begins with an asynchronous cascade: by 4 and 5 all else is refused while nothing was sent.
//!   From there any cascades lead to the kind that a synchronous hold without a cascade leads to; a
//!   resource that does so, and refers to nothing else, goes in no deletion.
//! - A *cycle* is a walk that closes, over references that hold or are automatic, at least two of which
//!   hold: with a single one everything goes in one call. Where no walk closes, what nothing refers to
//!   can be deleted.
//!
//! Not looked at is what is of single resources and not of kinds: guards, protection, projects; and the
//! option that releases floating IPs.
//!
//! A cloud's reference with `when` or `match` is one that only some of its resources have, and the cloud
//! may never have those of the example at once: then the finding is a note.

mod say;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::kinds::{Kind, Kinds, OnDelete, Reference};
use super::model::KindName;
use walk::Reached;

/// What may happen with these kinds, the fewest resources with which it does, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub category: Category,
    /// Each once, in the order of the example.
    pub kinds: Vec<KindName>,
    pub example: Example,
    pub happens: String,
    pub fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    /// It may be meant, or impossible in the cloud.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Note => "note",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    StuckCascade,
    Cycle,
    UnsetRequired,
    NotImported,
    Dangling,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StuckCascade => "stuck_cascade",
            Self::Cycle => "cycle",
            Self::UnsetRequired => "unset_required",
            Self::NotImported => "not_imported",
            Self::Dangling => "dangling",
        }
    }
}

/// Resources in a row, each of which refers to the one before; in a cycle the first to the last, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    pub resources: Vec<Specimen>,
    /// In the order of the resources that they lead to.
    pub references: Vec<Edge>,
}

/// A resource of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Specimen {
    /// The kind's, with a number where there are several.
    pub name: String,
    pub kind: KindName,
    pub fate: Fate,
}

/// What becomes of a resource of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Its deletion is asked for.
    Asked,
    /// It goes as well.
    Goes,
    /// It is to go, and is held for ever.
    Held,
    Stays,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Names of the resources.
    pub from: String,
    pub to: String,
    pub field: String,
    pub on_delete: OnDelete,
    pub asynchronous: bool,
}

/// All findings, errors first.
pub fn check(kinds: &Kinds) -> Vec<Finding> {
    let links = Links::of(kinds);
    let mut findings = stuck_cascades(&links);
    findings.extend(cycles(&links));
    findings.extend(links.all.iter().flat_map(of_one_link));
    findings.sort_by_key(|finding| (finding.severity, finding.category));
    findings
}

/// All references of the kinds, and those that begin and end at each.
struct Links<'k> {
    all: Vec<Link<'k>>,
    from: BTreeMap<&'k KindName, Vec<Link<'k>>>,
    to: BTreeMap<&'k KindName, Vec<Link<'k>>>,
}

impl<'k> Links<'k> {
    fn of(kinds: &'k Kinds) -> Self {
        let references = kinds.iter().flat_map(|from| {
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

    /// What cascades to a kind, with the kind that then goes.
    fn that_follow(&self, kind: &KindName) -> impl Iterator<Item = (Link<'k>, &'k KindName)> {
        let to = self.to.get(kind).into_iter().flatten();
        let follow = to.filter(|link| link.cascades());
        follow.map(|link| (*link, &link.from.name))
    }

    /// What of a kind keeps another from going before it, or goes with it.
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

    /// Holds, and does not go.
    fn blocks(&self) -> bool {
        self.reference.on_delete == OnDelete::Block || self.unsets_what_is_required()
    }

    fn holds(&self) -> bool {
        let goes_first = self.reference.on_delete == OnDelete::Cascade;
        self.blocks() || (goes_first && !self.reference.asynchronous)
    }

    /// Whether the service of what refers is told when what it refers to goes.
    fn is_told(&self) -> bool {
        let owner = &self.to.service;
        !self.from.is_native() || self.from.service == *owner || self.from.imports.contains(owner)
    }

    /// Whether only some resources of the kind have it, as the cloud decides.
    fn is_conditional(&self) -> bool {
        let conditions = self.reference.when.len() + self.reference.matches.len();
        !self.from.is_native() && conditions > 0
    }

    fn field(&self) -> &'k str {
        let matched = self.reference.matches.first().map(|rule| &rule.field);
        let field = self.reference.field.as_ref().or(matched);
        field.map_or("", String::as_str)
    }
}

/// One for each asynchronous cascade and each hold to which it leads.
fn stuck_cascades(links: &Links<'_>) -> Vec<Finding> {
    // What blocks asynchronously keeps every deletion from its end: a finding of its own.
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

/// For each reference that holds, the smallest cycle through it; each cycle once.
fn cycles(links: &Links<'_>) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    let mut findings = Vec::new();
    for first in links.all.iter().filter(|link| link.holds()) {
        // A kind, and whether another reference that holds was passed.
        let reached = Reached::from((&first.to.name, false), |(here, again)| {
            let there = |it: Link<'_>| again || it.holds();
            let ties = links.that_tie(here);
            ties.map(|it| (it, (&it.to.name, there(it)))).collect()
        });
        let Some(back) = reached.way_to((&first.from.name, true)) else {
            continue;
        };
        let ring: Vec<Link<'_>> = [*first].into_iter().chain(back).collect();
        let references = ring.iter().map(|link| (&link.from.name, link.field()));
        let mut references: Vec<_> = references.collect();
        references.sort_unstable();
        if known.insert(references) {
            findings.push(say::cycle(&ring));
        }
    }
    findings
}

/// What a reference does by itself.
fn of_one_link<'k>(link: &Link<'k>) -> impl Iterator<Item = Finding> + use<'k> {
    let left = link.reference.on_delete == OnDelete::Dangling;
    let unset = link.unsets_what_is_required();
    // What is left dangling needs nobody to see to it, and what stays leaves nothing so.
    let untold = !left && !link.is_told();
    let dangles = left && link.to.spec.stays.is_none();
    let unset = unset.then(|| say::unset_required(link));
    let untold = untold.then(|| say::not_imported(link));
    let dangles = dangles.then(|| say::dangling(link));
    unset.into_iter().chain(untold).chain(dangles)
}
