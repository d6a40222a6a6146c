//! Glance of the practice cloud, in cases that a test cannot cause in a real service: faults, seeds, and a database in
//! which deleted members cannot be added again. Also its versions.
use gone::sandbox::WorldOptions;
use http::Method;
use serde_json::{Value, json};

use crate::cloud::{Cloud, ParsedReply};

/// A cloud, and a token of its admin.
struct Images {
    cloud: Cloud,
    token: String,
}

impl Images {
    fn new() -> Self {
        Self::with_options(WorldOptions::default())
    }

    fn with_options(options: WorldOptions) -> Self {
        let mut cloud = Cloud::with_options(options);
        let token = cloud.log_in("admin", "secret").unwrap();
        Self { cloud, token }
    }

    fn call(&mut self, method: &str, path: &str, body: &Value) -> ParsedReply {
        self.call_accepting("application/json", method, path, body)
    }

    fn call_accepting(
        &mut self,
        accept: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> ParsedReply {
        let path = format!("/RegionOne/image/v2{path}");
        let method: Method = method.parse().unwrap();
        let body = Some(body).filter(|body| !body.is_null());
        let token = Some(self.token.as_str());
        self.cloud
            .send(method, &path, token, body, &[("accept", accept)])
    }

    fn get(&mut self, path: &str) -> ParsedReply {
        self.call("GET", path, &Value::Null)
    }

    fn delete(&mut self, path: &str) -> u16 {
        self.call("DELETE", path, &Value::Null).status
    }

    fn add(&mut self, image: &str, member: &str) -> ParsedReply {
        let path = format!("/images/{image}/members");
        self.call("POST", &path, &json!({"member": member}))
    }

    /// Creates an image with the members `a` and `b`, and returns its id.
    fn shared(&mut self) -> String {
        let made = self.call("POST", "/images", &json!({"name": "shared", "os": "linux"}));
        let id = made.body["id"].as_str().unwrap().to_owned();
        for member in ["a", "b"] {
            assert_eq!(self.add(&id, member).status, 200);
        }
        id
    }

    fn members(&mut self, image: &str) -> Vec<String> {
        let got = self.get(&format!("/images/{image}/members"));
        let members = got.body["members"].as_array().unwrap();
        members
            .iter()
            .map(|member| member["member_id"].as_str().unwrap().to_owned())
            .collect()
    }

    fn fault(&mut self, wanted: &Value, action: &Value) {
        let rule = json!([{"match": wanted, "action": action, "times": 1}]);
        self.cloud.control("PUT", "/faults", rule);
    }
}

#[test]
fn a_deleted_member_cannot_be_added_again_without_member_reuse() {
    let mut images = Images::with_options(WorldOptions {
        member_reuse: false,
        ..WorldOptions::default()
    });
    let image = images.shared();
    assert_eq!(images.delete(&format!("/images/{image}/members/a")), 204);
    assert_eq!(images.members(&image), ["b"]);
    let again = images.add(&image, "a");
    assert_eq!(again.status, 409);
    assert_eq!(
        again.body["message"],
        format!("Member a is duplicated for image {image}<br /><br />\n\n\n")
    );
    // No read shows the deleted member, so a client cannot foresee the refusal.
    assert_eq!(
        images.get(&format!("/images/{image}/members/a")).status,
        404
    );
    assert_eq!(images.add(&image, "c").status, 200);
    assert_eq!(images.members(&image), ["b", "c"]);
}

#[test]
fn a_deleted_member_added_again_has_its_old_position_in_the_list_with_member_reuse() {
    let mut images = Images::new();
    let image = images.shared();
    assert_eq!(images.delete(&format!("/images/{image}/members/a")), 204);
    assert_eq!(images.add(&image, "a").status, 200);
    assert_eq!(images.members(&image), ["a", "b"]);
}

#[test]
fn a_delete_or_an_added_member_under_the_fault_keep_changes_nothing() {
    let mut images = Images::new();
    let image = images.shared();
    images.fault(
        &json!({"kind": "image", "method": "DELETE"}),
        &json!({"keep": true}),
    );
    assert_eq!(images.delete(&format!("/images/{image}")), 204);
    assert_eq!(images.members(&image), ["a", "b"]);
    images.fault(
        &json!({"kind": "image_member", "id": "a"}),
        &json!({"keep": true}),
    );
    let member = format!("/images/{image}/members/a");
    assert_eq!(images.delete(&member), 204);
    assert_eq!(images.members(&image), ["a", "b"]);
    assert_eq!(images.delete(&member), 204);
    assert_eq!(images.members(&image), ["b"]);
    // The fault also undoes a creation.
    images.fault(
        &json!({"kind": "image_member", "id": "c"}),
        &json!({"keep": true}),
    );
    assert_eq!(images.add(&image, "c").status, 200);
    assert_eq!(images.members(&image), ["b"]);
}

#[test]
fn a_deleted_image_is_revived_with_its_members() {
    let mut images = Images::new();
    let image = images.shared();
    let before = images.get(&format!("/images/{image}")).body;
    images.fault(
        &json!({"kind": "image", "id": image}),
        &json!({"recreate_after_ms": 500}),
    );
    assert_eq!(images.delete(&format!("/images/{image}")), 204);
    assert_eq!(images.get(&format!("/images/{image}")).status, 404);
    images.cloud.advance(500);
    assert_eq!(images.get(&format!("/images/{image}")).body, before);
    assert_eq!(images.members(&image), ["a", "b"]);
}

#[test]
fn a_deleted_image_is_revived_under_a_new_id_with_its_members() {
    let mut images = Images::new();
    let image = images.shared();
    images.fault(
        &json!({"kind": "image"}),
        &json!({"recreate_after_ms": 500, "as": "new"}),
    );
    assert_eq!(images.delete(&format!("/images/{image}")), 204);
    images.cloud.advance(500);
    assert_eq!(images.get(&format!("/images/{image}")).status, 404);
    let listed = images.get("/images?name=shared").body;
    assert_eq!(listed["images"].as_array().unwrap().len(), 1);
    assert_eq!(listed["images"][0]["os"], "linux");
    let new = listed["images"][0]["id"].as_str().unwrap();
    assert_ne!(new, image);
    assert_eq!(images.members(new), ["a", "b"]);
}

#[test]
fn a_deleted_member_is_revived_in_its_image_with_its_status() {
    let mut images = Images::new();
    let image = images.shared();
    let member = format!("/images/{image}/members/b");
    images.call("PUT", &member, &json!({"status": "accepted"}));
    images.fault(
        &json!({"kind": "image_member"}),
        &json!({"recreate_after_ms": 500}),
    );
    assert_eq!(images.delete(&member), 204);
    assert_eq!(images.add(&image, "c").status, 200);
    images.cloud.advance(500);
    assert_eq!(images.members(&image), ["a", "b", "c"]);
    assert_eq!(images.get(&member).body["status"], "accepted");
}

#[test]
fn the_revival_of_a_member_does_not_revive_its_deleted_image() {
    let mut images = Images::new();
    let (image, kept) = (images.shared(), images.shared());
    for image in [&image, &kept] {
        images.fault(
            &json!({"kind": "image_member"}),
            &json!({"recreate_after_ms": 500}),
        );
        assert_eq!(images.delete(&format!("/images/{image}/members/b")), 204);
    }
    assert_eq!(images.delete(&format!("/images/{image}")), 204);
    images.cloud.advance(500);
    assert_eq!(images.get(&format!("/images/{image}")).status, 404);
    // The deleted member of the kept image exists again.
    let member = images.get(&format!("/images/{kept}/members/b"));
    assert_eq!(member.status, 200);
}

#[test]
fn a_fault_answers_in_json_or_html_as_the_accept_header_says() {
    let mut images = Images::new();
    let refusal = json!({"status": 503, "message": "Not <now>."});
    images.fault(&json!({"kind": "image"}), &refusal);
    let got = images.get("/images");
    assert_eq!(
        (got.status, &got.body["message"]),
        (503, &json!("Not <now>.<br /><br />\n\n\n"))
    );
    images.fault(&json!({"kind": "image"}), &refusal);
    let got = images.call_accepting("*/*", "GET", "/images", &Value::Null);
    let page = String::from_utf8(got.reply.response.body().to_vec()).unwrap();
    assert!(page.contains("Not &lt;now&gt;.<br /><br />"), "{page}");
}

#[test]
fn a_seed_makes_shared_images_with_two_members() {
    let mut images = Images::new();
    let made = images.cloud.control(
        "POST",
        "/seed",
        json!({"project": "demo", "prefix": "shop", "images": 3}),
    );
    let ids: Vec<&str> = made["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 3);
    for (number, id) in ids.into_iter().enumerate() {
        let image = images.get(&format!("/images/{id}")).body;
        assert_eq!(image["name"], format!("shop-image-{number}"));
        assert_eq!(image["visibility"], "shared");
        assert_eq!(images.members(id).len(), 2);
    }
    // The images belong to the project that the seed names.
    let owner = images.get("/images?limit=1").body["images"][0]["owner"].clone();
    let project = images.cloud.send(
        Method::GET,
        "/v3/projects?name=demo",
        Some(&images.token),
        None,
        &[],
    );
    assert_eq!(owner, project.body["projects"][0]["id"]);
}

#[test]
fn glance_versions_need_no_token_and_one_of_them_is_current() {
    let mut images = Images::new();
    for (path, status) in [("/", 300), ("/versions", 200)] {
        let path = format!("/RegionOne/image{path}");
        let got = images.cloud.send(Method::GET, &path, None, None, &[]);
        assert_eq!(got.status, status);
        let versions = got.body["versions"].as_array().unwrap();
        let current: Vec<&Value> = versions
            .iter()
            .filter(|version| version["status"] == "CURRENT")
            .collect();
        assert_eq!(current.len(), 1);
        assert_eq!(
            current[0]["links"][0]["href"],
            "http://sandbox.invalid/RegionOne/image/v2/"
        );
    }
}
