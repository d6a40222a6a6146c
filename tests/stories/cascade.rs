//! Story 2: a network with all that a cascade has to deal with, in one region and in two.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::Stage;
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/cascade.toml"
);

#[test]
fn story_2_n02_n03_n05_n06_a_cascade_shows_its_plan_sends_nothing_before_and_ends_gone() {
    tell_of_one_region(&Telling::as_written());
}

#[test]
fn story_2_n02_n03_n05_n06_a_cascade_shows_its_plan_and_ends_gone_told_otherwise() {
    tell_of_one_region(&Telling::otherwise());
}

#[test]
fn story_2_n02_n03_n05_n06_a_cascade_shows_its_plan_and_ends_gone_told_at_leisure() {
    tell_of_one_region(&Telling::at_leisure());
}

fn tell_of_one_region(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud(SCENARIO);
    stage.start_engine(&[]);
    let (name, other) = (telling.name("web"), telling.name("storage"));
    let web = cloud.id_of("networks", name);
    let storage = cloud.id_of("networks", other);
    let mut seat = Seat::take(&stage, &[]);
    seat.see("1 of 1 sites reachable");

    seat.go("network", "network 3");
    seat.see(other);
    seat.press(&format!("/{name}"));
    seat.wait("only web", |screen| !screen.contains(other));
    seat.press("\r");
    seat.press(" ");
    seat.see("1 marked");
    seat.press("D");
    seat.see("▶ 8 steps · 4 automatic · 1 unset · 0 refused");
    plan_is_exact(&stage, &seat, telling);
    seat.press("G");
    seat.see_all(&[
        "stays, and loses a reference",
        "floating IP 203.0.113",
        "unset",
    ]);
    assert_eq!(cloud.writes(), Vec::<String>::new());

    seat.go_on();
    confirm(&mut seat, name, &web[web.len() - 8..]);
    assert_eq!(cloud.writes(), Vec::<String>::new());
    seat.press("\r");
    seat.see_all(&["accepted as deletion", "── deletion", "/8"]);
    seat.see(&format!("✓ gone {} 8/8", telling.full_bar()));

    assert_eq!(cloud.status(&format!("/networks/{web}")), 404);
    assert_eq!(cloud.status(&format!("/networks/{storage}")), 200);
    let ports = cloud.all("ports");
    let left: Vec<&str> = ports
        .iter()
        .filter(|port| port["network_id"] == storage.as_str())
        .map(|port| port["name"].as_str().unwrap())
        .collect();
    assert_eq!(left, [telling.name("disk")]);
    let floating = cloud.all("floatingips");
    assert_eq!(floating.len(), 1);
    assert_eq!(floating[0]["port_id"], Value::Null);
    assert_eq!(cloud.all("trunks"), Vec::<Value>::new());
    let edge = &cloud.all("routers")[0];
    assert_eq!(edge["routes"], json!([]));
    // One call for each step, and the network's the last.
    let writes = cloud.writes();
    assert_eq!(writes.len(), 8, "{writes:?}");
    assert_eq!(writes[7], format!("DELETE /v2.0/networks/{web}"));
    seat.press("q");
    seat.left();
}

/// Types a wrong name, which confirms nothing, and then the name; the last enter is not pressed.
fn confirm(seat: &mut Seat, name: &str, short: &str) {
    seat.see_all(&[
        &format!("Delete network {name}"),
        &format!("Type the name \"{name}\" or the short id {short}"),
    ]);
    // All its letters, the last two the wrong way round.
    let mut wrong: Vec<char> = name.chars().collect();
    let letters = wrong.len();
    wrong.swap(letters - 2, letters - 1);
    let wrong: String = wrong.into_iter().collect();
    seat.press(&wrong);
    seat.see(&format!(">{wrong}"));
    seat.press("\r");
    seat.see_all(&["That is not it. Type the name"]);
    seat.press(&"\x7f".repeat(letters));
    seat.press(name);
    seat.see(&format!(">{name}"));
}

/// Each step once, what must go first before what waits for it; on the screen as on paper.
fn plan_is_exact(stage: &Stage, seat: &Seat, telling: &Telling) {
    let name = |written: &'static str| telling.name(written);
    let web = format!("network/{}", name("web"));
    let plan = stage.json(&["plan", &web, "--cascade"]);
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

    let rows = seat.rows_below("ORDER ").join("\n");
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

/// The same in two regions, each with a balancer on the network.
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

#[test]
fn story_2_n04_two_networks_in_two_regions_go_together_with_their_balancers() {
    tell_of_two_regions(&Telling::as_written());
}

#[test]
fn story_2_n04_two_networks_in_two_regions_go_together_with_their_balancers_told_otherwise() {
    tell_of_two_regions(&Telling::otherwise());
}

#[test]
fn story_2_n04_two_networks_in_two_regions_go_together_with_their_balancers_told_at_leisure() {
    tell_of_two_regions(&Telling::at_leisure());
}

fn tell_of_two_regions(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let scenario = stage.write("two-regions.toml", &two_regions());
    let cloud = stage.serve_cloud(&scenario);
    stage.start_engine(&["--all-regions"]);
    let regions = ["RegionOne", "RegionTwo"];
    let network = |region: &str| format!("{region}/network/v2.0");
    let balancers = |region: &str| {
        let service = format!("{region}/load-balancer/v2.0/lbaas");
        cloud.all_at(&service, "loadbalancers")
    };
    for region in regions {
        assert_eq!(balancers(region).len(), 1);
    }
    let mut seat = Seat::take(&stage, &[]);
    seat.see("2 of 2 sites reachable");
    seat.go("network", "network 6");
    seat.see(telling.name("storage"));
    seat.press(&format!("/{}", telling.name("web")));
    seat.wait("only web", |screen| {
        !screen.contains(telling.name("storage"))
    });
    seat.press("\r");
    seat.press(" ");
    seat.see("1 marked");
    seat.press("j");
    seat.press(" ");
    seat.see("2 marked");
    seat.press("D");
    // Each region as in one, and its balancer; the balancer's own port goes by itself.
    seat.see("▶ 18 steps · 10 automatic · 2 unset · 0 refused");
    assert_eq!(cloud.writes(), Vec::<String>::new());
    seat.go_on();
    seat.see_all(&[
        "Delete 2 marked resources",
        "how many resources were marked: 2",
    ]);
    seat.press("2");
    seat.see(">2");
    seat.press("\r");
    seat.see_all(&["accepted as deletion", "/18"]);
    seat.see(&format!("✓ gone {} 18/18", telling.full_bar()));

    let mut others = [telling.name("external"), telling.name("storage")];
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
    // `show` tells how far it is at each.
    let id = stage.only_deletion()["id"].as_str().unwrap().to_owned();
    let sites = stage.json(&["show", &id])["sites"].clone();
    for (at, region) in regions.iter().enumerate() {
        assert_eq!(sites[at]["site"], format!("sandbox/{region}"));
        assert_eq!(sites[at]["counts"]["gone"], 9);
    }
    seat.press("q");
    seat.left();
}
