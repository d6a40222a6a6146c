//! Deletions in two regions with real Neutrons: networks that are deleted together, and copies of a network.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, clouds, wait_for};
use crate::gate::addresses;
use crate::proxy::Proxy;
use crate::session::Session;

/// Creates a network with a subnet and a port. Returns its id.
fn create_network(local: &Api, project: &str, name: &str) -> String {
    let make = |collection: &str, item: &str, mut fields: Value| {
        fields["project_id"] = json!(project);
        let made = local.call("POST", collection, json!({ item: fields }));
        text(&made[item]["id"])
    };
    let network = make("networks", "network", json!({ "name": name }));
    let subnet = json!({ "network_id": network, "ip_version": 4, "cidr": "192.0.2.0/24" });
    make("subnets", "subnet", subnet);
    make("ports", "port", json!({ "network_id": network }));
    network
}

/// Creates a network in the second region, with the tag that marks it as the copy of a network of the first region.
fn create_copy(local: &Api, project: &str, original: &str) -> String {
    let network = create_network(local, project, "copy");
    let tags = json!({ "tags": [format!("gone:copy-of={original}")] });
    local.call("PUT", &format!("networks/{network}/tags"), tags);
    network
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_t09_t14_a_copy_is_deleted_with_its_original_and_again_when_recreated() {
    let shape = "--networks 2 --ports 4 --trunks 0 --fips 0";
    let mut bed = Bed::seeded("RegionOne", shape);
    bed.other_regions = vec![Api::new(&clouds(), "testbed", "RegionTwo")];
    let local = &bed.other_regions[0];
    let region_networks = || local.rows("networks", &format!("project_id={}", bed.project));
    let settings = "[engine]\nsweep = '1s'\n\
        [[mapping]]\ncentral = 'testbed/RegionOne'\nlocals = ['testbed/RegionTwo']\n";
    bed.configure(settings);
    let before = bed.holdings();
    let original = &bed.networks[0];
    let copy = create_copy(local, &bed.project, original);
    let other = create_copy(local, &bed.project, &bed.networks[1]);

    let target = format!("network/{original}@testbed/RegionOne");
    let plan = bed.gone(&format!("--all-regions plan {target} --cascade -o json"));
    let plan = plan.ok().json();
    assert_eq!(plan["refused"], json!([]));
    assert_eq!(plan["mapping"][0]["locals"][0]["copies"], json!([copy]));
    let delete = format!("--all-regions delete {target} --cascade --yes --wait=5m -o json");
    let done = bed.gone(&delete).ok().json();
    assert_eq!(done["state"], "gone");
    assert_eq!(bed.holdings().all_ids(), before.without(original));
    let left: Vec<String> = region_networks()
        .iter()
        .map(|row| text(&row["id"]))
        .collect();
    assert_eq!(left, std::slice::from_ref(&other));
    let shown = bed.gone(&format!("show {} -o json", text(&done["id"])));
    let sites = shown.ok().json()["sites"].clone();
    for (at, site) in ["testbed/RegionOne", "testbed/RegionTwo"]
        .iter()
        .enumerate()
    {
        assert_eq!(sites[at]["site"], *site);
        assert_eq!(sites[at]["counts"]["gone"], sites[at]["counts"]["total"]);
    }

    // Somebody re-creates the copy, and the sweep of an engine deletes it again.
    create_copy(local, &bed.project, original);
    let engine = bed.start_engine("--all-regions");
    wait_for("the copy's end", || region_networks().len() == 1);
    assert_eq!(text(&region_networks()[0]["id"]), other);
    drop(engine);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_t05_t07_t12_a_finished_region_reads_404_while_the_other_still_deletes() {
    let shape = "--networks 2 --ports 4 --trunks 0 --fips 0";
    let mut bed = Bed::seeded("RegionOne", shape);
    let proxy = Proxy::to_neutron(&bed.api);
    bed.other_regions = vec![Api::new(&clouds(), "testbed", "RegionTwo")];
    bed.change_clouds(|clouds| {
        let mut all = clouds["clouds"].take();
        all["testbed"]["network_endpoint_override"] = proxy.url.clone().into();
        clouds["clouds"] = json!({"slow": all["testbed"], "quick": all["testbed-region2"]});
    });
    let gate = |source| {
        format!(
            "[[gate]]\nlisten = '127.0.0.1:0'\nsource = '{source}'\n\
             upstream = {{ cloud = 'slow', region = 'RegionOne', service = 'network' }}\n"
        )
    };
    let mapping = "[[mapping]]\ncentral = 'slow/RegionOne'\nlocals = ['quick/RegionTwo']\n";
    let settings = format!("{mapping}{}{}", gate("user"), gate("local"));
    bed.configure(&settings);
    let original = &bed.networks[0];
    let region = &bed.other_regions[0];
    create_copy(region, &bed.project, original);
    let region_networks = || region.rows("networks", &format!("project_id={}", bed.project));
    proxy.fail(Method::DELETE, &format!("/networks/{original}"));

    let _engine = bed.start_engine("");
    wait_for("the gates", || addresses(&bed).len() == 2);
    let by = |gate: usize| {
        let mut api = Api::new(&clouds(), "testbed", "RegionOne");
        api.network_url = format!("http://{}/v2.0", addresses(&bed)[gate]);
        api
    };
    let (user, local) = (by(0), by(1));
    let read = format!("networks/{original}");
    let list = format!("networks?id={original}");
    let (status, shown) = local.answer("GET", &read, Value::Null);
    assert_eq!(status, 200, "{shown}");
    let (status, answer) = user.answer("DELETE", &format!("{read}?cascade=true"), Value::Null);
    assert_eq!(status, 202, "{answer}");
    let id = text(&answer["deletion"]["id"]);
    wait_for("the end of the copy", || region_networks().is_empty());
    for slow in [true, false] {
        if !slow {
            proxy.recover();
            wait_for("the deletion's end", || {
                let shown = bed.gone(&format!("show {id} -o json"));
                shown.ok().json()["state"] == "gone"
            });
        }
        let (status, shown) = local.answer("GET", &read, Value::Null);
        assert_eq!(status, 404, "{shown}");
        let (status, listed) = local.answer("GET", &list, Value::Null);
        assert_eq!((status, &listed["networks"]), (200, &json!([])));
        let (status, shown) = user.answer("GET", &read, Value::Null);
        match slow {
            true => assert_eq!(shown["network"]["status"], "DELETING", "{shown}"),
            false => assert_eq!(status, 404, "{shown}"),
        }
    }
    assert_eq!(region_networks(), Vec::<Value>::new());
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_2_the_console_deletes_networks_of_two_regions_in_one_deletion() {
    let shape = "--networks 2 --ports 6 --trunks 1 --fips 1";
    let mut bed = Bed::seeded("RegionOne", shape);
    bed.other_regions = vec![Api::new(&clouds(), "testbed", "RegionTwo")];
    let second = &bed.other_regions[0];
    let name = format!("{}-net-0", bed.name);
    create_network(second, &bed.project, &name);
    let before = bed.holdings();
    let mut session = Session::start(&bed, &["--cloud", "testbed", "--all-regions"]);
    session.wait_for("reachable");
    session.press(":network");
    session.wait_for(":network");
    session.press("\r");
    session.wait_for("NAME");
    session.press(&format!("/{name}"));
    session.wait_for(&format!("/{name}"));
    session.press("\r");
    session.wait_for_silence();
    for (marked, keys) in [("1 marked", " "), ("2 marked", "j ")] {
        session.press(keys);
        session.wait_for(marked);
    }
    session.press("D");
    session.wait_for("steps");
    assert_eq!(bed.holdings().0, before.0);
    session.open_confirmation();
    session.wait_for("how many resources were marked: 2");
    session.press("2");
    session.wait_for(">2");
    session.press("\r");
    let list = || {
        bed.gone("--cloud testbed --all-regions list -o json")
            .ok()
            .json()
    };
    wait_for("the deletion's end", || list()[0]["state"] == "gone");
    session.press("q");
    session.wait_for_exit();
    assert_eq!(bed.holdings().all_ids(), before.without(&bed.networks[0]));
    let left = second.rows("networks", &format!("project_id={}", bed.project));
    assert_eq!(left, Vec::<Value>::new());
}
