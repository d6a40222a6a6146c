//! What `gone check kinds` finds: in small schemas one by one, and in random ones exactly what happens in
//! some instance of theirs.

mod instance;
mod run;
mod schema;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use gone::domain::check::{Category, Example, Finding, check};
use gone::domain::kinds::{Kinds, Source};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use instance::{Edge, Instance};
use run::{Seen, World};
use schema::Schema;

const RESOURCES_MAX: usize = 5;
/// Schemas of which there are more instances than this are tried with fewer resources.
const TRIES: usize = 40_000;
const SCHEMAS: u32 = 1_000;

/// What is found, and with how many resources at least. A cycle by one of its references that hold.
#[derive(Debug, Default)]
struct Found {
    alone: BTreeMap<Seen, usize>,
    cycles: BTreeMap<usize, usize>,
}

impl Found {
    fn keep<K: Ord>(found: &mut BTreeMap<K, usize>, key: K, resources: usize) {
        let least = found.entry(key).or_insert(resources);
        *least = resources.min(*least);
    }

    fn within(&self, resources: usize) -> (BTreeMap<Seen, usize>, BTreeMap<usize, usize>) {
        let mut alone = self.alone.clone();
        let mut cycles = self.cycles.clone();
        alone.retain(|_, least| *least <= resources);
        cycles.retain(|_, least| *least <= resources);
        (alone, cycles)
    }
}

/// What the check says, and that each example does what is said of it.
fn checked(schema: &Schema) -> Found {
    let mut found = Found::default();
    for finding in check(&schema.load()) {
        let resources = finding.example.resources.len();
        let references = finding.example.references.iter();
        let references: Vec<usize> = references.map(|it| Schema::numbered(&it.field)).collect();
        let (first, last) = (references[0], references[references.len() - 1]);
        let instance = instance_of(&finding.example);
        let world = World::new(schema, &instance);
        let seen = match finding.category {
            Category::Cycle => {
                assert!(
                    world.is_ring() && world.is_locked(),
                    "no cycle: {finding:?}"
                );
                for reference in world.holding() {
                    Found::keep(&mut found.cycles, reference, resources);
                }
                continue;
            }
            Category::StuckCascade => Seen::Stuck(first, last),
            Category::UnsetRequired => Seen::UnsetRequired(first),
            Category::NotImported => Seen::NotImported(first),
            Category::Dangling => Seen::Dangling(first),
        };
        let mut happens = false;
        world.delete_each(&mut |it| happens |= it == seen);
        assert!(happens, "it does not happen: {finding:?}");
        Found::keep(&mut found.alone, seen, resources);
    }
    found
}

fn instance_of(example: &Example) -> Instance {
    let named = |name: &str| {
        let mut resources = example.resources.iter();
        resources.position(|it| it.name == name).unwrap()
    };
    let kinds = example.resources.iter();
    let kind = |name: &str| name.strip_prefix('k').unwrap().parse().unwrap();
    Instance {
        kinds: kinds.map(|it| kind(it.kind.as_str())).collect(),
        edges: example
            .references
            .iter()
            .map(|edge| Edge {
                from: named(&edge.from),
                to: named(&edge.to),
                reference: Schema::numbered(&edge.field),
            })
            .collect(),
    }
}

/// What happens in the instances of a schema.
#[derive(Debug, Default)]
struct Tried {
    found: Found,
    /// The references that hold where no call succeeds, of other shapes than rings.
    locked: BTreeSet<Vec<usize>>,
    left_in_a_circle: bool,
    instances: usize,
}

fn tried(schema: &Schema, resources_max: usize) -> Tried {
    let mut tried = Tried::default();
    for resources in 1..=resources_max {
        instance::all(schema, resources, &mut |instance| {
            tried.instances += 1;
            let world = World::new(schema, instance);
            world.delete_each(&mut |seen| match seen {
                Seen::LeftInACircle => tried.left_in_a_circle = true,
                seen => Found::keep(&mut tried.found.alone, seen, resources),
            });
            if !world.is_locked() {
                return;
            }
            if !world.is_ring() {
                tried.locked.insert(world.holding().collect());
                return;
            }
            for reference in world.holding() {
                Found::keep(&mut tried.found.cycles, reference, resources);
            }
        });
    }
    tried
}

/// How many schemas had and had not what is asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Both {
    with: u32,
    without: u32,
}

impl Both {
    fn count(&mut self, with: bool) {
        match with {
            true => self.with += 1,
            false => self.without += 1,
        }
    }
}

#[derive(Debug, Default)]
struct Coverage {
    schemas_by_resources: BTreeMap<usize, u32>,
    instances: usize,
    stuck_by_resources: BTreeMap<usize, u32>,
    cycles_by_resources: BTreeMap<usize, u32>,
    answers: BTreeMap<&'static str, Both>,
}

impl Coverage {
    fn count(&mut self, resources_max: usize, tried: &Tried) {
        *self.schemas_by_resources.entry(resources_max).or_default() += 1;
        self.instances += tried.instances;
        for (seen, resources) in &tried.found.alone {
            if matches!(seen, Seen::Stuck(..)) {
                *self.stuck_by_resources.entry(*resources).or_default() += 1;
            }
        }
        for resources in tried.found.cycles.values() {
            *self.cycles_by_resources.entry(*resources).or_default() += 1;
        }
        let any = |fits: fn(&Seen) -> bool| tried.found.alone.keys().any(fits);
        for (answer, with) in [
            ("stuck", any(|it| matches!(it, Seen::Stuck(..)))),
            ("unset", any(|it| matches!(it, Seen::UnsetRequired(_)))),
            ("imports", any(|it| matches!(it, Seen::NotImported(_)))),
            ("dangling", any(|it| matches!(it, Seen::Dangling(_)))),
            ("cycle", !tried.found.cycles.is_empty()),
            ("cycle of another shape", !tried.locked.is_empty()),
            ("circle on the way", tried.left_in_a_circle),
        ] {
            self.answers.entry(answer).or_default().count(with);
        }
    }
}

#[test]
fn g11_the_check_finds_exactly_what_happens_in_some_instance() {
    let coverage = RefCell::new(Coverage::default());
    let config = Config {
        cases: SCHEMAS,
        failure_persistence: None,
        ..Config::default()
    };
    // The same schemas each time, so that what they cover is no matter of luck.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let done = runner.run(&schema::any_schema(), |schema| {
        let resources_max = instance::resources_max(&schema, RESOURCES_MAX, TRIES);
        let found = checked(&schema);
        let tried = tried(&schema, resources_max);
        assert_eq!(
            found.within(resources_max),
            tried.found.within(resources_max),
            "the check, and what happened with up to {resources_max} resources"
        );
        for holding in &tried.locked {
            let known = holding.iter().any(|it| found.cycles.contains_key(it));
            assert!(
                known,
                "no call succeeds, and no cycle was found: {holding:?}"
            );
        }
        let explained = !tried.left_in_a_circle || !found.cycles.is_empty();
        assert!(explained, "a deletion does not end, and nothing says why");
        coverage.borrow_mut().count(resources_max, &tried);
        Ok(())
    });
    done.unwrap();
    let coverage = coverage.into_inner();
    println!("{coverage:#?}");
    for (answer, both) in &coverage.answers {
        let least = both.with.min(both.without);
        assert!(least >= SCHEMAS / 40, "{answer}: {both:?}");
    }
}

/// Kinds of a service of ours, beside those that are shipped. A line is a reference:
/// `invoice.customer -> customer: cascade, asynchronous, required`.
fn with_ours(imports: &str, references: &[&str]) -> Kinds {
    let mut kinds: BTreeMap<&str, (String, String)> = BTreeMap::new();
    for line in references {
        let (from, rest) = line.split_once('.').unwrap();
        let (field, rest) = rest.split_once(" -> ").unwrap();
        let (to, said) = rest.split_once(": ").unwrap();
        let said: Vec<&str> = said.split(", ").collect();
        let says = |word| said.contains(&word);
        if !matches!(to, "network" | "project") {
            kinds.entry(to).or_default();
        }
        let (fields, references) = kinds.entry(from).or_default();
        *fields += &format!("{field} = {{ required = {} }}\n", says("required"));
        *references += &format!(
            "[[kind.{from}.reference]]\nto = \"{to}\"\nfield = \"{field}\"\non_delete = \"{}\"\nasynchronous = {}\nsays = \"of\"\n",
            said[0],
            says("asynchronous"),
        );
    }
    let mut text = format!("service = \"billing\"\nimports = [{imports}]\n");
    for (kind, (fields, references)) in kinds {
        text += &format!("[kind.{kind}.native.fields]\n{fields}{references}");
    }
    let file = "billing.toml".to_owned();
    gone::cloud::load_kinds(&[Source { file, text }]).unwrap()
}

/// What is found beside what the shipped kinds give: `cycle a-1 < a-2`, each refers to what is before it.
fn found(imports: &str, references: &[&str]) -> Vec<String> {
    let ours = |finding: &Finding| !finding.kinds.iter().any(|it| it.as_str() == "port");
    let findings = check(&with_ours(imports, references));
    let findings = findings.iter().filter(|it| ours(it));
    findings.map(shown).collect()
}

fn shown(finding: &Finding) -> String {
    let resources = finding.example.resources.iter();
    let resources: Vec<&str> = resources.map(|it| it.name.as_str()).collect();
    let (severity, category) = (finding.severity.as_str(), finding.category.as_str());
    format!("{severity} {category} {}", resources.join(" < "))
}

#[test]
fn g11_each_finding_has_its_smallest_example() {
    const LATER: &str = "invoice.customer -> customer: cascade, asynchronous";
    let cases: &[(&[&str], &[&str])] = &[
        // Accepted, and then held by what does not go.
        (
            &[LATER, "payment.invoice -> invoice: block"],
            &["error stuck_cascade customer < invoice < payment"],
        ),
        (
            &[
                LATER,
                "line.invoice -> invoice: cascade",
                "claim.line -> line: block",
            ],
            &["error stuck_cascade customer < invoice < line < claim"],
        ),
        // By the shorter of two ways.
        (
            &[
                LATER,
                "line.invoice -> invoice: cascade",
                "memo.invoice -> invoice: cascade",
                "page.memo -> memo: cascade",
                "tax.line -> line: cascade",
                "tax.page -> page: cascade",
                "claim.tax -> tax: block",
            ],
            &["error stuck_cascade customer < invoice < line < tax < claim"],
        ),
        // Refused while nothing was sent: that is what block is for.
        (
            &[
                "invoice.customer -> customer: cascade",
                "payment.invoice -> invoice: block",
            ],
            &[],
        ),
        (&[LATER, "note.customer -> customer: block"], &[]),
        // What is let go of, or goes too, holds nothing for ever.
        (&[LATER, "payment.invoice -> invoice: cascade"], &[]),
        (&[LATER, "payment.invoice -> invoice: unset"], &[]),
        (
            &[LATER, "payment.invoice -> invoice: unset, required"],
            &[
                "error stuck_cascade customer < invoice < payment",
                "error unset_required invoice < payment",
            ],
        ),
        (
            &["payment.invoice -> invoice: unset, asynchronous, required"],
            &["error unset_required invoice < payment"],
        ),
        // Rings.
        (
            &["folder.parent -> folder: cascade"],
            &["error cycle folder-1 < folder-2"],
        ),
        (&["folder.parent -> folder: cascade, asynchronous"], &[]),
        (&["folder.parent -> folder: unset"], &[]),
        (
            &[
                "a.b -> b: block",
                "b.c -> c: cascade",
                "c.a -> a: unset, required",
            ],
            &["error cycle a < c < b", "error unset_required a < c"],
        ),
        (
            &["a.b -> b: block", "b.a -> a: cascade, asynchronous"],
            &["error stuck_cascade a-1 < b < a-2"],
        ),
        // What nobody sees to.
        (
            &["note.customer -> customer: dangling"],
            &["note dangling customer < note"],
        ),
        // What stays leaves nothing dangling.
        (&["note.project -> project: dangling"], &[]),
        (
            &["lease.network -> network: block"],
            &["error not_imported network < lease"],
        ),
        (
            &["lease.network -> network: dangling"],
            &["note dangling network < lease"],
        ),
    ];
    for (references, expected) in cases {
        assert_eq!(found("", references), *expected, "{references:?}");
    }
    let lease = ["lease.network -> network: block"];
    assert!(found("\"network\"", &lease).is_empty());
}

#[test]
fn g11_a_finding_says_what_is_blocked_by_what_and_how_to_mend_it() {
    let kinds = with_ours(
        "",
        &[
            "invoice.customer -> customer: cascade, asynchronous",
            "payment.invoice -> invoice: block",
        ],
    );
    let findings = check(&kinds);
    let finding = findings.first().unwrap();
    assert_eq!(
        finding.happens,
        "Deleting customer is accepted: invoice refers to it asynchronously, and is deleted after that. \
         invoice is blocked by payment, which this deletion will not remove."
    );
    assert!(finding.fix.contains("invoice.customer") && finding.fix.contains("payment.invoice"));
}

/// A VIP's port goes with the balancer that its device_id names, and a balancer holds its VIP's port. By
/// the kinds alone these might be of two balancers, crosswise; Octavia makes them for one. So might a local IP
/// and a balancer have each other's port.
#[test]
fn the_shipped_kinds_have_no_error() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let found: Vec<String> = check(&kinds).iter().map(shown).collect();
    let crosswise = "note cycle load_balancer-1 < port-1 < load_balancer-2 < port-2";
    let local = "note cycle local_ip < port-1 < load_balancer < port-2";
    assert_eq!(found, [crosswise, crosswise, local]);
}
