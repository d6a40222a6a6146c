//! The API over a real socket in a folder of its own, in front of a fake control.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gone::frontends::api::{ApiHandle, ServeOptions, serve};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use tempfile::TempDir;

use crate::fake::Fake;
use crate::openapi::DescribedRequest;

pub const DEADLINE: Duration = Duration::from_secs(10);

pub struct Bench {
    pub fake: Arc<Fake>,
    pub http: Client,
    pub socket: PathBuf,
    pub api: ApiHandle,
    folder: TempDir,
}

impl Bench {
    pub async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("run/gone.sock");
        let fake = Fake::new(1);
        let api = serve(fake.clone(), options(&socket)).await.unwrap();
        Self {
            fake,
            http: client(&socket),
            socket,
            api,
            folder,
        }
    }

    /// Stops the API, and serves another control on the same socket. `while_away` runs in between.
    pub async fn replace(self, fake: Arc<Fake>, while_away: impl AsyncFnOnce()) -> Self {
        self.api.stop().await;
        while_away().await;
        let api = serve(fake.clone(), options(&self.socket)).await.unwrap();
        Self {
            fake,
            api,
            http: self.http,
            socket: self.socket,
            folder: self.folder,
        }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("http://gone{path}"))
            .timeout(DEADLINE)
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(&body)).await
    }
}

pub fn options(socket: &std::path::Path) -> ServeOptions {
    ServeOptions {
        socket_check: Duration::from_millis(20),
        ..ServeOptions::new(socket.to_path_buf())
    }
}

pub fn client(socket: &std::path::Path) -> Client {
    Client::builder().unix_socket(socket).build().unwrap()
}

/// Sends a request, and returns the status and the JSON of the answer. Asserts that the OpenAPI document describes the
/// answer and, after a success, the request; and that an error is a problem document with the same status.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let described = DescribedRequest::of(&request);
    let response = client.execute(request).await.unwrap();
    let status = response.status().as_u16();
    let content = content_type(&response);
    let body: Value = response.json().await.unwrap();
    if status >= 400 {
        assert_eq!(content, "application/problem+json", "{body}");
        assert_eq!(body["status"], status, "{body}");
        for member in ["type", "title", "detail"] {
            assert!(!body[member].as_str().unwrap().is_empty(), "{body}");
        }
    } else {
        assert_eq!(content, "application/json", "{body}");
    }
    described.assert_described(status, &content, &body);
    (status, body)
}

pub fn content_type(response: &Response) -> String {
    let content = &response.headers()["content-type"];
    content.to_str().unwrap().to_owned()
}

/// Waits until the condition holds; fails at the deadline.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
