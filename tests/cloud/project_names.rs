//! Names of projects: one list for a whole cloud, cached, with a short limit on waiting.
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

/// A Keystone that accepts every login. The test sets its answers about projects, by path. A path without an answer is
/// refused (403); for the answer `null`, the call times out.
#[derive(Default)]
struct Keystone {
    answers: Mutex<BTreeMap<String, Value>>,
    requests: Mutex<Vec<String>>,
}

impl Keystone {
    fn set_answer(&self, path: &str, body: Value) {
        self.answers.lock().unwrap().insert(path.to_owned(), body);
    }

    fn set_projects(&self, projects: &[(&str, &str)]) {
        let rows = projects
            .iter()
            .map(|(id, name)| json!({"id": id, "name": name}));
        self.set_answer(LISTING, json!({"projects": rows.collect::<Vec<_>>()}));
    }

    /// Returns the paths of the requests since the last call of this function.
    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
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
        let answer = self.answers.lock().unwrap().get(&path).cloned();
        self.requests.lock().unwrap().push(path);
        match answer {
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

/// Makes a cloud of two regions, R1 and R2, with one Keystone. Returns the Keystone and the cloud.
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

/// Looks up the names of these projects. Returns `id=name …` of those that have a name.
async fn named(cloud: &OpenStack, region: &str, ids: &[&str], lookup: NameLookup) -> String {
    let ids: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let site = Site::region("c", region);
    let found = cloud.account_names(&site, &ids, lookup).await;
    let found = found.iter().filter(|(id, _)| ids.contains(*id));
    let words: Vec<String> = found.map(|(id, name)| format!("{id}={name}")).collect();
    words.join(" ")
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const NO_REQUESTS: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn n14_one_listing_serves_a_cloud_for_an_hour() {
    let (keystone, cloud) = cloud();
    keystone.set_projects(&[("a", "demo"), ("b", "shop")]);
    assert_eq!(
        named(&cloud, "R1", &["a", "b"], NameLookup::Listed).await,
        "a=demo b=shop"
    );
    assert_eq!(
        named(&cloud, "R2", &["b"], NameLookup::Listed).await,
        "b=shop"
    );
    assert_eq!(keystone.take_requests(), [LISTING]);
    keystone.set_projects(&[("a", "renamed")]);
    sleep(HOUR - Duration::from_secs(1)).await;
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Listed).await,
        "a=demo"
    );
    assert_eq!(keystone.take_requests(), NO_REQUESTS);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        named(&cloud, "R1", &["a", "b"], NameLookup::Listed).await,
        "a=renamed"
    );
    assert_eq!(keystone.take_requests(), [LISTING, "/v3/projects/b"]);
}

#[tokio::test(start_paused = true)]
async fn n14_known_names_and_the_logins_own_project_cost_no_call() {
    let (keystone, cloud) = cloud();
    keystone.set_projects(&[("a", "demo")]);
    assert_eq!(
        named(&cloud, "R1", &["p-id"], NameLookup::Listed).await,
        "p-id=p"
    );
    assert_eq!(
        named(&cloud, "R1", &["a", "", "p-id"], NameLookup::Cached).await,
        "p-id=p"
    );
    assert_eq!(named(&cloud, "R1", &[""], NameLookup::Listed).await, "");
    assert_eq!(keystone.take_requests(), NO_REQUESTS);
    named(&cloud, "R1", &["a"], NameLookup::Listed).await;
    keystone.take_requests();
    sleep(10 * HOUR).await;
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Cached).await,
        "a=demo"
    );
    assert_eq!(keystone.take_requests(), NO_REQUESTS);
}

#[tokio::test(start_paused = true)]
async fn n14_a_login_that_may_not_list_reads_at_most_five_projects_by_id_an_hour() {
    let (keystone, cloud) = cloud();
    keystone.set_answer(
        "/v3/projects/d",
        json!({"project": {"id": "d", "name": "mine"}}),
    );
    let ids = ["a", "b/../c", "d", "e", "f", "g", "h"];
    for _ in 0..3 {
        assert_eq!(
            named(&cloud, "R1", &ids, NameLookup::Listed).await,
            "d=mine"
        );
    }
    let by_id = ["a", "b%2F..%2Fc", "d", "e", "f"].map(|id| format!("/v3/projects/{id}"));
    let mut all = vec![LISTING.to_owned()];
    all.extend(by_id);
    assert_eq!(keystone.take_requests(), all);
    sleep(HOUR).await;
    assert_eq!(
        named(&cloud, "R1", &["d", "g"], NameLookup::Listed).await,
        "d=mine"
    );
    assert_eq!(
        keystone.take_requests(),
        [LISTING, "/v3/projects/d", "/v3/projects/g"]
    );
}

#[tokio::test(start_paused = true)]
async fn i12_a_silent_keystone_delays_names_by_three_seconds_in_ten_minutes() {
    let (keystone, cloud) = cloud();
    keystone.set_answer(LISTING, Value::Null);
    let start = Instant::now();
    // All lookups wait at the same time, and none waits longer than one lookup alone.
    let lookups = (0..100).map(|_| named(&cloud, "R1", &["a"], NameLookup::Listed));
    let answers = futures_util::future::join_all(lookups).await;
    assert!(answers.iter().all(String::is_empty));
    assert!(
        start.elapsed() < Duration::from_millis(3100),
        "{:?}",
        start.elapsed()
    );
    let start = Instant::now();
    assert_eq!(named(&cloud, "R1", &["a"], NameLookup::Listed).await, "");
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(keystone.take_requests(), [LISTING]);
    keystone.set_projects(&[("a", "demo")]);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Listed).await,
        "a=demo"
    );
}

#[tokio::test(start_paused = true)]
async fn known_names_stay_when_keystone_does_not_answer() {
    let (keystone, cloud) = cloud();
    keystone.set_projects(&[("a", "demo")]);
    named(&cloud, "R1", &["a"], NameLookup::Listed).await;
    keystone.set_answer(LISTING, Value::Null);
    sleep(HOUR).await;
    assert_eq!(
        named(&cloud, "R1", &["a", "b"], NameLookup::Listed).await,
        "a=demo"
    );
}

#[tokio::test(start_paused = true)]
async fn a_project_name_is_cut_at_64_characters() {
    let (keystone, cloud) = cloud();
    keystone.set_projects(&[("a", &"名".repeat(10_000))]);
    let expected = format!("a={}", "名".repeat(64));
    assert_eq!(
        named(&cloud, "R1", &["a"], NameLookup::Listed).await,
        expected
    );
}
