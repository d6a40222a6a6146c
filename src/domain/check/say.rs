//! Writes findings: the example, what happens, and how to fix it.

use super::{Category, Edge, Example, Fate, Finding, Link, Severity, Specimen};
use crate::domain::model::KindName;

/// Describes a stuck cascade. `chain`: the asynchronous cascade, the cascades that follow it, and the reference that
/// blocks the last resource.
pub(super) fn stuck(chain: &[Link<'_>]) -> Finding {
    let example = row(chain, |nth| match nth {
        0 => Fate::Asked,
        nth if nth == chain.len() => Fate::Stays,
        nth if nth + 1 == chain.len() => Fate::Held,
        _ => Fate::Goes,
    });
    let name = |nth: usize| example.resources[nth].name.as_str();
    let (asked, first) = (name(0), name(1));
    let (blocked, blocker) = (name(chain.len() - 1), name(chain.len()));
    let happens = format!(
        "Deleting {asked} is accepted: {first} refers to it asynchronously, and is deleted after that. \
         {blocked} is blocked by {blocker}, which this deletion will not remove."
    );
    let (cascade, block) = (&chain[..1], &chain[chain.len() - 1..]);
    let fix = format!(
        "Remove asynchronous from {}: then the deletion is refused before anything is sent. Or let \
         {} cascade, {}.",
        fields(cascade),
        fields(block),
        ways_to_unblock(block)
    );
    finding(Category::StuckCascade, chain, example, happens, fix)
}

/// Describes a cycle. In `ring`, each link leads to the kind from which the next one comes.
pub(super) fn cycle(ring: &[Link<'_>]) -> Finding {
    // As a chain: a referrer follows its target, and the first resource refers to the last.
    let upwards: Vec<Link<'_>> = ring.iter().rev().copied().collect();
    let kinds = upwards.iter().map(|link| &link.to.name);
    let example = example(kinds, &upwards, |_| Fate::Held);
    let names: Vec<&str> = example
        .resources
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    let happens = format!(
        "{} block each other: whichever is deleted first, another blocks it, even with a cascade.",
        names.join(", ")
    );
    let native: Vec<Link<'_>> = ring
        .iter()
        .filter(|it| it.holds() && it.from.is_native())
        .copied()
        .collect();
    let fix = match native.is_empty() {
        false => format!(
            "Let one of {} cascade asynchronously (such cycles end), {}.",
            fields(&native),
            ways_to_unblock(&native)
        ),
        true => "If the cloud allows such a cycle, a person must remove one of the references; \
                 otherwise nothing needs to be done."
            .to_owned(),
    };
    finding(Category::Cycle, ring, example, happens, fix)
}

pub(super) fn unset_required(link: &Link<'_>) -> Finding {
    let later = link.reference.asynchronous;
    let example = row(&[*link], |nth| match (nth, later) {
        (0, true) => Fate::Held,
        (0, false) => Fate::Asked,
        _ => Fate::Stays,
    });
    let (to, from) = (&link.to.name, &link.from.name);
    let field = link.field();
    let happens = match later {
        true => format!(
            "Deleting {to} is accepted and never ends: {from} requires its {field}, so the reference is \
             never unset."
        ),
        false => format!(
            "Deleting {to} is refused: {from} requires its {field}, so the reference is not unset, and \
             blocks."
        ),
    };
    let instead = match later {
        true => "\"cascade\"",
        false => "\"block\" or \"cascade\"",
    };
    let one = fields(&[*link]);
    let fix = format!("Set on_delete = {instead} in {one}, or remove required.");
    finding(Category::UnsetRequired, &[*link], example, happens, fix)
}

pub(super) fn not_imported(link: &Link<'_>) -> Finding {
    let example = asked_and_left(link);
    let (mine, theirs) = (&link.from.service, &link.to.service);
    let happens = format!(
        "Deleting {} does not notify the service {mine}, which does not import {theirs}: {} is \
         neither checked nor handled.",
        link.to.name, link.from.name
    );
    let fix = format!("Add \"{theirs}\" to imports in the file of the service {mine}.");
    finding(Category::NotImported, &[*link], example, happens, fix)
}

pub(super) fn dangling(link: &Link<'_>) -> Finding {
    let example = asked_and_left(link);
    let happens = format!(
        "Deleting {} leaves {} with a reference to a deleted resource.",
        link.to.name, link.from.name
    );
    let fix = format!(
        "None, if readers of {} can handle such a reference; otherwise let the reference block, cascade or be unset.",
        fields(&[*link])
    );
    finding(Category::Dangling, &[*link], example, happens, fix)
}

fn asked_and_left(link: &Link<'_>) -> Example {
    row(&[*link], |nth| match nth {
        0 => Fate::Asked,
        _ => Fate::Stays,
    })
}

fn finding(
    category: Category,
    links: &[Link<'_>],
    example: Example,
    happens: String,
    fix: String,
) -> Finding {
    let unsure = links.iter().any(Link::is_conditional);
    let severity = match category {
        Category::Dangling => Severity::Note,
        _ if unsure => Severity::Note,
        _ => Severity::Error,
    };
    let mut kinds: Vec<KindName> = Vec::new();
    for resource in &example.resources {
        if !kinds.contains(&resource.kind) {
            kinds.push(resource.kind.clone());
        }
    }
    Finding {
        severity,
        category,
        kinds,
        example,
        happens,
        fix,
    }
}

/// Builds an example with a resource for the target of the first link, and one for the referrer of each link.
fn row(links: &[Link<'_>], fate: impl Fn(usize) -> Fate) -> Example {
    let target = links.first().map(|link| &link.to.name);
    let referrers = links.iter().map(|link| &link.from.name);
    example(target.into_iter().chain(referrers), links, fate)
}

/// Builds an example: link n leads from resource n + 1 to resource n; in a cycle, the last link comes from the first
/// resource.
fn example<'k>(
    kinds: impl Iterator<Item = &'k KindName>,
    links: &[Link<'_>],
    fate: impl Fn(usize) -> Fate,
) -> Example {
    let kinds: Vec<&KindName> = kinds.collect();
    let same = |upto: &[&KindName], kind: &KindName| upto.iter().filter(|it| **it == kind).count();
    let name = |(nth, kind): (usize, &&KindName)| match same(&kinds, kind) {
        1 => kind.to_string(),
        _ => format!("{kind}-{}", same(&kinds[..=nth], kind)),
    };
    let names: Vec<String> = kinds.iter().enumerate().map(name).collect();
    let edge = |(nth, link): (usize, &Link<'_>)| Edge {
        from: names[(nth + 1) % names.len()].clone(),
        to: names[nth].clone(),
        field: link.field().to_owned(),
        on_delete: link.reference.on_delete,
        asynchronous: link.reference.asynchronous,
    };
    let references = links.iter().enumerate().map(edge).collect();
    let specimens = names.iter().zip(kinds.iter().copied()).enumerate();
    let resources = specimens.map(|(nth, (name, kind))| Specimen {
        name: name.clone(),
        kind: kind.clone(),
        fate: fate(nth),
    });
    Example {
        resources: resources.collect(),
        references,
    }
}

/// Returns the words for how these references can stop blocking their targets while their referrers stay.
fn ways_to_unblock(links: &[Link<'_>]) -> &'static str {
    let required = |link: &Link<'_>| link.from.spec.requires(link.reference);
    match (links.iter().all(required), links.iter().any(required)) {
        (true, _) => "or dangle",
        (_, true) => "be unset (one that is not required) or dangle",
        (_, false) => "be unset or dangle",
    }
}

/// Returns the names of the references' fields, each once, joined by commas: `invoice.customer, order.customer`.
fn fields(links: &[Link<'_>]) -> String {
    let mut named: Vec<String> = Vec::new();
    for link in links {
        let field = format!("{}.{}", link.from.name, link.field());
        if !named.contains(&field) {
            named.push(field);
        }
    }
    named.join(", ")
}
