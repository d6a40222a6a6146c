//! A gate in front of Nova or Cinder: it forwards calls with their microversion, refuses in the service's error
//! format, and recognizes servers and volumes in all paths that clients use.

use gone::domain::model::{DeletionState, PlanOptions};
use gone::system::config::GateSource;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Stage, until};

const COMPUTE: (GateSource, &str) = (GateSource::User, "compute");
const STORAGE: (GateSource, &str) = (GateSource::User, "volumev3");
const LOCAL_STORAGE: (GateSource, &str) = (GateSource::Local, "volumev3");

/// The gate itself refuses a path that two servers may read differently.
#[tokio::test(flavor = "multi_thread")]
async fn t22_a_gate_refuses_in_the_error_format_of_nova_and_cinder() {
    let stage = Stage::new().await;
    for (gate, path) in [(COMPUTE, "/servers/a%2Fb"), (STORAGE, "/volumes/a%2Fb")] {
        let answer = stage
            .call(gate, Method::GET, path, None)
            .await
            .with_status(400);
        let body = answer.json();
        assert_eq!(body["badRequest"]["code"], 400, "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1);
    }
}

/// The microversion decides whether Nova answers 202 or 204.
#[tokio::test(flavor = "multi_thread")]
async fn a_microversion_reaches_nova_as_it_was_sent() {
    let stage = Stage::new().await;
    let url = stage.url(GateSource::User, "compute");
    let key = json!({"keypair": {"name": "k", "public_key": "ssh-ed25519 AAAA"}});
    for (version, status) in [
        (None, 202),
        (Some("compute 2.1"), 202),
        (Some("compute 2.96"), 204),
    ] {
        stage
            .call(COMPUTE, Method::POST, "/os-keypairs", Some(key.clone()))
            .await
            .with_status(201);
        let mut request = stage
            .request(Method::DELETE, &format!("{url}/os-keypairs/k"))
            .header("x-auth-token", &stage.admin);
        if let Some(version) = version {
            request = request.header("openstack-api-version", version);
        }
        assert_eq!(
            stage.send_request(request).await.status,
            status,
            "{version:?}"
        );
    }
}

/// Creates a volume with a snapshot, and waits until both are available. Returns their ids.
async fn volume_with_snapshot(stage: &Stage) -> (String, String) {
    let volume = json!({"volume": {"name": "v", "size": 1}});
    let volume = stage.make("volumev3", "/volumes", volume).await;
    until_available(stage, &format!("/volumes/{volume}"), "volume").await;
    let snapshot = json!({"snapshot": {"volume_id": volume}});
    let snapshot = stage.make("volumev3", "/snapshots", snapshot).await;
    until_available(stage, &format!("/snapshots/{snapshot}"), "snapshot").await;
    (volume, snapshot)
}

async fn until_available(stage: &Stage, path: &str, item: &str) {
    until(path, async || {
        let answer = stage.call(STORAGE, Method::GET, path, None).await;
        answer.json()[item]["status"] == "available"
    })
    .await;
}

/// Faults that refuse every delete of a snapshot until they are removed.
fn failing_snapshot_deletes() -> Value {
    json!([{"match": {"method": "DELETE", "path": "/snapshots/"},
        "action": {"status": 400, "message": "Invalid snapshot: held by the test"}}])
}

/// Starts the deletion of a volume and its snapshot, and waits until the step of the snapshot is blocked. Returns the
/// ids of the volume and the snapshot.
async fn volume_being_deleted(stage: &Stage) -> (String, String) {
    let (volume, snapshot) = volume_with_snapshot(stage).await;
    stage.faults(failing_snapshot_deletes()).await;
    let cascade = PlanOptions {
        cascade: true,
        ..PlanOptions::default()
    };
    let id = stage.delete("volume", &volume, cascade).await;
    stage.until_counts(&id, |counts| counts.blocked == 1).await;
    (volume, snapshot)
}

/// The gate does not forward `cascade`: Cinder would accept it too, and then fail silently.
#[tokio::test(flavor = "multi_thread")]
async fn n01_t07_a_cascade_deletes_a_volumes_snapshots_first() {
    let stage = Stage::new().await;
    let (volume, snapshot) = volume_with_snapshot(&stage).await;
    let path = format!("/volumes/{volume}");
    let plain = stage
        .call(STORAGE, Method::DELETE, &path, None)
        .await
        .with_status(400);
    assert!(plain.text.contains("have snapshots"), "{}", plain.text);

    stage.faults(failing_snapshot_deletes()).await;
    let cascade = format!("{path}?cascade=True");
    let id = stage
        .call(STORAGE, Method::DELETE, &cascade, None)
        .await
        .with_status(202)
        .deletion();
    stage.until_counts(&id, |counts| counts.blocked == 1).await;
    for path in [path.clone(), format!("/snapshots/{snapshot}")] {
        let shown = stage.call(STORAGE, Method::GET, &path, None).await.json();
        let shown = shown.as_object().unwrap().values().next().unwrap();
        assert_eq!(shown["status"], "deleting", "{path}");
    }
    stage.faults(json!([])).await;
    stage
        .call(STORAGE, Method::DELETE, &path, None)
        .await
        .with_status(204);
    let deletion = stage.until(&id, DeletionState::Gone).await;
    assert_eq!((deletion.counts.gone, deletion.counts.total), (2, 2));
    let after = stage.call(STORAGE, Method::GET, &path, None).await;
    assert_eq!(
        (after.status, &after.json()["itemNotFound"]["code"]),
        (404, &json!(404))
    );
}

/// Neither the volume nor its snapshot is in a list, with or without details.
#[tokio::test(flavor = "multi_thread")]
async fn t05_a_local_site_does_not_see_a_volume_being_deleted() {
    let stage = Stage::new().await;
    let (volume, _) = volume_being_deleted(&stage).await;
    for list in [
        "/volumes",
        "/volumes/detail",
        "/snapshots",
        "/snapshots/detail",
    ] {
        let answer = stage.call(LOCAL_STORAGE, Method::GET, list, None).await;
        assert_eq!(answer.status, 200, "{list}: {}", answer.text);
        let rows = answer.json();
        let rows = rows.as_object().unwrap().values().next().unwrap();
        assert_eq!(rows, &json!([]), "{list}");
    }
    let path = format!("/volumes/{volume}");
    stage
        .call(LOCAL_STORAGE, Method::GET, &path, None)
        .await
        .with_status(404);
}

/// A new reference to a volume that is being deleted is refused (T17): in the fields in which calls of Nova and Cinder
/// usually refer to volumes, and in the error format of the called service.
#[tokio::test(flavor = "multi_thread")]
async fn t17_a_new_reference_to_a_volume_being_deleted_is_refused() {
    let stage = Stage::new().await;
    let (volume, snapshot) = volume_being_deleted(&stage).await;
    let source = |field: &str, id: &str| json!({"volume": {"name": "new", "size": 1, field: id}});
    let disk = json!([{"uuid": volume, "source_type": "volume", "destination_type": "volume"}]);
    let of_volume = json!({"volume_id": volume});
    let extend = format!("/volumes/{volume}/action");
    let server = json!({"name": "new", "flavorRef": "1", "block_device_mapping_v2": disk});
    let attachment = json!({"volumeAttachment": {"volumeId": volume}});
    for (gate, path, body) in [
        (STORAGE, "/volumes", source("source_volid", &volume)),
        (STORAGE, "/volumes", source("snapshot_id", &snapshot)),
        (STORAGE, "/snapshots", json!({"snapshot": of_volume})),
        (STORAGE, "/backups", json!({"backup": of_volume})),
        (STORAGE, &extend, json!({"os-extend": {"new_size": 2}})),
        (COMPUTE, "/servers", json!({"server": server})),
        (COMPUTE, "/servers/0/os-volume_attachments", attachment),
    ] {
        let answer = stage.call(gate, Method::POST, path, Some(body)).await;
        assert_eq!(answer.status, 409, "{path}: {}", answer.text);
        let refusal = &answer.json()["conflictingRequest"];
        assert_eq!(refusal["code"], 409, "{path}: {}", answer.text);
        assert!(
            refusal["message"].to_string().contains("is being deleted"),
            "{refusal}"
        );
    }
}
