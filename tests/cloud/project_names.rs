//! Names of projects: for a whole cloud at once, kept, and never waited for long.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gone::cloud::openstack::{Transport, TransportError};
use gone::cloud::{Cloud as _, NameLookup, OpenStack};
use gone::domain::model::Site;
use gone::system::clock::Clock;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{cloud_of, token_body};

/// A Keystone that lets everyone in. What it says of projects, by path, is set by the test; a path
/// that is not set is refused (403), and `null` gets no answer.
#[derive(Default)]
struct Keystone {
    says: Mutex<BTreeMap<String, Value>>,
    asked: Mutex<Vec<String>>,
}

impl Keystone {
    fn says(&self, path: &str, body: Value) {
        self.says.lock().unwrap().insert(path.to_owned(), body);
    }

    fn lists(&self, projects: &[(&str, &str)]) {
        let rows = projects
            .iter()
            .map(|(id, name)| json!({"id": id, "name": name}));
        self.says(LISTING, json!({"projects": rows.collect::<Vec<_>>()}));
    }

    /// What was asked since this was last read.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

const LISTING: &str = "/v3/projects?limit=1000";

#[async_trait]
impl Transport for Keystone {
    async fn send(
        &self,
        request: Request<Bytes>,
        deadline: Duration,
    ) -> Result<Response<Bytes>, TransportError> {
        if request.method() == Method::POST {
            let mut body = token_body("http://network");
            let endpoints = ["R1", "R2"].map(|region| {
                json!({"id": "k", "interface": "public", "region_id": region, "region": region, "url": "http://keystone/v3"})
            });
            let identity = json!({"type": "identity", "name": "keystone", "endpoints": endpoints});
            body["token"]["catalog"]
                .as_array_mut()
                .unwrap()
                .push(identity);
            let answer = Response::builder()
                .status(201)
                .header("x-subject-token", "t");
            return Ok(answer.body(body.to_string().into()).unwrap());
        }
        let path = request.uri().path_and_query().unwrap().to_string();
        let said = self.says.lock().unwrap().get(&path).cloned();
        self.asked.lock().unwrap().push(path);
        match said {
            Some(Value::Null) => {
                sleep(deadline).await;
                Err(TransportError::TimedOut { deadline })
            }
            Some(body) => Ok(Response::new(body.to_string().into())),
            None => {
                let body = json!({"error": {"code": 403, "title": "Forbidden", "message": "no"}});
                Ok(Response::builder()
                    .status(403)
                    .body(body.to_string().into())
                    .unwrap())
            }
        }
    }
}

/// A cloud of two regions, at a Keystone of the test.
fn cloud() -> (Arc<Keystone>, OpenStack) {
    let keystone = Arc::<Keystone>::default();
    let of = |region: &str| {
        let yaml = format!(
            "clouds: {{c: {{region_name: {region}, auth: {{auth_url: 'http://keystone/v3', username: u, \
             password: x, project_name: p, user_domain_id: default, project_domain_id: default}}}}}}"
        );
        (Site::region("c", region), cloud_of(&yaml))
    };
    let transport: Arc<dyn Transport> = keystone.clone();
    let cloud = OpenStack::new(
        vec![of("R1"), of("R2")],
        Box::new(move |_| Ok(transport.clone())),
        Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1),
        Duration::from_secs(60),
    );
    (keystone, cloud)
}

/// `id=name …` of those that have one.
async fn named(cloud: &OpenStack, region: &str, ids: &[&str], lookup: NameLookup) -> String {
    let ids: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let site = Site::region("c", region);
    let found = cloud.account_names(&site, &ids, lookup).await;
    let found = found.iter().filter(|(id, _)| ids.contains(*id));
    let words: Vec<String> = found.map(|(id, name)| format!("{id}={name}")).collect();
    words.join(" ")
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const NOTHING: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn n14_one_listing_serves_a_cloud_for_an_hour() {
    let (keystone, cloud) = cloud();
    keystone.lists(&[("a", "demo"), ("b", "shop")]);
    assert_eq!(
        named(&cloud, "R1", &["a", "b"], NameLookup::Asked).await,
        "a=demo b=shop"
    );
    assert_eq!(
        named(&cloud, "R2", &["b"], NameLookup::Asked).await,
        "b=shop"
    );
    assert_eq!(keystone.asked(), [LISTING]);
    keystone.lists(&[("a", "renamed")]);
    sleep(HOUR - Duration::from_secs(1)).await;
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Asked).await,
        "a=demo"
    );
    assert_eq!(keystone.asked(), NOTHING);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        named(&cloud, "R1", &["a", "b"], NameLookup::Asked).await,
        "a=renamed"
    );
    assert_eq!(keystone.asked(), [LISTING, "/v3/projects/b"]);
}

#[tokio::test(start_paused = true)]
async fn n14_what_is_known_and_the_logins_own_project_cost_no_call() {
    let (keystone, cloud) = cloud();
    keystone.lists(&[("a", "demo")]);
    assert_eq!(
        named(&cloud, "R1", &["p-id"], NameLookup::Asked).await,
        "p-id=p"
    );
    assert_eq!(
        named(&cloud, "R1", &["a", "", "p-id"], NameLookup::Known).await,
        "p-id=p"
    );
    assert_eq!(named(&cloud, "R1", &[""], NameLookup::Asked).await, "");
    assert_eq!(keystone.asked(), NOTHING);
    named(&cloud, "R1", &["a"], NameLookup::Asked).await;
    keystone.asked();
    sleep(10 * HOUR).await;
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Known).await,
        "a=demo"
    );
    assert_eq!(keystone.asked(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn n14_who_may_not_list_asks_for_five_by_id_an_hour_and_each_once() {
    let (keystone, cloud) = cloud();
    keystone.says(
        "/v3/projects/d",
        json!({"project": {"id": "d", "name": "mine"}}),
    );
    let ids = ["a", "b/../c", "d", "e", "f", "g", "h"];
    for _ in 0..3 {
        assert_eq!(named(&cloud, "R1", &ids, NameLookup::Asked).await, "d=mine");
    }
    let by_id = ["a", "b%2F..%2Fc", "d", "e", "f"].map(|id| format!("/v3/projects/{id}"));
    let mut all = vec![LISTING.to_owned()];
    all.extend(by_id);
    assert_eq!(keystone.asked(), all);
    sleep(HOUR).await;
    assert_eq!(
        named(&cloud, "R1", &["d", "g"], NameLookup::Asked).await,
        "d=mine"
    );
    assert_eq!(
        keystone.asked(),
        [LISTING, "/v3/projects/d", "/v3/projects/g"]
    );
}

#[tokio::test(start_paused = true)]
async fn i12_a_keystone_without_answer_is_waited_for_three_seconds_in_ten_minutes() {
    let (keystone, cloud) = cloud();
    keystone.says(LISTING, Value::Null);
    let start = Instant::now();
    // All who want names wait at the same time, and none for longer.
    let wanted = (0..100).map(|_| named(&cloud, "R1", &["a"], NameLookup::Asked));
    let answers = futures_util::future::join_all(wanted).await;
    assert!(answers.iter().all(String::is_empty));
    assert!(
        start.elapsed() < Duration::from_millis(3100),
        "{:?}",
        start.elapsed()
    );
    let start = Instant::now();
    assert_eq!(named(&cloud, "R1", &["a"], NameLookup::Asked).await, "");
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(keystone.asked(), [LISTING]);
    keystone.lists(&[("a", "demo")]);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Asked).await,
        "a=demo"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_keystone_leaves_the_names_that_are_known() {
    let (keystone, cloud) = cloud();
    keystone.lists(&[("a", "demo")]);
    named(&cloud, "R1", &["a"], NameLookup::Asked).await;
    keystone.says(LISTING, Value::Null);
    sleep(HOUR).await;
    assert_eq!(
        named(&cloud, "R1", &["a", "b"], NameLookup::Asked).await,
        "a=demo"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_kept_no_longer_than_keystone_allows_one_to_be() {
    let (keystone, cloud) = cloud();
    keystone.lists(&[("a", &"名".repeat(10_000))]);
    let expected = format!("a={}", "名".repeat(64));
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Asked).await,
        expected
    );
}
