//! Story 19: Keystone has forgotten three projects whose networks and default groups are still there.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage, until};
use super::telling::Telling;

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/stories/scenarios/blocked.toml"
);

#[test]
fn story_19_n19_projects_that_keystone_has_forgotten_are_found_and_emptied() {
    tell(&Telling::as_written());
}

#[test]
fn story_19_n19_projects_that_keystone_has_forgotten_are_found_and_emptied_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_19_n19_projects_that_keystone_has_forgotten_are_found_and_emptied_told_at_leisure() {
    tell(&Telling::at_leisure());
}

/// A project with a network, a subnet, a port and the default group; then Keystone forgets it.
fn forgotten(cloud: &Cloud, name: &str) -> String {
    let made = |service: &str, path: &str, body: Value| {
        let (status, body) = cloud.call_at(service, "admin", "POST", path, body);
        assert_eq!(status, 201, "{body}");
        body
    };
    let network = "RegionOne/network/v2.0";
    let project = made("v3", "/projects", json!({"project": {"name": name}}));
    let project = project["project"]["id"].as_str().unwrap();
    let body = json!({"network": {"name": name, "project_id": project}});
    let of = made(network, "/networks", body)["network"]["id"].clone();
    let body = json!({"subnet": {"network_id": of, "ip_version": 4, "cidr": "10.4.0.0/24", "project_id": project}});
    made(network, "/subnets", body);
    let body = json!({"port": {"network_id": of, "project_id": project}});
    made(network, "/ports", body);
    let path = format!("/projects/{project}");
    let (status, body) = cloud.call_at("v3", "admin", "DELETE", &path, Value::Null);
    assert_eq!(status, 204, "{body}");
    project.to_owned()
}

const NOTHING: [usize; 4] = [0; 4];

/// How many networks, subnets, ports and security groups the project has. A list that is asked for by
/// project would make its default group anew.
fn holdings(cloud: &Cloud, project: &str) -> [usize; 4] {
    ["networks", "subnets", "ports", "security-groups"].map(|collection| {
        let (_, body) = cloud.call("admin", "GET", &format!("/{collection}"), Value::Null);
        let rows = body[collection.replace('-', "_")].as_array().unwrap();
        rows.iter()
            .filter(|row| row["project_id"] == project)
            .count()
    })
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud(SCENARIO);
    let dead = ["crm", "hr", "erp"].map(|name| forgotten(&cloud, telling.name(name)));
    stage.start_engine(&[]);
    are_listed_with_counts(&stage, &dead);

    // One goes from the console, one by a command; nobody asked for the third.
    let mut seat = Seat::take(&stage, &[]);
    seat.see("1 of 1 sites");
    seat.go("projects", "project");
    seat.see("Keystone does not know it any more");
    seat.press(&format!("/{}\r", dead[0]));
    seat.see("1 of ");
    seat.press("D");
    let short = &dead[0][dead[0].len() - 8..];
    seat.see(&format!("plan: delete project {short}"));
    seat.go_on();
    seat.press(&format!("{short}\r"));
    until(
        "an empty project",
        || seat.text(),
        || (holdings(&cloud, &dead[0]) == NOTHING).then_some(()),
    );
    let target = format!("project/{}", dead[1]);
    stage.say(&["delete", &target, "--cascade", "--yes", "--wait=1m"]);
    assert_eq!(holdings(&cloud, &dead[1]), NOTHING);

    assert_eq!(holdings(&cloud, &dead[2]), [1, 1, 1, 1]);
    assert!(cloud.id_of("networks", telling.name("web")).len() > 1);
    let listed = stage.json(&["list", "projects"]);
    let listed = listed.as_array().unwrap();
    let unknown: Vec<&Value> = listed.iter().filter(|it| is_unknown(it)).collect();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["id"], dead[2]);
    seat.press("q");
    seat.left();
}

fn is_unknown(project: &Value) -> bool {
    project["attributes"]["unknown"] == true
}

fn are_listed_with_counts(stage: &Stage, dead: &[String]) {
    let listed = stage.json(&["list", "projects"]);
    let listed = listed.as_array().unwrap();
    for id in dead {
        let project = listed.iter().find(|it| it["id"] == **id).unwrap();
        assert!(is_unknown(project), "{project}");
        let project = &project["attributes"];
        assert_eq!(project["counts"]["network"], 1, "{project}");
        assert_eq!(project["counts"]["security_group"], 1, "{project}");
        // The subnet and the port, too.
        assert_eq!(project["resources"], 4, "{project}");
    }
    let unknown = listed.iter().filter(|it| is_unknown(it));
    assert_eq!(unknown.count(), dead.len(), "{listed:?}");
}
