//! Story 18: a member of one project deletes the resources of that project, ports of servers included, by the command
//! line and through a gate.

use serde_json::{Value, json};

use super::home::{Cloud, Home, until};
use super::variation::{Variation, in_variations};

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/tenant.toml"
);
const GATE: &str = "[[gate]]\nlisten = '127.0.0.1:0'\n\
    upstream = { cloud = 'sandbox', region = 'RegionOne', service = 'network' }\n";

in_variations! { run,
    baseline fn story_18_n20_a_member_deletes_only_resources_of_its_own_project();
    slow_cloud fn story_18_n20_a_member_deletes_only_resources_of_its_own_project_on_a_slow_cloud();
    fast_cloud fn story_18_n20_a_member_deletes_only_resources_of_its_own_project_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud(SCENARIO);
    home.cloud = Some("sandbox-demo");
    check_foreign_port_refuses(&home, &cloud);
    delete_ports_of_servers(&home, &cloud);
    delete_project_by_name(&home, &cloud);
    delete_through_gate(&mut home, &cloud);
}

/// The deletion of the member's network is refused, because a port of another project is on it.
fn check_foreign_port_refuses(home: &Home, cloud: &Cloud) {
    let network = format!("network/{}", home.variation.name("branch"));
    let before = cloud.writes().len();
    let refused = home.gone(&["delete", &network, "--cascade", "--yes", "--wait=1m"]);
    refused
        .ends_with(6)
        .says(&[home.variation.name("appliance")]);
    assert_eq!(cloud.writes().len(), before);
}

fn delete_ports_of_servers(home: &Home, cloud: &Cloud) {
    let (web, server) = (home.variation.name("web"), home.variation.name("server"));
    let network = format!("network/{web}");
    let port = cloud.id_of("ports", server);
    // The member may not delete the port while it serves a server.
    let (status, _) = cloud.call("demo", "DELETE", &format!("/ports/{port}"), Value::Null);
    assert_eq!(status, 403);
    let plan = home.stdout_of(&["plan", &network, "--cascade"]);
    let released = "is released first: only an admin may delete a port that serves a server";
    assert!(plan.contains(released), "{plan}");
    home.stdout_of(&["delete", &network, "--cascade", "--yes", "--wait=1m"]);
    let ports = cloud.names("ports");
    assert!(!ports.contains(&server.to_owned()), "{ports:?}");
    assert!(!cloud.names("networks").contains(&web.to_owned()));
}

/// The gate's own login is an admin, but the member's request runs with the rights of the member.
fn delete_through_gate(home: &mut Home, cloud: &Cloud) {
    let (crm, disk) = (home.variation.name("crm"), home.variation.name("disk"));
    let create = |collection: &str, body: Value| {
        let (status, body) = cloud.call("demo", "POST", &format!("/{collection}"), body);
        assert_eq!(status, 201, "{body}");
        body
    };
    let network = create("networks", json!({"network": {"name": crm}}));
    let network = network["network"]["id"].as_str().unwrap();
    let of_a_server = json!({"name": disk, "network_id": network, "device_owner": "compute:nova",
        "device_id": "33333333-3333-3333-3333-333333333333"});
    create("ports", json!({"port": of_a_server}));

    home.cloud = Some("sandbox");
    home.write(".config/gone/config.toml", GATE);
    home.start_engine(&[]);
    let log = || std::fs::read_to_string(home.path("engine.log")).unwrap();
    let gate = until("gate", log, || {
        let gates = home.json(&["list", "gates"]);
        gates[0]["listen"].as_str().map(str::to_owned)
    });
    let path = format!("/networks/{network}?cascade=true");
    let (status, answer) = cloud.call_through(&gate, "demo", "DELETE", &path);
    assert_eq!(status, 202, "{answer}");
    let deletions = || home.stdout_of(&["list"]);
    until("end of the deletion", deletions, || {
        cloud.names("networks").is_empty().then_some(())
    });
    let ports = cloud.names("ports");
    assert!(!ports.contains(&disk.to_owned()), "{ports:?}");
}

/// The plan of the whole project is refused because of the port of another project. Once that port is deleted, the
/// deletion succeeds.
fn delete_project_by_name(home: &Home, cloud: &Cloud) {
    let appliance = home.variation.name("appliance");
    home.gone(&["plan", "project/demo", "--cascade", "--check"])
        .ends_with(6)
        .stdout_has(&[appliance]);
    let port = cloud.id_of("ports", appliance);
    cloud.call("admin", "DELETE", &format!("/ports/{port}"), Value::Null);
    home.stdout_of(&["delete", "project/demo", "--cascade", "--yes", "--wait=1m"]);
    assert!(cloud.names("networks").is_empty());
}
