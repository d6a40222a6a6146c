//! An engine that is killed in the middle, and the one that comes after it.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::api::Holdings;
use crate::bed::{Bed, wait_for};
use crate::proxy::Proxy;
use crate::seat::Seat;

/// A bed whose deletes of ports and networks are written down.
struct Watched {
    before: Holdings,
    bed: Bed,
    proxy: Proxy,
}

impl Watched {
    fn seeded(ports: usize) -> Self {
        let shape = format!("--networks 2 --ports {ports} --trunks 0 --groups 1");
        let bed = Bed::seeded("RegionOne", &shape);
        let proxy = Proxy::before(&bed.api);
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

    fn answered(&self) -> usize {
        let deletes = self.proxy.deletes();
        let answered = deletes.iter().filter(|(_, status)| status.is_some());
        answered.count()
    }

    /// Asks for the cascade, and waits until so many of its deletes are answered; no other is until more may be.
    fn under_way(&self, most: usize) -> String {
        self.proxy.hold_deletes_after(most);
        let network = self.network();
        let line = format!("--cloud testbed delete network/{network} --cascade --yes -o json");
        let accepted = self.bed.gone(&line).ends_with(0).json();
        self.goes_on_to(most);
        accepted["id"].as_str().unwrap().to_owned()
    }

    /// Waits until so many deletes are answered, and lets no other through.
    fn goes_on_to(&self, most: usize) {
        self.proxy.hold_deletes_after(most);
        wait_for("deletes", || self.answered() == most);
    }

    /// What was sent and has no answer yet.
    fn in_flight(&self) -> Vec<String> {
        let deletes = self.proxy.deletes().into_iter();
        let open = deletes.filter(|(_, status)| status.is_none());
        open.map(|(path, _)| path).collect()
    }

    fn until_gone(&self, id: &str) {
        let show = format!("--cloud testbed show {id} -o json");
        wait_for("the deletion's end", || {
            std::thread::sleep(Duration::from_millis(250));
            self.bed.gone(&show).ends_with(0).json()["state"] == "gone"
        });
        let left = self.bed.holdings().all_ids();
        assert_eq!(left, self.before.without(self.network()));
    }

    /// Each was deleted once. What was in flight when an engine ended may have been sent once more, as
    /// its answer was on the way to the dead, and nothing else.
    fn nothing_twice(&self, in_flight: &[String]) {
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
fn testbed_i11_an_engine_killed_in_the_middle_goes_on_and_deletes_nothing_twice() {
    let watched = Watched::seeded(60);
    let mut engine = watched.bed.engine("--cloud testbed");
    let id = watched.under_way(30);
    engine.0.kill().unwrap();
    engine.0.wait().unwrap();
    let in_flight = watched.in_flight();

    watched.proxy.hold_deletes_after(usize::MAX);
    let _second = watched.bed.engine("--cloud testbed");
    watched.until_gone(&id);
    watched.nothing_twice(&in_flight);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_5_a_hang_up_and_a_kill_lose_nothing_and_repeat_nothing() {
    let watched = Watched::seeded(100);
    let bed = &watched.bed;
    let mut seat = Seat::take(bed, &["--cloud", "testbed"]);
    seat.see("reachable");
    let console = bed.owner().unwrap();
    let id = watched.under_way(20);
    let began = Instant::now();
    seat.hang_up();
    assert!(began.elapsed() < HAND_OVER_MAX, "{:?}", began.elapsed());
    let mut in_flight = watched.in_flight();

    // The console's work goes on without it, and a new console shows the same deletion further on.
    wait_for("an engine of its own", || {
        bed.owner().is_some_and(|owner| owner != console)
    });
    let left_behind = Left(bed.owner().unwrap());
    watched.goes_on_to(60);
    let mut again = Seat::take(bed, &["--cloud", "testbed"]);
    again.see("running: 1 deletion");
    again.press(":deletions\r");
    again.see(&id[id.len() - 8..]);
    again.press("q");
    again.ended();

    drop(left_behind);
    in_flight.extend(watched.in_flight());
    watched.proxy.hold_deletes_after(usize::MAX);
    let _third = bed.engine("--cloud testbed");
    watched.until_gone(&id);
    watched.nothing_twice(&in_flight);
    bed.gone("ledger check").ends_with(0);
}

/// CONTRACT: how long an embedding console takes at most to hand over.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);

/// An engine that nobody here started; it is killed at the end.
struct Left(u32);

impl Drop for Left {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
}
