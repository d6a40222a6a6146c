//! What a service does wrong while a deletion runs, with a proxy before a real Cinder: the deletion is not lost, is not
//! taken for done, and ends once the service is well.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, ChildGuard, wait_for};
use crate::people::People;
use crate::proxy::{Proxy, Wrong};
use crate::servers::until_volume;

/// Shorter than in production, so that a call that hangs is given up while somebody waits.
const SETTINGS: &str = "[engine]\ncall_timeout = '5s'\nverify_timeout = '10s'\n";
/// How long a deletion is looked at that cannot end.
const PATIENCE: Duration = Duration::from_secs(8);

/// A member's engine that reaches Cinder through a proxy.
struct Scene<'b> {
    bed: &'b Bed,
    member: Api,
    proxy: Proxy,
    _engine: ChildGuard,
}

impl<'b> Scene<'b> {
    fn new(bed: &'b Bed, people: &People) -> Self {
        let proxy = Proxy::to(bed.api.root_of("block-storage"));
        bed.change_clouds(|clouds| {
            let url = format!("{}/v3", proxy.url);
            clouds["clouds"]["mine"]["block_storage_endpoint_override"] = url.into();
        });
        std::fs::create_dir_all(bed.path("config/gone")).unwrap();
        std::fs::write(bed.path("config/gone/config.toml"), SETTINGS).unwrap();
        Self {
            bed,
            member: people.api("a member"),
            proxy,
            _engine: bed.engine("--cloud mine"),
        }
    }

    fn new_volume(&self) -> String {
        let volume = json!({"volume": {"name": self.bed.name, "size": 1}});
        let id = text(&self.member.call_any("POST", "/v3/volumes", volume)["volume"]["id"]);
        until_volume(&self.member, &id, "available");
        id
    }

    fn delete(&self, volume: &str) -> String {
        let line = format!("delete volume/{volume} --yes -o json");
        text(&self.bed.gone(&line).ends_with(0).json()["id"])
    }

    fn shown(&self, deletion: &str) -> Value {
        let line = format!("show {deletion} -o json");
        self.bed.gone(&line).ends_with(0).json()
    }

    /// Asks Cinder itself.
    fn is_there(&self, volume: &str) -> bool {
        let rows = self.member.call_any("GET", "/v3/volumes", Value::Null);
        let mut rows = rows["volumes"].as_array().unwrap().iter();
        rows.any(|row| row["id"] == volume)
    }

    fn ends_well(&self, deletion: &str, volume: &str) {
        // What was tried too often meanwhile waits for a person.
        if self.shown(deletion)["state"] == "stuck" {
            self.bed.gone(&format!("retry {deletion}")).ends_with(0);
        }
        self.bed.gone(&format!("watch {deletion}")).ends_with(0);
        assert_eq!(self.shown(deletion)["state"], "gone");
        assert!(!self.is_there(volume));
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i06_a_service_that_is_slow_fails_hangs_is_busy_or_down_holds_a_deletion_up_and_no_more()
{
    let bed = Bed::small();
    let people = People::a_member(&bed);
    let mut scene = Scene::new(&bed, &people);
    for wrong in [Wrong::Slow, Wrong::Fails, Wrong::Hangs, Wrong::Busy] {
        let volume = scene.new_volume();
        scene.proxy.goes_wrong(wrong);
        let deletion = scene.delete(&volume);
        wait_for("the delete", || scene.proxy.is_wrong());
        if wrong != Wrong::Slow {
            std::thread::sleep(PATIENCE);
            assert_ne!(scene.shown(&deletion)["state"], "gone", "{wrong:?}");
            assert!(scene.is_there(&volume), "{wrong:?}");
            scene.proxy.recover();
        }
        scene.ends_well(&deletion, &volume);
        scene.proxy.recover();
    }
    let volume = scene.new_volume();
    let sent = scene.proxy.deletes().len();
    scene.proxy.hold_deletes_after(sent);
    let deletion = scene.delete(&volume);
    wait_for("the delete", || scene.proxy.deletes().len() > sent);
    scene.proxy.go_down();
    std::thread::sleep(PATIENCE);
    assert_ne!(scene.shown(&deletion)["state"], "gone");
    assert!(scene.is_there(&volume));
    scene.proxy.hold_deletes_after(usize::MAX);
    scene.proxy.come_up();
    scene.ends_well(&deletion, &volume);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i06_i13_what_a_service_only_claims_or_denies_is_deleted_in_the_end() {
    let bed = Bed::small();
    let people = People::a_member(&bed);
    let scene = Scene::new(&bed, &people);
    // Accepted, and not done: an attempt, and no success.
    let volume = scene.new_volume();
    scene.proxy.goes_wrong(Wrong::LyingDelete);
    let deletion = scene.delete(&volume);
    let words = "is no longer being deleted, and is available";
    scene.bed.waits_to_show(&deletion, &[words]);
    assert_ne!(scene.shown(&deletion)["state"], "gone");
    assert!(scene.is_there(&volume));
    scene.proxy.recover();
    // The next attempt is due in a minute.
    bed.gone(&format!("retry {deletion}")).ends_with(0);
    scene.ends_well(&deletion, &volume);
    // A list without it proves nothing. Its own 404 does, and comes after a DELETE that was accepted.
    for wrong in [Wrong::LyingList, Wrong::LyingGet] {
        let volume = scene.new_volume();
        scene.proxy.goes_wrong(wrong);
        let deletion = scene.delete(&volume);
        wait_for("the delete", || scene.proxy.is_wrong());
        wait_for("Cinder's own delete", || !scene.is_there(&volume));
        scene.proxy.recover();
        scene.ends_well(&deletion, &volume);
    }
}
