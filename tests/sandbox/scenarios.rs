//! The built-in scenarios, and the errors of invalid scenario files.
use gone::sandbox::{Scenario, World, WorldOptions};
use http::Method;
use serde_json::{Value, json};

use crate::cloud::Cloud;

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

fn id_of(cloud: &mut Cloud, collection: &str, name: &str) -> String {
    let found = cloud.get(&format!("/{collection}?name={name}")).body;
    found[collection][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn every_built_in_scenario_creates_networks_and_logs_no_calls_of_its_own() {
    for name in Scenario::built_in() {
        let mut cloud = Cloud::with_scenario(name);
        let networks = cloud.get("/networks").body;
        assert!(!names(&networks["networks"]).is_empty(), "{name}");
        let calls = cloud.control("GET", "/calls", Value::Null);
        // The test's two logins and its list; the calls of the scenario itself are not logged.
        assert_eq!(calls["calls"].as_array().unwrap().len(), 3, "{name}");
    }
    assert_eq!(
        Scenario::load("default").unwrap().description,
        Scenario::load("practice").unwrap().description
    );
}

#[test]
fn scenario_practice_has_routes_a_trunk_a_floating_ip_slow_answers_and_two_regions() {
    let mut cloud = Cloud::with_scenario("practice");
    let ports = cloud.get("/ports").body["ports"].as_array().unwrap().len();
    assert!((50..=70).contains(&ports), "{ports}");

    let web = id_of(&mut cloud, "networks", "web");
    let storage = id_of(&mut cloud, "networks", "storage");
    let edge = cloud.get("/routers?name=edge").body;
    assert_eq!(edge["routers"][0]["routes"][0]["nexthop"], "10.10.0.250");
    let trunk = cloud.get("/trunks?name=backup").body;
    let subports = trunk["trunks"][0]["sub_ports"].as_array().unwrap();
    assert_eq!(subports.len(), 2);
    for sub in subports {
        let port = cloud
            .get(&format!("/ports/{}", sub["port_id"].as_str().unwrap()))
            .body;
        assert_eq!(port["port"]["network_id"], storage.as_str());
    }
    let floating = cloud.get("/floatingips").body;
    let port = floating["floatingips"][0]["port_id"].as_str().unwrap();
    let port = cloud.get(&format!("/ports/{port}")).body;
    assert_eq!(port["port"]["network_id"], web.as_str());
    let got = cloud.get("/networks");
    assert_eq!(got.reply.delay.as_millis() % 350, 0);
    assert!(got.reply.delay.as_millis() >= 350);

    let token = cloud.log_in("admin", "secret").unwrap();
    let second = cloud.send(
        Method::GET,
        "/RegionTwo/network/v2.0/networks",
        Some(&token),
        None,
        &[],
    );
    let networks = second.body["networks"].as_array().unwrap().len();
    assert_eq!(networks, 5, "the networks of the seed, and render-farm");
}

#[test]
fn scenario_practice_removes_the_legacy_router_interface_at_the_fourth_attempt() {
    let mut cloud = Cloud::with_scenario("practice");
    let router = id_of(&mut cloud, "routers", "legacy");
    let subnet = id_of(&mut cloud, "subnets", "legacy");
    let path = format!("/routers/{router}/remove_router_interface");
    for _ in 0..3 {
        let got = cloud.call("PUT", &path, json!({"subnet_id": subnet}));
        assert_eq!(
            (got.status, got.error_type()),
            (409, "RouterInterfaceInUseByFloatingIP")
        );
        let message = got.body["NeutronError"]["message"].as_str().unwrap();
        assert!(
            message.contains(&subnet) && message.contains(&router),
            "{message}"
        );
    }
    assert_eq!(
        cloud
            .call("PUT", &path, json!({"subnet_id": subnet}))
            .status,
        200
    );
}

#[test]
fn scenario_resurrection_revives_the_network_phoenix_twice() {
    let mut cloud = Cloud::with_scenario("resurrection");
    let phoenix = id_of(&mut cloud, "networks", "phoenix");
    let path = format!("/networks/{phoenix}");
    let ports = cloud
        .get(&format!(
            "/ports?network_id={phoenix}&device_owner=compute:nova"
        ))
        .body;
    for port in ports["ports"].as_array().unwrap() {
        let got = cloud.delete(&format!("/ports/{}", port["id"].as_str().unwrap()));
        assert_eq!(got.status, 204);
    }
    for _ in 0..2 {
        assert_eq!(cloud.delete(&path).status, 204);
        assert_eq!(cloud.get(&path).status, 404);
        cloud.advance(1_500);
        assert_eq!(cloud.get(&path).status, 200);
    }
    assert_eq!(cloud.delete(&path).status, 204);
    cloud.advance(60_000);
    assert_eq!(cloud.get(&path).status, 404);
}

#[test]
fn scenario_hostile_lists_control_characters_and_long_names_unchanged() {
    let mut cloud = Cloud::with_scenario("hostile");
    let networks = cloud.get("/networks").body;
    let names = names(&networks["networks"]);
    for part in [
        "\u{1b}]2;",
        "\r",
        "\u{202e}",
        "\u{200b}",
        "\u{1f468}\u{200d}\u{1f469}",
        "\u{9b}",
    ] {
        assert!(names.iter().any(|name| name.contains(part)), "{part:?}");
    }
    let wide = names.iter().map(|name| name.chars().count()).max();
    assert_eq!(wide, Some(255));
}

/// The error of a scenario file with this text.
fn error_of(text: &str) -> String {
    let scenario = match Scenario::parse("test", text) {
        Ok(scenario) => scenario,
        Err(error) => return error.to_string(),
    };
    let mut world = World::new(WorldOptions {
        regions: scenario.regions.clone(),
        ..WorldOptions::default()
    });
    world
        .apply(&scenario, chrono::DateTime::UNIX_EPOCH)
        .unwrap_err()
        .to_string()
}

#[test]
fn an_invalid_scenario_is_refused_and_the_error_names_the_field() {
    let head = "description = \"\"\nregions = [\"A\"]\n";
    for (text, field) in [
        ("colour = 1", "colour"),
        ("[[seed]]\nnetwroks = 1", "netwroks"),
        ("[[seed]]\nnetworks = 1\ntrunks = \"x\"", "seed[0].trunks"),
        ("[[seed]]\nproject = \"nobody\"", "seed[0].project"),
        (
            "[[call]]\npath = \"/networks\"\nbody.network.nosuch = 1",
            "nosuch",
        ),
        ("[[call]]\npath = \"/networks/${nosuch}\"", "nosuch"),
        ("[[call]]\nas = \"nobody\"\npath = \"/networks\"", "as"),
        ("[[limits]]\nper_second = -1.0", "limits[0].per_second"),
        (
            "[[past]]\nminutes_ago = 5\nby = \"ada\"\nkind = \"network\"",
            "past[0]",
        ),
        ("[[past]]\nminutes_ago = -5", "past[0].minutes_ago"),
        (
            "[[faults]]\naction = { stauts = 1 }",
            "faults[0].action.stauts",
        ),
    ] {
        let problem = error_of(&format!("{head}{text}"));
        assert!(problem.contains(field), "{field} in {problem}");
    }
    assert!(error_of("description = \"\"\nregions = []").contains("regions"));
    let unknown = Scenario::load("/nosuch/file").unwrap_err().to_string();
    assert!(unknown.contains("practice"), "{unknown}");
}

#[test]
fn a_scenario_applies_to_a_cloud_that_has_only_one_of_its_regions() {
    let scenario = Scenario::load("practice").unwrap();
    let mut cloud = Cloud::with_options(WorldOptions {
        regions: vec!["RegionOne".to_owned()],
        ..WorldOptions::default()
    });
    cloud.world.apply(&scenario, cloud.now).unwrap();
    let networks = |cloud: &mut Cloud| {
        let listed = cloud.get("/networks?fields=name").body;
        let names = listed["networks"].as_array().unwrap().iter();
        let mut names: Vec<String> = names.map(|row| row["name"].to_string()).collect();
        names.sort();
        names
    };
    let found = networks(&mut cloud);
    assert!(found.len() > 3, "{found:?}");
    assert_eq!(found, networks(&mut Cloud::with_scenario("practice")));
}

#[test]
fn scenario_outage_refuses_500_port_deletes_with_403_400_and_404_each_and_then_deletes() {
    let mut cloud = Cloud::with_scenario("outage");
    let ports = cloud.get("/ports?device_owner=").body;
    let ids: Vec<String> = ports["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["id"].as_str().unwrap().to_owned())
        .collect();
    let mut delete = |id: &String| cloud.delete(&format!("/ports/{id}")).status;
    let expected = [(500, 403), (500, 400), (500, 404), (10, 204)];
    let mut cycle = ids.iter().cycle();
    for (count, status) in expected {
        for id in cycle.by_ref().take(count) {
            assert_eq!(delete(id), status);
        }
    }
}

#[test]
fn scenario_giant_has_a_hundred_thousand_ports_on_two_networks() {
    let mut cloud = Cloud::with_scenario("giant");
    let networks = cloud.get("/networks").body;
    let networks = networks["networks"].as_array().unwrap();
    assert_eq!(networks.len(), 2);
    for network in networks {
        let path = format!(
            "/ports?fields=id&network_id={}",
            network["id"].as_str().unwrap()
        );
        let got = cloud.get(&path).body;
        let ports = got["ports"].as_array().unwrap_or_else(|| panic!("{got}"));
        assert!(ports.len() >= 50_000, "{}", ports.len());
    }
}

#[test]
fn scenario_morning_creates_the_networks_that_its_past_deletions_delete() {
    let mut cloud = Cloud::with_scenario("morning");
    let networks = cloud.get("/networks").body;
    let names = names(&networks["networks"]);
    let past = Scenario::load("morning").unwrap().past;
    assert_eq!(past.len(), 5);
    for deletion in past {
        assert!(names.contains(&deletion.name.as_str()), "{}", deletion.name);
    }
}
