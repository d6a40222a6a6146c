//! Cascades over several services: balancers, images, and the resources of a project.

use std::time::Duration;

use super::harness::*;
use gone::domain::model::{DeletionState, Phase, StepState};
use serde_json::{Value, json};

/// Creates a network with ports, and this many balancers on it. Returns the ids of the network and of the balancers.
fn network_with_balancers(bench: &Bench, count: u32) -> (String, Vec<String>) {
    let made =
        bench.seed(json!({ "networks": 1, "ports_per_network": 3, "load_balancers": count }));
    let ids = made["load_balancers"].as_array().unwrap().iter();
    let ids = ids.map(|id| id.as_str().unwrap().to_owned());
    (
        made["networks"][0].as_str().unwrap().to_owned(),
        ids.collect(),
    )
}

/// Sets how the next change of a balancer runs: how long it takes (for ever by default), and how it ends.
fn delay_balancer(bench: &Bench, balancer: &str, more: Value) {
    let mut change = json!({ "id": balancer });
    change
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    bench.control("PUT", "/balancers", change);
}

#[tokio::test(start_paused = true)]
async fn n04_a_network_is_deleted_with_its_balancers_each_by_one_call() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_balancers(&bench, 3);
    bench.delete_until_gone("network", &network).await;
    for collection in ["loadbalancers", "listeners", "pools", "healthmonitors"] {
        assert_eq!(bench.ids(collection), Vec::<String>::new(), "{collection}");
    }
    assert!(!bench.exists("networks", &network));
    for balancer in &balancers {
        let sent = bench.writes_to(balancer);
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert!(sent[0].path.ends_with("?cascade=true"), "{sent:?}");
    }
    // Listeners cost no call of their own.
    let writes = bench.writes();
    assert!(
        writes.iter().all(|sent| !sent.path.contains("listeners")),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn n14_balancers_being_deleted_are_listed_every_two_seconds_at_most() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_balancers(&bench, 8);
    for balancer in &balancers {
        delay_balancer(&bench, balancer, json!({ "for_s": 60 }));
    }
    bench.delete_until_gone("network", &network).await;
    let sent = bench.sent();
    let first_write = sent.iter().position(SentRequest::is_write).unwrap();
    let balancers = |call: &&SentRequest| call.path.starts_with(&path_of("loadbalancers"));
    let reads: Vec<&SentRequest> = sent[first_write..]
        .iter()
        .filter(|call| call.is_read())
        .filter(balancers)
        .collect();
    assert!(reads.len() <= 60 / 2 + 20, "{} reads", reads.len());
    let lists = reads.iter().filter(|call| call.path.contains('?'));
    let at: Vec<_> = lists.map(|call| call.at).collect();
    // The first observation is due at once.
    for pair in at[1..].windows(2) {
        assert!(pair[1] - pair[0] >= chrono::TimeDelta::seconds(2), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn i06_i12_a_balancer_that_stays_pending_for_hours_ends_stuck_and_delays_nothing_else() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_balancers(&bench, 2);
    delay_balancer(&bench, &balancers[0], json!({}));
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        // The other balancer is gone.
        assert!(!bench.exists("loadbalancers", &balancers[1]));
        assert_eq!(client.deletion(&id).await.state, DeletionState::Running);
        let step = client.step_of(&id, &balancers[0]).await;
        assert_eq!((step.state, step.attempts), (StepState::Verifying, 0));
        let error = step.last_error.unwrap();
        assert_eq!(error.kind, "PENDING_DELETE");
        assert!(step.blocked_since.is_some());
        assert!(!error.message.contains("controller"), "{}", error.message);
        tokio::time::sleep(Duration::from_secs(11 * 60)).await;
        let error = client.step_of(&id, &balancers[0]).await.last_error.unwrap();
        let said = "is still PENDING_DELETE, for 1";
        assert_contains(&error.message, said);
        let warning = "may still work on it: its own limit is 2 h 45 min";
        assert!(error.message.ends_with(warning), "{}", error.message);
        tokio::time::sleep(Duration::from_secs(3 * 60 * 60)).await;
        client.until_stuck(&id).await;
        let step = client.step_of(&id, &balancers[0]).await;
        assert_eq!((step.state, step.attempts), (StepState::Stuck, 0));
        assert_eq!(step.last_error.unwrap().kind, "PENDING_DELETE");
    })
    .await;
    assert_eq!(
        bench.writes_to(&balancers[0]).len(),
        1,
        "the delete was not sent exactly once"
    );
}

#[tokio::test(start_paused = true)]
async fn i03_a_balancer_whose_delete_ends_in_error_is_blocked_and_retried() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_balancers(&bench, 1);
    delay_balancer(
        &bench,
        &balancers[0],
        json!({ "for_s": 5, "ends_in": "ERROR" }),
    );
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_blocked(&id, "load_balancer").await;
        let step = client.step(&id, "load_balancer").await;
        assert_eq!(step.attempts, 1);
        assert_eq!(step.last_error.unwrap().kind, "ERROR");
        client.until_gone(&id).await;
    })
    .await;
    assert_eq!(bench.writes_to(&balancers[0]).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn i06_a_balancer_that_is_being_updated_is_blocked_and_uses_no_attempt() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_balancers(&bench, 1);
    let updating = json!({ "provisioning_status": "PENDING_UPDATE", "for_s": 30 });
    delay_balancer(&bench, &balancers[0], updating);
    with_engine(&bench, async |client| {
        let id = client.delete("network", &network).await;
        client.until_blocked(&id, "load_balancer").await;
        assert_eq!(client.step(&id, "load_balancer").await.attempts, 0);
        client.until_gone(&id).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn n04_a_vip_port_that_the_user_made_is_deleted_after_its_balancer() {
    let bench = Bench::new(1);
    let (network, _) = bench.plain_network(2);
    let port = bench.create("ports", json!({ "network_id": network }));
    let lb = bench.create(
        "loadbalancers",
        json!({ "name": "mine", "vip_port_id": port }),
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    delay_balancer(&bench, &lb, json!({ "for_s": 30 }));
    bench.delete_until_gone("network", &network).await;
    let at = |id: &str| bench.writes_to(id)[0].at;
    // The port is deleted when the balancer is gone, and not when its delete is accepted.
    assert!(at(&port) - at(&lb) >= chrono::TimeDelta::seconds(30));
    assert!(!bench.exists("networks", &network));
}

#[tokio::test(start_paused = true)]
async fn the_resources_of_a_project_are_deleted_and_it_stays_with_its_default_group() {
    let bench = Bench::new(1);
    let made = bench.seed(
        json!({ "project": "demo", "networks": 2, "ports_per_network": 3, "trunks": 1,
        "load_balancers": 1, "images": 2 }),
    );
    let kept = bench.seed(json!({ "networks": 1, "ports_per_network": 2, "images": 1 }));
    let steps = with_engine(&bench, async |client| {
        let id = client.delete_until_gone("project", "demo").await.id;
        client.steps(&id).await
    })
    .await;
    let mine = |collection: &str| {
        let key = collection.replace("loadbalancers", "load_balancers");
        let ids = made[key.as_str()].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for collection in ["networks", "ports", "trunks", "loadbalancers", "images"] {
        let there = bench.ids(collection);
        assert!(
            mine(collection).iter().all(|id| !there.contains(id)),
            "{collection}"
        );
    }
    assert_eq!(bench.ids("images"), [kept["images"][0].as_str().unwrap()]);
    assert!(bench.exists("networks", kept["networks"][0].as_str().unwrap()));
    let names: Vec<&str> = steps
        .iter()
        .map(|step| step.resource.key.kind.as_str())
        .collect();
    assert!(
        !names.contains(&"project") && !names.contains(&"security_group"),
        "{names:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn i06_a_member_or_rule_of_a_balancer_that_changes_for_minutes_is_deleted_by_one_call() {
    for kind in ["member", "l7_rule"] {
        let bench = Bench::new(1);
        let mut made = bench.furnish_demo();
        let id = made.remove(kind).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        // The change takes longer than the time for which the engine observes an accepted delete.
        delay_balancer(&bench, &made["load_balancer"], json!({ "for_s": 600 }));
        bench.delete_until_gone(kind, &id).await;
        let (_, own) = id.split_once(',').unwrap();
        assert_eq!(bench.writes_to(own).len(), 1, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_member_is_found_at_the_site_of_its_image() {
    let bench = Bench::in_regions(1, &["RegionOne", "RegionTwo"]);
    let made = bench.seed(json!({ "images": 1 }));
    let image = made["images"][0].as_str().unwrap();
    let demo = bench.demo_project();
    bench
        .delete_until_gone("image_member", &format!("{image},{demo}"))
        .await;
    let path = format!("/v2/images/{image}/members/{demo}");
    assert_eq!(bench.status(&path), 404);
}

#[tokio::test(start_paused = true)]
async fn i10_an_image_member_that_was_removed_and_added_again_stays() {
    let bench = Bench::new(1);
    let made = bench.seed(json!({ "images": 1 }));
    let image = made["images"][0].as_str().unwrap();
    let members = format!("/v2/images/{image}/members");
    let demo = bench.demo_project();
    bench.api("DELETE", &format!("{members}/{demo}"), Value::Null);
    tokio::time::sleep(Duration::from_secs(2)).await;
    bench.call_ok("POST", &members, json!({ "member": demo }));
    let fault = json!([{ "match": { "kind": "image_member", "method": "DELETE" }, "times": 1,
        "action": { "status": 503, "retry_after": 30 } }]);
    bench.faults(fault);
    with_engine(&bench, async |client| {
        let member = format!("{image},{demo}");
        let id = client.delete("image_member", &member).await;
        client.until_blocked(&id, "image_member").await;
        // Somebody removes the member and adds it again: the new member is not the target.
        bench.api("DELETE", &format!("{members}/{demo}"), Value::Null);
        tokio::time::sleep(Duration::from_secs(2)).await;
        bench.api("POST", &members, json!({ "member": demo }));
        let before = bench.writes().len();
        client.until_gone(&id).await;
        assert_eq!(bench.writes().len(), before, "the new member was deleted");
    })
    .await;
    assert_eq!(bench.status(&format!("{members}/{demo}")), 200);
}

#[tokio::test(start_paused = true)]
async fn i13_hidden_images_that_plain_lists_omit_are_deleted_and_confirmed() {
    let bench = Bench::new(1);
    bench.seed(json!({ "images": 1 }));
    let hide = |name: &str| {
        let body = json!({ "name": name, "os_hidden": true });
        let answer = bench.call_ok("POST", &path_of("images"), body);
        answer["id"].as_str().unwrap().to_owned()
    };
    let hidden: Vec<String> = ["a", "b", "c", "d", "e"].map(hide).to_vec();
    // The delete is accepted and has no effect. A list that omits the image must not prove its absence.
    bench.faults(
        json!([{ "match": { "kind": "image", "id": hidden[0], "method": "DELETE" }, "times": 1,
        "action": { "keep": true } }]),
    );
    with_engine(&bench, async |client| {
        let id = client.delete_all("image", &hidden).await;
        client.until_gone(&id).await;
    })
    .await;
    for image in &hidden {
        assert!(!bench.exists("images", image), "{image}");
    }
    assert_eq!(bench.writes_to(&hidden[0]).len(), 2);
    // A list of the hidden images is empty and has no witness, so each image is read.
    let read = |image: &String| format!("{}/{image}", path_of("images"));
    let sent = bench.sent();
    let is_read = |path: String| sent.iter().any(|it| it.is_read() && it.path == path);
    assert!(hidden.iter().map(read).all(is_read));
}

#[tokio::test(start_paused = true)]
async fn t14_t16_a_project_that_was_emptied_is_not_gone_and_its_new_resources_are_not_swept() {
    let bench = Bench::new(1);
    let project = bench.demo_project();
    with_engine(&bench, async |client| {
        let id = client.delete("project", "demo").await;
        assert_eq!(client.until_gone(&id).await.counts.total, 0);
        let tombstone = client.tombstone(&project).await;
        assert!(
            tombstone
                .as_ref()
                .is_none_or(|it| it.phase == Phase::Released),
            "{tombstone:?}"
        );
        bench.seed(json!({ "project": "demo", "networks": 1, "ports_per_network": 1 }));
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
        assert_eq!(bench.writes(), []);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn i09_two_deletions_of_one_project_at_once_send_each_call_once() {
    let bench = Bench::new(1);
    let made = bench.seed(
        json!({ "project": "demo", "networks": 2, "ports_per_network": 5, "load_balancers": 1 }),
    );
    // The first deletion runs until the plan of the second one is made.
    let balancer = made["load_balancers"][0].as_str().unwrap();
    delay_balancer(&bench, balancer, json!({ "for_s": 120 }));
    with_engine(&bench, async |client| {
        let first = client.delete("project", "demo").await;
        client.until(&first, |it| it.counts.gone > 2).await;
        let second = client.delete("project", "demo").await;
        client.until_gone(&first).await;
        client.until_gone(&second).await;
    })
    .await;
    let mut signatures: Vec<String> = bench.writes().iter().map(SentRequest::signature).collect();
    signatures.sort();
    let sent = signatures.len();
    signatures.dedup();
    assert_eq!(signatures.len(), sent);
}

#[tokio::test(start_paused = true)]
async fn t14_the_sweep_observes_many_balancers_by_one_list() {
    let bench = Bench::new(1);
    let (network, balancers) = network_with_balancers(&bench, 150);
    with_engine(&bench, async |client| {
        client.delete_until_gone("network", &network).await;
        let before = bench.sent().len();
        let every = bench.settings.engine.sweep;
        tokio::time::sleep(every * 2).await;
        let sent = bench.sent();
        let lists = sent[before..]
            .iter()
            .filter(|call| call.path.starts_with(&path_of("loadbalancers")))
            .count();
        assert!(
            (1..=3).contains(&lists),
            "{lists} for {} balancers",
            balancers.len()
        );
    })
    .await;
}
