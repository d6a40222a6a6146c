//! Story 2: the cascade of a network with many kinds of dependents, in one region and in two.

use serde_json::{Value, json};

use super::home::Home;
use super::session::Session;
use super::variation::{Variation, in_variations};

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/cascade.toml"
);

in_variations! { run_one_region,
    baseline fn story_2_n02_n03_n05_n06_a_cascade_shows_its_plan_waits_for_confirmation_and_ends_gone();
    slow_cloud fn story_2_n02_n03_n05_n06_a_cascade_shows_its_plan_and_ends_gone_on_a_slow_cloud();
    fast_cloud fn story_2_n02_n03_n05_n06_a_cascade_shows_its_plan_and_ends_gone_on_a_fast_cloud();
}

fn run_one_region(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud(SCENARIO);
    home.start_engine(&[]);
    let (name, other) = (variation.name("web"), variation.name("storage"));
    let web = cloud.id_of("networks", name);
    let storage = cloud.id_of("networks", other);
    let mut session = Session::start(&home, &[]);
    session.wait_for("1 of 1 sites reachable");

    session.open("network", "network 3");
    session.wait_for(other);
    session.press(&format!("/{name}"));
    session.wait_until("only web", |screen| !screen.contains(other));
    session.press("\r");
    session.press(" ");
    session.wait_for("1 marked");
    session.press("D");
    session.wait_for("▶ 8 steps · 4 automatic · 1 unset · 0 refused");
    check_plan(&home, &session, variation);
    session.press("G");
    session.wait_for_all(&[
        "stays, and loses a reference",
        "floating IP 203.0.113",
        "unset",
    ]);
    assert_eq!(cloud.writes(), Vec::<String>::new());

    session.open_confirmation();
    type_confirmation(&mut session, name, &web[web.len() - 8..]);
    assert_eq!(cloud.writes(), Vec::<String>::new());
    session.press("\r");
    session.wait_for_all(&["accepted as deletion", "── deletion", "/8"]);
    session.wait_for(&format!("✓ gone {} 8/8", variation.full_bar()));

    assert_eq!(cloud.status(&format!("/networks/{web}")), 404);
    assert_eq!(cloud.status(&format!("/networks/{storage}")), 200);
    let ports = cloud.all("ports");
    let left: Vec<&str> = ports
        .iter()
        .filter(|port| port["network_id"] == storage.as_str())
        .map(|port| port["name"].as_str().unwrap())
        .collect();
    assert_eq!(left, [variation.name("disk")]);
    let floating = cloud.all("floatingips");
    assert_eq!(floating.len(), 1);
    assert_eq!(floating[0]["port_id"], Value::Null);
    assert_eq!(cloud.all("trunks"), Vec::<Value>::new());
    let edge = &cloud.all("routers")[0];
    assert_eq!(edge["routes"], json!([]));
    // One call for each step; the call for the network is the last.
    let writes = cloud.writes();
    assert_eq!(writes.len(), 8, "{writes:?}");
    assert_eq!(writes[7], format!("DELETE /v2.0/networks/{web}"));
    session.quit();
}

/// Types a wrong name, which confirms nothing, and then the name. Does not press enter after the name.
fn type_confirmation(session: &mut Session, name: &str, short: &str) {
    session.wait_for_all(&[
        &format!("Delete network {name}"),
        &format!("Type the name \"{name}\" or the short id {short}"),
    ]);
    // The name with its last two letters swapped.
    let mut wrong: Vec<char> = name.chars().collect();
    let letters = wrong.len();
    wrong.swap(letters - 2, letters - 1);
    let wrong: String = wrong.into_iter().collect();
    session.press(&wrong);
    session.wait_for(&format!(">{wrong}"));
    session.press("\r");
    session.wait_for_all(&["That is not it. Type the name"]);
    session.press(&"\x7f".repeat(letters));
    session.press(name);
    session.wait_for(&format!(">{name}"));
}

/// Asserts that the plan in JSON has eight steps, with dependents before their dependencies, and that the screen shows
/// the steps.
fn check_plan(home: &Home, session: &Session, variation: &Variation) {
    let name = |written: &'static str| variation.name(written);
    let web = format!("network/{}", name("web"));
    let plan = home.json(&["plan", &web, "--cascade"]);
    let words = |item: &Value| {
        let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("action"), text("kind"), text("name"))
    };
    let steps = plan["steps"].as_array().unwrap();
    let mut named: Vec<String> = steps.iter().map(words).collect();
    let at = |does: &str, written: &'static str| {
        let words = match written {
            "" => does.to_owned(),
            written => format!("{does} {}", name(written)),
        };
        let found = named.iter().position(|step| step.starts_with(&words));
        found.unwrap_or_else(|| panic!("{words} in {named:?}"))
    };
    let trunk = at("delete trunk", "backup");
    for port in ["parent", "sub-a", "sub-b"] {
        assert!(trunk < at("delete port", port));
    }
    let interface = at("detach router_interface", "");
    assert!(at("delete port", "server") < interface);
    assert!(at("detach static_route", "") < interface);
    assert_eq!(at("delete network", "web"), 7);
    named.sort();
    assert_eq!(named.len(), 8, "{named:?}");
    let automatic = plan["automatic"].as_array().unwrap();
    let mut automatic: Vec<&str> = automatic
        .iter()
        .map(|a| a["kind"].as_str().unwrap())
        .collect();
    automatic.sort_unstable();
    assert_eq!(automatic, ["port", "subnet", "subport", "subport"]);

    let rows = session.rows_below("ORDER ").join("\n");
    let squeezed = rows.split_whitespace().collect::<Vec<_>>().join(" ");
    for (kind, written, does) in [
        ("port", "sub-a", "delete"),
        ("port", "sub-b", "delete"),
        ("network", "web", "delete"),
        ("port", "parent", "delete"),
        ("trunk", "backup", "delete"),
        ("port", "server", "delete"),
        ("static route", "edge", "detach"),
    ] {
        let row = format!("{kind} {} {does}", name(written));
        assert!(squeezed.contains(&row), "{row} in\n{rows}");
    }
}

/// The text of the scenario with its calls in two regions, and a load balancer on each network web.
fn two_regions() -> String {
    const BALANCER: &str = r#"
[[call]]
service = "load-balancer"
path = "/loadbalancers"
body.loadbalancer = { name = "front", vip_subnet_id = "${web_subnet}" }
"#;
    let text = std::fs::read_to_string(SCENARIO).unwrap();
    let (head, calls) = text.split_once("[[call]]").unwrap();
    let calls = format!("[[call]]{calls}{BALANCER}");
    let second = calls.replace("[[call]]", "[[call]]\nregion = \"RegionTwo\"");
    let head = head.replace("[\"RegionOne\"]", "[\"RegionOne\", \"RegionTwo\"]");
    format!("{head}{calls}{second}")
}

in_variations! { run_two_regions,
    baseline fn story_2_n04_one_deletion_deletes_two_networks_in_two_regions_with_their_balancers();
    slow_cloud fn story_2_n04_one_deletion_deletes_networks_and_balancers_of_two_regions_on_a_slow_cloud();
    fast_cloud fn story_2_n04_one_deletion_deletes_networks_and_balancers_of_two_regions_on_a_fast_cloud();
}

fn run_two_regions(variation: &Variation) {
    let mut home = Home::with(variation);
    let scenario = home.write("two-regions.toml", &two_regions());
    let cloud = home.serve_cloud(&scenario);
    home.start_engine(&["--all-regions"]);
    let regions = ["RegionOne", "RegionTwo"];
    let network = |region: &str| format!("{region}/network/v2.0");
    let balancers = |region: &str| {
        let service = format!("{region}/load-balancer/v2.0/lbaas");
        cloud.all_at(&service, "loadbalancers")
    };
    for region in regions {
        assert_eq!(balancers(region).len(), 1);
    }
    let mut session = Session::start(&home, &[]);
    session.wait_for("2 of 2 sites reachable");
    session.open("network", "network 6");
    session.wait_for(variation.name("storage"));
    session.press(&format!("/{}", variation.name("web")));
    session.wait_until("only web", |screen| {
        !screen.contains(variation.name("storage"))
    });
    session.press("\r");
    session.press(" ");
    session.wait_for("1 marked");
    session.press("j");
    session.press(" ");
    session.wait_for("2 marked");
    session.press("D");
    // Each region has the eight steps of the first test, and one for its balancer. The balancer's own port is
    // automatic.
    session.wait_for("▶ 18 steps · 10 automatic · 2 unset · 0 refused");
    assert_eq!(cloud.writes(), Vec::<String>::new());
    session.open_confirmation();
    session.wait_for_all(&[
        "Delete 2 marked resources",
        "how many resources were marked: 2",
    ]);
    session.press("2");
    session.wait_for(">2");
    session.press("\r");
    session.wait_for_all(&["accepted as deletion", "/18"]);
    session.wait_for(&format!("✓ gone {} 18/18", variation.full_bar()));

    let mut others = [variation.name("external"), variation.name("storage")];
    others.sort_unstable();
    for region in regions {
        let left = cloud.all_at(&network(region), "networks");
        let mut left: Vec<&str> = left.iter().map(|it| it["name"].as_str().unwrap()).collect();
        left.sort_unstable();
        assert_eq!(left, others, "{region}");
        assert_eq!(balancers(region), Vec::<Value>::new(), "{region}");
        let floating = cloud.all_at(&network(region), "floatingips");
        assert_eq!(floating.len(), 1, "{region}");
        assert_eq!(floating[0]["port_id"], Value::Null, "{region}");
    }
    // `show` counts the steps of each site.
    let id = home.only_deletion()["id"].as_str().unwrap().to_owned();
    let sites = home.json(&["show", &id])["sites"].clone();
    for (at, region) in regions.iter().enumerate() {
        assert_eq!(sites[at]["site"], format!("sandbox/{region}"));
        assert_eq!(sites[at]["counts"]["gone"], 9);
    }
    session.quit();
}
