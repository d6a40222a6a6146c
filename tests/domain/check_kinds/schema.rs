//! Random schemas of kinds, small enough to simulate all their small instances.

use gone::domain::kinds::{Kinds, Source};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;

pub const KINDS_MAX: usize = 4;
const REFERENCES_MAX: usize = 6;
/// Two services with native kinds, and one of a cloud.
const SERVICES: usize = 3;
const CLOUD: usize = 2;

#[derive(Clone, Debug)]
pub struct Schema {
    pub kinds: Vec<KindRow>,
    /// Each reference has a field of its own: `f` and the number of the reference.
    pub references: Vec<ReferenceRow>,
    /// For each service, which services it imports.
    imports: Vec<Vec<bool>>,
}

#[derive(Clone, Debug)]
pub struct KindRow {
    pub service: usize,
    pub stays: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Block,
    Cascade,
    Unset,
    Dangling,
    Automatic,
    WithCascade,
}

#[derive(Clone, Debug)]
pub struct ReferenceRow {
    pub from: usize,
    pub to: usize,
    pub rule: Rule,
    pub asynchronous: bool,
    pub required: bool,
}

impl KindRow {
    pub fn is_native(&self) -> bool {
        self.service != CLOUD
    }
}

impl ReferenceRow {
    pub fn is_automatic(&self) -> bool {
        matches!(self.rule, Rule::Automatic | Rule::WithCascade)
    }
}

impl Schema {
    /// Whether the service of the kind `from` is notified of deletions of the kind `to`.
    pub fn is_notified(&self, from: usize, to: usize) -> bool {
        let (own, other) = (self.kinds[from].service, self.kinds[to].service);
        own == other || own == CLOUD || self.imports[own][other]
    }

    /// Returns the number of the reference with this field.
    pub fn reference_number(field: &str) -> usize {
        field.strip_prefix('f').unwrap().parse().unwrap()
    }

    pub fn load(&self) -> Kinds {
        let services = (0..SERVICES).map(|service| Source {
            file: format!("s{service}.toml"),
            text: self.file_of(service),
        });
        let filled = services.filter(|source| source.text.contains("[kind."));
        gone::cloud::read_kinds(filled).unwrap()
    }

    fn file_of(&self, service: usize) -> String {
        let imported = self.imports[service].iter().enumerate();
        let imported: Vec<String> = imported
            .filter(|(_, imported)| **imported)
            .map(|(other, _)| format!("\"s{other}\""))
            .collect();
        let mut text = format!(
            "service = \"s{service}\"\nimports = [{}]\n",
            imported.join(", ")
        );
        for (number, kind) in self.kinds.iter().enumerate() {
            if kind.service == service {
                text += &self.kind_text(number, kind);
            }
        }
        text
    }

    fn kind_text(&self, number: usize, kind: &KindRow) -> String {
        let own = self.references.iter().enumerate();
        let own: Vec<_> = own.filter(|(_, row)| row.from == number).collect();
        let mut text = if kind.is_native() {
            let fields = own
                .iter()
                .map(|(field, row)| format!("f{field} = {{ required = {} }}\n", row.required));
            let fields: String = fields.collect();
            format!("[kind.k{number}.native.fields]\n{fields}")
        } else {
            let end = match kind.stays {
                true => "stays = \"it is not ours\"".to_owned(),
                false => {
                    format!("call.delete = {{ method = \"DELETE\", path = \"/k{number}/{{id}}\" }}")
                }
            };
            format!(
                "[kind.k{number}]\ncall.not_found = [\"NotFound\"]\ncall.list = {{ path = \"/k{number}\", items = \"items\" }}\n{end}\n[kind.k{number}.list]\n"
            )
        };
        for (field, row) in own {
            let rule = match row.rule {
                Rule::Block => "block",
                Rule::Cascade => "cascade",
                Rule::Unset => "unset",
                Rule::Dangling => "dangling",
                Rule::Automatic => "automatic",
                Rule::WithCascade => "with_cascade",
            };
            text += &format!(
                "[[kind.k{number}.reference]]\nto = \"k{}\"\nfield = \"f{field}\"\non_delete = \"{rule}\"\nasynchronous = {}\nsays = \"of\"\n",
                row.to, row.asynchronous
            );
        }
        text
    }
}

pub fn any_schema() -> impl Strategy<Value = Schema> {
    // Most kinds are native, because most problems can occur only with them.
    let kind = (weighted(0.8), 0..CLOUD, weighted(0.2));
    let kinds = prop_oneof![1 => vec(kind.clone(), 1..=2), 5 => vec(kind, 3..=KINDS_MAX)];
    // Most references lead from one kind to the next in a ring. Otherwise there would be few long paths and rings.
    let off = || prop_oneof![3 => Just(0), 1 => 0..KINDS_MAX];
    let reference = (off(), off(), 0..7_usize, weighted(0.5), weighted(0.3));
    let references = vec(reference, 1..=REFERENCES_MAX);
    let imports = vec(vec(weighted(0.7), SERVICES), SERVICES);
    (kinds, references, imports).prop_map(|(kinds, references, imports)| {
        let kinds = kinds.into_iter().map(|(native, service, stays)| KindRow {
            service: if native { service } else { CLOUD },
            stays: stays && !native,
        });
        let kinds: Vec<KindRow> = kinds.collect();
        let rows = references.into_iter().enumerate();
        let rows = rows.filter_map(|(nth, (from, to, rule, later, required))| {
            let from = (nth + from) % kinds.len();
            let to = (from + 1 + to) % kinds.len();
            reference_of(&kinds, (from, to), rule, later, required)
        });
        Schema {
            references: rows.collect(),
            kinds,
            imports,
        }
    })
}

/// Returns the reference with a rule that kinds files allow here; none if they allow no reference.
fn reference_of(
    kinds: &[KindRow],
    (from, to): (usize, usize),
    rule: usize,
    later: bool,
    required: bool,
) -> Option<ReferenceRow> {
    let native = kinds[from].is_native();
    if kinds[from].stays || (!native && kinds[to].is_native()) {
        return None;
    }
    let rule = match (rule, native) {
        (0, _) => Rule::Block,
        (1, _) => Rule::Cascade,
        (2, _) => Rule::Unset,
        (3, _) => Rule::Dangling,
        (4, false) => Rule::Automatic,
        (5, false) => Rule::WithCascade,
        // No cloud deletes native resources, so these numbers repeat the rules that cause the most problems.
        (4, true) => Rule::Block,
        (_, _) => Rule::Cascade,
    };
    Some(ReferenceRow {
        from,
        to,
        rule,
        asynchronous: native && later && matches!(rule, Rule::Cascade | Rule::Unset),
        required: native && required,
    })
}
