//! A proxy before a real service. It records every DELETE, because the test bed has no log of them, and makes calls
//! fail on request.
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

/// The path of a DELETE, and the status of its answer; None while there is no answer.
type Delete = (String, Option<u16>);

/// A proxy before one service. It listens on a free port of this machine.
pub struct Proxy {
    pub url: String,
    address: SocketAddr,
    shared: Shared,
    runtime: Option<Runtime>,
}

/// A fault of a service. It begins with the next DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Each answer takes some seconds.
    Slow,
    /// Each call is answered 503.
    Fails,
    /// No call is answered.
    Hangs,
    /// Each call is answered 429.
    Busy,
    /// Lists are answered without rows.
    FalseEmptyList,
    /// A GET of one resource is answered 404.
    FalseNotFound,
    /// A DELETE is answered 202, and nothing is deleted.
    FalseAccepted,
}

/// Delay of every answer of a slow service.
const SLOW: Duration = Duration::from_secs(3);

/// The state that the proxy and its request handlers share.
#[derive(Clone)]
struct Shared {
    upstream: String,
    client: reqwest::Client,
    deletes: Arc<Mutex<Vec<Delete>>>,
    /// Number of DELETEs that pass, counted from the first; later ones wait.
    most_deletes: watch::Sender<usize>,
    /// Calls with this method and this part of a path are answered 503.
    failing: Arc<Mutex<Option<(Method, String)>>>,
    /// Number of calls that the proxy answered with 429 or, by [`Proxy::fail`], with 503.
    failed: Arc<AtomicUsize>,
    /// Number of calls that the proxy passed on.
    passed: Arc<AtomicUsize>,
    /// The limit of calls a second.
    limit: Arc<Mutex<Option<Limit>>>,
    /// The host name under which Neutron is called, and the number of rows of its pages.
    hidden_host: Arc<Mutex<Option<(String, usize)>>>,
    /// The fault, and whether it has begun.
    fault: Arc<Mutex<Option<(Fault, bool)>>>,
}

/// A token bucket, whose size is the number of calls in one second.
struct Limit {
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Limit {
    fn take_token(&mut self) -> bool {
        let now = Instant::now();
        let more = (now - self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + more).min(self.per_second);
        self.at = now;
        let has_token = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(has_token));
        has_token
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
    /// A proxy before Neutron.
    pub fn to_neutron(api: &Api) -> Self {
        Self::to(api.network_url.trim_end_matches("/v2.0"))
    }

    /// A proxy before the service with this URL.
    pub fn to(upstream: &str) -> Self {
        let shared = Shared {
            upstream: upstream.to_owned(),
            client: reqwest::Client::new(),
            deletes: Arc::default(),
            most_deletes: watch::Sender::new(usize::MAX),
            failing: Arc::default(),
            failed: Arc::default(),
            passed: Arc::default(),
            limit: Arc::default(),
            hidden_host: Arc::default(),
            fault: Arc::default(),
        };
        let (runtime, address) = shared.serve("127.0.0.1:0".parse().unwrap());
        Self {
            url: format!("http://{address}"),
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    /// Ends every connection, and refuses new ones until [`Self::restart`].
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Listens again at the same address.
    pub fn restart(&mut self) {
        self.runtime = Some(self.shared.serve(self.address).0);
    }

    /// Starts this fault with the next DELETE, until [`Self::recover`].
    pub fn start_fault(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = Some((fault, false));
    }

    /// Whether the DELETE that begins the fault has arrived.
    pub fn fault_has_begun(&self) -> bool {
        matches!(*self.shared.fault.lock().unwrap(), Some((_, true)))
    }

    /// Every DELETE that the proxy has accepted.
    pub fn deletes(&self) -> Vec<Delete> {
        self.shared.deletes.lock().unwrap().clone()
    }

    /// Lets `most` DELETEs pass, counted from the first. Later ones wait in the proxy until more may pass, even if
    /// their sender has ended.
    pub fn hold_deletes_after(&self, most: usize) {
        self.shared.most_deletes.send_replace(most);
    }

    /// Answers 503 to calls with this method and this part of a path, until [`Self::recover`].
    pub fn fail(&self, method: Method, part: &str) {
        *self.shared.failing.lock().unwrap() = Some((method, part.to_owned()));
    }

    /// Lets this many calls a second pass from now on, and answers 429 to the others.
    pub fn limit(&self, per_second: f64) {
        *self.shared.limit.lock().unwrap() = Some(Limit {
            per_second,
            tokens: per_second,
            at: Instant::now(),
        });
    }

    /// Calls Neutron under a host name that only the cloud knows, and for pages of at most this many rows. So the links
    /// of its pages lead to that host.
    pub fn hide_upstream(&self, host: &str, rows: usize) {
        *self.shared.hidden_host.lock().unwrap() = Some((host.to_owned(), rows));
    }

    /// Number of calls that the proxy passed on.
    pub fn passed_calls(&self) -> usize {
        self.shared.passed.load(Ordering::Relaxed)
    }

    /// Number of calls that the proxy answered with 429 or, by [`Self::fail`], with 503.
    pub fn failed_calls(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Ends the effects of [`Self::start_fault`] and [`Self::fail`].
    pub fn recover(&self) {
        *self.shared.failing.lock().unwrap() = None;
        *self.shared.fault.lock().unwrap() = None;
    }
}

/// Forwards a request in its own task, so that it is forwarded and recorded even if its sender has ended.
async fn pass(State(shared): State<Shared>, request: Request) -> Response<Body> {
    tokio::spawn(shared.forward(request)).await.unwrap()
}

impl Shared {
    /// Serves the proxy on a runtime of its own, whose end closes all connections.
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

    /// The fault that applies to this call. A DELETE begins it.
    fn active_fault(&self, method: &Method) -> Option<Fault> {
        let mut fault = self.fault.lock().unwrap();
        let (fault, begun) = fault.as_mut()?;
        *begun |= method == Method::DELETE;
        begun.then_some(*fault)
    }

    fn fails(&self, method: &Method, path: &str) -> bool {
        let failing = self.failing.lock().unwrap();
        let failing = failing.as_ref();
        failing.is_some_and(|(failing, part)| failing == method && path.contains(part))
    }

    fn refuses(&self) -> bool {
        let mut limit = self.limit.lock().unwrap();
        limit.as_mut().is_some_and(|limit| !limit.take_token())
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
        let fault = self.active_fault(&head.method);
        let is_row = head.uri.path().rsplit('/').next().is_some_and(is_id);
        match fault {
            Some(Fault::Slow) => tokio::time::sleep(SLOW).await,
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Fails) => {
                let failed = json!({"message": "the database is away"});
                return answer(StatusCode::SERVICE_UNAVAILABLE, &failed);
            }
            Some(Fault::FalseAccepted) if head.method == Method::DELETE => {
                return answer(StatusCode::ACCEPTED, &Value::Null);
            }
            Some(Fault::FalseNotFound) if head.method == Method::GET && is_row => {
                let absent =
                    json!({"itemNotFound": {"code": 404, "message": "could not be found"}});
                return answer(StatusCode::NOT_FOUND, &absent);
            }
            // The code below handles a busy service like a limit, and empties a list after its arrival.
            Some(
                Fault::Busy | Fault::FalseEmptyList | Fault::FalseAccepted | Fault::FalseNotFound,
            )
            | None => {}
        }
        if fault == Some(Fault::Busy) || self.refuses() {
            self.failed.fetch_add(1, Ordering::Relaxed);
            let words = json!({"error": {"code": 429, "message": "Too many requests"}});
            let mut refused = answer(StatusCode::TOO_MANY_REQUESTS, &words);
            refused
                .headers_mut()
                .insert("retry-after", "1".parse().unwrap());
            return refused;
        }
        self.passed.fetch_add(1, Ordering::Relaxed);
        let recorded = (head.method == Method::DELETE).then(|| {
            let mut deletes = self.deletes.lock().unwrap();
            deletes.push((path.clone(), None));
            deletes.len() - 1
        });
        if let Some(recorded) = recorded {
            let mut most = self.most_deletes.subscribe();
            most.wait_for(|most| recorded < *most).await.unwrap();
        }
        let mut headers = head.headers;
        headers.remove("host");
        let hidden_host = self.hidden_host.lock().unwrap().clone();
        let path = match hidden_host {
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
        if let Some(recorded) = recorded {
            self.deletes.lock().unwrap()[recorded].1 = Some(status.as_u16());
        }
        match fault {
            Some(Fault::FalseEmptyList) if is_list => passed.body(emptied(&body).into()).unwrap(),
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

/// The page of a list, without its rows and without its link to the next page.
fn emptied(page: &[u8]) -> String {
    let mut page: Value = serde_json::from_slice(page).unwrap();
    let fields = page.as_object_mut().unwrap();
    fields.retain(|_, value| value.is_array());
    fields.values_mut().for_each(|rows| *rows = json!([]));
    page.to_string()
}
