//! The OpenAPI document (`GET /openapi.json`), checked against the answers that these tests get by
//! [`crate::bench::answer`].
//!
//! The check is stricter than what the document demands of clients: a member that the document does not name is an
//! error here, so that the document names all members.

use std::sync::LazyLock;

use gone::frontends::api::description;
use reqwest::{Method, Request};
use serde_json::{Map, Value, json};

use crate::bench::{Bench, content_type};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(description()).expect("the document is JSON");
    let schemas = document["components"]["schemas"].clone();
    name_all_members(&mut document, &schemas);
    document
});

fn name_all_members(schema: &mut Value, schemas: &Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Array(parts)) = members.remove("allOf") {
                // Only the merged schema names all members.
                *schema = merged(parts, schemas);
                return name_all_members(schema, schemas);
            }
            if members.get("properties").is_some_and(Value::is_object) {
                // A schema that says itself which other members it allows stays as it is.
                let others = members.entry("additionalProperties");
                others.or_insert(json!(false));
            }
            let members = members.values_mut();
            members.for_each(|member| name_all_members(member, schemas));
        }
        Value::Array(elements) => {
            let elements = elements.iter_mut();
            elements.for_each(|element| name_all_members(element, schemas));
        }
        _ => {}
    }
}

/// Returns one object schema with the members of several.
fn merged(parts: Vec<Value>, schemas: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for mut part in parts {
        if let Some(reference) = part["$ref"].as_str() {
            part = schemas[reference.rsplit('/').next().unwrap()].clone();
        }
        if let Some(Value::Array(parts)) = part.get("allOf").cloned() {
            part = merged(parts, schemas);
        }
        properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
        required.extend(part["required"].as_array().cloned().unwrap_or_default());
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// The parts of a request that the document describes: method, path, names of query parameters, and JSON body.
pub struct DescribedRequest {
    method: Method,
    path: String,
    parameters: Vec<String>,
    body: Option<Value>,
}

impl DescribedRequest {
    pub fn of(request: &Request) -> Self {
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let names = request.url().query_pairs();
        Self {
            method: request.method().clone(),
            path: request.url().path().to_owned(),
            parameters: names.map(|(name, _)| name.into_owned()).collect(),
            body: body.and_then(|body| serde_json::from_slice(body).ok()),
        }
    }

    /// Asserts that the document describes the answer and, if the answer is a success, the request. The document
    /// describes no path below `/control/`.
    pub fn assert_described(&self, status: u16, content: &str, body: &Value) {
        if self.path.starts_with("/control/") {
            return;
        }
        let call = format!("{} {}", self.method, self.path);
        let Some(operation) = self.operation() else {
            assert!([404, 405].contains(&status), "{call} is not described");
            return;
        };
        let responses = &operation["responses"];
        let response = responses.get(status.to_string());
        assert!(
            response.is_some() || status >= 400,
            "{call}: {status} is not described"
        );
        let response = resolved(response.unwrap_or(&responses["default"]));
        assert_valid(&call, &response["content"][content]["schema"], body);
        if status < 400 {
            self.assert_request_described(&call, operation);
        }
    }

    fn assert_request_described(&self, call: &str, operation: &'static Value) {
        let parameters = elements(&operation["parameters"]).map(resolved);
        let parameters: Vec<&Value> = parameters.collect();
        // The members of an exploded object are parameters of any name.
        let takes_any_name =
            |it: &&Value| it["explode"] == true && it["schema"]["type"] == "object";
        for name in &self.parameters {
            let mut known = parameters
                .iter()
                .filter(|it| it["name"] == **name || takes_any_name(it));
            assert!(known.next().is_some(), "{call}: ?{name}=");
        }
        if let Some(body) = &self.body {
            let content = &operation["requestBody"]["content"]["application/json"];
            assert_valid(call, &content["schema"], body);
        }
    }

    fn operation(&self) -> Option<&'static Value> {
        let parts: Vec<&str> = self.path.split('/').collect();
        let fits = |template: &str| {
            let template: Vec<&str> = template.split('/').collect();
            let mut pairs = template.iter().zip(&parts);
            template.len() == parts.len()
                && pairs.all(|(wanted, part)| wanted.starts_with('{') || wanted == part)
        };
        let (_, path) = members(&DOCUMENT["paths"]).find(|(template, _)| fits(template))?;
        path.get(self.method.as_str().to_lowercase())
    }
}

fn assert_valid(call: &str, schema: &Value, instance: &Value) {
    assert!(
        schema.is_object(),
        "{call}: no schema describes this content"
    );
    // References are relative to the root of the document.
    let root = json!({"allOf": [schema], "components": DOCUMENT["components"]});
    let options = jsonschema::options().should_validate_formats(true);
    let validator = options.build(&root).expect("the schema is valid");
    let errors: Vec<String> = validator
        .iter_errors(instance)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{call}: {errors:#?}\n{instance:#}");
}

fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference} does not exist")),
        None => value,
    }
}

fn members(value: &'static Value) -> impl Iterator<Item = (&'static String, &'static Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn elements(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().into_iter().flatten()
}

/// Visits each value of the document, with its path.
fn visit_values(at: String, value: &'static Value, visit: &mut impl FnMut(&str, &'static Value)) {
    visit(&at, value);
    for (name, value) in members(value) {
        visit_values(format!("{at}/{name}"), value, visit);
    }
    for (number, value) in elements(value).enumerate() {
        visit_values(format!("{at}/{number}"), value, visit);
    }
}

#[test]
fn every_described_operation_has_texts_and_every_reference_resolves() {
    let mut names = Vec::new();
    for (template, operations) in members(&DOCUMENT["paths"]) {
        for (method, operation) in members(operations) {
            let at = format!("{method} {template}");
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{at}");
            assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{at}");
            names.push(operation["operationId"].as_str().unwrap());
            let in_template = template.matches('{').count();
            let parameters = elements(&operation["parameters"]).map(resolved);
            let in_path = parameters.filter(|it| it["in"] == "path");
            assert_eq!(in_path.count(), in_template, "{at}");
            for it in elements(&operation["parameters"]).map(resolved) {
                let described = [it, resolved(&it["schema"])];
                let words = described.map(|it| it["description"].is_string());
                assert!(
                    words.contains(&true) || it["schema"]["oneOf"].is_array(),
                    "{at}: {it}"
                );
            }
        }
    }
    let operations = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), operations, "{names:?}");
    visit_values(String::new(), &DOCUMENT, &mut |at, value| {
        if let Some(reference) = value["$ref"].as_str() {
            let referenced = DOCUMENT.pointer(reference.trim_start_matches('#'));
            assert!(referenced.is_some(), "{at}: {reference} does not exist");
        }
    });
}

#[tokio::test]
async fn the_openapi_document_is_served() {
    let bench = Bench::new().await;
    let (status, document) = bench.get("/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
}

#[tokio::test]
async fn every_described_path_is_served_with_exactly_its_methods() {
    let bench = Bench::new().await;
    for (template, operations) in members(&DOCUMENT["paths"]) {
        let part = |part: &str| if part.starts_with('{') { "x" } else { part }.to_owned();
        let path: Vec<String> = template.split('/').map(part).collect();
        let request = bench.request(Method::PUT, &path.join("/"));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 405, "{template}");
        let allowed = response.headers()["allow"].to_str().unwrap();
        let mut allowed: Vec<String> = allowed.split(',').map(str::to_lowercase).collect();
        allowed.retain(|method| method != "head");
        allowed.sort();
        let mut described: Vec<String> = members(operations)
            .map(|(method, _)| method.clone())
            .collect();
        described.sort();
        assert_eq!(allowed, described, "{template}");
    }
}

#[tokio::test]
async fn routes_without_json_are_described_with_their_content_type() {
    let bench = Bench::new().await;
    for (path, content) in [
        ("/metrics", "text/plain"),
        ("/api/v1/events", "text/event-stream"),
    ] {
        let response = bench.request(Method::GET, path).send().await.unwrap();
        let served = content_type(&response);
        assert_eq!(served.split(';').next(), Some(content));
        let described = &DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"];
        assert!(described[content].is_object(), "{path}: {described}");
    }
}
