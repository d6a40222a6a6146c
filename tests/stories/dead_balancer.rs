//! Story 4: a load balancer that never leaves PENDING_DELETE.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/balancers.toml"
);

/// Octavia's limits pass in seconds: it is told at once that a balancer takes long, and given up on
/// after twelve seconds in place of three hours.
fn hurry(stage: &Stage) {
    let kinds = include_str!("../../assets/kinds/openstack/load-balancer.toml");
    let kinds = kinds.replace("minutes_warn = 10", "minutes_warn = 0");
    let overrides = |line: &str| match line.starts_with("[kind.") && line.matches('.').count() == 1
    {
        true => format!("{line}\noverride = true\n"),
        false => format!("{line}\n"),
    };
    let kinds: String = kinds.lines().map(overrides).collect();
    stage.write(".config/gone/kinds/load-balancer.toml", &kinds);
    let settings = "[gc.kind.load_balancer]\npending_max = \"12s\"\n";
    stage.write(".config/gone/config.toml", settings);
}

fn balancers(stage: &Stage) -> Vec<Value> {
    let all = stage.json(&["list", "load_balancer"]);
    all.as_array().unwrap().clone()
}

/// The id of the balancer of this name, whose next change does not end.
fn dead(stage: &Stage, cloud: &Cloud, name: &str) -> String {
    let active = |all: &[Value]| {
        let mut all = all.iter();
        all.all(|it| it["attributes"]["provisioning_status"] == "ACTIVE")
    };
    let told = || format!("{:?}", balancers(stage));
    let all = until("balancers", told, || {
        Some(balancers(stage)).filter(|all| active(all))
    });
    let front = all.iter().find(|it| it["name"] == name).unwrap();
    let id = front["id"].as_str().unwrap().to_owned();
    cloud.balancer(&json!({"id": id, "for_s": 86_400}));
    id
}

#[test]
fn story_4_p03_a_balancer_in_pending_delete_is_told_waited_for_and_purged_by_the_ladder() {
    tell(&Telling::as_written());
}

#[test]
fn story_4_p03_a_balancer_in_pending_delete_is_purged_by_the_ladder_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_4_p03_a_balancer_in_pending_delete_is_purged_by_the_ladder_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    hurry(&stage);
    let cloud = stage.serve_cloud(SCENARIO);
    stage.start_engine(&[]);
    let name = telling.name("front");
    let balancer = dead(&stage, &cloud, name);
    let network = format!("network/{}", telling.name("web"));
    stage.say(&["delete", &network, "--cascade", "--yes"]);

    // Its sibling was not delayed.
    let told = || format!("{:?}", balancers(&stage));
    until("end of the sibling", told, || {
        Some(balancers(&stage)).filter(|all| all.len() == 1)
    });

    // It is told where a person looks, long before it is stuck.
    let mut seat = Seat::take(&stage, &[]);
    seat.see("1 of 1 sites reachable");
    seat.go("stuck", "stuck 1");
    let front = format!("load balancer {name}");
    seat.see_all(&[&front, "PENDING_DELETE", "2 h 45 min"]);
    seat.press("F");
    seat.see_all(&[&format!("── ladder of load balancer {name}"), "not before"]);
    seat.press("\x1b[F");
    seat.see_all(&["> forget", "2 h 45 min"]);
    seat.press("\r");
    seat.see("forget is not offered");
    seat.press("\x1b");

    let deletion = stage.deletion_until("stuck", |deletion| deletion["state"] == "stuck");
    let id = deletion["id"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    seat.see_all(&["✖ stuck", &front, "a person"]);
    let writes = cloud.writes();
    seat.press("F");
    seat.see_all(&["✓ yes", "sends nothing: shows what to do manually"]);
    for rung in [">  unpin", ">  reset", ">  force", ">  runbook"] {
        seat.press("j");
        seat.see(rung);
    }
    seat.press("\r");
    let asked = format!("the short id of the deletion, {short}");
    seat.see_all(&["confirm", &asked]);
    seat.see_asked();
    seat.press("yes\r");
    seat.see("That is not it");
    seat.press("\x15");
    seat.press(short);
    seat.press("\r");
    let named = format!("Load balancer {balancer}");
    let title = format!("── runbook for load balancer {name}");
    seat.see_all(&[&title, &named, "2 h 45 min"]);
    seat.press("G");
    let row = format!("WHERE id = '{balancer}'");
    let reset = "UPDATE load_balancer SET provisioning_status = 'ERROR'";
    seat.see_all(&[reset, &row, "> gone retry"]);
    seat.press("q");
    seat.left();

    // The last rung, and what it leaves behind.
    let ladder = stage.say(&["purge", short]);
    assert!(ladder.contains("forget   yes"), "{ladder}");
    let forgotten = stage.say(&["purge", short, "--rung", "forget", "--confirm", short]);
    assert!(forgotten.contains("steps abandoned"), "{forgotten}");
    assert_eq!(cloud.writes(), writes, "nothing was sent");
    assert_eq!(stage.only_deletion()["state"], "purged");
    let orphans = stage.json(&["list", "orphans"]);
    let orphans = orphans.as_array().unwrap();
    let front = orphans
        .iter()
        .find(|it| it["resource"]["id"] == balancer.as_str());
    let front = front.unwrap();
    assert_eq!(front["there"], "present");
    assert!(
        front["why"].as_str().unwrap().contains("PENDING_DELETE"),
        "{front}"
    );
}
