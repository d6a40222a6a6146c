//! Story 4: a load balancer that never leaves PENDING_DELETE.

use serde_json::{Value, json};

use super::home::{Cloud, Home, until};
use super::session::Session;
use super::variation::{Variation, in_variations};

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/balancers.toml"
);

/// Shortens the limits of Octavia: a long deletion of a balancer is reported at once instead of after ten minutes, and
/// the balancer is stuck after twelve seconds instead of three hours.
fn shorten_limits(home: &Home) {
    let kinds = include_str!("../../assets/kinds/openstack/load-balancer.toml");
    let kinds = kinds.replace("minutes_warn = 10", "minutes_warn = 0");
    let overrides = |line: &str| match line.starts_with("[kind.") && line.matches('.').count() == 1
    {
        true => format!("{line}\noverride = true\n"),
        false => format!("{line}\n"),
    };
    let kinds: String = kinds.lines().map(overrides).collect();
    home.write(".config/gone/kinds/load-balancer.toml", &kinds);
    let settings = "[gc.kind.load_balancer]\npending_max = \"12s\"\n";
    home.write(".config/gone/config.toml", settings);
}

fn balancers(home: &Home) -> Vec<Value> {
    let all = home.json(&["list", "load_balancer"]);
    all.as_array().unwrap().clone()
}

/// Waits until all balancers are active, and lets the next change of the balancer with this name take a day. Returns
/// its id.
fn never_end_deletion(home: &Home, cloud: &Cloud, name: &str) -> String {
    let active = |all: &[Value]| {
        let mut all = all.iter();
        all.all(|it| it["attributes"]["provisioning_status"] == "ACTIVE")
    };
    let shown = || format!("{:?}", balancers(home));
    let all = until("active balancers", shown, || {
        Some(balancers(home)).filter(|all| active(all))
    });
    let front = all.iter().find(|it| it["name"] == name).unwrap();
    let id = front["id"].as_str().unwrap().to_owned();
    cloud.set_balancer_course(&json!({"id": id, "for_s": 86_400}));
    id
}

in_variations! { run,
    baseline fn story_4_p03_a_balancer_in_pending_delete_is_reported_early_and_abandoned_by_the_ladder();
    slow_cloud fn story_4_p03_a_balancer_in_pending_delete_is_abandoned_by_the_ladder_on_a_slow_cloud();
    fast_cloud fn story_4_p03_a_balancer_in_pending_delete_is_abandoned_by_the_ladder_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    shorten_limits(&home);
    let cloud = home.serve_cloud(SCENARIO);
    home.start_engine(&[]);
    let name = variation.name("front");
    let balancer = never_end_deletion(&home, &cloud, name);
    let network = format!("network/{}", variation.name("web"));
    home.stdout_of(&["delete", &network, "--cascade", "--yes"]);

    // The other balancer of the network is deleted without delay.
    let shown = || format!("{:?}", balancers(&home));
    until("end of the other balancer", shown, || {
        Some(balancers(&home)).filter(|all| all.len() == 1)
    });

    // `:stuck` lists the balancer long before its step is stuck.
    let mut session = Session::start(&home, &[]);
    session.wait_for("1 of 1 sites reachable");
    session.open("stuck", "stuck 1");
    let front = format!("load balancer {name}");
    session.wait_for_all(&[&front, "PENDING_DELETE", "2 h 45 min"]);
    session.press("F");
    session.wait_for_all(&[&format!("── ladder of load balancer {name}"), "not before"]);
    session.press("\x1b[F");
    session.wait_for_all(&["> forget", "2 h 45 min"]);
    session.press("\r");
    session.wait_for("forget is not offered");
    session.press("\x1b");

    let deletion = home.wait_for_deletion("stuck", |deletion| deletion["state"] == "stuck");
    let id = deletion["id"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    session.wait_for_all(&["✖ stuck", &front, "a person"]);
    let writes = cloud.writes();
    session.press("F");
    session.wait_for_all(&["✓ yes", "sends nothing: shows what to do manually"]);
    for rung in [">  unpin", ">  reset", ">  force", ">  runbook"] {
        session.press("j");
        session.wait_for(rung);
    }
    session.press("\r");
    let question = format!("the short id of the deletion, {short}");
    session.wait_for_all(&["confirm", &question]);
    session.wait_for_prompt();
    session.press("yes\r");
    session.wait_for("That is not it");
    session.press("\x15");
    session.press(short);
    session.press("\r");
    let named = format!("Load balancer {balancer}");
    let title = format!("── runbook for load balancer {name}");
    session.wait_for_all(&[&title, &named, "2 h 45 min"]);
    session.press("G");
    let row = format!("WHERE id = '{balancer}'");
    let reset = "UPDATE load_balancer SET provisioning_status = 'ERROR'";
    session.wait_for_all(&[reset, &row, "> gone retry"]);
    session.quit();

    // The last rung abandons the balancer, which becomes an orphan.
    let ladder = home.stdout_of(&["purge", short]);
    assert!(ladder.contains("forget   yes"), "{ladder}");
    let abandoned = home.stdout_of(&["purge", short, "--rung", "forget", "--confirm", short]);
    assert!(abandoned.contains("steps abandoned"), "{abandoned}");
    assert_eq!(cloud.writes(), writes, "the rung sends no call");
    assert_eq!(home.only_deletion()["state"], "purged");
    let orphans = home.json(&["list", "orphans"]);
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
