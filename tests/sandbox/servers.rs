//! Servers and volumes of the practice cloud: seeds, and faults of a hypervisor or a storage.
use gone::sandbox::WorldOptions;
use serde_json::{Value, json};

use crate::cloud::Cloud;

impl Cloud {
    /// Calls RegionOne's Nova as admin; the path is below `/v2.1`.
    fn call_nova(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call_service("compute/v2.1", method, path, body)
    }

    /// Calls RegionOne's Cinder as admin; the path is below `/v3`.
    fn call_cinder(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call_service("volumev3/v3", method, path, body)
    }

    fn call_service(
        &mut self,
        service: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let token = self.log_in("admin", "secret");
        let body = Some(&body).filter(|body| !body.is_null());
        let path = format!("/RegionOne/{service}{path}");
        let got = self.send(method.parse().unwrap(), &path, token.as_deref(), body, &[]);
        (got.status, got.body)
    }

    /// Waits this many milliseconds. Returns the row of a server, or `null` if the server does not exist.
    fn server_after(&mut self, milliseconds: i64, id: &str) -> Value {
        self.advance(milliseconds);
        let (_, body) = self.call_nova("GET", &format!("/servers/{id}"), Value::Null);
        body["server"].clone()
    }

    fn delete_server(&mut self, id: &str) -> u16 {
        self.call_nova("DELETE", &format!("/servers/{id}"), Value::Null)
            .0
    }

    /// Creates a volume, waits until it is available, and returns its id.
    fn volume(&mut self) -> String {
        let (_, made) = self.call_cinder("POST", "/volumes", json!({"volume": {"size": 1}}));
        self.advance(1_000);
        made["volume"]["id"].as_str().unwrap().to_owned()
    }

    fn volume_status_after(&mut self, milliseconds: i64, id: &str) -> Value {
        self.advance(milliseconds);
        let (_, body) = self.call_cinder("GET", &format!("/volumes/{id}"), Value::Null);
        body["volume"]["status"].clone()
    }

    fn delete_volume(&mut self, id: &str) -> u16 {
        self.call_cinder("DELETE", &format!("/volumes/{id}"), Value::Null)
            .0
    }

    /// Replaces the faults by one for the deletes of a kind.
    fn fault_deletes(&mut self, kind: &str, action: Value) {
        let rule = json!([{"match": {"kind": kind, "method": "DELETE"}, "action": action}]);
        self.control("PUT", "/faults", rule);
    }
}

/// A cloud with one seeded server, the id of the server, and the id of its port.
fn with_server(options: WorldOptions) -> (Cloud, String, String) {
    let mut cloud = Cloud::with_options(options);
    let made = cloud.control("POST", "/seed", json!({"networks": 1, "servers": 1}));
    let id = made["servers"][0].as_str().unwrap().to_owned();
    let ports = cloud.get(&format!("/ports?device_id={id}")).body;
    let port = ports["ports"][0]["id"].as_str().unwrap().to_owned();
    (cloud, id, port)
}

/// The status and the task state of a server, `gone -` if it does not exist.
fn state(server: &Value) -> String {
    let task = server["OS-EXT-STS:task_state"].as_str();
    let status = server["status"].as_str().unwrap_or("gone");
    format!("{status} {}", task.unwrap_or("-"))
}

#[test]
fn a_deleted_server_deletes_its_port_and_is_shown_as_deleted_for_a_moment() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    assert_eq!(state(&cloud.server_after(0, &id)), "ACTIVE -");
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(500, &id)), "ACTIVE deleting");
    assert_eq!(state(&cloud.server_after(500, &id)), "DELETED -");
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 404);
    let (_, list) = cloud.call_nova("GET", "/servers/detail", Value::Null);
    assert_eq!(list["servers"], json!([]));
    assert_eq!(state(&cloud.server_after(300, &id)), "gone -");
    let (_, list) = cloud.call_nova("GET", "/servers/detail?deleted=true", Value::Null);
    assert_eq!(list["servers"][0]["id"], json!(id));
}

#[test]
fn a_server_on_a_hanging_hypervisor_stays_in_deleting_until_its_host_is_down() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    cloud.fault_deletes("server", json!({"ends_in": "never"}));
    for _ in 0..2 {
        assert_eq!(cloud.delete_server(&id), 204);
        let hour = 60 * 60 * 1000;
        assert_eq!(state(&cloud.server_after(hour, &id)), "ACTIVE deleting");
    }
    let reset = json!({"os-resetState": {"state": "error"}});
    cloud.call_nova("POST", &format!("/servers/{id}/action"), reset);
    assert_eq!(state(&cloud.server_after(0, &id)), "ERROR -");
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(60_000, &id)), "ERROR deleting");

    // A course of 0 seconds imitates a host that is down. Nova ignores a repeated DELETE while the first one
    // hangs, so the state is reset before.
    let reset = json!({"os-resetState": {"state": "error"}});
    cloud.call_nova("POST", &format!("/servers/{id}/action"), reset);
    cloud.fault_deletes("server", json!({"ends_in": "done", "for_s": 0}));
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(0, &id)), "gone -");
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 404);
}

#[test]
fn a_server_whose_hypervisor_refuses_ends_in_error_with_the_reason_and_keeps_its_port() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    cloud.fault_deletes("server", json!({"ends_in": "error", "for_s": 5}));
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(4_999, &id)), "ACTIVE deleting");
    let server = cloud.server_after(1, &id);
    assert_eq!(state(&server), "ERROR -");
    let reason = "Failed to terminate instance: the hypervisor refuses";
    assert_eq!(server["fault"]["message"], reason);
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 200);
    cloud.control("PUT", "/faults", json!([]));
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(2_000, &id)), "gone -");
}

#[test]
fn a_soft_deleted_server_keeps_its_port_and_can_be_restored_or_deleted_by_force() {
    let (mut cloud, id, port) = with_server(WorldOptions {
        soft_delete: true,
        ..WorldOptions::default()
    });
    let action = format!("/servers/{id}/action");
    for _ in 0..2 {
        assert_eq!(cloud.delete_server(&id), 204);
        assert_eq!(state(&cloud.server_after(1_000, &id)), "SOFT_DELETED -");
    }
    for (query, found) in [("", 0), ("?status=SOFT_DELETED", 0), ("?deleted=true", 1)] {
        let (_, list) = cloud.call_nova("GET", &format!("/servers/detail{query}"), Value::Null);
        assert_eq!(list["servers"].as_array().unwrap().len(), found, "{query}");
    }
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 200);
    let (status, _) = cloud.call_nova("POST", &action, json!({"restore": null}));
    assert_eq!(status, 202);
    assert_eq!(state(&cloud.server_after(1_000, &id)), "ACTIVE -");

    assert_eq!(cloud.delete_server(&id), 204);
    cloud.advance(1_000);
    cloud.call_nova("POST", &action, json!({"forceDelete": null}));
    assert_eq!(state(&cloud.server_after(2_000, &id)), "gone -");
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 404);
}

#[test]
fn a_deleted_server_is_revived_with_its_port() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    cloud.fault_deletes("server", json!({"recreate_after_ms": 5_000}));
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(2_000, &id)), "gone -");
    assert_eq!(state(&cloud.server_after(3_000, &id)), "ACTIVE -");
    assert_eq!(
        cloud.get(&format!("/ports/{port}")).body["port"]["device_id"],
        json!(id)
    );
}

#[test]
fn a_volume_deletion_ends_in_available_on_a_busy_storage_and_in_error_on_a_failing_one() {
    let mut cloud = Cloud::new();
    let volume = cloud.volume();
    cloud.fault_deletes("volume", json!({"ends_in": "put_back"}));
    assert_eq!(cloud.delete_volume(&volume), 202);
    assert_eq!(cloud.delete_volume(&volume), 400);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "available");
    cloud.fault_deletes("volume", json!({"ends_in": "error"}));
    assert_eq!(cloud.delete_volume(&volume), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "error_deleting");
    assert_eq!(cloud.delete_volume(&volume), 400);
    cloud.control("PUT", "/faults", json!([]));
    let forced = format!("{volume}?force=true");
    assert_eq!(cloud.delete_volume(&forced), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), Value::Null);
}

#[test]
fn a_failed_cascade_leaves_a_volume_and_its_snapshot_in_error_deleting() {
    let mut cloud = Cloud::new();
    let volume = cloud.volume();
    let body = json!({"snapshot": {"volume_id": volume}});
    let (_, made) = cloud.call_cinder("POST", "/snapshots", body);
    let snapshot = format!("/snapshots/{}", made["snapshot"]["id"].as_str().unwrap());
    cloud.advance(1_000);
    cloud.fault_deletes("volume", json!({"ends_in": "error"}));
    assert_eq!(cloud.delete_volume(&format!("{volume}?cascade=true")), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "error_deleting");
    let (_, shown) = cloud.call_cinder("GET", &snapshot, Value::Null);
    assert_eq!(shown["snapshot"]["status"], "error_deleting");
}

#[test]
fn a_fault_of_volume_attachments_undoes_or_refuses_a_detach() {
    let (mut cloud, server, _) = with_server(WorldOptions::default());
    let volume = cloud.volume();
    let path = format!("/servers/{server}/os-volume_attachments");
    let body = json!({"volumeAttachment": {"volumeId": volume}});
    assert_eq!(cloud.call_nova("POST", &path, body).0, 200);
    let detach = |cloud: &mut Cloud| {
        let path = format!("{path}/{volume}");
        cloud.call_nova("DELETE", &path, Value::Null).0
    };
    cloud.fault_deletes("volume_attachment", json!({"ends_in": "put_back"}));
    assert_eq!(detach(&mut cloud), 202);
    assert_eq!(detach(&mut cloud), 400);
    assert_eq!(cloud.volume_status_after(999, &volume), "detaching");
    assert_eq!(cloud.volume_status_after(1, &volume), "in-use");
    cloud.fault_deletes("volume_attachment", json!({"status": 500}));
    assert_eq!(detach(&mut cloud), 500);
    cloud.control("PUT", "/faults", json!([]));
    assert_eq!(detach(&mut cloud), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "available");
}

#[test]
fn a_fault_with_for_s_needs_an_end_other_than_never() {
    let mut cloud = Cloud::new();
    for action in [json!({"for_s": 3}), json!({"ends_in": "never", "for_s": 3})] {
        let rule = json!([{"action": action}]);
        let got = cloud.try_control("PUT", "/faults", rule);
        assert_eq!(got.status, 400);
        let problem = "[0].action: for_s: needs ends_in, other than never";
        assert_eq!(got.body["error"], problem);
    }
}
