//! Names in place of ids, and regions where the width is short.

use gone::control::{ControlError, KindInfo, Page, Query, SiteListing, query};
use gone::domain::kinds::FieldMeanings;
use gone::domain::model::KindName;
use serde_json::json;

use super::fake::{Desk, World, fields, id, now, resource, site};

/// Two ports on a network with a name, one on another.
fn ports(may_list_networks: bool) -> World {
    let mut world = World::busy();
    let columns = [
        ("name", "name"),
        ("address", "fixed_ips[].ip_address"),
        ("network", "network_id"),
        ("project", "project_id"),
    ];
    world.kinds.push(KindInfo {
        name: KindName::new("port"),
        aliases: Vec::new(),
        columns: columns
            .iter()
            .map(|(heading, path)| ((*heading).to_owned(), (*path).to_owned()))
            .collect(),
        fields: fields(),
        has_dependents: true,
        is_counted: true,
    });
    world.answers = Some(Box::new(move |query| match query {
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
            Some(Ok(Page::Resources(vec![SiteListing {
                site: site("RegionOne"),
                rows,
                error: None,
                class: None,
                names: [("demo".to_owned(), "the shop".to_owned())].into(),
                at: now(),
            }])))
        }
        _ => None,
    }));
    world
}

#[test]
fn networks_and_projects_are_named_and_w_shows_their_ids() {
    for size in [(80, 24), (140, 40)] {
        let mut desk = Desk::new(ports(true), size);
        desk.press(":port enter");
        let text = desk.text();
        let row = |text: &str, name: &str| {
            let row = text.lines().find(|line| line.contains(name));
            row.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        assert!(row(&text, "port-11").contains(" web "), "{text}");
        assert!(row(&text, "port-11").contains("the shop"), "{text}");
        assert!(row(&text, "port-11").contains("10.0.0.5"), "{text}");
        // Nobody named this one.
        assert!(row(&text, "port-13").contains("0009"), "{text}");
        // The project's id is in the detail.
        assert!(text.contains("project the shop (demo)"), "{text}");
        desk.press("w");
        let text = desk.text();
        assert!(!row(&text, "port-11").contains(" web "), "{text}");
        assert!(row(&text, "port-11").contains("0001"), "{text}");
        desk.press("w /web enter");
        let text = desk.text();
        assert!(text.contains("port-12"), "{text}");
        assert!(!text.contains("port-13"), "found by the name: {text}");
    }
}

#[test]
fn a_plan_names_the_projects_of_its_steps_by_a_list_that_counts_nothing() {
    for size in [(80, 24), (140, 40)] {
        let mut world = World::busy();
        let mut demo = resource("project", 1, "the shop");
        demo.key.id = "demo".to_owned();
        world.projects = vec![demo];
        let mut desk = Desk::new(world, size);
        desk.press(":network enter D");
        let text = desk.text();
        assert!(text.contains("project the shop"), "{text}");
        let is_of_projects =
            |query: &&Query| matches!(query, Query::Resources(of) if of.kind == "project");
        let asked: Vec<_> = desk.asked.iter().filter(is_of_projects).collect();
        let [Query::Resources(of)] = asked[..] else {
            panic!("{asked:?}");
        };
        assert!(of.bare);
    }
}

/// An order of another provider, whose fields have other names.
fn orders() -> World {
    let mut world = World::empty();
    let columns = [("name", "name"), ("for", "buyer.ref"), ("team", "team")];
    world.kinds.push(KindInfo {
        name: KindName::new("order"),
        aliases: Vec::new(),
        columns: columns
            .map(|(heading, path)| (heading.to_owned(), path.to_owned()))
            .to_vec(),
        fields: FieldMeanings {
            project: Some("team".to_owned()),
            state: Some("phase".to_owned()),
            created: None,
            refers_to: [("buyer.ref".to_owned(), KindName::new("customer"))].into(),
        },
        has_dependents: false,
        is_counted: true,
    });
    world.answers = Some(Box::new(|query| match query {
        Query::Resources(query::Resources { kind, .. }) => {
            let row = match kind.as_str() {
                "order" => {
                    let mut order = resource("order", 11, "order-11");
                    order.attributes = json!({"buyer": {"ref": id(1)}, "phase": "SHIPPED"});
                    order
                }
                _ => resource("customer", 1, "Smith & Sons"),
            };
            Some(Ok(Page::Resources(vec![SiteListing {
                site: site("RegionOne"),
                rows: vec![row],
                error: None,
                class: None,
                names: [("demo".to_owned(), "the shop".to_owned())].into(),
                at: now(),
            }])))
        }
        _ => None,
    }));
    world
}

#[test]
fn names_are_found_by_what_the_kind_tells_of_its_fields() {
    for size in [(80, 24), (200, 60)] {
        let mut desk = Desk::new(orders(), size);
        desk.press(":order enter");
        let text = desk.text();
        assert!(text.contains("Smith & Sons"), "{text}");
        assert!(text.contains("the shop"), "{text}");
        desk.press("/state=shipped enter");
        assert!(desk.text().contains("order-11"), "{}", desk.text());
        desk.press("/state=new enter");
        assert!(!desk.text().contains("order-11"), "{}", desk.text());
    }
}

#[test]
fn whoever_may_not_list_networks_sees_ids_and_no_error() {
    let mut desk = Desk::new(ports(false), (80, 24));
    desk.press(":port enter");
    let text = desk.text();
    assert!(text.contains("port-11"), "{text}");
    assert!(!text.contains("not yours"), "{text}");
    assert!(
        !desk.state.wants_tick() || text.contains("just now"),
        "{text}"
    );
}

#[test]
fn names_are_asked_for_once() {
    let mut desk = Desk::new(ports(true), (80, 24));
    desk.press(":port enter");
    desk.pass(60);
    let networks = desk.asked.iter().filter(
        |query| matches!(query, Query::Resources(query::Resources { kind, .. }) if kind == "network"),
    );
    assert_eq!(networks.count(), 1);
}

#[test]
fn a_narrow_screen_shows_regions_before_clouds() {
    let mut desk = Desk::new(World::busy(), (40, 10));
    desk.press(":sites enter");
    let text = desk.text();
    for region in ["RegionOne", "RegionTwo"] {
        assert!(text.contains(region), "{text}");
    }
    let mut desk = Desk::new(World::busy(), (120, 24));
    desk.press(":sites enter");
    assert!(desk.text().contains("prod/RegionOne  "), "{}", desk.text());
}
