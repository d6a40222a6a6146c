//! Story 13, without the gate: an image with members, of which one was deleted before.

use serde_json::{Value, json};

use super::seat::Seat;
use super::stage::{Cloud, Stage};
use super::telling::Telling;

const GLANCE: &str = "RegionOne/image/v2";

fn glance(cloud: &Cloud, method: &str, path: &str, body: Value, expected: u16) -> Value {
    let (status, body) = cloud.call_at(GLANCE, "admin", method, path, body);
    assert_eq!(status, expected, "{method} {path}: {body}");
    body
}

/// A protected image, shared with three projects, of which one was taken off again.
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

#[test]
fn story_13_m01_a_protected_image_is_refused_and_an_unprotected_one_goes_with_its_members() {
    tell(&Telling::as_written());
}

#[test]
fn story_13_m01_a_protected_image_is_refused_and_another_goes_told_otherwise() {
    tell(&Telling::otherwise());
}

#[test]
fn story_13_m01_a_protected_image_is_refused_and_another_goes_told_at_leisure() {
    tell(&Telling::at_leisure());
}

fn tell(telling: &Telling) {
    let mut stage = Stage::of(telling);
    let cloud = stage.serve_cloud("quiet");
    let name = telling.name("golden");
    let (image, projects) = share(&cloud, name);
    let members = format!("/images/{image}/members");
    stage.start_engine(&[]);
    let mut seat = Seat::take(&stage, &[]);
    seat.see("1 of 1 sites reachable");
    seat.go("image", "image 1");
    seat.see(name);
    seat.press("D");
    // Two members are left; they go with it, and its protection stands in the way.
    seat.see_all(&["1 step · 2 automatic", "1 refused"]);
    seat.see_all(&["protected", "image member"]);
    seat.see("enter confirm…");
    seat.press("\r");
    seat.see("refused: its blockers must go first");
    assert_eq!(
        cloud
            .writes()
            .iter()
            .filter(|it| it.starts_with("DELETE"))
            .count(),
        1
    );
    seat.press("\x1b");
    seat.see("image 1");

    // The member that was deleted is added again, and deleted by itself: another incarnation.
    let again = json!({ "member": projects[0] });
    glance(&cloud, "POST", &members, again.clone(), 200);
    let target = format!("image_member/{image},{}", projects[0]);
    stage.say(&["delete", &target, "--yes", "--wait=1m"]);
    let record = || {
        let all = stage.json(&["list", "tombstones"]);
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
    stage.say(&["delete", &target, "--yes", "--wait=1m"]);
    let second = record();
    assert_eq!(second["record_id"], first["record_id"]);
    assert_eq!(second["incarnation"], 2);

    let free = json!([{ "op": "replace", "path": "/protected", "value": false }]);
    cloud.patch_image(&image, &free);
    seat.press("D");
    seat.see_all(&["1 step · 2 automatic", "0 refused"]);
    seat.go_on();
    seat.see("Type the name");
    seat.press(name);
    seat.see(&format!(">{name}"));
    seat.press("\r");
    seat.see(&format!("✓ gone {} 1/1", telling.full_bar()));
    glance(&cloud, "GET", &format!("/images/{image}"), Value::Null, 404);
    seat.press("q");
    seat.left();
}
