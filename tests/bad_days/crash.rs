//! `kill -9` as it comes: whatever the moment, the next start takes up where the last one ended.

use std::collections::{BTreeMap, BTreeSet};

use gone::ledger::sqlite::SqliteLedger;
use gone::ledger::{Ledger as _, audit};
use serde_json::{Value, json};

use super::support::{Called, Running, Stage, assert_counts_sum, text, wait_for};

/// Calls in flight at most, so many may be repeated after each kill.
const CONCURRENCY: usize = 4;
const COLLECTIONS: [&str; 6] = [
    "networks",
    "subnets",
    "ports",
    "routers",
    "trunks",
    "floatingips",
];

struct Doomed {
    stage: Stage,
    network: String,
    before: BTreeMap<&'static str, Vec<Value>>,
    kills: usize,
}

impl Doomed {
    /// A network with ports, a trunk, a router's interface and a floating IP, and another like it
    /// that stays.
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

    fn assert_whole(&self, id: &str) {
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

    /// The network and what was in it are gone, all else is as it was.
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
        assert_eq!(freed, 1, "the doomed one stays, disassociated");
    }

    /// Nothing took effect twice, and repeated is at most what was in flight at a kill.
    fn assert_calls(&self) {
        let mut by_call: BTreeMap<String, Vec<Called>> = BTreeMap::new();
        for call in self.stage.writes() {
            let key = format!("{} {}", call.method, call.path);
            by_call.entry(key).or_default().push(call);
        }
        let mut repeated = 0;
        for (call, sent) in &by_call {
            repeated += sent.len() - 1;
            let took = |call: &&Called| call.status.is_some_and(|status| status < 300);
            let effects = sent.iter().filter(took).count();
            assert!(effects <= 1, "{call} took effect {effects} times: {sent:?}");
        }
        let allowed = self.kills * CONCURRENCY;
        assert!(
            repeated <= allowed,
            "{repeated} repeated, {allowed} allowed"
        );
    }

    /// The chain of the audit holds, and the one command is in it.
    fn assert_ledger(&self, id: &str) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let ledger = SqliteLedger::open_reader(&self.stage.ledger()).unwrap();
            let rows = ledger.audit(0, 500).await.unwrap();
            audit::verify(audit::GENESIS, &rows).unwrap();
            let deletes = rows.iter().filter(|row| row.action == "delete").count();
            assert_eq!(deletes, 1, "{rows:?}");
            let kept = ledger.deletion(id).await.unwrap().unwrap();
            assert_eq!(kept.counts.gone, kept.counts.total);
        });
    }
}

#[test]
fn t08_i11_killed_forty_times_on_the_way_loses_and_repeats_nothing() {
    let mut doomed = Doomed::new(400);
    let mut engine = doomed.stage.engine();
    let id = doomed.delete();
    for kill in 1..=40 {
        doomed.stage.await_writes(kill * 10);
        doomed.kill(engine);
        engine = doomed.stage.engine();
    }
    engine.kill();
    doomed.kills += 1;
    doomed.assert_whole(&id);
}

#[test]
fn t08_killed_right_after_it_was_accepted_it_is_planned_by_the_next() {
    let mut doomed = Doomed::new(20);
    let engine = doomed.stage.engine();
    let id = doomed.delete();
    doomed.kill(engine);
    assert!(doomed.stage.writes().len() <= CONCURRENCY);
    doomed.assert_whole(&id);
}

#[test]
fn t08_killed_at_each_listing_of_the_planning_it_is_planned_anew() {
    let mut doomed = Doomed::new(20);
    // Slow enough that the planning is met on its way.
    doomed
        .stage
        .limits(json!({"latency_ms": 150, "parallel": 1}));
    let engine = doomed.stage.engine();
    let id = doomed.delete();
    let listed = |doomed: &Doomed| doomed.stage.calls().len();
    let mut engine = Some(engine);
    for _ in 0..4 {
        let from = listed(&doomed);
        wait_for("listings", || listed(&doomed) >= from + 3);
        assert!(doomed.stage.writes().is_empty(), "it is not planned yet");
        doomed.kill(engine.take().unwrap());
        engine = Some(doomed.stage.engine());
    }
    doomed.kill(engine.take().unwrap());
    doomed
        .stage
        .limits(json!({"latency_ms": 20, "parallel": CONCURRENCY}));
    doomed.assert_whole(&id);
}

#[test]
fn t08_killed_while_it_looks_for_what_is_gone_it_looks_again() {
    let mut doomed = Doomed::new(20);
    let mut engine = doomed.stage.engine();
    let id = doomed.delete();
    // The network's own delete is the last call; only looks follow.
    wait_for("last delete", || {
        !doomed.stage.deletes_of(&doomed.network).is_empty()
    });
    for _ in 0..3 {
        doomed.kill(engine);
        engine = doomed.stage.engine();
    }
    doomed.kill(engine);
    doomed.assert_whole(&id);
}
