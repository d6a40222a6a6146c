//! Calls that are withdrawn after their step was claimed, and before they are sent.

use std::time::Duration;

use super::harness::*;
use gone::control::Command;
use gone::domain::model::{DeletionState, StepState};
use serde_json::json;

/// The engine reads the incarnation of an image member right before it sends the delete. The cancel arrives during that
/// read.
#[tokio::test(start_paused = true)]
async fn p08_a_cancel_during_the_read_before_a_delete_sends_no_delete() {
    let bench = Bench::new(1);
    let made = bench.seed(json!({ "images": 1 }));
    let image = made["images"][0].as_str().unwrap();
    let demo = bench.demo_project();
    let member = format!("/v2/images/{image}/members/{demo}");
    with_engine(&bench, async |client| {
        let plan = client
            .plan("image_member", &format!("{image},{demo}"))
            .await;
        bench.limits(json!({ "latency_ms": 2_000 }));
        let id = client.delete_plan(&plan.hash).await;
        client
            .until_step(&id, "image_member", StepState::Running)
            .await;
        let cancel = Command::Cancel {
            deletion_id: id.clone(),
        };
        client.submit(cancel).await.unwrap();
        client.until_state(&id, DeletionState::Cancelled).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(bench.writes().is_empty(), "{:?}", bench.writes());
        let steps = client.steps(&id).await;
        assert_eq!(steps[0].state, StepState::Skipped, "{steps:?}");
    })
    .await;
    assert_eq!(bench.status(&member), 200);
}
