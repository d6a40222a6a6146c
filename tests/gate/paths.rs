//! The resources that a request's path and body name.

use gone::domain::model::KindName;
use gone::frontends::gate::body::{parse, referred};
use gone::frontends::gate::route::{Ambiguous, Named, PathTarget, Routes};
use serde_json::{Value, json};

fn named(kind: &str, id: &str) -> Named {
    Named {
        kind: KindName::new(kind),
        id: id.to_owned(),
    }
}

fn resource(kind: &str, id: &str) -> Result<PathTarget, Ambiguous> {
    Ok(PathTarget::Resource {
        named: named(kind, id),
        parent: None,
    })
}

fn collection(kind: &str) -> Result<PathTarget, Ambiguous> {
    Ok(PathTarget::Collection {
        kind: KindName::new(kind),
        parent: None,
    })
}

fn routes(service: &str, root: &str) -> Routes {
    Routes::new(&gone::cloud::load_kinds(&[]).unwrap(), service, root)
}

#[test]
fn t11_each_path_of_each_service_names_its_resource() {
    let network = routes("network", "/RegionOne/network");
    let image = routes("image", "");
    let balancer = routes("load-balancer", "");
    let compute = routes("compute", "/compute");
    let storage = routes("block-storage", "");
    let below = |kind, id| Ok(PathTarget::Below(named(kind, id)));
    let member = PathTarget::Resource {
        named: named("image_member", "i,p"),
        parent: Some(named("image", "i")),
    };
    let members = PathTarget::Collection {
        kind: KindName::new("image_member"),
        parent: Some(named("image", "i")),
    };
    let elsewhere = || Ok(PathTarget::Elsewhere);
    let check = |routes: &Routes, root: &str, rows: &[(&str, Result<PathTarget, Ambiguous>)]| {
        for (path, expected) in rows {
            let path = format!("{root}{path}");
            assert_eq!(routes.target_of(&path), *expected, "{path}");
        }
    };
    let network_rows = [
        ("/v2.0/networks", collection("network")),
        ("/v2.0/networks/", collection("network")),
        ("/v2.0/networks/n", resource("network", "n")),
        ("/v2.0/networks/n/tags", below("network", "n")),
        ("/v2.0/routers/r/add_router_interface", below("router", "r")),
        ("/v2.0/qos/policies/q", resource("qos_policy", "q")),
        (
            "/v2.0/qos/policies/q/bandwidth_limit_rules/b",
            below("qos_policy", "q"),
        ),
        ("/v2.0/agents", elsewhere()),
        ("/", elsewhere()),
    ];
    check(&network, "/RegionOne/network", &network_rows);
    let rootless_rows = [("/v2.0/networks/n", elsewhere()), ("/", elsewhere())];
    check(&network, "", &rootless_rows);
    let image_rows = [
        ("/v2/images/i", resource("image", "i")),
        ("/v2/images/i/file", below("image", "i")),
        ("/v2/images/i/members", Ok(members)),
        ("/v2/images/i/members/p", Ok(member)),
    ];
    check(&image, "", &image_rows);
    let balancer_rows = [
        (
            "/v2.0/lbaas/loadbalancers/b",
            resource("load_balancer", "b"),
        ),
        ("/v2/lbaas/loadbalancers/b", resource("load_balancer", "b")),
        ("/v2.0/lbaas/pools/p/members", below("pool", "p")),
    ];
    check(&balancer, "", &balancer_rows);
    let compute_rows = [
        ("/v2.1/servers", collection("server")),
        ("/v2.1/servers/detail", collection("server")),
        ("/v2.1/servers/s", resource("server", "s")),
        ("/v2/0af-1/servers/s", resource("server", "s")),
        ("/v2.1/servers/s/action", below("server", "s")),
        (
            "/v2.1/0af-1/os-server-groups/g",
            resource("server_group", "g"),
        ),
        ("/v2.1/flavors/f", elsewhere()),
        ("/v2.1/demo/servers/s", elsewhere()),
    ];
    check(&compute, "/compute", &compute_rows);
    let storage_rows = [
        ("/v3/0af1/volumes/detail", collection("volume")),
        ("/v3/volumes/v", resource("volume", "v")),
        ("/v3/volumes/v/metadata", below("volume", "v")),
        (
            "/v3/0af1/volume-transfers/detail",
            collection("volume_transfer"),
        ),
        (
            "/v3/volume-transfers/t/accept",
            below("volume_transfer", "t"),
        ),
    ];
    check(&storage, "", &storage_rows);
}

#[test]
fn a_path_with_two_readings_is_ambiguous() {
    let routes = routes("network", "");
    for path in [
        "/v2.0//networks/n",
        "/v2.0/networks//",
        "/v2.0/./networks/n",
        "/v2.0/x/../networks/n",
        "/v2.0/x/%2e%2e/networks/n",
        "/v2.0/networks/n%2ftags",
        "/v2.0/networks/n%5C",
        "/v2.0/networks/n%00",
        "/v2.0/networks/%ff",
        "//v2.0/networks/n",
        "v2.0/networks/n",
        "",
    ] {
        assert_eq!(routes.target_of(path), Err(Ambiguous), "{path}");
    }
}

#[test]
fn t22_an_id_a_collection_and_an_action_have_one_spelling() {
    let network = routes("network", "/RegionOne/network");
    let image = routes("image", "");
    let balancer = routes("load-balancer", "");
    for (routes, root, collection, action) in [
        (
            &network,
            "/RegionOne/network",
            "/v2.0/networks",
            "/v2.0/routers/r/add_router_interface",
        ),
        (
            &network,
            "/RegionOne/network",
            "/v2.0/qos/policies",
            "/v2.0/trunks/t/add_subports",
        ),
        (&image, "", "/v2/images", "/v2/images/i/members"),
        (
            &balancer,
            "",
            "/v2.0/lbaas/loadbalancers",
            "/v2/lbaas/pools/p/members/m",
        ),
    ] {
        let (collection, action) = (format!("{root}{collection}"), format!("{root}{action}"));
        assert!(routes.target_of(&collection).is_ok() && routes.target_of(&action).is_ok());
        for suffix in [
            ".json", ".JSON", ".Json", "%2ejson", ".xml", ".txt", "%20", "%C3%A1", "A", "%61",
        ] {
            let spelled = format!("{collection}/0a{suffix}");
            assert_eq!(routes.target_of(&spelled), Err(Ambiguous), "{spelled}");
            // Paths below such an id are ambiguous, too.
            let below = format!("{spelled}/tags");
            assert_eq!(routes.target_of(&below), Err(Ambiguous), "{below}");
        }
        for suffix in [".json", ".JSON", "%2eJson", ".html", "%20"] {
            let listed = format!("{collection}{suffix}");
            assert_eq!(routes.target_of(&listed), Err(Ambiguous), "{listed}");
        }
        let (front, last) = collection.rsplit_once('/').unwrap();
        let upper = format!("{front}/{}/0a", last.to_uppercase());
        assert_eq!(routes.target_of(&upper), Err(Ambiguous), "{upper}");
        let encoded = format!("{front}/%{:02x}{}", last.as_bytes()[0], &last[1..]);
        assert_eq!(routes.target_of(&encoded), Err(Ambiguous), "{encoded}");
    }
    let suffixed = "/RegionOne/network/v2.0/routers/r/add_extraroutes.json";
    assert_eq!(network.target_of(suffixed), Err(Ambiguous));
    // Tags, namespaces and the ids of resources without a kind are free text.
    for (routes, path) in [
        (
            &network,
            "/RegionOne/network/v2.0/networks/n/tags/Web%20%C3%A1.json",
        ),
        (&network, "/RegionOne/network/v2.0/quotas/Default"),
        (&image, "/v2/images/i/tags/v1.2"),
        (&image, "/v2/metadefs/namespaces/OS::Compute::Libvirt"),
        (&image, "/v2/schemas/image"),
        (
            &network,
            "/RegionOne/network/v2.0/extensions/address-group.json",
        ),
    ] {
        assert!(routes.target_of(path).is_ok(), "{path}");
    }
}

#[test]
fn t22_a_service_has_a_closed_list_of_methods() {
    for (service, patch) in [
        ("network", false),
        ("load-balancer", false),
        ("image", true),
    ] {
        let routes = routes(service, "");
        let takes = |method: &str| routes.takes(&method.parse().unwrap());
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            assert!(takes(method), "{service} {method}");
            assert!(!takes(&method.to_lowercase()), "{service} {method}");
        }
        assert_eq!(takes("PATCH"), patch, "{service}");
        for method in ["OPTIONS", "TRACE", "CONNECT", "FOO", "PROPFIND"] {
            assert!(!takes(method), "{service} {method}");
        }
        assert!(routes.allow().contains("DELETE, GET"), "{}", routes.allow());
    }
}

#[test]
fn t17_references_are_found_in_a_body_at_any_depth() {
    let network = routes("network", "");
    let found = |body| referred(&network, &body);
    let port = json!({"port": {"network_id": "N", "fixed_ips": [{"subnet_id": "S", "ip_address": "10.0.0.9"}],
        "security_groups": ["G", "H"], "name": "T", "device_id": ""}});
    assert_eq!(
        found(port.clone()),
        [
            named("network", "N"),
            named("security_group", "G"),
            named("security_group", "H"),
            named("subnet", "S"),
        ]
    );
    let bulk = json!({"ports": [{"network_id": "A"}, port["port"]]});
    assert!(found(bulk).contains(&named("network", "A")));
    for (body, kind, id) in [
        (json!({"subnet_id": "S"}), "subnet", "S"),
        (json!({"sub_ports": [{"port_id": "P"}]}), "port", "P"),
        (
            json!({"router": {"external_gateway_info": {"network_id": "N"}}}),
            "network",
            "N",
        ),
        (
            json!({"floatingip": {"floating_network_id": "N"}}),
            "network",
            "N",
        ),
        (json!({"floatingip": {"port_id": "P"}}), "port", "P"),
        (
            json!({"security_group_rule": {"remote_group_id": "G"}}),
            "security_group",
            "G",
        ),
        (
            json!({"rbac_policy": {"object_id": "Q", "object_type": "qos_policy"}}),
            "qos_policy",
            "Q",
        ),
        (
            json!({"loadbalancer": {"vip_subnet_id": "S", "listeners": [{"default_pool_id": "P"}]}}),
            "pool",
            "P",
        ),
        (json!({"loadbalancer": {"vip_port_id": "P"}}), "port", "P"),
    ] {
        let names = named(kind, id);
        assert!(
            found(body.clone()).contains(&names),
            "{body} names {names:?}"
        );
    }
    for (field, kind) in [
        ("network_id", "network"),
        ("vip_network_id", "network"),
        ("subnetpool_id", "subnet_pool"),
        ("address_scope_id", "address_scope"),
        ("segment_id", "segment"),
        ("qos_policy_id", "qos_policy"),
        ("remote_address_group_id", "address_group"),
        ("security_group_id", "security_group"),
        ("router_id", "router"),
        ("trunk_id", "trunk"),
        ("loadbalancer_id", "load_balancer"),
        ("load_balancer_id", "load_balancer"),
        ("listener_id", "listener"),
        ("pool_id", "pool"),
        ("redirect_pool_id", "pool"),
        ("vip_qos_policy_id", "qos_policy"),
    ] {
        let names = named(kind, "X");
        assert!(
            found(json!({ "it": { field: "X" } })).contains(&names),
            "{field}"
        );
    }
    assert_eq!(found(json!({"network": {"name": "n", "tags": ["t"]}})), []);
}

#[test]
fn json_with_a_duplicate_key_is_rejected() {
    for text in [
        r#"{"port": {"network_id": "a", "network_id": "b"}}"#,
        r#"{"port": {}, "port": {}}"#,
        r#"{"ports": [{"a": 1, "\u0061": 2}]}"#,
    ] {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("is given twice"), "{error}");
    }
    assert!(parse(b"{} {}").is_err());
    assert!(parse(b"{\"a\": NaN}").is_err());
    let whole = json!({"a": [1, -2, 0.5, true, null, "x", {"b": {}}]});
    assert_eq!(parse(whole.to_string().as_bytes()).unwrap(), whole);
}

#[test]
fn m06_the_natural_keys_that_a_call_creates_are_read_from_its_path_and_body() {
    let network = routes("network", "/RegionOne/network");
    let image = routes("image", "");
    let check = |routes: &Routes, method: &str, path: &str, body: Value, expected: &[&str]| {
        let creates = routes.creates(&method.parse().unwrap(), path);
        let found = creates.iter().flat_map(|it| it.named(&body));
        let found: Vec<String> = found.map(|it| format!("{} {}", it.kind, it.id)).collect();
        assert_eq!(found, expected, "{method} {path} {body}");
    };
    let members = "/v2/images/i/members";
    let member = || json!({"member": "p"});
    check(&image, "POST", members, member(), &["image_member i,p"]);
    check(&image, "POST", members, json!({"member": null}), &[]);
    check(&image, "GET", members, member(), &[]);
    check(&image, "POST", "/v2/images/i/members/p", member(), &[]);
    check(
        &image,
        "POST",
        "/v2/images/i/actions/deactivate",
        json!(null),
        &[],
    );
    let put = |path: &str, body: Value, expected: &[&str]| {
        check(
            &network,
            "PUT",
            &format!("/RegionOne/network/v2.0{path}"),
            body,
            expected,
        );
    };
    let edge = "/routers/r/add_router_interface";
    put(edge, json!({"subnet_id": "s"}), &["router_interface r,s"]);
    put(edge, json!({"port_id": "p"}), &[]);
    let two = json!({"router": {"routes": [
        {"destination": "10.0.0.0/8", "nexthop": "1.1.1.1"},
        {"destination": "10.0.0.0/8"},
        {"destination": "::/0", "nexthop": "fe80::1"},
    ]}});
    for path in ["/routers/r/add_extraroutes", "/routers/r"] {
        let routes = [
            "static_route r,10.0.0.0/8,1.1.1.1",
            "static_route r,::/0,fe80::1",
        ];
        put(path, two.clone(), &routes);
    }
    put("/routers/r", json!({"router": {"routes": null}}), &[]);
    let subports = json!({"sub_ports": [{"port_id": "a"}, {"port_id": "b"}]});
    put(
        "/trunks/t/add_subports",
        subports,
        &["subport t,a", "subport t,b"],
    );
    let port = json!({"port": {"network_id": "n"}});
    check(&network, "POST", "/RegionOne/network/v2.0/ports", port, &[]);
}
