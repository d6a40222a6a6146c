//! Faults of a service during a deletion, made by a proxy before a real Cinder: the deletion is not lost, does not
//! count as done, and ends once the service works again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, ChildGuard, wait_for};
use crate::proxy::{Fault, Proxy};
use crate::servers::wait_for_volume;
use crate::users::Users;

/// Shorter timeouts than in production, so that a hanging call ends during the test.
const SETTINGS: &str = "[engine]\ncall_timeout = '5s'\nverify_timeout = '10s'\n";
/// Time for which a deletion must not end during a fault.
const FAULT_DURATION: Duration = Duration::from_secs(8);

/// A member's engine that reaches Cinder through a proxy.
struct ProxiedCinder<'b> {
    bed: &'b Bed,
    member: Api,
    proxy: Proxy,
    _engine: ChildGuard,
}

impl<'b> ProxiedCinder<'b> {
    fn new(bed: &'b Bed, users: &Users) -> Self {
        let proxy = Proxy::to(bed.api.root_of("block-storage"));
        bed.change_clouds(|clouds| {
            let url = format!("{}/v3", proxy.url);
            clouds["clouds"]["mine"]["block_storage_endpoint_override"] = url.into();
        });
        std::fs::create_dir_all(bed.path("config/gone")).unwrap();
        std::fs::write(bed.path("config/gone/config.toml"), SETTINGS).unwrap();
        Self {
            bed,
            member: users.api("a member"),
            proxy,
            _engine: bed.start_engine("--cloud mine"),
        }
    }

    fn create_volume(&self) -> String {
        let volume = json!({"volume": {"name": self.bed.name, "size": 1}});
        let id = text(&self.member.call_any("POST", "/v3/volumes", volume)["volume"]["id"]);
        wait_for_volume(&self.member, &id, "available");
        id
    }

    fn delete(&self, volume: &str) -> String {
        let line = format!("delete volume/{volume} --yes -o json");
        text(&self.bed.gone(&line).ok().json()["id"])
    }

    fn shown(&self, deletion: &str) -> Value {
        let line = format!("show {deletion} -o json");
        self.bed.gone(&line).ok().json()
    }

    /// Whether Cinder itself lists the volume.
    fn has_volume(&self, volume: &str) -> bool {
        let rows = self.member.call_any("GET", "/v3/volumes", Value::Null);
        let mut rows = rows["volumes"].as_array().unwrap().iter();
        rows.any(|row| row["id"] == volume)
    }

    /// Waits until the deletion has ended, and asserts that the volume is gone.
    fn check_end(&self, deletion: &str, volume: &str) {
        // After too many attempts during the fault, the step waits for a person.
        if self.shown(deletion)["state"] == "stuck" {
            self.bed.gone(&format!("retry {deletion}")).ok();
        }
        self.bed.gone(&format!("watch {deletion}")).ok();
        assert_eq!(self.shown(deletion)["state"], "gone");
        assert!(!self.has_volume(volume));
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i06_a_slow_failing_hanging_busy_or_stopped_service_only_delays_a_deletion() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let mut cinder = ProxiedCinder::new(&bed, &users);
    for fault in [Fault::Slow, Fault::Fails, Fault::Hangs, Fault::Busy] {
        let volume = cinder.create_volume();
        cinder.proxy.start_fault(fault);
        let deletion = cinder.delete(&volume);
        wait_for("the delete", || cinder.proxy.fault_has_begun());
        if fault != Fault::Slow {
            std::thread::sleep(FAULT_DURATION);
            assert_ne!(cinder.shown(&deletion)["state"], "gone", "{fault:?}");
            assert!(cinder.has_volume(&volume), "{fault:?}");
            cinder.proxy.recover();
        }
        cinder.check_end(&deletion, &volume);
        cinder.proxy.recover();
    }
    let volume = cinder.create_volume();
    let sent = cinder.proxy.deletes().len();
    cinder.proxy.hold_deletes_after(sent);
    let deletion = cinder.delete(&volume);
    wait_for("the delete", || cinder.proxy.deletes().len() > sent);
    cinder.proxy.stop();
    std::thread::sleep(FAULT_DURATION);
    assert_ne!(cinder.shown(&deletion)["state"], "gone");
    assert!(cinder.has_volume(&volume));
    cinder.proxy.hold_deletes_after(usize::MAX);
    cinder.proxy.restart();
    cinder.check_end(&deletion, &volume);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i06_i13_false_answers_of_a_service_do_not_end_a_deletion_early() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let cinder = ProxiedCinder::new(&bed, &users);
    // A delete that is accepted and not performed counts as a failed attempt.
    let volume = cinder.create_volume();
    cinder.proxy.start_fault(Fault::FalseAccepted);
    let deletion = cinder.delete(&volume);
    let words = "is no longer being deleted, and is available";
    cinder.bed.wait_for_show(&deletion, &[words]);
    assert_ne!(cinder.shown(&deletion)["state"], "gone");
    assert!(cinder.has_volume(&volume));
    cinder.proxy.recover();
    // The next attempt is due in a minute.
    bed.gone(&format!("retry {deletion}")).ok();
    cinder.check_end(&deletion, &volume);
    // An empty list does not confirm absence. A 404 for the volume does, even this false one; but it comes after an
    // accepted DELETE, so the volume is gone soon.
    for fault in [Fault::FalseEmptyList, Fault::FalseNotFound] {
        let volume = cinder.create_volume();
        cinder.proxy.start_fault(fault);
        let deletion = cinder.delete(&volume);
        wait_for("the delete", || cinder.proxy.fault_has_begun());
        wait_for("the end of the volume in Cinder", || {
            !cinder.has_volume(&volume)
        });
        cinder.proxy.recover();
        cinder.check_end(&deletion, &volume);
    }
}
