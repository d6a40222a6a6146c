//! A proxy before a real service. It writes down every DELETE, of which the testbed's own log has none, and
//! fails calls that a test wants to fail.
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::api::Api;

/// A path, and what was answered: none while there is no answer.
type Delete = (String, Option<u16>);

pub struct Proxy {
    pub url: String,
    address: SocketAddr,
    seen: Seen,
    runtime: Option<Runtime>,
}

/// What a service does wrong, from a DELETE on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Each answer takes some seconds.
    Slow,
    /// Each call is answered 503.
    Fails,
    /// No call is answered.
    Hangs,
    /// Each call is answered 429.
    Busy,
    /// Lists are empty.
    LyingList,
    /// What is there is answered as what is not.
    LyingGet,
    /// A DELETE is answered 202, and nothing is deleted.
    LyingDelete,
}

/// How long an answer of a slow service takes.
const SLOW: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Seen {
    upstream: String,
    client: reqwest::Client,
    deletes: Arc<Mutex<Vec<Delete>>>,
    /// How many DELETEs it lets through; what comes after them waits.
    most_deletes: watch::Sender<usize>,
    /// Calls of this method to a path with this in it are answered 503.
    failing: Arc<Mutex<Option<(Method, String)>>>,
    failed: Arc<AtomicUsize>,
    /// Of all calls.
    passed: Arc<AtomicUsize>,
    /// How many calls a second it lets through.
    limit: Arc<Mutex<Option<Limit>>>,
    /// The host that Neutron is told to be, and the rows of its pages.
    inside: Arc<Mutex<Option<(String, usize)>>>,
    /// What it does wrong, and whether it does so by now.
    wrong: Arc<Mutex<Option<(Wrong, bool)>>>,
}

/// So many calls a second, and as many that were saved up.
struct Limit {
    per_second: f64,
    saved: f64,
    at: Instant,
}

impl Limit {
    fn admits(&mut self) -> bool {
        let now = Instant::now();
        let more = (now - self.at).as_secs_f64() * self.per_second;
        self.saved = (self.saved + more).min(self.per_second);
        self.at = now;
        let admits = self.saved >= 1.0;
        self.saved -= f64::from(u8::from(admits));
        admits
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Proxy {
    /// Before Neutron.
    pub fn before(api: &Api) -> Self {
        Self::to(api.network_url.trim_end_matches("/v2.0"))
    }

    /// Before the service with this root.
    pub fn to(upstream: &str) -> Self {
        let seen = Seen {
            upstream: upstream.to_owned(),
            client: reqwest::Client::new(),
            deletes: Arc::default(),
            most_deletes: watch::Sender::new(usize::MAX),
            failing: Arc::default(),
            failed: Arc::default(),
            passed: Arc::default(),
            limit: Arc::default(),
            inside: Arc::default(),
            wrong: Arc::default(),
        };
        let (runtime, address) = seen.serve("127.0.0.1:0".parse().unwrap());
        Self {
            url: format!("http://{address}"),
            address,
            seen,
            runtime: Some(runtime),
        }
    }

    /// Ends every connection, and refuses others until [`Self::come_up`].
    pub fn go_down(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub fn come_up(&mut self) {
        self.runtime = Some(self.seen.serve(self.address).0);
    }

    /// From the next DELETE on it does this wrong, until it recovers.
    pub fn goes_wrong(&self, wrong: Wrong) {
        *self.seen.wrong.lock().unwrap() = Some((wrong, false));
    }

    /// Whether that DELETE has come.
    pub fn is_wrong(&self) -> bool {
        matches!(*self.seen.wrong.lock().unwrap(), Some((_, true)))
    }

    /// Every DELETE that was passed on.
    pub fn deletes(&self) -> Vec<Delete> {
        self.seen.deletes.lock().unwrap().clone()
    }

    /// From now on it lets so many DELETEs through, counted from the first. What comes after them waits here
    /// until more may pass, whether its sender still lives or not.
    pub fn hold_deletes_after(&self, most: usize) {
        self.seen.most_deletes.send_replace(most);
    }

    pub fn fail(&self, method: Method, part: &str) {
        *self.seen.failing.lock().unwrap() = Some((method, part.to_owned()));
    }

    /// From now on it lets so many calls a second through, and answers 429 to all others.
    pub fn limit(&self, per_second: f64) {
        *self.seen.limit.lock().unwrap() = Some(Limit {
            per_second,
            saved: per_second,
            at: Instant::now(),
        });
    }

    /// Neutron is reached under the name of a host that only the cloud itself knows, and gives pages of so
    /// many rows at most: so the links of its pages lead to that host.
    pub fn stand_before(&self, host: &str, rows: usize) {
        *self.seen.inside.lock().unwrap() = Some((host.to_owned(), rows));
    }

    /// How many calls it let through.
    pub fn passed(&self) -> usize {
        self.seen.passed.load(Ordering::Relaxed)
    }

    /// How many calls it failed.
    pub fn failed(&self) -> usize {
        self.seen.failed.load(Ordering::Relaxed)
    }

    pub fn recover(&self) {
        *self.seen.failing.lock().unwrap() = None;
        *self.seen.wrong.lock().unwrap() = None;
    }
}

/// What was sent goes on to Neutron and is written down, also when the sender is gone meanwhile.
async fn pass(State(seen): State<Seen>, request: Request) -> Response<Body> {
    tokio::spawn(seen.forward(request)).await.unwrap()
}

impl Seen {
    /// On a runtime of its own, with which all its connections end.
    fn serve(&self, address: SocketAddr) -> (Runtime, SocketAddr) {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(address))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let routes = axum::Router::new().fallback(pass).with_state(self.clone());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        (runtime, address)
    }

    /// What it does wrong with this call.
    fn wrong(&self, method: &Method) -> Option<Wrong> {
        let mut wrong = self.wrong.lock().unwrap();
        let (wrong, begun) = wrong.as_mut()?;
        *begun |= method == Method::DELETE;
        begun.then_some(*wrong)
    }

    fn fails(&self, method: &Method, path: &str) -> bool {
        let failing = self.failing.lock().unwrap();
        let failing = failing.as_ref();
        failing.is_some_and(|(failing, part)| failing == method && path.contains(part))
    }

    fn refuses(&self) -> bool {
        let mut limit = self.limit.lock().unwrap();
        limit.as_mut().is_some_and(|limit| !limit.admits())
    }

    async fn forward(self, request: Request) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let path = head.uri.path_and_query().unwrap().to_string();
        if self.fails(&head.method, &path) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            let failed = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
            return failed
                .header("retry-after", "3")
                .body(Body::empty())
                .unwrap();
        }
        let wrong = self.wrong(&head.method);
        let is_row = head.uri.path().rsplit('/').next().is_some_and(is_id);
        match wrong {
            Some(Wrong::Slow) => tokio::time::sleep(SLOW).await,
            Some(Wrong::Hangs) => std::future::pending().await,
            Some(Wrong::Fails) => {
                let failed = json!({"message": "the database is away"});
                return answer(StatusCode::SERVICE_UNAVAILABLE, &failed);
            }
            Some(Wrong::LyingDelete) if head.method == Method::DELETE => {
                return answer(StatusCode::ACCEPTED, &Value::Null);
            }
            Some(Wrong::LyingGet) if head.method == Method::GET && is_row => {
                let absent =
                    json!({"itemNotFound": {"code": 404, "message": "could not be found"}});
                return answer(StatusCode::NOT_FOUND, &absent);
            }
            // A busy service is answered for below, as a limit is; a list is emptied once it is there.
            Some(Wrong::Busy | Wrong::LyingList | Wrong::LyingDelete | Wrong::LyingGet) | None => {}
        }
        if wrong == Some(Wrong::Busy) || self.refuses() {
            self.failed.fetch_add(1, Ordering::Relaxed);
            let words = json!({"error": {"code": 429, "message": "Too many requests"}});
            let mut refused = answer(StatusCode::TOO_MANY_REQUESTS, &words);
            refused
                .headers_mut()
                .insert("retry-after", "1".parse().unwrap());
            return refused;
        }
        self.passed.fetch_add(1, Ordering::Relaxed);
        let written = (head.method == Method::DELETE).then(|| {
            let mut deletes = self.deletes.lock().unwrap();
            deletes.push((path.clone(), None));
            deletes.len() - 1
        });
        if let Some(written) = written {
            let mut most = self.most_deletes.subscribe();
            most.wait_for(|most| written < *most).await.unwrap();
        }
        let mut headers = head.headers;
        headers.remove("host");
        let inside = self.inside.lock().unwrap().clone();
        let path = match inside {
            Some((host, rows)) => {
                headers.insert("host", host.parse().unwrap());
                path.replace("limit=500", &format!("limit={rows}"))
            }
            None => path,
        };
        let is_list = head.method == Method::GET && !is_row;
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
        match wrong {
            Some(Wrong::LyingList) if is_list => passed.body(emptied(&body).into()).unwrap(),
            _ => passed.body(body.into()).unwrap(),
        }
    }
}

fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let answer = Response::builder().status(status);
    let answer = answer.header("content-type", "application/json");
    answer.body(body.to_string().into()).unwrap()
}

fn is_id(word: &str) -> bool {
    uuid::Uuid::parse_str(word).is_ok()
}

/// A page of a list without its rows, and without a next page.
fn emptied(page: &[u8]) -> String {
    let mut page: Value = serde_json::from_slice(page).unwrap();
    let fields = page.as_object_mut().unwrap();
    fields.retain(|_, value| value.is_array());
    fields.values_mut().for_each(|rows| *rows = json!([]));
    page.to_string()
}
