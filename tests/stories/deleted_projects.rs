//! Story 19: three projects were deleted in Keystone, and their networks and default security groups still exist.

use serde_json::{Value, json};

use super::home::{BLOCKED, Cloud, Home, until};
use super::session::Session;
use super::variation::{Variation, in_variations};

in_variations! { run,
    baseline fn story_19_n19_projects_deleted_in_keystone_are_listed_and_emptied();
    slow_cloud fn story_19_n19_projects_deleted_in_keystone_are_listed_and_emptied_on_a_slow_cloud();
    fast_cloud fn story_19_n19_projects_deleted_in_keystone_are_listed_and_emptied_on_a_fast_cloud();
}

/// Creates a project with a network, a subnet, a port and the default group, and deletes the project in Keystone.
/// Returns its id.
fn create_deleted_project(cloud: &Cloud, name: &str) -> String {
    let create = |service: &str, path: &str, body: Value| {
        let (status, body) = cloud.call_at(service, "admin", "POST", path, body);
        assert_eq!(status, 201, "{body}");
        body
    };
    let network = "RegionOne/network/v2.0";
    let project = create("v3", "/projects", json!({"project": {"name": name}}));
    let project = project["project"]["id"].as_str().unwrap();
    let body = json!({"network": {"name": name, "project_id": project}});
    let id = create(network, "/networks", body)["network"]["id"].clone();
    let body = json!({"subnet": {"network_id": id, "ip_version": 4, "cidr": "10.4.0.0/24", "project_id": project}});
    create(network, "/subnets", body);
    let body = json!({"port": {"network_id": id, "project_id": project}});
    create(network, "/ports", body);
    let path = format!("/projects/{project}");
    let (status, body) = cloud.call_at("v3", "admin", "DELETE", &path, Value::Null);
    assert_eq!(status, 204, "{body}");
    project.to_owned()
}

const NOTHING: [usize; 4] = [0; 4];

/// Counts the networks, subnets, ports and security groups of the project. A list filtered by the project would make
/// Neutron re-create the default group.
fn count_resources(cloud: &Cloud, project: &str) -> [usize; 4] {
    ["networks", "subnets", "ports", "security-groups"].map(|collection| {
        let (_, body) = cloud.call("admin", "GET", &format!("/{collection}"), Value::Null);
        let rows = body[collection.replace('-', "_")].as_array().unwrap();
        rows.iter()
            .filter(|row| row["project_id"] == project)
            .count()
    })
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud(BLOCKED);
    let dead =
        ["crm", "hr", "erp"].map(|name| create_deleted_project(&cloud, variation.name(name)));
    home.start_engine(&[]);
    check_listed_counts(&home, &dead);

    // The console empties the first project and a command the second. Nobody deletes the third.
    let mut session = Session::start(&home, &[]);
    session.wait_for("1 of 1 sites");
    session.open("projects", "project");
    session.wait_for("Keystone does not know it any more");
    session.press(&format!("/{}\r", dead[0]));
    session.wait_for("1 of ");
    session.press("D");
    let short = &dead[0][dead[0].len() - 8..];
    session.wait_for(&format!("plan: delete project {short}"));
    session.open_confirmation();
    session.press(&format!("{short}\r"));
    until(
        "an emptied project",
        || session.text(),
        || (count_resources(&cloud, &dead[0]) == NOTHING).then_some(()),
    );
    let target = format!("project/{}", dead[1]);
    home.stdout_of(&["delete", &target, "--cascade", "--yes", "--wait=1m"]);
    assert_eq!(count_resources(&cloud, &dead[1]), NOTHING);

    assert_eq!(count_resources(&cloud, &dead[2]), [1, 1, 1, 1]);
    assert!(cloud.id_of("networks", variation.name("web")).len() > 1);
    let listed = home.json(&["list", "projects"]);
    let listed = listed.as_array().unwrap();
    let unknown: Vec<&Value> = listed.iter().filter(|it| is_unknown(it)).collect();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["id"], dead[2]);
    session.quit();
}

fn is_unknown(project: &Value) -> bool {
    project["attributes"]["unknown"] == true
}

fn check_listed_counts(home: &Home, dead: &[String]) {
    let listed = home.json(&["list", "projects"]);
    let listed = listed.as_array().unwrap();
    for id in dead {
        let project = listed.iter().find(|it| it["id"] == **id).unwrap();
        assert!(is_unknown(project), "{project}");
        let project = &project["attributes"];
        assert_eq!(project["counts"]["network"], 1, "{project}");
        assert_eq!(project["counts"]["security_group"], 1, "{project}");
        // The network, the group, the subnet and the port.
        assert_eq!(project["resources"], 4, "{project}");
    }
    let unknown = listed.iter().filter(|it| is_unknown(it));
    assert_eq!(unknown.count(), dead.len(), "{listed:?}");
}
