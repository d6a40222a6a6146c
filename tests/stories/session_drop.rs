//! Story 5: the console's session drops during a deletion, and later the engine that it left behind is killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gone::ledger::sqlite::holder;
use serde_json::json;

use super::home::{Cloud, Home, until};
use super::session::Session;
use super::variation::{Variation, in_variations};
use super::world::program::KilledOnDrop;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/session_drop.toml"
);
/// Longest time that the console may take to hand over and end.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);
/// Number of deletes after which the deletion counts as under way.
const DELETES_MIN: usize = 12;
/// Calls a second, few enough for the session to drop before the deletion ends.
const PER_SECOND: u32 = 5;

in_variations! { run,
    baseline fn story_5_n13_i11_a_dropped_session_and_a_killed_engine_lose_and_repeat_no_delete();
    slow_cloud fn story_5_n13_i11_a_dropped_session_and_a_killed_engine_lose_no_delete_on_a_slow_cloud();
    fast_cloud fn story_5_n13_i11_a_dropped_session_and_a_killed_engine_lose_no_delete_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud(SCENARIO);
    let total = usize::try_from(variation.count(200)).unwrap() + 1;
    // At most eight calls can take effect before their answers arrive.
    home.write(
        ".config/gone/config.toml",
        "[engine]\nconcurrency_max = 8\n",
    );
    let mut session = Session::start(&home, &[]);
    session.wait_for("1 of 1 sites reachable");
    type_confirmation(
        &mut session,
        variation.name("archive"),
        variation.name("crm"),
    );
    cloud.set_limits(&json!({ "per_second": PER_SECOND }));
    session.press("\r");
    session.wait_for("accepted as deletion");
    wait_for_deletes(&cloud, DELETES_MIN);
    let console = engine_pid(&home).unwrap();
    let short = short_id(&home);

    let dropped = Instant::now();
    session.hang_up();
    assert!(dropped.elapsed() < HAND_OVER_MAX, "{:?}", dropped.elapsed());
    let describe = || format!("the engine of the console was {console}");
    let left = until("new engine", describe, || {
        engine_pid(&home).filter(|pid| *pid != console)
    });
    let left_behind = KilledOnDrop(left);

    // The next console shows the same deletion with more steps done.
    let at_the_drop = deletes(&cloud).len();
    wait_for_deletes(&cloud, at_the_drop + DELETES_MIN);
    let mut session = Session::start(&home, &[]);
    session.wait_for(&format!("attached to engine {left}"));
    session.open("deletions", "deletions");
    session.wait_for(&short);
    session.wait_until("progress of the deletion", |screen| {
        let steps = screen.split(&format!("{total} steps: ")).nth(1);
        let waiting = steps.and_then(|steps| steps.split_once(" waiting"));
        let waiting = waiting.and_then(|(waiting, _)| waiting.parse().ok());
        waiting.is_some_and(|waiting: usize| waiting + at_the_drop + DELETES_MIN <= total)
    });

    drop(left_behind);
    assert!(
        deletes(&cloud).len() < total,
        "the deletion had ended before the engine was killed"
    );
    session.wait_for("engine not reachable");
    session.quit();
    cloud.set_limits(&json!({}));

    // A third console starts an engine, which finishes the deletion.
    let mut session = Session::start(&home, &[]);
    session.open("deletions", "deletions");
    session.wait_for(&format!("{total}/{total}"));
    session.quit();
    assert_eq!(short_id(&home), short);
    assert_eq!(home.only_deletion()["state"], "gone");
    // A call takes effect when the cloud receives it, even if the caller ends before the answer. So the next engine
    // must observe a resource before it sends another delete.
    let deletes = deletes(&cloud);
    assert_eq!(deletes.len(), total);
    assert!(deletes.values().all(|times| *times == 1), "{deletes:?}");
    home.stdout_of(&["ledger", "check"]);
}

/// Opens the plan of this network and types its name. It does not press the last enter.
fn type_confirmation(session: &mut Session, name: &str, other: &str) {
    session.open("network", "network 2");
    session.wait_for(other);
    session.press(&format!("/{name}"));
    session.wait_until("only this network", |screen| !screen.contains(other));
    session.press("\r");
    session.press("D");
    session.open_confirmation();
    session.press(name);
    session.wait_for(&format!(">{name}"));
}

/// Number of calls for each deleted resource.
fn deletes(cloud: &Cloud) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for write in cloud.writes() {
        *times.entry(write).or_default() += 1;
    }
    times
}

fn wait_for_deletes(cloud: &Cloud, wanted: usize) {
    let state = || format!("{:?}", deletes(cloud));
    let enough = || (deletes(cloud).len() >= wanted).then_some(());
    until(&format!("{wanted} deletes"), state, enough);
}

fn short_id(home: &Home) -> String {
    let deletion = home.only_deletion();
    let id = deletion["id"].as_str().unwrap();
    id[id.len() - 8..].to_owned()
}

/// The process id of the engine that owns the ledger.
fn engine_pid(home: &Home) -> Option<u32> {
    let owner = holder(&home.path(".local/state/gone/ledger.db"))?;
    Some(owner.pid)
}
