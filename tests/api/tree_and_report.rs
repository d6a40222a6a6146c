//! The tree and the report of a deletion.

use std::sync::Arc;

use gone::control::Page;
use gone::domain::model::{Deletion, DeletionState, Paged, RefusalRule, Step, StepState};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::samples::{self, step};

/// Requests the tree or the report of a deletion. The control answers with the deletion, its plan, and its steps in
/// pages.
async fn request(path: &str, deletion: Deletion, pages: Vec<Vec<Step>>) -> Value {
    let bench = Bench::new().await;
    let plan = || Page::FrozenPlan(Arc::new(samples::plan()));
    bench
        .fake
        .answer_next_query(Ok(Page::Deletion(Box::new(deletion))));
    let last = pages.len() - 1;
    let steps = pages.into_iter().enumerate().map(|(at, rows)| {
        Page::Steps(Paged {
            rows,
            next: (at < last).then(|| at.to_string()),
        })
    });
    let answers: Vec<Page> = match path {
        "tree" => steps.chain([plan()]).collect(),
        _ => [plan()].into_iter().chain(steps).collect(),
    };
    for answer in answers {
        bench.fake.answer_next_query(Ok(answer));
    }
    let (status, body) = bench.get(&format!("/api/v1/deletions/d1/{path}")).await;
    assert_eq!(status, 200);
    body
}

#[tokio::test]
async fn the_tree_nests_each_step_below_the_steps_that_wait_for_it() {
    let pages = vec![
        vec![
            step(1, "network", &[2, 3], StepState::Waiting),
            step(2, "subnet", &[4], StepState::Waiting),
        ],
        vec![
            step(3, "router_interface", &[4], StepState::Waiting),
            step(4, "port", &[], StepState::Blocked),
        ],
    ];
    let tree = request("tree", samples::deletion("d1"), pages).await;
    assert_eq!(tree["deletion_id"], "d1");
    assert_eq!(tree["roots"].as_array().unwrap().len(), 1);
    let network = &tree["roots"][0];
    assert_eq!(network["resource"]["kind"], "network");
    let children = network["children"].as_array().unwrap();
    assert_eq!(children.len(), 2);
    let port = &children[0]["children"][0];
    assert_eq!(
        (&port["id"], &port["state"]),
        (&json!(4), &json!("blocked"))
    );
    assert_eq!(port["blockers"][0]["id"], "p9");
    assert_eq!(port["children"], json!([]));
    let again = &children[1]["children"][0];
    assert_eq!(
        (&again["id"], &again["repeated"]),
        (&json!(4), &json!(true))
    );
    assert!(again.get("children").is_none());
    assert_eq!(tree["automatic"][0]["kind"], "port");
    assert_eq!(tree["unset"][0]["action"], "unset");
}

#[tokio::test]
async fn the_tree_is_complete_if_a_step_has_more_dependencies_than_its_row_lists() {
    let bench = Bench::new().await;
    let ports: Vec<i64> = (2..=602).collect();
    let whole = step(1, "network", &ports, StepState::Waiting);
    let cut = step(1, "network", &ports[..500], StepState::Waiting);
    let ports = ports.iter();
    let ports = ports.map(|id| step(*id, "port", &[], StepState::Gone));
    for page in [
        Page::Deletion(Box::new(samples::deletion("d1"))),
        Page::Steps(Paged {
            rows: [cut].into_iter().chain(ports).collect(),
            next: None,
        }),
        Page::Step(Box::new(whole)),
        Page::FrozenPlan(Arc::new(samples::plan())),
    ] {
        bench.fake.answer_next_query(Ok(page));
    }
    let (status, tree) = bench.get("/api/v1/deletions/d1/tree").await;
    assert_eq!(status, 200);
    assert_eq!(tree["roots"].as_array().unwrap().len(), 1);
    assert_eq!(tree["roots"][0]["children"].as_array().unwrap().len(), 601);
}

#[tokio::test]
async fn a_chain_of_200_steps_is_a_complete_tree_that_parses() {
    let chain = (1..=200).map(|id| match id {
        200 => step(id, "port", &[], StepState::Ready),
        _ => step(id, "port", &[id + 1], StepState::Waiting),
    });
    let tree = request("tree", samples::deletion("d1"), vec![chain.collect()]).await;
    fn count_unrepeated(nodes: &Value) -> usize {
        let nodes = nodes.as_array().unwrap().iter();
        nodes
            .map(|node| {
                let unrepeated = usize::from(node.get("repeated").is_none());
                unrepeated + node.get("children").map_or(0, count_unrepeated)
            })
            .sum()
    }
    assert_eq!(count_unrepeated(&tree["roots"]), 200);
}

#[tokio::test]
async fn n10_the_report_has_a_status_and_a_message_for_each_resource() {
    let mut unanswered = step(7, "port", &[], StepState::Stuck);
    unanswered.last_error.as_mut().unwrap().status = None;
    let pages = vec![
        vec![
            step(1, "port", &[], StepState::Gone),
            step(2, "port", &[], StepState::Running),
        ],
        vec![
            step(3, "port", &[], StepState::Blocked),
            step(4, "port", &[], StepState::Stuck),
            step(5, "port", &[], StepState::Skipped),
            unanswered,
        ],
    ];
    let report = request("report", samples::deletion("d1"), pages).await;
    let data = report["data"].as_array().unwrap();
    let statuses: Vec<_> = data
        .iter()
        .map(|line| line["status"].as_u64().unwrap())
        .collect();
    // The automatic resources, those that are unset and those that stay come first, and then the steps.
    assert_eq!(statuses, [202, 202, 424, 204, 202, 409, 409, 424, 409]);
    assert_eq!(data[2]["message"], "stays: it is shared");
    assert_eq!(data[3]["resource"]["id"], "port-1");
    assert_eq!(data[3]["resource"]["name"], "name-1");
    assert_eq!(data[3]["message"], "delete: gone");
    assert_eq!(
        data[5]["message"],
        "delete: blocked: There are one or more ports still in use"
    );
    assert_eq!(data[5]["action"], "delete");
}

#[tokio::test]
async fn n05_automatic_resources_are_reported_as_removed_when_the_deletion_is_gone() {
    let mut deletion = samples::deletion("d1");
    deletion.state = DeletionState::Gone;
    let report = request("report", deletion, vec![vec![]]).await;
    assert_eq!(report["data"][0]["status"], 204);
    assert_eq!(report["data"][0]["message"], "removed by the cloud itself");
    assert_eq!(report["data"][1]["action"], "unset");
}

#[tokio::test]
async fn the_report_of_a_refused_deletion_names_the_refusals() {
    let mut deletion = samples::deletion("d1");
    deletion.state = DeletionState::Refused;
    deletion.refused = vec![samples::refusal(RefusalRule::InUse)];
    let report = request("report", deletion, vec![vec![]]).await;
    let data = report["data"].as_array().unwrap();
    assert_eq!(data.len(), 1);
    assert_eq!(data[0]["status"], 409);
    assert_eq!(data[0]["resource"]["id"], "n1");
    assert_eq!(data[0]["message"], "network n1 is in use by port p9");
}

#[tokio::test]
async fn a_report_is_an_empty_list_while_planning() {
    let bench = Bench::new().await;
    let deletion = samples::deletion("d1");
    bench
        .fake
        .answer_next_query(Ok(Page::Deletion(Box::new(deletion))));
    let message = "no plan yet".to_owned();
    let no_plan = gone::control::ControlError::NotFound { message };
    bench.fake.answer_next_query(Err(no_plan));
    bench.fake.answer_next_query(Ok(Page::Steps(Paged {
        rows: vec![],
        next: None,
    })));
    let answer = bench.get("/api/v1/deletions/d1/report").await;
    assert_eq!(answer, (200, json!({"data": []})));
}
