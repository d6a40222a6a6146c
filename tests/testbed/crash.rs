//! Engines that are killed during a deletion, and the engines that continue it.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::api::Holdings;
use crate::bed::program::KilledOnDrop;
use crate::bed::{Bed, wait_for};
use crate::proxy::Proxy;
use crate::session::Session;

/// A bed with a proxy before Neutron. The proxy records every DELETE.
struct ProxiedBed {
    before: Holdings,
    bed: Bed,
    proxy: Proxy,
}

impl ProxiedBed {
    fn seeded(ports: usize) -> Self {
        let shape = format!("--networks 2 --ports {ports} --trunks 0 --groups 1");
        let bed = Bed::seeded("RegionOne", &shape);
        let proxy = Proxy::to_neutron(&bed.api);
        bed.change_clouds(|clouds| {
            clouds["clouds"]["testbed"]["network_endpoint_override"] = proxy.url.clone().into();
        });
        Self {
            before: bed.holdings(),
            bed,
            proxy,
        }
    }

    fn network(&self) -> &str {
        &self.bed.networks[0]
    }

    fn answered_deletes(&self) -> usize {
        let deletes = self.proxy.deletes();
        let answered = deletes.iter().filter(|(_, status)| status.is_some());
        answered.count()
    }

    /// Starts the cascade of the network, and waits until `most` deletes are answered. The proxy delays all later
    /// deletes until more may pass. Returns the id of the deletion.
    fn start_deletion(&self, most: usize) -> String {
        self.proxy.hold_deletes_after(most);
        let network = self.network();
        let line = format!("--cloud testbed delete network/{network} --cascade --yes -o json");
        let accepted = self.bed.gone(&line).ok().json();
        self.let_deletes_through(most);
        accepted["id"].as_str().unwrap().to_owned()
    }

    /// Lets `most` deletes through, counted from the first, and waits until they are answered.
    fn let_deletes_through(&self, most: usize) {
        self.proxy.hold_deletes_after(most);
        wait_for("deletes", || self.answered_deletes() == most);
    }

    /// The paths of the deletes without an answer.
    fn in_flight(&self) -> Vec<String> {
        let deletes = self.proxy.deletes().into_iter();
        let open = deletes.filter(|(_, status)| status.is_none());
        open.map(|(path, _)| path).collect()
    }

    fn wait_until_gone(&self, id: &str) {
        let show = format!("--cloud testbed show {id} -o json");
        wait_for("the deletion's end", || {
            std::thread::sleep(Duration::from_millis(250));
            self.bed.gone(&show).ok().json()["state"] == "gone"
        });
        let left = self.bed.holdings().all_ids();
        assert_eq!(left, self.before.without(self.network()));
    }

    /// Asserts that each resource was deleted once. Only a DELETE that was in flight when its engine ended may have
    /// been repeated once, because that engine did not receive the answer.
    fn check_deletes(&self, in_flight: &[String]) {
        let mut by_path: BTreeMap<String, Vec<Option<u16>>> = BTreeMap::new();
        for (path, status) in self.proxy.deletes() {
            by_path.entry(path).or_default().push(status);
        }
        for (path, answers) in &by_path {
            let done = answers.iter().filter(|status| **status == Some(204));
            assert_eq!(done.count(), 1, "{path}: {answers:?}");
            let most = 1 + in_flight.iter().filter(|it| *it == path).count();
            assert!(
                answers.len() <= most,
                "{path}: {answers:?}, in flight: {in_flight:?}"
            );
        }
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_i11_a_deletion_ends_after_its_engine_is_killed_and_deletes_nothing_twice() {
    let proxied = ProxiedBed::seeded(60);
    let mut engine = proxied.bed.start_engine("--cloud testbed");
    let id = proxied.start_deletion(30);
    engine.0.kill().unwrap();
    engine.0.wait().unwrap();
    let in_flight = proxied.in_flight();

    proxied.proxy.hold_deletes_after(usize::MAX);
    let _second = proxied.bed.start_engine("--cloud testbed");
    proxied.wait_until_gone(&id);
    proxied.check_deletes(&in_flight);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_5_a_hang_up_and_a_killed_engine_lose_and_repeat_no_delete() {
    let proxied = ProxiedBed::seeded(100);
    let bed = &proxied.bed;
    let mut session = Session::start(bed, &["--cloud", "testbed"]);
    session.wait_for("reachable");
    let console = bed.owner_pid().unwrap();
    let id = proxied.start_deletion(20);
    let began = Instant::now();
    session.hang_up();
    assert!(began.elapsed() < HAND_OVER_MAX, "{:?}", began.elapsed());
    let mut in_flight = proxied.in_flight();

    // The engine that the console left behind continues the deletion, and a new console shows it.
    wait_for("the engine that the console left behind", || {
        bed.owner_pid().is_some_and(|owner| owner != console)
    });
    let left_behind = KilledOnDrop(bed.owner_pid().unwrap());
    proxied.let_deletes_through(60);
    let mut again = Session::start(bed, &["--cloud", "testbed"]);
    again.wait_for("running: 1 deletion");
    again.press(":deletions\r");
    again.wait_for(&id[id.len() - 8..]);
    again.press("q");
    again.wait_for_exit();

    drop(left_behind);
    in_flight.extend(proxied.in_flight());
    proxied.proxy.hold_deletes_after(usize::MAX);
    let _third = bed.start_engine("--cloud testbed");
    proxied.wait_until_gone(&id);
    proxied.check_deletes(&in_flight);
    bed.gone("ledger check").ok();
}

/// Longest time that a console with an embedded engine may take to hand over (`assets/contract.md`).
const HAND_OVER_MAX: Duration = Duration::from_secs(2);
