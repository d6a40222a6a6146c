//! What the sandbox alone does with servers and volumes: seeds, and a hypervisor or a storage that misbehaves.
use gone::sandbox::WorldOptions;
use serde_json::{Value, json};

use crate::cloud::Cloud;

impl Cloud {
    /// As admin, to RegionOne's Nova; the path begins behind `/v2.1`.
    fn computing(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.at("compute/v2.1", method, path, body)
    }

    /// As admin, to RegionOne's Cinder; the path begins behind `/v3`.
    fn storing(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.at("volumev3/v3", method, path, body)
    }

    fn at(&mut self, service: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let token = self.log_in("admin", "secret");
        let body = Some(&body).filter(|body| !body.is_null());
        let path = format!("/RegionOne/{service}{path}");
        let got = self.send(method.parse().unwrap(), &path, token.as_deref(), body, &[]);
        (got.status, got.body)
    }

    /// A server's row, once some milliseconds have passed; `null` if it is gone.
    fn server_after(&mut self, milliseconds: i64, id: &str) -> Value {
        self.pass(milliseconds);
        let (_, body) = self.computing("GET", &format!("/servers/{id}"), Value::Null);
        body["server"].clone()
    }

    fn delete_server(&mut self, id: &str) -> u16 {
        self.computing("DELETE", &format!("/servers/{id}"), Value::Null)
            .0
    }

    /// A volume that is available.
    fn volume(&mut self) -> String {
        let (_, made) = self.storing("POST", "/volumes", json!({"volume": {"size": 1}}));
        self.pass(1_000);
        made["volume"]["id"].as_str().unwrap().to_owned()
    }

    fn volume_status_after(&mut self, milliseconds: i64, id: &str) -> Value {
        self.pass(milliseconds);
        let (_, body) = self.storing("GET", &format!("/volumes/{id}"), Value::Null);
        body["volume"]["status"].clone()
    }

    fn delete_volume(&mut self, id: &str) -> u16 {
        self.storing("DELETE", &format!("/volumes/{id}"), Value::Null)
            .0
    }

    fn change(&mut self, kind: &str, action: Value) {
        let rule = json!([{"match": {"kind": kind, "method": "DELETE"}, "action": action}]);
        self.control("PUT", "/faults", rule);
    }
}

/// A cloud with one seeded server: its id, and that of its port.
fn with_server(options: WorldOptions) -> (Cloud, String, String) {
    let mut cloud = Cloud::with(options);
    let made = cloud.control("POST", "/seed", json!({"networks": 1, "servers": 1}));
    let id = made["servers"][0].as_str().unwrap().to_owned();
    let ports = cloud.get(&format!("/ports?device_id={id}")).body;
    let port = ports["ports"][0]["id"].as_str().unwrap().to_owned();
    (cloud, id, port)
}

fn state(server: &Value) -> String {
    let task = server["OS-EXT-STS:task_state"].as_str();
    let status = server["status"].as_str().unwrap_or("gone");
    format!("{status} {}", task.unwrap_or("-"))
}

#[test]
fn a_seeded_server_takes_its_port_along_and_is_shown_as_deleted_for_a_moment() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    assert_eq!(state(&cloud.server_after(0, &id)), "ACTIVE -");
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(500, &id)), "ACTIVE deleting");
    assert_eq!(state(&cloud.server_after(500, &id)), "DELETED -");
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 404);
    let (_, list) = cloud.computing("GET", "/servers/detail", Value::Null);
    assert_eq!(list["servers"], json!([]));
    assert_eq!(state(&cloud.server_after(300, &id)), "gone -");
    let (_, list) = cloud.computing("GET", "/servers/detail?deleted=true", Value::Null);
    assert_eq!(list["servers"][0]["id"], json!(id));
}

#[test]
fn a_hypervisor_that_hangs_keeps_its_server_for_ever() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    cloud.change("server", json!({"ends_in": "never"}));
    for _ in 0..2 {
        assert_eq!(cloud.delete_server(&id), 204);
        let hour = 60 * 60 * 1000;
        assert_eq!(state(&cloud.server_after(hour, &id)), "ACTIVE deleting");
    }
    let reset = json!({"os-resetState": {"state": "error"}});
    cloud.computing("POST", &format!("/servers/{id}/action"), reset);
    assert_eq!(state(&cloud.server_after(0, &id)), "ERROR -");
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(60_000, &id)), "ERROR deleting");

    // Its host is down now, and a DELETE from before that does not finish.
    let reset = json!({"os-resetState": {"state": "error"}});
    cloud.computing("POST", &format!("/servers/{id}/action"), reset);
    cloud.change("server", json!({"ends_in": "done", "for_s": 0}));
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(0, &id)), "gone -");
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 404);
}

#[test]
fn a_hypervisor_that_refuses_leaves_a_server_in_error_with_the_reason() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    cloud.change("server", json!({"ends_in": "error", "for_s": 5}));
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
fn a_softly_deleted_server_holds_what_it_has_until_it_is_restored_or_deleted_by_force() {
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
        let (_, list) = cloud.computing("GET", &format!("/servers/detail{query}"), Value::Null);
        assert_eq!(list["servers"].as_array().unwrap().len(), found, "{query}");
    }
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 200);
    let (status, _) = cloud.computing("POST", &action, json!({"restore": null}));
    assert_eq!(status, 202);
    assert_eq!(state(&cloud.server_after(1_000, &id)), "ACTIVE -");

    assert_eq!(cloud.delete_server(&id), 204);
    cloud.pass(1_000);
    cloud.computing("POST", &action, json!({"forceDelete": null}));
    assert_eq!(state(&cloud.server_after(2_000, &id)), "gone -");
    assert_eq!(cloud.get(&format!("/ports/{port}")).status, 404);
}

#[test]
fn a_server_comes_back_with_its_port() {
    let (mut cloud, id, port) = with_server(WorldOptions::default());
    cloud.change("server", json!({"recreate_after_ms": 5_000}));
    assert_eq!(cloud.delete_server(&id), 204);
    assert_eq!(state(&cloud.server_after(2_000, &id)), "gone -");
    assert_eq!(state(&cloud.server_after(3_000, &id)), "ACTIVE -");
    assert_eq!(
        cloud.get(&format!("/ports/{port}")).body["port"]["device_id"],
        json!(id)
    );
}

#[test]
fn a_storage_that_is_busy_puts_a_volume_back_and_one_that_fails_shows_it() {
    let mut cloud = Cloud::new();
    let volume = cloud.volume();
    cloud.change("volume", json!({"ends_in": "put_back"}));
    assert_eq!(cloud.delete_volume(&volume), 202);
    assert_eq!(cloud.delete_volume(&volume), 400);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "available");
    cloud.change("volume", json!({"ends_in": "error"}));
    assert_eq!(cloud.delete_volume(&volume), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "error_deleting");
    assert_eq!(cloud.delete_volume(&volume), 400);
    cloud.control("PUT", "/faults", json!([]));
    let forced = format!("{volume}?force=true");
    assert_eq!(cloud.delete_volume(&forced), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), Value::Null);
}

#[test]
fn a_volume_and_its_snapshots_fail_together() {
    let mut cloud = Cloud::new();
    let volume = cloud.volume();
    let body = json!({"snapshot": {"volume_id": volume}});
    let (_, made) = cloud.storing("POST", "/snapshots", body);
    let snapshot = format!("/snapshots/{}", made["snapshot"]["id"].as_str().unwrap());
    cloud.pass(1_000);
    cloud.change("volume", json!({"ends_in": "error"}));
    assert_eq!(cloud.delete_volume(&format!("{volume}?cascade=true")), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "error_deleting");
    let (_, shown) = cloud.storing("GET", &snapshot, Value::Null);
    assert_eq!(shown["snapshot"]["status"], "error_deleting");
}

#[test]
fn a_detach_may_fail_and_an_attachment_is_a_kind_of_faults() {
    let (mut cloud, server, _) = with_server(WorldOptions::default());
    let volume = cloud.volume();
    let path = format!("/servers/{server}/os-volume_attachments");
    let body = json!({"volumeAttachment": {"volumeId": volume}});
    assert_eq!(cloud.computing("POST", &path, body).0, 200);
    let detach = |cloud: &mut Cloud| {
        let path = format!("{path}/{volume}");
        cloud.computing("DELETE", &path, Value::Null).0
    };
    cloud.change("volume_attachment", json!({"ends_in": "put_back"}));
    assert_eq!(detach(&mut cloud), 202);
    assert_eq!(detach(&mut cloud), 400);
    assert_eq!(cloud.volume_status_after(999, &volume), "detaching");
    assert_eq!(cloud.volume_status_after(1, &volume), "in-use");
    cloud.change("volume_attachment", json!({"status": 500}));
    assert_eq!(detach(&mut cloud), 500);
    cloud.control("PUT", "/faults", json!([]));
    assert_eq!(detach(&mut cloud), 202);
    assert_eq!(cloud.volume_status_after(1_000, &volume), "available");
}

#[test]
fn a_course_that_makes_no_sense_is_refused() {
    let mut cloud = Cloud::new();
    for action in [json!({"for_s": 3}), json!({"ends_in": "never", "for_s": 3})] {
        let rule = json!([{"action": action}]);
        let got = cloud.refused_or_not("PUT", "/faults", rule);
        assert_eq!(got.status, 400);
        let problem = "[0].action: for_s: needs ends_in, other than never";
        assert_eq!(got.body["error"], problem);
    }
}
