//! Story 18: a member of one project deletes what is his, ports of servers too, by the command line and
//! through a gate.

use serde_json::{Value, json};

use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/tenant.toml"
);
const GATE: &str = "[[gate]]\nlisten = '127.0.0.1:0'\n\
    upstream = { cloud = 'sandbox', region = 'RegionOne', service = 'network' }\n";

#[test]
fn story_18_n20_a_member_deletes_what_is_his_and_no_more() {
    tell(&Telling::as_written());
}

#[test]
fn story_18_n20_a_member_deletes_what_is_his_and_no_more_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_18_n20_a_member_deletes_what_is_his_and_no_more_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud(SCENARIO);
    stage.cloud = Some("sandbox-demo");
    another_projects_port_refuses(&stage, &cloud);
    ports_of_servers_go(&stage, &cloud);
    the_project_by_its_name(&stage, &cloud);
    through_the_gate(&mut stage, &cloud);
}

fn another_projects_port_refuses(stage: &Stage, cloud: &Cloud) {
    let network = format!("network/{}", stage.telling.name("branch"));
    let before = cloud.writes().len();
    let refused = stage.gone(&["delete", &network, "--cascade", "--yes", "--wait=1m"]);
    refused
        .ends_with(6)
        .says(&[stage.telling.name("appliance")]);
    assert_eq!(cloud.writes().len(), before);
}

fn ports_of_servers_go(stage: &Stage, cloud: &Cloud) {
    let (web, server) = (stage.telling.name("web"), stage.telling.name("server"));
    let network = format!("network/{web}");
    let port = cloud.id_of("ports", server);
    // He may not delete it as it is.
    let (status, _) = cloud.call("demo", "DELETE", &format!("/ports/{port}"), Value::Null);
    assert_eq!(status, 403);
    let plan = stage.say(&["plan", &network, "--cascade"]);
    let freed = "is released first: only an admin may delete a port that serves a server";
    assert!(plan.contains(freed), "{plan}");
    stage.say(&["delete", &network, "--cascade", "--yes", "--wait=1m"]);
    let ports = cloud.names("ports");
    assert!(!ports.contains(&server.to_owned()), "{ports:?}");
    assert!(!cloud.names("networks").contains(&web.to_owned()));
}

/// The gate asks Keystone as its own login, an admin; what the member may do is the member's.
fn through_the_gate(stage: &mut Stage, cloud: &Cloud) {
    let (crm, disk) = (stage.telling.name("crm"), stage.telling.name("disk"));
    let made = |collection: &str, body: Value| {
        let (status, body) = cloud.call("demo", "POST", &format!("/{collection}"), body);
        assert_eq!(status, 201, "{body}");
        body
    };
    let network = made("networks", json!({"network": {"name": crm}}));
    let network = network["network"]["id"].as_str().unwrap();
    let of_a_server = json!({"name": disk, "network_id": network, "device_owner": "compute:nova",
        "device_id": "33333333-3333-3333-3333-333333333333"});
    made("ports", json!({"port": of_a_server}));

    stage.cloud = Some("sandbox");
    stage.write(".config/gone/config.toml", GATE);
    stage.start_engine(&[]);
    let told = || std::fs::read_to_string(stage.path("engine.log")).unwrap();
    let gate = until("gate", told, || {
        let gates = stage.json(&["list", "gates"]);
        gates[0]["listen"].as_str().map(str::to_owned)
    });
    let path = format!("/networks/{network}?cascade=true");
    let (status, answer) = cloud.call_through(&gate, "demo", "DELETE", &path);
    assert_eq!(status, 202, "{answer}");
    let told = || stage.say(&["list"]);
    until("end of the deletion", told, || {
        cloud.names("networks").is_empty().then_some(())
    });
    let ports = cloud.names("ports");
    assert!(!ports.contains(&disk.to_owned()), "{ports:?}");
}

/// The network with another project's port refuses the whole project, and names that port.
fn the_project_by_its_name(stage: &Stage, cloud: &Cloud) {
    let appliance = stage.telling.name("appliance");
    stage
        .gone(&["plan", "project/demo", "--cascade", "--check"])
        .ends_with(6)
        .prints(&[appliance]);
    let port = cloud.id_of("ports", appliance);
    cloud.call("admin", "DELETE", &format!("/ports/{port}"), Value::Null);
    stage.say(&["delete", "project/demo", "--cascade", "--yes", "--wait=1m"]);
    assert!(cloud.names("networks").is_empty());
}
