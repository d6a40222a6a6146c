//! Unchanged clients through the gates: a session of openstacksdk, and load balancers by the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::api::text;
use crate::bed::{Bed, clouds, wait_for};
use crate::gate::{clouds_behind_gates, engine_with_gates, openstack};

/// A Python program that pages through the ports of a network, requests its cascade, and follows the network to its
/// end. It prints the ids of the ports, the number of times that the network was shown as deleting, and the id of the
/// deletion.
const SESSION: &str = r#"
import sys, time, openstack

cloud = openstack.connect(cloud="testbed")
network = sys.argv[1]
for port in cloud.network.ports(limit=2, network_id=network):
    print(port.id)
answer = cloud.network.delete(f"/networks/{network}", params={"cascade": "true"})
assert answer.status_code == 202, answer.text
assert answer.headers["Location"].endswith(answer.json()["deletion"]["id"])
until = time.monotonic() + 120
deleting = 0
while (shown := cloud.network.find_network(network)) is not None:
    assert shown.status == "DELETING" or deleting == 0, shown.status
    deleting += shown.status == "DELETING"
    assert time.monotonic() < until, shown
    time.sleep(0.05)
assert cloud.network.get(f"/networks/{network}").status_code == 404
print(deleting)
print(answer.headers["X-Gone-Deletion"])
"#;

/// Runs a Python program with this `clouds.yaml`, and returns the lines that it prints.
fn run_python(program: &str, argument: &str, clouds_file: &Path) -> Vec<String> {
    let python = clouds().with_file_name("venv/bin/python");
    let output = Command::new(python)
        .args(["-c", program, argument])
        .env("OS_CLIENT_CONFIG_FILE", clouds_file)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n01_n08_t07_openstacksdk_pages_and_cascades_through_the_gate() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 12 --trunks 1 --fips 1");
    let (_engine, gates) = engine_with_gates(&bed);
    let gated = clouds_behind_gates(&bed, &gates);
    let network = &bed.networks[0];
    let ours = bed.api.rows("ports", &format!("network_id={network}"));
    let mut lines = run_python(SESSION, network, &gated);
    let id = lines.pop().unwrap();
    let deleting: u32 = lines.pop().unwrap().parse().unwrap();
    assert!(deleting > 0, "the network was never shown as deleting");
    for port in ours {
        let found = lines.iter().filter(|it| **it == text(&port["id"]));
        assert_eq!(found.count(), 1, "{port}");
    }
    let shown = bed.gone(&format!("show {id} -o json")).ok().json();
    assert_eq!(shown["requested_by"]["origin"], "gate");
    wait_for("the deletion's end", || {
        bed.gone(&format!("show {id} -o json")).ok().json()["state"] == "gone"
    });
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n01_a_balancer_is_deleted_by_octavias_own_cascade_through_the_gate() {
    let shape = "--networks 1 --ports 1 --trunks 0 --fips 0 --balancers 1";
    let bed = Bed::seeded("RegionOne", shape);
    let direct = bed.path("clouds.yaml");
    let (_engine, gates) = engine_with_gates(&bed);
    let gated = clouds_behind_gates(&bed, &gates);
    let made = bed.api.balancers_and_images(&bed.project);
    let id = text(&made[0]["id"]);
    for words in [
        format!("loadbalancer show {id} -f json"),
        format!("loadbalancer status show {id}"),
        format!("loadbalancer listener list --loadbalancer {id} -f json"),
        format!("loadbalancer delete {id}"),
        "loadbalancer show no-such-balancer".to_owned(),
    ] {
        let (here, there) = (openstack(&gated, &words), openstack(&direct, &words));
        assert_eq!(here, there, "{words}");
    }
    let cascade = format!("loadbalancer delete --cascade --wait {id}");
    let (code, out, error) = openstack(&gated, &cascade);
    assert_eq!(code, Some(0), "{out} {error}");
    assert_eq!(
        bed.api.balancers_and_images(&bed.project),
        Vec::<Value>::new()
    );
    // Octavia itself performed the cascade: gone has no deletion.
    let deletions = bed.gone("list deletions -o json").ok().json();
    assert_eq!(deletions, serde_json::json!([]));
}
