//! Story 8: a job plans, keeps the plan, and runs exactly that plan, without an engine or a terminal.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::telling::Telling;
use crate::world::World;

/// The plan of the seeded network, as a program writes its name.
fn plan_line(telling: &Telling) -> String {
    let seed = telling.name("seed").replace(' ', "%20");
    format!("plan network/{seed}-net-0 --cascade -o json")
}

fn keep_line(telling: &Telling) -> String {
    format!("{} --out p.json", plan_line(telling))
}

const DELETE: &str = "delete --plan p.json --yes --wait=30m -o json";

#[test]
fn p01_the_plan_that_was_kept_is_what_is_deleted() {
    tell_of_the_kept_plan(&Telling::as_written());
}

#[test]
fn p01_the_plan_that_was_kept_is_what_is_deleted_told_otherwise() {
    tell_of_the_kept_plan(&Telling::otherwise());
}

#[test]
fn p01_the_plan_that_was_kept_is_what_is_deleted_told_at_leisure() {
    tell_of_the_kept_plan(&Telling::at_leisure());
}

fn tell_of_the_kept_plan(telling: &Telling) {
    let world = World::of(telling);
    world.seed();
    let plan = world.gone(&keep_line(telling)).ends_with(0).json();
    let steps = plan["steps"].as_array().unwrap().len();
    assert!(steps > 4, "{plan}");
    assert_eq!(world.writes(), 0, "planning sends no write");
    let again = world.gone(&plan_line(telling)).ends_with(0).json();
    assert_eq!(again["hash"], plan["hash"]);

    let done = world.gone(DELETE).ends_with(0).json();
    assert_eq!(done["state"], "gone");
    assert_eq!(done["plan_hash"], plan["hash"]);
    assert_eq!(done["requested_by"]["name"], "ada");
    let results = done["steps"].as_array().unwrap();
    assert_eq!(results.len(), steps, "a result for each");
    assert!(results.iter().all(|step| step["state"] == "gone"));
    let left = world.gone("list network -o json").ends_with(0).json();
    let names: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert!(
        !names.contains(&&json!(format!("{}-net-0", telling.name("seed")))),
        "{names:?}"
    );

    let listed = world.gone("list -o json").ends_with(0).json();
    assert_eq!(listed[0]["id"], done["id"]);
    let mode = std::fs::metadata(world.path("state/gone"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn p01_a_resource_that_changed_since_is_7_and_nothing_is_sent() {
    tell_of_a_change(&Telling::as_written());
}

#[test]
fn p01_a_resource_that_changed_since_is_7_and_nothing_is_sent_told_otherwise() {
    tell_of_a_change(&Telling::otherwise());
}

#[test]
fn p01_a_resource_that_changed_since_is_7_and_nothing_is_sent_told_at_leisure() {
    tell_of_a_change(&Telling::at_leisure());
}

fn tell_of_a_change(telling: &Telling) {
    let world = World::of(telling);
    world.seed();
    world.gone(&keep_line(telling)).ends_with(0);
    // A port goes by another way: the cloud is not as approved.
    let seed = telling.name("seed");
    let target = format!("port/{seed}-port-0-1").replace(' ', "%20");
    world.gone(&format!("delete {target} --yes")).ends_with(0);
    let before = world.writes();
    let refused = world.gone(DELETE).ends_with(7);
    let port = format!("{seed}-port-0-1");
    assert!(refused.out.contains(&port) || refused.err.contains(&port));
    assert_eq!(world.writes(), before);
}

#[test]
fn a_failure_is_4_and_says_what_the_cloud_said() {
    tell_of_a_failure(&Telling::as_written());
}

#[test]
fn a_failure_is_4_and_says_what_the_cloud_said_told_otherwise() {
    tell_of_a_failure(&Telling::otherwise());
}

#[test]
fn a_failure_is_4_and_says_what_the_cloud_said_told_at_leisure() {
    tell_of_a_failure(&Telling::at_leisure());
}

fn tell_of_a_failure(telling: &Telling) {
    let world = World::of(telling);
    world.seed();
    world.gone(&keep_line(telling)).ends_with(0);
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
    let listed = world.gone("list stuck").ends_with(0);
    assert!(listed.out.contains("not this one"), "{}", listed.out);

    world.control("PUT", "/faults", &json!([]));
    let id = done["id"].as_str().unwrap();
    world
        .gone(&format!("retry {}", &id[id.len() - 8..]))
        .ends_with(0);
}

#[test]
fn p05_a_guarded_cloud_is_6() {
    tell_of_a_guard(&Telling::as_written());
}

#[test]
fn p05_a_guarded_cloud_is_6_told_otherwise() {
    tell_of_a_guard(&Telling::otherwise());
}

#[test]
fn p05_a_guarded_cloud_is_6_told_at_leisure() {
    tell_of_a_guard(&Telling::at_leisure());
}

fn tell_of_a_guard(telling: &Telling) {
    let world = World::of(telling);
    world.seed();
    world.gone(&keep_line(telling)).ends_with(0);
    let config = world.path("config.toml");
    std::fs::write(&config, "[guard]\nread_only_clouds = [\"sandbox\"]").unwrap();
    let before = world.writes();
    world
        .gone(&format!("{DELETE} --config config.toml"))
        .ends_with(6);
    world.gone(&format!("{DELETE} --read-only")).ends_with(6);
    assert_eq!(world.writes(), before);
}

#[test]
fn what_refuses_is_6_when_checked() {
    tell_of_a_check(&Telling::as_written());
}

#[test]
fn what_refuses_is_6_when_checked_told_otherwise() {
    tell_of_a_check(&Telling::otherwise());
}

#[test]
fn what_refuses_is_6_when_checked_told_at_leisure() {
    tell_of_a_check(&Telling::at_leisure());
}

fn tell_of_a_check(telling: &Telling) {
    let world = World::of(telling);
    world.seed();
    let seed = telling.name("seed");
    let network = format!("network/{seed}-net-0").replace(' ', "%20");
    let ran = world.gone(&format!("plan {network} --check")).ends_with(6);
    let port = format!("{seed}-port-0-0");
    assert!(ran.out.contains(&port), "{}", ran.out);
    world.gone("plan network/none --cascade").ends_with(2);
    world.gone(&format!("plan {network}")).ends_with(0);
}
