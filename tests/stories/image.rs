//! Story 13, without the gate: the deletion of an image with members, one of which was deleted before.

use serde_json::{Value, json};

use super::home::{Cloud, Home};
use super::session::Session;
use super::variation::{Variation, in_variations};

const GLANCE: &str = "RegionOne/image/v2";

/// Calls Glance, asserts the status, and returns the body.
fn glance(cloud: &Cloud, method: &str, path: &str, body: Value, expected: u16) -> Value {
    let (status, body) = cloud.call_at(GLANCE, "admin", method, path, body);
    assert_eq!(status, expected, "{method} {path}: {body}");
    body
}

/// Creates a protected image, shares it with three projects, and deletes the first member. Returns the id of the image
/// and the ids of the projects.
fn share(cloud: &Cloud, name: &str) -> (String, Vec<String>) {
    let image = json!({ "name": name, "protected": true, "visibility": "shared",
        "disk_format": "raw", "container_format": "bare" });
    let image = glance(cloud, "POST", "/images", image, 201)["id"].clone();
    let image = image.as_str().unwrap().to_owned();
    let members = format!("/images/{image}/members");
    let projects = vec![
        cloud.project_of("demo"),
        "11111111111111111111111111111111".to_owned(),
        "22222222222222222222222222222222".to_owned(),
    ];
    for project in &projects {
        glance(cloud, "POST", &members, json!({ "member": project }), 200);
    }
    let first = format!("{members}/{}", projects[0]);
    glance(cloud, "DELETE", &first, Value::Null, 204);
    (image, projects)
}

in_variations! { run,
    baseline fn story_13_m01_a_protected_image_is_refused_and_once_unprotected_deleted_with_its_members();
    slow_cloud fn story_13_m01_a_protected_image_is_refused_and_once_unprotected_deleted_on_a_slow_cloud();
    fast_cloud fn story_13_m01_a_protected_image_is_refused_and_once_unprotected_deleted_on_a_fast_cloud();
}

fn run(variation: &Variation) {
    let mut home = Home::with(variation);
    let cloud = home.serve_cloud("quiet");
    let name = variation.name("golden");
    let (image, projects) = share(&cloud, name);
    let members = format!("/images/{image}/members");
    home.start_engine(&[]);
    let mut session = Session::start(&home, &[]);
    session.wait_for("1 of 1 sites reachable");
    session.open("image", "image 1");
    session.wait_for(name);
    session.press("D");
    // The two remaining members are automatic steps, and the protection of the image blocks its deletion.
    session.wait_for_all(&["1 step · 2 automatic", "1 refused"]);
    session.wait_for_all(&["protected", "image member"]);
    session.wait_for("enter confirm…");
    session.press("\r");
    session.wait_for("refused: its blockers must go first");
    assert_eq!(
        cloud
            .writes()
            .iter()
            .filter(|it| it.starts_with("DELETE"))
            .count(),
        1
    );
    session.press("\x1b");
    session.wait_for("image 1");

    // The deleted member is added again and deleted without the image, twice: the second time as another incarnation of
    // its record.
    let again = json!({ "member": projects[0] });
    glance(&cloud, "POST", &members, again.clone(), 200);
    let target = format!("image_member/{image},{}", projects[0]);
    home.stdout_of(&["delete", &target, "--yes", "--wait=1m"]);
    let record = || {
        let all = home.json(&["list", "tombstones"]);
        let all = all.as_array().unwrap().clone();
        let found = all.into_iter().find(|it| it["kind"] == "image_member");
        found.unwrap()
    };
    let first = record();
    assert_eq!(
        (&first["incarnation"], &first["phase"]),
        (&json!(1), &json!("gone"))
    );
    glance(&cloud, "POST", &members, again, 200);
    home.stdout_of(&["delete", &target, "--yes", "--wait=1m"]);
    let second = record();
    assert_eq!(second["record_id"], first["record_id"]);
    assert_eq!(second["incarnation"], 2);

    let unprotect = json!([{ "op": "replace", "path": "/protected", "value": false }]);
    cloud.patch_image(&image, &unprotect);
    session.press("D");
    session.wait_for_all(&["1 step · 2 automatic", "0 refused"]);
    session.open_confirmation();
    session.wait_for("Type the name");
    session.press(name);
    session.wait_for(&format!(">{name}"));
    session.press("\r");
    session.wait_for(&format!("✓ gone {} 1/1", variation.full_bar()));
    glance(&cloud, "GET", &format!("/images/{image}"), Value::Null, 404);
    session.quit();
}
