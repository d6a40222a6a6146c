//! Counts of the resources of a kind at a site: which fields of each row a count requests.

use gone::control::query;
use serde_json::json;

use super::client::Client;
use super::harness::{Bench, with_engine};

async fn counted(client: &Client, kind: &str) -> u64 {
    let counts = query::ResourceCounts { kind: kind.into() };
    let counts = client.control.ask(counts).await.unwrap();
    let [count] = &counts[..] else {
        panic!("{counts:?}");
    };
    assert_eq!(count.error, None);
    count.resources.unwrap()
}

#[tokio::test(start_paused = true)]
async fn counts_list_only_ids_unless_the_rows_are_of_several_kinds() {
    let bench = Bench::new(1);
    bench.shop(4);
    // The ports of router interfaces are a kind of their own, and do not count as ports.
    let interfaces = bench.rows("ports").into_iter();
    let interfaces = interfaces.filter(|row| row["device_owner"] == "network:router_interface");
    let ports = bench.ids("ports").len() - interfaces.count();
    let wanted = [
        ("network", "/networks", bench.ids("networks").len(), true),
        (
            "floating_ip",
            "/floatingips",
            bench.ids("floatingips").len(),
            true,
        ),
        ("port", "/ports", ports, false),
    ];
    with_engine(&bench, async |client| {
        for (kind, path, resources, is_by_id) in wanted {
            let before = bench.sent().len();
            assert_eq!(counted(&client, kind).await, resources as u64, "{kind}");
            let sent = bench.sent().split_off(before);
            let lists = sent.iter().filter(|it| it.path.contains(path));
            let fields: Vec<Vec<&str>> = lists
                .map(|it| {
                    let parts = it.path.split(['?', '&']);
                    parts
                        .filter_map(|part| part.strip_prefix("fields="))
                        .collect()
                })
                .collect();
            assert!(!fields.is_empty(), "{kind}");
            for fields in fields {
                match is_by_id {
                    true => assert_eq!(fields, ["id"], "{kind}"),
                    false => {
                        assert!(fields.contains(&"device_owner"), "{kind}: {fields:?}")
                    }
                }
            }
        }
    })
    .await;
    // Glance has no parameter for fields: it sends whole rows, which are counted, too.
    let (status, _) = bench.api(
        "POST",
        "/v2/images",
        json!({"name": "golden", "disk_format": "raw", "container_format": "bare"}),
    );
    assert_eq!(status, 201);
    let images = bench
        .run(async |client| counted(&client, "image").await)
        .await;
    assert_eq!(images, Some(1));
}
