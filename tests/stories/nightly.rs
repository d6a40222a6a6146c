//! Story 8: a job plans, keeps the plan, and runs exactly that plan, without an engine or a terminal.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::world::World;

const PLAN: &str = "plan network/seed-net-0 --cascade -o json --out p.json";
const DELETE: &str = "delete --plan p.json --yes --wait=30m -o json";

#[test]
fn p01_the_plan_that_was_kept_is_what_is_deleted() {
    let world = World::start();
    world.seed();
    let plan = world.gone(PLAN).expect(0).json();
    let steps = plan["steps"].as_array().unwrap().len();
    assert!(steps > 4, "{plan}");
    assert_eq!(world.writes(), 0, "planning sends no write");
    let again = world
        .gone("plan network/seed-net-0 --cascade -o json")
        .expect(0)
        .json();
    assert_eq!(again["hash"], plan["hash"]);

    let done = world.gone(DELETE).expect(0).json();
    assert_eq!(done["state"], "gone");
    assert_eq!(done["plan_hash"], plan["hash"]);
    assert_eq!(done["requested_by"]["name"], "ada");
    let results = done["steps"].as_array().unwrap();
    assert_eq!(results.len(), steps, "a result for each");
    assert!(results.iter().all(|step| step["state"] == "gone"));
    let left = world.gone("list network -o json").expect(0).json();
    let names: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert!(!names.contains(&&json!("seed-net-0")), "{names:?}");

    let listed = world.gone("list -o json").expect(0).json();
    assert_eq!(listed[0]["id"], done["id"]);
    let mode = std::fs::metadata(world.path("state/gone"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn p01_a_resource_that_changed_since_is_7_and_nothing_is_sent() {
    let world = World::start();
    world.seed();
    world.gone(PLAN).expect(0);
    // A port goes by another way: the cloud is not as approved.
    world.gone("delete port/seed-port-0-1 --yes").expect(0);
    let before = world.writes();
    let refused = world.gone(DELETE).expect(7);
    assert!(refused.out.contains("seed-port-0-1") || refused.err.contains("seed-port-0-1"));
    assert_eq!(world.writes(), before);
}

#[test]
fn a_failure_is_4_and_says_what_the_cloud_said() {
    let world = World::start();
    world.seed();
    world.gone(PLAN).expect(0);
    let fault = json!([{
        "match": {"method": "DELETE", "path": "/v2.0/ports/*"},
        "action": {"status": 403, "type": "PolicyNotAuthorized", "message": "not this one"}
    }]);
    world.control("PUT", "/faults", &fault);
    let done = world.gone(DELETE).expect(4).json();
    assert_eq!(done["state"], "stuck");
    let stuck = done["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["state"] == "stuck");
    assert_eq!(stuck.unwrap()["last_error"]["message"], "not this one");
    let listed = world.gone("list stuck").expect(0);
    assert!(listed.out.contains("not this one"), "{}", listed.out);

    world.control("PUT", "/faults", &json!([]));
    let id = done["id"].as_str().unwrap();
    world
        .gone(&format!("retry {}", &id[id.len() - 8..]))
        .expect(0);
}

#[test]
fn p05_a_guarded_cloud_is_6() {
    let world = World::start();
    world.seed();
    world.gone(PLAN).expect(0);
    let config = world.path("config.toml");
    std::fs::write(&config, "[guard]\nread_only_clouds = [\"sandbox\"]").unwrap();
    let before = world.writes();
    world
        .gone(&format!("{DELETE} --config config.toml"))
        .expect(6);
    world.gone(&format!("{DELETE} --read-only")).expect(6);
    assert_eq!(world.writes(), before);
}

#[test]
fn what_refuses_is_6_when_checked() {
    let world = World::start();
    world.seed();
    let ran = world.gone("plan network/seed-net-0 --check").expect(6);
    assert!(ran.out.contains("seed-port-0-0"), "{}", ran.out);
    world.gone("plan network/none --cascade").expect(2);
    world.gone("plan network/seed-net-0").expect(0);
}
