//! What is refused: exit codes, who is named, and that nothing was touched.
use serde_json::json;

use crate::api::text;
use crate::bed::{Bed, wait_for};
use crate::seat::Seat;

const SMALL: &str = "--networks 1 --ports 3 --trunks 0 --groups 1";

impl Bed {
    /// `gone delete` of the first network; what it holds is afterwards as it was.
    fn refused(&self, options: &str, code: i32, words: &[&str]) {
        let before = self.holdings();
        let name = &self.networks[0];
        let line = format!("{options} delete network/{name} --cascade --yes --wait=2m -o json");
        self.gone(&line).ends_with(code).says(words);
        assert_eq!(self.holdings().0, before.0);
    }

    /// One of the project demo on a port of the first network: its id and address.
    fn anothers_floating_ip(&mut self) -> (String, String) {
        let external = "router:external=true&name=external";
        let external = text(&self.api.rows("networks", external)[0]["id"]);
        let compute = format!("network_id={}&device_owner=compute:nova", self.networks[0]);
        let port = &self.api.rows("ports", &compute)[0]["id"];
        let floating_ip = json!({"floating_network_id": external, "port_id": port});
        let made = self.stranger("floatingips", "floatingip", floating_ip);
        (text(&made["id"]), text(&made["floating_ip_address"]))
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p01_a_cloud_that_changed_is_7_and_nothing_is_deleted() {
    let bed = Bed::seeded("RegionOne", SMALL);
    let network = &bed.networks[0];
    let plan = format!("--cloud testbed plan network/{network} --cascade --out p.json");
    bed.gone(&plan).ends_with(0);
    let port = text(
        &bed.api.rows(
            "ports",
            &format!("network_id={network}&device_owner=compute:nova"),
        )[0]["id"],
    );
    let renamed = json!({"port": {"name": "renamed"}});
    bed.api.call("PUT", &format!("ports/{port}"), renamed);
    let before = bed.holdings();
    bed.gone("--cloud testbed delete --plan p.json --yes --wait=2m")
        .ends_with(7)
        .says(&[&port]);
    assert_eq!(bed.holdings().0, before.0);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p04_another_projects_port_refuses_and_is_named() {
    let mut bed = Bed::seeded("RegionOne", SMALL);
    let port = json!({"network_id": bed.networks[0], "name": "somebody-elses"});
    let port = bed.stranger("ports", "port", port);
    bed.refused(
        "--cloud testbed",
        6,
        &[&text(&port["id"]), "somebody-elses"],
    );
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p04_another_projects_floating_ip_refuses_and_is_named() {
    let mut bed = Bed::seeded(
        "RegionOne",
        "--networks 1 --ports 3 --trunks 0 --groups 1 --fips 0",
    );
    let (id, address) = bed.anothers_floating_ip();
    bed.refused("--cloud testbed", 6, &[&id, &address]);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_3_p02_anothers_floating_ip_is_explained_and_the_deletion_ends_once_it_is_freed() {
    let shape = "--networks 1 --ports 3 --trunks 0 --groups 1 --fips 0";
    let mut bed = Bed::seeded("RegionOne", shape);
    let (id, address) = bed.anothers_floating_ip();
    let _engine = bed.engine("--cloud testbed");
    let name = format!("{}-net-0", bed.name);
    let line = format!("--cloud testbed delete network/{name} --cascade --yes -o json");
    bed.gone(&line).ends_with(0);
    let mut seat = Seat::take(&bed, &["--cloud", "testbed"]);
    seat.see("1 refused");
    seat.press(":stuck");
    seat.see(":stuck");
    seat.press("\r");
    seat.see("stuck 1");
    seat.quiet();
    seat.press("b");
    seat.see(&format!(
        "blocked by floating IP {address} (project demo, not in this plan)"
    ));
    seat.see(&format!("id {id}"));

    bed.api.delete_all("floatingips", [id]);
    seat.press("\x1b");
    seat.see("stuck 1");
    seat.quiet();
    seat.press("r");
    let held = || {
        bed.api
            .rows("networks", &format!("project_id={}", bed.project))
    };
    wait_for("the network's end", || held().is_empty());
    seat.press("q");
    seat.ended();
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p05_who_may_not_deletes_nothing() {
    let bed = Bed::seeded("RegionOne", "--networks 2 --ports 3 --trunks 0 --groups 1");
    bed.refused("--cloud testbed --read-only", 6, &["read-only"]);
    // The first network is shared with demo: it is seen, and still not demo's.
    bed.refused("--cloud testbed-demo", 6, &[&bed.networks[0]]);

    // The second one does not exist for demo.
    let before = bed.holdings();
    let unseen = &bed.networks[1];
    let line = format!("--cloud testbed-demo delete network/{unseen} --cascade --yes --wait=2m");
    bed.gone(&line).ends_with(2).says(&[unseen]);
    assert_eq!(bed.holdings().0, before.0);

    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["auth"]["password"] = json!("not-the-password");
    });
    bed.refused("--cloud testbed", 3, &["testbed"]);
}

/// No service refuses to look for a word that is no id of its own, and every list can be filtered by names.
#[test]
#[ignore = "needs the test bed"]
fn testbed_what_no_cloud_has_is_not_found_whatever_kind_it_is_said_to_be() {
    let bed = Bed::small();
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let (mut asked, mut wrong) = (0, Vec::new());
    for kind in kinds.iter() {
        let target = format!("{}/nosuch-{}", kind.name, bed.name);
        let ran = bed.gone(&format!("--cloud testbed plan {target}"));
        asked += 1;
        if !ran.err.contains("with the id or name") {
            wrong.push(format!("{target}: {}", ran.err));
        }
    }
    assert!(asked > 70 && wrong.is_empty(), "{asked}: {wrong:#?}");
}
