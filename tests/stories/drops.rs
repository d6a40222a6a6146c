//! Story 5: the session drops in the middle of a deletion; later its engine is killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gone::ledger::sqlite::holder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/drops.toml"
);
/// How long the console may take to go.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);
/// Deletes after which the work counts as under way.
const SOME: usize = 12;
/// So many calls a second that there is a middle to drop out of.
const PER_SECOND: u32 = 5;

#[test]
fn story_5_n13_i11_a_dropped_session_and_a_kill_lose_nothing_and_repeat_nothing() {
    tell(&Telling::as_written());
}

#[test]
fn story_5_n13_i11_a_dropped_session_and_a_kill_lose_nothing_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_5_n13_i11_a_dropped_session_and_a_kill_lose_nothing_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud(SCENARIO);
    let total = usize::try_from(telling.count(200)).unwrap() + 1;
    // At most so many take effect before their answers.
    stage.write(
        ".config/gone/config.toml",
        "[engine]\nconcurrency_max = 8\n",
    );
    let mut seat = Seat::take(&stage, &[]);
    seat.see("1 of 1 sites reachable");
    confirm(&mut seat, telling.name("archive"), telling.name("crm"));
    cloud.limits(&json!({ "per_second": PER_SECOND }));
    seat.press("\r");
    seat.see("accepted as deletion");
    await_deletes(&cloud, SOME);
    let console = engine(&stage).unwrap();
    let short = short_id(&stage);

    let dropped = Instant::now();
    seat.hang_up();
    assert!(dropped.elapsed() < HAND_OVER_MAX, "{:?}", dropped.elapsed());
    let told = || format!("the console's was {console}");
    let left = until("engine of its own", told, || {
        engine(&stage).filter(|pid| *pid != console)
    });
    let left_behind = Left(left);

    // The next console shows the same deletion, further on.
    let at_the_drop = deletes(&cloud).len();
    await_deletes(&cloud, at_the_drop + SOME);
    let mut seat = Seat::take(&stage, &[]);
    seat.see(&format!("attached to engine {left}"));
    seat.go("deletions", "deletions");
    seat.see(&short);
    seat.wait("it further on", |screen| {
        let steps = screen.split(&format!("{total} steps: ")).nth(1);
        let waiting = steps.and_then(|steps| steps.split_once(" waiting"));
        let waiting = waiting.and_then(|(waiting, _)| waiting.parse().ok());
        waiting.is_some_and(|waiting: usize| waiting + at_the_drop + SOME <= total)
    });

    drop(left_behind);
    assert!(deletes(&cloud).len() < total, "it was not in the middle");
    seat.see("engine not reachable");
    seat.press("q");
    seat.left();
    cloud.limits(&json!({}));

    // And the one after that has an engine of its own again, which finishes.
    let mut seat = Seat::take(&stage, &[]);
    seat.go("deletions", "deletions");
    seat.see(&format!("{total}/{total}"));
    seat.press("q");
    seat.left();
    assert_eq!(short_id(&stage), short);
    assert_eq!(stage.only_deletion()["state"], "gone");
    // What the cloud was told takes effect at once, whoever still waits for the answer: the next engine
    // looks before it deletes again.
    let deletes = deletes(&cloud);
    assert_eq!(deletes.len(), total);
    assert!(deletes.values().all(|times| *times == 1), "{deletes:?}");
    stage.say(&["ledger", "check"]);
}

/// All but the last enter.
fn confirm(seat: &mut Seat, name: &str, other: &str) {
    seat.go("network", "network 2");
    seat.see(other);
    seat.press(&format!("/{name}"));
    seat.wait("only this one", |screen| !screen.contains(other));
    seat.press("\r");
    seat.press("D");
    seat.go_on();
    seat.press(name);
    seat.see(&format!(">{name}"));
}

/// How often each was asked for.
fn deletes(cloud: &Cloud) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for write in cloud.writes() {
        *times.entry(write).or_default() += 1;
    }
    times
}

fn await_deletes(cloud: &Cloud, wanted: usize) {
    let told = || format!("{:?}", deletes(cloud));
    let enough = || (deletes(cloud).len() >= wanted).then_some(());
    until(&format!("{wanted} deletes"), told, enough);
}

fn short_id(stage: &Stage) -> String {
    let deletion = stage.only_deletion();
    let id = deletion["id"].as_str().unwrap();
    id[id.len() - 8..].to_owned()
}

/// Who owns the ledger.
fn engine(stage: &Stage) -> Option<u32> {
    let owner = holder(&stage.path(".local/state/gone/ledger.db"))?;
    Some(owner.pid)
}

/// An engine that nobody here started; it is killed at the end.
struct Left(u32);

impl Drop for Left {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
}
