//! Names in place of ids, and regions without their clouds on narrow screens.

use gone::control::{ControlError, KindInfo, Page, Query, SiteListing, query};
use gone::domain::kinds::FieldMeanings;
use gone::domain::model::{KindName, Resource};
use serde_json::json;

use super::fake::{TestConsole, World, id, kind, listing, project, resource};

/// A page of these rows, in which the project has a name.
fn named(rows: Vec<Resource>) -> Page {
    Page::Resources(vec![SiteListing {
        names: [("demo".to_owned(), "the shop".to_owned())].into(),
        ..listing("RegionOne", rows)
    }])
}

/// Two ports on network `web`, and one port on a network that is not listed.
fn ports(may_list_networks: bool) -> World {
    let mut world = World::busy();
    let columns = [
        ("name", "name"),
        ("address", "fixed_ips[].ip_address"),
        ("network", "network_id"),
        ("project", "project_id"),
    ];
    world.kinds.push(kind("port", &columns));
    world.override_answer = Some(Box::new(move |query| match query {
        Query::Resources(query::Resources { kind, .. }) => {
            let rows = match kind.as_str() {
                "port" => [(11, 1), (12, 1), (13, 9)]
                    .into_iter()
                    .map(|(n, network)| {
                        let mut port = resource("port", n, &format!("port-{n}"));
                        port.attributes["network_id"] = json!(id(network));
                        port.attributes["fixed_ips"] =
                            json!([{"ip_address": "10.0.0.5"}, {"ip_address": "fd00::5"}]);
                        port
                    })
                    .collect(),
                "network" if may_list_networks => vec![resource("network", 1, "web")],
                _ => {
                    return Some(Err(ControlError::Forbidden {
                        message: "not yours".to_owned(),
                    }));
                }
            };
            Some(Ok(named(rows)))
        }
        _ => None,
    }));
    world
}

#[test]
fn networks_and_projects_are_named_and_w_shows_their_ids() {
    for size in [(80, 24), (140, 40)] {
        let mut console = TestConsole::new(ports(true), size).after(":port enter");
        let row = console.line("port-11");
        for words in [" web ", "the shop", "10.0.0.5"] {
            assert!(row.contains(words), "{row}");
        }
        // The network of port-13 is not listed, so its id is shown.
        assert!(console.line("port-13").contains("0009"));
        // The detail also has the project's id.
        console.assert_shows(["project the shop (demo)"]);
        console.press("w");
        let row = console.line("port-11");
        assert!(!row.contains(" web ") && row.contains("0001"), "{row}");
        console.press("w /web enter");
        console.assert_shows(["port-12"]);
        // The filter matches the network's name.
        console.assert_hides(["port-13"]);
    }
}

#[test]
fn a_plan_names_the_projects_of_its_steps_from_one_bare_list() {
    for size in [(80, 24), (140, 40)] {
        let mut world = World::busy();
        world.projects = vec![project("demo", "the shop")];
        let console = TestConsole::new(world, size).after(":network enter D");
        console.assert_shows(["project the shop"]);
        let is_of_projects =
            |query: &&Query| matches!(query, Query::Resources(of) if of.kind == "project");
        let queries: Vec<_> = console.queries.iter().filter(is_of_projects).collect();
        let [Query::Resources(of)] = queries[..] else {
            panic!("{queries:?}");
        };
        assert!(of.bare);
    }
}

/// A world with a resource of the kind `order`, which is of another provider and whose fields have other names.
fn orders() -> World {
    let mut world = World::empty();
    let columns = [("name", "name"), ("for", "buyer.ref"), ("team", "team")];
    world.kinds.push(KindInfo {
        fields: FieldMeanings {
            project: Some("team".to_owned()),
            state: Some("phase".to_owned()),
            created: None,
            refers_to: [("buyer.ref".to_owned(), KindName::new("customer"))].into(),
        },
        has_dependents: false,
        ..kind("order", &columns)
    });
    world.override_answer = Some(Box::new(|query| match query {
        Query::Resources(query::Resources { kind, .. }) => {
            let row = match kind.as_str() {
                "order" => {
                    let mut order = resource("order", 11, "order-11");
                    order.attributes = json!({"buyer": {"ref": id(1)}, "phase": "SHIPPED"});
                    order
                }
                _ => resource("customer", 1, "Smith & Sons"),
            };
            Some(Ok(named(vec![row])))
        }
        _ => None,
    }));
    world
}

#[test]
fn names_are_found_by_the_field_meanings_of_the_kind() {
    for size in [(80, 24), (200, 60)] {
        let mut console = TestConsole::new(orders(), size).after(":order enter");
        console.assert_shows(["Smith & Sons", "the shop"]);
        console.press("/state=shipped enter");
        console.assert_shows(["order-11"]);
        console.press("/state=new enter");
        console.assert_hides(["order-11"]);
    }
}

#[test]
fn ports_are_listed_without_an_error_for_a_user_who_may_not_list_networks() {
    let console = TestConsole::new(ports(false), (80, 24)).after(":port enter");
    console.assert_shows(["port-11"]);
    console.assert_hides(["not yours"]);
    if console.state.wants_tick() {
        console.assert_shows(["just now"]);
    }
}

#[test]
fn network_names_are_queried_once() {
    let mut console = TestConsole::new(ports(true), (80, 24)).after(":port enter");
    console.advance(60);
    let is_of_networks = |it: &Query| matches!(it, Query::Resources(it) if it.kind == "network");
    assert_eq!(console.count(is_of_networks), 1);
}

#[test]
fn a_narrow_screen_shows_the_regions_of_sites_and_a_wide_one_their_clouds_too() {
    let console = TestConsole::new(World::busy(), (40, 10)).after(":sites enter");
    console.assert_shows(["RegionOne", "RegionTwo"]);
    let console = TestConsole::new(World::busy(), (120, 24)).after(":sites enter");
    console.assert_shows(["prod/RegionOne  "]);
}
