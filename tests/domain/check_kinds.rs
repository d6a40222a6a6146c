//! The findings of `gone check kinds`: of small schemas one by one, and of random schemas, where they must be exactly
//! the problems of the schema's instances.

mod instance;
mod schema;
mod simulation;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use gone::domain::check::{Category, Example, Finding, check};
use gone::domain::kinds::{Kinds, Source};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use instance::{Edge, Instance};
use schema::Schema;
use simulation::{Problem, Simulation};

const RESOURCES_MAX: usize = 5;
/// Schemas with more combinations of targets than this are simulated with fewer resources.
const COMBINATIONS_MAX: usize = 40_000;
const SCHEMAS: u32 = 1_000;

/// The problems and cycles of a schema, each with the number of resources of the smallest instance that has it.
#[derive(Debug, Default)]
struct Problems {
    /// All problems except cycles.
    non_cycles: BTreeMap<Problem, usize>,
    /// The cycles, each by one of its blocking references.
    cycles: BTreeMap<usize, usize>,
}

impl Problems {
    fn record<K: Ord>(sizes: &mut BTreeMap<K, usize>, key: K, resources: usize) {
        let least = sizes.entry(key).or_insert(resources);
        *least = resources.min(*least);
    }

    /// Returns the problems and the cycles that an instance with at most this many resources has.
    fn within(&self, resources: usize) -> (BTreeMap<Problem, usize>, BTreeMap<usize, usize>) {
        let mut non_cycles = self.non_cycles.clone();
        let mut cycles = self.cycles.clone();
        non_cycles.retain(|_, least| *least <= resources);
        cycles.retain(|_, least| *least <= resources);
        (non_cycles, cycles)
    }
}

/// Returns the findings of the check, after checking by simulation that each example has its problem.
fn checked(schema: &Schema) -> Problems {
    let mut found = Problems::default();
    for finding in check(&schema.load()) {
        let resources = finding.example.resources.len();
        let references = finding.example.references.iter();
        let references: Vec<usize> = references
            .map(|it| Schema::reference_number(&it.field))
            .collect();
        let (first, last) = (references[0], references[references.len() - 1]);
        let instance = instance_of(&finding.example);
        let simulation = Simulation::new(schema, &instance);
        let problem = match finding.category {
            Category::Cycle => {
                assert!(
                    simulation.is_ring() && simulation.is_locked(),
                    "no cycle: {finding:?}"
                );
                for reference in simulation.blocking_references() {
                    Problems::record(&mut found.cycles, reference, resources);
                }
                continue;
            }
            Category::StuckCascade => Problem::Stuck(first, last),
            Category::UnsetRequired => Problem::UnsetRequired(first),
            Category::NotImported => Problem::NotImported(first),
            Category::Dangling => Problem::Dangling(first),
        };
        let mut happens = false;
        simulation.delete_each(&mut |it| happens |= it == problem);
        assert!(
            happens,
            "the example does not have its problem: {finding:?}"
        );
        Problems::record(&mut found.non_cycles, problem, resources);
    }
    found
}

/// Converts the example of a finding to an instance.
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
                reference: Schema::reference_number(&edge.field),
            })
            .collect(),
    }
}

/// The result of simulating deletions in the instances of a schema.
#[derive(Debug, Default)]
struct Simulated {
    found: Problems,
    /// The blocking references of each instance in which no call succeeds and which is not a ring.
    locked: BTreeSet<Vec<usize>>,
    has_unfinished_cycle: bool,
    instances: usize,
}

/// Simulates deletions in all instances with up to this many resources.
fn simulate(schema: &Schema, resources_max: usize) -> Simulated {
    let mut simulated = Simulated::default();
    for resources in 1..=resources_max {
        instance::all(schema, resources, &mut |instance| {
            simulated.instances += 1;
            let simulation = Simulation::new(schema, instance);
            simulation.delete_each(&mut |problem| match problem {
                Problem::UnfinishedCycle => simulated.has_unfinished_cycle = true,
                problem => Problems::record(&mut simulated.found.non_cycles, problem, resources),
            });
            if !simulation.is_locked() {
                return;
            }
            if !simulation.is_ring() {
                let blocking = simulation.blocking_references();
                simulated.locked.insert(blocking.collect());
                return;
            }
            for reference in simulation.blocking_references() {
                Problems::record(&mut simulated.found.cycles, reference, resources);
            }
        });
    }
    simulated
}

/// Number of schemas with a property, and without it.
#[derive(Clone, Copy, Debug, Default)]
struct SchemaCounts {
    with: u32,
    without: u32,
}

impl SchemaCounts {
    fn count(&mut self, with: bool) {
        match with {
            true => self.with += 1,
            false => self.without += 1,
        }
    }
}

/// Statistics of the random schemas, which show that all kinds of problems occur often enough.
#[derive(Debug, Default)]
struct Coverage {
    schemas_by_resources: BTreeMap<usize, u32>,
    instances: usize,
    stuck_by_resources: BTreeMap<usize, u32>,
    cycles_by_resources: BTreeMap<usize, u32>,
    schemas_by_property: BTreeMap<&'static str, SchemaCounts>,
}

impl Coverage {
    fn count(&mut self, resources_max: usize, simulated: &Simulated) {
        *self.schemas_by_resources.entry(resources_max).or_default() += 1;
        self.instances += simulated.instances;
        for (problem, resources) in &simulated.found.non_cycles {
            if matches!(problem, Problem::Stuck(..)) {
                *self.stuck_by_resources.entry(*resources).or_default() += 1;
            }
        }
        for resources in simulated.found.cycles.values() {
            *self.cycles_by_resources.entry(*resources).or_default() += 1;
        }
        let any = |fits: fn(&Problem) -> bool| simulated.found.non_cycles.keys().any(fits);
        for (property, with) in [
            ("stuck", any(|it| matches!(it, Problem::Stuck(..)))),
            ("unset", any(|it| matches!(it, Problem::UnsetRequired(_)))),
            ("imports", any(|it| matches!(it, Problem::NotImported(_)))),
            ("dangling", any(|it| matches!(it, Problem::Dangling(_)))),
            ("cycle", !simulated.found.cycles.is_empty()),
            ("cycle of another shape", !simulated.locked.is_empty()),
            ("unfinished cycle", simulated.has_unfinished_cycle),
        ] {
            self.schemas_by_property
                .entry(property)
                .or_default()
                .count(with);
        }
    }
}

#[test]
fn g11_the_check_finds_exactly_the_problems_that_some_instance_has() {
    let coverage = RefCell::new(Coverage::default());
    let config = Config {
        cases: SCHEMAS,
        failure_persistence: None,
        ..Config::default()
    };
    // The schemas are the same each time, so that their coverage does not depend on chance.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let done = runner.run(&schema::any_schema(), |schema| {
        let resources_max = instance::resources_max(&schema, RESOURCES_MAX, COMBINATIONS_MAX);
        let found = checked(&schema);
        let simulated = simulate(&schema, resources_max);
        assert_eq!(
            found.within(resources_max),
            simulated.found.within(resources_max),
            "the findings of the check, and the problems of instances with up to {resources_max} resources"
        );
        for blocking in &simulated.locked {
            let known = blocking.iter().any(|it| found.cycles.contains_key(it));
            assert!(
                known,
                "no call succeeds, but the check found no cycle: {blocking:?}"
            );
        }
        let explained = !simulated.has_unfinished_cycle || !found.cycles.is_empty();
        assert!(explained, "a deletion does not end, but the check found no cycle");
        coverage.borrow_mut().count(resources_max, &simulated);
        Ok(())
    });
    done.unwrap();
    let coverage = coverage.into_inner();
    println!("{coverage:#?}");
    for (property, counts) in &coverage.schemas_by_property {
        let least = counts.with.min(counts.without);
        assert!(least >= SCHEMAS / 40, "{property}: {counts:?}");
    }
}

/// The shipped kinds and native kinds of a service `billing`. Each line is a reference:
/// `invoice.customer -> customer: cascade, asynchronous, required`.
fn with_billing(imports: &str, references: &[&str]) -> Kinds {
    let mut kinds: BTreeMap<&str, (String, String)> = BTreeMap::new();
    for line in references {
        let (from, rest) = line.split_once('.').unwrap();
        let (field, rest) = rest.split_once(" -> ").unwrap();
        let (to, words) = rest.split_once(": ").unwrap();
        let words: Vec<&str> = words.split(", ").collect();
        let has = |word| words.contains(&word);
        if !matches!(to, "network" | "project") {
            kinds.entry(to).or_default();
        }
        let (fields, references) = kinds.entry(from).or_default();
        *fields += &format!("{field} = {{ required = {} }}\n", has("required"));
        *references += &format!(
            "[[kind.{from}.reference]]\nto = \"{to}\"\nfield = \"{field}\"\non_delete = \"{}\"\nasynchronous = {}\nsays = \"of\"\n",
            words[0],
            has("asynchronous"),
        );
    }
    let mut text = format!("service = \"billing\"\nimports = [{imports}]\n");
    for (kind, (fields, references)) in kinds {
        text += &format!("[kind.{kind}.native.fields]\n{fields}{references}");
    }
    let file = "billing.toml".to_owned();
    gone::cloud::load_kinds(&[Source { file, text }]).unwrap()
}

/// Returns the findings except those of the shipped kinds, as `error cycle a-1 < a-2`: each resource refers to the one
/// before it.
fn found(imports: &str, references: &[&str]) -> Vec<String> {
    let is_of_billing = |finding: &Finding| !finding.kinds.iter().any(|it| it.as_str() == "port");
    let findings = check(&with_billing(imports, references));
    let findings = findings.iter().filter(|it| is_of_billing(it));
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
    const ASYNC_CASCADE: &str = "invoice.customer -> customer: cascade, asynchronous";
    let cases: &[(&[&str], &[&str])] = &[
        // The deletion is accepted, and then blocked by a resource that is not deleted.
        (
            &[ASYNC_CASCADE, "payment.invoice -> invoice: block"],
            &["error stuck_cascade customer < invoice < payment"],
        ),
        (
            &[
                ASYNC_CASCADE,
                "line.invoice -> invoice: cascade",
                "claim.line -> line: block",
            ],
            &["error stuck_cascade customer < invoice < line < claim"],
        ),
        // The example has the shorter of two paths.
        (
            &[
                ASYNC_CASCADE,
                "line.invoice -> invoice: cascade",
                "memo.invoice -> invoice: cascade",
                "page.memo -> memo: cascade",
                "tax.line -> line: cascade",
                "tax.page -> page: cascade",
                "claim.tax -> tax: block",
            ],
            &["error stuck_cascade customer < invoice < line < tax < claim"],
        ),
        // `block` refuses the deletion before anything is sent, which is its purpose.
        (
            &[
                "invoice.customer -> customer: cascade",
                "payment.invoice -> invoice: block",
            ],
            &[],
        ),
        (&[ASYNC_CASCADE, "note.customer -> customer: block"], &[]),
        // A reference that is unset, or whose referrer is deleted too, does not block for ever.
        (&[ASYNC_CASCADE, "payment.invoice -> invoice: cascade"], &[]),
        (&[ASYNC_CASCADE, "payment.invoice -> invoice: unset"], &[]),
        (
            &[ASYNC_CASCADE, "payment.invoice -> invoice: unset, required"],
            &[
                "error stuck_cascade customer < invoice < payment",
                "error unset_required invoice < payment",
            ],
        ),
        (
            &["payment.invoice -> invoice: unset, asynchronous, required"],
            &["error unset_required invoice < payment"],
        ),
        // Cycles.
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
        // Dangling references, and references that are not imported.
        (
            &["note.customer -> customer: dangling"],
            &["note dangling customer < note"],
        ),
        // A kind that is never deleted leaves no reference dangling.
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
fn g11_a_finding_says_which_kind_blocks_which_and_how_to_fix_it() {
    let kinds = with_billing(
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

/// The port of a VIP is deleted with the load balancer that its device_id names, and a load balancer blocks the port of
/// its VIP. The kinds allow two load balancers to have each other's port, although Octavia never creates this. The same
/// is true of a local IP and a load balancer.
#[test]
fn the_shipped_kinds_have_no_error() {
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let found: Vec<String> = check(&kinds).iter().map(shown).collect();
    let crosswise = "note cycle load_balancer-1 < port-1 < load_balancer-2 < port-2";
    let local = "note cycle local_ip < port-1 < load_balancer < port-2";
    assert_eq!(found, [crosswise, crosswise, local]);
}
