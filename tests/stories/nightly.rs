//! Story 8: a script writes a plan to a file and deletes exactly that plan, without an engine or a terminal.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::variation::{Variation, in_variations};
use crate::world::World;

/// The command line that plans the deletion of the seeded network.
fn plan_command(variation: &Variation) -> String {
    let seed = variation.name("seed").replace(' ', "%20");
    format!("plan network/{seed}-net-0 --cascade -o json")
}

/// The same command, which also writes the plan to a file.
fn plan_to_file_command(variation: &Variation) -> String {
    format!("{} --out p.json", plan_command(variation))
}

const DELETE: &str = "delete --plan p.json --yes --wait=30m -o json";

in_variations! { run_plan_file,
    baseline fn p01_delete_with_a_plan_file_deletes_exactly_that_plan();
    slow_cloud fn p01_delete_with_a_plan_file_deletes_exactly_that_plan_on_a_slow_cloud();
    fast_cloud fn p01_delete_with_a_plan_file_deletes_exactly_that_plan_on_a_fast_cloud();
}

fn run_plan_file(variation: &Variation) {
    let world = World::with(variation);
    world.seed();
    let plan = world.gone(&plan_to_file_command(variation)).ok().json();
    let steps = plan["steps"].as_array().unwrap().len();
    assert!(steps > 4, "{plan}");
    assert_eq!(world.writes(), 0, "planning sends no write");
    let again = world.gone(&plan_command(variation)).ok().json();
    assert_eq!(again["hash"], plan["hash"]);

    let done = world.gone(DELETE).ok().json();
    assert_eq!(done["state"], "gone");
    assert_eq!(done["plan_hash"], plan["hash"]);
    assert_eq!(done["requested_by"]["name"], "ada");
    let results = done["steps"].as_array().unwrap();
    assert_eq!(results.len(), steps, "one result for each step");
    assert!(results.iter().all(|step| step["state"] == "gone"));
    let left = world.gone("list network -o json").ok().json();
    let names: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert!(
        !names.contains(&&json!(format!("{}-net-0", variation.name("seed")))),
        "{names:?}"
    );

    let listed = world.gone("list -o json").ok().json();
    assert_eq!(listed[0]["id"], done["id"]);
    let mode = std::fs::metadata(world.path("state/gone"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

in_variations! { run_changed_resource,
    baseline fn p01_a_port_deleted_after_the_plan_ends_with_7_and_nothing_is_sent();
    slow_cloud fn p01_a_port_deleted_after_the_plan_ends_with_7_and_nothing_is_sent_on_a_slow_cloud();
    fast_cloud fn p01_a_port_deleted_after_the_plan_ends_with_7_and_nothing_is_sent_on_a_fast_cloud();
}

fn run_changed_resource(variation: &Variation) {
    let world = World::with(variation);
    world.seed();
    world.gone(&plan_to_file_command(variation)).ok();
    // Another command deletes one of the planned ports, so the cloud differs from the plan.
    let seed = variation.name("seed");
    let target = format!("port/{seed}-port-0-1").replace(' ', "%20");
    world.gone(&format!("delete {target} --yes")).ok();
    let before = world.writes();
    let refused = world.gone(DELETE).ends_with(7);
    let port = format!("{seed}-port-0-1");
    assert!(refused.out.contains(&port) || refused.err.contains(&port));
    assert_eq!(world.writes(), before);
}

in_variations! { run_failed_step,
    baseline fn a_refused_delete_ends_with_4_and_the_message_of_the_cloud();
    slow_cloud fn a_refused_delete_ends_with_4_and_the_message_of_the_cloud_on_a_slow_cloud();
    fast_cloud fn a_refused_delete_ends_with_4_and_the_message_of_the_cloud_on_a_fast_cloud();
}

fn run_failed_step(variation: &Variation) {
    let world = World::with(variation);
    world.seed();
    world.gone(&plan_to_file_command(variation)).ok();
    let fault = json!([{
        "match": {"method": "DELETE", "path": "/v2.0/ports/*"},
        "action": {"status": 403, "type": "PolicyNotAuthorized", "message": "not this one"}
    }]);
    world.control("PUT", "/faults", &fault);
    let done = world.gone(DELETE).ends_with(4).json();
    assert_eq!(done["state"], "stuck");
    let stuck = done["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["state"] == "stuck");
    assert_eq!(stuck.unwrap()["last_error"]["message"], "not this one");
    let listed = world.gone("list stuck").ok();
    assert!(listed.out.contains("not this one"), "{}", listed.out);

    world.control("PUT", "/faults", &json!([]));
    let id = done["id"].as_str().unwrap();
    world.gone(&format!("retry {}", &id[id.len() - 8..])).ok();
}

in_variations! { run_read_only_cloud,
    baseline fn p05_a_delete_on_a_read_only_cloud_ends_with_6();
    slow_cloud fn p05_a_delete_on_a_read_only_cloud_ends_with_6_on_a_slow_cloud();
    fast_cloud fn p05_a_delete_on_a_read_only_cloud_ends_with_6_on_a_fast_cloud();
}

fn run_read_only_cloud(variation: &Variation) {
    let world = World::with(variation);
    world.seed();
    world.gone(&plan_to_file_command(variation)).ok();
    let config = world.path("config.toml");
    std::fs::write(&config, "[guard]\nread_only_clouds = [\"sandbox\"]").unwrap();
    let before = world.writes();
    world
        .gone(&format!("{DELETE} --config config.toml"))
        .ends_with(6);
    world.gone(&format!("{DELETE} --read-only")).ends_with(6);
    assert_eq!(world.writes(), before);
}

in_variations! { run_plan_check,
    baseline fn plan_check_ends_with_6_and_names_the_blocker();
    slow_cloud fn plan_check_ends_with_6_and_names_the_blocker_on_a_slow_cloud();
    fast_cloud fn plan_check_ends_with_6_and_names_the_blocker_on_a_fast_cloud();
}

fn run_plan_check(variation: &Variation) {
    let world = World::with(variation);
    world.seed();
    let seed = variation.name("seed");
    let network = format!("network/{seed}-net-0").replace(' ', "%20");
    let ran = world.gone(&format!("plan {network} --check")).ends_with(6);
    let port = format!("{seed}-port-0-0");
    assert!(ran.out.contains(&port), "{}", ran.out);
    world.gone("plan network/none --cascade").ends_with(2);
    world.gone(&format!("plan {network}")).ok();
}
