//! Clients that people have, unchanged, through the gates: openstacksdk's session, and balancers.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::api::text;
use crate::bed::{Bed, clouds, wait_for};
use crate::gate::{behind_gates, engine_with_gates, openstack};

/// Pages through the ports of a network, cascades into that, and follows it to its end; says how often it was
/// shown as deleting, and then the deletion.
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

/// What this Python program prints, line by line, with the clouds of this file.
fn python(program: &str, argument: &str, clouds_file: &Path) -> Vec<String> {
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
fn testbed_n01_n08_t07_a_session_of_openstacksdk_pages_and_cascades() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 12 --trunks 1 --fips 1");
    let (_engine, gates) = engine_with_gates(&bed);
    let gated = behind_gates(&bed, &gates);
    let network = &bed.networks[0];
    let ours = bed.api.rows("ports", &format!("network_id={network}"));
    let mut said = python(SESSION, network, &gated);
    let id = said.pop().unwrap();
    let deleting: u32 = said.pop().unwrap().parse().unwrap();
    assert!(deleting > 0, "it was never shown as deleting");
    for port in ours {
        let found = said.iter().filter(|it| **it == text(&port["id"]));
        assert_eq!(found.count(), 1, "{port}");
    }
    let shown = bed.gone(&format!("show {id} -o json")).ends_with(0).json();
    assert_eq!(shown["requested_by"]["origin"], "gate");
    wait_for("the deletion's end", || {
        bed.gone(&format!("show {id} -o json")).ends_with(0).json()["state"] == "gone"
    });
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n01_a_balancer_goes_by_octavias_own_cascade_through_the_gate() {
    let shape = "--networks 1 --ports 1 --trunks 0 --fips 0 --balancers 1";
    let bed = Bed::seeded("RegionOne", shape);
    let direct = bed.path("clouds.yaml");
    let (_engine, gates) = engine_with_gates(&bed);
    let gated = behind_gates(&bed, &gates);
    let made = bed.api.of_others(&bed.project);
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
    assert_eq!(bed.api.of_others(&bed.project), Vec::<Value>::new());
    // It was Octavia's, and no deletion of ours.
    let deletions = bed.gone("list deletions -o json").ends_with(0).json();
    assert_eq!(deletions, serde_json::json!([]));
}
