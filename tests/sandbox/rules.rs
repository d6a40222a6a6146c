//! Which calls a fault's rule matches, and how long limits delay answers.
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// Whether a rule hits a call.
fn hits(cloud: &mut Cloud, wanted: &Value, method: &str, path: &str) -> bool {
    let rule = json!([{"match": wanted, "action": {"status": 503}}]);
    cloud.control("PUT", "/faults", rule);
    cloud.call(method, path, json!({})).status == 503
}

#[test]
fn a_path_pattern_is_found_anywhere_with_stars_and_an_end() {
    let mut cloud = Cloud::new();
    for (pattern, fits) in [
        ("/v2.0/ports", true),
        ("/v2.0/ports$", false),
        ("/ports/*$", true),
        ("RegionOne*ports", true),
        ("ports*RegionOne", false),
        ("/123$", true),
    ] {
        let hit = hits(&mut cloud, &json!({"path": pattern}), "GET", "/ports/123");
        assert_eq!(hit, fits, "{pattern}");
    }
}

#[test]
fn a_kind_has_many_spellings() {
    let mut cloud = Cloud::new();
    for (kind, path, fits) in [
        ("floating_ip", "/floatingips", true),
        ("floatingips", "/floatingips", true),
        ("security-groups", "/security-groups", true),
        ("security_group", "/security-groups", true),
        ("rbac_policy", "/rbac-policies", true),
        ("rbac-policies", "/rbac-policies", true),
        ("port", "/ports", true),
        ("subport", "/ports", false),
    ] {
        let hit = hits(&mut cloud, &json!({"kind": kind}), "GET", path);
        assert_eq!(hit, fits, "{kind}");
    }
    for (kind, fits) in [("port", false), ("subport", true), ("trunk", true)] {
        let path = "/trunks/nosuch/add_subports";
        let hit = hits(&mut cloud, &json!({"kind": kind}), "PUT", path);
        assert_eq!(hit, fits, "{kind}");
    }
}

/// The delays in milliseconds of calls that arrive at these times.
fn delays(limits: Value, arrivals_ms: &[i64]) -> Vec<u128> {
    let mut cloud = Cloud::new();
    cloud.control("PUT", "/limits", limits);
    let mut at = 0;
    let mut delay = |arrival: &i64| {
        cloud.pass(arrival - at);
        at = *arrival;
        cloud.get("/networks").reply.delay.as_millis()
    };
    arrivals_ms.iter().map(&mut delay).collect()
}

#[test]
fn workers_serve_in_the_order_of_arrival() {
    let limits = json!({"latency_ms": 100, "parallel": 2});
    assert_eq!(
        delays(limits, &[0, 0, 0, 0, 50, 1000]),
        [100, 100, 200, 200, 250, 100]
    );
}

#[test]
fn calls_begin_no_faster_than_allowed() {
    let limits = json!({"per_second": 10.0});
    assert_eq!(delays(limits, &[0, 0, 0, 1000]), [0, 100, 200, 0]);
}

#[test]
fn without_limits_answers_leave_at_once() {
    assert_eq!(delays(json!({}), &[0, 0]), [0, 0]);
}
