//! Native resources: the fate of those that refer to a deleted resource, in one plan with the resources of the cloud.

use gone::control::{ControlError, Receipt};
use gone::domain::model::{Action, Deletion, DeletionState, RefusalRule};
use serde_json::{Value, json};

use super::client::Client;
use super::harness::{Bench, assert_contains, assert_matches, with_engine};

/// A kind for each way in which a resource may refer to a network or a customer.
const KINDS: &str = r#"
service = "billing"
[kind.customer.native]
[kind.invoice.native.fields]
network = {}
customer = { required = true }
[[kind.invoice.reference]]
to = "network"
field = "network"
on_delete = "cascade"
says = "for"
[[kind.invoice.reference]]
to = "customer"
field = "customer"
on_delete = "block"
says = "of"
[kind.record.native.fields]
networks = {}
[[kind.record.reference]]
to = "network"
field = "networks[]"
on_delete = "unset"
says = "counts"
[kind.plan.native.fields]
network = {}
[[kind.plan.reference]]
to = "network"
field = "network"
on_delete = "cascade"
asynchronous = true
says = "is for"
[kind.contract.native.fields]
network = { required = true }
[[kind.contract.reference]]
to = "network"
field = "network"
on_delete = "unset"
says = "is about"
[kind.history.native.fields]
network = {}
[[kind.history.reference]]
to = "network"
field = "network"
on_delete = "dangling"
says = "was of"
"#;

fn bench(seed: u64) -> Bench {
    let mut bench = Bench::new(seed);
    bench.register_service("billing", KINDS);
    bench
}

async fn create(client: &Client, kind: &str, body: Value) {
    client.try_create(kind, body).await.unwrap();
}

fn conflict(answer: Result<Receipt, ControlError>) -> String {
    match answer {
        Err(ControlError::Conflict { message }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn g06_references_to_a_network_are_deleted_unset_or_left_dangling() {
    let bench = bench(1);
    let (network, ports) = bench.plain_network(3);
    let (other, _) = bench.plain_network(1);
    let at = |id: &str| format!("{id}@envvars/RegionOne");
    with_engine(&bench, async |client| {
        create(&client, "customer", json!({"id": "acme"})).await;
        create(
            &client,
            "invoice",
            json!({"id": "i1", "customer": "acme", "network": at(&network)}),
        )
        .await;
        create(
            &client,
            "invoice",
            json!({"id": "i2", "customer": "acme", "network": at(&other)}),
        )
        .await;
        create(
            &client,
            "record",
            json!({"id": "r1", "networks": [at(&other), at(&network)]}),
        )
        .await;
        create(
            &client,
            "history",
            json!({"id": "h1", "network": at(&network)}),
        )
        .await;
        let plan = client.plan("network", &network).await;
        let steps = |action: Action, kind: &str| -> Vec<&str> {
            let steps = plan.steps.iter();
            let fits = steps.filter(|it| it.action == action && it.kind.as_str() == kind);
            fits.map(|it| it.resource_id.as_str()).collect()
        };
        assert_eq!(plan.refused, []);
        assert_eq!(steps(Action::Unset, "record"), ["r1"]);
        assert_eq!(steps(Action::Delete, "invoice"), ["i1"]);
        assert_eq!(steps(Action::Delete, "port").len(), ports.len());
        // The network is deleted after all resources that refer to it.
        let last = plan.steps.last().unwrap();
        assert_eq!(last.kind.as_str(), "network");
        assert_eq!(last.depends_on.len(), plan.steps.len() - 1);

        client.delete_until_gone("network", &network).await;
        assert!(!bench.exists("networks", &network));
        let ids = |rows: Vec<Value>| -> Vec<Value> {
            rows.into_iter().map(|row| row["id"].clone()).collect()
        };
        assert_eq!(ids(client.native_rows("invoice").await), [json!("i2")]);
        assert_eq!(
            client.native_rows("record").await[0]["networks"],
            json!([at(&other)])
        );
        assert_eq!(
            client.native_rows("history").await[0]["network"],
            json!(at(&network))
        );
    })
    .await;
}

/// The resource of the kind `plan` refers to the network, and is gone by the end of the network's deletion.
#[tokio::test(start_paused = true)]
async fn g03_an_asynchronous_referrer_of_a_network_is_deleted_by_a_deletion_of_its_own() {
    let bench = bench(6);
    let (network, _) = bench.plain_network(3);
    let at = format!("{network}@envvars/RegionOne");
    with_engine(&bench, async |client| {
        create(&client, "plan", json!({"id": "p1", "network": at})).await;
        let plan = client.plan("network", &network).await;
        assert!(plan.steps.iter().all(|step| step.kind.as_str() != "plan"));
        let id = client.delete_until_gone("network", &network).await.id;
        assert!(!bench.exists("networks", &network));
        assert_eq!(client.native_rows("plan").await, Vec::<Value>::new());
        let chained = client.caused_by(&format!("home/{id}")).await;
        assert_eq!(chained.len(), 1);
        let gone = |deletion: &Deletion| deletion.finished_at.unwrap();
        assert!(gone(&chained[0]) <= gone(&client.deletion(&id).await));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i13_native_resources_are_confirmed_gone_at_once_without_a_witness() {
    let bench = bench(8);
    let (network, _) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        create(&client, "customer", json!({"id": "acme"})).await;
        for n in 0..1_000 {
            let at = format!("{network}@envvars/RegionOne");
            let body = json!({"id": format!("i{n}"), "customer": "acme", "network": at});
            create(&client, "invoice", body).await;
        }
        let began = tokio::time::Instant::now();
        client.delete_until_gone("network", &network).await;
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_millis(200), "{took:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn g02_a_blocking_and_a_required_reference_refuse_the_deletion_and_are_named() {
    let bench = bench(2);
    let (network, _) = bench.plain_network(0);
    with_engine(&bench, async |client| {
        create(&client, "customer", json!({"id": "acme"})).await;
        create(&client, "invoice", json!({"id": "i1", "customer": "acme"})).await;
        let at = format!("{network}@envvars/RegionOne");
        create(&client, "contract", json!({"id": "c1", "network": at})).await;
        for (kind, id_or_name, by) in [
            ("customer", "acme", "i1"),
            ("network", network.as_str(), "c1"),
        ] {
            let id = client.delete(kind, id_or_name).await;
            let refused = client.until_refused(&id).await.refused;
            assert_eq!(refused[0].rule, RefusalRule::InUse);
            let blocker = refused[0].blocker.as_ref().unwrap();
            assert_eq!(
                (blocker.id.as_str(), blocker.site.to_string()),
                (by, "home".into())
            );
        }
        assert!(bench.exists("networks", &network));
        assert_eq!(client.native_rows("customer").await[0]["status"], "ACTIVE");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn g10_a_resource_that_is_being_deleted_or_absent_gets_no_new_references() {
    let bench = bench(3);
    let (network, _) = bench.plain_network(2);
    with_engine(&bench, async |client| {
        let at = format!("{network}@envvars/RegionOne");
        bench.faults(
            json!([{"match": {"method": "DELETE"}, "action": {"status": 409,
                "type": "PortInUse", "message": "in use"}}]),
        );
        let id = client.delete("network", &network).await;
        client.until_any_step(&id, |step| step.attempts > 0).await;
        let said = conflict(client.try_create("record", json!({"networks": [at]})).await);
        assert_contains(&said, "is being deleted by deletion");
        let said = conflict(
            client
                .try_create("invoice", json!({"customer": "none"}))
                .await,
        );
        assert_eq!(said, "customer: there is no customer/none@home");
        let nowhere =
            json!({"networks": ["11111111-2222-3333-4444-555555555555@envvars/RegionOne"]});
        let said = conflict(client.try_create("record", nowhere).await);
        assert_contains(&said, "there is no network/11111111-");
        assert_eq!(client.native_rows("record").await, Vec::<Value>::new());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i11_a_crash_at_each_of_eleven_writes_leaves_references_deleted_or_unset() {
    for k in 1..12 {
        let bench = bench(k);
        let (network, _) = bench.plain_network(1);
        let at = format!("{network}@envvars/RegionOne");
        with_engine(&bench, async |client| {
            create(&client, "customer", json!({"id": "acme"})).await;
            create(&client, "record", json!({"id": "r1", "networks": [at]})).await;
            create(
                &client,
                "invoice",
                json!({"id": "i1", "customer": "acme", "network": at}),
            )
            .await;
        })
        .await;
        bench.crash.at_write(k);
        let begun = bench
            .run(async |client| {
                client
                    .until_gone(&client.delete("network", &network).await)
                    .await
            })
            .await;
        bench.crash.cancel();
        with_engine(&bench, async |client| {
            // The crash may have come before the deletion was accepted.
            let id = client.delete("network", &network).await;
            assert_eq!(
                client.until_terminal(&id).await.state,
                DeletionState::Gone,
                "{k} {begun:?}"
            );
            assert_eq!(
                client.native_rows("invoice").await,
                Vec::<Value>::new(),
                "{k}"
            );
            assert_eq!(
                client.native_rows("record").await[0]["networks"],
                json!([]),
                "{k}"
            );
            assert_eq!(client.native_rows("customer").await.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn p05_a_read_only_engine_refuses_to_create_a_native_resource() {
    let mut bench = bench(5);
    bench.settings.guard.read_only = true;
    with_engine(&bench, async |client| {
        let refused = client.try_create("customer", json!({"id": "acme"})).await;
        assert_matches!(refused, Err(ControlError::Refused { .. }));
    })
    .await;
}
