//! Drift: a person accepts or refuses newcomers, or changes the drift policy of a deletion. Drift since the plan is
//! reported by field (P11).

use serde_json::{Value, json};

use gone::control::{Command, ControlError, NamedOptions, Receipt};
use gone::domain::model::{
    ChangeKind, DeletionState, DriftPolicy, ErrorClass, EventKind, OnFailure, PlanOptions,
    StepState,
};

use crate::harness::*;

/// Deletes a network and creates this port meanwhile, so that the deletion is stuck. Returns the ids of the deletion
/// and of the port. The network needs a port that [`fail_port_deletes`] delays.
pub async fn delete_with_newcomer(
    bench: &Bench,
    client: &Client,
    network: &str,
    port: Value,
) -> (String, String) {
    let id = client.delete("network", network).await;
    client.until_blocked(&id, "port").await;
    let newcomer = bench.create("ports", port);
    client.until_stuck(&id).await;
    (id, newcomer)
}

/// Makes the first three deletes of a port fail, so that its step is blocked for a while.
pub fn fail_port_deletes(bench: &Bench, port: &str) {
    bench.faults(json!([{ "match": { "method": "DELETE", "id": port }, "times": 3, "action": { "status": 503 } }]));
}

async fn answer_drift(client: &Client, id: &str, accept: bool) -> Result<(), ControlError> {
    let deletion_id = id.to_owned();
    let command = Command::Drift {
        deletion_id,
        accept,
    };
    client.submit(command).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn p11_a_step_stuck_with_drift_names_the_newcomer_and_the_commands_that_answer_it() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
        let late = json!({ "network_id": network, "name": "late" });
        let (id, newcomer) = delete_with_newcomer(&bench, &client, &network, late).await;
        let step = client.step(&id, "network").await;
        let error = step.last_error.unwrap();
        assert_eq!(error.class, ErrorClass::Drift);
        let accept = format!("gone drift {} --accept", &id[id.len() - 8..]);
        let why = client.explain("network", &network).await;
        assert_contains(&why.next_action, &accept);
        for words in [
            "port late",
            &newcomer,
            "project ",
            "created ",
            &accept,
            "--refuse",
        ] {
            assert!(error.message.contains(words), "{words}: {}", error.message);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_an_accepted_newcomer_is_deleted_on_behalf_of_the_person_who_accepted_it() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
        let late = json!({ "network_id": network, "name": "late" });
        let (id, newcomer) = delete_with_newcomer(&bench, &client, &network, late).await;
        answer_drift(&client, &id, true).await.unwrap();
        client.until_gone(&id).await;
        assert!(!bench.ids("ports").contains(&newcomer));
        let caused = client.caused_by(&id).await;
        assert_eq!(caused[0].targets[0].key.id, newcomer);
        assert_eq!(caused[0].requested_by.name, "tester");
        let lines = client.timeline(Some(&id), None).await;
        assert!(lines.iter().any(|line| line.kind == EventKind::Drift));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_only_the_newcomers_that_were_listed_are_accepted() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
        let late = json!({ "network_id": network, "name": "late" });
        let (id, _) = delete_with_newcomer(&bench, &client, &network, late).await;
        let later = bench.create("ports", json!({ "network_id": network, "name": "later" }));
        answer_drift(&client, &id, true).await.unwrap();
        let deletion = client.until_stuck(&id).await;
        assert_contains(&deletion.note, "port later");
        assert_eq!(bench.writes_to(&later), []);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_p11_a_newcomer_that_got_a_trunk_after_it_was_listed_is_not_accepted() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    let (other, _) = bench.plain_network(0);
    let elsewhere = bench.create("ports", json!({ "network_id": other }));
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
        let late = json!({ "network_id": network, "name": "late" });
        let (id, newcomer) = delete_with_newcomer(&bench, &client, &network, late).await;
        let subports =
            json!([{ "port_id": elsewhere, "segmentation_type": "vlan", "segmentation_id": 7 }]);
        let trunk = json!({ "name": "uplink", "port_id": newcomer, "sub_ports": subports });
        let trunk = bench.create("trunks", trunk);
        let refused = answer_drift(&client, &id, true).await.unwrap_err();
        assert_matches!(refused, ControlError::Conflict { .. });
        let refused = refused.to_string();
        assert_contains(&refused, "and 1 more would be deleted too");
        for left in [&newcomer, &trunk, &elsewhere] {
            assert_eq!(bench.writes_to(left), []);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_a_refused_newcomer_stays_and_the_cancelled_deletion_names_it() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
        let late = json!({ "network_id": network, "name": "late" });
        let (id, newcomer) = delete_with_newcomer(&bench, &client, &network, late).await;
        answer_drift(&client, &id, false).await.unwrap();
        let deletion = client.until_terminal(&id).await;
        assert_eq!(deletion.state, DeletionState::Cancelled);
        for words in ["network ", "stays", "port late"] {
            assert_contains(&deletion.note, words);
        }
        assert_eq!(bench.writes_to(&newcomer), []);
        assert!(bench.ids("networks").contains(&network));
        let again = answer_drift(&client, &id, true).await;
        assert_matches!(again, Err(ControlError::Conflict { .. }));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_a_repeated_deletion_that_absorbs_drift_frees_the_stuck_one() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
        let late = json!({ "network_id": network, "name": "late" });
        let (id, newcomer) = delete_with_newcomer(&bench, &client, &network, late).await;
        let absorbs = NamedOptions {
            drift: Some(DriftPolicy::Absorb),
            on_failure: None,
        };
        assert_eq!(client.repeat(&network, absorbs).await.unwrap(), id);
        client.until_gone(&id).await;
        assert!(!bench.ids("ports").contains(&newcomer));
        assert_eq!(
            client.deletion(&id).await.options.drift,
            DriftPolicy::Absorb
        );
        // The deletion has ended: a request that names an option does not join it.
        let late = client.repeat(&network, absorbs).await;
        assert_matches!(late, Err(ControlError::NotFound { .. }));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn t06_a_repeated_deletion_whose_options_are_refused_wakes_nothing() {
    let mut bench = Bench::new(1);
    bench.settings.gc.max_attempts = 1;
    let (network, ports) = bench.plain_network(2);
    bench.faults(json!([{ "match": { "method": "DELETE", "path": "/v2.0/ports" }, "action": { "status": 409, "type": "PortInUse" } }]));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_stuck(&id).await;
        let sent = bench.writes().len();
        // While steps are stuck, `--on-failure` stays as it is.
        let stops = NamedOptions {
            drift: None,
            on_failure: Some(OnFailure::Stop),
        };
        let refused = client.repeat(&network, stops).await;
        assert!(
            matches!(&refused, Err(ControlError::Conflict { message }) if message.contains("--on-failure")),
            "{refused:?}"
        );
        for port in &ports {
            assert_eq!(client.step_of(&id, port).await.state, StepState::Stuck);
        }
        assert_eq!(bench.writes().len(), sent);
        // Without `--on-failure` the same request wakes the stuck steps.
        bench.faults(json!([]));
        let none = NamedOptions::default();
        assert_eq!(client.repeat(&network, none).await.unwrap(), id);
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_a_repeated_project_deletion_that_absorbs_drift_frees_the_stuck_one() {
    let bench = Bench::new(1);
    let owned = |fields: Value| {
        let mut fields = fields;
        fields["project_id"] = json!(bench.demo_project());
        fields
    };
    let network = bench.create("networks", owned(json!({ "name": "busy" })));
    let port = bench.create("ports", owned(json!({ "network_id": network })));
    fail_port_deletes(&bench, &port);
    with_engine(&bench, async |client| {
        let first = client.delete("project", "demo").await;
        client.until_blocked(&first, "port").await;
        let late = owned(json!({ "network_id": network, "name": "late" }));
        bench.create("ports", late);
        client.until_stuck(&first).await;
        let absorbs = PlanOptions {
            drift: DriftPolicy::Absorb,
            ..cascade()
        };
        let again = client.delete_with("project", "demo", absorbs).await;
        for id in [&first, &again] {
            client.until_gone(id).await;
        }
        assert_eq!(
            client.deletion(&first).await.options.drift,
            DriftPolicy::Absorb
        );
        assert!(!bench.ids("networks").contains(&network));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_drift_since_the_plan_is_reported_only_for_its_own_site() {
    let bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    let made = ["RegionOne", "RegionTwo"].map(|region| {
        let body = json!({ "network": { "name": "web" } });
        let (_, answer) = bench.api_at(region, "POST", "/v2.0/networks", body);
        (region, answer["network"]["id"].as_str().unwrap().to_owned())
    });
    with_engine(&bench, async |client| {
        let targets = made.iter().map(|(region, id)| {
            let id_at_site = format!("{id}@envvars/{region}");
            target("network", &id_at_site)
        });
        let command = Command::Plan {
            targets: targets.collect(),
            options: cascade(),
        };
        let Ok(Receipt::Planned { plan }) = client.submit(command).await else {
            panic!("no plan");
        };
        let (region, id) = &made[1];
        let renamed = json!({ "network": { "name": "other" } });
        bench.api_at(region, "PUT", &format!("/v2.0/networks/{id}"), renamed);
        let deletion_id = client.delete_plan(&plan.hash).await;
        let refused = client.until_refused(&deletion_id).await.refused;
        assert_eq!(refused.len(), 1, "{refused:#?}");
        assert_eq!(refused[0].resource.key.id, *id);
        let changed = format!(
            "changed: network web ({id}) at envvars/RegionTwo: name was \"web\", is now \"other\""
        );
        assert_eq!(refused[0].reason, changed);
        assert_eq!(bench.writes(), []);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p11_drift_since_the_plan_names_each_field_that_changed_with_its_old_and_new_value() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(2);
    with_engine(&bench, async |client| {
        let plan = client.plan("network", &network).await;
        let (owned, gone) = (&ports[0], &ports[1]);
        let owner = json!({ "port": { "device_owner": "custom:backup", "device_id": "b-1" } });
        bench.api("PUT", &format!("/v2.0/ports/{owned}"), owner);
        bench.api("DELETE", &format!("/v2.0/ports/{gone}"), Value::Null);
        let late = bench.create("ports", json!({ "network_id": network, "name": "late" }));

        let id = client.delete_plan(&plan.hash).await;
        let deletion = client.until_refused(&id).await;
        let changes = &deletion.refused[0].changes;
        let of = |id: &str| {
            let mut found = changes.iter().filter(|it| it.resource.key.id == id);
            found.next().unwrap_or_else(|| panic!("{id}: {changes:#?}"))
        };
        assert_eq!(of(&late).change, ChangeKind::New);
        assert_eq!(of(gone).change, ChangeKind::Missing);
        assert_eq!(of(owned).change, ChangeKind::Changed);
        let fields = of(owned).fields.iter();
        let fields: Vec<_> = fields
            .map(|it| (it.field.as_str(), it.before.as_str(), it.after.as_str()))
            .collect();
        let server = fields[0].1;
        let changed = [
            ("device_id", server, "b-1"),
            ("device_owner", "compute:nova", "custom:backup"),
        ];
        assert_eq!(fields, changed);
        let described = "device_owner was \"compute:nova\", is now \"custom:backup\"";
        assert_contains(&deletion.note, described);
        assert_eq!(bench.writes(), []);
    })
    .await;
}
