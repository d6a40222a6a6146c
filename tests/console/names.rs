//! Names in place of ids, and regions without their clouds on narrow screens.

use gone::control::{ControlError, KindInfo, Page, Query, SiteListing, query};
use gone::domain::kinds::FieldMeanings;
use gone::domain::model::KindName;
use serde_json::json;

use super::fake::{TestConsole, World, fields, id, now, resource, site};

/// Two ports on a network that has a name, and one port on a network without one.
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
        let mut console = TestConsole::new(ports(true), size);
        console.press(":port enter");
        let text = console.text();
        let row = |text: &str, name: &str| {
            let row = text.lines().find(|line| line.contains(name));
            row.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        assert!(row(&text, "port-11").contains(" web "), "{text}");
        assert!(row(&text, "port-11").contains("the shop"), "{text}");
        assert!(row(&text, "port-11").contains("10.0.0.5"), "{text}");
        // The network of port-13 is not listed, so its id is shown.
        assert!(row(&text, "port-13").contains("0009"), "{text}");
        // The detail also has the project's id.
        assert!(text.contains("project the shop (demo)"), "{text}");
        console.press("w");
        let text = console.text();
        assert!(!row(&text, "port-11").contains(" web "), "{text}");
        assert!(row(&text, "port-11").contains("0001"), "{text}");
        console.press("w /web enter");
        let text = console.text();
        assert!(text.contains("port-12"), "{text}");
        assert!(
            !text.contains("port-13"),
            "the filter matches the network's name: {text}"
        );
    }
}

#[test]
fn a_plan_names_the_projects_of_its_steps_from_one_bare_list() {
    for size in [(80, 24), (140, 40)] {
        let mut world = World::busy();
        let mut demo = resource("project", 1, "the shop");
        demo.key.id = "demo".to_owned();
        world.projects = vec![demo];
        let mut console = TestConsole::new(world, size);
        console.press(":network enter D");
        let text = console.text();
        assert!(text.contains("project the shop"), "{text}");
        let is_of_projects =
            |query: &&Query| matches!(query, Query::Resources(of) if of.kind == "project");
        let queries: Vec<_> = console.queries.iter().filter(is_of_projects).collect();
        let [Query::Resources(of)] = queries[..] else {
            panic!("{queries:?}");
        };
        assert!(of.bare);
    }
}

/// An order, a kind of another provider, whose fields have other names.
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
fn names_are_found_by_the_field_meanings_of_the_kind() {
    for size in [(80, 24), (200, 60)] {
        let mut console = TestConsole::new(orders(), size);
        console.press(":order enter");
        let text = console.text();
        assert!(text.contains("Smith & Sons"), "{text}");
        assert!(text.contains("the shop"), "{text}");
        console.press("/state=shipped enter");
        assert!(console.text().contains("order-11"), "{}", console.text());
        console.press("/state=new enter");
        assert!(!console.text().contains("order-11"), "{}", console.text());
    }
}

#[test]
fn ports_are_listed_without_an_error_for_a_user_who_may_not_list_networks() {
    let mut console = TestConsole::new(ports(false), (80, 24));
    console.press(":port enter");
    let text = console.text();
    assert!(text.contains("port-11"), "{text}");
    assert!(!text.contains("not yours"), "{text}");
    assert!(
        !console.state.wants_tick() || text.contains("just now"),
        "{text}"
    );
}

#[test]
fn network_names_are_queried_once() {
    let mut console = TestConsole::new(ports(true), (80, 24));
    console.press(":port enter");
    console.advance(60);
    let networks = console.queries.iter().filter(
        |query| matches!(query, Query::Resources(query::Resources { kind, .. }) if kind == "network"),
    );
    assert_eq!(networks.count(), 1);
}

#[test]
fn a_narrow_screen_shows_regions_before_clouds() {
    let mut console = TestConsole::new(World::busy(), (40, 10));
    console.press(":sites enter");
    let text = console.text();
    for region in ["RegionOne", "RegionTwo"] {
        assert!(text.contains(region), "{text}");
    }
    let mut console = TestConsole::new(World::busy(), (120, 24));
    console.press(":sites enter");
    assert!(
        console.text().contains("prod/RegionOne  "),
        "{}",
        console.text()
    );
}
