//! Another process keeps creating ports on a network while its project is deleted (P1, P11).
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::{Api, text};
use crate::bed::{Bed, clouds};

const SMALL: &str = "--networks 2 --ports 8 --trunks 1 --groups 1";
/// Pause between two ports.
const GAP: Duration = Duration::from_millis(150);
/// Time after which a creator stops by itself. Without this limit, a process that creates faster than the cloud deletes
/// would keep the deletion from ending.
const AT_MOST: Duration = Duration::from_secs(60);

/// A thread in the role of the other process. It creates one port after another until it is stopped, [`AT_MOST`] has
/// passed, or the network is gone.
struct Creator {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Creator {
    /// Starts to create ports on the network.
    fn on(network: &str, project: &str) -> Self {
        let api = Api::new(&clouds(), "testbed", "RegionOne");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (network, project) = (network.to_owned(), project.to_owned());
        let thread = std::thread::spawn(move || {
            let since = Instant::now();
            let mut created = 0;
            while !stopped.load(Ordering::Relaxed) && since.elapsed() < AT_MOST {
                let name = format!("intruder-{created}");
                let port =
                    json!({"port": {"network_id": network, "name": name, "project_id": project}});
                let url = format!("{}/ports", api.network_url);
                match api.answer_at("POST", &url, port).0 {
                    201 => created += 1,
                    404 => break,
                    _ => {}
                }
                std::thread::sleep(GAP);
            }
            created
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops the thread. Returns the number of ports that it has created.
    fn stop_and_count(&mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(0, |it| it.join().unwrap())
    }
}

impl Drop for Creator {
    fn drop(&mut self) {
        self.stop_and_count();
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p11_ports_that_another_process_keeps_creating_are_named_and_then_absorbed() {
    let bed = Bed::seeded("RegionOne", SMALL);
    let mut creator = Creator::on(&bed.networks[0], &bed.project);
    let delete = format!(
        "delete project/{}@testbed/RegionOne --cascade --yes --wait=90s -o json",
        bed.name
    );
    let stuck = bed
        .gone(&delete)
        .ends_with(4)
        .says(&["intruder-", "gone drift"]);
    let id = text(&stuck.json()["id"]);

    // A second deletion with `--drift absorb` also deletes newcomers, which ends the stuck deletion, too.
    let absorbing = delete.replace("--wait=90s", "--wait=3m --drift absorb");
    bed.gone(&absorbing).ok();
    let first = bed.gone(&format!("show {id} -o json")).ok();
    assert_eq!(first.json()["state"], "gone");
    assert!(creator.stop_and_count() > 0);
    let left = bed
        .api
        .rows("ports", &format!("project_id={}", bed.project));
    assert_eq!(left, Vec::<serde_json::Value>::new());
    let left = bed
        .api
        .rows("networks", &format!("project_id={}", bed.project));
    assert_eq!(left, Vec::<serde_json::Value>::new());
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p11_ports_that_another_process_created_are_deleted_once_accepted() {
    let bed = Bed::seeded("RegionOne", SMALL);
    let mut creator = Creator::on(&bed.networks[0], &bed.project);
    let delete = format!(
        "delete project/{}@testbed/RegionOne --cascade --yes --wait=90s -o json",
        bed.name
    );
    let stuck = bed
        .gone(&delete)
        .ends_with(4)
        .says(&["intruder-", "--accept", "--refuse"]);
    let id = text(&stuck.json()["id"]);
    assert!(creator.stop_and_count() > 0);
    // Ports that were created after the first report are reported now.
    let accept = format!("drift {id} --accept");
    let first = bed.gone(&accept);
    if first.code != Some(0) {
        first.ends_with(4).says(&["intruder-"]);
        bed.gone(&accept).ok();
    }
    let left = bed
        .api
        .rows("networks", &format!("project_id={}", bed.project));
    assert_eq!(left, Vec::<serde_json::Value>::new());
}
