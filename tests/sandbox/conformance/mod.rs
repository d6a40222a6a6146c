//! What real services answered, as a table of scenes that runs against any cloud: the sandbox in
//! process, and a real one (`tests/testbed`). Where they differ, the sandbox is wrong.
//!
//! A scene is a list of calls with what must come back. `$name` stands for the id of what an
//! earlier step saved, `$name.path.to.value` for a value in it; also in expected texts.
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

/// A project that nobody else uses, for the scene about default groups.
const LONELY_PROJECT: &str = "5b1ff7d2c0aa4d0f8d7d0c9f4c1e2a3b";

/// All scenes, by the services that they are about.
pub fn scenes() -> impl Iterator<Item = &'static Scene> {
    scenes::SCENES
        .iter()
        .chain(balancers::SCENES)
        .chain(servers::SCENES)
        .chain(volumes::SCENES)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    Admin,
    /// A member of another project.
    Demo,
    BadToken,
}

/// Whose API a step calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    Network,
    LoadBalancer,
    Image,
    Compute,
    BlockStorage,
}

impl Service {
    /// Its type in the catalog.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::Image => "image",
            Self::Compute => "compute",
            Self::BlockStorage => "block-storage",
        }
    }

    /// What follows the catalog's URL, whose own version is cut off.
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
    pub who: Who,
    pub service: Service,
    pub method: &'a str,
    /// Behind the service's root.
    pub path: &'a str,
    pub body: Option<Value>,
    pub if_match: Option<&'a str>,
    /// Beside the usual ones, or instead of them; an empty value takes one away.
    pub headers: &'a [(&'static str, &'static str)],
}

/// What an upload sends; its step's body is the text.
const OCTETS: &str = "application/octet-stream";
/// What Glance takes for a patch.
const IMAGE_PATCH: &str = "application/openstack-images-v2.1-json-patch";

impl Request<'_> {
    /// All headers but the token.
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
    /// A body that is no JSON is its text.
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
pub struct Target<'a> {
    /// Of the network service; ends with `/v2.0`.
    pub url: String,
    /// Of the load-balancer service; ends with `/lbaas`.
    pub balancers_url: String,
    pub demo_project: String,
    pub send: &'a mut dyn FnMut(&Request<'_>) -> Answer,
    /// Lets time pass: what is pending goes on.
    pub wait: &'a mut dyn FnMut(),
}

/// How often a step that waits looks again.
const LOOKS_MAX: usize = 300;

pub struct Step {
    who: Who,
    service: Service,
    method: &'static str,
    path: &'static str,
    body: &'static str,
    if_match: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    status: u16,
    error: Option<(&'static str, &'static str)>,
    /// JSON pointer and the value there, as JSON.
    shows: Vec<(&'static str, &'static str)>,
    /// The same, with what comes after it.
    passing: Vec<[&'static str; 3]>,
    /// JSON pointer to an object, and its keys, sorted.
    keys: Option<(&'static str, &'static str)>,
    save: Option<&'static str>,
    /// Asks again until the answer is as wanted.
    until: bool,
    pub rows: Vec<&'static str>,
}

fn step(method: &'static str, path: &'static str) -> Step {
    Step {
        who: Who::Admin,
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
        passing: Vec::new(),
        keys: None,
        save: None,
        until: false,
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

    fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    fn at(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// Asks again until the answer is as wanted: for what takes its time.
    fn until(mut self) -> Self {
        self.until = true;
        self
    }

    fn if_match(mut self, value: &'static str) -> Self {
        self.if_match = Some(value);
        self
    }

    /// Beside the usual headers, or instead of one; an empty value takes it away.
    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn save(mut self, name: &'static str) -> Self {
        self.save = Some(name);
        self
    }

    /// The status, Neutron's type (none elsewhere) and the whole message; `*` where the message is not
    /// always the same.
    fn refuses(mut self, status: u16, kind: &'static str, message: &'static str) -> Self {
        self.status = status;
        self.error = Some((kind, message));
        self
    }

    fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// A word that a slow client finds replaced by the next one already.
    fn passing(mut self, pointer: &'static str, word: &'static str, next: &'static str) -> Self {
        self.passing.push([pointer, word, next]);
        self
    }

    fn shows(mut self, pointer: &'static str, value: &'static str) -> Self {
        self.shows.push((pointer, value));
        self
    }

    fn keys(mut self, pointer: &'static str, keys: &'static str) -> Self {
        self.keys = Some((pointer, keys));
        self
    }

    /// The row of BEHAVIOUR.md that it shows.
    fn row(mut self, key: &'static str) -> Self {
        self.rows.push(key);
        self
    }
}

/// Runs a scene; panics with the step that came out otherwise. What it made is removed.
pub fn run(target: &mut Target<'_>, name: &str) {
    let (_, scene) = scenes()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("no scene {name}"));
    let mut stage = Stage {
        saved: BTreeMap::from([
            ("url".to_owned(), json!(target.url)),
            ("balancers_url".to_owned(), json!(target.balancers_url)),
            ("demo".to_owned(), json!(target.demo_project)),
            ("lonely".to_owned(), json!(LONELY_PROJECT)),
            ("fresh".to_owned(), json!(uuid::Uuid::new_v4().to_string())),
            (
                "gone".to_owned(),
                json!("11111111-2222-4333-8444-555555555555"),
            ),
        ]),
        made: Vec::new(),
    };
    let problems: Vec<String> = scene()
        .iter()
        .filter_map(|step| stage.play(target, step).err())
        .collect();
    stage.clean_up(target);
    assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
}

struct Stage {
    saved: BTreeMap<String, Value>,
    /// What takes back what was made, oldest first.
    made: Vec<Made>,
}

/// An image that is protected must be given free before it goes.
fn made_image(image: &Value) -> [Made; 2] {
    let path = format!("/images/{}", image["id"].as_str().unwrap_or_default());
    let free = json!([{"op": "replace", "path": "/protected", "value": false}]);
    [("DELETE", None), ("PATCH", Some(free))].map(|(method, body)| Made {
        service: Service::Image,
        method,
        path: path.clone(),
        body,
    })
}

struct Made {
    service: Service,
    method: &'static str,
    path: String,
    body: Option<Value>,
}

impl Stage {
    fn play(&mut self, target: &mut Target<'_>, step: &Step) -> Result<(), String> {
        let mut played = self.play_once(target, step);
        for _ in 0..LOOKS_MAX {
            if !step.until || played.is_ok() {
                break;
            }
            (target.wait)();
            played = self.play_once(target, step);
        }
        played
    }

    fn play_once(&mut self, target: &mut Target<'_>, step: &Step) -> Result<(), String> {
        let path = self.fill(step.path);
        let body = (!step.body.is_empty()).then(|| {
            serde_json::from_str::<Value>(&self.fill(step.body))
                .unwrap_or_else(|error| panic!("{error} in {}", step.body))
        });
        let answer = (target.send)(&Request {
            who: step.who,
            service: step.service,
            method: step.method,
            path: &path,
            body: body.clone(),
            if_match: step.if_match,
            headers: &step.headers,
        });
        let seen = format!(
            "{} {path} {:?} -> {} {}",
            step.method, step.body, answer.status, answer.body
        );
        self.remember(step, &path, body, &answer);
        if answer.status != step.status {
            return Err(format!("{seen}\n    wanted status {}", step.status));
        }
        if let Some((kind, message)) = step.error {
            let (kind_is, message_is) = error_of(&answer.body);
            let message = self.fill(message);
            if kind_is != kind || (message != "*" && message_is != message) {
                return Err(format!("{seen}\n    wanted {kind}: {message}"));
            }
        }
        for (pointer, value) in &step.shows {
            let wanted: Value = serde_json::from_str(&self.fill(value))
                .unwrap_or_else(|error| panic!("{error} in {value}"));
            let found = answer.body.pointer(pointer).cloned().unwrap_or(Value::Null);
            if found != wanted {
                return Err(format!("{seen}\n    wanted {pointer} = {wanted}"));
            }
        }
        for [pointer, word, next] in &step.passing {
            let found = answer.body.pointer(pointer).and_then(Value::as_str);
            if found != Some(word) && found != Some(next) {
                return Err(format!("{seen}\n    wanted {pointer} = {word}, or {next}"));
            }
        }
        if let Some((pointer, wanted)) = step.keys {
            let shown = answer.body.pointer(pointer).and_then(Value::as_object);
            let mut keys: Vec<&str> = shown
                .into_iter()
                .flat_map(|map| map.keys())
                .map(String::as_str)
                .collect();
            keys.sort_unstable();
            let wanted: Vec<&str> = wanted.split_whitespace().collect();
            if keys != wanted {
                return Err(format!("{seen}\n    wanted keys {wanted:?}"));
            }
        }
        Ok(())
    }

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
        let goes_with_balancer = step.service == Service::LoadBalancer && path != "/loadbalancers";
        if step.method == "POST" && path == "/images" {
            self.made.extend(made_image(&resource));
        } else if step.method == "POST" && path == "/groups" {
            // There is no DELETE of a group.
            self.made.push(Made {
                service: step.service,
                method: "POST",
                path: format!("/groups/{}/action", resource["id"].as_str().unwrap()),
                body: Some(json!({"delete": {"delete-volumes": true}})),
            });
        } else if step.method == "POST" && !goes_with_balancer {
            for one in answer
                .body
                .as_object()
                .into_iter()
                .flat_map(|map| map.values())
            {
                let items = one.as_array().cloned().unwrap_or_else(|| vec![one.clone()]);
                for item in items {
                    if let Some(id) = item["id"].as_str() {
                        self.made.push(Made {
                            service: step.service,
                            method: "DELETE",
                            path: format!("{path}/{id}"),
                            body: None,
                        });
                    }
                }
            }
        } else if path.ends_with("/add_router_interface") {
            self.made.push(Made {
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

    /// Newest first, and again: what the first pass could not remove may have waited for another.
    fn clean_up(&self, target: &mut Target<'_>) {
        for _ in 0..2 {
            for made in self.made.iter().rev() {
                if let Some(path) = slow_removal(made) {
                    remove_slowly(target, made, &path);
                    continue;
                }
                (target.send)(&Request {
                    who: Who::Admin,
                    service: made.service,
                    method: made.method,
                    path: &made.path,
                    body: made.body.clone(),
                    if_match: None,
                    headers: &[],
                });
            }
        }
    }

    /// Replaces `$name`, `$name.path` and, where a dot follows, `${name}`.
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
            .unwrap_or_else(|| panic!("nothing saved as {name}"));
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

/// The call that removes what takes its time to go, with what is inside it.
fn slow_removal(made: &Made) -> Option<String> {
    let is_slow = !matches!(made.service, Service::Network | Service::Image);
    let takes_all = ["/loadbalancers/", "/volumes/"];
    let takes_all = takes_all.iter().any(|all| made.path.starts_with(all));
    let query = if takes_all { "?cascade=true" } else { "" };
    is_slow.then(|| format!("{}{query}", made.path))
}

/// Asks until it is gone: something that is pending, or in use by what goes, is refused for a while.
fn remove_slowly(target: &mut Target<'_>, made: &Made, path: &str) {
    for _ in 0..LOOKS_MAX {
        let answer = (target.send)(&Request {
            who: Who::Admin,
            service: made.service,
            method: made.method,
            path,
            headers: &[],
            body: made.body.clone(),
            if_match: None,
        });
        if answer.status == 404 {
            return;
        }
        (target.wait)();
    }
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
    // Glance's JSON is its page's text.
    if let Some(message) = body.get("message") {
        let message = text(message).replace("<br /><br />", "");
        return (String::new(), message.trim().to_owned());
    }
    let Some(error) = body.get("NeutronError").or(body.get("error")) else {
        // Nova's and Cinder's have one name for each status.
        let named = body.as_object().and_then(|body| body.iter().next());
        return named.map_or_else(Default::default, |(name, error)| {
            (name.clone(), text(&error["message"]))
        });
    };
    let kind = error.get("type").unwrap_or(&error["title"]);
    (text(kind), text(&error["message"]))
}
