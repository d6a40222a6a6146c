//! Proxies that cloud operators put before Neutron: a limit of calls a second, and links of pages to an unreachable
//! host.
use std::collections::BTreeSet;
use std::time::Instant;

use crate::api::text;
use crate::bed::Bed;
use crate::proxy::Proxy;

/// The limit applies to Neutron, which has most of the resources.
#[test]
#[ignore = "needs the test bed"]
fn testbed_n16_a_hundred_resources_are_deleted_behind_a_limit_of_ten_calls_a_second() {
    let shape = "--networks 4 --ports 20 --trunks 2 --fips 2 --groups 3";
    let bed = Bed::seeded("RegionOne", shape);
    let proxy = Proxy::to_neutron(&bed.api);
    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["network_endpoint_override"] = proxy.url.clone().into();
    });
    proxy.limit(10.0);
    let line = format!(
        "--cloud testbed delete project/{} --cascade --yes --wait=10m -o json",
        bed.name
    );
    let began = Instant::now();
    let done = bed.gone(&line).ok().json();
    let took = began.elapsed().as_secs_f64();
    let (passed, refused) = (proxy.passed_calls(), proxy.failed_calls());
    println!("{passed} calls in {took:.1} s, {refused} more refused");
    assert!(done["counts"]["total"].as_u64().unwrap() >= 100, "{done}");
    assert_eq!(done["counts"]["gone"], done["counts"]["total"]);
    for step in done["steps"].as_array().unwrap() {
        assert_eq!(step["attempts"], 0, "{step}");
    }
    assert!(refused * 10 <= passed + refused, "{refused} of {passed}");
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_pages_with_links_to_another_host_are_read_from_the_configured_endpoint() {
    let bed = Bed::seeded("RegionOne", "--networks 1 --ports 12");
    let listed = || {
        let list = "--cloud testbed list port -o json";
        let rows = bed.gone(list).ok().json();
        let ids = rows.as_array().unwrap().iter().map(|it| text(&it["id"]));
        ids.collect::<BTreeSet<String>>()
    };
    let before = listed();
    assert!(before.len() >= 12, "{before:?}");
    let proxy = Proxy::to_neutron(&bed.api);
    proxy.hide_upstream("controller.internal:9696", 3);
    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["network_endpoint_override"] = proxy.url.clone().into();
    });
    let in_pages = listed();
    // Compares only the ports of this project, because other tests create and delete ports at the same time.
    let own = bed
        .api
        .rows("ports", &format!("project_id={}", bed.project));
    let own: BTreeSet<String> = own.iter().map(|it| text(&it["id"])).collect();
    assert_eq!(
        before.intersection(&own).collect::<Vec<_>>(),
        in_pages.intersection(&own).collect::<Vec<_>>()
    );
    // Each page of three rows was read through the proxy.
    assert!(proxy.passed_calls() * 3 >= 12, "{}", proxy.passed_calls());
    let line = format!(
        "--cloud testbed delete network/{} --cascade --yes --wait=2m",
        bed.networks[0]
    );
    bed.gone(&line).ok();
}
