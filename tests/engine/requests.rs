//! Requests that clients repeat under an idempotency key, and requests with forged cursors.

use std::time::Duration;

use gone::control::{Command, ControlError, Envelope, Query, Receipt, query};
use gone::domain::model::{Actor, KindName, Origin, PlanOptions};
use serde_json::{Value, json};

use super::client::{Client, cascade, delete_command, target};
use super::drift::{delete_with_newcomer, fail_port_deletes};
use super::harness::{Bench, assert_matches, paused, site, with_engine};

const KINDS: &str = "service = \"billing\"\n[kind.customer.native]\n";

async fn submit_as(
    client: &Client,
    name: &str,
    key: &str,
    command: Command,
    reason: &str,
) -> Result<Receipt, ControlError> {
    let envelope = Envelope {
        command,
        actor: Actor {
            name: name.to_owned(),
            origin: Origin::Api,
        },
        reason: reason.to_owned(),
        idempotency_key: Some(key.to_owned()),
        deadline: None,
    };
    client.control.submit(envelope).await
}

async fn audit_rows(client: &Client) -> usize {
    let rows = client.control.ask(query::Audit { after: 0 }).await;
    rows.unwrap().len()
}

/// Whether the command was refused because its idempotency key belongs to another command.
fn is_refused_key(answer: &Result<Receipt, ControlError>) -> bool {
    matches!(answer, Err(ControlError::Usage { message }) if message.contains("idempotency key"))
}

#[tokio::test(start_paused = true)]
async fn a_command_repeated_under_its_key_runs_once_and_gets_the_same_answer() {
    let mut bench = Bench::new(1);
    bench.register_service("billing", KINDS);
    let (network, _) = bench.plain_network(2);
    bench.faults(json!([{
        "match": {"method": "DELETE", "kind": "port"},
    "action": {"status": 409, "type": "PortInUse", "message": "in use"},
    }]));
    with_engine(&bench, async |client| {
        let id = client.delete_with("network", &network, cascade()).await;
        client.until_blocked(&id, "port").await;
        let deletion_id = || id.clone();
        let pause = || Command::Pause {
            deletion_id: deletion_id(),
        };
        let resume = || Command::Resume {
            deletion_id: deletion_id(),
        };
        let retry = || Command::Retry {
            deletion_id: deletion_id(),
        };
        let cancel = || Command::Cancel {
            deletion_id: deletion_id(),
        };
        let customer = |name: &str| Command::Create {
            kind: "customer".to_owned(),
            body: json!({"id": name}),
        };
        for (number, (command, other)) in [
            (customer("acme"), customer("other")),
            (pause(), resume()),
            (resume(), pause()),
            (retry(), cancel()),
        ]
        .into_iter()
        .enumerate()
        {
            let key = format!("key-{number}");
            let first = submit_as(&client, "alice", &key, command.clone(), "").await;
            let first = json!(first.unwrap());
            let rows = audit_rows(&client).await;
            for _ in 0..2 {
                let again = submit_as(&client, "alice", &key, command.clone(), "").await;
                assert_eq!(json!(again.unwrap()), first, "{command:?}");
            }
            for (other, reason) in [(other, ""), (command.clone(), "another reason")] {
                let refused = submit_as(&client, "alice", &key, other, reason).await;
                assert!(is_refused_key(&refused), "{command:?}: {refused:?}");
            }
            assert_eq!(audit_rows(&client).await, rows, "{command:?} ran twice");
        }
        // The same key from another client is a different key.
        let rows = audit_rows(&client).await;
        let retry = Command::Retry { deletion_id: id };
        submit_as(&client, "bob", "key-0", retry, "").await.unwrap();
        assert_eq!(audit_rows(&client).await, rows + 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_of_one_command_is_refused_for_another_whether_or_not_it_deletes() {
    let mut bench = Bench::new(1);
    bench.register_service("billing", KINDS);
    let networks = [(); 2].map(|()| bench.plain_network(1).0);
    with_engine(&bench, async |client| {
        let delete = |network: &String| delete_command(vec![target("network", network)], cascade());
        let create = || Command::Create {
            kind: "customer".to_owned(),
            body: json!({"id": "acme"}),
        };
        let [first, second] = networks.each_ref().map(delete);
        submit_as(&client, "alice", "one", first, "").await.unwrap();
        let refused = submit_as(&client, "alice", "one", create(), "").await;
        assert!(is_refused_key(&refused), "{refused:?}");
        submit_as(&client, "alice", "two", create(), "")
            .await
            .unwrap();
        let refused = submit_as(&client, "alice", "two", second, "").await;
        assert!(is_refused_key(&refused), "{refused:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_repeated_under_its_key_is_answered_after_its_end_and_without_a_cloud() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(1);
    with_engine(&bench, async |client| {
        let delete = |options| delete_command(vec![target("network", &network)], options);
        // The second request joins the deletion of the first.
        let mut deletions = Vec::new();
        for key in ["first", "second"] {
            let answer = submit_as(&client, "alice", key, delete(cascade()), "").await;
            let Ok(Receipt::Accepted(accepted)) = answer else {
                panic!("{key}: {answer:?}");
            };
            deletions.push(accepted.deletion_id);
        }
        assert_eq!(deletions[0], deletions[1]);
        client.until_gone(&deletions[0]).await;
        for is_down in [false, true] {
            if is_down {
                bench.faults(json!([{"match": {}, "action": {"status": 503}}]));
            }
            for key in ["first", "second"] {
                let again = submit_as(&client, "alice", key, delete(cascade()), "").await;
                let is_answered = matches!(&again, Ok(Receipt::Accepted(accepted))
                        if accepted.existing && accepted.deletion_id == deletions[0]);
                assert!(is_answered, "{key}: {again:?}");
                let plain = delete(PlanOptions::default());
                let refused = submit_as(&client, "alice", key, plain, "").await;
                assert!(is_refused_key(&refused), "{key}: {refused:?}");
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_failed_may_be_repeated_under_its_key() {
    let mut bench = Bench::new(1);
    bench.register_service("billing", KINDS);
    with_engine(&bench, async |client| {
        let update = || Command::Update {
            kind: "customer".to_owned(),
            id: "acme".to_owned(),
            body: json!({}),
        };
        let refused = submit_as(&client, "alice", "k", update(), "").await;
        assert_matches!(refused, Err(ControlError::NotFound { .. }));
        let kind = "customer".to_owned();
        let body = json!({"id": "acme"});
        client.submit(Command::Create { kind, body }).await.unwrap();
        let updated = submit_as(&client, "alice", "k", update(), "").await;
        assert_matches!(updated, Ok(Receipt::Resource { .. }));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_under_the_key_of_a_command_that_still_runs_is_a_conflict() {
    let bench = Bench::new(1);
    let (network, ports) = bench.plain_network(1);
    fail_port_deletes(&bench, &ports[0]);
    with_engine(&bench, async |client| {
            let late = json!({ "network_id": network, "name": "late" });
            let (deletion_id, _) =
                delete_with_newcomer(&bench, &client, &network, late).await;
            // Accepted newcomers are planned, by calls that take 200 ms each.
            bench.limits(json!({ "latency_ms": 200 }));
            let accept = || Command::Drift {
                deletion_id: deletion_id.clone(),
                accept: true,
            };
            let (accepted, refused) =
                tokio::join!(submit_as(&client, "alice", "k", accept(), ""), async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    submit_as(&client, "alice", "k", accept(), "").await
                });
            assert!(
                matches!(&refused, Err(ControlError::Conflict { message }) if message.contains("still running")),
                "{refused:?}"
            );
            let again = submit_as(&client, "alice", "k", accept(), "").await;
            assert_eq!(json!(again.unwrap()), json!(accepted.unwrap()));
        }).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_is_valid_for_a_day() {
    let bench = Bench::new(1);
    with_engine(&bench, async |client| {
            let pause = || Command::PauseSite { site: site() };
            submit_as(&client, "alice", "k", pause(), "").await.unwrap();
            let rows = audit_rows(&client).await;
            tokio::time::sleep(Duration::from_secs(24 * 60 * 60 - 60)).await;
            submit_as(&client, "alice", "k", pause(), "").await.unwrap();
            assert_eq!(audit_rows(&client).await, rows, "the command ran twice within a day");
            tokio::time::sleep(Duration::from_secs(120)).await;
            let again = submit_as(&client, "alice", "k", pause(), "").await;
            assert!(
                matches!(&again, Err(ControlError::Conflict { message }) if message.contains("paused already")),
                "{again:?}"
            );
        }).await;
}

#[tokio::test(start_paused = true)]
async fn a_forged_cursor_is_a_usage_error() {
    let mut bench = Bench::new(1);
    bench.register_service("billing", KINDS);
    with_engine(&bench, async |client| {
        let forged = || Some("forged".to_owned());
        for query in [
            Query::Deletions(query::Deletions {
                cursor: forged(),
                ..query::Deletions::default()
            }),
            Query::Steps(query::Steps {
                cursor: forged(),
                ..query::Steps::default()
            }),
            Query::Tombstones(query::Tombstones {
                kind: Some(KindName::new("port")),
                cursor: forged(),
                ..query::Tombstones::default()
            }),
            Query::Native(query::Native {
                kind: "customer".to_owned(),
                cursor: forged(),
                ..query::Native::default()
            }),
            Query::Orphans(query::Orphans {
                cursor: forged(),
                ..query::Orphans::default()
            }),
        ] {
            let shown = format!("{query:?}");
            let answer = client.control.query(query).await;
            let Err(ControlError::Usage { message }) = answer else {
                panic!("{shown}: {answer:?}");
            };
            assert!(
                message.contains("the cursor \"forged\""),
                "{shown}: {message}"
            );
        }
    })
    .await;
}

/// A crash may come after the resource is stored and before the answer is stored under the idempotency key.
#[test]
fn i11_a_create_repeated_under_its_key_after_a_crash_finds_its_resource() {
    async fn create(client: &Client, name: &str, key: &str, body: Value) -> String {
        let command = Command::Create {
            kind: "customer".to_owned(),
            body,
        };
        match submit_as(client, name, key, command, "").await.unwrap() {
            Receipt::Resource { row } => row["id"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }
    let bench = || {
        let mut bench = Bench::new(1);
        bench.register_service("billing", KINDS);
        bench
    };
    let id = paused(async {
        let created = bench()
            .run(async |client| {
                let id = create(&client, "alice", "one", json!({})).await;
                for (name, key) in [("alice", "two"), ("bob", "one")] {
                    assert_ne!(create(&client, name, key, json!({})).await, id);
                }
                id
            })
            .await;
        created.unwrap()
    });
    // This ledger has the resource, and no answer under the key.
    paused(async {
        let bench = bench();
        with_engine(&bench, async |client| {
            create(&client, "carol", "other", json!({ "id": id })).await;
            assert_eq!(create(&client, "alice", "one", json!({})).await, id);
            assert_eq!(client.native_rows("customer").await.len(), 1);
        })
        .await;
    });
}
