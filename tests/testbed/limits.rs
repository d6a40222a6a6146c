//! A provider's limit of calls a second.
use std::time::Instant;

use crate::bed::Bed;
use crate::proxy::Proxy;

/// The proxy stands before Neutron, which has most of them.
#[test]
fn testbed_n16_a_project_of_a_hundred_resources_goes_behind_a_limit_of_ten_calls_a_second() {
    let shape = "--networks 4 --ports 20 --trunks 2 --fips 2 --groups 3";
    let Some(bed) = Bed::seeded("RegionOne", shape) else {
        return;
    };
    let proxy = Proxy::before(&bed.api);
    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["network_endpoint_override"] = proxy.url.clone().into();
    });
    proxy.limit(10.0);
    let line = format!(
        "--cloud testbed delete project/{} --cascade --yes --wait=10m -o json",
        bed.name
    );
    let began = Instant::now();
    let done = bed.gone(&line).ends_with(0).json();
    let took = began.elapsed().as_secs_f64();
    let (passed, refused) = (proxy.passed(), proxy.failed());
    println!("{passed} calls in {took:.1} s, {refused} more refused");
    assert!(done["counts"]["total"].as_u64().unwrap() >= 100, "{done}");
    assert_eq!(done["counts"]["gone"], done["counts"]["total"]);
    for step in done["steps"].as_array().unwrap() {
        assert_eq!(step["attempts"], 0, "{step}");
    }
    assert!(refused * 10 <= passed + refused, "{refused} of {passed}");
}
