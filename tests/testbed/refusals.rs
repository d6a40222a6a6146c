//! Refused deletions: their exit codes, the blockers that they name, and that they change nothing.
use serde_json::json;

use crate::api::text;
use crate::bed::{Bed, wait_for};
use crate::session::Session;

const SMALL: &str = "--networks 1 --ports 3 --trunks 0 --groups 1";

impl Bed {
    /// Asserts that `gone delete` of the first network ends with this code and words, and changes nothing in Neutron.
    fn assert_refused(&self, options: &str, code: i32, words: &[&str]) {
        let before = self.holdings();
        let name = &self.networks[0];
        let line = format!("{options} delete network/{name} --cascade --yes --wait=2m -o json");
        self.gone(&line).ends_with(code).says(words);
        assert_eq!(self.holdings().0, before.0);
    }

    /// Creates a floating IP of the project demo on a port of the first network. Returns its id and address.
    fn create_foreign_floating_ip(&mut self) -> (String, String) {
        let external = "router:external=true&name=external";
        let external = text(&self.api.rows("networks", external)[0]["id"]);
        let compute = format!("network_id={}&device_owner=compute:nova", self.networks[0]);
        let port = &self.api.rows("ports", &compute)[0]["id"];
        let floating_ip = json!({"floating_network_id": external, "port_id": port});
        let made = self.create_foreign("floatingips", "floatingip", floating_ip);
        (text(&made["id"]), text(&made["floating_ip_address"]))
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p01_a_port_renamed_after_the_plan_ends_with_7_and_nothing_is_deleted() {
    let bed = Bed::seeded("RegionOne", SMALL);
    let network = &bed.networks[0];
    let plan = format!("--cloud testbed plan network/{network} --cascade --out p.json");
    bed.gone(&plan).ok();
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
fn testbed_p04_a_deletion_refused_for_another_projects_port_names_that_port() {
    let mut bed = Bed::seeded("RegionOne", SMALL);
    let port = json!({"network_id": bed.networks[0], "name": "somebody-elses"});
    let port = bed.create_foreign("ports", "port", port);
    bed.assert_refused(
        "--cloud testbed",
        6,
        &[&text(&port["id"]), "somebody-elses"],
    );
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p04_a_deletion_refused_for_another_projects_floating_ip_names_that_address() {
    let mut bed = Bed::seeded(
        "RegionOne",
        "--networks 1 --ports 3 --trunks 0 --groups 1 --fips 0",
    );
    let (id, address) = bed.create_foreign_floating_ip();
    bed.assert_refused("--cloud testbed", 6, &[&id, &address]);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_3_p02_a_foreign_floating_ip_is_explained_and_its_deletion_ends_the_block() {
    let shape = "--networks 1 --ports 3 --trunks 0 --groups 1 --fips 0";
    let mut bed = Bed::seeded("RegionOne", shape);
    let (id, address) = bed.create_foreign_floating_ip();
    let _engine = bed.start_engine("--cloud testbed");
    let name = format!("{}-net-0", bed.name);
    let line = format!("--cloud testbed delete network/{name} --cascade --yes -o json");
    bed.gone(&line).ok();
    let mut session = Session::start(&bed, &["--cloud", "testbed"]);
    session.wait_for("1 refused");
    session.press(":stuck");
    session.wait_for(":stuck");
    session.press("\r");
    session.wait_for("stuck 1");
    session.wait_for_silence();
    session.press("b");
    session.wait_for(&format!(
        "blocked by floating IP {address} (project demo, not in this plan)"
    ));
    session.wait_for(&format!("id {id}"));

    bed.api.delete_all("floatingips", [id]);
    session.press("\x1b");
    session.wait_for("stuck 1");
    session.wait_for_silence();
    session.press("r");
    let project_networks = || {
        bed.api
            .rows("networks", &format!("project_id={}", bed.project))
    };
    wait_for("the network's end", || project_networks().is_empty());
    session.press("q");
    session.wait_for_exit();
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_p05_read_only_runs_and_logins_without_rights_delete_nothing() {
    let bed = Bed::seeded("RegionOne", "--networks 2 --ports 3 --trunks 0 --groups 1");
    bed.assert_refused("--cloud testbed --read-only", 6, &["read-only"]);
    // The first network is shared with demo, which sees it but does not own it.
    bed.assert_refused("--cloud testbed-demo", 6, &[&bed.networks[0]]);

    // The second network is invisible to demo.
    let before = bed.holdings();
    let unseen = &bed.networks[1];
    let line = format!("--cloud testbed-demo delete network/{unseen} --cascade --yes --wait=2m");
    bed.gone(&line).ends_with(2).says(&[unseen]);
    assert_eq!(bed.holdings().0, before.0);

    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["auth"]["password"] = json!("not-the-password");
    });
    bed.assert_refused("--cloud testbed", 3, &["testbed"]);
}

/// A name that is no valid id of a service must not make a request fail: every list can be searched by name.
#[test]
#[ignore = "needs the test bed"]
fn testbed_an_unknown_name_is_reported_as_not_found_for_every_kind() {
    let bed = Bed::small();
    let kinds = gone::cloud::load_kinds(&[]).unwrap();
    let (mut requests, mut wrong) = (0, Vec::new());
    for kind in kinds.iter() {
        let target = format!("{}/nosuch-{}", kind.name, bed.name);
        let ran = bed.gone(&format!("--cloud testbed plan {target}"));
        requests += 1;
        if !ran.err.contains("with the id or name") {
            wrong.push(format!("{target}: {}", ran.err));
        }
    }
    assert!(requests > 70 && wrong.is_empty(), "{requests}: {wrong:#?}");
}
