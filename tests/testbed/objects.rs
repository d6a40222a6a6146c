//! Containers of real Swift with their objects: objects of any name, large objects, and versions.

use std::collections::BTreeSet;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::bed::{Bed, wait_for};
use crate::proxy::Proxy;
use crate::users::Users;

/// Names that a path, a terminal, an id or a list could misinterpret.
const CONTAINERS: [&str; 5] = [
    "a b%2F?#",
    "v1",
    "comma,comma",
    "ünï\u{1b}[31m",
    "\u{7}bell",
];
const OBJECTS: [&str; 8] = [
    "a/b//c/",
    "100%25?x=y#z",
    "comma,comma/slash",
    "\u{1b}[2Jcleared\r\n\t",
    "💥 ",
    "null/null",
    "..%2F..",
    "\"'&<>\\",
];

/// The account of a project, with the calls of one of its members.
pub struct Account<'a> {
    member: &'a Api,
    url: String,
}

impl<'a> Account<'a> {
    pub fn of(bed: &Bed, member: &'a Api) -> Self {
        let root = bed.api.root_of("object-store");
        let url = format!("{root}/v1/AUTH_{}", bed.project);
        Self { member, url }
    }

    fn url(&self, container: &str, object: &str) -> String {
        let encoded = |name| utf8_percent_encode(name, NON_ALPHANUMERIC);
        match object {
            "" => format!("{}/{}", self.url, encoded(container)),
            _ => format!("{}/{}/{}", self.url, encoded(container), encoded(object)),
        }
    }

    /// Creates a container, or an object in it.
    pub fn put(&self, container: &str, object: &str) {
        let url = self.url(container, object);
        let (status, answer) = self.member.answer_at("PUT", &url, json!("content"));
        assert!(status < 300, "{url}: {status} {answer}");
    }

    /// A call with an additional header, which must succeed.
    fn call_with(&self, method: &str, url: &str, header: (&str, &str), body: Value) {
        let (status, answer) = self.member.send_with(method, url, header, body);
        assert!(status < 300, "{url}: {status} {answer}");
    }

    /// The rows of a container with all versions, or of the account if the name is empty.
    pub fn rows(&self, container: &str) -> Vec<Value> {
        let at = match container {
            "" => self.url.clone(),
            container => self.url(container, ""),
        };
        let (status, rows) = self.member.answer_at(
            "GET",
            &format!("{at}?format=json&versions=true"),
            Value::Null,
        );
        match status {
            404 => Vec::new(),
            _ => rows.as_array().unwrap().clone(),
        }
    }

    /// Creates a container that keeps versions, with an object from before versions were kept, an object with two
    /// versions, and a deleted object.
    fn create_versioned(&self, container: &str) {
        self.put(container, "");
        self.put(container, "before");
        let url = self.url(container, "");
        self.call_with("POST", &url, ("x-versions-enabled", "true"), Value::Null);
        for object in ["kept", "kept", "deleted"] {
            self.put(container, object);
        }
        let url = self.url(container, "deleted");
        assert_eq!(self.member.answer_at("DELETE", &url, Value::Null).0, 204);
    }

    /// Creates a large object in `container`, with its segments in another container.
    fn create_large(&self, container: &str, segments: &str) {
        self.put(container, "");
        self.put(segments, "");
        self.put(segments, "1");
        let manifest = json!([{"path": format!("/{segments}/1")}]);
        let url = format!("{}?multipart-manifest=put", self.url(container, "large"));
        self.call_with("PUT", &url, ("accept", "application/json"), manifest);
    }
}

fn names(rows: &[Value]) -> BTreeSet<String> {
    rows.iter().map(|row| text(&row["name"])).collect()
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n19_a_member_and_an_admin_delete_containers_and_objects_of_any_name() {
    let bed = Bed::small();
    bed.delete_qos_policies();
    let users = Users::with_member(&bed);
    let member = users.api("a member");
    let account = Account::of(&bed, &member);
    // The second login deletes new containers and objects that have the same names.
    for login in ["testbed --region RegionOne", "mine"] {
        for container in CONTAINERS {
            account.put(container, "");
            for object in OBJECTS {
                account.put(container, object);
            }
        }
        assert_eq!(names(&account.rows("")).len(), CONTAINERS.len());
        let target = match login {
            "mine" => "container/v1".to_owned(),
            _ => format!("container/{},v1", bed.project),
        };
        bed.gone(&format!("--cloud {login} plan {target}"))
            .ok()
            .says(&["Refused: nothing will be sent", "object 100%25?x=y#z"]);
        let plan = bed.gone(&format!("--cloud {login} plan {target} --cascade"));
        let plan = plan.ok().says(&["9 steps", "💥", "in container v1"]);
        let is_hostile = |c: char| c.is_control() && c != '\n';
        assert!(!plan.out.contains(is_hostile), "{:?}", plan.out);
        let line = format!(
            "--cloud {login} delete project/{} --cascade --yes --wait=3m",
            bed.project
        );
        bed.gone(&line).ok();
        assert_eq!(account.rows(""), Vec::<Value>::new(), "{login}");
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_n19_versions_are_deleted_with_their_container_and_segments_elsewhere_stay() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let member = users.api("a member");
    let account = Account::of(&bed, &member);
    account.create_versioned("versions");
    account.create_large("large", "segments");
    let delete = |target: &str| {
        let line = format!("--cloud mine delete {target} --cascade --yes --wait=3m");
        bed.gone(&line).ok()
    };
    let plan = bed.gone("--cloud mine plan container/versions --cascade -o json");
    let steps = plan.ok().json()["steps"].as_array().unwrap().len();
    assert_eq!(
        steps, 6,
        "one object from before, two versions, one deleted version with its marker, and the container"
    );
    delete("container/versions");
    bed.gone("--cloud mine plan container/large --cascade")
        .ok()
        .says(&["object large", "its segments are objects of their own"]);
    delete("container/large");
    assert_eq!(
        names(&account.rows("")),
        BTreeSet::from(["segments".to_owned()])
    );
    assert_eq!(names(&account.rows("segments")).len(), 1);
    delete("container/segments");
    assert_eq!(account.rows(""), Vec::<Value>::new());
}

/// Swift answers only that there is a conflict, and gone names the object.
#[test]
#[ignore = "needs the test bed"]
fn testbed_i01_an_object_added_after_the_plan_is_named_as_the_blocker_of_its_container() {
    let bed = Bed::small();
    let users = Users::with_member(&bed);
    let member = users.api("a member");
    let account = Account::of(&bed, &member);
    account.put("late", "");
    let proxy = Proxy::to(bed.api.root_of("object-store"));
    bed.change_clouds(|clouds| {
        let url = format!("{}/v1/AUTH_{}", proxy.url, bed.project);
        clouds["clouds"]["mine"]["object_store_endpoint_override"] = url.into();
    });
    let _engine = bed.start_engine("--cloud mine");
    proxy.hold_deletes_after(0);
    let deletion = bed.gone("delete container/late --yes -o json").ok();
    let deletion = text(&deletion.json()["id"]);
    wait_for("the delete of the container", || {
        !proxy.deletes().is_empty()
    });
    account.put("late", "came/after");
    proxy.hold_deletes_after(usize::MAX);
    wait_for("the object to be named", || {
        let shown = bed.gone(&format!("show {deletion} -o json"));
        let attention = shown.json()["attention"].clone();
        attention[0]["blockers"][0]["name"] == "came/after"
    });
    let url = account.url("late", "came/after");
    assert_eq!(member.answer_at("DELETE", &url, Value::Null).0, 204);
    bed.gone(&format!("retry {deletion}")).ok();
    bed.gone(&format!("watch {deletion}")).ok();
    assert_eq!(account.rows(""), Vec::<Value>::new());
}

/// Swift shows the accounts of other projects to a role of its own, and not to every admin.
#[test]
#[ignore = "needs the test bed"]
fn testbed_n19_the_plan_of_an_admin_without_the_reseller_role_names_that_role() {
    let bed = Bed::small();
    let mut users = Users::with_member(&bed);
    users.add("an admin of Keystone", &bed.api.project_id("demo"), "admin");
    let member = users.api("a member");
    let account = Account::of(&bed, &member);
    account.put("unseen", "");
    account.put("unseen", "object");
    let name = users.name(1);
    bed.change_clouds(|clouds| {
        let mut other = clouds["clouds"]["mine"].clone();
        other["auth"]["username"] = json!(name);
        other["auth"]["password"] = json!(name);
        other["auth"]["project_id"] = json!(bed.api.project_id("demo"));
        clouds["clouds"]["other"] = other;
    });
    let plan = |more: &str| {
        let line = format!(
            "--cloud other plan project/{} --cascade {more}",
            bed.project
        );
        bed.gone(&line)
    };
    plan("")
        .ok()
        .says(&["not looked at: container", "by default ResellerAdmin"]);
    plan("--with-project").ok().says(&[
        "Refused: nothing will be sent",
        "gone cannot tell whether project",
    ]);
    bed.gone("--cloud mine delete container/unseen --cascade --yes --wait=3m")
        .ok();
    assert_eq!(account.rows(""), Vec::<Value>::new());
}
