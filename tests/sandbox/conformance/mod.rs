//! The conformance table: scenes that run against any cloud. `tests/sandbox` runs them against the practice cloud in
//! its own process, `tests/testbed` against real services. Where the two differ, the practice cloud is wrong.
//!
//! A scene is a list of steps: calls, each with its expected answer. In a path, a body or an expected text, `$name`
//! stands for the id of the resource that an earlier step saved, and `$name.path.to.value` for a value in it.
//! [`run`] sets `$url`, `$balancers_url`, `$demo`, `$lonely`, `$fresh` and `$gone` before the first step.
mod balancers;
mod image_files;
mod image_lists;
mod images;
mod more_network;
pub mod rows;
mod scenes;
mod servers;
mod volumes;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use scenes::Scene;

/// A project that only the scene about default security groups uses.
const LONELY_PROJECT: &str = "5b1ff7d2c0aa4d0f8d7d0c9f4c1e2a3b";

/// All scenes, ordered by service.
pub fn scenes() -> impl Iterator<Item = &'static Scene> {
    scenes::SCENES
        .iter()
        .chain(balancers::SCENES)
        .chain(servers::SCENES)
        .chain(volumes::SCENES)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Caller {
    Admin,
    /// A member of a project other than that of the admin.
    Demo,
    BadToken,
}

/// The service whose API a step calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    Network,
    LoadBalancer,
    Image,
    Compute,
    BlockStorage,
}

impl Service {
    /// The type of the service in the catalog.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::Image => "image",
            Self::Compute => "compute",
            Self::BlockStorage => "block-storage",
        }
    }

    /// The path that follows the service's URL in the catalog, once that URL's own version is removed.
    pub fn root(self) -> &'static str {
        match self {
            Self::Network => "/v2.0",
            Self::LoadBalancer => "/v2.0/lbaas",
            Self::Image => "/v2",
            Self::Compute => "/v2.1",
            Self::BlockStorage => "/v3",
        }
    }
}

pub struct Request<'a> {
    pub caller: Caller,
    pub service: Service,
    pub method: &'a str,
    /// The path below the service's root.
    pub path: &'a str,
    pub body: Option<Value>,
    pub if_match: Option<&'a str>,
    /// Headers that are added or replaced; an empty value removes a header.
    pub headers: &'a [(&'static str, &'static str)],
}

/// The media type of an upload. The body of its step is a JSON string, whose text is sent.
const OCTETS: &str = "application/octet-stream";
/// The media type of Glance's PATCH.
const IMAGE_PATCH: &str = "application/openstack-images-v2.1-json-patch";

impl Request<'_> {
    /// Returns all headers except the token.
    pub fn all_headers(&self) -> Vec<(&str, &str)> {
        let media = match self.method {
            "PATCH" => IMAGE_PATCH,
            _ => "application/json",
        };
        let mut headers = vec![("accept", "application/json")];
        headers.extend(self.body.is_some().then_some(("content-type", media)));
        headers.extend(self.if_match.map(|value| ("if-match", value)));
        for (name, value) in self.headers {
            headers.retain(|(known, _)| known != name);
            headers.extend((!value.is_empty()).then_some((*name, *value)));
        }
        headers
    }

    /// Returns the body as it is sent.
    pub fn bytes(&self) -> Bytes {
        let is_file = self.headers.contains(&("content-type", OCTETS));
        match &self.body {
            None => Bytes::new(),
            Some(Value::String(text)) if is_file => Bytes::from(text.clone()),
            Some(body) => Bytes::from(body.to_string()),
        }
    }
}

pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// Makes an answer. A body that is not JSON becomes a string, an empty body `null`.
    pub fn new(status: u16, body: &[u8]) -> Self {
        let text = || match String::from_utf8_lossy(body).into_owned() {
            text if text.is_empty() => Value::Null,
            text => text.into(),
        };
        Self {
            status,
            body: serde_json::from_slice(body).unwrap_or_else(|_| text()),
        }
    }
}

/// A cloud under test.
pub struct TestedCloud<'a> {
    /// The URL of the network service; ends with `/v2.0`.
    pub url: String,
    /// The URL of the load-balancer service; ends with `/lbaas`.
    pub balancers_url: String,
    pub demo_project: String,
    pub send: &'a mut dyn FnMut(&Request<'_>) -> Answer,
    /// Lets time pass, so that pending changes can end.
    pub wait: &'a mut dyn FnMut(),
}

/// Maximum number of repeats of a call whose answer is not yet the expected one.
const REPEATS_MAX: usize = 300;

pub struct Step {
    caller: Caller,
    service: Service,
    method: &'static str,
    path: &'static str,
    body: &'static str,
    if_match: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    status: u16,
    error: Option<(&'static str, &'static str)>,
    /// JSON pointers, and the expected values as JSON.
    shows: Vec<(&'static str, &'static str)>,
    /// JSON pointers, each with two expected texts, either of which will do.
    shows_either: Vec<[&'static str; 3]>,
    /// A JSON pointer to an object, and the object's keys, sorted.
    keys: Option<(&'static str, &'static str)>,
    save: Option<&'static str>,
    /// Repeats the call until the answer is the expected one.
    eventually: bool,
    /// Keys in [`rows::ROWS`] of the rows that the step shows.
    pub rows: Vec<&'static str>,
}

fn step(method: &'static str, path: &'static str) -> Step {
    Step {
        caller: Caller::Admin,
        service: Service::Network,
        method,
        path,
        body: "",
        if_match: None,
        headers: Vec::new(),
        status: match method {
            "POST" => 201,
            "DELETE" => 204,
            _ => 200,
        },
        error: None,
        shows: Vec::new(),
        shows_either: Vec::new(),
        keys: None,
        save: None,
        eventually: false,
        rows: Vec::new(),
    }
}

fn get(path: &'static str) -> Step {
    step("GET", path)
}

fn post(path: &'static str, body: &'static str) -> Step {
    step("POST", path).body(body)
}

fn put(path: &'static str, body: &'static str) -> Step {
    step("PUT", path).body(body)
}

fn patch(path: &'static str, body: &'static str) -> Step {
    step("PATCH", path).body(body)
}

fn delete(path: &'static str) -> Step {
    step("DELETE", path)
}

impl Step {
    fn body(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    fn by(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    fn at(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// Repeats the call until the answer is the expected one, for changes that take time.
    fn eventually(mut self) -> Self {
        self.eventually = true;
        self
    }

    fn if_match(mut self, value: &'static str) -> Self {
        self.if_match = Some(value);
        self
    }

    /// Adds or replaces a header; an empty value removes it.
    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Saves the resource in the answer under this name.
    fn save(mut self, name: &'static str) -> Self {
        self.save = Some(name);
        self
    }

    /// Expects an error: its status, its type or title (empty where the service has none), and its whole message.
    /// `*` stands for any message.
    fn refuses(mut self, status: u16, kind: &'static str, message: &'static str) -> Self {
        self.status = status;
        self.error = Some((kind, message));
        self
    }

    fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Expects this text at this JSON pointer, or the next text, which may have replaced it before a slow client reads.
    fn shows_either(
        mut self,
        pointer: &'static str,
        text: &'static str,
        next: &'static str,
    ) -> Self {
        self.shows_either.push([pointer, text, next]);
        self
    }

    /// Expects a value, given as JSON, at this JSON pointer.
    fn shows(mut self, pointer: &'static str, value: &'static str) -> Self {
        self.shows.push((pointer, value));
        self
    }

    /// Expects exactly these keys, sorted, in the object at this JSON pointer.
    fn keys(mut self, pointer: &'static str, keys: &'static str) -> Self {
        self.keys = Some((pointer, keys));
        self
    }

    /// Names a row of BEHAVIOUR.md that the step shows, by its key in [`rows::ROWS`].
    fn row(mut self, key: &'static str) -> Self {
        self.rows.push(key);
        self
    }
}

/// Runs a scene, and deletes the resources that it created. Panics with the steps whose answers were not the expected
/// ones, and with the resources that are still there.
pub fn run(cloud: &mut TestedCloud<'_>, name: &str) {
    let (_, scene) = scenes()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("there is no scene {name}"));
    let mut scene_run = SceneRun {
        saved: BTreeMap::from([
            ("url".to_owned(), json!(cloud.url)),
            ("balancers_url".to_owned(), json!(cloud.balancers_url)),
            ("demo".to_owned(), json!(cloud.demo_project)),
            ("lonely".to_owned(), json!(LONELY_PROJECT)),
            ("fresh".to_owned(), json!(uuid::Uuid::new_v4().to_string())),
            (
                "gone".to_owned(),
                json!("11111111-2222-4333-8444-555555555555"),
            ),
        ]),
        cleanups: Vec::new(),
    };
    let mut problems: Vec<String> = scene()
        .iter()
        .filter_map(|step| scene_run.run_step(cloud, step).err())
        .collect();
    problems.extend(scene_run.clean_up(cloud));
    assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
}

/// A scene while it runs.
struct SceneRun {
    saved: BTreeMap<String, Value>,
    /// The calls that delete the resources which the scene created, the oldest resource first.
    cleanups: Vec<Cleanup>,
}

/// The calls that delete an image, in reverse order: a protected image must be unprotected first.
fn image_cleanups(image: &Value) -> [Cleanup; 2] {
    let path = format!("/images/{}", image["id"].as_str().unwrap_or_default());
    let unprotect = json!([{"op": "replace", "path": "/protected", "value": false}]);
    [("DELETE", None), ("PATCH", Some(unprotect))].map(|(method, body)| Cleanup {
        service: Service::Image,
        method,
        path: path.clone(),
        body,
    })
}

/// A call that deletes a resource which a step created, or that makes its deletion possible.
struct Cleanup {
    service: Service,
    method: &'static str,
    path: String,
    body: Option<Value>,
}

impl SceneRun {
    fn run_step(&mut self, cloud: &mut TestedCloud<'_>, step: &Step) -> Result<(), String> {
        let mut result = self.run_once(cloud, step);
        for _ in 0..REPEATS_MAX {
            if !step.eventually || result.is_ok() {
                break;
            }
            (cloud.wait)();
            result = self.run_once(cloud, step);
        }
        result
    }

    fn run_once(&mut self, cloud: &mut TestedCloud<'_>, step: &Step) -> Result<(), String> {
        let path = self.fill(step.path);
        let body = (!step.body.is_empty()).then(|| {
            serde_json::from_str::<Value>(&self.fill(step.body))
                .unwrap_or_else(|error| panic!("{error} in {}", step.body))
        });
        let answer = (cloud.send)(&Request {
            caller: step.caller,
            service: step.service,
            method: step.method,
            path: &path,
            body: body.clone(),
            if_match: step.if_match,
            headers: &step.headers,
        });
        let exchange = format!(
            "{} {path} {:?} -> {} {}",
            step.method, step.body, answer.status, answer.body
        );
        self.remember(step, &path, body, &answer);
        if answer.status != step.status {
            return Err(format!("{exchange}\n    expected status {}", step.status));
        }
        if let Some((kind, message)) = step.error {
            let (kind_is, message_is) = error_of(&answer.body);
            let message = self.fill(message);
            if kind_is != kind || (message != "*" && message_is != message) {
                return Err(format!("{exchange}\n    expected {kind}: {message}"));
            }
        }
        for (pointer, value) in &step.shows {
            let expected: Value = serde_json::from_str(&self.fill(value))
                .unwrap_or_else(|error| panic!("{error} in {value}"));
            let found = answer.body.pointer(pointer).cloned().unwrap_or(Value::Null);
            if found != expected {
                return Err(format!("{exchange}\n    expected {pointer} = {expected}"));
            }
        }
        for [pointer, text, next] in &step.shows_either {
            let found = answer.body.pointer(pointer).and_then(Value::as_str);
            if found != Some(text) && found != Some(next) {
                return Err(format!(
                    "{exchange}\n    expected {pointer} = {text}, or {next}"
                ));
            }
        }
        if let Some((pointer, expected)) = step.keys {
            let shown = answer.body.pointer(pointer).and_then(Value::as_object);
            let mut keys: Vec<&str> = shown
                .into_iter()
                .flat_map(|map| map.keys())
                .map(String::as_str)
                .collect();
            keys.sort_unstable();
            let expected: Vec<&str> = expected.split_whitespace().collect();
            if keys != expected {
                return Err(format!("{exchange}\n    expected keys {expected:?}"));
            }
        }
        Ok(())
    }

    /// Saves the resource of a successful answer if the step says so, and adds the calls that delete it.
    fn remember(&mut self, step: &Step, path: &str, body: Option<Value>, answer: &Answer) {
        if answer.status >= 300 {
            return;
        }
        let resource = match answer.body.as_object() {
            Some(map) if map.len() == 1 => map.values().next().cloned().unwrap_or_default(),
            _ => answer.body.clone(),
        };
        let resource = match resource {
            Value::Array(items) => items.into_iter().next().unwrap_or_default(),
            other => other,
        };
        let is_deleted_with_balancer =
            step.service == Service::LoadBalancer && path != "/loadbalancers";
        if step.method == "POST" && path == "/images" {
            self.cleanups.extend(image_cleanups(&resource));
        } else if step.method == "POST" && path == "/groups" {
            // Cinder has no DELETE of a group.
            self.cleanups.push(Cleanup {
                service: step.service,
                method: "POST",
                path: format!("/groups/{}/action", resource["id"].as_str().unwrap()),
                body: Some(json!({"delete": {"delete-volumes": true}})),
            });
        } else if step.method == "POST" && !is_deleted_with_balancer {
            for one in answer
                .body
                .as_object()
                .into_iter()
                .flat_map(|map| map.values())
            {
                let items = one.as_array().cloned().unwrap_or_else(|| vec![one.clone()]);
                for item in items {
                    if let Some(id) = item["id"].as_str() {
                        self.cleanups.push(Cleanup {
                            service: step.service,
                            method: "DELETE",
                            path: format!("{path}/{id}"),
                            body: None,
                        });
                    }
                }
            }
        } else if path.ends_with("/add_router_interface") {
            self.cleanups.push(Cleanup {
                service: step.service,
                method: "PUT",
                path: path.replace("/add_", "/remove_"),
                body,
            });
        }
        if let Some(name) = step.save {
            self.saved.insert(name.to_owned(), resource);
        }
    }

    /// Deletes the resources that the scene created, the newest first. Makes two passes, because another resource may
    /// have blocked a deletion in the first one. Returns a line for each resource that is then still there.
    fn clean_up(&self, cloud: &mut TestedCloud<'_>) -> Vec<String> {
        let mut left = Vec::new();
        for _ in 0..2 {
            left.clear();
            for cleanup in self.cleanups.iter().rev() {
                left.extend(clean_up_one(cloud, cleanup));
            }
        }
        left
    }

    /// Replaces `$name`, `$name.path` and `${name}`; the last form is for a name that a dot follows.
    fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            if let Some((word, after)) = after
                .strip_prefix('{')
                .and_then(|after| after.split_once('}'))
            {
                filled.push_str(&self.value(word));
                rest = after;
                continue;
            }
            let end = after
                .find(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '.'))
                .unwrap_or(after.len());
            let word = after[..end].trim_end_matches('.');
            if word.is_empty() {
                filled.push('$');
                rest = after;
                continue;
            }
            filled.push_str(&self.value(word));
            rest = &after[word.len()..];
        }
        filled + rest
    }

    fn value(&self, word: &str) -> String {
        let (name, path) = word.split_once('.').unwrap_or((word, "id"));
        let saved = self
            .saved
            .get(name)
            .unwrap_or_else(|| panic!("no step saved {name}"));
        if let Some(text) = saved.as_str() {
            return text.to_owned();
        }
        let pointer = format!("/{}", path.replace('.', "/"));
        match saved.pointer(&pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => panic!("no {pointer} in {saved}"),
        }
    }
}

/// The path that deletes a resource with its children, if its deletion takes time; `None` if the service deletes it
/// at once.
fn slow_delete_path(cleanup: &Cleanup) -> Option<String> {
    let is_slow = !matches!(cleanup.service, Service::Network | Service::Image);
    let cascading = ["/loadbalancers/", "/volumes/"];
    let cascades = cascading.iter().any(|path| cleanup.path.starts_with(path));
    let query = if cascades { "?cascade=true" } else { "" };
    is_slow.then(|| format!("{}{query}", cleanup.path))
}

/// Deletes a resource. A delete that takes time is repeated until the answer is 404: while a resource is pending, or
/// used by another one that is being deleted, its deletion is refused. Returns why the resource is still there.
fn clean_up_one(cloud: &mut TestedCloud<'_>, cleanup: &Cleanup) -> Option<String> {
    let slow_path = slow_delete_path(cleanup);
    let path = slow_path.as_ref().unwrap_or(&cleanup.path);
    let mut answer = send_cleanup(cloud, cleanup, path);
    if slow_path.is_some() {
        for _ in 1..REPEATS_MAX {
            if answer.status == 404 {
                break;
            }
            (cloud.wait)();
            answer = send_cleanup(cloud, cleanup, path);
        }
    }
    let is_gone = answer.status == 404 || slow_path.is_none() && answer.status < 300;
    let Cleanup { method, .. } = cleanup;
    let (status, body) = (answer.status, answer.body);
    (!is_gone).then(|| format!("cleaning up: {method} {path} -> {status} {body}"))
}

fn send_cleanup(cloud: &mut TestedCloud<'_>, cleanup: &Cleanup, path: &str) -> Answer {
    (cloud.send)(&Request {
        caller: Caller::Admin,
        service: cleanup.service,
        method: cleanup.method,
        path,
        headers: &[],
        body: cleanup.body.clone(),
        if_match: None,
    })
}

/// The type (or title) and the message of an error, in the shape of any of the services.
fn error_of(body: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    if let Some(message) = body.get("faultstring") {
        return (String::new(), text(message));
    }
    if let Some(message) = body.get("description") {
        return (text(&body["title"]), text(message));
    }
    // Glance's JSON has the text of its HTML page.
    if let Some(message) = body.get("message") {
        let message = text(message).replace("<br /><br />", "");
        return (String::new(), message.trim().to_owned());
    }
    let Some(error) = body.get("NeutronError").or(body.get("error")) else {
        // In Nova's and Cinder's errors, the only key is a name of the status.
        let named = body.as_object().and_then(|body| body.iter().next());
        return named.map_or_else(Default::default, |(name, error)| {
            (name.clone(), text(&error["message"]))
        });
    };
    let kind = error.get("type").unwrap_or(&error["title"]);
    (text(kind), text(&error["message"]))
}
