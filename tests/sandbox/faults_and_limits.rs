//! The conditions of fault rules, matched against calls, and the delays that limits cause.
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// Whether a rule with this condition matches a call.
fn matches(cloud: &mut Cloud, condition: &Value, method: &str, path: &str) -> bool {
    let rule = json!([{"match": condition, "action": {"status": 503}}]);
    cloud.control("PUT", "/faults", rule);
    cloud.call(method, path, json!({})).status == 503
}

#[test]
fn a_path_pattern_matches_anywhere_and_may_have_stars_and_an_end() {
    let mut cloud = Cloud::new();
    for (pattern, expected) in [
        ("/v2.0/ports", true),
        ("/v2.0/ports$", false),
        ("/ports/*$", true),
        ("RegionOne*ports", true),
        ("ports*RegionOne", false),
        ("/123$", true),
    ] {
        let matched = matches(&mut cloud, &json!({"path": pattern}), "GET", "/ports/123");
        assert_eq!(matched, expected, "{pattern}");
    }
}

#[test]
fn a_fault_matches_a_kind_in_each_of_its_spellings() {
    let mut cloud = Cloud::new();
    for (kind, path, expected) in [
        ("floating_ip", "/floatingips", true),
        ("floatingips", "/floatingips", true),
        ("security-groups", "/security-groups", true),
        ("security_group", "/security-groups", true),
        ("rbac_policy", "/rbac-policies", true),
        ("rbac-policies", "/rbac-policies", true),
        ("port", "/ports", true),
        ("subport", "/ports", false),
    ] {
        let matched = matches(&mut cloud, &json!({"kind": kind}), "GET", path);
        assert_eq!(matched, expected, "{kind}");
    }
    for (kind, expected) in [("port", false), ("subport", true), ("trunk", true)] {
        let path = "/trunks/nosuch/add_subports";
        let matched = matches(&mut cloud, &json!({"kind": kind}), "PUT", path);
        assert_eq!(matched, expected, "{kind}");
    }
}

/// The delays, in milliseconds, of the answers to calls that arrive at these times.
fn delays(limits: Value, arrivals_ms: &[i64]) -> Vec<u128> {
    let mut cloud = Cloud::new();
    cloud.control("PUT", "/limits", limits);
    let mut at = 0;
    let mut delay = |arrival: &i64| {
        cloud.advance(arrival - at);
        at = *arrival;
        cloud.get("/networks").reply.delay.as_millis()
    };
    arrivals_ms.iter().map(&mut delay).collect()
}

#[test]
fn the_limit_parallel_serves_calls_in_the_order_of_arrival() {
    let limits = json!({"latency_ms": 100, "parallel": 2});
    assert_eq!(
        delays(limits, &[0, 0, 0, 0, 50, 1000]),
        [100, 100, 200, 200, 250, 100]
    );
}

#[test]
fn the_limit_per_second_spaces_calls_evenly() {
    let limits = json!({"per_second": 10.0});
    assert_eq!(delays(limits, &[0, 0, 0, 1000]), [0, 100, 200, 0]);
}

#[test]
fn answers_have_no_delay_without_limits() {
    assert_eq!(delays(json!({}), &[0, 0]), [0, 0]);
}
