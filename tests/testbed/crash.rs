//! An engine that is killed in the middle, and the one that comes after it.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;

use crate::bed::{Bed, wait_for};

/// Answers to the deletes that came through: none while there is none.
type Deletes = Arc<Mutex<Vec<(String, Option<u16>)>>>;

#[derive(Clone)]
struct Proxy {
    upstream: String,
    client: reqwest::Client,
    deletes: Deletes,
}

/// Stands before Neutron and writes down every DELETE: the testbed's own log has none.
fn proxy(upstream: String, deletes: Deletes) -> (tokio::runtime::Runtime, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let proxy = Proxy {
        upstream,
        client: reqwest::Client::new(),
        deletes,
    };
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = axum::Router::new().fallback(pass).with_state(proxy);
    runtime.spawn(async move { axum::serve(listener, routes).await });
    (runtime, url)
}

/// What was sent goes on to Neutron and is written down, also when the sender is gone meanwhile.
async fn pass(State(proxy): State<Proxy>, request: Request) -> Response<axum::body::Body> {
    tokio::spawn(proxy.forward(request)).await.unwrap()
}

impl Proxy {
    async fn forward(self, request: Request) -> Response<axum::body::Body> {
        let (head, body) = request.into_parts();
        let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let path = head.uri.path_and_query().unwrap().to_string();
        let written = (head.method == http::Method::DELETE).then(|| {
            let mut deletes = self.deletes.lock().unwrap();
            deletes.push((path.clone(), None));
            deletes.len() - 1
        });
        let mut headers = head.headers;
        headers.remove("host");
        let answer = self
            .client
            .request(head.method, format!("{}{path}", self.upstream))
            .headers(headers)
            .body(body)
            .send()
            .await
            .unwrap();
        let status = answer.status();
        let mut passed = Response::builder().status(status);
        for name in ["content-type", "x-openstack-request-id"] {
            if let Some(value) = answer.headers().get(name) {
                passed = passed.header(name, value);
            }
        }
        let body = answer.bytes().await.unwrap();
        if let Some(written) = written {
            self.deletes.lock().unwrap()[written].1 = Some(status.as_u16());
        }
        passed.body(body.into()).unwrap()
    }
}

#[test]
fn testbed_i11_an_engine_killed_in_the_middle_goes_on_and_deletes_nothing_twice() {
    let shape = "--networks 2 --ports 60 --trunks 0 --groups 1";
    let Some(bed) = Bed::seeded("RegionOne", shape) else {
        return;
    };
    let deletes = Deletes::default();
    let upstream = bed.api.network_url.trim_end_matches("/v2.0").to_owned();
    let (runtime, url) = proxy(upstream, deletes.clone());
    bed.change_clouds(|clouds| {
        clouds["clouds"]["testbed"]["network_endpoint_override"] = json!(url);
    });
    let before = bed.holdings();
    let network = &bed.networks[0];
    let answered = || {
        let deletes = deletes.lock().unwrap();
        deletes
            .iter()
            .filter(|(_, status)| status.is_some())
            .count()
    };

    let mut engine = bed.engine("--cloud testbed");
    let line = format!("--cloud testbed delete network/{network} --cascade --yes -o json");
    let accepted = bed.gone(&line).ends_with(0).json();
    wait_for("deletes", || answered() >= 15);
    engine.0.kill().unwrap();
    engine.0.wait().unwrap();
    let in_flight: Vec<String> = {
        let deletes = deletes.lock().unwrap();
        let open = deletes.iter().filter(|(_, status)| status.is_none());
        open.map(|(path, _)| path.clone()).collect()
    };
    assert!(answered() < 50, "it was not in the middle");

    let _second = bed.engine("--cloud testbed");
    let show = format!(
        "--cloud testbed show {} -o json",
        accepted["id"].as_str().unwrap()
    );
    wait_for("the deletion's end", || {
        std::thread::sleep(Duration::from_millis(250));
        bed.gone(&show).ends_with(0).json()["state"] == "gone"
    });
    assert_eq!(bed.holdings().all_ids(), before.without(network));

    let mut by_path: BTreeMap<String, Vec<Option<u16>>> = BTreeMap::new();
    for (path, status) in deletes.lock().unwrap().iter() {
        by_path.entry(path.clone()).or_default().push(*status);
    }
    for (path, answers) in &by_path {
        let done = answers
            .iter()
            .filter(|status| **status == Some(204))
            .count();
        assert_eq!(done, 1, "{path}: {answers:?}");
        // One whose answer was on its way to the dead engine may be sent once more, and no other.
        let most = if in_flight.contains(path) { 2 } else { 1 };
        assert!(
            answers.len() <= most,
            "{path}: {answers:?}, in flight: {in_flight:?}"
        );
    }
    runtime.shutdown_background();
}
