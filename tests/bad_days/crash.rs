//! `kill -9` at any moment: the next engine continues where the killed one ended.

use std::collections::{BTreeMap, BTreeSet};

use gone::domain::kinds::Kind;
use gone::domain::model::{KindName, Step};
use gone::ledger::sqlite::SqliteLedger;
use gone::ledger::{Cursor, StepFilter, Views as _, audit};
use serde_json::{Value, json};

use super::estate::{Estate, Outer};
use super::support::{LoggedCall, Running, Stage, assert_counts_sum, text, wait_for};

/// The highest number of calls in flight, and so of the calls that may be repeated after each kill.
const CONCURRENCY: usize = 4;
const COLLECTIONS: [&str; 6] = [
    "networks",
    "subnets",
    "ports",
    "routers",
    "trunks",
    "floatingips",
];

struct CrashTest {
    stage: Stage,
    network: String,
    before: BTreeMap<&'static str, Vec<Value>>,
    kills: usize,
}

impl CrashTest {
    /// A network with ports, a trunk, a router's interface and a floating IP, and another such network,
    /// which stays.
    fn new(ports: u32) -> Self {
        let stage = Stage::new();
        stage.settings(&format!(
            "[engine]\nconcurrency = {CONCURRENCY}\nconcurrency_max = {CONCURRENCY}\n"
        ));
        let like = |name: &str, ports: u32| {
            stage.seed(json!({
                "name": name, "networks": 1, "ports_per_network": ports, "routers": 1,
                "trunks": 1, "floating_ips": 1,
            }))
        };
        let network = text(&like("doomed", ports)["networks"][0]);
        like("kept", 5);
        let before = COLLECTIONS.map(|name| (name, stage.list(name))).into();
        stage.limits(json!({"latency_ms": 20, "parallel": CONCURRENCY}));
        Self {
            stage,
            network,
            before,
            kills: 0,
        }
    }

    fn delete(&self) -> String {
        let line = format!("delete network/{} --cascade --yes -o json", self.network);
        let accepted = self.stage.gone(&line).ok().json();
        text(&accepted["id"])
    }

    fn kill(&mut self, engine: Running) {
        engine.kill();
        self.kills += 1;
    }

    /// Lets a new engine finish the deletion, then checks the cloud, the calls and the ledger.
    fn finish_and_check(&self, id: &str) {
        let engine = self.stage.engine();
        let deletion = self.stage.await_state(id, "gone");
        engine.stop().ok();
        assert_counts_sum(&deletion);
        let counts = &deletion["counts"];
        assert_eq!(counts["gone"], counts["total"], "{deletion}");
        self.assert_cloud();
        self.assert_calls();
        self.assert_ledger(id);
    }

    /// Asserts that the network and all that depends on it are gone, that all other resources still exist, and that the
    /// floating IP of the network has no port.
    fn assert_cloud(&self) {
        let mine = |row: &Value, key: &str| row[key] == self.network.as_str();
        let ports: BTreeSet<String> = self.before["ports"]
            .iter()
            .filter(|port| mine(port, "network_id"))
            .map(|port| text(&port["id"]))
            .collect();
        for (name, before) in &self.before {
            let stays = |row: &&Value| match *name {
                "networks" => !mine(row, "id"),
                "subnets" | "ports" => !mine(row, "network_id"),
                "trunks" => !ports.contains(&text(&row["port_id"])),
                _ => true,
            };
            let mut expected: Vec<String> = before
                .iter()
                .filter(stays)
                .map(|row| text(&row["id"]))
                .collect();
            expected.sort();
            assert_eq!(self.stage.ids(name), expected, "{name}");
        }
        let free = |row: &Value| row["port_id"].is_null();
        let floating_ips = self.stage.list("floatingips");
        let freed = floating_ips.iter().filter(|row| free(row)).count();
        assert_eq!(
            freed, 1,
            "the floating IP of the deleted network stays, disassociated"
        );
    }

    fn assert_calls(&self) {
        assert_repeated(&self.stage, self.kills * CONCURRENCY, &BTreeMap::new());
    }

    fn assert_ledger(&self, id: &str) {
        assert_ledger(&self.stage, id);
    }
}

/// Asserts that no call took effect twice, and that at most `allowed` calls were repeated. A path in
/// `resources_of_path` stands for the number of resources in that map, and any other path for one.
fn assert_repeated(stage: &Stage, allowed: usize, resources_of_path: &BTreeMap<String, usize>) {
    let mut by_call: BTreeMap<String, Vec<LoggedCall>> = BTreeMap::new();
    for call in stage.writes() {
        let key = format!("{} {}", call.method, call.path);
        by_call.entry(key).or_default().push(call);
    }
    let mut repeated = 0;
    for (call, sent) in &by_call {
        let path = resources_of_path
            .iter()
            .find(|(path, _)| call.ends_with(path.as_str()));
        let resources = path.map_or(1, |(_, resources)| *resources);
        repeated += sent.len().saturating_sub(resources);
        let took = |call: &&LoggedCall| call.status.is_some_and(|status| status < 300);
        let effects = sent.iter().filter(took).count();
        assert!(
            effects <= resources,
            "{call} took effect {effects} times, for {resources}: {sent:?}"
        );
    }
    assert!(
        repeated <= allowed,
        "{repeated} repeated, {allowed} allowed"
    );
}

/// Asserts that the hash chain of the audit is intact, that the audit has one delete, and that every step of the
/// deletion is gone.
fn assert_ledger(stage: &Stage, id: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let ledger = SqliteLedger::open_reader(&stage.ledger()).unwrap();
        let rows = ledger.audit(0, 500).await.unwrap();
        audit::verify(audit::GENESIS, &rows).unwrap();
        let deletes = rows.iter().filter(|row| row.action == "delete").count();
        assert_eq!(deletes, 1, "{rows:?}");
        let kept = ledger.deletion(id).await.unwrap().unwrap();
        assert_eq!(kept.counts.gone, kept.counts.total);
    });
}

#[test]
fn t08_i11_41_kills_lose_nothing_and_repeat_only_calls_in_flight() {
    let mut test = CrashTest::new(400);
    let mut engine = test.stage.engine();
    let id = test.delete();
    for kill in 1..=40 {
        test.stage.await_writes(kill * 10);
        test.kill(engine);
        engine = test.stage.engine();
    }
    engine.kill();
    test.kills += 1;
    test.finish_and_check(&id);
}

#[test]
fn t08_the_next_engine_plans_a_deletion_whose_engine_was_killed_at_acceptance() {
    let mut test = CrashTest::new(20);
    let engine = test.stage.engine();
    let id = test.delete();
    test.kill(engine);
    assert!(test.stage.writes().len() <= CONCURRENCY);
    test.finish_and_check(&id);
}

#[test]
fn t08_a_deletion_whose_engine_is_killed_while_it_lists_is_planned_again() {
    let mut test = CrashTest::new(20);
    // Slow enough that the kills hit the planning.
    test.stage.limits(json!({"latency_ms": 150, "parallel": 1}));
    let engine = test.stage.engine();
    let id = test.delete();
    let listed = |test: &CrashTest| test.stage.calls().len();
    let mut engine = Some(engine);
    for _ in 0..4 {
        let from = listed(&test);
        wait_for("three calls", || listed(&test) >= from + 3);
        assert!(
            test.stage.writes().is_empty(),
            "no write is sent during planning"
        );
        test.kill(engine.take().unwrap());
        engine = Some(test.stage.engine());
    }
    test.kill(engine.take().unwrap());
    test.stage
        .limits(json!({"latency_ms": 20, "parallel": CONCURRENCY}));
    test.finish_and_check(&id);
}

#[test]
fn t08_absence_is_confirmed_although_engines_are_killed_while_they_confirm_it() {
    let mut test = CrashTest::new(20);
    let mut engine = test.stage.engine();
    // Slow enough that the next fault is set before the absence of the network can be confirmed.
    let delete = json!({"method": "DELETE", "id": test.network});
    test.stage
        .faults(json!([{"match": delete, "action": {"delay_ms": 3_000}}]));
    let id = test.delete();
    // The network's own delete is the last write; only observations follow, and each is refused until the last kill.
    wait_for("the last delete", || {
        !test.stage.deletes_of(&test.network).is_empty()
    });
    let observations = json!({"method": "GET", "path": "/v2.0/networks"});
    test.stage
        .faults(json!([{"match": observations, "action": {"status": 503}}]));
    let refused = |test: &CrashTest| {
        let calls = test.stage.calls().into_iter();
        calls.filter(|call| call.status == Some(503)).count()
    };
    for _ in 0..4 {
        let before = refused(&test);
        wait_for("an observation", || refused(&test) > before);
        assert_eq!(test.stage.show(&id)["state"], "running");
        test.kill(engine);
        engine = test.stage.engine();
    }
    test.kill(engine);
    test.stage.faults(json!([]));
    test.finish_and_check(&id);
}

/// Lists the resources of a project at each service of a region, without those that Neutron creates by itself.
fn resources_of(stage: &Stage, region: &str, project: &str) -> Vec<String> {
    const SERVICES: [(&str, &str, &str); 3] = [
        (
            "network/v2.0",
            "project_id",
            "networks subnets ports routers trunks floatingips subnetpools address-scopes \
             address-groups qos/policies rbac-policies security-groups local_ips \
             metering/metering-labels",
        ),
        (
            "load-balancer/v2.0/lbaas",
            "project_id",
            "loadbalancers listeners pools healthmonitors l7policies",
        ),
        ("image/v2", "owner", "images"),
    ];
    let mut found = Vec::new();
    for (service, filter, collections) in SERVICES {
        for collection in collections.split_whitespace() {
            let path = format!("{region}/{service}/{collection}?{filter}={project}");
            let answer = stage.as_client("GET", &path, Value::Null);
            let rows = collection.rsplit('/').next().unwrap().replace('-', "_");
            let rows = answer[rows].as_array().unwrap();
            let own = rows.iter().filter(|row| row["name"] != "default");
            found.extend(own.map(|row| format!("{collection} {}", text(&row["id"]))));
        }
    }
    found
}

/// Gives the project `demo` a resource of every kind of the estate, and a network with ports.
fn furnish(stage: &Stage, region: &str, demo: &str) -> Estate {
    stage.seed(json!({
        "region": region, "project": "demo", "networks": 1, "ports_per_network": 30,
    }));
    let send = |method: &str, path: &str, body: Value| {
        let service = match path {
            path if path.starts_with("/v2.0/lbaas") => "load-balancer",
            path if path.starts_with("/v2.0") => "network",
            _ => "image",
        };
        stage.as_client(method, &format!("{region}/{service}{path}"), body)
    };
    let outer = Outer::make(&send);
    Estate::furnish(demo, &outer, &send)
}

/// Whether the estate has no resource of this kind: servers and volumes have tests of their own, and the practice
/// cloud lacks some extensions.
fn is_not_in_estate(kind: &Kind) -> bool {
    let needed = kind.calls.extension();
    let estate = ["network", "load-balancer", "image", "identity"];
    !estate.contains(&kind.service.as_str())
        || needed.is_some_and(|it| it.starts_with("bgp") || it.starts_with("vpn"))
}

fn steps_of(stage: &Stage, id: &str) -> Vec<Step> {
    let filter = StepFilter {
        deletion_id: Some(id.to_owned()),
        ..StepFilter::default()
    };
    let ledger = SqliteLedger::open_reader(&stage.ledger()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (after, limit) = (None, 500);
    let steps = ledger.steps(filter, Cursor { after, limit });
    runtime.block_on(steps).unwrap().rows
}

/// Counts the interfaces of each router by the path that removes them. All interfaces of a router have the same
/// path; the body names the interface.
fn interfaces_of_path(steps: &[Step]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for step in steps {
        let key = &step.resource.key;
        if let ("router_interface", Some((router, _))) = (key.kind.as_str(), key.id.split_once(','))
        {
            let path = format!("/routers/{router}/remove_router_interface");
            *counts.entry(path).or_default() += 1;
        }
    }
    counts
}

/// Asserts that there is a step of every kind of the estate except the project, which stays.
fn assert_every_kind(steps: &[Step]) {
    let met: BTreeSet<&KindName> = steps.iter().map(|step| &step.resource.key.kind).collect();
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let names = kinds.iter().filter(|kind| !is_not_in_estate(kind));
    let names = names.map(|kind| &kind.name);
    let missed: Vec<_> = names.filter(|name| !met.contains(name)).collect();
    assert_eq!(missed, [&KindName::new("project")]);
}

#[test]
fn t08_t09_i11_kills_lose_nothing_and_repeat_only_calls_in_flight_for_every_kind() {
    let regions = ["RegionOne", "RegionTwo"];
    let stage = Stage::in_regions(&regions);
    stage.settings(&format!(
        "[engine]\nconcurrency = {CONCURRENCY}\nconcurrency_max = {CONCURRENCY}\n\
         [[mapping]]\ncentral = 'prod/RegionOne'\nlocals = ['prod/RegionTwo']\n"
    ));
    let projects = stage.as_client("GET", "v3/projects?name=demo", Value::Null);
    let demo = text(&projects["projects"][0]["id"]);
    let network = |region: &str, name: &str| {
        let seed = json!({"region": region, "name": name, "networks": 1, "ports_per_network": 20});
        text(&stage.seed(seed)["networks"][0])
    };
    let mut targets = String::from("project/demo");
    for region in regions {
        // All resources of the estate are targets: otherwise the cloud would remove some along with their load balancer
        // or image, without steps of their own.
        for (kind, id) in furnish(&stage, region, &demo).0 {
            targets += &format!(" {kind}/{id}@prod/{region}");
        }
        assert!(resources_of(&stage, region, &demo).len() > 50, "{region}");
    }
    let original = network(regions[0], "web");
    let copy = network(regions[1], "web");
    let kept = network(regions[1], "kept");
    let tags = json!({"tags": [format!("gone:copy-of={original}")]});
    let path = format!("RegionTwo/network/v2.0/networks/{copy}/tags");
    stage.as_client("PUT", &path, tags);
    for region in regions {
        stage.limits(json!({"region": region, "latency_ms": 20, "parallel": CONCURRENCY}));
    }

    let engine = || stage.engine_by("--all-regions --engine");
    let mut running = engine();
    let line = format!(
        "--all-regions delete {targets} network/{original}@prod/RegionOne --cascade --yes -o json"
    );
    let id = text(&stage.gone(&line).ok().json()["id"]);
    const KILLS: usize = 12;
    for kill in 1..=KILLS {
        stage.await_writes(kill * 10);
        running.kill();
        running = engine();
    }
    let deletion = stage.await_state(&id, "gone");
    running.stop().ok();
    assert_counts_sum(&deletion);
    let steps = steps_of(&stage, &id);
    let allowed = KILLS * CONCURRENCY * regions.len();
    assert_repeated(&stage, allowed, &interfaces_of_path(&steps));
    assert_ledger(&stage, &id);
    assert_every_kind(&steps);
    for region in regions {
        assert_eq!(
            resources_of(&stage, region, &demo),
            Vec::<String>::new(),
            "{region}"
        );
    }
    let left = stage.as_client("GET", "RegionTwo/network/v2.0/networks", Value::Null);
    let left = left["networks"].as_array().unwrap().iter();
    let left: Vec<String> = left
        .filter(|row| row["name"] != "outer")
        .map(|row| text(&row["id"]))
        .collect();
    assert_eq!(left, [kept]);
    stage.gone("ledger check").ok();
}
