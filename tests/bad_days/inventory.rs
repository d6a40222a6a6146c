//! Another program that synchronises an inventory: `assets/examples/sync_inventory.py`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::json;

use super::support::{Running, Stage, text, wait_for};

/// Runs the example once. Returns the ids in the inventory.
fn sync(stage: &Stage) -> BTreeSet<String> {
    let database = stage.path("inventory.db");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/examples/sync_inventory.py"
    );
    let mut command = Command::new("python3");
    command.arg(script);
    stage.at_home(&mut command);
    command
        .env("OS_TOKEN", stage.token())
        .args(["--site", "prod/RegionOne", "--socket"])
        .arg(stage.path("state/gone/gone.sock"))
        .args(["--network", &format!("{}/RegionOne/network", stage.url)])
        .arg("--database")
        .arg(&database);
    Running::start(&mut command).end().ok();
    let inventory = rusqlite::Connection::open(database).unwrap();
    let mut ids = inventory.prepare("SELECT id FROM inventory").unwrap();
    let ids = ids.query_map((), |row| row.get(0)).unwrap();
    ids.collect::<Result<_, _>>().unwrap()
}

#[test]
fn i08_an_inventory_sync_never_restores_a_deleted_resource() {
    let stage = Stage::new();
    stage.settings("[engine]\nsweep = \"1h\"\n");
    let seeded = stage.seed(json!({"name": "web", "networks": 2, "ports_per_network": 2}));
    let (network, other) = (text(&seeded["networks"][0]), text(&seeded["networks"][1]));
    let port = text(&seeded["ports"][1]);
    let engine = stage.engine();
    let before = sync(&stage);
    for id in [&network, &other, &port] {
        assert!(before.contains(id), "{before:?}");
    }

    // While the network is being deleted, the cloud still lists it.
    stage.faults(json!([{"match": {"method": "DELETE", "kind": "port"},
        "action": {"status": 409, "type": "PortInUse", "message": "held"}}]));
    let ran = stage.gone(&format!("delete network/{network} --cascade --yes -o json"));
    let id = text(&ran.ok().json()["id"]);
    wait_for("two blocked ports", || {
        stage.show(&id)["counts"]["blocked"] == json!(2)
    });
    let meanwhile = sync(&stage);
    assert!(stage.ids("networks").contains(&network));
    assert!(!meanwhile.contains(&network) && !meanwhile.contains(&port));
    assert!(meanwhile.contains(&other));

    // Once the network is gone, something re-creates it in the cloud without gone.
    stage.faults(json!([{"match": {"method": "DELETE", "kind": "network"},
        "action": {"recreate_after_ms": 3_000}}]));
    stage.gone(&format!("retry {id}")).ok();
    stage.await_state(&id, "gone");
    stage.faults(json!([]));
    wait_for("the re-created network", || {
        stage.ids("networks").contains(&network)
    });
    let after = sync(&stage);
    assert!(!after.contains(&network) && after.contains(&other));
    engine.stop().ok();
}
