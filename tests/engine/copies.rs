//! Copies at other sites: each is deleted with its original, by a cascade of its own. The sweep deletes re-created
//! copies that name their original.

use std::collections::BTreeSet;
use std::time::Duration;

use super::harness::*;
use gone::control::ControlError;
use gone::domain::mapping::Mapping;
use gone::domain::model::{
    CopiedBy, DeletionState, EventKind, Phase, Plan, RefusalRule, Step, StepState, Tombstone,
};
use gone::sandbox::WorldOptions;
use serde_json::{Value, json};

const CENTRAL: &str = "RegionOne";
const LOCALS: [&str; 2] = ["RegionTwo", "RegionThree"];
const NONE: Vec<String> = Vec::new();

/// The network `web` with ports at the central site, and a copy with ports of its own at each local site.
struct Copied {
    bench: Bench,
    original: String,
    /// The ids of the copies, in the order of [`LOCALS`].
    copies: Vec<String>,
}

impl Copied {
    fn by(by: CopiedBy) -> Self {
        let mut bench = Bench::in_regions(1, &[CENTRAL, LOCALS[0], LOCALS[1]]);
        bench.settings.mapping = vec![Mapping {
            central: site_of(CENTRAL),
            locals: LOCALS.map(site_of).to_vec(),
            by,
        }];
        let (original, _) = network_with_ports(&bench, CENTRAL, json!({ "name": "web" }));
        let mut copied = Self {
            bench,
            original,
            copies: Vec::new(),
        };
        for local in LOCALS {
            let id = copied.copy_at(local);
            copied.copies.push(id);
        }
        copied
    }

    /// Creates a copy, as a local site does when it reads the central site. Returns its id.
    fn copy_at(&self, region: &str) -> String {
        let (id, _) = network_with_ports(&self.bench, region, json!({ "name": "web" }));
        self.bench.tag_as_copy(region, &id, &self.original);
        id
    }

    /// Returns the id of the original with its site. Without the site, gone would ask all sites for the id.
    fn original_at_central(&self) -> String {
        format!("{}@envvars/{CENTRAL}", self.original)
    }

    fn networks(&self) -> [Vec<String>; 3] {
        [CENTRAL, LOCALS[0], LOCALS[1]].map(|region| {
            let rows = self.bench.rows_at(region, "networks");
            rows.iter().map(id_of).collect()
        })
    }

    async fn tombstones(&self, client: &Client) -> Vec<Tombstone> {
        let mut tombstones = Vec::new();
        for id in std::iter::once(&self.original).chain(&self.copies) {
            tombstones.push(client.tombstone(id).await.unwrap());
        }
        tombstones
    }
}

fn id_of(row: &Value) -> String {
    row["id"].as_str().unwrap().to_owned()
}

fn network_with_ports(bench: &Bench, region: &str, fields: Value) -> (String, Vec<String>) {
    let make = |collection: &str, item: &str, fields: Value| {
        let path = path_of(collection);
        let (status, answer) = bench.api_at(region, "POST", &path, json!({ item: fields }));
        assert_eq!(status, 201, "{answer}");
        id_of(&answer[item])
    };
    let network = make("networks", "network", fields);
    let subnet = json!({ "network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24" });
    make("subnets", "subnet", subnet);
    let ports = (0..3).map(|_| make("ports", "port", json!({ "network_id": network })));
    let ports = ports.collect();
    (network, ports)
}

fn fail_deletes_at(region: &str) -> Value {
    json!([{ "match": { "region": region, "method": "DELETE" }, "action": { "status": 503 } }])
}

fn step_of_network<'s>(steps: &'s [Step], id: &str) -> &'s Step {
    let mut steps = steps.iter();
    steps.find(|step| step.resource.key.id == id).unwrap()
}

fn step_of(plan: &Plan, id: &str) -> u32 {
    let mut steps = plan.steps.iter();
    steps.find(|step| step.resource_id == id).unwrap().id
}

#[tokio::test(start_paused = true)]
async fn t09_a_plan_deletes_each_copy_by_a_cascade_of_its_own_and_the_original_last() {
    let copied = Copied::by(CopiedBy::Tag);
    with_engine(&copied.bench, async |client| {
        let plan = client.plan("network", &copied.original).await;
        assert_eq!(plan.refused, []);
        assert_eq!(plan.targets.len(), 1, "not only the original is a target");
        // Three ports and the network at each of three sites.
        assert_eq!(plan.steps.len(), 12);
        let last = &plan.steps[step_of(&plan, &copied.original) as usize];
        for copy in &copied.copies {
            let copy = step_of(&plan, copy);
            assert!(last.depends_on.contains(&copy));
            let why = &plan.steps[copy as usize].why;
            assert!(why.starts_with("copy of network web"), "{why}");
        }
        let again = client.plan("network", &copied.original).await;
        assert_eq!(again.hash, plan.hash);
        assert_eq!(copied.bench.writes().len(), 0);

        client.delete_until_gone("network", &copied.original).await;
        assert_eq!(copied.networks(), [NONE; 3]);
        for tombstone in copied.tombstones(&client).await {
            assert_eq!(tombstone.phase, Phase::Gone);
        }
    })
    .await;
    let deletes = copied.bench.writes();
    assert!(deletes.last().unwrap().path.contains(&copied.original));
}

#[tokio::test(start_paused = true)]
async fn t09_t12_a_slow_local_site_keeps_the_original_deleting_and_a_new_copy_is_removed() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    bench.faults(fail_deletes_at(LOCALS[1]));
    with_engine(bench, async |client| {
        let id = client.delete("network", &copied.original).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let phases = copied.tombstones(&client).await;
        let phases: Vec<Phase> = phases.iter().map(|it| it.phase).collect();
        assert_eq!(phases, [Phase::Deleting, Phase::Gone, Phase::Deleting]);
        // The central site still has the original, so the local site whose copy is gone makes a new one.
        assert!(bench.exists("networks", &copied.original));
        let again = copied.copy_at(LOCALS[0]);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(copied.networks()[1], NONE);
        let tombstone = client.tombstone(&copied.original).await.unwrap();
        assert_eq!((tombstone.phase, tombstone.recreated), (Phase::Deleting, 1));
        let caused = client.caused_by(&id).await;
        assert_eq!(caused.len(), 1);
        assert_eq!(caused[0].targets[0].key.id, again);
        assert_eq!(caused[0].reason, "re-created 1 time");

        bench.faults(json!([]));
        client.until_gone(&id).await;
        assert_eq!(copied.networks(), [NONE; 3]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t19_a_failing_local_site_neither_undoes_nor_stops_the_deletion_at_the_other() {
    let mut copied = Copied::by(CopiedBy::Tag);
    copied.bench.settings.gc.max_attempts = 2;
    let bench = &copied.bench;
    bench.faults(json!([{ "match": { "region": LOCALS[1], "method": "DELETE", "kind": "network" }, "action": { "status": 409, "type": "NetworkInUse", "message": "in use" } }]));
    with_engine(bench, async |client| {
        let id = client.delete("network", &copied.original).await;
        let stuck = client.until_stuck(&id).await;
        assert_eq!(copied.networks()[1], NONE);
        let steps = client.steps(&id).await;
        let failed = step_of_network(&steps, &copied.copies[1]);
        assert_eq!(failed.state, StepState::Stuck);
        assert_eq!(
            step_of_network(&steps, &copied.copies[0]).state,
            StepState::Gone
        );
        // The original waits for its stuck copy, so it is stuck too.
        let original = step_of_network(&steps, &copied.original);
        assert_eq!(original.state, StepState::Stuck);
        assert!(bench.exists("networks", &copied.original));
        assert_eq!(stuck.counts.stuck, 2);
        bench.faults(json!([]));
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(copied.networks(), [NONE; 3]);
}

#[tokio::test(start_paused = true)]
async fn t19_a_local_site_that_cannot_be_listed_refuses_the_deletion() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    bench.faults(json!([{ "match": { "region": LOCALS[1], "method": "GET", "kind": "network" }, "action": { "status": 503 } }]));
    with_engine(bench, async |client| {
        let refused = client
            .try_delete("network", &copied.original_at_central(), cascade())
            .await
            .unwrap_err();
        let ControlError::Unreachable { message } = refused else {
            panic!("{refused:?}");
        };
        assert_contains(&message, "copies at envvars/RegionThree");
    })
    .await;
    assert_eq!(bench.writes().len(), 0);
    assert_eq!(bench.ledger_state().await.deletions, []);
}

#[tokio::test(start_paused = true)]
async fn t19_a_local_site_that_fails_behind_the_write_guard_refuses_and_releases_all_tombstones() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    // The first list finds the copy, which gets a write guard. The second list fails.
    let path = "/v2.0/networks";
    bench.faults(json!([
        { "match": { "region": LOCALS[1], "method": "GET", "path": path }, "times": 1, "action": { "delay_ms": 0 } },
        { "match": { "region": LOCALS[1], "method": "GET", "path": path }, "action": { "status": 503 } },
    ]));
    with_engine(bench, async |client| {
        let id = client
            .delete("network", &copied.original_at_central())
            .await;
        let refused = client.until_refused(&id).await;
        let rules: Vec<RefusalRule> = refused.refused.iter().map(|it| it.rule).collect();
        assert_eq!(rules, [RefusalRule::Unreadable]);
        for tombstone in copied.tombstones(&client).await {
            assert_eq!(tombstone.phase, Phase::Released);
        }
        bench.faults(json!([]));
        client.retry(&id).await;
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(copied.networks(), [NONE; 3]);
}

#[tokio::test(start_paused = true)]
async fn t14_a_re_created_copy_is_removed_only_if_it_names_the_deleted_original() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    let (other, _) = network_with_ports(bench, LOCALS[0], json!({ "name": "web" }));
    let (alive, _) = network_with_ports(bench, CENTRAL, json!({ "name": "alive" }));
    let (copy_of_alive, _) = network_with_ports(bench, LOCALS[0], json!({ "name": "web" }));
    bench.tag_as_copy(LOCALS[0], &copy_of_alive, &alive);
    with_engine(bench, async |client| {
        client.delete_until_gone("network", &copied.original).await;
        copied.copy_at(LOCALS[0]);
        copied.copy_at(LOCALS[1]);
        tokio::time::sleep(Duration::from_secs(300)).await;
        let [central, first, second] = copied.networks();
        assert_eq!(central, [alive]);
        let expected = BTreeSet::from([other, copy_of_alive]);
        assert_eq!(first.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(second, NONE);
        let tombstone = client.tombstone(&copied.original).await.unwrap();
        assert_eq!((tombstone.phase, tombstone.recreated), (Phase::Gone, 2));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t14_a_copy_re_created_more_often_than_allowed_is_stuck_with_that_reason() {
    let mut copied = Copied::by(CopiedBy::Tag);
    copied.bench.settings.gc.recreate_max = 1;
    let bench = &copied.bench;
    with_engine(bench, async |client| {
        let id = client
            .delete_until_gone("network", &copied.original)
            .await
            .id;
        for _ in 0..2 {
            copied.copy_at(LOCALS[0]);
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        let stuck = client
            .until(&id, |it| it.state == DeletionState::Stuck)
            .await;
        let step = client.step_of(&stuck.id, &copied.original).await;
        let error = step.last_error.unwrap();
        assert_eq!(error.kind, "Recreated");
        assert_contains(&error.message, "a copy of");
        let sent = bench.writes().len();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            bench.writes().len(),
            sent,
            "a call was sent before a person decided"
        );
        let events = client.timeline(Some(&id), None).await;
        let events = events.iter().filter(|it| it.kind == EventKind::Recreated);
        assert_eq!(events.count(), 2);
    })
    .await;
    assert_eq!(copied.networks()[1].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn t20_a_tagged_copy_of_a_part_is_swept_once_its_original_is_gone() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    let rows = bench.rows_at(CENTRAL, "subnets");
    let subnet = id_of(&rows[0]);
    // At the local site the copy of the subnet is on another network, so that no cascade deletes it.
    let (other, _) = network_with_ports(bench, LOCALS[0], json!({ "name": "other" }));
    let copy_of_part = |cidr: &str| {
        let fields = json!({ "network_id": other, "ip_version": 4, "cidr": cidr });
        let body = json!({ "subnet": fields });
        let (status, answer) = bench.api_at(LOCALS[0], "POST", "/v2.0/subnets", body);
        assert_eq!(status, 201, "{answer}");
        let id = id_of(&answer["subnet"]);
        let tags = json!({ "tags": [format!("gone:copy-of={subnet}")] });
        let path = format!("/v2.0/subnets/{id}/tags");
        assert_eq!(bench.api_at(LOCALS[0], "PUT", &path, tags).0, 200);
        id
    };
    let before = copy_of_part("10.7.0.0/24");
    with_engine(bench, async |client| {
        let id = client
            .delete_until_gone("network", &copied.original)
            .await
            .id;
        let after = copy_of_part("10.8.0.0/24");
        tokio::time::sleep(Duration::from_secs(300)).await;
        let left: Vec<String> = bench
            .rows_at(LOCALS[0], "subnets")
            .iter()
            .map(id_of)
            .collect();
        assert!(
            !left.contains(&before) && !left.contains(&after),
            "{left:?}"
        );
        assert_eq!(copied.networks()[1], std::slice::from_ref(&other));
        let caused = client.caused_by(&id).await;
        assert_eq!(caused.len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t14_copies_matched_by_name_are_deleted_with_their_original_and_never_swept() {
    let copied = Copied::by(CopiedBy::Name);
    let bench = &copied.bench;
    with_engine(bench, async |client| {
        let plan = client.plan("network", &copied.original).await;
        let warned = "are known only by name";
        assert!(
            plan.warnings.iter().any(|it| it.contains(warned)),
            "{plan:#?}"
        );
        let id = client
            .delete_until_gone("network", &copied.original)
            .await
            .id;
        assert_eq!(copied.networks(), [NONE; 3]);
        // A network of the same name in another project is no copy.
        let demo = bench.demo_project();
        let of_other_project = json!({ "name": "web", "project_id": demo });
        let (of_other_project, _) = network_with_ports(bench, LOCALS[1], of_other_project);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(client.deletion(&id).await.state, DeletionState::Gone);

        let sent = bench.writes().len();
        let again = copied.copy_at(LOCALS[0]);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        // The new copy is not removed, and the deletion is stuck: a person decides.
        assert_eq!(copied.networks()[1], std::slice::from_ref(&again));
        assert_eq!(copied.networks()[2], [of_other_project]);
        assert_eq!(bench.writes().len(), sent);
        let deletion = client.until_stuck(&id).await;
        assert_contains(&deletion.note, &again);
        let step = client.step_of(&id, &copied.original).await;
        let error = step.last_error.unwrap();
        assert_eq!(error.kind, "Recreated");
        assert!(error.message.contains("gone delete network/"), "{error:?}");
        let events = client.timeline(Some(&id), None).await;
        let events = events.iter().filter(|it| it.kind == EventKind::Recreated);
        assert_eq!(events.count(), 1);

        // Once a person has deleted the copy, a retry ends the deletion.
        client
            .delete_until_gone("network", &format!("{again}@envvars/{}", LOCALS[0]))
            .await;
        client.retry(&id).await;
        client.until_gone(&id).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(client.deletion(&id).await.state, DeletionState::Gone);
    })
    .await;
}

/// The regions keep ids when they copy. Only one local site has a copy when the deletion is planned.
#[tokio::test(start_paused = true)]
async fn t09_t14_copies_with_the_same_id_are_deleted_with_their_original_and_when_re_created() {
    let world = WorldOptions {
        keep_ids: true,
        ..WorldOptions::default()
    };
    let mut bench = Bench::in_world(world, &[CENTRAL, LOCALS[0], LOCALS[1]]);
    bench.settings.mapping = vec![Mapping {
        central: site_of(CENTRAL),
        locals: LOCALS.map(site_of).to_vec(),
        by: CopiedBy::Id,
    }];
    let (original, _) = network_with_ports(&bench, CENTRAL, json!({ "name": "web" }));
    let copy = json!({ "name": "web", "id": original });
    network_with_ports(&bench, LOCALS[0], copy.clone());
    let (bystander, _) = network_with_ports(&bench, LOCALS[0], json!({ "name": "web" }));
    let network_ids = |region: &str| -> Vec<String> {
        bench
            .rows_at(region, "networks")
            .iter()
            .map(id_of)
            .collect()
    };
    with_engine(&bench, async |client| {
        let original_at_central = format!("{original}@envvars/{CENTRAL}");
        client
            .delete_until_gone("network", &original_at_central)
            .await;
        assert_eq!(network_ids(LOCALS[0]), std::slice::from_ref(&bystander));
        for region in LOCALS {
            network_with_ports(&bench, region, copy.clone());
        }
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(network_ids(CENTRAL), NONE);
        assert_eq!(network_ids(LOCALS[0]), std::slice::from_ref(&bystander));
        assert_eq!(network_ids(LOCALS[1]), NONE);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t14_no_copy_or_two_copies_of_the_same_name_at_a_site_refuse_the_plan() {
    let copied = Copied::by(CopiedBy::Name);
    let bench = &copied.bench;
    network_with_ports(bench, LOCALS[0], json!({ "name": "web" }));
    let path = format!("/v2.0/networks/{}", copied.copies[1]);
    let renamed = json!({ "network": { "name": "other" } });
    assert_eq!(bench.api_at(LOCALS[1], "PUT", &path, renamed).0, 200);
    // A network of the same name in another project is no copy.
    let demo = bench.demo_project();
    network_with_ports(
        bench,
        LOCALS[1],
        json!({ "name": "web", "project_id": demo }),
    );
    with_engine(bench, async |client| {
        let plan = client.plan("network", &copied.original).await;
        let mut reasons = plan.refused.iter();
        let mut refused = |words: &str| {
            let refusal = reasons.next().unwrap();
            assert_eq!(refusal.rule, RefusalRule::Copies);
            assert_contains(&refusal.reason, words);
        };
        refused("no copies of the same name and project at envvars/RegionThree");
        refused("2 copies of the same name and project at envvars/RegionTwo");
        assert!(reasons.next().is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t14_a_name_means_the_original_and_not_its_copies_but_never_hides_a_network_of_another_project()
 {
    let copied = Copied::by(CopiedBy::Name);
    let bench = &copied.bench;
    with_engine(bench, async |client| {
        let plan = client.plan("network", "web").await;
        assert_eq!(plan.targets[0].key.id, copied.original);
        let demo = bench.demo_project();
        let theirs = json!({ "name": "web", "project_id": demo });
        network_with_ports(bench, LOCALS[0], theirs);
        let refused = client.try_delete("network", "web", cascade()).await;
        assert_matches!(refused, Err(ControlError::Ambiguous { .. }));
    })
    .await;
    assert_eq!(bench.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn p04_a_copy_of_another_project_is_a_blocker() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    let demo = bench.demo_project();
    let fields = json!({ "name": "theirs", "project_id": demo });
    let (theirs, _) = network_with_ports(bench, LOCALS[0], fields);
    bench.tag_as_copy(LOCALS[0], &theirs, &copied.original);
    with_engine(bench, async |client| {
        let plan = client.plan("network", &copied.original).await;
        let refusal = &plan.refused[0];
        assert_eq!(refusal.rule, RefusalRule::OtherProject);
        assert_eq!(refusal.resource.key.id, theirs);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t03_the_write_guard_of_copies_is_set_before_their_cascades_are_listed() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    // Planning waits for this answer. The write guard is set before the call.
    bench.faults(json!([{ "match": { "region": LOCALS[1], "method": "GET", "kind": "port" }, "action": { "delay_ms": 20_000 } }]));
    with_engine(bench, async |client| {
        let id = client.delete("network", &copied.original).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        for tombstone in copied.tombstones(&client).await {
            assert_eq!(tombstone.phase, Phase::Checking);
        }
        // T6: the copy belongs to the same deletion.
        let local = format!("{}@envvars/{}", copied.copies[0], LOCALS[0]);
        assert_eq!(client.delete("network", &local).await, id);
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t09_an_original_is_not_deleted_while_another_deletion_deletes_its_copy() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    bench.faults(fail_deletes_at(LOCALS[0]));
    with_engine(bench, async |client| {
        let local = format!("{}@envvars/{}", copied.copies[0], LOCALS[0]);
        let first = client.delete("network", &local).await;
        client
            .until(&first, |it| it.state == DeletionState::Running)
            .await;
        let refused = client
            .try_delete("network", &copied.original, cascade())
            .await
            .unwrap_err();
        let ControlError::Conflict { message } = refused else {
            panic!("{refused:?}");
        };
        assert_contains(&message, "is being deleted by deletion");
        bench.faults(json!([]));
        client.until_gone(&first).await;
        client.delete_until_gone("network", &copied.original).await;
    })
    .await;
    assert_eq!(copied.networks(), [NONE; 3]);
}

#[tokio::test(start_paused = true)]
async fn t09_a_name_selects_the_original_and_the_plan_of_a_copy_warns_of_re_creation() {
    let copied = Copied::by(CopiedBy::Tag);
    with_engine(&copied.bench, async |client| {
        let plan = client.plan("network", "web").await;
        assert_eq!(plan.targets[0].key.id, copied.original);
        let local = format!("{}@envvars/{}", copied.copies[0], LOCALS[0]);
        let plan = client.plan("network", &local).await;
        assert_eq!(plan.steps.len(), 4);
        let warned = plan
            .warnings
            .iter()
            .any(|it| it.contains("may be re-created"));
        assert!(warned, "{:?}", plan.warnings);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_a_copy_that_appeared_after_the_plan_is_drift() {
    let copied = Copied::by(CopiedBy::Tag);
    with_engine(&copied.bench, async |client| {
        let plan = client.plan("network", &copied.original).await;
        copied.copy_at(LOCALS[0]);
        let id = client.delete_plan(&plan.hash).await;
        let refused = client.until_refused(&id).await;
        assert_eq!(refused.refused[0].rule, RefusalRule::Drift);
        assert_eq!(copied.bench.writes().len(), 0);
    })
    .await;
}

/// The number of copies does not matter: one list for each local site before the write guard, and one after it (N14).
#[tokio::test(start_paused = true)]
async fn n14_copies_of_many_originals_are_found_by_two_lists_for_each_site() {
    let copied = Copied::by(CopiedBy::Tag);
    let bench = &copied.bench;
    let mut originals = vec![copied.original.clone()];
    for _ in 0..20 {
        let (original, _) = network_with_ports(bench, CENTRAL, json!({ "name": "more" }));
        for local in LOCALS {
            let (copy, _) = network_with_ports(bench, local, json!({ "name": "more" }));
            bench.tag_as_copy(local, &copy, &original);
        }
        originals.push(original);
    }
    with_engine(bench, async |client| {
        let id = client.delete_all("network", &originals).await;
        client.until_gone(&id).await;
        let sent = bench.sent();
        let by_tag = sent.iter().filter(|it| it.path.contains("tags-any"));
        // One list for each local site before the write guard, and one after it.
        assert_eq!(by_tag.count(), 2 * LOCALS.len());
    })
    .await;
    assert_eq!(copied.networks(), [NONE; 3]);
}
