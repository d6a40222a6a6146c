//! Two regions at once, on real Neutrons: networks that go together, and copies.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, clouds, wait_for};
use crate::gate::addresses;
use crate::proxy::Proxy;
use crate::seat::Seat;

/// A network with a subnet and a port.
fn network(local: &Api, project: &str, name: &str) -> String {
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

/// A network in the second region, as a local copies one of the first.
fn copy_of(local: &Api, project: &str, original: &str) -> String {
    let network = network(local, project, "copy");
    let tags = json!({ "tags": [format!("gone:copy-of={original}")] });
    local.call("PUT", &format!("networks/{network}/tags"), tags);
    network
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_t09_t14_copies_in_another_region_go_with_their_original_and_do_not_come_back() {
    let shape = "--networks 2 --ports 4 --trunks 0 --fips 0";
    let mut bed = Bed::seeded("RegionOne", shape);
    bed.also_in = vec![Api::new(&clouds(), "testbed", "RegionTwo")];
    let local = &bed.also_in[0];
    let held = || local.rows("networks", &format!("project_id={}", bed.project));
    let settings = "[engine]\nsweep = '1s'\n\
        [[mapping]]\ncentral = 'testbed/RegionOne'\nlocals = ['testbed/RegionTwo']\n";
    bed.configure(settings);
    let before = bed.holdings();
    let original = &bed.networks[0];
    let copy = copy_of(local, &bed.project, original);
    let other = copy_of(local, &bed.project, &bed.networks[1]);

    let target = format!("network/{original}@testbed/RegionOne");
    let plan = bed.gone(&format!("--all-regions plan {target} --cascade -o json"));
    let plan = plan.ends_with(0).json();
    assert_eq!(plan["refused"], json!([]));
    assert_eq!(plan["mapping"][0]["locals"][0]["copies"], json!([copy]));
    let delete = format!("--all-regions delete {target} --cascade --yes --wait=5m -o json");
    let done = bed.gone(&delete).ends_with(0).json();
    assert_eq!(done["state"], "gone");
    assert_eq!(bed.holdings().all_ids(), before.without(original));
    let left: Vec<String> = held().iter().map(|row| text(&row["id"])).collect();
    assert_eq!(left, std::slice::from_ref(&other));
    let shown = bed.gone(&format!("show {} -o json", text(&done["id"])));
    let sites = shown.ends_with(0).json()["sites"].clone();
    for (at, site) in ["testbed/RegionOne", "testbed/RegionTwo"]
        .iter()
        .enumerate()
    {
        assert_eq!(sites[at]["site"], *site);
        assert_eq!(sites[at]["counts"]["gone"], sites[at]["counts"]["total"]);
    }

    // It comes back around the engine.
    copy_of(local, &bed.project, original);
    let engine = bed.engine("--all-regions");
    wait_for("the copy's end", || held().len() == 1);
    assert_eq!(text(&held()[0]["id"]), other);
    drop(engine);
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_t05_t07_t12_a_region_that_is_done_gets_nothing_back_while_the_other_is_slow() {
    let shape = "--networks 2 --ports 4 --trunks 0 --fips 0";
    let mut bed = Bed::seeded("RegionOne", shape);
    let proxy = Proxy::before(&bed.api);
    bed.also_in = vec![Api::new(&clouds(), "testbed", "RegionTwo")];
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
    let region = &bed.also_in[0];
    copy_of(region, &bed.project, original);
    let held = || region.rows("networks", &format!("project_id={}", bed.project));
    proxy.fail(Method::DELETE, &format!("/networks/{original}"));

    let _engine = bed.engine("");
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
    wait_for("the region's own end", || held().is_empty());
    for slow in [true, false] {
        if !slow {
            proxy.recover();
            wait_for("the deletion's end", || {
                let shown = bed.gone(&format!("show {id} -o json"));
                shown.ends_with(0).json()["state"] == "gone"
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
    assert_eq!(held(), Vec::<Value>::new());
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_story_2_networks_of_two_regions_go_together_from_the_console() {
    let shape = "--networks 2 --ports 6 --trunks 1 --fips 1";
    let mut bed = Bed::seeded("RegionOne", shape);
    bed.also_in = vec![Api::new(&clouds(), "testbed", "RegionTwo")];
    let second = &bed.also_in[0];
    let name = format!("{}-net-0", bed.name);
    network(second, &bed.project, &name);
    let before = bed.holdings();
    let mut seat = Seat::take(&bed, &["--cloud", "testbed", "--all-regions"]);
    seat.see("reachable");
    seat.press(":network");
    seat.see(":network");
    seat.press("\r");
    seat.see("NAME");
    seat.press(&format!("/{name}"));
    seat.see(&format!("/{name}"));
    seat.press("\r");
    seat.quiet();
    for (marked, keys) in [("1 marked", " "), ("2 marked", "j ")] {
        seat.press(keys);
        seat.see(marked);
    }
    seat.press("D");
    seat.see("steps");
    assert_eq!(bed.holdings().0, before.0);
    seat.go_on();
    seat.see("how many resources were marked: 2");
    seat.press("2");
    seat.see(">2");
    seat.press("\r");
    let list = || {
        bed.gone("--cloud testbed --all-regions list -o json")
            .ends_with(0)
            .json()
    };
    wait_for("the deletion's end", || list()[0]["state"] == "gone");
    seat.press("q");
    seat.ended();
    assert_eq!(bed.holdings().all_ids(), before.without(&bed.networks[0]));
    let left = second.rows("networks", &format!("project_id={}", bed.project));
    assert_eq!(left, Vec::<Value>::new());
}
