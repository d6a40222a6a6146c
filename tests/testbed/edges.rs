//! What goes with an edge on real services: exactly what was planned (N17, N18, N20).
use serde_json::{Value, json};

use crate::api::text;
use crate::bed::Bed;

const EMPTY: &str = "--networks 1 --ports 0 --trunks 0 --groups 1";

impl Bed {
    /// Makes one of the bed's own, and answers its id.
    fn make(&self, collection: &str, member: &str, mut fields: Value) -> String {
        fields["project_id"] = json!(self.project);
        let made = self.api.call("POST", collection, json!({ member: fields }));
        text(&made[member]["id"])
    }

    /// A network with a subnet for each of the CIDRs, all of automatic addresses.
    fn slaac(&self, cidrs: &[&str]) -> (String, Vec<String>) {
        let network = self.make("networks", "network", json!({"name": self.name}));
        let subnet = |cidr: &&str| {
            let fields = json!({"network_id": network, "ip_version": 6, "cidr": cidr,
                "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"});
            self.make("subnets", "subnet", fields)
        };
        let subnets = cidrs.iter().map(subnet).collect();
        (network, subnets)
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n17_the_interface_of_another_subnet_on_the_same_port_stays() {
    let bed = Bed::seeded("RegionOne", EMPTY);
    let (network, subnets) = bed.slaac(&["2001:db8:1::/64", "2001:db8:2::/64"]);
    let router = bed.make("routers", "router", json!({"name": bed.name}));
    for subnet in &subnets {
        let add = format!("routers/{router}/add_router_interface");
        bed.api.call("PUT", &add, json!({"subnet_id": subnet}));
    }
    let line = format!(
        "--cloud testbed delete subnet/{} --cascade --yes --wait=2m",
        subnets[0]
    );
    bed.gone(&line).ends_with(0);
    let ports = bed.api.rows("ports", &format!("device_id={router}"));
    assert_eq!(ports.len(), 1);
    let left = ports[0]["fixed_ips"].as_array().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(text(&left[0]["subnet_id"]), subnets[1]);
    // And both of a network that goes whole.
    let line = format!("--cloud testbed delete network/{network} --cascade --yes --wait=2m");
    bed.gone(&line).ends_with(0);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n18_a_subnet_of_automatic_addresses_goes_and_the_port_keeps_its_other() {
    let bed = Bed::seeded("RegionOne", EMPTY);
    let (network, subnets) = bed.slaac(&["2001:db8:55::/64"]);
    let v4 = json!({"network_id": network, "ip_version": 4, "cidr": "10.5.0.0/24"});
    let v4 = bed.make("subnets", "subnet", v4);
    let vm = json!({"network_id": network, "device_owner": "compute:nova", "device_id": network});
    let vm = bed.make("ports", "port", vm);
    let line = format!(
        "--cloud testbed delete subnet/{} --yes --wait=2m",
        subnets[0]
    );
    bed.gone(&line).ends_with(0);
    let kept = bed.api.rows("ports", &format!("id={vm}"));
    let left = kept[0]["fixed_ips"].as_array().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(text(&left[0]["subnet_id"]), v4);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_18_n20_a_member_deletes_a_network_with_ports_of_servers() {
    let mut bed = Bed::seeded("RegionOne", EMPTY);
    let network = bed.stranger("networks", "network", json!({"name": bed.name}));
    let network = text(&network["id"]);
    for owner in ["compute:nova", "baremetal:none", "manila:share"] {
        let port = json!({"network_id": network, "device_owner": owner, "device_id": network});
        bed.stranger("ports", "port", port);
    }
    let line = format!("--cloud testbed-demo plan network/{network} --cascade");
    bed.gone(&line).ends_with(0).says(&["is released first"]);
    let line = format!("--cloud testbed-demo delete network/{network} --cascade --yes --wait=2m");
    bed.gone(&line).ends_with(0);
    assert!(
        bed.api
            .rows("ports", &format!("network_id={network}"))
            .is_empty()
    );
}
