//! Resources with copies at other sites: a plain DELETE deletes the copies too, and the gate lets nobody create them
//! again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gone::domain::model::{DeletionState, Phase};
use gone::sandbox::WorldOptions;
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Stage, until};

const NETWORKS: &str = "/v2.0/networks";
const LOCALS: [&str; 2] = ["RegionTwo", "RegionThree"];

/// Starts a cloud of three regions. The second and the third may have copies of resources of the first.
async fn stage_with_copies() -> Stage {
    let regions = ["RegionOne"].into_iter().chain(LOCALS);
    let world = WorldOptions {
        regions: regions.map(str::to_owned).collect(),
        ..WorldOptions::default()
    };
    let mapping = "[[mapping]]\ncentral = 'sandbox/RegionOne'\n\
                   locals = ['sandbox/RegionTwo', 'sandbox/RegionThree']\n";
    Stage::in_world(world, mapping).await
}

fn copy_of(original: &str) -> Value {
    json!({"network": {"name": "web", "tags": [format!("gone:copy-of={original}")]}})
}

/// Creates a copy in this region, past every gate. The tag needs a second call, because Neutron accepts none when a
/// network is created. Returns the copy's id.
async fn make_copy(stage: &Stage, region: &str, original: &str) -> String {
    let web = json!({"network": {"name": "web"}});
    let id = stage.make_at(region, "network", NETWORKS, web).await;
    let url = stage.upstream_at(region, "network");
    let tags = Some(json!({"tags": [format!("gone:copy-of={original}")]}));
    let url = format!("{url}{NETWORKS}/{id}/tags");
    stage
        .send(Method::PUT, &url, &stage.admin, tags)
        .await
        .with_status(200);
    id
}

/// A network, and its copy in each of the other regions.
struct CopiedNetwork {
    original: String,
    copies: Vec<(&'static str, String)>,
}

impl CopiedNetwork {
    async fn new(stage: &Stage) -> Self {
        let original = stage.network("web").await;
        let mut copies = Vec::new();
        for region in LOCALS {
            copies.push((region, make_copy(stage, region, &original).await));
        }
        Self { original, copies }
    }

    fn path(&self) -> String {
        format!("{NETWORKS}/{}", self.original)
    }

    /// Returns the regions whose service still has the network or its copy.
    async fn remaining_regions(&self, stage: &Stage) -> BTreeSet<&'static str> {
        let mut left = BTreeSet::new();
        let all = self.copies.iter().map(|(region, id)| (*region, id));
        for (region, id) in all.chain([("RegionOne", &self.original)]) {
            let url = format!("{}{NETWORKS}/{id}", stage.upstream_at(region, "network"));
            let shown = stage.send(Method::GET, &url, &stage.admin, None).await;
            match shown.status {
                200 => assert!(left.insert(region)),
                404 => {}
                other => panic!("{other} {}", shown.text),
            }
        }
        left
    }

    /// Creates a port on the copy in this region. The port blocks the deletion of the copy. Returns the port's id.
    async fn add_port_to_copy(&self, stage: &Stage, region: &str) -> String {
        let (_, copy) = self.copies.iter().find(|(at, _)| *at == region).unwrap();
        let port = json!({"port": {"network_id": copy}});
        let ports = "/v2.0/ports";
        stage.make_at(region, "network", ports, port).await
    }
}

/// Faults that refuse every delete of a network in this region until they are removed.
fn failing_network_deletes(region: &str) -> Value {
    json!([{"match": {"method": "DELETE", "kind": "network", "region": region},
        "action": {"status": 409, "type": "NetworkInUse", "message": "held by the test"}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_t09_a_plain_delete_deletes_the_copies_too_and_waits_until_all_are_gone() {
    let stage = stage_with_copies().await;
    let web = CopiedNetwork::new(&stage).await;
    let answer = stage.user_delete(&web.path()).await.with_status(204);
    assert_eq!(web.remaining_regions(&stage).await, BTreeSet::new());
    let id = answer.header("x-gone-deletion");
    let deletion = stage.deletion(id).await;
    assert_eq!(
        (deletion.state, deletion.counts.gone),
        (DeletionState::Gone, 3)
    );
    stage.user_delete(&web.path()).await.with_status(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_n15_a_blocker_at_any_site_refuses_a_plain_delete_and_nothing_is_sent() {
    let stage = stage_with_copies().await;
    let web = CopiedNetwork::new(&stage).await;
    let port = web.add_port_to_copy(&stage, "RegionThree").await;
    let before = web.remaining_regions(&stage).await;
    let answer = stage.user_delete(&web.path()).await.with_status(409);
    let error = &answer.json()["NeutronError"];
    assert_eq!(error["type"], "NetworkInUse");
    assert!(
        error["message"].as_str().unwrap().contains(&port),
        "{error}"
    );
    assert_eq!(web.remaining_regions(&stage).await, before);
    assert_eq!(stage.phase("network", &web.original), None);
    let shown = stage.user_get(&web.path()).await;
    assert_eq!(shown.json()["network"]["status"], "ACTIVE");
    // A client without the right to delete the network gets the same refusal as from the service.
    let url = format!("{}{}", stage.url(GateSource::User, "network"), web.path());
    for (token, status) in [(stage.demo.as_str(), 404), ("", 401)] {
        stage
            .send(Method::DELETE, &url, token, None)
            .await
            .with_status(status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n12_t19_a_delete_blocked_at_one_site_is_answered_with_the_reason_and_continues() {
    let stage = stage_with_copies().await;
    let web = CopiedNetwork::new(&stage).await;
    stage.faults(failing_network_deletes("RegionThree")).await;
    let answer = stage.user_delete(&web.path()).await.with_status(409);
    let id = answer.deletion();
    for part in [id.as_str(), "held by the test"] {
        assert!(answer.text.contains(part), "{}", answer.text);
    }
    let left = async || {
        web.remaining_regions(&stage).await == BTreeSet::from(["RegionOne", "RegionThree"])
    };
    until("the other region's copy is gone", left).await;
    // Nothing is undone, and the deletion continues: a repeated DELETE retries the blocked step at once.
    stage.faults(json!([])).await;
    let again = stage.user_delete(&web.path()).await;
    assert_eq!(
        (again.status, again.header("x-gone-deletion")),
        (204, id.as_str())
    );
    stage.until(&id, DeletionState::Gone).await;
    assert_eq!(web.remaining_regions(&stage).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn n16_a_single_503_at_one_local_site_does_not_fail_a_plain_delete() {
    let stage = stage_with_copies().await;
    let web = CopiedNetwork::new(&stage).await;
    let down = json!([{"match": {"method": "DELETE", "kind": "network", "region": "RegionThree"},
        "times": 1, "action": {"status": 503, "message": "one moment"}}]);
    stage.faults(down).await;
    stage.user_delete(&web.path()).await.with_status(204);
    assert_eq!(web.remaining_regions(&stage).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn t05_t12_a_region_that_is_done_gets_no_copy_back_while_another_is_slow() {
    let stage = stage_with_copies().await;
    let web = CopiedNetwork::new(&stage).await;
    stage.faults(failing_network_deletes("RegionThree")).await;
    let answer = stage.user_delete(&web.path()).await.with_status(409);
    let done = async || !web.remaining_regions(&stage).await.contains("RegionTwo");
    until("the second region's copy is gone", done).await;

    let central = stage.url(GateSource::Local, "network");
    let read = format!("{central}{}", web.path());
    let list = format!("{central}{NETWORKS}?name=web");
    let networks_url = |source: GateSource| {
        let own = stage.url_at("RegionTwo", source, "network");
        format!("{own}{NETWORKS}")
    };
    for copied in [false, true] {
        if copied {
            stage.faults(json!([])).await;
            let id = answer.header("x-gone-deletion");
            stage.user_delete(&web.path()).await;
            stage.until(id, DeletionState::Gone).await;
        }
        stage
            .send(Method::GET, &read, &stage.admin, None)
            .await
            .with_status(404);
        let listed = stage.send(Method::GET, &list, &stage.admin, None).await;
        assert_eq!(listed.json()["networks"], json!([]));
        // A copy that a client read before the deletion is not created again either.
        for source in [GateSource::Local, GateSource::Central] {
            let copy = Some(copy_of(&web.original));
            let url = networks_url(source);
            let made = stage.send(Method::POST, &url, &stage.admin, copy).await;
            assert_eq!(made.status, 409, "{source:?}: {}", made.text);
            assert_eq!(
                made.json()["NeutronError"]["type"],
                "ResourceBeingDeleted",
                "{source:?}"
            );
            assert_eq!(
                made.header("x-gone-deletion"),
                answer.header("x-gone-deletion")
            );
        }
    }
    // A network with the same name, but without the tag, is not a copy.
    let other = Some(json!({"network": {"name": "web"}}));
    let url = networks_url(GateSource::Local);
    stage
        .send(Method::POST, &url, &stage.admin, other)
        .await
        .with_status(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn n09_a_delete_with_a_service_token_is_forwarded_and_leaves_the_copies() {
    let stage = stage_with_copies().await;
    let roles = json!({"name": "demo", "roles": {"demo": ["service"]}});
    stage.sandbox(Method::PUT, "users", roles).await;
    // A token is a service's only if Keystone says so.
    for (service, planned) in [(stage.demo.as_str(), false), ("forged", true)] {
        let web = CopiedNetwork::new(&stage).await;
        let url = format!("{}{}", stage.url(GateSource::User, "network"), web.path());
        let request = stage
            .request(Method::DELETE, &url)
            .header("x-auth-token", &stage.admin)
            .header("x-service-token", service);
        let answer = stage.send_request(request).await.with_status(204);
        assert_eq!(!answer.header("x-gone-deletion").is_empty(), planned);
        let left = if planned { &[][..] } else { &LOCALS[..] };
        assert_eq!(
            web.remaining_regions(&stage).await,
            left.iter().copied().collect()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_a_plain_delete_that_outlasts_the_wait_is_answered_204_while_it_runs() {
    let slow = json!([{"match": {"method": "DELETE", "kind": "network", "region": "RegionTwo"},
        "action": {"delay_ms": 600_000}}]);
    let regions = ["RegionOne", "RegionTwo"].map(str::to_owned).to_vec();
    let world = WorldOptions {
        regions,
        ..WorldOptions::default()
    };
    let impatient = "[[gate]]\nlisten = '127.0.0.1:0'\nplain_wait = '1s'\nupstream = { cloud = \
                     'sandbox', region = 'RegionOne', service = 'network' }\n\
                     [[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['sandbox/RegionTwo']\n";
    let stage = Stage::in_world(world, impatient).await;
    let original = stage.network("web").await;
    make_copy(&stage, "RegionTwo", &original).await;
    stage.faults(slow).await;
    let path = format!("{NETWORKS}/{original}");
    let id = stage.user_delete(&path).await.with_status(204).deletion();
    assert_eq!(stage.deletion(&id).await.state, DeletionState::Running);
    let shown = stage.user_get(&path).await;
    assert_eq!(shown.json()["network"]["status"], "DELETING");
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_a_plain_delete_is_refused_as_soon_as_one_blocked_step_on_any_page_does_not_move_in_time()
 {
    let [two, three] = LOCALS;
    for (soon, late) in [(two, three), (three, two)] {
        // A 503 with Retry-After delays all calls to its region, so each case has a cloud of its own.
        let stage = stage_with_copies().await;
        let gate = stage
            .gate_with_one_step_a_page(Duration::from_secs(55))
            .await;
        let web = CopiedNetwork::new(&stage).await;
        let mut faults = failing_network_deletes(late);
        let busy = json!({"match": {"method": "DELETE", "kind": "network", "region": soon},
            "action": {"status": 503, "retry_after": 50}});
        faults.as_array_mut().unwrap().push(busy);
        stage.faults(faults).await;
        let path = stage.path_of("RegionOne", "network");
        let url = format!("http://{}{path}{}", gate.address(), web.path());
        let since = Instant::now();
        stage
            .send(Method::DELETE, &url, &stage.admin, None)
            .await
            .with_status(409);
        // The gate would wait longer if every step were due in time.
        assert!(
            since.elapsed() < Duration::from_secs(40),
            "only the step at {soon} is due in time"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i01_i04_a_parked_delete_waits_in_the_retry_queue_and_keeps_the_dependents() {
    let stage = Stage::new().await;
    let network = stage.network("web").await;
    let port = json!({"port": {"network_id": network}});
    let port = stage.make("network", "/v2.0/ports", port).await;
    let path = format!("{NETWORKS}/{network}");
    let odd = format!("{path}?park=perhaps");
    assert_eq!(stage.user_delete(&odd).await.status, 400);
    let off = format!("{path}?park=false");
    let refused = stage.user_delete(&off).await;
    assert_eq!(
        (refused.status, refused.header("x-gone-deletion")),
        (409, "")
    );

    let parked = format!("{path}?park=true");
    let parked = stage.user_delete(&parked).await.with_status(202);
    let id = parked.deletion();
    assert_eq!(
        parked.header("location"),
        format!("/gone/v1/deletions/{id}")
    );
    let deletion = stage.deletion(&id).await;
    assert_eq!((deletion.counts.total, deletion.counts.blocked), (1, 1));
    assert_eq!(stage.phase("network", &network), Some(Phase::Deleting));
    // The port blocks the deletion and stays as it is; new ports are refused.
    assert_eq!(stage.phase("port", &port), None);
    let more = Some(json!({"port": {"network_id": network}}));
    stage
        .call_user_gate(Method::POST, "/v2.0/ports", more)
        .await
        .with_status(409);
    let port = format!("/v2.0/ports/{port}");
    stage.user_delete(&port).await.with_status(204);
    let again = stage.user_delete(&path).await;
    assert_eq!(
        (again.status, again.header("x-gone-deletion")),
        (204, id.as_str())
    );
    stage.until(&id, DeletionState::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t14_a_create_with_a_deleted_networks_name_is_refused_where_copies_match_by_name() {
    let regions = ["RegionOne", "RegionTwo"].map(str::to_owned).to_vec();
    let world = WorldOptions {
        regions,
        ..WorldOptions::default()
    };
    let mapping = "[[mapping]]\ncentral = 'sandbox/RegionOne'\nlocals = ['sandbox/RegionTwo']\n\
                   match = 'name'\n";
    let stage = Stage::in_world(world, mapping).await;
    let web = json!({"network": {"name": "web"}});
    let original = stage.make("network", NETWORKS, web.clone()).await;
    stage
        .make_at("RegionTwo", "network", NETWORKS, web.clone())
        .await;
    let path = format!("{NETWORKS}/{original}");
    stage.faults(failing_network_deletes("RegionOne")).await;
    let answer = stage.user_delete(&path).await;
    let id = answer.deletion();
    let made = async |source: GateSource, token: &str, body: Value| {
        let url = format!("{}{NETWORKS}", stage.url_at("RegionTwo", source, "network"));
        stage.send(Method::POST, &url, token, Some(body)).await
    };
    let many = json!({"networks": [{"name": "other"}, {"name": "web"}]});
    for gone in [false, true] {
        if gone {
            stage.faults(json!([])).await;
            stage.user_delete(&path).await;
            stage.until(&id, DeletionState::Gone).await;
        }
        for source in [GateSource::Local, GateSource::Central] {
            for body in [&web, &many] {
                let answer = made(source, &stage.admin, body.clone()).await;
                assert_eq!(answer.status, 409, "{gone} {source:?}: {}", answer.text);
                let refusal = &answer.json()["NeutronError"];
                assert_eq!(refusal["type"], "ResourceBeingDeleted");
                assert_eq!(answer.header("x-gone-deletion"), id);
            }
        }
        // A network with another name, or with the same name in another project, is not a copy.
        for (token, name) in [(&stage.admin, "other"), (&stage.demo, "web")] {
            let body = json!({"network": {"name": name}});
            let answer = made(GateSource::Local, token, body).await;
            assert_eq!(answer.status, 201, "{gone} {name}: {}", answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_copy_of_a_part_is_refused_while_its_original_is_deleted_and_afterwards() {
    let stage = stage_with_copies().await;
    let web = CopiedNetwork::new(&stage).await;
    let subnets = "/v2.0/subnets";
    let fields = json!({"network_id": web.original, "ip_version": 4, "cidr": "10.0.0.0/24"});
    let subnet = stage
        .make("network", subnets, json!({"subnet": fields}))
        .await;
    let other = json!({"network": {"name": "other"}});
    let other = stage.make_at("RegionTwo", "network", NETWORKS, other).await;
    stage.faults(failing_network_deletes("RegionOne")).await;
    let answer = stage.user_delete(&web.path()).await;
    let id = answer.deletion();
    for gone in [false, true] {
        if gone {
            stage.faults(json!([])).await;
            stage.user_delete(&web.path()).await;
            stage.until(&id, DeletionState::Gone).await;
        }
        for source in [GateSource::Local, GateSource::Central] {
            let copy = json!({"subnet": {"network_id": other, "ip_version": 4, "cidr": "10.0.0.0/24",
                "tags": [format!("gone:copy-of={subnet}")]}});
            let url = format!("{}{subnets}", stage.url_at("RegionTwo", source, "network"));
            let made = stage
                .send(Method::POST, &url, &stage.admin, Some(copy))
                .await;
            assert_eq!(made.status, 409, "{gone} {source:?}: {}", made.text);
            assert_eq!(made.json()["NeutronError"]["type"], "ResourceBeingDeleted");
            assert_eq!(made.header("x-gone-deletion"), id);
        }
    }
}
