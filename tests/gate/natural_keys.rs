//! Resources that are created again under the natural key of a deleted one: one record, next incarnation (M, I10).

use chrono::{DateTime, Utc};
use gone::control::query;
use gone::domain::model::{DeletionState, KindName, Phase, PlanOptions, Tombstone};
use gone::sandbox::WorldOptions;
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, SOURCES, Stage, site, until};

const IMAGE: (GateSource, &str) = (GateSource::User, "image");
const PROJECT: &str = "0f0e0d0c0b0a09080706050403020100";

/// Creates a shared image. Returns its id and the path of its members.
async fn shared_image(stage: &Stage) -> (String, String) {
    let body = json!({"name": "base", "visibility": "shared"});
    let image = stage.make("image", "/v2/images", body).await;
    let members = format!("/v2/images/{image}/members");
    (image, members)
}

/// Adds the project to the image's members, through the gate of this source.
async fn add(stage: &Stage, source: GateSource, members: &str) -> Answer {
    let body = Some(json!({"member": PROJECT}));
    stage
        .call((source, "image"), Method::POST, members, body)
        .await
}

/// Returns every record of the kind.
async fn records(stage: &Stage, kind: &str) -> Vec<Tombstone> {
    let tombstones = query::Tombstones {
        site: Some(site()),
        kind: Some(KindName::new(kind)),
        limit: 100,
        ..query::Tombstones::default()
    };
    stage.control.ask(tombstones).await.unwrap().rows
}

/// Returns the kind's record, and asserts that there is no other.
async fn only_record(stage: &Stage, kind: &str) -> Tombstone {
    let mut all = records(stage, kind).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn delete_until_gone(stage: &Stage, kind: &str, id: &str) {
    let deletion = stage.delete(kind, id, PlanOptions::default()).await;
    stage.until(&deletion, DeletionState::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m01_m02_m03_a_member_that_is_added_again_is_revived_in_the_same_record() {
    let stage = Stage::new().await;
    let (image, members) = shared_image(&stage).await;
    let member = format!("{members}/{PROJECT}");
    assert_eq!(add(&stage, GateSource::User, &members).await.status, 200);
    let mut first = None;
    for incarnation in 1..5 {
        delete_until_gone(&stage, "image_member", &format!("{image},{PROJECT}")).await;
        let gone = only_record(&stage, "image_member").await;
        assert_eq!((gone.phase, gone.incarnation), (Phase::Gone, incarnation));
        assert!(gone.deleted_at.is_some() && gone.gone_at.is_some());
        stage
            .call(IMAGE, Method::GET, &member, None)
            .await
            .with_status(404);

        let again = add(&stage, GateSource::User, &members).await;
        assert_eq!(again.status, 200, "{}", again.text);
        let alive = only_record(&stage, "image_member").await;
        assert_eq!(alive.record_id, *first.get_or_insert(gone.record_id));
        assert_eq!(
            (alive.phase, alive.incarnation),
            (Phase::Released, incarnation + 1)
        );
        assert_eq!((alive.deleted_at, alive.gone_at), (None, None));
        for source in SOURCES {
            let at = (source, "image");
            let read = stage.call(at, Method::GET, &member, None).await;
            assert_eq!(read.status, 200, "{source:?}: {}", read.text);
            let listed = stage.call(at, Method::GET, &members, None).await;
            assert_eq!(listed.json()["members"].as_array().unwrap().len(), 1);
        }
        // Adding a member that exists changes nothing.
        let twice = add(&stage, GateSource::User, &members).await;
        assert_eq!(twice.status, 409, "{}", twice.text);
        assert_eq!(only_record(&stage, "image_member").await, alive);
    }
    assert_eq!(records(&stage, "image_member").await.len(), 1);
}

/// The ledger does not know of the new member. But if the record of a natural key is gone, a resource under that key is
/// never the deleted one.
#[tokio::test(flavor = "multi_thread")]
async fn i10_a_member_added_again_past_the_gate_is_shown_although_its_record_is_gone() {
    let stage = Stage::new().await;
    let (image, members) = shared_image(&stage).await;
    assert_eq!(add(&stage, GateSource::User, &members).await.status, 200);
    delete_until_gone(&stage, "image_member", &format!("{image},{PROJECT}")).await;
    let around = format!("{}{members}", stage.upstream("image"));
    let body = Some(json!({"member": PROJECT}));
    stage
        .send(Method::POST, &around, &stage.admin, body)
        .await
        .with_status(200);
    assert_eq!(only_record(&stage, "image_member").await.phase, Phase::Gone);
    let member = format!("{members}/{PROJECT}");
    for source in SOURCES {
        let at = (source, "image");
        let read = stage.call(at, Method::GET, &member, None).await;
        assert_eq!(read.status, 200, "{source:?}: {}", read.text);
        let listed = stage.call(at, Method::GET, &members, None).await;
        assert_eq!(listed.json()["members"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m01_only_a_user_revives_a_deleted_member_and_only_after_it_is_gone() {
    let stage = Stage::new().await;
    let (image, members) = shared_image(&stage).await;
    let id = format!("{image},{PROJECT}");
    assert_eq!(add(&stage, GateSource::User, &members).await.status, 200);
    // Planning waits until this write has ended: the write guard is set, and the member still exists.
    let write = stage.tombstones.begin_write(&site());
    let deletion = stage
        .delete("image_member", &id, PlanOptions::default())
        .await;
    for source in SOURCES {
        let refused = add(&stage, source, &members).await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert!(
            refused.text.contains("is being deleted"),
            "{}",
            refused.text
        );
        assert_eq!(refused.header("x-gone-deletion"), deletion);
    }
    drop(write);
    stage.until(&deletion, DeletionState::Gone).await;
    for source in [GateSource::Local, GateSource::Central] {
        let refused = add(&stage, source, &members).await;
        assert_eq!(refused.status, 409, "{source:?}: {}", refused.text);
        assert!(refused.text.contains("was deleted"), "{}", refused.text);
    }
    assert_eq!(only_record(&stage, "image_member").await.phase, Phase::Gone);
    assert_eq!(add(&stage, GateSource::User, &members).await.status, 200);
    // From now on the member exists for a local site, too.
    let twice = add(&stage, GateSource::Local, &members).await;
    assert!(twice.text.contains("is duplicated"), "{}", twice.text);
}

/// The first of two calls is answered late, and the second does not reach the cloud before that. The test compares the
/// times at which the calls arrived at the cloud; the order in which the answers arrive here proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn m05_m06_two_creates_of_one_key_through_two_gates_run_one_after_the_other() {
    const LATE_MS: i64 = 400;
    let stage = Stage::new().await;
    let (image, members) = shared_image(&stage).await;
    assert_eq!(add(&stage, GateSource::User, &members).await.status, 200);
    delete_until_gone(&stage, "image_member", &format!("{image},{PROJECT}")).await;
    let slow = json!([{
        "match": {"method": "POST", "path": "/members"}, "times": 1, "action": {"delay_ms": LATE_MS}
    }]);
    stage.faults(slow).await;
    let posts = async || {
        let calls = stage.sandbox(Method::GET, "calls", Value::Null).await;
        let posts = calls["calls"].as_array().unwrap().iter();
        let posts = posts
            .filter(|it| it["method"] == "POST" && it["path"] == json!(path_of(&stage, &members)));
        let at = posts.map(|it| it["at"].as_str().unwrap().parse().unwrap());
        at.collect::<Vec<DateTime<Utc>>>()
    };
    let before = posts().await.len();
    let first = add(&stage, GateSource::User, &members);
    let second = async {
        let arrived = async || posts().await.len() > before;
        until("the first call is at the cloud", arrived).await;
        add(&stage, GateSource::Local, &members).await
    };
    let (won, lost) = tokio::join!(first, second);
    assert_eq!(won.status, 200, "{}", won.text);
    assert!(lost.text.contains("is duplicated"), "{}", lost.text);
    let arrived = posts().await.split_off(before);
    let [first, second] = arrived.as_slice() else {
        panic!("two creates are two calls: {arrived:?}");
    };
    let apart = (*second - *first).num_milliseconds();
    assert!(
        apart >= LATE_MS,
        "the second call arrived {apart} ms after the first"
    );
    let record = only_record(&stage, "image_member").await;
    assert_eq!((record.phase, record.incarnation), (Phase::Released, 2));
}

fn path_of(stage: &Stage, path: &str) -> String {
    let upstream = stage.upstream("image");
    format!(
        "{}{path}",
        upstream.strip_prefix(stage.cloud.url()).unwrap()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn m06_glances_refusal_to_add_a_deleted_member_again_is_shown_to_the_client() {
    for reuse in [false, true] {
        let world = WorldOptions {
            member_reuse: reuse,
            ..WorldOptions::default()
        };
        let stage = Stage::in_world(world, "").await;
        let (image, members) = shared_image(&stage).await;
        assert_eq!(add(&stage, GateSource::User, &members).await.status, 200);
        delete_until_gone(&stage, "image_member", &format!("{image},{PROJECT}")).await;
        let again = add(&stage, GateSource::User, &members).await;
        let record = only_record(&stage, "image_member").await;
        match reuse {
            true => assert_eq!((again.status, record.phase), (200, Phase::Released)),
            false => {
                assert_eq!((again.status, record.phase), (409, Phase::Gone));
                assert!(again.text.contains("is duplicated"), "{}", again.text);
            }
        }
    }
}

/// Edges: each is created, deleted and created again under its natural key.
#[tokio::test(flavor = "multi_thread")]
async fn m06_interfaces_subports_and_routes_are_revived_by_their_natural_keys() {
    let stage = Stage::new().await;
    let make = async |path: &str, body: Value| stage.make("network", path, body).await;
    let network = make("/v2.0/networks", json!({"network": {"name": "web"}})).await;
    let on = |body: Value| {
        let mut body = body;
        body["network_id"] = json!(network);
        body
    };
    let subnet = on(json!({"ip_version": 4, "cidr": "10.9.0.0/24"}));
    let subnet = make("/v2.0/subnets", json!({ "subnet": subnet })).await;
    let port = async || make("/v2.0/ports", json!({"port": on(json!({}))})).await;
    let (parent, child) = (port().await, port().await);
    let router = make("/v2.0/routers", json!({"router": {"name": "edge"}})).await;
    let trunk = make("/v2.0/trunks", json!({"trunk": {"port_id": parent}})).await;
    let add_interface = format!("/v2.0/routers/{router}/add_router_interface");
    let hop = "10.9.0.77";
    let route = json!({"destination": "192.0.2.0/24", "nexthop": hop});
    let routes = json!({"router": {"routes": [route]}});
    let subports = json!({"sub_ports": [{"port_id": child, "segmentation_type": "vlan", "segmentation_id": 7}]});
    let new_port = on(json!({"fixed_ips": [{"subnet_id": subnet}]}));
    let interface = format!("{router},{subnet}");
    // Routes need the interface that they lead through.
    let by_subnet = json!({ "subnet_id": subnet });
    stage
        .user_put(&add_interface, by_subnet.clone())
        .await
        .with_status(200);
    let route_id = format!("{router},192.0.2.0/24,{hop}");
    let of_router = format!("/v2.0/routers/{router}");
    let add_routes = format!("{of_router}/add_extraroutes");
    let subport_id = format!("{trunk},{child}");
    let add_subports = format!("/v2.0/trunks/{trunk}/add_subports");
    for (kind, id, path, body) in [
        ("static_route", &route_id, &add_routes, routes.clone()),
        ("static_route", &route_id, &of_router, routes),
        ("subport", &subport_id, &add_subports, subports),
    ] {
        let create = async || stage.user_put(path, body.clone()).await;
        let first = create().await;
        assert_eq!(first.status, 200, "{kind}: {}", first.text);
        delete_until_gone(&stage, kind, id).await;
        let gone = only_record(&stage, kind).await;
        assert_eq!(gone.phase, Phase::Gone, "{kind}");
        let again = create().await;
        assert_eq!(again.status, 200, "{kind}: {}", again.text);
        let alive = only_record(&stage, kind).await;
        assert_eq!(
            (alive.phase, alive.incarnation),
            (Phase::Released, gone.incarnation + 1),
            "{kind}"
        );
        delete_until_gone(&stage, kind, id).await;
    }
    for incarnation in 1..4 {
        delete_until_gone(&stage, "router_interface", &interface).await;
        let gone = only_record(&stage, "router_interface").await;
        assert_eq!((gone.phase, gone.incarnation), (Phase::Gone, incarnation));
        // When the call names a port, only the answer names the subnet.
        let body = match incarnation {
            2 => json!({"port_id": make("/v2.0/ports", json!({"port": new_port})).await}),
            _ => by_subnet.clone(),
        };
        stage.user_put(&add_interface, body).await.with_status(200);
        let alive = only_record(&stage, "router_interface").await;
        assert_eq!(
            (alive.phase, alive.incarnation),
            (Phase::Released, incarnation + 1)
        );
    }
}
