//! Deletions along the edges of the graph on real services: subnets that share a port, and ports of servers (N17, N18,
//! N20).
use serde_json::{Value, json};

use crate::api::text;
use crate::bed::Bed;

const EMPTY: &str = "--networks 1 --ports 0 --trunks 0 --groups 1";

impl Bed {
    /// Creates a resource of the bed's project. Returns its id.
    fn create(&self, collection: &str, member: &str, mut fields: Value) -> String {
        fields["project_id"] = json!(self.project);
        let made = self.api.call("POST", collection, json!({ member: fields }));
        text(&made[member]["id"])
    }

    /// Creates a network with a SLAAC subnet for each of the CIDRs. Returns the ids of the network and its subnets.
    fn create_slaac_network(&self, cidrs: &[&str]) -> (String, Vec<String>) {
        let network = self.create("networks", "network", json!({"name": self.name}));
        let subnet = |cidr: &&str| {
            let fields = json!({"network_id": network, "ip_version": 6, "cidr": cidr,
                "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"});
            self.create("subnets", "subnet", fields)
        };
        let subnets = cidrs.iter().map(subnet).collect();
        (network, subnets)
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n17_a_router_interface_of_another_subnet_on_the_same_port_stays() {
    let bed = Bed::seeded("RegionOne", EMPTY);
    let (network, subnets) = bed.create_slaac_network(&["2001:db8:1::/64", "2001:db8:2::/64"]);
    let router = bed.create("routers", "router", json!({"name": bed.name}));
    for subnet in &subnets {
        let add = format!("routers/{router}/add_router_interface");
        bed.api.call("PUT", &add, json!({"subnet_id": subnet}));
    }
    let line = format!(
        "--cloud testbed delete subnet/{} --cascade --yes --wait=2m",
        subnets[0]
    );
    bed.gone(&line).ok();
    let ports = bed.api.rows("ports", &format!("device_id={router}"));
    assert_eq!(ports.len(), 1);
    let left = ports[0]["fixed_ips"].as_array().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(text(&left[0]["subnet_id"]), subnets[1]);
    // The cascade of the network deletes the remaining interface.
    let line = format!("--cloud testbed delete network/{network} --cascade --yes --wait=2m");
    bed.gone(&line).ok();
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n18_a_slaac_subnet_is_deleted_and_its_port_keeps_the_other_address() {
    let bed = Bed::seeded("RegionOne", EMPTY);
    let (network, subnets) = bed.create_slaac_network(&["2001:db8:55::/64"]);
    let v4 = json!({"network_id": network, "ip_version": 4, "cidr": "10.5.0.0/24"});
    let v4 = bed.create("subnets", "subnet", v4);
    let vm = json!({"network_id": network, "device_owner": "compute:nova", "device_id": network});
    let vm = bed.create("ports", "port", vm);
    let line = format!(
        "--cloud testbed delete subnet/{} --yes --wait=2m",
        subnets[0]
    );
    bed.gone(&line).ok();
    let kept = bed.api.rows("ports", &format!("id={vm}"));
    let left = kept[0]["fixed_ips"].as_array().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(text(&left[0]["subnet_id"]), v4);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_18_n20_a_member_deletes_a_network_with_ports_of_servers() {
    let mut bed = Bed::seeded("RegionOne", EMPTY);
    let network = bed.create_foreign("networks", "network", json!({"name": bed.name}));
    let network = text(&network["id"]);
    for owner in ["compute:nova", "baremetal:none", "manila:share"] {
        let port = json!({"network_id": network, "device_owner": owner, "device_id": network});
        bed.create_foreign("ports", "port", port);
    }
    let line = format!("--cloud testbed-demo plan network/{network} --cascade");
    bed.gone(&line).ok().says(&["is released first"]);
    let line = format!("--cloud testbed-demo delete network/{network} --cascade --yes --wait=2m");
    bed.gone(&line).ok();
    assert!(
        bed.api
            .rows("ports", &format!("network_id={network}"))
            .is_empty()
    );
}
